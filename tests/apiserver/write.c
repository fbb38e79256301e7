/* write.c - create, update, delete: what every resource has in common.
 *
 * An update that changes nothing leaves the version alone.  The generation counts changes of the
 * spec.  Where there is a /status, the main resource cannot write the status nor /status anything
 * else. */
#include "tests/apiserver/api_priv.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "base/num.h"
#include "base/utf8.h"

/* ---- bodies ---- */

static bool check_names(struct call *c, cJSON *j)
{
    const char *ns = api_js_str_or(j, "metadata.namespace", ""),
               *name = api_js_str_or(j, "metadata.name", "");
    if (*c->ns && *ns && strcmp(ns, c->ns) != 0)
        return api_fail_bad(c, "the namespace of the provided object does not match the namespace "
                               "sent on the request");
    if (*c->name && *name && strcmp(name, c->name) != 0)
        return api_fail_bad(c,
                            "the name of the object (%s) does not match the name on the URL (%s)",
                            name, c->name);
    return true;
}

/* kind and apiVersion may be left out by those who know the path. */
static bool check_kind(struct call *c, const cJSON *j)
{
    const struct kind *k = c->shelf->kind;
    char version[112];
    snprintf(version, sizeof version, "%s%s%s", k->group, *k->group ? "/" : "", k->version);
    const char *kind = api_js_str(j, "kind"), *api = api_js_str(j, "apiVersion");
    if (api && *api && strcmp(api, version) != 0)
        return api_fail_bad(
            c, "the API version in the data (%s) does not match the expected API version (%s)", api,
            version);
    if (kind && *kind && strcmp(kind, k->name) != 0)
        return api_fail_bad(c,
                            "%s in version \"%s\" cannot be handled as a %s: no kind \"%s\" is "
                            "registered for the internal version "
                            "of group \"%s\"",
                            kind, k->version, k->name, kind, k->group);
    if ((k->flags & KIND_CUSTOM) && (!kind || !api))
        return api_fail_bad(c, "error decoding: Object 'Kind' is missing in '%.200s'", c->body);
    return true;
}

static bool is_yaml(const struct call *c)
{
    return c->content_type && strstr(c->content_type, "yaml");
}

static bool parse_body(struct call *c, cJSON **out)
{
    if (is_yaml(c) || (c->content_type && !strstr(c->content_type, "json")))
        return api_fail(c, 415, "UnsupportedMediaType", cJSON_CreateObject(),
                        "415: Unsupported Media Type");
    if (utf8_valid_prefix(c->body, c->n_body) != c->n_body)
        return api_fail_bad(c, "error decoding: invalid UTF-8");
    *out = cJSON_ParseWithLength(c->body, c->n_body);
    if (cJSON_IsObject(*out))
        return true;
    cJSON_Delete(*out);
    *out = NULL;
    return api_fail_bad(c,
                        "the object provided is unrecognized (must be of type %s): couldn't get "
                        "version/kind; json parse error: "
                        "unexpected end of JSON input",
                        c->shelf ? c->shelf->kind->name : "Object");
}

cJSON *api_write_body(struct call *c)
{
    cJSON *j = NULL;
    if (!parse_body(c, &j))
        return NULL;
    const struct kind *k = c->shelf->kind;
    char wrong[512], field[256];
    const char *validation = api_call_query(c, "fieldValidation");
    api_kind_decode(k, j, false, wrong, sizeof wrong);
    api_field_unknown(c->shelf, j, field, sizeof field);
    if (!*wrong && *field && validation && strcmp(validation, "Strict") == 0)
        snprintf(wrong, sizeof wrong, "strict decoding error: unknown field \"%s\"", field);
    bool ok = check_kind(c, j) && check_names(c, j);
    if (ok && *wrong)
        ok = api_fail_bad(c, "%s in version \"%s\" cannot be handled as a %s: %s", k->name,
                          k->version, k->name, wrong);
    if (ok) {
        api_js_drop(api_js_obj(j, "metadata"), "managedFields");
        api_js_drop(api_js_obj(j, "metadata"), "selfLink");
        return j;
    }
    cJSON_Delete(j);
    return NULL;
}

/* ---- create ---- */

