/* The other public sets: known figures of genai, azure-llm and Prometheus captures. */
#include "history/inspect.h"
#include "tests/unit/history/hist_fixture.h"

TEST(genai_sums_pods_and_agrees_with_the_joined_minutes)
{
    const char *dir = test_data_dir();
    struct fixture f;
    struct fixture joined;
    assert_ok(fixture_import(&f, "genai", OPTIONS("gpu_memory=48GiB"), test_path("%s/genai", dir)),
              &f.e);
    assert_int_equal(f.h.n, 1441);
    assert_int_equal(f.h.step_us, 57 * US_PER_S);
    assert_int_equal(f.h.start_us, INT64_C(1662858720) * US_PER_S);
    assert_ok(fixture_import(&joined, "csv",
                             OPTIONS("time=timestamp_anon", "qps=generative_qps_sum",
                                     "gpu_util=gpu_duty_pct_mean", "scale=gpu_util=0.01",
                                     "queue_len=queue_size_mean", "units_total=gpu_pods"),
                             test_path("%s/genai/minute.csv", dir)),
              &joined.e);
    assert_int_equal(joined.h.n, f.h.n);
    for (int64_t i = 0; i < f.h.n; i++) {
        if (!isnan(joined.h.col[FIELD_QPS][i]) && f.h.col[FIELD_QPS][i] > 0)
            assert_near(f.h.col[FIELD_QPS][i], joined.h.col[FIELD_QPS][i], 1e-4, 1e-4);
        assert_near(f.h.col[FIELD_GPU_UTIL][i], joined.h.col[FIELD_GPU_UTIL][i], 1e-6, 1e-4);
        assert_near(f.h.col[FIELD_UNITS_TOTAL][i], joined.h.col[FIELD_UNITS_TOTAL][i], 1e-4, 0);
    }
    assert_true(f.h.col[FIELD_QPS][0] == 0); /* no row of any pod: no request, not missing */
    assert_int_equal(f.report.barred, 0);
    fixture_fini(&f);
    fixture_fini(&joined);
}

TEST(genai_time_scale_can_be_undone)
{
    const char *dir = test_data_dir();
    struct fixture f;
    assert_ok(
        fixture_import(&f, "genai", OPTIONS("undo_time_scale=true"), test_path("%s/genai", dir)),
        &f.e);
    assert_int_equal(f.h.n, 1441);
    assert_int_equal(f.h.step_us, US_PER_MIN);
    assert_null(f.h.col[FIELD_GPU_MEM_UTIL]); /* the memory of a GPU was not told */
    fixture_fini(&f);
}

TEST(azure_llm_arrivals_become_rates_that_add_up_to_the_rows)
{
    static const struct {
        const char *file;
        double rows;
    } logs[] = {{"code", 8819}, {"conv", 19366}};
    const char *dir = test_data_dir();
    for (size_t i = 0; i < ARRAY_LEN(logs); i++) {
        struct fixture f;
        double sum = 0;
        assert_ok(fixture_import(
                      &f, "azure-llm", NULL,
                      test_path("%s/azure-llm/AzureLLMInferenceTrace_%s.csv", dir, logs[i].file)),
                  &f.e);
        assert_int_equal(f.h.step_us, 15 * US_PER_S);
        for (int64_t k = 0; k < f.h.n; k++)
            sum += 15 * (double)f.h.col[FIELD_QPS][k];
        assert_near((double)f.report.rows, logs[i].rows, 0, 0);
        assert_near(sum + (double)f.report.tally[TALLY_EDGE].count, logs[i].rows, 1e-2, 0);
        fixture_fini(&f);
    }
}

