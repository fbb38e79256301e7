/* latency_test.c - Erlang-C against published values and brute force, curves, the table. */
#include "model/latency.h"

#include "base/mem.h"
#include "base/rng.h"
#include "model/capacity.h"
#include "tests/support/test.h"

/* From the textbook formula with factorials, in long double; fine for a few servers. */
static double erlang_c_by_definition(int c, double a)
{
    long double term = 1, sum = 0;
    for (int k = 0; k < c; k++) {
        sum += term;
        term *= (long double)a / (k + 1);
    }
    long double top = term / (1 - (long double)a / c);
    return (double)(top / (sum + top));
}

TEST(erlang_c_matches_published_values)
{
    /* M/M/1: C = rho.  M/M/2: 2 rho^2/(1+rho).  Others: Gross & Harris, Kleinrock (exercise
     * tables). */
    static const struct {
        int c;
        double a, want, tol;
    } row[] = {
        {1, 0.5, 0.5, 1e-12},     {1, 0.99, 0.99, 1e-12},    {2, 1.0, 1.0 / 3, 1e-12},
        {3, 2.0, 4.0 / 9, 1e-12}, {5, 4.0, 0.5541, 5e-5},    {10, 8.0, 0.4092, 5e-5},
        {20, 16.0, 0.2561, 5e-5}, {100, 90.0, 0.2169, 5e-5},
    };
    for (size_t i = 0; i < ARRAY_LEN(row); i++)
        assert_near(latency_erlang_c(row[i].c, row[i].a), row[i].want, row[i].tol, 0);
}

TEST(erlang_c_agrees_with_its_definition_for_all_small_systems)
{
    for (int c = 1; c <= 150; c++)
        for (double rho = 0.01; rho < 0.999; rho += 0.07)
            assert_near(latency_erlang_c(c, rho * c), erlang_c_by_definition(c, rho * c), 1e-17,
                        1e-11);
}

TEST(erlang_c_stays_finite_and_monotone_for_thousands_of_servers)
{
    for (int c = 500; c <= 64000; c *= 2) {
        double last = 0;
        for (double rho = 0; rho < 0.99999; rho += 0.01) {
            double p = latency_erlang_c(c, rho * c);
            assert_true(p >= last && p <= 1);
            last = p;
        }
        assert_true(last > 0);
        /* Halfin & Whitt 1981: rho = 1 - b/sqrt(c) gives [1 + b Phi(b)/phi(b)]^-1, b = 1: 0.2234 */
        assert_near(latency_erlang_c(c, c - sqrt(c)), 0.2234, 0.01, 0);
    }
}

TEST(one_server_quantiles_are_exponential)
{
    for (double rho = 0; rho < 0.99; rho += 0.1)
        assert_near(latency_mmc_quantile(1, rho, 0.99), log(100) / (1 - rho), 0, 1e-9);
    assert_near(latency_mmc_quantile(7, 0, 0.5), log(2), 0, 1e-9);
    assert_near(latency_mmc_quantile(7, 0, 0), 0, 0, 0);
}

/* P(T <= t) by numeric integration over the wait. */
static double response_cdf(int c, double a, double t)
{
    double wait = erlang_c_by_definition(c, a), theta = c - a;
    int n = 20000;
    double sum = 0;
    for (int i = 0; i < n; i++) {
        double w = t * (i + 0.5) / n;
        sum += theta * exp(-theta * w) * (1 - exp(-(t - w))) * t / n;
    }
    return (1 - wait) * (1 - exp(-t)) + wait * sum;
}

TEST(quantiles_invert_the_integrated_distribution)
{
    static const struct {
        int c;
        double a;
    } row[] = {{2, 1.9}, {2, 1.0}, {3, 2.0}, {4, 3.0000001}, {8, 7.5}, {40, 39.6}, {60, 20}};
    static const double q[] = {0.1, 0.5, 0.9, 0.99, 0.999};
    for (size_t i = 0; i < ARRAY_LEN(row); i++)
        for (size_t k = 0; k < ARRAY_LEN(q); k++) {
            double t = latency_mmc_quantile(row[i].c, row[i].a, q[k]);
            assert_near(response_cdf(row[i].c, row[i].a, t), q[k], 3e-7, 0);
        }
}

