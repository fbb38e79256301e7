#include "prom/client.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/mem.h"
#include "base/rng.h"

enum { TEXT_CAP = 1 << 20, ERROR_BODY_CAP = 64 * 1024 };
static const int64_t GRACE_US = 1 * US_PER_S; /* for the server's own time-out to reach us */
static const int64_t RETRY_AFTER_MAX_US = 60 * US_PER_S;

/* A query from start to done; recycled with its buffers and parser. */
struct call {
    struct prom *prom;
    prom_id id;
    struct prom_query q; /* query text is not kept: it is in `form` */
    struct buf form;     /* query=...&time=... */
    struct buf path;
    struct prom_parser *parser;
    http_id http;                     /* 0 while it waits for the next try */
    int64_t start_us, due_us, try_us; /* monotonic */
    bool cancelled;
    bool parse_failed; /* the transfer was ended by us; parse_err says why */
    struct err parse_err;
    struct prom_info info;
    struct call *next;
};

struct prom {
    struct http_client *http;
    struct http_server *server;
    struct prom_opts o;
    struct rng rng;
    prom_id last_id;
    struct call *running, *spare;
    size_t n_running;
};

struct prom_opts prom_opts_default(void)
{
    return (struct prom_opts){.timeout_us = 30 * US_PER_S,
                              .attempts = 4,
                              .backoff_us = 250 * US_PER_MS,
                              .backoff_max_us = 10 * US_PER_S,
                              .form_over = 1500,
                              .caps = prom_caps_default(),
                              .seed = 1};
}

void prom_new(struct http_client *http, struct http_server *server, const struct prom_opts *o,
              struct prom **out)
{
    struct prom *p = mem_zero(1, sizeof *p);
    p->http = http;
    p->server = server;
    p->o = *o;
    p->rng = rng_stream(o->seed, "prom.retry");
    *out = p;
}

const char *prom_url(const struct prom *p)
{
    return http_server_url(p->server);
}

size_t prom_running(const struct prom *p)
{
    return p->n_running;
}

/* ---- calls --------------------------------------------------------------------------------------
 */

static struct call *call_take(struct prom *p)
{
    struct call *c = p->spare;
    if (c) {
        p->spare = c->next;
    } else {
        c = mem_zero(1, sizeof *c);
        c->form = buf_init(TEXT_CAP);
        c->path = buf_init(TEXT_CAP);
        c->parser = prom_parser_new();
    }
    c->prom = p;
    c->id = ++p->last_id;
    c->next = p->running;
    p->running = c;
    p->n_running++;
    return c;
}

static void call_give(struct prom *p, struct call *c)
{
    c->next = p->spare;
    p->spare = c;
}

static void call_unlink(struct prom *p, struct call *c)
{
    struct call **at = &p->running;
    while (*at != c)
        at = &(*at)->next;
    *at = c->next;
    p->n_running--;
}

static void call_free(struct call *c)
{
    buf_fini(&c->form);
    buf_fini(&c->path);
    prom_parser_free(c->parser);
    mem_free(c);
}

static void finish(struct call *c, enum err_code rc, const struct err *e)
{
    struct prom *p = c->prom;
    call_unlink(p, c);
    c->info.elapsed_us = clock_mono_us() - c->start_us;
    c->q.done(c->q.ctx, rc, &c->info, e);
    call_give(p, c);
}

/* ---- one try ------------------------------------------------------------------------------------
 */

static bool on_data(void *ctx, const char *bytes, size_t n)
{
    struct call *c = ctx;
    int64_t t0 = clock_mono_us();
    c->info.body_bytes += (int64_t)n;
    c->parse_failed = prom_parser_feed(c->parser, bytes, n, &c->parse_err) != ERR_OK;
    c->info.parse_us += clock_mono_us() - t0;
    return !c->parse_failed;
}

static void on_done(void *ctx, enum err_code rc, struct http_reply *reply, const struct err *e);

static int64_t deadline_left(const struct call *c, int64_t now_us)
{
    int64_t left = c->start_us + c->q.deadline_us - now_us;
    return c->q.deadline_us <= 0 ? INT64_MAX : left > US_PER_MS ? left : US_PER_MS;
}

