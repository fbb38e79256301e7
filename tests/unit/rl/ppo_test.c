/* The trainer: refusals, determinism, resuming, bad environments.  What it learns is in
 * tests/num. */
#include "base/mem.h"
#include "base/rng.h"
#include "rl/ppo.h"
#include "rl/rollout.h"
#include "tests/support/rl_env.h"
#include "tests/support/rl_file.h"
#include "tests/support/test.h"

enum { LANES = 48 };

static struct ppo_cfg small(enum nn_shape shape, int64_t iterations)
{
    struct ppo_cfg c = ppo_cfg_default();
    c.shape = shape;
    c.n_hidden = 16;
    c.n_steps = 32;
    c.minibatch = 500;
    c.seq_steps = 8;
    c.total_steps = iterations * c.n_steps * LANES;
    return c;
}

struct run {
    struct test_env *env;
    struct rl_venv venv;
    struct ppo *ppo;
};

static struct run start(const struct ppo_cfg *c, enum test_env_kind kind)
{
    struct run r = {.env = test_env_new(kind, LANES, 3)};
    struct err e;
    r.venv = test_env_venv(r.env);
    assert_ok(ppo_new(c, &r.venv, &r.ppo, &e), &e);
    return r;
}

static void finish(struct run *r)
{
    ppo_free(r->ppo);
    test_env_free(r->env);
}

/* Stops after *left iterations. */
static bool countdown(void *ctx, const struct ppo_stats *s)
{
    int *left = ctx;
    (void)s;
    return --*left > 0;
}

struct variant {
    const char *name;
    enum nn_shape shape;
    bool constrained;
    enum ppo_credit credit;
};
static const struct variant variants[] = {
    {"separate", NN_SEPARATE, false, PPO_CREDIT_STEP},
    {"shared", NN_SHARED, false, PPO_CREDIT_WINDOW},
    {"lstm", NN_LSTM, true, PPO_CREDIT_STEP},
};

static struct ppo_cfg variant_cfg(const struct variant *v)
{
    struct ppo_cfg c = small(v->shape, 5);
    c.constrained = v->constrained;
    c.credit = v->credit;
    return c;
}

static const char *train_and_save(const struct ppo_cfg *c, const char *name)
{
    const char *path = test_path("%s/%s.safetensors", test_tmp_dir(), name);
    const struct st_meta meta = {"layout", "L1"};
    struct run r = start(c, ENV_CARTPOLE);
    struct err e;
    assert_ok(ppo_train(r.ppo, NULL, NULL, &e), &e);
    assert_true(ppo_done(r.ppo));
    assert_ok(ppo_save(r.ppo, path, &meta, 1, NULL, 0, &e), &e);
    finish(&r);
    return path;
}

TEST(threads_do_not_change_a_bit)
{
    for (size_t i = 0; i < ARRAY_LEN(variants); i++) {
        struct ppo_cfg c = variant_cfg(&variants[i]);
        const char *one = train_and_save(&c, "one");
        c.n_threads = 2;
        const char *two = train_and_save(&c, "two");
        c.n_threads = 5;
        const char *five = train_and_save(&c, "five");
        assert_same_file(one, two);
        assert_same_file(one, five);
    }
}

TEST(interrupted_training_resumes_to_the_same_bits)
{
    for (size_t i = 0; i < ARRAY_LEN(variants); i++) {
        struct ppo_cfg c = variant_cfg(&variants[i]);
        const char *whole = train_and_save(&c, "whole"),
                   *part = test_path("%s/part.safetensors", test_tmp_dir());
        const struct st_meta meta = {"layout", "L1"};
        struct err e;
        for (int run = 0; run < 5; run++) { /* one iteration per process life */
            struct run r = start(&c, ENV_CARTPOLE);
            int left = 1;
            if (run > 0)
                assert_ok(ppo_load(r.ppo, part, &meta, 1, &e), &e);
            assert_ok(ppo_train(r.ppo, countdown, &left, &e), &e);
            assert_int_equal(ppo_done(r.ppo), run == 4);
            assert_ok(ppo_save(r.ppo, part, &meta, 1, NULL, 0, &e), &e);
            finish(&r);
        }
        assert_same_file(whole, part);
    }
}

