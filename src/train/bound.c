/* bound.c - the relaxed problem, its dynamic programme and the search over the price of a miss.
 *
 * F_t(q), the cheapest way to have q units before step t, never falls with q (going down is free)
 * and rises by at most S_t per unit.  One step: forward   F(q) = min(F(q), F(q - 1) + S_t) starts
 *     add       F(q) += q b_t + lambda [q < need_t]
 *     backward  F(q) = min(F(q), F(q + 1)), q < need_t        scale-in; above need_t it rises
 * already Eight prices run side by side, one per vector lane, so no sweep needs a shuffle. */
#include "train/bound.h"

#include <assert.h>
#include <math.h>
#include <string.h>

#include "base/mem.h"

enum {
    LANES = 8,
    MISS_BITS = 22,   /* CAPSIM_STEPS_MAX < 2^22 */
    SCALE = 32,       /* 3e6 steps x 4096 units x 32 < 2^39, and 2^39 x 2^22 < 2^62 */
    PROBE_STEPS = 12, /* of a trace whose last step is tried: no load before it */
};

#define UNREACHABLE (INT64_C(1) << 61)
#define LOAD_TOP 4e12f /* above any trace x (1 + noise) */
#define LOAD_SLACK                                                                                 \
    (1 + 0x1p-16f) /* the table's interpolation may fall by an ulp where it should not */
#define USD_SLACK (1 - 0x1p-23) /* capsim rounds units x price to float */

static_assert(CAPSIM_STEPS_MAX < (1 << MISS_BITS), "misses fit");
static_assert((int64_t)CAPSIM_STEPS_MAX * CAPACITY_UNITS_LIMIT * SCALE < INT64_C(1) << 39,
              "values fit");

/* ---- load per units, from the simulator ---------------------------------------------------- */

struct probe {
    struct capsim_world world;
    struct capsim_trace trace;
    struct capsim start, lane;
    struct capacity_view view;
    float demand[PROBE_STEPS];
};

static enum err_code probe_init(struct probe *p, const struct capsim_world *w, struct err *e)
{
    static const struct calendar utc = {0};
    struct capsim_cfg cfg = w->cfg;
    cfg.unavailable_frac = cfg.noise_frac = cfg.noise_correlation_s = 0;
    cfg.n_faults = 0;
    enum err_code rc = capsim_world_init(&p->world, &w->spec, &cfg, e);
    if (rc)
        return rc;
    return capsim_trace_init(&p->trace, p->demand, NULL, PROBE_STEPS, 0, w->spec.step_us, &utc, e);
}

static bool probe_in_target(struct probe *p, int units, float load)
{
    struct capsim_out out;
    capsim_copy(&p->lane, &p->start, &p->world);
    p->demand[PROBE_STEPS - 1] = load;
    capsim_step(&p->lane, &p->world, &p->trace, units, &p->view, &out);
    return !out.miss;
}

