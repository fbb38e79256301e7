#include "history/inspect.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "base/hash.h"
#include "base/mem.h"
#include "base/opt.h"
#include "base/stats.h"
#include "base/tz.h"

static void runs(const float *x, int64_t n, struct inspect_field *f)
{
    int64_t zero_run = 0, prev = -1;
    for (int64_t i = 0; i < n; i++) {
        if (isnan(x[i])) {
            f->missing++;
            zero_run = 0;
            continue;
        }
        f->n++;
        if (prev >= 0 && i - prev > 1) {
            f->gaps++;
            f->longest_gap = i - prev - 1 > f->longest_gap ? i - prev - 1 : f->longest_gap;
        }
        prev = i;
        zero_run = x[i] == 0 ? zero_run + 1 : 0;
        f->zeros += x[i] == 0;
        f->longest_zero_run = zero_run > f->longest_zero_run ? zero_run : f->longest_zero_run;
    }
}

static void quantiles(double *sorted, size_t n, struct inspect_field *f)
{
    n = stats_drop_nan(sorted, n);
    stats_sort(sorted, n);
    f->min = n ? sorted[0] : NAN;
    f->max = n ? sorted[n - 1] : NAN;
    f->mean = stats_mean(sorted, n);
    f->p01 = stats_quantile_sorted(sorted, n, 0.01);
    f->median = stats_quantile_sorted(sorted, n, 0.5);
    f->p99 = stats_quantile_sorted(sorted, n, 0.99);
}

/* Sample autocorrelation c_k / c_0 (Box & Jenkins 1976, eq. 2.1.9) about the mean of all, over what
 * is present.  stats_autocorr() centres both ends on their own, which hides a level that drifts. */
static double autocorr(const double *x, int64_t n, int64_t step_us, int64_t lag_us)
{
    struct stats_acc mean = {0}, c0 = {0}, ck = {0};
    int64_t lag = (lag_us + step_us / 2) / step_us;
    if (lag < 1 || n - lag < lag / 4 || n - lag < 8)
        return NAN;
    for (int64_t i = 0; i < n; i++)
        if (!isnan(x[i]))
            stats_add(&mean, x[i]);
    double m = stats_acc_mean(&mean);
    for (int64_t i = 0; i < n; i++) {
        double a = x[i] - m, b = i + lag < n ? x[i + lag] - m : NAN;
        if (!isnan(a))
            stats_add(&c0, a * a);
        if (!isnan(a) && !isnan(b))
            stats_add(&ck, a * b);
    }
    double scale = stats_acc_sum(&c0);
    return scale > 0 ? stats_acc_sum(&ck) / scale : NAN;
}

enum err_code history_inspect(const struct history *h, struct inspect *out, struct err *e)
{
    memset(out, 0, sizeof *out);
    out->start_us = h->start_us;
    out->end_us = h->start_us + h->n * h->step_us;
    out->step_us = h->step_us;
    out->n = h->n;
    out->span_days = (double)(h->n * h->step_us) / (double)US_PER_DAY;
    out->data_hash = h->data_hash;
    for (int64_t i = 0; i < h->n; i++)
        out->barred += h->barred[i];
    double *x = try_zero((size_t)h->n, sizeof *x);
    if (!x)
        return err_set(e, ERR_NOMEM, "%" PRId64 " samples", h->n);
    for (int k = 0; k < FIELD_COUNT; k++) {
        struct inspect_field *f = &out->field[k];
        if (!h->col[k])
            continue;
        f->present = true;
        runs(h->col[k], h->n, f);
        for (int64_t i = 0; i < h->n; i++)
            x[i] = (double)h->col[k][i];
        f->autocorr_day = autocorr(x, h->n, h->step_us, US_PER_DAY);
        f->autocorr_week = autocorr(x, h->n, h->step_us, 7 * US_PER_DAY);
        quantiles(x, (size_t)h->n, f);
    }
    mem_free(x);
    return ERR_OK;
}

static void time_text(int64_t us, char out[TZ_TEXT])
{
    tz_format_rfc3339(NULL, us, out);
}

