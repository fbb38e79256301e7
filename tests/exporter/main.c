/* main.c - the exporter as a program: services that replay histories on /metrics.
 *
 *     exporter CONFIG.yaml [key=value ...]        e.g. exporter demo.yaml port=9100 speed=100
 *
 *     port: 9100
 *     speed: 100
 *     apiserver: http://127.0.0.1:8001    # pods come from there: those named NAME-... of the namespace
 *     token: admin-token
 *     services:
 *       - {namespace: shop, name: web, history: web.hist, unit_qps: 50, units: 2}
 *
 * Without an API server, `GET /units?namespace=shop&name=web&ready=3&total=4` sets the units.  Prints the
 * port and runs until SIGTERM. */
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "base/json.h"
#include "base/mem.h"
#include "base/opt.h"
#include "base/signal.h"
#include "history/file.h"
#include "net/http.h"
#include "tests/exporter/exporter.h"
#include "tests/exporter/service.h"

enum { SERVICES_MAX = 64, PODS_BODY_MAX = 64 << 20 };

struct service_cfg {
    char *namespace, *name, *history;
    double load_scale, unit_qps, base_ms;
    int64_t units, offset_us;
};
struct cfg {
    int64_t port;
    double speed;
    char *apiserver, *token, *ca_file;
    int64_t follow_us;
    struct opt_subs services;
};

#define S struct service_cfg
static const struct opt_row service_rows[] = {
    OPT_STRING(S, namespace, "namespace", "default", "of the Deployment"),
    OPT_STRING(S, name, "name", NULL, "of the Deployment", .required = true),
    OPT_STRING(S, history, "history", NULL, "history file whose qps is replayed", .required = true),
    OPT_DOUBLE(S, load_scale, "load_scale", "1", "0", NULL, "factor on qps"),
    OPT_DOUBLE(S, unit_qps, "unit_qps", "50", "0.001", NULL,
               "requests a second one unit can serve"),
    OPT_DOUBLE(S, base_ms, "base_ms", "40", "0.001", NULL, "p50 of an idle unit"),
    OPT_INT(S, units, "units", "2", "0", "128", "ready at the start"),
    OPT_DURATION(S, offset_us, "offset", "0s", "0s", "3660d", "where in the trace to begin"),
};
#undef S
static const struct opt_table service_table =
    OPT_TABLE("service", struct service_cfg, service_rows, "A service.");

#define C struct cfg
static const struct opt_row rows[] = {
    OPT_INT(C, port, "port", "0", "0", "65535", "0: any free one"),
    OPT_DOUBLE(C, speed, "speed", "1", "0.001", "1000000", "trace time over real time"),
    OPT_STRING(C, apiserver, "apiserver", NULL, "URL of the API server whose pods are the units"),
    OPT_STRING(C, token, "token", NULL, "bearer token for it"),
    OPT_STRING(C, ca_file, "ca_file", NULL, "PEM: whom its certificate comes from"),
    OPT_DURATION(C, follow_us, "follow", "100ms", "1ms", "1h", "time between looks at its pods"),
    OPT_SUBS(C, services, "services", &service_table, "what to replay"),
};
#undef C
static const struct opt_table table =
    OPT_TABLE("exporter", struct cfg, rows, "An exporter that replays traces.");

struct app {
    struct cfg cfg;
    pthread_mutex_t lock; /* of the services */
    struct service *service[SERVICES_MAX];
    struct history history[SERVICES_MAX];
    size_t n;
    struct http_client *http;
    struct http_server *server;
};

static void page(void *ctx, struct buf *out)
{
    struct app *a = ctx;
    (void)pthread_mutex_lock(&a->lock);
    for (size_t i = 0; i < a->n; i++)
        service_page(a->service[i], clock_wall_us(), out);
    (void)pthread_mutex_unlock(&a->lock);
}

static struct service *find(struct app *a, const char *namespace, const char *name)
{
    for (size_t i = 0; i < a->n; i++)
        if (strcmp(service_namespace(a->service[i]), namespace) == 0 &&
            strcmp(service_name(a->service[i]), name) == 0)
            return a->service[i];
    return NULL;
}

static bool units(void *ctx, const char *path, const char *query, struct buf *out)
{
    struct app *a = ctx;
    char namespace[128], name[128];
    int ready, total;
    if (strcmp(path, "/units") != 0 ||
        sscanf(query, "namespace=%127[^&]&name=%127[^&]&ready=%d&total=%d", namespace, name, &ready,
               &total) != 4)
        return false;
    (void)pthread_mutex_lock(&a->lock);
    struct service *s = find(a, namespace, name);
    bool fine = s && ready >= 0 && ready <= total && total <= SERVICE_PODS_MAX / 2;
    if (fine)
        service_units(s, ready, total);
    (void)pthread_mutex_unlock(&a->lock);
    if (fine)
        buf_str(out, "ok\n");
    return fine;
}

/* ---- following an API server --------------------------------------------------------------------
 */

static bool is_ready(const struct json *pod)
{
    const struct json *status = json_find(pod, "status");
    for (const struct json *c = json_first(json_find(status, "conditions")); c; c = json_next(c)) {
        const char *type = json_text(json_find(c, "type")),
                   *value = json_text(json_find(c, "status"));
        if (type && value && strcmp(type, "Ready") == 0)
            return strcmp(value, "True") == 0;
    }
    return false;
}

