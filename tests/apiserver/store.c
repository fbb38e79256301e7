/* store.c - the objects: a sorted table and a ring of events per resource, one counter of versions for all.
 *
 * An object is one block: the struct, its strings, its labels and its JSON, shared by the table, the events and open
 * watches.  The JSON lacks kind and apiVersion, as items of a list do; answers put them in front. */
#include "tests/apiserver/api_priv.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- objects ---- */

struct obj *obj_ref(struct obj *o)
{
    o->refs++;
    return o;
}

void obj_unref(struct obj *o)
{
    if (o && --o->refs == 0)
        mem_free(o);
}

cJSON *obj_parse(const struct obj *o)
{
    cJSON *j = cJSON_ParseWithLength(o->json, o->n_json);
    ASSERT(j);
    return j;
}

/* Copies s to where the block is filled up to. */
static const char *keep(char **w, const char *s)
{
    size_t n = strlen(s) + 1;
    char *at = *w;
    memcpy(at, s, n);
    *w += n;
    return at;
}

static size_t label_bytes(const cJSON *labels, size_t *n)
{
    size_t bytes = 0;
    *n = 0;
    js_each(l, labels)
    {
        if (cJSON_IsString(l)) {
            bytes += strlen(l->string) + strlen(l->valuestring) + 2;
            ++*n;
        }
    }
    return bytes;
}

static struct obj *obj_new(struct apiserver *a, const cJSON *j, uint64_t rv)
{
    const char *ns = js_str_or(j, "metadata.namespace", ""), *name = js_str_or(j, "metadata.name", "");
    const char *part[] = {ns, name, js_str_or(j, "metadata.uid", ""), js_str_or(j, "spec.nodeName", ""),
                          js_str_or(j, "status.phase", ""), js_str_or(j, "spec.schedulerName", "")};
    const cJSON *labels = js_at(j, "metadata.labels");
    size_t n_labels, bytes = label_bytes(labels, &n_labels) + strlen(ns) + strlen(name) + 2;
    for (size_t i = 0; i < ARRAY_LEN(part); i++)
        bytes += strlen(part[i]) + 1;
    buf_clear(&a->scratch);
    js_add_text(&a->scratch, j);
    struct obj *o = mem_zero(1, sizeof *o + 2 * n_labels * sizeof(char *) + bytes + a->scratch.n + 1);
    o->refs = 1;
    o->rv = rv;
    o->label = (const char **)(o + 1);
    char *w = (char *)(o->label + 2 * n_labels);
    js_each(l, labels)
    {
        if (cJSON_IsString(l)) {
            o->label[2 * o->n_labels] = keep(&w, l->string);
            o->label[2 * o->n_labels++ + 1] = keep(&w, l->valuestring);
        }
    }
    const char **to[] = {&o->ns, &o->name, &o->uid, &o->node, &o->phase, &o->scheduler};
    for (size_t i = 0; i < ARRAY_LEN(part); i++)
        *to[i] = keep(&w, part[i]);
    o->key = w;
    w += snprintf(w, strlen(ns) + strlen(name) + 2, *ns ? "%s/%s" : "%s%s", ns, name) + 1;
    o->json = w;
    o->n_json = a->scratch.n;
    memcpy(w, a->scratch.p, a->scratch.n + 1);
    return o;
}

const char *obj_label(const struct obj *o, const char *key)
{
    for (size_t i = 0; i < o->n_labels; i++) {
        if (strcmp(o->label[2 * i], key) == 0)
            return o->label[2 * i + 1];
    }
    return NULL;
}

void obj_add_json(struct buf *out, const struct shelf *s, const struct obj *o, bool with_kind)
{
    if (!with_kind) {
        buf_add(out, o->json, o->n_json);
        return;
    }
    buf_str(out, s->prefix);
    buf_add(out, o->json + 1, o->n_json - 1);
}

/* ---- shelves ---- */

struct shelf *store_add_shelf(struct apiserver *a, const struct kind *k, struct crd *crd)
{
    struct shelf *s = mem_zero(1, sizeof *s);
    s->kind = k;
    s->crd = crd;
    s->served = !crd;
    struct buf b = buf_init(1024);
    const char *slash = *k->group ? "/" : "";
    buf_fmt(&b, (k->flags & KIND_CUSTOM) ? "{\"apiVersion\":\"%s%s%s\",\"kind\":\"%s\","
                                         : "{\"apiVersion\":\"%s%s%s\",\"kind\":\"%s\",",
            k->group, slash, k->version, k->name);
    s->prefix = buf_take(&b);
    a->shelf = mem_grow(a->shelf, a->n_shelves + 1, sizeof(struct shelf *));
    a->shelf[a->n_shelves++] = s;
    return s;
}

