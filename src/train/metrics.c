#include "train/metrics.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/rng.h"
#include "base/stats.h"

enum { BOOTSTRAP_ROUNDS = 1000, FRONT_MAX = 256 };

static int by_misses_then_cost(const void *a, const void *b)
{
    const struct front_point *x = a, *y = b;
    if (x->misses != y->misses)
        return x->misses < y->misses ? -1 : 1;
    return (x->cost > y->cost) - (x->cost < y->cost);
}

int front_pareto(struct front_point *p, int n)
{
    int kept = 0;
    qsort(p, (size_t)n, sizeof *p, by_misses_then_cost);
    for (int i = 0; i < n; i++)
        if (kept == 0 || p[i].cost < p[kept - 1].cost)
            p[kept++] = p[i];
    return kept;
}

double front_cost_at(const struct front_point *points, int n, double misses)
{
    struct front_point p[FRONT_MAX];
    const double least = 1e-5; /* keeps log(0) out: less than one step in a week */
    if (n <= 0)
        return NAN;
    if (n > FRONT_MAX)
        n = FRONT_MAX;
    memcpy(p, points, (size_t)n * sizeof *p);
    n = front_pareto(p, n);
    if (misses <= p[0].misses)
        return p[0].cost;
    for (int i = 1; i < n; i++) {
        if (misses > p[i].misses)
            continue;
        double a = log(p[i - 1].misses + least), b = log(p[i].misses + least);
        double w = b > a ? (log(misses + least) - a) / (b - a) : 1;
        return p[i - 1].cost + w * (p[i].cost - p[i - 1].cost);
    }
    return p[n - 1].cost;
}

/* Sums of one policy over the days picked, all seeds. */
static struct run_day sum_days(const struct metric_runs *r, const int *pick, int n_picks)
{
    struct run_day t = {0};
    for (int s = 0; s < r->n_seeds; s++)
        for (int i = 0; i < n_picks; i++)
            run_day_add(&t, &r->seed[s]->day[pick[i]]);
    return t;
}

/* X(name): in the order printed */
#define METRIC_LIST(X)                                                                             \
    X(cost_usd) X(unit_hours) X(slo_violation_frac) X(slo_violation_request_frac)                  \
    X(cost_at_equal_misses_frac) X(p99_latency_ms) X(scale_actions) X(reversals_per_day) X(reward) \
    X(regret_frac)

enum metric {
#define X(name) M_##name,
    METRIC_LIST(X)
#undef X
        M_COUNT
};
static const char *const metric_names[M_COUNT] = {
#define X(name) #name,
    METRIC_LIST(X)
#undef X
};
_Static_assert((int)M_COUNT <= (int)METRIC_COUNT_MAX, "room in the result");

static double equal_misses_frac(const struct metric_input *in, const struct run_day *own, const int *pick,
                                int n_picks)
{
    struct front_point p[FRONT_MAX];
    if (!in->front || in->front->n == 0)
        return NAN;
    int n = in->front->n < FRONT_MAX ? in->front->n : FRONT_MAX;
    for (int i = 0; i < n; i++) {
        struct run_day t = sum_days(&in->front->setting[i], pick, n_picks);
        p[i] = (struct front_point){.misses = run_miss_frac(&t), .cost = t.cost_usd};
    }
    double cost = front_cost_at(p, n, run_miss_frac(own)) / in->front->setting[0].n_seeds;
    return own->cost_usd / in->runs.n_seeds / cost;
}

