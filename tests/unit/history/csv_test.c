#include <zlib.h>
#include <zstd.h>

#include "tests/unit/history/hist_fixture.h"

enum { VALUES_MAX = 12 };

/* Text in, one column out. */
struct csv_case {
    const char *name;
    const char *options[8];
    const char *text;
    int64_t start_s, step_s;
    int n;
    double want[VALUES_MAX];
    enum field field; /* 0 is gpu_util: given where it matters */
};

#define Q FIELD_QPS
#define M NAN

static const struct csv_case good[] = {
    {"plain", {"time=t", "qps=v"}, "t,v\n0,1\n60,2\n120,3\n", 0, 60, 3, {1, 2, 3}, Q},
    {"no line end at the end", {"time=t", "qps=v"}, "t,v\n0,1\n60,2", 0, 60, 2, {1, 2}, Q},
    {"CR LF", {"time=t", "qps=v"}, "t,v\r\n0,1\r\n60,2\r\n", 0, 60, 2, {1, 2}, Q},
    {"mark, blank lines, blanks",
     {"time=t", "qps=v"},
     "\xef\xbb\xbft , v\n\n0, 1\n\n 60 ,2 \n",
     0,
     60,
     2,
     {1, 2},
     Q},
    {"quotes",
     {"time=t", "qps=v,1"},
     "\"t\",\"v,1\"\n\"0\",\"1\"\n\"60\",\"2\"\n",
     0,
     60,
     2,
     {1, 2},
     Q},
    {"doubled quotes in a name",
     {"time=t", "qps=a\"b"},
     "t,\"a\"\"b\"\n0,1\n60,2\n",
     0,
     60,
     2,
     {1, 2},
     Q},
    {"line break in quotes",
     {"time=t", "qps=v"},
     "t,x,v\n0,\"a\nb\",1\n60,\"c\n\n,d\",2\n",
     0,
     60,
     2,
     {1, 2},
     Q},
    {"semicolons", {"time=t", "qps=v"}, "t;v\n0;1\n60;2\n", 0, 60, 2, {1, 2}, Q},
    {"semicolon and tab", {"time=t", "qps=v"}, "t;\tv\n0;\t1\n60;\t2\n", 0, 60, 2, {1, 2}, Q},
    {"tabs", {"time=t", "qps=v"}, "t\tv\n0\t1\n60\t2\n", 0, 60, 2, {1, 2}, Q},
    {"empty cells between tabs",
     {"time=t", "qps=v"},
     "t\tx\tv\n0\t\t1\n60\t\t2\n",
     0,
     60,
     2,
     {1, 2},
     Q},
    {"pipes, told", {"time=t", "qps=v", "delimiter=pipe"}, "t|v\n0|1\n60|2\n", 0, 60, 2, {1, 2}, Q},
    {"no header, columns by number", {"time=1", "qps=3"}, "0,x,1\n60,x,2\n", 0, 60, 2, {1, 2}, Q},
    {"header by number", {"time=1", "qps=2"}, "when,what\n0,1\n60,2\n", 0, 60, 2, {1, 2}, Q},
    {"own names need no options", {"zone=UTC"}, "time,qps\n0,1\n60,2\n", 0, 60, 2, {1, 2}, Q},
    {"scale, offset",
     {"time=t", "gpu_util=v", "scale=gpu_util=0.01", "offset=gpu_util=0.1"},
     "t,v\n0,50\n60,20\n",
     0,
     60,
     2,
     {0.6, 0.3},
     FIELD_GPU_UTIL},
    {"sum of columns",
     {"time=t", "qps=a+b"},
     "t,a,b\n0,1,2\n60,3,4\n120,5,\n180,1,1\n",
     0,
     60,
     4,
     {3, 7, 4.5, 2},
     Q},
    {"a column named like a sum", {"time=t", "qps=a+b"}, "t,a+b\n0,1\n60,2\n", 0, 60, 2, {1, 2}, Q},
    {"counts per step",
     {"time=t", "qps=v", "per_step=qps"},
     "t,v\n0,60\n60,120\n",
     0,
     60,
     2,
     {1, 2},
     Q},
    {"stamps at the end",
     {"time=t", "qps=v", "stamp=end"},
     "t,v\n60,1\n120,2\n",
     0,
     60,
     2,
     {1, 2},
     Q},
    {"row numbers",
     {"time_format=row", "step=300s", "start=2024-05-01T00:00:00Z", "qps=v"},
     "v\n1\n2\n3\n",
     1714521600,
     300,
     3,
     {1, 2, 3},
     Q},
    {"row numbers without header",
     {"time_format=row", "step=10s", "qps=1"},
     "1\n2\n",
     0,
     10,
     2,
     {1, 2},
     Q},
    {"long form",
     {"time=t", "metric=m", "value=v", "qps=rps", "cpu_util=cpu"},
     "t,m,v\n0,rps,1\n0,cpu,0.5\n60,rps,2\n60,mem,9\n60,cpu,0.6\n",
     0,
     60,
     2,
     {0.5, 0.6},
     FIELD_CPU_UTIL},
    {"where",
     {"time=t", "qps=v", "where=w=a"},
     "t,w,v\n0,a,1\n0,b,7\n60,b,8\n60,a,2\n",
     0,
     60,
     2,
     {1, 2},
     Q},
    {"pods summed",
     {"time=t", "qps=v", "series=p", "combine=sum"},
     "t,p,v\n0,a,1\n0,b,2\n60,a,3\n60,b,4\n120,a,5\n180,a,7\n180,b,8\n",
     0,
     60,
     4,
     {3, 7, 11, 15},
     Q},
    {"pods averaged",
     {"time=t", "qps=v", "series=p", "combine=mean"},
     "t,p,v\n0,a,1\n0,b,2\n60,a,3\n60,b,4\n",
     0,
     60,
     2,
     {1.5, 3.5},
     Q},
    {"rows of a step summed",
     {"time=t", "qps=v", "combine=sum"},
     "t,v\n0,1\n0,2\n60,3\n60,4\n120,5\n",
     0,
     60,
     3,
     {3, 7, 5},
     Q},
    {"counter",
     {"time=t", "qps=v", "counter=qps"},
     "t,v\n0,0\n10,100\n20,300\n30,50\n40,150\n",
     0,
     10,
     4,
     {10, 20, 5, 10},
     Q},
    {"counters of pods",
     {"time=t", "qps=v", "counter=qps", "series=p", "combine=sum"},
     "t,p,v\n0,a,0\n0,b,500\n10,a,10\n10,b,520\n20,a,30\n20,b,10\n",
     0,
     10,
     2,
     {3, 3},
     Q},
    {"the last of a step counts",
     {"time=t", "qps=v"},
     "t,v\n0,1\n60,2\n60,5\n120,3\n",
     0,
     60,
     3,
     {1, 5, 3},
     Q},
    {"rows out of order",
     {"time=t", "qps=v"},
     "t,v\n120,3\n0,1\n60,2\n180,4\n",
     0,
     60,
     4,
     {1, 2, 3, 4},
     Q},
    {"short gap of a load",
     {"time=t", "qps=v"},
     "t,v\n0,1\n60,2\n120,3\n300,9\n360,1\n",
     0,
     60,
     7,
     {1, 2, 3, 5, 7, 9, 1},
     Q},
    {"short gap of a gauge",
     {"time=t", "queue_len=v"},
     "t,v\n0,1\n60,2\n120,3\n300,9\n360,1\n",
     0,
     60,
     7,
     {1, 2, 3, 3, 3, 9, 1},
     FIELD_QUEUE_LEN},
    {"long gap",
     {"time=t", "qps=v"},
     "t,v\n0,1\n60,2\n120,3\n360,9\n420,9\n",
     0,
     60,
     8,
     {1, 2, 3, M, M, M, 9, 9},
     Q},
    {"zero gap",
     {"time=t", "qps=v", "zero_gap=3min"},
     "t,v\n0,1\n60,0\n120,0\n180,2\n240,0\n300,0\n360,0\n420,4\n",
     0,
     60,
     8,
     {1, 0, 0, 2, M, M, M, 4},
     Q},
    {"markers",
     {"time=t", "qps=v", "missing=-1,x"},
     "t,v\n0,1\n60,-1\n120,x\n180,NA\n240,\n300,6\n",
     0,
     60,
     6,
     {1, M, M, M, M, 6},
     Q},
    {"odd values are missing",
     {"time=t", "qps=v", "max_bad=1"},
     "t,v\n0,1\n60,NaN\n120,inf\n180,-2\n240,1e308\n300,1e999\n360,abc\n420,2\n",
     0,
     60,
     8,
     {1, M, M, M, M, M, M, 2},
     Q},
    {"jitter keeps its step",
     {"time=t", "qps=v"},
     "t,v\n0.2,1\n14.9,2\n30.1,3\n44.8,4\n60.3,5\n75.1,6\n",
     0,
     15,
     6,
     {1, 2, 3, 4, 5, 6},
     Q},
    {"coarser step is the mean",
     {"time=t", "qps=v", "step=60s"},
     "t,v\n0,1\n30,3\n60,5\n90,7\n120,1\n",
     0,
     60,
     3,
     {2, 6, 1},
     Q},
    {"arrivals",
     {"time=t", "events=true", "step=10s"},
     "t\n1\n2\n11\n12\n13\n41\n55\n",
     10,
     10,
     4,
     {0.3, 0, 0, 0.1},
     Q},
    {"weighted arrivals",
     {"time=t", "events=true", "step=10s", "qps=w"},
     "t,w\n1,9\n11,5\n12,15\n25,1\n",
     10,
     10,
     1,
     {2},
     Q},
    {"milliseconds",
     {"time=t", "qps=v"},
     "t,v\n1700000000000,1\n1700000060000,2\n",
     1700000000,
     60,
     2,
     {1, 2},
     Q},
    {"microseconds",
     {"time=t", "qps=v"},
     "t,v\n1700000000000000,1\n1700000060000000,2\n",
     1700000000,
     60,
     2,
     {1, 2},
     Q},
    {"nanoseconds",
     {"time=t", "qps=v"},
     "t,v\n1700000000000000000,1\n1700000060000000000,2\n",
     1700000000,
     60,
     2,
     {1, 2},
     Q},
    {"seconds with exponent",
     {"time=t", "qps=v"},
     "t,v\n1.7e9,1\n1.70000006e9,2\n",
     1700000000,
     60,
     2,
     {1, 2},
     Q},
    {"told milliseconds",
     {"time=t", "qps=v", "time_format=ms"},
     "t,v\n0,1\n60000,2\n",
     0,
     60,
     2,
     {1, 2},
     Q},
    {"RFC 3339",
     {"time=t", "qps=v"},
     "t,v\n2024-05-01T02:00:00+02:00,1\n2024-05-01T00:01:00Z,2\n",
     1714521600,
     60,
     2,
     {1, 2},
     Q},
    {"naive is UTC unless told",
     {"time=t", "qps=v"},
     "t,v\n2024-05-01 00:00:00,1\n2024-05-01 00:01:00,2\n",
     1714521600,
     60,
     2,
     {1, 2},
     Q},
    {"naive in a zone",
     {"time=t", "qps=v", "zone=Europe/Berlin"},
     "t,v\n2024-05-01 02:00,1\n2024-05-01 02:01,2\n",
     1714521600,
     60,
     2,
     {1, 2},
     Q},
    {"dates",
     {"time=t", "qps=v"},
     "t,v\n2024/05/01,1\n2024/05/02,2\n",
     1714521600,
     86400,
     2,
     {1, 2},
     Q},
    {"the hour the clock repeats",
     {"time=t", "qps=v", "zone=Europe/Berlin"},
     "t,v\n2024-10-27 01:30:00,1\n2024-10-27 02:00:00,2\n2024-10-27 02:30:00,3\n2024-10-27 "
     "02:00:00,4\n"
     "2024-10-27 02:30:00,5\n2024-10-27 03:00:00,6\n",
     1729985400,
     1800,
     6,
     {1, 2, 3, 4, 5, 6},
     Q},
    {"the repeated hour at an hourly step",
     {"time=t", "qps=v", "zone=Europe/Berlin"},
     "t,v\n2024-10-27 00:00:00,1\n2024-10-27 01:00:00,2\n2024-10-27 02:00:00,3\n2024-10-27 "
     "02:00:00,4\n"
     "2024-10-27 03:00:00,5\n",
     1729980000,
     3600,
     5,
     {1, 2, 3, 4, 5},
     Q},
    {"the hour the clock skips",
     {"time=t", "qps=v", "zone=Europe/Berlin"},
     "t,v\n2024-03-31 01:00:00,1\n2024-03-31 01:30:00,2\n2024-03-31 03:00:00,3\n2024-03-31 "
     "03:30:00,4\n",
     1711843200,
     1800,
     4,
     {1, 2, 3, 4},
     Q},
    {"a clock that did not skip",
     {"time=t", "qps=v", "zone=Europe/Berlin"},
     "t,v\n2024-03-31 01:30:00,1\n2024-03-31 02:00:00,2\n2024-03-31 02:30:00,3\n",
     1711845000,
     1800,
     3,
     {1, 2, 3},
     Q},
    {"invalid UTF-8 in other columns",
     {"time=t", "qps=v"},
     "t,\xff\xfe,v\n0,\xc3(,1\n60,\x80,2\n",
     0,
     60,
     2,
     {1, 2},
     Q},
};

