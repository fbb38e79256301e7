/* collect_fixture.h - a collector against a stand-in Prometheus that answers by the words of the query. */
#ifndef TESTS_UNIT_COLLECT_FIXTURE_H
#define TESTS_UNIT_COLLECT_FIXTURE_H

#include <pthread.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/mem.h"
#include "collect/collect.h"
#include "net/server.h"
#include "prom/client.h"
#include "tests/support/test.h"

enum { RULES_MAX = 16, PODS_MAX = 16 };
#define STEP (10 * US_PER_S)

/* A query that contains `word` gets `body`, in which @ and @-90 stand for the server's time, and for 90 s before it. */
struct rule {
    char word[64];
    const char *body;
    int status; /* 0: 200 */
    int64_t delay_us;
};

struct pod_row {
    const char *namespace, *pod;
    struct collect_pod p;
};

struct world {
    pthread_mutex_t lock;
    struct rule rule[RULES_MAX];
    int n_rules;
    int64_t skew_us;       /* of the server's clock */
    int n_asked;
    char last_query[8192]; /* decoded, the last but for time() */
    struct pod_row pod[PODS_MAX];
    int n_pods;

    struct server *backend;
    struct http_client *http;
    struct http_server *server;
    struct prom *prom;
    struct queries_cfg cfg;
    struct collect *c;
    int64_t now_us;
};

#define VECTOR(items) "{\"status\":\"success\",\"data\":{\"resultType\":\"vector\",\"result\":[" items "]}}"

static void fx_fill(struct buf *out, const char *body, int64_t server_us)
{
    for (const char *p = body; *p;) {
        if (*p != '@') {
            buf_char(out, *p++);
            continue;
        }
        char *end;
        long offset = p[1] == '-' || p[1] == '+' ? strtol(p + 1, &end, 10) : 0;
        p = p[1] == '-' || p[1] == '+' ? end : p + 1;
        int64_t t = server_us + offset * US_PER_S;
        buf_fmt(out, "%lld.%03lld", (long long)(t / US_PER_S), (long long)(t % US_PER_S / 1000));
    }
}

static void fx_answer(void *ctx, const struct server_request *in, struct server_reply *out)
{
    struct world *w = ctx;
    char form[4096];
    const char *query = server_query(in, "query");
    if (!query && in->n_body > 6) { /* a form: only its first field is looked at, percent signs and all */
        (void)snprintf(form, sizeof form, "%.4095s", in->body + 6);
        query = form;
    }
    out->body = buf_init(1 << 22);
    (void)pthread_mutex_lock(&w->lock);
    int64_t server_us = clock_wall_us() + w->skew_us;
    w->n_asked++;
    out->status = 200;
    if (strcmp(query, "time()") == 0) {
        buf_str(&out->body, "{\"status\":\"success\",\"data\":{\"resultType\":\"scalar\",\"result\":[");
        fx_fill(&out->body, "@,\"@\"]}}", server_us);
    } else {
        (void)snprintf(w->last_query, sizeof w->last_query, "%.8000s", query);
        const char *body = VECTOR("");
        for (int i = w->n_rules - 1; i >= 0; i--)
            if (strstr(query, w->rule[i].word)) {
                body = w->rule[i].body;
                out->status = w->rule[i].status ? w->rule[i].status : 200;
                out->delay_us = w->rule[i].delay_us;
            }
        fx_fill(&out->body, body, server_us);
    }
    (void)pthread_mutex_unlock(&w->lock);
}

/* The first rule whose word occurs counts. */
static inline void fx_rule(struct world *w, const char *word, const char *body)
{
    (void)pthread_mutex_lock(&w->lock);
    int i = 0;
    while (i < w->n_rules && strcmp(w->rule[i].word, word) != 0)
        i++;
    if (i == w->n_rules)
        w->n_rules++;
    (void)snprintf(w->rule[i].word, sizeof w->rule[i].word, "%s", word);
    w->rule[i] = (struct rule){.body = body};
    (void)snprintf(w->rule[i].word, sizeof w->rule[i].word, "%s", word);
    (void)pthread_mutex_unlock(&w->lock);
}

static bool fx_pod(void *ctx, const char *namespace, const char *pod, struct collect_pod *out)
{
    struct world *w = ctx;
    for (int i = 0; i < w->n_pods; i++)
        if (strcmp(w->pod[i].namespace, namespace) == 0 && strcmp(w->pod[i].pod, pod) == 0) {
            *out = w->pod[i].p;
            return true;
        }
    return false;
}

