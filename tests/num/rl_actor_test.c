/* A2C and A3C: their gradients against doubles, and small problems whose best answer is known. */
#include "base/mem.h"
#include "rl/a2c.h"
#include "rl/a3c.h"
#include "tests/support/rl_ref.h"
#include "tests/support/test.h"

/* ---- one update against doubles ------------------------------------------------------- */

enum { LANES = 8, STEPS = 6, ROWS = LANES * STEPS, ACTIONS_MAX = 4 };

/* What one update saw, and what the objective holds constant. */
struct batch {
    const struct rl_tape *tape;
    double adv[ROWS], ret[ROWS];
    double value_coef, entropy;
};

/* GAE as the double sum of its definition: A_t = sum over k of (gamma lambda)^k delta_(t+k), up to
 * the episode's end. */
static void double_gae(struct batch *b, const struct ref_net *net, double gamma, double lambda)
{
    const struct rl_tape *t = b->tape;
    int dim = t->inner.obs_dim;
    for (int i = 0; i < ROWS; i++) {
        double v, next, sum = 0, discount = 1;
        for (int row = i; row < ROWS; row += LANES) {
            ref_forward(net, t->obs + row * dim, NULL, &v);
            ref_forward(net, t->end[row] ? t->final_obs + row * dim : t->obs + (row + LANES) * dim,
                        NULL, &next);
            next = t->end[row] == RL_TERMINATED ? 0 : next;
            sum += discount * ((double)t->reward[row] + gamma * next - v);
            discount *= gamma * lambda;
            if (t->end[row])
                break;
        }
        ref_forward(net, t->obs + i * dim, NULL, &v);
        b->adv[i] = sum;
        b->ret[i] = sum + v;
    }
}

static void standardise(double *x, int n)
{
    double mean = 0, var = 0;
    for (int i = 0; i < n; i++)
        mean += x[i] / n;
    for (int i = 0; i < n; i++)
        var += (x[i] - mean) * (x[i] - mean) / n;
    for (int i = 0; i < n; i++)
        x[i] = (x[i] - mean) / sqrt(var);
}

static double objective(void *ctx, const struct ref_net *net)
{
    const struct batch *b = ctx;
    const struct rl_tape *t = b->tape;
    int dim = t->inner.obs_dim, n_actions = t->inner.n_actions;
    double loss = 0;
    for (int i = 0; i < ROWS; i++) {
        double logits[ACTIONS_MAX], logp[ACTIONS_MAX], v;
        ref_forward(net, t->obs + i * dim, logits, &v);
        double entropy = ref_logp(logits, t->mask + i * n_actions, n_actions, logp);
        loss += -b->adv[i] * logp[t->action[i]] - b->entropy * entropy +
                0.5 * b->value_coef * (v - b->ret[i]) * (v - b->ret[i]);
    }
    return loss / ROWS;
}

static struct rl_tape *tape_of(enum test_env_kind kind, struct test_env **env)
{
    *env = test_env_new(kind, LANES, test_seed());
    struct rl_venv inner = test_env_venv(*env);
    return rl_tape_new(&inner);
}

TEST(an_update_of_a2c_is_the_slope_of_its_objective)
{
    static const enum test_env_kind kinds[] = {ENV_CUE, ENV_MASKED, ENV_CHAIN};
    for (size_t k = 0; k < ARRAY_LEN(kinds); k++) {
        struct test_env *env;
        struct rl_tape *tape = tape_of(kinds[k], &env);
        struct rl_venv venv = rl_tape_venv(tape);
        struct a2c_cfg c = a2c_cfg_default();
        struct batch b = {.tape = tape, .value_coef = 0.7, .entropy = 0.02};
        struct a2c *a;
        struct err e;
        c.n_hidden = 8;
        c.n_steps = STEPS;
        c.total_steps = ROWS;
        c.value_coef = 0.7f;
        c.entropy = 0.02f;
        c.norm_obs = c.norm_reward = false; /* no rollout for statistics alone */
        assert_ok(a2c_new(&c, &venv, &a, &e), &e);
        struct ref_net ref = ref_net_new(a2c_net(a));
        assert_ok(a2c_train(a, NULL, NULL, &e), &e);
        double_gae(&b, &ref, 0.99, 0.95);
        standardise(b.adv, ROWS);
        ref_check_grad(&ref, nn_net_params_const(a2c_net(a))->grad, 3, objective, &b);
        ref_net_free(&ref);
        a2c_free(a);
        rl_tape_free(tape);
        test_env_free(env);
    }
}

