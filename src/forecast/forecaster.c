#include "forecast/forecaster.h"

#include <assert.h>
#include <math.h>
#include <string.h>

#include "base/mem.h"
#include "forecast/scalar_priv.h"
#include "forecast/state_priv.h"

static const double LOSS_KEEP = 0.9995; /* of `usable`: about a week */
static const double SPREAD_ALPHA = 1;   /* ridge of the spread model */
static const float MAX_LOAD = 1e30f;
enum { LEVEL_15MIN = 2, LEVEL_PRESENT_MIN = 2 };

struct forecast_config forecast_config_default(void)
{
    return (struct forecast_config){
        .ridge_alpha = 0.1,
        .max_change_frac = 0.30,
        .high_factor = 1.2,
        .min_days = 7,
        .refit_days = 1,
    };
}

enum err_code forecast_config_check(const struct forecast_config *cfg, struct err *e)
{
    if (!(cfg->ridge_alpha > 0 && cfg->ridge_alpha <= 1e6))
        return err_set(e, ERR_RANGE, "ridge_alpha: %g is outside (0, 1e6]", cfg->ridge_alpha);
    if (!(cfg->max_change_frac > 0 && cfg->max_change_frac <= 1))
        return err_set(e, ERR_RANGE, "max_change_frac: %g is outside (0, 1]", cfg->max_change_frac);
    if (!(cfg->high_factor >= 1 && cfg->high_factor <= 10))
        return err_set(e, ERR_RANGE, "high_factor: %g is outside [1, 10]", cfg->high_factor);
    if (cfg->min_days < 1 || cfg->min_days > 365)
        return err_set(e, ERR_RANGE, "min_days: %d is outside [1, 365]", cfg->min_days);
    if (cfg->refit_days < 1 || cfg->refit_days > 28)
        return err_set(e, ERR_RANGE, "refit_days: %d is outside [1, 28]", cfg->refit_days);
    return ERR_OK;
}

static void say_nothing(struct forecast *out)
{
    memset(out, 0, sizeof *out);
    for (int k = 0; k < LEVELS; k++)
        out->mean[k] = out->lo80[k] = out->hi80[k] = out->lo95[k] = out->hi95[k] = NAN;
    out->base = out->slot_p95 = out->high = out->hours_to_peak = NAN;
    out->uncertainty = 1;
}

struct forecaster *forecast_new(const struct forecast_config *cfg)
{
    ASSERT(forecast_config_check(cfg, NULL) == ERR_OK);
    struct forecaster *f = mem_zero(1, sizeof *f);
    f->cfg = *cfg;
    interval_edges(f->bin_edge);
    for (int k = 0; k < LEVELS; k++)
        interval_init(&f->interval[k]);
    say_nothing(&f->now);
    return f;
}

void forecast_free(struct forecaster *f)
{
    mem_free(f);
}

void forecast_copy(struct forecaster *dst, const struct forecaster *src)
{
    memcpy(dst, src, sizeof *dst);
}

size_t forecast_state_bytes(void)
{
    return sizeof(struct forecaster);
}

/* ---- scoring what was said
 * ------------------------------------------------------------------------ */

/* The load a level spoke of, made at origin i; NaN when it cannot be told. */
static float came_true(const struct window *w, int64_t i, int level)
{
    float sum = 0;
    int n = 0;
    for (int64_t j = i + level_first[level]; j <= i + level_last[level]; j++)
        if (!window_missing(w, j)) {
            sum += window_y(w, j);
            n++;
        }
    int need = level_first[level] == level_last[level] ? 1 : LEVEL_PRESENT_MIN;
    return n >= need ? sum / (float)n : NAN;
}

static void keep_track(struct forecaster *f, int level, const struct said *s,
                       const struct origin *o, float load)
{
    const struct forecast_bounds own = {
        .mean = s->mean,
        .lo80 = s->bound[BOUND_LO80],
        .hi80 = s->bound[BOUND_HI80],
        .lo95 = s->bound[BOUND_LO95],
        .hi95 = s->bound[BOUND_HI95],
    };
    const struct forecast_bounds last = {o->y, NAN, NAN, NAN, NAN};
    if (o->counts) {
        forecast_score_add(&f->track.own[level], &own, load);
        forecast_score_add(&f->track.persistence[level], &last, load);
    }
    if (level == LEVEL_15MIN) {
        f->loss_own = LOSS_KEEP * f->loss_own + (double)fabsf(s->mean - load);
        f->loss_last = LOSS_KEEP * f->loss_last + (double)fabsf(o->y - load);
    }
}

