/* vec.h - sixteen floats at a time, and fast tanh, sigmoid, exp and log on them.
 *
 * Written with gcc's vector extension, so it compiles for any CPU; three operations use AVX-512
 * where the build has it: fused multiply-add (elsewhere a product and a sum), minimum/maximum and
 * table look-up. Same bits on one build for one input, whatever lane it is in.
 *
 * Errors measured over all floats in the stated range (tests/num/nn_vec_test.c):
 *   tanh     absolute 6.3e-6; odd; exactly 0 at 0; |tanh| <= 1
 *   sigmoid  absolute 3.2e-6, from tanh
 *   exp      relative 1.2e-7 on [-87, 88], clamped outside
 *   log      absolute 6e-8 + relative 6e-8 on normal positive floats
 *
 * tanh: cubic per quarter octave on [2^-5, 8), found by Remez exchange; the exponent and two
 * mantissa bits select the row of a 32-entry table, which two registers hold, so four permutes
 * replace the division of the usual rational form: about 10 instead of 17 cycles on Zen 4.  Below
 * 2^-5 the first column (odd) holds, above 8 the value at 8. */
#ifndef NN_VEC_H
#define NN_VEC_H

#include <math.h>
#include <stdint.h>
#include <string.h>

#if defined(__AVX512F__)
#include <immintrin.h>
#endif

/* Everything here is inlined into its caller, so how vectors are passed does not matter. */
#pragma GCC diagnostic ignored "-Wpsabi"

#define VEC_INLINE static inline __attribute__((always_inline))
enum { VEC = 16 };

typedef float v16 __attribute__((vector_size(64), may_alias));
typedef int32_t v16i __attribute__((vector_size(64), may_alias));
typedef float v16_mem __attribute__((vector_size(64), aligned(4), may_alias));

VEC_INLINE v16 v16_load(const float *p)
{
    return *(const v16_mem *)p;
}

VEC_INLINE void v16_store(float *p, v16 x)
{
    *(v16_mem *)p = x;
}

VEC_INLINE v16 v16_set(float x)
{
    return (v16){x, x, x, x, x, x, x, x, x, x, x, x, x, x, x, x};
}

VEC_INLINE v16i v16i_set(int32_t x)
{
    return (v16i){x, x, x, x, x, x, x, x, x, x, x, x, x, x, x, x};
}

/* a * b + c */
VEC_INLINE v16 v16_fma(v16 a, v16 b, v16 c)
{
#if defined(__AVX512F__)
    return (v16)_mm512_fmadd_ps((__m512)a, (__m512)b, (__m512)c);
#else
    return a * b + c;
#endif
}

/* m ? a : b; m is all ones or all zeros per lane, as comparisons give it. */
VEC_INLINE v16 v16_pick(v16i m, v16 a, v16 b)
{
    return (v16)((m & (v16i)a) | (~m & (v16i)b));
}

/* The second operand where the first is NaN, like the x86 instructions. */
VEC_INLINE v16 v16_min(v16 a, v16 b)
{
#if defined(__AVX512F__)
    return (v16)_mm512_min_ps((__m512)a, (__m512)b);
#else
    return v16_pick((v16i)(a < b), a, b);
#endif
}

VEC_INLINE v16 v16_max(v16 a, v16 b)
{
#if defined(__AVX512F__)
    return (v16)_mm512_max_ps((__m512)a, (__m512)b);
#else
    return v16_pick((v16i)(a > b), a, b);
#endif
}

VEC_INLINE v16 v16_sqrt(v16 x)
{
#if defined(__AVX512F__)
    return (v16)_mm512_sqrt_ps((__m512)x);
#else
    for (int k = 0; k < VEC; k++)
        x[k] = sqrtf(x[k]);
    return x;
#endif
}

/* ---- bfloat16 pairs: lane = low half, high half; both rounded to nearest even
 * --------------------- */

VEC_INLINE v16i v16_round_bf16(v16 x) /* in the upper half of each lane */
{
    v16i u = (v16i)x;
    return (u + 0x7fff + ((u >> 16) & 1)) & (int32_t)0xffff0000;
}

