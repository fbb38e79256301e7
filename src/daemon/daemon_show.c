/* daemon_show.c - a round for people: metrics, the targets document, forecasts for other autoscalers, health. */
#include <math.h>
#include <string.h>

#include "base/clock.h"
#include "base/mem.h"
#include "base/num.h"
#include "daemon/daemon_priv.h"

/* ---- metrics ---------------------------------------------------------------------------------- */

static void show_units(struct daemon *d, const struct live *l, const char *ns, const char *name)
{
    const struct target_counts *n = &l->counts;
    int warming = 0;
    for (int i = 0; i < CAPACITY_WARM_BINS; i++)
        warming += n->warm[i];
    const struct {
        const char *state;
        double value;
    } rows[] = {
        {"desired", l->target.decided ? l->status.desired : NAN},
        {"max", l->target.decided ? l->target.spec.units_max : NAN},
        {"requested", n->known ? n->requested : NAN},
        {"ready", n->known ? n->ready : NAN},
        {"warming", n->known ? warming : NAN},
        {"failed", n->known ? n->failed : NAN},
    };
    for (size_t i = 0; i < ARRAY_LEN(rows); i++)
        metric_set(d->metrics, METRIC_TARGET_UNITS, rows[i].value, METRIC_LABELS(ns, name, rows[i].state));
}

static void show_forecast(struct daemon *d, const struct live *l, const char *ns, const char *name)
{
    struct forecast_track track;
    forecast_track_get(l->target.forecaster, &track);
    const struct forecast_score *s = &track.own[FORECAST_POINTS - 1];
    metric_set(d->metrics, METRIC_FORECAST_ERROR, forecast_wape(s), METRIC_LABELS(ns, name));
    metric_set(d->metrics, METRIC_FORECAST_COVERAGE, forecast_cover80(s), METRIC_LABELS(ns, name, "80"));
    metric_set(d->metrics, METRIC_FORECAST_COVERAGE, forecast_cover95(s), METRIC_LABELS(ns, name, "95"));
}

/* 1 minus the rank of the critic's newest value among those before it; missing until there are some. */
static double pressure(struct live *l)
{
    float value = target_acting(&l->target)->record.value;
    if (!isfinite(value))
        return NAN;
    int n = min_int(l->n_values, LIVE_VALUES), below = 0;
    for (int i = 0; i < n; i++)
        below += l->values[i] < value;
    l->values[l->n_values++ % LIVE_VALUES] = value;
    return n >= LIVE_VALUES / 8 ? 1 - (double)below / n : NAN;
}

static void show_target(struct daemon *d, struct live *l)
{
    const char *ns = l->target.id.namespace_, *name = l->name;
    const struct target_policy *p = target_acting(&l->target);
    const struct capacity_view *v = &l->target.view;
    l->status.desired = l->target.decided ? p->plan.units : l->counts.requested;
    show_units(d, l, ns, name);
    if (l->shown_hold != l->hold && l->shown_hold != LIVE_HOLD_NONE)
        metric_set(d->metrics, METRIC_HOLD, NAN, METRIC_LABELS(ns, name, live_hold_name(l->shown_hold)));
    if (l->hold != LIVE_HOLD_NONE)
        metric_set(d->metrics, METRIC_HOLD, 1, METRIC_LABELS(ns, name, live_hold_name(l->hold)));
    l->shown_hold = l->hold;
    metric_set(d->metrics, METRIC_SAMPLE_AGE, v->sample_us ? (double)(d->now_us - v->sample_us) * 1e-6 : NAN,
               METRIC_LABELS(ns, name));
    metric_set(d->metrics, METRIC_OWNERSHIP_CONFLICT, l->owner.kind != OWNER_NONE, METRIC_LABELS(ns, name));
    metric_set(d->metrics, METRIC_POLICY_ERROR,
               l->hold == LIVE_HOLD_INVALID || p->error.code != ERR_OK || p->record.error != 0,
               METRIC_LABELS(ns, name));
    if (!l->target.decided)
        return;
    metric_set(d->metrics, METRIC_TARGET_DEMAND, (double)v->value[FIELD_QPS], METRIC_LABELS(ns, name));
    metric_set(d->metrics, METRIC_PRESSURE, pressure(l), METRIC_LABELS(ns, name));
    metric_set(d->metrics, METRIC_BREAKER_OPEN, p->state.guard.breaker_until_us > d->now_us, METRIC_LABELS(ns, name));
    metric_set(d->metrics, METRIC_REWARD, l->reward_cost, METRIC_LABELS(ns, name, "cost"));
    metric_set(d->metrics, METRIC_REWARD, l->reward_slo, METRIC_LABELS(ns, name, "latency"));
    metric_set(d->metrics, METRIC_REWARD, l->reward_churn, METRIC_LABELS(ns, name, "churn"));
    show_forecast(d, l, ns, name);
    const struct guard_result *g = explain_decisive(&p->record);
    metric_add(d->metrics, METRIC_DECISIONS, 1, METRIC_LABELS(g ? guard_verdict_name(g->verdict) : "pass"));
}

