#include <math.h>
#include <string.h>

#include "base/mem.h"
#include "base/rng.h"
#include "rl/a3c_priv.h"
#include "rl/gae.h"

/* ---- a part of the lanes as an environment of its own --------------------------------- */

static void copy_obs(const struct a3c_lanes *l, const float *all, int begin, int end, float *out)
{
    size_t dim = (size_t)l->inner->obs_dim, n = (size_t)(end - begin) * dim;
    memcpy(out + (size_t)begin * dim, all + (size_t)(l->first + begin) * dim, n * sizeof(float));
}

static void copy_mask(const struct a3c_lanes *l, int begin, int end, uint8_t *out)
{
    size_t actions = (size_t)l->inner->n_actions;
    memcpy(out + (size_t)begin * actions, l->all->mask + (size_t)(l->first + begin) * actions,
           (size_t)(end - begin) * actions);
}

static void lanes_reset(void *env, int begin, int end, float *obs, uint8_t *mask)
{
    const struct a3c_lanes *l = env;
    l->inner->reset(l->inner->env, l->first + begin, l->first + end, l->all->obs, l->all->mask);
    copy_obs(l, l->all->obs, begin, end, obs);
    copy_mask(l, begin, end, mask);
}

static void lanes_step(void *env, int begin, int end, const int32_t *action,
                       const struct rl_step_out *out)
{
    const struct a3c_lanes *l = env;
    size_t n = (size_t)(end - begin), from = (size_t)(l->first + begin), to = (size_t)begin;
    memcpy(l->action + from, action + to, n * sizeof *action);
    l->inner->step(l->inner->env, l->first + begin, l->first + end, l->action, l->all);
    copy_obs(l, l->all->obs, begin, end, out->obs);
    copy_obs(l, l->all->final_obs, begin, end, out->final_obs);
    copy_mask(l, begin, end, out->mask);
    memcpy(out->reward + to, l->all->reward + from, n * sizeof(float));
    memcpy(out->cost + to, l->all->cost + from, n * sizeof(float));
    memcpy(out->end + to, l->all->end + from, n);
}

/* ---- life ----------------------------------------------------------------------------- */

static enum err_code make_buffers(struct a3c_worker *w, int seq_steps, struct err *e)
{
    size_t n = (size_t)w->rollout->n_rows;
    const struct rollout *r = w->rollout;
    w->scaled = try_zero(n, sizeof(float));
    w->adv = try_zero(n, sizeof(float));
    w->ret = try_zero(n, sizeof(float));
    w->first = try_zero(n, sizeof *w->first);
    if (!w->scaled || !w->adv || !w->ret || !w->first)
        return err_set(e, ERR_NOMEM, "advantages of %zu rows", n);
    for (int i = 0; i < r->n_rows / seq_steps; i++)
        w->first[i] = i / r->n_lanes * seq_steps * r->n_lanes + i % r->n_lanes;
    w->loss = (struct ppo_loss){
        .n_actions = r->n_actions,
        .n_values = 1,
        .action = r->action,
        .mask = r->mask,
        .logp_old = r->logp,
        .adv = w->adv,
        .ret = {w->ret},
        .clip = 1.0f /* the ratio is 1 */,
        .value_coef = w->a3c->cfg.value_coef,
        .weight = 1.0f / (float)r->n_rows,
    };
    return ERR_OK;
}

static int seq_steps_of(const struct a3c_cfg *c)
{
    return c->shape == NN_LSTM ? c->seq_steps : 1;
}

static enum err_code make_parts(struct a3c_worker *w, int i, struct err *e)
{
    const struct a3c *a = w->a3c;
    const struct a3c_cfg *c = &a->cfg;
    struct rng rng = rng_stream(c->seed, "a3c.worker"); /* values are replaced by the shared ones */
    int seq_steps = seq_steps_of(c);
    enum err_code rc = nn_net_new(nn_net_cfg_get(a->net), &rng, &w->net, e);
    if (rc == ERR_OK)
        rc = nn_ws_new(w->net, &w->ws, e);
    if (rc == ERR_OK)
        rc = rollout_new(&w->venv, c->n_steps, 1, nn_net_state_dim(w->net), &w->rollout, e);
    if (rc == ERR_OK)
        rc = collector_init(&w->collector, &w->venv, w->net, c->norm_obs ? &w->norm : NULL,
                            rng_at(rng_key(c->seed, "a3c.act"), (uint64_t)i, 0), c->gamma,
                            seq_steps, e);
    return rc ? rc : make_buffers(w, seq_steps, e);
}

enum err_code a3c_worker_init(struct a3c *a, int i, struct err *e)
{
    struct a3c_worker *w = &a->worker[i];
    size_t lo, hi;
    thread_part((size_t)a->venv.n_lanes, (size_t)a->cfg.n_threads, (size_t)i, &lo, &hi);
    w->a3c = a;
    w->lanes = (struct a3c_lanes){
        .inner = &a->venv, .first = (int)lo, .all = &a->all, .action = a->action};
    w->venv = (struct rl_venv){.env = &w->lanes,
                               .n_lanes = (int)(hi - lo),
                               .obs_dim = a->venv.obs_dim,
                               .n_actions = a->venv.n_actions,
                               .reset = lanes_reset,
                               .step = lanes_step};
    nn_norm_init(&w->norm, a->venv.obs_dim);
    return make_parts(w, i, e);
}

