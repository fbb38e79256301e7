/* run_totals_test.c - what holds for every policy in every world: sums, bounds, common chance, more
 * units miss less. */
#include "tests/unit/train/world_fixture.h"

enum { WORLDS = 12, STEPS = 1500 };

struct any_world {
    struct scenario sc;
    struct world *w;
    struct chance *c;
    int barred;
};

/* A world with random limits, noise, starts, gaps and load; now and then hopelessly overloaded or
 * idle. */
static void any_world_init(struct any_world *a, struct rng *rng)
{
    float demand[STEPS];
    uint8_t barred[STEPS] = {0};
    small_scenario(&a->sc);
    a->sc.service.units_max = 1 + (int)rng_below(rng, 80);
    a->sc.service.units_min =
        (int)rng_below(rng, 3) < a->sc.service.units_max ? (int)rng_below(rng, 2) : 0;
    a->sc.chance.noise_frac = 0.4 * rng_unit(rng);
    a->sc.chance.unavailable_frac = 0.1 * rng_unit(rng);
    a->sc.chance.start_min_us = (int64_t)rng_below(rng, 200) * US_PER_S;
    a->sc.chance.start_max_us =
        a->sc.chance.start_min_us + (1 + (int64_t)rng_below(rng, 200)) * US_PER_S;
    float level = WORLD_UNIT_QPS * (float)a->sc.service.units_max * (float)(1.3 * rng_unit(rng));
    for (int i = 0; i < STEPS; i++) {
        if (rng_below(rng, 200) == 0)
            level *= rng_below(rng, 2) ? 2 : 0.5f;
        demand[i] = rng_below(rng, 50) ? level * (float)rng_unit(rng) + 0.01f : 0;
    }
    int gap = (int)rng_below(rng, STEPS / 2), length = (int)rng_below(rng, 100);
    memset(barred + gap, 1, (size_t)length);
    a->barred = length;
    a->w = world_of(&a->sc, demand, barred, STEPS);
    a->c = chance_of(a->w, rng_next(rng) % 1000);
}

static void any_world_fini(struct any_world *a)
{
    chance_free(a->c);
    world_free(a->w);
    scenario_fini(&a->sc);
}

struct bounds {
    int lo, hi, n;
};

static void look(void *ctx, const struct run_look *l)
{
    struct bounds *b = ctx;
    b->lo = l->plan->units < b->lo ? l->plan->units : b->lo;
    b->hi = l->plan->units > b->hi ? l->plan->units : b->hi;
    b->n++;
    assert_int_equal(l->view->units_requested,
                     l->view->units_ready + l->view->units_warming + l->view->units_failed);
    assert_int_equal(l->out->units_billed, l->plan->units);
}

static void run_named(const struct any_world *a, const char *text, struct bounds *b,
                      struct run_result *r)
{
    struct err e;
    struct capacity_config cfg;
    const struct policy *p;
    bool guarded;
    assert_ok(policy_parse(text, &p, &guarded, &e), &e);
    config_of(a->w, p->name, guarded, &cfg);
    struct run_opts o = run_opts_default(a->w);
    o.from = o.warm_steps = 0;
    o.look = look;
    o.ctx = b;
    assert_ok(run_policy(a->w, a->c, &cfg, &o, r, &e), &e);
}

static const char *const policies[] = {"static",    "threshold", "threshold+guard", "hpa",
                                       "hpa+guard", "queue",     "predictive",      "mpc",
                                       "mpc-guard", "foresight"};

