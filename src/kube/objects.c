/* objects.c - what all projections share, and the raw one. */
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/tz.h"
#include "kube/objects_priv.h"
#include "kube/quantity.h"

#define OUR_PREFIX "sluice.dev/"

/* ---- reading ----------------------------------------------------------------------------- */

void read_fail(struct reader *r, enum err_code code, const char *key, const char *what)
{
    if (!r->rc)
        r->rc = err_set(r->e, code, "%.100s: %.200s", key, what);
}

static const struct json *member(const struct json *obj, const char *key)
{
    const struct json *v = obj ? json_find(obj, key) : NULL;
    return json_is_null(v) ? NULL : v;
}

const char *read_text(struct reader *r, const struct json *obj, const char *key)
{
    const struct json *v = member(obj, key);
    const char *s = v ? json_text(v) : "";
    if (!s)
        read_fail(r, ERR_PARSE, key, "expected a string");
    return s ? s : "";
}

bool read_true(struct reader *r, const struct json *obj, const char *key)
{
    const struct json *v = member(obj, key);
    if (v && !json_is_bool(v))
        read_fail(r, ERR_PARSE, key, "expected true or false");
    return json_is_true(v);
}

int64_t read_int(struct reader *r, const struct json *obj, const char *key, int64_t absent)
{
    const struct json *v = member(obj, key);
    if (!v)
        return absent;
    double x = json_number(v);
    if (!(x >= -0x1p53 && x <= 0x1p53) || x != (double)(int64_t)x) {
        read_fail(r, ERR_PARSE, key, "expected an integer");
        return absent;
    }
    return (int64_t)x;
}

int64_t read_time_us(struct reader *r, const struct json *obj, const char *key)
{
    const char *s = read_text(r, obj, key);
    int64_t us = -1;
    if (*s && tz_parse_rfc3339(s, strlen(s), &us, NULL)) {
        read_fail(r, ERR_PARSE, key, "expected a time like 2026-01-31T12:00:00Z");
        us = -1;
    }
    return us;
}

const struct json *read_object(struct reader *r, const struct json *obj, const char *key)
{
    const struct json *v = member(obj, key);
    if (v && !json_is_object(v)) {
        read_fail(r, ERR_PARSE, key, "expected an object");
        return NULL;
    }
    return v;
}

const struct json *read_list(struct reader *r, const struct json *obj, const char *key)
{
    const struct json *v = member(obj, key);
    if (v && !json_is_array(v)) {
        read_fail(r, ERR_PARSE, key, "expected a list");
        return NULL;
    }
    return v;
}

/* Quantities may also be plain numbers. */
int64_t read_quantity(struct reader *r, const struct json *v, const char *key, int64_t per_one)
{
    struct err e;
    int64_t out = 0;
    if (json_is_number(v)) {
        double x = json_number(v) * (double)per_one;
        if (!(x >= -0x1p53 && x <= 0x1p53))
            read_fail(r, ERR_RANGE, key, "quantity is too large");
        else
            out = (int64_t)x + ((double)(int64_t)x < x);
    } else if (!json_is_string(v)) {
        read_fail(r, ERR_PARSE, key, "expected a quantity");
    } else if (quantity_parse(json_text(v), per_one, &out, &e)) {
        read_fail(r, e.code, key, e.msg);
        out = 0;
    }
    return out;
}

const char *hold(struct reader *r, const char *s)
{
    return text_hold(r->pool, s, strlen(s));
}

/* ---- labels and annotations -------------------------------------------------------------- */

static bool wanted(const struct pairs *p, const struct json *v)
{
    return !p->ours_only || strncmp(json_key(v), OUR_PREFIX, strlen(OUR_PREFIX)) == 0;
}

struct pairs read_pairs(struct reader *r, const struct json *meta, const char *key, bool ours_only)
{
    struct pairs p = {.list = read_object(r, meta, key), .ours_only = ours_only};
    size_t n = 0;
    for (const struct json *v = p.list ? json_first(p.list) : NULL; v; v = json_next(v)) {
        if (!wanted(&p, v))
            continue;
        if (!json_is_string(v))
            read_fail(r, ERR_PARSE, key, "expected strings");
        n++;
    }
    if (n > LABELS_MAX)
        read_fail(r, ERR_LIMIT, key, "too many");
    p.n = (uint16_t)(n > LABELS_MAX ? 0 : n);
    return p;
}

static int by_key(const void *a, const void *b)
{
    const struct kube_label *x = a, *y = b;
    return strcmp(x->key, y->key);
}

void fill_pairs(struct reader *r, const struct pairs *p, struct kube_label *out)
{
    size_t n = 0;
    for (const struct json *v = p->n ? json_first(p->list) : NULL; v; v = json_next(v)) {
        if (wanted(p, v))
            out[n++] =
                (struct kube_label){.key = hold(r, json_key(v)), .value = hold(r, json_text(v))};
    }
    if (n)
        qsort(out, n, sizeof *out, by_key);
}

void drop_pairs(struct text_pool *pool, const struct kube_label *p, uint16_t n)
{
    for (size_t i = 0; i < n; i++) {
        text_drop(pool, p[i].key);
        text_drop(pool, p[i].value);
    }
}

const char *kube_label_find(const struct kube_label *labels, size_t n, const char *key)
{
    for (size_t i = 0; i < n; i++) {
        if (strcmp(labels[i].key, key) == 0)
            return labels[i].value;
    }
    return NULL;
}

/* ---- the head ---------------------------------------------------------------------------- */

