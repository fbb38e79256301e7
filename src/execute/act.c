#include "execute/act.h"

#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/mem.h"
#include "execute/act_priv.h"
#include "execute/json_priv.h"

/* ---- life ------------------------------------------------------------------------------------ */

NODISCARD static enum err_code object_paths(struct executor *x, const char *ns, const char *name,
                                            struct err *e)
{
    enum { PATH_MAX_BYTES = 2048 };
    struct buf path = buf_init(PATH_MAX_BYTES);
    kube_path(&path, &KUBE_CAPACITY_TARGETS, ns, name, NULL);
    enum err_code rc = buf_check(&path, e);
    if (!rc)
        x->object_path = mem_strdup(path.p);
    buf_clear(&path);
    kube_path(&path, &KUBE_CAPACITY_TARGETS, ns, name, "status");
    if (!rc)
        rc = buf_check(&path, e);
    if (!rc)
        x->status_path = mem_strdup(path.p);
    buf_fini(&path);
    return rc;
}

static void destroy(struct executor *x)
{
    mem_free(x->object_path);
    mem_free(x->status_path);
    mem_free(x->scale_path);
    mem_free(x);
}

enum err_code executor_new(const struct act_env *env, const char *ns, const char *name,
                           const char *scale_path, void *target, act_done *done,
                           struct executor **out, struct err *e)
{
    struct executor *x = mem_zero(1, sizeof *x);
    *x = (struct executor){.env = env, .target = target, .done = done};
    x->scale_path = mem_strdup(scale_path);
    target_status_init(&x->status);
    status_gate_init(&x->gate);
    enum err_code rc = object_paths(x, ns, name, e);
    *out = rc ? NULL : x;
    if (rc)
        destroy(x);
    return rc;
}

/* The callback of a cancelled request may come now or from a later kube_poll(): the last of the two
 * frees. */
void executor_free(struct executor *x)
{
    if (!x)
        return;
    if (x->call) {
        x->dying = x->freeing = true;
        kube_cancel(x->env->kube, x->call);
        x->freeing = false;
        if (x->call)
            return;
    }
    destroy(x);
}

/* ---- requests -------------------------------------------------------------------------------- */

static void on_reply(void *ctx, enum err_code rc, struct kube_reply *reply, const struct err *e)
{
    struct executor *x = ctx;
    struct json_doc *doc = NULL;
    x->call = 0;
    if (x->dying) {
        if (!x->freeing)
            destroy(x);
        return;
    }
    struct err bad = {0};
    if (!rc)
        rc = kube_reply_json(reply, &doc, &bad);
    struct act_answer a = {.rc = rc,
                           .doc = doc,
                           .text = rc ? *bad.msg ? bad.msg
                                        : e      ? e->msg
                                                 : ""
                                      : ""};
    if (reply)
        a.status = reply->status;
    act_answered(x, &a);
    json_free(doc);
}

NODISCARD static enum err_code start(struct executor *x, enum act_step step, enum kube_verb verb,
                                     const char *path, const char *body, struct err *e)
{
    struct kube_call call = {.verb = verb,
                             .path = path,
                             .body = body,
                             .deadline_us = x->env->deadline_us,
                             .once = verb != KUBE_GET,
                             .done = on_reply,
                             .ctx = x};
    x->step = step;
    return kube_start(x->env->kube, &call, &x->call, e);
}

void act_send(struct executor *x, enum act_step step, enum kube_verb verb, const char *path,
              const char *body)
{
    struct err e = {0};
    enum err_code rc = start(x, step, verb, path, body, &e);
    if (rc) {
        x->call = 0;
        act_answered(x, &(struct act_answer){.rc = rc, .text = e.msg});
    }
}

/* The first request of a job; without it there is no job. */
NODISCARD static enum err_code act_begin(struct executor *x, enum act_step step,
                                         enum kube_verb verb, const char *path, const char *body,
                                         struct err *e)
{
    enum err_code rc = start(x, step, verb, path, body, e);
    if (rc) {
        x->call = 0;
        x->job = ACT_IDLE;
        x->step = STEP_NONE;
    }
    return rc;
}