void a3c_worker_fini(struct a3c_worker *w)
{
    collector_fini(&w->collector);
    rollout_free(w->rollout);
    nn_ws_free(w->ws);
    nn_net_free(w->net);
    nn_norm_fini(&w->norm);
    void *buffer[] = {w->scaled, w->adv, w->ret, w->first};
    for (size_t i = 0; i < ARRAY_LEN(buffer); i++)
        mem_free(buffer[i]);
}

/* ---- statistics, under the lock ------------------------------------------------------- */

/* Chan et al. 1983, for one variable; the first part is taken as it is, to the bit. */
static void fold(double *count, double *mean, double *m2, double n, double new_mean, double new_m2)
{
    if (*count > 0 && n > 0) {
        double all = *count + n, shift = new_mean - *mean;
        *m2 += new_m2 + shift * shift * *count * n / all;
        *mean += shift * n / all;
        *count = all;
    } else if (n > 0) {
        *m2 = new_m2;
        *mean = new_mean;
        *count = n;
    }
}

static void combine_obs(struct a3c *a)
{
    struct nn_norm *norm = &a->norm;
    size_t bins = (size_t)norm->dim * NN_NORM_BINS;
    double total = 0;
    memset(norm->hist, 0, bins * sizeof *norm->hist);
    for (int j = 0; j < norm->dim; j++) {
        double count = 0, mean = 0, m2 = 0;
        for (int i = 0; i <= a->cfg.n_threads; i++)
            fold(&count, &mean, &m2, a->part[i].count, a->part[i].mean[j], a->part[i].m2[j]);
        norm->mean[j] = mean;
        norm->m2[j] = m2;
        total = count;
    }
    for (int i = 0; i <= a->cfg.n_threads; i++)
        for (size_t b = 0; b < bins; b++)
            norm->hist[b] += a->part[i].hist[b];
    norm->count = total;
    nn_norm_refresh(norm);
}

void a3c_combine(struct a3c *a)
{
    struct reward_norm *r = &a->reward_norm;
    combine_obs(a);
    *r = (struct reward_norm){0};
    for (int i = 0; i <= a->cfg.n_threads; i++) {
        const struct reward_norm *p = &a->part[i].reward;
        fold(&r->count, &r->mean, &r->m2, p->count, p->mean, p->m2);
    }
}

static void publish(struct a3c_worker *w)
{
    struct a3c *a = w->a3c;
    struct a3c_part *p = &a->part[1 + (w - a->worker)];
    size_t dim = (size_t)w->norm.dim;
    p->count = w->norm.count;
    memcpy(p->mean, w->norm.mean, dim * sizeof(double));
    memcpy(p->m2, w->norm.m2, dim * sizeof(double));
    memcpy(p->hist, w->norm.hist, dim * NN_NORM_BINS * sizeof *p->hist);
    p->reward = w->collector.reward_norm;
    a3c_combine(a);
}

/* ---- sharing, under the lock ---------------------------------------------------------- */

static void pull(struct a3c_worker *w)
{
    const struct a3c *a = w->a3c;
    const struct a3c_cfg *c = &a->cfg;
    const struct nn_params *from = nn_net_params_const(a->net), *to = nn_net_params_const(w->net);
    size_t dim = (size_t)a->norm.dim * sizeof(float);
    double done = fmin(1.0, (double)a->steps / (double)c->total_steps);
    memcpy(to->value, from->value, from->total * sizeof(float));
    memcpy(w->norm.shift, a->norm.shift, dim);
    memcpy(w->norm.scale, a->norm.scale, dim);
    w->reward_scale = c->norm_reward ? reward_norm_scale(&a->reward_norm) : 1.0f;
    w->lr = c->lr + (c->lr_final - c->lr) * (float)done;
    w->loss.entropy_coef = c->entropy + (c->entropy_final - c->entropy) * (float)done;
    w->seen = a->updates;
}

static void count(struct a3c_worker *w, float norm)
{
    struct a3c *a = w->a3c;
    struct a3c_sums *s = &a->sums;
    const struct rollout *r = w->rollout;
    s->rows += r->n_rows;
    s->episodes += r->n_episodes;
    s->updates++;
    s->reward += r->reward_sum;
    s->cost += r->cost_sum;
    s->returns += r->return_sum;
    s->lengths += r->length_sum;
    s->policy_loss += w->loss.policy_loss;
    s->value_loss += w->loss.value_loss[0];
    s->entropy += w->loss.entropy;
    s->grad_norm += (double)norm;
    s->staleness += (double)(a->updates - w->seen);
    a->steps += r->n_rows;
    a->episodes += r->n_episodes;
    a->updates++;
}

