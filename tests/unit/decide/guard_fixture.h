/* guard_fixture.h - cases of the guard's checks: what is set, what is proposed, what comes of it and why. */
#ifndef TESTS_UNIT_DECIDE_GUARD_FIXTURE_H
#define TESTS_UNIT_DECIDE_GUARD_FIXTURE_H

#include "tests/unit/decide/decide_fixture.h"

struct guard_case {
    const char *what;
    void (*set)(struct fix *f);
    int proposed, executed;
    enum guard_check check;
    enum guard_verdict verdict;
    const char *words; /* part of the explanation; NULL: any */
};

/* Growth would be refused for want of evidence; tests of later checks switch that off. */
static inline void no_audit(struct fix *f)
{
    f->cfg.guard.auditor = GUARD_AUDITOR_OFF;
}

static inline void run_cases(const struct guard_case *c, size_t n, void (*before)(struct fix *))
{
    static struct fix f;
    char words[256];
    for (size_t i = 0; i < n; i++, c++) {
        fix_init(&f, "ppo", true);
        if (before)
            before(&f);
        if (c->set)
            c->set(&f);
        int executed = fix_ask(&f, c->proposed);
        const struct guard_result *r = &f.record.chain[c->check];
        guard_explain(r, words, sizeof words);
        if (executed != c->executed || r->verdict != c->verdict ||
            (c->words && !strstr(words, c->words)))
            fail_msg("%s: executed %d (expected %d), said \"%s\"", c->what, executed, c->executed,
                     words);
        assert_int_equal(r->check, c->check);
    }
}
#define RUN(cases, before) run_cases(cases, sizeof(cases) / sizeof((cases)[0]), before)

static inline void safe_9(struct fix *f)
{
    f->cfg.spec.units_min_safe = 9;
}

static inline void watched(struct fix *f)
{
    f->state.guard.watch_until_us = f->view.now_us + FIX_S;
}

#endif
