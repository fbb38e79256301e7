/* store.h - the audit record of one replica: every decision, what came of it, and what was
 * measured.
 *
 * One SQLite file (WAL).  A round is one transaction:
 *
 *     store_begin(s, e);
 *     for each target:  store_put_sample, store_put_decision (which gives the id)
 *     store_commit(s, e);
 *     act;  store_set_action(s, id, STORE_DONE, ...);
 *     store_tend(s, now_us, ...);
 *
 * From store_commit on the records are acknowledged: they survive kill -9 and power loss.
 * store_tend is for when nothing is urgent: checkpoint, and a slice of retention.
 *
 * Whoever acts, acts only after store_commit() returned ERR_OK.  When it does not (a full disk, a
 * failing one), nothing of the round was kept, the error says so, and store_health() tells which of
 * the two it is; the next round simply tries again, so the store recovers by itself when there is
 * space.  Safety does not depend on this file: it lives in CapacityTarget.status (docs/store.md).
 *
 * The store knows nothing of how decisions are made: it keeps columns that people query and blobs
 * packed elsewhere (daemon/record.h).  A writer holds PATH.lock, so that two replicas never share a
 * file by mistake; any number of readers work beside it.  Times are microseconds since the epoch;
 * missing numbers are NaN here and NULL there. Statements are prepared once; putting a row
 * allocates nothing of ours.  One owner, one thread. */
#ifndef STORE_STORE_H
#define STORE_STORE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"
#include "model/field.h"
#include "model/forecast.h"

enum { STORE_SCHEMA = 1 };         /* the newest this build knows; docs/store.md */
enum { STORE_TEXT_MAX = 1 << 20 }; /* bytes of one text or blob */

struct store;

struct store_opts {
    const char *path;
    bool read_only;    /* makes nothing, changes nothing, takes no lock */
    /* For a note beside the replica that has the store: writes, but makes nothing and takes no lock.
     * Each write is a transaction of its own that waits for the other's (busy_us), and the other for it. */
    bool beside;
    int64_t busy_us;   /* how long to wait for another connection */
    int64_t keep_us;   /* rows older than this go; 0: kept for ever */
    int64_t max_bytes; /* file and log together; the oldest rows go first; 0: no limit */
};
struct store_opts store_opts_default(const char *path);

/* Opens, makes and migrates.  Errors: ERR_IO (cannot be opened; another process writes to it),
 * ERR_MISMATCH (made by a newer version; not a store of ours), ERR_PARSE (damaged: says what to
 * do). */
NODISCARD enum err_code store_open(const struct store_opts *o, struct store **out, struct err *e);
void store_close(struct store *s); /* NULL is fine; an open round is lost */
const char *store_path(const struct store *s);
/* STATE_DIR/sluice.db; state_dir NULL: $SLUICE_STATE_DIR, else /var/lib/sluice.  mem_free. */
char *store_path_default(const char *state_dir);

enum store_health {
    STORE_OK,
    STORE_FULL,    /* no space for the last write */
    STORE_FAILING, /* the last write failed otherwise */
    STORE_DAMAGED, /* the file is not what was written */
};
/* Of the last write; STORE_OK again after one that worked. */
enum store_health store_health(const struct store *s);
const char *store_health_name(enum store_health h); /* "ok", "full", "failing", "damaged" */

/* ---- rows ------------------------------------------------------------------------------------ */

struct store_blob {
    const void *p;
    size_t n; /* 0: NULL */
};

/* Identity of a target.  NULL text is "". */
struct store_target {
    int64_t id;
    const char *cluster, *group, *kind, *namespace_, *name, *uid;
};

/* What decisions were made with: the canonical text of a configuration (daemon/record.h). */
struct store_config {
    int64_t id;
    int64_t first_us; /* first used */
    uint64_t hash;    /* of the text */
    const char *text;
};

#define STORE_ACTION_LIST(X)                                                                       \
    X(NONE, "none")           /* nothing was to be done, or this replica only watches */           \
    X(INTENDED, "intended")   /* written before acting; stays if the process dies in between */    \
    X(DONE, "done")           /* accepted by the API server */                                     \
    X(FAILED, "failed")       /* refused, or no answer and not found afterwards */                 \
    X(ABANDONED, "abandoned") /* not tried: frozen, lost lease, overtaken */                       \
    X(FOUND, "found")         /* after a restart the cluster was found as intended */
enum store_action {
#define X(id, name) STORE_##id,
    STORE_ACTION_LIST(X)
#undef X
        STORE_ACTIONS
};
const char *store_action_name(enum store_action a);

