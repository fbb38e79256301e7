/* sim_capacity_test.c - the fast simulator against a slow one written from its description. */
#include "tests/unit/sim/capsim_fixture.h"

/* One slot at a time, in double, with no state but the slots. */
struct slow {
    struct {
        bool requested;
        int asked, ready; /* ready: step from which it is, if nothing failed */
    } slot[CAPACITY_UNITS_LIMIT];
    double backlog, past[CAPSIM_TIMEOUT_STEPS_MAX];
    int step;
};

struct counts {
    int requested, ready, warming, failed;
};

static struct counts slow_count(const struct slow *s, const struct fixture *f, uint64_t seed)
{
    struct counts c = {0};
    for (int i = 0; i < f->spec.units_max; i++) {
        if (!s->slot[i].requested)
            continue;
        c.requested++;
        if (s->slot[i].ready > s->step)
            c.warming++;
        else if (capsim_slot_down(&f->world, seed, i, s->step))
            c.failed++;
        else
            c.ready++;
    }
    return c;
}

/* Rank of a unit to be stopped: warming by newest, then failed, then ready; higher slots first. */
static long stop_rank(const struct slow *s, const struct fixture *f, uint64_t seed, int i)
{
    bool warming = s->slot[i].ready > s->step;
    bool failed = !warming && capsim_slot_down(&f->world, seed, i, s->step);
    return (warming ? 1000000L + s->slot[i].asked : failed ? 1 : 0) * 10000 + i;
}

static void slow_resize(struct slow *s, const struct fixture *f, uint64_t seed, int units)
{
    struct counts c = slow_count(s, f, seed);
    for (int i = 0; c.requested < units && i < f->spec.units_max; i++) {
        if (s->slot[i].requested)
            continue;
        s->slot[i].requested = true;
        s->slot[i].asked = s->step;
        s->slot[i].ready = s->step + capsim_start_steps(&f->world, seed, i, s->step);
        c.requested++;
    }
    for (; c.requested > units; c.requested--) {
        int best = -1;
        for (int i = 0; i < f->spec.units_max; i++)
            if (s->slot[i].requested &&
                (best < 0 || stop_rank(s, f, seed, i) > stop_rank(s, f, seed, best)))
                best = i;
        s->slot[best].requested = false;
    }
}

struct slow_out {
    double served, dropped, p50, p99;
};

static struct slow_out slow_serve(struct slow *s, const struct fixture *f, int ready, double qps)
{
    struct slow_out o = {0};
    double dt = 15, before = s->backlog, capacity = ready * f->latency.unit_qps * dt;
    for (int i = CAPSIM_TIMEOUT_STEPS_MAX - 1; i > 0; i--)
        s->past[i] = s->past[i - 1];
    s->past[0] = qps * dt;
    double offered = before + qps * dt;
    o.served = fmin(offered, capacity);
    double young = 0, left = f->cfg.timeout_s / dt;
    for (int i = 0; i < CAPSIM_TIMEOUT_STEPS_MAX; i++, left -= 1)
        young += s->past[i] * fmax(0, fmin(1, left));
    s->backlog = fmin(offered - o.served, young);
    o.dropped = offered - o.served - s->backlog;
    if (ready == 0) {
        o.p50 = o.p99 = offered > 0 ? f->cfg.timeout_s * 1000 : 40 * log(100);
        return o;
    }
    double w0 = fmin(before / capacity * dt * 1000, f->cfg.timeout_s * 1000);
    double w1 = fmin(s->backlog / capacity * dt * 1000, f->cfg.timeout_s * 1000);
    o.p99 = (double)latency_at(f->latency.p99_ms, &f->latency, ready, (float)(offered / dt)) +
            fmax(w0, w1);
    o.p50 = (double)latency_at(f->latency.p50_ms, &f->latency, ready, (float)(offered / dt)) +
            (w0 + w1) / 2;
    return o;
}

