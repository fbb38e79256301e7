/* roster.h - which targets there are, and everything known of each.
 *
 * Sources, in this order of authority: CapacityTargets; workloads labelled sluice.dev/managed=true that no CapacityTarget
 * names; targets listed in the configuration.  Only the first kind is ever acted on, since safety state lives in its status.
 * Each target's profile is merged anew when an object it comes from changed (profile/profile.h); a profile with a
 * fault makes the target inactive, in words, and leaves the others alone.
 *
 * A target keeps its slot while it exists: indices of collection, metrics and records stay valid.  One thread. */
#ifndef DAEMON_ROSTER_H
#define DAEMON_ROSTER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "daemon/cluster.h"
#include "daemon/config.h"
#include "daemon/record.h"
#include "daemon/target.h"
#include "execute/act.h"
#include "execute/ownership.h"
#include "profile/profile.h"

enum { ROSTER_MAX = 1024, LIVE_VALUES = 512 };

enum live_source { LIVE_SPEC, LIVE_LABEL, LIVE_CONFIG };

/* Why a target is not decided, or decided but not acted on; the first that holds. */
#define LIVE_HOLD_LIST(X)                                                                          \
    X(NONE, "")                                                                                    \
    X(INVALID, "Invalid")         /* profile or policy has a fault */                              \
    X(NO_WORKLOAD, "NoWorkload")  /* its size cannot be read */                                    \
    X(LEARNING, "Learning")       /* no latency curve yet: history is being read */                \
    X(OBSERVED, "Observed")       /* the stage, or its source, only watches */                     \
    X(UNMANAGED, "Unmanaged")     /* label sluice.dev/managed=true is absent */                    \
    X(OWNED, "OwnedByOther")                                                                       \
    X(OWNERS, "OwnersUnknown")    /* who else sizes it cannot be seen */                           \
    X(PENDING, "IntentPending")   /* an earlier action must be reconciled first */
enum live_hold {
#define X(id, name) LIVE_HOLD_##id,
    LIVE_HOLD_LIST(X)
#undef X
        LIVE_HOLDS
};
const char *live_hold_name(enum live_hold h);

struct live {
    int slot;
    enum live_source source;
    struct target target;
    /* the object it is defined by: a CapacityTarget, the workload, or nothing */
    char name[TARGET_NAME], uid[TARGET_UID], version[64];
    int64_t created_us, generation;
    /* profile */
    struct profile profile, history; /* merged; the layer that was measured */
    struct profile_faults faults;    /* n > 0: inactive */
    uint64_t merged_of;              /* hash of what it was merged from */
    uint64_t latency_of;             /* of what its latency table was made from */
    uint64_t queried_of;             /* merged_of when its own queries were last set */
    double slo_ms;                   /* as stated by the highest layer; 0: nowhere */
    struct err policy_error;         /* of configuring; ERR_OK: configured */
    /* cluster */
    struct cluster_scale scale;
    struct target_counts counts;     /* of this round */
    struct startup startup;
    struct ownership owner;
    bool measured;                   /* its workload's samples and pods are its own */
    bool asked_history, has_history;
    /* state in the cluster */
    struct target_status status;     /* as it is to be shown */
    char seen_status[64];            /* version of the CapacityTarget whose status was read last */
    char seen_outcome[STATUS_ID];    /* after which the size was read again */
    int64_t forgiven_generation;     /* of the spec that reversals of our sizes were last forgiven for */
    bool adopted;                    /* its status was read in this epoch */
    bool guarded;                    /* and the policy has its safety state */
    bool settled;                    /* and records of an earlier life have their outcome */
    struct err status_error;         /* it could not be read */
    struct executor *executor;       /* LIVE_SPEC, once its kind is known */
    enum live_hold hold, shown_hold; /* shown: in the metrics */
    struct override_wait *override_wait; /* one on its way into the status (daemon_override.c), or NULL */
    int told_cause;                  /* of the last event about a size held; -1: none */
    bool told_owned;
    /* of the decision being acted on */
    int64_t decision_id;             /* of this round, in the store; 0: none */
    char why[512];                   /* it, in words */
    int64_t ordered_id;              /* of the decision being carried out */
    char ordered_why[512];
    struct guard_state guard_before; /* of it */
    int units_changed;               /* by the newest action, until a round has counted it */
    /* for people */
    double reward_cost, reward_slo, reward_churn; /* of the newest step; NaN: not known */
    float values[LIVE_VALUES];       /* the critic's, a ring */
    int n_values;
    /* records */
    int64_t store_id, config_id, challenger_config_id;
    struct record_stream stream, challenger_stream;
    int64_t forecast_stored_us;
    bool seen;                       /* while the roster is brought up to date */
};

struct roster;
struct roster_opts {
    const struct run_config *config; /* borrowed; roster_reconfigure for another */
    struct cluster *cluster;
    uint64_t seed;
    struct log *log;
    /* A target goes. */
    void (*removed)(void *ctx, struct live *l);
    void *ctx;
};
struct roster *roster_new(const struct roster_opts *o);
void roster_free(struct roster *r);
/* Other policies, guard or defaults: everything is merged and configured anew at the next sync. */
void roster_reconfigure(struct roster *r, const struct run_config *config);
/* Brings targets, profiles and owners up to date when the cluster changed since; true when it did something. */
bool roster_sync(struct roster *r, int64_t now_us);
/* Counts changes of the set of targets: indices built on it are stale. */
uint64_t roster_generation(const struct roster *r);
size_t roster_count(const struct roster *r);
struct live *roster_at(const struct roster *r, size_t i);       /* in order of slots, no holes */
struct live *roster_slot(const struct roster *r, int slot);     /* NULL when empty */
struct live *roster_find(const struct roster *r, const char *ns, const char *name);
/* What was measured of its past: a curve (p->n_curve > 0) and start-up; merged at the next sync. */
void roster_set_history(struct roster *r, struct live *l, struct profile *history);
/* Refused for want of room, for health. */
size_t roster_refused(const struct roster *r);

#endif
