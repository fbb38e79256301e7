#include <sys/stat.h>

#include "tests/unit/history/hist_fixture.h"

#define MATRIX(results)                                                                            \
    "{\"status\":\"success\",\"data\":{\"resultType\":\"matrix\",\"result\":[" results "]}}"

struct prom_case {
    const char *name;
    const char *options[5];
    const char *text;
    int n;
    double want[8];
};

static const struct prom_case good[] = {
    {"one series",
     {"qps=*"},
     MATRIX("{\"metric\":{},\"values\":[[10,\"1\"],[20,\"2.5\"]]}"),
     2,
     {1, 2.5}},
    {"NaN, infinities",
     {"qps=*"},
     MATRIX("{\"metric\":{},\"values\":[[0,\"1\"],[10,\"NaN\"],[20,\"+Inf\"],[30,\"-Inf\"],[40,"
            "\"2\"]]}"),
     5,
     {1, NAN, NAN, NAN, 2}},
    {"a stale stretch is a gap",
     {"qps=*"},
     MATRIX("{\"metric\":{},\"values\":[[0,\"1\"],[10,\"1\"],[20,\"2\"],[60,\"3\"]]}"),
     7,
     {1, 1, 2, NAN, NAN, NAN, 3}},
    {"counter with a reset",
     {"qps=*", "counter=qps"},
     MATRIX("{\"metric\":{},\"values\":[[0,\"5\"],[10,\"105\"],[20,\"40\"],[30,\"50\"]]}"),
     3,
     {10, 4, 1}},
    {"counters of two pods, one restarts",
     {"qps=reqs", "counter=qps", "combine=sum"},
     MATRIX("{\"metric\":{\"__name__\":\"reqs\",\"pod\":\"a\"},\"values\":[[0,\"0\"],[10,\"100\"],["
            "20,\"200\"]]},"
            "{\"metric\":{\"__name__\":\"reqs\",\"pod\":\"b\"},\"values\":[[0,\"900\"],[10,"
            "\"1000\"],[20,\"50\"]]}"),
     2,
     {20, 15}},
    {"a pod that misses one scrape does not dent the sum",
     {"qps=*", "combine=sum"},
     MATRIX("{\"metric\":{\"pod\":\"a\"},\"values\":[[0,\"1\"],[10,\"1\"],[20,\"1\"]]},"
            "{\"metric\":{\"pod\":\"b\"},\"values\":[[0,\"2\"],[20,\"4\"]]}"),
     3,
     {3, 4, 5}},
    {"a pod that ends stops counting",
     {"qps=*", "combine=sum"},
     MATRIX("{\"metric\":{\"pod\":\"a\"},\"values\":[[0,\"1\"],[10,\"1\"],[20,\"1\"]]},"
            "{\"metric\":{\"pod\":\"b\"},\"values\":[[0,\"2\"]]}"),
     3,
     {3, 1, 1}},
    {"largest",
     {"qps=*", "combine=max"},
     MATRIX("{\"metric\":{\"pod\":\"a\"},\"values\":[[0,\"1\"],[10,\"5\"]]},"
            "{\"metric\":{\"pod\":\"b\"},\"values\":[[0,\"2\"],[10,\"4\"]]}"),
     2,
     {2, 5}},
    {"selected by label",
     {"qps={pod=\"b\"}"},
     MATRIX("{\"metric\":{\"pod\":\"a\"},\"values\":[[0,\"1\"],[10,\"5\"]]},"
            "{\"metric\":{\"pod\":\"b\"},\"values\":[[0,\"2\"],[10,\"4\"]]}"),
     2,
     {2, 4}},
    {"selected by an absent label",
     {"qps={zone=\"\", pod=\"a\"}"},
     MATRIX("{\"metric\":{\"pod\":\"a\",\"zone\":\"x\"},\"values\":[[0,\"1\"],[10,\"5\"]]},"
            "{\"metric\":{\"pod\":\"a\"},\"values\":[[0,\"2\"],[10,\"4\"]]}"),
     2,
     {2, 4}},
    {"times with decimals",
     {"qps=*"},
     MATRIX("{\"metric\":{},\"values\":[[10.25,\"1\"],[10.5,\"2\"],[10.75,\"3\"]]}"),
     3,
     {1, 2, 3}},
    {"blank marker of DCGM",
     {"qps=*"},
     MATRIX("{\"metric\":{},\"values\":[[0,\"1\"],[10,\"9223372036854775794\"],[20,\"2\"]]}"),
     3,
     {1, 1.5, 2}},
};