TEST(an_update_of_a3c_is_the_slope_of_its_objective)
{
    static const enum nn_shape shapes[] = {NN_SEPARATE, NN_SHARED};
    for (size_t k = 0; k < ARRAY_LEN(shapes); k++) {
        struct test_env *env;
        struct rl_tape *tape = tape_of(ENV_CUE, &env);
        struct rl_venv venv = rl_tape_venv(tape);
        struct a3c_cfg c = a3c_cfg_default();
        struct batch b = {.tape = tape, .value_coef = 0.5, .entropy = 0.01};
        struct a3c *a;
        struct err e;
        c.shape = shapes[k];
        c.n_hidden = 8;
        c.n_steps = STEPS;
        c.total_steps = ROWS;
        c.gae_lambda = 1;
        c.norm_obs = c.norm_reward = false;
        assert_ok(a3c_new(&c, &venv, &a, &e), &e);
        struct ref_net ref = ref_net_new(a3c_net(a));
        assert_ok(a3c_train(a, NULL, NULL, &e), &e);
        double_gae(&b, &ref, 0.99, 1);
        ref_check_grad(&ref, nn_net_params_const(a3c_net(a))->grad, 3, objective, &b);
        ref_net_free(&ref);
        a3c_free(a);
        rl_tape_free(tape);
        test_env_free(env);
    }
}

/* ---- problems ------------------------------------------------------------------------- */

enum { MANY_LANES = 16 };

static struct a2c *solve_a2c(const struct rl_venv *venv, const struct a2c_cfg *c)
{
    struct a2c *a;
    struct err e;
    assert_ok(a2c_new(c, venv, &a, &e), &e);
    assert_ok(a2c_train(a, NULL, NULL, &e), &e);
    return a;
}

static struct a3c *solve_a3c(const struct rl_venv *venv, const struct a3c_cfg *c)
{
    struct a3c *a;
    struct err e;
    assert_ok(a3c_new(c, venv, &a, &e), &e);
    assert_ok(a3c_train(a, NULL, NULL, &e), &e);
    return a;
}

static void check_chain(const struct nn_net *net, const struct nn_norm *norm)
{
    for (int s = 0; s < CHAIN_STATES; s++) {
        float obs[CHAIN_STATES] = {0}, logits[2], value;
        obs[s] = 1;
        rl_outputs(net, norm, obs, logits, &value);
        assert_true(logits[1] > logits[0]);
        assert_near((double)value, pow(0.99, CHAIN_STATES - 1 - s), 0.03, 0);
    }
}

TEST(a2c_and_a3c_walk_and_value_the_chain_as_dynamic_programming_says)
{
    struct test_env *env = test_env_new(ENV_CHAIN, MANY_LANES, test_seed());
    struct rl_venv venv = test_env_venv(env);
    struct a2c_cfg c2 = a2c_cfg_default();
    struct a3c_cfg c3 = a3c_cfg_default();
    c2.total_steps = c3.total_steps = 150000;
    c2.norm_reward = c3.norm_reward = false;
    c3.n_threads = 2;
    struct a2c *a2c = solve_a2c(&venv, &c2);
    check_chain(a2c_net(a2c), a2c_norm(a2c));
    struct a3c *a3c = solve_a3c(&venv, &c3);
    check_chain(a3c_net(a3c), a3c_norm(a3c));
    a2c_free(a2c);
    a3c_free(a3c);
    test_env_free(env);
}

/* Value of the clock's one state: truncated, or said to terminate, every ten steps. */
static void clock_values(bool terminate, double *a2c_value, double *a3c_value)
{
    struct test_env *env = test_env_new(ENV_CLOCK, LANES, 1);
    struct rl_venv inner = test_env_venv(env);
    struct rl_tape *tape = rl_tape_new(&inner);
    struct rl_venv venv = rl_tape_venv(tape);
    struct a2c_cfg c2 = a2c_cfg_default();
    struct a3c_cfg c3 = a3c_cfg_default();
    float obs = 1, logit, value;
    tape->terminate = terminate;
    c2.gamma = c3.gamma = 0.9f;
    c2.total_steps = c3.total_steps = 60000;
    c2.n_steps = c3.n_steps = 20; /* whole episodes */
    c2.norm_reward = c3.norm_reward = c2.norm_obs = c3.norm_obs = false;
    struct a2c *a2c = solve_a2c(&venv, &c2);
    rl_outputs(a2c_net(a2c), NULL, &obs, &logit, &value);
    *a2c_value = (double)value;
    tape->n_steps = 0;
    struct a3c *a3c = solve_a3c(&venv, &c3);
    rl_outputs(a3c_net(a3c), NULL, &obs, &logit, &value);
    *a3c_value = (double)value;
    a2c_free(a2c);
    a3c_free(a3c);
    rl_tape_free(tape);
    test_env_free(env);
}

TEST(a2c_and_a3c_value_a_truncated_episode_as_if_it_went_on_and_a_terminated_one_not)
{
    double a2c, a3c;
    clock_values(false, &a2c, &a3c);
    assert_near(a2c, 10, 0.2, 0);
    assert_near(a3c, 10, 0.2, 0);
    clock_values(true, &a2c, &a3c);
    assert_true(a2c < 6 && a3c < 6); /* 1 - 0.9^10 of 10 at the start of an episode, 1 at its end */
}

TEST(a2c_balances_cartpole_for_475_of_500_steps_over_100_episodes)
{
    for (enum nn_shape shape = NN_SEPARATE; shape <= NN_SHARED; shape++) {
        struct test_env *env = test_env_new(ENV_CARTPOLE, MANY_LANES, test_seed());
        struct rl_venv venv = test_env_venv(env);
        struct a2c_cfg c = a2c_cfg_default();
        c.total_steps = 300000;
        c.shape = shape;
        struct a2c *a = solve_a2c(&venv, &c);
        double mean = rl_play(a2c_net(a), a2c_norm(a), ENV_CARTPOLE, 1000, 100);
        print_message("           shape %d, mean of 100 episodes: %.1f\n", (int)shape, mean);
        assert_true(mean >= 475);
        a2c_free(a);
        test_env_free(env);
    }
}