static const char *name_of(const struct json *pod, const char *prefix)
{
    const struct json *meta = json_find(pod, "metadata");
    const char *name = json_text(json_find(meta, "name"));
    size_t n = strlen(prefix);
    bool ours = name && strncmp(name, prefix, n) == 0 && name[n] == '-' &&
                !json_find(meta, "deletionTimestamp");
    return ours ? name : NULL;
}

static void take_pods(struct service *s, const struct json *list)
{
    const char *names[SERVICE_PODS_MAX / 2];
    int n = 0, ready = 0;
    for (int pass = 0; pass < 2; pass++) {
        for (const struct json *p = json_first(json_find(list, "items")); p; p = json_next(p)) {
            const char *name = name_of(p, service_name(s));
            if (name && is_ready(p) == (pass == 0) && n < SERVICE_PODS_MAX / 2)
                names[n++] = name;
        }
        ready = pass == 0 ? n : ready;
    }
    service_pods(s, names, ready, n);
}

static enum err_code follow_one(struct app *a, struct service *s, struct err *e)
{
    struct http_reply reply;
    struct json_doc *doc = NULL;
    char path[256];
    (void)snprintf(path, sizeof path, "/api/v1/namespaces/%s/pods", service_namespace(s));
    struct http_request r = {.method = HTTP_GET, .path = path, .body_cap = PODS_BODY_MAX};
    enum err_code rc = http_do(a->http, a->server, &r, &reply, e);
    if (!rc && reply.status != 200)
        rc = err_set(e, ERR_IO, "%s: HTTP %d", path, reply.status);
    if (!rc)
        rc = json_parse(reply.body.p, reply.body.n, PODS_BODY_MAX, "pods", &doc, e);
    if (!rc) {
        (void)pthread_mutex_lock(&a->lock);
        take_pods(s, json_root(doc));
        (void)pthread_mutex_unlock(&a->lock);
    }
    json_free(doc);
    http_reply_fini(&reply);
    return rc;
}

static void follow(struct app *a)
{
    struct err e = {0};
    bool failing = false;
    while (!signal_stop()) {
        bool failed = false;
        for (size_t i = 0; a->server && i < a->n; i++)
            failed |= follow_one(a, a->service[i], &e) != ERR_OK;
        if (failed && !failing)
            (void)fprintf(stderr, "exporter: %s\n", e.msg);
        failing = failed;
        struct timespec t = {.tv_sec = a->cfg.follow_us / US_PER_S,
                             .tv_nsec = a->cfg.follow_us % US_PER_S * 1000};
        (void)nanosleep(&t, NULL);
    }
}

/* ---- start and end ------------------------------------------------------------------------------
 */

static enum err_code open_service(struct app *a, const struct service_cfg *c, struct err *e)
{
    struct service_opts o = service_opts_default();
    struct history *h = &a->history[a->n];
    enum err_code rc = a->n < SERVICES_MAX
                           ? history_open(c->history, h, NULL, e)
                           : err_set(e, ERR_LIMIT, "more than %d services", SERVICES_MAX);
    if (rc)
        return rc;
    if (!h->col[FIELD_QPS]) {
        history_close(h);
        return err_set(e, ERR_MISSING, "%s has no qps", c->history);
    }
    o.namespace = c->namespace;
    o.name = c->name;
    o.load = h;
    o.load_scale = c->load_scale;
    o.speed = a->cfg.speed;
    o.unit_qps = c->unit_qps;
    o.base_ms = c->base_ms;
    o.units = (int)c->units;
    o.offset_us = c->offset_us;
    a->service[a->n++] = service_new(&o, clock_wall_us());
    return ERR_OK;
}

static enum err_code open_all(struct app *a, struct err *e)
{
    const struct service_cfg *list = a->cfg.services.items;
    enum err_code rc =
        a->cfg.services.n ? ERR_OK : err_set(e, ERR_INVAL, "no services in the configuration");
    for (size_t i = 0; i < a->cfg.services.n && !rc; i++)
        rc = open_service(a, &list[i], e);
    if (rc || !a->cfg.apiserver)
        return rc;
    struct http_server_opts o = {.url = a->cfg.apiserver, .token = a->cfg.token, .ca_file = a->cfg.ca_file};
    rc = http_client_new(&a->http, e);
    return rc ? rc : http_server_new(&o, &a->server, e);
}

static enum err_code run(struct app *a, struct err *e)
{
    struct exporter *x;
    enum err_code rc = open_all(a, e);
    if (!rc)
        rc = exporter_start((uint16_t)a->cfg.port, &x, e);
    if (rc)
        return rc;
    exporter_hook(x, page, units, a);
    (void)printf("http://127.0.0.1:%u/metrics\n", exporter_port(x));
    (void)fflush(stdout);
    follow(a);
    exporter_stop(x);
    return ERR_OK;
}

int main(int argc, char **argv)
{
    struct app a = {.lock = PTHREAD_MUTEX_INITIALIZER};
    struct err e = {0};
    if (argc < 2) {
        (void)fputs("usage: exporter CONFIG.yaml [key=value ...]\n", stderr);
        return 2;
    }
    signal_catch();
    enum err_code rc = opt_load(&table, &a.cfg, argv[1], argv + 2, (size_t)argc - 2, NULL, &e);
    if (!rc)
        rc = run(&a, &e);
    for (size_t i = 0; i < a.n; i++) {
        service_free(a.service[i]);
        history_close(&a.history[i]);
    }
    http_client_free(a.http);
    http_server_free(a.server);
    opt_fini(&table, &a.cfg);
    if (rc)
        (void)fprintf(stderr, "exporter: %s\n", e.msg);
    return rc ? 1 : 0;
}
