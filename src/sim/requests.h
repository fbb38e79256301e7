/* requests.h - the same service request by request: discrete events, exponential service, Poisson
 * arrivals.  Slow and exact; it checks the 15-s simulator and the formulas behind it.
 *
 * Arrivals are a Poisson process whose rate is constant within a step.  A unit has `slots` servers;
 * one queue, first in first out; a request that has waited for the time-out leaves.  The size
 * follows `units` at the beginning of each step: units warm, become ready, fail and are repaired as
 * in sim/capacity.h but with random times of their own.  A stopped unit finishes what it serves;
 * what a failing unit serves goes back to the head of the queue and is served anew.
 * Same (cfg, load, units, seed): same bits. */
#ifndef SIM_REQUESTS_H
#define SIM_REQUESTS_H

#include <stdint.h>

#include "base/err.h"

enum { REQUESTS_ARRIVALS_MAX = 50000000, REQUESTS_SERVERS_MAX = 65536 };

struct requests_cfg {
    double service_ms; /* mean of one request on one slot */
    int slots;         /* per unit */
    int units_max;
    int64_t step_us;
    double timeout_s; /* longest wait; 0: patient for ever */
    double slo_ms;
    double start_min_s, start_max_s; /* uniform; 0, 0: ready at once */
    double up_mean_s;                /* exponential time to failure; 0: never fails */
    double repair_mean_s;            /* exponential */
};

/* Of the requests that arrived in a step; units at its end. */
struct requests_step {
    int64_t arrivals, dropped;
    float p50_ms,
        p99_ms;      /* response; a dropped request counts as its time-out; NaN without arrivals */
    float over_frac; /* over slo_ms, or dropped; 0 without arrivals */
    int32_t units_ready, units_warming, units_failed;
};

struct requests_totals {
    int64_t arrivals, completed, dropped, left; /* left: in the system at the end */
    int64_t retried;                            /* services lost to failures */
    double wait_mean_ms;     /* until the last start of service; completed ones */
    double response_mean_ms; /* of completed ones */
    double in_system_mean;   /* time average */
    double seconds;
    uint64_t n_events, hash; /* of the event sequence */
};

/* qps[n], units[n]: per step, units within 0..units_max.  steps[n] is filled, may be NULL.
 * Errors: ERR_RANGE naming the field or step, ERR_LIMIT for over REQUESTS_ARRIVALS_MAX expected
 * arrivals, ERR_NOMEM. */
NODISCARD enum err_code requests_run(const struct requests_cfg *cfg, const float *qps,
                                     const int32_t *units, int32_t n, uint64_t seed,
                                     struct requests_step *steps, struct requests_totals *totals,
                                     struct err *e);

#endif
