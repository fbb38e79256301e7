#include "decide/observation.h"

#include <assert.h>
#include <math.h>
#include <stddef.h>
#include <string.h>

#include "base/hash.h"
#include "decide/capacity_priv.h"

static const struct observation_info infos[CAPACITY_OBS] = {
#define X(id, name, lo, hi, neutral, what) [OBS_##id] = {name, what, lo, hi, neutral},
    OBSERVATION_LIST(X)
#undef X
};

const struct observation_info *observation_get(enum observation i)
{
    return &infos[i];
}

int observation_find(const char *name)
{
    for (int i = 0; i < CAPACITY_OBS; i++)
        if (strcmp(infos[i].name, name) == 0)
            return i;
    return -1;
}

uint64_t observation_layout_hash(void)
{
    struct hash h = hash_init(OBSERVATION_VERSION);
    for (int i = 0; i < CAPACITY_OBS; i++) {
        hash_str(&h, infos[i].name);
        hash_f64(&h, (double)infos[i].lo);
        hash_f64(&h, (double)infos[i].hi);
        hash_f64(&h, (double)infos[i].neutral);
    }
    return hash_value(&h);
}

/* ---- memory -------------------------------------------------------------------------------------
 */
void sense_init(struct sense_state *s)
{
    memset(s, 0, sizeof *s);
    s->observed_us = GUARD_NEVER;
    s->forecast_us = GUARD_NEVER;
    s->qps = s->qps_fast = s->qps_level = NAN;
    s->gpu = s->gpu_mem = s->p50 = s->p99 = s->queue = s->peak = NAN;
    for (int i = 0; i < SENSE_RING; i++)
        s->ring[i] = NAN;
}

/* Mean with gain g; a missing sample leaves it, the first sample starts it. */
static inline float follow(float mean, float x, float g)
{
    float next = mean + g * (x - mean);
    return !present(x) ? mean : present(mean) ? next : x;
}

/* Steps of the same direction; changes under half a per cent are none. */
static inline int16_t trend(int16_t steps, float before, float now)
{
    float least = 0.005f * before;
    if (!(now > before + least) && !(now < before - least))
        return 0; /* also without a value to compare with */
    bool up = now > before;
    int next = up ? (steps > 0 ? steps + 1 : 1) : (steps < 0 ? steps - 1 : -1);
    return (int16_t)clamp_int(next, -1000, 1000);
}

static inline float max3(const float x[FORECAST_LEVELS])
{
    float a = x[0] > x[1] ? x[0] : x[1];
    return a > x[2] ? a : x[2];
}

/* Every 5 min: what the new forecast asks for. */
static void sense_forecast(const struct capacity_config *cfg, const struct forecast *f,
                           struct sense_state *s)
{
    s->forecast_us = f->made_us;
    if (!f->usable) {
        s->units_p95 = 0;
        s->forecast_mean_max = s->forecast_hi80_max = s->forecast_hi95_max = NAN;
        s->need_mean = s->need_upper = s->need_high = NAN;
        return;
    }
    s->forecast_mean_max = max3(f->mean);
    s->forecast_hi80_max = max3(f->hi80);
    s->forecast_hi95_max = max3(f->hi95);
    s->need_mean = need_of(cfg, s->forecast_mean_max);
    s->need_upper = need_of(cfg, s->forecast_hi80_max);
    s->need_high = need_of(cfg, s->forecast_hi95_max);
    /* A P95 of days with more load than today says little about today's bursts. */
    bool scale = cfg->guard.min_safe == GUARD_MIN_SAFE_LEVEL_P95 && s->qps_level < f->base;
    s->units_p95 = units_of(cfg, scale ? f->slot_p95 * (s->qps_level / f->base) : f->slot_p95);
}

/* Largest present value of the ring; NaN when all are missing.  Four chains hide the latency. */
static float ring_peak(const float *ring)
{
    float m[4] = {-1, -1, -1, -1};
    for (int i = 0; i < SENSE_RING; i += 4)
        for (int k = 0; k < 4; k++)
            m[k] = ring[i + k] > m[k] ? ring[i + k] : m[k];
    m[0] = m[0] > m[1] ? m[0] : m[1];
    m[2] = m[2] > m[3] ? m[2] : m[3];
    m[0] = m[0] > m[2] ? m[0] : m[2];
    return m[0] >= 0 ? m[0] : NAN;
}