TEST(csv_reads_what_it_should)
{
    for (size_t i = 0; i < ARRAY_LEN(good); i++) {
        const struct csv_case *c = &good[i];
        struct fixture f;
        print_message("           %s\n", c->name);
        assert_ok(fixture_text(&f, "csv", c->options, c->text, strlen(c->text)), &f.e);
        assert_int_equal(f.h.start_us, c->start_s * US_PER_S);
        assert_int_equal(f.h.step_us, c->step_s * US_PER_S);
        assert_int_equal(f.h.n, c->n);
        assert_non_null(f.h.col[c->field]);
        for (int k = 0; k < c->n; k++) {
            assert_near((double)f.h.col[c->field][k], c->want[k], 1e-6, 1e-6);
            assert_int_equal(f.h.barred[k], isnan(c->want[k]) != 0);
        }
        fixture_fini(&f);
    }
}

struct bad_case {
    const char *name;
    const char *options[8];
    const char *text;
    enum err_code code;
    const char *message;
};

static const struct bad_case bad[] = {
    {"empty", {"time=t", "qps=v"}, "", ERR_PARSE, "the file is empty"},
    {"blank lines only", {"time=t", "qps=v"}, "\n\n\n", ERR_PARSE, "the file is empty"},
    {"header only", {"time=t", "qps=v"}, "t,v\n", ERR_MISSING, "no usable values"},
    {"one row", {"time=t", "qps=v"}, "t,v\n0,1\n", ERR_MISSING, "only one time"},
    {"no such column",
     {"time=t", "qps=w"},
     "t,v\n0,1\n",
     ERR_MISSING,
     "qps: no column \"w\"; there are: t, v"},
    {"no such time column",
     {"time=x", "qps=v"},
     "t,v\n0,1\n",
     ERR_MISSING,
     "time: no column \"x\""},
    {"time column not told", {"qps=v"}, "t,v\n0,1\n", ERR_MISSING, "which column is the time?"},
    {"field not told", {"time=t"}, "t,v\n0,1\n", ERR_MISSING, "which column is what?"},
    {"wrong column",
     {"time=t", "qps=v"},
     "t,v\n0,a\n60,b\n",
     ERR_RANGE,
     "first at in.txt:2); is it the right column?"},
    {"all negative", {"time=t", "qps=v"}, "t,v\n0,-1\n60,-1\n", ERR_RANGE, "negative"},
    {"per cent as fraction",
     {"time=t", "cpu_util=v"},
     "t,v\n0,45\n60,50\n",
     ERR_RANGE,
     "scale it by 0.01"},
    {"times that are none",
     {"time=t", "qps=v"},
     "t,v\nnoon,1\nmidnight,2\n",
     ERR_RANGE,
     "time column and format"},
    {"a time format that changes",
     {"time=t", "qps=v"},
     "t,v\n0,1\n60,1\n2024-05-01 00:00:00,2\n",
     ERR_RANGE,
     "time cannot be read"},
    {"times out of range",
     {"time=t", "qps=v", "time_format=s"},
     "t,v\n1e300,1\n-1e300,2\n",
     ERR_RANGE,
     "1900"},
    {"rows of other lengths",
     {"time=t", "qps=v"},
     "t,v\n0,1,2\n60,1\n120\n",
     ERR_RANGE,
     "another number of columns"},
    {"one stray time",
     {"time=t", "qps=v"},
     "t,v\n1,1\n2,1\n3,1\n4000000000,1\n",
     ERR_LIMIT,
     "stray time"},
    {"one stray time in a table that would fit",
     {"time=t", "qps=v"},
     "t,v\n1,1\n2,1\n3,1\n400000,1\n",
     ERR_LIMIT,
     "4 values for 400000 steps"},
    {"no regular step",
     {"time=t", "qps=v"},
     "t,v\n0,1\n1,1\n3,1\n8,1\n20,1\n60,1\n200,1\n900,1\n5000,1\n",
     ERR_PARSE,
     "no regular step"},
    {"quote that never closes",
     {"time=t", "qps=v"},
     "t,v\n0,\"1\n60,2\n",
     ERR_PARSE,
     "opened at line 2 is not closed"},
    {"a column whose name comes twice", {"qps=v"}, "time,v,v\n0,1,2\n60,1,2\n", ERR_INVAL,
     "2 columns are called \"v\": name one by its number"},
    {"times longer apart than a file can hold", {"qps=v"}, "time,v\n0,5\n4000000000,6\n", ERR_RANGE,
     "4000000000s apart, at most 366d"},
    {"row numbers without a step", {"time_format=row", "qps=v"}, "v\n1\n", ERR_USAGE, "needs step"},
    {"metric without value",
     {"time=t", "qps=v", "metric=m"},
     "t,m,v\n",
     ERR_USAGE,
     "both metric and value"},
    {"several pods without a rule",
     {"time=t", "qps=v", "series=p"},
     "t,p,v\n0,a,1\n0,b,2\n60,a,1\n",
     ERR_INVAL,
     "2 series and no rule"},
    {"nothing passes",
     {"time=t", "qps=v", "where=p=z"},
     "t,p,v\n0,a,1\n",
     ERR_MISSING,
     "no row passes"},
    {"unknown zone",
     {"time=t", "qps=v", "zone=Mars/Olympus"},
     "t,v\n0,1\n",
     ERR_MISSING,
     "Mars/Olympus"},
    {"hostile zone", {"time=t", "qps=v", "zone=../../etc/passwd"}, "t,v\n0,1\n", ERR_INVAL, "zone"},
    {"option of another format",
     {"time=t", "qps=v", "measure=tokens"},
     "t,v\n0,1\n",
     ERR_USAGE,
     "option measure does not apply to format csv"},
    {"UTF-16", {"time=t", "qps=v"}, "\xff\xfet,v\n", ERR_PARSE, "UTF-16"},
    {"larger than allowed",
     {"time=t", "qps=v", "max_bytes=4B"},
     "t,v\n0,1\n",
     ERR_LIMIT,
     "4 bytes"},
    {"counter and count at once",
     {"time=t", "qps=v", "counter=qps", "per_step=qps"},
     "t,v\n0,1\n",
     ERR_USAGE,
     "either a counter"},
    {"counter without neighbours",
     {"time=t", "qps=v", "counter=qps", "step=1s"},
     "t,v\n0,1\n100,2\n",
     ERR_MISSING,
     "near enough"},
};

