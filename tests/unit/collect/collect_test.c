#include <malloc.h>
#include <math.h>

#include "tests/unit/collect/collect_fixture.h"

#define POD_SAMPLE(ns, pod, v) "{\"metric\":{\"namespace\":\"" ns "\",\"pod\":\"" pod "\"},\"value\":[@,\"" v "\"]}"
#define WORKLOAD_SAMPLE(ns, name, v)                                                               \
    "{\"metric\":{\"namespace\":\"" ns "\",\"deployment\":\"" name "\"},\"value\":[@,\"" v "\"]}"

static const char *const qps_by_pod[] = {"qps.query=rps", "qps.by=pod", NULL};
static const char *const qps_by_workload[] = {"qps.query=rps", "qps.by=workload", NULL};

/* ---- whose a sample is --------------------------------------------------------------------------
 */

TEST(samples_by_pod_go_to_their_targets_and_unknown_pods_are_counted)
{
    static const char *const settings[] = {"qps.query=rps", "qps.by=pod", "gpu_util.query=util", "gpu_util.by=pod",
                                           "gpu_util.scale=0.01", "p99_latency_ms.query=lat", "p99_latency_ms.by=pod",
                                           NULL};
    struct world w;
    fx_open(&w, settings);
    fx_set(&w, 0, "shop", "web");
    fx_set(&w, 3, "shop", "api");
    fx_add_pod(&w, "shop", "web-0", 0);
    fx_add_pod(&w, "shop", "web-1", 0);
    fx_add_pod(&w, "shop", "api-0", 3);
    fx_add_pod(&w, "shop", "lonely", -1);
    fx_rule(&w, "rps", VECTOR(POD_SAMPLE("shop", "web-0", "10") "," POD_SAMPLE("shop", "web-1", "20") "," POD_SAMPLE(
                           "shop", "api-0", "7") "," POD_SAMPLE("shop", "gone", "9") "," POD_SAMPLE("other", "web-0", "9") "," POD_SAMPLE("shop", "lonely", "9")));
    fx_rule(&w, "util", VECTOR(POD_SAMPLE("shop", "web-0", "40") "," POD_SAMPLE("shop", "web-1", "60")));
    fx_rule(&w, "lat", VECTOR(POD_SAMPLE("shop", "web-0", "40") "," POD_SAMPLE("shop", "web-1", "60")));
    fx_rounds(&w, 1);
    struct collect_sample web = fx_view(&w, 0), api = fx_view(&w, 3);
    assert_near((double)web.last[FIELD_QPS], 30, 0, 0);
    assert_near((double)api.last[FIELD_QPS], 7, 0, 0);
    assert_near((double)web.last[FIELD_GPU_UTIL], 0.5, 1e-6, 0);
    assert_true(isnan(api.last[FIELD_GPU_UTIL]));
    assert_near((double)web.last[FIELD_P99_LATENCY_MS], 60, 0, 0);
    const struct collect_health *h = fx_health(&w, "qps");
    assert_int_equal(h->last_dropped, 3);
    assert_int_equal(h->n_samples, 6);
    assert_int_equal(h->n_targets, 2);
    assert_string_equal(h->error, "");
    fx_close(&w);
}

TEST(the_exporters_own_labels_name_the_workload_where_they_clash_with_the_scrapes)
{
    struct world w;
    fx_open(&w, qps_by_pod);
    fx_set(&w, 0, "shop", "web");
    fx_add_pod(&w, "shop", "web-0", 0);
    fx_rule(&w, "rps", VECTOR("{\"metric\":{\"namespace\":\"gpu-operator\",\"pod\":\"dcgm-x\",\"exported_namespace\":"
                              "\"shop\",\"exported_pod\":\"web-0\"},\"value\":[@,\"3\"]}"));
    fx_rounds(&w, 1);
    assert_near((double)fx_view(&w, 0).last[FIELD_QPS], 3, 0, 0);
    fx_close(&w);
}