TEST(an_lstm_under_a2c_recalls_the_cue)
{
    struct test_env *env = test_env_new(ENV_CUE, MANY_LANES, 1);
    struct rl_venv venv = test_env_venv(env);
    struct a2c_cfg c = a2c_cfg_default();
    c.shape = NN_LSTM;
    c.total_steps = 200000;
    struct a2c *a = solve_a2c(&venv, &c);
    assert_true(rl_play(a2c_net(a), a2c_norm(a), ENV_CUE, 1000, 200) > 0.95);
    a2c_free(a);
    test_env_free(env);
}

struct late {
    double cost, lambda;
    int n;
};

static bool watch(void *ctx, const struct ppo_stats *s)
{
    struct late *late = ctx;
    if (s->steps > 200000) {
        late->cost += s->mean_cost;
        late->lambda += s->lambda;
        late->n++;
    }
    return true;
}

TEST(a2c_holds_a_constraint_on_mean_cost)
{
    struct test_env *env = test_env_new(ENV_TEMPTING, MANY_LANES, 1);
    struct rl_venv venv = test_env_venv(env);
    struct a2c_cfg c = a2c_cfg_default();
    struct late late = {0};
    struct a2c *a;
    struct err e;
    c.total_steps = 400000;
    c.constrained = true;
    c.cost_limit = 0.1f;
    c.entropy_final = 0.01f;
    c.lr = 5e-4f;
    assert_ok(a2c_new(&c, &venv, &a, &e), &e);
    assert_ok(a2c_train(a, watch, &late, &e), &e);
    print_message("           mean cost %.3f, lambda %.2f\n", late.cost / late.n,
                  late.lambda / late.n);
    assert_near(late.cost / late.n, 0.1, 0.04, 0);
    assert_near(late.lambda / late.n, 1, 0.3, 0); /* one unit of cost buys one unit of reward */
    a2c_free(a);
    test_env_free(env);
}

/* Not deterministic with two workers, so the claim is about a sample of runs, and their spread is
 * printed. */
static double a3c_mean_of_five_seeds(int64_t steps)
{
    enum { SEEDS = 5 };
    double mean = 0, low = 500, high = 0, sq = 0;
    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        struct test_env *env = test_env_new(ENV_CARTPOLE, MANY_LANES, seed);
        struct rl_venv venv = test_env_venv(env);
        struct a3c_cfg c = a3c_cfg_default();
        c.total_steps = steps;
        c.n_threads = 2;
        c.seed = seed;
        struct a3c *a = solve_a3c(&venv, &c);
        double x = rl_play(a3c_net(a), a3c_norm(a), ENV_CARTPOLE, 1000, 100);
        mean += x / SEEDS;
        sq += x * x / SEEDS;
        low = fmin(low, x);
        high = fmax(high, x);
        a3c_free(a);
        test_env_free(env);
    }
    print_message("           %d steps, 5 seeds: mean %.1f, deviation %.1f, %.1f to %.1f\n",
                  (int)steps, mean, sqrt(fmax(0, sq - mean * mean)), low, high);
    return mean;
}

TEST(a3c_with_two_workers_balances_cartpole_in_the_mean_of_five_seeds)
{
    double half_way = a3c_mean_of_five_seeds(60000);
    assert_true(half_way > 100); /* 22 at random */
    assert_true(a3c_mean_of_five_seeds(200000) >= 475);
}

TEST(an_lstm_under_a3c_recalls_the_cue)
{
    struct test_env *env = test_env_new(ENV_CUE, MANY_LANES, 1);
    struct rl_venv venv = test_env_venv(env);
    struct a3c_cfg c = a3c_cfg_default();
    c.shape = NN_LSTM;
    c.total_steps = 200000;
    c.n_threads = 2;
    struct a3c *a = solve_a3c(&venv, &c);
    assert_true(rl_play(a3c_net(a), a3c_norm(a), ENV_CUE, 1000, 200) > 0.95);
    a3c_free(a);
    test_env_free(env);
}

TEST(a3c_pays_the_price_of_cost)
{
    for (int dear = 0; dear < 2; dear++) { /* action 0 pays 1 and costs 1 */
        struct test_env *env = test_env_new(ENV_TEMPTING, MANY_LANES, 1);
        struct rl_venv venv = test_env_venv(env);
        struct a3c_cfg c = a3c_cfg_default();
        c.total_steps = 30000;
        c.cost_price = dear ? 1.5f : 0.5f;
        struct a3c *a = solve_a3c(&venv, &c);
        assert_near(rl_play(a3c_net(a), a3c_norm(a), ENV_TEMPTING, 1, 1), dear ? 0 : 20, 1e-6, 0);
        a3c_free(a);
        test_env_free(env);
    }
}