static bool good_name(const char *name, bool path)
{
    size_t n = strlen(name);
    if (n == 0 || n > 253)
        return false;
    if (path) /* RBAC names may hold colons */
        return strcmp(name, ".") != 0 && strcmp(name, "..") != 0 && !strpbrk(name, "/%");
    for (size_t i = 0; i < n; i++) {
        char ch = name[i];
        bool alnum = (ch >= 'a' && ch <= 'z') || (ch >= '0' && ch <= '9');
        if (!alnum && (i == 0 || i == n - 1 || (ch != '-' && ch != '.')))
            return false;
    }
    return true;
}

static bool check_name(struct call *c, const struct kind *k, const cJSON *j)
{
    const char *name = api_js_str_or(j, "metadata.name", "");
    struct causes l = {0};
    if (!*name)
        api_cause(&l, REQUIRED, "metadata.name",
                  "Required value: name or generateName is required");
    else if (!good_name(name, strcmp(k->group, "rbac.authorization.k8s.io") == 0))
        api_cause(
            &l, INVALID, "metadata.name",
            "Invalid value: \"%.300s\": a lowercase RFC 1123 subdomain must consist of lower case "
            "alphanumeric characters, '-' or '.', and must start and end with an alphanumeric "
            "character",
            name);
    return api_causes_none(&l) || api_fail_invalid(c, k->name, k->group, name, &l);
}

static bool check_namespace(struct call *c, const struct kind *k)
{
    if (!k->namespaced)
        return true;
    const struct obj *ns = api_store_get(api_store_core(c->a, "namespaces"), NULL, c->ns);
    if (!ns)
        return api_fail(c, 404, "NotFound", api_detail(c->ns, NULL, "namespaces"),
                        "namespaces \"%s\" not found", c->ns);
    return true;
}

static void fresh_metadata(struct call *c, const struct kind *k, cJSON *j)
{
    cJSON *m = api_js_obj(j, "metadata");
    const char *gen = api_js_str(m, "generateName");
    char uid[37], text[320], suffix[6];
    if (gen && *gen && !*api_js_str_or(m, "name", "")) {
        api_store_suffix(c->a, suffix);
        snprintf(text, sizeof text, "%.250s%s", gen, suffix);
        api_js_set_str(m, "name", text);
    }
    if (k->namespaced)
        api_js_set_str(m, "namespace", c->ns);
    else
        api_js_drop(m, "namespace");
    api_store_uid(c->a, uid);
    api_js_set_str(m, "uid", uid);
    api_js_set_str(m, "creationTimestamp", api_call_time(c->a, text));
    api_js_drop(m, "deletionTimestamp");
    api_js_drop(m, "deletionGracePeriodSeconds");
    api_js_drop(m, "generation");
    if (k->flags & KIND_GENERATION)
        api_js_set_num(m, "generation", 1);
}

/* What the schema leaves out is gone afterwards, its defaults are in. */
static bool check_object(struct call *c, const struct shelf *s, const cJSON *was, cJSON *j,
                         const char *name)
{
    const struct kind *k = s->kind;
    struct causes l = {0};
    size_t bytes = 0;
    if (s->crd && s->crd->schema)
        api_schema_apply(s->crd->schema, j, &l);
    js_each (x, api_js_at(j, "metadata.annotations"))
        bytes += strlen(x->string) + (cJSON_IsString(x) ? strlen(x->valuestring) : 0);
    if (bytes > ANNOTATION_BYTES_MAX)
        api_cause(&l, "FieldValueTooLong", "metadata.annotations",
                  "Too long: may not be more than %d bytes", ANNOTATION_BYTES_MAX);
    api_kind_check(c->a, k, was, j, &l);
    double replicas = (k->flags & KIND_CUSTOM) && k->replicas_path
                          ? api_js_num(j, k->replicas_path + (*k->replicas_path == '.'), 0)
                          : 0;
    if (replicas < 0)
        api_cause(&l, INVALID, k->replicas_path,
                  "Invalid value: %d: should be a non-negative integer", (int)replicas);
    return api_causes_none(&l) || api_fail_invalid(c, k->name, k->group, name, &l);
}

