/* prometheus_test.c - the client, the built-in queries and the collector against a real Prometheus that scrapes an
 * exporter of the test's own. */
#include <math.h>
#include <sched.h>
#include <time.h>

#include "base/clock.h"
#include "base/mem.h"
#include "collect/collect.h"
#include "daemon/past.h"
#include "prom/client.h"
#include "tests/exporter/exporter.h"
#include "tests/exporter/service.h"
#include "tests/support/prometheus.h"
#include "tests/support/test.h"

struct world {
    struct exporter *x;
    struct test_prometheus p;
    struct http_client *http;
    struct http_server *server;
    struct prom *prom;
};

static void connect_to(struct world *w, const struct http_server_opts *o)
{
    struct prom_opts po = prom_opts_default();
    struct err e;
    assert_ok(http_client_new(&w->http, &e), &e);
    assert_ok(http_server_new(o, &w->server, &e), &e);
    po.backoff_us = 20 * US_PER_MS;
    prom_new(w->http, w->server, &po, &w->prom);
}

static void open_world(struct world *w)
{
    *w = (struct world){0};
    w->p = *test_prometheus_shared(&w->x); /* each test has names of its own */
    connect_to(w, &(struct http_server_opts){.url = w->p.url});
}

static void disconnect(struct world *w)
{
    prom_free(w->prom);
    http_server_free(w->server);
    http_client_free(w->http);
}

static void close_world(struct world *w)
{
    disconnect(w);
    exporter_hook(w->x, NULL, NULL, NULL);
    exporter_clear(w->x);
}

static double ask(struct world *w, const char *query)
{
    struct prom_result r = {0};
    struct err e;
    assert_ok(prom_do(w->prom, &(struct prom_query){.query = query, .result = &r}, NULL, &e), &e);
    double v = r.n_samples == 1 ? r.samples[0].v : (double)NAN;
    prom_result_fini(&r);
    return v;
}

/* ---- client -------------------------------------------------------------------------------------
 */

TEST(prometheus_answers_instant_and_range_queries)
{
    struct world w;
    struct prom_result r = {0};
    struct prom_info info;
    struct err e;
    open_world(&w);
    exporter_set(w.x, "queue_len", "pod=\"caf\xc3\xa9 \\\"q\\\"\"", 12.25);
    test_prometheus_until(&w.p, "queue_len", "12.25");
    assert_ok(prom_do(w.prom, &(struct prom_query){.query = "queue_len", .result = &r}, &info, &e), &e);
    assert_int_equal(r.n_series, 1);
    assert_true(r.samples[0].v == 12.25);
    assert_string_equal(prom_label(&r, &r.series[0], "pod"), "caf\xc3\xa9 \"q\"");
    assert_int_equal(info.status, 200);
    assert_true(llabs(info.date_us - clock_wall_us()) < 3 * US_PER_S);
    assert_true(llabs(r.samples[0].t_us - clock_wall_us()) < 3 * US_PER_S);
    int64_t end = prom_align(clock_wall_us(), US_PER_S);
    struct prom_query range = {.query = "vector(2)", .start_us = end - 9999 * US_PER_S, .end_us = end,
                               .step_us = US_PER_S, .result = &r};
    assert_ok(prom_do(w.prom, &range, &info, &e), &e);
    assert_int_equal(r.n_samples, 10000);
    assert_int_equal(r.samples[9999].t_us, end);
    prom_result_fini(&r);
    close_world(&w);
}

TEST(prometheus_refusals_say_what_is_wrong)
{
    struct world w;
    struct prom_result r = {0};
    struct err e;
    open_world(&w);
    exporter_set(w.x, "m", "a=\"1\"", 1);
    exporter_set(w.x, "m", "a=\"2\"", 1);
    test_prometheus_until(&w.p, "count(m)", "\"2\"");
    struct prom_query q = {.query = "sum(", .result = &r};
    assert_err(prom_do(w.prom, &q, NULL, &e), ERR_INVAL, &e, "HTTP 400, bad_data");
    q.query = "last_over_time(m[9s]) * on(job) last_over_time(m[9s])"; /* a scrape may be late just now */
    assert_err(prom_do(w.prom, &q, NULL, &e), ERR_INVAL, &e, "HTTP 422, execution");
    prom_result_fini(&r);
    close_world(&w);
}

