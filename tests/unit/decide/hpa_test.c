/* hpa_test.c - the published autoscaling/v2 algorithm, case by case.
 *
 * Situations follow those of kubernetes/kubernetes, pkg/controller/podautoscaler/
 * {replica_calculator,horizontal}_test.go; numbers in the comments are worked out from the
 * documented formula. */
#include "decide/hpa.h"

#include "base/mem.h"
#include "tests/unit/decide/decide_fixture.h"

/* ---- one metric
 * ---------------------------------------------------------------------------------- */
struct metric_case {
    const char *what;
    struct hpa_metric m; /* kind, target, total, ready, not ready, missing */
    int current, want;
};

TEST(hpa_follows_the_published_formula_for_one_metric)
{
    static const struct metric_case cases[] = {
        {"grows by the ratio: 0.5 over 0.3 of 3", {HPA_UTILISATION, 0.30, 1.5, 3, 0, 0}, 3, 5},
        {"shrinks by the ratio", {HPA_UTILISATION, 0.50, 1.4, 5, 0, 0}, 5, 3},
        {"rounds up", {HPA_UTILISATION, 0.50, 1.82, 3, 0, 0}, 3, 4},
        {"at the target", {HPA_UTILISATION, 0.50, 1.5, 3, 0, 0}, 3, 3},
        {"tolerance above: 1.10", {HPA_UTILISATION, 1.00, 3.30, 3, 0, 0}, 3, 3},
        {"over the tolerance: 1.11", {HPA_UTILISATION, 1.00, 3.33, 3, 0, 0}, 3, 4},
        {"tolerance below: 0.90", {HPA_UTILISATION, 1.00, 9.00, 10, 0, 0}, 10, 10},
        {"under the tolerance: 0.89", {HPA_UTILISATION, 1.00, 8.90, 10, 0, 0}, 10, 9},
        {"use is cut to whole percent: 55.9 over 50",
         {HPA_UTILISATION, 0.50, 5.59, 10, 0, 0},
         10,
         10},
        {"zero load asks for zero", {HPA_UTILISATION, 0.50, 0, 5, 0, 0}, 5, 0},
        {"no ready unit reports: invalid", {HPA_UTILISATION, 0.50, 0, 0, 3, 0}, 3, -1},
        {"not a number: invalid", {HPA_UTILISATION, 0.50, (double)NAN, 3, 0, 0}, 3, -1},
        {"average value: 20 over 15 per unit", {HPA_AVERAGE, 15, 60, 3, 0, 0}, 3, 4},
        {"average value, zero", {HPA_AVERAGE, 15, 0, 3, 0, 0}, 3, 0},
        {"more rows than replicas: 6 report, 4 asked for",
         {HPA_UTILISATION, 1.0, 28.7, 6, 0, 0},
         4,
         29},
        {"an absurd measurement asks for much, never for less", {HPA_AVERAGE, 1, 1e29, 3, 0, 0}, 3, 1 << 20},
        {"likewise with units missing", {HPA_AVERAGE, 1, 1e29, 3, 1, 1}, 3, 1 << 20},
        /* not ready: as 0 when growing */
        {"unready units soften growth: 1.2 of 2 over 3",
         {HPA_UTILISATION, 0.30, 1.2, 2, 1, 0},
         3,
         4},
        {"unready units can turn growth round: hold", {HPA_UTILISATION, 0.30, 0.36, 1, 2, 0}, 3, 3},
        {"unready and hot: 3 ready at 1.0, 7 not", {HPA_UTILISATION, 0.50, 3.0, 3, 7, 0}, 10, 10},
        {"unready units do not count when shrinking", {HPA_UTILISATION, 0.50, 0.6, 3, 2, 0}, 5, 2},
        /* missing: as 100 % when shrinking, as 0 when growing */
        {"missing as 0: 2 of 3 at 1.0, target 0.5", {HPA_UTILISATION, 0.50, 2.0, 2, 0, 1}, 3, 4},
        {"missing as 0 brings it into tolerance", {HPA_UTILISATION, 0.50, 1.6, 2, 0, 1}, 3, 3},
        {"missing as 1: 1.0 + 1 over 5 at 0.5", {HPA_UTILISATION, 0.50, 1.0, 4, 0, 1}, 5, 4},
        {"missing as 1 would turn it round: hold", {HPA_UTILISATION, 0.50, 0.8, 2, 0, 2}, 4, 4},
        {"missing as the target when that is over 1", {HPA_UTILISATION, 1.50, 2.0, 4, 0, 1}, 5, 3},
        {"average value: missing as the target", {HPA_AVERAGE, 50, 100, 4, 0, 1}, 5, 3},
        {"at the target with missing: hold", {HPA_UTILISATION, 0.50, 1.0, 2, 0, 2}, 4, 4},
        {"missing and unready, growing", {HPA_UTILISATION, 0.50, 3.0, 3, 1, 1}, 5, 6},
        /* the number of rows differs from the current size */
        {"shrinks in ratio but more rows: hold", {HPA_UTILISATION, 1.0, 2.0, 7, 0, 1}, 2, 2},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        int got = hpa_metric_units(&cases[i].m, cases[i].current, 0.1);
        if (got != cases[i].want)
            fail_msg("%s: %d, expected %d", cases[i].what, got, cases[i].want);
    }
}

