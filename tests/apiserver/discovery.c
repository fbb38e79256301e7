/* discovery.c - what is served, version, health. */
#include "tests/apiserver/api_priv.h"

#include <stdio.h>
#include <string.h>

static const char version_json[] = "{\"major\":\"1\",\"minor\":\"36\",\"emulationMajor\":\"1\","
                                   "\"emulationMinor\":\"36\",\"minCompatibilityMajor\":\"1\","
                                   "\"minCompatibilityMinor\":\"35\",\"gitVersion\":\"v1.36.2\","
                                   "\"gitCommit\":\"8e16b12fda5b1dccc41a6de48b3e356cc7d5048b\","
                                   "\"gitTreeState\":\"clean\",\"buildDate\":\"2026-08-21T00:00:"
                                   "00Z\",\"goVersion\":\"go1.26.11\",\"compiler\":\"gc\","
                                   "\"platform\":\"linux/amd64\"}";

static void csv(cJSON *to, const char *key, const char *list)
{
    if (!list)
        return;
    cJSON *a = api_js_list(to, key);
    for (const char *p = list; *p;) {
        size_t n = strcspn(p, ",");
        char one[64];
        snprintf(one, sizeof one, "%.*s", (int)n, p);
        cJSON_AddItemToArray(a, cJSON_CreateString(one));
        p += n + (p[n] == ',');
    }
}

static cJSON *resource(const char *name, const char *singular, bool namespaced, const char *kind,
                       const char *verbs)
{
    cJSON *r = cJSON_CreateObject();
    api_js_set_str(r, "name", name);
    api_js_set_str(r, "singularName", singular);
    api_js_set(r, "namespaced", cJSON_CreateBool(namespaced));
    api_js_set_str(r, "kind", kind);
    csv(r, "verbs", verbs);
    return r;
}

static cJSON *sub(const struct kind *k, const char *name, const char *kind, const char *group,
                  const char *version, const char *verbs)
{
    char full[128];
    snprintf(full, sizeof full, "%s/%s", k->plural, name);
    cJSON *r = resource(full, "", k->namespaced, kind, verbs);
    if (group) {
        api_js_set_str(r, "group", group);
        api_js_set_str(r, "version", version);
    }
    return r;
}

static void add_resources(cJSON *list, const struct kind *k)
{
    const char *verbs =
        (k->flags & KIND_REVIEW)          ? "create"
        : (k->flags & KIND_LATER)         ? "get,list"
        : (k->flags & KIND_NO_COLLECTION) ? "create,delete,get,list,patch,update,watch"
        : (k->flags & KIND_CUSTOM) ? "delete,deletecollection,get,list,patch,create,update,watch"
                                   : "create,delete,deletecollection,get,list,patch,update,watch";
    cJSON *r = resource(k->plural, k->singular, k->namespaced, k->name, verbs);
    csv(r, "shortNames", k->shorts);
    csv(r, "categories", k->categories);
    cJSON_AddItemToArray(list, r);
    bool pod = strcmp(k->plural, "pods") == 0 && !*k->group;
    if (pod) {
        cJSON_AddItemToArray(list, sub(k, "binding", "Binding", NULL, NULL, "create"));
        cJSON_AddItemToArray(list, sub(k, "eviction", "Eviction", "policy", "v1", "create"));
        cJSON_AddItemToArray(list, sub(k, "resize", "Pod", NULL, NULL, "get,patch,update"));
    }
    if (strcmp(k->plural, "serviceaccounts") == 0)
        cJSON_AddItemToArray(
            list, sub(k, "token", "TokenRequest", "authentication.k8s.io", "v1", "create"));
    if (k->flags & KIND_SCALE)
        cJSON_AddItemToArray(list,
                             sub(k, "scale", "Scale", "autoscaling", "v1", "get,patch,update"));
    if (k->flags & KIND_STATUS)
        cJSON_AddItemToArray(list, sub(k, "status", k->name, NULL, NULL, "get,patch,update"));
}

static bool resource_list(struct call *c, const char *group, const char *version)
{
    cJSON *j = cJSON_CreateObject(), *list = cJSON_CreateArray();
    char gv[112];
    snprintf(gv, sizeof gv, "%s%s%s", group, *group ? "/" : "", version);
    api_js_set_str(j, "kind", "APIResourceList");
    if (*group)
        api_js_set_str(j, "apiVersion", "v1");
    api_js_set_str(j, "groupVersion", gv);
    api_js_set(j, "resources", list);
    for (size_t i = 0; i < c->a->n_shelves; i++) {
        const struct shelf *s = c->a->shelf[i];
        if (s->served && strcmp(s->kind->group, group) == 0 &&
            strcmp(s->kind->version, version) == 0)
            add_resources(list, s->kind);
    }
    bool any = list->child != NULL;
    if (any)
        api_answer(c, 200, j);
    else
        api_fail_plain(c, 404, "404 page not found\n");
    cJSON_Delete(j);
    return any;
}

