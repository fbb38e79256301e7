/* decide_fixture.h - a target in calm water: ten units that serve 50/s each, asked for 250/s.
 *
 * Capacity within target is 50 x units, so expected sizes can be worked out in the head. */
#ifndef TESTS_UNIT_DECIDE_FIXTURE_H
#define TESTS_UNIT_DECIDE_FIXTURE_H

#include "decide/capacity.h"
#include "tests/support/test.h"

enum { FIX_UNITS_MAX = 64 };
#define FIX_S INT64_C(1000000)
#define FIX_MIN (60 * FIX_S)
#define FIX_STEP (15 * FIX_S)
#define FIX_UNIT_QPS 50

struct fix {
    float load_max[FIX_UNITS_MAX + 1];
    struct latency_model latency;
    struct capacity_config cfg;
    struct capacity_view view;
    struct capacity_state state;
    struct capacity_plan plan;
    struct capacity_record record;
    struct rng rng;
};

static inline void fix_load(struct fix *f, float qps)
{
    f->view.value[FIELD_QPS] = f->view.qps_last = qps;
}

static inline void fix_units(struct fix *f, int ready, int warming)
{
    f->view.units_requested = ready + warming;
    f->view.units_ready = ready;
    f->view.units_warming = warming;
    f->view.warm[0] = warming;
}

static inline void fix_forecast(struct fix *f, float mean, float hi80, float hi95)
{
    struct forecast *c = &f->view.forecast;
    c->usable = true;
    c->made_us = f->view.now_us;
    c->base = mean;
    c->slot_p95 = mean;
    c->uncertainty = 0.2f;
    c->hours_to_peak = 6;
    for (int i = 0; i < FORECAST_LEVELS; i++) {
        c->mean[i] = mean;
        c->lo80[i] = c->lo95[i] = 0.5f * mean;
        c->hi80[i] = hi80;
        c->hi95[i] = hi95;
    }
    c->high = 1.2f * hi95;
}

/* Config only; the policy's options may be changed before fix_start. */
static inline void fix_config(struct fix *f, const char *policy, bool guarded)
{
    memset(f, 0, sizeof *f);
    for (int u = 0; u <= FIX_UNITS_MAX; u++)
        f->load_max[u] = FIX_UNIT_QPS * (float)u;
    f->latency = (struct latency_model){.units_max = FIX_UNITS_MAX,
                                        .unit_qps = 62.5,
                                        .rho_max = 1,
                                        .load_max = f->load_max,
                                        .slo_ms = 200};
    capacity_config_default(&f->cfg, policy_find(policy));
    f->cfg.guarded = guarded;
    f->cfg.spec = (struct capacity_spec){.units_min = 1,
                                         .units_max = FIX_UNITS_MAX,
                                         .gpus_per_unit = 1,
                                         .price_usd_h = 2,
                                         .slo_p99_ms = 200,
                                         .slo_violation_max = 0.01,
                                         .step_us = FIX_STEP,
                                         .start_us = 120 * FIX_S,
                                         .latency = &f->latency};
    f->rng = rng_stream(test_seed(), "decide");
}

static inline void fix_view(struct fix *f)
{
    struct capacity_view *v = &f->view;
    capacity_view_init(&f->cfg, v);
    v->now_us = v->sample_us = 20000 * 86400 * FIX_S + 10 * 3600 * FIX_S;
    v->when = (struct calendar_point){.day = 20000, .minute = 600, .slot = 40, .weekday = 2};
    fix_units(f, 10, 0);
    v->value[FIELD_GPU_UTIL] = 0.4f;
    v->value[FIELD_GPU_MEM_UTIL] = 0.6f;
    v->value[FIELD_CPU_UTIL] = 0.3f;
    v->value[FIELD_MEM_UTIL] = 0.3f;
    v->value[FIELD_P50_LATENCY_MS] = 50;
    v->value[FIELD_P99_LATENCY_MS] = 100;
    v->value[FIELD_QUEUE_LEN] = 0;
    fix_load(f, 250);
    fix_forecast(f, 250, 275, 300);
}

static inline void fix_start(struct fix *f)
{
    struct err e;
    assert_ok(capacity_config_finish(&f->cfg, &e), &e);
    fix_view(f);
    capacity_state_init(&f->cfg, &f->state);
}

static inline void fix_init(struct fix *f, const char *policy, bool guarded)
{
    fix_config(f, policy, guarded);
    fix_start(f);
}

/* Moves the clock one step; metrics stay. */
static inline void fix_tick(struct fix *f)
{
    f->view.now_us += FIX_STEP;
    f->view.sample_us = f->view.now_us;
    f->view.when.minute = (int16_t)(f->view.now_us / FIX_MIN % 1440);
}

/* One step with a given proposal; f->record says what the guard made of it. */
static inline int fix_ask(struct fix *f, int proposed)
{
    capacity_observe(&f->cfg, &f->view, &f->state, f->record.obs);
    capacity_commit(&f->cfg, &f->view, &f->state, proposed, &f->plan, &f->record);
    return f->plan.units;
}

/* One whole decision by the policy. */
static inline int fix_decide(struct fix *f)
{
    decide_capacity(&f->cfg, &f->view, &f->state, &f->rng, &f->state, &f->plan, &f->record);
    return f->plan.units;
}

#endif
