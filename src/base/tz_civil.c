/* tz_civil.c - dates, and times as text. */
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/tz.h"

/* days_from_civil and civil_from_days: Hinnant 2013, howardhinnant.github.io/date_algorithms.html.
 * Years start in March, so the leap day is the last; 146097 days are a 400-year era. */
int64_t tz_days(int year, int month, int day)
{
    int64_t y = (int64_t)year - (month <= 2);
    int64_t era = (y >= 0 ? y : y - 399) / 400;
    int64_t yoe = y - era * 400;
    int64_t doy = (153 * (month + (month > 2 ? -3 : 9)) + 2) / 5 + day - 1;
    int64_t doe = yoe * 365 + yoe / 4 - yoe / 100 + doy;
    return era * 146097 + doe - 719468;
}

void tz_date(int64_t days, int *year, int *month, int *day)
{
    int64_t z = days + 719468;
    int64_t era = (z >= 0 ? z : z - 146096) / 146097;
    int64_t doe = z - era * 146097;
    int64_t yoe = (doe - doe / 1460 + doe / 36524 - doe / 146096) / 365;
    int64_t doy = doe - (365 * yoe + yoe / 4 - yoe / 100);
    int64_t mp = (5 * doy + 2) / 153;
    *day = (int)(doy - (153 * mp + 2) / 5 + 1);
    *month = (int)(mp < 10 ? mp + 3 : mp - 9);
    *year = (int)(yoe + era * 400 + (*month <= 2));
}

int tz_month_days(int year, int month)
{
    static const int days[] = {31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};
    bool leap = (year % 4 == 0 && year % 100 != 0) || year % 400 == 0;
    return month == 2 && leap ? 29 : days[month - 1];
}

bool tz_date_valid(int year, int month, int day)
{
    return year >= 1 && year <= 9999 && month >= 1 && month <= 12 && day >= 1 &&
           day <= tz_month_days(year, month);
}

struct tz_civil tz_civil(int64_t count_us)
{
    struct tz_civil c;
    int64_t days = count_us / US_PER_DAY - (count_us % US_PER_DAY < 0);
    int64_t us = count_us - days * US_PER_DAY;
    tz_date(days, &c.year, &c.month, &c.day);
    c.hour = (int)(us / US_PER_HOUR);
    c.minute = (int)(us / US_PER_MIN % 60);
    c.second = (int)(us / US_PER_S % 60);
    c.us = (int)(us % US_PER_S);
    c.weekday = (int)(((days + 3) % 7 + 7) % 7); /* day 0 was a Thursday */
    c.yday = (int)(days - tz_days(c.year, 1, 1));
    return c;
}

int64_t tz_count_us(const struct tz_civil *c)
{
    return tz_days(c->year, c->month, c->day) * US_PER_DAY + c->hour * US_PER_HOUR +
           c->minute * US_PER_MIN + c->second * US_PER_S + c->us;
}

/* Exactly `digits` digits at s, or -1. */
static int fixed(const char *s, int digits)
{
    int v = 0;
    for (int i = 0; i < digits; i++) {
        if (s[i] < '0' || s[i] > '9')
            return -1;
        v = v * 10 + (s[i] - '0');
    }
    return v;
}

/* ".123456789" at s: microseconds in *us, bytes used returned, 0 when malformed. */
static size_t fraction(const char *s, size_t n, int *us)
{
    size_t i = 1;
    int scale = 100000;
    *us = 0;
    for (; i < n && s[i] >= '0' && s[i] <= '9'; i++) {
        *us += (s[i] - '0') * scale;
        scale /= 10;
    }
    return i == 1 || i > 10 ? 0 : i;
}

/* "YYYY-MM-DD?hh:mm:ss[.f]": bytes used, or 0. */
static size_t date_time(const char *s, size_t n, struct tz_civil *c)
{
    if (n < 19 || s[4] != '-' || s[7] != '-' || !memchr("Tt ", s[10], 3) || s[13] != ':' || s[16] != ':')
        return 0;
    *c = (struct tz_civil){.year = fixed(s, 4), .month = fixed(s + 5, 2), .day = fixed(s + 8, 2),
                           .hour = fixed(s + 11, 2), .minute = fixed(s + 14, 2),
                           .second = fixed(s + 17, 2)};
    if (!tz_date_valid(c->year, c->month, c->day) || c->hour < 0 || c->hour > 23 || c->minute < 0 ||
        c->minute > 59 || c->second < 0 || c->second > 60)
        return 0;
    if (n == 19 || s[19] != '.')
        return 19;
    size_t used = fraction(s + 19, n - 19, &c->us);
    return used ? 19 + used : 0;
}

