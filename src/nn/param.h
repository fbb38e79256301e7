/* param.h - all parameters of one network in flat, aligned blocks.
 *
 * Values, gradients and the two Adam moments are four blocks of the same layout; a table (name,
 * shape, offset) describes them.  Each tensor starts on a 64-byte boundary, gaps are zero in all
 * four blocks, so an optimiser may sweep the whole block without looking at the table.
 * Shapes are the mathematical ones (no padding): a dense weight is [n_in][n_out], row-major.
 *
 * STABLE: the functions and fields below. */
#ifndef NN_PARAM_H
#define NN_PARAM_H

#include <stddef.h>

#include "base/err.h"
#include "base/rng.h"

enum { NN_NAME_MAX = 48, NN_PARAM_MAX = 64, NN_DIM_MAX = 4 };

struct nn_param {
    char name[NN_NAME_MAX]; /* "actor.0.weight" */
    int n_dims;
    int dim[NN_DIM_MAX];
    size_t offset; /* in floats, a multiple of 16 */
    size_t size;   /* in floats */
};

struct nn_params {
    int n;
    size_t total; /* floats per block, a multiple of 16 */
    struct nn_param table[NN_PARAM_MAX];
    float *value, *grad, *m, *v; /* [total] each, 64-byte aligned, owned */
};

/* Appends a tensor to the table and returns its index; call before nn_params_alloc.  Dimensions of
 * 0 end the shape. */
int nn_params_add(struct nn_params *p, const char *name, int d0, int d1, int d2, int d3);
/* Allocates the four blocks, zeroed.  Errors: ERR_NOMEM, ERR_LIMIT above 64 M floats. */
NODISCARD enum err_code nn_params_alloc(struct nn_params *p, struct err *e);
void nn_params_fini(struct nn_params *p);
/* Index of a name, or -1. */
int nn_params_find(const struct nn_params *p, const char *name);
/* Borrowed view of tensor i's values or gradients. */
float *nn_params_value(const struct nn_params *p, int i);
float *nn_params_grad(const struct nn_params *p, int i);

/* Orthogonal rows or columns scaled by `gain` (Saxe et al. 2014); w is [n_in][n_out]. */
void nn_init_orthogonal(float *w, int n_in, int n_out, float gain, struct rng *rng);

#endif
