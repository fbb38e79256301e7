/* capacity_test.c - the decision as a whole: config, order of the steps, records, copies, packing.
 */
#include "base/hash.h"
#include "base/mem.h"
#include "tests/unit/decide/decide_fixture.h"

/* ---- config
 * -------------------------------------------------------------------------------------- */
static void no_policy(struct fix *f)
{
    f->cfg.main.policy = NULL;
}
static void no_latency(struct fix *f)
{
    f->cfg.spec.latency = NULL;
}
static void other_target(struct fix *f)
{
    f->cfg.spec.slo_p99_ms = 250;
}
static void small_model(struct fix *f)
{
    f->latency.units_max = 10;
}
static void falling_model(struct fix *f)
{
    f->load_max[30] = 1;
}
static void hopeless_model(struct fix *f)
{
    memset(f->load_max, 0, sizeof f->load_max);
}
static void units_zero(struct fix *f)
{
    f->cfg.spec.units_max = 0;
}
static void units_many(struct fix *f)
{
    f->cfg.spec.units_max = CAPACITY_UNITS_LIMIT + 1;
}
static void min_over_max(struct fix *f)
{
    f->cfg.spec.units_min = 65;
}
static void safe_over_max(struct fix *f)
{
    f->cfg.spec.units_min_safe = 65;
}
static void step_5s(struct fix *f)
{
    f->cfg.spec.step_us = 5 * FIX_S;
}
static void step_10min(struct fix *f)
{
    f->cfg.spec.step_us = 600 * FIX_S;
}
static void no_start(struct fix *f)
{
    f->cfg.spec.start_us = 0;
}
static void bad_target(struct fix *f)
{
    f->cfg.spec.slo_p99_ms = (double)NAN;
}
static void bad_price(struct fix *f)
{
    f->cfg.spec.price_usd_h = -1;
}
static void learned_base(struct fix *f)
{
    policy_use_default(&f->cfg.base, policy_find("ppo"));
}
static void base_unasked(struct fix *f)
{
    policy_use_default(&f->cfg.base, policy_find("mpc"));
}
static void base_missing(struct fix *f)
{
    f->cfg.main.opt.ppo.base = PPO_BASE_MPC;
}
static void base_without_levels(struct fix *f)
{
    policy_use_default(&f->cfg.base, policy_find("predictive"));
    f->cfg.main.opt.ppo.base = PPO_BASE_PREDICTIVE;
    f->cfg.main.opt.ppo.residual = PPO_RESIDUAL_MARGIN;
}

TEST(a_config_that_cannot_work_is_refused_by_name)
{
    static const struct {
        void (*set)(struct fix *f);
        enum err_code code;
        const char *text;
    } cases[] = {
        {no_policy, ERR_INVAL, "no policy"},
        {no_latency, ERR_INVAL, "calibrate"},
        {other_target, ERR_MISMATCH, "slo_p99_ms"},
        {small_model, ERR_INVAL, "covers 10 units"},
        {falling_model, ERR_INVAL, "falls at 30 units"},
        {hopeless_model, ERR_RANGE, "no number of units"},
        {units_zero, ERR_RANGE, "units_max"},
        {units_many, ERR_RANGE, "units_max"},
        {min_over_max, ERR_INVAL, "units_min"},
        {safe_over_max, ERR_INVAL, "units_min_safe"},
        {step_5s, ERR_RANGE, "step"},
        {step_10min, ERR_RANGE, "step"},
        {no_start, ERR_RANGE, "start"},
        {bad_target, ERR_RANGE, "slo_p99_ms"},
        {bad_price, ERR_RANGE, "price"},
        {learned_base, ERR_INVAL, "learned"},
        {base_unasked, ERR_INVAL, "base: none"},
        {base_missing, ERR_INVAL, "base: mpc"},
        {base_without_levels, ERR_INVAL, "no planned demand"},
    };
    static struct fix f;
    struct err e;
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        fix_config(&f, "ppo", true);
        cases[i].set(&f);
        assert_err(capacity_config_finish(&f.cfg, &e), cases[i].code, &e, cases[i].text);
    }
}

