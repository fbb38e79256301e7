/* latency.c - Erlang-C, M/M/c response-time quantiles, monotone curves, and the table made of them.
 *
 * With mu = 1, c servers, offered load a = c*rho and theta = c - a, a response is service plus a
 * wait that is 0 with probability 1 - C and exponential(theta) else (FCFS).  So
 *     P(T > t) = e^-t + C * (e^-t - e^(-theta t)) / (theta - 1),
 * the fraction read as t*e^-t at theta = 1.  1/B, the inverse of Erlang-B, is a sum of positive
 * terms that loses nothing to cancellation:
 *     1/B = 1 + c/a + c(c-1)/a^2 + ...,   C = 1 / (rho + (1-rho)/B).
 * The terms grow, then fall off like a Gaussian, so about 9*sqrt(a) of them matter: a table of 4096
 * units takes a tenth of a second. */
#include "model/latency.h"

#include <math.h>
#include <string.h>

#include "base/mem.h"
#include "model/capacity.h"

#define RHO_MAX_ERLANG 0.98 /* beyond, queues need longer than a 15-s step to settle */
#define NEVER_WAITS 1e18    /* 1/B above this: the wait probability is 0 in double */
#define SERVERS_MAX 262144
#define FALL_TOLERANCE 0.20

enum { ROW = LATENCY_BINS + 1 };

double latency_erlang_c(int servers, double offered)
{
    ASSERT(servers > 0 && offered >= 0 && offered < servers);
    double term = 1, inverse_b = 1;
    for (int j = 0; j < servers; j++) {
        term *= (servers - j) / offered; /* offered 0: infinite at once */
        inverse_b += term;
        if (!(inverse_b < NEVER_WAITS))
            return 0;
        if (servers - j < offered && term < 1e-17 * inverse_b)
            break;
    }
    double rho = offered / servers;
    return 1 / (rho + (1 - rho) * inverse_b);
}

static double survival(double wait_prob, double theta, double t)
{
    double d = theta - 1, et = exp(-t);
    if (fabs(d) * t < 1) {
        double ratio = fabs(d) * t < 1e-8 ? t : -expm1(-d * t) / d;
        return et * (1 + wait_prob * ratio);
    }
    return et + wait_prob * (et - exp(-theta * t)) / d;
}

static double density(double wait_prob, double theta, double t)
{
    double d = theta - 1, et = exp(-t);
    double ratio = fabs(d) * t < 1e-8 ? t : -expm1(-d * t) / d;
    /* -d/dt of e^-t (1 + C ratio(t)); ratio' = e^(-d t) */
    if (fabs(d) * t < 1)
        return et * (1 + wait_prob * ratio) - wait_prob * et * exp(-d * t);
    return et + wait_prob * (et - theta * exp(-theta * t)) / d;
}

/* Newton on log P(T > t), which is nearly straight, kept inside a shrinking bracket. */
static double solve_quantile(double wait_prob, double theta, double q)
{
    double tail = 1 - q, want = log(tail);
    double lo = 0, hi = -want;
    while (survival(wait_prob, theta, hi) > tail)
        hi *= 2;
    double t = -want < hi ? -want : hi;
    for (int i = 0; i < 200 && hi - lo > 1e-13 * hi; i++) {
        double s = survival(wait_prob, theta, t);
        if (s > tail)
            lo = t;
        else
            hi = t;
        double next = t + (log(s) - want) * s / density(wait_prob, theta, t);
        if (fabs(next - t) < 1e-12 * t)
            return next;
        t = next > lo && next < hi ? next : 0.5 * (lo + hi);
    }
    return t;
}

double latency_mmc_quantile(int servers, double offered, double q)
{
    ASSERT(q >= 0 && q < 1);
    if (q == 0)
        return 0;
    return solve_quantile(latency_erlang_c(servers, offered), servers - offered, q);
}

/* ---- the table
 * ------------------------------------------------------------------------------------ */

