/* bench.h - repeated timing, printed as one JSON object per line:
 *     {"name":"env_steps_per_s","value":5.2e6,"unit":"1/s","p10":5.0e6,"p90":5.3e6,"n":9}
 * value is the median.  $ONLY limits a run to one name. */
#ifndef BENCH_BENCH_H
#define BENCH_BENCH_H

#include <stdbool.h>

/* True when this benchmark was asked for. */
bool bench_wanted(const char *name);
/* Calls run(arg) `n` times after one warm-up.  run returns the figure of one repetition. */
void bench_report(const char *name, const char *unit, int n, double (*run)(void *arg), void *arg);
/* Seconds on the monotonic clock. */
double bench_now_s(void);

#endif
