/* policy_test.c - the other policies, the table of policies and their options. */
#include "decide/policy.h"

#include "base/mem.h"
#include "decide/extreme.h"
#include "tests/unit/decide/decide_fixture.h"

TEST(every_policy_has_sound_options_and_ranges_within_them)
{
    struct err e;
    for (size_t i = 0; i < policy_count(); i++) {
        const struct policy *p = policy_at(i);
        union policy_options o;
        assert_ok(opt_table_check(p->options, &e), &e);
        assert_true(p->options->size <= sizeof o && p->memory_bytes <= sizeof(union policy_memory));
        assert_ptr_equal(policy_find(p->name), p);
        opt_init(p->options, &o);
        for (size_t r = 0; r < p->n_ranges; r++) {
            double v;
            assert_ok(policy_option_set(p, &o, p->ranges[r].option, p->ranges[r].lo, &e), &e);
            assert_ok(policy_option_set(p, &o, p->ranges[r].option, p->ranges[r].hi, &e), &e);
            assert_ok(policy_option_get(p, &o, p->ranges[r].option, &v, &e), &e);
            assert_near(v, p->ranges[r].hi, 1e-9, 1e-12);
            assert_true(p->ranges[r].lo < p->ranges[r].hi);
            assert_true(!p->ranges[r].log || p->ranges[r].lo > 0);
        }
    }
    assert_null(policy_at(policy_count()));
}

TEST(policy_names_take_a_guard_suffix)
{
    static const struct {
        const char *text, *name;
        bool guarded;
    } cases[] = {
        {"hpa", "hpa", false},       {"hpa+guard", "hpa", true},
        {"mpc", "mpc", true},        {"ppo", "ppo", true},
        {"mpc-guard", "mpc", false}, {"threshold", "threshold", false},
        {"queue", "queue", false},   {"static+guard", "static", true},
    };
    const struct policy *p;
    bool guarded;
    struct err e;
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        assert_ok(policy_parse(cases[i].text, &p, &guarded, &e), &e);
        assert_string_equal(p->name, cases[i].name);
        assert_int_equal(guarded, cases[i].guarded);
    }
    assert_err(policy_parse("hpaa", &p, &guarded, &e), ERR_MISSING, &e, "did you mean \"hpa\"");
    assert_err(policy_parse("hpa+gard", &p, &guarded, &e), ERR_PARSE, &e, "+guard");
    assert_err(policy_parse("", &p, &guarded, &e), ERR_MISSING, &e, "unknown");
}

TEST(option_values_outside_their_row_are_refused)
{
    const struct policy *p = policy_find("hpa");
    union policy_options o;
    struct err e;
    double v;
    opt_init(p->options, &o);
    assert_err(policy_option_set(p, &o, "gpu", 3, &e), ERR_RANGE, &e, "gpu");
    assert_err(policy_option_set(p, &o, "gpu", (double)NAN, &e), ERR_NUMERIC, &e, "finite");
    assert_err(policy_option_set(p, &o, "gpux", 0.5, &e), ERR_MISSING, &e, "gpux");
    assert_err(policy_option_set(p, &o, "up_select", 1, &e), ERR_INVAL, &e, "not a number");
    assert_err(policy_option_get(p, &o, "up_select", &v, &e), ERR_INVAL, &e, "not a number");
    assert_err(policy_option_get(p, &o, "gpux", &v, &e), ERR_MISSING, &e, "gpux");
    assert_ok(policy_option_get(p, &o, "down_window", &v, &e), &e);
    assert_near(v, 300e6, 0, 0);
}

TEST(static_keeps_its_size_or_the_maximum)
{
    static struct fix f;
    fix_init(&f, "static", false);
    assert_int_equal(fix_decide(&f), 64);
    fix_config(&f, "static", false);
    f.cfg.main.opt.fixed.units = 12;
    fix_start(&f);
    assert_int_equal(fix_decide(&f), 12);
}

/* ---- threshold
 * ----------------------------------------------------------------------------------- */
TEST(threshold_acts_on_any_metric)
{
    static const struct {
        float cpu, gpu, queue;
        int want;
    } cases[] = {
        {0.5f, 0.5f, 0, 10},  {0.81f, 0.5f, 0, 11},  {0.5f, 0.86f, 0, 11}, {0.5f, 0.5f, 21, 11},
        {0.5f, 0.5f, 20, 10}, {0.80f, 0.85f, 0, 10}, {0.2f, 0.5f, 0, 9},   {0.5f, 0.2f, 0, 9},
        {0.82f, 0.2f, 0, 11}, {NAN, NAN, NAN, 10},   {NAN, 0.9f, NAN, 11},
    };
    static struct fix f;
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        fix_init(&f, "threshold", false);
        f.view.value[FIELD_CPU_UTIL] = cases[i].cpu;
        f.view.value[FIELD_GPU_UTIL] = cases[i].gpu;
        f.view.value[FIELD_QUEUE_LEN] = cases[i].queue;
        assert_int_equal(fix_decide(&f), cases[i].want);
    }
}

/* The known incident: within ten minutes three out and two in, on a load that stands still. */
static void flap(struct fix *f, int *out, int *in)
{
    *out = *in = 0;
    fix_forecast(f, 250, 260, 270);
    for (int i = 0; i < 40; i++) {
        bool burst = i / 8 % 2 == 0; /* a queue comes and goes; GPU use is low all the time */
        f->view.value[FIELD_QUEUE_LEN] = burst ? 21 : 0;
        f->view.value[FIELD_GPU_UTIL] = 0.28f;
        int before = f->view.units_requested, now = fix_decide(f);
        *out += now > before;
        *in += now < before;
        fix_units(f, now, 0);
        fix_tick(f);
    }
}

