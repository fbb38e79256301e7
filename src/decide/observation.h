/* observation.h - the features a capacity policy sees, from one list.
 *
 * The list gives name, meaning and range of each; it feeds the enum, the names, the docs, the
 * layout hash kept in checkpoints, and the clamp.  Everything is bounded by its range.  A missing
 * value is its neutral value plus a flag of its own, never 0 as a value.  "Capacity" is the load
 * that a number of units serves within the latency target (latency_model.load_max), so use of 1
 * means "at the edge of the target". Change the list: raise OBSERVATION_VERSION; old checkpoints
 * then refuse to load. */
#ifndef DECIDE_OBSERVATION_H
#define DECIDE_OBSERVATION_H

#include <stdint.h>

#include "model/capacity.h"

struct capacity_config;
struct capacity_state;

enum { OBSERVATION_VERSION = 1 };

/* clang-format off */
/* X(id, name, lo, hi, neutral, what) */
#define OBSERVATION_LIST(X)                                                                        \
    X(GPU_USE, "gpu_use", 0, 1, 0.5f, "GPU SM use, 3-step mean")                                   \
    X(GPU_MEM, "gpu_mem", 0, 1, 0.5f, "GPU memory use, 3-step mean")                               \
    X(QPS_OVER_MEDIAN, "qps_over_median", 0, 4, 1, "QPS over the same-slot median")                \
    X(P50_OVER_TARGET, "p50_over_target", 0, 4, 0.5f, "p50 latency over the target, 3-step mean")  \
    X(P99_OVER_TARGET, "p99_over_target", 0, 4, 0.8f, "p99 latency over the target, 3-step mean")  \
    X(QUEUE_PER_UNIT, "queue_per_unit", 0, 4, 0, "queued requests per ready unit, in tens")        \
    X(SIZE, "size", 0, 1, 0, "requested units over max")                                           \
    X(READY, "ready", 0, 1, 0, "ready units over requested")                                       \
    X(WARMING, "warming", 0, 1, 0, "warming units over requested")                                 \
    X(WARM_YOUNG, "warm_young", 0, 1, 0, "units warming under a third of start-up over requested") \
    X(WARM_MID, "warm_mid", 0, 1, 0, "units warming for one to two thirds, over requested")        \
    X(WARM_OLD, "warm_old", 0, 1, 0, "units warming for longer, over requested")                   \
    X(USE_READY, "use_ready", 0, 3, 0.7f, "demand over the capacity of ready units")               \
    X(USE_REQUESTED, "use_requested", 0, 3, 0.7f, "demand over the capacity of requested units")   \
    X(USE_LAST, "use_last", 0, 3, 0.7f, "demand of the newest step over that capacity")            \
    X(USE_LEVEL, "use_level", 0, 3, 0.7f, "30-min level of demand over that capacity")             \
    X(USE_PEAK, "use_peak", 0, 3, 0.7f, "largest demand of 5 min over that capacity")              \
    X(SLOPE_1MIN, "slope_1min", -1, 1, 0, "change of demand in 1 min over that capacity")          \
    X(SLOPE_5MIN, "slope_5min", -1, 1, 0, "change of demand in 5 min over that capacity")          \
    X(FORECAST_5MIN, "forecast_5min", 0, 3, 0.7f, "forecast mean at 5 min over that capacity")     \
    X(FORECAST_10MIN, "forecast_10min", 0, 3, 0.7f, "at 10 min")                                   \
    X(FORECAST_15MIN, "forecast_15min", 0, 3, 0.7f, "at 15 min")                                   \
    X(FORECAST_UPPER, "forecast_upper", 0, 3, 0.8f, "80 % upper end within 15 min") \
    X(FORECAST_HIGH, "forecast_high", 0, 3, 1, "forecast high water over that capacity")           \
    X(FORECAST_ERROR, "forecast_error", -1, 1, 0, "demand less its forecast, over that capacity") \
    X(UNCERTAINTY, "uncertainty", 0, 1, 0.5f, "of the forecast")                                   \
    X(NEED_NOW, "need_now", 0, 3, 0.7f, "units the demand needs over requested units")             \
    X(NEED_MEAN, "need_mean", 0, 3, 0.7f, "units the largest forecast mean needs over requested")  \
    X(NEED_UPPER, "need_upper", 0, 3, 0.8f, "units the 80 % upper end needs over requested")       \
    X(NEED_HIGH, "need_high", 0, 3, 1, "units the 95 % upper end needs over requested")            \
    X(BASE_MOVE, "base_move", -1, 1, 0, "change the base policy wants, over requested") \
    X(WAIT_OUT, "wait_out", 0, 1, 0, "scale-out cooldown left, share")                             \
    X(WAIT_IN, "wait_in", 0, 1, 0, "scale-in cooldown left, share")                                \
    X(WATCH, "watch", 0, 1, 0, "watch after a staged scale-in left, share")                        \
    X(BREAKER, "breaker", 0, 1, 0, "breaker time left, share")                                     \
    X(RATE_ROOM, "rate_room", 0, 1, 1, "room left under the rate cap, share")                      \
    X(FLAP_ROOM, "flap_room", 0, 1, 1, "flap budget left, share")                                  \
    X(HELD_HIGH, "held_high", 0, 1, 0, "time over a high watermark, share of the hold")            \
    X(HELD_LOW, "held_low", 0, 1, 0, "time under the low watermark, share of the hold")            \
    X(HELD_WATER, "held_water", 0, 1, 0, "time of high water over the mark, share of hold") \
    X(WEIGHT_LATENCY, "weight_latency", 0, 10, 1, "objective weight")                              \
    X(WEIGHT_COST, "weight_cost", 0, 10, 1, "objective weight")                                    \
    X(DAY_SIN, "day_sin", -1, 1, 0, "time of day")                                                 \
    X(DAY_COS, "day_cos", -1, 1, 0, "time of day")                                                 \
    X(WEEK_SIN, "week_sin", -1, 1, 0, "day of the week")                                           \
    X(WEEK_COS, "week_cos", -1, 1, 0, "day of the week")                                           \
    X(HOUR_SIN, "hour_sin", -1, 1, 0, "minute of the hour")                                        \
    X(HOUR_COS, "hour_cos", -1, 1, 0, "minute of the hour")                                        \
    X(HOLIDAY, "holiday", 0, 1, 0, "holiday")                                                      \
    X(MONTH_END, "month_end", 0, 1, 0, "last day of the month")                                    \
    X(QUARTER_END, "quarter_end", 0, 1, 0, "last day of the quarter")                              \
    X(TO_PEAK, "to_peak", 0, 1, 0.5f, "hours to the usual peak over 24")                           \
    X(NO_GPU, "no_gpu", 0, 1, 0, "GPU metrics missing")                                            \
    X(NO_LOAD, "no_load", 0, 1, 0, "demand or queue missing")                                      \
    X(NO_LATENCY, "no_latency", 0, 1, 0, "latency missing")                                        \
    X(NO_FORECAST, "no_forecast", 0, 1, 0, "forecast unusable")

