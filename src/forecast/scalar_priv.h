/* scalar_priv.h - small float helpers that compile to single instructions and vectors.
 *
 * fmaxf() and fminf() must treat NaN specially and stay library calls; these return b when a
 * comparison with NaN fails, which callers rule out.  sum_16 adds in a fixed tree, so it may use
 * vectors and still gives the same bits everywhere. */
#ifndef FORECAST_SCALAR_PRIV_H
#define FORECAST_SCALAR_PRIV_H

static inline float max_f(float a, float b)
{
    return a > b ? a : b;
}

static inline float min_f(float a, float b)
{
    return a < b ? a : b;
}

static inline float clamp_f(float v, float lo, float hi)
{
    return min_f(max_f(v, lo), hi);
}

static inline float sum_16(const float v[16])
{
    float a[8], b[4];
    for (int k = 0; k < 8; k++)
        a[k] = v[k] + v[k + 8];
    for (int k = 0; k < 4; k++)
        b[k] = a[k] + a[k + 4];
    return (b[0] + b[2]) + (b[1] + b[3]);
}

#endif
