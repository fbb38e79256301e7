/* kube_bench.c - the informer against the test API server (a process of its own:
 * build/<CONFIG>/apiserver).
 *
 *   informer_sync_s_100k_pods   5,000 nodes and 100,000 pods from an empty cache to synced, gzip as
 * the server likes informer_rss_mb_100k_pods   resident memory of this process then kube_pods_per_s
 * no network: cut out of a stream, parsed, projected (a pod of 3 kB) */
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
#include "kube/objects.h"
#include "kube/split_priv.h"

enum { NODES = 5000, PODS = 100000, REPEATS = 3, EVENTS = 20000 };
extern char **environ;

static void stop(const char *what, const struct err *e)
{
    (void)fprintf(stderr, "kube_bench: %s%s%s\n", what, e ? ": " : "", e ? e->msg : "");
    exit(1);
}

/* ---- the server -------------------------------------------------------------------------- */

struct server {
    pid_t pid;
    char kubeconfig[64];
};

/* Beside us: build/<CONFIG>/bench/kube_bench and build/<CONFIG>/apiserver. */
static void find_program(char *out, size_t size)
{
    ssize_t n = readlink("/proc/self/exe", out, size - 32);
    for (int i = 0; i < 2 && n > 0; i++)
        while (n > 0 && out[--n] != '/')
            ;
    if (n <= 0)
        stop("cannot tell where this program is", NULL);
    memcpy(out + n, "/apiserver", sizeof "/apiserver");
    if (access(out, X_OK) != 0)
        stop("build/<CONFIG>/apiserver is missing: make standins", NULL);
}

static void server_start(struct server *s)
{
    char program[4096], fill[32], line[256];
    int out[2];
    posix_spawn_file_actions_t files;
    find_program(program, sizeof program);
    strcpy(s->kubeconfig, "/tmp/kube_bench.XXXXXX");
    int fd = mkstemp(s->kubeconfig);
    if (fd < 0 || pipe(out) != 0)
        stop("temporary file or pipe", NULL);
    close(fd);
    (void)snprintf(fill, sizeof fill, "%d,%d", NODES, PODS);
    char *argv[] = {program,       "--no-controllers",  "--fill", fill, "--kubeconfig",
                    s->kubeconfig, "--die-with-parent", NULL};
    posix_spawn_file_actions_init(&files);
    posix_spawn_file_actions_adddup2(&files, out[1], 1);
    posix_spawn_file_actions_addclose(&files, out[0]);
    if (posix_spawn(&s->pid, program, &files, NULL, argv, environ) != 0)
        stop("apiserver does not start", NULL);
    posix_spawn_file_actions_destroy(&files);
    close(out[1]);
    if (read(out[0], line, sizeof line) <= 0) /* its URL, once it serves */
        stop("apiserver said nothing", NULL);
    close(out[0]);
}

static void server_stop(struct server *s)
{
    kill(s->pid, SIGTERM);
    waitpid(s->pid, NULL, 0);
    unlink(s->kubeconfig);
}

/* ---- from nothing to synced -------------------------------------------------------------- */

struct sync {
    struct server *server;
    double rss_mb;
};

static double rss_mb(void)
{
    long pages = 0, resident = 0;
    FILE *f = fopen("/proc/self/statm", "r");
    if (!f || fscanf(f, "%ld %ld", &pages, &resident) != 2)
        stop("/proc/self/statm", NULL);
    fclose(f);
    return (double)resident * (double)sysconf(_SC_PAGESIZE) / 1e6;
}

static double sync_once(void *arg)
{
    struct sync *s = arg;
    struct kube_config_opts co = kube_config_opts_default();
    struct kube_opts ko = kube_opts_default();
    struct informer_opts io = informer_opts_default();
    struct text_pool *pool = text_pool_new();
    struct http_client *http;
    struct kube_config *config;
    struct kube *kube;
    struct informer *nodes, *pods;
    struct err e;
    co.path = s->server->kubeconfig;
    if (kube_config_load(&co, &config, &e) || http_client_new(&http, &e) ||
        kube_new(config, http, &ko, &kube, &e))
        stop("client", &e);
    double t0 = bench_now_s();
    io.resource = KUBE_NODES;
    io.projection = kube_node_projection(pool);
    if (informer_new(kube, &io, &nodes, &e))
        stop("nodes", &e);
    io.resource = KUBE_PODS;
    io.projection = kube_pod_projection(pool);
    if (informer_new(kube, &io, &pods, &e))
        stop("pods", &e);
    while (!informer_synced(nodes) || !informer_synced(pods))
        kube_poll(kube, US_PER_S);
    double took_s = bench_now_s() - t0;
    if (informer_count(nodes) != NODES || informer_count(pods) != PODS)
        stop("not every object arrived", NULL);
    s->rss_mb = rss_mb();
    informer_free(nodes);
    informer_free(pods);
    kube_free(kube);
    kube_config_free(config);
    http_client_free(http);
    text_pool_free(pool);
    return took_s;
}

