/* learn.h - from a world to a policy file.
 *
 * What is learned:
 *     outlook  the demand distribution (outlook_fit.h), then its price of a miss and its holds, calibrated on the days
 *              held out from that fit, under the guard;
 *     auto     the same, set beside mpc calibrated on the same held-out days: mpc is kept where it is clearly
 *              cheaper (5 %), and the report gives both;
 *     ppo      a network that acts, alone or as a correction on a base policy (mpc, predictive, outlook),
 *              by trial in the simulator: least cost with at most tune_violation_max of steps over target
 *              (dual ascent), or a fixed-weight preset.
 * An interrupted run leaves a file that the same command continues, to the same bits as if it had never
 * stopped; the threads never change the result. */
#ifndef TRAIN_LEARN_H
#define TRAIN_LEARN_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "base/thread.h"
#include "rl/ppo.h"
#include "train/learned.h"
#include "train/outlook_fit.h"

enum learn_policy { LEARN_AUTO, LEARN_OUTLOOK, LEARN_PPO };

struct learn_opts {
    int policy;             /* enum learn_policy */
    int base;               /* enum ppo_base */
    int residual;           /* enum ppo_residual */
    double residual_step;
    int shape;              /* enum nn_shape */
    int objective;          /* enum reward_preset; REWARD_SLO is the constrained problem */
    int credit;             /* enum ppo_credit */
    int64_t steps;          /* environment steps of ppo */
    int64_t lanes, seeds;
    int64_t outlook_samples;
    double gamma, entropy, lr;
    uint64_t seed;
    int threads;
};

/* What stands where, for progress lines. */
struct learn_progress {
    const char *stage;      /* "forecasts", "outlook", "calibration", "comparing with mpc", "tuning the base", "ppo" */
    const char *unit;       /* of the two below: "samples", "runs", "seeds", "steps" */
    int64_t done, total;    /* total: at most that */
    double cost_usd_h, violation_frac, lambda, entropy, kl; /* ppo; NaN else */
};
/* Called often and from any thread, but one call at a time. */
typedef void learn_hook_fn(void *ctx, const struct learn_progress *p);

struct learn_calibration {
    double misses, cost_usd_h, reversals_per_day;
};

enum { LEARN_WARNINGS = 2048, LEARN_CURVE_MAX = 2000 };

struct learn_report {
    bool resumed;           /* continued from an interrupted file */
    bool finished;          /* false: interrupted, saved, to be continued */
    struct outlook_fit_report outlook; /* samples 0 without */
    struct learn_calibration own, rule; /* outlook and mpc on the held-out days; NaN without */
    const char *kept;       /* policy written */
    int64_t steps;          /* of ppo */
    double steps_per_s;     /* wall clock, display only */
    struct reward_terms terms; /* mean per step */
    int n_curve;            /* one point per iteration, thinned */
    double curve_steps[LEARN_CURVE_MAX], curve_cost_usd_h[LEARN_CURVE_MAX], curve_misses[LEARN_CURVE_MAX];
    char warnings[LEARN_WARNINGS]; /* lines */
};

/* Errors: ERR_MISMATCH when `path` holds an unfinished policy of another command (says what differs), those of
 * fitting, tuning and ppo. */
NODISCARD enum err_code learn_run(const struct world *w, const struct learn_opts *o, const char *path,
                                  learn_hook_fn *hook, void *ctx, struct learn_report *report, struct err *e);

#endif
