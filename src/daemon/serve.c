#include "daemon/serve.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "base/mem.h"
#include "daemon/serve_priv.h"

enum {
    THREADS = 2, /* of each listener; none ever waits for the main loop */
    BODY_CAP = 64 << 10,
    HEADER_CAP = 16 << 10,
    CONNECTIONS = 128,
};
#define WAIT_US (5 * US_PER_S)
#define DRAIN_US US_PER_S

/* ---- routes ------------------------------------------------------------------------------------
 */

enum access { ACCESS_OPEN, ACCESS_METRICS, ACCESS_GUARDED };

struct route {
    const char *method, *path;
    enum access access;
    call_handler *handler;
    bool item; /* the path is a prefix, what follows names one */
};
static const struct route routes[] = {
    {"GET", "/healthz", ACCESS_OPEN, serve_health, false},
    {"GET", "/readyz", ACCESS_OPEN, serve_ready, false},
    {"GET", "/metrics", ACCESS_METRICS, serve_metrics, false},
    {"GET", "/api/v1/targets", ACCESS_GUARDED, serve_targets, false},
    {"GET", "/api/v1/targets/", ACCESS_GUARDED, serve_target, true},
    {"GET", "/api/v1/freeze", ACCESS_GUARDED, serve_freeze_state, false},
    {"POST", "/api/v1/freeze", ACCESS_GUARDED, serve_freeze, false},
    {"POST", "/api/v1/unfreeze", ACCESS_GUARDED, serve_unfreeze, false},
    {"POST", "/api/v1/override", ACCESS_GUARDED, serve_override, false},
    {"POST", "/api/v1/breaker-reset", ACCESS_GUARDED, serve_breaker_reset, false},
    {"POST", "/api/v1/release", ACCESS_GUARDED, serve_release, false},
};

static bool fits(const struct route *r, const char *path)
{
    size_t n = strlen(r->path);
    return r->item ? strncmp(path, r->path, n) == 0 && path[n] : strcmp(path, r->path) == 0;
}

/* NULL with *allow the methods of the path, "" when there is no such path.  HEAD is GET: the server
 * leaves out the body. */
static const struct route *find_route(const struct server_request *in, char allow[32])
{
    const char *method = strcmp(in->method, "HEAD") == 0 ? "GET" : in->method;
    allow[0] = '\0';
    for (size_t i = 0; i < ARRAY_LEN(routes); i++) {
        const struct route *r = &routes[i];
        if (!fits(r, in->path))
            continue;
        if (strcmp(method, r->method) == 0)
            return r;
        size_t n = strlen(allow);
        (void)snprintf(allow + n, 32 - n, "%s%s", n ? ", " : "", r->method);
    }
    return NULL;
}

static void no_route(struct call *c, const char *allow)
{
    if (!*allow) {
        call_refuse(
            c, 404,
            "Paths: /healthz /readyz /metrics /api/v1/targets[/NAMESPACE/NAME] /api/v1/freeze "
            "/api/v1/unfreeze /api/v1/override /api/v1/breaker-reset /api/v1/release",
            "there is no %.200s", c->in->path);
        return;
    }
    server_reply_header(c->out, "Allow", allow);
    call_refuse(c, 405, "Use the method of the header Allow.", "%.20s is not for %.200s",
                c->in->method, c->in->path);
}

static bool let_in(struct call *c, const struct route *r)
{
    if (r->access == ACCESS_OPEN || (r->access == ACCESS_METRICS && c->s->o.metrics_open))
        return true;
    c->verdict = auth_check(c->s->auth, c->in, c->who);
    if (auth_let_in(c->verdict))
        return true;
    server_reply_header(c->out, "WWW-Authenticate", "Bearer realm=\"sluice\"");
    call_refuse(c, 401,
                "Send Authorization: Bearer with the content of the replica's token file "
                "(serve.token_file, else state_dir/token): --token-file FILE or -c CONFIG; or a client "
                "certificate whose name is allowed.",
                "%s", auth_words(c->verdict));
    log_write(c->s->o.log, LOG_WARN, "serve", "refused", "peer=%s path=\"%.100s\" why=\"%s\"",
              c->in->peer, c->in->path, auth_words(c->verdict));
    return false;
}

void serve_count(struct serve *s, const char *endpoint, int status)
{
    char code[16];
    (void)snprintf(code, sizeof code, "%d", status);
    metric_add(s->o.metrics, METRIC_HTTP_REQUESTS, 1, METRIC_LABELS(endpoint, code));
}

