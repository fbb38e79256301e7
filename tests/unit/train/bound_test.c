/* bound_test.c - the lower bound against hand-made cases, the relaxed problem and the simulator by
 * brute force. */
#include "tests/unit/train/bound_fixture.h"

#define USD_TOL 1e-6 /* the bound gives away 2^-23 */

static double bound_of(struct bound_fixture *f, int32_t n, int units0, double limit)
{
    struct err e;
    double usd;
    assert_ok(bound_cost(&f->world, &f->trace, 1, 0, n, units0, &limit, 1, &usd, &e), &e);
    return usd;
}

/* ---- the load that units serve ------------------------------------------------------------- */

TEST(the_load_of_each_size_is_where_the_simulator_turns)
{
    struct bound_fixture *f = bound_fixture_new(16, 8);
    for (int u = 1; u <= 16; u++) {
        const float at[] = {f->load[u] * 0.9999f, f->load[u] * 1.0001f};
        for (int k = 0; k < 2; k++) {
            f->demand[0] = at[k];
            bound_fixture_start(f, 1);
            struct capsim_out out;
            capsim_reset(&f->lane, &f->world, &f->trace, 1, 0, u, &f->view);
            capsim_step(&f->lane, &f->world, &f->trace, u, &f->view, &out);
            assert_int_equal(out.miss, k);
        }
    }
    assert_true(f->load[0] >= 0 && f->load[0] < 1e-6f);
    bound_fixture_free(f);
}

TEST(a_target_no_size_can_meet_leaves_only_forced_misses)
{
    struct bound_fixture *f = bound_fixture_new(4, 2);
    f->spec.slo_p99_ms = 1; /* below the service time itself */
    static const int need[] = {1, 2, 1, 3};
    bound_fixture_need(f, need, 4);
    struct bound b;
    struct err e;
    assert_ok(bound_init(&b, &f->world, &f->trace, 1, 0, 4, 1, &e), &e);
    assert_int_equal(b.n_forced, 4);
    assert_near(bound_forced_frac(&b), 1, 0, 0);
    bound_fini(&b);
    assert_near(bound_of(f, 4, 1, 0.01), 0, 0, 0);
    bound_fixture_free(f);
}

/* ---- hand-made cases ----------------------------------------------------------------------- */

TEST(bounds_of_hand_made_loads_are_their_cheapest_plans)
{
    static const struct {
        const char *what;
        int need[12];
        int units0;
        double limit;
        double usd;
    } row[] = {
        {"steady", {2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2}, 2, 0, 24},
        {"scale-in is free", {2, 2, 2, 1, 1, 1, 1, 1, 1, 1, 1, 1}, 2, 0, 15},
        {"a start is billed while it warms",
         {1, 1, 1, 1, 1, 1, 1, 1, 3, 3, 3, 3},
         1,
         0,
         20 + 2 * 3},
        {"a short gap is held", {2, 2, 1, 1, 2, 2, 2, 2, 2, 2, 2, 2}, 2, 0, 24},
        {"a long gap is not", {2, 2, 1, 1, 1, 1, 1, 2, 2, 2, 2, 2}, 2, 0, 19 + 3},
        {"one miss is let go", {1, 1, 1, 1, 1, 1, 4, 1, 1, 1, 1, 1}, 1, 1 / 12.0, 12},
        {"two of three peaks are let go",
         {1, 1, 1, 4, 1, 1, 3, 1, 1, 1, 2, 1},
         1,
         2 / 12.0,
         12 + 4},
        {"idle costs nothing", {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0}, 4, 0, 0},
        {"everything may be missed", {4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4}, 4, 1, 0},
    };
    for (size_t i = 0; i < ARRAY_LEN(row); i++) {
        struct bound_fixture *f = bound_fixture_new(4, 3);
        bound_fixture_need(f, row[i].need, 12);
        double usd = bound_of(f, 12, row[i].units0, row[i].limit);
        if (fabs(usd - row[i].usd) > 1e-5)
            fail_msg("%s: %.7g, want %g", row[i].what, usd, row[i].usd);
        bound_fixture_free(f);
    }
}