enum store_role {
    STORE_ACTING,
    STORE_SHADOW,
    STORE_ROLES
}; /* shadow: a challenger beside the acting policy */
const char *store_role_name(enum store_role r);

struct store_decision {
    int64_t id; /* given by store_put_decision; rises with every decision, never used twice */
    int64_t target_id, config_id;
    int64_t time_us;
    enum store_role role;
    const char *holder; /* identity of this replica */
    const char *stage;
    const char *policy;
    uint64_t inputs_hash;
    int32_t units_before, units_ready, proposed, executed;
    const char *verdict;  /* of the guard on the proposal: "pass", "clamp", "hold", "veto" */
    const char *decisive; /* the check that said so last; NULL: all passed */
    const char *rule;     /* run beside; NULL: none */
    int32_t rule_units;   /* with a rule */
    double value;         /* critic's */
    double reward_cost, reward_slo,
        reward_churn;  /* terms of the step that ended here; NaN: not known */
    const char *error; /* why the policy could not decide; NULL: it could */
    const char *why;   /* in words, as they were at the time */
    enum store_action action;
    int64_t action_us;                          /* newest change of `action`; 0: none */
    const char *outcome;                        /* in words; NULL: none */
    struct store_blob view, obs, choice, chain; /* packed by daemon/record.h */
    struct store_blob
        state; /* keyframe: all memory before the decision; most decisions have none */
};

/* Forecast levels are rows of their own: one per level, over (from_us, to_us]. */
struct store_forecast {
    int64_t target_id;
    int64_t made_us;
    int level; /* 0..FORECAST_LEVELS-1 */
    int64_t from_us, to_us;
    double mean, lo80, hi80, lo95, hi95;
    double actual; /* mean load over that span; NaN: not known (yet) */
};

struct store_sample {
    int64_t target_id;
    int64_t time_us; /* end of the window it was taken over */
    float value[FIELD_COUNT];
};

#define STORE_NOTE_LIST(X)                                                                         \
    X(START, "start")                                                                              \
    X(STOP, "stop")                                                                                \
    X(LEAD, "lead")                                                                                \
    X(FREEZE, "freeze")                                                                            \
    X(UNFREEZE, "unfreeze")                                                                        \
    X(OVERRIDE, "override")                                                                        \
    X(BREAKER_RESET, "breaker-reset")                                                              \
    X(PROMOTE, "promote")                                                                          \
    X(RELOAD, "reload")                                                                            \
    X(RELEASE, "release")
enum store_note_kind {
#define X(id, name) STORE_NOTE_##id,
    STORE_NOTE_LIST(X)
#undef X
        STORE_NOTES
};
const char *store_note_name(enum store_note_kind k);

/* What people and the process did, with who. */
struct store_note {
    int64_t id;
    int64_t time_us;
    enum store_note_kind kind;
    int64_t target_id; /* 0: no target in particular */
    const char *author, *text;
    int64_t until_us; /* 0: without expiry */
};

/* ---- writing --------------------------------------------------------------------------------- */

/* Errors of all of these: ERR_IO; `sys` is ENOSPC when there is no space.  After an error the round
 * is lost as a whole and further puts fail; store_commit or store_rollback ends it. */
NODISCARD enum err_code store_begin(struct store *s, struct err *e);
NODISCARD enum err_code store_commit(struct store *s, struct err *e);
void store_rollback(struct store *s); /* also without a round */

/* These work inside a round and outside (then each is one transaction). */

/* Finds or makes the row; a new uid is a new target. */
NODISCARD enum err_code store_target_id(struct store *s, const struct store_target *t,
                                        int64_t now_us, int64_t *id, struct err *e);
/* Finds or makes the row by text. */
NODISCARD enum err_code store_config_id(struct store *s, const char *text, int64_t now_us,
                                        int64_t *id, struct err *e);
NODISCARD enum err_code store_put_decision(struct store *s, const struct store_decision *d,
                                           int64_t *id, struct err *e);
/* Outcome of an action.  text may be NULL.  Errors: ERR_MISSING when the decision is not (any
 * longer) kept. */
NODISCARD enum err_code store_set_action(struct store *s, int64_t decision_id, enum store_action a,
                                         int64_t now_us, const char *text, struct err *e);
/* A second sample of the same target and time replaces the first. */
NODISCARD enum err_code store_put_sample(struct store *s, const struct store_sample *x,
                                         struct err *e);