static void on_people(void *ctx, const struct server_request *in, struct server_reply *out)
{
    char allow[32];
    struct call c = {.s = ctx, .in = in, .out = out, .verdict = AUTH_NOTHING};
    const struct route *r = find_route(in, allow);
    out->body = buf_init(SERVE_REPLY_BYTES);
    c.endpoint = r ? r->path : "unknown";
    if (!r) {
        no_route(&c, allow);
    } else if (let_in(&c, r)) {
        c.item = in->path + (r->item ? strlen(r->path) : 0);
        r->handler(&c);
    }
    if (!out->settle)
        serve_count(c.s, c.endpoint, out->status);
}

/* ---- the cluster's listener --------------------------------------------------------------------
 */

static struct external_trust trust_view(const struct serve_trusted *t,
                                        const char *names[SERVE_NAMES])
{
    for (size_t i = 0; i < t->n_names; i++)
        names[i] = t->name[i];
    return (struct external_trust){
        .names = names,
        .n_names = t->n_names,
        .user_header = t->user_header[0] ? t->user_header : NULL,
    };
}

static void on_cluster(void *ctx, const struct server_request *in, struct server_reply *out)
{
    struct serve *s = ctx;
    const char *names[SERVE_NAMES];
    ASSERT(pthread_mutex_lock(&s->trust_lock) == 0);
    struct serve_trusted now = s->trust;
    ASSERT(pthread_mutex_unlock(&s->trust_lock) == 0);
    struct external_trust trust = trust_view(&now, names);
    external_answer(s->o.shared, &trust, in, out);
    serve_count(s, "external.metrics.k8s.io", out->status);
}

static enum err_code copy_trust(const char *const *names, size_t n_names, const char *user_header,
                                struct serve_trusted *out, struct err *e)
{
    *out = (struct serve_trusted){.n_names = n_names};
    if (n_names > SERVE_NAMES)
        return err_set(e, ERR_LIMIT, "more than %d allowed names", SERVE_NAMES);
    for (size_t i = 0; i < n_names; i++) {
        if (strlen(names[i]) >= AUTH_WHO)
            return err_set(e, ERR_LIMIT, "allowed name %.40s...: too long", names[i]);
        (void)snprintf(out->name[i], sizeof out->name[i], "%s", names[i]);
    }
    if (user_header && strlen(user_header) >= sizeof out->user_header)
        return err_set(e, ERR_LIMIT, "user header %.40s...: too long", user_header);
    if (user_header)
        (void)snprintf(out->user_header, sizeof out->user_header, "%s", user_header);
    return ERR_OK;
}

static enum err_code start_cluster(struct serve *s, const char *ca_file, struct err *e)
{
    struct server_opts o = server_opts_default();
    o.address = s->o.cluster_address;
    o.port = s->o.cluster_port;
    o.threads = THREADS;
    o.body_cap = BODY_CAP;
    o.max_connections = s->o.max_connections;
    o.idle_us = s->o.idle_us;
    o.cert_file = s->o.cluster_cert_file;
    o.key_file = s->o.cluster_key_file;
    o.client_ca_file = ca_file;
    o.handler = on_cluster;
    o.ctx = s;
    return server_start(&o, &s->cluster, e);
}

enum err_code serve_trust(struct serve *s, const char *ca_file, const char *const *names,
                          size_t n_names, const char *user_header, struct err *e)
{
    struct serve_trusted t;
    bool same = s->cluster && strcmp(s->ca_file, ca_file) == 0;
    enum err_code rc = copy_trust(names, n_names, user_header, &t, e);
    if (!rc && !s->o.cluster)
        rc = err_set(e, ERR_INVAL, "the cluster's listener is not configured");
    if (!rc && same)
        rc = server_reload_tls(s->cluster, e);
    if (rc)
        return err_wrap(e, "request-header authentication");
    ASSERT(pthread_mutex_lock(&s->trust_lock) == 0);
    s->trust = t;
    ASSERT(pthread_mutex_unlock(&s->trust_lock) == 0);
    if (same)
        return ERR_OK;
    server_stop(s->cluster);
    s->cluster = NULL;
    mem_free(s->ca_file);
    s->ca_file = mem_strdup(ca_file);
    rc = start_cluster(s, ca_file, e);
    return rc ? err_wrap(e, "listener for the API server") : ERR_OK;
}

/* ---- life --------------------------------------------------------------------------------------
 */

static bool is_loopback(const char *address)
{
    return !address || strncmp(address, "127.", 4) == 0 || strcmp(address, "::1") == 0 ||
           strcmp(address, "localhost") == 0;
}

