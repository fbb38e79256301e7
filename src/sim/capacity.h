/* capacity.h - the capacity simulator: one service, its units and its queue, in steps of 15 s.
 *
 * Training, tuning, evaluation and bounds all run on it, so it is built for speed: a step of up to
 * 64 units costs some 60 ns, allocates nothing and calls no transcendental function.  A lane
 * (`struct capsim`) is a plain value without pointers; everything shared is const:
 *
 *     capsim_world   service, start times, failures, noise, faults     one per scenario
 *     capsim_trace   noise-free demand, calendar, peak ahead           one per scenario
 *     capsim         units, backlog, window of the last minute         one per run
 *
 * Chance is a function of (seed, slot, time), never of what a policy did: two policies under one
 * seed meet the same noise, the same failures of slot 7 and the same start-up time of slot 7 asked
 * for at step 1000, and a lane started in the middle of a trace sees what one started at its
 * beginning sees.
 *
 * One step k, [k, k+1) * step_us:
 *   1. the asked-for size takes effect: new units take the lowest free slots and warm; scale-in
 *      stops warming units (newest first), then failed ones, then ready ones (highest slot first);
 *   2. arrivals = demand x noise; what exceeds ready x unit_qps x dt stays as backlog (first in,
 *      first out); requests that have waited longer than timeout_s are dropped;
 *   3. time moves to k+1: units become ready, slots fail or are repaired; the view shows that
 *      instant.
 *
 * Always: requested = ready + warming + failed.  Every requested unit is billed from its request
 * on.  Formulas and what was turned down: docs/sim.md. */
#ifndef SIM_CAPACITY_H
#define SIM_CAPACITY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "model/calendar.h"
#include "model/capacity.h"

enum {
    CAPSIM_GROUP = 64, /* slots per machine word */
    CAPSIM_GROUPS = CAPACITY_UNITS_LIMIT / CAPSIM_GROUP,
    CAPSIM_FAULTS_MAX = 16,
    CAPSIM_STEPS_MAX = 3000000, /* of one trace: 17 months of 15 s */
    CAPSIM_WINDOW = 4,          /* steps in the mean that a view shows: 60 s */
    CAPSIM_TIMEOUT_STEPS_MAX = 8,
    CAPSIM_START_QUANTILES = 1024,
    CAPSIM_NOISE_RUN = 16, /* steps of noise drawn at once */
    CAPSIM_REPAIR_STEPS_MAX = 1024,
};

enum capsim_start {
    CAPSIM_START_UNIFORM,   /* between start_min_s and start_max_s */
    CAPSIM_START_LOGNORMAL, /* these are its 5th and 95th percentiles; cut at 0.05 % and 99.95 % */
};

enum capsim_fault_kind {
    CAPSIM_REGISTRY_DOWN,   /* starts that meet the window begin anew at its end */
    CAPSIM_METRICS_GONE,    /* the view's values are missing, sample_us stands still */
    CAPSIM_DEPENDENCY_SLOW, /* latencies x value; capacity and use as before */
    CAPSIM_GAUGES_FIXED,    /* the view shows cpu_util = value, gpu_util = value2 */
};

struct capsim_fault {
    enum capsim_fault_kind kind;
    int32_t from_step, to_step; /* [from, to) of the trace */
    float value, value2;
};

struct capsim_cfg {
    enum capsim_start start;
    double start_min_s, start_max_s;
    double unavailable_frac;       /* of a slot's time, < 0.5 */
    double repair_s;               /* a failure lasts this long */
    double noise_frac;             /* demand is multiplied by 1 + noise, |noise| <= noise_frac */
    double noise_correlated_share; /* 0..1 of the amplitude; the rest is independent per step */
    double noise_correlation_s;    /* its correlation falls to 1/e after this long */
    double timeout_s;              /* clients give up after waiting this long */
    double gpu_idle_frac;          /* gpu_util of an idle unit */
    double cpu_per_gpu;            /* cpu_util / gpu_util */
    double gpu_mem_frac;           /* constant: the model's weights */
    double mem_frac;
    int n_faults;
    struct capsim_fault fault[CAPSIM_FAULTS_MAX];
};

