#include "forecast/ridge_priv.h"

#include <lapacke.h>
#include <math.h>

#include "base/err.h"

void ridge_fade(float *a, float *b, int n, int stride, float keep)
{
    for (int i = 0; i < n * stride; i++)
        a[i] *= keep;
    for (int i = 0; i < n; i++)
        b[i] *= keep;
}

bool ridge_solve(const float *a, const float *b, int n, int stride, double alpha_per_row, float *w)
{
    double m[RIDGE_MAX * RIDGE_MAX], v[RIDGE_MAX], scale[RIDGE_MAX];
    ASSERT(n <= RIDGE_MAX);
    for (int i = 0; i < n; i++) {
        double d = (double)a[i * stride + i];
        scale[i] = d > 1e-20 ? 1 / sqrt(d) : 0; /* an unused column keeps weight 0 */
    }
    for (int i = 0; i < n; i++) {
        for (int j = 0; j < n; j++)
            m[i * n + j] = scale[i] * scale[j] * (double)a[i * stride + j];
        m[i * n + i] = (scale[i] > 0 ? 1 : 0) + alpha_per_row + (scale[i] > 0 ? 0 : 1);
        v[i] = scale[i] * (double)b[i];
    }
    /* symmetric, so row-major lower is column-major upper; column-major does not copy */
    if (LAPACKE_dposv(LAPACK_COL_MAJOR, 'U', n, 1, m, n, v, n) != 0)
        return false;
    for (int i = 0; i < n; i++)
        if (!isfinite(v[i] * scale[i]))
            return false;
    for (int i = 0; i < n; i++)
        w[i] = (float)(v[i] * scale[i]);
    return true;
}
