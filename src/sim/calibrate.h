/* calibrate.h - the latency curve of a service, from a load test or from its history.
 *
 * The result is a rising list of points (load per unit, p50, p99), the load one unit serves at full
 * use, and the load at which p99 meets the target; latency_from_curve() takes it from there.
 * Nothing is claimed beyond the loads that were seen, and `source` says how unit_qps was found. */
#ifndef SIM_CALIBRATE_H
#define SIM_CALIBRATE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "model/latency.h"

enum {
    CALIBRATE_POINTS_MAX = 64,
    CALIBRATE_SAMPLES_MIN = 200, /* usable ones of a history */
    CALIBRATE_POINTS_MIN = 3,    /* of a load test */
};

enum calibrate_source {
    CALIBRATE_LOAD_TEST,    /* largest load the test sustained */
    CALIBRATE_GAUGE,        /* load at which gpu_util reaches 1, by regression */
    CALIBRATE_OVERLOAD,     /* how fast queues grew while demand exceeded capacity */
    CALIBRATE_LARGEST_SEEN, /* never near saturation: at least this much */
};

struct calibration {
    struct latency_point point[CALIBRATE_POINTS_MAX];
    int n;
    double unit_qps;
    double load_at_slo; /* per unit; 0: even idle is too slow; unit_qps: never over the target */
    enum calibrate_source source;
    bool p50_assumed;   /* no p50 was given: a quarter of p99 stands in */
    int64_t n_used;     /* samples behind the curve */
    int64_t n_overload; /* samples left out: over capacity, or a queue still draining */
    int64_t n_unfit;    /* samples left out: missing, barred, no unit, size just changed */
    double spread_frac; /* median over the bins of (p84 - p16) / (2 median) of p99 */
};

const char *calibrate_source_text(enum calibrate_source s);

/* points in any order; equal loads are averaged.  Errors: ERR_INVAL for fewer than 3 distinct
 * loads, a bad point, loads within 10 % of each other, or latency that falls by over 20 % as load
 * rises. */
NODISCARD enum err_code calibrate_load_test(const struct latency_point *points, int n,
                                            double slo_ms, struct calibration *out, struct err *e);

/* Columns [n] on an even grid; NaN is missing.  p50_ms, gpu_util and barred may be NULL. */
struct calibrate_history {
    const float *qps, *units_ready, *p50_ms, *p99_ms, *gpu_util;
    const uint8_t *barred;
    int64_t n, step_us;
    double slo_ms;
};

/* Errors: ERR_INVAL for missing columns, fewer than CALIBRATE_SAMPLES_MIN usable samples, or loads
 * that hardly vary (95th percentile under 1.25 x the 5th); ERR_NOMEM. */
NODISCARD enum err_code calibrate_from_history(const struct calibrate_history *h,
                                               struct calibration *out, struct err *e);

#endif
