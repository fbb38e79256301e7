/* baseline.h - the simple forecasts a useful one must beat.
 *
 *     persistence      the newest point, for every horizon
 *     seasonal-day     the same time yesterday        (the newest same time that is known)
 *     seasonal-week    the same time a week ago
 *     slot-median      median of the 15-min slot over the last 14 days
 *     holt-winters     additive, daily season of 288 points, trend; smoothing fitted on the
 * training part for the horizon asked, by grid, then Nelder-Mead (NLopt), on absolute error and, as
 * intervals, the same-slot quantiles of the last 14 days.  All work on 5-minute points (series.h);
 * a forecast for origin i uses points 0..i only.  Level 0..2: the point level + 1 ahead; 3: mean of
 * the next 6 points. */
#ifndef FORECAST_BASELINE_H
#define FORECAST_BASELINE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "forecast/score.h"
#include "forecast/series.h"

enum baseline {
    BASELINE_PERSISTENCE,
    BASELINE_SEASONAL_DAY,
    BASELINE_SEASONAL_WEEK,
    BASELINE_SLOT_MEDIAN,
    BASELINE_HOLT_WINTERS,
    BASELINE_COUNT
};
const char *baseline_name(enum baseline b);

struct holt_winters {
    double level, trend, season; /* smoothing factors in [0, 1] */
    double abs_err;              /* mean on the training part */
};
/* Fits on points [0, n_fit) for the level.  Errors: ERR_RANGE for fewer than 3 days; ERR_NOMEM. */
NODISCARD enum err_code holt_winters_fit(const struct forecast_series *s, int64_t n_fit, int level,
                                         struct holt_winters *out, struct err *e);

/* out[n]: the forecasts of a fitted Holt-Winters, never below 0; its state starts from the first
 * two days. */
void holt_winters_run(const struct holt_winters *hw, const struct forecast_series *s, int level,
                      float *out);

/* out[n]: the forecast made at origin i, NaN where none can be.  n_fit is used by Holt-Winters
 * only. Errors: those of holt_winters_fit(). */
NODISCARD enum err_code baseline_run(enum baseline b, const struct forecast_series *s,
                                     int64_t n_fit, int level, float *out, struct err *e);

/* Same-slot median and quantiles for origin i; false without any past sample of the slot. */
bool baseline_slot_bounds(const struct forecast_series *s, int64_t i, int level,
                          struct forecast_bounds *out);
/* What came true for origin i: the point, or the mean of the next 6 (at least 2 present); else NaN.
 */
float forecast_target(const struct forecast_series *s, int64_t i, int level);

#endif
