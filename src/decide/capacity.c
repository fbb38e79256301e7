#include "decide/capacity.h"

#include <math.h>
#include <string.h>

#include "base/hash.h"
#include "base/mem.h"
#include "decide/capacity_priv.h"
#include "decide/sane.h"

/* ---- config -------------------------------------------------------------------------------------
 */
void policy_use_default(struct policy_use *use, const struct policy *policy)
{
    memset(use, 0, sizeof *use);
    use->policy = policy;
    if (policy)
        opt_init(policy->options, &use->opt);
}

void capacity_config_default(struct capacity_config *cfg, const struct policy *policy)
{
    memset(cfg, 0, sizeof *cfg);
    guard_options_default(&cfg->guard);
    policy_use_default(&cfg->main, policy);
    cfg->guarded = policy && policy->guarded;
}

static enum err_code check_spec(const struct capacity_spec *s, struct err *e)
{
    if (s->units_max < 1 || s->units_max > CAPACITY_UNITS_LIMIT)
        return err_set(e, ERR_RANGE, "units_max: %d is outside 1..%d", s->units_max,
                       CAPACITY_UNITS_LIMIT);
    if (s->units_min < 0 || s->units_min > s->units_max)
        return err_set(e, ERR_INVAL, "units_min: %d is outside 0..units_max (%d)", s->units_min,
                       s->units_max);
    if (s->units_min_safe < 0 || s->units_min_safe > s->units_max)
        return err_set(e, ERR_INVAL, "units_min_safe: %d is outside 0..units_max (%d)",
                       s->units_min_safe, s->units_max);
    if (s->step_us < 15000000 || s->step_us > 300000000)
        return err_set(e, ERR_RANGE, "step: %.3f s is outside 15 s..5 min",
                       (double)s->step_us * 1e-6);
    if (s->start_us <= 0 || s->start_us > INT64_C(86400000000))
        return err_set(e, ERR_RANGE, "start: %.3f s is outside 0..24 h",
                       (double)s->start_us * 1e-6);
    if (!(s->slo_p99_ms > 0) || !isfinite(s->slo_p99_ms))
        return err_set(e, ERR_RANGE, "slo_p99_ms: %g is not a positive number", s->slo_p99_ms);
    if (!(s->price_usd_h >= 0) || !isfinite(s->price_usd_h))
        return err_set(e, ERR_RANGE, "price_usd_h: %g is not a price", s->price_usd_h);
    return ERR_OK;
}

static enum err_code check_latency(const struct capacity_spec *s, struct err *e)
{
    const struct latency_model *m = s->latency;
    if (!m || !m->load_max)
        return err_set(e, ERR_INVAL, "no latency model: calibrate the service first");
    if (m->units_max < s->units_max)
        return err_set(e, ERR_INVAL, "latency model covers %d units, units_max is %d", m->units_max,
                       s->units_max);
    if (fabs(m->slo_ms - s->slo_p99_ms) > 1e-6 * s->slo_p99_ms)
        return err_set(e, ERR_MISMATCH, "latency model is for a target of %g ms, slo_p99_ms is %g",
                       m->slo_ms, s->slo_p99_ms);
    for (int u = 1; u <= s->units_max; u++)
        if (!(m->load_max[u] >= (u > 1 ? m->load_max[u - 1] : 0)) || !isfinite(m->load_max[u]))
            return err_set(e, ERR_INVAL, "latency model: load within target falls at %d units", u);
    if (!(m->load_max[s->units_max] > 0))
        return err_set(e, ERR_RANGE, "no number of units keeps p99 within %g ms", s->slo_p99_ms);
    return ERR_OK;
}

static enum err_code check_use(const struct capacity_config *cfg, const struct policy_use *use,
                               const char *what, struct err *e)
{
    if (!use->policy)
        return ERR_OK;
    if (use->policy->learned && use != &cfg->main)
        return err_set(e, ERR_INVAL, "%s policy: %s is learned", what, use->policy->name);
    if (use->policy->validate && use->policy->validate(cfg, &use->opt, e))
        return err_wrap(e, "%s policy %s", what, use->policy->name);
    return ERR_OK;
}

