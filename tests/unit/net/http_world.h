/* http_world.h - a client of the HTTP module, a server that answers as told, and what came back. */
#ifndef TESTS_UNIT_NET_HTTP_WORLD_H
#define TESTS_UNIT_NET_HTTP_WORLD_H

#include <zlib.h>

#include "base/clock.h"
#include "base/mem.h"
#include "net/http.h"
#include "tests/support/raw_server.h"
#include "tests/support/test.h"

struct seen {
    int n_done;
    enum err_code rc;
    struct err err;
    int status;
    char body[256];
    size_t n_body;
    struct buf stream;
    int n_chunks;
    int stop_after; /* chunks; 0: never */
};

static inline void on_done(void *ctx, enum err_code rc, struct http_reply *reply, const struct err *e)
{
    struct seen *s = ctx;
    s->n_done++;
    s->rc = rc;
    s->err = *e;
    s->status = reply->status;
    s->n_body = reply->body.n;
    snprintf(s->body, sizeof s->body, "%s", reply->body.n ? reply->body.p : "");
}

static inline bool on_data(void *ctx, const char *p, size_t n)
{
    struct seen *s = ctx;
    if (!s->stream.cap)
        s->stream = buf_init(64 << 20);
    buf_add(&s->stream, p, n);
    return ++s->n_chunks != s->stop_after;
}

struct rig {
    struct raw_server *raw;
    struct http_client *client;
    struct http_server *server;
};

static inline struct http_server *server_with(const struct http_server_opts *o)
{
    struct err e;
    struct http_server *s;
    assert_ok(http_server_new(o, &s, &e), &e);
    return s;
}

static inline struct rig rig_start(raw_handler *handler, void *ctx)
{
    struct err e;
    struct rig r = {.raw = raw_server_start(handler, ctx)};
    assert_ok(http_client_new(&r.client, &e), &e);
    r.server = server_with(&(struct http_server_opts){.url = raw_server_url(r.raw)});
    return r;
}

static inline void rig_stop(struct rig *r)
{
    http_client_free(r->client);
    http_server_free(r->server);
    raw_server_stop(r->raw);
}

static inline enum err_code get(struct rig *r, const char *path, struct http_reply *reply, struct err *e)
{
    return http_do(r->client, r->server, &(struct http_request){.path = path}, reply, e);
}

static inline void run_until(struct rig *r, const int *flag, int want)
{
    int64_t give_up_us = clock_mono_us() + 20 * US_PER_S;
    while (*flag < want && clock_mono_us() < give_up_us)
        http_poll(r->client, 20 * US_PER_MS);
    assert_int_equal(*flag, want);
}

/* Gzip of n bytes; mem_free. */
static inline unsigned char *gzip(const char *p, size_t n, size_t *n_out)
{
    z_stream z = {0};
    size_t cap = n / 500 + 4096 + (n < 100000 ? n : 0);
    unsigned char *out = mem_zero(cap, 1), *in = mem_zero(n + 1, 1);
    memcpy(in, p, n);
    assert_int_equal(deflateInit2(&z, 9, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY), Z_OK);
    z.next_in = in;
    z.avail_in = (uInt)n;
    z.next_out = out;
    z.avail_out = (uInt)cap;
    assert_int_equal(deflate(&z, Z_FINISH), Z_STREAM_END);
    *n_out = z.total_out;
    deflateEnd(&z);
    mem_free(in);
    return out;
}

static inline void say_nothing(void *ctx, struct raw_conn *c, const struct raw_request *r)
{
    (void)ctx;
    if (strcmp(r->path, "/stream") == 0) {
        raw_chunked(c, 200, "application/json");
        raw_chunk(c, "first");
    }
    raw_wait_gone(c);
}

#endif
