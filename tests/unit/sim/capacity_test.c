/* capacity_test.c - units, queue, faults, noise and determinism of the capacity simulator. */
#include "tests/unit/sim/capsim_fixture.h"

#include "base/hash.h"

/* ---- units ------------------------------------------------------------------------------- */

TEST(a_new_unit_is_billed_at_once_and_ready_after_its_start_time)
{
    struct fixture f;
    fixture_init(&f, 8, 100, 10);
    fixture_start(&f, 1, 0, 1);
    for (int k = 0; k < 8; k++) {
        fixture_step(&f, 2);
        assert_int_equal(f.out.units_billed, 2);
        assert_near(f.out.cost_usd, 2 * 3.6 * 15 / 3600, 1e-9, 1e-6);
        assert_int_equal(f.view.units_ready, k == 7 ? 2 : 1); /* asked at 0, 8 steps of 15 s */
        assert_int_equal(f.view.warm_oldest_us, k == 7 ? 0 : (k + 1) * 15 * US_PER_S);
    }
    fixture_fini(&f);
}

TEST(warming_units_are_shown_by_age_in_bins_of_30_s)
{
    struct fixture f;
    fixture_init(&f, 16, 100, 10);
    fixture_start(&f, 1, 0, 1);
    static const int asked[] = {3, 3, 3, 4, 8};
    for (size_t k = 0; k < ARRAY_LEN(asked); k++)
        fixture_step(&f, asked[k]);
    /* ages now: 2 units 5 steps (75 s), 1 unit 2 steps (30 s), 4 units 1 step (15 s) */
    static const int want[CAPACITY_WARM_BINS] = {4, 1, 2};
    assert_memory_equal(f.view.warm, want, sizeof want);
    assert_int_equal(f.view.units_warming, 7);
    assert_int_equal(f.view.warm_oldest_us, 75 * US_PER_S);
    fixture_fini(&f);
}

TEST(scale_in_stops_the_newest_warming_units_first_then_ready_ones)
{
    struct fixture f;
    fixture_init(&f, 16, 100, 10);
    fixture_start(&f, 1, 0, 4);
    fixture_step(&f, 6); /* two at step 0 */
    fixture_step(&f, 9); /* three at step 1 */
    fixture_step(&f, 5); /* stops all of step 1, one of step 0 */
    assert_int_equal(f.view.units_ready, 4);
    assert_int_equal(f.view.units_warming, 1);
    assert_int_equal(f.view.warm_oldest_us, 45 * US_PER_S);
    fixture_step(&f, 2); /* the last warming one and two ready ones */
    assert_int_equal(f.view.units_ready, 2);
    assert_int_equal(f.view.units_warming, 0);
    fixture_fini(&f);
}

TEST(scale_in_stops_failed_units_before_ready_ones)
{
    struct fixture f;
    fixture_init(&f, 64, 3000, 10);
    f.cfg.unavailable_frac = 0.2;
    fixture_start(&f, 3, 0, 40);
    while (f.view.units_failed < 5)
        fixture_step(&f, 40);
    int ready = f.view.units_ready;
    fixture_step(&f, 40 - 3);
    assert_int_equal(f.out.units_billed, 37);
    assert_true(f.view.units_ready >= ready - 3); /* at most new failures of this very step */
    int failed_slots = 0;
    for (int s = 0; s < 40; s++)
        failed_slots += capsim_slot_down(&f.world, 3, s, f.lane->step);
    assert_int_equal(f.view.units_failed, failed_slots - 3);
    fixture_fini(&f);
}

