#include "rl/ppo.h"

#include <math.h>
#include <string.h>
#include <time.h>

#include "base/mem.h"
#include "base/rng.h"
#include "rl/gae.h"
#include "rl/ppo_priv.h"

/* ---- configuration
 * ---------------------------------------------------------------------------- */

#define FIELD(k, f, lo, hi)                                                                        \
    {                                                                                              \
        .name = #f, .kind = k, .offset = offsetof(struct ppo_cfg, f), .min = lo, .max = hi         \
    }
const struct ppo_field ppo_fields[] = {
    FIELD(PPO_INT, shape, NN_SEPARATE, NN_LSTM),
    FIELD(PPO_INT, n_hidden, 8, 512),
    FIELD(PPO_INT, n_steps, 1, 1 << 20),
    FIELD(PPO_INT, minibatch, 0, 1 << 24),
    FIELD(PPO_INT, epochs, 1, 100),
    FIELD(PPO_INT, seq_steps, 1, NN_STEPS_MAX),
    FIELD(PPO_I64, total_steps, 1, 1e15),
    FIELD(PPO_FLOAT, lr, 0, 1),
    FIELD(PPO_FLOAT, lr_final, 0, 1),
    FIELD(PPO_FLOAT, clip, 1e-3, 1),
    FIELD(PPO_FLOAT, value_clip, 0, 1e6),
    FIELD(PPO_BOOL, bf16_grad, 0, 1),
    FIELD(PPO_FLOAT, value_coef, 0, 100),
    FIELD(PPO_FLOAT, entropy, 0, 10),
    FIELD(PPO_FLOAT, entropy_final, 0, 10),
    FIELD(PPO_FLOAT, max_grad_norm, 0, 1e6),
    FIELD(PPO_FLOAT, target_kl, 0, 10),
    FIELD(PPO_FLOAT, gamma, 0, 1),
    FIELD(PPO_FLOAT, gae_lambda, 0, 1),
    FIELD(PPO_BOOL, norm_obs, 0, 1),
    FIELD(PPO_BOOL, norm_reward, 0, 1),
    FIELD(PPO_BOOL, constrained, 0, 1),
    FIELD(PPO_FLOAT, cost_limit, 0, 1e6),
    FIELD(PPO_FLOAT, dual_init, 0, 1e9),
    FIELD(PPO_FLOAT, dual_rate, 0, 10),
    FIELD(PPO_FLOAT, dual_gain, 0, 10),
    FIELD(PPO_FLOAT, dual_smooth, 0, 0.999),
    FIELD(PPO_FLOAT, dual_min, 0, 1e9),
    FIELD(PPO_FLOAT, dual_max, 0, 1e9),
    FIELD(PPO_INT, credit, PPO_CREDIT_STEP, PPO_CREDIT_WINDOW),
    FIELD(PPO_INT, window, 1, 10000),
    FIELD(PPO_FLOAT, kl_prior, 0, 100),
    FIELD(PPO_U64, seed, 0, 0x1p64),
};
const int ppo_n_fields = ARRAY_LEN(ppo_fields);

struct ppo_cfg ppo_cfg_default(void)
{
    return (struct ppo_cfg){
        .shape = NN_SEPARATE,
        .n_hidden = 64,
        .n_steps = 64,
        .minibatch = 2048,
        .epochs = 4,
        .seq_steps = 16,
        .total_steps = 1000000,
        .lr = 3e-4f,
        .lr_final = 0.0f,
        .clip = 0.2f,
        .bf16_grad = true,
        .value_coef = 0.5f,
        .entropy = 0.01f,
        .entropy_final = 0.0f,
        .max_grad_norm = 0.5f,
        .target_kl = 0.02f,
        .gamma = 0.99f,
        .gae_lambda = 0.95f,
        .norm_obs = true,
        .norm_reward = true,
        .cost_limit = 0.01f,
        .dual_init = 1.0f,
        .dual_rate = 0.05f,
        .dual_gain = 1.0f,
        .dual_smooth = 0.8f,
        .dual_min = 1e-3f,
        .dual_max = 1e4f,
        .credit = PPO_CREDIT_STEP,
        .window = 20,
        .n_threads = 1,
        .seed = 1,
    };
}

