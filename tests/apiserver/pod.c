/* pod.c - pods: admission, binding, eviction, resize. */
#include "tests/apiserver/api_priv.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- quantities ---- */

int64_t api_quantity_milli(const char *s, bool *ok)
{
    static const struct {
        const char *suffix;
        double unit;
    } table[] = {{"", 1},
                 {"m", 1e-3},
                 {"k", 1e3},
                 {"M", 1e6},
                 {"G", 1e9},
                 {"T", 1e12},
                 {"P", 1e15},
                 {"Ki", 1024.0},
                 {"Mi", 1048576.0},
                 {"Gi", 1073741824.0},
                 {"Ti", 1099511627776.0},
                 {"Pi", 1125899906842624.0},
                 {"u", 1e-6},
                 {"n", 1e-9}};
    char *end;
    double v = strtod(s, &end);
    *ok = false;
    for (size_t i = 0; end != s && i < ARRAY_LEN(table); i++) {
        if (strcmp(end, table[i].suffix) == 0) {
            *ok = fabs(v * table[i].unit) < 9e15;
            return *ok ? (int64_t)ceil(v * table[i].unit * 1000 - 1e-9) : 0;
        }
    }
    return 0;
}

void api_quantity_text(int64_t milli, char out[32])
{
    if (milli % 1000 == 0)
        snprintf(out, 32, "%lld", (long long)(milli / 1000));
    else
        snprintf(out, 32, "%lldm", (long long)milli);
}

int64_t api_js_quantity(const cJSON *v)
{
    bool ok;
    if (cJSON_IsNumber(v))
        return (int64_t)(v->valuedouble * 1000);
    return cJSON_IsString(v) ? api_quantity_milli(v->valuestring, &ok) : 0;
}

/* As a server stores them: always text, "0.5" as "500m". */
void api_quantities_canonical(cJSON *map)
{
    js_each (v, map) {
        char text[32];
        bool decimal = cJSON_IsString(v) && strchr(v->valuestring, '.') &&
                       !strpbrk(v->valuestring, "KMGTPkmun");
        if (!cJSON_IsNumber(v) && !decimal)
            continue;
        api_quantity_text(api_js_quantity(v), text);
        api_js_set_str_at(v, text);
    }
}

bool api_pod_ready(const cJSON *pod)
{
    js_each (x, api_js_at(pod, "status.conditions")) {
        if (strcmp(api_js_str_or(x, "type", ""), "Ready") == 0)
            return strcmp(api_js_str_or(x, "status", ""), "True") == 0;
    }
    return false;
}

/* ---- admission ---- */

static bool forbidden(struct call *c, const char *name, const char *text)
{
    return api_fail(c, 403, "Forbidden", api_detail(name, NULL, "pods"),
                    "pods \"%s\" is forbidden: %s", name, text);
}

static bool admit_priority(struct call *c, cJSON *pod)
{
    cJSON *spec = api_js_obj(pod, "spec");
    const char *class = api_js_str_or(spec, "priorityClassName", ""),
               *name = api_js_str_or(pod, "metadata.name", "");
    double computed = 0;
    char text[400];
    if (*class) {
        const struct obj *o = api_store_get(api_store_core(c->a, "priorityclasses"), NULL, class);
        if (!o) {
            snprintf(text, sizeof text, "no PriorityClass with name %.200s was found", class);
            return forbidden(c, name, text);
        }
        cJSON *j = api_obj_parse(o);
        computed = api_js_num(j, "value", 0);
        cJSON_Delete(j);
    }
    double given = api_js_num(spec, "priority", computed);
    if (given != computed) {
        snprintf(text, sizeof text,
                 "the integer value of priority (%d) must not be provided in pod spec; priority "
                 "admission controller "
                 "computed %d from the given PriorityClass name",
                 (int)given, (int)computed);
        return forbidden(c, name, text);
    }
    api_js_set_num(spec, "priority", computed);
    api_js_default(spec, "preemptionPolicy", cJSON_CreateString("PreemptLowerPriority"));
    return true;
}

/* Requests of all containers for `resource`, in thousandths. */
static int64_t requested(const cJSON *pod, const char *resource)
{
    int64_t sum = 0;
    js_each (x, api_js_at(pod, "spec.containers"))
        sum += api_js_quantity(
            cJSON_GetObjectItemCaseSensitive(api_js_at(x, "resources.requests"), resource));
    return sum;
}

