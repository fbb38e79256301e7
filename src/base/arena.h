/* arena.h - one block, many named allocations, released together.
 *
 * For state with one lifetime: a decision tick, a rollout, a model.  Blocks are 64-byte aligned and
 * zeroed.  Outgrowing the arena returns NULL and is remembered (name and size), never a silent malloc.
 * Each allocation costs one 64-byte header.  One owner, one thread. */
#ifndef BASE_ARENA_H
#define BASE_ARENA_H

#include <stdbool.h>
#include <stddef.h>

#include "base/err.h"

struct arena {
    unsigned char *p;
    size_t cap, used;
    size_t high;          /* most bytes ever used */
    const char *missed;   /* name of the first allocation that did not fit, or NULL */
    size_t missed_bytes;
    size_t last;          /* offset of the newest header, for arena_each */
    bool owned;
};

NODISCARD enum err_code arena_init(struct arena *a, size_t cap, struct err *e);
/* On caller's memory, 64-byte aligned. */
void arena_init_at(struct arena *a, void *p, size_t cap);
void arena_fini(struct arena *a);
void arena_reset(struct arena *a); /* everything at once; keeps high and missed */
/* n zeroed objects or NULL.  `name` is kept by pointer: a string literal. */
void *arena_alloc(struct arena *a, const char *name, size_t n, size_t size);
/* ERR_LIMIT naming the allocation that did not fit. */
NODISCARD enum err_code arena_check(const struct arena *a, struct err *e);
/* Bytes arena_alloc(n, size) takes; add them up to size an arena.  SIZE_MAX when it would wrap. */
size_t arena_need(size_t n, size_t size);
/* Calls fn for each allocation, newest first. */
void arena_each(const struct arena *a, void (*fn)(const char *name, size_t bytes, void *arg), void *arg);

#endif
