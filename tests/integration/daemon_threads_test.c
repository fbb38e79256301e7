/* Two whole daemons with all their threads: leases kept against the test API server, history read, endpoints hammered
 * while configurations change, people freeze and unfreeze, and connections are cut.  For ThreadSanitizer and
 * AddressSanitizer; without them it still shows that nothing stops under load and that one of the two leads. */
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/mem.h"
#include "net/http.h"
#include "tests/live/live_world.h"
#include "tests/support/test.h"

enum { HAMMERS = 3, ROUNDS = 24, REQUESTS_LEAST = 100, TARGETS = 6 };

struct replica {
    char dir[300], config[320], name[8];
    struct daemon *daemon;
    double round_s; /* of the round seen last */
    int rounds;
};

struct hammer {
    pthread_t thread;
    const struct replica *replica;
    atomic_bool *stop;
    atomic_int answers;
    int i;
};

static void write_config(struct live_world *w, struct replica *r, int i, const char *policy)
{
    static char text[8192], queries[4096];
    fake_prometheus_queries(queries, sizeof queries);
    (void)snprintf(r->name, sizeof r->name, "r%d", i);
    (void)snprintf(r->dir, sizeof r->dir, "%s/threads-%d", test_tmp_dir(), i);
    (void)snprintf(r->config, sizeof r->config, "%s/threads-%d.yaml", test_tmp_dir(), i);
    int n = snprintf(text, sizeof text,
                     "stage: single\nstate_dir: %s\npolicy: %s\nspeed: 40\nhistory: 1h\n"
                     "kube: {kubeconfig: %s, timeout: 500ms}\nlease: {duration: 3s, renew: 2s, retry: 100ms}\n"
                     "prometheus: {url: '%s', collect: 5s}\nserve: {port: 0}\n%s",
                     r->dir, policy, w->seat[i].kubeconfig, fake_prometheus_url(w->prom), queries);
    assert_true(n > 0 && (size_t)n < sizeof text);
    test_write_file(test_path("%s.new", r->config), text, (size_t)n);
    assert_int_equal(rename(test_path("%s.new", r->config), r->config), 0);
}

static void replica_start(struct live_world *w, struct replica *r, int i)
{
    struct err e;
    write_config(w, r, i, "rules");
    struct daemon_opts o = {.config_path = r->config, .replica = r->name, .seed = (uint64_t)i + 1};
    assert_ok(daemon_new(&o, &r->daemon, &e), &e);
}

/* ---- endpoints ---------------------------------------------------------------------------------- */

static void *hammer(void *arg)
{
    static const struct {
        enum http_method method;
        const char *path;
    } calls[] = {
        {HTTP_GET, "/metrics"},        {HTTP_GET, "/healthz"},        {HTTP_GET, "/readyz"},
        {HTTP_GET, "/api/v1/targets"}, {HTTP_GET, "/api/v1/freeze"},  {HTTP_GET, "/api/v1/targets/shop/svc-1"},
        {HTTP_POST, "/api/v1/freeze"}, {HTTP_POST, "/api/v1/unfreeze"}, {HTTP_GET, "/nowhere"},
        {HTTP_POST, "/api/v1/breaker-reset"},
    };
    struct hammer *h = arg;
    struct http_client *client;
    struct http_server *server;
    struct err e;
    char url[64], token[320];
    (void)snprintf(url, sizeof url, "http://127.0.0.1:%u", daemon_port(h->replica->daemon));
    (void)snprintf(token, sizeof token, "%s/token", h->replica->dir);
    struct http_server_opts where = {.url = url, .token_file = token};
    const char *body = "{\"author\":\"ann\",\"reason\":\"load\",\"namespace\":\"shop\",\"name\":\"svc-1\"}";
    if (http_client_new(&client, &e))
        return NULL;
    if (!http_server_new(&where, &server, &e)) {
        for (size_t i = (size_t)h->i; !atomic_load(h->stop); i++) {
            struct http_reply reply;
            struct http_request q = {.method = calls[i % ARRAY_LEN(calls)].method,
                                     .path = calls[i % ARRAY_LEN(calls)].path,
                                     .deadline_us = 5 * US_PER_S};
            if (q.method == HTTP_POST) {
                q.body = body;
                q.n_body = strlen(body);
            }
            if (!http_do(client, server, &q, &reply, &e) && reply.status)
                atomic_fetch_add(&h->answers, 1);
            http_reply_fini(&reply);
        }
        http_server_free(server);
    }
    http_client_free(client);
    return NULL;
}

