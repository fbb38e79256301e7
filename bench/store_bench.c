/* store_bench.c - cost of a round with its record: 500 targets decide, are packed and committed.
 *
 *   store_round_ms_500_targets            all of it, the wait for the disk (fsync) included
 *   store_round_cpu_ms_500_targets        without that wait: what the main thread itself does
 *   store_round_keyframes_ms_500_targets  the first round after a start: all bring keyframes
 *   store_tend_ms_500_targets             checkpoint afterwards, outside the decision's time
 *   store_round_bytes_per_decision        what one adds to the file, its sample included
 *   replay_decisions_per_s                made again and compared
 *
 * The file lies in $TMPDIR, else /tmp. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/mem.h"
#include "bench/bench.h"
#include "daemon/record.h"
#include "daemon/replay.h"
#include "store/store_priv.h"

enum { TARGETS = 500, ROUNDS = 40 };
static const int64_t STEP_US = 15000000, T0 = 1709510400000000;

struct one {
    struct capacity_state before, after;
    struct record_stream stream;
    int64_t target_id;
    int units;
};

struct bench {
    char path[300];
    struct store *store;
    struct recorder *rec;
    struct latency_model latency;
    struct capacity_config cfg;
    int64_t config_id, now_us;
    struct one *one; /* [TARGETS] */
    struct capacity_record record;
    double tend_s;
};

static void check(enum err_code rc, const struct err *e)
{
    if (!rc)
        return;
    (void)fprintf(stderr, "%s\n", e->msg);
    exit(1);
}

static void remove_files(const struct bench *b)
{
    static const char *const part[] = {"", "-wal", "-shm", ".lock"};
    char name[320];
    for (size_t i = 0; i < ARRAY_LEN(part); i++) {
        (void)snprintf(name, sizeof name, "%s%s", b->path, part[i]);
        (void)unlink(name);
    }
}

static void setup(struct bench *b, bool sync)
{
    struct err e;
    const char *dir = getenv("TMPDIR");
    struct record_source src = {.latency = {.kind = RECORD_ERLANG, .service_ms = 30, .slots = 2}};
    memset(b, 0, sizeof *b);
    (void)snprintf(b->path, sizeof b->path, "%s/sluice-bench-%ld.db", dir ? dir : "/tmp",
                   (long)getpid());
    remove_files(b);
    struct store_opts o = store_opts_default(b->path);
    check(store_open(&o, &b->store, &e), &e);
    if (!sync)
        check(store_exec(b->store, "PRAGMA synchronous = OFF", "bench", &e), &e);
    check(recorder_new(b->store, "bench-0", &b->rec, &e), &e);
    check(latency_from_erlang(30, 2, 64, 200, &b->latency, &e), &e);
    capacity_config_default(&b->cfg, policy_find("mpc"));
    policy_use_default(&b->cfg.rule, policy_find("hpa"));
    b->cfg.spec = (struct capacity_spec){.units_min = 1,
                                         .units_max = 64,
                                         .gpus_per_unit = 1,
                                         .price_usd_h = 2,
                                         .slo_p99_ms = 200,
                                         .slo_violation_max = 0.01,
                                         .step_us = STEP_US,
                                         .start_us = 150000000,
                                         .latency = &b->latency};
    check(capacity_config_finish(&b->cfg, &e), &e);
    check(record_config(b->store, &b->cfg, &src, T0, &b->config_id, &e), &e);
    b->one = mem_zero(TARGETS, sizeof *b->one);
    b->now_us = T0;
    check(store_begin(b->store, &e), &e);
    for (int i = 0; i < TARGETS; i++) {
        char name[32];
        (void)snprintf(name, sizeof name, "service-%d", i);
        struct store_target t = {.cluster = "prod",
                                 .group = "apps",
                                 .kind = "Deployment",
                                 .namespace_ = "bench",
                                 .name = name,
                                 .uid = "0b1c2d3e-0000-0000-0000-000000000000"};
        check(store_target_id(b->store, &t, T0, &b->one[i].target_id, &e), &e);
        capacity_state_init(&b->cfg, &b->one[i].before);
        b->one[i].units = 10;
    }
    check(store_commit(b->store, &e), &e);
}

static void teardown(struct bench *b)
{
    recorder_free(b->rec);
    store_close(b->store);
    latency_fini(&b->latency);
    mem_free(b->one);
    remove_files(b);
}

