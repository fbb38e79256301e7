/* capacity.c - one step of the capacity simulator: units, queue, gauges, view.
 *
 * The step is written once with the number of 64-slot groups as a parameter and compiled twice: for
 * one group (constant 1, everything in registers) and for any.  Within a step slots are visited
 * only where a bit says so.  Formulas: docs/sim.md. */
#include "sim/capacity.h"

#include <assert.h>
#include <math.h>
#include <string.h>

#include "base/hash.h"
#include "model/history.h"
#include "model/latency.h"
#include "sim/capacity_priv.h"

#define INLINE static inline __attribute__((always_inline))

/* One instruction each; fminf() is a call because of its rules for NaN. */
INLINE float min_f(float a, float b)
{
    return a < b ? a : b;
}

INLINE float max_f(float a, float b)
{
    return a > b ? a : b;
}

/* ---- units
 * ---------------------------------------------------------------------------------------- */

INLINE int popcount(uint64_t x)
{
    return __builtin_popcountll(x);
}

INLINE uint64_t valid_slots(const struct capsim_world *w, int group)
{
    int left = w->spec.units_max - group * CAPSIM_GROUP;
    return left >= CAPSIM_GROUP ? ~UINT64_C(0) : (UINT64_C(1) << left) - 1;
}

/* Take up to *n highest slots of `from` out of the group. */
INLINE void stop_highest(struct capsim_group *g, uint64_t from, int *n)
{
    while (*n > 0 && from) {
        uint64_t bit = UINT64_C(1) << (63 - __builtin_clzll(from));
        from ^= bit;
        g->requested ^= bit;
        g->warming &= ~bit;
        --*n;
    }
}

/* Warming slots of the group that were asked for at the latest step seen so far (*newest, raised).
 */
INLINE uint64_t newest_warming(const struct capsim_group *g, uint32_t *newest)
{
    uint64_t cohort = 0;
    for (uint64_t m = g->warming; m; m &= m - 1) {
        int i = __builtin_ctzll(m);
        if (g->asked_step[i] > *newest || (g->asked_step[i] == *newest && !cohort)) {
            *newest = g->asked_step[i];
            cohort = 0;
        }
        if (g->asked_step[i] == *newest)
            cohort |= UINT64_C(1) << i;
    }
    return cohort;
}

INLINE void scale_in(struct capsim *s, int n_groups, int n)
{
    while (n > 0) {
        uint32_t newest = 0;
        int at = -1;
        for (int k = n_groups - 1; k >= 0; k--) {
            uint32_t seen = newest;
            if (newest_warming(&s->group[k], &newest) && (at < 0 || newest > seen))
                at = k;
        }
        if (at < 0)
            break;
        newest = 0;
        stop_highest(&s->group[at], newest_warming(&s->group[at], &newest), &n);
    }
    for (int k = n_groups - 1; k >= 0 && n > 0; k--)
        stop_highest(&s->group[k], s->group[k].requested & s->group[k].down, &n);
    for (int k = n_groups - 1; k >= 0 && n > 0; k--)
        stop_highest(&s->group[k], s->group[k].requested, &n);
}

INLINE void scale_out(struct capsim *s, const struct capsim_world *w, int n_groups, int n)
{
    for (int k = 0; k < n_groups && n > 0; k++) {
        struct capsim_group *g = &s->group[k];
        uint64_t slots = ~g->requested & valid_slots(w, k);
        for (; slots && n > 0; slots &= slots - 1, n--) {
            int i = __builtin_ctzll(slots);
            int32_t start = start_steps_at(w, s->key_start, k * CAPSIM_GROUP + i, s->step);
            g->requested |= UINT64_C(1) << i;
            g->warming |= UINT64_C(1) << i;
            g->asked_step[i] = (uint32_t)s->step;
            g->ready_step[i] = (uint32_t)(s->step + start);
        }
    }
}

