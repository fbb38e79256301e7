/* bound_test.c - over random services, loads and seeds, no policy run in the simulator costs less
 * than the bound at its own misses: not a random one, not one that knows all demand, not one that
 * started earlier, not the plan of hindsight. */
#include "tests/unit/train/bound_fixture.h"
#include "train/oracle.h"

enum { STEPS = 600, WARM = 50, UNITS_TOP = 100, INSTANCES = 60, POLICIES = 8 };

struct totals {
    double usd;
    int misses, counted;
};

static struct bound_fixture *random_instance(struct rng *r)
{
    struct bound_fixture *f = bound_fixture_new(1 + (int)rng_below(r, UNITS_TOP), 1);
    bool calm = rng_below(
        r, 2); /* only demand varies: policy 2 is optimal, the bound has no room below it */
    f->cfg.start_min_s = f->cfg.start_max_s = 300 * rng_unit(r);
    f->cfg.start_max_s += calm ? 0 : 200 * rng_unit(r);
    f->cfg.unavailable_frac = calm ? 0 : 0.1 * rng_unit(r);
    f->cfg.noise_frac = rng_below(r, 2) ? 0.5 * rng_unit(r) : 0;
    f->cfg.timeout_s = calm ? 0.25 : 60 * rng_unit(r) + 0.25;
    float top = f->load[f->spec.units_max] * (0.3f + (float)rng_unit(r));
    float level = top * (float)rng_unit(r);
    for (int i = 0; i < STEPS; i++) {
        if (rng_below(r, 20) == 0)
            level = top * (float)rng_unit(r) * (float)rng_unit(r);
        f->demand[i] = level * (0.9f + 0.2f * (float)rng_unit(r));
        f->barred[i] =
            !calm && (rng_below(r, 100) == 0 || (i && f->barred[i - 1] && rng_below(r, 10)));
    }
    if (!calm && rng_below(r, 2)) {
        f->cfg.n_faults = 2;
        f->cfg.fault[0] = (struct capsim_fault){
            .kind = CAPSIM_DEPENDENCY_SLOW, .from_step = 200, .to_step = 220, .value = 3};
        f->cfg.fault[1] =
            (struct capsim_fault){.kind = CAPSIM_REGISTRY_DOWN, .from_step = 300, .to_step = 360};
    }
    bound_fixture_start(f, STEPS);
    return f;
}

/* k = 0 walks at random; else a size that serves what comes within the shortest start + k - 2
 * steps, with some steps given up from k = 3 on. */
static int choose(const struct bound_fixture *f, const float *factor, int32_t step, int k,
                  int units, struct rng *r)
{
    int max = f->spec.units_max;
    if (k == 0) {
        int next = units + (int)rng_below(r, 9) - 4;
        return next < 0 ? 0 : next > max ? max : next;
    }
    int want = 0, lead = (int)f->world.start_steps[0] + k - 2;
    for (int32_t i = step; i <= step + lead && i < STEPS; i++) {
        if (rng_mix((uint64_t)i) % 100 < (uint64_t)(k < 3 ? 0 : 4 * k))
            continue;
        int need = 0;
        while (need < max && f->load[need] < f->demand[i] * factor[i])
            need++;
        want = need > want ? need : want;
    }
    return want;
}

static struct totals run(struct bound_fixture *f, uint64_t seed, const float *factor, int32_t from,
                         int32_t count, int units0, int k, struct rng *r)
{
    struct totals sum = {0};
    struct capsim_out out;
    capsim_reset(&f->lane, &f->world, &f->trace, seed, from, units0, &f->view);
    for (int32_t i = from; i < STEPS; i++) {
        int units = choose(f, factor, i, k, f->view.units_requested, r);
        capsim_step(&f->lane, &f->world, &f->trace, units, &f->view, &out);
        if (i < count || out.barred)
            continue;
        sum.counted++;
        sum.misses += out.miss;
        sum.usd += (double)out.cost_usd;
    }
    return sum;
}

