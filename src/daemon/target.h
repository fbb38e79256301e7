/* target.h - one live target: what it is, what was seen of it, what it decides.
 *
 * Everything here is values and pure steps: measurements and counts are given, the decision function is called,
 * a plan and a record come out.  Who collects, who acts and who stores is not known here, so a round is tested without
 * a cluster and replayed from records. */
#ifndef DAEMON_TARGET_H
#define DAEMON_TARGET_H

#include <stdbool.h>
#include <stdint.h>

#include "base/tz.h"
#include "daemon/choose.h"
#include "decide/capacity.h"
#include "forecast/forecaster.h"
#include "model/history.h"

enum { TARGET_TEXT = 128, TARGET_UID = 64, TARGET_NAME = 254 };

struct target_id {
    char cluster[64], group[TARGET_NAME], kind[64], namespace_[TARGET_NAME], name[TARGET_NAME], uid[TARGET_UID];
    char api_version[TARGET_NAME];
};

/* Pods of the target as they stand. */
struct target_counts {
    bool known;        /* false: the size asked for could not be read; nothing is decided then */
    int requested;     /* spec.replicas */
    int ready, failed; /* failed: was ready, and is not any more */
    int warm[CAPACITY_WARM_BINS];
    int64_t warm_oldest_us;
};

/* What was measured: a window of at least 50 s and its newest step. */
struct target_sample {
    int64_t sample_us; /* of the newest complete record; 0: none yet */
    float value[FIELD_COUNT];
    float qps_last;
};

/* A decision configuration with everything it borrows. */
struct target_policy {
    struct capacity_config cfg;
    struct capacity_state state, before; /* after and before the newest decision */
    struct capacity_record record;
    struct capacity_plan plan;
    struct learned learned;
    struct err error;  /* why a learned policy is not in use; ERR_OK: it is */
    struct rng rng, rng_before;
    bool ready;        /* configured */
    bool stored;       /* for the recorder: this configuration has its row */
    char path[1024];   /* of the learned policy's file; "": none */
};

struct target {
    struct target_id id;
    struct capacity_spec spec;
    struct latency_model latency;
    bool has_latency;
    struct target_policy main, challenger; /* challenger.ready false: none */
    struct capacity_view view;
    bool challenger_acts;      /* switchback: the challenger's turn */
    bool decided;              /* the plans are of this round */
    /* forecast */
    struct forecaster *forecaster;
    struct forecast forecast;
    int64_t point_us;          /* start of the 5-min point being filled */
    double point_sum;
    int point_n;
    int64_t point_last_us;     /* sample counted last */
    double error_sum, error_n; /* |mean - seen| / seen at 15 min, this run */
};

void target_init(struct target *t, const struct target_id *id);
void target_fini(struct target *t);
/* "namespace/name" */
void target_key(const struct target *t, char out[2 * TARGET_NAME]);

/* Takes the service's latency (owned from now on). */
void target_set_latency(struct target *t, struct latency_model *m);
/* (Re)configures a policy from t->spec; keeps the guard's state, and everything else of the state when the
 * configuration's version is unchanged.  Errors: what is wrong with the spec or a name; the old one stays. */
NODISCARD enum err_code target_configure(struct target *t, struct target_policy *p, const struct choose *c,
                                         uint64_t seed, struct err *e);
void target_policy_fini(struct target_policy *p);

/* One 5-min mean of the past, in order; NaN for missing. */
NODISCARD enum err_code target_push_point(struct target *t, const struct calendar *cal, int64_t time_us, float qps,
                                          struct err *e);
/* The newest step of load; fills and completes points. */
void target_push_load(struct target *t, const struct calendar *cal, int64_t now_us, int64_t sample_us, float qps);

/* Fills t->view for this instant. */
void target_view(struct target *t, const struct calendar *cal, int64_t now_us, const struct target_counts *n,
                 const struct target_sample *s, const struct capacity_claims *claims, int budget_units,
                 double weight_latency, double weight_cost);
/* Decides on t->view with every configured policy.  There is one guard's memory: the acting policy's, which the other
 * is given before it decides. */
void target_decide(struct target *t);
/* The round was not recorded: its decisions have not been made. */
void target_undo(struct target *t);
/* Its decision is not carried out (a stage that observes, an owner who is not known): the guard waits for nothing. */
void target_forget(struct target *t);
/* The policy whose plan is carried out. */
struct target_policy *target_acting(struct target *t);
/* Switchback: whose turn it is.  The guard's memory goes along. */
void target_turn(struct target *t, bool challenger);

#endif
