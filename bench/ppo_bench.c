/* ppo_bench.c - samples per second of the PPO update: observations of 48, 7 masked actions, minibatches of 2048.
 * A sample is one row of one minibatch pass: gather, forward, loss, backward, its share of the reduction, of Adam
 * and of packing.  One thread unless the name says so; backward products in bfloat16 with float sums, the trainer's
 * default, unless the name says f32. */
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/err.h"
#include "base/mem.h"
#include "base/rng.h"
#include "bench/bench.h"
#include "rl/ppo_update.h"

enum { N_OBS = 48, N_ACTIONS = 7, N_LANES = 64, N_STEPS = 128, MINIBATCH = 2048, EPOCHS = 4, REPEATS = 15 };

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
        .n_actions = N_ACTIONS, .n_values = 1, .action = r->action, .mask = r->mask, .logp_old = r->logp,
        .adv = b->adv, .ret = {b->adv}, .value_old = {r->value[0]}, .clip = 0.2f, .value_coef = 0.5f,
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
    return 0;
}