static int64_t used(const struct shelf *pods, const char *ns, const char *resource)
{
    int64_t sum = 0;
    for (size_t i = 0; i < pods->n; i++) {
        const struct obj *o = pods->v[i];
        if (strcmp(o->ns, ns) != 0 || strcmp(o->phase, "Succeeded") == 0 ||
            strcmp(o->phase, "Failed") == 0)
            continue;
        cJSON *j = api_obj_parse(o);
        sum += strcmp(resource, "pods") == 0 ? 1000 : requested(j, resource);
        cJSON_Delete(j);
    }
    return sum;
}

static bool check_quota(struct call *c, const cJSON *pod, const cJSON *quota)
{
    js_each (hard, api_js_at(quota, "spec.hard")) {
        const char *key = hard->string,
                   *resource = strncmp(key, "requests.", 9) == 0 ? key + 9 : key;
        int64_t want = strcmp(resource, "pods") == 0 ? 1000 : requested(pod, resource),
                limit = api_js_quantity(hard);
        if (want == 0)
            continue;
        int64_t is =
            used(c->shelf->kind->namespaced ? api_store_core(c->a, "pods") : NULL, c->ns, resource);
        if (is + want <= limit)
            continue;
        char w[32], u[32], l[32], text[900];
        api_quantity_text(want, w);
        api_quantity_text(is, u);
        api_quantity_text(limit, l);
        snprintf(
            text, sizeof text,
            "exceeded quota: %.100s, requested: %.200s=%s, used: %.200s=%s, limited: %.200s=%s",
            api_js_str_or(quota, "metadata.name", ""), key, w, key, u, key, l);
        return forbidden(c, api_js_str_or(pod, "metadata.name", ""), text);
    }
    return true;
}

bool api_pod_admit(struct call *c, cJSON *pod)
{
    if (!admit_priority(c, pod))
        return false;
    const struct shelf *quotas = api_store_core(c->a, "resourcequotas");
    bool ok = true;
    for (size_t i = 0; ok && i < quotas->n; i++) {
        if (strcmp(quotas->v[i]->ns, c->ns) != 0)
            continue;
        cJSON *q = api_obj_parse(quotas->v[i]);
        ok = check_quota(c, pod, q);
        cJSON_Delete(q);
    }
    return ok;
}

/* ---- binding ---- */

static bool binding_conflict(struct call *c, const char *name, const char *why)
{
    return api_fail(c, 409, "Conflict", api_detail(name, NULL, "pods/binding"),
                    "Operation cannot be fulfilled on pods/binding \"%s\": %s", name, why);
}

static bool check_binding(struct call *c, const cJSON *b, const char *name)
{
    const char *ns = api_js_str_or(b, "metadata.namespace", ""),
               *kind = api_js_str_or(b, "target.kind", "");
    const char *target = api_js_str_or(b, "target.name", "");
    if (*ns && strcmp(ns, c->ns) != 0)
        return api_fail_bad(c, "the namespace of the provided object does not match the namespace "
                               "sent on the request");
    if (strcmp(api_js_str_or(b, "metadata.name", ""), name) != 0)
        return api_fail_bad(c, "name in URL does not match name in Binding object");
    /* As a real server: plain errors, hence 500. */
    if (*kind && strcmp(kind, "Node") != 0)
        return api_fail(
            c, 500, NULL, NULL,
            "target.kind: Unsupported value: \"%s\": supported values: \"Node\", \"<empty>\"",
            kind);
    if (!*target)
        return api_fail(c, 500, NULL, NULL, "target.name: Required value");
    return true;
}

static bool precondition(struct call *c, const struct obj *o, const char *what, const char *want,
                         const char *is)
{
    return api_fail(c, 409, "Conflict", api_detail(o->name, NULL, "pods"),
                    "Operation cannot be fulfilled on pods \"%s\": StorageError: invalid object, "
                    "Code: 4, Key: /registry/pods/%s, "
                    "ResourceVersion: 0, AdditionalErrorMsg: Precondition failed: %s in "
                    "precondition: %s, %s in object meta: %s",
                    o->name, o->key, what, want, what, is);
}

