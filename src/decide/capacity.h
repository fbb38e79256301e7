/* capacity.h - the capacity decision: how many units for this target?
 *
 * decide_capacity() is a pure function: no I/O, no clock, no globals, no allocation.  Everything it
 * remembers is `struct capacity_state`, a plain value.  The same code decides in training,
 * evaluation, shadow and production, so a record replays to the same bits.
 *
 * One decision step is, in this order and once each:
 *
 *     capacity_observe   moves memory, timers, the base and the rule policy to view.now_us; fills
 * obs capacity_mask      which of the seven actions the guard would execute exactly, and their
 * sizes (choose)           a rule policy, a network, a person capacity_commit    guard, plan,
 * record; remembers what was executed
 *
 * decide_capacity() does the four; trainers call the three and choose in batches.
 *
 * A struct capacity_config is read-only once finished and may be shared by threads, except that a
 * loaded network (ppo) belongs to one thread: give each thread its own copy of the config. */
#ifndef DECIDE_CAPACITY_H
#define DECIDE_CAPACITY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/rng.h"
#include "decide/guard.h"
#include "decide/observation.h"
#include "decide/policy.h"
#include "model/capacity.h"
#include "model/latency.h"

struct nn_policy;

/* A policy in use. */
struct policy_use {
    const struct policy *policy; /* NULL: none */
    union policy_options opt;
};

enum { NEED_GRID = 512, SINE_POINTS = 480 };

struct capacity_config {
    /* Set by the caller. */
    struct capacity_spec spec;
    struct guard_options guard;
    bool guarded;
    struct policy_use main;
    struct policy_use base;  /* what a learned policy's action shifts (ppo_options.base) */
    struct policy_use rule;  /* run beside, for the record: what the rule policy would have done */
    struct outlook *outlook; /* borrowed; for policy outlook, alone or as the base */
    struct nn_policy *net;   /* borrowed; NULL: ppo cannot decide on its own (training) */

    /* Filled by capacity_config_finish. */
    int step_units;                          /* max(1, ceil(max/64)) */
    int rate_step_units;                     /* the rate cap's step: twice that where start-up is slow */
    int action_units[CAPACITY_ACTIONS];      /* by action, usual */
    int action_units_wide[CAPACITY_ACTIONS]; /* slow start or uncertain forecast */
    int steps_1min, steps_5min;
    int flap_budget_units;
    int64_t start_budget_us, up_bucket_us;
    int warm_mid, warm_old; /* first age bins of the second and last third of a start-up */
    float level_gain;       /* of the 30-min mean, per step */
    float inv_slo, inv_max, inv_flap;
    float inv_out, inv_in, inv_watch, inv_breaker, inv_hold; /* 1/us of guard waits; 0 if none */
    float load_top;                    /* load the largest size serves within target */
    float need_scale;                  /* grid cells per request/s */
    uint16_t need_grid[NEED_GRID + 1]; /* units that serve the lower edge of a cell */
    float sine[SINE_POINTS], week_sin[7], week_cos[7];
    uint64_t version; /* hash of policy, options, guard and network */
};

/* policy may be NULL (set later).  Fills guard options, policy options and `guarded` with defaults.
 */
void capacity_config_default(struct capacity_config *cfg, const struct policy *policy);
/* Sets use->policy and its default options. */
void policy_use_default(struct policy_use *use, const struct policy *policy);
/* Checks everything and fills the derived part.
 * Errors: ERR_INVAL (no policy, no latency model, bounds crossed), ERR_RANGE (step, units, target),
 * names the field. */
NODISCARD enum err_code capacity_config_finish(struct capacity_config *cfg, struct err *e);

enum { CAPACITY_STATE_VERSION = 1 };

/* Everything a target's decisions remember.  Hot parts first; memory of a policy is used as far as
 * policy.memory_bytes says. */
