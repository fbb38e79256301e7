/* num.h - numbers to text and back, without locale.
 *
 * The parsers take a length, accept the whole text or nothing, and never skip blanks.  num_f64 has a fast
 * exact path (Clinger 1990: at most 15 digits and |exponent| <= 22) for bulk CSV, else strtod; it
 * refuses "nan", "inf", hexadecimal and values that overflow.  num_format writes the shortest of 15, 16 or
 * 17 digits that reads back to the same bits.  Below them the few comparisons that everybody needs. */
#ifndef BASE_NUM_H
#define BASE_NUM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

bool num_i64(const char *s, size_t n, int64_t *out); /* [+-]digits; false on overflow */
bool num_u64(const char *s, size_t n, uint64_t *out);
bool num_f64(const char *s, size_t n, double *out); /* decimal, finite */

enum { NUM_TEXT = 32 };
/* Returns out.  Not finite: "nan", "inf", "-inf". */
const char *num_format(double v, char out[NUM_TEXT]);

static inline int clamp_int(int x, int lo, int hi)
{
    return x < lo ? lo : x > hi ? hi : x;
}

/* NaN becomes lo. */
static inline int max_int(int a, int b)
{
    return a > b ? a : b;
}

static inline int min_int(int a, int b)
{
    return a < b ? a : b;
}

static inline int64_t max_i64(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

#endif