TEST(start_times_have_the_stated_distribution)
{
    struct fixture f;
    fixture_init(&f, 8, 10, 10);
    f.cfg.start_min_s = 120;
    f.cfg.start_max_s = 180;
    fixture_start(&f, 1, 0, 1);
    enum { N = 40000 };
    double sum = 0;
    int lo = 100, hi = 0;
    for (int i = 0; i < N; i++) {
        int d = capsim_start_steps(&f.world, 5, i % 64, i / 64);
        sum += d;
        lo = d < lo ? d : lo;
        hi = d > hi ? d : hi;
    }
    assert_near(sum / N * 15, 150, 0.5, 0);
    assert_int_equal(lo, 8);
    assert_int_equal(hi, 12);
    assert_int_equal(capsim_start_steps_min(&f.world), 8);
    f.cfg.start = CAPSIM_START_LOGNORMAL;
    f.cfg.start_max_s = 300;
    fixture_start(&f, 1, 0, 1);
    int under = 0, over = 0;
    for (int i = 0; i < N; i++) {
        int d = capsim_start_steps(&f.world, 5, i % 64, i / 64);
        under += d < 8;
        over += d > 20;
    }
    assert_near(under / (double)N, 0.05, 0.02, 0); /* rounding to steps moves the tails a little */
    assert_near(over / (double)N, 0.05, 0.02, 0);
    fixture_fini(&f);
}

/* ---- queue ------------------------------------------------------------------------------- */

TEST(below_capacity_everything_is_served_at_the_table_latency)
{
    struct fixture f;
    fixture_init(&f, 8, 10, 50);
    fixture_start(&f, 1, 0, 4);
    fixture_step(&f, 4);
    assert_near(f.out.arrivals, 750, 1e-3, 0);
    assert_near(f.out.served, 750, 1e-3, 0);
    assert_near(f.out.p99_ms, latency_at(f.latency.p99_ms, &f.latency, 4, 50), 1e-3, 0);
    assert_near(f.out.p50_ms, latency_at(f.latency.p50_ms, &f.latency, 4, 50), 1e-3, 0);
    assert_true(f.out.backlog == 0 && f.out.dropped == 0 && !f.out.miss);
    assert_true(f.out.miss_requests_frac < 0.01f);
    fixture_fini(&f);
}

TEST(what_exceeds_capacity_waits_and_what_waits_too_long_is_dropped)
{
    struct fixture f;
    fixture_init(&f, 8, 20, 150); /* 4 units serve 100/s */
    fixture_start(&f, 1, 0, 4);
    fixture_step(&f, 4);
    assert_near(f.out.served, 1500, 1e-2, 0);
    assert_near(f.out.backlog, 750, 1e-2, 0);
    assert_true(f.out.miss);
    /* p99: the last arrival waits 750 / 100 per s on top of the full table */
    assert_near(f.out.p99_ms, 7500 + f.latency.p99_ms[4 * (LATENCY_BINS + 1) + LATENCY_BINS], 1, 0);
    for (int k = 0; k < 10; k++)
        fixture_step(&f, 4);
    /* nobody waits over 30 s: the queue is 30 s of arrivals at most, the rest was dropped */
    assert_near(f.out.backlog, 30 * 150, 1, 0);
    assert_near(f.out.dropped, 750, 1, 0);
    assert_near(f.out.miss_requests_frac, 1, 1e-3, 0);
    fixture_fini(&f);
}

TEST(requests_are_conserved_in_every_step)
{
    struct fixture f;
    fixture_init(&f, 64, 4000, 500);
    struct rng r = rng_stream(test_seed(), "actions");
    f.cfg.noise_frac = 0.2;
    f.cfg.unavailable_frac = 0.05;
    f.cfg.timeout_s = 40;
    fixture_start(&f, 9, 0, 10);
    int drops = 0, units = 10;
    for (int k = 0; k < 4000; k++) {
        double before = (double)f.lane->backlog;
        units = k % 25 ? units : (int)rng_below(&r, 40);
        fixture_step(&f, units);
        double in = before + (double)f.out.arrivals;
        assert_near((double)f.out.served + (double)f.out.dropped + (double)f.out.backlog, in, 1e-3,
                    1e-5);
        assert_true(f.out.served >= 0 && f.out.dropped >= 0 && f.out.backlog >= 0);
        drops += f.out.dropped > 0;
    }
    assert_true(drops > 100 && drops < 3900);
    fixture_fini(&f);
}

