#include "collect/queries.h"

#include <inttypes.h>
#include <string.h>

#include "base/mem.h"
#include "collect/queries_priv.h"

/* ---- the table ----------------------------------------------------------------------------------
 */

static const char *const by_names[] = {"auto", "target", "pod", "workload", NULL};
static const char *const aggregate_names[] = {"auto", "one", "sum", "mean", "max", "min", NULL};

#define Q struct query_cfg
static const struct opt_row query_rows[] = {
    OPT_STRING(Q, query, "query", "auto",
               "PromQL; auto: built in, see docs/collect.md; none: the field is not collected"),
    OPT_ENUM(Q, by, "by", "auto", by_names,
             "whom a sample belongs to; auto: target where the query has a placeholder of one"),
    OPT_ENUM(Q, aggregate, "aggregate", "auto", aggregate_names,
             "joins the samples of a target; one: two are an error; auto: by pod sum of qps and "
             "queue_len, max of "
             "latencies, mean of the rest; else one"),
    OPT_DOUBLE(Q, scale, "scale", "1", NULL, NULL,
               "multiplies the value: 0.01 for per cent, 1000 for s to ms"),
    OPT_STRING(Q, label, "label", NULL,
               "label that names the pod or workload; without it the usual ones in turn"),
    OPT_BOOL(Q, counter, "counter", "false",
             "the value only grows: collect its rate, resets handled"),
};
#undef Q
static const struct opt_table query_table =
    OPT_TABLE("query", struct query_cfg, query_rows, "Where a field comes from.");

#define C struct queries_cfg
#define FIELD_ROW(id, text) OPT_SUB(C, field[FIELD_##id], text, &query_table, "PromQL of " text)
static const struct opt_row rows[] = {
    OPT_DURATION(
        C, window_us, "window", "1min", "1s", "1h",
        "{window}: what rates and last values look back over; at least twice the scrape interval"),
    OPT_DURATION(C, timeout_us, "timeout", "8s", "100ms", "1min", "longest query of a round"),
    OPT_INT(C, parallel, "parallel", "4", "1", "64", "queries at once"),
    OPT_STRINGS(C, sources, "sources", NULL,
                "built-ins that auto may use: dcgm, cadvisor, kube-state-metrics, vllm, tgi, "
                "triton, istio, http; "
                "empty: all"),
    OPT_DURATION(C, skew_us, "skew", "5s", "100ms", "10min", "clocks further apart are reported"),
    OPT_STRING(C, skew_query, "skew_query",
               "max(timestamp(container_memory_working_set_bytes{id=\"/\"} offset -2m)) - time()",
               "seconds by which the newest sample that stamps itself is ahead of the server; "
               "none: not asked"),
    FIELD_ROW(QPS, "qps"),
    FIELD_ROW(P50_LATENCY_MS, "p50_latency_ms"),
    FIELD_ROW(P99_LATENCY_MS, "p99_latency_ms"),
    FIELD_ROW(QUEUE_LEN, "queue_len"),
    FIELD_ROW(GPU_UTIL, "gpu_util"),
    FIELD_ROW(GPU_MEM_UTIL, "gpu_mem_util"),
    FIELD_ROW(CPU_UTIL, "cpu_util"),
    FIELD_ROW(MEM_UTIL, "mem_util"),
    FIELD_ROW(UNITS_READY, "units_ready"),
    FIELD_ROW(UNITS_TOTAL, "units_total"),
};
#undef C

static enum err_code check_table(const void *dst, struct err *e)
{
    struct queries q;
    enum err_code rc = queries_make(dst, &q, e);
    queries_free(&q);
    return rc;
}

const struct opt_table queries_table = {
    .name = "queries",
    .help = "PromQL per field.",
    .rows = rows,
    .n = ARRAY_LEN(rows),
    .size = sizeof(struct queries_cfg),
    .check = check_table,
};

/* ---- placeholders -------------------------------------------------------------------------------
 */

