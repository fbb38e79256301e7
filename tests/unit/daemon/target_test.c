#include "daemon/target.h"

#include "base/clock.h"
#include "daemon/round.h"
#include "daemon/safety.h"
#include "tests/support/test.h"

#define S INT64_C(1000000)
static const int64_t t0 = INT64_C(1700006400) * S; /* on the grid of 5 min */

static struct capacity_spec spec_of(int cls)
{
    return (struct capacity_spec){.units_min = 1, .units_max = 40, .gpus_per_unit = 2, .cls = (enum task_class)cls,
                                  .price_usd_h = 2, .slo_p99_ms = 200, .slo_violation_max = 0.01,
                                  .step_us = 15 * S, .start_us = 150 * S};
}

static void make(struct target *t, const char *name, int cls, const char *policy)
{
    struct target_id id = {.namespace_ = "shop", .kind = "Deployment"};
    struct latency_model m;
    struct guard_options g;
    struct err e;
    (void)snprintf(id.name, sizeof id.name, "%s", name);
    target_init(t, &id);
    t->spec = spec_of(cls);
    assert_ok(latency_from_erlang(25, 2, 40, 200, &m, &e), &e);
    target_set_latency(t, &m);
    guard_options_default(&g);
    struct choose c = {.spec = &t->spec, .guard = &g, .policy = policy, .rules = "hpa",
                       .policy_file = "/nowhere/p.safetensors"};
    assert_ok(target_configure(t, &t->main, &c, 1, &e), &e);
}

static struct round_input input(struct target *t, int units, float qps, int64_t now_us)
{
    struct round_input in = {.target = t, .weight_latency = 1, .weight_cost = 1,
                             .counts = {.known = true, .requested = units, .ready = units}};
    for (int f = 0; f < FIELD_COUNT; f++)
        in.sample.value[f] = NAN;
    in.sample.value[FIELD_QPS] = in.sample.qps_last = qps;
    in.sample.value[FIELD_GPU_UTIL] = 0.95f;
    in.sample.value[FIELD_QUEUE_LEN] = 30;
    in.sample.value[FIELD_P99_LATENCY_MS] = 500;
    in.sample.sample_us = now_us - 2 * S;
    return in;
}

TEST(a_learned_policy_that_cannot_be_loaded_holds_and_says_why)
{
    struct target t;
    struct calendar cal = {0};
    make(&t, "api", 0, "learned");
    assert_int_equal(t.main.error.code, ERR_IO);
    struct round_input in = input(&t, 10, 5000, t0);
    assert_int_equal(round_run(&in, 1, &cal, t0, 0), 1);
    assert_int_equal(t.main.plan.units, 10);
    assert_int_equal(t.main.record.error, ERR_MISSING);
    target_fini(&t);
}

TEST(rules_scale_out_where_the_load_demands_it)
{
    struct target t;
    struct calendar cal = {0};
    make(&t, "api", 0, "rules");
    for (int i = 0; i < 30; i++) {
        struct round_input in = input(&t, 4, 900, t0 + i * 15 * S);
        assert_int_equal(round_run(&in, 1, &cal, t0 + i * 15 * S, 0), 1);
    }
    assert_true(t.main.record.proposed > 4);
    target_fini(&t);
}

TEST(a_target_whose_size_is_not_known_is_left_out)
{
    struct target t;
    struct calendar cal = {0};
    make(&t, "api", 0, "mpc");
    struct round_input in = input(&t, 4, 900, t0);
    in.counts.known = false;
    assert_int_equal(round_run(&in, 1, &cal, t0, 0), 0);
    assert_false(t.decided);
    target_fini(&t);
}

TEST(a_target_that_is_only_watched_takes_no_gpu_from_one_that_is_scaled)
{
    struct target watched, scaled;
    struct calendar cal = {0};
    make(&watched, "a-watched", 0, "rules");
    make(&scaled, "b-scaled", 2, "rules");
    int grown = 0;
    for (int i = 0; i < 30; i++) {
        int64_t now = t0 + i * 15 * S;
        struct round_input in[2] = {input(&watched, 4, 900, now), input(&scaled, 4, 900, now)};
        in[0].only_watched = true;
        (void)round_run(in, 2, &cal, now, 2 * (4 + 4) + 3); /* GPUs for one more unit */
        target_forget(&watched); /* as the daemon does: it would take them in every round */
        grown += scaled.main.plan.units > 4;
    }
    assert_true(grown > 0);
    target_fini(&watched);
    target_fini(&scaled);
}

TEST(a_short_gpu_budget_goes_to_the_higher_class_first)
{
    struct target low, high;
    struct calendar cal = {0};
    make(&low, "a-batch", 2, "rules");
    make(&high, "z-online", 0, "rules");
    int rounds_high = 0;
    for (int i = 0; i < 30; i++) {
        int64_t now = t0 + i * 15 * S;
        struct round_input in[2] = {input(&low, 4, 900, now), input(&high, 4, 900, now)};
        (void)round_run(in, 2, &cal, now, 2 * (4 + 4) + 3); /* GPUs for one more unit */
        int grown_high = high.main.plan.units - 4, grown_low = low.main.plan.units - 4;
        if (grown_high + grown_low > 1)
            fail_msg("round %d: %d and %d more units from a budget for one", i, grown_high, grown_low);
        if (high.main.record.proposed > 4 && grown_high == 0 && grown_low > 0)
            assert_true(high.main.state.guard.last_out_us > 0); /* its turn was before: it cools down */
        rounds_high += grown_high;
        if (!rounds_high)
            assert_int_equal(grown_low, 0); /* both want from the same round on: the higher class is served first */
    }
    assert_true(rounds_high > 0);
    target_fini(&low);
    target_fini(&high);
}

