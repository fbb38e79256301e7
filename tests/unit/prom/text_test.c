#include <dirent.h>
#include <math.h>

#include "base/buf.h"
#include "base/file.h"
#include "base/mem.h"
#include "prom/text.h"
#include "tests/support/test.h"

/* A reader holds 64 KiB: on the heap. */
struct page {
    struct prom_text_reader reader;
    struct prom_text_item item;
};

static struct page *open_page(const char *text, bool openmetrics)
{
    struct page *p = mem_zero(1, sizeof *p);
    prom_text_open(&p->reader, text, strlen(text), openmetrics);
    return p;
}

static const struct prom_text_item *next(struct page *p)
{
    struct err e;
    assert_ok(prom_text_next(&p->reader, &p->item, &e), &e);
    return &p->item;
}

static const char page_text[] = "# HELP sluice_decisions_total Decisions: back\\\\slash, line\\nfeed.\n"
                                "# TYPE sluice_decisions_total counter\n"
                                "sluice_decisions_total{verdict=\"scaled\",target=\"a\\\"b\\\\c\\nd\"} 12\n"
                                "sluice_decisions_total 0.25\n"
                                "# HELP sluice_age_seconds Age.\n"
                                "# TYPE sluice_age_seconds gauge\n"
                                "sluice_age_seconds{x=\"\xef\xbf\xbd\"} NaN\n"
                                "sluice_age_seconds +Inf\n";

static void write_page(struct buf *b)
{
    struct prom_writer w = prom_writer_init(b);
    prom_family(&w, "sluice_decisions_total", PROM_COUNTER, "Decisions: back\\slash, line\nfeed.");
    prom_put(&w, 12, "verdict", "scaled", "target", "a\"b\\c\nd", NULL);
    prom_put(&w, 0.25, "verdict", (const char *)NULL, NULL);
    prom_family(&w, "sluice_age_seconds", PROM_GAUGE, "Age.");
    prom_put(&w, (double)NAN, "x", "\xff", NULL);
    prom_put(&w, (double)INFINITY, NULL);
}

TEST(the_writer_escapes_and_leaves_out_null_labels)
{
    struct buf b = buf_init(1 << 16);
    write_page(&b);
    assert_string_equal(b.p, page_text);
    buf_fini(&b);
}

TEST(what_was_written_reads_back)
{
    struct buf b = buf_init(1 << 16);
    write_page(&b);
    struct page *p = open_page(b.p, false);
    assert_string_equal(next(p)->text, "Decisions: back\\slash, line\nfeed.");
    assert_int_equal(next(p)->type, PROM_COUNTER);
    assert_string_equal(prom_text_label(next(p), "target"), "a\"b\\c\nd");
    assert_true(p->item.value == 12);
    assert_true(next(p)->n_labels == 0 && p->item.value == 0.25);
    assert_int_equal(next(p)->kind, PROM_TEXT_HELP);
    assert_int_equal(next(p)->kind, PROM_TEXT_TYPE);
    assert_true(isnan(next(p)->value));
    assert_true(isinf(next(p)->value));
    assert_int_equal(next(p)->kind, PROM_TEXT_END);
    assert_int_equal(next(p)->kind, PROM_TEXT_END);
    mem_free(p);
    buf_fini(&b);
}

TEST(a_histogram_is_cumulative_and_ends_in_infinity)
{
    static const double bounds[] = {0.1, 0.5};
    struct prom_hist h = prom_hist_init(bounds, 2);
    struct buf b = buf_init(1 << 16);
    struct prom_writer w = prom_writer_init(&b);
    prom_hist_add(&h, 0.1);
    prom_hist_add(&h, 0.3);
    prom_hist_add(&h, 7);
    prom_hist_add(&h, (double)NAN);
    prom_family(&w, "x_seconds", PROM_HISTOGRAM, "X.");
    prom_put_hist(&w, &h, "verb", "GET", NULL);
    assert_string_equal(b.p, "# HELP x_seconds X.\n# TYPE x_seconds histogram\n"
                             "x_seconds_bucket{verb=\"GET\",le=\"0.1\"} 1\n"
                             "x_seconds_bucket{verb=\"GET\",le=\"0.5\"} 2\n"
                             "x_seconds_bucket{verb=\"GET\",le=\"+Inf\"} 3\n"
                             "x_seconds_sum{verb=\"GET\"} 7.4\nx_seconds_count{verb=\"GET\"} 3\n");
    buf_fini(&b);
    h = prom_hist_exponential(0.001, 10, 3);
    assert_near(h.bound[2], 0.1, 1e-12, 0);
}

TEST(promtool_accepts_what_is_written)
{
    if (system("command -v promtool >/dev/null 2>&1") != 0) {
        if (getenv("CI"))
            fail_msg("promtool is missing (apt install prometheus)");
        skip();
    }
    static const double bounds[] = {0.1, 0.5};
    struct prom_hist h = prom_hist_init(bounds, 2);
    struct buf b = buf_init(1 << 16);
    write_page(&b);
    struct prom_writer w = prom_writer_init(&b);
    prom_family(&w, "sluice_call_duration_seconds", PROM_HISTOGRAM, "Calls.");
    prom_put_hist(&w, &h, "verb", "GET", NULL);
    prom_put_hist(&w, &h, "verb", "PUT", NULL);
    const char *path = test_path("%s/metrics.prom", test_tmp_dir());
    test_write_file(path, b.p, b.n);
    assert_int_equal(system(test_path("promtool check metrics < %s", path)), 0);
    buf_fini(&b);
}

