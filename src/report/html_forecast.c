/* html_forecast.c - the forecast's bands with what happened, and its accuracy. */
#include <math.h>

#include "report/fmt_priv.h"
#include "report/html_priv.h"
#include "report/plot_priv.h"
#include "report/svg_priv.h"

enum { FORECAST_WINDOW_DAYS = 2 };

/* The days around the largest actual value; everything when it is shorter. */
static struct report_window forecast_window(const struct report_forecast *f)
{
    size_t most = (size_t)(INT64_C(86400) * 1000000 * FORECAST_WINDOW_DAYS / f->step_us), peak = 0;
    if (most < 2 || f->n <= most)
        return (struct report_window){0, f->n};
    for (size_t i = 1; i < f->n; i++)
        if (f->actual[i] > f->actual[peak] || isnan(f->actual[peak]))
            peak = i;
    size_t from = peak > most / 2 ? peak - most / 2 : 0;
    return (struct report_window){from + most > f->n ? f->n - most : from, most};
}

static void forecast_intro(struct page *p, const struct report_forecast *f)
{
    buf_str(p->out, "<p class=\"hint\">");
    if (f->what) {
        buf_str(p->out, "Forecast: ");
        page_text(p, f->what);
        buf_str(p->out, ". ");
    }
    if (isfinite(f->coverage80_frac) && isfinite(f->coverage95_frac))
        buf_fmt(
            p->out,
            "Over the test span the 80 %% band held %s of what happened and the 95 %% band %s. ",
            fmt_percent(f->coverage80_frac).s, fmt_percent(f->coverage95_frac).s);
    if (isfinite(f->wape_frac))
        buf_fmt(p->out, "Weighted absolute error: %s. ", fmt_percent(f->wape_frac).s);
    page_text(p, f->note);
    buf_str(p->out, "</p>\n");
}

static void put_bands(struct page *p, const struct report_forecast *f, struct report_window w,
                      const struct axis *y, const struct axis *x)
{
    struct column lo[PLOT_COLUMNS_WIDE], hi[PLOT_COLUMNS_WIDE], mid[PLOT_COLUMNS_WIDE],
        act[PLOT_COLUMNS_WIDE];
    size_t n = plot_columns(w.n, PLOT_COLUMNS_WIDE);
    reduce(f->actual + w.from, w.n, act, n);
    reduce(f->mean + w.from, w.n, mid, n);
    struct buf values = buf_init(PLOT_VALUES_MAX);
    plot_values_open(&values, p, (int64_t)x->lo, (int64_t)x->hi);
    plot_values(&values, "happened", "requests/s", act, n, PLOT_LAST);
    plot_values(&values, "forecast", "requests/s", mid, n, PLOT_LAST);
    plot_open(p, "", &values);
    struct svg s =
        svg_open(p->out, "fc", 240, "Forecast and what happened",
                 "The forecast with its 80 and 95 percent bands, and the demand that followed.");
    svg_grid_y(&s, y);
    svg_grid_time(&s, x, p->d->zone, true);
    svg_layer_open(&s, n);
    if (f->lo95 && f->hi95) {
        reduce(f->lo95 + w.from, w.n, lo, n);
        reduce(f->hi95 + w.from, w.n, hi, n);
        svg_band(&s, lo, hi, n, y, "b95");
    }
    if (f->lo80 && f->hi80) {
        reduce(f->lo80 + w.from, w.n, lo, n);
        reduce(f->hi80 + w.from, w.n, hi, n);
        svg_band(&s, lo, hi, n, y, "b80");
    }
    svg_step(&s, mid, n, y, "ln c0");
    svg_step(&s, act, n, y, "act");
    svg_layer_close(&s);
    svg_close(&s);
    buf_str(p->out, "</div>");
}

void html_forecast(struct page *p)
{
    const struct report_forecast *f = p->d->forecast;
    struct report_window w = forecast_window(f);
    struct plot_range r = {0, 0};
    plot_range_add(&r, f->actual + w.from, w.n);
    plot_range_add(&r, f->hi95 ? f->hi95 + w.from : f->mean + w.from, w.n);
    struct axis y = axis_linear(0, r.hi, 5);
    int64_t lo = f->start_us + (int64_t)w.from * f->step_us;
    struct axis x = axis_time(p->d->zone, lo, lo + (int64_t)w.n * f->step_us, 12);
    page_section(p, "forecast", "Forecast, and what happened");
    forecast_intro(p, f);
    buf_str(
        p->out,
        "<figure><p class=\"cap\"><i class=\"key\" style=\"--c:var(--ink)\"></i>happened"
        "<i class=\"key c0\"></i>forecast<i class=\"key u8\"></i>80 %<i class=\"key u9\"></i>95 %"
        ", requests/s</p>");
    put_bands(p, f, w, &y, &x);
    buf_str(p->out, "</figure>\n");
    if (w.n < f->n)
        buf_fmt(p->out, "<p class=\"hint\">Drawn: the %d days around the peak.</p>\n",
                FORECAST_WINDOW_DAYS);
    html_table(p, f->scores, "Accuracy on days the models were not fitted on");
    page_section_end(p);
}
