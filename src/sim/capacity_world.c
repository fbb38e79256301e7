/* capacity_world.c - set-up of the capacity simulator: checked constants, traces, and its chance as
 * data. */
#include <math.h>
#include <string.h>

#include "base/mem.h"
#include "model/history.h"
#include "model/latency.h"
#include "sim/capacity_priv.h"

#define FORESIGHT_US (3 * US_PER_MIN)
#define SLOT_US (SLOT_MINUTES * US_PER_MIN)
#define AR_BLOCK_LOG 6.4 /* phi^B = e^-6.4 = 1/600 */
#define STEP_MIN_US US_PER_S
#define STEP_MAX_US (5 * US_PER_MIN)
#define START_MAX_S 7200.0

struct capsim_cfg capsim_cfg_default(void)
{
    return (struct capsim_cfg){
        .start = CAPSIM_START_UNIFORM,
        .start_min_s = 120,
        .start_max_s = 180,
        .unavailable_frac = 0.01,
        .repair_s = 600,
        .noise_frac = 0.20,
        .noise_correlated_share = 0.5,
        .noise_correlation_s = 600,
        .timeout_s = 30,
        .gpu_idle_frac = 0.02,
        .cpu_per_gpu = 0.6,
        .gpu_mem_frac = 0.7,
        .mem_frac = 0.5,
    };
}

/* ---- checks
 * --------------------------------------------------------------------------------------- */

static enum err_code check_range(const char *name, double v, double lo, double hi, struct err *e)
{
    if (v >= lo && v <= hi)
        return ERR_OK;
    return err_set(e, ERR_RANGE, "%s: %g is outside %g..%g", name, v, lo, hi);
}

static enum err_code check_spec(const struct capacity_spec *s, struct err *e)
{
    if (s->units_max < 1 || s->units_max > CAPACITY_UNITS_LIMIT)
        return err_set(e, ERR_RANGE, "units_max: %d is outside 1..%d", s->units_max,
                       CAPACITY_UNITS_LIMIT);
    if (s->step_us < STEP_MIN_US || s->step_us > STEP_MAX_US || SLOT_US % s->step_us != 0)
        return err_set(e, ERR_RANGE, "step: %g s is outside 1..300 or does not divide 15 min",
                       (double)s->step_us / US_PER_S);
    if (!s->latency || s->latency->units_max < s->units_max)
        return err_set(e, ERR_INVAL, "latency: no table for %d units", s->units_max);
    enum err_code rc = check_range("slo_p99_ms", s->slo_p99_ms, 1e-3, 1e7, e);
    return rc ? rc : check_range("price_usd_h", s->price_usd_h, 0, 1e6, e);
}

static enum err_code check_cfg(const struct capsim_cfg *c, double dt_s, struct err *e)
{
    const struct {
        const char *name;
        double v, lo, hi;
    } rows[] = {
        {"start_min_s", c->start_min_s, 0, START_MAX_S},
        {"start_max_s", c->start_max_s, c->start_min_s, START_MAX_S},
        {"unavailable_frac", c->unavailable_frac, 0, 0.5},
        {"repair_s", c->repair_s, dt_s, dt_s * CAPSIM_REPAIR_STEPS_MAX},
        {"noise_frac", c->noise_frac, 0, 1},
        {"noise_correlated_share", c->noise_correlated_share, 0, 1},
        {"noise_correlation_s", c->noise_correlation_s, 0, 6 * 3600},
        {"timeout_s", c->timeout_s, 1e-3, dt_s * CAPSIM_TIMEOUT_STEPS_MAX},
        {"gpu_idle_frac", c->gpu_idle_frac, 0, 0.99},
        {"cpu_per_gpu", c->cpu_per_gpu, 0, 100},
        {"gpu_mem_frac", c->gpu_mem_frac, 0, 1},
        {"mem_frac", c->mem_frac, 0, 1},
        {"n_faults", c->n_faults, 0, CAPSIM_FAULTS_MAX},
    };
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        enum err_code rc = check_range(rows[i].name, rows[i].v, rows[i].lo, rows[i].hi, e);
        if (rc)
            return rc;
    }
    if (c->start == CAPSIM_START_LOGNORMAL && c->start_min_s <= 0)
        return err_set(e, ERR_RANGE, "start_min_s: must be positive for a lognormal start time");
    return ERR_OK;
}