static void report(struct a3c_worker *w)
{
    struct a3c *a = w->a3c;
    const struct a3c_sums *s = &a->sums;
    if (s->rows < a->cfg.report_steps)
        return;
    double rows = (double)s->rows, episodes = (double)s->episodes, updates = (double)s->updates;
    struct a3c_stats stats = {
        .iteration = ++a->iteration,
        .steps = a->steps,
        .episodes = a->episodes,
        .updates = a->updates,
        .mean_reward = s->reward / rows,
        .mean_cost = s->cost / rows,
        .episode_return = s->episodes ? s->returns / episodes : NAN,
        .episode_len = s->episodes ? s->lengths / episodes : NAN,
        .policy_loss = s->policy_loss / rows,
        .value_loss = s->value_loss / rows,
        .entropy = s->entropy / rows,
        .grad_norm = s->grad_norm / updates,
        .staleness = s->staleness / updates,
        .lr = (double)w->lr,
    };
    a->sums = (struct a3c_sums){0};
    if (a->hook && !a->hook(a->ctx, &stats))
        a->stop = true;
}

/* The worker's gradient becomes the shared network's, one step is taken from where the others left
 * it. */
static enum err_code push(struct a3c_worker *w)
{
    struct a3c *a = w->a3c;
    struct nn_params *to = nn_net_params(a->net);
    float norm;
    memcpy(to->grad, nn_net_params_const(w->net)->grad, to->total * sizeof(float));
    enum err_code rc = nn_adam_step(&a->adam, to, w->lr, &norm, &w->err);
    if (rc)
        return rc;
    count(w, norm);
    report(w);
    return ERR_OK;
}

/* ---- work outside the lock ------------------------------------------------------------ */

static void make_advantages(struct a3c_worker *w)
{
    const struct rollout *r = w->rollout;
    const struct a3c_cfg *c = &w->a3c->cfg;
    for (int i = 0; i < r->n_rows; i++)
        w->scaled[i] = (r->reward[i] - c->cost_price * r->cost[i]) * w->reward_scale;
    struct gae_in in = {
        .n_steps = r->n_steps,
        .n_lanes = r->n_lanes,
        .reward = w->scaled,
        .value = r->value[0],
        .boot = r->boot[0],
        .last = r->last[0],
        .end = r->end,
        .gamma = c->gamma,
        .lambda = c->gae_lambda,
    };
    gae_compute(&in, 0, r->n_lanes, w->adv, w->ret);
}

static void make_gradient(struct a3c_worker *w)
{
    const struct rollout *r = w->rollout;
    int seq_steps = seq_steps_of(&w->a3c->cfg);
    struct nn_batch batch = {
        .obs = r->obs,
        .obs_stride = (size_t)r->obs_dim,
        .first = w->first,
        .n = r->n_rows / seq_steps,
        .n_steps = seq_steps,
        .step_rows = r->n_lanes,
        .state0 = r->state0,
        .reset = r->reset,
    };
    w->loss.policy_loss = w->loss.value_loss[0] = w->loss.entropy = w->loss.kl = w->loss.clipped =
        0;
    make_advantages(w);
    nn_ws_zero(w->ws);
    nn_net_grad(w->net, w->ws, &batch, ppo_loss, &w->loss);
    nn_net_reduce(w->net, &w->ws, 1);
}

/* A rollout with the parameters last copied; its gradient, unless it only collects statistics. */
static enum err_code work(struct a3c_worker *w)
{
    nn_net_pack(w->net);
    enum err_code rc = collector_run(&w->collector, w->net, NULL, w->rollout, &w->err);
    if (rc == ERR_OK && w->warm)
        make_gradient(w);
    return rc;
}

/* Gives what the work brought and takes the newest parameters, in one hold of the lock. */
static bool exchange(struct a3c_worker *w, enum err_code rc)
{
    struct a3c *a = w->a3c;
    pthread_mutex_lock(&a->mutex);
    if (rc == ERR_OK && w->warm && !a->stop)
        rc = push(w);
    w->rc = rc;
    w->warm = true;
    publish(w);
    pull(w);
    if (rc || a->steps >= a->cfg.total_steps)
        a->stop = true;
    bool go_on = !a->stop;
    pthread_mutex_unlock(&a->mutex);
    return go_on;
}

static bool begin(struct a3c_worker *w)
{
    struct a3c *a = w->a3c;
    pthread_mutex_lock(&a->mutex);
    pull(w);
    bool go_on = !a->stop;
    pthread_mutex_unlock(&a->mutex);
    return go_on;
}

void a3c_worker_run(size_t i, int thread, void *arg)
{
    struct a3c *a = arg;
    struct a3c_worker *w = &a->worker[i];
    (void)thread;
    w->rc = ERR_OK;
    w->warm = w->warm || !(a->cfg.norm_obs || a->cfg.norm_reward);
    bool go_on = begin(w);
    while (go_on)
        go_on = exchange(w, work(w));
}
