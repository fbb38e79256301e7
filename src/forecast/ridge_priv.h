/* ridge_priv.h - ridge regression on sums that grow point by point.
 *
 * Rows may be padded (stride > n, with x[n..stride) = 0) so that the update is whole vectors.
 * Solved on standardised columns: (D A D + alpha / rows I) v = D b, w = D v, D = diag(A)^-1/2; so
 * alpha does not depend on units, and its weight fades as rows come in (as in a plain ridge on
 * standardised features). */
#ifndef FORECAST_RIDGE_PRIV_H
#define FORECAST_RIDGE_PRIV_H

#include <stdbool.h>

enum { RIDGE_MAX = 32 };

/* A += weight x x', b += weight x t.  a: [n][stride], b, x: [stride]; n and stride are constants
 * where inlined. */
static inline void ridge_add(float *restrict a, float *restrict b, const float *restrict x, int n,
                             int stride, float weight, float target)
{
    float wt = weight * target;
    for (int i = 0; i < n; i++) {
        float wx = weight * x[i];
        for (int j = 0; j < stride; j++)
            a[i * stride + j] += wx * x[j];
    }
    for (int j = 0; j < stride; j++)
        b[j] += wt * x[j];
}

/* Fades the sums by `keep`. */
void ridge_fade(float *a, float *b, int n, int stride, float keep);
/* Fills w[n]; false, w untouched, when the system cannot be solved. */
bool ridge_solve(const float *a, const float *b, int n, int stride, double alpha_per_row, float *w);

#endif