TEST(another_seed_gives_other_weights)
{
    struct ppo_cfg c = small(NN_SHARED, 1);
    struct run a = start(&c, ENV_CARTPOLE);
    c.seed = 2;
    struct run b = start(&c, ENV_CARTPOLE);
    const struct nn_params *x = nn_net_params_const(ppo_net(a.ppo)),
                           *y = nn_net_params_const(ppo_net(b.ppo));
    assert_true(memcmp(x->value, y->value, x->total * sizeof(float)) != 0);
    finish(&a);
    finish(&b);
}

TEST(a_checkpoint_of_another_run_is_refused_by_what_differs)
{
    struct ppo_cfg c = small(NN_SHARED, 2);
    const char *path = train_and_save(&c, "other");
    const struct st_meta layout = {"layout", "L2"};
    struct err e;
    struct run r = start(&c, ENV_CARTPOLE);
    assert_err(ppo_load(r.ppo, path, &layout, 1, &e), ERR_MISMATCH, &e, "layout");
    finish(&r);
    c.gamma = 0.5f;
    r = start(&c, ENV_CARTPOLE);
    assert_err(ppo_load(r.ppo, path, NULL, 0, &e), ERR_MISMATCH, &e,
               "ppo.gamma: the file has \"0.99");
    finish(&r);
    c = small(NN_SHARED, 2);
    r = start(&c, ENV_TEMPTING);
    assert_err(ppo_load(r.ppo, path, NULL, 0, &e), ERR_MISMATCH, &e,
               "trunk.0.weight has another shape");
    finish(&r);
}

TEST(configurations_out_of_range_are_refused_by_field)
{
    const struct ppo_cfg ok = ppo_cfg_default();
    struct {
        struct ppo_cfg cfg;
        const char *field;
    } bad[] = {{ok, "lr:"},        {ok, "gamma:"},    {ok, "epochs:"},  {ok, "seq_steps"},
               {ok, "cost_limit"}, {ok, "dual_min:"}, {ok, "window:"},  {ok, "n_hidden"},
               {ok, "clip:"},      {ok, "n_threads"}, {ok, "n_steps:"}, {ok, "total_steps"},
               {ok, "entropy:"}};
    bad[0].cfg.lr = NAN;
    bad[1].cfg.gamma = 1.5f;
    bad[2].cfg.epochs = 0;
    bad[3].cfg.shape = NN_LSTM;
    bad[3].cfg.n_steps = 30;
    bad[4].cfg.constrained = true;
    bad[4].cfg.cost_limit = 0;
    bad[5].cfg.constrained = true;
    bad[5].cfg.dual_min = 0;
    bad[6].cfg.credit = PPO_CREDIT_WINDOW;
    bad[6].cfg.window = 65;
    bad[7].cfg.n_hidden = 4;
    bad[8].cfg.clip = 0;
    bad[9].cfg.n_threads = 0;
    bad[10].cfg.n_steps = 0;
    bad[11].cfg.total_steps = 0;
    bad[12].cfg.entropy = -1;
    struct test_env *env = test_env_new(ENV_CARTPOLE, 2, 1);
    struct rl_venv venv = test_env_venv(env);
    for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
        struct ppo *p;
        struct err e;
        assert_err(ppo_new(&bad[i].cfg, &venv, &p, &e), ERR_RANGE, &e, bad[i].field);
        assert_null(p);
    }
    test_env_free(env);
}

TEST(the_initial_bias_sets_the_initial_policy)
{
    const float bias[2] = {0, 3};
    struct ppo_cfg c = small(NN_SEPARATE, 1);
    c.logit_bias = bias;
    struct run r = start(&c, ENV_CARTPOLE);
    struct err e;
    struct nn_ws *ws;
    float obs[4] = {0.1f, 0, 0, 0}, logits[2];
    assert_ok(nn_ws_new(ppo_net(r.ppo), &ws, &e), &e);
    nn_net_forward(ppo_net(r.ppo), ws, obs, 4, 1, NULL, logits, NULL);
    assert_near((double)(logits[1] - logits[0]), 3, 0.05, 0);
    nn_ws_free(ws);
    finish(&r);
}

