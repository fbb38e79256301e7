/* run.h - one policy through one stretch of a world under one seed.
 *
 * The loop of simulation, evaluation, tuning and explanation:
 *     view -> decide_capacity -> simulator -> totals per day, and a look for whoever asked.
 * Before the counted stretch the policy runs `warm_steps` uncounted, so that its memory is in use.
 * Days are local days of the scenario's zone: the clusters of every interval. */
#ifndef TRAIN_RUN_H
#define TRAIN_RUN_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "decide/capacity.h"
#include "train/reward.h"
#include "train/world.h"

/* Sums over the counted steps (those not barred) of one day. */
struct run_day {
    int32_t day; /* local days since 1970-01-01 */
    int64_t steps, misses;
    double cost_usd, unit_h;
    double arrivals, miss_requests;
    double p99_sum_ms, reward_sum;
    int64_t actions, reversals, units_changed;
};

enum { RUN_DAYS_MAX = 1200 };

struct run_result {
    int n_days;
    struct run_day day[RUN_DAYS_MAX];
    struct run_day total;
    uint64_t hash; /* of every executed size, in order */
};

struct run_look {
    int32_t step;
    const struct capacity_view *view;     /* what was decided on */
    const struct capacity_record *record; /* NULL unless records were asked for */
    const struct capacity_plan *plan;
    const struct capsim_out *out;         /* what came of it */
    float demand_qps;                     /* as it arrived */
};
typedef void run_look_fn(void *ctx, const struct run_look *look);

struct run_opts {
    int32_t from, to;         /* counted steps [from, to) */
    int32_t warm_steps;       /* run before `from`, uncounted, as far as the trace goes */
    const int16_t *schedule;  /* [to - from] sizes instead of a policy (oracle); NULL: decide */
    struct reward_weights weights;
    double weight_latency, weight_cost; /* given to the policy as inputs; 1 and 1 */
    run_look_fn *look;        /* called for counted steps, also barred ones; or NULL */
    void *ctx;
    bool records;             /* make records for look */
};
struct run_opts run_opts_default(const struct world *w); /* the evaluation stretch */

/* cfg may be NULL with a schedule.  Errors: ERR_RANGE for an empty stretch or too many days. */
NODISCARD enum err_code run_policy(const struct world *w, const struct chance *c,
                                   const struct capacity_config *cfg, const struct run_opts *o,
                                   struct run_result *out, struct err *e);

void run_day_add(struct run_day *sum, const struct run_day *d);

static inline double run_miss_frac(const struct run_day *d)
{
    return d->steps ? (double)d->misses / (double)d->steps : 0;
}

/* Fills the caller's part of a view at the start: forecast, budget, weights, no claims. */
void run_view_init(struct capacity_view *view, const struct world *w, double weight_latency,
                   double weight_cost);
/* Units that serve the demand of `step` with a third to spare: where runs start. */
int run_start_units(const struct world *w, int32_t step);

#endif
