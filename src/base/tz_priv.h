/* tz_priv.h - what a zone holds. */
#ifndef BASE_TZ_PRIV_H
#define BASE_TZ_PRIV_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum tz_rule_kind { TZ_RULE_JULIAN, TZ_RULE_YDAY, TZ_RULE_MONTH }; /* Jn, n, Mm.w.d */

struct tz_rule {
    enum tz_rule_kind kind;
    int day;         /* Jn: 1 .. 365 without 29 February; n: 0 .. 365; M: weekday, 0 Sunday */
    int week, month; /* M: week 1 .. 5 (5 is the last), month 1 .. 12 */
    int32_t time_s;  /* of the local clock, -167 .. 167 h */
};

/* The TZ string of the footer, e.g. "CET-1CEST,M3.5.0,M10.5.0/3". */
struct tz_posix {
    int32_t std_s, dst_s; /* seconds east of UTC */
    bool has_dst;
    struct tz_rule start, end;
};

enum { TZ_TYPES_MAX = 256, TZ_TIMES_MAX = 20000, TZ_OFFSET_MAX_S = 26 * 3600 };

struct tz {
    char *name;
    size_t n;            /* transitions */
    int64_t *at_s;       /* [n] ascending */
    unsigned char *type; /* [n] index into offset_s, valid from at_s[i] on */
    int32_t offset_s[TZ_TYPES_MAX];
    unsigned char first; /* type before the first transition */
    bool has_posix;
    struct tz_posix posix; /* from the last transition on */
};

/* n bytes of a TZ string; false when malformed. */
bool tz_posix_parse(const char *s, size_t n, struct tz_posix *out);

#endif
