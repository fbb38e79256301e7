/* rl_bench.c - DQN, A2C and A3C end to end with their defaults, on an environment that costs next
 * to nothing: observations of 48, 7 masked actions, 64 lanes.  Environment steps per second. */
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/err.h"
#include "bench/bench.h"
#include "rl/a2c.h"
#include "rl/a3c.h"
#include "rl/dqn.h"

enum { N_OBS = 48, N_ACTIONS = 7, N_LANES = 64, REPEATS = 9 };

static const int64_t no_end = (int64_t)1 << 40;

static void must(enum err_code rc, const struct err *e)
{
    if (rc) {
        (void)fprintf(stderr, "rl_bench: %s\n", e->msg);
        exit(1);
    }
}

/* ---- the environment ----------------------------------------------------------------- */

static uint32_t t_of_lane[N_LANES];

static void observe(int lane, float *obs, uint8_t *mask)
{
    float phase = (float)(t_of_lane[lane] * 37 % 97) * 0.02f;
    for (int j = 0; j < N_OBS; j++)
        obs[lane * N_OBS + j] = phase + (float)j * 0.01f;
    for (int a = 0; a < N_ACTIONS; a++)
        mask[lane * N_ACTIONS + a] = a < 3 || t_of_lane[lane] % 3 != 0;
}

static void reset(void *env, int begin, int end, float *obs, uint8_t *mask)
{
    (void)env;
    for (int i = begin; i < end; i++)
        observe(i, obs, mask);
}

static void step(void *env, int begin, int end, const int32_t *action,
                 const struct rl_step_out *out)
{
    (void)env;
    for (int i = begin; i < end; i++) {
        out->reward[i] = (float)action[i] - 3.0f * out->obs[i * N_OBS];
        out->cost[i] = 0;
        out->end[i] = RL_RUNNING;
        t_of_lane[i]++;
        observe(i, out->obs, out->mask);
    }
}

static const struct rl_venv venv = {
    .n_lanes = N_LANES, .obs_dim = N_OBS, .n_actions = N_ACTIONS, .reset = reset, .step = step};

/* ---- one repetition each: until the steps of `wanted` are done ------------------------ */

struct run {
    struct dqn *dqn;
    struct a2c *a2c;
    struct a3c *a3c;
    int64_t wanted, from, to; /* steps */
};

static bool go_on(struct run *r, int64_t steps)
{
    r->to = steps;
    return steps < r->from + r->wanted;
}

static bool after_dqn(void *ctx, const struct dqn_stats *s)
{
    return go_on(ctx, s->steps);
}

static bool after_a2c(void *ctx, const struct ppo_stats *s)
{
    return go_on(ctx, s->steps);
}

static bool after_a3c(void *ctx, const struct a3c_stats *s)
{
    return go_on(ctx, s->steps);
}

static double run(void *arg)
{
    struct run *r = arg;
    struct err e;
    double start = bench_now_s();
    r->from = r->to;
    if (r->dqn)
        must(dqn_train(r->dqn, after_dqn, r, &e), &e);
    else if (r->a2c)
        must(a2c_train(r->a2c, after_a2c, r, &e), &e);
    else
        must(a3c_train(r->a3c, after_a3c, r, &e), &e);
    return (double)(r->to - r->from) / (bench_now_s() - start);
}

/* ---- benchmarks ----------------------------------------------------------------------- */

static void bench_dqn(const char *name, int n_threads)
{
    struct dqn_cfg c = dqn_cfg_default();
    struct run r = {.wanted = 10000};
    struct err e;
    if (!bench_wanted(name))
        return;
    c.total_steps = no_end;
    c.n_threads = n_threads;
    must(dqn_new(&c, &venv, &r.dqn, &e), &e);
    bench_report(name, "1/s", REPEATS, run, &r);
    dqn_free(r.dqn);
}

static void bench_a2c(const char *name, int n_threads)
{
    struct a2c_cfg c = a2c_cfg_default();
    struct run r = {.wanted = 100000};
    struct err e;
    if (!bench_wanted(name))
        return;
    c.total_steps = no_end;
    c.n_threads = n_threads;
    must(a2c_new(&c, &venv, &r.a2c, &e), &e);
    bench_report(name, "1/s", REPEATS, run, &r);
    a2c_free(r.a2c);
}

static void bench_a3c(const char *name, int n_threads)
{
    struct a3c_cfg c = a3c_cfg_default();
    struct run r = {.wanted = 100000};
    struct err e;
    if (!bench_wanted(name))
        return;
    c.total_steps = no_end;
    c.n_threads = n_threads;
    must(a3c_new(&c, &venv, &r.a3c, &e), &e);
    bench_report(name, "1/s", REPEATS, run, &r);
    a3c_free(r.a3c);
}

int main(void)
{
    bench_dqn("dqn_end_to_end_per_s", 1);
    bench_dqn("dqn_end_to_end_2_threads_per_s", 2);
    bench_a2c("a2c_end_to_end_per_s", 1);
    bench_a2c("a2c_end_to_end_2_threads_per_s", 2);
    bench_a3c("a3c_end_to_end_per_s", 1);
    bench_a3c("a3c_end_to_end_2_threads_per_s", 2);
    return 0;
}
