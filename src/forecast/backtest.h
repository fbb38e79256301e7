/* backtest.h - forecasts remade over a history as they would have been made, and scored beside the
 * baselines.
 *
 * Rolling origin: at every 5-minute point of the test part (the last third, at least a day, with at
 * least 8 days before it) a forecast is made from what was known then and scored when it comes
 * true.  Regression weights in use at an origin were fitted on data that ended at least 24 h
 * before; Holt-Winters is fitted once on the training part less its last 24 h.  "15 min" is the
 * mean of the 5-minute point that ends 15 min ahead; "30 min" the mean of the next 30 min.  All
 * methods are scored at the same origins.  Intervals of coverage resample whole days. */
#ifndef FORECAST_BACKTEST_H
#define FORECAST_BACKTEST_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "base/stats.h"
#include "forecast/baseline.h"
#include "forecast/forecaster.h"
#include "forecast/series.h"

struct backtest_config {
    struct forecast_config forecaster;
    double test_frac; /* 0.05..0.9 of the points (default 1/3) */
    int rounds;       /* bootstrap rounds (default 1000) */
    uint64_t seed;
};
struct backtest_config backtest_config_default(void);

enum { BACKTEST_15MIN, BACKTEST_30MIN, BACKTEST_HORIZONS };
const char *backtest_horizon_name(int horizon); /* "15min", "30min" */

struct backtest_horizon {
    struct forecast_score own;
    struct forecast_score slot;                     /* same-slot median and quantiles */
    struct forecast_score baseline[BASELINE_COUNT]; /* means only */
    struct stats_interval cover80, cover95;         /* of own, 95 % block bootstrap over days */
    enum baseline best;                             /* lowest WAPE among all but the slot median */
    double gain_frac;                               /* 1 - own WAPE / best WAPE */
    struct holt_winters hw;
};

struct backtest_result {
    int64_t n_points, n_missing;
    int64_t test_start_us, test_end_us;
    int64_t n_origins;
    struct backtest_horizon at[BACKTEST_HORIZONS];
    double usable_frac;  /* origins whose forecast was usable */
    bool error_above_20; /* own WAPE at 15 min is over 20 % */
    bool helps;          /* own WAPE at 15 min is at least 2 % below persistence */
    bool beats_best;     /* and below every baseline */
};

/* Errors: ERR_RANGE for less than 9 days (names what is there), ERR_NOMEM, those of the parts. */
NODISCARD enum err_code backtest_run(const struct backtest_config *cfg,
                                     const struct forecast_series *s, const struct calendar *cal,
                                     struct backtest_result *out, struct err *e);
/* What the result means, in a sentence or two: "Forecasting helps here: ..."; returns the length.
 */
int backtest_verdict(const struct backtest_result *r, char *out, size_t size);

#endif
