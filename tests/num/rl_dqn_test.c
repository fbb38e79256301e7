/* DQN: its gradient against doubles, and small problems whose best answer is known. */
#include "base/mem.h"
#include "base/rng.h"
#include "rl/dqn.h"
#include "rl/dqn_update.h"
#include "tests/support/rl_ref.h"
#include "tests/support/test.h"

/* ---- one step against doubles --------------------------------------------------------- */

enum { DIM = 5, ACTIONS = 4, BATCH = 48, LANES_OF_REPLAY = 2, STEPS_OF_REPLAY = 30 };

/* A replay of random transitions; obs[0] of row i is i, by which the test finds the row again. */
static void fill_replay(struct replay *r, struct rng *rng)
{
    for (int i = 0; i < LANES_OF_REPLAY * STEPS_OF_REPLAY; i++) {
        for (int j = 0; j < DIM; j++) {
            r->obs[i * DIM + j] = j == 0 ? 0.01f * (float)i : (float)rng_normal(rng);
            r->next_obs[i * DIM + j] = (float)rng_normal(rng);
        }
        r->action[i] = (int32_t)rng_below(rng, ACTIONS);
        r->end[i] = (uint8_t)rng_below(rng, 3);
        r->reward[i] = (float)(2 * rng_normal(rng));
        for (int a = 0; a < ACTIONS; a++)
            r->next_mask[i * ACTIONS + a] = a == i % ACTIONS || rng_unit(rng) < 0.5;
    }
    r->n_steps = STEPS_OF_REPLAY;
    r->masked = true; /* then truncated rows carry no weight */
}

struct step {
    struct replay replay;
    struct nn_net *net, *target;
    struct dqn_update update;
    struct ref_net ref_target;
    double y[BATCH];
    int row[BATCH];
};

static struct nn_net *make_net(struct rng *rng)
{
    struct nn_net_cfg c = nn_net_cfg_default(NN_SHARED, DIM, ACTIONS, 0);
    struct nn_net *net;
    struct err e;
    c.act = NN_RELU;
    c.n_hidden = 12;
    c.head_gain = 1;
    assert_ok(nn_net_new(&c, rng, &net, &e), &e);
    return net;
}

static double double_target(const struct step *s, const struct ref_net *net, int row)
{
    const struct replay *r = &s->replay;
    const uint8_t *mask = r->next_mask + row * ACTIONS;
    double q[ACTIONS], q_target[ACTIONS], reward = 0.5 * (double)r->reward[row];
    int best = -1;
    ref_forward(net, r->next_obs + row * DIM, q, NULL);
    ref_forward(&s->ref_target, r->next_obs + row * DIM, q_target, NULL);
    for (int a = 0; a < ACTIONS; a++)
        if (mask[a] && (best < 0 || q[a] > q[best]))
            best = a;
    return r->end[row] == RL_TERMINATED ? reward : reward + 0.9 * q_target[best];
}

static double double_loss(void *ctx, const struct ref_net *net)
{
    const struct step *s = ctx;
    double sum = 0, q[ACTIONS];
    for (int i = 0; i < BATCH; i++) {
        int row = s->row[i];
        ref_forward(net, s->replay.obs + row * DIM, q, NULL);
        double err = fabs(q[s->replay.action[row]] - s->y[i]);
        if (s->replay.end[row] != RL_TRUNCATED)
            sum += (err < 0.7 ? 0.5 * err * err : 0.7 * (err - 0.35)) / BATCH;
    }
    return sum;
}

TEST(a_step_of_dqn_is_the_slope_of_its_loss_at_double_targets)
{
    const struct rl_venv sizes = {.n_lanes = LANES_OF_REPLAY, .obs_dim = DIM, .n_actions = ACTIONS};
    struct rng rng = rng_stream(test_seed(), "dqn");
    struct dqn_update_stats stats;
    struct step s = {.net = make_net(&rng), .target = make_net(&rng)};
    struct err e;
    assert_ok(replay_init(&s.replay, &sizes, LANES_OF_REPLAY * STEPS_OF_REPLAY, &e), &e);
    fill_replay(&s.replay, &rng);
    assert_ok(dqn_update_init(&s.update, s.net, s.target, NULL, &s.replay, BATCH, &e), &e);
    s.update.gamma = 0.9f;
    s.update.huber_delta = 0.7f;
    s.update.reward_scale = 0.5f;
    s.update.lr = 0; /* the parameters stay where the gradient was taken */
    struct ref_net ref = ref_net_new(s.net);
    s.ref_target = ref_net_new(s.target);
    assert_ok(dqn_update_run(&s.update, 3, &stats, &e), &e);
    int n_truncated = 0;
    for (int i = 0; i < BATCH; i++) {
        int row = s.row[i] = (int)lroundf(s.update.obs[i * DIM] * 100);
        s.y[i] = double_target(&s, &ref, row);
        n_truncated += s.replay.end[row] == RL_TRUNCATED;
        assert_near((double)s.update.target_y[i], s.y[i], 1e-5, 1e-5);
    }
    assert_true(n_truncated > 0 && n_truncated < BATCH);
    ref_check_grad(&ref, nn_net_params(s.net)->grad, 1, double_loss, &s);
    assert_near(stats.loss, double_loss(&s, &ref), 1e-6, 1e-5);
    ref_net_free(&ref);
    ref_net_free(&s.ref_target);
    dqn_update_fini(&s.update);
    replay_fini(&s.replay);
    nn_net_free(s.net);
    nn_net_free(s.target);
}

