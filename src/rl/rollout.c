#include "rl/rollout.h"

#include <math.h>
#include <string.h>

#include "base/mem.h"
#include "base/rng.h"
#include "nn/head.h"

enum { SHARD_LANES = 32, TWO_SHARDS_FROM = 16 };

/* Scratch of one shard of lanes.  Its sums move every step: no two shards on one cache line. */
struct shard {
    _Alignas(MEM_ALIGN) int begin, end; /* lanes */
    struct nn_ws *ws;
    struct nn_norm_acc *acc;
    float *scaled; /* [lanes][obs_dim], normalised final observations */
    float *state;  /* [lanes][state_dim], copy for a look at a final observation */
    float *logits, *values;
    /* What the environment writes lane by lane, all lanes wide but only its own in use.  In the collector's and the
     * rollout's arrays several shards share a cache line, and the hardware prefetches past the last lane of a
     * shard: either takes lines away from the thread at work on the next. */
    float *obs;                     /* [n_lanes][obs_dim], raw */
    uint8_t *mask, *reset, *end_of; /* [n_lanes][n_actions], [n_lanes], [n_lanes] enum rl_end */
    /* What the shard adds to the rollout's figures. */
    double reward_sum, cost_sum, return_sum, length_sum, disc_sum, disc_sq;
    int64_t n_episodes;
    int bad_lane; /* -1, or a lane whose environment misbehaved */
    const char *bad_field;
};

/* ---- buffers
 * ---------------------------------------------------------------------------------- */

static bool rollout_alloc(struct rollout *r)
{
    size_t n = (size_t)r->n_rows;
    r->obs = try_zero_aligned(n * (size_t)r->obs_dim, sizeof(float));
    r->mask = try_zero_aligned(n * (size_t)r->n_actions, 1);
    r->action = try_zero_aligned(n, sizeof *r->action);
    r->logp = try_zero_aligned(n, sizeof(float));
    r->reward = try_zero_aligned(n, sizeof(float));
    r->cost = try_zero_aligned(n, sizeof(float));
    r->end = try_zero_aligned(n, 1);
    r->reset = try_zero_aligned(n, 1);
    r->state0 = try_zero_aligned(n * (size_t)r->state_dim, sizeof(float));
    bool ok = r->obs && r->mask && r->action && r->logp && r->reward && r->cost && r->end &&
              r->reset && r->state0;
    for (int k = 0; k < r->n_values; k++) {
        r->value[k] = try_zero_aligned(n, sizeof(float));
        r->boot[k] = try_zero_aligned(n, sizeof(float));
        r->last[k] = try_zero_aligned((size_t)r->n_lanes, sizeof(float));
        ok = ok && r->value[k] && r->boot[k] && r->last[k];
    }
    return ok;
}

enum err_code rollout_new(const struct rl_venv *venv, int n_steps, int n_values, int state_dim,
                          struct rollout **out, struct err *e)
{
    enum { ROWS_MAX = 1 << 24 };
    *out = NULL;
    if (n_steps < 1 || venv->n_lanes < 1 || (int64_t)n_steps * venv->n_lanes > ROWS_MAX)
        return err_set(e, ERR_RANGE, "rollout of %d steps x %d lanes is outside 1..%d rows",
                       n_steps, venv->n_lanes, ROWS_MAX);
    ASSERT(n_values >= 0 && n_values <= ROLLOUT_VALUES_MAX);
    struct rollout *r = mem_zero(1, sizeof *r);
    r->n_steps = n_steps;
    r->n_lanes = venv->n_lanes;
    r->n_rows = n_steps * venv->n_lanes;
    r->obs_dim = venv->obs_dim;
    r->n_actions = venv->n_actions;
    r->n_values = n_values;
    r->state_dim = state_dim;
    if (!rollout_alloc(r)) {
        rollout_free(r);
        return err_set(e, ERR_NOMEM, "rollout of %d steps x %d lanes", n_steps, venv->n_lanes);
    }
    *out = r;
    return ERR_OK;
}

