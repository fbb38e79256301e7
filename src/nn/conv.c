#include "nn/conv.h"

#include <string.h>

void conv_declare(struct conv *c, struct nn_params *p, const char *name, int n_in, int n_out,
                  int kernel, enum nn_act act)
{
    ASSERT(kernel % 2 == 1);
    *c = (struct conv){.n_in = n_in, .n_out = n_out, .kernel = kernel};
    dense_declare(&c->dense, p, name, kernel * kernel * n_in, n_out, act);
}

enum err_code conv_alloc(struct conv *c, struct err *e)
{
    return dense_alloc(&c->dense, e);
}

void conv_fini(struct conv *c)
{
    dense_fini(&c->dense);
}

void conv_pack(struct conv *c, const struct nn_params *p)
{
    dense_pack(&c->dense, p);
}

static size_t row_width(const struct conv *c)
{
    return (size_t)gemm_pad(c->dense.n_in);
}

size_t conv_unfolded_size(const struct conv *c, int height, int width)
{
    return (size_t)height * (size_t)width * row_width(c);
}

/* Where one tap of a pixel lies. */
struct tap {
    size_t unfolded,
        pixel; /* offset of the tap in the unfolded rows; index of the pixel it reads */
};

/* Taps of pixel (r, col) that fall inside the image; returns how many. */
static int taps_of_pixel(const struct conv *c, int height, int width, int r, int col,
                         struct tap *out)
{
    int half = c->kernel / 2, n = 0;
    size_t base = ((size_t)r * (size_t)width + (size_t)col) * row_width(c);
    for (int k = 0; k < c->kernel * c->kernel; k++) {
        int y = r + k / c->kernel - half, x = col + k % c->kernel - half;
        if (y >= 0 && y < height && x >= 0 && x < width)
            out[n++] =
                (struct tap){base + (size_t)(k * c->n_in), (size_t)y * (size_t)width + (size_t)x};
    }
    return n;
}

enum { TAPS_MAX = 121 };

void conv_forward(const struct conv *c, const float *x, size_t ldx, int height, int width,
                  float *unfolded, float *y, size_t ldy)
{
    struct tap tap[TAPS_MAX];
    ASSERT(c->kernel * c->kernel <= TAPS_MAX);
    memset(unfolded, 0, conv_unfolded_size(c, height, width) * sizeof(float));
    for (int r = 0; r < height; r++)
        for (int col = 0; col < width; col++) {
            int n = taps_of_pixel(c, height, width, r, col, tap);
            for (int k = 0; k < n; k++)
                memcpy(unfolded + tap[k].unfolded, x + tap[k].pixel * ldx,
                       (size_t)c->n_in * sizeof(float));
        }
    dense_forward(&c->dense, unfolded, row_width(c), height * width, y, ldy);
}

void conv_backward(const struct conv *c, const float *unfolded, int height, int width,
                   const float *dy, size_t ldy, float *dunfolded, float *dx, size_t ldx,
                   float *grad)
{
    struct tap tap[TAPS_MAX];
    dense_backward(&c->dense, unfolded, row_width(c), NN_LINEAR, dy, ldy, height * width,
                   dx ? dunfolded : NULL, row_width(c), grad, NULL);
    if (!dx)
        return;
    memset(dx, 0, (size_t)height * (size_t)width * ldx * sizeof(float));
    for (int r = 0; r < height; r++)
        for (int col = 0; col < width; col++) {
            int n = taps_of_pixel(c, height, width, r, col, tap);
            for (int k = 0; k < n; k++)
                for (int j = 0; j < c->n_in; j++)
                    dx[tap[k].pixel * ldx + (size_t)j] += dunfolded[tap[k].unfolded + (size_t)j];
        }
}

size_t conv_grad_size(const struct conv *c)
{
    return dense_grad_size(&c->dense);
}

void conv_grad_unpack(const struct conv *c, const float *grad, struct nn_params *p)
{
    dense_grad_unpack(&c->dense, grad, p);
}
