#include "forecast/series.h"

#include "base/mem.h"
#include "forecast/forecaster.h"
#include "tests/support/test.h"

static struct history history_of(const float *qps, int64_t n, int64_t step_us)
{
    return (struct history){.start_us = INT64_C(600) * US_PER_S,
                            .step_us = step_us,
                            .n = n,
                            .col = {[FIELD_QPS] = qps}};
}

TEST(a_point_is_the_mean_of_its_minutes_and_needs_three_of_five)
{
    const float q[15] = {1, 2, 3, 4, 5, 10, NAN, 20, NAN, 30, 7, NAN, NAN, NAN, 9};
    struct history h = history_of(q, 15, US_PER_MIN);
    struct forecast_series s;
    struct err e = {0};
    assert_ok(forecast_series_new(&h, FIELD_QPS, &s, &e), &e);
    assert_int_equal(s.n, 3);
    assert_int_equal(s.start_us, h.start_us);
    assert_near(s.y[0], 3, 1e-6, 0);
    assert_near(s.y[1], 20, 1e-6, 0);
    assert_true(isnan(s.y[2]));
    assert_int_equal(s.n_missing, 1);
    forecast_series_free(&s);
}

TEST(barred_samples_are_missing)
{
    const float q[10] = {1, 1, 1, 1, 1, 2, 2, 2, 2, 2};
    const uint8_t barred[10] = {0, 0, 0, 0, 0, 1, 1, 1, 1, 1};
    struct history h = history_of(q, 10, US_PER_MIN);
    struct forecast_series s;
    struct err e = {0};
    h.barred = barred;
    assert_ok(forecast_series_new(&h, FIELD_QPS, &s, &e), &e);
    assert_near(s.y[0], 1, 1e-6, 0);
    assert_true(isnan(s.y[1]));
    forecast_series_free(&s);
}

TEST(a_quarter_hour_sample_fills_the_last_point_it_covers)
{
    const float q[2] = {5, 6};
    struct history h = history_of(q, 2, 15 * US_PER_MIN);
    struct forecast_series s;
    struct err e = {0};
    h.start_us = INT64_C(900) * US_PER_S;
    assert_ok(forecast_series_new(&h, FIELD_QPS, &s, &e), &e);
    assert_int_equal(s.start_us, (900 + 600) * US_PER_S);
    assert_int_equal(s.n, 4);
    assert_near(s.y[0], 5, 0, 0);
    assert_true(isnan(s.y[1]) && isnan(s.y[2]));
    assert_near(s.y[3], 6, 0, 0);
    forecast_series_free(&s);
}

TEST(histories_that_cannot_be_forecast_are_refused_with_the_reason)
{
    const float fine[2] = {1, 2}, negative[2] = {1, -2}, none[2] = {NAN, NAN},
                huge[2] = {1, INFINITY};
    struct forecast_series s;
    struct err e = {0};
    struct history h = history_of(fine, 2, 30 * US_PER_MIN);
    assert_err(forecast_series_new(&h, FIELD_QPS, &s, &e), ERR_RANGE, &e, "15 min");
    h = history_of(fine, 2, US_PER_MIN);
    assert_err(forecast_series_new(&h, FIELD_GPU_UTIL, &s, &e), ERR_MISSING, &e, "gpu_util");
    h = history_of(negative, 2, US_PER_MIN);
    assert_err(forecast_series_new(&h, FIELD_QPS, &s, &e), ERR_RANGE, &e, "sample 1");
    h = history_of(huge, 2, US_PER_MIN);
    assert_err(forecast_series_new(&h, FIELD_QPS, &s, &e), ERR_RANGE, &e, "inf");
    h = history_of(none, 2, US_PER_MIN);
    assert_err(forecast_series_new(&h, FIELD_QPS, &s, &e), ERR_MISSING, &e, "no value");
    assert_null(s.y);
}

TEST(quarter_hour_histories_are_forecast_at_every_level)
{
    enum { DAYS = 10, N = DAYS * 96 };
    static float q[N];
    for (int i = 0; i < N; i++)
        q[i] = (float)(100 + 50 * sin(2 * M_PI * i / 96));
    struct history h = history_of(q, N, 15 * US_PER_MIN);
    struct forecast_config cfg = forecast_config_default();
    struct forecaster *f = forecast_new(&cfg);
    struct forecast_series s;
    struct calendar utc = {0};
    struct forecast now;
    struct err e = {0};
    assert_ok(forecast_series_new(&h, FIELD_QPS, &s, &e), &e);
    assert_ok(forecast_series_push(f, &s, &utc, 0, s.n, &e), &e);
    forecast_get(f, &now);
    double next = 100 + 50 * sin(2 * M_PI * N / 96.0);
    for (int k = 0; k < FORECAST_POINTS; k++)
        assert_near(now.mean[k], next, 2, 0);
    assert_true(now.usable);
    forecast_free(f);
    forecast_series_free(&s);
}
