/* reward.h - what a step is worth: fixed-weight presets and their terms (docs/train.md).
 *
 *     reward = - alpha * min(cap, max(0, p99 - target) / target)      latency
 *              - beta  * units * price * dt / price_ref               cost
 *              + kappa * [held, and within target]                    hold
 *              - delta * |executed change|                            churn
 *
 * cost is in steps of the reference price (the mean demand served at 70 % use), so a step of
 * a well-sized service costs about beta.  Rewards use what was executed, never what was proposed. */
#ifndef TRAIN_REWARD_H
#define TRAIN_REWARD_H

#include <stdbool.h>
#include <stdint.h>

#include "base/opt.h"

enum reward_preset { REWARD_SLO, REWARD_BALANCED, REWARD_LATENCY, REWARD_COST, REWARD_REFERENCE, REWARD_PRESETS };

struct reward_weights {
    double alpha, cap, beta, kappa, delta;
    bool alpha_per_ms;   /* reference: alpha per millisecond over target, without cap */
    bool beta_per_unit;  /* reference: beta per unit-step, whatever the price */
};

struct reward_terms {
    double latency, cost, hold, churn; /* signed; their sum is the reward */
};

extern const char *const reward_preset_names[REWARD_PRESETS + 1];
struct reward_weights reward_weights_of(enum reward_preset preset);

struct reward_input {
    double p99_ms, target_ms;
    double units, price_usd_h, price_ref_usd_h;
    int change; /* executed, units */
};
struct reward_terms reward_of(const struct reward_weights *w, const struct reward_input *in);

static inline double reward_sum(const struct reward_terms *t)
{
    return t->latency + t->cost + t->hold + t->churn;
}

#endif