VEC_INLINE v16 v16_pair(v16 low, v16 high)
{
#if defined(__AVX512BF16__) && defined(__AVX512BW__)
    static const uint16_t interleave[32] __attribute__((aligned(64))) = {
        0, 16, 1, 17, 2,  18, 3,  19, 4,  20, 5,  21, 6,  22, 7,  23,
        8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31};
    __m512i halves = (__m512i)_mm512_cvtne2ps_pbh((__m512)high, (__m512)low);
    return (v16)_mm512_permutexvar_epi16(_mm512_load_si512(interleave), halves);
#else
    return (v16)(v16_round_bf16(high) | ((v16_round_bf16(low) >> 16) & 0xffff));
#endif
}

/* 32 consecutive floats as 16 pairs of neighbours. */
VEC_INLINE v16 v16_pair_neighbours(v16 first, v16 second)
{
#if defined(__AVX512BF16__)
    return (v16)_mm512_cvtne2ps_pbh((__m512)second, (__m512)first);
#else
    v16 y;
    v16i a = v16_round_bf16(first), b = v16_round_bf16(second);
    for (int k = 0; k < VEC / 2; k++) {
        ((int32_t *)&y)[k] = a[2 * k + 1] | (int32_t)((uint32_t)a[2 * k] >> 16);
        ((int32_t *)&y)[k + VEC / 2] = b[2 * k + 1] | (int32_t)((uint32_t)b[2 * k] >> 16);
    }
    return y;
#endif
}

/* sum + a.low * b.low + a.high * b.high, products exact, sums in float. */
VEC_INLINE v16 v16_dot_pairs(v16 sum, v16 a, v16 b)
{
#if defined(__AVX512BF16__)
    return (v16)_mm512_dpbf16_ps((__m512)sum, (__m512bh)a, (__m512bh)b);
#else
    v16i high = v16i_set((int32_t)0xffff0000);
    sum = v16_fma((v16)((v16i)a << 16), (v16)((v16i)b << 16), sum);
    return v16_fma((v16)((v16i)a & high), (v16)((v16i)b & high), sum);
#endif
}

/* Sum of the lanes, pairwise in a fixed tree. */
VEC_INLINE float v16_sum(v16 x)
{
#if defined(__AVX512F__)
    return _mm512_reduce_add_ps((__m512)x);
#else
    float a[VEC];
    memcpy(a, &x, sizeof a);
    for (int w = VEC / 2; w > 0; w /= 2)
        for (int i = 0; i < w; i++)
            a[i] += a[i + w];
    return a[0];
#endif
}

/* One stage of a transposition: rows i and i + W swap their off-diagonal blocks of W lanes. */
#define V16_SWAP(r, W)                                                                             \
    for (int i = 0; i < VEC; i++)                                                                  \
        if (!(i & W)) {                                                                            \
            v16 a = r[i], b = r[i + W];                                                            \
            r[i] = V16_BLOCKS_##W(a, b, 0);                                                        \
            r[i + W] = V16_BLOCKS_##W(a, b, W);                                                    \
        }
#define V16_BLOCKS_1(a, b, k)                                                                      \
    __builtin_shufflevector(a, b, 0 + k, 16 + k, 2 + k, 18 + k, 4 + k, 20 + k, 6 + k, 22 + k,      \
                            8 + k, 24 + k, 10 + k, 26 + k, 12 + k, 28 + k, 14 + k, 30 + k)
#define V16_BLOCKS_2(a, b, k)                                                                      \
    __builtin_shufflevector(a, b, 0 + k, 1 + k, 16 + k, 17 + k, 4 + k, 5 + k, 20 + k, 21 + k,      \
                            8 + k, 9 + k, 24 + k, 25 + k, 12 + k, 13 + k, 28 + k, 29 + k)
#define V16_BLOCKS_4(a, b, k)                                                                      \
    __builtin_shufflevector(a, b, 0 + k, 1 + k, 2 + k, 3 + k, 16 + k, 17 + k, 18 + k, 19 + k,      \
                            8 + k, 9 + k, 10 + k, 11 + k, 24 + k, 25 + k, 26 + k, 27 + k)
