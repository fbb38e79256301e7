/* promotion.h - champion and challenger: what the comparison found, and whether it is enough.
 *
 * A plain value filled elsewhere (daemon/promote.h), printed as text or JSON.  Intervals are 95 %;
 * NaN: not known.  Differences are challenger less champion: below zero is cheaper, or fewer
 * misses.  Everything is borrowed. */
#ifndef REPORT_PROMOTION_H
#define REPORT_PROMOTION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/cli.h"
#include "base/tz.h"

struct promotion_interval {
    double mean, lo, hi;
};

#define PROMOTION_LIST(X)                                                                          \
    X(PROMOTE, "promote", "a significant win in cost, and no worse on the SLO")                    \
    X(NO_WIN, "no-win", "its cost is not significantly lower")                                     \
    X(DEARER, "dearer", "it is significantly dearer")                                              \
    X(MISSES, "misses", "it may miss the SLO more often than is tolerated")                        \
    X(TOO_SHORT, "too-short", "there are too few days")
enum promotion_verdict {
#define X(id, name, words) PROMOTION_##id,
    PROMOTION_LIST(X)
#undef X
        PROMOTIONS
};
const char *promotion_verdict_name(enum promotion_verdict v);

/* One target over the days replayed. */
struct promotion_target {
    const char *name, *note; /* note: why it is not compared, or NULL */
    bool compared;
    int days;
    double cost_champion_usd, cost_challenger_usd; /* all days */
    double miss_champion, miss_challenger;         /* of the steps */
    double miss_margin;                            /* tolerated more */
};

/* What was measured while both were at work; n 0: nothing of the kind is recorded. */
struct promotion_live {
    int64_t n; /* decisions (shadow), targets (A/B), pairs of periods (switchback) */
    int n_champion, n_challenger; /* A/B: targets each; switchback: periods each; shadow: days,
                                     decisions that differed in 1/1000 */
    bool enough;
    struct promotion_interval units_frac; /* units asked for over units needed (shadow: over the
                                             champion's), less the same of the champion */
    struct promotion_interval misses;     /* of the steps; shadow: NaN */
};

struct promotion {
    const char *champion, *challenger;
    int64_t since_us, until_us;
    const struct tz *zone;
    int days, days_least, days_asked, n_seeds;
    const struct promotion_target *target;
    size_t n_targets;
    double cost_champion_usd, cost_challenger_usd, miss_champion, miss_challenger;
    struct promotion_interval cost_frac; /* over the champion's cost */
    struct promotion_interval misses;
    double miss_margin;
    enum promotion_verdict verdict;
    const char *words; /* the verdict with its numbers */
    struct promotion_live shadow, ab, switchback;
    const char *setting; /* lines of configuration; NULL unless promoted */
};

void promotion_format(const struct promotion *p, enum cli_format format, bool colour,
                      struct buf *out);

#endif