/* clang-format on */

enum observation {
#define X(id, name, lo, hi, neutral, what) OBS_##id,
    OBSERVATION_LIST(X)
#undef X
        CAPACITY_OBS
};

struct observation_info {
    const char *name, *what;
    float lo, hi, neutral;
};
const struct observation_info *observation_get(enum observation i);
int observation_find(const char *name); /* or -1 */
/* Of version, names and ranges, in order; checkpoints carry it. */
uint64_t observation_layout_hash(void);

enum { SENSE_RING = 20 };

/* What observing remembers.  Loads in requests/s; NaN is missing. */
struct sense_state {
    int64_t observed_us;                 /* GUARD_NEVER before the first observation */
    int64_t forecast_us;                 /* made_us of the forecast that need_* belong to */
    float qps;                           /* mean over the sampling window */
    float qps_fast;                      /* 3-step mean */
    float qps_level;                     /* 30-min mean */
    float gpu, gpu_mem, p50, p99, queue; /* 3-step means */
    float peak;                          /* largest of the last 5 min */
    float cap_ready, cap_requested;      /* load served within target */
    float need_now, need_mean, need_upper, need_high; /* units, fractional */
    float forecast_mean_max, forecast_hi80_max, forecast_hi95_max;
    float ring[SENSE_RING]; /* qps of the last steps */
    int32_t ring_next, ring_n;
    int16_t gpu_trend, qps_trend; /* steps it has been rising for; negative: falling */
    int32_t units_p95; /* units that serve the same-slot P95; 0 without a usable forecast */
};

void sense_init(struct sense_state *s);
/* Moves the memory to view.now_us: once per decision step, before anything else. */
void sense_advance(const struct capacity_config *cfg, const struct capacity_view *view,
                   struct sense_state *s);
/* Fills obs [CAPACITY_OBS] from an advanced state. */
void observation_fill(const struct capacity_config *cfg, const struct capacity_view *view,
                      const struct capacity_state *state, float *obs);

#endif
