#include "forecast/forecaster.h"

#include "base/mem.h"
#include "tests/support/alloc_count.h"
#include "tests/unit/forecast/load_fixture.h"

TEST(before_the_first_point_nothing_is_said)
{
    struct forecaster *f = fresh();
    struct forecast now;
    forecast_get(f, &now);
    assert_false(now.usable);
    assert_true(isnan(now.mean[2]) && isnan(now.hi95[3]) && isnan(now.high));
    forecast_free(f);
}

TEST(a_forecast_is_not_usable_before_seven_days_and_beats_persistence_after)
{
    struct forecaster *f = fresh();
    struct rng rng = rng_stream(test_seed(), "wave");
    struct forecast now = {0};
    for (int64_t i = 0; i < 7 * DAY - 1; i++) {
        now = push_at(f, i, wave(i, 0.1, &rng));
        assert_false(now.usable);
    }
    for (int64_t i = 7 * DAY - 1; i < 12 * DAY; i++)
        now = push_at(f, i, wave(i, 0.1, &rng));
    assert_true(now.usable);
    struct forecast_track track;
    forecast_track_get(f, &track);
    assert_int_equal(track.own[2].n, 5 * DAY - 2);
    /* noise of 10 % cannot be foreseen: E|N| = 0.0798; persistence pays it twice in quadrature */
    assert_near(forecast_wape(&track.own[2]), 0.080, 0, 0.12);
    assert_near(forecast_wape(&track.persistence[2]), 0.113, 0, 0.12);
    forecast_free(f);
}

TEST(a_constant_load_is_forecast_as_it_is_with_bounds_closed_around_it)
{
    struct forecaster *f = fresh();
    struct forecast now = {0};
    for (int64_t i = 0; i < 9 * DAY; i++)
        now = push_at(f, i, 40);
    for (int k = 0; k < FORECAST_LEVELS; k++) {
        assert_near(now.mean[k], 40, 0.01, 0);
        assert_near(now.lo95[k], 40, 0.1, 0);
        assert_near(now.hi95[k], 40, 0.1, 0);
    }
    assert_near(now.base, 40, 1e-4, 0);
    assert_near(now.uncertainty, 0, 0.01, 0);
    assert_false(now.usable); /* nothing to gain over persistence */
    forecast_free(f);
}

TEST(a_load_of_zero_stays_zero)
{
    struct forecaster *f = fresh();
    struct forecast now = {0};
    for (int64_t i = 0; i < 8 * DAY; i++)
        now = push_at(f, i, 0);
    for (int k = 0; k < FORECAST_LEVELS; k++)
        assert_near(now.mean[k], 0, 1e-6, 0);
    assert_near(now.high, 0, 1e-3, 0);
    forecast_free(f);
}

TEST(missing_points_are_not_zeros)
{
    struct forecaster *f = fresh();
    struct rng rng = rng_stream(test_seed(), "missing");
    struct forecast now = {0};
    double err = 0, sum = 0;
    for (int64_t i = 0; i < 14 * DAY; i++) {
        float y = wave(i, 0, &rng);
        bool gone = rng_unit(&rng) < 0.3 || (i > 10 * DAY && i < 10 * DAY + 12);
        now = push_at(f, i, gone ? NAN : y);
        if (i < 8 * DAY)
            continue;
        err += fabs((double)(now.mean[2] - wave(i + 3, 0, &rng)));
        sum += (double)wave(i + 3, 0, &rng);
    }
    assert_true(err / sum < 0.02);
    forecast_free(f);
}

TEST(after_fifteen_minutes_without_a_point_the_forecast_is_not_usable)
{
    struct forecaster *f = fresh();
    struct rng rng = rng_stream(test_seed(), "stale");
    int64_t i = 0;
    for (; i < 10 * DAY; i++)
        (void)push_at(f, i, wave(i, 0.1, &rng));
    assert_true(push_at(f, i++, NAN).usable);
    assert_true(push_at(f, i++, NAN).usable);
    assert_false(push_at(f, i++, NAN).usable);
    assert_true(push_at(f, i, wave(i, 0.1, &rng)).usable);
    forecast_free(f);
}

