#include "daemon/daemon.h"

#include <stdio.h>
#include <string.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/mem.h"
#include "base/num.h"
#include "base/signal.h"
#include "daemon/daemon_priv.h"

enum {
    WAIT_US = 200000,          /* longest wait of a turn */
    COLLECT_WAIT_US = 1000000, /* a due decision waits for its collection at most this long */
    STOP_US = 10000000,        /* for what was begun, when asked to stop */
    JUMP_US = 60000000,        /* of the clock: worth a line */
};

/* ---- time ------------------------------------------------------------------------------------- */

static void take_time(struct daemon *d)
{
    int64_t jump_us;
    d->mono_us = daemon_mono_us(d);
    d->now_us = pace_now_us(&d->pace, daemon_wall_us(d), d->mono_us, &jump_us);
    shared_beat(d->shared, d->mono_us);
    if (jump_us > -JUMP_US && jump_us < JUMP_US)
        return;
    log_write(d->log, LOG_WARN, "run", "clock jumped", "by_s=%.3f", (double)jump_us * 1e-6);
    d->jumped_us = d->now_us;
    d->next_decide_us = d->sources.next_us = 0;
}

/* The first multiple of `step` after now. */
static int64_t next_multiple(int64_t now_us, int64_t step_us)
{
    return now_us - now_us % step_us + step_us;
}

static int64_t wait_of(const struct daemon *d, int64_t most_us)
{
    int64_t next_us = d->next_decide_us < d->sources.next_us ? d->next_decide_us : d->sources.next_us;
    int64_t left_us = pace_real_span(&d->pace, next_us - d->now_us);
    if (d->wait_until_us)
        left_us = 5000; /* a decision is due: look often */
    left_us = left_us < most_us ? left_us : most_us;
    return max_i64(0, left_us);
}

/* ---- turns ------------------------------------------------------------------------------------ */

static void take_past(struct daemon *d)
{
    struct past_answer a;
    while (d->past && past_take(d->past, &a)) {
        struct live *l = roster_slot(d->roster, a.asked.slot);
        if (l && strcmp(l->uid, a.asked.uid) == 0)
            daemon_learn(d, l, &a);
        past_answer_fini(&a);
    }
}

static void ask_past(struct daemon *d, struct live *l)
{
    struct past_question q = {.slot = l->slot, .slo_ms = l->slo_ms, .until_us = daemon_wall_us(d)};
    if (l->asked_history)
        return;
    l->asked_history = true;
    if (!d->past) {
        struct profile nothing;
        profile_init(&nothing);
        roster_set_history(d->roster, l, &nothing); /* nothing will be learned: what is stated must do */
        return;
    }
    memcpy(q.uid, l->uid, sizeof q.uid);
    memcpy(q.namespace_, l->target.id.namespace_, sizeof q.namespace_);
    memcpy(q.name, l->target.id.name, sizeof q.name);
    memcpy(q.kind, l->target.id.kind, sizeof q.kind);
    for (int f = 0; f < FIELD_COUNT; f++)
        q.own[f] = l->profile.query[f];
    l->asked_history = past_ask(d->past, &q);
}

/* The target's own queries in place of the configured ones, whenever its profile was merged anew. */
static void set_queries(struct daemon *d, struct live *l)
{
    struct err e;
    if (l->queried_of == l->merged_of)
        return;
    l->queried_of = l->merged_of;
    for (int f = 0; f < FIELD_COUNT; f++) {
        if (!collect_query(d->sources.collect, l->slot, (enum field)f, l->profile.query[f], &e) ||
            !l->profile.query[f])
            continue;
        profile_fault(&l->faults, "query of %s: %s", field_get((enum field)f)->name, e.msg);
        l->hold = LIVE_HOLD_INVALID;
    }
}

static void set_measured(struct daemon *d, struct live *l, bool on)
{
    struct collect_target t = {0};
    struct err e;
    (void)snprintf(t.namespace, sizeof t.namespace, "%s", l->target.id.namespace_);
    (void)snprintf(t.name, sizeof t.name, "%s", l->target.id.name);
    (void)snprintf(t.kind, sizeof t.kind, "%s", l->target.id.kind);
    if (collect_set(d->sources.collect, l->slot, on ? &t : NULL, &e))
        log_write(d->log, LOG_WARN, "collect", "target cannot be measured", "target=%s/%s error=\"%s\"", t.namespace,
                  t.name, e.msg);
    l->measured = on;
    l->queried_of = 0;
    d->scratch.generation = UINT64_MAX; /* pods are counted for others now */
}

/* Samples and pods of a workload go to the target that sizes it; a second CapacityTarget on the same workload is refused, and
 * must not take them away.  First those that lose them. */
static void measure(struct daemon *d)
{
    for (int pass = 0; pass < 2; pass++)
        for (size_t i = 0; i < roster_count(d->roster); i++) {
            struct live *l = roster_at(d->roster, i);
            bool on = l->owner.kind != OWNER_CAPACITY_TARGET;
            if (on != l->measured && on == (pass == 1))
                set_measured(d, l, on);
        }
}

