/* daemon_start.c - everything but the loop: made in order of need, released in reverse. */
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/mem.h"
#include "daemon/daemon_priv.h"

enum { PASSWORD_MAX = 4096 };

bool daemon_acts_in(const struct daemon *d)
{
    return d->config.c->stage != STAGE_OBSERVE;
}

uint16_t daemon_port(const struct daemon *d)
{
    return serve_port(d->serve);
}

int64_t daemon_wall_us(const struct daemon *d)
{
    return d->outside ? d->outside->wall_us(d->outside->ctx) : clock_wall_us();
}

int64_t daemon_mono_us(const struct daemon *d)
{
    return d->outside ? d->outside->mono_us(d->outside->ctx) : clock_mono_us();
}

bool daemon_leads(const struct daemon *d)
{
    if (!daemon_acts_in(d))
        return false;
    if (d->outside)
        return d->outside->leads(d->outside->ctx, d->replica);
    return d->lead ? lead_held(d->lead) : !d->config.start->lease.enabled;
}

/* ---- identity and time ------------------------------------------------------------------------ */

static void name_replica(struct daemon *d, const char *wanted)
{
    char host[64] = "replica";
    uint32_t random;
    if (wanted) {
        (void)snprintf(d->replica, sizeof d->replica, "%s", wanted);
        return;
    }
    (void)gethostname(host, sizeof host - 1);
    if (getrandom(&random, sizeof random, 0) != (ssize_t)sizeof random)
        random = (uint32_t)clock_wall_us(); /* a second start of this host is what it must tell apart */
    (void)snprintf(d->replica, sizeof d->replica, "%s_%08x", host, random);
}

enum err_code daemon_clock(struct daemon *d, struct err *e)
{
    const struct run_config *c = d->config.start;
    enum err_code rc = tz_load(c->timezone, &d->zone, e);
    if (rc)
        return err_wrap(e, "timezone");
    d->holidays = mem_zero(c->holidays.n + 1, sizeof *d->holidays);
    rc = calendar_read_holidays((const char *const *)c->holidays.items, c->holidays.n, d->holidays, e);
    if (rc)
        return rc;
    d->calendar = (struct calendar){.zone = d->zone, .holiday_days = d->holidays, .n_holidays = c->holidays.n};
    int64_t wall_us = daemon_wall_us(d);
    d->pace = pace_init(c->speed, c->epoch_us ? c->epoch_us : wall_us, wall_us, daemon_mono_us(d));
    return ERR_OK;
}

/* SIGHUP is read by the loop, not by a handler.  Before any thread starts, so that none of them takes it. */
static enum err_code catch_hup(struct daemon *d, struct err *e)
{
    sigset_t set;
    (void)sigemptyset(&set);
    (void)sigaddset(&set, SIGHUP);
    if (pthread_sigmask(SIG_BLOCK, &set, NULL) != 0)
        return err_set(e, ERR_IO, "block SIGHUP");
    d->hup = signalfd(-1, &set, SFD_NONBLOCK | SFD_CLOEXEC);
    return d->hup < 0 ? err_sys(e, errno, "signalfd") : ERR_OK;
}

/* ---- parts ------------------------------------------------------------------------------------ */

static enum err_code start_store(struct daemon *d, struct err *e)
{
    const struct run_config *c = d->config.start;
    enum err_code rc = file_make_dirs(c->state_dir, e);
    if (rc)
        return err_wrap(e, "state_dir");
    char *path = store_path_default(c->state_dir);
    struct store_opts o = store_opts_default(path);
    o.keep_us = c->store.retention_us;
    o.max_bytes = c->store.max_bytes;
    rc = store_open(&o, &d->store, e);
    mem_free(path);
    return rc ? rc : recorder_new(d->store, d->replica, &d->recorder, e);
}

static void wake(void *ctx)
{
    struct daemon *d = ctx;
    http_wake(d->http);
}

static enum err_code start_freeze(struct daemon *d, struct err *e)
{
    const struct run_config *c = d->config.start;
    enum err_code rc = freeze_new(c->state_dir, c->freeze || c->guard.freeze, d->log, &d->freeze, e);
    if (!rc)
        rc = freeze_catch_signal(d->freeze, e);
    d->metrics = metrics_new();
    d->shared = shared_new(&(struct shared_opts){
        .period_us = pace_real_span(&d->pace, c->step_us), .wake = wake, .wake_ctx = d});
    return rc;
}

static int64_t retry_us_of(const struct daemon *d)
{
    return d->outside ? d->outside->retry_us : 0;
}

