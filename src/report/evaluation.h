/* evaluation.h - the result of `evaluate`: policies, metrics with intervals, bounds.
 *
 * A plain value filled by the trainer, printed here: as the JSON object other programs rely on
 * (docs/report.md), as CSV (one row per policy and metric) and as a table for people.
 * Intervals are 95 %, paired over days and seeds; days are the clusters.
 *
 * Everything is borrowed; nothing here allocates except the printers, for the time of the call. */
#ifndef REPORT_EVALUATION_H
#define REPORT_EVALUATION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/cli.h"

/* A mean with its 95 % interval.  Not known is NaN (JSON null), never 0. */
struct eval_metric {
    const char *name; /* e.g. "cost_usd": docs/report.md lists them */
    double mean, lo, hi;
};

enum eval_role {
    EVAL_CONTENDER, /* could run live */
    EVAL_REFERENCE, /* knows the future (foresight, oracle): to compare with, not to run */
};

struct eval_policy {
    const char *name;
    enum eval_role role;
    const struct eval_metric *metrics;
    size_t n_metrics;
};

struct eval_bound {
    const char *name; /* e.g. "cost_usd": no policy can be cheaper at the SLO */
    double value;
};

struct evaluation {
    const char *scenario;
    int n_seeds;
    int n_days; /* test days; 0: not stated.  For people only */
    const struct eval_policy *policies;
    size_t n_policies;
    const struct eval_bound *bounds;
    size_t n_bounds;
    const char *baseline; /* the rules in use today, by name; NULL: "hpa" */
    const char
        *proposal; /* the policy this is about, by name; NULL: first contender not the baseline */
    double slo_p99_ms;        /* NaN: not stated */
    double slo_violation_max; /* largest allowed fraction of steps over it; NaN: not stated */
};

/* NULL when absent. */
const struct eval_policy *eval_policy_find(const struct evaluation *ev, const char *name);
const struct eval_metric *eval_metric_find(const struct eval_policy *p, const char *name);
/* NaN when absent. */
double eval_mean(const struct eval_policy *p, const char *metric);
double eval_bound(const struct evaluation *ev, const char *name);
const struct eval_policy *eval_baseline(const struct evaluation *ev); /* may be NULL */
const struct eval_policy *eval_proposal(const struct evaluation *ev); /* may be NULL */

/* How a policy compares with the baseline at equal misses, judged by the interval of
 * cost_at_equal_misses_frac: a win only when all of it is below 1, a loss when all of it is above.
 */
enum eval_verdict { EVAL_UNKNOWN, EVAL_WIN, EVAL_TIE, EVAL_LOSS };
enum eval_verdict eval_verdict(const struct eval_policy *p);
const char *
eval_verdict_text(enum eval_verdict v); /* "cheaper", "no clear difference", "dearer", "-" */

/* {"scenario","seeds","policies":[{"name","metrics":{NAME:{"mean","lo","hi"}}}],"bounds":{NAME:value}}
 */
void evaluation_json(const struct evaluation *ev, int indent, struct buf *out);
/* scenario,seeds,policy,metric,mean,lo,hi; bounds come last with an empty policy and interval. */
void evaluation_csv(const struct evaluation *ev, struct buf *out);
/* One line per policy in short columns, bounds and the SLO below. */
void evaluation_table(const struct evaluation *ev, bool colour, struct buf *out);
void evaluation_format(const struct evaluation *ev, enum cli_format format, bool colour,
                       struct buf *out);

/* The outcome in two to four plain sentences: cost and misses of the proposal, beside the baseline,
 * beside the best possible at all.  Says so when it lost, tied or missed its target. */
void evaluation_summary(const struct evaluation *ev, struct buf *out);

#endif
