/* informer.h - a local copy of one kind of object, kept by list and watch.
 *
 * Lists in pages of 500, then watches with bookmarks from the list's resourceVersion (an opaque
 * string).  A watch that ends, is cut or falls silent is reopened from the last version seen; 410
 * (as a status or in the stream) and a watch silent from its first byte lead to a new list; a
 * continue token that expired starts the list again (the rest of an inconsistent list would hide
 * changes).  A failed attempt waits with exponential backoff and jitter, or Retry-After. Meanwhile
 * the cache stays as it was, and informer_age_us() grows: whoever decides on it must look.
 *
 * Items are cut from the stream one at a time without managedFields, parsed once and projected at
 * once (kube/objects.h); no page is held as a tree.  A new list does not empty the cache: objects
 * that it no longer holds are deleted at its end, with the handler told.
 *
 * Runs inside kube_poll(); no thread of its own.  Handlers must not free the informer. */
#ifndef KUBE_INFORMER_H
#define KUBE_INFORMER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/json.h"
#include "kube/client.h"

/* Head of every cached object.  Read-only for all but the informer; valid until the object is
 * replaced or deleted (handlers get the old one last). */
struct kube_obj {
    const char *ns; /* "" for cluster-scoped; pooled (kube/text.h) */
    const char *name;
    const char *uid;
    const char *version; /* resourceVersion: compare for equality only */
    size_t bytes;        /* of this object, pooled text not counted */
};

/* How JSON becomes a cached object, and back to nothing. */
struct kube_projection {
    /* text is the n bytes of obj, managedFields null.  On success *out has its head filled in. */
    enum err_code (*make)(void *ctx, const struct json *obj, const char *text, size_t n,
                          struct kube_obj **out, struct err *e);
    void (*free)(void *ctx, struct kube_obj *o);
    /* What a new state of an object (same uid) takes over from the one it replaces; NULL: nothing. */
    void (*inherit)(void *ctx, const struct kube_obj *old, struct kube_obj *o);
    void *ctx;
};

struct informer_handler {
    void (*add)(void *ctx, const struct kube_obj *o);
    void (*update)(void *ctx, const struct kube_obj *old, const struct kube_obj *o); /* same uid */
    void (*del)(void *ctx, const struct kube_obj *o); /* last known state */
    void (*synced)(void *ctx);                        /* after the first complete list */
    void *ctx;
};

struct informer_opts {
    struct kube_resource resource;
    const char *ns;                              /* NULL: all */
    const char *label_selector, *field_selector; /* NULL: none; copied */
    struct kube_projection projection;
    struct informer_handler handler; /* any of them NULL: not called */
    int page;                        /* 500 */
    int64_t list_us;                 /* deadline of one page; 60 s */
    int64_t idle_us;                 /* longest silence of a watch; 90 s */
    int64_t watch_us;                /* asked life of a watch; 5 min, up to twice that by jitter */
    int64_t backoff_us, backoff_max_us; /* 250 ms, 30 s */
    size_t object_cap;                  /* bytes of one object; 4 MiB */
    size_t max_objects;                 /* 1,000,000 */
};
struct informer_opts informer_opts_default(void);

enum informer_state { INFORMER_LISTING, INFORMER_WATCHING, INFORMER_WAITING };

struct informer_stats {
    uint64_t lists, watches, restarts; /* begun; restarts: lists begun again for an expired token */
    uint64_t added, updated, deleted, bookmarks, gone, silent, failures;
    int64_t first_sync_us; /* how long it took; -1 not yet */
};

struct informer;
/* Starts with the next kube_poll. */
NODISCARD enum err_code informer_new(struct kube *k, const struct informer_opts *o,
                                     struct informer **out, struct err *e);
void informer_free(
    struct informer *inf); /* cancels its request; no handler is called; NULL is fine */

bool informer_synced(const struct informer *inf);
enum informer_state informer_state(const struct informer *inf);
/* Microseconds of real time since the cache was last known to be whole: a byte of a watch
 * (bookmarks come every 60 s) or a complete list.  INT64_MAX before the first one. */
int64_t informer_age_us(const struct informer *inf);
/* Why the last attempt failed; e->code ERR_OK while all is well.  s may be NULL. */
void informer_failure(const struct informer *inf, struct err *e, struct kube_status *s);
const struct informer_stats *informer_stats(const struct informer *inf);

const struct kube_obj *informer_find(const struct informer *inf, const char *ns, const char *name);
size_t informer_count(const struct informer *inf);
/* for (size_t at = 0; (o = informer_next(inf, &at));)   in no particular order; nothing may be
 * polled meanwhile. */
const struct kube_obj *informer_next(const struct informer *inf, size_t *at);
size_t informer_bytes(const struct informer *inf); /* of the cache: objects and table */
const char *
informer_version(const struct informer *inf); /* last resourceVersion, "" before the first list */
void informer_relist(struct informer *inf);   /* begin a new list as soon as possible */

#endif