static void learn_level(struct forecaster *f, int level)
{
    const struct window *w = &f->window;
    int64_t i = window_last(w) - level_last[level];
    if (i < 0)
        return;
    float load = came_true(w, i, level);
    if (isnan(load))
        return;
    const struct origin *o = &f->origin[i & (ORIGINS - 1)];
    const struct said *s = &o->said[level];
    if (!o->fresh)
        return;
    keep_track(f, level, s, o, load);
    if (i >= DAY)
        interval_learn(&f->interval[level], s, load, w->mean);
    mixing_learn(&f->mixing[level], s, load, fmaxf(f->levels.step, 1e-30f));
    regression_learn(&f->regression[level], s, logf(load + w->log_shift) - o->log_y);
}

static void start_of_day(struct forecaster *f)
{
    bool refit = --f->refit_in <= 0;
    if (refit)
        f->refit_in = f->cfg.refit_days;
    for (int k = 0; k < LEVELS; k++) {
        regression_day(&f->regression[k], f->cfg.ridge_alpha, refit);
        interval_day(&f->interval[k], SPREAD_ALPHA);
    }
}

/* ---- speaking
 * ------------------------------------------------------------------------------------- */

/* Only forecasts made at a present point are learnt from.  With a native step above 5 min some
 * levels then never are: they repeat the next one that is. */
static int spoken_level(const struct forecaster *f, int level)
{
    for (int k = level; k < LEVELS; k++)
        if (f->interval[k].seen > 0)
            return k;
    return level;
}

static void say(struct forecaster *f, const struct origin *o)
{
    struct forecast *n = &f->now;
    const struct window *w = &f->window;
    n->made_us = w->time_us + FORECAST_POINT_US;
    n->high = 0;
    for (int k = 0; k < LEVELS; k++) {
        const struct said *s = &o->said[spoken_level(f, k)];
        n->mean[k] = s->mean;
        n->lo80[k] = s->bound[BOUND_LO80];
        n->hi80[k] = s->bound[BOUND_HI80];
        n->lo95[k] = s->bound[BOUND_LO95];
        n->hi95[k] = s->bound[BOUND_HI95];
        if (k < FORECAST_POINTS)
            n->high = fmaxf(n->high, n->hi95[k]);
    }
    n->high *= (float)f->cfg.high_factor;
    const struct slot_stats *slot = &w->slot[w->rest][window_slot(w, 0)];
    n->base = slot->median;
    n->slot_p95 = slot->p95;
    n->hours_to_peak = window_hours_to_peak(w);
    float wide = n->hi80[LEVEL_15MIN] - n->lo80[LEVEL_15MIN];
    n->uncertainty = wide > 0 ? wide / (wide + n->mean[LEVEL_15MIN]) : 0;
    n->usable = o->counts && w->since_seen < SLOT_POINTS && f->loss_own < f->loss_last;
}

/* ---- points
 * --------------------------------------------------------------------------------------- */

static void step(struct forecaster *f)
{
    int64_t i = window_last(&f->window);
    levels_update(&f->levels, &f->window);
    for (int k = 0; k < LEVELS; k++)
        learn_level(f, k);
    if (i > 0 && i % DAY == 0)
        start_of_day(f);
    struct origin *o = &f->origin[i & (ORIGINS - 1)];
    experts_fill(f, o);
    for (int k = 0; k < LEVELS; k++)
        interval_fill(f, k, o, &o->said[k]);
}

/* Missing points up to `until`.  A gap of over three weeks is shortened by whole weeks: by then the
 * window has forgotten everything anyway. */
static void fill_gap(struct forecaster *f, int64_t n_points)
{
    if (n_points > 3 * WEEK) {
        int64_t weeks = n_points / WEEK - 3;
        n_points -= weeks * WEEK;
        f->window.time_us += weeks * WEEK * FORECAST_POINT_US;
    }
    for (int64_t k = 0; k < n_points; k++) {
        window_push_gap(&f->window);
        step(f);
    }
}

