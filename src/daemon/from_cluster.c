#include "daemon/from_cluster.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/mem.h"
#include "daemon/cluster.h"
#include "daemon/past.h"
#include "daemon/roster.h"
#include "daemon/safety.h"
#include "forecast/forecaster.h"
#include "kube/config.h"
#include "net/http.h"

enum { PASSWORD_MAX = 4096, NOTES_BYTES = 1 << 14, GAP_POINTS = 3, WEEK_DAYS = 7 };
#define WAIT_US (60 * US_PER_S)
#define DAY_US (24 * INT64_C(3600000000))
#define POLL_US 20000

/* What is open while reading. */
struct reader {
    const struct from_cluster_opts *o;
    struct from_cluster *f;
    int64_t now_us, until_us; /* wall; mono */
    struct http_client *http;
    struct kube_config *kube_config;
    struct kube *kube;
    struct cluster *cluster;
    struct roster *roster;
    struct live *live;
    char *password;
    struct past *past;
    struct past_answer answer;
};

/* ---- credentials ------------------------------------------------------------------------------
 */

static enum err_code connect_api(struct reader *r, struct err *e)
{
    const struct run_kube *k = &r->o->config->kube;
    struct kube_config_opts o = kube_config_opts_default();
    struct kube_opts ko = kube_opts_default();
    o.path = k->kubeconfig;
    o.context = k->context;
    enum err_code rc = kube_config_load(&o, &r->kube_config, e);
    if (rc)
        return rc;
    r->kube_config->server.proxy = k->proxy;
    ko.read_only = true;
    ko.deadline_us = k->timeout_us;
    return kube_new(r->kube_config, r->http, &ko, &r->kube, e);
}

/* Asks for what would do harm; a server that does not tell is noted, and no reason to stop. */
static void look_at_rights(struct reader *r)
{
    static const struct kube_access asked[] = {
        {.verb = "update", .group = "apps", .resource = "deployments", .subresource = "scale"},
        {.verb = "patch", .group = "apps", .resource = "deployments"},
        {.verb = "patch",
         .group = "sluice.dev",
         .resource = "capacitytargets",
         .subresource = "status"},
        {.verb = "delete", .resource = "pods"},
    };
    char *out = r->f->writable;
    for (size_t i = 0; i < ARRAY_LEN(asked); i++) {
        const struct kube_access *a = &asked[i];
        bool allowed = false;
        struct err e;
        if (kube_can(r->kube, a, &allowed, NULL, &e)) {
            buf_fmt(&r->f->notes, "what the credentials may do is not known: %.150s\n", e.msg);
            return;
        }
        size_t n = strlen(out);
        if (allowed)
            (void)snprintf(out + n, sizeof r->f->writable - n, "%s%s %s%s%s", n ? ", " : "",
                           a->verb, a->resource, a->subresource ? "/" : "",
                           a->subresource ? a->subresource : "");
    }
}

/* ---- the cluster ------------------------------------------------------------------------------
 */

static enum err_code wait_for_lists(struct reader *r, struct err *e)
{
    const struct run_config *c = r->o->config;
    struct cluster_opts o = {.namespaces = (const char *const *)c->kube.namespaces.items,
                             .n_namespaces = c->kube.namespaces.n};
    char why[256];
    enum err_code rc = cluster_new(r->kube, &o, &r->cluster, e);
    while (!rc && !cluster_synced(r->cluster, why, sizeof why)) {
        if (clock_mono_us() > r->until_us)
            return err_set(e, ERR_IO, "the cluster could not be listed: %s", why);
        cluster_tick(r->cluster, clock_mono_us());
        (void)kube_poll(r->kube, POLL_US);
    }
    return rc;
}

static enum err_code find_target(struct reader *r, struct err *e)
{
    struct buf names = buf_init(1 << 12);
    const char *wanted = r->o->target;
    size_t n = roster_count(r->roster), found = 0;
    for (size_t i = 0; i < n; i++) {
        struct live *l = roster_at(r->roster, i);
        char name[520];
        (void)snprintf(name, sizeof name, "%s/%s", l->target.id.namespace_, l->name);
        if (names.n < 400)
            buf_fmt(&names, "%s%s", names.n ? ", " : "", name);
        if (wanted && strcmp(wanted, name) != 0 && strcmp(wanted, l->name) != 0)
            continue;
        r->live = l;
        found++;
        (void)snprintf(r->f->name, sizeof r->f->name, "%s", name);
    }
    enum err_code rc = ERR_OK;
    if (n == 0)
        rc = err_set(e, ERR_MISSING,
                     "the cluster has no target: no CapacityTarget, no workload labelled "
                     "sluice.dev/managed=true, and the configuration names none");
    else if (found == 0)
        rc = err_set(e, ERR_MISSING, "no target %.200s; there are %.300s", wanted ? wanted : "",
                     names.p);
    else if (found > 1)
        rc = err_set(e, ERR_USAGE, "--target: which one? There are %.300s", names.p);
    buf_fini(&names);
    return rc;
}

