/* http.c - the client: requests on one curl multi handle, moved by http_poll().
 *
 * curl's callbacks only store: what a stream received and what ended is put on a ready list, and
 * the callers' functions run from there once curl_multi_perform() has returned.  They may therefore
 * start, cancel and even http_do() other requests; a nested poll leaves the request whose function
 * is running alone. A stream whose reader is slow is paused at HTTP_PENDING_MAX, so a body that
 * expands cannot fill the memory.
 *
 * Deadlines and silences are checked here on the monotonic clock rather than by curl, so that both
 * give the same error and neither has a granularity of a second.
 *
 * curl repeats a request by itself in one case: a kept connection that turns out closed before any
 * byte of an answer. A request may thus reach the server twice; writes carry preconditions. */
#include "net/http_priv.h"

#include <errno.h>
#include <string.h>

#include "base/clock.h"
#include "base/mem.h"

enum { IDLE_HANDLES_MAX = 32 };

struct request {
    struct request *next, **link; /* in client.all */
    struct request *ready_next;
    http_id id;
    struct http_client *client;
    CURL *easy; /* NULL once off the multi handle */
    struct http_body body;
    struct curl_slist *headers;
    struct http_reply reply;
    struct http_headers seen;
    struct buf pending; /* of a stream: received, not yet delivered */
    bool (*data)(void *ctx, const char *p, size_t n);
    void (*done)(void *ctx, enum err_code rc, struct http_reply *reply, const struct err *e);
    void *ctx;
    char *what;                                      /* "GET https://host/path" for messages */
    int64_t start_us, deadline_us, idle_us, last_us; /* monotonic; idle_us a length */
    size_t body_cap;
    bool paused, ready, in_callback, finished;
    enum err_code stop; /* why a curl callback refused to go on */
    enum err_code rc;
    struct err err;
    char curl_error[CURL_ERROR_SIZE];
};

struct http_client {
    CURLM *multi;
    struct request *all;
    struct request *ready_first, **ready_last;
    size_t n_running;
    http_id last_id;
    CURL *idle[IDLE_HANDLES_MAX];
    int n_idle;
};

/* ---- the client -------------------------------------------------------------------------- */

enum err_code http_client_new(struct http_client **out, struct err *e)
{
    *out = NULL;
    if (curl_global_init(CURL_GLOBAL_DEFAULT))
        return err_set(e, ERR_NOMEM, "libcurl does not start");
    struct http_client *c = mem_zero(1, sizeof *c);
    c->ready_last = &c->ready_first;
    c->multi = curl_multi_init();
    if (!c->multi) {
        mem_free(c);
        curl_global_cleanup();
        return err_set(e, ERR_NOMEM, "libcurl does not start");
    }
    curl_multi_setopt(c->multi, CURLMOPT_MAXCONNECTS, 64L);
    *out = c;
    return ERR_OK;
}

static void become_ready(struct request *r)
{
    if (r->ready)
        return;
    r->ready = true;
    r->ready_next = NULL;
    *r->client->ready_last = r;
    r->client->ready_last = &r->ready_next;
}

static struct request *next_ready(struct http_client *c)
{
    struct request *r = c->ready_first;
    if (!r)
        return NULL;
    c->ready_first = r->ready_next;
    if (!c->ready_first)
        c->ready_last = &c->ready_first;
    r->ready = false;
    return r;
}

/* Off the multi handle; the easy handle goes back to the idle ones. */
static void detach(struct request *r)
{
    struct http_client *c = r->client;
    if (!r->easy)
        return;
    curl_multi_remove_handle(c->multi, r->easy);
    if (c->n_idle < IDLE_HANDLES_MAX) {
        curl_easy_reset(r->easy);
        c->idle[c->n_idle++] = r->easy;
    } else {
        curl_easy_cleanup(r->easy);
    }
    r->easy = NULL;
    curl_slist_free_all(r->headers);
    r->headers = NULL;
}

static void fill_reply(struct request *r)
{
    struct http_reply *p = &r->reply;
    long status = 0;
    curl_off_t bytes = 0;
    curl_easy_getinfo(r->easy, CURLINFO_RESPONSE_CODE, &status);
    curl_easy_getinfo(r->easy, CURLINFO_SIZE_DOWNLOAD_T, &bytes);
    p->status = (int)status;
    p->wire_bytes = (int64_t)bytes;
    memcpy(p->content_type, r->seen.content_type, sizeof p->content_type);
    p->retry_after_us = http_headers_retry_us(&r->seen, clock_wall_us());
    p->date_us = r->seen.date_us;
    p->elapsed_us = clock_mono_us() - r->start_us;
}

