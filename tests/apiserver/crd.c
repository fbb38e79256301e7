/* crd.c - custom resources: a CustomResourceDefinition becomes a shelf, served after
 * opts.crd_delay_us. */
#include "tests/apiserver/api_priv.h"

#include <stdio.h>
#include <string.h>

void api_crd_free(struct crd *crd)
{
    if (!crd)
        return;
    for (size_t i = 0; i < ARRAY_LEN(crd->text); i++)
        mem_free(crd->text[i]);
    cJSON_Delete(crd->schema);
    mem_free(crd);
}

static char *csv_of(const cJSON *list)
{
    struct buf b = buf_init(4096);
    js_each (x, list)
        buf_fmt(&b, "%s%s", b.n ? "," : "", cJSON_IsString(x) ? x->valuestring : "");
    if (b.n)
        return buf_take(&b);
    buf_fini(&b);
    return NULL;
}

static void set_scale(struct crd *crd, const cJSON *version, int *n)
{
    const cJSON *scale = api_js_at(version, "subresources.scale");
    static const char *const key[] = {"specReplicasPath", "statusReplicasPath",
                                      "labelSelectorPath"};
    const char **to[] = {&crd->kind.replicas_path, &crd->kind.status_replicas_path,
                         &crd->kind.selector_path};
    if (!scale)
        return;
    crd->kind.flags |= KIND_SCALE;
    for (int i = 0; i < 3; i++) {
        const char *path = api_js_str(scale, key[i]);
        if (path)
            *to[i] = crd->text[(*n)++] = mem_strdup(path);
    }
}

static struct crd *crd_of(const cJSON *j, const cJSON *version)
{
    struct crd *crd = mem_zero(1, sizeof *crd);
    const char *part[] = {api_js_str_or(j, "spec.group", ""), api_js_str_or(version, "name", ""),
                          api_js_str_or(j, "spec.names.plural", ""),
                          api_js_str_or(j, "spec.names.singular", ""),
                          api_js_str_or(j, "spec.names.kind", "")};
    const char **to[] = {&crd->kind.group, &crd->kind.version, &crd->kind.plural,
                         &crd->kind.singular, &crd->kind.name};
    int n = 0;
    for (size_t i = 0; i < ARRAY_LEN(part); i++)
        *to[i] = crd->text[n++] = mem_strdup(part[i]);
    crd->kind.shorts = crd->text[n++] = csv_of(api_js_at(j, "spec.names.shortNames"));
    crd->kind.categories = crd->text[n++] = csv_of(api_js_at(j, "spec.names.categories"));
    crd->kind.namespaced = strcmp(api_js_str_or(j, "spec.scope", ""), "Namespaced") == 0;
    crd->kind.flags = KIND_CUSTOM | KIND_GENERATION | KIND_VERSIONED_PUT;
    if (api_js_at(version, "subresources.status"))
        crd->kind.flags |= KIND_STATUS;
    set_scale(crd, version, &n);
    const cJSON *schema = api_js_at(version, "schema.openAPIV3Schema");
    crd->schema = schema ? cJSON_Duplicate(schema, true) : NULL;
    return crd;
}

void api_crd_created(struct apiserver *a, struct obj *o)
{
    cJSON *j = api_obj_parse(o);
    js_each (v, api_js_at(j, "spec.versions")) {
        if (!api_js_true(v, "served") ||
            api_store_shelf(a, api_js_str_or(j, "spec.group", ""), api_js_str_or(v, "name", ""),
                            api_js_str_or(j, "spec.names.plural", "")))
            continue;
        struct crd *crd = crd_of(j, v);
        crd->serve_at_us = clock_mono_us() + a->o.crd_delay_us;
        api_store_add_shelf(a, &crd->kind, crd);
    }
    cJSON_Delete(j);
}

/* Only the schema of what is served may change here. */
void api_crd_changed(struct apiserver *a, struct obj *o)
{
    cJSON *j = api_obj_parse(o);
    js_each (v, api_js_at(j, "spec.versions")) {
        struct shelf *s =
            api_store_shelf(a, api_js_str_or(j, "spec.group", ""), api_js_str_or(v, "name", ""),
                            api_js_str_or(j, "spec.names.plural", ""));
        const cJSON *schema = api_js_at(v, "schema.openAPIV3Schema");
        if (!s || !s->crd)
            continue;
        cJSON_Delete(s->crd->schema);
        s->crd->schema = schema ? cJSON_Duplicate(schema, true) : NULL;
    }
    cJSON_Delete(j);
    api_crd_created(a, o);
}

void api_crd_deleted(struct apiserver *a, const struct obj *o)
{
    cJSON *j = api_obj_parse(o);
    js_each (v, api_js_at(j, "spec.versions")) {
        struct shelf *s =
            api_store_shelf(a, api_js_str_or(j, "spec.group", ""), api_js_str_or(v, "name", ""),
                            api_js_str_or(j, "spec.names.plural", ""));
        if (s && s->crd)
            api_store_drop_shelf(a, s);
    }
    cJSON_Delete(j);
}

static void add_condition(struct apiserver *a, cJSON *status, const char *type, const char *reason,
                          const char *message)
{
    cJSON *x = cJSON_CreateObject();
    char at[32];
    api_js_set_str(x, "type", type);
    api_js_set_str(x, "status", "True");
    api_js_set_str(x, "lastTransitionTime", api_call_time(a, at));
    api_js_set_str(x, "reason", reason);
    api_js_set_str(x, "message", message);
    cJSON_AddItemToArray(api_js_list(status, "conditions"), x);
}

/* What the establishing controller writes. */
static void establish(struct apiserver *a, const struct kind *k)
{
    char name[200];
    struct shelf *crds = api_store_core(a, "customresourcedefinitions");
    snprintf(name, sizeof name, "%s.%s", k->plural, k->group);
    struct obj *o = api_store_get(crds, NULL, name);
    cJSON *j = o ? api_obj_parse(o) : NULL;
    if (!j)
        return;
    cJSON *status = api_js_obj(j, "status");
    if (!api_js_at(status, "conditions.0")) {
        api_js_set(status, "acceptedNames", cJSON_Duplicate(api_js_at(j, "spec.names"), true));
        add_condition(a, status, "NamesAccepted", "NoConflicts", "no conflicts found");
        add_condition(a, status, "Established", "InitialNamesAccepted",
                      "the initial names have been accepted");
        api_store_put(a, crds, j);
    }
    cJSON_Delete(j);
}

static void serve(struct apiserver *a, struct shelf *s)
{
    s->served = true;
    s->forgotten = a->rv; /* nothing was here before */
    establish(a, s->kind);
}

void api_crd_tick(struct apiserver *a)
{
    for (size_t i = 0; i < a->n_shelves; i++) {
        struct shelf *s = a->shelf[i];
        if (s->crd && !s->served && clock_mono_us() >= s->crd->serve_at_us)
            serve(a, s);
    }
}

void api_crd_serve_all(struct apiserver *a)
{
    for (size_t i = 0; i < a->n_shelves; i++) {
        if (a->shelf[i]->crd && !a->shelf[i]->served)
            serve(a, a->shelf[i]);
    }
}
