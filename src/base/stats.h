/* stats.h - sums in a fixed order, quantiles, autocorrelation, bootstrap intervals.
 *
 * Sums are pairwise with a fixed split (error O(log n) ulp), so the same numbers give the same bits.
 * Quantiles are type 7 of Hyndman & Fan 1996 (R's and NumPy's default): h = (n - 1) q, linear in between.
 * Functions named stats_* over (x, n) need n > 0 unless said otherwise and propagate NaN; those that skip NaN say so. */
#ifndef BASE_STATS_H
#define BASE_STATS_H

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/rng.h"

double stats_sum(const double *x, size_t n);  /* pairwise; 0 when empty */
double stats_mean(const double *x, size_t n); /* NaN when empty */
double stats_var(const double *x, size_t n);  /* sample variance, two passes; NaN below two */
double stats_stddev(const double *x, size_t n);
/* Running sum with compensation (Neumaier 1974). */
struct stats_acc {
    double sum, comp;
    uint64_t n;
};
void stats_add(struct stats_acc *a, double v);
double stats_acc_sum(const struct stats_acc *a);
double stats_acc_mean(const struct stats_acc *a); /* NaN when empty */

void stats_sort(double *x, size_t n); /* ascending, NaN last */
/* q in [0, 1] of sorted data without NaN; NaN when empty. */
double stats_quantile_sorted(const double *x, size_t n, double q);
/* Reorders x (quickselect, O(n)).  NaN in x must have been removed. */
double stats_quantile(double *x, size_t n, double q);
double stats_median(double *x, size_t n); /* reorders x */
size_t stats_drop_nan(double *x, size_t n); /* keeps order, returns what is left */
/* Autocorrelation at `lag`: pairs with a NaN are left out; NaN when fewer than two pairs or constant. */
double stats_autocorr(const double *x, size_t n, size_t lag);

struct stats_interval {
    double mean, lo, hi;
};
/* Percentile bootstrap of the mean of n values in circular blocks of `block` (1: independent), Politis & Romano 1992.
 * level 0.95 gives the 2.5 and 97.5 % points.  n = 1 gives lo = hi = mean.  For a paired comparison pass the
 * differences; for clusters pass one value per cluster.  Errors: ERR_INVAL, ERR_NUMERIC for NaN, ERR_NOMEM. */
NODISCARD enum err_code stats_bootstrap(const double *x, size_t n, size_t block, int rounds, double level,
                                        struct rng *rng, struct stats_interval *out, struct err *e);
/* The same for the mean of a[i] - b[i]. */
NODISCARD enum err_code stats_bootstrap_paired(const double *a, const double *b, size_t n, size_t block,
                                               int rounds, double level, struct rng *rng,
                                               struct stats_interval *out, struct err *e);

#endif
