/* act_step.c - what follows from each answer.
 *
 * One function per step. Each ends by sending the next request or by act_finish(), so a job has
 * always exactly one request under way. A write's answer is one of five: done; refused by a
 * precondition; refused for now (429: the server did nothing); refused for good; lost (no answer, a
 * time-out, 5xx, a body that cannot be read). After a lost one the object is read, never written
 * again as it was. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "execute/act_priv.h"
#include "execute/json_priv.h"

enum verdict { DONE, CONFLICT, BUSY, REFUSED, LOST };

static enum verdict verdict_of(const struct act_answer *a)
{
    int http = a->status.http;
    if (a->rc == ERR_OK && a->doc)
        return DONE;
    if (http == 409)
        return CONFLICT;
    if (http == 429)
        return BUSY;
    if (http >= 400 && http < 500 && http != 408)
        return REFUSED;
    return http == 0 && a->rc == ERR_INVAL ? REFUSED : LOST; /* a read-only client sends nothing */
}

static bool may(const struct executor *x, enum act_write what)
{
    return x->env->may_act(x->env->ctx, what);
}

PRINTF_LIKE(3, 4)
static void conclude(struct executor *x, enum outcome_result outcome, const char *fmt, ...)
{
    char text[STATUS_TEXT + 256];
    va_list args;
    va_start(args, fmt);
    (void)vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    x->r.outcome = outcome;
    text_copy(x->r.text, sizeof x->r.text, text);
}

/* ---- reading answers ------------------------------------------------------------------------- */

static const char *meta_text(const struct json_doc *doc, const char *key)
{
    const char *s = json_text(json_find(json_find(json_root(doc), "metadata"), key));
    return s && strlen(s) < STATUS_NAME ? s : "";
}

struct scale {
    int32_t replicas;
    const char *version, *uid, *name, *ns;
};

/* A Scale; false when it cannot be relied on. */
static bool scale_read(const struct json_doc *doc, struct scale *s)
{
    const struct json *spec = doc ? json_find(json_root(doc), "spec") : NULL;
    const struct json *replicas = spec ? json_find(spec, "replicas") : NULL;
    double n = replicas ? json_number(replicas) : 0; /* omitted when 0 */
    if (!json_is_object(spec) || !(n >= 0 && n <= INT32_MAX) || n != floor(n))
        return false;
    *s = (struct scale){(int32_t)n, meta_text(doc, "resourceVersion"), meta_text(doc, "uid"),
                        meta_text(doc, "name"), meta_text(doc, "namespace")};
    return *s->version && *s->name;
}

/* The CapacityTarget as read; false when it cannot be relied on. */
static bool object_read(const struct act_answer *a, const char **version,
                        struct target_status *status, struct err *e)
{
    if (a->rc || !a->doc) {
        (void)err_set(e, ERR_IO, "%s", a->text);
        return false;
    }
    *version = meta_text(a->doc, "resourceVersion");
    if (!**version) {
        (void)err_set(e, ERR_PARSE, "the answer has no resourceVersion");
        return false;
    }
    return target_status_parse(a->doc, json_find(json_root(a->doc), "status"), status, e) == ERR_OK;
}

static void take_scale(struct executor *x, const struct scale *s)
{
    text_copy(x->scale_version, STATUS_NAME, s->version);
    text_copy(x->scale_uid, STATUS_NAME, s->uid);
    text_copy(x->scale_name, STATUS_NAME, s->name);
    text_copy(x->scale_ns, STATUS_NAME, s->ns);
    x->r.found = s->replicas;
}

static void status_is_written(struct executor *x, const char *version)
{
    act_adopt(x, version, &x->next);
    status_gate_written(&x->gate, &x->next, act_mono_us(x));
}

/* ---- outcome --------------------------------------------------------------------------------- */

/* The job's outcome into the status to be written. Where it is certain that nothing was done,
 * safety is as before. */
static void fill_outcome(struct executor *x)
{
    struct status_outcome *o = &x->next.outcome;
    *o = (struct status_outcome){
        .result = x->r.outcome, .from = x->r.from, .to = x->r.to, .found = x->r.found};
    text_copy(o->id, sizeof o->id, x->r.id);
    text_copy(o->message, sizeof o->message, x->r.text);
    o->time_us = x->env->now_us(x->env->ctx);
    bool acted = o->result == OUTCOME_EXECUTED || o->result == OUTCOME_FOUND;
    x->r.sent = x->r.sent && (acted || x->scale_unsure);
    o->ready = acted ? STATUS_READY_PENDING : STATUS_READY_NONE;
    if (x->job == ACT_ORDER && !acted && !x->scale_unsure)
        x->next.safety = x->before;
    x->next.intent = (struct status_intent){0};
}