INLINE void count_units(struct capsim *s, int n_groups)
{
    int requested = 0, warming = 0, failed = 0;
    for (int k = 0; k < n_groups; k++) {
        const struct capsim_group *g = &s->group[k];
        requested += popcount(g->requested);
        warming += popcount(g->warming);
        failed += popcount(g->requested & ~g->warming & g->down);
    }
    s->units_requested = requested;
    s->units_warming = warming;
    s->units_failed = failed;
    s->units_ready = requested - warming - failed;
}

INLINE void apply_size(struct capsim *s, const struct capsim_world *w, int n_groups, int units)
{
    if (units == s->units_requested)
        return;
    if (units > s->units_requested)
        scale_out(s, w, n_groups, units - s->units_requested);
    else
        scale_in(s, n_groups, s->units_requested - units);
    count_units(s, n_groups);
}

/* Slots fail or are repaired as their windows open. */
INLINE void turn_failures(struct capsim *s, const struct capsim_world *w, int n_groups)
{
    if (++s->fail_phase == w->repair_steps) {
        s->fail_phase = 0;
        uint32_t block = (uint32_t)(s->step / w->repair_steps) + 1;
        for (int k = 0; k < n_groups; k++)
            s->group[k].down_next = group_windows(w, s->key_fail, k, block);
    }
    uint64_t opens = w->fail_phase[s->fail_phase];
    for (int k = 0; k < n_groups; k++)
        s->group[k].down = (s->group[k].down & ~opens) | (s->group[k].down_next & opens);
}

/* Units whose time has come are ready; the others are put in the view's bins by age. */
INLINE void turn_warming(struct capsim *s, const struct capsim_world *w, int n_groups,
                         struct capacity_view *v)
{
    uint32_t now = (uint32_t)s->step, oldest = now;
    memset(v->warm, 0, sizeof v->warm);
    for (int k = 0; k < n_groups; k++) {
        struct capsim_group *g = &s->group[k];
        for (uint64_t m = g->warming; m; m &= m - 1) {
            int i = __builtin_ctzll(m);
            if (g->ready_step[i] <= now) {
                g->warming ^= m & -m;
                continue;
            }
            uint32_t asked = g->asked_step[i];
            int bin = (int)((float)(now - asked) * w->warm_bins_per_step + 1e-3f);
            v->warm[bin < CAPACITY_WARM_BINS ? bin : CAPACITY_WARM_BINS - 1]++;
            oldest = asked < oldest ? asked : oldest;
        }
    }
    v->warm_oldest_us = (int64_t)(now - oldest) * w->spec.step_us;
}

/* ---- service
 * -------------------------------------------------------------------------------------- */

/* 2^y for y in [-126, 127], relative error 1e-4: cubic on the fraction, exponent by bits. */
INLINE float exp2_fast(float y)
{
    float whole = floorf(y), f = y - whole;
    float p = 1 + f * (0.695976f + f * (0.226171f + f * 0.077853f));
    uint32_t bits;
    memcpy(&bits, &p, sizeof bits);
    bits += (uint32_t)(int32_t)whole << 23;
    memcpy(&p, &bits, sizeof p);
    return p;
}

/* P(response > limit) of the exponential tail through (p50, 0.5) and (p99, 0.01). */
INLINE float tail_over(float p50, float p99, float limit)
{
    const float log2_50 = 5.643856f;
    float y = (p50 - limit) * log2_50 / (p99 - p50 + 1e-6f) - 1;
    return y >= 0 ? 1 : y < -30 ? 0 : exp2_fast(y);
}

struct service {
    float qps, arrivals, served, dropped;
    float use;            /* of the ready units, 0..1 */
    float p50, p99, over; /* over: fraction of the arrivals over the target */
};

/* Latencies of a step in which somebody waits: `before` and s->backlog are the queue at its two
 * ends. */
