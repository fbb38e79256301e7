/* discover.c - which resource an apiVersion and kind mean; what we are allowed to do.
 *
 * One request per group and version answers for all its kinds; the parsed list is kept.  "Not
 * served" is kept for a few seconds only: a CRD may be installed after us.  When a refresh fails
 * for another reason the old answer stays. */
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/mem.h"
#include "kube/client_priv.h"

enum { GROUPS_MAX = 1024, RESOURCES_MAX = 4096, LIST_BYTES_MAX = 8 << 20 };

struct group {
    struct group *next;
    char group[64], version[32];
    int64_t asked_us; /* monotonic, of the last answer */
    bool served;
    bool asking;       /* kube_discover_soon waits for an answer */
    int64_t failed_us; /* monotonic, of its last question without one; INT64_MIN: none */
    struct err failure;
    size_t n;
    struct kube_resource *resources;
};

struct kube_discovery {
    size_t n;
    struct group *first;
};

void kube_discovery_free(struct kube_discovery *d)
{
    if (!d)
        return;
    for (struct group *g = d->first, *next; g; g = next) {
        next = g->next;
        mem_free(g->resources);
        mem_free(g);
    }
    mem_free(d);
}

static struct group *find_group(const struct kube_discovery *d, const char *group,
                                const char *version)
{
    struct group *g = d ? d->first : NULL;
    while (g && (strcmp(g->group, group) != 0 || strcmp(g->version, version) != 0))
        g = g->next;
    return g;
}

static enum err_code group_for(struct kube *k, const char *group, const char *version,
                               struct group **out, struct err *e)
{
    *out = find_group(k->discovery, group, version);
    if (*out)
        return ERR_OK;
    if (!k->discovery)
        k->discovery = mem_zero(1, sizeof *k->discovery);
    struct kube_discovery *d = k->discovery;
    if (d->n == GROUPS_MAX)
        return err_set(e, ERR_LIMIT, "more than %d API groups asked for", GROUPS_MAX);
    *out = mem_zero(1, sizeof **out);
    (*out)->asked_us = (*out)->failed_us = INT64_MIN;
    (*out)->next = d->first;
    d->first = *out;
    d->n++;
    snprintf((*out)->group, sizeof(*out)->group, "%s", group);
    snprintf((*out)->version, sizeof(*out)->version, "%s", version);
    return ERR_OK;
}

/* ---- reading the list -------------------------------------------------------------------- */

static bool copy_name(char *out, size_t size, const char *s)
{
    if (!s || !*s || strlen(s) >= size)
        return false;
    memcpy(out, s, strlen(s) + 1);
    return true;
}

static void mark_scale(struct group *g, const char *name, size_t n)
{
    for (size_t i = 0; i < g->n; i++) {
        if (strncmp(g->resources[i].plural, name, n) == 0 && g->resources[i].plural[n] == '\0')
            g->resources[i].has_scale = true;
    }
}

/* Names with a slash are subresources, in no promised order: they come in a second pass. */
static enum err_code read_list(const struct json_doc *doc, struct group *g, struct err *e)
{
    const struct json *list;
    enum err_code rc = json_get_array(doc, json_root(doc), "resources", &list, e);
    if (rc)
        return rc;
    if (json_count(list) > RESOURCES_MAX)
        return err_set(e, ERR_LIMIT, "%zu resources in one group", json_count(list));
    mem_free(g->resources);
    g->resources = mem_zero(json_count(list) + 1, sizeof *g->resources);
    g->n = 0;
    for (const struct json *r = json_first(list); r; r = json_next(r)) {
        const char *name = json_text(json_find(r, "name"));
        struct kube_resource *out = &g->resources[g->n];
        if (!name || strchr(name, '/'))
            continue;
        if (!copy_name(out->plural, sizeof out->plural, name) ||
            !copy_name(out->kind, sizeof out->kind, json_text(json_find(r, "kind"))))
            continue; /* a name longer than Kubernetes allows cannot be asked for either */
        memcpy(out->group, g->group, sizeof out->group);
        memcpy(out->version, g->version, sizeof out->version);
        out->namespaced = json_is_true(json_find(r, "namespaced"));
        g->n++;
    }
    for (const struct json *r = json_first(list); r; r = json_next(r)) {
        const char *name = json_text(json_find(r, "name")),
                   *slash = name ? strchr(name, '/') : NULL;
        if (slash && strcmp(slash, "/scale") == 0)
            mark_scale(g, name, (size_t)(slash - name));
    }
    return ERR_OK;
}