/* Prepared constants of a scenario; read-only after init, shared by all lanes and threads. */
struct capsim_world {
    struct capacity_spec spec;
    struct capsim_cfg cfg;
    float dt_s, dt_h;
    float step_cost_usd; /* of one unit */
    float unit_requests; /* one unit's capacity in one step */
    float bins_per_rho;
    float timeout_ms, slo_ms;
    float gpu_idle, cpu_per_gpu, gpu_mem, mem;
    int32_t timeout_steps;
    float timeout_rest; /* share of the step before those that still counts */
    int32_t n_groups;   /* ceil(units_max / 64) */
    int32_t n_registry; /* faults of kind CAPSIM_REGISTRY_DOWN */
    int32_t repair_steps;
    uint64_t fail_below;                       /* a hash below this is a failure */
    float noise_independent, noise_correlated; /* amplitudes */
    float ar_decay, ar_gain;                   /* x' = decay x + gain eps */
    float ar_block_decay;                      /* decay^block */
    float warm_bins_per_step;                  /* steps of age to bins of the view */
    float minutes_per_step;
    int32_t ar_block; /* steps */
    uint16_t start_steps[CAPSIM_START_QUANTILES];
    /* Slots of a group (the same in each) whose failure window opens at this phase. */
    uint64_t fail_phase[CAPSIM_REPAIR_STEPS_MAX];
};

/* Const input of a run.  demand and barred are borrowed, the rest is owned. */
struct capsim_trace {
    const float *demand;         /* [n] requests/s without noise */
    const uint8_t *barred;       /* [n] or NULL */
    float *peak_ahead;           /* [n] largest demand of steps i .. i + 3 min, noise-free */
    struct calendar_point *slot; /* [n_slots] */
    int32_t n, n_slots;
    int32_t slot_steps; /* steps per 15-min slot */
    int32_t slot_skew;  /* steps of slot 0 that lie before the trace */
    int64_t start_us, step_us;
};

/* 64 slots.  Masks: bit s is slot s of this group. */
struct capsim_group {
    uint64_t requested, warming;
    uint64_t down;                     /* slots failed now, whether anybody runs there or not */
    uint64_t down_next;                /* after their window of this repair block opens */
    uint32_t asked_step[CAPSIM_GROUP]; /* of requested slots */
    uint32_t ready_step[CAPSIM_GROUP]; /* of warming slots */
};

/* Measured fields of one step, summed over the window for the view. */
enum {
    CAPSIM_V_GPU,
    CAPSIM_V_CPU,
    CAPSIM_V_QPS,
    CAPSIM_V_P50,
    CAPSIM_V_P99,
    CAPSIM_V_QUEUE,
    CAPSIM_V_READY,
    CAPSIM_V_TOTAL,
    CAPSIM_V_COUNT
};

/* One lane.  Initialise with capsim_reset(); copy with capsim_copy() or as a struct.  Only the
 * first capsim_bytes(world) bytes are used, so lanes may be packed at that distance. */
struct capsim {
    _Alignas(64) float ring[CAPSIM_WINDOW][CAPSIM_V_COUNT];
    float past_arrivals[CAPSIM_TIMEOUT_STEPS_MAX]; /* by step modulo the size */
    float backlog;                                 /* requests */
    float ar_sum, ar_carry; /* correlated noise: of this block, and what the blocks before left */
    float ar_block_sum[2];  /* of the two blocks before, newest first */
    float noise[CAPSIM_NOISE_RUN]; /* multipliers of this run of steps */
    uint32_t noise_index;          /* of the next step */
    int32_t ar_left;               /* steps left in the noise block */
    int32_t step;                  /* next step to run */
    int32_t units_requested, units_ready, units_warming, units_failed;
    int32_t fail_phase;          /* step modulo repair_steps */
    int32_t slot, slot_steps_in; /* 15-min slot of the trace, steps since it began */
    int32_t fault_step;          /* next step at which the set of active faults changes */
    uint32_t faults;             /* active ones, bit per entry */
    bool window_cold;            /* refill the window from the next step alone */
    int64_t sample_us;           /* newest complete record */
    uint64_t seed, key_noise, key_fail, key_start;
    struct capsim_group group[CAPSIM_GROUPS];
};

