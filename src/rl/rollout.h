/* rollout.h - fixed-length experience of a vector of environments, and the collector that fills it.
 *
 * Rows are step-major: row = step * n_lanes + lane.  Lanes are cut into shards of 32 (two from 16
 * lanes on), at most ROLLOUT_SHARDS_MAX, a number that depends on n_lanes only; one thread works on
 * a shard at a time. Actions are drawn with a hash of (seed, step, lane), so neither threads nor
 * interruptions move them.
 *
 * STABLE; A2C and others may use it. */
#ifndef RL_ROLLOUT_H
#define RL_ROLLOUT_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "base/thread.h"
#include "nn/net.h"
#include "nn/norm.h"
#include "rl/replica.h"
#include "rl/venv.h"

enum { ROLLOUT_SHARDS_MAX = 8, ROLLOUT_VALUES_MAX = 2 };

struct rollout {
    int n_steps, n_lanes, n_rows, obs_dim, n_actions, n_values, state_dim;
    float *obs;      /* [n_rows][obs_dim], normalised: what the network saw */
    uint8_t *mask;   /* [n_rows][n_actions] */
    int32_t *action; /* [n_rows] */
    float *logp;     /* [n_rows], log-probability of the action when it was drawn */
    float *reward;   /* [n_rows], as the environment gave it */
    float *cost;     /* [n_rows] */
    uint8_t *end;    /* [n_rows], enum rl_end */
    uint8_t *reset;  /* [n_rows], 1: an episode starts at this row (recurrent state is zero) */
    float *state0; /* [n_rows][state_dim], state before the row; only rows whose step is a multiple
                      of seq_steps */
    float *value[ROLLOUT_VALUES_MAX]; /* [n_rows] each: outputs of the critics */
    float *boot[ROLLOUT_VALUES_MAX];  /* [n_rows]: value of the final observation where truncated */
    float *last[ROLLOUT_VALUES_MAX];  /* [n_lanes]: value after the last step */

    /* Figures of this rollout. */
    double reward_sum, cost_sum, return_sum, length_sum;
    int64_t n_episodes;
};

NODISCARD enum err_code rollout_new(const struct rl_venv *venv, int n_steps, int n_values,
                                    int state_dim, struct rollout **out, struct err *e);
void rollout_free(struct rollout *r);

/* Running deviation of the discounted sum of rewards, by which rewards are divided. */
struct reward_norm {
    double count, mean, m2;
};
float reward_norm_scale(const struct reward_norm *n); /* 1 / deviation; 1 before any data */

/* Everything about the lanes that outlives a rollout; all of it is checkpointed. */
struct collector {
    const struct rl_venv *venv;
    struct nn_norm *norm; /* borrowed; NULL: observations are used raw */
    uint64_t action_key;  /* random stream of the draws */
    float gamma;          /* of the discounted sums */
    int seq_steps;        /* how often the recurrent state is kept */
    int n_shards, state_dim;
    int64_t step; /* vector steps so far */
    bool started;
    float *obs, *final_obs;                               /* [n_lanes][obs_dim], raw */
    uint8_t *mask, *reset;                                /* [n_lanes][n_actions], [n_lanes] */
    float *state;                                         /* [n_lanes][state_dim] */
    double *discounted, *episode_return, *episode_length; /* [n_lanes] */
    struct reward_norm reward_norm;
    struct shard *shard; /* [n_shards] scratch */
    struct replicas *replicas; /* borrowed; each thread acts by its own copy of the network; NULL: all by net */
};

/* net gives the sizes only.  Errors: ERR_NOMEM.  Release with collector_fini. */
NODISCARD enum err_code collector_init(struct collector *c, const struct rl_venv *venv,
                                       const struct nn_net *net, struct nn_norm *norm,
                                       uint64_t seed, float gamma, int seq_steps, struct err *e);
void collector_fini(struct collector *c);
/* Fills r with n_steps of every lane (the first call resets the environments), then folds what was
 * seen into norm and reward_norm.  Errors: ERR_NUMERIC naming lane and field when the environment
 * returns a number that is not finite; ERR_INVAL when a mask allows nothing. */
NODISCARD enum err_code collector_run(struct collector *c, const struct nn_net *net,
                                      struct thread_pool *pool, struct rollout *r, struct err *e);

#endif
