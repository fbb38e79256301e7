/* status.h - CapacityTarget.status as one plain value: written as a merge patch, read back
 * strictly.
 *
 * Everything in it is rewritten by every write (members that are unset become null and vanish),
 * lists as a whole, so the object never holds a mixture of two writers. Members this version does
 * not know are left alone. The CRD reference is docs/capacitytarget.md;
 * deploy/crd/capacitytargets.yaml holds the same bounds (tested).
 *
 * When to write (status_gate): at once when an action, an intent, a safety timer of an action or a
 * condition's value changed; at most every 30 s when sizes, states or kinds of reason changed; at
 * most every 10 min when only numbers inside reasons or the forecast did; never because the clock
 * moved. 500 idle targets write nothing per round. */
#ifndef EXECUTE_STATUS_H
#define EXECUTE_STATUS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/json.h"
#include "execute/safety.h"

enum {
    STATUS_ID = 64,    /* bytes of ids, names of stages and policies, with the NUL */
    STATUS_NAME = 256, /* of holders, authors, resourceVersions, uids */
    STATUS_TEXT = 512, /* of reasons and messages */
    STATUS_POINTS = 3,
    STATUS_STARTS = 16,      /* measured start-up times kept */
    STATUS_UNITS_MAX = 4096, /* CAPACITY_UNITS_LIMIT */
    STATUS_BYTES_MAX = 64 << 10,
};

/* made_us 0, or a number that is not finite: none */
struct status_forecast {
    int64_t made_us;
    double points[STATUS_POINTS]; /* requests/s: means of the 5 min ending 5, 10, 15 min ahead */
    double level;                 /* of the next 30 min */
    double high;                  /* high water */
    double uncertainty;           /* 0..1 */
    bool usable;
};

/* id "": none */
struct status_decision {
    char id[STATUS_ID];
    int64_t time_us;
    int32_t units, previous;
    char policy[STATUS_ID];
    char reason[STATUS_TEXT];
};

/* What is about to be done, written before it is.  id "": none. */
struct status_intent {
    char id[STATUS_ID];
    int32_t from, to;
    int64_t time_us;
    char holder[STATUS_NAME];
    char scale_version[STATUS_NAME]; /* resourceVersion of the scale that was read */
    char scale_uid[STATUS_NAME];
};

#define OUTCOME_LIST(X)                                                                            \
    X(NONE, "")                                                                                    \
    X(EXECUTED, "Executed")   /* written, and answered with success */                             \
    X(FOUND, "Found")         /* the size was there when it was read back */                       \
    X(ABANDONED, "Abandoned") /* not written, or refused by a precondition */                      \
    X(FAILED, "Failed")       /* the API server refused it */
enum outcome_result {
#define X(id, name) OUTCOME_##id,
    OUTCOME_LIST(X)
#undef X
        OUTCOMES
};

#define STATUS_READY_LIST(X)                                                                       \
    X(NONE, "")                                                                                    \
    X(PENDING, "Pending")                                                                          \
    X(READY, "Ready")                                                                              \
    X(LATE, "Late")
enum status_ready {
#define X(id, name) STATUS_READY_##id,
    STATUS_READY_LIST(X)
#undef X
        STATUS_READYS
};

struct status_outcome {
    enum outcome_result result;
    char id[STATUS_ID]; /* of the intent */
    int32_t from, to;
    int32_t found; /* units read back; -1 unknown */
    int64_t time_us;
    enum status_ready ready; /* of the units asked for */
    int64_t ready_us;        /* 0: not yet */
    char message[STATUS_TEXT];
};

struct status_freeze {
    bool on;
    int64_t since_us;
    char author[STATUS_NAME], reason[STATUS_TEXT];
};

/* A size fixed by a person through a replica's endpoint (spec.override is the owner's own way).
 * units -1: none. */
struct status_override {
    int32_t units;
    int64_t until_us;
    char author[STATUS_NAME], reason[STATUS_TEXT];
};

/* Measured start-up times, oldest first (profile/startup.h). */
struct status_startup {
    int32_t n;
    float seconds[STATUS_STARTS];
};

#define CONDITION_LIST(X)                                                                          \
    X(READY, "Ready", "every unit asked for is ready")                                             \
    X(ACTIVE, "Active", "sluice decides this target's size")                                       \
    X(OWNED, "OwnedByOther", "another controller sets this target's size")                         \
    X(INPUTS_FRESH, "InputsFresh", "measurements are complete and recent")                         \
    X(POLICY_HEALTHY, "PolicyHealthy", "the configured policy is loaded and decides")
enum condition_type {
#define X(id, name, what) CONDITION_##id,
    CONDITION_LIST(X)
#undef X
        CONDITIONS
};
enum condition_value { CONDITION_UNKNOWN, CONDITION_FALSE, CONDITION_TRUE };

struct status_condition {
    enum condition_value value;
    int64_t since_us; /* lastTransitionTime; 0: never set, and left out */
    int64_t generation;
    char reason[STATUS_ID]; /* CamelCase */
    char message[STATUS_TEXT];
};

struct target_status {
    int64_t observed_generation;
    int32_t desired, current, ready; /* units; -1 unknown */
    char stage[STATUS_ID];
    struct status_forecast forecast;
    struct status_decision decision;
    struct safety_status safety;
    struct status_intent intent;
    struct status_outcome outcome;
    struct status_freeze freeze;
    struct status_override fixed; /* status.override */
    struct status_startup startup;
    struct status_condition conditions[CONDITIONS];
};

void target_status_init(struct target_status *s);
const char *outcome_name(enum outcome_result r);
/* Sets a condition; its transition time moves only when the value changes. Reason is CamelCase.
 * Returns whether the value changed. Texts are cut at a character's boundary. An empty message becomes the reason:
 * API servers of some builds take an empty text in a list of a custom resource for null, and refuse the whole status. */
bool condition_set(struct target_status *s, enum condition_type t, enum condition_value value,
                   const char *reason, const char *message, int64_t now_us);

/* The body of a merge patch of the status subresource, with metadata.resourceVersion as its
 * precondition. Errors: ERR_LIMIT over STATUS_BYTES_MAX. */
NODISCARD enum err_code target_status_patch(const struct target_status *s,
                                            const char *resource_version, struct buf *out,
                                            struct err *e);
/* obj: the "status" object, or NULL: a fresh status. Errors: ERR_PARSE, ERR_RANGE, ERR_LIMIT with
 * the path of what is wrong; s is then untouched. */
NODISCARD enum err_code target_status_parse(const struct json_doc *doc, const struct json *obj,
                                            struct target_status *s, struct err *e);

/* Remembers what was last written. */
struct status_gate {
    uint64_t urgent, slow, stale; /* hashes */
    int64_t written_us;           /* the caller's clock; SAFETY_NEVER: never */
};
enum { STATUS_PERIOD_S = 30, STATUS_STALE_S = 600 };
void status_gate_init(struct status_gate *g);
bool status_gate_due(const struct status_gate *g, const struct target_status *s, int64_t now_us);
void status_gate_written(struct status_gate *g, const struct target_status *s, int64_t now_us);

#endif