TEST(samples_by_workload_match_namespace_name_and_kind)
{
    struct world w;
    struct collect_target t = {.namespace = "shop", .name = "web", .kind = "StatefulSet"};
    struct err e;
    fx_open(&w, qps_by_workload);
    fx_set(&w, 0, "shop", "web");
    assert_ok(collect_set(w.c, 1, &t, &e), &e);
    fx_rule(&w, "rps", VECTOR(WORKLOAD_SAMPLE("shop", "web", "5") ",{\"metric\":{\"namespace\":\"shop\",\"statefulset\":"
                              "\"web\"},\"value\":[@,\"6\"]}," WORKLOAD_SAMPLE("other", "web", "9") ",{\"metric\":{"
                              "\"namespace\":\"shop\",\"workload\":\"web\"},\"value\":[@,\"9\"]}"));
    fx_rounds(&w, 1);
    assert_near((double)fx_view(&w, 0).last[FIELD_QPS], 5, 0, 0);
    assert_near((double)fx_view(&w, 1).last[FIELD_QPS], 6, 0, 0);
    assert_int_equal(fx_health(&w, "qps")->last_dropped, 2); /* another namespace; and which of the two webs? */
    fx_close(&w);
}

TEST(two_samples_where_one_is_expected_name_query_and_target_and_give_no_value)
{
    struct world w;
    fx_open(&w, qps_by_workload);
    fx_set(&w, 0, "shop", "web");
    fx_set(&w, 1, "shop", "api");
    fx_rule(&w, "rps", VECTOR("{\"metric\":{\"namespace\":\"shop\",\"deployment\":\"web\",\"code\":\"200\"},\"value\":[@,"
                              "\"5\"]}," WORKLOAD_SAMPLE("shop", "web", "1") "," WORKLOAD_SAMPLE("shop", "api", "2")));
    fx_rounds(&w, 1);
    struct collect_sample s;
    assert_false(collect_view(w.c, 0, w.now_us, &s));
    assert_near((double)fx_view(&w, 1).last[FIELD_QPS], 2, 0, 0);
    const struct collect_health *h = fx_health(&w, "qps");
    assert_non_null(strstr(h->error, "query qps: two samples for shop/web"));
    assert_int_equal(h->ambiguous, 1);
    fx_rule(&w, "rps", VECTOR(WORKLOAD_SAMPLE("shop", "web", "1")));
    fx_rounds(&w, 1);
    assert_string_equal(fx_health(&w, "qps")->error, "");
    fx_close(&w);
}

TEST(of_several_built_in_sources_only_the_first_counts)
{
    static const char *const settings[] = {"qps.query=auto", NULL};
    struct world w;
    fx_open(&w, settings);
    fx_set(&w, 0, "shop", "web");
    fx_set(&w, 1, "shop", "api");
    fx_add_pod(&w, "shop", "web-0", 0);
    fx_add_pod(&w, "shop", "api-0", 1);
#define SOURCE(labels, source, v) "{\"metric\":{\"namespace\":\"shop\"," labels ",\"sluice_source\":\"" source "\"},\"value\":[@,\"" v "\"]}"
    fx_rule(&w, "vllm", VECTOR(SOURCE("\"pod\":\"web-0\"", "http", "100") "," SOURCE("\"pod\":\"web-0\"", "vllm", "3") "," SOURCE(
                            "\"pod\":\"web-0\"", "http", "100") "," SOURCE("\"workload\":\"web\"", "istio", "50") "," SOURCE("\"workload\":\"api\"", "istio", "8") "," SOURCE("\"pod\":\"api-0\"", "http", "9")));
    fx_rounds(&w, 1);
    assert_near((double)fx_view(&w, 0).last[FIELD_QPS], 3, 0, 0);
    assert_near((double)fx_view(&w, 1).last[FIELD_QPS], 8, 0, 0);
    fx_close(&w);
}

