/* generate_test.c - the stated distributions, the incidents, speed of start. */
#include "sim/generate.h"

#include <time.h>

#include "base/stats.h"
#include "tests/unit/sim/capsim_fixture.h"

enum { DAY = 5760, WEEKS = 8 * 7 * DAY };

/* Mean of one hour of the (UTC) day over the working or the weekend days. */
static double hour_mean(const float *x, int64_t n, int hour, bool weekend)
{
    double sum = 0, count = 0;
    for (int64_t i = 0; i < n; i++) {
        int64_t day = i / DAY; /* day 0 is a Thursday */
        bool rest = (day + 3) % 7 >= 5;
        if (rest == weekend && (i % DAY) / 240 == hour) {
            sum += (double)x[i];
            count++;
        }
    }
    return sum / count;
}

TEST(generated_demand_has_the_stated_day_and_week)
{
    struct err e;
    float *x = mem_zero(WEEKS, sizeof *x);
    struct generate_cfg c = generate_cfg_default();
    c.bursts_per_day = 0;
    assert_ok(generate_demand(&c, test_seed(), WEEKS, x, &e), &e);
    double peak = hour_mean(x, WEEKS, 14, false), night = hour_mean(x, WEEKS, 2, false);
    assert_near(peak, 1000, 0, 0.05);
    assert_near(night, 250, 0, 0.06);
    assert_near(hour_mean(x, WEEKS, 14, true) / peak, 0.6, 0, 0.06);
    mem_free(x);
}

TEST(bursts_come_at_the_stated_rate_and_height)
{
    struct err e;
    float *x = mem_zero(WEEKS, sizeof *x);
    struct generate_cfg c = generate_cfg_default();
    c.night_frac = c.weekend_frac = 1;
    c.wander_frac = 0;
    c.bursts_per_day = 2;
    c.burst_height_min = c.burst_height_max = 1;
    c.burst_rise_s = 15;
    c.burst_mean_s = 600;
    assert_ok(generate_demand(&c, test_seed(), WEEKS, x, &e), &e);
    double over = 0;
    int starts = 0;
    for (int64_t i = 1; i < WEEKS; i++) {
        over += (double)x[i] / 1000 - 1;
        starts += x[i] > 1400 && x[i - 1] <= 1400;
    }
    double n = 2 * WEEKS / (double)DAY;
    assert_near(starts, n, 4 * sqrt(n), 0); /* a few overlap */
    /* each adds its plateau, half a rise and one rise of falling */
    assert_near(over * 15 / n, 600 + 1.5 * 15, 0, 0.25);
    mem_free(x);
}

TEST(counting_noise_is_poisson)
{
    struct err e;
    static float x[4 * DAY];
    static const double level[] = {0.5, 30};
    for (size_t k = 0; k < ARRAY_LEN(level); k++) {
        struct generate_cfg c = generate_cfg_default();
        c.night_frac = c.weekend_frac = 1;
        c.wander_frac = c.bursts_per_day = 0;
        c.peak_qps = level[k];
        c.poisson = true;
        assert_ok(generate_demand(&c, test_seed(), 4 * DAY, x, &e), &e);
        static double count[4 * DAY];
        for (int i = 0; i < 4 * DAY; i++)
            count[i] = (double)x[i] * 15;
        double mean = level[k] * 15;
        assert_near(stats_mean(count, 4 * DAY), mean, 0, 0.01);
        assert_near(stats_var(count, 4 * DAY), mean, 0, 0.05);
    }
}

TEST(wander_has_the_stated_spread)
{
    struct err e;
    float *x = mem_zero(WEEKS, sizeof *x);
    double *level = mem_zero(WEEKS / 240, sizeof *level);
    struct generate_cfg c = generate_cfg_default();
    c.night_frac = c.weekend_frac = 1;
    c.bursts_per_day = 0;
    c.wander_frac = 0.2;
    c.wander_hours = 2;
    assert_ok(generate_demand(&c, test_seed(), WEEKS, x, &e), &e);
    for (int i = 0; i < WEEKS / 240; i++)
        level[i] = log((double)x[i * 240] / 1000);
    assert_near(stats_stddev(level, WEEKS / 240), 0.2, 0, 0.1);
    assert_near(stats_autocorr(level, WEEKS / 240, 2), exp(-1), 0.1, 0);
    mem_free(x);
    mem_free(level);
}

TEST(a_season_of_demand_is_generated_within_a_second_and_repeats)
{
    struct err e;
    enum { N = 90 * DAY };
    float *x = mem_zero(N, sizeof *x), *y = mem_zero(N, sizeof *y);
    struct generate_cfg c = generate_cfg_default();
    c.poisson = true;
    clock_t t0 = clock();
    assert_ok(generate_demand(&c, 1, N, x, &e), &e);
    assert_true((double)(clock() - t0) / CLOCKS_PER_SEC < 1);
    assert_ok(generate_demand(&c, 1, N, y, &e), &e);
    assert_memory_equal(x, y, N * sizeof *x);
    assert_ok(generate_demand(&c, 2, N, y, &e), &e);
    assert_true(memcmp(x, y, N * sizeof *x) != 0);
    mem_free(x);
    mem_free(y);
}