TEST(hpa_takes_the_largest_of_several_metrics)
{
    const struct hpa_metric up = {HPA_UTILISATION, 0.5, 4.5, 5, 0, 0};   /* 9 */
    const struct hpa_metric down = {HPA_UTILISATION, 0.5, 1.0, 5, 0, 0}; /* 2 */
    const struct hpa_metric bad = {HPA_UTILISATION, 0.5, (double)NAN, 5, 0, 0};
    assert_int_equal(hpa_metrics_units((struct hpa_metric[]){down, up}, 2, 5, 0.1), 9);
    assert_int_equal(hpa_metrics_units((struct hpa_metric[]){down, down}, 2, 5, 0.1), 2);
    /* one invalid: the other may grow ... */
    assert_int_equal(hpa_metrics_units((struct hpa_metric[]){bad, up}, 2, 5, 0.1), 9);
    /* ... but not shrink */
    assert_int_equal(hpa_metrics_units((struct hpa_metric[]){bad, down}, 2, 5, 0.1), -1);
    assert_int_equal(hpa_metrics_units((struct hpa_metric[]){bad, bad}, 2, 5, 0.1), -1);
}

/* ---- behaviour
 * ----------------------------------------------------------------------------------- */
struct limit_case {
    const char *what;
    enum hpa_select select;
    int n;
    struct hpa_rule rule[HPA_RULES];
    int added, removed; /* 10 s ago */
    int current, want;
};

static void run_limits(const struct limit_case *c, size_t n, bool up)
{
    static struct hpa_memory m;
    int64_t now = 1000 * FIX_S;
    for (size_t i = 0; i < n; i++, c++) {
        struct hpa_behaviour b = {.select = c->select, .n_rules = c->n};
        memcpy(b.rule, c->rule, sizeof b.rule);
        hpa_memory_init(&m);
        hpa_event(&m.up, now - 70 * FIX_S, 100); /* outside every period below */
        hpa_event(&m.down, now - 70 * FIX_S, 100);
        if (c->added)
            hpa_event(&m.up, now - 10 * FIX_S, c->added);
        if (c->removed)
            hpa_event(&m.down, now - 10 * FIX_S, c->removed);
        int got =
            up ? hpa_limit_up(&b, &m, c->current, now) : hpa_limit_down(&b, &m, c->current, now);
        if (got != c->want)
            fail_msg("%s: %d, expected %d", c->what, got, c->want);
    }
}