/* The request is over; its done() runs when the ready list is worked off.  The first end counts. */
static void finish(struct request *r, enum err_code rc)
{
    if (r->finished)
        return;
    r->finished = true;
    r->rc = rc;
    if (r->easy)
        fill_reply(r);
    detach(r);
    become_ready(r);
}

static void request_free(struct request *r)
{
    detach(r);
    *r->link = r->next;
    if (r->next)
        r->next->link = r->link;
    r->client->n_running--;
    http_reply_fini(&r->reply);
    buf_fini(&r->pending);
    mem_free(r->body.p);
    mem_free(r->what);
    mem_free(r);
}

static void call_done(struct request *r)
{
    r->in_callback = true;
    if (r->done)
        r->done(r->ctx, r->rc, &r->reply, &r->err);
    request_free(r);
}

/* What a stream received, then its end.  Returns the number of callbacks made. */
static int deliver(struct request *r)
{
    int n_calls = 0;
    while (r->pending.n && r->data && !(r->finished && r->rc == ERR_INTERRUPTED)) {
        struct buf taken = r->pending;
        r->pending = buf_init(taken.cap);
        r->in_callback = true;
        bool more = r->data(r->ctx, taken.p, taken.n);
        r->in_callback = false;
        buf_fini(&taken);
        n_calls++;
        if (!more) {
            buf_clear(&r->pending);
            r->finished =
                false; /* the reader's word counts, even when the stream ended meanwhile */
            finish(r, err_set(&r->err, ERR_INTERRUPTED, "%s: ended by its reader", r->what));
        } else if (r->paused && r->easy) {
            r->paused = false;
            curl_easy_pause(r->easy, CURLPAUSE_CONT); /* may call on_body, which appends */
        }
    }
    if (!r->finished || r->ready) /* ready: it ended just now and waits for its turn */
        return n_calls;
    call_done(r);
    return n_calls + 1;
}

static int deliver_all(struct http_client *c)
{
    int n_calls = 0;
    struct request *held = NULL;
    for (struct request *r; (r = next_ready(c));) {
        if (!r->in_callback) {
            n_calls += deliver(r);
            continue;
        }
        r->ready_next = held; /* its function is running further up this stack */
        held = r;
    }
    while (held) {
        struct request *r = held;
        held = r->ready_next;
        become_ready(r);
    }
    return n_calls;
}

void http_client_free(struct http_client *c)
{
    if (!c)
        return;
    while (c->all)
        http_cancel(c, c->all->id);
    while (c->n_idle)
        curl_easy_cleanup(c->idle[--c->n_idle]);
    curl_multi_cleanup(c->multi);
    mem_free(c);
    curl_global_cleanup();
}

void http_wake(struct http_client *c)
{
    curl_multi_wakeup(c->multi);
}

size_t http_running(const struct http_client *c)
{
    return c->n_running;
}

/* ---- curl's callbacks -------------------------------------------------------------------- */

static size_t on_header(char *p, size_t size, size_t n, void *ctx)
{
    struct request *r = ctx;
    size_t bytes = size * n;
    r->last_us = clock_mono_us();
    r->seen.n_bytes += bytes;
    if (r->seen.n_bytes > HTTP_HEADERS_MAX) {
        r->stop = err_set(&r->err, ERR_LIMIT, "%s: headers of more than %d bytes", r->what,
                          HTTP_HEADERS_MAX);
        return 0;
    }
    if (bytes >= 5 &&
        memcmp(p, "HTTP/", 5) == 0) /* also after a 1xx: what came before does not count */
        http_headers_clear(&r->seen);
    else if (p[0] == '\r' || p[0] == '\n')
        r->seen.complete = true;
    else
        http_headers_line(&r->seen, p, bytes);
    return bytes;
}

static bool is_streamed(const struct request *r)
{
    long status = 0;
    curl_easy_getinfo(r->easy, CURLINFO_RESPONSE_CODE, &status);
    return r->data && status >= 200 && status < 300;
}

/* For curl: nothing was taken. */
static size_t no_memory(struct request *r)
{
    r->stop = err_set(&r->err, ERR_NOMEM, "%s: out of memory", r->what);
    return 0;
}

