#include "daemon/replay.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/buf.h"
#include "base/hash.h"
#include "base/mem.h"
#include "base/signal.h"
#include "daemon/record_priv.h"

enum { CONFIGS = 16, WHY_MAX = 512, SIGNAL_EVERY = 256 };

const char *replay_fate_name(enum replay_fate f)
{
    static const char *const name[] = {
#define X(id, text, what) [REPLAY_##id] = text,
        REPLAY_FATE_LIST(X)
#undef X
    };
    return name[f];
}

const char *replay_fate_what(enum replay_fate f)
{
    static const char *const what[] = {
#define X(id, name, text) [REPLAY_##id] = text,
        REPLAY_FATE_LIST(X)
#undef X
    };
    return what[f];
}

/* A configuration made again, or why it could not be. */
struct config_slot {
    int64_t id; /* 0: free */
    struct record_rebuilt *made;
    struct err why;
};

struct replay {
    struct store *store;
    const struct store_query *q;
    const char *policy_file;
    replay_fn *fn;
    void *ctx;
    struct replay_counts *count;
    struct config_slot slot[CONFIGS]; /* targets mostly share theirs */
    int next_slot;
    /* The stream at hand: one target in one role. */
    struct capacity_state state;
    int64_t config_id;    /* that `state` belongs to; 0: there is none */
    char broken[WHY_MAX]; /* why there is none; "": no keyframe came yet */
    enum replay_fate broken_fate;
    uint32_t seen;
    bool stop;
    enum err_code rc; /* of a callback */
    struct err *e;
};

/* ---- configurations -------------------------------------------------------------------------- */

struct rebuilding {
    const char *policy_file;
    struct config_slot *slot;
};

static bool on_config(void *ctx, const struct store_config *c)
{
    struct rebuilding *b = ctx;
    if (record_rebuild(c->text, b->policy_file, &b->slot->made, &b->slot->why))
        b->slot->made = NULL;
    return true;
}

static const struct config_slot *config_of(struct replay *r, int64_t id)
{
    for (int i = 0; i < CONFIGS; i++)
        if (r->slot[i].id == id)
            return &r->slot[i];
    struct config_slot *slot = &r->slot[r->next_slot];
    r->next_slot = (r->next_slot + 1) % CONFIGS;
    record_rebuilt_free(slot->made);
    *slot = (struct config_slot){.id = id};
    struct rebuilding b = {r->policy_file, slot};
    struct err e;
    if (store_config_get(r->store, id, on_config, &b, &e))
        slot->why = e;
    return slot;
}

/* ---- comparing ------------------------------------------------------------------------------- */

static void put(struct buf *why, const char *what, double then, double now)
{
    if (why->n > WHY_MAX)
        return;
    buf_fmt(why, "%s%s %.9g, made again %.9g", why->n ? "; " : "", what, then, now);
}

static bool same_bits(float a, float b)
{
    return memcmp(&a, &b, sizeof a) == 0;
}

static void compare_sizes(const struct capacity_record *a, const struct capacity_record *b,
                          struct buf *why)
{
    const struct {
        const char *what;
        int then, now;
    } all[] = {
        {"proposed", a->proposed, b->proposed},
        {"executed", a->executed, b->executed},
        {"rule's size", a->rule_units, b->rule_units},
        {"base's size", a->base_units, b->base_units},
        {"action", a->action, b->action},
        {"error", a->error, b->error},
        {"units before", a->units_before, b->units_before},
        {"checks", a->n_checks, b->n_checks},
    };
    for (size_t i = 0; i < ARRAY_LEN(all); i++)
        if (all[i].then != all[i].now)
            put(why, all[i].what, all[i].then, all[i].now);
    if (a->inputs_hash != b->inputs_hash && why->n <= WHY_MAX)
        buf_fmt(why, "%sinputs hash", why->n ? "; " : "");
    if (a->policy_version != b->policy_version && why->n <= WHY_MAX)
        buf_fmt(why, "%sversion of policy and options", why->n ? "; " : "");
}

static void compare_numbers(const struct capacity_record *a, const struct capacity_record *b,
                            struct buf *why)
{
    char what[64];
    if (!same_bits(a->value, b->value))
        put(why, "value", (double)a->value, (double)b->value);
    for (int i = 0; i < CAPACITY_ACTIONS; i++) {
        (void)snprintf(what, sizeof what, "probability of action %d", i - CAPACITY_ACTION_HOLD);
        if (!same_bits(a->prob[i], b->prob[i]))
            put(why, what, (double)a->prob[i], (double)b->prob[i]);
        (void)snprintf(what, sizeof what, "size of action %d", i - CAPACITY_ACTION_HOLD);
        if (a->mask[i] != b->mask[i] || a->candidate[i] != b->candidate[i])
            put(why, what, a->candidate[i], b->candidate[i]);
    }
    for (int i = 0; i < CAPACITY_OBS; i++) {
        (void)snprintf(what, sizeof what, "observation %s",
                       observation_get((enum observation)i)->name);
        if (!same_bits(a->obs[i], b->obs[i]))
            put(why, what, (double)a->obs[i], (double)b->obs[i]);
    }
}

