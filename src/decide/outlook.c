#include "decide/outlook.h"

#include <math.h>
#include <string.h>

#include "base/hash.h"
#include "base/rng.h"
#include "nn/net.h"

const int outlook_edge_s[OUTLOOK_WINDOWS + 1] = {0, 210, 510, 810, 1110, 1410, 1800};

/* Upper edges of all bins but the last, as log(demand / level). */
static const float bin_edge[OUTLOOK_BINS - 1] = {
    -0.80f, -0.60f, -0.45f, -0.35f, -0.28f, -0.22f, -0.18f, -0.14f, -0.10f, -0.06f, -0.02f,
    0.02f,  0.06f,  0.10f,  0.14f,  0.18f,  0.22f,  0.26f,  0.30f,  0.36f,  0.43f,  0.51f,
    0.60f,  0.70f,  0.82f,  0.96f,  1.12f,  1.30f,  1.50f,  1.75f,  2.05f,
};
static const float load_floor = 0.05f; /* of a unit's full use, added so that logs of idle services exist */

enum { HIDDEN = 64 };

static int bin_of(float log_ratio)
{
    int b = 0;
    while (b < OUTLOOK_BINS - 1 && log_ratio >= bin_edge[b])
        b++;
    return b;
}

int outlook_bin(float demand, float level)
{
    return bin_of(logf(demand / level));
}

/* X(name): in order; the layout hash covers them. */
#define FEATURE_LIST(X)                                                                            \
    X(fast_over_level) X(level_over_10min) X(ten_over_hour) X(peak_1h) X(peak_6h) X(level)         \
    X(spread) X(ahead_5min) X(ahead_10min) X(ahead_15min) X(ahead_30min) X(upper_5min)             \
    X(upper_15min) X(slot_median) X(slot_p95) X(profile_ratio) X(uncertainty) X(forecast_usable)   \
    X(day_sin) X(day_cos) X(half_day_sin) X(half_day_cos) X(hour_sin) X(hour_cos)                  \
    X(half_hour_sin) X(half_hour_cos) X(quarter_hour_sin) X(quarter_hour_cos)                      \
    X(eighth_hour_sin) X(eighth_hour_cos) X(day_off) X(to_peak)

enum feature {
#define X(name) F_##name,
    FEATURE_LIST(X)
#undef X
        F_COUNT
};
_Static_assert((int)F_COUNT == (int)OUTLOOK_FEATURES, "the list and the header agree");

uint64_t outlook_layout_hash(void)
{
    static const char *const names[] = {
#define X(name) #name,
        FEATURE_LIST(X)
#undef X
    };
    struct hash h = hash_init(OUTLOOK_VERSION);
    for (int i = 0; i < F_COUNT; i++)
        hash_str(&h, names[i]);
    for (int w = 0; w <= OUTLOOK_WINDOWS; w++)
        hash_i64(&h, outlook_edge_s[w]);
    hash_bytes(&h, bin_edge, sizeof bin_edge);
    hash_i64(&h, OUTLOOK_BINS);
    return hash_value(&h);
}

void outlook_state_init(struct outlook_state *s)
{
    *s = (struct outlook_state){.observed_us = INT64_MIN};
}

/* x moves towards v with time constant tau steps, faster while young so that the start is a plain mean. */
static float follow(float x, float v, float tau, int32_t age)
{
    float steps = tau < (float)age ? tau : (float)age, gain = 1.0f / steps;
    return steps >= 1 ? x + gain * (v - x) : v; /* of steps longer than tau only the newest counts */
}

void outlook_observe(struct outlook_state *s, const struct capacity_spec *spec,
                     const struct capacity_view *view)
{
    if (view->now_us == s->observed_us)
        return;
    s->observed_us = view->now_us;
    float p99 = view->value[FIELD_P99_LATENCY_MS];
    if (!(view->qps_last >= 0) || !isfinite(view->qps_last))
        return;
    if (s->steps < 100000)
        s->steps++;
    float per_step = (float)spec->step_us * 1e-6f;
    float load = view->qps_last / (float)spec->latency->unit_qps + load_floor;
    static const float tau_s[4] = {45, 120, 600, 3600};
    for (int i = 0; i < 4; i++)
        s->mean[i] = follow(s->mean[i], load, tau_s[i] / per_step, s->steps);
    float fade_1h = 1.0f - per_step / 3600, fade_6h = 1.0f - per_step / 21600;
    s->peak[0] = fmaxf(load, s->peak[0] * fade_1h);
    s->peak[1] = fmaxf(load, s->peak[1] * fade_6h);
    float deviation = logf(load / s->mean[1]);
    s->spread = follow(s->spread, deviation * deviation, 3600 / per_step, s->steps);
    if (view->forecast.base > 0) {
        float base = view->forecast.base / (float)spec->latency->unit_qps + 0.3f;
        s->profile_ratio = follow(s->profile_ratio, load / base, 900 / per_step, s->steps);
    }
    if (p99 == p99) /* the budget's clock: two days, young averages start at nothing missed */
        s->misses += per_step / 172800.0f * ((p99 > (float)spec->slo_p99_ms ? 1.0f : 0.0f) - s->misses);
}

