#include "nn/dense.h"

#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "nn/vec.h"

/* Heads: their weight gradient is kept transposed, so hidden units fill the vector and outputs the
 * block. */
static bool is_narrow(const struct dense *d)
{
    return d->n_out <= VEC;
}

/* One or two outputs: dot products instead of a panel that is mostly padding. */
static bool is_thin(const struct dense *d)
{
    return d->n_out <= 2 && d->n_in % VEC == 0;
}

void dense_declare(struct dense *d, struct nn_params *p, const char *name, int n_in, int n_out,
                   enum nn_act act)
{
    char full[NN_NAME_MAX];
    *d = (struct dense){.n_in = n_in, .n_out = n_out, .act = act};
    (void)snprintf(full, sizeof full, "%s.weight", name);
    d->w = nn_params_add(p, full, n_in, n_out, 0, 0);
    (void)snprintf(full, sizeof full, "%s.bias", name);
    d->b = nn_params_add(p, full, n_out, 0, 0, 0);
}

enum err_code dense_alloc(struct dense *d, struct err *e)
{
    size_t in = (size_t)gemm_pad(d->n_in), out = (size_t)gemm_pad(d->n_out);
    d->panels = try_zero_aligned(in * out, sizeof(float));
    d->panels_t = try_zero_aligned(in * out, sizeof(float));
    d->columns = try_zero_aligned(in * out, sizeof(float));
    d->bias = try_zero_aligned(out, sizeof(float));
    d->pairs_t = try_zero_aligned(in * out, sizeof(float));
    if (!d->panels || !d->panels_t || !d->pairs_t || !d->columns || !d->bias)
        return err_set(e, ERR_NOMEM, "dense layer %d x %d", d->n_in, d->n_out);
    return ERR_OK;
}

void dense_fini(struct dense *d)
{
    mem_free(d->panels);
    mem_free(d->panels_t);
    mem_free(d->columns);
    mem_free(d->pairs_t);
    mem_free(d->bias);
    *d = (struct dense){0};
}

void dense_pack(struct dense *d, const struct nn_params *p)
{
    const float *w = nn_params_value(p, d->w);
    gemm_pack(w, d->n_in, d->n_out, (size_t)d->n_out, d->panels);
    gemm_pack_transposed(w, d->n_out, d->n_in, (size_t)d->n_out, d->panels_t);
    gemm_pairs_panels(d->panels_t, d->n_out, d->n_in, d->pairs_t);
    memcpy(d->bias, nn_params_value(p, d->b), (size_t)d->n_out * sizeof(float));
    if (is_thin(d))
        for (int o = 0; o < d->n_out; o++)
            for (int i = 0; i < d->n_in; i++)
                d->columns[o * gemm_pad(d->n_in) + i] = w[i * d->n_out + o];
}

static void forward_thin(const struct dense *d, const float *x, size_t ldx, int n, float *y,
                         size_t ldy)
{
    for (int r = 0; r < n; r++) {
        for (int o = 0; o < d->n_out; o++) {
            const float *w = d->columns + o * gemm_pad(d->n_in);
            v16 sum = v16_set(0.0f);
            for (int i = 0; i < d->n_in; i += VEC)
                sum = v16_fma(v16_load(x + (size_t)r * ldx + i), v16_load(w + i), sum);
            y[(size_t)r * ldy + (size_t)o] = v16_sum(sum) + d->bias[o];
        }
    }
}

void dense_forward(const struct dense *d, const float *x, size_t ldx, int n, float *y, size_t ldy)
{
    static const enum gemm_end end[] = {
        [NN_TANH] = GEMM_TANH, [NN_RELU] = GEMM_RELU, [NN_LINEAR] = GEMM_STORE};
    if (is_thin(d) && d->act == NN_LINEAR) {
        forward_thin(d, x, ldx, n, y, ldy);
        return;
    }
    gemm_run(&(struct gemm){.m = n,
                            .n = gemm_pad(d->n_out),
                            .k = d->n_in,
                            .a = x,
                            .a_m = ldx,
                            .a_k = 1,
                            .b = d->panels,
                            .c = y,
                            .c_m = ldy,
                            .init = GEMM_BIAS,
                            .bias = d->bias,
                            .end = end[d->act]});
}

static void add_bias_grad(const float *dy, size_t ldy, int n, int width, float *grad)
{
    for (int j = 0; j < width; j += VEC) {
        v16 sum = v16_load(grad + j);
        for (int r = 0; r < n; r++)
            sum += v16_load(dy + (size_t)r * ldy + j);
        v16_store(grad + j, sum);
    }
}