INLINE void add_waiting(const struct capsim *s, const struct capsim_world *w, float before,
                        float capacity, struct service *r)
{
    float slo = w->slo_ms, worst = w->timeout_ms;
    float ms_per_request = w->dt_s * 1000 / capacity;
    float w0 = min_f(before * ms_per_request, worst),
          w1 = min_f(s->backlog * ms_per_request, worst);
    float over = tail_over(r->p50, r->p99, slo - w0) + tail_over(r->p50, r->p99, slo - w1) +
                 4 * tail_over(r->p50, r->p99, slo - 0.5f * (w0 + w1));
    r->over = over * (1.0f / 6); /* Simpson over the step */
    r->p50 += 0.5f * (w0 + w1);
    r->p99 += max_f(w0, w1);
}

/* Requests older than the time-out leave: what remains arrived within it (first in, first out). */
INLINE float drop_old(struct capsim *s, const struct capsim_world *w)
{
    enum { MASK = CAPSIM_TIMEOUT_STEPS_MAX - 1 };
    float young = 0;
    for (int i = 0; i < w->timeout_steps; i++)
        young += s->past_arrivals[(s->step - i) & MASK];
    if (w->timeout_rest > 0)
        young += w->timeout_rest * s->past_arrivals[(s->step - w->timeout_steps) & MASK];
    float dropped = max_f(s->backlog - young, 0);
    s->backlog -= dropped;
    return dropped;
}

INLINE void read_latency(const struct latency_model *m, const struct capsim_world *w, int units,
                         float rho, struct service *r)
{
    long row = (long)units * (LATENCY_BINS + 1);
    float x = rho * w->bins_per_rho;
    x = x < (float)LATENCY_BINS ? x : (float)LATENCY_BINS;
    int i = (int)x;
    i = i < LATENCY_BINS ? i : LATENCY_BINS - 1;
    float f = x - (float)i;
    const float *p50 = m->p50_ms + row + i, *p99 = m->p99_ms + row + i;
    r->p50 = p50[0] + f * (p50[1] - p50[0]);
    r->p99 = p99[0] + f * (p99[1] - p99[0]);
}

INLINE float slow_factor(const struct capsim *s, const struct capsim_world *w)
{
    float factor = 1;
    for (int i = 0; s->faults >> i; i++)
        if ((s->faults >> i & 1) && w->cfg.fault[i].kind == CAPSIM_DEPENDENCY_SLOW)
            factor *= w->cfg.fault[i].value;
    return factor;
}

INLINE struct service serve(struct capsim *s, const struct capsim_world *w, float qps)
{
    struct service r = {.qps = qps, .arrivals = qps * w->dt_s};
    float before = s->backlog, offered = before + r.arrivals;
    float capacity = (float)s->units_ready * w->unit_requests;
    s->past_arrivals[s->step & (CAPSIM_TIMEOUT_STEPS_MAX - 1)] = r.arrivals;
    r.served = min_f(offered, capacity);
    s->backlog = offered - r.served;
    if (__builtin_expect(s->backlog > 0, 0))
        r.dropped = drop_old(s, w);
    if (__builtin_expect(s->units_ready == 0, 0)) {
        read_latency(w->spec.latency, w, 1, 0, &r);
        if (offered > 0) {
            r.p50 = r.p99 = w->timeout_ms;
            r.over = 1;
        }
        return r;
    }
    float rho = offered / capacity;
    r.use = min_f(rho, 1);
    read_latency(w->spec.latency, w, s->units_ready, rho, &r);
    if (__builtin_expect(s->faults != 0, 0)) {
        float slow = slow_factor(s, w);
        r.p50 *= slow;
        r.p99 *= slow;
    }
    if (__builtin_expect(before + s->backlog > 0, 0)) {
        add_waiting(s, w, before, capacity, &r);
        r.over = max_f(r.over, min_f(r.dropped, r.arrivals) / max_f(r.arrivals, 1e-9f));
    } else {
        r.over = tail_over(r.p50, r.p99, w->slo_ms);
    }
    return r;
}

/* ---- gauges and view
 * ------------------------------------------------------------------------------ */

