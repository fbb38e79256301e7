/* dqn_update.h - the learning half of DQN: one gradient step on rows drawn from the replay.
 *
 *     y = r + gamma (1 - terminated) Q_target(s', argmax over allowed a of Q(s', a))     (van
 * Hasselt et al. 2016, eq. 4) L = mean of huber(Q(s, a) - y)
 *
 * The batch is cut into DQN_SHARDS parts, always the same; one thread draws, normalises, computes
 * targets and gradient of a part; the sums are added in order, then Adam takes one step. */
#ifndef RL_DQN_UPDATE_H
#define RL_DQN_UPDATE_H

#include <stdint.h>

#include "base/err.h"
#include "base/thread.h"
#include "nn/adam.h"
#include "nn/net.h"
#include "nn/norm.h"
#include "rl/replay.h"

enum { DQN_SHARDS = 4, DQN_ACTIONS_MAX = 256 };

/* Scalars of one part's loss: an nn_loss_fn's context. */
struct dqn_loss {
    int n_actions;
    const int32_t *action; /* [rows] */
    const float *target;   /* [rows], y */
    const float *weight;   /* [rows], 0 or 1 / rows of the batch */
    float huber_delta;     /* the loss is linear beyond it */
    double loss, q;        /* sums of weight * loss and weight * Q(s, a); the caller clears them */
};
/* nn_loss_fn; ctx is a struct dqn_loss. */
void dqn_loss(void *ctx, const struct nn_tile *tile);

/* y of one transition.  q, q_target: [n_actions], of s' by the online and the target network; mask:
 * allowed there. */
float dqn_target(float reward, float gamma, int end, const float *q, const float *q_target,
                 const uint8_t *mask, int n_actions);

struct dqn_part {
    int begin, n;        /* rows of the batch */
    float *q, *q_target; /* [n][n_actions] */
    struct nn_ws *sums;
    struct dqn_loss loss;
};

struct dqn_update {
    struct nn_net *net;          /* borrowed */
    const struct nn_net *target; /* borrowed */
    struct thread_pool *pool;    /* borrowed, may be NULL; its size sets the number of scratches */
    const struct replay *replay;
    const struct nn_norm *norm; /* borrowed; NULL: observations are used raw */
    struct nn_adam adam;
    int batch;
    float lr, gamma, huber_delta, reward_scale;
    uint64_t draw_key;

    struct dqn_part part[DQN_SHARDS];
    struct nn_ws **scratch; /* [n_scratch] */
    int n_scratch;
    int64_t update;           /* number of the step at work */
    float *obs, *next_obs;    /* [batch][obs_dim], normalised */
    uint8_t *next_mask;       /* [batch][n_actions] */
    int32_t *row;             /* [batch], of the replay */
    int32_t *action;          /* [batch] */
    uint8_t *end;             /* [batch] */
    float *target_y, *weight; /* [batch] */
};

struct dqn_update_stats {
    double loss, q, grad_norm;
};

NODISCARD enum err_code dqn_update_init(struct dqn_update *u, struct nn_net *net,
                                        const struct nn_net *target, struct thread_pool *pool,
                                        const struct replay *replay, int batch, struct err *e);
void dqn_update_fini(struct dqn_update *u);
/* Step number `update` ever: it decides which rows are drawn.  The replay must not be empty.
 * Errors: ERR_NUMERIC naming a tensor. */
NODISCARD enum err_code dqn_update_run(struct dqn_update *u, int64_t update,
                                       struct dqn_update_stats *out, struct err *e);

#endif
