/* live_bench.c - the daemon.
 *
 *   capacity_round_ms_500_targets  a decision round in a small cluster of the tests: pods counted, samples read, views,
 *                                  decisions of the default policy, records committed to SQLite.  Requests are not in it:
 *                                  they run beside.
 *   daemon_sync_s_100k_pods        build/<CONFIG>/sluice run, a process of its own, from its start to ready, with 5,000
 *                                  nodes, 100,000 pods and 20 targets in the test API server
 *   daemon_rss_mb_100k_pods        the most memory it had resident until some rounds later */
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/mem.h"
#include "bench/bench.h"
#include "net/http.h"
#include "tests/live/live_world.h"
#include "tests/support/test.h"

enum {
    TARGETS = 500, UNITS = 8, WARM_ROUNDS = 12, ROUNDS = 21,
    NODES = 5000, PODS = 100000, FEW_TARGETS = 20, SYNC_LIMIT_S = 120, AFTER_S = 10,
};
extern char **environ;

static double stored(void *arg)
{
    return *(const double *)arg;
}

static void stop(const char *what)
{
    (void)fprintf(stderr, "live_bench: %s\n", what);
    exit(1);
}

/* ---- a round ------------------------------------------------------------------------------------ */

static double round_ms(void *arg)
{
    struct live_world *w = arg;
    live_world_round(w);
    return daemon_round_s(w->daemon[0]) * 1e3;
}

static void fill(struct live_world *w, int n)
{
    for (int i = 0; i < n; i++) {
        char name[32];
        (void)snprintf(name, sizeof name, "svc-%d", i);
        live_world_target(w, name, UNITS, 64, "");
        live_world_demand(w, name, 400);
    }
}

static void bench_round(void)
{
    static struct live_world w;
    live_world_start(&w, "single", "", NULL);
    fill(&w, TARGETS);
    live_world_up(&w, 0);
    for (int i = 0; i < WARM_ROUNDS; i++)
        live_world_round(&w);
    bench_report("capacity_round_ms_500_targets", "ms", ROUNDS, round_ms, &w);
    live_world_stop(&w);
}

/* ---- a large cluster ---------------------------------------------------------------------------- */

/* Beside us: build/<CONFIG>/bench/live_bench and build/<CONFIG>/sluice. */
static pid_t start_daemon(const char *config)
{
    char program[4096];
    ssize_t n = readlink("/proc/self/exe", program, sizeof program - 32);
    for (int i = 0; i < 2 && n > 0; i++)
        while (n > 0 && program[--n] != '/')
            ;
    if (n <= 0)
        stop("cannot tell where this program is");
    memcpy(program + n, "/sluice", sizeof "/sluice");
    char config_arg[400];
    (void)snprintf(config_arg, sizeof config_arg, "%s", config);
    char *argv[] = {program, "run", "-q", "-c", config_arg, NULL};
    pid_t pid;
    if (access(program, X_OK) != 0 || posix_spawn(&pid, program, NULL, NULL, argv, environ) != 0)
        stop("build/<CONFIG>/sluice does not start: make");
    return pid;
}

/* Real clocks, the real lease, an endpoint on `port`. */
static const char *write_daemon_config(struct live_world *w, int port)
{
    static char text[8192], queries[4096];
    const char *path = test_path("%s/daemon.yaml", test_tmp_dir());
    fake_prometheus_queries(queries, sizeof queries);
    int n = snprintf(text, sizeof text,
                     "stage: single\nstate_dir: %s/daemon\nhistory: 0s\nkube: {kubeconfig: %s}\nprometheus: {url: '%s'}\n"
                     "serve: {port: %d}\n%s",
                     test_tmp_dir(), w->seat[0].kubeconfig, fake_prometheus_url(w->prom), port, queries);
    test_write_file(path, text, (size_t)n);
    return path;
}

static bool ready(struct http_client *client, struct http_server *server)
{
    struct http_request q = {.method = HTTP_GET, .path = "/readyz", .deadline_us = 2 * US_PER_S};
    struct http_reply reply;
    struct err e;
    bool yes = !http_do(client, server, &q, &reply, &e) && reply.status == 200;
    http_reply_fini(&reply);
    return yes;
}

static double most_resident_mb(pid_t pid)
{
    char path[64], line[256];
    double kb = 0;
    (void)snprintf(path, sizeof path, "/proc/%d/status", (int)pid);
    FILE *f = fopen(path, "r");
    while (f && fgets(line, sizeof line, f))
        (void)sscanf(line, "VmHWM: %lf", &kb);
    if (!f || !(kb > 0))
        stop("cannot read the daemon's memory");
    (void)fclose(f);
    return kb / 1000;
}

static void watch_daemon(pid_t pid, int port, double *sync_s, double *rss_mb)
{
    struct http_client *client;
    struct http_server *server;
    struct err e;
    char url[64];
    (void)snprintf(url, sizeof url, "http://127.0.0.1:%d", port);
    struct http_server_opts where = {.url = url};
    if (http_client_new(&client, &e) || http_server_new(&where, &server, &e))
        stop(e.msg);
    double from_s = bench_now_s();
    while (!ready(client, server)) {
        (void)http_poll(client, 20000);
        if (waitpid(pid, NULL, WNOHANG) != 0 || bench_now_s() - from_s > SYNC_LIMIT_S)
            stop("the daemon does not become ready");
    }
    *sync_s = bench_now_s() - from_s;
    for (double until_s = bench_now_s() + AFTER_S; bench_now_s() < until_s;)
        (void)http_poll(client, 100000);
    *rss_mb = most_resident_mb(pid);
    http_server_free(server);
    http_client_free(client);
}

static void bench_large(void)
{
    static struct live_world w;
    static const struct apiserver_opts api = {.controllers = false};
    double sync_s, rss_mb;
    int port = 20000 + (int)(getpid() % 20000);
    live_world_start(&w, "single", "", &api);
    apiserver_fill(w.api, NODES, PODS, 0);
    fill(&w, FEW_TARGETS);
    pid_t pid = start_daemon(write_daemon_config(&w, port));
    watch_daemon(pid, port, &sync_s, &rss_mb);
    (void)kill(pid, SIGTERM);
    (void)waitpid(pid, NULL, 0);
    bench_report("daemon_sync_s_100k_pods", "s", 1, stored, &sync_s);
    bench_report("daemon_rss_mb_100k_pods", "MB", 1, stored, &rss_mb);
    live_world_stop(&w);
}

int main(void)
{
    if (bench_wanted("capacity_round_ms_500_targets"))
        bench_round();
    if (bench_wanted("daemon_sync_s_100k_pods") || bench_wanted("daemon_rss_mb_100k_pods"))
        bench_large();
    return 0;
}