void rollout_free(struct rollout *r)
{
    if (!r)
        return;
    void *buffer[] = {r->obs,  r->mask, r->action, r->logp,  r->reward,
                      r->cost, r->end,  r->reset,  r->state0};
    for (size_t i = 0; i < ARRAY_LEN(buffer); i++)
        mem_free(buffer[i]);
    for (int k = 0; k < ROLLOUT_VALUES_MAX; k++) {
        mem_free(r->value[k]);
        mem_free(r->boot[k]);
        mem_free(r->last[k]);
    }
    mem_free(r);
}

float reward_norm_scale(const struct reward_norm *n)
{
    if (n->count < 2)
        return 1.0f;
    double deviation = sqrt(n->m2 / n->count);
    return deviation > 1e-6 ? (float)(1.0 / deviation) : 1.0f;
}

/* ---- collector
 * -------------------------------------------------------------------------------- */

static int shard_count(int n_lanes)
{
    int n = n_lanes / SHARD_LANES; /* fewer lanes would read the weights more often than they pay */
    if (n < 2)
        return n_lanes >= TWO_SHARDS_FROM ? 2 : 1;
    return n > ROLLOUT_SHARDS_MAX ? ROLLOUT_SHARDS_MAX : n;
}

static enum err_code shard_init(struct collector *c, int i, const struct nn_net *net, struct err *e)
{
    struct shard *s = &c->shard[i];
    size_t lo, hi;
    thread_part((size_t)c->venv->n_lanes, (size_t)c->n_shards, (size_t)i, &lo, &hi);
    size_t lanes = hi - lo;
    s->begin = (int)lo;
    s->end = (int)hi;
    s->scaled = mem_zero(lanes * (size_t)c->venv->obs_dim, sizeof(float));
    s->state = mem_zero(lanes * (size_t)c->state_dim, sizeof(float));
    s->logits = mem_zero(lanes * (size_t)c->venv->n_actions, sizeof(float));
    s->values = mem_zero(lanes * ROLLOUT_VALUES_MAX, sizeof(float));
    size_t all = (size_t)c->venv->n_lanes;
    s->obs = try_zero_aligned(all * (size_t)c->venv->obs_dim, sizeof(float));
    s->mask = try_zero_aligned(all * (size_t)c->venv->n_actions, 1);
    s->reset = try_zero_aligned(all, 1);
    s->end_of = try_zero_aligned(all, 1);
    if (!s->obs || !s->mask || !s->reset || !s->end_of)
        return err_set(e, ERR_NOMEM, "%zu lanes", all);
    if (c->norm)
        s->acc = nn_norm_acc_new(c->norm);
    return nn_ws_new(net, &s->ws, e);
}

enum err_code collector_init(struct collector *c, const struct rl_venv *venv,
                             const struct nn_net *net, struct nn_norm *norm, uint64_t seed,
                             float gamma, int seq_steps, struct err *e)
{
    size_t lanes = (size_t)venv->n_lanes, obs = lanes * (size_t)venv->obs_dim;
    *c = (struct collector){
        .venv = venv,
        .norm = norm,
        .action_key = rng_key(seed, "rl.action"),
        .gamma = gamma,
        .seq_steps = seq_steps,
        .n_shards = shard_count(venv->n_lanes),
        .state_dim = nn_net_state_dim(net),
    };
    c->obs = try_zero_aligned(obs, sizeof(float));
    c->final_obs = try_zero_aligned(obs, sizeof(float));
    c->mask = try_zero_aligned(lanes * (size_t)venv->n_actions, 1);
    c->reset = try_zero_aligned(lanes, 1);
    c->state = try_zero_aligned(lanes * (size_t)c->state_dim, sizeof(float));
    c->discounted = try_zero_aligned(lanes, sizeof(double));
    c->episode_return = try_zero_aligned(lanes, sizeof(double));
    c->episode_length = try_zero_aligned(lanes, sizeof(double));
    c->shard = try_zero_aligned((size_t)c->n_shards, sizeof *c->shard);
    if (!c->obs || !c->final_obs || !c->mask || !c->reset || !c->state || !c->discounted ||
        !c->episode_return || !c->episode_length || !c->shard)
        return err_set(e, ERR_NOMEM, "%zu lanes", lanes);
    for (int i = 0; i < c->n_shards; i++)
        if (shard_init(c, i, net, e))
            return ERR_NOMEM;
    return ERR_OK;
}

