/* split_priv.h - cuts a list page or a watch stream into single objects while the bytes arrive.
 *
 * Neither is held as a whole: each object is collected as text, without the value of
 * metadata.managedFields (replaced by null; it is a third of a typical pod), and handed over when
 * its last bracket came.  What is collected is capped; the rest is only skipped.  Within an object
 * only brackets and strings are understood: json_parse() judges it. */
#ifndef KUBE_SPLIT_PRIV_H
#define KUBE_SPLIT_PRIV_H

#include <stdbool.h>
#include <stddef.h>

#include "base/buf.h"
#include "base/err.h"

enum split_kind {
    SPLIT_LIST, /* one object: emits "metadata" and each element of "items" */
    SPLIT_WATCH /* objects, each on one line: emits each */
};

/* text is NUL-terminated and valid during the call.  `object` is the span of the Kubernetes object
 * in it: all of an item, the "object" member of an event (NULL when it has none).  Return false to
 * stop. */
typedef bool split_emit(void *ctx, bool is_metadata, const char *text, size_t n, const char *object,
                        size_t n_object);

enum { SPLIT_DEPTH_MAX = 64, SPLIT_KEY_MAX = 16 };
struct splitter {
    enum split_kind kind;
    split_emit *emit;
    void *ctx;
    struct buf text; /* of the object being collected */
    int depth;
    char open[SPLIT_DEPTH_MAX]; /* brackets */
    char key[6][SPLIT_KEY_MAX]; /* the current key of the outer levels, cut */
    bool in_string, escaped, string_is_key;
    size_t n_key;  /* of the key being read */
    bool key_next; /* in an object, before a key */
    bool collecting;
    int base;     /* depth outside what is collected */
    bool cutting; /* inside managedFields */
    int cut_depth;
    size_t object_at, object_n;
    bool has_object;
    bool in_scalar; /* inside a number, true, false or null */
    char scalar[5]; /* its first characters */
    size_t n_scalar;
    bool after_item; /* a list wants a comma or a bracket */
    bool seen_items, seen_metadata, complete, stopped;
    size_t n_bytes;
};

struct splitter split_init(enum split_kind kind, size_t object_cap, split_emit *emit, void *ctx);
void split_fini(struct splitter *s);
void split_reset(struct splitter *s); /* for the next page or stream; keeps memory */
/* Errors: ERR_PARSE, ERR_LIMIT (object over its cap, nesting), ERR_INTERRUPTED when emit said stop.
 */
NODISCARD enum err_code split_feed(struct splitter *s, const char *p, size_t n, struct err *e);
/* The input is over.  ERR_PARSE when it ended inside something, or a list had no items. */
NODISCARD enum err_code split_end(const struct splitter *s, struct err *e);

#endif
