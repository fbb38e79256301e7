/* env_bench.c - environment steps per second on one core: simulator, observation, guard mask and
 * commit of capacity lanes, without a policy network.
 *
 * Demand is generated, so no data is needed.  Every lane takes the action that a hash of (step,
 * lane) points at if the guard allows it, else it holds: it scales as often as the guard lets it,
 * which is dearer than a policy that mostly holds. */
#include <stdio.h>
#include <stdlib.h>

#include "base/mem.h"
#include "bench/bench.h"
#include "train/env.h"
#include "train/tune.h"

enum {
    LANES = 64,
    STEPS = 4000,
    REPEATS = 11,
    SEEDS = 2,
    SHARD = 4 /* lanes a trainer steps together */
};

struct env_bench {
    struct scenario scenario;
    struct world *world;
    struct chance *chance[SEEDS];
    struct capacity_config cfg;
    struct capacity_env *env;
    struct rl_venv venv;
    float obs[LANES * CAPACITY_OBS], final_obs[LANES * CAPACITY_OBS];
    uint8_t mask[LANES * CAPACITY_ACTIONS], end[LANES];
    float reward[LANES], cost[LANES];
    int32_t action[LANES];
    double sum; /* so that nothing is optimised away */
};

static void must(enum err_code rc, const struct err *e)
{
    if (rc) {
        (void)fprintf(stderr, "env_bench: %s\n", e->msg);
        exit(1);
    }
}

static void setup(struct env_bench *b)
{
    struct err e;
    scenario_init(&b->scenario);
    b->scenario.name = mem_strdup("bench");
    b->scenario.generator.kind = mem_strdup("diurnal");
    b->scenario.peak_units = 40;
    must(world_new(&b->scenario, &b->world, &e), &e);
    must(chance_new_many(b->world, 1, SEEDS, NULL, b->chance, &e), &e);
    struct policy_use use;
    policy_use_default(&use, policy_find("ppo"));
    must(world_config(b->world, &use, true, &b->cfg, &e), &e);
    struct capacity_env_opts o = capacity_env_opts_default(b->world);
    o.n_lanes = LANES;
    must(capacity_env_new(b->world, b->chance, SEEDS, &b->cfg, &o, &b->env, &e), &e);
    b->venv = capacity_env_venv(b->env);
    b->venv.reset(b->env, 0, LANES, b->obs, b->mask);
}

/* The action that a hash points at; where the guard forbids it hold, and where even that is
 * forbidden (a size forced from outside) the first allowed. */
static int32_t pick(const uint8_t *mask, uint32_t hash)
{
    int32_t a = (int32_t)(((uint64_t)(hash * 2654435761u) * CAPACITY_ACTIONS) >> 32);
    if (mask[a])
        return a;
    a = CAPACITY_ACTION_HOLD;
    while (!mask[a])
        a = a == CAPACITY_ACTIONS - 1 ? 0 : a + 1;
    return a;
}

static double run_steps(void *arg)
{
    struct env_bench *b = arg;
    const struct rl_step_out out = {b->obs, b->mask, b->reward, b->cost, b->end, b->final_obs};
    double start = bench_now_s();
    for (int t = 0; t < STEPS; t++)
        for (int lane = 0; lane < LANES; lane += SHARD) {
            for (int i = lane; i < lane + SHARD; i++)
                b->action[i] =
                    pick(b->mask + (size_t)i * CAPACITY_ACTIONS, (uint32_t)(t * LANES + i));
            b->venv.step(b->env, lane, lane + SHARD, b->action, &out);
            b->sum += (double)b->reward[lane];
        }
    return (double)STEPS * LANES / (bench_now_s() - start);
}

int main(void)
{
    struct env_bench *b;
    if (!bench_wanted("env_steps_per_s"))
        return 0;
    b = mem_zero(1, sizeof *b);
    setup(b);
    bench_report("env_steps_per_s", "1/s", REPEATS, run_steps, b);
    if (b->sum == 0)
        (void)fprintf(stderr, "env_bench: no rewards\n");
    capacity_env_free(b->env);
    for (int i = 0; i < SEEDS; i++)
        chance_free(b->chance[i]);
    world_free(b->world);
    scenario_fini(&b->scenario);
    mem_free(b);
    return 0;
}
