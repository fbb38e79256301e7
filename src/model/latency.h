/* latency.h - latency of a service as a function of units and load; pure mathematics, no I/O.
 *
 * Two sources, one table: Erlang-C (M/M/c response-time quantiles, c = units x slots) or a measured
 * curve (load per unit -> p50, p99; monotone cubic through the points, Fritsch & Carlson 1980).
 * The table answers in O(1) by linear interpolation, so the simulator and the policies share it.
 * Above rho_max the stationary formula stops meaning anything within 15 s: the table is capped
 * there and what cannot be served becomes backlog, which the simulator carries over and adds as
 * waiting. */
#ifndef MODEL_LATENCY_H
#define MODEL_LATENCY_H

#include "base/err.h"

enum { LATENCY_BINS = 128, LATENCY_POINTS_MAX = 256 };

struct latency_point {
    double load_per_unit; /* requests/s */
    double p50_ms, p99_ms;
};

struct latency_model {
    int units_max;
    double unit_qps;        /* load one unit serves at full use, requests/s */
    double rho_max;         /* the table covers rho in [0, rho_max] */
    float *p50_ms, *p99_ms; /* [(units_max + 1) x (LATENCY_BINS + 1)], row = units; row 0 unused */
    float *load_max;        /* [units_max + 1]: most load, requests/s, whose p99 is within slo_ms */
    double slo_ms;
};

/* Probability that an arrival waits in M/M/c with offered load a = lambda/mu erlangs, a < c. */
double latency_erlang_c(int servers, double offered);
/* Quantile q of the response time in units of the mean service time, M/M/c FCFS. */
double latency_mmc_quantile(int servers, double offered, double q);

/* Both fill *out (release with latency_fini).  unit_qps = slots / service_s for Erlang-C.
 * Errors: ERR_INVAL for non-positive or non-finite arguments, a curve with fewer than two points,
 * loads not ascending, or latency falling by more than 20 % (a load test gone wrong); ERR_NOMEM. */
NODISCARD enum err_code latency_from_erlang(double service_ms, int slots, int units_max,
                                            double slo_ms, struct latency_model *out,
                                            struct err *e);
/* What latency_from_erlang() would refuse, without the work of it. */
NODISCARD enum err_code latency_check_erlang(double service_ms, int slots, int units_max,
                                             double slo_ms, struct err *e);
NODISCARD enum err_code latency_from_curve(const struct latency_point *p, int n, double unit_qps,
                                           int units_max, double slo_ms, struct latency_model *out,
                                           struct err *e);
void latency_fini(struct latency_model *m);
/* Pool adjacent violators: the nearest rising sequence in least squares; at most
 * LATENCY_POINTS_MAX values. */
void latency_make_rising(double *y, int n);

/* load in requests/s over all units, units >= 1 */
static inline float latency_at(const float *table, const struct latency_model *m, int units,
                               float load)
{
    float x = load / ((float)units * (float)m->unit_qps) * (float)(LATENCY_BINS / m->rho_max);
    const float *row = table + (long)units * (LATENCY_BINS + 1);
    if (!(x > 0))
        return row[0];
    if (x >= (float)LATENCY_BINS)
        return row[LATENCY_BINS];
    int i = (int)x;
    return row[i] + (x - (float)i) * (row[i + 1] - row[i]);
}

/* Fewest units that serve `load` within slo_ms; units_max when none does. */
int latency_units_for(const struct latency_model *m, double load);

#endif