#define V16_BLOCKS_8(a, b, k)                                                                      \
    __builtin_shufflevector(a, b, 0 + k, 1 + k, 2 + k, 3 + k, 4 + k, 5 + k, 6 + k, 7 + k, 16 + k,  \
                            17 + k, 18 + k, 19 + k, 20 + k, 21 + k, 22 + k, 23 + k)

/* Sixteen rows become sixteen columns. */
VEC_INLINE void v16_transpose(v16 r[VEC])
{
#pragma GCC unroll 16
    V16_SWAP(r, 1)
#pragma GCC unroll 16
    V16_SWAP(r, 2)
#pragma GCC unroll 16
    V16_SWAP(r, 4)
#pragma GCC unroll 16
    V16_SWAP(r, 8)
}

/* table[i mod 32] per lane. */
VEC_INLINE v16 v16_lookup32(const float *table, v16i i)
{
#if defined(__AVX512F__)
    return (v16)_mm512_permutex2var_ps((__m512)v16_load(table), (__m512i)i,
                                       (__m512)v16_load(table + VEC));
#else
    v16 y;
    for (int k = 0; k < VEC; k++)
        y[k] = table[i[k] & 31];
    return y;
#endif
}

/* Rows of tanh: coefficients of 1, x, x^2, x^3; column (bits of |x| >> 21) mod 32: the octave's
 * exponent and two bits of mantissa.  Column 8 is the first, [2^-5, 1.25 2^-5), and (being odd)
 * holds below it as well. */
static const float vec_tanh_table[4][32] __attribute__((aligned(64))) = {
    {0.348342337f,     0.600172181f,     0.774623483f,
     0.880043892f,     0.954430598f,     0.989425814f,
     0.997739102f,     0.999544804f,     0.0f,
     -7.72644283e-08f, -1.78232388e-07f, -3.64365811e-07f,
     -8.9756666e-07f,  -2.44477478e-06f, -5.61461499e-06f,
     -1.14189529e-05f, -2.78683084e-05f, -7.47988337e-05f,
     -0.000168785348f, -0.000336325166f, -0.000791275719f,
     -0.00200499032f,  -0.00422564158f,  -0.00778305855f,
     -0.015941708f,    -0.0325728662f,   -0.0533403032f,
     -0.0734532196f,   -0.0891722192f,   -0.0654617867f,
     0.0168572897f,    0.141166451f},
    {0.655286509f,    0.349768882f,    0.173453043f, 0.0822115493f, 0.0268224053f, 0.00521760292f,
     0.000959593242f, 0.000169432633f, 0.999999903f, 1.00000677f,   1.00001321f,   1.00002338f,
     1.00004821f,     1.00010724f,     1.00020823f,  1.00036692f,   1.00074988f,   1.00164549f,
     1.00314313f,     1.00543417f,     1.01073405f,  1.02233041f,   1.04004644f,   1.06440196f,
     1.11206573f,     1.19195197f,     1.2752802f,   1.34460651f,   1.39177798f,   1.33689058f,
     1.17297314f,     0.959768876f},
    {-0.228641663f,    -0.104890935f,    -0.0454249105f,   -0.019080451f,  -0.00531560749f,
     -0.000864018978f, -0.000136426523f, -2.10998057e-05f, 0.0f,           -0.000210846439f,
     -0.000347618986f, -0.000533252675f, -0.000918867484f, -0.0016708966f, -0.00274455237f,
     -0.00419198267f,  -0.00716717901f,  -0.012873667f,    -0.0208374973f, -0.0312893286f,
     -0.0518920008f,   -0.0888848078f,   -0.136050815f,    -0.191680471f,  -0.284606405f,
     -0.412728014f,    -0.52430636f,     -0.604025091f,    -0.651255821f,  -0.608900568f,
     -0.499980741f,    -0.377988117f},
    {0.027460617f,    0.0107258098f,   0.00403323347f,  0.00149573106f, 0.000354065027f,
     4.79682773e-05f, 6.49273111e-06f, 8.78712652e-07f, -0.333079193f,  -0.330875005f,
     -0.329904564f,   -0.328774924f,   -0.326775783f,   -0.323577162f,  -0.31976789f,
     -0.315363483f,   -0.307649842f,   -0.295510019f,   -0.281377666f,  -0.265470323f,
     -0.238741959f,   -0.199340734f,   -0.157435228f,   -0.115045328f,  -0.0545815066f,
     0.0140257682f,   0.0638845233f,   0.0944658762f,   0.110244081f,   0.0993484728f,
     0.0751966505f,   0.05190956f},
};

