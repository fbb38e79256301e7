#include "base/mem.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void *must(void *p, size_t n, size_t size)
{
    if (p)
        return p;
    (void)fprintf(stderr, "sluice: out of memory allocating %zu x %zu bytes\n", n, size);
    abort();
}

bool size_mul(size_t a, size_t b, size_t *out)
{
    return !__builtin_mul_overflow(a, b, out);
}

bool size_add(size_t a, size_t b, size_t *out)
{
    return !__builtin_add_overflow(a, b, out);
}

void *try_zero(size_t n, size_t size)
{
    return calloc(n ? n : 1, size ? size : 1);
}

void *try_grow(void *p, size_t n, size_t size)
{
    size_t bytes;
    if (!size_mul(n, size, &bytes))
        return NULL;
    return realloc(p, bytes ? bytes : 1);
}

void *try_zero_aligned(size_t n, size_t size)
{
    size_t bytes;
    if (!size_mul(n, size, &bytes) || !size_add(bytes, MEM_ALIGN, &bytes))
        return NULL;
    bytes -= bytes % MEM_ALIGN;
    void *p = aligned_alloc(MEM_ALIGN, bytes);
    if (p)
        memset(p, 0, bytes);
    return p;
}

void *mem_zero(size_t n, size_t size)
{
    return must(try_zero(n, size), n, size);
}

void *mem_grow(void *p, size_t n, size_t size)
{
    return must(try_grow(p, n, size), n, size);
}

char *mem_strdup(const char *s)
{
    size_t n = strlen(s) + 1;
    char *copy = mem_zero(n, 1);
    memcpy(copy, s, n);
    return copy;
}

void mem_free(void *p)
{
    free(p);
}
