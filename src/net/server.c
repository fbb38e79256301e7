/* server.c - start and stop, and the way of one request through libmicrohttpd's callbacks.
 *
 *   uri_seen      the request line is in: the exchange is made, its head is timed
 *   access        (1) head complete: caps, path and query; (2..n) body; (n+1) handler, answer
 * queued completed     answered or broken off: the exchange is released
 *
 * libmicrohttpd's memory per connection bounds the head (it answers 431 or 414 itself past twice
 * the cap).  A body over the cap is read and dropped up to SERVER_DRAIN_BYTES before the 413,
 * because closing on a client that still sends resets the connection and loses the answer; a client
 * that waits for "100 Continue" gets it at once. A streamed answer that has nothing to say is
 * suspended, not polled. */
#include "net/server_priv.h"

#include <arpa/inet.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/mem.h"
#include "base/num.h"

/* One request and its answer. */
struct server_exchange {
    struct server_conn *c;
    char *uri;
    struct server_target target;
    struct buf body;
    size_t n_dropped;
    int refuse; /* status to answer instead of asking the handler; 0: none */
    const char *why;
    bool begun, handled;
    struct server_reply reply;
};

static void reply_fini(struct server_reply *r)
{
    if (r->free)
        r->free(r->ctx);
    buf_fini(&r->body);
    *r = (struct server_reply){0};
}

void server_exchange_free(struct server_exchange *x)
{
    if (!x)
        return;
    reply_fini(&x->reply);
    buf_fini(&x->body);
    server_target_fini(&x->target);
    mem_free(x->uri);
    mem_free(x);
}

/* ---- what a handler may ask ---- */

const char *server_query(const struct server_request *r, const char *key)
{
    const struct server_exchange *x = r->impl;
    for (size_t i = 0; i < x->target.n_params; i++) {
        if (strcmp(x->target.param[i].key, key) == 0)
            return x->target.param[i].value;
    }
    return NULL;
}

const char *server_header(const struct server_request *r, const char *name)
{
    const struct server_exchange *x = r->impl;
    return MHD_lookup_connection_value(x->c->mhd, MHD_HEADER_KIND, name);
}

void server_reply_header(struct server_reply *r, const char *name, const char *value)
{
    ASSERT(r->n_headers < (int)ARRAY_LEN(r->header));
    snprintf(r->header[r->n_headers].name, sizeof r->header[0].name, "%s", name);
    snprintf(r->header[r->n_headers].value, sizeof r->header[0].value, "%s", value);
    r->n_headers++;
}

/* ---- the answer ---- */

static ssize_t pull(void *cls, uint64_t pos, char *p, size_t n)
{
    (void)pos;
    struct server_exchange *x = cls;
    struct server *s = x->c->s;
    for (;;) {
        if (atomic_load(&s->stopping) || server_conn_gone(x->c))
            return MHD_CONTENT_READER_END_WITH_ERROR;
        uint64_t wakes = atomic_load(&s->wakes);
        ssize_t got = x->reply.pull(x->reply.ctx, p, n);
        if (got > 0)
            return got;
        if (got == -1)
            return MHD_CONTENT_READER_END_OF_STREAM;
        if (got < 0)
            return MHD_CONTENT_READER_END_WITH_ERROR;
        if (server_conn_sleep(x->c, clock_mono_us() + SERVER_ASK_AGAIN_US, true, wakes))
            return 0;
    }
}

static struct MHD_Response *make_response(struct server_exchange *x)
{
    struct server_reply *r = &x->reply;
    if (r->pull)
        return MHD_create_response_from_callback(MHD_SIZE_UNKNOWN, SERVER_PULL_BYTES, pull, x,
                                                 NULL);
    size_t n = r->body.n;
    char *p = buf_take(&r->body);
    struct MHD_Response *m = MHD_create_response_from_buffer_with_free_callback(n, p, mem_free);
    if (!m)
        mem_free(p);
    return m;
}