TEST(a_jump_in_time_is_the_same_as_missing_points)
{
    struct forecaster *a = fresh(), *b = fresh();
    struct rng rng = rng_stream(test_seed(), "jump");
    struct forecast x = {0}, y = {0};
    for (int64_t i = 0; i < 9 * DAY; i++) {
        float v = wave(i, 0.1, &rng);
        bool gone = i >= 8 * DAY && i < 8 * DAY + 100;
        if (!gone)
            x = push_at(a, i, v);
        y = push_at(b, i, gone ? NAN : v);
    }
    assert_memory_equal(&x, &y, sizeof x);
    forecast_free(a);
    forecast_free(b);
}

TEST(a_gap_of_a_year_is_survived_in_a_moment)
{
    struct forecaster *f = fresh();
    struct rng rng = rng_stream(test_seed(), "year");
    for (int64_t i = 0; i < 8 * DAY; i++)
        (void)push_at(f, i, wave(i, 0.1, &rng));
    struct forecast now = push_at(f, 8 * DAY + 400 * DAY, 100);
    assert_true(isfinite(now.mean[2]) && isfinite(now.hi95[2]));
    forecast_free(f);
}

TEST(bad_points_are_refused_and_leave_the_state_alone)
{
    struct forecaster *f = fresh();
    struct calendar utc = {0};
    struct err e = {0};
    struct forecast before, after;
    for (int64_t i = 0; i < 20; i++)
        (void)push_at(f, i, 10);
    forecast_get(f, &before);
    int64_t last = MONDAY_US + 19 * FORECAST_POINT_US;
    const struct {
        int64_t t;
        float y;
        enum err_code code;
        const char *says;
    } cases[] = {
        {last, 10, ERR_INVAL, "after the last one"},
        {last - FORECAST_POINT_US, 10, ERR_INVAL, "after the last one"},
        {last + 1000000, 10, ERR_INVAL, "5-minute steps"},
        {last + FORECAST_POINT_US, -1, ERR_RANGE, "outside"},
        {last + FORECAST_POINT_US, INFINITY, ERR_RANGE, "outside"},
        {last + FORECAST_POINT_US, 2e30f, ERR_RANGE, "outside"},
    };
    for (size_t k = 0; k < ARRAY_LEN(cases); k++) {
        struct calendar_point at = calendar_at(&utc, cases[k].t);
        assert_err(forecast_push(f, cases[k].t, cases[k].y, &at, &e), cases[k].code, &e,
                   cases[k].says);
        forecast_get(f, &after);
        assert_memory_equal(&before, &after, sizeof before);
    }
    forecast_free(f);
}

TEST(a_copy_says_the_same_bits_and_goes_its_own_way)
{
    struct forecaster *a = fresh(), *b = fresh();
    struct rng rng = rng_stream(test_seed(), "copy");
    int64_t i = 0;
    for (; i < 8 * DAY; i++)
        (void)push_at(a, i, wave(i, 0.1, &rng));
    forecast_copy(b, a);
    for (; i < 9 * DAY; i++) {
        float y = wave(i, 0.1, &rng);
        struct forecast x = push_at(a, i, y), z = push_at(b, i, y);
        assert_memory_equal(&x, &z, sizeof x);
    }
    (void)push_at(b, i, 1000);
    struct forecast now = push_at(a, i, wave(i, 0, &rng));
    assert_true(now.mean[0] < 300);
    forecast_free(a);
    forecast_free(b);
}

TEST(pushing_points_allocates_nothing_even_over_a_refit)
{
#if !ALLOC_COUNTED
    skip();
#endif
    struct forecaster *f = fresh();
    struct calendar utc = {0};
    for (int64_t i = 0; i < 3 * DAY; i++)
        (void)push_at(f, i, (float)(50 + i % 7));
    long before = alloc_calls();
    for (int64_t i = 3 * DAY; i < 6 * DAY; i++) {
        int64_t t = MONDAY_US + i * FORECAST_POINT_US;
        struct calendar_point at = calendar_at(&utc, t);
        struct forecast now;
        if (forecast_push(f, t, (float)(50 + i % 7), &at, NULL) != ERR_OK)
            fail();
        forecast_get(f, &now);
    }
    assert_int_equal(alloc_calls() - before, 0);
    forecast_free(f);
}

