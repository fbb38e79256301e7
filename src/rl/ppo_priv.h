/* ppo_priv.h - state of the trainer, shared by ppo.c and ppo_save.c. */
#ifndef RL_PPO_PRIV_H
#define RL_PPO_PRIV_H

#include "base/mem.h"
#include "base/thread.h"
#include "rl/ppo.h"
#include "rl/ppo_update.h"
#include "rl/rollout.h"

/* Sums over the rows of one part of the lanes; left: of the returns that the critic did not foresee. */
struct credit_sums {
    _Alignas(MEM_ALIGN) double adv, adv_sq, ret, ret_sq, left, left_sq;
};

struct ppo {
    struct ppo_cfg cfg;
    struct rl_venv venv_copy;
    const struct rl_venv *venv; /* &venv_copy */
    struct nn_net *net;
    struct nn_norm norm;
    struct thread_pool *pool;
    struct collector collector;
    struct rollout *rollout;
    struct ppo_update update;
    float *scaled;                  /* [n_rows], rewards or costs in critic units */
    float *adv, *adv_cost;          /* [n_rows] */
    float *ret[ROLLOUT_VALUES_MAX]; /* [n_rows] */
    float *prior;                   /* [n_actions] logits the policy started from */
    struct credit_sums *sums;       /* [PPO_SHARDS] scratch of the advantages */
    double explained_variance;      /* of the newest returns by the critic */

    /* Progress; checkpointed. */
    int64_t iteration, steps, episodes;
    double lambda, integral,
        cost_mean; /* price in use; its ascended part; smoothed cost that steers both */
    bool warm;     /* statistics were collected */
};

/* Names, ranges and places of the numeric configuration, for checks and checkpoints. */
enum ppo_field_kind { PPO_INT, PPO_I64, PPO_U64, PPO_FLOAT, PPO_BOOL };
struct ppo_field {
    const char *name;
    enum ppo_field_kind kind;
    size_t offset;
    double min, max;
};
extern const struct ppo_field ppo_fields[];
extern const int ppo_n_fields;

#endif
