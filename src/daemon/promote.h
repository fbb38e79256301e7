/* promote.h - champion against challenger on the stores' own days.
 *
 * Each target's recorded demand is replayed through its simulated service with both policies behind
 * the same guard, the same seeds of starts and failures for both, days before the judged ones to
 * warm forecasts and memory up on.  A day is one observation: its seeds are averaged, its targets
 * added up.  The interval of the difference is Student's over days, not a bootstrap: of three to
 * seven clusters a percentile bootstrap is too narrow.
 *
 * Promoted is a challenger whose cost is lower with its 95 % interval below zero, whose misses are
 * not higher by more than a fifth of what the SLO allows (the interval's upper end over all
 * targets, the mean for each), over at least three whole days.
 *
 * Beside it, what the store says of both at work: shadow rows, targets on which the challenger
 * acted (A/B), alternating periods (switchback).  It is shown with its intervals and decides
 * nothing: live differences also hold what else differed. */
#ifndef DAEMON_PROMOTE_H
#define DAEMON_PROMOTE_H

#include "base/err.h"
#include "report/promotion.h"
#include "store/store.h"

enum { PROMOTE_DAYS_LEAST = 3, PROMOTE_DAYS_ASKED = 7, PROMOTE_TARGETS_MAX = 1024 };

struct promote_opts {
    const char *challenger;     /* a policy's name or a file */
    const char *champion;       /* NULL: the one that acts */
    const char *target;         /* NAME or NAMESPACE/NAME; NULL: all */
    int64_t since_us, until_us; /* since 0: seven days before the newest decision */
    int n_seeds;                /* 5 */
    double miss_share;          /* of the tolerated misses; 0.2 */
    const struct tz *zone;
};
struct promote_opts promote_opts_default(const char *challenger);

struct promote;
/* s: the stores of the replicas, n >= 1: each records only while it leads.
 * Errors: ERR_MISSING (no decision, no such target, the champion is not known), ERR_MISMATCH (the
 * challenger is the champion; a learned policy was trained on these days), those of running.
 * Targets without enough records are named in the result, and are no error. */
NODISCARD enum err_code promote_new(struct store *const *s, size_t n, const struct promote_opts *o,
                                    struct promote **out, struct err *e);
void promote_free(struct promote *p); /* NULL is fine */
const struct promotion *promote_result(const struct promote *p);

#endif
