/* lease.h - leader election over a coordination.k8s.io/v1 Lease.
 *
 * The rules of client-go's leaderelection, with each attempt an explicit call:
 *   - another's clock is never compared with ours.  A lease is free once its record has not changed
 * for its own duration, counted on our monotonic clock from when we last saw it change.
 *   - we are leader until (start of the last successful request + duration - margin) on our
 * monotonic clock.  Whoever else takes over saw our record change no earlier than that request, so
 * waits longer than we lead.
 *   - a write carries the resourceVersion it is based on; 409 means somebody was faster: read
 * again, decide again. A stall longer than the lease (of us or of the API server) therefore ends
 * leadership by itself, before another can begin; afterwards lease_try() may win again, with a new
 * epoch.
 *
 * Belongs to one thread (the daemon's lease thread, with its own http_client and kube);
 * lease_held(), lease_held_until_us() and lease_epoch() may be read from any thread. */
#ifndef KUBE_LEASE_H
#define KUBE_LEASE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "kube/client.h"

struct lease_opts {
    const char *ns, *name;
    const char *holder;  /* unique per process: pod name + random part */
    int64_t duration_us; /* whole seconds; 15 s */
    int64_t renew_us;  /* an attempt may take duration - renew, so that one that began in time ends
                          in time; 10 s */
    int64_t retry_us;  /* between attempts; 2 s */
    int64_t margin_us; /* lead this much shorter than the record says; 500 ms */
};
struct lease_opts lease_opts_default(void);

struct lease;
/* Errors: ERR_INVAL for times that contradict each other (retry < renew < duration - margin). */
NODISCARD enum err_code lease_new(struct kube *k, const struct lease_opts *o, struct lease **out,
                                  struct err *e);
void lease_free(struct lease *l); /* does not release */

/* One attempt to get or keep the lease; blocks at most duration - renew.  ERR_OK whether we lead or
 * another does; an error says that the API server could not be asked, and changes nothing:
 * leadership ends when its time is up. */
NODISCARD enum err_code lease_try(struct lease *l, struct err *e);
/* When to call lease_try again, in microseconds from now. */
int64_t lease_wait_us(const struct lease *l);
/* Gives it back so that another need not wait; we stop leading first, whatever the answer. */
NODISCARD enum err_code lease_release(struct lease *l, struct err *e);

/* Any thread.  An action needs lease_held() before it and its own deadline before
 * lease_held_until_us() (clock_mono_us). */
bool lease_held(const struct lease *l);
int64_t lease_held_until_us(const struct lease *l); /* 0 when not held */
/* Counts up each time leadership begins: state read in an earlier epoch is stale. */
uint64_t lease_epoch(const struct lease *l);

const char *lease_holder(
    const struct lease *l); /* who held it when last seen; "" nobody; the lease's own thread */
int64_t lease_transitions(const struct lease *l);

#endif
