/* PPO on small problems whose best answer is known. */
#include "base/rng.h"
#include "nn/head.h"
#include "rl/ppo.h"
#include "tests/support/rl_env.h"
#include "tests/support/test.h"

enum { LANES = 32 };

struct problem {
    struct test_env *env;
    struct rl_venv venv;
    struct ppo *ppo;
    struct nn_ws *ws;
};

static struct ppo_cfg cfg_for(int64_t steps)
{
    struct ppo_cfg c = ppo_cfg_default();
    c.n_steps = 64;
    c.minibatch = 256;
    c.total_steps = steps;
    return c;
}

static struct problem solve(enum test_env_kind kind, const struct ppo_cfg *c, ppo_hook_fn *hook,
                            void *ctx)
{
    struct problem p = {.env = test_env_new(kind, LANES, test_seed())};
    struct err e;
    p.venv = test_env_venv(p.env);
    assert_ok(ppo_new(c, &p.venv, &p.ppo, &e), &e);
    assert_ok(ppo_train(p.ppo, hook, ctx, &e), &e);
    assert_ok(nn_ws_new(ppo_net(p.ppo), &p.ws, &e), &e);
    return p;
}

static void finish(struct problem *p)
{
    nn_ws_free(p->ws);
    ppo_free(p->ppo);
    test_env_free(p->env);
}

static void outputs(const struct problem *p, const float *obs, float *hidden, float *logits,
                    float *value)
{
    float scaled[16];
    size_t dim = (size_t)p->venv.obs_dim;
    nn_norm_apply(ppo_norm(p->ppo), obs, dim, 1, scaled, dim);
    nn_net_forward(ppo_net(p->ppo), p->ws, scaled, dim, 1, hidden, logits, value);
}

/* Mean return of the most probable action over n episodes of fresh environments. */
static double greedy_return(const struct problem *p, enum test_env_kind kind, int n)
{
    double sum = 0;
    for (int episode = 0; episode < n; episode++) {
        struct test_env *env = test_env_new(kind, 1, 1000 + (uint64_t)episode);
        struct rl_venv v = test_env_venv(env);
        float obs[16], final[16], reward, cost, logits[4], hidden[128] = {0};
        uint8_t mask[4], end = RL_RUNNING;
        v.reset(v.env, 0, 1, obs, mask);
        while (end == RL_RUNNING) {
            outputs(p, obs, hidden, logits, NULL);
            int32_t action = nn_head_argmax(logits, mask, v.n_actions);
            v.step(v.env, 0, 1, &action,
                   &(struct rl_step_out){obs, mask, &reward, &cost, &end, final});
            sum += (double)reward;
        }
        test_env_free(env);
    }
    return sum / n;
}

TEST(cartpole_balances_for_475_of_500_steps_over_100_episodes)
{
    struct ppo_cfg c = cfg_for(200000);
    struct problem p = solve(ENV_CARTPOLE, &c, NULL, NULL);
    double mean = greedy_return(&p, ENV_CARTPOLE, 100);
    print_message("           mean of 100 episodes: %.1f\n", mean);
    assert_true(mean >= 475);
    finish(&p);
}

TEST(cartpole_is_solved_by_a_shared_trunk_and_an_lstm_too)
{
    for (enum nn_shape shape = NN_SHARED; shape <= NN_LSTM; shape++) {
        struct ppo_cfg c = cfg_for(300000);
        c.shape = shape;
        c.lr = 1e-3f;
        struct problem p = solve(ENV_CARTPOLE, &c, NULL, NULL);
        double mean = greedy_return(&p, ENV_CARTPOLE, 100);
        print_message("           shape %d, mean of 100 episodes: %.1f\n", (int)shape, mean);
        assert_true(mean >= 475);
        finish(&p);
    }
}

TEST(the_chain_is_walked_and_valued_as_dynamic_programming_says)
{
    struct ppo_cfg c = cfg_for(150000);
    c.norm_reward = false;
    struct problem p = solve(ENV_CHAIN, &c, NULL, NULL);
    for (int s = 0; s < CHAIN_STATES; s++) {
        float obs[CHAIN_STATES] = {0}, logits[2], value[1];
        obs[s] = 1;
        outputs(&p, obs, NULL, logits, value);
        assert_true(logits[1] > logits[0]);
        assert_near((double)value[0], pow(0.99, CHAIN_STATES - 1 - s), 0.02, 0);
    }
    finish(&p);
}

TEST(windowed_credit_walks_the_chain_too)
{
    struct ppo_cfg c = cfg_for(150000);
    c.norm_reward = false;
    c.credit = PPO_CREDIT_WINDOW;
    struct problem p = solve(ENV_CHAIN, &c, NULL, NULL);
    assert_near(greedy_return(&p, ENV_CHAIN, 1), 1, 1e-6, 0);
    finish(&p);
}

TEST(a_truncated_episode_is_valued_as_if_it_went_on)
{
    struct ppo_cfg c = cfg_for(60000);
    c.gamma = 0.9f;
    c.norm_reward = false;
    struct problem p = solve(ENV_CLOCK, &c, NULL, NULL);
    float logits[1], value[1];
    outputs(&p, (const float[]){1}, NULL, logits, value);
    assert_near((double)value[0], 10, 0.1, 0); /* 1 / (1 - 0.9); 6.5 if truncation ended it */
    finish(&p);
}

TEST(only_memory_answers_the_cue)
{
    struct ppo_cfg c = cfg_for(150000);
    struct problem blind = solve(ENV_CUE, &c, NULL, NULL);
    assert_true(greedy_return(&blind, ENV_CUE, 200) < 0.7);
    finish(&blind);
    c.shape = NN_LSTM;
    struct problem recalls = solve(ENV_CUE, &c, NULL, NULL);
    assert_true(greedy_return(&recalls, ENV_CUE, 200) > 0.98);
    finish(&recalls);
}

struct late_cost {
    double sum, lambda;
    int n;
};

static bool watch(void *ctx, const struct ppo_stats *s)
{
    struct late_cost *late = ctx;
    if (s->steps > 150000) {
        late->sum += s->mean_cost;
        late->lambda += s->lambda;
        late->n++;
    }
    return true;
}

TEST(constraint_mode_settles_at_the_limit_and_finds_the_price)
{
    struct late_cost late = {0};
    struct ppo_cfg c = cfg_for(300000);
    c.constrained = true;
    c.cost_limit = 0.1f;
    c.entropy_final = 0.01f;
    struct problem p = solve(ENV_TEMPTING, &c, watch, &late);
    print_message("           mean cost %.3f, lambda %.2f\n", late.sum / late.n,
                  late.lambda / late.n);
    assert_near(late.sum / late.n, 0.1, 0.03, 0);
    assert_near(late.lambda / late.n, 1, 0.25, 0); /* one unit of cost buys one unit of reward */
    finish(&p);
}

static bool last_entropy(void *ctx, const struct ppo_stats *s)
{
    *(double *)ctx = s->entropy;
    return true;
}

TEST(the_prior_penalty_holds_the_policy_near_its_start)
{
    struct ppo_cfg c = cfg_for(40000);
    double free_entropy = 0, held_entropy = 0;
    c.entropy = 0;
    struct problem p = solve(ENV_TEMPTING, &c, last_entropy, &free_entropy);
    finish(&p);
    c.kl_prior = 5;
    p = solve(ENV_TEMPTING, &c, last_entropy, &held_entropy);
    finish(&p);
    assert_true(free_entropy < 0.2);
    assert_true(held_entropy > 0.6); /* ln 2 is 0.69 */
}
