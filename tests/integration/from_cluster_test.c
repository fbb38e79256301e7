/* A live target read and simulated: against the test API server and a real Prometheus; nothing may
 * be written. */
#include <math.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/mem.h"
#include "daemon/from_cluster.h"
#include "tests/apiserver/apiserver.h"
#include "tests/support/prometheus.h"
#include "tests/support/test.h"

enum { DAYS = 9, POINT_S = 60, DAY_S = 86400 };
#define TARGET_PATH "/apis/sluice.dev/v1alpha1/namespaces/shop/capacitytargets/chat"

struct site {
    struct apiserver *api;
    struct test_prometheus prom;
    int64_t now_s;
    unsigned serial; /* of its folder */
    char yaml[400];
};

/* A daily wave, and a level that tells the days apart. */
static double load_at(int64_t t_s)
{
    return 420 + 100 * sin(2 * 3.14159265358979 * (double)(t_s % DAY_S) / DAY_S) +
           5 * (double)(t_s / DAY_S % 7);
}

static void start_prometheus(struct site *s, int hours)
{
    const char *text = test_path("%s/in.om", test_tmp_dir());
    char data[512];
    (void)snprintf(data, sizeof data, "%s/blocks-%d-%u", test_tmp_dir(), hours, s->serial);
    (void)test_prometheus_program("promtool");
    FILE *f = fopen(text, "w");
    assert_non_null(f);
    (void)fputs("# TYPE m_qps gauge\n", f);
    for (int64_t t = s->now_s - (int64_t)hours * 3600; t <= s->now_s; t += POINT_S)
        (void)fprintf(f, "m_qps{namespace=\"shop\",deployment=\"chat\"} %.17g %lld\n", load_at(t),
                      (long long)t);
    (void)fputs("# EOF\n", f);
    assert_int_equal(fclose(f), 0);
    test_prometheus_blocks(text, data);
    test_prometheus_run(&s->prom, "{}\n", NULL, data);
}

/* Three units ready, two warming. */
static void start_cluster(struct site *s)
{
    struct err e;
    assert_ok(apiserver_start(&(struct apiserver_opts){.controllers = true}, &s->api, &e), &e);
    assert_ok(apiserver_load_file(s->api, "deploy/crd/capacitytargets.yaml", &e), &e);
    apiserver_must_load(
        s->api,
        "apiVersion: v1\nkind: Node\nmetadata: {name: n1}\nstatus:\n"
        "  allocatable: {cpu: '512', memory: 4Ti, pods: '5000', nvidia.com/gpu: '4096'}\n"
        "  conditions: [{type: Ready, status: 'True'}]\n"
        "---\napiVersion: apps/v1\nkind: Deployment\nmetadata: {name: chat, namespace: shop, "
        "labels: {sluice.dev/managed: 'true'}}\n"
        "spec:\n  replicas: 3\n  selector: {matchLabels: {app: chat}}\n  template: {metadata: "
        "{labels: {app: chat}}, spec: "
        "{containers: [{name: c, image: i, resources: {limits: {nvidia.com/gpu: '1'}}}]}}\n"
        "---\napiVersion: sluice.dev/v1alpha1\nkind: CapacityTarget\nmetadata: {name: chat, "
        "namespace: shop}\n"
        "spec:\n  scaleTargetRef: {apiVersion: apps/v1, kind: Deployment, name: chat}\n  minUnits: "
        "1\n  maxUnits: 20\n"
        "  minSafeUnits: 1\n  priceUsdPerHour: 2.5\n  class: P0\n  slo: {p99Milliseconds: 200}\n"
        "  latency: {serviceMilliseconds: 25, slots: 2}\n  policy: mpc\n");
    apiserver_settle(s->api);
    assert_int_equal(
        apiserver_call(
            s->api, "PATCH", "/apis/apps/v1/namespaces/shop/deployments/chat",
            "application/merge-patch+json",
            "{\"metadata\":{\"annotations\":{\"test.sluice.dev/pod-start-ms\":\"900000-900000\"}},"
            "\"spec\":{\"replicas\":5}}",
            NULL),
        200);
    apiserver_settle(s->api);
}

