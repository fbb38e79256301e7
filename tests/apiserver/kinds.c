/* kinds.c - the built-in resources: names, defaults, and the checks that clients meet. */
#include "tests/apiserver/api_priv.h"

#include <stdio.h>
#include <string.h>

#define NS true
#define CLUSTER false
#define WORKLOAD (KIND_STATUS | KIND_SCALE | KIND_GENERATION)
#define SPEC_REPLICAS "spec.replicas", "status.replicas"

const struct kind api_kind_table[] = {
    {"", "v1", "bindings", "binding", "Binding", NULL, NULL, NS, KIND_REVIEW, NULL, NULL, NULL},
    {"", "v1", "configmaps", "configmap", "ConfigMap", "cm", NULL, NS, 0, NULL, NULL, NULL},
    {"", "v1", "endpoints", "endpoints", "Endpoints", "ep", NULL, NS, 0, NULL, NULL, NULL},
    {"", "v1", "events", "event", "Event", "ev", NULL, NS, 0, NULL, NULL, NULL},
    {"", "v1", "limitranges", "limitrange", "LimitRange", "limits", NULL, NS, 0, NULL, NULL, NULL},
    {"", "v1", "namespaces", "namespace", "Namespace", "ns", NULL, CLUSTER,
     KIND_STATUS | KIND_NO_COLLECTION, NULL, NULL, NULL},
    {"", "v1", "nodes", "node", "Node", "no", NULL, CLUSTER, KIND_STATUS, NULL, NULL, NULL},
    {"", "v1", "persistentvolumeclaims", "persistentvolumeclaim", "PersistentVolumeClaim", "pvc",
     NULL, NS, KIND_STATUS, NULL, NULL, NULL},
    {"", "v1", "persistentvolumes", "persistentvolume", "PersistentVolume", "pv", NULL, CLUSTER,
     KIND_STATUS, NULL, NULL, NULL},
    {"", "v1", "pods", "pod", "Pod", "po", "all", NS, KIND_STATUS | KIND_GENERATION, NULL, NULL,
     NULL},
    {"", "v1", "resourcequotas", "resourcequota", "ResourceQuota", "quota", NULL, NS, KIND_STATUS,
     NULL, NULL, NULL},
    {"", "v1", "secrets", "secret", "Secret", NULL, NULL, NS, 0, NULL, NULL, NULL},
    {"", "v1", "serviceaccounts", "serviceaccount", "ServiceAccount", "sa", NULL, NS, 0, NULL, NULL,
     NULL},
    {"", "v1", "services", "service", "Service", "svc", "all", NS, KIND_STATUS, NULL, NULL, NULL},
    {"admissionregistration.k8s.io", "v1", "validatingwebhookconfigurations",
     "validatingwebhookconfiguration", "ValidatingWebhookConfiguration", NULL, "api-extensions",
     CLUSTER, KIND_GENERATION, NULL, NULL, NULL},
    {"apiextensions.k8s.io", "v1", "customresourcedefinitions", "customresourcedefinition",
     "CustomResourceDefinition", "crd,crds", "api-extensions", CLUSTER,
     KIND_STATUS | KIND_GENERATION | KIND_VERSIONED_PUT, NULL, NULL, NULL},
    {"apiregistration.k8s.io", "v1", "apiservices", "apiservice", "APIService", NULL,
     "api-extensions", CLUSTER, KIND_STATUS | KIND_VERSIONED_PUT, NULL, NULL, NULL},
    {"apps", "v1", "daemonsets", "daemonset", "DaemonSet", "ds", "all", NS,
     KIND_STATUS | KIND_GENERATION, NULL, NULL, NULL},
    {"apps", "v1", "deployments", "deployment", "Deployment", "deploy", "all", NS, WORKLOAD,
     SPEC_REPLICAS, NULL},
    {"apps", "v1", "replicasets", "replicaset", "ReplicaSet", "rs", "all", NS, WORKLOAD,
     SPEC_REPLICAS, NULL},
    {"apps", "v1", "statefulsets", "statefulset", "StatefulSet", "sts", "all", NS, WORKLOAD,
     SPEC_REPLICAS, NULL},
    {"authentication.k8s.io", "v1", "tokenreviews", "tokenreview", "TokenReview", NULL, NULL,
     CLUSTER, KIND_REVIEW, NULL, NULL, NULL},
    {"authentication.k8s.io", "v1", "selfsubjectreviews", "selfsubjectreview", "SelfSubjectReview",
     NULL, NULL, CLUSTER, KIND_REVIEW, NULL, NULL, NULL},
    {"authorization.k8s.io", "v1", "selfsubjectaccessreviews", "selfsubjectaccessreview",
     "SelfSubjectAccessReview", NULL, NULL, CLUSTER, KIND_REVIEW, NULL, NULL, NULL},
    {"authorization.k8s.io", "v1", "selfsubjectrulesreviews", "selfsubjectrulesreview",
     "SelfSubjectRulesReview", NULL, NULL, CLUSTER, KIND_REVIEW, NULL, NULL, NULL},
    {"authorization.k8s.io", "v1", "subjectaccessreviews", "subjectaccessreview",
     "SubjectAccessReview", NULL, NULL, CLUSTER, KIND_REVIEW, NULL, NULL, NULL},
    {"autoscaling", "v2", "horizontalpodautoscalers", "horizontalpodautoscaler",
     "HorizontalPodAutoscaler", "hpa", "all", NS, KIND_STATUS, NULL, NULL, NULL},
    {"batch", "v1", "cronjobs", "cronjob", "CronJob", "cj", "all", NS,
     KIND_STATUS | KIND_GENERATION, NULL, NULL, NULL},
    {"batch", "v1", "jobs", "job", "Job", NULL, "all", NS, KIND_STATUS | KIND_GENERATION, NULL,
     NULL, NULL},
    {"coordination.k8s.io", "v1", "leases", "lease", "Lease", NULL, NULL, NS, KIND_VERSIONED_PUT,
     NULL, NULL, NULL},
    {"discovery.k8s.io", "v1", "endpointslices", "endpointslice", "EndpointSlice", NULL, NULL, NS,
     KIND_GENERATION, NULL, NULL, NULL},
    {"events.k8s.io", "v1", "events", "event", "Event", "ev", NULL, NS, 0, NULL, NULL, NULL},
    {"networking.k8s.io", "v1", "networkpolicies", "networkpolicy", "NetworkPolicy", "netpol", NULL,
     NS, KIND_GENERATION, NULL, NULL, NULL},
    {"policy", "v1", "poddisruptionbudgets", "poddisruptionbudget", "PodDisruptionBudget", "pdb",
     NULL, NS, KIND_STATUS | KIND_GENERATION | KIND_VERSIONED_PUT, NULL, NULL, NULL},
    {"rbac.authorization.k8s.io", "v1", "clusterrolebindings", "clusterrolebinding",
     "ClusterRoleBinding", NULL, NULL, CLUSTER, 0, NULL, NULL, NULL},
    {"rbac.authorization.k8s.io", "v1", "clusterroles", "clusterrole", "ClusterRole", NULL, NULL,
     CLUSTER, 0, NULL, NULL, NULL},
    {"rbac.authorization.k8s.io", "v1", "rolebindings", "rolebinding", "RoleBinding", NULL, NULL,
     NS, 0, NULL, NULL, NULL},
    {"rbac.authorization.k8s.io", "v1", "roles", "role", "Role", NULL, NULL, NS, 0, NULL, NULL,
     NULL},
    {"scheduling.k8s.io", "v1", "priorityclasses", "priorityclass", "PriorityClass", "pc", NULL,
     CLUSTER, KIND_GENERATION, NULL, NULL, NULL},
    {"storage.k8s.io", "v1", "storageclasses", "storageclass", "StorageClass", "sc", NULL, CLUSTER,
     0, NULL, NULL, NULL},
    {"metrics.k8s.io", "v1beta1", "nodes", "", "NodeMetrics", NULL, NULL, CLUSTER, KIND_LATER, NULL,
     NULL, NULL},
    {"metrics.k8s.io", "v1beta1", "pods", "", "PodMetrics", NULL, NULL, NS, KIND_LATER, NULL, NULL,
     NULL},
};
const size_t api_n_kinds = ARRAY_LEN(api_kind_table);

