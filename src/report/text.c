/* text.c - one pass over UTF-8 for each use: width, terminal, HTML. */
#include "report/text.h"

#include <stdbool.h>
#include <stdint.h>

static const char replacement[] = "\xef\xbf\xbd"; /* U+FFFD */

/* Decodes one code point; returns its bytes, 0 for an invalid start (then skip one byte). */
static size_t utf8_next(const unsigned char *s, uint32_t *cp)
{
    static const uint32_t least[] = {0, 0, 0x80, 0x800, 0x10000};
    size_t n = s[0] < 0x80 ? 1 : s[0] >= 0xf0 ? 4 : s[0] >= 0xe0 ? 3 : s[0] >= 0xc2 ? 2 : 0;
    if (n == 0 || s[0] > 0xf4)
        return 0;
    *cp = n == 1 ? s[0] : s[0] & (0xffu >> (n + 1));
    for (size_t i = 1; i < n; i++) {
        if ((s[i] & 0xc0) != 0x80) /* also stops at the final NUL */
            return 0;
        *cp = *cp << 6 | (s[i] & 0x3fu);
    }
    if (*cp < least[n] || *cp > 0x10ffff || (*cp >= 0xd800 && *cp < 0xe000))
        return 0;
    return n;
}

static bool is_control(uint32_t cp)
{
    bool bidi = (cp >= 0x202a && cp <= 0x202e) || (cp >= 0x2066 && cp <= 0x2069);
    return cp < 0x20 || (cp >= 0x7f && cp < 0xa0) || cp == 0x2028 || cp == 0x2029 || bidi;
}

static bool is_break(uint32_t cp)
{
    return cp == '\t' || cp == '\n' || cp == '\r';
}

void text_plain(struct buf *out, const char *text)
{
    const unsigned char *s = (const unsigned char *)text;
    while (*s) {
        uint32_t cp = 0;
        size_t n = utf8_next(s, &cp);
        if (n && is_break(cp))
            buf_char(out, ' ');
        else if (n == 0 || is_control(cp))
            buf_str(out, replacement);
        else
            buf_add(out, s, n);
        s += n ? n : 1;
    }
}

/* Ranges by hand: wcwidth() depends on the process's locale. */
static size_t code_point_width(uint32_t cp)
{
    if ((cp >= 0x300 && cp <= 0x36f) || cp == 0x200b || cp == 0x200d ||
        (cp >= 0xfe00 && cp <= 0xfe0f))
        return 0;
    bool wide = (cp >= 0x1100 && cp <= 0x115f) || (cp >= 0x2e80 && cp <= 0xa4cf) ||
                (cp >= 0xac00 && cp <= 0xd7a3) || (cp >= 0xf900 && cp <= 0xfaff) ||
                (cp >= 0xfe30 && cp <= 0xfe6f) || (cp >= 0xff00 && cp <= 0xff60) ||
                (cp >= 0x1f300 && cp <= 0x1f9ff) || (cp >= 0x20000 && cp <= 0x3fffd);
    return wide ? 2 : 1;
}

size_t text_width(const char *text)
{
    const unsigned char *s = (const unsigned char *)text;
    size_t width = 0;
    while (*s) {
        uint32_t cp = 0;
        size_t n = utf8_next(s, &cp);
        width += n ? code_point_width(cp) : 1;
        s += n ? n : 1;
    }
    return width;
}

/* The blank between a number and "%" or "ms", where a line must not break. */
static bool is_unit_blank(const unsigned char *start, const unsigned char *s)
{
    return *s == ' ' && s > start && s[-1] >= '0' && s[-1] <= '9' &&
           (s[1] == '%' || (s[1] == 'm' && s[2] == 's'));
}

void text_html(struct buf *out, const char *text)
{
    const unsigned char *start = (const unsigned char *)text, *s = start;
    while (*s) {
        uint32_t cp = 0;
        size_t n = utf8_next(s, &cp);
        switch (n ? cp : 0) {
        case '&':
            buf_str(out, "&amp;");
            break;
        case '<':
            buf_str(out, "&lt;");
            break;
        case '>':
            buf_str(out, "&gt;");
            break;
        case '"':
            buf_str(out, "&quot;");
            break;
        case '\'':
            buf_str(out, "&#39;");
            break;
        case ' ':
            buf_str(out, is_unit_blank(start, s) ? "&nbsp;" : " ");
            break;
        default:
            if (n == 0 || (is_control(cp) && !is_break(cp)))
                buf_str(out, replacement);
            else
                buf_add(out, s, n);
        }
        s += n ? n : 1;
    }
}