static bool check_pod(struct call *c, const cJSON *b, const struct obj *o, const cJSON *pod)
{
    const char *uid = api_js_str_or(b, "metadata.uid", ""),
               *rv = api_js_str_or(b, "metadata.resourceVersion", "");
    char is[24], why[400];
    snprintf(is, sizeof is, "%llu", (unsigned long long)o->rv);
    if (*uid && strcmp(uid, o->uid) != 0)
        return precondition(c, o, "UID", uid, o->uid);
    if (*rv && strcmp(rv, is) != 0)
        return precondition(c, o, "ResourceVersion", rv, is);
    if (api_js_str(pod, "metadata.deletionTimestamp")) {
        snprintf(why, sizeof why, "pod %s is being deleted, cannot be assigned to a host", o->name);
        return binding_conflict(c, o->name, why);
    }
    if (*o->node) {
        snprintf(why, sizeof why, "pod %s is already assigned to node \"%s\"", o->name, o->node);
        return binding_conflict(c, o->name, why);
    }
    if (cJSON_GetArraySize(api_js_at(pod, "spec.schedulingGates")) > 0) {
        snprintf(why, sizeof why, "pod %s has non-empty .spec.schedulingGates", o->name);
        return binding_conflict(c, o->name, why);
    }
    return true;
}

static void copy_map(cJSON *to, const cJSON *from, const char *key)
{
    js_each (x, cJSON_GetObjectItemCaseSensitive(from, key))
        api_js_set(api_js_obj(to, key), x->string, cJSON_Duplicate(x, true));
}

/* The zone of the node becomes the pod's label, as admission does. */
static void copy_topology(struct apiserver *a, cJSON *metadata, const char *node)
{
    static const char *const key[] = {"topology.kubernetes.io/zone",
                                      "topology.kubernetes.io/region"};
    const struct obj *o = api_store_get(api_store_core(a, "nodes"), NULL, node);
    for (size_t i = 0; o && i < ARRAY_LEN(key); i++) {
        const char *v = api_obj_label(o, key[i]);
        if (v)
            api_js_set_str(api_js_obj(metadata, "labels"), key[i], v);
    }
}

void api_pod_set_condition(struct apiserver *a, cJSON *pod, const char *type, const char *status,
                           const char *reason, const char *message)
{
    cJSON *list = api_js_list(api_js_obj(pod, "status"), "conditions"), *one = NULL;
    char at[32];
    js_each (x, list) {
        if (strcmp(api_js_str_or(x, "type", ""), type) == 0)
            one = x;
    }
    if (!one) {
        one = cJSON_CreateObject();
        api_js_set_str(one, "type", type);
        cJSON_AddItemToArray(list, one);
    }
    if (strcmp(api_js_str_or(one, "status", ""), status) != 0) {
        api_js_set_str(one, "status", status);
        api_js_set(one, "lastProbeTime", cJSON_CreateNull());
        api_js_set_str(one, "lastTransitionTime", api_call_time(a, at));
    }
    api_js_drop(one, "reason");
    api_js_drop(one, "message");
    if (reason)
        api_js_set_str(one, "reason", reason);
    if (message)
        api_js_set_str(one, "message", message);
}

void api_pod_bind(struct apiserver *a, cJSON *pod, const char *node, bool topology)
{
    api_js_set_str(api_js_obj(pod, "spec"), "nodeName", node);
    if (topology)
        copy_topology(a, api_js_obj(pod, "metadata"), node);
    api_pod_set_condition(a, pod, "PodScheduled", "True", NULL, NULL);
    api_js_drop(api_js_obj(pod, "status"), "nominatedNodeName");
}

