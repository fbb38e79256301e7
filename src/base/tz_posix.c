/* tz_posix.c - the TZ string: POSIX.1-2017 section 8.3 with the extended hours of RFC 8536 3.3.1.
 *
 *     std offset [dst [offset] [, start [/time] , end [/time]]]
 * A name is three or more letters, or <...>.  Offsets count west of Greenwich, so the sign turns. */
#include <string.h>

#include "base/tz_priv.h"

struct cursor {
    const char *p, *end;
};

static bool skip(struct cursor *c, char want)
{
    if (c->p == c->end || *c->p != want)
        return false;
    c->p++;
    return true;
}

static bool is_letter(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

static bool skip_name(struct cursor *c)
{
    const char *start = c->p;
    if (skip(c, '<')) {
        while (c->p < c->end && *c->p != '>')
            c->p++;
        return skip(c, '>');
    }
    while (c->p < c->end && is_letter(*c->p))
        c->p++;
    return c->p - start >= 3;
}

static bool number(struct cursor *c, int max, int *out)
{
    const char *start = c->p;
    int v = 0;
    while (c->p < c->end && *c->p >= '0' && *c->p <= '9' && v <= max)
        v = v * 10 + (*c->p++ - '0');
    *out = v;
    return c->p > start && v <= max;
}

/* [+-]hh[:mm[:ss]] in seconds. */
static bool clock_time(struct cursor *c, int max_h, int32_t *out)
{
    int h, m = 0, s = 0;
    bool minus = skip(c, '-');
    if (!minus)
        (void)skip(c, '+');
    if (!number(c, max_h, &h))
        return false;
    if (skip(c, ':') && !number(c, 59, &m))
        return false;
    if (c->p < c->end && *c->p == ':' && (c->p++, !number(c, 59, &s)))
        return false;
    int32_t v = h * 3600 + m * 60 + s;
    *out = minus ? -v : v;
    return true;
}

static bool rule(struct cursor *c, struct tz_rule *r)
{
    *r = (struct tz_rule){.time_s = 2 * 3600};
    bool ok;
    if (skip(c, 'M')) {
        r->kind = TZ_RULE_MONTH;
        ok = number(c, 12, &r->month) && r->month >= 1 && skip(c, '.') && number(c, 5, &r->week) &&
             r->week >= 1 && skip(c, '.') && number(c, 6, &r->day);
    } else if (skip(c, 'J')) {
        r->kind = TZ_RULE_JULIAN;
        ok = number(c, 365, &r->day) && r->day >= 1;
    } else {
        r->kind = TZ_RULE_YDAY;
        ok = number(c, 365, &r->day);
    }
    return ok && (!skip(c, '/') || clock_time(c, 167, &r->time_s));
}

bool tz_posix_parse(const char *s, size_t n, struct tz_posix *out)
{
    struct cursor c = {.p = s, .end = s + n};
    int32_t west;
    *out = (struct tz_posix){0};
    if (!skip_name(&c) || !clock_time(&c, 24, &west))
        return false;
    out->std_s = -west;
    if (c.p == c.end)
        return true;
    out->has_dst = true;
    out->dst_s = out->std_s + 3600;
    if (!skip_name(&c))
        return false;
    if (c.p < c.end && *c.p != ',') {
        if (!clock_time(&c, 24, &west))
            return false;
        out->dst_s = -west;
    }
    return skip(&c, ',') && rule(&c, &out->start) && skip(&c, ',') && rule(&c, &out->end) && c.p == c.end;
}