static enum MHD_Result send_reply(struct server_exchange *x)
{
    struct server_reply *r = &x->reply;
    if (r->body.failed) {
        buf_clear(&r->body);
        r->status = 500;
    }
    struct MHD_Response *m = r->cut ? NULL : make_response(x);
    if (!m)
        return MHD_NO;
    MHD_add_response_header(m, "Content-Type",
                            r->content_type ? r->content_type : "application/json");
    for (int i = 0; i < r->n_headers; i++)
        MHD_add_response_header(m, r->header[i].name, r->header[i].value);
    server_conn_phase(x->c, SERVER_REPLY);
    unsigned status = r->status >= 200 && r->status < 600 ? (unsigned)r->status : 500;
    enum MHD_Result rc = MHD_queue_response(x->c->mhd, status, m);
    MHD_destroy_response(m);
    return rc;
}

static enum MHD_Result refuse(struct server_exchange *x)
{
    struct server_reply *r = &x->reply;
    r->status = x->refuse;
    r->content_type = "text/plain";
    r->body = buf_init(256);
    buf_fmt(&r->body, "%s\n", x->why);
    x->handled = true;
    return send_reply(x);
}

static void call_handler(struct server_exchange *x, const char *method, bool again)
{
    struct server *s = x->c->s;
    struct server_request r = {.method = method,
                               .path = x->target.path,
                               .body = x->body.p ? x->body.p : "",
                               .n_body = x->body.n,
                               .client_cn = x->c->cn[0] ? x->c->cn : NULL,
                               .peer = x->c->peer,
                               .target = x->uri,
                               .again = again,
                               .impl = x};
    reply_fini(&x->reply);
    s->o.handler(s->o.ctx, &r, &x->reply);
    x->handled = true;
}

/* An answer that is to come; the connection sleeps until it is there. */
static enum MHD_Result settle(struct server_exchange *x)
{
    struct server *s = x->c->s;
    for (;;) {
        uint64_t wakes = atomic_load(&s->wakes);
        if (atomic_load(&s->stopping) || server_conn_gone(x->c))
            return MHD_NO;
        if (x->reply.settle(x->reply.ctx, &x->reply)) {
            x->reply.settle = NULL;
            return send_reply(x);
        }
        if (server_conn_sleep(x->c, clock_mono_us() + SERVER_ASK_AGAIN_US, true, wakes))
            return MHD_YES;
    }
}

static enum MHD_Result handle(struct server_exchange *x, const char *method)
{
    bool first = !x->handled;
    if (first && x->refuse)
        return refuse(x);
    if (atomic_load(&x->c->s->stopping))
        return MHD_NO;
    if (first || x->reply.later) {
        server_conn_phase(x->c, SERVER_BUSY);
        call_handler(x, method, !first);
        if (x->reply.delay_us > 0)
            return server_conn_sleep(x->c, clock_mono_us() + x->reply.delay_us, false, 0) ? MHD_YES
                                                                                          : MHD_NO;
        if (x->reply.later)
            return MHD_NO; /* later, but never */
    }
    return x->reply.settle ? settle(x) : send_reply(x);
}

/* ---- the request ---- */

static void *uri_seen(void *cls, const char *uri, struct MHD_Connection *mhd)
{
    (void)cls;
    struct server_conn *c = server_conn_of(mhd);
    if (!c)
        return NULL;
    server_exchange_free(c->x);
    c->x = mem_zero(1, sizeof *c->x);
    c->x->c = c;
    c->x->uri = mem_strdup(uri);
    server_conn_phase(c, SERVER_HEADERS);
    return c->x;
}

static enum MHD_Result add_up(void *cls, enum MHD_ValueKind kind, const char *key, size_t n_key,
                              const char *value, size_t n_value)
{
    (void)kind, (void)key, (void)value;
    *(size_t *)cls += n_key + n_value + 4;
    return MHD_YES;
}

