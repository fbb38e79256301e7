/* from_cluster.h - a live target as it is now, made ready to simulate: read-only.
 *
 * Read once: the target's profile, size, pods and safety state from the API server, its load of the
 * last days from Prometheus (5-min means, lines between), and its latency curve from there where
 * none is stated.  What comes next is taken to be the load of the same weekday a week ago, else of
 * the newest day of its kind (weekday, weekend), else of yesterday.
 *
 * A run begins an hour before now so that policies have seen something; the sizes of that hour are
 * the present one's, warming units being asked for when they really were, and decisions of that
 * hour are not carried out.  From now on the policy decides, with the guard's memory of the
 * target's status: a cooldown that runs goes on running.
 *
 * The client refuses every verb but GET and self-reviews.  If the credentials could write all the
 * same, that is said. */
#ifndef DAEMON_FROM_CLUSTER_H
#define DAEMON_FROM_CLUSTER_H

#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"
#include "daemon/config.h"
#include "train/evaluate.h"
#include "train/world.h"

struct from_cluster_opts {
    const struct run_config *config; /* kubeconfig, Prometheus, queries, defaults, guard */
    const char *target;              /* NAMESPACE/NAME; NULL when there is one only */
    int64_t since_us;                /* how far back the load is read; 7 days */
    int64_t ahead_us;                /* how long is simulated; at most a day */
    int64_t wait_us;                 /* for lists and answers; 0: 60 s */
    int64_t now_us;                  /* wall clock; 0: now */
    struct log *log;
};

struct from_cluster {
    struct scenario scenario;
    struct world *world;
    int32_t now_step;            /* of the world: first to be decided */
    char name[520], policy[256]; /* policy: that would act, a name or a file; "" none at hand */
    int units_asked, units_ready, units_warming, units_failed;
    int warm[CAPACITY_WARM_BINS];
    struct guard_state *guard; /* from the status; NULL: none is known */
    char replayed[64];         /* "Sun 2026-11-22" or "the same weekday", in words */
    char writable[256];        /* what the credentials could write; "" nothing of what was asked */
    struct buf notes;          /* what to know about this, a line each */
    struct latency_point *points; /* that scenario borrows */
};

/* Errors: ERR_MISSING (no such target, no load, no Prometheus), ERR_INVAL (its profile has faults,
 * in words), those of the clients.  out is released with from_cluster_fini in any case. */
NODISCARD enum err_code from_cluster_read(const struct from_cluster_opts *o,
                                          struct from_cluster *out, struct err *e);
void from_cluster_fini(struct from_cluster *f);

/* Called once per simulated step. */
typedef void from_cluster_look(void *ctx, const struct run_look *look);
/* One policy from the present on, under one seed.  who NULL: the size stays as it is.  look may be
 * NULL. */
NODISCARD enum err_code from_cluster_run(const struct from_cluster *f, const struct contender *who,
                                         uint64_t seed, from_cluster_look *look, void *ctx,
                                         struct run_day *total, struct err *e);

#endif
