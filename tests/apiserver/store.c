/* store.c - the objects: a sorted table and a ring of events per resource, one counter of versions
 * for all.
 *
 * An object is one block: the struct, its strings, its labels and its JSON, shared by the table,
 * the events and open watches.  The JSON lacks kind and apiVersion, as items of a list do; answers
 * put them in front. */
#include "tests/apiserver/api_priv.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- objects ---- */

struct obj *api_obj_ref(struct obj *o)
{
    o->refs++;
    return o;
}

void api_obj_unref(struct obj *o)
{
    if (o && --o->refs == 0)
        mem_free(o);
}

cJSON *api_obj_parse(const struct obj *o)
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

enum { NEEDS_MAX = 16 };

/* Requests of the containers, summed; names are borrowed from j. */
static size_t pod_needs(const cJSON *j, struct need need[NEEDS_MAX])
{
    size_t n = 0;
    js_each (x, api_js_at(j, "spec.containers")) {
        js_each (v, api_js_at(x, "resources.requests")) {
            size_t i = 0;
            while (i < n && strcmp(need[i].resource, v->string) != 0)
                i++;
            if (i == n && n < NEEDS_MAX)
                need[n++] = (struct need){v->string, 0};
            if (i < n)
                need[i].milli += api_js_quantity(v);
        }
    }
    return n;
}

static const char *controller_of(const cJSON *j)
{
    js_each (r, api_js_at(j, "metadata.ownerReferences")) {
        if (api_js_true(r, "controller"))
            return api_js_str_or(r, "uid", "");
    }
    return "";
}

enum { TEXTS = 7 };

static void texts_of(const struct obj_facts *f, const char *out[TEXTS])
{
    const char *all[TEXTS] = {f->ns, f->name, f->uid, f->node, f->phase, f->scheduler, f->owner};
    for (size_t i = 0; i < TEXTS; i++)
        out[i] = all[i] ? all[i] : "";
}

/* One block: struct, needs, label pointers, strings, JSON. */
static struct obj *obj_build(const struct obj_facts *f, uint64_t rv, const char *json,
                             size_t n_json)
{
    const char *text[TEXTS];
    texts_of(f, text);
    size_t n_key = strlen(text[0]) + strlen(text[1]) + 2, bytes = n_key + n_json + 1;
    for (size_t i = 0; i < TEXTS; i++)
        bytes += strlen(text[i]) + 1;
    for (size_t i = 0; i < 2 * f->n_labels; i++)
        bytes += strlen(f->label[i]) + 1;
    for (size_t i = 0; i < f->n_needs; i++)
        bytes += strlen(f->need[i].resource) + 1;
    struct obj *o = mem_zero(1, sizeof *o + f->n_needs * sizeof *o->need +
                                    2 * f->n_labels * sizeof(char *) + bytes);
    *o = (struct obj){.refs = 1,
                      .rv = rv,
                      .deleting = f->deleting,
                      .ready = f->ready,
                      .need = (struct need *)(o + 1),
                      .n_needs = f->n_needs,
                      .n_labels = f->n_labels,
                      .n_json = n_json};
    o->label = (const char **)(o->need + f->n_needs);
    char *w = (char *)(o->label + 2 * f->n_labels);
    for (size_t i = 0; i < f->n_needs; i++)
        o->need[i] = (struct need){keep(&w, f->need[i].resource), f->need[i].milli};
    for (size_t i = 0; i < 2 * f->n_labels; i++)
        o->label[i] = keep(&w, f->label[i]);
    const char **to[TEXTS] = {&o->ns,    &o->name,      &o->uid,  &o->node,
                              &o->phase, &o->scheduler, &o->owner};
    for (size_t i = 0; i < TEXTS; i++)
        *to[i] = keep(&w, text[i]);
    o->key = w;
    w += snprintf(w, n_key, *text[0] ? "%s/%s" : "%s%s", text[0], text[1]) + 1;
    o->json = w;
    memcpy(w, json, n_json);
    return o;
}

static struct obj *obj_new(struct apiserver *a, const cJSON *j, uint64_t rv)
{
    struct need need[NEEDS_MAX];
    const cJSON *labels = api_js_at(j, "metadata.labels");
    const char **label = mem_zero(2 * (size_t)cJSON_GetArraySize(labels) + 1, sizeof *label);
    struct obj_facts f = {.ns = api_js_str(j, "metadata.namespace"),
                          .name = api_js_str(j, "metadata.name"),
                          .uid = api_js_str(j, "metadata.uid"),
                          .node = api_js_str(j, "spec.nodeName"),
                          .phase = api_js_str(j, "status.phase"),
                          .scheduler = api_js_str(j, "spec.schedulerName"),
                          .owner = controller_of(j),
                          .deleting = api_js_str(j, "metadata.deletionTimestamp"),
                          .ready = api_pod_ready(j),
                          .label = label,
                          .need = need,
                          .n_needs = pod_needs(j, need)};
    js_each (l, labels) {
        if (cJSON_IsString(l)) {
            label[2 * f.n_labels] = l->string;
            label[2 * f.n_labels++ + 1] = l->valuestring;
        }
    }
    buf_clear(&a->scratch);
    api_js_add_text(&a->scratch, j);
    struct obj *o = obj_build(&f, rv, a->scratch.p, a->scratch.n);
    mem_free(label);
    return o;
}

