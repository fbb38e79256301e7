/* tune.h - a rule's whole cost-miss front on the training days.
 *
 * For each of several prices of a violated step, NLopt minimises  cost + price x misses  over the options that
 * the policy declares tunable: DIRECT-L (Gablonsky & Kelley 2001) looks around, Sbplx (Rowan 1990) refines.
 * Both are deterministic.  Every setting tried goes into one pool; its Pareto front is the result.
 * The prices run in parallel and do not see each other, so the front does not depend on the threads. */
#ifndef TRAIN_TUNE_H
#define TRAIN_TUNE_H

#include "base/err.h"
#include "base/thread.h"
#include "train/run.h"

enum { TUNE_POINTS_MAX = 24, TUNE_PRICES = 8, TUNE_RANGES_MAX = 8 };

struct tune_point {
    union policy_options opt;
    double misses;   /* fraction of steps, on the training days */
    double cost_usd_h;
    double reversals_per_day;
};

struct tune_front {
    const struct policy *policy;
    bool guarded;
    int n; /* ascending misses, descending cost */
    struct tune_point point[TUNE_POINTS_MAX];
    int64_t runs; /* settings tried */
};

struct tune_opts {
    int32_t from, to;     /* steps tuned on; must lie in the training part */
    int evals;            /* settings per price */
    double target;        /* > 0: look for the cheapest setting within these misses only, not for a front */
    struct policy_use start; /* the policy and the options that stay fixed */
    bool guarded;
    int n_seeds;          /* averaged per setting, at most the number of chances */
    double reversals_max; /* per day; settings above it are kept out of the front; INFINITY: none */
    const struct outlook *outlook; /* for policies that need one: copied per thread; or NULL */
    void (*tick)(void *arg); /* after every setting tried, from any thread; or NULL */
    void *tick_arg;
};
struct tune_opts tune_opts_default(const struct world *w, const struct policy *policy);

/* chance: [n_chances].  base: spec and guard.  Errors: those of running; ERR_INVAL for a stretch outside the
 * training part; ERR_INTERRUPTED. */
NODISCARD enum err_code tune_front(const struct world *w, struct chance *const *chance, int n_chances,
                                   const struct tune_opts *o, struct thread_pool *pool,
                                   struct tune_front *out, struct err *e);
/* How many settings tune_front() will try at most. */
int64_t tune_runs(const struct tune_opts *o);
/* One setting over o's stretch and seeds: misses, cost and reversals. */
NODISCARD enum err_code tune_measure(const struct world *w, struct chance *const *chance, int n_chances,
                                     const struct tune_opts *o, const struct policy_use *use,
                                     struct outlook *outlook, struct tune_point *out, struct err *e);
/* The cheapest point within `misses`; the least misses where none is. */
const struct tune_point *tune_pick(const struct tune_front *f, double misses);

/* A finished configuration for a policy in this world.  Errors: those of capacity_config_finish. */
NODISCARD enum err_code world_config(const struct world *w, const struct policy_use *use, bool guarded,
                                     struct capacity_config *cfg, struct err *e);

#endif
