/* rest.h - the smallest HTTP client: one request per connection, so that no client's habits are
 * tested along.
 *
 * rest() sends and reads to the end of the connection; chunks and gzip are undone.  rest_open()
 * leaves a watch open. */
#ifndef TESTS_UNIT_APISERVER_REST_H
#define TESTS_UNIT_APISERVER_REST_H

#include <arpa/inet.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>
#include <zlib.h>

#include <cjson/cJSON.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/mem.h"
#include "tests/apiserver/apiserver.h"
#include "tests/support/test.h"

struct rest {
    int status;    /* 0: no answer */
    char type[64]; /* content type, with parameters */
    char retry_after[16], encoding[16];
    struct buf raw, body;
    bool whole;  /* ended as announced */
    cJSON *json; /* NULL when the body is none */
};

struct rest_ask {
    const char *method, *path, *type, *body, *token, *accept, *headers;
};

static inline int rest_dial(struct apiserver *a)
{
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    struct sockaddr_in to = {.sin_family = AF_INET,
                             .sin_port = htons(apiserver_port(a)),
                             .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    if (fd >= 0 && connect(fd, (struct sockaddr *)&to, sizeof to) == 0)
        return fd;
    close(fd);
    return -1;
}

static inline bool rest_send(int fd, const char *p, size_t n)
{
    while (n > 0) {
        ssize_t k = send(fd, p, n, MSG_NOSIGNAL);
        if (k <= 0)
            return false;
        p += k;
        n -= (size_t)k;
    }
    return true;
}

/* Connects and sends; -1 when the server is down. */
static inline int rest_start(struct apiserver *a, const struct rest_ask *q)
{
    int fd = rest_dial(a);
    if (fd < 0)
        return -1;
    struct buf b = buf_init(64 << 20);
    size_t n = q->body ? strlen(q->body) : 0;
    buf_fmt(&b, "%s %s HTTP/1.1\r\nHost: test\r\nConnection: close\r\nContent-Length: %zu\r\n",
            q->method, q->path, n);
    buf_fmt(&b, "Accept: %s\r\n", q->accept ? q->accept : "application/json");
    if (q->type || q->body)
        buf_fmt(&b, "Content-Type: %s\r\n", q->type ? q->type : "application/json");
    if (!q->token || *q->token)
        buf_fmt(&b, "Authorization: Bearer %s\r\n", q->token ? q->token : APISERVER_ADMIN_TOKEN);
    buf_str(&b, q->headers ? q->headers : "");
    buf_str(&b, "\r\n");
    buf_add(&b, q->body ? q->body : "", n);
    rest_send(fd, b.p, b.n);
    buf_fini(&b);
    return fd;
}

/* More bytes into b; false at the end, or after 20 s. */
static inline bool rest_more(int fd, struct buf *b)
{
    struct pollfd p = {.fd = fd, .events = POLLIN};
    if (poll(&p, 1, 20000) <= 0)
        fail_msg("no more bytes within 20 s after: %.300s", b->p);
    char *at = buf_room(b, 65536);
    ssize_t n = recv(fd, at, 65536, 0);
    if (n > 0)
        buf_grew(b, (size_t)n);
    return n > 0;
}

static inline void rest_header(const char *head, const char *name, char *out, size_t n)
{
    const char *at = strcasestr(head, name);
    out[0] = '\0';
    if (at)
        snprintf(out, n, "%.*s", (int)strcspn(at + strlen(name), "\r\n"), at + strlen(name));
}

static inline void rest_unchunk(struct rest *r, const char *p, size_t n)
{
    const char *end = p + n;
    r->whole = false;
    while (p < end) {
        char *after;
        unsigned long k = strtoul(p, &after, 16);
        if (k == 0) {
            r->whole = *p == '0';
            return;
        }
        p = after + 2;
        if (k > (size_t)(end - p))
            k = (size_t)(end - p);
        buf_add(&r->body, p, k);
        p += k + 2;
    }
}

static inline void rest_gunzip(struct rest *r)
{
    struct buf out = buf_init((size_t)1 << 30);
    z_stream z = {.next_in = (unsigned char *)r->body.p, .avail_in = (unsigned)r->body.n};
    assert_int_equal(inflateInit2(&z, 15 + 16), Z_OK);
    int rc = Z_OK;
    while (rc == Z_OK) {
        z.next_out = buf_room(&out, 1 << 20);
        z.avail_out = 1 << 20;
        rc = inflate(&z, Z_NO_FLUSH);
        buf_grew(&out, (1 << 20) - z.avail_out);
    }
    inflateEnd(&z);
    buf_fini(&r->body);
    r->body = out;
}

static inline void rest_parse(struct rest *r)
{
    char length[24], coding[24];
    char *head_end = r->raw.n ? strstr(r->raw.p, "\r\n\r\n") : NULL;
    r->body = buf_init((size_t)1 << 30);
    if (!head_end)
        return;
    *head_end = '\0';
    r->status = (int)strtol(r->raw.p + 9, NULL, 10);
    rest_header(r->raw.p, "content-type: ", r->type, sizeof r->type);
    rest_header(r->raw.p, "retry-after: ", r->retry_after, sizeof r->retry_after);
    rest_header(r->raw.p, "content-encoding: ", r->encoding, sizeof r->encoding);
    rest_header(r->raw.p, "content-length: ", length, sizeof length);
    rest_header(r->raw.p, "transfer-encoding: ", coding, sizeof coding);
    const char *body = head_end + 4;
    size_t n = r->raw.n - (size_t)(body - r->raw.p);
    if (*coding) {
        rest_unchunk(r, body, n);
    } else {
        buf_add(&r->body, body, n);
        r->whole = *length && n == strtoul(length, NULL, 10);
    }
    if (strcmp(r->encoding, "gzip") == 0)
        rest_gunzip(r);
    r->json = r->body.n ? cJSON_ParseWithLength(r->body.p, r->body.n) : NULL;
}

static inline struct rest rest_ask(struct apiserver *a, const struct rest_ask *q)
{
    struct rest r = {.raw = buf_init((size_t)1 << 30)};
    int fd = rest_start(a, q);
    if (fd >= 0) {
        while (rest_more(fd, &r.raw)) {
        }
        close(fd);
    }
    rest_parse(&r);
    return r;
}

static inline struct rest rest(struct apiserver *a, const char *method, const char *path,
                               const char *body)
{
    bool patch = strcmp(method, "PATCH") == 0;
    return rest_ask(a, &(struct rest_ask){.method = method,
                                          .path = path,
                                          .body = body,
                                          .type = patch ? "application/merge-patch+json" : NULL});
}

static inline void rest_fini(struct rest *r)
{
    buf_fini(&r->raw);
    buf_fini(&r->body);
    cJSON_Delete(r->json);
    r->json = NULL;
}

/* "a.b.0.c" in v, or NULL. */
static inline const cJSON *rest_at(const cJSON *v, const char *path)
{
    char part[128];
    while (v && *path) {
        size_t n = strcspn(path, ".");
        snprintf(part, sizeof part, "%.*s", (int)n, path);
        v = cJSON_IsArray(v) ? cJSON_GetArrayItem(v, (int)strtol(part, NULL, 10))
                             : cJSON_GetObjectItemCaseSensitive(v, part);
        path += n + (path[n] == '.');
    }
    return v;
}

static inline const char *rest_text(const struct rest *r, const char *path)
{
    const cJSON *v = rest_at(r->json, path);
    return cJSON_IsString(v) ? v->valuestring : "";
}

static inline double rest_number(const struct rest *r, const char *path)
{
    const cJSON *v = rest_at(r->json, path);
    return cJSON_IsNumber(v) ? v->valuedouble : -1;
}

/* One request whose answer's status is all that counts. */
static inline int rest_status(struct apiserver *a, const char *method, const char *path,
                              const char *body)
{
    struct rest r = rest(a, method, path, body);
    int status = r.status;
    if (getenv("REST_VERBOSE"))
        fprintf(stderr, "%s %s -> %d %.500s\n", method, path, status, r.body.p);
    rest_fini(&r);
    return status;
}

/* ---- watches: lines as they come ---- */

struct rest_watch {
    int fd;
    struct buf raw, text; /* raw: undecoded rest */
    bool head, ended;     /* ended: with the last chunk */
    size_t at;            /* of text: told so far */
};

static inline void rest_watch_decode(struct rest_watch *w)
{
    size_t used = 0;
    if (!w->head) {
        char *end = strstr(w->raw.p, "\r\n\r\n");
        if (!end)
            return;
        if (strncmp(w->raw.p, "HTTP/1.1 200", 12) != 0)
            fail_msg("watch: %.600s", w->raw.p);
        w->head = true;
        used = (size_t)(end + 4 - w->raw.p);
    }
    while (used < w->raw.n) {
        char *after, *p = w->raw.p + used;
        if (!memchr(p, '\n', w->raw.n - used))
            break;
        unsigned long k = strtoul(p, &after, 16);
        size_t head = (size_t)(after + 2 - p);
        if (k == 0) {
            w->ended = true;
            used = w->raw.n;
            break;
        }
        if (used + head + k + 2 > w->raw.n)
            break;
        buf_add(&w->text, p + head, k);
        used += head + k + 2;
    }
    memmove(w->raw.p, w->raw.p + used, w->raw.n - used + 1);
    w->raw.n -= used;
}

/* Returns when the stream is open: what is written from now on is told. */
static inline struct rest_watch rest_watch(struct apiserver *a, const char *path)
{
    struct rest_watch w = {.raw = buf_init((size_t)1 << 30), .text = buf_init((size_t)1 << 30)};
    w.fd = rest_start(a, &(struct rest_ask){.method = "GET", .path = path});
    assert_true(w.fd >= 0);
    while (!w.head && rest_more(w.fd, &w.raw))
        rest_watch_decode(&w);
    return w;
}

/* The next line as JSON (cJSON_Delete), NULL at the end of the stream. */
static inline cJSON *rest_watch_next(struct rest_watch *w)
{
    for (;;) {
        char *nl = w->text.n > w->at ? memchr(w->text.p + w->at, '\n', w->text.n - w->at) : NULL;
        if (nl) {
            cJSON *j = cJSON_ParseWithLength(w->text.p + w->at, (size_t)(nl - w->text.p) - w->at);
            w->at = (size_t)(nl + 1 - w->text.p);
            if (!j)
                return cJSON_CreateString("not JSON");
            return j;
        }
        if (w->ended || !rest_more(w->fd, &w->raw))
            return NULL;
        rest_watch_decode(w);
    }
}

/* Type and name of the next line, "ADDED p1"; "END" at the end. */
static inline const char *rest_watch_tell(struct rest_watch *w)
{
    static char text[256];
    cJSON *j = rest_watch_next(w);
    if (!j)
        return "END";
    const cJSON *type = rest_at(j, "type"), *name = rest_at(j, "object.metadata.name");
    snprintf(text, sizeof text, "%s%s%s", cJSON_IsString(type) ? type->valuestring : "?",
             cJSON_IsString(name) ? " " : "", cJSON_IsString(name) ? name->valuestring : "");
    cJSON_Delete(j);
    return text;
}

static inline void rest_watch_fini(struct rest_watch *w)
{
    close(w->fd);
    buf_fini(&w->raw);
    buf_fini(&w->text);
}

#endif
