/* doctor_inputs.c - steps 4 to 7: is there a Prometheus, do the queries answer, for how long back,
 * and whose clock is wrong. */
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/mem.h"
#include "daemon/doctor_priv.h"
#include "daemon/past.h"

#define DAYS_NEEDED 14.0
#define DAYS_LEAST 7.0
enum { SKEW_FAIL_S = 60, PASSWORD_MAX = 4096 };

/* ---- 4 prometheus -----------------------------------------------------------------------------
 */

static enum err_code read_password(struct doctor *d, struct err *e)
{
    const char *path = d->config->prometheus.password_file;
    struct buf text;
    if (!path)
        return ERR_OK;
    enum err_code rc = file_read(path, PASSWORD_MAX, &text, e);
    if (rc)
        return err_wrap(e, "prometheus.password_file");
    text.p[strcspn(text.p, "\r\n")] = '\0';
    d->prom_password = mem_strdup(text.p);
    buf_fini(&text);
    return ERR_OK;
}

static struct http_server_opts where(const struct doctor *d)
{
    const struct run_prometheus *p = &d->config->prometheus;
    return (struct http_server_opts){.url = p->url,
                                     .ca_file = p->ca_file,
                                     .insecure = p->insecure,
                                     .token_file = p->token_file,
                                     .user = p->user,
                                     .password = d->prom_password};
}

static enum err_code connect_prometheus(struct doctor *d, struct err *e)
{
    const struct run_prometheus *c = &d->config->prometheus;
    enum err_code rc = read_password(d, e);
    struct http_server_opts at = where(d);
    if (rc || (rc = http_server_new(&at, &d->prom_server, e)))
        return rc;
    struct prom_opts o = prom_opts_default();
    o.timeout_us = c->timeout_us;
    o.attempts = 2;
    prom_new(d->http, d->prom_server, &o, &d->prom);
    return ERR_OK;
}

static const char *prom_advice(const struct prom_info *i, const struct err *e)
{
    if (i->status == 401 || i->status == 403)
        return "Credentials: prometheus.token_file, or user and password_file.";
    if (i->status == 404)
        return "There is a web server, but no Prometheus API: a path prefix is missing in "
               "prometheus.url.";
    if (e->sys == ETIMEDOUT)
        return "Nobody answers in time: the NetworkPolicy's egress, a wrong address, or an "
               "overloaded server (prometheus.timeout).";
    if (i->status >= 500)
        return "The server is there, but unwell: its log says why.";
    return "Check prometheus.url from the pod's network; proxies of the environment are not used.";
}

/* A query of one number; NaN when it has no answer. */
static double ask(struct doctor *d, const char *query, struct prom_info *info, struct err *e)
{
    struct prom_result r;
    double v = NAN;
    prom_result_init(&r);
    e->code = ERR_OK;
    if (prom_do(d->prom, &(struct prom_query){.query = query, .result = &r}, info, e) == ERR_OK &&
        r.n_samples == 1)
        v = r.samples[0].v;
    prom_result_fini(&r);
    return v;
}

static void see_no_prometheus(struct doctor *d)
{
    bool metrics = false;
    struct kube_reply reply;
    struct err e;
    if (d->kube) {
        const struct kube_call call = {.verb = KUBE_GET, .path = "/apis/metrics.k8s.io/v1beta1"};
        metrics = kube_do(d->kube, &call, &reply, &e) == ERR_OK;
        kube_reply_fini(&reply);
    }
    doctor_note(
        d, DOCTOR_PROMETHEUS, metrics ? DOCTOR_WARN : DOCTOR_FAIL, NULL, "Set prometheus.url.",
        metrics ? "none is configured; metrics.k8s.io gives CPU and memory, which is enough for "
                  "simple rules and for "
                  "nothing that looks at load or latency"
        : d->kube
            ? "none is configured, and metrics.k8s.io is not served: there are no measurements"
            : "none is configured");
}

void doctor_see_prometheus(struct doctor *d)
{
    struct prom_info info = {0};
    struct err e;
    if (!d->config->prometheus.url) {
        see_no_prometheus(d);
        return;
    }
    if (connect_prometheus(d, &e)) {
        doctor_note(d, DOCTOR_PROMETHEUS, DOCTOR_FAIL, NULL, NULL, "%s", e.msg);
        return;
    }
    double server_s = ask(d, "time()", &info, &e);
    if (!isfinite(server_s)) {
        doctor_note(d, DOCTOR_PROMETHEUS, DOCTOR_FAIL, d->config->prometheus.url,
                    prom_advice(&info, &e), "%s", e.code ? e.msg : "time() has no answer");
        prom_free(d->prom);
        d->prom = NULL;
        return;
    }
    d->prom_skew_us = (int64_t)(server_s * 1e6) - (info.sent_us + info.received_us) / 2;
    double ms = (double)info.elapsed_us * 1e-3, all = ask(d, "count(up)", &info, &e),
           up = ask(d, "sum(up)", &info, &e);
    doctor_note(d, DOCTOR_PROMETHEUS, DOCTOR_OK, NULL, NULL,
                "%s answers in %.0f ms; %.0f of %.0f scrape targets are up",
                d->config->prometheus.url, ms, isfinite(up) ? up : 0, isfinite(all) ? all : 0);
    if (isfinite(all) && up < 0.9 * all)
        doctor_note(d, DOCTOR_PROMETHEUS, DOCTOR_WARN, NULL,
                    "Look at Status, Targets in Prometheus: are exporters of your GPUs among them?",
                    "%.0f scrape targets are down", all - up);
}