TEST(csv_refuses_what_it_should_and_says_why)
{
    for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
        const struct bad_case *c = &bad[i];
        struct fixture f;
        print_message("           %s\n", c->name);
        enum err_code rc = fixture_text(&f, "csv", c->options, c->text, strlen(c->text));
        assert_err(rc, c->code, &f.e, c->message);
        assert_null(f.h.owner);
        fixture_fini(&f);
    }
}

TEST(csv_counts_what_it_left_out_with_the_first_line)
{
    static const char text[] =
        "t,v\n0,1\n60,x\n120,2\n120,3\n121,\n60,4,5\n180,-1\n240,1\n300,1\n0,1\n";
    struct fixture f;
    assert_ok(fixture_text(&f, "csv", OPTIONS("time=t", "qps=v", "max_bad=1", "step=60s"), text,
                           sizeof text - 1),
              &f.e);
    const struct tally *t = f.report.tally;
    assert_int_equal(f.report.rows, 10);
    assert_int_equal(t[TALLY_BAD_NUMBER].count, 1);
    assert_int_equal(t[TALLY_BAD_NUMBER].line, 3);
    assert_string_equal(t[TALLY_BAD_NUMBER].file, "in.txt");
    assert_int_equal(t[TALLY_REPEATED].count, 2);
    assert_int_equal(t[TALLY_RAGGED].line, 7);
    assert_int_equal(t[TALLY_NEGATIVE].line, 8);
    assert_int_equal(t[TALLY_EMPTY].line, 6);
    assert_int_equal(t[TALLY_UNSORTED].line, 11);
    struct buf text_out = buf_init(1 << 16);
    report_text(&f.report, &text_out);
    assert_non_null(strstr(text_out.p, "first at in.txt:3"));
    buf_fini(&text_out);
    fixture_fini(&f);
}

