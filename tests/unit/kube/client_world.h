/* client_world.h - a client and a server that answers it from a list. */
#ifndef TESTS_UNIT_KUBE_CLIENT_WORLD_H
#define TESTS_UNIT_KUBE_CLIENT_WORLD_H

#include <pthread.h>

#include "base/clock.h"
#include "base/mem.h"
#include "kube/client.h"
#include "tests/support/raw_server.h"
#include "tests/support/test.h"

/* ---- a server that answers from a list --------------------------------------------------- */

struct step {
    int status;        /* 0: reset the connection; -1: no answer */
    const char *body;  /* NULL: {} */
    const char *extra; /* header lines */
    const char *type;  /* NULL: application/json */
};

struct script {
    pthread_mutex_t lock;
    const struct step *steps; /* the last one repeats */
    int n_steps, n_seen;
    char method[16], path[512], headers[2048], body[1024];
};

static inline void play(void *ctx, struct raw_conn *c, const struct raw_request *r)
{
    struct script *s = ctx;
    pthread_mutex_lock(&s->lock);
    const struct step *step = &s->steps[s->n_seen < s->n_steps ? s->n_seen : s->n_steps - 1];
    s->n_seen++;
    snprintf(s->method, sizeof s->method, "%s", r->method);
    snprintf(s->path, sizeof s->path, "%s", r->path);
    snprintf(s->headers, sizeof s->headers, "%s", r->headers);
    snprintf(s->body, sizeof s->body, "%s", r->body);
    pthread_mutex_unlock(&s->lock);
    if (step->status == 0)
        raw_reset(c);
    else if (step->status < 0)
        raw_wait_gone(c);
    else
        raw_answer(c, step->status, step->type ? step->type : "application/json", step->extra,
                   step->body ? step->body : "{}");
}

struct rig {
    struct script script;
    struct raw_server *raw;
    struct http_client *http;
    struct kube_config *config;
    struct kube *kube;
};

static inline void rig_start(struct rig *r, const struct step *steps, int n, const struct kube_opts *o)
{
    struct err e;
    *r = (struct rig){.script = {.lock = PTHREAD_MUTEX_INITIALIZER, .steps = steps, .n_steps = n}};
    r->raw = raw_server_start(play, &r->script);
    assert_ok(http_client_new(&r->http, &e), &e);
    assert_ok(kube_config_plain(raw_server_url(r->raw), &r->config, &e), &e);
    assert_ok(kube_new(r->config, r->http, o, &r->kube, &e), &e);
}

static inline void rig_stop(struct rig *r)
{
    kube_free(r->kube);
    kube_config_free(r->config);
    http_client_free(r->http);
    raw_server_stop(r->raw);
}

static inline struct kube_opts fast(void)
{
    struct kube_opts o = kube_opts_default();
    o.backoff_us = 2 * US_PER_MS;
    o.backoff_max_us = 5 * US_PER_MS;
    return o;
}

#define RIG(r, ...)                                                                                \
    static const struct step steps_[] = {__VA_ARGS__};                                             \
    struct kube_opts opts_ = fast();                                                               \
    struct rig r;                                                                                  \
    rig_start(&r, steps_, ARRAY_LEN(steps_), &opts_)

#endif