void api_pod_binding(struct call *c)
{
    cJSON *b = cJSON_ParseWithLength(c->body, c->n_body);
    if (!cJSON_IsObject(b)) {
        cJSON_Delete(b);
        api_fail_bad(c, "the object provided is unrecognized (must be of type Binding)");
        return;
    }
    char name[256];
    snprintf(name, sizeof name, "%s", *c->name ? c->name : api_js_str_or(b, "metadata.name", ""));
    struct shelf *pods = api_store_core(c->a, "pods");
    if (check_binding(c, b, name)) {
        struct obj *o = api_store_get(pods, c->ns, name);
        cJSON *pod = o ? api_obj_parse(o) : NULL;
        if (!o) {
            api_fail(c, 404, "NotFound", api_detail(name, NULL, "pods"), "pods \"%s\" not found",
                     name);
        } else if (check_pod(c, b, o, pod)) {
            copy_map(api_js_obj(pod, "metadata"), api_js_at(b, "metadata"), "annotations");
            copy_map(api_js_obj(pod, "metadata"), api_js_at(b, "metadata"), "labels");
            /* Admission looks at pods/binding with a full target only. */
            api_pod_bind(c->a, pod, api_js_str(b, "target.name"),
                         *c->name && api_js_str(b, "target.kind"));
            if (!c->dry_run) {
                api_store_put(c->a, pods, pod);
                c->wrote = true;
            }
            api_answer_success(c, 201, NULL);
        }
        cJSON_Delete(pod);
    }
    cJSON_Delete(b);
}

/* ---- eviction ---- */

struct budget {
    int expected, healthy, desired;
};

static struct budget budget_of(struct apiserver *a, const cJSON *pdb, const char *ns)
{
    bool ok;
    struct selector *sel = api_selector_of_labels(api_js_at(pdb, "spec.selector"), &ok);
    const struct shelf *pods = api_store_core(a, "pods");
    struct budget b = {0};
    for (size_t i = 0; ok && i < pods->n; i++) {
        if (strcmp(pods->v[i]->ns, ns) != 0 || !api_selector_matches(sel, pods->v[i]))
            continue;
        b.expected++;
        b.healthy += pods->v[i]->ready && !pods->v[i]->deleting;
    }
    api_selector_free(sel);
    const cJSON *min = api_js_at(pdb, "spec.minAvailable"),
                *v = min ? min : api_js_at(pdb, "spec.maxUnavailable");
    double n = cJSON_IsNumber(v)   ? v->valuedouble
               : cJSON_IsString(v) ? ceil(strtod(v->valuestring, NULL) * b.expected / 100)
                                   : 0;
    b.desired = (int)(min ? n : b.expected - n);
    return b;
}

static bool budget_covers(const cJSON *pdb, const struct obj *pod)
{
    bool ok;
    struct selector *sel = api_selector_of_labels(api_js_at(pdb, "spec.selector"), &ok);
    ok = ok && api_selector_matches(sel, pod);
    api_selector_free(sel);
    return ok;
}

void api_pod_budget_status(struct apiserver *a, struct shelf *s, const struct obj *pdb)
{
    cJSON *j = api_obj_parse(pdb), *status = api_js_obj(j, "status");
    struct budget b = budget_of(a, j, pdb->ns);
    int allowed = b.healthy > b.desired ? b.healthy - b.desired : 0;
    char at[32];
    api_js_set_num(status, "observedGeneration", api_js_num(j, "metadata.generation", 1));
    api_js_set_num(status, "disruptionsAllowed", allowed);
    api_js_set_num(status, "currentHealthy", b.healthy);
    api_js_set_num(status, "desiredHealthy", b.desired);
    api_js_set_num(status, "expectedPods", b.expected);
    cJSON *one = api_js_at_mut(status, "conditions.0");
    if (!one) {
        one = cJSON_CreateObject();
        cJSON_AddItemToArray(api_js_list(status, "conditions"), one);
    }
    if (!api_js_str(one, "type") ||
        (strcmp(api_js_str_or(one, "status", ""), "True") == 0) != (allowed > 0))
        api_js_set_str(one, "lastTransitionTime", api_call_time(a, at));
    api_js_set_str(one, "type", "DisruptionAllowed");
    api_js_set_str(one, "status", allowed ? "True" : "False");
    api_js_set_num(one, "observedGeneration", api_js_num(j, "metadata.generation", 1));
    api_js_set_str(one, "reason", allowed ? "SufficientPods" : "InsufficientPods");
    api_js_set_str(one, "message", "");
    api_control_put(a, s, pdb, j);
}

