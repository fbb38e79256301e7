#include "base/json.h"
#include "report/table.h"
#include "tests/support/test.h"

static const struct table_column columns[] = {{"name", "policy", 0}, {"cost_usd", "cost $", 2}};

static struct table *two_rows(void)
{
    struct table *t = table_new(columns, 2);
    table_text(t, "hpa");
    table_num(t, 1234.5);
    table_text(t, "mpc, \"tuned\"");
    table_num(t, NAN);
    return t;
}

static void assert_format(const struct table *t, enum cli_format format, bool colour,
                          const char *want)
{
    struct buf out = buf_init(1 << 16);
    table_format(t, format, colour, &out);
    assert_string_equal(out.p, want);
    buf_fini(&out);
}

TEST(table_for_people_is_aligned_with_numbers_to_the_right)
{
    struct table *t = two_rows();
    assert_int_equal(table_n_rows(t), 2);
    assert_format(t, CLI_TABLE, false,
                  "policy          cost $\n"
                  "hpa           1,234.50\n"
                  "mpc, \"tuned\"         -\n");
    table_free(t);
}

TEST(table_in_colour_has_a_bold_header_and_nothing_else)
{
    struct table *t = table_new(columns, 2);
    table_text(t, "a");
    table_num(t, 1);
    assert_format(t, CLI_TABLE, true, "\033[1mpolicy  cost $\n\033[0ma         1.00\n");
    table_free(t);
}

TEST(table_as_csv_quotes_by_rfc_4180_and_keeps_every_digit)
{
    struct table *t = two_rows();
    assert_format(t, CLI_CSV, false, "name,cost_usd\r\nhpa,1234.5\r\n\"mpc, \"\"tuned\"\"\",\r\n");
    table_free(t);
    t = table_new(columns, 2);
    table_text(t, "two\nlines");
    table_num(t, 0.1 + 0.2);
    assert_format(t, CLI_CSV, false, "name,cost_usd\r\n\"two\nlines\",0.30000000000000004\r\n");
    table_free(t);
}

TEST(table_as_json_is_an_array_of_objects_with_null_for_missing)
{
    struct table *t = two_rows();
    struct buf out = buf_init(1 << 16);
    struct json_doc *doc;
    struct err e;
    table_format(t, CLI_JSON, false, &out);
    assert_ok(json_parse(out.p, out.n, 1 << 16, "table", &doc, &e), &e);
    const struct json *row = json_first(json_root(doc));
    assert_string_equal(json_text(json_find(row, "name")), "hpa");
    assert_near(json_number(json_find(row, "cost_usd")), 1234.5, 0, 0);
    row = json_next(row);
    assert_string_equal(json_text(json_find(row, "name")), "mpc, \"tuned\"");
    assert_true(json_is_null(json_find(row, "cost_usd")));
    assert_null(json_next(row));
    json_free(doc);
    buf_fini(&out);
    table_free(t);
}

TEST(table_without_rows_still_has_its_header)
{
    struct table *t = table_new(columns, 2);
    assert_format(t, CLI_TABLE, false, "policy  cost $\n");
    assert_format(t, CLI_CSV, false, "name,cost_usd\r\n");
    table_free(t);
}

TEST(number_with_its_own_wording_is_shown_as_worded_and_exported_as_number)
{
    struct table *t = table_new(columns, 2);
    table_text(t, "a");
    table_num_text(t, 0.009, "0.9 %");
    assert_format(t, CLI_TABLE, false, "policy  cost $\na        0.9 %\n");
    assert_format(t, CLI_CSV, false, "name,cost_usd\r\na,0.009\r\n");
    table_free(t);
}

TEST(text_width_counts_what_a_terminal_shows)
{
    static const struct {
        const char *text;
        size_t width;
    } cases[] = {{"", 0},
                 {"abc", 3},
                 {"gr\xc3\xbc\xc3\x9f", 4},
                 {"e\xcc\x81", 1},
                 {"\xe6\xbc\xa2\xe5\xad\x97", 4},
                 {"\xff", 1}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        assert_int_equal(text_width(cases[i].text), cases[i].width);
}

TEST(text_for_a_terminal_carries_no_control_characters)
{
    static const char *const cases[][2] = {
        {"\033[2Jgone", "\xef\xbf\xbd[2Jgone"}, /* escape sequence */
        {"a\tb\nc", "a b c"},                   /* breaks */
        {"\xc2\x9b"
         "31m",
         "\xef\xbf\xbd"
         "31m"}, /* C1 control */
        {"a\xe2\x80\xae"
         "b",
         "a\xef\xbf\xbd"
         "b"},                                                    /* right-to-left override */
        {"\xc3", "\xef\xbf\xbd"},                                 /* cut UTF-8 */
        {"\xed\xa0\x80", "\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd"}, /* surrogate */
        {"\xc0\xaf", "\xef\xbf\xbd\xef\xbf\xbd"},                 /* overlong */
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct buf out = buf_init(100);
        text_plain(&out, cases[i][0]);
        assert_string_equal(out.p, cases[i][1]);
        buf_fini(&out);
    }
}

TEST(text_for_html_is_never_markup)
{
    static const char *const cases[][2] = {
        {"<b>&'\"", "&lt;b&gt;&amp;&#39;&quot;"},
        {"0.6 % of 200 ms, 5 m, a %", "0.6&nbsp;% of 200&nbsp;ms, 5 m, a %"},
        {"a\x01"
         "b\nc",
         "a\xef\xbf\xbd"
         "b\nc"},
        {"\xf5\x80\x80\x80", "\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd"},
        {"\xe2\x89\xa4 \xf0\x9f\x98\x80", "\xe2\x89\xa4 \xf0\x9f\x98\x80"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct buf out = buf_init(100);
        text_html(&out, cases[i][0]);
        assert_string_equal(out.p, cases[i][1]);
        buf_fini(&out);
    }
}

TEST(colour_is_off_without_a_terminal)
{
    FILE *f = tmpfile();
    assert_non_null(f);
    assert_false(table_colour_wanted(f));
    (void)fclose(f);
}