static enum err_code start_kube(struct daemon *d, struct err *e)
{
    const struct run_config *c = d->config.start;
    struct kube_config_opts where = kube_config_opts_default();
    struct kube_opts o = kube_opts_default();
    where.path = c->kube.kubeconfig;
    where.context = c->kube.context;
    enum err_code rc = kube_config_load(&where, &d->kube_config, e);
    if (rc)
        return rc;
    if (c->kube.proxy)
        d->kube_config->server.proxy = c->kube.proxy;
    o.read_only = !daemon_acts_in(d);
    o.deadline_us = c->kube.timeout_us;
    o.seed = d->seed;
    if (retry_us_of(d)) {
        o.backoff_us = o.renew_us = retry_us_of(d);
        o.backoff_max_us = 8 * retry_us_of(d);
    }
    if ((rc = http_client_new(&d->http, e)) || (rc = kube_new(d->kube_config, d->http, &o, &d->kube, e)))
        return rc;
    struct kube_events_opts events = kube_events_opts_default();
    events.controller = "sluice.dev/capacity";
    events.instance = d->replica;
    return kube_events_new(d->kube, &events, &d->events, e);
}

static enum err_code start_cluster(struct daemon *d, struct err *e)
{
    const struct run_config *c = d->config.start;
    struct cluster_opts o = {
        .namespaces = (const char *const *)c->kube.namespaces.items,
        .n_namespaces = c->kube.namespaces.n,
        .log = d->log,
        .retry_us = retry_us_of(d),
        .asks_aside = true,
    };
    return cluster_new(d->kube, &o, &d->cluster, e);
}

static enum err_code read_password(struct daemon *d, const char *path, struct err *e)
{
    struct buf text;
    enum err_code rc = file_read(path, PASSWORD_MAX, &text, e);
    if (!rc) {
        text.p[strcspn(text.p, "\r\n")] = '\0';
        d->sources.password = mem_strdup(text.p);
    } else {
        rc = err_wrap(e, "prometheus.password_file");
    }
    buf_fini(&text);
    return rc;
}

static struct http_server_opts prometheus_server(const struct daemon *d)
{
    const struct run_prometheus *p = &d->config.start->prometheus;
    return (struct http_server_opts){.url = p->url,
                                     .ca_file = p->ca_file,
                                     .insecure = p->insecure,
                                     .token_file = p->token_file,
                                     .user = p->user,
                                     .password = d->sources.password};
}

static bool pod_lookup(void *ctx, const char *ns, const char *pod, struct collect_pod *out)
{
    struct daemon *d = ctx;
    const struct daemon_scratch *x = &d->scratch;
    const struct kube_obj *o = cluster_find(d->cluster, CLUSTER_PODS, ns, pod);
    if (!o)
        return false;
    int i = x->index && x->generation == roster_generation(d->roster)
                ? cluster_target_of(d->cluster, x->index, x->count, x->n, ns, pod)
                : -1;
    *out = (struct collect_pod){.target = i >= 0 ? roster_at(d->roster, (size_t)i)->slot : -1,
                                .cpu_cores = (double)kube_as_pod(o)->cpu_milli / 1000,
                                .mem_bytes = (double)kube_as_pod(o)->mem_bytes};
    return true;
}

/* One GET of metrics.k8s.io: the reply goes to whoever asked. */
struct metrics_get {
    void (*done)(void *arg, enum err_code rc, const char *body, size_t n, const struct err *e);
    void *arg;
};

static void metrics_got(void *ctx, enum err_code rc, struct kube_reply *reply, const struct err *e)
{
    struct metrics_get *g = ctx;
    g->done(g->arg, rc, reply->body.p, reply->body.n, e);
    mem_free(g);
}

static enum err_code metrics_get(void *ctx, const char *path, size_t body_cap,
                                 void (*done)(void *arg, enum err_code rc, const char *body, size_t n,
                                              const struct err *e),
                                 void *arg, struct err *e)
{
    struct daemon *d = ctx;
    struct metrics_get *g = mem_zero(1, sizeof *g);
    *g = (struct metrics_get){.done = done, .arg = arg};
    struct kube_call call = {
        .verb = KUBE_GET, .path = path, .body_cap = body_cap, .once = true, .done = metrics_got, .ctx = g};
    kube_id id;
    enum err_code rc = kube_start(d->kube, &call, &id, e);
    if (rc)
        mem_free(g);
    return rc;
}

