#include "kube/cache_priv.h"

#include <string.h>

#include "base/hash.h"
#include "base/mem.h"

void cache_init(struct cache *c)
{
    *c = (struct cache){.n_slots = 64};
    c->slots = mem_zero(c->n_slots, sizeof *c->slots);
}

void cache_fini(struct cache *c)
{
    ASSERT(c->n == 0);
    mem_free(c->slots);
}

static uint32_t hash_name(const char *ns, const char *name)
{
    struct hash h = hash_init(0);
    hash_str(&h, ns);
    hash_str(&h, name);
    return (uint32_t)hash_value(&h);
}

static size_t slot_of(const struct cache *c, const char *ns, const char *name, uint32_t hash)
{
    size_t i = hash & (c->n_slots - 1);
    for (const struct cache_slot *s; (s = &c->slots[i])->obj; i = (i + 1) & (c->n_slots - 1)) {
        if (s->hash == hash && strcmp(s->obj->name, name) == 0 && strcmp(s->obj->ns, ns) == 0)
            break;
    }
    return i;
}

static void grow(struct cache *c)
{
    struct cache old = *c;
    c->n_slots *= 2;
    c->slots = mem_zero(c->n_slots, sizeof *c->slots);
    for (size_t i = 0; i < old.n_slots; i++) {
        if (!old.slots[i].obj)
            continue;
        size_t j = old.slots[i].hash & (c->n_slots - 1);
        while (c->slots[j].obj)
            j = (j + 1) & (c->n_slots - 1);
        c->slots[j] = old.slots[i];
    }
    mem_free(old.slots);
}

struct kube_obj *cache_find(const struct cache *c, const char *ns, const char *name)
{
    return c->slots[slot_of(c, ns, name, hash_name(ns, name))].obj;
}

struct kube_obj *cache_put(struct cache *c, struct kube_obj *o, uint32_t seen)
{
    if ((c->n + 1) * 3 > c->n_slots * 2)
        grow(c);
    uint32_t hash = hash_name(o->ns, o->name);
    struct cache_slot *s = &c->slots[slot_of(c, o->ns, o->name, hash)];
    struct kube_obj *old = s->obj;
    *s = (struct cache_slot){.obj = o, .hash = hash, .seen = seen};
    c->n += old == NULL;
    c->bytes += o->bytes - (old ? old->bytes : 0);
    return old;
}

void cache_mark(struct cache *c, const struct kube_obj *o, uint32_t seen)
{
    c->slots[slot_of(c, o->ns, o->name, hash_name(o->ns, o->name))].seen = seen;
}

/* Empties slot i and moves back what probed past it. */
static struct kube_obj *take_slot(struct cache *c, size_t i)
{
    struct kube_obj *o = c->slots[i].obj;
    size_t mask = c->n_slots - 1;
    c->n--;
    c->bytes -= o->bytes;
    for (size_t j = (i + 1) & mask; c->slots[j].obj; j = (j + 1) & mask) {
        size_t home = c->slots[j].hash & mask;
        if (((j - home) & mask) >= ((j - i) & mask)) { /* its probe path crosses i */
            c->slots[i] = c->slots[j];
            i = j;
        }
    }
    c->slots[i].obj = NULL;
    return o;
}

struct kube_obj *cache_take(struct cache *c, const char *ns, const char *name)
{
    size_t i = slot_of(c, ns, name, hash_name(ns, name));
    return c->slots[i].obj ? take_slot(c, i) : NULL;
}

struct kube_obj *cache_take_unseen(struct cache *c, size_t *at, uint32_t seen)
{
    for (; *at < c->n_slots; (*at)++) {
        if (c->slots[*at].obj && c->slots[*at].seen != seen)
            return take_slot(c, *at); /* another may have moved here: look again */
    }
    return NULL;
}

struct kube_obj *cache_next(const struct cache *c, size_t *at)
{
    while (*at < c->n_slots) {
        struct kube_obj *o = c->slots[(*at)++].obj;
        if (o)
            return o;
    }
    return NULL;
}