TEST(queries_by_target_are_asked_for_each_with_its_pods_and_namespaces)
{
    static const char *const settings[] = {"qps.query=sum(rps{ns=\"{namespace}\",pod=~\"{pods}\",kind=\"{kind}\"}[{window}])",
                                           NULL};
    struct world w;
    fx_open(&w, settings);
    fx_set(&w, 2, "shop", "web");
    fx_rule(&w, "rps", VECTOR("{\"metric\":{},\"value\":[@,\"4\"]}"));
    fx_add_pod(&w, "shop", "web-0", 2);
    fx_add_pod(&w, "shop", "web.b-1", 2);
    fx_add_pod(&w, "shop", "bad\"pod", 2);
    fx_rounds(&w, 1);
    assert_string_equal(w.last_query, "sum(rps{ns=\"shop\",pod=~\"web-0|web[.]b-1\",kind=\"Deployment\"}[60s])");
    assert_near((double)fx_view(&w, 2).last[FIELD_QPS], 4, 0, 0);
    w.n_pods = 0;
    fx_rounds(&w, 1);
    assert_non_null(strstr(w.last_query, "pod=~\"-\"")); /* zero pods: matches none */
    fx_close(&w);
}

TEST(an_empty_vector_is_missing_not_zero)
{
    struct world w;
    struct collect_sample s;
    fx_open(&w, qps_by_pod);
    fx_set(&w, 0, "shop", "web");
    fx_rounds(&w, 6);
    assert_false(collect_view(w.c, 0, w.now_us, &s));
    assert_true(isnan(s.value[FIELD_QPS]) && isnan(s.qps_last));
    assert_int_equal(fx_health(&w, "qps")->n_samples, 0);
    fx_close(&w);
}

TEST(a_target_of_its_own_query_ignores_the_query_for_all)
{
    struct world w;
    struct err e;
    fx_open(&w, qps_by_pod);
    fx_set(&w, 0, "shop", "web");
    fx_set(&w, 1, "shop", "api");
    fx_add_pod(&w, "shop", "web-0", 0);
    fx_add_pod(&w, "shop", "api-0", 1);
    fx_rule(&w, "own_metric", VECTOR("{\"metric\":{},\"value\":[@,\"99\"]}"));
    fx_rule(&w, "rps", VECTOR(POD_SAMPLE("shop", "web-0", "1") "," POD_SAMPLE("shop", "api-0", "2")));
    assert_ok(collect_query(w.c, 0, FIELD_QPS, "own_metric{n=\"{name}\"}", &e), &e);
    fx_rounds(&w, 1);
    assert_near((double)fx_view(&w, 0).last[FIELD_QPS], 99, 0, 0);
    assert_near((double)fx_view(&w, 1).last[FIELD_QPS], 2, 0, 0);
    assert_ok(collect_query(w.c, 0, FIELD_QPS, NULL, &e), &e);
    fx_rounds(&w, 1);
    assert_near((double)fx_view(&w, 0).last[FIELD_QPS], 1, 0, 0);
    assert_err(collect_query(w.c, 0, FIELD_QPS, "m{x=\"{pdos}\"} + {nme}", &e), ERR_INVAL, &e, "qps of shop/web");
    assert_err(collect_query(w.c, 5, FIELD_QPS, "m", &e), ERR_INVAL, &e, "no target");
    assert_err(collect_query(w.c, 50, FIELD_QPS, "m", &e), ERR_RANGE, &e, NULL);
    fx_close(&w);
}

/* ---- the window ---------------------------------------------------------------------------------
 */

static void one_value(struct world *w, const char *value)
{
    static char body[RULES_MAX][256]; /* rules borrow their bodies */
    static int next;
    char *b = body[next++ % RULES_MAX];
    (void)snprintf(b, sizeof body[0],
                   "{\"status\":\"success\",\"data\":{\"resultType\":\"vector\",\"result\":[%s%s%s]}}",
                   value ? "{\"metric\":{\"namespace\":\"shop\",\"pod\":\"web-0\"},\"value\":[@,\"" : "",
                   value ? value : "", value ? "\"]}" : "");
    fx_rule(w, "rps", b);
}

static void open_one(struct world *w, const char *const *settings)
{
    fx_open(w, settings);
    fx_set(w, 0, "shop", "web");
    fx_add_pod(w, "shop", "web-0", 0);
}

