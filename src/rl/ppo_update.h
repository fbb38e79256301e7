/* ppo_update.h - the learning half of PPO: epochs of shuffled minibatches over one rollout.
 *
 * A minibatch is cut into PPO_SHARDS parts, always the same, each with its own gradient sums; the
 * sums are added in order, then Adam takes one step.  Threads only decide who computes which
 * part. */
#ifndef RL_PPO_UPDATE_H
#define RL_PPO_UPDATE_H

#include "base/err.h"
#include "base/thread.h"
#include "nn/adam.h"
#include "nn/net.h"
#include "rl/ppo_loss.h"
#include "rl/rollout.h"

enum { PPO_SHARDS = 8, PPO_AHEAD = 4 /* epochs shuffled at once, by threads */ };

struct ppo_update {
    struct nn_net *net;       /* borrowed */
    struct thread_pool *pool; /* borrowed, may be NULL; its size sets the number of scratches */
    struct nn_adam adam;
    int minibatch, epochs, seq_steps; /* rows; 1 seq step unless recurrent */
    float lr, target_kl;
    struct ppo_loss loss; /* coefficients and inputs; sums unused */
    const struct rollout *rollout;
    uint64_t shuffle_key; /* of this iteration */

    struct nn_ws *sums[PPO_SHARDS]; /* gradient sums of each part */
    struct nn_ws **scratch;         /* [n_scratch], of each worker */
    int n_scratch;
    struct ppo_loss part[PPO_SHARDS];
    int32_t *orders; /* [PPO_AHEAD][n_order] first rows, shuffled, of the epochs from first_epoch on */
    int n_order, first_epoch;
    const int32_t *order; /* of the epoch at work */
    int begin, count; /* of the minibatch at work, in order[] */
};

/* Means over the rows of the last epoch run. */
struct ppo_update_stats {
    double policy_loss, value_loss[ROLLOUT_VALUES_MAX], entropy, kl, clip_frac, grad_norm;
    int epochs_done;
};

NODISCARD enum err_code ppo_update_init(struct ppo_update *u, struct nn_net *net,
                                        struct thread_pool *pool, const struct rollout *r,
                                        int seq_steps, struct err *e);
void ppo_update_fini(struct ppo_update *u);
/* Runs the epochs.  Errors: ERR_NUMERIC naming a tensor. */
NODISCARD enum err_code ppo_update_run(struct ppo_update *u, struct ppo_update_stats *out,
                                       struct err *e);

#endif
