/* evaluate_test.c - a comparison as a whole: what it refuses before it works, and targets at the edge. */
#include "tests/unit/train/world_fixture.h"
#include "train/evaluate.h"

static enum err_code evaluate(const struct world *w, const char *const *policies, size_t n, bool bounds,
                              struct evaluate_result **r, struct err *e)
{
    const struct evaluate_opts o = {.n_seeds = 1, .bounds = bounds, .policies = policies, .n_policies = n, .seed = 1};
    struct thread_pool *pool;
    *r = NULL;
    assert_ok(thread_pool_new(1, &pool, e), e);
    enum err_code rc = evaluate_run(w, &o, pool, NULL, NULL, r, e);
    thread_pool_free(pool);
    return rc;
}

TEST(a_target_that_half_of_the_steps_may_miss_still_has_its_bounds)
{
    static const char *const policies[] = {"static", "oracle"};
    struct scenario sc;
    struct evaluate_result *r;
    struct err e;
    small_scenario(&sc);
    sc.service.slo_violation_max = sc.service.tune_violation_max = 0.5;
    struct world *w = wave_world(&sc, 2, 6);
    assert_ok(evaluate(w, policies, ARRAY_LEN(policies), true, &r, &e), &e);
    assert_int_equal(r->n_shown, 2);
    for (size_t i = 0; i < r->n_bound_points; i++) {
        assert_in_range((uint64_t)(1e6 * r->bound_limits[i]), 1, 1000000);
        assert_true(isfinite(r->bound_cost[i]) && r->bound_cost[i] >= 0);
    }
    evaluate_free(r);
    world_free(w);
    scenario_fini(&sc);
}

TEST(mistakes_are_told_before_any_work)
{
    static const struct {
        const char *policy, *what;
        enum err_code code;
    } cases[] = {
        {"oracle", "needs the bounds", ERR_USAGE},
        {"nobody", "\"nobody\" is unknown", ERR_MISSING},
        {"/nonexistent/p.safetensors", "No such file", ERR_IO},
    };
    struct scenario sc;
    small_scenario(&sc);
    struct world *w = wave_world(&sc, 1, 6);
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct evaluate_result *r;
        struct err e;
        assert_err(evaluate(w, &cases[i].policy, 1, false, &r, &e), cases[i].code, &e, cases[i].what);
        evaluate_free(r);
    }
    world_free(w);
    scenario_fini(&sc);
}

TEST(policies_are_told_apart_by_name_or_by_path)
{
    static const char *const twice[] = {"static", "hpa", "static"};
    static const char *const far[] = {"static", "hpa:published", "hpa:gpu=0.5", "hpa:gpu=0.6"};
    struct scenario sc;
    struct evaluate_result *r;
    struct err e;
    small_scenario(&sc);
    struct world *w = wave_world(&sc, 1, 6);
    assert_err(evaluate(w, twice, ARRAY_LEN(twice), false, &r, &e), ERR_USAGE, &e, "policy static: named twice");
    evaluate_free(r);
    assert_ok(evaluate(w, far, ARRAY_LEN(far), false, &r, &e), &e);
    evaluate_free(r);
    /* Files of one name in two folders: both missing, which is found after they were named. */
    static const char *const files[] = {"/nonexistent/a/p.safetensors", "/nonexistent/b/p.safetensors"};
    assert_err(evaluate(w, files, ARRAY_LEN(files), false, &r, &e), ERR_IO, &e, "/nonexistent/a/p.safetensors");
    assert_string_equal(r->contender[0].name, files[0]);
    assert_string_equal(r->contender[1].name, files[1]);
    evaluate_free(r);
    world_free(w);
    scenario_fini(&sc);
}

TEST(days_that_are_nearly_all_gap_are_not_judged_on)
{
    static const char *const policies[] = {"static"};
    struct scenario sc;
    struct evaluate_result *r;
    struct err e;
    char what[80];
    small_scenario(&sc);
    struct world *w = wave_world(&sc, 2, 6);
    memset(w->barred + w->train_end, 1, (size_t)(w->n - w->train_end - 239));
    (void)snprintf(what, sizeof what, "239 of the %d test steps lie outside gaps", w->n - w->train_end);
    assert_err(evaluate(w, policies, 1, false, &r, &e), ERR_RANGE, &e, what);
    evaluate_free(r);
    w->barred[w->train_end] = 0; /* an hour */
    assert_ok(evaluate(w, policies, 1, false, &r, &e), &e);
    evaluate_free(r);
    memset(w->barred, 1, (size_t)w->train_end);
    assert_err(world_check_usable(w, 0, w->train_end, "training", &e), ERR_RANGE, &e, "0 of the");
    world_free(w);
    scenario_fini(&sc);
}

TEST(remarks_tell_what_the_figures_do_not)
{
    struct scenario sc;
    struct evaluate_result *r;
    struct err e;
    static const char *const policies[] = {"static"};
    small_scenario(&sc);
    struct world *w = wave_world(&sc, 1, 6);
    assert_ok(evaluate(w, policies, 1, false, &r, &e), &e);
    for (int k = 0; k < 4; k++) {
        struct buf lines = buf_init(4096);
        sc.report_only = k & 1;
        r->contender[0].interrupted = k & 2;
        evaluate_remarks(w, r, &lines);
        assert_int_equal(lines.n > 0, k > 0);
        if (k & 1)
            assert_non_null(strstr(lines.p, "too short to judge"));
        if (k & 2)
            assert_non_null(strstr(lines.p, "static was interrupted while it learned"));
        buf_fini(&lines);
    }
    evaluate_free(r);
    world_free(w);
    scenario_fini(&sc);
}

TEST(oracle_and_bound_keep_the_fewest_units_that_every_policy_must_keep)
{
    static const char *const policies[] = {"static", "oracle"};
    struct scenario sc;
    struct evaluate_result *r;
    struct err e;
    small_scenario(&sc);
    sc.service.units_min = 16; /* more than the demand ever needs */
    struct world *w = wave_world(&sc, 2, 4);
    assert_ok(evaluate(w, policies, ARRAY_LEN(policies), true, &r, &e), &e);
    double least_usd = 16 * sc.service.price_usd_h * (double)(w->n - w->train_end) * 15 / 3600;
    assert_near(r->oracle[0].total.cost_usd, least_usd, 0, 1e-5);
    assert_near(r->bound_cost[3], least_usd, 0, 1e-5);
    assert_true(r->bound_cost[3] <= r->oracle[0].total.cost_usd);
    evaluate_free(r);
    world_free(w);
    scenario_fini(&sc);
}
