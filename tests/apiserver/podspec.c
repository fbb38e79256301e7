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
    cJSON *resources = js_obj(x, "resources");
    quantities_canonical(js_at_mut(resources, "requests"));
    quantities_canonical(js_at_mut(resources, "limits"));
    js_default(x, "terminationMessagePath", cJSON_CreateString("/dev/termination-log"));
    js_default(x, "terminationMessagePolicy", cJSON_CreateString("File"));
    js_default(x, "imagePullPolicy", cJSON_CreateString(latest(js_str_or(x, "image", "")) ? "Always" : "IfNotPresent"));
}

void pod_template_defaults(cJSON *spec)
{
    js_each(x, js_at(spec, "initContainers"))
        container_defaults(x);
    js_each(x, js_at(spec, "containers"))
        container_defaults(x);
    js_default(spec, "restartPolicy", cJSON_CreateString("Always"));
    js_default(spec, "terminationGracePeriodSeconds", cJSON_CreateNumber(30));
    js_default(spec, "dnsPolicy", cJSON_CreateString("ClusterFirst"));
    js_obj(spec, "securityContext");
    js_default(spec, "schedulerName", cJSON_CreateString("default-scheduler"));
}

void pod_add_tolerations(cJSON *spec)
{
    static const char *const key[] = {"node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"};
    cJSON *list = js_list(spec, "tolerations");
    for (size_t i = 0; i < ARRAY_LEN(key); i++) {
        bool there = false;
        js_each(t, list)
            there |= strcmp(js_str_or(t, "key", ""), key[i]) == 0 &&
                     (!js_str(t, "effect") || strcmp(js_str(t, "effect"), "NoExecute") == 0);
        if (there)
            continue;
        cJSON *t = cJSON_CreateObject();
        js_set_str(t, "key", key[i]);
        js_set_str(t, "operator", "Exists");
        js_set_str(t, "effect", "NoExecute");
        js_set_num(t, "tolerationSeconds", 300);
        cJSON_AddItemToArray(list, t);
    }
}

static void requests_from_limits(cJSON *pod)
{
    js_each(x, js_at(pod, "spec.containers"))
    {
        js_each(v, js_at(x, "resources.limits"))
        {
            cJSON *requests = js_obj(js_obj(x, "resources"), "requests");
            js_default(requests, v->string, cJSON_Duplicate(v, true));
        }
    }
}

static void mount_token(struct apiserver *a, cJSON *pod)
{
    static const char volume[] =
        "{\"name\":\"\",\"projected\":{\"sources\":[{\"serviceAccountToken\":{\"expirationSeconds\":3607,\"path\":\"token\"}},"
        "{\"configMap\":{\"name\":\"kube-root-ca.crt\",\"items\":[{\"key\":\"ca.crt\",\"path\":\"ca.crt\"}]}},{\"downwardAPI\":"
        "{\"items\":[{\"path\":\"namespace\",\"fieldRef\":{\"apiVersion\":\"v1\",\"fieldPath\":\"metadata.namespace\"}}]}}],"
        "\"defaultMode\":420}}";
    cJSON *volumes = js_list(js_obj(pod, "spec"), "volumes");
    char name[40], suffix[6];
    js_each(v, volumes)
    {
        if (strncmp(js_str_or(v, "name", ""), "kube-api-access-", 16) == 0)
            return;
    }
    store_suffix(a, suffix);
    snprintf(name, sizeof name, "kube-api-access-%s", suffix);
    cJSON *v = cJSON_Parse(volume);
    js_set_str(v, "name", name);
    cJSON_AddItemToArray(volumes, v);
    js_each(x, js_at(pod, "spec.containers"))
    {
        cJSON *m = cJSON_CreateObject();
        js_set_str(m, "name", name);
        js_set(m, "readOnly", cJSON_CreateTrue());
        js_set_str(m, "mountPath", "/var/run/secrets/kubernetes.io/serviceaccount");
        cJSON_AddItemToArray(js_list(x, "volumeMounts"), m);
    }
}

static const char *qos(const cJSON *pod)
{
    static const char *const key[] = {"cpu", "memory"};
    bool any = false, all = true;
    js_each(x, js_at(pod, "spec.containers"))
    {
        for (size_t i = 0; i < ARRAY_LEN(key); i++) {
            int64_t r = js_quantity(cJSON_GetObjectItemCaseSensitive(js_at(x, "resources.requests"), key[i]));
            int64_t l = js_quantity(cJSON_GetObjectItemCaseSensitive(js_at(x, "resources.limits"), key[i]));
            any |= r || l;
            all &= l != 0 && r == l;
        }
    }
    return !any ? "BestEffort" : all ? "Guaranteed" : "Burstable";
}

