/* choose.h - from a policy as the configuration names it to a configuration of the decision function.
 *
 *     "rules"    the rule policy (run_config.rules)
 *     "learned"  the policy file
 *     a name     that policy, "mpc" or "hpa:gpu=0.7" style names excluded: options come from learned files only
 *     a path     (ends in .safetensors) that policy file
 * Live decisions always run behind the guard, and the rule policy is always run beside for the record. */
#ifndef DAEMON_CHOOSE_H
#define DAEMON_CHOOSE_H

#include <stdbool.h>

#include "decide/capacity.h"
#include "decide/guard.h"
#include "train/learned.h"

struct choose {
    const struct capacity_spec *spec;
    const struct guard_options *guard;
    const char *policy, *policy_file, *rules;
    bool baseline; /* a learned policy that cannot decide does what the rules would; else it holds */
};

/* out->spec.latency is spec's.  *l holds the networks; learned_fini when out is no longer used, whatever the result.
 * A learned policy that cannot be loaded is no failure here: out then holds (or follows the rules), every record says so, and
 * *why tells (code ERR_OK when all is well).  Errors: of the spec and of names. */
/* The file a choice reads, or NULL. */
const char *choose_file(const struct choose *c);
NODISCARD enum err_code choose_policy(const struct choose *c, struct capacity_config *out, struct learned *l,
                                      struct err *why, struct err *e);

#endif