TEST(nothing_becomes_ready_before_the_shortest_start_has_passed)
{
    struct bound_fixture *f = bound_fixture_new(4, 3);
    static const int need[] = {1, 3, 3, 3, 1, 1};
    bound_fixture_need(f, need, 6);
    struct bound b;
    struct err e;
    assert_ok(bound_init(&b, &f->world, &f->trace, 1, 0, 6, 1, &e), &e);
    assert_int_equal(b.n_forced, 2); /* steps 1 and 2; step 3 can be reached */
    bound_fini(&b);
    assert_near(bound_of(f, 6, 1, 2 / 6.0), 6 + 2 + 2 * 3, 0, USD_TOL);
    bound_fixture_free(f);
}

TEST(a_limit_below_the_forced_misses_gives_the_bound_of_those_fewest)
{
    struct bound_fixture *f = bound_fixture_new(4, 3);
    static const int need[] = {1, 3, 3, 3, 1, 1};
    bound_fixture_need(f, need, 6);
    assert_near(bound_of(f, 6, 1, 0), bound_of(f, 6, 1, 2 / 6.0), 0, 0);
    bound_fixture_free(f);
}

TEST(with_any_start_units_ready_or_warming_before_the_stretch_are_free)
{
    struct bound_fixture *f = bound_fixture_new(4, 3);
    static const int need[] = {1, 3, 3, 3, 1, 1};
    bound_fixture_need(f, need, 6);
    /* two units become ready at step 1 and were billed for step 0 only */
    assert_near(bound_of(f, 6, BOUND_UNITS_ANY, 0), 12 + 2, 0, USD_TOL);
    bound_fixture_free(f);
}

TEST(gaps_of_the_history_are_neither_billed_nor_judged)
{
    struct bound_fixture *f = bound_fixture_new(4, 3);
    static const int need[] = {1, 1, 1, 1, 4, 4, 4, 4, 1, 1, 2, 2};
    for (int i = 4; i < 10; i++)
        f->barred[i] = 1;
    bound_fixture_need(f, need, 12);
    /* the start before step 10 warms inside the gap */
    assert_near(bound_of(f, 12, 1, 0), 4 + 4, 0, USD_TOL);
    bound_fixture_free(f);
}

/* ---- limits -------------------------------------------------------------------------------- */

static void fill_random(struct bound_fixture *f, struct rng *r, int32_t n, int top)
{
    int need[BOUND_FIXTURE_STEPS];
    for (int32_t i = 0; i < n; i++)
        need[i] = (int)rng_below(r, (uint32_t)top + 1);
    bound_fixture_need(f, need, n);
}

TEST(a_front_in_one_call_is_the_limits_one_by_one_and_falls)
{
    struct bound_fixture *f = bound_fixture_new(16, 8);
    struct rng r = rng_from_key(5);
    f->cfg.noise_frac = 0.2;
    fill_random(f, &r, 2000, 15);
    double limit[20], front[20];
    struct err e;
    struct bound b;
    assert_ok(bound_init(&b, &f->world, &f->trace, 1, 0, 2000, 3, &e), &e);
    double forced = bound_forced_frac(&b);
    bound_fini(&b);
    for (int i = 0; i < 20; i++)
        limit[i] = forced / 2 + 0.005 * i;
    assert_ok(bound_cost(&f->world, &f->trace, 1, 0, 2000, 3, limit, 20, front, &e), &e);
    for (int i = 0; i < 20; i++) {
        assert_near(front[i], bound_of(f, 2000, 3, limit[i]), 1.001,
                    0); /* both stop within one unit-step */
        if (i)
            assert_true(front[i] < front[i - 1] || limit[i] <= forced);
    }
    bound_fixture_free(f);
}

TEST(every_price_of_a_miss_gives_a_bound_and_the_search_finds_the_best)
{
    struct bound_fixture *f = bound_fixture_new(8, 4);
    struct rng r = rng_from_key(6);
    fill_random(f, &r, 500, 8);
    struct bound b;
    struct err e;
    assert_ok(bound_init(&b, &f->world, &f->trace, 1, 0, 500, 8, &e), &e);
    double limit = 0.05, best;
    assert_ok(bound_limits(&b, &limit, 1, &best, &e), &e);
    double largest = 0;
    for (int i = 0; i <= 8 * 5 * 4; i++) {
        double lambda = 0.25 * i;
        struct bound_point p;
        bound_relaxed(&b, &lambda, 1, &p);
        assert_near(p.lambda, lambda, 0, 0);
        double dual = (double)p.unit_steps + lambda * (p.misses - bound_allowed(&b, limit));
        assert_true(dual <= best + 1.001);
        largest = fmax(largest, dual);
    }
    assert_near(best, largest, 1.001, USD_TOL);
    bound_fini(&b);
    bound_fixture_free(f);
}

