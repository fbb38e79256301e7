/* env.h - capacity environments for learners: many lanes of one world behind rl/venv.h.
 *
 * A lane is a simulator, a view and a decision state; its observation, mask and commit are the very
 * functions that decide live.  An episode is one day from a random step of the training part under
 * one of the noise seeds; it is truncated, never terminated.  Before it the lane runs an hour under
 * the base policy (or a plain rule) so that averages and timers are in use.  In half of the
 * episodes the objective weights are drawn, so the policy learns to follow them (log-uniform in 1/2
 * .. 2). reward: reward.h with the preset's weights; cost: 1 where p99 was over target, times
 * weight_latency. */
#ifndef TRAIN_ENV_H
#define TRAIN_ENV_H

#include "base/err.h"
#include "decide/capacity.h"
#include "rl/venv.h"
#include "train/reward.h"
#include "train/world.h"

struct capacity_env;

struct capacity_env_opts {
    int n_lanes;
    int32_t from, to;      /* steps episodes may cover; inside the training part */
    int32_t episode_steps; /* 0: one day */
    struct reward_weights weights;
    bool draw_weights;
    uint64_t seed;
};
struct capacity_env_opts capacity_env_opts_default(const struct world *w);

/* cfg: finished; with an outlook, each lane gets a workspace of its own on the same network.
 * All pointers are borrowed and must outlive the environment.  Errors: ERR_RANGE, ERR_NOMEM. */
NODISCARD enum err_code capacity_env_new(const struct world *w, struct chance *const *chance,
                                         int n_chances, const struct capacity_config *cfg,
                                         const struct capacity_env_opts *o,
                                         struct capacity_env **out, struct err *e);
void capacity_env_free(struct capacity_env *env);
struct rl_venv capacity_env_venv(struct capacity_env *env);

/* Sums of the reward's terms over all steps so far, for warnings. */
struct reward_terms capacity_env_terms(const struct capacity_env *env);

#endif