/* The cause once, when it begins and when it ends: the metric says that it lasts. */
static void tell_input(struct daemon *d, int i, const struct collect_health *h, bool up)
{
    uint64_t bit = UINT64_C(1) << i;
    bool was_down = d->inputs_down & bit;
    if (up == !was_down || !h->last_try_us)
        return;
    d->inputs_down ^= bit;
    log_write(d->log, up ? LOG_INFO : LOG_WARN, "collect", up ? "input is back" : "input is not usable",
              "query=%s error=\"%s\"", h->name, h->error);
}

static void show_inputs(struct daemon *d)
{
    struct collect_status s;
    for (int i = 0; i < collect_health_count(d->sources.collect); i++) {
        const struct collect_health *h = collect_health_get(d->sources.collect, i);
        bool up = h->last_ok_us > 0 && h->last_ok_us >= h->last_try_us - h->duration_us && !*h->error;
        tell_input(d, i, h, up);
        metric_set(d->metrics, METRIC_INPUT_UP, up, METRIC_LABELS(h->name));
        metric_set(d->metrics, METRIC_INPUT_AGE,
                   h->last_ok_us ? (double)(daemon_wall_us(d) - h->last_ok_us) * 1e-6 : NAN, METRIC_LABELS(h->name));
    }
    collect_status(d->sources.collect, &s);
    if (s.clock.known)
        metric_set(d->metrics, METRIC_CLOCK_SKEW, (double)s.clock.server_us * 1e-6, METRIC_LABELS("prometheus"));
    if (s.clock.samples_us != INT64_MIN)
        metric_set(d->metrics, METRIC_CLOCK_SKEW, (double)s.clock.samples_us * 1e-6, METRIC_LABELS("samples"));
    int64_t skew_us = kube_stats(d->kube)->skew_us;
    if (skew_us != INT64_MIN)
        metric_set(d->metrics, METRIC_CLOCK_SKEW, (double)skew_us * 1e-6, METRIC_LABELS("apiserver"));
    metric_set(d->metrics, METRIC_ARENA_HIGH_WATER, (double)collect_bytes(d->sources.collect),
               METRIC_LABELS("collect"));
}

/* Counters of the client are totals: their growth is added. */
static void show_api(struct daemon *d)
{
    const struct kube_stats *now = kube_stats(d->kube);
    for (int v = 0; v < KUBE_N_VERBS; v++)
        for (int c = 0; c < KUBE_N_CLASSES; c++) {
            uint64_t n = now->count[v][c].n - d->api_shown.count[v][c].n;
            if (n)
                metric_add(d->metrics, METRIC_API_REQUESTS, (double)n,
                           METRIC_LABELS(kube_verb_name((enum kube_verb)v), kube_class_name((enum kube_class)c)));
        }
    for (int v = 0; v < KUBE_N_VERBS; v++)
        for (int b = 0; b < KUBE_N_BUCKETS && v != KUBE_WATCH; b++)
            for (uint64_t i = d->api_shown.bucket[v][b]; i < now->bucket[v][b]; i++)
                metric_observe(d->metrics, METRIC_API_SECONDS,
                               b + 1 < KUBE_N_BUCKETS ? kube_bucket_s[b] : 2 * kube_bucket_s[b - 1],
                               METRIC_LABELS(kube_verb_name((enum kube_verb)v)));
    d->api_shown = *now;
}