/* What is waited for, once per cause. */
static bool synced(struct daemon *d)
{
    char why[256] = "";
    bool ok = cluster_synced(d->cluster, why, sizeof why);
    shared_set_unready(d->shared, ok ? NULL : why);
    if (strcmp(why, d->waits_for) != 0 && (ok || strchr(why, ':'))) /* with a cause: a request that failed */
        log_write(d->log, ok ? LOG_INFO : LOG_ERROR, "cluster", ok ? "cluster is listed" : "cluster cannot be listed",
                  "why=\"%s\"", why);
    if (ok || strchr(why, ':'))
        memcpy(d->waits_for, why, sizeof d->waits_for);
    return ok;
}

static void note_freeze(struct daemon *d)
{
    uint64_t changes = freeze_changes(d->freeze);
    struct freeze_info info;
    if (changes == d->freeze_seen)
        return;
    bool first = d->freeze_seen == UINT64_MAX;
    d->freeze_seen = changes;
    freeze_info(d->freeze, &info);
    if (first && !info.frozen)
        return;
    daemon_keep_note(d, &(struct store_note){.kind = info.frozen ? STORE_NOTE_FREEZE : STORE_NOTE_UNFREEZE,
                                             .author = *info.word.author ? info.word.author
                                                       : info.config     ? "configuration"
                                                                         : "unknown",
                                             .text = info.word.reason});
}

static void follow(struct daemon *d)
{
    cluster_tick(d->cluster, d->mono_us);
    if (!synced(d))
        return;
    (void)roster_sync(d->roster, d->now_us);
    measure(d);
    for (size_t i = 0; i < roster_count(d->roster); i++) {
        struct live *l = roster_at(d->roster, i);
        cluster_scale_follow(d->cluster, &l->target.id, &l->scale, d->mono_us);
        set_queries(d, l);
        ask_past(d, l);
    }
    daemon_adopt(d);
}

static void collect(struct daemon *d)
{
    if (d->now_us >= d->sources.next_us) {
        collect_start_round(d->sources.collect, d->now_us);
        d->sources.next_us = next_multiple(d->now_us, d->config.c->prometheus.collect_us);
    }
    (void)collect_tick(d->sources.collect);
}

/* Once per period; the collection that was begun with it is waited for a moment. */
static void decide(struct daemon *d)
{
    if (!d->wait_until_us) {
        if (d->now_us < d->next_decide_us)
            return;
        d->wait_until_us = d->mono_us + COLLECT_WAIT_US;
    }
    if (collect_running(d->sources.collect) && d->mono_us < d->wait_until_us)
        return;
    d->wait_until_us = 0;
    d->next_decide_us = next_multiple(d->now_us, d->config.c->step_us);
    daemon_round(d);
}

static void look_for_hup(struct daemon *d)
{
    struct signalfd_siginfo info;
    while (read(d->hup, &info, sizeof info) == (ssize_t)sizeof info)
        d->reload = true;
}

static void show_leader(struct daemon *d)
{
    char holder[256];
    if (d->lead)
        lead_holder(d->lead, holder);
    else
        (void)snprintf(holder, sizeof holder, "%s", daemon_leads(d) ? d->replica : "");
    shared_set_leader(d->shared, daemon_leads(d), *holder ? holder : NULL);
}

void daemon_turn(struct daemon *d, int64_t wait_us)
{
    take_time(d);
    (void)kube_poll(d->kube, wait_of(d, wait_us));
    if (d->sources.prom)
        (void)prom_tick(d->sources.prom);
    take_time(d);
    look_for_hup(d);
    daemon_look_for_config(d);
    show_leader(d);
    note_freeze(d);
    follow(d);
    take_past(d);
    daemon_commands(d);
    daemon_trust(d);
    collect(d);
    decide(d);
}

double daemon_round_s(const struct daemon *d)
{
    return d->round_s;
}

struct shared *daemon_shared(const struct daemon *d)
{
    return d->shared;
}

bool daemon_quiet(const struct daemon *d)
{
    bool busy;
    daemon_idle(d, &busy);
    for (size_t i = 0; i < roster_count(d->roster) && !busy; i++)
        busy = roster_at(d->roster, i)->scale.reading;
    return !busy && !d->wait_until_us && d->now_us < d->next_decide_us && d->now_us < d->sources.next_us &&
           !collect_running(d->sources.collect);
}

enum err_code daemon_run(struct daemon *d, struct err *e)
{
    bool busy = true;
    (void)e;
    while (!signal_stop())
        daemon_turn(d, WAIT_US);
    log_write(d->log, LOG_INFO, "run", "stopping", NULL);
    d->stopping = true;
    shared_set_unready(d->shared, "stopping");
    int64_t until_us = daemon_mono_us(d) + STOP_US;
    for (daemon_idle(d, &busy); busy && daemon_mono_us(d) < until_us; daemon_idle(d, &busy)) {
        take_time(d);
        (void)kube_poll(d->kube, 50000);
    }
    return ERR_OK;
}
