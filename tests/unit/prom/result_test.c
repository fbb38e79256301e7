#include <dirent.h>
#include <math.h>

#include "base/buf.h"
#include "base/file.h"
#include "base/mem.h"
#include "base/rng.h"
#include "prom/result.h"
#include "prom/scan.h"
#include "tests/support/test.h"

#define OK_VECTOR(items) "{\"status\":\"success\",\"data\":{\"resultType\":\"vector\",\"result\":[" items "]}}"
#define OK_MATRIX(items) "{\"status\":\"success\",\"data\":{\"resultType\":\"matrix\",\"result\":[" items "]}}"

static enum err_code parse(const char *text, struct prom_result *r, struct err *e)
{
    struct prom_caps caps = prom_caps_default();
    return prom_result_parse(text, strlen(text), &caps, r, e);
}

TEST(a_vector_gives_labels_times_and_values)
{
    struct prom_result r = {0};
    struct err e;
    assert_ok(parse(OK_VECTOR("{\"metric\":{\"pod\":\"a\",\"zone\":\"x\"},\"value\":[1435781451.781,\"1.5\"]},"
                              "{\"metric\":{\"pod\":\"b\"},\"value\":[-2,\"-0\"]}"),
                    &r, &e),
              &e);
    assert_int_equal(r.kind, PROM_VECTOR);
    assert_int_equal(r.n_series, 2);
    assert_string_equal(prom_label(&r, &r.series[0], "zone"), "x");
    assert_string_equal(prom_label(&r, &r.series[1], "pod"), "b");
    assert_string_equal(prom_label(&r, &r.series[1], "zone"), "");
    assert_int_equal(r.samples[0].t_us, INT64_C(1435781451781000));
    assert_true(r.samples[0].v == 1.5);
    assert_int_equal(r.samples[1].t_us, -2000000);
    assert_true(signbit(r.samples[1].v));
    prom_result_fini(&r);
}

TEST(not_a_number_and_infinities_are_kept_and_counted)
{
    struct prom_result r = {0};
    struct err e;
    assert_ok(parse(OK_MATRIX("{\"metric\":{},\"values\":[[1,\"NaN\"],[2,\"+Inf\"],[3,\"-Inf\"],[4,\"1e3\"]]}"), &r, &e),
              &e);
    assert_int_equal(r.n_samples, 4);
    assert_int_equal(r.n_nan, 1);
    assert_int_equal(r.n_inf, 2);
    assert_true(isnan(r.samples[0].v) && r.samples[1].v > 0 && r.samples[2].v < 0);
    assert_true(r.samples[3].v == 1000);
    prom_result_fini(&r);
}

TEST(scalars_strings_and_the_type_after_the_result_are_read)
{
    struct prom_result r = {0};
    struct err e;
    assert_ok(parse("{\"status\":\"success\",\"data\":{\"result\":[12.5,\"7\"],\"resultType\":\"scalar\"}}", &r, &e), &e);
    assert_int_equal(r.kind, PROM_SCALAR);
    assert_true(r.samples[0].v == 7 && r.samples[0].t_us == 12500000);
    assert_ok(parse("{\"status\":\"success\",\"data\":{\"resultType\":\"string\",\"result\":[1,\"hello\"]}}", &r, &e), &e);
    assert_int_equal(r.kind, PROM_STRING);
    assert_int_equal(r.n_samples, 0);
    prom_result_fini(&r);
}

TEST(warnings_infos_and_errors_are_kept)
{
    struct prom_result r = {0};
    struct err e;
    assert_ok(parse("{\"status\":\"success\",\"data\":{\"resultType\":\"vector\",\"result\":[]},"
                    "\"warnings\":[\"one store is down\",\"two\"],\"infos\":[\"x\"]}",
                    &r, &e),
              &e);
    assert_int_equal(r.n_warnings, 2);
    assert_int_equal(r.n_infos, 1);
    assert_string_equal(r.warning[0], "one store is down");
    assert_ok(parse("{\"status\":\"error\",\"errorType\":\"execution\",\"error\":\"many-to-many\"}", &r, &e), &e);
    assert_true(r.failed);
    assert_string_equal(r.error_type, "execution");
    assert_string_equal(r.error_text, "many-to-many");
    prom_result_fini(&r);
}