static size_t on_body(char *p, size_t size, size_t n, void *ctx)
{
    struct request *r = ctx;
    size_t bytes = size * n;
    r->last_us = clock_mono_us();
    if (is_streamed(r)) {
        if (r->pending.n && r->pending.n + bytes > HTTP_PENDING_MAX) {
            r->paused = true;
            return CURL_WRITEFUNC_PAUSE;
        }
        buf_add(&r->pending, p, bytes);
        if (r->pending.failed)
            return no_memory(r);
        become_ready(r);
        return bytes;
    }
    buf_add(&r->reply.body, p, bytes);
    if (r->reply.body.no_memory)
        return no_memory(r);
    if (r->reply.body.failed) {
        r->stop = err_set(&r->err, ERR_LIMIT, "%s: the answer is larger than %zu bytes", r->what,
                          r->body_cap);
        return 0;
    }
    return bytes;
}

/* ---- start ------------------------------------------------------------------------------- */

/* For messages: no query, no userinfo (http_server_new refuses it). */
static char *describe(const struct http_server *s, const struct http_request *q)
{
    struct buf b = buf_init(1024);
    size_t n = strcspn(q->path, "?");
    buf_fmt(&b, "%s %.300s%.*s", http_method_name(q->method), s->url, n > 300 ? 300 : (int)n,
            q->path);
    return buf_take(&b);
}

static void set_callbacks(struct request *r)
{
    curl_easy_setopt(r->easy, CURLOPT_PRIVATE, r);
    curl_easy_setopt(r->easy, CURLOPT_ERRORBUFFER, r->curl_error);
    curl_easy_setopt(r->easy, CURLOPT_HEADERFUNCTION, on_header);
    curl_easy_setopt(r->easy, CURLOPT_HEADERDATA, r);
    curl_easy_setopt(r->easy, CURLOPT_WRITEFUNCTION, on_body);
    curl_easy_setopt(r->easy, CURLOPT_WRITEDATA, r);
}

static struct request *request_new(struct http_client *c, struct http_server *s,
                                   const struct http_request *q)
{
    struct request *r = mem_zero(1, sizeof *r);
    r->client = c;
    r->body_cap = q->body_cap ? q->body_cap : HTTP_BODY_CAP;
    r->reply.body = buf_init(r->body_cap);
    r->pending = buf_init(HTTP_PENDING_MAX + CURL_MAX_WRITE_SIZE);
    r->data = q->data;
    r->done = q->done;
    r->ctx = q->ctx;
    r->what = describe(s, q);
    r->start_us = r->last_us = clock_mono_us();
    int64_t deadline_us = q->deadline_us > 0 ? q->deadline_us : 30 * US_PER_S;
    r->deadline_us = deadline_us > INT64_MAX - r->start_us ? INT64_MAX : r->start_us + deadline_us;
    r->idle_us = q->data ? q->idle_us : 0;
    http_headers_clear(&r->seen);
    r->next = c->all;
    r->link = &c->all;
    if (r->next)
        r->next->link = &r->next;
    c->all = r;
    c->n_running++;
    return r;
}

enum err_code http_start(struct http_client *c, struct http_server *s, const struct http_request *q,
                         http_id *id, struct err *e)
{
    if (!q->path)
        return err_set(e, ERR_INVAL, "a request without a path");
    struct request *r = request_new(c, s, q);
    r->easy = c->n_idle ? c->idle[--c->n_idle] : curl_easy_init();
    enum err_code rc = r->easy ? http_setup(r->easy, s, q, &r->body, &r->headers, e)
                               : err_set(e, ERR_NOMEM, "%s: out of memory", r->what);
    if (!rc) {
        set_callbacks(r);
        CURLMcode mrc = curl_multi_add_handle(c->multi, r->easy);
        if (mrc)
            rc = err_set(e, ERR_NOMEM, "%s: %s", r->what, curl_multi_strerror(mrc));
    }
    if (rc) {
        request_free(r);
        return rc;
    }
    r->id = ++c->last_id;
    if (id)
        *id = r->id;
    return ERR_OK;
}

void http_cancel(struct http_client *c, http_id id)
{
    struct request *r = c->all;
    while (r && r->id != id)
        r = r->next;
    if (!r || id == 0)
        return;
    buf_clear(&r->pending);
    r->rc = err_set(&r->err, ERR_INTERRUPTED, "%s: cancelled", r->what);
    finish(r, ERR_INTERRUPTED);
    if (r->in_callback)
        return; /* deliver() goes on when the running function returns */
    struct request **link = &c->ready_first;
    while (*link && *link != r)
        link = &(*link)->ready_next;
    if (*link) {
        *link = r->ready_next;
        if (c->ready_last == &r->ready_next)
            c->ready_last = link;
        r->ready = false;
    }
    call_done(r);
}

/* ---- poll -------------------------------------------------------------------------------- */