static void derive_need(struct capacity_config *cfg)
{
    const float *cap = cfg->spec.latency->load_max;
    int u = 0;
    cfg->load_top = cap[cfg->spec.units_max];
    cfg->need_scale = (float)NEED_GRID / cfg->load_top;
    for (int i = 0; i <= NEED_GRID; i++) {
        float edge =
            cfg->load_top * ((float)i - 1e-3f) / (float)NEED_GRID; /* rounds to the safe side */
        while (u < cfg->spec.units_max && (u == 0 ? 0 : cap[u]) < edge)
            u++;
        cfg->need_grid[i] = (uint16_t)u;
    }
}

static float inverse(int64_t us)
{
    return us > 0 ? (float)(1.0 / (double)us) : 0;
}

static void derive_times(struct capacity_config *cfg)
{
    const struct guard_options *g = &cfg->guard;
    double step_us = (double)cfg->spec.step_us;
    double bins = (double)cfg->spec.start_us / (double)CAPACITY_WARM_BIN_US;
    cfg->steps_1min = clamp_int((int)lround(60e6 / step_us), 1, SENSE_RING - 1);
    cfg->steps_5min = clamp_int((int)lround(300e6 / step_us), 1, SENSE_RING - 1);
    cfg->level_gain = (float)fmin(1, step_us / 1800e6);
    cfg->warm_mid = clamp_int((int)lround(bins / 3), 1, CAPACITY_WARM_BINS - 2);
    cfg->warm_old = clamp_int((int)lround(bins * 2 / 3), cfg->warm_mid + 1, CAPACITY_WARM_BINS - 1);
    cfg->inv_out = inverse(g->cooldown_out_us);
    cfg->inv_in = inverse(g->cooldown_in_us);
    cfg->inv_watch = inverse(g->watch_us);
    cfg->inv_breaker = inverse(g->breaker_us);
    cfg->inv_hold = inverse(g->watermark_hold_us);
    cfg->up_bucket_us = max_i64(1, (g->up_window_us + GUARD_UP_WIDE - 1) / GUARD_UP_WIDE);
    cfg->start_budget_us =
        max_i64(g->start_budget_us, (int64_t)(g->start_budget_factor * (double)cfg->spec.start_us));
}

static void derive_tables(struct capacity_config *cfg)
{
    const double turn = 6.283185307179586;
    for (int i = 0; i < SINE_POINTS; i++)
        cfg->sine[i] = (float)sin(turn * i / SINE_POINTS);
    for (int d = 0; d < 7; d++) {
        cfg->week_sin[d] = (float)sin(turn * d / 7);
        cfg->week_cos[d] = (float)cos(turn * d / 7);
    }
}

static void derive_actions(struct capacity_config *cfg)
{
    int max = cfg->spec.units_max;
    cfg->step_units = max_int(1, (max + 63) / 64);
    cfg->rate_step_units = cfg->step_units * (cfg->spec.start_us > cfg->guard.slow_start_us ? 2 : 1);
    cfg->flap_budget_units =
        cfg->guard.flap_budget_units > 0 ? (int)cfg->guard.flap_budget_units : max_int(12, max);
    cfg->inv_flap = 1.0f / (float)cfg->flap_budget_units;
    cfg->inv_max = 1.0f / (float)max;
    cfg->inv_slo = (float)(1 / cfg->spec.slo_p99_ms);
    for (int a = 0; a < CAPACITY_ACTIONS; a++)
        cfg->action_units[a] = cfg->action_units_wide[a] =
            (a - CAPACITY_ACTION_HOLD) * cfg->step_units;
    cfg->action_units_wide[CAPACITY_ACTIONS - 1] += cfg->step_units;
}

static void hash_use(struct hash *h, const struct policy_use *use)
{
    hash_str(h, use->policy ? use->policy->name : "");
    if (use->policy)
        opt_hash(use->policy->options, &use->opt, h);
}

