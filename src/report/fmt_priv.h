/* fmt_priv.h - numbers and times as people read them.  Internal to report/.
 *
 * Each returns its text by value (`fmt_money(v).s` lives until the end of the full expression).  A
 * number that is not finite reads "-".  No locale: "." for decimals, "," between thousands. */
#ifndef REPORT_FMT_PRIV_H
#define REPORT_FMT_PRIV_H

#include <stdbool.h>
#include <stdint.h>

#include "base/tz.h"

struct fmt {
    char s[64];
};

struct fmt fmt_fixed(double v, int decimals); /* "1,234.50" */
struct fmt fmt_money(double usd);             /* "$1,234", "$12.34", "$0.0123" */
struct fmt fmt_percent(double frac);          /* "0.62 %", "12.3 %" */
struct fmt
fmt_percent_change(double frac); /* "9.2 % less" is the caller's: this is "9.2 %" of |frac| */
struct fmt fmt_ms(double ms);    /* "182 ms", "1.25 s", "3.4 min" */
struct fmt fmt_ratio(double v);  /* "0.913" */
struct fmt fmt_axis(double v, double step); /* just the decimals the step needs; "20k", "1.5M" */
struct fmt fmt_duration(double seconds);    /* "15 s", "2.5 min", "6 h", "31 days" */
struct fmt fmt_count(double v);             /* "1,234" */

/* Local time: "2024-05-01 12:00", with seconds unless they are 0; the date alone. */
struct fmt fmt_time(const struct tz *zone, int64_t utc_us);
struct fmt fmt_day(const struct tz *zone, int64_t utc_us);       /* "Wed 1 May 2024" */
struct fmt fmt_day_short(const struct tz *zone, int64_t utc_us); /* "1 May" */
const char *fmt_zone(const struct tz *zone);

#endif
