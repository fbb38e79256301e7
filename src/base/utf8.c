#include "base/utf8.h"

#include <string.h>

static bool in(unsigned char c, unsigned lo, unsigned hi)
{
    return c >= lo && c <= hi;
}

/* The table of RFC 3629 section 4: only the second byte has special ranges. */
size_t utf8_char(const char *s, size_t n)
{
    const unsigned char *p = (const unsigned char *)s;
    size_t len = p[0] < 0x80 ? 1 : in(p[0], 0xc2, 0xdf) ? 2 : in(p[0], 0xe0, 0xef) ? 3 : in(p[0], 0xf0, 0xf4) ? 4 : 0;
    if (len < 2)
        return len;
    if (len > n)
        return 0;
    unsigned lo = p[0] == 0xe0 ? 0xa0 : p[0] == 0xf0 ? 0x90 : 0x80;
    unsigned hi = p[0] == 0xed ? 0x9f : p[0] == 0xf4 ? 0x8f : 0xbf;
    if (!in(p[1], lo, hi))
        return 0;
    for (size_t i = 2; i < len; i++) {
        if (!in(p[i], 0x80, 0xbf))
            return 0;
    }
    return len;
}

size_t utf8_valid_prefix(const char *s, size_t n)
{
    size_t i = 0;
    while (i < n) {
        size_t len = utf8_char(s + i, n - i);
        if (len == 0)
            break;
        i += len;
    }
    return i;
}

static bool steers(const char *s, size_t len)
{
    const unsigned char *p = (const unsigned char *)s;
    if (len == 1)
        return p[0] < 0x20 || p[0] == 0x7f;
    if (len == 2)
        return p[0] == 0xc2 && p[1] < 0xa0; /* U+0080..9F */
    if (len != 3 || p[0] != 0xe2)
        return false;
    return (p[1] == 0x80 && in(p[2], 0xa8, 0xae)) || (p[1] == 0x81 && in(p[2], 0xa6, 0xa9)); /* U+2028..2E, 2066..69 */
}

bool utf8_is_plain(const char *s, size_t n)
{
    for (size_t i = 0; i < n;) {
        size_t len = utf8_char(s + i, n - i);
        if (len == 0 || steers(s + i, len))
            return false;
        i += len;
    }
    return true;
}

void utf8_make_plain(char *s)
{
    size_t n = strlen(s);
    for (size_t i = 0; i < n;) {
        size_t len = utf8_char(s + i, n - i);
        bool keep = len > 0 && (s[i] == '\n' || s[i] == '\t' || !steers(s + i, len));
        if (!keep)
            memset(s + i, '?', len ? len : 1);
        i += len ? len : 1;
    }
}
