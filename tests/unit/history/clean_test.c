#include "history/clean.h"
#include "base/rng.h"
#include "history/grid.h"
#include "history/resample.h"
#include "tests/unit/history/hist_fixture.h"

/* ---- filling and gaps against a slow reference
 * ---------------------------------------------------- */

static void slow_fill(float *x, int n, bool is_load)
{
    float out[64];
    for (int i = 0; i < n; i++) {
        int a = i, b = i;
        while (a >= 0 && isnan(x[a]))
            a--;
        while (b < n && isnan(x[b]))
            b++;
        out[i] = x[i];
        if (isnan(x[i]) && a >= 0 && b < n && b - a <= 3)
            out[i] = is_load
                         ? (float)((double)x[a] + ((double)x[b] - (double)x[a]) * (i - a) / (b - a))
                         : x[a];
    }
    memcpy(x, out, (size_t)n * sizeof *x);
}

TEST(filling_agrees_with_a_slow_reference)
{
    struct rng r = rng_stream(test_seed(), "fill");
    for (int round = 0; round < 2000; round++) {
        float a[64], b[64];
        int n = 1 + (int)rng_below(&r, 64);
        bool is_load = rng_below(&r, 2);
        int64_t missing = 0, left = 0;
        for (int i = 0; i < n; i++) {
            a[i] = b[i] = rng_below(&r, 3) ? (float)rng_unit(&r) : NAN;
            missing += isnan(a[i]) != 0;
        }
        int64_t filled = clean_fill(a, n, is_load);
        slow_fill(b, n, is_load);
        for (int i = 0; i < n; i++) {
            assert_near((double)a[i], (double)b[i], 1e-7, 0);
            left += isnan(a[i]) != 0;
        }
        assert_int_equal(filled, missing - left);
    }
}

TEST(zero_runs_of_the_given_length_and_longer_become_missing)
{
    float x[] = {0, 0, 1, 0, 0, 0, 2, 0, 0, 0, 0};
    assert_int_equal(clean_zero_gaps(x, 11, 3), 7);
    assert_true(x[0] == 0 && x[1] == 0 && isnan(x[3]) && isnan(x[5]) && isnan(x[10]));
}

/* ---- the grid
 * --------------------------------------------------------------------------------------- */

struct grid_case {
    int64_t step_ms, phase_ms, jitter_ms;
    int drop_percent;
};

TEST(step_and_phase_are_found_under_jitter_and_loss)
{
    static const struct grid_case cases[] = {
        {60000, 0, 0, 0},  {300000, 240000, 0, 5}, {15000, 3000, 400, 10}, {1000, 0, 0, 30},
        {250, 100, 0, 10}, {10000, 0, 1200, 10},   {57000, 13000, 0, 0},   {86400000, 0, 0, 10},
    };
    struct rng r = rng_stream(test_seed(), "grid");
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        const struct grid_case *c = &cases[i];
        struct raw raw;
        struct grid g;
        struct err e;
        size_t series;
        raw_init(&raw);
        assert_ok(raw_series_add(&raw, FIELD_QPS, NULL, &series, &e), &e);
        int64_t base = INT64_C(1700000000000) / c->step_ms * c->step_ms + c->phase_ms;
        for (int k = 0; k < 2000; k++) {
            int64_t jitter =
                c->jitter_ms ? (int64_t)rng_below(&r, (uint32_t)(2 * c->jitter_ms)) - c->jitter_ms
                             : 0;
            if ((int)rng_below(&r, 100) >= c->drop_percent)
                assert_ok(
                    raw_value(&raw, series, (base + k * c->step_ms + jitter) * 1000, k, 0, 1, &e),
                    &e);
        }
        assert_ok(grid_find(&raw, 0, false, &g, &e), &e);
        print_message("           step %lld ms\n", (long long)c->step_ms);
        assert_int_equal(g.step_us, c->step_ms * 1000);
        for (size_t k = 0; k < raw.series[0].n; k++) { /* every sample in its own step */
            int64_t want = grid_index(&g, base * 1000) + (int64_t)raw.series[0].s[k].v;
            assert_int_equal(grid_index(&g, raw.series[0].s[k].t_us), want);
        }
        raw_fini(&raw);
    }
}

/* ---- any input in, invariants out
 * --------------------------------------------------------------------- */

static void random_csv(struct rng *r, struct buf *out)
{
    static const char *const odd[] = {"", "NaN", "inf", "-1", "1e308", "1e999", "x", "0", "0", "0"};
    int64_t t = 1700000000 + rng_below(r, 1000);
    buf_str(out, "time,qps,cpu_util,queue_len\n");
    for (int i = 0; i < 3 + (int)rng_below(r, 60); i++) {
        t += rng_below(r, 8) ? 10 : (int64_t)rng_below(r, 90) - 20;
        buf_fmt(out, "%lld", (long long)t);
        for (int c = 0; c < 3; c++) {
            if (rng_below(r, 5) == 0)
                buf_fmt(out, ",%s", odd[rng_below(r, ARRAY_LEN(odd))]);
            else
                buf_fmt(out, ",%.3f", rng_unit(r));
        }
        buf_str(out, rng_below(r, 30) ? "\n" : ",7\n");
    }
}