bool doctor_need_prometheus(struct doctor *d, enum doctor_check c)
{
    if (!d->prom)
        doctor_note(d, c, DOCTOR_SKIP, NULL, NULL, "waits for prometheus");
    return d->prom != NULL;
}

/* ---- 5 queries --------------------------------------------------------------------------------
 */

/* Pods of the cache to targets, as the daemon does it. */
struct pods {
    struct doctor *d;
    struct cluster_count *count;
    struct cluster_index *index;
    size_t n;
};

static bool pod_target(void *ctx, const char *ns, const char *pod, struct collect_pod *out)
{
    struct pods *p = ctx;
    const struct kube_obj *o = cluster_find(p->d->cluster, CLUSTER_PODS, ns, pod);
    if (!o)
        return false;
    const struct kube_pod *k = kube_as_pod(o);
    *out = (struct collect_pod){
        .target = cluster_target_of(p->d->cluster, p->index, p->count, p->n, ns, pod),
        .cpu_cores = (double)k->cpu_milli / 1000,
        .mem_bytes = (double)k->mem_bytes,
    };
    return true;
}

static void pods_init(struct pods *p, struct doctor *d)
{
    *p = (struct pods){.d = d, .n = roster_count(d->roster)};
    p->count = mem_zero(p->n + 1, sizeof *p->count);
    for (size_t i = 0; i < p->n; i++) {
        struct live *l = roster_at(d->roster, i);
        p->count[i] = (struct cluster_count){.id = &l->target.id, .scale = &l->scale};
    }
    p->index = cluster_index_new(p->count, p->n);
}

static void pods_fini(struct pods *p)
{
    cluster_index_free(p->index);
    mem_free(p->count);
}

static bool run_round(struct doctor *d, struct collect *c)
{
    int64_t until_us = clock_mono_us() + d->wait_us;
    collect_start_round(c, clock_wall_us());
    while (collect_running(c)) {
        if (clock_mono_us() > until_us)
            return false;
        int64_t next_us = collect_tick(c);
        (void)http_poll(d->http, next_us < 50 * US_PER_MS ? next_us : 50 * US_PER_MS);
        (void)prom_tick(d->prom);
    }
    return true;
}

static void see_query(struct doctor *d, const struct collect_health *h, size_t n_targets)
{
    char about[80];
    (void)snprintf(about, sizeof about, "query %s", h->name);
    if (*h->error)
        doctor_note(d, DOCTOR_QUERIES, DOCTOR_FAIL, about,
                    "Correct queries.* in the configuration; try the text in Prometheus itself.",
                    "%s (%s)", h->error, h->query);
    else if (h->ambiguous)
        doctor_note(d, DOCTOR_QUERIES, DOCTOR_FAIL, about,
                    "Aggregate in the query (sum by, max by), or say aggregate: sum.",
                    "two samples came where one was expected (%s)", h->query);
    else if (*h->warning)
        doctor_note(d, DOCTOR_QUERIES, DOCTOR_WARN, about, "The data may be partial.", "%s",
                    h->warning);
    else if (h->n_samples && !h->n_targets && n_targets && field_find(h->name) >= 0)
        doctor_note(d, DOCTOR_QUERIES, DOCTOR_WARN, about,
                    "Its labels name pods or workloads that no target has: by:, label:.",
                    "answered with %llu samples, none of a target",
                    (unsigned long long)h->n_samples);
    if (h->stale)
        doctor_note(d, DOCTOR_QUERIES, DOCTOR_WARN, about,
                    "Scrape its exporter every 30 s or oftener.",
                    "%llu samples are too old to count", (unsigned long long)h->stale);
}

static void add_name(char *list, size_t n, const char *name)
{
    size_t at = strlen(list);
    (void)snprintf(list + at, n - at, "%s%s", at ? ", " : "", name);
}

