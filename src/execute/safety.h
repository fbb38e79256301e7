/* safety.h - what a new leader must know to go on safely: kept in CapacityTarget.status.safety.
 *
 * Cooldowns, breaker, staged scale-in and both sliding windows are written before each action, with
 * the resourceVersion that was read, so whoever leads next continues them; nothing about safety
 * depends on a replica's own disk. The fields are those of the guard (decide/guard.h), which this
 * folder may not include; the daemon copies them one by one. Times are microseconds of the decision
 * clock; SAFETY_NEVER is "has not happened" and is left out of the JSON.
 *
 *     "safety": {"state": "Cooling", "lastScaleOut": "2026-11-29T12:00:00.000000Z",
 *                "readyBefore": 10,
 *                "rateWindow": {"bucketSeconds": 15, "newest": "2026-11-29T12:00:00.000000Z",
 *                               "units": [0, 2]}, ...}
 *
 * A window's `units` run from oldest to newest; `newest` is the start of the last bucket. Reading
 * is strict: a status that somebody edited into nonsense is an error with its path, and the caller
 * holds. */
#ifndef EXECUTE_SAFETY_H
#define EXECUTE_SAFETY_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "base/json.h"

#define SAFETY_NEVER (INT64_MIN / 4)
enum { SAFETY_BUCKETS = 20 };

/* Sum over a sliding window. Bucket number b covers [b, b + 1) * width_us and is held in at[b mod
 * n]; n and width_us come from the guard's options, so a window read back may have another shape:
 * see safety_window_fit. */
struct safety_window {
    int64_t width_us; /* of a bucket; 0: an empty window of no shape */
    int64_t bucket;   /* newest; SAFETY_NEVER: empty */
    int32_t n;        /* buckets, 1 .. SAFETY_BUCKETS */
    int32_t sum;
    int16_t at[SAFETY_BUCKETS];
};

#define SAFETY_STATE_LIST(X)                                                                       \
    X(NORMAL, "Normal")                                                                            \
    X(COOLING, "Cooling")                                                                          \
    X(WATCHING, "Watching")                                                                        \
    X(BREAKER_OPEN, "BreakerOpen")                                                                 \
    X(BREAKER_HALF_OPEN, "BreakerHalfOpen")                                                        \
    X(OVERRIDDEN, "Overridden")                                                                    \
    X(FROZEN, "Frozen")                                                                            \
    X(HELD, "Held")

enum safety_state {
#define X(id, name) SAFETY_##id,
    SAFETY_STATE_LIST(X)
#undef X
        SAFETY_STATES
};

struct safety_status {
    enum safety_state state; /* for people; derived, see safety_state_of */
    int64_t last_out_us, last_in_us;
    int64_t watch_until_us;
    int64_t breaker_until_us, breaker_retry_us;
    int64_t high_since_us, low_since_us, water_since_us;
    int32_t ready_before, failed_before;
    struct safety_window rate; /* units added */
    struct safety_window flap; /* units added and removed, last hour */
    int32_t reversals;         /* of our writes by somebody else, in a row (execute/reversal.h) */
    int64_t reversed_us;       /* the newest */
};

void safety_status_init(struct safety_status *s); /* nothing has happened yet */
const char *safety_state_name(enum safety_state s);

/* What beside the timers makes the state. */
struct safety_claims {
    bool frozen, overridden, held; /* held: stale metrics, owned by other, paused, not managed */
    int64_t wait_us;               /* the longer cooldown after an action */
};
/* The most restrictive first: frozen, held, overridden, breaker, watching, cooling, normal. */
enum safety_state safety_state_of(const struct safety_status *s, const struct safety_claims *c,
                                  int64_t now_us);

/* Re-buckets w to n buckets of width_us for a guard at now_us. Units move to the bucket that holds
 * the *end* of their old one, at most now's: a window may remember them longer, never shorter, and
 * never lies in the future (the guard would forget it). Units older than the new window are
 * dropped; sums saturate. Same shape and not in the future: unchanged. */
void safety_window_fit(struct safety_window *w, int32_t n, int64_t width_us, int64_t now_us);
/* Another replica's clock may be ahead, or ours went back: times that must lie in the past are
 * moved to now, deadlines to at most now + longest_us. Returns how many were moved: to be logged.
 */
int safety_clamp(struct safety_status *s, int64_t now_us, int64_t longest_us);

/* The members of "safety"; unset ones are written as null, which a merge patch deletes. */
void safety_status_put(struct json_writer *w, const char *key, const struct safety_status *s);
/* obj: the "safety" object, or NULL/null: a fresh state. Errors: ERR_PARSE, ERR_RANGE with the
 * path. */
NODISCARD enum err_code safety_status_parse(const struct json_doc *doc, const struct json *obj,
                                            struct safety_status *s, struct err *e);

#endif
