/* The parts of a forecaster on their own: window, ridge, mixing, intervals, scores. */
#include "base/stats.h"
#include "forecast/ridge_priv.h"
#include "forecast/state_priv.h"
#include "tests/support/test.h"

/* ---- scores
 * ----------------------------------------------------------------------------------------- */

TEST(scores_are_those_worked_out_by_hand)
{
    struct forecast_score s = {0};
    const struct forecast_bounds a = {.mean = 10, .lo80 = 8, .hi80 = 12, .lo95 = 6, .hi95 = 16};
    forecast_score_add(&s, &a, 14); /* above 80, inside 95 */
    forecast_score_add(&s, &a, 6);  /* below 80, on the edge of 95 */
    assert_near(forecast_wape(&s), 8.0 / 20, 1e-12, 0);
    assert_near(forecast_bias(&s), 0, 1e-12, 0);
    assert_near(forecast_cover80(&s), 0, 1e-12, 0);
    assert_near(forecast_cover95(&s), 1, 1e-12, 0);
    assert_near(forecast_interval80(&s), 4 + 10 * 2, 1e-12, 0);
    assert_near(forecast_interval95(&s), 10, 1e-12, 0);
    double above = 0.025 * 8 + 0.1 * 6 + 0.9 * 2 + 0.025 * 2,
           below = 0 + 0.9 * 2 + 0.1 * 6 + 0.025 * 10;
    assert_near(forecast_pinball(&s), (above + below) / 8, 1e-9, 0);
}

TEST(a_mean_without_bounds_counts_towards_wape_only)
{
    struct forecast_score s = {0};
    const struct forecast_bounds a = {10, NAN, NAN, NAN, NAN};
    assert_true(isnan(forecast_wape(&s)));
    forecast_score_add(&s, &a, 8);
    assert_near(forecast_wape(&s), 0.25, 1e-12, 0);
    assert_true(isnan(forecast_pinball(&s)) && isnan(forecast_cover95(&s)));
}

/* ---- window
 * ----------------------------------------------------------------------------------------- */

TEST(slot_statistics_equal_those_sorted_out_of_the_whole_history)
{
    static struct window w;
    static float all[20 * DAY];
    struct rng rng = rng_stream(test_seed(), "slots");
    struct calendar utc = {0};
    memset(&w, 0, sizeof w);
    for (int64_t i = 0; i < 20 * DAY; i++) {
        all[i] = rng_unit(&rng) < 0.1 ? NAN : (float)(100 * rng_unit(&rng));
        struct calendar_point at = calendar_at(&utc, i * FORECAST_POINT_US);
        window_push(&w, i * FORECAST_POINT_US, all[i], &at);
        if (i < 10 * DAY || i % 97 != 0)
            continue;
        int64_t first = i - i % SLOT_POINTS;
        double v[WINDOW_DAYS * SLOT_POINTS];
        size_t n = 0;
        for (int d = 1; d <= WINDOW_DAYS; d++)
            for (int64_t k = first - d * DAY; k < first - d * DAY + SLOT_POINTS; k++)
                if (k >= 0 && !isnan(all[k]))
                    v[n++] = (double)all[k];
        stats_sort(v, n);
        const struct slot_stats *s = &w.slot[w.rest][window_slot(&w, 0)];
        assert_near(s->median_all, stats_quantile_sorted(v, n, 0.5), 1e-4, 0);
        for (int b = 0; b < BOUNDS; b++)
            assert_near(s->bound[b], stats_quantile_sorted(v, n, bound_prob[b]), 1e-4, 0);
    }
}

/* ---- ridge
 * ------------------------------------------------------------------------------------------ */

TEST(ridge_finds_the_weights_of_a_plane_whatever_the_units)
{
    enum { N = 4, STRIDE = 8 };
    float a[N * STRIDE] = {0}, b[STRIDE] = {0}, w[N];
    struct rng rng = rng_stream(test_seed(), "ridge");
    for (int i = 0; i < 2000; i++) {
        float x[STRIDE] = {1, (float)rng_normal(&rng), (float)(1e3 * rng_normal(&rng)), 0};
        float t = 3 - 2 * x[1] + 0.005f * x[2] + 0.01f * (float)rng_normal(&rng);
        ridge_add(a, b, x, N, STRIDE, 1, t);
    }
    assert_true(ridge_solve(a, b, N, STRIDE, 1e-6, w));
    assert_near(w[0], 3, 2e-3, 0);
    assert_near(w[1], -2, 2e-3, 0);
    assert_near(w[2], 0.005, 1e-5, 0);
    assert_near(w[3], 0, 0, 0); /* an unused column */
    assert_true(ridge_solve(a, b, N, STRIDE, 1e6, w));
    assert_near(w[1], 0, 1e-4, 0); /* heavily shrunk */
}

