/* http.h - HTTP requests with deadlines and caps, over libcurl's multi interface.
 *
 * A client belongs to one thread.  Requests run side by side: http_start() returns at once, http_poll() moves
 * them all and calls back when one is done; http_do() is start plus poll until that one is done, during which
 * the others move too (their callbacks run).  Connections are kept and shared (HTTP/1.1 keep-alive).
 *
 * Every request has a deadline and a cap on the body *after* decompression; past either it ends with an
 * error and nothing more is delivered.  A streamed request (a watch) has no whole-body cap: `data` gets each
 * chunk as it comes and may end the request; `idle_us` bounds the silence between chunks.
 * Proxies of the environment are not used unless `proxy` says so.  Redirects are not followed: they would
 * carry credentials elsewhere.  Tokens never reach a log or a message. */
#ifndef NET_HTTP_H
#define NET_HTTP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"

/* How to reach one server.  All text is borrowed for the lifetime of the http_server. PEM blocks win over files. */
struct http_server_opts {
    const char *url;                                /* scheme://host[:port][/prefix], no trailing slash needed */
    const char *ca_file, *cert_file, *key_file;     /* PEM; NULL: system roots, no client certificate */
    const char *ca_pem, *cert_pem, *key_pem;
    const char *tls_server_name;                    /* NULL: the host of url */
    bool insecure;                                  /* no verification; only when asked in so many words */
    const char *token_file;                         /* bearer, re-read when it changes (mtime or 1 min) */
    const char *token;                              /* bearer; token_file wins */
    const char *user, *password;                    /* basic */
    const char *proxy;                              /* NULL: none, whatever the environment says */
    int64_t connect_us;                             /* 0: 5 s */
};

struct http_server; /* immutable apart from the re-read token; used with one client */
/* Errors: ERR_INVAL for a bad URL, ERR_IO for files that cannot be read. */
NODISCARD enum err_code http_server_new(const struct http_server_opts *o, struct http_server **out, struct err *e);
void http_server_free(struct http_server *s); /* NULL is fine; no request may be running on it */
const char *http_server_url(const struct http_server *s);

struct http_client;
NODISCARD enum err_code http_client_new(struct http_client **out, struct err *e);
void http_client_free(struct http_client *c); /* ends what still runs, calling back with ERR_INTERRUPTED */

enum http_method { HTTP_GET, HTTP_POST, HTTP_PUT, HTTP_PATCH, HTTP_DELETE };

struct http_reply {
    int status;              /* 0 when there was no answer */
    struct buf body;         /* decompressed; empty for a streamed request */
    char content_type[64];   /* without parameters, lower case */
    int64_t retry_after_us;  /* -1 without; seconds and HTTP dates */
    int64_t date_us;         /* the server's Date header, -1 without: for clock skew */
    int64_t wire_bytes;      /* received, before decompression */
    int64_t elapsed_us;
};

struct http_request {
    enum http_method method;
    const char *path;         /* from the server's URL on, with query: "/api/v1/pods?limit=500"; copied */
    const void *body;         /* copied */
    size_t n_body;
    const char *content_type; /* NULL: application/json */
    const char *accept;       /* NULL: application/json */
    int64_t deadline_us;      /* from start to last byte; 0: 30 s; streamed: to the end of the stream */
    int64_t idle_us;          /* streamed: longest silence; 0: none */
    size_t body_cap;          /* 0: 16 MiB */
    /* Streamed when set, and the status is 2xx (other bodies are collected under body_cap as usual).
     * Return false to end the request (done() then gets ERR_INTERRUPTED). */
    bool (*data)(void *ctx, const char *p, size_t n);
    /* Exactly once, from http_poll, http_do, http_cancel or http_client_free, never from http_start.  rc is ERR_OK for any HTTP
     * status: the transport worked.  ERR_LIMIT: body over the cap; ERR_IO: no connection, TLS, cut off, time-out
     * (e->sys is ETIMEDOUT); ERR_INTERRUPTED: cancelled.  reply is the callee's to read, not to keep
     * (buf_take the body to keep it). */
    void (*done)(void *ctx, enum err_code rc, struct http_reply *reply, const struct err *e);
    void *ctx;
};
typedef uint64_t http_id; /* never reused; 0 is none */

NODISCARD enum err_code http_start(struct http_client *c, struct http_server *s, const struct http_request *r,
                                   http_id *id, struct err *e);
void http_cancel(struct http_client *c, http_id id); /* done() with ERR_INTERRUPTED; unknown ids are ignored */
/* Moves everything; waits at most wait_us for something to happen.  Returns the number of callbacks made. */
int http_poll(struct http_client *c, int64_t wait_us);
/* Wakes a waiting http_poll from another thread or signal handler. */
void http_wake(struct http_client *c);
size_t http_running(const struct http_client *c);

/* One request to its end; r->done and r->ctx are not used (r->data may be).  reply is init'd here and released with
 * http_reply_fini() whatever the result. */
NODISCARD enum err_code http_do(struct http_client *c, struct http_server *s, const struct http_request *r,
                                struct http_reply *reply, struct err *e);
void http_reply_fini(struct http_reply *reply);

/* Appends s percent-encoded for a query value or a path segment. */
void http_escape(struct buf *out, const char *s);
/* Wait before attempt `attempt` (from 1): exponential from base_us, at most max_us, with full jitter from `random`
 * in [0, 1). */
int64_t http_backoff_us(int attempt, int64_t base_us, int64_t max_us, double random);

#endif
