#include "nn/lnorm.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

void lnorm_declare(struct lnorm *l, struct nn_params *p, const char *name, int n)
{
    char full[NN_NAME_MAX];
    l->n = n;
    (void)snprintf(full, sizeof full, "%s.gain", name);
    l->gain = nn_params_add(p, full, n, 0, 0, 0);
    (void)snprintf(full, sizeof full, "%s.bias", name);
    l->bias = nn_params_add(p, full, n, 0, 0, 0);
}

void lnorm_init(const struct lnorm *l, const struct nn_params *p)
{
    float *gain = nn_params_value(p, l->gain);
    for (int j = 0; j < l->n; j++)
        gain[j] = 1;
}

void lnorm_forward(const struct lnorm *l, const struct nn_params *p, const float *x, size_t ld,
                   int rows, float *unit, float *inverse, float *y)
{
    const float *gain = nn_params_value(p, l->gain), *bias = nn_params_value(p, l->bias);
    for (size_t r = 0; r < (size_t)rows; r++) {
        const float *row = x + r * ld;
        double mean = 0, var = 0;
        for (int j = 0; j < l->n; j++)
            mean += (double)row[j] / l->n;
        for (int j = 0; j < l->n; j++)
            var += ((double)row[j] - mean) * ((double)row[j] - mean) / l->n;
        inverse[r] = (float)(1 / sqrt(var + 1e-5));
        for (int j = 0; j < l->n; j++) {
            float u = (float)((double)row[j] - mean) * inverse[r];
            unit[r * ld + (size_t)j] = u;
            y[r * ld + (size_t)j] = u * gain[j] + bias[j];
        }
    }
}

/* With u the unit row and g = dy * gain:  dx = (g - mean(g) - u mean(g u)) / deviation. */
void lnorm_backward(const struct lnorm *l, const struct nn_params *p, const float *unit,
                    const float *inverse, size_t ld, int rows, const float *dy, float *dx,
                    float *grad)
{
    const float *gain = nn_params_value(p, l->gain);
    for (size_t r = 0; r < (size_t)rows; r++) {
        const float *u = unit + r * ld, *d = dy + r * ld;
        double mean = 0, along = 0;
        for (int j = 0; j < l->n; j++) {
            double g = (double)d[j] * (double)gain[j];
            mean += g / l->n;
            along += g * (double)u[j] / l->n;
            grad[j] += d[j] * u[j];
            grad[l->n + j] += d[j];
        }
        for (int j = 0; j < l->n; j++) {
            double g = (double)d[j] * (double)gain[j];
            dx[r * ld + (size_t)j] =
                (float)((g - mean - (double)u[j] * along) * (double)inverse[r]);
        }
    }
}

void lnorm_grad_unpack(const struct lnorm *l, const float *grad, struct nn_params *p)
{
    memcpy(nn_params_grad(p, l->gain), grad, (size_t)l->n * sizeof(float));
    memcpy(nn_params_grad(p, l->bias), grad + l->n, (size_t)l->n * sizeof(float));
}
