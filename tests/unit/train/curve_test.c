/* curve_test.c - load-test files: what is read, what is skipped, what is refused and where. */
#include "base/mem.h"
#include "tests/support/test.h"
#include "train/curve.h"

static const char *write_curve(const char *text, size_t n)
{
    const char *path = test_path("%s/curve.csv", test_tmp_dir());
    test_write_file(path, text, n);
    return path;
}

TEST(a_curve_is_read_with_header_comments_blanks_and_further_columns)
{
    static const char text[] = "load per unit,p50 ms,p99 ms\n"
                               "# warm-up left out\n"
                               "10, 20 ,40\r\n"
                               "\n"
                               " 20,22,50,ramp 2\n"
                               "30,3e1,1.2e2";
    struct latency_point p[LATENCY_POINTS_MAX];
    struct err e;
    int n;
    assert_ok(curve_read(write_curve(text, strlen(text)), p, &n, &e), &e);
    assert_int_equal(n, 3);
    assert_near(p[0].load_per_unit, 10, 0, 0);
    assert_near(p[0].p50_ms, 20, 0, 0);
    assert_near(p[0].p99_ms, 40, 0, 0);
    assert_near(p[1].p99_ms, 50, 0, 0);
    assert_near(p[2].p50_ms, 30, 0, 0);
    assert_near(p[2].p99_ms, 120, 0, 0);
}

TEST(bad_rows_name_file_line_and_column)
{
    static const struct {
        const char *text, *what;
    } cases[] = {
        {"load,p50,p99\n10,20,40\n20,x,50\n", "curve.csv:3: column 2"},
        {"10,20,40\n20,22\n", "curve.csv:2: column 2"}, /* the row ends there */
        {"10,20,40\n,22,50\n", "curve.csv:2: column 1"},
        {"10,20,40\n20,22,\n", "curve.csv:2: column 3"},
        {"10,20,40\n20 22 50\n", "curve.csv:2: column 1"},
        {"10,20,40\n\xff\xfe,22,50\n", "curve.csv:2: column 1"},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct latency_point p[LATENCY_POINTS_MAX];
        struct err e;
        int n;
        enum err_code rc = curve_read(write_curve(cases[i].text, strlen(cases[i].text)), p, &n, &e);
        if (rc != ERR_PARSE || !strstr(e.msg, cases[i].what))
            fail_msg("case %zu: %s: %s", i, err_code_text(rc), rc ? e.msg : "");
    }
}

TEST(too_many_points_and_missing_files_are_refused)
{
    struct latency_point p[LATENCY_POINTS_MAX];
    struct err e;
    int n;
    char *text = mem_zero((LATENCY_POINTS_MAX + 1) * 24, 1);
    size_t at = 0;
    for (int i = 0; i <= LATENCY_POINTS_MAX; i++)
        at += (size_t)snprintf(text + at, 24, "%d,20,40\n", i + 1);
    assert_err(curve_read(write_curve(text, at), p, &n, &e), ERR_LIMIT, &e, "more than 256 points");
    assert_err(curve_read("/nonexistent/c.csv", p, &n, &e), ERR_IO, &e, "/nonexistent/c.csv");
    mem_free(text);
}

TEST(a_curve_becomes_a_latency_model_that_goes_through_its_points)
{
    static const char text[] = "10,20,40\n30,30,90\n50,45,180\n60,90,400\n";
    struct latency_model m;
    struct err e;
    assert_ok(curve_load(write_curve(text, strlen(text)), 8, 200, &m, &e), &e);
    assert_near(m.unit_qps, 60, 0, 1e-9); /* the largest load tested */
    assert_near((double)latency_at(m.p99_ms, &m, 4, 4 * 30), 90, 2, 0);
    assert_near((double)latency_at(m.p50_ms, &m, 4, 4 * 50), 45, 1, 0);
    assert_true(m.load_max[4] > 4 * 50 && m.load_max[4] < 4 * 55);
    latency_fini(&m);
}

TEST(a_curve_that_is_no_curve_is_refused)
{
    static const struct {
        const char *text, *what;
    } cases[] = {
        {"", "0 points"},
        {"load,p50,p99\n", "0 points"},
        {"10,20,40\n", "1 points"},
        {"10,20,40\n10,30,50\n", "load test"},
        {"20,20,40\n10,30,50\n", "load test"},
        {"-5,20,40\n10,30,50\n", "load test"},
        {"10,20,4000\n20,20,40\n", "load test"},
        {"10,nan,40\n20,20,40\n", "load test"},
        {"10,20,40\n1e300,30,50\n", "point 2 (load 1e+300"},
        {"10,20,40\n20,30,1e30\n", "point 2 (load 20"},
        {"1e-300,20,40\n2e-300,30,50\n", "unit_qps 2e-300"},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct latency_model m = {0};
        struct err e;
        enum err_code rc =
            curve_load(write_curve(cases[i].text, strlen(cases[i].text)), 8, 200, &m, &e);
        if (rc == ERR_OK || !strstr(e.msg, cases[i].what))
            fail_msg("case %zu: %s: %s", i, err_code_text(rc), rc ? e.msg : "");
    }
}
