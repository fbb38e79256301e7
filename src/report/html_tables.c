/* html_tables.c - the page's tables and verbatim parts: comparison, decisions, tree, provenance. */
#include <math.h>
#include <string.h>

#include "base/mem.h"
#include "report/fmt_priv.h"
#include "report/html_priv.h"
#include "report/table_priv.h"
#include "report/text.h"

static void scroll_open(struct page *p, const char *label)
{
    buf_fmt(p->out, "<div class=\"scroll\" role=\"region\" tabindex=\"0\" aria-label=\"%s\">",
            label);
}

void html_table(struct page *p, const struct table *t, const char *caption)
{
    if (!t || !table_n_rows(t))
        return;
    buf_fmt(p->out, "<p class=\"hint\">%s:</p>\n", caption);
    scroll_open(p, caption);
    buf_str(p->out, "<table><thead><tr>");
    for (size_t c = 0; c < table_n_columns(t); c++) {
        buf_str(p->out, "<th scope=\"col\">");
        page_text(p, table_title(t, c));
        buf_str(p->out, "</th>");
    }
    buf_str(p->out, "</tr></thead>\n<tbody>");
    struct buf shown = buf_init(1 << 16);
    for (size_t r = 0; r < table_n_rows(t); r++) {
        buf_str(p->out, "<tr>");
        for (size_t c = 0; c < table_n_columns(t); c++) {
            buf_clear(&shown);
            bool right = table_cell_shown(t, r, c, &shown);
            buf_str(p->out, c == 0 ? "<th scope=\"row\">" : right ? "<td>" : "<td class=\"l\">");
            page_text(p, shown.p);
            buf_str(p->out, c == 0 ? "</th>" : "</td>");
        }
        buf_str(p->out, "</tr>\n");
    }
    buf_fini(&shown);
    buf_str(p->out, "</tbody></table></div>\n");
}

/* ---- comparison ------------------------------------------------------------------------------ */

struct metric_column {
    const char *name, *title;
    struct fmt (*shown)(double v);
    bool interval;
};

static struct fmt one_decimal(double v)
{
    return fmt_fixed(v, 1);
}

static struct fmt regret(double v)
{
    return fmt_percent(v);
}

static const struct metric_column metric_columns[] = {
    {"cost_usd", "Cost", fmt_money, true},
    {"slo_violation_frac", "Steps missed", fmt_percent, true},
    {"slo_violation_request_frac", "Requests missed", fmt_percent, false},
    {"p99_latency_ms", "p99", fmt_ms, false},
    {"cost_at_equal_misses_frac", "Cost at equal misses", fmt_ratio, true},
    {"regret_frac", "Above perfect foresight", regret, false},
    {"scale_actions", "Actions", fmt_count, false},
    {"reversals_per_day", "Reversals a day", one_decimal, true},
};

static bool column_used(const struct evaluation *ev, const char *metric)
{
    for (size_t i = 0; i < ev->n_policies; i++)
        if (isfinite(eval_mean(&ev->policies[i], metric)))
            return true;
    return false;
}

static void put_metric(struct page *p, const struct metric_column *c, const struct eval_metric *m)
{
    buf_str(p->out, "<td>");
    buf_str(p->out, m ? c->shown(m->mean).s : "-");
    if (m && c->interval && isfinite(m->lo) && isfinite(m->hi))
        buf_fmt(p->out, "<small>%s – %s</small>", c->shown(m->lo).s, c->shown(m->hi).s);
    buf_str(p->out, "</td>");
}

static void put_verdict(struct page *p, const struct eval_policy *policy)
{
    const struct evaluation *ev = p->d->eval;
    static const char *const cls[] = {
        [EVAL_UNKNOWN] = "tie", [EVAL_WIN] = "good", [EVAL_TIE] = "tie", [EVAL_LOSS] = "bad"};
    enum eval_verdict v = eval_verdict(policy);
    bool too_often = eval_mean(policy, "slo_violation_frac") > ev->slo_violation_max;
    if (policy->role == EVAL_REFERENCE)
        buf_str(p->out, "<td class=\"l\">knows the future");
    else if (policy == eval_baseline(ev))
        buf_str(p->out, "<td class=\"l\">rules today");
    else
        buf_fmt(p->out, "<td class=\"l v\"><span class=\"%s\">%s</span>", cls[v],
                eval_verdict_text(v));
    if (too_often)
        buf_str(p->out, "<small class=\"bad\">misses too often</small>");
    buf_str(p->out, "</td>");
}

static void put_policy_row(struct page *p, const struct eval_policy *policy)
{
    const struct evaluation *ev = p->d->eval;
    buf_fmt(p->out, "<tr class=\"%s\"><th scope=\"row\">",
            policy == eval_proposal(ev)      ? "me"
            : policy->role == EVAL_REFERENCE ? "ref"
                                             : "");
    page_chip(p, policy->name);
    buf_str(p->out, "</th>");
    put_verdict(p, policy);
    for (size_t i = 0; i < ARRAY_LEN(metric_columns); i++)
        if (column_used(ev, metric_columns[i].name))
            put_metric(p, &metric_columns[i], eval_metric_find(policy, metric_columns[i].name));
    buf_str(p->out, "</tr>\n");
}