static enum err_code check_fault(const struct capsim_fault *f, int i, struct err *e)
{
    if (f->from_step < 0 || f->to_step < f->from_step || f->to_step > CAPSIM_STEPS_MAX)
        return err_set(e, ERR_RANGE, "fault %d: steps %d..%d are not a window", i + 1, f->from_step,
                       f->to_step);
    if (f->kind == CAPSIM_DEPENDENCY_SLOW && !(f->value >= 1 && f->value <= 1000))
        return err_set(e, ERR_RANGE, "fault %d: latency factor %g is outside 1..1000", i + 1,
                       (double)f->value);
    if (f->kind == CAPSIM_GAUGES_FIXED &&
        !(f->value >= 0 && f->value <= 1 && f->value2 >= 0 && f->value2 <= 1))
        return err_set(e, ERR_RANGE, "fault %d: a gauge is outside 0..1", i + 1);
    return ERR_OK;
}

/* ---- derived constants
 * ---------------------------------------------------------------------------- */

/* Inverse of the standard normal distribution by bisection: set-up only. */
static double gauss_quantile(double q)
{
    double lo = -10, hi = 10;
    for (int i = 0; i < 80; i++) {
        double mid = 0.5 * (lo + hi);
        if (0.5 * erfc(-mid * M_SQRT1_2) < q)
            lo = mid;
        else
            hi = mid;
    }
    return 0.5 * (lo + hi);
}

static double start_quantile_s(const struct capsim_cfg *c, double q)
{
    if (c->start == CAPSIM_START_UNIFORM)
        return c->start_min_s + q * (c->start_max_s - c->start_min_s);
    double mid = 0.5 * (log(c->start_min_s) + log(c->start_max_s));
    double sigma = 0.5 * (log(c->start_max_s) - log(c->start_min_s)) / gauss_quantile(0.95);
    return exp(mid + sigma * gauss_quantile(q));
}

/* Rounded to the nearest step, which keeps the mean; never less than one. */
static void fill_start_table(struct capsim_world *w)
{
    for (int i = 0; i < CAPSIM_START_QUANTILES; i++) {
        double q = (i + 0.5) / CAPSIM_START_QUANTILES;
        long steps = lround(start_quantile_s(&w->cfg, q) / (double)w->dt_s);
        w->start_steps[i] = (uint16_t)(steps < 1 ? 1 : steps > UINT16_MAX ? UINT16_MAX : steps);
    }
}

static void fill_noise(struct capsim_world *w)
{
    const struct capsim_cfg *c = &w->cfg;
    double phi = c->noise_correlation_s > 0 ? exp(-(double)w->dt_s / c->noise_correlation_s) : 0;
    int32_t block = (int32_t)ceil(AR_BLOCK_LOG * c->noise_correlation_s / (double)w->dt_s) - 1;
    w->ar_block = (block / CAPSIM_NOISE_RUN + 1) * CAPSIM_NOISE_RUN;
    w->ar_decay = (float)phi;
    w->ar_gain =
        (float)sqrt(3 * (1 - phi * phi)); /* uniform innovations, unit variance in the long run */
    w->ar_block_decay = (float)pow(phi, w->ar_block);
    w->noise_correlated = (float)(c->noise_frac * c->noise_correlated_share);
    w->noise_independent = (float)c->noise_frac - w->noise_correlated;
}

static void fill_failures(struct capsim_world *w)
{
    w->repair_steps = (int32_t)lround(w->cfg.repair_s / (double)w->dt_s);
    w->fail_below = (uint64_t)(w->cfg.unavailable_frac * 0x1p64);
    for (int i = 0; i < CAPSIM_GROUP; i++)
        w->fail_phase[fail_phase_of(i, w->repair_steps)] |= UINT64_C(1) << i;
}