static void shelf_free(struct shelf *s)
{
    for (size_t i = 0; i < s->n; i++)
        obj_unref(s->v[i]);
    for (size_t i = 0; i < s->n_events; i++) {
        const struct event *e = store_event(s, i);
        obj_unref(e->now);
        obj_unref(e->was);
    }
    crd_free(s->crd);
    mem_free(s->v);
    mem_free(s->ring);
    mem_free(s->prefix);
    mem_free(s);
}

void store_drop_shelf(struct apiserver *a, struct shelf *s)
{
    for (size_t i = 0; i < a->n_shelves; i++) {
        if (a->shelf[i] == s) {
            memmove(&a->shelf[i], &a->shelf[i + 1], (a->n_shelves - i - 1) * sizeof(struct shelf *));
            a->n_shelves--;
            watch_drop_shelf(a, s);
            shelf_free(s);
            return;
        }
    }
}

void store_fini(struct apiserver *a)
{
    for (size_t i = 0; i < a->n_shelves; i++)
        shelf_free(a->shelf[i]);
    mem_free(a->shelf);
    buf_fini(&a->scratch);
}

struct shelf *store_shelf(struct apiserver *a, const char *group, const char *version, const char *plural)
{
    for (size_t i = 0; i < a->n_shelves; i++) {
        const struct kind *k = a->shelf[i]->kind;
        if (strcmp(k->plural, plural) == 0 && strcmp(k->group, group) == 0 && strcmp(k->version, version) == 0)
            return a->shelf[i];
    }
    return NULL;
}

struct shelf *store_kind(struct apiserver *a, const char *group, const char *version, const char *kind)
{
    for (size_t i = 0; i < a->n_shelves; i++) {
        const struct kind *k = a->shelf[i]->kind;
        if (strcmp(k->name, kind) == 0 && strcmp(k->group, group) == 0 && strcmp(k->version, version) == 0)
            return a->shelf[i];
    }
    return NULL;
}

struct shelf *store_core(struct apiserver *a, const char *plural)
{
    for (size_t i = 0; i < a->n_shelves; i++) {
        if (strcmp(a->shelf[i]->kind->plural, plural) == 0)
            return a->shelf[i];
    }
    ASSERT(!"a built-in resource");
    return NULL;
}

size_t store_lower(const struct shelf *s, const char *key)
{
    size_t lo = 0, hi = s->n;
    while (lo < hi) {
        size_t mid = (lo + hi) / 2;
        if (strcmp(s->v[mid]->key, key) < 0)
            lo = mid + 1;
        else
            hi = mid;
    }
    return lo;
}

struct obj *store_get(const struct shelf *s, const char *ns, const char *name)
{
    char key[640];
    snprintf(key, sizeof key, ns && *ns ? "%s/%s" : "%s%s", ns && *ns ? ns : "", name);
    size_t i = store_lower(s, key);
    return i < s->n && strcmp(s->v[i]->key, key) == 0 ? s->v[i] : NULL;
}

/* ---- events ---- */

const struct event *store_event(const struct shelf *s, size_t i)
{
    return &s->ring[(s->first + i) % s->size_ring];
}

size_t store_after(const struct shelf *s, uint64_t rv)
{
    size_t lo = 0, hi = s->n_events;
    while (lo < hi) {
        size_t mid = (lo + hi) / 2;
        if (store_event(s, mid)->rv <= rv)
            lo = mid + 1;
        else
            hi = mid;
    }
    return lo;
}

static void drop_oldest(struct shelf *s)
{
    struct event *e = &s->ring[s->first];
    s->forgotten = e->rv;
    obj_unref(e->now);
    obj_unref(e->was);
    s->first = (s->first + 1) % s->size_ring;
    s->n_events--;
}

static void grow_ring(struct shelf *s)
{
    size_t size = s->size_ring ? 2 * s->size_ring : 64;
    struct event *ring = mem_zero(size, sizeof *ring);
    for (size_t i = 0; i < s->n_events; i++)
        ring[i] = *store_event(s, i);
    mem_free(s->ring);
    s->ring = ring;
    s->first = 0;
    s->size_ring = size;
}

