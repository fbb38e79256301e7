/* What A2C adds to PPO: its settings, its mark in files.  What it learns is in tests/num. */
#include "base/mem.h"
#include "rl/a2c.h"
#include "tests/support/rl_env.h"
#include "tests/support/rl_file.h"
#include "tests/support/test.h"

enum { LANES = 80 };

static struct a2c_cfg small(enum nn_shape shape, int64_t iterations)
{
    struct a2c_cfg c = a2c_cfg_default();
    c.shape = shape;
    c.n_hidden = 16;
    c.n_steps = 8;
    c.seq_steps = 4;
    c.total_steps = iterations * c.n_steps * LANES;
    return c;
}

struct run {
    struct test_env *env;
    struct rl_venv venv;
    struct a2c *a2c;
};

static struct run start(const struct a2c_cfg *c, enum test_env_kind kind)
{
    struct run r = {.env = test_env_new(kind, LANES, 3)};
    struct err e;
    r.venv = test_env_venv(r.env);
    assert_ok(a2c_new(c, &r.venv, &r.a2c, &e), &e);
    return r;
}

static void finish(struct run *r)
{
    a2c_free(r->a2c);
    test_env_free(r->env);
}

static const struct st_meta layout = {"layout", "L1"};

static const char *train_and_save(const struct a2c_cfg *c, const char *name)
{
    const char *path = test_path("%s/%s.safetensors", test_tmp_dir(), name);
    struct run r = start(c, ENV_CARTPOLE);
    struct err e;
    assert_ok(a2c_train(r.a2c, NULL, NULL, &e), &e);
    assert_true(a2c_done(r.a2c));
    assert_ok(a2c_save(r.a2c, path, &layout, 1, NULL, 0, &e), &e);
    finish(&r);
    return path;
}

TEST(threads_do_not_change_a_bit_of_a2c)
{
    for (enum nn_shape shape = NN_SEPARATE; shape <= NN_LSTM; shape++) {
        struct a2c_cfg c = small(shape, 5);
        const char *one = train_and_save(&c, "one");
        c.n_threads = 3;
        const char *three = train_and_save(&c, "three");
        assert_same_file(one, three);
    }
}

static bool once(void *ctx, const struct ppo_stats *s)
{
    (void)ctx;
    assert_int_equal(s->epochs_done, 1);
    assert_near(s->clip_frac, 0, 0, 0);
    assert_near(s->kl, 0, 1e-5, 0); /* the policy that learns is the one that acted */
    return false;
}

TEST(interrupted_a2c_resumes_to_the_same_bits)
{
    for (enum nn_shape shape = NN_SEPARATE; shape <= NN_LSTM; shape++) {
        struct a2c_cfg c = small(shape, 4);
        const char *straight = train_and_save(&c, "straight");
        const char *part = test_path("%s/part.safetensors", test_tmp_dir());
        struct err e;
        for (int life = 0; life < 4; life++) {
            struct run r = start(&c, ENV_CARTPOLE);
            if (life > 0)
                assert_ok(a2c_load(r.a2c, part, &layout, 1, &e), &e);
            assert_ok(a2c_train(r.a2c, once, NULL, &e), &e);
            assert_ok(a2c_save(r.a2c, part, &layout, 1, NULL, 0, &e), &e);
            finish(&r);
        }
        assert_same_file(straight, part);
    }
}

TEST(a_file_of_ppo_is_not_one_of_a2c)
{
    struct test_env *env = test_env_new(ENV_CARTPOLE, LANES, 3);
    struct rl_venv venv = test_env_venv(env);
    const char *path = test_path("%s/ppo.safetensors", test_tmp_dir());
    struct ppo_cfg pc = ppo_cfg_default();
    struct a2c_cfg c = small(NN_SEPARATE, 1);
    struct ppo *p;
    struct err e;
    assert_ok(ppo_new(&pc, &venv, &p, &e), &e);
    assert_ok(ppo_save(p, path, NULL, 0, NULL, 0, &e), &e);
    struct run r = start(&c, ENV_CARTPOLE);
    assert_err(a2c_load(r.a2c, path, NULL, 0, &e), ERR_MISMATCH, &e, "a2c.format");
    finish(&r);
    ppo_free(p);
    test_env_free(env);
}

TEST(a2c_checks_its_configuration_and_its_keys)
{
    const struct a2c_cfg ok = small(NN_SEPARATE, 1);
    struct {
        struct a2c_cfg cfg;
        const char *field;
    } bad[] = {{ok, "lr:"},       {ok, "gamma:"},    {ok, "n_steps:"},
               {ok, "seq_steps"}, {ok, "n_threads"}, {ok, "cost_limit"}};
    bad[0].cfg.lr = NAN;
    bad[1].cfg.gamma = -1;
    bad[2].cfg.n_steps = 0;
    bad[3].cfg.shape = NN_LSTM;
    bad[3].cfg.n_steps = 6;
    bad[4].cfg.n_threads = 0;
    bad[5].cfg.constrained = true;
    bad[5].cfg.cost_limit = 0;
    struct run r = start(&ok, ENV_CARTPOLE);
    struct err e;
    for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
        struct a2c *a;
        assert_err(a2c_new(&bad[i].cfg, &r.venv, &a, &e), ERR_RANGE, &e, bad[i].field);
        assert_null(a);
    }
    const struct st_meta mine[] = {{"a2c.format", "2"}, {"ppo.lr", "1"}};
    const char *path = test_path("%s/x", test_tmp_dir());
    assert_err(a2c_save(r.a2c, path, mine, 1, NULL, 0, &e), ERR_INVAL, &e, "a2c.format");
    assert_err(a2c_save(r.a2c, path, mine + 1, 1, NULL, 0, &e), ERR_INVAL, &e, "ppo.lr");
    assert_err(a2c_save(r.a2c, path, mine, ST_META_MAX, NULL, 0, &e), ERR_LIMIT, &e, "keys");
    finish(&r);
}

TEST(a2c_never_takes_a_masked_action)
{
    struct a2c_cfg c = small(NN_SEPARATE, 6);
    struct run r = start(&c, ENV_MASKED);
    struct err e;
    assert_ok(a2c_train(r.a2c, NULL, NULL, &e), &e);
    assert_int_equal(test_env_breaches(r.env), 0);
    finish(&r);
}
