/* fill.c - a large cluster at once: nodes in pools, Deployments with their ReplicaSets, pods on
 * nodes.
 *
 * Objects are as wide as those of a busy cluster (about 3 KB a pod): environment, probes, volumes,
 * owner, conditions, container states.  They are printed, not built, which is what makes 100,000 of
 * them a matter of a second. */
#include "tests/apiserver/api_priv.h"

#include <stdio.h>
#include <string.h>

enum { PER_NAMESPACE = 50 }; /* workloads */

struct fill {
    struct apiserver *a;
    int n_nodes, n_pods, per;
    struct buf text;
    char at[32];
};

static void open_metadata(struct fill *f, const char *ns, const char *name, const char *uid)
{
    buf_clear(&f->text);
    buf_fmt(&f->text,
            "{\"metadata\":{\"name\":\"%s\",\"uid\":\"%s\",\"resourceVersion\":\"%llu\","
            "\"creationTimestamp\":\"%s\"",
            name, uid, (unsigned long long)++f->a->rv, f->at);
    if (ns)
        buf_fmt(&f->text, ",\"namespace\":\"%s\"", ns);
}

/* Labels as they stand in the text, and as facts. */
static void add_labels(struct fill *f, const char *const *label, size_t n)
{
    buf_str(&f->text, ",\"labels\":{");
    for (size_t i = 0; i < n; i++)
        buf_fmt(&f->text, "%s\"%s\":\"%s\"", i ? "," : "", label[2 * i], label[2 * i + 1]);
    buf_char(&f->text, '}');
}

static void put(struct fill *f, const char *plural, const struct obj_facts *facts)
{
    api_store_put_text(f->a, api_store_core(f->a, plural), facts, f->text.p, f->text.n);
}

static void fill_node(struct fill *f, int i)
{
    static const char *const model[] = {"NVIDIA-H200", "NVIDIA-A100-SXM4-80GB", "NVIDIA-L4"};
    static const char *const type[] = {"p5.48xlarge", "p4de.24xlarge", "g6.48xlarge"};
    char name[32], uid[37], zone[8], pool[16];
    snprintf(name, sizeof name, "node-%05d", i);
    snprintf(zone, sizeof zone, "r1-%c", 'a' + i % 3);
    snprintf(pool, sizeof pool, "pool-%d", i % 16);
    api_store_uid(f->a, uid);
    const char *const label[] = {"kubernetes.io/hostname",
                                 name,
                                 "kubernetes.io/os",
                                 "linux",
                                 "kubernetes.io/arch",
                                 "amd64",
                                 "node.kubernetes.io/instance-type",
                                 type[i % 3],
                                 "topology.kubernetes.io/region",
                                 "r1",
                                 "topology.kubernetes.io/zone",
                                 zone,
                                 "nvidia.com/gpu.product",
                                 model[i % 3],
                                 "nvidia.com/gpu.count",
                                 "8",
                                 "pool",
                                 pool};
    open_metadata(f, NULL, name, uid);
    add_labels(f, label, ARRAY_LEN(label) / 2);
    buf_str(&f->text, ",\"annotations\":{\"node.alpha.kubernetes.io/"
                      "ttl\":\"0\",\"volumes.kubernetes.io/controller-managed-attach-detach\":"
                      "\"true\"}},");
    buf_fmt(&f->text, "\"spec\":{\"podCIDR\":\"10.%d.%d.0/24\",\"providerID\":\"test:///%s\"%s},",
            i / 256, i % 256, name, i % 50 == 49 ? ",\"unschedulable\":true" : "");
    buf_str(&f->text, "\"status\":{\"capacity\":{\"cpu\":\"192\",\"ephemeral-storage\":\"2000Gi\","
                      "\"memory\":\"2048Gi\",\"nvidia.com/gpu\":\"8\","
                      "\"pods\":\"110\"},\"allocatable\":{\"cpu\":\"190\",\"ephemeral-storage\":"
                      "\"1900Gi\",\"memory\":\"2000Gi\",\"nvidia.com/gpu\":\"8\","
                      "\"pods\":\"110\"},\"conditions\":[");
    static const char *const condition[] = {"MemoryPressure", "DiskPressure", "PIDPressure",
                                            "Ready"};
    for (int k = 0; k < 4; k++)
        buf_fmt(&f->text,
                "%s{\"type\":\"%s\",\"status\":\"%s\",\"lastHeartbeatTime\":\"%s\","
                "\"lastTransitionTime\":\"%s\",\"reason\":"
                "\"Kubelet%s\",\"message\":\"kubelet is posting ready status\"}",
                k ? "," : "", condition[k], k == 3 ? "True" : "False", f->at, f->at, condition[k]);
    buf_fmt(&f->text,
            "],\"addresses\":[{\"type\":\"InternalIP\",\"address\":\"10.0.%d.%d\"},{\"type\":"
            "\"Hostname\",\"address\":\"%s\"}],"
            "\"daemonEndpoints\":{\"kubeletEndpoint\":{\"Port\":10250}},\"nodeInfo\":{"
            "\"kernelVersion\":\"6.1\",\"osImage\":\"test\","
            "\"kubeletVersion\":\"v1.36.2\",\"operatingSystem\":\"linux\",\"architecture\":"
            "\"amd64\"}}}",
            i / 256, i % 256, name);
    put(f, "nodes",
        &(struct obj_facts){.name = name,
                            .uid = uid,
                            .label = label,
                            .n_labels = ARRAY_LEN(label) / 2,
                            .ready = true});
}