TEST(zero_units_with_traffic_serve_nothing_and_fill_the_queue_to_its_cap)
{
    struct fixture f;
    fixture_init(&f, 8, 20, 100);
    f.cfg.timeout_s = 37.5;
    fixture_start(&f, 1, 0, 0);
    for (int k = 0; k < 10; k++) {
        fixture_step(&f, 0);
        assert_true(f.out.served == 0 && f.out.miss && f.out.cost_usd == 0);
        assert_true(f.out.miss_requests_frac == 1);
        assert_near(f.out.p99_ms, 37500, 1e-2, 0);
    }
    assert_near(f.out.backlog, 3750, 0.1, 0);
    assert_true(f.view.value[FIELD_GPU_UTIL] == 0);
    fixture_fini(&f);
}

TEST(zero_traffic_shows_the_unloaded_latency_for_any_size)
{
    struct fixture f;
    fixture_init(&f, 8, 20, 0);
    for (int units = 0; units <= 8; units += 4) {
        fixture_start(&f, 1, 0, units);
        fixture_step(&f, units);
        assert_near(f.out.p99_ms, 40 * log(100), 0.01, 0);
        assert_true(!f.out.miss && f.out.miss_requests_frac <= 0.01f);
        assert_true(isfinite(f.view.value[FIELD_GPU_UTIL]));
    }
    fixture_fini(&f);
}

TEST(the_fraction_of_slow_requests_follows_the_tail)
{
    struct fixture f;
    fixture_init(&f, 8, 20, 20); /* one unit at 80 %: M/M/1, P(T > t) = exp(-0.2 t/40 ms) */
    fixture_start(&f, 1, 0, 1);
    fixture_step(&f, 1);
    assert_near(f.out.miss_requests_frac, exp(-0.2 * 400 / 40), 0, 0.03);
    assert_true(f.out.miss);
    fixture_fini(&f);
}

/* ---- view ------------------------------------------------------------------------------- */

TEST(the_view_is_the_mean_of_the_last_minute_and_the_newest_step_apart)
{
    struct fixture f;
    fixture_init(&f, 8, 20, 0);
    for (int k = 0; k < 20; k++)
        f.demand[k] = (float)(10 * k);
    fixture_start(&f, 1, 10, 8);
    assert_near(f.view.value[FIELD_QPS], (60 + 70 + 80 + 90) / 4.0, 1e-3, 0);
    assert_near(f.view.qps_last, 90, 1e-3, 0);
    assert_int_equal(f.view.now_us, 150 * US_PER_S);
    fixture_step(&f, 8);
    assert_near(f.view.value[FIELD_QPS], (70 + 80 + 90 + 100) / 4.0, 1e-3, 0);
    assert_near(f.view.qps_last, 100, 1e-3, 0);
    assert_int_equal(f.view.sample_us, 165 * US_PER_S);
    assert_near(f.view.value[FIELD_GPU_UTIL], 0.02 + 0.98 * 85 / 200.0, 1e-3, 0);
    assert_near(f.view.value[FIELD_CPU_UTIL], 0.6 * (0.02 + 0.98 * 85 / 200.0), 1e-3, 0);
    fixture_fini(&f);
}

TEST(foresight_is_the_noise_free_peak_of_the_next_three_minutes)
{
    struct fixture f;
    fixture_init(&f, 8, 1000, 0);
    struct rng r = rng_stream(test_seed(), "demand");
    for (int k = 0; k < 1000; k++)
        f.demand[k] = (float)rng_unit(&r);
    struct err e;
    static const struct calendar utc = {0};
    capsim_trace_fini(&f.trace);
    assert_ok(capsim_trace_init(&f.trace, f.demand, NULL, 1000, 0, f.spec.step_us, &utc, &e), &e);
    for (int k = 0; k < 1000; k++) {
        float want = 0;
        for (int j = k; j <= k + 12 && j < 1000; j++)
            want = fmaxf(want, f.demand[j]);
        assert_true(f.trace.peak_ahead[k] == want);
    }
    f.cfg.noise_frac = 0.2;
    fixture_start(&f, 1, 500, 4);
    assert_true(f.view.foresight_qps == f.trace.peak_ahead[500]);
    fixture_step(&f, 4);
    assert_true(f.view.foresight_qps == f.trace.peak_ahead[501]);
    fixture_fini(&f);
}

