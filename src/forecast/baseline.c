#include "forecast/baseline.h"

#include <math.h>
#include <nlopt.h>
#include <string.h>

#include "base/mem.h"
#include "base/stats.h"
#include "forecast/forecaster.h"

enum { DAY = FORECAST_POINTS_PER_DAY, WEEK = 7 * DAY, SLOT_POINTS = 3, SLOT_DAYS = 14, NEED = 2 };
enum { HW_START_DAYS = 2, HW_FIT_DAYS_MIN = 3, HW_EVALUATIONS = 60 };

static const char *const NAME[] = {
    [BASELINE_PERSISTENCE] = "persistence",     [BASELINE_SEASONAL_DAY] = "seasonal-day",
    [BASELINE_SEASONAL_WEEK] = "seasonal-week", [BASELINE_SLOT_MEDIAN] = "slot-median",
    [BASELINE_HOLT_WINTERS] = "holt-winters",
};

const char *baseline_name(enum baseline b)
{
    return NAME[b];
}

static int first_ahead(int level)
{
    return level < FORECAST_POINTS ? level + 1 : 1;
}
static int last_ahead(int level)
{
    return level < FORECAST_POINTS ? level + 1 : 6;
}

float forecast_target(const struct forecast_series *s, int64_t i, int level)
{
    double sum = 0;
    int n = 0;
    for (int64_t j = i + first_ahead(level); j <= i + last_ahead(level); j++) {
        if (j >= s->n)
            return NAN;
        if (!isnan(s->y[j])) {
            sum += (double)s->y[j];
            n++;
        }
    }
    return n >= (level < FORECAST_POINTS ? 1 : NEED) ? (float)(sum / n) : NAN;
}

/* ---- persistence and seasons
 * ----------------------------------------------------------------------- */

static void run_persistence(const struct forecast_series *s, float *out)
{
    float last = NAN;
    for (int64_t i = 0; i < s->n; i++) {
        if (!isnan(s->y[i]))
            last = s->y[i];
        out[i] = last;
    }
}

/* The newest known value at the same time of an earlier season. */
static float season_at(const struct forecast_series *s, int64_t j, int64_t period)
{
    for (j -= period; j >= 0; j -= period)
        if (!isnan(s->y[j]))
            return s->y[j];
    return NAN;
}

static void run_seasonal(const struct forecast_series *s, int level, int64_t period, float *out)
{
    for (int64_t i = 0; i < s->n; i++) {
        float sum = 0;
        for (int q = first_ahead(level); q <= last_ahead(level); q++)
            sum += season_at(s, i + q, period);
        out[i] = sum / (float)(last_ahead(level) - first_ahead(level) + 1);
    }
}

/* ---- same slot
 * ------------------------------------------------------------------------------------- */

static size_t slot_samples(const struct forecast_series *s, int64_t j,
                           double v[SLOT_DAYS * SLOT_POINTS])
{
    int64_t in_slot = (s->start_us / FORECAST_POINT_US + j) % SLOT_POINTS;
    size_t n = 0;
    for (int d = 1; d <= SLOT_DAYS; d++)
        for (int64_t k = j - d * DAY - in_slot, end = k + SLOT_POINTS; k < end; k++)
            if (k >= 0 && k < s->n && !isnan(s->y[k]))
                v[n++] = (double)s->y[k];
    stats_sort(v, n);
    return n;
}

bool baseline_slot_bounds(const struct forecast_series *s, int64_t i, int level,
                          struct forecast_bounds *out)
{
    double v[SLOT_DAYS * SLOT_POINTS];
    size_t n = slot_samples(s, i + last_ahead(level), v);
    if (n == 0)
        return false;
    *out = (struct forecast_bounds){
        .mean = (float)stats_quantile_sorted(v, n, 0.5),
        .lo80 = (float)stats_quantile_sorted(v, n, 0.1),
        .hi80 = (float)stats_quantile_sorted(v, n, 0.9),
        .lo95 = (float)stats_quantile_sorted(v, n, 0.025),
        .hi95 = (float)stats_quantile_sorted(v, n, 0.975),
    };
    return true;
}

