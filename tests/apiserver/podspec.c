/* podspec.c - pods: defaults, what may be created, what an update may change. */
#include "tests/apiserver/api_priv.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bool is_extended(const char *resource)
{
    return strchr(resource, '/') != NULL;
}

/* ---- defaults ---- */

static bool latest(const char *image)
{
    const char *slash = strrchr(image, '/'), *colon = strrchr(slash ? slash : image, ':');
    return !colon ? !strchr(image, '@') : strcmp(colon, ":latest") == 0;
}

static void container_defaults(cJSON *x)
{
    cJSON *resources = api_js_obj(x, "resources");
    api_quantities_canonical(api_js_at_mut(resources, "requests"));
    api_quantities_canonical(api_js_at_mut(resources, "limits"));
    api_js_default(x, "terminationMessagePath", cJSON_CreateString("/dev/termination-log"));
    api_js_default(x, "terminationMessagePolicy", cJSON_CreateString("File"));
    api_js_default(
        x, "imagePullPolicy",
        cJSON_CreateString(latest(api_js_str_or(x, "image", "")) ? "Always" : "IfNotPresent"));
}

void api_pod_template_defaults(cJSON *spec)
{
    js_each (x, api_js_at(spec, "initContainers"))
        container_defaults(x);
    js_each (x, api_js_at(spec, "containers"))
        container_defaults(x);
    api_js_default(spec, "restartPolicy", cJSON_CreateString("Always"));
    api_js_default(spec, "terminationGracePeriodSeconds", cJSON_CreateNumber(30));
    api_js_default(spec, "dnsPolicy", cJSON_CreateString("ClusterFirst"));
    api_js_obj(spec, "securityContext");
    api_js_default(spec, "schedulerName", cJSON_CreateString("default-scheduler"));
}

void api_pod_add_tolerations(cJSON *spec)
{
    static const char *const key[] = {"node.kubernetes.io/not-ready",
                                      "node.kubernetes.io/unreachable"};
    cJSON *list = api_js_list(spec, "tolerations");
    for (size_t i = 0; i < ARRAY_LEN(key); i++) {
        bool there = false;
        js_each (t, list)
            there |=
                strcmp(api_js_str_or(t, "key", ""), key[i]) == 0 &&
                (!api_js_str(t, "effect") || strcmp(api_js_str(t, "effect"), "NoExecute") == 0);
        if (there)
            continue;
        cJSON *t = cJSON_CreateObject();
        api_js_set_str(t, "key", key[i]);
        api_js_set_str(t, "operator", "Exists");
        api_js_set_str(t, "effect", "NoExecute");
        api_js_set_num(t, "tolerationSeconds", 300);
        cJSON_AddItemToArray(list, t);
    }
}

static void requests_from_limits(cJSON *pod)
{
    js_each (x, api_js_at(pod, "spec.containers")) {
        js_each (v, api_js_at(x, "resources.limits")) {
            cJSON *requests = api_js_obj(api_js_obj(x, "resources"), "requests");
            api_js_default(requests, v->string, cJSON_Duplicate(v, true));
        }
    }
}

static void mount_token(struct apiserver *a, cJSON *pod)
{
    static const char volume[] =
        "{\"name\":\"\",\"projected\":{\"sources\":[{\"serviceAccountToken\":{"
        "\"expirationSeconds\":3607,\"path\":\"token\"}},"
        "{\"configMap\":{\"name\":\"kube-root-ca.crt\",\"items\":[{\"key\":\"ca.crt\",\"path\":"
        "\"ca.crt\"}]}},{\"downwardAPI\":"
        "{\"items\":[{\"path\":\"namespace\",\"fieldRef\":{\"apiVersion\":\"v1\",\"fieldPath\":"
        "\"metadata.namespace\"}}]}}],"
        "\"defaultMode\":420}}";
    cJSON *volumes = api_js_list(api_js_obj(pod, "spec"), "volumes");
    char name[40], suffix[6];
    js_each (v, volumes) {
        if (strncmp(api_js_str_or(v, "name", ""), "kube-api-access-", 16) == 0)
            return;
    }
    api_store_suffix(a, suffix);
    snprintf(name, sizeof name, "kube-api-access-%s", suffix);
    cJSON *v = cJSON_Parse(volume);
    api_js_set_str(v, "name", name);
    cJSON_AddItemToArray(volumes, v);
    js_each (x, api_js_at(pod, "spec.containers")) {
        cJSON *m = cJSON_CreateObject();
        api_js_set_str(m, "name", name);
        api_js_set(m, "readOnly", cJSON_CreateTrue());
        api_js_set_str(m, "mountPath", "/var/run/secrets/kubernetes.io/serviceaccount");
        cJSON_AddItemToArray(api_js_list(x, "volumeMounts"), m);
    }
}