TEST(units_for_a_load_agree_with_a_plain_search)
{
    static struct fix f;
    struct rng rng = rng_stream(test_seed(), "units");
    fix_config(&f, "static", false);
    for (int u = 1; u <= FIX_UNITS_MAX; u++) /* uneven and with flat parts */
        f.load_max[u] = f.load_max[u - 1] + (u % 7 == 3 ? 0 : 100 * (float)rng_unit(&rng));
    fix_start(&f);
    for (int i = 0; i < 20000; i++) {
        float load = 1.2f * f.cfg.load_top * (float)rng_unit(&rng);
        int want = load > 0 ? 1 : 0;
        while (want < FIX_UNITS_MAX && f.load_max[want] < load)
            want++;
        assert_int_equal(capacity_units_for(&f.cfg, load), want);
        float need = capacity_need(&f.cfg, load);
        assert_true(need > (float)want - 1.001f &&
                    (need < (float)want + 0.001f || want == FIX_UNITS_MAX));
    }
    for (int u = 1; u <= FIX_UNITS_MAX; u++)
        assert_true(f.load_max[capacity_units_for(&f.cfg, f.load_max[u])] >= f.load_max[u]);
    assert_int_equal(capacity_units_for(&f.cfg, NAN), 0);
    assert_int_equal(capacity_units_for(&f.cfg, -1), 0);
}

TEST(steps_grow_with_the_maximum)
{
    static const int max[] = {1, 2, 63, 64}, want = 1;
    static struct fix f;
    for (size_t i = 0; i < ARRAY_LEN(max); i++) {
        fix_config(&f, "ppo", true);
        f.cfg.spec.units_max = max[i];
        fix_start(&f);
        assert_int_equal(f.cfg.step_units, want);
    }
    static float many[201];
    fix_config(&f, "ppo", true);
    for (int u = 0; u <= 200; u++)
        many[u] = 50 * (float)u;
    f.latency.units_max = f.cfg.spec.units_max = 200;
    f.latency.load_max = many;
    fix_start(&f);
    assert_int_equal(f.cfg.step_units, 4); /* ceil(200 / 64) */
}

/* ---- actions
 * ------------------------------------------------------------------------------------- */
TEST(actions_are_steps_around_the_requested_size)
{
    static struct fix f;
    uint8_t mask[CAPACITY_ACTIONS];
    int units[CAPACITY_ACTIONS];
    fix_config(&f, "ppo", true);
    f.cfg.guard.auditor = GUARD_AUDITOR_OFF;
    f.cfg.spec.start_us = 150 * FIX_S;
    fix_start(&f);
    capacity_observe(&f.cfg, &f.view, &f.state, NULL);
    capacity_mask(&f.cfg, &f.view, &f.state, mask, units);
    static const int slow[CAPACITY_ACTIONS] = {7, 8, 9, 10, 11, 12, 14}; /* 150 s is a slow start */
    for (int a = 0; a < CAPACITY_ACTIONS; a++) {
        assert_int_equal(units[a], slow[a]);
        assert_int_equal(mask[a], 1);
    }
    fix_init(&f, "ppo", true);
    capacity_observe(&f.cfg, &f.view, &f.state, NULL);
    capacity_mask(&f.cfg, &f.view, &f.state, mask, units);
    assert_int_equal(units[6], 13);
    assert_int_equal(mask[6], 0); /* no evidence */
    assert_int_equal(mask[3], 1);
}

TEST(actions_shift_what_the_base_policy_proposes)
{
    static struct fix f;
    uint8_t mask[CAPACITY_ACTIONS];
    int units[CAPACITY_ACTIONS];
    for (int mode = 0; mode < 2; mode++) {
        fix_config(&f, "ppo", true);
        policy_use_default(&f.cfg.base, policy_find("mpc"));
        f.cfg.main.opt.ppo.base = PPO_BASE_MPC;
        f.cfg.main.opt.ppo.residual = mode ? PPO_RESIDUAL_MARGIN : PPO_RESIDUAL_UNITS;
        f.cfg.main.opt.ppo.residual_step = 0.1;
        fix_start(&f);
        fix_units(&f, 20, 0);
        fix_load(&f, 1000);
        capacity_observe(&f.cfg, &f.view, &f.state, NULL);
        capacity_mask(&f.cfg, &f.view, &f.state, mask, units);
        int base = f.state.base_units;
        assert_int_equal(units[3], base);
        assert_int_equal(units[6], mode ? (int)ceil(1.3 * base - 1e-3) : base + 3);
    }
}