static void group_path(struct buf *path, const struct group *g)
{
    buf_str(path, g->group[0] ? "/apis/" : "/api/");
    if (g->group[0]) {
        http_escape(path, g->group);
        buf_char(path, '/');
    }
    http_escape(path, g->version);
}

static enum err_code take_list(const struct kube_reply *reply, struct group *g, struct err *e)
{
    struct json_doc *doc;
    enum err_code rc = kube_reply_json(reply, &doc, e);
    if (!rc)
        rc = read_list(doc, g, e);
    json_free(doc);
    g->served = !rc;
    return rc;
}

/* What the server said of a group; ERR_OK also for its saying that it does not serve this. */
static enum err_code take_answer(struct group *g, enum err_code rc, const struct kube_reply *reply, struct err *e)
{
    if (!rc) {
        rc = take_list(reply, g, e);
        if (rc)
            err_wrap(e, "%.63s/%.31s", g->group, g->version);
    } else if (kube_is_not_found(&reply->status)) {
        g->served = false;
        g->n = 0;
        rc = ERR_OK;
    }
    if (!rc)
        g->asked_us = clock_mono_us();
    return rc;
}

static enum err_code ask(struct kube *k, struct group *g, struct err *e)
{
    struct buf path = buf_init(1024);
    struct kube_reply reply;
    group_path(&path, g);
    struct kube_call call = {.verb = KUBE_GET, .path = path.p, .body_cap = LIST_BYTES_MAX};
    enum err_code rc = take_answer(g, kube_do(k, &call, &reply, e), &reply, e);
    kube_reply_fini(&reply);
    buf_fini(&path);
    return rc;
}

static void answered(void *ctx, enum err_code rc, struct kube_reply *reply, const struct err *why)
{
    struct group *g = ctx;
    struct err e = {0};
    if (rc)
        e = *why;
    g->asking = false;
    if (!take_answer(g, rc, reply, &e))
        return;
    g->failure = e;
    g->failed_us = clock_mono_us();
}

static void ask_soon(struct kube *k, struct group *g)
{
    struct buf path = buf_init(1024);
    group_path(&path, g);
    struct kube_call call = {
        .verb = KUBE_GET, .path = path.p, .body_cap = LIST_BYTES_MAX, .done = answered, .ctx = g};
    g->asking = !kube_start(k, &call, NULL, &g->failure);
    if (!g->asking)
        g->failed_us = clock_mono_us();
    buf_fini(&path);
}

/* ---- answers ----------------------------------------------------------------------------- */

static const struct kube_resource *find_kind(const struct group *g, const char *kind)
{
    for (size_t i = 0; i < g->n; i++) {
        if (strcmp(g->resources[i].kind, kind) == 0)
            return &g->resources[i];
    }
    return NULL;
}

static bool older(int64_t then_us, int64_t span_us)
{
    return then_us == INT64_MIN || clock_mono_us() - then_us >= span_us;
}

static enum err_code lookup(struct kube *k, const char *api_version, const char *kind, struct group **g,
                            const struct kube_resource **r, struct err *e)
{
    char group[64], version[32];
    if (!kube_split_api_version(api_version, group, version))
        return err_set(e, ERR_INVAL, "apiVersion \"%.100s\" is not GROUP/VERSION", api_version);
    enum err_code rc = group_for(k, group, version, g, e);
    *r = rc ? NULL : find_kind(*g, kind);
    return rc;
}

static enum err_code missing(const struct kube *k, const struct group *g, const char *api_version,
                             const char *kind, struct err *e)
{
    return err_set(e, ERR_MISSING, "kind %.64s: %.100s is %s %.200s", kind, api_version,
                   g->served ? "served without it by" : "not served by", kube_url(k));
}

