/* round.h - one decision round over all targets: views, the shared GPU budget, decisions.
 *
 * Pure apart from the targets it moves: measurements and counts come in, plans and records come out.  Targets decide in
 * order of class (P0 first), then of key, so that a short GPU budget goes to the higher class first: each may
 * grow into what those before it left, none is made smaller for another.  Nothing is allocated. */
#ifndef DAEMON_ROUND_H
#define DAEMON_ROUND_H

#include <stddef.h>
#include <stdint.h>

#include "daemon/target.h"

/* What sources say of one target this round. */
struct round_input {
    struct target *target;
    struct target_counts counts;
    struct target_sample sample;
    struct capacity_claims claims;
    double weight_latency, weight_cost;
    bool only_watched; /* what is decided will not be done, beside others that will: it takes no GPU from them */
};

/* in: [n], sorted here.  gpu_budget 0: none.  Targets that are not configured or whose size is not known are left
 * out (target.decided false).  Returns how many decided. */
size_t round_run(struct round_input *in, size_t n, const struct calendar *cal, int64_t now_us, int64_t gpu_budget);

#endif