void pod_defaults(struct apiserver *a, cJSON *pod)
{
    cJSON *spec = js_obj(pod, "spec"), *status = js_obj(pod, "status");
    pod_template_defaults(spec);
    requests_from_limits(pod);
    mount_token(a, pod);
    js_default(spec, "serviceAccountName", cJSON_CreateString("default"));
    js_default(spec, "serviceAccount", cJSON_CreateString("default"));
    pod_add_tolerations(spec);
    js_default(spec, "enableServiceLinks", cJSON_CreateTrue());
    js_default(spec, "preemptionPolicy", cJSON_CreateString("PreemptLowerPriority"));
    if (cJSON_GetArraySize(js_at(spec, "schedulingGates")) == 0)
        js_drop(spec, "schedulingGates");
    js_default(status, "phase", cJSON_CreateString("Pending"));
    js_default(status, "qosClass", cJSON_CreateString(qos(pod)));
    if (js_at(spec, "schedulingGates") && !js_at(status, "conditions"))
        pod_set_condition(a, pod, "PodScheduled", "False", "SchedulingGated", "Scheduling is blocked due to non-empty scheduling gates");
}

/* ---- create ---- */

static void check_whole(const cJSON *list, int i, const char *part, struct causes *l)
{
    js_each(v, list)
    {
        int64_t milli = js_quantity(v);
        char field[400], text[32];
        snprintf(field, sizeof field, "spec.containers[%d].resources.%s[%.256s]", i, part, v->string);
        quantity_text(milli, text);
        if (is_extended(v->string) && milli % 1000 != 0)
            cause(l, INVALID, field, "Invalid value: \"%s\": must be an integer", text);
    }
}

static void check_extended(const cJSON *x, int i, struct causes *l)
{
    const cJSON *requests = js_at(x, "resources.requests"), *limits = js_at(x, "resources.limits");
    char field[96];
    js_each(v, requests)
    {
        const cJSON *limit = cJSON_GetObjectItemCaseSensitive(limits, v->string);
        if (!is_extended(v->string))
            continue;
        char a[32], b[32];
        quantity_text(js_quantity(v), a);
        quantity_text(js_quantity(limit), b);
        snprintf(field, sizeof field, "spec.containers[%d].resources.%s", i, limit ? "requests" : "limits");
        if (!limit)
            cause(l, REQUIRED, field, "Required value: Limit must be set for non overcommitable resources");
        else if (js_quantity(v) != js_quantity(limit))
            cause(l, INVALID, field, "Invalid value: \"%s\": must be equal to %s limit of %s", a, v->string, b);
    }
}

void pod_check_create(const cJSON *pod, struct causes *l)
{
    int i = 0;
    js_each(x, js_at(pod, "spec.containers"))
    {
        check_whole(js_at(x, "resources.limits"), i, "limits", l);
        check_whole(js_at(x, "resources.requests"), i, "requests", l);
        check_extended(x, i, l);
        if (!*js_str_or(x, "name", "")) {
            char field[64];
            snprintf(field, sizeof field, "spec.containers[%d].name", i);
            cause(l, REQUIRED, field, "Required value");
        }
        i++;
    }
    if (i == 0)
        cause(l, REQUIRED, "spec.containers", "Required value");
    if (cJSON_GetArraySize(js_at(pod, "spec.schedulingGates")) > 0 && *js_str_or(pod, "spec.nodeName", ""))
        cause(l, FORBIDDEN, "spec.nodeName", "Forbidden: cannot be set until all schedulingGates have been cleared");
}

/* ---- update ---- */

static const char only_these[] =
    "Forbidden: pod updates may not change fields other than `spec.containers[*].image`,`spec.initContainers[*].image`,"
    "`spec.activeDeadlineSeconds`,`spec.tolerations` (only additions to existing tolerations),`spec.terminationGracePeriodSeconds` "
    "(allow it to be set to 1 if it was previously negative)";

static bool holds_all(const cJSON *list, const cJSON *want)
{
    js_each(w, want)
    {
        bool there = false;
        js_each(x, list)
            there |= js_same(x, w);
        if (!there)
            return false;
    }
    return true;
}

static void check_gates(const cJSON *was, const cJSON *now, struct causes *l)
{
    int i = 0;
    js_each(g, js_at(now, "schedulingGates"))
    {
        bool there = false;
        js_each(old, js_at(was, "schedulingGates"))
            there |= strcmp(js_str_or(old, "name", ""), js_str_or(g, "name", "")) == 0;
        if (!there) {
            char field[64];
            snprintf(field, sizeof field, "spec.schedulingGates[%d].name", i);
            cause(l, FORBIDDEN, field, "Forbidden: only deletion is allowed, but found new scheduling gate '%s'", js_str_or(g, "name", ""));
        }
        i++;
    }
}

