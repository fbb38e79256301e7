#include "model/calendar.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/tz.h"

static const int64_t DAY_US = INT64_C(86400) * 1000000;
static const int64_t MINUTE_US = INT64_C(60) * 1000000;

static int64_t floor_div(int64_t a, int64_t b)
{
    return a / b - (a % b < 0);
}

static int by_day(const void *a, const void *b)
{
    int32_t x = *(const int32_t *)a, y = *(const int32_t *)b;
    return (x > y) - (x < y);
}

enum err_code calendar_read_holidays(const char *const *dates, size_t n, int32_t *days, struct err *e)
{
    for (size_t i = 0; i < n; i++) {
        int year, month, day, used = 0;
        if (sscanf(dates[i], "%4d-%2d-%2d%n", &year, &month, &day, &used) != 3 || dates[i][used] ||
            !tz_date_valid(year, month, day))
            return err_set(e, ERR_PARSE, "holidays: \"%s\" is not a date YYYY-MM-DD", dates[i]);
        days[i] = (int32_t)tz_days(year, month, day);
    }
    qsort(days, n, sizeof *days, by_day);
    return ERR_OK;
}

static bool is_holiday(const struct calendar *cal, int32_t day)
{
    size_t lo = 0, hi = cal->n_holidays;
    while (lo < hi) {
        size_t mid = lo + (hi - lo) / 2;
        if (cal->holiday_days[mid] < day)
            lo = mid + 1;
        else
            hi = mid;
    }
    return lo < cal->n_holidays && cal->holiday_days[lo] == day;
}

struct calendar_point calendar_at(const struct calendar *cal, int64_t time_us)
{
    int64_t local_us = tz_to_local_us(cal->zone, time_us);
    int64_t day = floor_div(local_us, DAY_US);
    int64_t minute = (local_us - day * DAY_US) / MINUTE_US;
    int year, month, mday;
    tz_date(day, &year, &month, &mday);
    int64_t since_monday = day + 3; /* 1970-01-01 was a Thursday */
    struct calendar_point p = {
        .day = (int32_t)day,
        .minute = (int16_t)minute,
        .slot = (int8_t)(minute / SLOT_MINUTES),
        .weekday = (int8_t)(since_monday - 7 * floor_div(since_monday, 7)),
        .holiday = is_holiday(cal, (int32_t)day),
        .month_end = mday == tz_month_days(year, month),
    };
    p.quarter_end = p.month_end && month % 3 == 0;
    return p;
}

bool calendar_is_workday(const struct calendar_point *p)
{
    return p->weekday < 5 && !p->holiday;
}