static void fill_namespace(struct fill *f, int i)
{
    char name[32], uid[37], team[16];
    snprintf(name, sizeof name, "fill-%d", i);
    snprintf(team, sizeof team, "team-%d", i % 7);
    api_store_uid(f->a, uid);
    const char *const label[] = {"kubernetes.io/metadata.name", name, "team", team};
    open_metadata(f, NULL, name, uid);
    add_labels(f, label, 2);
    buf_str(&f->text,
            "},\"spec\":{\"finalizers\":[\"kubernetes\"]},\"status\":{\"phase\":\"Active\"}}");
    put(f, "namespaces",
        &(struct obj_facts){
            .name = name, .uid = uid, .phase = "Active", .label = label, .n_labels = 2});
}

static void add_template(struct buf *b, const char *app, const char *hash)
{
    buf_fmt(b,
            "\"template\":{\"metadata\":{\"labels\":{\"app\":\"%s\"%s%s%s}},\"spec\":{"
            "\"containers\":[{\"name\":\"main\",\"image\":"
            "\"registry.example.com/serving/%s:1.7.3\",\"resources\":{\"limits\":{\"nvidia.com/"
            "gpu\":\"1\",\"memory\":\"64Gi\"},\"requests\":"
            "{\"cpu\":\"8\",\"memory\":\"64Gi\",\"nvidia.com/"
            "gpu\":\"1\"}},\"terminationMessagePath\":\"/dev/termination-log\","
            "\"terminationMessagePolicy\":\"File\",\"imagePullPolicy\":\"IfNotPresent\"}],"
            "\"restartPolicy\":\"Always\","
            "\"terminationGracePeriodSeconds\":30,\"dnsPolicy\":\"ClusterFirst\","
            "\"securityContext\":{},\"schedulerName\":"
            "\"default-scheduler\"}}",
            app, *hash ? ",\"pod-template-hash\":\"" : "", hash, *hash ? "\"" : "", app);
}

struct workload {
    char ns[32], app[32], rs[48], hash[16], deployment_uid[37], rs_uid[37];
};

