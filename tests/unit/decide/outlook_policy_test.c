/* outlook_policy_test.c - the outlook counts how often its size turned and moves less when that was too often. */
#include "decide/outlook.h"

#include "base/mem.h"
#include "tests/unit/decide/decide_fixture.h"

struct outlook_fix {
    struct fix f;
    struct outlook outlook;
};

static void start(struct outlook_fix *o, double calm)
{
    struct err e;
    assert_ok(outlook_new(3, &o->outlook, &e), &e);
    fix_config(&o->f, "outlook", true);
    o->f.cfg.outlook = &o->outlook;
    o->f.cfg.main.opt.outlook.calm = calm;
    fix_start(&o->f);
}

/* One step at the size that is there; what the policy proposes. */
static int proposal(struct outlook_fix *o)
{
    struct fix *f = &o->f;
    decide_capacity(&f->cfg, &f->view, &f->state, &f->rng, &f->state, &f->plan, &f->record);
    return f->record.proposed;
}

/* The size swings between 10 and 12 every `steps` steps, n times, whatever is proposed. */
static void swing(struct outlook_fix *o, int steps, int n)
{
    for (int i = 0; i < steps * n; i++) {
        fix_units(&o->f, i / steps % 2 ? 12 : 10, 0);
        (void)proposal(o);
        fix_tick(&o->f);
    }
}

static float flips(const struct outlook_fix *o)
{
    return o->f.state.memory.outlook.flips;
}

TEST(turns_within_ten_minutes_are_counted_and_leak_away_as_they_are_allowed)
{
    static const struct {
        const char *what;
        double calm;
        int steps, n;
        double want;
    } cases[] = {
        {"a turn every two minutes", 0, 8, 5, 3},
        {"at ten minutes sharp it is one", 0, 40, 5, 3},
        {"later it is none", 0, 41, 5, 0},
        {"an hour leaks a twenty-fourth of a day's", 24, 8, 5, 3 - 24.0 * 24 * 15 / 86400},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        static struct outlook_fix o;
        start(&o, cases[i].calm);
        swing(&o, cases[i].steps, cases[i].n);
        if (!(fabs((double)flips(&o) - cases[i].want) < 0.02))
            fail_msg("%s: %g, expected %g", cases[i].what, (double)flips(&o), cases[i].want);
        outlook_fini(&o.outlook);
    }
}

TEST(after_too_many_turns_less_is_removed_and_less_is_added_soon_after)
{
    static struct outlook_fix free_plan, calm_plan;
    int lower = 0, higher = 0;
    start(&free_plan, 0);
    start(&calm_plan, 1);
    swing(&free_plan, 8, 9);
    swing(&calm_plan, 8, 9);
    for (int i = 0; i < 400; i++) {
        int units = 4 + i % 13;
        float qps = 200 + 150 * (float)(i % 7);
        fix_units(&free_plan.f, units, 0);
        fix_units(&calm_plan.f, units, 0);
        fix_load(&free_plan.f, qps);
        fix_load(&calm_plan.f, qps);
        free_plan.f.state.guard.last_in_us = calm_plan.f.state.guard.last_in_us = free_plan.f.view.now_us - FIX_MIN;
        int a = proposal(&free_plan), b = proposal(&calm_plan);
        if (a < units || b < units)
            assert_true(b >= a || b >= units);
        if (a > units)
            assert_true(b <= a);
        lower += a > units && b < a;
        higher += a < units && b > a;
        fix_tick(&free_plan.f);
        fix_tick(&calm_plan.f);
    }
    assert_true(lower + higher > 0);
    outlook_fini(&free_plan.outlook);
    outlook_fini(&calm_plan.outlook);
}
