/* window_priv.h - the last 14 days of points and the daily profile read off them.
 *
 * Points are counted from 0 and live in a ring; index i is valid for i in (n - RING, n).  A missing
 * point carries the last value forward and a flag.  The profile is refreshed as its slots come into
 * view (30 min ahead), so that work is spread over the day.  Days are matched by local time: a
 * clock change is remembered and shifts the look-back across it. */
#ifndef FORECAST_WINDOW_PRIV_H
#define FORECAST_WINDOW_PRIV_H

#include <assert.h>
#include <stdbool.h>
#include <stdint.h>

#include "forecast/forecaster.h"

enum {
    DAY = FORECAST_POINTS_PER_DAY,
    WEEK = 7 * DAY,
    RING = 4096,
    WINDOW_DAYS = 14,
    SLOT_POINTS = 3,
    AHEAD = 6,       /* points looked ahead */
    OWN_DAYS_MIN = 3 /* days of a kind (working, rest) below which all days are taken */
};
static_assert(RING > WINDOW_DAYS * DAY + AHEAD + 24, "two weeks and a clock change fit");

enum { BOUND_LO95, BOUND_LO80, BOUND_HI80, BOUND_HI95, BOUNDS };
extern const double bound_prob[BOUNDS];

/* Of one 15-min slot over the last 14 days; NaN without samples. */
struct slot_stats {
    float median; /* of days of the same kind, of all days when there are too few */
    float median_all;
    float bound[BOUNDS]; /* quantiles, all days */
    float p95;           /* as median */
};

/* What the profile says of one point. */
struct ahead {
    float slot, slot_all, five; /* medians: slot, slot of all days, the 5-min point itself */
    float log_slot, log_five;
};

struct window {
    float y[RING], log_y[RING]; /* log(y + log_shift) */
    uint8_t flags[RING];
    int64_t n;
    int64_t time_us;  /* start of the newest point */
    int64_t shift_at; /* first point after the last clock change */
    int32_t shift_by; /* points the clock then jumped ahead */
    int32_t five;     /* 5-min point of the local day, newest */
    int32_t weekday;
    bool rest;          /* newest point lies on a day of rest */
    int32_t since_seen; /* points since the last present one */
    double sum, count;
    float mean; /* of the load, over about 14 days */
    float log_shift;
    float peak;                               /* largest load, fading with a half-life of a week */
    float level_slow;                         /* exponential mean, 100 points */
    struct slot_stats slot[2][SLOTS_PER_DAY]; /* [rest] */
    struct ahead ahead[8];                    /* by index & 7, for newest .. newest + AHEAD */
    int32_t peak_slot[2];
};

void window_push(struct window *w, int64_t time_us, float value, const struct calendar_point *at);
/* A missing point that follows the newest. */
void window_push_gap(struct window *w);

static inline int64_t window_last(const struct window *w)
{
    return w->n - 1;
}
static inline bool window_has(const struct window *w, int64_t i)
{
    return i >= 0 && i < w->n && i > w->n - RING;
}
static inline bool window_missing(const struct window *w, int64_t i)
{
    return w->flags[i & (RING - 1)] & 1;
}
static inline float window_y(const struct window *w, int64_t i)
{
    return w->y[i & (RING - 1)];
}
static inline float window_log(const struct window *w, int64_t i)
{
    return w->log_y[i & (RING - 1)];
}
/* The point at the same local time `days` before point i. */
static inline int64_t window_days_back(const struct window *w, int64_t i, int days)
{
    int64_t j = i - (int64_t)days * DAY;
    return j < w->shift_at && i >= w->shift_at ? j + w->shift_by : j;
}
static inline const struct ahead *window_ahead(const struct window *w, int64_t i)
{
    return &w->ahead[i & 7];
}
/* Slot of the local day at newest + q points, and whether that is a day of rest (a holiday that
 * starts at the coming midnight is not known). */
int window_slot(const struct window *w, int q);
bool window_rest(const struct window *w, int q);
/* Hours until the middle of the usual busiest hour, 0..24. */
float window_hours_to_peak(const struct window *w);

#endif