static enum err_code start_sources(struct daemon *d, struct err *e)
{
    const struct run_config *c = d->config.start;
    struct daemon_sources *s = &d->sources;
    enum err_code rc;
    if (c->prometheus.password_file && (rc = read_password(d, c->prometheus.password_file, e)))
        return rc;
    if (c->prometheus.url) {
        struct http_server_opts where = prometheus_server(d);
        struct prom_opts o = prom_opts_default();
        o.timeout_us = c->prometheus.timeout_us;
        o.seed = d->seed;
        if (retry_us_of(d)) {
            o.backoff_us = retry_us_of(d);
            o.backoff_max_us = 8 * retry_us_of(d);
        }
        if ((rc = http_server_new(&where, &s->server, e)))
            return err_wrap(e, "prometheus");
        prom_new(d->http, s->server, &o, &s->prom);
    }
    struct collect_opts o = collect_opts_default();
    o.prom = s->prom;
    o.queries = &c->queries;
    o.max_targets = ROSTER_MAX;
    o.step_us = c->prometheus.collect_us;
    o.speed = c->speed;
    o.pod = pod_lookup;
    o.kube_get = s->prom ? NULL : metrics_get;
    o.ctx = d;
    return collect_new(&o, &s->collect, e);
}

static enum err_code start_past(struct daemon *d, struct err *e)
{
    const struct run_config *c = d->config.start;
    struct http_server_opts where = prometheus_server(d);
    if (!c->prometheus.url || c->history_us == 0)
        return ERR_OK;
    return past_start(&(struct past_opts){.server = &where,
                                          .queries = &c->queries,
                                          .span_us = c->history_us,
                                          .timeout_us = c->prometheus.timeout_us,
                                          .log = d->log,
                                          .ready = wake,
                                          .ctx = d},
                      &d->past, e);
}

/* The token's file: the one stated, or our own, made when there is none. */
static enum err_code token_file(struct daemon *d, char out[TOKEN_PATH], struct err *e)
{
    const struct run_config *c = d->config.start;
    const char *stated = c->serve.token_file;
    if (!run_config_token_file(c, out))
        return err_set(e, ERR_LIMIT, "serve.token_file: longer than %d bytes", TOKEN_PATH - 1);
    enum err_code rc = stated ? ERR_OK : auth_token_create(out, e);
    if (!rc && !stated)
        log_write(d->log, LOG_INFO, "serve", "token for people", "file=%s", out);
    return rc;
}

static enum err_code start_serve(struct daemon *d, struct err *e)
{
    const struct run_serve *s = &d->config.start->serve;
    char token[TOKEN_PATH];
    if (token_file(d, token, e))
        return err_wrap(e, "serve");
    struct serve_opts o = {
        .replica = d->replica,
        .address = s->address,
        .port = (uint16_t)s->port,
        .cert_file = s->cert_file,
        .key_file = s->key_file,
        .client_ca_file = s->client_ca_file,
        .auth = {.token_file = token,
                 .names = (const char *const *)s->client_names.items,
                 .n_names = s->client_names.n},
        .metrics_open = s->metrics_open,
        .allow_plain = s->allow_plain,
        .cluster = s->external_port != 0,
        .cluster_address = s->external_address,
        .cluster_port = (uint16_t)s->external_port,
        .cluster_cert_file = s->external_cert_file,
        .cluster_key_file = s->external_key_file,
        .shared = d->shared,
        .freeze = d->freeze,
        .metrics = d->metrics,
        .log = d->log,
    };
    enum err_code rc = serve_start(&o, &d->serve, e);
    if (!rc && s->external_port && s->external_client_ca_file)
        rc = serve_trust(d->serve, s->external_client_ca_file, (const char *const *)s->external_allowed_names.items,
                         s->external_allowed_names.n, NULL, e);
    if (!rc)
        log_write(d->log, LOG_INFO, "serve", "listening", "address=%s port=%u", s->address, serve_port(d->serve));
    return rc ? err_wrap(e, "serve") : ERR_OK;
}

static enum err_code start_lead(struct daemon *d, struct err *e)
{
    const struct run_lease *l = &d->config.start->lease;
    if (!daemon_acts_in(d) || !l->enabled || d->outside)
        return ERR_OK;
    struct lead_opts o = {.config = d->kube_config, .lease = lease_opts_default(), .log = d->log, .changed = wake,
                          .ctx = d};
    o.lease.ns = l->namespace_ ? l->namespace_ : d->kube_config->ns;
    o.lease.name = l->name;
    o.lease.holder = d->replica;
    o.lease.duration_us = l->duration_us;
    o.lease.renew_us = l->renew_us;
    o.lease.retry_us = l->retry_us;
    return lead_start(&o, &d->lead, e);
}

static void target_removed(void *ctx, struct live *l)
{
    struct daemon *d = ctx;
    struct err e;
    if (l->measured && collect_set(d->sources.collect, l->slot, NULL, &e))
        log_write(d->log, LOG_WARN, "collect", "target is not removed", "slot=%d error=\"%s\"", l->slot, e.msg);
    metrics_drop_target(d->metrics, l->target.id.namespace_, l->name);
    daemon_override_drop(d, l, COMMAND_NO_TARGET, "the target is gone");
}