static void run_slot_median(const struct forecast_series *s, int level, float *out)
{
    for (int64_t i = 0; i < s->n; i++) {
        double v[SLOT_DAYS * SLOT_POINTS];
        float sum = 0;
        for (int q = first_ahead(level); q <= last_ahead(level); q++) {
            size_t n = slot_samples(s, i + q, v);
            sum += n ? (float)stats_quantile_sorted(v, n, 0.5) : NAN;
        }
        out[i] = sum / (float)(last_ahead(level) - first_ahead(level) + 1);
    }
}

/* ---- Holt-Winters
 * ---------------------------------------------------------------------------------- */

struct hw_state {
    double level, trend, season[DAY];
};

/* Level: mean of the first two days; season: mean deviations from it. */
static void hw_start(const struct forecast_series *s, struct hw_state *h)
{
    int count[DAY] = {0}, n = 0;
    double sum = 0;
    int64_t end = s->n < HW_START_DAYS * DAY ? s->n : HW_START_DAYS * DAY;
    memset(h, 0, sizeof *h);
    for (int64_t i = 0; i < end; i++)
        if (!isnan(s->y[i])) {
            sum += (double)s->y[i];
            n++;
        }
    h->level = n ? sum / n : 0;
    for (int64_t i = 0; i < end; i++)
        if (!isnan(s->y[i])) {
            h->season[i % DAY] += (double)s->y[i] - h->level;
            count[i % DAY]++;
        }
    for (int k = 0; k < DAY; k++)
        if (count[k])
            h->season[k] /= count[k];
}

static void hw_step(struct hw_state *h, const double p[3], int64_t i, float y)
{
    double *season = &h->season[i % DAY];
    if (isnan(y)) {
        h->level += h->trend;
        return;
    }
    double before = h->level;
    h->level = p[0] * ((double)y - *season) + (1 - p[0]) * (h->level + h->trend);
    h->trend = p[1] * (h->level - before) + (1 - p[1]) * h->trend;
    *season = p[2] * ((double)y - h->level) + (1 - p[2]) * *season;
}

static double hw_ahead(const struct hw_state *h, int64_t i, int level)
{
    double sum = 0;
    for (int q = first_ahead(level); q <= last_ahead(level); q++)
        sum += h->level + q * h->trend + h->season[(i + q) % DAY];
    return sum / (last_ahead(level) - first_ahead(level) + 1);
}

struct hw_task {
    const struct forecast_series *s;
    const float *target; /* [n_fit] */
    int64_t n_fit;
    int level;
};

/* Mean absolute error after the first two days; also the objective of NLopt. */
static double hw_loss(unsigned n, const double *p, double *grad, void *arg)
{
    const struct hw_task *t = arg;
    struct hw_state h;
    double sum = 0;
    int64_t count = 0;
    (void)n;
    (void)grad;
    hw_start(t->s, &h);
    for (int64_t i = 0; i < t->n_fit; i++) {
        hw_step(&h, p, i, t->s->y[i]);
        if (i < HW_START_DAYS * DAY || isnan(t->target[i]))
            continue;
        sum += fabs(hw_ahead(&h, i, t->level) - (double)t->target[i]);
        count++;
    }
    return count && isfinite(sum) ? sum / (double)count : 1e300;
}

