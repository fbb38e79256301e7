/* world_fixture.h - small worlds from demand in memory.
 *
 * The service: 25 ms in two slots, so one unit serves 80 requests/s at full use, p99 target 200
 * ms, 2.5 $ an hour. */
#ifndef TESTS_UNIT_TRAIN_WORLD_FIXTURE_H
#define TESTS_UNIT_TRAIN_WORLD_FIXTURE_H

#include "base/mem.h"
#include "sim/generate.h"
#include "tests/support/test.h"
#include "train/tune.h"

enum { WORLD_DAY = 5760 };
#define WORLD_MONDAY_US (1709510400 * US_PER_S) /* 2024-03-04 00:00 UTC */
#define WORLD_UNIT_QPS 80.0f

/* Defaults without a file, named "small", up to 16 units. */
static inline void small_scenario(struct scenario *sc)
{
    scenario_init(sc);
    sc->name = mem_strdup("small");
    sc->service.units_max = 16;
}

/* Nothing by chance: no noise, no failures, every start takes `start_s`. */
static inline void calm_scenario(struct scenario *sc, int start_s)
{
    small_scenario(sc);
    sc->chance.noise_frac = 0;
    sc->chance.unavailable_frac = 0;
    sc->chance.start_min_us = sc->chance.start_max_us = start_s * US_PER_S;
}

static inline struct world *world_of(const struct scenario *sc, const float *demand,
                                     const uint8_t *barred, int64_t n)
{
    struct err e;
    struct world *w;
    assert_ok(world_from_demand(sc, demand, barred, n, WORLD_MONDAY_US, NULL, &w, &e), &e);
    return w;
}

/* `days` of a daily wave with bursts; peak takes `peak_units` units at full use. */
static inline struct world *wave_world(const struct scenario *sc, int days, double peak_units)
{
    struct err e;
    int64_t n = (int64_t)days * WORLD_DAY;
    float *demand = mem_zero((size_t)n, sizeof *demand);
    struct generate_cfg g = generate_cfg_default();
    g.start_us = WORLD_MONDAY_US;
    g.peak_qps = peak_units * (double)WORLD_UNIT_QPS;
    assert_ok(generate_demand(&g, 1, n, demand, &e), &e);
    struct world *w = world_of(sc, demand, NULL, n);
    mem_free(demand);
    return w;
}

static inline struct chance *chance_of(const struct world *w, uint64_t seed)
{
    struct err e;
    struct chance *c;
    assert_ok(chance_new(w, seed, &c, &e), &e);
    return c;
}

static inline void config_of(const struct world *w, const char *policy, bool guarded,
                             struct capacity_config *cfg)
{
    struct err e;
    struct policy_use use;
    policy_use_default(&use, policy_find(policy));
    assert_ok(world_config(w, &use, guarded, cfg, &e), &e);
}

#endif
