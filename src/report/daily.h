/* daily.h - the daily report: what the rules in use did, what sluice would have done, and every disagreement explained.
 *
 * A plain value filled elsewhere (daemon/daily.h), printed as text, JSON, or one self-contained page.  Money and misses of both sides come
 * from the same simulated service under the day's measured demand, so they differ by the sizes alone; differences
 * are paired by hour, with 95 % intervals (NaN: too short a time for one).  Everything is borrowed. */
#ifndef REPORT_DAILY_H
#define REPORT_DAILY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/cli.h"
#include "base/tz.h"

struct daily_interval {
    double mean, lo, hi; /* NaN: not known */
};

/* One side over the hours compared. */
struct daily_side {
    double cost_usd, unit_hours, slo_violation_frac, p99_ms;
    int actions, reversals;
};

/* A stretch in which sluice and the rules wanted different sizes. */
struct daily_disagreement {
    int64_t from_us, to_us;
    int sluice_lo, sluice_hi, rules_lo, rules_hi; /* units wanted */
    int needed;        /* most units the demand then needed within the target, up to one start-up after; -1 unknown */
    bool against_rules; /* else against the sizes as they were */
    double unit_hours; /* sluice less those */
    int64_t decision;  /* the first, for `sluice decisions show` */
    const char *why;   /* its explanation */
    const char *verdict; /* in words, by what the demand then was */
};

struct daily_target {
    const char *name;      /* "shop/chat" */
    const char *policy, *rules; /* what would act, what was compared with */
    const char *note;      /* e.g. why there is no comparison; or NULL */
    bool compared;
    double hours, measured_frac; /* of the time asked for */
    double slo_p99_ms, slo_violation_max;
    bool acted;            /* sluice was in charge: "recorded" is what it did */
    struct daily_side recorded, sluice, rules_side; /* sizes as they were; as sluice would; as the rules by themselves would */
    struct daily_interval cost_frac;  /* sluice over recorded, less 1 */
    struct daily_interval misses;     /* sluice less recorded, fraction of steps */
    const struct daily_disagreement *disagreement;
    size_t n_disagreements, n_left_out;
};

struct daily_report {
    const char *cluster, *stage;
    int64_t since_us, until_us;
    const struct tz *zone;
    const struct daily_target *target;
    size_t n_targets;
    const char *const *notes; /* freezes, overrides, reloads, errors of the time, a line each */
    size_t n_notes;
};

void daily_format(const struct daily_report *r, enum cli_format format, bool colour, struct buf *out);
void daily_html(const struct daily_report *r, struct buf *out);
/* The outcome in a sentence or two, for a log line and the head of the page. */
void daily_summary(const struct daily_report *r, struct buf *out);

#endif
