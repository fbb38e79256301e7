/* a2c.h - synchronous advantage actor-critic (Mnih et al. 2016, the synchronous form) over a vector
 * of environments.
 *
 * Each iteration: every lane takes n_steps steps, then one gradient step on the whole batch of
 *
 *     L = -A log p(action) - e H(p) + v/2 (V - R)^2
 *
 * with A and R by GAE; gae_lambda 1 gives the n-step returns of the paper.
 *
 * It is PPO with one epoch and one minibatch: there p equals the policy that acted, the ratio is 1,
 * no clip is active, and the slope of the ratio is that of log p (Huang et al. 2022, "A2C is a
 * special case of PPO").  So a struct a2c is a PPO trainer held to these settings, and shares its
 * collector, losses, masks, truncation, constraint mode, determinism and exact resume; a test holds
 * its step to the formula above in double.  Unlike the paper: Adam instead of RMSProp, advantages
 * centred and scaled over the batch.
 *
 * STABLE: the functions; fields may be added to the configuration (start from a2c_cfg_default). */
#ifndef RL_A2C_H
#define RL_A2C_H

#include "rl/ppo.h"

struct a2c_cfg {
    enum nn_shape shape; /* NN_SEPARATE */
    int n_hidden;        /* 64 */
    int n_steps;         /* 16 per lane and iteration; batch = n_steps * n_lanes */
    int seq_steps;       /* NN_LSTM: 16; n_steps must be a multiple */
    int64_t
        total_steps; /* environment steps to train for; learning rate and entropy anneal over it */
    float lr, lr_final;           /* 2e-3 -> 0 linearly */
    float value_coef;             /* 0.5 */
    float entropy, entropy_final; /* 0.01 -> 0 */
    float max_grad_norm;          /* 0.5 */
    float gamma, gae_lambda;      /* 0.99, 0.95 */
    bool norm_obs, norm_reward;   /* true, as in ppo.h */
    bool constrained;             /* false; as in ppo.h */
    float cost_limit;             /* mean of cost per step */
    float dual_rate, dual_smooth; /* 0.002, 0.98: an iteration is shorter than PPO's, so the price
                                     moves less in each */
    const float *
        logit_bias; /* [n_actions] initial bias of the action head, or NULL; read by a2c_new only */
    int n_threads;  /* 1; never changes the result */
    uint64_t seed;
};
struct a2c_cfg a2c_cfg_default(void);

struct a2c;

/* As the functions of ppo.h.  Statistics have no meaning of their own for kl, clip_frac and
 * epochs_done here. */
NODISCARD enum err_code a2c_new(const struct a2c_cfg *cfg, const struct rl_venv *venv,
                                struct a2c **out, struct err *e);
void a2c_free(struct a2c *a);
NODISCARD enum err_code a2c_train(struct a2c *a, ppo_hook_fn *hook, void *ctx, struct err *e);
bool a2c_done(const struct a2c *a);
/* Keys "ppo.*", "nn.*" and "a2c.*" are ours: the file is PPO's (ppo_save.c) with the settings above
 * and "a2c.format". */
NODISCARD enum err_code a2c_save(const struct a2c *a, const char *path, const struct st_meta *meta,
                                 int n_meta, const struct st_tensor *extra, int n_extra,
                                 struct err *e);
NODISCARD enum err_code a2c_load(struct a2c *a, const char *path, const struct st_meta *expect,
                                 int n_expect, struct err *e);
const struct nn_net *a2c_net(const struct a2c *a);
const struct nn_norm *a2c_norm(const struct a2c *a);

#endif