static bool admit(struct call *c, struct shelf *s, cJSON *j)
{
    const struct kind *k = s->kind;
    if (api_js_str(j, "metadata.resourceVersion") && *api_js_str(j, "metadata.resourceVersion"))
        return api_fail(c, 500, NULL, NULL,
                        "resourceVersion should not be set on objects to be created");
    if (!check_namespace(c, k))
        return false;
    fresh_metadata(c, k, j);
    if ((k->flags & KIND_STATUS) && strcmp(k->plural, "nodes") != 0)
        api_js_drop(j, "status");
    api_kind_defaults(c->a, k, j);
    if (!check_name(c, k, j) || !check_object(c, s, NULL, j, api_js_str_or(j, "metadata.name", "")))
        return false;
    return strcmp(k->plural, "pods") != 0 || api_pod_admit(c, j);
}

bool api_write_insert(struct call *c, struct shelf *s, cJSON *j)
{
    const struct kind *k = s->kind;
    if (!admit(c, s, j))
        return false;
    const char *name = api_js_str(j, "metadata.name");
    if (api_store_get(s, k->namespaced ? c->ns : NULL, name))
        return api_fail(c, 409, "AlreadyExists", api_detail(name, k->group, k->plural),
                        "%s%s%s \"%s\" already exists", k->plural, *k->group ? "." : "", k->group,
                        name);
    if (c->dry_run) {
        api_js_set_str(j, "kind", k->name);
        api_answer(c, 201, j);
        return true;
    }
    struct obj *o = api_store_put(c->a, s, j);
    c->wrote = true;
    if (strcmp(k->plural, "customresourcedefinitions") == 0)
        api_crd_created(c->a, o);
    api_answer_obj(c, 201, s, o);
    return true;
}

void api_write_create(struct call *c)
{
    cJSON *j = api_write_body(c);
    if (j && *c->name)
        api_js_set_str(api_js_obj(j, "metadata"), "name", c->name);
    if (j && api_write_insert(c, c->shelf, j))
        snprintf(c->name, sizeof c->name, "%s", api_js_str_or(j, "metadata.name", ""));
    cJSON_Delete(j);
}

/* ---- update ---- */

static void keep_metadata(const cJSON *was, cJSON *now)
{
    static const char *const fixed[] = {"name",
                                        "namespace",
                                        "uid",
                                        "creationTimestamp",
                                        "generation",
                                        "generateName",
                                        "deletionTimestamp",
                                        "deletionGracePeriodSeconds",
                                        "resourceVersion"};
    cJSON *m = api_js_obj(now, "metadata");
    for (size_t i = 0; i < ARRAY_LEN(fixed); i++) {
        const cJSON *v = cJSON_GetObjectItemCaseSensitive(api_js_at(was, "metadata"), fixed[i]);
        api_js_drop(m, fixed[i]);
        if (v)
            cJSON_AddItemToObject(m, fixed[i], cJSON_Duplicate(v, true));
    }
    api_js_drop(m, "managedFields");
    api_js_drop(m, "selfLink");
}

static void take_from(cJSON *to, const cJSON *from, const char *key)
{
    const cJSON *v = cJSON_GetObjectItemCaseSensitive(from, key);
    api_js_drop(to, key);
    if (v)
        cJSON_AddItemToObject(to, key, cJSON_Duplicate(v, true));
}

/* Everything but the status, of which the writer of /status has no say.  Labels and annotations of
 * built-in kinds are an exception that real servers make too. */
static void keep_all_but_status(const struct kind *k, const cJSON *was, cJSON *now)
{
    cJSON *key = now->child;
    while (key) {
        cJSON *next = key->next;
        if (strcmp(key->string, "status") != 0 && strcmp(key->string, "metadata") != 0)
            api_js_drop(now, key->string);
        key = next;
    }
    js_each (x, was) {
        if (strcmp(x->string, "status") != 0 && strcmp(x->string, "metadata") != 0)
            cJSON_AddItemToObject(now, x->string, cJSON_Duplicate(x, true));
    }
    if (k->flags & KIND_CUSTOM)
        take_from(now, was, "metadata");
}

static bool spec_changed(const struct kind *k, const cJSON *was, const cJSON *now)
{
    if (!(k->flags & KIND_CUSTOM))
        return !api_js_same(cJSON_GetObjectItemCaseSensitive(was, "spec"),
                            cJSON_GetObjectItemCaseSensitive(now, "spec"));
    cJSON *a = cJSON_Duplicate(was, true), *b = cJSON_Duplicate(now, true);
    cJSON *pair[] = {a, b};
    for (int i = 0; i < 2; i++) {
        api_js_drop(pair[i], "metadata");
        api_js_drop(pair[i], "kind");
        api_js_drop(pair[i], "apiVersion");
        if (k->flags & KIND_STATUS)
            api_js_drop(pair[i], "status");
    }
    bool same = api_js_same(a, b);
    cJSON_Delete(a);
    cJSON_Delete(b);
    return !same;
}

