#include "base/mem.h"

#include <stdint.h>
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

/* n * size, at least 1; false for what no allocator gives (nor accepts without complaint). */
static bool total(size_t n, size_t size, size_t *bytes)
{
    if (!size_mul(n, size, bytes) || *bytes > PTRDIFF_MAX - MEM_ALIGN)
        return false;
    *bytes += *bytes == 0;
    return true;
}

void *try_zero(size_t n, size_t size)
{
    size_t bytes;
    return total(n, size, &bytes) ? calloc(1, bytes) : NULL;
}

void *try_grow(void *p, size_t n, size_t size)
{
    size_t bytes;
    return total(n, size, &bytes) ? realloc(p, bytes) : NULL;
}

void *try_zero_aligned(size_t n, size_t size)
{
    size_t bytes;
    if (!total(n, size, &bytes))
        return NULL;
    bytes += MEM_ALIGN - 1;
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