/* ---- types ---- */

enum field_type { FIELD_INT32, FIELD_MICROTIME };
static const struct {
    const char *plural, *path, *go;
    enum field_type type;
} typed[] = {
    {"deployments", "spec.replicas", "DeploymentSpec.spec.replicas", FIELD_INT32},
    {"statefulsets", "spec.replicas", "StatefulSetSpec.spec.replicas", FIELD_INT32},
    {"replicasets", "spec.replicas", "ReplicaSetSpec.spec.replicas", FIELD_INT32},
    {"leases", "spec.leaseDurationSeconds", "LeaseSpec.spec.leaseDurationSeconds", FIELD_INT32},
    {"leases", "spec.leaseTransitions", "LeaseSpec.spec.leaseTransitions", FIELD_INT32},
    {"leases", "spec.renewTime", "", FIELD_MICROTIME},
    {"leases", "spec.acquireTime", "", FIELD_MICROTIME},
    {"(scale)", "spec.replicas", "ScaleSpec.spec.replicas", FIELD_INT32},
};

static const char *type_name(const cJSON *v)
{
    return cJSON_IsString(v)   ? "string"
           : cJSON_IsBool(v)   ? "bool"
           : cJSON_IsArray(v)  ? "array"
           : cJSON_IsObject(v) ? "object"
                               : "number";
}