/* A row of the window.  Written and read whole: eight small stores under one wide load would stall it. */
typedef float window_row __attribute__((vector_size(CAPSIM_V_COUNT * sizeof(float)), may_alias));

static void write_gauges(const struct capsim_world *w, uint32_t faults, float *row)
{
    for (int i = 0; faults >> i; i++) {
        if ((faults >> i & 1) && w->cfg.fault[i].kind == CAPSIM_GAUGES_FIXED) {
            row[CAPSIM_V_CPU] = w->cfg.fault[i].value;
            row[CAPSIM_V_GPU] = w->cfg.fault[i].value2;
        }
    }
}

INLINE void record(struct capsim *s, const struct capsim_world *w, const struct service *r)
{
    float *at = s->ring[s->step & (CAPSIM_WINDOW - 1)];
    float idle = w->gpu_idle;
    float gpu = s->units_ready ? idle + (1 - idle) * r->use : 0;
    static_assert(CAPSIM_V_CPU == 1 && CAPSIM_V_QPS == 2 && CAPSIM_V_P50 == 3 && CAPSIM_V_P99 == 4 &&
                      CAPSIM_V_QUEUE == 5 && CAPSIM_V_READY == 6 && CAPSIM_V_TOTAL == 7,
                  "in this order");
    const window_row row = {
        gpu,        min_f(gpu * w->cpu_per_gpu, 1), r->qps, r->p50, r->p99,
        s->backlog, (float)s->units_ready,          (float)s->units_requested,
    };
    *(window_row *)at = row;
    if (__builtin_expect(s->faults != 0, 0))
        write_gauges(w, s->faults, at);
    if (__builtin_expect(s->window_cold, 0)) {
        const window_row only = *(const window_row *)at;
        for (int i = 0; i < CAPSIM_WINDOW; i++)
            *(window_row *)s->ring[i] = only;
        s->window_cold = false;
    }
}

/* Faults that hold during s->step; looked at only where one begins or ends. */
static void turn_faults(struct capsim *s, const struct capsim_world *w)
{
    s->faults = 0;
    s->fault_step = INT32_MAX;
    for (int i = 0; i < w->cfg.n_faults; i++) {
        const struct capsim_fault *f = &w->cfg.fault[i];
        if (f->from_step <= s->step && s->step < f->to_step)
            s->faults |= UINT32_C(1) << i;
        int32_t next = s->step < f->from_step ? f->from_step
                       : s->step < f->to_step ? f->to_step
                                              : INT32_MAX;
        s->fault_step = next < s->fault_step ? next : s->fault_step;
    }
}

static bool metrics_gone(const struct capsim *s, const struct capsim_world *w)
{
    for (int i = 0; s->faults >> i; i++)
        if ((s->faults >> i & 1) && w->cfg.fault[i].kind == CAPSIM_METRICS_GONE)
            return true;
    return false;
}

static void view_nothing(struct capsim *s, struct capacity_view *v)
{
    for (int i = 0; i < FIELD_COUNT; i++)
        v->value[i] = NAN;
    v->qps_last = NAN;
    v->sample_us = s->sample_us;
    s->window_cold = true;
}

INLINE void view_values(struct capsim *s, const struct capsim_world *w, struct capacity_view *v)
{
    const window_row *r = (const window_row *)s->ring;
    const window_row mean = ((r[0] + r[1]) + (r[2] + r[3])) * 0.25f;
    v->value[FIELD_GPU_UTIL] = mean[CAPSIM_V_GPU];
    v->value[FIELD_GPU_MEM_UTIL] = w->gpu_mem;
    v->value[FIELD_CPU_UTIL] = mean[CAPSIM_V_CPU];
    v->value[FIELD_MEM_UTIL] = w->mem;
    v->value[FIELD_QPS] = mean[CAPSIM_V_QPS];
    v->value[FIELD_P50_LATENCY_MS] = mean[CAPSIM_V_P50];
    v->value[FIELD_P99_LATENCY_MS] = mean[CAPSIM_V_P99];
    v->value[FIELD_QUEUE_LEN] = mean[CAPSIM_V_QUEUE];
    v->value[FIELD_UNITS_READY] = mean[CAPSIM_V_READY];
    v->value[FIELD_UNITS_TOTAL] = mean[CAPSIM_V_TOTAL];
    v->qps_last = s->ring[(s->step - 1) & (CAPSIM_WINDOW - 1)][CAPSIM_V_QPS];
    v->sample_us = s->sample_us = v->now_us;
}