static struct capacity_view view_of(const struct bench *b, int i)
{
    struct capacity_view v;
    float load =
        400 + 200 * sinf((float)(b->now_us / STEP_US) * 0.05f + (float)i) + (float)(i % 17);
    capacity_view_init(&b->cfg, &v);
    v.now_us = b->now_us;
    v.sample_us = b->now_us - 1000000;
    v.units_requested = v.units_ready = b->one[i].units;
    for (int f = 0; f < FIELD_COUNT; f++)
        v.value[f] = 0.4f;
    v.value[FIELD_QPS] = v.qps_last = load;
    v.value[FIELD_P99_LATENCY_MS] = 120;
    v.forecast = (struct forecast){.made_us = b->now_us - b->now_us % 300000000,
                                   .base = 400,
                                   .slot_p95 = 700,
                                   .high = 1.2f * load,
                                   .uncertainty = 0.3f,
                                   .usable = true};
    for (int k = 0; k < FORECAST_LEVELS; k++) {
        v.forecast.mean[k] = load;
        v.forecast.hi80[k] = v.forecast.hi95[k] = 1.1f * load;
    }
    return v;
}

static void record_one(struct bench *b, int i)
{
    struct one *o = &b->one[i];
    struct capacity_view v = view_of(b, i);
    struct capacity_plan plan;
    struct err e;
    int64_t id;
    memset(&b->record, 0, sizeof b->record);
    decide_capacity(&b->cfg, &v, &o->before, NULL, &o->after, &plan, &b->record);
    struct record_input in = {.target_id = o->target_id,
                              .config_id = b->config_id,
                              .stage = "global",
                              .cfg = &b->cfg,
                              .view = &v,
                              .before = &o->before,
                              .after = &o->after,
                              .record = &b->record,
                              .reward_cost = 0.1,
                              .reward_slo = 0,
                              .reward_churn = 0,
                              .intent = plan.changed};
    check(record_put(b->rec, &o->stream, &in, &id, &e), &e);
    struct store_sample x = {.target_id = o->target_id, .time_us = b->now_us};
    memcpy(x.value, v.value, sizeof x.value);
    check(store_put_sample(b->store, &x, &e), &e);
    capacity_state_copy(&b->cfg, &o->before, &o->after);
    o->units = plan.units;
}

/* Milliseconds of a round; tending is apart. */
static double run_round(void *arg)
{
    struct bench *b = arg;
    struct store_tended t;
    struct err e;
    double start = bench_now_s();
    b->now_us += STEP_US;
    check(store_begin(b->store, &e), &e);
    for (int i = 0; i < TARGETS; i++)
        record_one(b, i);
    check(store_commit(b->store, &e), &e);
    double end = bench_now_s();
    check(store_tend(b->store, b->now_us, &t, &e), &e);
    b->tend_s = bench_now_s() - end;
    return (end - start) * 1e3;
}

static double run_tend(void *arg)
{
    struct bench *b = arg;
    (void)run_round(b);
    return b->tend_s * 1e3;
}

/* As after a restart. */
static double run_first(void *arg)
{
    struct bench *b = arg;
    record_lost(b->rec);
    return run_round(b);
}

static double run_bytes(void *arg)
{
    struct bench *b = arg;
    struct store_info a, z;
    struct err e;
    check(store_info(b->store, &a, &e), &e);
    for (int i = 0; i < 10; i++)
        (void)run_round(b);
    check(store_info(b->store, &z, &e), &e);
    return (double)(z.bytes - a.bytes) / (double)(z.decisions - a.decisions);
}

static double run_replay(void *arg)
{
    struct bench *b = arg;
    struct replay_counts c;
    struct err e;
    const struct store_query all = {0};
    double start = bench_now_s();
    check(replay_run(b->store, &all, NULL, NULL, NULL, &c, &e), &e);
    if (!replay_passed(&c)) {
        (void)fprintf(stderr, "replay differs\n");
        exit(1);
    }
    return (double)c.total / (bench_now_s() - start);
}

int main(void)
{
    static const struct {
        const char *name, *unit;
        bool sync;
        int n;
        double (*run)(void *arg);
    } all[] = {
        {"store_round_ms_500_targets", "ms", true, ROUNDS, run_round},
        {"store_round_cpu_ms_500_targets", "ms", false, ROUNDS, run_round},
        {"store_round_keyframes_ms_500_targets", "ms", true, 10, run_first},
        {"store_tend_ms_500_targets", "ms", true, ROUNDS, run_tend},
        {"store_round_bytes_per_decision", "bytes", false, 10, run_bytes},
    };
    struct bench *b = mem_zero(1, sizeof *b);
    for (size_t i = 0; i < ARRAY_LEN(all); i++) {
        if (!bench_wanted(all[i].name))
            continue;
        setup(b, all[i].sync);
        for (int warm = 0; warm < 3; warm++)
            (void)run_round(b);
        bench_report(all[i].name, all[i].unit, all[i].n, all[i].run, b);
        teardown(b);
    }
    if (bench_wanted("replay_decisions_per_s")) {
        setup(b, false);
        for (int i = 0; i < ROUNDS; i++)
            (void)run_round(b);
        bench_report("replay_decisions_per_s", "1/s", 5, run_replay, b);
        teardown(b);
    }
    mem_free(b);
    return 0;
}
