/* fail_test.c - each SQL step and each allocation of SQLite fails in turn: the right error, a round whole or not at
 * all, and the store goes on. */
#include <errno.h>

#include "tests/support/alloc_count.h"
#include "tests/support/fail.h"
#include "tests/unit/store/store_fixture.h"

struct round {
    struct store *s;
    int64_t target_id;
};

/* Everything a round puts. */
static enum err_code put_round(void *ctx, struct err *e)
{
    struct round *r = ctx;
    struct store_decision d = decision_of(r->target_id, T0);
    struct store_sample x = {.target_id = r->target_id, .time_us = T0};
    struct store_note note = {.time_us = T0, .kind = STORE_NOTE_FREEZE, .author = "w", .text = "t"};
    struct store_tended tended;
    int64_t id;
    enum err_code rc = store_begin(r->s, e);
    if (rc)
        return rc;
    rc = store_put_decision(r->s, &d, &id, e);
    if (!rc)
        rc = store_put_sample(r->s, &x, e);
    if (!rc)
        rc = store_put_note(r->s, &note, e);
    if (!rc)
        rc = store_commit(r->s, e);
    else
        store_rollback(r->s);
    if (!rc)
        rc = store_set_action(r->s, id, STORE_DONE, T0, "ok", e);
    if (!rc)
        rc = store_fill_actuals(r->s, T0, STEP, NULL, e);
    return rc ? rc : store_tend(r->s, T0, &tended, e);
}

static bool any_sample(void *ctx, const struct store_sample *x)
{
    (void)x;
    ++*(int *)ctx;
    return true;
}

static enum err_code read_back(void *ctx, struct err *e)
{
    const struct round *r = ctx;
    const struct store_query all = {.blobs = true};
    struct store_info info;
    int n = 0, samples = 0;
    int64_t keyframe;
    enum err_code rc = store_decisions(r->s, &all, count_row, &n, e);
    if (!rc)
        rc = store_decision_get(r->s, 1, count_row, &n, e);
    if (!rc)
        rc = store_samples(r->s, r->target_id, 0, T0 + 1, any_sample, &samples, e);
    if (!rc)
        rc = store_keyframe_before(r->s, 1, &keyframe, e);
    if (!rc)
        rc = store_info(r->s, &info, e);
    assert_true(rc || (n >= 2 && samples == 1 && info.decisions == n - 1));
    return rc;
}

/* Makes a store in a new place, or finds the one that an earlier try began. */
static enum err_code open_and_close(void *ctx, struct err *e)
{
    struct store_opts o = store_opts_default(ctx);
    struct store_target t = {.cluster = "c", .group = "apps", .kind = "Deployment", .namespace_ = "s", .name = "n", .uid = "u"};
    struct store *s;
    int64_t id;
    enum err_code rc = store_open(&o, &s, e);
    if (rc)
        return rc;
    rc = store_target_id(s, &t, T0, &id, e);
    if (!rc)
        rc = store_config_id(s, "text", T0, &id, e);
    store_close(s);
    return rc;
}

TEST(whichever_sql_step_fails_the_error_is_the_right_one_and_the_store_goes_on)
{
    static const struct {
        int code;
        enum err_code want;
        int sys;
    } rows[] = {
        {SQLITE_IOERR_READ, ERR_IO, 0}, {SQLITE_FULL, ERR_IO, ENOSPC}, {SQLITE_NOMEM, ERR_NOMEM, 0}, {SQLITE_BUSY, ERR_IO, 0},
    };
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        char *path = mem_strdup(new_path(test_path("fail-step-%zu.db", i)));
        struct err e;
        assert_true(fail_sweep(FAIL_SQL_STEP, rows[i].code, rows[i].want, open_and_close, path) >= 5);
        struct round r = {.s = open_store(path)};
        r.target_id = put_target(r.s, "a");
        assert_ok(put_round(&r, &e), &e);
        assert_true(fail_sweep(FAIL_SQL_STEP, rows[i].code, rows[i].want, put_round, &r) >= 6);
        assert_true(fail_sweep(FAIL_SQL_STEP, rows[i].code, rows[i].want, read_back, &r) >= 6);
        fail_at(FAIL_SQL_STEP, 1, rows[i].code);
        (void)!put_round(&r, &e);
        assert_true(fail_off());
        assert_int_equal(e.sys, rows[i].sys);
        assert_int_not_equal(store_health(r.s), STORE_OK);
        assert_ok(put_round(&r, &e), &e);
        assert_int_equal(store_health(r.s), STORE_OK);
        assert_ok(store_check(r.s, &e), &e);
        store_close(r.s);
        mem_free(path);
    }
}

TEST(a_damaged_page_met_at_any_step_is_told_as_damage)
{
    struct round r = {.s = open_store(new_path("fail-damage.db"))};
    struct err e;
    r.target_id = put_target(r.s, "a");
    assert_ok(put_round(&r, &e), &e);
    assert_true(fail_sweep(FAIL_SQL_STEP, SQLITE_CORRUPT, ERR_PARSE, read_back, &r) >= 6);
    assert_int_equal(store_health(r.s), STORE_DAMAGED); /* and stays so */
    store_close(r.s);
}

/* SQLite does without some of its memory (caches, statistics): then the run is a good one. */
static long memory_sweep(enum err_code (*run)(void *ctx, struct err *e), void *ctx)
{
    long told = 0;
    for (long nth = 1;; nth++) {
        struct err e = {0};
        fail_at(FAIL_LIBRARY, nth, 0);
        enum err_code rc = run(ctx, &e);
        if (!fail_off()) {
            assert_ok(rc, &e);
            return told;
        }
        told += rc != ERR_OK;
        if (rc)
            assert_err(rc, ERR_NOMEM, &e, NULL);
    }
}

TEST(whichever_allocation_of_sqlite_fails_it_is_told_as_such_and_the_store_goes_on)
{
    if (!ALLOC_COUNTED)
        skip();
    char *path = mem_strdup(new_path("fail-memory.db"));
    struct err e;
    assert_true(memory_sweep(open_and_close, path) > 50);
    struct round r = {.s = open_store(path)};
    r.target_id = put_target(r.s, "a");
    assert_ok(put_round(&r, &e), &e);
    assert_true(memory_sweep(put_round, &r) >= 1);
    assert_true(memory_sweep(read_back, &r) >= 1);
    assert_ok(store_check(r.s, &e), &e);
    store_close(r.s);
    mem_free(path);
}