TEST(the_calendar_of_the_view_is_that_of_its_instant)
{
    struct fixture f;
    fixture_init(&f, 8, 2000, 10);
    struct err e;
    static const struct calendar utc = {0};
    const int64_t start = 1700000000 * US_PER_S + 40 * US_PER_S; /* not on a slot boundary */
    capsim_trace_fini(&f.trace);
    assert_ok(capsim_trace_init(&f.trace, f.demand, NULL, 2000, start - start % f.spec.step_us,
                                f.spec.step_us, &utc, &e),
              &e);
    static const int32_t from[] = {0, 1, 59, 60, 777};
    for (size_t i = 0; i < ARRAY_LEN(from); i++) {
        fixture_start(&f, 1, from[i], 1);
        for (int k = 0; k < 300; k++) {
            struct calendar_point want = calendar_at(&utc, f.view.now_us);
            assert_int_equal(f.view.when.minute, want.minute);
            assert_int_equal(f.view.when.slot, want.slot);
            assert_int_equal(f.view.when.day, want.day);
            fixture_step(&f, 1);
        }
    }
    fixture_fini(&f);
}

TEST(the_last_step_can_be_run_and_ends_the_trace)
{
    struct fixture f;
    fixture_init(&f, 8, 1, 10);
    fixture_start(&f, 1, 0, 1);
    assert_false(capsim_done(f.lane, &f.trace));
    fixture_step(&f, 1);
    assert_true(capsim_done(f.lane, &f.trace));
    assert_int_equal(f.view.now_us, 15 * US_PER_S);
    fixture_fini(&f);
}

/* ---- faults ------------------------------------------------------------------------------- */

static void add_fault(struct fixture *f, enum capsim_fault_kind kind, int32_t from, int32_t to,
                      float a, float b)
{
    f->cfg.fault[f->cfg.n_faults++] = (struct capsim_fault){kind, from, to, a, b};
}

TEST(starts_during_a_registry_outage_wait_for_its_end)
{
    struct fixture f;
    fixture_init(&f, 8, 1000, 10);
    add_fault(&f, CAPSIM_REGISTRY_DOWN, 100, 340, 0, 0);
    fixture_start(&f, 1, 90, 1);
    fixture_step(&f, 2); /* would be ready at 98, before the outage */
    fixture_step(&f, 2);
    fixture_step(&f, 2);
    fixture_step(&f, 4); /* asked at 93: would be ready at 101, inside */
    while (f.lane->step < 347)
        fixture_step(&f, 5); /* one more asked at 94 */
    assert_int_equal(f.view.units_ready, 2);
    assert_int_equal(f.view.units_warming, 3);
    assert_int_equal(f.view.warm[CAPACITY_WARM_BINS - 1], 3);
    fixture_step(&f, 5); /* 340 + 8 */
    assert_int_equal(f.view.units_ready, 5);
    fixture_fini(&f);
}

TEST(vanished_metrics_are_missing_and_their_time_stands_still)
{
    struct fixture f;
    fixture_init(&f, 8, 1000, 10);
    add_fault(&f, CAPSIM_METRICS_GONE, 20, 30, 0, 0);
    fixture_start(&f, 1, 10, 1);
    for (int k = 10; k < 40; k++) {
        if (k >= 20 && k < 30)
            f.demand[k] = 1000; /* must not leak into the view afterwards */
        fixture_step(&f, 1);
        bool gone = k >= 20 && k < 30;
        assert_int_equal(isnan(f.view.value[FIELD_QPS]), gone);
        assert_int_equal(isnan(f.view.value[FIELD_GPU_MEM_UTIL]), gone);
        assert_int_equal(isnan(f.view.qps_last), gone);
        assert_int_equal(f.view.sample_us, gone ? 20 * 15 * US_PER_S : f.view.now_us);
        assert_int_equal(f.view.units_requested, 1);
        if (k >= 30)
            assert_near(f.view.value[FIELD_QPS], 10, 1e-4, 0);
    }
    fixture_fini(&f);
}