static void fill_service(struct capsim_world *w)
{
    const struct latency_model *m = w->spec.latency;
    w->unit_requests = (float)(m->unit_qps * (double)w->dt_s);
    w->bins_per_rho = (float)(LATENCY_BINS / m->rho_max);
    double steps = w->cfg.timeout_s / (double)w->dt_s;
    w->timeout_ms = (float)(w->cfg.timeout_s * 1000);
    w->slo_ms = (float)w->spec.slo_p99_ms;
    w->gpu_idle = (float)w->cfg.gpu_idle_frac;
    w->cpu_per_gpu = (float)w->cfg.cpu_per_gpu;
    w->gpu_mem = (float)w->cfg.gpu_mem_frac;
    w->mem = (float)w->cfg.mem_frac;
    w->timeout_steps = (int32_t)floor(steps + 1e-9);
    w->timeout_rest = (float)fmax(0, steps - w->timeout_steps);
}

static void sort_faults(struct capsim_cfg *c)
{
    for (int i = 1; i < c->n_faults; i++)
        for (int k = i; k > 0 && c->fault[k].from_step < c->fault[k - 1].from_step; k--) {
            struct capsim_fault t = c->fault[k];
            c->fault[k] = c->fault[k - 1];
            c->fault[k - 1] = t;
        }
}

enum err_code capsim_world_init(struct capsim_world *w, const struct capacity_spec *spec,
                                const struct capsim_cfg *cfg, struct err *e)
{
    memset(w, 0, sizeof *w);
    enum err_code rc = check_spec(spec, e);
    if (!rc)
        rc = check_cfg(cfg, (double)spec->step_us / US_PER_S, e);
    for (int i = 0; !rc && i < cfg->n_faults; i++)
        rc = check_fault(&cfg->fault[i], i, e);
    if (rc)
        return rc;
    w->spec = *spec;
    w->cfg = *cfg;
    w->dt_s = (float)spec->step_us / (float)US_PER_S;
    w->dt_h = w->dt_s / 3600;
    w->step_cost_usd = (float)(spec->price_usd_h * (double)spec->step_us / US_PER_H);
    w->warm_bins_per_step = (float)spec->step_us / (float)CAPACITY_WARM_BIN_US;
    w->minutes_per_step = w->dt_s / 60;
    w->n_groups = (spec->units_max + CAPSIM_GROUP - 1) / CAPSIM_GROUP;
    sort_faults(&w->cfg);
    for (int i = 0; i < w->cfg.n_faults; i++)
        w->n_registry += w->cfg.fault[i].kind == CAPSIM_REGISTRY_DOWN;
    fill_start_table(w);
    fill_noise(w);
    fill_failures(w);
    fill_service(w);
    return ERR_OK;
}

/* ---- trace
 * ---------------------------------------------------------------------------------------- */

/* Sliding maximum over [i, i + span], clipped at the end: both ways within blocks of span + 1
 * (van Herk 1992), three passes whatever the span. */
static void fill_peak_ahead(const float *x, float *out, float *suffix, int32_t n, int32_t span)
{
    int32_t block = span + 1;
    for (int32_t i = n - 1; i >= 0; i--) {
        bool last = i == n - 1 || i % block == block - 1;
        suffix[i] = last ? x[i] : fmaxf(x[i], suffix[i + 1]);
    }
    float prefix = 0; /* largest of the block of j, up to j */
    for (int32_t j = 0, i = -span; i < n; j++, i++) {
        if (j < n)
            prefix = j % block == 0 ? x[j] : fmaxf(prefix, x[j]);
        else if (j % block == 0)
            prefix = 0;
        if (i >= 0)
            out[i] = fmaxf(suffix[i], prefix);
    }
}

static enum err_code check_demand(const float *demand, int64_t n, int64_t step_us, struct err *e)
{
    if (n < 1)
        return err_set(e, ERR_INVAL, "demand: no samples");
    if (n > CAPSIM_STEPS_MAX)
        return err_set(e, ERR_LIMIT, "demand: %lld steps are more than %d", (long long)n,
                       CAPSIM_STEPS_MAX);
    if (step_us < STEP_MIN_US || step_us > STEP_MAX_US || SLOT_US % step_us != 0)
        return err_set(e, ERR_INVAL, "demand: step %lld us is not supported", (long long)step_us);
    for (int64_t i = 0; i < n; i++)
        if (!(demand[i] >= 0 && demand[i] <= 1e12f))
            return err_set(e, ERR_INVAL, "demand: %g at step %lld is not a load", (double)demand[i],
                           (long long)i);
    return ERR_OK;
}