enum placeholder { PH_NAMESPACE, PH_NAME, PH_KIND, PH_PODS, PH_NAMESPACES, PH_WINDOW, PH_COUNT };
static const char *const placeholder_names[PH_COUNT] = {"namespace", "name",       "kind",
                                                        "pods",      "namespaces", "window"};

/* The next {word} in text, whose start is left in *at; PH_COUNT for an unknown word, -1 when there is none. */
static int next_placeholder(const char *text, const char **at, size_t *n)
{
    for (const char *p = strchr(text, '{'); p; p = strchr(p + 1, '{')) {
        size_t len = strspn(p + 1, "abcdefghijklmnopqrstuvwxyz_");
        if (len == 0 || p[1 + len] != '}')
            continue;
        *at = p;
        *n = len + 2;
        for (int i = 0; i < PH_COUNT; i++)
            if (strlen(placeholder_names[i]) == len &&
                strncmp(placeholder_names[i], p + 1, len) == 0)
                return i;
        return PH_COUNT;
    }
    return -1;
}

/* Which placeholders occur.  Errors: ERR_INVAL for an unknown one. */
static enum err_code look_for_placeholders(const char *text, bool has[PH_COUNT], struct err *e)
{
    const char *at;
    size_t n;
    memset(has, 0, PH_COUNT * sizeof *has);
    for (int i; (i = next_placeholder(text, &at, &n)) >= 0; text = at + n) {
        if (i == PH_COUNT)
            return err_set(e, ERR_INVAL,
                           "%.*s: no such placeholder; there are {namespace} {name} {kind} {pods} "
                           "{namespaces} "
                           "{window}",
                           (int)n, at);
        has[i] = true;
    }
    return ERR_OK;
}

static bool of_target(const bool has[PH_COUNT])
{
    return has[PH_NAMESPACE] || has[PH_NAME] || has[PH_KIND] || has[PH_PODS];
}

bool query_is_name(const char *s)
{
    size_t n = strspn(s, "abcdefghijklmnopqrstuvwxyz0123456789.-");
    return n > 0 && n <= 253 && s[n] == 0;
}

