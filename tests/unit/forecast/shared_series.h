/* shared_series.h - the 22 public series with at least 14 days at 15 min or finer, as 5-minute
 * points.
 *
 * A reader of just these files, so that the test does not depend on the importers.  Known faults of
 * the sources are masked as their README says: twitter's last 29 minutes of a day, Helios' empty
 * 2020-05-10, Philly's zeros. */
#ifndef TESTS_UNIT_FORECAST_SHARED_SERIES_H
#define TESTS_UNIT_FORECAST_SHARED_SERIES_H

#include "forecast/series.h"

enum { SHARED_SERIES = 22 };
const char *shared_series_name(int k);
/* Fails the test when the file cannot be read. */
void shared_series_load(const char *data_dir, int k, struct forecast_series *out);

#endif