INLINE void view_units(const struct capsim *s, struct capacity_view *v)
{
    v->units_requested = s->units_requested;
    v->units_ready = s->units_ready;
    v->units_warming = s->units_warming;
    v->units_failed = s->units_failed;
}

INLINE void view_time(struct capsim *s, const struct capsim_world *w, const struct capsim_trace *t,
                      struct capacity_view *v)
{
    v->now_us = t->start_us + s->step * t->step_us;
    if (__builtin_expect(s->step >= t->n, 0))
        return;
    v->when = t->slot[s->slot];
    v->when.minute =
        (int16_t)(v->when.minute + (int)((float)s->slot_steps_in * w->minutes_per_step + 1e-3f));
    v->foresight_qps = t->peak_ahead[s->step];
}

/* ---- the step
 * ------------------------------------------------------------------------------------- */

/* Time moves to the next step; everything a decision may see there is put in *v. */
INLINE void turn(struct capsim *s, const struct capsim_world *w, const struct capsim_trace *t,
                 int n_groups, struct capacity_view *v)
{
    bool blind = s->faults && metrics_gone(s, w);
    s->step++;
    if (++s->slot_steps_in == t->slot_steps) {
        s->slot_steps_in = 0;
        s->slot++;
    }
    turn_failures(s, w, n_groups);
    turn_warming(s, w, n_groups, v);
    count_units(s, n_groups);
    if (__builtin_expect(s->step >= s->fault_step, 0))
        turn_faults(s, w);
    view_units(s, v);
    view_time(s, w, t, v);
    if (__builtin_expect(blind, 0))
        view_nothing(s, v);
    else
        view_values(s, w, v);
}

INLINE void step_groups(struct capsim *s, const struct capsim_world *w,
                        const struct capsim_trace *t, int n_groups, int units,
                        struct capacity_view *v, struct capsim_out *out)
{
    apply_size(s, w, n_groups, units);
    struct service r = serve(s, w, t->demand[s->step] * noise_step(s, w));
    record(s, w, &r);
    *out = (struct capsim_out){
        .arrivals = r.arrivals,
        .served = r.served,
        .dropped = r.dropped,
        .backlog = s->backlog,
        .p50_ms = r.p50,
        .p99_ms = r.p99,
        .miss_requests_frac = r.over,
        .cost_usd = (float)s->units_requested * w->step_cost_usd,
        .units_billed = s->units_requested,
        .miss = r.p99 > w->slo_ms,
        .barred = t->barred && t->barred[s->step],
    };
    turn(s, w, t, n_groups, v);
}

void capsim_step(struct capsim *s, const struct capsim_world *w, const struct capsim_trace *t,
                 int units, struct capacity_view *view, struct capsim_out *out)
{
    ASSERT(s->step < t->n && units >= 0 && units <= w->spec.units_max);
    if (w->n_groups == 1)
        step_groups(s, w, t, 1, units, view, out);
    else
        step_groups(s, w, t, w->n_groups, units, view, out);
}

/* ---- start, copy, hash
 * ---------------------------------------------------------------------------- */

static void reset_failures(struct capsim *s, const struct capsim_world *w)
{
    uint32_t block = (uint32_t)(s->step / w->repair_steps) + 1;
    s->fail_phase = s->step % w->repair_steps;
    uint64_t opened = 0;
    for (int i = 0; i <= s->fail_phase; i++)
        opened |= w->fail_phase[i];
    for (int k = 0; k < w->n_groups; k++) {
        struct capsim_group *g = &s->group[k];
        g->down_next = group_windows(w, s->key_fail, k, block);
        g->down = (group_windows(w, s->key_fail, k, block - 1) & ~opened) | (g->down_next & opened);
    }
}