static void see_fields(struct doctor *d, const struct collect *c, const struct live *l, int index)
{
    char about[2 * TARGET_NAME], has[256] = "", lacks[256] = "";
    float value[FIELD_COUNT];
    int64_t t_us;
    bool any = collect_record(c, index, 0, &t_us, value);
    doctor_target(l, about);
    for (int f = 0; f < FIELD_COUNT; f++)
        if (f != FIELD_UNITS_READY && f != FIELD_UNITS_TOTAL)
            add_name(any && isfinite(value[f]) ? has : lacks, sizeof has,
                     field_get((enum field)f)->name);
    if (!any || !isfinite(value[FIELD_QPS]))
        doctor_note(d, DOCTOR_QUERIES, DOCTOR_FAIL, about,
                    "Without load it always holds. Name the query that counts its requests: "
                    "queries.qps, or queries.qps of its "
                    "CapacityTarget.",
                    "has no qps%s%s", *has ? "; has " : "", has);
    else if (!isfinite(value[FIELD_P99_LATENCY_MS]) && value[FIELD_QPS] > 0)
        doctor_note(
            d, DOCTOR_QUERIES, DOCTOR_FAIL, about,
            "Under load it holds without a latency. Name the query: queries.p99_latency_ms.",
            "serves %.3g requests/s and has no p99_latency_ms; has %s", (double)value[FIELD_QPS],
            has);
    else
        doctor_note(d, DOCTOR_QUERIES, DOCTOR_OK, about, NULL, "has %s%s%s", has,
                    *lacks ? "; without " : "", lacks);
}

static void see_round(struct doctor *d, struct collect *c, struct pods *p)
{
    struct collect_status status;
    struct err e;
    for (size_t i = 0; i < p->n; i++) {
        const struct target_id *id = &roster_at(d->roster, i)->target.id;
        struct collect_target t = {0};
        (void)snprintf(t.namespace, sizeof t.namespace, "%s", id->namespace_);
        (void)snprintf(t.name, sizeof t.name, "%s", id->name);
        (void)snprintf(t.kind, sizeof t.kind, "%s", id->kind);
        if (collect_set(c, (int)i, &t, &e))
            doctor_note(d, DOCTOR_QUERIES, DOCTOR_FAIL, id->name, NULL, "%s", e.msg);
    }
    if (!run_round(d, c)) {
        doctor_note(d, DOCTOR_QUERIES, DOCTOR_FAIL, NULL,
                    "Fewer queries by: target, or queries.parallel higher.",
                    "one round of queries took over %.0f s", (double)d->wait_us * 1e-6);
        return;
    }
    for (int i = 0; i < collect_health_count(c); i++)
        see_query(d, collect_health_get(c, i), p->n);
    for (size_t i = 0; i < p->n; i++)
        see_fields(d, c, roster_at(d->roster, i), (int)i);
    collect_status(c, &status);
    d->samples_skew_us = status.clock.samples_us;
    if (!p->n)
        doctor_note(d, DOCTOR_QUERIES, DOCTOR_SKIP, NULL, NULL,
                    "there is no target yet; the queries themselves were tried");
}

void doctor_see_queries(struct doctor *d)
{
    struct pods p;
    struct collect *c;
    struct err e;
    if (!doctor_need_prometheus(d, DOCTOR_QUERIES) || !doctor_need_roster(d, DOCTOR_QUERIES))
        return;
    pods_init(&p, d);
    struct collect_opts o = collect_opts_default();
    o.prom = d->prom;
    o.queries = &d->config->queries;
    o.max_targets = ROSTER_MAX;
    o.pod = pod_target;
    o.ctx = &p;
    if (collect_new(&o, &c, &e)) {
        doctor_note(d, DOCTOR_QUERIES, DOCTOR_FAIL, NULL, "Correct queries.* in the configuration.",
                    "%s", e.msg);
    } else {
        see_round(d, c, &p);
        collect_free(c);
    }
    pods_fini(&p);
}

/* ---- 6 history --------------------------------------------------------------------------------
 */

static void see_past(struct doctor *d, const struct live *l, const struct past_answer *a)
{
    char about[2 * TARGET_NAME];
    int32_t known = 0;
    doctor_target(l, about);
    if (a->rc) {
        doctor_note(d, DOCTOR_HISTORY, DOCTOR_WARN, about,
                    "Forecasts begin with what is measured from now on.", "%s", a->error.msg);
        return;
    }
    for (int32_t i = 0; i < a->n_points; i++)
        known += isfinite(a->point[i]);
    double days = (double)known / (24 * 12);
    d->days_recorded = d->days_known ? fmin(d->days_recorded, days) : days;
    d->days_known = true;
    if (days >= DAYS_NEEDED - 0.5)
        doctor_note(d, DOCTOR_HISTORY, DOCTOR_OK, about, NULL, "%.1f days of load%s%s", days,
                    a->calibrated ? ", latency curve calibrated"
                    : *a->note    ? "; no latency curve: "
                                  : "",
                    a->calibrated ? "" : a->note);
    else
        doctor_note(d, DOCTOR_HISTORY, DOCTOR_WARN, about,
                    days >= DAYS_LEAST
                        ? "Good enough to begin; weekends are told apart after 14 days."
                        : "No forecast is used before 7 days; rules and measurements decide until "
                          "then. Prometheus may keep "
                          "less than that (--storage.tsdb.retention.time).",
                    "%.1f days of load in the last %.0f", days,
                    (double)d->config->history_us / (double)US_PER_DAY);
}