#define PODS(v, s)                                                                                 \
    {                                                                                              \
        HPA_PODS, (v), (s)*FIX_S                                                                   \
    }
#define PERCENT(v, s)                                                                              \
    {                                                                                              \
        HPA_PERCENT, (v), (s)*FIX_S                                                                \
    }

TEST(hpa_bounds_growth_per_period)
{
    static const struct limit_case cases[] = {
        {"default from 1: 4 pods", HPA_SELECT_MAX, 2, {PODS(4, 15), PERCENT(100, 15)}, 0, 0, 1, 5},
        {"default from 10: doubling",
         HPA_SELECT_MAX,
         2,
         {PODS(4, 15), PERCENT(100, 15)},
         0,
         0,
         10,
         20},
        {"min of the two", HPA_SELECT_MIN, 2, {PODS(4, 15), PERCENT(100, 15)}, 0, 0, 10, 14},
        {"percent rounds up", HPA_SELECT_MAX, 1, {PERCENT(10, 60)}, 0, 0, 3, 4},
        {"what was added in the period counts", HPA_SELECT_MAX, 1, {PODS(4, 60)}, 3, 0, 10, 11},
        {"all of it used", HPA_SELECT_MAX, 1, {PODS(4, 60)}, 4, 0, 10, 10},
        {"more than all of it", HPA_SELECT_MAX, 1, {PODS(4, 60)}, 9, 0, 10, 10},
        {"percent of the size at the period's start",
         HPA_SELECT_MAX,
         1,
         {PERCENT(100, 60)},
         5,
         0,
         10,
         10},
        {"removed units may come back", HPA_SELECT_MAX, 1, {PODS(4, 60)}, 0, 2, 10, 16},
        {"an event as old as the period is out", HPA_SELECT_MAX, 1, {PODS(4, 10)}, 4, 0, 10, 14},
        {"disabled", HPA_SELECT_DISABLED, 1, {PODS(4, 60)}, 0, 0, 10, 10},
        {"three policies, largest",
         HPA_SELECT_MAX,
         3,
         {PODS(2, 60), PERCENT(50, 60), PODS(7, 60)},
         0,
         0,
         10,
         17},
        {"three policies, smallest",
         HPA_SELECT_MIN,
         3,
         {PODS(2, 60), PERCENT(50, 60), PODS(7, 60)},
         0,
         0,
         10,
         12},
    };
    run_limits(cases, ARRAY_LEN(cases), true);
}

TEST(hpa_bounds_shrinking_per_period)
{
    static const struct limit_case cases[] = {
        {"default: everything", HPA_SELECT_MAX, 1, {PERCENT(100, 15)}, 0, 0, 10, 0},
        {"pods", HPA_SELECT_MAX, 1, {PODS(3, 60)}, 0, 0, 10, 7},
        {"percent cuts to whole units", HPA_SELECT_MAX, 1, {PERCENT(25, 60)}, 0, 0, 10, 7},
        {"largest change", HPA_SELECT_MAX, 2, {PODS(3, 60), PERCENT(50, 60)}, 0, 0, 10, 5},
        {"smallest change", HPA_SELECT_MIN, 2, {PODS(3, 60), PERCENT(50, 60)}, 0, 0, 10, 7},
        {"what was removed counts", HPA_SELECT_MAX, 1, {PODS(3, 60)}, 0, 2, 10, 9},
        {"more than all of it", HPA_SELECT_MAX, 1, {PODS(3, 60)}, 0, 5, 10, 10},
        {"disabled", HPA_SELECT_DISABLED, 1, {PODS(3, 60)}, 0, 0, 10, 10},
    };
    run_limits(cases, ARRAY_LEN(cases), false);
}

static const struct hpa_behaviour default_up = {.n_rules = 2,
                                                .rule = {PODS(4, 15), PERCENT(100, 15)}};