static enum err_code start_try(struct call *c, struct err *e)
{
    struct prom *p = c->prom;
    bool form = c->form.n > p->o.form_over;
    int64_t now = clock_mono_us(), left = deadline_left(c, now), most = c->q.timeout_us + GRACE_US;
    struct http_request r = {
        .method = form ? HTTP_POST : HTTP_GET,
        .path = c->path.p,
        .body = form ? c->form.p : NULL,
        .n_body = form ? c->form.n : 0,
        .content_type = form ? "application/x-www-form-urlencoded" : NULL,
        .deadline_us = most < left ? most : left,
        .body_cap = ERROR_BODY_CAP,
        .data = on_data,
        .done = on_done,
        .ctx = c,
    };
    prom_parser_begin(c->parser, &c->q.caps, c->q.result);
    c->parse_failed = false;
    c->info.tries++;
    c->info.status = 0;
    c->info.sent_us = clock_wall_us();
    c->try_us = now;
    return http_start(p->http, p->server, &r, &c->http, e);
}

/* A failure that may pass: again later, if tries and time are left. */
static void try_later(struct call *c, int64_t retry_after_us, enum err_code rc, const struct err *e)
{
    struct prom *p = c->prom;
    int64_t now = clock_mono_us();
    int64_t wait =
        http_backoff_us(c->info.tries, p->o.backoff_us, p->o.backoff_max_us, rng_unit(&p->rng));
    if (retry_after_us > wait)
        wait = retry_after_us < RETRY_AFTER_MAX_US ? retry_after_us : RETRY_AFTER_MAX_US;
    if (c->info.tries >= c->q.attempts || wait >= deadline_left(c, now)) {
        finish(c, rc, e);
        return;
    }
    c->http = 0;
    c->due_us = now + wait;
}

/* ---- answers ------------------------------------------------------------------------------------
 */

static bool status_passes(int status)
{
    return status == 408 || status == 429 || status == 500 || status == 502 || status == 503 ||
           status == 504;
}

/* Which of our codes the server's complaint is.  The texts are those of promql.ErrTooManySamples and of
 * api/v1 (web/api/v1/api.go). */
static enum err_code code_of(int status, const struct prom_result *r)
{
    if (strstr(r->error_text, "too many samples") ||
        strstr(r->error_text, "exceeded maximum resolution"))
        return ERR_LIMIT;
    if (strcmp(r->error_type, "bad_data") == 0 || strcmp(r->error_type, "execution") == 0)
        return ERR_INVAL;
    if (status == 400 || status == 422)
        return ERR_INVAL;
    return status == 413 ? ERR_LIMIT : ERR_IO;
}

/* The first line of a body that is no JSON, printable. */
static void plain_text(const struct http_reply *reply, char *out, size_t size)
{
    size_t n = strcspn(reply->body.p, "\r\n");
    (void)snprintf(out, size, "%.*s", (int)(n < 120 ? n : 120), reply->body.p);
    for (char *p = out; *p; p++)
        if ((unsigned char)*p < 0x20 || (unsigned char)*p >= 0x7f)
            *p = '?';
}

static void refused(struct call *c, const struct http_reply *reply)
{
    struct prom_result *r = c->q.result;
    struct err e = {0};
    char text[128] = "";
    bool json = r->failed;
    if (!json) /* the body was collected, not streamed */
        json =
            prom_result_parse(reply->body.p, reply->body.n, &c->prom->o.caps, r, NULL) == ERR_OK &&
            r->failed;
    if (!json) {
        prom_result_clear(r);
        plain_text(reply, text, sizeof text);
    }
    enum err_code rc = code_of(c->info.status, r);
    const char *url = prom_url(c->prom);
    if (json)
        (void)err_set(&e, rc, "%s: HTTP %d, %s: %s", url, c->info.status, r->error_type,
                      r->error_text);
    else
        (void)err_set(&e, rc, "%s: HTTP %d%s%s", url, c->info.status, text[0] ? ": " : "", text);
    bool timeout = strcmp(r->error_type, "timeout") == 0;
    if (timeout || c->info.status == 504)
        e.sys = ETIMEDOUT;
    /* The same query would take as long again. */
    c->info.permanent =
        timeout || rc == ERR_LIMIT || rc == ERR_INVAL || !status_passes(c->info.status);
    if (c->info.permanent)
        finish(c, rc, &e);
    else
        try_later(c, reply->retry_after_us, rc, &e);
}