TEST(prometheus_takes_long_queries_as_a_form)
{
    struct world w;
    struct buf text = buf_init(1 << 20);
    open_world(&w);
    buf_str(&text, "count(vector(1)");
    for (int i = 0; i < 300; i++)
        buf_str(&text, " or vector(1)");
    buf_char(&text, ')');
    assert_true(ask(&w, text.p) == 1);
    buf_fini(&text);
    close_world(&w);
}

static const char *make_certificate(void)
{
    const char *dir = test_tmp_dir();
    if (system(test_path("openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2 -subj /CN=x "
                         "-addext subjectAltName=IP:127.0.0.1 -keyout %s/key.pem -out %s/cert.pem >/dev/null 2>&1",
                         dir, dir)) != 0)
        fail_msg("openssl does not make a certificate");
    return dir;
}

/* crypt(3) of "secret": bcrypt at its least cost. */
#define SECRET_BCRYPT "$2b$04$bGtWXE5eZ4GbfEWm5hcLcuXOFTjPUIfx5aIn.usLrLrGKgKXSMYTa"

TEST(prometheus_over_tls_with_basic_authentication)
{
    struct world w = {0};
    struct prom_result r = {0};
    struct err e = {0};
    char config[512];
    (void)test_prometheus_program("prometheus");
    const char *dir = make_certificate();
    test_prometheus_config(config, sizeof config, NULL, 0, "1s");
    test_prometheus_run(&w.p, config,
                        test_path("tls_server_config: {cert_file: %s/cert.pem, key_file: %s/key.pem}\n"
                                  "basic_auth_users: {jane: '" SECRET_BCRYPT "'}\n",
                                  dir, dir),
                        NULL);
    char ca[512];
    (void)snprintf(ca, sizeof ca, "%s/cert.pem", dir);
    connect_to(&w, &(struct http_server_opts){.url = w.p.url, .ca_file = ca, .user = "jane", .password = "secret"});
    struct prom_query q = {.query = "vector(7)", .result = &r, .attempts = 40};
    assert_ok(prom_do(w.prom, &q, NULL, &e), &e);
    assert_true(r.samples[0].v == 7);
    disconnect(&w);
    connect_to(&w, &(struct http_server_opts){.url = w.p.url, .ca_file = ca, .user = "jane", .password = "wrong"});
    struct prom_info info;
    assert_err(prom_do(w.prom, &q, &info, &e), ERR_IO, &e, "HTTP 401");
    assert_int_equal(info.tries, 1);
    prom_result_fini(&r);
    disconnect(&w);
    test_prometheus_stop(&w.p);
}

/* ---- built-in queries ---------------------------------------------------------------------------
 */

static bool by_index(void *ctx, const char *namespace, const char *pod, struct collect_pod *out)
{
    const char *shop = ctx;
    *out = (struct collect_pod){.target = 0};
    return strcmp(namespace, shop) == 0 && strncmp(pod, "web-", 4) == 0;
}

struct trace {
    struct history h;
    float qps[1];
};

static struct service *steady_service(struct trace *t, const char *namespace, double qps, int units)
{
    struct service_opts o = service_opts_default();
    o.namespace = namespace;
    t->qps[0] = (float)qps;
    t->h = (struct history){.step_us = US_PER_S, .n = 1, .col[FIELD_QPS] = t->qps};
    o.load = &t->h;
    o.units = units;
    o.unit_qps = 100;
    return service_new(&o, clock_wall_us());
}

static void page(void *ctx, struct buf *out)
{
    service_page(ctx, clock_wall_us(), out);
}

/* Rounds of a collector whose decision clock advances a step per round, without waiting for it. */
static void rounds(struct world *w, struct collect *c, int64_t *now_us, int n)
{
    for (int i = 0; i < n; i++) {
        collect_start_round(c, *now_us += 10 * US_PER_S);
        while (collect_running(c)) {
            (void)collect_tick(c);
            (void)http_poll(w->http, 10 * US_PER_MS);
        }
    }
}

