/* html.c - the page around its sections: head, headline, navigation, order. */
#include "report/html.h"

#include <math.h>
#include <string.h>

#include "base/build.h"
#include "base/file.h"
#include "base/mem.h"
#include "report/fmt_priv.h"
#include "report/html_priv.h"
#include "report/text.h"

/* ---- shared by the sections ------------------------------------------------------------------ */

static void order_add(struct page *p, const char *name)
{
    for (size_t i = 0; i < p->n_order; i++)
        if (strcmp(p->order[i], name) == 0)
            return;
    if (p->n_order < PAGE_POLICIES_MAX)
        p->order[p->n_order++] = name;
}

static struct page page_init(const struct report_data *d, struct buf *out)
{
    struct page p = {.d = d, .out = out};
    const struct evaluation *ev = d->eval;
    const struct eval_policy *proposal = eval_proposal(ev), *baseline = eval_baseline(ev);
    if (proposal)
        order_add(&p, proposal->name);
    if (baseline)
        order_add(&p, baseline->name);
    for (size_t i = 0; i < ev->n_policies; i++)
        order_add(&p, ev->policies[i].name);
    return p;
}

size_t page_rank(const struct page *p, const char *name)
{
    size_t i = 0;
    while (i < p->n_order && strcmp(p->order[i], name) != 0)
        i++;
    return i;
}

int page_colour(const struct page *p, const char *name)
{
    size_t rank = page_rank(p, name);
    return rank < PAGE_COLOURS ? (int)rank : PAGE_COLOURS - 1;
}

void page_text(struct page *p, const char *s)
{
    if (s)
        text_html(p->out, s);
}

void page_section(struct page *p, const char *id, const char *heading)
{
    buf_fmt(p->out, "<section class=\"part\" id=\"%s\" aria-labelledby=\"%s-h\">\n<h2 id=\"%s-h\">",
            id, id, id);
    page_text(p, heading);
    buf_str(p->out, "</h2>\n");
}

void page_section_end(struct page *p)
{
    buf_str(p->out, "</section>\n");
}

const char *page_marker(const struct page *p, const char *name)
{
    static const char *const path[PAGE_MARKERS] = {
        "M-6 0a6 6 0 1 0 12 0a6 6 0 1 0-12 0z",              /* disc */
        "M-5.3-5.3h10.6v10.6h-10.6z",                        /* square */
        "M0-7L7 0L0 7L-7 0z",                                /* diamond */
        "M0-6.5L6.5 5.5H-6.5z",                              /* triangle */
        "M0 6.5L6.5-5.5H-6.5z",                              /* triangle, point down */
        "M-2-6.5h4v4.5h4.5v4h-4.5v4.5h-4v-4.5h-4.5v-4h4.5z", /* plus */
        "M-3-6.2h6l3.6 6.2l-3.6 6.2h-6l-3.6-6.2z",           /* hexagon */
        "M-6.5-3h13v6h-13z",                                 /* bar */
        "M-6-3.2L-3.2-6L0-2.8L3.2-6L6-3.2L2.8 0L6 3.2L3.2 6L0 2.8L-3.2 6L-6 3.2L-2.8 0z", /* cross
                                                                                           */
        "M-3-6.5h6v13h-6z",             /* upright bar */
        "M-6-6H6L2.5 0L6 6H-6L-2.5 0z", /* hourglass */
        "M6.5 0L-5.5-6.5V6.5z",         /* triangle, point right */
    };
    return path[page_rank(p, name) % PAGE_MARKERS];
}

void page_chip(struct page *p, const char *name)
{
    buf_fmt(p->out,
            "<svg class=\"chip c%d\" viewBox=\"-7 -7 14 14\" aria-hidden=\"true\"><path "
            "d=\"%s\"/></svg>",
            page_colour(p, name), page_marker(p, name));
    page_text(p, name);
}

/* ---- headline -------------------------------------------------------------------------------- */

static void tile(struct page *p, const char *label, const char *cls, const char *value)
{
    buf_str(p->out, "<div class=\"tile\"><span class=\"k\">");
    page_text(p, label);
    buf_fmt(p->out, "</span><b class=\"%s\">", cls);
    page_text(p, value);
    buf_str(p->out, "</b><span>");
}

static void tile_end(struct page *p)
{
    buf_str(p->out, "</span></div>\n");
}

static void tile_cost(struct page *p, const struct eval_policy *me, const struct eval_policy *base)
{
    tile(p, "Cost", "", fmt_money(eval_mean(me, "cost_usd")).s);
    if (base && base != me) {
        buf_str(p->out, "rules today: ");
        buf_str(p->out, fmt_money(eval_mean(base, "cost_usd")).s);
    }
    tile_end(p);
}

