/* round_alloc_test.c - a round of 500 targets allocates nothing once each has decided, shown by counting calls of the
 * allocator. */
#include <math.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/mem.h"
#include "daemon/round.h"
#include "tests/support/alloc_count.h"
#include "tests/support/test.h"

#if ALLOC_COUNTED
enum { TARGETS = 500, WARM_ROUNDS = 25, ROUNDS = 60 }; /* 15 min: points of the forecast are closed in between */
#define STEP_US (15 * US_PER_S)

static void make(struct target *t, int i, const char *policy)
{
    struct target_id id = {.namespace_ = "shop", .kind = "Deployment"};
    struct latency_model m;
    struct guard_options g;
    struct err e;
    (void)snprintf(id.name, sizeof id.name, "svc-%d", i);
    target_init(t, &id);
    t->spec = (struct capacity_spec){.units_min = 1, .units_max = 8, .gpus_per_unit = 1,
                                     .cls = (enum task_class)(i % (CLASS_P3 + 1)), .price_usd_h = 2, .slo_p99_ms = 200,
                                     .slo_violation_max = 0.01, .step_us = STEP_US, .start_us = 60 * US_PER_S};
    assert_ok(latency_from_erlang(25, 2, 8, 200, &m, &e), &e);
    target_set_latency(t, &m);
    guard_options_default(&g);
    struct choose c = {.spec = &t->spec, .guard = &g, .policy = policy, .rules = "hpa"};
    assert_ok(target_configure(t, &t->main, &c, 1, &e), &e);
}

static void fill(struct round_input *in, struct target *t, int64_t now_us)
{
    *in = (struct round_input){.target = t, .weight_latency = 1, .weight_cost = 1,
                               .counts = {.known = true, .requested = 4, .ready = 4}};
    for (int f = 0; f < FIELD_COUNT; f++)
        in->sample.value[f] = NAN;
    in->sample.value[FIELD_QPS] = in->sample.qps_last = 150 + (float)(now_us / STEP_US % 40);
    in->sample.value[FIELD_GPU_UTIL] = 0.6f;
    in->sample.value[FIELD_P99_LATENCY_MS] = 120;
    in->sample.sample_us = now_us - US_PER_S;
}

static void run(struct target *t, struct round_input *in, int64_t now_us)
{
    struct calendar cal = {0};
    for (int i = 0; i < TARGETS; i++)
        fill(&in[i], &t[i], now_us);
    assert_int_equal(round_run(in, TARGETS, &cal, now_us, 4000), TARGETS);
}

TEST(a_round_of_500_targets_allocates_nothing)
{
    static const char *const policies[] = {"rules", "mpc"};
    struct round_input *in = mem_zero(TARGETS, sizeof *in);
    for (size_t p = 0; p < ARRAY_LEN(policies); p++) {
        struct target *t = try_zero_aligned(TARGETS, sizeof *t);
        int64_t now_us = INT64_C(1700006400) * US_PER_S;
        for (int i = 0; i < TARGETS; i++)
            make(&t[i], i, policies[p]);
        for (int i = 0; i < WARM_ROUNDS; i++, now_us += STEP_US)
            run(t, in, now_us);
        long before = alloc_calls_here();
        for (int i = 0; i < ROUNDS; i++, now_us += STEP_US)
            run(t, in, now_us);
        assert_int_equal(alloc_calls_here(), before);
        for (int i = 0; i < TARGETS; i++)
            target_fini(&t[i]);
        mem_free(t);
    }
    mem_free(in);
}
#endif