/* Whether a budget forbids one pod less; fills c->out then. */
static bool budget_blocks(struct call *c, const struct obj *pod, const cJSON *pdb)
{
    if (!budget_covers(pdb, pod))
        return false;
    struct budget b = budget_of(c->a, pdb, pod->ns);
    if (b.healthy > b.desired)
        return false;
    char text[300];
    snprintf(text, sizeof text,
             "The disruption budget %.100s needs %d healthy pods and has %d currently",
             api_js_str_or(pdb, "metadata.name", ""), b.desired, b.healthy);
    cJSON *d = cJSON_CreateObject();
    api_detail_cause(d, "DisruptionBudget", text, NULL);
    api_fail(c, 429, "TooManyRequests", d,
             "Cannot evict pod as it would violate the pod's disruption budget.");
    return true;
}

void api_pod_eviction(struct call *c)
{
    struct obj *o = api_store_get(c->shelf, c->ns, c->name);
    const struct shelf *budgets = api_store_core(c->a, "poddisruptionbudgets");
    if (!o) {
        api_fail_not_found(c, c->name);
        return;
    }
    cJSON *pod = api_obj_parse(o);
    bool counts = api_pod_ready(pod) && *o->node; /* pods that do not run may always go */
    cJSON_Delete(pod);
    for (size_t i = 0; counts && i < budgets->n; i++) {
        if (strcmp(budgets->v[i]->ns, c->ns) != 0)
            continue;
        cJSON *pdb = api_obj_parse(budgets->v[i]);
        bool blocked = budget_blocks(c, o, pdb);
        cJSON_Delete(pdb);
        if (blocked)
            return;
    }
    if (!c->dry_run) {
        pod = api_obj_parse(o);
        api_pod_set_condition(c->a, pod, "DisruptionTarget", "True", "EvictionByEvictionAPI",
                              "Eviction API: evicting");
        api_store_put(c->a, c->shelf, pod);
        cJSON_Delete(pod);
    }
    cJSON *j = cJSON_ParseWithLength(c->body, c->n_body);
    const cJSON *opts = api_js_at(j, "deleteOptions");
    char *body = opts ? api_js_text(opts) : mem_strdup("");
    cJSON_Delete(j);
    struct call d = *c;
    d.body = body;
    d.n_body = strlen(body);
    api_write_delete(&d);
    c->wrote = d.wrote;
    mem_free(body);
    if (c->out->status == 200)
        api_answer_success(c, 201, NULL);
}

/* ---- resize ---- */

static bool only_cpu_and_memory(const cJSON *was, const cJSON *now)
{
    cJSON *a = cJSON_Duplicate(was, true), *b = cJSON_Duplicate(now, true), *pair[] = {a, b};
    for (int i = 0; i < 2; i++) {
        js_each (x, api_js_at(pair[i], "spec.containers")) {
            cJSON *res = api_js_obj(x, "resources");
            static const char *const part[] = {"requests", "limits"};
            for (int k = 0; k < 2; k++) {
                api_js_drop(api_js_obj(res, part[k]), "cpu");
                api_js_drop(api_js_obj(res, part[k]), "memory");
            }
        }
    }
    bool same = api_js_same(api_js_at(a, "spec"), api_js_at(b, "spec"));
    cJSON_Delete(a);
    cJSON_Delete(b);
    return same;
}

void api_pod_resize(struct call *c)
{
    struct obj *old = api_store_get(c->shelf, c->ns, c->name);
    cJSON *was = NULL, *now = NULL;
    if (!old) {
        api_fail_not_found(c, c->name);
        return;
    }
    was = api_obj_parse(old);
    if (strcmp(c->verb, "get") == 0) {
        api_answer_obj(c, 200, c->shelf, old);
    } else if (strcmp(c->verb, "patch") == 0 ? api_patch_apply(c, c->shelf->kind, was, &now)
                                             : (now = api_write_body(c)) != NULL) {
        struct causes l = {0};
        if (!only_cpu_and_memory(was, now)) {
            api_cause(&l, FORBIDDEN, "spec",
                      "Forbidden: only cpu and memory resources are mutable");
            api_fail_invalid(c, "Pod", "", c->name, &l);
        } else {
            api_write_commit(c, old, now, "resize", 200);
            now = NULL;
        }
    }
    cJSON_Delete(now);
    cJSON_Delete(was);
}
