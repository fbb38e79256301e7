/* safety.h - the guard's memory into CapacityTarget.status.safety and back.
 *
 * execute/ may not include decide/, so the fields are carried over one by one here.  What comes back from a cluster is
 * bounded by the parser (execute/safety.h); windows are re-bucketed when the guard's options changed in between. */
#ifndef DAEMON_SAFETY_H
#define DAEMON_SAFETY_H

#include "decide/capacity.h"
#include "execute/safety.h"

/* reversals and reversed_us of *out are left alone: they are not the guard's. */
void safety_from_guard(const struct capacity_config *cfg, const struct guard_state *g, struct safety_status *out);
void safety_to_guard(const struct capacity_config *cfg, const struct safety_status *s, int64_t now_us,
                     struct guard_state *g);
/* Whether `s` knows of something later than `g`: another leader acted since. */
bool safety_is_newer(const struct safety_status *s, const struct guard_state *g);

#endif
