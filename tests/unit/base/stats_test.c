#include "base/stats.h"

#include "base/mem.h"
#include "tests/support/test.h"

TEST(sum_is_pairwise_and_keeps_small_terms)
{
    enum { N = 100000 };
    double *x = mem_zero(N, sizeof *x);
    for (size_t i = 0; i < N; i++)
        x[i] = 0.1;
    assert_near(stats_sum(x, N), N * 0.1, 0, 1e-14);
    assert_near(stats_mean(x, N), 0.1, 0, 1e-14);
    assert_near(stats_sum(x, 0), 0, 0, 0);
    assert_near(stats_mean(x, 0), NAN, 0, 0);
    mem_free(x);
    struct stats_acc acc = {0};
    stats_add(&acc, 1e16);
    stats_add(&acc, 1);
    stats_add(&acc, 1);
    stats_add(&acc, -1e16);
    assert_near(stats_acc_sum(&acc), 2, 0, 0);
    stats_add(&acc, INFINITY);
    assert_true(isinf(stats_acc_sum(&acc)));
}

TEST(variance_is_that_of_a_sample)
{
    double x[] = {2, 4, 4, 4, 5, 5, 7, 9};
    assert_near(stats_var(x, 8), 32.0 / 7, 0, 1e-15);
    assert_near(stats_stddev(x, 8), sqrt(32.0 / 7), 0, 1e-15);
    assert_near(stats_var(x, 1), NAN, 0, 0);
    double shifted[] = {1e9 + 1, 1e9 + 2, 1e9 + 3};
    assert_near(stats_var(shifted, 3), 1, 0, 1e-9);
}

/* Values of numpy.quantile (type 7). */
TEST(quantiles_are_type_seven)
{
    static const struct {
        double q, want;
    } cases[] = {{0, 1}, {0.1, 1.5}, {0.25, 2.25}, {0.5, 4.0}, {0.75, 7.0}, {0.9, 8.5}, {1, 9}};
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        double x[] = {9, 2, 3, 8, 1, 5}, sorted[] = {1, 2, 3, 5, 8, 9};
        assert_near(stats_quantile(x, 6, cases[i].q), stats_quantile_sorted(sorted, 6, cases[i].q), 0, 0);
    }
    double x[] = {1, 2, 3, 4};
    assert_near(stats_quantile_sorted(x, 4, 0.4), 2.2, 1e-15, 0);
    assert_near(stats_quantile_sorted(x, 4, 0.25), 1.75, 1e-15, 0);
    assert_near(stats_quantile_sorted(x, 0, 0.5), NAN, 0, 0);
    assert_near(stats_quantile(x, 0, 0.5), NAN, 0, 0);
}

TEST(median_of_an_even_count_is_the_mean_of_the_middle_two)
{
    double even[] = {4, 1, 3, 2}, odd[] = {9, 1, 5}, one[] = {7};
    assert_near(stats_median(even, 4), 2.5, 0, 0);
    assert_near(stats_median(odd, 3), 5, 0, 0);
    assert_near(stats_median(one, 1), 7, 0, 0);
}

TEST(quickselect_agrees_with_sorting_on_random_sorted_and_constant_data)
{
    enum { N = 500 };
    struct rng r = rng_stream(test_seed(), "select");
    double x[N], y[N];
    for (int round = 0; round < 300; round++) {
        size_t n = 1 + rng_below(&r, N);
        for (size_t i = 0; i < n; i++) {
            double v = round % 3 == 0 ? (double)rng_below(&r, 5) : round % 3 == 1 ? (double)i : rng_unit(&r);
            x[i] = y[i] = v;
        }
        double q = rng_unit(&r);
        stats_sort(y, n);
        assert_near(stats_quantile(x, n, q), stats_quantile_sorted(y, n, q), 0, 0);
    }
}

TEST(sort_puts_nan_last_and_drop_nan_keeps_order)
{
    double x[] = {3, NAN, -INFINITY, 1, NAN, 2};
    stats_sort(x, 6);
    assert_true(isinf(x[0]) && x[1] == 1 && x[3] == 3 && isnan(x[4]) && isnan(x[5]));
    double y[] = {NAN, 3, NAN, 1};
    assert_int_equal(stats_drop_nan(y, 4), 2);
    assert_true(y[0] == 3 && y[1] == 1);
}

