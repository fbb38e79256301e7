/* The trainer: refusals, determinism, resuming, masks, bad environments.  What it learns is in
 * tests/num. */
#include "base/mem.h"
#include "nn/policy.h"
#include "rl/dqn.h"
#include "rl/dqn_update.h"
#include "tests/support/rl_file.h"
#include "tests/support/rl_ref.h"
#include "tests/support/test.h"

enum { LANES = 100 };

/* Iterations of 400 transitions; learns from the second on, overwrites the replay from the fifth.
 */
static struct dqn_cfg small(int64_t iterations)
{
    struct dqn_cfg c = dqn_cfg_default();
    c.n_hidden = 16;
    c.replay_capacity = 1650;
    c.learn_start = 500;
    c.batch = 30;
    c.update_every = 50;
    c.target_every = 5;
    c.total_steps = iterations * c.n_steps * LANES;
    return c;
}

struct run {
    struct test_env *env;
    struct rl_venv venv;
    struct dqn *dqn;
};

static struct run start(const struct dqn_cfg *c, enum test_env_kind kind)
{
    struct run r = {.env = test_env_new(kind, LANES, 3)};
    struct err e;
    r.venv = test_env_venv(r.env);
    assert_ok(dqn_new(c, &r.venv, &r.dqn, &e), &e);
    return r;
}

static void finish(struct run *r)
{
    dqn_free(r->dqn);
    test_env_free(r->env);
}

static const struct st_meta layout = {"layout", "L1"};
static const struct dqn_save_opts whole = {.replay = true, .meta = &layout, .n_meta = 1};

static const char *train_and_save(const struct dqn_cfg *c, enum test_env_kind kind,
                                  const char *name)
{
    const char *path = test_path("%s/%s.safetensors", test_tmp_dir(), name);
    struct run r = start(c, kind);
    struct err e;
    assert_ok(dqn_train(r.dqn, NULL, NULL, &e), &e);
    assert_true(dqn_done(r.dqn));
    assert_ok(dqn_save(r.dqn, path, &whole, &e), &e);
    finish(&r);
    return path;
}

TEST(threads_do_not_change_a_bit_of_dqn)
{
    struct dqn_cfg c = small(8);
    const char *one = train_and_save(&c, ENV_CARTPOLE, "one");
    c.n_threads = 2;
    const char *two = train_and_save(&c, ENV_CARTPOLE, "two");
    c.n_threads = 5;
    const char *five = train_and_save(&c, ENV_CARTPOLE, "five");
    assert_same_file(one, two);
    assert_same_file(one, five);
}

static bool once(void *ctx, const struct dqn_stats *s)
{
    (void)ctx, (void)s;
    return false;
}

TEST(interrupted_dqn_resumes_to_the_same_bits)
{
    static const enum test_env_kind kinds[] = {ENV_CARTPOLE, ENV_MASKED};
    for (size_t k = 0; k < ARRAY_LEN(kinds); k++) {
        struct dqn_cfg c = small(8);
        const char *straight = train_and_save(&c, kinds[k], "straight");
        const char *part = test_path("%s/part.safetensors", test_tmp_dir());
        struct err e;
        for (int life = 0; life < 8; life++) { /* one iteration each */
            struct run r = start(&c, kinds[k]);
            if (life > 0)
                assert_ok(dqn_load(r.dqn, part, &layout, 1, &e), &e);
            assert_ok(dqn_train(r.dqn, once, NULL, &e), &e);
            assert_int_equal(dqn_done(r.dqn), life == 7);
            assert_ok(dqn_save(r.dqn, part, &whole, &e), &e);
            finish(&r);
        }
        assert_same_file(straight, part);
    }
}

TEST(another_seed_gives_another_q_network)
{
    struct dqn_cfg c = small(1);
    struct run a = start(&c, ENV_CARTPOLE);
    c.seed = 2;
    struct run b = start(&c, ENV_CARTPOLE);
    const struct nn_params *x = nn_net_params_const(dqn_net(a.dqn)),
                           *y = nn_net_params_const(dqn_net(b.dqn));
    assert_true(memcmp(x->value, y->value, x->total * sizeof(float)) != 0);
    finish(&a);
    finish(&b);
}