static double known_rss(void *arg)
{
    return ((const struct sync *)arg)->rss_mb;
}

/* ---- without a network ------------------------------------------------------------------- */

struct stream {
    struct text_pool *pool;
    struct kube_projection projection;
    size_t n;
};

static bool take(void *ctx, bool is_metadata, const char *text, size_t n, const char *object,
                 size_t n_object)
{
    struct stream *s = ctx;
    struct json_doc *doc;
    struct kube_obj *o;
    struct err e;
    (void)is_metadata;
    if (json_parse(text, n, n, "event", &doc, &e) ||
        s->projection.make(s->projection.ctx, json_find(json_root(doc), "object"), object, n_object,
                           &o, &e))
        stop("event", &e);
    s->projection.free(s->projection.ctx, o);
    json_free(doc);
    s->n++;
    return true;
}

static void write_event(struct buf *b)
{
    buf_str(b, "{\"type\":\"MODIFIED\",\"object\":{\"kind\":\"Pod\",\"apiVersion\":\"v1\","
               "\"metadata\":{\"name\":\"web-7cb7cc55c6-x2x4z\","
               "\"namespace\":\"prod\",\"uid\":\"9f8d44bf-4cb6-4000-9fb2-054913306360\","
               "\"resourceVersion\":\"358\","
               "\"creationTimestamp\":\"2026-11-29T12:48:06Z\",\"labels\":{\"app\":\"web\",\"pod-"
               "template-hash\":\"7cb7cc55c6\",\"team\":\"a\"},"
               "\"ownerReferences\":[{\"apiVersion\":\"apps/"
               "v1\",\"kind\":\"ReplicaSet\",\"name\":\"web-7cb7cc55c6\",\"uid\":\"1\","
               "\"controller\":true}],"
               "\"managedFields\":[{\"manager\":\"m\",\"fieldsV1\":{");
    for (int i = 0; i < 40; i++)
        buf_fmt(b, "%s\"f:field%d\":{\".\":{},\"f:a\":{}}", i ? "," : "", i);
    buf_str(b,
            "}}]},\"spec\":{\"containers\":[{\"name\":\"c\",\"image\":\"registry/"
            "x:1\",\"resources\":{\"limits\":{\"nvidia.com/gpu\":\"1\"},"
            "\"requests\":{\"cpu\":\"1\",\"memory\":\"1Gi\",\"nvidia.com/gpu\":\"1\"}},\"env\":[");
    for (int i = 0; i < 10; i++)
        buf_fmt(b, "%s{\"name\":\"KEY_%d\",\"value\":\"some value %d\"}", i ? "," : "", i, i);
    buf_str(
        b,
        "]}],\"nodeName\":\"gpu-1\",\"schedulerName\":\"default-scheduler\",\"priority\":0},"
        "\"status\":{\"phase\":\"Running\",\"conditions\":["
        "{\"type\":\"Ready\",\"status\":\"True\",\"lastTransitionTime\":\"2026-11-29T12:48:06Z\"},"
        "{\"type\":\"PodScheduled\",\"status\":\"True\",\"lastTransitionTime\":\"2026-11-29T12:48:"
        "06Z\"}],"
        "\"containerStatuses\":[{\"name\":\"c\",\"restartCount\":0,\"state\":{\"running\":{}}}]}}}"
        "\n");
}

static double pods_per_s(void *arg)
{
    struct stream s = {.pool = text_pool_new()};
    struct buf event = buf_init(1 << 20);
    struct err e;
    (void)arg;
    s.projection = kube_pod_projection(s.pool);
    write_event(&event);
    struct splitter split = split_init(SPLIT_WATCH, 1 << 20, take, &s);
    double t0 = bench_now_s();
    for (int i = 0; i < EVENTS; i++)
        if (split_feed(&split, event.p, event.n, &e))
            stop("stream", &e);
    double rate = EVENTS / (bench_now_s() - t0);
    if (s.n != EVENTS)
        stop("not every event was cut out", NULL);
    split_fini(&split);
    buf_fini(&event);
    text_pool_free(s.pool);
    return rate;
}

int main(void)
{
    struct server server;
    struct sync s = {.server = &server};
    bench_report("kube_pods_per_s", "1/s", 7, pods_per_s, NULL);
    if (!bench_wanted("informer_sync_s_100k_pods") && !bench_wanted("informer_rss_mb_100k_pods"))
        return 0;
    server_start(&server);
    if (bench_wanted("informer_sync_s_100k_pods"))
        bench_report("informer_sync_s_100k_pods", "s", REPEATS, sync_once, &s);
    else
        (void)sync_once(&s);
    bench_report("informer_rss_mb_100k_pods", "MB", 1, known_rss, &s);
    server_stop(&server);
    return 0;
}
