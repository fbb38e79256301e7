/* buf.h - a growing byte buffer with a hard cap, for text and binary output.
 *
 * The bytes are always followed by a NUL that is not counted, so `b.p` is a C string when the content
 * is text.  Growth doubles; going past the cap (or out of memory) sets `failed` and every later append
 * is a no-op, so a writer may append freely and check once with buf_check().  The first BUF_SMALL bytes are ours
 * rather than sized by outside data, and are had or the program ends (mem.h): a path or a message below that needs no
 * check for memory.  One owner, one thread. */
#ifndef BASE_BUF_H
#define BASE_BUF_H

#include <stdbool.h>
#include <stddef.h>

#include "base/err.h"

enum { BUF_SMALL = 4096 };

struct buf {
    char *p;       /* "" before the first append; NUL-terminated */
    size_t n;      /* bytes used */
    size_t size;   /* bytes allocated */
    size_t cap;    /* most bytes ever held */
    bool failed;   /* an append did not fit */
    bool no_memory; /* failed because memory ran out, not for the cap */
};

struct buf buf_init(size_t cap); /* allocates nothing */
void buf_fini(struct buf *b);    /* safe on a zeroed struct */
void buf_clear(struct buf *b);   /* keeps the memory; clears `failed` */
void buf_add(struct buf *b, const void *bytes, size_t n);
void buf_str(struct buf *b, const char *s);
void buf_char(struct buf *b, char c);
void buf_pad(struct buf *b, char c, size_t n); /* n times c */
void buf_fmt(struct buf *b, const char *fmt, ...) PRINTF_LIKE(2, 3);
/* Room for n more bytes at b->p + b->n, or NULL; the caller adds what it wrote to b->n with buf_grew(). */
void *buf_room(struct buf *b, size_t n);
void buf_grew(struct buf *b, size_t n);
char *buf_take(struct buf *b); /* the bytes, released with mem_free(); the buffer is empty again */
/* Errors: ERR_LIMIT when something did not fit, ERR_NOMEM when memory ran out. */
NODISCARD enum err_code buf_check(const struct buf *b, struct err *e);

#endif
