/* resample.h - a history at another step.
 *
 * history_resample(): to the decision step.  At a finer step load is interpolated linearly between
 * the centres of the native steps and gauges are held; at a coarser one load is the mean over the
 * step and gauges take their last value in it.  Near a gap, load holds the value of its own native
 * step: nothing is invented inside a gap.  Bars follow the native step the centre falls in.
 * history_mean(): means over steps aligned to the epoch (5-min points of the forecast): each native
 * step counts by its overlap; a point is present when at least half of it was measured, and barred
 * when more than half of it was. */
#ifndef HISTORY_RESAMPLE_H
#define HISTORY_RESAMPLE_H

#include <stdint.h>

#include "base/err.h"
#include "model/history.h"

/* *out is released with history_close() (history/table.h).  The start stays; a rest shorter than a
 * step at the end is dropped.  Errors: ERR_INVAL for a step under 1 ms or longer than the history,
 * ERR_LIMIT, ERR_NOMEM. */
NODISCARD enum err_code history_resample(const struct history *in, int64_t step_us,
                                         struct history *out, struct err *e);
NODISCARD enum err_code history_mean(const struct history *in, int64_t step_us, struct history *out,
                                     struct err *e);

#endif