static const struct hpa_behaviour default_down = {
    .window_us = 300 * FIX_S, .n_rules = 1, .rule = {PERCENT(100, 15)}};

TEST(hpa_keeps_within_minimum_and_maximum)
{
    static const struct {
        int current, desired, min, max, want;
    } cases[] = {
        {10, 12, 1, 64, 12},  {10, 30, 1, 64, 20}, {60, 90, 1, 64, 64},
        {20, 0, 15, 64, 15}, /* desired 0 with a minimum of 15 */
        {20, 10, 15, 64, 15}, {3, 0, 1, 64, 1},    {10, 10, 1, 64, 10},
    };
    static struct hpa_memory m;
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        hpa_memory_init(&m);
        assert_int_equal(hpa_normalise(&default_up, &default_down, &m, cases[i].current,
                                       cases[i].desired, cases[i].min, cases[i].max, 0),
                         cases[i].want);
    }
}

TEST(hpa_shrinks_to_the_highest_recommendation_of_five_minutes)
{
    static struct hpa_memory m;
    hpa_memory_init(&m);
    int64_t t = 0;
    assert_int_equal(hpa_normalise(&default_up, &default_down, &m, 10, 9, 1, 64, t), 9);
    for (t = FIX_STEP; t < 300 * FIX_S; t += FIX_STEP)
        assert_int_equal(hpa_normalise(&default_up, &default_down, &m, 9, 3, 1, 64, t), 9);
    assert_int_equal(hpa_normalise(&default_up, &default_down, &m, 9, 3, 1, 64, t), 3);
}

TEST(hpa_grows_to_the_lowest_recommendation_of_the_up_window)
{
    static struct hpa_memory m;
    struct hpa_behaviour up = default_up;
    up.window_us = 60 * FIX_S;
    hpa_memory_init(&m);
    int64_t t = 0;
    assert_int_equal(hpa_normalise(&up, &default_down, &m, 10, 10, 1, 64, t), 10);
    for (t = FIX_STEP; t < 60 * FIX_S; t += FIX_STEP)
        assert_int_equal(hpa_normalise(&up, &default_down, &m, 10, 14, 1, 64, t), 10);
    assert_int_equal(hpa_normalise(&up, &default_down, &m, 10, 14, 1, 64, t), 14);
}

TEST(hpa_grows_at_once_by_default)
{
    static struct hpa_memory m;
    hpa_memory_init(&m);
    assert_int_equal(hpa_normalise(&default_up, &default_down, &m, 10, 10, 1, 64, 0), 10);
    assert_int_equal(hpa_normalise(&default_up, &default_down, &m, 10, 14, 1, 64, FIX_STEP), 14);
}

TEST(hpa_windows_agree_with_a_plain_scan)
{
    static struct hpa_memory m;
    struct rng rng = rng_stream(test_seed(), "hpa");
    for (int window = 0; window <= 240; window += 24) {
        float past[600];
        struct hpa_behaviour down = default_down;
        down.window_us = window * FIX_STEP;
        hpa_memory_init(&m);
        for (int i = 0; i < 600; i++) {
            float most = 0;
            past[i] = (float)rng_below(&rng, 40);
            for (int k = i; k >= 0 && (k == i || i - k < window); k--)
                most = fmaxf(most, past[k]);
            int got = hpa_normalise(&default_up, &down, &m, 64, (int)past[i], 0, 64, i * FIX_STEP);
            assert_int_equal(got, (int)most);
        }
    }
}

/* ---- the policy
 * ---------------------------------------------------------------------------------- */
TEST(hpa_policy_sizes_by_gpu_use)
{
    static struct fix f;
    fix_init(&f, "hpa", false);
    f.view.value[FIELD_GPU_UTIL] = 0.35f; /* target 0.70 */
    assert_int_equal(fix_decide(&f), 5);
    fix_init(&f, "hpa", false);
    f.view.value[FIELD_GPU_UTIL] = 0.98f;
    assert_int_equal(fix_decide(&f), 14);
    assert_int_equal(f.record.n_checks, 0);
}

