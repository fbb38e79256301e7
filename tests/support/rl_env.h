/* rl_env.h - small environments with known answers, for the learning tests. */
#ifndef TESTS_SUPPORT_RL_ENV_H
#define TESTS_SUPPORT_RL_ENV_H

#include <stdint.h>

#include "rl/venv.h"

/* The kinds.
 * cartpole  4 obs, 2 actions, reward 1 per step, ends at |x| > 2.4 or 12 degrees, truncated at 500
 *           (Barto, Sutton & Anderson 1983; constants of Gymnasium's CartPole-v1).
 * chain     8 states one-hot, start at 0; right moves on, reaching the end pays 1 and terminates;
 * left moves
 *           back, and pays 0.001 at state 0; truncated at 60.  Best: always right, value 0.99^(7 -
 * state) from the state one step before the end on. clock     1 constant obs, 1 action, reward 1,
 * truncated at 10: the value is 1 / (1 - gamma) all the same. tempting  1 obs, 2 actions: action 0
 * pays 1 and costs 1, action 1 pays 0; truncated at
 * 20. cue       2 obs: +-1 in the first step only, and 1 in the last of 6 steps, where action must
 * name the sign:
 *           1 if right.  Without memory 0.5 is best.
 * masked    3 obs, 4 actions of which one, told by the observation, is allowed; pays 1; counts
 * breaches. */
enum test_env_kind { ENV_CARTPOLE, ENV_CHAIN, ENV_CLOCK, ENV_TEMPTING, ENV_CUE, ENV_MASKED };

enum { CHAIN_STATES = 8 };

struct test_env;

struct test_env *test_env_new(enum test_env_kind kind, int n_lanes, uint64_t seed);
void test_env_free(struct test_env *env);
struct rl_venv test_env_venv(struct test_env *env);
int64_t test_env_breaches(const struct test_env *env); /* masked actions taken */

#endif
