#include "report/daily.h"

#include <math.h>
#include <string.h>

#include "base/json.h"
#include "report/fmt_priv.h"
#include "report/html_priv.h"
#include "report/table.h"

/* ---- words ------------------------------------------------------------------------------------ */

static void day_time(const struct daily_report *r, int64_t us, char out[TZ_TEXT])
{
    tz_format_naive(tz_to_local_us(r->zone, us) / 1000000 * 1000000, out);
}

static void clock_time(const struct daily_report *r, int64_t us, char out[16])
{
    struct tz_civil c = tz_civil(tz_to_local_us(r->zone, us));
    (void)snprintf(out, 16, "%02d:%02d", c.hour, c.minute);
}

static void percent(struct buf *out, double frac, bool sign)
{
    if (isnan(frac))
        buf_str(out, "?");
    else
        buf_fmt(out, sign ? "%+.1f %%" : "%.2f %%", 100 * frac);
}

static void interval(struct buf *out, const struct daily_interval *i)
{
    percent(out, i->mean, true);
    if (isnan(i->lo))
        return;
    buf_str(out, " (");
    percent(out, i->lo, true);
    buf_str(out, " to ");
    percent(out, i->hi, true);
    buf_char(out, ')');
}

static void range(struct buf *out, int lo, int hi)
{
    if (lo == hi)
        buf_fmt(out, "%d", lo);
    else
        buf_fmt(out, "%d-%d", lo, hi);
}

struct sums {
    double recorded_usd, sluice_usd;
    double recorded_misses, sluice_misses, hours; /* misses weighted by hours */
    size_t compared, disagreements;
};

static struct sums sum_up(const struct daily_report *r)
{
    struct sums s = {0};
    for (size_t i = 0; i < r->n_targets; i++) {
        const struct daily_target *t = &r->target[i];
        s.disagreements += t->n_disagreements + t->n_left_out;
        if (!t->compared)
            continue;
        s.compared++;
        s.recorded_usd += t->recorded.cost_usd;
        s.sluice_usd += t->sluice.cost_usd;
        s.recorded_misses += t->recorded.slo_violation_frac * t->hours;
        s.sluice_misses += t->sluice.slo_violation_frac * t->hours;
        s.hours += t->hours;
    }
    return s;
}

void daily_summary(const struct daily_report *r, struct buf *out)
{
    struct sums s = sum_up(r);
    buf_fmt(out, "%zu target%s, ", r->n_targets, r->n_targets == 1 ? "" : "s");
    if (s.compared)
        buf_fmt(out, "%zu compared", s.compared);
    else
        buf_str(out, "too little on record to compare");
    if (s.compared && s.recorded_usd > 0) {
        buf_fmt(out, ": the sizes as they were cost %.2f USD, sluice's would have cost %.2f USD (", s.recorded_usd,
                s.sluice_usd);
        percent(out, s.sluice_usd / s.recorded_usd - 1, true);
        buf_str(out, "), and missed the target in ");
        percent(out, s.sluice_misses / s.hours, false);
        buf_str(out, " of the steps instead of ");
        percent(out, s.recorded_misses / s.hours, false);
    }
    buf_fmt(out, "; %zu disagreement%s.", s.disagreements, s.disagreements == 1 ? "" : "s");
}

/* ---- text ------------------------------------------------------------------------------------- */

static struct table *side_table(const struct daily_target *t)
{
    static const struct table_column columns[] = {
        {"sizes", NULL, 0},        {"cost_usd", "cost $", 2}, {"unit_hours", "unit h", 1},
        {"slo_violation_frac", "misses", 4}, {"p99_ms", "p99 ms", 0},   {"actions", NULL, 0},
        {"reversals", NULL, 0}};
    const struct {
        const char *name;
        const struct daily_side *side;
    } rows[] = {{t->acted ? "as they were (sluice acted)" : "as they were", &t->recorded},
                {t->policy, &t->sluice},
                {t->rules, &t->rules_side}};
    struct table *x = table_new(columns, sizeof columns / sizeof columns[0]);
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        char shown[24];
        table_text(x, rows[i].name);
        table_num(x, rows[i].side->cost_usd);
        table_num(x, rows[i].side->unit_hours);
        (void)snprintf(shown, sizeof shown, "%.2f %%", 100 * rows[i].side->slo_violation_frac);
        table_num_text(x, rows[i].side->slo_violation_frac, shown);
        table_num(x, rows[i].side->p99_ms);
        table_num(x, rows[i].side->actions);
        table_num(x, rows[i].side->reversals);
    }
    return x;
}

