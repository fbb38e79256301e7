#include "base/num.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

bool num_u64(const char *s, size_t n, uint64_t *out)
{
    uint64_t v = 0;
    if (n > 0 && *s == '+') {
        s++;
        n--;
    }
    if (n == 0)
        return false;
    for (size_t i = 0; i < n; i++) {
        if (!is_digit(s[i]) || __builtin_mul_overflow(v, 10, &v) ||
            __builtin_add_overflow(v, (uint64_t)(s[i] - '0'), &v))
            return false;
    }
    *out = v;
    return true;
}

bool num_i64(const char *s, size_t n, int64_t *out)
{
    bool minus = n > 0 && *s == '-';
    if (minus) {
        s++;
        n--;
        if (n > 0 && *s == '+')
            return false;
    }
    uint64_t v;
    if (!num_u64(s, n, &v) || v > (uint64_t)INT64_MAX + minus)
        return false;
    *out = minus ? (int64_t)(0 - v) : (int64_t)v;
    return true;
}

/* [+-] digits [. digits] [e [+-] digits], taken apart. */
struct decimal {
    uint64_t mantissa; /* exact up to 19 digits */
    int digits;        /* significant ones */
    long exp10;
    bool minus;
};

static bool scan_exponent(const char *p, const char *end, long *exp10)
{
    bool minus = false;
    if (p < end && (*p == '+' || *p == '-'))
        minus = *p++ == '-';
    if (p == end)
        return false;
    long v = 0;
    for (; p < end; p++) {
        if (!is_digit(*p))
            return false;
        if (v < 100000)
            v = v * 10 + (*p - '0');
    }
    *exp10 += minus ? -v : v;
    return true;
}

/* Digits from p on into the mantissa, leading zeros not counted.  Past 19 digits the mantissa wraps;
 * `digits` then sends the text to strtod. */
static const char *scan_digits(const char *p, const char *end, struct decimal *d)
{
    uint64_t mantissa = d->mantissa;
    int digits = d->digits;
    for (; p < end && is_digit(*p); p++) {
        mantissa = mantissa * 10 + (uint64_t)(*p - '0');
        digits += (digits > 0) | (*p != '0');
    }
    d->mantissa = mantissa;
    d->digits = digits;
    return p;
}

static bool scan(const char *s, size_t n, struct decimal *d)
{
    const char *p = s, *end = s + n;
    *d = (struct decimal){0};
    if (p < end && (*p == '+' || *p == '-'))
        d->minus = *p++ == '-';
    const char *whole = p;
    p = scan_digits(p, end, d);
    long n_digits = p - whole;
    if (p < end && *p == '.') {
        const char *point = p + 1;
        p = scan_digits(point, end, d);
        d->exp10 = point - p;
        n_digits += p - point;
    }
    if (n_digits == 0)
        return false;
    if (p == end)
        return true;
    return (*p == 'e' || *p == 'E') && scan_exponent(p + 1, end, &d->exp10);
}

static bool slow_f64(const char *s, size_t n, double *out)
{
    char stack[128];
    char *text = n < sizeof stack ? stack : malloc(n + 1);
    if (!text)
        return false;
    memcpy(text, s, n);
    text[n] = '\0';
    double v = strtod(text, NULL); /* scan() has accepted the syntax; the C locale is never changed */
    if (text != stack)
        free(text);
    *out = v;
    return isfinite(v);
}

bool num_f64(const char *s, size_t n, double *out)
{
    static const double pow10[] = {1e0,  1e1,  1e2,  1e3,  1e4,  1e5,  1e6,  1e7,
                                   1e8,  1e9,  1e10, 1e11, 1e12, 1e13, 1e14, 1e15,
                                   1e16, 1e17, 1e18, 1e19, 1e20, 1e21, 1e22};
    struct decimal d;
    if (!scan(s, n, &d))
        return false;
    if (d.digits > 15 || d.exp10 > 22 || d.exp10 < -22)
        return slow_f64(s, n, out);
    /* Both operands are exact doubles, so one correctly rounded operation is exact enough. */
    double v = (double)d.mantissa;
    v = d.exp10 < 0 ? v / pow10[-d.exp10] : v * pow10[d.exp10];
    *out = d.minus ? -v : v;
    return true;
}

const char *num_format(double v, char out[NUM_TEXT])
{
    if (isnan(v))
        return memcpy(out, "nan", sizeof "nan");
    for (int digits = 15; digits <= 17; digits++) {
        (void)snprintf(out, NUM_TEXT, "%.*g", digits, v);
        if (isinf(v) || strtod(out, NULL) == v)
            break;
    }
    return out;
}