static void set_refuse(struct server_exchange *x, int status, const char *why)
{
    if (!x->refuse) {
        x->refuse = status;
        x->why = why;
    }
}

/* Head complete.  Only a client that waits for leave to send its body is answered here. */
static enum MHD_Result begin(struct server_exchange *x)
{
    struct server_conn *c = x->c;
    const struct server_opts *o = &c->s->o;
    x->begun = true;
    x->body = buf_init(o->body_cap);
    size_t n_head = strlen(x->uri) + 16;
    MHD_get_connection_values_n(c->mhd, MHD_HEADER_KIND, add_up, &n_head);
    if (n_head > o->header_cap)
        set_refuse(x, 431, "request header too large");
    struct err e;
    enum err_code rc = server_target_parse(x->uri, &x->target, &e);
    if (rc)
        set_refuse(x, 400,
                   rc == ERR_LIMIT ? "too many query parameters" : "malformed request target");
    if (c->s->tls && o->client_ca_file && !c->cn[0]) {
        const union MHD_ConnectionInfo *i =
            MHD_get_connection_info(c->mhd, MHD_CONNECTION_INFO_GNUTLS_SESSION);
        if (!i || !server_tls_peer(i->tls_session, c->cn, sizeof c->cn))
            c->cn[0] = '\0';
        if (!c->cn[0] && o->client_cert_required)
            set_refuse(x, 403, "client certificate without a common name");
    }
    server_conn_phase(c, SERVER_BODY);
    const char *length = MHD_lookup_connection_value(c->mhd, MHD_HEADER_KIND, "Content-Length");
    uint64_t n = 0;
    if (length && !num_u64(length, strlen(length), &n))
        set_refuse(x, 400, "malformed Content-Length");
    if (n > o->body_cap)
        set_refuse(x, 413, "request body too large");
    const char *expect = MHD_lookup_connection_value(c->mhd, MHD_HEADER_KIND, "Expect");
    if (x->refuse &&
        ((expect && strcasecmp(expect, "100-continue") == 0) || n > SERVER_DRAIN_BYTES))
        return refuse(x);
    return MHD_YES;
}

static enum MHD_Result more_body(struct server_exchange *x, const char *p, size_t n)
{
    server_conn_phase(x->c, SERVER_BODY);
    if (!x->refuse) {
        buf_add(&x->body, p, n);
        if (!x->body.failed)
            return MHD_YES;
        if (x->body.no_memory)
            set_refuse(x, 503, "out of memory");
        else
            set_refuse(x, 413, "request body too large");
    }
    x->n_dropped += n;
    return x->n_dropped <= SERVER_DRAIN_BYTES ? MHD_YES : MHD_NO;
}

static enum MHD_Result on_access(void *cls, struct MHD_Connection *mhd, const char *url,
                                 const char *method, const char *version, const char *data,
                                 size_t *n_data, void **con_cls)
{
    (void)cls, (void)mhd, (void)url, (void)version;
    struct server_exchange *x = *con_cls;
    if (!x)
        return MHD_NO;
    if (!x->begun)
        return begin(x);
    if (*n_data) {
        enum MHD_Result rc = more_body(x, data, *n_data);
        *n_data = 0;
        return rc;
    }
    return handle(x, method);
}

static void completed(void *cls, struct MHD_Connection *mhd, void **con_cls,
                      enum MHD_RequestTerminationCode why)
{
    (void)cls, (void)why;
    struct server_conn *c = server_conn_of(mhd);
    *con_cls = NULL;
    if (!c)
        return;
    server_exchange_free(c->x);
    c->x = NULL;
    server_conn_phase(c, SERVER_WAIT);
}

/* Targets are decoded in server_target_parse: leave them alone here. */
static size_t keep_escapes(void *cls, struct MHD_Connection *mhd, char *s)
{
    (void)cls, (void)mhd;
    return strlen(s);
}

