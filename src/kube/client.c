/* client.c - calls: exchanges with retries inside one deadline; timers; the loop that moves both.
 *
 * A call lives from kube_start() until its done() returned.  It is either in an exchange or waiting
 * for its timer, never both.  kube_do() is a call whose done() stores the reply. */
#include "kube/client_priv.h"

#include <assert.h>
#include <string.h>

#include "base/clock.h"
#include "base/mem.h"

enum { CREDENTIALS_MS = 10 }; /* between looks whether credentials are there */

struct kube_call_run {
    struct kube_call_run *next, **link;
    struct kube *k;
    kube_id id;
    struct kube_call call; /* its path and body point to the next two */
    char *path, *body;
    int64_t start_us, until_us; /* monotonic */
    int attempts;
    bool renewed; /* credentials, after a 401 */
    struct kube_exchange *exchange;
    struct kube_timer timer;
    struct kube_reply reply;
    struct err last; /* of the last attempt */
    enum err_code last_rc;
};

struct kube_opts kube_opts_default(void)
{
    return (struct kube_opts){.deadline_us = 10 * US_PER_S,
                              .attempts = 4,
                              .backoff_us = 100 * US_PER_MS,
                              .backoff_max_us = 5 * US_PER_S,
                              .absent_us = 5 * US_PER_S,
                              .discover_us = 10 * US_PER_MIN,
                              .renew_us = 5 * US_PER_S,
                              .seed = 1};
}

enum err_code kube_new(const struct kube_config *config, struct http_client *client,
                       const struct kube_opts *o, struct kube **out, struct err *e)
{
    struct kube *k = mem_zero(1, sizeof *k);
    k->config = config;
    k->http = client;
    k->o = *o;
    k->rng = rng_stream(o->seed, "kube.jitter");
    k->stats.skew_us = INT64_MIN;
    enum err_code rc = kube_server_open(k, e);
    if (rc) {
        mem_free(k);
        k = NULL;
    }
    *out = k;
    return rc;
}

void kube_free(struct kube *k)
{
    if (!k)
        return;
    while (k->calls)
        kube_cancel(k, k->calls->id);
    kube_server_close(k);
    kube_discovery_free(k->discovery);
    mem_free(k);
}

bool kube_read_only(const struct kube *k)
{
    return k->o.read_only;
}

const char *kube_url(const struct kube *k)
{
    return http_server_url(k->server->http);
}

const char *kube_namespace(const struct kube *k)
{
    return k->config->ns;
}

size_t kube_running(const struct kube *k)
{
    return k->n_calls;
}

const struct kube_stats *kube_stats(const struct kube *k)
{
    return &k->stats;
}

double kube_random(struct kube *k)
{
    return rng_unit(&k->rng);
}

/* ---- timers ------------------------------------------------------------------------------ */

void kube_timer_stop(struct kube_timer *t)
{
    if (!t->link)
        return;
    *t->link = t->next;
    if (t->next)
        t->next->link = t->link;
    t->link = NULL;
}

void kube_timer_set(struct kube *k, struct kube_timer *t, int64_t delay_us, void (*fire)(void *ctx),
                    void *ctx)
{
    kube_timer_stop(t);
    int64_t now_us = clock_mono_us();
    *t =
        (struct kube_timer){.next = k->timers,
                            .link = &k->timers,
                            .fire = fire,
                            .ctx = ctx,
                            .at_us = delay_us > INT64_MAX - now_us ? INT64_MAX : now_us + delay_us};
    if (t->next)
        t->next->link = &t->next;
    k->timers = t;
}

static struct kube_timer *first_timer(const struct kube *k)
{
    struct kube_timer *first = NULL;
    for (struct kube_timer *t = k->timers; t; t = t->next) {
        if (!first || t->at_us < first->at_us)
            first = t;
    }
    return first;
}

void kube_tick(struct kube *k)
{
    int64_t now_us = clock_mono_us(); /* fixed: a timer set from a timer waits for the next turn */
    for (struct kube_timer *t; (t = first_timer(k)) && t->at_us <= now_us;) {
        kube_timer_stop(t);
        k->n_callbacks++;
        t->fire(t->ctx);
    }
}

int64_t kube_next_us(const struct kube *k)
{
    const struct kube_timer *t = first_timer(k);
    if (!t)
        return INT64_MAX;
    int64_t left_us = t->at_us - clock_mono_us();
    return left_us > 0 ? left_us : 0;
}

