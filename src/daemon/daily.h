/* daily.h - the daily report from a replica's store (report/daily.h).
 *
 * For each target: the recorded sizes, those of the policy that decides it, and those of the rules run through the same
 * simulated service under the measured demand, several seeds of starts and failures each; decisions that differed from what
 * the cluster had (or, where sluice acted, from what the rules would have done) are gathered into stretches and judged by the
 * demand that followed.  Reads only; takes seconds per target and week. */
#ifndef DAEMON_DAILY_H
#define DAEMON_DAILY_H

#include <stdint.h>

#include "base/err.h"
#include "report/daily.h"
#include "store/store.h"

enum { DAILY_DISAGREEMENTS = 12, DAILY_TARGETS_MAX = 1024 };

struct daily_opts {
    int64_t since_us, until_us; /* 0, 0: the last 24 h of the store */
    const char *target;         /* NAME or NAMESPACE/NAME; NULL: all */
    int n_seeds;                /* 5 */
    const struct tz *zone;      /* of the times shown; NULL: UTC */
};

struct daily;
/* Errors: ERR_MISSING when the store holds no decision of that time. */
NODISCARD enum err_code daily_new(struct store *s, const struct daily_opts *o, struct daily **out, struct err *e);
void daily_free(struct daily *d); /* NULL is fine */
const struct daily_report *daily_report_of(const struct daily *d);

#endif
