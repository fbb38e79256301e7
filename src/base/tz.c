/* tz.c - zones: instants to offsets and back.  TZif reading is in tz_file.c, dates in tz_civil.c. */
#include "base/tz.h"

#include "base/clock.h"
#include "base/mem.h"
#include "base/tz_priv.h"

static int64_t floor_div(int64_t a, int64_t b)
{
    return a / b - (a % b < 0);
}

void tz_free(struct tz *tz)
{
    if (!tz)
        return;
    mem_free(tz->at_s);
    mem_free(tz->type);
    mem_free(tz->name);
    mem_free(tz);
}

const char *tz_name(const struct tz *tz)
{
    return tz ? tz->name : "UTC";
}

/* Seconds after local midnight of January 1 of the year at which a rule strikes, by the clock it ends. */
static int64_t rule_second(const struct tz_rule *r, int year)
{
    int64_t jan1 = tz_days(year, 1, 1), day;
    bool leap = tz_month_days(year, 2) == 29;
    if (r->kind == TZ_RULE_JULIAN) {
        day = jan1 + r->day - 1 + (leap && r->day >= 60);
    } else if (r->kind == TZ_RULE_YDAY) {
        day = jan1 + r->day;
    } else {
        int64_t first = tz_days(year, r->month, 1);
        int weekday = (int)(((first + 4) % 7 + 7) % 7); /* 0 Sunday, as POSIX counts */
        int mday = (r->day - weekday + 7) % 7 + 7 * (r->week - 1);
        while (mday >= tz_month_days(year, r->month))
            mday -= 7;
        day = first + mday;
    }
    return day * 86400 + r->time_s;
}

static int32_t posix_offset(const struct tz_posix *p, int64_t utc_s)
{
    if (!p->has_dst)
        return p->std_s;
    int year, month, day;
    tz_date(floor_div(utc_s + p->std_s, 86400), &year, &month, &day);
    int64_t start = rule_second(&p->start, year) - p->std_s;
    int64_t end = rule_second(&p->end, year) - p->dst_s;
    bool dst = start < end ? utc_s >= start && utc_s < end : utc_s >= start || utc_s < end;
    return dst ? p->dst_s : p->std_s;
}

static int32_t offset_at(const struct tz *tz, int64_t utc_s)
{
    if (!tz)
        return 0;
    if (tz->n == 0 || utc_s < tz->at_s[0])
        return tz->n == 0 && tz->has_posix ? posix_offset(&tz->posix, utc_s) : tz->offset_s[tz->first];
    if (utc_s >= tz->at_s[tz->n - 1] && tz->has_posix)
        return posix_offset(&tz->posix, utc_s);
    size_t lo = 0, hi = tz->n; /* at_s[lo] <= utc_s < at_s[hi] */
    while (hi - lo > 1) {
        size_t mid = lo + (hi - lo) / 2;
        if (tz->at_s[mid] <= utc_s)
            lo = mid;
        else
            hi = mid;
    }
    return tz->offset_s[tz->type[lo]];
}

int32_t tz_offset_s(const struct tz *tz, int64_t utc_us)
{
    return offset_at(tz, floor_div(utc_us, US_PER_S));
}

int64_t tz_to_local_us(const struct tz *tz, int64_t utc_us)
{
    return utc_us + tz_offset_s(tz, utc_us) * US_PER_S;
}

/* Offsets lie within +-26 h (checked on reading), so the offsets one day and a bit before and after are
 * the only two candidates; zones never changed twice within two days. */
enum tz_kind tz_from_local(const struct tz *tz, int64_t local_us, int64_t *a_us, int64_t *b_us)
{
    int64_t before = local_us - tz_offset_s(tz, local_us - 27 * US_PER_HOUR) * US_PER_S;
    int64_t after = local_us - tz_offset_s(tz, local_us + 27 * US_PER_HOUR) * US_PER_S;
    bool before_fits = tz_to_local_us(tz, before) == local_us;
    bool after_fits = tz_to_local_us(tz, after) == local_us;
    *a_us = before_fits || !after_fits ? before : after;
    *b_us = after_fits || !before_fits ? after : before;
    if (before_fits && after_fits)
        return before == after ? TZ_UNIQUE : TZ_REPEAT;
    return before_fits || after_fits ? TZ_UNIQUE : TZ_GAP;
}