TEST(bad_generators_are_refused_by_name)
{
    struct err e;
    float x[10];
    struct generate_cfg c = generate_cfg_default();
    c.peak_qps = -1;
    assert_err(generate_demand(&c, 1, 10, x, &e), ERR_RANGE, &e, "peak_qps");
    c = generate_cfg_default();
    c.burst_height_max = 0.1;
    assert_err(generate_demand(&c, 1, 10, x, &e), ERR_RANGE, &e, "burst_height_max");
    c = generate_cfg_default();
    c.wander_hours = NAN;
    assert_err(generate_demand(&c, 1, 10, x, &e), ERR_RANGE, &e, "wander_hours");
    c = generate_cfg_default();
    assert_err(generate_demand(&c, 1, 0, x, &e), ERR_LIMIT, &e, "0 steps");
}

/* ---- incidents ------------------------------------------------------------------------------ */

static struct incident *build(enum incident_kind kind)
{
    struct err e;
    struct incident *in = mem_zero(1, sizeof *in);
    assert_ok(incident_build(kind, 50, 15 * US_PER_S, in, &e), &e);
    return in;
}

TEST(every_incident_is_a_valid_scenario_and_found_by_name)
{
    for (int i = 0; i < INCIDENT_COUNT; i++) {
        struct incident *in = build((enum incident_kind)i);
        assert_int_equal(incident_find(in->name), i);
        assert_true(in->n > 0 && in->n <= INCIDENT_STEPS_MAX);
        assert_true(in->from_step > 0 && in->from_step < in->to_step && in->to_step <= in->n);
        for (int32_t k = 0; k < in->n; k++)
            assert_true(in->demand[k] > 0 && in->demand[k] < 50 * in->units_max);
        assert_true(in->demand[0] < 50 * in->units_start);
        mem_free(in);
    }
    assert_int_equal(incident_find("nonsense"), -1);
}

TEST(incidents_do_what_they_say)
{
    struct incident *in = build(INCIDENT_TENFOLD);
    assert_near(in->demand[60 * 4 + 4] / in->demand[60 * 4], 10, 0.01, 0); /* within a minute */
    mem_free(in);
    in = build(INCIDENT_SHRINK_THEN_BURST);
    assert_near(in->demand[in->from_step + 2] / in->demand[in->from_step], 3, 0.01, 0);
    assert_true(in->demand[100] > 5 * in->demand[in->from_step]);
    mem_free(in);
    in = build(INCIDENT_METRICS_VANISH);
    float peak = 0;
    for (int32_t k = 0; k < in->n; k++)
        peak = fmaxf(peak, in->demand[k]);
    assert_true(in->demand[in->from_step] == peak && in->fault[0].kind == CAPSIM_METRICS_GONE);
    mem_free(in);
    in = build(INCIDENT_STARTS_FAIL);
    assert_int_equal(in->fault[0].to_step - in->fault[0].from_step, 240); /* an hour */
    assert_true(in->demand[in->to_step] > 1.9f * in->demand[in->from_step]);
    mem_free(in);
    in = build(INCIDENT_OR_FLAPPING);
    int swings = 0;
    for (int32_t k = in->from_step + 1; k < in->to_step; k++)
        swings += fabsf(in->demand[k] - in->demand[k - 1]) > 100;
    assert_true(swings >= 25);
    mem_free(in);
}

/* Enough units for the line, as an omniscient operator would run it: the incident itself is what is
 * left to see in the view. */
TEST(cpu_high_gpu_low_and_a_slow_dependency_show_in_the_view_while_units_idle)
{
    static const enum incident_kind kinds[] = {INCIDENT_CPU_HIGH_GPU_LOW, INCIDENT_DEPENDENCY_SLOW};
    for (size_t i = 0; i < 2; i++) {
        struct incident *in = build(kinds[i]);
        struct fixture f;
        fixture_init(&f, 32, in->n, 0);
        memcpy(f.demand, in->demand, (size_t)in->n * sizeof(float));
        for (int32_t k = 0; k < in->n; k++)
            f.demand[k] *= (float)(f.latency.unit_qps / 50);
        memcpy(f.cfg.fault, in->fault, sizeof in->fault);
        f.cfg.n_faults = in->n_faults;
        fixture_start(&f, 1, 0, in->units_start);
        while (f.lane->step < (in->from_step + in->to_step) / 2)
            fixture_step(&f, in->units_start);
        assert_true(f.view.value[FIELD_GPU_UTIL] < 0.5f);
        if (kinds[i] == INCIDENT_CPU_HIGH_GPU_LOW) {
            assert_near(f.view.value[FIELD_CPU_UTIL], 0.82, 1e-5, 0);
            assert_near(f.view.value[FIELD_GPU_UTIL], 0.45, 1e-5, 0);
            assert_false(f.out.miss);
        } else {
            assert_true(f.out.miss);
        }
        fixture_fini(&f);
        mem_free(in);
    }
}

TEST(bad_incidents_are_refused)
{
    struct err e;
    struct incident *in = mem_zero(1, sizeof *in);
    assert_err(incident_build(INCIDENT_TENFOLD, 0, 15 * US_PER_S, in, &e), ERR_RANGE, &e,
               "unit_qps");
    assert_err(incident_build(INCIDENT_TENFOLD, 50, US_PER_S, in, &e), ERR_RANGE, &e, "step");
    mem_free(in);
}
