#include "base/stats.h"

#include <math.h>
#include <stdlib.h>

#include "base/mem.h"

enum { SUM_LEAF = 64 };

double stats_sum(const double *x, size_t n)
{
    if (n > SUM_LEAF) {
        size_t half = n / 2;
        return stats_sum(x, half) + stats_sum(x + half, n - half);
    }
    double sum = 0;
    for (size_t i = 0; i < n; i++)
        sum += x[i];
    return sum;
}

double stats_mean(const double *x, size_t n)
{
    return n ? stats_sum(x, n) / (double)n : NAN;
}

double stats_var(const double *x, size_t n)
{
    if (n < 2)
        return NAN;
    double mean = stats_mean(x, n);
    struct stats_acc acc = {0};
    for (size_t i = 0; i < n; i++)
        stats_add(&acc, (x[i] - mean) * (x[i] - mean));
    return stats_acc_sum(&acc) / (double)(n - 1);
}

double stats_stddev(const double *x, size_t n)
{
    return sqrt(stats_var(x, n));
}

void stats_add(struct stats_acc *a, double v)
{
    double sum = a->sum + v;
    if (isfinite(sum)) /* inf - inf would turn an infinite sum into NaN */
        a->comp += fabs(a->sum) >= fabs(v) ? (a->sum - sum) + v : (v - sum) + a->sum;
    a->sum = sum;
    a->n++;
}

double stats_acc_sum(const struct stats_acc *a)
{
    return a->sum + a->comp;
}

double stats_acc_mean(const struct stats_acc *a)
{
    return a->n ? stats_acc_sum(a) / (double)a->n : NAN;
}

static int compare(const void *pa, const void *pb)
{
    double a = *(const double *)pa, b = *(const double *)pb;
    if (isnan(a) || isnan(b))
        return isnan(a) - isnan(b);
    return (a > b) - (a < b);
}

void stats_sort(double *x, size_t n)
{
    if (n)
        qsort(x, n, sizeof *x, compare);
}

static double interpolate(double lo, double hi, double frac)
{
    return frac == 0 || lo == hi ? lo : lo + frac * (hi - lo);
}

double stats_quantile_sorted(const double *x, size_t n, double q)
{
    ASSERT(q >= 0 && q <= 1);
    if (n == 0)
        return NAN;
    double h = (double)(n - 1) * q;
    size_t i = (size_t)h;
    return i + 1 < n ? interpolate(x[i], x[i + 1], h - (double)i) : x[n - 1];
}

static void swap(double *a, double *b)
{
    double t = *a;
    *a = *b;
    *b = t;
}

/* Hoare's quickselect with a median-of-three pivot: x[k] in its sorted place, smaller ones before it.  After
 * too many rounds (adversarial order) the rest is sorted, so the cost stays O(n log n). */
static void select_kth(double *x, size_t n, size_t k)
{
    ptrdiff_t lo = 0, hi = (ptrdiff_t)n - 1, want = (ptrdiff_t)k;
    for (int rounds = 0; lo < hi; rounds++) {
        if (rounds == 96) {
            stats_sort(x + lo, (size_t)(hi - lo + 1));
            return;
        }
        ptrdiff_t mid = lo + (hi - lo) / 2, i = lo, j = hi;
        if (x[mid] < x[lo])
            swap(&x[mid], &x[lo]);
        if (x[hi] < x[lo])
            swap(&x[hi], &x[lo]);
        if (x[hi] < x[mid])
            swap(&x[hi], &x[mid]);
        double pivot = x[mid];
        while (i <= j) {
            while (x[i] < pivot)
                i++;
            while (pivot < x[j])
                j--;
            if (i <= j)
                swap(&x[i++], &x[j--]);
        }
        if (want <= j)
            hi = j;
        else if (want >= i)
            lo = i;
        else
            return;
    }
}