enum err_code forecast_push(struct forecaster *f, int64_t time_us, float value,
                            const struct calendar_point *at, struct err *e)
{
    if (!isnan(value) && !(value >= 0 && value <= MAX_LOAD))
        return err_set(e, ERR_RANGE, "load %g is outside [0, 1e30]", (double)value);
    if (f->window.n > 0) {
        int64_t ahead = time_us - f->window.time_us;
        if (ahead <= 0 || ahead % FORECAST_POINT_US != 0)
            return err_set(e, ERR_INVAL,
                           "point is %lld us after the last one, not a number of 5-minute steps",
                           (long long)ahead);
        fill_gap(f, ahead / FORECAST_POINT_US - 1);
    }
    window_push(&f->window, time_us, value, at);
    step(f);
    say(f, &f->origin[window_last(&f->window) & (ORIGINS - 1)]);
    return ERR_OK;
}

void forecast_get(const struct forecaster *f, struct forecast *out)
{
    *out = f->now;
}

void forecast_track_get(const struct forecaster *f, struct forecast_track *out)
{
    *out = f->track;
}

static const char *const EXPERT_NAME[] = {
#define X(id, name) [EXPERT_##id] = (name),
    EXPERT_LIST(X)
#undef X
};
static_assert(sizeof EXPERT_NAME / sizeof EXPERT_NAME[0] == EXPERTS, "one name per expert");

const char *forecast_expert_name(int expert)
{
    return expert >= 0 && expert < EXPERTS ? EXPERT_NAME[expert] : NULL;
}

void forecast_shares(const struct forecaster *f, int level, float out[FORECAST_EXPERTS])
{
    ASSERT(level >= 0 && level < LEVELS);
    mixing_shares(&f->mixing[level], out);
}

/* ---- quantiles
 * ------------------------------------------------------------------------------------ */

/* Standard normal quantile, Acklam's rational approximation (relative error 1.2e-9 before
 * refinement; the central and tail branches). */
static double normal_quantile(double p)
{
    static const double a[] = {-3.969683028665376e+01, 2.209460984245205e+02,
                               -2.759285104469687e+02, 1.383577518672690e+02,
                               -3.066479806614716e+01, 2.506628277459239e+00};
    static const double b[] = {-5.447609879822406e+01, 1.615858368580409e+02,
                               -1.556989798598866e+02, 6.680131188771972e+01,
                               -1.328068155288572e+01};
    static const double c[] = {-7.784894002430293e-03, -3.223964580411365e-01,
                               -2.400758277161838e+00, -2.549732539343734e+00,
                               4.374664141464968e+00,  2.938163982698783e+00};
    static const double d[] = {7.784695709041462e-03, 3.224671290700398e-01, 2.445134137142996e+00,
                               3.754408661907416e+00};
    if (p > 0.97575)
        return -normal_quantile(1 - p);
    if (p < 0.02425) {
        double q = sqrt(-2 * log(p));
        return (((((c[0] * q + c[1]) * q + c[2]) * q + c[3]) * q + c[4]) * q + c[5]) /
               ((((d[0] * q + d[1]) * q + d[2]) * q + d[3]) * q + 1);
    }
    double q = p - 0.5, r = q * q;
    return (((((a[0] * r + a[1]) * r + a[2]) * r + a[3]) * r + a[4]) * r + a[5]) * q /
           (((((b[0] * r + b[1]) * r + b[2]) * r + b[3]) * r + b[4]) * r + 1);
}

float forecast_quantile(const struct forecast *fc, int level, double p)
{
    ASSERT(level >= 0 && level < LEVELS);
    static const double z[5] = {-1.959963984540054, -1.281551565544601, 0, 1.281551565544601,
                                1.959963984540054};
    float lo = fc->lo80[level], hi = fc->hi80[level]; /* the mean may lie a hair outside */
    const float v[5] = {fc->lo95[level], lo, clamp_f(fc->mean[level], lo, hi), hi, fc->hi95[level]};
    double at = normal_quantile(fmin(fmax(p, 0.001), 0.999));
    int k = 0;
    while (k < 3 && at > z[k + 1])
        k++;
    double value = (double)v[k] + (at - z[k]) / (z[k + 1] - z[k]) * (double)(v[k + 1] - v[k]);
    return (float)fmax(value, 0);
}
