/* capacity_priv.h - small inline helpers of the decision's hot path. */
#ifndef DECIDE_CAPACITY_PRIV_H
#define DECIDE_CAPACITY_PRIV_H

#include "base/num.h"
#include "decide/capacity.h"

static inline float clamp_float(float x, float lo, float hi)
{
    x = x > lo ? x : lo;
    return x < hi ? x : hi;
}

#define USABLE_END 1e30f /* no measurement is that large: it is infinite or damaged */

/* A measurement that can be used: finite and not negative; anything else is missing. */
static inline float usable(float x)
{
    return x >= 0 && x < USABLE_END ? x : __builtin_nanf("");
}

static inline bool present(float x)
{
    return x == x;
}

/* Requests/s that u units serve within target; 0 <= u. */
static inline float cap_of(const struct capacity_config *cfg, int u)
{
    return u > 0 ? cfg->spec.latency->load_max[min_int(u, cfg->spec.units_max)] : 0;
}

/* Fewest units that serve `load` within target, 0 for none, at most units_max. */
static inline int units_of(const struct capacity_config *cfg, float load)
{
    if (!(load > 0))
        return 0;
    if (load >= cfg->load_top)
        return cfg->spec.units_max;
    int u = cfg->need_grid[(int)(load * cfg->need_scale)];
    u += cfg->spec.latency->load_max[u] < load; /* once more often than not, and hard to predict */
    while (__builtin_expect(cfg->spec.latency->load_max[u] < load, 0))
        u++;
    return u;
}

static inline float need_of(const struct capacity_config *cfg, float load)
{
    const float *cap = cfg->spec.latency->load_max;
    if (!(load > 0))
        return 0;
    if (load >= cfg->load_top)
        return (float)cfg->spec.units_max * (load / cfg->load_top);
    int u = units_of(cfg, load);
    float below = u > 1 ? cap[u - 1] : 0;
    return (float)(u - 1) + (load - below) / (cap[u] - below);
}

/* The learned ladder's wide form: slow start-up, or an uncertain forecast. */
static inline bool guard_cautious(const struct capacity_config *cfg,
                                  const struct capacity_view *view)
{
    return view->forecast.usable && view->forecast.uncertainty > (float)cfg->guard.uncertain_frac;
}

/* Largest increase that the rate cap leaves, >= 0. */
static inline int guard_rate_cap(const struct capacity_config *cfg, int units)
{
    float share = (float)cfg->guard.up_frac * (float)units;
    int by_share = (int)share + ((float)(int)share < share);
    return max_int((int)cfg->guard.up_steps * cfg->rate_step_units, by_share);
}

#endif
