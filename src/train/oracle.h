/* oracle.h - a feasible clairvoyant plan: what somebody could have done who knew everything
 * beforehand.
 *
 * It knows the noise, the failures and the start times of its seed and writes down one size per
 * step, to be executed open loop in the very simulator every policy runs in, without guard and rate
 * cap.  Its cost lies above the bound (train/bound.h) and shows that most of what the bound
 * promises can be had.
 *
 *     choose    dynamic programme over sizes for a price of a miss: which steps are given up
 *     ask       slot by slot, the latest request whose start time of this seed is still in time
 *     simulate  count misses; bisect the price until they fit
 *     polish    shift, drop and trim single units, each change judged by simulating until nothing
 * differs
 *
 * Not proven optimal.  Same inputs: same plan.  Method and gaps measured: docs/bounds.md. */
#ifndef TRAIN_ORACLE_H
#define TRAIN_ORACLE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "sim/capacity.h"

/* What the plan costs when it is run: sums over the steps that are not barred. */
struct oracle_result {
    double cost_usd;
    int64_t unit_steps;
    int32_t misses, counted;
    bool met; /* misses / counted <= limit; false: the fewest misses found */
};

/* units: [to - from], sizes for capsim_step from capsim_reset(seed, from, units0) on.
 * Where the limit cannot be met: the plan with the fewest misses found, met = false.
 * Thread-safe on distinct outputs.  57,600 steps of up to 64 units take about 1 s and 2 MB; both
 * grow with steps x units. Errors: ERR_RANGE for a stretch outside the trace or units0, ERR_INVAL
 * for a limit outside 0..1, ERR_NOMEM. */
NODISCARD enum err_code oracle_plan(const struct capsim_world *w, const struct capsim_trace *t,
                                    uint64_t seed, int32_t from, int32_t to, int units0,
                                    double limit, int16_t *units, struct oracle_result *out,
                                    struct err *e);

#endif
