/* capacity.h - the capacity decision's vocabulary: what an owner states, what a decision sees, what it
 * asks for.  The simulator and the live collector both fill `struct capacity_view`; nothing after them
 * can tell which one did. */
#ifndef MODEL_CAPACITY_H
#define MODEL_CAPACITY_H

#include <stdbool.h>
#include <stdint.h>

#include "model/calendar.h"
#include "model/field.h"
#include "model/forecast.h"

struct latency_model;

enum { CAPACITY_UNITS_LIMIT = 4096 }; /* most units of one target */
enum { CAPACITY_WARM_BINS = 12 };     /* warming units by age, 30 s each; the last bin is open */
#define CAPACITY_WARM_BIN_US INT64_C(30000000)

enum task_class { CLASS_P0, CLASS_P1, CLASS_P2, CLASS_P3 };

/* What the owner of a target states.  Constant while a decision loop runs. */
struct capacity_spec {
    int units_min, units_max;
    int units_min_safe;       /* 0: none stated, the guard derives one from the same-slot P95 */
    int gpus_per_unit;
    enum task_class cls;
    double price_usd_h;       /* of one unit */
    double slo_p99_ms;
    double slo_violation_max; /* largest fraction of steps with p99 over slo_p99_ms */
    int64_t step_us;          /* decision period, 15 s */
    int64_t start_us;         /* typical time from request to ready */
    const struct latency_model *latency; /* borrowed; calibrated latency of this service */
};

/* What other parties say about the target; all false in simulation unless a scenario sets them. */
struct capacity_claims {
    bool frozen;         /* global freeze */
    bool paused;         /* annotation on the target */
    bool unmanaged;      /* label sluice.dev/managed absent, or the stage does not cover it */
    bool owned_by_other; /* HPA, KEDA, VPA, autoscaler, GitOps */
    bool cluster_abnormal; /* cluster-wide anomaly: people's */
    bool override_on;    /* a person fixed the size until override_until_us */
    int override_units;
    int64_t override_until_us;
};

/* Everything a capacity decision may look at. */
struct capacity_view {
    int64_t now_us;
    int units_requested;      /* asked for: ready + warming + failed */
    int units_ready;
    int units_warming;
    int units_failed;
    int warm[CAPACITY_WARM_BINS]; /* warming units by age */
    int64_t warm_oldest_us;   /* age of the oldest warming unit, 0 if none */
    int64_t sample_us;        /* time of the newest complete record */
    float value[FIELD_COUNT]; /* that record, mean over the sampling window (>= 50 s); NaN missing */
    float qps_last;           /* newest single step of the load, NaN missing */
    struct forecast forecast; /* forecast.usable false: do not rely on it */
    struct calendar_point when;
    int budget_units;         /* most units the shared GPU budget leaves this target */
    float weight_latency, weight_cost; /* objective weights, 1 each by default */
    float foresight_qps;      /* noise-free peak demand over the next 3 min; NaN except for references */
    struct capacity_claims claims;
};

/* What a decision asks for: an absolute number of units. */
struct capacity_plan {
    int units;
    bool changed; /* units differs from view.units_requested */
};

#endif
