#include "base/tz.h"

#include <time.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/file.h"
#include "base/mem.h"
#include "base/rng.h"
#include "tests/support/test.h"

static const char *const zones[] = {
    "UTC", "Europe/Berlin", "Europe/Dublin", "America/New_York", "America/Sao_Paulo", "Asia/Kolkata",
    "Asia/Shanghai", "Australia/Lord_Howe", "Pacific/Apia", "Africa/Casablanca", "America/St_Johns",
    "Asia/Kathmandu", "Antarctica/Troll", "Europe/Lisbon", "Pacific/Chatham",
};

static struct tz *load(const char *name)
{
    struct err e;
    struct tz *tz;
    assert_ok(tz_load(name, &tz, &e), &e);
    return tz;
}

static void use_libc_zone(const char *name)
{
    assert_int_equal(setenv("TZ", name, 1), 0);
    tzset();
}

TEST(offsets_agree_with_the_c_library_over_random_times)
{
    struct rng r = rng_stream(test_seed(), "tz");
    for (size_t z = 0; z < ARRAY_LEN(zones); z++) {
        struct tz *tz = load(zones[z]);
        use_libc_zone(zones[z]);
        assert_string_equal(tz_name(tz), zones[z]);
        for (int i = 0; i < 20000; i++) {
            /* 1915 .. 2099: all transitions, and decades under the rule of the footer */
            time_t t = (time_t)(-1735689600 + (int64_t)(rng_unit(&r) * 5.8e9));
            struct tm tm;
            assert_non_null(localtime_r(&t, &tm));
            if (tz_offset_s(tz, t * US_PER_S) != tm.tm_gmtoff)
                fail_msg("%s at %lld: %d against %ld", zones[z], (long long)t, tz_offset_s(tz, t * US_PER_S),
                         tm.tm_gmtoff);
            struct tz_civil c = tz_civil(tz_to_local_us(tz, t * US_PER_S));
            assert_int_equal(c.year, tm.tm_year + 1900);
            assert_int_equal(c.month, tm.tm_mon + 1);
            assert_int_equal(c.day, tm.tm_mday);
            assert_int_equal(c.hour, tm.tm_hour);
            assert_int_equal(c.weekday, (tm.tm_wday + 6) % 7);
            assert_int_equal(c.yday, tm.tm_yday);
        }
        tz_free(tz);
    }
    use_libc_zone("UTC");
}

TEST(every_instant_is_among_the_instants_of_its_local_time)
{
    struct rng r = rng_stream(test_seed(), "tz2");
    int seen[3] = {0};
    for (size_t z = 0; z < ARRAY_LEN(zones); z++) {
        struct tz *tz = load(zones[z]);
        for (int i = 0; i < 20000; i++) {
            int64_t utc = (946684800 + (int64_t)(rng_unit(&r) * 2e9)) * US_PER_S, a, b;
            enum tz_kind kind = tz_from_local(tz, tz_to_local_us(tz, utc), &a, &b);
            seen[kind]++;
            assert_int_not_equal(kind, TZ_GAP);
            assert_true(a <= b && (a == utc || b == utc));
            assert_int_equal(kind == TZ_UNIQUE, a == b);
        }
        tz_free(tz);
    }
    assert_true(seen[TZ_REPEAT] > 0);
}

static int64_t local(const char *text)
{
    struct err e;
    int64_t us;
    assert_ok(tz_parse_naive(text, strlen(text), &us, &e), &e);
    return us;
}

static const char *utc_text(int64_t us)
{
    static char text[TZ_TEXT];
    tz_format_rfc3339(NULL, us, text);
    return text;
}

