#include "execute/ownership.h"

#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "execute/json_priv.h"

static const char *const names[OWNERS] = {
#define X(id, name) [OWNER_##id] = (name),
    OWNER_LIST(X)
#undef X
};

const char *owner_kind_name(enum owner_kind k)
{
    return names[k];
}

/* ---- references ------------------------------------------------------------------------------ */

/* The group of an apiVersion; Deployments of "extensions" are those of "apps". */
static size_t group_of(const char *api_version, const char **group)
{
    const char *slash = strchr(api_version, '/');
    size_t n = slash ? (size_t)(slash - api_version) : 0;
    *group = api_version;
    if (n == strlen("extensions") && memcmp(api_version, "extensions", n) == 0)
        *group = "apps";
    return *group == api_version ? n : strlen("apps");
}

bool owner_ref_same(const struct owner_ref *a, const struct owner_ref *b)
{
    const char *ga, *gb;
    size_t na = group_of(a->api_version, &ga), nb = group_of(b->api_version, &gb);
    return na == nb && memcmp(ga, gb, na) == 0 && strcmp(a->kind, b->kind) == 0 &&
           strcmp(a->name, b->name) == 0;
}

/* ---- reading objects ------------------------------------------------------------------------- */

static enum err_code read_ref(const struct json_doc *doc, const struct json *ref,
                              enum owner_kind kind, struct owner_ref *out, struct err *e)
{
    if (kind == OWNER_KEDA) { /* its defaults */
        text_copy(out->api_version, sizeof out->api_version, "apps/v1");
        text_copy(out->kind, sizeof out->kind, "Deployment");
    }
    enum err_code rc =
        get_text(doc, ref, "apiVersion", out->api_version, sizeof out->api_version, e);
    if (!rc)
        rc = get_text(doc, ref, "kind", out->kind, sizeof out->kind, e);
    return rc ? rc : get_text(doc, ref, "name", out->name, sizeof out->name, e);
}

/* The ScaledObject that made an HPA. */
static void read_maker(const struct json *metadata, char *out, size_t size)
{
    const struct json *list = json_find(metadata, "ownerReferences");
    for (const struct json *o = json_is_array(list) ? json_first(list) : NULL; o;
         o = json_next(o)) {
        const char *kind = json_text(json_find(o, "kind")), *name = json_text(json_find(o, "name"));
        if (kind && name && strcmp(kind, "ScaledObject") == 0)
            text_copy(out, size, name);
    }
}

static enum err_code read_metadata(const struct json_doc *doc, const struct json *metadata,
                                   struct owner_object *out, struct err *e)
{
    enum err_code rc =
        get_text(doc, metadata, "namespace", out->namespace_, sizeof out->namespace_, e);
    if (!rc)
        rc = get_text(doc, metadata, "name", out->name, sizeof out->name, e);
    if (!rc)
        rc = get_text(doc, metadata, "uid", out->uid, sizeof out->uid, e);
    return rc ? rc : get_time(doc, metadata, "creationTimestamp", &out->created_us, e);
}

enum err_code owner_object_read(enum owner_kind kind, const struct json_doc *doc,
                                struct owner_object *out, struct err *e)
{
    const char *ref_key = kind == OWNER_VPA ? "targetRef" : "scaleTargetRef";
    const struct json *root = json_root(doc), *metadata, *spec, *ref, *mode;
    *out = (struct owner_object){.kind = kind};
    enum err_code rc = json_get_object(doc, root, "metadata", &metadata, e);
    if (!rc)
        rc = read_metadata(doc, metadata, out, e);
    if (!rc)
        rc = json_get_object(doc, root, "spec", &spec, e);
    if (!rc)
        rc = json_get_object(doc, spec, ref_key, &ref, e);
    if (!rc)
        rc = read_ref(doc, ref, kind, &out->ref, e);
    if (rc)
        return rc;
    if (kind == OWNER_HPA)
        read_maker(metadata, out->made_by, sizeof out->made_by);
    mode = json_find(json_find(spec, "updatePolicy"), "updateMode");
    out->passive = kind == OWNER_VPA && json_is_string(mode) && strcmp(json_text(mode), "Off") == 0;
    return ERR_OK;
}

/* ---- marks ----------------------------------------------------------------------------------- */

static const char *pair(const struct json *metadata, const char *list, const char *key)
{
    return json_text(json_find(json_find(metadata, list), key));
}

static void read_autoscaled(const struct json *metadata, char *out, size_t size)
{
    static const char prefix[] = "cluster.x-k8s.io/cluster-api-autoscaler-node-group-";
    char key[96];
    (void)snprintf(key, sizeof key, "%smin-size", prefix);
    const char *min = pair(metadata, "annotations", key);
    (void)snprintf(key, sizeof key, "%smax-size", prefix);
    const char *max = pair(metadata, "annotations", key);
    char text[96];
    if (!min && !max)
        return;
    (void)snprintf(text, sizeof text, "%.40s..%.40s", min ? min : "?", max ? max : "?");
    text_copy(out, size, text);
}