static enum err_code check(const struct serve_opts *o, struct err *e)
{
    if (!o->cert_file != !o->key_file || !o->cluster_cert_file != !o->cluster_key_file)
        return err_set(e, ERR_INVAL, "serve: a certificate needs its key and the other way round");
    if (!is_loopback(o->address) && !o->cert_file && !o->allow_plain)
        return err_set(
            e, ERR_INVAL,
            "serve: %s can be reached from outside, so tokens would travel in the clear; give "
            "serve.cert_file and serve.key_file",
            o->address);
    if (o->client_ca_file && !o->cert_file)
        return err_set(e, ERR_INVAL, "serve: client certificates need TLS; give serve.cert_file");
    if (o->cluster && !o->cluster_cert_file)
        return err_set(e, ERR_INVAL,
                       "serve: the API server speaks TLS only; give serve.external_cert_file");
    return ERR_OK;
}

static const char *keep(struct serve *s, const char *text)
{
    if (!text)
        return NULL;
    ASSERT(s->n_texts < SERVE_TEXTS);
    return s->text[s->n_texts++] = mem_strdup(text);
}

static void copy_opts(struct serve *s, const struct serve_opts *o)
{
    s->o = *o;
    s->o.replica = keep(s, o->replica ? o->replica : "");
    s->o.address = keep(s, o->address);
    s->o.cert_file = keep(s, o->cert_file);
    s->o.key_file = keep(s, o->key_file);
    s->o.client_ca_file = keep(s, o->client_ca_file);
    s->o.cluster_address = keep(s, o->cluster_address);
    s->o.cluster_cert_file = keep(s, o->cluster_cert_file);
    s->o.cluster_key_file = keep(s, o->cluster_key_file);
    s->o.idle_us = o->idle_us ? o->idle_us : 10 * US_PER_S;
    s->o.max_connections = o->max_connections ? o->max_connections : CONNECTIONS;
    s->o.wait_us = o->wait_us ? o->wait_us : WAIT_US;
}

static void on_answer(void *ctx)
{
    struct serve *s = ctx;
    server_wake(s->people);
}

static enum err_code start_people(struct serve *s, struct err *e)
{
    struct server_opts o = server_opts_default();
    o.address = s->o.address;
    o.port = s->o.port;
    o.threads = THREADS;
    o.body_cap = BODY_CAP;
    o.header_cap = HEADER_CAP;
    o.max_connections = s->o.max_connections;
    o.max_per_address =
        s->o.max_connections / 2; /* one address cannot keep all others from the brake */
    o.idle_us = s->o.idle_us;
    o.cert_file = s->o.cert_file;
    o.key_file = s->o.key_file;
    o.client_ca_file = s->o.client_ca_file;
    o.handler = on_people;
    o.ctx = s;
    return server_start(&o, &s->people, e);
}

enum err_code serve_start(const struct serve_opts *o, struct serve **out, struct err *e)
{
    *out = NULL;
    enum err_code rc = check(o, e);
    if (rc)
        return rc;
    struct serve *s = mem_zero(1, sizeof *s);
    ASSERT(pthread_mutex_init(&s->trust_lock, NULL) == 0);
    copy_opts(s, o);
    rc = auth_new(&o->auth, &s->auth, e);
    if (!rc)
        rc = start_people(s, e);
    if (rc) {
        serve_stop(s);
        return err_wrap(e, "serve");
    }
    shared_on_answer(o->shared, on_answer, s);
    *out = s;
    return ERR_OK;
}

/* Those whose command will not be carried out any more are to hear it: 503 instead of a connection that breaks. */
static void drain(struct serve *s)
{
    int64_t until_us = clock_mono_us() + DRAIN_US;
    while (s->people && atomic_load(&s->n_pending) > 0 && clock_mono_us() < until_us) {
        server_wake(s->people);
        (void)nanosleep(&(struct timespec){.tv_nsec = 2000000}, NULL);
    }
}

void serve_stop(struct serve *s)
{
    if (!s)
        return;
    drain(s);
    shared_on_answer(s->o.shared, NULL, NULL);
    server_stop(s->people);
    server_stop(s->cluster);
    auth_free(s->auth);
    for (size_t i = 0; i < s->n_texts; i++)
        mem_free(s->text[i]);
    mem_free(s->ca_file);
    (void)pthread_mutex_destroy(&s->trust_lock);
    mem_free(s);
}

uint16_t serve_port(const struct serve *s)
{
    return server_port(s->people);
}

uint16_t serve_cluster_port(const struct serve *s)
{
    return s->cluster ? server_port(s->cluster) : 0;
}

enum err_code serve_reload_tls(struct serve *s, struct err *e)
{
    enum err_code rc = server_reload_tls(s->people, e);
    if (!rc && s->cluster)
        rc = server_reload_tls(s->cluster, e);
    return rc ? err_wrap(e, "serve") : ERR_OK;
}