/* ---- problems ------------------------------------------------------------------------- */

enum { LANES = 16 };

static struct dqn *solve(const struct rl_venv *venv, const struct dqn_cfg *c)
{
    struct dqn *d;
    struct err e;
    assert_ok(dqn_new(c, venv, &d, &e), &e);
    assert_ok(dqn_train(d, NULL, NULL, &e), &e);
    return d;
}

TEST(dqn_values_every_action_of_the_chain_as_dynamic_programming_says)
{
    struct test_env *env = test_env_new(ENV_CHAIN, LANES, test_seed());
    struct rl_venv venv = test_env_venv(env);
    struct dqn_cfg c = dqn_cfg_default();
    c.total_steps = 60000;
    c.norm_reward = false;
    c.epsilon = 1;
    struct dqn *d = solve(&venv, &c);
    for (int s = 0; s < CHAIN_STATES; s++) {
        float obs[CHAIN_STATES] = {0}, q[2];
        obs[s] = 1;
        rl_outputs(dqn_net(d), dqn_norm(d), obs, q, NULL);
        double right = pow(0.99, CHAIN_STATES - 1 - s),
               back = pow(0.99, CHAIN_STATES - (s > 0 ? s - 1 : 0));
        assert_near((double)q[1], right, 0.03, 0);
        assert_near((double)q[0], back + (s == 0 ? 0.001 : 0), 0.03, 0);
        assert_true(q[1] > q[0]);
    }
    assert_near(rl_play(dqn_net(d), dqn_norm(d), ENV_CHAIN, 1, 1), 1, 1e-6, 0);
    dqn_free(d);
    test_env_free(env);
}

static double clock_value(bool terminate)
{
    struct test_env *env = test_env_new(ENV_CLOCK, LANES, 1);
    struct rl_venv inner = test_env_venv(env);
    struct rl_tape *tape = rl_tape_new(&inner);
    struct rl_venv venv = rl_tape_venv(tape);
    struct dqn_cfg c = dqn_cfg_default();
    float obs = 1, q;
    tape->terminate = terminate;
    c.gamma = 0.9f;
    c.total_steps = 40000;
    c.target_every = 50;
    c.norm_reward = c.norm_obs = false;
    c.huber_delta = 100; /* a mean, not a median, where an end comes at random */
    struct dqn *d = solve(&venv, &c);
    rl_outputs(dqn_net(d), NULL, &obs, &q, NULL);
    dqn_free(d);
    rl_tape_free(tape);
    test_env_free(env);
    return (double)q;
}

/* One in ten steps ends the episode and looks like all others: V = 1 + 0.9 (9/10) V if it is an
 * end. */
TEST(dqn_values_a_truncated_episode_as_if_it_went_on_and_a_terminated_one_not)
{
    assert_near(clock_value(false), 10, 0.2, 0);
    assert_near(clock_value(true), 1 / (1 - 0.81), 0.3, 0);
}

TEST(dqn_pays_the_price_of_cost)
{
    for (int dear = 0; dear < 2; dear++) { /* action 0 pays 1 and costs 1 */
        struct test_env *env = test_env_new(ENV_TEMPTING, LANES, 1);
        struct rl_venv venv = test_env_venv(env);
        struct dqn_cfg c = dqn_cfg_default();
        c.total_steps = 10000;
        c.cost_price = dear ? 1.5f : 0.5f;
        struct dqn *d = solve(&venv, &c);
        assert_near(rl_play(dqn_net(d), dqn_norm(d), ENV_TEMPTING, 1, 1), dear ? 0 : 20, 1e-6, 0);
        dqn_free(d);
        test_env_free(env);
    }
}

/* DQN's greedy policy swings while it learns (docs/rl.md), so training stops as one would in
 * practice: when the policy of the moment passes two checks in a row, on other episodes than those
 * of the verdict. */
struct watch {
    const struct dqn *dqn;
    int passed;
};

static bool until_it_balances(void *ctx, const struct dqn_stats *s)
{
    struct watch *w = ctx;
    if (s->iteration % 50 != 0)
        return true;
    bool good = rl_play(dqn_net(w->dqn), dqn_norm(w->dqn), ENV_CARTPOLE, 500, 20) >= 495;
    w->passed = good ? w->passed + 1 : 0;
    return w->passed < 2;
}

TEST(dqn_balances_cartpole_for_475_of_500_steps_over_100_episodes)
{
    struct test_env *env = test_env_new(ENV_CARTPOLE, LANES, test_seed());
    struct rl_venv venv = test_env_venv(env);
    struct dqn_cfg c = dqn_cfg_default();
    struct watch w = {0};
    struct dqn *d;
    struct err e;
    c.total_steps = 300000;
    assert_ok(dqn_new(&c, &venv, &d, &e), &e);
    w.dqn = d;
    assert_ok(dqn_train(d, until_it_balances, &w, &e), &e);
    double mean = rl_play(dqn_net(d), dqn_norm(d), ENV_CARTPOLE, 1000, 100);
    print_message("           mean of 100 episodes: %.1f\n", mean);
    assert_true(mean >= 475);
    dqn_free(d);
    test_env_free(env);
}
