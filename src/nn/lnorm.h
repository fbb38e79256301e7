/* lnorm.h - layer normalisation (Ba, Kiros & Hinton 2016): y = (x - mean) / sqrt(var + 1e-5) * gain
 * + bias, over the n features of each row.  Rows are ld floats apart; any n. */
#ifndef NN_LNORM_H
#define NN_LNORM_H

#include <stddef.h>

#include "nn/param.h"

struct lnorm {
    int n;
    int gain, bias; /* parameter indices, [n] each */
};

/* Declares "<name>.gain" and "<name>.bias". */
void lnorm_declare(struct lnorm *l, struct nn_params *p, const char *name, int n);
void lnorm_init(const struct lnorm *l, const struct nn_params *p); /* gain 1, bias 0 */
/* unit: [rows][ld], the normalised input, and inverse: [rows], 1 / deviation; both kept for the
 * backward pass. */
void lnorm_forward(const struct lnorm *l, const struct nn_params *p, const float *x, size_t ld,
                   int rows, float *unit, float *inverse, float *y);
/* dx may be dy.  grad: 2 n floats (gain, bias), added to. */
void lnorm_backward(const struct lnorm *l, const struct nn_params *p, const float *unit,
                    const float *inverse, size_t ld, int rows, const float *dy, float *dx,
                    float *grad);
void lnorm_grad_unpack(const struct lnorm *l, const float *grad, struct nn_params *p);

#endif
