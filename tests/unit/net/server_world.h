/* server_world.h - a small application behind the HTTP server, and a client on a raw socket that may say anything. */
#ifndef TESTS_UNIT_NET_SERVER_WORLD_H
#define TESTS_UNIT_NET_SERVER_WORLD_H

#include <arpa/inet.h>
#include <errno.h>
#include <poll.h>
#include <stdatomic.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/mem.h"
#include "net/server.h"
#include "tests/support/test.h"

/* ---- the application under test ---- */

struct app {
    atomic_int n_handled, n_freed;
    atomic_bool end;  /* streams end cleanly */
    atomic_int lines; /* streams may have sent so many */
};

struct stream {
    struct app *app;
    int sent;
    bool broken;
};

static inline ssize_t stream_pull(void *ctx, char *p, size_t n)
{
    struct stream *s = ctx;
    (void)n;
    if (s->sent < atomic_load(&s->app->lines)) {
        s->sent++;
        memcpy(p, "line\n", 5);
        return 5;
    }
    if (s->broken)
        return -2;
    return atomic_load(&s->app->end) ? -1 : 0;
}

static inline void stream_free(void *ctx)
{
    struct stream *s = ctx;
    atomic_fetch_add(&s->app->n_freed, 1);
    mem_free(s);
}

static inline bool settle(void *ctx, struct server_reply *out)
{
    struct stream *s = ctx;
    if (!atomic_load(&s->app->end))
        return false;
    out->status = 202;
    out->body = buf_init(64);
    buf_str(&out->body, "settled");
    return true;
}

static inline void answer_stream(struct app *app, struct server_reply *out, bool broken)
{
    struct stream *s = mem_zero(1, sizeof *s);
    s->app = app;
    s->broken = broken;
    out->pull = stream_pull;
    out->free = stream_free;
    out->ctx = s;
}

static inline void handler(void *ctx, const struct server_request *in, struct server_reply *out)
{
    struct app *app = ctx;
    atomic_fetch_add(&app->n_handled, 1);
    out->status = 200;
    out->body = buf_init(1 << 22);
    if (strcmp(in->path, "/echo") == 0) {
        buf_add(&out->body, in->body, in->n_body);
    } else if (strcmp(in->path, "/stream") == 0) {
        answer_stream(app, out, false);
    } else if (strcmp(in->path, "/settle") == 0) {
        answer_stream(app, out, false);
        out->pull = NULL;
        out->settle = settle;
    } else if (strcmp(in->path, "/broken") == 0) {
        answer_stream(app, out, true);
    } else if (strcmp(in->path, "/cut") == 0) {
        out->cut = true;
    } else if (strcmp(in->path, "/late") == 0) {
        out->delay_us = 150 * US_PER_MS;
    } else if (strcmp(in->path, "/later") == 0) {
        if (!in->again) {
            out->delay_us = 50 * US_PER_MS;
            out->later = true;
        }
        buf_str(&out->body, in->again ? in->target : "too early");
    } else if (strcmp(in->path, "/big") == 0) {
        buf_pad(&out->body, 'x', 3 << 20);
    } else if (strcmp(in->path, "/zero") == 0) {
        out->status = 0;
    } else if (strcmp(in->path, "/full") == 0) {
        buf_clear(&out->body);
        out->body.cap = 4;
        buf_str(&out->body, "more than four");
    } else {
        const char *q = server_query(in, "q"), *h = server_header(in, "x-thing");
        buf_fmt(&out->body, "%s %s q=%s h=%s cn=%s", in->method, in->path, q ? q : "-", h ? h : "-",
                in->client_cn ? in->client_cn : "-");
        server_reply_header(out, "X-Peer", in->peer);
    }
}

static inline struct server *start(struct app *app, const struct server_opts *change)
{
    struct server_opts o = change ? *change : server_opts_default();
    o.handler = handler;
    o.ctx = app;
    struct server *s = NULL;
    struct err e;
    assert_ok(server_start(&o, &s, &e), &e);
    return s;
}

/* ---- a client that may say anything ---- */

static inline int dial(const struct server *s)
{
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    struct sockaddr_in a = {.sin_family = AF_INET,
                            .sin_port = htons(server_port(s)),
                            .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    assert_true(fd >= 0);
    assert_int_equal(connect(fd, (struct sockaddr *)&a, sizeof a), 0);
    return fd;
}

static inline bool say(int fd, const char *bytes, size_t n)
{
    while (n > 0) {
        ssize_t got = send(fd, bytes, n, MSG_NOSIGNAL);
        if (got <= 0)
            return false;
        bytes += got;
        n -= (size_t)got;
    }
    return true;
}

/* Reads until `stop` is in what came, the connection ends, or 10 s passed; returns what came
 * (static). */
static inline const char *hear(int fd, const char *stop)
{
    static char text[1 << 16];
    size_t n = 0;
    text[0] = '\0';
    int64_t end = clock_mono_us() + 10 * US_PER_S;
    while (n < sizeof text - 1 && !(stop && strstr(text, stop))) {
        struct pollfd p = {.fd = fd, .events = POLLIN};
        int64_t left = end - clock_mono_us();
        if (left <= 0)
            fail_msg("nothing more within 10 s after: %s", text);
        if (poll(&p, 1, (int)(left / 1000) + 1) <= 0)
            continue;
        ssize_t got = recv(fd, text + n, sizeof text - 1 - n, 0);
        if (got <= 0)
            break;
        n += (size_t)got;
        text[n] = '\0';
    }
    return text;
}

static inline int status_of(const char *answer)
{
    return strncmp(answer, "HTTP/1.1 ", 9) == 0 ? (int)strtol(answer + 9, NULL, 10) : 0;
}

/* One request on its own connection, to the end of the connection. */
static inline const char *ask(const struct server *s, const char *request)
{
    int fd = dial(s);
    say(fd, request, strlen(request));
    const char *answer = hear(fd, NULL);
    close(fd);
    return answer;
}

static inline void assert_alive(const struct server *s)
{
    const char *a = ask(s, "GET /alive HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n");
    assert_int_equal(status_of(a), 200);
    assert_non_null(strstr(a, "GET /alive"));
}

static inline bool wait_for(atomic_int *v, int want)
{
    for (int64_t end = clock_mono_us() + 10 * US_PER_S; clock_mono_us() < end;) {
        if (atomic_load(v) == want)
            return true;
        poll(NULL, 0, 2);
    }
    return false;
}

#endif