TEST(an_action_is_offered_even_when_the_guard_forces_a_size)
{
    static struct fix f;
    uint8_t mask[CAPACITY_ACTIONS];
    int units[CAPACITY_ACTIONS], n = 0;
    fix_init(&f, "ppo", true);
    f.view.claims.override_on = true;
    f.view.claims.override_units = 30;
    f.view.claims.override_until_us = f.view.now_us + 1;
    capacity_observe(&f.cfg, &f.view, &f.state, NULL);
    capacity_mask(&f.cfg, &f.view, &f.state, mask, units);
    for (int a = 0; a < CAPACITY_ACTIONS; a++)
        n += mask[a];
    assert_int_equal(n, 1);
    assert_int_equal(mask[6], 1); /* the nearest */
}

/* ---- purity
 * -------------------------------------------------------------------------------------- */
static void wander(struct fix *f, int i)
{
    fix_load(f, 250 + 200 * (float)rng_unit(&f->rng));
    f->view.value[FIELD_GPU_UTIL] = f->view.value[FIELD_QPS] / 550;
    if (i % 20 == 0)
        fix_forecast(f, f->view.value[FIELD_QPS], f->view.value[FIELD_QPS] * 1.2f,
                     f->view.value[FIELD_QPS] * 1.4f);
    fix_tick(f);
}

TEST(a_decision_depends_on_its_inputs_only)
{
    static struct fix a, b;
    static struct capacity_state next;
    static struct capacity_record record;
    for (size_t p = 0; p < policy_count(); p++) {
        fix_config(&a, policy_at(p)->name, true);
        policy_use_default(&a.cfg.rule, policy_find("hpa"));
        fix_start(&a);
        for (int i = 0; i < 300; i++) {
            struct capacity_plan plan;
            wander(&a, i);
            b = a;
            b.cfg.spec.latency = a.cfg.spec.latency;
            /* state_out apart from state_in, without a record; then in place, with one */
            decide_capacity(&b.cfg, &b.view, &b.state, &b.rng, &next, &plan, NULL);
            fix_decide(&a);
            record = a.record;
            assert_int_equal(plan.units, a.plan.units);
            assert_memory_equal(&next, &a.state, offsetof(struct capacity_state, memory));
            assert_memory_equal(&next.memory, &a.state.memory, a.cfg.main.policy->memory_bytes);
            assert_memory_equal(&next.rule_memory, &a.state.rule_memory,
                                a.cfg.rule.policy->memory_bytes);
            /* and again from the same state: the same record, bit by bit */
            fix_decide(&b);
            assert_memory_equal(&record.chain, &b.record.chain, sizeof record.chain);
            assert_int_equal(record.inputs_hash, b.record.inputs_hash);
            fix_units(&a, a.plan.units, 0);
        }
    }
}

TEST(observe_mask_commit_is_the_whole_decision)
{
    static struct fix a, b;
    uint8_t mask[CAPACITY_ACTIONS];
    int units[CAPACITY_ACTIONS];
    fix_init(&a, "mpc", true);
    fix_init(&b, "mpc", true);
    for (int i = 0; i < 300; i++) {
        wander(&a, i);
        b.view = a.view;
        fix_decide(&a);
        capacity_observe(&b.cfg, &b.view, &b.state, b.record.obs);
        capacity_mask(&b.cfg, &b.view, &b.state, mask, units);
        capacity_commit(&b.cfg, &b.view, &b.state, a.record.proposed, &b.plan, &b.record);
        assert_int_equal(b.plan.units, a.plan.units);
        assert_memory_equal(b.record.obs, a.record.obs, sizeof a.record.obs);
        assert_memory_equal(&b.state.guard, &a.state.guard, sizeof a.state.guard);
        fix_units(&a, a.plan.units, 0);
        fix_units(&b, a.plan.units, 0);
    }
}

