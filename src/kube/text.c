/* text.c - a chained hash table of counted strings.
 *
 * A text is one block: header and bytes, so its header is found from the pointer the user holds.
 * The table doubles when it holds more texts than chains and never shrinks: its peak is what the
 * cluster once needed. */
#include "kube/text.h"

#include <string.h>

#include "base/err.h"
#include "base/hash.h"
#include "base/mem.h"

struct text {
    struct text *next;
    uint32_t hash, refs;
    size_t n;
    char s[];
};

struct text_pool {
    struct text **chains;
    size_t n_chains; /* power of two */
    size_t n, bytes;
};

static struct text *of(const char *held)
{
    char *p;
    memcpy(&p, &held, sizeof p); /* the pool owns what it hands out as const */
    return (struct text *)(void *)(p - offsetof(struct text, s));
}

struct text_pool *text_pool_new(void)
{
    struct text_pool *p = mem_zero(1, sizeof *p);
    p->n_chains = 256;
    p->chains = mem_zero(p->n_chains, sizeof *p->chains);
    return p;
}

void text_pool_free(struct text_pool *p)
{
    if (!p)
        return;
    ASSERT(p->n == 0);
    mem_free(p->chains);
    mem_free(p);
}

static struct text *find(const struct text_pool *p, const char *s, size_t n, uint32_t hash)
{
    struct text *t = p->chains[hash & (p->n_chains - 1)];
    while (t && (t->hash != hash || t->n != n || memcmp(t->s, s, n) != 0))
        t = t->next;
    return t;
}

static void grow(struct text_pool *p)
{
    size_t n_chains = p->n_chains * 2;
    struct text **chains = mem_zero(n_chains, sizeof *chains);
    for (size_t i = 0; i < p->n_chains; i++) {
        for (struct text *t = p->chains[i], *next; t; t = next) {
            next = t->next;
            t->next = chains[t->hash & (n_chains - 1)];
            chains[t->hash & (n_chains - 1)] = t;
        }
    }
    mem_free(p->chains);
    p->chains = chains;
    p->n_chains = n_chains;
}

const char *text_hold(struct text_pool *p, const char *s, size_t n)
{
    uint32_t hash = (uint32_t)hash_of(s, n);
    struct text *t = find(p, s, n, hash);
    if (t) {
        t->refs++;
        return t->s;
    }
    if (p->n == p->n_chains)
        grow(p);
    t = mem_zero(1, sizeof *t + n + 1);
    memcpy(t->s, s, n);
    t->n = n;
    t->hash = hash;
    t->refs = 1;
    t->next = p->chains[hash & (p->n_chains - 1)];
    p->chains[hash & (p->n_chains - 1)] = t;
    p->n++;
    p->bytes += sizeof *t + n + 1;
    return t->s;
}

const char *text_share(const char *held)
{
    of(held)->refs++;
    return held;
}

void text_drop(struct text_pool *p, const char *held)
{
    if (!held)
        return;
    struct text *t = of(held);
    ASSERT(t->refs > 0);
    if (--t->refs)
        return;
    struct text **link = &p->chains[t->hash & (p->n_chains - 1)];
    while (*link != t)
        link = &(*link)->next;
    *link = t->next;
    p->n--;
    p->bytes -= sizeof *t + t->n + 1;
    mem_free(t);
}

const char *text_find(const struct text_pool *p, const char *s)
{
    size_t n = strlen(s);
    const struct text *t = find(p, s, n, (uint32_t)hash_of(s, n));
    return t ? t->s : NULL;
}

size_t text_count(const struct text_pool *p)
{
    return p->n;
}

size_t text_bytes(const struct text_pool *p)
{
    return p->bytes + p->n_chains * sizeof *p->chains;
}