void sense_advance(const struct capacity_config *cfg, const struct capacity_view *view,
                   struct sense_state *s)
{
    static_assert(SENSE_RING % 4 == 0, "ring_peak takes four at a time");
    if (view->now_us - s->observed_us > SENSE_RING * cfg->spec.step_us) {
        for (int i = 0; i < SENSE_RING; i++) /* first step, or a long pause: what was is no slope */
            s->ring[i] = NAN;
        s->peak = NAN;
    }
    s->observed_us = view->now_us;
    float qps = usable(view->value[FIELD_QPS]);
    float gpu = follow(s->gpu, usable(view->value[FIELD_GPU_UTIL]), 0.5f);
    s->gpu_trend = trend(s->gpu_trend, s->gpu, gpu);
    s->qps_trend = trend(s->qps_trend, s->qps, qps);
    s->qps = qps;
    s->qps_fast = follow(s->qps_fast, qps, 0.5f);
    s->qps_level = follow(s->qps_level, qps, cfg->level_gain);
    s->gpu = gpu;
    s->gpu_mem = follow(s->gpu_mem, usable(view->value[FIELD_GPU_MEM_UTIL]), 0.5f);
    s->p50 = follow(s->p50, usable(view->value[FIELD_P50_LATENCY_MS]), 0.5f);
    s->p99 = follow(s->p99, usable(view->value[FIELD_P99_LATENCY_MS]), 0.5f);
    s->queue = follow(s->queue, usable(view->value[FIELD_QUEUE_LEN]), 0.5f);
    if (s->queue < 1e-6f) /* an emptied queue would fade through denormals, which are slow */
        s->queue = 0;
    s->ring_next = s->ring_next == SENSE_RING - 1 ? 0 : s->ring_next + 1;
    float leaves = s->ring[s->ring_next];
    s->ring[s->ring_next] = qps;
    if (qps >= s->peak)
        s->peak = qps;
    else if (!(leaves < s->peak)) /* the peak itself, or one of several missing */
        s->peak = ring_peak(s->ring);
    s->cap_ready = cap_of(cfg, view->units_ready);
    s->cap_requested = cap_of(cfg, view->units_requested);
    s->need_now = present(qps) ? need_of(cfg, qps) : NAN;
    if (s->forecast_us != view->forecast.made_us || !present(s->need_mean) == view->forecast.usable)
        sense_forecast(cfg, &view->forecast, s);
}

/* ---- features -----------------------------------------------------------------------------------
 */
static inline void put(float *obs, enum observation i, float x)
{
    obs[i] = clamp_float(x, infos[i].lo, infos[i].hi);
}

static inline void put_if(float *obs, enum observation i, bool ok, float x)
{
    obs[i] = ok ? clamp_float(x, infos[i].lo, infos[i].hi) : infos[i].neutral;
}

/* Share of a wait that is left at `now`. */
static inline float left(int64_t until_us, int64_t now_us, float inv)
{
    return until_us > now_us ? (float)(until_us - now_us) * inv : 0;
}

static inline float held(int64_t since_us, int64_t now_us, float inv)
{
    return since_us == GUARD_NEVER ? 0 : (float)(now_us - since_us) * inv;
}

static inline float ring_ago(const struct sense_state *s, int steps)
{
    int i = s->ring_next - steps;
    return s->ring[i < 0 ? i + SENSE_RING : i];
}

static void fill_units(const struct capacity_config *cfg, const struct capacity_view *view,
                       float *obs)
{
    float inv_units = 1.0f / (float)max_int(view->units_requested, 1);
    int young = 0, mid = 0;
    put(obs, OBS_SIZE, (float)view->units_requested * cfg->inv_max);
    put(obs, OBS_READY, (float)view->units_ready * inv_units);
    put(obs, OBS_WARMING, (float)view->units_warming * inv_units);
    if (view->units_warming > 0) {
        for (int i = 0; i < cfg->warm_mid; i++)
            young += view->warm[i];
        for (int i = cfg->warm_mid; i < cfg->warm_old; i++)
            mid += view->warm[i];
    }
    put(obs, OBS_WARM_YOUNG, (float)young * inv_units);
    put(obs, OBS_WARM_MID, (float)mid * inv_units);
    put(obs, OBS_WARM_OLD, (float)(view->units_warming - young - mid) * inv_units);
}