static void set_target(struct collect *c, int index, const char *namespace, const char *name)
{
    struct collect_target t = {.kind = "Deployment"};
    struct err e;
    (void)snprintf(t.namespace, sizeof t.namespace, "%s", namespace);
    (void)snprintf(t.name, sizeof t.name, "%s", name);
    assert_ok(collect_set(c, index, &t, &e), &e);
}

static struct collect *open_collect(struct world *w, const struct queries_cfg *q, char *namespace)
{
    struct collect_opts o = collect_opts_default();
    struct collect *c;
    struct err e;
    o.prom = w->prom;
    o.queries = q;
    o.max_targets = 4;
    o.pod = by_index;
    o.ctx = namespace;
    assert_ok(collect_new(&o, &c, &e), &e);
    return c;
}

static void show_errors(const struct collect *c)
{
    for (int i = 0; i < collect_health_count(c); i++)
        if (collect_health_get(c, i)->error[0])
            fail_msg("%s: %s", collect_health_get(c, i)->name, collect_health_get(c, i)->error);
}

TEST(every_built_in_query_is_valid_for_prometheus)
{
    struct world w;
    struct queries_cfg cfg;
    struct queries q;
    struct err e;
    open_world(&w);
    opt_init(&queries_table, &cfg);
    assert_ok(queries_make(&cfg, &q, &e), &e);
    assert_int_equal(q.n, FIELD_COUNT);
    for (int i = 0; i < q.n; i++) {
        struct buf text = buf_init(1 << 20), one = buf_init(1 << 20);
        struct query_target t = {.namespace = "shop", .name = "web", .kind = "Deployment"};
        double scale;
        assert_ok(query_fill(q.q[i].text, NULL, q.window_us, &text, &e), &e);
        assert_true(isnan(ask(&w, text.p)));
        assert_ok(query_for_target(&cfg, q.q[i].field, &t, q.window_us, &one, &scale, &e), &e);
        assert_true(one.n > 0);
        assert_true(isnan(ask(&w, one.p)));
        buf_fini(&text);
        buf_fini(&one);
    }
    queries_free(&q);
    opt_fini(&queries_table, &cfg);
    close_world(&w);
}

TEST(a_replayed_service_is_collected_through_the_built_in_queries)
{
    struct world w;
    char shop[] = "shop1";
    struct trace t;
    struct queries_cfg cfg;
    struct collect_sample s;
    int64_t now = clock_wall_us();
    open_world(&w);
    opt_init(&queries_table, &cfg);
    cfg.window_us = 3 * US_PER_S;
    struct service *web = steady_service(&t, shop, 120, 2);
    exporter_hook(w.x, page, NULL, web);
    test_prometheus_until(&w.p, "sum(rate(http_requests_total{namespace=\"shop1\"}[3s])) > 110 and sum(count_over_time(up[3s])) > 25", "value");
    struct collect *c = open_collect(&w, &cfg, shop);
    set_target(c, 0, shop, "web");
    set_target(c, 1, shop, "absent");
    rounds(&w, c, &now, 5);
    show_errors(c);
    assert_true(collect_view(c, 0, now, &s));
    assert_int_equal(s.n_records, 5);
    /* counters are read a moment after the scrape's time stamp: on a busy machine rates are off by as much */
    assert_near((double)s.value[FIELD_QPS], 120, 0, 0.3);
    assert_near((double)s.value[FIELD_GPU_UTIL], 0.6, 0.002, 0);
    assert_near((double)s.value[FIELD_GPU_MEM_UTIL], 40.0 / 81, 1e-3, 0);
    assert_near((double)s.value[FIELD_CPU_UTIL], 0.6, 0, 0.3);
    assert_near((double)s.value[FIELD_MEM_UTIL], 0.5, 1e-6, 0);
    assert_near((double)s.value[FIELD_P50_LATENCY_MS], 100, 0, 0.3);
    assert_near((double)s.value[FIELD_P99_LATENCY_MS], 400, 0, 0.3);
    assert_near((double)s.value[FIELD_QUEUE_LEN], 0, 1e-9, 0);
    assert_near((double)s.value[FIELD_UNITS_READY], 2, 0, 0);
    assert_near((double)s.value[FIELD_UNITS_TOTAL], 2, 0, 0);
    assert_true(llabs(s.sample_us - now) < 3 * US_PER_S);
    assert_false(collect_view(c, 1, now, &s));
    struct collect_status status;
    collect_status(c, &status);
    assert_true(status.clock.known && !status.clock.skewed);
    assert_true(llabs(status.clock.server_us) < US_PER_S);
    collect_free(c);
    opt_fini(&queries_table, &cfg);
    close_world(&w);
    service_free(web);
}

