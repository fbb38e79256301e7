/* conv.h - two-dimensional convolution of small images: stride 1, zero padding that keeps the size.
 *
 *     y[r][c][:] = act( b + sum over dr, dc in -(k/2)..k/2 of x[r + dr][c + dc][:] W[dr][dc] )
 *
 * Images are [height][width][ld] with channels last, ld a multiple of 16.  The weight is
 * "<name>.weight" [k * k * n_in][n_out], taps in row order.  Done by unfolding each pixel's
 * neighbourhood into a row and one dense product: for maps of a few thousand pixels the product
 * dominates. */
#ifndef NN_CONV_H
#define NN_CONV_H

#include "nn/dense.h"

struct conv {
    int n_in, n_out, kernel; /* kernel: odd */
    struct dense dense;      /* [kernel^2 n_in] -> [n_out] */
};

void conv_declare(struct conv *c, struct nn_params *p, const char *name, int n_in, int n_out,
                  int kernel, enum nn_act act);
NODISCARD enum err_code conv_alloc(struct conv *c, struct err *e);
void conv_fini(struct conv *c);
void conv_pack(struct conv *c, const struct nn_params *p);
/* Floats of the unfolded image, which forward fills and backward reads. */
size_t conv_unfolded_size(const struct conv *c, int height, int width);
void conv_forward(const struct conv *c, const float *x, size_t ldx, int height, int width,
                  float *unfolded, float *y, size_t ldy);
/* dy: derivative by pre-activation.  dx (may be NULL): [pixels][ldx], derivative by x, not yet
 * times the derivative of the activation below.  dunfolded: scratch as unfolded, NULL with dx. */
void conv_backward(const struct conv *c, const float *unfolded, int height, int width,
                   const float *dy, size_t ldy, float *dunfolded, float *dx, size_t ldx,
                   float *grad);
size_t conv_grad_size(const struct conv *c);
void conv_grad_unpack(const struct conv *c, const float *grad, struct nn_params *p);

#endif
