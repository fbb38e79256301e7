/* quantity.c - exact integer arithmetic; a double would lose the last bytes of a large memory size.
 *
 * value = digits * 10^ten * 2^two, computed in 128 bits.  A quantity smaller than one part is
 * rounded up, as Quantity.Value() and MilliValue() do, so a request of "1n" CPU counts as 1 milli.
 */
#include "kube/quantity.h"

#include <stdbool.h>
#include <string.h>

#include "base/mem.h"

enum { DIGITS_MAX = 19, EXPONENT_MAX = 40 };

__extension__ typedef unsigned __int128 wide;

struct number {
    bool negative;
    uint64_t digits;
    int ten, two;
    bool rest; /* digits that did not fit follow */
};

static bool read_digits(const char **s, struct number *n)
{
    int n_kept = 0, n_seen = 0;
    bool point = false;
    for (; (**s >= '0' && **s <= '9') || (**s == '.' && !point); (*s)++) {
        if (**s == '.') {
            point = true;
            continue;
        }
        n_seen++;
        if (n_kept < DIGITS_MAX) {
            n->digits = n->digits * 10 + (uint64_t)(**s - '0');
            n_kept += n->digits > 0;
            n->ten -= point;
        } else {
            n->rest = n->rest || **s != '0';
            n->ten += !point;
        }
    }
    return n_seen > 0;
}

static bool read_exponent(const char *s, struct number *n)
{
    int v = 0, sign = *s == '-' ? -1 : 1;
    if (*s == '-' || *s == '+')
        s++;
    if (*s < '0' || *s > '9')
        return false;
    for (; *s >= '0' && *s <= '9'; s++)
        v = v < 1000 ? v * 10 + (*s - '0') : v;
    n->ten += sign * v;
    return *s == '\0';
}

static bool read_suffix(const char *s, struct number *n)
{
    static const struct {
        const char *suffix;
        int ten, two;
    } rows[] = {{"", 0, 0},    {"m", -3, 0},  {"u", -6, 0},  {"n", -9, 0},
                {"k", 3, 0},   {"M", 6, 0},   {"G", 9, 0},   {"T", 12, 0},
                {"P", 15, 0},  {"E", 18, 0},  {"Ki", 0, 10}, {"Mi", 0, 20},
                {"Gi", 0, 30}, {"Ti", 0, 40}, {"Pi", 0, 50}, {"Ei", 0, 60}};
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        if (strcmp(s, rows[i].suffix) == 0) {
            n->ten += rows[i].ten;
            n->two = rows[i].two;
            return true;
        }
    }
    return (*s == 'e' || *s == 'E') && read_exponent(s + 1, n);
}

/* base * 10^n; false when it does not fit. */
static bool times_ten(wide base, int n, wide *out)
{
    *out = base;
    for (int i = 0; i < n; i++) {
        if (__builtin_mul_overflow(*out, (wide)10, out))
            return false;
    }
    return true;
}

/* |value| in parts, rounded up; false beyond int64. */
static bool scale(const struct number *n, int64_t per_one, int64_t *out)
{
    wide parts, divisor;
    *out = 0;
    if (n->digits == 0)
        return true;
    if (n->ten > EXPONENT_MAX ||
        __builtin_mul_overflow((wide)n->digits << n->two, (wide)per_one, &parts))
        return false;
    if (n->ten >= 0) {
        divisor = 1;
        if (!times_ten(parts, n->ten, &parts))
            return false;
    } else if (n->ten < -EXPONENT_MAX || !times_ten(1, -n->ten, &divisor)) {
        *out = 1; /* parts is below 10^39: less than one */
        return true;
    }
    wide whole = parts / divisor + (parts % divisor != 0 || n->rest);
    *out = (int64_t)whole;
    return whole <= (wide)INT64_MAX;
}

enum err_code quantity_parse(const char *s, int64_t per_one, int64_t *out, struct err *e)
{
    struct number n = {0};
    const char *at = s;
    if (*at == '+' || *at == '-')
        n.negative = *at++ == '-';
    if (!read_digits(&at, &n) || !read_suffix(at, &n))
        return err_set(e, ERR_PARSE, "\"%.40s\" is not a quantity like 500m, 2 or 16Gi", s);
    if (!scale(&n, per_one, out))
        return err_set(e, ERR_RANGE, "quantity \"%.40s\" is too large", s);
    if (n.negative)
        *out = -*out;
    return ERR_OK;
}
