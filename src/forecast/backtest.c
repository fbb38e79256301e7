#include "forecast/backtest.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/mem.h"

enum { DAY = FORECAST_POINTS_PER_DAY, WARM_DAYS_MIN = 8 };
static const int HORIZON_LEVEL[BACKTEST_HORIZONS] = {[BACKTEST_15MIN] = 2, [BACKTEST_30MIN] = 3};
static const double HELP_FRAC = 0.02; /* below persistence by this much is help */

struct backtest_config backtest_config_default(void)
{
    return (struct backtest_config){
        .forecaster = forecast_config_default(),
        .test_frac = 1.0 / 3,
        .rounds = 1000,
        .seed = 1,
    };
}

const char *backtest_horizon_name(int horizon)
{
    return horizon == BACKTEST_15MIN ? "15min" : horizon == BACKTEST_30MIN ? "30min" : NULL;
}

static enum err_code check(const struct backtest_config *cfg, const struct forecast_series *s,
                           int64_t *from, struct err *e)
{
    enum err_code rc = forecast_config_check(&cfg->forecaster, e);
    if (rc)
        return rc;
    if (!(cfg->test_frac >= 0.05 && cfg->test_frac <= 0.9))
        return err_set(e, ERR_RANGE, "test_frac: %g is outside [0.05, 0.9]", cfg->test_frac);
    if (cfg->rounds < 10 || cfg->rounds > 100000)
        return err_set(e, ERR_RANGE, "rounds: %d is outside [10, 100000]", cfg->rounds);
    if (s->n < (WARM_DAYS_MIN + 1) * DAY)
        return err_set(e, ERR_RANGE, "a backtest needs %d days, the history has %.1f",
                       WARM_DAYS_MIN + 1, (double)s->n / DAY);
    int64_t test = (int64_t)(cfg->test_frac * (double)s->n);
    if (test < DAY)
        test = DAY;
    if (test > s->n - WARM_DAYS_MIN * DAY)
        test = s->n - WARM_DAYS_MIN * DAY;
    *from = s->n - test;
    return ERR_OK;
}

/* What the forecaster said at each origin of the test part. */
struct said_bounds {
    struct forecast_bounds at[BACKTEST_HORIZONS];
};

static enum err_code replay(const struct backtest_config *cfg, const struct forecast_series *s,
                            const struct calendar *cal, int64_t from, struct said_bounds *said,
                            double *usable_frac, struct err *e)
{
    struct forecaster *f = forecast_new(&cfg->forecaster);
    int64_t n_usable = 0;
    enum err_code rc = forecast_series_push(f, s, cal, 0, from, e);
    for (int64_t i = from; i < s->n && rc == ERR_OK; i++) {
        struct forecast now;
        rc = forecast_series_push(f, s, cal, i, i + 1, e);
        forecast_get(f, &now);
        n_usable += now.usable;
        for (int h = 0; h < BACKTEST_HORIZONS; h++) {
            int k = HORIZON_LEVEL[h];
            said[i - from].at[h] = (struct forecast_bounds){now.mean[k], now.lo80[k], now.hi80[k],
                                                            now.lo95[k], now.hi95[k]};
        }
    }
    *usable_frac = (double)n_usable / (double)(s->n - from);
    forecast_free(f);
    return rc;
}

/* ---- one horizon
 * ------------------------------------------------------------------------------------- */

struct scratch {
    float *mean[BASELINE_COUNT]; /* [n] */
    double *cover80, *cover95;   /* [days] share covered; weighted by whole days */
    struct said_bounds *said;    /* [n - from] */
};

static enum err_code run_baselines(const struct forecast_series *s, int64_t n_fit, int level,
                                   struct scratch *w, struct holt_winters *hw, struct err *e)
{
    for (int b = 0; b < BASELINE_COUNT; b++) {
        if (b == BASELINE_HOLT_WINTERS)
            continue;
        enum err_code rc = baseline_run((enum baseline)b, s, n_fit, level, w->mean[b], e);
        if (rc)
            return rc;
    }
    enum err_code rc = holt_winters_fit(s, n_fit, level, hw, e);
    if (rc == ERR_OK)
        holt_winters_run(hw, s, level, w->mean[BASELINE_HOLT_WINTERS]);
    return rc;
}

/* Scored only where every method can speak, so that all see the same origins. */
static bool score_origin(const struct forecast_series *s, int64_t i, int level,
                         const struct forecast_bounds *own, const struct scratch *w,
                         struct backtest_horizon *out, float *load)
{
    struct forecast_bounds slot;
    *load = forecast_target(s, i, level);
    if (isnan(*load) || isnan(own->mean) || !baseline_slot_bounds(s, i, level, &slot))
        return false;
    for (int b = 0; b < BASELINE_COUNT; b++)
        if (isnan(w->mean[b][i]))
            return false;
    forecast_score_add(&out->own, own, *load);
    forecast_score_add(&out->slot, &slot, *load);
    for (int b = 0; b < BASELINE_COUNT; b++) {
        const struct forecast_bounds mean = {w->mean[b][i], NAN, NAN, NAN, NAN};
        forecast_score_add(&out->baseline[b], &mean, *load);
    }
    return true;
}

static void choose_best(struct backtest_horizon *h)
{
    h->best = BASELINE_PERSISTENCE;
    for (int b = 0; b < BASELINE_COUNT; b++)
        if (b != BASELINE_SLOT_MEDIAN &&
            forecast_wape(&h->baseline[b]) < forecast_wape(&h->baseline[h->best]))
            h->best = (enum baseline)b;
    h->gain_frac = 1 - forecast_wape(&h->own) / forecast_wape(&h->baseline[h->best]);
}

