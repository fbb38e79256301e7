/* fmt.c - numbers and times as people read them. */
#include "report/fmt_priv.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/mem.h"

static const struct fmt missing = {"-"};

/* Digits of a non-negative whole part, with a comma between thousands. */
static void group(const char *digits, size_t n, char *out, size_t cap)
{
    size_t at = 0;
    for (size_t i = 0; i < n && at + 2 < cap; i++) {
        if (i && (n - i) % 3 == 0)
            out[at++] = ',';
        out[at++] = digits[i];
    }
    out[at] = '\0';
}

struct fmt fmt_fixed(double v, int decimals)
{
    if (!isfinite(v))
        return missing;
    if (fabs(v) >= 1e15) {
        struct fmt f;
        (void)snprintf(f.s, sizeof f.s, "%.3e", v);
        return f;
    }
    char plain[40], whole[40];
    (void)snprintf(plain, sizeof plain, "%.*f", decimals, fabs(v));
    size_t n = strcspn(plain, ".");
    group(plain, n, whole, sizeof whole);
    bool negative = v < 0 && strspn(plain, "0.") != strlen(plain); /* no "-0.00" */
    struct fmt f;
    (void)snprintf(f.s, sizeof f.s, "%s%s%s", negative ? "-" : "", whole, plain + n);
    return f;
}

static int significant_decimals(double v, int digits)
{
    double a = fabs(v);
    if (a == 0)
        return 0;
    int d = digits - 1 - (int)floor(log10(a));
    return d < 0 ? 0 : d > 9 ? 9 : d;
}

struct fmt fmt_money(double usd)
{
    if (!isfinite(usd))
        return missing;
    double a = fabs(usd);
    int decimals = a >= 100 ? 0 : a >= 1 || a == 0 ? 2 : significant_decimals(usd, 3);
    struct fmt n = fmt_fixed(a, decimals), f;
    (void)snprintf(f.s, sizeof f.s, "%s$%.60s", usd < 0 ? "-" : "", n.s);
    return f;
}

struct fmt fmt_percent(double frac)
{
    if (!isfinite(frac))
        return missing;
    double p = 100 * fabs(frac);
    int decimals = p >= 10 ? 1 : p >= 0.095 || p == 0 ? 2 : significant_decimals(p, 2);
    if (fabs(p - round(p)) < 1e-9)
        decimals = 0;
    struct fmt n = fmt_fixed(100 * frac, decimals), f;
    (void)snprintf(f.s, sizeof f.s, "%.60s %%", n.s);
    return f;
}

struct fmt fmt_percent_change(double frac)
{
    if (!isfinite(frac))
        return missing;
    double p = 100 * fabs(frac);
    struct fmt n = fmt_fixed(p, p >= 10 ? 0 : 1), f;
    (void)snprintf(f.s, sizeof f.s, "%.60s %%", n.s);
    return f;
}

struct fmt fmt_ms(double ms)
{
    if (!isfinite(ms))
        return missing;
    struct fmt f;
    double a = fabs(ms);
    if (a < 1000)
        (void)snprintf(f.s, sizeof f.s, "%.*f ms", a >= 100 ? 0 : a >= 10 ? 1 : 2, ms);
    else if (a < 60e3)
        (void)snprintf(f.s, sizeof f.s, "%.*f s", a >= 10e3 ? 1 : 2, ms / 1e3);
    else
        (void)snprintf(f.s, sizeof f.s, "%.50s min", fmt_fixed(ms / 60e3, a >= 600e3 ? 0 : 1).s);
    return f;
}

struct fmt fmt_ratio(double v)
{
    return fmt_fixed(v, fabs(v) >= 10 ? 1 : 3);
}

struct fmt fmt_count(double v)
{
    return fmt_fixed(v, fabs(v) >= 100 || v == floor(v) ? 0 : 1);
}

struct fmt fmt_axis(double v, double step)
{
    if (!isfinite(v))
        return missing;
    static const struct {
        double scale;
        const char *suffix;
    } units[] = {{1e12, "T"}, {1e9, "G"}, {1e6, "M"}, {1e3, "k"}};
    double scale = 1;
    const char *suffix = "";
    for (size_t i = 0; i < ARRAY_LEN(units); i++)
        if (fabs(v) >= 10 * units[i].scale || (fabs(v) >= units[i].scale && units[i].scale > 1e3)) {
            scale = units[i].scale;
            suffix = units[i].suffix;
            break;
        }
    double s = step / scale;
    int decimals = s > 0 && s < 1 ? (int)ceil(-log10(s) - 1e-9) : 0;
    while (s > 0 && decimals < 6 &&
           fabs(round(s * pow(10, decimals)) - s * pow(10, decimals)) > 1e-6)
        decimals++;
    struct fmt n = fmt_fixed(v / scale, decimals), f;
    (void)snprintf(f.s, sizeof f.s, "%.56s%s", n.s, suffix);
    return f;
}

struct fmt fmt_duration(double seconds)
{
    if (!isfinite(seconds))
        return missing;
    static const struct {
        double from, unit;
        const char *name;
    } units[] = {
        {2 * 86400.0, 86400, "days"}, {2 * 3600.0, 3600, "h"}, {2 * 60.0, 60, "min"}, {0, 1, "s"}};
    for (size_t i = 0; i < ARRAY_LEN(units); i++)
        if (seconds >= units[i].from) {
            double v = seconds / units[i].unit;
            struct fmt f;
            (void)snprintf(f.s, sizeof f.s, "%.50s %s",
                           fmt_fixed(v, v == floor(v) || v >= 20 ? 0 : 1).s, units[i].name);
            return f;
        }
    return missing;
}

static const char *const months[] = {"Jan", "Feb", "Mar", "Apr", "May", "Jun",
                                     "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"};
static const char *const weekdays[] = {"Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun"};

static struct tz_civil local(const struct tz *zone, int64_t utc_us)
{
    return tz_civil(tz_to_local_us(zone, utc_us));
}

struct fmt fmt_time(const struct tz *zone, int64_t utc_us)
{
    struct tz_civil c = local(zone, utc_us);
    struct fmt f;
    int n = snprintf(f.s, sizeof f.s, "%04d-%02d-%02d %02d:%02d", c.year, c.month, c.day, c.hour,
                     c.minute);
    if (c.second && n > 0)
        (void)snprintf(f.s + n, sizeof f.s - (size_t)n, ":%02d", c.second);
    return f;
}

struct fmt fmt_day(const struct tz *zone, int64_t utc_us)
{
    struct tz_civil c = local(zone, utc_us);
    struct fmt f;
    (void)snprintf(f.s, sizeof f.s, "%s %d %s %d", weekdays[c.weekday], c.day, months[c.month - 1],
                   c.year);
    return f;
}

struct fmt fmt_day_short(const struct tz *zone, int64_t utc_us)
{
    struct tz_civil c = local(zone, utc_us);
    struct fmt f;
    (void)snprintf(f.s, sizeof f.s, "%d %s", c.day, months[c.month - 1]);
    return f;
}

const char *fmt_zone(const struct tz *zone)
{
    return zone ? tz_name(zone) : "UTC";
}