static enum err_code wait_for_size(struct reader *r, struct err *e)
{
    struct live *l = r->live;
    while (!l->scale.known && clock_mono_us() <= r->until_us) {
        cluster_scale_follow(r->cluster, &l->target.id, &l->scale, clock_mono_us());
        if (l->scale.error.code)
            break;
        (void)kube_poll(r->kube, POLL_US);
    }
    if (l->scale.known)
        return ERR_OK;
    return err_set(e, ERR_MISSING, "%.300s: its size cannot be read: %.150s", r->f->name,
                   l->scale.error.msg);
}

static void count_pods(struct reader *r)
{
    struct live *l = r->live;
    struct cluster_count t = {.id = &l->target.id, .scale = &l->scale, .startup = &l->startup};
    struct cluster_index *x = cluster_index_new(&t, 1);
    cluster_count(r->cluster, x, &t, 1, r->now_us);
    cluster_index_free(x);
    r->f->units_asked = t.out.requested;
    r->f->units_ready = t.out.ready;
    r->f->units_failed = t.out.failed;
    memcpy(r->f->warm, t.out.warm, sizeof r->f->warm);
    for (int i = 0; i < CAPACITY_WARM_BINS; i++)
        r->f->units_warming += t.out.warm[i];
}

/* What leaders measured and did before is in the status. */
static void take_status(struct reader *r, struct target_status *status, bool *known)
{
    struct live *l = r->live;
    const struct kube_obj *o =
        cluster_find(r->cluster, CLUSTER_TARGETS, l->target.id.namespace_, l->name);
    struct json_doc *doc;
    struct err e;
    *known = false;
    if (l->source != LIVE_SPEC || !o || kube_raw_json(kube_as_raw(o), &doc, &e))
        return;
    *known = target_status_parse(doc, json_find(json_root(doc), "status"), status, &e) == ERR_OK;
    if (!*known)
        buf_fmt(&r->f->notes, "its status cannot be read, so it starts without cooldowns: %.200s\n",
                e.msg);
    else
        startup_restore(&l->startup, status->startup.seconds, status->startup.n);
    json_free(doc);
}

/* ---- the past ---------------------------------------------------------------------------------
 */

static enum err_code read_password(struct reader *r, struct err *e)
{
    const char *path = r->o->config->prometheus.password_file;
    struct buf text;
    if (!path)
        return ERR_OK;
    enum err_code rc = file_read(path, PASSWORD_MAX, &text, e);
    if (rc)
        return err_wrap(e, "prometheus.password_file");
    text.p[strcspn(text.p, "\r\n")] = '\0';
    r->password = mem_strdup(text.p);
    buf_fini(&text);
    return ERR_OK;
}

static enum err_code start_past(struct reader *r, struct err *e)
{
    const struct run_config *c = r->o->config;
    const struct run_prometheus *p = &c->prometheus;
    if (!p->url || !*p->url)
        return err_set(
            e, ERR_MISSING,
            "prometheus.url: the load of the last days comes from Prometheus (-c sluice.yaml, or "
            "--set prometheus.url=URL)");
    enum err_code rc = read_password(r, e);
    if (rc)
        return rc;
    struct http_server_opts at = {.url = p->url,
                                  .ca_file = p->ca_file,
                                  .insecure = p->insecure,
                                  .token_file = p->token_file,
                                  .user = p->user,
                                  .password = r->password};
    return past_start(&(struct past_opts){.server = &at,
                                          .queries = &c->queries,
                                          .span_us = r->o->since_us,
                                          .timeout_us = p->timeout_us,
                                          .log = r->o->log},
                      &r->past, e);
}

