#include "base/num.h"

#include <float.h>

#include "base/rng.h"
#include "tests/support/test.h"

static bool parse(const char *s, double *v)
{
    return num_f64(s, strlen(s), v);
}

TEST(integers_parse_whole_text_or_nothing)
{
    static const struct {
        const char *text;
        bool ok;
        int64_t want;
    } cases[] = {
        {"0", true, 0},
        {"-0", true, 0},
        {"+7", true, 7},
        {"9223372036854775807", true, INT64_MAX},
        {"-9223372036854775808", true, INT64_MIN},
        {"9223372036854775808", false, 0},
        {"-9223372036854775809", false, 0},
        {"99999999999999999999999", false, 0},
        {"", false, 0},
        {"-", false, 0},
        {"+", false, 0},
        {"-+1", false, 0},
        {" 1", false, 0},
        {"1 ", false, 0},
        {"1.0", false, 0},
        {"0x10", false, 0},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        int64_t v = 0;
        if (num_i64(cases[i].text, strlen(cases[i].text), &v) != cases[i].ok || v != cases[i].want)
            fail_msg("\"%s\": %lld", cases[i].text, (long long)v);
    }
    uint64_t u;
    assert_true(num_u64("18446744073709551615", 20, &u) && u == UINT64_MAX);
    assert_false(num_u64("18446744073709551616", 20, &u));
    assert_false(num_u64("-1", 2, &u));
}

TEST(decimal_numbers_parse_to_the_nearest_double)
{
    static const char *const good[] = {"0",      "-0.0",  "1",        ".5",    "5.",         "1e3",
                                       "1E-3",   "+2.25", "123456.789", "1e22", "1e23",       "1e-22",
                                       "1e-23",  "0.1",   "9007199254740993", "123456789012345678",
                                       "1.7976931348623157e308", "5e-324", "2.2250738585072011e-308",
                                       "000000000000000000000001", "0.000000000000000000000000001", "1e-400"};
    static const char *const bad[] = {"",     "-",    ".",     "e5",   "1e",     "1e+",   "nan", "inf",
                                      "0x1p3", "1e999", "-1e999", " 1", "1 ",    "1.2.3", "1e5.0", "1,5",
                                      "1_0",  "--1"};
    for (size_t i = 0; i < sizeof good / sizeof good[0]; i++) {
        double v = -99;
        if (!parse(good[i], &v) || v != strtod(good[i], NULL))
            fail_msg("\"%s\": %.17g", good[i], v);
    }
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        double v;
        if (parse(bad[i], &v))
            fail_msg("\"%s\" was accepted", bad[i]);
    }
    double v;
    assert_true(num_f64("12;34", 2, &v) && v == 12);
    assert_true(parse("-0.0", &v) && signbit(v));
}

TEST(decimal_text_longer_than_the_scratch_parses)
{
    char text[400];
    double v;
    memset(text, '1', sizeof text);
    text[1] = '.';
    assert_true(num_f64(text, sizeof text, &v));
    assert_near(v, 1.0 + 1.0 / 9, 1e-15, 0);
}

TEST(random_decimals_agree_with_strtod)
{
    struct rng r = rng_stream(test_seed(), "num");
    for (int i = 0; i < 100000; i++) {
        char text[64];
        double v;
        int n = snprintf(text, sizeof text, "%.*e", (int)rng_below(&r, 20),
                         (rng_unit(&r) - 0.5) * pow(10, (double)rng_below(&r, 60) - 30));
        if (i % 2)
            n = snprintf(text, sizeof text, "%.*f", (int)rng_below(&r, 12), (rng_unit(&r) - 0.5) * 1e5);
        if (!num_f64(text, (size_t)n, &v) || v != strtod(text, NULL))
            fail_msg("%s: %.17g", text, v);
    }
}

TEST(formatted_numbers_read_back_to_the_same_bits)
{
    struct rng r = rng_stream(test_seed(), "format");
    char text[NUM_TEXT];
    assert_string_equal(num_format(0.1, text), "0.1");
    assert_string_equal(num_format(-3, text), "-3");
    assert_string_equal(num_format(NAN, text), "nan");
    assert_string_equal(num_format(-INFINITY, text), "-inf");
    assert_string_equal(num_format(DBL_MAX, text), "1.7976931348623157e+308");
    for (int i = 0; i < 100000; i++) {
        uint64_t bits = rng_next(&r);
        double v, back;
        memcpy(&v, &bits, sizeof v);
        if (!isfinite(v))
            continue;
        num_format(v, text);
        if (!parse(text, &back) || memcmp(&v, &back, sizeof v) != 0)
            fail_msg("%a became %s", v, text);
    }
}