static bool zone_offset(const char *s, size_t n, int32_t *offset_s)
{
    *offset_s = 0;
    if (n == 1)
        return *s == 'Z' || *s == 'z';
    if (n != 6 || (*s != '+' && *s != '-') || s[3] != ':')
        return false;
    int h = fixed(s + 1, 2), m = fixed(s + 4, 2);
    if (h < 0 || h > 23 || m < 0 || m > 59)
        return false;
    *offset_s = (*s == '-' ? -1 : 1) * (h * 3600 + m * 60);
    return true;
}

static enum err_code bad_time(const char *s, size_t n, const char *want, struct err *e)
{
    return err_set(e, ERR_PARSE, "\"%.*s\" is not a time like %s", (int)(n < 60 ? n : 60), s, want);
}

enum err_code tz_parse_rfc3339(const char *s, size_t n, int64_t *utc_us, struct err *e)
{
    struct tz_civil c;
    int32_t offset_s;
    size_t used = date_time(s, n, &c);
    if (used == 0 || !zone_offset(s + used, n - used, &offset_s))
        return bad_time(s, n, "2024-05-01T12:00:00Z", e);
    *utc_us = tz_count_us(&c) - offset_s * US_PER_S;
    return ERR_OK;
}

enum err_code tz_parse_naive(const char *s, size_t n, int64_t *local_us, struct err *e)
{
    struct tz_civil c;
    if (date_time(s, n, &c) != n || n == 0)
        return bad_time(s, n, "2024-05-01 12:00:00", e);
    *local_us = tz_count_us(&c);
    return ERR_OK;
}

enum err_code tz_parse_time(const struct tz *tz, const char *s, size_t n, int64_t *utc_us,
                            enum tz_kind *kind, struct err *e)
{
    int64_t local_us = 0, later_us;
    enum tz_kind k = TZ_UNIQUE;
    if (tz_parse_naive(s, n, &local_us, NULL) == ERR_OK)
        k = tz_from_local(tz, local_us, utc_us, &later_us);
    else if (tz_parse_rfc3339(s, n, utc_us, NULL) != ERR_OK)
        return bad_time(s, n, "2024-05-01T12:00:00Z or 2024-05-01 12:00:00", e);
    if (kind)
        *kind = k;
    return ERR_OK;
}

static int format(int64_t count_us, char separator, char out[TZ_TEXT])
{
    struct tz_civil c = tz_civil(count_us);
    int n = snprintf(out, TZ_TEXT, "%04d-%02d-%02d%c%02d:%02d:%02d", c.year, c.month, c.day, separator,
                     c.hour, c.minute, c.second);
    if (c.us % 1000)
        n += snprintf(out + n, TZ_TEXT - (size_t)n, ".%06d", c.us);
    else if (c.us)
        n += snprintf(out + n, TZ_TEXT - (size_t)n, ".%03d", c.us / 1000);
    return n;
}

void tz_format_rfc3339(const struct tz *tz, int64_t utc_us, char out[TZ_TEXT])
{
    int32_t offset_s = tz_offset_s(tz, utc_us);
    /* RFC 3339 has no seconds in offsets; local mean times before standard time are shown in UTC. */
    if (offset_s % 60)
        offset_s = 0;
    int n = format(utc_us + offset_s * US_PER_S, 'T', out);
    int minutes = (offset_s < 0 ? -offset_s : offset_s) / 60;
    if (offset_s == 0)
        (void)snprintf(out + n, TZ_TEXT - (size_t)n, "Z");
    else
        (void)snprintf(out + n, TZ_TEXT - (size_t)n, "%c%02d:%02d", offset_s < 0 ? '-' : '+',
                       minutes / 60, minutes % 60);
}

void tz_format_naive(int64_t count_us, char out[TZ_TEXT])
{
    (void)format(count_us, ' ', out);
}