TEST(allowed_misses_are_the_most_whose_fraction_is_within_the_limit)
{
    for (int32_t n = 1; n < 400; n++) {
        struct bound b = {.n_counted = n};
        for (int32_t m = 0; m <= n; m++)
            assert_int_equal(bound_allowed(&b, (double)m / n), m);
        assert_int_equal(bound_allowed(&b, nextafter(1.0 / n, 0)), 0);
    }
}

TEST(bad_stretches_and_limits_are_errors)
{
    struct bound_fixture *f = bound_fixture_new(4, 3);
    bound_fixture_start(f, 100);
    static const struct {
        int32_t from, to;
        int units0, n_limits;
        double limit;
        enum err_code rc;
        const char *text;
    } row[] = {
        {-1, 50, 1, 1, 0.01, ERR_RANGE, "steps -1..50"},
        {50, 50, 1, 1, 0.01, ERR_RANGE, "steps 50..50"},
        {0, 101, 1, 1, 0.01, ERR_RANGE, "steps 0..101"},
        {0, 50, 5, 1, 0.01, ERR_RANGE, "5 units"},
        {0, 50, -2, 1, 0.01, ERR_RANGE, "-2 units"},
        {0, 50, 1, 0, 0.01, ERR_INVAL, "0 limits"},
        {0, 50, 1, BOUND_LIMITS_MAX + 1, 0.01, ERR_INVAL, "65 limits"},
        {0, 50, 1, 1, -0.01, ERR_INVAL, "limit -0.01"},
        {0, 50, 1, 1, 1.01, ERR_INVAL, "limit 1.01"},
        {0, 50, 1, 1, NAN, ERR_INVAL, "limit nan"},
    };
    for (size_t i = 0; i < ARRAY_LEN(row); i++) {
        struct err e;
        double limit[BOUND_LIMITS_MAX + 1] = {row[i].limit}, usd[BOUND_LIMITS_MAX + 1];
        assert_err(bound_cost(&f->world, &f->trace, 1, row[i].from, row[i].to, row[i].units0, limit,
                              row[i].n_limits, usd, &e),
                   row[i].rc, &e, row[i].text);
    }
    bound_fixture_free(f);
}

/* ---- brute force --------------------------------------------------------------------------- */

enum { BRUTE_STEPS = 9, BRUTE_UNITS = 2 };

/* best[m]: least cost with exactly m misses; INFINITY where there is none. */
struct brute {
    double best[BRUTE_STEPS + 1];
};

static void brute_init(struct brute *a)
{
    for (int m = 0; m <= BRUTE_STEPS; m++)
        a->best[m] = INFINITY;
}

static void brute_relaxed(struct brute *a, const struct bound *b, int32_t i, int before,
                          double cost, int misses)
{
    if (i == b->n) {
        a->best[misses] = fmin(a->best[misses], cost);
        return;
    }
    bool stuck = b->units0 != BOUND_UNITS_ANY && i < b->lag;
    for (int q = 0; q <= (stuck ? before : b->units_max); q++) {
        double up = q > before ? (q - before) * b->start[i] : 0;
        brute_relaxed(a, b, i + 1, q, cost + up + q * b->billed[i], misses + (q < b->need[i]));
    }
}

static void brute_simulated(struct brute *a, const struct bound_fixture *f, const struct capsim *at,
                            double cost, int misses)
{
    if (capsim_done(at, &f->trace)) {
        a->best[misses] = fmin(a->best[misses], cost);
        return;
    }
    for (int u = 0; u <= BRUTE_UNITS; u++) {
        struct capsim lane;
        struct capsim_out out;
        struct capacity_view view;
        capsim_copy(&lane, at, &f->world);
        capsim_step(&lane, &f->world, &f->trace, u, &view, &out);
        brute_simulated(a, f, &lane, cost + (out.barred ? 0 : (double)out.cost_usd),
                        misses + (out.miss && !out.barred));
    }
}

