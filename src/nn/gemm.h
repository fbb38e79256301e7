/* gemm.h - the one matrix product all layers use, on matrices of a policy's size.
 *
 *     C[m][n] = epilogue(init[m][n] + sum over k of A[m][k] * B[k][n])
 *
 * A is read one scalar at a time with free strides (so a transposed A costs nothing), B and C in
 * rows of 16 floats.  Forward passes, gradients by input and gradients by weight are all this
 * product:
 *
 *     forward      C = Y rows,  A = X,            B = packed W
 *     by input     C = dX rows, A = dY,           B = packed W transposed,  epilogue * act'(X)
 *     by weight    C = dW,      A = X transposed, B = dY,                   init C
 *
 * A block of 6 x 64 (8 x 32, 8 x 16) of C stays in registers over the whole k loop: 24 fused
 * multiply-adds on 10 loads.  Each element of C is one chain of fused multiply-adds in k order,
 * whatever block it falls in, so its bits do not depend on m or on its neighbours.
 *
 * Packed form of W[k][n] ("panels"): n is padded to 16 with zeros and cut into columns of 64, then
 * 32, then 16 wide; each panel is stored [k][width], one after the other. */
#ifndef NN_GEMM_H
#define NN_GEMM_H

#include <stdbool.h>
#include <stddef.h>

enum gemm_init { GEMM_ZERO, GEMM_BIAS, GEMM_ADD };
enum gemm_end { GEMM_STORE, GEMM_TANH, GEMM_RELU, GEMM_TANH_GRAD, GEMM_RELU_GRAD };

struct gemm {
    int m, n, k; /* n: a multiple of 16 */
    const float *a;
    size_t a_m, a_k; /* strides of A in floats */
    const float *b;
    size_t b_k; /* row stride of B; 0: b is in panels */
    float *c;
    size_t c_m;
    enum gemm_init init;
    enum gemm_end end;
    const float *bias; /* [n], GEMM_BIAS */
    bool pairs; /* a and b hold pairs of bfloat16 along k (see below); k, a_k and b_k count pairs */
    const float *h; /* [m][h_m], the activations whose derivative multiplies, GEMM_*_GRAD */
    size_t h_m;
};

void gemm_run(const struct gemm *g);

/* n rounded up to 16. */
static inline int gemm_pad(int n)
{
    return (n + 15) & ~15;
}

/* Packs w[k][n] (row stride ld; transposed: w[n][k]) into panels of k * gemm_pad(n) floats. */
void gemm_pack(const float *w, int k, int n, size_t ld, float *panels);
void gemm_pack_transposed(const float *w, int k, int n, size_t ld, float *panels);

/* Pairs.  Where the CPU has AVX512-BF16 one instruction multiplies two bfloat16 pairs into a float
 * sum, twice the products of a fused multiply-add.  Rounding to bfloat16 (8 bits, relative 2^-9) is
 * too coarse for outputs, but not for the products of a gradient, whose sampling noise is far
 * larger; sums stay in float.
 *
 *   by weight   A and B: two consecutive rows in one, out[ceil(rows / 2)][ld]   gemm_pairs_rows
 *   by input    A: neighbours of a row in one, out[rows][ld]              gemm_pairs_neighbours
 *               B: panels, two consecutive rows in one                    gemm_pairs_panels
 *
 * A missing second row or neighbour counts as zero.  ld of the outputs in floats (each holds a
 * pair). */
void gemm_pairs_rows(const float *x, size_t ldx, int rows, int width, float *out, size_t ld);
void gemm_pairs_neighbours(const float *x, size_t ldx, int rows, int width, float *out, size_t ld);
void gemm_pairs_panels(const float *panels, int k, int n, float *out);

#endif