static void ask_past(struct doctor *d, struct past *p)
{
    size_t asked = 0, n = roster_count(d->roster);
    int64_t until_us = clock_mono_us() + d->wait_us;
    for (size_t i = 0; i < n; i++) {
        struct live *l = roster_at(d->roster, i);
        struct past_question q = {
            .slot = l->slot, .until_us = d->now_us, .slo_ms = l->profile.slo_p99_ms};
        (void)snprintf(q.uid, sizeof q.uid, "%s", l->uid);
        (void)snprintf(q.namespace_, sizeof q.namespace_, "%s", l->target.id.namespace_);
        (void)snprintf(q.name, sizeof q.name, "%s", l->target.id.name);
        (void)snprintf(q.kind, sizeof q.kind, "%s", l->target.id.kind);
        asked += past_ask(p, &q);
    }
    while (asked && clock_mono_us() < until_us) {
        struct past_answer a;
        if (!past_take(p, &a)) {
            (void)http_poll(d->http, 20 * US_PER_MS);
            continue;
        }
        asked--;
        struct live *l = roster_slot(d->roster, a.asked.slot);
        if (l)
            see_past(d, l, &a);
        past_answer_fini(&a);
    }
    if (asked)
        doctor_note(d, DOCTOR_HISTORY, DOCTOR_WARN, NULL, "Give it longer with --wait.",
                    "%zu targets were not read in %.0f s", asked, (double)d->wait_us * 1e-6);
}

void doctor_see_history(struct doctor *d)
{
    struct past *p;
    struct err e;
    if (!doctor_need_prometheus(d, DOCTOR_HISTORY) || !doctor_need_roster(d, DOCTOR_HISTORY))
        return;
    if (!roster_count(d->roster)) {
        doctor_note(d, DOCTOR_HISTORY, DOCTOR_SKIP, NULL, NULL, "there is no target yet");
        return;
    }
    if (d->config->history_us < (int64_t)(DAYS_NEEDED * (double)US_PER_DAY))
        doctor_note(d, DOCTOR_HISTORY, DOCTOR_WARN, NULL, "Set history to 14d or more.",
                    "history is set to %.1f days: so far back load is read from Prometheus at the start",
                    (double)d->config->history_us / (double)US_PER_DAY);
    struct http_server_opts at = where(d);
    struct past_opts o = {.server = &at,
                          .queries = &d->config->queries,
                          .span_us = d->config->history_us,
                          .timeout_us = d->config->prometheus.timeout_us,
                          .log = d->o->log};
    if (past_start(&o, &p, &e)) {
        doctor_note(d, DOCTOR_HISTORY, DOCTOR_FAIL, NULL, NULL, "%s", e.msg);
        return;
    }
    ask_past(d, p);
    past_stop(p);
}

/* ---- 7 clock-skew -----------------------------------------------------------------------------
 */

static void see_skew(struct doctor *d, const char *source, int64_t skew_us, int64_t allowed_us)
{
    double s = (double)skew_us * 1e-6;
    if (skew_us == INT64_MIN)
        return;
    int64_t away_us = skew_us < 0 ? -skew_us : skew_us;
    enum doctor_verdict v = away_us > SKEW_FAIL_S * US_PER_S ? DOCTOR_FAIL
                            : away_us > allowed_us           ? DOCTOR_WARN
                                                             : DOCTOR_OK;
    doctor_note(d, DOCTOR_CLOCK_SKEW, v, source,
                v == DOCTOR_OK ? NULL
                               : "Correct the clock of one of the two (chronyc tracking): samples "
                                 "look older or newer than they are.",
                "%+.1f s from the clock here", s);
}

void doctor_see_clocks(struct doctor *d)
{
    int64_t allowed_us = d->config->queries.skew_us;
    if (d->kube)
        see_skew(d, "API server", kube_stats(d->kube)->skew_us,
                 allowed_us + US_PER_S); /* whole seconds */
    see_skew(d, "Prometheus", d->prom_skew_us, allowed_us);
    see_skew(d, "exporters", d->samples_skew_us, allowed_us);
    if (!d->report->check[DOCTOR_CLOCK_SKEW].n)
        doctor_note(d, DOCTOR_CLOCK_SKEW, DOCTOR_SKIP, NULL, NULL,
                    "neither the API server nor Prometheus answered");
}