static void configure(struct site *s, const char *token, const char *more)
{
    static char text[4096];
    struct err e;
    const char *kubeconfig = test_path("%s/kubeconfig", test_tmp_dir());
    assert_ok(apiserver_kubeconfig(s->api, kubeconfig, token, &e), &e);
    (void)snprintf(s->yaml, sizeof s->yaml, "%s/sluice.yaml", test_tmp_dir());
    int n = snprintf(text, sizeof text,
                     "state_dir: %s\nkube: {kubeconfig: %s}\nqueries:\n  skew_query: none\n  qps: "
                     "{query: m_qps, by: workload, label: deployment, "
                     "aggregate: one}\n%s",
                     test_tmp_dir(), kubeconfig, more);
    test_write_file(s->yaml, text, (size_t)n);
    apiserver_forget(s->api);
}

static void site_start(struct site *s, int days, unsigned serial)
{
    memset(s, 0, sizeof *s);
    s->serial = serial;
    s->now_s = clock_wall_us() / US_PER_S;
    start_prometheus(s, 24 * days);
    start_cluster(s);
}

static void site_stop(struct site *s)
{
    assert_int_equal(apiserver_counted(s->api, "write", NULL, false), 0);
    test_prometheus_stop(&s->prom);
    apiserver_free(s->api);
}

/* The command's exit status; both streams in `out`. */
static int simulate(const struct site *s, const char *args, struct buf *out)
{
    char self[512];
    struct err e;
    ssize_t n = readlink("/proc/self/exe", self, sizeof self - 1);
    assert_true(n > 0);
    self[n] = '\0';
    for (int up = 0; up < 3; up++)
        *strrchr(self, '/') = '\0';
    int status = system(test_path(
        "%s/sluice simulate --from-cluster -c %s --set prometheus.url=%s --seeds 2 %s > %s/out "
        "2>&1",
        self, s->yaml, s->prom.url[0] ? s->prom.url : "http://127.0.0.1:1", args, test_tmp_dir()));
    assert_true(WIFEXITED(status));
    assert_ok(file_read(test_path("%s/out", test_tmp_dir()), 1 << 22, out, &e), &e);
    return WEXITSTATUS(status);
}

static void assert_run(const struct site *s, const char *args, int status, const char *words,
                       const char * not )
{
    struct buf out;
    int got = simulate(s, args, &out);
    if (got != status || !strstr(out.p, words) || (not &&strstr(out.p, not )))
        fail_msg("simulate %s: exit %d, expected %d and \"%s\", not \"%s\":\n%s", args, got, status,
                 words, not ? not : "", out.p);
    buf_fini(&out);
}

static enum err_code read_target(struct site *s, struct from_cluster *f, struct err *e)
{
    struct run_config c;
    char *sets[] = {(char *)(uintptr_t)test_path("prometheus.url=%s", s->prom.url)};
    assert_ok(run_config_load(&c, s->yaml, sets, 1, NULL, e), e);
    struct from_cluster_opts o = {
        .config = &c, .since_us = (int64_t)DAYS * DAY_S * US_PER_S, .ahead_us = 7200 * US_PER_S};
    enum err_code rc = from_cluster_read(&o, f, e);
    run_config_fini(&c);
    return rc;
}

TEST(a_live_target_is_simulated_from_its_present_state_and_nothing_is_written)
{
    struct site s;
    struct from_cluster f;
    struct run_day total;
    struct err e = {0};
    site_start(&s, DAYS, 1);
    configure(&s, APISERVER_READER_TOKEN, "");
    assert_ok(read_target(&s, &f, &e), &e);
    assert_string_equal(f.name, "shop/chat");
    assert_string_equal(f.policy, "mpc");
    assert_string_equal(f.writable, "");
    assert_int_equal(f.units_asked, 5);
    assert_int_equal(f.units_ready, 3);
    assert_int_equal(f.units_warming, 2);
    assert_int_equal(f.scenario.service.units_max, 20);
    assert_int_equal(f.scenario.service.slo_p99_us, 200000);
    for (int32_t i = f.now_step; i < f.world->n; i += 40) { /* a week ago, as 5-min means */
        int64_t t_s = f.world->start_us / US_PER_S + i * 15 - 7 * DAY_S;
        assert_near((double)f.world->demand[i], load_at(t_s), 6, 0.02);
    }
    assert_ok(from_cluster_run(&f, NULL, 1, NULL, NULL, &total, &e), &e);
    assert_int_equal(total.steps, 480);
    assert_near(total.unit_h, 10, 1e-6, 0); /* five units for two hours, whatever comes */
    assert_int_equal(total.actions, 0);
    struct contender who;
    assert_ok(contender_parse("static:units=20", &who, &e), &e);
    assert_ok(from_cluster_run(&f, &who, 1, NULL, NULL, &total, &e), &e);
    assert_true(total.unit_h > 15 && total.actions > 0);
    from_cluster_fini(&f);
    assert_run(&s, "", 0, "shop/chat now: 5 units asked for, 3 ready, 2 warming", "could write");
    assert_run(&s, "--policy hpa --policy queue --ahead 1h", 0, "size as it is", "predictive");
    assert_run(&s, "--format json --policy hpa -q", 0, "\"slo_violation_frac\"", NULL);
    assert_run(&s, "--policy hpa --steps --ahead 30min --format csv -q", 0, "units_requested",
               NULL);
    configure(&s, NULL, ""); /* an administrator's */
    assert_run(&s, "--ahead 1h", 0, "these credentials could write", NULL);
    assert_run(&s, "--ahead 1h --allow-writable-credentials", 0, "size as it is", "could write");
    site_stop(&s);
}

