/* clock.h - the two real clocks.  Decisions take time as an argument and never call these. */
#ifndef BASE_CLOCK_H
#define BASE_CLOCK_H

#include <stdint.h>

#define US_PER_MS INT64_C(1000)
#define US_PER_S INT64_C(1000000)
#define US_PER_MIN (60 * US_PER_S)
#define US_PER_HOUR (3600 * US_PER_S)
#define US_PER_DAY (86400 * US_PER_S)

int64_t clock_wall_us(void); /* since 1970-01-01 UTC: stamps and display */
int64_t clock_mono_us(void); /* never goes back: durations and timeouts */
double clock_mono_s(void);

#endif