TEST(threshold_flaps_and_the_guard_stops_it)
{
    static struct fix f;
    int out, in;
    fix_init(&f, "threshold", false);
    flap(&f, &out, &in);
    assert_int_equal(out, 3);
    assert_int_equal(in, 2);
    fix_init(&f, "threshold", true);
    flap(&f, &out, &in);
    assert_true(out + in <= 3 && in <= 1);
}

/* ---- queue
 * --------------------------------------------------------------------------------------- */
TEST(queue_divides_the_queue_by_its_target)
{
    static const struct {
        float queue;
        int units, want;
    } cases[] = {
        {100, 10, 20}, {51, 10, 10}, {54, 10, 10}, {56, 10, 12}, {1e9f, 10, 64}, {NAN, 10, 10},
    };
    static struct fix f;
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        fix_init(&f, "queue", false);
        fix_units(&f, cases[i].units, 0);
        f.view.value[FIELD_QUEUE_LEN] = cases[i].queue;
        assert_int_equal(fix_decide(&f), cases[i].want);
    }
}

TEST(queue_sleeps_after_its_cooldown_and_then_goes_to_the_minimum)
{
    static struct fix f;
    fix_init(&f, "queue", false);
    f.view.value[FIELD_QUEUE_LEN] = 50;
    assert_int_equal(fix_decide(&f), 10);
    f.view.value[FIELD_QUEUE_LEN] = 0;
    for (int i = 0; i < 38; i++) { /* 5 min until it sleeps, 5 min more until the window forgets */
        fix_tick(&f);
        assert_int_equal(fix_decide(&f), 10);
    }
    fix_tick(&f);
    assert_int_equal(fix_decide(&f), 1);
}

/* ---- predictive
 * ---------------------------------------------------------------------------------- */
TEST(predictive_carries_the_forecast_at_the_planned_use)
{
    static struct fix f;
    fix_init(&f, "predictive", false);
    f.cfg.main.opt.predictive.target_frac = 0.8;
    f.cfg.main.opt.predictive.quantile = 1;
    fix_forecast(&f, 700, 800, 900); /* 800 / 0.8 = 1000 */
    assert_int_equal(fix_decide(&f), 20);
    f.view.forecast.uncertainty = 0.9f;
    fix_tick(&f);
    f.view.forecast.made_us++;
    assert_int_equal(fix_decide(&f), 21);
}

TEST(predictive_without_a_forecast_plans_for_the_load_now)
{
    static struct fix f;
    fix_init(&f, "predictive", false);
    f.cfg.main.opt.predictive.target_frac = 0.8;
    f.view.forecast.usable = false;
    fix_load(&f, 600); /* 750 */
    assert_int_equal(fix_decide(&f), 15);
}

TEST(predictive_adds_a_step_when_a_watermark_was_crossed_for_long)
{
    static struct fix f;
    fix_init(&f, "predictive", true);
    fix_forecast(&f, 400, 420, 430); /* 10 units */
    f.view.value[FIELD_GPU_UTIL] = 0.9f;
    for (int i = 0; i < 20; i++) {
        assert_int_equal(fix_decide(&f), 10);
        fix_tick(&f);
    }
    assert_int_equal(fix_decide(&f), 11);
}

TEST(predictive_counts_overdue_units_as_coming)
{
    static struct fix f;
    fix_init(&f, "predictive", true);
    fix_forecast(&f, 400, 420, 430); /* 10 units */
    f.view.value[FIELD_GPU_UTIL] = 0.9f;
    f.state.guard.high_since_us = f.view.now_us - 6 * FIX_MIN;
    fix_units(&f, 10, 1);
    f.view.warm_oldest_us = 180 * FIX_S; /* 1.5 start-ups */
    fix_decide(&f);
    assert_int_equal(f.record.proposed, 12);
    fix_tick(&f);
    f.view.warm_oldest_us++;
    fix_decide(&f);
    assert_int_equal(f.record.proposed, 11);
}

TEST(predictive_shrinks_only_after_its_window)
{
    static struct fix f;
    fix_init(&f, "predictive", false);
    f.cfg.main.opt.predictive.target_frac = 0.8;
    fix_forecast(&f, 400, 400, 400);
    assert_int_equal(fix_decide(&f), 10);
    for (int i = 1; i < 60; i++) {
        fix_tick(&f);
        fix_forecast(&f, 160, 160, 160);
        fix_load(&f, 160);
        assert_int_equal(fix_decide(&f), 10);
    }
    fix_tick(&f);
    assert_int_equal(fix_decide(&f), 4);
}

/* ---- foresight
 * ----------------------------------------------------------------------------------- */
TEST(foresight_serves_what_it_knows_and_holds_when_it_knows_nothing)
{
    static struct fix f;
    fix_init(&f, "foresight", false);
    f.view.foresight_qps = 900; /* 990 */
    assert_int_equal(fix_decide(&f), 20);
    f.view.foresight_qps = NAN;
    assert_int_equal(fix_decide(&f), 10);
}

/* ---- windows
 * ------------------------------------------------------------------------------------- */
TEST(a_window_longer_than_its_queue_drops_the_oldest)
{
    static struct extreme_window w;
    for (int i = 0; i < 2 * EXTREME_CAP; i++) /* falling values: each must be kept */
        (void)extreme_push(&w, EXTREME_HIGHEST, i, INT64_MAX / 4, (float)(10000 - i));
    assert_int_equal(w.n, EXTREME_CAP);
    assert_near((double)w.value[w.head], 10000 - EXTREME_CAP, 0, 0);
    assert_true(extreme_sane(&w));
}
