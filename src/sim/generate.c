/* generate.c - demand out of a few numbers; incidents out of straight lines. */
#include "sim/generate.h"

#include <assert.h>
#include <math.h>
#include <string.h>

#include "base/mem.h"
#include "base/rng.h"
#include "model/history.h"

#define BURSTS_MAX 100000

struct generate_cfg generate_cfg_default(void)
{
    return (struct generate_cfg){
        .start_us = 0,
        .step_us = 15 * US_PER_S,
        .peak_qps = 1000,
        .night_frac = 0.25,
        .weekend_frac = 0.6,
        .peak_hour = 14,
        .wander_frac = 0.08,
        .wander_hours = 12,
        .bursts_per_day = 4,
        .burst_height_min = 0.3,
        .burst_height_max = 1.5,
        .burst_rise_s = 90,
        .burst_mean_s = 900,
        .hourly_height = 0,
        .hourly_len_s = 240,
        .poisson = false,
    };
}

static enum err_code check_generate(const struct generate_cfg *c, int64_t n, struct err *e)
{
    const struct {
        const char *name;
        double v, lo, hi;
    } rows[] = {
        {"step_s", (double)c->step_us / US_PER_S, 1, 300},
        {"start_us", (double)c->start_us, -1e17, 1e17},
        {"peak_qps", c->peak_qps, 0, 1e9},
        {"night_frac", c->night_frac, 0, 1},
        {"weekend_frac", c->weekend_frac, 0, 10},
        {"peak_hour", c->peak_hour, 0, 24},
        {"wander_frac", c->wander_frac, 0, 2},
        {"wander_hours", c->wander_hours, 0.1, 1000},
        {"bursts_per_day", c->bursts_per_day, 0, 500},
        {"burst_height_min", c->burst_height_min, 0, 100},
        {"burst_height_max", c->burst_height_max, c->burst_height_min, 100},
        {"burst_rise_s", c->burst_rise_s, 1, 3600},
        {"burst_mean_s", c->burst_mean_s, 1, 86400},
        {"hourly_height", c->hourly_height, 0, 100},
        {"hourly_len_s", c->hourly_len_s, 0, 3600},
    };
    for (size_t i = 0; i < ARRAY_LEN(rows); i++)
        if (!(rows[i].v >= rows[i].lo && rows[i].v <= rows[i].hi))
            return err_set(e, ERR_RANGE, "generator: %s %g is outside %g..%g", rows[i].name,
                           rows[i].v, rows[i].lo, rows[i].hi);
    if (n < 1 || n > CAPSIM_STEPS_MAX)
        return err_set(e, ERR_LIMIT, "generator: %lld steps are outside 1..%d", (long long)n,
                       CAPSIM_STEPS_MAX);
    return ERR_OK;
}

/* ---- smooth level
 * --------------------------------------------------------------------------------- */

static double day_shape(const struct generate_cfg *c, double hour)
{
    double up = 0.5 * (1 + cos(2 * M_PI * (hour - c->peak_hour) / 24));
    return c->night_frac + (1 - c->night_frac) * pow(up, 1.3);
}

static bool is_weekend(int64_t day)
{
    int64_t weekday = (day + 3) % 7; /* 1970-01-01 was a Thursday */
    weekday += weekday < 0 ? 7 : 0;
    return weekday >= 5;
}

static double week_shape(const struct generate_cfg *c, double days)
{
    int64_t day = (int64_t)floor(days);
    double today = is_weekend(day) ? c->weekend_frac : 1;
    double before = is_weekend(day - 1) ? c->weekend_frac : 1;
    double blend = fmin(1, (days - (double)day) * 24);
    return before + (today - before) * blend;
}

static void fill_level(const struct generate_cfg *c, uint64_t seed, int64_t n, float *demand)
{
    struct rng r = rng_stream(seed, "wander");
    double phi = exp(-1 / c->wander_hours), gain = sqrt(1 - phi * phi);
    double s = c->wander_frac, x0 = rng_normal(&r), x1 = phi * x0 + gain * rng_normal(&r);
    int64_t hour_us = 0; /* since the start, where x0 lies */
    for (int64_t i = 0; i < n; i++) {
        int64_t since = i * c->step_us;
        for (; since >= hour_us + US_PER_H; hour_us += US_PER_H) {
            x0 = x1;
            x1 = phi * x1 + gain * rng_normal(&r);
        }
        double x = x0 + (x1 - x0) * (double)(since - hour_us) / US_PER_H;
        double days = (double)(c->start_us + since) / US_PER_DAY;
        double hour = (days - floor(days)) * 24;
        demand[i] = (float)(c->peak_qps * day_shape(c, hour) * week_shape(c, days) *
                            exp(s * x - 0.5 * s * s));
    }
}