static enum err_code table_alloc(struct latency_model *m, int units_max, struct err *e)
{
    size_t cells;
    if (!size_mul((size_t)units_max + 1, ROW, &cells))
        return err_set(e, ERR_NOMEM, "latency table of %d units", units_max);
    m->p50_ms = try_zero_aligned(cells, sizeof(float));
    m->p99_ms = try_zero_aligned(cells, sizeof(float));
    m->load_max = try_zero_aligned((size_t)units_max + 1, sizeof(float));
    if (m->p50_ms && m->p99_ms && m->load_max)
        return ERR_OK;
    latency_fini(m);
    return err_set(e, ERR_NOMEM, "latency table of %d units", units_max);
}

void latency_fini(struct latency_model *m)
{
    mem_free(m->p50_ms);
    mem_free(m->p99_ms);
    mem_free(m->load_max);
    *m = (struct latency_model){0};
}

/* Largest load fraction of a rising row that stays within limit, in bins; -1 when none does. */
static double row_crossing(const float *row, double limit)
{
    if (row[0] > limit)
        return -1;
    int i = 0;
    while (i < LATENCY_BINS && row[i + 1] <= limit)
        i++;
    if (i == LATENCY_BINS)
        return LATENCY_BINS;
    return i + (limit - row[i]) / (row[i + 1] - row[i]);
}

static void fill_load_max(struct latency_model *m)
{
    for (int u = 1; u <= m->units_max; u++) {
        double bins = row_crossing(m->p99_ms + (size_t)u * ROW, m->slo_ms);
        double load = bins < 0 ? 0 : bins / LATENCY_BINS * m->rho_max * u * m->unit_qps;
        m->load_max[u] = (float)load;
        if (m->load_max[u] < m->load_max[u - 1])
            m->load_max[u] = m->load_max[u - 1]; /* rounding only: more units never serve less */
    }
}

static enum err_code check_common(int units_max, double slo_ms, struct err *e)
{
    if (units_max < 1 || units_max > CAPACITY_UNITS_LIMIT)
        return err_set(e, ERR_INVAL, "latency: units_max %d is outside 1..%d", units_max,
                       CAPACITY_UNITS_LIMIT);
    if (!isfinite(slo_ms) || slo_ms <= 0)
        return err_set(e, ERR_INVAL, "latency: target %g ms is not positive and finite", slo_ms);
    return ERR_OK;
}

enum err_code latency_check_erlang(double service_ms, int slots, int units_max, double slo_ms,
                                   struct err *e)
{
    enum err_code rc = check_common(units_max, slo_ms, e);
    if (rc)
        return rc;
    if (!isfinite(service_ms) || service_ms <= 0)
        return err_set(e, ERR_INVAL, "latency: service time %g ms is not positive and finite",
                       service_ms);
    if (slots < 1 || (long)slots * units_max > SERVERS_MAX)
        return err_set(e, ERR_INVAL, "latency: %d slots x %d units is outside 1..%d servers", slots,
                       units_max, SERVERS_MAX);
    return ERR_OK;
}

enum err_code latency_from_erlang(double service_ms, int slots, int units_max, double slo_ms,
                                  struct latency_model *out, struct err *e)
{
    *out = (struct latency_model){0};
    enum err_code rc = latency_check_erlang(service_ms, slots, units_max, slo_ms, e);
    if (rc)
        return rc;
    struct latency_model m = {.units_max = units_max,
                              .unit_qps = slots * 1000.0 / service_ms,
                              .rho_max = RHO_MAX_ERLANG,
                              .slo_ms = slo_ms};
    rc = table_alloc(&m, units_max, e);
    if (rc)
        return rc;
    for (int u = 1; u <= units_max; u++) {
        for (int i = 0; i <= LATENCY_BINS; i++) {
            int c = u * slots;
            double a = c * m.rho_max * i / LATENCY_BINS;
            double wait_prob = latency_erlang_c(c, a);
            size_t at = (size_t)u * ROW + (size_t)i;
            m.p50_ms[at] = (float)(service_ms * solve_quantile(wait_prob, c - a, 0.50));
            m.p99_ms[at] = (float)(service_ms * solve_quantile(wait_prob, c - a, 0.99));
        }
    }
    fill_load_max(&m);
    *out = m;
    return ERR_OK;
}

