/* evaluate.h - policies side by side on days none of them has seen.
 *
 * Every policy runs the test stretch under the same seeds.  Rules are tuned on the training days first: a rule's row
 * is its cheapest setting within the scenario's tune_violation_max there, and hpa's whole front is what
 * cost_at_equal_misses_frac reads.  `threshold` keeps its published constants (that is the point of it);
 * "NAME:published" keeps any other's, "NAME:option=value,..." states them.  "NAME+guard" runs a rule behind the guard as a row of its own.
 * "oracle" is the feasible clairvoyant plan, `bound` the proven lower bound on cost at the SLO.
 * "recorded" are the sizes a live service really had, where they are given, in the same simulated world as the rest.
 * A learned policy that was trained on any part of the test stretch is refused. */
#ifndef TRAIN_EVALUATE_H
#define TRAIN_EVALUATE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/thread.h"
#include "report/evaluation.h"
#include "train/learned.h"
#include "train/metrics.h"
#include "train/tune.h"

enum { EVALUATE_POLICIES_MAX = 32, EVALUATE_SEEDS_MAX = 100, EVALUATE_BOUNDS_MAX = 12 };

enum contender_kind { CONTENDER_RULE, CONTENDER_LEARNED, CONTENDER_ORACLE, CONTENDER_RECORDED };

struct contender {
    enum contender_kind kind;
    char name[64];             /* as printed */
    const char *path;          /* of a learned policy, borrowed */
    struct policy_use use;     /* rule: options in force */
    bool guarded;
    bool tuned;                /* rule: options come from its front */
    bool interrupted;          /* learned: the run that wrote the file is not finished */
    struct tune_front *front;  /* rule tuned: on the training days; owned */
    struct run_result *runs;   /* [n_seeds], owned */
    struct run_result *front_runs; /* [front.n x n_seeds] on the test days, owned; NULL if not asked */
    struct eval_metric metrics[METRIC_COUNT_MAX];
    size_t n_metrics;
};

struct evaluate_opts {
    int n_seeds;
    int tune_evals;  /* settings per price; 0: rules keep their defaults, and there is no front */
    bool all_fronts; /* test fronts of every tuned rule, for drawing; else hpa's only */
    bool bounds;
    const char *const *policies; /* names and paths */
    size_t n_policies;
    uint64_t seed;   /* of tuning and intervals */
    const int16_t *recorded; /* [world.n] sizes that were really asked for: the first row, "recorded"; NULL: none */
};

/* Everything evaluate found; large. */
struct evaluate_result {
    int n_seeds;
    struct chance **chance;  /* [n_seeds] test seeds, owned */
    int n;
    struct contender contender[EVALUATE_POLICIES_MAX]; /* in the order asked; hpa last if nobody asked */
    int n_shown;             /* of them, those asked for */
    int hpa;                 /* index, -1 without tuning */
    struct run_result *oracle; /* [n_seeds], owned; NULL without bounds */
    int16_t **oracle_plan;   /* [n_seeds][test steps], owned */
    struct eval_bound bounds[EVALUATE_BOUNDS_MAX];
    size_t n_bounds;
    double bound_limits[EVALUATE_BOUNDS_MAX], bound_cost[EVALUATE_BOUNDS_MAX]; /* the bound's front */
    size_t n_bound_points;
    struct eval_policy policies[EVALUATE_POLICIES_MAX]; /* what evaluation borrows */
    const int16_t *recorded; /* borrowed from the options */
    struct evaluation ev;
};

/* Tells where it stands: what is being done; runs done, of about `total`.  Called often and from any thread. */
typedef void evaluate_progress_fn(void *ctx, const char *what, int64_t done, int64_t total);

/* Errors: ERR_MISSING for an unknown policy (names the nearest), ERR_MISMATCH for one trained on the test days,
 * those of running.  *out is released with evaluate_free in any case. */
NODISCARD enum err_code evaluate_run(const struct world *w, const struct evaluate_opts *o,
                                     struct thread_pool *pool, evaluate_progress_fn *progress, void *ctx,
                                     struct evaluate_result **out, struct err *e);
void evaluate_free(struct evaluate_result *r);
/* What a reader of the figures has to know beside them, a line each. */
void evaluate_remarks(const struct world *w, const struct evaluate_result *r, struct buf *lines);

/* "hpa", "hpa+guard", "hpa:published", "hpa:gpu=0.7,down_window=55min", "oracle", "p.safetensors" -> contender, not
 * run yet.  Errors: ERR_MISSING for an unknown policy or option (names the nearest), ERR_PARSE, ERR_RANGE. */
NODISCARD enum err_code contender_parse(const char *text, struct contender *out, struct err *e);
/* A configuration of this contender for one thread; *l holds its networks and is released by the caller. */
NODISCARD enum err_code contender_config(const struct contender *c, const struct world *w, struct learned *l,
                                         struct capacity_config *cfg, struct err *e);
/* Names of the seeds of training and tuning: apart from those of evaluation whatever the user asks for. */
uint64_t train_seed(uint64_t seed);

#endif
