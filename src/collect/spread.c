/* spread.c - whose a sample is, how old it is, whether it is one. */
#include <float.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/hash.h"
#include "base/mem.h"
#include "collect/collect_priv.h"
#include "collect/queries_priv.h"

/* ---- values -------------------------------------------------------------------------------------
 */

/* dcgm_structs.h: 32-bit 0x7ffffff0, 64-bit 0x7ffffffffffffff0, floating point 2^47, each to + 3 ("not
 * found", "not supported", "no permission"). */
static bool is_blank(double v)
{
    return (v >= 2147483632.0 && v <= 2147483635.0) ||
           (v >= 140737488355328.0 && v <= 140737488355331.0) ||
           (v >= 0x1p63 - 1024 && v <= 0x1p63);
}

static bool is_fraction(enum field f)
{
    return f == FIELD_GPU_UTIL || f == FIELD_GPU_MEM_UTIL || f == FIELD_CPU_UTIL ||
           f == FIELD_MEM_UTIL;
}

/* The rules of files (history/raw.h). */
bool spread_judge(enum field f, double *v)
{
    const double slack = 1.05; /* busy time over wall time is rounded */
    if (!(*v >= 0 && *v <= (double)FLT_MAX))
        return false;
    if (!is_fraction(f) || *v <= 1)
        return true;
    bool near = *v <= slack;
    *v = 1;
    return near;
}

/* A sample as the server has it; a counter is no field yet. */
static bool judge_sample(const struct query *q, double *v)
{
    if (!isfinite(*v) || is_blank(*v))
        return false;
    *v *= q->scale;
    if (q->counter)
        return *v >= 0 && isfinite(*v);
    return spread_judge(q->field, v);
}

/* ---- times --------------------------------------------------------------------------------------
 */

int64_t spread_time(struct collect *c, int64_t t_us, struct collect_health *h, bool *stale)
{
    int64_t skew = c->status.clock.known ? c->status.clock.server_us : 0;
    double age_us = (double)c->round_wall_us - ((double)t_us - (double)skew);
    double age_now_us = age_us * c->o.speed;
    *stale = age_now_us > (double)c->o.stale_us;
    h->stale += *stale;
    if (age_us < -(double)c->cfg->skew_us) {
        h->future++;
        age_now_us = 0;
    }
    return *stale ? 0 : c->round_now_us - (int64_t)age_now_us;
}

/* ---- targets by name ----------------------------------------------------------------------------
 */

static size_t bucket(const struct collect *c, const char *namespace, const char *name)
{
    struct hash h = hash_init(0);
    hash_str(&h, namespace);
    hash_str(&h, name);
    return (size_t)(hash_value(&h) % c->table_size);
}

static void write_namespaces(struct collect *c)
{
    enum { MOST = 100 }; /* a longer expression costs more than it saves */
    const char *seen[MOST];
    int n = 0;
    buf_clear(&c->namespaces);
    for (int i = 0; i < c->o.max_targets; i++) {
        const char *ns = c->slot[i].t.namespace;
        int k = 0;
        if (!c->slot[i].used)
            continue;
        while (k < n && strcmp(seen[k], ns) != 0)
            k++;
        if (k < n)
            continue;
        if (n == MOST) {
            buf_clear(&c->namespaces);
            return;
        }
        seen[n++] = ns;
        buf_str(&c->namespaces, n > 1 ? "|" : "");
        query_pattern(&c->namespaces, ns);
    }
}

void spread_table(struct collect *c)
{
    for (size_t i = 0; i < c->table_size; i++)
        c->table[i] = -1;
    for (int i = 0; i < c->o.max_targets; i++) {
        if (!c->slot[i].used)
            continue;
        size_t at = bucket(c, c->slot[i].t.namespace, c->slot[i].t.name);
        while (c->table[at] >= 0)
            at = (at + 1) % c->table_size;
        c->table[at] = i;
    }
    write_namespaces(c);
    c->table_dirty = false;
}

int spread_find(const struct collect *c, const char *namespace, const char *name, const char *kind)
{
    int found = -1;
    for (size_t at = bucket(c, namespace, name); c->table[at] >= 0; at = (at + 1) % c->table_size) {
        const struct collect_target *t = &c->slot[c->table[at]].t;
        bool same = strcmp(t->namespace, namespace) == 0 && strcmp(t->name, name) == 0 &&
                    (!kind || strcmp(t->kind, kind) == 0);
        if (same && found >= 0)
            return -1; /* a Deployment and a StatefulSet of one name: the sample does not say which */
        if (same)
            found = c->table[at];
    }
    return found;
}

/* ---- whose --------------------------------------------------------------------------------------
 */

/* Where a scrape's own labels clash with the exporter's, the exporter's get this prefix and are the
 * workload's. */
static const char *namespace_of(const struct prom_result *r, const struct prom_series *s)
{
    const char *exported = prom_label(r, s, "exported_namespace");
    return exported[0] ? exported : prom_label(r, s, "namespace");
}