static enum err_code end_code(struct request *r, CURLcode code)
{
    if (code == CURLE_OK && r->seen.complete)
        return ERR_OK;
    if (code ==
        CURLE_OK) /* curl takes a connection that ends within the headers for an empty answer */
        return err_set(&r->err, ERR_IO, "%s: the connection ended within the headers", r->what);
    if (r->stop)
        return r->stop;
    const char *text = r->curl_error[0] ? r->curl_error : curl_easy_strerror(code);
    if (code == CURLE_OPERATION_TIMEDOUT) { /* of connecting: the rest is ours */
        err_set(&r->err, ERR_IO, "%s: %s", r->what, text);
        r->err.sys = ETIMEDOUT;
        return ERR_IO;
    }
    return err_set(&r->err, ERR_IO, "%s: %s", r->what, text);
}

static void collect(struct http_client *c)
{
    int left;
    for (CURLMsg *m; (m = curl_multi_info_read(c->multi, &left));) {
        struct request *r = NULL;
        if (m->msg != CURLMSG_DONE || curl_easy_getinfo(m->easy_handle, CURLINFO_PRIVATE, &r) || !r)
            continue;
        finish(r, end_code(r, m->data.result));
    }
}

static int64_t due_us(const struct request *r)
{
    int64_t idle_at_us = r->idle_us > 0 && !r->paused ? r->last_us + r->idle_us : INT64_MAX;
    return idle_at_us < r->deadline_us ? idle_at_us : r->deadline_us;
}

static void expire(struct http_client *c)
{
    int64_t now_us = clock_mono_us();
    for (struct request *r = c->all; r; r = r->next) {
        if (r->finished || now_us < due_us(r))
            continue;
        bool late = now_us >= r->deadline_us;
        int64_t after_us = late ? r->deadline_us - r->start_us : r->idle_us;
        err_set(&r->err, ERR_IO,
                late ? "%s: no complete answer within %.3g s" : "%s: silent for %.3g s", r->what,
                (double)after_us / (double)US_PER_S);
        r->err.sys = ETIMEDOUT;
        finish(r, ERR_IO);
    }
}

static void move(struct http_client *c)
{
    int running;
    curl_multi_perform(c->multi, &running);
    collect(c);
    expire(c);
}

static int wait_ms(const struct http_client *c, int64_t wait_us)
{
    int64_t now_us = clock_mono_us();
    if (wait_us > US_PER_HOUR)
        wait_us = US_PER_HOUR;
    for (const struct request *r = c->all; r; r = r->next) {
        int64_t left_us = due_us(r) - now_us;
        if (!r->finished && left_us < wait_us)
            wait_us = left_us;
    }
    return wait_us <= 0 ? 0 : (int)((wait_us + US_PER_MS - 1) / US_PER_MS);
}

int http_poll(struct http_client *c, int64_t wait_us)
{
    move(c);
    int n_calls = deliver_all(c);
    int ms = n_calls ? 0 : wait_ms(c, wait_us);
    if (ms == 0)
        return n_calls;
    curl_multi_poll(c->multi, NULL, 0, ms, NULL);
    move(c);
    return n_calls + deliver_all(c);
}

/* ---- one request to its end -------------------------------------------------------------- */

struct waiting {
    struct http_reply *reply;
    struct err *e;
    enum err_code rc;
    bool over;
    bool (*data)(void *ctx, const char *p, size_t n);
    void *ctx;
};

static bool forward_data(void *ctx, const char *p, size_t n)
{
    struct waiting *w = ctx;
    return w->data(w->ctx, p, n);
}

static void take_reply(void *ctx, enum err_code rc, struct http_reply *reply, const struct err *e)
{
    struct waiting *w = ctx;
    *w->reply = *reply;
    reply->body = buf_init(0); /* moved */
    w->rc = rc;
    if (rc && w->e)
        *w->e = *e;
    w->over = true;
}

static void reply_init(struct http_reply *reply)
{
    *reply = (struct http_reply){.body = buf_init(0), .retry_after_us = -1, .date_us = -1};
}

enum err_code http_do(struct http_client *c, struct http_server *s, const struct http_request *q,
                      struct http_reply *reply, struct err *e)
{
    struct waiting w = {.reply = reply, .e = e, .data = q->data, .ctx = q->ctx};
    struct http_request mine = *q;
    mine.data = q->data ? forward_data : NULL;
    mine.done = take_reply;
    mine.ctx = &w;
    reply_init(reply);
    enum err_code rc = http_start(c, s, &mine, NULL, e);
    while (!rc && !w.over)
        http_poll(c, US_PER_S);
    return rc ? rc : w.rc;
}

void http_reply_fini(struct http_reply *reply)
{
    buf_fini(&reply->body);
}