static cJSON *group_version(const struct kind *k)
{
    char gv[112];
    snprintf(gv, sizeof gv, "%s/%s", k->group, k->version);
    cJSON *v = cJSON_CreateObject();
    api_js_set_str(v, "groupVersion", gv);
    api_js_set_str(v, "version", k->version);
    return v;
}

/* One APIGroup; NULL when nothing of it is served. */
static cJSON *api_group(struct apiserver *a, const char *group)
{
    cJSON *g = NULL;
    for (size_t i = 0; i < a->n_shelves; i++) {
        const struct kind *k = a->shelf[i]->kind;
        if (!a->shelf[i]->served || strcmp(k->group, group) != 0)
            continue;
        if (!g) {
            g = cJSON_CreateObject();
            api_js_set_str(g, "name", group);
            api_js_list(g, "versions");
        }
        bool there = false;
        js_each (v, api_js_at(g, "versions"))
            there |= strcmp(api_js_str_or(v, "version", ""), k->version) == 0;
        if (!there)
            cJSON_AddItemToArray(api_js_list(g, "versions"), group_version(k));
        api_js_default(g, "preferredVersion", group_version(k));
    }
    return g;
}

static void group_list(struct call *c)
{
    cJSON *j = cJSON_CreateObject();
    api_js_set_str(j, "kind", "APIGroupList");
    api_js_set_str(j, "apiVersion", "v1");
    cJSON *groups = api_js_list(j, "groups");
    for (size_t i = 0; i < c->a->n_shelves; i++) {
        const char *name = c->a->shelf[i]->kind->group;
        bool there = !*name || !c->a->shelf[i]->served;
        js_each (g, groups)
            there |= strcmp(api_js_str_or(g, "name", ""), name) == 0;
        if (!there)
            cJSON_AddItemToArray(groups, api_group(c->a, name));
    }
    api_answer(c, 200, j);
    cJSON_Delete(j);
}

static void api_versions(struct call *c)
{
    cJSON *j = cJSON_CreateObject(), *one = cJSON_CreateObject();
    char at[32];
    snprintf(at, sizeof at, "127.0.0.1:%u", c->a->port);
    api_js_set_str(j, "kind", "APIVersions");
    cJSON_AddItemToArray(api_js_list(j, "versions"), cJSON_CreateString("v1"));
    api_js_set_str(one, "clientCIDR", "0.0.0.0/0");
    api_js_set_str(one, "serverAddress", at);
    cJSON_AddItemToArray(api_js_list(j, "serverAddressByClientCIDRs"), one);
    api_answer(c, 200, j);
    cJSON_Delete(j);
}

static void one_group(struct call *c, const char *group)
{
    cJSON *g = api_group(c->a, group);
    if (g) {
        cJSON *j = cJSON_CreateObject();
        api_js_set_str(j, "kind", "APIGroup");
        api_js_set_str(j, "apiVersion", "v1");
        for (cJSON *x = g->child; x; x = g->child) {
            cJSON_DetachItemViaPointer(g, x);
            cJSON_AddItemToObject(j, x->string, x);
        }
        api_answer(c, 200, j);
        cJSON_Delete(j);
    } else {
        api_fail_plain(c, 404, "404 page not found\n");
    }
    cJSON_Delete(g);
}

void api_discovery_run(struct call *c)
{
    char path[256], *part, *rest;
    snprintf(path, sizeof path, "%s", c->path);
    size_t n = strlen(path);
    while (n > 1 && path[n - 1] == '/')
        path[--n] = '\0';
    if (strcmp(path, "/version") == 0) {
        cJSON *j = cJSON_Parse(version_json);
        api_answer(c, 200, j);
        cJSON_Delete(j);
    } else if (strncmp(path, "/healthz", 8) == 0 || strncmp(path, "/livez", 6) == 0 ||
               strncmp(path, "/readyz", 7) == 0) {
        api_fail_plain(c, 200, "ok");
    } else if (strcmp(path, "/api") == 0) {
        api_versions(c);
    } else if (strcmp(path, "/apis") == 0) {
        group_list(c);
    } else if (strncmp(path, "/api/", 5) == 0) {
        resource_list(c, "", path + 5);
    } else if (strncmp(path, "/apis/", 6) == 0) {
        part = path + 6;
        rest = strchr(part, '/');
        if (rest)
            *rest++ = '\0';
        if (rest)
            resource_list(c, part, rest);
        else
            one_group(c, part);
    } else {
        api_fail_plain(c, 404, "404 page not found\n");
    }
}
