#include "history/resample.h"

#include <math.h>
#include <string.h>

#include "history/table.h"

static int64_t floor_div(int64_t a, int64_t b)
{
    return a / b - (a % b < 0);
}

static enum err_code new_like(const struct history *in, int64_t start_us, int64_t step_us,
                              int64_t n, struct history *out, struct err *e)
{
    bool has[FIELD_COUNT];
    memset(out, 0, sizeof *out);
    if (step_us < 1000)
        return err_set(e, ERR_INVAL, "a step under 1 ms");
    if (n < 1)
        return err_set(e, ERR_INVAL, "the history is shorter than one step");
    for (int f = 0; f < FIELD_COUNT; f++)
        has[f] = in->col[f] != NULL;
    enum err_code rc = history_new(start_us, step_us, n, has, out, e);
    if (rc)
        return rc;
    memcpy(out->workload_id, in->workload_id, sizeof out->workload_id);
    memcpy(out->task_type, in->task_type, sizeof out->task_type);
    memcpy(out->zone, in->zone, sizeof out->zone);
    return ERR_OK;
}

/* Where steps of `out` lie on the grid of `in`, in native steps from its start. */
struct overlap {
    double lo, hi;
};

static struct overlap overlap_of(const struct history *in, const struct history *out, int64_t i)
{
    double from = (double)(out->start_us - in->start_us + i * out->step_us) / (double)in->step_us;
    return (struct overlap){from, from + (double)out->step_us / (double)in->step_us};
}

/* Mean over the overlap; *measured is the share of it that was measured. */
static float mean_over(const float *x, int64_t n, struct overlap o, double *measured)
{
    double sum = 0, weight = 0;
    int64_t first = (int64_t)floor(o.lo), last = (int64_t)ceil(o.hi) - 1;
    for (int64_t k = first < 0 ? 0 : first; k <= last && k < n; k++) {
        double a = (double)k > o.lo ? (double)k : o.lo;
        double b = (double)(k + 1) < o.hi ? (double)(k + 1) : o.hi;
        if (isnan(x[k]) || b <= a)
            continue;
        sum += (b - a) * (double)x[k];
        weight += b - a;
    }
    *measured = weight / (o.hi - o.lo);
    return weight > 0 ? (float)(sum / weight) : NAN;
}

static float last_in(const float *x, int64_t n, struct overlap o)
{
    int64_t last = (int64_t)ceil(o.hi - 1e-9) - 1, first = (int64_t)floor(o.lo);
    for (int64_t k = last < n ? last : n - 1; k >= first && k >= 0; k--)
        if (!isnan(x[k]))
            return x[k];
    return NAN;
}

/* Linear between the centres of native steps k and k + 1 at `at` (in native steps, centre of step k
 * is k + 0.5). */
static float interpolate(const float *x, int64_t n, double at)
{
    int64_t own = (int64_t)floor(at), k = (int64_t)floor(at - 0.5);
    if (own < 0 || own >= n || isnan(x[own]))
        return NAN;
    if (k < 0 || k + 1 >= n || isnan(x[k]) || isnan(x[k + 1]))
        return x[own];
    double w = at - 0.5 - (double)k;
    return (float)((1 - w) * (double)x[k] + w * (double)x[k + 1]);
}

static void resample_column(const struct history *in, struct history *out, enum field f)
{
    float *y = history_col(out, f);
    const float *x = in->col[f];
    bool is_load = field_get(f)->is_load, coarser = out->step_us > in->step_us;
    for (int64_t i = 0; i < out->n; i++) {
        struct overlap o = overlap_of(in, out, i);
        double ignored;
        if (coarser)
            y[i] = is_load ? mean_over(x, in->n, o, &ignored) : last_in(x, in->n, o);
        else if (is_load)
            y[i] = interpolate(x, in->n, (o.lo + o.hi) / 2);
        else
            y[i] = x[(int64_t)floor((o.lo + o.hi) / 2)];
    }
}

enum err_code history_resample(const struct history *in, int64_t step_us, struct history *out,
                               struct err *e)
{
    int64_t n = step_us > 0 ? in->n * in->step_us / step_us : 0;
    enum err_code rc = new_like(in, in->start_us, step_us, n, out, e);
    if (rc)
        return rc;
    uint8_t *barred = history_barred(out);
    for (int f = 0; f < FIELD_COUNT; f++)
        if (in->col[f])
            resample_column(in, out, (enum field)f);
    for (int64_t i = 0; i < n; i++) {
        struct overlap o = overlap_of(in, out, i);
        barred[i] = in->barred[(int64_t)floor((o.lo + o.hi) / 2)];
    }
    out->data_hash = history_hash(out);
    return ERR_OK;
}

static double barred_share(const struct history *in, struct overlap o)
{
    double sum = 0;
    for (int64_t k = (int64_t)floor(o.lo); k < (int64_t)ceil(o.hi); k++) {
        double a = (double)k > o.lo ? (double)k : o.lo;
        double b = (double)(k + 1) < o.hi ? (double)(k + 1) : o.hi;
        if (k < 0 || k >= in->n || in->barred[k])
            sum += b > a ? b - a : 0;
    }
    return sum / (o.hi - o.lo);
}

enum err_code history_mean(const struct history *in, int64_t step_us, struct history *out,
                           struct err *e)
{
    int64_t end_us = in->start_us + in->n * in->step_us;
    int64_t first = step_us > 0 ? floor_div(in->start_us, step_us) : 0;
    int64_t n = step_us > 0 ? floor_div(end_us - 1, step_us) - first + 1 : 0;
    enum err_code rc = new_like(in, first * step_us, step_us, n, out, e);
    if (rc)
        return rc;
    uint8_t *barred = history_barred(out);
    for (int64_t i = 0; i < n; i++) {
        struct overlap o = overlap_of(in, out, i);
        barred[i] = barred_share(in, o) > 0.5;
        for (int f = 0; f < FIELD_COUNT; f++) {
            double measured;
            if (!in->col[f])
                continue;
            float v = mean_over(in->col[f], in->n, o, &measured);
            history_col(out, (enum field)f)[i] = measured >= 0.5 - 1e-9 ? v : NAN;
        }
    }
    out->data_hash = history_hash(out);
    return ERR_OK;
}
