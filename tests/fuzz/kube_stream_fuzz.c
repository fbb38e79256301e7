/* kube_stream_fuzz.c - arbitrary bytes as a list page and as a watch stream, in pieces.
 *
 * How the bytes are cut must not matter; what is cut out goes through the JSON parser and every
 * projection, and nothing may stay behind in the pool. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "base/mem.h"
#include "kube/objects.h"
#include "kube/split_priv.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

struct seen {
    struct hash hash;
    size_t n;
    struct text_pool *pool; /* NULL: only count */
};

static void project(const struct kube_projection *p, const struct json *v, const char *text,
                    size_t n)
{
    struct kube_obj *o = NULL;
    struct err e;
    if (p->make(p->ctx, v, text, n, &o, &e) == ERR_OK) {
        if (!*o->name || !*o->version)
            abort();
        p->free(p->ctx, o);
    } else if (o) {
        abort();
    }
}

static bool take(void *ctx, bool is_metadata, const char *text, size_t n, const char *object,
                 size_t n_object)
{
    struct seen *s = ctx;
    struct json_doc *doc;
    hash_u64(&s->hash, is_metadata);
    hash_bytes(&s->hash, text, n);
    hash_u64(&s->hash, object ? (uint64_t)(object - text) : UINT64_MAX);
    hash_u64(&s->hash, n_object);
    s->n++;
    if (strlen(text) > n || (object && (object < text || object + n_object > text + n)))
        abort();
    if (!s->pool || !object || json_parse(object, n_object, 1 << 20, "object", &doc, NULL))
        return true;
    struct kube_projection all[] = {kube_pod_projection(s->pool), kube_node_projection(s->pool),
                                    kube_raw_projection(s->pool)};
    for (size_t i = 0; i < ARRAY_LEN(all); i++)
        project(&all[i], json_root(doc), object, n_object);
    json_free(doc);
    return true;
}

static enum err_code run(enum split_kind kind, const uint8_t *data, size_t size, size_t piece,
                         struct seen *s)
{
    struct splitter split = split_init(kind, 1 << 16, take, s);
    enum err_code rc = ERR_OK;
    s->hash = hash_init(0);
    s->n = 0;
    for (size_t at = 0; at < size && !rc; at += piece) {
        size_t n = size - at < piece ? size - at : piece;
        char *copy = mem_zero(n, 1); /* of its exact size, for the sanitizer */
        memcpy(copy, data + at, n);
        rc = split_feed(&split, copy, n, NULL);
        mem_free(copy);
    }
    if (!rc)
        rc = split_end(&split, NULL);
    split_fini(&split);
    return rc;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size == 0)
        return 0;
    size_t piece = 1 + data[0] % 13;
    for (enum split_kind kind = SPLIT_LIST; kind <= SPLIT_WATCH; kind++) {
        struct seen whole = {.pool = text_pool_new()}, pieces = {0};
        enum err_code a = run(kind, data + 1, size - 1, size, &whole);
        enum err_code b = run(kind, data + 1, size - 1, piece, &pieces);
        if (a != b || whole.n != pieces.n || hash_value(&whole.hash) != hash_value(&pieces.hash))
            abort();
        if (text_count(whole.pool))
            abort();
        text_pool_free(whole.pool);
    }
    return 0;
}