static void check_int(const cJSON *v, const char *go, char *out, size_t n)
{
    char number[48];
    if (!cJSON_IsNumber(v)) {
        snprintf(out, n, "json: cannot unmarshal %s into Go struct field %s of type int32",
                 type_name(v), go);
    } else if (v->valuedouble < -2147483648.0 || v->valuedouble > 2147483647.0 ||
               v->valuedouble != (double)v->valueint) {
        snprintf(number, sizeof number, "%.17g", v->valuedouble);
        snprintf(out, n, "json: cannot unmarshal number %s into Go struct field %s of type int32",
                 number, go);
    }
}

/* Exactly six digits of a second. */
static void check_microtime(const cJSON *v, char *out, size_t n)
{
    const char *s = cJSON_GetStringValue((cJSON *)(uintptr_t)v);
    if (!s) {
        snprintf(out, n, "json: cannot unmarshal %s into Go value of type string", type_name(v));
        return;
    }
    size_t digits = strlen(s) > 20 && s[19] == '.' ? strspn(s + 20, "0123456789") : 0;
    if (api_time_parse(s) >= 0 && digits == 6)
        return;
    snprintf(out, n,
             "parsing time \"%s\" as \"2006-01-02T15:04:05.000000Z07:00\": cannot parse \"%s\" as "
             "\".000000\"",
             s, strlen(s) > 19 ? s + 19 : s);
}

void api_kind_decode(const struct kind *k, const cJSON *j, bool scale, char *out, size_t n)
{
    static const char *const maps[] = {"labels", "annotations"};
    out[0] = '\0';
    for (size_t i = 0; i < ARRAY_LEN(typed) && !*out; i++) {
        const cJSON *v = strcmp(typed[i].plural, scale ? "(scale)" : k->plural) == 0
                             ? api_js_at(j, typed[i].path)
                             : NULL;
        if (!v || cJSON_IsNull(v))
            continue;
        if (typed[i].type == FIELD_INT32)
            check_int(v, typed[i].go, out, n);
        else
            check_microtime(v, out, n);
    }
    for (size_t i = 0; i < ARRAY_LEN(maps) && !*out; i++) {
        const cJSON *m = cJSON_GetObjectItemCaseSensitive(api_js_at(j, "metadata"), maps[i]);
        if (m && !cJSON_IsNull(m) && !cJSON_IsObject(m))
            snprintf(out, n,
                     "json: cannot unmarshal %s into Go struct field ObjectMeta.metadata.%s of "
                     "type map[string]string",
                     type_name(m), maps[i]);
        js_each (v, cJSON_IsObject(m) ? m : NULL) {
            if (!cJSON_IsString(v) && !cJSON_IsNull(v))
                snprintf(out, n,
                         "json: cannot unmarshal %s into Go struct field ObjectMeta.metadata.%s of "
                         "type string",
                         type_name(v), maps[i]);
        }
    }
    const cJSON *spec = cJSON_GetObjectItemCaseSensitive(j, "spec");
    if (!*out && spec && !cJSON_IsObject(spec) && !cJSON_IsNull(spec))
        snprintf(out, n, "json: cannot unmarshal %s into Go struct field %s.spec of type v1.%sSpec",
                 type_name(spec), k->name, k->name);
}

