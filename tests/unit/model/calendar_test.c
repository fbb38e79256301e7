#include "model/calendar.h"

#include "base/mem.h"
#include "base/tz.h"
#include "tests/support/test.h"

static int64_t at(const char *rfc3339)
{
    int64_t us;
    struct err e;
    assert_ok(tz_parse_rfc3339(rfc3339, strlen(rfc3339), &us, &e), &e);
    return us;
}

struct point_case {
    const char *time;
    int minute, slot, weekday;
    bool month_end, quarter_end;
};

static void check(const struct calendar *cal, const struct point_case *c)
{
    struct calendar_point p = calendar_at(cal, at(c->time));
    print_message("           %s\n", c->time);
    assert_int_equal(p.minute, c->minute);
    assert_int_equal(p.slot, c->slot);
    assert_int_equal(p.weekday, c->weekday);
    assert_int_equal(p.month_end, c->month_end);
    assert_int_equal(p.quarter_end, c->quarter_end);
}

TEST(calendar_points_in_utc)
{
    static const struct point_case cases[] = {
        {"1970-01-01T00:00:00Z", 0, 0, 3, false, false},
        {"1969-12-31T23:59:59Z", 1439, 95, 2, true,
         true}, /* before the epoch: rounds down, not to zero */
        {"2024-02-29T12:14:59Z", 734, 48, 3, true, false},
        {"2023-02-28T00:15:00Z", 15, 1, 1, true, false},
        {"2024-02-28T00:15:00Z", 15, 1, 2, false, false},
        {"2024-03-31T23:45:00Z", 1425, 95, 6, true, true},
        {"2024-06-30T00:00:00Z", 0, 0, 6, true, true},
        {"2024-04-30T00:00:00Z", 0, 0, 1, true, false},
    };
    struct calendar cal = {0};
    for (size_t i = 0; i < ARRAY_LEN(cases); i++)
        check(&cal, &cases[i]);
}

TEST(calendar_follows_the_local_clock_over_daylight_saving)
{
    static const struct point_case cases[] = {
        {"2024-03-31T00:59:00Z", 119, 7, 6, true, true}, /* 01:59 CET */
        {"2024-03-31T01:00:00Z", 180, 12, 6, true,
         true}, /* 03:00 CEST: two o'clock does not exist */
        {"2024-10-27T00:30:00Z", 150, 10, 6, false, false}, /* 02:30 CEST */
        {"2024-10-27T01:30:00Z", 150, 10, 6, false, false}, /* 02:30 CET */
        {"2024-12-31T22:59:59Z", 1439, 95, 1, true, true},
        {"2024-12-31T23:00:00Z", 0, 0, 2, false, false}, /* already the new year in Berlin */
    };
    struct tz *zone;
    struct err e;
    assert_ok(tz_load("Europe/Berlin", &zone, &e), &e);
    struct calendar cal = {.zone = zone};
    for (size_t i = 0; i < ARRAY_LEN(cases); i++)
        check(&cal, &cases[i]);
    tz_free(zone);
}

TEST(holidays_are_local_days_and_no_workdays)
{
    const int32_t days[] = {0, (int32_t)tz_days(2024, 12, 25), (int32_t)tz_days(2024, 12, 26)};
    struct tz *zone;
    struct err e;
    assert_ok(tz_load("America/New_York", &zone, &e), &e);
    struct calendar cal = {.zone = zone, .holiday_days = days, .n_holidays = ARRAY_LEN(days)};
    struct calendar_point eve =
        calendar_at(&cal, at("2024-12-25T04:59:59Z")); /* Tuesday 24th, local */
    struct calendar_point first =
        calendar_at(&cal, at("2024-12-25T05:00:00Z")); /* Wednesday 25th */
    struct calendar_point after = calendar_at(&cal, at("2024-12-27T05:00:00Z"));
    struct calendar_point saturday = calendar_at(&cal, at("2024-12-28T12:00:00Z"));
    assert_false(eve.holiday);
    assert_true(calendar_is_workday(&eve));
    assert_true(first.holiday);
    assert_false(calendar_is_workday(&first));
    assert_false(after.holiday);
    assert_true(calendar_is_workday(&after));
    assert_false(calendar_is_workday(&saturday));
    tz_free(zone);
}

TEST(every_minute_of_a_year_is_in_the_slot_of_its_local_time)
{
    struct tz *zone;
    struct err e;
    assert_ok(tz_load("Australia/Lord_Howe", &zone, &e), &e); /* shifts by half an hour */
    struct calendar cal = {.zone = zone};
    for (int64_t t = at("2024-01-01T00:00:00Z"); t < at("2025-01-01T00:00:00Z");
         t += 7 * 60000000) {
        struct calendar_point p = calendar_at(&cal, t);
        struct tz_civil c = tz_civil(tz_to_local_us(zone, t));
        assert_int_equal(p.minute, c.hour * 60 + c.minute);
        assert_int_equal(p.slot, p.minute / 15);
        assert_int_equal(p.weekday, c.weekday);
        assert_int_equal(p.day, tz_days(c.year, c.month, c.day));
    }
    tz_free(zone);
}
