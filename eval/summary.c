/* summary.c - the table of `make eval`: one row per scenario from the JSON files that evaluate wrote.
 *
 *     eval_summary FILE.json...        learned policies are those whose name ends in .safetensors
 *
 * "at equal misses" is cost over tuned hpa's test front at the policy's own misses; "closed" is the share of the gap
 * from hpa to foresight, both read the same way, that the learned policy closes.  The last line is the geometric mean
 * over the scenarios that count (report-only ones have a * and are left out). */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/json.h"
#include "base/mem.h"
#include "report/table.h"

enum { FILE_CAP = 1 << 22 };

struct row {
    double cost, misses, equal, equal_lo, equal_hi, reversals;
};

static bool ends_with(const char *s, const char *suffix)
{
    size_t n = strlen(s), m = strlen(suffix);
    return n >= m && strcmp(s + n - m, suffix) == 0;
}

static double metric(const struct json_doc *doc, const struct json *metrics, const char *name, const char *part)
{
    const struct json *m;
    double v;
    if (json_get_object(doc, metrics, name, &m, NULL) || json_get_f64(doc, m, part, &v, NULL))
        return NAN;
    return v;
}

/* Figures of the first policy with this name (or ending); all NaN when absent. */
static struct row find(const struct json_doc *doc, const struct json *policies, const char *name, bool suffix)
{
    struct row r = {NAN, NAN, NAN, NAN, NAN, NAN};
    for (const struct json *p = json_first(policies); p; p = json_next(p)) {
        const struct json *m;
        const char *got;
        if (json_get_str(doc, p, "name", &got, NULL) || json_get_object(doc, p, "metrics", &m, NULL))
            continue;
        if (suffix ? !ends_with(got, name) : strcmp(got, name) != 0)
            continue;
        r = (struct row){.cost = metric(doc, m, "cost_usd", "mean"),
                         .misses = metric(doc, m, "slo_violation_frac", "mean"),
                         .equal = metric(doc, m, "cost_at_equal_misses_frac", "mean"),
                         .equal_lo = metric(doc, m, "cost_at_equal_misses_frac", "lo"),
                         .equal_hi = metric(doc, m, "cost_at_equal_misses_frac", "hi"),
                         .reversals = metric(doc, m, "reversals_per_day", "mean")};
        return r;
    }
    return r;
}

static enum err_code add_file(const char *path, struct table *t, double *log_sum, int *n, struct err *e)
{
    struct json_doc *doc;
    const struct json *policies;
    const char *scenario;
    enum err_code rc = json_load(path, FILE_CAP, &doc, e);
    if (rc)
        return rc;
    if ((rc = json_get_str(doc, json_root(doc), "scenario", &scenario, e)) ||
        (rc = json_get_array(doc, json_root(doc), "policies", &policies, e))) {
        json_free(doc);
        return rc;
    }
    struct row hpa = find(doc, policies, "hpa", false), mpc = find(doc, policies, "mpc", false);
    struct row pred = find(doc, policies, "predictive", false), fore = find(doc, policies, "foresight", false);
    struct row own = find(doc, policies, ".safetensors", true);
    table_text(t, scenario);
    table_num(t, 100 * hpa.misses);
    table_num(t, hpa.reversals);
    table_num(t, pred.equal);
    table_num(t, mpc.equal);
    table_num(t, own.equal);
    table_num(t, own.equal_lo);
    table_num(t, own.equal_hi);
    table_num(t, 100 * own.misses);
    table_num(t, own.reversals);
    table_num(t, fore.equal);
    table_num(t, 100 * (1 - own.equal) / (1 - fore.equal));
    if (own.equal > 0) {
        *log_sum += log(own.equal);
        (*n)++;
    }
    json_free(doc);
    return ERR_OK;
}

int main(int argc, char **argv)
{
    struct table *t = table_new((struct table_column[]){
        {"scenario", NULL, 0}, {"hpa_misses_pct", "hpa miss %", 2}, {"hpa_reversals", "rev/day", 1},
        {"predictive", NULL, 3}, {"mpc", NULL, 3}, {"learned", NULL, 3}, {"lo", NULL, 3}, {"hi", NULL, 3},
        {"learned_misses_pct", "miss %", 2}, {"learned_reversals", "rev/day", 1}, {"foresight", NULL, 3},
        {"closed_pct", "closed %", 0}}, 12);
    struct buf text = buf_init(1 << 20);
    struct err e = {0};
    double log_sum = 0;
    int n = 0, failed = 0;
    for (int i = 1; i < argc; i++)
        if (add_file(argv[i], t, &log_sum, &n, &e)) {
            (void)fprintf(stderr, "%s: %s\n", argv[i], e.msg);
            failed = 1;
        }
    table_format(t, CLI_TABLE, table_colour_wanted(stdout), &text);
    if (n > 0)
        buf_fmt(&text, "cost at equal misses over tuned hpa, geometric mean of %d: %.3f\n", n, exp(log_sum / n));
    (void)fputs(text.p, stdout);
    buf_fini(&text);
    table_free(t);
    return failed;
}
