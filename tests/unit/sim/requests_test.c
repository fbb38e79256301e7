/* requests_test.c - the request-level simulation against queueing theory and itself. */
#include "sim/requests.h"

#include "base/mem.h"
#include "base/rng.h"
#include "model/history.h"
#include "model/latency.h"
#include "tests/support/test.h"

static struct requests_cfg plain(int units_max, int slots)
{
    return (struct requests_cfg){.service_ms = 40,
                                 .slots = slots,
                                 .units_max = units_max,
                                 .step_us = 15 * US_PER_S,
                                 .slo_ms = 200};
}

/* A steady load on `units` units for as long as it takes to see n arrivals. */
static struct requests_totals steady(const struct requests_cfg *c, int units, double rho, double n,
                                     uint64_t seed, struct requests_step **steps)
{
    struct err e;
    struct requests_totals t;
    double qps = rho * units * c->slots * 1000 / c->service_ms;
    int32_t k = (int32_t)ceil(n / qps / 15);
    float *load = mem_zero((size_t)k, sizeof *load);
    int32_t *size = mem_zero((size_t)k, sizeof *size);
    for (int32_t i = 0; i < k; i++) {
        load[i] = (float)qps;
        size[i] = units;
    }
    if (steps)
        *steps = mem_zero((size_t)k, sizeof **steps);
    assert_ok(requests_run(c, load, size, k, seed, steps ? *steps : NULL, &t, &e), &e);
    mem_free(load);
    mem_free(size);
    return t;
}

TEST(mean_waits_are_within_two_percent_of_erlang_c)
{
    static const struct {
        int units, slots;
        double rho, n;
    } row[] = {{1, 1, 0.5, 1e6},
               {2, 1, 0.7, 1.2e6},
               {1, 4, 0.8, 1.5e6},
               {5, 2, 0.8, 1.5e6},
               {10, 4, 0.9, 2e6}};
    for (size_t i = 0; i < ARRAY_LEN(row); i++) {
        struct requests_cfg c = plain(row[i].units, row[i].slots);
        struct requests_totals t = steady(&c, row[i].units, row[i].rho, row[i].n, 10 + i, NULL);
        int servers = row[i].units * row[i].slots;
        double wait =
            latency_erlang_c(servers, servers * row[i].rho) / (servers * (1 - row[i].rho)) * 40;
        assert_near(t.wait_mean_ms, wait, 0, 0.02);
        assert_near(t.response_mean_ms, wait + 40, 0, 0.02);
    }
}

TEST(littles_law_holds_exactly_over_a_run_that_ends_empty)
{
    struct err e;
    for (uint64_t seed = 1; seed <= 20; seed++) {
        struct rng r = rng_stream(seed, "little");
        enum { N = 60 };
        float load[N];
        int32_t size[N];
        struct requests_cfg c = plain(8, 2);
        c.timeout_s = seed % 2 ? 2 : 0;
        c.start_max_s = seed % 3 ? 40 : 0;
        c.up_mean_s = 120;
        c.repair_mean_s = 20;
        for (int k = 0; k < N; k++) {
            load[k] =
                k < N - 20 ? (float)(300 * rng_unit(&r)) : 0; /* the tail empties the system */
            size[k] = k < N - 20 ? (int32_t)rng_below(&r, 9) : 8;
        }
        struct requests_totals t;
        assert_ok(requests_run(&c, load, size, N, seed, NULL, &t, &e), &e);
        assert_int_equal(t.left, 0);
        assert_int_equal(t.arrivals, t.completed + t.dropped);
        /* N = lambda W: request-seconds in the system, counted both ways; a drop stays its time-out
         * unless a failure sent it back later, which the few-second tolerance covers */
        double both =
            (double)t.completed * t.response_mean_ms / 1000 + (double)t.dropped * c.timeout_s;
        assert_near(t.in_system_mean * t.seconds, both, 5, 1e-3);
    }
}

TEST(units_are_conserved_over_random_runs)
{
    struct err e;
    for (uint64_t seed = 1; seed <= 30; seed++) {
        struct rng r = rng_stream(seed, "conserve");
        enum { N = 200 };
        float load[N];
        int32_t size[N];
        struct requests_step step[N];
        struct requests_totals t;
        struct requests_cfg c = plain(20, 1);
        c.timeout_s = 5;
        c.start_min_s = 20;
        c.start_max_s = 200;
        c.up_mean_s = 300;
        c.repair_mean_s = 60;
        for (int k = 0; k < N; k++) {
            load[k] = (float)(100 * rng_unit(&r));
            size[k] = k % 4 ? size[k - 1] : (int32_t)rng_below(&r, 21);
        }
        assert_ok(requests_run(&c, load, size, N, seed, step, &t, &e), &e);
        assert_int_equal(t.arrivals, t.completed + t.dropped + t.left);
        int64_t arrivals = 0, dropped = 0, failed = 0;
        for (int k = 0; k < N; k++) {
            assert_int_equal(step[k].units_ready + step[k].units_warming + step[k].units_failed,
                             size[k]);
            assert_true(step[k].units_ready >= 0 && step[k].units_warming >= 0 &&
                        step[k].units_failed >= 0);
            arrivals += step[k].arrivals;
            dropped += step[k].dropped;
            failed += step[k].units_failed;
        }
        assert_int_equal(arrivals, t.arrivals);
        assert_int_equal(dropped, t.dropped);
        assert_true(failed > 0 && t.retried > 0);
    }
}