static const char *qos(const cJSON *pod)
{
    static const char *const key[] = {"cpu", "memory"};
    bool any = false, all = true;
    js_each (x, api_js_at(pod, "spec.containers")) {
        for (size_t i = 0; i < ARRAY_LEN(key); i++) {
            int64_t r = api_js_quantity(
                cJSON_GetObjectItemCaseSensitive(api_js_at(x, "resources.requests"), key[i]));
            int64_t l = api_js_quantity(
                cJSON_GetObjectItemCaseSensitive(api_js_at(x, "resources.limits"), key[i]));
            any |= r || l;
            all &= l != 0 && r == l;
        }
    }
    return !any ? "BestEffort" : all ? "Guaranteed" : "Burstable";
}

void api_pod_defaults(struct apiserver *a, cJSON *pod)
{
    cJSON *spec = api_js_obj(pod, "spec"), *status = api_js_obj(pod, "status");
    api_pod_template_defaults(spec);
    requests_from_limits(pod);
    mount_token(a, pod);
    api_js_default(spec, "serviceAccountName", cJSON_CreateString("default"));
    api_js_default(spec, "serviceAccount", cJSON_CreateString("default"));
    api_pod_add_tolerations(spec);
    api_js_default(spec, "enableServiceLinks", cJSON_CreateTrue());
    api_js_default(spec, "preemptionPolicy", cJSON_CreateString("PreemptLowerPriority"));
    if (cJSON_GetArraySize(api_js_at(spec, "schedulingGates")) == 0)
        api_js_drop(spec, "schedulingGates");
    api_js_default(status, "phase", cJSON_CreateString("Pending"));
    api_js_default(status, "qosClass", cJSON_CreateString(qos(pod)));
    if (api_js_at(spec, "schedulingGates") && !api_js_at(status, "conditions"))
        api_pod_set_condition(a, pod, "PodScheduled", "False", "SchedulingGated",
                              "Scheduling is blocked due to non-empty scheduling gates");
}

/* ---- create ---- */

static void check_whole(const cJSON *list, int i, const char *part, struct causes *l)
{
    js_each (v, list) {
        int64_t milli = api_js_quantity(v);
        char field[400], text[32];
        snprintf(field, sizeof field, "spec.containers[%d].resources.%s[%.256s]", i, part,
                 v->string);
        api_quantity_text(milli, text);
        if (is_extended(v->string) && milli % 1000 != 0)
            api_cause(l, INVALID, field, "Invalid value: \"%s\": must be an integer", text);
    }
}

static void check_extended(const cJSON *x, int i, struct causes *l)
{
    const cJSON *requests = api_js_at(x, "resources.requests"),
                *limits = api_js_at(x, "resources.limits");
    char field[96];
    js_each (v, requests) {
        const cJSON *limit = cJSON_GetObjectItemCaseSensitive(limits, v->string);
        if (!is_extended(v->string))
            continue;
        char a[32], b[32];
        api_quantity_text(api_js_quantity(v), a);
        api_quantity_text(api_js_quantity(limit), b);
        snprintf(field, sizeof field, "spec.containers[%d].resources.%s", i,
                 limit ? "requests" : "limits");
        if (!limit)
            api_cause(l, REQUIRED, field,
                      "Required value: Limit must be set for non overcommitable resources");
        else if (api_js_quantity(v) != api_js_quantity(limit))
            api_cause(l, INVALID, field, "Invalid value: \"%s\": must be equal to %s limit of %s",
                      a, v->string, b);
    }
}