void collector_fini(struct collector *c)
{
    for (int i = 0; c->shard && i < c->n_shards; i++) {
        struct shard *s = &c->shard[i];
        nn_ws_free(s->ws);
        nn_norm_acc_free(s->acc);
        void *buffer[] = {s->scaled, s->state, s->logits, s->values,
                          s->obs,    s->mask,  s->reset,  s->end_of};
        for (size_t k = 0; k < ARRAY_LEN(buffer); k++)
            mem_free(buffer[k]);
    }
    void *buffer[] = {c->obs,        c->final_obs,      c->mask,           c->reset, c->state,
                      c->discounted, c->episode_return, c->episode_length, c->shard};
    for (size_t k = 0; k < ARRAY_LEN(buffer); k++)
        mem_free(buffer[k]);
    *c = (struct collector){0};
}

/* What one pass over the shards works on. */
struct pass {
    struct collector *c;
    const struct nn_net *net;
    struct rollout *r;
};

static void normalise(const struct collector *c, const float *x, int n, float *y)
{
    size_t dim = (size_t)c->venv->obs_dim;
    if (c->norm)
        nn_norm_apply(c->norm, x, dim, n, y, dim);
    else
        memcpy(y, x, (size_t)n * dim * sizeof(float));
}

static void choose_actions(const struct pass *p, struct shard *s, int step)
{
    const struct collector *c = p->c;
    struct rollout *r = p->r;
    int n_actions = r->n_actions;
    for (int lane = s->begin; lane < s->end; lane++) {
        size_t row = (size_t)step * (size_t)r->n_lanes + (size_t)lane;
        const uint8_t *mask = s->mask + (size_t)lane * (size_t)n_actions;
        if (!memchr(mask, 1, (size_t)n_actions)) {
            s->bad_lane = lane;
            s->bad_field = "mask";
            return;
        }
        uint64_t bits = rng_at(c->action_key, (uint64_t)(c->step + step), (uint64_t)lane);
        r->logp[row] = nn_head_draw(s->logits + (size_t)(lane - s->begin) * (size_t)n_actions, mask,
                                    n_actions, rng_to_unit(bits), &r->action[row]);
        if (!isfinite(r->logp[row])) {
            s->bad_lane = lane;
            s->bad_field = "output of the policy";
        }
    }
}

static void keep_values(struct rollout *r, const struct shard *s, float *const *to, size_t first)
{
    for (int lane = s->begin; lane < s->end; lane++)
        for (int k = 0; k < r->n_values; k++)
            to[k][first + (size_t)lane] = s->values[(lane - s->begin) * r->n_values + k];
}

/* Before the step: observation, state and mask into the rollout, then actions and values out of the
 * net. */
static void act(const struct pass *p, struct shard *s, int step)
{
    struct collector *c = p->c;
    struct rollout *r = p->r;
    size_t lanes = (size_t)(s->end - s->begin), begin = (size_t)s->begin, dim = (size_t)r->obs_dim;
    size_t row = (size_t)step * (size_t)r->n_lanes + begin, state = (size_t)c->state_dim;
    size_t actions = (size_t)r->n_actions;
    normalise(c, s->obs + begin * dim, (int)lanes, r->obs + row * dim);
    memcpy(r->mask + row * actions, s->mask + begin * actions, lanes * actions);
    memcpy(r->reset + row, s->reset + begin, lanes);
    for (size_t i = 0; i < lanes && state > 0; i++)
        if (s->reset[begin + i])
            memset(c->state + (begin + i) * state, 0, state * sizeof(float));
    if (state > 0 && step % c->seq_steps == 0)
        memcpy(r->state0 + row * state, c->state + begin * state, lanes * state * sizeof(float));
    nn_net_forward(p->net, s->ws, r->obs + row * dim, dim, (int)lanes,
                   state ? c->state + begin * state : NULL, s->logits,
                   r->n_values ? s->values : NULL);
    keep_values(r, s, r->value, row - begin);
    choose_actions(p, s, step);
}

