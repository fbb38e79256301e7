/* fail_test.c - the configuration, a recorded past and its configuration are read while memory gives out, at every
 * point in turn. */
#include <errno.h>

#include "daemon/config.h"
#include "daemon/recorded.h"
#include "tests/support/fail.h"
#include "tests/unit/daemon/record_fixture.h"

static enum err_code load(void *ctx, struct err *e)
{
    struct run_config c;
    enum err_code rc = run_config_load(&c, ctx, NULL, 0, NULL, e);
    run_config_fini(&c);
    return rc;
}

TEST(whichever_allocation_or_read_of_the_configuration_fails_it_is_told_and_nothing_stays)
{
    static const char text[] = "stage: observe\nprometheus: {url: 'http://p:9090'}\ngpu_budget: 8\n"
                               "kube: {namespaces: [a, b]}\ntargets:\n"
                               "  - {namespace: shop, name: api, units_max: 7}\n"
                               "  - {namespace: shop, name: web, units_max: 9, policy: hpa}\n";
    char *path = mem_strdup(test_path("%s/fail.yaml", test_tmp_dir()));
    struct err e;
    test_write_file(path, text, sizeof text - 1);
    assert_ok(load(path, &e), &e);
    assert_true(fail_sweep(FAIL_ALLOC, 0, ERR_NOMEM, load, path) >= 40);
    assert_true(fail_sweep(FAIL_READ, EIO, ERR_IO, load, path) >= 1);
    mem_free(path);
}

/* ---- the past -------------------------------------------------------------------------------- */

static void live(struct fix *f, int n)
{
    struct err e;
    for (int i = 0; i < n; i++) {
        struct store_sample x = {.target_id = f->target_id, .time_us = f->now_us};
        for (int k = 0; k < FIELD_COUNT; k++)
            x.value[k] = NAN;
        x.value[FIELD_QPS] = 100;
        fix_step(f);
        assert_ok(store_put_sample(f->store, &x, &e), &e);
    }
}

static enum err_code load_past(void *ctx, struct err *e)
{
    const struct fix *f = ctx;
    const struct store_query all = {0};
    struct recorded r = {0};
    enum err_code rc = recorded_load(f->store, &all, &r, e);
    assert_true(rc || r.n > 0);
    recorded_fini(&r);
    return rc;
}

/* Whether there is an nth step to fail. */
static bool steps_fail(struct fix *f, long nth)
{
    struct err e;
    fail_at(FAIL_SQL_STEP, nth, SQLITE_IOERR);
    enum err_code rc = load_past(f, &e);
    bool hit = fail_off();
    assert_err(rc, hit ? ERR_IO : ERR_OK, &e, NULL);
    return hit;
}

struct kept_text {
    char *text;
};

static bool keep_text(void *ctx, const struct store_config *c)
{
    ((struct kept_text *)ctx)->text = mem_strdup(c->text);
    return true;
}

static enum err_code rebuild(void *ctx, struct err *e)
{
    const struct kept_text *k = ctx;
    struct record_rebuilt *r;
    enum err_code rc = record_rebuild(k->text, NULL, &r, e);
    if (!rc)
        record_rebuilt_free(r);
    return rc;
}

TEST(whichever_allocation_or_step_of_reading_the_past_fails_it_is_told_and_nothing_stays)
{
    struct fix *f = fix_new("fail-past.db", "mpc");
    struct kept_text k;
    struct err e;
    live(f, 250); /* little over the hour that is asked for */
    assert_true(fail_sweep(FAIL_ALLOC, 0, ERR_NOMEM, load_past, f) >= 4);
    for (long nth = 1; steps_fail(f, nth); nth += nth < 10 || nth > 240 ? 1 : 23) { /* rows are all alike */
    }
    assert_ok(store_config_get(f->store, f->config_id, keep_text, &k, &e), &e);
    assert_true(fail_sweep(FAIL_ALLOC, 0, ERR_NOMEM, rebuild, &k) >= 20);
    mem_free(k.text);
    fix_free(f);
}
