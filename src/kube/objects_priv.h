/* objects_priv.h - inside kube/: reading fields of an object, building its block.
 *
 * A reader remembers the first wrong type, so a projection reads one field after another and looks
 * once at the end. A block is the struct, its arrays and its own texts in one allocation, laid out
 * by a builder in two passes: the first adds up, the second places. */
#ifndef KUBE_OBJECTS_PRIV_H
#define KUBE_OBJECTS_PRIV_H

#include "kube/objects.h"

enum { LABELS_MAX = 1024, DEVICES_MAX = 64, TAINTS_MAX = 256 };

struct reader {
    struct text_pool *pool;
    enum err_code rc;
    struct err *e;
};
/* All give the neutral value ("" , 0, -1, NULL) for a member that is absent or null, and remember a
 * wrong type. */
const char *read_text(struct reader *r, const struct json *obj, const char *key);
bool read_true(struct reader *r, const struct json *obj, const char *key);
int64_t read_int(struct reader *r, const struct json *obj, const char *key, int64_t absent);
int64_t read_time_us(struct reader *r, const struct json *obj, const char *key);
const struct json *read_object(struct reader *r, const struct json *obj, const char *key);
const struct json *read_list(struct reader *r, const struct json *obj, const char *key);
int64_t read_quantity(struct reader *r, const struct json *v, const char *key, int64_t per_one);
void read_fail(struct reader *r, enum err_code code, const char *key, const char *what);

const char *hold(struct reader *r, const char *s); /* a pooled reference */

/* Pooled pairs of metadata.labels, or of metadata.annotations under our prefix; sorted by key. */
struct pairs {
    uint16_t n;
    const struct json *list; /* the object, and whether to filter */
    bool ours_only;
};
struct pairs read_pairs(struct reader *r, const struct json *meta, const char *key, bool ours_only);
void fill_pairs(struct reader *r, const struct pairs *p, struct kube_label *out);
void drop_pairs(struct text_pool *pool, const struct kube_label *p, uint16_t n);

/* Name, uid and version as they come. */
struct meta_texts {
    const char *ns, *name, *uid, *version;
    int64_t created_us, deletion_us;
    const struct json *meta;
};
struct meta_texts read_meta(struct reader *r, const struct json *obj);

/* One allocation of `bytes` plus the head's texts at its end; the head is filled in.  NULL and
 * r->rc when out of memory. */
void *block_new(struct reader *r, const struct meta_texts *m, size_t bytes);

/* Extended resources of a requests or allocatable map that are GPUs, added to a list by name. */
struct devices {
    uint16_t n;
    struct {
        const char *resource; /* borrowed from the JSON */
        int64_t n;
    } of[DEVICES_MAX];
};
void device_add(struct reader *r, struct devices *d, const char *resource, int64_t n);
void device_max(struct reader *r, struct devices *d, const char *resource, int64_t n);
int64_t fill_devices(struct reader *r, const struct devices *d,
                     struct kube_device *out); /* their sum */

#endif