/* Kept, so that a later reconcile writes what was decided instead of guessing from the size of
 * then. */
static void remember_outcome(struct executor *x)
{
    x->known = x->next.outcome;
    x->known_safety = x->next.safety;
}

static void write_outcome(struct executor *x)
{
    x->tries++;
    if (!may(x, ACT_WRITE_STATUS) || !act_write_status(x, STEP_WRITE_OUTCOME))
        act_finish(x);
}

static void settle(struct executor *x)
{
    fill_outcome(x);
    remember_outcome(x);
    write_outcome(x);
}

static void outcome_is_written(struct executor *x, const char *version)
{
    status_is_written(x, version);
    x->r.written = true;
    act_finish(x);
}

static void after_outcome(struct executor *x, const struct act_answer *a)
{
    switch (verdict_of(a)) {
    case DONE:
        if (*meta_text(a->doc, "resourceVersion")) {
            outcome_is_written(x, meta_text(a->doc, "resourceVersion"));
            return;
        }
        act_send(x, STEP_CHECK_OUTCOME, KUBE_GET, x->object_path, NULL);
        return;
    case CONFLICT:
    case LOST:
        act_send(x, STEP_CHECK_OUTCOME, KUBE_GET, x->object_path, NULL);
        return;
    case BUSY:
    case REFUSED:
        x->r.status = a->status;
        act_finish(x);
        return;
    }
}

static void after_check_outcome(struct executor *x, const struct act_answer *a)
{
    struct target_status seen;
    struct err e = {0};
    const char *version;
    if (!object_read(a, &version, &seen, &e)) {
        act_finish(x); /* still pending */
        return;
    }
    if (strcmp(seen.intent.id, x->r.id) == 0) {
        act_adopt(x, version, &seen);
        if (x->tries < ACT_OUTCOME_TRIES)
            write_outcome(x);
        else
            act_finish(x);
        return;
    }
    bool ours = !*seen.intent.id && strcmp(seen.outcome.id, x->r.id) == 0;
    act_adopt(x, version, &seen);
    x->r.written = ours;
    x->r.conflict = !ours;
    act_finish(x);
}

/* ---- the size -------------------------------------------------------------------------------- */

static void write_scale(struct executor *x)
{
    struct buf body = buf_init(4096);
    struct json_writer w = json_writer_init(&body, 0);
    if (!may(x, ACT_WRITE_SCALE)) {
        conclude(x, OUTCOME_ABANDONED, "acting is no longer permitted (lease lost, or frozen)");
        settle(x);
        return;
    }
    json_open(&w, NULL);
    json_put_str(&w, "kind", "Scale");
    json_put_str(&w, "apiVersion", "autoscaling/v1");
    json_open(&w, "metadata");
    json_put_str(&w, "name", x->scale_name);
    if (*x->scale_ns)
        json_put_str(&w, "namespace", x->scale_ns);
    if (*x->scale_uid)
        json_put_str(&w, "uid", x->scale_uid);
    json_put_str(&w, "resourceVersion", x->scale_version);
    json_close(&w);
    json_open(&w, "spec");
    json_put_i64(&w, "replicas", x->r.to);
    json_close(&w);
    json_close(&w);
    x->r.sent = true;
    act_send(x, STEP_WRITE_SCALE, KUBE_UPDATE, x->scale_path, body.p);
    buf_fini(&body);
}

static void after_scale(struct executor *x, const struct act_answer *a)
{
    enum verdict v = verdict_of(a);
    struct scale s;
    x->r.status = a->status;
    if (v == DONE && scale_read(a->doc, &s) && s.replicas == x->r.to) {
        x->r.found = s.replicas;
        conclude(x, OUTCOME_EXECUTED, "%d -> %d units", x->r.from, x->r.to);
        settle(x);
    } else if (v == DONE || v == LOST || v == CONFLICT) {
        x->scale_unsure = x->scale_unsure || v != CONFLICT;
        act_send(x, STEP_CHECK_SCALE, KUBE_GET, x->scale_path, NULL);
    } else {
        conclude(x, v == BUSY ? OUTCOME_ABANDONED : OUTCOME_FAILED, "%s", a->text);
        settle(x);
    }
}

/* The size is still `from`, and a write's answer was lost. On the version it was sent for it may
 * still arrive, so the same write is sent again, once: of two writes on one version one gets
 * through, to the same size. On a newer version it cannot arrive any more. */