static void compare_runs(int units_max, int32_t n, int jitter, uint64_t seed)
{
    struct fixture f;
    fixture_init(&f, units_max, n, 0);
    struct rng r = rng_stream(seed, "scenario");
    for (int32_t k = 0; k < n; k++)
        f.demand[k] = (float)(units_max * 25 * (0.3 + 0.5 * rng_unit(&r)));
    f.cfg.noise_frac = 0.2;
    f.cfg.unavailable_frac = 0.05;
    f.cfg.repair_s = 15 * (1 + rng_below(&r, 60));
    f.cfg.start_max_s = 240;
    f.cfg.timeout_s = 10 + 100 * rng_unit(&r);
    f.cfg.n_faults = 1;
    f.cfg.fault[0] = (struct capsim_fault){CAPSIM_REGISTRY_DOWN, n / 2, n / 2 + 50, 0, 0};
    int32_t from = (int32_t)rng_below(&r, (uint32_t)n / 3);
    int units = (int)rng_below(&r, (uint32_t)units_max);
    fixture_start(&f, seed, from, units);
    float *noise = mem_zero((size_t)n, sizeof *noise);
    capsim_noise_fill(&f.world, seed, from, n - from, noise + from);
    struct slow *s = mem_zero(1, sizeof *s);
    s->step = from;
    for (int i = 0; i < units; i++)
        s->slot[i].requested = true;
    memcpy(s->past, (double[8]){0}, sizeof s->past);
    for (int i = 1; i <= CAPSIM_TIMEOUT_STEPS_MAX; i++) { /* the arrivals before the start */
        float before[1];
        capsim_noise_fill(&f.world, seed, from - i, 1, before);
        s->past[i - 1] = (double)(f.demand[from >= i ? from - i : 0] * before[0]) * 15;
    }
    for (int32_t k = from; k < n; k++) {
        units += (int)rng_below(&r, (uint32_t)(2 * jitter + 1)) - jitter;
        units = units < 0 ? 0 : units > units_max ? units_max : units;
        if (rng_below(&r, 50) == 0)
            units = (int)rng_below(&r, (uint32_t)units_max + 1);
        slow_resize(s, &f, seed, units);
        int ready = slow_count(s, &f, seed).ready;
        struct slow_out want = slow_serve(s, &f, ready, (double)(f.demand[k] * noise[k]));
        fixture_step(&f, units);
        s->step++;
        struct counts c = slow_count(s, &f, seed);
        assert_int_equal(f.out.units_billed, units);
        assert_int_equal(f.view.units_requested, c.requested);
        assert_int_equal(f.view.units_ready, c.ready);
        assert_int_equal(f.view.units_warming, c.warming);
        assert_int_equal(f.view.units_failed, c.failed);
        assert_int_equal(c.requested, c.ready + c.warming + c.failed);
        int binned = 0;
        for (int b = 0; b < CAPACITY_WARM_BINS; b++)
            binned += f.view.warm[b];
        assert_int_equal(binned, c.warming);
        assert_near(f.out.served, want.served, 0.05, 1e-4);
        assert_near(f.out.backlog, s->backlog, 0.05, 1e-4);
        assert_near(f.out.dropped, want.dropped, 0.1, 1e-3);
        assert_near(f.out.p99_ms, want.p99, 0.5, 2e-3);
        assert_near(f.out.p50_ms, want.p50, 0.5, 2e-3);
    }
    mem_free(s);
    mem_free(noise);
    fixture_fini(&f);
}

TEST(fast_and_slow_capacity_simulators_agree_on_random_runs)
{
    for (uint64_t i = 0; i < 24; i++)
        compare_runs(1 + (int)(i * 11 % 64), 600, 3, test_seed() * 1000 + i);
}

TEST(fast_and_slow_capacity_simulators_agree_beyond_64_units)
{
    static const int sizes[] = {65, 128, 200, 500};
    for (size_t i = 0; i < ARRAY_LEN(sizes); i++)
        compare_runs(sizes[i], 200, 20, test_seed() * 1000 + 100 + i);
}
