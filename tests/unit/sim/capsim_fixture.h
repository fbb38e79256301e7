/* capsim_fixture.h - a service, a trace and a world for tests of the capacity simulator. */
#ifndef TESTS_UNIT_SIM_CAPSIM_FIXTURE_H
#define TESTS_UNIT_SIM_CAPSIM_FIXTURE_H

#include "base/mem.h"
#include "base/rng.h"
#include "model/history.h"
#include "model/latency.h"
#include "sim/capacity.h"
#include "tests/support/test.h"

struct fixture {
    struct latency_model latency;
    struct capacity_spec spec;
    struct capsim_cfg cfg;
    struct capsim_world world;
    struct capsim_trace trace;
    float *demand;
    struct capsim *lane;
    struct capacity_view view;
    struct capsim_out out;
};

/* 25 requests/s per unit (one slot of 40 ms), steady load, no noise or failures, 2 min to start. */
static inline void fixture_init(struct fixture *f, int units_max, int32_t n, float qps)
{
    struct err e;
    memset(f, 0, sizeof *f);
    assert_ok(latency_from_erlang(40, 1, units_max, 400, &f->latency, &e), &e);
    f->spec = (struct capacity_spec){.units_min = 1,
                                     .units_max = units_max,
                                     .gpus_per_unit = 1,
                                     .price_usd_h = 3.6,
                                     .slo_p99_ms = 400,
                                     .slo_violation_max = 0.01,
                                     .step_us = 15 * US_PER_S,
                                     .latency = &f->latency};
    f->cfg = capsim_cfg_default();
    f->cfg.start_min_s = f->cfg.start_max_s = 120;
    f->cfg.unavailable_frac = 0;
    f->cfg.noise_frac = 0;
    f->demand = mem_zero((size_t)n, sizeof(float));
    for (int32_t i = 0; i < n; i++)
        f->demand[i] = qps;
    static const struct calendar utc = {0};
    assert_ok(capsim_trace_init(&f->trace, f->demand, NULL, n, 0, f->spec.step_us, &utc, &e), &e);
    f->lane = try_zero_aligned(1, sizeof *f->lane);
    assert_non_null(f->lane);
}

/* After changes to cfg or demand. */
static inline void fixture_start(struct fixture *f, uint64_t seed, int32_t step, int units)
{
    struct err e;
    assert_ok(capsim_world_init(&f->world, &f->spec, &f->cfg, &e), &e);
    capsim_reset(f->lane, &f->world, &f->trace, seed, step, units, &f->view);
}

static inline void fixture_step(struct fixture *f, int units)
{
    capsim_step(f->lane, &f->world, &f->trace, units, &f->view, &f->out);
}

static inline void fixture_fini(struct fixture *f)
{
    mem_free(f->lane);
    capsim_trace_fini(&f->trace);
    mem_free(f->demand);
    latency_fini(&f->latency);
}

#endif