struct outs {
    int32_t until_step;
    int n;
};

static void count_outs(void *ctx, const struct run_look *l)
{
    struct outs *o = ctx;
    o->n += l->step < o->until_step && l->plan->units > l->view->units_requested;
}

TEST(a_breaker_that_is_open_stays_open_in_the_simulation)
{
    struct site s;
    struct from_cluster f;
    struct run_day total;
    struct contender who;
    struct err e = {0};
    site_start(&s, DAYS, 2);
    static const char body[] = "{\"status\":{\"safety\":{\"state\":\"BreakerOpen\","
                               "\"breakerUntil\":\"2099-01-01T00:00:00Z\"}}}";
    assert_int_equal(apiserver_call(s.api, "PATCH", TARGET_PATH "/status",
                                    "application/merge-patch+json", body, NULL),
                     200);
    configure(&s, APISERVER_READER_TOKEN, "");
    assert_ok(contender_parse("static:units=20", &who, &e), &e);
    who.guarded = true;
    assert_ok(read_target(&s, &f, &e), &e);
    assert_non_null(f.guard);
    struct outs with = {.until_step = f.now_step + 40}, without = with; /* ten minutes */
    assert_ok(from_cluster_run(&f, &who, 1, count_outs, &with, &total, &e), &e);
    assert_int_equal(with.n, 0); /* the breaker is open: no scale-out */
    mem_free(f.guard);
    f.guard = NULL;
    assert_ok(from_cluster_run(&f, &who, 1, count_outs, &without, &total, &e), &e);
    assert_true(without.n > 0);
    from_cluster_fini(&f);
    site_stop(&s);
}

TEST(what_cannot_be_simulated_from_a_cluster_says_why)
{
    struct site s = {.now_s = clock_wall_us() / US_PER_S};
    start_cluster(&s);
    configure(&s, APISERVER_READER_TOKEN, "");
    assert_run(&s, "--target shop/nobody", 1, "no target shop/nobody; there are shop/chat", NULL);
    assert_run(&s, "--set prometheus.url=", 1, "prometheus.url", NULL);
    assert_run(&s, "--wait 5s", 1, "the load of shop/chat", NULL);
    assert_run(&s, "nasa.yaml", 2, "either SCENARIO or --from-cluster", NULL);
    assert_run(&s, "--steps", 2, "name it with --policy", NULL);
    assert_run(&s, "--policy oracle", 2, "is a row of", NULL);
    assert_int_equal(apiserver_counted(s.api, "write", NULL, false), 0);
    apiserver_free(s.api);
}

TEST(less_than_a_day_of_load_is_too_little_to_go_on)
{
    struct site s;
    struct from_cluster f;
    struct err e = {0};
    memset(&s, 0, sizeof s);
    s.now_s = clock_wall_us() / US_PER_S;
    start_prometheus(&s, 5);
    start_cluster(&s);
    configure(&s, APISERVER_READER_TOKEN, "");
    assert_err(read_target(&s, &f, &e), ERR_RANGE, &e, "no day of load to replay");
    from_cluster_fini(&f);
    site_stop(&s);
}
