/* builtin.c - the queries behind `auto`: the names and units of the usual exporters.
 *
 * A row is one source of one field; a field's rows are tried in order, per target.  For all targets at once
 * the rows are joined by `or`, each marked with its source:
 *     label_replace(sum by (namespace, pod, ...) (rate(a_total[1m])), "sluice_source", "a", "", "") or ...
 * so that the collector can tell them apart, and never adds the same requests twice. For one target alone
 * ("for histories") the same rows are filled with matchers instead of groups and joined by plain `or`: the
 * first that exists wins at each point in time.
 *
 * Which labels say whose a sample is (the subject):
 *   pod       namespace and pod, or exported_namespace and exported_pod where the exporter's own labels
 *             clashed with those of the scrape (DCGM without honor_labels): exported_ is the workload's,
 *             the other the exporter's
 *   named     latency histograms must be added before the quantile: by workload, told from the pod's name
 *   istio     destination_workload
 *   deployment, statefulset    kube-state-metrics
 *
 * Values look back over {window} (last_over_time) rather than Prometheus' five minutes, so what stopped
 * being scraped is soon missing.  DCGM's blank markers (above 2^31) are filtered before anything is
 * averaged. */
#include <string.h>

#include "base/mem.h"
#include "collect/queries_priv.h"

enum subject { BY_POD, BY_CONTAINER, BY_NAMED, BY_ISTIO, BY_DEPLOYMENT, BY_STATEFULSET, SUBJECTS };

/* {group}: grouping labels.  {derive} EXPR {derived}: gives EXPR the labels of the group.  {match}: `scope`
 * in the query for all, else `match` of the target. */
static const struct subject_text {
    const char *group, *derive, *derived, *scope;
    const char *match, *match_exported; /* the second is another try, or NULL */
} subjects[SUBJECTS] = {
    [BY_POD] = {"namespace, pod, exported_namespace, exported_pod", "", "", "",
                "namespace=\"{namespace}\",pod=~\"{pods}\"",
                "exported_namespace=\"{namespace}\",exported_pod=~\"{pods}\""},
    /* every pod of the cluster has these: only the targets' namespaces are asked for */
    [BY_CONTAINER] = {"namespace, pod", "", "", "namespace=~\"{namespaces}\"",
                      "namespace=\"{namespace}\",pod=~\"{pods}\"", NULL},
    [BY_NAMED] = {"namespace, workload", "label_replace(",
                  ", \"workload\", \"$1\", \"pod\", \"(.+?)" QUERY_POD_SUFFIX "\")", "",
                  "namespace=\"{namespace}\",pod=~\"{pods}\"", NULL},
    [BY_ISTIO] = {"namespace, workload", "label_replace(label_replace(",
                  ", \"workload\", \"$1\", \"destination_workload\", \"(.*)\"), \"namespace\", \"$1\", "
                  "\"destination_workload_namespace\", \"(.*)\")", "",
                  "destination_workload_namespace=\"{namespace}\",destination_workload=\"{name}\"", NULL},
    [BY_DEPLOYMENT] = {"namespace, exported_namespace, deployment", "", "", "",
                       "namespace=\"{namespace}\",deployment=\"{name}\"",
                       "exported_namespace=\"{namespace}\",deployment=\"{name}\""},
    [BY_STATEFULSET] = {"namespace, exported_namespace, statefulset", "", "", "",
                        "namespace=\"{namespace}\",statefulset=\"{name}\"",
                        "exported_namespace=\"{namespace}\",statefulset=\"{name}\""},
};

#define LAST(metric) "last_over_time(" metric "{{match}}[{window}])"
#define RATE(metric) "rate(" metric "{{match}}[{window}])"
#define SUM(expr) "sum by ({group}) ({derive}" expr "{derived})"
#define AVG(expr) "avg by ({group}) (" expr ")"
#define QUANTILE(q, bucket)                                                                        \
    "histogram_quantile(" q ", sum by (le, {group}) ({derive}rate(" bucket "[{window}]){derived}))"
#define HIST(q, metric) QUANTILE(q, metric "_bucket{{match}}")
#define CONTAINERS "container!=\"\",container!=\"POD\",{match}"
#define REQUESTED(resource)                                                                        \
    "(sum by ({group}) (kube_pod_container_resource_requests{resource=\"" resource "\",{match}}) or sum by ({group}) "  \
    "(kube_pod_container_resource_limits{resource=\"" resource "\",{match}}))"
#define FB_USED "(" LAST("DCGM_FI_DEV_FB_USED") " < 1e9)"
#define FB_FREE "(" LAST("DCGM_FI_DEV_FB_FREE") " < 1e9)"

#define ISTIO_HIST(q) QUANTILE(q, "istio_request_duration_milliseconds_bucket{reporter=\"destination\",{match}}")
#define TRITON(q) "max by ({group}) (last_over_time(nv_inference_request_summary_us{quantile=\"" q "\",{match}}[{window}])) / 1000"