static void show_informers(struct daemon *d)
{
    const char *kind;
    for (int k = 0; (kind = cluster_kind_name(d->cluster, k)); k++) {
        size_t objects = 0;
        int64_t age_us = 0;
        for (size_t i = 0; i < cluster_namespaces(d->cluster); i++) {
            const struct informer *inf = cluster_informer(d->cluster, k, i);
            if (!inf)
                continue;
            objects += informer_count(inf);
            age_us = max_i64(age_us, informer_age_us(inf));
        }
        if (!cluster_informer(d->cluster, k, 0))
            continue;
        metric_set(d->metrics, METRIC_INFORMER_OBJECTS, (double)objects, METRIC_LABELS(kind));
        metric_set(d->metrics, METRIC_INFORMER_AGE, age_us == INT64_MAX ? NAN : (double)age_us * 1e-6,
                   METRIC_LABELS(kind));
    }
}

static void show_daemon(struct daemon *d, double round_s)
{
    metrics_drop(d->metrics, METRIC_STAGE);
    metric_set(d->metrics, METRIC_STAGE, 1, METRIC_LABELS(run_stage_names[d->config.c->stage]));
    metric_set(d->metrics, METRIC_LEADER, daemon_leads(d), NULL);
    metric_set(d->metrics, METRIC_FROZEN, freeze_on(d->freeze), NULL);
    metric_set(d->metrics, METRIC_STORE_UP, d->stored, NULL);
    metric_observe(d->metrics, METRIC_ROUND_SECONDS, round_s, NULL);
    metric_set(d->metrics, METRIC_LAST_ROUND, (double)daemon_wall_us(d) * 1e-6, NULL);
    metric_set(d->metrics, METRIC_QUEUE_DEPTH, (double)shared_commands_waiting(d->shared), METRIC_LABELS("commands"));
    metric_set(d->metrics, METRIC_QUEUE_DEPTH, d->past ? (double)past_waiting(d->past) : 0, METRIC_LABELS("history"));
    metric_set(d->metrics, METRIC_QUEUE_DEPTH, (double)kube_running(d->kube), METRIC_LABELS("api"));
}

/* ---- documents -------------------------------------------------------------------------------- */

static void put_target(const struct daemon *d, const struct live *l, struct doc *doc)
{
    const struct target_id *id = &l->target.id;
    const struct capacity_view *v = &l->target.view;
    const struct target_policy *p = &l->target.main;
    doc_item(doc, id->namespace_, l->name);
    struct json_writer w = json_writer_init(&doc->text, 0);
    json_open(&w, NULL);
    json_put_str(&w, "namespace", id->namespace_);
    json_put_str(&w, "name", l->name);
    json_put_str(&w, "kind", id->kind);
    json_put_str(&w, "workload", id->name);
    json_put_str(&w, "stage", run_stage_names[d->config.c->stage]);
    json_put_str(&w, "hold", l->hold == LIVE_HOLD_NONE ? NULL : live_hold_name(l->hold));
    json_put_str(&w, "fault", l->faults.n ? l->faults.text : l->policy_error.code ? l->policy_error.msg
                              : l->status_error.code ? l->status_error.msg : l->scale.error.code ? l->scale.error.msg
                              : NULL);
    json_put_str(&w, "owner", l->owner.kind != OWNER_NONE ? l->owner.owner : NULL);
    json_put_i64(&w, "units_requested", l->counts.requested);
    json_put_i64(&w, "units_ready", l->counts.ready);
    json_put_i64(&w, "units_failed", l->counts.failed);
    json_put_i64(&w, "units_desired", l->status.desired);
    json_put_str(&w, "policy", p->ready ? p->record.policy : NULL);
    json_put_str(&w, "policy_error", p->error.code ? p->error.msg : NULL);
    json_put_f64(&w, "qps", l->target.decided ? (double)v->value[FIELD_QPS] : NAN);
    json_put_f64(&w, "p99_latency_ms", l->target.decided ? (double)v->value[FIELD_P99_LATENCY_MS] : NAN);
    json_put_f64(&w, "sample_age_s", v->sample_us ? (double)(d->now_us - v->sample_us) * 1e-6 : NAN);
    json_put_bool(&w, "forecast_usable", l->target.forecast.usable);
    json_put_f64(&w, "forecast_15min_qps", (double)l->target.forecast.mean[FORECAST_POINTS - 1]);
    json_put_str(&w, "safety", safety_state_name(l->status.safety.state));
    json_put_i64(&w, "decision", l->decision_id);
    json_put_str(&w, "why", *l->why ? l->why : NULL);
    json_close(&w);
}

