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
    PROBE_TARGETS_US = 2 * 1000000, /* for our own, which appears during installation; and while it is not known */
    GONE_US = 60 * 1000000,      /* a served kind is not found, or refused, for so long: is it served still? */
    OWNERS_OLD_US = 300 * 1000000, /* silence after which other owners are not known any more */
};

/* One kind in every watched namespace. */
struct slot {
    struct kube_resource resource;
    bool optional;
    bool served, probing;
    bool asked;        /* the server has said once whether it serves it, or that it will not say */
    bool hidden;       /* it will not say: 403 */
    int64_t probed_us; /* mono; 0: never */
    int64_t lost_us;   /* mono: since when lists of it are refused or not found; 0: they are not */
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
    bool asks_aside;
    bool begun; /* everything was listed once */
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

static void slot_stop(struct cluster *c, struct slot *s)
{
    for (size_t i = 0; i < c->n_ns; i++) {
        informer_free(s->informer[i]);
        s->informer[i] = NULL;
    }
    s->served = false;
    s->lost_us = 0;
    c->changes++;
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
        if (rc) {
            slot_stop(c, s);
            return err_wrap(e, "watch %s", s->resource.plural);
        }
    }
    c->changes++;
    return ERR_OK;
}

/* Whether a list of a group's resources (GET /apis/G/V) holds the kind of this slot.  False: it is no such list. */
static bool read_serves(const struct kube_reply *reply, const char *plural, bool *found)
{
    struct json_doc *doc;
    struct err e;
    *found = false;
    if (kube_reply_json(reply, &doc, &e))
        return false;
    const struct json *list = json_find(json_root(doc), "resources");
    bool is_list = json_is_array(list);
    for (const struct json *r = is_list ? json_first(list) : NULL; r && !*found; r = json_next(r)) {
        const char *name = json_text(json_find(r, "name"));
        *found = name && strcmp(name, plural) == 0;
    }
    json_free(doc);
    return is_list;
}

/* 404 says that nobody sizes anything by this kind; 403 says nothing, and anything else is no answer. */
static void probed(void *ctx, enum err_code rc, struct kube_reply *reply, const struct err *why)
{
    struct slot *s = ctx;
    struct cluster *c = s->owner;
    struct err e;
    bool found = false;
    (void)why;
    s->probing = false;
    bool known = rc ? kube_is_not_found(&reply->status) : read_serves(reply, s->resource.plural, &found);
    if (known || kube_is_forbidden(&reply->status)) {
        s->asked = true;
        s->hidden = !known;
    }
    if (!known || found == s->served)
        return;
    log_write(c->log, LOG_INFO, "cluster", found ? "kind is served" : "kind is served no longer", "resource=%s group=%s",
              s->resource.plural, s->resource.group);
    if (!found)
        slot_stop(c, s);
    else if (slot_start(c, (int)(s - c->slot), &e))
        log_write(c->log, LOG_ERROR, "cluster", "cannot watch", "error=\"%s\"", e.msg);
}

/* The failure of the first list of a kind that is refused or finds nothing; false: there is none. */
static bool slot_lost(const struct cluster *c, const struct slot *s, struct err *e, struct kube_status *status)
{
    for (size_t i = 0; s->served && i < c->n_ns; i++) {
        informer_failure(s->informer[i], e, status);
        if (e->code && (kube_is_not_found(status) || kube_is_forbidden(status)))
            return true;
    }
    return false;
}

/* A definition may be deleted while we watch: what is then left of it in the cache owns nothing.  An API server that has
 * just started may not find its definitions for a moment. */
static void look_for_loss(struct cluster *c, struct slot *s, int64_t mono_us)
{
    struct err e;
    struct kube_status status;
    if (!slot_lost(c, s, &e, &status))
        s->lost_us = 0;
    else if (!s->lost_us)
        s->lost_us = mono_us;
}

static bool probe_due(const struct slot *s, int kind, int64_t mono_us)
{
    bool soon = !s->served && (kind == CLUSTER_TARGETS || !s->asked);
    int64_t period_us = soon ? PROBE_TARGETS_US : PROBE_US;
    if (s->served && (!s->lost_us || mono_us - s->lost_us < GONE_US))
        return false;
    return !s->probing && (!s->probed_us || mono_us - s->probed_us >= period_us);
}

static void probe(struct cluster *c, int kind, int64_t mono_us)
{
    struct slot *s = &c->slot[kind];
    char path[160];
    struct err e;
    if (!probe_due(s, kind, mono_us))
        return;
    (void)snprintf(path, sizeof path, "/apis/%s/%s", s->resource.group, s->resource.version);
    struct kube_call call = {.verb = KUBE_GET, .path = path, .done = probed, .ctx = s, .once = true};
    s->probed_us = mono_us;
    s->probing = !kube_start(c->kube, &call, &s->probe, &e);
}

void cluster_tick(struct cluster *c, int64_t mono_us)
{
    char why[256];
    for (int k = 0; k < c->n_slots; k++)
        if (c->slot[k].optional) {
            look_for_loss(c, &c->slot[k], mono_us);
            probe(c, k, mono_us);
        }
    c->begun = c->begun || cluster_synced(c, why, sizeof why);
}