TEST(a_record_says_who_decided_what_on_which_inputs)
{
    static struct fix f;
    fix_config(&f, "hpa", true);
    policy_use_default(&f.cfg.rule, policy_find("static"));
    fix_start(&f);
    f.view.value[FIELD_GPU_UTIL] = 0.98f;
    fix_decide(&f);
    assert_string_equal(f.record.policy, "hpa");
    assert_int_equal(f.record.units_before, 10);
    assert_int_equal(f.record.proposed, 14);
    assert_int_equal(f.record.executed, f.plan.units);
    assert_int_equal(f.record.rule_units, 64);
    assert_int_equal(f.record.base_units, -1);
    assert_int_equal(f.record.action, -1);
    assert_int_equal(f.record.error, ERR_OK);
    assert_int_equal(f.record.policy_version, f.cfg.version);
    uint64_t hash = f.record.inputs_hash;
    static struct fix g;
    g = f;
    g.view.value[FIELD_CPU_UTIL] += 1e-6f;
    fix_decide(&g);
    assert_true(g.record.inputs_hash != hash);
}

TEST(version_changes_with_options_guard_and_policy)
{
    static struct fix f;
    fix_init(&f, "hpa", false);
    uint64_t v = f.cfg.version;
    fix_config(&f, "hpa", false);
    f.cfg.main.opt.hpa.gpu_target_frac = 0.65;
    fix_start(&f);
    assert_true(f.cfg.version != v);
    fix_init(&f, "hpa", true);
    assert_true(f.cfg.version != v);
    fix_init(&f, "hpa", false);
    assert_true(f.cfg.version == v);
}

/* ---- a network that is not there
 * ----------------------------------------------------------------- */
TEST(without_a_network_ppo_holds_or_takes_the_baseline_and_says_so)
{
    static struct fix f;
    fix_init(&f, "ppo", true);
    f.view.value[FIELD_GPU_UTIL] = 0.98f;
    assert_int_equal(fix_decide(&f), 10);
    assert_int_equal(f.record.error, ERR_MISSING);
    fix_config(&f, "ppo", true);
    f.cfg.main.opt.ppo.on_error = PPO_ON_ERROR_BASELINE;
    policy_use_default(&f.cfg.rule, policy_find("hpa"));
    fix_start(&f);
    f.view.value[FIELD_GPU_UTIL] = 0.98f;
    assert_int_equal(fix_decide(&f), 14);
    assert_int_equal(f.record.error, ERR_MISSING);
}

/* ---- packing
 * ------------------------------------------------------------------------------------- */
TEST(a_packed_state_goes_on_to_the_same_bits)
{
    static struct fix a, b;
    static unsigned char buf[sizeof(struct capacity_state) + 64];
    struct err e;
    for (size_t p = 0; p < policy_count(); p++) {
        fix_init(&a, policy_at(p)->name, true);
        for (int i = 0; i < 100; i++) {
            wander(&a, i);
            fix_decide(&a);
        }
        size_t n = capacity_state_pack_size(&a.cfg);
        assert_true(n <= sizeof buf);
        capacity_state_pack(&a.cfg, &a.state, buf);
        b = a;
        memset(&b.state, 0xee, sizeof b.state);
        assert_ok(capacity_state_unpack(&b.cfg, buf, n, &b.state, &e), &e);
        for (int i = 0; i < 100; i++) {
            wander(&a, i);
            wander(&b, i);
            fix_decide(&a);
            fix_decide(&b);
            assert_memory_equal(&a.record, &b.record, sizeof a.record);
        }
    }
}

TEST(a_packed_state_of_another_kind_is_refused)
{
    static struct fix f, other;
    static unsigned char buf[sizeof(struct capacity_state) + 64], bad[sizeof buf];
    struct err e;
    fix_init(&f, "hpa", true);
    fix_init(&other, "mpc", true);
    size_t n = capacity_state_pack_size(&f.cfg);
    capacity_state_pack(&f.cfg, &f.state, buf);
    assert_err(capacity_state_unpack(&other.cfg, buf, n, &other.state, &e), ERR_MISMATCH, &e,
               "other");
    assert_err(capacity_state_unpack(&f.cfg, buf, n - 1, &f.state, &e), ERR_PARSE, &e, "bytes");
    assert_err(capacity_state_unpack(&f.cfg, buf, 3, &f.state, &e), ERR_PARSE, &e, "header");
    for (size_t i = 0; i < n; i += 7) { /* any flipped byte is noticed */
        memcpy(bad, buf, n);
        bad[i] ^= 0x40;
        assert_true(capacity_state_unpack(&f.cfg, bad, n, &f.state, &e) != ERR_OK);
    }
}