TEST(bounds_are_in_order_and_the_high_water_stands_above_them)
{
    struct rng rng = rng_stream(test_seed(), "order");
    for (int kind = 0; kind < 4; kind++) {
        struct forecaster *f = fresh();
        float walk = 50;
        for (int64_t i = 0; i < 10 * DAY; i++) {
            float y = wave(i, 0.2, &rng);
            if (kind == 1) /* bursts */
                y = rng_unit(&rng) < 0.02 ? 50 * y : y;
            if (kind == 2) /* steps */
                y = walk = rng_unit(&rng) < 0.01 ? (float)(100 * rng_unit(&rng)) : walk;
            if (kind == 3) /* mostly idle */
                y = rng_unit(&rng) < 0.9 ? 0 : y;
            struct forecast n = push_at(f, i, y);
            for (int k = 0; k < FORECAST_LEVELS; k++) {
                assert_true(n.lo95[k] <= n.lo80[k] && n.lo80[k] <= n.hi80[k] &&
                            n.hi80[k] <= n.hi95[k]);
                assert_true(n.lo95[k] >= 0 && n.mean[k] >= 0 && isfinite(n.hi95[k]));
            }
            assert_near(n.high, 1.2 * fmax(fmax(n.hi95[0], n.hi95[1]), n.hi95[2]), 0, 1e-5);
            assert_true(n.uncertainty >= 0 && n.uncertainty <= 1);
        }
        forecast_free(f);
    }
}

TEST(a_round_moves_at_most_30_percent_past_what_is_known)
{
    struct forecaster *f = fresh();
    struct rng rng = rng_stream(test_seed(), "clamp");
    struct forecast before = {0};
    for (int64_t i = 0; i < 12 * DAY; i++) {
        float y = wave(i, 0.3, &rng) * (rng_unit(&rng) < 0.01 ? 20 : 1);
        struct forecast n = push_at(f, i, y);
        float known = fmaxf(fmaxf(1.3f * before.mean[2], y),
                            160 * 4); /* the profile of this wave stays below */
        if (i > 2 * DAY)
            assert_true(n.mean[2] <= known * 1.0001f);
        before = n;
    }
    forecast_free(f);
}

TEST(one_wild_point_is_forgotten_within_a_day)
{
    struct forecaster *f = fresh();
    struct rng rng = rng_stream(test_seed(), "wild");
    struct forecast now = {0};
    for (int64_t i = 0; i < 10 * DAY; i++)
        now = push_at(f, i, i == 9 * DAY ? 1e9f : wave(i, 0.05, &rng));
    assert_near(now.mean[2], wave(10 * DAY + 2, 0, &rng), 25, 0);
    assert_true(now.hi95[2] < 250);
    forecast_free(f);
}

TEST(a_thousandfold_load_gives_a_thousandfold_forecast)
{
    struct forecaster *a = fresh(), *b = fresh();
    struct rng rng = rng_stream(test_seed(), "scale");
    struct forecast x = {0}, y = {0};
    for (int64_t i = 0; i < 9 * DAY; i++) {
        float v = wave(i, 0.1, &rng);
        x = push_at(a, i, v);
        y = push_at(b, i, 1000 * v);
    }
    for (int k = 0; k < FORECAST_LEVELS; k++) {
        assert_near(y.mean[k], 1000 * x.mean[k], 0, 2e-3);
        assert_near(y.hi95[k], 1000 * x.hi95[k], 0, 0.05); /* trackers step on single misses */
    }
    forecast_free(a);
    forecast_free(b);
}

TEST(days_of_rest_have_a_profile_of_their_own)
{
    struct forecaster *f = fresh();
    struct forecast now = {0};
    for (int64_t i = 0; i < 27 * DAY; i++) { /* to the end of Saturday of the fourth week */
        int weekday = (int)(i / DAY % 7);
        now = push_at(f, i, weekday >= 5 ? 20 : 100);
        if (i == 25 * DAY - 1)
            assert_near(now.base, 100, 1e-3, 0);
    }
    assert_near(now.base, 20, 1e-3, 0);
    forecast_free(f);
}

