/* daemon_commands.c - what people ask of the loop: overrides, breaker resets, releases.
 *
 * An override is written into the CapacityTarget's spec, so that every replica and the next leader have it, and so that
 * it is seen where targets are looked after; the roster reads it back like any other change. */
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/mem.h"
#include "base/tz.h"
#include "daemon/daemon_priv.h"

static void put_note(struct daemon *d, enum store_note_kind kind, const struct live *l, const struct command *c,
                     int64_t until_us)
{
    struct err e;
    struct store_note n = {.time_us = d->now_us, .kind = kind, .target_id = l ? l->store_id : 0, .author = c->author,
                           .text = c->reason, .until_us = until_us};
    if (store_put_note(d->store, &n, &e))
        log_write(d->log, LOG_WARN, "store", "note is not kept", "error=\"%s\"", e.msg);
}

/* ---- override --------------------------------------------------------------------------------- */

static void override_body(const struct command *c, int64_t until_us, struct buf *out)
{
    char until[TZ_TEXT];
    struct json_writer w = json_writer_init(out, 0);
    json_open(&w, NULL);
    json_open(&w, "spec");
    if (c->kind == COMMAND_OVERRIDE_CLEAR) {
        json_put_null(&w, "override");
    } else {
        tz_format_rfc3339(NULL, until_us, until);
        json_open(&w, "override");
        json_put_i64(&w, "units", c->units);
        json_put_str(&w, "until", until);
        json_put_str(&w, "author", *c->author ? c->author : "unknown");
        json_put_str(&w, "reason", *c->reason ? c->reason : "none given");
        json_close(&w);
    }
    json_close(&w);
    json_close(&w);
}

struct override_call {
    struct daemon *d;
    uint64_t id;
};

static void override_done(void *ctx, enum err_code rc, struct kube_reply *reply, const struct err *e)
{
    struct override_call *o = ctx;
    (void)reply;
    if (rc)
        shared_command_answer(o->d->shared, o->id, COMMAND_REFUSED, "the API server refused it: %.180s", e->msg);
    else
        shared_command_answer(o->d->shared, o->id, COMMAND_DONE, "written to the CapacityTarget");
    mem_free(o);
}

static void override(struct daemon *d, struct live *l, const struct command *c)
{
    int64_t until_us = c->for_us ? d->now_us + c->for_us : c->until_us;
    if (c->kind == COMMAND_OVERRIDE && (c->units < 0 || c->units > l->target.spec.units_max)) {
        shared_command_answer(d->shared, c->id, COMMAND_REFUSED, "units: %d is outside 0..%d", c->units,
                              l->target.spec.units_max);
        return;
    }
    struct buf path = buf_init(2048), body = buf_init(4096);
    struct override_call *o = mem_zero(1, sizeof *o);
    kube_id call;
    struct err e;
    *o = (struct override_call){.d = d, .id = c->id};
    kube_path(&path, &KUBE_CAPACITY_TARGETS, l->target.id.namespace_, l->name, NULL);
    override_body(c, until_us, &body);
    struct kube_call k = {.verb = KUBE_PATCH_MERGE, .path = path.p, .body = body.p, .n_body = body.n,
                          .done = override_done, .ctx = o};
    if (kube_start(d->kube, &k, &call, &e)) {
        shared_command_answer(d->shared, c->id, COMMAND_REFUSED, "%.200s", e.msg);
        mem_free(o);
    } else {
        put_note(d, STORE_NOTE_OVERRIDE, l, c, c->kind == COMMAND_OVERRIDE ? until_us : 0);
    }
    buf_fini(&path);
    buf_fini(&body);
}

/* ---- the others ------------------------------------------------------------------------------- */

static void breaker_reset(struct daemon *d, struct live *l, const struct command *c)
{
    guard_breaker_reset(&l->target.main.state.guard);
    if (l->target.challenger.ready)
        guard_breaker_reset(&l->target.challenger.state.guard);
    put_note(d, STORE_NOTE_BREAKER_RESET, l, c, 0);
    shared_command_answer(d->shared, c->id, COMMAND_DONE, "the breaker is closed");
}

/* Capacity strands nothing: what it holds back is a size, which stays as it is. */
static void release(struct daemon *d, const struct command *c)
{
    put_note(d, STORE_NOTE_RELEASE, NULL, c, 0);
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
    } else if (!daemon_leads(d)) {
        shared_command_answer(d->shared, c->id, COMMAND_NOT_LEADER,
                              daemon_acts_in(d) ? "this replica does not lead" : "the stage is observe: nothing is written");
    } else if (c->kind == COMMAND_BREAKER_RESET) {
        breaker_reset(d, l, c);
    } else if (l->source != LIVE_SPEC) {
        shared_command_answer(d->shared, c->id, COMMAND_REFUSED, "only a CapacityTarget can be overridden");
    } else {
        override(d, l, c);
    }
}

void daemon_commands(struct daemon *d)
{
    struct command c;
    while (shared_command_take(d->shared, &c))
        run(d, &c);
}
