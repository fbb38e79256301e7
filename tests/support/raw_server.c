#include "tests/support/raw_server.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/mem.h"

enum { CONNS_MAX = 4096, REQUEST_MAX = 8 << 20 };

struct raw_conn {
    struct raw_server *server;
    int fd, no;
    pthread_t thread;
    bool closed;
};

struct raw_server {
    int fd;
    uint16_t port;
    char url[64];
    raw_handler *handler;
    void *ctx;
    pthread_t thread;
    atomic_int n_requests, n_conns;
    atomic_bool stop;
    struct raw_conn *conns[CONNS_MAX];
};

static void die(const char *what)
{
    perror(what);
    abort();
}

/* ---- one connection ---------------------------------------------------------------------- */

struct reading {
    char *p;
    size_t n, size;
};

/* Waits for more bytes; false at the end of the connection. */
static bool read_more(struct raw_conn *c, struct reading *in)
{
    while (!atomic_load(&c->server->stop)) {
        struct pollfd pfd = {.fd = c->fd, .events = POLLIN};
        if (poll(&pfd, 1, 20) <= 0)
            continue;
        if (in->n + 65536 > in->size) {
            in->size = in->size ? in->size * 2 : 131072;
            if (in->size > REQUEST_MAX)
                return false;
            in->p = mem_grow(in->p, in->size, 1);
        }
        ssize_t got = recv(c->fd, in->p + in->n, 65535, 0);
        if (got <= 0)
            return false;
        in->n += (size_t)got;
        in->p[in->n] = '\0';
        return true;
    }
    return false;
}

bool raw_header(const struct raw_request *r, const char *name, char *out, size_t size)
{
    size_t n = strlen(name);
    out[0] = '\0';
    for (const char *line = r->headers; line && *line;
         line = strstr(line, "\r\n"), line = line ? line + 2 : NULL) {
        if (strncasecmp(line, name, n) != 0 || line[n] != ':')
            continue;
        const char *v = line + n + 1 + strspn(line + n + 1, " ");
        snprintf(out, size, "%.*s", (int)strcspn(v, "\r"), v);
        return true;
    }
    return false;
}

/* Bytes of the first request in `in`, 0 while it is not complete. */
static size_t whole_request(const struct reading *in)
{
    const char *end = in->n ? strstr(in->p, "\r\n\r\n") : NULL;
    char length[32];
    if (!end)
        return 0;
    struct raw_request r = {.headers = strstr(in->p, "\r\n") + 2};
    size_t n = (size_t)(end - in->p) + 4;
    if (raw_header(&r, "Content-Length", length, sizeof length))
        n += strtoul(length, NULL, 10);
    return in->n >= n ? n : 0;
}

static void handle(struct raw_conn *c, struct reading *in, size_t n)
{
    char *copy = mem_zero(n + 1, 1);
    memcpy(copy, in->p, n);
    memmove(in->p, in->p + n, in->n - n + 1);
    in->n -= n;
    char *headers = strstr(copy, "\r\n"), *body = strstr(copy, "\r\n\r\n") + 4;
    body[-2] = '\0';
    *headers = '\0';
    char *path = strchr(copy, ' ');
    if (path) {
        *path++ = '\0';
        char *version = strchr(path, ' ');
        if (version)
            *version = '\0';
        struct raw_request r = {.n = atomic_fetch_add(&c->server->n_requests, 1) + 1,
                                .conn = c->no,
                                .method = copy,
                                .path = path,
                                .headers = headers + 2,
                                .body = body,
                                .n_body = n - (size_t)(body - copy)};
        c->server->handler(c->server->ctx, c, &r);
    }
    mem_free(copy);
}

static void *serve(void *arg)
{
    struct raw_conn *c = arg;
    struct reading in = {0};
    while (!c->closed && !atomic_load(&c->server->stop)) {
        size_t n = whole_request(&in);
        if (n)
            handle(c, &in, n);
        else if (!read_more(c, &in))
            break;
    }
    raw_close(c);
    mem_free(in.p);
    return NULL;
}

/* ---- the server -------------------------------------------------------------------------- */

static void *accept_all(void *arg)
{
    struct raw_server *s = arg;
    while (!atomic_load(&s->stop)) {
        struct pollfd pfd = {.fd = s->fd, .events = POLLIN};
        int n = atomic_load(&s->n_conns);
        if (poll(&pfd, 1, 20) <= 0 || n == CONNS_MAX)
            continue;
        int fd = accept(s->fd, NULL, NULL);
        if (fd < 0)
            continue;
        /* What is sent in pieces must not wait 40 ms for the peer's acknowledgement of the piece before. */
        (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &(int){1}, sizeof(int));
        struct raw_conn *c = mem_zero(1, sizeof *c);
        *c = (struct raw_conn){.server = s, .fd = fd, .no = n + 1};
        s->conns[n] = c;
        atomic_store(&s->n_conns, n + 1);
        if (pthread_create(&c->thread, NULL, serve, c))
            die("thread");
    }
    return NULL;
}

