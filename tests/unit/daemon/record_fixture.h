/* record_fixture.h - a small service that decides step after step, and a store it is recorded in.
 */
#ifndef TESTS_UNIT_DAEMON_RECORD_FIXTURE_H
#define TESTS_UNIT_DAEMON_RECORD_FIXTURE_H

#include "base/mem.h"
#include "daemon/record.h"
#include "store/store_priv.h"
#include "tests/support/test.h"

enum { FIX_UNITS = 24 };
#define FIX_STEP_US INT64_C(15000000)
#define FIX_START_US (1709510400 * INT64_C(1000000)) /* 2024-03-04 00:00 UTC */

struct fix {
    struct store *store;
    char path[512];
    struct recorder *rec;
    struct latency_model latency;
    struct record_source source;
    int64_t config_id, target_id;
    struct capacity_config cfg;
    struct capacity_state before, after;
    struct rng rng;
    struct record_stream stream;
    struct capacity_view view;
    struct capacity_record record;
    struct capacity_plan plan;
    struct rng chance; /* of the demand */
    int64_t now_us;
    int64_t id; /* of the last decision */
};

static inline struct capacity_spec fix_spec(const struct latency_model *m)
{
    return (struct capacity_spec){.units_min = 1,
                                  .units_max = FIX_UNITS,
                                  .gpus_per_unit = 2,
                                  .cls = CLASS_P1,
                                  .price_usd_h = 2.1,
                                  .slo_p99_ms = 200,
                                  .slo_violation_max = 0.01,
                                  .step_us = FIX_STEP_US,
                                  .start_us = 150000000,
                                  .latency = m};
}

/* The configuration is new: its row, and the memory from the start. */
static inline void fix_configure(struct fix *f)
{
    struct err e;
    assert_ok(capacity_config_finish(&f->cfg, &e), &e);
    assert_ok(record_config(f->store, &f->cfg, &f->source, f->now_us, &f->config_id, &e), &e);
    capacity_state_init(&f->cfg, &f->before);
}

static inline void fix_open(struct fix *f, const char *path)
{
    struct err e;
    struct store_opts o = store_opts_default(path);
    if (path != f->path)
        (void)snprintf(f->path, sizeof f->path, "%s", path);
    assert_ok(store_open(&o, &f->store, &e), &e);
    assert_ok(store_exec(f->store, "PRAGMA synchronous = OFF", "hurry", &e), &e);
    assert_ok(recorder_new(f->store, "replica-0", &f->rec, &e), &e);
}

static inline struct fix *fix_new(const char *file, const char *policy)
{
    struct fix *f = mem_zero(1, sizeof *f);
    struct err e;
    struct store_target t = {.cluster = "test",
                             .group = "apps",
                             .kind = "Deployment",
                             .namespace_ = "shop",
                             .name = "search",
                             .uid = "7a"};
    fix_open(f, test_path("%s/%s", test_tmp_dir(), file));
    assert_ok(latency_from_erlang(25, 2, FIX_UNITS, 200, &f->latency, &e), &e);
    f->source =
        (struct record_source){.latency = {.kind = RECORD_ERLANG, .service_ms = 25, .slots = 2}};
    capacity_config_default(&f->cfg, policy_find(policy));
    f->cfg.guarded = true;
    f->cfg.spec = fix_spec(&f->latency);
    policy_use_default(&f->cfg.rule, policy_find("hpa"));
    f->now_us = FIX_START_US;
    assert_ok(store_target_id(f->store, &t, f->now_us, &f->target_id, &e), &e);
    fix_configure(f);
    f->rng = rng_stream(1, "decide");
    f->chance = rng_stream(test_seed(), "demand");
    capacity_view_init(&f->cfg, &f->view);
    f->view.units_requested = f->view.units_ready = 6;
    return f;
}

static inline void fix_close(struct fix *f)
{
    recorder_free(f->rec);
    store_close(f->store);
    f->rec = NULL;
    f->store = NULL;
}

