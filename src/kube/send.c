/* send.c - one exchange with the API server.
 *
 * Everything that leaves goes through kube_send(): the read-only switch is here and nowhere else,
 * as are credentials of a plugin and the counters.  Plugin credentials are renewed a minute before
 * they expire, or when the server says 401. */
#include <assert.h>
#include <string.h>

#include "base/clock.h"
#include "base/mem.h"
#include "kube/client_priv.h"

enum { EXEC_DEADLINE_S = 20 };

struct kube_exchange {
    struct kube *k;
    struct kube_server *server;
    enum kube_verb verb;
    http_id id;
    int64_t start_us, first_us; /* monotonic; first_us 0: nothing came yet */
    bool (*data)(void *ctx, const char *p, size_t n);
    void (*done)(void *ctx, enum err_code rc, struct http_reply *reply, const struct err *e);
    void *ctx;
};

/* ---- credentials ------------------------------------------------------------------------- */

static void server_free(struct kube_server *s)
{
    if (!s)
        return;
    http_server_free(s->http);
    kube_credential_fini(&s->cred);
    mem_free(s);
}

static void server_retire(struct kube_server *s)
{
    if (!s)
        return;
    s->retired = true;
    if (s->n_users == 0)
        server_free(s);
}

enum err_code kube_server_open(struct kube *k, struct err *e)
{
    struct kube_server *s = mem_zero(1, sizeof *s);
    enum err_code rc = ERR_OK;
    s->opts = k->config->server;
    s->cred.expires_us = INT64_MAX;
    if (k->config->exec)
        rc = kube_exec_run(k->config, EXEC_DEADLINE_S * US_PER_S, &s->cred, e);
    if (s->cred.token)
        s->opts.token = s->cred.token;
    if (s->cred.cert_pem) {
        s->opts.cert_pem = s->cred.cert_pem;
        s->opts.key_pem = s->cred.key_pem;
    }
    if (!rc) {
        rc = http_server_new(&s->opts, &s->http, e);
        if (rc)
            err_wrap(e, "%s", k->config->source);
    }
    if (rc) {
        server_free(s);
        return rc;
    }
    server_retire(k->server);
    k->server = s;
    k->renew = false;
    return ERR_OK;
}

void kube_server_close(struct kube *k)
{
    server_retire(k->server);
    k->server = NULL;
}

bool kube_renew_credentials(struct kube *k)
{
    k->renew = k->config->exec != NULL;
    return k->renew;
}

static enum err_code credentials(struct kube *k, struct err *e)
{
    bool old = k->server->cred.expires_us != INT64_MAX &&
               clock_wall_us() > k->server->cred.expires_us - US_PER_MIN;
    return k->config->exec && (k->renew || old) ? kube_server_open(k, e) : ERR_OK;
}

/* ---- the switch -------------------------------------------------------------------------- */

static bool is_self_review(const char *path)
{
    static const char *const reviews[] = {"/apis/authorization.k8s.io/v1/selfsubjectaccessreviews",
                                          "/apis/authorization.k8s.io/v1/selfsubjectrulesreviews",
                                          "/apis/authentication.k8s.io/v1/selfsubjectreviews"};
    size_t n = strcspn(path, "?");
    for (size_t i = 0; i < ARRAY_LEN(reviews); i++) {
        if (strlen(reviews[i]) == n && strncmp(path, reviews[i], n) == 0)
            return true;
    }
    return false;
}

static enum err_code may_leave(struct kube *k, enum kube_verb verb, const struct http_request *r,
                               struct err *e)
{
    if (!k->o.read_only || r->method == HTTP_GET ||
        (r->method == HTTP_POST && is_self_review(r->path)))
        return ERR_OK;
    k->stats.refused++;
    struct buf what = buf_init(64 * 1024);
    kube_describe(&what, verb, r->path);
    enum err_code rc = err_set(e, ERR_INVAL, "%s: refused, this client only reads", what.p);
    buf_fini(&what);
    return rc;
}

/* ---- counters ---------------------------------------------------------------------------- */

