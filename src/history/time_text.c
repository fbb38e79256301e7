#include "history/time_text.h"

#include <math.h>
#include <string.h>

#include "base/num.h"
#include "history/raw.h"

static const int64_t S_US = 1000000;
static const int64_t DAY_S = 86400;

void time_reader_init(struct time_reader *r, enum time_format format, const struct tz *zone,
                      bool equal_is_same)
{
    *r = (struct time_reader){
        .format = format, .zone = zone, .equal_is_same = equal_is_same, .last_us = INT64_MIN};
}

const char *time_format_text(enum time_format f)
{
    static const char *const text[] = {
        [TIME_AUTO] = "not known yet",    [TIME_S] = "epoch seconds",
        [TIME_MS] = "epoch milliseconds", [TIME_US] = "epoch microseconds",
        [TIME_NS] = "epoch nanoseconds",  [TIME_RFC3339] = "RFC 3339",
        [TIME_LOCAL] = "local time",      [TIME_ROW] = "row number times step",
    };
    return text[f];
}

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

/* ---- epoch --------------------------------------------------------------------------------------
 */

/* Units per second as a power of ten. */
static int unit_digits(enum time_format f)
{
    return f == TIME_S ? 0 : f == TIME_MS ? 3 : f == TIME_US ? 6 : 9;
}

/* Digits with decimals, exactly: 1795955835.510 -> microseconds, cut.  False when it is not that.
 */
static bool epoch_digits(const char *s, size_t n, int unit, int64_t *us)
{
    size_t i = 0;
    bool minus = n > 0 && s[0] == '-';
    int64_t v = 0;
    int decimals = 6 - unit; /* still to be taken to reach microseconds; negative: digits to cut */
    i += n > 0 && (s[0] == '-' || s[0] == '+');
    size_t first = i;
    for (; i < n && is_digit(s[i]); i++) {
        if (i - first >= 18)
            return false;
        v = v * 10 + (s[i] - '0');
    }
    if (i == first)
        return false;
    if (i < n && s[i] == '.')
        for (i++; i < n && is_digit(s[i]); i++) {
            if (decimals <= 0)
                continue;
            if (v > INT64_MAX / 100)
                return false;
            v = v * 10 + (s[i] - '0');
            decimals--;
        }
    for (; decimals > 0; decimals--) {
        if (v > INT64_MAX / 100)
            return false;
        v *= 10;
    }
    for (; decimals < 0; decimals++)
        v /= 10;
    *us = minus ? -v : v;
    return i == n;
}

static enum time_result read_epoch(const char *s, size_t n, enum time_format f, int64_t *us)
{
    double v;
    if (epoch_digits(s, n, unit_digits(f), us))
        return TIME_OK;
    if (!num_f64(s, n, &v))
        return TIME_BAD;
    v *= pow(10, 6 - unit_digits(f));
    if (!(v >= (double)RAW_TIME_MIN_US && v < (double)RAW_TIME_MAX_US))
        return TIME_OUT_OF_RANGE;
    *us = llround(v);
    return TIME_OK;
}

/* By size: seconds reach 1e11 in the year 5138, milliseconds are 1e11 in March 1973. */
static enum time_format guess_epoch(const char *s, size_t n)
{
    double v;
    if (!num_f64(s, n, &v))
        return TIME_AUTO;
    v = fabs(v);
    return v < 1e11 ? TIME_S : v < 1e14 ? TIME_MS : v < 1e17 ? TIME_US : TIME_NS;
}

/* ---- dates --------------------------------------------------------------------------------------
 */

static int two(const char *s)
{
    return is_digit(s[0]) && is_digit(s[1]) ? (s[0] - '0') * 10 + (s[1] - '0') : -1;
}

/* Local midnight of "YYYY-MM-DD" or "YYYY/MM/DD". */
static bool read_date(struct time_reader *r, const char *s)
{
    if (r->date_known && memcmp(s, r->date, sizeof r->date) == 0)
        return true;
    int hi = two(s), lo = two(s + 2), month = two(s + 5), day = two(s + 8);
    if (hi < 0 || lo < 0 || s[4] != s[7] || (s[4] != '-' && s[4] != '/') ||
        !tz_date_valid(hi * 100 + lo, month, day))
        return false;
    memcpy(r->date, s, sizeof r->date);
    r->date_us = tz_days(hi * 100 + lo, month, day) * DAY_S * S_US;
    r->date_known = true;
    return true;
}

