/* reduce.c - a long series reduced to columns that keep its extremes. */
#include "report/reduce_priv.h"

#include <math.h>

#include "base/err.h"

static struct column reduce_one(const float *v, size_t n)
{
    struct column c = {NAN, NAN, NAN, NAN, NAN, 0};
    double sum = 0;
    size_t finite = 0;
    for (size_t i = 0; i < n; i++) {
        if (isnan(v[i]))
            continue;
        if (c.n++ == 0)
            c.lo = c.hi = c.first = v[i];
        c.lo = v[i] < c.lo ? v[i] : c.lo;
        c.hi = v[i] > c.hi ? v[i] : c.hi;
        c.last = v[i];
        if (isfinite(v[i])) {
            sum += (double)v[i];
            finite++;
        }
    }
    if (finite)
        c.mean = (float)(sum / (double)finite);
    return c;
}

void reduce(const float *v, size_t n, struct column *out, size_t n_columns)
{
    ASSERT(n_columns > 0 && n >= n_columns);
    for (size_t c = 0; c < n_columns; c++) {
        /* n < 2^40 and n_columns < 2^12: the product does not wrap. */
        size_t from = c * n / n_columns, to = (c + 1) * n / n_columns;
        out[c] = reduce_one(v + from, to - from);
    }
}