TEST(whatever_comes_in_a_history_is_finite_consistent_and_counted)
{
    struct rng r = rng_stream(test_seed(), "any-csv");
    int read = 0;
    for (int round = 0; round < 500; round++) {
        struct buf b = buf_init(1 << 20);
        struct fixture f;
        random_csv(&r, &b);
        if (!fixture_text(&f, "csv", OPTIONS("max_bad=1", "zero_gap=40s"), b.p, b.n)) {
            const char *path = test_path("%s/any.hist", test_tmp_dir());
            struct history back;
            uint64_t barred = 0, missing = 0;
            read++;
            for (int64_t i = 0; i < f.h.n; i++) {
                barred += f.h.barred[i];
                assert_int_equal(f.h.barred[i], isnan(f.h.col[FIELD_QPS][i]) != 0);
                for (int k = 0; k < FIELD_COUNT; k++)
                    missing += f.h.col[k] && isnan(f.h.col[k][i]);
            }
            assert_int_equal(barred, f.report.barred);
            assert_int_equal(missing, f.report.missing);
            assert_true(f.report.kept <= f.report.values);
            assert_ok(history_write(path, &f.h, &f.report, &f.e),
                      &f.e); /* refuses what is out of range */
            assert_ok(history_open(path, &back, NULL, &f.e), &f.e);
            assert_int_equal(back.data_hash, f.h.data_hash);
            history_close(&back);
        }
        fixture_fini(&f);
        buf_fini(&b);
    }
    assert_true(read > 300);
}

TEST(shuffled_rows_give_the_same_history)
{
    struct rng r = rng_stream(test_seed(), "shuffle");
    int64_t order[200];
    struct buf a = buf_init(1 << 20), b = buf_init(1 << 20);
    struct fixture fa, fb;
    for (int i = 0; i < 200; i++)
        order[i] = i;
    for (int i = 199; i > 0; i--) {
        uint32_t k = rng_below(&r, (uint32_t)i + 1);
        int64_t swap = order[i];
        order[i] = order[k];
        order[k] = swap;
    }
    buf_str(&a, "time,qps\n");
    buf_str(&b, "time,qps\n");
    for (int i = 0; i < 200; i++) {
        buf_fmt(&a, "%d,%d\n", i * 15, i * i % 37);
        buf_fmt(&b, "%d,%d\n", (int)order[i] * 15, (int)(order[i] * order[i] % 37));
    }
    assert_ok(fixture_text(&fa, "csv", NULL, a.p, a.n), &fa.e);
    assert_ok(fixture_text(&fb, "csv", NULL, b.p, b.n), &fb.e);
    assert_int_equal(fa.h.data_hash, fb.h.data_hash);
    assert_int_equal(fa.report.tally[TALLY_UNSORTED].count, 0);
    assert_true(fb.report.tally[TALLY_UNSORTED].count > 100);
    fixture_fini(&fa);
    fixture_fini(&fb);
    buf_fini(&a);
    buf_fini(&b);
}

TEST(a_missing_gauge_does_not_bar_the_load_beside_it)
{
    static const char text[] =
        "time,qps,p99_latency_ms\n0,1,5\n60,0,\n120,0,\n180,0,\n240,0,\n300,1,6\n";
    struct fixture f;
    assert_ok(fixture_text(&f, "csv", NULL, text, sizeof text - 1), &f.e);
    assert_int_equal(f.report.barred, 0);
    assert_true(isnan(f.h.col[FIELD_P99_LATENCY_MS][2]));
    fixture_fini(&f);
}

TEST(without_load_only_samples_with_nothing_are_barred)
{
    static const char text[] =
        "time,cpu_util,mem_util\n0,0.1,0.1\n60,,0.1\n120,,\n180,,\n240,,\n300,,0.2\n360,0.1,0.1\n";
    struct fixture f;
    assert_ok(fixture_text(&f, "csv", NULL, text, sizeof text - 1), &f.e);
    assert_int_equal(f.report.barred, 3);
    assert_int_equal(f.h.barred[2], 1);
    assert_int_equal(f.h.barred[5], 0);
    fixture_fini(&f);
}

/* ---- resampling
 * --------------------------------------------------------------------------------------- */

