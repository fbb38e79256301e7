/* hpa.h - the HorizontalPodAutoscaler's algorithm (autoscaling/v2), in its parts.
 *
 * After kubernetes/kubernetes, pkg/controller/podautoscaler: replica_calculator.go (one metric),
 * horizontal.go (several metrics, stabilisation, scaling policies).  As there:
 *   - use is a whole percentage, an average value a whole milli-unit, both truncated;
 *   - within the tolerance of 0.1 nothing changes;
 *   - units without a metric count as 100 % (or the target, if more) when that would shrink, as 0
 * when it would grow; units not ready count as 0 when it would grow, else not at all; if that turns
 * the direction round, nothing changes;
 *   - several metrics: the largest wins; if one is invalid the others may grow, not shrink;
 *   - desired sizes of the past bound the new one: not over the lowest of the up window, not under
 * the highest of the down window;
 *   - policies bound the change per period; min and max bound the size; size 0 switches it off. */
#ifndef DECIDE_HPA_H
#define DECIDE_HPA_H

#include "decide/policy.h"

enum hpa_kind { HPA_UTILISATION, HPA_AVERAGE };

/* One metric over a target's units. */
struct hpa_metric {
    enum hpa_kind kind;
    double target; /* fraction, or value per unit */
    double total;  /* sum over the units with a metric; fraction of each unit's request, or value */
    int n_ready;   /* units with a metric that are ready */
    int n_not_ready; /* units that are not ready */
    int n_missing;   /* ready units without a metric */
};

/* Desired units for one metric, or -1 when it is invalid (no ready unit has it). */
int hpa_metric_units(const struct hpa_metric *m, int current, double tolerance);
/* The largest of several; -1 when all are invalid, or when one is and the rest would shrink. */
int hpa_metrics_units(const struct hpa_metric *m, int n, int current, double tolerance);

enum hpa_change { HPA_PODS, HPA_PERCENT };
struct hpa_rule {
    enum hpa_change kind;
    int value;
    int64_t period_us;
};
enum { HPA_RULES = 4 };
struct hpa_behaviour {
    int64_t window_us;
    enum hpa_select select;
    int n_rules;
    struct hpa_rule rule[HPA_RULES];
};

/* Sizes within reach now, given what was added and removed lately. */
int hpa_limit_up(const struct hpa_behaviour *b, const struct hpa_memory *m, int current,
                 int64_t now_us);
int hpa_limit_down(const struct hpa_behaviour *b, const struct hpa_memory *m, int current,
                   int64_t now_us);
void hpa_event(struct hpa_events *e, int64_t now_us, int change);

void hpa_memory_init(struct hpa_memory *m);
/* From desired units to the next size: stabilisation, policies, bounds.  Remembers `desired`. */
int hpa_normalise(const struct hpa_behaviour *up, const struct hpa_behaviour *down,
                  struct hpa_memory *m, int current, int desired, int min, int max, int64_t now_us);
void hpa_behaviours(const struct hpa_options *o, struct hpa_behaviour *up,
                    struct hpa_behaviour *down);

#endif
