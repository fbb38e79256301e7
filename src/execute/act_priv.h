/* act_priv.h - an executor from inside: act.c holds the interface, act_step.c what follows from
 * each answer. */
#ifndef EXECUTE_ACT_PRIV_H
#define EXECUTE_ACT_PRIV_H

#include "execute/act.h"

/* Which request runs. */
enum act_step {
    STEP_NONE,
    STEP_READ_SCALE, /* before an order, or to reconcile */
    STEP_WRITE_INTENT,
    STEP_CHECK_INTENT, /* its answer was lost */
    STEP_WRITE_SCALE,
    STEP_CHECK_SCALE, /* its answer was lost, or 409 */
    STEP_WRITE_OUTCOME,
    STEP_CHECK_OUTCOME, /* its answer was lost, or 409 */
    STEP_WRITE_STATUS,  /* publish */
    STEP_REFRESH,       /* somebody else wrote the status: see it, then end */
};

enum { ACT_OLD_VERSIONS = 8, ACT_OUTCOME_TRIES = 3 };
/* A write whose answer was lost may still arrive while the API server works on it: its own limit of
 * a request. */
#define ACT_SETTLE_US INT64_C(60000000)

struct executor {
    const struct act_env *env;
    char *object_path, *status_path, *scale_path;
    void *target;
    act_done *done;

    /* What is known of the CapacityTarget. */
    bool seen, forget; /* forget: once the job has ended */
    char version[STATUS_NAME];
    char old[ACT_OLD_VERSIONS][STATUS_NAME]; /* that newer ones replaced */
    int old_next;
    struct target_status status;
    struct status_intent pending; /* id "": none */
    struct status_outcome known;  /* of `pending`, where it was decided but could not be written */
    struct safety_status known_safety;
    struct status_gate gate;
    char lost_version
        [STATUS_NAME]; /* of the size, on which a write of `pending` got lost; "" none */
    int64_t lost_mono_us;

    /* The job. */
    enum act_job job;
    enum act_step step;
    kube_id call;
    bool dying, freeing; /* executor_free was called; is on the stack */
    struct act_result r;
    struct target_status next; /* to be written */
    struct safety_status before;
    char scale_version[STATUS_NAME], scale_uid[STATUS_NAME], scale_name[STATUS_NAME],
        scale_ns[STATUS_NAME];
    bool conflict_retried, resent, scale_unsure; /* unsure: an answer was lost */
    int tries;
};

/* An answer, decoded. */
struct act_answer {
    enum err_code rc;
    struct kube_status status;
    const struct json_doc *doc; /* NULL without a readable body */
    const char *text;
};

/* Starts a request for x->step; an error to start it is its answer. */
void act_send(struct executor *x, enum act_step step, enum kube_verb verb, const char *path,
              const char *body);
void act_answered(struct executor *x, const struct act_answer *a); /* act_step.c */
void act_finish(struct executor *x);                               /* calls done */
int64_t act_mono_us(const struct executor *x);
/* Takes a newer version of the object; status NULL: unchanged. */
void act_adopt(struct executor *x, const char *version, const struct target_status *status);
/* x->next as it stands, on the version known.  False: it does not fit, r.text says so. */
bool act_write_status(struct executor *x, enum act_step step);

#endif