TEST(a_slow_dependency_raises_latency_and_nothing_else)
{
    struct fixture f, g;
    fixture_init(&f, 8, 100, 30);
    fixture_init(&g, 8, 100, 30);
    add_fault(&f, CAPSIM_DEPENDENCY_SLOW, 5, 10, 5, 0);
    fixture_start(&f, 1, 0, 4);
    fixture_start(&g, 1, 0, 4);
    for (int k = 0; k < 20; k++) {
        fixture_step(&f, 4);
        fixture_step(&g, 4);
        bool slow = k >= 5 && k < 10;
        assert_near(f.out.p99_ms, g.out.p99_ms * (slow ? 5 : 1), 1e-3, 0);
        assert_int_equal(f.out.miss, slow);
        assert_true(f.view.value[FIELD_GPU_UTIL] == g.view.value[FIELD_GPU_UTIL]);
    }
    fixture_fini(&f);
    fixture_fini(&g);
}

TEST(fixed_gauges_show_the_stated_values_in_their_window)
{
    struct fixture f;
    fixture_init(&f, 8, 100, 10);
    add_fault(&f, CAPSIM_GAUGES_FIXED, 10, 20, 0.82f, 0.45f);
    fixture_start(&f, 1, 0, 1);
    for (int k = 0; k < 16; k++)
        fixture_step(&f, 1);
    assert_near(f.view.value[FIELD_CPU_UTIL], 0.82, 1e-6, 0);
    assert_near(f.view.value[FIELD_GPU_UTIL], 0.45, 1e-6, 0);
    for (int k = 16; k < 24; k++)
        fixture_step(&f, 1);
    assert_near(f.view.value[FIELD_GPU_UTIL], 0.02 + 0.98 * 0.4, 1e-5, 0);
    fixture_fini(&f);
}

TEST(slots_are_unavailable_for_the_stated_fraction_and_repair_time)
{
    struct fixture f;
    fixture_init(&f, 64, 100, 10);
    f.cfg.unavailable_frac = 0.01;
    fixture_start(&f, 1, 0, 1);
    long down = 0, n = 0;
    int starts = 0;
    for (int slot = 0; slot < 64; slot++)
        for (int32_t k = 0; k < 50000; k++, n++) {
            bool now = capsim_slot_down(&f.world, 7, slot, k);
            down += now;
            starts += now && k && !capsim_slot_down(&f.world, 7, slot, k - 1);
        }
    assert_near((double)down / (double)n, 0.01, 0.0015, 0);
    assert_near((double)down / starts, 40 / 0.99, 0.5, 0); /* 10 min, sometimes twice in a row */
    fixture_fini(&f);
}

/* ---- noise ------------------------------------------------------------------------------- */

TEST(noise_is_bounded_centred_and_correlated_as_stated)
{
    struct fixture f;
    enum { N = 400000 };
    fixture_init(&f, 8, 100, 10);
    float *x = mem_zero(N, sizeof *x);
    static const struct {
        double share, lag40; /* autocorrelation after 10 min */
    } row[] = {{0, 0}, {0.5, 0.5 * 0.368}, {1, 0.368}};
    for (size_t i = 0; i < ARRAY_LEN(row); i++) {
        f.cfg.noise_frac = 0.2;
        f.cfg.noise_correlated_share = row[i].share;
        fixture_start(&f, 1, 0, 1);
        capsim_noise_fill(&f.world, 11, 0, N, x);
        double sum = 0, var = 0, cov = 0, largest = 0;
        for (int k = 0; k < N; k++) {
            double d = (double)x[k] - 1;
            sum += d;
            var += d * d;
            largest = fmax(largest, fabs(d));
            cov += k >= 40 ? d * ((double)x[k - 40] - 1) : 0;
        }
        double a = 0.2 * row[i].share, b = 0.2 - a;
        assert_near(sum / N, 0, 0.003, 0);
        assert_near(var / N, (a * a + b * b) / 3, 0, 0.05);
        assert_near(cov / var, row[i].lag40, 0.03, 0);
        assert_true(largest <= 0.2 + 1e-6 && largest > 0.17);
    }
    mem_free(x);
    fixture_fini(&f);
}