static void put_bounds(struct page *p)
{
    const struct evaluation *ev = p->d->eval;
    if (!ev->n_bounds)
        return;
    buf_str(p->out, "<p class=\"hint\">Bounds no policy can beat: ");
    for (size_t i = 0; i < ev->n_bounds; i++) {
        if (i)
            buf_str(p->out, ", ");
        page_text(p, ev->bounds[i].name);
        bool usd = strstr(ev->bounds[i].name, "usd") != NULL;
        buf_fmt(p->out, " %s",
                (usd ? fmt_money(ev->bounds[i].value) : fmt_fixed(ev->bounds[i].value, 4)).s);
    }
    buf_str(p->out, ".</p>\n");
}

void html_evaluation(struct page *p)
{
    const struct evaluation *ev = p->d->eval;
    page_section(p, "table", "All policies compared");
    buf_str(p->out, "<p class=\"hint\" id=\"table-how\">Means over days and seeds with 95 % "
                    "intervals; every policy met "
                    "the same demand and the same failures. Cost at equal misses is in multiples "
                    "of what the rules of today, "
                    "tuned to the same misses, would cost; a difference counts only when its whole "
                    "interval is on one "
                    "side of 1.</p>\n");
    scroll_open(p, "All policies compared");
    buf_str(p->out,
            "<table id=\"evaluation\" aria-describedby=\"table-how\"><thead><tr><th "
            "scope=\"col\">Policy</th><th scope=\"col\" class=\"l\">Against the rules</th>");
    for (size_t i = 0; i < ARRAY_LEN(metric_columns); i++)
        if (column_used(ev, metric_columns[i].name))
            buf_fmt(p->out, "<th scope=\"col\">%s</th>", metric_columns[i].title);
    buf_str(p->out, "</tr></thead>\n<tbody>");
    for (size_t i = 0; i < p->n_order; i++)
        put_policy_row(p, eval_policy_find(ev, p->order[i]));
    buf_str(p->out, "</tbody></table></div>\n");
    put_bounds(p);
    page_section_end(p);
}

/* ---- decisions ------------------------------------------------------------------------------- */

enum { DECISIONS_OPEN = 16 }; /* in sight; the rest opens on request */

static const char *const verdict_class[] = {
    [REPORT_PASS] = "", [REPORT_LIMIT] = "lim", [REPORT_VETO] = "veto"};

static void put_check(struct page *p, const struct report_check *c)
{
    buf_fmt(p->out, "<span class=\"%s\">", verdict_class[c->verdict]);
    page_text(p, c->name);
    buf_fmt(p->out, " %s</span>", report_verdict_text(c->verdict));
    if (c->reason && *c->reason) {
        buf_str(p->out, ": ");
        page_text(p, c->reason);
    }
}

/* What decided in sight, the whole chain one click away. */
static void put_chain(struct page *p, const struct report_decision *d)
{
    if (!d->n_checks) {
        buf_str(p->out, "no guard");
        return;
    }
    bool all_passed = true;
    for (size_t i = 0; i < d->n_checks; i++) {
        if (d->checks[i].verdict == REPORT_PASS)
            continue;
        if (!all_passed)
            buf_str(p->out, "; ");
        all_passed = false;
        put_check(p, &d->checks[i]);
    }
    if (all_passed)
        buf_fmt(p->out, "all %zu checks passed", d->n_checks);
    buf_fmt(p->out, "<details><summary>all %zu checks</summary><ol>", d->n_checks);
    for (size_t i = 0; i < d->n_checks; i++) {
        buf_str(p->out, "<li>");
        put_check(p, &d->checks[i]);
        buf_str(p->out, "</li>");
    }
    buf_str(p->out, "</ol></details>");
}

static void put_factors(struct page *p, const struct report_decision *d)
{
    if (!d->factors[0]) {
        buf_char(p->out, '-');
        return;
    }
    buf_str(p->out, "<ul>");
    for (size_t i = 0; i < REPORT_FACTORS && d->factors[i]; i++) {
        buf_str(p->out, "<li>");
        page_text(p, d->factors[i]);
        buf_str(p->out, "</li>");
    }
    buf_str(p->out, "</ul>");
}