/* The uid and version the writer thinks it changes. */
static bool check_preconditions(struct call *c, const struct obj *old, const cJSON *j)
{
    const char *rv = api_js_str_or(j, "metadata.resourceVersion", ""),
               *uid = api_js_str_or(j, "metadata.uid", "");
    char is[24];
    snprintf(is, sizeof is, "%llu", (unsigned long long)old->rv);
    if (*uid && strcmp(uid, old->uid) != 0)
        return api_fail(c, 409, "Conflict", api_detail(old->name, c->group, c->resource),
                        "Operation cannot be fulfilled on %s%s%s \"%s\": StorageError: invalid "
                        "object, Code: 4, Key: /registry/%s/%s, "
                        "ResourceVersion: 0, AdditionalErrorMsg: Precondition failed: UID in "
                        "precondition: %s, UID in object meta: %s",
                        c->resource, *c->group ? "." : "", c->group, old->name, c->resource,
                        old->key, uid, old->uid);
    return !*rv || strcmp(rv, is) == 0 || api_fail_conflict(c, old->name);
}

static bool ready_update(struct call *c, cJSON *was, cJSON *now, const char *sub)
{
    const struct shelf *s = c->shelf;
    const struct kind *k = s->kind;
    api_js_drop(now, "kind");
    api_js_drop(now, "apiVersion");
    keep_metadata(was, now);
    if (strcmp(sub, "status") == 0)
        keep_all_but_status(k, was, now);
    else if (k->flags & KIND_STATUS)
        take_from(now, was, "status");
    api_kind_normal(k, now);
    if (!*sub && strcmp(k->plural, "pods") == 0)
        api_pod_add_tolerations(api_js_obj(now, "spec"));
    if (!check_object(c, s, was, now, api_js_str_or(was, "metadata.name", "")))
        return false;
    if (!*sub && strcmp(k->plural, "pods") == 0) {
        struct causes l = {0};
        api_pod_check_update(was, now, &l);
        if (!api_causes_none(&l))
            return api_fail_invalid(c, k->name, k->group, api_js_str_or(was, "metadata.name", ""),
                                    &l);
    }
    return true;
}

/* A terminating object goes when its last finalizer does. */
static bool gone(const cJSON *j)
{
    return api_js_str(j, "metadata.deletionTimestamp") &&
           cJSON_GetArraySize(api_js_at(j, "metadata.finalizers")) == 0 &&
           api_js_num(j, "metadata.deletionGracePeriodSeconds", 0) == 0;
}

static void store_update(struct call *c, struct obj *old, cJSON *was, cJSON *now, int status)
{
    struct shelf *s = c->shelf;
    if (api_js_same(was, now)) {
        api_answer_obj(c, status, s, old);
        return;
    }
    c->wrote = true;
    if (gone(now)) {
        api_obj_ref(old);
        api_store_delete(c->a, s, old, now);
        api_js_set_str(now, "kind", s->kind->name);
        api_answer(c, status, now);
        api_obj_unref(old);
        return;
    }
    struct obj *o = api_store_put(c->a, s, now);
    if (strcmp(s->kind->plural, "customresourcedefinitions") == 0)
        api_crd_changed(c->a, o);
    api_answer_obj(c, status, s, o);
}

void api_write_commit(struct call *c, struct obj *old, cJSON *now, const char *sub, int status)
{
    const struct kind *k = c->shelf->kind;
    cJSON *was = api_obj_parse(old);
    if (check_preconditions(c, old, now) && ready_update(c, was, now, sub)) {
        if ((k->flags & KIND_GENERATION) && strcmp(sub, "status") != 0 && spec_changed(k, was, now))
            api_js_set_num(api_js_obj(now, "metadata"), "generation",
                           api_js_num(was, "metadata.generation", 0) + 1);
        if (c->dry_run) {
            api_js_set_str(now, "kind", k->name);
            api_answer(c, status, now);
        } else {
            store_update(c, old, was, now, status);
        }
    }
    cJSON_Delete(was);
    cJSON_Delete(now);
}