static bool is_kind(const char *s)
{
    size_t n = strspn(s, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789");
    return n > 0 && n <= 63 && s[n] == 0;
}

void query_pattern(struct buf *out, const char *name)
{
    for (; *name; name++)
        if (*name == '.')
            buf_str(out, "[.]");
        else
            buf_char(out, *name);
}

static void put_pods(const struct query_target *t, struct buf *out)
{
    if (t->pods) {
        buf_str(out, t->pods);
        return;
    }
    query_pattern(out, t->name);
    buf_str(out, QUERY_POD_SUFFIX);
}

void query_duration(struct buf *out, int64_t us)
{
    int64_t ms = us / 1000 > 0 ? us / 1000 : 1;
    if (ms % 1000 == 0)
        buf_fmt(out, "%" PRId64 "s", ms / 1000);
    else
        buf_fmt(out, "%" PRId64 "ms", ms);
}

static void put_placeholder(enum placeholder p, const struct query_target *t, int64_t window_us,
                            struct buf *out)
{
    switch (p) {
    case PH_NAMESPACE:
        buf_str(out, t->namespace);
        break;
    case PH_NAME:
        buf_str(out, t->name);
        break;
    case PH_KIND:
        buf_str(out, t->kind);
        break;
    case PH_PODS:
        put_pods(t, out);
        break;
    case PH_NAMESPACES:
        buf_str(out, t && t->namespaces ? t->namespaces : ".+");
        break;
    default:
        query_duration(out, window_us);
        break;
    }
}

enum err_code query_fill(const char *text, const struct query_target *t, int64_t window_us,
                         struct buf *out, struct err *e)
{
    const char *at;
    size_t n;
    bool one = t && t->namespace;
    if (one && (!query_is_name(t->namespace) || !query_is_name(t->name) || !is_kind(t->kind)))
        return err_set(e, ERR_INVAL, "\"%.60s/%.60s\" (%.60s) is no name of an object",
                       t->namespace, t->name, t->kind);
    for (int i; (i = next_placeholder(text, &at, &n)) >= 0; text = at + n) {
        if (i == PH_COUNT || (i < PH_NAMESPACES && !one))
            return err_set(e, ERR_INVAL, "%.*s: no value for this placeholder", (int)n, at);
        buf_add(out, text, (size_t)(at - text));
        put_placeholder((enum placeholder)i, t, window_us, out);
    }
    buf_str(out, text);
    return buf_check(out, e);
}

/* ---- making -------------------------------------------------------------------------------------
 */

static enum query_aggregate usual_aggregate(enum field f, enum query_by by, bool builtin)
{
    if (by == QUERY_BY_TARGET || (by == QUERY_BY_WORKLOAD && !builtin))
        return QUERY_ONE;
    if (f == FIELD_QPS || f == FIELD_QUEUE_LEN)
        return QUERY_SUM;
    if (f == FIELD_UNITS_READY || f == FIELD_UNITS_TOTAL || f == FIELD_P50_LATENCY_MS ||
        f == FIELD_P99_LATENCY_MS)
        return QUERY_MAX;
    return QUERY_MEAN;
}

static enum err_code settle_by(const struct query_cfg *c, const bool has[PH_COUNT],
                               enum query_by *by, struct err *e)
{
    *by = (enum query_by)c->by;
    if (*by == QUERY_BY_AUTO && !of_target(has))
        return err_set(e, ERR_INVAL, "say whom a sample belongs to: by: pod or by: workload");
    if (*by == QUERY_BY_AUTO)
        *by = QUERY_BY_TARGET;
    if (*by == QUERY_BY_TARGET && !of_target(has))
        return err_set(e, ERR_INVAL,
                       "by: target needs a placeholder of the target, such as {namespace}");
    if (*by != QUERY_BY_TARGET && of_target(has))
        return err_set(e, ERR_INVAL,
                       "a query for all targets (by: %s) cannot have placeholders of one",
                       by_names[*by]);
    if (*by == QUERY_BY_POD && c->counter)
        return err_set(e, ERR_INVAL, "counter: not with by: pod; use rate() in the query");
    return ERR_OK;
}

static enum err_code make_own(const struct query_cfg *c, struct query *q, struct err *e)
{
    bool has[PH_COUNT];
    enum err_code rc = c->query[0]
                           ? look_for_placeholders(c->query, has, e)
                           : err_set(e, ERR_INVAL, "an empty query; none leaves the field out");
    if (!rc)
        rc = settle_by(c, has, &q->by, e);
    if (!rc)
        q->text = mem_strdup(c->query);
    return rc;
}

static enum err_code make_builtin(const struct queries_cfg *cfg, const struct query_cfg *c,
                                  struct query *q, struct err *e)
{
    if (c->by != QUERY_BY_AUTO || c->label || c->counter)
        return err_set(e, ERR_INVAL, "by, label and counter go with a query of your own");
    q->by = QUERY_BY_POD;
    q->builtin = true;
    struct buf text = buf_init(QUERY_TEXT_MAX);
    query_builtin(q->field, &cfg->sources, q, &text);
    q->text = buf_take(&text);
    return ERR_OK;
}

/* *made false: the field is not collected. */
static enum err_code make_one(const struct queries_cfg *cfg, enum field f, struct query *q,
                              bool *made, struct err *e)
{
    const struct query_cfg *c = &cfg->field[f];
    *q = (struct query){.field = f, .scale = c->scale, .label = c->label, .counter = c->counter};
    *made = false;
    if (strcmp(c->query, "none") == 0)
        return ERR_OK;
    bool builtin = strcmp(c->query, "auto") == 0;
    enum err_code rc = builtin ? make_builtin(cfg, c, q, e) : make_own(c, q, e);
    if (rc)
        return err_wrap(e, "%s", field_get(f)->name);
    q->aggregate = c->aggregate == QUERY_AUTO ? usual_aggregate(f, q->by, builtin)
                                              : (enum query_aggregate)c->aggregate;
    *made = q->text[0] != 0;
    if (!*made)
        mem_free(q->text);
    return ERR_OK;
}

enum err_code queries_make(const struct queries_cfg *cfg, struct queries *out, struct err *e)
{
    *out = (struct queries){.window_us = cfg->window_us};
    for (size_t i = 0; i < cfg->sources.n; i++)
        if (!query_source_known(cfg->sources.items[i]))
            return err_set(e, ERR_INVAL, "sources: there is no \"%.40s\"", cfg->sources.items[i]);
    for (int f = 0; f < FIELD_COUNT; f++) {
        bool made;
        enum err_code rc = make_one(cfg, (enum field)f, &out->q[out->n], &made, e);
        if (rc) {
            queries_free(out);
            return rc;
        }
        out->n += made;
    }
    return ERR_OK;
}

void queries_free(struct queries *q)
{
    for (int i = 0; i < q->n; i++)
        mem_free(q->q[i].text);
    *q = (struct queries){0};
}

void queries_print(const struct queries *q, struct buf *out)
{
    for (int i = 0; i < q->n; i++) {
        const struct query *x = &q->q[i];
        buf_fmt(out, "%s  by %s, %s, scale %g\n  ", field_get(x->field)->name,
                x->builtin ? "pod or workload" : by_names[x->by], aggregate_names[x->aggregate],
                x->scale);
        if (query_fill(x->text, NULL, q->window_us, out, NULL))
            buf_str(out, x->text); /* by: target: as configured */
        buf_char(out, '\n');
    }
}

/* ---- one target alone ---------------------------------------------------------------------------
 */

#define MINE_NS "sluice_namespace"
#define MINE_NAME "sluice_workload"
#define MINE_POD "sluice_pod"

/* One label_replace around a query: `to` becomes `what` where `from` matches. */
struct relabel {
    const char *to, *what, *from, *match;
};
enum { RELABELS_MAX = 12 };
struct relabels {
    struct relabel of[RELABELS_MAX];
    int n;
};

static void relabel(struct relabels *r, const char *to, const char *what, const char *from, const char *match)
{
    ASSERT(r->n < RELABELS_MAX);
    r->of[r->n++] = (struct relabel){to, what, from, match};
}

/* As spread.c tells whose a sample is: the first label that is there names the workload, so the last one written here. A
 * label of another kind names nobody of ours. */
static void name_workload(const struct query_cfg *c, const struct query_target *t, struct relabels *r)
{
    static const struct {
        const char *label, *kind;
    } usual[] = {{"rollout", "Rollout"},         {"replicaset", "ReplicaSet"}, {"destination_workload", NULL},
                 {"statefulset", "StatefulSet"}, {"deployment", "Deployment"}, {"workload", NULL}};
    if (c->label)
        relabel(r, MINE_NAME, "$1", c->label, "(.+)");
    for (size_t i = 0; i < ARRAY_LEN(usual) && !c->label; i++) {
        bool other = usual[i].kind && strcmp(usual[i].kind, t->kind) != 0;
        relabel(r, MINE_NAME, other ? "" : "$1", usual[i].label, "(.+)");
    }
}

/* Pods of the past are not known any more: they are told by their names, or by t->pods. */
static void name_pod(const struct query_cfg *c, const struct query_target *t, const char *pods, struct relabels *r)
{
    relabel(r, MINE_POD, "$1", c->label ? c->label : "pod", "(.+)");
    if (!c->label)
        relabel(r, MINE_POD, "$1", "exported_pod", "(.+)");
    relabel(r, MINE_NAME, t->name, MINE_POD, pods);
}

static const char *aggregator(enum query_aggregate a)
{
    static const char *const names[] = {
        [QUERY_ONE] = "", [QUERY_SUM] = "sum", [QUERY_MEAN] = "avg", [QUERY_MAX] = "max", [QUERY_MIN] = "min"};
    return names[a];
}

/* A rate over the window of what only grows, whatever the expression is: a fall is a restart from zero. */
static void open_rate(const struct query_cfg *c, struct buf *out)
{
    buf_str(out, c->counter ? "rate((" : "");
}

static void close_rate(const struct query_cfg *c, int64_t window_us, struct buf *out)
{
    if (!c->counter)
        return;
    buf_str(out, ")[");
    query_duration(out, window_us);
    buf_char(out, ':');
    query_duration(out, window_us / 4);
    buf_str(out, "])");
}

/* A query for all, narrowed: AGG(the same with two labels that say whose a sample is, and on (these) a vector that has just
 * the two). */
static enum err_code narrow(const struct query_cfg *c, enum field f, const struct query_target *t,
                            int64_t window_us, struct buf *out, struct err *e)
{
    struct relabels r = {.n = 0};
    struct buf pods = buf_init(4096);
    enum query_aggregate a = c->aggregate != QUERY_AUTO ? (enum query_aggregate)c->aggregate
                                                        : usual_aggregate(f, (enum query_by)c->by, false);
    enum err_code rc = query_fill("{pods}", t, 0, &pods, e); /* looks at the names as well */
    relabel(&r, MINE_NS, "$1", "namespace", "(.+)");
    relabel(&r, MINE_NS, "$1", "exported_namespace", "(.+)");
    if (c->by == QUERY_BY_POD)
        name_pod(c, t, pods.p, &r);
    else
        name_workload(c, t, &r);
    buf_fmt(out, "%s(", aggregator(a));
    open_rate(c, out);
    for (int i = 0; i < r.n; i++)
        buf_str(out, "label_replace(");
    buf_char(out, '(');
    if (!rc)
        rc = query_fill(c->query, NULL, window_us, out, e);
    buf_char(out, ')');
    for (int i = 0; i < r.n; i++)
        buf_fmt(out, ", \"%s\", \"%s\", \"%s\", \"%s\")", r.of[i].to, r.of[i].what, r.of[i].from, r.of[i].match);
    buf_fmt(out,
            " and on (" MINE_NS ", " MINE_NAME ") label_replace(label_replace(vector(1), \"" MINE_NS
            "\", \"%s\", \"\", \"\"), \"" MINE_NAME "\", \"%s\", \"\", \"\")",
            t->namespace, t->name);
    close_rate(c, window_us, out);
    buf_char(out, ')');
    buf_fini(&pods);
    return rc;
}

static enum err_code fill_for_one(const struct query_cfg *c, const struct query_target *t, int64_t window_us,
                                  struct buf *out, struct err *e)
{
    open_rate(c, out);
    enum err_code rc = query_fill(c->query, t, window_us, out, e);
    close_rate(c, window_us, out);
    return rc;
}

enum err_code query_for_target(const struct queries_cfg *cfg, enum field f,
                               const struct query_target *t, int64_t window_us, struct buf *out,
                               double *scale, struct err *e)
{
    const struct query_cfg *c = &cfg->field[f];
    bool has[PH_COUNT];
    enum err_code rc;
    *scale = c->scale;
    if (strcmp(c->query, "none") == 0)
        return ERR_OK;
    if (strcmp(c->query, "auto") == 0) {
        struct buf text = buf_init(QUERY_TEXT_MAX);
        query_builtin_target(f, &cfg->sources, &text);
        rc = text.n ? query_fill(text.p, t, window_us, out, e) : ERR_OK;
        buf_fini(&text);
        return rc;
    }
    rc = look_for_placeholders(c->query, has, e);
    if (!rc)
        rc = of_target(has) ? fill_for_one(c, t, window_us, out, e)
                            : narrow(c, f, t, window_us, out, e);
    return rc ? err_wrap(e, "%s", field_get(f)->name) : buf_check(out, e);
}
