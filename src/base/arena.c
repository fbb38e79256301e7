#include "base/arena.h"

#include <assert.h>
#include <stdint.h>
#include <string.h>

#include "base/mem.h"

struct header {
    const char *name;
    size_t bytes; /* asked for */
    size_t prev;  /* offset of the header before this one, NONE for the first */
};

#define NONE SIZE_MAX

static_assert(sizeof(struct header) <= MEM_ALIGN, "a header takes one aligned slot");

enum err_code arena_init(struct arena *a, size_t cap, struct err *e)
{
    *a = (struct arena){.last = NONE};
    void *p = cap == NONE ? NULL : try_zero_aligned(cap, 1);
    if (!p)
        return err_set(e, ERR_NOMEM, "arena of %zu bytes", cap);
    arena_init_at(a, p, cap);
    a->owned = true;
    return ERR_OK;
}

void arena_init_at(struct arena *a, void *p, size_t cap)
{
    ASSERT((uintptr_t)p % MEM_ALIGN == 0);
    *a = (struct arena){.p = p, .cap = cap, .last = NONE};
}

void arena_fini(struct arena *a)
{
    if (a->owned)
        mem_free(a->p);
    *a = (struct arena){.last = NONE};
}

void arena_reset(struct arena *a)
{
    a->used = 0;
    a->last = NONE;
}

size_t arena_need(size_t n, size_t size)
{
    size_t bytes;
    if (!size_mul(n, size, &bytes) || !size_add(bytes, 2 * MEM_ALIGN - 1, &bytes))
        return SIZE_MAX;
    return bytes - bytes % MEM_ALIGN;
}

void *arena_alloc(struct arena *a, const char *name, size_t n, size_t size)
{
    size_t need = arena_need(n, size);
    if (need > a->cap - a->used) {
        if (!a->missed) {
            a->missed = name;
            a->missed_bytes = need;
        }
        return NULL;
    }
    struct header *h = (struct header *)(void *)(a->p + a->used);
    *h = (struct header){.name = name, .bytes = n * size, .prev = a->last};
    void *p = a->p + a->used + MEM_ALIGN;
    memset(p, 0, need - MEM_ALIGN);
    a->last = a->used;
    a->used += need;
    if (a->used > a->high)
        a->high = a->used;
    return p;
}

enum err_code arena_check(const struct arena *a, struct err *e)
{
    if (!a->missed)
        return ERR_OK;
    return err_set(e, ERR_LIMIT, "arena of %zu bytes: no room for %s (%zu bytes)", a->cap, a->missed,
                   a->missed_bytes);
}

void arena_each(const struct arena *a, void (*fn)(const char *name, size_t bytes, void *arg), void *arg)
{
    for (size_t at = a->last; at != NONE;) {
        const struct header *h = (const struct header *)(const void *)(a->p + at);
        fn(h->name, h->bytes, arg);
        at = h->prev;
    }
}