TEST(without_its_replay_the_file_is_a_policy_that_cannot_be_resumed)
{
    struct dqn_cfg c = small(3);
    const char *path = test_path("%s/policy.safetensors", test_tmp_dir());
    const struct dqn_save_opts policy_only = {.meta = &layout, .n_meta = 1};
    const float obs[4] = {0.02f, -0.3f, 0.01f, 0.4f};
    const uint8_t mask[2] = {1, 1};
    struct run r = start(&c, ENV_CARTPOLE), again = start(&c, ENV_CARTPOLE);
    struct nn_policy *p;
    struct err e;
    float q[2];
    int action;
    assert_ok(dqn_train(r.dqn, NULL, NULL, &e), &e);
    assert_ok(dqn_save(r.dqn, path, &policy_only, &e), &e);
    assert_err(dqn_load(again.dqn, path, &layout, 1, &e), ERR_MISMATCH, &e, "resumable");
    assert_ok(nn_policy_load(path, &layout, 1, &p, &e), &e);
    assert_ok(nn_policy_act(p, obs, mask, NULL, &action, NULL, NULL, &e), &e);
    rl_outputs(dqn_net(r.dqn), dqn_norm(r.dqn), obs, q, NULL);
    assert_int_equal(action, q[1] > q[0]);
    nn_policy_free(p);
    finish(&r);
    finish(&again);
}

TEST(an_environment_without_save_gives_a_q_network_that_cannot_be_resumed)
{
    struct test_env *env = test_env_new(ENV_CARTPOLE, LANES, 3);
    struct rl_venv venv = test_env_venv(env);
    struct dqn_cfg c = small(1);
    const char *path = test_path("%s/stateless.safetensors", test_tmp_dir());
    struct dqn *d;
    struct err e;
    venv.save = NULL;
    assert_ok(dqn_new(&c, &venv, &d, &e), &e);
    assert_ok(dqn_train(d, NULL, NULL, &e), &e);
    assert_ok(dqn_save(d, path, &whole, &e), &e);
    assert_err(dqn_load(d, path, NULL, 0, &e), ERR_MISMATCH, &e, "resumable");
    dqn_free(d);
    test_env_free(env);
}

TEST(a_checkpoint_of_another_dqn_run_is_refused_by_what_differs)
{
    struct dqn_cfg c = small(2);
    const char *path = train_and_save(&c, ENV_CARTPOLE, "other");
    const struct st_meta other = {"layout", "L2"};
    struct err e;
    struct run r = start(&c, ENV_CARTPOLE);
    assert_err(dqn_load(r.dqn, path, &other, 1, &e), ERR_MISMATCH, &e, "layout");
    finish(&r);
    r = start(&c, ENV_CHAIN);
    assert_err(dqn_load(r.dqn, path, NULL, 0, &e), ERR_MISMATCH, &e,
               "trunk.0.weight has another shape");
    finish(&r);
    c.epsilon = 0.2f;
    r = start(&c, ENV_CARTPOLE);
    assert_err(dqn_load(r.dqn, path, NULL, 0, &e), ERR_MISMATCH, &e,
               "dqn.epsilon: the file has \"0.300");
    finish(&r);
}

/* Bytes that would index out of an array or break an invariant much later. */
TEST(a_replay_that_cannot_be_is_refused_when_it_is_loaded)
{
    static const struct {
        const char *tensor;
        unsigned char byte;
        const char *text;
    } cases[] = {{"replay.action", 2, "row 0"},
                 {"replay.end", 3, "row 0"},
                 {"replay.next_mask", 0, "row 0"},
                 {"dqn.count", 9, NULL}};
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct dqn_cfg c = small(1);
        bool masks = strcmp(cases[i].tensor, "replay.next_mask") == 0;
        enum test_env_kind kind =
            masks ? ENV_CLOCK : ENV_CARTPOLE; /* one action: clearing it leaves none */
        const char *path = train_and_save(&c, kind, "spoilt");
        struct run r = start(&c, kind);
        struct err e;
        spoil_tensor(path, cases[i].tensor, cases[i].byte);
        if (cases[i].text)
            assert_err(dqn_load(r.dqn, path, NULL, 0, &e), ERR_RANGE, &e, cases[i].text);
        else
            assert_ok(dqn_load(r.dqn, path, NULL, 0, &e),
                      &e); /* a counter of another run is harmless */
        finish(&r);
    }
}