static void still_from(struct executor *x, bool same_version)
{
    if (!same_version) {
        conclude(x, OUTCOME_ABANDONED,
                 "the size is still %d: the write was not answered and not done", x->r.from);
        settle(x);
    } else if (!x->resent && may(x, ACT_WRITE_SCALE)) {
        x->resent = true;
        write_scale(x);
    } else {
        text_copy(x->lost_version, STATUS_NAME, x->scale_version);
        x->lost_mono_us = act_mono_us(x);
        conclude(x, OUTCOME_NONE,
                 "the size is still %d: the write was not answered and may still arrive",
                 x->r.from);
        act_finish(x);
    }
}

/* 409, and the size is still `from`: something else of the object changed. */
static void refused_from(struct executor *x)
{
    if (!x->conflict_retried) {
        x->conflict_retried = true;
        write_scale(x);
        return;
    }
    conclude(x, OUTCOME_ABANDONED,
             "the size is still %d: the write was refused twice by newer versions", x->r.from);
    settle(x);
}

/* After 409 or a lost answer. */
static void after_check_scale(struct executor *x, const struct act_answer *a)
{
    struct scale s;
    if (a->status.http == 404) {
        conclude(x, OUTCOME_FAILED, "%s", a->text);
        settle(x);
        return;
    }
    if (a->rc || !scale_read(a->doc, &s)) {
        conclude(x, OUTCOME_NONE, "the size was written and cannot be read back: %s", a->text);
        act_finish(x); /* the intent stays for reconcile */
        return;
    }
    bool same = strcmp(s.uid, x->scale_uid) == 0,
         same_version = strcmp(s.version, x->scale_version) == 0;
    take_scale(x, &s);
    if (same && s.replicas == x->r.from) {
        if (x->scale_unsure)
            still_from(x, same_version);
        else
            refused_from(x);
        return;
    }
    x->r.conflict = !same || s.replicas != x->r.to;
    if (!x->r.conflict)
        conclude(x, OUTCOME_FOUND, "%d -> %d units, found when read back", x->r.from, x->r.to);
    else if (same)
        conclude(x, OUTCOME_ABANDONED, "the size is %d, set by somebody else", s.replicas);
    else
        conclude(x, OUTCOME_ABANDONED, "the target was replaced, at %d units", s.replicas);
    settle(x);
}

/* ---- the intent ------------------------------------------------------------------------------ */

static void commit(struct executor *x, const char *version)
{
    struct err e = {0};
    status_is_written(x, version);
    if (x->env->commit(x->env->ctx, x->target, &x->next.intent, &e)) {
        conclude(x, OUTCOME_ABANDONED, "the record could not be stored: %s", e.msg);
        settle(x);
        return;
    }
    write_scale(x);
}

static void write_intent(struct executor *x)
{
    struct status_intent *i = &x->next.intent;
    text_copy(i->scale_version, STATUS_NAME, x->scale_version);
    text_copy(i->scale_uid, STATUS_NAME, x->scale_uid);
    i->time_us = x->env->now_us(x->env->ctx);
    if (!may(x, ACT_WRITE_STATUS) || !may(x, ACT_WRITE_SCALE)) {
        conclude(x, OUTCOME_ABANDONED, "acting is not permitted (lease lost, or frozen)");
        act_finish(x);
    } else if (!act_write_status(x, STEP_WRITE_INTENT)) {
        x->r.outcome = OUTCOME_ABANDONED;
        act_finish(x);
    }
}

static void after_intent(struct executor *x, const struct act_answer *a)
{
    const char *version = a->doc ? meta_text(a->doc, "resourceVersion") : "";
    x->r.status = a->status;
    switch (verdict_of(a)) {
    case DONE:
        if (*version)
            commit(x, version);
        else
            act_send(x, STEP_CHECK_INTENT, KUBE_GET, x->object_path, NULL);
        return;
    case LOST:
        act_send(x, STEP_CHECK_INTENT, KUBE_GET, x->object_path, NULL);
        return;
    case CONFLICT:
        x->r.conflict = true;
        conclude(x, OUTCOME_ABANDONED, "the CapacityTarget was changed meanwhile");
        act_send(x, STEP_REFRESH, KUBE_GET, x->object_path, NULL);
        return;
    case BUSY:
    case REFUSED:
        conclude(x, a->status.http == 429 ? OUTCOME_ABANDONED : OUTCOME_FAILED,
                 "the intent was not written: %s", a->text);
        act_finish(x);
        return;
    }
}

static void after_check_intent(struct executor *x, const struct act_answer *a)
{
    struct target_status seen;
    struct err e = {0};
    const char *version;
    if (!object_read(a, &version, &seen, &e)) {
        x->pending = x->next.intent; /* it may be there */
        conclude(x, OUTCOME_NONE, "the intent was written and cannot be read back: %s", e.msg);
        act_finish(x);
    } else if (strcmp(seen.intent.id, x->r.id) == 0) {
        commit(x, version);
    } else {
        act_adopt(x, version, &seen);
        x->r.conflict = *seen.intent.id != '\0';
        conclude(x, OUTCOME_ABANDONED, "the intent was not answered and is not there");
        act_finish(x);
    }
}

