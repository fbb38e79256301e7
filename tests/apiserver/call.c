/* call.c - one request: path to resource and verb, the checks every request passes, the verb. */
#include "tests/apiserver/api_priv.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* ---- time ---- */

int64_t api_now_us(const struct apiserver *a)
{
    double real = (double)(clock_mono_us() - a->mono_start_us);
    return a->o.time_origin_us + (int64_t)(real * a->o.time_scale);
}

const char *api_time_text(int64_t us, char out[32])
{
    time_t t = (time_t)(us / US_PER_S);
    struct tm tm;
    gmtime_r(&t, &tm);
    strftime(out, 32, "%Y-%m-%dT%H:%M:%SZ", &tm);
    return out;
}

const char *api_call_time(struct apiserver *a, char out[32])
{
    return api_time_text(api_now_us(a), out);
}

int64_t api_time_parse(const char *s)
{
    struct tm tm = {0};
    const char *rest = strptime(s, "%Y-%m-%dT%H:%M:%S", &tm);
    if (!rest)
        return -1;
    int64_t us = timegm(&tm) * US_PER_S;
    if (*rest == '.') {
        int64_t unit = US_PER_S / 10;
        for (rest++; *rest >= '0' && *rest <= '9'; rest++, unit /= 10)
            us += (*rest - '0') * unit;
    }
    return strcmp(rest, "Z") == 0 || strcmp(rest, "+00:00") == 0 ? us : -1;
}

/* ---- parameters ---- */

const char *api_call_query(const struct call *c, const char *key)
{
    if (c->http)
        return server_query(c->http, key);
    for (size_t i = 0; i < c->n_params; i++) {
        if (strcmp(c->param[i].key, key) == 0)
            return c->param[i].value;
    }
    return NULL;
}

bool api_call_flag(const struct call *c, const char *key)
{
    const char *v = api_call_query(c, key);
    return v && (strcmp(v, "1") == 0 || strcmp(v, "true") == 0 || strcmp(v, "True") == 0);
}

/* ---- path ---- */

enum { PARTS_MAX = 10, PART_MAX = 256 };

static int split(const char *path, char part[PARTS_MAX][PART_MAX])
{
    int n = 0;
    for (const char *p = path; *p;) {
        p += *p == '/';
        size_t len = strcspn(p, "/");
        if (len == 0)
            break;
        if (n == PARTS_MAX || len >= PART_MAX)
            return -1;
        memcpy(part[n], p, len);
        part[n++][len] = '\0';
        p += len;
    }
    return n;
}

static void set(char *to, size_t n, const char *s) /* cut when too long: no such name exists */
{
    snprintf(to, n, "%.*s", (int)n - 1, s);
}
#define SET(field, s) set(c->field, sizeof c->field, (s))

static void set_verb(struct call *c)
{
    static const struct {
        const char *method, *one, *all;
    } table[] = {
        {"GET", "get", "list"},       {"HEAD", "get", "list"},
        {"POST", "create", "create"}, {"PUT", "update", "update"},
        {"PATCH", "patch", "patch"},  {"DELETE", "delete", "deletecollection"},
    };
    for (size_t i = 0; i < ARRAY_LEN(table); i++) {
        if (strcmp(c->method, table[i].method) == 0)
            SET(verb, *c->name ? table[i].one : table[i].all);
    }
    if (strcmp(c->verb, "list") == 0 && api_call_flag(c, "watch"))
        SET(verb, "watch");
}

void api_call_parse_path(struct call *c)
{
    char part[PARTS_MAX][PART_MAX];
    int n = split(c->path, part), at = 0;
    bool core = n >= 3 && strcmp(part[0], "api") == 0,
         named = n >= 4 && strcmp(part[0], "apis") == 0;
    if (!core && !named) {
        for (const char *m = c->method; *m && strlen(c->verb) + 1 < sizeof c->verb; m++)
            c->verb[strlen(c->verb)] = (char)(*m | 0x20);
        return;
    }
    c->is_resource = true;
    SET(group, named ? part[1] : "");
    SET(version, part[named ? 2 : 1]);
    at = named ? 3 : 2;
    if (strcmp(part[at], "namespaces") == 0 && n - at > 2 && strcmp(part[at + 2], "status") != 0 &&
        strcmp(part[at + 2], "finalize") != 0) {
        SET(ns, part[at + 1]);
        at += 2;
    }
    SET(resource, part[at]);
    SET(name, n > at + 1 ? part[at + 1] : "");
    SET(sub, n > at + 2 ? part[at + 2] : "");
    set_verb(c);
    if (strcmp(c->resource, "namespaces") == 0 && *c->name && !*c->ns && *c->sub == '\0')
        c->sub[0] = '\0';
    if (n > at + 3)
        c->verb[0] = '\0'; /* proxies and the like */
    c->shelf = api_store_shelf(c->a, c->group, c->version, c->resource);
    if (c->shelf && !c->shelf->served)
        c->shelf = NULL;
}

/* ---- dispatch ---- */

static void not_allowed(struct call *c)
{
    api_fail(c, 405, "MethodNotAllowed", cJSON_CreateObject(),
             "the server does not allow this method on the requested resource");
}

