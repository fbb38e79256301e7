/* env_lanes_test.c - random worlds under random allowed actions: what is offered is executed,
 * nothing leaves its range, and a lane saved anywhere goes on from there. */
#include "tests/unit/train/world_fixture.h"
#include "train/env.h"

enum { WORLDS = 8, LANES = 4, STEPS = 600 };

struct any_env {
    struct scenario sc;
    struct world *w;
    struct chance *chance;
    struct capacity_config cfg;
    struct capacity_env *env;
    struct rl_venv v;
    float obs[LANES * CAPACITY_OBS], final_obs[LANES * CAPACITY_OBS], reward[LANES], cost[LANES];
    uint8_t mask[LANES * CAPACITY_ACTIONS], end[LANES];
    int32_t action[LANES];
};

static void any_env_init(struct any_env *a, struct rng *rng, const char *base)
{
    struct err e;
    int n = 2000 + (int)rng_below(rng, 6000);
    float *demand = mem_zero((size_t)n, sizeof *demand);
    small_scenario(&a->sc);
    a->sc.service.units_max = 2 + (int)rng_below(rng, 150);
    a->sc.chance.unavailable_frac = 0.05 * rng_unit(rng);
    a->sc.chance.start_max_us = a->sc.chance.start_min_us + (int64_t)rng_below(rng, 600) * US_PER_S;
    a->sc.guard.cooldown_out_us = (int64_t)rng_below(rng, 120) * US_PER_S;
    a->sc.guard.cooldown_in_us = (int64_t)rng_below(rng, 600) * US_PER_S;
    float level = WORLD_UNIT_QPS * (float)a->sc.service.units_max * (float)rng_unit(rng);
    for (int i = 0; i < n; i++)
        demand[i] = level * (0.6f + 0.4f * sinf((float)i * 0.01f));
    a->w = world_of(&a->sc, demand, NULL, n);
    mem_free(demand);
    a->chance = chance_of(a->w, rng_next(rng) % 1000);
    config_of(a->w, "ppo", true, &a->cfg);
    if (base) {
        policy_use_default(&a->cfg.base, policy_find(base));
        a->cfg.main.opt.ppo.base = strcmp(base, "mpc") == 0 ? PPO_BASE_MPC : PPO_BASE_PREDICTIVE;
        assert_ok(capacity_config_finish(&a->cfg, &e), &e);
    }
    struct capacity_env_opts o = capacity_env_opts_default(a->w);
    o.n_lanes = LANES;
    o.seed = rng_next(rng);
    o.episode_steps = 50 + (int)rng_below(rng, 400);
    assert_ok(capacity_env_new(a->w, &a->chance, 1, &a->cfg, &o, &a->env, &e), &e);
    a->v = capacity_env_venv(a->env);
    a->v.reset(a->env, 0, LANES, a->obs, a->mask);
}

static void any_env_fini(struct any_env *a)
{
    capacity_env_free(a->env);
    chance_free(a->chance);
    world_free(a->w);
    scenario_fini(&a->sc);
}

static void choose(struct any_env *a, struct rng *rng)
{
    for (int i = 0; i < LANES; i++) {
        int n = 0;
        for (int k = 0; k < CAPACITY_ACTIONS; k++)
            if (a->mask[i * CAPACITY_ACTIONS + k] && rng_below(rng, (uint32_t)++n) == 0)
                a->action[i] = k;
        assert_true(n > 0);
    }
}

static void step(struct any_env *a)
{
    const struct rl_step_out out = {a->obs, a->mask, a->reward, a->cost, a->end, a->final_obs};
    a->v.step(a->env, 0, LANES, a->action, &out);
}

static int size_of(const struct any_env *a, const float *obs)
{
    return (int)lroundf(obs[OBS_SIZE] * (float)a->sc.service.units_max);
}

