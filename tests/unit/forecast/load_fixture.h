/* load_fixture.h - synthetic loads and a forecaster fed with them. */
#ifndef TESTS_UNIT_FORECAST_LOAD_FIXTURE_H
#define TESTS_UNIT_FORECAST_LOAD_FIXTURE_H

#include <math.h>

#include "base/rng.h"
#include "forecast/forecaster.h"
#include "tests/support/test.h"

enum { DAY = FORECAST_POINTS_PER_DAY };
static const int64_t MONDAY_US = INT64_C(4) * 86400 * 1000000; /* 1970-01-05 */

/* A day's wave of 60 around 100, and noise of `spread` times the load. */
static inline float wave(int64_t i, double spread, struct rng *rng)
{
    double shape = 100 + 60 * sin(2 * M_PI * (double)i / DAY);
    return (float)fmax(shape * (1 + spread * (spread > 0 ? rng_normal(rng) : 0)), 0);
}

/* Pushes one point, Monday 00:00 UTC being point 0; fails the test on an error. */
static inline struct forecast push_at(struct forecaster *f, int64_t i, float y)
{
    static const struct calendar utc = {0};
    struct err e = {0};
    struct forecast now;
    int64_t t = MONDAY_US + i * FORECAST_POINT_US;
    struct calendar_point at = calendar_at(&utc, t);
    assert_ok(forecast_push(f, t, y, &at, &e), &e);
    forecast_get(f, &now);
    return now;
}

static inline struct forecaster *fresh(void)
{
    struct forecast_config cfg = forecast_config_default();
    return forecast_new(&cfg);
}

#endif