struct capsim_out {
    /* requests; arrivals + old backlog = served + dropped + backlog */
    float arrivals, served, dropped, backlog;
    float p50_ms, p99_ms;
    float miss_requests_frac; /* of the arrivals: over the target, judged on arrival, or dropped */
    float cost_usd;           /* units_billed x price x dt */
    int32_t units_billed;
    bool miss;   /* p99_ms > spec.slo_p99_ms */
    bool barred; /* inside a gap of the history */
};

/* 2-3 min starts, 1 % failures of 10 min, +-20 % noise, half of it correlated over 10 min. */
struct capsim_cfg capsim_cfg_default(void);

/* spec.latency is borrowed and must cover spec.units_max.
 * Errors: ERR_INVAL, ERR_RANGE naming the field; units_max over
 * CAPACITY_UNITS_LIMIT; a step over 5 min or one that does not divide 15 min. */
NODISCARD enum err_code capsim_world_init(struct capsim_world *w, const struct capacity_spec *spec,
                                          const struct capsim_cfg *cfg, struct err *e);

/* Errors: ERR_INVAL for n < 1 or a demand that is negative or not finite (the step is named),
 * ERR_LIMIT for n > CAPSIM_STEPS_MAX, ERR_NOMEM.  barred may be NULL. */
NODISCARD enum err_code capsim_trace_init(struct capsim_trace *t, const float *demand,
                                          const uint8_t *barred, int64_t n, int64_t start_us,
                                          int64_t step_us, const struct calendar *cal,
                                          struct err *e);
void capsim_trace_fini(struct capsim_trace *t);

size_t capsim_bytes(const struct capsim_world *w); /* a multiple of 64 */
void capsim_copy(struct capsim *dst, const struct capsim *src, const struct capsim_world *w);

/* Start a run before step `step` (0 <= step < t->n) with `units` already running (0..units_max), an
 * empty queue, and the window of the minute before filled as if that size had been serving.  Fills
 * the simulator's part of *view (see capsim_step).  Costs a few microseconds. */
void capsim_reset(struct capsim *s, const struct capsim_world *w, const struct capsim_trace *t,
                  uint64_t seed, int32_t step, int units, struct capacity_view *view);

/* Run one step with `units` asked for (0..units_max, already guarded), s->step < t->n.  *out tells
 * what happened; *view is what a decision sees at the end: all unit counts and ages, now_us,
 * sample_us, value[], qps_last, when, foresight_qps.  forecast, budget, weights and claims stay the
 * caller's.  After the last step the calendar and foresight of that step are kept.  Thread-safe on
 * distinct lanes. */
void capsim_step(struct capsim *s, const struct capsim_world *w, const struct capsim_trace *t,
                 int units, struct capacity_view *view, struct capsim_out *out);

static inline bool capsim_done(const struct capsim *s, const struct capsim_trace *t)
{
    return s->step >= t->n;
}

/* The chance behind a seed, for bounds and tests: the same values the lanes see. */
void capsim_noise_fill(const struct capsim_world *w, uint64_t seed, int32_t first_step, int32_t n,
                       float *factor); /* [n], demand multipliers */
bool capsim_slot_down(const struct capsim_world *w, uint64_t seed, int slot, int32_t step);
int32_t capsim_start_steps(const struct capsim_world *w, uint64_t seed, int slot,
                           int32_t asked_step);
int32_t capsim_start_steps_min(const struct capsim_world *w); /* shortest possible start */

/* Of everything that decides the future of the lane. */
uint64_t capsim_hash(const struct capsim *s, const struct capsim_world *w);

#endif