NODISCARD static enum err_code begin_status(struct executor *x, enum act_step step, struct err *e)
{
    struct buf body = buf_init(STATUS_BYTES_MAX + 1024);
    enum err_code rc = target_status_patch(&x->next, x->version, &body, e);
    if (!rc)
        rc = act_begin(x, step, KUBE_PATCH_MERGE, x->status_path, body.p, e);
    else
        x->job = ACT_IDLE;
    buf_fini(&body);
    return rc;
}

bool act_write_status(struct executor *x, enum act_step step)
{
    struct buf body = buf_init(STATUS_BYTES_MAX + 1024);
    struct err e = {0};
    bool ok = target_status_patch(&x->next, x->version, &body, &e) == ERR_OK;
    if (ok)
        act_send(x, step, KUBE_PATCH_MERGE, x->status_path, body.p);
    else
        text_copy(x->r.text, sizeof x->r.text, e.msg);
    buf_fini(&body);
    return ok;
}

int64_t act_mono_us(const struct executor *x)
{
    return x->env->mono_us ? x->env->mono_us(x->env->ctx) : clock_mono_us();
}

/* ---- what is known --------------------------------------------------------------------------- */

static bool replaced(const struct executor *x, const char *version)
{
    for (int i = 0; i < ACT_OLD_VERSIONS; i++)
        if (*x->old[i] && strcmp(x->old[i], version) == 0)
            return true;
    return false;
}

void act_adopt(struct executor *x, const char *version, const struct target_status *status)
{
    if (x->seen && strcmp(x->version, version) != 0) {
        text_copy(x->old[x->old_next], STATUS_NAME, x->version);
        x->old_next = (x->old_next + 1) % ACT_OLD_VERSIONS;
    }
    text_copy(x->version, sizeof x->version, version);
    x->seen = true;
    if (!status)
        return;
    x->status = *status;
    if (strcmp(x->pending.id, status->intent.id) != 0)
        x->lost_version[0] = '\0';
    x->pending = status->intent;
    if (strcmp(x->known.id, x->pending.id) != 0)
        x->known = (struct status_outcome){0};
}

void executor_seen(struct executor *x, const char *resource_version,
                   const struct target_status *status)
{
    bool fits = *resource_version && strlen(resource_version) < STATUS_NAME;
    if (x->job != ACT_IDLE || !fits || replaced(x, resource_version))
        return; /* a job's own reads are newer */
    if (!x->seen || strcmp(x->version, resource_version) != 0)
        act_adopt(x, resource_version, status);
}

static void forget(struct executor *x)
{
    x->seen = x->forget = false;
    x->version[0] = '\0';
    memset(x->old, 0, sizeof x->old);
    x->pending = (struct status_intent){0};
    x->known = (struct status_outcome){0};
    x->lost_version[0] = '\0';
    target_status_init(&x->status);
    status_gate_init(&x->gate);
}

void executor_forget(struct executor *x)
{
    if (x->job == ACT_IDLE)
        forget(x);
    else
        x->forget = true;
}

bool executor_busy(const struct executor *x)
{
    return x->job != ACT_IDLE;
}

const struct status_intent *executor_pending(const struct executor *x)
{
    return *x->pending.id ? &x->pending : NULL;
}

const struct target_status *executor_status(const struct executor *x)
{
    return &x->status;
}

/* ---- jobs ------------------------------------------------------------------------------------ */

void act_finish(struct executor *x)
{
    struct act_result r = x->r;
    r.pending = *x->pending.id != '\0';
    x->job = ACT_IDLE;
    x->step = STEP_NONE;
    if (x->forget)
        forget(x);
    x->done(x->env->ctx, x->target, &r);
}

static void job_init(struct executor *x, enum act_job job, const char *id, int32_t from, int32_t to)
{
    x->job = job;
    x->r = (struct act_result){.job = job, .from = from, .to = to, .found = -1};
    text_copy(x->r.id, sizeof x->r.id, id);
    x->conflict_retried = x->resent = x->scale_unsure = false;
    x->tries = 0;
}

NODISCARD static enum err_code check_order(const struct executor *x, const struct act_order *o,
                                           struct err *e)
{
    size_t n = strlen(o->id);
    if (x->job != ACT_IDLE)
        return err_set(e, ERR_INVAL, "an action is still running");
    if (!x->seen)
        return err_set(e, ERR_INVAL, "the CapacityTarget has not been read yet");
    if (*x->pending.id)
        return err_set(e, ERR_INVAL, "intent %s of %s is pending: it must be reconciled first",
                       x->pending.id, x->pending.holder);
    if (n == 0 || n >= STATUS_ID)
        return err_set(e, ERR_INVAL, "an order's id has 1 to %d bytes", STATUS_ID - 1);
    if (o->from == o->to || o->from < 0 || o->to < 0 || o->to > STATUS_UNITS_MAX)
        return err_set(e, ERR_INVAL, "no action: %d -> %d units", o->from, o->to);
    return ERR_OK;
}

