#include "forecast/series.h"

#include <math.h>

#include "base/mem.h"
#include "base/opt.h"
#include "base/signal.h"
#include "forecast/forecaster.h"

static const double PRESENT_SHARE = 0.6;
static const int64_t MAX_STEP_US = 15 * US_PER_MIN;
enum {
    MAX_POINTS = 50 * 366 * FORECAST_POINTS_PER_DAY, /* 50 years */
    SIGNAL_POINTS = 1024,                            /* between looks at Ctrl-C */
};

static int64_t floor_to_point(int64_t t)
{
    int64_t r = t % FORECAST_POINT_US;
    return t - (r < 0 ? r + FORECAST_POINT_US : r);
}

/* The point a sample belongs to: where it starts, or, when longer than a point, the last one it
 * covers. */
static int64_t point_of(const struct history *h, int64_t i)
{
    int64_t t = h->start_us + i * h->step_us;
    return floor_to_point(h->step_us > FORECAST_POINT_US ? t + h->step_us - 1 : t);
}

static enum err_code check(const struct history *h, enum field field, struct err *e)
{
    const char *name = field_get(field)->name;
    if (!h->col[field] || h->n <= 0)
        return err_set(e, ERR_MISSING, "the history has no %s", name);
    if (h->step_us > MAX_STEP_US) {
        char step[32];
        opt_format_duration(h->step_us, step);
        return err_set(e, ERR_RANGE, "a step of %s is too coarse to forecast; 15 min is the most", step);
    }
    for (int64_t i = 0; i < h->n; i++) {
        double v = (double)h->col[field][i];
        if (!isnan(v) && !(v >= 0 && v <= 1e30))
            return err_set(e, ERR_RANGE, "%s: sample %lld: %g is outside [0, 1e30]", name,
                           (long long)i, v);
    }
    return ERR_OK;
}

/* Means of present samples; sum and count are [n] and zeroed. */
static void add_up(const struct history *h, const float *col, int64_t start_us, double *sum,
                   int32_t *count)
{
    for (int64_t i = 0; i < h->n; i++) {
        if (isnan(col[i]) || (h->barred && h->barred[i]))
            continue;
        int64_t k = (point_of(h, i) - start_us) / FORECAST_POINT_US;
        sum[k] += (double)col[i];
        count[k]++;
    }
}

enum err_code forecast_series_new(const struct history *h, enum field field,
                                  struct forecast_series *out, struct err *e)
{
    *out = (struct forecast_series){0};
    enum err_code rc = check(h, field, e);
    if (rc)
        return rc;
    int64_t start = point_of(h, 0);
    int64_t n = (point_of(h, h->n - 1) - start) / FORECAST_POINT_US + 1;
    if (n > MAX_POINTS)
        return err_set(e, ERR_LIMIT, "%lld five-minute points are more than 50 years",
                       (long long)n);
    double *sum = try_zero((size_t)n, sizeof *sum);
    int32_t *count = try_zero((size_t)n, sizeof *count);
    float *y = try_zero((size_t)n, sizeof *y);
    if (!sum || !count || !y) {
        rc = err_set(e, ERR_NOMEM, "%lld points", (long long)n);
        goto out;
    }
    add_up(h, h->col[field], start, sum, count);
    double per_point = fmax(1, (double)FORECAST_POINT_US / (double)h->step_us);
    int32_t need = (int32_t)fmax(1, floor(PRESENT_SHARE * per_point));
    *out = (struct forecast_series){.start_us = start, .n = n, .y = y};
    for (int64_t i = 0; i < n; i++) {
        y[i] = count[i] >= need ? (float)(sum[i] / count[i]) : NAN;
        out->n_missing += count[i] < need;
    }
    y = NULL;
    if (out->n_missing == n) {
        forecast_series_free(out);
        rc = err_set(e, ERR_MISSING, "%s holds no value for a whole point of 5 min: too short, or all missing", field_get(field)->name);
    }
out:
    mem_free(sum);
    mem_free(count);
    mem_free(y);
    return rc;
}

void forecast_series_free(struct forecast_series *s)
{
    mem_free(s->y);
    *s = (struct forecast_series){0};
}

enum err_code forecast_series_push(struct forecaster *f, const struct forecast_series *s,
                                   const struct calendar *cal, int64_t from, int64_t to,
                                   struct err *e)
{
    ASSERT(from >= 0 && to <= s->n);
    for (int64_t i = from; i < to; i++) {
        int64_t t = s->start_us + i * FORECAST_POINT_US;
        struct calendar_point at = calendar_at(cal, t);
        enum err_code rc = i % SIGNAL_POINTS == 0 ? signal_check(e) : ERR_OK;
        if (!rc)
            rc = forecast_push(f, t, s->y[i], &at, e);
        if (rc)
            return rc == ERR_INTERRUPTED ? rc : err_wrap(e, "point %lld", (long long)i);
    }
    return ERR_OK;
}