TEST(an_offered_action_is_executed_as_offered)
{
    struct rng rng = rng_stream(test_seed(), "offered");
    int moved = 0;
    for (int k = 0; k < WORLDS; k++) {
        struct any_env *a = mem_zero(1, sizeof *a);
        any_env_init(a, &rng, NULL);
        for (int t = 0; t < STEPS; t++) {
            int before[LANES], offered[LANES];
            for (int i = 0; i < LANES; i++) {
                before[i] = size_of(a, a->obs + i * CAPACITY_OBS);
                offered[i] = 0;
                for (int m = 0; m < CAPACITY_ACTIONS; m++)
                    offered[i] += a->mask[i * CAPACITY_ACTIONS + m];
            }
            choose(a, &rng);
            step(a);
            for (int i = 0; i < LANES; i++) {
                const float *obs =
                    (a->end[i] == RL_RUNNING ? a->obs : a->final_obs) + i * CAPACITY_OBS;
                int change = size_of(a, obs) - before[i],
                    shift = a->action[i] - CAPACITY_ACTION_HOLD;
                int unit = a->cfg.step_units;
                bool as_said = change == shift * unit || (shift == 3 && change == 4 * unit);
                if (!as_said && offered[i] > 1)
                    fail_msg("world %d step %d: action %d moved %d units", k, t, a->action[i],
                             change);
                moved += change != 0;
            }
        }
        any_env_fini(a);
        mem_free(a);
    }
    assert_true(moved > 100);
}

TEST(observations_rewards_and_costs_stay_in_range)
{
    static const char *const bases[] = {NULL, "mpc", "predictive"};
    struct rng rng = rng_stream(test_seed(), "ranges");
    for (int k = 0; k < WORLDS; k++) {
        struct any_env *a = mem_zero(1, sizeof *a);
        any_env_init(a, &rng, bases[k % 3]);
        for (int t = 0; t < STEPS; t++) {
            choose(a, &rng);
            step(a);
            for (int i = 0; i < LANES; i++) {
                for (int j = 0; j < CAPACITY_OBS; j++) {
                    const struct observation_info *info = observation_get((enum observation)j);
                    float x = a->obs[i * CAPACITY_OBS + j];
                    if (!(x >= info->lo && x <= info->hi))
                        fail_msg("world %d step %d: %s is %g", k, t, info->name, (double)x);
                }
                assert_true(a->reward[i] <= 0 &&
                            isfinite(a->reward[i])); /* slo weights: nothing is earned */
                assert_true(a->cost[i] >= 0 && a->cost[i] <= 2.01f);
                assert_true(a->end[i] == RL_RUNNING || a->end[i] == RL_TRUNCATED);
            }
        }
        any_env_fini(a);
        mem_free(a);
    }
}

TEST(a_lane_saved_anywhere_goes_on_from_there)
{
    static const char *const bases[] = {NULL, "mpc", "predictive"};
    struct rng rng = rng_stream(test_seed(), "resume");
    for (int k = 0; k < WORLDS; k++) {
        struct any_env *a = mem_zero(1, sizeof *a);
        struct err e;
        any_env_init(a, &rng, bases[k % 3]);
        int stop = 1 + (int)rng_below(&rng, STEPS);
        for (int t = 0; t < stop; t++) {
            choose(a, &rng);
            step(a);
        }
        size_t n = a->v.save(a->env, NULL, 0);
        unsigned char *blob = mem_zero(n, 1);
        assert_int_equal(a->v.save(a->env, blob, n), n);
        struct any_env *again = mem_zero(1, sizeof *again);
        memcpy(again->mask, a->mask, sizeof a->mask);
        struct rng one = rng, two = rng;
        float seen[100][LANES];
        for (int t = 0; t < 100; t++) {
            choose(a, &one);
            step(a);
            memcpy(seen[t], a->reward, sizeof seen[t]);
        }
        float *obs = mem_zero(LANES * CAPACITY_OBS, sizeof *obs);
        memcpy(obs, a->obs, sizeof a->obs);
        memcpy(a->mask, again->mask, sizeof a->mask);
        assert_ok(a->v.load(a->env, blob, n, &e), &e); /* back, in the same environment */
        for (int t = 0; t < 100; t++) {
            choose(a, &two);
            step(a);
            assert_memory_equal(seen[t], a->reward, sizeof seen[t]);
        }
        assert_memory_equal(obs, a->obs, sizeof a->obs);
        mem_free(obs);
        mem_free(blob);
        mem_free(again);
        any_env_fini(a);
        mem_free(a);
    }
}
