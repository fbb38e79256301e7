#include "rl/a3c.h"

#include <string.h>

#include "base/mem.h"
#include "base/rng.h"
#include "rl/a3c_priv.h"

#define FIELD(k, f, lo, hi)                                                                        \
    {                                                                                              \
        .name = #f, .kind = k, .offset = offsetof(struct a3c_cfg, f), .min = lo, .max = hi         \
    }
const struct rl_field a3c_fields[] = {
    FIELD(RL_INT, shape, NN_SEPARATE, NN_LSTM),
    FIELD(RL_INT, n_hidden, 8, 512),
    FIELD(RL_INT, n_steps, 1, 1 << 20),
    FIELD(RL_INT, seq_steps, 1, NN_STEPS_MAX),
    FIELD(RL_I64, total_steps, 1, 1e15),
    FIELD(RL_FLOAT, lr, 0, 1),
    FIELD(RL_FLOAT, lr_final, 0, 1),
    FIELD(RL_FLOAT, value_coef, 0, 100),
    FIELD(RL_FLOAT, entropy, 0, 10),
    FIELD(RL_FLOAT, entropy_final, 0, 10),
    FIELD(RL_FLOAT, max_grad_norm, 0, 1e6),
    FIELD(RL_FLOAT, gamma, 0, 1),
    FIELD(RL_FLOAT, gae_lambda, 0, 1),
    FIELD(RL_FLOAT, cost_price, 0, 1e6),
    FIELD(RL_BOOL, norm_obs, 0, 1),
    FIELD(RL_BOOL, norm_reward, 0, 1),
    FIELD(RL_INT, report_steps, 1, 1 << 30),
    FIELD(RL_U64, seed, 0, 0x1p64),
};
const int a3c_n_fields = ARRAY_LEN(a3c_fields);

struct a3c_cfg a3c_cfg_default(void)
{
    return (struct a3c_cfg){
        .shape = NN_SEPARATE,
        .n_hidden = 64,
        .n_steps = 16,
        .seq_steps = 16,
        .total_steps = 1000000,
        .lr = 1e-3f,
        .lr_final = 0.0f,
        .value_coef = 0.5f,
        .entropy = 0.01f,
        .entropy_final = 0.0f,
        .max_grad_norm = 0.5f,
        .gamma = 0.99f,
        .gae_lambda = 0.95f,
        .norm_obs = true,
        .norm_reward = true,
        .report_steps = 2048,
        .n_threads = 1,
        .seed = 1,
    };
}

static enum err_code check_cfg(const struct a3c_cfg *c, const struct rl_venv *v, struct err *e)
{
    enum err_code rc = rl_fields_check(a3c_fields, a3c_n_fields, c, e);
    if (rc)
        return rc;
    if (c->shape == NN_LSTM && c->n_steps % c->seq_steps != 0)
        return err_set(e, ERR_RANGE, "n_steps: %d is not a multiple of seq_steps %d", c->n_steps,
                       c->seq_steps);
    if (v->n_actions < 1 || v->n_actions > PPO_ACTIONS_MAX)
        return err_set(e, ERR_RANGE, "n_actions: %d is outside 1..%d", v->n_actions,
                       PPO_ACTIONS_MAX);
    if (c->n_threads < 1 || c->n_threads > THREADS_MAX || c->n_threads > v->n_lanes)
        return err_set(e, ERR_RANGE, "n_threads: %d is outside 1..%d, or above the %d lanes",
                       c->n_threads, THREADS_MAX, v->n_lanes);
    return ERR_OK;
}

/* ---- life ----------------------------------------------------------------------------- */

static void make_lanes(struct a3c *a)
{
    size_t lanes = (size_t)a->venv.n_lanes, dim = (size_t)a->venv.obs_dim;
    a->action = mem_zero(lanes, sizeof *a->action);
    a->all = (struct rl_step_out){
        .obs = mem_zero(lanes * dim, sizeof(float)),
        .mask = mem_zero(lanes * (size_t)a->venv.n_actions, 1),
        .reward = mem_zero(lanes, sizeof(float)),
        .cost = mem_zero(lanes, sizeof(float)),
        .end = mem_zero(lanes, 1),
        .final_obs = mem_zero(lanes * dim, sizeof(float)),
    };
}

