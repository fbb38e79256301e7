/* guard.h - eleven ordered checks between a proposal and what is executed.
 *
 * Every check narrows an interval [lo, hi] of permitted sizes around the size requested now.  An
 * earlier check outranks a later one: an interval that a later check would leave empty collapses to
 * its nearest permitted size.  The interval depends on the view and the state, never on the
 * proposal, so
 *
 *     executed = clamp(proposed, lo, hi)        and        permitted(u)  <=>  lo <= u <= hi
 *
 * come from the same numbers: the mask is exactly what the guard would execute (tests/prop).
 * Verdicts are numbers; guard_explain() turns them into words from a table, outside the hot path.
 * What each check does, and where it departs from the published rules: docs/guard.md. */
#ifndef DECIDE_GUARD_H
#define DECIDE_GUARD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/opt.h"
#include "model/capacity.h"

struct capacity_config;
struct capacity_state;

/* X(id, name, what), in order */
#define GUARD_CHECK_LIST(X)                                                                        \
    X(FREEZE, "freeze", "global freeze and pause annotations")                                     \
    X(OWNERSHIP, "ownership", "stage, managed label and other controllers")                        \
    X(FRESHNESS, "freshness", "stale, missing or non-finite metrics")                              \
    X(OVERRIDE, "override", "a size fixed by a person")                                            \
    X(AUDITOR, "auditor", "evidence that capacity is the bottleneck")                              \
    X(BOUNDS, "bounds", "least safe size, maximum and GPU budget")                                 \
    X(STEP, "step", "rate cap on scale-out")                                                       \
    X(COOLDOWN, "cooldown", "waits after actions and the flap budget")                             \
    X(STAGED, "staged", "scale-in by stages, watched")                                             \
    X(BREAKER, "breaker", "units that do not become ready")                                        \
    X(ANOMALY, "anomaly", "abnormal cluster")

enum guard_check {
#define X(id, name, what) GUARD_##id,
    GUARD_CHECK_LIST(X)
#undef X
        GUARD_CHECKS
};

enum guard_verdict {
    GUARD_PASS,  /* leaves the proposal as it stands */
    GUARD_CLAMP, /* reduces or raises it */
    GUARD_HOLD,  /* keeps the current size, for now */
    GUARD_VETO,  /* keeps the current size until something else changes */
    GUARD_VERDICTS
};

struct guard_result {
    uint8_t check;   /* enum guard_check */
    uint8_t verdict; /* enum guard_verdict */
    uint8_t reason;  /* row of the table of words in guard.c */
    int16_t lo, hi;  /* permitted after this check */
    float num[3];    /* meaning by reason */
};

enum guard_auditor { GUARD_AUDITOR_ANY, GUARD_AUDITOR_ALL, GUARD_AUDITOR_OFF };
enum guard_min_safe { GUARD_MIN_SAFE_LEVEL_P95, GUARD_MIN_SAFE_SLOT_P95, GUARD_MIN_SAFE_STATED };

enum guard_preset { GUARD_PRESET_DEFAULT, GUARD_PRESET_REFERENCE };

/* Declared as rows in guard_options_table; units in the names. */
struct guard_options {
    enum guard_preset preset; /* reference: waits of 5 min both ways, whatever the keys say */
    bool freeze;
    int64_t stale_us;                                             /* oldest sample acted on */
    double high_cpu_frac, high_mem_frac, high_gpu_frac, low_frac; /* watermarks */
    int64_t watermark_hold_us;
    enum guard_auditor auditor;
    double audit_queue;     /* requests */
    double audit_idle_frac; /* use under this with latency up: something else is slow */
    double headroom_min_frac;
    enum guard_min_safe min_safe;
    int64_t up_steps;
    double up_frac;
    int64_t up_window_us;
    int64_t slow_start_us; /* start-up above it widens the largest learned step */
    int64_t cooldown_out_us, cooldown_in_us;
    double uncertain_frac,
        uncertain_factor;      /* forecast uncertainty above which caution is multiplied */
    int64_t flap_budget_units; /* starts + stops per hour; 0: max(12, units_max) */
    double staged_frac;
    int64_t watch_us;
    int64_t start_budget_us;
    double start_budget_factor;
    int64_t breaker_us;
};
extern const struct opt_table guard_options_table;
void guard_options_default(struct guard_options *g);
/* The published constants, for comparison: 5 min both ways, everything else as default. */
void guard_options_reference(struct guard_options *g);
/* Sets what the preset says; capacity_config_finish does it. */
void guard_options_apply(struct guard_options *g);

#define GUARD_NEVER (INT64_MIN / 4)

/* The rate cap's window is 20 buckets wide and kept in 21, so that what was added in the middle of one is not
 * forgotten before the window is over. */
enum { GUARD_UP_WIDE = 20, GUARD_UP_BUCKETS = GUARD_UP_WIDE + 1, GUARD_FLAP_BUCKETS = 12 };

/* Sum over a sliding window, by time buckets. */
struct guard_window {
    int64_t bucket; /* newest, time / width */
    int32_t sum;
    int16_t at[GUARD_UP_BUCKETS];
};

struct guard_state {
    int64_t last_out_us, last_in_us; /* executed */
    int64_t watch_until_us;          /* staged scale-in */
    int64_t breaker_until_us;        /* open before, then half-open; GUARD_NEVER: closed */
    int64_t breaker_retry_us;        /* does not open again before: starts are given their time */
    int64_t high_since_us, low_since_us; /* watermarks crossed since; GUARD_NEVER if not */
    int64_t water_since_us;              /* forecast high water over the watermark since */
    int32_t lo, hi;                      /* permitted now, filled by guard_advance */
    int32_t ready_before, failed_before; /* units, at the step before */
    struct guard_window up;   /* units added, last up_window_us */
    struct guard_window flap; /* units added and removed, last hour */
};

void guard_state_init(struct guard_state *g);
/* Moves timers to view.now_us and fills lo and hi of the new instant. */
void guard_advance(const struct capacity_config *cfg, const struct capacity_view *view,
                   struct capacity_state *state);
/* The same interval, check by check, with verdicts on `proposed`.  chain: [GUARD_CHECKS].
 * Returns the permitted size. */
int guard_chain(const struct capacity_config *cfg, const struct capacity_view *view,
                const struct capacity_state *state, int proposed, struct guard_result *chain);
/* Remembers what was executed. */
void guard_commit(const struct capacity_config *cfg, const struct capacity_view *view,
                  struct capacity_state *state, int proposed, int executed);
/* It was not executed after all: forgets what guard_commit() remembered since `before`. */
void guard_forget(struct guard_state *g, const struct guard_state *before);
/* A person closes the breaker, open or half-open. */
void guard_breaker_reset(struct guard_state *g);

const char *guard_check_name(enum guard_check c);
const char *guard_check_what(enum guard_check c);
const char *guard_verdict_name(enum guard_verdict v);
/* "cooldown hold: scaled 45 s ago, next scale-in after 300 s"; at most n bytes with the NUL. */
void guard_explain(const struct guard_result *r, char *buf, size_t n);
/* Its second half alone: "scaled 45 s ago, next scale-in after 300 s". */
void guard_reason(const struct guard_result *r, char *buf, size_t n);
bool guard_silent(const struct guard_result *r); /* passed with nothing to say */

#endif