TEST(the_view_is_the_mean_of_fifty_seconds_once_there_are_fifty)
{
    struct world w;
    open_one(&w, qps_by_pod);
    for (int i = 1; i <= 7; i++) {
        one_value(&w, test_path("%d", i * 10));
        fx_rounds(&w, 1);
        struct collect_sample s = fx_view(&w, 0);
        assert_near((double)s.qps_last, i * 10, 0, 0);
        assert_int_equal(s.n_records, i < 5 ? i : 5);
        if (i < 5)
            assert_true(isnan(s.value[FIELD_QPS]));
        else
            assert_near((double)s.value[FIELD_QPS], (i - 2) * 10, 1e-4, 0);
        assert_true(llabs(s.sample_us - w.now_us) < US_PER_S);
    }
    fx_close(&w);
}

TEST(one_missed_answer_is_bridged_and_four_are_not)
{
    struct world w;
    open_one(&w, qps_by_pod);
    one_value(&w, "10");
    fx_rounds(&w, 6);
    one_value(&w, NULL);
    fx_rounds(&w, 1);
    struct collect_sample s = fx_view(&w, 0);
    assert_near((double)s.value[FIELD_QPS], 10, 0, 0);
    assert_near((double)s.qps_last, 10, 0, 0);
    int64_t before = s.sample_us;
    fx_rounds(&w, 1);
    assert_int_equal(fx_view(&w, 0).sample_us, before); /* no newer record: the guard sees it age */
    fx_rounds(&w, 4);
    s = fx_view(&w, 0);
    assert_true(w.now_us - s.sample_us > 50 * US_PER_S);
    fx_rounds(&w, 20); /* and once the ring has gone by, nothing is left */
    assert_false(collect_view(w.c, 0, w.now_us, &s));
    fx_close(&w);
}

TEST(a_field_that_went_missing_is_missing_while_others_go_on)
{
    static const char *const settings[] = {"qps.query=rps", "qps.by=pod", "queue_len.query=waiting", "queue_len.by=pod",
                                           NULL};
    struct world w;
    open_one(&w, settings);
    one_value(&w, "10");
    fx_rule(&w, "waiting", VECTOR(POD_SAMPLE("shop", "web-0", "2")));
    fx_rounds(&w, 5);
    assert_near((double)fx_view(&w, 0).value[FIELD_QUEUE_LEN], 2, 0, 0);
    fx_rule(&w, "waiting", VECTOR(""));
    fx_rounds(&w, 3);
    assert_true(isnan(fx_view(&w, 0).value[FIELD_QUEUE_LEN])); /* two of five records are not half */
    assert_near((double)fx_view(&w, 0).value[FIELD_QPS], 10, 0, 0);
    fx_close(&w);
}

TEST(a_new_target_in_an_old_place_starts_with_nothing)
{
    struct world w;
    struct collect_sample s;
    struct err e;
    open_one(&w, qps_by_pod);
    one_value(&w, "10");
    fx_rounds(&w, 5);
    fx_set(&w, 0, "shop", "web"); /* the same again changes nothing */
    assert_int_equal(fx_view(&w, 0).n_records, 5);
    fx_set(&w, 0, "shop", "other");
    assert_false(collect_view(w.c, 0, w.now_us, &s));
    fx_rounds(&w, 1);
    assert_int_equal(fx_view(&w, 0).n_records, 1);
    assert_ok(collect_set(w.c, 0, NULL, &e), &e);
    assert_false(collect_view(w.c, 0, w.now_us, &s));
    fx_rounds(&w, 1);
    assert_false(collect_view(w.c, 0, w.now_us, &s));
    fx_close(&w);
}

TEST(a_target_set_during_a_round_has_no_record_of_it)
{
    struct world w;
    struct collect_sample s;
    fx_open(&w, qps_by_pod);
    fx_add_pod(&w, "shop", "web-0", 0);
    one_value(&w, "10");
    collect_start_round(w.c, w.now_us += STEP);
    fx_set(&w, 0, "shop", "web");
    fx_finish_round(&w);
    assert_false(collect_view(w.c, 0, w.now_us, &s));
    fx_rounds(&w, 1);
    assert_int_equal(fx_view(&w, 0).n_records, 1);
    fx_close(&w);
}

