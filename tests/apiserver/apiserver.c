/* apiserver.c - options, start and stop, the HTTP handler. */
#include "tests/apiserver/api_priv.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

enum { HTTP_BODY_MAX = 64 << 20, CONNECTIONS_MAX = 2000 };

/* Wakes what waits for changes made under the lock, then opens it. */
void api_unlock(struct apiserver *a)
{
    if (a->waking) {
        a->waking = false;
        pthread_cond_broadcast(&a->changed);
        if (a->server)
            server_wake(a->server);
    }
    pthread_mutex_unlock(&a->lock);
}

/* ---- HTTP ---- */

static void set_headers(struct call *c)
{
    struct server_reply *r = c->out;
    if (r->n_headers <= 2 && !r->pull)
        server_reply_header(r, "Cache-Control", "no-cache, private");
    if (r->body.n == 0 && !r->pull && r->status == 0)
        api_fail(c, 500, "InternalError", NULL, "Internal error occurred: nothing answered");
}

static void handler(void *ctx, const struct server_request *in, struct server_reply *out)
{
    struct apiserver *a = ctx;
    const char *auth = server_header(in, "authorization"),
               *encoding = server_header(in, "accept-encoding");
    struct call c = {.a = a,
                     .http = in,
                     .method = in->method,
                     .path = in->path,
                     .target = in->target,
                     .body = in->body,
                     .n_body = in->n_body,
                     .content_type = server_header(in, "content-type"),
                     .accept = server_header(in, "accept"),
                     .out = out};
    if (auth && strncasecmp(auth, "Bearer ", 7) == 0)
        c.token = auth + 7 + strspn(auth + 7, " ");
    if (in->client_cn)
        snprintf(c.cert_user, sizeof c.cert_user, "%s", in->client_cn);
    api_lock(a);
    if (strncmp(in->path, "/_test/", 7) == 0) {
        api_control_http(&c);
        api_unlock(a);
        return;
    }
    api_call_run(&c);
    if (!out->later) {
        set_headers(&c);
        api_log_add(&c);
    }
    api_unlock(a);
    if (!a->o.no_gzip && encoding && strstr(encoding, "gzip"))
        api_list_gzip(out);
}

static enum err_code listen_again(struct apiserver *a, struct err *e)
{
    struct server_opts o = server_opts_default();
    o.address = a->o.address;
    o.port = a->port;
    o.threads = 2;
    o.body_cap = HTTP_BODY_MAX;
    o.header_cap = 64 << 10;
    o.max_connections = CONNECTIONS_MAX;
    o.idle_us = 300 * US_PER_S;
    o.cert_file = a->o.cert_file;
    o.key_file = a->o.key_file;
    o.client_ca_file = a->o.client_ca_file;
    o.handler = handler;
    o.ctx = a;
    struct server *s = NULL;
    enum err_code rc = server_start(&o, &s, e);
    if (rc)
        return rc;
    api_lock(a);
    a->server = s;
    a->port = server_port(s);
    api_unlock(a);
    snprintf(a->url, sizeof a->url, "http%s://%s:%u", a->o.cert_file ? "s" : "", a->o.address,
             a->port);
    return ERR_OK;
}

void apiserver_down(struct apiserver *a)
{
    api_lock(a);
    struct server *s = a->server;
    a->server = NULL;
    api_unlock(a);
    server_stop(s);
}

void apiserver_drain(struct apiserver *a, int64_t watches_us)
{
    api_lock(a);
    a->drain_at_us = clock_mono_us() + watches_us;
    if (a->server)
        server_quiesce(a->server);
    api_unlock(a);
}

enum err_code apiserver_up(struct apiserver *a, bool lose_history, struct err *e)
{
    api_lock(a);
    bool up = a->server != NULL;
    a->drain_at_us = 0;
    if (lose_history)
        api_store_compact(a, a->rv);
    api_unlock(a);
    return up ? ERR_OK : listen_again(a, e);
}

/* ---- start and stop ---- */

static const char *keep(struct apiserver *a, int i, const char *s)
{
    a->text[i] = s ? mem_strdup(s) : NULL;
    return a->text[i];
}

static void set_opts(struct apiserver *a, const struct apiserver_opts *o)
{
    a->o = *o;
    a->o.address = keep(a, 0, o->address ? o->address : "127.0.0.1");
    a->o.cert_file = keep(a, 1, o->cert_file);
    a->o.key_file = keep(a, 2, o->key_file);
    a->o.client_ca_file = keep(a, 3, o->client_ca_file);
    a->o.ca_file = keep(a, 4, o->ca_file ? o->ca_file : o->cert_file);
    a->port = o->port;
    if (a->o.seed == 0)
        a->o.seed = 1;
    if (a->o.time_scale <= 0)
        a->o.time_scale = 1;
    if (a->o.time_origin_us == 0)
        a->o.time_origin_us = clock_wall_us();
    if (a->o.bookmark_us == 0)
        a->o.bookmark_us = 60 * US_PER_S;
    if (a->o.history == 0)
        a->o.history = 50000;
    if (a->o.pod_start_max_us < a->o.pod_start_min_us)
        a->o.pod_start_max_us = a->o.pod_start_min_us;
}

