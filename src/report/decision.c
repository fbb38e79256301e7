/* decision.c - one capacity decision with its reasons, for people and programs. */
#include "report/decision.h"

#include "base/mem.h"
#include "report/fmt_priv.h"
#include "report/table.h"

const char *report_verdict_text(enum report_verdict v)
{
    static const char *const text[] = {
        [REPORT_PASS] = "passed", [REPORT_LIMIT] = "limited", [REPORT_VETO] = "vetoed"};
    return text[v];
}

static bool has_reason(const struct report_check *c)
{
    return c->reason && *c->reason;
}

/* ---- text
 * ------------------------------------------------------------------------------------------------
 */

/* "  why      " on the first line of a group, blanks after. */
static void put_margin(struct buf *out, const char *label, size_t line)
{
    buf_fmt(out, "  %-7s", line == 0 ? label : "");
}

static void put_factors(const struct report_decision *d, struct buf *out)
{
    for (size_t i = 0; i < REPORT_FACTORS && d->factors[i]; i++) {
        put_margin(out, "why", i);
        text_plain(out, d->factors[i]);
        buf_char(out, '\n');
    }
}

static void put_check(const struct report_check *c, size_t line, bool colour, struct buf *out)
{
    static const char *const paint[] = {
        [REPORT_PASS] = "", [REPORT_LIMIT] = "\033[33m", [REPORT_VETO] = "\033[31m"};
    put_margin(out, "guard", line);
    buf_str(out, colour ? paint[c->verdict] : "");
    text_plain(out, c->name);
    buf_fmt(out, " %s", report_verdict_text(c->verdict));
    buf_str(out, colour && c->verdict != REPORT_PASS ? "\033[0m" : "");
    if (has_reason(c)) {
        buf_str(out, ": ");
        text_plain(out, c->reason);
    }
    buf_char(out, '\n');
}

static void put_chain(const struct report_decision *d, bool every_check, bool colour,
                      struct buf *out)
{
    size_t lines = 0, silent = 0;
    for (size_t i = 0; i < d->n_checks; i++) {
        const struct report_check *c = &d->checks[i];
        if (every_check || c->verdict != REPORT_PASS || has_reason(c))
            put_check(c, lines++, colour, out);
        else
            silent++;
    }
    if (d->n_checks == 0 || silent) {
        put_margin(out, "guard", lines);
        if (d->n_checks == 0)
            buf_str(out, "none\n");
        else
            buf_fmt(out, "%zu%s check%s passed\n", silent, lines ? " other" : "",
                    silent == 1 ? "" : "s");
    }
}

void decision_text(const struct report_decision *d, const struct tz *zone, bool every_check,
                   bool colour, struct buf *out)
{
    buf_fmt(out, "%s%s  ", colour ? "\033[1m" : "", fmt_time(zone, d->time_us).s);
    text_plain(out, d->policy ? d->policy : "-");
    if (d->units_from == d->units_to)
        buf_fmt(out, ": stay at %d units", d->units_to);
    else
        buf_fmt(out, ": %d -> %d units", d->units_from, d->units_to);
    if (d->units_proposed != d->units_to)
        buf_fmt(out, " (proposed %d)", d->units_proposed);
    buf_str(out, colour ? "\033[0m\n" : "\n");
    put_factors(d, out);
    put_chain(d, every_check, colour, out);
    if (d->rule_name) {
        put_margin(out, "rules", 0);
        text_plain(out, d->rule_name);
        buf_fmt(out, " would have asked for %d\n", d->rule_units);
    }
}

/* ---- JSON and CSV ---------------------------------------------------------------------------- */