static int by_workload(const struct collect *c, const struct query *q, const struct prom_result *r,
                       const struct prom_series *s)
{
    static const struct {
        const char *label, *kind;
    } usual[] = {{"workload", NULL},
                 {"deployment", "Deployment"},
                 {"statefulset", "StatefulSet"},
                 {"destination_workload", NULL},
                 {"replicaset", "ReplicaSet"},
                 {"rollout", "Rollout"}};
    const char *namespace = namespace_of(r, s);
    if (q->label)
        return spread_find(c, namespace, prom_label(r, s, q->label), NULL);
    for (size_t i = 0; i < ARRAY_LEN(usual); i++) {
        const char *name = prom_label(r, s, usual[i].label);
        if (name[0])
            return spread_find(c, namespace, name, usual[i].kind);
    }
    return -1;
}

static int by_pod(const struct collect *c, const struct query *q, const struct prom_result *r,
                  const struct prom_series *s)
{
    struct collect_pod pod = {.target = -1};
    const char *namespace = namespace_of(r, s), *name = q->label ? prom_label(r, s, q->label) : "";
    if (!q->label) {
        name = prom_label(r, s, "exported_pod");
        if (!name[0]) {
            name = prom_label(r, s, "pod");
            namespace = prom_label(r, s, "namespace");
        }
    }
    bool known = name[0] && c->o.pod(c->o.ctx, namespace, name, &pod);
    return known && pod.target < c->o.max_targets ? pod.target : -1;
}

static int whose(const struct collect *c, const struct query *q, const struct prom_result *r,
                 const struct prom_series *s)
{
    if (q->by == QUERY_BY_WORKLOAD)
        return by_workload(c, q, r, s);
    int target = q->builtin ? by_workload(c, q, r, s) : -1;
    return target >= 0 ? target : by_pod(c, q, r, s);
}

static int rank_of(const struct query *q, const struct prom_result *r, const struct prom_series *s)
{
    const char *source = q->builtin ? prom_label(r, s, QUERY_SOURCE_LABEL) : "";
    for (int i = 0; i < q->n_sources; i++)
        if (strcmp(q->source[i], source) == 0)
            return i;
    return 0;
}

/* ---- adding -------------------------------------------------------------------------------------
 */

void spread_begin(struct collect *c)
{
    memset(c->acc, 0, (size_t)c->o.max_targets * FIELD_COUNT * sizeof *c->acc);
}

void spread_add(struct collect *c, int target, enum field f, double v, int rank, int64_t at_us,
                int64_t stamp_us)
{
    struct acc *a = &c->acc[(size_t)target * FIELD_COUNT + f];
    if (a->n > 0 && rank > a->rank)
        return;
    if (a->n == 0 || rank < a->rank)
        *a = (struct acc){.lo = v, .hi = v, .rank = rank, .oldest_us = at_us};
    a->sum += v;
    a->n++;
    a->stamp_us = stamp_us;
    a->lo = v < a->lo ? v : a->lo;
    a->hi = v > a->hi ? v : a->hi;
    a->oldest_us = at_us < a->oldest_us ? at_us : a->oldest_us;
}

/* The second sample where one is expected: the value will be missing, and this says why. */
static void report_two(struct collect *c, const struct query *q, int target,
                       const struct prom_result *r, const struct prom_series *s)
{
    struct collect_health *h = &c->health[q->field];
    const struct collect_target *t = &c->slot[target].t;
    char labels[120];
    h->ambiguous++;
    prom_labels_text(r, s, labels, sizeof labels);
    (void)snprintf(h->error, sizeof h->error,
                   "query %s: two samples for %.60s/%.60s where one is expected, the second %s",
                   field_get(q->field)->name, t->namespace, t->name, labels);
}

static void add_sample(struct collect *c, const struct query *q, int target,
                       const struct prom_result *r, const struct prom_series *s)
{
    struct collect_health *h = &c->health[q->field];
    const struct prom_sample *x = &r->samples[s->first + s->n - 1]; /* of a range the newest */
    const struct acc *a = &c->acc[(size_t)target * FIELD_COUNT + q->field];
    double v = x->v;
    bool stale;
    int64_t at_us = spread_time(c, x->t_us, h, &stale);
    if (stale)
        return;
    if (!judge_sample(q, &v)) {
        h->bad++;
        return;
    }
    spread_add(c, target, q->field, v, rank_of(q, r, s), at_us, x->t_us);
    if (q->aggregate == QUERY_ONE && a->n == 2)
        report_two(c, q, target, r, s);
}

void spread_result(struct collect *c, const struct query *q, int target,
                   const struct prom_result *r)
{
    struct collect_health *h = &c->health[q->field];
    if (target < 0)
        h->last_dropped = 0;
    for (size_t i = 0; i < r->n_series; i++) {
        const struct prom_series *s = &r->series[i];
        int to = target >= 0 ? target : whose(c, q, r, s);
        if (s->n == 0) {
            h->bad++; /* a native histogram */
        } else if (to < 0 || !c->slot[to].used) {
            h->dropped++;
            h->last_dropped++;
        } else if (target >= 0 || !c->slot[to].own[q->field]) {
            add_sample(c, q, to, r, s);
        }
    }
}