/* ---- start and stop ---- */

struct server_opts server_opts_default(void)
{
    return (struct server_opts){.address = "127.0.0.1",
                                .threads = 1,
                                .body_cap = 1 << 20,
                                .header_cap = 32 << 10,
                                .max_connections = 256,
                                .idle_us = 10 * US_PER_S};
}

static enum err_code check_opts(const struct server_opts *o, struct err *e)
{
    if (!o->handler)
        return err_set(e, ERR_INVAL, "server: no handler");
    if (o->threads < 1 || o->threads > 64 || o->max_connections < o->threads ||
        o->max_per_address < 0)
        return err_set(e, ERR_INVAL, "server: %d threads, %d connections", o->threads,
                       o->max_connections);
    if (o->body_cap == 0 || o->header_cap < 256 || o->header_cap > (1u << 24) ||
        o->idle_us < US_PER_MS)
        return err_set(e, ERR_INVAL, "server: caps or idle time too small or too large");
    if (!o->cert_file != !o->key_file)
        return err_set(e, ERR_INVAL,
                       "server: a certificate needs its key, and a key its certificate");
    if (o->client_ca_file && !o->cert_file)
        return err_set(e, ERR_INVAL, "server: client certificates need a server certificate");
    if (o->client_cert_required && !o->client_ca_file)
        return err_set(e, ERR_INVAL,
                       "server: client certificates are required, but none is trusted");
    return ERR_OK;
}

static enum err_code open_socket(const struct server_opts *o, int *fd, uint16_t *port,
                                 struct err *e)
{
    union {
        struct sockaddr any;
        struct sockaddr_in v4;
        struct sockaddr_in6 v6;
    } a = {0};
    socklen_t n = sizeof a.v4;
    if (inet_pton(AF_INET, o->address, &a.v4.sin_addr) == 1) {
        a.v4.sin_family = AF_INET;
        a.v4.sin_port = htons(o->port);
    } else if (inet_pton(AF_INET6, o->address, &a.v6.sin6_addr) == 1) {
        a.v6.sin6_family = AF_INET6;
        a.v6.sin6_port = htons(o->port);
        n = sizeof a.v6;
    } else {
        return err_set(e, ERR_INVAL, "server: %s is not an IPv4 or IPv6 address", o->address);
    }
    int one = 1;
    *fd = socket(a.any.sa_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (*fd < 0)
        return err_sys(e, errno, "server: socket");
    if (setsockopt(*fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one) < 0 ||
        bind(*fd, &a.any, n) < 0 || listen(*fd, 512) < 0 || getsockname(*fd, &a.any, &n) < 0) {
        enum err_code rc = err_sys(e, errno, "listen on %s port %u", o->address, o->port);
        close(*fd);
        return rc;
    }
    *port = ntohs(a.any.sa_family == AF_INET ? a.v4.sin_port : a.v6.sin6_port);
    return ERR_OK;
}

static enum err_code start_daemon(struct server *s, int fd, struct err *e)
{
    const struct server_opts *o = &s->o;
    unsigned flags = MHD_USE_INTERNAL_POLLING_THREAD | MHD_USE_EPOLL | MHD_ALLOW_SUSPEND_RESUME;
    struct MHD_OptionItem more[8];
    int n = 0;
    if (o->threads > 1)
        more[n++] = (struct MHD_OptionItem){MHD_OPTION_THREAD_POOL_SIZE, o->threads, NULL};
    if (o->max_per_address)
        more[n++] =
            (struct MHD_OptionItem){MHD_OPTION_PER_IP_CONNECTION_LIMIT, o->max_per_address, NULL};
    if (s->tls) {
        flags |= MHD_USE_TLS;
        more[n++] = (struct MHD_OptionItem){MHD_OPTION_HTTPS_CERT_CALLBACK, 0,
                                            __extension__(void *) server_tls_certificate};
    }
    more[n] = (struct MHD_OptionItem){MHD_OPTION_END, 0, NULL};
    /* Its time-out covers what the watchdog does not: a client that does not take its answer. */
    unsigned idle_s = (unsigned)((o->idle_us + US_PER_S - 1) / US_PER_S);
    sigset_t all, old;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &old); /* signals are the main thread's */
    s->daemon = MHD_start_daemon(
        flags, 0, NULL, NULL, on_access, s, MHD_OPTION_LISTEN_SOCKET, fd,
        MHD_OPTION_CONNECTION_LIMIT, (unsigned)o->max_connections, MHD_OPTION_CONNECTION_TIMEOUT,
        idle_s, MHD_OPTION_CONNECTION_MEMORY_LIMIT, (size_t)(2 * o->header_cap + 16384),
        MHD_OPTION_NOTIFY_COMPLETED, completed, NULL, MHD_OPTION_NOTIFY_CONNECTION,
        server_conn_notify, s, MHD_OPTION_URI_LOG_CALLBACK, uri_seen, s,
        MHD_OPTION_UNESCAPE_CALLBACK, keep_escapes, NULL, MHD_OPTION_ARRAY, more, MHD_OPTION_END);
    int sys = errno;
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    if (!s->daemon)
        return err_sys(e, sys, "start a server on %s port %u", o->address, s->port);
    return ERR_OK;
}