TEST(csv_rows_of_400_columns_are_read_or_refused_by_their_header)
{
    struct buf b = buf_init(1 << 20);
    struct fixture f;
    for (int row = 0; row < 4; row++)
        for (int c = 0; c < 400; c++)
            buf_fmt(&b, row == 0 ? "%sc%d" : "%s%d", c ? "," : "",
                    row == 0 ? c
                    : c == 0 ? row * 60
                             : c);
    b.n = 0; /* start over with line ends */
    for (int row = 0; row < 4; row++) {
        for (int c = 0; c < 400; c++)
            buf_fmt(&b, row == 0 ? "%sc%d" : "%s%d", c ? "," : "",
                    row == 0 ? c
                    : c == 0 ? row * 60
                             : c);
        buf_char(&b, '\n');
    }
    assert_ok(fixture_text(&f, "csv", OPTIONS("time=c0", "qps=c399"), b.p, b.n), &f.e);
    assert_int_equal(f.h.n, 3);
    assert_near((double)f.h.col[FIELD_QPS][2], 399, 0, 0);
    fixture_fini(&f);
    buf_clear(&b);
    buf_str(&b, "t,v\n0,1\n60,1\n120,1\n");
    for (int c = 0; c < 400; c++)
        buf_str(&b, "7,");
    buf_str(&b, "\n180,1\n");
    assert_ok(fixture_text(&f, "csv", OPTIONS("time=t", "qps=v", "max_bad=0.5"), b.p, b.n), &f.e);
    assert_int_equal(f.report.tally[TALLY_RAGGED].count, 1);
    fixture_fini(&f);
    buf_clear(&b);
    for (int c = 0; c < 5000; c++)
        buf_str(&b, "a,");
    assert_err(fixture_text(&f, "csv", OPTIONS("time=t", "qps=v"), b.p, b.n), ERR_LIMIT, &f.e,
               "5001 columns");
    fixture_fini(&f);
    buf_fini(&b);
}

