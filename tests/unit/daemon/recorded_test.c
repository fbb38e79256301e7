/* recorded_test.c - a stored past becomes a scenario: the grid, the gaps, the sizes, and what is
 * said about it. */
#include "daemon/recorded.h"

#include "tests/unit/daemon/record_fixture.h"
#include "train/evaluate.h"
#include "train/world.h"

static void put_sample(struct fix *f, int64_t target, float qps)
{
    struct store_sample x = {.target_id = target, .time_us = f->now_us};
    struct err e;
    for (int i = 0; i < FIELD_COUNT; i++)
        x.value[i] = NAN;
    x.value[FIELD_QPS] = qps;
    x.value[FIELD_P99_LATENCY_MS] = qps > 800 ? 300 : 100;
    assert_ok(store_put_sample(f->store, &x, &e), &e);
}

/* `n` steps recorded with their samples. */
static void live(struct fix *f, int n)
{
    struct err e;
    assert_ok(store_begin(f->store, &e), &e);
    for (int i = 0; i < n; i++) {
        fix_step(f);
        put_sample(f, f->target_id, f->view.qps_last);
    }
    assert_ok(store_commit(f->store, &e), &e);
}

static struct recorded loaded(struct fix *f, const struct store_query *q)
{
    struct recorded r;
    struct err e;
    assert_ok(recorded_load(f->store, q, &r, &e), &e);
    return r;
}

TEST(samples_become_demand_and_what_was_asked_for_becomes_sizes)
{
    struct fix *f = fix_new("past.db", "mpc");
    const struct store_query all = {0};
    enum { N = 400 };
    float load[N];
    int units[N];
    for (int i = 0; i < N; i++) {
        live(f, 1);
        load[i] = f->view.qps_last;
        units[i] = f->view.units_requested;
    }
    struct recorded r = loaded(f, &all);
    assert_int_equal(r.n, N);
    assert_int_equal(r.start_us, FIX_START_US);
    for (int i = 0; i < N; i++) {
        assert_near((double)r.qps[i], (double)load[i], 0, 0);
        assert_int_equal(r.units[i], units[i]);
        assert_int_equal(r.barred[i], 0);
    }
    assert_string_equal(r.scenario.name, "shop/search");
    assert_string_equal(r.policy, "mpc");
    assert_int_equal(r.scenario.service.units_max, FIX_UNITS);
    assert_int_equal(r.scenario.service.slo_p99_us, 200000);
    assert_near(r.scenario.service.service_ms, 25, 0, 0);
    assert_int_equal(r.scenario.guard.cooldown_in_us, f->cfg.guard.cooldown_in_us);
    assert_int_equal(r.steps, N);
    assert_false(r.judged);
    assert_non_null(strstr(r.notes.p, "too little to judge"));
    assert_null(strstr(r.notes.p, "not tuned"));
    recorded_fini(&r);
    struct store_query late = {.since_us = f->now_us - 299 * FIX_STEP_US};
    r = loaded(f, &late);
    assert_int_equal(r.n, 300);
    assert_near((double)r.qps[0], (double)load[100], 0, 0);
    assert_int_equal(r.units[0], units[100]);
    recorded_fini(&r);
    fix_free(f);
}

TEST(short_gaps_are_bridged_and_long_ones_never_counted)
{
    struct fix *f = fix_new("gaps.db", "hpa");
    const struct store_query all = {0};
    live(f, 100);
    f->now_us += 3 * FIX_STEP_US;
    live(f, 100);
    f->now_us += 60 * FIX_STEP_US;
    live(f, 100);
    struct recorded r = loaded(f, &all);
    assert_int_equal(r.n, 363);
    int barred = 0;
    for (int i = 0; i < r.n; i++) {
        assert_true(r.qps[i] > 0);
        assert_true(r.units[i] > 0);
        barred += r.barred[i];
        if (r.barred[i])
            assert_in_range(i, 203, 262);
    }
    assert_int_equal(barred, 60);
    double a = (double)r.qps[99], b = (double)r.qps[103];
    assert_near((double)r.qps[101], (a + b) / 2, 1e-3, 0);
    assert_non_null(strstr(r.notes.p, "not measured"));
    recorded_fini(&r);
    fix_free(f);
}

TEST(times_that_are_off_the_grid_fall_into_their_steps)
{
    struct fix *f = fix_new("jitter.db", "hpa");
    struct rng rng = rng_stream(test_seed(), "jitter");
    const struct store_query all = {0};
    int64_t even = f->now_us;
    float load[300];
    for (int i = 0; i < 300; i++) {
        even += FIX_STEP_US;
        f->now_us = even - FIX_STEP_US + (i ? (int64_t)rng_below(&rng, 6000000) - 3000000 : 0);
        live(f, 1);
        load[i] = f->view.qps_last;
    }
    struct recorded r = loaded(f, &all);
    assert_int_equal(r.n, 300);
    for (int i = 0; i < r.n; i++) {
        assert_int_equal(r.barred[i], 0);
        assert_near((double)r.qps[i], (double)load[i], 0, 0);
    }
    recorded_fini(&r);
    fix_free(f);
}

TEST(more_units_than_the_limit_now_stated_are_counted_as_the_limit_and_said)
{
    struct fix *f = fix_new("above.db", "hpa");
    const struct store_query all = {0};
    live(f, 250);
    f->cfg.spec.units_max = 8;
    fix_configure(f);
    memset(&f->stream, 0, sizeof f->stream);
    f->plan.units = 20; /* somebody scaled by hand */
    live(f, 50);
    struct recorded r = loaded(f, &all);
    for (int i = 0; i < r.n; i++)
        assert_true(r.units[i] <= 8);
    assert_non_null(strstr(r.notes.p, "had more units"));
    recorded_fini(&r);
    fix_free(f);
}