/* Keys may be added, never changed or removed. */
static void check_node_selector(const cJSON *was, const cJSON *now, struct causes *l)
{
    js_each(x, js_at(was, "nodeSelector"))
    {
        if (js_same(cJSON_GetObjectItemCaseSensitive(js_at(now, "nodeSelector"), x->string), x))
            continue;
        const cJSON *all = js_at(now, "nodeSelector");
        char *text = all ? js_text(all) : mem_strdup("null");
        cause(l, INVALID, "spec.nodeSelector", "Invalid value: %s: only additions to spec.nodeSelector are allowed (no mutations or "
              "deletions)", text);
        mem_free(text);
        return;
    }
}

static const char terms_path[] = "affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms";

/* Required node affinity: new from nothing; then terms keep their number and only gain expressions. */
static void check_terms(const cJSON *was, const cJSON *now, struct causes *l)
{
    const cJSON *a = js_at(was, terms_path), *b = js_at(now, terms_path);
    char field[160];
    snprintf(field, sizeof field, "spec.%s", terms_path);
    if (cJSON_GetArraySize(a) == 0)
        return;
    if (cJSON_GetArraySize(a) != cJSON_GetArraySize(b)) {
        char *text = js_text(b);
        cause(l, INVALID, field, "Invalid value: %s: no additions/deletions to non-empty NodeSelectorTerms list are allowed", text);
        mem_free(text);
        return;
    }
    for (int i = 0; i < cJSON_GetArraySize(a); i++) {
        const cJSON *x = cJSON_GetArrayItem(a, i), *y = cJSON_GetArrayItem(b, i);
        if (holds_all(js_at(y, "matchExpressions"), js_at(x, "matchExpressions")) &&
            holds_all(js_at(y, "matchFields"), js_at(x, "matchFields")))
            continue;
        char *text = js_text(y);
        snprintf(field, sizeof field, "spec.%s[%d]", terms_path, i);
        cause(l, INVALID, field, "Invalid value: %s: only additions are allowed (no mutations or deletions)", text);
        mem_free(text);
    }
}

static void take(cJSON *to, const cJSON *from, const char *key)
{
    const cJSON *v = cJSON_GetObjectItemCaseSensitive(from, key);
    js_drop(to, key);
    if (v)
        cJSON_AddItemToObject(to, key, cJSON_Duplicate(v, true));
}

/* Takes over what the update may change, so that the rest can be compared. */
static void allow(cJSON *copy, const cJSON *now, bool gated)
{
    static const char *const lists[] = {"containers", "initContainers"};
    for (size_t k = 0; k < ARRAY_LEN(lists); k++) {
        cJSON *x = js_at_mut(copy, lists[k]);
        const cJSON *y = js_at(now, lists[k]);
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
    const cJSON *node = js_at(now, "affinity.nodeAffinity");
    if (node)
        js_set(js_obj(copy, "affinity"), "nodeAffinity", cJSON_Duplicate(node, true));
    else if (js_at(copy, "affinity"))
        js_drop(js_obj(copy, "affinity"), "nodeAffinity");
    if (js_at(copy, "affinity") && !js_at(now, "affinity"))
        js_drop(copy, "affinity");
}

void pod_check_update(cJSON *was_pod, cJSON *now_pod, struct causes *l)
{
    const cJSON *was = js_obj(was_pod, "spec");
    cJSON *now = js_obj(now_pod, "spec");
    bool gated = cJSON_GetArraySize(js_at(was, "schedulingGates")) > 0;
    if (js_at(now, "schedulingGates") && cJSON_GetArraySize(js_at(now, "schedulingGates")) == 0)
        js_drop(now, "schedulingGates");
    check_gates(was, now, l);
    if (gated) {
        check_node_selector(was, now, l);
        check_terms(was, now, l);
    }
    if (l->n > 0)
        return;
    if (!holds_all(js_at(now, "tolerations"), js_at(was, "tolerations")))
        cause(l, FORBIDDEN, "spec.tolerations", "Forbidden: existing toleration can not be modified except its tolerationSeconds");
    cJSON *copy = cJSON_Duplicate(was, true);
    allow(copy, now, gated);
    if (!js_same(copy, now))
        cause(l, FORBIDDEN, "spec", "%s", only_these);
    cJSON_Delete(copy);
}