static const char first_objects[] =
    "{\"kind\":\"List\",\"apiVersion\":\"v1\",\"items\":["
    "{\"apiVersion\":\"v1\",\"kind\":\"Namespace\",\"metadata\":{\"name\":\"default\"}},"
    "{\"apiVersion\":\"v1\",\"kind\":\"Namespace\",\"metadata\":{\"name\":\"kube-system\"}},"
    "{\"apiVersion\":\"v1\",\"kind\":\"Namespace\",\"metadata\":{\"name\":\"kube-public\"}},"
    "{\"apiVersion\":\"v1\",\"kind\":\"Namespace\",\"metadata\":{\"name\":\"kube-node-lease\"}},"
    "{\"apiVersion\":\"scheduling.k8s.io/"
    "v1\",\"kind\":\"PriorityClass\",\"metadata\":{\"name\":\"system-node-critical\"},"
    "\"value\":2000001000,\"description\":\"Used for system critical pods that must not be moved "
    "from their current node.\","
    "\"preemptionPolicy\":\"PreemptLowerPriority\"},"
    "{\"apiVersion\":\"scheduling.k8s.io/"
    "v1\",\"kind\":\"PriorityClass\",\"metadata\":{\"name\":\"system-cluster-critical\"},"
    "\"value\":2000000000,\"description\":\"Used for system critical pods that must run in the "
    "cluster, but can be moved to another "
    "node if necessary.\",\"preemptionPolicy\":\"PreemptLowerPriority\"}]}";

static void init(struct apiserver *a)
{
    pthread_condattr_t attr;
    pthread_condattr_init(&attr);
    pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    pthread_cond_init(&a->changed, &attr);
    pthread_condattr_destroy(&attr);
    pthread_mutex_init(&a->lock, NULL);
    a->mono_start_us = clock_mono_us();
    a->scratch = buf_init((size_t)1 << 30);
    a->uids = rng_stream(a->o.seed, "uids");
    a->names = rng_stream(a->o.seed, "names");
    a->delays = rng_stream(a->o.seed, "delays");
    for (size_t i = 0; i < api_n_kinds; i++) {
        if (!(api_kind_table[i].flags & KIND_LATER) || a->o.metrics_api)
            api_store_add_shelf(a, &api_kind_table[i], NULL);
    }
    apiserver_token(a, APISERVER_ADMIN_TOKEN, "kubernetes-admin",
                    &(struct apiserver_rule){"*", "*", "*", NULL}, 1);
    apiserver_token(a, APISERVER_READER_TOKEN, "reader",
                    &(struct apiserver_rule){"get,list,watch", "*", "*", NULL}, 1);
    apiserver_must_load(a, first_objects);
}

enum err_code apiserver_start(const struct apiserver_opts *o, struct apiserver **out, struct err *e)
{
    struct apiserver *a = mem_zero(1, sizeof *a);
    set_opts(a, o);
    init(a);
    api_control_start(a);
    enum err_code rc = listen_again(a, e);
    if (rc) {
        apiserver_free(a);
        return rc;
    }
    *out = a;
    return ERR_OK;
}

static void rules_free(struct token *t)
{
    for (size_t i = 0; i < t->n_rules; i++) {
        mem_free((char *)(uintptr_t)t->rules[i].verbs);
        mem_free((char *)(uintptr_t)t->rules[i].groups);
        mem_free((char *)(uintptr_t)t->rules[i].resources);
        mem_free((char *)(uintptr_t)t->rules[i].namespaces);
    }
    mem_free(t->rules);
}

void apiserver_free(struct apiserver *a)
{
    if (!a)
        return;
    apiserver_down(a);
    api_control_stop(a);
    for (struct token *t = a->tokens; t;) {
        struct token *next = t->next;
        rules_free(t);
        mem_free(t->token);
        mem_free(t->user);
        mem_free(t);
        t = next;
    }
    apiserver_clear(a, 0);
    api_log_fini(a);
    api_store_fini(a);
    for (size_t i = 0; i < ARRAY_LEN(a->text); i++)
        mem_free(a->text[i]);
    pthread_cond_destroy(&a->changed);
    pthread_mutex_destroy(&a->lock);
    mem_free(a);
}

uint16_t apiserver_port(const struct apiserver *a)
{
    return a->port;
}

const char *apiserver_url(const struct apiserver *a)
{
    return a->url;
}

int64_t apiserver_now_us(struct apiserver *a)
{
    return api_now_us(a);
}
