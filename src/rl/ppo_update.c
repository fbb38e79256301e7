#include "rl/ppo_update.h"

#include <string.h>

#include "base/mem.h"
#include "base/rng.h"

enum { REDUCE_PARTS = 4 };

enum err_code ppo_update_init(struct ppo_update *u, struct nn_net *net, struct thread_pool *pool,
                              const struct rollout *r, int seq_steps, struct err *e)
{
    *u = (struct ppo_update){
        .net = net, .pool = pool, .rollout = r, .seq_steps = seq_steps, .adam = nn_adam_default()};
    u->n_order = r->n_rows / seq_steps;
    u->orders = try_zero((size_t)u->n_order * PPO_AHEAD, sizeof *u->orders);
    if (!u->orders)
        return err_set(e, ERR_NOMEM, "order of %d rows", u->n_order);
    for (int i = 0; i < PPO_SHARDS; i++)
        if (nn_ws_new_sums(net, &u->sums[i], e))
            return ERR_NOMEM;
    u->n_scratch = thread_pool_size(pool);
    u->scratch = mem_zero((size_t)u->n_scratch, sizeof(struct nn_ws *));
    for (int i = 0; i < u->n_scratch; i++)
        if (nn_ws_new(net, &u->scratch[i], e))
            return ERR_NOMEM;
    return ERR_OK;
}

void ppo_update_fini(struct ppo_update *u)
{
    for (int i = 0; i < PPO_SHARDS; i++)
        nn_ws_free(u->sums[i]);
    for (int i = 0; i < u->n_scratch; i++)
        nn_ws_free(u->scratch[i]);
    mem_free(u->scratch);
    mem_free(u->orders);
    *u = (struct ppo_update){0};
}

static void shuffle(size_t ahead, int worker, void *arg)
{
    struct ppo_update *u = arg;
    const struct rollout *r = u->rollout;
    int32_t *order = u->orders + ahead * (size_t)u->n_order;
    struct rng rng = rng_from_key(rng_at(u->shuffle_key, (uint64_t)u->first_epoch + ahead, 0));
    (void)worker;
    for (int i = 0; i < u->n_order; i++) {
        int block = i / r->n_lanes, lane = i % r->n_lanes;
        order[i] = block * u->seq_steps * r->n_lanes + lane;
    }
    for (int i = u->n_order - 1; i > 0; i--) {
        int j = (int)rng_below(&rng, (uint32_t)i + 1);
        int32_t t = order[i];
        order[i] = order[j];
        order[j] = t;
    }
}

static void order_of_epoch(struct ppo_update *u, int epoch)
{
    int ahead = epoch % PPO_AHEAD, left = u->epochs - epoch;
    if (ahead == 0) {
        u->first_epoch = epoch;
        parallel_for(u->pool, (size_t)(left < PPO_AHEAD ? left : PPO_AHEAD), shuffle, u);
    }
    u->order = u->orders + (size_t)ahead * (size_t)u->n_order;
}

static void clear_sums(struct ppo_loss *l)
{
    l->policy_loss = l->entropy = l->kl = l->clipped = 0;
    for (int k = 0; k < ROLLOUT_VALUES_MAX; k++)
        l->value_loss[k] = 0;
}

static void grad_part(size_t shard, int worker, void *arg)
{
    struct ppo_update *u = arg;
    size_t lo, hi;
    thread_part((size_t)u->count, PPO_SHARDS, shard, &lo, &hi);
    struct nn_batch batch = {
        .obs = u->rollout->obs,
        .obs_stride = (size_t)u->rollout->obs_dim,
        .first = u->order + u->begin + lo,
        .n = (int)(hi - lo),
        .n_steps = u->seq_steps,
        .step_rows = u->rollout->n_lanes,
        .state0 = u->rollout->state0,
        .reset = u->rollout->reset,
    };
    nn_ws_zero(u->sums[shard]);
    nn_net_grad_into(u->net, u->scratch[worker], u->sums[shard], &batch, ppo_loss, &u->part[shard]);
}

static void reduce_part(size_t part, int worker, void *arg)
{
    struct ppo_update *u = arg;
    (void)worker;
    nn_net_reduce_part(u->net, u->sums, PPO_SHARDS, part, REDUCE_PARTS);
}

static enum err_code step_minibatch(struct ppo_update *u, float *norm, struct err *e)
{
    float weight = 1.0f / (float)(u->count * u->seq_steps);
    for (int i = 0; i < PPO_SHARDS; i++)
        u->part[i].weight = weight;
    parallel_for(u->pool, PPO_SHARDS, grad_part, u);
    parallel_for(u->pool, REDUCE_PARTS, reduce_part, u);
    nn_net_reduce_end(u->net);
    enum err_code rc = nn_adam_step(&u->adam, nn_net_params(u->net), u->lr, norm, e);
    if (rc == ERR_OK)
        nn_net_pack(u->net);
    return rc;
}

static void sum_parts(const struct ppo_update *u, struct ppo_update_stats *out)
{
    double n = (double)u->n_order * u->seq_steps;
    *out = (struct ppo_update_stats){.epochs_done = out->epochs_done, .grad_norm = out->grad_norm};
    for (int i = 0; i < PPO_SHARDS; i++) {
        const struct ppo_loss *p = &u->part[i];
        out->policy_loss += p->policy_loss / n;
        out->entropy += p->entropy / n;
        out->kl += p->kl / n;
        out->clip_frac += p->clipped / n;
        for (int k = 0; k < ROLLOUT_VALUES_MAX; k++)
            out->value_loss[k] += p->value_loss[k] / n;
    }
}

static enum err_code run_epoch(struct ppo_update *u, int epoch, struct ppo_update_stats *out,
                               struct err *e)
{
    int per = (u->minibatch + u->seq_steps - 1) / u->seq_steps;
    double norm_sum = 0;
    int n_steps = 0;
    if (per <= 0 || per > u->n_order)
        per = u->n_order;
    order_of_epoch(u, epoch);
    for (int i = 0; i < PPO_SHARDS; i++) {
        u->part[i] = u->loss;
        clear_sums(&u->part[i]);
    }
    for (u->begin = 0; u->begin < u->n_order; u->begin += u->count) {
        int left = u->n_order - u->begin;
        float norm;
        u->count = left < per + per / 2 ? left : per; /* a small rest joins the last minibatch */
        if (step_minibatch(u, &norm, e))
            return ERR_NUMERIC;
        norm_sum += (double)norm;
        n_steps++;
    }
    out->epochs_done = epoch + 1;
    out->grad_norm = norm_sum / n_steps;
    sum_parts(u, out);
    return ERR_OK;
}

enum err_code ppo_update_run(struct ppo_update *u, struct ppo_update_stats *out, struct err *e)
{
    *out = (struct ppo_update_stats){0};
    nn_net_pack(u->net);
    for (int epoch = 0; epoch < u->epochs; epoch++) {
        enum err_code rc = run_epoch(u, epoch, out, e);
        if (rc)
            return rc;
        if (u->target_kl > 0 && out->kl > 1.5 * (double)u->target_kl)
            break;
    }
    return ERR_OK;
}