TEST(prometheus_reads_what_it_should)
{
    for (size_t i = 0; i < ARRAY_LEN(good); i++) {
        struct fixture f;
        print_message("           %s\n", good[i].name);
        assert_ok(
            fixture_text(&f, "prometheus", good[i].options, good[i].text, strlen(good[i].text)),
            &f.e);
        assert_int_equal(f.h.n, good[i].n);
        for (int k = 0; k < good[i].n; k++)
            assert_near((double)f.h.col[FIELD_QPS][k], good[i].want[k], 1e-6, 1e-6);
        fixture_fini(&f);
    }
}

struct prom_bad {
    const char *options[5];
    const char *text;
    enum err_code code;
    const char *message;
};

static const struct prom_bad bad[] = {
    {{"qps=*"}, "", ERR_PARSE, "in.txt"},
    {{"qps=*"}, "not json", ERR_PARSE, "in.txt"},
    {{"qps=*"}, "[]", ERR_PARSE, "no \"status\""},
    {{"qps=*"},
     "{\"status\":\"error\",\"errorType\":\"bad_data\",\"error\":\"parse error\"}",
     ERR_PARSE,
     "the server answered bad_data: parse error"},
    {{"qps=*"}, "{\"status\":\"success\"}", ERR_PARSE, "without resultType"},
    {{"qps=*"},
     "{\"status\":\"success\",\"data\":{\"resultType\":\"matrix\"}}",
     ERR_PARSE,
     "not an array"},
    {{"qps=*"}, MATRIX("{\"values\":[]}"), ERR_PARSE, "no \"metric\""},
    {{"qps=*"}, MATRIX("{\"metric\":{}}"), ERR_PARSE, "no \"values\""},
    {{"qps=*"}, MATRIX("{\"metric\":{},\"histograms\":[]}"), ERR_PARSE, "native histograms"},
    {{"qps=*"}, MATRIX("{\"metric\":{},\"values\":[[1]]}"), ERR_PARSE, "not [time, \"value\"]"},
    {{"qps=*"},
     MATRIX("{\"metric\":{},\"values\":[[\"x\",\"1\"]]}"),
     ERR_PARSE,
     "not [time, \"value\"]"},
    {{"qps=*"}, MATRIX("{\"metric\":{},\"values\":[[1,2]]}"), ERR_PARSE, "not [time, \"value\"]"},
    {{"qps=*"},
     MATRIX("{\"metric\":{},\"values\":[[0,\"a\"],[10,\"b\"]]}"),
     ERR_RANGE,
     "not numbers"},
    {{"qps=*"},
     MATRIX("{\"metric\":{},\"values\":[[1e300,\"1\"],[-1e300,\"2\"]]}"),
     ERR_RANGE,
     "1900"},
    {{"qps=*"},
     MATRIX("{\"metric\":{\"pod\":\"a\"},\"values\":[[0,\"1\"]]},{\"metric\":{\"pod\":\"b\"},"
            "\"values\":[[0,\"1\"]]}"),
     ERR_INVAL,
     "qps: 2 series ({pod=\"a\"}; {pod=\"b\"}): select one or give combine"},
    {{"qps=*"},
     MATRIX("{\"metric\":{\"app\":\"x\",\"pod\":\"a1\"},\"values\":[[0,\"1\"]]},{\"metric\":{\"app\":\"x\",\"pod\":\"a2\"},"
            "\"values\":[[0,\"1\"]]}"),
     ERR_INVAL,
     "qps: 2 series (...pod=\"a1\"}; ...pod=\"a2\"}): select one or give combine, as in --combine sum"},
    {{"qps=other"},
     MATRIX("{\"metric\":{},\"values\":[[0,\"1\"],[1,\"1\"]]}"),
     ERR_MISSING,
     "no series matches"},
    {{"qps={pod=a}"}, MATRIX(""), ERR_USAGE, "expected a series selector"},
    {{"qps={pod=\"a\"} x"}, MATRIX(""), ERR_USAGE, "expected a series selector"},
    {{"zone=UTC"}, MATRIX(""), ERR_USAGE, "which field is it?"},
    {{"qps=*", "time=t"}, MATRIX(""), ERR_USAGE, "option time does not apply"},
};