/* What is decided; where another owns the size and the guard keeps it for that, what would be set were it ours. */
static int units_wanted(const struct target *t)
{
    const struct target_policy *p = &t->main;
    struct capacity_view v = t->view;
    struct guard_result chain[GUARD_CHECKS];
    if (!v.claims.owned_by_other)
        return p->plan.units;
    v.claims.owned_by_other = false;
    return guard_chain(&p->cfg, &v, &p->state, p->record.proposed, chain);
}

static void fill_row(const struct daemon *d, const struct live *l, struct external_row *r)
{
    const struct forecast *f = &l->target.forecast;
    (void)snprintf(r->ns, sizeof r->ns, "%.63s", l->target.id.namespace_);
    (void)snprintf(r->target, sizeof r->target, "%s", l->name);
    r->time_us = daemon_wall_us(d);
    for (int i = 0; i < EXTERNAL_METRICS; i++)
        r->value[i] = NAN;
    if (l->target.decided)
        r->value[EXTERNAL_DESIRED_UNITS] = units_wanted(&l->target);
    if (!f->usable || d->now_us - f->made_us > 2 * FORECAST_POINT_US)
        return;
    r->value[EXTERNAL_QPS_5M] = (double)f->mean[0];
    r->value[EXTERNAL_QPS_10M] = (double)f->mean[1];
    r->value[EXTERNAL_QPS_15M] = (double)f->mean[2];
    r->value[EXTERNAL_QPS_30M] = (double)f->mean[3];
    r->value[EXTERNAL_HIGH_QPS] = (double)f->high;
}

/* What is wrong with the first input that cannot be used; names its query. */
static const char *input_fault(const struct daemon *d)
{
    for (int i = 0; i < collect_health_count(d->sources.collect); i++) {
        const struct collect_health *h = collect_health_get(d->sources.collect, i);
        if (*h->error)
            return h->error;
    }
    return "ok";
}

static void put_health(const struct daemon *d, struct doc *doc)
{
    struct collect_status s;
    collect_status(d->sources.collect, &s);
    struct json_writer w = json_writer_init(&doc->text, 0);
    size_t held = 0, faulty = 0;
    for (size_t i = 0; i < roster_count(d->roster); i++) {
        const struct live *l = roster_at(d->roster, i);
        held += l->hold != LIVE_HOLD_NONE;
        faulty += l->hold == LIVE_HOLD_INVALID || l->target.main.error.code != ERR_OK;
    }
    json_open(&w, NULL);
    json_put_str(&w, "stage", run_stage_names[d->config.c->stage]);
    json_put_bool(&w, "leader", daemon_leads(d));
    json_put_i64(&w, "targets", (int64_t)roster_count(d->roster));
    json_put_i64(&w, "targets_held", (int64_t)held);
    json_put_i64(&w, "targets_faulty", (int64_t)faulty);
    json_put_i64(&w, "targets_refused", (int64_t)roster_refused(d->roster));
    json_put_str(&w, "store", d->stored ? "ok" : d->store_error.msg);
    json_put_str(&w, "inputs", input_fault(d));
    json_put_str(&w, "clock", s.clock.skewed ? s.clock.text : NULL);
    json_put_bool(&w, "cluster_abnormal", d->abnormal);
    json_put_str(&w, "config", d->config_error.code ? d->config_error.msg : "ok");
    json_close(&w);
}

static void publish(struct daemon *d)
{
    struct daemon_scratch *x = &d->scratch;
    struct err e;
    doc_clear(&x->targets);
    doc_clear(&x->health);
    size_t n = roster_count(d->roster);
    for (size_t i = 0; i < n; i++) {
        put_target(d, roster_at(d->roster, i), &x->targets);
        fill_row(d, roster_at(d->roster, i), &x->rows[i]);
    }
    put_health(d, &x->health);
    if (shared_publish(d->shared, SHARED_TARGETS, &x->targets, &e) ||
        shared_publish(d->shared, SHARED_HEALTH, &x->health, &e) ||
        external_publish(d->shared, &x->external, x->rows, n, &e))
        log_write(d->log, LOG_WARN, "serve", "round is not shown", "error=\"%s\"", e.msg);
}

void daemon_show(struct daemon *d, double round_s)
{
    for (size_t i = 0; i < roster_count(d->roster); i++)
        show_target(d, roster_at(d->roster, i));
    show_inputs(d);
    show_api(d);
    show_informers(d);
    show_daemon(d, round_s);
    publish(d);
}
