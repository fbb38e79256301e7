#include "base/json.h"

#include <float.h>

#include "base/mem.h"
#include "base/rng.h"
#include "tests/support/test.h"

static enum err_code parse(const char *text, struct json_doc **doc, struct err *e)
{
    return json_parse(text, strlen(text), 1 << 20, "t.json", doc, e);
}

TEST(json_values_are_reached_by_key_and_order)
{
    struct err e;
    struct json_doc *doc;
    assert_ok(parse("{\"a\":[1,2.5,\"x\",null,true,{}],\"B\":{\"c\":-3}}", &doc, &e), &e);
    const struct json *root = json_root(doc), *a = json_find(root, "a");
    assert_true(json_is_object(root) && json_is_array(a));
    assert_int_equal(json_count(a), 6);
    const struct json *v = json_first(a);
    assert_near(json_number(v), 1, 0, 0);
    assert_null(json_text(v));
    assert_null(json_key(v));
    v = json_next(json_next(v));
    assert_string_equal(json_text(v), "x");
    assert_near(json_number(v), NAN, 0, 0);
    v = json_next(v);
    assert_true(json_is_null(v) && json_is_null(NULL));
    v = json_next(v);
    assert_true(json_is_bool(v));
    assert_true(json_is_object(json_next(v)));
    assert_null(json_next(json_next(v)));
    assert_null(json_find(root, "b"));
    assert_string_equal(json_key(json_first(root)), "a");
    json_free(doc);
    json_free(NULL);
}

TEST(json_getters_name_the_path_of_what_is_wrong)
{
    struct err e;
    struct json_doc *doc;
    const struct json *v;
    const char *s;
    double d;
    int64_t i;
    bool b;
    assert_ok(parse("{\"tasks\":[{\"n\":1},{\"n\":1.5,\"s\":\"x\",\"t\":true,\"big\":1e300,\"l\":[]}]}", &doc, &e), &e);
    const struct json *task = json_next(json_first(json_find(json_root(doc), "tasks")));
    assert_err(json_get(doc, task, "id", &v, &e), ERR_MISSING, &e, "t.json: tasks[1].id: missing");
    assert_err(json_get_str(doc, task, "n", &s, &e), ERR_PARSE, &e, "tasks[1].n: expected a string");
    assert_err(json_get_f64(doc, task, "s", &d, &e), ERR_PARSE, &e, "tasks[1].s: expected a number");
    assert_err(json_get_i64(doc, task, "n", 0, 9, &i, &e), ERR_PARSE, &e, "tasks[1].n: expected an integer");
    assert_err(json_get_i64(doc, task, "big", 0, 9, &i, &e), ERR_PARSE, &e, "expected an integer");
    assert_err(json_get_bool(doc, task, "n", &b, &e), ERR_PARSE, &e, "expected true or false");
    assert_err(json_get_array(doc, task, "s", &v, &e), ERR_PARSE, &e, "expected an array");
    assert_err(json_get_object(doc, task, "l", &v, &e), ERR_PARSE, &e, "expected an object");
    assert_err(json_get(doc, json_root(doc), "x", &v, &e), ERR_MISSING, &e, "t.json: x: missing");
    const struct json *first = json_first(json_find(json_root(doc), "tasks"));
    assert_err(json_get_i64(doc, first, "n", 2, 9, &i, &e), ERR_RANGE, &e, "tasks[0].n: 1 is outside 2 .. 9");
    assert_ok(json_get_i64(doc, first, "n", 1, 1, &i, &e), &e);
    assert_int_equal(i, 1);
    assert_ok(json_get_str(doc, task, "s", &s, &e), &e);
    assert_string_equal(s, "x");
    assert_ok(json_get_bool(doc, task, "t", &b, &e), &e);
    assert_true(b);
    assert_ok(json_get_f64(doc, task, "n", &d, &e), &e);
    assert_near(d, 1.5, 0, 0);
    json_free(doc);
}

TEST(json_that_is_wrong_is_refused_with_line_and_column)
{
    static const struct {
        const char *text, *want;
    } cases[] = {
        {"", "not valid JSON"},
        {"{", "not valid JSON"},
        {"[1,]", "not valid JSON"},
        {"{\"a\" 1}", "not valid JSON"},
        {"nul", "not valid JSON"},
        {"{} x", "t.json:1:4: text after"},
        {"[]]", "text after"},
        {"\n [01]", "t.json:2:3: not a finite JSON number"},
        {"[1.]", "not a finite"},
        {"[-]", "not a finite"},
        {"[1e999]", "not a finite"},
        {"[1-2]", "not a finite"},
        {"[NaN]", "not valid JSON"},
        {"[+1]", "not valid JSON"},
        {"{\"a\":1,\"b\":2,\"a\":3}", "\"a\" given twice"},
        {"[{\"x\":{\"k\":1,\"k\":1}}]", "\"k\" given twice"},
        {"[\"\xff\"]", "t.json:1:3: not UTF-8"},
        {"[\"a\nb\"]", "control character in a string"},
        {"[\"\\u0000\"]", "\\u0000"},
        {"[\"\\ud800\"]", "not valid JSON"},
        {"[\"no end]", "string without an end"},
        {"[1,\x01 2]", "control character"},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct err e = {0};
        struct json_doc *doc;
        assert_err(parse(cases[i].text, &doc, &e), ERR_PARSE, &e, cases[i].want);
        assert_null(doc);
    }
}

