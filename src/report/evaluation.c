/* evaluation.c - looking things up in an evaluation, and printing it as JSON, CSV and a table. */
#include "report/evaluation.h"

#include <math.h>
#include <string.h>

#include "base/json.h"
#include "report/fmt_priv.h"
#include "report/table.h"
#include "report/table_priv.h"

const struct eval_policy *eval_policy_find(const struct evaluation *ev, const char *name)
{
    for (size_t i = 0; name && i < ev->n_policies; i++)
        if (strcmp(ev->policies[i].name, name) == 0)
            return &ev->policies[i];
    return NULL;
}

const struct eval_metric *eval_metric_find(const struct eval_policy *p, const char *name)
{
    for (size_t i = 0; p && i < p->n_metrics; i++)
        if (strcmp(p->metrics[i].name, name) == 0)
            return &p->metrics[i];
    return NULL;
}

double eval_mean(const struct eval_policy *p, const char *metric)
{
    const struct eval_metric *m = eval_metric_find(p, metric);
    return m ? m->mean : NAN;
}

double eval_bound(const struct evaluation *ev, const char *name)
{
    for (size_t i = 0; i < ev->n_bounds; i++)
        if (strcmp(ev->bounds[i].name, name) == 0)
            return ev->bounds[i].value;
    return NAN;
}

const struct eval_policy *eval_baseline(const struct evaluation *ev)
{
    return eval_policy_find(ev, ev->baseline ? ev->baseline : "hpa");
}

const struct eval_policy *eval_proposal(const struct evaluation *ev)
{
    if (ev->proposal)
        return eval_policy_find(ev, ev->proposal);
    for (size_t i = 0; i < ev->n_policies; i++)
        if (ev->policies[i].role == EVAL_CONTENDER && &ev->policies[i] != eval_baseline(ev))
            return &ev->policies[i];
    return NULL;
}

enum eval_verdict eval_verdict(const struct eval_policy *p)
{
    const struct eval_metric *m = eval_metric_find(p, "cost_at_equal_misses_frac");
    if (!m || !isfinite(m->mean) || !isfinite(m->lo) || !isfinite(m->hi))
        return EVAL_UNKNOWN;
    return m->hi < 1 ? EVAL_WIN : m->lo > 1 ? EVAL_LOSS : EVAL_TIE;
}

const char *eval_verdict_text(enum eval_verdict v)
{
    static const char *const text[] = {
        [EVAL_UNKNOWN] = "-",
        [EVAL_WIN] = "cheaper",
        [EVAL_TIE] = "no clear difference",
        [EVAL_LOSS] = "dearer",
    };
    return text[v];
}

/* ---- JSON and CSV ---------------------------------------------------------------------------- */

static void put_policy(struct json_writer *w, const struct eval_policy *p)
{
    json_open(w, NULL);
    json_put_str(w, "name", p->name);
    json_open(w, "metrics");
    for (size_t i = 0; i < p->n_metrics; i++) {
        const struct eval_metric *m = &p->metrics[i];
        json_open(w, m->name);
        json_put_f64(w, "mean", m->mean);
        json_put_f64(w, "lo", m->lo);
        json_put_f64(w, "hi", m->hi);
        json_close(w);
    }
    json_close(w);
    json_close(w);
}

void evaluation_json(const struct evaluation *ev, int indent, struct buf *out)
{
    struct json_writer w = json_writer_init(out, indent);
    json_open(&w, NULL);
    json_put_str(&w, "scenario", ev->scenario);
    json_put_i64(&w, "seeds", ev->n_seeds);
    json_open_array(&w, "policies");
    for (size_t i = 0; i < ev->n_policies; i++)
        put_policy(&w, &ev->policies[i]);
    json_close_array(&w);
    json_open(&w, "bounds");
    for (size_t i = 0; i < ev->n_bounds; i++)
        json_put_f64(&w, ev->bounds[i].name, ev->bounds[i].value);
    json_close(&w);
    json_close(&w);
}

static void csv_row(const struct evaluation *ev, const char *policy, const char *metric,
                    double mean, double lo, double hi, struct buf *out)
{
    csv_text(out, ev->scenario ? ev->scenario : "");
    buf_fmt(out, ",%d,", ev->n_seeds);
    csv_text(out, policy);
    buf_char(out, ',');
    csv_text(out, metric);
    const double values[] = {mean, lo, hi};
    for (size_t i = 0; i < 3; i++) {
        buf_char(out, ',');
        csv_num(out, values[i]);
    }
    buf_str(out, "\r\n");
}