static void start_roster(struct daemon *d)
{
    d->roster = roster_new(&(struct roster_opts){.config = d->config.c,
                                                 .cluster = d->cluster,
                                                 .seed = d->seed,
                                                 .log = d->log,
                                                 .removed = target_removed,
                                                 .ctx = d});
    struct daemon_scratch *x = &d->scratch;
    x->in = mem_zero(ROSTER_MAX, sizeof *x->in);
    x->count = mem_zero(ROSTER_MAX, sizeof *x->count);
    x->rows = mem_zero(ROSTER_MAX, sizeof *x->rows);
    doc_init(&x->targets);
    doc_init(&x->external);
    doc_init(&x->health);
}

/* ---- the whole -------------------------------------------------------------------------------- */

void config_free(struct run_config *c)
{
    if (!c)
        return;
    run_config_fini(c);
    mem_free(c);
}

enum err_code daemon_load_config(const struct daemon *d, struct run_config **out, struct err *e)
{
    struct run_config *c = mem_zero(1, sizeof *c);
    enum err_code rc = run_config_load_here(c, d->config.path, d->sets, d->n_sets, NULL, e);
    if (rc) {
        config_free(c);
        return rc;
    }
    *out = c;
    return ERR_OK;
}

static enum err_code load_config(struct daemon *d, const struct daemon_opts *o, struct err *e)
{
    struct daemon_config *c = &d->config;
    c->path = o->config_path ? mem_strdup(o->config_path) : NULL;
    if (c->path && stat(c->path, &c->seen) != 0)
        return err_sys(e, errno, "open %s", c->path);
    enum err_code rc = daemon_load_config(d, &c->start, e);
    c->c = c->start;
    return rc;
}

enum err_code daemon_new(const struct daemon_opts *o, struct daemon **out, struct err *e)
{
    struct daemon *d = mem_zero(1, sizeof *d);
    int64_t jump_us;
    enum err_code rc;
    d->log = o->log;
    d->outside = o->outside;
    d->seed = o->seed;
    d->sets = o->sets;
    d->n_sets = o->n_sets;
    d->hup = -1;
    d->freeze_seen = UINT64_MAX;
    d->stored = true;
    name_replica(d, o->replica);
    if ((rc = load_config(d, o, e)) || (rc = daemon_clock(d, e)) || (rc = catch_hup(d, e)) ||
        (rc = start_freeze(d, e)) || (rc = start_kube(d, e)) || (rc = start_store(d, e)) ||
        (rc = start_cluster(d, e)) || (rc = start_sources(d, e)) || (rc = start_past(d, e)) ||
        (rc = start_serve(d, e)) || (rc = start_lead(d, e))) {
        daemon_free(d);
        return rc;
    }
    d->now_us = pace_now_us(&d->pace, daemon_wall_us(d), daemon_mono_us(d), &jump_us);
    start_roster(d);
    d->morning = morning_new(&(struct morning_opts){
        .state_dir = d->config.start->state_dir, .zone = d->config.start->timezone, .log = d->log});
    daemon_act_init(d);
    daemon_keep_note(d, &(struct store_note){.kind = STORE_NOTE_START, .author = d->replica,
                                             .text = run_stage_names[d->config.c->stage]});
    log_write(d->log, LOG_INFO, "run", "started", "replica=%s stage=%s cluster=%s api=%s", d->replica,
              run_stage_names[d->config.c->stage], d->config.c->cluster, kube_url(d->kube));
    *out = d;
    return ERR_OK;
}

static void free_scratch(struct daemon_scratch *x)
{
    cluster_index_free(x->index);
    mem_free(x->in);
    mem_free(x->count);
    mem_free(x->rows);
    doc_fini(&x->targets);
    doc_fini(&x->external);
    doc_fini(&x->health);
}

void daemon_free(struct daemon *d)
{
    if (!d)
        return;
    daemon_overrides_stop(d);
    if (d->shared)
        shared_stop(d->shared);
    serve_stop(d->serve);
    lead_stop(d->lead, true);
    past_stop(d->past);
    roster_free(d->roster);
    collect_free(d->sources.collect);
    prom_free(d->sources.prom);
    kube_events_free(d->events);
    cluster_free(d->cluster);
    kube_free(d->kube);
    http_client_free(d->http);
    http_server_free(d->sources.server);
    mem_free(d->sources.password);
    kube_config_free(d->kube_config);
    morning_free(d->morning);
    recorder_free(d->recorder);
    store_close(d->store);
    shared_free(d->shared);
    freeze_free(d->freeze);
    metrics_free(d->metrics);
    free_scratch(&d->scratch);
    if (d->hup >= 0)
        (void)close(d->hup);
    tz_free(d->zone);
    mem_free(d->holidays);
    if (d->config.c != d->config.start)
        config_free(d->config.c);
    config_free(d->config.start);
    mem_free(d->config.path);
    mem_free(d);
}
