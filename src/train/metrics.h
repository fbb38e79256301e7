/* metrics.h - from daily totals to the figures of `evaluate`, paired over days and seeds.
 *
 * Every policy runs the same days under the same seeds, so differences are paired.  Days are the clusters of
 * the bootstrap: a resampled day brings all its seeds and all policies along.
 *
 * A front is a rule's cost-miss curve: many settings, each with its own daily totals on the same days and
 * seeds.  Reading it at a policy's own misses gives cost_at_equal_misses_frac: what the policy costs over what
 * the rule, tuned, would cost at no more misses.  Between two settings the cost is interpolated in log(misses);
 * beyond the safest setting its cost is used, beyond the loosest likewise (never extrapolated). */
#ifndef TRAIN_METRICS_H
#define TRAIN_METRICS_H

#include <stdint.h>

#include "base/err.h"
#include "report/evaluation.h"
#include "train/run.h"

/* Daily totals of one policy: [n_seeds] results over the same days. */
struct metric_runs {
    const struct run_result *const *seed; /* [n_seeds] */
    int n_seeds;
};

struct metric_front {
    const struct metric_runs *setting; /* [n] */
    int n;
};

enum { METRIC_COUNT_MAX = 16 };

struct metric_input {
    struct metric_runs runs;
    const struct metric_front *front;      /* tuned hpa's; NULL: cost_at_equal_misses_frac is NaN */
    const struct metric_runs *oracle;      /* for regret; NULL: NaN */
    uint64_t seed;                         /* of the bootstrap */
};

/* Fills metrics [METRIC_COUNT_MAX] with 95 % intervals and returns how many; names are static.
 * Errors: ERR_INVAL without a day, or where seeds, front or oracle cover other days (both numbers). */
NODISCARD enum err_code metrics_compute(const struct metric_input *in, struct eval_metric *metrics, size_t *n,
                                        struct err *e);

/* Cheapest cost of points (misses, cost) at no more than `misses`, as described above; NaN without points. */
struct front_point {
    double misses, cost;
};
double front_cost_at(const struct front_point *p, int n, double misses);
/* Keeps the points no other point beats in both, by ascending misses; returns how many. */
int front_pareto(struct front_point *p, int n);

#endif