double stats_quantile(double *x, size_t n, double q)
{
    ASSERT(q >= 0 && q <= 1);
    if (n == 0)
        return NAN;
    double h = (double)(n - 1) * q;
    size_t i = (size_t)h;
    select_kth(x, n, i);
    if (i + 1 >= n)
        return x[i];
    double next = x[i + 1];
    for (size_t k = i + 2; k < n; k++)
        next = x[k] < next ? x[k] : next;
    return interpolate(x[i], next, h - (double)i);
}

double stats_median(double *x, size_t n)
{
    return stats_quantile(x, n, 0.5);
}

size_t stats_drop_nan(double *x, size_t n)
{
    size_t kept = 0;
    for (size_t i = 0; i < n; i++) {
        if (!isnan(x[i]))
            x[kept++] = x[i];
    }
    return kept;
}

double stats_autocorr(const double *x, size_t n, size_t lag)
{
    struct stats_acc a = {0}, b = {0};
    for (size_t i = 0; i + lag < n; i++) {
        if (isnan(x[i]) || isnan(x[i + lag]))
            continue;
        stats_add(&a, x[i]);
        stats_add(&b, x[i + lag]);
    }
    if (lag >= n || a.n < 2)
        return NAN;
    double mean_a = stats_acc_mean(&a), mean_b = stats_acc_mean(&b);
    struct stats_acc ab = {0}, aa = {0}, bb = {0};
    for (size_t i = 0; i + lag < n; i++) {
        if (isnan(x[i]) || isnan(x[i + lag]))
            continue;
        double da = x[i] - mean_a, db = x[i + lag] - mean_b;
        stats_add(&ab, da * db);
        stats_add(&aa, da * da);
        stats_add(&bb, db * db);
    }
    double scale = sqrt(stats_acc_sum(&aa) * stats_acc_sum(&bb));
    return scale > 0 ? stats_acc_sum(&ab) / scale : NAN;
}

static double resampled_mean(const double *x, size_t n, size_t block, struct rng *rng)
{
    struct stats_acc acc = {0};
    while (acc.n < n) {
        size_t at = rng_below(rng, (uint32_t)n);
        for (size_t k = 0; k < block && acc.n < n; k++)
            stats_add(&acc, x[(at + k) % n]);
    }
    return stats_acc_mean(&acc);
}

enum err_code stats_bootstrap(const double *x, size_t n, size_t block, int rounds, double level,
                              struct rng *rng, struct stats_interval *out, struct err *e)
{
    if (n == 0 || n > UINT32_MAX || block == 0 || block > n || rounds < 1 || !(level > 0 && level < 1))
        return err_set(e, ERR_INVAL, "bootstrap of %zu values, block %zu, %d rounds, level %g", n, block,
                       rounds, level);
    double mean = stats_mean(x, n);
    if (!isfinite(mean))
        return err_set(e, ERR_NUMERIC, "bootstrap of a value that is not finite");
    double *means = try_zero((size_t)rounds, sizeof *means);
    if (!means)
        return err_set(e, ERR_NOMEM, "bootstrap of %d rounds", rounds);
    for (int i = 0; i < rounds; i++)
        means[i] = resampled_mean(x, n, block, rng);
    stats_sort(means, (size_t)rounds);
    *out = (struct stats_interval){
        .mean = mean,
        .lo = stats_quantile_sorted(means, (size_t)rounds, (1 - level) / 2),
        .hi = stats_quantile_sorted(means, (size_t)rounds, (1 + level) / 2),
    };
    mem_free(means);
    return ERR_OK;
}

enum err_code stats_bootstrap_paired(const double *a, const double *b, size_t n, size_t block, int rounds,
                                     double level, struct rng *rng, struct stats_interval *out,
                                     struct err *e)
{
    double *diff = try_zero(n, sizeof *diff);
    if (!diff)
        return err_set(e, ERR_NOMEM, "bootstrap of %zu pairs", n);
    for (size_t i = 0; i < n; i++)
        diff[i] = a[i] - b[i];
    enum err_code rc = stats_bootstrap(diff, n, block, rounds, level, rng, out, e);
    mem_free(diff);
    return rc;
}