float outlook_level(const struct outlook_state *s, const struct capacity_spec *spec)
{
    return fmaxf(s->mean[1], load_floor) * (float)spec->latency->unit_qps;
}

static void calendar_features(const struct capacity_view *view, float *f)
{
    const float turn = 6.28318531f;
    float second = (float)(view->now_us / 1000000 % 60);
    float day = ((float)view->when.minute * 60 + second) / 86400;
    float hour = ((float)(view->when.minute % 60) * 60 + second) / 3600;
    float s1 = sinf(turn * day), c1 = cosf(turn * day), s = sinf(turn * hour), c = cosf(turn * hour);
    f[F_day_sin] = s1;
    f[F_day_cos] = c1;
    f[F_half_day_sin] = 2 * s1 * c1;
    f[F_half_day_cos] = c1 * c1 - s1 * s1;
    float *h = f + F_hour_sin; /* periods of 60, 30, 15 and 7.5 min, by doubling the angle */
    for (int k = 0; k < 4; k++) {
        h[2 * k] = s;
        h[2 * k + 1] = c;
        float twice = 2 * s * c;
        c = c * c - s * s;
        s = twice;
    }
    f[F_day_off] = calendar_is_workday(&view->when) ? 0 : 1;
}

/* log of a forecast load over the level, 0 where there is none; wide enough for any real burst */
static float log_ratio(float qps, float unit_qps, float level)
{
    if (!(qps >= 0))
        return 0;
    float x = logf((qps / unit_qps + load_floor) / level);
    return x < -3 ? -3 : x > 3 ? 3 : x;
}

void outlook_features(const struct outlook_state *s, const struct capacity_spec *spec,
                      const struct capacity_view *view, float *f)
{
    memset(f, 0, sizeof(float) * OUTLOOK_FEATURES);
    float level = fmaxf(s->mean[1], load_floor), unit = (float)spec->latency->unit_qps;
    if (s->steps > 0) {
        f[F_fast_over_level] = 4 * logf(s->mean[0] / level);
        f[F_level_over_10min] = 3 * logf(level / s->mean[2]);
        f[F_ten_over_hour] = 2 * logf(s->mean[2] / s->mean[3]);
        f[F_peak_1h] = logf(s->peak[0] / level);
        f[F_peak_6h] = logf(s->peak[1] / level);
        f[F_level] = 0.5f * logf(level) - 0.5f;
        f[F_spread] = 5 * sqrtf(s->spread);
    }
    const struct forecast *fc = &view->forecast;
    if (fc->usable) {
        f[F_forecast_usable] = 1;
        for (int i = 0; i < FORECAST_LEVELS; i++)
            f[F_ahead_5min + i] = 3 * log_ratio(fc->mean[i], unit, level);
        f[F_upper_5min] = log_ratio(fc->hi95[0], unit, level);
        f[F_upper_15min] = log_ratio(fc->hi95[2], unit, level);
        f[F_uncertainty] = fc->uncertainty;
    }
    f[F_slot_median] = log_ratio(fc->base, unit, level);
    f[F_slot_p95] = log_ratio(fc->slot_p95, unit, level);
    f[F_profile_ratio] = s->profile_ratio > 0.02f ? fminf(logf(s->profile_ratio), 3) : 0;
    f[F_to_peak] = fc->hours_to_peak == fc->hours_to_peak ? fc->hours_to_peak / 24 : 0.5f;
    calendar_features(view, f);
}

void outlook_tails(const float *logits, float tail[OUTLOOK_WINDOWS][OUTLOOK_BINS])
{
    for (int w = 0; w < OUTLOOK_WINDOWS; w++) {
        const float *z = logits + w * OUTLOOK_BINS;
        float top = z[0], p[OUTLOOK_BINS], sum = 0;
        for (int b = 1; b < OUTLOOK_BINS; b++)
            top = fmaxf(top, z[b]);
        for (int b = 0; b < OUTLOOK_BINS; b++)
            sum += p[b] = expf(z[b] - top);
        float above = 0, scale = 1 / sum;
        for (int b = OUTLOOK_BINS - 1; b >= 0; b--) {
            tail[w][b] = above * scale;
            above += p[b];
        }
    }
}

