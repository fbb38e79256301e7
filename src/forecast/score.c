#include "forecast/score.h"

#include <math.h>

static double pinball(double p, double quantile, double load)
{
    double over = load - quantile;
    return over >= 0 ? p * over : (p - 1) * over;
}

static double interval_score(double lo, double hi, double alpha, double load)
{
    return hi - lo + 2 / alpha * (fmax(lo - load, 0) + fmax(load - hi, 0));
}

void forecast_score_add(struct forecast_score *s, const struct forecast_bounds *f, float load_f)
{
    double load = (double)load_f, err = (double)f->mean - load;
    s->n++;
    s->err += err;
    s->abs_err += fabs(err);
    s->abs_load += fabs(load);
    if (isnan(f->lo80))
        return;
    double lo80 = (double)f->lo80, hi80 = (double)f->hi80, lo95 = (double)f->lo95,
           hi95 = (double)f->hi95;
    s->n_bounds++;
    s->pinball += 0.25 * (pinball(0.025, lo95, load) + pinball(0.1, lo80, load) +
                          pinball(0.9, hi80, load) + pinball(0.975, hi95, load));
    s->interval80 += interval_score(lo80, hi80, 0.2, load);
    s->interval95 += interval_score(lo95, hi95, 0.05, load);
    s->in80 += load >= lo80 && load <= hi80;
    s->in95 += load >= lo95 && load <= hi95;
}

static double ratio(double a, double b)
{
    return b > 0 ? a / b : NAN;
}

double forecast_wape(const struct forecast_score *s)
{
    return ratio(s->abs_err, s->abs_load);
}

double forecast_bias(const struct forecast_score *s)
{
    return ratio(s->err, s->abs_load);
}

double forecast_pinball(const struct forecast_score *s)
{
    return ratio(s->pinball, (double)s->n_bounds);
}

double forecast_interval80(const struct forecast_score *s)
{
    return ratio(s->interval80, (double)s->n_bounds);
}

double forecast_interval95(const struct forecast_score *s)
{
    return ratio(s->interval95, (double)s->n_bounds);
}

double forecast_cover80(const struct forecast_score *s)
{
    return ratio((double)s->in80, (double)s->n_bounds);
}

double forecast_cover95(const struct forecast_score *s)
{
    return ratio((double)s->in95, (double)s->n_bounds);
}
