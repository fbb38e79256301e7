#include "tests/live/fake_prometheus.h"

#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "base/json.h"
#include "base/mem.h"
#include "net/server.h"
#include "tests/support/test.h"

enum { WORKLOADS_MAX = 1024, NAME = 64 };

struct workload {
    char ns[NAME], name[NAME];
    double value[FIELD_COUNT];
};

struct fake_prometheus {
    struct server *server;
    char url[64];
    pthread_mutex_t lock; /* of all below */
    int64_t now_us;
    enum fake_fault fault;
    struct workload workload[WORKLOADS_MAX];
    size_t n;
};

static void put_value(const struct fake_prometheus *f, double v, struct buf *out)
{
    char number[40];
    (void)snprintf(number, sizeof number, f->fault == FAKE_NAN ? "NaN" : "%.9g", v);
    buf_fmt(out, "\"value\":[%.3f,\"%s\"]", (double)f->now_us * 1e-6, number);
}

static void put_sample(const struct fake_prometheus *f, const struct workload *w, double v, const char *extra,
                       struct buf *out)
{
    if (out->p[out->n - 1] != '[')
        buf_char(out, ',');
    buf_fmt(out, "{\"metric\":{\"namespace\":\"%s\",\"deployment\":\"%s\"%s},", w->ns, w->name, extra);
    put_value(f, v, out);
    buf_char(out, '}');
}

static void put_vector(const struct fake_prometheus *f, enum field field, struct buf *out)
{
    buf_str(out, "{\"status\":\"success\",\"data\":{\"resultType\":\"vector\",\"result\":[");
    for (size_t i = 0; i < f->n && f->fault != FAKE_EMPTY; i++) {
        const struct workload *w = &f->workload[i];
        if (isnan(w->value[field]))
            continue;
        put_sample(f, w, w->value[field], "", out);
        if (f->fault == FAKE_TWICE)
            put_sample(f, w, w->value[field] + 1, ",\"shard\":\"b\"", out);
    }
    buf_str(out, "]}}");
}

/* The query, from the URL or a form. */
static const char *query_of(const struct server_request *in)
{
    const char *q = server_query(in, "query");
    return q ? q : strstr(in->body, "m_") ? strstr(in->body, "m_") : "";
}

static void answer(void *ctx, const struct server_request *in, struct server_reply *out)
{
    struct fake_prometheus *f = ctx;
    const char *query = query_of(in);
    char name[64] = "";
    (void)sscanf(query, "m_%63[a-z0-9_]", name);
    out->status = 200;
    out->body = buf_init(1 << 22);
    (void)pthread_mutex_lock(&f->lock);
    int field = field_find(name);
    if (f->fault == FAKE_500) {
        out->status = 500;
        buf_str(&out->body, "out of order");
    } else if (f->fault == FAKE_GARBAGE) {
        buf_str(&out->body, "{\"status\":\"succ");
    } else if (field >= 0) {
        put_vector(f, (enum field)field, &out->body);
    } else {
        buf_fmt(&out->body, "{\"status\":\"success\",\"data\":{\"resultType\":\"scalar\",\"result\":[%.3f,\"%.3f\"]}}",
                (double)f->now_us * 1e-6, (double)f->now_us * 1e-6);
    }
    (void)pthread_mutex_unlock(&f->lock);
}

struct fake_prometheus *fake_prometheus_start(void)
{
    struct fake_prometheus *f = mem_zero(1, sizeof *f);
    struct server_opts o = server_opts_default();
    struct err e;
    (void)pthread_mutex_init(&f->lock, NULL);
    o.handler = answer;
    o.ctx = f;
    assert_ok(server_start(&o, &f->server, &e), &e);
    (void)snprintf(f->url, sizeof f->url, "http://127.0.0.1:%u", server_port(f->server));
    return f;
}

void fake_prometheus_stop(struct fake_prometheus *f)
{
    server_stop(f->server);
    (void)pthread_mutex_destroy(&f->lock);
    mem_free(f);
}

const char *fake_prometheus_url(const struct fake_prometheus *f)
{
    return f->url;
}

void fake_prometheus_clock(struct fake_prometheus *f, int64_t now_us)
{
    (void)pthread_mutex_lock(&f->lock);
    f->now_us = now_us;
    (void)pthread_mutex_unlock(&f->lock);
}

void fake_prometheus_fault(struct fake_prometheus *f, enum fake_fault fault)
{
    (void)pthread_mutex_lock(&f->lock);
    f->fault = fault;
    (void)pthread_mutex_unlock(&f->lock);
}

static struct workload *workload(struct fake_prometheus *f, const char *ns, const char *name)
{
    for (size_t i = 0; i < f->n; i++)
        if (strcmp(f->workload[i].ns, ns) == 0 && strcmp(f->workload[i].name, name) == 0)
            return &f->workload[i];
    assert_true(f->n < WORKLOADS_MAX);
    struct workload *w = &f->workload[f->n++];
    (void)snprintf(w->ns, sizeof w->ns, "%s", ns);
    (void)snprintf(w->name, sizeof w->name, "%s", name);
    for (int i = 0; i < FIELD_COUNT; i++)
        w->value[i] = (double)NAN;
    return w;
}

void fake_prometheus_set(struct fake_prometheus *f, const char *ns, const char *name, enum field field, double v)
{
    (void)pthread_mutex_lock(&f->lock);
    workload(f, ns, name)->value[field] = v;
    (void)pthread_mutex_unlock(&f->lock);
}

void fake_prometheus_clear(struct fake_prometheus *f)
{
    (void)pthread_mutex_lock(&f->lock);
    f->n = 0;
    f->fault = FAKE_FINE;
    (void)pthread_mutex_unlock(&f->lock);
}

void fake_prometheus_queries(char *out, unsigned long n)
{
    size_t at = 0;
    at += (size_t)snprintf(out, n, "queries:\n  skew_query: none\n");
    for (int i = 0; i < FIELD_COUNT && at < n; i++) {
        const char *name = field_get((enum field)i)->name;
        bool ours = i == FIELD_UNITS_READY || i == FIELD_UNITS_TOTAL;
        if (ours)
            at += (size_t)snprintf(out + at, n - at, "  %s: {query: none}\n", name);
        else
            at += (size_t)snprintf(out + at, n - at, "  %s: {query: m_%s, by: workload, aggregate: one}\n", name, name);
    }
    assert_true(at < n);
}
