/* ppo.h - proximal policy optimisation (Schulman et al. 2017) over a vector of environments.
 *
 * Each iteration: every lane takes n_steps steps; advantages by GAE (or windowed credit); `epochs`
 * passes over the rows in shuffled minibatches with the clipped objective, an entropy bonus that
 * decays, and a stop when the policy moved further than target_kl.  Observations are normalised
 * with running statistics that are frozen within an iteration; the first rollout only collects
 * them.
 *
 * Constraint mode ("least reward lost with a mean cost of at most cost_limit"): a second critic
 * output estimates the cost, the policy follows (A_reward - lambda A_cost) / (1 + lambda), lambda
 * moves by dual ascent on the measured mean cost.  See docs/rl.md for why a second critic and not a
 * combined reward.
 *
 * Determinism: lanes are cut into a fixed number of shards, minibatches too; sums run in shard
 * order. Same configuration and seed, same bits for any n_threads, and after any number of
 * interruptions.
 *
 * STABLE: the functions; fields may be added to the configuration (start from ppo_cfg_default). */
#ifndef RL_PPO_H
#define RL_PPO_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "nn/net.h"
#include "nn/norm.h"
#include "nn/safetensors.h"
#include "rl/venv.h"

enum ppo_credit { PPO_CREDIT_STEP, PPO_CREDIT_WINDOW };

struct ppo_cfg {
    enum nn_shape shape; /* NN_SEPARATE */
    int n_hidden;        /* 64 */
    int n_steps;         /* 64 per lane and iteration; n_steps * n_lanes should be 2048 or more */
    int minibatch;       /* rows, 0: the whole batch; default 2048 */
    int epochs;          /* 4 */
    int seq_steps;       /* NN_LSTM: 16; n_steps must be a multiple */
    int64_t total_steps; /* environment steps; learning rate and entropy anneal over them */
    float lr, lr_final;  /* 3e-4 -> 0 linearly */
    float clip;          /* 0.2 */
    float value_clip;    /* 0: off */
    bool bf16_grad;      /* true: backward products in bfloat16, sums in float (nn/gemm.h) */
    float value_coef;    /* 0.5 */
    float entropy, entropy_final; /* 0.01 -> 0 */
    float max_grad_norm;          /* 0.5 */
    float target_kl;              /* 0.02: the epoch loop stops above 1.5 times it; 0: never */
    float gamma, gae_lambda;      /* 0.99, 0.95 */
    bool norm_obs;                /* true */
    bool norm_reward;             /* true: divide by the running deviation of discounted sums */

    bool constrained; /* false */
    float cost_limit; /* mean of cost per step, e.g. 0.01 */
    float dual_init;  /* 1: price of one unit of cost in units of reward */
    /* Each iteration, with x = clamp(mean cost / limit - 1, -1, 3): price *= exp(dual_rate x), and
     * lambda = price * exp(dual_gain x), which damps the swing around the limit. */
    float dual_rate;          /* 0.05 */
    float dual_gain;          /* 1 */
    float dual_smooth;        /* 0.8: weight of the past in the mean cost that steers lambda */
    float dual_min, dual_max; /* 1e-3, 1e4 */

    enum ppo_credit credit; /* PPO_CREDIT_STEP */
    int window;             /* 20 */

    const float *logit_bias; /* [n_actions], initial, or NULL; read by ppo_new only */
    float kl_prior;          /* weight of KL(policy || softmax of logit_bias); 0: off */

    int n_threads; /* 1; never changes the result */
    uint64_t seed;
};
struct ppo_cfg ppo_cfg_default(void);

/* Figures of one iteration, for progress lines and warnings. */
struct ppo_stats {
    int64_t iteration, steps, episodes;
    double mean_reward, mean_cost;      /* per step, of this rollout */
    double episode_return, episode_len; /* means of episodes that ended here; NaN if none did */
    double policy_loss, value_loss, cost_value_loss, entropy, kl, clip_frac;
    double explained_variance, grad_norm;
    double lambda, lr;
    int epochs_done;
    double rollout_s, update_s; /* wall clock, display only */
};

/* Called after every iteration; returning false ends ppo_train cleanly (save afterwards and resume
 * later). */
typedef bool ppo_hook_fn(void *ctx, const struct ppo_stats *s);

struct ppo;

/* venv->env must outlive the trainer (venv itself is copied).  Errors: ERR_RANGE naming the field,
 * ERR_NOMEM. */
NODISCARD enum err_code ppo_new(const struct ppo_cfg *cfg, const struct rl_venv *venv,
                                struct ppo **out, struct err *e);
void ppo_free(struct ppo *p);
/* Trains until cfg.total_steps or until the hook (may be NULL) says stop.
 * Errors: ERR_NUMERIC with iteration and tensor. */
NODISCARD enum err_code ppo_train(struct ppo *p, ppo_hook_fn *hook, void *ctx, struct err *e);
/* True when total_steps are done. */
bool ppo_done(const struct ppo *p);

/* Writes policy and the full training state, atomically.  meta: the caller's provenance, e.g.
 * {"layout", hash}, {"data", hashes}, {"config", text}; keys starting with "ppo." or "nn." are
 * ours.  extra: vectors of the caller's to keep in the same file, e.g. of another network; may be
 * NULL with n_extra 0. The bytes depend on configuration, seed and steps done only. */
NODISCARD enum err_code ppo_save(const struct ppo *p, const char *path, const struct st_meta *meta,
                                 int n_meta, const struct st_tensor *extra, int n_extra,
                                 struct err *e);
/* Continues from a file written by ppo_save, into a trainer made by ppo_new with the same
 * configuration (n_threads may differ) on the same build and CPU level.  expect: metadata that must
 * be equal. Errors: ERR_MISMATCH naming what differs; after an error p is good for ppo_free
 * only. */
NODISCARD enum err_code ppo_load(struct ppo *p, const char *path, const struct st_meta *expect,
                                 int n_expect, struct err *e);

/* Borrowed: the current network and normaliser (valid until the next call on p). */
const struct nn_net *ppo_net(const struct ppo *p);
const struct nn_norm *ppo_norm(const struct ppo *p);

#endif