TEST(local_times_skipped_or_shown_twice_are_flagged_with_both_candidates)
{
    static const struct {
        const char *zone, *local, *a, *b;
        enum tz_kind kind;
    } cases[] = {
        {"Europe/Berlin", "2024-03-31 01:59:59", "2024-03-31T00:59:59Z", NULL, TZ_UNIQUE},
        {"Europe/Berlin", "2024-03-31 02:00:00", "2024-03-31T01:00:00Z", "2024-03-31T00:00:00Z", TZ_GAP},
        {"Europe/Berlin", "2024-03-31 02:30:00", "2024-03-31T01:30:00Z", "2024-03-31T00:30:00Z", TZ_GAP},
        {"Europe/Berlin", "2024-03-31 03:00:00", "2024-03-31T01:00:00Z", NULL, TZ_UNIQUE},
        {"Europe/Berlin", "2024-10-27 02:00:00", "2024-10-27T00:00:00Z", "2024-10-27T01:00:00Z", TZ_REPEAT},
        {"Europe/Berlin", "2024-10-27 02:59:59", "2024-10-27T00:59:59Z", "2024-10-27T01:59:59Z", TZ_REPEAT},
        {"Europe/Berlin", "2024-10-27 03:00:00", "2024-10-27T02:00:00Z", NULL, TZ_UNIQUE},
        {"Europe/Berlin", "2080-07-01 12:00:00", "2080-07-01T10:00:00Z", NULL, TZ_UNIQUE},
        {"Australia/Lord_Howe", "2024-04-07 01:45:00", "2024-04-06T14:45:00Z", "2024-04-06T15:15:00Z", TZ_REPEAT},
        {"Pacific/Apia", "2011-12-30 12:00:00", "2011-12-30T22:00:00Z", "2011-12-29T22:00:00Z", TZ_GAP},
        {"Asia/Shanghai", "2024-07-01 08:00:00", "2024-07-01T00:00:00Z", NULL, TZ_UNIQUE},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct tz *tz = load(cases[i].zone);
        int64_t a, b;
        enum tz_kind kind = tz_from_local(tz, local(cases[i].local), &a, &b);
        assert_int_equal(kind, cases[i].kind);
        assert_string_equal(utc_text(a), cases[i].a);
        assert_string_equal(utc_text(b), cases[i].b ? cases[i].b : cases[i].a);
        tz_free(tz);
    }
}

TEST(zone_names_that_leave_the_folder_are_refused)
{
    static const char *const bad[] = {"", "/etc/passwd", "../../etc/passwd", "Europe/../../x", ".hidden", "a b", "x\ny"};
    struct err e;
    struct tz *tz;
    for (size_t i = 0; i < ARRAY_LEN(bad); i++)
        assert_err(tz_load(bad[i], &tz, &e), ERR_INVAL, &e, "not a zone name");
    assert_err(tz_load("Europe/Nowhere", &tz, &e), ERR_MISSING, &e, "Europe/Berlin");
    assert_err(tz_load("Europe", &tz, &e), ERR_IO, &e, "directory");
}

TEST(missing_zone_data_says_to_install_it_and_utc_needs_none)
{
    struct err e;
    struct tz *tz;
    assert_int_equal(setenv("TZDIR", "/no/such/folder", 1), 0);
    assert_err(tz_load("Europe/Berlin", &tz, &e), ERR_MISSING, &e, "install the package tzdata");
    assert_ok(tz_load("UTC", &tz, &e), &e);
    assert_int_equal(tz_offset_s(tz, 1), 0);
    tz_free(tz);
    assert_int_equal(unsetenv("TZDIR"), 0);
    tz_free(NULL);
    assert_int_equal(tz_offset_s(NULL, 5), 0);
}

static struct buf berlin(void)
{
    struct err e;
    struct buf b;
    assert_ok(file_read("/usr/share/zoneinfo/Europe/Berlin", 1 << 20, &b, &e), &e);
    return b;
}

TEST(cut_zone_files_are_refused)
{
    struct buf b = berlin();
    for (size_t n = 0; n < b.n; n++) {
        struct err e;
        struct tz *tz;
        char *cut = mem_zero(n + 1, 1); /* exact size: the sanitizer sees a read past the end */
        memcpy(cut, b.p, n);
        assert_err(tz_parse(cut, n, "cut", &tz, &e), ERR_PARSE, &e, "not a valid TZif file");
        mem_free(cut);
    }
    buf_fini(&b);
}

TEST(zone_files_whose_times_do_not_ascend_are_refused)
{
    struct buf b = berlin();
    struct err e;
    struct tz *tz;
    char *second = memmem(b.p + 4, b.n - 4, "TZif", 4); /* header of the 64-bit part */
    assert_non_null(second);
    memcpy(second + 44 + 8, second + 44, 8);
    assert_err(tz_parse(b.p, b.n, "equal", &tz, &e), ERR_PARSE, &e, "not a valid TZif file");
    buf_fini(&b);
}

TEST(damaged_zone_files_are_refused_or_harmless)
{
    struct buf b = berlin();
    struct rng r = rng_stream(test_seed(), "damage");
    for (int round = 0; round < 20000; round++) {
        struct err e;
        struct tz *tz;
        size_t at = rng_below(&r, (uint32_t)b.n);
        char keep = b.p[at];
        b.p[at] = (char)rng_next(&r);
        if (tz_parse(b.p, b.n, "damaged", &tz, &e) == ERR_OK) {
            int64_t x, y, now = (int64_t)(rng_unit(&r) * 4e9) * US_PER_S;
            assert_in_range(tz_offset_s(tz, now) + 26 * 3600, 0, 52 * 3600);
            (void)tz_from_local(tz, now, &x, &y);
            tz_free(tz);
        }
        b.p[at] = keep;
    }
    buf_fini(&b);
}