static void put_decision(struct page *p, const struct report_decision *d)
{
    buf_fmt(p->out, "<tr role=\"row\"><th role=\"rowheader\" scope=\"row\" class=\"t\">%s</th>",
            fmt_time(p->d->zone, d->time_us).s);
    buf_str(p->out, "<td role=\"cell\" data-h=\"Policy\">");
    page_chip(p, d->policy ? d->policy : "-");
    buf_fmt(p->out, "</td><td role=\"cell\" class=\"u\" data-h=\"Units\">%d → %d", d->units_from,
            d->units_to);
    if (d->units_proposed != d->units_to)
        buf_fmt(p->out, "<small>proposed %d</small>", d->units_proposed);
    buf_str(p->out, "</td><td role=\"cell\" data-h=\"Why\">");
    put_factors(p, d);
    buf_str(p->out, "</td><td role=\"cell\" data-h=\"Guard\">");
    put_chain(p, d);
    buf_str(p->out, "</td><td role=\"cell\" data-h=\"Rules would\">");
    if (d->rule_name) {
        page_text(p, d->rule_name);
        buf_fmt(p->out, ": %d", d->rule_units);
    } else {
        buf_char(p->out, '-');
    }
    buf_str(p->out, "</td></tr>\n");
}

/* Rows [from, to).  The roles keep the table a table where a narrow page lays its rows out as
 * cards. */
static void put_decision_table(struct page *p, const char *label, size_t from, size_t to)
{
    scroll_open(p, label);
    buf_str(p->out,
            "<table class=\"dec\" role=\"table\"><thead role=\"rowgroup\"><tr role=\"row\">");
    static const char *const heads[] = {"Time", "Policy", "Units", "Why", "Guard", "Rules would"};
    for (size_t i = 0; i < ARRAY_LEN(heads); i++)
        buf_fmt(p->out, "<th role=\"columnheader\" scope=\"col\">%s</th>", heads[i]);
    buf_str(p->out, "</tr></thead>\n<tbody role=\"rowgroup\">");
    for (size_t i = from; i < to; i++)
        put_decision(p, &p->d->decisions[i]);
    buf_str(p->out, "</tbody></table></div>\n");
}

void html_decisions(struct page *p)
{
    const struct report_data *d = p->d;
    size_t shown = d->n_decisions < REPORT_DECISIONS_MAX ? d->n_decisions : REPORT_DECISIONS_MAX;
    size_t total = d->n_decisions_total > d->n_decisions ? d->n_decisions_total : d->n_decisions;
    page_section(p, "decisions", "Decisions, and why");
    buf_fmt(p->out, "<p class=\"hint\">%s of %s decisions. ", fmt_count((double)shown).s,
            fmt_count((double)total).s);
    page_text(p, d->decisions_note);
    buf_str(p->out, " Times are ");
    page_text(p, fmt_zone(d->zone));
    buf_str(p->out, ".</p>\n");
    size_t first = shown <= DECISIONS_OPEN + DECISIONS_OPEN / 2 ? shown : DECISIONS_OPEN;
    put_decision_table(p, "Decisions", 0, first);
    if (first < shown) {
        buf_fmt(p->out, "<details><summary>%zu more</summary>\n", shown - first);
        put_decision_table(p, "More decisions", first, shown);
        buf_str(p->out, "</details>\n");
    }
    page_section_end(p);
}
/* ---- verbatim -------------------------------------------------------------------------------- */

static void put_verbatim(struct page *p, const char *text)
{
    struct buf cut = buf_init(REPORT_TEXT_MAX + 1);
    size_t n = strlen(text);
    buf_add(&cut, text, n < REPORT_TEXT_MAX ? n : REPORT_TEXT_MAX);
    buf_str(p->out, "<pre tabindex=\"0\">");
    page_text(p, cut.p);
    buf_str(p->out, "</pre>\n");
    if (n > REPORT_TEXT_MAX)
        buf_fmt(p->out, "<p class=\"hint\">Cut here: %zu of %zu bytes shown.</p>\n",
                (size_t)REPORT_TEXT_MAX, n);
    buf_fini(&cut);
}

void html_tree(struct page *p)
{
    page_section(p, "tree", "The policy as a small tree");
    buf_str(
        p->out,
        "<p class=\"hint\">A decision tree fitted to the policy's choices, to read, not to run. ");
    if (isfinite(p->d->tree_fidelity_frac))
        buf_fmt(p->out, "On states it was not fitted to it agrees with the policy in %s of cases.",
                fmt_percent(p->d->tree_fidelity_frac).s);
    buf_str(p->out, "</p>\n");
    put_verbatim(p, p->d->tree_text);
    page_section_end(p);
}

void html_provenance(struct page *p)
{
    page_section(p, "provenance", "Where these numbers come from");
    if (p->d->n_provenance) {
        buf_str(p->out, "<dl>\n");
        for (size_t i = 0; i < p->d->n_provenance; i++) {
            buf_str(p->out, "<dt>");
            page_text(p, p->d->provenance[i].key);
            buf_str(p->out, "</dt><dd>");
            page_text(p, p->d->provenance[i].value);
            buf_str(p->out, "</dd>\n");
        }
        buf_str(p->out, "</dl>\n");
    }
    if (p->d->config_text) {
        buf_str(p->out, "<details><summary>Configuration in effect</summary>\n");
        put_verbatim(p, p->d->config_text);
        buf_str(p->out, "</details>\n");
    }
    page_section_end(p);
}