static enum err_code read_past(struct reader *r, struct err *e)
{
    const struct target_id *id = &r->live->target.id;
    struct past_question q = {
        .slot = r->live->slot, .slo_ms = r->live->slo_ms, .until_us = r->now_us};
    enum err_code rc = start_past(r, e);
    if (rc)
        return rc;
    (void)snprintf(q.namespace_, sizeof q.namespace_, "%s", id->namespace_);
    (void)snprintf(q.name, sizeof q.name, "%s", id->name);
    (void)snprintf(q.kind, sizeof q.kind, "%s", id->kind);
    (void)past_ask(r->past, &q);
    while (!past_take(r->past, &r->answer)) {
        if (clock_mono_us() > r->until_us)
            return err_set(e, ERR_IO, "Prometheus: the load could not be read in time");
        (void)kube_poll(r->kube, POLL_US);
    }
    if (r->answer.rc) {
        *e = r->answer.error;
        return err_wrap(e, "the load of %.200s", r->f->name);
    }
    return ERR_OK;
}

/* The curve that was measured, where none is stated; then the profile as the daemon would have it.
 */
static enum err_code merge(struct reader *r, struct err *e)
{
    struct live *l = r->live;
    struct profile p;
    struct profile_faults faults;
    profile_init(&p);
    profile_faults_init(&faults);
    if (r->answer.calibrated)
        profile_set_curve(&p, PROFILE_HISTORY, r->answer.curve.point, r->answer.curve.n, "history",
                          &faults);
    roster_set_history(r->roster, l, &p);
    (void)roster_sync(r->roster, r->now_us);
    if (l->hold == LIVE_HOLD_LEARNING)
        return err_set(e, ERR_MISSING,
                       "%.200s: no latency is stated, and none could be measured: %.200s",
                       r->f->name, r->answer.note);
    if (l->faults.n)
        return err_set(e, ERR_INVAL, "%.200s: %.280s", r->f->name, l->faults.text);
    if (!l->target.spec.latency && l->policy_error.code)
        return err_set(e, ERR_INVAL, "%.200s: %.280s", r->f->name, l->policy_error.msg);
    if (l->policy_error.code)
        buf_fmt(&r->f->notes, "its policy is not at hand here: %.200s\n", l->policy_error.msg);
    return ERR_OK;
}

/* ---- the scenario -----------------------------------------------------------------------------
 */

static void take_service(struct reader *r)
{
    const struct live *l = r->live;
    const struct capacity_spec *spec = &l->target.spec;
    const struct profile *p = &l->profile;
    struct scenario *sc = &r->f->scenario;
    struct scenario_service *s = &sc->service;
    s->slo_p99_us = llround(spec->slo_p99_ms * 1000);
    s->slo_violation_max = spec->slo_violation_max;
    s->tune_violation_max = 0.7 * spec->slo_violation_max;
    s->units_min = spec->units_min;
    s->units_max = spec->units_max;
    s->units_min_safe = spec->units_min_safe;
    s->gpus_per_unit = spec->gpus_per_unit;
    s->price_usd_h = spec->price_usd_h;
    s->cls = (int)spec->cls;
    sc->step_us = spec->step_us;
    sc->guard = r->o->config->guard;
    if (p->n_curve > 0) {
        r->f->points = mem_zero((size_t)p->n_curve + 1, sizeof *r->f->points);
        memcpy(r->f->points, p->curve, (size_t)p->n_curve * sizeof *p->curve);
        sc->points = r->f->points;
        sc->n_points = p->n_curve;
        sc->points_unit_qps = l->target.latency.unit_qps;
    } else {
        s->service_ms = p->service_ms;
        s->slots = p->slots;
    }
}

/* Measured start-ups give the spread; a stated one is a middle. */
static void take_starts(struct reader *r)
{
    struct scenario_chance *c = &r->f->scenario.chance;
    const struct startup *s = &r->live->startup;
    double lo = startup_quantile_s(s, 0.05), hi = startup_quantile_s(s, 0.95);
    int64_t start_us = r->live->target.spec.start_us;
    if (lo > 0 && hi >= lo) {
        c->start_min_us = (int64_t)(lo * 1e6);
        c->start_max_us = (int64_t)(hi * 1e6);
        buf_fmt(&r->f->notes, "start-up as measured on %d units: %.0f to %.0f s\n", s->n, lo, hi);
    } else {
        c->start_min_us = start_us * 8 / 10;
        c->start_max_us = start_us * 12 / 10;
        buf_fmt(&r->f->notes, "start-up was not measured: around %.0f s, as stated or by default\n",
                (double)start_us * 1e-6);
    }
}

