/* lead.h - leadership in a thread of its own, so that neither a long round nor a slow disk lets the lease run out.
 *
 * The thread has its own http_client and kube; the main thread only asks whether this replica leads, and until when.
 * Losing the lease needs no message: lead_held() turns false by the clock before another replica can begin.
 * Without a lease (lease.enabled: false) this replica always leads; in the observe stage none is made. */
#ifndef DAEMON_LEAD_H
#define DAEMON_LEAD_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "base/log.h"
#include "kube/lease.h"

struct lead_opts {
    const struct kube_config *config; /* borrowed */
    struct lease_opts lease;          /* texts borrowed */
    struct log *log;
    void (*changed)(void *ctx);       /* from the thread, when leadership begins or the holder changes; may be NULL */
    void *ctx;
};

struct lead;
NODISCARD enum err_code lead_start(const struct lead_opts *o, struct lead **out, struct err *e);
/* Ends the thread; release: gives the lease back, so that another replica need not wait. */
void lead_stop(struct lead *l, bool release);

/* Any thread. */
bool lead_held(const struct lead *l);
int64_t lead_held_until_us(const struct lead *l); /* clock_mono_us; 0: not held */
uint64_t lead_epoch(const struct lead *l);
void lead_holder(struct lead *l, char out[256]); /* as last seen */

#endif
