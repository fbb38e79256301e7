/* calibrate_test.c - known curves are found again; bad data is refused. */
#include "sim/calibrate.h"

#include "tests/unit/sim/capsim_fixture.h"

static const struct latency_point truth[] = {{5, 30, 80},    {40, 32, 90},  {60, 38, 120},
                                             {75, 50, 170},  {85, 70, 260}, {95, 120, 480},
                                             {100, 200, 900}};

static double truth_at(double load, struct latency_model *m)
{
    return (double)latency_at(m->p99_ms, m, 1, (float)load);
}

struct columns {
    float *qps, *units, *p50, *p99, *gpu;
    int32_t n;
};

/* Two weeks of the simulator on the true curve: daily wave, bursts, +-20 % noise, sizes that follow
 * late, so that every load up to overload occurs.  Measured p99 has +-10 % noise of its own. */
static struct columns simulate(double peak_use)
{
    struct fixture f;
    enum { N = 14 * 5760 };
    fixture_init(&f, 80, N, 0);
    struct err e;
    latency_fini(&f.latency);
    assert_ok(latency_from_curve(truth, 7, 100, 80, 200, &f.latency, &e), &e);
    f.spec.slo_p99_ms = 200;
    f.cfg = capsim_cfg_default();
    for (int k = 0; k < N; k++)
        f.demand[k] =
            (float)(1000 * (1 + 0.7 * sin(2 * M_PI * k / 5760)) * (k % 997 < 40 ? 1.5 : 1));
    fixture_start(&f, test_seed(), 0, 20);
    struct columns c = {.n = N};
    float **col[] = {&c.qps, &c.units, &c.p50, &c.p99, &c.gpu};
    for (size_t i = 0; i < ARRAY_LEN(col); i++)
        *col[i] = mem_zero(N, sizeof(float));
    struct rng r = rng_stream(test_seed(), "measure");
    for (int k = 0; k < N; k++) {
        int late = k > 20 ? k - 20 : 0;
        int ready = f.view.units_ready;
        fixture_step(&f, (int)ceil((double)f.demand[late] / (100 * peak_use)));
        c.units[k] = (float)(f.out.units_billed < ready ? f.out.units_billed : ready);
        c.qps[k] = f.out.arrivals / 15;
        c.p50[k] = f.out.p50_ms;
        c.p99[k] = f.out.p99_ms * (float)(0.9 + 0.2 * rng_unit(&r));
        c.gpu[k] = f.lane->ring[k % CAPSIM_WINDOW][CAPSIM_V_GPU];
    }
    fixture_fini(&f);
    return c;
}

static void columns_free(struct columns *c)
{
    mem_free(c->qps);
    mem_free(c->units);
    mem_free(c->p50);
    mem_free(c->p99);
    mem_free(c->gpu);
}

static struct calibrate_history history_of(const struct columns *c)
{
    return (struct calibrate_history){.qps = c->qps,
                                      .units_ready = c->units,
                                      .p50_ms = c->p50,
                                      .p99_ms = c->p99,
                                      .gpu_util = c->gpu,
                                      .n = c->n,
                                      .step_us = 15 * US_PER_S,
                                      .slo_ms = 200};
}

static void expect_curve(const struct calibration *c, double top_load, double tol)
{
    struct err e;
    struct latency_model m, t;
    assert_ok(latency_from_curve(c->point, c->n, c->unit_qps, 1, 200, &m, &e), &e);
    assert_ok(latency_from_curve(truth, 7, 100, 1, 200, &t, &e), &e);
    for (double load = c->point[0].load_per_unit; load <= top_load; load += 1)
        assert_near(truth_at(load, &m), truth_at(load, &t), 0, tol);
    latency_fini(&m);
    latency_fini(&t);
}

TEST(a_known_curve_is_recovered_from_history_by_the_gpu_gauge)
{
    struct err e;
    struct columns c = simulate(0.75);
    struct calibrate_history h = history_of(&c);
    struct calibration cal;
    assert_ok(calibrate_from_history(&h, &cal, &e), &e);
    assert_int_equal(cal.source, CALIBRATE_GAUGE);
    assert_near(cal.unit_qps, 100, 0, 0.02);
    assert_near(cal.load_at_slo, 79.2, 0, 0.02);
    assert_true(cal.n_overload > 100 && cal.n_unfit > 100);
    assert_near(cal.spread_frac, 0.07, 0.04, 0);
    expect_curve(&cal, 95, 0.08);
    columns_free(&c);
}

TEST(a_known_curve_is_recovered_from_queues_when_there_is_no_gauge)
{
    struct err e;
    struct columns c = simulate(0.75);
    struct calibrate_history h = history_of(&c);
    struct calibration cal;
    h.gpu_util = NULL;
    assert_ok(calibrate_from_history(&h, &cal, &e), &e);
    assert_int_equal(cal.source, CALIBRATE_OVERLOAD);
    assert_near(cal.unit_qps, 100, 0, 0.05);
    assert_near(cal.load_at_slo, 79.2, 0, 0.03);
    expect_curve(&cal, 90, 0.10);
    columns_free(&c);
}

TEST(a_service_never_near_saturation_claims_no_more_than_was_seen)
{
    struct err e;
    struct columns c = simulate(0.35);
    struct calibrate_history h = history_of(&c);
    struct calibration cal;
    int32_t kept = 0; /* without the bursts */
    for (int32_t k = 0; k < c.n; k++) {
        if (c.qps[k] > 62 * c.units[k])
            continue;
        c.qps[kept] = c.qps[k];
        c.units[kept] = c.units[k];
        c.p50[kept] = c.p50[k];
        c.gpu[kept] = c.gpu[k];
        c.p99[kept++] = c.p99[k];
    }
    h.n = kept;
    for (int gauge = 0; gauge < 2; gauge++) { /* a gauge that points to 100 changes nothing */
        h.gpu_util = gauge ? c.gpu : NULL;
        assert_ok(calibrate_from_history(&h, &cal, &e), &e);
        assert_int_equal(cal.source, CALIBRATE_LARGEST_SEEN);
        assert_true(cal.unit_qps <= 62 && cal.unit_qps > 45);
        assert_near(cal.load_at_slo, cal.unit_qps, 1e-3, 0);
    }
    columns_free(&c);
}