TEST(native_histograms_and_unknown_members_are_skipped)
{
    struct prom_result r = {0};
    struct err e;
    assert_ok(parse(OK_VECTOR("{\"metric\":{\"a\":\"b\"},\"histogram\":[1,{\"count\":\"1\",\"buckets\":[[1,\"2\"]]}],"
                              "\"x\":[{\"y\":[1,true,null]}]}"),
                    &r, &e),
              &e);
    assert_int_equal(r.n_histograms, 1);
    assert_int_equal(r.n_samples, 0);
    assert_int_equal(r.n_series, 1);
    prom_result_fini(&r);
}

TEST(escapes_become_text)
{
    struct prom_result r = {0};
    struct err e;
    assert_ok(parse(OK_VECTOR("{\"metric\":{\"a\":\"\\u00e9\\ud83d\\ude00\\n\\\"\\\\\"},\"value\":[1,\"1\"]}"), &r, &e), &e);
    assert_string_equal(prom_label(&r, &r.series[0], "a"), "\xc3\xa9\xf0\x9f\x98\x80\n\"\\");
    prom_result_fini(&r);
}

TEST(hostile_answers_are_errors_that_say_why)
{
    static const struct {
        const char *text, *why;
        enum err_code code;
    } rows[] = {
        {"", "ends in the middle", ERR_PARSE},
        {"404 page not found", "no object", ERR_PARSE},
        {"[]", "list where none belongs", ERR_PARSE},
        {"{}", "no \"status\"", ERR_PARSE},
        {"{\"status\":1}", "wrong type", ERR_PARSE},
        {"{\"status\":null}", "wrong type", ERR_PARSE},
        {"{\"status\":\"maybe\"}", "unknown status", ERR_PARSE},
        {"{\"status\":\"success\",\"status\":\"success\"}", "\"status\" twice", ERR_PARSE},
        {"{\"status\":\"success\"}", "no \"resultType\"", ERR_PARSE},
        {"{\"status\":\"success\",\"data\":null}", "no \"resultType\"", ERR_PARSE},
        {"{\"status\":\"success\",\"data\":[1]}", "list where none belongs", ERR_PARSE},
        {"{\"status\":\"success\",\"data\":{\"resultType\":\"vector\",\"result\":null}}", "wrong type", ERR_PARSE},
        {"{\"status\":\"success\",\"data\":{\"resultType\":\"tensor\",\"result\":[]}}", "unknown resultType", ERR_PARSE},
        {"{\"status\":\"success\",\"data\":{\"resultType\":\"scalar\",\"result\":[]}}", "does not fit", ERR_PARSE},
        {"{\"status\":\"success\",\"data\":{\"resultType\":\"vector\",\"result\":[1,\"2\"]}}", "does not fit", ERR_PARSE},
        {OK_VECTOR("{\"metric\":{},\"values\":[[1,\"1\"]]}"), "does not fit", ERR_PARSE},
        {OK_MATRIX("{\"metric\":{},\"value\":[1,\"1\"]}"), "does not fit", ERR_PARSE},
        {OK_VECTOR("{\"value\":[1,\"1\"]}"), "without \"metric\"", ERR_PARSE},
        {OK_VECTOR("{\"metric\":{}}"), "without \"value\"", ERR_PARSE},
        {OK_VECTOR("{\"metric\":{\"a\":1},\"value\":[1,\"1\"]}"), "wrong type", ERR_PARSE},
        {OK_VECTOR("{\"metric\":{\"a\":{}},\"value\":[1,\"1\"]}"), "object where none", ERR_PARSE},
        {OK_VECTOR("{\"metric\":{\"a\":\"1\",\"a\":\"2\"},\"value\":[1,\"1\"]}"), "twice", ERR_PARSE},
        {OK_VECTOR("{\"metric\":{},\"value\":[1,1]}"), "not [time", ERR_PARSE},
        {OK_VECTOR("{\"metric\":{},\"value\":[1]}"), "not [time", ERR_PARSE},
        {OK_VECTOR("{\"metric\":{},\"value\":[1,\"1\",2]}"), "not [time", ERR_PARSE},
        {OK_VECTOR("{\"metric\":{},\"value\":[\"1\",\"1\"]}"), "not [time", ERR_PARSE},
        {OK_VECTOR("{\"metric\":{},\"value\":[1,\"x\"]}"), "no number", ERR_PARSE},
        {OK_VECTOR("{\"metric\":{},\"value\":[1,\"0x1\"]}"), "no number", ERR_PARSE},
        {OK_VECTOR("{\"metric\":{},\"value\":[1e30,\"1\"]}"), "time beyond", ERR_PARSE},
        {OK_VECTOR("{\"metric\":{\"a\":\"\xff\"},\"value\":[1,\"1\"]}"), "UTF-8", ERR_PARSE},
        {OK_VECTOR("{\"metric\":{\"a\":\"\\u0000\"},\"value\":[1,\"1\"]}"), "bad escape", ERR_PARSE},
        {OK_VECTOR("{\"metric\":{\"a\":\"\\ud800x\"},\"value\":[1,\"1\"]}"), "bad escape", ERR_PARSE},
        {OK_VECTOR("{\"metric\":{\"a\":\"\n\"},\"value\":[1,\"1\"]}"), "control character", ERR_PARSE},
        {OK_VECTOR("{\"metric\":{},\"value\":[1,\"1\"]},"), "closes nothing", ERR_PARSE},
        {OK_VECTOR("") "x", "after the document", ERR_PARSE},
        {"{\"status\":\"success\",\"warnings\":[1]}", "wrong type", ERR_PARSE},
        {"{\"status\":\"success\",\"data\":{\"resultType\":\"vector\",\"result\":[", "ends in the middle", ERR_PARSE},
    };
    struct prom_result r = {0};
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct err e = {0};
        if (parse(rows[i].text, &r, &e) != rows[i].code || !strstr(e.msg, rows[i].why))
            fail_msg("%s: got \"%s\", expected \"%s\"", rows[i].text, e.msg, rows[i].why);
    }
    prom_result_fini(&r);
}

