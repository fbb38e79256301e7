/* policy_priv.h - the policies, one per file; policy.c lists them. */
#ifndef DECIDE_POLICY_PRIV_H
#define DECIDE_POLICY_PRIV_H

#include "decide/policy.h"

extern const struct policy policy_static, policy_threshold, policy_hpa, policy_queue,
    policy_predictive, policy_mpc, policy_foresight, policy_outlook, policy_ppo;

#endif
