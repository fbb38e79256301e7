/* keep_test.c - old rows go by age and by bytes, in slices, and nothing else goes. */
#include "tests/unit/store/store_fixture.h"

static void fill(struct store *s, const int64_t *target, int n_targets, int64_t from, int n_steps)
{
    struct err e;
    int64_t id;
    for (int i = 0; i < n_steps; i++) {
        if (i % 50 == 0)
            assert_ok(store_begin(s, &e), &e);
        for (int t = 0; t < n_targets; t++) {
            struct store_decision d = decision_of(target[t], from + i * STEP);
            struct store_sample x = {.target_id = target[t], .time_us = from + i * STEP};
            if (i % 100 == 0)
                d.state = d.view;
            assert_ok(store_put_decision(s, &d, &id, &e), &e);
            assert_ok(store_put_sample(s, &x, &e), &e);
        }
        if (i % 20 == 0) {
            struct forecast f = {.made_us = from + i * STEP};
            assert_ok(store_put_forecast(s, target[0], &f, &e), &e);
        }
        if (i % 50 == 49 || i == n_steps - 1)
            assert_ok(store_commit(s, &e), &e);
    }
}

static struct store *keeper(const char *path, int64_t keep_us, int64_t max_bytes)
{
    struct store_opts o = store_opts_default(path);
    struct store *s;
    struct err e;
    o.keep_us = keep_us;
    o.max_bytes = max_bytes;
    assert_ok(store_open(&o, &s, &e), &e);
    hurry(s);
    return s;
}

/* Rounds of tending until there is nothing more to do. */
static int64_t tend_all(struct store *s, int64_t now)
{
    struct store_tended t;
    struct err e;
    int64_t bytes = 0;
    int idle = 0;
    for (int i = 0; i < 500 && idle < 3; i++) {
        assert_ok(store_tend(s, now, &t, &e), &e);
        idle = t.more ? 0 : idle + 1;
        bytes = t.bytes;
    }
    assert_int_equal(idle, 3);
    return bytes;
}

TEST(rows_older_than_their_age_go_from_every_table)
{
    struct store *s = keeper(new_path("age.db"), 3600 * INT64_C(1000000), 0);
    struct err e;
    int64_t target[2] = {put_target(s, "a"), put_target(s, "b")};
    struct store_note n = {.time_us = T0, .kind = STORE_NOTE_START};
    assert_ok(store_put_note(s, &n, &e), &e);
    fill(s, target, 2, T0, 1000); /* 4 h 10 min */
    int64_t end = T0 + 1000 * STEP;
    (void)tend_all(s, end);
    struct store_info i = info_of(s);
    assert_int_equal(i.decisions, 2 * 240);
    assert_int_equal(i.samples, 2 * 240);
    assert_int_equal(i.forecasts, 4 * 12);
    assert_int_equal(i.notes, 0);
    assert_int_equal(i.keyframes, 2 * 2);
    assert_true(i.first_us >= end - 3600 * INT64_C(1000000));
    assert_int_equal(i.targets, 2);
    store_close(s);
}

TEST(rows_of_a_clock_far_ahead_go_too_and_do_not_hold_up_the_rest)
{
    struct store *s = keeper(new_path("ahead.db"), 3600 * INT64_C(1000000), 0);
    int64_t target = put_target(s, "a");
    const int64_t year = 365 * 86400 * INT64_C(1000000);
    fill(s, &target, 1, T0 + year, 10);
    fill(s, &target, 1, T0, 500);
    (void)tend_all(s, T0 + 500 * STEP);
    struct store_info i = info_of(s);
    assert_int_equal(i.decisions, 240);
    assert_true(i.last_us < T0 + year);
    store_close(s);
}

TEST(a_file_above_its_limit_gives_up_its_oldest_rows_and_shrinks)
{
    const char *path = new_path("bytes.db");
    struct store *s = keeper(path, 0, 0);
    int64_t target[2] = {put_target(s, "a"), put_target(s, "b")};
    fill(s, target, 2, T0, 2500);
    int64_t end = T0 + 2500 * STEP, before = tend_all(s, end), last = info_of(s).last_id;
    store_close(s);
    const int64_t limit = 3 << 20;
    assert_true(before > limit);
    s = keeper(path, 0, limit);
    int64_t after = tend_all(s, end);
    assert_true(after <= limit);
    struct store_info i = info_of(s);
    assert_in_range(i.decisions, 500, 4000);
    assert_int_equal(i.last_id, last);
    assert_int_equal(i.first_id, last - i.decisions + 1); /* the oldest, without holes */
    assert_true(i.samples < 5000);
    assert_true(i.samples >= i.decisions);
    store_close(s);
}

TEST(at_its_limit_a_store_stays_there_while_rows_keep_coming)
{
    const int64_t limit = 8 << 20;
    struct store *s = keeper(new_path("steady.db"), 0, limit);
    struct err e;
    struct store_tended t;
    int64_t target = put_target(s, "a"), most = 0;
    for (int r = 0; r < 300; r++) {
        fill(s, &target, 1, T0 + r * 60 * STEP, 60);
        assert_ok(store_tend(s, T0 + r * 60 * STEP, &t, &e), &e);
        if (r > 150 && t.bytes > most)
            most = t.bytes;
    }
    assert_true(most <=
                limit + limit / 4); /* the log of the newest rounds and deletions comes on top */
    assert_true(info_of(s).decisions > 2000);
    store_close(s);
}

TEST(samples_alone_are_kept_within_bytes_too)
{
    const int64_t limit = 1 << 20;
    struct store *s = keeper(new_path("samples-kept.db"), 0, limit);
    struct err e;
    int64_t target = put_target(s, "a");
    assert_ok(store_begin(s, &e), &e);
    for (int i = 0; i < 40000; i++) {
        struct store_sample x = {.target_id = target, .time_us = T0 + i * STEP};
        assert_ok(store_put_sample(s, &x, &e), &e);
    }
    assert_ok(store_commit(s, &e), &e);
    assert_true(tend_all(s, T0 + 40000 * STEP) <= limit);
    assert_in_range(info_of(s).samples, 5000, 30000);
    store_close(s);
}

TEST(without_limits_nothing_is_deleted)
{
    struct store *s = keeper(new_path("forever.db"), 0, 0);
    int64_t target = put_target(s, "a");
    fill(s, &target, 1, T0, 300);
    (void)tend_all(s, T0 + 400 * 86400 * INT64_C(1000000));
    assert_int_equal(info_of(s).decisions, 300);
    assert_int_equal(info_of(s).samples, 300);
    store_close(s);
}
