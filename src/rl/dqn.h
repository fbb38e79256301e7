/* dqn.h - deep Q-learning (Mnih et al. 2015) with the double estimator (van Hasselt et al. 2016).
 *
 * Each iteration: every lane takes n_steps steps, epsilon-greedily among the allowed actions; the
 * transitions enter the replay; then one gradient step per update_every transitions on `batch` rows
 * drawn from it, against a target network that is replaced every target_every steps.  Masked
 * actions are neither taken nor part of the target's max.  Episodes that terminate bootstrap from
 * nothing, truncated ones from final_obs; where masks are in use truncated rows are left out
 * (replay.h says why).  Feed-forward only: a replay of single transitions has no recurrent state.
 *
 * Determinism: as ppo.h.  Same configuration and seed, same bits for any n_threads, and after any
 * number of interruptions if the replay was saved.
 *
 * The policy file is a network of Q values (in units of the scaled reward): nn_policy_act takes the
 * best allowed action; the probabilities it reports are a softmax of Q and mean nothing here.
 *
 * STABLE: the functions; fields may be added to the configuration (start from dqn_cfg_default). */
#ifndef RL_DQN_H
#define RL_DQN_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "nn/net.h"
#include "nn/norm.h"
#include "nn/safetensors.h"
#include "rl/venv.h"

struct dqn_cfg {
    int n_hidden;        /* 64: two hidden layers of relu */
    int n_steps;         /* 4 per lane and iteration */
    int64_t total_steps; /* environment steps to train for; the learning rate anneals over it */
    int replay_capacity; /* 100000 transitions; rounded down to whole vector steps */
    int learn_start;     /* 1000 transitions before the first gradient step */
    int batch;           /* 128 */
    int update_every;    /* 4 transitions per gradient step */
    int target_every;    /* 100 gradient steps between copies to the target network */
    float lr, lr_final;  /* 1e-3 -> 0 linearly */
    float huber_delta;   /* 1 */
    float max_grad_norm; /* 10 */
    float gamma;         /* 0.99 */
    float epsilon, epsilon_final; /* 0.3 -> 0.05 linearly ... */
    float epsilon_frac;           /* ... over this part of total_steps, 0.5 */
    float cost_price;             /* 0: learns from reward - cost_price * cost */
    bool norm_obs;    /* true: running statistics, as ppo.h; applied when rows are drawn */
    bool norm_reward; /* true: rewards are divided by a running deviation, as ppo.h */
    int n_threads;    /* 1; never changes the result */
    uint64_t seed;
};
struct dqn_cfg dqn_cfg_default(void);

/* Figures of one iteration. */
struct dqn_stats {
    int64_t iteration, steps, episodes, updates; /* so far */
    double mean_reward, mean_cost;               /* per step, of this iteration */
    double episode_return, episode_len; /* mean over episodes that ended in it; NaN if none */
    double loss, q, grad_norm;          /* means over its gradient steps; NaN if none */
    double epsilon, lr;
    int64_t replay_rows;
    double collect_s, update_s; /* wall clock, display only */
};

/* Called after every iteration; returning false ends dqn_train cleanly. */
typedef bool dqn_hook_fn(void *ctx, const struct dqn_stats *s);

struct dqn;

/* venv->env must outlive the trainer (venv itself is copied).  Errors: ERR_RANGE naming the field,
 * ERR_NOMEM. */
NODISCARD enum err_code dqn_new(const struct dqn_cfg *cfg, const struct rl_venv *venv,
                                struct dqn **out, struct err *e);
void dqn_free(struct dqn *d);
/* Trains until cfg.total_steps or until the hook (may be NULL) says stop.  Errors: ERR_NUMERIC with
 * iteration and tensor, or lane and field of an environment that misbehaves; ERR_INVAL when a mask
 * allows nothing. */
NODISCARD enum err_code dqn_train(struct dqn *d, dqn_hook_fn *hook, void *ctx, struct err *e);
bool dqn_done(const struct dqn *d);

struct dqn_save_opts {
    bool replay; /* keep the replay: the file resumes exactly.  Without it, or without venv.save, it
                    cannot be resumed. */
    const struct st_meta *meta; /* the caller's provenance; keys "dqn.*" and "nn.*" are ours */
    int n_meta;
    const struct st_tensor *extra; /* vectors of the caller's to keep in the same file */
    int n_extra;
};
/* Atomic.  With the replay the file holds, per transition, 2 n_obs floats, n_actions bytes and 9
 * bytes: 100 000 transitions of 40 observations and 11 actions are 34 MB; the policy alone is under
 * 100 kB.  Errors: those of st_write; ERR_LIMIT above its largest file. */
NODISCARD enum err_code dqn_save(const struct dqn *d, const char *path,
                                 const struct dqn_save_opts *o, struct err *e);
/* Continues from a file saved with its replay, into a trainer of the same configuration (n_threads
 * may differ) on the same build and CPU level.  Errors: ERR_MISMATCH naming what differs, ERR_RANGE
 * for values that cannot be; after an error d is good for dqn_free only. */
NODISCARD enum err_code dqn_load(struct dqn *d, const char *path, const struct st_meta *expect,
                                 int n_expect, struct err *e);

/* Borrowed: the current network (its logits are Q values) and normaliser. */
const struct nn_net *dqn_net(const struct dqn *d);
const struct nn_norm *dqn_norm(const struct dqn *d);

#endif
