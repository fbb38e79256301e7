/* roster_owners.c - other controllers in the cluster, as values for execute/ownership.h. */
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "daemon/roster_priv.h"

enum { OWNERS_MAX = 20000 };

struct owners {
    struct owner_object *item;
    size_t n, size;
};

static struct owner_object *next_slot(struct owners *x)
{
    if (x->n == x->size) {
        x->size = x->size ? 2 * x->size : 64;
        x->item = mem_grow(x->item, x->size, sizeof *x->item);
    }
    return &x->item[x->n];
}

static void gather(const struct roster *r, int kind, enum owner_kind owner, struct owners *x)
{
    const struct kube_obj *o;
    for (struct cluster_at at = {0}; (o = cluster_next(r->o.cluster, kind, &at)) && x->n < OWNERS_MAX;) {
        struct json_doc *doc;
        struct err e;
        if (kube_as_raw(o)->terminating || kube_raw_json(kube_as_raw(o), &doc, &e))
            continue;
        if (!owner_object_read(owner, doc, next_slot(x), &e))
            x->n++;
        else
            log_write(r->o.log, LOG_DEBUG, "roster", "not an owner", "kind=%s error=\"%s\"", owner_kind_name(owner),
                      e.msg);
        json_free(doc);
    }
}

static const struct owner_object *self_of(const struct live *l, const struct owners *x)
{
    for (size_t i = 0; l->source == LIVE_SPEC && i < x->n; i++)
        if (x->item[i].kind == OWNER_CAPACITY_TARGET && strcmp(x->item[i].uid, l->uid) == 0)
            return &x->item[i];
    return NULL;
}

static void read_marks(const struct roster *r, const struct target_id *id, struct owner_marks *out)
{
    struct err e;
    int kind = cluster_workload_kind(r->o.cluster, id->api_version, id->kind, &e);
    const struct kube_obj *o = kind >= 0 ? cluster_find(r->o.cluster, kind, id->namespace_, id->name) : NULL;
    struct json_doc *doc = NULL;
    if (o && kube_raw_json(kube_as_raw(o), &doc, &e))
        doc = NULL;
    owner_marks_read(doc ? json_find(json_root(doc), "metadata") : NULL, out);
    json_free(doc);
}

static void find_owner(const struct roster *r, struct live *l, const struct owners *x)
{
    const struct target_id *id = &l->target.id;
    struct owner_target t = {
        .namespace_ = id->namespace_, .self = self_of(l, x), .reversals = l->status.safety.reversals};
    (void)snprintf(t.ref.api_version, sizeof t.ref.api_version, "%s", id->api_version);
    (void)snprintf(t.ref.kind, sizeof t.ref.kind, "%s", id->kind);
    (void)snprintf(t.ref.name, sizeof t.ref.name, "%s", id->name);
    read_marks(r, id, &t.marks);
    ownership_find(&t, x->item, x->n, &l->owner);
}

void roster_owners(struct roster *r)
{
    static const struct {
        int kind;
        enum owner_kind owner;
    } sources[] = {{CLUSTER_TARGETS, OWNER_CAPACITY_TARGET},
                   {CLUSTER_SCALED_OBJECTS, OWNER_KEDA},
                   {CLUSTER_HPAS, OWNER_HPA},
                   {CLUSTER_VPAS, OWNER_VPA}};
    struct owners x = {0};
    for (size_t i = 0; i < ARRAY_LEN(sources); i++)
        gather(r, sources[i].kind, sources[i].owner, &x);
    for (size_t i = 0; i < r->n; i++)
        find_owner(r, r->live[i], &x);
    mem_free(x.item);
}