void decision_json(const struct report_decision *d, const struct tz *zone, struct json_writer *w)
{
    char time[TZ_TEXT];
    tz_format_rfc3339(zone, d->time_us, time);
    json_open(w, NULL);
    json_put_str(w, "time", time);
    json_put_str(w, "policy", d->policy);
    json_put_i64(w, "units_from", d->units_from);
    json_put_i64(w, "units_proposed", d->units_proposed);
    json_put_i64(w, "units_to", d->units_to);
    json_open_array(w, "factors");
    for (size_t i = 0; i < REPORT_FACTORS && d->factors[i]; i++)
        json_put_str(w, NULL, d->factors[i]);
    json_close_array(w);
    json_open_array(w, "checks");
    for (size_t i = 0; i < d->n_checks; i++) {
        json_open(w, NULL);
        json_put_str(w, "name", d->checks[i].name);
        json_put_str(w, "verdict", report_verdict_text(d->checks[i].verdict));
        json_put_str(w, "reason", d->checks[i].reason ? d->checks[i].reason : "");
        json_close(w);
    }
    json_close_array(w);
    if (d->rule_name) {
        json_open(w, "rule");
        json_put_str(w, "name", d->rule_name);
        json_put_i64(w, "units", d->rule_units);
        json_close(w);
    } else {
        json_put_null(w, "rule");
    }
    json_close(w);
}

static void format_json(const struct report_decision *d, size_t n, const struct tz *zone,
                        struct buf *out)
{
    struct json_writer w = json_writer_init(out, 2);
    json_open_array(&w, NULL);
    for (size_t i = 0; i < n; i++)
        decision_json(&d[i], zone, &w);
    json_close_array(&w);
}

static void put_row(const struct report_decision *d, const struct tz *zone, struct table *t)
{
    char time[TZ_TEXT];
    tz_format_rfc3339(zone, d->time_us, time);
    struct buf why = buf_init(1 << 16), guard = buf_init(1 << 16);
    for (size_t i = 0; i < REPORT_FACTORS && d->factors[i]; i++)
        buf_fmt(&why, "%s%s", i ? "; " : "", d->factors[i]);
    for (size_t i = 0; i < d->n_checks; i++) {
        const struct report_check *c = &d->checks[i];
        if (c->verdict != REPORT_PASS)
            buf_fmt(&guard, "%s%s %s: %s", guard.n ? "; " : "", c->name,
                    report_verdict_text(c->verdict), has_reason(c) ? c->reason : "");
    }
    table_text(t, time);
    table_text(t, d->policy);
    table_num(t, d->units_from);
    table_num(t, d->units_proposed);
    table_num(t, d->units_to);
    table_text(t, why.p);
    table_text(t, guard.p);
    table_text(t, d->rule_name);
    if (d->rule_name)
        table_num(t, d->rule_units);
    else
        table_skip(t);
    buf_fini(&why);
    buf_fini(&guard);
}

static void format_csv(const struct report_decision *d, size_t n, const struct tz *zone,
                       struct buf *out)
{
    static const struct table_column columns[] = {
        {"time", NULL, 0},           {"policy", NULL, 0},    {"units_from", NULL, 0},
        {"units_proposed", NULL, 0}, {"units_to", NULL, 0},  {"factors", NULL, 0},
        {"guard", NULL, 0},          {"rule_name", NULL, 0}, {"rule_units", NULL, 0},
    };
    struct table *t = table_new(columns, ARRAY_LEN(columns));
    for (size_t i = 0; i < n; i++)
        put_row(&d[i], zone, t);
    table_format(t, CLI_CSV, false, out);
    table_free(t);
}

void decisions_format(const struct report_decision *d, size_t n, const struct tz *zone,
                      enum cli_format format, bool colour, struct buf *out)
{
    switch (format) {
    case CLI_TABLE:
        for (size_t i = 0; i < n; i++) {
            buf_str(out, i ? "\n" : "");
            decision_text(&d[i], zone, n == 1, colour, out);
        }
        break;
    case CLI_CSV:
        format_csv(d, n, zone, out);
        break;
    case CLI_JSON:
        format_json(d, n, zone, out);
        break;
    }
}