static int64_t floor_mod(int64_t a, int64_t m)
{
    int64_t r = a % m;
    return r < 0 ? r + m : r;
}

enum err_code capsim_trace_init(struct capsim_trace *t, const float *demand, const uint8_t *barred,
                                int64_t n, int64_t start_us, int64_t step_us,
                                const struct calendar *cal, struct err *e)
{
    memset(t, 0, sizeof *t);
    enum err_code rc = check_demand(demand, n, step_us, e);
    if (rc)
        return rc;
    t->demand = demand;
    t->barred = barred;
    t->n = (int32_t)n;
    t->start_us = start_us;
    t->step_us = step_us;
    t->slot_steps = (int32_t)(SLOT_US / step_us);
    t->slot_skew = (int32_t)(floor_mod(start_us, SLOT_US) / step_us);
    t->n_slots = (t->n - 1 + t->slot_skew) / t->slot_steps + 1;
    t->peak_ahead = try_zero((size_t)t->n, sizeof(float));
    t->slot = try_zero((size_t)t->n_slots, sizeof *t->slot);
    float *suffix = try_zero((size_t)t->n, sizeof(float));
    if (!t->peak_ahead || !t->slot || !suffix) {
        mem_free(suffix);
        capsim_trace_fini(t);
        return err_set(e, ERR_NOMEM, "trace of %lld steps", (long long)n);
    }
    int64_t first_us = start_us - floor_mod(start_us, SLOT_US);
    for (int32_t i = 0; i < t->n_slots; i++)
        t->slot[i] = calendar_at(cal, first_us + i * SLOT_US);
    fill_peak_ahead(demand, t->peak_ahead, suffix, t->n, (int32_t)(FORESIGHT_US / step_us));
    mem_free(suffix);
    return ERR_OK;
}

void capsim_trace_fini(struct capsim_trace *t)
{
    mem_free(t->peak_ahead);
    mem_free(t->slot);
    memset(t, 0, sizeof *t);
}

/* ---- chance as data
 * ------------------------------------------------------------------------------- */

void capsim_noise_enter(struct capsim *s, const struct capsim_world *w, int32_t step)
{
    uint32_t target = noise_index(w, step);
    uint32_t block = target / (uint32_t)w->ar_block;
    s->noise_index = (block - 3) * (uint32_t)w->ar_block;
    s->ar_sum = s->ar_carry = 0;
    s->ar_block_sum[0] = s->ar_block_sum[1] = 0;
    s->ar_left = w->ar_block;
    while (s->noise_index < target)
        (void)noise_step(s, w);
}

void capsim_noise_fill(const struct capsim_world *w, uint64_t seed, int32_t first_step, int32_t n,
                       float *factor)
{
    struct capsim s; /* only the noise part is used */
    s.key_noise = rng_key(seed, "noise");
    capsim_noise_enter(&s, w, first_step);
    for (int32_t i = 0; i < n; i++)
        factor[i] = noise_step(&s, w);
}

bool capsim_slot_down(const struct capsim_world *w, uint64_t seed, int slot, int32_t step)
{
    uint32_t block = (uint32_t)(step / w->repair_steps) + 1; /* 0 is the window before the trace */
    bool opened = step % w->repair_steps >= fail_phase_of(slot, w->repair_steps);
    return window_down(w, rng_key(seed, "fail"), slot, opened ? block : block - 1);
}

int32_t capsim_start_steps(const struct capsim_world *w, uint64_t seed, int slot,
                           int32_t asked_step)
{
    return start_steps_at(w, rng_key(seed, "start"), slot, asked_step);
}

int32_t capsim_start_steps_min(const struct capsim_world *w)
{
    return w->start_steps[0];
}