enum err_code capacity_config_finish(struct capacity_config *cfg, struct err *e)
{
    enum err_code rc;
    if (!cfg->main.policy)
        return err_set(e, ERR_INVAL, "no policy");
    if ((rc = check_spec(&cfg->spec, e)) || (rc = check_latency(&cfg->spec, e)))
        return rc;
    guard_options_apply(&cfg->guard);
    derive_need(cfg);
    derive_times(cfg);
    derive_tables(cfg);
    derive_actions(cfg);
    if ((rc = check_use(cfg, &cfg->base, "base", e)) ||
        (rc = check_use(cfg, &cfg->rule, "rule", e)) ||
        (rc = check_use(cfg, &cfg->main, "main", e)))
        return rc;
    struct hash h = hash_init(CAPACITY_STATE_VERSION);
    hash_use(&h, &cfg->main);
    hash_use(&h, &cfg->base);
    hash_u64(&h, cfg->guarded);
    opt_hash(&guard_options_table, &cfg->guard, &h);
    hash_u64(&h, observation_layout_hash());
    cfg->version = hash_value(&h);
    return ERR_OK;
}

float capacity_need(const struct capacity_config *cfg, float load)
{
    return need_of(cfg, load);
}

int capacity_units_for(const struct capacity_config *cfg, float load)
{
    return units_of(cfg, load);
}

/* ---- view and state -----------------------------------------------------------------------------
 */
void capacity_view_init(const struct capacity_config *cfg, struct capacity_view *view)
{
    memset(view, 0, sizeof *view);
    for (int i = 0; i < FIELD_COUNT; i++)
        view->value[i] = NAN;
    view->qps_last = view->foresight_qps = NAN;
    view->budget_units = cfg->spec.units_max;
    view->weight_latency = view->weight_cost = 1;
}

static void memory_init(const struct capacity_config *cfg, const struct policy_use *use,
                        union policy_memory *m)
{
    if (use->policy && use->policy->init)
        use->policy->init(cfg, &use->opt, m);
}

void capacity_state_init(const struct capacity_config *cfg, struct capacity_state *s)
{
    memset(s, 0, sizeof *s);
    s->version = CAPACITY_STATE_VERSION;
    s->base_units = s->rule_units = -1;
    guard_state_init(&s->guard);
    sense_init(&s->sense);
    memory_init(cfg, &cfg->main, &s->memory);
    memory_init(cfg, &cfg->base, &s->base_memory);
    memory_init(cfg, &cfg->rule, &s->rule_memory);
}

static size_t memory_bytes(const struct policy_use *use)
{
    return use->policy ? use->policy->memory_bytes : 0;
}

void capacity_state_copy(const struct capacity_config *cfg, struct capacity_state *dst,
                         const struct capacity_state *src)
{
    if (dst == src)
        return;
    memcpy(dst, src, offsetof(struct capacity_state, memory));
    memcpy(&dst->memory, &src->memory, memory_bytes(&cfg->main));
    memcpy(&dst->base_memory, &src->base_memory, memory_bytes(&cfg->base));
    memcpy(&dst->rule_memory, &src->rule_memory, memory_bytes(&cfg->rule));
}

/* Packed form: header, hot part, then the used part of each memory.  Native byte order and layout:
 * the header refuses a block from another build's layout. */
static const char pack_magic[8] = "slucap1";

struct pack_header {
    char magic[8];
    uint32_t version, n_bytes;
    uint64_t layout; /* of policies and sizes */
    uint64_t check;  /* of the bytes that follow */
};

static uint64_t pack_layout(const struct capacity_config *cfg)
{
    struct hash h = hash_init(CAPACITY_STATE_VERSION);
    const struct policy_use *uses[] = {&cfg->main, &cfg->base, &cfg->rule};
    hash_u64(&h, sizeof(struct capacity_state));
    hash_u64(&h, GUARD_UP_BUCKETS);
    for (size_t i = 0; i < ARRAY_LEN(uses); i++) {
        hash_str(&h, uses[i]->policy ? uses[i]->policy->name : "");
        hash_u64(&h, memory_bytes(uses[i]));
    }
    return hash_value(&h);
}