TEST(arrivals_follow_the_rate_of_each_step)
{
    struct err e;
    enum { N = 400 };
    float load[N];
    int32_t size[N] = {0};
    struct requests_step step[N];
    struct requests_totals t;
    struct requests_cfg c = plain(1, 1);
    c.timeout_s = 1;
    for (int k = 0; k < N; k++)
        load[k] = k % 4 == 3 ? 0 : (float)(k % 4 * 5 + 0.02); /* 0.02, 5.02, 10.02, 0 */
    assert_ok(requests_run(&c, load, size, N, 1, step, &t, &e), &e);
    double n[4] = {0};
    for (int k = 0; k < N; k++)
        n[k % 4] += (double)step[k].arrivals;
    for (int i = 0; i < 4; i++) {
        double want = (i == 3 ? 0 : i * 5 + 0.02) * 15 * N / 4;
        assert_near(n[i], want, 4 * sqrt(want) + 0.5, 0);
    }
}

TEST(request_level_scale_in_stops_the_newest_warming_unit)
{
    struct err e;
    enum { N = 12 };
    static const float load[N] = {0};
    static const int32_t size[N] = {1, 1, 1, 2, 2, 1, 1, 1, 1, 1, 1, 1};
    struct requests_step step[N];
    struct requests_totals t;
    struct requests_cfg c = plain(2, 1);
    c.start_min_s = c.start_max_s = 100;
    assert_ok(requests_run(&c, load, size, N, 1, step, &t, &e), &e);
    for (int k = 0; k < N; k++) /* the one of step 0 is ready at 100 s, in step 6 */
        assert_int_equal(step[k].units_ready, k >= 6);
}

TEST(response_quantiles_of_a_steady_queue_match_the_formula)
{
    struct requests_step *step;
    struct requests_cfg c = plain(10, 1);
    c.slo_ms = 150;
    (void)steady(&c, 10, 0.8, 600000, 3, &step);
    double p50 = 0, p99 = 0, over = 0, n = 0;
    int32_t steps = (int32_t)ceil(600000 / 200.0 / 15);
    for (int32_t k = 1; k < steps; k++, n++) {
        p50 += (double)step[k].p50_ms;
        p99 += (double)step[k].p99_ms;
        over += (double)step[k].over_frac;
    }
    assert_near(p50 / n, 40 * latency_mmc_quantile(10, 8, 0.50), 0, 0.02);
    assert_near(p99 / n, 40 * latency_mmc_quantile(10, 8, 0.99), 0, 0.03);
    double tail = 0; /* P(T > 150 ms) by bisection on the quantile */
    for (double lo = 0, hi = 1, i = 0; i < 40; i++) {
        tail = (lo + hi) / 2;
        if (40 * latency_mmc_quantile(10, 8, 1 - tail) > 150)
            lo = tail;
        else
            hi = tail;
    }
    assert_near(over / n, tail, 0, 0.05);
    mem_free(step);
}

TEST(patience_ends_after_the_timeout_when_nobody_serves)
{
    struct err e;
    struct requests_cfg c = plain(1, 1);
    c.timeout_s = 10;
    static const float load[4] = {20, 0, 0, 0};
    static const int32_t none[4] = {0};
    struct requests_step step[4];
    struct requests_totals t;
    assert_ok(requests_run(&c, load, none, 4, 1, step, &t, &e), &e);
    assert_int_equal(t.completed, 0);
    assert_int_equal(t.dropped, t.arrivals);
    assert_near(t.in_system_mean * t.seconds, 10.0 * (double)t.arrivals, 1e-3, 0);
    assert_near(step[0].p99_ms, 10000, 0, 0);
    assert_true(step[0].over_frac == 1 && isnan(step[1].p99_ms));
}

TEST(request_runs_repeat_bit_for_bit)
{
    struct requests_cfg c = plain(4, 2);
    c.up_mean_s = 100;
    c.repair_mean_s = 10;
    struct requests_totals a = steady(&c, 4, 0.7, 20000, 5, NULL),
                           b = steady(&c, 4, 0.7, 20000, 5, NULL);
    assert_true(a.hash == b.hash && a.n_events == b.n_events);
    assert_true(steady(&c, 4, 0.7, 20000, 6, NULL).hash != a.hash);
}

TEST(bad_request_runs_are_refused)
{
    struct err e;
    struct requests_totals t;
    struct requests_cfg c = plain(2, 1);
    static const float load[2] = {1, NAN}, fine[2] = {1, 1}, huge[2] = {9e8f, 9e8f};
    static const int32_t size[2] = {1, 2}, many[2] = {1, 3};
    assert_err(requests_run(&c, load, size, 2, 1, NULL, &t, &e), ERR_RANGE, &e, "step 1");
    assert_err(requests_run(&c, fine, many, 2, 1, NULL, &t, &e), ERR_RANGE, &e, "3 units");
    assert_err(requests_run(&c, huge, size, 2, 1, NULL, &t, &e), ERR_LIMIT, &e,
               "expected arrivals");
    assert_err(requests_run(&c, fine, size, 0, 1, NULL, &t, &e), ERR_RANGE, &e, "steps");
    c.service_ms = 0;
    assert_err(requests_run(&c, fine, size, 2, 1, NULL, &t, &e), ERR_RANGE, &e, "service_ms");
}
