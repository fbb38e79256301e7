/* train_bench.c - a replay and the training loop, whole.  Demand is generated, so no data is needed.
 *
 *     replay_90d_s                     seconds for 518,400 steps under hpa through run_policy, forecasts
 *                                      made beforehand
 *     ppo_end_to_end_per_s             environment steps per second of ppo_train on capacity lanes:
 *                                      simulator, observation, mask, policy, advantages, 4 epochs of
 *                                      updates; shared trunk, no base policy
 *     ppo_end_to_end_2_threads_per_s   the same on two threads
 *     ppo_end_to_end_2_apart_per_s     two trainings at once, one thread each, that share nothing: what
 *                                      the second core is worth here and now.  Well under 2 x where a
 *                                      neighbour uses it, or where the "cores" are threads of one */
#include <stdio.h>
#include <stdlib.h>

#include "base/mem.h"
#include "bench/bench.h"
#include "rl/ppo.h"
#include "train/env.h"
#include "train/tune.h"

enum {
    REPLAY_DAYS = 90,
    TRAIN_DAYS = 21,
    LANES = 64,
    LANE_STEPS = 32,
    SEEDS = 2,
    BATCHES = 30,
    REPEATS = 9
};

struct train_bench {
    struct scenario scenario;
    struct world *world;
    struct chance *chance[SEEDS];
    struct capacity_config cfg;
    struct run_result result;
    struct capacity_env *env;
    struct ppo *ppo;
    int iterations; /* left of this repetition */
};

static void must(enum err_code rc, const struct err *e)
{
    if (rc) {
        (void)fprintf(stderr, "train_bench: %s\n", e->msg);
        exit(1);
    }
}

static void setup(struct train_bench *b, int days, const char *policy, int n_seeds)
{
    struct err e;
    struct policy_use use;
    *b = (struct train_bench){0};
    scenario_init(&b->scenario);
    b->scenario.name = mem_strdup("bench");
    b->scenario.generator.kind = mem_strdup("diurnal");
    b->scenario.generator.days = days;
    b->scenario.peak_units = 40;
    must(world_new(&b->scenario, &b->world, &e), &e);
    must(chance_new_many(b->world, 1, n_seeds, NULL, b->chance, &e), &e);
    policy_use_default(&use, policy_find(policy));
    must(world_config(b->world, &use, use.policy->guarded, &b->cfg, &e), &e);
}

static void teardown(struct train_bench *b)
{
    ppo_free(b->ppo);
    capacity_env_free(b->env);
    for (int i = 0; i < SEEDS; i++)
        chance_free(b->chance[i]);
    world_free(b->world);
    scenario_fini(&b->scenario);
}

static double run_replay(void *arg)
{
    struct train_bench *b = arg;
    struct run_opts o = run_opts_default(b->world);
    struct err e;
    o.from = 0;
    o.warm_steps = 0;
    double start = bench_now_s();
    must(run_policy(b->world, b->chance[0], &b->cfg, &o, &b->result, &e), &e);
    return bench_now_s() - start;
}

static bool after_iteration(void *ctx, const struct ppo_stats *s)
{
    struct train_bench *b = ctx;
    (void)s;
    return --b->iterations > 0;
}

static double run_ppo(void *arg)
{
    struct train_bench *b = arg;
    struct err e;
    b->iterations = BATCHES;
    double start = bench_now_s();
    must(ppo_train(b->ppo, after_iteration, b, &e), &e);
    return (double)BATCHES * LANES * LANE_STEPS / (bench_now_s() - start);
}

static void setup_ppo(struct train_bench *b, int n_threads)
{
    struct ppo_cfg cfg = ppo_cfg_default();
    struct err e;
    setup(b, TRAIN_DAYS, "ppo", SEEDS);
    struct capacity_env_opts o = capacity_env_opts_default(b->world);
    o.n_lanes = LANES;
    must(capacity_env_new(b->world, b->chance, SEEDS, &b->cfg, &o, &b->env, &e), &e);
    struct rl_venv venv = capacity_env_venv(b->env);
    cfg.shape = NN_SHARED;
    cfg.n_steps = LANE_STEPS;
    cfg.total_steps = (int64_t)1 << 40; /* never anneals to nothing */
    cfg.target_kl = 0;                  /* always all four epochs */
    cfg.constrained = true;
    cfg.n_threads = n_threads;
    must(ppo_new(&cfg, &venv, &b->ppo, &e), &e);
}

static void bench_ppo(struct train_bench *b, const char *name, int n_threads)
{
    if (!bench_wanted(name))
        return;
    setup_ppo(b, n_threads);
    bench_report(name, "1/s", REPEATS, run_ppo, b);
    teardown(b);
}

struct apart {
    struct thread_pool *pool;
    struct train_bench *b; /* [2] */
};

static void run_one(size_t i, int worker, void *arg)
{
    (void)worker;
    (void)run_ppo(&((struct apart *)arg)->b[i]);
}

static double run_apart(void *arg)
{
    struct apart *a = arg;
    double start = bench_now_s();
    parallel_for(a->pool, 2, run_one, a);
    return 2.0 * BATCHES * LANES * LANE_STEPS / (bench_now_s() - start);
}

static void bench_apart(const char *name)
{
    struct apart a;
    struct err e;
    if (!bench_wanted(name))
        return;
    a.b = mem_zero(2, sizeof *a.b);
    must(thread_pool_new(2, &a.pool, &e), &e);
    for (int i = 0; i < 2; i++)
        setup_ppo(&a.b[i], 1);
    bench_report(name, "1/s", REPEATS, run_apart, &a);
    for (int i = 0; i < 2; i++)
        teardown(&a.b[i]);
    thread_pool_free(a.pool);
    mem_free(a.b);
}

int main(void)
{
    struct train_bench *b = mem_zero(1, sizeof *b);
    if (bench_wanted("replay_90d_s")) {
        setup(b, REPLAY_DAYS, "hpa", 1);
        bench_report("replay_90d_s", "s", REPEATS, run_replay, b);
        teardown(b);
    }
    bench_ppo(b, "ppo_end_to_end_per_s", 1);
    bench_ppo(b, "ppo_end_to_end_2_threads_per_s", 2);
    bench_apart("ppo_end_to_end_2_apart_per_s");
    mem_free(b);
    return 0;
}