TEST(deep_nesting_and_long_texts_hit_the_caps)
{
    struct buf b = buf_init(1 << 20);
    struct prom_result r = {0};
    struct err e;
    buf_str(&b, "{\"x\":");
    buf_pad(&b, '[', 100000);
    assert_err(parse(b.p, &r, &e), ERR_LIMIT, &e, "deeper than 64");
    buf_clear(&b);
    buf_str(&b, "{\"x\":\"");
    buf_pad(&b, 'a', 70000);
    buf_str(&b, "\"}");
    assert_err(parse(b.p, &r, &e), ERR_LIMIT, &e, "64 KiB");
    buf_fini(&b);
    prom_result_fini(&r);
}

TEST(series_samples_labels_and_bytes_are_capped)
{
    const char *text = OK_MATRIX("{\"metric\":{\"a\":\"1\",\"b\":\"2\"},\"values\":[[1,\"1\"],[2,\"2\"]]},"
                                 "{\"metric\":{\"a\":\"2\"},\"values\":[[1,\"1\"]]}");
    struct prom_result r = {0};
    struct err e;
    struct prom_caps c = prom_caps_default();
    c.series = 1;
    assert_err(prom_result_parse(text, strlen(text), &c, &r, &e), ERR_LIMIT, &e, "series");
    c = prom_caps_default();
    c.samples = 2;
    assert_err(prom_result_parse(text, strlen(text), &c, &r, &e), ERR_LIMIT, &e, "samples");
    c = prom_caps_default();
    c.labels = 1;
    assert_err(prom_result_parse(text, strlen(text), &c, &r, &e), ERR_LIMIT, &e, "labels");
    c = prom_caps_default();
    c.bytes = 50;
    assert_err(prom_result_parse(text, strlen(text), &c, &r, &e), ERR_LIMIT, &e, "50 bytes");
    prom_result_fini(&r);
}

/* A long answer with every kind of value. */
static void long_answer(struct buf *b, int n)
{
    struct rng rng = rng_stream(test_seed(), "answer");
    buf_str(b, "{\"status\":\"success\",\"data\":{\"resultType\":\"matrix\",\"result\":[");
    for (int s = 0; s < 3; s++) {
        buf_fmt(b, "%s{\"metric\":{\"__name__\":\"up\",\"pod\":\"p-%d\\\"\\u00e9\"},\"values\":[", s ? "," : "", s);
        for (int i = 0; i < n; i++) {
            double v = rng_normal(&rng);
            if (i % 7 == 3)
                buf_fmt(b, "%s[%d.5,\"%s\"]", i ? "," : "", 1000 + i, i % 2 ? "NaN" : "+Inf");
            else
                buf_fmt(b, "%s[%d,\"%.17g\"]", i ? "," : "", 1000 + i, i % 3 ? v : v * 1e-9);
        }
        buf_str(b, "]}");
    }
    buf_str(b, "]}}");
}