static void fill_workload(struct fill *f, struct workload *w, int i, int n_pods)
{
    snprintf(w->ns, sizeof w->ns, "fill-%d", i / PER_NAMESPACE);
    snprintf(w->app, sizeof w->app, "app-%05d", i);
    snprintf(w->hash, sizeof w->hash, "%05dc%04x", i, (unsigned)(i * 40503u & 0xffff));
    snprintf(w->rs, sizeof w->rs, "%s-%s", w->app, w->hash);
    api_store_uid(f->a, w->deployment_uid);
    api_store_uid(f->a, w->rs_uid);
    for (int rs = 0; rs < 2; rs++) {
        const char *name = rs ? w->rs : w->app, *uid = rs ? w->rs_uid : w->deployment_uid;
        const char *const label[] = {"app", w->app, "pod-template-hash", w->hash};
        open_metadata(f, w->ns, name, uid);
        add_labels(f, label, rs ? 2 : 1);
        buf_str(&f->text,
                ",\"generation\":1,\"annotations\":{\"deployment.kubernetes.io/revision\":\"1\"}");
        if (rs)
            buf_fmt(&f->text,
                    ",\"ownerReferences\":[{\"apiVersion\":\"apps/"
                    "v1\",\"kind\":\"Deployment\",\"name\":\"%s\",\"uid\":\"%s\","
                    "\"controller\":true,\"blockOwnerDeletion\":true}]",
                    w->app, w->deployment_uid);
        buf_fmt(&f->text,
                "},\"spec\":{\"replicas\":%d,\"selector\":{\"matchLabels\":{\"app\":\"%s\"}},",
                n_pods, w->app);
        add_template(&f->text, w->app, rs ? w->hash : "");
        buf_fmt(&f->text,
                "},\"status\":{\"replicas\":%d,\"readyReplicas\":%d,\"availableReplicas\":%d,\"%"
                "s\":%d,\"observedGeneration\":%d}}",
                n_pods, n_pods, n_pods, rs ? "fullyLabeledReplicas" : "updatedReplicas", n_pods,
                rs);
        put(f, rs ? "replicasets" : "deployments",
            &(struct obj_facts){.ns = w->ns,
                                .name = name,
                                .uid = uid,
                                .owner = rs ? w->deployment_uid : NULL,
                                .label = label,
                                .n_labels = rs ? 2 : 1});
    }
}

static void add_pod_spec(struct buf *b, const struct workload *w, const char *node,
                         const char *suffix)
{
    buf_fmt(
        b,
        "\"spec\":{\"volumes\":[{\"name\":\"kube-api-access-%s\",\"projected\":{\"sources\":[{"
        "\"serviceAccountToken\":"
        "{\"expirationSeconds\":3607,\"path\":\"token\"}},{\"configMap\":{\"name\":\"kube-root-ca."
        "crt\",\"items\":[{\"key\":\"ca.crt\","
        "\"path\":\"ca.crt\"}]}}],\"defaultMode\":420}}],\"containers\":[{\"name\":\"main\","
        "\"image\":"
        "\"registry.example.com/serving/%s:1.7.3\",\"args\":[\"--model\",\"/models/"
        "%s\",\"--port\",\"8080\"],\"ports\":"
        "[{\"name\":\"http\",\"containerPort\":8080,\"protocol\":\"TCP\"}],\"env\":[{\"name\":"
        "\"MODEL\",\"value\":\"%s\"},{\"name\":"
        "\"POD_NAME\",\"valueFrom\":{\"fieldRef\":{\"apiVersion\":\"v1\",\"fieldPath\":\"metadata."
        "name\"}}}],\"resources\":"
        "{\"limits\":{\"memory\":\"64Gi\",\"nvidia.com/"
        "gpu\":\"1\"},\"requests\":{\"cpu\":\"8\",\"memory\":\"64Gi\",\"nvidia.com/gpu\":\"1\"}},"
        "\"volumeMounts\":[{\"name\":\"kube-api-access-%s\",\"readOnly\":true,\"mountPath\":"
        "\"/var/run/secrets/kubernetes.io/"
        "serviceaccount\"}],\"readinessProbe\":{\"httpGet\":{\"path\":\"/healthz\",\"port\":8080,"
        "\"scheme\":\"HTTP\"},\"timeoutSeconds\":1,\"periodSeconds\":10,\"successThreshold\":1,"
        "\"failureThreshold\":3},"
        "\"terminationMessagePath\":\"/dev/"
        "termination-log\",\"terminationMessagePolicy\":\"File\",\"imagePullPolicy\":"
        "\"IfNotPresent\"}],\"restartPolicy\":\"Always\",\"terminationGracePeriodSeconds\":30,"
        "\"dnsPolicy\":\"ClusterFirst\","
        "\"serviceAccountName\":\"default\",\"serviceAccount\":\"default\",",
        suffix, w->app, w->app, w->app, suffix);
    if (*node)
        buf_fmt(b, "\"nodeName\":\"%s\",", node);
    buf_fmt(b,
            "\"securityContext\":{},\"schedulerName\":\"%s\",\"tolerations\":[{\"key\":\"node."
            "kubernetes.io/not-ready\",\"operator\":"
            "\"Exists\",\"effect\":\"NoExecute\",\"tolerationSeconds\":300},{\"key\":\"node."
            "kubernetes.io/unreachable\",\"operator\":"
            "\"Exists\",\"effect\":\"NoExecute\",\"tolerationSeconds\":300}],\"priority\":0,"
            "\"enableServiceLinks\":true,"
            "\"preemptionPolicy\":\"PreemptLowerPriority\"},",
            *node ? "default-scheduler" : "nobody");
}

