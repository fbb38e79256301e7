/* calibrate.c - from samples to a rising curve: filter, find saturation, bin, smooth.
 *
 * Saturation of a history is looked for in this order.
 *   gauge     gpu_util = a + b load is a straight line below 95 % use; unit_qps is where it
 *             reaches 1.  Slope by Theil & Sen (1968) over pairs half the samples apart, so that
 *             outliers do not matter.
 *   overload  while a queue grows, first in first out, the wait of the newest request grows by
 *             load/unit_qps - 1 seconds per second: each pair of steps with a rising, high p99
 *             gives unit_qps = load / (1 + rise/dt); the median is taken.
 *   else      the largest load seen.
 * The curve then uses samples under unit_qps whose size did not just change and that are not within
 * five minutes of an overload (a draining queue says nothing about this load).  Equal-count bins by
 * load, medians within, the rest (isotonic, monotone cubic) is latency_from_curve()'s. */
#include "sim/calibrate.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/stats.h"
#include "model/history.h"

#define LOAD_SPAN_MIN 1.25
#define GAUGE_TOP 0.95
#define GAUGE_SAMPLES_MIN 100
#define GAUGE_FIT_MAX 0.10 /* median residual over median use: a worse line is no line */
#define OVERLOAD_SAMPLES_MIN 20
#define OVERLOAD_P99_FACTOR 5 /* of the median: a queue, not noise */
#define OVERLOAD_RISE_MIN 0.02
#define SETTLE_US (5 * US_PER_MIN)
#define BIN_SAMPLES_MIN 20
#define BINS_MAX 40
#define COVER_MIN 0.8
#define P50_OF_P99 0.25

const char *calibrate_source_text(enum calibrate_source s)
{
    static const char *const text[] = {
        [CALIBRATE_LOAD_TEST] = "largest load of the load test",
        [CALIBRATE_GAUGE] = "load at which GPU use reaches 1",
        [CALIBRATE_OVERLOAD] = "growth of queues under overload",
        [CALIBRATE_LARGEST_SEEN] = "largest load seen (saturation was never near)",
    };
    return text[s];
}

static int by_load(const void *a, const void *b)
{
    double x = ((const struct latency_point *)a)->load_per_unit;
    double y = ((const struct latency_point *)b)->load_per_unit;
    return (x > y) - (x < y);
}

/* load_at_slo, and whatever latency_from_curve() finds wrong with the points. */
static enum err_code find_load_at_slo(struct calibration *c, double slo_ms, struct err *e)
{
    struct latency_model m;
    enum err_code rc = latency_from_curve(c->point, c->n, c->unit_qps, 1, slo_ms, &m, e);
    if (rc)
        return rc;
    c->load_at_slo = (double)m.load_max[1];
    latency_fini(&m);
    return ERR_OK;
}

/* ---- load test ------------------------------------------------------------------------------ */

/* Average neighbours of (nearly) equal load: a saturated test repeats its throughput. */
static int merge_equal_loads(struct latency_point *p, int n)
{
    int kept = 0;
    for (int i = 0; i < n;) {
        struct latency_point sum = {0};
        int k = i;
        for (; k < n && p[k].load_per_unit <= p[i].load_per_unit * (1 + 1e-6); k++) {
            sum.load_per_unit += p[k].load_per_unit;
            sum.p50_ms += p[k].p50_ms;
            sum.p99_ms += p[k].p99_ms;
        }
        p[kept++] = (struct latency_point){sum.load_per_unit / (k - i), sum.p50_ms / (k - i),
                                           sum.p99_ms / (k - i)};
        i = k;
    }
    return kept;
}

