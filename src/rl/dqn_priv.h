/* dqn_priv.h - state of the trainer, shared by dqn.c, dqn_act.c and dqn_save.c. */
#ifndef RL_DQN_PRIV_H
#define RL_DQN_PRIV_H

#include "base/thread.h"
#include "rl/dqn.h"
#include "rl/dqn_update.h"
#include "rl/persist.h"
#include "rl/rollout.h"

/* Scratch of one shard of lanes, and what it adds to the figures. */
struct dqn_shard {
    int begin, end; /* lanes */
    struct nn_ws *ws;
    struct nn_norm_acc *acc;
    float *scaled, *q; /* [lanes][obs_dim], [lanes][n_actions] */
    double reward_sum, cost_sum, return_sum, length_sum, disc_sum, disc_sq;
    int64_t n_episodes;
    bool masked;
    int bad_lane; /* -1, or a lane whose environment misbehaved */
    const char *bad_field;
};

/* The lanes as the last step left them; checkpointed, but for scratch. */
struct dqn_lanes {
    bool started;
    float *obs, *final_obs, *reward,
        *cost; /* final_obs, reward, cost, end, action: scratch of a step */
    uint8_t *mask, *end;
    int32_t *action;
    double *discounted, *episode_return, *episode_length;
};

struct dqn {
    struct dqn_cfg cfg;
    struct rl_venv venv;
    struct nn_net *net, *target;
    struct nn_norm norm;
    struct reward_norm reward_norm;
    struct thread_pool *pool;
    struct replay replay;
    struct dqn_lanes lanes;
    struct dqn_shard shard[ROLLOUT_SHARDS_MAX];
    int n_shards;
    uint64_t act_key;
    struct dqn_update update;
    int64_t iteration, steps, episodes, updates; /* checkpointed */
};

NODISCARD enum err_code dqn_act_init(struct dqn *d, struct err *e);
void dqn_act_fini(struct dqn *d);
/* n_steps of every lane into the replay; folds what was seen into norm and reward_norm; fills the
 * figures of s that concern the lanes.  Errors: as dqn_train. */
NODISCARD enum err_code dqn_act_run(struct dqn *d, float epsilon, struct dqn_stats *s,
                                    struct err *e);

extern const struct rl_field dqn_fields[];
extern const int dqn_n_fields;

#endif