TEST(the_query_for_one_target_gives_what_the_query_for_all_gives)
{
    struct world w;
    char shop[] = "shop2";
    struct trace t;
    struct queries_cfg cfg;
    struct err e;
    open_world(&w);
    opt_init(&queries_table, &cfg);
    struct service *web = steady_service(&t, shop, 120, 2);
    exporter_hook(w.x, page, NULL, web);
    test_prometheus_until(&w.p, "sum(rate(http_requests_total{namespace=\"shop2\"}[3s])) > 110", "value");
    struct query_target target = {.namespace = shop, .name = "web", .kind = "Deployment"};
    static const struct {
        enum field f;
        double want, tolerance;
    } rows[] = {{FIELD_QPS, 120, 0.3},           {FIELD_GPU_UTIL, 0.6, 0.01}, {FIELD_CPU_UTIL, 0.6, 0.3},
                {FIELD_P99_LATENCY_MS, 400, 0.3}, {FIELD_UNITS_READY, 2, 0},    {FIELD_MEM_UTIL, 0.5, 0.01}};
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct buf text = buf_init(1 << 20);
        double scale;
        assert_ok(query_for_target(&cfg, rows[i].f, &target, 3 * US_PER_S, &text, &scale, &e), &e);
        assert_near(ask(&w, text.p) * scale, rows[i].want, 0, rows[i].tolerance);
        buf_fini(&text);
    }
    opt_fini(&queries_table, &cfg);
    close_world(&w);
    service_free(web);
}

/* One series made up of a value and labels "a=b,c=d". */
static const char *series_of(const char *value, const char *ns, const char *key, const char *name)
{
    return test_path("label_replace(label_replace(vector(%s), \"namespace\", \"%s\", \"\", \"\"), \"%s\", \"%s\", \"\", \"\")",
                     value, ns, key, name);
}

