/* Levels, ratios, features and experts: everything that is said of an origin before it is mixed. */
#include <math.h>
#include <string.h>

#include "forecast/ridge_priv.h"
#include "forecast/scalar_priv.h"
#include "forecast/state_priv.h"

const int level_first[LEVELS] = {1, 2, 3, 1}, level_last[LEVELS] = {1, 2, 3, 6};

static const float EWMA_RATE[4] = {0.3f, 0.1f, 0.03f, 0.01f};
static const float SEASON_LEVEL_RATE[2] = {0.1f, 0.45f}, SEASON_RATE[2] = {0.2f, 0.4f};
static const float RATIO_RATE = 0.45f, RATIO_MAX = 10;
static const float WILD = 1.5f; /* no expert goes past this multiple of the largest load */
/* Residuals below this share of the mean one weigh alike; large at first, since weights 1/|r| under
 * a poor model pull towards that model. */
static const float FLOOR_MIN = 0.05f, FLOOR_ROWS = 1500;
static const float KEEP_PER_DAY = 0.93f;

/* ---- levels ------------------------------------------------------------------------------------
 */

static float back_or(const struct window *w, int64_t i, float otherwise)
{
    return window_has(w, i) ? window_y(w, i) : otherwise;
}

static void update_ratio(float *ratio, float y, float usual)
{
    float now = usual > 0 ? min_f(RATIO_MAX, y / usual) : 1;
    *ratio += RATIO_RATE * (now - *ratio);
}

static void update_season(struct levels *l, const struct window *w, float y, bool first_day)
{
    for (int q = 0; q < 2; q++) {
        float *s = &l->season[q][w->five], *level = &l->season_level[q];
        if (first_day) {
            *level += 0.1f * (y - *level);
            *s = y - *level;
        } else {
            *level += SEASON_LEVEL_RATE[q] * (y - *s - *level);
            *s += SEASON_RATE[q] * (y - *level - *s);
        }
    }
}

static void levels_start(struct levels *l, float y, float log_y)
{
    for (int k = 0; k < 3; k++)
        l->ewma[k] = y;
    for (int k = 0; k < 4; k++)
        l->log_ewma[k] = log_y;
    l->season_level[0] = l->season_level[1] = y;
    l->slot_ratio = l->five_ratio = l->day_ratio = l->week_ratio = 1;
}

void levels_update(struct levels *l, const struct window *w)
{
    int64_t i = window_last(w);
    float y = window_y(w, i), log_y = window_log(w, i);
    if (w->count <= 1)
        levels_start(l, y, log_y);
    if (window_missing(w, i))
        return;
    for (int k = 0; k < 3; k++)
        l->ewma[k] += EWMA_RATE[k] * (y - l->ewma[k]);
    for (int k = 0; k < 4; k++)
        l->log_ewma[k] += EWMA_RATE[k] * (log_y - l->log_ewma[k]);
    update_season(l, w, y, i < DAY);
    const struct ahead *a = window_ahead(w, i);
    update_ratio(&l->slot_ratio, y, a->slot);
    update_ratio(&l->five_ratio, y, a->five);
    update_ratio(&l->day_ratio, y, back_or(w, window_days_back(w, i, 1), a->slot));
    update_ratio(&l->week_ratio, y, back_or(w, window_days_back(w, i, 7), a->slot));
    float step = fabsf(y - l->ewma[1]) + 1e-3f * fabsf(l->ewma[1]);
    l->step += l->step > 0 ? 0.003f * (step - l->step) : step;
}

/* ---- features and experts
 * ------------------------------------------------------------------------ */

/* Means over the points of a level, of the load and of its logarithm. */
struct shape {
    float slot, slot_all, five, day, week, season[2];
    float log_slot, log_five, log_day, log_day2, log_week, log_hour[3];
};

static float log_back_or(const struct window *w, int64_t i, float otherwise)
{
    return window_has(w, i) ? window_log(w, i) : otherwise;
}

