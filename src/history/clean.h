/* clean.h - raw samples to a history (DESIGN 3, "Sampling").
 *
 * 1. Each series is sorted; the native step and phase are found (grid.h).
 * 2. Counters become rates: (v1 - v0) / (t1 - t0), put at t0, whose step the growth filled.  A fall
 * is a reset: the counter restarted from 0, so the growth is v1.  No rate is formed over more than
 * 3 steps.
 * 3. Each sample goes to its step.  Several of one series in one step: the last counts (or the
 * series' own rule; the mean where the given step is coarser than the native one).
 * 4. Series of one field are combined (sum, mean, max, min) over those that have the step, after
 * the short gaps of each were filled, so that one missed scrape does not dent a sum.
 * 5. Zeros of a load in runs of at least `zero_gap` become missing.
 * 6. Gaps are measured between neighbours: up to 3 steps apart (1 or 2 samples missing) load is
 *    interpolated linearly and gauges are held; further apart the samples stay missing.
 * 7. Bars: a load missing bars the sample; without any load field, a sample with every field
 * missing. A missing gauge alone (no latency in a quiet minute) does not bar the demand around it.
 * Cost O(samples + steps), plus a sort where rows were out of order. */
#ifndef HISTORY_CLEAN_H
#define HISTORY_CLEAN_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "history/raw.h"
#include "model/history.h"

enum { GAP_STEPS = 3 };

struct clean_cfg {
    int64_t step_us;     /* 0: detect */
    int64_t zero_gap_us; /* 0: zeros are zeros */
    bool stamps_end;     /* a stamp marks the end of its step */
};

/* Consumes the samples of r (sorts, turns counters into rates) and completes r->report.  The
 * history has no ids or zone yet; the caller sets them.  Release with history_close(). Errors:
 * those of grid_find and history_new; ERR_INVAL for several series of a field without a rule;
 * ERR_LIMIT when under 1 % of the steps would have a value (stray times). */
NODISCARD enum err_code clean(const struct clean_cfg *cfg, struct raw *r, struct history *out,
                              struct err *e);

/* Steps 5 and 6 for one column, in place; used again where histories are joined or repaired. Return
 * the number of samples changed. */
int64_t clean_zero_gaps(float *x, int64_t n, int64_t run_min);
int64_t clean_fill(float *x, int64_t n, bool is_load);

#endif