TEST(autocorrelation_finds_the_period_and_skips_missing_values)
{
    enum { N = 960 };
    double x[N];
    for (int i = 0; i < N; i++)
        x[i] = sin(6.283185307179586 * i / 96);
    assert_near(stats_autocorr(x, N, 96), 1, 1e-12, 0);
    assert_near(stats_autocorr(x, N, 48), -1, 1e-12, 0);
    for (int i = 0; i < N; i += 7)
        x[i] = NAN;
    assert_near(stats_autocorr(x, N, 96), 1, 1e-12, 0);
    assert_near(stats_autocorr(x, N, N), NAN, 0, 0);
    double flat[] = {1, 1, 1, 1};
    assert_near(stats_autocorr(flat, 4, 1), NAN, 0, 0);
}

TEST(bootstrap_interval_covers_the_mean_as_often_as_it_claims)
{
    struct rng r = rng_stream(test_seed(), "bootstrap");
    struct err e;
    int hits = 0;
    for (int round = 0; round < 200; round++) {
        double x[40];
        for (int i = 0; i < 40; i++)
            x[i] = rng_normal(&r);
        struct stats_interval ci;
        assert_ok(stats_bootstrap(x, 40, 1, 400, 0.95, &r, &ci, &e), &e);
        assert_true(ci.lo <= ci.mean && ci.mean <= ci.hi);
        hits += ci.lo <= 0 && 0 <= ci.hi;
    }
    assert_in_range(hits, 176, 200); /* 95 % nominal, a little less for a percentile interval */
}

TEST(block_bootstrap_of_dependent_data_is_wider)
{
    enum { N = 400 };
    struct rng r = rng_stream(test_seed(), "blocks");
    struct err e;
    double x[N], level = 0;
    for (int i = 0; i < N; i++)
        x[i] = level = 0.9 * level + rng_normal(&r);
    struct stats_interval alone, blocks;
    assert_ok(stats_bootstrap(x, N, 1, 500, 0.95, &r, &alone, &e), &e);
    assert_ok(stats_bootstrap(x, N, 40, 500, 0.95, &r, &blocks, &e), &e);
    assert_true(blocks.hi - blocks.lo > 1.5 * (alone.hi - alone.lo));
}

TEST(bootstrap_repeats_by_seed_and_pairs_cancel_what_they_share)
{
    struct err e;
    double a[20], b[20];
    for (int i = 0; i < 20; i++) {
        b[i] = 1000.0 * i;
        a[i] = b[i] + 1 + 0.01 * (i % 3);
    }
    struct rng r1 = rng_stream(5, "x"), r2 = rng_stream(5, "x");
    struct stats_interval x, y;
    assert_ok(stats_bootstrap_paired(a, b, 20, 1, 300, 0.9, &r1, &x, &e), &e);
    assert_ok(stats_bootstrap_paired(a, b, 20, 1, 300, 0.9, &r2, &y, &e), &e);
    assert_memory_equal(&x, &y, sizeof x);
    assert_true(x.lo > 0.99 && x.hi < 1.03);
    double one = 4;
    assert_ok(stats_bootstrap(&one, 1, 1, 10, 0.95, &r1, &x, &e), &e);
    assert_true(x.lo == 4 && x.hi == 4 && x.mean == 4);
}

TEST(bootstrap_refuses_what_has_no_answer)
{
    struct err e;
    struct rng r = rng_stream(1, "x");
    struct stats_interval ci;
    double x[] = {1, NAN};
    assert_err(stats_bootstrap(x, 0, 1, 10, 0.95, &r, &ci, &e), ERR_INVAL, &e, "bootstrap");
    assert_err(stats_bootstrap(x, 2, 3, 10, 0.95, &r, &ci, &e), ERR_INVAL, &e, "block 3");
    assert_err(stats_bootstrap(x, 2, 1, 0, 0.95, &r, &ci, &e), ERR_INVAL, &e, "0 rounds");
    assert_err(stats_bootstrap(x, 2, 1, 10, 1, &r, &ci, &e), ERR_INVAL, &e, "level 1");
    assert_err(stats_bootstrap(x, 2, 1, 10, 0.95, &r, &ci, &e), ERR_NUMERIC, &e, "not finite");
}
