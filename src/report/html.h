/* html.h - report.html: one self-contained page that says what a policy would have cost and missed.
 *
 * Fill a `struct report_data` (all borrowed, all optional but `eval`), call report_html() and write
 * the buffer. The page loads nothing: styles, charts (SVG) and the few lines of script that show
 * values under the pointer are inside, and a content security policy forbids the rest.  It reads
 * without script, on a phone, in the dark and on paper.  Every string is escaped; long series are
 * reduced to columns that keep their minimum and maximum, so a spike of one step survives; the size
 * is bounded (REPORT_BYTES_MAX). The same data gives the same bytes.
 *
 * Missing numbers are NaN and leave a hole in a line, never a zero.  A part without data is left
 * out. */
#ifndef REPORT_HTML_H
#define REPORT_HTML_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/tz.h"
#include "report/decision.h"
#include "report/evaluation.h"
#include "report/table.h"

enum {
    REPORT_BYTES_MAX = 1500000,
    REPORT_POLICIES_MAX = 8, /* drawn over time; the table lists all */
    REPORT_FRONTS_MAX = 8,
    REPORT_FRONT_POINTS_MAX = 64,
    REPORT_DECISIONS_MAX = 120, /* listed; how many were left out is said */
    REPORT_TEXT_MAX = 60000,    /* of a verbatim block: tree, configuration */
};

/* One policy over the test span, one value per step. */
struct report_trace {
    const char *name;
    const float *units_ready;     /* [n] */
    const float *units_requested; /* [n] billed: ready, warming and failed; or NULL */
    const float *p99_ms;          /* [n] NaN: no traffic or unknown */
};

/* What happened over the test span; all arrays have n steps of step_us from start_us. */
struct report_timeline {
    int64_t start_us, step_us;
    size_t n;
    const float *demand_qps;   /* as it arrived */
    const float *units_needed; /* fewest units that serve the demand within the SLO; or NULL */
    const struct report_trace *traces;
    size_t n_traces;
    const char *note; /* e.g. which of the seeds is drawn; or NULL */
};

/* A curve in the cost-miss plane, e.g. all a tuned rule can reach, or a bound for several miss
 * targets. */
struct report_front {
    const char *name;
    const double *cost_usd;       /* [n], ascending */
    const double *violation_frac; /* [n] */
    size_t n;
    bool is_bound; /* no policy can be below and left of it */
};

/* Forecasts of one horizon lined up with what happened: index i is the time forecast *for*. */
struct report_forecast {
    const char *what; /* e.g. "mean of the 5 min ending 15 min ahead" */
    int64_t start_us, step_us;
    size_t n;
    const float *actual, *mean; /* [n] requests/s */
    const float *lo80, *hi80, *lo95, *hi95;
    double coverage80_frac, coverage95_frac; /* measured over the test span; NaN: not known */
    double wape_frac;
    const struct table *scores; /* models and their scores, shown as they are; or NULL */
    const char *note;           /* or NULL */
};

/* Progress of training, one value per round. */
struct report_learning {
    size_t n;
    const double *env_steps;      /* [n] ascending */
    const double *cost_usd_h;     /* [n] mean cost per hour in training; or NULL */
    const double *violation_frac; /* [n] */
};

struct report_pair {
    const char *key, *value;
};

struct report_data {
    const char *title;             /* NULL: "Capacity report" */
    const struct evaluation *eval; /* required */
    const struct tz *zone;         /* of the time axes; NULL: UTC */
    const struct report_timeline *timeline;
    const struct report_front *fronts;
    size_t n_fronts;
    const struct report_forecast *forecast;
    const struct report_decision *decisions; /* chronological */
    size_t n_decisions;                      /* given here */
    size_t n_decisions_total;                /* taken in the test span; 0: as given */
    const char *decisions_note;              /* how these were picked; or NULL */
    const char *tree_text;                   /* distilled decision tree, indented text; or NULL */
    double tree_fidelity_frac;               /* on held-out states; NaN: not measured */
    const struct report_learning *learning;
    const char *const *notes; /* warnings and remarks: gaps in the data, training warnings */
    size_t n_notes;
    const struct report_pair *provenance; /* version, commit, compiler, ISA, seeds, data hash ... */
    size_t n_provenance;
    const char *config_text; /* effective configuration; or NULL */
};

/* Writes the page to `out` (init it with cap >= REPORT_BYTES_MAX).  Errors: ERR_INVAL without eval,
 * for a timeline with a step that is not positive or more than 50 years; ERR_LIMIT when the page
 * does not fit. */
NODISCARD enum err_code report_html(const struct report_data *d, struct buf *out, struct err *e);
/* The same into a file, atomically. */
NODISCARD enum err_code report_html_write(const struct report_data *d, const char *path,
                                          struct err *e);

#endif