TEST(records_can_be_read_back_one_by_one)
{
    struct world w;
    float v[FIELD_COUNT];
    int64_t t_us;
    open_one(&w, qps_by_pod);
    for (int i = 0; i < 20; i++) {
        one_value(&w, test_path("%d", i));
        fx_rounds(&w, 1);
    }
    for (int back = 0; back < 13; back++) {
        assert_true(collect_record(w.c, 0, back, &t_us, v));
        assert_near((double)v[FIELD_QPS], 19 - back, 0, 0);
        assert_int_equal(t_us, w.now_us - back * STEP);
    }
    assert_false(collect_record(w.c, 0, 13, &t_us, v));
    assert_false(collect_record(w.c, 0, -1, &t_us, v));
    assert_false(collect_record(w.c, 99, 0, &t_us, v));
    fx_close(&w);
}

/* ---- values and times ---------------------------------------------------------------------------
 */

TEST(what_is_no_measurement_is_missing)
{
    static const char *const gpu[] = {"gpu_util.query=util", "gpu_util.by=pod", NULL};
    static const struct {
        const char *text;
        double want; /* NaN: missing */
    } rows[] = {{"0.5", 0.5},       {"1.04", 1},          {"1.06", NAN},       {"-0.1", NAN},
                {"NaN", NAN},       {"+Inf", NAN},        {"-Inf", NAN},       {"9223372036854775794", NAN},
                {"2147483632", NAN}, {"140737488355328", NAN}, {"1e300", NAN}, {"0", 0}};
    struct world w;
    open_one(&w, gpu);
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct collect_sample s;
        char body[256];
        (void)snprintf(body, sizeof body, VECTOR(POD_SAMPLE("shop", "web-0", "%s")), rows[i].text);
        fx_rule(&w, "util", body);
        uint64_t bad = fx_health(&w, "gpu_util")->bad;
        fx_rounds(&w, 1);
        if (isnan(rows[i].want)) {
            (void)collect_view(w.c, 0, w.now_us, &s);
            assert_true(s.sample_us < w.now_us - STEP / 2);
            assert_int_equal(fx_health(&w, "gpu_util")->bad, bad + 1);
        } else {
            assert_near((double)fx_view(&w, 0).last[FIELD_GPU_UTIL], rows[i].want, 1e-6, 0);
        }
    }
    fx_close(&w);
}

/* A range selector as an instant query: a matrix with the samples' own times. */
#define MATRIX(values) "{\"status\":\"success\",\"data\":{\"resultType\":\"matrix\",\"result\":[{\"metric\":{\"namespace\":\"shop\",\"pod\":\"web-0\"},\"values\":[" values "]}]}}"

TEST(staleness_is_judged_by_the_samples_own_times)
{
    struct world w;
    open_one(&w, qps_by_pod);
    fx_rule(&w, "rps", MATRIX("[@-60,\"1\"],[@-20,\"2\"]"));
    fx_rounds(&w, 1);
    struct collect_sample s = fx_view(&w, 0);
    assert_near((double)s.last[FIELD_QPS], 2, 0, 0);
    assert_near((double)(w.now_us - s.sample_us) * 1e-6, 20, 1, 0);
    fx_rule(&w, "rps", MATRIX("[@-90,\"1\"],[@-70,\"2\"]"));
    fx_rounds(&w, 1);
    assert_int_equal(fx_health(&w, "qps")->stale, 1);
    assert_true(w.now_us - fx_view(&w, 0).sample_us > 20 * US_PER_S);
    fx_rule(&w, "rps", MATRIX("[@+40,\"3\"]"));
    fx_rounds(&w, 1);
    assert_int_equal(fx_health(&w, "qps")->future, 1);
    assert_int_equal(fx_view(&w, 0).sample_us, w.now_us); /* taken as now, and counted */
    fx_close(&w);
}

