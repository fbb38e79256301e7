/* ppo_loss.h - the clipped objective and its derivative, sixteen rows at a time.
 *
 *     L = -min(r A, clip(r, 1 - c, 1 + c) A) - e H + k KL(p || prior) + v/2 sum over critics (V -
 * R)^2
 *
 * with r = p(action) / p_old(action) (Schulman et al. 2017, eq. 7 and 9).  With value_clip > 0 the
 * value term is the larger of the plain error and that of V clipped around its old value.
 * The slow form beside the fast one: ppo_loss_reference() in double. */
#ifndef RL_PPO_LOSS_H
#define RL_PPO_LOSS_H

#include <stdint.h>

#include "nn/net.h"
#include "rl/rollout.h"

enum { PPO_ACTIONS_MAX = 256 };

struct ppo_loss {
    int n_actions, n_values;
    const int32_t *action; /* all by row */
    const uint8_t *mask;   /* [rows][n_actions] */
    const float *logp_old;
    const float *adv; /* normalised */
    const float *ret[ROLLOUT_VALUES_MAX], *value_old[ROLLOUT_VALUES_MAX];
    float clip, value_clip, value_coef, entropy_coef, kl_prior;
    const float *prior; /* [n_actions] logits of the prior; used when kl_prior > 0 */
    float weight;       /* 1 / rows of the minibatch */

    /* Sums over the rows seen; the caller clears and divides them. */
    double policy_loss, value_loss[ROLLOUT_VALUES_MAX], entropy, kl, clipped;
};

/* nn_loss_fn; ctx is a struct ppo_loss. */
void ppo_loss(void *ctx, const struct nn_tile *tile);
/* The same in double, one row at a time, through the C library's functions. */
void ppo_loss_reference(void *ctx, const struct nn_tile *tile);

#endif