static void compare_chain(const struct capacity_record *a, const struct capacity_record *b,
                          struct buf *why)
{
    int n = a->n_checks < b->n_checks ? a->n_checks : b->n_checks;
    for (int i = 0; i < n; i++) {
        const struct guard_result *x = &a->chain[i], *y = &b->chain[i];
        if (x->check == y->check && x->verdict == y->verdict && x->reason == y->reason &&
            x->lo == y->lo && x->hi == y->hi && memcmp(x->num, y->num, sizeof x->num) == 0)
            continue;
        if (why->n <= WHY_MAX)
            buf_fmt(why, "%sguard %s: %s [%d..%d], made again %s [%d..%d]", why->n ? "; " : "",
                    guard_check_name((enum guard_check)x->check),
                    guard_verdict_name((enum guard_verdict)x->verdict), x->lo, x->hi,
                    guard_verdict_name((enum guard_verdict)y->verdict), y->lo, y->hi);
    }
}

/* The record read against the record made again.  Words where something differs, "" where nothing
 * does. Both are also packed again and compared as bytes, so that no value is forgotten here. */
static void compare(const struct store_decision *d, const struct capacity_record *then,
                    struct capacity_record *now, struct choice *choice, struct buf *why)
{
    unsigned char obs[OBS_BLOB_MAX], packed[CHOICE_BLOB_MAX], chain[CHAIN_BLOB_MAX];
    struct wire o = wire_write(obs, sizeof obs), c = wire_write(packed, sizeof packed),
                g = wire_write(chain, sizeof chain);
    compare_sizes(then, now, why);
    compare_numbers(then, now, why);
    compare_chain(then, now, why);
    wire_obs(&o, now, observation_layout_hash());
    wire_choice(&c, now, choice);
    wire_chain(&g, now);
    bool same = o.at == d->obs.n && c.at == d->choice.n && g.at == d->chain.n &&
                memcmp(obs, d->obs.p, o.at) == 0 && memcmp(packed, d->choice.p, c.at) == 0 &&
                memcmp(chain, d->chain.p, g.at) == 0;
    if (!same && why->n == 0)
        buf_str(why, "a value that has no name here");
}

/* ---- one decision ---------------------------------------------------------------------------- */

static bool asked_for(const struct store_query *q, const struct store_decision *d)
{
    return (!q->since_us || d->time_us >= q->since_us) &&
           (!q->until_us || d->time_us < q->until_us) && (!q->first_id || d->id >= q->first_id) &&
           (!q->last_id || d->id <= q->last_id);
}

static void tell(struct replay *r, const struct store_decision *d, const struct store_target *t,
                 enum replay_fate fate, const char *why)
{
    if (!asked_for(r->q, d))
        return;
    r->count->n[fate]++;
    r->count->total++;
    struct replay_finding f = {.decision = d, .target = t, .fate = fate, .why = why};
    if (fate != REPLAY_SAME && r->fn && !r->fn(r->ctx, &f))
        r->stop = true;
}

static void lose(struct replay *r, enum replay_fate fate, const char *why)
{
    r->config_id = 0;
    r->broken_fate = fate;
    (void)snprintf(r->broken, sizeof r->broken, "%s", why);
}

/* A keyframe: the stream begins here, whatever was before. */
static void start_from(struct replay *r, const struct store_decision *d)
{
    struct err e;
    const struct config_slot *c = config_of(r, d->config_id);
    if (!c->made) {
        lose(r, REPLAY_NO_CONFIG, c->why.msg);
        return;
    }
    if (capacity_state_unpack(record_rebuilt_config(c->made), d->state.p, d->state.n, &r->state,
                              &e)) {
        lose(r, REPLAY_UNREADABLE, e.msg);
        return;
    }
    r->config_id = d->config_id;
    r->broken[0] = '\0';
    r->count->keyframes++;
}