TEST(no_policy_costs_less_than_the_bound_at_its_own_misses)
{
    struct rng r = rng_stream(test_seed(), "prop.bound");
    float factor[STEPS];
    for (int i = 0; i < INSTANCES; i++) {
        struct bound_fixture *f = random_instance(&r);
        uint64_t seed = rng_next(&r);
        capsim_noise_fill(&f->world, seed, 0, STEPS, factor);
        for (int k = 0; k < POLICIES; k++) {
            int units0 = (int)rng_below(&r, (uint32_t)f->spec.units_max + 1);
            bool early = rng_below(&r, 2); /* it has run before the counted stretch */
            int32_t from = early ? WARM : 0;
            struct totals t = run(f, seed, factor, 0, from, units0, k, &r);
            if (t.counted == 0)
                continue;
            struct err e;
            double limit = (double)t.misses / t.counted, usd;
            assert_ok(bound_cost(&f->world, &f->trace, seed, from, STEPS,
                                 early ? BOUND_UNITS_ANY : units0, &limit, 1, &usd, &e),
                      &e);
            if (usd > t.usd)
                fail_msg("instance %d, policy %d: bound %.9g above %.9g at %d misses of %d", i, k,
                         usd, t.usd, t.misses, t.counted);
        }
        bound_fixture_free(f);
    }
}

TEST(misses_of_any_policy_are_at_least_the_forced_ones)
{
    struct rng r = rng_stream(test_seed(), "prop.bound.forced");
    float factor[STEPS];
    for (int i = 0; i < INSTANCES; i++) {
        struct bound_fixture *f = random_instance(&r);
        uint64_t seed = rng_next(&r);
        capsim_noise_fill(&f->world, seed, 0, STEPS, factor);
        struct bound b;
        struct err e;
        assert_ok(bound_init(&b, &f->world, &f->trace, seed, 0, STEPS, f->spec.units_max / 2, &e),
                  &e);
        struct totals t = run(f, seed, factor, 0, 0, f->spec.units_max / 2, 1, &r);
        assert_true(t.misses >= b.n_forced);
        bound_fini(&b);
        bound_fixture_free(f);
    }
}

TEST(plans_of_hindsight_are_kept_and_lie_above_the_bound)
{
    struct rng r = rng_stream(test_seed(), "prop.oracle");
    int met = 0;
    for (int i = 0; i < INSTANCES; i++) {
        struct bound_fixture *f = random_instance(&r);
        uint64_t seed = rng_next(&r);
        int units0 = (int)rng_below(&r, (uint32_t)f->spec.units_max + 1);
        int32_t from = (int32_t)rng_below(&r, STEPS / 2),
                to = from + 1 + (int32_t)rng_below(&r, STEPS / 2);
        double limit = 0.1 * rng_unit(&r), usd = 0;
        int16_t units[STEPS];
        struct oracle_result plan;
        struct err e;
        assert_ok(
            oracle_plan(&f->world, &f->trace, seed, from, to, units0, limit, units, &plan, &e), &e);
        struct capsim_out out;
        int misses = 0, counted = 0;
        capsim_reset(&f->lane, &f->world, &f->trace, seed, from, units0, &f->view);
        for (int32_t k = from; k < to; k++) {
            capsim_step(&f->lane, &f->world, &f->trace, units[k - from], &f->view, &out);
            misses += out.miss && !out.barred;
            counted += !out.barred;
            usd += out.barred ? 0 : (double)out.cost_usd;
        }
        assert_int_equal(misses, plan.misses);
        assert_near(usd, plan.cost_usd, 1e-9, 1e-12);
        assert_int_equal(plan.met, misses <= limit * counted);
        met += plan.met;
        if (counted > 0) {
            double own = (double)misses / counted, least;
            assert_ok(bound_cost(&f->world, &f->trace, seed, from, to, units0, &own, 1, &least, &e),
                      &e);
            assert_true(least <= usd);
        }
        bound_fixture_free(f);
    }
    assert_true(met > INSTANCES / 3);
}