TEST(own_times_spaces_and_missing_comments_are_read)
{
    struct page *p = open_page("a{x=\"1\", y = \"\",} 3.5 1395066363000\r\n\n#comment\n  b\t-Inf\nc 0x\n", false);
    assert_int_equal(next(p)->t_us, INT64_C(1395066363000000));
    assert_int_equal(p->item.n_labels, 2);
    assert_string_equal(prom_text_label(&p->item, "y"), "");
    assert_true(isinf(next(p)->value) && p->item.t_us == PROM_TEXT_NO_TIME);
    struct err e;
    assert_err(prom_text_next(&p->reader, &p->item, &e), ERR_PARSE, &e, "line 5");
    mem_free(p);
}

TEST(openmetrics_has_seconds_exemplars_and_an_end)
{
    struct page *p = open_page("# TYPE a counter\n# UNIT a seconds\na_total 1 12.5 # {id=\"x\"} 0.7 1\n# EOF\nz 1\n", true);
    assert_int_equal(next(p)->kind, PROM_TEXT_TYPE);
    assert_string_equal(next(p)->text, "seconds");
    assert_int_equal(next(p)->t_us, 12500000);
    assert_int_equal(next(p)->kind, PROM_TEXT_END);
    mem_free(p);
    p = open_page("a 1\n", true);
    (void)next(p);
    struct err e;
    assert_err(prom_text_next(&p->reader, &p->item, &e), ERR_PARSE, &e, "# EOF");
    mem_free(p);
}

TEST(malformed_lines_are_errors_with_their_number)
{
    static const char *const rows[] = {
        "{} 1",        "1a 1",          "a",           "a{",          "a{b} 1",         "a{b=1} 1",
        "a{b=\"1} 1",  "a{b=\"1\"",     "a{b=\"1\"c=\"2\"} 1", "a{b=\"1\",b=\"2\"} 1", "a 1 x", "a 1 2 3",
        "a 1 # {} 1",  "# TYPE a thing", "# TYPE 1a gauge", "a{b=\"\xff\"} 1", "a 1e999x", "a 1 99999999999999999999",
    };
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct err e = {0};
        struct page *p = open_page(test_path("ok 1\n%s\n", rows[i]), false);
        (void)next(p);
        if (prom_text_next(&p->reader, &p->item, &e) != ERR_PARSE || !strstr(e.msg, "line 2: "))
            fail_msg("%s: \"%s\"", rows[i], e.msg);
        mem_free(p);
    }
}

TEST(too_many_labels_and_too_long_lines_hit_the_caps)
{
    struct buf b = buf_init(4 << 20);
    struct err e;
    buf_str(&b, "a{");
    for (int i = 0; i < 200; i++)
        buf_fmt(&b, "l%d=\"\",", i);
    buf_str(&b, "} 1\n");
    struct page *p = open_page(b.p, false);
    assert_err(prom_text_next(&p->reader, &p->item, &e), ERR_LIMIT, &e, "labels");
    mem_free(p);
    buf_clear(&b);
    buf_str(&b, "a{x=\"");
    buf_pad(&b, 'x', 100000);
    buf_str(&b, "\"} 1\n");
    p = open_page(b.p, false);
    assert_err(prom_text_next(&p->reader, &p->item, &e), ERR_LIMIT, &e, "64 KiB");
    mem_free(p);
    buf_clear(&b);
    buf_pad(&b, 'x', 2 << 20);
    p = open_page(b.p, false);
    assert_err(prom_text_next(&p->reader, &p->item, &e), ERR_LIMIT, &e, "1 MiB");
    mem_free(p);
    buf_fini(&b);
}

static uint64_t count_samples(const char *path)
{
    uint64_t n = 0;
    struct buf b;
    struct err e;
    assert_ok(file_read(path, 4 << 20, &b, &e), &e);
    struct page *p = open_page(b.p, strstr(path, ".om.txt") != NULL);
    for (;;) {
        if (prom_text_next(&p->reader, &p->item, &e))
            fail_msg("%s: %s", path, e.msg);
        if (p->item.kind == PROM_TEXT_END)
            break;
        n += p->item.kind == PROM_TEXT_SAMPLE;
    }
    mem_free(p);
    buf_fini(&b);
    return n;
}

TEST(pages_of_real_exporters_are_read)
{
    static const struct {
        const char *name;
        uint64_t n;
    } pages[] = {
        {"dcgm/dcgm_exporter_h100_8gpu.prom", 30},
        {"dcgm/dcgm_exporter_readme_pod_labels.prom", 3},
        {"exposition/prometheus_2.42_self.prom", 0},
        {"exposition/kube_state_metrics_k8s1.32.prom", 0},
        {"exposition/kubelet_cadvisor_cpu_mem_k8s1.32.prom", 0},
        {"exposition/node_exporter_e2e-output.prom", 0},
        {"exposition/node_textfile_client_side_timestamp.prom", 2},
        {"exposition/prometheus_alltypes.237mfs.prom.txt", 0},
        {"exposition/prometheus_alltypes.5mfs.om.txt", 0},
    };
    const char *data = test_data_dir();
    for (size_t i = 0; i < ARRAY_LEN(pages); i++) {
        uint64_t n = count_samples(test_path("%s/prometheus/%s", data, pages[i].name));
        if (n == 0 || (pages[i].n && n != pages[i].n))
            fail_msg("%s: %llu samples", pages[i].name, (unsigned long long)n);
    }
}