static void answered(struct call *c, const struct http_reply *reply)
{
    struct err e = {0};
    if (c->info.status < 200 || c->info.status > 299) {
        refused(c, reply);
        return;
    }
    enum err_code rc = prom_parser_end(c->parser, &e);
    if (rc) { /* it began well and stopped: most likely cut off on the way */
        (void)err_wrap(&e, "%s", prom_url(c->prom));
        try_later(c, -1, rc, &e);
    } else if (c->q.result->failed) {
        refused(c, reply);
    } else {
        finish(c, ERR_OK, NULL);
    }
}

static void on_done(void *ctx, enum err_code rc, struct http_reply *reply, const struct err *e)
{
    struct call *c = ctx;
    int64_t now = clock_mono_us();
    c->http = 0;
    c->info.status = reply->status;
    c->info.date_us = reply->date_us;
    c->info.wire_bytes += reply->wire_bytes;
    c->info.last_us = now - c->try_us;
    c->info.received_us = clock_wall_us();
    if (c->cancelled) {
        finish(c, ERR_INTERRUPTED, e);
    } else if (c->parse_failed) {
        struct err mine = c->parse_err;
        (void)err_wrap(&mine, "%s", prom_url(c->prom));
        c->info.permanent = true;
        finish(c, mine.code, &mine);
    } else if (rc == ERR_OK) {
        answered(c, reply);
    } else if (rc == ERR_IO && !(e->sys == ETIMEDOUT && c->info.last_us >= c->q.timeout_us)) {
        try_later(c, -1, rc, e); /* but a query that took all its time would take it again */
    } else {
        finish(c, rc, e);
    }
}

/* ---- starting -----------------------------------------------------------------------------------
 */

static void add_time(struct buf *b, const char *key, int64_t us)
{
    const char *sign = us < 0 ? "-" : "";
    uint64_t v = us < 0 ? 0 - (uint64_t)us : (uint64_t)us;
    buf_fmt(b, "&%s=%s%" PRIu64 ".%06" PRIu64, key, sign, v / 1000000, v % 1000000);
}

static enum err_code write_request(struct call *c, const struct prom_query *q, struct err *e)
{
    bool range = q->step_us > 0;
    const char *path = range ? "/api/v1/query_range" : "/api/v1/query";
    buf_clear(&c->form);
    buf_clear(&c->path);
    buf_str(&c->form, "query=");
    http_escape(&c->form, q->query);
    if (range) {
        add_time(&c->form, "start", q->start_us);
        add_time(&c->form, "end", q->end_us);
        add_time(&c->form, "step", q->step_us);
    } else if (q->time_us) {
        add_time(&c->form, "time", q->time_us);
    }
    add_time(&c->form, "timeout", c->q.timeout_us);
    buf_str(&c->path, path);
    if (c->form.n <= c->prom->o.form_over) {
        buf_char(&c->path, '?');
        buf_add(&c->path, c->form.p, c->form.n);
    }
    enum err_code rc = buf_check(&c->form, e);
    return rc ? err_wrap(e, "query") : buf_check(&c->path, e);
}

static enum err_code check_query(const struct prom_query *q, struct err *e)
{
    if (!q->query || !q->query[0])
        return err_set(e, ERR_INVAL, "an empty query");
    if (q->step_us < 0 || (q->step_us > 0 && q->end_us < q->start_us))
        return err_set(e, ERR_INVAL, "a range that ends before it starts");
    if (q->step_us > 0 && (q->end_us - q->start_us) / q->step_us >= PROM_POINTS_MAX)
        return err_set(e, ERR_LIMIT, "a range of more than %d points", PROM_POINTS_MAX);
    return ERR_OK;
}

