#include "nn/param.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/mem.h"

enum { TOTAL_MAX = 64 * 1024 * 1024, ALIGN_FLOATS = MEM_ALIGN / sizeof(float) };

int nn_params_add(struct nn_params *p, const char *name, int d0, int d1, int d2, int d3)
{
    const int dim[NN_DIM_MAX] = {d0, d1, d2, d3};
    ASSERT(p->n < NN_PARAM_MAX && !p->value && strlen(name) < NN_NAME_MAX);
    struct nn_param *t = &p->table[p->n];
    *t = (struct nn_param){.offset = p->total, .size = 1};
    (void)snprintf(t->name, sizeof t->name, "%s", name);
    for (; t->n_dims < NN_DIM_MAX && dim[t->n_dims] > 0; t->n_dims++) {
        t->dim[t->n_dims] = dim[t->n_dims];
        t->size *= (size_t)dim[t->n_dims];
        ASSERT(t->size <= TOTAL_MAX);
    }
    p->total += (t->size + ALIGN_FLOATS - 1) / ALIGN_FLOATS * ALIGN_FLOATS;
    return p->n++;
}

enum err_code nn_params_alloc(struct nn_params *p, struct err *e)
{
    float **block[] = {&p->value, &p->grad, &p->m, &p->v};
    if (p->total > TOTAL_MAX)
        return err_set(e, ERR_LIMIT, "%zu parameters are above %d", p->total, TOTAL_MAX);
    for (size_t i = 0; i < ARRAY_LEN(block); i++) {
        *block[i] = try_zero_aligned(p->total, sizeof(float));
        if (!*block[i])
            return err_set(e, ERR_NOMEM, "%zu parameters", p->total);
    }
    return ERR_OK;
}

void nn_params_fini(struct nn_params *p)
{
    mem_free(p->value);
    mem_free(p->grad);
    mem_free(p->m);
    mem_free(p->v);
    *p = (struct nn_params){0};
}

int nn_params_find(const struct nn_params *p, const char *name)
{
    for (int i = 0; i < p->n; i++)
        if (strcmp(p->table[i].name, name) == 0)
            return i;
    return -1;
}

float *nn_params_value(const struct nn_params *p, int i)
{
    return p->value + p->table[i].offset;
}

float *nn_params_grad(const struct nn_params *p, int i)
{
    return p->grad + p->table[i].offset;
}

static double dot(const double *a, const double *b, int n)
{
    double s = 0;
    for (int i = 0; i < n; i++)
        s += a[i] * b[i];
    return s;
}

/* Gram-Schmidt over the shorter side; done twice, which is enough for full precision. */
static void orthonormal_rows(double *q, int rows, int cols, struct rng *rng)
{
    for (int i = 0; i < rows; i++) {
        double *row = q + (size_t)i * (size_t)cols;
        for (int j = 0; j < cols; j++)
            row[j] = rng_normal(rng);
        for (int pass = 0; pass < 2; pass++)
            for (int k = 0; k < i; k++) {
                const double *other = q + (size_t)k * (size_t)cols;
                double along = dot(row, other, cols);
                for (int j = 0; j < cols; j++)
                    row[j] -= along * other[j];
            }
        double norm = sqrt(dot(row, row, cols));
        for (int j = 0; j < cols; j++)
            row[j] /= norm;
    }
}

void nn_init_orthogonal(float *w, int n_in, int n_out, float gain, struct rng *rng)
{
    int rows = n_in < n_out ? n_in : n_out, cols = n_in < n_out ? n_out : n_in;
    double *q = mem_zero((size_t)rows * (size_t)cols, sizeof *q);
    orthonormal_rows(q, rows, cols, rng);
    for (int i = 0; i < n_in; i++)
        for (int o = 0; o < n_out; o++) {
            double x = n_in < n_out ? q[(size_t)i * (size_t)cols + (size_t)o]
                                    : q[(size_t)o * (size_t)cols + (size_t)i];
            w[(size_t)i * (size_t)n_out + (size_t)o] = gain * (float)x;
        }
    mem_free(q);
}
