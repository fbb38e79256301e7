/* net.h - policy and value networks in three shapes, trained tile by tile.
 *
 *   NN_SEPARATE   obs -> dense H -> dense H -> logits   and   obs -> dense H -> dense H -> values
 *   NN_SHARED     obs -> dense H -> dense H -> logits and values
 *   NN_LSTM       obs -> LSTM H -> dense 32 -> logits and values
 *
 * With n_values = 0 (not NN_SEPARATE) it is a plain multi-layer perceptron: a Q network, a
 * regression. Hidden activations are tanh or relu; the heads are linear.
 *
 * Training.  nn_net_grad() takes a batch, pushes it through in tiles of rows small enough for the
 * L1/L2 cache, calls the loss once per tile with that tile's outputs, and runs backwards at once.
 * Gradients are summed in the workspace, in row order.  Several workspaces may run in parallel on
 * one network; then nn_net_reduce() adds them in a fixed order into params.grad.  So a batch cut
 * into a FIXED number of workspaces gives the same bits for any number of threads.
 *
 * Same bits for any batch.  Every output element is a sum over its inputs in index order, one fused
 * multiply-add each, started from the bias: a row's result does not depend on how many other rows
 * are in the call or where in it the row stands.  A decision replays alone to the bits it had in a
 * batch.
 *
 * STABLE: everything in this header.  Typical use:
 *
 *     nn_net_new(&cfg, &rng, &net, e);   ws = nn_ws_new(net);
 *     loop: nn_net_forward(net, ws, obs, ...);                  // act
 *           nn_net_pack(net); nn_ws_zero(ws);
 *           nn_net_grad(net, ws, &batch, my_loss, ctx);         // learn
 *           nn_net_reduce(net, &ws, 1);
 *           nn_adam_step(&adam, nn_net_params(net), lr, NULL, e);  nn_net_pack(net); */
#ifndef NN_NET_H
#define NN_NET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/rng.h"
#include "nn/param.h"

enum nn_shape { NN_SEPARATE, NN_SHARED, NN_LSTM };
enum nn_act { NN_TANH, NN_RELU, NN_LINEAR };

struct nn_net_cfg {
    enum nn_shape shape;
    enum nn_act act; /* of hidden dense layers */
    int n_obs;       /* 1..1024 */
    int n_actions;   /* outputs of the first head, 1..256 */
    int n_values;    /* outputs of the second head, 0..8; e.g. 2: reward and constraint critic */
    int n_hidden;    /* 8..512; the LSTM needs a multiple of 16 */
    int n_dense;     /* NN_LSTM: width after the LSTM, default 32 */
    bool bf16_grad;  /* products of the backward pass in bfloat16, sums in float (gemm.h); default
                        false */
    float head_gain; /* orthogonal gain of the action head: 0.01 for policies, 1 for Q values */
};
struct nn_net_cfg nn_net_cfg_default(enum nn_shape shape, int n_obs, int n_actions, int n_values);

struct nn_net; /* parameters plus their packed copies; read-only while workspaces run */
struct nn_ws;  /* one thread's scratch and gradient sums */

/* Creates and initialises.  Errors: ERR_RANGE (names the field), ERR_NOMEM.  Free with
 * nn_net_free. */
NODISCARD enum err_code nn_net_new(const struct nn_net_cfg *cfg, struct rng *rng,
                                   struct nn_net **out, struct err *e);
void nn_net_free(struct nn_net *net);
const struct nn_net_cfg *nn_net_cfg_get(const struct nn_net *net);
/* The flat block, to be changed by optimisers and loaders; call nn_net_pack() after changing
 * values. */
struct nn_params *nn_net_params(struct nn_net *net);
const struct nn_params *nn_net_params_const(const struct nn_net *net);
/* Bias of the action head, [n_actions], inside the flat block: a caller may set a prior policy
 * there. */
float *nn_net_action_bias(struct nn_net *net);
/* Refreshes the packed copies the kernels read.  Must follow any change of parameter values. */
void nn_net_pack(struct nn_net *net);
/* Copies the values of a network of the same configuration (a target network). */
void nn_net_copy(struct nn_net *dst, const struct nn_net *src);
/* Floats of recurrent state per row: 2 H for the LSTM (h then c), else 0. */
int nn_net_state_dim(const struct nn_net *net);

NODISCARD enum err_code nn_ws_new(const struct nn_net *net, struct nn_ws **out, struct err *e);
/* Gradient sums without scratch, for nn_net_grad_into and nn_net_reduce. */
NODISCARD enum err_code nn_ws_new_sums(const struct nn_net *net, struct nn_ws **out, struct err *e);
void nn_ws_free(struct nn_ws *ws);
void nn_ws_zero(struct nn_ws *ws); /* clears the gradient sums */

/* Outputs for n rows.  obs: n rows of n_obs floats, `obs_stride` floats apart.
 * logits: [n][n_actions]; values: [n][n_values]; either may be NULL.
 * state: [n][state_dim], read and replaced; NULL for shapes without one.  Allocates nothing. */
void nn_net_forward(const struct nn_net *net, struct nn_ws *ws, const float *obs, size_t obs_stride,
                    int n, float *state, float *logits, float *values);

/* A training batch: n sequences of n_steps rows (n_steps = 1 for the feed-forward shapes). */
struct nn_batch {
    const float *obs;     /* [*][obs_stride] */
    size_t obs_stride;    /* floats */
    const int32_t *first; /* [n] obs row of each sequence's first step; NULL means 0..n-1 */
    int n;
    int n_steps;         /* NN_LSTM: 1..NN_STEPS_MAX, truncated back-propagation over these */
    int step_rows;       /* rows between two steps of a sequence, e.g. the number of lanes */
    const float *state0; /* NN_LSTM: [*][state_dim], state before the first step, by `first` row */
    const uint8_t
        *reset; /* NN_LSTM: [*] by row, 1: the state is zeroed before this row; may be NULL */
};
enum { NN_STEPS_MAX = 64 };

/* Outputs of one tile and where to put the derivative of the loss.  row[i] is the obs row of tile
 * row i. Row i of logits starts at logits + i * ld_logits (likewise values); the derivative arrays
 * have the same strides.  The loss writes dlogits[.][0..n_actions) and dvalues[.][0..n_values) of
 * all n rows. */
struct nn_tile {
    int n;
    const int32_t *row;
    size_t ld_logits, ld_values;
    const float *logits, *values;
    float *dlogits, *dvalues;
};
typedef void nn_loss_fn(void *ctx, const struct nn_tile *tile);

/* Adds the gradient of the batch to ws.  Allocates nothing. */
void nn_net_grad(const struct nn_net *net, struct nn_ws *ws, const struct nn_batch *batch,
                 nn_loss_fn *loss, void *ctx);
/* The same with the scratch of one workspace and the sums of another: many sums, one warm scratch
 * per thread. */
void nn_net_grad_into(const struct nn_net *net, struct nn_ws *scratch, struct nn_ws *sums,
                      const struct nn_batch *batch, nn_loss_fn *loss, void *ctx);
/* params.grad = sum of the workspaces, added in index order. */
void nn_net_reduce(struct nn_net *net, struct nn_ws *const *ws, int n_ws);
/* The sums of `into` = those of the workspaces, added in index order. */
void nn_ws_sum(struct nn_ws *into, struct nn_ws *const *ws, int n_ws);

#endif