TEST(azure_llm_counts_tokens_when_asked)
{
    const char *dir = test_data_dir();
    const char *path = test_path("%s/azure-llm/AzureLLMInferenceTrace_code.csv", dir);
    double sum[3] = {0};
    static const char *const measure[] = {"measure=prompt_tokens", "measure=output_tokens",
                                          "measure=tokens"};
    for (int m = 0; m < 3; m++) {
        struct fixture f;
        assert_ok(fixture_import(&f, "azure-llm", OPTIONS(measure[m], "step=60s"), path), &f.e);
        for (int64_t k = 0; k < f.h.n; k++)
            sum[m] += 60 * (double)f.h.col[FIELD_QPS][k];
        fixture_fini(&f);
    }
    assert_near(sum[0] + sum[1], sum[2], 1, 1e-6);
    assert_true(sum[0] > 50 * sum[1]); /* code: long prompts, short answers */
}

struct capture {
    const char *file;
    enum err_code want;
    const char *text; /* in the error, or in the notes */
};

TEST(prometheus_captures_read_or_fail_as_they_should)
{
    static const struct capture all[] = {
        {"range_up", ERR_INVAL, "2 series"},
        {"range_starts_before_data", ERR_OK, ""},
        {"range_subsecond_step", ERR_OK, ""},
        {"range_scalar_becomes_matrix", ERR_OK, ""},
        {"range_nan", ERR_MISSING, "no usable values"},
        {"range_inf_both_signs", ERR_INVAL, "2 series"},
        {"range_empty", ERR_MISSING, "no usable values"},
        {"range_stats_all", ERR_INVAL, "2 series"},
        {"range_rate_by_code", ERR_OK, ""},
        {"warnings_remote_read_range", ERR_OK, "remote_read"},
        {"matrix_from_instant", ERR_INVAL, "2 series"},
        {"vector", ERR_INVAL, "2 series"},
        {"vector_empty", ERR_MISSING, "no usable values"},
        {"scalar", ERR_PARSE, "holds a scalar"},
        {"string", ERR_PARSE, "holds a string"},
        {"error_bad_data_parse", ERR_PARSE, "the server answered bad_data"},
        {"error_execution_many_to_many", ERR_PARSE, "the server answered execution"},
        {"error_timeout", ERR_PARSE, "the server answered timeout"},
        {"labels", ERR_PARSE, "without resultType"},
        {"metadata", ERR_PARSE, "without resultType"},
    };
    const char *dir = test_data_dir();
    for (size_t i = 0; i < ARRAY_LEN(all); i++) {
        struct fixture f;
        print_message("           %s\n", all[i].file);
        enum err_code rc =
            fixture_import(&f, "prometheus", OPTIONS("qps=*"),
                           test_path("%s/prometheus/api/live_2.42/%s.json", dir, all[i].file));
        assert_err(rc, all[i].want, &f.e, all[i].text);
        if (!rc)
            assert_non_null(strstr(f.report.notes, all[i].text));
        fixture_fini(&f);
    }
    struct fixture f;
    assert_err(fixture_import(&f, "prometheus", OPTIONS("qps=*"),
                              test_path("%s/prometheus/api/live_2.42/error_not_found.txt", dir)),
               ERR_PARSE, &f.e, "error_not_found.txt");
    fixture_fini(&f);
}

TEST(prometheus_selectors_and_rules_pick_from_a_capture)
{
    const char *dir = test_data_dir();
    const char *path = test_path("%s/prometheus/api/live_2.42/range_up.json", dir);
    struct fixture f;
    assert_ok(fixture_import(&f, "prometheus", OPTIONS("qps=up{job=\"prometheus\"}"), path), &f.e);
    assert_int_equal(f.h.n, 13);
    assert_int_equal(f.h.step_us, 5 * US_PER_S);
    assert_true(f.h.col[FIELD_QPS][12] == 1);
    assert_int_equal(f.report.tally[TALLY_FILTERED].count, 1);
    fixture_fini(&f);
    assert_ok(fixture_import(&f, "prometheus", OPTIONS("qps=up", "combine=sum"), path), &f.e);
    assert_true(f.h.col[FIELD_QPS][0] == 1);
    fixture_fini(&f);
    assert_ok(fixture_import(&f, "prometheus", OPTIONS("qps=up", "combine=mean"), path), &f.e);
    assert_near(f.h.col[FIELD_QPS][0], 0.5, 0, 0);
    fixture_fini(&f);
}
