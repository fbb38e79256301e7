/* replay.h - stored decisions made again, and compared bit for bit.
 *
 * Target by target and role by role: the newest keyframe at or before the first decision asked for
 * gives the memory, the stored text gives the configuration, and from there every decision is made
 * again from its stored view.  Compared are proposal, executed size, rule's size, inputs hash,
 * observation, candidates, mask, probabilities, value, the guard's chain with its numbers, and the
 * memory afterwards (by hash).
 *
 * What cannot be made again is never counted as the same, and says why.  One thread. */
#ifndef DAEMON_REPLAY_H
#define DAEMON_REPLAY_H

#include <stdint.h>

#include "base/err.h"
#include "store/store.h"

#define REPLAY_FATE_LIST(X)                                                                        \
    X(SAME, "same", "the same bits")                                                               \
    X(DIFFERENT, "different", "different")                                                         \
    X(OTHER_BUILD_SAME, "other_build_same", "the same bits, but decided by another build")         \
    X(OTHER_BUILD_DIFFERENT, "other_build_different", "different, and decided by another build")   \
    X(NO_KEYFRAME, "no_keyframe", "the memory they began with is no longer kept")                  \
    X(NO_CONFIG, "no_config", "the configuration cannot be made again")                            \
    X(UNREADABLE, "unreadable", "the record cannot be read")
enum replay_fate {
#define X(id, name, what) REPLAY_##id,
    REPLAY_FATE_LIST(X)
#undef X
        REPLAY_FATES
};
const char *replay_fate_name(enum replay_fate f);
const char *replay_fate_what(enum replay_fate f);

/* One decision that was not simply the same. */
struct replay_finding {
    const struct store_decision *decision;
    const struct store_target *target;
    enum replay_fate fate;
    const char
        *why; /* "executed 12, made again 13; observation qps_over_median 1.8, made again 1.9" */
};
/* Return false to stop. */
typedef bool replay_fn(void *ctx, const struct replay_finding *f);

struct replay_counts {
    int64_t n[REPLAY_FATES];
    int64_t total;
    int64_t keyframes; /* started from */
};

/* q: which decisions; its target, names, role, times and ids are looked at.  policy_file: where the
 * learned policy is now, NULL: where it was.  Errors: of reading the store; ERR_INTERRUPTED. */
NODISCARD enum err_code replay_run(struct store *s, const struct store_query *q,
                                   const char *policy_file, replay_fn *fn, void *ctx,
                                   struct replay_counts *out, struct err *e);
/* Everything asked for was made again by this build and came out the same; decisions whose keyframe
 * retention has removed are nobody's fault and do not count against it. */
bool replay_passed(const struct replay_counts *c);

#endif