static void get(struct call *c)
{
    struct obj *o = api_store_get(c->shelf, c->ns, c->name);
    if (!o) {
        api_fail_not_found(c, c->name);
    } else if (c->accept && strstr(c->accept, "as=PartialObjectMetadata;")) {
        cJSON *j = api_obj_parse(o), *p = cJSON_CreateObject();
        api_js_set_str(p, "kind", "PartialObjectMetadata");
        api_js_set_str(p, "apiVersion", "meta.k8s.io/v1");
        api_js_set(p, "metadata", cJSON_Duplicate(api_js_at(j, "metadata"), true));
        api_answer(c, 200, p);
        cJSON_Delete(p);
        cJSON_Delete(j);
    } else {
        api_answer_obj(c, 200, c->shelf, o);
    }
}

static void subresource(struct call *c)
{
    const struct kind *k = c->shelf->kind;
    bool pod = strcmp(k->plural, "pods") == 0 && !*k->group, post = strcmp(c->method, "POST") == 0;
    if (strcmp(c->sub, "status") == 0 && (k->flags & KIND_STATUS)) {
        if (strcmp(c->verb, "get") == 0)
            get(c);
        else if (strcmp(c->verb, "update") == 0)
            api_write_update(c);
        else if (strcmp(c->verb, "patch") == 0)
            api_write_patch(c);
        else
            not_allowed(c);
    } else if (strcmp(c->sub, "scale") == 0 && (k->flags & KIND_SCALE)) {
        api_scale_run(c);
    } else if (pod && strcmp(c->sub, "binding") == 0 && post) {
        api_pod_binding(c);
    } else if (pod && strcmp(c->sub, "eviction") == 0 && post) {
        api_pod_eviction(c);
    } else if (pod && strcmp(c->sub, "resize") == 0) {
        api_pod_resize(c);
    } else if (strcmp(k->plural, "serviceaccounts") == 0 && strcmp(c->sub, "token") == 0 && post) {
        api_review_run(c);
    } else {
        api_fail_plain(c, 404, "404 page not found\n");
    }
}

static void dispatch(struct call *c)
{
    const struct kind *k = c->shelf->kind;
    bool many = k->namespaced && !*c->ns; /* all namespaces: reading only */
    if (*c->sub) {
        subresource(c);
    } else if (k->flags & KIND_REVIEW) {
        if (strcmp(c->verb, "create") != 0 || *c->name)
            not_allowed(c);
        else if (strcmp(k->plural, "bindings") == 0)
            api_pod_binding(c);
        else
            api_review_run(c);
    } else if (strcmp(c->verb, "get") == 0 && !many) {
        get(c);
    } else if (strcmp(c->verb, "list") == 0) {
        api_list_run(c);
    } else if (strcmp(c->verb, "watch") == 0) {
        api_watch_run(c);
    } else if (strcmp(c->verb, "create") == 0 && !*c->name && !many) {
        api_write_create(c);
    } else if (strcmp(c->verb, "update") == 0 && *c->name && !many) {
        api_write_update(c);
    } else if (strcmp(c->verb, "patch") == 0 && *c->name && !many) {
        api_write_patch(c);
    } else if (strcmp(c->verb, "delete") == 0 && !many) {
        api_write_delete(c);
    } else if (strcmp(c->verb, "deletecollection") == 0 && !many &&
               !(k->flags & KIND_NO_COLLECTION)) {
        api_write_delete_collection(c);
    } else {
        not_allowed(c);
    }
}

/* A group whose APIService has no backend here. */
static bool absent_backend(struct call *c)
{
    char name[112];
    snprintf(name, sizeof name, "%s.%s", c->version, c->group);
    const struct obj *o =
        *c->group ? api_store_get(api_store_core(c->a, "apiservices"), NULL, name) : NULL;
    cJSON *j = o ? api_obj_parse(o) : NULL;
    bool absent = api_js_at(j, "spec.service") != NULL;
    cJSON_Delete(j);
    return absent;
}

static void run_resource(struct call *c)
{
    if (!c->shelf) {
        if (absent_backend(c))
            api_fail_plain(c, 503, "service unavailable\n");
        else
            api_fail_plain(c, 404, "404 page not found\n");
        return;
    }
    const char *dry = api_call_query(c, "dryRun");
    c->dry_run = dry && strcmp(dry, "All") == 0;
    if (c->n_body > BODY_BYTES_MAX) {
        server_reply_header(c->out, "Connection", "close");
        api_fail(c, 413, "RequestEntityTooLarge", NULL, "Request entity too large: limit is %d",
                 BODY_BYTES_MAX);
        return;
    }
    dispatch(c);
}

void api_call_run(struct call *c)
{
    api_crd_tick(c->a);
    api_call_parse_path(c);
    if (!c->inside && !api_auth_user(c))
        return;
    if (!c->inside && api_fault_before(c))
        return;
    if (!c->inside && !api_auth_allowed(c))
        return;
    if (c->is_resource)
        run_resource(c);
    else
        api_discovery_run(c);
    c->did = c->out->status;
    if (!c->inside)
        api_fault_after(c);
}