size_t capacity_state_pack_size(const struct capacity_config *cfg)
{
    return sizeof(struct pack_header) + offsetof(struct capacity_state, memory) +
           memory_bytes(&cfg->main) + memory_bytes(&cfg->base) + memory_bytes(&cfg->rule);
}

/* Copies part after part in or out; returns where the next one goes. */
static unsigned char *pack_part(unsigned char *at, void *part, size_t n, bool in)
{
    memcpy(in ? part : (void *)at, in ? (const void *)at : part, n);
    return at + n;
}

static void pack_parts(const struct capacity_config *cfg, struct capacity_state *s,
                       unsigned char *at, bool in)
{
    at = pack_part(at, s, offsetof(struct capacity_state, memory), in);
    at = pack_part(at, &s->memory, memory_bytes(&cfg->main), in);
    at = pack_part(at, &s->base_memory, memory_bytes(&cfg->base), in);
    (void)pack_part(at, &s->rule_memory, memory_bytes(&cfg->rule), in);
}

void capacity_state_pack(const struct capacity_config *cfg, const struct capacity_state *s,
                         void *buf)
{
    struct pack_header h = {.version = CAPACITY_STATE_VERSION, .layout = pack_layout(cfg)};
    unsigned char *body = (unsigned char *)buf + sizeof h;
    struct capacity_state copy = *s; /* pack_parts also writes the other way */
    size_t n = capacity_state_pack_size(cfg) - sizeof h;
    pack_parts(cfg, &copy, body, false);
    memcpy(h.magic, pack_magic, sizeof h.magic);
    h.n_bytes = (uint32_t)n;
    h.check = hash_of(body, n);
    memcpy(buf, &h, sizeof h);
}

static bool use_sane(const struct policy_use *use, const union policy_memory *m)
{
    return !use->policy || !use->policy->sane || use->policy->sane(m);
}

static bool window_sane(const struct guard_window *w)
{
    const int64_t most = INT64_C(10000000000); /* times the widest bucket, 5 min, fits */
    int32_t sum = 0;
    bool ok = w->bucket == GUARD_NEVER || sane_int(w->bucket, -most, most);
    for (int i = 0; i < GUARD_UP_BUCKETS; i++) {
        ok &= w->at[i] >= 0;
        sum += w->at[i];
    }
    return ok && w->sum == sum;
}

static bool guard_sane(const struct guard_state *g)
{
    const int64_t times[] = {g->last_out_us,      g->last_in_us,    g->watch_until_us, g->breaker_until_us,
                             g->breaker_retry_us, g->high_since_us, g->low_since_us,   g->water_since_us};
    bool ok = g->lo >= 0 && g->lo <= g->hi && g->hi <= CAPACITY_UNITS_LIMIT;
    for (size_t i = 0; i < ARRAY_LEN(times); i++)
        ok &= sane_time(times[i]);
    return ok && sane_int(g->ready_before, 0, CAPACITY_UNITS_LIMIT) &&
           sane_int(g->failed_before, 0, CAPACITY_UNITS_LIMIT) && window_sane(&g->up) && window_sane(&g->flap);
}

static bool sense_sane(const struct sense_state *s)
{
    float x[(offsetof(struct sense_state, ring_next) - offsetof(struct sense_state, qps)) / sizeof(float)];
    memcpy(x, (const char *)s + offsetof(struct sense_state, qps), sizeof x);
    return sane_time(s->observed_us) && sane_time(s->forecast_us) && sane_floats(x, ARRAY_LEN(x), 1e30f) &&
           sane_int(s->ring_next, 0, SENSE_RING - 1) && sane_int(s->ring_n, 0, SENSE_RING) &&
           sane_int(s->units_p95, 0, CAPACITY_UNITS_LIMIT);
}