/* ---- bursts and counts
 * ---------------------------------------------------------------------------- */

/* 0 outside, 1 on the plateau. */
static double burst_shape(double t, double rise, double plateau)
{
    if (t < 0)
        return 0;
    if (t < rise)
        return t / rise;
    if (t < rise + plateau)
        return 1;
    return fmax(0, 1 - (t - rise - plateau) / (2 * rise));
}

/* One burst from `at` seconds on, `height` times the level it starts from. */
static void add_burst(const struct generate_cfg *c, int64_t n, float *demand, double at,
                      double height, double plateau)
{
    double dt = (double)c->step_us / US_PER_S;
    int64_t first = (int64_t)(at / dt);
    int64_t last = (int64_t)((at + 3 * c->burst_rise_s + plateau) / dt) + 1;
    double base = (double)demand[first];
    for (int64_t i = first; i < n && i <= last; i++)
        demand[i] +=
            (float)(height * base * burst_shape((double)i * dt - at, c->burst_rise_s, plateau));
}

static void add_bursts(const struct generate_cfg *c, uint64_t seed, int64_t n, float *demand)
{
    struct rng r = rng_stream(seed, "bursts");
    double at = 0, end = (double)n * (double)c->step_us / US_PER_S;
    for (int k = 0; k < BURSTS_MAX && c->bursts_per_day > 0; k++) {
        at += rng_exponential(&r) * 86400 / c->bursts_per_day;
        double height =
            c->burst_height_min + rng_unit(&r) * (c->burst_height_max - c->burst_height_min);
        double plateau = rng_exponential(&r) * c->burst_mean_s;
        if (at >= end)
            return;
        add_burst(c, n, demand, at, height, plateau);
    }
}

static void add_hourly(const struct generate_cfg *c, uint64_t seed, int64_t n, float *demand)
{
    struct rng r = rng_stream(seed, "hourly");
    double end = (double)n * (double)c->step_us / US_PER_S;
    for (double at = 0; c->hourly_height > 0 && at < end; at += 3600)
        add_burst(c, n, demand, at, c->hourly_height * (2 + 2 * rng_unit(&r)) / 3, c->hourly_len_s);
}

/* Knuth's product for small means, rounded normal above 60 (skewness below 0.13). */
static double poisson_draw(struct rng *r, double mean)
{
    if (mean > 60)
        return fmax(0, round(mean + sqrt(mean) * rng_normal(r)));
    double limit = exp(-mean), p = rng_unit(r);
    int k = 0;
    for (; p > limit; k++)
        p *= rng_unit(r);
    return k;
}

enum err_code generate_demand(const struct generate_cfg *cfg, uint64_t seed, int64_t n,
                              float *demand, struct err *e)
{
    enum err_code rc = check_generate(cfg, n, e);
    if (rc)
        return rc;
    fill_level(cfg, seed, n, demand);
    add_hourly(cfg, seed, n, demand);
    add_bursts(cfg, seed, n, demand);
    if (!cfg->poisson)
        return ERR_OK;
    struct rng r = rng_stream(seed, "counts");
    double dt = (double)cfg->step_us / US_PER_S;
    for (int64_t i = 0; i < n; i++)
        demand[i] = (float)(poisson_draw(&r, (double)demand[i] * dt) / dt);
    return ERR_OK;
}

/* ---- incidents
 * ------------------------------------------------------------------------------------ */

static const struct {
    const char *name, *what;
} incident_info[] = {
#define X(id, name, what) [INCIDENT_##id] = {(name), (what)},
    INCIDENT_LIST(X)
#undef X
};
static_assert(ARRAY_LEN(incident_info) == INCIDENT_COUNT, "one row per incident");

const char *incident_name(enum incident_kind kind)
{
    return incident_info[kind].name;
}

int incident_find(const char *name)
{
    for (int i = 0; i < INCIDENT_COUNT; i++)
        if (strcmp(incident_info[i].name, name) == 0)
            return i;
    return -1;
}

/* A load drawn with straight lines: minutes since the start, load in units. */
struct knot {
    double minute, units;
};

static float draw_line(const struct knot *k, int n, double minute)
{
    if (minute <= k[0].minute)
        return (float)k[0].units;
    for (int i = 1; i < n; i++)
        if (minute < k[i].minute)
            return (float)(k[i - 1].units + (k[i].units - k[i - 1].units) *
                                                (minute - k[i - 1].minute) /
                                                (k[i].minute - k[i - 1].minute));
    return (float)k[n - 1].units;
}

/* Square wave of 4 min: the high side is over any usual threshold of `units_start`, the low side
 * under. */
