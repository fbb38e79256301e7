/* reduce_priv.h - a long series reduced to columns that keep its extremes.  Internal to report/. */
#ifndef REPORT_REDUCE_PRIV_H
#define REPORT_REDUCE_PRIV_H

#include <stddef.h>

/* What one column of a chart covers. */
struct column {
    float lo, hi;      /* least and largest value; a spike of one sample survives */
    float first, last; /* in time */
    float mean;        /* of the finite values */
    size_t n;          /* values that are not NaN; 0: a hole */
};

/* Column c covers samples [c*n/n_columns, (c+1)*n/n_columns).  n >= n_columns > 0; every sample is
 * in exactly one column.  NaN is skipped, infinities count as extremes. */
void reduce(const float *v, size_t n, struct column *out, size_t n_columns);

#endif