/* ---- the loop ----------------------------------------------------------------------------------- */

static void turn(struct replica *r)
{
    daemon_turn(r->daemon, 2000);
    if (daemon_round_s(r->daemon) != r->round_s) {
        r->round_s = daemon_round_s(r->daemon);
        r->rounds++;
    }
}

static void disturb(struct live_world *w, struct replica *r, int round)
{
    switch (round % 4) {
    case 0: (void)kill(getpid(), SIGHUP); break;
    case 1: write_config(w, &r[0], 0, round % 8 == 1 ? "mpc" : "rules"); break;
    case 2: apiserver_cut_watches(w->api); break;
    default: (void)kill(getpid(), SIGUSR1); break;
    }
}

static bool enough(const struct replica *r, struct hammer *h)
{
    for (int i = 0; i < HAMMERS; i++)
        if (atomic_load(&h[i].answers) < REQUESTS_LEAST)
            return false;
    return r[0].rounds >= ROUNDS && r[1].rounds >= ROUNDS;
}

static void run_loaded(struct live_world *w, struct replica *r, struct hammer *h)
{
    int disturbed = 0, led = 0;
    while (!enough(r, h) || !led) {
        for (int i = 0; i < LIVE_REPLICAS; i++)
            turn(&r[i]);
        fake_prometheus_clock(w->prom, clock_wall_us());
        bool leads[] = {daemon_leads(r[0].daemon), daemon_leads(r[1].daemon)};
        assert_false(leads[0] && leads[1]);
        led += leads[0] || leads[1];
        if (r[0].rounds > disturbed) {
            disturbed = r[0].rounds;
            disturb(w, r, disturbed);
        }
    }
}

TEST(threads_of_two_daemons_under_load_share_nothing_by_accident)
{
    static struct live_world w;
    static struct replica r[LIVE_REPLICAS];
    static struct hammer h[HAMMERS];
    atomic_bool stop = false;
    sigset_t set;
    (void)sigemptyset(&set);
    (void)sigaddset(&set, SIGHUP);
    (void)sigaddset(&set, SIGUSR1);
    (void)pthread_sigmask(SIG_BLOCK, &set, NULL);
    memset(r, 0, sizeof r);
    live_world_start(&w, "single", "", NULL);
    for (int i = 0; i < TARGETS; i++) {
        live_world_target(&w, test_path("svc-%d", i), 4, 20, "");
        live_world_demand(&w, test_path("svc-%d", i), 900);
    }
    fake_prometheus_clock(w.prom, clock_wall_us());
    for (int i = 0; i < LIVE_REPLICAS; i++)
        replica_start(&w, &r[i], i);
    for (int i = 0; i < HAMMERS; i++) {
        h[i] = (struct hammer){.replica = &r[i % LIVE_REPLICAS], .stop = &stop, .i = i};
        assert_int_equal(pthread_create(&h[i].thread, NULL, hammer, &h[i]), 0);
    }
    run_loaded(&w, r, h);
    atomic_store(&stop, true);
    for (int i = 0; i < HAMMERS; i++)
        (void)pthread_join(h[i].thread, NULL);
    for (int i = 0; i < LIVE_REPLICAS; i++)
        daemon_free(r[i].daemon);
    live_world_stop(&w);
}
