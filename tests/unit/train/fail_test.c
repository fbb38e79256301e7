/* fail_test.c - scenarios, worlds, bounds and plans while memory gives out, at every point in turn. */
#include <errno.h>

#include "tests/support/fail.h"
#include "tests/unit/train/bound_fixture.h"
#include "tests/unit/train/world_fixture.h"
#include "train/env.h"
#include "train/oracle.h"

static const char *write_file(const char *name, const char *text)
{
    const char *path = test_path("%s/%s", test_tmp_dir(), name);
    test_write_file(path, text, strlen(text));
    return path;
}

static enum err_code load(void *ctx, struct err *e)
{
    struct scenario sc;
    enum err_code rc = scenario_load(&sc, ctx, NULL, 0, e);
    scenario_fini(&sc);
    return rc;
}

TEST(whichever_allocation_or_read_of_a_scenario_fails_it_is_told_and_nothing_stays)
{
    char *path = mem_strdup(write_file("fail.yaml",
                                       "name: s\nhistory:\n  format: csv\n  paths: [a.csv, b.csv]\n"
                                       "  options: {time: t, qps: v}\nholidays: [2024-03-04, 2024-03-05]\n"
                                       "service: {units_max: 7, price_usd_h: 1.5, slo_p99: 0.5s, class: P1}\n"
                                       "chance:\n  faults:\n    - {kind: metrics-gone, from: 1h, to: 2h}\n"));
    struct err e;
    struct scenario sc;
    enum err_code rc = scenario_load(&sc, path, NULL, 0, &e);
    scenario_fini(&sc);
    assert_ok(rc, &e);
    assert_true(fail_sweep(FAIL_ALLOC, 0, ERR_NOMEM, load, path) >= 40);
    assert_true(fail_sweep(FAIL_READ, EIO, ERR_IO, load, path) >= 1);
    mem_free(path);
}

static enum err_code make_world(void *ctx, struct err *e)
{
    struct world *w;
    enum err_code rc = world_new(ctx, &w, e);
    if (!rc)
        world_free(w);
    return rc;
}

static enum err_code make_chance(void *ctx, struct err *e)
{
    struct chance *c;
    enum err_code rc = chance_new(ctx, 1, &c, e);
    if (!rc)
        chance_free(c);
    return rc;
}

struct lanes {
    const struct world *w;
    struct chance *chance;
    struct capacity_config cfg;
    struct capacity_env_opts opts;
};

static enum err_code make_lanes(void *ctx, struct err *e)
{
    const struct lanes *l = ctx;
    struct capacity_env *env;
    enum err_code rc = capacity_env_new(l->w, &l->chance, 1, &l->cfg, &l->opts, &env, e);
    if (!rc)
        capacity_env_free(env);
    return rc;
}

TEST(whichever_allocation_of_a_world_its_chances_or_its_lanes_fails_nothing_stays)
{
    struct scenario sc;
    struct world *w;
    struct err e;
    calm_scenario(&sc, 60);
    sc.generator.kind = mem_strdup("diurnal");
    sc.generator.days = 3;
    assert_true(fail_sweep(FAIL_ALLOC, 0, ERR_NOMEM, make_world, &sc) >= 5);
    assert_ok(world_new(&sc, &w, &e), &e);
    assert_true(fail_sweep(FAIL_ALLOC, 0, ERR_NOMEM, make_chance, w) >= 2);
    struct lanes l = {.w = w, .opts = capacity_env_opts_default(w)};
    assert_ok(chance_new(w, 1, &l.chance, &e), &e);
    config_of(w, "ppo", true, &l.cfg);
    assert_true(fail_sweep(FAIL_ALLOC, 0, ERR_NOMEM, make_lanes, &l) >= 3);
    chance_free(l.chance);
    world_free(w);
    scenario_fini(&sc);
}

/* ---- bounds and plans ------------------------------------------------------------------------ */

static enum err_code bound(void *ctx, struct err *e)
{
    struct bound_fixture *f = ctx;
    struct bound b;
    enum err_code rc = bound_init(&b, &f->world, &f->trace, 1, 0, 200, 2, e);
    bound_fini(&b);
    return rc;
}

static enum err_code plan(void *ctx, struct err *e)
{
    struct bound_fixture *f = ctx;
    struct oracle_result r;
    int16_t units[200];
    return oracle_plan(&f->world, &f->trace, 1, 0, 200, 2, 0.01, units, &r, e);
}

TEST(whichever_allocation_of_a_bound_or_a_plan_fails_it_is_told_and_nothing_stays)
{
    struct bound_fixture *f = bound_fixture_new(4, 2);
    for (int i = 0; i < 200; i++)
        f->demand[i] = f->load[1 + i / 20 % 3];
    bound_fixture_start(f, 200);
    assert_true(fail_sweep(FAIL_ALLOC, 0, ERR_NOMEM, bound, f) >= 5);
    assert_true(fail_sweep(FAIL_ALLOC, 0, ERR_NOMEM, plan, f) >= 12);
    bound_fixture_free(f);
}