static enum err_code run_horizon(const struct backtest_config *cfg, const struct forecast_series *s,
                                 int64_t from, int horizon, struct scratch *w,
                                 struct backtest_horizon *out, struct err *e)
{
    int level = HORIZON_LEVEL[horizon];
    enum err_code rc = run_baselines(s, from - DAY, level, w, &out->hw, e);
    if (rc)
        return rc;
    size_t n_days = 0;
    int64_t in80 = 0, in95 = 0, n = 0;
    for (int64_t i = from; i < s->n; i++) {
        const struct forecast_bounds *own = &w->said[i - from].at[horizon];
        float load;
        if (score_origin(s, i, level, own, w, out, &load)) {
            n++;
            in80 += load >= own->lo80 && load <= own->hi80;
            in95 += load >= own->lo95 && load <= own->hi95;
        }
        if (((i - from + 1) % DAY == 0 || i + 1 == s->n) && n > DAY / 4) {
            w->cover80[n_days] = (double)in80 / (double)n;
            w->cover95[n_days++] = (double)in95 / (double)n;
            in80 = in95 = n = 0;
        }
    }
    if (n_days == 0)
        return err_set(e, ERR_RANGE,
                       "%s: the test part holds no quarter day with loads to score against",
                       backtest_horizon_name(horizon));
    choose_best(out);
    struct rng rng = rng_stream(cfg->seed, "backtest");
    rc = stats_bootstrap(w->cover80, n_days, 1, cfg->rounds, 0.95, &rng, &out->cover80, e);
    if (rc == ERR_OK)
        rc = stats_bootstrap(w->cover95, n_days, 1, cfg->rounds, 0.95, &rng, &out->cover95, e);
    return rc;
}

static enum err_code scratch_new(struct scratch *w, int64_t n, int64_t n_test, struct err *e)
{
    bool ok = true;
    for (int b = 0; b < BASELINE_COUNT; b++)
        ok &= (w->mean[b] = try_zero((size_t)n, sizeof(float))) != NULL;
    size_t days = (size_t)(n_test / DAY + 1);
    ok &= (w->cover80 = try_zero(days, sizeof(double))) != NULL;
    ok &= (w->cover95 = try_zero(days, sizeof(double))) != NULL;
    ok &= (w->said = try_zero((size_t)n_test, sizeof *w->said)) != NULL;
    return ok ? ERR_OK : err_set(e, ERR_NOMEM, "backtest of %lld points", (long long)n);
}

static void scratch_free(struct scratch *w)
{
    for (int b = 0; b < BASELINE_COUNT; b++)
        mem_free(w->mean[b]);
    mem_free(w->cover80);
    mem_free(w->cover95);
    mem_free(w->said);
}

static void conclude(struct backtest_result *r)
{
    const struct backtest_horizon *h = &r->at[BACKTEST_15MIN];
    double own = forecast_wape(&h->own), last = forecast_wape(&h->baseline[BASELINE_PERSISTENCE]);
    r->n_origins = h->own.n;
    r->error_above_20 = own > 0.20;
    r->helps = own <= (1 - HELP_FRAC) * last;
    r->beats_best = r->helps && h->gain_frac > 0;
}

enum err_code backtest_run(const struct backtest_config *cfg, const struct forecast_series *s,
                           const struct calendar *cal, struct backtest_result *out, struct err *e)
{
    struct scratch w = {0};
    int64_t from = 0;
    memset(out, 0, sizeof *out);
    enum err_code rc = check(cfg, s, &from, e);
    if (rc)
        return rc;
    out->n_points = s->n;
    out->n_missing = s->n_missing;
    out->test_start_us = s->start_us + from * FORECAST_POINT_US;
    out->test_end_us = s->start_us + s->n * FORECAST_POINT_US;
    rc = scratch_new(&w, s->n, s->n - from, e);
    if (rc == ERR_OK)
        rc = replay(cfg, s, cal, from, w.said, &out->usable_frac, e);
    for (int h = 0; h < BACKTEST_HORIZONS && rc == ERR_OK; h++)
        rc = run_horizon(cfg, s, from, h, &w, &out->at[h], e);
    if (rc == ERR_OK)
        conclude(out);
    scratch_free(&w);
    return rc;
}

int backtest_verdict(const struct backtest_result *r, char *out, size_t size)
{
    const struct backtest_horizon *h = &r->at[BACKTEST_15MIN];
    double own = 100 * forecast_wape(&h->own), best = 100 * forecast_wape(&h->baseline[h->best]);
    double last = 100 * forecast_wape(&h->baseline[BASELINE_PERSISTENCE]);
    const char *wide =
        r->error_above_20
            ? " The error is over 20 %: this load cannot be told well 15 minutes ahead."
            : "";
    if (!r->helps)
        return snprintf(out, size,
                        "Forecasting does not help here: at 15 min its error is %.1f %%, the last "
                        "value's %.1f %%.%s",
                        own, last, wide);
    if (!r->beats_best)
        return snprintf(
            out, size,
            "Forecasting helps (error %.1f %% against %.1f %% of the last value), but %s does as "
            "well: %.1f %%.%s",
            own, last, baseline_name(h->best), best, wide);
    return snprintf(
        out, size,
        "Forecasting helps: at 15 min its error is %.1f %%, %.1f %% below the best simple method "
        "(%s, %.1f %%).%s",
        own, 100 * h->gain_frac, baseline_name(h->best), best, wide);
}