/* "12:00[:00[.f...]]"; *used tells where it ends. */
static bool read_clock(const char *s, size_t n, int64_t *us, size_t *used)
{
    if (n < 5 || s[2] != ':')
        return false;
    int h = two(s), m = two(s + 3), sec = 0;
    size_t i = 5;
    if (n >= 8 && s[5] == ':') {
        sec = two(s + 6);
        i = 8;
    }
    if (h < 0 || h > 23 || m < 0 || m > 59 || sec < 0 || sec > 60)
        return false;
    *us = ((int64_t)h * 3600 + m * 60 + sec) * S_US;
    if (i == 8 && n > 9 && (s[8] == '.' || s[8] == ',') && is_digit(s[9])) {
        int64_t digit_us = S_US;
        for (i = 9; i < n && is_digit(s[i]); i++) {
            digit_us /= 10; /* 0 past the sixth: cut */
            *us += (s[i] - '0') * digit_us;
        }
    }
    *used = i;
    return true;
}

/* The local count and the text behind it (a zone or nothing). */
static bool read_local(struct time_reader *r, const char *s, size_t n, int64_t *local_us,
                       size_t *used)
{
    int64_t clock_us;
    if (n < 10 || !read_date(r, s))
        return false;
    *local_us = r->date_us;
    *used = 10;
    if (n == 10)
        return true;
    if ((s[10] != ' ' && s[10] != 'T' && s[10] != 't') ||
        !read_clock(s + 11, n - 11, &clock_us, used))
        return false;
    *local_us += clock_us;
    *used += 11;
    return true;
}

/* "Z", "+02:00", "+0200", "+02", " UTC". */
static bool read_zone(const char *s, size_t n, int64_t *offset_us)
{
    *offset_us = 0;
    if ((n == 1 && (*s == 'Z' || *s == 'z')) || (n == 4 && memcmp(s, " UTC", 4) == 0))
        return true;
    if (n < 3 || (*s != '+' && *s != '-'))
        return false;
    int h = two(s + 1), m = n == 6 && s[3] == ':' ? two(s + 4)
                            : n == 5              ? two(s + 3)
                            : n == 3              ? 0
                                                  : -1;
    if (h < 0 || h > 23 || m < 0 || m > 59)
        return false;
    *offset_us = (*s == '-' ? -1 : 1) * ((int64_t)h * 3600 + m * 60) * S_US;
    return true;
}

static enum time_result from_local(struct time_reader *r, int64_t local_us, int64_t *us)
{
    int64_t a, b;
    *us = local_us;
    if (!r->zone)
        return TIME_OK;
    enum tz_kind kind = tz_from_local(r->zone, local_us, &a, &b);
    *us = a;
    if (kind == TZ_UNIQUE)
        return TIME_OK;
    if (kind == TZ_GAP)
        return TIME_OK_GAP;
    if (a < r->last_us || (a == r->last_us && !r->equal_is_same))
        *us = b;
    return TIME_OK_REPEAT;
}

static enum time_format guess_text(struct time_reader *r, const char *s, size_t n)
{
    int64_t local_us, offset_us;
    size_t used;
    if (!read_local(r, s, n, &local_us, &used))
        return TIME_AUTO;
    if (used == n)
        return TIME_LOCAL;
    return read_zone(s + used, n - used, &offset_us) ? TIME_RFC3339 : TIME_AUTO;
}

static enum time_result read_text(struct time_reader *r, const char *s, size_t n, int64_t *us)
{
    int64_t local_us, offset_us;
    size_t used;
    if (!read_local(r, s, n, &local_us, &used))
        return TIME_BAD;
    if (r->format == TIME_LOCAL)
        return used == n ? from_local(r, local_us, us) : TIME_BAD;
    if (used == n || !read_zone(s + used, n - used, &offset_us))
        return TIME_BAD;
    *us = local_us - offset_us;
    return TIME_OK;
}

enum time_result time_read(struct time_reader *r, const char *s, size_t n, int64_t *us)
{
    if (r->format == TIME_AUTO)
        r->format = guess_epoch(s, n);
    if (r->format == TIME_AUTO)
        r->format = guess_text(r, s, n);
    enum time_result res = TIME_BAD;
    if (r->format >= TIME_S && r->format <= TIME_NS)
        res = read_epoch(s, n, r->format, us);
    else if (r->format == TIME_RFC3339 || r->format == TIME_LOCAL)
        res = read_text(r, s, n, us);
    if (res == TIME_BAD || res == TIME_OUT_OF_RANGE)
        return res;
    if (*us < RAW_TIME_MIN_US || *us >= RAW_TIME_MAX_US)
        return TIME_OUT_OF_RANGE;
    if (*us > r->last_us)
        r->last_us = *us;
    return res;
}
