/* raw_server.h - a TCP server that answers whatever bytes a test wants: halves, floods, silence,
 * resets.
 *
 * One thread per connection.  The handler runs there for each request that came in whole (headers
 * and Content-Length body) and writes raw bytes; when it returns, the next request on the
 * connection is read, unless it closed. No cmocka asserts inside a handler: record, and assert in
 * the test. */
#ifndef TESTS_SUPPORT_RAW_SERVER_H
#define TESTS_SUPPORT_RAW_SERVER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct raw_conn;
struct raw_request {
    int n;    /* of all requests, from 1 */
    int conn; /* of all connections, from 1 */
    const char *method;
    const char *path;    /* with query */
    const char *headers; /* the header lines */
    const char *body;    /* NUL-terminated */
    size_t n_body;
};
typedef void raw_handler(void *ctx, struct raw_conn *c, const struct raw_request *r);

struct raw_server;
struct raw_server *raw_server_start(raw_handler *handler, void *ctx); /* on a free loopback port */
void raw_server_stop(struct raw_server *s);                           /* joins every thread */
const char *raw_server_url(const struct raw_server *s);               /* "http://127.0.0.1:PORT" */
uint16_t raw_server_port(const struct raw_server *s);
int raw_server_requests(const struct raw_server *s);
int raw_server_connections(const struct raw_server *s);

/* The value of a request header into out ("" when absent); false when absent. */
bool raw_header(const struct raw_request *r, const char *name, char *out, size_t size);

bool raw_send(struct raw_conn *c, const void *p, size_t n); /* false once the peer is gone */
bool raw_text(struct raw_conn *c, const char *text);
/* A whole answer with Content-Length.  extra: header lines, each ended by \r\n, or NULL. */
void raw_answer(struct raw_conn *c, int status, const char *content_type, const char *extra,
                const char *body);
void raw_answer_bytes(struct raw_conn *c, int status, const char *content_type, const char *extra,
                      const void *body, size_t n);
void raw_chunked(struct raw_conn *c, int status,
                 const char *content_type);           /* begins a chunked answer */
bool raw_chunk(struct raw_conn *c, const char *text); /* "" ends it */
void raw_close(struct raw_conn *c);
void raw_reset(struct raw_conn *c); /* with RST */
/* Until the peer closes or the server stops. */
void raw_wait_gone(struct raw_conn *c);

#endif
