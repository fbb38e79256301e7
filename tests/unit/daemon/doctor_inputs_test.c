/* doctor and everything beside the API server: a real Prometheus, the record, the brake, clocks and
 * the stage. */
#include "store/store.h"
#include "tests/exporter/exporter.h"
#include "tests/support/prometheus.h"
#include "tests/unit/daemon/doctor_fixture.h"
#include "tests/unit/daemon/serve_fixture.h"

/* ---- prometheus and queries --------------------------------------------------------------------
 */

/* Load and latency of shop/chat by workload, so that no pod names are needed. */
static const char queries[] =
    "queries:\n"
    "  qps: {query: 'sum by (namespace, deployment) (my_qps)', by: workload}\n"
    "  p99_latency_ms: {query: 'max by (namespace, deployment) (my_p99)', by: workload}\n";

struct ward {
    struct clinic c;
    struct exporter *x;
    struct test_prometheus *prom;
    char more[1200];
};

static void ward_start(struct ward *w, const char *name)
{
    memset(w, 0, sizeof *w);
    w->prom = test_prometheus_shared(&w->x);
    exporter_set(w->x, "my_qps", "namespace=\"shop\",deployment=\"chat\"", 12);
    exporter_set(w->x, "my_p99", "namespace=\"shop\",deployment=\"chat\"", 120);
    test_prometheus_until(w->prom, "count(my_qps) + count(my_p99)", "\"2\"");
    clinic_start(&w->c, name);
}

static void ward_visit(struct ward *w, const char *stage, const char *q)
{
    (void)snprintf(w->more, sizeof w->more, "prometheus: {url: %s}\n%s", w->prom->url, q);
    clinic_visit(&w->c, stage, w->more, NULL);
}

static void ward_end(struct ward *w)
{
    clinic_end(&w->c);
    exporter_clear(w->x);
}

TEST(a_prometheus_with_fresh_load_and_latency_passes)
{
    struct ward w;
    ward_start(&w, "fresh");
    ward_visit(&w, "observe", queries);
    assert_verdict(&w.c, DOCTOR_PROMETHEUS, DOCTOR_OK);
    assert_verdict(&w.c, DOCTOR_QUERIES, DOCTOR_OK);
    assert_said(&w.c.report, DOCTOR_QUERIES, DOCTOR_OK, "has qps, p99_latency_ms");
    assert_verdict(&w.c, DOCTOR_CLOCK_SKEW, DOCTOR_OK);
    assert_verdict(&w.c, DOCTOR_HISTORY, DOCTOR_WARN); /* a Prometheus of seconds */
    ward_end(&w);
}

/* One series of 15 days, a sample a minute, up to now. */
static void write_past(const char *path)
{
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    int64_t now_s = clock_wall_us() / US_PER_S;
    (void)fputs("# TYPE my_qps gauge\n", f);
    for (int64_t t = now_s - 15 * 86400; t < now_s; t += 60)
        (void)fprintf(f, "my_qps{namespace=\"shop\",deployment=\"chat\"} %lld %lld\n",
                      (long long)(10 + t / 60 % 50), (long long)t);
    (void)fputs("# EOF\n", f);
    assert_int_equal(fclose(f), 0);
}

TEST(two_weeks_of_load_in_prometheus_are_enough_history)
{
    static const char by_target[] =
        "queries: {qps: {query: 'my_qps{namespace=\"{namespace}\",deployment=\"{name}\"}', by: "
        "target}}\n";
    struct test_prometheus own;
    struct ward w = {.prom = &own};
    char config[1024];
    clinic_start(&w.c, "past");
    const char *metrics = test_path("%s/past.om", w.c.dir), *data = test_path("%s/blocks", w.c.dir);
    write_past(metrics);
    test_prometheus_blocks(metrics, data);
    test_prometheus_config(config, sizeof config, NULL, 0, "1h");
    test_prometheus_run(&own, config, NULL, data);
    ward_visit(&w, "observe", by_target);
    assert_said(&w.c.report, DOCTOR_HISTORY, DOCTOR_OK, "14.0 days of load");
    ward_visit(&w, "observe", test_path("%shistory: 5d\n", by_target));
    assert_said(&w.c.report, DOCTOR_HISTORY, DOCTOR_WARN, "history is set to 5.0 days");
    assert_said(&w.c.report, DOCTOR_HISTORY, DOCTOR_WARN, "No forecast is used before 7 days");
    clinic_end(&w.c);
    test_prometheus_stop(&own);
}

TEST(a_target_without_load_fails_and_one_without_latency_too)
{
    struct ward w;
    ward_start(&w, "no-load");
    exporter_remove(w.x, "my_p99", NULL);
    test_prometheus_until(w.prom, "absent(my_p99)", "\"1\"");
    ward_visit(&w, "observe", queries);
    assert_said(&w.c.report, DOCTOR_QUERIES, DOCTOR_FAIL, "has no p99_latency_ms");
    exporter_remove(w.x, "my_qps", NULL);
    test_prometheus_until(w.prom, "absent(my_qps)", "\"1\"");
    ward_visit(&w, "observe", queries);
    assert_said(&w.c.report, DOCTOR_QUERIES, DOCTOR_FAIL, "has no qps");
    ward_end(&w);
}