static double field_value(const struct ppo_cfg *c, const struct ppo_field *f)
{
    const char *at = (const char *)c + f->offset;
    switch (f->kind) {
    case PPO_INT:
        return *(const int *)at;
    case PPO_I64:
        return (double)*(const int64_t *)at;
    case PPO_U64:
        return (double)*(const uint64_t *)at;
    case PPO_FLOAT:
        return (double)*(const float *)at;
    case PPO_BOOL:
        return *(const bool *)at;
    }
    return NAN;
}

static enum err_code check_cfg(const struct ppo_cfg *c, const struct rl_venv *v, struct err *e)
{
    for (int i = 0; i < ppo_n_fields; i++) {
        const struct ppo_field *f = &ppo_fields[i];
        double x = field_value(c, f),
               slack = 1e-6 * fabs(f->max); /* floats do not hit decimal bounds */
        if (!(x >= f->min - 1e-9 && x <= f->max + slack))
            return err_set(e, ERR_RANGE, "%s: %g is outside %g..%g", f->name, x, f->min, f->max);
    }
    if (c->shape == NN_LSTM && c->n_steps % c->seq_steps != 0)
        return err_set(e, ERR_RANGE, "n_steps: %d is not a multiple of seq_steps %d", c->n_steps,
                       c->seq_steps);
    if (c->constrained && !(c->cost_limit > 0))
        return err_set(e, ERR_RANGE, "cost_limit: must be above 0 in constraint mode");
    if (c->constrained && !(c->dual_min > 0 && c->dual_min <= c->dual_max))
        return err_set(e, ERR_RANGE, "dual_min: must be above 0 and at most dual_max");
    if (c->credit == PPO_CREDIT_WINDOW && c->window > c->n_steps)
        return err_set(e, ERR_RANGE, "window: %d is longer than the rollout of %d steps", c->window,
                       c->n_steps);
    if (v->n_actions > PPO_ACTIONS_MAX)
        return err_set(e, ERR_RANGE, "n_actions: %d is above %d", v->n_actions, PPO_ACTIONS_MAX);
    if (c->n_threads < 1 || c->n_threads > THREADS_MAX)
        return err_set(e, ERR_RANGE, "n_threads: %d is outside 1..%d", c->n_threads, THREADS_MAX);
    return ERR_OK;
}

/* ---- life
 * ------------------------------------------------------------------------------------- */

static enum err_code make_net(struct ppo *p, struct err *e)
{
    const struct ppo_cfg *c = &p->cfg;
    struct rng rng = rng_stream(c->seed, "ppo.init");
    struct nn_net_cfg cfg =
        nn_net_cfg_default(c->shape, p->venv->obs_dim, p->venv->n_actions, c->constrained ? 2 : 1);
    cfg.n_hidden = c->n_hidden;
    cfg.bf16_grad = c->bf16_grad;
    enum err_code rc = nn_net_new(&cfg, &rng, &p->net, e);
    if (rc)
        return rc;
    p->prior = mem_zero((size_t)cfg.n_actions, sizeof *p->prior);
    if (c->logit_bias) {
        memcpy(p->prior, c->logit_bias, (size_t)cfg.n_actions * sizeof(float));
        memcpy(nn_net_action_bias(p->net), c->logit_bias, (size_t)cfg.n_actions * sizeof(float));
        nn_net_pack(p->net);
    }
    p->cfg.logit_bias = NULL; /* the caller's; not needed any more */
    return ERR_OK;
}

static enum err_code make_buffers(struct ppo *p, struct err *e)
{
    size_t n = (size_t)p->rollout->n_rows;
    float **buffer[] = {&p->scaled, &p->adv, &p->adv_cost, &p->ret[0], &p->ret[1]};
    p->sums = try_zero_aligned(PPO_SHARDS, sizeof *p->sums);
    if (!p->sums)
        return err_set(e, ERR_NOMEM, "sums of advantages");
    for (size_t i = 0; i < ARRAY_LEN(buffer); i++) {
        *buffer[i] = try_zero_aligned(n, sizeof(float));
        if (!*buffer[i])
            return err_set(e, ERR_NOMEM, "advantages of %zu rows", n);
    }
    return ERR_OK;
}