static float float_of_bits(uint32_t bits)
{
    float x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

/* Positive floats are ordered as their bits: 32 halvings find the last load in target. */
static float probe_load(struct probe *p, int units)
{
    p->demand[PROBE_STEPS - 1] = 0;
    capsim_reset(&p->start, &p->world, &p->trace, 0, PROBE_STEPS - 1, units, &p->view);
    if (!probe_in_target(p, units, 0))
        return -1;
    float top = LOAD_TOP;
    uint32_t lo = 0, hi;
    memcpy(&hi, &top, sizeof hi);
    while (hi - lo > 1) {
        uint32_t mid = lo + (hi - lo) / 2;
        if (probe_in_target(p, units, float_of_bits(mid)))
            lo = mid;
        else
            hi = mid;
    }
    return float_of_bits(lo) * LOAD_SLACK;
}

enum err_code bound_loads(const struct capsim_world *w, float *load, struct err *e)
{
    struct probe *p = try_zero_aligned(1, sizeof *p);
    if (!p)
        return err_set(e, ERR_NOMEM, "bound: probe");
    enum err_code rc = probe_init(p, w, e);
    for (int u = 0; !rc && u <= w->spec.units_max; u++) {
        load[u] = probe_load(p, u);
        if (u && load[u] < load[u - 1])
            load[u] = load[u - 1];
    }
    capsim_trace_fini(&p->trace);
    mem_free(p);
    return rc;
}

/* ---- the stretch --------------------------------------------------------------------------- */

static int need_of(const float *load, int units_max, float rate)
{
    int lo = 0, hi = units_max + 1;
    while (lo < hi) {
        int mid = (lo + hi) / 2;
        if (load[mid] >= rate)
            hi = mid;
        else
            lo = mid + 1;
    }
    return lo;
}

static void fill_start(struct bound *b)
{
    int32_t sum = 0;
    for (int32_t i = 0; i < b->n; i++) {
        b->start[i] = (uint16_t)sum;
        sum += b->billed[i];
        if (i >= b->lag)
            sum -= b->billed[i - b->lag];
    }
}

static void fill_need(struct bound *b, const float *load, const float *demand, const float *factor)
{
    for (int32_t i = 0; i < b->n; i++) {
        if (!b->billed[i])
            continue;
        b->n_counted++;
        int need = need_of(load, b->units_max, demand[i] * factor[i]);
        bool no_start = b->units0 != BOUND_UNITS_ANY && i < b->lag;
        if (need > (no_start ? b->units0 : b->units_max))
            b->n_forced++;
        else
            b->need[i] = (uint16_t)need;
    }
}

static enum err_code fill(struct bound *b, const struct capsim_world *w,
                          const struct capsim_trace *t, uint64_t seed, int32_t from, struct err *e)
{
    float *factor = try_zero((size_t)b->n, sizeof *factor);
    float *load = try_zero((size_t)b->units_max + 1, sizeof *load);
    enum err_code rc =
        factor && load ? bound_loads(w, load, e) : err_set(e, ERR_NOMEM, "bound of %d steps", b->n);
    if (!rc) {
        capsim_noise_fill(w, seed, from, b->n, factor);
        for (int32_t i = 0; i < b->n; i++)
            b->billed[i] = !(t->barred && t->barred[from + i]);
        fill_start(b);
        fill_need(b, load, t->demand + from, factor);
    }
    mem_free(load);
    mem_free(factor);
    return rc;
}

enum err_code bound_init(struct bound *b, const struct capsim_world *w,
                         const struct capsim_trace *t, uint64_t seed, int32_t from, int32_t to,
                         int units0, struct err *e)
{
    memset(b, 0, sizeof *b);
    if (from < 0 || to > t->n || from >= to)
        return err_set(e, ERR_RANGE, "bound: steps %d..%d are not a stretch of 0..%d", from, to,
                       t->n);
    if (units0 != BOUND_UNITS_ANY && (units0 < 0 || units0 > w->spec.units_max))
        return err_set(e, ERR_RANGE, "bound: %d units at the start are outside 0..%d", units0,
                       w->spec.units_max);
    b->n = to - from;
    b->units_max = w->spec.units_max;
    b->units0 = units0;
    b->lag = capsim_start_steps_min(w);
    b->step_cost_usd = (double)w->step_cost_usd;
    b->need = try_zero((size_t)b->n, sizeof *b->need);
    b->start = try_zero((size_t)b->n, sizeof *b->start);
    b->billed = try_zero((size_t)b->n, sizeof *b->billed);
    b->scratch = try_zero_aligned((size_t)b->units_max + 1, sizeof *b->scratch);
    if (!b->need || !b->start || !b->billed || !b->scratch)
        return err_set(e, ERR_NOMEM, "bound of %d steps", b->n);
    return fill(b, w, t, seed, from, e);
}

void bound_fini(struct bound *b)
{
    mem_free(b->need);
    mem_free(b->start);
    mem_free(b->billed);
    mem_free(b->scratch);
    memset(b, 0, sizeof *b);
}

double bound_forced_frac(const struct bound *b)
{
    return b->n_counted ? (double)b->n_forced / b->n_counted : 0;
}

int32_t bound_allowed(const struct bound *b, double limit)
{
    int32_t m = (int32_t)floor(limit * b->n_counted);
    while (m < b->n_counted && (double)(m + 1) / b->n_counted <= limit)
        m++;
    while (m > 0 && (double)m / b->n_counted > limit)
        m--;
    return m;
}

/* ---- the dynamic programme ----------------------------------------------------------------- */

typedef int64_t lane_row[LANES];

/* a = min(a, x + add) */
static inline void row_relax(int64_t *restrict a, const int64_t *restrict x, int64_t add)
{
    for (int l = 0; l < LANES; l++) {
        int64_t y = x[l] + add;
        a[l] = y < a[l] ? y : a[l];
    }
}

/* start and hold: keys of one start and of one unit-step; miss: key of one miss per lane. */
static void solve_step(lane_row *f, int units_max, int64_t start, int64_t hold, const int64_t *miss,
                       int need)
{
    for (int q = 1; q <= units_max; q++)
        row_relax(f[q], f[q - 1], start);
    for (int q = need; q <= units_max; q++)
        for (int l = 0; l < LANES; l++)
            f[q][l] += q * hold;
    for (int q = need - 1; q >= 0; q--) {
        for (int l = 0; l < LANES; l++)
            f[q][l] += q * hold + miss[l];
        row_relax(f[q], f[q + 1], 0);
    }
}

static int64_t lambda_max(const struct bound *b)
{
    return (int64_t)(b->lag + 1) * b->units_max *
           SCALE; /* a lone miss can always be bought off for less */
}

struct solved {
    int64_t lambda; /* in 1/SCALE unit-step */
    int64_t value;  /* cost + lambda x avoidable misses, likewise */
    int64_t cost;   /* likewise */
    int32_t misses; /* avoidable ones */
};

/* Solves for LANES prices at once. */
static void solve(struct bound *b, struct solved s[LANES])
{
    lane_row *f = b->scratch;
    int64_t miss[LANES];
    for (int l = 0; l < LANES; l++)
        miss[l] = s[l].lambda * (INT64_C(1) << MISS_BITS) + 1;
    int32_t reach = b->units0 == BOUND_UNITS_ANY ? b->units_max : b->units0;
    for (int32_t q = 0; q <= b->units_max; q++)
        for (int l = 0; l < LANES; l++)
            f[q][l] = q <= reach ? 0 : UNREACHABLE;
    for (int32_t i = 0; i < b->n; i++) {
        const int64_t unit = (int64_t)SCALE << MISS_BITS;
        bool no_start = b->units0 != BOUND_UNITS_ANY && i < b->lag;
        solve_step(f, b->units_max, no_start ? UNREACHABLE : b->start[i] * unit,
                   b->billed[i] * unit, miss, b->need[i]);
    }
    for (int l = 0; l < LANES; l++) {
        s[l].value = f[0][l] >> MISS_BITS; /* scale-in is free: no state is cheaper */
        s[l].misses = (int32_t)(f[0][l] & ((INT64_C(1) << MISS_BITS) - 1));
        s[l].cost = s[l].value - s[l].lambda * s[l].misses;
    }
}

void bound_relaxed(struct bound *b, const double *lambda, int n, struct bound_point *out)
{
    for (int first = 0; first < n; first += LANES) {
        struct solved s[LANES] = {0};
        int take = n - first < LANES ? n - first : LANES;
        for (int l = 0; l < take; l++) {
            double q = fmin(fmax(lambda[first + l], 0) * SCALE, (double)lambda_max(b));
            s[l].lambda = llround(q);
        }
        solve(b, s);
        for (int l = 0; l < take; l++)
            out[first + l] = (struct bound_point){
                .lambda = (double)s[l].lambda / SCALE,
                .unit_steps = s[l].cost / SCALE,
                .misses = s[l].misses + b->n_forced,
            };
    }
}

/* ---- the best price ------------------------------------------------------------------------ */

/* The dual of one limit: its maximum lies between a price with too many misses and one with few
 * enough. */
struct search {
    int64_t allowed; /* avoidable misses, >= 0 */
    struct solved lo, hi;
    int64_t best; /* largest dual value seen, in 1/SCALE */
    bool done;
};

static void search_learn(struct search *s, const struct solved *p)
{
    int64_t dual = p->value - p->lambda * s->allowed;
    s->best = dual > s->best ? dual : s->best;
    if (p->misses > s->allowed && p->lambda > s->lo.lambda)
        s->lo = *p;
    if (p->misses <= s->allowed && p->lambda < s->hi.lambda)
        s->hi = *p;
}

/* Price where the two known lines cross; the dual lies below both, so its value there is an upper
 * limit. */
static double search_crossing(const struct search *s)
{
    return (double)(s->hi.cost - s->lo.cost) / (s->lo.misses - s->hi.misses);
}

static void search_judge(struct search *s)
{
    double top = (double)s->hi.cost + search_crossing(s) * (double)(s->hi.misses - s->allowed);
    s->done = s->hi.misses == s->allowed || s->hi.lambda - s->lo.lambda <= 1 ||
              top - (double)s->best < SCALE;
}

static int64_t clamp_i64(int64_t x, int64_t lo, int64_t hi)
{
    return x < lo ? lo : x > hi ? hi : x;
}

/* n prices strictly inside the bracket: around the crossing, then evenly spread. */
static void search_propose(const struct search *s, struct solved *out, int n)
{
    int64_t lo = s->lo.lambda + 1, hi = s->hi.lambda - 1, at = (int64_t)search_crossing(s);
    for (int i = 0; i < n; i++) {
        int64_t x = i < 2 ? at + i : lo + (hi - lo) * (i - 1) / (n - 1);
        out[i].lambda = clamp_i64(x, lo, hi);
    }
}

/* One round: the lanes are shared by the limits still open.  Returns false when none is. */
static bool search_round(struct bound *b, struct search *s, int n)
{
    int open[LANES], n_open = 0;
    for (int i = 0; i < n && n_open < LANES; i++)
        if (!s[i].done)
            open[n_open++] = i;
    if (n_open == 0)
        return false;
    struct solved p[LANES] = {0};
    for (int k = 0; k < n_open; k++) {
        int first = k * LANES / n_open, last = (k + 1) * LANES / n_open;
        search_propose(&s[open[k]], p + first, last - first);
    }
    solve(b, p);
    for (int i = 0; i < n; i++) {
        for (int l = 0; l < LANES && !s[i].done; l++)
            search_learn(&s[i], &p[l]);
        if (!s[i].done)
            search_judge(&s[i]);
    }
    return true;
}

/* The two ends: no price, nobody runs; the highest price, no avoidable miss is left. */
static void search_start(struct bound *b, const double *limits, struct search *s, int n)
{
    struct solved p[LANES] = {0};
    p[1].lambda = lambda_max(b);
    solve(b, p);
    for (int i = 0; i < n; i++) {
        int64_t allowed = bound_allowed(b, limits[i]) - b->n_forced;
        s[i] = (struct search){
            .allowed = allowed > 0 ? allowed : 0, .lo = p[0], .hi = p[1], .best = 0};
        search_learn(&s[i], &p[0]);
        search_learn(&s[i], &p[1]);
        if (p[0].misses <= s[i].allowed)
            s[i].done = true; /* even without a single unit */
        else
            search_judge(&s[i]);
    }
}

enum err_code bound_limits(struct bound *b, const double *limits, int n, double *cost_usd,
                           struct err *e)
{
    if (n < 1 || n > BOUND_LIMITS_MAX)
        return err_set(e, ERR_INVAL, "bound: %d limits are outside 1..%d", n, BOUND_LIMITS_MAX);
    for (int i = 0; i < n; i++)
        if (!(limits[i] >= 0 && limits[i] <= 1))
            return err_set(e, ERR_INVAL, "bound: limit %g is outside 0..1", limits[i]);
    struct search s[BOUND_LIMITS_MAX];
    search_start(b, limits, s, n);
    while (search_round(b, s, n))
        continue;
    for (int i = 0; i < n; i++)
        cost_usd[i] = (double)s[i].best / SCALE * b->step_cost_usd * USD_SLACK;
    return ERR_OK;
}

enum err_code bound_cost(const struct capsim_world *w, const struct capsim_trace *t, uint64_t seed,
                         int32_t from, int32_t to, int units0, const double *limits, int n_limits,
                         double *cost_usd, struct err *e)
{
    struct bound b;
    enum err_code rc = bound_init(&b, w, t, seed, from, to, units0, e);
    if (!rc)
        rc = bound_limits(&b, limits, n_limits, cost_usd, e);
    bound_fini(&b);
    return rc;
}