/* Value of the observations in which episodes were cut off. */
static void bootstrap(const struct pass *p, struct shard *s, int step)
{
    struct collector *c = p->c;
    struct rollout *r = p->r;
    size_t dim = (size_t)r->obs_dim, state = (size_t)c->state_dim;
    for (int lane = s->begin; lane < s->end; lane++) {
        size_t row = (size_t)step * (size_t)r->n_lanes + (size_t)lane;
        float value[ROLLOUT_VALUES_MAX];
        if (s->end_of[lane] != RL_TRUNCATED || r->n_values == 0)
            continue;
        normalise(c, c->final_obs + (size_t)lane * dim, 1, s->scaled);
        memcpy(s->state, c->state + (size_t)lane * state, state * sizeof(float));
        nn_net_forward(p->net, s->ws, s->scaled, dim, 1, state ? s->state : NULL, NULL, value);
        for (int k = 0; k < r->n_values; k++)
            r->boot[k][row] = value[k];
    }
}

static void account(const struct pass *p, struct shard *s, int step)
{
    struct collector *c = p->c;
    struct rollout *r = p->r;
    for (int lane = s->begin; lane < s->end; lane++) {
        size_t row = (size_t)step * (size_t)r->n_lanes + (size_t)lane;
        double reward = (double)r->reward[row], cost = (double)r->cost[row];
        if (!isfinite(reward) || !isfinite(cost)) {
            s->bad_lane = lane;
            s->bad_field = isfinite(reward) ? "cost" : "reward";
        }
        s->reward_sum += reward;
        s->cost_sum += cost;
        c->discounted[lane] = c->discounted[lane] * (double)c->gamma + reward;
        s->disc_sum += c->discounted[lane];
        s->disc_sq += c->discounted[lane] * c->discounted[lane];
        c->episode_return[lane] += reward;
        c->episode_length[lane] += 1;
        s->reset[lane] = s->end_of[lane] != RL_RUNNING;
        if (s->reset[lane]) {
            s->return_sum += c->episode_return[lane];
            s->length_sum += c->episode_length[lane];
            s->n_episodes++;
            c->discounted[lane] = c->episode_return[lane] = c->episode_length[lane] = 0;
        }
    }
}

static bool finite_rows(const float *x, size_t n)
{
    float sum = 0; /* x * 0 is NaN exactly where x is not finite */
    for (size_t i = 0; i < n; i++)
        sum += x[i] * 0.0f;
    return sum == 0.0f;
}

static void step_env(const struct pass *p, struct shard *s, int step)
{
    struct collector *c = p->c;
    struct rollout *r = p->r;
    size_t first = (size_t)step * (size_t)r->n_lanes, dim = (size_t)r->obs_dim;
    c->venv->step(c->venv->env, s->begin, s->end, r->action + first,
                  &(struct rl_step_out){
                      .obs = s->obs,
                      .mask = s->mask,
                      .reward = r->reward + first,
                      .cost = r->cost + first,
                      .end = s->end_of,
                      .final_obs = c->final_obs,
                  });
    for (int lane = s->begin; lane < s->end; lane++)
        if (!finite_rows(s->obs + (size_t)lane * dim, dim) ||
            (s->end_of[lane] != RL_RUNNING &&
             !finite_rows(c->final_obs + (size_t)lane * dim, dim))) {
            s->bad_lane = lane;
            s->bad_field = "observation";
        }
    memcpy(r->end + first + s->begin, s->end_of + s->begin, (size_t)(s->end - s->begin));
}

static void finish_shard(const struct pass *p, struct shard *s)
{
    struct collector *c = p->c;
    struct rollout *r = p->r;
    size_t dim = (size_t)r->obs_dim, state = (size_t)c->state_dim,
           lanes = (size_t)(s->end - s->begin);
    if (r->n_values == 0)
        return;
    normalise(c, s->obs + (size_t)s->begin * dim, (int)lanes, s->scaled);
    memcpy(s->state, c->state + (size_t)s->begin * state, lanes * state * sizeof(float));
    for (size_t i = 0; i < lanes && state > 0; i++)
        if (s->reset[(size_t)s->begin + i])
            memset(s->state + i * state, 0, state * sizeof(float));
    nn_net_forward(p->net, s->ws, s->scaled, dim, (int)lanes, state ? s->state : NULL, NULL,
                   s->values);
    keep_values(r, s, r->last, 0);
}

