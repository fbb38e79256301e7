#include "nn/gemm.h"

#include <string.h>

#include "base/err.h"
#include "nn/vec.h"

enum { WIDE = 4 * VEC }; /* columns of the widest panel */

/* One block: MR rows, NV vectors of columns.  Both are constants at every call, so the loops unroll and the
 * sums live in registers. */
VEC_INLINE void block(const struct gemm *g, const float *a, const float *b, size_t b_k, float *c,
                      const float *bias, const int MR, const int NV)
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
                acc[i][j] = v16_load(g->init == GEMM_BIAS ? bias + j * VEC : c + (size_t)i * g->c_m + j * VEC);
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
                acc[i][j] = v16_fma(x, row[j], acc[i][j]);
        }
        a += a_k;
        b += b_k;
    }
#pragma GCC unroll 8
    for (int i = 0; i < MR; i++)
#pragma GCC unroll 4
        for (int j = 0; j < NV; j++)
            v16_store(c + (size_t)i * g->c_m + j * VEC, acc[i][j]);
}

typedef void block_fn(const struct gemm *g, const float *a, const float *b, size_t b_k, float *c,
                      const float *bias);

#define BLOCK(mr, nv)                                                                              \
    static void block_##mr##_##nv(const struct gemm *g, const float *a, const float *b, size_t b_k, float *c, \
                                  const float *bias)                                               \
    {                                                                                              \
        block(g, a, b, b_k, c, bias, mr, nv);                                                      \
    }
#define BLOCKS(X, nv) X(1, nv) X(2, nv) X(3, nv) X(4, nv) X(5, nv) X(6, nv)
BLOCKS(BLOCK, 4)
BLOCKS(BLOCK, 2)
BLOCK(7, 2)
BLOCK(8, 2)
BLOCKS(BLOCK, 1)
BLOCK(7, 1)
BLOCK(8, 1)

#define ENTRY(mr, nv) [mr] = block_##mr##_##nv,
static block_fn *const block_table[5][9] = {
    [1] = {BLOCKS(ENTRY, 1) ENTRY(7, 1) ENTRY(8, 1)},
    [2] = {BLOCKS(ENTRY, 2) ENTRY(7, 2) ENTRY(8, 2)},
    [4] = {BLOCKS(ENTRY, 4)},
};

/* The epilogue over a block just stored, still in the L1 cache. */
static void finish(const struct gemm *g, int row, int col, int rows, int width)
{
    for (int i = row; i < row + rows; i++) {
        float *c = g->c + (size_t)i * g->c_m + col;
        const float *h = g->h ? g->h + (size_t)i * g->h_m + col : NULL;
        for (int j = 0; j < width; j += VEC) {
            v16 x = v16_load(c + j);
            if (g->end == GEMM_TANH) {
                x = v16_tanh(x);
            } else if (g->end == GEMM_RELU) {
                x = v16_max(x, v16_set(0.0f));
            } else if (g->end == GEMM_TANH_GRAD) {
                v16 y = v16_load(h + j);
                x *= v16_fma(-y, y, v16_set(1.0f));
            } else {
                x = v16_pick((v16i)(v16_load(h + j) > 0.0f), x, v16_set(0.0f));
            }
            v16_store(c + j, x);
        }
    }
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
            block_table[vectors][rows](g, g->a + (size_t)row * g->a_m, b, b_k,
                                       g->c + (size_t)row * g->c_m + col, bias);
            if (g->end != GEMM_STORE)
                finish(g, row, col, rows, width);
            row += rows;
        }
        col += width;
    }
}

static void pack(const float *w, int k, int n, size_t w_k, size_t w_n, float *panels)
{
    int padded = gemm_pad(n);
    for (int col = 0; col < padded;) {
        int width = panel_width(padded - col);
        for (int i = 0; i < k; i++)
            for (int j = 0; j < width; j++)
                *panels++ = col + j < n ? w[(size_t)i * w_k + (size_t)(col + j) * w_n] : 0.0f;
        col += width;
    }
}

void gemm_pack(const float *w, int k, int n, size_t ld, float *panels)
{
    pack(w, k, n, ld, 1, panels);
}

void gemm_pack_transposed(const float *w, int k, int n, size_t ld, float *panels)
{
    pack(w, k, n, 1, ld, panels);
}
