#include "rl/gae.h"

#include <stddef.h>

#include "rl/venv.h"

void gae_compute(const struct gae_in *in, int lane_begin, int lane_end, float *adv, float *ret)
{
    size_t lanes = (size_t)in->n_lanes;
    for (int lane = lane_begin; lane < lane_end; lane++) {
        float next = in->last[lane], sum = 0;
        for (int t = in->n_steps - 1; t >= 0; t--) {
            size_t i = (size_t)t * lanes + (size_t)lane;
            if (in->end[i] != RL_RUNNING) {
                next = in->end[i] == RL_TRUNCATED ? in->boot[i] : 0.0f;
                sum = 0;
            }
            float delta = in->reward[i] + in->gamma * next - in->value[i];
            sum = delta + in->gamma * in->lambda * sum;
            adv[i] = sum;
            ret[i] = sum + in->value[i];
            next = in->value[i];
        }
    }
}

/* Credit of step t: forward over its window. */
static float window_return(const struct gae_in *in, int window, int t, int lane)
{
    float sum = 0, discount = 1;
    for (int k = 0; k < window; k++) {
        float missing = (float)(window - k) / (float)window;
        if (t + k == in->n_steps)
            return sum + discount * missing * in->last[lane];
        size_t i = (size_t)(t + k) * (size_t)in->n_lanes + (size_t)lane;
        sum += discount * in->reward[i];
        discount *= in->gamma;
        missing = (float)(window - k - 1) / (float)window;
        if (in->end[i] == RL_TERMINATED)
            return sum;
        if (in->end[i] == RL_TRUNCATED)
            return sum + discount * missing * in->boot[i];
    }
    return sum;
}

void gae_window(const struct gae_in *in, int window, int lane_begin, int lane_end, float *adv,
                float *ret)
{
    for (int lane = lane_begin; lane < lane_end; lane++)
        for (int t = 0; t < in->n_steps; t++) {
            size_t i = (size_t)t * (size_t)in->n_lanes + (size_t)lane;
            ret[i] = window_return(in, window, t, lane);
            adv[i] = ret[i] - in->value[i];
        }
}
