#include "tests/support/rl_env.h"

#include <math.h>
#include <stdbool.h>
#include <string.h>

#include "base/mem.h"
#include "base/rng.h"

struct lane {
    double x, v, angle, spin; /* cartpole; x is also the state of the discrete ones */
    int64_t episode;
    int32_t t, breaches;
};

struct test_env {
    enum test_env_kind kind;
    int n_lanes;
    uint64_t key;
    struct lane *lane;
};

static const struct {
    int obs_dim, n_actions, limit;
} shape[] = {
    [ENV_CARTPOLE] = {4, 2, 500}, [ENV_CHAIN] = {CHAIN_STATES, 2, 60},
    [ENV_CLOCK] = {1, 1, 10},     [ENV_TEMPTING] = {1, 2, 20},
    [ENV_CUE] = {2, 2, 6},        [ENV_MASKED] = {3, 4, 12},
};

static double draw(const struct test_env *env, int lane, uint64_t what)
{
    const struct lane *l = &env->lane[lane];
    return rng_to_unit(rng_at(env->key + (uint64_t)lane, (uint64_t)l->episode, what));
}

static void start(struct test_env *env, int i)
{
    struct lane *l = &env->lane[i];
    l->episode++;
    l->t = 0;
    l->x = l->v = l->angle = l->spin = 0;
    if (env->kind == ENV_CARTPOLE) {
        l->x = draw(env, i, 0) * 0.1 - 0.05;
        l->v = draw(env, i, 1) * 0.1 - 0.05;
        l->angle = draw(env, i, 2) * 0.1 - 0.05;
        l->spin = draw(env, i, 3) * 0.1 - 0.05;
    } else if (env->kind == ENV_CUE) {
        l->x = draw(env, i, 0) < 0.5 ? -1 : 1;
    } else if (env->kind == ENV_MASKED) {
        l->x = floor(draw(env, i, 0) * 4);
    }
}

static void observe(const struct test_env *env, int i, float *obs)
{
    const struct lane *l = &env->lane[i];
    memset(obs, 0, (size_t)shape[env->kind].obs_dim * sizeof *obs);
    switch (env->kind) {
    case ENV_CARTPOLE:
        obs[0] = (float)l->x;
        obs[1] = (float)l->v;
        obs[2] = (float)l->angle;
        obs[3] = (float)l->spin;
        break;
    case ENV_CHAIN:
        if (l->x < CHAIN_STATES)
            obs[(int)l->x] = 1;
        break;
    case ENV_CLOCK:
    case ENV_TEMPTING:
        obs[0] = 1;
        break;
    case ENV_CUE:
        obs[0] = l->t == 0 ? (float)l->x : 0;
        obs[1] = l->t == shape[ENV_CUE].limit - 1;
        break;
    case ENV_MASKED:
        if (l->x > 0)
            obs[(int)l->x - 1] = 1;
        break;
    }
}

static void allow(const struct test_env *env, int i, uint8_t *mask)
{
    for (int a = 0; a < shape[env->kind].n_actions; a++)
        mask[a] = env->kind != ENV_MASKED || a == (int)env->lane[i].x;
}

static void reset(void *self, int begin, int end, float *obs, uint8_t *mask)
{
    struct test_env *env = self;
    for (int i = begin; i < end; i++) {
        start(env, i);
        observe(env, i, obs + i * shape[env->kind].obs_dim);
        allow(env, i, mask + i * shape[env->kind].n_actions);
    }
}

static bool cartpole(struct lane *l, int action)
{
    const double gravity = 9.8, mass = 1.1, pole_mass_length = 0.05, length = 0.5,
                 force = action ? 10 : -10, dt = 0.02;
    double c = cos(l->angle), s = sin(l->angle);
    double push = (force + pole_mass_length * l->spin * l->spin * s) / mass;
    double turn = (gravity * s - c * push) / (length * (4.0 / 3 - 0.1 * c * c / mass));
    double acceleration = push - pole_mass_length * turn * c / mass;
    l->x += dt * l->v;
    l->v += dt * acceleration;
    l->angle += dt * l->spin;
    l->spin += dt * turn;
    return fabs(l->x) > 2.4 || fabs(l->angle) > 12 * 3.14159265358979 / 180;
}

