/* norm.h - running mean and variance of observations, and a coarse histogram of each.
 *
 * The statistics in use are frozen while a rollout is collected, so every row of it is scaled alike
 * and the scaling does not depend on thread timing.  Each shard adds its raw rows to its own
 * accumulator; nn_norm_merge() folds them in, in shard order (Chan et al. 1983).
 * y = clamp((x - mean) / sqrt(var + 1e-8), -clip, clip).  Before the first merge y = x (clamped).
 * The histogram counts y in 16 bins over [-4, 4], the outer ones open: what `inspect` prints.
 * STABLE. */
#ifndef NN_NORM_H
#define NN_NORM_H

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

enum { NN_NORM_BINS = 16 };

struct nn_norm_acc; /* one shard's sums since the last merge */

struct nn_norm {
    int dim;
    float clip;           /* default 10 */
    double count;         /* rows seen */
    double *mean, *m2;    /* [dim], m2 = sum of squared deviations */
    float *shift, *scale; /* [dim], what nn_norm_apply uses */
    uint64_t *hist;       /* [dim][NN_NORM_BINS] */
};

void nn_norm_init(struct nn_norm *n, int dim);
void nn_norm_fini(struct nn_norm *n);
/* y: n_rows rows, y_stride apart; x likewise.  y may be x.  Row by row independent. */
void nn_norm_apply(const struct nn_norm *n, const float *x, size_t x_stride, int n_rows, float *y,
                   size_t y_stride);
struct nn_norm_acc *nn_norm_acc_new(const struct nn_norm *n);
void nn_norm_acc_free(struct nn_norm_acc *a);
void nn_norm_acc_add(struct nn_norm_acc *a, const struct nn_norm *n, const float *x,
                     size_t x_stride, int n_rows);
/* Folds n_acc accumulators in and clears them; refreshes shift and scale. */
void nn_norm_merge(struct nn_norm *n, struct nn_norm_acc *const *acc, int n_acc);
/* Recomputes shift and scale after mean, m2 or count were loaded. */
void nn_norm_refresh(struct nn_norm *n);

#endif