static void slot_fini(struct cluster *c, struct slot *s)
{
    if (s->probing)
        kube_cancel(c->kube, s->probe);
    slot_stop(c, s);
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
    c->asks_aside = o->asks_aside;
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

static bool is_owner(int kind)
{
    return kind > CLUSTER_TARGETS && kind < CLUSTER_OTHER;
}

/* Whether the objects of a kind that may own targets are known; not: why. */
static bool owners_known(const struct cluster *c, int kind, char *why, size_t n)
{
    const struct slot *s = &c->slot[kind];
    const char *plural = s->resource.plural, *group = s->resource.group;
    if (!s->served && s->hidden)
        (void)snprintf(why, n, "whether %s.%s are served is refused (403)", plural, group);
    else if (!s->served && !s->asked)
        (void)snprintf(why, n, "not yet known whether %s are served", plural);
    for (size_t i = 0; s->served && i < c->n_ns && !*why; i++) {
        struct err e;
        int64_t age_us = informer_age_us(s->informer[i]);
        informer_failure(s->informer[i], &e, NULL);
        if (!informer_synced(s->informer[i]))
            (void)snprintf(why, n, "%s.%s are not listed yet%s%.200s", plural, group, e.code ? ": " : "",
                           e.code ? e.msg : "");
        else if (age_us > OWNERS_OLD_US)
            (void)snprintf(why, n, "%s.%s were not heard of for %.0f s: %.200s", plural, group, (double)age_us * 1e-6,
                           e.code ? e.msg : "silence");
    }
    return !*why;
}

bool cluster_owners_known(const struct cluster *c, char *why, size_t n)
{
    *why = '\0';
    for (int k = 0; k < CLUSTER_OTHER; k++)
        if (is_owner(k) && !owners_known(c, k, why, n))
            return false;
    return true;
}

/* Whether a start is to wait for this kind.  Other owners that may not be seen are not waited for, and neither are they
 * later: then nothing is acted on (cluster_owners_known), which is no reason not to decide. */
static bool waits_for(const struct cluster *c, int kind)
{
    struct err e;
    struct kube_status status;
    const struct slot *s = &c->slot[kind];
    return !is_owner(kind) || !(c->begun || (slot_lost(c, s, &e, &status) && kube_is_forbidden(&status)));
}

bool cluster_synced(const struct cluster *c, char *why, size_t n)
{
    for (int k = 0; k < CLUSTER_OTHER; k++) {
        const struct slot *s = &c->slot[k];
        if (!waits_for(c, k))
            continue;
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

static int begin_kind(struct cluster *c, const char *api_version, const char *kind, struct err *e)
{
    struct slot *s = &c->slot[c->n_slots];
    struct kube_resource r;
    /* Remembered by the client for a while: asking again is cheap. */
    enum err_code rc = c->asks_aside ? kube_discover_soon(c->kube, api_version, kind, &r, e)
                                     : kube_discover(c->kube, api_version, kind, &r, e);
    if (!rc && !r.has_scale) /* anybody who may create a CapacityTarget names kinds: not all of them are ours to list */
        rc = err_set(e, ERR_MISSING, "kind %.64s of %.100s has no size (/scale)", kind, api_version);
    if (rc)
        return -1;
    s->resource = r;
    s->owner = c;
    c->n_slots++;
    if (slot_start(c, c->n_slots - 1, e)) {
        log_write(c->log, LOG_ERROR, "cluster", "cannot watch", "error=\"%s\"", e->msg);
        return -1;
    }
    return c->n_slots - 1;
}

static bool is_workload(int kind)
{
    return kind == CLUSTER_DEPLOYMENTS || kind == CLUSTER_STATEFULSETS || kind >= CLUSTER_OTHER;
}

int cluster_workload_kind(struct cluster *c, const char *api_version, const char *kind, struct err *e)
{
    char group[64], version[32];
    int found = 0;
    if (!kube_split_api_version(api_version, group, version)) {
        err_set_text(e, ERR_INVAL, "apiVersion \"%.100s\" is not GROUP/VERSION", api_version);
        return -1;
    }
    while (found < c->n_slots && (strcmp(c->slot[found].resource.kind, kind) != 0 ||
                                  strcmp(c->slot[found].resource.group, group) != 0))
        found++;
    if (found == c->n_slots && found < CLUSTER_KINDS_MAX)
        return begin_kind(c, api_version, kind, e);
    if (found < c->n_slots && is_workload(found))
        return found;
    err_set_text(e, ERR_MISSING, found < c->n_slots ? "kind %.64s is nothing to be sized" : "kind %.64s: too many kinds are watched", kind);
    return -1;
}

bool cluster_scale_path(struct cluster *c, const struct target_id *id, struct buf *out)
{
    struct err e;
    int kind = cluster_workload_kind(c, id->api_version, id->kind, &e); /* the cause is with its size: cluster_scale */
    if (kind >= 0)
        kube_path(out, &c->slot[kind].resource, id->namespace_, id->name, "scale");
    return kind >= 0;
}

struct kube *cluster_kube(struct cluster *c)
{
    return c->kube;
}

const struct kube_resource *cluster_resource(const struct cluster *c, int kind)
{
    return &c->slot[kind].resource;
}