enum err_code calibrate_load_test(const struct latency_point *points, int n, double slo_ms,
                                  struct calibration *out, struct err *e)
{
    memset(out, 0, sizeof *out);
    if (n < CALIBRATE_POINTS_MIN || n > LATENCY_POINTS_MAX)
        return err_set(e, ERR_INVAL, "load test: %d points are outside %d..%d", n,
                       CALIBRATE_POINTS_MIN, LATENCY_POINTS_MAX);
    struct latency_point p[LATENCY_POINTS_MAX];
    for (int i = 0; i < n; i++) {
        p[i] = points[i];
        if (!isfinite(p[i].load_per_unit) || p[i].load_per_unit < 0 || p[i].load_per_unit > 1e9 ||
            !isfinite(p[i].p99_ms))
            return err_set(e, ERR_INVAL, "load test: point %d (load %g, p99 %g ms) is not valid",
                           i + 1, p[i].load_per_unit, p[i].p99_ms);
    }
    qsort(p, (size_t)n, sizeof p[0], by_load);
    int kept = merge_equal_loads(p, n);
    if (kept < CALIBRATE_POINTS_MIN || p[kept - 1].load_per_unit < 1.1 * p[0].load_per_unit)
        return err_set(e, ERR_INVAL,
                       "load test: %d distinct loads from %g to %g are too few to see a curve",
                       kept, p[0].load_per_unit, p[kept - 1].load_per_unit);
    if (kept > CALIBRATE_POINTS_MAX)
        return err_set(e, ERR_INVAL, "load test: %d distinct loads are over %d", kept,
                       CALIBRATE_POINTS_MAX);
    memcpy(out->point, p, (size_t)kept * sizeof p[0]);
    out->n = kept;
    out->n_used = n;
    out->unit_qps = p[kept - 1].load_per_unit;
    out->source = CALIBRATE_LOAD_TEST;
    enum err_code rc = find_load_at_slo(out, slo_ms, e);
    return rc ? err_wrap(e, "load test") : ERR_OK;
}

/* ---- history: which samples ----------------------------------------------------------------- */

struct sample {
    float load; /* per ready unit */
    float p50, p99, gpu;
    int64_t at; /* row of the history */
};

struct samples {
    struct sample *row; /* in order of time */
    int64_t n;
};

static bool usable(const struct calibrate_history *h, int64_t i)
{
    return !(h->barred && h->barred[i]) && h->qps[i] > 0 && isfinite(h->qps[i]) &&
           h->units_ready[i] >= 1 && isfinite(h->units_ready[i]) && h->p99_ms[i] > 0 &&
           isfinite(h->p99_ms[i]) && (!h->p50_ms || (h->p50_ms[i] > 0 && isfinite(h->p50_ms[i])));
}

static enum err_code collect(const struct calibrate_history *h, struct samples *s,
                             struct calibration *c, struct err *e)
{
    s->row = try_zero((size_t)h->n + 1, sizeof *s->row);
    if (!s->row)
        return err_set(e, ERR_NOMEM, "calibrate: %lld samples", (long long)h->n);
    for (int64_t i = 0; i < h->n; i++) {
        bool settled = i == 0 || h->units_ready[i] == h->units_ready[i - 1];
        if (!usable(h, i) || !settled) {
            c->n_unfit++;
            continue;
        }
        s->row[s->n++] =
            (struct sample){.load = h->qps[i] / h->units_ready[i],
                            .p50 = h->p50_ms ? h->p50_ms[i] : (float)P50_OF_P99 * h->p99_ms[i],
                            .p99 = h->p99_ms[i],
                            .gpu = h->gpu_util ? h->gpu_util[i] : NAN,
                            .at = i};
    }
    if (s->n < CALIBRATE_SAMPLES_MIN)
        return err_set(e, ERR_INVAL, "calibrate: %lld usable samples, %d are needed",
                       (long long)s->n, CALIBRATE_SAMPLES_MIN);
    return ERR_OK;
}

/* Quantile of one column, through scratch [n]. */
static double column_quantile(const struct samples *s, size_t offset, double q, double *scratch)
{
    for (int64_t i = 0; i < s->n; i++) {
        float v;
        memcpy(&v, (const char *)&s->row[i] + offset, sizeof v);
        scratch[i] = (double)v;
    }
    return stats_quantile(scratch, (size_t)s->n, q);
}

/* ---- history: saturation -------------------------------------------------------------------- */

static bool gauge_fits(const struct sample *r)
{
    return r->gpu > 0 && (double)r->gpu < GAUGE_TOP; /* false for NaN */
}

/* unit_qps where the line through (load, gpu) reaches 1, or 0. */
static double saturation_by_gauge(const struct samples *s, double *x, double *y, double *scratch)
{
    size_t n = 0;
    for (int64_t i = 0; i < s->n; i++) {
        if (gauge_fits(&s->row[i])) {
            x[n] = (double)s->row[i].load;
            y[n++] = (double)s->row[i].gpu;
        }
    }
    if (n < GAUGE_SAMPLES_MIN)
        return 0;
    size_t pairs = 0;
    for (size_t i = 0, half = n / 2; i + half < n; i++)
        if (fabs(x[i + half] - x[i]) > 1e-9)
            scratch[pairs++] = (y[i + half] - y[i]) / (x[i + half] - x[i]);
    if (pairs < GAUGE_SAMPLES_MIN / 2)
        return 0;
    double slope = stats_median(scratch, pairs);
    for (size_t i = 0; i < n; i++)
        scratch[i] = y[i] - slope * x[i];
    double base = stats_median(scratch, n);
    for (size_t i = 0; i < n; i++)
        scratch[i] = fabs(y[i] - base - slope * x[i]);
    double residual = stats_median(scratch, n);
    double use = stats_median(y, n);
    if (!(slope > 0) || base < -0.2 || base > 0.5 || residual > GAUGE_FIT_MAX * use)
        return 0;
    return (1 - base) / slope;
}