/* Advances one lane; returns whether the episode terminated. */
static bool advance(struct test_env *env, struct lane *l, int action, float *reward, float *cost)
{
    *reward = 1;
    *cost = 0;
    switch (env->kind) {
    case ENV_CARTPOLE:
        return cartpole(l, action);
    case ENV_CHAIN:
        *reward = action == 0 && l->x == 0 ? 0.001f : 0;
        l->x += action ? 1 : l->x > 0 ? -1 : 0;
        if (l->x < CHAIN_STATES)
            return false;
        *reward = 1;
        return true;
    case ENV_CLOCK:
        return false;
    case ENV_TEMPTING:
        *reward = *cost = action == 0;
        return false;
    case ENV_CUE:
        *reward = l->t == shape[ENV_CUE].limit - 1 && action == (l->x > 0);
        return l->t == shape[ENV_CUE].limit - 1;
    case ENV_MASKED:
        l->breaches += action != (int)l->x;
        return false;
    }
    return true;
}

static void step(void *self, int begin, int end, const int32_t *action,
                 const struct rl_step_out *out)
{
    struct test_env *env = self;
    int dim = shape[env->kind].obs_dim;
    for (int i = begin; i < end; i++) {
        struct lane *l = &env->lane[i];
        bool over = advance(env, l, action[i], &out->reward[i], &out->cost[i]);
        l->t++;
        out->end[i] = over                             ? RL_TERMINATED
                      : l->t >= shape[env->kind].limit ? RL_TRUNCATED
                                                       : RL_RUNNING;
        if (out->end[i] != RL_RUNNING) {
            observe(env, i, out->final_obs + i * dim);
            start(env, i);
        } else if (env->kind == ENV_MASKED) {
            l->x = floor(draw(env, i, (uint64_t)l->t) * 4);
        }
        observe(env, i, out->obs + i * dim);
        allow(env, i, out->mask + i * shape[env->kind].n_actions);
    }
}

static size_t save(const void *self, void *buf, size_t cap)
{
    const struct test_env *env = self;
    size_t n = (size_t)env->n_lanes * sizeof *env->lane;
    if (buf && cap >= n)
        memcpy(buf, env->lane, n);
    return n;
}

static enum err_code load(void *self, const void *buf, size_t n, struct err *e)
{
    struct test_env *env = self;
    if (n != (size_t)env->n_lanes * sizeof *env->lane)
        return err_set(e, ERR_MISMATCH, "%zu bytes for %d lanes", n, env->n_lanes);
    memcpy(env->lane, buf, n);
    return ERR_OK;
}

struct test_env *test_env_new(enum test_env_kind kind, int n_lanes, uint64_t seed)
{
    struct test_env *env = mem_zero(1, sizeof *env);
    env->kind = kind;
    env->n_lanes = n_lanes;
    env->key = rng_key(seed, "test.env");
    env->lane = mem_zero((size_t)n_lanes, sizeof *env->lane);
    return env;
}

void test_env_free(struct test_env *env)
{
    if (!env)
        return;
    mem_free(env->lane);
    mem_free(env);
}

struct rl_venv test_env_venv(struct test_env *env)
{
    return (struct rl_venv){
        .env = env,
        .n_lanes = env->n_lanes,
        .obs_dim = shape[env->kind].obs_dim,
        .n_actions = shape[env->kind].n_actions,
        .reset = reset,
        .step = step,
        .save = save,
        .load = load,
    };
}

int64_t test_env_breaches(const struct test_env *env)
{
    int64_t n = 0;
    for (int i = 0; i < env->n_lanes; i++)
        n += env->lane[i].breaches;
    return n;
}
