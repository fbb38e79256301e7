/* sane.h - whether unpacked memory can be worked with: what addresses memory, what is subtracted, what becomes an
 * integer.  A block with the right hash may still have been made by hand. */
#ifndef DECIDE_SANE_H
#define DECIDE_SANE_H

#include <math.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* Differences of two such times do not overflow. */
static inline bool sane_time(int64_t t_us)
{
    return t_us >= INT64_MIN / 2 && t_us <= INT64_MAX / 2;
}

static inline bool sane_int(int64_t x, int64_t lo, int64_t hi)
{
    return x >= lo && x <= hi;
}

/* A bool read from a file may hold any byte; looking at it as a bool is then undefined. */
static inline bool sane_bool(const bool *b)
{
    unsigned char byte;
    memcpy(&byte, b, sizeof byte);
    return byte <= 1;
}

/* x[n] are missing (NaN) or within +-most. */
static inline bool sane_floats(const float *x, size_t n, float most)
{
    bool ok = true;
    for (size_t i = 0; i < n; i++)
        ok &= !(fabsf(x[i]) > most);
    return ok;
}

#endif
