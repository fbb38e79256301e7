/* policy.h - a trained network with its normaliser, as the live decision uses it.
 *
 * Loading refuses a file whose layout hash, sizes or shape differ from what the caller expects, and
 * says which.  Acting allocates nothing, and gives the bits it would give inside a batch (see
 * net.h). A struct nn_policy belongs to one thread.  STABLE. */
#ifndef NN_POLICY_H
#define NN_POLICY_H

#include <stdint.h>

#include "base/err.h"
#include "nn/net.h"
#include "nn/norm.h"
#include "nn/safetensors.h"

struct nn_policy;

/* expect: pairs that must equal the file's metadata, e.g. {"layout", "9f2c..."}; may be NULL with n
 * 0. Errors: ERR_MISMATCH naming key, wanted and found value; those of st_open. */
NODISCARD enum err_code nn_policy_load(const char *path, const struct st_meta *expect, int n_expect,
                                       struct nn_policy **out, struct err *e);
void nn_policy_free(struct nn_policy *p);
const struct nn_net *nn_policy_net(const struct nn_policy *p);
const struct nn_norm *nn_policy_norm(const struct nn_policy *p);
const struct st_file *nn_policy_file(const struct nn_policy *p); /* metadata, for `inspect` */

/* One decision.  obs: raw [n_obs].  mask: [n_actions] or NULL.  state: [state_dim], updated, or
 * NULL. prob (may be NULL): [n_actions].  value (may be NULL): [n_values], in the units the critic
 * learned. Returns the most probable allowed action.  Errors: ERR_NUMERIC when the observation or
 * an output is not finite, ERR_INVAL when the mask allows nothing; *action is untouched then. */
NODISCARD enum err_code nn_policy_act(struct nn_policy *p, const float *obs, const uint8_t *mask,
                                      float *state, int *action, float *prob, float *value,
                                      struct err *e);
/* The same for n rows: obs [n][n_obs], mask [n][n_actions] or NULL, state [n][state_dim] or
 * NULL. */
NODISCARD enum err_code nn_policy_act_many(struct nn_policy *p, const float *obs,
                                           const uint8_t *mask, int n, float *state,
                                           int32_t *action, struct err *e);
/* Gradient of logit[action] minus the mean of the other allowed logits, by raw observation: local
 * attribution for explanations, by central differences of 0.05 deviations.  grad: [n_obs]; multiply
 * by a feature's deviation (1 / norm->scale) to compare features. */
void nn_policy_attribution(struct nn_policy *p, const float *obs, const uint8_t *mask,
                           const float *state, int action, float *grad);

#endif