static inline void fix_free(struct fix *f)
{
    fix_close(f);
    latency_fini(&f->latency);
    mem_free(f);
}

/* A daily wave with noise; the service follows the last plan, warming units become ready by and by.
 */
static inline void fix_view(struct fix *f)
{
    struct capacity_view *v = &f->view;
    struct rng *c = &f->chance;
    float load =
        500 + 350 * sinf((float)(f->now_us / FIX_STEP_US % 5760) * 0.02f) + 80 * (float)rng_unit(c);
    int ready = v->units_ready + (rng_below(c, 4) == 0);
    v->now_us = f->now_us;
    v->units_requested = f->plan.units ? f->plan.units : v->units_requested;
    v->units_ready = ready < v->units_requested ? ready : v->units_requested;
    v->units_warming = v->units_requested - v->units_ready;
    memset(v->warm, 0, sizeof v->warm);
    v->warm[rng_below(c, 4)] = v->units_warming;
    v->warm_oldest_us = v->units_warming ? 40000000 : 0;
    v->sample_us = f->now_us - 2000000;
    for (int i = 0; i < FIELD_COUNT; i++)
        v->value[i] = (float)rng_unit(c);
    v->value[FIELD_QPS] = v->qps_last = load;
    v->value[FIELD_QUEUE_LEN] = 30 * (float)rng_unit(c);
    v->value[FIELD_P50_LATENCY_MS] = 30;
    v->value[FIELD_P99_LATENCY_MS] = 60 + 250 * (float)rng_unit(c);
    if (rng_below(c, 50) == 0)
        v->value[rng_below(c, FIELD_COUNT)] = NAN;
    v->forecast = (struct forecast){.made_us = f->now_us - f->now_us % 300000000,
                                    .base = 500,
                                    .slot_p95 = 700,
                                    .high = 1.2f * load,
                                    .uncertainty = 0.3f,
                                    .hours_to_peak = 3,
                                    .usable = true};
    for (int k = 0; k < FORECAST_LEVELS; k++) {
        v->forecast.mean[k] = load;
        v->forecast.lo80[k] = v->forecast.lo95[k] = 0.8f * load;
        v->forecast.hi80[k] = 1.1f * load;
        v->forecast.hi95[k] = 1.2f * load;
    }
    v->when = calendar_at(&(struct calendar){0}, f->now_us);
}

static inline struct record_input fix_input(const struct fix *f, const struct rng *rng_before)
{
    return (struct record_input){.target_id = f->target_id,
                                 .config_id = f->config_id,
                                 .role = STORE_ACTING,
                                 .stage = "single",
                                 .cfg = &f->cfg,
                                 .view = &f->view,
                                 .before = &f->before,
                                 .after = &f->after,
                                 .rng_before = rng_before,
                                 .rng_after = &f->rng,
                                 .record = &f->record,
                                 .reward_cost = 0.25,
                                 .reward_slo = NAN,
                                 .reward_churn = 0,
                                 .intent = f->plan.changed};
}

/* One step: decided, recorded, remembered. */
static inline void fix_step(struct fix *f)
{
    struct err e;
    struct rng rng = f->rng;
    f->now_us += FIX_STEP_US;
    fix_view(f);
    memset(&f->record, 0, sizeof f->record);
    decide_capacity(&f->cfg, &f->view, &f->before, &f->rng, &f->after, &f->plan, &f->record);
    struct record_input in = fix_input(f, &rng);
    assert_ok(record_put(f->rec, &f->stream, &in, &f->id, &e), &e);
    capacity_state_copy(&f->cfg, &f->before, &f->after);
}

static inline void fix_steps(struct fix *f, int n)
{
    struct err e;
    assert_ok(store_begin(f->store, &e), &e);
    for (int i = 0; i < n; i++)
        fix_step(f);
    assert_ok(store_commit(f->store, &e), &e);
}

#endif