static bool known_pod_field(const char *name)
{
    static const char *const field[] = {"activeDeadlineSeconds",
                                        "affinity",
                                        "automountServiceAccountToken",
                                        "containers",
                                        "dnsConfig",
                                        "dnsPolicy",
                                        "enableServiceLinks",
                                        "ephemeralContainers",
                                        "hostAliases",
                                        "hostIPC",
                                        "hostNetwork",
                                        "hostPID",
                                        "hostUsers",
                                        "hostname",
                                        "hostnameOverride",
                                        "imagePullSecrets",
                                        "initContainers",
                                        "nodeName",
                                        "nodeSelector",
                                        "os",
                                        "overhead",
                                        "preemptionPolicy",
                                        "priority",
                                        "priorityClassName",
                                        "readinessGates",
                                        "resourceClaims",
                                        "resources",
                                        "restartPolicy",
                                        "runtimeClassName",
                                        "schedulerName",
                                        "schedulingGates",
                                        "securityContext",
                                        "serviceAccount",
                                        "serviceAccountName",
                                        "setHostnameAsFQDN",
                                        "shareProcessNamespace",
                                        "subdomain",
                                        "terminationGracePeriodSeconds",
                                        "tolerations",
                                        "topologySpreadConstraints",
                                        "volumes",
                                        "workloadRef",
                                        "schedulingGroup"};
    for (size_t i = 0; i < ARRAY_LEN(field); i++) {
        if (strcmp(field[i], name) == 0)
            return true;
    }
    return false;
}

void api_field_unknown(const struct shelf *s, cJSON *j, char *out, size_t n)
{
    out[0] = '\0';
    if (s->crd && s->crd->schema) {
        api_schema_unknown(s->crd->schema, j, out, n);
        return;
    }
    cJSON *spec =
        strcmp(s->kind->plural, "pods") == 0 && !*s->kind->group ? api_js_at_mut(j, "spec") : NULL;
    for (cJSON *x = cJSON_IsObject(spec) ? spec->child : NULL; x;) {
        cJSON *next = x->next;
        if (!known_pod_field(x->string)) {
            if (!*out)
                snprintf(out, n, "spec.%s", x->string);
            api_js_drop(spec, x->string);
        }
        x = next;
    }
}

/* ---- defaults ---- */

static void workload_defaults(const struct kind *k, cJSON *j)
{
    cJSON *spec = api_js_obj(j, "spec");
    api_js_default(spec, "replicas", cJSON_CreateNumber(1));
    api_pod_template_defaults(api_js_obj(api_js_obj(spec, "template"), "spec"));
    if (strcmp(k->plural, "deployments") == 0) {
        cJSON *strategy = api_js_obj(spec, "strategy");
        api_js_default(strategy, "type", cJSON_CreateString("RollingUpdate"));
        if (strcmp(api_js_str_or(strategy, "type", ""), "RollingUpdate") == 0) {
            cJSON *r = api_js_obj(strategy, "rollingUpdate");
            api_js_default(r, "maxUnavailable", cJSON_CreateString("25%"));
            api_js_default(r, "maxSurge", cJSON_CreateString("25%"));
        }
        api_js_default(spec, "progressDeadlineSeconds", cJSON_CreateNumber(600));
    }
    if (strcmp(k->plural, "statefulsets") == 0) {
        api_js_default(spec, "podManagementPolicy", cJSON_CreateString("OrderedReady"));
        api_js_default(api_js_obj(spec, "updateStrategy"), "type",
                       cJSON_CreateString("RollingUpdate"));
        api_js_default(spec, "serviceName", cJSON_CreateString(""));
    }
    if (strcmp(k->plural, "replicasets") != 0)
        api_js_default(spec, "revisionHistoryLimit", cJSON_CreateNumber(10));
    api_js_obj(j, "status");
    if (strcmp(k->plural, "deployments") != 0)
        api_js_default(api_js_obj(j, "status"), "replicas", cJSON_CreateNumber(0));
}

static void node_defaults(cJSON *j)
{
    static const char *const info[] = {"machineID",       "systemUUID",
                                       "bootID",          "kernelVersion",
                                       "osImage",         "containerRuntimeVersion",
                                       "kubeletVersion",  "kubeProxyVersion",
                                       "operatingSystem", "architecture"};
    cJSON *taint = cJSON_CreateObject();
    cJSON_AddStringToObject(taint, "key", "node.kubernetes.io/not-ready");
    cJSON_AddStringToObject(taint, "effect", "NoSchedule");
    cJSON_AddItemToArray(api_js_list(api_js_obj(j, "spec"), "taints"), taint);
    cJSON *status = api_js_obj(j, "status");
    api_quantities_canonical(api_js_at_mut(status, "capacity"));
    api_quantities_canonical(api_js_at_mut(status, "allocatable"));
    api_js_default(api_js_obj(api_js_obj(status, "daemonEndpoints"), "kubeletEndpoint"), "Port",
                   cJSON_CreateNumber(0));
    for (size_t i = 0; i < ARRAY_LEN(info); i++)
        api_js_default(api_js_obj(status, "nodeInfo"), info[i], cJSON_CreateString(""));
}

