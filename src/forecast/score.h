/* score.h - how good forecasts were: sums from which WAPE, pinball loss, interval score and
 * coverage follow.
 *
 *     WAPE             sum |y - mean| / sum |y|
 *     pinball          mean over the quantiles 2.5, 10, 90, 97.5 % of (p - [y < q]) (y - q)
 *     interval score   (hi - lo) + 2/alpha ((lo - y)+ + (y - hi)+), Gneiting & Raftery 2007, eq. 43
 *     coverage         share of y within [lo, hi]
 * A plain value; zero-initialise.  Loads without bounds (NaN lo80) only count towards WAPE. */
#ifndef FORECAST_SCORE_H
#define FORECAST_SCORE_H

#include <stdint.h>

struct forecast_score {
    int64_t n;        /* means scored */
    int64_t n_bounds; /* of them with bounds */
    double abs_err, abs_load;
    double err; /* signed: mean - load */
    double pinball;
    double interval80, interval95;
    int64_t in80, in95;
};

/* One mean and its bounds. */
struct forecast_bounds {
    float mean, lo80, hi80, lo95, hi95;
};

void forecast_score_add(struct forecast_score *s, const struct forecast_bounds *f, float load);
/* All NaN while nothing was scored. */
double forecast_wape(const struct forecast_score *s);
double forecast_bias(const struct forecast_score *s);    /* sum (mean - load) / sum |load| */
double forecast_pinball(const struct forecast_score *s); /* unit of the load */
double forecast_interval80(const struct forecast_score *s);
double forecast_interval95(const struct forecast_score *s);
double forecast_cover80(const struct forecast_score *s);
double forecast_cover95(const struct forecast_score *s);

#endif