static void disagreement_line(const struct daily_report *r, const struct daily_disagreement *d, struct buf *out)
{
    char from[16], to[16];
    clock_time(r, d->from_us, from);
    clock_time(r, d->to_us, to);
    buf_fmt(out, "%s-%s  sluice ", from, to);
    range(out, d->sluice_lo, d->sluice_hi);
    buf_str(out, d->against_rules ? ", rules " : ", as it was ");
    range(out, d->rules_lo, d->rules_hi);
    buf_fmt(out, " units (%+.2f unit h)", d->unit_hours);
    if (d->needed >= 0)
        buf_fmt(out, "; demand needed %d", d->needed);
    buf_fmt(out, ": %s", d->verdict);
}

static void target_text(const struct daily_report *r, const struct daily_target *t, bool colour, struct buf *out)
{
    buf_fmt(out, "\n%s", t->name);
    if (t->hours > 0)
        buf_fmt(out, ": %.1f h, %.0f %% of it recorded; target p99 %.0f ms in all but %.2g %% of steps", t->hours,
                100 * t->measured_frac, t->slo_p99_ms, 100 * t->slo_violation_max);
    buf_char(out, '\n');
    if (t->note)
        buf_fmt(out, "  %s\n", t->note);
    if (t->compared) {
        struct table *x = side_table(t);
        table_format(x, CLI_TABLE, colour, out);
        table_free(x);
        buf_fmt(out, "  %s against the sizes as they were: cost ", t->policy);
        interval(out, &t->cost_frac);
        buf_str(out, ", misses ");
        interval(out, &t->misses);
        buf_str(out, " of the steps\n");
    }
    for (size_t i = 0; i < t->n_disagreements; i++) {
        buf_str(out, "  ");
        disagreement_line(r, &t->disagreement[i], out);
        buf_fmt(out, "\n               because %s (decision %lld)\n", t->disagreement[i].why,
                (long long)t->disagreement[i].decision);
    }
    if (t->n_left_out)
        buf_fmt(out, "  %zu smaller disagreements are left out; `sluice decisions list` has them all\n", t->n_left_out);
}

static void report_text(const struct daily_report *r, bool colour, struct buf *out)
{
    char since[TZ_TEXT], until[TZ_TEXT];
    day_time(r, r->since_us, since);
    day_time(r, r->until_us, until);
    buf_fmt(out, "Daily report of cluster %s, stage %s: %s to %s %s\n", r->cluster, r->stage, since, until,
            r->zone ? tz_name(r->zone) : "UTC");
    daily_summary(r, out);
    buf_char(out, '\n');
    for (size_t i = 0; i < r->n_targets; i++)
        target_text(r, &r->target[i], colour, out);
    if (r->n_notes)
        buf_str(out, "\nWhat people and the process did\n");
    for (size_t i = 0; i < r->n_notes; i++)
        buf_fmt(out, "  %s\n", r->notes[i]);
}

/* ---- JSON and CSV ------------------------------------------------------------------------------ */

static void put_side(struct json_writer *w, const char *key, const struct daily_side *s)
{
    json_open(w, key);
    json_put_f64(w, "cost_usd", s->cost_usd);
    json_put_f64(w, "unit_hours", s->unit_hours);
    json_put_f64(w, "slo_violation_frac", s->slo_violation_frac);
    json_put_f64(w, "p99_latency_ms", s->p99_ms);
    json_put_i64(w, "scale_actions", s->actions);
    json_put_i64(w, "reversals", s->reversals);
    json_close(w);
}

static void put_interval(struct json_writer *w, const char *key, const struct daily_interval *i)
{
    json_open(w, key);
    json_put_f64(w, "mean", i->mean);
    json_put_f64(w, "lo", i->lo);
    json_put_f64(w, "hi", i->hi);
    json_close(w);
}

