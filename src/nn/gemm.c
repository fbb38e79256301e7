#include "nn/gemm.h"

#include <string.h>

#include "base/err.h"
#include "nn/vec.h"

enum { WIDE = 4 * VEC }; /* columns of the widest panel */

/* One block: MR rows, NV vectors of columns.  Both are constants at every call, so the loops unroll
 * and the sums live in registers. */
VEC_INLINE void block(const struct gemm *g, const float *a, const float *b, size_t b_k, float *c,
                      const float *bias, const float *h, const int MR, const int NV,
                      const bool pairs)
{
    v16 acc[8][4];
    const size_t a_m = g->a_m, a_k = g->a_k;
#pragma GCC unroll 8
    for (int i = 0; i < MR; i++)
#pragma GCC unroll 4
        for (int j = 0; j < NV; j++) {
            if (g->init == GEMM_ZERO)
                acc[i][j] = v16_set(0.0f);
            else
                acc[i][j] = v16_load(g->init == GEMM_BIAS ? bias + j * VEC
                                                          : c + (size_t)i * g->c_m + j * VEC);
        }
    for (int k = 0; k < g->k; k++) {
        v16 row[4];
#pragma GCC unroll 4
        for (int j = 0; j < NV; j++)
            row[j] = v16_load(b + j * VEC);
#pragma GCC unroll 8
        for (int i = 0; i < MR; i++) {
            v16 x = v16_set(a[(size_t)i * a_m]);
#pragma GCC unroll 4
            for (int j = 0; j < NV; j++)
                acc[i][j] =
                    pairs ? v16_dot_pairs(acc[i][j], x, row[j]) : v16_fma(x, row[j], acc[i][j]);
        }
        a += a_k;
        b += b_k;
    }
#pragma GCC unroll 8
    for (int i = 0; i < MR; i++)
#pragma GCC unroll 4
        for (int j = 0; j < NV; j++) {
            if (g->end == GEMM_TANH_GRAD) { /* the others wait for finish(): they need too many
                                               registers, or are rare */
                v16 y = v16_load(h + (size_t)i * g->h_m + j * VEC);
                acc[i][j] *= v16_fma(-y, y, v16_set(1.0f));
            }
            v16_store(c + (size_t)i * g->c_m + j * VEC, acc[i][j]);
        }
}

typedef void block_fn(const struct gemm *g, const float *a, const float *b, size_t b_k, float *c,
                      const float *bias, const float *h);

#define BLOCK(mr, nv)                                                                              \
    static void block_##mr##_##nv(const struct gemm *g, const float *a, const float *b,            \
                                  size_t b_k, float *c, const float *bias, const float *h)         \
    {                                                                                              \
        block(g, a, b, b_k, c, bias, h, mr, nv, false);                                            \
    }                                                                                              \
    static void pairs_##mr##_##nv(const struct gemm *g, const float *a, const float *b,            \
                                  size_t b_k, float *c, const float *bias, const float *h)         \
    {                                                                                              \
        block(g, a, b, b_k, c, bias, h, mr, nv, true);                                             \
    }
#define BLOCKS(X, nv) X(1, nv) X(2, nv) X(3, nv) X(4, nv) X(5, nv) X(6, nv)
BLOCKS(BLOCK, 4)
BLOCKS(BLOCK, 2)
BLOCK(7, 2)
BLOCK(8, 2)
BLOCKS(BLOCK, 1)
BLOCK(7, 1)
BLOCK(8, 1)

#define ENTRY(mr, nv) [mr] = {block_##mr##_##nv, pairs_##mr##_##nv},
static block_fn *const block_table[5][9][2] = {
    /* [vectors][rows][pairs] */
    [1] = {BLOCKS(ENTRY, 1) ENTRY(7, 1) ENTRY(8, 1)},
    [2] = {BLOCKS(ENTRY, 2) ENTRY(7, 2) ENTRY(8, 2)},
    [4] = {BLOCKS(ENTRY, 4)},
};

/* One vector of the epilogue: x as summed, y the activation whose derivative is asked for. */
VEC_INLINE v16 end_of(enum gemm_end end, v16 x, v16 y)
{
    switch (end) {
    case GEMM_STORE:
        return x;
    case GEMM_TANH:
        return v16_tanh(x);
    case GEMM_RELU:
        return v16_max(x, v16_set(0.0f));
    case GEMM_TANH_GRAD:
        return x; /* done in the block */
    case GEMM_RELU_GRAD:
        return v16_pick((v16i)(y > 0.0f), x, v16_set(0.0f));
    }
    return x;
}

VEC_INLINE void finish_rows(enum gemm_end end, float *c, size_t c_m, const float *h, size_t h_m,
                            int rows, int width)
{
    for (size_t i = 0; i < (size_t)rows; i++)
#pragma GCC unroll 4
        for (int j = 0; j < width; j += VEC)
            v16_store(c + i * c_m + j, end_of(end, v16_load(c + i * c_m + j),
                                              h ? v16_load(h + i * h_m + j) : v16_set(0.0f)));
}

