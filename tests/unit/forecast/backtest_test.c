#include "forecast/backtest.h"

#include "base/mem.h"
#include "tests/unit/forecast/load_fixture.h"

static struct forecast_series noisy(int64_t n, double spread)
{
    struct rng rng = rng_stream(1, "backtest");
    struct forecast_series s = {
        .start_us = MONDAY_US, .n = n, .y = mem_zero((size_t)n, sizeof(float))};
    for (int64_t i = 0; i < n; i++)
        s.y[i] = wave(i, spread, &rng);
    return s;
}

TEST(a_backtest_scores_every_method_at_the_same_origins)
{
    struct forecast_series s = noisy(21 * DAY, 0.1);
    struct backtest_config cfg = backtest_config_default();
    struct calendar utc = {0};
    static struct backtest_result r;
    struct err e = {0};
    char said[400];
    assert_ok(backtest_run(&cfg, &s, &utc, &r, &e), &e);
    for (int h = 0; h < BACKTEST_HORIZONS; h++) {
        const struct backtest_horizon *at = &r.at[h];
        assert_in_range(at->own.n, 7 * DAY - 6, 7 * DAY);
        assert_int_equal(at->own.n, at->slot.n_bounds);
        for (int b = 0; b < BASELINE_COUNT; b++)
            assert_int_equal(at->own.n, at->baseline[b].n);
        assert_true(at->cover80.lo <= at->cover80.mean && at->cover80.mean <= at->cover80.hi);
        assert_near(at->cover80.mean, 0.8, 0.03, 0);
        assert_near(at->cover95.mean, 0.95, 0.02, 0);
    }
    assert_true(r.helps && !r.error_above_20);
    assert_true(backtest_verdict(&r, said, sizeof said) > 0);
    assert_non_null(strstr(said, "Forecasting helps"));
    forecast_series_free(&s);
}

TEST(what_happens_later_changes_no_earlier_forecast)
{
    struct forecast_series s = noisy(12 * DAY, 0.1), t = noisy(12 * DAY, 0.1);
    struct forecaster *a = fresh(), *b = fresh();
    struct calendar utc = {0};
    struct err e = {0};
    int64_t cut = 11 * DAY;
    for (int64_t i = cut; i < t.n; i++)
        t.y[i] = 5000;
    for (int64_t i = 0; i < cut; i++) {
        struct forecast x, y;
        assert_ok(forecast_series_push(a, &s, &utc, i, i + 1, &e), &e);
        assert_ok(forecast_series_push(b, &t, &utc, i, i + 1, &e), &e);
        forecast_get(a, &x);
        forecast_get(b, &y);
        assert_memory_equal(&x, &y, sizeof x);
    }
    float *p = mem_zero((size_t)s.n, sizeof *p), *q = mem_zero((size_t)s.n, sizeof *q);
    for (int k = 0; k < BASELINE_COUNT; k++) {
        assert_ok(baseline_run((enum baseline)k, &s, 8 * DAY, 2, p, &e), &e);
        assert_ok(baseline_run((enum baseline)k, &t, 8 * DAY, 2, q, &e), &e);
        for (int64_t i = 0; i < cut; i++)
            assert_near(p[i], q[i], 0, 0);
    }
    mem_free(p);
    mem_free(q);
    forecast_free(a);
    forecast_free(b);
    forecast_series_free(&s);
    forecast_series_free(&t);
}

TEST(the_verdict_is_plain_where_forecasting_does_not_help)
{
    struct rng rng = rng_stream(test_seed(), "walk");
    struct forecast_series s = noisy(15 * DAY, 0);
    struct calendar utc = {0};
    static struct backtest_result r;
    struct err e = {0};
    char said[400];
    double level = 100; /* a walk: nothing beats its last value */
    for (int64_t i = 0; i < s.n; i++) {
        level *= exp(0.2 * rng_normal(&rng) - 0.0001 * (level - 100));
        s.y[i] = (float)level;
    }
    struct backtest_config cfg = backtest_config_default();
    assert_ok(backtest_run(&cfg, &s, &utc, &r, &e), &e);
    assert_false(r.helps);
    assert_true(r.error_above_20);
    assert_true(r.at[BACKTEST_15MIN].gain_frac > -0.02);
    (void)backtest_verdict(&r, said, sizeof said);
    assert_non_null(strstr(said, "does not help"));
    assert_non_null(strstr(said, "over 20 %"));
    forecast_series_free(&s);
}

TEST(too_little_to_test_on_is_an_error_that_says_how_much_there_is)
{
    struct forecast_series s = noisy(8 * DAY, 0.1);
    struct backtest_config cfg = backtest_config_default();
    struct calendar utc = {0};
    static struct backtest_result r;
    struct err e = {0};
    assert_err(backtest_run(&cfg, &s, &utc, &r, &e), ERR_RANGE, &e, "the history has 8.0");
    s.n = 0;
    assert_err(backtest_run(&cfg, &s, &utc, &r, &e), ERR_RANGE, &e, "needs 9 days");
    forecast_series_free(&s);
    s = noisy(12 * DAY, 0.1);
    for (int64_t i = 8 * DAY; i < s.n; i++)
        s.y[i] = NAN;
    assert_err(backtest_run(&cfg, &s, &utc, &r, &e), ERR_RANGE, &e, "no quarter day");
    cfg.test_frac = 2;
    assert_err(backtest_run(&cfg, &s, &utc, &r, &e), ERR_RANGE, &e, "test_frac");
    forecast_series_free(&s);
}

TEST(a_backtest_repeats_bit_for_bit)
{
    struct forecast_series s = noisy(12 * DAY, 0.2);
    struct backtest_config cfg = backtest_config_default();
    struct calendar utc = {0};
    static struct backtest_result a, b;
    struct err e = {0};
    assert_ok(backtest_run(&cfg, &s, &utc, &a, &e), &e);
    assert_ok(backtest_run(&cfg, &s, &utc, &b, &e), &e);
    assert_memory_equal(&a.at[0].own, &b.at[0].own, sizeof a.at[0].own);
    assert_near(a.at[0].cover80.lo, b.at[0].cover80.lo, 0, 0);
    forecast_series_free(&s);
}