static double hw_grid(struct hw_task *t, double best[3])
{
    static const double level[] = {0.05, 0.2, 0.45, 0.8, 0.95}, trend[] = {0, 0.005},
                        season[] = {0, 0.05, 0.2, 0.4};
    double least = 2e300;
    for (size_t a = 0; a < ARRAY_LEN(level); a++)
        for (size_t b = 0; b < ARRAY_LEN(trend); b++)
            for (size_t c = 0; c < ARRAY_LEN(season); c++) {
                const double p[3] = {level[a], trend[b], season[c]};
                double loss = hw_loss(3, p, NULL, t);
                if (loss < least) {
                    least = loss;
                    memcpy(best, p, sizeof p);
                }
            }
    return least;
}

static void hw_polish(struct hw_task *t, double best[3], double *least)
{
    double p[3] = {best[0], best[1], best[2]}, loss = *least;
    nlopt_opt opt = nlopt_create(NLOPT_LN_NELDERMEAD, 3);
    ASSERT(opt);
    const double step[3] = {0.1, 0.01, 0.1};
    nlopt_set_lower_bounds1(opt, 0);
    nlopt_set_upper_bounds1(opt, 1);
    nlopt_set_initial_step(opt, step);
    nlopt_set_maxeval(opt, HW_EVALUATIONS);
    nlopt_set_min_objective(opt, hw_loss, t);
    (void)nlopt_optimize(opt, p, &loss); /* running out of evaluations is as good */
    nlopt_destroy(opt);
    if (loss < *least) {
        *least = loss;
        memcpy(best, p, sizeof p);
    }
}

enum err_code holt_winters_fit(const struct forecast_series *s, int64_t n_fit, int level,
                               struct holt_winters *out, struct err *e)
{
    if (n_fit < HW_FIT_DAYS_MIN * DAY || n_fit > s->n)
        return err_set(e, ERR_RANGE, "Holt-Winters needs %d days to fit, has %.1f", HW_FIT_DAYS_MIN,
                       (double)n_fit / DAY);
    float *target = try_zero((size_t)n_fit, sizeof *target);
    if (!target)
        return err_set(e, ERR_NOMEM, "%lld points", (long long)n_fit);
    for (int64_t i = 0; i < n_fit; i++)
        target[i] = i + last_ahead(level) < n_fit ? forecast_target(s, i, level) : NAN;
    struct hw_task t = {.s = s, .target = target, .n_fit = n_fit, .level = level};
    double best[3] = {0.5, 0, 0.1};
    double least = hw_grid(&t, best);
    hw_polish(&t, best, &least);
    *out = (struct holt_winters){
        .level = best[0], .trend = best[1], .season = best[2], .abs_err = least};
    mem_free(target);
    return ERR_OK;
}

void holt_winters_run(const struct holt_winters *hw, const struct forecast_series *s, int level,
                      float *out)
{
    struct hw_state h;
    const double p[3] = {hw->level, hw->trend, hw->season};
    hw_start(s, &h);
    for (int64_t i = 0; i < s->n; i++) {
        hw_step(&h, p, i, s->y[i]);
        out[i] = (float)fmax(hw_ahead(&h, i, level), 0);
    }
}

enum err_code baseline_run(enum baseline b, const struct forecast_series *s, int64_t n_fit,
                           int level, float *out, struct err *e)
{
    struct holt_winters hw;
    enum err_code rc;
    switch (b) {
    case BASELINE_PERSISTENCE:
        run_persistence(s, out);
        return ERR_OK;
    case BASELINE_SEASONAL_DAY:
        run_seasonal(s, level, DAY, out);
        return ERR_OK;
    case BASELINE_SEASONAL_WEEK:
        run_seasonal(s, level, WEEK, out);
        return ERR_OK;
    case BASELINE_SLOT_MEDIAN:
        run_slot_median(s, level, out);
        return ERR_OK;
    case BASELINE_HOLT_WINTERS:
        rc = holt_winters_fit(s, n_fit, level, &hw, e);
        if (rc == ERR_OK)
            holt_winters_run(&hw, s, level, out);
        return rc;
    case BASELINE_COUNT:
        break;
    }
    return err_set(e, ERR_INVAL, "baseline %d", (int)b);
}
