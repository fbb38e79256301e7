/* recorded.h - a target's stored past as a scenario: its measured demand, its service, and the
 * sizes it really had.
 *
 * Demand is the stored samples on an even grid of the decision step; gaps of up to 3 steps are
 * bridged, longer ones are barred and never counted.  The service is that of the newest stored
 * configuration.  The sizes are those asked for in the cluster at each step, whoever asked: what
 * `evaluate --from-store` shows as "recorded".
 *
 * What was measured is what was served: where the live service was short of units, demand may have
 * been more.  Start-up times are drawn around the stated one, demand is taken as it was (no noise),
 * failures as usual. */
#ifndef DAEMON_RECORDED_H
#define DAEMON_RECORDED_H

#include <stdint.h>

#include "base/err.h"
#include "store/store.h"
#include "train/scenario.h"

struct recorded {
    struct scenario scenario; /* borrows `points` */
    struct latency_point *points;
    char zone[64]; /* "": UTC */
    int64_t start_us, n;
    float *qps;       /* [n] */
    uint8_t *barred;  /* [n] */
    int16_t *units;   /* [n] asked for, within the scenario's limits */
    char policy[256]; /* that acted last: a name, or the file of a learned one */
    /* What was measured over the steps that were: */
    int64_t steps, misses;
    int64_t usable; /* steps with both a measurement and a size */
    double cost_usd;
    struct buf notes; /* what to know about this past, a line each */
    bool judged;      /* enough for tuning and verdicts: three days; else report only */
};

/* q: namespace, name, times; without a name the store must hold one target only.
 * Errors: ERR_USAGE (which target? names them), ERR_MISSING (no such target, no samples, no
 * decision), ERR_RANGE (less than an hour). */
NODISCARD enum err_code recorded_load(struct store *s, const struct store_query *q,
                                      struct recorded *out, struct err *e);
/* From the stores of several replicas: each records only while it leads. */
NODISCARD enum err_code recorded_load_all(struct store *const *s, size_t n,
                                          const struct store_query *q, struct recorded *out,
                                          struct err *e);
void recorded_fini(struct recorded *r); /* safe on a zeroed one */

#endif