static enum err_code make_parts(struct ppo *p, struct err *e)
{
    const struct ppo_cfg *c = &p->cfg;
    int seq_steps = c->shape == NN_LSTM ? c->seq_steps : 1, n_values = c->constrained ? 2 : 1;
    enum err_code rc = make_net(p, e);
    if (rc == ERR_OK) {
        nn_norm_init(&p->norm, p->venv->obs_dim);
        rc = thread_pool_new(c->n_threads, &p->pool, e);
    }
    if (rc == ERR_OK)
        rc = rollout_new(p->venv, c->n_steps, n_values, nn_net_state_dim(p->net), &p->rollout, e);
    if (rc == ERR_OK)
        rc = collector_init(&p->collector, p->venv, p->net, c->norm_obs ? &p->norm : NULL, c->seed,
                            c->gamma, seq_steps, e);
    if (rc == ERR_OK)
        rc = make_buffers(p, e);
    return rc ? rc : ppo_update_init(&p->update, p->net, p->pool, p->rollout, seq_steps, e);
}

static void connect_update(struct ppo *p)
{
    const struct rollout *r = p->rollout;
    struct ppo_update *u = &p->update;
    const struct ppo_cfg *c = &p->cfg;
    u->minibatch = c->minibatch ? c->minibatch : r->n_rows;
    u->epochs = c->epochs;
    u->target_kl = c->target_kl;
    u->adam.max_norm = c->max_grad_norm;
    p->collector.replicas = u->replicas;
    u->loss = (struct ppo_loss){
        .n_actions = r->n_actions,
        .n_values = r->n_values,
        .action = r->action,
        .mask = r->mask,
        .logp_old = r->logp,
        .adv = p->adv,
        .ret = {p->ret[0], p->ret[1]},
        .value_old = {r->value[0], r->value[1]},
        .clip = c->clip,
        .value_clip = c->value_clip,
        .value_coef = c->value_coef,
        .kl_prior = c->kl_prior,
        .prior = p->prior,
    };
}

enum err_code ppo_new(const struct ppo_cfg *cfg, const struct rl_venv *venv, struct ppo **out,
                      struct err *e)
{
    *out = NULL;
    enum err_code rc = check_cfg(cfg, venv, e);
    if (rc)
        return rc;
    struct ppo *p = mem_zero(1, sizeof *p);
    p->cfg = *cfg;
    p->venv_copy = *venv;
    p->venv = &p->venv_copy;
    p->lambda = p->integral = (double)cfg->dual_init;
    rc = make_parts(p, e);
    if (rc) {
        ppo_free(p);
        return rc;
    }
    connect_update(p);
    *out = p;
    return ERR_OK;
}

void ppo_free(struct ppo *p)
{
    if (!p)
        return;
    ppo_update_fini(&p->update);
    collector_fini(&p->collector);
    rollout_free(p->rollout);
    nn_net_free(p->net);
    nn_norm_fini(&p->norm);
    thread_pool_free(p->pool);
    float *buffer[] = {p->scaled, p->adv, p->adv_cost, p->ret[0], p->ret[1], p->prior};
    for (size_t i = 0; i < ARRAY_LEN(buffer); i++)
        mem_free(buffer[i]);
    mem_free(p->sums);
    mem_free(p);
}

const struct nn_net *ppo_net(const struct ppo *p)
{
    return p->net;
}

const struct nn_norm *ppo_norm(const struct ppo *p)
{
    return &p->norm;
}

bool ppo_done(const struct ppo *p)
{
    return p->steps >= p->cfg.total_steps;
}

/* ---- advantages
 * ------------------------------------------------------------------------------- */

/* The cost critic learns (1 - gamma) times the discounted cost: a mean cost per step, near the
 * limit in size whatever gamma is. */
static float cost_scale(const struct ppo_cfg *c)
{
    return c->gamma < 1.0f ? 1.0f - c->gamma : 1.0f;
}

/* Advantages of all lanes, by threads: part k of the lanes is the one whose rows the same thread collected and
 * will learn from. */
struct credit {
    struct ppo *p;
    float scale;       /* of rewards */
    double mean, gain; /* of the second pass: adv = (adv - mean) * gain */
    struct credit_sums *sums; /* [PPO_SHARDS] */
};

