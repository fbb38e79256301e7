/* bound_fixture.h - a small service and a load written in units, for tests of bounds and plans. */
#ifndef TESTS_UNIT_TRAIN_BOUND_FIXTURE_H
#define TESTS_UNIT_TRAIN_BOUND_FIXTURE_H

#include "base/mem.h"
#include "base/rng.h"
#include "model/history.h"
#include "model/latency.h"
#include "sim/capacity.h"
#include "tests/support/test.h"
#include "train/bound.h"

enum { BOUND_FIXTURE_STEPS = 4096 };

struct bound_fixture {
    struct latency_model latency;
    struct capacity_spec spec;
    struct capsim_cfg cfg;
    struct capsim_world world;
    struct capsim_trace trace;
    struct capsim lane;
    struct capacity_view view;
    float demand[BOUND_FIXTURE_STEPS];
    uint8_t barred[BOUND_FIXTURE_STEPS];
    float load[CAPACITY_UNITS_LIMIT + 1]; /* most that u units serve in target */
};

/* One step costs 1 $ per unit.  No noise, no failures; every start takes `start_steps`. */
static inline struct bound_fixture *bound_fixture_new(int units_max, int start_steps)
{
    struct err e;
    struct bound_fixture *f = try_zero_aligned(1, sizeof *f);
    assert_non_null(f);
    assert_ok(latency_from_erlang(40, 2, units_max, 200, &f->latency, &e), &e);
    f->spec = (struct capacity_spec){.units_max = units_max,
                                     .gpus_per_unit = 1,
                                     .price_usd_h = 240,
                                     .slo_p99_ms = 200,
                                     .slo_violation_max = 0.01,
                                     .step_us = 15 * US_PER_S,
                                     .latency = &f->latency};
    f->cfg = capsim_cfg_default();
    f->cfg.start_min_s = f->cfg.start_max_s = 15.0 * start_steps;
    f->cfg.unavailable_frac = f->cfg.noise_frac = 0;
    assert_ok(capsim_world_init(&f->world, &f->spec, &f->cfg, &e), &e);
    assert_ok(bound_loads(&f->world, f->load, &e), &e);
    return f;
}

/* Call after demand (and cfg, barred) are filled in. */
static inline void bound_fixture_start(struct bound_fixture *f, int32_t n)
{
    static const struct calendar utc = {0};
    struct err e;
    assert_ok(capsim_world_init(&f->world, &f->spec, &f->cfg, &e), &e);
    capsim_trace_fini(&f->trace);
    assert_ok(capsim_trace_init(&f->trace, f->demand, f->barred, n, 0, f->spec.step_us, &utc, &e),
              &e);
}

/* A load that needs exactly need[i] units at step i. */
static inline void bound_fixture_need(struct bound_fixture *f, const int *need, int32_t n)
{
    for (int32_t i = 0; i < n; i++)
        f->demand[i] = need[i] ? 0.5f * (fmaxf(f->load[need[i] - 1], 0) + f->load[need[i]]) : 0;
    bound_fixture_start(f, n);
}

static inline void bound_fixture_free(struct bound_fixture *f)
{
    capsim_trace_fini(&f->trace);
    latency_fini(&f->latency);
    mem_free(f);
}

#endif