TEST(hpa_policy_sizes_by_load_per_unit)
{
    static struct fix f;
    fix_config(&f, "hpa", false);
    f.cfg.main.opt.hpa.gpu_target_frac = 0;
    f.cfg.main.opt.hpa.unit_qps = 10;
    fix_start(&f);
    assert_int_equal(fix_decide(&f), 20); /* 25 wanted, doubling allowed */
}

TEST(hpa_policy_counts_failed_units_as_missing_and_warming_ones_as_not_ready)
{
    static struct fix f;
    fix_init(&f, "hpa", false);
    fix_units(&f, 6, 2);
    f.view.units_failed = 2;
    f.view.units_requested = 10;
    f.view.value[FIELD_GPU_UTIL] =
        1.0f; /* 6.0 over 10 units: 0.6, under the target: direction turns */
    assert_int_equal(fix_decide(&f), 10);
}

TEST(hpa_policy_holds_when_its_only_metric_is_missing)
{
    static struct fix f;
    fix_init(&f, "hpa", false);
    f.view.value[FIELD_GPU_UTIL] = NAN;
    assert_int_equal(fix_decide(&f), 10);
}

TEST(hpa_policy_is_switched_off_at_zero_and_returns_to_bounds_at_once)
{
    static struct fix f;
    fix_init(&f, "hpa", false);
    fix_units(&f, 0, 0);
    f.cfg.guarded = false;
    capacity_observe(&f.cfg, &f.view, &f.state, NULL);
    struct policy_input in = {&f.cfg, &f.cfg.main.opt, &f.view, &f.state, NULL, NULL, NULL};
    struct policy_proposal p = {0};
    f.cfg.main.policy->propose(&in, &f.state.memory, NULL, &p);
    assert_int_equal(p.units, 0);
    fix_init(&f, "hpa", false);
    fix_units(&f, 100, 0);
    assert_int_equal(fix_decide(&f), 64);
}

TEST(hpa_policy_learns_from_what_the_guard_made_of_its_wish)
{
    static struct fix f;
    fix_config(&f, "hpa", true);
    f.cfg.guard.auditor = GUARD_AUDITOR_OFF;
    f.cfg.main.opt.hpa.up_percent = 0;
    f.cfg.main.opt.hpa.up_pods_us = 60 * FIX_S;
    fix_start(&f);
    f.view.value[FIELD_GPU_UTIL] = 0.98f;
    f.view.claims.paused = true; /* wants 14, gets 10: no event */
    assert_int_equal(fix_decide(&f), 10);
    f.view.claims.paused = false;
    fix_tick(&f);
    assert_int_equal(fix_decide(&f), 14);
    fix_units(&f, 14, 0);
    fix_tick(&f);
    assert_int_equal(fix_decide(&f), 14); /* four were added within the minute */
}

TEST(hpa_refuses_to_run_without_a_metric_or_a_policy)
{
    static struct fix f;
    struct err e;
    fix_config(&f, "hpa", false);
    f.cfg.main.opt.hpa.gpu_target_frac = 0;
    assert_err(capacity_config_finish(&f.cfg, &e), ERR_INVAL, &e, "no metric");
    fix_config(&f, "hpa", false);
    f.cfg.main.opt.hpa.up_percent = f.cfg.main.opt.hpa.up_pods = 0;
    assert_err(capacity_config_finish(&f.cfg, &e), ERR_INVAL, &e, "up_percent");
    f.cfg.main.opt.hpa.up_select = HPA_SELECT_DISABLED;
    assert_ok(capacity_config_finish(&f.cfg, &e), &e);
    f.cfg.main.opt.hpa.down_percent = 0;
    assert_err(capacity_config_finish(&f.cfg, &e), ERR_INVAL, &e, "down_percent");
}
