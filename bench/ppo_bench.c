/* ppo_bench.c - samples per second of the PPO update: observations of 48, 7 masked actions,
 * minibatches of 2048. A sample is one row of one minibatch pass: gather, forward, loss, backward,
 * its share of the reduction, of Adam and of packing.  One thread unless the name says so; backward
 * products in bfloat16 with float sums, the trainer's default, unless the name says f32. */
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/err.h"
#include "base/mem.h"
#include "base/rng.h"
#include "bench/bench.h"
#include "rl/ppo.h"
#include "rl/ppo_update.h"

enum {
    N_OBS = 48,
    N_ACTIONS = 7,
    N_LANES = 64,
    N_STEPS = 128,
    MINIBATCH = 2048,
    EPOCHS = 4,
    REPEATS = 15
};

struct update_bench {
    struct nn_net *net;
    struct rollout *rollout;
    struct ppo_update update;
    float *adv;
};

static void must(enum err_code rc, const struct err *e)
{
    if (rc) {
        (void)fprintf(stderr, "ppo_bench: %s\n", e->msg);
        exit(1);
    }
}

static void fill(struct rollout *r, float *adv)
{
    struct rng rng = rng_stream(1, "bench");
    for (int i = 0; i < r->n_rows; i++) {
        for (int j = 0; j < N_OBS; j++)
            r->obs[i * N_OBS + j] = (float)rng_normal(&rng);
        for (int a = 0; a < N_ACTIONS; a++)
            r->mask[i * N_ACTIONS + a] = a == 3 || rng_unit(&rng) < 0.8;
        r->action[i] = 3;
        r->logp[i] = -1.8f;
        adv[i] = (float)rng_normal(&rng);
        r->value[0][i] = (float)rng_normal(&rng);
        r->reset[i] = rng_unit(&rng) < 0.01;
    }
}

static void setup(struct update_bench *b, enum nn_shape shape, bool bf16, struct thread_pool *pool)
{
    struct err e;
    struct nn_net_cfg cfg = nn_net_cfg_default(shape, N_OBS, N_ACTIONS, 1);
    cfg.bf16_grad = bf16;
    struct rl_venv sizes = {.n_lanes = N_LANES, .obs_dim = N_OBS, .n_actions = N_ACTIONS};
    struct rng rng = rng_stream(1, "init");
    must(nn_net_new(&cfg, &rng, &b->net, &e), &e);
    must(rollout_new(&sizes, N_STEPS, 1, nn_net_state_dim(b->net), &b->rollout, &e), &e);
    must(ppo_update_init(&b->update, b->net, pool, b->rollout, shape == NN_LSTM ? 16 : 1, &e), &e);
    b->adv = mem_zero((size_t)b->rollout->n_rows, sizeof *b->adv);
    fill(b->rollout, b->adv);
    struct rollout *r = b->rollout;
    b->update.minibatch = MINIBATCH;
    b->update.epochs = EPOCHS;
    b->update.lr = 3e-4f;
    b->update.loss = (struct ppo_loss){
        .n_actions = N_ACTIONS,
        .n_values = 1,
        .action = r->action,
        .mask = r->mask,
        .logp_old = r->logp,
        .adv = b->adv,
        .ret = {b->adv},
        .value_old = {r->value[0]},
        .clip = 0.2f,
        .value_coef = 0.5f,
        .entropy_coef = 0.01f,
    };
}

static double run_update(void *arg)
{
    struct update_bench *b = arg;
    struct ppo_update_stats stats;
    struct err e;
    double start = bench_now_s();
    must(ppo_update_run(&b->update, &stats, &e), &e);
    return (double)b->rollout->n_rows * EPOCHS / (bench_now_s() - start);
}

static void bench_shape(const char *name, enum nn_shape shape, bool bf16, int n_threads)
{
    struct update_bench b = {0};
    struct thread_pool *pool = NULL;
    struct err e;
    if (!bench_wanted(name))
        return;
    if (n_threads > 1)
        must(thread_pool_new(n_threads, &pool, &e), &e);
    setup(&b, shape, bf16, pool);
    bench_report(name, "1/s", REPEATS, run_update, &b);
    ppo_update_fini(&b.update);
    rollout_free(b.rollout);
    nn_net_free(b.net);
    mem_free(b.adv);
    thread_pool_free(pool);
}