static bool same(const struct prom_result *a, const struct prom_result *b)
{
    if (a->n_series != b->n_series || a->n_samples != b->n_samples || a->n_text != b->n_text)
        return false;
    return memcmp(a->text, b->text, a->n_text) == 0 &&
           memcmp(a->samples, b->samples, a->n_samples * sizeof *a->samples) == 0;
}

TEST(pieces_of_any_size_give_the_same_result)
{
    struct buf b = buf_init(1 << 20);
    struct prom_result whole = {0}, cut = {0};
    struct prom_caps caps = prom_caps_default();
    struct prom_parser *p = prom_parser_new();
    struct rng rng = rng_stream(test_seed(), "pieces");
    struct err e;
    long_answer(&b, 300);
    assert_ok(prom_result_parse(b.p, b.n, &caps, &whole, &e), &e);
    assert_int_equal(whole.n_samples, 900);
    for (int round = 0; round < 200; round++) {
        uint32_t most = round < 3 ? (uint32_t)round + 1 : 1 + rng_below(&rng, 300);
        prom_parser_begin(p, &caps, &cut);
        for (size_t at = 0; at < b.n;) {
            size_t n = 1 + rng_below(&rng, most);
            n = n < b.n - at ? n : b.n - at;
            assert_ok(prom_parser_feed(p, b.p + at, n, &e), &e);
            at += n;
        }
        assert_ok(prom_parser_end(p, &e), &e);
        assert_true(same(&whole, &cut));
    }
    prom_parser_free(p);
    prom_result_fini(&whole);
    prom_result_fini(&cut);
    buf_fini(&b);
}

TEST(an_answer_cut_anywhere_is_an_error)
{
    struct buf b = buf_init(1 << 20);
    struct prom_result r = {0};
    struct prom_caps caps = prom_caps_default();
    long_answer(&b, 20);
    for (size_t n = 0; n < b.n; n++)
        assert_int_equal(prom_result_parse(b.p, n, &caps, &r, NULL), ERR_PARSE);
    prom_result_fini(&r);
    buf_fini(&b);
}

TEST(values_are_read_to_the_same_bits_as_strtod)
{
    struct rng rng = rng_stream(test_seed(), "values");
    for (int i = 0; i < 300000; i++) {
        char text[64];
        uint64_t bits = rng_next(&rng);
        double v, want;
        memcpy(&want, &bits, sizeof want);
        if (i % 2 || !isfinite(want))
            want = rng_normal(&rng) * pow(10, rng_below(&rng, 12));
        (void)snprintf(text, sizeof text, i % 3 ? "%.17g" : "%.12f", want);
        want = strtod(text, NULL);
        assert_true(scan_value(text, strlen(text), &v));
        if (memcmp(&v, &want, sizeof v) != 0)
            fail_msg("%s: %.17g, strtod says %.17g", text, v, want);
    }
}

/* 2^53 + 1, ... lie exactly between two doubles: the even one is right. */
TEST(halfway_values_round_to_even)
{
    static const char *const rows[] = {"9007199254740993",    "9007199254740995",    "9007199254740992.5",
                                       "4503599627370496.5",  "4503599627370497.5",  "1152921504606846848.0",
                                       "9007199254740993.00", "18014398509481986.0", "0.500000000000000055511"};
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        double v;
        assert_true(scan_value(rows[i], strlen(rows[i]), &v));
        assert_true(v == strtod(rows[i], NULL));
    }
}

TEST(times_are_read_to_the_microsecond)
{
    static const struct {
        const char *text;
        int64_t us;
        bool ok;
    } rows[] = {
        {"1435781451.781", INT64_C(1435781451781000), true},
        {"0", 0, true},
        {"-0.001", -1000, true},
        {"1.5", 1500000, true},
        {"1.0000004", 1000000, true},
        {"1.0000006", 1000001, true},
        {"1e3", 1000000000, true},
        {"1.795955780e+09", INT64_C(1795955780000000), true},
        {"12345678123456.555", 0, false},
        {"", 0, false},
        {"-", 0, false},
        {"NaN", 0, false},
        {"1.2.3", 0, false},
        {"9223372036854775807", 0, false},
    };
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        int64_t us = 0;
        bool ok = scan_time(rows[i].text, strlen(rows[i].text), &us);
        if (ok != rows[i].ok || (ok && us != rows[i].us))
            fail_msg("%s: %d %lld", rows[i].text, ok, (long long)us);
    }
}