void api_write_update(struct call *c)
{
    const struct kind *k = c->shelf->kind;
    cJSON *j = api_write_body(c);
    if (!j)
        return;
    if (!*api_js_str_or(j, "metadata.name", "")) {
        cJSON_Delete(j);
        api_fail_bad(c, "name is required");
        return;
    }
    struct obj *old = api_store_get(c->shelf, c->ns, c->name);
    const char *rv = api_js_str_or(j, "metadata.resourceVersion", "");
    struct causes l = {0};
    if (old && !*rv && (k->flags & KIND_VERSIONED_PUT)) {
        api_cause(&l, INVALID, "metadata.resourceVersion",
                  "Invalid value: 0: must be specified for an update");
        api_fail_invalid(c, c->resource, c->group, old->name, &l);
        /* Here, unlike elsewhere, details name the resource. */
    } else if (old) {
        api_write_commit(c, old, j, c->sub, 200);
        return;
    } else if (*rv || *c->sub) {
        api_fail_not_found(c, c->name);
    } else if (strcmp(k->plural, "leases") == 0) { /* create on update */
        api_write_insert(c, c->shelf, j);
    } else {
        api_fail_not_found(c, c->name);
    }
    cJSON_Delete(j);
}

/* ---- delete ---- */

struct delete_opts {
    int64_t grace_s; /* -1: default */
    const char *uid, *rv, *propagation;
    cJSON *body; /* owner of the texts */
};

/* The body wins over the query. */
static bool delete_opts(struct call *c, struct delete_opts *o)
{
    *o = (struct delete_opts){.grace_s = -1, .propagation = api_call_query(c, "propagationPolicy")};
    const char *grace = api_call_query(c, "gracePeriodSeconds");
    if (grace && !num_i64(grace, strlen(grace), &o->grace_s))
        return api_fail_bad(c, "gracePeriodSeconds: %s", grace);
    if (c->n_body == 0)
        return true;
    if (!parse_body(c, &o->body))
        return false;
    o->grace_s = (int64_t)api_js_num(o->body, "gracePeriodSeconds", -1);
    o->uid = api_js_str(o->body, "preconditions.uid");
    o->rv = api_js_str(o->body, "preconditions.resourceVersion");
    o->propagation = api_js_str(o->body, "propagationPolicy");
    js_each (d, api_js_at(o->body, "dryRun"))
        c->dry_run |= cJSON_IsString(d) && strcmp(d->valuestring, "All") == 0;
    return true;
}

static bool check_delete(struct call *c, const struct delete_opts *d, const struct obj *o)
{
    char rv[24];
    snprintf(rv, sizeof rv, "%llu", (unsigned long long)o->rv);
    const struct kind *k = c->shelf->kind;
    if (d->uid && strcmp(d->uid, o->uid) != 0)
        return api_fail(c, 409, "Conflict", api_detail(o->name, k->group, k->name),
                        "Operation cannot be fulfilled on %s \"%s\": the UID in the precondition "
                        "(%s) does not match the UID in record "
                        "(%s). The object might have been deleted and then recreated",
                        k->name, o->name, d->uid, o->uid);
    if (d->rv && strcmp(d->rv, rv) != 0)
        return api_fail(c, 409, "Conflict", api_detail(o->name, k->group, k->name),
                        "Operation cannot be fulfilled on %s \"%s\": the ResourceVersion in the "
                        "precondition (%s) does not match the "
                        "ResourceVersion in record (%s). The object might have been modified",
                        k->name, o->name, d->rv, rv);
    return true;
}

static void remove_namespace(struct apiserver *a, const char *ns)
{
    for (size_t i = 0; i < a->n_shelves; i++) {
        struct shelf *s = a->shelf[i];
        for (size_t k = s->n; s->kind->namespaced && k > 0; k--) {
            if (strcmp(s->v[k - 1]->ns, ns) == 0)
                api_store_delete(a, s, s->v[k - 1], NULL);
        }
    }
}

void api_remove_obj(struct apiserver *a, struct shelf *s, struct obj *o)
{
    api_obj_ref(o);
    api_store_delete(a, s, o, NULL);
    if (strcmp(s->kind->plural, "namespaces") == 0)
        remove_namespace(a, o->name);
    if (strcmp(s->kind->plural, "customresourcedefinitions") == 0)
        api_crd_deleted(a, o);
    api_obj_unref(o);
}

