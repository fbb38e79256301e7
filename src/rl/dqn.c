#include "rl/dqn.h"

#include <math.h>

#include "base/clock.h"
#include "base/mem.h"
#include "base/rng.h"
#include "rl/dqn_priv.h"

/* ---- configuration -------------------------------------------------------------------- */

#define FIELD(k, f, lo, hi)                                                                        \
    {                                                                                              \
        .name = #f, .kind = k, .offset = offsetof(struct dqn_cfg, f), .min = lo, .max = hi         \
    }
const struct rl_field dqn_fields[] = {
    FIELD(RL_INT, n_hidden, 8, 512),
    FIELD(RL_INT, n_steps, 1, 1 << 16),
    FIELD(RL_I64, total_steps, 1, 1e15),
    FIELD(RL_INT, replay_capacity, 1, REPLAY_ROWS_MAX),
    FIELD(RL_INT, learn_start, 1, REPLAY_ROWS_MAX),
    FIELD(RL_INT, batch, 1, 1 << 16),
    FIELD(RL_INT, update_every, 1, 1 << 20),
    FIELD(RL_INT, target_every, 1, 1 << 24),
    FIELD(RL_FLOAT, lr, 0, 1),
    FIELD(RL_FLOAT, lr_final, 0, 1),
    FIELD(RL_FLOAT, huber_delta, 1e-3, 1e6),
    FIELD(RL_FLOAT, max_grad_norm, 0, 1e6),
    FIELD(RL_FLOAT, gamma, 0, 1),
    FIELD(RL_FLOAT, epsilon, 0, 1),
    FIELD(RL_FLOAT, epsilon_final, 0, 1),
    FIELD(RL_FLOAT, epsilon_frac, 0, 1),
    FIELD(RL_FLOAT, cost_price, 0, 1e6),
    FIELD(RL_BOOL, norm_obs, 0, 1),
    FIELD(RL_BOOL, norm_reward, 0, 1),
    FIELD(RL_U64, seed, 0, 0x1p64),
};
const int dqn_n_fields = ARRAY_LEN(dqn_fields);

struct dqn_cfg dqn_cfg_default(void)
{
    return (struct dqn_cfg){
        .n_hidden = 64,
        .n_steps = 4,
        .total_steps = 1000000,
        .replay_capacity = 100000,
        .learn_start = 1000,
        .batch = 128,
        .update_every = 4,
        .target_every = 100,
        .lr = 1e-3f,
        .lr_final = 0.0f,
        .huber_delta = 1.0f,
        .max_grad_norm = 10.0f,
        .gamma = 0.99f,
        .epsilon = 0.3f,
        .epsilon_final = 0.05f,
        .epsilon_frac = 0.5f,
        .norm_obs = true,
        .norm_reward = true,
        .n_threads = 1,
        .seed = 1,
    };
}

static enum err_code check_cfg(const struct dqn_cfg *c, const struct rl_venv *v, struct err *e)
{
    enum err_code rc = rl_fields_check(dqn_fields, dqn_n_fields, c, e);
    if (rc)
        return rc;
    if (v->n_actions < 1 || v->n_actions > DQN_ACTIONS_MAX)
        return err_set(e, ERR_RANGE, "n_actions: %d is outside 1..%d", v->n_actions,
                       DQN_ACTIONS_MAX);
    if ((int64_t)c->n_steps * v->n_lanes > c->replay_capacity)
        return err_set(e, ERR_RANGE,
                       "replay_capacity: %d does not hold one iteration of %d steps x %d lanes",
                       c->replay_capacity, c->n_steps, v->n_lanes);
    if (c->learn_start > c->replay_capacity - c->replay_capacity % v->n_lanes)
        return err_set(e, ERR_RANGE, "learn_start: %d is above what the replay holds",
                       c->learn_start);
    if (c->n_threads < 1 || c->n_threads > THREADS_MAX)
        return err_set(e, ERR_RANGE, "n_threads: %d is outside 1..%d", c->n_threads, THREADS_MAX);
    return ERR_OK;
}

/* ---- life ----------------------------------------------------------------------------- */

static enum err_code make_nets(struct dqn *d, struct err *e)
{
    struct rng rng = rng_stream(d->cfg.seed, "dqn.init");
    struct nn_net_cfg cfg = nn_net_cfg_default(NN_SHARED, d->venv.obs_dim, d->venv.n_actions, 0);
    cfg.n_hidden = d->cfg.n_hidden;
    cfg.act = NN_RELU;
    cfg.head_gain = 1.0f;
    enum err_code rc = nn_net_new(&cfg, &rng, &d->net, e);
    if (rc == ERR_OK)
        rc = nn_net_new(&cfg, &rng, &d->target, e);
    if (rc == ERR_OK)
        nn_net_copy(d->target, d->net);
    return rc;
}