TEST(a_query_for_all_of_one_s_own_gives_the_history_of_one_target)
{
    static const struct {
        const char *settings; /* of qps, separated by blanks */
        struct {
            const char *value, *ns, *key, *name;
        } s[3];
        const char *kind;
        double want; /* NaN: no sample */
    } rows[] = {
        {"by=workload", {{"5", "shop", "deployment", "web"}, {"7", "shop", "deployment", "mail"}, {"9", "lab", "deployment", "web"}},
         "Deployment", 5},
        {"by=workload", {{"5", "shop", "workload", "web"}, {"7", "shop", "workload", "mail"}}, "StatefulSet", 5},
        {"by=workload", {{"5", "shop", "statefulset", "web"}}, "Deployment", NAN},
        {"by=workload label=app", {{"5", "shop", "app", "web"}, {"7", "shop", "deployment", "web"}}, "Deployment", 5},
        {"by=pod", {{"5", "shop", "pod", "web-7d9f8b6c4d-x2x2x"}, {"6", "shop", "pod", "web-7d9f8b6c4d-z9z9z"},
                    {"7", "shop", "pod", "web-mail-7d9f8b6c4d-x2x2x"}}, "Deployment", 11},
        {"by=pod aggregate=mean", {{"5", "shop", "pod", "web-0"}, {"6", "shop", "pod", "web-11"}, {"7", "lab", "pod", "web-0"}},
         "StatefulSet", 5.5},
        {"by=pod label=instance", {{"5", "shop", "instance", "web-0"}, {"7", "shop", "pod", "web-0"}}, "StatefulSet", 5},
        {"by=workload counter=true", {{"2 * time()", "shop", "deployment", "web"}, {"7", "shop", "deployment", "mail"}},
         "Deployment", 2},
    };
    struct world w;
    struct err e;
    open_world(&w);
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct queries_cfg cfg;
        struct buf text = buf_init(1 << 20), query = buf_init(1 << 16);
        char settings[100];
        double scale;
        opt_init(&queries_table, &cfg);
        for (size_t k = 0; k < ARRAY_LEN(rows[i].s) && rows[i].s[k].value; k++)
            buf_fmt(&query, "%s%s", k ? " or " : "qps.query=",
                    series_of(rows[i].s[k].value, rows[i].s[k].ns, rows[i].s[k].key, rows[i].s[k].name));
        assert_ok(opt_set(&queries_table, &cfg, query.p, NULL, &e), &e);
        (void)snprintf(settings, sizeof settings, "%s", rows[i].settings);
        for (char *at = settings, *one; (one = strsep(&at, " "));)
            assert_ok(opt_set(&queries_table, &cfg, test_path("qps.%s", one), NULL, &e), &e);
        struct query_target t = {.namespace = "shop", .name = "web", .kind = rows[i].kind};
        assert_ok(query_for_target(&cfg, FIELD_QPS, &t, 60 * US_PER_S, &text, &scale, &e), &e);
        double got = ask(&w, text.p);
        if (isnan(rows[i].want) ? !isnan(got) : !(fabs(got - rows[i].want) < 1e-6))
            fail_msg("row %zu: %g, expected %g from %s", i, got, rows[i].want, text.p);
        buf_fini(&text);
        buf_fini(&query);
        opt_fini(&queries_table, &cfg);
    }
    close_world(&w);
}

/* Seen points of an hour's history, all of one value; NaN: none. */
static double mean_past(struct past *p, const struct past_question *q)
{
    struct past_answer a;
    double sum = 0;
    int64_t until_us = clock_mono_us() + 30 * US_PER_S;
    assert_true(past_ask(p, q));
    while (!past_take(p, &a))
        assert_true(clock_mono_us() < until_us && sched_yield() == 0);
    assert_true(a.rc == ERR_OK || a.n_points == 0);
    for (int i = 0; i < a.n_points; i++)
        sum += (double)a.point[i];
    double mean = a.n_points ? sum / a.n_points : (double)NAN;
    past_answer_fini(&a);
    return mean;
}

TEST(history_at_the_start_is_read_by_the_configured_queries_for_all_and_by_a_target_s_own)
{
    struct world w;
    struct queries_cfg cfg;
    struct past *p;
    struct err e;
    open_world(&w);
    opt_init(&queries_table, &cfg);
    assert_ok(opt_set(&queries_table, &cfg,
                      test_path("qps.query=%s or %s", series_of("5", "shop", "deployment", "web"),
                                series_of("7", "shop", "deployment", "mail")), NULL, &e), &e);
    assert_ok(opt_set(&queries_table, &cfg, "qps.by=workload", NULL, &e), &e);
    struct http_server_opts server = {.url = w.p.url};
    assert_ok(past_start(&(struct past_opts){.server = &server, .queries = &cfg, .span_us = 3600 * US_PER_S,
                                             .timeout_us = 10 * US_PER_S}, &p, &e), &e);
    struct past_question q = {.namespace_ = "shop", .name = "web", .kind = "Deployment", .until_us = clock_wall_us()};
    assert_near(mean_past(p, &q), 5, 1e-6, 0);
    (void)snprintf(q.name, sizeof q.name, "mail");
    assert_near(mean_past(p, &q), 7, 1e-6, 0);
    (void)snprintf(q.name, sizeof q.name, "ghost");
    assert_true(isnan(mean_past(p, &q)));
    q.own[FIELD_QPS] = "label_replace(vector(9), \"name\", \"{name}\", \"\", \"\")";
    assert_near(mean_past(p, &q), 9, 1e-6, 0);
    assert_true(past_ask(p, &q)); /* and one that nobody waits for */
    past_stop(p);
    opt_fini(&queries_table, &cfg);
    close_world(&w);
}