static double saturation_by_overload(const struct samples *s, double dt_ms, double p99_median,
                                     double *scratch)
{
    size_t n = 0;
    double high = OVERLOAD_P99_FACTOR * p99_median;
    for (int64_t i = 1; i < s->n; i++) {
        const struct sample *a = &s->row[i - 1], *b = &s->row[i];
        double rise = ((double)b->p99 - (double)a->p99) / dt_ms;
        if (b->at == a->at + 1 && (double)a->p99 > high && rise > OVERLOAD_RISE_MIN)
            scratch[n++] = (double)b->load / (1 + rise);
    }
    return n < OVERLOAD_SAMPLES_MIN ? 0 : stats_median(scratch, n);
}

/* Top of what was seen, without the very last few samples. */
static double largest_seen(const struct samples *s, double *scratch)
{
    return column_quantile(s, offsetof(struct sample, load), 0.999, scratch);
}

static void find_saturation(const struct calibrate_history *h, const struct samples *s,
                            double *scratch[3], struct calibration *c)
{
    c->source = CALIBRATE_GAUGE;
    c->unit_qps = saturation_by_gauge(s, scratch[0], scratch[1], scratch[2]);
    if (c->unit_qps > 0)
        return;
    c->source = CALIBRATE_OVERLOAD;
    double p99 = column_quantile(s, offsetof(struct sample, p99), 0.5, scratch[0]);
    c->unit_qps = saturation_by_overload(s, (double)h->step_us / 1000, p99, scratch[0]);
    if (c->unit_qps > 0)
        return;
    c->source = CALIBRATE_LARGEST_SEEN;
    c->unit_qps = largest_seen(s, scratch[0]);
}

/* ---- history: curve ------------------------------------------------------------------------- */

/* Keep what is under saturation and not shortly after an overload. */
static void drop_overload(struct samples *s, int64_t step_us, struct calibration *c)
{
    int64_t settle = SETTLE_US / step_us + 1, quiet_from = 0, kept = 0;
    for (int64_t i = 0; i < s->n; i++) {
        bool over = c->source != CALIBRATE_LARGEST_SEEN && (double)s->row[i].load > c->unit_qps;
        if (over)
            quiet_from = s->row[i].at + settle;
        if (over || s->row[i].at < quiet_from)
            c->n_overload++;
        else
            s->row[kept++] = s->row[i];
    }
    s->n = kept;
}

static int sample_by_load(const void *a, const void *b)
{
    const struct sample *x = a, *y = b;
    if (x->load != y->load)
        return x->load < y->load ? -1 : 1;
    return (x->at > y->at) - (x->at < y->at);
}

static void add_point(struct samples part, double *scratch, double *spread, struct calibration *c)
{
    struct latency_point p = {
        .load_per_unit = column_quantile(&part, offsetof(struct sample, load), 0.5, scratch),
        .p50_ms = column_quantile(&part, offsetof(struct sample, p50), 0.5, scratch),
        .p99_ms = column_quantile(&part, offsetof(struct sample, p99), 0.5, scratch)};
    double hi = column_quantile(&part, offsetof(struct sample, p99), 0.84, scratch);
    double lo = column_quantile(&part, offsetof(struct sample, p99), 0.16, scratch);
    if (c->n && p.load_per_unit <= c->point[c->n - 1].load_per_unit * (1 + 1e-9))
        return;
    spread[c->n] = (hi - lo) / (2 * p.p99_ms);
    c->point[c->n++] = p;
}

/* Bins by load, finer towards the top, where the curve bends: edges at 1 - (1 - b/bins)^2 of the
 * samples, each with at least BIN_SAMPLES_MIN. */
