/* send.c - one exchange with the API server.
 *
 * Everything that leaves goes through kube_send(): the read-only switch is here and nowhere else,
 * as are credentials of a plugin and the counters.  Plugin credentials are renewed a minute before
 * they expire, or when the server says 401, by a plugin that a timer looks after: only the first run,
 * in kube_new(), is waited for.  Those at hand are used until they expire; after that, or after a 401,
 * calls wait for the plugin within their deadlines (client.c). */
#include <assert.h>
#include <string.h>

#include "base/clock.h"
#include "base/mem.h"
#include "kube/client_priv.h"

enum {
    EXEC_DEADLINE_S = 20,
    STEP_MS = 10 /* between looks at a running plugin */
};

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

/* Takes the credential. */
static enum err_code server_make(struct kube *k, struct kube_credential *cred, struct err *e)
{
    struct kube_server *s = mem_zero(1, sizeof *s);
    s->opts = k->config->server;
    s->cred = *cred;
    if (s->cred.token)
        s->opts.token = s->cred.token;
    if (s->cred.cert_pem) {
        s->opts.cert_pem = s->cred.cert_pem;
        s->opts.key_pem = s->cred.key_pem;
    }
    enum err_code rc = http_server_new(&s->opts, &s->http, e);
    if (rc) {
        server_free(s);
        return err_wrap(e, "%s", k->config->source);
    }
    server_retire(k->server);
    k->server = s;
    k->renew = false;
    k->fresh_until_us = clock_mono_us() + k->o.renew_us;
    return ERR_OK;
}

/* ---- renewal ------------------------------------------------------------------------------ */

static void renew(void *ctx);

/* A minute before they expire, whether anything is to be sent or not. */
static void renew_in_time(struct kube *k)
{
    int64_t expires_us = k->server->cred.expires_us, left_us = expires_us - clock_wall_us() - US_PER_MIN;
    if (k->config->exec && expires_us != INT64_MAX)
        kube_timer_set(k, &k->plugin_timer, left_us > k->o.renew_us ? left_us : k->o.renew_us, renew, k);
}

static void failed(struct kube *k)
{
    k->plugin_again_us = clock_mono_us() + k->o.renew_us;
    kube_timer_set(k, &k->plugin_timer, k->o.renew_us, renew, k);
}

static void step(void *ctx)
{
    struct kube *k = ctx;
    struct kube_credential cred;
    enum err_code rc;
    if (!kube_plugin_step(k->plugin, 0, &cred, &rc, &k->plugin_error)) {
        kube_timer_set(k, &k->plugin_timer, STEP_MS * US_PER_MS, step, k);
        return;
    }
    kube_plugin_free(k->plugin);
    k->plugin = NULL;
    if (!rc)
        rc = server_make(k, &cred, &k->plugin_error);
    if (rc)
        failed(k);
    else
        renew_in_time(k);
}

/* Good enough to send with.  What expires while it is new is left to the server: clocks may differ. */
static bool usable(const struct kube *k)
{
    return !k->renew &&
           (clock_wall_us() < k->server->cred.expires_us || clock_mono_us() < k->fresh_until_us);
}

static bool due(const struct kube *k)
{
    int64_t expires_us = k->server->cred.expires_us, now_us = clock_mono_us();
    bool old = expires_us != INT64_MAX && clock_wall_us() > expires_us - US_PER_MIN && now_us >= k->fresh_until_us;
    return k->config->exec && !k->plugin && (k->renew || old) && now_us >= k->plugin_again_us;
}

static void renew(void *ctx)
{
    struct kube *k = ctx;
    if (!due(k)) {
        if (!k->plugin)
            renew_in_time(k);
        return;
    }
    if (kube_plugin_start(k->config, EXEC_DEADLINE_S * US_PER_S, &k->plugin, &k->plugin_error))
        failed(k);
    else
        kube_timer_set(k, &k->plugin_timer, STEP_MS * US_PER_MS, step, k);
}

enum err_code kube_server_open(struct kube *k, struct err *e)
{
    struct kube_credential cred = {.expires_us = INT64_MAX};
    enum err_code rc =
        k->config->exec ? kube_exec_run(k->config, EXEC_DEADLINE_S * US_PER_S, &cred, e) : ERR_OK;
    if (!rc)
        rc = server_make(k, &cred, e);
    if (!rc)
        renew_in_time(k);
    return rc;
}

void kube_server_close(struct kube *k)
{
    kube_timer_stop(&k->plugin_timer);
    kube_plugin_free(k->plugin);
    server_retire(k->server);
    k->plugin = NULL;
    k->server = NULL;
}

bool kube_renew_credentials(struct kube *k)
{
    if (!k->config->exec)
        return false;
    k->renew = k->renew || clock_mono_us() >= k->fresh_until_us; /* else the older ones were refused */
    return true;
}

bool kube_credentials_awaited(struct kube *k)
{
    if (due(k))
        renew(k);
    return k->plugin && !usable(k);
}

static enum err_code credentials(struct kube *k, struct err *e)
{
    if (kube_credentials_awaited(k))
        return err_set(e, ERR_IO, "kubeconfig %s: credential plugin %s still runs", k->config->source,
                       k->config->exec->command);
    if (!k->config->exec || usable(k))
        return ERR_OK;
    *e = k->plugin_error;
    return e->code;
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
