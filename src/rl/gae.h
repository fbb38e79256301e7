/* gae.h - generalised advantage estimation (Schulman et al. 2016, eq. 16), and windowed credit.
 * One backward sweep per lane, O(T N), no allocation.  The paper does not treat truncation: we
 * bootstrap from the critic where a lane was truncated and use zero where it terminated.
 * STABLE. */
#ifndef RL_GAE_H
#define RL_GAE_H

#include <stdint.h>

struct gae_in {
    int n_steps, n_lanes; /* arrays below: [n_steps][n_lanes] unless noted */
    const float *reward;
    const float *value;
    const float *boot;   /* value of the observation an episode was truncated in; read where end is
                            RL_TRUNCATED */
    const float *last;   /* [n_lanes], value of the observation after the last step */
    const uint8_t *end;  /* enum rl_end */
    float gamma, lambda; /* in [0, 1] */
};

/* Fills adv and ret (both [n_steps][n_lanes]) for lanes [lane_begin, lane_end).  ret = adv +
 * value. */
void gae_compute(const struct gae_in *in, int lane_begin, int lane_end, float *adv, float *ret);

/* Windowed credit, an ablation: step t is credited with the discounted rewards of steps t ..
 * t+window-1, cut where the episode terminates.  Where the window reaches past the end of the
 * rollout or a truncation, the missing fraction of it is filled with that fraction of the critic's
 * value there. */
void gae_window(const struct gae_in *in, int window, int lane_begin, int lane_end, float *adv,
                float *ret);

#endif