const char *api_obj_label(const struct obj *o, const char *key)
{
    for (size_t i = 0; i < o->n_labels; i++) {
        if (strcmp(o->label[2 * i], key) == 0)
            return o->label[2 * i + 1];
    }
    return NULL;
}

void api_obj_add_json(struct buf *out, const struct shelf *s, const struct obj *o, bool with_kind)
{
    if (!with_kind) {
        buf_add(out, o->json, o->n_json);
        return;
    }
    buf_str(out, s->prefix);
    buf_add(out, o->json + 1, o->n_json - 1);
}

/* ---- shelves ---- */

struct shelf *api_store_add_shelf(struct apiserver *a, const struct kind *k, struct crd *crd)
{
    struct shelf *s = mem_zero(1, sizeof *s);
    s->kind = k;
    s->crd = crd;
    s->served = !crd;
    struct buf b = buf_init(1024);
    const char *slash = *k->group ? "/" : "";
    buf_fmt(&b,
            (k->flags & KIND_CUSTOM) ? "{\"apiVersion\":\"%s%s%s\",\"kind\":\"%s\","
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
        api_obj_unref(s->v[i]);
    for (size_t i = 0; i < s->n_events; i++) {
        const struct event *e = api_store_event(s, i);
        api_obj_unref(e->now);
        api_obj_unref(e->was);
    }
    api_crd_free(s->crd);
    mem_free(s->v);
    mem_free(s->ring);
    mem_free(s->prefix);
    mem_free(s);
}

void api_store_drop_shelf(struct apiserver *a, struct shelf *s)
{
    for (size_t i = 0; i < a->n_shelves; i++) {
        if (a->shelf[i] == s) {
            memmove(&a->shelf[i], &a->shelf[i + 1],
                    (a->n_shelves - i - 1) * sizeof(struct shelf *));
            a->n_shelves--;
            api_watch_drop_shelf(a, s);
            shelf_free(s);
            return;
        }
    }
}

void api_store_fini(struct apiserver *a)
{
    for (size_t i = 0; i < a->n_shelves; i++)
        shelf_free(a->shelf[i]);
    mem_free(a->shelf);
    buf_fini(&a->scratch);
}

/* HorizontalPodAutoscalers are served under autoscaling/v1 too, in every version of Kubernetes; here with the bodies of v2. */
static const char *stored_version(const char *group, const char *version)
{
    return strcmp(group, "autoscaling") == 0 && strcmp(version, "v1") == 0 ? "v2" : version;
}

struct shelf *api_store_shelf(struct apiserver *a, const char *group, const char *version,
                              const char *plural)
{
    version = stored_version(group, version);
    for (size_t i = 0; i < a->n_shelves; i++) {
        const struct kind *k = a->shelf[i]->kind;
        if (strcmp(k->plural, plural) == 0 && strcmp(k->group, group) == 0 &&
            strcmp(k->version, version) == 0)
            return a->shelf[i];
    }
    return NULL;
}

struct shelf *api_store_kind(struct apiserver *a, const char *group, const char *version,
                             const char *kind)
{
    for (size_t i = 0; i < a->n_shelves; i++) {
        const struct kind *k = a->shelf[i]->kind;
        if (strcmp(k->name, kind) == 0 && strcmp(k->group, group) == 0 &&
            strcmp(k->version, version) == 0)
            return a->shelf[i];
    }
    return NULL;
}

struct shelf *api_store_core(struct apiserver *a, const char *plural)
{
    for (size_t i = 0; i < a->n_shelves; i++) {
        if (strcmp(a->shelf[i]->kind->plural, plural) == 0)
            return a->shelf[i];
    }
    ASSERT(!"a built-in resource");
    return NULL;
}

size_t api_store_lower(const struct shelf *s, const char *key)
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

struct obj *api_store_get(const struct shelf *s, const char *ns, const char *name)
{
    char key[640];
    snprintf(key, sizeof key, ns && *ns ? "%s/%s" : "%s%s", ns && *ns ? ns : "", name);
    size_t i = api_store_lower(s, key);
    return i < s->n && strcmp(s->v[i]->key, key) == 0 ? s->v[i] : NULL;
}

/* ---- events ---- */

const struct event *api_store_event(const struct shelf *s, size_t i)
{
    return &s->ring[(s->first + i) % s->size_ring];
}

size_t api_store_after(const struct shelf *s, uint64_t rv)
{
    size_t lo = 0, hi = s->n_events;
    while (lo < hi) {
        size_t mid = (lo + hi) / 2;
        if (api_store_event(s, mid)->rv <= rv)
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
    api_obj_unref(e->now);
    api_obj_unref(e->was);
    s->first = (s->first + 1) % s->size_ring;
    s->n_events--;
}

static void grow_ring(struct shelf *s)
{
    size_t size = s->size_ring ? 2 * s->size_ring : 64;
    struct event *ring = mem_zero(size, sizeof *ring);
    for (size_t i = 0; i < s->n_events; i++)
        ring[i] = *api_store_event(s, i);
    mem_free(s->ring);
    s->ring = ring;
    s->first = 0;
    s->size_ring = size;
}

/* Takes a reference to each. */
static void add_event(struct apiserver *a, struct shelf *s, enum event_type type, struct obj *now,
                      struct obj *was)
{
    if (s->n_events >= a->o.history)
        drop_oldest(s);
    if (s->n_events == s->size_ring)
        grow_ring(s);
    struct event *e = &s->ring[(s->first + s->n_events++) % s->size_ring];
    *e = (struct event){
        .rv = now->rv, .type = type, .now = api_obj_ref(now), .was = was ? api_obj_ref(was) : NULL};
    a->waking = true;
    api_control_event(a, s, e);
}

void api_store_compact(struct apiserver *a, uint64_t rv)
{
    for (size_t i = 0; i < a->n_shelves; i++) {
        struct shelf *s = a->shelf[i];
        while (s->n_events > 0 && api_store_event(s, 0)->rv <= rv)
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
    api_js_set_str(api_js_obj(json, "metadata"), "resourceVersion", text);
    api_js_drop(json, "kind");
    api_js_drop(json, "apiVersion");
}

static void make_room(struct shelf *s)
{
    if (s->n == s->size) {
        s->size = s->size ? 2 * s->size : 32;
        s->v = mem_grow(s->v, s->size, sizeof(struct obj *));
    }
}

void api_store_put_text(struct apiserver *a, struct shelf *s, const struct obj_facts *f,
                        const char *json, size_t n)
{
    ASSERT(a->bulk);
    make_room(s);
    s->v[s->n++] = obj_build(f, a->rv, json, n);
}

struct obj *api_store_put(struct apiserver *a, struct shelf *s, cJSON *json)
{
    set_version(a, json);
    struct obj *o = obj_new(a, json, a->rv);
    size_t i = api_store_lower(s, o->key);
    bool there = i < s->n && strcmp(s->v[i]->key, o->key) == 0;
    struct obj *was = there ? s->v[i] : NULL;
    if (!there) {
        make_room(s);
        memmove(&s->v[i + 1], &s->v[i], (s->n - i) * sizeof(struct obj *));
        s->n++;
    }
    s->v[i] = o;
    add_event(a, s, there ? EVENT_MODIFIED : EVENT_ADDED, o, was);
    api_obj_unref(was);
    return o;
}

void api_store_delete(struct apiserver *a, struct shelf *s, struct obj *o, cJSON *last)
{
    cJSON *json = last ? last : api_obj_parse(o);
    set_version(a, json);
    struct obj *gone = obj_new(a, json, a->rv);
    if (!last)
        cJSON_Delete(json);
    size_t i = api_store_lower(s, o->key);
    ASSERT(i < s->n && s->v[i] == o);
    memmove(&s->v[i], &s->v[i + 1], (s->n - i - 1) * sizeof(struct obj *));
    s->n--;
    add_event(a, s, EVENT_DELETED, gone, o);
    api_obj_unref(gone);
    api_obj_unref(o);
}

static int by_key(const void *x, const void *y)
{
    return strcmp((*(struct obj *const *)x)->key, (*(struct obj *const *)y)->key);
}

void api_store_bulk(struct apiserver *a, bool on)
{
    a->bulk = on;
    if (on)
        return;
    for (size_t i = 0; i < a->n_shelves; i++) {
        if (a->shelf[i]->n > 1)
            qsort(a->shelf[i]->v, a->shelf[i]->n, sizeof(struct obj *), by_key);
    }
    api_store_compact(a, a->rv);
    a->waking = true;
}

/* ---- names ---- */

void api_store_uid(struct apiserver *a, char out[37])
{
    uint64_t x = rng_next(&a->uids), y = rng_next(&a->uids);
    snprintf(out, 37, "%08x-%04x-4%03x-%04x-%012llx", (unsigned)(x >> 32),
             (unsigned)(x >> 16) & 0xffff, (unsigned)x & 0xfff,
             0x8000u | ((unsigned)(y >> 48) & 0x3fff), (unsigned long long)(y & 0xffffffffffff));
}

/* The alphabet of generateName: no vowels, nothing that looks like another. */
void api_store_suffix(struct apiserver *a, char out[6])
{
    static const char alphabet[] = "bcdfghjklmnpqrstvwxz2456789";
    for (int i = 0; i < 5; i++)
        out[i] = alphabet[rng_below(&a->names, sizeof alphabet - 1)];
    out[5] = '\0';
}
