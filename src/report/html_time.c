/* html_time.c - demand, capacity and latency over time, one small picture per policy with equal
 * scales.
 *
 * Two views: the whole test span, and the hardest day step by step.  A view draws PLOT_COLUMNS
 * columns at most; each keeps the extremes of its steps.  Misses are marked along the bottom, as
 * high as their share of the column. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "report/fmt_priv.h"
#include "report/html_priv.h"
#include "report/plot_priv.h"
#include "report/svg_priv.h"

/* A part of the timeline with the scales its pictures share. */
struct view {
    const char *id;
    const struct report_timeline *t;
    size_t from, n;
    struct axis x, x_wide, demand, units, p99;
};

bool html_timeline_drawn(const struct report_data *d)
{
    return d->timeline && d->timeline->n > 1;
}

static bool is_miss(const struct report_data *d, float p99_ms)
{
    return (double)p99_ms > d->eval->slo_p99_ms; /* false for NaN */
}

static size_t n_drawn(const struct report_timeline *t)
{
    return t->n_traces < REPORT_POLICIES_MAX ? t->n_traces : REPORT_POLICIES_MAX;
}

static int64_t time_of(const struct report_timeline *t, size_t step)
{
    return t->start_us + (int64_t)step * t->step_us;
}

/* ---- the hardest day ------------------------------------------------------------------------- */

/* First step at or after the local midnight that ends the day of `step`. */
static size_t next_day(const struct report_data *d, size_t step)
{
    const int64_t day_us = INT64_C(86400) * 1000000;
    const struct report_timeline *t = d->timeline;
    int64_t local = tz_to_local_us(d->zone, time_of(t, step)), first, second;
    int64_t midnight = (local / day_us - (local % day_us < 0) + 1) * day_us;
    (void)tz_from_local(d->zone, midnight, &first, &second);
    int64_t steps = (first - t->start_us + t->step_us - 1) / t->step_us;
    size_t next = steps > (int64_t)step ? (size_t)steps : step + 1;
    return next < t->n ? next : t->n;
}

/* Misses outweigh any demand; among days without misses the peak decides. */
static double day_score(const struct report_data *d, size_t from, size_t to)
{
    const struct report_timeline *t = d->timeline;
    double misses = 0, peak = 0;
    for (size_t i = from; i < to; i++) {
        double q = t->demand_qps ? (double)t->demand_qps[i] : 0;
        peak = q > peak && isfinite(q) ? q : peak;
        for (size_t k = 0; k < n_drawn(t); k++)
            misses += t->traces[k].p99_ms && is_miss(d, t->traces[k].p99_ms[i]);
    }
    return misses > 0 ? 1 + misses : peak / (1 + peak);
}

struct report_window html_hardest_day(const struct report_data *d)
{
    struct report_window best = {0, d->timeline->n};
    double best_score = -1;
    for (size_t from = 0, to; from < d->timeline->n; from = to) {
        to = next_day(d, from);
        double score = day_score(d, from, to);
        if (score > best_score) {
            best_score = score;
            best = (struct report_window){from, to - from};
        }
    }
    return best;
}

/* ---- scales ---------------------------------------------------------------------------------- */

static struct view view_init(const struct report_data *d, const char *id, size_t from, size_t n)
{
    const struct report_timeline *t = d->timeline;
    struct view v = {.id = id, .t = t, .from = from, .n = n};
    int64_t lo = time_of(t, from), hi = time_of(t, from + n);
    v.x = axis_time(d->zone, lo, hi, 7);
    v.x_wide = axis_time(d->zone, lo, hi, 14);
    struct plot_range demand = {0, 0}, units = {0, 0}, p99 = {INFINITY, 0};
    plot_range_add(&demand, t->demand_qps ? t->demand_qps + from : NULL, n);
    plot_range_add(&units, t->units_needed ? t->units_needed + from : NULL, n);
    for (size_t k = 0; k < n_drawn(t); k++) {
        plot_range_add(&units, t->traces[k].units_ready ? t->traces[k].units_ready + from : NULL,
                       n);
        plot_range_add(&p99, t->traces[k].p99_ms ? t->traces[k].p99_ms + from : NULL, n);
    }
    v.demand = axis_linear(0, demand.hi, 3);
    v.units = axis_linear(0, units.hi, 4);
    /* Two decades either side of the target say enough; what lies beyond is drawn at the edge. */
    double slo = d->eval->slo_p99_ms;
    if (slo > 0) {
        p99.lo = p99.lo < slo ? fmax(p99.lo, slo / 100) : slo / 2;
        p99.hi = p99.hi > slo ? fmin(p99.hi, slo * 100) : slo * 2;
    }
    v.p99 = axis_log(p99.lo, p99.hi, 4);
    return v;
}

/* ---- pictures -------------------------------------------------------------------------------- */

