/* a3c_priv.h - shared state and workers, for a3c.c, a3c_worker.c and a3c_save.c.
 *
 * Statistics.  A worker's normaliser counts its own rows only.  Under the lock it publishes them
 * into its part; the shared normaliser is the sum of all parts in order, part 0 being what a
 * checkpoint brought.  The scaling a worker applies (norm.shift, norm.scale) is then replaced by
 * the shared one. */
#ifndef RL_A3C_PRIV_H
#define RL_A3C_PRIV_H

#include <pthread.h>

#include "base/thread.h"
#include "nn/adam.h"
#include "rl/a3c.h"
#include "rl/persist.h"
#include "rl/ppo_loss.h"
#include "rl/rollout.h"

/* Statistics one worker has published. */
struct a3c_part {
    double count, *mean, *m2; /* of observations, [obs_dim] */
    uint64_t *hist;           /* [obs_dim][NN_NORM_BINS] */
    struct reward_norm reward;
};

/* Sums since the last report. */
struct a3c_sums {
    int64_t rows, episodes, updates;
    double reward, cost, returns, lengths, policy_loss, value_loss, entropy, grad_norm, staleness;
};

/* Lanes of one worker, numbered from 0, in front of the environment all workers share. */
struct a3c_lanes {
    struct rl_venv *inner;
    int first;                     /* lane of the inner environment */
    const struct rl_step_out *all; /* arrays over all lanes; each worker touches its own range */
    int32_t *action;               /* [all lanes] */
};

struct a3c_worker {
    struct a3c *a3c;
    struct a3c_lanes lanes;
    struct rl_venv venv;
    struct nn_net *net; /* own copy */
    struct nn_ws *ws;
    struct nn_norm norm;
    struct collector collector;
    struct rollout *rollout;
    float *scaled, *adv, *ret; /* [n_rows] */
    int32_t *first;            /* [n_rows / seq_steps], first rows of the sequences */
    struct ppo_loss loss;
    float reward_scale, lr;
    int64_t seen;     /* updates done when the parameters were copied */
    bool warm;        /* statistics were collected */
    enum err_code rc; /* of this worker */
    struct err err;
};

struct a3c {
    struct a3c_cfg cfg;
    struct rl_venv venv;
    struct thread_pool *pool;
    struct a3c_worker *worker; /* [cfg.n_threads] */
    struct rl_step_out all;
    int32_t *action;

    pthread_mutex_t mutex; /* guards everything below while workers run */
    bool mutex_ready;
    struct nn_net *net;
    struct nn_adam adam;
    struct nn_norm norm;
    struct reward_norm reward_norm;
    struct a3c_part *part; /* [1 + cfg.n_threads] */
    struct a3c_sums sums;
    int64_t iteration, steps, episodes, updates;
    bool stop;
    a3c_hook_fn *hook;
    void *ctx;
};

NODISCARD enum err_code a3c_worker_init(struct a3c *a, int i, struct err *e);
void a3c_worker_fini(struct a3c_worker *w);
/* Works until the shared state says stop; a function for parallel_for, arg is the struct a3c. */
void a3c_worker_run(size_t i, int thread, void *arg);
/* Recomputes norm and reward_norm from the parts; under the lock. */
void a3c_combine(struct a3c *a);

extern const struct rl_field a3c_fields[];
extern const int a3c_n_fields;

#endif