static void add_point(struct shape *s, const struct forecaster *f, int q, float share)
{
    const struct window *w = &f->window;
    int64_t i = window_last(w) + q;
    const struct ahead *a = window_ahead(w, i);
    int64_t day = window_days_back(w, i, 1), week = window_days_back(w, i, 7);
    s->slot += share * a->slot;
    s->slot_all += share * a->slot_all;
    s->five += share * a->five;
    s->log_slot += share * a->log_slot;
    s->log_five += share * a->log_five;
    s->day += share * back_or(w, day, a->slot);
    s->week += share * back_or(w, week, a->slot);
    s->log_day += share * log_back_or(w, day, a->log_slot);
    s->log_day2 += share * log_back_or(w, window_days_back(w, i, 2), a->log_slot);
    s->log_week += share * log_back_or(w, week, a->log_slot);
    for (int k = 0; k < 3; k++) /* the same minutes of the last hours */
        s->log_hour[k] += share * log_back_or(w, i - 12 * (k + 1), window_log(w, window_last(w)));
    for (int k = 0; k < 2; k++)
        s->season[k] +=
            share * (f->levels.season_level[k] + f->levels.season[k][(w->five + q) % DAY]);
}

/* What is the same for all levels. */
static void fill_common(const struct forecaster *f, float x[FEATURES])
{
    const struct window *w = &f->window;
    int64_t i = window_last(w);
    float z = window_log(w, i);
    const struct ahead *a = window_ahead(w, i);
    int n = 0;
    x[n++] = 1;
    for (int k = 1; k < 6; k++)
        x[n++] = log_back_or(w, i - k, z) - z;
    for (int k = 0; k < 4; k++)
        x[n++] = f->levels.log_ewma[k] - z;
    x[n++] = a->log_slot - z;
    x[n++] = a->log_five - z;
    x[n++] = log_back_or(w, window_days_back(w, i, 1), a->log_slot) - z;
    x[n++] = log_back_or(w, window_days_back(w, i, 2), a->log_slot) - z;
    x[n++] = log_back_or(w, window_days_back(w, i, 7), a->log_slot) - z;
    x[n++] = window_hours_to_peak(w) / 24;
}

enum { COMMON_FEATURES = 16 };

static void fill_features(const struct forecaster *f, const struct shape *s, float x[FEATURES])
{
    float z = window_log(&f->window, window_last(&f->window));
    int n = COMMON_FEATURES;
    x[n++] = s->log_slot - z;
    x[n++] = s->log_five - z;
    x[n++] = s->log_day - z;
    x[n++] = s->log_day2 - z;
    x[n++] = s->log_week - z;
    for (int k = 0; k < 3; k++)
        x[n++] = s->log_hour[k] - z;
}

static float median_of_6(const struct window *w)
{
    float v[6];
    int64_t i = window_last(w);
    int n = 0;
    for (int k = 0; k < 6 && window_has(w, i - k); k++) {
        float x = window_y(w, i - k);
        int j = n++;
        for (; j > 0 && v[j - 1] > x; j--)
            v[j] = v[j - 1];
        v[j] = x;
    }
    return n % 2 ? v[n / 2] : 0.5f * (v[n / 2 - 1] + v[n / 2]);
}

static float predict(const struct forecaster *f, int level, const float *x)
{
    const float *w = f->regression[level].w;
    float p = window_log(&f->window, window_last(&f->window));
    for (int k = 0; k < FEATURES; k++)
        p += w[k] * x[k];
    return expf(min_f(p, 80)) - f->window.log_shift;
}

static void fill_experts(const struct forecaster *f, const struct shape *s, float e[EXPERTS])
{
    const struct levels *l = &f->levels;
    e[EXPERT_LAST] = window_y(&f->window, window_last(&f->window));
    e[EXPERT_LEVEL_3] = l->ewma[0];
    e[EXPERT_LEVEL_10] = l->ewma[1];
    e[EXPERT_LEVEL_33] = l->ewma[2];
    e[EXPERT_SLOT_RATIO] = s->slot * l->slot_ratio;
    e[EXPERT_DAY_AGO] = s->day;
    e[EXPERT_WEEK_AGO] = s->week;
    e[EXPERT_SLOT] = s->slot;
    e[EXPERT_SLOT_ALL] = s->slot_all;
    e[EXPERT_SEASONAL_SLOW] = s->season[0];
    e[EXPERT_SEASONAL_FAST] = s->season[1];
    e[EXPERT_FIVE_RATIO] = s->five * l->five_ratio;
    e[EXPERT_DAY_RATIO] = s->day * l->day_ratio;
    e[EXPERT_WEEK_RATIO] = s->week * l->week_ratio;
    float top = WILD * f->window.peak;
    for (int k = 0; k < EXPERTS; k++)
        e[k] = min_f(max_f(e[k], 0), top);
}

