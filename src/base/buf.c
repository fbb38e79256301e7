#include "base/buf.h"

#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "base/mem.h"

static char empty_text[1]; /* what b.p shows before anything is stored; never written */

struct buf buf_init(size_t cap)
{
    return (struct buf){.p = empty_text, .cap = cap};
}

void buf_fini(struct buf *b)
{
    if (b->size)
        mem_free(b->p);
    *b = buf_init(b->cap);
}

void buf_clear(struct buf *b)
{
    b->n = 0;
    b->failed = b->no_memory = false;
    if (b->size)
        b->p[0] = '\0';
}

void *buf_room(struct buf *b, size_t n)
{
    size_t need;
    if (b->failed || !size_add(b->n, n, &need) || need > b->cap || need == SIZE_MAX) {
        b->failed = true;
        return NULL;
    }
    if (need + 1 > b->size) {
        size_t size = b->size < 64 ? 64 : b->size;
        while (size < need + 1)
            size = size > SIZE_MAX / 2 ? need + 1 : size * 2;
        char *old = b->size ? b->p : NULL, *p = size <= BUF_SMALL ? mem_grow(old, size, 1) : try_grow(old, size, 1);
        if (!p) {
            b->failed = b->no_memory = true;
            return NULL;
        }
        b->p = p;
        b->size = size;
    }
    return b->p + b->n;
}

void buf_grew(struct buf *b, size_t n)
{
    ASSERT(b->n + n < b->size);
    b->n += n;
    b->p[b->n] = '\0';
}

void buf_add(struct buf *b, const void *bytes, size_t n)
{
    char *at = buf_room(b, n);
    if (!at)
        return;
    if (n)
        memcpy(at, bytes, n);
    buf_grew(b, n);
}

void buf_str(struct buf *b, const char *s)
{
    buf_add(b, s, strlen(s));
}

void buf_char(struct buf *b, char c)
{
    buf_add(b, &c, 1);
}

void buf_pad(struct buf *b, char c, size_t n)
{
    char *at = buf_room(b, n);
    if (!at)
        return;
    memset(at, c, n);
    buf_grew(b, n);
}

void buf_fmt(struct buf *b, const char *fmt, ...)
{
    va_list ap;
    char small[256];
    va_start(ap, fmt);
    int n = vsnprintf(small, sizeof small, fmt, ap);
    va_end(ap);
    if (n < 0) {
        b->failed = true;
        return;
    }
    if ((size_t)n < sizeof small) {
        buf_add(b, small, (size_t)n);
        return;
    }
    char *at = buf_room(b, (size_t)n);
    if (!at)
        return;
    va_start(ap, fmt);
    (void)vsnprintf(at, (size_t)n + 1, fmt, ap);
    va_end(ap);
    buf_grew(b, (size_t)n);
}

char *buf_take(struct buf *b)
{
    char *p = b->size ? b->p : mem_zero(1, 1);
    *b = buf_init(b->cap);
    return p;
}

enum err_code buf_check(const struct buf *b, struct err *e)
{
    if (!b->failed)
        return ERR_OK;
    if (b->no_memory)
        return err_set(e, ERR_NOMEM, "out of memory after %zu bytes", b->n);
    return err_set(e, ERR_LIMIT, "output of more than %zu bytes", b->cap);
}