const double kube_bucket_s[KUBE_N_BUCKETS] = {0.005, 0.01, 0.025, 0.05, 0.1, 0.25,
                                              0.5,   1,    2.5,   5,    10,  __builtin_inf()};

const char *kube_verb_name(enum kube_verb v)
{
    static const char *const names[] = {"get",        "list",        "watch",
                                        "create",     "update",      "patch-merge",
                                        "patch-json", "patch-apply", "delete"};
    static_assert(ARRAY_LEN(names) == KUBE_N_VERBS, "a name per verb");
    return names[v];
}

const char *kube_class_name(enum kube_class c)
{
    static const char *const names[] = {"2xx", "409", "429", "4xx", "5xx", "transport"};
    static_assert(ARRAY_LEN(names) == KUBE_N_CLASSES, "a name per class");
    return names[c];
}

static enum kube_class class_of(enum err_code rc, int status)
{
    if (status == 0 || (rc && rc != ERR_LIMIT))
        return KUBE_CLASS_TRANSPORT;
    return status < 400    ? KUBE_CLASS_OK
           : status == 409 ? KUBE_CLASS_CONFLICT
           : status == 429 ? KUBE_CLASS_THROTTLED
           : status < 500  ? KUBE_CLASS_CLIENT
                           : KUBE_CLASS_SERVER;
}

static void count(struct kube_exchange *x, enum err_code rc, const struct http_reply *reply)
{
    struct kube_stats *s = &x->k->stats;
    /* A watch that ran counts as good however it ended. */
    bool ran = x->verb == KUBE_WATCH && x->first_us;
    struct kube_count *c = &s->count[x->verb][ran ? KUBE_CLASS_OK : class_of(rc, reply->status)];
    int64_t took_us =
        x->first_us && x->verb == KUBE_WATCH ? x->first_us - x->start_us : reply->elapsed_us;
    size_t b = 0;
    while (b + 1 < KUBE_N_BUCKETS && (double)took_us > kube_bucket_s[b] * (double)US_PER_S)
        b++;
    c->n++;
    c->sum_us += took_us;
    c->max_us = took_us > c->max_us ? took_us : c->max_us;
    s->bucket[x->verb][b]++;
    s->wire_bytes += reply->wire_bytes;
    if (reply->date_us >= 0)
        s->skew_us = reply->date_us - clock_wall_us();
}

/* ---- exchanges --------------------------------------------------------------------------- */

static bool on_data(void *ctx, const char *p, size_t n)
{
    struct kube_exchange *x = ctx;
    if (!x->first_us)
        x->first_us = clock_mono_us();
    return x->data(x->ctx, p, n);
}

static void on_done(void *ctx, enum err_code rc, struct http_reply *reply, const struct err *e)
{
    struct kube_exchange x = *(struct kube_exchange *)ctx;
    mem_free(ctx);
    if (rc != ERR_INTERRUPTED || x.first_us)
        count(&x, rc, reply);
    x.server->n_users--;
    if (x.server->retired && x.server->n_users == 0)
        server_free(x.server);
    x.done(x.ctx, rc, reply, e);
}

enum err_code kube_send(struct kube *k, enum kube_verb verb, const struct http_request *r,
                        struct kube_exchange **out, struct err *e)
{
    *out = NULL;
    enum err_code rc = may_leave(k, verb, r, e);
    if (!rc)
        rc = credentials(k, e);
    if (rc)
        return rc;
    struct kube_exchange *x = mem_zero(1, sizeof *x);
    *x = (struct kube_exchange){.k = k,
                                .server = k->server,
                                .verb = verb,
                                .start_us = clock_mono_us(),
                                .data = r->data,
                                .done = r->done,
                                .ctx = r->ctx};
    struct http_request mine = *r;
    mine.data = r->data ? on_data : NULL;
    mine.done = on_done;
    mine.ctx = x;
    rc = http_start(k->http, k->server->http, &mine, &x->id, e);
    if (rc) {
        mem_free(x);
        return rc;
    }
    x->server->n_users++;
    *out = x;
    return ERR_OK;
}

void kube_unsend(struct kube_exchange *x)
{
    if (x)
        http_cancel(x->k->http, x->id);
}
