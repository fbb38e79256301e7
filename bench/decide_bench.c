/* decide_bench.c - cost of one capacity decision, in its parts, on a synthetic day.
 *
 * The views are made beforehand and fit the second-level cache, so the figures are the decision's own. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/mem.h"
#include "bench/bench.h"
#include "decide/capacity.h"

enum { VIEWS = 512, ROUNDS = 200 };

struct bench {
    struct latency_model latency;
    struct capacity_config cfg;
    struct capacity_state state;
    struct capacity_record record;
    struct capacity_view view[VIEWS];
    int sum; /* so that nothing is optimised away */
};

static void fill_views(struct bench *b)
{
    struct rng rng = rng_stream(1, "bench");
    for (int i = 0; i < VIEWS; i++) {
        struct capacity_view *v = &b->view[i];
        float load = 900 + 500 * sinf((float)i * 0.1f) + 100 * (float)rng_unit(&rng);
        capacity_view_init(&b->cfg, v);
        v->units_requested = 24;
        v->units_ready = 20 + (int)rng_below(&rng, 5);
        v->units_warming = 24 - v->units_ready;
        v->warm[2] = v->units_warming;
        for (int f = 0; f < FIELD_COUNT; f++)
            v->value[f] = (float)rng_unit(&rng);
        v->value[FIELD_QPS] = v->qps_last = load;
        v->value[FIELD_P99_LATENCY_MS] = 120;
        v->when.minute = (int16_t)(i % 1440);
        v->forecast = (struct forecast){.base = 900, .slot_p95 = 1000, .uncertainty = 0.3f, .usable = true};
        for (int k = 0; k < FORECAST_LEVELS; k++) {
            v->forecast.mean[k] = 900;
            v->forecast.hi80[k] = 1100;
            v->forecast.hi95[k] = 1200;
        }
        v->forecast.high = 1440;
    }
}

static void setup(struct bench *b, const char *policy, bool guarded)
{
    struct err e;
    b->cfg = (struct capacity_config){0};
    if (latency_from_erlang(30, 2, 64, 200, &b->latency, &e))
        goto fail;
    capacity_config_default(&b->cfg, policy_find(policy));
    b->cfg.guarded = guarded;
    b->cfg.spec = (struct capacity_spec){.units_min = 1,
                                         .units_max = 64,
                                         .gpus_per_unit = 1,
                                         .price_usd_h = 2,
                                         .slo_p99_ms = 200,
                                         .slo_violation_max = 0.01,
                                         .step_us = 15000000,
                                         .start_us = 150000000,
                                         .latency = &b->latency};
    if (capacity_config_finish(&b->cfg, &e))
        goto fail;
    capacity_state_init(&b->cfg, &b->state);
    fill_views(b);
    return;
fail:
    (void)fprintf(stderr, "%s\n", e.msg);
    exit(1);
}

static double per_step_ns(double since_s)
{
    return (bench_now_s() - since_s) * 1e9 / ((double)ROUNDS * VIEWS);
}

/* What a trainer pays around the network: observe, mask, commit. */
static double run_train(void *arg)
{
    struct bench *b = arg;
    float obs[CAPACITY_OBS];
    uint8_t mask[CAPACITY_ACTIONS];
    int units[CAPACITY_ACTIONS];
    struct capacity_plan plan;
    int64_t now = b->view[0].now_us;
    double start = bench_now_s();
    for (int r = 0; r < ROUNDS; r++)
        for (int i = 0; i < VIEWS; i++) {
            struct capacity_view *v = &b->view[i];
            v->now_us = v->sample_us = now += b->cfg.spec.step_us;
            v->forecast.made_us = now - now % 300000000;
            capacity_observe(&b->cfg, v, &b->state, obs);
            capacity_mask(&b->cfg, v, &b->state, mask, units);
            capacity_commit(&b->cfg, v, &b->state, units[mask[4] ? 4 : 3], &plan, NULL);
            b->sum += plan.units + (int)obs[i % CAPACITY_OBS];
        }
    b->view[0].now_us = now;
    return per_step_ns(start);
}

static double run_decide(struct bench *b, struct capacity_record *record)
{
    struct capacity_plan plan;
    struct rng rng = rng_stream(1, "decide");
    int64_t now = b->view[0].now_us;
    double start = bench_now_s();
    for (int r = 0; r < ROUNDS; r++)
        for (int i = 0; i < VIEWS; i++) {
            struct capacity_view *v = &b->view[i];
            v->now_us = v->sample_us = now += b->cfg.spec.step_us;
            v->forecast.made_us = now - now % 300000000;
            decide_capacity(&b->cfg, v, &b->state, &rng, &b->state, &plan, record);
            b->sum += plan.units;
        }
    b->view[0].now_us = now;
    return per_step_ns(start);
}

static double run_bare(void *arg)
{
    return run_decide(arg, NULL);
}

static double run_recorded(void *arg)
{
    struct bench *b = arg;
    return run_decide(b, &b->record);
}

static void measure(struct bench *b, const char *name, const char *policy, bool guarded,
                    double (*run)(void *))
{
    if (!bench_wanted(name))
        return;
    setup(b, policy, guarded);
    bench_report(name, "ns", 11, run, b);
    latency_fini(&b->latency);
}

int main(void)
{
    struct bench *b = mem_zero(1, sizeof *b);
    measure(b, "decide_train_step_ns", "ppo", true, run_train);
    measure(b, "decide_hpa_ns", "hpa", false, run_bare);
    measure(b, "decide_hpa_recorded_ns", "hpa", false, run_recorded);
    measure(b, "decide_hpa_guarded_recorded_ns", "hpa", true, run_recorded);
    measure(b, "decide_predictive_ns", "predictive", true, run_bare);
    measure(b, "decide_mpc_ns", "mpc", true, run_bare);
    int rc = b->sum == 0; /* uses the sum */
    mem_free(b);
    return rc;
}
