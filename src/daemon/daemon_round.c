/* daemon_round.c - one round: pods and samples to inputs, inputs to decisions, decisions to records and actions. */
#include <math.h>
#include <string.h>

#include "base/clock.h"
#include "base/num.h"
#include "daemon/daemon_priv.h"

enum {
    ABNORMAL_UNITS = 6,          /* fewer units cannot tell a bad cluster from a bad day of one service */
    CLUSTER_OLD_US = 300000000, /* five bookmarks, and three times the longest silence of a watch */
};

/* ---- inputs ----------------------------------------------------------------------------------- */

static void refresh_index(struct daemon *d)
{
    struct daemon_scratch *x = &d->scratch;
    if (x->index && x->generation == roster_generation(d->roster))
        return;
    x->n = roster_count(d->roster);
    for (size_t i = 0; i < x->n; i++) {
        struct live *l = roster_at(d->roster, i);
        x->count[i] = (struct cluster_count){.id = &l->target.id, .scale = &l->scale, .startup = &l->startup,
                                              .skip = !l->measured};
    }
    cluster_index_free(x->index);
    x->index = cluster_index_new(x->count, x->n);
    x->generation = roster_generation(d->roster);
}

/* Units that were serving minutes ago and are gone, over all targets: nodes or a network, not one service. */
static bool units_are_gone(struct daemon *d)
{
    const struct daemon_scratch *x = &d->scratch;
    int64_t ready = 0, requested = 0;
    for (size_t i = 0; i < x->n; i++) {
        ready += x->count[i].out.ready;
        requested += x->count[i].out.requested;
    }
    d->ready_peak = max_i64(ready, d->ready_peak - d->ready_peak / 40); /* forgets half in some 7 minutes */
    bool gone = x->n >= 3 && d->ready_peak >= ABNORMAL_UNITS && 2 * ready < d->ready_peak && 2 * ready < requested;
    if (gone && !d->abnormal)
        log_write(d->log, LOG_ERROR, "round", "units are gone", "ready=%lld lately=%lld requested=%lld",
                  (long long)ready, (long long)d->ready_peak, (long long)requested);
    return gone;
}

/* Pods that can no longer be listed look as healthy as they last did. */
static void look_for_abnormal(struct daemon *d)
{
    int64_t age_us = cluster_age_us(d->cluster);
    bool abnormal = units_are_gone(d) || age_us > CLUSTER_OLD_US;
    if (abnormal != d->abnormal)
        log_write(d->log, abnormal ? LOG_ERROR : LOG_INFO, "round",
                  abnormal ? "cluster is abnormal: nothing is scaled" : "cluster is normal again", "heard_s=%.0f",
                  (double)age_us * 1e-6);
    d->abnormal = abnormal;
}

static void look_for_owners(struct daemon *d)
{
    char why[sizeof d->owners_unknown];
    bool known = cluster_owners_known(d->cluster, why, sizeof why);
    if (known != !*d->owners_unknown)
        log_write(d->log, known ? LOG_INFO : LOG_ERROR, "round",
                  known ? "other owners are known" : "other owners cannot be seen: nothing is scaled", "why=\"%s\"", why);
    memcpy(d->owners_unknown, why, sizeof why);
}

static void fill_sample(const struct daemon *d, const struct live *l, const struct target_counts *n,
                        struct target_sample *out)
{
    struct collect_sample s;
    for (int f = 0; f < FIELD_COUNT; f++)
        out->value[f] = NAN;
    out->qps_last = NAN;
    out->sample_us = 0;
    if (collect_view(d->sources.collect, l->slot, d->now_us, &s)) {
        memcpy(out->value, s.value, sizeof out->value);
        out->qps_last = s.qps_last;
        out->sample_us = s.sample_us;
    }
    out->value[FIELD_UNITS_READY] = (float)n->ready; /* the API server knows best */
    out->value[FIELD_UNITS_TOTAL] = (float)n->requested;
}