static void put_demand(struct page *p, const struct view *v)
{
    if (!v->t->demand_qps)
        return;
    struct column c[PLOT_COLUMNS_WIDE];
    size_t n = plot_columns(v->n, PLOT_COLUMNS_WIDE);
    reduce(v->t->demand_qps + v->from, v->n, c, n);
    struct buf values = buf_init(PLOT_VALUES_MAX);
    plot_values_open(&values, p, time_of(v->t, v->from), time_of(v->t, v->from + v->n));
    plot_values(&values, "demand, most", "requests/s", c, n, PLOT_HI);
    plot_values(&values, "demand, least", "requests/s", c, n, PLOT_LO);
    buf_str(p->out, "<figure><p class=\"cap\"><i class=\"key f\"></i>Demand, requests/s</p>");
    plot_open(p, "", &values);
    char id[32];
    (void)snprintf(id, sizeof id, "%s-demand", v->id);
    struct svg s =
        svg_open(p->out, id, 96, "Demand over time", "Requests per second as they arrived.");
    svg_grid_y(&s, &v->demand);
    svg_grid_time(&s, &v->x_wide, p->d->zone, true);
    svg_layer_open(&s, n);
    svg_area(&s, c, n, &v->demand, "dem");
    svg_step(&s, c, n, &v->demand, "dl");
    svg_layer_close(&s);
    svg_close(&s);
    buf_str(p->out, "</div></figure>\n");
}

static void miss_shares(const struct page *p, const struct view *v, const struct report_trace *tr,
                        float *share, size_t n)
{
    const float *p99 = tr->p99_ms + v->from;
    for (size_t c = 0; c < n; c++) {
        size_t from = c * v->n / n, to = (c + 1) * v->n / n, misses = 0;
        for (size_t i = from; i < to; i++)
            misses += is_miss(p->d, p99[i]);
        share[c] = (float)misses / (float)(to - from);
    }
}

static void put_capacity(struct page *p, const struct view *v, const struct report_trace *tr, int k)
{
    struct column need[PLOT_COLUMNS], ready[PLOT_COLUMNS], asked[PLOT_COLUMNS];
    float share[PLOT_COLUMNS];
    size_t n = plot_columns(v->n, PLOT_COLUMNS);
    bool has_need = v->t->units_needed,
         has_asked = tr->units_requested && v->n <= 20 * PLOT_COLUMNS;
    struct buf values = buf_init(PLOT_VALUES_MAX);
    plot_values_open(&values, p, time_of(v->t, v->from), time_of(v->t, v->from + v->n));
    reduce(tr->units_ready + v->from, v->n, ready, n);
    plot_values(&values, "ready", "units", ready, n, PLOT_LAST);
    if (has_need) {
        reduce(v->t->units_needed + v->from, v->n, need, n);
        plot_values(&values, "needed, most", "units", need, n, PLOT_HI);
    }
    if (has_asked) {
        reduce(tr->units_requested + v->from, v->n, asked, n);
        plot_values(&values, "billed", "units", asked, n, PLOT_LAST);
    }
    int colour = page_colour(p, tr->name);
    buf_fmt(p->out, "<p class=\"cap\">Units: %s<i class=\"key c%d\"></i>ready%s%s</p>",
            has_need ? "<i class=\"key f\"></i>needed" : "", colour,
            has_asked ? "<i class=\"key d\"></i>billed" : "",
            tr->p99_ms ? "<i class=\"key x\"></i>target missed" : "");
    plot_open(p, " bare", &values);
    char id[32], title[200];
    (void)snprintf(id, sizeof id, "%s-cap%d", v->id, k);
    (void)snprintf(title, sizeof title, "Capacity of %.150s", tr->name);
    struct svg s = svg_open(
        p->out, id, 118, title,
        "Units ready over time beside the fewest units that serve the demand within the target; "
        "misses are marked along the bottom.");
    svg_grid_y(&s, &v->units);
    svg_grid_time(&s, &v->x, p->d->zone, false);
    svg_layer_open(&s, n);
    if (has_need)
        svg_area(&s, need, n, &v->units, "need");
    if (has_asked)
        svg_step(&s, asked, n, &v->units, "rq");
    buf_fmt(p->out, "<g class=\"c%d\">", colour);
    svg_step(&s, ready, n, &v->units, "ln");
    buf_str(p->out, "</g>");
    if (tr->p99_ms) {
        miss_shares(p, v, tr, share, n);
        svg_bars(&s, share, n, 24, "miss");
    }
    svg_layer_close(&s);
    svg_close(&s);
    buf_str(p->out, "</div>\n");
}