/* ---- traps --------------------------------------------------------------------------------------
 */

static void load_query(struct queries_cfg *cfg, const char *assignment)
{
    struct err e;
    assert_ok(opt_set(&queries_table, cfg, assignment, NULL, &e), &e);
}

static void only(struct queries_cfg *cfg, enum field keep)
{
    opt_init(&queries_table, cfg);
    cfg->window_us = 2 * US_PER_S;
    for (int f = 0; f < FIELD_COUNT; f++)
        if (f != (int)keep)
            load_query(cfg, test_path("%s.query=none", field_get((enum field)f)->name));
}

TEST(blank_markers_and_not_a_number_of_dcgm_are_missing)
{
    static const double values[] = {9223372036854775794.0, 2147483632.0, (double)NAN, 140737488355328.0};
    struct world w;
    char shop[] = "shop3";
    struct queries_cfg cfg;
    struct collect_sample s;
    int64_t now = clock_wall_us();
    open_world(&w);
    only(&cfg, FIELD_GPU_UTIL);
    struct collect *c = open_collect(&w, &cfg, shop);
    set_target(c, 0, shop, "web");
    exporter_set(w.x, "DCGM_FI_DEV_GPU_UTIL", "gpu=\"1\",namespace=\"shop3\",pod=\"web-0\"", 40);
    for (size_t i = 0; i < ARRAY_LEN(values); i++) {
        exporter_set(w.x, "DCGM_FI_DEV_GPU_UTIL", "gpu=\"0\",namespace=\"shop3\",pod=\"web-0\"", values[i]);
        exporter_set(w.x, "step", "", (double)i);
        test_prometheus_until(&w.p, "step", test_path("\"%zu\"", i));
        rounds(&w, c, &now, 1);
        assert_true(collect_view(c, 0, now, &s));
        assert_near((double)s.last[FIELD_GPU_UTIL], 0.4, 1e-6, 0);
    }
    collect_free(c);
    opt_fini(&queries_table, &cfg);
    close_world(&w);
}

TEST(a_target_that_is_no_longer_scraped_goes_missing)
{
    struct world w;
    char shop[] = "shop4";
    struct queries_cfg cfg;
    struct collect_sample s;
    int64_t now = clock_wall_us();
    open_world(&w);
    only(&cfg, FIELD_UNITS_READY);
    struct collect *c = open_collect(&w, &cfg, shop);
    set_target(c, 0, shop, "web");
    exporter_set(w.x, "kube_deployment_status_replicas_ready", "namespace=\"shop4\",deployment=\"web\"", 3);
    test_prometheus_until(&w.p, "kube_deployment_status_replicas_ready{namespace=\"shop4\"}", "\"3\"");
    rounds(&w, c, &now, 5);
    assert_true(collect_view(c, 0, now, &s));
    assert_near((double)s.value[FIELD_UNITS_READY], 3, 0, 0);
    exporter_fail(w.x, 500);
    test_prometheus_until(&w.p, "absent(last_over_time(kube_deployment_status_replicas_ready[2s]))", "value");
    rounds(&w, c, &now, 4);
    assert_true(collect_view(c, 0, now, &s));
    assert_true(isnan(s.last[FIELD_UNITS_READY]) || s.sample_us < now - 20 * US_PER_S);
    assert_true(now - s.sample_us > 30 * US_PER_S);
    collect_free(c);
    opt_fini(&queries_table, &cfg);
    close_world(&w);
}