static void make_statistics(struct a3c *a)
{
    size_t dim = (size_t)a->venv.obs_dim;
    nn_norm_init(&a->norm, a->venv.obs_dim);
    a->part = mem_zero((size_t)a->cfg.n_threads + 1, sizeof *a->part);
    for (int i = 0; i <= a->cfg.n_threads; i++) {
        a->part[i].mean = mem_zero(dim, sizeof(double));
        a->part[i].m2 = mem_zero(dim, sizeof(double));
        a->part[i].hist = mem_zero(dim * NN_NORM_BINS, sizeof(uint64_t));
    }
}

static enum err_code make_net(struct a3c *a, struct err *e)
{
    struct rng rng = rng_stream(a->cfg.seed, "a3c.init");
    struct nn_net_cfg cfg = nn_net_cfg_default(a->cfg.shape, a->venv.obs_dim, a->venv.n_actions, 1);
    cfg.n_hidden = a->cfg.n_hidden;
    return nn_net_new(&cfg, &rng, &a->net, e);
}

static enum err_code make_parts(struct a3c *a, struct err *e)
{
    int sys = pthread_mutex_init(&a->mutex, NULL);
    if (sys)
        return err_sys(e, sys, "mutex");
    a->mutex_ready = true;
    enum err_code rc = make_net(a, e);
    if (rc == ERR_OK)
        rc = thread_pool_new(a->cfg.n_threads, &a->pool, e);
    if (rc)
        return rc;
    make_lanes(a);
    make_statistics(a);
    a->worker = mem_zero((size_t)a->cfg.n_threads, sizeof *a->worker);
    for (int i = 0; i < a->cfg.n_threads && rc == ERR_OK; i++)
        rc = a3c_worker_init(a, i, e);
    return rc;
}

enum err_code a3c_new(const struct a3c_cfg *cfg, const struct rl_venv *venv, struct a3c **out,
                      struct err *e)
{
    *out = NULL;
    enum err_code rc = check_cfg(cfg, venv, e);
    if (rc)
        return rc;
    struct a3c *a = mem_zero(1, sizeof *a);
    a->cfg = *cfg;
    a->venv = *venv;
    a->adam = nn_adam_default();
    a->adam.max_norm = cfg->max_grad_norm;
    rc = make_parts(a, e);
    if (rc) {
        a3c_free(a);
        return rc;
    }
    *out = a;
    return ERR_OK;
}

static void free_lanes(struct a3c *a)
{
    void *buffer[] = {a->action,   a->all.obs, a->all.mask,     a->all.reward,
                      a->all.cost, a->all.end, a->all.final_obs};
    for (size_t i = 0; i < ARRAY_LEN(buffer); i++)
        mem_free(buffer[i]);
}

void a3c_free(struct a3c *a)
{
    if (!a)
        return;
    for (int i = 0; a->worker && i < a->cfg.n_threads; i++)
        a3c_worker_fini(&a->worker[i]);
    for (int i = 0; a->part && i <= a->cfg.n_threads; i++) {
        mem_free(a->part[i].mean);
        mem_free(a->part[i].m2);
        mem_free(a->part[i].hist);
    }
    mem_free(a->worker);
    mem_free(a->part);
    free_lanes(a);
    nn_norm_fini(&a->norm);
    nn_net_free(a->net);
    thread_pool_free(a->pool);
    if (a->mutex_ready)
        pthread_mutex_destroy(&a->mutex);
    mem_free(a);
}

const struct nn_net *a3c_net(const struct a3c *a)
{
    return a->net;
}

const struct nn_norm *a3c_norm(const struct a3c *a)
{
    return &a->norm;
}

bool a3c_done(const struct a3c *a)
{
    return a->steps >= a->cfg.total_steps;
}

/* ---- training ------------------------------------------------------------------------- */

enum err_code a3c_train(struct a3c *a, a3c_hook_fn *hook, void *ctx, struct err *e)
{
    enum err_code rc = ERR_OK;
    a->hook = hook;
    a->ctx = ctx;
    a->stop = a3c_done(a);
    parallel_for(a->pool, (size_t)a->cfg.n_threads, a3c_worker_run,
                 a); /* one worker per thread of the pool */
    a->hook = NULL;
    nn_net_pack(a->net);
    for (int i = 0; i < a->cfg.n_threads && rc == ERR_OK; i++) {
        rc = a->worker[i].rc;
        if (rc && e)
            *e = a->worker[i].err;
        if (rc)
            (void)err_wrap(e, "worker %d, update %lld", i, (long long)a->updates);
    }
    return rc;
}
