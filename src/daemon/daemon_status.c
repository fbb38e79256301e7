/* daemon_status.c - a target as people and the next leader are to see it. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/num.h"
#include "daemon/daemon_priv.h"
#include "daemon/safety.h"

static void fill_forecast(const struct forecast *f, struct status_forecast *out)
{
    memset(out, 0, sizeof *out);
    if (!isfinite(f->mean[0]))
        return;
    out->made_us = f->made_us;
    for (int i = 0; i < STATUS_POINTS; i++)
        out->points[i] = (double)f->mean[i];
    out->level = (double)f->mean[FORECAST_LEVELS - 1];
    out->high = isfinite(f->high) ? (double)f->high : 0;
    out->uncertainty = isfinite(f->uncertainty) ? (double)f->uncertainty : 1;
    out->usable = f->usable;
}

/* The newest decision that changed something, or wanted to. */
static void fill_decision(struct daemon *d, const struct live *l, const struct capacity_record *r,
                          struct status_decision *out)
{
    if (r->executed == r->units_before && r->proposed == r->units_before && *out->id)
        return;
    (void)snprintf(out->id, sizeof out->id, "%lld", (long long)l->decision_id);
    out->time_us = d->now_us;
    out->units = r->executed;
    out->previous = r->units_before;
    (void)snprintf(out->policy, sizeof out->policy, "%s", r->policy);
    (void)snprintf(out->reason, sizeof out->reason, "%s", l->why);
}

static void set(struct daemon *d, struct live *l, enum condition_type type, bool is, const char *yes, const char *no,
                const char *message)
{
    (void)condition_set(&l->status, type, is ? CONDITION_TRUE : CONDITION_FALSE, is ? yes : no, message, d->now_us);
}

static void fill_active(struct daemon *d, struct live *l)
{
    const char *hold = l->hold != LIVE_HOLD_NONE           ? live_hold_name(l->hold)
                       : freeze_on(d->freeze)              ? "Frozen"
                       : l->target.view.claims.paused      ? "Paused"
                                                           : NULL;
    const char *why = l->faults.n ? l->faults.text : l->policy_error.code ? l->policy_error.msg
                      : l->hold == LIVE_HOLD_NO_WORKLOAD ? l->scale.error.msg
                      : l->hold == LIVE_HOLD_OWNERS ? d->owners_unknown : "";
    set(d, l, CONDITION_ACTIVE, !hold, "Deciding", hold, why);
}

static void fill_conditions(struct daemon *d, struct live *l)
{
    const struct target *t = &l->target;
    const struct capacity_view *v = &t->view;
    char text[STATUS_TEXT];
    (void)snprintf(text, sizeof text, "%d of %d units are ready", l->status.ready, l->status.current);
    set(d, l, CONDITION_READY, l->status.ready >= l->status.current, "UnitsReady", "UnitsNotReady", text);
    fill_active(d, l);
    (void)snprintf(text, sizeof text, "%.240s%s%.240s", l->owner.owner, *l->owner.owner ? ": " : "", l->owner.advice);
    if (l->owner.kind == OWNER_NONE && *d->owners_unknown)
        (void)condition_set(&l->status, CONDITION_OWNED, CONDITION_UNKNOWN, "OwnersUnknown", d->owners_unknown, d->now_us);
    else
        set(d, l, CONDITION_OWNED, l->owner.kind != OWNER_NONE, "OwnedByOther", "NoOtherOwner", text);
    bool fresh = v->sample_us > 0 && d->now_us - v->sample_us <= d->config.c->guard.stale_us;
    set(d, l, CONDITION_INPUTS_FRESH, fresh, "Fresh", v->sample_us ? "Stale" : "Missing",
        fresh ? "" : "no complete measurement is recent enough: the size is held");
    bool healthy = t->main.ready && t->main.error.code == ERR_OK && t->main.record.error == 0;
    set(d, l, CONDITION_POLICY_HEALTHY, healthy, "Healthy", "CannotDecide",
        healthy ? "" : t->main.error.code ? t->main.error.msg : "the policy could not decide");
}

/* A person's word only: the configuration of each replica speaks for itself, and ends by itself. */
static void fill_freeze(struct daemon *d, struct status_freeze *out)
{
    struct freeze_info info;
    freeze_info(d->freeze, &info);
    memset(out, 0, sizeof *out);
    if (!info.person && !info.cluster)
        return;
    out->on = true;
    out->since_us = info.word.at_us;
    (void)snprintf(out->author, sizeof out->author, "%s", info.word.author);
    (void)snprintf(out->reason, sizeof out->reason, "%s", info.word.reason);
}

/* The newest action's outcome is the executor's; what became of its units is followed here. */
static void fill_outcome(const struct live *l, struct status_outcome *out)
{
    if (l->executor && strcmp(executor_status(l->executor)->outcome.id, out->id) != 0)
        *out = executor_status(l->executor)->outcome;
}

void daemon_fill_status(struct daemon *d, struct live *l)
{
    struct target_status *s = &l->status;
    const struct target_policy *p = target_acting(&l->target);
    const struct guard_options *g = &d->config.c->guard;
    s->observed_generation = l->generation;
    s->current = l->scale.known ? l->scale.replicas : -1;
    s->ready = l->counts.known ? l->counts.ready : -1;
    s->desired = l->target.decided ? p->plan.units : s->current;
    (void)snprintf(s->stage, sizeof s->stage, "%s", run_stage_names[d->config.c->stage]);
    fill_forecast(&l->target.forecast, &s->forecast);
    s->startup.n = startup_save(&l->startup, s->startup.seconds);
    fill_freeze(d, &s->freeze);
    daemon_fill_override(d, l);
    if (l->target.decided)
        fill_decision(d, l, &p->record, &s->decision);
    if (l->guarded) /* decided or not: another replica may have acted */
        safety_from_guard(&p->cfg, &p->state.guard, &s->safety);
    struct safety_claims claims = {.frozen = freeze_on(d->freeze),
                                   .overridden = l->target.view.claims.override_on,
                                   .held = l->hold != LIVE_HOLD_NONE || l->target.view.claims.paused,
                                   .wait_us = max_i64(g->cooldown_in_us, g->cooldown_out_us)};
    s->safety.state = safety_state_of(&s->safety, &claims, d->now_us);
    fill_conditions(d, l);
    fill_outcome(l, &s->outcome);
    if (p->ready && outcome_follow(&s->outcome, s->current, s->ready, d->now_us, p->cfg.start_budget_us) &&
        s->outcome.ready == STATUS_READY_LATE)
        daemon_tell_late(d, l);
}
