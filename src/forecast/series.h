/* series.h - a history column as 5-minute points, the unit the forecaster works in.
 *
 * Points start at multiples of 5 min since the epoch.  A point is the mean of the native samples
 * that start in it; it is missing (NaN) when fewer than 60 % of them are present, and where the
 * history bars them.  With a native step above 5 min a sample is known, and its point filled, only
 * when it is complete: the last point it covers; the points before stay missing.  Steps above 15
 * min are refused. */
#ifndef FORECAST_SERIES_H
#define FORECAST_SERIES_H

#include <stdint.h>

#include "base/err.h"
#include "model/calendar.h"
#include "model/field.h"
#include "model/history.h"

struct forecast_series {
    int64_t start_us;
    int64_t n;
    float *y; /* [n], owned */
    int64_t n_missing;
};

/* Errors: ERR_MISSING when the field is absent or holds no value; ERR_RANGE for a native step above
 * 15 min or a negative or infinite load; ERR_NOMEM. */
NODISCARD enum err_code forecast_series_new(const struct history *h, enum field field,
                                            struct forecast_series *out, struct err *e);
void forecast_series_free(struct forecast_series *s);

struct forecaster;
/* Pushes points [from, to) with their calendar. */
NODISCARD enum err_code forecast_series_push(struct forecaster *f, const struct forecast_series *s,
                                             const struct calendar *cal, int64_t from, int64_t to,
                                             struct err *e);

#endif
