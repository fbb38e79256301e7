/* collect_bench.c - what a round of collection costs the daemon's thread.
 *
 *   collect_round_cpu_ms_500_targets   500 targets of 10 pods, every built-in query answered for every pod
 *                                      (10 answers of 5,000 samples) by a local server: requests, parsing,
 *                                      spreading, rings
 *   collect_view_us                    the mean over the window for one target */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "base/mem.h"
#include "bench/bench.h"
#include "collect/collect.h"
#include "net/server.h"

enum { TARGETS = 500, PODS = 10, ROUNDS = 10, VIEWS = 100000 };

struct setup {
    struct buf vector;
    struct collect *c;
    struct http_client *http;
    int64_t now_us;
};

static void stop(const struct err *e)
{
    (void)fprintf(stderr, "collect_bench: %s\n", e->msg);
    exit(1);
}

static void write_vector(struct buf *out)
{
    buf_str(out, "{\"status\":\"success\",\"data\":{\"resultType\":\"vector\",\"result\":[");
    for (int i = 0; i < TARGETS * PODS; i++)
        buf_fmt(out,
                "%s{\"metric\":{\"namespace\":\"team-%d\",\"pod\":\"service-%d-7d9f8b6c5-x%04d\","
                "\"sluice_source\":\"x\"},"
                "\"value\":[%lld.123,\"0.%d\"]}",
                i ? "," : "", i / PODS % 20, i / PODS, i, (long long)(clock_wall_us() / US_PER_S),
                1000 + i);
    buf_str(out, "]}}");
}

static void answer(void *ctx, const struct server_request *in, struct server_reply *out)
{
    const struct setup *s = ctx;
    const char *query = server_query(in, "query");
    out->status = 200;
    out->body = buf_init(8 << 20);
    if (query && strcmp(query, "time()") == 0)
        buf_fmt(
            &out->body,
            "{\"status\":\"success\",\"data\":{\"resultType\":\"scalar\",\"result\":[1,\"%.3f\"]}}",
            (double)clock_wall_us() * 1e-6);
    else
        buf_add(&out->body, s->vector.p, s->vector.n);
}

/* As cheap as a look-up can be: the number is in the name. */
static bool pod(void *ctx, const char *namespace, const char *name, struct collect_pod *out)
{
    (void)ctx;
    (void)namespace;
    *out = (struct collect_pod){.target = (int)strtol(name + 8, NULL, 10)};
    return true;
}

static double thread_cpu_s(void)
{
    struct timespec t;
    (void)clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static double round_ms(void *arg)
{
    struct setup *s = arg;
    double t0 = thread_cpu_s();
    collect_start_round(s->c, s->now_us += 10 * US_PER_S);
    while (collect_running(s->c)) {
        (void)collect_tick(s->c);
        (void)http_poll(s->http, 10 * US_PER_MS);
    }
    return (thread_cpu_s() - t0) * 1e3;
}

static double view_us(void *arg)
{
    struct setup *s = arg;
    struct collect_sample x;
    double t0 = bench_now_s();
    for (int i = 0; i < VIEWS; i++)
        if (!collect_view(s->c, i % TARGETS, s->now_us, &x))
            stop(&(struct err){.msg = "a target without records"});
    return (bench_now_s() - t0) / VIEWS * 1e6;
}

static void run(struct setup *s, struct server *backend)
{
    struct queries_cfg cfg;
    struct http_server *server;
    struct prom *prom;
    struct prom_opts po = prom_opts_default();
    struct collect_opts o = collect_opts_default();
    struct err e = {0};
    char url[64];
    (void)snprintf(url, sizeof url, "http://127.0.0.1:%u", server_port(backend));
    opt_init(&queries_table, &cfg);
    if (http_client_new(&s->http, &e) ||
        http_server_new(&(struct http_server_opts){.url = url}, &server, &e))
        stop(&e);
    prom_new(s->http, server, &po, &prom);
    o.prom = prom;
    o.queries = &cfg;
    o.pod = pod;
    o.ctx = s;
    if (collect_new(&o, &s->c, &e))
        stop(&e);
    for (int i = 0; i < TARGETS; i++) {
        struct collect_target t = {.kind = "Deployment"};
        (void)snprintf(t.namespace, sizeof t.namespace, "team-%d", i % 20);
        (void)snprintf(t.name, sizeof t.name, "service-%d", i);
        if (collect_set(s->c, i, &t, &e))
            stop(&e);
    }
    bench_report("collect_round_cpu_ms_500_targets", "ms", ROUNDS, round_ms, s);
    if (bench_wanted("collect_view_us")) {
        for (int i = 0; i < 6; i++)
            (void)round_ms(s);
        bench_report("collect_view_us", "us", 5, view_us, s);
    }
    if (getenv("BENCH_VERBOSE"))
        (void)fprintf(stderr, "%.1f MB held\n", (double)collect_bytes(s->c) * 1e-6);
    collect_free(s->c);
    prom_free(prom);
    http_server_free(server);
    http_client_free(s->http);
    opt_fini(&queries_table, &cfg);
}

int main(void)
{
    struct setup s = {.vector = buf_init(8 << 20), .now_us = clock_wall_us()};
    struct server_opts so = server_opts_default();
    struct server *backend;
    struct err e;
    if (!bench_wanted("collect_round_cpu_ms_500_targets") && !bench_wanted("collect_view_us"))
        return 0;
    write_vector(&s.vector);
    so.handler = answer;
    so.ctx = &s;
    if (server_start(&so, &backend, &e))
        stop(&e);
    run(&s, backend);
    server_stop(backend);
    buf_fini(&s.vector);
    return 0;
}
