/* daemon_override.c - a size fixed by a person: from the command into CapacityTarget.status, and
 * out of it again.
 *
 * Safety state lives in the status: there the other replica sees it at once, the next leader
 * continues it, and the account needs no right to change anybody's spec.  So a command becomes one
 * forced write of the status by the target's executor, on the resourceVersion known, and is
 * answered when that write was accepted: done means that a leader who starts a moment later keeps
 * it.  Until then nothing acts on it.
 *
 * Owners who keep their objects in Git state spec.override instead.  Where both are in force the
 * status wins: a person who calls a replica does so because of what is happening now.  Clearing
 * clears the status only, and says when the spec still holds. */
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "daemon/daemon_priv.h"

enum { TRIES = 5 }; /* of one write against newer versions */

/* One per target: a second person is told to wait for the first. */
struct override_wait {
    struct command command;
    struct status_override want; /* units -1: none */
    int tries;
    bool begun; /* its write is under way */
};

/* ---- what holds -------------------------------------------------------------------------------
 */

static const struct status_override none = {.units = -1};

static struct status_override in_status(const struct daemon *d, const struct live *l)
{
    if (!l->executor)
        return none;
    struct status_override o = executor_status(l->executor)->fixed;
    return o.units >= 0 && o.until_us > d->now_us ? o : none;
}

static struct status_override in_spec(const struct daemon *d, const struct live *l)
{
    const struct profile *p = &l->profile;
    if (p->source[PROFILE_F_OVERRIDE_UNITS] == PROFILE_UNSET || p->override_until_us <= d->now_us)
        return none;
    return (struct status_override){.units = p->override_units, .until_us = p->override_until_us};
}

struct status_override daemon_override_of(const struct daemon *d, const struct live *l)
{
    struct status_override o = in_status(d, l);
    return o.units >= 0 ? o : in_spec(d, l);
}

void daemon_fill_override(const struct daemon *d, struct live *l)
{
    l->status.fixed = l->override_wait ? l->override_wait->want : in_status(d, l);
}

/* ---- the command ------------------------------------------------------------------------------
 */

void daemon_override_drop(struct daemon *d, struct live *l, enum command_result result,
                          const char *why)
{
    if (!l->override_wait)
        return;
    shared_command_answer(d->shared, l->override_wait->command.id, result, "%.220s", why);
    mem_free(l->override_wait);
    l->override_wait = NULL;
}

static bool same(const struct status_override *a, const struct status_override *b)
{
    return a->units == b->units &&
           (a->units < 0 || (a->until_us == b->until_us && strcmp(a->author, b->author) == 0));
}

/* What will in fact be done with a size that is not one of everyday. */
static void say_fixed(const struct daemon *d, const struct live *l, int units, char out[SHARED_REASON])
{
    const struct capacity_spec *s = &l->target.spec;
    size_t n = 0;
    n += (size_t)snprintf(out, SHARED_REASON, "written to the CapacityTarget's status");
    if (units < s->units_min)
        n += (size_t)snprintf(out + n, SHARED_REASON - n,
                              "; %d is below minUnits (%d): it is held all the same until it ends, then raised to %d",
                              units, s->units_min, s->units_min);
    else if (units < s->units_min_safe)
        n += (size_t)snprintf(out + n, SHARED_REASON - n,
                              "; %d is below minSafeUnits (%d): it is held all the same until it ends", units,
                              s->units_min_safe);
    if (l->hold != LIVE_HOLD_NONE) /* observed, unmanaged, owned by another ... */
        (void)snprintf(out + n, SHARED_REASON - n, "; no size is written while the target is %s (condition Active)",
                       live_hold_name(l->hold));
    else if (freeze_on(d->freeze))
        (void)snprintf(out + n, SHARED_REASON - n, "; frozen: no size is written before the unfreeze");
    else if (l->profile.paused)
        (void)snprintf(out + n, SHARED_REASON - n, "; paused: no size is written before the pause is taken away");
}

static void done(struct daemon *d, struct live *l)
{
    const struct override_wait *w = l->override_wait;
    if (w->command.kind == COMMAND_BREAKER_RESET) {
        daemon_note(d, STORE_NOTE_BREAKER_RESET, l, &w->command, 0);
        daemon_override_drop(d, l, COMMAND_DONE, "the breaker is closed");
        return;
    }
    bool clear = w->want.units < 0, spec = clear && in_spec(d, l).units >= 0;
    char text[SHARED_REASON] = "cleared";
    if (spec)
        (void)snprintf(text, sizeof text, "cleared; spec.override of the CapacityTarget still fixes the size");
    else if (!clear)
        say_fixed(d, l, w->want.units, text);
    daemon_note(d, STORE_NOTE_OVERRIDE, l, &w->command, clear ? 0 : w->want.until_us);
    daemon_override_drop(d, l, COMMAND_DONE, text);
}