TEST(a_restarted_counter_gives_no_negative_rate)
{
    struct world w;
    char shop[] = "shop5";
    struct queries_cfg cfg;
    struct collect_sample s;
    int64_t now = clock_wall_us();
    open_world(&w);
    only(&cfg, FIELD_QPS);
    struct collect *c = open_collect(&w, &cfg, shop);
    set_target(c, 0, shop, "web");
    exporter_set(w.x, "http_requests_total", "namespace=\"shop5\",pod=\"web-0\"", 1e6);
    test_prometheus_until(&w.p, "count_over_time(http_requests_total[2s]) > 3", "value");
    exporter_set(w.x, "http_requests_total", "namespace=\"shop5\",pod=\"web-0\"", 10);
    test_prometheus_until(&w.p, "resets(http_requests_total[2s])", "\"1\"");
    rounds(&w, c, &now, 1);
    assert_true(collect_view(c, 0, now, &s));
    assert_true(s.last[FIELD_QPS] >= 0 && s.last[FIELD_QPS] < 100);
    collect_free(c);
    opt_fini(&queries_table, &cfg);
    close_world(&w);
}

static void check_samples_clock(struct world *w, const char *id, int64_t offset_ms, const char *text)
{
    char nowhere[] = "nowhere";
    struct queries_cfg cfg;
    struct collect_status status;
    int64_t now = clock_wall_us();
    char query[160];
    (void)snprintf(query, sizeof query,
                   "max(timestamp(container_memory_working_set_bytes{id=\"%s\"} offset -2m)) - time()", id);
    only(&cfg, FIELD_QPS);
    assert_true(strcmp(id, "/") != 0 || strcmp(query, cfg.skew_query) == 0); /* the first is the default */
    load_query(&cfg, test_path("skew_query=%s", query));
    exporter_set_stamped(w->x, "container_memory_working_set_bytes", test_path("id=\"%s\"", id), 1e9, offset_ms);
    test_prometheus_until(&w->p, query, "value\"");
    struct collect *c = open_collect(w, &cfg, nowhere);
    rounds(w, c, &now, 1);
    collect_status(c, &status);
    assert_true(status.clock.skewed);
    assert_non_null(strstr(status.clock.text, text));
    assert_near((double)status.clock.samples_us * 1e-6, (double)offset_ms * 1e-3, 5, 0);
    collect_free(c);
    opt_fini(&queries_table, &cfg);
}

TEST(clocks_of_exporters_sixty_seconds_off_are_detected)
{
    struct world w;
    open_world(&w);
    check_samples_clock(&w, "/", 60000, "ahead of Prometheus' clock");
    check_samples_clock(&w, "/behind", -60000, "behind Prometheus' clock");
    close_world(&w);
}

TEST(a_query_by_target_fills_its_pods_and_two_samples_are_named)
{
    struct world w;
    char shop[] = "shop7";
    struct queries_cfg cfg;
    struct collect_sample s;
    int64_t now = clock_wall_us();
    open_world(&w);
    only(&cfg, FIELD_QUEUE_LEN);
    load_query(&cfg, "queue_len.query=waiting{namespace=\"{namespace}\",pod=~\"{pods}\"}");
    struct collect *c = open_collect(&w, &cfg, shop);
    set_target(c, 0, shop, "web");
    exporter_set(w.x, "waiting", "namespace=\"shop7\",pod=\"web-0\"", 5);
    exporter_set(w.x, "waiting", "namespace=\"shop7\",pod=\"webster-0\"", 7);
    test_prometheus_until(&w.p, "count(waiting)", "\"2\"");
    rounds(&w, c, &now, 1);
    show_errors(c);
    assert_true(collect_view(c, 0, now, &s));
    assert_near((double)s.last[FIELD_QUEUE_LEN], 5, 0, 0);
    exporter_set(w.x, "waiting", "namespace=\"shop7\",pod=\"web-1\"", 6);
    test_prometheus_until(&w.p, "count(waiting)", "\"3\"");
    rounds(&w, c, &now, 1);
    const struct collect_health *h = collect_health_get(c, 0);
    assert_non_null(strstr(h->error, "query queue_len: two samples for shop7/web"));
    assert_int_equal(h->ambiguous, 1);
    assert_true(collect_view(c, 0, now, &s));
    assert_int_equal(s.n_records, 1);
    collect_free(c);
    opt_fini(&queries_table, &cfg);
    close_world(&w);
}
