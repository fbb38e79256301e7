/* decide_policy_test.c - what holds for every policy: bounds, no action on missing metrics, more
 * load never asks for less. */
#include <string.h>

#include "tests/unit/decide/decide_fixture.h"

static void start(struct fix *f, size_t policy, bool guarded, uint64_t seed)
{
    fix_config(f, policy_at(policy)->name, guarded);
    fix_start(f);
    f->rng = rng_from_key(rng_key(test_seed(), "policy") + seed);
}

static void wander(struct fix *f, int i)
{
    float load = 2500 * (float)rng_unit(&f->rng);
    fix_load(f, load);
    f->view.value[FIELD_GPU_UTIL] = f->view.value[FIELD_CPU_UTIL] = (float)rng_unit(&f->rng);
    f->view.value[FIELD_QUEUE_LEN] = rng_below(&f->rng, 3) ? 0 : 200 * (float)rng_unit(&f->rng);
    f->view.foresight_qps = load;
    if (i % 20 == 0)
        fix_forecast(f, load, load * 1.2f, load * 1.4f);
    fix_tick(f);
}

TEST(no_policy_leaves_the_bounds)
{
    static struct fix f;
    for (size_t p = 0; p < policy_count(); p++)
        for (int guarded = 0; guarded < 2; guarded++) {
            start(&f, p, guarded, 1);
            f.cfg.spec.units_min = 3;
            f.cfg.spec.units_max = 40;
            f.view.budget_units = 40;
            struct err e;
            assert_ok(capacity_config_finish(&f.cfg, &e), &e);
            for (int i = 0; i < 2000; i++) {
                wander(&f, i);
                int units = fix_decide(&f);
                assert_in_range(units, 3, 40);
                fix_units(&f, units, 0);
            }
        }
}

TEST(no_policy_acts_on_missing_metrics)
{
    static struct fix f;
    for (size_t p = 0; p < policy_count(); p++) {
        if (strcmp(policy_at(p)->name, "static") == 0)
            continue; /* it looks at none */
        for (int guarded = 0; guarded < 2; guarded++) {
            start(&f, p, guarded, 2);
            for (int i = 0; i < 100; i++) {
                wander(&f, i);
                fix_units(&f, fix_decide(&f), 0);
            }
            int units = f.view.units_requested;
            for (int i = 0; i < FIELD_COUNT; i++)
                f.view.value[i] = NAN;
            f.view.qps_last = f.view.foresight_qps = NAN;
            for (int i = 0; i < 100; i++) {
                assert_int_equal(fix_decide(&f), units);
                fix_tick(&f);
            }
        }
    }
}

/* The same past, then rising loads: a higher one never asks for fewer units.  Not mpc: a load far
 * under what it expected is a surprise too, and widens its reserve. */
TEST(more_load_never_asks_for_less)
{
    static const char *const names[] = {"hpa", "queue", "predictive", "foresight"};
    static struct fix f, g;
    for (size_t p = 0; p < sizeof names / sizeof names[0]; p++) {
        fix_config(&f, names[p], false);
        if (strcmp(names[p], "hpa") == 0) {
            f.cfg.main.opt.hpa.gpu_target_frac = 0;
            f.cfg.main.opt.hpa.unit_qps = 40;
        }
        fix_start(&f);
        for (int i = 0; i < 400; i++) {
            wander(&f, i);
            fix_units(&f, fix_decide(&f), 0);
            g = f;
            float low = 2000 * (float)rng_unit(&f.rng), last = -1;
            for (int k = 0; k < 6; k++, low += 200) {
                static struct fix h;
                h = g;
                fix_load(&h, low);
                h.view.foresight_qps = low;
                h.view.value[FIELD_QUEUE_LEN] = low;
                fix_tick(&h);
                int units = fix_decide(&h);
                assert_true((float)units >= last);
                last = (float)units;
            }
        }
    }
}