/* ---- end to end, on an environment that costs next to nothing
 * ---------------------------------- */

struct drift {
    uint32_t t[N_LANES];
};

static void drift_observe(const struct drift *d, int lane, float *obs, uint8_t *mask)
{
    float phase = (float)(d->t[lane] * 37 % 97) * 0.02f;
    for (int j = 0; j < N_OBS; j++)
        obs[j] = phase + (float)j * 0.01f;
    for (int a = 0; a < N_ACTIONS; a++)
        mask[a] = a < 3 || d->t[lane] % 3 != 0;
}

static void drift_reset(void *env, int begin, int end, float *obs, uint8_t *mask)
{
    struct drift *d = env;
    for (int i = begin; i < end; i++) {
        d->t[i] = (uint32_t)i;
        drift_observe(d, i, obs + i * N_OBS, mask + i * N_ACTIONS);
    }
}

static void drift_step(void *env, int begin, int end, const int32_t *action,
                       const struct rl_step_out *out)
{
    struct drift *d = env;
    for (int i = begin; i < end; i++) {
        out->reward[i] = (float)action[i] - 3.0f * out->obs[i * N_OBS];
        out->cost[i] = 0;
        out->end[i] = RL_RUNNING;
        d->t[i]++;
        drift_observe(d, i, out->obs + i * N_OBS, out->mask + i * N_ACTIONS);
    }
}

struct ppo_bench {
    struct drift drift;
    struct ppo *ppo;
    double rollout_s, update_s;
};

static bool after_batches(void *ctx, const struct ppo_stats *s)
{
    struct ppo_bench *b = ctx;
    b->rollout_s += s->rollout_s;
    b->update_s += s->update_s;
    return s->iteration % 20 != 0;
}

static double run_ppo(void *arg)
{
    struct ppo_bench *b = arg;
    struct err e;
    double start = bench_now_s();
    must(ppo_train(b->ppo, after_batches, b, &e), &e);
    return 20.0 * MINIBATCH / (bench_now_s() - start);
}

/* Four epochs, batch and minibatch 2048, separate networks. */
static void bench_ppo(const char *name, int n_threads)
{
    static struct ppo_bench b;
    struct rl_venv venv = {.env = &b.drift,
                           .n_lanes = N_LANES,
                           .obs_dim = N_OBS,
                           .n_actions = N_ACTIONS,
                           .reset = drift_reset,
                           .step = drift_step};
    struct ppo_cfg cfg = ppo_cfg_default();
    struct err e;
    if (!bench_wanted(name))
        return;
    cfg.n_steps = MINIBATCH / N_LANES;
    cfg.total_steps = (int64_t)1 << 40;
    cfg.target_kl = 0;
    cfg.n_threads = n_threads;
    must(ppo_new(&cfg, &venv, &b.ppo, &e), &e);
    bench_report(name, "1/s", REPEATS, run_ppo, &b);
    ppo_free(b.ppo);
}

int main(void)
{
    bench_shape("ppo_update_separate_per_s", NN_SEPARATE, true, 1);
    bench_shape("ppo_update_shared_per_s", NN_SHARED, true, 1);
    bench_shape("ppo_update_lstm_per_s", NN_LSTM, true, 1);
    bench_shape("ppo_update_separate_f32_per_s", NN_SEPARATE, false, 1);
    bench_shape("ppo_update_shared_f32_per_s", NN_SHARED, false, 1);
    bench_shape("ppo_update_lstm_f32_per_s", NN_LSTM, false, 1);
    bench_shape("ppo_update_separate_2_threads_per_s", NN_SEPARATE, true, 2);
    bench_shape("ppo_update_shared_2_threads_per_s", NN_SHARED, true, 2);
    bench_shape("ppo_update_lstm_2_threads_per_s", NN_LSTM, true, 2);
    bench_ppo("ppo_synthetic_env_per_s", 1);
    bench_ppo("ppo_synthetic_env_2_threads_per_s", 2);
    return 0;
}
