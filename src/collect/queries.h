/* queries.h - which PromQL fills which field of a record.
 *
 * One query per field, from the config; `auto` stands for a built-in one that tries the usual exporters in
 * turn (DCGM, cAdvisor, kube-state-metrics; vLLM, TGI, Triton, Istio, plain HTTP metrics).
 * `queries_print()` shows what it is.
 *
 *   queries:
 *     window: 1m
 *     gpu_util: {query: auto}
 *     qps: {query: 'sum by (namespace, deployment) (rate(my_requests_total[{window}]))', by: workload}
 *     queue_len: {query: 'max(my_queue{namespace="{namespace}",pod=~"{pods}"})', by: target}
 *
 *   by: pod       one query for all; each sample goes to the target its pod belongs to
 *   by: workload  one query for all; each sample goes to the target of its namespace and name
 *   by: target    one query per target (500 targets: 500 queries a round); the placeholders are for these
 *
 * Placeholders: {namespace} {name} {kind} {pods} (regular expression of its pods' names) and, anywhere,
 * {namespaces} (regular expression of all targets' namespaces) and {window}.  Samples of a target are
 * joined by `aggregate`; with `one`, two samples are an error that names query and target.  The value is
 * multiplied by `scale`.  NaN, infinities, DCGM's blank markers, negative values, and fractions above 1.05
 * are missing, never clamped into sense (1 to 1.05 reads as 1). */
#ifndef COLLECT_QUERIES_H
#define COLLECT_QUERIES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/opt.h"
#include "model/field.h"

enum query_by { QUERY_BY_AUTO, QUERY_BY_TARGET, QUERY_BY_POD, QUERY_BY_WORKLOAD };
enum query_aggregate {
    QUERY_AUTO, /* one for target and workload, sum of loads and queues, mean of the rest for pod */
    QUERY_ONE,
    QUERY_SUM,
    QUERY_MEAN,
    QUERY_MAX,
    QUERY_MIN,
};

struct query_cfg {
    char *query;  /* PromQL; "auto"; "none": the field is not collected */
    int by;       /* enum query_by */
    int aggregate; /* enum query_aggregate */
    double scale;
    char *label;  /* label that names the workload or pod; NULL: the usual ones in turn */
    bool counter; /* the value only grows: its rate is taken, resets handled; not with by: pod */
};
struct queries_cfg {
    struct query_cfg field[FIELD_COUNT];
    int64_t window_us;   /* {window}: 1m */
    int64_t timeout_us;  /* of a query, 8 s: under the collection step */
    int64_t parallel;    /* queries at once, 4 */
    struct opt_strings sources; /* built-ins that `auto` may use; empty: all */
    int64_t skew_us;     /* clocks further apart than this are reported; 5 s */
    char *skew_query;    /* newest sample time of an exporter that stamps its own; "none" for none */
};
extern const struct opt_table queries_table;

/* A query made ready: `auto` resolved, everything decided. */
enum { QUERY_SOURCES_MAX = 8 };
#define QUERY_SOURCE_LABEL "sluice_source"
struct query {
    enum field field;
    enum query_by by;  /* never QUERY_BY_AUTO */
    enum query_aggregate aggregate; /* never QUERY_AUTO */
    double scale;
    const char *label; /* borrowed from the cfg, or NULL */
    bool counter;
    char *text;        /* {window} still in it */
    /* Built-in: samples carry their source in QUERY_SOURCE_LABEL, and name a workload or a pod.  Of a
     * target's samples those of the first source count that has any. */
    bool builtin;
    const char *source[QUERY_SOURCES_MAX];
    int n_sources;
};
struct queries {
    struct query q[FIELD_COUNT];
    int n;
    int64_t window_us;
};
/* Errors: ERR_INVAL for an unknown source, an unknown placeholder, placeholders of a target in a query for
 * all ... */
NODISCARD enum err_code queries_make(const struct queries_cfg *cfg, struct queries *out, struct err *e);
void queries_free(struct queries *q); /* safe on a zeroed one */
/* For people: the fields and their PromQL. */
void queries_print(const struct queries *q, struct buf *out);

/* What stands for the placeholders. */
struct query_target {
    const char *namespace, *name, *kind; /* NULL: of no single target */
    const char *pods;       /* regular expression; NULL: from the name */
    const char *namespaces; /* regular expression; NULL: all */
};
/* PromQL with the placeholders filled in; t may be NULL; window in the server's time.  Errors: ERR_INVAL
 * for names that are not Kubernetes names (nothing can be smuggled into a query). */
NODISCARD enum err_code query_fill(const char *text, const struct query_target *t, int64_t window_us,
                                   struct buf *out, struct err *e);
/* PromQL that gives a field of one target as a single series, without a look-up of pods: for histories.
 * t->pods NULL: pods are told by their names (Deployments', StatefulSets').  A query for all, by pod or
 * workload, is narrowed by the labels that say whose a sample is: the server still evaluates it for all.
 * Counters become rates.  Writes nothing when the field is not collected.  Errors: those of query_fill. */
NODISCARD enum err_code query_for_target(const struct queries_cfg *cfg, enum field f, const struct query_target *t,
                                         int64_t window_us, struct buf *out, double *scale, struct err *e);

#endif
