/* decision.h - one capacity decision with its reasons, as text, JSON, table and (html.h) in the
 * page.
 *
 * A plain, borrowed record: what was there, what the policy proposed, what the guard let through,
 * why in words, the whole guard chain, and what the rules would have done. */
#ifndef REPORT_DECISION_H
#define REPORT_DECISION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/cli.h"
#include "base/json.h"
#include "base/tz.h"

enum { REPORT_FACTORS = 3 };

enum report_verdict { REPORT_PASS, REPORT_LIMIT, REPORT_VETO };

struct report_check {
    const char *name; /* of the guard's check */
    enum report_verdict verdict;
    const char *reason; /* in words; NULL or "": nothing to say */
};

struct report_decision {
    int64_t time_us;
    const char *policy;
    int units_from, units_proposed, units_to; /* before, as the policy proposed, after the guard */
    const char *factors[REPORT_FACTORS];      /* in words, strongest first; NULL: fewer */
    const struct report_check *checks; /* the whole chain in order; none: ran without a guard */
    size_t n_checks;
    const char *rule_name; /* what the rules would have done; NULL: not asked */
    int rule_units;
};

const char *report_verdict_text(enum report_verdict v); /* "passed", "limited", "vetoed" */

/* For a terminal: a headline, then why, the guard chain and the rules, each on lines of their own.
 * Checks that passed without remark are counted instead of listed unless `every_check`. */
void decision_text(const struct report_decision *d, const struct tz *zone, bool every_check,
                   bool colour, struct buf *out);
/* One object, as in the array below, into a JSON document being written. */
void decision_json(const struct report_decision *d, const struct tz *zone, struct json_writer *w);
/* n decisions: text with blank lines between; a JSON array of objects
 * {"time","policy","units_from",
 * "units_proposed","units_to","factors":[],"checks":[{"name","verdict","reason"}],"rule":{"name","units"}|null};
 * or CSV, one row each, with factors and remarks joined by "; ". */
void decisions_format(const struct report_decision *d, size_t n, const struct tz *zone,
                      enum cli_format format, bool colour, struct buf *out);

#endif
