/* replay.h - the last transitions of a vector of environments, flat and preallocated.
 *
 * Slots are filled step by step, one row per lane: row = slot * n_lanes + lane, oldest overwritten
 * first.  Rows 0 .. replay_rows() - 1 are in use, so a checkpoint keeps that many.  Observations
 * are raw: they are normalised when drawn, by the statistics of that time.  next_obs holds the
 * observation the step led to: the last one of the episode where it ended, not the first of the
 * next. The venv gives no mask with that last observation.  Where masks are in use, the best
 * allowed action there is unknown, and replay_weight() leaves truncated rows out rather than
 * bootstrapping from a forbidden action. */
#ifndef RL_REPLAY_H
#define RL_REPLAY_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "rl/venv.h"

struct replay {
    int n_lanes, obs_dim, n_actions;
    int n_slots;           /* capacity / n_lanes */
    int64_t n_steps;       /* vector steps ever added */
    bool masked;           /* a mask forbade something, ever */
    float *obs, *next_obs; /* [n_slots * n_lanes][obs_dim] */
    uint8_t *next_mask;    /* [n_slots * n_lanes][n_actions], of next_obs; of no meaning where the
                              episode ended */
    int32_t *action;       /* [n_slots * n_lanes] */
    float *reward; /* [n_slots * n_lanes], as the environment gave it, less the price of cost */
    uint8_t *end;  /* [n_slots * n_lanes], enum rl_end */
};

enum { REPLAY_ROWS_MAX = 1 << 24 };

/* capacity: rows, rounded down to whole slots.  Errors: ERR_RANGE when less than one slot or above
 * REPLAY_ROWS_MAX, ERR_NOMEM. */
NODISCARD enum err_code replay_init(struct replay *r, const struct rl_venv *venv, int capacity,
                                    struct err *e);
void replay_fini(struct replay *r);
/* First row of the slot of vector step `step`. */
int32_t replay_slot(const struct replay *r, int64_t step);
int32_t replay_rows(const struct replay *r);
/* A step of lanes [begin, end), in two calls around it: what was acted on, then what came of it.
 * reward - cost_price * cost is kept.  Distinct ranges may be added from distinct threads; n_steps
 * is the caller's to advance. */
void replay_add_obs(struct replay *r, int begin, int end, const float *obs, int64_t step);
void replay_add_step(struct replay *r, int begin, int end, const int32_t *action, float cost_price,
                     const struct rl_step_out *out, int64_t step);
/* 1, or 0 for a row that cannot be learned from. */
float replay_weight(const struct replay *r, int32_t row);

#endif