void api_pod_check_create(const cJSON *pod, struct causes *l)
{
    int i = 0;
    js_each (x, api_js_at(pod, "spec.containers")) {
        check_whole(api_js_at(x, "resources.limits"), i, "limits", l);
        check_whole(api_js_at(x, "resources.requests"), i, "requests", l);
        check_extended(x, i, l);
        if (!*api_js_str_or(x, "name", "")) {
            char field[64];
            snprintf(field, sizeof field, "spec.containers[%d].name", i);
            api_cause(l, REQUIRED, field, "Required value");
        }
        i++;
    }
    if (i == 0)
        api_cause(l, REQUIRED, "spec.containers", "Required value");
    if (cJSON_GetArraySize(api_js_at(pod, "spec.schedulingGates")) > 0 &&
        *api_js_str_or(pod, "spec.nodeName", ""))
        api_cause(l, FORBIDDEN, "spec.nodeName",
                  "Forbidden: cannot be set until all schedulingGates have been cleared");
}

/* ---- update ---- */

static const char only_these[] = "Forbidden: pod updates may not change fields other than "
                                 "`spec.containers[*].image`,`spec.initContainers[*].image`,"
                                 "`spec.activeDeadlineSeconds`,`spec.tolerations` (only additions "
                                 "to existing tolerations),`spec.terminationGracePeriodSeconds` "
                                 "(allow it to be set to 1 if it was previously negative)";

static bool holds_all(const cJSON *list, const cJSON *want)
{
    js_each (w, want) {
        bool there = false;
        js_each (x, list)
            there |= api_js_same(x, w);
        if (!there)
            return false;
    }
    return true;
}

static void check_gates(const cJSON *was, const cJSON *now, struct causes *l)
{
    int i = 0;
    js_each (g, api_js_at(now, "schedulingGates")) {
        bool there = false;
        js_each (old, api_js_at(was, "schedulingGates"))
            there |= strcmp(api_js_str_or(old, "name", ""), api_js_str_or(g, "name", "")) == 0;
        if (!there) {
            char field[64];
            snprintf(field, sizeof field, "spec.schedulingGates[%d].name", i);
            api_cause(l, FORBIDDEN, field,
                      "Forbidden: only deletion is allowed, but found new scheduling gate '%s'",
                      api_js_str_or(g, "name", ""));
        }
        i++;
    }
}

/* Keys may be added, never changed or removed. */
static void check_node_selector(const cJSON *was, const cJSON *now, struct causes *l)
{
    js_each (x, api_js_at(was, "nodeSelector")) {
        if (api_js_same(cJSON_GetObjectItemCaseSensitive(api_js_at(now, "nodeSelector"), x->string),
                        x))
            continue;
        const cJSON *all = api_js_at(now, "nodeSelector");
        char *text = all ? api_js_text(all) : mem_strdup("null");
        api_cause(
            l, INVALID, "spec.nodeSelector",
            "Invalid value: %s: only additions to spec.nodeSelector are allowed (no mutations or "
            "deletions)",
            text);
        mem_free(text);
        return;
    }
}

/* Terms as a server prints its own structs: keys in upper case, absent lists as null. */
static void go_expressions(struct buf *b, const char *name, const cJSON *list)
{
    buf_fmt(b, "\"%s\":%s", name, list ? "[" : "null");
    js_each (x, list) {
        buf_fmt(b, "%s{\"Key\":", x == list->child ? "" : ",");
        api_js_add_text(b, api_js_at(x, "key"));
        buf_str(b, ",\"Operator\":");
        api_js_add_text(b, api_js_at(x, "operator"));
        buf_str(b, ",\"Values\":");
        api_js_add_text(b, api_js_at(x, "values"));
        buf_char(b, '}');
    }
    buf_str(b, list ? "]" : "");
}

static void go_term(struct buf *b, const cJSON *term)
{
    buf_char(b, '{');
    go_expressions(b, "MatchExpressions", api_js_at(term, "matchExpressions"));
    buf_char(b, ',');
    go_expressions(b, "MatchFields", api_js_at(term, "matchFields"));
    buf_char(b, '}');
}

static char *go_terms(const cJSON *terms)
{
    struct buf b = buf_init(1 << 20);
    buf_char(&b, '[');
    js_each (t, terms) {
        buf_str(&b, t == terms->child ? "" : ",");
        go_term(&b, t);
    }
    buf_char(&b, ']');
    return buf_take(&b);
}

