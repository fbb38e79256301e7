/* replica.h - copies of a network, one for each thread, that take the same optimiser steps.
 *
 * A network that one thread updates has to travel to the caches of all others: parameters and their packed forms,
 * ten times the gradient, after every minibatch.  Between cores that do not share a cache that costs more than
 * the step itself.  So only the gradient travels; every thread applies it to its own copy, moments included.
 * The same sums in the same order give the same bits, so it does not matter whose copy anybody looks at.
 *
 *     loop:  parallel:  net = replicas_net(r, worker);     brings this worker's copy up to date first
 *                       ... add gradients into replicas_sums(r)[0 .. n_sums) ...
 *            replicas_push(r, lr);                         they are complete: one step more
 *     replicas_sync(r, e);                                 the first copy, for savers and readers
 *
 * The first copy is the caller's network.  Sums are kept twice, so that a worker may still read those of the step
 * before while others write the next.  A worker that slept through a step copies the first one whole. */
#ifndef RL_REPLICA_H
#define RL_REPLICA_H

#include <stdint.h>

#include "base/err.h"
#include "nn/adam.h"
#include "nn/net.h"

struct replicas;

/* net and adam are borrowed and belong to the replicas until they are freed; n: threads.  n_sums: how many sums
 * make the gradient, added in order.  Errors: ERR_NOMEM. */
NODISCARD enum err_code replicas_new(struct nn_net *net, struct nn_adam *adam, int n, int n_sums,
                                     struct replicas **out, struct err *e);
void replicas_free(struct replicas *r); /* NULL is fine */
/* This worker's copy, after every step pushed so far.  For different workers at the same time. */
const struct nn_net *replicas_net(struct replicas *r, int worker);
/* [n_sums], where the next step's gradient goes; whoever writes one overwrites it whole. */
struct nn_ws *const *replicas_sums(const struct replicas *r);
/* Between loops, by one thread. */
void replicas_push(struct replicas *r, float lr);
/* Brings the first copy up to date; between loops.  *norm (may be NULL): of its newest gradient before clipping.
 * Errors: ERR_NUMERIC naming a tensor, of any step since the last call. */
NODISCARD enum err_code replicas_sync(struct replicas *r, float *norm, struct err *e);
/* The first copy or its moments were changed from outside (loaded): the others are copied anew. */
void replicas_changed(struct replicas *r);

#endif