static void fx_pods(void *ctx, int target, void (*each)(void *arg, const char *pod), void *arg)
{
    struct world *w = ctx;
    for (int i = 0; i < w->n_pods; i++)
        if (w->pod[i].p.target == target)
            each(arg, w->pod[i].pod);
}

static inline void fx_add_pod(struct world *w, const char *namespace, const char *pod, int target)
{
    w->pod[w->n_pods++] = (struct pod_row){namespace, pod, {.target = target, .cpu_cores = 2, .mem_bytes = 8e9}};
}

static inline void fx_set(struct world *w, int index, const char *namespace, const char *name)
{
    struct collect_target t = {.kind = "Deployment"};
    struct err e;
    (void)snprintf(t.namespace, sizeof t.namespace, "%s", namespace);
    (void)snprintf(t.name, sizeof t.name, "%s", name);
    assert_ok(collect_set(w->c, index, &t, &e), &e);
}

/* settings: opt_set texts for queries, NULL-terminated; fields not named are not collected. */
static inline void fx_config(struct queries_cfg *cfg, const char *const *settings)
{
    struct err e;
    opt_init(&queries_table, cfg);
    for (int f = 0; f < FIELD_COUNT; f++) {
        bool named = false;
        for (const char *const *s = settings; *s; s++)
            named |= strncmp(*s, field_get((enum field)f)->name, strlen(field_get((enum field)f)->name)) == 0;
        if (!named)
            assert_ok(opt_set(&queries_table, cfg, test_path("%s.query=none", field_get((enum field)f)->name), NULL, &e), &e);
    }
    for (const char *const *s = settings; *s; s++)
        assert_ok(opt_set(&queries_table, cfg, *s, NULL, &e), &e);
    assert_ok(opt_set(&queries_table, cfg, "skew_query=none", NULL, &e), &e);
}

static inline struct collect_opts fx_opts(struct world *w)
{
    struct collect_opts o = collect_opts_default();
    o.prom = w->prom;
    o.queries = &w->cfg;
    o.max_targets = 8;
    o.pod = fx_pod;
    o.pods = fx_pods;
    o.ctx = w;
    return o;
}

static inline void fx_open_prom(struct world *w)
{
    struct server_opts so = server_opts_default();
    struct prom_opts po = prom_opts_default();
    struct err e;
    memset(w, 0, sizeof *w);
    (void)pthread_mutex_init(&w->lock, NULL);
    so.handler = fx_answer;
    so.ctx = w;
    assert_ok(server_start(&so, &w->backend, &e), &e);
    assert_ok(http_client_new(&w->http, &e), &e);
    const char *url = test_path("http://127.0.0.1:%u", server_port(w->backend));
    assert_ok(http_server_new(&(struct http_server_opts){.url = url}, &w->server, &e), &e);
    po.backoff_us = po.backoff_max_us = US_PER_MS;
    prom_new(w->http, w->server, &po, &w->prom);
    w->now_us = INT64_C(1700000000) * US_PER_S; /* decisions need not run on the wall clock */
}

static inline void fx_open(struct world *w, const char *const *settings)
{
    struct err e;
    fx_open_prom(w);
    fx_config(&w->cfg, settings);
    struct collect_opts o = fx_opts(w);
    assert_ok(collect_new(&o, &w->c, &e), &e);
}

static inline void fx_close(struct world *w)
{
    collect_free(w->c);
    prom_free(w->prom);
    http_server_free(w->server);
    http_client_free(w->http);
    server_stop(w->backend);
    opt_fini(&queries_table, &w->cfg);
    (void)pthread_mutex_destroy(&w->lock);
}

static inline void fx_finish_round(struct world *w)
{
    while (collect_running(w->c)) {
        (void)collect_tick(w->c);
        (void)http_poll(w->http, 5 * US_PER_MS);
    }
}

static inline void fx_rounds(struct world *w, int n)
{
    for (int i = 0; i < n; i++) {
        collect_start_round(w->c, w->now_us += STEP);
        fx_finish_round(w);
    }
}

static inline const struct collect_health *fx_health(const struct world *w, const char *name)
{
    for (int i = 0; i < collect_health_count(w->c); i++)
        if (strcmp(collect_health_get(w->c, i)->name, name) == 0)
            return collect_health_get(w->c, i);
    fail_msg("no health of %s", name);
    abort(); /* not reached */
}

static inline struct collect_sample fx_view(const struct world *w, int target)
{
    struct collect_sample s;
    if (!collect_view(w->c, target, w->now_us, &s))
        fail_msg("target %d has no record", target);
    return s;
}

#endif