static bool sizes_sane(const struct capacity_state *s)
{
    bool ok = sane_int(s->base_units, -1, 2 * CAPACITY_UNITS_LIMIT) &&
              sane_int(s->rule_units, -1, 2 * CAPACITY_UNITS_LIMIT);
    for (int a = 0; a < CAPACITY_ACTIONS; a++)
        ok &= sane_int(s->candidate[a], 0, CAPACITY_UNITS_LIMIT);
    return ok;
}

/* Even in a block whose hash is right. */
static bool state_sane(const struct capacity_config *cfg, const struct capacity_state *s)
{
    return sizes_sane(s) && sense_sane(&s->sense) && guard_sane(&s->guard) && use_sane(&cfg->main, &s->memory) &&
           use_sane(&cfg->base, &s->base_memory) && use_sane(&cfg->rule, &s->rule_memory);
}

enum err_code capacity_state_unpack(const struct capacity_config *cfg, const void *buf, size_t n,
                                    struct capacity_state *s, struct err *e)
{
    struct pack_header h;
    unsigned char body[sizeof(struct capacity_state)];
    if (n < sizeof h)
        return err_set(e, ERR_PARSE, "capacity state: %zu bytes, a header has %zu", n, sizeof h);
    memcpy(&h, buf, sizeof h);
    if (memcmp(h.magic, pack_magic, sizeof h.magic) != 0)
        return err_set(e, ERR_PARSE, "capacity state: not one (magic)");
    if (h.version != CAPACITY_STATE_VERSION)
        return err_set(e, ERR_MISMATCH, "capacity state: version %u, this build has %d", h.version,
                       CAPACITY_STATE_VERSION);
    if (h.layout != pack_layout(cfg))
        return err_set(e, ERR_MISMATCH,
                       "capacity state: made for other policies or another layout");
    if (n != capacity_state_pack_size(cfg) || h.n_bytes != n - sizeof h)
        return err_set(e, ERR_PARSE, "capacity state: %zu bytes, expected %zu", n,
                       capacity_state_pack_size(cfg));
    memcpy(body, (const unsigned char *)buf + sizeof h, n - sizeof h);
    if (hash_of(body, n - sizeof h) != h.check)
        return err_set(e, ERR_PARSE, "capacity state: damaged");
    capacity_state_init(cfg, s);
    pack_parts(cfg, s, body, true);
    if (!state_sane(cfg, s))
        return err_set(e, ERR_PARSE, "capacity state: a value is out of range");
    return ERR_OK;
}

/* ---- one step -----------------------------------------------------------------------------------
 */
static int propose_aside(const struct capacity_config *cfg, const struct capacity_view *view,
                         const struct capacity_state *state, const struct policy_use *use,
                         union policy_memory *m)
{
    struct policy_input in = {.cfg = cfg, .opt = &use->opt, .view = view, .state = state};
    struct policy_proposal p = {.units = view->units_requested, .action = -1};
    use->policy->propose(&in, m, NULL, &p); /* learned policies, which may draw, are refused here */
    return clamp_int(p.units, cfg->spec.units_min, cfg->spec.units_max);
}

/* The size each action stands for. */
static void fill_candidates(const struct capacity_config *cfg, const struct capacity_view *view,
                            struct capacity_state *state)
{
    const struct ppo_options *o = &cfg->main.opt.ppo;
    bool wide = cfg->spec.start_us > cfg->guard.slow_start_us || guard_cautious(cfg, view);
    const int *shift = wide ? cfg->action_units_wide : cfg->action_units;
    int from = view->units_requested, units[CAPACITY_ACTIONS];
    if (state->base_units >= 0 && o->base != PPO_BASE_NONE) {
        from = state->base_units;
        shift = cfg->action_units;
        if (o->residual == PPO_RESIDUAL_MARGIN && cfg->base.policy->levels) {
            struct policy_input in = {
                .cfg = cfg, .opt = &cfg->base.opt, .view = view, .state = state};
            cfg->base.policy->levels(&in, &state->base_memory, o->residual_step, units);
            for (int a = 0; a < CAPACITY_ACTIONS; a++)
                state->candidate[a] =
                    (int16_t)clamp_int(units[a], cfg->spec.units_min, cfg->spec.units_max);
            return;
        }
    }
    for (int a = 0; a < CAPACITY_ACTIONS; a++)
        state->candidate[a] = (int16_t)clamp_int(from + shift[a], 0, CAPACITY_UNITS_LIMIT);
}