TEST(a_server_sixty_seconds_off_is_reported_and_its_times_are_put_right)
{
    static const struct {
        int64_t skew_us;
        const char *text;
    } rows[] = {{60 * US_PER_S, "60.0 s ahead of ours"}, {-60 * US_PER_S, "60.0 s behind ours"}};
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct world w;
        struct collect_status status;
        open_one(&w, qps_by_pod);
        w.skew_us = rows[i].skew_us;
        one_value(&w, "5");
        fx_rounds(&w, 1);
        collect_status(w.c, &status);
        assert_true(status.clock.known && status.clock.skewed);
        if (!strstr(status.clock.text, rows[i].text))
            fail_msg("\"%s\"", status.clock.text);
        struct collect_sample s = fx_view(&w, 0);
        assert_true(llabs(s.sample_us - w.now_us) < 2 * US_PER_S);
        assert_int_equal(fx_health(&w, "qps")->future + fx_health(&w, "qps")->stale, 0);
        w.skew_us = 0;
        fx_rounds(&w, 1);
        collect_status(w.c, &status);
        assert_false(status.clock.skewed);
        assert_string_equal(status.clock.text, "");
        fx_close(&w);
    }
}

TEST(our_own_clock_jumping_empties_the_rings_and_is_counted)
{
    struct world w;
    struct collect_status status;
    open_one(&w, qps_by_pod);
    one_value(&w, "5");
    fx_rounds(&w, 6);
    w.now_us -= 3600 * US_PER_S;
    struct collect_sample s;
    assert_false(collect_view(w.c, 0, w.now_us, &s)); /* records of the future */
    fx_rounds(&w, 1);
    assert_int_equal(fx_view(&w, 0).n_records, 1);
    collect_status(w.c, &status);
    assert_int_equal(status.clock_jumps, 1);
    fx_rounds(&w, 4);
    w.now_us += 7200 * US_PER_S;
    fx_rounds(&w, 1);
    assert_int_equal(fx_view(&w, 0).n_records, 1);
    collect_status(w.c, &status);
    assert_int_equal(status.clock_jumps, 2);
    fx_close(&w);
}

TEST(decisions_that_run_faster_see_ages_and_windows_in_their_own_time)
{
    struct world w;
    struct err e;
    fx_open_prom(&w);
    static const char *const settings[] = {"qps.query=rps{x=\"{window}\"}", "qps.by=pod", NULL};
    fx_config(&w.cfg, settings);
    struct collect_opts o = fx_opts(&w);
    o.speed = 100;
    assert_ok(collect_new(&o, &w.c, &e), &e);
    fx_set(&w, 0, "shop", "web");
    fx_add_pod(&w, "shop", "web-0", 0);
    fx_rule(&w, "rps", MATRIX("[@-1,\"1\"]")); /* a real second ago is 100 s of theirs: stale */
    fx_rounds(&w, 1);
    assert_string_equal(w.last_query, "rps{x=\"600ms\"}");
    assert_int_equal(fx_health(&w, "qps")->stale, 1);
    fx_close(&w);
}

TEST(counters_become_rates_through_resets_repeats_and_times_that_go_back)
{
    static const char *const settings[] = {"qps.query=total", "qps.by=workload", "qps.counter=true", NULL};
    static const struct {
        const char *body;
        double want;
    } rows[] = {
#define COUNT(t, v) "{\"status\":\"success\",\"data\":{\"resultType\":\"matrix\",\"result\":[{\"metric\":{\"namespace\":\"shop\",\"deployment\":\"web\"},\"values\":[[" t ",\"" v "\"]]}]}}"
        {COUNT("@-40", "100"), NAN}, /* the first has nothing before it */
        {COUNT("@-30", "200"), 10},
        {COUNT("@-30", "200"), -1}, /* no news; see below */
        {COUNT("@-20", "50"), 5},   /* restarted: 50 since */
        {COUNT("@-50", "60"), NAN}, /* a time before: begin anew */
        {COUNT("@-40", "70"), 1},
        {COUNT("@-5", "400"), NAN}, /* more than three steps later */
    };
    struct world w;
    fx_open(&w, settings);
    fx_set(&w, 0, "shop", "web");
    int64_t base_us = clock_wall_us();
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct buf fixed = buf_init(1024);
        fx_fill(&fixed, rows[i].body, base_us); /* the same @ in every round */
        fx_rule(&w, "total", fixed.p);
        fx_rounds(&w, 1);
        float v[FIELD_COUNT];
        int64_t t_us;
        bool record = collect_record(w.c, 0, 0, &t_us, v);
        if (isnan(rows[i].want))
            assert_false(record);
        else if (rows[i].want < 0)
            assert_near((double)v[FIELD_QPS], 10, 0, 0.01);
        else
            assert_near((double)v[FIELD_QPS], rows[i].want, 0, 0.01);
        buf_fini(&fixed);
    }
    fx_close(&w);
}