static void put_time(struct json_writer *w, const char *key, int64_t us)
{
    char text[TZ_TEXT];
    tz_format_rfc3339(NULL, us, text);
    json_put_str(w, key, text);
}

static void put_disagreement(struct json_writer *w, const struct daily_disagreement *d)
{
    json_open(w, NULL);
    put_time(w, "from", d->from_us);
    put_time(w, "to", d->to_us);
    json_put_i64(w, "sluice_units_lo", d->sluice_lo);
    json_put_i64(w, "sluice_units_hi", d->sluice_hi);
    json_put_i64(w, "rules_units_lo", d->rules_lo);
    json_put_i64(w, "rules_units_hi", d->rules_hi);
    json_put_i64(w, "units_needed", d->needed);
    json_put_f64(w, "unit_hours", d->unit_hours);
    json_put_i64(w, "decision", d->decision);
    json_put_str(w, "why", d->why);
    json_put_str(w, "verdict", d->verdict);
    json_close(w);
}

static void put_target(struct json_writer *w, const struct daily_target *t)
{
    json_open(w, NULL);
    json_put_str(w, "target", t->name);
    json_put_str(w, "policy", t->policy);
    json_put_str(w, "rules", t->rules);
    json_put_str(w, "note", t->note);
    json_put_bool(w, "compared", t->compared);
    json_put_bool(w, "acted", t->acted);
    json_put_f64(w, "hours", t->hours);
    json_put_f64(w, "measured_frac", t->measured_frac);
    if (t->compared) {
        put_side(w, "recorded", &t->recorded);
        put_side(w, "sluice", &t->sluice);
        put_side(w, "rules_alone", &t->rules_side);
        put_interval(w, "cost_difference_frac", &t->cost_frac);
        put_interval(w, "slo_violation_difference_frac", &t->misses);
    }
    json_open_array(w, "disagreements");
    for (size_t i = 0; i < t->n_disagreements; i++)
        put_disagreement(w, &t->disagreement[i]);
    json_close_array(w);
    json_put_i64(w, "disagreements_left_out", (int64_t)t->n_left_out);
    json_close(w);
}

static void report_json(const struct daily_report *r, struct buf *out)
{
    struct json_writer w = json_writer_init(out, 2);
    json_open(&w, NULL);
    json_put_str(&w, "cluster", r->cluster);
    json_put_str(&w, "stage", r->stage);
    put_time(&w, "since", r->since_us);
    put_time(&w, "until", r->until_us);
    json_open_array(&w, "targets");
    for (size_t i = 0; i < r->n_targets; i++)
        put_target(&w, &r->target[i]);
    json_close_array(&w);
    json_open_array(&w, "notes");
    for (size_t i = 0; i < r->n_notes; i++)
        json_put_str(&w, NULL, r->notes[i]);
    json_close_array(&w);
    json_close(&w);
    buf_char(out, '\n');
}

static void report_csv(const struct daily_report *r, struct buf *out)
{
    static const struct table_column columns[] = {
        {"target", NULL, 0},          {"sizes", NULL, 0},  {"cost_usd", NULL, 2}, {"unit_hours", NULL, 2},
        {"slo_violation_frac", NULL, 4}, {"p99_latency_ms", NULL, 1}, {"scale_actions", NULL, 0}};
    struct table *x = table_new(columns, sizeof columns / sizeof columns[0]);
    for (size_t i = 0; i < r->n_targets; i++) {
        const struct daily_target *t = &r->target[i];
        const struct daily_side *sides[] = {&t->recorded, &t->sluice, &t->rules_side};
        const char *names[] = {"recorded", t->policy, t->rules};
        for (int k = 0; t->compared && k < 3; k++) {
            table_text(x, t->name);
            table_text(x, names[k]);
            table_num(x, sides[k]->cost_usd);
            table_num(x, sides[k]->unit_hours);
            table_num(x, sides[k]->slo_violation_frac);
            table_num(x, sides[k]->p99_ms);
            table_num(x, sides[k]->actions);
        }
    }
    table_format(x, CLI_CSV, false, out);
    table_free(x);
}