static void fill_points(const struct samples *s, double *scratch, double *spread,
                        struct calibration *c)
{
    int64_t from = 0;
    for (int b = 1; b <= BINS_MAX; b++) {
        double rest = 1 - (double)b / BINS_MAX;
        int64_t to = (int64_t)((1 - rest * rest) * (double)s->n);
        if (to - from < BIN_SAMPLES_MIN)
            continue;
        add_point((struct samples){s->row + from, to - from}, scratch, spread, c);
        from = to;
    }
}

/* Noise between bins is averaged out here; latency_from_curve() refuses large falls, rightly so for
 * a load test. */
static void make_points_rise(struct calibration *c)
{
    double p50[CALIBRATE_POINTS_MAX], p99[CALIBRATE_POINTS_MAX];
    for (int i = 0; i < c->n; i++) {
        p50[i] = c->point[i].p50_ms;
        p99[i] = c->point[i].p99_ms;
    }
    latency_make_rising(p50, c->n);
    latency_make_rising(p99, c->n);
    for (int i = 0; i < c->n; i++) {
        c->point[i].p50_ms = p50[i];
        c->point[i].p99_ms = p99[i];
    }
}

/* Carry the curve on to unit_qps with its last slope, or end it where the samples end. */
static void end_curve(struct calibration *c)
{
    struct latency_point *p = c->point;
    struct latency_point last = p[c->n - 1], before = p[c->n - 2];
    if (c->source == CALIBRATE_LARGEST_SEEN || last.load_per_unit < COVER_MIN * c->unit_qps) {
        c->source = CALIBRATE_LARGEST_SEEN;
        c->unit_qps = last.load_per_unit;
        return;
    }
    double step = (c->unit_qps - last.load_per_unit) / (last.load_per_unit - before.load_per_unit);
    if (step <= 0)
        return;
    p[c->n++] =
        (struct latency_point){c->unit_qps, last.p50_ms + step * (last.p50_ms - before.p50_ms),
                               last.p99_ms + step * (last.p99_ms - before.p99_ms)};
}

static enum err_code fit_curve(const struct calibrate_history *h, struct samples *s,
                               double *scratch[3], struct calibration *c, struct err *e)
{
    find_saturation(h, s, scratch, c);
    drop_overload(s, h->step_us, c);
    if (s->n < CALIBRATE_SAMPLES_MIN)
        return err_set(e, ERR_INVAL,
                       "calibrate: %lld samples below saturation (%g per unit), %d are needed",
                       (long long)s->n, c->unit_qps, CALIBRATE_SAMPLES_MIN);
    double lo = column_quantile(s, offsetof(struct sample, load), 0.05, scratch[0]);
    double hi = column_quantile(s, offsetof(struct sample, load), 0.95, scratch[0]);
    if (hi < LOAD_SPAN_MIN * lo)
        return err_set(e, ERR_INVAL,
                       "calibrate: load per unit stays within %g..%g: too even to see a curve", lo,
                       hi);
    qsort(s->row, (size_t)s->n, sizeof s->row[0], sample_by_load);
    fill_points(s, scratch[0], scratch[1], c);
    if (c->n < CALIBRATE_POINTS_MIN)
        return err_set(e, ERR_INVAL, "calibrate: %d distinct loads, %d are needed", c->n,
                       CALIBRATE_POINTS_MIN);
    c->n_used = s->n;
    c->spread_frac = stats_median(scratch[1], (size_t)c->n);
    make_points_rise(c);
    end_curve(c);
    return find_load_at_slo(c, h->slo_ms, e);
}

enum err_code calibrate_from_history(const struct calibrate_history *h, struct calibration *out,
                                     struct err *e)
{
    memset(out, 0, sizeof *out);
    if (!h->qps || !h->units_ready || !h->p99_ms || h->n < 1 || h->step_us < 1)
        return err_set(e, ERR_INVAL, "calibrate: qps, units_ready and p99_latency_ms are needed");
    out->p50_assumed = !h->p50_ms;
    struct samples s = {0};
    double *scratch[3] = {0};
    enum err_code rc = collect(h, &s, out, e);
    for (int i = 0; !rc && i < 3; i++) {
        scratch[i] = try_zero((size_t)s.n + CALIBRATE_POINTS_MAX, sizeof(double));
        if (!scratch[i])
            rc = err_set(e, ERR_NOMEM, "calibrate: %lld samples", (long long)s.n);
    }
    if (!rc)
        rc = fit_curve(h, &s, scratch, out, e);
    for (int i = 0; i < 3; i++)
        mem_free(scratch[i]);
    mem_free(s.row);
    return rc;
}