struct meta_texts read_meta(struct reader *r, const struct json *obj)
{
    const struct json *meta = read_object(r, obj, "metadata");
    struct meta_texts m = {.meta = meta,
                           .ns = read_text(r, meta, "namespace"),
                           .name = read_text(r, meta, "name"),
                           .uid = read_text(r, meta, "uid"),
                           .version = read_text(r, meta, "resourceVersion"),
                           .created_us = read_time_us(r, meta, "creationTimestamp"),
                           .deletion_us = read_time_us(r, meta, "deletionTimestamp")};
    if (!*m.name)
        read_fail(r, ERR_PARSE, "metadata.name", "is missing");
    if (!*m.version)
        read_fail(r, ERR_PARSE, "metadata.resourceVersion", "is missing");
    return m;
}

static const char *place(char **at, const char *s)
{
    size_t n = strlen(s) + 1;
    char *to = *at;
    memcpy(to, s, n);
    *at += n;
    return to;
}

void *block_new(struct reader *r, const struct meta_texts *m, size_t bytes)
{
    size_t all = bytes + strlen(m->name) + strlen(m->uid) + strlen(m->version) + 3;
    struct kube_obj *o = try_zero(1, all);
    if (!o) {
        r->rc = err_set(r->e, ERR_NOMEM, "object of %zu bytes", all);
        return NULL;
    }
    char *at = (char *)o + bytes;
    o->name = place(&at, m->name);
    o->uid = place(&at, m->uid);
    o->version = place(&at, m->version);
    o->ns = hold(r, m->ns);
    o->bytes = all;
    return o;
}

/* ---- devices ----------------------------------------------------------------------------- */

bool kube_is_gpu(const char *resource)
{
    const char *slash = strchr(resource, '/');
    if (!slash)
        return false;
    return strcmp(slash, "/gpu") == 0 || strncmp(slash, "/mig-", 5) == 0 ||
           strncmp(resource, "gpu.", 4) == 0;
}

static size_t device_slot(struct reader *r, struct devices *d, const char *resource)
{
    size_t i = 0;
    while (i < d->n && strcmp(d->of[i].resource, resource) != 0)
        i++;
    if (i == DEVICES_MAX) {
        read_fail(r, ERR_LIMIT, resource, "too many different devices");
        return 0;
    }
    if (i == d->n) {
        d->of[i].resource = resource;
        d->of[i].n = 0;
        d->n++;
    }
    return i;
}

void device_add(struct reader *r, struct devices *d, const char *resource, int64_t n)
{
    size_t i = device_slot(r, d, resource);
    if (__builtin_add_overflow(d->of[i].n, n, &d->of[i].n))
        read_fail(r, ERR_RANGE, resource, "sum is too large");
}

void device_max(struct reader *r, struct devices *d, const char *resource, int64_t n)
{
    size_t i = device_slot(r, d, resource);
    d->of[i].n = n > d->of[i].n ? n : d->of[i].n;
}

int64_t fill_devices(struct reader *r, const struct devices *d, struct kube_device *out)
{
    int64_t sum = 0;
    for (size_t i = 0; i < d->n; i++) {
        out[i] = (struct kube_device){.resource = hold(r, d->of[i].resource), .n = d->of[i].n};
        if (__builtin_add_overflow(sum, d->of[i].n, &sum))
            read_fail(r, ERR_RANGE, d->of[i].resource, "sum is too large");
    }
    return sum;
}

/* ---- anything else ----------------------------------------------------------------------- */

static void raw_free(void *ctx, struct kube_obj *o)
{
    struct kube_raw *x = (struct kube_raw *)(void *)o;
    drop_pairs(ctx, x->labels, x->n_labels);
    drop_pairs(ctx, x->annotations, x->n_annotations);
    text_drop(ctx, o->ns);
    mem_free(o);
}

static enum err_code raw_make(void *ctx, const struct json *obj, const char *text, size_t n,
                              struct kube_obj **out, struct err *e)
{
    struct reader r = {.pool = ctx, .e = e};
    struct meta_texts m = read_meta(&r, obj);
    struct pairs labels = read_pairs(&r, m.meta, "labels", false);
    struct pairs annotations = read_pairs(&r, m.meta, "annotations", true);
    int64_t generation = read_int(&r, m.meta, "generation", -1);
    size_t n_pairs = (size_t)labels.n + annotations.n, bytes;
    *out = NULL;
    if (!r.rc &&
        !size_add(sizeof(struct kube_raw) + n_pairs * sizeof(struct kube_label) + 1, n, &bytes))
        read_fail(&r, ERR_LIMIT, "object", "too large");
    struct kube_raw *x = r.rc ? NULL : block_new(&r, &m, bytes);
    if (!x)
        return r.rc;
    struct kube_label *pairs = (struct kube_label *)(void *)(x + 1);
    char *copy = (char *)(pairs + n_pairs);
    fill_pairs(&r, &labels, pairs);
    fill_pairs(&r, &annotations, pairs + labels.n);
    memcpy(copy, text, n);
    x->created_us = m.created_us;
    x->generation = generation;
    x->terminating = m.deletion_us >= 0;
    x->n_labels = labels.n;
    x->n_annotations = annotations.n;
    x->labels = pairs;
    x->annotations = pairs + labels.n;
    x->text = copy;
    x->n_text = n;
    *out = &x->meta;
    return ERR_OK;
}

struct kube_projection kube_raw_projection(struct text_pool *pool)
{
    return (struct kube_projection){.make = raw_make, .free = raw_free, .ctx = pool};
}

enum err_code kube_raw_json(const struct kube_raw *x, struct json_doc **out, struct err *e)
{
    return json_parse(x->text, x->n_text, x->n_text, x->meta.name, out, e);
}