/* ---- measured curves
 * ------------------------------------------------------------------------------ */

void latency_make_rising(double *y, int n)
{
    ASSERT(n <= LATENCY_POINTS_MAX);
    int size[LATENCY_POINTS_MAX], blocks = 0;
    double mean[LATENCY_POINTS_MAX];
    for (int i = 0; i < n; i++) {
        mean[blocks] = y[i];
        size[blocks++] = 1;
        while (blocks > 1 && mean[blocks - 2] > mean[blocks - 1]) {
            int a = size[blocks - 2], b = size[blocks - 1];
            mean[blocks - 2] = (mean[blocks - 2] * a + mean[blocks - 1] * b) / (a + b);
            size[blocks - 2] = a + b;
            blocks--;
        }
    }
    for (int b = 0, i = 0; b < blocks; b++)
        for (int k = 0; k < size[b]; k++)
            y[i++] = mean[b];
}

/* Slopes of the monotone cubic: weighted harmonic means inside (Fritsch & Butland 1984), one-sided
 * three-point ends limited to three secants (Fritsch & Carlson 1980). */
static double end_slope(double h0, double h1, double s0, double s1)
{
    double d = ((2 * h0 + h1) * s0 - h0 * s1) / (h0 + h1);
    if (d * s0 <= 0)
        return 0;
    return fabs(d) > 3 * fabs(s0) ? 3 * s0 : d;
}

static void pchip_slopes(const double *x, const double *y, int n, double *d)
{
    double h[LATENCY_POINTS_MAX], s[LATENCY_POINTS_MAX];
    for (int i = 0; i + 1 < n; i++) {
        h[i] = x[i + 1] - x[i];
        s[i] = (y[i + 1] - y[i]) / h[i];
    }
    if (n == 2) {
        d[0] = d[1] = s[0];
        return;
    }
    d[0] = end_slope(h[0], h[1], s[0], s[1]);
    d[n - 1] = end_slope(h[n - 2], h[n - 3], s[n - 2], s[n - 3]);
    for (int i = 1; i + 1 < n; i++) {
        double w1 = 2 * h[i] + h[i - 1], w2 = h[i] + 2 * h[i - 1];
        d[i] = s[i - 1] * s[i] <= 0 ? 0 : (w1 + w2) / (w1 / s[i - 1] + w2 / s[i]);
    }
}

static double pchip_at(const double *x, const double *y, const double *d, int n, double at)
{
    if (at <= x[0])
        return y[0];
    if (at >= x[n - 1])
        return y[n - 1];
    int i = 0;
    while (at > x[i + 1])
        i++;
    double h = x[i + 1] - x[i], t = (at - x[i]) / h;
    double t2 = t * t, t3 = t2 * t;
    return y[i] * (2 * t3 - 3 * t2 + 1) + h * d[i] * (t3 - 2 * t2 + t) +
           y[i + 1] * (3 * t2 - 2 * t3) + h * d[i + 1] * (t3 - t2);
}

/* Far beyond any service, and far from where single precision ends. */
static const double CURVE_LOAD_MAX = 1e9, CURVE_LOAD_LEAST = 1e-6, CURVE_MS_MAX = 1e9;