TEST(csv_binary_and_gigantic_lines_are_refused)
{
    struct fixture f;
    static const char binary[] = "\x7f"
                                 "ELF\0\0\0\1,2\n";
    assert_err(fixture_text(&f, "csv", OPTIONS("time=t", "qps=v"), binary, sizeof binary),
               ERR_PARSE, &f.e, "NUL");
    fixture_fini(&f);
    struct buf b = buf_init(8 << 20);
    buf_str(&b, "t,v\n0,1\n");
    buf_pad(&b, 'x', 3 << 20);
    assert_err(fixture_text(&f, "csv", OPTIONS("time=t", "qps=v"), b.p, b.n), ERR_LIMIT, &f.e,
               "line 3 is longer");
    fixture_fini(&f);
    buf_clear(&b);
    buf_str(&b, "t,v\n0,\"");
    for (int i = 0; i < 700000;
         i++) /* a quote that stays open over very many lines must not take quadratic time */
        buf_str(&b, "\"\"\n");
    assert_err(fixture_text(&f, "csv", OPTIONS("time=t", "qps=v"), b.p, b.n), ERR_LIMIT, &f.e,
               "not closed within 1 MiB");
    fixture_fini(&f);
    buf_fini(&b);
}

TEST(csv_nul_bytes_inside_a_row_spoil_only_their_cell)
{
    static const char text[] = "t,x,v\n0,a\0b,1\n60,,\0002\n120,,3\n180,,4\n";
    struct fixture f;
    assert_ok(
        fixture_text(&f, "csv", OPTIONS("time=t", "qps=v", "max_bad=0.5"), text, sizeof text - 1),
        &f.e);
    assert_int_equal(f.report.tally[TALLY_BAD_NUMBER].count, 1);
    assert_near((double)f.h.col[FIELD_QPS][1], 2, 1e-6, 0); /* interpolated */
    fixture_fini(&f);
}

