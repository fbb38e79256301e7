/* learn_fixture.h - a world small enough to learn in within a second, and files to compare. */
#ifndef TESTS_UNIT_TRAIN_LEARN_FIXTURE_H
#define TESTS_UNIT_TRAIN_LEARN_FIXTURE_H

#include "tests/unit/train/world_fixture.h"
#include "train/learn.h"

enum { LEARN_DAY = 1440, LEARN_DAYS = 4 }; /* steps of a minute */

/* Four days of a daily wave in steps of a minute; three to learn from. */
static inline struct world *learn_world(struct scenario *sc)
{
    struct err e;
    int n = LEARN_DAYS * LEARN_DAY;
    float *demand = mem_zero((size_t)n, sizeof *demand);
    struct generate_cfg g = generate_cfg_default();
    small_scenario(sc);
    sc->step_us = 60 * US_PER_S;
    sc->train_frac = 0.8;
    g.start_us = WORLD_MONDAY_US;
    g.step_us = sc->step_us;
    g.peak_qps = 8 * (double)WORLD_UNIT_QPS;
    assert_ok(generate_demand(&g, 1, n, demand, &e), &e);
    struct world *w = world_of(sc, demand, NULL, n);
    mem_free(demand);
    return w;
}

static inline struct learn_opts learn_small(int policy, int base)
{
    return (struct learn_opts){.policy = policy,
                               .base = base,
                               .residual =
                                   base == PPO_BASE_MPC ? PPO_RESIDUAL_MARGIN : PPO_RESIDUAL_UNITS,
                               .residual_step = 0.2,
                               .shape = NN_SHARED,
                               .objective = REWARD_SLO,
                               .credit = PPO_CREDIT_STEP,
                               .steps = 4 * 2048,
                               .lanes = 32,
                               .seeds = 1,
                               .outlook_samples = 2000,
                               .gamma = 0.99,
                               .entropy = 0.01,
                               .lr = 3e-4,
                               .seed = 1,
                               .threads = 1};
}

/* The bytes of a file; *n its size. */
static inline unsigned char *file_bytes(const char *path, size_t *n)
{
    FILE *f = fopen(path, "rb");
    if (!f)
        fail_msg("cannot open %s", path);
    (void)fseek(f, 0, SEEK_END);
    *n = (size_t)ftell(f);
    rewind(f);
    unsigned char *b = mem_zero(*n, 1);
    assert_int_equal(fread(b, 1, *n, f), *n);
    (void)fclose(f);
    return b;
}

static inline void assert_same_files(const char *a, const char *b)
{
    size_t n, m;
    unsigned char *x = file_bytes(a, &n), *y = file_bytes(b, &m);
    assert_int_equal(n, m);
    for (size_t i = 0; i < n; i++)
        if (x[i] != y[i])
            fail_msg("%s and %s differ at byte %zu of %zu", a, b, i, n);
    mem_free(x);
    mem_free(y);
}

#endif
