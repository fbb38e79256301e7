/* sim_fuzz.c - random scenarios and action sequences into the capacity simulator; random columns
 * into calibration.  The first bytes choose, the rest are actions or floats. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "model/history.h"
#include "model/latency.h"
#include "sim/calibrate.h"
#include "sim/capacity.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { HEAD = 16, STEPS_MAX = 400 };

static void check(bool ok)
{
    if (!ok)
        abort();
}

static void check_step(const struct capacity_view *v, const struct capsim_out *o, int units)
{
    int binned = 0;
    for (int b = 0; b < CAPACITY_WARM_BINS; b++)
        binned += v->warm[b];
    check(v->units_requested == units && o->units_billed == units);
    check(v->units_ready >= 0 && v->units_warming >= 0 && v->units_failed >= 0);
    check(v->units_ready + v->units_warming + v->units_failed == units &&
          binned == v->units_warming);
    check(isfinite(o->p50_ms) && isfinite(o->p99_ms) && o->p99_ms > 0 && isfinite(o->backlog));
    check(o->served >= 0 && o->dropped >= 0 && o->backlog >= 0);
    check(o->miss_requests_frac >= 0 && o->miss_requests_frac <= 1);
}

static void run_lane(const struct capsim_world *w, const struct capsim_trace *t, const uint8_t *act,
                     size_t n)
{
    struct capacity_view v = {0};
    struct capsim_out o;
    struct capsim *s = try_zero_aligned(1, capsim_bytes(w));
    check(s);
    capsim_reset(s, w, t, act[0], act[0] % t->n, act[1] % (w->spec.units_max + 1), &v);
    for (size_t i = 0; i < n && !capsim_done(s, t); i++) {
        int units =
            act[i] < 128 ? v.units_requested + act[i] % 7 - 3 : act[i] * w->spec.units_max / 255;
        units = units < 0 ? 0 : units > w->spec.units_max ? w->spec.units_max : units;
        capsim_step(s, w, t, units, &v, &o);
        check_step(&v, &o, units);
    }
    mem_free(s);
}

/* Built once: it does not depend on the input, and the sanitizers make it slow. */
static const struct latency_model *shared_latency(void)
{
    static struct latency_model m;
    if (!m.p99_ms)
        check(!latency_from_erlang(40, 1, 556, 200, &m, NULL));
    return &m;
}

static void fuzz_capacity(const uint8_t *d, size_t n)
{
    struct capsim_world *w = mem_zero(1, sizeof *w);
    struct capsim_trace t;
    struct capsim_cfg c = capsim_cfg_default();
    int units_max = 1 + d[0] + (d[1] & 3) * 100;
    struct capacity_spec spec = {.units_max = units_max,
                                 .price_usd_h = d[2],
                                 .slo_p99_ms = 1 + d[3] * 4,
                                 .step_us = (d[4] & 1 ? 15 : 60) * US_PER_S};
    c.unavailable_frac = d[5] / 600.0;
    c.repair_s = 60 + d[6] * 10;
    c.noise_frac = d[7] / 250.0; /* above 1 is refused */
    c.noise_correlation_s = d[8] * 10;
    c.timeout_s = 1 + d[9] / 3.0;
    c.start = d[10] & 1 ? CAPSIM_START_LOGNORMAL : CAPSIM_START_UNIFORM;
    c.start_max_s = d[10] * 4;
    c.n_faults = d[11] % 5;
    for (int i = 0; i < c.n_faults; i++)
        c.fault[i] = (struct capsim_fault){(enum capsim_fault_kind)i, d[12] + i, d[13] + 10 * i, 1,
                                           d[14] / 255.0f};
    static float demand[STEPS_MAX];
    for (int k = 0; k < STEPS_MAX; k++)
        demand[k] = (float)(d[(size_t)k % n] * (d[15] + 1));
    static const struct calendar utc = {0};
    spec.latency = shared_latency();
    if (!capsim_world_init(w, &spec, &c, NULL)) {
        check(!capsim_trace_init(&t, demand, NULL, STEPS_MAX, d[0] * US_PER_MIN, spec.step_us, &utc,
                                 NULL));
        run_lane(w, &t, d + HEAD, n - HEAD);
        capsim_trace_fini(&t);
    }
    mem_free(w);
}

static void fuzz_calibrate(const uint8_t *d, size_t n)
{
    struct calibration c;
    size_t rows = n / (4 * sizeof(float));
    float *x = try_zero(rows * 4 + 1, sizeof *x);
    check(x);
    memcpy(x, d, rows * 4 * sizeof(float));
    struct calibrate_history h = {.qps = x,
                                  .units_ready = x + rows,
                                  .p99_ms = x + 2 * rows,
                                  .gpu_util = x + 3 * rows,
                                  .n = (int64_t)rows,
                                  .step_us = 15 * US_PER_S,
                                  .slo_ms = 200};
    if (!calibrate_from_history(&h, &c, NULL))
        check(c.unit_qps > 0 && c.load_at_slo >= 0 && c.n >= CALIBRATE_POINTS_MIN);
    struct latency_point p[64];
    size_t points = n / sizeof p[0] < 64 ? n / sizeof p[0] : 64;
    memcpy(p, d, points * sizeof p[0]);
    if (!calibrate_load_test(p, (int)points, 200, &c, NULL))
        check(c.unit_qps > 0);
    mem_free(x);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < HEAD + 4 || size > 65536)
        return 0;
    if (data[0] == 255)
        fuzz_calibrate(data + 1, size - 1);
    else
        fuzz_capacity(data, size);
    return 0;
}