struct raw_server *raw_server_start(raw_handler *handler, void *ctx)
{
    struct raw_server *s = mem_zero(1, sizeof *s);
    struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t n = sizeof a;
    s->handler = handler;
    s->ctx = ctx;
    s->fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (s->fd < 0 || bind(s->fd, (struct sockaddr *)(void *)&a, n) || listen(s->fd, 128) ||
        getsockname(s->fd, (struct sockaddr *)(void *)&a, &n))
        die("raw server");
    s->port = ntohs(a.sin_port);
    snprintf(s->url, sizeof s->url, "http://127.0.0.1:%u", s->port);
    if (pthread_create(&s->thread, NULL, accept_all, s))
        die("thread");
    return s;
}

void raw_server_stop(struct raw_server *s)
{
    atomic_store(&s->stop, true);
    pthread_join(s->thread, NULL);
    for (int i = 0; i < atomic_load(&s->n_conns); i++) {
        pthread_join(s->conns[i]->thread, NULL);
        mem_free(s->conns[i]);
    }
    close(s->fd);
    mem_free(s);
}

const char *raw_server_url(const struct raw_server *s)
{
    return s->url;
}

uint16_t raw_server_port(const struct raw_server *s)
{
    return s->port;
}

int raw_server_requests(const struct raw_server *s)
{
    return atomic_load(&s->n_requests);
}

int raw_server_connections(const struct raw_server *s)
{
    return atomic_load(&s->n_conns);
}

/* ---- answers ----------------------------------------------------------------------------- */

bool raw_send(struct raw_conn *c, const void *bytes, size_t n)
{
    const char *p = bytes;
    while (n && !c->closed) {
        struct pollfd pfd = {.fd = c->fd, .events = POLLOUT};
        if (atomic_load(&c->server->stop))
            return false;
        if (poll(&pfd, 1, 20) <= 0)
            continue;
        ssize_t sent = send(c->fd, p, n, MSG_NOSIGNAL | MSG_DONTWAIT);
        if (sent <= 0) {
            c->closed = true;
            close(c->fd);
            return false;
        }
        p += sent;
        n -= (size_t)sent;
    }
    return !c->closed;
}

bool raw_text(struct raw_conn *c, const char *text)
{
    return raw_send(c, text, strlen(text));
}

void raw_answer_bytes(struct raw_conn *c, int status, const char *content_type, const char *extra,
                      const void *body, size_t n)
{
    char head[1024];
    snprintf(head, sizeof head,
             "HTTP/1.1 %d X\r\nContent-Type: %s\r\nContent-Length: %zu\r\n%s\r\n", status,
             content_type, n, extra ? extra : "");
    if (raw_text(c, head))
        raw_send(c, body, n);
}

void raw_answer(struct raw_conn *c, int status, const char *content_type, const char *extra,
                const char *body)
{
    raw_answer_bytes(c, status, content_type, extra, body, strlen(body));
}

void raw_chunked(struct raw_conn *c, int status, const char *content_type)
{
    char head[256];
    snprintf(head, sizeof head,
             "HTTP/1.1 %d X\r\nContent-Type: %s\r\nTransfer-Encoding: chunked\r\n\r\n", status,
             content_type);
    raw_text(c, head);
}

bool raw_chunk(struct raw_conn *c, const char *text)
{
    char head[32];
    snprintf(head, sizeof head, "%zx\r\n", strlen(text));
    return raw_text(c, head) && raw_text(c, text) && raw_text(c, "\r\n");
}

void raw_close(struct raw_conn *c)
{
    if (c->closed)
        return;
    c->closed = true;
    shutdown(c->fd, SHUT_RDWR);
    close(c->fd);
}

void raw_reset(struct raw_conn *c)
{
    struct linger hard = {.l_onoff = 1, .l_linger = 0};
    if (c->closed)
        return;
    setsockopt(c->fd, SOL_SOCKET, SO_LINGER, &hard, sizeof hard);
    c->closed = true;
    close(c->fd);
}

void raw_wait_gone(struct raw_conn *c)
{
    while (!c->closed && !atomic_load(&c->server->stop)) {
        struct pollfd pfd = {.fd = c->fd, .events = POLLRDHUP};
        if (poll(&pfd, 1, 20) > 0)
            raw_close(c);
    }
}
