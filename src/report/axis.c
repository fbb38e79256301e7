/* axis.c - scales with round ticks.
 *
 * Linear steps are the smallest of 1, 2, 5 x 10^k that need no more than `want` steps (Heckbert
 * 1990, "Nice numbers for graph labels", with fixed bounds instead of loose ones). */
#include "report/axis_priv.h"

#include <math.h>
#include <stdio.h>

#include "base/mem.h"

static double nice_step(double range, int want)
{
    double raw = range / want, power = pow(10, floor(log10(raw)));
    static const double nice[] = {1, 2, 5, 10};
    for (size_t i = 0; i < ARRAY_LEN(nice); i++)
        if (nice[i] * power >= raw * (1 - 1e-9))
            return nice[i] * power;
    return 10 * power;
}

struct axis axis_linear(double lo, double hi, int want)
{
    if (!isfinite(lo) || !isfinite(hi) || fabs(lo) > 1e300 || fabs(hi) > 1e300) {
        lo = 0;
        hi = 1;
    }
    if (!(hi - lo > 1e-12 * fabs(hi)))
        hi = lo + (lo > 1 ? lo : 1);
    struct axis a = {.step = nice_step(hi - lo, want)};
    a.lo = a.step * floor(lo / a.step + 1e-9);
    a.hi = a.step * ceil(hi / a.step - 1e-9);
    for (double i = 0; a.n < AXIS_TICKS_MAX && a.lo + i * a.step <= a.hi + 0.5 * a.step; i++)
        a.tick[a.n++] = fabs(a.lo + i * a.step) < 1e-9 * a.step ? 0 : a.lo + i * a.step;
    return a;
}

/* 1, 2, 5, 10, 20 ... by index from 10^0. */
static double one_two_five(int i)
{
    static const double digit[] = {1, 2, 5};
    int decade = (int)floor(i / 3.0);
    return digit[i - 3 * decade] * pow(10, decade);
}

struct axis axis_log(double lo, double hi, int want)
{
    if (!(lo > 0) || !(hi >= lo) || !isfinite(hi)) {
        lo = 1;
        hi = 10;
    }
    struct axis a = {.log = true};
    int i = 3 * (int)floor(log10(lo) + 1e-9);
    while (one_two_five(i + 1) <= lo * (1 + 1e-9))
        i++;
    int j = i + 1;
    while (one_two_five(j) < hi * (1 - 1e-9))
        j++;
    a.lo = one_two_five(i);
    a.hi = one_two_five(j);
    int every = j - i <= want ? 1 : 3;
    for (int k = i; k <= j && a.n < AXIS_TICKS_MAX; k++)
        if (every == 1 || (k % 3 + 3) % 3 == 0)
            a.tick[a.n++] = one_two_five(k);
    return a;
}

double axis_at_free(const struct axis *a, double v)
{
    if (a->log)
        return v > 0 ? log(v / a->lo) / log(a->hi / a->lo) : -1;
    return (v - a->lo) / (a->hi - a->lo);
}

double axis_at(const struct axis *a, double v)
{
    double f = axis_at_free(a, v);
    return f < 0 ? 0 : f > 1 ? 1 : f;
}

struct fmt axis_label(const struct axis *a, double v)
{
    return fmt_axis(v, a->log ? v : a->step);
}

/* ---- time ------------------------------------------------------------------------------------ */

#define MINUTE 60.0
#define HOUR 3600.0
#define DAY 86400.0

/* Steps in seconds; from a month on, in months of 30 days (the ticks follow the calendar). */
static const double time_steps[] = {
    MINUTE,   2 * MINUTE, 5 * MINUTE, 10 * MINUTE, 30 * MINUTE, HOUR,       2 * HOUR,
    3 * HOUR, 6 * HOUR,   12 * HOUR,  DAY,         2 * DAY,     7 * DAY,    14 * DAY,
    30 * DAY, 90 * DAY,   180 * DAY,  360 * DAY,   720 * DAY,   1800 * DAY, 3600 * DAY};

static double time_step(double span_s, int want)
{
    for (size_t i = 0; i < ARRAY_LEN(time_steps); i++)
        if (span_s / time_steps[i] <= want)
            return time_steps[i];
    return time_steps[ARRAY_LEN(time_steps) - 1];
}

static void add_time_tick(struct axis *a, const struct tz *zone, int64_t local_us)
{
    int64_t first, second;
    if (tz_from_local(zone, local_us, &first, &second) == TZ_GAP)
        first = second;
    double v = (double)first;
    if (v < a->lo || v > a->hi || a->n == AXIS_TICKS_MAX || (a->n && v <= a->tick[a->n - 1]))
        return;
    a->tick[a->n++] = v;
}

static void month_ticks(struct axis *a, const struct tz *zone, int months)
{
    struct tz_civil c = tz_civil(tz_to_local_us(zone, (int64_t)a->lo));
    int last = (tz_civil(tz_to_local_us(zone, (int64_t)a->hi)).year + 1) * 12;
    for (int m = (c.year * 12 + c.month - 1) / months * months; m <= last; m += months)
        add_time_tick(a, zone, tz_days(m / 12, m % 12 + 1, 1) * (int64_t)(DAY * 1e6));
}

struct axis axis_time(const struct tz *zone, int64_t lo_us, int64_t hi_us, int want)
{
    if (hi_us <= lo_us)
        hi_us = lo_us + 1000000;
    struct axis a = {.lo = (double)lo_us, .hi = (double)hi_us};
    a.step = time_step((a.hi - a.lo) / 1e6, want < AXIS_TICKS_MAX ? want : AXIS_TICKS_MAX);
    if (a.step >= 30 * DAY) {
        month_ticks(&a, zone, (int)(a.step / (30 * DAY)));
        return a;
    }
    /* Weeks start on Mondays: day 4 after the epoch was one. */
    int64_t step_us = (int64_t)(a.step * 1e6),
            origin = a.step >= 7 * DAY ? (int64_t)(4 * DAY * 1e6) : 0;
    int64_t local = tz_to_local_us(zone, lo_us) - origin;
    local = (int64_t)floor((double)local / (double)step_us) * step_us + origin;
    int64_t end = tz_to_local_us(zone, hi_us) + step_us;
    for (; local <= end; local += step_us)
        add_time_tick(&a, zone, local);
    return a;
}

struct fmt axis_time_label(const struct axis *a, const struct tz *zone, double v)
{
    int64_t t = (int64_t)v;
    struct tz_civil c = tz_civil(tz_to_local_us(zone, t));
    struct fmt f;
    if (a->step < DAY && (c.hour || c.minute)) {
        (void)snprintf(f.s, sizeof f.s, "%02d:%02d", c.hour, c.minute);
        return f;
    }
    f = fmt_day_short(zone, t);
    if (a->step >= 360 * DAY)
        (void)snprintf(f.s, sizeof f.s, "%d", c.year);
    else if (a->step >= 30 * DAY) {
        char month[4] = {0};
        (void)snprintf(month, sizeof month, "%s", f.s + (c.day > 9 ? 3 : 2));
        (void)snprintf(f.s, sizeof f.s, "%s %d", month, c.year);
    }
    return f;
}