static void read_gitops(const struct json *metadata, char *out, size_t size)
{
    /* The value up to ':' names the application. */
    static const struct {
        const char *list, *key, *words;
    } marks[] = {
        {"annotations", "argocd.argoproj.io/tracking-id", "Argo CD application"},
        {"labels", "argocd.argoproj.io/instance", "Argo CD application"},
        {"labels", "kustomize.toolkit.fluxcd.io/name", "Flux Kustomization"},
        {"labels", "helm.toolkit.fluxcd.io/name", "Flux HelmRelease"},
    };
    for (size_t i = 0; i < ARRAY_LEN(marks); i++) {
        const char *value = pair(metadata, marks[i].list, marks[i].key);
        char text[320];
        if (!value)
            continue;
        size_t n = strcspn(value, ":");
        (void)snprintf(text, sizeof text, "%s %.*s", marks[i].words, (int)(n < 254 ? n : 253),
                       value);
        text_copy(out, size, text);
        return;
    }
}

void owner_marks_read(const struct json *metadata, struct owner_marks *out)
{
    *out = (struct owner_marks){0};
    if (!json_is_object(metadata))
        return;
    read_autoscaled(metadata, out->autoscaled, sizeof out->autoscaled);
    read_gitops(metadata, out->gitops, sizeof out->gitops);
}

/* ---- the answer ------------------------------------------------------------------------------ */

/* Whether `o` comes before the target's own CapacityTarget. */
static bool older(const struct owner_object *o, const struct owner_object *self)
{
    if (!self)
        return true;
    if (o->created_us != self->created_us)
        return o->created_us < self->created_us;
    return strcmp(o->uid, self->uid) < 0;
}

static bool claims(const struct owner_target *t, const struct owner_object *o)
{
    if (strcmp(o->namespace_, t->namespace_) != 0 || !owner_ref_same(&o->ref, &t->ref) ||
        o->passive)
        return false;
    if (o->kind != OWNER_CAPACITY_TARGET)
        return true;
    bool self = t->self && strcmp(o->uid, t->self->uid) == 0 && strcmp(o->name, t->self->name) == 0;
    return !self && older(o, t->self);
}

/* The strongest claim, then the oldest, so that the answer does not depend on the order of the
 * lists. */
static bool before(const struct owner_object *a, const struct owner_object *b)
{
    if (a->kind != b->kind)
        return a->kind < b->kind;
    return older(a, b);
}

static void name_object(const struct owner_object *o, struct ownership *out)
{
    bool keda = o->kind == OWNER_HPA && *o->made_by;
    out->kind = keda ? OWNER_KEDA : o->kind;
    const char *ns = o->namespace_, *name = keda ? o->made_by : o->name,
               *kind = owner_kind_name(out->kind);
    char text[sizeof out->advice];
    (void)snprintf(out->owner, sizeof out->owner, "%s %.63s/%.250s", kind, ns, name);
    switch (out->kind) {
    case OWNER_CAPACITY_TARGET:
        (void)snprintf(text, sizeof text,
                       "one CapacityTarget per workload: delete this one or %.200s", name);
        break;
    case OWNER_VPA:
        (void)snprintf(text, sizeof text, "set updateMode of %.200s to \"Off\"", name);
        break;
    default:
        (void)snprintf(text, sizeof text, "delete %.200s to let sluice size the target", name);
        break;
    }
    text_copy(out->advice, sizeof out->advice, text);
}

static void name_marks(const struct owner_target *t, struct ownership *out)
{
    char text[sizeof out->owner + 64];
    if (*t->marks.autoscaled) {
        out->kind = OWNER_CLUSTER_AUTOSCALER;
        (void)snprintf(text, sizeof text, "cluster autoscaler (%s)", t->marks.autoscaled);
        text_copy(out->owner, sizeof out->owner, text);
        text_copy(out->advice, sizeof out->advice,
                  "remove the annotations "
                  "cluster.x-k8s.io/cluster-api-autoscaler-node-group-min-size and -max-size");
    } else if (t->reversals >= OWNER_REVERSALS) {
        out->kind = OWNER_GITOPS;
        (void)snprintf(text, sizeof text, "%s",
                       *t->marks.gitops ? t->marks.gitops : "somebody who puts the size back");
        text_copy(out->owner, sizeof out->owner, text);
        (void)snprintf(
            text, sizeof text,
            "the size was put back %d times; leave spec.replicas out of the repository (Argo CD: "
            "ignoreDifferences), then change the CapacityTarget",
            t->reversals);
        text_copy(out->advice, sizeof out->advice, text);
    }
}

void ownership_find(const struct owner_target *t, const struct owner_object *objects, size_t n,
                    struct ownership *out)
{
    const struct owner_object *best = NULL;
    *out = (struct ownership){0};
    for (size_t i = 0; i < n; i++)
        if (claims(t, &objects[i]) && (!best || before(&objects[i], best)))
            best = &objects[i];
    if (best)
        name_object(best, out);
    else
        name_marks(t, out);
}
