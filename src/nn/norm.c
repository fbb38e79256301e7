#include "nn/norm.h"

#include <math.h>
#include <string.h>

#include "base/mem.h"
#include "nn/vec.h"

enum { HIST_EVERY = 16 }; /* of how many rows one enters the histogram */

/* Sums of d = x - mean, where mean is the one in use: small numbers, so float rows may be summed in
 * double without losing the variance. */
struct nn_norm_acc {
    int dim;
    int64_t n_rows;
    double *sum, *sum_sq; /* [dim] */
    uint32_t *hist;       /* [dim][NN_NORM_BINS] */
};

void nn_norm_init(struct nn_norm *n, int dim)
{
    size_t d = (size_t)dim;
    *n = (struct nn_norm){.dim = dim, .clip = 10.0f};
    n->mean = mem_zero(d, sizeof *n->mean);
    n->m2 = mem_zero(d, sizeof *n->m2);
    n->shift = mem_zero(d, sizeof *n->shift);
    n->scale = mem_zero(d, sizeof *n->scale);
    n->hist = mem_zero(d * NN_NORM_BINS, sizeof *n->hist);
    nn_norm_refresh(n);
}

void nn_norm_fini(struct nn_norm *n)
{
    mem_free(n->mean);
    mem_free(n->m2);
    mem_free(n->shift);
    mem_free(n->scale);
    mem_free(n->hist);
    *n = (struct nn_norm){0};
}

void nn_norm_refresh(struct nn_norm *n)
{
    for (int j = 0; j < n->dim; j++) {
        double var = n->count > 1 ? n->m2[j] / n->count : 1.0;
        n->shift[j] = (float)n->mean[j];
        n->scale[j] = (float)(1.0 / sqrt(var + 1e-8));
    }
}

void nn_norm_apply(const struct nn_norm *n, const float *x, size_t x_stride, int n_rows, float *y,
                   size_t y_stride)
{
    v16 low = v16_set(-n->clip), high = v16_set(n->clip);
    int whole = n->dim / VEC * VEC;
    for (size_t r = 0; r < (size_t)n_rows; r++) {
        const float *from = x + r * x_stride;
        float *to = y + r * y_stride;
        for (int j = 0; j < whole; j += VEC) {
            v16 v = (v16_load(from + j) - v16_load(n->shift + j)) * v16_load(n->scale + j);
            v16_store(to + j, v16_max(v16_min(high, v), low));
        }
        for (int j = whole; j < n->dim; j++) {
            float v = (from[j] - n->shift[j]) * n->scale[j];
            to[j] = v > n->clip ? n->clip : v < -n->clip ? -n->clip : v;
        }
    }
}

struct nn_norm_acc *nn_norm_acc_new(const struct nn_norm *n)
{
    struct nn_norm_acc *a = mem_zero(1, sizeof *a);
    size_t d = (size_t)n->dim;
    a->dim = n->dim;
    a->sum = mem_zero(d, sizeof *a->sum);
    a->sum_sq = mem_zero(d, sizeof *a->sum_sq);
    a->hist = mem_zero(d * NN_NORM_BINS, sizeof *a->hist);
    return a;
}

void nn_norm_acc_free(struct nn_norm_acc *a)
{
    if (!a)
        return;
    mem_free(a->sum);
    mem_free(a->sum_sq);
    mem_free(a->hist);
    mem_free(a);
}

static void add_to_histogram(struct nn_norm_acc *a, const struct nn_norm *n, const float *x)
{
    for (int j = 0; j < a->dim; j++) {
        float y = (x[j] - n->shift[j]) * n->scale[j], at = (y + 4.0f) * (NN_NORM_BINS / 8.0f);
        int bin = at > 0.0f ? at < NN_NORM_BINS ? (int)at : NN_NORM_BINS - 1 : 0;
        a->hist[j * NN_NORM_BINS + bin]++;
    }
}

void nn_norm_acc_add(struct nn_norm_acc *a, const struct nn_norm *n, const float *x,
                     size_t x_stride, int n_rows)
{
    for (size_t r = 0; r < (size_t)n_rows; r++, a->n_rows++) {
        const float *row = x + r * x_stride;
        for (int j = 0; j < a->dim; j++) {
            double d = (double)row[j] - n->mean[j];
            a->sum[j] += d;
            a->sum_sq[j] += d * d;
        }
        if (a->n_rows % HIST_EVERY == 0)
            add_to_histogram(a, n, row);
    }
}

void nn_norm_merge(struct nn_norm *n, struct nn_norm_acc *const *acc, int n_acc)
{
    for (int j = 0; j < n->dim; j++) {
        double sum = 0, sum_sq = 0, rows = 0;
        for (int i = 0; i < n_acc; i++) {
            sum += acc[i]->sum[j];
            sum_sq += acc[i]->sum_sq[j];
            rows += (double)acc[i]->n_rows;
            for (int b = 0; b < NN_NORM_BINS; b++)
                n->hist[j * NN_NORM_BINS + b] += acc[i]->hist[j * NN_NORM_BINS + b];
        }
        if (rows >
            0) { /* Chan et al. 1983, eq. 2.1 with the new rows' sums taken about the old mean */
            double shift = sum / rows, all = n->count + rows;
            double within = fmax(0.0, sum_sq - sum * shift);
            n->m2[j] += within + shift * shift * n->count * rows / all;
            n->mean[j] += shift * rows / all;
        }
    }
    for (int i = 0; i < n_acc; i++) {
        size_t d = (size_t)n->dim;
        n->count += (double)acc[i]->n_rows;
        acc[i]->n_rows = 0;
        memset(acc[i]->sum, 0, d * sizeof(double));
        memset(acc[i]->sum_sq, 0, d * sizeof(double));
        memset(acc[i]->hist, 0, d * NN_NORM_BINS * sizeof(uint32_t));
    }
    nn_norm_refresh(n);
}
