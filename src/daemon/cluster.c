#include "daemon/cluster.h"

#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/mem.h"
#include "base/num.h"
#include "daemon/cluster_priv.h"

enum {
    NAMESPACES_MAX = 64,
    PROBE_US = 60 * 1000000,      /* between looks for a kind that is not served */
    PROBE_TARGETS_US = 2 * 1000000, /* for our own: it appears during installation */
};

/* One kind in every watched namespace. */
struct slot {
    struct kube_resource resource;
    bool optional;
    bool served, probing;
    bool asked;        /* the server has said once whether it serves it */
    int64_t probed_us; /* mono; 0: never */
    kube_id probe;
    struct informer *informer[NAMESPACES_MAX];
    struct cluster *owner;
};

struct cluster {
    struct kube *kube;
    struct log *log;
    int64_t retry_us;
    struct text_pool *pool;
    char *ns[NAMESPACES_MAX]; /* NULL: all */
    size_t n_ns;
    struct slot slot[CLUSTER_KINDS_MAX];
    int n_slots;
    uint64_t changes;
};

/* ---- informers -------------------------------------------------------------------------------- */

static void changed(void *ctx, const struct kube_obj *o)
{
    struct cluster *c = ctx;
    (void)o;
    c->changes++;
}

static void updated(void *ctx, const struct kube_obj *old, const struct kube_obj *o)
{
    (void)old;
    changed(ctx, o);
}

static enum err_code slot_start(struct cluster *c, int kind, struct err *e)
{
    struct slot *s = &c->slot[kind];
    s->served = true;
    for (size_t i = 0; i < c->n_ns; i++) {
        struct informer_opts o = informer_opts_default();
        o.resource = s->resource;
        o.ns = c->ns[i];
        if (c->retry_us) {
            o.backoff_us = c->retry_us;
            o.backoff_max_us = 8 * c->retry_us;
        }
        o.projection = kind == CLUSTER_PODS ? kube_pod_projection(c->pool) : kube_raw_projection(c->pool);
        if (kind != CLUSTER_PODS)
            o.handler = (struct informer_handler){.add = changed, .update = updated, .del = changed, .ctx = c};
        enum err_code rc = informer_new(c->kube, &o, &s->informer[i], e);
        if (rc)
            return err_wrap(e, "watch %s", s->resource.plural);
    }
    c->changes++;
    return ERR_OK;
}

/* Whether a list of a group's resources (GET /apis/G/V) holds the kind of this slot. */
static bool serves(const struct kube_reply *reply, const char *plural)
{
    struct json_doc *doc;
    struct err e;
    bool found = false;
    if (kube_reply_json(reply, &doc, &e))
        return false;
    const struct json *list = json_find(json_root(doc), "resources");
    for (const struct json *r = json_is_array(list) ? json_first(list) : NULL; r && !found; r = json_next(r)) {
        const char *name = json_text(json_find(r, "name"));
        found = name && strcmp(name, plural) == 0;
    }
    json_free(doc);
    return found;
}

static void probed(void *ctx, enum err_code rc, struct kube_reply *reply, const struct err *why)
{
    struct slot *s = ctx;
    struct cluster *c = s->owner;
    struct err e;
    (void)why;
    s->probing = false;
    s->asked = s->asked || reply->status.http != 0;
    if (rc || !serves(reply, s->resource.plural))
        return;
    log_write(c->log, LOG_INFO, "cluster", "kind is served", "resource=%s group=%s", s->resource.plural,
              s->resource.group);
    if (slot_start(c, (int)(s - c->slot), &e))
        log_write(c->log, LOG_ERROR, "cluster", "cannot watch", "error=\"%s\"", e.msg);
}

static void probe(struct cluster *c, int kind, int64_t mono_us)
{
    struct slot *s = &c->slot[kind];
    int64_t period = kind == CLUSTER_TARGETS ? PROBE_TARGETS_US : PROBE_US;
    if (s->served || s->probing || (s->probed_us && mono_us - s->probed_us < period))
        return;
    char path[160];
    struct err e;
    (void)snprintf(path, sizeof path, "/apis/%s/%s", s->resource.group, s->resource.version);
    struct kube_call call = {.verb = KUBE_GET, .path = path, .done = probed, .ctx = s, .once = true};
    s->probed_us = mono_us;
    s->probing = !kube_start(c->kube, &call, &s->probe, &e);
}

void cluster_tick(struct cluster *c, int64_t mono_us)
{
    for (int k = 0; k < c->n_slots; k++)
        if (c->slot[k].optional)
            probe(c, k, mono_us);
}

static void slot_fini(struct cluster *c, struct slot *s)
{
    if (s->probing)
        kube_cancel(c->kube, s->probe);
    for (size_t i = 0; i < c->n_ns; i++)
        informer_free(s->informer[i]);
}

