/* ridge_priv.h - ridge regression on sums that grow point by point.
 *
 * Rows are padded to RIDGE_STRIDE so that the update is whole vectors.  Solved on standardised columns:
 * (D A D + alpha / rows I) v = D b, w = D v, D = diag(A)^-1/2; so alpha does not depend on units, and its weight
 * fades as rows come in (as in a plain ridge on standardised features). */
#ifndef FORECAST_RIDGE_PRIV_H
#define FORECAST_RIDGE_PRIV_H

#include <stdbool.h>

enum { RIDGE_MAX = 32 };

/* A += weight x x', b += weight x t.  a: [n][n] row-major, n is a compile-time constant where inlined. */
static inline void ridge_add(float *restrict a, float *restrict b, const float *restrict x, int n, float weight,
                             float target)
{
    float wt = weight * target;
    for (int i = 0; i < n; i++) {
        float wx = weight * x[i];
        for (int j = 0; j < n; j++)
            a[i * n + j] += wx * x[j];
    }
    for (int j = 0; j < n; j++)
        b[j] += wt * x[j];
}

/* Fades the sums by `keep`. */
void ridge_fade(float *a, float *b, int n, float keep);
/* Fills w[n]; false, w untouched, when the system cannot be solved. */
bool ridge_solve(const float *a, const float *b, int n, double alpha_per_row, float *w);

#endif