static void put_latency(struct page *p, const struct view *v, const struct report_trace *tr, int k)
{
    if (!tr->p99_ms)
        return;
    struct column c[PLOT_COLUMNS];
    size_t n = plot_columns(v->n, PLOT_COLUMNS);
    reduce(tr->p99_ms + v->from, v->n, c, n);
    struct buf values = buf_init(PLOT_VALUES_MAX);
    plot_values_open(&values, p, time_of(v->t, v->from), time_of(v->t, v->from + v->n));
    plot_values(&values, "p99, most", "ms", c, n, PLOT_HI);
    int colour = page_colour(p, tr->name);
    buf_fmt(p->out,
            "<p class=\"cap\">Latency, ms, log scale: <i class=\"key c%d\"></i>p99<i class=\"key "
            "s\"></i>target</p>",
            colour);
    plot_open(p, "", &values);
    char id[32], title[200];
    (void)snprintf(id, sizeof id, "%s-p99%d", v->id, k);
    (void)snprintf(title, sizeof title, "p99 latency of %.150s", tr->name);
    struct svg s =
        svg_open(p->out, id, 84, title, "99th percentile of latency over time beside its target.");
    svg_grid_y(&s, &v->p99);
    svg_grid_time(&s, &v->x, p->d->zone, true);
    svg_layer_open(&s, n);
    buf_fmt(p->out, "<g class=\"c%d\">", colour);
    svg_step(&s, c, n, &v->p99, "ln");
    buf_str(p->out, "</g>");
    svg_layer_close(&s);
    if (p->d->eval->slo_p99_ms > 0)
        svg_rule_y(&s, &v->p99, p->d->eval->slo_p99_ms, "slo", fmt_ms(p->d->eval->slo_p99_ms).s);
    svg_close(&s);
    buf_str(p->out, "</div>\n");
}

static void put_cell(struct page *p, const struct view *v, const struct report_trace *tr, int k)
{
    buf_fmt(p->out, "<div class=\"cell k%d\"><h4>", k);
    page_chip(p, tr->name);
    size_t misses = 0, known = 0;
    for (size_t i = 0; tr->p99_ms && i < v->n; i++) {
        misses += is_miss(p->d, tr->p99_ms[v->from + i]);
        known += !isnan(tr->p99_ms[v->from + i]);
    }
    if (known)
        buf_fmt(p->out, " <span>missed %s of steps</span>",
                fmt_percent((double)misses / (double)known).s);
    buf_str(p->out, "</h4>\n");
    put_capacity(p, v, tr, k);
    put_latency(p, v, tr, k);
    buf_str(p->out, "</div>\n");
}

/* Policies in the order of their colours, so the one proposed and the rules of today come first. */
static size_t rank_traces(const struct page *p, const struct report_trace *out[REPORT_POLICIES_MAX])
{
    const struct report_timeline *t = p->d->timeline;
    size_t n = 0;
    for (int colour = 0; colour < PAGE_COLOURS; colour++)
        for (size_t k = 0; k < n_drawn(t); k++)
            if (page_colour(p, t->traces[k].name) == colour && t->traces[k].units_ready)
                out[n++] = &t->traces[k];
    return n;
}

static void put_view(struct page *p, const struct view *v, const char *heading)
{
    const struct report_trace *ranked[REPORT_POLICIES_MAX];
    size_t n = rank_traces(p, ranked);
    buf_str(p->out, "<h3>");
    page_text(p, heading);
    buf_str(p->out, "</h3>\n");
    put_demand(p, v);
    buf_str(p->out, "<div class=\"cells\">\n");
    for (size_t k = 0; k < n; k++)
        put_cell(p, v, ranked[k], (int)k);
    buf_str(p->out, "</div>\n");
}

static void put_toggles(struct page *p)
{
    const struct report_trace *ranked[REPORT_POLICIES_MAX];
    size_t n = rank_traces(p, ranked);
    for (size_t k = 0; n > 1 && k < n; k++) {
        buf_fmt(p->out,
                "<input type=\"checkbox\" class=\"tg\" id=\"tg%zu\" checked><label for=\"tg%zu\">",
                k, k);
        page_chip(p, ranked[k]->name);
        buf_str(p->out, "</label>");
    }
}

void html_time(struct page *p)
{
    const struct report_timeline *t = p->d->timeline;
    int64_t end_us = time_of(t, t->n);
    double span_s = (double)(end_us - t->start_us) / 1e6;
    page_section(p, "time", "Demand, capacity and latency over time");
    buf_fmt(p->out, "<p class=\"hint\">%s to %s, ", fmt_day(p->d->zone, t->start_us).s,
            fmt_day(p->d->zone, end_us - 1).s);
    page_text(p, fmt_zone(p->d->zone));
    buf_fmt(p->out,
            ", in steps of %s. All policies saw the same demand and the same failures. Where a "
            "column covers "
            "several steps it shows their least and their most.",
            fmt_duration((double)t->step_us / 1e6).s);
    if (t->note) {
        buf_char(p->out, ' ');
        page_text(p, t->note);
    }
    buf_str(p->out, "</p>\n");
    put_toggles(p);
    buf_str(p->out, "<div class=\"multiples\">\n");
    char heading[160];
    struct view whole = view_init(p->d, "all", 0, t->n);
    (void)snprintf(heading, sizeof heading, "The whole test span, %s", fmt_duration(span_s).s);
    put_view(p, &whole, heading);
    if (span_s > 1.6 * 86400) {
        struct report_window w = html_hardest_day(p->d);
        struct view day = view_init(p->d, "day", w.from, w.n);
        (void)snprintf(heading, sizeof heading, "The hardest day, %s",
                       fmt_day(p->d->zone, time_of(t, w.from)).s);
        put_view(p, &day, heading);
    }
    buf_str(p->out, "</div>\n");
    page_section_end(p);
}
