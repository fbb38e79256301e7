/* state_fuzz.c - a decision's packed state, edited, with its hash made right again: what is accepted must go on
 * deciding.  Byte 0 chooses the policy, byte 1 what ppo corrects; then edits of six bytes: where (16 bits), what
 * (32 bits, written over the state). */
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "base/mem.h"
#include "decide/capacity.h"
#include "decide/policy.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { UNITS = 64, BEFORE = 60, AFTER = 30, HEADER = 32, CHECK_AT = 24, EDIT = 6 };
static const int64_t STEP_US = 15000000;

static void check(bool ok)
{
    if (!ok)
        abort();
}

/* What every input starts from. */
struct base {
    struct latency_model latency;
    struct outlook outlook;
    struct capacity_config cfg[16];
    size_t n;
};

static struct capacity_config config_of(struct base *b, const struct policy *p, const char *base)
{
    struct capacity_config c;
    capacity_config_default(&c, p);
    c.guarded = true;
    c.outlook = &b->outlook;
    c.spec = (struct capacity_spec){.units_min = 1, .units_max = UNITS, .gpus_per_unit = 1, .price_usd_h = 2,
                                    .slo_p99_ms = 200, .slo_violation_max = 0.01, .step_us = STEP_US,
                                    .start_us = 10 * STEP_US, .latency = &b->latency};
    if (base) {
        policy_use_default(&c.base, policy_find(base));
        c.main.opt.ppo.base = strcmp(base, "mpc") == 0 ? PPO_BASE_MPC : PPO_BASE_OUTLOOK;
        c.main.opt.ppo.residual = PPO_RESIDUAL_MARGIN;
        c.main.opt.ppo.residual_step = 0.2;
    }
    return c;
}

static struct base *shared(void)
{
    static struct base b; /* built once: the sanitizers make it slow */
    if (b.n)
        return &b;
    check(!latency_from_erlang(25, 2, UNITS, 200, &b.latency, NULL) && !outlook_new(1, &b.outlook, NULL));
    for (size_t i = 0; i < policy_count(); i++)
        b.cfg[b.n++] = config_of(&b, policy_at(i), NULL);
    b.cfg[b.n++] = config_of(&b, policy_find("ppo"), "mpc");
    b.cfg[b.n++] = config_of(&b, policy_find("ppo"), "outlook");
    for (size_t i = 0; i < b.n; i++)
        check(!capacity_config_finish(&b.cfg[i], NULL));
    return &b;
}

static void look(struct capacity_view *v, int i)
{
    float load = 300 + 200 * (float)(i % 40) / 40;
    v->now_us += STEP_US;
    v->sample_us = v->now_us;
    v->when = (struct calendar_point){.day = 20000, .minute = (int16_t)(i / 4 % 1440), .slot = 40, .weekday = 2};
    for (int k = 0; k < FIELD_COUNT; k++)
        v->value[k] = 0.5f;
    v->value[FIELD_QPS] = v->qps_last = load;
    v->value[FIELD_P99_LATENCY_MS] = i % 7 ? 100 : 300;
    v->foresight_qps = load;
    v->forecast.usable = i > 10;
    v->forecast.made_us = v->now_us / 300000000 * 300000000;
    v->forecast.base = v->forecast.slot_p95 = v->forecast.high = load;
    for (int k = 0; k < FORECAST_LEVELS; k++)
        v->forecast.mean[k] = v->forecast.hi80[k] = v->forecast.hi95[k] = load;
}

/* As an environment does it: the action is anybody's, here the step's number. */
static void step(const struct capacity_config *c, struct capacity_view *v, struct capacity_state *s, int i)
{
    struct capacity_plan plan;
    struct rng rng = rng_stream(1, "state");
    look(v, i);
    if (c->base.policy) {
        uint8_t mask[CAPACITY_ACTIONS];
        int units[CAPACITY_ACTIONS];
        static float obs[CAPACITY_OBS];
        capacity_observe(c, v, s, obs);
        capacity_mask(c, v, s, mask, units);
        capacity_commit(c, v, s, units[i % CAPACITY_ACTIONS], &plan, NULL);
    } else {
        static struct capacity_record record;
        decide_capacity(c, v, s, &rng, s, &plan, &record);
    }
    check(plan.units >= 0 && plan.units <= UNITS);
    v->units_requested = v->units_ready = plan.units;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct capacity_state s;
    static unsigned char buf[sizeof s + 64];
    struct base *b = shared();
    if (size < 2)
        return 0;
    struct capacity_config *c = &b->cfg[data[0] % b->n];
    struct capacity_view v;
    capacity_view_init(c, &v);
    v.now_us = INT64_C(20000) * 86400 * 1000000;
    v.units_requested = v.units_ready = 8;
    capacity_state_init(c, &s);
    for (int i = 0; i < BEFORE; i++)
        step(c, &v, &s, i);
    size_t n = capacity_state_pack_size(c), body = n - HEADER;
    capacity_state_pack(c, &s, buf);
    for (size_t at = 2; at + EDIT <= size; at += EDIT) {
        size_t where = (size_t)(data[at] << 8 | data[at + 1]) * 4 % (body - 3);
        memcpy(buf + HEADER + where, data + at + 2, 4);
    }
    uint64_t hash = hash_of(buf + HEADER, body);
    memcpy(buf + CHECK_AT, &hash, sizeof hash);
    if (capacity_state_unpack(c, buf, n, &s, NULL))
        return 0;
    for (int i = BEFORE; i < BEFORE + AFTER; i++)
        step(c, &v, &s, i);
    return 0;
}
