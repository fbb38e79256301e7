/* freeze.h - the brake: act on nothing, from now on, whatever else is broken.
 *
 * Needs neither API server nor Prometheus nor a main loop that moves.  Three causes, each with its own hand:
 *
 *   person    an endpoint or SIGUSR1.  In force at once, then kept in STATE_DIR/frozen; a start with that file starts
 *             frozen, also when the file cannot be read.  A full disk does not weaken it: the freeze
 *             holds in memory, the caller is told, and writing is tried again every few seconds.
 *   config    `freeze: true`, set and lifted by the configuration alone
 *   cluster   what the leader wrote into CapacityTarget status, so that replicas agree; newest person wins
 *
 * frozen = any of the three.  Unfreezing lifts person and cluster, never config, and says what stays in force.
 * If the file cannot be removed the freeze stays: otherwise a restart would freeze again unasked.
 * Every acting path asks freeze_on() right before each write: one atomic load.
 *
 * The file is one JSON object: {"author", "reason", "source", "time"}.
 * SIGUSR1 is read by a thread of its own (signalfd), not by a handler: no process-wide state, and a stuck main
 * loop does not delay it.  All functions may be called from any thread. */
#ifndef DAEMON_FREEZE_H
#define DAEMON_FREEZE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "base/log.h"

struct freeze;

enum freeze_source { FREEZE_ENDPOINT, FREEZE_SIGNAL, FREEZE_FILE, FREEZE_CLUSTER, FREEZE_SOURCES };
const char *freeze_source_name(enum freeze_source s);

/* The last word of a person, either way. */
struct freeze_word {
    bool frozen;
    enum freeze_source source;
    char author[128];
    char reason[256];
    int64_t at_us;          /* wall time; 0: nobody ever said anything */
};
struct freeze_info {
    bool frozen;            /* any cause */
    bool person, config, cluster;
    bool persisted;         /* the person's freeze is on disk, or there is none */
    struct freeze_word word;
};

/* Looks for STATE_DIR/frozen.  state_dir NULL: nothing is kept on disk, and every freeze says so.
 * Never fails for want of a readable file: that starts frozen.  Errors: ERR_IO when the folder cannot be made. */
NODISCARD enum err_code freeze_new(const char *state_dir, bool config, struct log *log, struct freeze **out,
                                   struct err *e);
void freeze_free(struct freeze *f); /* ends the signal thread; the file stays */

/* SIGUSR1 freezes from now on.  Call before any other thread is started: they inherit the blocked signal.
 * Once per process.  Errors: ERR_IO. */
NODISCARD enum err_code freeze_catch_signal(struct freeze *f, struct err *e);

/* May this process act?  Cheap: before every write. */
bool freeze_on(const struct freeze *f);
void freeze_info(struct freeze *f, struct freeze_info *out);
/* Counts changes of any kind: the main loop compares it to see that something is to be replicated or logged. */
uint64_t freeze_changes(const struct freeze *f);

/* In force when it returns, whatever it returns.  author, reason: NULL is "".  at_us: wall time.
 * Errors: ERR_IO when it could not be kept on disk (it holds in memory, and is tried again). */
NODISCARD enum err_code freeze_set(struct freeze *f, enum freeze_source source, const char *author, const char *reason,
                                   int64_t at_us, struct err *e);
/* Errors: ERR_IO when the file cannot be removed; the freeze stays in force then. */
NODISCARD enum err_code freeze_clear(struct freeze *f, enum freeze_source source, const char *author,
                                     const char *reason, int64_t at_us, struct err *e);
void freeze_set_config(struct freeze *f, bool on);
/* What CapacityTarget status says (main thread, after reading it).  Takes effect when it is newer than this
 * replica's own last word; a word that is older than ours is ignored, and ours is to be written instead: returns false then. */
bool freeze_set_cluster(struct freeze *f, const struct freeze_word *w);
/* Tries again to keep on disk what is not; the signal thread does it by itself every 5 s. */
void freeze_retry(struct freeze *f);

/* "frozen by ann (endpoint) since 2024-05-01T12:00:00Z: bad rollout"; at most n bytes. */
void freeze_words(const struct freeze_info *i, char *out, size_t n);

#endif
