/* daemon_act.c - from this round's plans to the cluster: who may, intents, sizes, outcomes, and what a new leader finds.
 *
 * The protocol itself is execute/act.h.  Here: when an executor is given what, and what follows from how it ended.  A new
 * leader reads every target's status before its first order, takes over the guard's memory, and settles intents that
 * were left open; a status that shows a later action than it knows of is taken over at any time. */
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/hash.h"
#include "base/mem.h"
#include "base/num.h"
#include "daemon/daemon_priv.h"
#include "daemon/safety.h"
#include "execute/event_text.h"
#include "execute/reversal.h"

enum { PENDING_MAX = 64 };

/* ---- permission ------------------------------------------------------------------------------- */

static bool may_act(void *ctx, enum act_write what)
{
    const struct daemon *d = ctx;
    if (!daemon_leads(d))
        return false;
    if (d->lead && lead_held_until_us(d->lead) - daemon_mono_us(d) < d->act.deadline_us)
        return false; /* the answer could come after the lease */
    return what == ACT_WRITE_STATUS || !freeze_on(d->freeze);
}

static int64_t act_now(void *ctx)
{
    const struct daemon *d = ctx;
    return d->now_us;
}

/* The record was committed with the round; orders follow committed rounds only. */
static enum err_code act_commit(void *ctx, void *target, const struct status_intent *intent, struct err *e)
{
    const struct daemon *d = ctx;
    (void)target;
    return d->stored ? ERR_OK
                     : err_set(e, ERR_IO, "decision %s is not recorded: %.200s", intent->id, d->store_error.msg);
}

void daemon_act_init(struct daemon *d)
{
    d->act = (struct act_env){.kube = d->kube,
                              .holder = d->replica,
                              .deadline_us = d->config.c->kube.timeout_us,
                              .may_act = may_act,
                              .now_us = act_now,
                              .commit = act_commit,
                              .ctx = d};
}

bool daemon_may_order(const struct daemon *d, const struct live *l)
{
    const struct target *t = &l->target;
    const struct target_policy *p =
        t->challenger_acts && t->challenger.ready ? &t->challenger : &t->main;
    return t->decided && p->plan.changed && l->hold == LIVE_HOLD_NONE && l->executor && l->guarded &&
           !l->status_error.code && !executor_busy(l->executor) && !d->stopping && !freeze_on(d->freeze) &&
           daemon_leads(d);
}

void daemon_idle(const struct daemon *d, bool *busy)
{
    *busy = false;
    for (size_t i = 0; i < roster_count(d->roster) && !*busy; i++) {
        const struct live *l = roster_at(d->roster, i);
        *busy = l->executor && executor_busy(l->executor);
    }
}

/* ---- identities ------------------------------------------------------------------------------- */

/* Unique among replicas and over restarts; says whose store has the record. */
static void order_id(const struct daemon *d, int64_t decision_id, char out[STATUS_ID])
{
    (void)snprintf(out, STATUS_ID, "%08x-%lld", (unsigned)hash_of(d->replica, strcspn(d->replica, "_")),
                   (long long)decision_id);
}

/* The decision in our store that an order's id stands for; 0: another replica's. */
static int64_t decision_of(const struct daemon *d, const char *id)
{
    unsigned prefix;
    long long n;
    if (sscanf(id, "%8x-%lld", &prefix, &n) != 2 || prefix != (unsigned)hash_of(d->replica, strcspn(d->replica, "_")))
        return 0;
    return n;
}

/* ---- outcomes --------------------------------------------------------------------------------- */

static enum store_action action_of(enum outcome_result r)
{
    switch (r) {
    case OUTCOME_EXECUTED: return STORE_DONE;
    case OUTCOME_FOUND: return STORE_FOUND;
    case OUTCOME_FAILED: return STORE_FAILED;
    default: return STORE_ABANDONED;
    }
}