static void add_pod_status(struct fill *f, const char *node, int i)
{
    static const char *const condition[] = {"PodReadyToStartContainers", "Initialized", "Ready",
                                            "ContainersReady", "PodScheduled"};
    if (!*node) {
        buf_str(&f->text, "\"status\":{\"phase\":\"Pending\",\"qosClass\":\"Burstable\"}}");
        return;
    }
    buf_str(&f->text, "\"status\":{\"phase\":\"Running\",\"conditions\":[");
    for (int k = 0; k < 5; k++)
        buf_fmt(&f->text,
                "%s{\"type\":\"%s\",\"status\":\"True\",\"lastProbeTime\":null,"
                "\"lastTransitionTime\":\"%s\"}",
                k ? "," : "", condition[k], f->at);
    buf_fmt(&f->text,
            "],\"hostIP\":\"10.0.0.1\",\"podIP\":\"10.%d.%d.%d\",\"startTime\":\"%s\","
            "\"containerStatuses\":[{\"name\":\"main\",\"state\":"
            "{\"running\":{\"startedAt\":\"%s\"}},\"lastState\":{},\"ready\":true,\"restartCount\":"
            "0,\"image\":"
            "\"registry.example.com/serving/app:1.7.3\",\"imageID\":\"registry.example.com/serving/"
            "app@sha256:"
            "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef\",\"containerID\":"
            "\"containerd://%064d\",\"started\":true}],"
            "\"qosClass\":\"Burstable\"}}",
            i >> 16, i >> 8 & 255, i & 255, f->at, f->at, i);
}

static const char managed_spec[] =
    "{\"f:metadata\":{\"f:annotations\":{\".\":{},\"f:prometheus.io/port\":{},\"f:prometheus."
    "io/scrape\":{}},\"f:generateName\":{},\"f:labels\":{\".\":{},\"f:app\":{},\"f:pod-templa"
    "te-hash\":{},\"f:team\":{}},\"f:ownerReferences\":{\".\":{},\"k:{\\\"uid\\\":\\\"48e9888"
    "b-64b4-4ae5-8fd8-72b896a06484\\\"}\":{}}},\"f:spec\":{\"f:containers\":{\"k:{\\\"name"
    "\\\":\\\"main\\\"}\":{\".\":{},\"f:args\":{},\"f:env\":{\".\":{},\"k:{\\\"name\\\":\\\"M"
    "ODEL\\\"}\":{\".\":{},\"f:name\":{},\"f:value\":{}}},\"f:image\":{},\"f:imagePullPolicy"
    "\":{},\"f:name\":{},\"f:ports\":{},\"f:readinessProbe\":{},\"f:resources\":{\".\":{},\"f"
    ":limits\":{},\"f:requests\":{}}}},\"f:dnsPolicy\":{},\"f:restartPolicy\":{},\"f:schedule"
    "rName\":{},\"f:securityContext\":{}}}";
static const char managed_status[] =
    "{\"f:status\":{\"f:conditions\":{\"k:{\\\"type\\\":\\\"ContainersReady\\\"}\":{\".\":{},"
    "\"f:status\":{},\"f:type\":{}},\"k:{\\\"type\\\":\\\"Initialized\\\"}\":{\".\":{},\"f:st"
    "atus\":{},\"f:type\":{}},\"k:{\\\"type\\\":\\\"Ready\\\"}\":{\".\":{},\"f:status\":{},\""
    "f:type\":{}}},\"f:containerStatuses\":{},\"f:hostIP\":{},\"f:phase\":{},\"f:podIP\":{},"
    "\"f:startTime\":{}}}";

