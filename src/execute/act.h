/* act.h - carrying out one target's decisions: intent, action, outcome.
 *
 * An executor is the only writer of its CapacityTarget's status and of its target's size. It runs
 * one job at a time, as a state machine over asynchronous requests, so a hundred targets act side
 * by side on one thread:
 *
 *     order      GET /scale             must be `from`; `to` already: found, nothing is written
 *                PATCH status           intent and safety, on the version known; 409: given up
 *                commit()               the caller stores its record; may refuse (disk full)
 *                PUT /scale             absolute, on the version read; 409: read again, once more
 *                                       if still `from`; no answer: read back, and only on the
 *                                       version it was sent for once more (one of two gets through)
 *                PATCH status           outcome, intent cleared
 *     reconcile  GET /scale, PATCH status   of an intent left by a crash, a lost lease or a lost
 *                                       answer: size `to`: found; else abandoned and decided anew
 *     publish    PATCH status           what people read, when status_gate says so
 *
 * Before every write may_act() is asked; when it says no nothing more is sent, and what was written
 * stays for reconcile, by this replica or the next leader. A write is never repeated blindly: each
 * carries the version it is based on, and each lost answer is followed by a read. So at most one
 * writer gets through per version, an action always has its intent before it, and no action happens
 * twice.
 *
 * Requests end by env.deadline_us, which the caller keeps under lease duration - renew deadline.
 * One thread; callbacks come from kube_poll(). */
#ifndef EXECUTE_ACT_H
#define EXECUTE_ACT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"
#include "execute/status.h"
#include "kube/client.h"

struct executor;

enum act_write {
    ACT_WRITE_STATUS, /* the CapacityTarget's status: needs the lease */
    ACT_WRITE_SCALE,  /* the size: needs the lease, and nothing frozen */
};

/* Shared by all executors of a daemon; borrowed. */
struct act_env {
    struct kube *kube;
    const char *holder;  /* who we are, in intents */
    int64_t deadline_us; /* of each request */
    bool (*may_act)(void *ctx, enum act_write what);
    int64_t (*now_us)(void *ctx); /* decision clock, for the times in the status */
    /* Real time, for the rate of status writes; NULL: clock_mono_us(). */
    int64_t (*mono_us)(void *ctx);
    /* The intent is in the cluster; store the record durably or refuse. Called at most once per
     * order. */
    enum err_code (*commit)(void *ctx, void *target, const struct status_intent *intent,
                            struct err *e);
    void *ctx;
};

enum act_job { ACT_IDLE, ACT_ORDER, ACT_RECONCILE, ACT_PUBLISH };

struct act_result {
    enum act_job job;
    char id[STATUS_ID]; /* of the intent; "" for publish */
    int32_t from, to;
    int32_t found; /* size read last; -1 not read */
    /* NONE: nothing was decided. For an order or reconcile with `pending` the answer was lost or we
     * may not write: reconcile later. For publish: not written; try again. */
    enum outcome_result outcome;
    bool pending; /* an intent is (or may be) in the status still: reconcile */
    /* The size was written by us in this job, or may have been; false: certainly not. */
    bool sent;
    /* Somebody else wrote the status or the size meanwhile: look again before deciding. */
    bool conflict;
    bool written;              /* the status holds the result */
    struct kube_status status; /* of the request that decided it; http 0: none */
    char text[STATUS_TEXT];    /* in words: "the size is 7, not 5 as decided on" */
};

struct act_order {
    const char *id; /* of the decision; unique, at most STATUS_ID - 1 bytes */
    int32_t from, to;
    /* The status as it is to stand once acted: safety counts the action. Intent and outcome in it
     * are ignored. Copied. */
    const struct target_status *status;
    /* Safety as it was: put back where it is certain that nothing was done. Copied. */
    const struct safety_status *safety_before;
};

/* Called once per job, from kube_poll(), when the executor is idle again (a new job may be begun
 * inside). */
typedef void act_done(void *ctx, void *target, const struct act_result *r);

/* ns, name: of the CapacityTarget. scale_path: of its target,
 * "/apis/apps/v1/namespaces/shop/deployments/api/scale". Texts are copied. `target` is handed to
 * callbacks. */
NODISCARD enum err_code executor_new(const struct act_env *env, const char *ns, const char *name,
                                     const char *scale_path, void *target, act_done *done,
                                     struct executor **out, struct err *e);
void executor_free(struct executor *x); /* cancels what runs, no callback; NULL is fine */
/* What the informer or a read shows of the CapacityTarget. Call before the first job and whenever
 * it changed; versions that our own writes have replaced are recognised and ignored. A pending
 * intent in it must be reconciled first. */
void executor_seen(struct executor *x, const char *resource_version,
                   const struct target_status *status);
/* Before taking over leadership: forget what we knew; executor_seen again. */
void executor_forget(struct executor *x);

bool executor_busy(const struct executor *x);
/* An intent that must be reconciled before anything else, or NULL. */
const struct status_intent *executor_pending(const struct executor *x);
/* The status as last written or seen; intent and outcome are the executor's. */
const struct target_status *executor_status(const struct executor *x);

/* Each begins a job; done() follows unless an error is returned (nothing was sent then). Errors:
 * ERR_INVAL: busy, nothing seen yet, from == to, sizes out of range, an intent is pending (order,
 * publish) or none is (reconcile); ERR_LIMIT. */
NODISCARD enum err_code executor_order(struct executor *x, const struct act_order *o,
                                       struct err *e);
NODISCARD enum err_code executor_reconcile(struct executor *x, struct err *e);
/* Writes the status if status_gate_due() (or force) and nothing runs; *begun tells. Not due, busy,
 * pending or nothing seen yet is no error. Of s->outcome only what became of the units is taken,
 * and only of the newest outcome. */
NODISCARD enum err_code executor_publish(struct executor *x, const struct target_status *s,
                                         bool force, bool *begun, struct err *e);

/* ---- until ready ----------------------------------------------------------------------------- */

/* Follows the newest outcome with what the informers show, and fills s->outcome.ready. Pure. True
 * when it just became Ready or Late. budget_us: start-up budget of the guard. */
bool outcome_follow(struct status_outcome *o, int32_t requested, int32_t ready, int64_t now_us,
                    int64_t budget_us);

#endif