TEST(missing_barred_and_broken_samples_change_little)
{
    struct err e;
    struct columns c = simulate(0.75);
    struct calibrate_history h = history_of(&c);
    struct calibration clean, dirty;
    assert_ok(calibrate_from_history(&h, &clean, &e), &e);
    uint8_t *barred = mem_zero((size_t)c.n, 1);
    struct rng r = rng_stream(test_seed(), "dirt");
    for (int32_t k = 0; k < c.n; k++) {
        switch (rng_below(&r, 40)) {
        case 0:
            c.p99[k] = NAN;
            break;
        case 1:
            c.units[k] = 0;
            break;
        case 2:
            c.qps[k] = NAN;
            break;
        case 3:
            barred[k] = 1, c.p99[k] = 1;
            break;
        case 4:
            c.p99[k] *= 30;
            break; /* outliers the median must resist */
        case 5:
            c.gpu[k] = 0.1f;
            break;
        case 6:
            c.p99[k] = INFINITY;
            break;
        default:
            break;
        }
    }
    h.barred = barred;
    assert_ok(calibrate_from_history(&h, &dirty, &e), &e);
    assert_near(dirty.unit_qps, clean.unit_qps, 0, 0.01);
    assert_near(dirty.load_at_slo, clean.load_at_slo, 0, 0.02);
    mem_free(barred);
    columns_free(&c);
}

TEST(a_missing_p50_is_said_to_be_assumed)
{
    struct err e;
    struct columns c = simulate(0.75);
    struct calibrate_history h = history_of(&c);
    struct calibration cal;
    h.p50_ms = NULL;
    assert_ok(calibrate_from_history(&h, &cal, &e), &e);
    assert_true(cal.p50_assumed);
    assert_near(cal.point[0].p50_ms, cal.point[0].p99_ms / 4, 1e-6, 0);
    columns_free(&c);
}

TEST(too_little_or_too_even_history_is_refused)
{
    struct err e;
    struct calibration cal;
    enum { N = 400 };
    float qps[N], units[N], p99[N];
    for (int i = 0; i < N; i++) {
        qps[i] = 100;
        units[i] = 2;
        p99[i] = 80;
    }
    struct calibrate_history h = {.qps = qps,
                                  .units_ready = units,
                                  .p99_ms = p99,
                                  .n = N,
                                  .step_us = 15 * US_PER_S,
                                  .slo_ms = 200};
    assert_err(calibrate_from_history(&h, &cal, &e), ERR_INVAL, &e, "too even");
    h.n = 150;
    assert_err(calibrate_from_history(&h, &cal, &e), ERR_INVAL, &e, "150 usable samples, 200");
    h.n = N;
    for (int i = 0; i < N; i++)
        p99[i] = NAN;
    assert_err(calibrate_from_history(&h, &cal, &e), ERR_INVAL, &e, "0 usable samples");
    h.p99_ms = NULL;
    assert_err(calibrate_from_history(&h, &cal, &e), ERR_INVAL, &e, "p99_latency_ms");
}

TEST(a_load_test_in_any_order_gives_its_curve)
{
    static const struct latency_point shuffled[] = {
        {75, 50, 170}, {5, 30, 80},   {100, 190, 800}, {85, 70, 260},
        {40, 32, 90},  {60, 38, 120}, {95, 120, 480},  {100, 210, 1000}};
    struct err e;
    struct calibration cal;
    assert_ok(calibrate_load_test(shuffled, 8, 200, &cal, &e), &e);
    assert_int_equal(cal.n, 7);
    assert_near(cal.unit_qps, 100, 1e-9, 0);
    assert_near(cal.point[6].p99_ms, 900, 1e-9, 0);
    assert_near(cal.load_at_slo, 79.2, 0, 0.01);
    assert_int_equal(cal.source, CALIBRATE_LOAD_TEST);
    assert_non_null(strstr(calibrate_source_text(cal.source), "load test"));
}

TEST(poor_load_tests_are_refused)
{
    static const struct latency_point same[] = {{10, 1, 2}, {10, 1, 2}, {10, 1, 2}, {20, 1, 2}};
    static const struct latency_point close[] = {{10, 1, 2}, {10.1, 1, 2}, {10.2, 1, 2}};
    static const struct latency_point falls[] = {{10, 10, 20}, {20, 5, 10}, {30, 11, 30}};
    static const struct latency_point bad[] = {{10, 10, 20}, {NAN, 10, 20}, {30, 11, 30}};
    struct err e;
    struct calibration cal;
    assert_err(calibrate_load_test(truth, 2, 200, &cal, &e), ERR_INVAL, &e, "2 points");
    assert_err(calibrate_load_test(same, 4, 200, &cal, &e), ERR_INVAL, &e, "2 distinct loads");
    assert_err(calibrate_load_test(close, 3, 200, &cal, &e), ERR_INVAL, &e, "too few");
    assert_err(calibrate_load_test(falls, 3, 200, &cal, &e), ERR_INVAL, &e, "falls by over 20 %");
    assert_err(calibrate_load_test(bad, 3, 200, &cal, &e), ERR_INVAL, &e, "point 2");
    assert_err(calibrate_load_test(truth, 7, -1, &cal, &e), ERR_INVAL, &e, "target");
}
