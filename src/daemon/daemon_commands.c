/* daemon_commands.c - what people ask of the loop: overrides (daemon_override.c), breaker resets, releases. */
#include "daemon/daemon_priv.h"

void daemon_note(struct daemon *d, enum store_note_kind kind, const struct live *l, const struct command *c,
                 int64_t until_us)
{
    daemon_keep_note(d, &(struct store_note){.kind = kind, .target_id = l ? l->store_id : 0, .author = c->author,
                                             .text = c->reason, .until_us = until_us});
}

/* ---- the others ------------------------------------------------------------------------------- */

/* Capacity strands nothing: what it holds back is a size, which stays as it is. */
static void release(struct daemon *d, const struct command *c)
{
    daemon_note(d, STORE_NOTE_RELEASE, NULL, c, 0);
    shared_command_answer(d->shared, c->id, COMMAND_DONE, "nothing is held: this release gates no pods");
}

static void run(struct daemon *d, const struct command *c)
{
    struct live *l = *c->name ? roster_find(d->roster, c->ns, c->name) : NULL;
    log_write(d->log, LOG_INFO, "command", command_name(c->kind), "target=%s/%s author=\"%s\" reason=\"%s\"", c->ns,
              c->name, c->author, c->reason);
    if (c->kind == COMMAND_RELEASE) {
        release(d, c);
    } else if (!l) {
        shared_command_answer(d->shared, c->id, COMMAND_NO_TARGET, "no target %.60s/%.120s", c->ns, c->name);
    } else if (!daemon_acts_in(d)) {
        shared_command_answer(d->shared, c->id, COMMAND_REFUSED,
                              "the stage is observe: nothing is written to the cluster, so nothing can be fixed or "
                              "reset; it can from single on");
    } else if (!daemon_leads(d)) {
        char holder[SHARED_NAME];
        shared_holder(d->shared, holder);
        shared_command_answer(d->shared, c->id, COMMAND_NOT_LEADER, "this replica does not lead%s%.100s%s",
                              *holder ? ", " : "", holder, *holder ? " does" : "");
    } else if (l->source != LIVE_SPEC) {
        shared_command_answer(d->shared, c->id, COMMAND_REFUSED, "only a CapacityTarget is acted on: there is nothing to override or reset");
    } else {
        daemon_override(d, l, c);
    }
}

void daemon_commands(struct daemon *d)
{
    struct command c;
    while (shared_command_take(d->shared, &c))
        run(d, &c);
    daemon_overrides(d);
}
