#include "rl/dqn_update.h"

#include <math.h>
#include <string.h>

#include "base/mem.h"
#include "base/rng.h"
#include "nn/head.h"

/* ---- loss ----------------------------------------------------------------------------- */

void dqn_loss(void *ctx, const struct nn_tile *tile)
{
    struct dqn_loss *l = ctx;
    for (int i = 0; i < tile->n; i++) {
        int row = tile->row[i], a = l->action[row];
        const float *q = tile->logits + (size_t)i * tile->ld_logits;
        float *dq = tile->dlogits + (size_t)i * tile->ld_logits;
        float err = q[a] - l->target[row], d = l->huber_delta, size = fabsf(err),
              w = l->weight[row];
        memset(dq, 0, (size_t)l->n_actions * sizeof *dq);
        dq[a] = w * (size <= d ? err : copysignf(d, err));
        l->loss += (double)(w * (size <= d ? 0.5f * err * err : d * (size - 0.5f * d)));
        l->q += (double)(w * q[a]);
    }
}

float dqn_target(float reward, float gamma, int end, const float *q, const float *q_target,
                 const uint8_t *mask, int n_actions)
{
    if (end == RL_TERMINATED)
        return reward;
    return reward + gamma * q_target[nn_head_argmax(q, mask, n_actions)];
}

/* ---- life ----------------------------------------------------------------------------- */

static enum err_code part_init(struct dqn_update *u, int i, struct err *e)
{
    struct dqn_part *p = &u->part[i];
    size_t lo, hi, actions = (size_t)u->replay->n_actions;
    thread_part((size_t)u->batch, DQN_SHARDS, (size_t)i, &lo, &hi);
    p->begin = (int)lo;
    p->n = (int)(hi - lo);
    p->q = mem_zero((hi - lo) * actions + 1, sizeof(float));
    p->q_target = mem_zero((hi - lo) * actions + 1, sizeof(float));
    return nn_ws_new_sums(u->net, &p->sums, e);
}

enum err_code dqn_update_init(struct dqn_update *u, struct nn_net *net, const struct nn_net *target,
                              struct thread_pool *pool, const struct replay *replay, int batch,
                              struct err *e)
{
    size_t rows = (size_t)batch, dim = (size_t)replay->obs_dim;
    *u = (struct dqn_update){.net = net,
                             .target = target,
                             .pool = pool,
                             .replay = replay,
                             .batch = batch,
                             .adam = nn_adam_default(),
                             .reward_scale = 1.0f};
    u->obs = try_zero_aligned(rows * dim, sizeof(float));
    u->next_obs = try_zero_aligned(rows * dim, sizeof(float));
    u->next_mask = try_zero(rows * (size_t)replay->n_actions, 1);
    u->row = try_zero(rows, sizeof *u->row);
    u->action = try_zero(rows, sizeof *u->action);
    u->end = try_zero(rows, 1);
    u->target_y = try_zero(rows, sizeof(float));
    u->weight = try_zero(rows, sizeof(float));
    if (!u->obs || !u->next_obs || !u->next_mask || !u->row || !u->action || !u->end ||
        !u->target_y || !u->weight)
        return err_set(e, ERR_NOMEM, "batch of %d rows", batch);
    for (int i = 0; i < DQN_SHARDS; i++)
        if (part_init(u, i, e))
            return ERR_NOMEM;
    u->n_scratch = thread_pool_size(pool);
    u->scratch = mem_zero((size_t)u->n_scratch, sizeof(struct nn_ws *));
    for (int i = 0; i < u->n_scratch; i++)
        if (nn_ws_new(net, &u->scratch[i], e))
            return ERR_NOMEM;
    return ERR_OK;
}

void dqn_update_fini(struct dqn_update *u)
{
    for (int i = 0; i < DQN_SHARDS; i++) {
        mem_free(u->part[i].q);
        mem_free(u->part[i].q_target);
        nn_ws_free(u->part[i].sums);
    }
    for (int i = 0; u->scratch && i < u->n_scratch; i++)
        nn_ws_free(u->scratch[i]);
    void *buffer[] = {u->scratch, u->obs, u->next_obs, u->next_mask, u->row,
                      u->action,  u->end, u->target_y, u->weight};
    for (size_t i = 0; i < ARRAY_LEN(buffer); i++)
        mem_free(buffer[i]);
    *u = (struct dqn_update){0};
}

/* ---- one step ------------------------------------------------------------------------- */

/* Rows are drawn with replacement by a hash of (seed, update, place in the batch). */
static int32_t draw_row(const struct dqn_update *u, int at)
{
    struct rng rng = rng_from_key(rng_at(u->draw_key, (uint64_t)u->update, (uint64_t)at));
    return (int32_t)rng_below(&rng, (uint32_t)replay_rows(u->replay));
}