struct capacity_state {
    uint32_t version;
    int32_t base_units;                  /* proposal of the base policy, -1 without one */
    int32_t rule_units;                  /* of the rule policy, -1 without one */
    int16_t candidate[CAPACITY_ACTIONS]; /* size each action stands for, this step */
    struct guard_state guard;
    struct sense_state sense;
    union policy_memory memory, base_memory, rule_memory;
};

/* A view of an unmeasured target: everything missing, no forecast, no claims, whole budget,
 * weights 1. */
void capacity_view_init(const struct capacity_config *cfg, struct capacity_view *view);

void capacity_state_init(const struct capacity_config *cfg, struct capacity_state *s);
/* Copies what this configuration uses. */
void capacity_state_copy(const struct capacity_config *cfg, struct capacity_state *dst,
                         const struct capacity_state *src);

/* Header and used parts; the size is fixed for one config.  unpack refuses another version, policy,
 * size or a damaged block (ERR_MISMATCH, ERR_PARSE). */
size_t capacity_state_pack_size(const struct capacity_config *cfg);
void capacity_state_pack(const struct capacity_config *cfg, const struct capacity_state *s,
                         void *buf);
NODISCARD enum err_code capacity_state_unpack(const struct capacity_config *cfg, const void *buf,
                                              size_t n, struct capacity_state *s, struct err *e);

/* One decision, as it is kept.  Plain memory. */
struct capacity_record {
    int64_t now_us;
    uint64_t inputs_hash;    /* of the view */
    uint64_t policy_version; /* capacity_config.version */
    const char *policy;      /* its name; static */
    const char *rule;        /* of the rule policy run beside; NULL: none */
    int16_t units_before, units_ready, proposed, executed;
    int16_t rule_units, base_units; /* -1: none */
    int8_t action;                  /* learned: 0..6, else -1 */
    int16_t gpu_trend, qps_trend;   /* steps of rise, negative of fall */
    float qps, slot_p95;            /* requests/s; NaN missing, or without a forecast */
    uint8_t guarded;
    uint8_t error;    /* enum err_code of the policy; the proposal is then its fallback */
    uint8_t n_checks; /* 0 unguarded, else GUARD_CHECKS */
    uint8_t mask[CAPACITY_ACTIONS];
    int16_t candidate[CAPACITY_ACTIONS];
    float prob[CAPACITY_ACTIONS];
    float value;
    struct guard_result chain[GUARD_CHECKS];
    float obs[CAPACITY_OBS];
};

/* obs: [CAPACITY_OBS], or NULL where nobody looks.  Once per step. */
void capacity_observe(const struct capacity_config *cfg, const struct capacity_view *view,
                      struct capacity_state *state, float *obs);
/* mask[a] = 1 where the guard would execute exactly units[a]; at least one is 1.  When none is
 * permitted (the guard forces a size that no action reaches) the action nearest to it is offered.
 */
void capacity_mask(const struct capacity_config *cfg, const struct capacity_view *view,
                   const struct capacity_state *state, uint8_t mask[CAPACITY_ACTIONS],
                   int units[CAPACITY_ACTIONS]);
/* record may be NULL; obs, action, prob, value and error in it are left to the caller. */
void capacity_commit(const struct capacity_config *cfg, const struct capacity_view *view,
                     struct capacity_state *state, int proposed, struct capacity_plan *plan,
                     struct capacity_record *record);

/* The whole decision.  state_out may be state_in; record may be NULL.  rng is used by policies that
 * draw. */
void decide_capacity(const struct capacity_config *cfg, const struct capacity_view *view,
                     const struct capacity_state *state_in, struct rng *rng,
                     struct capacity_state *state_out, struct capacity_plan *plan,
                     struct capacity_record *record);

/* Units that serve `load` requests/s within target, fractional; above units_max it is extrapolated.
 */
float capacity_need(const struct capacity_config *cfg, float load);
/* Fewest whole units, at most units_max. */
int capacity_units_for(const struct capacity_config *cfg, float load);

#endif
