/* What forecasting must reach on the 22 shared series; `run shared` prints the table. */
#include "forecast/backtest.h"
#include "tests/support/test.h"
#include "tests/unit/forecast/shared_series.h"

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double median(const double *v, int n)
{
    double s[SHARED_SERIES];
    memcpy(s, v, (size_t)n * sizeof *s);
    qsort(s, (size_t)n, sizeof *s, by_value);
    return n % 2 ? s[n / 2] : 0.5 * (s[n / 2 - 1] + s[n / 2]);
}

static void print_row(const char *name, const struct backtest_horizon *h)
{
    printf("%-24.24s %6.2f", name, 100 * forecast_wape(&h->own));
    for (int b = 0; b < BASELINE_COUNT; b++)
        printf(" %6.2f", 100 * forecast_wape(&h->baseline[b]));
    printf(" %6.1f  %5.1f %5.1f  %5.3f %5.3f  %5.3f\n", 100 * h->gain_frac,
           100 * forecast_cover80(&h->own), 100 * forecast_cover95(&h->own),
           forecast_interval80(&h->own) / forecast_interval80(&h->slot),
           forecast_interval95(&h->own) / forecast_interval95(&h->slot),
           forecast_pinball(&h->own) / forecast_pinball(&h->slot));
}

static void print_head(int horizon)
{
    printf("\n%s; WAPE %%, gain over the best baseline %%, coverage %%, interval scores and "
           "pinball over same-slot\n"
           "%-24s %6s",
           backtest_horizon_name(horizon), "", "own");
    for (int b = 0; b < BASELINE_COUNT; b++)
        printf(" %6.6s", baseline_name((enum baseline)b));
    printf(" %6s  %5s %5s  %5s %5s  %5s\n", "gain", "c80", "c95", "is80", "is95", "pin");
}

TEST(shared_series_are_forecast_better_than_the_best_baseline_with_honest_intervals)
{
    const char *dir = test_data_dir();
    static struct backtest_result r[SHARED_SERIES];
    struct backtest_config cfg = backtest_config_default();
    struct calendar utc = {0};
    struct err e = {0};
    double loss = 0;
    for (int k = 0; k < SHARED_SERIES; k++) {
        struct forecast_series s;
        shared_series_load(dir, k, &s);
        assert_ok(backtest_run(&cfg, &s, &utc, &r[k], &e), &e);
        forecast_series_free(&s);
    }
    for (int h = 0; h < BACKTEST_HORIZONS; h++) {
        double gain[SHARED_SERIES], own = 0, is80 = 0, is95 = 0;
        print_head(h);
        for (int k = 0; k < SHARED_SERIES; k++) {
            const struct backtest_horizon *at = &r[k].at[h];
            print_row(shared_series_name(k), at);
            gain[k] = at->gain_frac;
            own += log(100 * forecast_wape(&at->own)) / SHARED_SERIES;
            is80 += log(forecast_interval80(&at->own)) / SHARED_SERIES;
            is95 += log(forecast_interval95(&at->own)) / SHARED_SERIES;
            loss = fmin(loss, at->gain_frac);
        }
        printf("median gain %.2f %%; mean log WAPE %.4f, is80 %.4f, is95 %.4f\n",
               100 * median(gain, SHARED_SERIES), own, is80, is95);
        assert_true(median(gain, SHARED_SERIES) >= 0.05);
    }
    for (int k = 0; k < SHARED_SERIES; k++) {
        const struct backtest_horizon *at = &r[k].at[BACKTEST_15MIN];
        assert_true(at->gain_frac >= -0.02);
        assert_near(forecast_cover80(&at->own), 0.80, 0.02, 0);
        assert_near(forecast_cover95(&at->own), 0.95, 0.02, 0);
        assert_true(forecast_interval80(&at->own) < forecast_interval80(&at->slot));
        assert_true(forecast_interval95(&at->own) < forecast_interval95(&at->slot));
        assert_true(forecast_pinball(&at->own) < forecast_pinball(&at->slot));
    }
}