static void tile_misses(struct page *p, const struct eval_policy *me,
                        const struct eval_policy *base)
{
    const struct evaluation *ev = p->d->eval;
    double misses = eval_mean(me, "slo_violation_frac"), allowed = ev->slo_violation_max;
    const char *cls = !isfinite(allowed) ? "" : misses <= allowed ? "good" : "bad";
    tile(p, "Latency target missed", cls, fmt_percent(misses).s);
    buf_str(p->out, "of steps");
    if (isfinite(allowed))
        buf_fmt(p->out, "<br>allowed: %s", fmt_percent(allowed).s);
    if (base && base != me)
        buf_fmt(p->out, "<br>rules today: %s",
                fmt_percent(eval_mean(base, "slo_violation_frac")).s);
    tile_end(p);
}

static void tile_equal(struct page *p, const struct eval_policy *me)
{
    const struct eval_metric *m = eval_metric_find(me, "cost_at_equal_misses_frac");
    enum eval_verdict v = eval_verdict(me);
    if (v == EVAL_UNKNOWN)
        return;
    static const char *const cls[] = {[EVAL_WIN] = "good", [EVAL_TIE] = "tie", [EVAL_LOSS] = "bad"};
    struct fmt value = {"no clear difference"};
    if (v != EVAL_TIE) {
        struct fmt change = fmt_percent_change(m->mean - 1);
        (void)snprintf(value.s, sizeof value.s, "%.40s %s", change.s, eval_verdict_text(v));
    }
    tile(p, "Against the rules, at equal misses", cls[v], value.s);
    buf_fmt(p->out, "%s times their cost<br>95 %% interval: %s to %s", fmt_ratio(m->mean).s,
            fmt_ratio(m->lo).s, fmt_ratio(m->hi).s);
    tile_end(p);
}

static void tile_best(struct page *p, const struct eval_policy *me)
{
    const struct evaluation *ev = p->d->eval;
    double cost = eval_mean(me, "cost_usd"), bound = eval_bound(ev, "cost_usd");
    const struct eval_policy *oracle = eval_policy_find(ev, "oracle");
    if (!isfinite(cost) || !(bound > 0))
        return;
    struct fmt value = fmt_percent_change(cost / bound - 1);
    tile(p, cost >= bound ? "Above the best possible at all" : "Below the bound, by missing more",
         "", value.s);
    buf_fmt(p->out, "lower bound: %s", fmt_money(bound).s);
    if (oracle && oracle != me)
        buf_fmt(p->out, "<br>with perfect foresight: %s",
                fmt_money(eval_mean(oracle, "cost_usd")).s);
    tile_end(p);
}

static void put_notes(struct page *p)
{
    if (p->d->n_notes == 0)
        return;
    buf_str(p->out, "<div class=\"notes\" role=\"note\"><ul>\n");
    for (size_t i = 0; i < p->d->n_notes; i++) {
        buf_str(p->out, "<li>");
        page_text(p, p->d->notes[i]);
        buf_str(p->out, "</li>\n");
    }
    buf_str(p->out, "</ul></div>\n");
}

void html_summary(struct page *p)
{
    const struct evaluation *ev = p->d->eval;
    const struct eval_policy *me = eval_proposal(ev), *base = eval_baseline(ev);
    struct buf words = buf_init(1 << 16);
    evaluation_summary(ev, &words);
    buf_str(p->out, "<p class=\"lead\" id=\"summary\">");
    page_text(p, words.p);
    buf_str(p->out, "</p>\n");
    buf_fini(&words);
    if (me) {
        buf_str(p->out, "<div class=\"tiles\">\n");
        tile_cost(p, me, base);
        tile_misses(p, me, base);
        tile_equal(p, me);
        tile_best(p, me);
        buf_str(p->out, "</div>\n");
    }
    put_notes(p);
}

/* ---- page
 * ------------------------------------------------------------------------------------------------
 */

struct part {
    const char *id, *link;
    bool present;
    void (*write)(struct page *p);
};

static const char *title_of(const struct report_data *d)
{
    return d->title ? d->title : "Capacity report";
}

static void put_lines(struct buf *out, const char *const *lines)
{
    for (; *lines; lines++)
        buf_str(out, *lines);
}

static void put_head(struct page *p)
{
    buf_str(p->out, "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n");
    buf_fmt(
        p->out,
        "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; img-src data:; "
        "style-src 'unsafe-inline'; script-src 'sha256-%s'; base-uri 'none'; form-action "
        "'none'\">\n",
        page_script_hash);
    buf_str(p->out, "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
                    "<meta name=\"color-scheme\" content=\"light dark\">\n"
                    "<meta name=\"referrer\" content=\"no-referrer\">\n"
                    "<link rel=\"icon\" href=\"data:,\">\n<title>");
    page_text(p, title_of(p->d));
    buf_str(p->out, "</title>\n<style>\n");
    put_lines(p->out, page_style);
    buf_str(p->out, "</style>\n</head>\n<body>\n");
}