static void event_defaults(const struct kind *k, cJSON *j)
{
    if (*k->group) {
        api_js_obj(j, "deprecatedSource");
        api_js_default(j, "deprecatedFirstTimestamp", cJSON_CreateNull());
        api_js_default(j, "deprecatedLastTimestamp", cJSON_CreateNull());
        return;
    }
    api_js_default(j, "source", cJSON_CreateObject());
    api_js_default(j, "firstTimestamp", cJSON_CreateNull());
    api_js_default(j, "lastTimestamp", cJSON_CreateNull());
    api_js_default(j, "eventTime", cJSON_CreateNull());
    api_js_default(j, "reportingComponent", cJSON_CreateString(""));
    api_js_default(j, "reportingInstance", cJSON_CreateString(""));
}

static void namespace_defaults(cJSON *j)
{
    api_js_default(api_js_obj(api_js_obj(j, "metadata"), "labels"), "kubernetes.io/metadata.name",
                   cJSON_CreateString(api_js_str_or(j, "metadata.name", "")));
    cJSON *f = api_js_list(api_js_obj(j, "spec"), "finalizers");
    if (cJSON_GetArraySize(f) == 0)
        cJSON_AddItemToArray(f, cJSON_CreateString("kubernetes"));
    api_js_default(api_js_obj(j, "status"), "phase", cJSON_CreateString("Active"));
}

static void crd_defaults(cJSON *j)
{
    cJSON *spec = api_js_obj(j, "spec"), *names = api_js_obj(spec, "names"),
          *status = api_js_obj(j, "status");
    char list[160];
    snprintf(list, sizeof list, "%.128sList", api_js_str_or(names, "kind", ""));
    api_js_default(names, "listKind", cJSON_CreateString(list));
    api_js_default(api_js_obj(spec, "conversion"), "strategy", cJSON_CreateString("None"));
    api_js_default(status, "conditions", cJSON_CreateNull());
    api_js_default(api_js_obj(status, "acceptedNames"), "plural", cJSON_CreateString(""));
    api_js_default(api_js_obj(status, "acceptedNames"), "kind", cJSON_CreateString(""));
    cJSON *stored = api_js_list(status, "storedVersions");
    js_each (v, api_js_at(spec, "versions")) {
        if (api_js_true(v, "storage") && cJSON_GetArraySize(stored) == 0)
            cJSON_AddItemToArray(stored, cJSON_CreateString(api_js_str_or(v, "name", "")));
    }
}

void api_kind_defaults(struct apiserver *a, const struct kind *k, cJSON *j)
{
    if (strcmp(k->plural, "pods") == 0 && !*k->group)
        api_pod_defaults(a, j);
    else if (strcmp(k->group, "apps") == 0 && (k->flags & KIND_SCALE))
        workload_defaults(k, j);
    else if (strcmp(k->plural, "nodes") == 0 && !*k->group)
        node_defaults(j);
    else if (strcmp(k->plural, "events") == 0)
        event_defaults(k, j);
    else if (strcmp(k->plural, "namespaces") == 0)
        namespace_defaults(j);
    else if (strcmp(k->plural, "customresourcedefinitions") == 0)
        crd_defaults(j);
    else if (k->flags & KIND_STATUS && !(k->flags & KIND_CUSTOM))
        api_js_obj(j, "status");
}

/* What decoding an update does to it: quantities become text, what a template leaves out gets its
 * default. */
void api_kind_normal(const struct kind *k, cJSON *j)
{
    if (strcmp(k->group, "apps") == 0 && (k->flags & KIND_SCALE))
        workload_defaults(k, j);
    if (strcmp(k->plural, "pods") == 0 && !*k->group) {
        js_each (x, api_js_at(j, "status.conditions")) {
            api_js_default(x, "lastProbeTime", cJSON_CreateNull());
            api_js_default(x, "lastTransitionTime", cJSON_CreateNull());
        }
    }
    if (strcmp(k->plural, "nodes") == 0) {
        api_quantities_canonical(api_js_at_mut(j, "status.capacity"));
        api_quantities_canonical(api_js_at_mut(j, "status.allocatable"));
    }
}