enum err_code server_start(const struct server_opts *o, struct server **out, struct err *e)
{
    enum err_code rc = check_opts(o, e);
    if (rc)
        return rc;
    struct server *s = mem_zero(1, sizeof *s);
    s->quiet_fd = -1;
    s->o = *o;
    s->o.address = s->text[0] = mem_strdup(o->address ? o->address : "127.0.0.1");
    s->o.cert_file = s->text[1] = o->cert_file ? mem_strdup(o->cert_file) : NULL;
    s->o.key_file = s->text[2] = o->key_file ? mem_strdup(o->key_file) : NULL;
    s->o.client_ca_file = s->text[3] = o->client_ca_file ? mem_strdup(o->client_ca_file) : NULL;
    pthread_condattr_t attr;
    pthread_condattr_init(&attr);
    pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    pthread_cond_init(&s->changed, &attr);
    pthread_condattr_destroy(&attr);
    pthread_mutex_init(&s->lock, NULL);
    int fd = -1;
    if (o->cert_file)
        rc = server_tls_new(&s->o, &s->tls, e);
    if (!rc)
        rc = server_watchdog_start(s, e);
    if (!rc)
        rc = open_socket(&s->o, &fd, &s->port, e);
    if (!rc)
        rc = start_daemon(s, fd, e);
    if (rc) {
        server_stop(s);
        return rc;
    }
    *out = s;
    return ERR_OK;
}

uint16_t server_port(const struct server *s)
{
    return s->port;
}

enum err_code server_reload_tls(struct server *s, struct err *e)
{
    return s->tls ? server_tls_reload(s->tls, e) : ERR_OK;
}

void server_quiesce(struct server *s)
{
    int fd = MHD_quiesce_daemon(s->daemon);
    if (fd < 0)
        return; /* quiet already */
    shutdown(fd, SHUT_RDWR);
    s->quiet_fd = fd; /* closed after the threads, which may still know it */
}

void server_stop(struct server *s)
{
    if (!s)
        return;
    server_watchdog_stop(s);
    if (s->daemon)
        MHD_stop_daemon(s->daemon);
    if (s->quiet_fd >= 0)
        close(s->quiet_fd);
    server_tls_free(s->tls);
    pthread_cond_destroy(&s->changed);
    pthread_mutex_destroy(&s->lock);
    for (size_t i = 0; i < ARRAY_LEN(s->text); i++)
        mem_free(s->text[i]);
    mem_free(s);
}