static void figures(const struct metric_input *in, const int *pick, int n_picks, double out[M_COUNT])
{
    struct run_day t = sum_days(&in->runs, pick, n_picks);
    double seeds = in->runs.n_seeds, steps = t.steps > 0 ? (double)t.steps : NAN;
    out[M_cost_usd] = t.cost_usd / seeds;
    out[M_unit_hours] = t.unit_h / seeds;
    out[M_slo_violation_frac] = (double)t.misses / steps;
    out[M_slo_violation_request_frac] = t.arrivals > 0 ? t.miss_requests / t.arrivals : 0;
    out[M_cost_at_equal_misses_frac] = equal_misses_frac(in, &t, pick, n_picks);
    out[M_p99_latency_ms] = t.p99_sum_ms / steps;
    out[M_scale_actions] = (double)t.actions / seeds;
    out[M_reversals_per_day] = (double)t.reversals / seeds / n_picks;
    out[M_reward] = t.reward_sum / steps;
    out[M_regret_frac] = NAN;
    if (in->oracle) {
        struct run_day best = sum_days(in->oracle, pick, n_picks);
        out[M_regret_frac] = t.cost_usd / seeds / (best.cost_usd / in->oracle->n_seeds) - 1;
    }
}

/* Figures take the same days by index from every run. */
static enum err_code check_paired(const struct run_result *first, const struct metric_runs *r,
                                  const char *what, struct err *e)
{
    for (int s = 0; s < r->n_seeds; s++) {
        const struct run_result *other = r->seed[s];
        if (other->n_days != first->n_days)
            return err_set(e, ERR_INVAL, "%s: runs to be paired cover %d and %d days", what,
                           first->n_days, other->n_days);
        for (int i = 0; i < first->n_days; i++)
            if (other->day[i].day != first->day[i].day)
                return err_set(e, ERR_INVAL, "%s: runs to be paired differ in day %d: %d and %d",
                               what, i, (int)first->day[i].day, (int)other->day[i].day);
    }
    return ERR_OK;
}

static enum err_code check_days(const struct metric_input *in, struct err *e)
{
    const struct run_result *first = in->runs.seed[0];
    enum err_code rc = check_paired(first, &in->runs, "seeds", e);
    for (int i = 0; in->front && i < in->front->n && !rc; i++)
        rc = check_paired(first, &in->front->setting[i], "front", e);
    if (!rc && in->oracle)
        rc = check_paired(first, in->oracle, "oracle", e);
    if (rc)
        return rc;
    return first->n_days > 0 ? ERR_OK : err_set(e, ERR_INVAL, "no day to evaluate");
}

enum err_code metrics_compute(const struct metric_input *in, struct eval_metric *metrics, size_t *n,
                              struct err *e)
{
    enum err_code rc = check_days(in, e);
    if (rc)
        return rc;
    int days = in->runs.seed[0]->n_days, pick[RUN_DAYS_MAX];
    double *sample = try_zero((size_t)BOOTSTRAP_ROUNDS * M_COUNT, sizeof *sample);
    if (!sample)
        return err_set(e, ERR_NOMEM, "bootstrap samples");
    double mean[M_COUNT], column[BOOTSTRAP_ROUNDS];
    for (int i = 0; i < days; i++)
        pick[i] = i;
    figures(in, pick, days, mean);
    struct rng rng = rng_stream(in->seed, "bootstrap");
    for (int r = 0; r < BOOTSTRAP_ROUNDS; r++) {
        for (int i = 0; i < days; i++)
            pick[i] = (int)rng_below(&rng, (uint32_t)days);
        figures(in, pick, days, sample + (size_t)r * M_COUNT);
    }
    for (int m = 0; m < M_COUNT; m++) {
        for (int r = 0; r < BOOTSTRAP_ROUNDS; r++)
            column[r] = sample[(size_t)r * M_COUNT + (size_t)m];
        size_t left = stats_drop_nan(column, BOOTSTRAP_ROUNDS);
        stats_sort(column, left);
        metrics[m] = (struct eval_metric){
            .name = metric_names[m],
            .mean = mean[m],
            .lo = left ? stats_quantile_sorted(column, left, 0.025) : NAN,
            .hi = left ? stats_quantile_sorted(column, left, 0.975) : NAN,
        };
    }
    mem_free(sample);
    *n = M_COUNT;
    return ERR_OK;
}
