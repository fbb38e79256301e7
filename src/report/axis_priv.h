/* axis_priv.h - scales with round ticks: linear, logarithmic, local time.  Internal to report/.
 *
 * An axis maps a value to 0 (its low end) .. 1 (its high end).  Ticks are multiples of 1, 2 or 5
 * times a power of ten; on a time axis, multiples of a minute to a year on the local clock of the
 * zone, so midnight stays midnight across a change of the clocks. */
#ifndef REPORT_AXIS_PRIV_H
#define REPORT_AXIS_PRIV_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/tz.h"
#include "report/fmt_priv.h"

enum { AXIS_TICKS_MAX = 24 };

struct axis {
    double lo, hi; /* lo < hi; both > 0 on a log axis; microseconds on a time axis */
    bool log;
    double step; /* between ticks of a linear axis */
    size_t n;
    double tick[AXIS_TICKS_MAX]; /* ascending, within [lo, hi] */
};

/* Covers [lo, hi], widened to whole steps, about `want` ticks.  An empty or non-finite range is
 * widened to 1. */
struct axis axis_linear(double lo, double hi, int want);
/* Covers [lo, hi] > 0, widened to 1-2-5 values; ticks at each of them, at decades alone when that
 * would be more than `want` intervals. */
struct axis axis_log(double lo, double hi, int want);
/* Exactly [lo_us, hi_us], ticks on the local clock, at most `want`. */
struct axis axis_time(const struct tz *zone, int64_t lo_us, int64_t hi_us, int want);

double axis_at(const struct axis *a, double v);      /* 0..1, clamped; v <= 0 on a log axis is 0 */
double axis_at_free(const struct axis *a, double v); /* not clamped; v <= 0 on a log axis is -1 */
struct fmt axis_label(const struct axis *a, double v);
/* "06:00", at midnight or for steps of days "1 May", for longer steps "May 2024". */
struct fmt axis_time_label(const struct axis *a, const struct tz *zone, double v);

#endif