TEST(csv_row_numbers_end_with_the_calendar_and_do_not_wrap_around)
{
    enum { ROWS = 300000, LINE = 2 }; /* 366 d each: past the last microsecond of 64 bits */
    struct fixture f;
    char *text = mem_zero(ROWS, LINE);
    for (size_t i = 0; i < ROWS; i++)
        memcpy(text + i * LINE, "7\n", LINE);
    enum err_code rc = fixture_text(&f, "csv", OPTIONS("time_format=row", "step=366d", "qps=1", "header=no"), text,
                                    (size_t)ROWS * LINE);
    assert_err(rc, ERR_RANGE, &f.e, "rows with a time before 1900 or after 2199 (29977");
    mem_free(text);
    fixture_fini(&f);
}

TEST(csv_files_join_in_any_order)
{
    struct fixture f;
    char *paths[2] = {mem_strdup(test_path("%s/b.csv", test_tmp_dir())),
                      mem_strdup(test_path("%s/a.csv", test_tmp_dir()))};
    test_write_file(paths[0], "t,v\n120,3\n180,4\n", 16);
    test_write_file(paths[1], "v,t\n1,0\n2,60\n", 13); /* another order of columns */
    assert_ok(fixture_import_paths(&f, "csv", OPTIONS("time=t", "qps=v"), paths, 2), &f.e);
    assert_int_equal(f.h.n, 4);
    for (int i = 0; i < 4; i++)
        assert_near((double)f.h.col[FIELD_QPS][i], i + 1, 0, 0);
    assert_string_equal(f.h.workload_id, "b");
    fixture_fini(&f);
    mem_free(paths[0]);
    mem_free(paths[1]);
}