static void take_policy(struct reader *r)
{
    const struct profile *p = &r->live->profile;
    const struct run_config *c = r->o->config;
    const char *name = p->policy ? p->policy : p->policy_file ? "learned" : c->policy;
    const char *file = p->policy_file ? p->policy_file : c->policy_file;
    struct contender who;
    if (strcmp(name, "rules") == 0)
        name = c->rules;
    if (strcmp(name, "learned") == 0)
        name = file && file_exists(file) ? file : "";
    if (*name && !contender_parse(name, &who, NULL))
        (void)snprintf(r->f->policy, sizeof r->f->policy, "%s", name);
}

/* ---- demand -----------------------------------------------------------------------------------
 */

struct demand {
    float *qps;
    uint8_t *barred;
    int32_t n, now; /* steps; of now */
    int64_t start_us, step_us;
};

/* Points on the line between their middles; gaps of up to three are bridged, longer ones do not
 * count. */
static void fill_past(const struct past_answer *a, struct demand *d)
{
    int32_t last = -1;
    for (int32_t i = 0, at = 0; i <= a->n_points; i++) {
        if (i < a->n_points && !isfinite(a->point[i]))
            continue;
        int64_t mid_us =
            i < a->n_points ? i * FORECAST_POINT_US + FORECAST_POINT_US / 2 : INT64_MAX;
        float to = i < a->n_points ? a->point[i]
                   : last >= 0     ? a->point[last]
                                   : 0,
              from = last >= 0 ? a->point[last] : to;
        int64_t from_us = last >= 0 ? last * FORECAST_POINT_US + FORECAST_POINT_US / 2 : 0;
        for (; at < d->now && at * d->step_us < mid_us; at++) {
            double part = mid_us == INT64_MAX || mid_us <= from_us
                              ? 0
                              : (double)(at * d->step_us - from_us) / (double)(mid_us - from_us);
            d->qps[at] = from + (to - from) * (float)(part < 0 ? 0 : part);
            d->barred[at] = i - last - 1 > GAP_POINTS;
        }
        last = i;
    }
}

static bool is_weekend(const struct tz *zone, int64_t us)
{
    int64_t day = (tz_to_local_us(zone, us) / DAY_US + 4) % 7; /* 1970-01-01 was a Thursday */
    return day == 0 || day == 6;
}

static bool usable(const struct demand *d, int days)
{
    int64_t back = days * (DAY_US / d->step_us);
    int32_t good = 0, all = d->n - d->now;
    if (d->now - back < 0)
        return false;
    for (int32_t i = 0; i < all; i++)
        good += d->now + i - back < d->now && !d->barred[d->now + i - back];
    return good * 10 >= all * 9;
}

/* How many days back the coming hours are taken from; 0: nowhere. */
static int day_to_replay(const struct demand *d, const struct tz *zone)
{
    int64_t now_us = d->start_us + d->now * d->step_us;
    if (usable(d, WEEK_DAYS))
        return WEEK_DAYS;
    for (int k = 1; k < WEEK_DAYS; k++)
        if (usable(d, k) && is_weekend(zone, now_us) == is_weekend(zone, now_us - k * DAY_US))
            return k;
    return usable(d, 1) ? 1 : 0;
}

