/* world.h - a capacity scenario made ready to run, and the part of it that chance decides.
 *
 *     scenario file -> history -> demand per step -> simulator constants, calendar, latency     (world)
 *     one noise seed -> what a forecaster would have said at every 5-minute point               (chance)
 *
 * Demand does not depend on what a policy does, so forecasts are made once per seed, by the very code that
 * runs live, from the noisy demand seen up to each point, and then shared by all policies and lanes.
 * Steps [0, train_end) may be trained, tuned and calibrated on; [train_end, n) are for evaluation only.
 * Both are read-only once made and may be shared by threads. */
#ifndef TRAIN_WORLD_H
#define TRAIN_WORLD_H

#include <stdint.h>

#include "base/err.h"
#include "base/thread.h"
#include "base/tz.h"
#include "model/history.h"
#include "model/latency.h"
#include "sim/capacity.h"
#include "train/scenario.h"

struct world {
    const struct scenario *scenario; /* borrowed */
    struct tz *zone;
    struct calendar calendar;
    struct latency_model latency;
    float *demand;           /* [n] requests/s, noise-free */
    uint8_t *barred;         /* [n] */
    int32_t n;               /* steps of scenario.step_us */
    int32_t train_end;
    int32_t point_steps;     /* steps per 5-minute forecast point */
    int64_t start_us;
    uint64_t data_hash;      /* of the demand and its grid */
    double scale;            /* demand = history x scale */
    double price_ref_usd_h;  /* price of the mean training demand served at 70 % use */
    struct capsim_world sim;
    struct capsim_trace trace;
};

/* Loads the scenario's history or runs its generator.
 * Errors: what the importers say; ERR_RANGE for too short a history (names the least), no traffic at all. */
NODISCARD enum err_code world_new(const struct scenario *sc, struct world **out, struct err *e);
/* From demand in memory; the arrays are copied.  scenario.history is not read. */
NODISCARD enum err_code world_from_demand(const struct scenario *sc, const float *qps, const uint8_t *barred,
                                          int64_t n, int64_t start_us, const char *zone_name,
                                          struct world **out, struct err *e);
/* ERR_RANGE unless an hour of the steps [from, to), or half of them, lie outside gaps: what is measured on less says
 * nothing.  what: "test" or "training". */
NODISCARD enum err_code world_check_usable(const struct world *w, int32_t from, int32_t to, const char *what,
                                           struct err *e);
void world_free(struct world *w);
int32_t world_steps_per_day(const struct world *w);

struct chance {
    uint64_t seed;
    float *factor;             /* [n] noise multipliers */
    struct forecast *forecast; /* [n_forecasts], i: made when i 5-minute points were complete */
    int32_t n_forecasts;
};

NODISCARD enum err_code chance_new(const struct world *w, uint64_t seed, struct chance **out, struct err *e);
void chance_free(struct chance *c);
/* `n` seeds first, first + 1, ... in parallel; out: [n], all freed on error. */
NODISCARD enum err_code chance_new_many(const struct world *w, uint64_t first, int n,
                                        struct thread_pool *pool, struct chance **out, struct err *e);
/* The forecast a decision at `step` (steps complete) may use. */
static inline const struct forecast *chance_forecast(const struct chance *c, const struct world *w,
                                                     int32_t step)
{
    return &c->forecast[step / w->point_steps];
}

#endif
