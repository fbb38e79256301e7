#include "forecast/baseline.h"

#include "base/mem.h"
#include "tests/unit/forecast/load_fixture.h"

enum { N = 10 * DAY };

static struct forecast_series waves(void)
{
    struct forecast_series s = {.start_us = MONDAY_US, .n = N, .y = mem_zero(N, sizeof(float))};
    for (int64_t i = 0; i < N; i++)
        s.y[i] = wave(i, 0, NULL);
    return s;
}

TEST(targets_are_the_point_ahead_or_the_mean_of_half_an_hour)
{
    float y[] = {0, 1, 2, 3, NAN, 5, 6, 7};
    struct forecast_series s = {.n = 8, .y = y};
    assert_near(forecast_target(&s, 0, 0), 1, 0, 0);
    assert_near(forecast_target(&s, 0, 2), 3, 0, 0);
    assert_true(isnan(forecast_target(&s, 1, 2)));
    assert_near(forecast_target(&s, 0, 3), (1 + 2 + 3 + 5 + 6) / 5.0, 1e-6, 0);
    assert_true(isnan(forecast_target(&s, 2, 3))); /* runs past the end */
}

TEST(simple_baselines_repeat_what_they_name)
{
    struct forecast_series s = waves();
    float *out = mem_zero(N, sizeof *out);
    struct err e = {0};
    int64_t i = 8 * DAY + 100;
    s.y[i] = NAN;
    assert_ok(baseline_run(BASELINE_PERSISTENCE, &s, 0, 2, out, &e), &e);
    assert_near(out[i], s.y[i - 1], 0, 0); /* the newest known */
    s.y[i + 3 - DAY] = NAN;
    assert_ok(baseline_run(BASELINE_SEASONAL_DAY, &s, 0, 2, out, &e), &e);
    assert_near(out[i], s.y[i + 3 - 2 * DAY], 0, 0);
    assert_true(isnan(out[10]));
    assert_ok(baseline_run(BASELINE_SEASONAL_WEEK, &s, 0, 2, out, &e), &e);
    assert_near(out[i], s.y[i + 3 - 7 * DAY], 0, 0);
    assert_true(isnan(out[6 * DAY]));
    assert_ok(baseline_run(BASELINE_SLOT_MEDIAN, &s, 0, 2, out, &e), &e);
    assert_near(out[i], wave(i + 3, 0, NULL), 3, 0);
    struct forecast_bounds b;
    assert_true(baseline_slot_bounds(&s, i, 2, &b));
    assert_near(b.mean, out[i], 1e-6, 0);
    assert_true(b.lo95 <= b.lo80 && b.lo80 <= b.mean && b.mean <= b.hi80 && b.hi80 <= b.hi95);
    assert_false(baseline_slot_bounds(&s, 5, 2, &b));
    mem_free(out);
    forecast_series_free(&s);
}

TEST(holt_winters_learns_a_pure_season_and_a_trend_upon_it)
{
    struct forecast_series s = waves();
    float *out = mem_zero(N, sizeof *out);
    struct err e = {0};
    for (int64_t i = 0; i < N; i++)
        s.y[i] += 0.02f * (float)i;
    struct holt_winters hw;
    assert_ok(holt_winters_fit(&s, 7 * DAY, 2, &hw, &e), &e);
    assert_true(hw.abs_err < 0.5);
    holt_winters_run(&hw, &s, 2, out);
    double err = 0;
    for (int64_t i = 7 * DAY; i < N - 3; i++)
        err += fabs((double)(out[i] - s.y[i + 3])) / (3 * DAY);
    assert_true(err < 0.5); /* the trend alone is worth 5.8 a day */
    assert_err(holt_winters_fit(&s, 2 * DAY, 2, &hw, &e), ERR_RANGE, &e, "3 days");
    mem_free(out);
    forecast_series_free(&s);
}
