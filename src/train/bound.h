/* bound.h - what no policy can undercut: a true lower bound on cost for one stretch under one seed.
 *
 * Whatever a policy knows and does, guarded or not, its ready units q_t (failed ones among them)
 * satisfy
 *     cost >= sum_t b_t q_t + sum_t S_t (q_t - q_{t-1})^+
 *     step t is a miss if it is not barred and q_t < need_t
 * with
 *     b_t     1 where the step counts, 0 in a gap of the history (neither billed nor judged)
 *     lag     the shortest possible start: a unit was billed while it warmed
 *     S_t     counted steps among the `lag` before t
 *     need_t  fewest units whose p99 is in target with an empty queue
 * Dropped: failures, longer starts, faults, guard, rate cap, smallest size, backlog.  The dual of
 * "misses <= allowed",
 *     max_lambda  min_q { cost(q) + lambda misses(q) } - lambda allowed,
 * is concave and piecewise linear in lambda; the inner minimum is a dynamic programme over q with
 * two sweeps per step.  Every lambda gives a valid bound, so the search need not be exact.
 *
 * Arithmetic is exact: unit-steps and lambda are integers in 1/32 unit-step, and one int64 carries
 * (value << 22) + misses, so that a minimum also finds the fewest misses among cheapest plans.
 * need_t comes from the simulator itself, by bisection on its own verdict, loosened by 2^-16
 * against the last bit of a float; dollars are rounded down by 2^-23, the rounding of the
 * simulator's cost per step.  Proof and measurements: docs/bounds.md. */
#ifndef TRAIN_BOUND_H
#define TRAIN_BOUND_H

#include <stdint.h>

#include "base/err.h"
#include "sim/capacity.h"

enum {
    BOUND_UNITS_ANY = -1, /* any units, ready or warming, paid for before the stretch began */
    BOUND_LIMITS_MAX = 64,
};

/* Prepared stretch.  The arrays are owned; read-only after init except for `scratch`, so one thread
 * at a time. */
struct bound {
    int32_t n;         /* steps */
    int32_t n_counted; /* of them not barred */
    int32_t n_forced;  /* misses nobody can avoid; not in need[] any more */
    int32_t lag;       /* shortest start in steps, >= 1 */
    int32_t units_max;
    int32_t units0; /* ready before the first step, or BOUND_UNITS_ANY */
    double step_cost_usd;
    uint16_t *need;        /* [n] need_t; 0 where the step is barred or lost anyway */
    uint16_t *start;       /* [n] S_t */
    uint8_t *billed;       /* [n] b_t */
    int64_t (*scratch)[8]; /* [units_max + 1][8] */
};

/* The relaxed problem solved for one price of a miss: a point of the bound's cost-miss front. */
struct bound_point {
    double lambda;      /* unit-steps per miss, as used (a multiple of 1/32) */
    int64_t unit_steps; /* of the cheapest plan at that price, */
    int32_t misses;     /* the fewest among such, forced ones included */
};

/* Steps [from, to) of t under `seed`, units0 in 0..units_max (capsim_reset's `units`) or
 * BOUND_UNITS_ANY for policies that ran before `from`.  Release with bound_fini() in any case.
 * Errors: ERR_RANGE for a stretch outside the trace or units0; ERR_NOMEM. */
NODISCARD enum err_code bound_init(struct bound *b, const struct capsim_world *w,
                                   const struct capsim_trace *t, uint64_t seed, int32_t from,
                                   int32_t to, int units0, struct err *e);
void bound_fini(struct bound *b);

/* Solve for n prices (unit-steps per miss, >= 0, rounded to 1/32 and clamped to where it stops to
 * matter).  Eight prices cost about 0.2 us per step at 64 units. */
void bound_relaxed(struct bound *b, const double *lambda, int n, struct bound_point *out);

/* cost_usd[i]: no policy with misses / counted steps <= limits[i] costs less; 0 <= limit <= 1.
 * Where not even the fewest possible misses meet a limit: the bound for those fewest (see
 * bound_forced_frac).
 * Errors: ERR_INVAL for a limit outside 0..1 or more than BOUND_LIMITS_MAX of them. */
NODISCARD enum err_code bound_limits(struct bound *b, const double *limits, int n, double *cost_usd,
                                     struct err *e);

/* Misses nobody can avoid, as a fraction of the counted steps. */
double bound_forced_frac(const struct bound *b);
/* Most misses m with m / n_counted <= limit. */
int32_t bound_allowed(const struct bound *b, double limit);

/* All of it in one call. */
NODISCARD enum err_code bound_cost(const struct capsim_world *w, const struct capsim_trace *t,
                                   uint64_t seed, int32_t from, int32_t to, int units0,
                                   const double *limits, int n_limits, double *cost_usd,
                                   struct err *e);

/* load[u], u = 0..units_max: most noisy requests/s that u ready units serve in target from an empty
 * queue, by bisection on the simulator's verdict; never falls with u; -1 where not even 0 is in
 * target.  load: [units_max + 1].  Errors: what capsim_world_init says; ERR_NOMEM. */
NODISCARD enum err_code bound_loads(const struct capsim_world *w, float *load, struct err *e);

#endif