enum err_code kube_discover(struct kube *k, const char *api_version, const char *kind,
                            struct kube_resource *out, struct err *e)
{
    struct group *g;
    const struct kube_resource *r;
    enum err_code rc = lookup(k, api_version, kind, &g, &r, e);
    if (rc)
        return rc;
    if (older(g->asked_us, r ? k->o.discover_us : k->o.absent_us)) {
        rc = ask(k, g, e);
        r = find_kind(g, kind);
        if (rc && !r)
            return rc;
    }
    if (!r)
        return missing(k, g, api_version, kind, e);
    *out = *r;
    return ERR_OK;
}

enum err_code kube_discover_soon(struct kube *k, const char *api_version, const char *kind,
                                 struct kube_resource *out, struct err *e)
{
    struct group *g;
    const struct kube_resource *r;
    enum err_code rc = lookup(k, api_version, kind, &g, &r, e);
    if (rc)
        return rc;
    if (!g->asking && older(g->asked_us, r ? k->o.discover_us : k->o.absent_us) &&
        older(g->failed_us, k->o.absent_us))
        ask_soon(k, g);
    if (r) {
        *out = *r;
        return ERR_OK;
    }
    if (g->asked_us != INT64_MIN)
        return missing(k, g, api_version, kind, e);
    if (g->failed_us == INT64_MIN)
        return err_set(e, ERR_MISSING, "kind %.64s: whether %.100s is served is being asked", kind, api_version);
    *e = g->failure;
    return e->code;
}

/* ---- self-review ------------------------------------------------------------------------- */

static void put_given(struct json_writer *w, const char *key, const char *v)
{
    if (v && *v)
        json_put_str(w, key, v);
}

static void write_review(struct buf *body, const struct kube_access *a)
{
    struct json_writer w = json_writer_init(body, 0);
    json_open(&w, NULL);
    json_put_str(&w, "apiVersion", "authorization.k8s.io/v1");
    json_put_str(&w, "kind", "SelfSubjectAccessReview");
    json_open(&w, "spec");
    json_open(&w, "resourceAttributes");
    put_given(&w, "verb", a->verb);
    put_given(&w, "group", a->group);
    put_given(&w, "resource", a->resource);
    put_given(&w, "subresource", a->subresource);
    put_given(&w, "namespace", a->ns);
    put_given(&w, "name", a->name);
    json_close(&w);
    json_close(&w);
    json_close(&w);
}

static enum err_code read_review(const struct kube_reply *reply, bool *allowed, char reason[256],
                                 struct err *e)
{
    struct json_doc *doc;
    const struct json *status;
    enum err_code rc = kube_reply_json(reply, &doc, e);
    if (rc)
        return rc;
    rc = json_get_object(doc, json_root(doc), "status", &status, e);
    if (!rc)
        rc = json_get_bool(doc, status, "allowed", allowed, e);
    const char *text = rc ? NULL : json_text(json_find(status, "reason"));
    if (reason)
        snprintf(reason, 256, "%s", text ? text : "");
    json_free(doc);
    return rc;
}

enum err_code kube_can(struct kube *k, const struct kube_access *a, bool *allowed, char reason[256],
                       struct err *e)
{
    struct buf body = buf_init(16 * 1024);
    struct kube_reply reply;
    *allowed = false;
    write_review(&body, a);
    enum err_code rc = buf_check(&body, e);
    if (rc) {
        buf_fini(&body);
        return rc;
    }
    struct kube_call call = {.verb = KUBE_CREATE,
                             .body = body.p,
                             .n_body = body.n,
                             .body_cap = 1 << 20,
                             .path = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"};
    rc = kube_do(k, &call, &reply, e);
    if (!rc) {
        rc = read_review(&reply, allowed, reason, e);
        if (rc)
            err_wrap(e, "SelfSubjectAccessReview");
    }
    kube_reply_fini(&reply);
    buf_fini(&body);
    return rc;
}
