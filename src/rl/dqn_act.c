/* dqn_act.c - epsilon-greedy steps of all lanes into the replay.
 *
 * Draws are hashes of (seed, vector step, lane), so neither threads nor interruptions move them:
 * one decides whether to explore, another which of the allowed actions. */
#include <math.h>
#include <string.h>

#include "base/mem.h"
#include "base/rng.h"
#include "nn/head.h"
#include "rl/dqn_priv.h"

enum { SHARD_LANES = 32 /* fewer would read the weights more often than a thread gains */ };

/* ---- life ----------------------------------------------------------------------------- */

static int shard_count(int n_lanes)
{
    int n = n_lanes / SHARD_LANES;
    return n < 1 ? 1 : n > ROLLOUT_SHARDS_MAX ? ROLLOUT_SHARDS_MAX : n;
}

static enum err_code shard_init(struct dqn *d, int i, struct err *e)
{
    struct dqn_shard *s = &d->shard[i];
    size_t lo, hi;
    thread_part((size_t)d->venv.n_lanes, (size_t)d->n_shards, (size_t)i, &lo, &hi);
    s->begin = (int)lo;
    s->end = (int)hi;
    s->scaled = mem_zero((hi - lo) * (size_t)d->venv.obs_dim, sizeof(float));
    s->q = mem_zero((hi - lo) * (size_t)d->venv.n_actions, sizeof(float));
    s->acc = nn_norm_acc_new(&d->norm);
    return nn_ws_new(d->net, &s->ws, e);
}

enum err_code dqn_act_init(struct dqn *d, struct err *e)
{
    size_t lanes = (size_t)d->venv.n_lanes, obs = lanes * (size_t)d->venv.obs_dim;
    struct dqn_lanes *l = &d->lanes;
    d->n_shards = shard_count(d->venv.n_lanes);
    d->act_key = rng_key(d->cfg.seed, "dqn.act");
    l->obs = mem_zero(obs, sizeof(float));
    l->final_obs = mem_zero(obs, sizeof(float));
    l->reward = mem_zero(lanes, sizeof(float));
    l->cost = mem_zero(lanes, sizeof(float));
    l->mask = mem_zero(lanes * (size_t)d->venv.n_actions, 1);
    l->end = mem_zero(lanes, 1);
    l->action = mem_zero(lanes, sizeof *l->action);
    l->discounted = mem_zero(lanes, sizeof(double));
    l->episode_return = mem_zero(lanes, sizeof(double));
    l->episode_length = mem_zero(lanes, sizeof(double));
    for (int i = 0; i < d->n_shards; i++)
        if (shard_init(d, i, e))
            return ERR_NOMEM;
    return ERR_OK;
}

void dqn_act_fini(struct dqn *d)
{
    struct dqn_lanes *l = &d->lanes;
    for (int i = 0; i < d->n_shards; i++) {
        struct dqn_shard *s = &d->shard[i];
        nn_ws_free(s->ws);
        nn_norm_acc_free(s->acc);
        mem_free(s->scaled);
        mem_free(s->q);
    }
    void *buffer[] = {l->obs, l->final_obs, l->reward,     l->cost,           l->mask,
                      l->end, l->action,    l->discounted, l->episode_return, l->episode_length};
    for (size_t i = 0; i < ARRAY_LEN(buffer); i++)
        mem_free(buffer[i]);
}

/* ---- one step ------------------------------------------------------------------------- */

/* What one pass over the shards works on. */
struct pass {
    struct dqn *d;
    float epsilon;
};

static void blame(struct dqn_shard *s, int lane, const char *field)
{
    s->bad_lane = lane;
    s->bad_field = field;
}

/* The n-th allowed action, n = floor(u * allowed). */
static int32_t random_allowed(const uint8_t *mask, int n_actions, double u)
{
    int n_allowed = 0;
    for (int a = 0; a < n_actions; a++)
        n_allowed += mask[a] != 0;
    int skip = (int)(u * n_allowed), a = 0;
    for (;; a++)
        if (mask[a] && skip-- == 0)
            return a;
}

