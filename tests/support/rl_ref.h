/* rl_ref.h - slow doubles beside the fast networks, a recording environment, and greedy play. */
#ifndef TESTS_SUPPORT_RL_REF_H
#define TESTS_SUPPORT_RL_REF_H

#include <stdbool.h>
#include <stdint.h>

#include "nn/net.h"
#include "nn/norm.h"
#include "rl/venv.h"
#include "tests/support/rl_env.h"

/* A copy of a feed-forward network's parameters in double, in the layout of the parameter table. */
struct ref_net {
    const struct nn_net *net; /* sizes and names only */
    double *value;
};
struct ref_net ref_net_new(const struct nn_net *net);
void ref_net_free(struct ref_net *r);
/* Outputs for one row; either may be NULL. */
void ref_forward(const struct ref_net *r, const float *obs, double *logits, double *values);
/* Log-probabilities of the allowed actions; returns the entropy. */
double ref_logp(const double *logits, const uint8_t *mask, int n_actions, double *logp);

/* Checks grad (layout of the table) against central differences of loss(ctx, r) in every
 * `stride`-th parameter. */
void ref_check_grad(struct ref_net *r, const float *grad, int stride,
                    double (*loss)(void *ctx, const struct ref_net *r), void *ctx);

/* An environment that writes down every step of an inner one, [step][lane]; for one thread. */
enum { TAPE_STEPS = 256, TAPE_SPOIL_FROM = 20 };
enum tape_spoil {
    TAPE_FINE,
    TAPE_BAD_REWARD,
    TAPE_BAD_COST,
    TAPE_BAD_OBS,
    TAPE_BAD_FINAL_OBS,
    TAPE_BAD_MASK
};
struct rl_tape {
    struct rl_venv inner;
    bool terminate;         /* says RL_TERMINATED where the inner one says RL_TRUNCATED */
    enum tape_spoil spoil;  /* what is wrong from the 20th step on */
    int n_steps;            /* recorded; steps beyond TAPE_STEPS are not */
    float *obs, *final_obs; /* obs: before the step; one more than n_steps */
    uint8_t *mask, *end;
    int32_t *action;
    float *reward, *cost;
};
struct rl_tape *rl_tape_new(const struct rl_venv *inner);
void rl_tape_free(struct rl_tape *t);
struct rl_venv rl_tape_venv(struct rl_tape *t); /* cannot be saved */

/* Mean return of the best action over n episodes, one each of the seeds from `seed` on; norm may be
 * NULL. */
double rl_play(const struct nn_net *net, const struct nn_norm *norm, enum test_env_kind kind,
               uint64_t seed, int n);
/* Outputs of a feed-forward network for one raw observation; either may be NULL. */
void rl_outputs(const struct nn_net *net, const struct nn_norm *norm, const float *obs,
                float *logits, float *values);

#endif
