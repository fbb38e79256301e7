/* Steady state allocates nothing: the C library's allocator is counted while decisions, updates and
 * whole iterations run.  Sanitizers bring their own allocator, so the count is skipped there. */
#include "base/mem.h"
#include "nn/checkpoint.h"
#include "nn/policy.h"
#include "rl/a3c.h"
#include "rl/dqn.h"
#include "rl/ppo.h"
#include "tests/support/alloc_count.h"
#include "tests/support/rl_env.h"
#include "tests/support/test.h"

static const enum nn_shape shapes[] = {NN_SEPARATE, NN_SHARED, NN_LSTM};

struct marks {
    long at[8];
    int n;
};

static bool mark(void *ctx, const struct ppo_stats *s)
{
    struct marks *m = ctx;
    (void)s;
    m->at[m->n++] = alloc_calls();
    return m->n < 8;
}

TEST(training_iterations_allocate_nothing)
{
    if (!ALLOC_COUNTED)
        skip();
    for (size_t i = 0; i < ARRAY_LEN(shapes); i++) {
        struct test_env *env = test_env_new(ENV_CARTPOLE, 32, 1);
        struct rl_venv venv = test_env_venv(env);
        struct ppo_cfg cfg = ppo_cfg_default();
        struct marks m = {.n = 0};
        struct ppo *p;
        struct err e;
        cfg.shape = shapes[i];
        cfg.constrained = true;
        cfg.n_threads = 2;
        assert_ok(ppo_new(&cfg, &venv, &p, &e), &e);
        long before = alloc_calls();
        assert_ok(ppo_train(p, mark, &m, &e), &e);
        assert_int_equal(m.at[m.n - 1], before); /* the warm-up too */
        ppo_free(p);
        test_env_free(env);
        assert_true(alloc_calls() > 0); /* the counter works */
    }
}

static bool mark_dqn(void *ctx, const struct dqn_stats *s)
{
    struct marks *m = ctx;
    if (s->updates > 0) /* learning, not only collecting */
        m->at[m->n++] = alloc_calls();
    return m->n < 8;
}

static bool mark_a3c(void *ctx, const struct a3c_stats *s)
{
    struct marks *m = ctx;
    (void)s;
    m->at[m->n++] = alloc_calls();
    return m->n < 8;
}

TEST(iterations_of_dqn_and_a3c_allocate_nothing)
{
    if (!ALLOC_COUNTED)
        skip();
    struct test_env *env = test_env_new(ENV_CARTPOLE, 32, 1);
    struct rl_venv venv = test_env_venv(env);
    struct dqn_cfg dc = dqn_cfg_default();
    struct a3c_cfg ac = a3c_cfg_default();
    struct marks m = {.n = 0};
    struct dqn *d;
    struct a3c *a;
    struct err e;
    dc.n_threads = ac.n_threads = 2;
    assert_ok(dqn_new(&dc, &venv, &d, &e), &e);
    long before = alloc_calls();
    assert_ok(dqn_train(d, mark_dqn, &m, &e), &e);
    assert_int_equal(m.at[7], before);
    dqn_free(d);
    m.n = 0;
    assert_ok(a3c_new(&ac, &venv, &a, &e), &e);
    before = alloc_calls();
    assert_ok(a3c_train(a, mark_a3c, &m, &e), &e);
    assert_int_equal(m.at[7], before);
    a3c_free(a);
    test_env_free(env);
}

TEST(decisions_allocate_nothing)
{
    if (!ALLOC_COUNTED)
        skip();
    for (size_t i = 0; i < ARRAY_LEN(shapes); i++) {
        enum { N_OBS = 48, N_ACTIONS = 7 };
        const char *path = test_path("%s/p.safetensors", test_tmp_dir());
        struct nn_net_cfg cfg = nn_net_cfg_default(shapes[i], N_OBS, N_ACTIONS, 1);
        struct rng rng = rng_stream(1, "net");
        struct nn_net *net;
        struct nn_policy *p;
        struct nn_norm norm;
        struct err e;
        assert_ok(nn_net_new(&cfg, &rng, &net, &e), &e);
        nn_norm_init(&norm, N_OBS);
        struct ckpt_out *c = ckpt_out_new();
        ckpt_add_net(c, net);
        ckpt_add_norm(c, &norm);
        assert_ok(ckpt_write(c, path, &e), &e);
        assert_ok(nn_policy_load(path, NULL, 0, &p, &e), &e);
        float obs[N_OBS] = {0.5f}, hidden[128] = {0}, prob[N_ACTIONS], value[1], grad[N_OBS];
        int action;
        long before = alloc_calls();
        for (int k = 0; k < 10; k++)
            assert_ok(nn_policy_act(p, obs, NULL, hidden, &action, prob, value, &e), &e);
        nn_policy_attribution(p, obs, NULL, hidden, action, grad);
        assert_int_equal(alloc_calls(), before);
        ckpt_out_free(c);
        nn_norm_fini(&norm);
        nn_policy_free(p);
        nn_net_free(net);
    }
}