static void choose(const struct pass *p, struct dqn_shard *s, int64_t step)
{
    struct dqn *d = p->d;
    size_t actions = (size_t)d->venv.n_actions;
    for (int lane = s->begin; lane < s->end && s->bad_lane < 0; lane++) {
        const uint8_t *mask = d->lanes.mask + (size_t)lane * actions;
        const float *q = s->q + (size_t)(lane - s->begin) * actions;
        if (!memchr(mask, 1, actions)) {
            blame(s, lane, "mask");
            return;
        }
        s->masked = s->masked || memchr(mask, 0, actions);
        uint64_t bits = rng_at(d->act_key, (uint64_t)step, (uint64_t)lane);
        int32_t best = nn_head_argmax(q, mask, (int)actions);
        if (!isfinite(q[best]))
            blame(s, lane, "output of the network");
        bool explore = rng_to_unit(bits) < (double)p->epsilon;
        d->lanes.action[lane] =
            explore ? random_allowed(mask, (int)actions, rng_to_unit(rng_mix(bits))) : best;
    }
}

static void act(const struct pass *p, struct dqn_shard *s, int64_t step)
{
    struct dqn *d = p->d;
    size_t dim = (size_t)d->venv.obs_dim;
    const float *obs = d->lanes.obs + (size_t)s->begin * dim;
    int lanes = s->end - s->begin;
    if (d->cfg.norm_obs) {
        nn_norm_acc_add(s->acc, &d->norm, obs, dim, lanes);
        nn_norm_apply(&d->norm, obs, dim, lanes, s->scaled, dim);
        obs = s->scaled;
    }
    nn_net_forward(d->net, s->ws, obs, dim, lanes, NULL, s->q, NULL);
    choose(p, s, step);
}

static bool finite_row(const float *x, size_t n)
{
    float sum = 0; /* x * 0 is NaN exactly where x is not finite */
    for (size_t i = 0; i < n; i++)
        sum += x[i] * 0.0f;
    return sum == 0.0f;
}

static void check(const struct dqn *d, struct dqn_shard *s, const struct rl_step_out *out)
{
    size_t dim = (size_t)d->venv.obs_dim;
    for (int lane = s->begin; lane < s->end; lane++) {
        size_t at = (size_t)lane * dim;
        if (!finite_row(out->obs + at, dim) ||
            (out->end[lane] != RL_RUNNING && !finite_row(out->final_obs + at, dim)))
            blame(s, lane, "observation");
        else if (!isfinite(out->reward[lane]))
            blame(s, lane, "reward");
        else if (!isfinite(out->cost[lane]))
            blame(s, lane, "cost");
    }
}

static void account(struct dqn *d, struct dqn_shard *s)
{
    struct dqn_lanes *l = &d->lanes;
    for (int lane = s->begin; lane < s->end; lane++) {
        double reward = (double)l->reward[lane], cost = (double)l->cost[lane];
        double learned = reward - (double)d->cfg.cost_price * cost;
        s->reward_sum += reward;
        s->cost_sum += cost;
        l->discounted[lane] = l->discounted[lane] * (double)d->cfg.gamma + learned;
        s->disc_sum += l->discounted[lane];
        s->disc_sq += l->discounted[lane] * l->discounted[lane];
        l->episode_return[lane] += reward;
        l->episode_length[lane] += 1;
        if (l->end[lane] != RL_RUNNING) {
            s->return_sum += l->episode_return[lane];
            s->length_sum += l->episode_length[lane];
            s->n_episodes++;
            l->discounted[lane] = l->episode_return[lane] = l->episode_length[lane] = 0;
        }
    }
}

