/* fail_test.c - algorithms that are made while memory gives out, at every point in turn. */
#include "rl/a2c.h"
#include "rl/a3c.h"
#include "rl/dqn.h"
#include "rl/ppo.h"
#include "tests/support/fail.h"
#include "tests/support/rl_env.h"
#include "tests/support/test.h"

struct made {
    struct rl_venv venv;
    enum nn_shape shape;
};

#define MAKE(name)                                                                                 \
    static enum err_code make_##name(void *ctx, struct err *e)                                     \
    {                                                                                              \
        const struct made *m = ctx;                                                                \
        struct name##_cfg cfg = name##_cfg_default();                                              \
        struct name *x;                                                                            \
        cfg.shape = m->shape;                                                                      \
        cfg.n_hidden = 16;                                                                         \
        cfg.n_threads = 2;                                                                         \
        enum err_code rc = name##_new(&cfg, &m->venv, &x, e);                                      \
        if (!rc)                                                                                   \
            name##_free(x);                                                                        \
        return rc;                                                                                 \
    }
MAKE(ppo)
MAKE(a2c)
MAKE(a3c)

static enum err_code make_dqn(void *ctx, struct err *e)
{
    const struct made *m = ctx;
    struct dqn_cfg cfg = dqn_cfg_default();
    struct dqn *d;
    cfg.n_hidden = 16;
    cfg.replay_capacity = 1650;
    cfg.learn_start = 500;
    cfg.n_threads = 2;
    enum err_code rc = dqn_new(&cfg, &m->venv, &d, e);
    if (!rc)
        dqn_free(d);
    return rc;
}

TEST(whichever_allocation_of_an_algorithm_fails_it_is_told_and_nothing_stays)
{
    struct test_env *env = test_env_new(ENV_CARTPOLE, 8, 1);
    struct made m = {.venv = test_env_venv(env)};
    for (int shape = NN_SEPARATE; shape <= NN_LSTM; shape++) {
        m.shape = (enum nn_shape)shape;
        assert_true(fail_sweep(FAIL_ALLOC, 0, ERR_NOMEM, make_ppo, &m) >= 40);
        assert_true(fail_sweep(FAIL_ALLOC, 0, ERR_NOMEM, make_a2c, &m) >= 30);
        assert_true(fail_sweep(FAIL_ALLOC, 0, ERR_NOMEM, make_a3c, &m) >= 30);
    }
    assert_true(fail_sweep(FAIL_ALLOC, 0, ERR_NOMEM, make_dqn, &m) >= 30);
    test_env_free(env);
}
