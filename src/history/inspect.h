/* inspect.h - what a history holds, as numbers: span, gaps, ranges, zeros, daily and weekly
 * pattern.
 *
 * Figures are over the samples that are present, those filled inside short gaps included (their
 * number is in the import report).  Autocorrelation is c_k / c_0 about the overall mean at the
 * whole number of steps nearest to a day and a week, over pairs that are both present; NaN without
 * at least a quarter of the lag in pairs, or when constant. */
#ifndef HISTORY_INSPECT_H
#define HISTORY_INSPECT_H

#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/json.h"
#include "history/report.h"
#include "model/history.h"

struct inspect_field {
    bool present;
    int64_t n, missing;  /* samples measured, samples missing */
    int64_t gaps;        /* runs of missing samples between measured ones */
    int64_t longest_gap; /* steps */
    int64_t zeros, longest_zero_run;
    double min, p01, median, mean, p99, max;
    double autocorr_day, autocorr_week; /* see above */
};

struct inspect {
    int64_t start_us, end_us, step_us, n;
    double span_days;
    int64_t barred;
    uint64_t data_hash;
    struct inspect_field field[FIELD_COUNT];
};

/* Errors: ERR_NOMEM. */
NODISCARD enum err_code history_inspect(const struct history *h, struct inspect *out,
                                        struct err *e);
/* For people; report may be NULL. */
void inspect_text(const struct inspect *in, const struct history *h,
                  const struct import_report *report, struct buf *out);
void inspect_json(const struct inspect *in, const struct history *h,
                  const struct import_report *report, struct json_writer *w, const char *key);

#endif