static void take_obs(const struct dqn_update *u, const float *from, float *to)
{
    size_t dim = (size_t)u->replay->obs_dim;
    if (u->norm)
        nn_norm_apply(u->norm, from, dim, 1, to, dim);
    else
        memcpy(to, from, dim * sizeof(float));
}

/* The replay is far larger than the caches and rows are drawn at random: ask for all of a part's
 * rows before the first is read. */
static void draw_rows(struct dqn_update *u, const struct dqn_part *p)
{
    const struct replay *r = u->replay;
    size_t dim = (size_t)r->obs_dim;
    for (int i = p->begin; i < p->begin + p->n; i++) {
        size_t row = (size_t)(u->row[i] = draw_row(u, i));
        for (size_t j = 0; j < dim; j += 16) {
            __builtin_prefetch(r->obs + row * dim + j);
            __builtin_prefetch(r->next_obs + row * dim + j);
        }
    }
}

/* Fills the part's rows; target_y holds the scaled reward for now. */
static void gather(struct dqn_update *u, const struct dqn_part *p)
{
    const struct replay *r = u->replay;
    size_t dim = (size_t)r->obs_dim, actions = (size_t)r->n_actions;
    for (int i = p->begin; i < p->begin + p->n; i++) {
        int32_t row = u->row[i];
        take_obs(u, r->obs + (size_t)row * dim, u->obs + (size_t)i * dim);
        take_obs(u, r->next_obs + (size_t)row * dim, u->next_obs + (size_t)i * dim);
        memcpy(u->next_mask + (size_t)i * actions, r->next_mask + (size_t)row * actions, actions);
        u->action[i] = r->action[row];
        u->end[i] = r->end[row];
        u->target_y[i] = r->reward[row] * u->reward_scale;
        u->weight[i] = replay_weight(r, row) / (float)u->batch;
    }
}

static void make_targets(struct dqn_update *u, struct dqn_part *p, struct nn_ws *ws)
{
    const struct replay *r = u->replay;
    size_t dim = (size_t)r->obs_dim, actions = (size_t)r->n_actions;
    const float *next = u->next_obs + (size_t)p->begin * dim;
    nn_net_forward(u->net, ws, next, dim, p->n, NULL, p->q, NULL);
    nn_net_forward(u->target, ws, next, dim, p->n, NULL, p->q_target, NULL);
    for (int i = 0; i < p->n; i++) {
        size_t at = (size_t)(p->begin + i);
        u->target_y[at] = dqn_target(u->target_y[at], u->gamma, u->end[at],
                                     p->q + (size_t)i * actions, p->q_target + (size_t)i * actions,
                                     u->next_mask + at * actions, r->n_actions);
    }
}

static void run_part(size_t shard, int worker, void *arg)
{
    struct dqn_update *u = arg;
    struct dqn_part *p = &u->part[shard];
    size_t dim = (size_t)u->replay->obs_dim, begin = (size_t)p->begin;
    nn_ws_zero(p->sums);
    p->loss = (struct dqn_loss){
        .n_actions = u->replay->n_actions,
        .action = u->action + begin,
        .target = u->target_y + begin,
        .weight = u->weight + begin,
        .huber_delta = u->huber_delta,
    };
    draw_rows(u, p);
    gather(u, p);
    make_targets(u, p, u->scratch[worker]);
    struct nn_batch batch = {
        .obs = u->obs + begin * dim, .obs_stride = dim, .n = p->n, .n_steps = 1};
    nn_net_grad_into(u->net, u->scratch[worker], p->sums, &batch, dqn_loss, &p->loss);
}

enum err_code dqn_update_run(struct dqn_update *u, int64_t update, struct dqn_update_stats *out,
                             struct err *e)
{
    struct nn_ws *sums[DQN_SHARDS];
    float norm;
    u->update = update;
    parallel_for(u->pool, DQN_SHARDS, run_part, u);
    *out = (struct dqn_update_stats){0};
    for (int i = 0; i < DQN_SHARDS; i++) {
        sums[i] = u->part[i].sums;
        out->loss += u->part[i].loss.loss;
        out->q += u->part[i].loss.q;
    }
    nn_net_reduce(u->net, sums, DQN_SHARDS);
    enum err_code rc = nn_adam_step(&u->adam, nn_net_params(u->net), u->lr, &norm, e);
    if (rc)
        return rc;
    out->grad_norm = (double)norm;
    nn_net_pack(u->net);
    return ERR_OK;
}