/* Where a packed block holds what: a header of 32 bytes that ends with the hash, then these. */
#define IN_STATE(member) (32 + offsetof(struct capacity_state, member))
#define IN_MEMORY(type, member) (32 + offsetof(struct capacity_state, memory) + offsetof(struct type, member))

/* Somebody who can write a file can also write its hash. */
TEST(values_that_no_state_can_have_are_refused_although_the_hash_fits)
{
    static const struct {
        const char *policy;
        size_t at;
        uint32_t value; /* of four bytes */
    } cases[] = {
        {"hpa", IN_STATE(base_units), 1u << 20},
        {"hpa", IN_STATE(candidate), 0x80008000u},
        {"hpa", IN_STATE(guard.lo), 4000},
        {"hpa", IN_STATE(guard.hi), 5000},
        {"hpa", IN_STATE(guard.ready_before), 0x80000000u},
        {"hpa", IN_STATE(guard.last_out_us) + 4, 0x80000000u},
        {"hpa", IN_STATE(guard.up.bucket) + 4, 0x7fffffffu},
        {"hpa", IN_STATE(guard.flap.sum), 7},
        {"hpa", IN_STATE(sense.ring_next), 0x7fffffffu},
        {"hpa", IN_STATE(sense.ring), 0x7f800000u},
        {"hpa", IN_STATE(sense.units_p95), 0x7fffffffu},
        {"hpa", IN_MEMORY(hpa_memory, up.head), 122},
        {"hpa", IN_MEMORY(hpa_memory, seen_us) + 4, 0x80000000u},
        {"threshold", IN_MEMORY(threshold_memory, acted_us) + 4, 0x80000000u},
        {"queue", IN_MEMORY(queue_memory, active_us) + 4, 0x7fffffffu},
        {"mpc", IN_MEMORY(mpc_memory, next), MPC_LEADS},
        {"mpc", IN_MEMORY(mpc_memory, units), 0x7fffffffu},
        {"mpc", IN_MEMORY(mpc_memory, highest.value), 0x7f7fffffu},
        {"mpc", IN_MEMORY(mpc_memory, highest.n), 243},
        {"outlook", IN_MEMORY(outlook_memory, ready), 2},
        {"outlook", IN_MEMORY(outlook_memory, ready), 1}, /* with no sizes to choose among */
        {"outlook", IN_MEMORY(outlook_memory, sizes.n), OUTLOOK_SIZES_MAX + 1},
        {"outlook", IN_MEMORY(outlook_memory, sizes.n), 0xffffffffu},
        {"outlook", IN_MEMORY(outlook_memory, highest.head), 0xffffffffu},
        {"outlook", IN_MEMORY(outlook_memory, seen.steps), 0x80000000u},
        {"outlook", IN_MEMORY(outlook_memory, lambda) + 4, 0xfff00000u},
        {"outlook", IN_MEMORY(outlook_memory, tail), 0x7f800000u},
        {"outlook", IN_MEMORY(outlook_memory, flips), 0x7fc00000u},
        {"outlook", IN_MEMORY(outlook_memory, direction), 2},
        {"ppo", IN_MEMORY(ppo_memory, hc), 0x7f800000u},
    };
    static struct fix f;
    static unsigned char buf[sizeof(struct capacity_state) + 64];
    struct err e;
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        fix_init(&f, cases[i].policy, true);
        for (int k = 0; k < 3 && strcmp(cases[i].policy, "outlook") != 0; k++)
            fix_decide(&f);
        size_t n = capacity_state_pack_size(&f.cfg);
        capacity_state_pack(&f.cfg, &f.state, buf);
        assert_ok(capacity_state_unpack(&f.cfg, buf, n, &f.state, &e), &e);
        memcpy(buf + cases[i].at, &cases[i].value, sizeof cases[i].value);
        uint64_t hash = hash_of(buf + 32, n - 32);
        memcpy(buf + 24, &hash, sizeof hash);
        enum err_code rc = capacity_state_unpack(&f.cfg, buf, n, &f.state, &e);
        if (rc != ERR_PARSE || !strstr(e.msg, "out of range"))
            fail_msg("case %zu: %s", i, rc ? e.msg : "accepted");
    }
}