TEST(a_lane_started_in_the_middle_meets_the_same_noise_bit_for_bit)
{
    struct fixture f;
    enum { N = 3000 };
    fixture_init(&f, 8, N, 10);
    f.cfg.noise_frac = 0.2;
    fixture_start(&f, 1, 0, 1);
    float whole[N], part[1];
    capsim_noise_fill(&f.world, 3, 0, N, whole);
    for (int32_t k = 0; k < N; k += 13) {
        capsim_noise_fill(&f.world, 3, k, 1, part);
        assert_true(part[0] == whole[k]);
    }
    capsim_reset(f.lane, &f.world, &f.trace, 3, 1000, 1, &f.view);
    for (int k = 1000; k < 1600; k++) {
        fixture_step(&f, 1);
        assert_true(f.out.arrivals == 10 * whole[k] * 15);
    }
    fixture_fini(&f);
}

/* ---- determinism ------------------------------------------------------------------------------ */

static uint64_t run_hash(struct fixture *f, uint64_t seed, uint64_t action_seed)
{
    struct rng r = rng_stream(action_seed, "actions");
    struct hash h = hash_init(0);
    fixture_start(f, seed, 0, 5);
    while (!capsim_done(f->lane, &f->trace)) {
        int units = f->view.units_requested + (int)rng_below(&r, 7) - 3;
        fixture_step(f, units < 1 ? 1 : units > f->spec.units_max ? f->spec.units_max : units);
        hash_f64(&h, (double)f->out.p99_ms);
        hash_f64(&h, (double)f->out.served);
    }
    hash_u64(&h, capsim_hash(f->lane, &f->world));
    return hash_value(&h);
}

TEST(the_same_seed_and_actions_give_the_same_bits)
{
    struct fixture f;
    fixture_init(&f, 64, 5760, 300);
    f.cfg = capsim_cfg_default();
    uint64_t a = run_hash(&f, 1, 1);
    assert_true(run_hash(&f, 1, 1) == a);
    assert_true(run_hash(&f, 2, 1) != a);
    assert_true(run_hash(&f, 1, 2) != a);
    fixture_fini(&f);
}

TEST(a_copied_lane_continues_to_the_same_bits)
{
    struct fixture f;
    static const int sizes[] = {10, 64, 65, 300};
    for (size_t i = 0; i < ARRAY_LEN(sizes); i++) {
        fixture_init(&f, sizes[i], 600, 100);
        f.cfg = capsim_cfg_default();
        fixture_start(&f, 1, 0, 5);
        for (int k = 0; k < 300; k++)
            fixture_step(&f, 3 + k % (sizes[i] - 3));
        struct capsim *copy = try_zero_aligned(1, capsim_bytes(&f.world));
        capsim_copy(copy, f.lane, &f.world);
        struct capsim_out a, b;
        struct capacity_view va, vb;
        memset(&va, 0, sizeof va);
        memset(&vb, 0, sizeof vb);
        for (int k = 0; k < 300; k++) {
            int units = 3 + k * 7 % (sizes[i] - 3);
            capsim_step(f.lane, &f.world, &f.trace, units, &va, &a);
            capsim_step(copy, &f.world, &f.trace, units, &vb, &b);
            assert_true(a.p99_ms == b.p99_ms && a.units_billed == b.units_billed);
        }
        assert_memory_equal(&va, &vb, sizeof va);
        assert_true(capsim_hash(f.lane, &f.world) == capsim_hash(copy, &f.world));
        mem_free(copy);
        fixture_fini(&f);
    }
}

/* ---- bad input ------------------------------------------------------------------------------- */