static bool unanswered(const struct act_result *r)
{
    return !r->conflict && (r->status.http == 0 || r->status.http >= 500);
}

void daemon_override_written(struct daemon *d, struct live *l, const struct act_result *r)
{
    struct override_wait *w = l->override_wait;
    if (!w || !w->begun)
        return;
    w->begun = false;
    const struct target_status *now = executor_status(l->executor);
    bool reset = w->command.kind == COMMAND_BREAKER_RESET;
    if (reset ? now->safety.breaker_until_us == SAFETY_NEVER : same(&now->fixed, &w->want))
        done(d, l);
    else if (!r->conflict || ++w->tries >= TRIES)
        daemon_override_drop(d, l, unanswered(r) ? COMMAND_UNANSWERED : COMMAND_REFUSED,
                             *r->text ? r->text : "the status could not be written");
}

static void close_breakers(struct target *t)
{
    guard_breaker_reset(&t->main.state.guard);
    if (t->challenger.ready)
        guard_breaker_reset(&t->challenger.state.guard);
}

/* Once the executor is free and knows the status; what the answer is then comes from
 * daemon_override_written(). */
static void try_to_write(struct daemon *d, struct live *l)
{
    struct override_wait *w = l->override_wait;
    struct err e;
    if (w->begun || executor_busy(l->executor))
        return;
    if (!daemon_leads(d) || d->stopping) {
        daemon_override_drop(d, l, d->stopping ? COMMAND_STOPPING : COMMAND_NOT_LEADER,
                             "this replica does not lead any more");
        return;
    }
    if (!l->adopted || executor_pending(l->executor))
        return; /* read or reconciled first, by daemon_act */
    if (w->command.kind == COMMAND_BREAKER_RESET) /* again: a status read meanwhile may have opened it */
        close_breakers(&l->target);
    daemon_fill_status(d, l);
    w->begun = true;
    if (executor_publish(l->executor, &l->status, true, &w->begun, &e))
        daemon_override_drop(d, l, COMMAND_REFUSED, e.msg);
}

void daemon_overrides(struct daemon *d)
{
    for (size_t i = 0; i < roster_count(d->roster); i++) {
        struct live *l = roster_at(d->roster, i);
        if (l->override_wait && l->status_error.code)
            daemon_override_drop(d, l, COMMAND_REFUSED, l->status_error.msg);
        if (l->override_wait)
            try_to_write(d, l);
    }
}

void daemon_overrides_stop(struct daemon *d)
{
    for (size_t i = 0; d->roster && i < roster_count(d->roster); i++)
        daemon_override_drop(d, roster_at(d->roster, i), COMMAND_STOPPING,
                             "the daemon is stopping");
}

static const char *obstacle(const struct live *l)
{
    return !l->executor ? "its workload cannot be sized: see the target's condition Active"
           : l->status_error.code ? l->status_error.msg
           : l->override_wait     ? "another command for this target is being written: try again"
                                  : NULL;
}

void daemon_override(struct daemon *d, struct live *l, const struct command *c)
{
    bool fixes = c->kind == COMMAND_OVERRIDE;
    const char *why = obstacle(l);
    int most = l->target.spec.units_max;
    if (why || (fixes && (c->units < 0 || c->units > most))) {
        if (why)
            shared_command_answer(d->shared, c->id, COMMAND_REFUSED, "%.220s", why);
        else
            shared_command_answer(d->shared, c->id, COMMAND_REFUSED,
                                  "units: %d is outside 0..%d%s", c->units, most,
                                  c->units > most ? "; maxUnits of the CapacityTarget bounds overrides too, raise it first" : "");
        return;
    }
    struct override_wait *w = mem_zero(1, sizeof *w);
    w->command = *c;
    w->want = c->kind == COMMAND_BREAKER_RESET ? in_status(d, l) : none;
    if (fixes) {
        w->want.units = c->units;
        w->want.until_us = c->for_us ? d->now_us + c->for_us : c->until_us;
        (void)snprintf(w->want.author, sizeof w->want.author, "%s",
                       *c->author ? c->author : "unknown");
        (void)snprintf(w->want.reason, sizeof w->want.reason, "%s",
                       *c->reason ? c->reason : "none given");
    }
    l->override_wait = w;
}