static void make_again(struct replay *r, const struct store_decision *d,
                       const struct store_target *t)
{
    struct capacity_view view;
    struct capacity_record then, now;
    struct choice choice;
    struct capacity_plan plan;
    struct err e;
    const struct config_slot *c = config_of(r, d->config_id);
    if (!c->made || record_view(d, &view, &e) || record_read(d, &then, &e) ||
        record_choice(d, &then, &choice, &e)) {
        lose(r, REPLAY_UNREADABLE, c->made ? e.msg : c->why.msg);
        tell(r, d, t, REPLAY_UNREADABLE, r->broken);
        return;
    }
    const struct capacity_config *cfg = record_rebuilt_config(c->made);
    struct rng rng = choice.drew ? choice.rng : rng_stream(0, "replay");
    memset(&now, 0, sizeof now);
    decide_capacity(cfg, &view, &r->state, &rng, &r->state, &plan, &now);
    struct buf why = buf_init(1 << 14);
    uint64_t memory_then = choice.state_hash;
    choice.state_hash = record_state_hash(cfg, &r->state);
    if (choice.state_hash != memory_then)
        buf_str(&why, "the memory afterwards");
    compare(d, &then, &now, &choice, &why);
    const char *by;
    bool same = why.n == 0, ours = record_rebuilt_fit(c->made, &by) == RECORD_SAME_BUILD;
    if (!ours)
        buf_fmt(&why, "%s%s", same ? "" : "; by ", by);
    tell(r, d, t,
         same   ? ours ? REPLAY_SAME : REPLAY_OTHER_BUILD_SAME
         : ours ? REPLAY_DIFFERENT
                : REPLAY_OTHER_BUILD_DIFFERENT,
         why.p);
    buf_fini(&why);
}

static bool on_decision(void *ctx, const struct store_decision *d, const struct store_target *t)
{
    struct replay *r = ctx;
    if (r->seen++ % SIGNAL_EVERY == 0 && (r->rc = signal_check(r->e)))
        return false;
    if (d->state.n)
        start_from(r, d);
    if (r->config_id && r->config_id != d->config_id)
        lose(r, REPLAY_NO_KEYFRAME, "the configuration changed and no keyframe was kept");
    if (r->config_id)
        make_again(r, d, t);
    else
        tell(r, d, t, r->broken_fate, r->broken);
    return !r->stop;
}

/* ---- streams --------------------------------------------------------------------------------- */

struct first {
    int64_t id;
};

static bool on_first(void *ctx, const struct store_decision *d, const struct store_target *t)
{
    (void)t;
    ((struct first *)ctx)->id = d->id;
    return false;
}

static enum err_code run_stream(struct replay *r, int64_t target_id, enum store_role role)
{
    struct store_query q = *r->q;
    struct first first = {0}, last = {0};
    int64_t keyframe;
    q.target_id = target_id;
    q.role = 1 + (int)role;
    q.limit = 1;
    q.blobs = q.newest_first = false;
    enum err_code rc = store_decisions(r->store, &q, on_first, &first, r->e);
    q.newest_first = true;
    if (!rc)
        rc = store_decisions(r->store, &q, on_first, &last, r->e);
    if (rc || !first.id)
        return rc;
    if ((rc = store_keyframe_before(r->store, first.id, &keyframe, r->e)))
        return rc;
    struct store_query all = {.target_id = target_id,
                              .role = 1 + (int)role,
                              .first_id = keyframe ? keyframe : first.id,
                              .last_id = last.id,
                              .blobs = true};
    lose(r, REPLAY_NO_KEYFRAME, "no keyframe at or before it is kept");
    rc = store_decisions(r->store, &all, on_decision, r, r->e);
    return rc ? rc : r->rc;
}

struct wanted {
    const struct store_query *q;
    int64_t *id;
    size_t n, cap;
};

static bool on_target(void *ctx, const struct store_target *t)
{
    struct wanted *w = ctx;
    const struct store_query *q = w->q;
    if ((q->target_id && q->target_id != t->id) || (q->name && strcmp(q->name, t->name) != 0) ||
        (q->namespace_ && strcmp(q->namespace_, t->namespace_) != 0))
        return true;
    if (w->n == w->cap) {
        w->cap = w->cap ? 2 * w->cap : 64;
        w->id = mem_grow(w->id, w->cap, sizeof *w->id);
    }
    w->id[w->n++] = t->id;
    return true;
}

enum err_code replay_run(struct store *s, const struct store_query *q, const char *policy_file,
                         replay_fn *fn, void *ctx, struct replay_counts *out, struct err *e)
{
    struct wanted w = {.q = q};
    struct replay *r = mem_zero(1, sizeof *r);
    *out = (struct replay_counts){0};
    *r = (struct replay){
        .store = s, .q = q, .policy_file = policy_file, .fn = fn, .ctx = ctx, .count = out, .e = e};
    enum err_code rc = store_targets(s, on_target, &w, e);
    for (size_t i = 0; i < w.n && !rc && !r->stop; i++)
        for (int role = 0; role < STORE_ROLES && !rc && !r->stop; role++)
            if (!q->role || q->role == 1 + role)
                rc = run_stream(r, w.id[i], (enum store_role)role);
    for (int i = 0; i < CONFIGS; i++)
        record_rebuilt_free(r->slot[i].made);
    mem_free(w.id);
    mem_free(r);
    return rc;
}

bool replay_passed(const struct replay_counts *c)
{
    return c->n[REPLAY_SAME] + c->n[REPLAY_NO_KEYFRAME] == c->total && c->n[REPLAY_SAME] > 0;
}
