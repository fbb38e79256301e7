#include "tests/live/live_world.h"

#include <math.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "base/mem.h"
#include "net/http.h"
#include "tests/support/test.h"

enum { UNIT_QPS = 80, SETTLE_TURNS = 3, RETRY_US = 2000, PAUSE_NS = 100000 };
#define ROUND_US INT64_C(2000000)

static int64_t wall(void *ctx)
{
    const struct live_seat *s = ctx;
    return s->world->now_us + s->world->skew_us[s->i];
}

static int64_t mono(void *ctx)
{
    const struct live_seat *s = ctx;
    return s->world->now_us;
}

static bool leads(void *ctx, const char *replica)
{
    const struct live_seat *s = ctx;
    (void)replica;
    return s->world->leader == s->i || s->world->leader == LIVE_BOTH;
}

/* Each replica has an account of its own, so that the record tells who asked. */
static void login(struct live_world *w, const struct live_seat *s)
{
    static const struct apiserver_rule all[] = {{"*", "*", "*", NULL}};
    struct err e;
    apiserver_token(w->api, s->user, s->user, all, ARRAY_LEN(all));
    assert_ok(apiserver_kubeconfig(w->api, s->kubeconfig, s->user, &e), &e);
}

static void write_config(struct live_world *w, int i, const char *stage, const char *extra)
{
    static char text[16384], queries[4096];
    struct live_seat *s = &w->seat[i];
    *s = (struct live_seat){.world = w, .i = i, .outside = {.wall_us = wall, .mono_us = mono, .leads = leads,
                                                                    .retry_us = RETRY_US}};
    s->outside.ctx = s;
    (void)snprintf(s->user, sizeof s->user, "r%d", i);
    (void)snprintf(s->kubeconfig, sizeof s->kubeconfig, "%s/kubeconfig-%d", test_tmp_dir(), i);
    login(w, s);
    (void)snprintf(s->dir, sizeof s->dir, "%s/world-%u-%d", test_tmp_dir(), apiserver_port(w->api), i);
    (void)snprintf(s->config, sizeof s->config, "%s/world-%u-%d.yaml", test_tmp_dir(), apiserver_port(w->api), i);
    fake_prometheus_queries(queries, sizeof queries);
    int n = snprintf(text, sizeof text,
                     "stage: %s\nstate_dir: %s\nkube: {kubeconfig: %s}\n"
                     "prometheus: {url: '%s', collect: 5s}\nhistory: 0s\n"
                     "serve: {port: 0}\n%s%s\n",
                     stage, s->dir, s->kubeconfig, fake_prometheus_url(w->prom), queries, extra);
    assert_true(n > 0 && (size_t)n < sizeof text);
    test_write_file(s->config, text, (size_t)n);
}

/* The CRD as it is deployed. */
static void load_crd(struct live_world *w)
{
    struct err e;
    assert_ok(apiserver_load_file(w->api, "deploy/crd/capacitytargets.yaml", &e), &e);
}

void live_world_start(struct live_world *w, const char *stage, const char *extra, const struct apiserver_opts *api)
{
    struct apiserver_opts o = api ? *api : (struct apiserver_opts){.controllers = true};
    struct err e;
    memset(w, 0, sizeof *w);
    w->now_us = clock_wall_us() / LIVE_STEP_US * LIVE_STEP_US;
    assert_ok(apiserver_start(&o, &w->api, &e), &e);
    load_crd(w);
    apiserver_must_load(w->api, "apiVersion: v1\nkind: Node\nmetadata: {name: n1}\nstatus:\n"
                                "  allocatable: {cpu: '5120', memory: 40Ti, pods: '50000', nvidia.com/gpu: '40960'}\n"
                                "  conditions: [{type: Ready, status: 'True'}]\n");
    w->prom = fake_prometheus_start();
    fake_prometheus_clock(w->prom, w->now_us);
    for (int i = 0; i < LIVE_REPLICAS; i++)
        write_config(w, i, stage, extra);
}

void live_world_up(struct live_world *w, int replica)
{
    const struct live_seat *s = &w->seat[replica];
    struct err e = {0};
    struct daemon_opts o = {.config_path = s->config, .replica = s->user, .seed = 1, .log = w->log,
                            .outside = &s->outside};
    assert_ok(daemon_new(&o, &w->daemon[replica], &e), &e);
}

void live_world_down(struct live_world *w, int replica)
{
    daemon_free(w->daemon[replica]);
    w->daemon[replica] = NULL;
}

void live_world_stop(struct live_world *w)
{
    for (int i = 0; i < LIVE_REPLICAS; i++)
        if (w->daemon[i])
            live_world_down(w, i);
    fake_prometheus_stop(w->prom);
    apiserver_free(w->api);
}

