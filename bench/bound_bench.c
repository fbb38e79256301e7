/* bound_bench.c - seconds on one core, 15-s steps, up to 64 units, at most 1 % misses: the lower
 * bound of 90 days and the plan of hindsight of 10 days. */
#include <stdio.h>
#include <stdlib.h>

#include "base/mem.h"
#include "bench/bench.h"
#include "model/history.h"
#include "model/latency.h"
#include "sim/capacity.h"
#include "sim/generate.h"
#include "train/bound.h"
#include "train/oracle.h"

enum { STEPS = 90 * 5760, PLAN_STEPS = 10 * 5760, UNITS_MAX = 64, REPEATS = 5 };

struct bound_bench {
    struct latency_model latency;
    struct capsim_world world;
    struct capsim_trace trace;
    float *demand;
};

static void must(enum err_code rc, const struct err *e)
{
    if (rc) {
        fprintf(stderr, "bound_bench: %s\n", e->msg);
        exit(1);
    }
}

static void setup(struct bound_bench *b)
{
    struct err e;
    must(latency_from_erlang(40, 2, UNITS_MAX, 200, &b->latency, &e), &e);
    struct capacity_spec spec = {.units_min = 1,
                                 .units_max = UNITS_MAX,
                                 .price_usd_h = 2,
                                 .slo_p99_ms = 200,
                                 .slo_violation_max = 0.01,
                                 .step_us = 15 * US_PER_S,
                                 .latency = &b->latency};
    struct capsim_cfg cfg = capsim_cfg_default();
    must(capsim_world_init(&b->world, &spec, &cfg, &e), &e);
    struct generate_cfg gen = generate_cfg_default();
    gen.peak_qps = 0.6 * UNITS_MAX * b->latency.unit_qps;
    b->demand = mem_zero(STEPS, sizeof *b->demand);
    must(generate_demand(&gen, 1, STEPS, b->demand, &e), &e);
    static const struct calendar utc = {0};
    must(capsim_trace_init(&b->trace, b->demand, NULL, STEPS, 0, spec.step_us, &utc, &e), &e);
}

static double bound_s(void *arg)
{
    struct bound_bench *b = arg;
    struct err e;
    double limit = 0.01, usd;
    double t0 = bench_now_s();
    must(bound_cost(&b->world, &b->trace, 1, 0, STEPS, BOUND_UNITS_ANY, &limit, 1, &usd, &e), &e);
    return bench_now_s() - t0;
}

static double oracle_s(void *arg)
{
    struct bound_bench *b = arg;
    struct err e;
    struct oracle_result plan;
    static int16_t units[PLAN_STEPS];
    double t0 = bench_now_s();
    must(oracle_plan(&b->world, &b->trace, 1, 0, PLAN_STEPS, UNITS_MAX / 4, 0.01, units, &plan, &e),
         &e);
    return bench_now_s() - t0;
}

int main(void)
{
    if (!bench_wanted("bound_90d_s") && !bench_wanted("oracle_10d_s"))
        return 0;
    struct bound_bench *b = mem_zero(1, sizeof *b);
    setup(b);
    bench_report("bound_90d_s", "s", REPEATS, bound_s, b);
    bench_report("oracle_10d_s", "s", REPEATS, oracle_s, b);
    capsim_trace_fini(&b->trace);
    mem_free(b->demand);
    latency_fini(&b->latency);
    mem_free(b);
    return 0;
}