static void number(double v, struct buf *out)
{
    if (isnan(v))
        buf_fmt(out, " %10s", "-");
    else
        buf_fmt(out, " %10.4g", v);
}

static void field_line(const struct inspect_field *f, enum field id, struct buf *out)
{
    buf_fmt(out, "%-15s", field_get(id)->name);
    number(f->min, out);
    number(f->median, out);
    number(f->mean, out);
    number(f->p99, out);
    number(f->max, out);
    buf_fmt(out, " %9" PRId64 " %6" PRId64 " %9" PRId64, f->missing, f->gaps, f->longest_zero_run);
    number(f->autocorr_day, out);
    number(f->autocorr_week, out);
    buf_fmt(out, "  %s\n", field_get(id)->unit);
}

void inspect_text(const struct inspect *in, const struct history *h,
                  const struct import_report *report, struct buf *out)
{
    char from[TZ_TEXT], to[TZ_TEXT], step[32], hash[HASH_HEX];
    time_text(in->start_us, from);
    time_text(in->end_us, to);
    opt_format_duration(in->step_us, step);
    hash_hex(in->data_hash, hash);
    buf_fmt(out,
            "workload  %s (%s)\nzone      %s\nspan      %s to %s, %.2f days\nsteps     %" PRId64
            " of %s, %" PRId64 " barred\ndata hash %s\n\n",
            h->workload_id, h->task_type, h->zone, from, to, in->span_days, in->n, step, in->barred,
            hash);
    buf_fmt(out, "%-15s %10s %10s %10s %10s %10s %9s %6s %9s %10s %10s\n", "field", "min", "median",
            "mean", "p99", "max", "missing", "gaps", "zero run", "corr 24h", "corr 7d");
    for (int k = 0; k < FIELD_COUNT; k++)
        if (in->field[k].present)
            field_line(&in->field[k], (enum field)k, out);
    if (!report)
        return;
    buf_str(out, "\nimport\n");
    report_text(report, out);
}

static void field_json(const struct inspect_field *f, enum field id, struct json_writer *w)
{
    json_open(w, field_get(id)->name);
    json_put_str(w, "unit", field_get(id)->unit);
    json_put_i64(w, "n", f->n);
    json_put_i64(w, "missing", f->missing);
    json_put_i64(w, "gaps", f->gaps);
    json_put_i64(w, "longest_gap_steps", f->longest_gap);
    json_put_i64(w, "zeros", f->zeros);
    json_put_i64(w, "longest_zero_run_steps", f->longest_zero_run);
    json_put_f64(w, "min", f->min);
    json_put_f64(w, "p01", f->p01);
    json_put_f64(w, "median", f->median);
    json_put_f64(w, "mean", f->mean);
    json_put_f64(w, "p99", f->p99);
    json_put_f64(w, "max", f->max);
    json_put_f64(w, "autocorr_day", f->autocorr_day);
    json_put_f64(w, "autocorr_week", f->autocorr_week);
    json_close(w);
}

void inspect_json(const struct inspect *in, const struct history *h,
                  const struct import_report *report, struct json_writer *w, const char *key)
{
    char text[TZ_TEXT], hash[HASH_HEX];
    hash_hex(in->data_hash, hash);
    json_open(w, key);
    json_put_str(w, "workload_id", h->workload_id);
    json_put_str(w, "task_type", h->task_type);
    json_put_str(w, "zone", h->zone);
    time_text(in->start_us, text);
    json_put_str(w, "start", text);
    time_text(in->end_us, text);
    json_put_str(w, "end", text);
    json_put_f64(w, "span_days", in->span_days);
    json_put_f64(w, "step_s", (double)in->step_us * 1e-6);
    json_put_i64(w, "steps", in->n);
    json_put_i64(w, "barred", in->barred);
    json_put_str(w, "data_hash", hash);
    json_open(w, "fields");
    for (int k = 0; k < FIELD_COUNT; k++)
        if (in->field[k].present)
            field_json(&in->field[k], (enum field)k, w);
    json_close(w);
    if (report)
        report_json(report, w, "import");
    json_close(w);
}
