/* cache_priv.h - the table of an informer: objects by namespace and name.
 *
 * Open addressing with linear probing, at most two thirds full, deletion by shifting back.  Each
 * slot remembers the list that saw it last, so that the end of a list finds what is gone. */
#ifndef KUBE_CACHE_PRIV_H
#define KUBE_CACHE_PRIV_H

#include "kube/informer.h"

struct cache_slot {
    struct kube_obj *obj; /* NULL: empty */
    uint32_t hash, seen;
};
struct cache {
    struct cache_slot *slots;
    size_t n_slots; /* power of two */
    size_t n, bytes;
};

void cache_init(struct cache *c);
void cache_fini(struct cache *c); /* the objects must be gone */
struct kube_obj *cache_find(const struct cache *c, const char *ns, const char *name);
/* Puts o in; the one it replaces, or NULL. */
struct kube_obj *cache_put(struct cache *c, struct kube_obj *o, uint32_t seen);
/* Marks an unchanged object. */
void cache_mark(struct cache *c, const struct kube_obj *o, uint32_t seen);
struct kube_obj *cache_take(struct cache *c, const char *ns,
                            const char *name); /* NULL when absent */
struct kube_obj *cache_take_unseen(struct cache *c, size_t *at,
                                   uint32_t seen); /* one that list `seen` did not hold */
struct kube_obj *cache_next(const struct cache *c, size_t *at);

#endif