TEST(quantiles_agree_with_a_simulated_queue)
{
    enum { C = 4, N = 1000000 };
    struct rng r = rng_stream(test_seed(), "mmc");
    double free_at[C] = {0}, now = 0, a = 2.4;
    int over = 0;
    double q90 = latency_mmc_quantile(C, a, 0.9);
    for (int i = 0; i < N; i++) {
        now += rng_exponential(&r) / a;
        int best = 0;
        for (int s = 1; s < C; s++)
            if (free_at[s] < free_at[best])
                best = s;
        free_at[best] = fmax(now, free_at[best]) + rng_exponential(&r);
        over += free_at[best] - now > q90;
    }
    assert_near(over / (double)N, 0.1, 0.005, 0); /* about 4 sigma: neighbours are correlated */
}

TEST(erlang_table_interpolates_within_one_percent_and_rises)
{
    struct err e;
    struct latency_model m;
    assert_ok(latency_from_erlang(40, 2, 64, 200, &m, &e), &e);
    assert_near(m.unit_qps, 50, 1e-12, 0);
    for (int u = 1; u <= 64; u += 7)
        for (double rho = 0.005; rho < 0.95; rho += 0.013) {
            double load = rho * u * m.unit_qps;
            double want = 40 * latency_mmc_quantile(2 * u, rho * 2 * u, 0.99);
            assert_near(latency_at(m.p99_ms, &m, u, (float)load), want, 0, 0.01);
        }
    for (int u = 1; u <= 64; u++)
        for (int i = 0; i < LATENCY_BINS; i++) {
            const float *p = m.p99_ms + u * (LATENCY_BINS + 1);
            assert_true(p[i + 1] >= p[i] * (1 - 1e-6f));
            assert_true(p[i] >= m.p50_ms[u * (LATENCY_BINS + 1) + i]);
        }
    latency_fini(&m);
    assert_null(m.p99_ms);
}

TEST(load_max_is_where_p99_meets_the_target)
{
    struct err e;
    struct latency_model m;
    assert_ok(latency_from_erlang(20, 1, 64, 200, &m, &e), &e);
    /* one server: log(100)/(1-rho)*20 = 200 */
    assert_near(m.load_max[1], 50 * (1 - log(100) / 10), 0, 2e-3);
    for (int u = 2; u <= 64; u++) {
        assert_true(m.load_max[u] > m.load_max[u - 1]);
        if (m.load_max[u] < u * m.unit_qps * m.rho_max * 0.9999) /* else full before slow */
            assert_near(latency_at(m.p99_ms, &m, u, m.load_max[u]), 200, 0, 1e-3);
        else
            assert_true(latency_at(m.p99_ms, &m, u, m.load_max[u]) < 200);
        assert_int_equal(latency_units_for(&m, m.load_max[u]), u);
        assert_int_equal(latency_units_for(&m, m.load_max[u] * 1.0001), u < 64 ? u + 1 : 64);
    }
    assert_int_equal(latency_units_for(&m, 0), 1);
    assert_int_equal(latency_units_for(&m, 1e12), 64);
    latency_fini(&m);
}

TEST(a_target_below_the_service_time_allows_no_load)
{
    struct err e;
    struct latency_model m;
    assert_ok(latency_from_erlang(100, 1, 8, 200, &m, &e), &e); /* unloaded p99 is 460 ms */
    for (int u = 1; u <= 8; u++)
        assert_true(m.load_max[u] == 0);
    latency_fini(&m);
}

static const struct latency_point curve[] = {{1, 20, 40},  {5, 21, 44},   {10, 24, 55},
                                             {15, 30, 90}, {18, 45, 180}, {20, 90, 420}};

TEST(measured_curve_passes_through_its_points_for_any_number_of_units)
{
    struct err e;
    struct latency_model m;
    assert_ok(latency_from_curve(curve, 6, 20, 16, 200, &m, &e), &e);
    for (int u = 1; u <= 16; u += 5)
        for (size_t i = 0; i < ARRAY_LEN(curve); i++) {
            float load = (float)(curve[i].load_per_unit * u);
            assert_near(latency_at(m.p99_ms, &m, u, load), curve[i].p99_ms, 0.01, 0.003);
            assert_near(latency_at(m.p50_ms, &m, u, load), curve[i].p50_ms, 0.01, 0.003);
        }
    assert_near(latency_at(m.p99_ms, &m, 3, 0), 40, 1e-4, 0); /* held before the first point */
    assert_true(m.load_max[1] > 18 && m.load_max[1] < 18.5);
    assert_near(m.load_max[16], 16 * m.load_max[1], 0, 1e-5);
    latency_fini(&m);
}

