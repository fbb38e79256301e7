/* load.c - objects from YAML or JSON text, put into the store as they are: no admission, status
 * included. */
#include "tests/apiserver/api_priv.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/num.h"
#include "base/yaml.h"

enum { LOAD_BYTES_MAX = 256 << 20 };

/* ---- YAML to JSON: the core schema's scalars ---- */

static cJSON *scalar(const struct yaml_node *v)
{
    double d;
    if (v->quoted)
        return cJSON_CreateString(v->text);
    if (yaml_is_null(v))
        return cJSON_CreateNull();
    if (strcmp(v->text, "true") == 0 || strcmp(v->text, "false") == 0)
        return cJSON_CreateBool(v->text[0] == 't');
    if (num_f64(v->text, v->n_text, &d) &&
        (isdigit((unsigned char)v->text[v->n_text - 1]) || v->text[0] == '-'))
        return cJSON_CreateNumber(d);
    return cJSON_CreateString(v->text);
}

static cJSON *convert(const struct yaml_node *v)
{
    if (v->kind == YAML_SCALAR)
        return scalar(v);
    cJSON *j = v->kind == YAML_MAP ? cJSON_CreateObject() : cJSON_CreateArray();
    for (const struct yaml_node *c = v->first; c; c = c->next) {
        if (v->kind == YAML_MAP)
            cJSON_AddItemToObject(j, c->key, convert(c));
        else
            cJSON_AddItemToArray(j, convert(c));
    }
    return j;
}

static enum err_code from_yaml(const char *text, size_t n, cJSON **out, struct err *e)
{
    struct yaml_doc *doc = NULL;
    *out = NULL;
    enum err_code rc = yaml_parse(text, n, "objects", &doc, e);
    if (rc)
        return rc;
    const struct yaml_node *root = yaml_root(doc);
    *out = root ? convert(root) : NULL;
    yaml_free(doc);
    return ERR_OK;
}

cJSON *api_load_one(const char *text, size_t n)
{
    cJSON *j = cJSON_ParseWithLength(text, n);
    struct err e;
    if (!j && from_yaml(text, n, &j, &e))
        return NULL;
    return j;
}

/* ---- one object ---- */

static void node_ready(cJSON *j)
{
    cJSON *status = api_js_obj(j, "status");
    const cJSON *capacity = api_js_at(status, "capacity");
    if (capacity)
        api_js_default(status, "allocatable", cJSON_Duplicate(capacity, true));
    api_quantities_canonical(api_js_at_mut(status, "capacity"));
    api_quantities_canonical(api_js_at_mut(status, "allocatable"));
    cJSON *conditions = api_js_list(status, "conditions");
    if (conditions->child)
        return;
    cJSON *ready = cJSON_CreateObject();
    api_js_set_str(ready, "type", "Ready");
    api_js_set_str(ready, "status", "True");
    api_js_set_str(ready, "reason", "KubeletReady");
    cJSON_AddItemToArray(conditions, ready);
}

static void fill_metadata(struct apiserver *a, struct shelf *s, cJSON *j)
{
    cJSON *m = api_js_obj(j, "metadata");
    char uid[37], at[32];
    if (s->kind->namespaced)
        api_js_default(m, "namespace", cJSON_CreateString("default"));
    const struct obj *old =
        api_store_get(s, api_js_str(m, "namespace"), api_js_str_or(m, "name", ""));
    cJSON *was = old ? api_obj_parse(old) : NULL;
    if (!api_js_str(m, "uid")) {
        api_store_uid(a, uid);
        api_js_set_str(m, "uid", was ? api_js_str_or(was, "metadata.uid", uid) : uid);
    }
    api_js_default(m, "creationTimestamp",
                   cJSON_CreateString(was ? api_js_str_or(was, "metadata.creationTimestamp", "")
                                          : api_call_time(a, at)));
    if (s->kind->flags & KIND_GENERATION)
        api_js_default(m, "generation",
                       cJSON_CreateNumber(api_js_num(was, "metadata.generation", 0) + 1));
    api_js_drop(m, "managedFields");
    cJSON_Delete(was);
}

static void need_namespace(struct apiserver *a, const char *ns)
{
    struct shelf *s = api_store_core(a, "namespaces");
    if (api_store_get(s, NULL, ns))
        return;
    cJSON *j = cJSON_CreateObject();
    api_js_set_str(api_js_obj(j, "metadata"), "name", ns);
    fill_metadata(a, s, j);
    api_kind_defaults(a, s->kind, j);
    api_store_put(a, s, j);
    cJSON_Delete(j);
}