static const char terms_path[] =
    "affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms";

/* Required node affinity: new from nothing; then terms keep their number and only gain expressions.
 */
static void check_terms(const cJSON *was, const cJSON *now, struct causes *l)
{
    const cJSON *a = api_js_at(was, terms_path), *b = api_js_at(now, terms_path);
    char field[160];
    snprintf(field, sizeof field, "spec.%s", terms_path);
    if (cJSON_GetArraySize(a) == 0)
        return;
    if (cJSON_GetArraySize(a) != cJSON_GetArraySize(b)) {
        char *text = go_terms(b);
        api_cause(l, INVALID, field,
                  "Invalid value: %s: no additions/deletions to non-empty NodeSelectorTerms list "
                  "are allowed",
                  text);
        mem_free(text);
        return;
    }
    for (int i = 0; i < cJSON_GetArraySize(a); i++) {
        const cJSON *x = cJSON_GetArrayItem(a, i), *y = cJSON_GetArrayItem(b, i);
        if (holds_all(api_js_at(y, "matchExpressions"), api_js_at(x, "matchExpressions")) &&
            holds_all(api_js_at(y, "matchFields"), api_js_at(x, "matchFields")))
            continue;
        struct buf text = buf_init(1 << 20);
        go_term(&text, y);
        snprintf(field, sizeof field, "spec.%s[%d]", terms_path, i);
        api_cause(l, INVALID, field,
                  "Invalid value: %s: only additions are allowed (no mutations or deletions)",
                  text.p);
        buf_fini(&text);
    }
}

static void take(cJSON *to, const cJSON *from, const char *key)
{
    const cJSON *v = cJSON_GetObjectItemCaseSensitive(from, key);
    api_js_drop(to, key);
    if (v)
        cJSON_AddItemToObject(to, key, cJSON_Duplicate(v, true));
}

/* Takes over what the update may change, so that the rest can be compared. */
static void allow(cJSON *copy, const cJSON *now, bool gated)
{
    static const char *const lists[] = {"containers", "initContainers"};
    for (size_t k = 0; k < ARRAY_LEN(lists); k++) {
        cJSON *x = api_js_at_mut(copy, lists[k]);
        const cJSON *y = api_js_at(now, lists[k]);
        x = x ? x->child : NULL;
        for (y = y ? y->child : NULL; x && y; x = x->next, y = y->next)
            take(x, y, "image");
    }
    take(copy, now, "activeDeadlineSeconds");
    take(copy, now, "tolerations");
    take(copy, now, "schedulingGates");
    if (!gated)
        return;
    take(copy, now, "nodeSelector");
    const cJSON *node = api_js_at(now, "affinity.nodeAffinity");
    if (node)
        api_js_set(api_js_obj(copy, "affinity"), "nodeAffinity", cJSON_Duplicate(node, true));
    else if (api_js_at(copy, "affinity"))
        api_js_drop(api_js_obj(copy, "affinity"), "nodeAffinity");
    if (api_js_at(copy, "affinity") && !api_js_at(now, "affinity"))
        api_js_drop(copy, "affinity");
}

void api_pod_check_update(cJSON *was_pod, cJSON *now_pod, struct causes *l)
{
    const cJSON *was = api_js_obj(was_pod, "spec");
    cJSON *now = api_js_obj(now_pod, "spec");
    bool gated = cJSON_GetArraySize(api_js_at(was, "schedulingGates")) > 0;
    if (api_js_at(now, "schedulingGates") &&
        cJSON_GetArraySize(api_js_at(now, "schedulingGates")) == 0)
        api_js_drop(now, "schedulingGates");
    check_gates(was, now, l);
    if (gated) {
        check_node_selector(was, now, l);
        check_terms(was, now, l);
    }
    if (l->n > 0)
        return;
    if (!holds_all(api_js_at(now, "tolerations"), api_js_at(was, "tolerations")))
        api_cause(
            l, FORBIDDEN, "spec.tolerations",
            "Forbidden: existing toleration can not be modified except its tolerationSeconds");
    cJSON *copy = cJSON_Duplicate(was, true);
    allow(copy, now, gated);
    if (!api_js_same(copy, now))
        api_cause(l, FORBIDDEN, "spec", "%s", only_these);
    cJSON_Delete(copy);
}