static enum err_code make_parts(struct dqn *d, struct err *e)
{
    const struct dqn_cfg *c = &d->cfg;
    enum err_code rc = make_nets(d, e);
    if (rc == ERR_OK)
        rc = thread_pool_new(c->n_threads, &d->pool, e);
    if (rc == ERR_OK)
        rc = replay_init(&d->replay, &d->venv, c->replay_capacity, e);
    if (rc == ERR_OK)
        rc = dqn_act_init(d, e);
    return rc ? rc
              : dqn_update_init(&d->update, d->net, d->target, d->pool, &d->replay, c->batch, e);
}

enum err_code dqn_new(const struct dqn_cfg *cfg, const struct rl_venv *venv, struct dqn **out,
                      struct err *e)
{
    *out = NULL;
    enum err_code rc = check_cfg(cfg, venv, e);
    if (rc)
        return rc;
    struct dqn *d = mem_zero(1, sizeof *d);
    d->cfg = *cfg;
    d->venv = *venv;
    nn_norm_init(&d->norm, venv->obs_dim);
    rc = make_parts(d, e);
    if (rc) {
        dqn_free(d);
        return rc;
    }
    d->update.norm = cfg->norm_obs ? &d->norm : NULL;
    d->update.gamma = cfg->gamma;
    d->update.huber_delta = cfg->huber_delta;
    d->update.adam.max_norm = cfg->max_grad_norm;
    d->update.draw_key = rng_key(cfg->seed, "dqn.draw");
    *out = d;
    return ERR_OK;
}

void dqn_free(struct dqn *d)
{
    if (!d)
        return;
    dqn_update_fini(&d->update);
    dqn_act_fini(d);
    replay_fini(&d->replay);
    nn_net_free(d->net);
    nn_net_free(d->target);
    nn_norm_fini(&d->norm);
    thread_pool_free(d->pool);
    mem_free(d);
}

const struct nn_net *dqn_net(const struct dqn *d)
{
    return d->net;
}

const struct nn_norm *dqn_norm(const struct dqn *d)
{
    return &d->norm;
}

bool dqn_done(const struct dqn *d)
{
    return d->steps >= d->cfg.total_steps;
}

/* ---- training ------------------------------------------------------------------------- */

static float epsilon_now(const struct dqn *d)
{
    const struct dqn_cfg *c = &d->cfg;
    double span = (double)c->epsilon_frac * (double)c->total_steps;
    double done = span > 0 ? fmin(1.0, (double)d->steps / span) : 1.0;
    return c->epsilon + (c->epsilon_final - c->epsilon) * (float)done;
}

static float lr_now(const struct dqn *d)
{
    double done = fmin(1.0, (double)d->steps / (double)d->cfg.total_steps);
    return d->cfg.lr + (d->cfg.lr_final - d->cfg.lr) * (float)done;
}

static enum err_code learn(struct dqn *d, struct dqn_stats *s, struct err *e)
{
    int n = d->cfg.n_steps * d->venv.n_lanes / d->cfg.update_every;
    n = n < 1 ? 1 : n;
    s->loss = s->q = s->grad_norm = NAN;
    if (replay_rows(&d->replay) < d->cfg.learn_start)
        return ERR_OK;
    s->loss = s->q = s->grad_norm = 0;
    d->update.lr = lr_now(d);
    d->update.reward_scale = d->cfg.norm_reward ? reward_norm_scale(&d->reward_norm) : 1.0f;
    for (int i = 0; i < n; i++) {
        struct dqn_update_stats step;
        enum err_code rc = dqn_update_run(&d->update, d->updates, &step, e);
        if (rc)
            return rc;
        s->loss += step.loss / n;
        s->q += step.q / n;
        s->grad_norm += step.grad_norm / n;
        d->updates++;
        if (d->updates % d->cfg.target_every == 0)
            nn_net_copy(d->target, d->net);
    }
    return ERR_OK;
}

static enum err_code iterate(struct dqn *d, struct dqn_stats *s, struct err *e)
{
    double start = clock_mono_s();
    s->epsilon = (double)epsilon_now(d);
    enum err_code rc = dqn_act_run(d, epsilon_now(d), s, e);
    double collected = clock_mono_s();
    if (rc == ERR_OK)
        rc = learn(d, s, e);
    if (rc)
        return rc;
    d->iteration++;
    s->iteration = d->iteration;
    s->steps = d->steps;
    s->episodes = d->episodes;
    s->updates = d->updates;
    s->lr = (double)lr_now(d);
    s->replay_rows = replay_rows(&d->replay);
    s->collect_s = collected - start;
    s->update_s = clock_mono_s() - collected;
    return ERR_OK;
}

enum err_code dqn_train(struct dqn *d, dqn_hook_fn *hook, void *ctx, struct err *e)
{
    bool go_on = true;
    while (go_on && !dqn_done(d)) {
        struct dqn_stats stats;
        enum err_code rc = iterate(d, &stats, e);
        if (rc) {
            (void)err_wrap(e, "iteration %lld", (long long)d->iteration);
            return rc;
        }
        go_on = !hook || hook(ctx, &stats);
    }
    return ERR_OK;
}
