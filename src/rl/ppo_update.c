#include "rl/ppo_update.h"

#include <string.h>

#include "base/mem.h"
#include "base/rng.h"

enum { JOINS = PPO_SHARDS / PPO_JOINED };

enum err_code ppo_update_init(struct ppo_update *u, struct nn_net *net, struct thread_pool *pool,
                              const struct rollout *r, int seq_steps, struct err *e)
{
    *u = (struct ppo_update){
        .net = net, .pool = pool, .rollout = r, .seq_steps = seq_steps, .adam = nn_adam_default()};
    u->n_order = r->n_rows / seq_steps;
    u->order = try_zero_aligned((size_t)u->n_order, sizeof *u->order);
    u->part = try_zero_aligned(PPO_SHARDS, sizeof *u->part);
    if (!u->order || !u->part)
        return err_set(e, ERR_NOMEM, "order of %d rows", u->n_order);
    for (int i = 0; i < PPO_SHARDS; i++)
        if (nn_ws_new_sums(net, &u->sums[i], e))
            return ERR_NOMEM;
    u->n_scratch = thread_pool_size(pool);
    u->scratch = mem_zero((size_t)u->n_scratch, sizeof(struct nn_ws *));
    for (int i = 0; i < u->n_scratch; i++)
        if (nn_ws_new(net, &u->scratch[i], e))
            return ERR_NOMEM;
    return replicas_new(net, &u->adam, u->n_scratch, JOINS, &u->replicas, e);
}

void ppo_update_fini(struct ppo_update *u)
{
    for (int i = 0; i < PPO_SHARDS; i++)
        nn_ws_free(u->sums[i]);
    for (int i = 0; i < u->n_scratch; i++)
        nn_ws_free(u->scratch[i]);
    replicas_free(u->replicas);
    mem_free(u->scratch);
    mem_free(u->order);
    mem_free(u->part);
    *u = (struct ppo_update){0};
}

/* Sequences of a minibatch. */
static int batch_size(const struct ppo_update *u)
{
    int per = (u->minibatch + u->seq_steps - 1) / u->seq_steps;
    return per <= 0 || per > u->n_order ? u->n_order : per;
}

/* Groups only where every part of a minibatch gets a fair number of rows from its own. */
static int group_count(const struct ppo_update *u)
{
    bool fair = u->rollout->n_lanes % PPO_SHARDS == 0 && batch_size(u) >= 8 * PPO_SHARDS;
    return fair ? PPO_SHARDS : 1;
}

static void shuffle(size_t group, int worker, void *arg)
{
    struct ppo_update *u = arg;
    const struct rollout *r = u->rollout;
    int lanes = r->n_lanes / u->n_groups, n = u->n_order / u->n_groups;
    int32_t *order = u->order + group * (size_t)n;
    struct rng rng = rng_from_key(rng_at(u->shuffle_key, (uint64_t)u->epoch, group));
    (void)worker;
    for (int i = 0; i < n; i++) {
        int block = i / lanes, lane = (int)group * lanes + i % lanes;
        order[i] = block * u->seq_steps * r->n_lanes + lane;
    }
    for (int i = n - 1; i > 0; i--) {
        int j = (int)rng_below(&rng, (uint32_t)i + 1);
        int32_t t = order[i];
        order[i] = order[j];
        order[j] = t;
    }
}

static void clear_sums(struct ppo_loss *l)
{
    l->policy_loss = l->entropy = l->kl = l->clipped = 0;
    for (int k = 0; k < ROLLOUT_VALUES_MAX; k++)
        l->value_loss[k] = 0;
}

/* The sequences of a part: of its own group, or its share of the only one. */
static const int32_t *part_rows(const struct ppo_update *u, size_t part, int *n)
{
    size_t lo, hi;
    if (u->n_groups == PPO_SHARDS) {
        *n = u->end - u->begin;
        return u->order + part * (size_t)(u->n_order / PPO_SHARDS) + u->begin;
    }
    thread_part((size_t)(u->end - u->begin), PPO_SHARDS, part, &lo, &hi);
    *n = (int)(hi - lo);
    return u->order + u->begin + lo;
}

static void grad_part(size_t shard, int worker, void *arg)
{
    struct ppo_update *u = arg;
    struct nn_batch batch = {
        .obs = u->rollout->obs,
        .obs_stride = (size_t)u->rollout->obs_dim,
        .n_steps = u->seq_steps,
        .step_rows = u->rollout->n_lanes,
        .state0 = u->rollout->state0,
        .reset = u->rollout->reset,
    };
    const struct nn_net *net = replicas_net(u->replicas, worker);
    batch.first = part_rows(u, shard, &batch.n);
    nn_ws_zero(u->sums[shard]);
    nn_net_grad_into(net, u->scratch[worker], u->sums[shard], &batch, ppo_loss, &u->part[shard].loss);
    size_t join = shard / PPO_JOINED;
    if (atomic_fetch_sub_explicit(&u->missing[join], 1, memory_order_acq_rel) == 1)
        nn_ws_sum(replicas_sums(u->replicas)[join], u->sums + join * PPO_JOINED, PPO_JOINED);
}

static void step_minibatch(struct ppo_update *u)
{
    int n = (u->end - u->begin) * u->n_groups;
    for (int i = 0; i < PPO_SHARDS; i++)
        u->part[i].loss.weight = 1.0f / (float)(n * u->seq_steps);
    for (int i = 0; i < JOINS; i++)
        atomic_store_explicit(&u->missing[i], PPO_JOINED, memory_order_relaxed);
    parallel_for(u->pool, PPO_SHARDS, grad_part, u);
    replicas_push(u->replicas, u->lr);
}

static void sum_parts(const struct ppo_update *u, struct ppo_update_stats *out)
{
    double n = (double)u->n_order * u->seq_steps;
    *out = (struct ppo_update_stats){.epochs_done = out->epochs_done};
    for (int i = 0; i < PPO_SHARDS; i++) {
        const struct ppo_loss *p = &u->part[i].loss;
        out->policy_loss += p->policy_loss / n;
        out->entropy += p->entropy / n;
        out->kl += p->kl / n;
        out->clip_frac += p->clipped / n;
        for (int k = 0; k < ROLLOUT_VALUES_MAX; k++)
            out->value_loss[k] += p->value_loss[k] / n;
    }
}

static void run_epoch(struct ppo_update *u, struct ppo_update_stats *out)
{
    int n = u->n_order / u->n_groups, per = batch_size(u) / u->n_groups;
    parallel_for(u->pool, (size_t)u->n_groups, shuffle, u);
    for (int i = 0; i < PPO_SHARDS; i++) {
        u->part[i].loss = u->loss;
        clear_sums(&u->part[i].loss);
    }
    for (u->begin = 0; u->begin < n; u->begin = u->end) {
        int left = n - u->begin;
        u->end = left < per + per / 2 ? n : u->begin + per; /* a small rest joins the last minibatch */
        step_minibatch(u);
    }
    out->epochs_done = u->epoch + 1;
    sum_parts(u, out);
}

enum err_code ppo_update_run(struct ppo_update *u, struct ppo_update_stats *out, struct err *e)
{
    float norm = 0;
    enum err_code rc = ERR_OK;
    *out = (struct ppo_update_stats){0};
    u->n_groups = group_count(u);
    for (u->epoch = 0; u->epoch < u->epochs && !rc; u->epoch++) {
        run_epoch(u, out);
        if (u->target_kl > 0 && out->kl > 1.5 * (double)u->target_kl)
            break;
    }
    rc = replicas_sync(u->replicas, &norm, e);
    out->grad_norm = (double)norm;
    return rc;
}