/* Takes a reference to each. */
static void add_event(struct apiserver *a, struct shelf *s, enum event_type type, struct obj *now, struct obj *was)
{
    if (s->n_events >= a->o.history)
        drop_oldest(s);
    if (s->n_events == s->size_ring)
        grow_ring(s);
    struct event *e = &s->ring[(s->first + s->n_events++) % s->size_ring];
    *e = (struct event){.rv = now->rv, .type = type, .now = obj_ref(now), .was = was ? obj_ref(was) : NULL};
    a->waking = true;
    control_event(a, s, e);
}

void store_compact(struct apiserver *a, uint64_t rv)
{
    for (size_t i = 0; i < a->n_shelves; i++) {
        struct shelf *s = a->shelf[i];
        while (s->n_events > 0 && store_event(s, 0)->rv <= rv)
            drop_oldest(s);
        if (s->forgotten < rv)
            s->forgotten = rv;
    }
}

/* ---- changes ---- */

static void set_version(struct apiserver *a, cJSON *json)
{
    char text[24];
    snprintf(text, sizeof text, "%llu", (unsigned long long)++a->rv);
    js_set_str(js_obj(json, "metadata"), "resourceVersion", text);
    js_drop(json, "kind");
    js_drop(json, "apiVersion");
}

static void make_room(struct shelf *s)
{
    if (s->n == s->size) {
        s->size = s->size ? 2 * s->size : 32;
        s->v = mem_grow(s->v, s->size, sizeof(struct obj *));
    }
}

struct obj *store_put(struct apiserver *a, struct shelf *s, cJSON *json)
{
    set_version(a, json);
    struct obj *o = obj_new(a, json, a->rv);
    if (a->bulk) {
        make_room(s);
        s->v[s->n++] = o;
        return o;
    }
    size_t i = store_lower(s, o->key);
    bool there = i < s->n && strcmp(s->v[i]->key, o->key) == 0;
    struct obj *was = there ? s->v[i] : NULL;
    if (!there) {
        make_room(s);
        memmove(&s->v[i + 1], &s->v[i], (s->n - i) * sizeof(struct obj *));
        s->n++;
    }
    s->v[i] = o;
    add_event(a, s, there ? EVENT_MODIFIED : EVENT_ADDED, o, was);
    obj_unref(was);
    return o;
}

void store_delete(struct apiserver *a, struct shelf *s, struct obj *o, cJSON *last)
{
    cJSON *json = last ? last : obj_parse(o);
    set_version(a, json);
    struct obj *gone = obj_new(a, json, a->rv);
    if (!last)
        cJSON_Delete(json);
    size_t i = store_lower(s, o->key);
    ASSERT(i < s->n && s->v[i] == o);
    memmove(&s->v[i], &s->v[i + 1], (s->n - i - 1) * sizeof(struct obj *));
    s->n--;
    add_event(a, s, EVENT_DELETED, gone, o);
    obj_unref(gone);
    obj_unref(o);
}

static int by_key(const void *x, const void *y)
{
    return strcmp((*(struct obj *const *)x)->key, (*(struct obj *const *)y)->key);
}

void store_bulk(struct apiserver *a, bool on)
{
    a->bulk = on;
    if (on)
        return;
    for (size_t i = 0; i < a->n_shelves; i++)
        qsort(a->shelf[i]->v, a->shelf[i]->n, sizeof(struct obj *), by_key);
    store_compact(a, a->rv);
    a->waking = true;
}

/* ---- names ---- */

void store_uid(struct apiserver *a, char out[37])
{
    uint64_t x = rng_next(&a->uids), y = rng_next(&a->uids);
    snprintf(out, 37, "%08x-%04x-4%03x-%04x-%012llx", (unsigned)(x >> 32), (unsigned)(x >> 16) & 0xffff,
             (unsigned)x & 0xfff, 0x8000u | ((unsigned)(y >> 48) & 0x3fff), (unsigned long long)(y & 0xffffffffffff));
}

/* The alphabet of generateName: no vowels, nothing that looks like another. */
void store_suffix(struct apiserver *a, char out[6])
{
    static const char alphabet[] = "bcdfghjklmnpqrstvwxz2456789";
    for (int i = 0; i < 5; i++)
        out[i] = alphabet[rng_below(&a->names, sizeof alphabet - 1)];
    out[5] = '\0';
}
