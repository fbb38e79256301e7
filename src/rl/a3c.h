/* a3c.h - asynchronous advantage actor-critic (Mnih et al. 2016) over a vector of environments.
 *
 * n_threads workers own the lanes in equal parts.  Each repeats: copy the shared parameters, take
 * n_steps with every lane of its own, compute the gradient of  -A log p(action) - e H(p) + v/2 (V -
 * R)^2  on its copy, and apply it to the shared parameters, which others have moved meanwhile.  One
 * mutex guards what is shared; rollouts and gradients, nearly all of the work, run outside it.
 * Unlike the paper: a lock and shared Adam where it has lock-free RMSProp (a step costs
 * microseconds beside milliseconds of rollout, and has no data race); several lanes per worker; GAE
 * (gae_lambda 1: its n-step returns).
 *
 * NOT deterministic with more than one worker: who comes first depends on the machine, and the
 * number of threads changes the result.  docs/rl.md reports the spread.  With one worker the bits
 * are the seed's. Observations and rewards are scaled by the statistics of all workers together, as
 * each last saw them.
 *
 * STABLE: the functions; fields may be added to the configuration (start from a3c_cfg_default). */
#ifndef RL_A3C_H
#define RL_A3C_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "nn/net.h"
#include "nn/norm.h"
#include "nn/safetensors.h"
#include "rl/venv.h"

struct a3c_cfg {
    enum nn_shape shape; /* NN_SEPARATE */
    int n_hidden;        /* 64 */
    int n_steps;         /* 16 per lane and update */
    int seq_steps;       /* NN_LSTM: 16; n_steps must be a multiple */
    int64_t total_steps; /* environment steps of all workers; learning rate and entropy anneal over
                            it */
    float lr, lr_final;  /* 1e-3 -> 0 linearly */
    float value_coef;    /* 0.5 */
    float entropy, entropy_final; /* 0.01 -> 0 */
    float max_grad_norm;          /* 0.5 */
    float gamma, gae_lambda;      /* 0.99, 0.95 */
    float cost_price;             /* 0: learns from reward - cost_price * cost */
    bool norm_obs, norm_reward;   /* true; the first rollout of each worker only collects them */
    int report_steps;             /* 2048 environment steps between two calls of the hook */
    int n_threads;                /* 1 worker each; at most one per lane */
    uint64_t seed;
};
struct a3c_cfg a3c_cfg_default(void);

/* Figures of all workers since the last report. */
struct a3c_stats {
    int64_t iteration, steps, episodes, updates; /* so far */
    double mean_reward, mean_cost;               /* per step */
    double episode_return, episode_len;          /* mean over episodes that ended; NaN if none */
    double policy_loss, value_loss, entropy, grad_norm;
    double staleness; /* updates by others between a worker's copy and its own update, mean */
    double lr;
};

/* Called under the lock by the worker that completed a report, so never twice at once; the threads
 * differ.  Must not call a3c_*.  Returning false makes every worker stop and drop the rollout it is
 * at. */
typedef bool a3c_hook_fn(void *ctx, const struct a3c_stats *s);

struct a3c;

/* venv->env must outlive the trainer (venv itself is copied).  Errors: ERR_RANGE naming the field,
 * ERR_NOMEM. */
NODISCARD enum err_code a3c_new(const struct a3c_cfg *cfg, const struct rl_venv *venv,
                                struct a3c **out, struct err *e);
void a3c_free(struct a3c *a);
/* Trains until cfg.total_steps or until the hook (may be NULL) says stop; the last update may
 * overshoot by its rollout, later ones are dropped.  Errors: as ppo_train, with worker, update and
 * the lane within the worker; one stops all. */
NODISCARD enum err_code a3c_train(struct a3c *a, a3c_hook_fn *hook, void *ctx, struct err *e);
bool a3c_done(const struct a3c *a);

/* Policy, moments, statistics and counters.  Keys "a3c.*" and "nn.*" are ours.  Resuming goes on
 * from the same parameters with fresh episodes: exact bits are not promised by this algorithm
 * anyway. */
NODISCARD enum err_code a3c_save(const struct a3c *a, const char *path, const struct st_meta *meta,
                                 int n_meta, const struct st_tensor *extra, int n_extra,
                                 struct err *e);
/* Errors: ERR_MISMATCH naming what differs; after an error a is good for a3c_free only. */
NODISCARD enum err_code a3c_load(struct a3c *a, const char *path, const struct st_meta *expect,
                                 int n_expect, struct err *e);

/* Borrowed: the shared network and normaliser, while no a3c_train runs. */
const struct nn_net *a3c_net(const struct a3c *a);
const struct nn_norm *a3c_norm(const struct a3c *a);

#endif