TEST(the_profile_follows_the_local_clock_over_a_change_to_summer_time)
{
    struct forecaster *f = fresh();
    struct calendar utc = {0};
    struct err e = {0};
    struct forecast now = {0};
    double base_err = 0;
    for (int64_t i = 0; i < 20 * DAY; i++) {
        int64_t t = MONDAY_US + i * FORECAST_POINT_US;
        int64_t local = t + (i >= 15 * DAY ? 3600 : 0) * INT64_C(1000000);
        struct calendar_point at = calendar_at(&utc, local);
        float y = at.minute >= 540 && at.minute < 1020 ? 100 : 10; /* office hours */
        assert_ok(forecast_push(f, t, y, &at, &e), &e);
        forecast_get(f, &now);
        if (i >= 15 * DAY + 12)
            base_err += fabs((double)(now.base - y));
    }
    assert_near(base_err, 0, 1e-3, 0);
    forecast_free(f);
}

TEST(hours_to_peak_count_down_to_the_busiest_hour)
{
    struct forecaster *f = fresh();
    struct rng rng = rng_stream(test_seed(), "peak");
    struct forecast now = {0};
    for (int64_t i = 0; i <= 9 * DAY; i++)
        now = push_at(f, i, wave(i, 0, &rng));
    assert_near(now.hours_to_peak, 6, 0.6, 0); /* the sine peaks at 6:00 */
    forecast_free(f);
}

TEST(shares_name_the_experts_and_add_up)
{
    struct forecaster *f = fresh();
    struct rng rng = rng_stream(test_seed(), "shares");
    for (int64_t i = 0; i < 9 * DAY; i++)
        (void)push_at(f, i, wave(i, 0.1, &rng));
    float share[FORECAST_EXPERTS], sum = 0;
    forecast_shares(f, 2, share);
    for (int k = 0; k < FORECAST_EXPERTS; k++) {
        assert_non_null(forecast_expert_name(k));
        assert_true(share[k] >= 0);
        sum += share[k];
    }
    assert_near(sum, 1, 1e-4, 0);
    assert_null(forecast_expert_name(FORECAST_EXPERTS));
    forecast_free(f);
}

TEST(quantiles_pass_through_mean_and_bounds_and_rise)
{
    struct forecast fc = {.mean = {50}, .lo95 = {20}, .lo80 = {35}, .hi80 = {70}, .hi95 = {110}};
    assert_near(forecast_quantile(&fc, 0, 0.5), 50, 1e-4, 0);
    assert_near(forecast_quantile(&fc, 0, 0.9), 70, 1e-3, 0);
    assert_near(forecast_quantile(&fc, 0, 0.975), 110, 1e-3, 0);
    assert_near(forecast_quantile(&fc, 0, 0.1), 35, 1e-3, 0);
    assert_near(forecast_quantile(&fc, 0, 0.025), 20, 1e-3, 0);
    float before = -1;
    for (int k = 1; k < 200; k++) {
        float q = forecast_quantile(&fc, 0, k / 200.0);
        assert_true(q >= before && q >= 0);
        before = q;
    }
    assert_true(forecast_quantile(&fc, 0, 0.999) > 110);
}

TEST(a_configuration_out_of_range_is_named)
{
    struct err e = {0};
    static const struct {
        size_t at;
        double bad;
        bool is_int;
        const char *says;
    } cases[] = {
        {offsetof(struct forecast_config, ridge_alpha), 0, false, "ridge_alpha"},
        {offsetof(struct forecast_config, ridge_alpha), NAN, false, "ridge_alpha"},
        {offsetof(struct forecast_config, max_change_frac), 1.5, false, "max_change_frac"},
        {offsetof(struct forecast_config, high_factor), 0.9, false, "high_factor"},
        {offsetof(struct forecast_config, min_days), 0, true, "min_days"},
        {offsetof(struct forecast_config, refit_days), 29, true, "refit_days"},
    };
    for (size_t k = 0; k < ARRAY_LEN(cases); k++) {
        struct forecast_config cfg = forecast_config_default();
        assert_ok(forecast_config_check(&cfg, &e), &e);
        int whole = (int)cases[k].bad;
        memcpy((char *)&cfg + cases[k].at,
               cases[k].is_int ? (const void *)&whole : (const void *)&cases[k].bad,
               cases[k].is_int ? sizeof whole : sizeof cases[k].bad);
        assert_err(forecast_config_check(&cfg, &e), ERR_RANGE, &e, cases[k].says);
    }
}