/* False when the store refused it: to be tried again. */
static bool keep_outcome(struct daemon *d, const char *id, enum outcome_result outcome, const char *text)
{
    struct err e;
    int64_t decision = decision_of(d, id);
    if (!decision || !store_set_action(d->store, decision, action_of(outcome), d->now_us, text, &e) ||
        e.code == ERR_MISSING)
        return true;
    log_write(d->log, LOG_WARN, "act", "outcome is not kept", "decision=%lld error=\"%s\"", (long long)decision, e.msg);
    return false;
}

void daemon_event(struct daemon *d, const struct live *l, bool warning, const char *reason, const char *action,
                  const char *note)
{
    const struct target_id *id = &l->target.id;
    bool ours = l->source == LIVE_SPEC;
    struct kube_event ev = {.api_version = ours ? "sluice.dev/v1alpha1" : id->api_version,
                            .kind = ours ? "CapacityTarget" : id->kind,
                            .ns = id->namespace_,
                            .name = l->name,
                            .uid = l->uid,
                            .warning = warning,
                            .reason = reason,
                            .action = action,
                            .note = note};
    kube_events_emit(d->events, &ev, daemon_wall_us(d));
}

static void event_of(struct daemon *d, const struct live *l, const struct act_result *r)
{
    struct event_text text;
    event_text_act(&text, r, l->ordered_why);
    daemon_event(d, l, text.warning, text.reason, "Scale", text.message);
}

/* Nothing was done, so nothing is to be waited for. */
static void put_back(struct live *l)
{
    guard_forget(&target_acting(&l->target)->state.guard, &l->guard_before);
}

static void ordered(struct daemon *d, struct live *l, const struct act_result *r)
{
    bool done = r->outcome == OUTCOME_EXECUTED || r->outcome == OUTCOME_FOUND;
    cluster_scale_dirty(&l->scale);
    log_write(d->log, done ? LOG_INFO : LOG_WARN, "act", r->pending ? "outcome open" : "ordered",
              "target=%s/%s from=%d to=%d outcome=%s found=%d text=\"%s\"", l->target.id.namespace_, l->name, r->from,
              r->to, r->pending ? "pending" : outcome_name(r->outcome), r->found, r->text);
    if (r->pending)
        return;
    l->settled = keep_outcome(d, r->id, r->outcome, r->text) && l->settled;
    metric_add(d->metrics, METRIC_DECISIONS, 1, METRIC_LABELS(done ? "scaled" : "failed"));
    if (done)
        l->units_changed = r->to - r->from;
    else if (!r->sent)
        put_back(l);
    event_of(d, l, r);
}

static void act_done_cb(void *ctx, void *target, const struct act_result *r)
{
    struct daemon *d = ctx;
    struct live *l = target;
    if (r->job == ACT_ORDER)
        ordered(d, l, r);
    else if (r->job == ACT_RECONCILE && !r->pending) {
        log_write(d->log, LOG_INFO, "act", "reconciled", "target=%s/%s id=%s from=%d to=%d outcome=%s found=%d",
                  l->target.id.namespace_, l->name, r->id, r->from, r->to, outcome_name(r->outcome), r->found);
        l->settled = keep_outcome(d, r->id, r->outcome, r->text) && l->settled;
        cluster_scale_dirty(&l->scale);
        event_of(d, l, r);
    }
    if (r->conflict)
        l->seen_status[0] = '\0'; /* look again */
    if (r->job == ACT_PUBLISH)
        daemon_override_written(d, l, r);
}

/* ---- what the cluster says -------------------------------------------------------------------- */

static void need_executor(struct daemon *d, struct live *l)
{
    struct buf path = buf_init(2048);
    struct err e;
    const struct target_id *id = &l->target.id;
    if (l->executor || l->source != LIVE_SPEC || !cluster_scale_path(d->cluster, id, &path)) {
        buf_fini(&path);
        return;
    }
    enum err_code rc = buf_check(&path, &e);
    if (!rc)
        rc = executor_new(&d->act, id->namespace_, l->name, path.p, l, act_done_cb, &l->executor, &e);
    if (rc)
        log_write(d->log, LOG_WARN, "act", "target cannot be scaled", "target=%s/%s error=\"%s\"", id->namespace_,
                  l->name, e.msg);
    buf_fini(&path);
}

