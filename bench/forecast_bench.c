/* Speed of the forecaster: points pushed (each with its forecast read) per second, daily refits
 * included. */
#include "bench/bench.h"

#include <math.h>
#include <stdlib.h>

#include "base/rng.h"
#include "forecast/forecaster.h"

enum { DAYS = 60, POINTS = DAYS * FORECAST_POINTS_PER_DAY };

struct job {
    float y[POINTS];
    double mean; /* of all forecasts; keeps the work from being optimised away */
};

static void fill(struct job *j)
{
    struct rng rng = rng_stream(1, "bench");
    for (int i = 0; i < POINTS; i++) {
        double day = 2 * M_PI * i / FORECAST_POINTS_PER_DAY;
        double shape = 100 + 60 * sin(day) + 15 * sin(3 * day);
        j->y[i] = (float)fmax(shape * (1 + 0.1 * rng_normal(&rng)), 0);
    }
}

static double push_all(void *arg)
{
    struct job *j = arg;
    struct forecast_config cfg = forecast_config_default();
    struct forecaster *f = forecast_new(&cfg);
    struct calendar utc = {0};
    double sum = 0, start = bench_now_s();
    for (int i = 0; i < POINTS; i++) {
        struct forecast now;
        int64_t t = i * FORECAST_POINT_US;
        struct calendar_point at = calendar_at(&utc, t);
        if (forecast_push(f, t, j->y[i], &at, NULL) != ERR_OK)
            abort();
        forecast_get(f, &now);
        sum += (double)now.mean[2];
    }
    double took = bench_now_s() - start;
    j->mean = sum / POINTS;
    forecast_free(f);
    return POINTS / took;
}

int main(void)
{
    struct job *j = calloc(1, sizeof *j);
    if (!j)
        return 1;
    fill(j);
    bench_report("forecast_points_per_s", "1/s", 15, push_all, j);
    int bad = !(j->mean > 0);
    free(j);
    return bad;
}
