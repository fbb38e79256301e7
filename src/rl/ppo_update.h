/* ppo_update.h - the learning half of PPO: epochs of shuffled minibatches over one rollout.
 *
 * A minibatch is cut into PPO_SHARDS parts, always the same, each with its own gradient sums; the
 * sums are added in order, then Adam takes one step.  Threads only decide who computes which
 * part.
 *
 * Little travels between cores.  Where the lanes allow it, part k draws its rows from the k-th group of lanes only
 * (every minibatch has the same share of each group), which the same thread collected; four parts are added up by
 * whoever finishes the last of them, mostly the thread that made all four; and every thread has its own copy of the
 * network (replica.h). */
#ifndef RL_PPO_UPDATE_H
#define RL_PPO_UPDATE_H

#include <stdatomic.h>

#include "base/err.h"
#include "base/mem.h"
#include "base/thread.h"
#include "nn/adam.h"
#include "nn/net.h"
#include "rl/ppo_loss.h"
#include "rl/replica.h"
#include "rl/rollout.h"

enum { PPO_SHARDS = 8, PPO_JOINED = 4 };

/* The loss of one part, apart from the others': their sums move with every row. */
struct ppo_part {
    _Alignas(MEM_ALIGN) struct ppo_loss loss;
};

struct ppo_update {
    struct nn_net *net;       /* borrowed */
    struct thread_pool *pool; /* borrowed, may be NULL; its size sets the number of scratches */
    struct nn_adam adam;
    int minibatch, epochs, seq_steps; /* rows; 1 seq step unless recurrent */
    float lr, target_kl;
    struct ppo_loss loss; /* coefficients and inputs; sums unused */
    const struct rollout *rollout;
    uint64_t shuffle_key; /* of this iteration */

    struct replicas *replicas;      /* one per scratch */
    struct nn_ws *sums[PPO_SHARDS]; /* gradient sums of each part */
    atomic_int missing[PPO_SHARDS / PPO_JOINED]; /* parts not yet done of each four */
    struct nn_ws **scratch;         /* [n_scratch], of each worker */
    int n_scratch;
    struct ppo_part *part; /* [PPO_SHARDS] */
    int n_groups;          /* of lanes: PPO_SHARDS, or 1 where they do not divide evenly */
    int32_t *order; /* [n_groups][n_order / n_groups] first rows of the epoch at work, shuffled within each group */
    int n_order, epoch;
    int begin, end; /* of the minibatch at work: in the orders of each group */
};

/* Means over the rows of the last epoch run; the gradient is that of its last minibatch. */
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