struct pending {
    int64_t id[PENDING_MAX], time_us[PENDING_MAX];
    size_t n;
};

static bool add_pending(void *ctx, const struct store_decision *row, const struct store_target *t)
{
    struct pending *p = ctx;
    (void)t;
    p->time_us[p->n] = row->time_us;
    p->id[p->n++] = row->id;
    return p->n < PENDING_MAX;
}

/* Records of an earlier life or leadership that never learned how their action ended.  False while the intent of one
 * stands: whoever reconciles it tells. */
static bool settle_records(struct daemon *d, struct live *l, const struct target_status *s)
{
    struct pending p = {.n = 0};
    struct store_query q = {.namespace_ = l->target.id.namespace_, .name = l->target.id.name, .pending = true};
    struct err e;
    char id[STATUS_ID];
    bool all = true;
    if (store_decisions(d->store, &q, add_pending, &p, &e))
        log_write(d->log, LOG_WARN, "act", "open records cannot be read", "error=\"%s\"", e.msg);
    for (size_t i = 0; i < p.n; i++) {
        order_id(d, p.id[i], id);
        if (strcmp(s->intent.id, id) == 0)
            all = false;
        else if (strcmp(s->outcome.id, id) == 0)
            all = keep_outcome(d, id, s->outcome.result, s->outcome.message) && all;
        else if (s->outcome.time_us > p.time_us[i])
            all = keep_outcome(d, id, OUTCOME_ABANDONED, "how it ended is not known: another action followed before "
                                                         "this replica read the status again") && all;
        else
            all = keep_outcome(d, id, OUTCOME_ABANDONED, "the process ended before the intent was written") && all;
    }
    return all;
}

static void take_freeze(struct daemon *d, const struct status_freeze *f)
{
    struct freeze_word w = {.frozen = f->on, .source = FREEZE_CLUSTER, .at_us = f->since_us};
    if (!f->since_us)
        return;
    (void)snprintf(w.author, sizeof w.author, "%.120s", f->author);
    (void)snprintf(w.reason, sizeof w.reason, "%.250s", f->reason);
    (void)freeze_set_cluster(d->freeze, &w);
}

/* No wait of the guard lies further ahead. */
static int64_t longest_us(const struct guard_options *g)
{
    int64_t cool_us = (int64_t)(g->uncertain_factor * (double)max_i64(g->cooldown_in_us, g->cooldown_out_us));
    return max_i64(cool_us, max_i64(g->watch_us, 2 * g->breaker_us));
}

/* Into the memory of the policy that acts, once there is one; later only what is newer than it. */
static void take_safety(struct daemon *d, struct live *l, const struct safety_status *seen)
{
    struct target_policy *p = target_acting(&l->target);
    struct safety_status safety = *seen;
    int moved = safety_clamp(&safety, d->now_us, longest_us(&d->config.c->guard));
    if (!p->ready || (l->guarded && !safety_is_newer(&safety, &p->state.guard)))
        return;
    if (moved && !l->guarded)
        log_write(d->log, LOG_WARN, "act", "safety lay in the future", "target=%s/%s times=%d", l->target.id.namespace_,
                  l->name, moved);
    safety_to_guard(&p->cfg, &safety, d->now_us, &p->state.guard);
    l->status.safety = safety;
    l->guarded = true;
}

static void take_over(struct daemon *d, struct live *l, const struct target_status *s)
{
    if (!l->adopted) {
        l->status = *s;
        if (!l->startup.n)
            startup_restore(&l->startup, s->startup.seconds, s->startup.n);
        log_write(d->log, LOG_INFO, "act", "taken over", "target=%s/%s intent=\"%s\" safety=%s", l->target.id.namespace_,
                  l->name, s->intent.id, safety_state_name(s->safety.state));
    }
    l->adopted = true;
    take_safety(d, l, &s->safety);
    if (d->stored && !l->settled)
        l->settled = settle_records(d, l, s);
}

