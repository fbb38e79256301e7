/* sim_bench.c - the capacity simulator alone: no observations, no policy, no guard.
 *
 * 64 lanes take turns on one bursty week-long trace, each with its own seed, under a size that
 * follows the load and is moved by -3..3 units.  sim_steps_per_s changes it every fourth step on
 * average, as the out-cooldown of 60 s allows; `jitter` every step, `calm` only with the load. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/mem.h"
#include "base/rng.h"
#include "bench/bench.h"
#include "model/history.h"
#include "model/latency.h"
#include "sim/capacity.h"
#include "sim/generate.h"

enum { LANES = 64, STEPS = 7 * 5760, REPEATS = 9 };

struct sim_bench {
    struct latency_model latency;
    struct capsim_world world;
    struct capsim_trace trace;
    float *demand;
    struct capsim *lane[LANES];
    struct capacity_view view[LANES];
    int units_max;
    int jitter; /* largest change of size */
    int every;  /* steps between changes */
};

static void must(enum err_code rc, const struct err *e)
{
    if (rc) {
        fprintf(stderr, "sim_bench: %s\n", e->msg);
        exit(1);
    }
}

static void setup(struct sim_bench *b, int units_max, int jitter, int every)
{
    struct err e;
    must(latency_from_erlang(40, 2, units_max, 200, &b->latency, &e), &e);
    struct capacity_spec spec = {.units_min = 1,
                                 .units_max = units_max,
                                 .price_usd_h = 2,
                                 .slo_p99_ms = 200,
                                 .slo_violation_max = 0.01,
                                 .step_us = 15 * US_PER_S,
                                 .latency = &b->latency};
    struct capsim_cfg cfg = capsim_cfg_default();
    must(capsim_world_init(&b->world, &spec, &cfg, &e), &e);
    struct generate_cfg gen = generate_cfg_default();
    gen.peak_qps = 0.6 * units_max * b->latency.unit_qps;
    b->demand = mem_zero(STEPS, sizeof(float));
    must(generate_demand(&gen, 1, STEPS, b->demand, &e), &e);
    static const struct calendar utc = {0};
    must(capsim_trace_init(&b->trace, b->demand, NULL, STEPS, 0, spec.step_us, &utc, &e), &e);
    for (int l = 0; l < LANES; l++) {
        b->lane[l] = try_zero_aligned(1, capsim_bytes(&b->world));
        capsim_reset(b->lane[l], &b->world, &b->trace, (uint64_t)l, 0, units_max / 4, &b->view[l]);
    }
    b->units_max = units_max;
    b->jitter = jitter;
    b->every = every;
}

static void teardown(struct sim_bench *b)
{
    for (int l = 0; l < LANES; l++)
        mem_free(b->lane[l]);
    capsim_trace_fini(&b->trace);
    mem_free(b->demand);
    latency_fini(&b->latency);
}

static int wanted_size(const struct sim_bench *b, const struct capacity_view *v, uint64_t bits)
{
    if (bits / 64 % (uint64_t)b->every != 0)
        return v->units_requested;
    float need = v->qps_last * (1.4f / (float)b->latency.unit_qps);
    int dither = (int)(bits % (uint64_t)(2 * b->jitter + 1)) - b->jitter;
    int want = (v->units_requested * 7 + (int)need) / 8 + dither;
    return want < 1 ? 1 : want > b->units_max ? b->units_max : want;
}

static double steps_per_s(void *arg)
{
    struct sim_bench *b = arg;
    const int n = 100000000 / LANES / (b->units_max > 64 ? 2000 : 50);
    struct capsim_out out;
    double t0 = bench_now_s();
    for (int k = 0; k < n; k++) {
        for (int l = 0; l < LANES; l++) {
            uint64_t bits = rng_mix((uint64_t)k * LANES + (uint64_t)l);
            if (capsim_done(b->lane[l], &b->trace))
                capsim_reset(b->lane[l], &b->world, &b->trace, bits, (int32_t)(bits % STEPS),
                             b->units_max / 4, &b->view[l]);
            capsim_step(b->lane[l], &b->world, &b->trace, wanted_size(b, &b->view[l], bits),
                        &b->view[l], &out);
        }
    }
    return (double)n * LANES / (bench_now_s() - t0);
}

int main(void)
{
    static const struct {
        const char *name;
        int units_max, jitter, every;
    } row[] = {{"sim_steps_per_s", 64, 3, 4},
               {"sim_jitter_steps_per_s", 64, 3, 1},
               {"sim_calm_steps_per_s", 64, 0, 4},
               {"sim_4096_units_steps_per_s", 4096, 64, 4}};
    for (size_t i = 0; i < ARRAY_LEN(row); i++) {
        if (!bench_wanted(row[i].name))
            continue;
        struct sim_bench *b = mem_zero(1, sizeof *b);
        setup(b, row[i].units_max, row[i].jitter, row[i].every);
        bench_report(row[i].name, "1/s", REPEATS, steps_per_s, b);
        teardown(b);
        mem_free(b);
    }
    return 0;
}