/* Heads: outputs make the rows of the product. */
static void narrow_weights(const struct dense *d, const float *x, size_t ldx, const float *dy,
                           size_t ldy, int n, float *grad)
{
    int in = gemm_pad(d->n_in);
    gemm_run(&(struct gemm){.m = d->n_out,
                            .n = in,
                            .k = n,
                            .a = dy,
                            .a_m = 1,
                            .a_k = ldy,
                            .b = x,
                            .b_k = ldx,
                            .c = grad,
                            .c_m = (size_t)in,
                            .init = GEMM_ADD});
}

static void wide_weights(const struct dense *d, const float *x, size_t ldx, const float *dy,
                         size_t ldy, int n, float *grad, const struct dense_pairs *pairs)
{
    size_t in = (size_t)gemm_pad(d->n_in), out = (size_t)gemm_pad(d->n_out);
    struct gemm g = {.m = d->n_in,
                     .n = (int)out,
                     .k = n,
                     .a = x,
                     .a_m = 1,
                     .a_k = ldx,
                     .b = dy,
                     .b_k = ldy,
                     .c = grad,
                     .c_m = out,
                     .init = GEMM_ADD};
    if (pairs) {
        gemm_pairs_rows(x, ldx, n, (int)in, pairs->x, in);
        gemm_pairs_rows(dy, ldy, n, (int)out, pairs->dy, out);
        g.pairs = true;
        g.k = (n + 1) / 2;
        g.a = pairs->x;
        g.a_k = in;
        g.b = pairs->dy;
        g.b_k = out;
    }
    gemm_run(&g);
}

static void input_grad(const struct dense *d, const float *x, size_t ldx, enum nn_act x_act,
                       const float *dy, size_t ldy, int n, float *dx, size_t lddx,
                       const struct dense_pairs *pairs)
{
    static const enum gemm_end end[] = {
        [NN_TANH] = GEMM_TANH_GRAD, [NN_RELU] = GEMM_RELU_GRAD, [NN_LINEAR] = GEMM_STORE};
    struct gemm g = {.m = n,
                     .n = gemm_pad(d->n_in),
                     .k = d->n_out,
                     .a = dy,
                     .a_m = ldy,
                     .a_k = 1,
                     .b = d->panels_t,
                     .c = dx,
                     .c_m = lddx,
                     .init = GEMM_ZERO,
                     .end = end[x_act],
                     .h = x,
                     .h_m = ldx};
    if (pairs) {
        int out = gemm_pad(d->n_out);
        size_t ld = (size_t)(out + 31) / 32 * 16;
        gemm_pairs_neighbours(dy, ldy, n, out, pairs->dy_near, ld);
        g.pairs = true;
        g.k = (d->n_out + 1) / 2;
        g.a = pairs->dy_near;
        g.a_m = ld;
        g.b = d->pairs_t;
    }
    gemm_run(&g);
}

void dense_backward(const struct dense *d, const float *x, size_t ldx, enum nn_act x_act,
                    const float *dy, size_t ldy, int n, float *dx, size_t lddx, float *grad,
                    const struct dense_pairs *pairs)
{
    int out = gemm_pad(d->n_out);
    if (is_narrow(d)) {
        pairs = NULL;
        narrow_weights(d, x, ldx, dy, ldy, n, grad);
    } else {
        wide_weights(d, x, ldx, dy, ldy, n, grad, pairs);
    }
    add_bias_grad(dy, ldy, n, out, grad + dense_grad_size(d) - out);
    if (dx)
        input_grad(d, x, ldx, x_act, dy, ldy, n, dx, lddx, pairs);
}

size_t dense_grad_size(const struct dense *d)
{
    size_t in = (size_t)gemm_pad(d->n_in), out = (size_t)gemm_pad(d->n_out);
    return (is_narrow(d) ? (size_t)d->n_out * in : (size_t)d->n_in * out) + out;
}

void dense_grad_unpack(const struct dense *d, const float *grad, struct nn_params *p)
{
    size_t in = (size_t)gemm_pad(d->n_in), out = (size_t)gemm_pad(d->n_out);
    float *w = nn_params_grad(p, d->w), *b = nn_params_grad(p, d->b);
    for (int i = 0; i < d->n_in; i++)
        if (is_narrow(d))
            for (int o = 0; o < d->n_out; o++)
                w[i * d->n_out + o] = grad[(size_t)o * in + (size_t)i];
        else
            memcpy(w + (size_t)i * (size_t)d->n_out, grad + (size_t)i * out, (size_t)d->n_out * sizeof *w);
    memcpy(b, grad + dense_grad_size(d) - out, (size_t)d->n_out * sizeof(float));
}