/* The epilogue over a block just stored, still in the L1 cache.  The constant arguments make tight
 * loops. */
static void finish(const struct gemm *g, int row, int col, int rows, int width)
{
    float *c = g->c + (size_t)row * g->c_m + col;
    const float *h = g->h ? g->h + (size_t)row * g->h_m + col : NULL;
    if (g->end == GEMM_TANH && width == WIDE)
        finish_rows(GEMM_TANH, c, g->c_m, NULL, 0, rows, WIDE);
    else if (g->end == GEMM_TANH)
        finish_rows(GEMM_TANH, c, g->c_m, NULL, 0, rows, width);
    else
        finish_rows(g->end, c, g->c_m, h, g->h_m, rows, width);
}

static int panel_width(int left)
{
    return left >= WIDE ? WIDE : left >= WIDE / 2 ? WIDE / 2 : VEC;
}

void gemm_run(const struct gemm *g)
{
    ASSERT(g->n % VEC == 0);
    for (int col = 0; col < g->n;) {
        int width = panel_width(g->n - col);
        int vectors = width / VEC, most = vectors == 4 ? 6 : 8;
        const float *b = g->b_k ? g->b + col : g->b + (size_t)col * (size_t)g->k;
        size_t b_k = g->b_k ? g->b_k : (size_t)width;
        const float *bias = g->bias ? g->bias + col : NULL;
        for (int row = 0; row < g->m;) {
            int rows = g->m - row < most ? g->m - row : most;
            block_table[vectors][rows][g->pairs](g, g->a + (size_t)row * g->a_m, b, b_k,
                                                 g->c + (size_t)row * g->c_m + col, bias,
                                                 g->h ? g->h + (size_t)row * g->h_m + col : NULL);
            if (g->end != GEMM_STORE && g->end != GEMM_TANH_GRAD)
                finish(g, row, col, rows, width);
            row += rows;
        }
        col += width;
    }
}

void gemm_pack(const float *w, int k, int n, size_t ld, float *panels)
{
    int padded = gemm_pad(n);
    for (int col = 0; col < padded;) {
        int width = panel_width(padded - col), used = n - col < width ? n - col : width;
        for (int i = 0; i < k; i++, panels += width) {
            const float *row = w + (size_t)i * ld + col;
            int j = 0;
            for (; j + VEC <= used; j += VEC)
                v16_store(panels + j, v16_load(row + j));
            for (; j < width; j++)
                panels[j] = j < used ? row[j] : 0.0f;
        }
        col += width;
    }
}

/* Rows [row, row + 16) of 16 columns of w become columns of a panel. */
static void pack_square(const float *w, size_t ld, float *panel, size_t width)
{
    v16 r[VEC];
#pragma GCC unroll 16
    for (int j = 0; j < VEC; j++)
        r[j] = v16_load(w + (size_t)j * ld);
    v16_transpose(r);
#pragma GCC unroll 16
    for (int j = 0; j < VEC; j++)
        v16_store(panel + (size_t)j * width, r[j]);
}

void gemm_pack_transposed(const float *w, int k, int n, size_t ld, float *panels)
{
    int padded = gemm_pad(n);
    for (int col = 0; col < padded;) {
        int width = panel_width(padded - col);
        for (int j = 0; j < width; j += VEC) {
            int i = 0, used = n - col - j < VEC ? n - col - j : VEC;
            for (; used == VEC && i + VEC <= k; i += VEC)
                pack_square(w + (size_t)(col + j) * ld + i, ld, panels + i * width + j, (size_t)width);
            for (; i < k; i++)
                for (int c = 0; c < VEC; c++)
                    panels[i * width + j + c] = c < used ? w[(size_t)(col + j + c) * ld + (size_t)i] : 0.0f;
        }
        panels += k * width;
        col += width;
    }
}

void gemm_pairs_rows(const float *x, size_t ldx, int rows, int width, float *out, size_t ld)
{
    for (int r = 0; r < rows; r += 2, x += 2 * ldx, out += ld)
        for (int j = 0; j < width; j += VEC)
            v16_store(out + j, v16_pair(v16_load(x + j),
                                        r + 1 < rows ? v16_load(x + ldx + j) : v16_set(0.0f)));
}

void gemm_pairs_neighbours(const float *x, size_t ldx, int rows, int width, float *out, size_t ld)
{
    for (int r = 0; r < rows; r++, x += ldx, out += ld)
        for (int j = 0; j < width; j += 2 * VEC)
            v16_store(out + j / 2,
                      v16_pair_neighbours(v16_load(x + j),
                                          j + VEC < width ? v16_load(x + j + VEC) : v16_set(0.0f)));
}

void gemm_pairs_panels(const float *panels, int k, int n, float *out)
{
    int padded = gemm_pad(n);
    for (int col = 0; col < padded;) {
        int width = panel_width(padded - col);
        gemm_pairs_rows(panels, (size_t)width, k, width, out, (size_t)width);
        panels += (size_t)k * (size_t)width;
        out += (size_t)((k + 1) / 2) * (size_t)width;
        col += width;
    }
}
