/* generate.h - light demand generators with stated distributions, and the known incidents.
 *
 * A demand is requests/s per step, noise-free as the simulator understands it.  Three months at
 * 15 s take some 50 ms.  Same (cfg, seed): same bits. */
#ifndef SIM_GENERATE_H
#define SIM_GENERATE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "sim/capacity.h"

/* level(t) = peak_qps * day(t) * week(t) * wander(t), then bursts, then counting noise.
 *   day     night_frac + (1 - night_frac) * ((1 + cos(2 pi (hour - peak_hour)/24)) / 2)^1.3
 *   week    weekend_frac on Saturday and Sunday (UTC), 1 else; blended over an hour at midnight
 *   wander  exp(s x - s^2/2), x an hourly first-order autoregression with unit variance
 *   bursts  start as a Poisson process; add height * level, height uniform; rise linearly within
 *           burst_rise_s, last an exponential time, fall within twice the rise
 *   hourly  the same shape at every full hour, height drawn between 2/3 and 4/3 of hourly_height
 *   counts  Poisson(level * dt) / dt, when `poisson` */
struct generate_cfg {
    int64_t start_us, step_us;
    double peak_qps;
    double night_frac, weekend_frac, peak_hour;
    double wander_frac, wander_hours; /* standard deviation, correlation time */
    double bursts_per_day;
    double burst_height_min, burst_height_max; /* of the level */
    double burst_rise_s, burst_mean_s;
    double hourly_height; /* burst at every full hour (scheduled jobs), of the level, +- a third; 0: none */
    double hourly_len_s;
    bool poisson;
};

/* A weekday service: nights at 25 %, weekends at 60 %, 4 bursts a day of 0.3..1.5 of the level. */
struct generate_cfg generate_cfg_default(void);

/* Fill demand[n].  Errors: ERR_RANGE naming the field, ERR_LIMIT for n over CAPSIM_STEPS_MAX. */
NODISCARD enum err_code generate_demand(const struct generate_cfg *cfg, uint64_t seed, int64_t n,
                                        float *demand, struct err *e);

/* Incidents that teams have lived through; every policy is replayed on them.
 * X(id, name, what happens) */
#define INCIDENT_LIST(X)                                                                           \
    X(OR_FLAPPING, "or-flapping", "load swings within minutes, faster than a unit starts")         \
    X(PROMOTION_SAWTOOTH, "promotion-sawtooth", "after a promotion day the load saws up and down") \
    X(SHRINK_THEN_BURST, "shrink-then-burst", "a quiet hour, then three times the load in 30 s")   \
    X(STARTS_FAIL, "starts-fail", "the registry is down for an hour while load rises")             \
    X(METRICS_VANISH, "metrics-vanish", "all metrics are missing for 15 min at the peak")          \
    X(DEPENDENCY_SLOW, "dependency-slow", "a dependency is slow for 40 min, use stays low")        \
    X(CPU_HIGH_GPU_LOW, "cpu-high-gpu-low", "CPU shows 82 % and GPU 45 % for an hour")             \
    X(TENFOLD, "tenfold", "load rises tenfold within a minute and stays")

enum incident_kind {
#define X(id, name, what) INCIDENT_##id,
    INCIDENT_LIST(X)
#undef X
        INCIDENT_COUNT
};

enum { INCIDENT_STEPS_MAX = 12000 };

/* Loads are multiples of unit_qps, so an incident fits any service; start at units_start. */
struct incident {
    const char *name, *what;
    int units_start, units_max;
    int32_t from_step, to_step; /* when it happens; before and after is ordinary load */
    int32_t n;
    int n_faults;
    struct capsim_fault fault[2]; /* to be added to the scenario's capsim_cfg */
    float demand[INCIDENT_STEPS_MAX];
};

const char *incident_name(enum incident_kind kind);
int incident_find(const char *name); /* enum incident_kind, or -1 */
/* unit_qps: load one unit serves within its target.  step_us 15..60 s, dividing 15 min; out is
 * large, keep it off the stack.  Errors: ERR_RANGE. */
NODISCARD enum err_code incident_build(enum incident_kind kind, double unit_qps, int64_t step_us,
                                       struct incident *out, struct err *e);

#endif
