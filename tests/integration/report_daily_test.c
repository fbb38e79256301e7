/* The daily report over an hour and a half that a replica observed: units stay as they are while demand outgrows them. */
#include "base/file.h"
#include "base/json.h"
#include "base/mem.h"
#include "daemon/daily.h"
#include "daemon/morning.h"
#include "tests/live/live_world.h"
#include "tests/support/test.h"

enum { QUIET_ROUNDS = 200, BUSY_ROUNDS = 160 };

/* Two units all along; 100/s need two, 1,200/s need fifteen. */
static void observe(struct live_world *w)
{
    live_world_start(w, "observe", "policy: mpc\nrules: hpa\n", NULL);
    live_world_target(w, "chat", 2, 20, "");
    live_world_up(w, 0);
    for (int i = 0; i < QUIET_ROUNDS + BUSY_ROUNDS; i++) {
        live_world_demand(w, "chat", i < QUIET_ROUNDS ? 100 : 1200);
        live_world_round(w);
    }
}

static struct daily *report(const struct live_world *w, struct daily_opts *o)
{
    char *path = store_path_default(w->seat[0].dir);
    struct store_opts where = store_opts_default(path);
    struct store *s;
    struct daily *d;
    struct err e;
    where.read_only = true;
    assert_ok(store_open(&where, &s, &e), &e);
    assert_ok(daily_new(s, o, &d, &e), &e);
    store_close(s);
    mem_free(path);
    return d;
}

static void assert_same_story_as_json(const struct daily_report *r)
{
    struct buf text = buf_init(1 << 20);
    struct json_doc *doc;
    struct err e;
    daily_format(r, CLI_JSON, false, &text);
    assert_ok(json_parse(text.p, text.n, 1 << 20, "report", &doc, &e), &e);
    const struct json *t = json_first(json_find(json_root(doc), "targets"));
    assert_string_equal(json_text(json_find(t, "target")), "shop/chat");
    assert_near(json_number(json_find(json_find(t, "recorded"), "cost_usd")), r->target[0].recorded.cost_usd, 1e-9, 0);
    assert_int_equal(json_count(json_find(t, "disagreements")), r->target[0].n_disagreements);
    json_free(doc);
    buf_fini(&text);
}

static void assert_morning_writes_it(const struct live_world *w, int64_t until_us)
{
    static const char *const endings[] = {".txt", ".json", ".html"};
    const struct morning_opts o = {.state_dir = w->seat[0].dir, .zone = "UTC"};
    const char *base = test_path("%s/2026-01-01", test_tmp_dir());
    struct err e;
    assert_ok(morning_write(&o, until_us, base, &e), &e);
    for (size_t i = 0; i < ARRAY_LEN(endings); i++) {
        struct buf text;
        assert_ok(file_read(test_path("%s%s", base, endings[i]), 1 << 22, &text, &e), &e);
        assert_non_null(strstr(text.p, "shop/chat"));
        buf_fini(&text);
    }
}

TEST(a_day_report_says_what_the_sizes_missed_and_what_sluice_would_have_done)
{
    struct live_world w;
    struct daily_opts o = {.n_seeds = 3};
    observe(&w);
    struct daily *d = report(&w, &o);
    const struct daily_report *r = daily_report_of(d);
    assert_int_equal(r->n_targets, 1);
    const struct daily_target *t = &r->target[0];
    if (t->note)
        fail_msg("%s", t->note);
    assert_true(t->compared);
    assert_false(t->acted);
    assert_string_equal(t->policy, "mpc");
    assert_string_equal(t->rules, "hpa");
    assert_true(t->recorded.slo_violation_frac > 0.3); /* 160 of 300 counted steps are far over capacity */
    assert_true(t->sluice.slo_violation_frac < t->recorded.slo_violation_frac / 2);
    assert_true(t->sluice.cost_usd > t->recorded.cost_usd);
    assert_int_equal(t->recorded.actions, 0);
    assert_near(t->recorded.unit_hours, 2 * 0.75 * t->hours, 0.1, 0); /* the first quarter only warms up */
    assert_true(isnan(t->cost_frac.lo)); /* under twelve hours there is no interval */
    bool short_of = false;
    for (size_t i = 0; i < t->n_disagreements; i++)
        short_of |= t->disagreement[i].needed >= 14 && strstr(t->disagreement[i].verdict, "would have been short");
    assert_true(short_of);
    assert_same_story_as_json(r);
    assert_morning_writes_it(&w, r->until_us);
    daily_free(d);
    live_world_stop(&w);
}

TEST(a_report_of_less_than_an_hour_says_how_much_there_is_and_compares_nothing)
{
    static const char *const want[] = {"1 target, too little on record to compare; ",
                                       "No comparison yet: 10 min of load are on record, an hour is the least.",
                                       "`sluice decisions list --target shop/chat`"};
    struct live_world w;
    struct daily_opts o = {.n_seeds = 1};
    live_world_start(&w, "observe", "policy: mpc\nrules: hpa\n", NULL);
    live_world_target(&w, "chat", 2, 20, "");
    live_world_up(&w, 0);
    for (int i = 0; i < 40; i++) {
        live_world_demand(&w, "chat", 100);
        live_world_round(&w);
    }
    struct daily *d = report(&w, &o);
    for (int page = 0; page < 2; page++) {
        struct buf text = buf_init(1 << 20);
        if (page)
            daily_html(daily_report_of(d), &text);
        else
            daily_format(daily_report_of(d), CLI_TABLE, false, &text);
        for (size_t i = 0; i < ARRAY_LEN(want); i++)
            if (!strstr(text.p, want[i]))
                fail_msg("lacks \"%s\":\n%s", want[i], text.p);
        assert_null(strstr(text.p, "0.0 h"));
        buf_fini(&text);
    }
    daily_free(d);
    live_world_stop(&w);
}

TEST(a_report_of_a_time_without_decisions_says_so)
{
    struct live_world w;
    struct daily_opts o = {.n_seeds = 1, .until_us = 1000000, .since_us = 1};
    struct daily *d;
    struct store *s;
    struct err e;
    live_world_start(&w, "observe", "", NULL);
    live_world_target(&w, "chat", 2, 20, "");
    live_world_up(&w, 0);
    live_world_round(&w);
    char *path = store_path_default(w.seat[0].dir);
    struct store_opts where = store_opts_default(path);
    where.read_only = true;
    assert_ok(store_open(&where, &s, &e), &e);
    assert_err(daily_new(s, &o, &d, &e), ERR_MISSING, &e, "no decision of that time");
    store_close(s);
    mem_free(path);
    live_world_stop(&w);
}