static double flapping_load(double minute)
{
    if (minute < 30 || minute >= 90)
        return 2.4;
    return fmod(minute - 30, 4) < 2 ? 3.7 : 1.0;
}

/* A day at promotion level, then teeth of 40 min: eight minutes up, the rest down. */
static double promotion_load(double minute)
{
    if (minute < 1440)
        return 8 + 0.8 * sin(2 * M_PI * minute / 1440);
    double tooth = fmod(minute - 1440, 40);
    return tooth < 8 ? 3.5 + 5 * tooth / 8 : 8.5 - 5 * (tooth - 8) / 32;
}

struct incident_plan {
    double minutes, from, to; /* whole scenario; the incident */
    int units_start;
    const struct knot *line; /* NULL: drawn by a function */
    int n_line;
    double (*load)(double minute);
    enum capsim_fault_kind fault;
    bool has_fault;
    float value, value2;
};

static const struct knot shrink_line[] = {{0, 7},       {60, 7},    {75, 1.3}, {150, 1.3},
                                          {150.5, 3.9}, {180, 3.9}, {190, 1.3}};
static const struct knot rising_line[] = {{0, 4}, {60, 4}, {120, 8}, {180, 8}, {240, 4}};
static const struct knot peak_line[] = {{0, 3}, {60, 8}, {120, 8}, {180, 3}};
static const struct knot low_line[] = {{0, 3}};
static const struct knot even_line[] = {{0, 4.3}};
static const struct knot tenfold_line[] = {{0, 1.6}, {60, 1.6}, {61, 16}, {180, 16}};

#define LINE(l) .line = (l), .n_line = (int)ARRAY_LEN(l)

static const struct incident_plan plans[] = {
    [INCIDENT_OR_FLAPPING] = {120, 30, 90, 4, .load = flapping_load},
    [INCIDENT_PROMOTION_SAWTOOTH] = {2880, 1440, 2880, 12, .load = promotion_load},
    [INCIDENT_SHRINK_THEN_BURST] = {240, 150, 190, 10, LINE(shrink_line)},
    [INCIDENT_STARTS_FAIL] = {300, 60, 120, 6, LINE(rising_line), .fault = CAPSIM_REGISTRY_DOWN,
                              .has_fault = true},
    [INCIDENT_METRICS_VANISH] = {240, 85, 100, 5, LINE(peak_line), .fault = CAPSIM_METRICS_GONE,
                                 .has_fault = true},
    [INCIDENT_DEPENDENCY_SLOW] = {180, 60, 100, 8, LINE(low_line), .fault = CAPSIM_DEPENDENCY_SLOW,
                                  .has_fault = true, .value = 5},
    [INCIDENT_CPU_HIGH_GPU_LOW] = {180, 60, 120, 10, LINE(even_line), .fault = CAPSIM_GAUGES_FIXED,
                                   .has_fault = true, .value = 0.82f, .value2 = 0.45f},
    [INCIDENT_TENFOLD] = {240, 60, 180, 3, LINE(tenfold_line)},
};
static_assert(ARRAY_LEN(plans) == INCIDENT_COUNT, "one plan per incident");

enum err_code incident_build(enum incident_kind kind, double unit_qps, int64_t step_us,
                             struct incident *out, struct err *e)
{
    if (!(unit_qps > 0 && unit_qps < 1e9))
        return err_set(e, ERR_RANGE, "incident: unit_qps %g is outside 0..1e9", unit_qps);
    if (step_us < 15 * US_PER_S || step_us > US_PER_MIN || (15 * US_PER_MIN) % step_us != 0)
        return err_set(e, ERR_RANGE,
                       "incident: step of %g s is outside 15..60 or does not divide 15 min",
                       (double)step_us / US_PER_S);
    const struct incident_plan *p = &plans[kind];
    double minute = (double)step_us / US_PER_MIN;
    memset(out, 0, sizeof *out);
    out->name = incident_info[kind].name;
    out->what = incident_info[kind].what;
    out->units_start = p->units_start;
    out->units_max = 32;
    out->n = (int32_t)lround(p->minutes / minute);
    out->from_step = (int32_t)lround(p->from / minute);
    out->to_step = (int32_t)lround(p->to / minute);
    ASSERT(out->n <= INCIDENT_STEPS_MAX);
    for (int32_t i = 0; i < out->n; i++) {
        double units =
            p->load ? p->load(i * minute) : (double)draw_line(p->line, p->n_line, i * minute);
        out->demand[i] = (float)(units * unit_qps);
    }
    if (p->has_fault)
        out->fault[out->n_faults++] =
            (struct capsim_fault){p->fault, out->from_step, out->to_step, p->value, p->value2};
    return ERR_OK;
}