/* A version 2 file without transitions: only the rule of the footer. */
static enum err_code parse_rule(const char *rule, struct tz **tz, struct err *e)
{
    unsigned char head[44] = "TZif2", block[50] = {0};
    head[39] = 1; /* one type */
    head[43] = 1; /* one name byte */
    struct buf b = buf_init(1000);
    for (int i = 0; i < 2; i++) {
        buf_add(&b, head, sizeof head);
        buf_add(&b, block, 7);
    }
    buf_fmt(&b, "\n%s\n", rule);
    enum err_code rc = tz_parse(b.p, b.n, "rule", tz, e);
    buf_fini(&b);
    return rc;
}

TEST(posix_rules_agree_with_the_c_library)
{
    static const char *const rules[] = {
        "CET-1CEST,M3.5.0,M10.5.0/3", "EST5EDT,M3.2.0,M11.1.0", "<+0330>-3:30", "IST-1GMT0,M10.5.0,M3.5.0/1",
        "AEST-10AEDT,M10.1.0,M4.1.0/3", "XXX3YYY,J60/2,J300/2", "XXX3YYY,59/2,299/2",
        "<-03>3<-02>,M3.5.0/-2,M10.5.0/-1", "XXX-12:45:30YYY,M9.5.0/2:45,M4.1.0/3:45",
    };
    struct rng r = rng_stream(test_seed(), "rules");
    for (size_t i = 0; i < ARRAY_LEN(rules); i++) {
        struct err e;
        struct tz *tz;
        assert_ok(parse_rule(rules[i], &tz, &e), &e);
        use_libc_zone(rules[i]);
        for (int k = 0; k < 5000; k++) {
            time_t t = (time_t)(rng_unit(&r) * 4e9);
            struct tm tm;
            assert_non_null(localtime_r(&t, &tm));
            if (tz_offset_s(tz, t * US_PER_S) != tm.tm_gmtoff)
                fail_msg("%s at %lld: %d against %ld", rules[i], (long long)t, tz_offset_s(tz, t * US_PER_S), tm.tm_gmtoff);
        }
        tz_free(tz);
    }
    use_libc_zone("UTC");
}

TEST(malformed_posix_rules_are_refused)
{
    static const char *const bad[] = {"X1", "CET", "CET-25", "CET-1CEST", "CET-1CEST,M3.5.0", "CET-1CEST,M13.1.0,M1.1.0",
                                      "CET-1CEST,M3.6.0,M1.1.0", "CET-1CEST,M3.5.7,M1.1.0", "CET-1CEST,J0,J1",
                                      "CET-1CEST,366,1", "<CET-1", "CET-1CEST,M3.5.0,M10.5.0/168", "CET-1:60",
                                      "CET-1CEST,M3.5.0,M10.5.0x", "CET-1CEST,,", "99999999999999999999"};
    for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
        struct err e;
        struct tz *tz;
        if (parse_rule(bad[i], &tz, &e) == ERR_OK)
            fail_msg("%s was accepted", bad[i]);
    }
}

TEST(dates_count_days_both_ways)
{
    assert_int_equal(tz_days(1970, 1, 1), 0);
    assert_int_equal(tz_days(2000, 3, 1), 11017);
    assert_int_equal(tz_days(1, 1, 1), -719162);
    assert_int_equal(tz_month_days(1900, 2), 28);
    assert_int_equal(tz_month_days(2000, 2), 29);
    assert_true(tz_date_valid(2024, 2, 29) && !tz_date_valid(2023, 2, 29) && !tz_date_valid(0, 1, 1));
    assert_true(!tz_date_valid(2024, 13, 1) && !tz_date_valid(2024, 0, 1) && !tz_date_valid(2024, 4, 31));
    int year = 1, month = 1, day = 1;
    for (int64_t days = tz_days(1, 1, 1); year < 2500; days++) {
        int y, m, d;
        tz_date(days, &y, &m, &d);
        if (y != year || m != month || d != day || tz_days(y, m, d) != days)
            fail_msg("day %lld is %d-%d-%d", (long long)days, y, m, d);
        if (++day > tz_month_days(year, month)) {
            day = 1;
            month = month % 12 + 1;
            year += month == 1;
        }
    }
}

