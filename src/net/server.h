/* server.h - an HTTP(S) server with caps, over libmicrohttpd (GnuTLS).
 *
 * Requests are whole before the handler sees them: headers and body are collected under caps, with
 * a time-out per connection, so slow and oversized clients cost a bounded amount and get 408, 413
 * or 431.  Handlers run on the server's own thread(s); what they share with others is theirs to
 * lock. A streamed answer (a watch) is produced by a pull function until it returns the end. */
#ifndef NET_SERVER_H
#define NET_SERVER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/buf.h"
#include "base/err.h"

struct server_request {
    const char *method; /* "GET" */
    const char *path;   /* decoded, without the query */
    const char *body;   /* NUL-terminated */
    size_t n_body;
    const char *client_cn; /* common name of the verified client certificate, or NULL */
    const char *peer;      /* "127.0.0.1:4711" */
    const char *target;    /* path and query as sent */
    bool again;            /* the handler put it off (`later`) and is called for the second time */
    const void *impl;
};
/* Borrowed until the handler returns; NULL when absent. */
/* A query parameter, decoded, "" for a bare key; a header, its name in any case. */
const char *server_query(const struct server_request *r, const char *key);
const char *server_header(const struct server_request *r, const char *name);

struct server_reply {
    int status;               /* 0 is taken as 500 */
    const char *content_type; /* static text; NULL: application/json */
    struct buf body;          /* owned by the server after the handler */
    /* A few more headers, e.g. Retry-After.  Text is copied. */
    int n_headers;
    struct {
        char name[32], value[128];
    } header[4];
    /* For tests: the connection is closed without an answer; the answer goes out so much later, others
     * being served meanwhile; with delay_us, no answer yet, the handler is called again then. */
    bool cut;
    int64_t delay_us;
    bool later;
    /* Streamed when set: fill at most n bytes, return how many, 0 for "nothing yet" (asked again by
     * server_wake, or within 100 ms), -1 for a clean end, -2 to cut the connection.  `free` is
     * called once at the end. */
    ssize_t (*pull)(void *ctx, char *p, size_t n);
    void (*free)(void *ctx);
    void *ctx;
    /* When set the answer is not known yet and no thread waits for it: asked by server_wake, or
     * within 100 ms, until it returns true with status and body filled in.  ctx and `free` as for a
     * streamed answer. */
    bool (*settle)(void *ctx, struct server_reply *out);
};
void server_reply_header(struct server_reply *r, const char *name, const char *value);

typedef void server_handler(void *ctx, const struct server_request *in, struct server_reply *out);

struct server_opts {
    const char *address;                  /* "127.0.0.1", "::1", "0.0.0.0"; default loopback */
    uint16_t port;                        /* 0: any free one, see server_port */
    int threads;                          /* default 1 */
    size_t body_cap;                      /* default 1 MiB */
    size_t header_cap;                    /* default 32 KiB */
    int max_connections, max_per_address; /* default 256, 0 (none) */
    int64_t idle_us;                      /* default 10 s */
    const char *cert_file, *key_file;     /* PEM; both or none; re-read by server_reload_tls */
    const char *client_ca_file;           /* verify client certificates against it ... */
    bool client_cert_required;            /* ... and refuse those without one */
    server_handler *handler;
    void *ctx;
};
struct server_opts server_opts_default(void);

struct server;
/* `o` may go afterwards: texts are copied.  Errors: ERR_IO (address in use, files), ERR_PARSE and
 * ERR_MISMATCH (certificate, key), ERR_INVAL. */
NODISCARD enum err_code server_start(const struct server_opts *o, struct server **out,
                                     struct err *e);
uint16_t server_port(const struct server *s);
/* Asks every streamed or unsettled answer again; from any thread. */
void server_wake(struct server *s);
/* New certificate for connections from now on. */
NODISCARD enum err_code server_reload_tls(struct server *s, struct err *e);
/* New connections are refused from now on; open ones go on, to be ended by server_stop. */
void server_quiesce(struct server *s);
void server_stop(struct server *s); /* waits for running handlers; NULL is fine */

#endif
