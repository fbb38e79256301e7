/* utf8.h - is this text UTF-8?  (RFC 3629: no overlong forms, no surrogates, at most U+10FFFF.) */
#ifndef BASE_UTF8_H
#define BASE_UTF8_H

#include <stdbool.h>
#include <stddef.h>

/* Bytes of the well-formed character at s (1 .. 4), or 0.  n > 0. */
size_t utf8_char(const char *s, size_t n);
/* Offset of the first byte that is not part of a well-formed character, or n. */
size_t utf8_valid_prefix(const char *s, size_t n);
/* Well-formed, without characters that steer a terminal or reorder text: C0 and C1 controls, DEL, line and
 * paragraph separators, directional overrides. */
bool utf8_is_plain(const char *s, size_t n);
/* Replaces what is not plain by '?' in place, byte by byte; line breaks and tabs stay. */
void utf8_make_plain(char *s);

#endif