static enum err_code load_object(struct apiserver *a, cJSON *j, struct err *e)
{
    char api[128], *slash;
    snprintf(api, sizeof api, "%s", api_js_str_or(j, "apiVersion", ""));
    slash = strchr(api, '/');
    if (slash)
        *slash = '\0';
    const char *kind = api_js_str_or(j, "kind", ""), *name = api_js_str_or(j, "metadata.name", "");
    struct shelf *s = api_store_kind(a, slash ? api : "", slash ? slash + 1 : api, kind);
    if (!s)
        return err_set(e, ERR_MISSING, "no resource for kind %s of %s", kind,
                       api_js_str_or(j, "apiVersion", "(no apiVersion)"));
    if (!*name)
        return err_set(e, ERR_INVAL, "%s without metadata.name", kind);
    fill_metadata(a, s, j);
    if (s->kind->namespaced)
        need_namespace(a, api_js_str(j, "metadata.namespace"));
    if (strcmp(s->kind->plural, "nodes") == 0)
        node_ready(j);
    else
        api_kind_defaults(a, s->kind, j);
    struct obj *o = api_store_put(a, s, j);
    if (strcmp(s->kind->plural, "customresourcedefinitions") == 0) {
        api_crd_created(a, o);
        api_crd_serve_all(a);
    }
    return ERR_OK;
}

static enum err_code load_json(struct apiserver *a, cJSON *j, struct err *e)
{
    const char *kind = api_js_str_or(j, "kind", "");
    size_t n = strlen(kind);
    cJSON *items = api_js_at_mut(j, "items");
    if (!items || n < 4 || strcmp(kind + n - 4, "List") != 0)
        return load_object(a, j, e);
    char one[96];
    snprintf(one, sizeof one, "%.*s", (int)(n - 4), kind);
    js_each (item, items) {
        if (n > 4) { /* PodList: items know neither */
            api_js_default(item, "kind", cJSON_CreateString(one));
            api_js_default(item, "apiVersion",
                           cJSON_CreateString(api_js_str_or(j, "apiVersion", "")));
        }
        enum err_code rc = load_object(a, item, e);
        if (rc)
            return rc;
    }
    return ERR_OK;
}

/* ---- text ---- */

static enum err_code load_yaml(struct apiserver *a, const char *text, struct err *e)
{
    for (const char *p = text; *p;) {
        const char *end = p;
        while ((end = strstr(end, "---")) != NULL) {
            bool line = (end == text || end[-1] == '\n') &&
                        (end[3] == '\n' || end[3] == '\r' || end[3] == ' ' || !end[3]);
            if (line)
                break;
            end += 3;
        }
        size_t n = end ? (size_t)(end - p) : strlen(p);
        cJSON *j = NULL;
        enum err_code rc = from_yaml(p, n, &j, e);
        if (!rc && cJSON_IsObject(j))
            rc = load_json(a, j, e);
        cJSON_Delete(j);
        if (rc)
            return rc;
        p += n;
        if (end)
            p += 3 + strcspn(p + 3, "\n");
    }
    return ERR_OK;
}

enum err_code apiserver_load(struct apiserver *a, const char *text, struct err *e)
{
    const char *p = text + strspn(text, " \t\r\n");
    enum err_code rc = ERR_OK;
    cJSON *j = *p == '{' ? cJSON_Parse(p) : NULL;
    if (*p == '{' && !j)
        return err_set(e, ERR_PARSE, "objects: malformed JSON");
    api_lock(a);
    rc = j ? load_json(a, j, e) : load_yaml(a, text, e);
    api_unlock(a);
    cJSON_Delete(j);
    return rc;
}

enum err_code apiserver_load_file(struct apiserver *a, const char *path, struct err *e)
{
    struct buf b;
    enum err_code rc = file_read(path, LOAD_BYTES_MAX, &b, e);
    if (!rc)
        rc = apiserver_load(a, b.p, e);
    if (rc)
        err_wrap(e, "%s", path);
    buf_fini(&b);
    return rc;
}

void apiserver_must_load(struct apiserver *a, const char *text)
{
    struct err e;
    if (apiserver_load(a, text, &e)) {
        fprintf(stderr, "apiserver_must_load: %s\n%.2000s\n", e.msg, text);
        abort();
    }
}