/* Marks it terminating; returns the new version.  grace < 0: the field stays out. */
static struct obj *mark(struct call *c, struct obj *o, cJSON *j, int64_t grace_s)
{
    char at[32];
    cJSON *m = api_js_obj(j, "metadata");
    api_js_set_str(m, "deletionTimestamp",
                   api_time_text(api_now_us(c->a) + (grace_s > 0 ? grace_s : 0) * US_PER_S, at));
    if (grace_s >= 0)
        api_js_set_num(m, "deletionGracePeriodSeconds", (double)grace_s);
    if (c->shelf->kind->flags & KIND_GENERATION)
        api_js_set_num(m, "generation", api_js_num(m, "generation", 0) + 1);
    (void)o;
    return api_store_put(c->a, c->shelf, j);
}

static void delete_pod(struct call *c, const struct delete_opts *d, struct obj *o, cJSON *j)
{
    int64_t grace = d->grace_s >= 0
                        ? d->grace_s
                        : (int64_t)api_js_num(j, "spec.terminationGracePeriodSeconds", 30);
    bool ended = strcmp(o->phase, "Succeeded") == 0 || strcmp(o->phase, "Failed") == 0;
    bool marked = api_js_str(j, "metadata.deletionTimestamp");
    if (!*o->node || ended)
        grace = 0;
    if (marked && grace >= (int64_t)api_js_num(j, "metadata.deletionGracePeriodSeconds", 0) &&
        grace > 0) {
        api_answer_obj(c, 200, c->shelf, o);
        return;
    }
    c->wrote = true;
    o = mark(c, o, j, grace);
    api_obj_ref(o);
    api_answer_obj(c, 200, c->shelf, o);
    if (grace == 0 && cJSON_GetArraySize(api_js_at(j, "metadata.finalizers")) == 0)
        api_remove_obj(c->a, c->shelf, o);
    api_obj_unref(o);
}

static void delete_any(struct call *c, const struct delete_opts *d, struct obj *o, cJSON *j)
{
    const struct kind *k = c->shelf->kind;
    c->wrote = true;
    if (cJSON_GetArraySize(api_js_at(j, "metadata.finalizers")) > 0) {
        if (!api_js_str(j, "metadata.deletionTimestamp"))
            o = mark(c, o, j, 0);
        api_answer_obj(c, 200, c->shelf, o);
        return;
    }
    cJSON *details = api_detail(o->name, k->group, k->plural);
    cJSON_AddStringToObject(details, "uid", o->uid);
    api_answer_success(c, 200, details);
    c->a->orphan = d->propagation && strcmp(d->propagation, "Orphan") == 0;
    api_remove_obj(c->a, c->shelf, o);
    c->a->orphan = false;
}

static void delete_one(struct call *c, const struct delete_opts *d, struct obj *o)
{
    cJSON *j = api_obj_parse(o);
    if (c->dry_run)
        api_answer_obj(c, 200, c->shelf, o);
    else if (strcmp(c->shelf->kind->plural, "pods") == 0)
        delete_pod(c, d, o, j);
    else
        delete_any(c, d, o, j);
    cJSON_Delete(j);
}

void api_write_delete(struct call *c)
{
    struct obj *o = api_store_get(c->shelf, c->ns, c->name);
    struct delete_opts d;
    if (!o) {
        api_fail_not_found(c, c->name);
        return;
    }
    if (delete_opts(c, &d) && check_delete(c, &d, o))
        delete_one(c, &d, o);
    cJSON_Delete(d.body);
}

void api_write_delete_collection(struct call *c)
{
    struct delete_opts d;
    struct selector *sel = NULL;
    if (delete_opts(c, &d) && api_selector_parse(c, &sel)) {
        api_list_run(c); /* the answer: what was there */
        struct server_reply keep = *c->out;
        for (size_t i = c->shelf->n; i > 0; i--) {
            struct obj *o = c->shelf->v[i - 1];
            if ((*c->ns && strcmp(o->ns, c->ns) != 0) || !api_selector_matches(sel, o))
                continue;
            c->out->body = (struct buf){0};
            delete_one(c, &d, o);
            buf_fini(&c->out->body);
        }
        *c->out = keep;
    }
    api_selector_free(sel);
    cJSON_Delete(d.body);
}