int kube_poll(struct kube *k, int64_t wait_us)
{
    k->n_callbacks = 0;
    kube_tick(k);
    int64_t next_us = kube_next_us(k);
    int n = http_poll(k->http, k->n_callbacks ? 0 : next_us < wait_us ? next_us : wait_us);
    kube_tick(k);
    return n + k->n_callbacks;
}

/* ---- one call ---------------------------------------------------------------------------- */

static bool same_twice(enum kube_verb v)
{
    return v != KUBE_CREATE && v != KUBE_PATCH_JSON;
}

static void attempt(void *ctx);

static void run_free(struct kube_call_run *r)
{
    kube_timer_stop(&r->timer);
    *r->link = r->next;
    if (r->next)
        r->next->link = r->link;
    r->k->n_calls--;
    kube_reply_fini(&r->reply);
    mem_free(r->path);
    mem_free(r->body);
    mem_free(r);
}

static void finish(struct kube_call_run *r)
{
    r->reply.attempts = r->attempts;
    r->reply.elapsed_us = clock_mono_us() - r->start_us;
    if (r->call.done)
        r->call.done(r->call.ctx, r->last_rc, &r->reply, &r->last);
    run_free(r);
}

/* How long to wait before the next attempt, or -1 for none. */
static int64_t retry_wait_us(struct kube_call_run *r, enum err_code transport)
{
    const struct kube_status *s = &r->reply.status;
    const struct kube_opts *o = &r->k->o;
    bool unauthorized = !transport && kube_is_unauthorized(s) && kube_renew_credentials(r->k);
    if (r->call.once || r->attempts >= o->attempts || transport == ERR_INTERRUPTED ||
        transport == ERR_LIMIT)
        return -1;
    if (unauthorized && !r->renewed) {
        r->renewed = true;
        return 0;
    }
    bool again =
        kube_is_throttled(s) || (same_twice(r->call.verb) && (transport || kube_is_transient(s)));
    if (!again)
        return -1;
    int64_t wait_us =
        http_backoff_us(r->attempts, o->backoff_us, o->backoff_max_us, kube_random(r->k));
    if (s->retry_after_us > 0)
        wait_us += s->retry_after_us;
    return wait_us < r->until_us - clock_mono_us() ? wait_us : -1;
}

static void on_reply(void *ctx, enum err_code rc, struct http_reply *reply, const struct err *e)
{
    struct kube_call_run *r = ctx;
    r->exchange = NULL;
    kube_reply_fini(&r->reply);
    kube_status_decode(rc ? 0 : reply->status, reply->content_type, reply->body.p, reply->body.n,
                       &r->reply.status);
    if (reply->retry_after_us >= 0)
        r->reply.status.retry_after_us = reply->retry_after_us;
    r->reply.status.date_us = reply->date_us;
    r->reply.body = reply->body;
    reply->body = buf_init(0); /* moved */
    r->last_rc = rc;
    if (rc)
        r->last = *e;
    else if (!kube_is_ok(&r->reply.status))
        r->last_rc = kube_status_error(&r->reply.status, r->call.verb, r->call.path, &r->last);
    int64_t wait_us = r->last_rc ? retry_wait_us(r, rc) : -1;
    if (wait_us < 0) {
        finish(r);
        return;
    }
    r->k->stats.retries++;
    kube_timer_set(r->k, &r->timer, wait_us, attempt, r);
}

static const char *content_type(enum kube_verb v)
{
    return v == KUBE_PATCH_MERGE   ? "application/merge-patch+json"
           : v == KUBE_PATCH_JSON  ? "application/json-patch+json"
           : v == KUBE_PATCH_APPLY ? "application/apply-patch+yaml" /* JSON is YAML */
                                   : NULL;
}

static enum http_method method(enum kube_verb v)
{
    static const enum http_method methods[] = {HTTP_GET,   HTTP_GET,   HTTP_GET,
                                               HTTP_POST,  HTTP_PUT,   HTTP_PATCH,
                                               HTTP_PATCH, HTTP_PATCH, HTTP_DELETE};
    static_assert(ARRAY_LEN(methods) == KUBE_N_VERBS, "a method per verb");
    return methods[v];
}