TEST(sums_add_up_and_stay_within_bounds_for_every_policy)
{
    struct rng rng = rng_stream(test_seed(), "worlds");
    struct run_result *r = mem_zero(1, sizeof *r);
    for (int k = 0; k < WORLDS; k++) {
        struct any_world a;
        any_world_init(&a, &rng);
        for (size_t p = 0; p < ARRAY_LEN(policies); p++) {
            struct bounds b = {CAPACITY_UNITS_LIMIT, 0, 0};
            run_named(&a, policies[p], &b, r);
            const struct run_day *t = &r->total;
            struct run_day sum = {0};
            for (int d = 0; d < r->n_days; d++)
                run_day_add(&sum, &r->day[d]);
            assert_int_equal(sum.steps, t->steps);
            assert_near(sum.cost_usd, t->cost_usd, 0, 1e-12);
            assert_int_equal(b.n, STEPS);
            assert_int_equal(t->steps + a.barred, STEPS);
            assert_near(t->cost_usd, t->unit_h * a.sc.service.price_usd_h, 1e-9, 1e-5);
            assert_in_range(t->misses, 0, t->steps);
            assert_true(t->miss_requests >= 0 && t->miss_requests <= t->arrivals * (1 + 1e-6));
            assert_true(t->reversals <= t->actions && t->actions <= t->units_changed);
            assert_in_range(b.hi, 0, a.sc.service.units_max);
            assert_true(b.lo >= a.sc.service.units_min);
            assert_true(isfinite(t->reward_sum) && isfinite(t->p99_sum_ms));
        }
        any_world_fini(&a);
    }
    mem_free(r);
}

TEST(every_policy_meets_the_same_arrivals_under_one_seed)
{
    struct rng rng = rng_stream(test_seed(), "arrivals");
    struct run_result *first = mem_zero(2, sizeof *first), *r = first + 1;
    for (int k = 0; k < WORLDS; k++) {
        struct any_world a;
        any_world_init(&a, &rng);
        struct bounds b = {0};
        run_named(&a, "static", &b, first);
        for (size_t p = 1; p < ARRAY_LEN(policies); p++) {
            run_named(&a, policies[p], &b, r);
            assert_int_equal(r->n_days, first->n_days);
            for (int d = 0; d < r->n_days; d++)
                assert_near(r->day[d].arrivals, first->day[d].arrivals, 0, 0);
        }
        any_world_fini(&a);
    }
    mem_free(first);
}

TEST(the_same_run_twice_is_the_same_run)
{
    struct rng rng = rng_stream(test_seed(), "twice");
    struct run_result *x = mem_zero(2, sizeof *x), *y = x + 1;
    for (int k = 0; k < WORLDS; k++) {
        struct any_world a;
        any_world_init(&a, &rng);
        struct bounds b = {0};
        const char *p = policies[(size_t)k % ARRAY_LEN(policies)];
        run_named(&a, p, &b, x);
        run_named(&a, p, &b, y);
        assert_true(x->hash == y->hash);
        assert_memory_equal(&x->total, &y->total, sizeof x->total);
        any_world_fini(&a);
    }
    mem_free(x);
}

/* Slots fail and are filled from the lowest up, so a larger constant size has every unit of the
 * smaller one. */
TEST(a_larger_constant_size_never_misses_more)
{
    struct rng rng = rng_stream(test_seed(), "sizes");
    struct run_result *r = mem_zero(1, sizeof *r);
    int16_t plan[STEPS];
    for (int k = 0; k < WORLDS; k++) {
        struct any_world a;
        struct err e;
        any_world_init(&a, &rng);
        struct run_opts o = run_opts_default(a.w);
        o.from = 0;
        o.schedule = plan;
        int64_t before = INT64_MAX;
        double cost = -1;
        for (int units = 0; units <= a.sc.service.units_max;
             units += 1 + (int)a.sc.service.units_max / 12) {
            for (int i = 0; i < STEPS; i++)
                plan[i] = (int16_t)units;
            assert_ok(run_policy(a.w, a.c, NULL, &o, r, &e), &e);
            assert_true(r->total.misses <= before);
            assert_true(r->total.cost_usd > cost);
            before = r->total.misses;
            cost = r->total.cost_usd;
        }
        any_world_fini(&a);
    }
    mem_free(r);
}