TEST(measured_curve_never_overshoots_between_points)
{
    static const struct latency_point step[] = {
        {1, 10, 20}, {2, 10, 20}, {3, 50, 100}, {4, 50, 100}};
    struct err e;
    struct latency_model m;
    assert_ok(latency_from_curve(step, 4, 4, 1, 50, &m, &e), &e);
    for (int i = 0; i < LATENCY_BINS; i++) {
        float a = m.p99_ms[LATENCY_BINS + 1 + i], b = m.p99_ms[LATENCY_BINS + 2 + i];
        assert_true(b >= a && a >= 20 && b <= 100.0001f);
    }
    latency_fini(&m);
}

TEST(small_falls_are_smoothed_and_large_ones_refused)
{
    static const struct latency_point small[] = {{1, 20, 40}, {2, 19, 36}, {3, 30, 80}};
    static const struct latency_point large[] = {{1, 20, 40}, {2, 19, 31}, {3, 30, 80}};
    struct err e;
    struct latency_model m;
    assert_ok(latency_from_curve(small, 3, 3, 1, 50, &m, &e), &e);
    assert_near(latency_at(m.p99_ms, &m, 1, 1.0f), 38, 0.01, 0);
    latency_fini(&m);
    assert_err(latency_from_curve(large, 3, 3, 1, 50, &m, &e), ERR_INVAL, &e, "falls by over 20 %");
}

TEST(bad_latency_arguments_are_refused_by_name)
{
    struct err e;
    struct latency_model m;
    static const struct latency_point nan_p99[] = {{1, 20, 40}, {2, 20, NAN}};
    static const struct latency_point same_load[] = {{1, 20, 40}, {1, 20, 40}};
    static const struct latency_point crossed[] = {{1, 20, 40}, {2, 50, 40}};
    assert_err(latency_from_erlang(0, 1, 4, 200, &m, &e), ERR_INVAL, &e, "service time");
    assert_err(latency_from_erlang(NAN, 1, 4, 200, &m, &e), ERR_INVAL, &e, "service time");
    assert_err(latency_from_erlang(10, 0, 4, 200, &m, &e), ERR_INVAL, &e, "slots");
    assert_err(latency_from_erlang(10, 1000000, 4000, 200, &m, &e), ERR_INVAL, &e, "slots");
    assert_err(latency_from_erlang(10, 1, 0, 200, &m, &e), ERR_INVAL, &e, "units_max");
    assert_err(latency_from_erlang(10, 1, 5000, 200, &m, &e), ERR_INVAL, &e, "units_max");
    assert_err(latency_from_erlang(10, 1, 4, INFINITY, &m, &e), ERR_INVAL, &e, "target");
    assert_err(latency_from_curve(curve, 1, 1, 4, 200, &m, &e), ERR_INVAL, &e, "1 points");
    assert_err(latency_from_curve(curve, 6, 21, 4, 200, &m, &e), ERR_INVAL, &e,
               "largest measured load");
    assert_err(latency_from_curve(curve, 6, 0, 4, 200, &m, &e), ERR_INVAL, &e, "unit_qps");
    assert_err(latency_from_curve(nan_p99, 2, 1, 4, 200, &m, &e), ERR_INVAL, &e, "point 2");
    assert_err(latency_from_curve(same_load, 2, 1, 4, 200, &m, &e), ERR_INVAL, &e, "does not rise");
    assert_err(latency_from_curve(crossed, 2, 1, 4, 200, &m, &e), ERR_INVAL, &e, "point 2");
}

TEST(a_table_of_the_most_units_is_built)
{
    struct err e;
    struct latency_model m;
    assert_ok(latency_from_erlang(40, 1, CAPACITY_UNITS_LIMIT, 200, &m, &e), &e);
    /* pooling: thousands of servers keep the unloaded p99 (184 ms) until they are all but full */
    assert_true(m.load_max[4096] > 0.975 * 4096 * 25);
    latency_fini(&m);
}