TEST(json_is_capped_in_bytes_and_depth)
{
    struct err e;
    struct json_doc *doc;
    char text[2 * JSON_DEPTH_MAX + 3];
    assert_err(json_parse("[1,2]", 5, 4, "t", &doc, &e), ERR_LIMIT, &e, "allowed are 4");
    memset(text, '[', JSON_DEPTH_MAX + 1);
    memset(text + JSON_DEPTH_MAX + 1, ']', JSON_DEPTH_MAX + 1);
    text[2 * JSON_DEPTH_MAX + 2] = '\0';
    assert_err(parse(text, &doc, &e), ERR_LIMIT, &e, "nested too deeply");
    text[2 * JSON_DEPTH_MAX + 1] = '\0';
    assert_ok(parse(text + 1, &doc, &e), &e);
    json_free(doc);
    char *deep = mem_zero(1 << 20, 1);
    memset(deep, '{', (1 << 20) - 1);
    assert_err(parse(deep, &doc, &e), ERR_LIMIT, &e, "nested too deeply");
    mem_free(deep);
}

TEST(json_brackets_inside_strings_are_not_depth)
{
    struct err e;
    struct json_doc *doc;
    struct buf b = buf_init(10000);
    buf_str(&b, "[\"\\\"");
    buf_pad(&b, '[', 500);
    buf_str(&b, "\\\\\"]");
    assert_ok(parse(b.p, &doc, &e), &e);
    json_free(doc);
    buf_fini(&b);
}

TEST(json_loads_from_a_file_and_reports_its_name)
{
    struct err e;
    struct json_doc *doc;
    const char *path = test_path("%s/a.json", test_tmp_dir());
    test_write_file(path, "[1]", 3);
    assert_ok(json_load(path, 10, &doc, &e), &e);
    json_free(doc);
    assert_err(json_load(path, 2, &doc, &e), ERR_LIMIT, &e, "a.json");
    test_write_file(path, "[1", 2);
    assert_err(json_load(path, 10, &doc, &e), ERR_PARSE, &e, "a.json:1:");
}

TEST(json_writer_places_commas_keys_and_indent)
{
    struct buf b = buf_init(1000);
    struct json_writer w = json_writer_init(&b, 0);
    json_open(&w, NULL);
    json_put_str(&w, "s", "a\"b\\c\n\x01</script>\xc3\xa9\xff");
    json_put_f64(&w, "nan", NAN);
    json_put_f64(&w, "inf", INFINITY);
    json_put_i64(&w, "i", INT64_MIN);
    json_put_u64(&w, "u", UINT64_MAX);
    json_put_bool(&w, "t", true);
    json_put_str(&w, "null", NULL);
    json_open_array(&w, "list");
    json_put_f64(&w, NULL, 0.5);
    json_put_null(&w, NULL);
    json_open(&w, NULL);
    json_close(&w);
    json_close_array(&w);
    json_close(&w);
    assert_string_equal(b.p, "{\"s\":\"a\\\"b\\\\c\\n\\u0001\\u003c/script>\xc3\xa9\xef\xbf\xbd\",\"nan\":null,\"inf\":null,"
                             "\"i\":-9223372036854775808,\"u\":18446744073709551615,\"t\":true,\"null\":null,"
                             "\"list\":[0.5,null,{}]}\n");
    buf_clear(&b);
    w = json_writer_init(&b, 2);
    json_open(&w, NULL);
    json_open_array(&w, "a");
    json_put_i64(&w, NULL, 1);
    json_close_array(&w);
    json_close(&w);
    assert_string_equal(b.p, "{\n  \"a\": [\n    1\n  ]\n}\n");
    buf_fini(&b);
}

TEST(json_written_numbers_and_text_read_back_the_same)
{
    struct rng r = rng_stream(test_seed(), "json");
    for (int i = 0; i < 2000; i++) {
        struct err e;
        struct json_doc *doc;
        struct buf b = buf_init(1000);
        uint64_t bits = rng_next(&r);
        double v;
        char text[20];
        memcpy(&v, &bits, sizeof v);
        v = isfinite(v) ? v : DBL_MIN;
        size_t n = rng_below(&r, 19);
        for (size_t k = 0; k < n; k++)
            text[k] = (char)(1 + rng_below(&r, 127));
        text[n] = '\0';
        struct json_writer w = json_writer_init(&b, 0);
        json_open_array(&w, NULL);
        json_put_f64(&w, NULL, v);
        json_put_str(&w, NULL, text);
        json_close_array(&w);
        assert_ok(parse(b.p, &doc, &e), &e);
        const struct json *first = json_first(json_root(doc));
        assert_near(json_number(first), v, 0, 0);
        assert_string_equal(json_text(json_next(first)), text);
        json_free(doc);
        buf_fini(&b);
    }
}