void capacity_observe(const struct capacity_config *cfg, const struct capacity_view *view,
                      struct capacity_state *state, float *obs)
{
    sense_advance(cfg, view, &state->sense);
    guard_advance(cfg, view, state);
    if (cfg->base.policy)
        state->base_units = propose_aside(cfg, view, state, &cfg->base, &state->base_memory);
    if (cfg->rule.policy)
        state->rule_units = propose_aside(cfg, view, state, &cfg->rule, &state->rule_memory);
    if (cfg->main.policy->learned)
        fill_candidates(cfg, view, state);
    if (obs)
        observation_fill(cfg, view, state, obs);
}

void capacity_mask(const struct capacity_config *cfg, const struct capacity_view *view,
                   const struct capacity_state *state, uint8_t mask[CAPACITY_ACTIONS],
                   int units[CAPACITY_ACTIONS])
{
    (void)cfg;
    int any = 0, lo = state->guard.lo, hi = state->guard.hi;
    for (int a = 0; a < CAPACITY_ACTIONS; a++) {
        units[a] = state->candidate[a];
        mask[a] = (uint8_t)((units[a] >= lo) & (units[a] <= hi));
        any |= mask[a];
    }
    if (__builtin_expect(any, 1))
        return;
    int best = CAPACITY_ACTION_HOLD, forced = clamp_int(view->units_requested, lo, hi);
    for (int a = 0; a < CAPACITY_ACTIONS; a++) {
        int d = units[a] > forced ? units[a] - forced : forced - units[a];
        int b = units[best] > forced ? units[best] - forced : forced - units[best];
        best = d < b ? a : best;
    }
    mask[best] = 1;
}

static uint64_t fold(uint64_t h, uint64_t x)
{
    h = (h ^ x) * 0x9fb21c651e98df25ull;
    return h ^ (h >> 29);
}

/* Of all a decision may read, in 8-byte words; a multiply each, since every step is recorded. */
static uint64_t view_hash(const struct capacity_view *v)
{
    uint64_t h = 0x243f6a8885a308d3ull, w;
    uint32_t f[FIELD_COUNT + 5 * FORECAST_LEVELS + 12];
    size_t n = 0;
    memcpy(f + n, v->value, sizeof v->value);
    n += FIELD_COUNT;
    memcpy(f + n, v->forecast.mean, 5 * sizeof v->forecast.mean);
    n += 5 * (size_t)FORECAST_LEVELS;
    const float rest[] = {v->qps_last,
                          v->forecast.base,
                          v->forecast.slot_p95,
                          v->forecast.high,
                          v->forecast.hours_to_peak,
                          v->forecast.uncertainty,
                          v->weight_latency,
                          v->weight_cost,
                          v->foresight_qps};
    memcpy(f + n, rest, sizeof rest);
    n += ARRAY_LEN(rest);
    f[n++] = (uint32_t)(v->units_requested + (v->units_ready << 16));
    f[n++] = (uint32_t)(v->units_warming + (v->units_failed << 16));
    f[n++] = (uint32_t)v->budget_units;
    for (size_t i = 0; i + 1 < n; i += 2) {
        memcpy(&w, f + i, sizeof w);
        h = fold(h, w);
    }
    if (n % 2)
        h = fold(h, f[n - 1]);
    h = fold(h, (uint64_t)v->now_us);
    h = fold(h, (uint64_t)v->sample_us);
    h = fold(h, (uint64_t)v->warm_oldest_us);
    h = fold(h, (uint64_t)v->forecast.made_us ^ (uint64_t)v->forecast.usable);
    const struct capacity_claims *c = &v->claims;
    return fold(h,
                (uint64_t)(c->frozen | c->paused << 1 | c->unmanaged << 2 | c->owned_by_other << 3 |
                           c->cluster_abnormal << 4 | c->override_on << 5) ^
                    (uint64_t)c->override_units << 8 ^ (uint64_t)c->override_until_us << 24);
}

