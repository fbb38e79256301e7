/* text.h - shared strings with a count: the names, labels and reasons of a hundred thousand pods.
 *
 * Equal text is the same pointer within one pool, so labels compare by address.  Each user holds a
 * reference and drops it; the last one frees the text.  base/intern.h never forgets, which a daemon
 * that sees job names and controller ids come and go for weeks cannot afford.  One thread. */
#ifndef KUBE_TEXT_H
#define KUBE_TEXT_H

#include <stddef.h>
#include <stdint.h>

struct text_pool;
struct text_pool *text_pool_new(void);
void text_pool_free(struct text_pool *p); /* NULL is fine; every reference must be dropped before */

/* The pool's copy of n bytes, NUL-terminated, with one reference for the caller.  "" is a text like
 * any other. */
const char *text_hold(struct text_pool *p, const char *s, size_t n);
const char *text_share(const char *held);              /* one more reference */
void text_drop(struct text_pool *p, const char *held); /* NULL is fine */
const char *text_find(const struct text_pool *p,
                      const char *s); /* NULL when nobody holds it; no reference */
size_t text_count(const struct text_pool *p);
size_t text_bytes(const struct text_pool *p);

#endif