static void put_subtitle(struct page *p)
{
    const struct evaluation *ev = p->d->eval;
    buf_str(p->out, "<p class=\"sub\">Scenario ");
    page_text(p, ev->scenario ? ev->scenario : "-");
    if (ev->n_days)
        buf_fmt(p->out, " · %d test day%s no policy was trained or tuned on", ev->n_days,
                ev->n_days == 1 ? "" : "s");
    buf_fmt(p->out, " · %d seed%s", ev->n_seeds, ev->n_seeds == 1 ? "" : "s");
    if (isfinite(ev->slo_p99_ms))
        buf_fmt(p->out, " · target p99 ≤ %s", fmt_ms(ev->slo_p99_ms).s);
    if (isfinite(ev->slo_violation_max))
        buf_fmt(p->out, " in all but %s of steps", fmt_percent(ev->slo_violation_max).s);
    buf_str(p->out, "</p>\n");
}

static void put_header(struct page *p, const struct part *parts, size_t n)
{
    buf_str(p->out, "<header>\n<h1>");
    page_text(p, title_of(p->d));
    buf_str(p->out, "</h1>\n");
    put_subtitle(p);
    buf_str(p->out, "<nav aria-label=\"Sections\">");
    for (size_t i = 0; i < n; i++)
        if (parts[i].present)
            buf_fmt(p->out, "<a href=\"#%s\">%s</a>\n", parts[i].id, parts[i].link);
    buf_str(p->out, "</nav>\n</header>\n");
}

static void put_foot(struct page *p)
{
    buf_fmt(p->out,
            "<footer>Made by sluice %s, commit %s. The page is self-contained: it loads "
            "nothing.</footer>\n",
            build_version(), build_commit());
    buf_str(p->out, "<script>");
    put_lines(p->out, page_script);
    buf_str(p->out, "</script>\n</body>\n</html>\n");
}

static enum err_code check_data(const struct report_data *d, struct err *e)
{
    if (!d->eval)
        return err_set(e, ERR_INVAL, "report: no evaluation given");
    const struct report_timeline *t = d->timeline;
    const int64_t most_us = INT64_C(50) * 366 * 86400 * 1000000;
    if (t && t->n && (t->step_us <= 0 || t->n > (size_t)(most_us / t->step_us)))
        return err_set(e, ERR_INVAL,
                       "report: timeline of %zu steps of %lld us is not within 50 years", t->n,
                       (long long)t->step_us);
    const struct report_forecast *f = d->forecast;
    if (f && f->n && (f->step_us <= 0 || f->n > (size_t)(most_us / f->step_us)))
        return err_set(e, ERR_INVAL,
                       "report: forecast of %zu steps of %lld us is not within 50 years", f->n,
                       (long long)f->step_us);
    return ERR_OK;
}

enum err_code report_html(const struct report_data *d, struct buf *out, struct err *e)
{
    if (check_data(d, e))
        return e ? e->code : ERR_INVAL;
    struct page p = page_init(d, out);
    const struct part parts[] = {
        {"plane", "Cost and misses", d->eval->n_policies > 0, html_plane},
        {"table", "Comparison", d->eval->n_policies > 0, html_evaluation},
        {"time", "Over time", html_timeline_drawn(d), html_time},
        {"forecast", "Forecast", d->forecast && d->forecast->n > 1, html_forecast},
        {"decisions", "Decisions", d->n_decisions > 0, html_decisions},
        {"tree", "As a tree", d->tree_text != NULL, html_tree},
        {"learning", "Training", d->learning && d->learning->n > 1, html_learning},
        {"provenance", "Provenance", d->n_provenance > 0 || d->config_text, html_provenance},
    };
    put_head(&p);
    put_header(&p, parts, ARRAY_LEN(parts));
    buf_str(out, "<main>\n");
    html_summary(&p);
    for (size_t i = 0; i < ARRAY_LEN(parts); i++)
        if (parts[i].present)
            parts[i].write(&p);
    buf_str(out, "</main>\n");
    put_foot(&p);
    if (buf_check(out, e))
        return err_wrap(e, "report");
    return ERR_OK;
}

enum err_code report_html_write(const struct report_data *d, const char *path, struct err *e)
{
    struct buf out = buf_init(REPORT_BYTES_MAX);
    enum err_code rc = report_html(d, &out, e);
    if (rc == ERR_OK)
        rc = file_write(path, out.p, out.n, e);
    buf_fini(&out);
    return rc;
}