TEST(dqn_configurations_out_of_range_are_refused_by_field)
{
    const struct dqn_cfg ok = dqn_cfg_default();
    struct {
        struct dqn_cfg cfg;
        const char *field;
    } bad[] = {{ok, "lr:"},         {ok, "gamma:"},
               {ok, "batch:"},      {ok, "epsilon:"},
               {ok, "n_hidden"},    {ok, "n_threads"},
               {ok, "n_steps:"},    {ok, "total_steps"},
               {ok, "learn_start"}, {ok, "replay_capacity: 7"},
               {ok, "huber_delta"}, {ok, "cost_price"},
               {ok, "target_every"}};
    bad[0].cfg.lr = NAN;
    bad[1].cfg.gamma = 1.5f;
    bad[2].cfg.batch = 0;
    bad[3].cfg.epsilon = -0.1f;
    bad[4].cfg.n_hidden = 4;
    bad[5].cfg.n_threads = 0;
    bad[6].cfg.n_steps = 0;
    bad[7].cfg.total_steps = 0;
    bad[8].cfg.learn_start = 100001;
    bad[9].cfg.replay_capacity = 7; /* 4 steps x 2 lanes do not fit */
    bad[10].cfg.huber_delta = 0;
    bad[11].cfg.cost_price = -1;
    bad[12].cfg.target_every = 0;
    struct test_env *env = test_env_new(ENV_CARTPOLE, 2, 1);
    struct rl_venv venv = test_env_venv(env);
    for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
        struct dqn *d;
        struct err e;
        assert_err(dqn_new(&bad[i].cfg, &venv, &d, &e), ERR_RANGE, &e, bad[i].field);
        assert_null(d);
    }
    test_env_free(env);
}

TEST(dqn_never_takes_a_masked_action_whether_it_explores_or_not)
{
    for (int explore = 0; explore < 2; explore++) {
        struct dqn_cfg c = small(6);
        c.epsilon = c.epsilon_final = (float)explore;
        struct run r = start(&c, ENV_MASKED);
        struct err e;
        assert_ok(dqn_train(r.dqn, NULL, NULL, &e), &e);
        assert_int_equal(test_env_breaches(r.env), 0);
        finish(&r);
    }
}

TEST(exploring_takes_every_action_alike_and_epsilon_0_none_but_the_best)
{
    for (int explore = 0; explore < 2; explore++) {
        struct test_env *env = test_env_new(ENV_CARTPOLE, 8, 1);
        struct rl_venv inner = test_env_venv(env);
        struct rl_tape *tape = rl_tape_new(&inner);
        struct rl_venv venv = rl_tape_venv(tape);
        struct dqn_cfg c = dqn_cfg_default();
        struct dqn *d;
        struct err e;
        c.epsilon = c.epsilon_final = (float)explore;
        c.norm_obs = false;
        c.total_steps = 2000;
        c.learn_start = 100000; /* the network stays as it is */
        assert_ok(dqn_new(&c, &venv, &d, &e), &e);
        assert_ok(dqn_train(d, NULL, NULL, &e), &e);
        int right = 0, best = 0, n = tape->n_steps * 8;
        for (int i = 0; i < n; i++) {
            float q[2];
            rl_outputs(dqn_net(d), NULL, tape->obs + i * 4, q, NULL);
            right += tape->action[i] == 1;
            best += tape->action[i] == (q[1] > q[0]);
        }
        if (explore)
            assert_near((double)right / n, 0.5, 0.04, 0);
        else
            assert_int_equal(best, n);
        dqn_free(d);
        rl_tape_free(tape);
        test_env_free(env);
    }
}

static bool note_epsilon(void *ctx, const struct dqn_stats *s)
{
    double *epsilon = ctx;
    epsilon[s->iteration - 1] = s->epsilon;
    assert_int_equal(s->steps, s->iteration * 400);
    assert_int_equal(isnan(s->loss), s->iteration < 2); /* 500 transitions to start from */
    assert_int_equal(s->replay_rows, s->iteration < 4 ? s->iteration * 400 : 1600);
    assert_int_equal(s->updates, (s->iteration - 1) * 8);
    return true;
}