TEST(a_wrong_query_fails_with_prometheus_own_words)
{
    struct ward w;
    ward_start(&w, "wrong-query");
    ward_visit(&w, "observe", "queries: {qps: {query: 'sum by (', by: workload}}\n");
    assert_said(&w.c.report, DOCTOR_QUERIES, DOCTOR_FAIL, "query qps");
    assert_said(&w.c.report, DOCTOR_QUERIES, DOCTOR_FAIL, "parse error");
    ward_end(&w);
}

TEST(two_samples_where_one_is_expected_fail)
{
    struct ward w;
    ward_start(&w, "two");
    exporter_set(w.x, "my_qps", "namespace=\"shop\",deployment=\"chat\",version=\"b\"", 3);
    test_prometheus_until(w.prom, "count(my_qps)", "\"2\"");
    ward_visit(&w, "observe", "queries: {qps: {query: my_qps, by: workload, aggregate: one}}\n");
    assert_said(&w.c.report, DOCTOR_QUERIES, DOCTOR_FAIL, "two samples");
    ward_end(&w);
}

TEST(an_absent_prometheus_is_one_failure)
{
    struct clinic c;
    clinic_start(&c, "no-prometheus");
    clinic_visit(&c, "observe", "prometheus: {url: 'http://127.0.0.1:1', timeout: 1s}\n", NULL);
    assert_verdict(&c, DOCTOR_PROMETHEUS, DOCTOR_FAIL);
    assert_verdict(&c, DOCTOR_QUERIES, DOCTOR_SKIP);
    assert_verdict(&c, DOCTOR_HISTORY, DOCTOR_SKIP);
    clinic_visit(&c, "observe", "", NULL);
    assert_said(&c.report, DOCTOR_PROMETHEUS, DOCTOR_FAIL, "there are no measurements");
    clinic_end(&c);
}

/* ---- clocks ------------------------------------------------------------------------------------
 */

TEST(clocks_apart_are_a_warning_and_beyond_a_minute_a_failure)
{
    static const struct {
        int64_t skew_us;
        enum doctor_verdict want;
    } cases[] = {{2 * US_PER_S, DOCTOR_OK},    {-2 * US_PER_S, DOCTOR_OK},
                 {30 * US_PER_S, DOCTOR_WARN}, {-30 * US_PER_S, DOCTOR_WARN},
                 {61 * US_PER_S, DOCTOR_FAIL}, {-3600 * US_PER_S, DOCTOR_FAIL},
                 {INT64_MIN, DOCTOR_SKIP}};
    struct run_config config;
    struct err e;
    assert_ok(run_config_load(&config, NULL, NULL, 0, NULL, &e), &e);
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct doctor_report r = {0};
        struct doctor d = {.report = &r,
                           .config = &config,
                           .prom_skew_us = cases[i].skew_us,
                           .samples_skew_us = INT64_MIN};
        doctor_see_clocks(&d);
        assert_int_equal(r.check[DOCTOR_CLOCK_SKEW].verdict, cases[i].want);
        doctor_fini(&r);
    }
    run_config_fini(&config);
}

/* ---- the record and the stage ------------------------------------------------------------------
 */

/* One decision an hour over the last `days`, in this stage. */
static void record_days(struct clinic *c, const char *stage, int days, int days_ago)
{
    struct store *s;
    struct err e;
    int64_t now_us = clock_wall_us(), target, id, config;
    char *path = store_path_default(c->dir);
    struct store_opts o = store_opts_default(path);
    assert_ok(store_open(&o, &s, &e), &e);
    assert_ok(store_begin(s, &e), &e);
    const struct store_target t = {.cluster = "c",
                                   .group = "apps",
                                   .kind = "Deployment",
                                   .namespace_ = "shop",
                                   .name = "chat",
                                   .uid = "u"};
    assert_ok(store_target_id(s, &t, now_us, &target, &e), &e);
    assert_ok(store_config_id(s, "policy: hpa\n", now_us, &config, &e), &e);
    for (int h = 24 * days; h > 0; h--) {
        struct store_decision d = {.target_id = target,
                                   .config_id = config,
                                   .holder = "sluice-0",
                                   .stage = stage,
                                   .policy = "mpc",
                                   .verdict = "pass",
                                   .why = "",
                                   .rule = "hpa",
                                   .rule_units = 10,
                                   .executed = 8 + h % 2,
                                   .time_us = now_us - 24 * US_PER_HOUR * days_ago -
                                              h * US_PER_HOUR + US_PER_S * 10};
        assert_ok(store_put_decision(s, &d, &id, &e), &e);
    }
    assert_ok(store_commit(s, &e), &e);
    store_close(s);
    mem_free(path);
}

