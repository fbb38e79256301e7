#include "profile/startup.h"

#include <string.h>

#include "base/clock.h"
#include "tests/support/test.h"

static const int64_t T0 = INT64_C(1700000000) * US_PER_S;

TEST(startup_quantile_is_unknown_below_three_values)
{
    struct startup s;
    startup_init(&s);
    assert_true(isnan(startup_quantile_s(&s, 0.5)));
    assert_true(startup_add(&s, 100));
    assert_true(startup_add(&s, 120));
    assert_true(isnan(startup_quantile_s(&s, 0.5)));
    assert_true(startup_add(&s, 140));
    assert_near(startup_quantile_s(&s, 0.5), 120, 1e-6, 0);
    assert_near(startup_quantile_s(&s, 1), 140, 1e-6, 0);
}

TEST(startup_refuses_times_that_are_none)
{
    static const double bad[] = {0, -1, 3601, NAN, INFINITY};
    struct startup s;
    startup_init(&s);
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        assert_false(startup_add(&s, bad[i]));
    assert_int_equal(s.n, 0);
}

TEST(startup_keeps_the_newest_sixteen)
{
    struct startup s;
    float saved[STARTUP_RING];
    startup_init(&s);
    for (int i = 1; i <= 20; i++)
        assert_true(startup_add(&s, i));
    assert_int_equal(startup_save(&s, saved), 16);
    for (int i = 0; i < 16; i++)
        assert_near((double)saved[i], i + 5, 0, 0);
    assert_near(startup_quantile_s(&s, 0), 5, 0, 0);
}

TEST(startup_is_restored_from_what_was_saved)
{
    struct startup a, b;
    float saved[STARTUP_RING], again[STARTUP_RING];
    startup_init(&a);
    for (int i = 1; i <= 20; i++)
        assert_true(startup_add(&a, 10 * i));
    int n = startup_save(&a, saved);
    startup_restore(&b, saved, n);
    assert_int_equal(startup_save(&b, again), n);
    assert_memory_equal(saved, again, (size_t)n * sizeof saved[0]);
    saved[3] = -5;
    startup_restore(&b, saved, n);
    assert_int_equal(b.n, n - 1);
}

TEST(startup_counts_a_pod_once_when_it_is_ready_after_it_was_not)
{
    struct startup s;
    startup_init(&s);
    assert_false(startup_pod(&s, 7, T0, 0, false));
    assert_false(startup_pod(&s, 7, T0, -1, false));
    assert_true(startup_pod(&s, 7, T0, T0 + 90 * US_PER_S, false));
    for (int i = 0; i < 5; i++)
        assert_false(startup_pod(&s, 7, T0, T0 + 90 * US_PER_S, false));
    assert_int_equal(s.n, 1);
    assert_near((double)s.seconds[0], 90, 1e-3, 0);
}

TEST(startup_passes_over_the_same_ready_pods_add_nothing)
{
    struct startup s;
    startup_init(&s);
    for (int pass = 0; pass < 10; pass++)
        for (uint64_t pod = 1; pod <= 200; pod++)
            (void)startup_pod(&s, pod, T0, T0 + 60 * US_PER_S, false);
    assert_int_equal(s.n, 1);
}

TEST(startup_ignores_a_pod_whose_readiness_came_back)
{
    struct startup s;
    startup_init(&s);
    /* Restarted, never seen not ready: says nothing. */
    assert_false(startup_pod(&s, 1, T0, T0 + 600 * US_PER_S, true));
    /* Lost late in life: more than an hour. */
    assert_false(startup_pod(&s, 2, T0, 0, false));
    assert_false(startup_pod(&s, 2, T0, T0 + 3 * US_PER_HOUR, false));
    /* A crash while starting counts from its creation. */
    assert_false(startup_pod(&s, 3, T0, 0, true));
    assert_true(startup_pod(&s, 3, T0, T0 + 200 * US_PER_S, true));
    assert_int_equal(s.n, 1);
}

TEST(startup_ignores_a_pod_that_is_ready_before_it_was_made)
{
    struct startup s;
    startup_init(&s);
    assert_false(startup_pod(&s, 1, T0, 0, false));
    assert_false(startup_pod(&s, 1, T0, T0 - US_PER_S, false));
    assert_false(startup_pod(&s, 2, 0, T0, false)); /* creation unknown */
    assert_int_equal(s.n, 0);
}

TEST(startup_forgets_the_oldest_waiting_pods)
{
    struct startup s;
    startup_init(&s);
    for (uint64_t pod = 0; pod < 3 * STARTUP_WAITING; pod++)
        assert_false(startup_pod(&s, pod, T0, 0, true));
    assert_false(startup_pod(&s, 1, T0, T0 + US_PER_S, true)); /* forgotten, and restarted */
    assert_true(startup_pod(&s, 3 * STARTUP_WAITING - 1, T0, T0 + US_PER_S, true));
}