/* Is there nothing to be learned from its object? */
static bool known(const struct daemon *d, struct live *l, const struct kube_obj *o)
{
    return l->adopted && (l->settled || !d->stored) && (l->guarded || !target_acting(&l->target)->ready) &&
           strcmp(o->version, l->seen_status) == 0;
}

/* Whoever acted: the size is read again before anything is concluded from it. */
static void see_outcome(struct live *l)
{
    const char *id = executor_status(l->executor)->outcome.id;
    if (strcmp(id, l->seen_outcome) == 0)
        return;
    (void)snprintf(l->seen_outcome, sizeof l->seen_outcome, "%s", id);
    cluster_scale_dirty(&l->scale);
}

static void look(struct daemon *d, struct live *l)
{
    struct target_status s;
    struct json_doc *doc;
    need_executor(d, l);
    const struct kube_obj *o = cluster_find(d->cluster, CLUSTER_TARGETS, l->target.id.namespace_, l->name);
    if (!o || !l->executor || executor_busy(l->executor) || known(d, l, o))
        return;
    enum err_code rc = kube_raw_json(kube_as_raw(o), &doc, &l->status_error);
    if (rc)
        return;
    rc = target_status_parse(doc, json_find(json_root(doc), "status"), &s, &l->status_error);
    json_free(doc);
    (void)snprintf(l->seen_status, sizeof l->seen_status, "%s", o->version);
    if (rc) {
        log_write(d->log, LOG_ERROR, "act", "status cannot be used: the size is held", "target=%s/%s error=\"%s\"",
                  l->target.id.namespace_, l->name, l->status_error.msg);
        return;
    }
    l->status_error = (struct err){0};
    if (kube_as_raw(o)->generation != l->forgiven_generation) { /* somebody looked at it */
        if (l->forgiven_generation)
            reversal_forgive(&l->status.safety);
        l->forgiven_generation = kube_as_raw(o)->generation;
    }
    executor_seen(l->executor, o->version, &s);
    take_freeze(d, &s.freeze);
    see_outcome(l);
    take_over(d, l, executor_status(l->executor)); /* what the watch shows may be older than what the executor read */
}

/* What it leaves open somebody else ends: to be looked for in the statuses. */
static void end_epoch(struct daemon *d)
{
    for (size_t i = 0; i < roster_count(d->roster); i++)
        roster_at(d->roster, i)->settled = false;
}

static void begin_epoch(struct daemon *d)
{
    uint64_t epoch = d->lead ? lead_epoch(d->lead) : 0;
    bool leads = daemon_leads(d), same = d->leading && epoch == d->epoch;
    if (d->leading && !leads)
        end_epoch(d);
    d->leading = leads;
    d->epoch = epoch;
    if (!leads || same)
        return;
    daemon_keep_note(d, &(struct store_note){.kind = STORE_NOTE_LEAD, .author = d->replica});
    for (size_t i = 0; i < roster_count(d->roster); i++) {
        struct live *l = roster_at(d->roster, i);
        if (l->executor)
            executor_forget(l->executor);
        l->adopted = l->guarded = l->settled = false;
        l->seen_status[0] = '\0';
    }
}

void daemon_adopt(struct daemon *d)
{
    if (!daemon_acts_in(d))
        return;
    begin_epoch(d);
    for (size_t i = 0; i < roster_count(d->roster); i++) {
        struct live *l = roster_at(d->roster, i);
        if (l->source == LIVE_SPEC)
            look(d, l);
    }
}

/* ---- orders ----------------------------------------------------------------------------------- */