static void after_refresh(struct executor *x, const struct act_answer *a)
{
    struct target_status seen;
    const char *version;
    if (object_read(a, &version, &seen, NULL))
        act_adopt(x, version, &seen);
    act_finish(x);
}

/* ---- beginnings ------------------------------------------------------------------------------ */

static void order_after_read(struct executor *x, const struct scale *s)
{
    if (s->replicas == x->r.to) {
        conclude(x, OUTCOME_FOUND, "the size is %d already", x->r.to);
        act_finish(x);
    } else if (s->replicas != x->r.from) {
        x->r.conflict = true;
        conclude(x, OUTCOME_ABANDONED, "the size is %d, not %d as decided on", s->replicas,
                 x->r.from);
        act_finish(x);
    } else {
        write_intent(x);
    }
}

/* Our own write may still be under way to the version that stands. */
static bool may_arrive(const struct executor *x, const struct scale *s)
{
    return *x->lost_version && strcmp(x->lost_version, s->version) == 0 &&
           act_mono_us(x) - x->lost_mono_us < ACT_SETTLE_US;
}

static void reconcile_after_read(struct executor *x, const struct scale *s)
{
    const struct status_intent *i = &x->pending;
    bool same = !*i->scale_uid || strcmp(i->scale_uid, s->uid) == 0;
    if (same && s->replicas == i->from && may_arrive(x, s)) {
        conclude(x, OUTCOME_NONE,
                 "the size is still %d: a write that was not answered may still arrive", i->from);
        act_finish(x);
        return;
    }
    if (!same)
        conclude(x, OUTCOME_ABANDONED, "the target was replaced, at %d units", s->replicas);
    else if (s->replicas == i->to)
        conclude(x, OUTCOME_FOUND, "%d -> %d units, found afterwards", i->from, i->to);
    else if (s->replicas == i->from)
        conclude(x, OUTCOME_ABANDONED, "the size is still %d: not done, decided anew", i->from);
    else
        conclude(x, OUTCOME_ABANDONED, "the size is %d, set by somebody else", s->replicas);
    settle(x);
}

static void after_read_scale(struct executor *x, const struct act_answer *a)
{
    struct scale s;
    x->r.status = a->status;
    if (a->rc == ERR_OK && scale_read(a->doc, &s)) {
        take_scale(x, &s);
        if (x->job == ACT_ORDER)
            order_after_read(x, &s);
        else
            reconcile_after_read(x, &s);
        return;
    }
    enum verdict v = verdict_of(a);
    bool gone = a->status.http == 404;
    enum outcome_result failed = v == REFUSED ? OUTCOME_FAILED : OUTCOME_ABANDONED;
    conclude(x, x->job == ACT_ORDER || gone ? failed : OUTCOME_NONE, "the size cannot be read: %s",
             v == DONE ? "the answer is no Scale" : a->text);
    if (x->job == ACT_RECONCILE && gone)
        settle(x); /* there is nothing left to do it to */
    else
        act_finish(x);
}

static void after_status(struct executor *x, const struct act_answer *a)
{
    enum verdict v = verdict_of(a);
    const char *version = a->doc ? meta_text(a->doc, "resourceVersion") : "";
    x->r.status = a->status;
    if (v == DONE && *version) {
        status_is_written(x, version);
        x->r.written = true;
        act_finish(x);
        return;
    }
    text_copy(x->r.text, sizeof x->r.text, a->text);
    x->r.conflict = v == CONFLICT;
    if (v == BUSY || v == REFUSED)
        act_finish(x);
    else
        act_send(x, STEP_REFRESH, KUBE_GET, x->object_path, NULL);
}

void act_answered(struct executor *x, const struct act_answer *a)
{
    static void (*const after[])(struct executor *, const struct act_answer *) = {
        [STEP_READ_SCALE] = after_read_scale,
        [STEP_WRITE_INTENT] = after_intent,
        [STEP_CHECK_INTENT] = after_check_intent,
        [STEP_WRITE_SCALE] = after_scale,
        [STEP_CHECK_SCALE] = after_check_scale,
        [STEP_WRITE_OUTCOME] = after_outcome,
        [STEP_CHECK_OUTCOME] = after_check_outcome,
        [STEP_WRITE_STATUS] = after_status,
        [STEP_REFRESH] = after_refresh,
    };
    ASSERT(x->step != STEP_NONE);
    after[x->step](x, a);
}