/* The lower convex hull of best[] at m misses: what a dual can reach. */
static double hull_at(const struct brute *a, int m)
{
    double at = INFINITY;
    for (int i = 0; i <= m; i++) {
        at = fmin(at, a->best[i]);
        for (int k = m + 1; k <= BRUTE_STEPS; k++)
            at = fmin(at, a->best[i] + (a->best[k] - a->best[i]) * (m - i) / (k - i));
    }
    return at;
}

static struct bound_fixture *brute_instance(struct rng *r, bool chance)
{
    struct bound_fixture *f = bound_fixture_new(BRUTE_UNITS, 1 + (int)rng_below(r, 3));
    for (int i = 0; i < BRUTE_STEPS; i++) {
        f->demand[i] =
            rng_below(r, 4) ? (float)rng_unit(r) * (chance ? 1.2f : 1) * f->load[BRUTE_UNITS] : 0;
        f->barred[i] = chance && rng_below(r, 8) == 0;
    }
    if (chance) {
        f->cfg.start_max_s += 15;
        f->cfg.unavailable_frac = 0.1;
        f->cfg.repair_s = 30;
        f->cfg.noise_frac = 0.2;
    }
    bound_fixture_start(f, BRUTE_STEPS);
    return f;
}

TEST(the_dual_reaches_the_hull_of_all_relaxed_plans)
{
    struct rng r = rng_stream(test_seed(), "bound");
    int exact = 0;
    for (int k = 0; k < 40; k++) {
        struct bound_fixture *f = brute_instance(&r, true);
        int units0 = (int)rng_below(&r, BRUTE_UNITS + 2) - 1;
        struct bound b;
        struct err e;
        assert_ok(bound_init(&b, &f->world, &f->trace, (uint64_t)k, 0, BRUTE_STEPS, units0, &e),
                  &e);
        struct brute all;
        brute_init(&all);
        if (units0 == BOUND_UNITS_ANY)
            for (int q = 0; q <= BRUTE_UNITS; q++)
                brute_relaxed(&all, &b, 0, q, 0, 0);
        else
            brute_relaxed(&all, &b, 0, units0, 0, 0);
        for (int m = 0; m + b.n_forced <= b.n_counted; m++) {
            double limit = (double)(m + b.n_forced) / b.n_counted, usd, hull = hull_at(&all, m);
            if (b.n_counted == 0)
                continue;
            assert_ok(bound_limits(&b, &limit, 1, &usd, &e), &e);
            assert_true(usd <= hull);
            assert_near(usd, hull, 1, 0); /* the search stops within one unit-step */
            exact += fabs(usd - all.best[m]) < 1e-5;
        }
        bound_fini(&b);
        bound_fixture_free(f);
    }
    assert_true(exact > 40); /* on the hull's corners nothing is lost */
}

TEST(no_plan_in_the_simulator_undercuts_the_bound)
{
    struct rng r = rng_stream(test_seed(), "bound");
    int compared = 0;
    for (int k = 0; k < 24; k++) {
        struct bound_fixture *f = brute_instance(&r, k % 2);
        int units0 = k % 2 ? (int)rng_below(&r, BRUTE_UNITS + 1) : BRUTE_UNITS;
        struct brute all;
        brute_init(&all);
        capsim_reset(&f->lane, &f->world, &f->trace, (uint64_t)k, 0, units0, &f->view);
        brute_simulated(&all, f, &f->lane, 0, 0);
        struct bound b;
        struct err e;
        assert_ok(bound_init(&b, &f->world, &f->trace, (uint64_t)k, 0, BRUTE_STEPS, units0, &e),
                  &e);
        double best = INFINITY;
        for (int m = 0; m <= b.n_counted && b.n_counted > 0; m++) {
            best = fmin(best, all.best[m]); /* with at most m misses */
            double limit = (double)m / b.n_counted, usd;
            assert_ok(bound_limits(&b, &limit, 1, &usd, &e), &e);
            if (isinf(best))
                continue;
            assert_true(usd <= best);
            if (k % 2 == 0 && m == 0) {
                compared++;
                assert_near(usd, best, 1, 0); /* without chance and misses nothing was relaxed */
            }
        }
        bound_fini(&b);
        bound_fixture_free(f);
    }
    assert_true(compared == 12);
}