static void one_critic(struct ppo *p, int critic, const float *signal, float scale, float *adv, int lo, int hi)
{
    const struct rollout *r = p->rollout;
    for (int t = 0; t < r->n_steps; t++)
        for (int i = t * r->n_lanes + lo; i < t * r->n_lanes + hi; i++)
            p->scaled[i] = signal[i] * scale;
    struct gae_in in = {
        .n_steps = r->n_steps,
        .n_lanes = r->n_lanes,
        .reward = p->scaled,
        .value = r->value[critic],
        .boot = r->boot[critic],
        .last = r->last[critic],
        .end = r->end,
        .gamma = p->cfg.gamma,
        .lambda = p->cfg.gae_lambda,
    };
    if (p->cfg.credit == PPO_CREDIT_WINDOW)
        gae_window(&in, p->cfg.window, lo, hi, adv, p->ret[critic]);
    else
        gae_compute(&in, lo, hi, adv, p->ret[critic]);
}

static void sum_credit(const struct ppo *p, int lo, int hi, struct credit_sums *s)
{
    const struct rollout *r = p->rollout;
    *s = (struct credit_sums){0};
    for (int t = 0; t < r->n_steps; t++)
        for (int i = t * r->n_lanes + lo; i < t * r->n_lanes + hi; i++) {
            double adv = (double)p->adv[i], ret = (double)p->ret[0][i], left = ret - (double)r->value[0][i];
            s->adv += adv;
            s->adv_sq += adv * adv;
            s->ret += ret;
            s->ret_sq += ret * ret;
            s->left += left;
            s->left_sq += left * left;
        }
}

static void credit_part(size_t part, int worker, void *arg)
{
    struct credit *c = arg;
    struct ppo *p = c->p;
    const struct rollout *r = p->rollout;
    size_t lo, hi;
    (void)worker;
    thread_part((size_t)r->n_lanes, PPO_SHARDS, part, &lo, &hi);
    one_critic(p, 0, r->reward, c->scale, p->adv, (int)lo, (int)hi);
    if (p->cfg.constrained) {
        /* Back to units of reward and cost, so that lambda is a price that does not move with the
         * scales. */
        double price = p->lambda / (double)cost_scale(&p->cfg), of_reward = 1 / (double)c->scale, all = 1 / (1.0 + p->lambda);
        one_critic(p, 1, r->cost, cost_scale(&p->cfg), p->adv_cost, (int)lo, (int)hi);
        for (size_t t = 0; t < (size_t)r->n_steps; t++)
            for (size_t i = t * (size_t)r->n_lanes + lo; i < t * (size_t)r->n_lanes + hi; i++)
                p->adv[i] = (float)(((double)p->adv[i] * of_reward - price * (double)p->adv_cost[i]) * all);
    }
    sum_credit(p, (int)lo, (int)hi, &c->sums[part]);
}

static void normalise_part(size_t part, int worker, void *arg)
{
    struct credit *c = arg;
    const struct rollout *r = c->p->rollout;
    float *adv = c->p->adv;
    size_t lo, hi;
    (void)worker;
    thread_part((size_t)r->n_lanes, PPO_SHARDS, part, &lo, &hi);
    for (size_t t = 0; t < (size_t)r->n_steps; t++)
        for (size_t i = t * (size_t)r->n_lanes + lo; i < t * (size_t)r->n_lanes + hi; i++)
            adv[i] = (float)(((double)adv[i] - c->mean) * c->gain);
}

/* Variance of n values from their sums: exact enough in double for float values. */
static double variance(double sum, double sq, double n)
{
    return fmax(0, sq / n - sum / n * (sum / n));
}

static void make_advantages(struct ppo *p)
{
    const struct rollout *r = p->rollout;
    double n = r->n_rows;
    struct credit c = {
        .p = p,
        .scale = p->cfg.norm_reward ? reward_norm_scale(&p->collector.reward_norm) : 1.0f,
        .sums = p->sums,
    };
    struct credit_sums all = {0};
    parallel_for(p->pool, PPO_SHARDS, credit_part, &c);
    for (int i = 0; i < PPO_SHARDS; i++) {
        const struct credit_sums *s = &c.sums[i];
        all.adv += s->adv;
        all.adv_sq += s->adv_sq;
        all.ret += s->ret;
        all.ret_sq += s->ret_sq;
        all.left += s->left;
        all.left_sq += s->left_sq;
    }
    c.mean = all.adv / n;
    c.gain = 1 / (sqrt(variance(all.adv, all.adv_sq, n)) + 1e-8);
    parallel_for(p->pool, PPO_SHARDS, normalise_part, &c);
    double var = variance(all.ret, all.ret_sq, n);
    p->explained_variance = var > 0 ? 1 - variance(all.left, all.left_sq, n) / var : 0;
}