enum err_code executor_order(struct executor *x, const struct act_order *o, struct err *e)
{
    enum err_code rc = check_order(x, o, e);
    if (rc)
        return rc;
    job_init(x, ACT_ORDER, o->id, o->from, o->to);
    x->next = *o->status;
    x->next.outcome = x->status.outcome;
    x->next.intent = (struct status_intent){.from = o->from, .to = o->to};
    text_copy(x->next.intent.id, sizeof x->next.intent.id, o->id);
    text_copy(x->next.intent.holder, sizeof x->next.intent.holder, x->env->holder);
    x->before = *o->safety_before;
    return act_begin(x, STEP_READ_SCALE, KUBE_GET, x->scale_path, NULL, e);
}

/* The outcome was decided, only its status is not written yet. */
NODISCARD static enum err_code settle_known(struct executor *x, struct err *e)
{
    x->r.outcome = x->known.result;
    x->r.found = x->known.found;
    text_copy(x->r.text, sizeof x->r.text, x->known.message);
    x->next.outcome = x->known;
    x->next.safety = x->known_safety;
    x->next.intent = (struct status_intent){0};
    return begin_status(x, STEP_WRITE_OUTCOME, e);
}

enum err_code executor_reconcile(struct executor *x, struct err *e)
{
    if (x->job != ACT_IDLE || !x->seen || !*x->pending.id)
        return err_set(e, ERR_INVAL,
                       x->job != ACT_IDLE ? "an action is still running" : "no intent is pending");
    if (!x->env->may_act(x->env->ctx, ACT_WRITE_STATUS))
        return err_set(e, ERR_INVAL, "writing the status is not permitted now");
    job_init(x, ACT_RECONCILE, x->pending.id, x->pending.from, x->pending.to);
    x->next = x->status;
    if (x->known.result != OUTCOME_NONE && strcmp(x->known.id, x->pending.id) == 0)
        return settle_known(x, e);
    return act_begin(x, STEP_READ_SCALE, KUBE_GET, x->scale_path, NULL, e);
}

/* Intent and outcome are the executor's; what became of the units is the caller's to see. */
static void take_status(struct executor *x, const struct target_status *s)
{
    x->next = *s;
    x->next.intent = x->status.intent;
    if (strcmp(s->outcome.id, x->status.outcome.id) != 0)
        x->next.outcome = x->status.outcome;
}

enum err_code executor_publish(struct executor *x, const struct target_status *s, bool force,
                               bool *begun, struct err *e)
{
    *begun = false;
    if (x->job != ACT_IDLE || !x->seen || *x->pending.id)
        return ERR_OK;
    take_status(x, s);
    if (!force && !status_gate_due(&x->gate, &x->next, act_mono_us(x)))
        return ERR_OK;
    if (!x->env->may_act(x->env->ctx, ACT_WRITE_STATUS))
        return ERR_OK;
    job_init(x, ACT_PUBLISH, "", -1, -1);
    enum err_code rc = begin_status(x, STEP_WRITE_STATUS, e);
    *begun = rc == ERR_OK;
    return rc;
}

/* ---- until ready ----------------------------------------------------------------------------- */

bool outcome_follow(struct status_outcome *o, int32_t requested, int32_t ready, int64_t now_us,
                    int64_t budget_us)
{
    bool done = o->result == OUTCOME_EXECUTED || o->result == OUTCOME_FOUND;
    if (!done || o->ready == STATUS_READY_READY || o->ready == STATUS_READY_LATE ||
        requested != o->to)
        return false;
    o->ready = STATUS_READY_PENDING;
    if (ready >= o->to) {
        o->ready = STATUS_READY_READY;
        o->ready_us = now_us;
    } else if (now_us - o->time_us > budget_us) {
        o->ready = STATUS_READY_LATE;
    }
    return o->ready != STATUS_READY_PENDING;
}
