/* daemon.h - `sluice run`: the loop that collects, decides, records and acts.
 *
 * One thread owns requests, informers, decisions and the store; a second keeps the lease (lead.h), a third reads the
 * past of new targets (past.h), a fourth waits for SIGUSR1 (freeze.h), and the endpoints have their own (serve.h).
 *
 * A turn of the loop: move requests; look for a new configuration, commands, changes of targets; collect every
 * 5 s; and every decision period, once the collection that began with it is in (or a second later):
 *
 *     count pods, read samples -> views -> decisions -> one transaction -> for the leader: intents, sizes, outcomes
 *
 * A decision is acted upon only when its record is committed, the lease is held, nothing is frozen, the stage covers the
 * target, and its CapacityTarget took the intent.  docs/run.md, docs/execute.md. */
#ifndef DAEMON_DAEMON_H
#define DAEMON_DAEMON_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "base/log.h"

/* What a test of many replicas and days puts in place of the world: clocks, who leads, and how soon to try again. */
struct daemon_outside {
    int64_t (*wall_us)(void *ctx);
    int64_t (*mono_us)(void *ctx);
    bool (*leads)(void *ctx, const char *replica);
    int64_t retry_us; /* first wait after a failed request, list or query, eightfold at most; 0: the usual ones */
    void *ctx;
};

struct daemon_opts {
    const char *config_path;   /* NULL: defaults and sets alone */
    char *const *sets;         /* key=value, over the file */
    size_t n_sets;
    const char *replica;       /* identity; NULL: host name and a random part */
    uint64_t seed;
    struct log *log;
    const struct daemon_outside *outside; /* borrowed; NULL: the real clocks, and the lease decides who leads */
};

struct daemon;
/* Reads the configuration and starts everything but the loop.  Errors: what is wrong with the configuration, the store, the
 * kubeconfig, a port.  An API server or Prometheus that does not answer is no error: the loop waits for them. */
NODISCARD enum err_code daemon_new(const struct daemon_opts *o, struct daemon **out, struct err *e);
/* Until SIGINT or SIGTERM (base/signal.h); then finishes what was begun, for at most 10 s, and gives the lease back. */
NODISCARD enum err_code daemon_run(struct daemon *d, struct err *e);
void daemon_free(struct daemon *d); /* NULL is fine */

uint16_t daemon_port(const struct daemon *d); /* of the endpoints */
/* One turn, waiting at most wait_us; for tests that run several daemons in one process. */
void daemon_turn(struct daemon *d, int64_t wait_us);
bool daemon_leads(const struct daemon *d);
double daemon_round_s(const struct daemon *d); /* how long the newest round took, records included; 0: none yet */
/* Where its endpoints leave commands (shared.h): for tests that give some without HTTP. */
struct shared *daemon_shared(const struct daemon *d);
/* Nothing is due, asked for or being carried out at this instant: for tests whose clock stands still. */
bool daemon_quiet(const struct daemon *d);

#endif