TEST(masked_actions_are_never_taken)
{
    struct ppo_cfg c = small(NN_SEPARATE, 3);
    struct run r = start(&c, ENV_MASKED);
    struct err e;
    assert_ok(ppo_train(r.ppo, NULL, NULL, &e), &e);
    assert_int_equal(test_env_breaches(r.env), 0);
    finish(&r);
}

TEST(reserved_metadata_keys_are_refused)
{
    struct ppo_cfg c = small(NN_SEPARATE, 1);
    struct run r = start(&c, ENV_CARTPOLE);
    const struct st_meta meta = {"ppo.lr", "1"};
    struct err e;
    assert_err(ppo_save(r.ppo, test_path("%s/x", test_tmp_dir()), &meta, 1, NULL, 0, &e), ERR_INVAL,
               &e, "ppo.lr");
    finish(&r);
}

/* An environment that misbehaves from its 20th call on. */
struct broken {
    struct rl_venv inner;
    int calls;
    enum { BAD_REWARD, BAD_COST, BAD_OBS, BAD_MASK } how;
};

static void broken_reset(void *self, int begin, int end, float *obs, uint8_t *mask)
{
    struct broken *b = self;
    b->inner.reset(b->inner.env, begin, end, obs, mask);
}

static void broken_step(void *self, int begin, int end, const int32_t *action,
                        const struct rl_step_out *out)
{
    struct broken *b = self;
    b->inner.step(b->inner.env, begin, end, action, out);
    if (++b->calls < 20)
        return;
    if (b->how == BAD_REWARD)
        out->reward[begin] = NAN;
    else if (b->how == BAD_COST)
        out->cost[end - 1] = INFINITY;
    else if (b->how == BAD_OBS)
        out->obs[begin * 4 + 2] = NAN;
    else
        memset(out->mask + begin * 2, 0, 2);
}

TEST(an_environment_that_misbehaves_is_named)
{
    static const struct {
        enum err_code code;
        const char *text;
    } want[] = {[BAD_REWARD] = {ERR_NUMERIC, "lane 0: reward"},
                [BAD_COST] = {ERR_NUMERIC, "lane 7: cost"},
                [BAD_OBS] = {ERR_NUMERIC, "lane 0: observation"},
                [BAD_MASK] = {ERR_INVAL, "lane 0: the mask"}};
    for (int how = BAD_REWARD; how <= BAD_MASK; how++) {
        struct test_env *env = test_env_new(ENV_CARTPOLE, 8, 1);
        struct broken b = {.inner = test_env_venv(env), .how = how};
        struct rl_venv venv = b.inner;
        struct ppo_cfg c = small(NN_SEPARATE, 2);
        struct ppo *p;
        struct err e;
        venv.env = &b;
        venv.reset = broken_reset;
        venv.step = broken_step;
        venv.save = NULL;
        assert_ok(ppo_new(&c, &venv, &p, &e), &e);
        assert_err(ppo_train(p, NULL, NULL, &e), want[how].code, &e, want[how].text);
        ppo_free(p);
        test_env_free(env);
    }
}

TEST(an_environment_without_save_gives_a_policy_that_cannot_be_resumed)
{
    struct test_env *env = test_env_new(ENV_CARTPOLE, LANES, 3);
    struct rl_venv venv = test_env_venv(env);
    struct ppo_cfg c = small(NN_SEPARATE, 1);
    const char *path = test_path("%s/stateless.safetensors", test_tmp_dir());
    struct ppo *p;
    struct err e;
    venv.save = NULL;
    assert_ok(ppo_new(&c, &venv, &p, &e), &e);
    assert_ok(ppo_train(p, NULL, NULL, &e), &e);
    assert_ok(ppo_save(p, path, NULL, 0, NULL, 0, &e), &e);
    assert_err(ppo_load(p, path, NULL, 0, &e), ERR_MISMATCH, &e, "resumable");
    ppo_free(p);
    test_env_free(env);
}