TEST(a_measured_curve_is_the_service_again)
{
    static const struct latency_point curve[] = {
        {1, 20, 40}, {33, 22, 47}, {60, 31, 90}, {80, 77, 411}};
    struct fix *f = fix_new("curve.db", "hpa");
    struct world *w;
    struct err e;
    const struct store_query all = {0};
    latency_fini(&f->latency);
    assert_ok(latency_from_curve(curve, 4, 75, FIX_UNITS, 200, &f->latency, &e), &e);
    f->source = (struct record_source){
        .latency = {.kind = RECORD_CURVE, .unit_qps = 75, .point = curve, .n_points = 4},
        .zone = "Europe/Berlin"};
    fix_configure(f);
    live(f, 300);
    struct recorded r = loaded(f, &all);
    assert_string_equal(r.zone, "Europe/Berlin");
    assert_ok(world_from_demand(&r.scenario, r.qps, r.barred, r.n, r.start_us, NULL, &w, &e), &e);
    assert_memory_equal(w->latency.load_max + 1, f->latency.load_max + 1,
                        FIX_UNITS * sizeof(float));
    world_free(w);
    recorded_fini(&r);
    fix_free(f);
}

TEST(of_several_targets_one_must_be_named_and_a_target_made_anew_is_one)
{
    struct fix *f = fix_new("several.db", "hpa");
    struct err e;
    struct recorded r;
    struct store_query q = {0};
    struct store_target t = {.cluster = "test",
                             .group = "apps",
                             .kind = "Deployment",
                             .namespace_ = "shop",
                             .name = "search",
                             .uid = "another"};
    live(f, 200);
    assert_ok(store_target_id(f->store, &t, f->now_us, &f->target_id, &e), &e);
    live(f, 100);
    r = loaded(f, &q);
    assert_int_equal(r.n, 300);
    recorded_fini(&r);
    t.name = "ads";
    assert_ok(store_target_id(f->store, &t, f->now_us, &f->target_id, &e), &e);
    assert_err(recorded_load(f->store, &q, &r, &e), ERR_USAGE, &e, "shop/search, shop/ads");
    q.name = "ads";
    assert_err(recorded_load(f->store, &q, &r, &e), ERR_MISSING, &e, "no decision is stored");
    q.name = "cats";
    assert_err(recorded_load(f->store, &q, &r, &e), ERR_MISSING, &e, "no target cats");
    q.name = "search";
    q.since_us = f->now_us + 1;
    assert_err(recorded_load(f->store, &q, &r, &e), ERR_MISSING, &e, "no samples");
    q.since_us = f->now_us - 20 * FIX_STEP_US;
    assert_err(recorded_load(f->store, &q, &r, &e), ERR_RANGE, &e, "an hour is the least");
    fix_free(f);
}

TEST(replicas_that_led_in_turn_make_one_past)
{
    struct fix *a = fix_new("replica-a.db", "hpa"), *b = fix_new("replica-b.db", "mpc");
    struct recorded r;
    struct err e;
    const struct store_query all = {0};
    live(a, 200);
    b->now_us = a->now_us;
    live(b, 200);
    a->now_us = b->now_us;
    live(a, 50);
    r = loaded(a, &all);
    assert_int_equal(r.n, 450);
    assert_int_equal(r.usable, 250);
    recorded_fini(&r);
    struct store *const both[] = {b->store, a->store};
    assert_ok(recorded_load_all(both, 2, &all, &r, &e), &e);
    assert_int_equal(r.n, 450);
    assert_int_equal(r.usable, 450);
    assert_string_equal(r.policy, "hpa"); /* that acted last */
    recorded_fini(&r);
    fix_free(a);
    fix_free(b);
}

TEST(what_was_recorded_is_compared_with_policies_over_the_same_demand)
{
    static const char *const names[] = {"static", "mpc"};
    struct fix *f = fix_new("compare.db", "mpc");
    struct world *w;
    struct err e;
    struct thread_pool *pool;
    struct evaluate_result *x;
    const struct store_query all = {0};
    live(f, 1200);
    struct recorded r = loaded(f, &all);
    assert_ok(thread_pool_new(1, &pool, &e), &e);
    assert_ok(world_from_demand(&r.scenario, r.qps, r.barred, r.n, r.start_us, NULL, &w, &e), &e);
    struct evaluate_opts o = {
        .n_seeds = 1, .policies = names, .n_policies = 2, .seed = 1, .recorded = r.units};
    assert_ok(evaluate_run(w, &o, pool, NULL, NULL, &x, &e), &e);
    assert_int_equal(x->ev.n_policies, 3);
    assert_string_equal(x->ev.policies[0].name, "recorded");
    double unit_h = 0;
    for (int i = w->train_end; i < w->n; i++)
        unit_h += r.units[i] * 15.0 / 3600;
    assert_near(eval_mean(&x->ev.policies[0], "unit_hours"), unit_h, 1e-6, 1e-6);
    assert_true(eval_mean(&x->ev.policies[1], "unit_hours") > unit_h); /* static runs the most */
    evaluate_free(x);
    world_free(w);
    thread_pool_free(pool);
    recorded_fini(&r);
    fix_free(f);
}
