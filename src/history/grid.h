/* grid.h - the even time grid behind raw samples: native step, phase, and the step a time falls in.
 *
 * Native step: the time difference between neighbours of one series that more than half of them
 * show; where stamps jitter, the centre of the differences around the most common, rounded to whole
 * units.  Differences of 0 (repeats) do not count.  Phase: the residue of the stamps, so that a
 * stamp sits in the middle of its step's catchment and jitter of up to half a step does not move it
 * to a neighbour.  A sample stamped t describes [t, t + step), or [t - step, t) where stamps mark
 * the end. A given step of 1.5 native steps or more is coarse: steps are then multiples of it since
 * the epoch. Events (arrivals) have no native step: the given one is used, coarse. */
#ifndef HISTORY_GRID_H
#define HISTORY_GRID_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "history/raw.h"

struct grid {
    int64_t native_us;
    int64_t step_us;
    int64_t phase_us; /* 0 .. step_us - 1 */
    int64_t shift_us; /* added to every stamp first: -native_us where stamps mark the end */
    double
        share; /* of the differences near native_us; NaN when the step was given and none exist */
    bool coarse;
};

/* Sorts the series.  step_us 0 detects.  Errors: ERR_MISSING without samples or, when the step is
 * to be detected, with a single time; ERR_PARSE when under 30 % of the differences agree. */
NODISCARD enum err_code grid_find(struct raw *r, int64_t step_us, bool stamps_end, struct grid *out,
                                  struct err *e);
/* The grid of arrivals. */
struct grid grid_of_events(int64_t step_us);

static inline int64_t grid_floor_div(int64_t a, int64_t b)
{
    return a / b - (a % b < 0);
}

static inline int64_t grid_index(const struct grid *g, int64_t t_us)
{
    int64_t half = g->coarse ? 0 : g->step_us / 2;
    return grid_floor_div(t_us + g->shift_us - g->phase_us + half, g->step_us);
}

static inline int64_t grid_time(const struct grid *g, int64_t index)
{
    return g->phase_us + index * g->step_us;
}

#endif