static void run_shard(size_t i, int worker, void *arg)
{
    const struct pass *all = arg;
    struct collector *c = all->c;
    struct pass own = *all, *p = &own;
    struct shard *s = &c->shard[i];
    size_t dim = (size_t)p->r->obs_dim;
    if (c->replicas)
        own.net = replicas_net(c->replicas, worker);
    s->reward_sum = s->cost_sum = s->return_sum = s->length_sum = s->disc_sum = s->disc_sq = 0;
    s->n_episodes = 0;
    s->bad_lane = -1;
    size_t begin = (size_t)s->begin, lanes = (size_t)(s->end - s->begin), actions = (size_t)p->r->n_actions;
    memcpy(s->obs + begin * dim, c->obs + begin * dim, lanes * dim * sizeof(float));
    memcpy(s->mask + begin * actions, c->mask + begin * actions, lanes * actions);
    memcpy(s->reset + begin, c->reset + begin, lanes);
    if (!c->started) {
        c->venv->reset(c->venv->env, s->begin, s->end, s->obs, s->mask);
        memset(s->reset + begin, 1, lanes);
    }
    for (int step = 0; step < p->r->n_steps && s->bad_lane < 0; step++) {
        if (s->acc)
            nn_norm_acc_add(s->acc, c->norm, s->obs + (size_t)s->begin * dim, dim,
                            s->end - s->begin);
        act(p, s, step);
        if (s->bad_lane >= 0)
            break;
        step_env(p, s, step);
        bootstrap(p, s, step);
        account(p, s, step);
    }
    if (s->bad_lane < 0)
        finish_shard(p, s);
    memcpy(c->obs + begin * dim, s->obs + begin * dim, lanes * dim * sizeof(float));
    memcpy(c->mask + begin * actions, s->mask + begin * actions, lanes * actions);
    memcpy(c->reset + begin, s->reset + begin, lanes);
}

static void sum_figures(struct collector *c, struct rollout *r)
{
    double sum = 0, sq = 0, rows = (double)r->n_rows;
    r->reward_sum = r->cost_sum = r->return_sum = r->length_sum = 0;
    r->n_episodes = 0;
    for (int i = 0; i < c->n_shards; i++) {
        const struct shard *s = &c->shard[i];
        r->reward_sum += s->reward_sum;
        r->cost_sum += s->cost_sum;
        r->return_sum += s->return_sum;
        r->length_sum += s->length_sum;
        r->n_episodes += s->n_episodes;
        sum += s->disc_sum;
        sq += s->disc_sq;
    }
    struct reward_norm *n = &c->reward_norm;
    double mean = sum / rows, shift = mean - n->mean, all = n->count + rows;
    n->m2 += fmax(0.0, sq - sum * mean) + shift * shift * n->count * rows / all;
    n->mean += shift * rows / all;
    n->count = all;
}

static void merge_norm(struct collector *c)
{
    struct nn_norm_acc *acc[ROLLOUT_SHARDS_MAX];
    for (int i = 0; i < c->n_shards; i++)
        acc[i] = c->shard[i].acc;
    if (c->norm)
        nn_norm_merge(c->norm, acc, c->n_shards);
}

enum err_code collector_run(struct collector *c, const struct nn_net *net, struct thread_pool *pool,
                            struct rollout *r, struct err *e)
{
    struct pass p = {.c = c, .net = net, .r = r};
    parallel_for(pool, (size_t)c->n_shards, run_shard, &p);
    c->started = true;
    for (int i = 0; i < c->n_shards; i++) {
        const struct shard *s = &c->shard[i];
        if (s->bad_lane >= 0 && strcmp(s->bad_field, "mask") == 0)
            return err_set(e, ERR_INVAL, "lane %d: the mask allows no action", s->bad_lane);
        if (s->bad_lane >= 0)
            return err_set(e, ERR_NUMERIC, "lane %d: %s is not finite", s->bad_lane, s->bad_field);
    }
    c->step += r->n_steps;
    sum_figures(c, r);
    merge_norm(c);
    return ERR_OK;
}
