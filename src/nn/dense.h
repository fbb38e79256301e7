/* dense.h - a fully connected layer on padded row blocks: y = act(x W + b).
 *
 * Buffers x, y, dx, dy are row-major with a row stride that is a multiple of 16 floats and at least
 * the padded width; the padding of x must be finite (it meets zero weights).
 * Derivatives are by pre-activation: the layer above multiplies its dx by the derivative of the
 * activation that made x (x_act), so each layer's dy is ready for the products.
 * Gradient sums live in the workspace in the kernels' layout (dense_grad_size floats) until
 * dense_grad_unpack(). */
#ifndef NN_DENSE_H
#define NN_DENSE_H

#include "nn/gemm.h"
#include "nn/net.h"
#include "nn/param.h"

struct dense {
    int n_in, n_out;
    enum nn_act act;
    int w, b;        /* parameter indices: [n_in][n_out], [n_out] */
    float *panels;   /* W packed for forward, owned */
    float *panels_t; /* W transposed, for dx */
    float *bias;     /* padded to 16 */
    float *columns;  /* thin layers: W transposed, rows of n_in floats padded to 16 */
    float *pairs_t;  /* panels_t in bfloat16 pairs */
};

/* Scratch of backward products in bfloat16 pairs (gemm.h): [rows][padded width] floats each. */
struct dense_pairs {
    float *x, *dy, *dy_near;
};

/* Declares the parameters "<name>.weight" and "<name>.bias". */
void dense_declare(struct dense *d, struct nn_params *p, const char *name, int n_in, int n_out,
                   enum nn_act act);
NODISCARD enum err_code dense_alloc(struct dense *d, struct err *e);
void dense_fini(struct dense *d);
void dense_pack(struct dense *d, const struct nn_params *p);

/* y[n][ldy] from x[n][ldx].  x may be unpadded and of any stride: only n_in columns of it are read,
 * except by layers of one or two outputs, which read to the padded width. */
void dense_forward(const struct dense *d, const float *x, size_t ldx, int n, float *y, size_t ldy);
/* Adds the weight gradient of n rows to grad.  If dx is not NULL: dx = (dy W^T) * x_act'(x).
 * pairs: NULL for products in float, else for products in bfloat16 with sums in float (heads stay
 * in float). */
void dense_backward(const struct dense *d, const float *x, size_t ldx, enum nn_act x_act,
                    const float *dy, size_t ldy, int n, float *dx, size_t lddx, float *grad,
                    const struct dense_pairs *pairs);
size_t dense_grad_size(const struct dense *d); /* a multiple of 16 */
/* params.grad of this layer = grad. */
void dense_grad_unpack(const struct dense *d, const float *grad, struct nn_params *p);

#endif
