/* mem.h - allocation that cannot fail, allocation that can, and size arithmetic that cannot wrap.
 *
 * mem_*   : small, fixed-size needs of our own; running out aborts with a message.
 * try_*   : sizes that come from outside data; NULL on failure or overflow, the caller reports it.
 * Blocks from mem_alloc_aligned are 64-byte aligned and zeroed; all are released with mem_free(). */
#ifndef BASE_MEM_H
#define BASE_MEM_H

#include <stdbool.h>
#include <stddef.h>

#define MEM_ALIGN 64

void *mem_zero(size_t n, size_t size);  /* n zeroed objects; aborts when out of memory */
void *mem_grow(void *p, size_t n, size_t size); /* realloc to n objects; aborts */
char *mem_strdup(const char *s);
void *try_zero(size_t n, size_t size);  /* n zeroed objects or NULL */
void *try_grow(void *p, size_t n, size_t size); /* realloc or NULL, p stays valid then */
void *try_zero_aligned(size_t n, size_t size); /* 64-byte aligned, zeroed, or NULL */
void mem_free(void *p); /* any of the above; NULL is fine */

/* *out = a*b or a+b; false when it would wrap. */
bool size_mul(size_t a, size_t b, size_t *out);
bool size_add(size_t a, size_t b, size_t *out);

#define ARRAY_LEN(a) (sizeof(a) / sizeof((a)[0]))

#endif
