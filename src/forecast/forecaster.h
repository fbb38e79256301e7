/* forecaster.h - what one workload's load will be in the next half hour, from 5-minute means.
 *
 * One point in, one forecast out; nothing is allocated after forecast_new().  Every forecast is
 * scored when its time has come, and that score moves the mixing weights, the intervals and
 * `usable`:
 *
 *     point -> window (14 days) -> slot profile ---+-> 16 experts -> mixing -> clamp -> mean
 *                               -> ridge features -+                                -> intervals
 * (adaptive conformal)
 *
 * Profile: median of each of the 96 slots over up to 14 days, working days apart from days of rest.
 * Ridge: least absolute deviations by reweighted ridge on the last 30 min and the usual shape, in
 * log load; refitted daily, used from 24 h after the data it was fitted on.  See docs/forecast.md
 * for the formulas.
 *
 * A forecaster belongs to one thread.  Its state holds no pointers: forecast_copy() clones it, so a
 * simulated lane can start from a snapshot.  Same points, same bits. */
#ifndef FORECAST_FORECASTER_H
#define FORECAST_FORECASTER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "forecast/score.h"
#include "model/calendar.h"
#include "model/forecast.h"

#define FORECAST_POINT_US INT64_C(300000000) /* one point: 5 min */
enum { FORECAST_POINTS_PER_DAY = 288 };

struct forecast_config {
    double ridge_alpha;     /* > 0, on standardised features (default 0.1) */
    double max_change_frac; /* largest step past the known range a round may take (default 0.30) */
    double high_factor;     /* high water over the upper bound (default 1.2) */
    int min_days;           /* history below which a forecast is not usable (default 7) */
    int refit_days;         /* days between refits (default 1) */
};

struct forecast_config forecast_config_default(void);
/* ERR_RANGE, naming the field. */
NODISCARD enum err_code forecast_config_check(const struct forecast_config *cfg, struct err *e);

struct forecaster;

/* cfg must have passed forecast_config_check().  About 90 KB. */
struct forecaster *forecast_new(const struct forecast_config *cfg);
void forecast_free(struct forecaster *f); /* NULL is fine */
void forecast_copy(struct forecaster *dst, const struct forecaster *src);
size_t forecast_state_bytes(void);

/* The mean load of [time_us, time_us + 5 min); NaN when missing.  `at` is the local calendar of
 * time_us. Points come in order; a gap is filled with missing points. Errors: ERR_INVAL for a time
 * that is not a whole number (>= 1) of points after the last one; ERR_RANGE for a negative,
 * infinite or absurd (> 1e30) load.  The state is unchanged then. */
NODISCARD enum err_code forecast_push(struct forecaster *f, int64_t time_us, float value,
                                      const struct calendar_point *at, struct err *e);

/* The forecast made when the last point was complete.  Before the first point: all NaN, not usable.
 */
void forecast_get(const struct forecaster *f, struct forecast *out);

/* How the forecasts have done so far, per level (0..2: points, 3: 30-min mean); the persistence of
 * the same moments beside it.  Only forecasts made after min_days count. */
struct forecast_track {
    struct forecast_score own[FORECAST_LEVELS];
    struct forecast_score persistence[FORECAST_LEVELS];
};
void forecast_track_get(const struct forecaster *f, struct forecast_track *out);

/* The experts and their present share in the mean of a level (0..1, summing to 1). */
enum { FORECAST_EXPERTS = 16 };
const char *forecast_expert_name(int expert);
void forecast_shares(const struct forecaster *f, int level, float out[FORECAST_EXPERTS]);

/* Load not exceeded with probability p in [0.001, 0.999] at a level, read between the mean and the
 * bounds of `fc` on the normal scale and continued past the outer ones. */
float forecast_quantile(const struct forecast *fc, int level, double p);

#endif