static void fill_load(const struct capacity_config *cfg, const struct capacity_view *view,
                      const struct sense_state *s, float *obs)
{
    bool gpu = present(usable(view->value[FIELD_GPU_UTIL]));
    bool latency = present(usable(view->value[FIELD_P99_LATENCY_MS]));
    bool queue = present(usable(view->value[FIELD_QUEUE_LEN]));
    bool qps = present(s->qps);
    float last = present(usable(view->qps_last)) ? view->qps_last : s->qps;
    float floor = 1e-6f * cfg->load_top;
    float inv_ready = 1.0f / (s->cap_ready > floor ? s->cap_ready : floor);
    float inv_cap = 1.0f / (s->cap_requested > floor ? s->cap_requested : floor);
    float inv_units = 1.0f / (float)max_int(view->units_requested, 1);
    float before_1 = ring_ago(s, cfg->steps_1min), before_5 = ring_ago(s, cfg->steps_5min);

    put_if(obs, OBS_GPU_USE, gpu, s->gpu);
    put_if(obs, OBS_GPU_MEM, present(usable(view->value[FIELD_GPU_MEM_UTIL])), s->gpu_mem);
    put_if(obs, OBS_P50_OVER_TARGET, latency && present(s->p50), s->p50 * cfg->inv_slo);
    put_if(obs, OBS_P99_OVER_TARGET, latency, s->p99 * cfg->inv_slo);
    put_if(obs, OBS_QUEUE_PER_UNIT, queue, 0.1f * s->queue / (float)max_int(view->units_ready, 1));
    put_if(obs, OBS_USE_READY, qps, s->qps * inv_ready);
    put_if(obs, OBS_USE_REQUESTED, qps, s->qps * inv_cap);
    put_if(obs, OBS_USE_LAST, qps, last * inv_cap);
    put_if(obs, OBS_USE_LEVEL, qps, s->qps_level * inv_cap);
    put_if(obs, OBS_USE_PEAK, qps, s->peak * inv_cap);
    put_if(obs, OBS_SLOPE_1MIN, qps && present(before_1), (s->qps - before_1) * inv_cap);
    put_if(obs, OBS_SLOPE_5MIN, qps && present(before_5), (s->qps - before_5) * inv_cap);
    put_if(obs, OBS_NEED_NOW, qps, s->need_now * inv_units);
    obs[OBS_NO_GPU] = gpu ? 0 : 1;
    obs[OBS_NO_LATENCY] = latency ? 0 : 1;
    obs[OBS_NO_LOAD] = qps && queue ? 0 : 1;
}

/* The 5-min point that covers now: the forecast made for this moment. */
static inline float forecast_now(const struct capacity_view *view)
{
    int64_t age = view->now_us - view->forecast.made_us;
    return view->forecast.mean[age < INT64_C(300000000) ? 0 : age < INT64_C(600000000) ? 1 : 2];
}

