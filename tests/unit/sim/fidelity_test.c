/* fidelity_test.c - how far the 15-s fluid simulator is from the request-level one.
 *
 * Both serve the same realised load with the same ready units per step.  The numbers it prints with
 * FIDELITY=1 are those of docs/sim.md. */
#include "model/history.h"
#include "sim/generate.h"
#include "sim/requests.h"
#include "tests/unit/sim/capsim_fixture.h"

enum { SLOTS = 2, UNITS_MAX = 40, STEPS = 480 }; /* 2 h */

static double ramp(double minute)
{
    return fmod(minute, 80) < 40 ? 4 + fmod(minute, 80) / 4 : 14 - (fmod(minute, 80) - 40) / 4;
}

static double bursts(double minute)
{
    return fmod(minute, 30) < 4 ? 12 : 6;
}

static double even(double minute)
{
    (void)minute;
    return 8;
}

struct fidelity {
    double miss[2], requests[2],
        dropped[2];        /* fluid, by request: of steps, of requests, of requests */
    double calm_p99_ratio; /* median of fluid / by request where both are within the target */
    double agree;          /* steps with the same verdict */
};

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Sizes follow the load of five minutes ago at the given use: late on the way up, as policies. */
static struct fidelity compare(double (*load)(double), double use, uint64_t seed)
{
    struct fixture f;
    fixture_init(&f, UNITS_MAX, STEPS, 0);
    latency_fini(&f.latency);
    struct err e;
    assert_ok(latency_from_erlang(40, SLOTS, UNITS_MAX, 200, &f.latency, &e), &e);
    f.spec.slo_p99_ms = 200;
    f.cfg = capsim_cfg_default();
    for (int k = 0; k < STEPS; k++)
        f.demand[k] = (float)(load(k / 4.0) * f.latency.unit_qps);
    fixture_start(&f, seed, 0, (int)ceil(load(0) / use));
    static float qps[STEPS];
    static int32_t ready[STEPS];
    static struct capsim_out out[STEPS];
    static struct requests_step step[STEPS];
    struct requests_totals totals;
    for (int k = 0; k < STEPS; k++) {
        ready[k] = f.view.units_ready;
        fixture_step(&f, (int)ceil(load((k > 20 ? k - 20 : 0) / 4.0) / use));
        ready[k] = f.out.units_billed < ready[k] ? f.out.units_billed : ready[k];
        out[k] = f.out;
        qps[k] = f.out.arrivals / 15;
    }
    struct requests_cfg c = {.service_ms = 40,
                             .slots = SLOTS,
                             .units_max = UNITS_MAX,
                             .step_us = 15 * US_PER_S,
                             .timeout_s = 30,
                             .slo_ms = 200};
    assert_ok(requests_run(&c, qps, ready, STEPS, seed, step, &totals, &e), &e);
    struct fidelity r = {0};
    double n = 0, ratio[STEPS];
    int calm = 0;
    for (int k = 0; k < STEPS; k++) {
        bool miss = step[k].p99_ms > 200;
        r.miss[0] += out[k].miss / (double)STEPS;
        r.miss[1] += miss / (double)STEPS;
        r.agree += (out[k].miss == miss) / (double)STEPS;
        r.requests[0] += (double)(out[k].miss_requests_frac * out[k].arrivals);
        r.requests[1] += (double)step[k].over_frac * (double)step[k].arrivals;
        r.dropped[0] += (double)out[k].dropped;
        r.dropped[1] += (double)step[k].dropped;
        n += (double)step[k].arrivals;
        if (!out[k].miss && !miss)
            ratio[calm++] = (double)(out[k].p99_ms / step[k].p99_ms);
    }
    qsort(ratio, (size_t)calm, sizeof ratio[0], by_value);
    r.calm_p99_ratio = calm ? ratio[calm / 2] : NAN;
    for (int i = 0; i < 2; i++) {
        r.requests[i] /= n;
        r.dropped[i] /= n;
    }
    fixture_fini(&f);
    return r;
}

TEST(fluid_and_request_level_simulators_agree_on_misses_in_ramps_and_bursts)
{
    static const struct {
        const char *name;
        double (*load)(double);
        double use;
    } row[] = {{"even at 70 %", even, 0.70},    {"even at 90 %", even, 0.90},
               {"ramp at 70 %", ramp, 0.70},    {"ramp at 90 %", ramp, 0.90},
               {"bursts at 60 %", bursts, 0.6}, {"bursts at 85 %", bursts, 0.85}};
    for (size_t i = 0; i < ARRAY_LEN(row); i++) {
        struct fidelity r = compare(row[i].load, row[i].use, 20 + i);
        if (getenv("FIDELITY"))
            printf("| %s | %.3f / %.3f | %.4f / %.4f | %.4f / %.4f | %.3f | %.3f |\n", row[i].name,
                   r.miss[0], r.miss[1], r.requests[0], r.requests[1], r.dropped[0], r.dropped[1],
                   r.agree, r.calm_p99_ratio);
        assert_near(r.miss[0], r.miss[1], 0.03, 0.03);
        assert_near(r.requests[0], r.requests[1], 0.01, 0.02);
        assert_near(r.dropped[0], r.dropped[1], 0.002, 0.03);
        assert_true(r.agree > 0.85); /* one step has a few thousand requests: p99 is noisy */
        assert_near(r.calm_p99_ratio, 1, 0.05, 0);
    }
}
