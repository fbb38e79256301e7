/* venv.h - a vector of environments ("lanes") stepped together.  Knows nothing of clusters.
 *
 * Lanes are independent: what lane i does depends on its own state, its own random stream and its
 * action only.  A trainer cuts them into a FIXED number of shards [lane_begin, lane_end) that does
 * not depend on the number of threads, and may call step() of different shards at the same time
 * from different threads.
 *
 * All arrays are indexed by absolute lane: obs[lane][obs_dim], mask[lane][n_actions], reward[lane],
 * ... Episodes restart by themselves: where end is not RL_RUNNING, final_obs[lane] holds the
 * observation the episode ended in, and obs and mask already belong to the first step of the next
 * episode.
 *
 * STABLE: everything here. */
#ifndef RL_VENV_H
#define RL_VENV_H

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

enum rl_end { RL_RUNNING = 0, RL_TERMINATED = 1, RL_TRUNCATED = 2 };

struct rl_step_out {
    float *obs;       /* [n_lanes][obs_dim], raw (the trainer normalises) */
    uint8_t *mask;    /* [n_lanes][n_actions], 1 where allowed, at least one per lane */
    float *reward;    /* [n_lanes] */
    float *cost;      /* [n_lanes], constraint signal such as 1[p99 > target]; 0 if there is none */
    uint8_t *end;     /* [n_lanes], enum rl_end */
    float *final_obs; /* [n_lanes][obs_dim], written where end != RL_RUNNING */
};

struct rl_venv {
    void *env; /* the implementation's, not owned by trainers */
    int n_lanes, obs_dim, n_actions;

    /* Starts new episodes in the lanes; writes obs and mask only. */
    void (*reset)(void *env, int lane_begin, int lane_end, float *obs, uint8_t *mask);
    /* One step of every lane in the range.  action[lane] is allowed by the last mask. */
    void (*step)(void *env, int lane_begin, int lane_end, const int32_t *action,
                 const struct rl_step_out *out);

    /* Exact resume.  save writes the whole state of all lanes and returns its size; with cap too
     * small (or buf NULL) it writes nothing and returns the size needed.  load restores it; hostile
     * bytes give an error, not a crash.  Both may be NULL: then training cannot be resumed, and
     * saving says so. */
    size_t (*save)(const void *env, void *buf, size_t cap);
    enum err_code (*load)(void *env, const void *buf, size_t n, struct err *e);
};

#endif
