/* cluster_scale.c - the size asked for, from /scale of any kind: read when new, read again when the object changed. */
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "daemon/cluster.h"
#include "daemon/cluster_priv.h"

enum { RETRY_US = 10 * 1000000 };

static void forget_selector(struct cluster_scale *s)
{
    selector_free(s->match);
    s->match = NULL;
}

static void text(char *out, size_t n, const struct json *v)
{
    const char *t = json_text(v);
    (void)snprintf(out, n, "%s", t ? t : "");
}

static enum err_code read_scale(struct cluster_scale *s, const struct json_doc *doc, struct err *e)
{
    const struct json *root = json_root(doc), *meta = json_find(root, "metadata"), *status = json_find(root, "status");
    double replicas = json_number(json_find(json_find(root, "spec"), "replicas"));
    double has = json_number(json_find(status, "replicas"));
    char selector[sizeof s->selector];
    replicas = replicas == replicas ? replicas : 0; /* zero is left out */
    has = has == has ? has : 0;
    if (replicas < 0 || replicas > INT32_MAX || has < 0 || has > INT32_MAX)
        return err_set(e, ERR_RANGE, "replicas %g", replicas);
    s->replicas = (int32_t)replicas;
    s->status_replicas = (int32_t)has;
    text(s->version, sizeof s->version, json_find(meta, "resourceVersion"));
    text(s->uid, sizeof s->uid, json_find(meta, "uid"));
    text(selector, sizeof selector, json_find(status, "selector"));
    if (strcmp(selector, s->selector) != 0 || !s->match) {
        forget_selector(s);
        memcpy(s->selector, selector, sizeof s->selector);
        if (*selector && selector_parse(cluster_pool(s->owner), selector, &s->match, e))
            return err_wrap(e, "selector \"%.200s\"", selector);
    }
    return ERR_OK;
}

static void done(void *ctx, enum err_code rc, struct kube_reply *reply, const struct err *why)
{
    struct cluster_scale *s = ctx;
    struct json_doc *doc = NULL;
    struct err e = *why;
    s->reading = false;
    if (rc == ERR_INTERRUPTED)
        return;
    if (!rc)
        rc = kube_reply_json(reply, &doc, &e);
    if (!rc)
        rc = read_scale(s, doc, &e);
    json_free(doc);
    s->known = !rc;
    s->error = e;
    s->error.code = rc;
}

static void start(struct cluster *c, const struct target_id *id, int kind, struct cluster_scale *s)
{
    struct buf path = buf_init(2048);
    struct err e;
    kube_path(&path, cluster_resource(c, kind), id->namespace_, id->name, "scale");
    struct kube_call call = {.verb = KUBE_GET, .path = path.p, .done = done, .ctx = s};
    s->owner = c;
    s->dirty = false;
    s->reading = !kube_start(cluster_kube(c), &call, &s->call, &e);
    if (!s->reading)
        s->error = e;
    buf_fini(&path);
}

static void unknown(struct cluster_scale *s, const char *why, const struct target_id *id)
{
    s->known = false;
    err_set_text(&s->error, ERR_MISSING, "%s %s/%s %s", id->kind, id->namespace_, id->name, why);
}

static void not_found(struct cluster *c, int kind, struct cluster_scale *s, const struct target_id *id)
{
    char why[256];
    if (cluster_kind_listed(c, kind, why, sizeof why))
        unknown(s, "does not exist", id);
    else
        unknown(s, why, id);
}

void cluster_scale_follow(struct cluster *c, const struct target_id *id, struct cluster_scale *s, int64_t mono_us)
{
    struct err e;
    int kind = cluster_workload_kind(c, id->api_version, id->kind, &e);
    if (s->reading)
        return;
    if (kind < 0) {
        s->known = false;
        s->error = e;
        return;
    }
    const struct kube_obj *o = cluster_find(c, kind, id->namespace_, id->name);
    if (!o) {
        not_found(c, kind, s, id);
        return;
    }
    bool changed = strcmp(o->version, s->seen_version) != 0;
    bool retry = !s->known && mono_us - s->read_us > RETRY_US;
    if (!changed && !retry && !s->dirty)
        return;
    (void)snprintf(s->seen_version, sizeof s->seen_version, "%s", o->version);
    s->read_us = mono_us;
    start(c, id, kind, s);
}

void cluster_scale_dirty(struct cluster_scale *s)
{
    s->dirty = true;
}

void cluster_scale_fini(struct cluster *c, struct cluster_scale *s)
{
    if (s->reading)
        kube_cancel(cluster_kube(c), s->call);
    forget_selector(s);
    memset(s, 0, sizeof *s);
}