TEST(rfc3339_times_parse_with_any_offset_and_precision)
{
    static const struct {
        const char *text;
        int64_t us;
    } cases[] = {
        {"1970-01-01T00:00:00Z", 0},
        {"2024-05-01T12:00:00Z", 1714564800000000},
        {"2024-05-01t12:00:00z", 1714564800000000},
        {"2024-05-01 14:00:00+02:00", 1714564800000000},
        {"2024-05-01T06:30:00-05:30", 1714564800000000},
        {"2024-05-01T12:00:00.5Z", 1714564800500000},
        {"2024-05-01T12:00:00.123456789Z", 1714564800123456},
        {"1969-12-31T23:59:59.000001Z", -999999},
        {"2016-12-31T23:59:60Z", 1483228800000000},
    };
    struct err e;
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        int64_t us;
        assert_ok(tz_parse_rfc3339(cases[i].text, strlen(cases[i].text), &us, &e), &e);
        assert_int_equal(us, cases[i].us);
    }
}

TEST(times_that_are_not_quite_times_are_refused)
{
    static const char *const bad[] = {"", "2024-05-01", "2024-05-01T12:00:00", "2024-05-01T12:00Z", "2024-02-30T12:00:00Z",
                                      "2024-05-01T24:00:00Z", "2024-05-01T12:60:00Z", "2024-05-01T12:00:61Z",
                                      "2024-05-01T12:00:00.Z", "2024-05-01T12:00:00.1234567890Z", "2024-05-01T12:00:00+2:00",
                                      "2024-05-01T12:00:00+24:00", "2024-05-01T12:00:00Zx", "0000-01-01T00:00:00Z",
                                      " 2024-05-01T12:00:00Z", "2024-05-01T12:00:00 Z", "2024-5-01T12:00:00ZZZ", "20x4-05-01T12:00:00Z"};
    for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
        struct err e;
        int64_t us;
        assert_err(tz_parse_rfc3339(bad[i], strlen(bad[i]), &us, &e), ERR_PARSE, &e, "is not a time like");
    }
    struct err e;
    int64_t us;
    assert_err(tz_parse_naive("2024-05-01 12:00:00Z", 20, &us, &e), ERR_PARSE, &e, "2024-05-01 12:00:00");
    assert_err(tz_parse_naive("", 0, &us, &e), ERR_PARSE, &e, "is not a time");
    assert_ok(tz_parse_naive("2023-11-16 18:17:03.9799600", 27, &us, &e), &e);
    assert_int_equal(us, 1700158623979960);
}

TEST(naive_times_are_read_in_the_given_zone)
{
    struct err e;
    struct tz *tz = load("Europe/Berlin");
    int64_t us;
    enum tz_kind kind;
    assert_ok(tz_parse_time(tz, "2024-07-01 12:00:00", 19, &us, &kind, &e), &e);
    assert_string_equal(utc_text(us), "2024-07-01T10:00:00Z");
    assert_int_equal(kind, TZ_UNIQUE);
    assert_ok(tz_parse_time(tz, "2024-07-01T12:00:00Z", 20, &us, &kind, &e), &e);
    assert_string_equal(utc_text(us), "2024-07-01T12:00:00Z");
    assert_ok(tz_parse_time(tz, "2024-10-27 02:30:00", 19, &us, &kind, &e), &e);
    assert_int_equal(kind, TZ_REPEAT);
    assert_ok(tz_parse_time(NULL, "2024-10-27 02:30:00", 19, &us, NULL, &e), &e);
    assert_err(tz_parse_time(tz, "noon", 4, &us, &kind, &e), ERR_PARSE, &e, "\"noon\" is not a time");
    char text[TZ_TEXT];
    tz_format_rfc3339(tz, 1714564800500000, text);
    assert_string_equal(text, "2024-05-01T14:00:00.500+02:00");
    tz_format_rfc3339(tz, 1714564800000001, text);
    assert_string_equal(text, "2024-05-01T14:00:00.000001+02:00");
    tz_format_rfc3339(tz, INT64_C(-2524521600000000), text); /* 1890: local mean time has seconds */
    assert_string_equal(text, "1890-01-01T00:00:00Z");
    tz_format_naive(-1, text);
    assert_string_equal(text, "1969-12-31 23:59:59.999999");
    tz_free(tz);
}

TEST(times_read_back_what_was_formatted)
{
    struct rng r = rng_stream(test_seed(), "roundtrip");
    struct tz *tz = load("America/St_Johns");
    for (int i = 0; i < 20000; i++) {
        struct err e;
        char text[TZ_TEXT];
        int64_t us = (int64_t)((rng_unit(&r) * 8e9 - 1e9) * 1e6), back;
        tz_format_rfc3339(tz, us, text);
        assert_ok(tz_parse_rfc3339(text, strlen(text), &back, &e), &e);
        assert_int_equal(back, us);
        tz_format_naive(us, text);
        assert_ok(tz_parse_naive(text, strlen(text), &back, &e), &e);
        assert_int_equal(back, us);
        struct tz_civil c = tz_civil(us);
        assert_int_equal(tz_count_us(&c), us);
    }
    tz_free(tz);
}