static void record_fill(const struct capacity_config *cfg, const struct capacity_view *view,
                        const struct capacity_state *state, int proposed, int executed,
                        struct capacity_record *r)
{
    r->now_us = view->now_us;
    r->inputs_hash = view_hash(view);
    r->policy_version = cfg->version;
    r->policy = cfg->main.policy->name;
    r->rule = cfg->rule.policy ? cfg->rule.policy->name : NULL;
    r->gpu_trend = state->sense.gpu_trend;
    r->qps_trend = state->sense.qps_trend;
    r->qps = state->sense.qps;
    r->slot_p95 = view->forecast.usable ? view->forecast.slot_p95 : NAN;
    r->units_before = (int16_t)view->units_requested;
    r->units_ready = (int16_t)view->units_ready;
    r->proposed = (int16_t)clamp_int(proposed, INT16_MIN, INT16_MAX);
    r->executed = (int16_t)executed;
    r->rule_units = (int16_t)state->rule_units;
    r->base_units = (int16_t)state->base_units;
    r->guarded = cfg->guarded;
    r->n_checks = cfg->guarded ? GUARD_CHECKS : 0;
    if (cfg->guarded)
        ASSERT(guard_chain(cfg, view, state, proposed, r->chain) == executed);
}

void capacity_commit(const struct capacity_config *cfg, const struct capacity_view *view,
                     struct capacity_state *state, int proposed, struct capacity_plan *plan,
                     struct capacity_record *record)
{
    int executed = clamp_int(proposed, state->guard.lo, state->guard.hi);
    plan->units = executed;
    plan->changed = executed != view->units_requested;
    if (record)
        record_fill(cfg, view, state, proposed, executed, record);
    guard_commit(cfg, view, state, proposed, executed);
}

static void record_choice(const struct capacity_state *state, const uint8_t *mask,
                          const struct policy_proposal *p, bool learned, struct capacity_record *r)
{
    r->action = (int8_t)p->action;
    r->value = p->value;
    r->error = (uint8_t)p->error;
    memset(r->mask, 0, sizeof r->mask);
    memset(r->candidate, 0, sizeof r->candidate);
    memset(r->prob, 0, sizeof r->prob);
    if (!learned)
        return;
    memcpy(r->mask, mask, sizeof r->mask);
    memcpy(r->candidate, state->candidate, sizeof r->candidate);
    memcpy(r->prob, p->prob, sizeof r->prob);
}

void decide_capacity(const struct capacity_config *cfg, const struct capacity_view *view,
                     const struct capacity_state *state_in, struct rng *rng,
                     struct capacity_state *state_out, struct capacity_plan *plan,
                     struct capacity_record *record)
{
    bool learned = cfg->main.policy->learned;
    float obs[CAPACITY_OBS];
    uint8_t mask[CAPACITY_ACTIONS] = {0};
    int units[CAPACITY_ACTIONS] = {0};
    capacity_state_copy(cfg, state_out, state_in);
    capacity_observe(cfg, view, state_out, learned || record ? obs : NULL);
    if (learned)
        capacity_mask(cfg, view, state_out, mask, units);
    struct policy_input in = {.cfg = cfg,
                              .opt = &cfg->main.opt,
                              .view = view,
                              .state = state_out,
                              .obs = learned ? obs : NULL,
                              .mask = mask,
                              .units = units};
    struct policy_proposal p = {.units = view->units_requested, .action = -1, .value = NAN};
    cfg->main.policy->propose(&in, &state_out->memory, rng, &p);
    capacity_commit(cfg, view, state_out, p.units, plan, record);
    if (record) {
        record_choice(state_out, mask, &p, learned, record);
        memcpy(record->obs, obs, sizeof obs);
    }
}