static enum err_code check_curve(const struct latency_point *p, int n, double unit_qps,
                                 struct err *e)
{
    if (n < 2 || n > LATENCY_POINTS_MAX)
        return err_set(e, ERR_INVAL, "latency curve: %d points is outside 2..%d", n,
                       LATENCY_POINTS_MAX);
    for (int i = 0; i < n; i++) {
        if (!isfinite(p[i].load_per_unit) || !isfinite(p[i].p50_ms) || !isfinite(p[i].p99_ms) ||
            p[i].load_per_unit < 0 || p[i].load_per_unit > CURVE_LOAD_MAX || p[i].p50_ms <= 0 ||
            p[i].p99_ms < p[i].p50_ms || p[i].p99_ms > CURVE_MS_MAX)
            return err_set(e, ERR_INVAL,
                           "latency curve: point %d (load %g, p50 %g ms, p99 %g ms) is not valid",
                           i + 1, p[i].load_per_unit, p[i].p50_ms, p[i].p99_ms);
        if (i && p[i].load_per_unit <= p[i - 1].load_per_unit)
            return err_set(e, ERR_INVAL, "latency curve: load of point %d does not rise", i + 1);
    }
    double top50 = 0, top99 = 0;
    for (int i = 0; i < n; i++) {
        if (p[i].p50_ms < top50 * (1 - FALL_TOLERANCE) ||
            p[i].p99_ms < top99 * (1 - FALL_TOLERANCE))
            return err_set(
                e, ERR_INVAL,
                "latency curve: latency falls by over 20 %% at load %g: repeat the load test",
                p[i].load_per_unit);
        top50 = fmax(top50, p[i].p50_ms);
        top99 = fmax(top99, p[i].p99_ms);
    }
    if (!isfinite(unit_qps) || unit_qps < CURVE_LOAD_LEAST || unit_qps > p[n - 1].load_per_unit * (1 + 1e-9))
        return err_set(e, ERR_INVAL,
                       "latency curve: unit_qps %g is outside %g..%g, the largest measured load",
                       unit_qps, CURVE_LOAD_LEAST, p[n - 1].load_per_unit);
    return ERR_OK;
}

static void fill_row_from_curve(const struct latency_point *p, int n, const struct latency_model *m,
                                float *p50, float *p99)
{
    double x[LATENCY_POINTS_MAX], y[2][LATENCY_POINTS_MAX], d[2][LATENCY_POINTS_MAX];
    for (int i = 0; i < n; i++) {
        x[i] = p[i].load_per_unit;
        y[0][i] = p[i].p50_ms;
        y[1][i] = p[i].p99_ms;
    }
    for (int k = 0; k < 2; k++) {
        latency_make_rising(y[k], n);
        pchip_slopes(x, y[k], n, d[k]);
    }
    for (int i = 0; i <= LATENCY_BINS; i++) {
        double load = m->unit_qps * m->rho_max * i / LATENCY_BINS;
        p50[i] = (float)pchip_at(x, y[0], d[0], n, load);
        p99[i] = (float)pchip_at(x, y[1], d[1], n, load);
    }
}

enum err_code latency_from_curve(const struct latency_point *p, int n, double unit_qps,
                                 int units_max, double slo_ms, struct latency_model *out,
                                 struct err *e)
{
    *out = (struct latency_model){0};
    enum err_code rc = check_common(units_max, slo_ms, e);
    if (!rc)
        rc = check_curve(p, n, unit_qps, e);
    if (rc)
        return rc;
    struct latency_model m = {
        .units_max = units_max, .unit_qps = unit_qps, .rho_max = 1, .slo_ms = slo_ms};
    rc = table_alloc(&m, units_max, e);
    if (rc)
        return rc;
    fill_row_from_curve(p, n, &m, m.p50_ms + ROW, m.p99_ms + ROW);
    for (int u = 2; u <= units_max; u++) {
        memcpy(m.p50_ms + (size_t)u * ROW, m.p50_ms + ROW, ROW * sizeof(float));
        memcpy(m.p99_ms + (size_t)u * ROW, m.p99_ms + ROW, ROW * sizeof(float));
    }
    fill_load_max(&m);
    *out = m;
    return ERR_OK;
}

int latency_units_for(const struct latency_model *m, double load)
{
    int lo = 1, hi = m->units_max;
    while (lo < hi) {
        int mid = (lo + hi) / 2;
        if (m->load_max[mid] >= load)
            hi = mid;
        else
            lo = mid + 1;
    }
    return lo;
}