/* ---- checks ---- */

static void check_lease(const cJSON *j, struct causes *l)
{
    const cJSON *d = api_js_at(j, "spec.leaseDurationSeconds"),
                *t = api_js_at(j, "spec.leaseTransitions");
    if (cJSON_IsNumber(d) && d->valuedouble <= 0)
        api_cause(l, INVALID, "spec.leaseDurationSeconds",
                  "Invalid value: %d: must be greater than 0", d->valueint);
    if (cJSON_IsNumber(t) && t->valuedouble < 0)
        api_cause(l, INVALID, "spec.leaseTransitions",
                  "Invalid value: %d: must be greater than or equal to 0", t->valueint);
}

static void check_workload(const cJSON *was, const cJSON *j, struct causes *l)
{
    const cJSON *n = api_js_at(j, "spec.replicas"), *sel = api_js_at(j, "spec.selector");
    if (cJSON_IsNumber(n) && n->valuedouble < 0)
        api_cause(l, INVALID, "spec.replicas",
                  "Invalid value: %d: must be greater than or equal to 0", n->valueint);
    if (!sel)
        api_cause(l, REQUIRED, "spec.selector", "Required value");
    if (was && !api_js_same(api_js_at(was, "spec.selector"), sel)) {
        char *text = api_js_text(sel);
        api_cause(l, INVALID, "spec.selector", "Invalid value: %s: field is immutable", text);
        mem_free(text);
    }
    js_each (x, api_js_at(sel, "matchLabels")) {
        const cJSON *labels = api_js_at(j, "spec.template.metadata.labels");
        if (!api_js_same(cJSON_GetObjectItemCaseSensitive(labels, x->string), x)) {
            char *text = api_js_text(labels);
            api_cause(l, INVALID, "spec.template.metadata.labels",
                      "Invalid value: %s: `selector` does not match template `labels`", text);
            mem_free(text);
            break;
        }
    }
    if (cJSON_GetArraySize(api_js_at(j, "spec.template.spec.containers")) == 0)
        api_cause(l, REQUIRED, "spec.template.spec.containers", "Required value");
}

/* Extended resources (with a domain) are whole numbers. */
static void check_node(const cJSON *j, struct causes *l)
{
    static const char *const part[] = {"capacity", "allocatable"};
    for (size_t i = 0; i < ARRAY_LEN(part); i++) {
        js_each (v, cJSON_GetObjectItemCaseSensitive(api_js_at(j, "status"), part[i])) {
            int64_t milli = api_js_quantity(v);
            if (!strchr(v->string, '/') || milli % 1000 == 0)
                continue;
            char field[300], text[32];
            api_quantity_text(milli, text);
            snprintf(field, sizeof field, "status.%s.%.256s", part[i], v->string);
            api_cause(l, INVALID, field, "Invalid value: \"%s\": must be an integer", text);
        }
    }
}

static void check_event(const struct kind *k, const cJSON *j, struct causes *l)
{
    const char *part = *k->group ? "regarding" : "involvedObject";
    const char *of = api_js_str_or(cJSON_GetObjectItemCaseSensitive(j, part), "namespace", "");
    const char *ns = api_js_str_or(j, "metadata.namespace", "");
    char field[64];
    snprintf(field, sizeof field, "%s.namespace", part);
    /* An object without a namespace may be told of in "default". */
    if (*k->group ? (*of && strcmp(of, ns) != 0)
        : *of     ? strcmp(of, ns) != 0
                  : strcmp(ns, "default") != 0)
        api_cause(l, INVALID, "involvedObject.namespace",
                  "Invalid value: \"%s\": does not match event.namespace", of);
    if (*k->group && !api_js_str(j, "eventTime"))
        api_cause(l, REQUIRED, "eventTime", "Required value");
}

void api_kind_check(struct apiserver *a, const struct kind *k, const cJSON *was, const cJSON *j,
                    struct causes *l)
{
    (void)a;
    if (strcmp(k->plural, "leases") == 0)
        check_lease(j, l);
    else if (strcmp(k->group, "apps") == 0 && (k->flags & KIND_SCALE))
        check_workload(was, j, l);
    else if (strcmp(k->plural, "nodes") == 0)
        check_node(j, l);
    else if (strcmp(k->plural, "events") == 0)
        check_event(k, j, l);
    else if (strcmp(k->plural, "pods") == 0 && !*k->group && !was)
        api_pod_check_create(j, l);
}