static void two_columns(struct history *h, int64_t step_us, const float *qps, const float *util,
                        int64_t n)
{
    bool has[FIELD_COUNT] = {[FIELD_QPS] = true, [FIELD_GPU_UTIL] = true};
    struct err e;
    assert_ok(history_new(600 * US_PER_S, step_us, n, has, h, &e), &e);
    for (int64_t i = 0; i < n; i++) {
        history_col(h, FIELD_QPS)[i] = qps[i];
        history_col(h, FIELD_GPU_UTIL)[i] = util[i];
        history_barred(h)[i] = isnan(qps[i]) != 0;
    }
}

TEST(load_is_interpolated_and_gauges_are_held_at_the_decision_step)
{
    static const float qps[] = {10, 20, NAN, NAN, NAN, 40},
                       util[] = {0.1f, 0.2f, 0.3f, 0.4f, 0.5f, 0.6f};
    static const double want[] = {10, 10, 11.25, 13.75, 16.25, 18.75, 20, 20}; /* then missing */
    struct history h, fine;
    struct err e;
    two_columns(&h, US_PER_MIN, qps, util, 6);
    assert_ok(history_resample(&h, 15 * US_PER_S, &fine, &e), &e);
    assert_int_equal(fine.n, 24);
    assert_int_equal(fine.start_us, h.start_us);
    for (int i = 0; i < 8; i++) {
        assert_near((double)fine.col[FIELD_QPS][i], want[i], 1e-5, 0);
        assert_int_equal(fine.barred[i], 0);
    }
    for (int i = 8; i < 20; i++) {
        assert_true(isnan(fine.col[FIELD_QPS][i]));
        assert_int_equal(fine.barred[i], 1);
    }
    for (int i = 0; i < 24; i++)
        assert_near((double)fine.col[FIELD_GPU_UTIL][i], 0.1 * (i / 4 + 1), 1e-6, 0);
    assert_near((double)fine.col[FIELD_QPS][20], 40, 0, 0);
    history_close(&fine);
    history_close(&h);
}

TEST(a_coarser_step_takes_means_of_load_and_the_last_gauge)
{
    static const float qps[] = {1, 2, 3, 4, 5, 6, 7},
                       util[] = {0.1f, 0.2f, 0.3f, 0.4f, 0.5f, 0.6f, 0.7f};
    struct history h, c;
    struct err e;
    two_columns(&h, 10 * US_PER_S, qps, util, 7);
    assert_ok(history_resample(&h, 15 * US_PER_S, &c, &e), &e);
    assert_int_equal(c.n, 4);
    assert_near((double)c.col[FIELD_QPS][0], (1 + 0.5 * 2) / 1.5, 1e-6, 0);
    assert_near((double)c.col[FIELD_QPS][1], (0.5 * 2 + 3) / 1.5, 1e-6, 0);
    assert_near((double)c.col[FIELD_GPU_UTIL][1], 0.3, 1e-6, 0);
    history_close(&c);
    history_close(&h);
}

TEST(five_minute_points_are_aligned_means_over_what_was_measured)
{
    float qps[30], util[30];
    struct history h, m;
    struct err e;
    for (int i = 0; i < 30; i++) {
        qps[i] = (i >= 7 && i < 10) || (i >= 16 && i < 18) ? NAN : (float)i;
        util[i] = 0.5f;
    }
    two_columns(&h, US_PER_MIN, qps, util, 30); /* starts at 600 s: on a point */
    assert_ok(history_mean(&h, 5 * US_PER_MIN, &m, &e), &e);
    assert_int_equal(m.n, 6);
    assert_int_equal(m.start_us, 600 * US_PER_S);
    assert_near((double)m.col[FIELD_QPS][0], 2, 1e-6, 0);
    assert_true(isnan(m.col[FIELD_QPS][1])); /* 2 of 5 */
    assert_int_equal(m.barred[1], 1);
    assert_near((double)m.col[FIELD_QPS][3], (15 + 18 + 19) / 3.0, 1e-5, 0);
    assert_int_equal(m.barred[3], 0);
    history_close(&m);
    h.start_us += 2 * US_PER_MIN; /* now between points: the first is 3 of 5 */
    assert_ok(history_mean(&h, 5 * US_PER_MIN, &m, &e), &e);
    assert_int_equal(m.start_us, 600 * US_PER_S);
    assert_int_equal(m.n, 7);
    assert_near((double)m.col[FIELD_QPS][0], 1, 1e-6, 0);
    assert_int_equal(m.barred[0], 0);
    history_close(&m);
    history_close(&h);
}

TEST(resampling_refuses_impossible_steps)
{
    static const float x[] = {1, 1};
    struct history h, out;
    struct err e;
    two_columns(&h, US_PER_MIN, x, x, 2);
    assert_err(history_resample(&h, 0, &out, &e), ERR_INVAL, &e, "under 1 ms");
    assert_err(history_resample(&h, US_PER_DAY, &out, &e), ERR_INVAL, &e, "shorter than one step");
    assert_err(history_mean(&h, -5, &out, &e), ERR_INVAL, &e, NULL);
    history_close(&h);
}