TEST(ridge_says_when_it_cannot_solve)
{
    float a[4] = {1, 0, 0, 1}, b[2] = {NAN, 1}, w[2] = {7, 7};
    assert_false(ridge_solve(a, b, 2, 2, 1e-3, w));
    assert_near(w[0], 7, 0, 0);
}

/* ---- mixing
 * ----------------------------------------------------------------------------------------- */

static void mix_rounds(struct mixing *m, struct said *s, const float spread[EXPERTS], int rounds)
{
    struct rng rng = rng_stream(test_seed(), "mixing");
    for (int i = 0; i < rounds; i++) {
        for (int k = 0; k < EXPERTS; k++)
            s->expert[k] = (float)(100 + (double)spread[k] * rng_normal(&rng));
        mixing_fill(m, s);
        mixing_learn(m, s, 100, 10);
    }
}

TEST(mixing_turns_to_the_best_expert)
{
    struct mixing m = {0};
    static struct said s;
    float spread[EXPERTS], share[EXPERTS];
    for (int k = 0; k < EXPERTS; k++)
        spread[k] = k == EXPERT_DAY_AGO ? 0.5f : 20;
    mix_rounds(&m, &s, spread, 2000);
    mixing_shares(&m, share);
    assert_true(share[EXPERT_DAY_AGO] > 0.9f);
    assert_near(s.mixed, 100, 2, 0);
}

TEST(mixing_stays_with_the_last_point_while_nothing_is_better)
{
    struct mixing m = {0};
    static struct said s;
    float spread[EXPERTS], share[EXPERTS];
    mixing_fill(&m, &s);
    for (int k = 0; k < EXPERTS; k++)
        spread[k] = k == EXPERT_LAST ? 0 : 20;
    mix_rounds(&m, &s, spread, 2000);
    mixing_shares(&m, share);
    assert_true(share[EXPERT_LAST] > 0.99f);
}

/* ---- intervals
 * -------------------------------------------------------------------------------------- */

/* Coverage of the 80 % interval around a fixed mean when errors are `scale` times N(0, 1); scale
 * jumps to `later` half-way. */
static double covered80(double scale, double later, int rounds)
{
    static struct forecaster f;
    static struct origin o;
    struct rng rng = rng_stream(test_seed(), "cover");
    int inside = 0, counted = 0;
    struct forecaster *fresh = NULL;
    struct forecast_config cfg = forecast_config_default();
    fresh = forecast_new(&cfg);
    forecast_copy(&f, fresh);
    forecast_free(fresh);
    f.window.mean = f.window.peak = o.y = 1000;
    for (int r = 0; r < 2; r++)
        for (int k = 0; k < SLOTS_PER_DAY; k++)
            for (int b = 0; b < BOUNDS; b++)
                f.window.slot[r][k].bound[b] = NAN;
    struct said *s = &o.said[2];
    s->mean = 1000;
    for (int i = 0; i < rounds; i++) {
        f.window.five = i % DAY;
        interval_fill(&f, 2, &o, s);
        double sd = i < rounds / 2 ? scale : later;
        float load = (float)(1000 + sd * rng_normal(&rng));
        if (i > 500) {
            counted++;
            inside += load >= s->bound[BOUND_LO80] && load <= s->bound[BOUND_HI80];
        }
        interval_learn(&f.interval[2], s, load, 1000);
        if (i % DAY == 0)
            interval_day(&f.interval[2], 1);
    }
    return (double)inside / counted;
}

TEST(coverage_is_nominal_on_independent_errors)
{
    assert_near(covered80(50, 50, 20000), 0.80, 0.01, 0);
}

TEST(coverage_recovers_when_errors_grow_tenfold_or_vanish)
{
    assert_near(covered80(20, 200, 20000), 0.80, 0.015, 0);
    assert_near(covered80(200, 20, 20000), 0.80, 0.015, 0);
}

TEST(coverage_is_near_nominal_where_most_errors_are_exactly_zero)
{
    assert_near(covered80(0, 0, 20000), 0.80, 0.25, 0); /* ties: never below, may be above */
}