/* The step overwrites the observation it was taken on: the replay takes that first. */
static void step_env(struct dqn *d, struct dqn_shard *s, int64_t step)
{
    struct dqn_lanes *l = &d->lanes;
    struct rl_step_out out = {.obs = l->obs,
                              .mask = l->mask,
                              .reward = l->reward,
                              .cost = l->cost,
                              .end = l->end,
                              .final_obs = l->final_obs};
    replay_add_obs(&d->replay, s->begin, s->end, l->obs, step);
    d->venv.step(d->venv.env, s->begin, s->end, l->action, &out);
    check(d, s, &out);
    if (s->bad_lane >= 0)
        return;
    replay_add_step(&d->replay, s->begin, s->end, l->action, d->cfg.cost_price, &out, step);
    account(d, s);
}

static void run_shard(size_t i, int worker, void *arg)
{
    const struct pass *p = arg;
    struct dqn *d = p->d;
    struct dqn_shard *s = &d->shard[i];
    (void)worker;
    s->reward_sum = s->cost_sum = s->return_sum = s->length_sum = s->disc_sum = s->disc_sq = 0;
    s->n_episodes = 0;
    s->bad_lane = -1;
    if (!d->lanes.started)
        d->venv.reset(d->venv.env, s->begin, s->end, d->lanes.obs, d->lanes.mask);
    for (int64_t step = d->replay.n_steps;
         step < d->replay.n_steps + d->cfg.n_steps && s->bad_lane < 0; step++) {
        act(p, s, step);
        if (s->bad_lane < 0)
            step_env(d, s, step);
    }
}

/* ---- after all shards ----------------------------------------------------------------- */

static enum err_code bad_lane(const struct dqn_shard *s, struct err *e)
{
    if (strcmp(s->bad_field, "mask") == 0)
        return err_set(e, ERR_INVAL, "lane %d: the mask allows no action", s->bad_lane);
    return err_set(e, ERR_NUMERIC, "lane %d: %s is not finite", s->bad_lane, s->bad_field);
}

/* Chan et al. 1983, as rollout.c does it. */
static void fold_rewards(struct reward_norm *n, double rows, double sum, double sq)
{
    double mean = sum / rows, shift = mean - n->mean, all = n->count + rows;
    n->m2 += fmax(0.0, sq - sum * mean) + shift * shift * n->count * rows / all;
    n->mean += shift * rows / all;
    n->count = all;
}

static void fold(struct dqn *d, struct dqn_stats *out)
{
    struct nn_norm_acc *acc[ROLLOUT_SHARDS_MAX];
    double rows = (double)d->cfg.n_steps * d->venv.n_lanes, sum = 0, sq = 0, returns = 0,
           lengths = 0;
    int64_t n_episodes = 0;
    out->mean_reward = out->mean_cost = 0;
    for (int i = 0; i < d->n_shards; i++) {
        const struct dqn_shard *s = &d->shard[i];
        out->mean_reward += s->reward_sum / rows;
        out->mean_cost += s->cost_sum / rows;
        returns += s->return_sum;
        lengths += s->length_sum;
        n_episodes += s->n_episodes;
        sum += s->disc_sum;
        sq += s->disc_sq;
        d->replay.masked = d->replay.masked || s->masked;
        acc[i] = s->acc;
    }
    out->episode_return = n_episodes ? returns / (double)n_episodes : NAN;
    out->episode_len = n_episodes ? lengths / (double)n_episodes : NAN;
    d->episodes += n_episodes;
    fold_rewards(&d->reward_norm, rows, sum, sq);
    if (d->cfg.norm_obs)
        nn_norm_merge(&d->norm, acc, d->n_shards);
}

enum err_code dqn_act_run(struct dqn *d, float epsilon, struct dqn_stats *s, struct err *e)
{
    struct pass p = {.d = d, .epsilon = epsilon};
    parallel_for(d->pool, (size_t)d->n_shards, run_shard, &p);
    d->lanes.started = true;
    for (int i = 0; i < d->n_shards; i++)
        if (d->shard[i].bad_lane >= 0)
            return bad_lane(&d->shard[i], e);
    d->replay.n_steps += d->cfg.n_steps;
    d->steps += (int64_t)d->cfg.n_steps * d->venv.n_lanes;
    fold(d, s);
    return ERR_OK;
}
