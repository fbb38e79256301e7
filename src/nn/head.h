/* head.h - masked categorical distributions over logits.
 *
 * A masked action (mask 0) has probability exactly 0 and gets no gradient.  At least one action per
 * row must be allowed.  mask may be NULL: everything allowed.
 * STABLE. */
#ifndef NN_HEAD_H
#define NN_HEAD_H

#include <stdint.h>

enum { NN_HEAD_MAX = 256 }; /* actions */

/* logp[n_actions]: log-probabilities of the allowed actions, -INFINITY of the others. Returns the
 * entropy. */
float nn_head_logp(const float *logits, const uint8_t *mask, int n_actions, float *logp);
/* Most probable allowed action; ties go to the lowest index. */
int nn_head_argmax(const float *logits, const uint8_t *mask, int n_actions);
/* Draws from the distribution by its inverse CDF at u in [0, 1); never returns a masked action. */
int nn_head_sample(const float *logp, int n_actions, double u);
/* Both at once, for rollouts: draws an action at u from the masked distribution and returns its
 * log-probability, NaN when logits are not finite. */
float nn_head_draw(const float *logits, const uint8_t *mask, int n_actions, double u,
                   int32_t *action);
/* dlogits of  a * logp[action] + b * entropy. */
void nn_head_grad(const float *logp, float entropy, int n_actions, int action, float a, float b,
                  float *dlogits);

#endif