enum err_code prom_start(struct prom *p, const struct prom_query *q, prom_id *id, struct err *e)
{
    *id = 0;
    enum err_code rc = check_query(q, e);
    if (rc)
        return rc;
    struct call *c = call_take(p);
    c->q = *q;
    c->q.query = NULL;
    c->q.timeout_us = q->timeout_us > 0 ? q->timeout_us : p->o.timeout_us;
    c->q.caps = q->caps.bytes ? q->caps : p->o.caps;
    c->q.attempts = q->attempts > 0 ? q->attempts : p->o.attempts;
    c->info = (struct prom_info){.date_us = -1};
    c->cancelled = false;
    c->http = 0;
    c->start_us = clock_mono_us();
    rc = write_request(c, q, e);
    if (!rc)
        rc = start_try(c, e);
    if (rc) {
        call_unlink(p, c);
        call_give(p, c);
        return rc;
    }
    *id = c->id;
    return ERR_OK;
}

static void cancel(struct call *c)
{
    struct err e = {0};
    c->cancelled = true;
    if (c->http) {
        http_cancel(c->prom->http, c->http); /* ends in on_done */
    } else {
        (void)err_set(&e, ERR_INTERRUPTED, "cancelled");
        finish(c, ERR_INTERRUPTED, &e);
    }
}

void prom_cancel(struct prom *p, prom_id id)
{
    for (struct call *c = p->running; c; c = c->next)
        if (c->id == id && !c->cancelled) {
            cancel(c);
            return;
        }
}

void prom_free(struct prom *p)
{
    if (!p)
        return;
    while (p->running)
        cancel(p->running);
    while (p->spare) {
        struct call *c = p->spare;
        p->spare = c->next;
        call_free(c);
    }
    mem_free(p);
}

/* ---- retries ------------------------------------------------------------------------------------
 */

static struct call *first_due(struct prom *p, int64_t now, int64_t *next_us)
{
    *next_us = INT64_MAX;
    for (struct call *c = p->running; c; c = c->next) {
        if (c->http || c->cancelled)
            continue;
        if (c->due_us <= now)
            return c;
        *next_us = c->due_us - now < *next_us ? c->due_us - now : *next_us;
    }
    return NULL;
}

int64_t prom_tick(struct prom *p)
{
    int64_t next;
    struct call *c;
    while ((c = first_due(p, clock_mono_us(), &next))) {
        struct err e = {0};
        enum err_code rc = start_try(c, &e);
        if (rc)
            finish(c, rc, &e);
    }
    return next;
}

/* ---- waiting for one ----------------------------------------------------------------------------
 */

struct waiter {
    bool done;
    enum err_code rc;
    struct prom_info info;
    struct err err;
};

static void on_waited(void *ctx, enum err_code rc, const struct prom_info *info,
                      const struct err *e)
{
    struct waiter *w = ctx;
    w->done = true;
    w->rc = rc;
    w->info = *info;
    if (rc)
        w->err = *e;
}

enum err_code prom_do(struct prom *p, const struct prom_query *q, struct prom_info *info,
                      struct err *e)
{
    struct waiter w = {0};
    struct prom_query mine = *q;
    prom_id id;
    mine.done = on_waited;
    mine.ctx = &w;
    enum err_code rc = prom_start(p, &mine, &id, e);
    if (rc)
        return rc;
    while (!w.done) {
        int64_t wait = prom_tick(p);
        if (!w.done)
            (void)http_poll(p->http, wait < US_PER_S ? wait : US_PER_S);
    }
    if (info)
        *info = w.info;
    if (w.rc && e)
        *e = w.err;
    return w.rc;
}

/* ---- pieces of a range --------------------------------------------------------------------------
 */

int64_t prom_align(int64_t t_us, int64_t step_us)
{
    int64_t rest = t_us % step_us;
    return t_us - rest - (rest < 0 ? step_us : 0);
}

struct prom_chunks prom_chunks(int64_t start_us, int64_t end_us, int64_t step_us, int64_t points)
{
    ASSERT(step_us > 0 && points > 0 && points <= PROM_POINTS_MAX);
    return (struct prom_chunks){
        .at_us = start_us, .end_us = end_us, .step_us = step_us, .points = points};
}

bool prom_chunks_next(struct prom_chunks *c, int64_t *first_us, int64_t *last_us)
{
    if (c->at_us > c->end_us)
        return false;
    int64_t length = c->points * c->step_us;
    int64_t next = prom_align(c->at_us, length) + length;
    *first_us = c->at_us;
    *last_us = next - c->step_us < c->end_us ? next - c->step_us : c->end_us;
    c->at_us = next;
    return true;
}
