/* lstm.h - a long short-term memory layer (Hochreiter & Schmidhuber 1997, with forget gates),
 * trained by back-propagation through a bounded number of steps.
 *
 *     i, f, o = sigmoid(x Wx + h Wh + b)      g = tanh(...)
 *     c = f c' + i g                          h = o tanh(c)
 *
 * Parameters: "<name>.weight_x" [n_in][4 H], "<name>.weight_h" [H][4 H], "<name>.bias" [4 H], gates
 * in the order i f g o, H columns each.  Inside, columns are reordered to [i f g o] x 16 units, so
 * that one panel of 64 columns holds all four gates of 16 units.  The forget bias starts at 1
 * (Jozefowicz et al. 2015). */
#ifndef NN_LSTM_H
#define NN_LSTM_H

#include <stdint.h>

#include "nn/param.h"

struct lstm {
    int n_in, n_hidden;                                       /* n_hidden: a multiple of 16 */
    int wx, wh, b;                                            /* parameter indices */
    float *panels_x, *panels_h, *panels_ht, *pairs_ht, *bias; /* packed, owned */
    float *ordered; /* scratch of packing: reordered columns */
};

/* What a training pass keeps, step-major: row = step * n_seq + seq.  Strides: x: ldx; gates: 4 H;
 * others: H. */
struct lstm_trace {
    int n_seq, n_steps;
    const float *x; /* [rows][ldx], input */
    size_t ldx;
    const uint8_t *reset; /* [rows], 1: the state before this row is zero */
    float *h_in, *c_in;   /* [rows][H], the state each row started from, after resets */
    float *gates;  /* [rows][4 H], after their activations; becomes their derivative backwards */
    float *tanh_c; /* [rows][H] */
    float *h;      /* [rows][H], output */
    float *dh;     /* [rows][H], derivative by output, given; overwritten */
    float *dc, *dh_prev; /* [n_seq][H] scratch */
    float *pairs_in;     /* bfloat16 pairs for backward products (gemm.h), or NULL for products in
                            float: */
    float *pairs_gates;  /*   LSTM_CHUNK rows of the wider input, and of 4 H */
};
enum { LSTM_CHUNK = 64 }; /* rows whose derivatives of one panel fit the L1 cache */

void lstm_declare(struct lstm *l, struct nn_params *p, const char *name, int n_in, int n_hidden);
NODISCARD enum err_code lstm_alloc(struct lstm *l, struct err *e);
void lstm_fini(struct lstm *l);
void lstm_init(const struct lstm *l, const struct nn_params *p, struct rng *rng);
void lstm_pack(struct lstm *l, const struct nn_params *p);

/* One step of n rows.  h and c: [n][ld], replaced.  gates: [n][4 H] scratch. */
void lstm_step(const struct lstm *l, const float *x, size_t ldx, int n, float *h, float *c,
               size_t ld, float *gates);
/* All steps of the trace; h_in and c_in of the first step must be set. */
void lstm_forward(const struct lstm *l, struct lstm_trace *t);
/* Adds to grad (lstm_grad_size floats). */
void lstm_backward(const struct lstm *l, struct lstm_trace *t, float *grad);
size_t lstm_grad_size(const struct lstm *l);
void lstm_grad_unpack(const struct lstm *l, const float *grad, struct nn_params *p);

#endif