TEST(compressed_csv_reads_the_same)
{
    static const char text[] = "t,v\n0,1\n60,2\n120,3\n";
    struct fixture plain, gz, zst;
    char packed[512];
    const char *path = test_path("%s/x.csv.gz", test_tmp_dir());
    gzFile out = gzopen(path, "wb");
    assert_int_equal(gzwrite(out, text, sizeof text - 1), sizeof text - 1);
    assert_int_equal(gzclose(out), Z_OK);
    assert_ok(fixture_text(&plain, "csv", OPTIONS("time=t", "qps=v"), text, sizeof text - 1),
              &plain.e);
    assert_ok(fixture_import(&gz, "csv", OPTIONS("time=t", "qps=v"), path), &gz.e);
    assert_string_equal(gz.h.workload_id, "x");
    assert_int_equal(gz.h.data_hash, plain.h.data_hash);
    size_t n = ZSTD_compress(packed, sizeof packed, text, sizeof text - 1, 3);
    assert_false(ZSTD_isError(n));
    assert_ok(fixture_text(&zst, "csv", OPTIONS("time=t", "qps=v"), packed, n), &zst.e);
    assert_int_equal(zst.h.data_hash, plain.h.data_hash);
    struct fixture cut;
    assert_err(fixture_text(&cut, "csv", OPTIONS("time=t", "qps=v"), packed, n - 4), ERR_PARSE,
               &cut.e, NULL);
    fixture_fini(&cut);
    fixture_fini(&plain);
    fixture_fini(&gz);
    fixture_fini(&zst);
}

TEST(a_missing_file_and_a_folder_are_clear_errors)
{
    struct fixture f;
    assert_err(fixture_import(&f, "csv", OPTIONS("time=t", "qps=v"), "/no/such/file.csv"), ERR_IO,
               &f.e, "/no/such/file.csv");
    fixture_fini(&f);
    assert_err(fixture_import(&f, "csv", OPTIONS("time=t", "qps=v"), test_tmp_dir()), ERR_IO, &f.e,
               NULL);
    fixture_fini(&f);
    assert_err(fixture_import(&f, "xml", NULL, "x"), ERR_USAGE, &f.e,
               "csv, prometheus, genai, azure-llm");
    fixture_fini(&f);
}

TEST(a_bad_scale_is_named)
{
    struct import_cfg cfg;
    struct err e;
    static const char *const texts[] = {"scale=qqs=2", "scale=qps", "scale=qps=x", "per_step=qps=2",
                                        "offset=1"};
    for (size_t i = 0; i < ARRAY_LEN(texts); i++) {
        opt_init(&import_table, &cfg);
        assert_ok(opt_set(&import_table, &cfg, texts[i], NULL, &e), &e);
        assert_err(opt_finish(&import_table, &cfg, &e), ERR_USAGE, &e, NULL);
        opt_fini(&import_table, &cfg);
    }
}