TEST(bad_worlds_are_refused_by_name)
{
    struct fixture f;
    fixture_init(&f, 8, 10, 10);
    struct capacity_spec spec = f.spec;
    struct capsim_cfg cfg = f.cfg;
    struct err e;
    static const struct {
        size_t at;
        double v;
        const char *name;
    } row[] = {
        {offsetof(struct capsim_cfg, start_min_s), -1, "start_min_s"},
        {offsetof(struct capsim_cfg, start_max_s), 1, "start_max_s"},
        {offsetof(struct capsim_cfg, unavailable_frac), 0.6, "unavailable_frac"},
        {offsetof(struct capsim_cfg, unavailable_frac), NAN, "unavailable_frac"},
        {offsetof(struct capsim_cfg, repair_s), 1, "repair_s"},
        {offsetof(struct capsim_cfg, repair_s), 1e9, "repair_s"},
        {offsetof(struct capsim_cfg, noise_frac), 1.5, "noise_frac"},
        {offsetof(struct capsim_cfg, noise_correlated_share), -0.1, "noise_correlated_share"},
        {offsetof(struct capsim_cfg, noise_correlation_s), INFINITY, "noise_correlation_s"},
        {offsetof(struct capsim_cfg, timeout_s), 0, "timeout_s"},
        {offsetof(struct capsim_cfg, timeout_s), 1000, "timeout_s"},
        {offsetof(struct capsim_cfg, gpu_idle_frac), 1, "gpu_idle_frac"},
    };
    for (size_t i = 0; i < ARRAY_LEN(row); i++) {
        cfg = f.cfg;
        memcpy((char *)&cfg + row[i].at, &row[i].v, sizeof(double));
        assert_err(capsim_world_init(&f.world, &spec, &cfg, &e), ERR_RANGE, &e, row[i].name);
    }
    cfg = f.cfg;
    cfg.n_faults = CAPSIM_FAULTS_MAX + 1;
    assert_err(capsim_world_init(&f.world, &spec, &cfg, &e), ERR_RANGE, &e, "n_faults");
    cfg.n_faults = 1;
    cfg.fault[0] = (struct capsim_fault){CAPSIM_DEPENDENCY_SLOW, 5, 4, 2, 0};
    assert_err(capsim_world_init(&f.world, &spec, &cfg, &e), ERR_RANGE, &e, "not a window");
    cfg.fault[0] = (struct capsim_fault){CAPSIM_DEPENDENCY_SLOW, 4, 5, 0, 0};
    assert_err(capsim_world_init(&f.world, &spec, &cfg, &e), ERR_RANGE, &e, "latency factor");
    spec.units_max = 9;
    assert_err(capsim_world_init(&f.world, &spec, &f.cfg, &e), ERR_INVAL, &e, "no table");
    spec.units_max = 0;
    assert_err(capsim_world_init(&f.world, &spec, &f.cfg, &e), ERR_RANGE, &e, "units_max");
    spec = f.spec;
    spec.step_us = 7 * US_PER_S;
    assert_err(capsim_world_init(&f.world, &spec, &f.cfg, &e), ERR_RANGE, &e, "step");
    fixture_fini(&f);
}

TEST(bad_traces_are_refused_with_the_step)
{
    struct err e;
    struct capsim_trace t;
    static const struct calendar utc = {0};
    static const float bad[][3] = {{1, NAN, 1}, {1, -1, 1}, {1, INFINITY, 1}, {1, 1e30f, 1}};
    for (size_t i = 0; i < ARRAY_LEN(bad); i++)
        assert_err(capsim_trace_init(&t, bad[i], NULL, 3, 0, 15 * US_PER_S, &utc, &e), ERR_INVAL,
                   &e, "step 1");
    assert_err(capsim_trace_init(&t, bad[0], NULL, 0, 0, 15 * US_PER_S, &utc, &e), ERR_INVAL, &e,
               "no samples");
    assert_err(capsim_trace_init(&t, bad[0], NULL, 4000000, 0, 15 * US_PER_S, &utc, &e), ERR_LIMIT,
               &e, "4000000");
    assert_err(capsim_trace_init(&t, bad[0], NULL, 1, 0, 7, &utc, &e), ERR_INVAL, &e,
               "not supported");
}
