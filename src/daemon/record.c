#include "daemon/record.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/hash.h"
#include "base/mem.h"
#include "daemon/record_priv.h"
#include "decide/explain.h"

enum { WHY_MAX = 768 };

/* ---- writing --------------------------------------------------------------------------------- */

struct recorder {
    struct store *store;
    char *holder;
    uint64_t layout; /* of observations */
    uint32_t lost;   /* rounds, and 1: a zeroed stream is never up to date */
    unsigned char view[VIEW_BLOB_MAX], obs[OBS_BLOB_MAX], choice[CHOICE_BLOB_MAX],
        chain[CHAIN_BLOB_MAX];
    unsigned char *state; /* room for any keyframe */
    size_t state_cap;
    char why[WHY_MAX];
};

enum err_code recorder_new(struct store *s, const char *holder, struct recorder **out,
                           struct err *e)
{
    struct recorder *r = mem_zero(1, sizeof *r);
    r->store = s;
    r->holder = mem_strdup(holder);
    r->lost = 1;
    r->layout = observation_layout_hash();
    r->state_cap =
        sizeof(struct capacity_state) + 256; /* the packed form leaves out what is not used */
    r->state = try_zero(r->state_cap, 1);
    if (!r->state) {
        recorder_free(r);
        return err_set(e, ERR_NOMEM, "recorder");
    }
    *out = r;
    return ERR_OK;
}

void recorder_free(struct recorder *r)
{
    if (!r)
        return;
    mem_free(r->holder);
    mem_free(r->state);
    mem_free(r);
}

const char *record_why(const struct recorder *r)
{
    return r->why;
}

void record_lost(struct recorder *r)
{
    r->lost++;
}

uint64_t record_state_hash(const struct capacity_config *cfg, const struct capacity_state *s)
{
    struct hash h = hash_init(0);
    const struct {
        const struct policy_use *use;
        const void *memory;
    } part[] = {
        {&cfg->main, &s->memory}, {&cfg->base, &s->base_memory}, {&cfg->rule, &s->rule_memory}};
    hash_bytes(&h, s, offsetof(struct capacity_state, memory));
    for (size_t i = 0; i < ARRAY_LEN(part); i++)
        if (part[i].use->policy)
            hash_bytes(&h, part[i].memory, part[i].use->policy->memory_bytes);
    return hash_value(&h);
}

static void tell_why(const struct capacity_record *rec, char *out, size_t n)
{
    const struct guard_result *g = explain_decisive(rec);
    explain_factors_text(rec, NULL, out, n);
    size_t used = strlen(out);
    if (!g || used + 4 >= n)
        return;
    memcpy(out + used, ". ", 3);
    guard_explain(g, out + used + 2, n - used - 2);
}

static bool drew(const struct record_input *in)
{
    return in->rng_before && in->rng_after &&
           memcmp(in->rng_before, in->rng_after, sizeof *in->rng_before) != 0;
}

static struct store_blob blob_of(const struct wire *w)
{
    ASSERT(!w->bad);
    return (struct store_blob){.p = w->p, .n = w->at};
}

static void pack_blobs(struct recorder *r, const struct record_input *in, uint64_t state_hash,
                       struct store_decision *d)
{
    struct capacity_view view = *in->view;
    struct capacity_record rec = *in->record;
    struct choice choice = {.drew = drew(in), .state_hash = state_hash};
    if (choice.drew)
        choice.rng = *in->rng_before;
    struct wire v = wire_write(r->view, sizeof r->view), o = wire_write(r->obs, sizeof r->obs);
    struct wire c = wire_write(r->choice, sizeof r->choice),
                g = wire_write(r->chain, sizeof r->chain);
    wire_view(&v, &view);
    wire_obs(&o, &rec, r->layout);
    wire_choice(&c, &rec, &choice);
    wire_chain(&g, &rec);
    d->view = blob_of(&v);
    d->obs = blob_of(&o);
    d->choice = blob_of(&c);
    d->chain = blob_of(&g);
}

static void pack_keyframe(struct recorder *r, const struct record_input *in,
                          struct store_decision *d)
{
    size_t n = capacity_state_pack_size(in->cfg);
    ASSERT(n <= r->state_cap);
    capacity_state_pack(in->cfg, in->before, r->state);
    d->state = (struct store_blob){.p = r->state, .n = n};
}

static struct store_decision columns(struct recorder *r, const struct record_input *in)
{
    const struct capacity_record *rec = in->record;
    const struct guard_result *g = explain_decisive(rec);
    tell_why(rec, r->why, sizeof r->why);
    return (struct store_decision){
        .target_id = in->target_id,
        .config_id = in->config_id,
        .time_us = rec->now_us,
        .role = in->role,
        .holder = r->holder,
        .stage = in->stage,
        .policy = rec->policy,
        .inputs_hash = rec->inputs_hash,
        .units_before = rec->units_before,
        .units_ready = rec->units_ready,
        .proposed = rec->proposed,
        .executed = rec->executed,
        .verdict = guard_verdict_name(g ? (enum guard_verdict)g->verdict : GUARD_PASS),
        .decisive = g ? guard_check_name((enum guard_check)g->check) : NULL,
        .rule = rec->rule_units >= 0 ? rec->rule : NULL,
        .rule_units = rec->rule_units,
        .value = (double)rec->value,
        .reward_cost = in->reward_cost,
        .reward_slo = in->reward_slo,
        .reward_churn = in->reward_churn,
        .error = rec->error ? err_code_text((enum err_code)rec->error) : NULL,
        .why = r->why,
        .action = in->intent ? STORE_INTENDED : STORE_NONE,
        .action_us = in->intent ? rec->now_us : 0,
    };
}