/* NaN comes out as NaN. */
VEC_INLINE v16 v16_tanh(v16 x)
{
    enum { QUARTER_OCTAVE_SHIFT = 21 };
    const float below_8 = 7.99999952f, first = 0.03125f;
    v16i sign = (v16i)x & (int32_t)0x80000000;
    v16 a = v16_min(v16_set(below_8),
                    (v16)((v16i)x & 0x7fffffff)); /* keeps NaN: it is the second operand */
    v16i column = (v16i)v16_max(v16_set(first), a) >> QUARTER_OCTAVE_SHIFT;
    v16 y = v16_fma(v16_lookup32(vec_tanh_table[3], column), a,
                    v16_lookup32(vec_tanh_table[2], column));
    y = v16_fma(y, a, v16_lookup32(vec_tanh_table[1], column));
    y = v16_fma(y, a, v16_lookup32(vec_tanh_table[0], column));
    return (v16)((v16i)y | sign);
}

VEC_INLINE v16 v16_sigmoid(v16 x)
{
    v16 half = v16_set(0.5f);
    return v16_fma(v16_tanh(x * half), half, half);
}

/* Cody-Waite reduction and the degree 5 polynomial of Cephes expf. */
VEC_INLINE v16 v16_exp(v16 x)
{
    const float round_magic = 12582912.0f; /* 1.5 * 2^23: adding it rounds to an integer */
    x = v16_max(v16_min(v16_set(88.0f), x), v16_set(-87.0f));
    v16 t = v16_fma(x, v16_set(1.44269504f), v16_set(round_magic));
    v16 n = t - round_magic;
    v16 r = v16_fma(n, v16_set(-0.693359375f), x);
    r = v16_fma(n, v16_set(2.12194440e-4f), r);
    v16 p = v16_fma(v16_set(1.9875691500e-4f), r, v16_set(1.3981999507e-3f));
    p = v16_fma(p, r, v16_set(8.3334519073e-3f));
    p = v16_fma(p, r, v16_set(4.1665795894e-2f));
    p = v16_fma(p, r, v16_set(1.6666665459e-1f));
    p = v16_fma(p, r, v16_set(5.0000001201e-1f));
    p = v16_fma(p, r * r, r + 1.0f);
    return (v16)((v16i)p + (((v16i)t - 0x4b400000) << 23));
}

/* Positive normal numbers only.  Cephes logf. */
VEC_INLINE v16 v16_log(v16 x)
{
    v16i bits = (v16i)x - 0x3f3504f3; /* so that the mantissa falls in [sqrt(1/2), sqrt(2)) */
    v16i exponent = bits >> 23;
    v16 m = (v16)((bits & 0x7fffff) + 0x3f3504f3) - 1.0f;
    v16 n = __builtin_convertvector(exponent, v16);
    v16 p = v16_fma(v16_set(7.0376836292e-2f), m, v16_set(-1.1514610310e-1f));
    p = v16_fma(p, m, v16_set(1.1676998740e-1f));
    p = v16_fma(p, m, v16_set(-1.2420140846e-1f));
    p = v16_fma(p, m, v16_set(1.4249322787e-1f));
    p = v16_fma(p, m, v16_set(-1.6668057665e-1f));
    p = v16_fma(p, m, v16_set(2.0000714765e-1f));
    p = v16_fma(p, m, v16_set(-2.4999993993e-1f));
    p = v16_fma(p, m, v16_set(3.3333331174e-1f));
    v16 z = m * m;
    v16 y = v16_fma(p * m, z, n * -2.12194440e-4f);
    y = v16_fma(z, v16_set(-0.5f), y);
    return v16_fma(n, v16_set(0.693359375f), m + y);
}

#endif
