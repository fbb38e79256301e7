#include "base/mem.h"
#include "collect/queries.h"
#include "tests/support/test.h"

static enum err_code configure(const char *const *settings, struct queries_cfg *cfg, struct err *e)
{
    struct queries q;
    opt_init(&queries_table, cfg);
    for (; *settings; settings++)
        assert_ok(opt_set(&queries_table, cfg, *settings, NULL, e), e);
    enum err_code rc = queries_make(cfg, &q, e);
    queries_free(&q);
    return rc;
}

TEST(the_table_of_queries_is_sound)
{
    struct err e;
    assert_ok(opt_table_check(&queries_table, &e), &e);
}

TEST(bad_queries_are_refused_with_the_field_named)
{
    static const struct {
        const char *settings[3];
        const char *text;
    } rows[] = {
        {{"qps.query=sum(x)"}, "qps: say whom a sample belongs to"},
        {{"qps.query=sum(x)", "qps.by=target"}, "qps: by: target needs a placeholder"},
        {{"qps.query=sum(x{n=\"{namespace}\"})", "qps.by=pod"}, "cannot have placeholders of one"},
        {{"qps.query=sum(x{n=\"{nmespace}\"})"}, "{nmespace}: no such placeholder"},
        {{"qps.query="}, "an empty query"},
        {{"qps.query=x", "qps.by=pod", }, NULL},
        {{"qps.by=workload"}, "go with a query of your own"},
        {{"qps.label=app"}, "go with a query of your own"},
        {{"sources=dcgm,nothing"}, "there is no \"nothing\""},
        {{"cpu_util.query=x{a=\"{name}\"}", "cpu_util.by=workload"}, "cpu_util: "},
    };
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct queries_cfg cfg;
        struct err e = {0};
        enum err_code rc = configure(rows[i].settings, &cfg, &e);
        if (rc != (rows[i].text ? ERR_INVAL : ERR_OK) || (rows[i].text && !strstr(e.msg, rows[i].text)))
            fail_msg("%s: \"%s\"", rows[i].settings[0], e.msg);
        opt_fini(&queries_table, &cfg);
    }
}

TEST(a_counter_by_pod_is_refused)
{
    static const char *const settings[] = {"qps.query=x", "qps.by=pod", "qps.counter=true", NULL};
    struct queries_cfg cfg;
    struct err e;
    assert_err(configure(settings, &cfg, &e), ERR_INVAL, &e, "use rate() in the query");
    opt_fini(&queries_table, &cfg);
}

TEST(what_is_not_said_is_settled)
{
    static const char *const settings[] = {"qps.query=x", "qps.by=workload", "queue_len.query=y", "queue_len.by=pod",
                                           "p99_latency_ms.query=z", "p99_latency_ms.by=pod",
                                           "mem_util.query=m{n=\"{name}\"}", "cpu_util.query=none",
                                           "units_ready.query=auto", NULL};
    struct queries_cfg cfg;
    struct queries q;
    struct err e;
    assert_ok(configure(settings, &cfg, &e), &e);
    assert_ok(queries_make(&cfg, &q, &e), &e);
    assert_int_equal(q.n, FIELD_COUNT - 1);
    for (int i = 0; i < q.n; i++) {
        const struct query *x = &q.q[i];
        assert_true(x->field != FIELD_CPU_UTIL);
        if (x->field == FIELD_QPS)
            assert_true(x->by == QUERY_BY_WORKLOAD && x->aggregate == QUERY_ONE && !x->builtin);
        if (x->field == FIELD_QUEUE_LEN)
            assert_true(x->by == QUERY_BY_POD && x->aggregate == QUERY_SUM);
        if (x->field == FIELD_P99_LATENCY_MS)
            assert_int_equal(x->aggregate, QUERY_MAX);
        if (x->field == FIELD_MEM_UTIL)
            assert_true(x->by == QUERY_BY_TARGET && x->aggregate == QUERY_ONE);
        if (x->field == FIELD_UNITS_READY)
            assert_true(x->builtin && x->aggregate == QUERY_MAX && x->n_sources == 1);
    }
    queries_free(&q);
    opt_fini(&queries_table, &cfg);
}