static bool wants_keyframe(const struct recorder *r, const struct record_stream *st,
                           const struct record_input *in)
{
    return st->round != r->lost || st->config_id != in->config_id ||
           st->since_keyframe >= RECORD_KEYFRAME_EVERY ||
           st->state_hash != record_state_hash(in->cfg, in->before);
}

enum err_code record_put(struct recorder *r, struct record_stream *st,
                         const struct record_input *in, int64_t *id, struct err *e)
{
    bool keyframe = wants_keyframe(r, st, in), first = st->config_id == 0;
    uint64_t state_hash = record_state_hash(in->cfg, in->after);
    struct store_decision d = columns(r, in);
    pack_blobs(r, in, state_hash, &d);
    if (keyframe)
        pack_keyframe(r, in, &d);
    enum err_code rc = store_put_decision(r->store, &d, id, e);
    if (rc)
        return rc;
    int32_t since = keyframe ? 1 : st->since_keyframe + 1;
    if (first) /* targets that start together do not have all their keyframes together */
        since += (int32_t)(in->target_id % (RECORD_KEYFRAME_EVERY - 1));
    *st = (struct record_stream){.config_id = in->config_id,
                                 .state_hash = state_hash,
                                 .round = r->lost,
                                 .since_keyframe = since};
    return ERR_OK;
}

/* ---- reading --------------------------------------------------------------------------------- */

/* All of it, nothing more. */
static bool whole(const struct wire *w)
{
    return !w->bad && w->at == w->n;
}

/* Another version or layout is no damage. */
static enum err_code misread(const struct store_decision *d, const struct store_blob *b,
                             const char *what, struct err *e)
{
    const unsigned char *p = b->p;
    if (b->n == 0)
        return err_set(e, ERR_MISSING, "decision %lld: no %s kept", (long long)d->id, what);
    if (p[0] != RECORD_VERSION)
        return err_set(e, ERR_MISMATCH, "decision %lld: %s of version %u, this build reads %d",
                       (long long)d->id, what, p[0], RECORD_VERSION);
    return err_set(e, ERR_PARSE,
                   "decision %lld: the %s is damaged, or was made by a build with other layouts",
                   (long long)d->id, what);
}

enum err_code record_view(const struct store_decision *d, struct capacity_view *view, struct err *e)
{
    struct wire w = wire_read(d->view.p, d->view.n);
    memset(view, 0, sizeof *view);
    wire_view(&w, view);
    if (!whole(&w))
        return misread(d, &d->view, "view", e);
    if (!record_view_sane(view))
        return err_set(e, ERR_PARSE, "decision %lld: a value of the view is out of range",
                       (long long)d->id);
    return ERR_OK;
}

enum err_code record_choice(const struct store_decision *d, struct capacity_record *r,
                            struct choice *c, struct err *e)
{
    struct wire w = wire_read(d->choice.p, d->choice.n);
    *c = (struct choice){0};
    wire_choice(&w, r, c);
    return whole(&w) ? ERR_OK : misread(d, &d->choice, "choice", e);
}

static int16_t short_of(int32_t x)
{
    return (int16_t)(x < INT16_MIN ? INT16_MIN : x > INT16_MAX ? INT16_MAX : x);
}

/* The static name of a policy; records outlive builds. */
static const char *known_policy(const char *name)
{
    const struct policy *p = name ? policy_find(name) : NULL;
    return p ? p->name : NULL;
}

enum err_code record_read(const struct store_decision *d, struct capacity_record *r, struct err *e)
{
    struct choice c;
    memset(r, 0, sizeof *r);
    struct wire o = wire_read(d->obs.p, d->obs.n), g = wire_read(d->chain.p, d->chain.n);
    wire_obs(&o, r, observation_layout_hash());
    if (!whole(&o))
        return misread(d, &d->obs, "observation", e);
    wire_chain(&g, r);
    if (!whole(&g))
        return misread(d, &d->chain, "guard chain", e);
    r->now_us = d->time_us;
    r->inputs_hash = d->inputs_hash;
    r->policy = known_policy(d->policy);
    r->rule = known_policy(d->rule);
    r->units_before = short_of(d->units_before);
    r->units_ready = short_of(d->units_ready);
    r->proposed = short_of(d->proposed);
    r->executed = short_of(d->executed);
    r->rule_units = short_of(d->rule ? d->rule_units : -1);
    return record_choice(d, r, &c, e);
}

enum err_code record_rng(const struct store_decision *d, struct rng *rng, bool *drew_from,
                         struct err *e)
{
    struct capacity_record r = {0};
    struct choice c;
    enum err_code rc = record_choice(d, &r, &c, e);
    *drew_from = !rc && c.drew;
    if (*drew_from)
        *rng = c.rng;
    return rc;
}