TEST(observe_is_where_to_begin_and_a_week_of_it_comes_before_single)
{
    struct clinic c;
    clinic_start(&c, "first-day");
    clinic_visit(&c, "observe", "", NULL);
    assert_said(&c.report, DOCTOR_STAGE, DOCTOR_OK, "where to begin");
    clinic_visit(&c, "single", "", NULL);
    assert_verdict(&c, DOCTOR_STAGE, DOCTOR_WARN); /* nothing shows a week of observe */
    record_days(&c, "observe", 3, 0);
    clinic_visit(&c, "observe", "", NULL);
    assert_said(&c.report, DOCTOR_STAGE, DOCTOR_OK, "3.0 days in observe so far; 7 before single");
    clinic_visit(&c, "single", "", NULL);
    assert_verdict(&c, DOCTOR_STAGE, DOCTOR_WARN);
    assert_said(&c.report, DOCTOR_STAGE, DOCTOR_WARN, "early promotion");
    clinic_end(&c);
}

TEST(a_week_on_record_is_a_promotion_in_time)
{
    struct clinic c;
    clinic_start(&c, "in-time");
    record_days(&c, "observe", 8, 2);
    record_days(&c, "single", 2, 0);
    clinic_visit(&c, "single", "", NULL);
    assert_verdict(&c, DOCTOR_STAGE, DOCTOR_OK);
    assert_said(&c.report, DOCTOR_STAGE, DOCTOR_OK, "8.0 days in observe came before single");
    assert_said(&c.report, DOCTOR_STORE_AND_FREEZE, DOCTOR_OK, "240 decisions on record");
    assert_said(&c.report, DOCTOR_STAGE, DOCTOR_OK,
                "fewer units than the rules beside it: -15.0 %");
    clinic_visit(&c, "extended", "", NULL);
    assert_said(&c.report, DOCTOR_STAGE, DOCTOR_WARN, "early promotion: 2.0 days in single");
    clinic_end(&c);
}

TEST(a_damaged_record_and_a_full_disk_to_be_are_told)
{
    struct clinic c;
    clinic_start(&c, "damaged");
    test_write_file(test_path("%s/sluice.db", c.dir),
                    "this is no database, and long enough to be looked at", 52);
    clinic_visit(&c, "observe", "store: {max_bytes: 1000GiB}\n", NULL);
    assert_verdict(&c, DOCTOR_STORE_AND_FREEZE, DOCTOR_FAIL);
    assert_said(&c.report, DOCTOR_STORE_AND_FREEZE, DOCTOR_FAIL, "Move the file away");
    assert_said(&c.report, DOCTOR_STORE_AND_FREEZE, DOCTOR_WARN, "1000.0 GiB");
    clinic_end(&c);
}

/* ---- the brake ---------------------------------------------------------------------------------
 */

static void visit_replica(struct clinic *c, const struct rig *r, const char *token_file)
{
    const char *url = test_path("http://127.0.0.1:%d", serve_port(r->serve));
    const char *const urls[] = {url, "http://127.0.0.1:1"};
    clinic_visit(
        c, "observe", "",
        &(struct doctor_opts){.replicas = urls, .n_replicas = 2, .token_file = token_file});
}

TEST(every_replica_is_asked_whether_it_can_be_frozen)
{
    struct clinic c;
    struct rig r;
    struct err e;
    rig_simple(&r, "doctor");
    clinic_start(&c, "brake");
    const char *token = test_path("%s/token", r.dir), *wrong = test_path("%s/wrong", c.dir);
    visit_replica(&c, &r, token);
    assert_said(&c.report, DOCTOR_STORE_AND_FREEZE, DOCTOR_OK, "the freeze endpoint answers in");
    assert_said(&c.report, DOCTOR_STORE_AND_FREEZE, DOCTOR_FAIL,
                "kill -USR1"); /* the one that is not there */
    test_write_file(wrong, "not-the-token-of-this-replica", 29);
    visit_replica(&c, &r, wrong);
    assert_said(&c.report, DOCTOR_STORE_AND_FREEZE, DOCTOR_FAIL, "answers 401");
    assert_ok(freeze_set(r.freeze, FREEZE_ENDPOINT, "ann", "bad rollout", clock_wall_us(), &e), &e);
    visit_replica(&c, &r, token);
    assert_said(&c.report, DOCTOR_STORE_AND_FREEZE, DOCTOR_WARN, "bad rollout");
    clinic_end(&c);
    rig_end(&r);
}

TEST(a_replica_without_a_token_cannot_be_frozen_by_its_endpoint)
{
    struct clinic c;
    clinic_start(&c, "no-token");
    clinic_visit(&c, "single", "", NULL);
    assert_said(&c.report, DOCTOR_STORE_AND_FREEZE, DOCTOR_FAIL, "there is no token: neither serve.token_file nor");
    clinic_visit(&c, "observe", "", NULL); /* which writes nothing that would have to be stopped */
    assert_said(&c.report, DOCTOR_STORE_AND_FREEZE, DOCTOR_WARN, "there is no token: neither serve.token_file nor");
    clinic_end(&c);
}