static double clamp(double x, double low, double high)
{
    return x < low ? low : x > high ? high : x;
}

/* Dual ascent in log space (exponentiated gradient): the price stays positive and needs no scale of
 * its own. Ascent alone circles around the solution; the proportional factor damps it (Stooke et
 * al. 2020). */
static void step_lambda(struct ppo *p)
{
    const struct ppo_cfg *c = &p->cfg;
    double mean = p->rollout->cost_sum / p->rollout->n_rows, keep = (double)c->dual_smooth;
    p->cost_mean = p->iteration == 0 ? mean : keep * p->cost_mean + (1 - keep) * mean;
    double excess = clamp(p->cost_mean / (double)c->cost_limit - 1, -1, 3);
    p->integral = clamp(p->integral * exp((double)c->dual_rate * excess), (double)c->dual_min,
                        (double)c->dual_max);
    p->lambda = clamp(p->integral * exp((double)c->dual_gain * excess), (double)c->dual_min,
                      (double)c->dual_max);
}

/* ---- training
 * --------------------------------------------------------------------------------- */

static double now_s(void)
{
    struct timespec t;
    (void)clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void fill_stats(const struct ppo *p, const struct ppo_update_stats *u, struct ppo_stats *s)
{
    const struct rollout *r = p->rollout;
    double episodes = (double)r->n_episodes;
    s->iteration = p->iteration;
    s->steps = p->steps;
    s->episodes = p->episodes;
    s->mean_reward = r->reward_sum / r->n_rows;
    s->mean_cost = r->cost_sum / r->n_rows;
    s->episode_return = r->n_episodes ? r->return_sum / episodes : NAN;
    s->episode_len = r->n_episodes ? r->length_sum / episodes : NAN;
    s->policy_loss = u->policy_loss;
    s->value_loss = u->value_loss[0];
    s->cost_value_loss = u->value_loss[1];
    s->entropy = u->entropy;
    s->kl = u->kl;
    s->clip_frac = u->clip_frac;
    s->grad_norm = u->grad_norm;
    s->explained_variance = p->explained_variance;
    s->lambda = p->cfg.constrained ? p->lambda : 0;
    s->lr = (double)p->update.lr;
    s->epochs_done = u->epochs_done;
}

static enum err_code warm_up(struct ppo *p, struct err *e)
{
    enum err_code rc = ERR_OK;
    if (!p->warm && (p->cfg.norm_obs || p->cfg.norm_reward))
        rc = collector_run(&p->collector, p->net, p->pool, p->rollout, e);
    p->warm = rc == ERR_OK;
    return rc;
}

static void anneal(struct ppo *p)
{
    const struct ppo_cfg *c = &p->cfg;
    float done = (float)((double)p->steps / (double)c->total_steps);
    p->update.lr = c->lr + (c->lr_final - c->lr) * done;
    p->update.loss.entropy_coef = c->entropy + (c->entropy_final - c->entropy) * done;
    p->update.shuffle_key = rng_at(rng_key(c->seed, "ppo.shuffle"), (uint64_t)p->iteration, 0);
}

static enum err_code iterate(struct ppo *p, struct ppo_stats *stats, struct err *e)
{
    struct ppo_update_stats update;
    double start = now_s();
    enum err_code rc = collector_run(&p->collector, p->net, p->pool, p->rollout, e);
    double collected = now_s();
    if (rc)
        return rc;
    if (p->cfg.constrained)
        step_lambda(p);
    make_advantages(p);
    anneal(p);
    rc = ppo_update_run(&p->update, &update, e);
    if (rc)
        return rc;
    p->iteration++;
    p->steps += p->rollout->n_rows;
    p->episodes += p->rollout->n_episodes;
    fill_stats(p, &update, stats);
    stats->rollout_s = collected - start;
    stats->update_s = now_s() - collected;
    return ERR_OK;
}

enum err_code ppo_train(struct ppo *p, ppo_hook_fn *hook, void *ctx, struct err *e)
{
    enum err_code rc = warm_up(p, e);
    bool go_on = rc == ERR_OK;
    while (go_on && !ppo_done(p)) {
        struct ppo_stats stats;
        rc = iterate(p, &stats, e);
        if (rc) {
            (void)err_wrap(e, "iteration %lld", (long long)p->iteration);
            break;
        }
        go_on = !hook || hook(ctx, &stats);
    }
    return rc;
}