/* ---- failures -----------------------------------------------------------------------------------
 */

TEST(a_failing_query_is_named_and_the_others_go_on)
{
    static const char *const settings[] = {"qps.query=rps", "qps.by=pod", "queue_len.query=waiting", "queue_len.by=pod",
                                           NULL};
    struct world w;
    open_one(&w, settings);
    one_value(&w, "10");
    fx_rule(&w, "waiting", "{\"status\":\"error\",\"errorType\":\"bad_data\",\"error\":\"no such function\"}");
    w.rule[1].status = 400;
    fx_rounds(&w, 2);
    const struct collect_health *h = fx_health(&w, "queue_len");
    assert_non_null(strstr(h->error, "query queue_len: http://127.0.0.1"));
    assert_non_null(strstr(h->error, "no such function"));
    assert_int_equal(h->n_failed, 2);
    assert_int_equal(h->last_ok_us, 0);
    assert_near((double)fx_view(&w, 0).last[FIELD_QPS], 10, 0, 0);
    assert_true(fx_health(&w, "qps")->last_ok_us > 0);
    fx_rule(&w, "waiting", VECTOR(POD_SAMPLE("shop", "web-0", "1")));
    fx_rounds(&w, 1);
    assert_string_equal(fx_health(&w, "queue_len")->error, "");
    fx_close(&w);
}

TEST(a_partial_answer_is_used_and_its_warning_kept)
{
    struct world w;
    open_one(&w, qps_by_pod);
    fx_rule(&w, "rps", "{\"status\":\"success\",\"data\":{\"resultType\":\"vector\",\"result\":["
                       "{\"metric\":{\"namespace\":\"shop\",\"pod\":\"web-0\"},\"value\":[@,\"1\"]}]},"
                       "\"warnings\":[\"a store is down\"]}");
    fx_rounds(&w, 1);
    assert_near((double)fx_view(&w, 0).last[FIELD_QPS], 1, 0, 0);
    assert_string_equal(fx_health(&w, "qps")->warning, "a store is down");
    assert_int_equal(fx_health(&w, "qps")->warnings, 1);
    fx_close(&w);
}

TEST(a_slow_server_skips_rounds_and_runs_into_the_time_out)
{
    static const char *const settings[] = {"qps.query=rps", "qps.by=pod", "timeout=200ms", NULL};
    struct world w;
    struct collect_status status;
    open_one(&w, settings);
    one_value(&w, "10");
    fx_rounds(&w, 1);
    w.rule[0].delay_us = 5 * US_PER_S;
    collect_start_round(w.c, w.now_us += STEP);
    collect_start_round(w.c, w.now_us += STEP);
    fx_finish_round(&w);
    collect_status(w.c, &status);
    assert_int_equal(status.skipped, 1);
    assert_int_equal(fx_health(&w, "qps")->n_failed, 1);
    fx_close(&w);
}

TEST(an_unreachable_server_fails_every_query_and_recovers_by_itself)
{
    struct world w;
    struct err e;
    open_one(&w, qps_by_pod);
    one_value(&w, "10");
    fx_rounds(&w, 1);
    uint16_t port = server_port(w.backend);
    server_stop(w.backend);
    w.backend = NULL;
    fx_rounds(&w, 1);
    assert_true(fx_health(&w, "qps")->n_failed == 1 && fx_health(&w, "clock")->n_failed == 1);
    struct server_opts so = server_opts_default();
    so.handler = fx_answer;
    so.ctx = &w;
    so.port = port;
    assert_ok(server_start(&so, &w.backend, &e), &e);
    fx_rounds(&w, 1);
    assert_string_equal(fx_health(&w, "qps")->error, "");
    fx_close(&w);
}