static void fill_forecast(const struct capacity_config *cfg, const struct capacity_view *view,
                          const struct sense_state *s, float *obs)
{
    const struct forecast *f = &view->forecast;
    bool ok = f->usable;
    float floor = 1e-6f * cfg->load_top;
    float inv_cap = 1.0f / (s->cap_requested > floor ? s->cap_requested : floor);
    float inv_units = 1.0f / (float)max_int(view->units_requested, 1);
    bool qps = present(s->qps);

    put_if(obs, OBS_QPS_OVER_MEDIAN, ok && qps && f->base > 0, s->qps / f->base);
    put_if(obs, OBS_FORECAST_5MIN, ok, f->mean[0] * inv_cap);
    put_if(obs, OBS_FORECAST_10MIN, ok, f->mean[1] * inv_cap);
    put_if(obs, OBS_FORECAST_15MIN, ok, f->mean[2] * inv_cap);
    put_if(obs, OBS_FORECAST_UPPER, ok, s->forecast_hi80_max * inv_cap);
    put_if(obs, OBS_FORECAST_HIGH, ok, f->high * inv_cap);
    put_if(obs, OBS_FORECAST_ERROR, ok && qps, (s->qps - forecast_now(view)) * inv_cap);
    put_if(obs, OBS_UNCERTAINTY, ok, f->uncertainty);
    put_if(obs, OBS_NEED_MEAN, ok, s->need_mean * inv_units);
    put_if(obs, OBS_NEED_UPPER, ok, s->need_upper * inv_units);
    put_if(obs, OBS_NEED_HIGH, ok, s->need_high * inv_units);
    put_if(obs, OBS_TO_PEAK, ok, f->hours_to_peak * (1.0f / 24));
    obs[OBS_NO_FORECAST] = ok ? 0 : 1;
}

static void fill_guard(const struct capacity_config *cfg, const struct capacity_view *view,
                       const struct capacity_state *state, float *obs)
{
    const struct guard_state *g = &state->guard;
    int64_t now = view->now_us, last = max_i64(g->last_out_us, g->last_in_us);
    float units = (float)max_int(view->units_requested, 1);
    put(obs, OBS_WAIT_OUT, left(last + cfg->guard.cooldown_out_us, now, cfg->inv_out));
    put(obs, OBS_WAIT_IN, left(last + cfg->guard.cooldown_in_us, now, cfg->inv_in));
    put(obs, OBS_WATCH, left(g->watch_until_us, now, cfg->inv_watch));
    put(obs, OBS_BREAKER, left(g->breaker_until_us, now, cfg->inv_breaker));
    put(obs, OBS_RATE_ROOM,
        1 - (float)g->up.sum / (float)guard_rate_cap(cfg, view->units_requested));
    put(obs, OBS_FLAP_ROOM, 1 - (float)g->flap.sum * cfg->inv_flap);
    put(obs, OBS_HELD_HIGH, held(g->high_since_us, now, cfg->inv_hold));
    put(obs, OBS_HELD_LOW, held(g->low_since_us, now, cfg->inv_hold));
    put(obs, OBS_HELD_WATER, held(g->water_since_us, now, cfg->inv_hold));
    put_if(obs, OBS_BASE_MOVE, state->base_units >= 0,
           (float)(state->base_units - view->units_requested) / units);
}

static void fill_context(const struct capacity_config *cfg, const struct capacity_view *view,
                         float *obs)
{
    const struct calendar_point *p = &view->when;
    int day = p->minute / (1440 / SINE_POINTS);
    int hour = p->minute % 60 * (SINE_POINTS / 60);
    int quarter = SINE_POINTS / 4;
    obs[OBS_DAY_SIN] = cfg->sine[day];
    obs[OBS_DAY_COS] = cfg->sine[(day + quarter) % SINE_POINTS];
    obs[OBS_HOUR_SIN] = cfg->sine[hour];
    obs[OBS_HOUR_COS] = cfg->sine[(hour + quarter) % SINE_POINTS];
    obs[OBS_WEEK_SIN] = cfg->week_sin[p->weekday];
    obs[OBS_WEEK_COS] = cfg->week_cos[p->weekday];
    obs[OBS_HOLIDAY] = p->holiday;
    obs[OBS_MONTH_END] = p->month_end;
    obs[OBS_QUARTER_END] = p->quarter_end;
    put(obs, OBS_WEIGHT_LATENCY, view->weight_latency);
    put(obs, OBS_WEIGHT_COST, view->weight_cost);
}

void observation_fill(const struct capacity_config *cfg, const struct capacity_view *view,
                      const struct capacity_state *state, float *obs)
{
    fill_units(cfg, view, obs);
    fill_load(cfg, view, &state->sense, obs);
    fill_forecast(cfg, view, &state->sense, obs);
    fill_guard(cfg, view, state, obs);
    fill_context(cfg, view, obs);
}