/* A round may move past what is known (its last output, the newest point, the usual shape) by
 * cfg.max_change_frac. */
static float clamp_change(const struct forecaster *f, const struct shape *s, float before,
                          float mean)
{
    float y = window_y(&f->window, window_last(&f->window));
    float frac = (float)f->cfg.max_change_frac;
    float lo = (1 - frac) * before, hi = (1 + frac) * before;
    const float known[] = {y, s->slot, s->five, s->five * f->levels.five_ratio};
    for (size_t k = 0; k < sizeof known / sizeof known[0]; k++) {
        lo = min_f(lo, known[k]);
        hi = max_f(hi, known[k]);
    }
    return min_f(max_f(mean, lo), hi);
}

void experts_fill(const struct forecaster *f, struct origin *o)
{
    const struct window *w = &f->window;
    int64_t i = window_last(w);
    const struct origin *before = i > 0 ? &f->origin[(i - 1) & (ORIGINS - 1)] : NULL;
    float common[FEATURES], median = median_of_6(w);
    fill_common(f, common);
    o->y = window_y(w, i);
    o->log_y = window_log(w, i);
    o->fresh = w->since_seen == 0;
    o->counts = w->n >= (int64_t)f->cfg.min_days * DAY;
    for (int k = 0; k < LEVELS; k++) {
        struct said *s = &o->said[k];
        struct shape shape = {0};
        float share = 1.0f / (float)(level_last[k] - level_first[k] + 1);
        for (int q = level_first[k]; q <= level_last[k]; q++)
            add_point(&shape, f, q, share);
        memcpy(s->x, common, sizeof common);
        fill_features(f, &shape, s->x);
        s->expert[EXPERT_RIDGE] = predict(f, k, s->x);
        s->expert[EXPERT_MEDIAN_6] = median;
        fill_experts(f, &shape, s->expert);
        mixing_fill(&f->mixing[k], s);
        s->mean =
            before && i >= DAY ? clamp_change(f, &shape, before->said[k].mean, s->mixed) : s->mixed;
    }
}

/* ---- regression
 * ---------------------------------------------------------------------------------- */

/* Weights 1/|r| turn squares into absolute deviations (iteratively reweighted least squares); here
 * each row is weighted once, by its residual under the weights in use, and fades. */
void regression_learn(struct regression *r, const struct said *s, float target)
{
    float p = 0;
    for (int k = 0; k < FEATURES; k++)
        p += r->w[k] * s->x[k];
    float miss = fabsf(target - p);
    if (r->seen < 1000000)
        r->seen++;
    r->mad += max_f(0.002f, 1 / (float)r->seen) * (miss - r->mad);
    float floor = min_f(1, max_f(FLOOR_MIN, FLOOR_ROWS / (float)r->seen));
    float weight = r->mad > 0 ? r->mad / max_f(miss, floor * r->mad) : 1;
    ridge_add(r->a, r->b, s->x, FEATURES, FEATURES, weight, target);
    r->rows++;
}

void regression_day(struct regression *r, double alpha, bool refit)
{
    if (r->has_next) {
        memcpy(r->w, r->next, sizeof r->w);
        r->has_next = false;
    }
    if (refit && r->rows > DAY)
        r->has_next = ridge_solve(r->a, r->b, FEATURES, FEATURES, alpha / (double)r->rows, r->next);
    ridge_fade(r->a, r->b, FEATURES, FEATURES, KEEP_PER_DAY);
    r->rows *= KEEP_PER_DAY;
}