TEST(epsilon_falls_in_a_line_over_its_part_of_the_run)
{
    struct dqn_cfg c = small(10);
    double epsilon[10];
    struct err e;
    c.epsilon_frac = 0.4f;
    struct run r = start(&c, ENV_CARTPOLE);
    assert_ok(dqn_train(r.dqn, note_epsilon, epsilon, &e), &e);
    for (int i = 0; i < 10; i++)
        assert_near(epsilon[i], i < 4 ? 0.3 - 0.25 * i / 4 : 0.05, 1e-6, 0);
    finish(&r);
}

TEST(the_target_asks_the_online_network_which_and_the_target_network_how_much)
{
    static const struct {
        int end;
        uint8_t mask[3];
        float want;
    } cases[] = {
        {RL_RUNNING, {1, 1, 1}, 2 + 0.5f * 30}, /* online best is 2 */
        {RL_RUNNING, {1, 1, 0}, 2 + 0.5f * 20}, /* ... of those allowed 1, though 0 promises more to
                                                   the target */
        {RL_RUNNING, {1, 0, 0}, 2 + 0.5f * 100},
        {RL_TRUNCATED, {1, 1, 1}, 2 + 0.5f * 30}, /* goes on */
        {RL_TERMINATED, {1, 1, 1}, 2},            /* does not */
    };
    const float q[3] = {1, 2, 3}, q_target[3] = {100, 20, 30};
    for (size_t i = 0; i < ARRAY_LEN(cases); i++)
        assert_near((double)dqn_target(2, 0.5f, cases[i].end, q, q_target, cases[i].mask, 3),
                    (double)cases[i].want, 1e-6, 0);
}

TEST(an_environment_that_misbehaves_under_dqn_is_named)
{
    static const struct {
        enum tape_spoil how;
        enum err_code code;
        const char *text;
    } cases[] = {
        {TAPE_BAD_REWARD, ERR_NUMERIC, "lane 0: reward"},
        {TAPE_BAD_COST, ERR_NUMERIC, "lane 7: cost"},
        {TAPE_BAD_OBS, ERR_NUMERIC, "lane 0: observation"},
        {TAPE_BAD_FINAL_OBS, ERR_NUMERIC, "lane 7: observation"},
        {TAPE_BAD_MASK, ERR_INVAL, "lane 0: the mask allows"},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct test_env *env = test_env_new(ENV_CARTPOLE, 8, 1);
        struct rl_venv inner = test_env_venv(env);
        struct rl_tape *tape = rl_tape_new(&inner);
        struct rl_venv venv = rl_tape_venv(tape);
        struct dqn_cfg c = dqn_cfg_default();
        struct dqn *d;
        struct err e;
        tape->spoil = cases[i].how;
        assert_ok(dqn_new(&c, &venv, &d, &e), &e);
        assert_err(dqn_train(d, NULL, NULL, &e), cases[i].code, &e, cases[i].text);
        dqn_free(d);
        rl_tape_free(tape);
        test_env_free(env);
    }
}

TEST(metadata_keys_of_dqn_are_reserved)
{
    struct dqn_cfg c = small(1);
    struct run r = start(&c, ENV_CARTPOLE);
    const struct st_meta meta[] = {{"dqn.lr", "1"}, {"nn.shape", "x"}, {"dqnx", "fine"}};
    const char *path = test_path("%s/x", test_tmp_dir());
    struct err e;
    assert_err(dqn_save(r.dqn, path, &(struct dqn_save_opts){.meta = meta, .n_meta = 1}, &e),
               ERR_INVAL, &e, "dqn.lr");
    assert_err(dqn_save(r.dqn, path, &(struct dqn_save_opts){.meta = meta + 1, .n_meta = 1}, &e),
               ERR_INVAL, &e, "nn.");
    assert_ok(dqn_save(r.dqn, path, &(struct dqn_save_opts){.meta = meta + 2, .n_meta = 1}, &e),
              &e);
    assert_err(dqn_save(r.dqn, path, &(struct dqn_save_opts){.meta = meta, .n_meta = 1000}, &e),
               ERR_LIMIT, &e, "1000");
    assert_err(dqn_save(r.dqn, test_path("%s/no/such/x", test_tmp_dir()), &whole, &e), ERR_IO, &e,
               NULL);
    finish(&r);
}
