#include "train/reward.h"

#include <math.h>
#include <stdlib.h>

const char *const reward_preset_names[REWARD_PRESETS + 1] = {"slo", "balanced", "latency", "cost", "reference",
                                                             NULL};

struct reward_weights reward_weights_of(enum reward_preset preset)
{
    static const struct reward_weights table[REWARD_PRESETS] = {
        /* slo: the constraint carries latency; only a bounded shaping term stays in the reward */
        [REWARD_SLO] = {.alpha = 0.1, .cap = 1, .beta = 1, .kappa = 0, .delta = 0.5},
        [REWARD_BALANCED] = {.alpha = 5, .cap = 2, .beta = 1, .kappa = 0.02, .delta = 0.005},
        [REWARD_LATENCY] = {.alpha = 20, .cap = 2, .beta = 1, .kappa = 0.02, .delta = 0.005},
        [REWARD_COST] = {.alpha = 1.5, .cap = 2, .beta = 1, .kappa = 0.02, .delta = 0.005},
        [REWARD_REFERENCE] = {.alpha = 1, .cap = INFINITY, .beta = 0.01, .kappa = 0.1, .delta = 0,
                              .alpha_per_ms = true, .beta_per_unit = true},
    };
    return table[preset];
}

struct reward_terms reward_of(const struct reward_weights *w, const struct reward_input *in)
{
    double over_ms = in->p99_ms > in->target_ms ? in->p99_ms - in->target_ms : 0, over = over_ms;
    if (over_ms > 0 && !w->alpha_per_ms) {
        over /= in->target_ms;
        over = over < w->cap ? over : w->cap;
    }
    double cost = w->beta_per_unit ? in->units : in->units * in->price_usd_h / in->price_ref_usd_h;
    return (struct reward_terms){
        .latency = -w->alpha * over,
        .cost = -w->beta * cost,
        .hold = in->change == 0 && over_ms <= 0 ? w->kappa : 0,
        .churn = -w->delta * abs(in->change),
    };
}