TEST(prometheus_refuses_what_it_should_and_says_why)
{
    for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
        struct fixture f;
        print_message("           %s\n", bad[i].message);
        enum err_code rc =
            fixture_text(&f, "prometheus", bad[i].options, bad[i].text, strlen(bad[i].text));
        assert_err(rc, bad[i].code, &f.e, bad[i].message);
        fixture_fini(&f);
    }
}

TEST(pages_and_metrics_of_a_folder_merge)
{
    static const char page1[] =
        MATRIX("{\"metric\":{\"job\":\"x\"},\"values\":[[0,\"1\"],[10,\"2\"]]}");
    static const char page2[] =
        MATRIX("{\"metric\":{\"job\":\"x\"},\"values\":[[10,\"2\"],[20,\"3\"],[30,\"4\"]]}");
    static const char util[] =
        MATRIX("{\"metric\":{\"gpu\":\"0\"},\"values\":[[0,\"50\"],[10,\"60\"],[30,\"70\"]]}");
    char folder[400];
    (void)snprintf(folder, sizeof folder, "%s/pages", test_tmp_dir());
    assert_int_equal(mkdir(folder, 0700), 0);
    test_write_file(test_path("%s/b.json", folder), page2, sizeof page2 - 1);
    test_write_file(test_path("%s/a.json", folder), page1, sizeof page1 - 1);
    test_write_file(test_path("%s/notes.txt", folder), "x", 1);
    test_write_file(test_path("%s/util", test_tmp_dir()), util, sizeof util - 1);
    char *paths[2] = {mem_strdup(test_path("qps=%s", folder)),
                      mem_strdup(test_path("gpu_util=%s/util", test_tmp_dir()))};
    struct fixture f;
    assert_ok(fixture_import_paths(&f, "prometheus", OPTIONS("scale=gpu_util=0.01"), paths, 2),
              &f.e);
    assert_int_equal(f.h.n, 4);
    assert_string_equal(f.h.workload_id, "pages");
    for (int i = 0; i < 4; i++)
        assert_near((double)f.h.col[FIELD_QPS][i], i + 1, 0, 0);
    assert_near((double)f.h.col[FIELD_GPU_UTIL][2], 0.6, 1e-6, 0); /* held */
    assert_int_equal(f.report.tally[TALLY_REPEATED].count, 1);
    fixture_fini(&f);
    mem_free(paths[0]);
    mem_free(paths[1]);
}

TEST(a_scenario_names_its_history_beside_itself)
{
    static const char text[] = "ts,v\n0,60\n60,120\n";
    static const char yaml[] =
        "format: csv\npaths: [s.csv]\noptions:\n  time: ts\n  qps: v\n  per_step: [qps]\n";
    const char *scenario = test_path("%s/scenario.yaml", test_tmp_dir());
    struct history_source s;
    struct history h;
    struct import_report rep;
    struct err e;
    test_write_file(test_path("%s/s.csv", test_tmp_dir()), text, sizeof text - 1);
    opt_init(&history_source_table, &s);
    assert_ok(
        opt_read_text(&history_source_table, &s, yaml, sizeof yaml - 1, "scenario.yaml", NULL, &e),
        &e);
    assert_ok(opt_finish(&history_source_table, &s, &e), &e);
    assert_ok(history_load(&s, scenario, &h, &rep, &e), &e);
    assert_near((double)h.col[FIELD_QPS][1], 2, 0, 0);
    assert_ok(history_write(test_path("%s/s.hist", test_tmp_dir()), &h, &rep, &e), &e);
    history_close(&h);
    opt_fini(&history_source_table, &s);
    opt_init(&history_source_table, &s);
    assert_err(history_load(&s, scenario, &h, &rep, &e), ERR_INVAL, &e,
               "give file, or format and paths");
    assert_ok(opt_set(&history_source_table, &s, "file=s.hist", NULL, &e), &e);
    assert_ok(history_load(&s, scenario, &h, &rep, &e), &e);
    assert_int_equal(h.n, 2);
    history_close(&h);
    opt_fini(&history_source_table, &s);
}

TEST(option_tables_of_imports_are_sound)
{
    struct err e;
    assert_ok(opt_table_check(&import_table, &e), &e);
    assert_ok(opt_table_check(&history_source_table, &e), &e);
    for (size_t i = 0; import_format(i); i++)
        assert_non_null(import_format_summary(i));
}
