/* curve.h - a load-test file (CSV: load per unit, p50 ms, p99 ms) to a latency model. */
#ifndef TRAIN_CURVE_H
#define TRAIN_CURVE_H

#include "base/err.h"
#include "model/latency.h"

/* Reads up to LATENCY_POINTS_MAX rows; a first line that is not numbers is a header; blank lines and # comments
 * are skipped.  Errors: ERR_IO, ERR_PARSE with line and column. */
NODISCARD enum err_code curve_read(const char *path, struct latency_point *points, int *n, struct err *e);
/* Reads and fits.  Full use of a unit is the largest load tested. */
NODISCARD enum err_code curve_load(const char *path, int units_max, double slo_ms, struct latency_model *out,
                                   struct err *e);

#endif