void daily_format(const struct daily_report *r, enum cli_format format, bool colour, struct buf *out)
{
    if (format == CLI_JSON)
        report_json(r, out);
    else if (format == CLI_CSV)
        report_csv(r, out);
    else
        report_text(r, colour, out);
}

/* ---- page ------------------------------------------------------------------------------------- */

static void page_line(struct page *p, const char *tag, const struct buf *text)
{
    buf_fmt(p->out, "<%s>", tag);
    page_text(p, text->p);
    buf_fmt(p->out, "</%s>\n", tag);
}

static void target_page(struct page *p, const struct daily_report *r, const struct daily_target *t)
{
    struct buf line = buf_init(1 << 16);
    page_section(p, "target", t->name);
    if (t->hours > 0) {
        buf_fmt(&line, "%.1f h, %.0f %% of them measured; target p99 %.0f ms in all but %.2g %% of steps.", t->hours,
                100 * t->measured_frac, t->slo_p99_ms, 100 * t->slo_violation_max);
        page_line(p, "p", &line);
    }
    if (t->note) {
        buf_clear(&line);
        buf_str(&line, t->note);
        page_line(p, "p", &line);
    }
    if (t->compared) {
        struct table *x = side_table(t);
        html_table(p, x, "Sizes as they were, as sluice would have chosen them, and as the rules would");
        table_free(x);
        buf_clear(&line);
        buf_fmt(&line, "%s against the sizes as they were: cost ", t->policy);
        interval(&line, &t->cost_frac);
        buf_str(&line, ", misses ");
        interval(&line, &t->misses);
        buf_str(&line, " of the steps.");
        page_line(p, "p", &line);
    }
    if (t->n_disagreements)
        buf_str(p->out, "<h3>Disagreements</h3>\n<ul>\n");
    for (size_t i = 0; i < t->n_disagreements; i++) {
        const struct daily_disagreement *d = &t->disagreement[i];
        buf_clear(&line);
        disagreement_line(r, d, &line);
        buf_fmt(&line, ". Because %s (decision %lld).", d->why, (long long)d->decision);
        page_line(p, "li", &line);
    }
    if (t->n_disagreements)
        buf_str(p->out, "</ul>\n");
    page_section_end(p);
    buf_fini(&line);
}

void daily_html(const struct daily_report *r, struct buf *out)
{
    const struct report_data nothing = {0};
    struct page p = {.d = &nothing, .out = out};
    struct buf line = buf_init(1 << 16);
    char since[TZ_TEXT], until[TZ_TEXT];
    day_time(r, r->since_us, since);
    day_time(r, r->until_us, until);
    buf_str(out, "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
                 "<meta name=\"viewport\" content=\"width=device-width,initial-scale=1\">\n"
                 "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src "
                 "'unsafe-inline'\">\n<title>Daily report</title>\n<style>\n");
    for (size_t i = 0; page_style[i]; i++)
        buf_str(out, page_style[i]);
    buf_str(out, "</style>\n</head>\n<body>\n<header><h1>Daily report</h1>\n");
    buf_fmt(&line, "Cluster %s, stage %s, %s to %s %s", r->cluster, r->stage, since, until,
            r->zone ? tz_name(r->zone) : "UTC");
    buf_str(out, "<p class=\"sub\">");
    page_text(&p, line.p);
    buf_str(out, "</p></header>\n<main>\n<p class=\"lead\">");
    buf_clear(&line);
    daily_summary(r, &line);
    page_text(&p, line.p);
    buf_str(out, "</p>\n");
    for (size_t i = 0; i < r->n_targets; i++)
        target_page(&p, r, &r->target[i]);
    if (r->n_notes) {
        page_section(&p, "notes", "What people and the process did");
        buf_str(out, "<ul>\n");
        for (size_t i = 0; i < r->n_notes; i++) {
            buf_clear(&line);
            buf_str(&line, r->notes[i]);
            page_line(&p, "li", &line);
        }
        buf_str(out, "</ul>\n");
        page_section_end(&p);
    }
    buf_str(out, "</main>\n</body>\n</html>\n");
    buf_fini(&line);
}