static enum err_code send_attempt(struct kube_call_run *r, struct err *e)
{
    struct http_request q = {.method = method(r->call.verb),
                             .path = r->call.path,
                             .body = r->call.body,
                             .n_body = r->call.n_body,
                             .content_type = content_type(r->call.verb),
                             .deadline_us = r->until_us - clock_mono_us(),
                             .body_cap = r->call.body_cap,
                             .done = on_reply,
                             .ctx = r};
    if (q.deadline_us <= 0)
        q.deadline_us = 1;
    r->attempts++;
    return kube_send(r->k, r->call.verb, &q, &r->exchange, e);
}

/* The plugin may take longer than this call has. */
static bool wait_for_credentials(struct kube_call_run *r)
{
    if (!kube_credentials_awaited(r->k) || clock_mono_us() >= r->until_us)
        return false;
    kube_timer_set(r->k, &r->timer, CREDENTIALS_MS * US_PER_MS, attempt, r);
    return true;
}

static void attempt(void *ctx)
{
    struct kube_call_run *r = ctx;
    if (wait_for_credentials(r))
        return;
    r->last_rc = send_attempt(r, &r->last);
    if (r->last_rc)
        finish(r);
}

static void reply_init(struct kube_reply *r)
{
    *r = (struct kube_reply){.body = buf_init(0), .status = {.retry_after_us = -1, .date_us = -1}};
}

static char *copy_bytes(const char *p, size_t n)
{
    char *out = p ? try_zero(n + 1, 1) : NULL;
    if (out)
        memcpy(out, p, n);
    return out;
}

enum err_code kube_start(struct kube *k, const struct kube_call *call, kube_id *id, struct err *e)
{
    struct kube_call_run *r = mem_zero(1, sizeof *r);
    r->k = k;
    r->call = *call;
    if (r->call.body && !r->call.n_body)
        r->call.n_body = strlen(call->body);
    r->call.path = r->path = mem_strdup(call->path);
    r->call.body = r->body = copy_bytes(call->body, r->call.n_body);
    r->start_us = clock_mono_us();
    int64_t deadline_us = call->deadline_us > 0 ? call->deadline_us : k->o.deadline_us;
    r->until_us = deadline_us > INT64_MAX - r->start_us ? INT64_MAX : r->start_us + deadline_us;
    reply_init(&r->reply);
    r->next = k->calls;
    r->link = &k->calls;
    if (r->next)
        r->next->link = &r->next;
    k->calls = r;
    k->n_calls++;
    enum err_code rc = call->body && !r->call.body ? err_set(e, ERR_NOMEM, "body of a request")
                       : wait_for_credentials(r)   ? ERR_OK
                                                   : send_attempt(r, e);
    if (rc) {
        run_free(r);
        return rc;
    }
    r->id = ++k->last_id;
    if (id)
        *id = r->id;
    return ERR_OK;
}

void kube_cancel(struct kube *k, kube_id id)
{
    struct kube_call_run *r = k->calls;
    while (r && r->id != id)
        r = r->next;
    if (!r || id == 0)
        return;
    r->call.once = true;
    if (r->exchange) {
        kube_unsend(r->exchange); /* on_reply finishes */
        return;
    }
    if (!r->timer.link)
        return; /* its done() is running */
    r->last_rc = err_set(&r->last, ERR_INTERRUPTED, "cancelled between attempts");
    finish(r);
}

/* ---- one call to its end ----------------------------------------------------------------- */

struct waiting {
    struct kube_reply *reply;
    struct err *e;
    enum err_code rc;
    bool over;
};

static void take_reply(void *ctx, enum err_code rc, struct kube_reply *reply, const struct err *e)
{
    struct waiting *w = ctx;
    *w->reply = *reply;
    reply->body = buf_init(0); /* moved */
    w->rc = rc;
    if (rc && w->e)
        *w->e = *e;
    w->over = true;
}

enum err_code kube_do(struct kube *k, const struct kube_call *call, struct kube_reply *reply,
                      struct err *e)
{
    struct waiting w = {.reply = reply, .e = e};
    struct kube_call mine = *call;
    mine.done = take_reply;
    mine.ctx = &w;
    reply_init(reply);
    enum err_code rc = kube_start(k, &mine, NULL, e);
    while (!rc && !w.over)
        kube_poll(k, US_PER_S);
    return rc ? rc : w.rc;
}

void kube_reply_fini(struct kube_reply *r)
{
    buf_fini(&r->body);
}

enum err_code kube_reply_json(const struct kube_reply *r, struct json_doc **out, struct err *e)
{
    return json_parse(r->body.p, r->body.n, r->body.n, "answer", out, e);
}