TEST(other_queries_take_over_and_records_stay)
{
    static const char *const other[] = {"qps.query=other", "qps.by=pod", NULL};
    struct world w;
    struct queries_cfg cfg, wrong;
    struct err e;
    open_one(&w, qps_by_pod);
    one_value(&w, "10");
    fx_rule(&w, "other", VECTOR(POD_SAMPLE("shop", "web-0", "20")));
    fx_rounds(&w, 4);
    fx_config(&wrong, qps_by_pod);
    assert_ok(opt_set(&queries_table, &wrong, "qps.query=x{a=\"{nowhere}\"}", NULL, &e), &e);
    assert_err(collect_requery(w.c, &wrong, &e), ERR_INVAL, &e, "{nowhere}");
    fx_config(&cfg, other);
    collect_start_round(w.c, w.now_us += STEP); /* under way: abandoned */
    assert_ok(collect_requery(w.c, &cfg, &e), &e);
    assert_false(collect_running(w.c));
    fx_rounds(&w, 1);
    assert_near((double)fx_view(&w, 0).last[FIELD_QPS], 20, 0, 0);
    assert_near((double)fx_view(&w, 0).value[FIELD_QPS], 12.5, 0, 0);
    assert_non_null(strstr(fx_health(&w, "qps")->query, "other"));
    fx_close(&w);
    opt_fini(&queries_table, &cfg);
    opt_fini(&queries_table, &wrong);
}

TEST(options_that_cannot_work_are_refused)
{
    struct world w;
    struct collect *c;
    struct err e;
    fx_open(&w, qps_by_pod);
    struct collect_opts o = fx_opts(&w);
    o.pod = NULL;
    assert_err(collect_new(&o, &c, &e), ERR_INVAL, &e, "query qps goes by pod");
    o = fx_opts(&w);
    o.step_us = 0;
    assert_err(collect_new(&o, &c, &e), ERR_INVAL, &e, NULL);
    o = fx_opts(&w);
    o.window_us = 3600 * US_PER_S;
    assert_err(collect_new(&o, &c, &e), ERR_INVAL, &e, "too long");
    assert_err(collect_set(w.c, 8, NULL, &e), ERR_RANGE, &e, "8 places");
    assert_err(collect_set(w.c, 0, &(struct collect_target){.namespace = "shop", .name = "a\"b"}, &e), ERR_INVAL, &e, NULL);
    fx_close(&w);
}

TEST(rounds_do_not_allocate_once_they_have_grown)
{
    static const char *const settings[] = {"qps.query=rps", "qps.by=pod", "gpu_util.query=util", "gpu_util.by=workload",
                                           NULL};
    struct world w;
    open_one(&w, settings);
    one_value(&w, "10");
    fx_rounds(&w, 30);
    size_t bytes = collect_bytes(w.c), heap = mallinfo2().uordblks;
    fx_rounds(&w, 200);
    assert_int_equal(collect_bytes(w.c), bytes);
    assert_true(mallinfo2().uordblks < heap + 16 * 1024); /* connections and such */
    fx_close(&w);
}

TEST(a_long_answer_that_never_ends_fails_and_the_rest_goes_on)
{
    static const char *const settings[] = {"qps.query=rps", "qps.by=pod", "queue_len.query=waiting", "queue_len.by=pod",
                                           NULL};
    struct world w;
    open_one(&w, settings);
    one_value(&w, "10");
    struct buf series = buf_init(16 << 20);
    buf_str(&series, "{\"status\":\"success\",\"data\":{\"resultType\":\"vector\",\"result\":[");
    for (int i = 0; i < 60000; i++)
        buf_str(&series, "{\"metric\":{\"a\":\"b\"},\"value\":[1,\"1\"]},");
    fx_rule(&w, "waiting", series.p);
    fx_rounds(&w, 1);
    assert_true(fx_health(&w, "queue_len")->n_failed == 1); /* cut off in the list */
    assert_near((double)fx_view(&w, 0).last[FIELD_QPS], 10, 0, 0);
    fx_close(&w);
    buf_fini(&series);
}

TEST(a_collector_can_go_in_the_middle_of_a_round)
{
    struct world w;
    open_one(&w, qps_by_pod);
    one_value(&w, "10");
    collect_start_round(w.c, w.now_us += STEP);
    assert_true(collect_running(w.c));
    fx_close(&w);
}
