/* record.h - capacity decisions into the store and back, complete enough to be made again.
 *
 * What decide_capacity() reads is kept: the view with every decision, the configuration as text
 * (one row per configuration), and the memory (struct capacity_state) as a keyframe now and then;
 * in between, memory follows from deciding again (replay.h).  A keyframe is written with the first
 * decision of a stream, when the configuration changes, after a round that was lost, whenever the
 * memory was changed from outside since the last decision (a new leader's safety state, a reset
 * breaker: found by hash), and every RECORD_KEYFRAME_EVERY decisions.
 *
 *     for each target:  decide_capacity(&cfg, &view, &before, &rng, &after, &plan, &record);
 *     store_begin(store, e);
 *     for each target:  record_put(rec, &stream, &in, &id, e);   in.intent: it will be acted upon
 *     rc = store_commit(store, e);
 *
 * If rc is not ERR_OK: record_lost(rec), go on from each target's `before`, and do not act.
 *
 * Blobs carry a version and are little endian, value by value; keyframes are the native block of
 * capacity_state_pack, which refuses another layout.  Formats: docs/store.md.
 * Packing 500 decisions allocates nothing.  One owner, one thread. */
#ifndef DAEMON_RECORD_H
#define DAEMON_RECORD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/rng.h"
#include "decide/capacity.h"
#include "model/latency.h"
#include "store/store.h"

enum { RECORD_VERSION = 1, RECORD_KEYFRAME_EVERY = 240 };

/* ---- configuration --------------------------------------------------------------------------- */

/* What a latency model was made from, so that it can be made again. */
enum record_latency_kind { RECORD_ERLANG, RECORD_CURVE };
struct record_latency {
    enum record_latency_kind kind;
    double service_ms; /* Erlang-C: latency_from_erlang(service_ms, slots, ...) */
    int slots;
    double unit_qps; /* curve: latency_from_curve(point, n_points, unit_qps, ...) */
    const struct latency_point *point; /* borrowed */
    int n_points;
};

/* What the configuration's text says beside struct capacity_config itself. */
struct record_source {
    struct record_latency latency;
    const char
        *policy_file; /* of the learned policy in use; NULL: none, or it could not be loaded */
    const char *zone; /* IANA name; for evaluate --from-store; NULL: UTC */
};

/* Canonical text (YAML) of a finished configuration, build and policy file's hash included.  Same
 * inputs, same text. A policy file that cannot be read (any more) is said to be so: those decisions
 * cannot be made again. */
void record_config_text(const struct capacity_config *cfg, const struct record_source *src,
                        struct buf *out);
/* The text's row in the store.  When a configuration changes, not once a round. */
NODISCARD enum err_code record_config(struct store *s, const struct capacity_config *cfg,
                                      const struct record_source *src, int64_t now_us,
                                      int64_t *config_id, struct err *e);

/* A configuration rebuilt from its text, with everything it borrows. */
struct record_rebuilt;
enum record_fit {
    RECORD_SAME_BUILD,
    RECORD_OTHER_BUILD, /* other commit, compiler or CPU feature level: bits may differ */
};
/* policy_file: where the learned policy is now; NULL: where it was.
 * Errors: ERR_MISSING (policy file not there), ERR_MISMATCH (another file of that name; a policy or
 * option this build does not know), ERR_PARSE.  Free with record_rebuilt_free. */
NODISCARD enum err_code record_rebuild(const char *text, const char *policy_file,
                                       struct record_rebuilt **out, struct err *e);
/* The service alone: spec, latency model and guard.  Policies are left out, so it works without
 * their files; the configuration is not finished. */
NODISCARD enum err_code record_rebuild_service(const char *text, struct record_rebuilt **out,
                                               struct err *e);
void record_rebuilt_free(struct record_rebuilt *r);
struct capacity_config *record_rebuilt_config(struct record_rebuilt *r);
const struct record_source *record_rebuilt_source(const struct record_rebuilt *r);
enum record_fit record_rebuilt_fit(const struct record_rebuilt *r,
                                   const char **made_by); /* "0.1.0 2f30029 ..." */

/* ---- writing --------------------------------------------------------------------------------- */

/* Place in the sequence of one target's decisions in one role.  Zeroed: the next one gets a
 * keyframe. */
struct record_stream {
    int64_t config_id;
    uint64_t state_hash; /* of the memory after the last decision stored */
    uint32_t round;      /* recorder's count of lost rounds then */
    int32_t since_keyframe;
};

struct recorder;
NODISCARD enum err_code recorder_new(struct store *s, const char *holder, struct recorder **out,
                                     struct err *e);
void recorder_free(struct recorder *r);

struct record_input {
    int64_t target_id, config_id;
    enum store_role role;
    const char *stage;
    const struct capacity_config *cfg;
    const struct capacity_view *view;
    const struct capacity_state *before, *after; /* the decision */
    const struct rng *rng_before, *rng_after;    /* NULL: none was given */
    const struct capacity_record *record;
    double reward_cost, reward_slo, reward_churn; /* of the step that ended; NaN: not known */
    bool intent;                                  /* it will be acted upon */
};

/* Errors: those of store_put_decision. */
NODISCARD enum err_code record_put(struct recorder *r, struct record_stream *st,
                                   const struct record_input *in, int64_t *decision_id,
                                   struct err *e);
/* The decision just recorded in words: factors, then what the guard did.  Valid until the next
 * record_put. */
const char *record_why(const struct recorder *r);
/* The round's transaction did not come through. */
void record_lost(struct recorder *r);

/* ---- reading --------------------------------------------------------------------------------- */

/* Unpack a row read with blobs.  record->policy and ->rule are static names, NULL when this build
 * does not know them. Errors: ERR_PARSE (damaged), ERR_MISMATCH (packed by another version or
 * observation layout). */
NODISCARD enum err_code record_view(const struct store_decision *d, struct capacity_view *view,
                                    struct err *e);
NODISCARD enum err_code record_read(const struct store_decision *d, struct capacity_record *record,
                                    struct err *e);

/* What the decision drew from, where it drew; *drew false: left alone. */
NODISCARD enum err_code record_rng(const struct store_decision *d, struct rng *rng, bool *drew,
                                   struct err *e);

#endif