static void say_replayed(struct reader *r, const struct demand *d, const struct tz *zone, int days)
{
    static const char *const names[] = {"Sun", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat"};
    int64_t local_us = tz_to_local_us(zone, d->start_us + d->now * d->step_us - days * DAY_US);
    int year, month, day;
    tz_date((int32_t)(local_us / DAY_US), &year, &month, &day);
    (void)snprintf(r->f->replayed, sizeof r->f->replayed, "%s %04d-%02d-%02d",
                   names[(local_us / DAY_US + 4) % 7], year, month, day);
    if (days != WEEK_DAYS)
        buf_str(&r->f->notes, "there is no load of this weekday a week ago: the newest day of its "
                              "kind is replayed\n");
}

static enum err_code fill_demand(struct reader *r, const struct tz *zone, struct demand *d,
                                 struct err *e)
{
    const struct past_answer *a = &r->answer;
    d->step_us = r->f->scenario.step_us;
    d->start_us = a->start_us;
    d->now = (int32_t)((r->now_us - a->start_us) / d->step_us);
    if (a->n_points < 12 || d->now < 3600000000 / d->step_us)
        return err_set(e, ERR_RANGE, "%.200s: %d min of load in Prometheus; a day is the least",
                       r->f->name, 5 * a->n_points);
    d->n = d->now + (int32_t)(r->o->ahead_us / d->step_us);
    d->qps = mem_zero((size_t)d->n, sizeof *d->qps);
    d->barred = mem_zero((size_t)d->n, 1);
    fill_past(a, d);
    int days = day_to_replay(d, zone);
    if (!days)
        return err_set(e, ERR_RANGE,
                       "%.200s: no day of load to replay: --since reaches back %.1f days, and "
                       "Prometheus has %.1f",
                       r->f->name, (double)r->o->since_us / (double)DAY_US,
                       5.0 * a->n_points / 1440);
    int64_t back = days * (DAY_US / d->step_us);
    for (int32_t i = d->now; i < d->n; i++) {
        d->qps[i] = d->qps[i - back];
        d->barred[i] = d->barred[i - back];
    }
    say_replayed(r, d, zone, days);
    return ERR_OK;
}

static enum err_code make_world(struct reader *r, struct err *e)
{
    const struct run_config *c = r->o->config;
    struct scenario *sc = &r->f->scenario;
    struct demand d = {0};
    struct tz *zone = NULL;
    size_t skip =
        strlen(r->f->name) > SCENARIO_NAME_MAX ? strlen(r->f->name) - SCENARIO_NAME_MAX : 0;
    mem_free(sc->name);
    sc->name = mem_strdup(r->f->name + skip);
    take_service(r);
    take_starts(r);
    take_policy(r);
    enum err_code rc = c->timezone ? tz_load(c->timezone, &zone, e) : ERR_OK;
    if (!rc)
        rc = fill_demand(r, zone, &d, e);
    if (!rc)
        rc = world_from_demand(sc, d.qps, d.barred, d.n, d.start_us, c->timezone, &r->f->world, e);
    buf_fmt(&r->f->notes,
            "the load is what Prometheus has as 5-min means, with noise of %.0f %% on top\n",
            100 * sc->chance.noise_frac);
    r->f->now_step = d.now;
    tz_free(zone);
    mem_free(d.qps);
    mem_free(d.barred);
    return rc;
}

/* ---- all together -----------------------------------------------------------------------------
 */

static enum err_code read_all(struct reader *r, struct err *e)
{
    struct target_status *status = mem_zero(1, sizeof *status);
    bool known = false;
    enum err_code rc = connect_api(r, e);
    if (!rc) {
        look_at_rights(r);
        rc = wait_for_lists(r, e);
    }
    if (!rc) {
        r->roster = roster_new(
            &(struct roster_opts){.config = r->o->config, .cluster = r->cluster, .log = r->o->log});
        (void)roster_sync(r->roster, r->now_us);
        rc = find_target(r, e);
    }
    if (!rc)
        rc = wait_for_size(r, e);
    if (!rc) {
        take_status(r, status, &known);
        count_pods(r);
        rc = read_past(r, e);
    }
    if (!rc)
        rc = merge(r, e);
    if (!rc)
        rc = make_world(r, e);
    if (!rc && known && r->live->target.main.ready) {
        r->f->guard = mem_zero(1, sizeof *r->f->guard);
        *r->f->guard = r->live->target.main.state.guard;
        safety_to_guard(&r->live->target.main.cfg, &status->safety, r->now_us, r->f->guard);
    }
    mem_free(status);
    return rc;
}

enum err_code from_cluster_read(const struct from_cluster_opts *o, struct from_cluster *out,
                                struct err *e)
{
    struct reader r = {.o = o, .f = out, .now_us = o->now_us ? o->now_us : clock_wall_us()};
    memset(out, 0, sizeof *out);
    scenario_init(&out->scenario);
    out->notes = buf_init(NOTES_BYTES);
    r.until_us = clock_mono_us() + (o->wait_us ? o->wait_us : WAIT_US);
    if (o->ahead_us < o->config->step_us || o->ahead_us > DAY_US)
        return err_set(e, ERR_RANGE,
                       "at most a day is simulated from a cluster: the load replayed ends now");
    enum err_code rc = http_client_new(&r.http, e);
    if (!rc)
        rc = read_all(&r, e);
    past_stop(r.past);
    past_answer_fini(&r.answer);
    roster_free(r.roster);
    cluster_free(r.cluster);
    kube_free(r.kube);
    kube_config_free(r.kube_config);
    http_client_free(r.http);
    mem_free(r.password);
    return rc;
}

void from_cluster_fini(struct from_cluster *f)
{
    world_free(f->world);
    scenario_fini(&f->scenario);
    mem_free(f->points);
    mem_free(f->guard);
    buf_fini(&f->notes);
    memset(f, 0, sizeof *f);
}