TEST(a_switch_of_turns_forgets_no_action)
{
    struct target t;
    struct guard_options g;
    struct err e;
    make(&t, "api", 0, "rules");
    guard_options_default(&g);
    struct choose c = {.spec = &t.spec, .guard = &g, .policy = "static", .rules = "hpa"};
    assert_ok(target_configure(&t, &t.challenger, &c, 1, &e), &e);
    t.main.state.guard.last_out_us = t0; /* it acted, while the other would have kept the size */
    target_turn(&t, true);
    assert_int_equal(t.challenger.state.guard.last_out_us, t0);
    t.challenger.state.guard.last_in_us = t0 + 60 * S;
    target_turn(&t, false);
    assert_int_equal(t.main.state.guard.last_in_us, t0 + 60 * S);
    target_turn(&t, false); /* no switch: what the other thinks is not asked for */
    assert_int_equal(t.main.state.guard.last_out_us, t0);
    target_fini(&t);
}

TEST(an_undone_round_leaves_everything_as_it_was)
{
    struct target t;
    struct calendar cal = {0};
    make(&t, "api", 0, "rules");
    struct round_input in = input(&t, 4, 900, t0);
    (void)round_run(&in, 1, &cal, t0, 0);
    static unsigned char before[65536], after[65536];
    size_t n = capacity_state_pack_size(&t.main.cfg);
    assert_true(n <= sizeof before);
    capacity_state_pack(&t.main.cfg, &t.main.state, before);
    in = input(&t, 4, 900, t0 + 15 * S);
    (void)round_run(&in, 1, &cal, t0 + 15 * S, 0);
    target_undo(&t);
    capacity_state_pack(&t.main.cfg, &t.main.state, after);
    assert_memory_equal(before, after, n);
    target_fini(&t);
}

TEST(reconfiguring_keeps_the_guard_s_memory)
{
    struct target t;
    struct guard_options g;
    struct err e;
    make(&t, "api", 0, "rules");
    t.main.state.guard.last_out_us = t0;
    t.main.state.guard.breaker_until_us = t0 + 60 * S;
    guard_options_default(&g);
    struct choose c = {.spec = &t.spec, .guard = &g, .policy = "mpc", .rules = "hpa"};
    assert_ok(target_configure(&t, &t.main, &c, 1, &e), &e);
    assert_int_equal(t.main.state.guard.last_out_us, t0);
    assert_int_equal(t.main.state.guard.breaker_until_us, t0 + 60 * S);
    assert_string_equal(t.main.cfg.main.policy->name, "mpc");
    target_fini(&t);
}

TEST(a_wrong_reconfiguration_leaves_the_old_policy)
{
    struct target t;
    struct guard_options g;
    struct err e;
    make(&t, "api", 0, "rules");
    guard_options_default(&g);
    struct choose c = {.spec = &t.spec, .guard = &g, .policy = "nonsense", .rules = "hpa"};
    assert_err(target_configure(&t, &t.main, &c, 1, &e), ERR_MISSING, &e, "nonsense");
    assert_true(t.main.ready);
    assert_string_equal(t.main.cfg.main.policy->name, "hpa");
    target_fini(&t);
}

TEST(loads_become_points_of_five_minutes_and_gaps_stay_missing)
{
    struct target t;
    struct calendar cal = {0};
    make(&t, "api", 0, "mpc");
    for (int i = 0; i <= 20; i++)
        target_push_load(&t, &cal, t0 + i * 15 * S, t0 + i * 15 * S, 100);
    assert_int_equal(t.forecast.made_us, t0 + 300 * S);
    /* half an hour of silence */
    target_push_load(&t, &cal, t0 + 2400 * S, t0 + 2400 * S, 100);
    assert_int_equal(t.point_us, t0 + 2400 * S);
    target_fini(&t);
}

TEST(safety_survives_the_way_through_a_status)
{
    struct target t, u;
    struct calendar cal = {0};
    make(&t, "api", 0, "rules");
    make(&u, "api", 0, "rules");
    for (int i = 0; i < 60; i++) {
        struct round_input in = input(&t, 4 + i / 10, 900 + 50 * (float)i, t0 + i * 15 * S);
        (void)round_run(&in, 1, &cal, t0 + i * 15 * S, 0);
    }
    struct safety_status s;
    safety_status_init(&s);
    safety_from_guard(&t.main.cfg, &t.main.state.guard, &s);
    assert_true(safety_is_newer(&s, &u.main.state.guard));
    safety_to_guard(&u.main.cfg, &s, t0 + 59 * 15 * S, &u.main.state.guard);
    const struct guard_state *a = &t.main.state.guard, *b = &u.main.state.guard;
    assert_true(a->last_out_us > 0);
    assert_int_equal(a->last_out_us, b->last_out_us);
    assert_int_equal(a->up.sum, b->up.sum);
    assert_int_equal(a->flap.sum, b->flap.sum);
    assert_memory_equal(a->flap.at, b->flap.at, sizeof a->flap.at);
    assert_int_equal(a->up.bucket, b->up.bucket);
    for (int i = 0, was = 0, is = 0; i < GUARD_UP_BUCKETS; i++) { /* remembered as long, or longer */
        int slot = (int)((a->up.bucket - i) % GUARD_UP_BUCKETS);
        was += a->up.at[slot];
        is += b->up.at[slot];
        assert_true(is >= was && (i + 2 >= GUARD_UP_BUCKETS || is == was));
    }
    assert_false(safety_is_newer(&s, b));
    target_fini(&t);
    target_fini(&u);
}