void live_world_target(struct live_world *w, const char *name, int units, int units_max, const char *more)
{
    static char text[8192];
    int n = snprintf(
        text, sizeof text,
        "apiVersion: apps/v1\nkind: Deployment\n"
        "metadata: {name: %s, namespace: shop, labels: {app: %s, sluice.dev/managed: 'true'}}\n"
        "spec:\n  replicas: %d\n  selector: {matchLabels: {app: %s}}\n"
        "  template: {metadata: {labels: {app: %s}}, spec: {containers: [{name: c, image: i, resources: {limits: "
        "{nvidia.com/gpu: '1'}}}]}}\n"
        "---\napiVersion: sluice.dev/v1alpha1\nkind: CapacityTarget\nmetadata: {name: %s, namespace: shop}\n"
        "spec:\n  scaleTargetRef: {apiVersion: apps/v1, kind: Deployment, name: %s}\n"
        "  minUnits: 1\n  minSafeUnits: 1\n  maxUnits: %d\n  priceUsdPerHour: 2.5\n  class: P0\n"
        "  slo: {p99Milliseconds: 200}\n  startSeconds: 60\n  latency: {serviceMilliseconds: 25, slots: 2}\n%s",
        name, name, units, name, name, name, name, units_max, more);
    assert_true(n > 0 && (size_t)n < sizeof text);
    apiserver_must_load(w->api, text);
    apiserver_settle(w->api);
}

int live_world_units(struct live_world *w, const char *name)
{
    char path[256];
    (void)snprintf(path, sizeof path, "/apis/apps/v1/namespaces/shop/deployments/%s", name);
    return (int)apiserver_number(w->api, path, "spec.replicas", -1);
}

void live_world_demand(struct live_world *w, const char *name, double qps)
{
    int units = live_world_units(w, name);
    double use = units > 0 ? qps / (units * (double)UNIT_QPS) : 10, short_of = use > 1 ? use - 1 : 0;
    const struct {
        enum field f;
        double v;
    } values[] = {
        {FIELD_QPS, qps},
        {FIELD_GPU_UTIL, use < 1 ? use : 1},
        {FIELD_CPU_UTIL, use < 1 ? 0.6 * use : 0.6},
        {FIELD_P50_LATENCY_MS, 25 + 400 * short_of},
        {FIELD_P99_LATENCY_MS, use < 0.8 ? 120 : 120 + 400 * (use - 0.8)},
        {FIELD_QUEUE_LEN, 100 * short_of},
    };
    for (size_t i = 0; i < ARRAY_LEN(values); i++)
        fake_prometheus_set(w->prom, "shop", name, values[i].f, values[i].v);
}

bool live_world_quiet(const struct live_world *w)
{
    for (int i = 0; i < LIVE_REPLICAS; i++)
        if (w->daemon[i] && !daemon_quiet(w->daemon[i]))
            return false;
    return true;
}

/* The servers are threads of this process: what was asked is answered a moment later. */
static void give_way(void)
{
    (void)nanosleep(&(struct timespec){.tv_nsec = PAUSE_NS}, NULL);
}

static void turn_all(struct live_world *w)
{
    for (int i = 0; i < LIVE_REPLICAS; i++)
        if (w->daemon[i])
            daemon_turn(w->daemon[i], 0);
}

void live_world_turn(struct live_world *w)
{
    int64_t until_us = clock_mono_us() + ROUND_US;
    int settled = 0;
    fake_prometheus_clock(w->prom, w->now_us);
    do {
        turn_all(w);
        settled = live_world_quiet(w) ? settled + 1 : 0;
        if (settled == 1)
            apiserver_settle(w->api);
        else
            give_way();
    } while (settled < SETTLE_TURNS && clock_mono_us() < until_us);
}

void live_world_round(struct live_world *w)
{
    for (int i = 0; i < 3; i++) { /* a collection every 5 s; the third is the decision's */
        w->now_us += LIVE_STEP_US / 3;
        live_world_turn(w);
    }
}

void live_world_begin_round(struct live_world *w, int n)
{
    for (int i = 0; i < 2; i++) {
        w->now_us += LIVE_STEP_US / 3;
        live_world_turn(w);
    }
    w->now_us += LIVE_STEP_US / 3;
    fake_prometheus_clock(w->prom, w->now_us);
    for (int i = 0; i < n; i++) {
        turn_all(w);
        give_way();
    }
}

static int ask(struct live_world *w, int replica, const struct http_request *q, struct buf *out)
{
    struct http_client *client;
    struct http_server *server;
    struct http_reply reply;
    struct err e;
    char url[64], token_file[300];
    (void)snprintf(url, sizeof url, "http://127.0.0.1:%u", daemon_port(w->daemon[replica]));
    (void)snprintf(token_file, sizeof token_file, "%s/token", w->seat[replica].dir);
    struct http_server_opts where = {.url = url, .token_file = token_file};
    assert_ok(http_client_new(&client, &e), &e);
    assert_ok(http_server_new(&where, &server, &e), &e);
    int status = http_do(client, server, q, &reply, &e) ? 0 : reply.status;
    if (status && out)
        buf_add(out, reply.body.p, reply.body.n);
    http_reply_fini(&reply);
    http_server_free(server);
    http_client_free(client);
    return status;
}

int live_world_post(struct live_world *w, int replica, const char *path, const char *body)
{
    return ask(w, replica, &(struct http_request){.method = HTTP_POST, .path = path, .body = body, .n_body = strlen(body)},
               NULL);
}

int live_world_get(struct live_world *w, int replica, const char *path, struct buf *out)
{
    return ask(w, replica, &(struct http_request){.method = HTTP_GET, .path = path}, out);
}
