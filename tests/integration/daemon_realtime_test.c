/* From a step of demand to /scale with nothing simulated: real clocks, a real Prometheus that scrapes every second, the
 * daemon's own loop.  Takes two minutes, so only where LIVE_LONG is set (tools/check long). */
#include <stdio.h>

#include "base/clock.h"
#include "base/mem.h"
#include "tests/exporter/exporter.h"
#include "tests/live/live_world.h"
#include "tests/support/prometheus.h"
#include "tests/support/test.h"

enum { WARM_S = 80, LIMIT_S = 60, PERIOD_S = 15, SCRAPE_S = 1 };

static void demand(struct exporter *x, double qps, double use, double p99_ms, double queue)
{
    static const char labels[] = "namespace=\"shop\",deployment=\"chat\"";
    const struct {
        enum field f;
        double v;
    } values[] = {{FIELD_QPS, qps},  {FIELD_GPU_UTIL, use},           {FIELD_CPU_UTIL, use / 2},
                  {FIELD_QUEUE_LEN, queue}, {FIELD_P50_LATENCY_MS, p99_ms / 4}, {FIELD_P99_LATENCY_MS, p99_ms}};
    for (size_t i = 0; i < ARRAY_LEN(values); i++)
        exporter_set(x, test_path("m_%s", field_get(values[i].f)->name), labels, values[i].v);
}

static struct daemon *start(struct live_world *w, const char *prometheus_url)
{
    static char text[8192], queries[4096];
    const char *path = test_path("%s/realtime.yaml", test_tmp_dir());
    struct daemon *d;
    struct err e;
    fake_prometheus_queries(queries, sizeof queries);
    int n = snprintf(text, sizeof text,
                     "stage: single\nstate_dir: %s/realtime\nhistory: 0s\nlease: {enabled: false}\n"
                     "kube: {kubeconfig: %s}\nprometheus: {url: '%s'}\nserve: {port: 0}\n%s",
                     test_tmp_dir(), w->seat[0].kubeconfig, prometheus_url, queries);
    assert_true(n > 0 && (size_t)n < sizeof text);
    test_write_file(path, text, (size_t)n);
    struct daemon_opts o = {.config_path = path, .replica = "r0", .seed = 1};
    assert_ok(daemon_new(&o, &d, &e), &e);
    return d;
}

/* Seconds until a size was accepted, LIMIT_S at most. */
static double until_scaled(struct live_world *w, struct daemon *d, double limit_s)
{
    int64_t from_us = clock_mono_us();
    while (!apiserver_counted(w->api, "update", "deployments/scale", true) &&
           (double)(clock_mono_us() - from_us) * 1e-6 < limit_s)
        daemon_turn(d, 20000);
    return (double)(clock_mono_us() - from_us) * 1e-6;
}

TEST(a_step_of_demand_in_a_real_prometheus_reaches_scale_within_a_period_a_scrape_and_a_second)
{
    struct live_world w;
    struct test_prometheus p = {0};
    struct exporter *x;
    struct err e;
    if (!getenv("LIVE_LONG")) {
        print_message("skipped: two minutes of real time (LIVE_LONG=1)\n");
        skip();
    }
    assert_ok(exporter_start(0, &x, &e), &e);
    demand(x, 240, 0.75, 120, 0); /* what 4 units are right for */
    test_prometheus_start(&p, exporter_port(x), "1s");
    live_world_start(&w, "single", "", NULL);
    live_world_target(&w, "chat", 4, 40, "");
    struct daemon *d = start(&w, p.url);
    (void)until_scaled(&w, d, WARM_S);
    assert_int_equal(live_world_units(&w, "chat"), 4);
    demand(x, 1600, 1, 600, 200);
    double took_s = until_scaled(&w, d, LIMIT_S);
    (void)fprintf(stderr, "from the step to /scale: %.1f s\n", took_s);
    assert_true(took_s <= PERIOD_S + SCRAPE_S + 1);
    daemon_free(d);
    live_world_stop(&w);
    test_prometheus_stop(&p);
    exporter_stop(x);
}
