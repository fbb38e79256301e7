/* alloc_test.c - a recorded round allocates nothing of ours, shown by counting calls of the
 * allocator.  SQLite's own memory comes from pools of its own here, so that it is not counted:
 * rows_test.c shows that it stays flat. */
#include <malloc.h>
#include <sqlite3.h>

#include "tests/support/alloc_count.h"
#include "tests/support/fail.h"
#include "tests/unit/daemon/record_fixture.h"

#if ALLOC_COUNTED
/* ---- SQLite's, past the counter -------------------------------------------------------------- */

static void *lite_malloc(int n)
{
    return fail_library_alloc() ? NULL : __libc_malloc((size_t)n);
}
static void *lite_realloc(void *p, int n)
{
    return fail_library_alloc() ? NULL : __libc_realloc(p, (size_t)n);
}
static int lite_size(void *p)
{
    return p ? (int)malloc_usable_size(p) : 0;
}
static int lite_round(int n)
{
    return (n + 7) & ~7;
}
static int lite_init(void *unused)
{
    (void)unused;
    return SQLITE_OK;
}
static void lite_end(void *unused)
{
    (void)unused;
}

__attribute__((constructor)) static void before_sqlite_starts(void)
{
    static const sqlite3_mem_methods methods = {lite_malloc, __libc_free, lite_realloc, lite_size,
                                                lite_round,  lite_init,   lite_end,     NULL};
    (void)sqlite3_config(SQLITE_CONFIG_MALLOC, &methods);
}

TEST(recording_a_round_allocates_nothing_of_ours)
{
    struct fix *f = fix_new("alloc.db", "mpc");
    struct store_tended tended;
    struct err e;
    long before = 0;
    fix_steps(f, 300); /* statements prepared, a keyframe written */
    for (int round = 0; round < 20; round++) {
        if (round == 1)
            before = alloc_calls();
        assert_ok(store_begin(f->store, &e), &e);
        for (int i = 0; i < 30; i++) {
            struct store_sample x = {.target_id = f->target_id, .time_us = f->now_us};
            fix_step(f);
            assert_ok(store_put_sample(f->store, &x, &e), &e);
            assert_ok(store_put_forecast(f->store, f->target_id, &f->view.forecast, &e), &e);
        }
        assert_ok(store_commit(f->store, &e), &e);
        assert_ok(store_set_action(f->store, f->id, STORE_DONE, f->now_us, "ok", &e), &e);
        assert_ok(store_fill_actuals(f->store, f->now_us, FIX_STEP_US, NULL, &e), &e);
        assert_ok(store_tend(f->store, f->now_us, &tended, &e), &e);
    }
    assert_true(before > 0);
    assert_int_equal(alloc_calls(), before);
    fix_free(f);
}

#endif