enum err_code cluster_new(struct kube *k, const struct cluster_opts *o, struct cluster **out, struct err *e)
{
    static const struct kube_resource *const kinds[] = {
        [CLUSTER_PODS] = &KUBE_PODS,       [CLUSTER_DEPLOYMENTS] = &KUBE_DEPLOYMENTS,
        [CLUSTER_STATEFULSETS] = &KUBE_STATEFULSETS, [CLUSTER_HPAS] = &KUBE_HPAS,
        [CLUSTER_TARGETS] = &KUBE_CAPACITY_TARGETS, [CLUSTER_SCALED_OBJECTS] = &KUBE_SCALED_OBJECTS,
        [CLUSTER_VPAS] = &KUBE_VPAS,
    };
    if (o->n_namespaces > NAMESPACES_MAX)
        return err_set(e, ERR_LIMIT, "kube.namespaces: %zu, at most %d; leave them out to watch all", o->n_namespaces,
                       (int)NAMESPACES_MAX);
    struct cluster *c = mem_zero(1, sizeof *c);
    c->kube = k;
    c->log = o->log;
    c->retry_us = o->retry_us;
    c->pool = text_pool_new();
    c->n_ns = o->n_namespaces ? o->n_namespaces : 1;
    for (size_t i = 0; i < o->n_namespaces; i++)
        c->ns[i] = mem_strdup(o->namespaces[i]);
    c->n_slots = CLUSTER_OTHER;
    enum err_code rc = ERR_OK;
    for (int i = 0; i < CLUSTER_OTHER && !rc; i++) {
        c->slot[i].resource = *kinds[i];
        c->slot[i].owner = c;
        c->slot[i].optional = i >= CLUSTER_TARGETS;
        if (!c->slot[i].optional)
            rc = slot_start(c, i, e);
    }
    if (rc) {
        cluster_free(c);
        return rc;
    }
    *out = c;
    return ERR_OK;
}

void cluster_free(struct cluster *c)
{
    if (!c)
        return;
    for (int i = 0; i < c->n_slots; i++)
        slot_fini(c, &c->slot[i]);
    for (size_t i = 0; i < c->n_ns; i++)
        mem_free(c->ns[i]);
    text_pool_free(c->pool);
    mem_free(c);
}

struct text_pool *cluster_pool(struct cluster *c)
{
    return c->pool;
}

bool cluster_kind_listed(const struct cluster *c, int kind, char *why, size_t n)
{
    const struct slot *s = &c->slot[kind];
    for (size_t i = 0; s->served && i < c->n_ns; i++) {
        if (informer_synced(s->informer[i]))
            continue;
        struct err e;
        informer_failure(s->informer[i], &e, NULL);
        (void)snprintf(why, n, "%s are not listed yet%s%.200s", s->resource.plural, e.code ? ": " : "",
                       e.code ? e.msg : "");
        return false;
    }
    return true;
}

bool cluster_synced(const struct cluster *c, char *why, size_t n)
{
    for (int k = 0; k < CLUSTER_OTHER; k++) {
        const struct slot *s = &c->slot[k];
        if (!cluster_kind_listed(c, k, why, n))
            return false;
        /* Acting before it is known who else sizes targets would be acting on others' targets. */
        if (s->optional && !s->served && !s->asked) {
            (void)snprintf(why, n, "not yet known whether %s are served", s->resource.plural);
            return false;
        }
    }
    return true;
}

uint64_t cluster_changes(const struct cluster *c)
{
    return c->changes;
}

size_t cluster_namespaces(const struct cluster *c)
{
    return c->n_ns;
}

const char *cluster_kind_name(const struct cluster *c, int kind)
{
    return kind < c->n_slots ? c->slot[kind].resource.plural : NULL;
}

const struct informer *cluster_informer(const struct cluster *c, int kind, size_t namespace_i)
{
    return c->slot[kind].informer[namespace_i];
}

const struct kube_obj *cluster_next(const struct cluster *c, int kind, struct cluster_at *at)
{
    for (; at->ns < c->n_ns; at->ns++, at->at = 0) {
        const struct informer *inf = c->slot[kind].informer[at->ns];
        const struct kube_obj *o = inf ? informer_next(inf, &at->at) : NULL;
        if (o)
            return o;
    }
    return NULL;
}

const struct kube_obj *cluster_find(const struct cluster *c, int kind, const char *ns, const char *name)
{
    for (size_t i = 0; i < c->n_ns; i++) {
        const struct informer *inf = c->slot[kind].informer[i];
        const struct kube_obj *o = inf ? informer_find(inf, ns, name) : NULL;
        if (o)
            return o;
    }
    return NULL;
}

int64_t cluster_age_us(const struct cluster *c)
{
    int64_t oldest = 0;
    for (int k = 0; k < CLUSTER_TARGETS; k++)
        for (size_t i = 0; i < c->n_ns; i++)
            oldest = max_i64(oldest, informer_age_us(c->slot[k].informer[i]));
    return oldest;
}

int cluster_workload_kind(struct cluster *c, const char *api_version, const char *kind)
{
    char group[64], version[32];
    struct err e;
    if (!kube_split_api_version(api_version, group, version))
        return -1;
    for (int k = 0; k < c->n_slots; k++)
        if (strcmp(c->slot[k].resource.kind, kind) == 0 && strcmp(c->slot[k].resource.group, group) == 0)
            return k;
    if (c->n_slots == CLUSTER_KINDS_MAX)
        return -1;
    struct slot *s = &c->slot[c->n_slots];
    if (kube_discover(c->kube, api_version, kind, &s->resource, &e))
        return -1; /* remembered by the client for a while: asking again is cheap */
    if (!s->resource.has_scale)
        return -1; /* anybody who may create a CapacityTarget names kinds: not all of them are ours to list */
    s->owner = c;
    c->n_slots++;
    if (slot_start(c, c->n_slots - 1, &e)) {
        log_write(c->log, LOG_ERROR, "cluster", "cannot watch", "error=\"%s\"", e.msg);
        return -1;
    }
    return c->n_slots - 1;
}

struct kube *cluster_kube(struct cluster *c)
{
    return c->kube;
}

const struct kube_resource *cluster_resource(const struct cluster *c, int kind)
{
    return &c->slot[kind].resource;
}