void evaluation_csv(const struct evaluation *ev, struct buf *out)
{
    buf_str(out, "scenario,seeds,policy,metric,mean,lo,hi\r\n");
    for (size_t i = 0; i < ev->n_policies; i++)
        for (size_t k = 0; k < ev->policies[i].n_metrics; k++) {
            const struct eval_metric *m = &ev->policies[i].metrics[k];
            csv_row(ev, ev->policies[i].name, m->name, m->mean, m->lo, m->hi, out);
        }
    for (size_t i = 0; i < ev->n_bounds; i++)
        csv_row(ev, "", ev->bounds[i].name, ev->bounds[i].value, NAN, NAN, out);
}

/* ---- table for people ------------------------------------------------------------------------ */

/* "1,234 (1,200..1,270)"; the mean alone when there is no interval. */
static void put_interval(struct table *t, const struct eval_metric *m, double scale, int decimals)
{
    if (!m || !isfinite(m->mean)) {
        table_skip(t);
        return;
    }
    char text[256];
    struct fmt mean = fmt_fixed(m->mean * scale, decimals), lo = fmt_fixed(m->lo * scale, decimals),
               hi = fmt_fixed(m->hi * scale, decimals);
    if (!isfinite(m->lo) || !isfinite(m->hi))
        (void)snprintf(text, sizeof text, "%s", mean.s);
    else
        (void)snprintf(text, sizeof text, "%s (%s..%s)", mean.s, lo.s, hi.s);
    table_num_text(t, m->mean, text);
}

/* Decimals that show about three digits of the largest value of a column. */
static int metric_decimals(const struct evaluation *ev, const char *metric, double scale)
{
    double most = 0;
    for (size_t i = 0; i < ev->n_policies; i++) {
        double v = fabs(eval_mean(&ev->policies[i], metric)) * scale;
        most = v > most ? v : most;
    }
    return most >= 1000 ? 0 : most >= 100 ? 1 : most >= 1 ? 2 : most > 0 ? 4 : 0;
}

static const char *remark(const struct evaluation *ev, const struct eval_policy *p)
{
    if (p->role == EVAL_REFERENCE)
        return "knows the future";
    if (eval_mean(p, "slo_violation_frac") > ev->slo_violation_max)
        return "misses too often";
    if (p == eval_baseline(ev))
        return "rules today";
    return eval_verdict_text(eval_verdict(p));
}

static void table_rows(const struct evaluation *ev, struct table *t)
{
    int cost = metric_decimals(ev, "cost_usd", 1);
    for (size_t i = 0; i < ev->n_policies; i++) {
        const struct eval_policy *p = &ev->policies[i];
        table_text(t, p->name);
        put_interval(t, eval_metric_find(p, "cost_usd"), 1, cost);
        put_interval(t, eval_metric_find(p, "slo_violation_frac"), 100, 2);
        table_num(t, eval_mean(p, "p99_latency_ms"));
        table_num(t, eval_mean(p, "scale_actions"));
        table_num(t, eval_mean(p, "reversals_per_day"));
        put_interval(t, eval_metric_find(p, "cost_at_equal_misses_frac"), 1, 3);
        table_num_text(t, eval_mean(p, "regret_frac"),
                       fmt_fixed(100 * eval_mean(p, "regret_frac"), 1).s);
        table_text(t, remark(ev, p));
    }
}

void evaluation_table(const struct evaluation *ev, bool colour, struct buf *out)
{
    static const struct table_column columns[] = {
        {"policy", NULL, 0},
        {"cost_usd", "cost $", 2},
        {"slo_violation_frac", "misses %", 2},
        {"p99_latency_ms", "p99 ms", 0},
        {"scale_actions", "actions", 0},
        {"reversals_per_day", "reversals/day", 1},
        {"cost_at_equal_misses_frac", "cost at equal misses", 3},
        {"regret_frac", "regret %", 1},
        {"remark", "", 0},
    };
    struct table *t = table_new(columns, sizeof columns / sizeof *columns);
    table_rows(ev, t);
    text_plain(out, ev->scenario ? ev->scenario : "-");
    if (ev->n_days)
        buf_fmt(out, ", %d test days", ev->n_days);
    buf_fmt(out, ", %d seed%s; 95 %% intervals in brackets\n", ev->n_seeds,
            ev->n_seeds == 1 ? "" : "s");
    table_format(t, CLI_TABLE, colour, out);
    if (isfinite(ev->slo_p99_ms) && isfinite(ev->slo_violation_max))
        buf_fmt(out, "target: p99 within %s in all but %s of steps\n", fmt_ms(ev->slo_p99_ms).s,
                fmt_percent(ev->slo_violation_max).s);
    for (size_t i = 0; i < ev->n_bounds; i++) {
        buf_str(out, "bound: ");
        text_plain(out, ev->bounds[i].name);
        bool usd = strstr(ev->bounds[i].name, "usd") != NULL;
        buf_fmt(out, " %s\n",
                (usd ? fmt_money(ev->bounds[i].value) : fmt_fixed(ev->bounds[i].value, 4)).s);
    }
    table_free(t);
}