static void reset_units(struct capsim *s, const struct capsim_world *w, int units)
{
    for (int k = 0; k < w->n_groups; k++) {
        int left = units - k * CAPSIM_GROUP;
        s->group[k].requested = left >= CAPSIM_GROUP ? ~UINT64_C(0)
                                : left > 0           ? (UINT64_C(1) << left) - 1
                                                     : 0;
    }
    count_units(s, w->n_groups);
}

/* The minute before, as if `units` had been there; before the trace its first step repeats. */
static void reset_window(struct capsim *s, const struct capsim_world *w,
                         const struct capsim_trace *t)
{
    int32_t first = s->step;
    capsim_noise_enter(s, w, first - CAPSIM_TIMEOUT_STEPS_MAX);
    for (int32_t i = first - CAPSIM_TIMEOUT_STEPS_MAX; i < first; i++) {
        s->step = i;
        struct service r = serve(s, w, t->demand[i < 0 ? 0 : i] * noise_step(s, w));
        s->backlog = 0;
        record(s, w, &r);
    }
    s->step = first;
}

void capsim_reset(struct capsim *s, const struct capsim_world *w, const struct capsim_trace *t,
                  uint64_t seed, int32_t step, int units, struct capacity_view *view)
{
    ASSERT(step >= 0 && step < t->n && units >= 0 && units <= w->spec.units_max);
    ASSERT(t->step_us == w->spec.step_us);
    memset(s, 0, capsim_bytes(w));
    s->seed = seed;
    s->key_noise = rng_key(seed, "noise");
    s->key_fail = rng_key(seed, "fail");
    s->key_start = rng_key(seed, "start");
    s->step = step;
    s->slot = (step + t->slot_skew) / t->slot_steps;
    s->slot_steps_in = (step + t->slot_skew) % t->slot_steps;
    reset_failures(s, w);
    reset_units(s, w, units);
    reset_window(s, w, t);
    turn_faults(s, w);
    view_units(s, view);
    view_time(s, w, t, view);
    turn_warming(s, w, w->n_groups, view);
    view_values(s, w, view);
}

size_t capsim_bytes(const struct capsim_world *w)
{
    size_t n = offsetof(struct capsim, group) + (size_t)w->n_groups * sizeof(struct capsim_group);
    return (n + 63) & ~(size_t)63;
}

void capsim_copy(struct capsim *dst, const struct capsim *src, const struct capsim_world *w)
{
    memcpy(dst, src, capsim_bytes(w));
}

static void hash_group(struct hash *h, const struct capsim_group *g)
{
    hash_u64(h, g->requested);
    hash_u64(h, g->warming);
    hash_u64(h, g->down);
    hash_u64(h, g->down_next);
    for (uint64_t m = g->warming; m; m &= m - 1) {
        int i = __builtin_ctzll(m);
        hash_u64(h, (uint64_t)g->asked_step[i] << 32 | g->ready_step[i]);
    }
}

uint64_t capsim_hash(const struct capsim *s, const struct capsim_world *w)
{
    struct hash h = hash_init(0);
    hash_bytes(&h, s->ring, sizeof s->ring);
    hash_bytes(&h, s->past_arrivals, sizeof s->past_arrivals);
    const float part[] = {s->backlog, s->ar_sum, s->ar_carry, s->ar_block_sum[0],
                          s->ar_block_sum[1]};
    hash_bytes(&h, part, sizeof part);
    hash_i64(&h, s->step);
    hash_i64(&h, s->window_cold);
    hash_i64(&h, s->sample_us);
    hash_u64(&h, s->seed);
    for (int k = 0; k < w->n_groups; k++)
        hash_group(&h, &s->group[k]);
    return hash_value(&h);
}