/* Does the stage cover the target?  The first cause that holds is shown. */
static enum live_hold hold_of(const struct daemon *d, const struct live *l)
{
    const struct run_config *c = d->config.c;
    if (l->hold == LIVE_HOLD_INVALID || l->hold == LIVE_HOLD_LEARNING)
        return l->hold;
    if (!l->scale.known)
        return LIVE_HOLD_NO_WORKLOAD;
    if (c->stage == STAGE_OBSERVE || l->source != LIVE_SPEC)
        return LIVE_HOLD_OBSERVED;
    if (c->stage == STAGE_SINGLE && l->profile.cls > CLASS_P1)
        return LIVE_HOLD_OBSERVED;
    if (!l->profile.managed && (c->stage != STAGE_GLOBAL || l->profile.source[PROFILE_F_MANAGED] != PROFILE_UNSET))
        return LIVE_HOLD_UNMANAGED;
    if (l->owner.kind != OWNER_NONE)
        return LIVE_HOLD_OWNED;
    if (*d->owners_unknown)
        return LIVE_HOLD_OWNERS;
    if (!l->executor)
        return LIVE_HOLD_NO_WORKLOAD; /* its kind cannot be looked up, or has no size */
    return executor_pending(l->executor) ? LIVE_HOLD_PENDING : LIVE_HOLD_NONE;
}

static struct capacity_claims claims_of(const struct daemon *d, const struct live *l)
{
    const struct profile *p = &l->profile;
    struct status_override o = daemon_override_of(d, l);
    bool fixed = o.units >= 0;
    return (struct capacity_claims){
        .frozen = freeze_on(d->freeze),
        .paused = p->paused,
        .unmanaged = l->hold == LIVE_HOLD_UNMANAGED,
        .owned_by_other = l->owner.kind != OWNER_NONE,
        .cluster_abnormal = d->abnormal,
        .override_on = fixed,
        .override_units = fixed ? o.units : 0,
        .override_until_us = fixed ? o.until_us : 0,
    };
}

static bool challenger_turn(const struct daemon *d)
{
    int64_t period_us = d->config.c->challenger_switch_us;
    return period_us > 0 && d->now_us / period_us % 2 == 1;
}

void daemon_fill_inputs(struct daemon *d)
{
    struct daemon_scratch *x = &d->scratch;
    refresh_index(d);
    cluster_count(d->cluster, x->index, x->count, x->n, d->now_us);
    look_for_abnormal(d);
    look_for_owners(d);
    for (size_t i = 0; i < x->n; i++) {
        struct live *l = roster_at(d->roster, i);
        struct round_input *in = &x->in[i];
        if (l->hold != LIVE_HOLD_INVALID && l->hold != LIVE_HOLD_LEARNING)
            l->hold = LIVE_HOLD_NONE;
        l->hold = hold_of(d, l);
        l->counts = x->count[i].out;
        target_turn(&l->target, challenger_turn(d));
        *in = (struct round_input){.target = &l->target,
                                   .counts = x->count[i].out,
                                   .claims = claims_of(d, l),
                                   .weight_latency = 1,
                                   .weight_cost = 1,
                                   .only_watched = d->config.c->stage != STAGE_OBSERVE &&
                                                   l->hold != LIVE_HOLD_NONE && l->hold != LIVE_HOLD_PENDING};
        if (l->profile.source[PROFILE_F_WEIGHT_LATENCY] != PROFILE_UNSET)
            in->weight_latency = l->profile.weight_latency;
        if (l->profile.source[PROFILE_F_WEIGHT_COST] != PROFILE_UNSET)
            in->weight_cost = l->profile.weight_cost;
        if (l->hold == LIVE_HOLD_INVALID || l->hold == LIVE_HOLD_LEARNING)
            in->counts.known = false; /* nothing is decided for it */
        fill_sample(d, l, &x->count[i].out, &in->sample);
    }
}

/* ---- the round -------------------------------------------------------------------------------- */

void daemon_round(struct daemon *d)
{
    struct daemon_scratch *x = &d->scratch;
    char why[256];
    if (!cluster_synced(d->cluster, why, sizeof why))
        return;
    int64_t from_us = clock_mono_us(); /* real, whatever the decision clock is */
    daemon_fill_inputs(d);
    size_t n = round_run(x->in, x->n, &d->calendar, d->now_us, d->config.c->gpu_budget);
    daemon_store_round(d, x->in, x->n);
    if (!d->stored)
        for (size_t i = 0; i < x->n; i++)
            target_undo(x->in[i].target);
    d->round_s = (double)(clock_mono_us() - from_us) * 1e-6;
    daemon_act(d);
    daemon_show(d, d->round_s);
    if (!daemon_acts_in(d) || daemon_leads(d)) {
        struct calendar_point now = calendar_at(&d->calendar, d->now_us);
        morning_tick(d->morning, now.day, now.minute, d->now_us);
    }
    log_write(d->log, LOG_DEBUG, "round", "decided", "targets=%zu decided=%zu ms=%.2f", x->n, n, d->round_s * 1e3);
}