/* All levels of a forecast. */
NODISCARD enum err_code store_put_forecast(struct store *s, int64_t target_id,
                                           const struct forecast *f, struct err *e);
/* Fills `actual` of forecasts whose span has ended by now_us from the stored samples, where 4 of 5
 * steps of step_us were measured; what cannot be known any more stays NULL.  filled may be NULL. */
NODISCARD enum err_code store_fill_actuals(struct store *s, int64_t now_us, int64_t step_us,
                                           int64_t *filled, struct err *e);
NODISCARD enum err_code store_put_note(struct store *s, const struct store_note *n, struct err *e);

/* Outside a round, once per round when nothing is urgent.  Moves the log into the file and deletes
 * at most a slice of what is too old or too much; call it again next round. */
struct store_tended {
    int64_t deleted; /* rows, this time */
    bool more;       /* there is more to delete */
    int64_t bytes;   /* file and log */
};
NODISCARD enum err_code store_tend(struct store *s, int64_t now_us, struct store_tended *out,
                                   struct err *e);

/* ---- reading --------------------------------------------------------------------------------- */

/* Zero: no such condition. */
struct store_query {
    int64_t target_id;
    const char *namespace_, *name; /* of the target; either may be NULL */
    int64_t since_us, until_us;    /* [since, until) */
    int64_t first_id, last_id;     /* both included */
    const char *verdict;
    bool acted;   /* only those with an action */
    bool pending; /* only those still STORE_INTENDED */
    int role;     /* 1 + enum store_role; 0: any */
    bool newest_first;
    bool blobs;    /* else they are left empty, and reading is faster */
    int64_t limit; /* 0: all */
};
/* The rows are borrowed for the call.  Return false to stop. */
typedef bool store_decision_fn(void *ctx, const struct store_decision *d,
                               const struct store_target *t);
NODISCARD enum err_code store_decisions(struct store *s, const struct store_query *q,
                                        store_decision_fn *fn, void *ctx, struct err *e);
/* One with its blobs.  Errors: ERR_MISSING (names the ids there are). */
NODISCARD enum err_code store_decision_get(struct store *s, int64_t id, store_decision_fn *fn,
                                           void *ctx, struct err *e);
/* Newest keyframe of the same target and role at or before the decision; *id 0: none is kept. */
NODISCARD enum err_code store_keyframe_before(struct store *s, int64_t decision_id, int64_t *id,
                                              struct err *e);

typedef bool store_target_fn(void *ctx, const struct store_target *t);
NODISCARD enum err_code store_targets(struct store *s, store_target_fn *fn, void *ctx,
                                      struct err *e);
/* Text borrowed for the call.  Errors: ERR_MISSING. */
typedef bool store_config_fn(void *ctx, const struct store_config *c);
NODISCARD enum err_code store_config_get(struct store *s, int64_t id, store_config_fn *fn,
                                         void *ctx, struct err *e);

/* Oldest first, of one target, [since, until). */
typedef bool store_sample_fn(void *ctx, const struct store_sample *x);
NODISCARD enum err_code store_samples(struct store *s, int64_t target_id, int64_t since_us,
                                      int64_t until_us, store_sample_fn *fn, void *ctx,
                                      struct err *e);
typedef bool store_forecast_fn(void *ctx, const struct store_forecast *f);
NODISCARD enum err_code store_forecasts(struct store *s, int64_t target_id, int64_t since_us,
                                        int64_t until_us, store_forecast_fn *fn, void *ctx,
                                        struct err *e);
typedef bool store_note_fn(void *ctx, const struct store_note *n);
NODISCARD enum err_code store_notes(struct store *s, int64_t since_us, int64_t until_us,
                                    store_note_fn *fn, void *ctx, struct err *e);

struct store_info {
    int64_t schema, bytes, log_bytes,
        free_bytes; /* free: pages inside the file that can be used again */
    int64_t targets, configs, decisions, keyframes, forecasts, forecasts_known, samples, notes;
    int64_t acted, pending;
    int64_t first_us, last_us; /* of the decisions; 0: none */
    int64_t first_id, last_id;
};
/* Counts rows: takes a moment on a large file. */
NODISCARD enum err_code store_info(struct store *s, struct store_info *out, struct err *e);
/* SQLite's own check of every page (seconds per GB).  Errors: ERR_PARSE, says what to do. */
NODISCARD enum err_code store_check(struct store *s, struct err *e);
/* Whether these first bytes are of a SQLite file. */
bool store_is_file(const void *head, size_t n);

#endif