static void add_managed_fields(struct fill *f)
{
    buf_fmt(
        &f->text,
        ",\"managedFields\":[{\"manager\":\"kube-controller-manager\",\"operation\":\"Update\","
        "\"apiVersion\":\"v1\",\"time\":\"%s\",\"fieldsType\":\"FieldsV1\",\"fieldsV1\":%s},"
        "{\"manager\":\"kubelet\",\"operation\":\"Update\",\"apiVersion\":\"v1\",\"time\":\"%s\","
        "\"fieldsType\":\"FieldsV1\",\"fieldsV1\":%s,\"subresource\":\"status\"}]",
        f->at, managed_spec, f->at, managed_status);
}

static void fill_pod(struct fill *f, const struct workload *w, int i)
{
    static const struct need need[] = {
        {"cpu", 8000}, {"memory", INT64_C(64000) << 30}, {"nvidia.com/gpu", 1000}};
    char name[80], node[32] = "", suffix[6], uid[37], team[16];
    api_store_suffix(f->a, suffix);
    api_store_uid(f->a, uid);
    snprintf(name, sizeof name, "%s-%s%05d", w->rs, suffix, i % 100000);
    snprintf(team, sizeof team, "team-%d", i % 7);
    if (i % 20 != 19 && f->n_nodes > 0)
        snprintf(node, sizeof node, "node-%05d", i % f->n_nodes);
    const char *const label[] = {"app",
                                 w->app,
                                 "app.kubernetes.io/name",
                                 w->app,
                                 "app.kubernetes.io/part-of",
                                 "serving",
                                 "pod-template-hash",
                                 w->hash,
                                 "team",
                                 team};
    open_metadata(f, w->ns, name, uid);
    add_labels(f, label, 5);
    buf_fmt(&f->text,
            ",\"generateName\":\"%s-\",\"generation\":1,\"annotations\":{\"prometheus.io/"
            "scrape\":\"true\",\"prometheus.io/port\":"
            "\"8080\"},\"ownerReferences\":[{\"apiVersion\":\"apps/"
            "v1\",\"kind\":\"ReplicaSet\",\"name\":\"%s\",\"uid\":\"%s\",\"controller\":"
            "true,\"blockOwnerDeletion\":true}]",
            w->rs, w->rs, w->rs_uid);
    if (f->a->o.managed_fields)
        add_managed_fields(f);
    buf_str(&f->text, "},");
    add_pod_spec(&f->text, w, node, suffix);
    add_pod_status(f, node, i);
    put(f, "pods",
        &(struct obj_facts){.ns = w->ns,
                            .name = name,
                            .uid = uid,
                            .node = node,
                            .phase = *node ? "Running" : "Pending",
                            .scheduler = *node ? "default-scheduler" : "nobody",
                            .owner = w->rs_uid,
                            .label = label,
                            .n_labels = 5,
                            .ready = *node != '\0',
                            .need = need,
                            .n_needs = ARRAY_LEN(need)});
}

void apiserver_fill(struct apiserver *a, int n_nodes, int n_pods, int per_workload)
{
    api_lock(a);
    struct fill f = {.a = a,
                     .n_nodes = n_nodes,
                     .n_pods = n_pods,
                     .per = per_workload > 0 ? per_workload : 20,
                     .text = buf_init(1 << 20)};
    api_call_time(a, f.at);
    api_store_bulk(a, true);
    for (int i = 0; i < n_nodes; i++)
        fill_node(&f, i);
    for (int i = 0; i * f.per < n_pods; i++) {
        struct workload w;
        int n = n_pods - i * f.per < f.per ? n_pods - i * f.per : f.per;
        if (i % PER_NAMESPACE == 0)
            fill_namespace(&f, i / PER_NAMESPACE);
        fill_workload(&f, &w, i, n);
        for (int k = 0; k < n; k++)
            fill_pod(&f, &w, i * f.per + k);
    }
    api_store_bulk(a, false);
    buf_fini(&f.text);
    api_unlock(a);
}