static const struct row {
    enum field field;
    const char *source;
    enum subject subject;
    const char *text;
} rows[] = {
    {FIELD_GPU_UTIL, "dcgm", BY_POD,
     AVG(LAST("DCGM_FI_PROF_SM_ACTIVE") " <= 1") " or " AVG(LAST("DCGM_FI_PROF_GR_ENGINE_ACTIVE") " <= 1") " or " AVG(
         LAST("DCGM_FI_DEV_GPU_UTIL") " <= 100") " / 100"},
    {FIELD_GPU_MEM_UTIL, "dcgm", BY_POD, AVG(FB_USED " / (" FB_USED " + " FB_FREE ")")},
    {FIELD_CPU_UTIL, "cadvisor", BY_CONTAINER,
     "clamp_max(sum by ({group}) (rate(container_cpu_usage_seconds_total{" CONTAINERS "}[{window}])) / " REQUESTED(
         "cpu") ", 1)"},
    {FIELD_MEM_UTIL, "cadvisor", BY_CONTAINER,
     "clamp_max(sum by ({group}) (last_over_time(container_memory_working_set_bytes{" CONTAINERS
     "}[{window}])) / " REQUESTED("memory") ", 1)"},
    {FIELD_UNITS_READY, "kube-state-metrics", BY_DEPLOYMENT,
     "max by ({group}) (" LAST("kube_deployment_status_replicas_ready") ")"},
    {FIELD_UNITS_READY, "kube-state-metrics", BY_STATEFULSET,
     "max by ({group}) (" LAST("kube_statefulset_status_replicas_ready") ")"},
    {FIELD_UNITS_TOTAL, "kube-state-metrics", BY_DEPLOYMENT,
     "max by ({group}) (" LAST("kube_deployment_status_replicas") ")"},
    {FIELD_UNITS_TOTAL, "kube-state-metrics", BY_STATEFULSET,
     "max by ({group}) (" LAST("kube_statefulset_status_replicas") ")"},
    {FIELD_QPS, "vllm", BY_POD, SUM(RATE("vllm:request_success_total"))},
    {FIELD_QPS, "tgi", BY_POD, SUM(RATE("tgi_request_count"))},
    {FIELD_QPS, "triton", BY_POD, SUM(RATE("nv_inference_request_success"))},
    {FIELD_QPS, "istio", BY_ISTIO, SUM("rate(istio_requests_total{reporter=\"destination\",{match}}[{window}])")},
    {FIELD_QPS, "http", BY_POD,
     SUM(RATE("http_requests_total")) " or " SUM(RATE("http_request_duration_seconds_count")) " or " SUM(
         RATE("http_server_request_duration_seconds_count")) " or " SUM(RATE("http_server_requests_seconds_count"))},
    {FIELD_QUEUE_LEN, "vllm", BY_POD, SUM(LAST("vllm:num_requests_waiting"))},
    {FIELD_QUEUE_LEN, "tgi", BY_POD, SUM(LAST("tgi_queue_size"))},
    {FIELD_QUEUE_LEN, "triton", BY_POD, SUM(LAST("nv_inference_pending_request_count"))},
#define LATENCY(field, q)                                                                          \
    {field, "vllm", BY_NAMED, HIST(q, "vllm:e2e_request_latency_seconds") " * 1000"},              \
        {field, "tgi", BY_NAMED, HIST(q, "tgi_request_duration") " * 1000"},                       \
        {field, "triton", BY_POD, TRITON(q)},                                                      \
        {field, "istio", BY_ISTIO, ISTIO_HIST(q)},                                                 \
    {                                                                                              \
        field, "http", BY_NAMED,                                                                   \
            HIST(q, "http_request_duration_seconds") " * 1000 or " HIST(                           \
                q, "http_server_request_duration_seconds") " * 1000 or " HIST(q, "http_server_requests_seconds") " * 1000" \
    }
    LATENCY(FIELD_P50_LATENCY_MS, "0.5"),
    LATENCY(FIELD_P99_LATENCY_MS, "0.99"),
};

bool query_source_known(const char *name)
{
    for (size_t i = 0; i < ARRAY_LEN(rows); i++)
        if (strcmp(rows[i].source, name) == 0)
            return true;
    return false;
}

static bool wanted(const struct row *r, enum field f, const struct opt_strings *sources)
{
    bool any = sources->n == 0;
    for (size_t i = 0; i < sources->n; i++)
        any |= strcmp(sources->items[i], r->source) == 0;
    return any && r->field == f;
}

/* Replaces the macros above; {namespace}, {window} and the like stay for query_fill(). */
static void expand(const char *text, const char *group, const char *derive, const char *derived, const char *match,
                   struct buf *out)
{
    const struct {
        const char *macro, *value;
    } macros[] = {{"{group}", group}, {"{derive}", derive}, {"{derived}", derived}, {"{match}", match}};
    while (*text) {
        size_t i = 0;
        while (i < ARRAY_LEN(macros) && strncmp(text, macros[i].macro, strlen(macros[i].macro)) != 0)
            i++;
        if (i < ARRAY_LEN(macros)) {
            buf_str(out, macros[i].value);
            text += strlen(macros[i].macro);
        } else {
            buf_char(out, *text++);
        }
    }
}

static int source_rank(struct query *q, const char *source)
{
    for (int i = 0; i < q->n_sources; i++)
        if (strcmp(q->source[i], source) == 0)
            return i;
    ASSERT(q->n_sources < QUERY_SOURCES_MAX);
    q->source[q->n_sources] = source;
    return q->n_sources++;
}

void query_builtin(enum field f, const struct opt_strings *sources, struct query *q, struct buf *out)
{
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        const struct row *r = &rows[i];
        const struct subject_text *s = &subjects[r->subject];
        if (!wanted(r, f, sources))
            continue;
        (void)source_rank(q, r->source);
        buf_str(out, out->n ? "\n  or label_replace(" : "label_replace(");
        expand(r->text, s->group, s->derive, s->derived, s->scope, out);
        buf_fmt(out, ", \"" QUERY_SOURCE_LABEL "\", \"%s\", \"\", \"\")", r->source);
    }
}

void query_builtin_target(enum field f, const struct opt_strings *sources, struct buf *out)
{
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        const struct row *r = &rows[i];
        const char *match[2] = {subjects[r->subject].match, subjects[r->subject].match_exported};
        for (int k = 0; k < 2 && wanted(r, f, sources); k++) {
            if (!match[k])
                continue;
            buf_str(out, out->n ? "\n  or " : "");
            expand(r->text, "", "", "", match[k], out);
        }
    }
}