double outlook_lambda(const struct outlook_state *s, const struct outlook_cfg *cfg)
{
    if (!(cfg->budget_gain > 0) || !(cfg->budget_limit > 0))
        return cfg->lambda;
    double excess = (double)s->misses / cfg->budget_limit - 1;
    /* A young service has missed nothing yet: its budget counts in full only after two days. */
    double trust = fmin(1.0, (double)s->steps / 11520.0);
    double exponent = cfg->budget_gain * trust * excess;
    return cfg->lambda * exp(fmax(-1.0, fmin(exponent, 2.5)));
}

/* Every size where there are few, else evenly spread ones: the plan is then off by less than 2 %. */
void outlook_sizes_fill(struct outlook_sizes *s, const struct capacity_spec *spec, float level)
{
    const float *load_max = spec->latency->load_max;
    int lo = latency_units_for(spec->latency, (double)(level * expf(bin_edge[0])));
    int hi = latency_units_for(spec->latency, (double)(level * expf(bin_edge[OUTLOOK_BINS - 2])));
    lo = lo < 1 ? 1 : lo;
    hi = hi < spec->units_max ? hi : spec->units_max;
    int stride = 1 + (hi - lo) / OUTLOOK_SIZES_MAX;
    s->n = 0;
    for (int u = lo; u <= hi; u += stride) {
        float x = logf(load_max[u] / level);
        int b = bin_of(x);
        float bottom = b > 0 ? bin_edge[b - 1] : x, top = b < OUTLOOK_BINS - 1 ? bin_edge[b] : x;
        s->units[s->n] = u;
        s->bin[s->n] = (int8_t)b;
        s->above[s->n++] = top > bottom ? (top - x) / (top - bottom) : 1; /* an open bin counts in full */
    }
}

void outlook_wants(const float tail[OUTLOOK_WINDOWS][OUTLOOK_BINS], const struct outlook_sizes *s, double lambda,
                   double ahead, int wants[OUTLOOK_WINDOWS])
{
    for (int w = 0; w < OUTLOOK_WINDOWS; w++) {
        float price = (float)(w == 0 ? lambda : lambda * ahead);
        float best = INFINITY;
        wants[w] = s->units[s->n - 1];
        for (int i = 0; i < s->n; i++) {
            int b = s->bin[i];
            float below = b > 0 ? tail[w][b - 1] : 1;
            float miss = tail[w][b] + s->above[i] * (below - tail[w][b]);
            float cost = (float)s->units[i] + price * miss;
            if (cost < best) {
                best = cost;
                wants[w] = s->units[i];
            }
        }
    }
}

int outlook_plan(const int wants[OUTLOOK_WINDOWS], const struct outlook_cfg *cfg)
{
    int plan = wants[0];
    for (int w = 1; w < OUTLOOK_WINDOWS && cfg->up_units > 0; w++)
        if (wants[w] - w * cfg->up_units > plan)
            plan = wants[w] - w * cfg->up_units;
    return plan;
}

enum err_code outlook_new(uint64_t seed, struct outlook *out, struct err *e)
{
    *out = (struct outlook){0};
    struct nn_net_cfg cfg = nn_net_cfg_default(NN_SHARED, OUTLOOK_FEATURES, OUTLOOK_OUTPUTS, 0);
    cfg.n_hidden = HIDDEN;
    cfg.head_gain = 0.3f;
    struct rng rng = rng_stream(seed, "outlook");
    enum err_code rc = nn_net_new(&cfg, &rng, &out->net, e);
    if (!rc)
        rc = nn_ws_new(out->net, &out->ws, e);
    if (rc)
        outlook_fini(out);
    return rc;
}

void outlook_fini(struct outlook *o)
{
    nn_ws_free(o->ws);
    nn_net_free(o->net);
    *o = (struct outlook){0};
}

enum err_code outlook_copy(const struct outlook *from, struct outlook *out, struct err *e)
{
    enum err_code rc = outlook_new(0, out, e);
    if (!rc)
        nn_net_copy(out->net, from->net);
    return rc;
}

void outlook_logits(const struct outlook *o, const float *features, int n, float *logits)
{
    nn_net_forward(o->net, o->ws, features, OUTLOOK_FEATURES, n, NULL, logits, NULL);
}