TEST(sources_limit_what_auto_asks_for)
{
    static const char *const settings[] = {"sources=tgi,http", NULL};
    struct queries_cfg cfg;
    struct queries q;
    struct buf text = buf_init(1 << 20);
    struct err e;
    assert_ok(configure(settings, &cfg, &e), &e);
    assert_ok(queries_make(&cfg, &q, &e), &e);
    assert_int_equal(q.n, 4); /* qps, p50, p99, queue */
    queries_print(&q, &text);
    assert_non_null(strstr(text.p, "tgi_request_count{}[60s]"));
    assert_null(strstr(text.p, "vllm"));
    assert_null(strstr(text.p, "DCGM"));
    buf_fini(&text);
    queries_free(&q);
    opt_fini(&queries_table, &cfg);
}

TEST(placeholders_are_filled_and_nothing_can_be_smuggled_in)
{
    struct query_target t = {.namespace = "shop", .name = "web.v2", .kind = "Deployment"};
    struct buf b = buf_init(4096);
    struct err e;
    assert_ok(query_fill("x{n=\"{namespace}\",k=\"{kind}\"}[{window}] {not a word} {}", &t, 1500000, &b, &e), &e);
    assert_string_equal(b.p, "x{n=\"shop\",k=\"Deployment\"}[1500ms] {not a word} {}");
    buf_clear(&b);
    assert_ok(query_fill("{pods}|{namespaces}", &t, 0, &b, &e), &e);
    assert_non_null(strstr(b.p, "web[.]v2(?:-["));
    assert_non_null(strstr(b.p, "|.+"));
    buf_clear(&b);
    assert_err(query_fill("{name}", NULL, 0, &b, &e), ERR_INVAL, &e, "{name}: no value");
    static const char *const names[] = {"a\"b", "a|b", "a b", "A", "", "a\nb", "a{b}"};
    for (size_t i = 0; i < ARRAY_LEN(names); i++) {
        t.name = names[i];
        assert_err(query_fill("{name}", &t, 0, &b, &e), ERR_INVAL, &e, "is no name");
    }
    buf_fini(&b);
}

TEST(a_query_for_all_is_narrowed_to_one_target_where_that_is_possible)
{
    static const char *const settings[] = {"qps.query=rate(x[{window}])", "qps.by=workload", "qps.label=app",
                                           "queue_len.query=y", "queue_len.by=pod", "mem_util.query=none", NULL};
    struct query_target t = {.namespace = "shop", .name = "web", .kind = "Deployment"};
    struct queries_cfg cfg;
    struct buf b = buf_init(1 << 16);
    struct err e;
    double scale;
    assert_ok(configure(settings, &cfg, &e), &e);
    assert_ok(query_for_target(&cfg, FIELD_QPS, &t, 60000000, &b, &scale, &e), &e);
    assert_non_null(strstr(b.p, "label_replace((rate(x[60s])), \"sluice_namespace\", \"$1\", \"namespace\", \"(.+)\")"));
    assert_non_null(strstr(b.p, ", \"sluice_workload\", \"$1\", \"app\", \"(.+)\") and on (sluice_namespace, sluice_workload) "
                                "label_replace(label_replace(vector(1), \"sluice_namespace\", \"shop\", \"\", \"\"), "
                                "\"sluice_workload\", \"web\", \"\", \"\"))"));
    buf_clear(&b);
    assert_ok(query_for_target(&cfg, FIELD_QUEUE_LEN, &t, 60000000, &b, &scale, &e), &e);
    assert_int_equal(strncmp(b.p, "sum(", 4), 0);
    t.name = "a\"b";
    assert_err(query_for_target(&cfg, FIELD_QUEUE_LEN, &t, 60000000, &b, &scale, &e), ERR_INVAL, &e, "is no name");
    t.name = "web";
    buf_clear(&b);
    assert_ok(query_for_target(&cfg, FIELD_MEM_UTIL, &t, 60000000, &b, &scale, &e), &e);
    assert_int_equal(b.n, 0);
    buf_fini(&b);
    opt_fini(&queries_table, &cfg);
}
