/* scan.h - JSON as tokens, from bytes that arrive in pieces.
 *
 * The caller feeds what came and takes tokens until SCAN_MORE.  Nesting, commas and colons are checked
 * here, so the tokens always make a well-formed document.  A token must fit in the window: the cap on texts
 * and numbers.
 *
 *     scan_feed(s, bytes, n);                      n at most SCAN_FEED_MAX
 *     while ((kind = scan_next(s, &t)) > SCAN_MORE) ...
 *     kind == SCAN_BAD: scan_error() says what and where
 *
 * scan_pair() is a short cut for the one thing that comes by the million, [1435781430.781,"0.25"]. Memory:
 * one block, fixed at scan_new().  Refused: depth over SCAN_DEPTH_MAX, invalid UTF-8, raw control
 * characters, \u0000 and lone surrogates in texts, anything after the document. */
#ifndef PROM_SCAN_H
#define PROM_SCAN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

enum { SCAN_DEPTH_MAX = 64, SCAN_FEED_MAX = 64 * 1024, SCAN_TOKEN_MAX = 64 * 1024 };

enum scan_kind {
    SCAN_BAD,
    SCAN_MORE, /* feed more, or the document has ended: scan_complete() */
    SCAN_OBJECT,
    SCAN_OBJECT_END,
    SCAN_ARRAY,
    SCAN_ARRAY_END,
    SCAN_KEY,
    SCAN_STRING,
    SCAN_NUMBER,
    SCAN_TRUE,
    SCAN_FALSE,
    SCAN_NULL,
};
struct scan_token {
    const char *p; /* KEY, STRING: the text; NUMBER: its digits.  NUL-terminated, valid until the next call */
    size_t n;
};

struct scan;
struct scan *scan_new(void);
void scan_free(struct scan *s); /* NULL is fine */
void scan_reset(struct scan *s);
void scan_feed(struct scan *s, const char *bytes, size_t n);
enum scan_kind scan_next(struct scan *s, struct scan_token *t);
bool scan_complete(const struct scan *s); /* one whole value, nothing half read */
int scan_depth(const struct scan *s);     /* open objects and arrays */
uint64_t scan_offset(const struct scan *s); /* bytes taken */
/* What SCAN_BAD was about; always returns an error. */
NODISCARD enum err_code scan_error(const struct scan *s, struct err *e);

/* Inside an array: takes one element [time in seconds, "number"] if it is wholly there and in the usual
 * form; false takes nothing, and scan_next() then reads or refuses it. */
bool scan_pair(struct scan *s, int64_t *t_us, double *v);

/* Numbers as the API writes them.  NaN, +Inf, -Inf and decimals; false for anything else. */
bool scan_value(const char *p, size_t n, double *v);
/* Seconds with or without decimals, to the nearest microsecond; false past +-9e12 s. */
bool scan_time(const char *p, size_t n, int64_t *t_us);

#endif
