#include "report/axis_priv.h"
#include "base/mem.h"
#include "tests/support/test.h"

TEST(linear_ticks_are_one_two_or_five_and_cover_the_range)
{
    static const struct {
        double lo, hi;
        int want;
        double a_lo, a_hi, step;
    } cases[] = {{0, 97, 5, 0, 100, 20},     {0, 1, 4, 0, 1, 0.5},
                 {3.2, 9.1, 6, 3, 10, 1},    {0, 0, 4, 0, 1, 0.5},
                 {-7, 7, 4, -10, 10, 5},     {1000, 1000, 4, 1000, 2000, 500},
                 {0, 1e-7, 5, 0, 1e-7, 2e-8}};
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct axis a = axis_linear(cases[i].lo, cases[i].hi, cases[i].want);
        assert_near(a.lo, cases[i].a_lo, 1e-20, 1e-9);
        assert_near(a.hi, cases[i].a_hi, 1e-20, 1e-9);
        assert_near(a.step, cases[i].step, 0, 1e-9);
        assert_near(a.tick[0], a.lo, 1e-12, 1e-9);
        assert_near(a.tick[a.n - 1], a.hi, 1e-12, 1e-9);
    }
}

TEST(linear_axis_of_nonsense_is_zero_to_one)
{
    const double bad[] = {NAN, INFINITY, -INFINITY, 1e308};
    for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
        struct axis a = axis_linear(0, bad[i], 4);
        assert_near(a.lo, 0, 0, 0);
        assert_near(a.hi, 1, 0, 0);
    }
}

TEST(log_ticks_thin_out_to_decades)
{
    struct axis a = axis_log(30, 900, 9);
    assert_near(a.lo, 20, 0, 1e-12);
    assert_near(a.hi, 1000, 0, 1e-12);
    assert_int_equal(a.n, 6); /* 20 50 100 200 500 1000 */
    a = axis_log(0.0003, 900, 9);
    assert_near(a.lo, 0.0002, 0, 1e-12);
    assert_int_equal(a.n, 7); /* 0.001 .. 1000 */
    assert_near(a.tick[0], 0.001, 0, 1e-12);
    a = axis_log(-1, 5, 9);
    assert_near(a.lo, 1, 0, 0);
    assert_near(axis_at(&a, 0), 0, 0, 0);
    assert_near(axis_at(&a, 1e9), 1, 0, 0);
    a = axis_log(100, 100, 9);
    assert_true(a.hi > a.lo);
}

static void assert_labels(const struct axis *a, const struct tz *zone, const char *const *want)
{
    size_t i = 0;
    for (; want[i]; i++) {
        assert_true(i < a->n);
        assert_string_equal(axis_time_label(a, zone, a->tick[i]).s, want[i]);
    }
    assert_int_equal(a->n, i);
}

#define S INT64_C(1000000)

TEST(time_ticks_fall_on_the_local_clock)
{
    struct err e;
    struct tz *zone;
    assert_ok(tz_load("America/New_York", &zone, &e), &e);
    /* 2024-03-04 18:00 local to the next noon */
    int64_t from = INT64_C(1709593200) * S;
    struct axis a = axis_time(zone, from, from + 18 * 3600 * S, 7);
    assert_labels(
        &a, zone,
        (const char *const[]){"18:00", "21:00", "5 Mar", "03:00", "06:00", "09:00", "12:00", NULL});
    tz_free(zone);
}

TEST(time_ticks_stay_on_midnight_across_a_change_of_the_clocks)
{
    struct err e;
    struct tz *zone;
    assert_ok(tz_load("America/New_York", &zone, &e), &e);
    int64_t from = INT64_C(1709960400) * S; /* 2024-03-09 00:00 local; clocks change on the 10th */
    struct axis a = axis_time(zone, from, from + 3 * 86400 * S, 4);
    assert_labels(&a, zone, (const char *const[]){"9 Mar", "10 Mar", "11 Mar", "12 Mar", NULL});
    assert_near(a.tick[2] - a.tick[1], 23 * 3600e6, 0, 0);
    tz_free(zone);
}

TEST(time_ticks_of_long_spans_are_weeks_months_and_years)
{
    int64_t jan1 = INT64_C(1704067200) * S; /* 2024-01-01, a Monday */
    struct axis a = axis_time(NULL, jan1, jan1 + 30 * 86400 * S, 5);
    assert_labels(&a, NULL,
                  (const char *const[]){"1 Jan", "8 Jan", "15 Jan", "22 Jan", "29 Jan", NULL});
    a = axis_time(NULL, jan1, jan1 + 120 * 86400 * S, 5);
    assert_labels(&a, NULL,
                  (const char *const[]){"Jan 2024", "Feb 2024", "Mar 2024", "Apr 2024", NULL});
    a = axis_time(NULL, jan1, jan1 + 3 * 366 * 86400 * S, 5);
    assert_labels(&a, NULL, (const char *const[]){"2024", "2025", "2026", "2027", NULL});
    a = axis_time(NULL, jan1, jan1, 5); /* empty */
    assert_true(a.hi > a.lo);
}

TEST(numbers_read_as_people_write_them)
{
    static const struct {
        struct fmt (*f)(double);
        double v;
        const char *want;
    } cases[] = {
        {fmt_money, 0, "$0.00"},           {fmt_money, 1234567, "$1,234,567"},
        {fmt_money, 12.345, "$12.35"},     {fmt_money, 0.01234, "$0.0123"},
        {fmt_money, -5.5, "-$5.50"},       {fmt_money, NAN, "-"},
        {fmt_percent, 0, "0 %"},           {fmt_percent, 0.01, "1 %"},
        {fmt_percent, 0.00624, "0.62 %"},  {fmt_percent, 0.0000123, "0.0012 %"},
        {fmt_percent, 0.123, "12.3 %"},    {fmt_percent, INFINITY, "-"},
        {fmt_ms, 182.4, "182 ms"},         {fmt_ms, 9.876, "9.88 ms"},
        {fmt_ms, 1250, "1.25 s"},          {fmt_ms, 204000, "3.4 min"},
        {fmt_ratio, 0.9126, "0.913"},      {fmt_duration, 15, "15 s"},
        {fmt_duration, 864000, "10 days"}, {fmt_duration, 5400, "90 min"},
        {fmt_count, 1234.4, "1,234"},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++)
        assert_string_equal(cases[i].f(cases[i].v).s, cases[i].want);
    assert_string_equal(fmt_fixed(-0.001, 2).s, "0.00");
    assert_string_equal(fmt_fixed(1e300, 2).s, "1.000e+300");
    assert_string_equal(fmt_axis(20000, 5000).s, "20k");
    assert_string_equal(fmt_axis(2500000, 500000).s, "2.5M");
    assert_string_equal(fmt_axis(0.05, 0.05).s, "0.05");
    assert_string_equal(fmt_axis(5000, 1000).s, "5,000");
}