TEST(labels_as_text_are_cut_to_fit)
{
    struct prom_result r = {0};
    struct err e;
    char text[16];
    assert_ok(parse(OK_VECTOR("{\"metric\":{\"pod\":\"abcdefghijklmnop\"},\"value\":[1,\"1\"]}"), &r, &e), &e);
    prom_labels_text(&r, &r.series[0], text, sizeof text);
    assert_string_equal(text, "{pod=\"abcde...}");
    prom_result_fini(&r);
}

/* ---- captures of real servers -------------------------------------------------------------------
 */

static void read_capture(const char *path, const char *name)
{
    bool query = strncmp(name, "range_", 6) == 0 || strncmp(name, "vector", 6) == 0 || strncmp(name, "error_", 6) == 0 ||
                 strncmp(name, "scalar", 6) == 0 || strncmp(name, "matrix", 6) == 0 || strncmp(name, "string", 6) == 0 ||
                 strncmp(name, "query_", 6) == 0 || strncmp(name, "warnings_remote", 15) == 0;
    bool plain = strstr(name, "not_found") != NULL;
    struct prom_caps caps = prom_caps_default();
    struct prom_result r = {0};
    struct buf b;
    struct err e = {0};
    assert_ok(file_read(path, 1 << 20, &b, &e), &e);
    enum err_code rc = prom_result_parse(b.p, b.n, &caps, &r, &e);
    if (query && !plain && rc)
        fail_msg("%s: %s", name, e.msg);
    if (plain)
        assert_int_equal(rc, ERR_PARSE);
    if (query && !plain)
        assert_int_equal(r.failed, strncmp(name, "error_", 6) == 0);
    prom_result_fini(&r);
    buf_fini(&b);
}

TEST(every_captured_answer_is_read)
{
    const char *folders[] = {"prometheus/api/live_2.42", "prometheus/api/h100"};
    const char *data = test_data_dir();
    int n = 0;
    for (size_t i = 0; i < ARRAY_LEN(folders); i++) {
        DIR *d = opendir(test_path("%s/%s", data, folders[i]));
        assert_non_null(d);
        for (struct dirent *f; (f = readdir(d));)
            if (f->d_name[0] != '.' && !strstr(f->d_name, ".tsv")) {
                read_capture(test_path("%s/%s/%s", data, folders[i], f->d_name), f->d_name);
                n++;
            }
        (void)closedir(d);
    }
    assert_true(n > 30);
}

static void load(const char *path, struct prom_result *r)
{
    struct prom_caps caps = prom_caps_default();
    struct buf b;
    struct err e;
    assert_ok(file_read(path, 1 << 20, &b, &e), &e);
    assert_ok(prom_result_parse(b.p, b.n, &caps, r, &e), &e);
    buf_fini(&b);
}

TEST(captures_hold_what_their_readme_says)
{
    const char *data = test_data_dir();
    struct prom_result r = {0};
    load(test_path("%s/prometheus/api/live_2.42/vector_nan_inf.json", data), &r);
    assert_int_equal(r.n_nan, 1);
    assert_int_equal(r.n_inf, 2);
    load(test_path("%s/prometheus/api/live_2.42/vector_utf8_and_escapes.json", data), &r);
    assert_string_equal(prom_label(&r, &r.series[0], "k"), "caf\xc3\xa9 \"q\" \\ \n <&>");
    load(test_path("%s/prometheus/api/live_2.42/warnings_remote_read_range.json", data), &r);
    assert_int_equal(r.n_warnings, 1);
    assert_int_equal(r.n_samples, 13);
    load(test_path("%s/prometheus/api/h100/query_DCGM_FI_DEV_GPU_UTIL.json", data), &r);
    assert_int_equal(r.n_series, 16);
    load(test_path("%s/prometheus/api/docs_query_matrix.json", data), &r);
    assert_int_equal(r.n_samples, 6);
    prom_result_fini(&r);
}
