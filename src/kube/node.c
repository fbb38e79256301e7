/* node.c - nodes: what they offer, and whether they take pods. */
#include <string.h>

#include "base/mem.h"
#include "kube/objects_priv.h"

struct offer {
    int64_t cpu_milli, mem_bytes, pods;
    struct devices devices;
};

static void read_offer(struct reader *r, const struct json *status, struct offer *o)
{
    const struct json *map = read_object(r, status, "allocatable");
    for (const struct json *v = map ? json_first(map) : NULL; v; v = json_next(v)) {
        const char *key = json_key(v);
        if (strcmp(key, "cpu") == 0)
            o->cpu_milli = read_quantity(r, v, key, 1000);
        else if (strcmp(key, "memory") == 0)
            o->mem_bytes = read_quantity(r, v, key, 1);
        else if (strcmp(key, "pods") == 0)
            o->pods = read_quantity(r, v, key, 1);
        else if (kube_is_gpu(key))
            device_add(r, &o->devices, key, read_quantity(r, v, key, 1));
    }
}

static void read_ready(struct reader *r, const struct json *status, struct kube_node *node)
{
    const struct json *list = read_list(r, status, "conditions");
    node->ready_since_us = -1;
    for (const struct json *c = list ? json_first(list) : NULL; c; c = json_next(c)) {
        if (strcmp(read_text(r, c, "type"), "Ready") != 0)
            continue;
        node->ready = strcmp(read_text(r, c, "status"), "True") == 0;
        int64_t since_us = read_time_us(r, c, "lastTransitionTime");
        node->ready_since_us = node->ready ? since_us : -1;
    }
}

static size_t count_taints(struct reader *r, const struct json *list)
{
    size_t n = list ? json_count(list) : 0;
    if (n > TAINTS_MAX)
        read_fail(r, ERR_LIMIT, "taints", "too many");
    return n;
}

static void fill_taints(struct reader *r, const struct json *list, struct kube_taint *out)
{
    for (const struct json *t = list ? json_first(list) : NULL; t; t = json_next(t))
        *out++ = (struct kube_taint){.key = hold(r, read_text(r, t, "key")),
                                     .value = hold(r, read_text(r, t, "value")),
                                     .effect = hold(r, read_text(r, t, "effect"))};
}

static void node_free(void *ctx, struct kube_obj *o)
{
    struct kube_node *node = (struct kube_node *)(void *)o;
    drop_pairs(ctx, node->labels, node->n_labels);
    drop_pairs(ctx, node->annotations, node->n_annotations);
    for (size_t i = 0; i < node->n_devices; i++)
        text_drop(ctx, node->devices[i].resource);
    for (size_t i = 0; i < node->n_taints; i++) {
        text_drop(ctx, node->taints[i].key);
        text_drop(ctx, node->taints[i].value);
        text_drop(ctx, node->taints[i].effect);
    }
    text_drop(ctx, o->ns);
    mem_free(o);
}

static enum err_code node_make(void *ctx, const struct json *obj, const char *text, size_t n,
                               struct kube_obj **out, struct err *e)
{
    (void)text, (void)n;
    struct reader r = {.pool = ctx, .e = e};
    struct offer offer = {0};
    struct meta_texts m = read_meta(&r, obj);
    const struct json *spec = read_object(&r, obj, "spec"),
                      *status = read_object(&r, obj, "status");
    const struct json *taints = read_list(&r, spec, "taints");
    struct pairs labels = read_pairs(&r, m.meta, "labels", false);
    struct pairs annotations = read_pairs(&r, m.meta, "annotations", true);
    size_t n_taints = count_taints(&r, taints), n_pairs = (size_t)labels.n + annotations.n;
    read_offer(&r, status, &offer);
    *out = NULL;
    struct kube_node *node = r.rc ? NULL
                                  : block_new(&r, &m,
                                              sizeof *node + n_pairs * sizeof(struct kube_label) +
                                                  offer.devices.n * sizeof(struct kube_device) +
                                                  n_taints * sizeof(struct kube_taint));
    if (!node)
        return r.rc;
    struct kube_label *pairs = (struct kube_label *)(void *)(node + 1);
    struct kube_device *devices = (struct kube_device *)(void *)(pairs + n_pairs);
    struct kube_taint *t = (struct kube_taint *)(void *)(devices + offer.devices.n);
    fill_pairs(&r, &labels, pairs);
    fill_pairs(&r, &annotations, pairs + labels.n);
    fill_taints(&r, taints, t);
    node->gpus = fill_devices(&r, &offer.devices, devices);
    node->n_labels = labels.n;
    node->n_annotations = annotations.n;
    node->n_devices = offer.devices.n;
    node->n_taints = (uint16_t)n_taints;
    node->labels = pairs;
    node->annotations = pairs + labels.n;
    node->devices = devices;
    node->taints = t;
    node->created_us = m.created_us;
    node->terminating = m.deletion_us >= 0;
    node->cpu_milli = offer.cpu_milli;
    node->mem_bytes = offer.mem_bytes;
    node->pods = offer.pods;
    node->unschedulable = read_true(&r, spec, "unschedulable");
    read_ready(&r, status, node);
    if (r.rc) {
        node_free(ctx, &node->meta);
        return r.rc;
    }
    *out = &node->meta;
    return ERR_OK;
}

struct kube_projection kube_node_projection(struct text_pool *pool)
{
    return (struct kube_projection){.make = node_make, .free = node_free, .ctx = pool};
}