void evaluation_format(const struct evaluation *ev, enum cli_format format, bool colour,
                       struct buf *out)
{
    switch (format) {
    case CLI_TABLE:
        evaluation_table(ev, colour, out);
        break;
    case CLI_CSV:
        evaluation_csv(ev, out);
        break;
    case CLI_JSON:
        evaluation_json(ev, 2, out);
        break;
    }
}

/* ---- the outcome in words -------------------------------------------------------------------- */

static void say_outcome(const struct evaluation *ev, const struct eval_policy *p, struct buf *out)
{
    const struct eval_metric *cost = eval_metric_find(p, "cost_usd");
    buf_str(out, p->name);
    if (!cost || !isfinite(cost->mean)) {
        buf_str(out, " has no measured cost.");
        return;
    }
    buf_fmt(out, " would have cost %s", fmt_money(cost->mean).s);
    if (isfinite(cost->lo) && isfinite(cost->hi))
        buf_fmt(out, " (%s to %s)", fmt_money(cost->lo).s, fmt_money(cost->hi).s);
    if (ev->n_days)
        buf_fmt(out, " over %d test day%s", ev->n_days, ev->n_days == 1 ? "" : "s");
    double misses = eval_mean(p, "slo_violation_frac");
    if (!isfinite(misses)) {
        buf_char(out, '.');
        return;
    }
    buf_str(out, " and missed its ");
    if (isfinite(ev->slo_p99_ms))
        buf_fmt(out, "%s ", fmt_ms(ev->slo_p99_ms).s);
    buf_fmt(out, "target in %s of steps", fmt_percent(misses).s);
    if (isfinite(ev->slo_violation_max))
        buf_fmt(out,
                misses <= ev->slo_violation_max ? ", within the allowed %s."
                                                : ", more than the allowed %s.",
                fmt_percent(ev->slo_violation_max).s);
    else
        buf_char(out, '.');
}

static void say_equal_misses(const struct eval_policy *p, const struct eval_policy *base,
                             struct buf *out)
{
    const struct eval_metric *m = eval_metric_find(p, "cost_at_equal_misses_frac");
    enum eval_verdict v = eval_verdict(p);
    if (v == EVAL_UNKNOWN)
        return;
    buf_str(out, " At equal misses ");
    if (v == EVAL_TIE)
        buf_fmt(out, "there is no clear difference to %s: %s times its cost (%s to %s).",
                base->name, fmt_ratio(m->mean).s, fmt_ratio(m->lo).s, fmt_ratio(m->hi).s);
    else
        buf_fmt(out, "it costs %s %s than %s (%s to %s times its cost).",
                fmt_percent_change(m->mean - 1).s, v == EVAL_WIN ? "less" : "more", base->name,
                fmt_ratio(m->lo).s, fmt_ratio(m->hi).s);
}

static void say_baseline(const struct eval_policy *p, const struct eval_policy *base,
                         struct buf *out)
{
    double cost = eval_mean(base, "cost_usd"), misses = eval_mean(base, "slo_violation_frac");
    if (!isfinite(cost))
        return;
    buf_fmt(out, " The rules in use today (%s) would have cost %s", base->name, fmt_money(cost).s);
    if (isfinite(misses))
        buf_fmt(out, " and missed in %s of steps", fmt_percent(misses).s);
    buf_char(out, '.');
    say_equal_misses(p, base, out);
}

static void say_best(const struct evaluation *ev, const struct eval_policy *p, struct buf *out)
{
    double cost = eval_mean(p, "cost_usd"), bound = eval_bound(ev, "cost_usd");
    double oracle = eval_mean(eval_policy_find(ev, "oracle"), "cost_usd");
    if (isfinite(cost) && bound > 0) {
        buf_fmt(out, " No policy at all could have met the target for less than %s",
                fmt_money(bound).s);
        /* Below the bound is possible for a policy that misses more than the bound allows. */
        if (cost >= bound)
            buf_fmt(out, "; %s is %s above that bound", p->name,
                    fmt_percent_change(cost / bound - 1).s);
        buf_char(out, '.');
    }
    if (isfinite(cost) && oracle > 0 && strcmp(p->name, "oracle") != 0)
        buf_fmt(out, " A plan made with full knowledge of the future (oracle) costs %s.",
                fmt_money(oracle).s);
}

void evaluation_summary(const struct evaluation *ev, struct buf *out)
{
    const struct eval_policy *p = eval_proposal(ev), *base = eval_baseline(ev);
    if (!p) {
        buf_str(out,
                "Nothing to compare: the evaluation holds no policy but the rules in use today.");
        return;
    }
    say_outcome(ev, p, out);
    if (base && base != p)
        say_baseline(p, base, out);
    say_best(ev, p, out);
}