static void order(struct daemon *d, struct live *l)
{
    const struct target_policy *p = target_acting(&l->target);
    struct safety_status before = l->status.safety;
    struct act_order o = {.from = l->target.view.units_requested, .to = p->plan.units, .status = &l->status,
                          .safety_before = &before};
    char id[STATUS_ID];
    struct err e;
    order_id(d, l->decision_id, id);
    o.id = id;
    safety_from_guard(&p->cfg, &p->before.guard, &before);
    l->guard_before = p->before.guard;
    l->ordered_id = l->decision_id;
    (void)snprintf(l->ordered_why, sizeof l->ordered_why, "%s", l->why);
    if (!executor_order(l->executor, &o, &e))
        return;
    log_write(d->log, LOG_WARN, "act", "cannot be ordered", "target=%s/%s error=\"%s\"", l->target.id.namespace_, l->name,
              e.msg);
    l->settled = keep_outcome(d, id, OUTCOME_ABANDONED, e.msg) && l->settled;
    put_back(l);
}

/* Why nothing is done although the policy would: once per cause. */
static void tell_held(struct daemon *d, struct live *l)
{
    const struct capacity_record *r = &target_acting(&l->target)->record;
    struct event_text text;
    const struct guard_result *g = explain_decisive(r);
    int cause = r->proposed == r->executed || r->executed != r->units_before ? -1 : g ? g->check : GUARD_CHECKS;
    if (cause == l->told_cause)
        return;
    l->told_cause = cause;
    if (cause < 0)
        return;
    event_text_held(&text, r->units_before, r->proposed, l->why);
    daemon_event(d, l, text.warning, text.reason, "Hold", text.message);
}

static void tell_owned(struct daemon *d, struct live *l)
{
    struct event_text text;
    bool owned = l->owner.kind != OWNER_NONE;
    if (owned == l->told_owned)
        return;
    l->told_owned = owned;
    if (!owned)
        return;
    event_text_owned(&text, &l->owner);
    daemon_event(d, l, text.warning, text.reason, "Hold", text.message);
}

void daemon_tell_late(struct daemon *d, struct live *l)
{
    struct event_text text;
    const struct status_outcome *o = &l->status.outcome;
    event_text_late(&text, l->status.ready, o->to, d->now_us - o->time_us);
    daemon_event(d, l, text.warning, text.reason, "Scale", text.message);
}

/* A size read before somebody's last action would look like that action put back. */
static bool scale_is_current(const struct live *l)
{
    return l->scale.known && !l->scale.dirty && !l->scale.reading &&
           strcmp(executor_status(l->executor)->outcome.id, l->seen_outcome) == 0;
}

static bool to_be_ordered(const struct daemon *d, const struct live *l)
{
    return daemon_may_order(d, l) && l->adopted && l->decision_id && l->source == LIVE_SPEC;
}

static void act_on(struct daemon *d, struct live *l)
{
    struct err e;
    bool begun;
    tell_owned(d, l);
    if (l->target.decided)
        tell_held(d, l);
    if (!l->executor || !l->adopted || l->status_error.code || executor_busy(l->executor))
        return;
    if (scale_is_current(l) &&
        reversal_observe(&l->status.safety, &executor_status(l->executor)->outcome, l->scale.replicas, d->now_us,
                         REVERSAL_WINDOW_US))
        log_write(d->log, LOG_WARN, "act", "our size was put back by somebody", "target=%s/%s times=%d",
                  l->target.id.namespace_, l->name, l->status.safety.reversals);
    daemon_fill_status(d, l);
    enum err_code rc = ERR_OK;
    if (executor_pending(l->executor))
        rc = executor_reconcile(l->executor, &e);
    else if (to_be_ordered(d, l))
        order(d, l);
    else
        rc = executor_publish(l->executor, &l->status, false, &begun, &e);
    if (rc)
        log_write(d->log, LOG_WARN, "act", "status is not written", "target=%s/%s error=\"%s\"", l->target.id.namespace_,
                  l->name, e.msg);
}

void daemon_act(struct daemon *d)
{
    for (size_t i = 0; i < roster_count(d->roster); i++) {
        struct live *l = roster_at(d->roster, i);
        if (!to_be_ordered(d, l))
            target_forget(&l->target);
    }
    if (!daemon_leads(d) || d->stopping)
        return;
    for (size_t i = 0; i < roster_count(d->roster); i++) {
        struct live *l = roster_at(d->roster, i);
        if (l->source == LIVE_SPEC)
            act_on(d, l);
    }
}
