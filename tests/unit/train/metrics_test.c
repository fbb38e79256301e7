/* metrics_test.c - fronts by hand, and figures of runs made by hand. */
#include "base/mem.h"
#include "tests/support/test.h"
#include "train/metrics.h"

/* ---- fronts -----------------------------------------------------------------------------------
 */

TEST(a_front_is_read_between_its_points_in_the_logarithm_of_misses)
{
    const struct front_point p[] = {{0.01, 80}, {0.001, 100}}; /* in any order */
    const double a = log(0.001 + 1e-5), b = log(0.01 + 1e-5), m = log(0.003 + 1e-5);
    assert_near(front_cost_at(p, 2, 0.001), 100, 1e-9, 0);
    assert_near(front_cost_at(p, 2, 0.01), 80, 1e-9, 0);
    assert_near(front_cost_at(p, 2, 0.003), 100 - 20 * (m - a) / (b - a), 1e-9, 0);
    double half = exp((a + b) / 2) - 1e-5; /* the geometric middle costs the mean */
    assert_near(front_cost_at(p, 2, half), 90, 1e-9, 0);
}

TEST(a_front_is_never_extrapolated)
{
    const struct front_point p[] = {{0.001, 100}, {0.01, 80}};
    assert_near(front_cost_at(p, 2, 0), 100, 0, 0);
    assert_near(front_cost_at(p, 2, 0.0005), 100, 0, 0);
    assert_near(front_cost_at(p, 2, 0.5), 80, 0, 0);
    assert_near(front_cost_at(p, 1, 0.2), 100, 0, 0);
    assert_true(isnan(front_cost_at(p, 0, 0.01)));
}

TEST(points_that_another_beats_in_both_do_not_count)
{
    const struct front_point p[] = {{0.001, 100}, {0.005, 120}, {0.01, 80},
                                    {0.01, 85},   {0.02, 80},   {0.0, 130}};
    const struct front_point clean[] = {{0.0, 130}, {0.001, 100}, {0.01, 80}};
    for (double m = 0; m < 0.03; m += 0.0003)
        assert_near(front_cost_at(p, 6, m), front_cost_at(clean, 3, m), 1e-12, 0);
    struct front_point q[6];
    memcpy(q, p, sizeof q);
    assert_int_equal(front_pareto(q, 6), 3);
    for (int i = 0; i < 3; i++) {
        assert_near(q[i].misses, clean[i].misses, 0, 0);
        assert_near(q[i].cost, clean[i].cost, 0, 0);
    }
}

TEST(no_misses_at_all_is_a_point_like_any_other)
{
    const struct front_point p[] = {{0, 100}, {0.01, 80}};
    double at = front_cost_at(p, 2, 0.0001);
    assert_true(at < 100 && at > 80); /* log(0) is kept out */
    assert_near(at, 100 - 20 * (log(0.00011) - log(1e-5)) / (log(0.01001) - log(1e-5)), 1e-9, 0);
}

TEST(cost_falls_as_misses_rise_along_a_front)
{
    struct rng rng = rng_stream(test_seed(), "fronts");
    for (int k = 0; k < 200; k++) {
        struct front_point p[20];
        int n = 1 + (int)rng_below(&rng, 20);
        for (int i = 0; i < n; i++)
            p[i] = (struct front_point){0.05 * rng_unit(&rng), 50 + 50 * rng_unit(&rng)};
        double last = INFINITY;
        for (double m = 0; m < 0.06; m += 0.001) {
            double c = front_cost_at(p, n, m);
            assert_true(c <= last + 1e-9 && c >= 50);
            last = c;
        }
    }
}

/* ---- metrics ----------------------------------------------------------------------------------
 */

enum { DAYS = 6, SEEDS = 3 };

static struct run_day day_of(int32_t number, double cost, int64_t misses)
{
    return (struct run_day){.day = number,
                            .steps = 5760,
                            .misses = misses,
                            .cost_usd = cost,
                            .unit_h = cost / 2.5,
                            .arrivals = 1000,
                            .miss_requests = 10,
                            .p99_sum_ms = 5760 * 150.0,
                            .reward_sum = -5760 * 1.5,
                            .actions = 12,
                            .reversals = 2};
}

static void total(struct run_result *r)
{
    r->total = (struct run_day){0};
    for (int i = 0; i < r->n_days; i++)
        run_day_add(&r->total, &r->day[i]);
}

struct policy_runs {
    struct run_result r[SEEDS];
    const struct run_result *of[SEEDS];
    struct metric_runs runs;
};

/* Cost `base` a day, rising over days and seeds when `vary`. */
static struct policy_runs *runs_new(int n_seeds, int n_days, double base, int64_t misses,
                                    double vary)
{
    struct policy_runs *p = mem_zero(1, sizeof *p);
    for (int s = 0; s < n_seeds; s++) {
        p->r[s].n_days = n_days;
        for (int d = 0; d < n_days; d++)
            p->r[s].day[d] = day_of(d, base * (1 + vary * (d + 0.1 * s)), misses);
        total(&p->r[s]);
        p->of[s] = &p->r[s];
    }
    p->runs = (struct metric_runs){.seed = p->of, .n_seeds = n_seeds};
    return p;
}

static const struct eval_metric *metric(const struct eval_metric *m, size_t n, const char *name)
{
    for (size_t i = 0; i < n; i++)
        if (strcmp(m[i].name, name) == 0)
            return &m[i];
    fail_msg("no metric %s", name);
    return NULL;
}

TEST(figures_are_those_of_a_calculation_by_hand)
{
    static const struct {
        const char *name;
        double value;
    } want[] = {
        {"cost_usd", DAYS * 100},
        {"unit_hours", DAYS * 40},
        {"slo_violation_frac", 57.0 / 5760},
        {"slo_violation_request_frac", 0.01},
        {"p99_latency_ms", 150},
        {"scale_actions", DAYS * 12},
        {"reversals_per_day", 2},
        {"reward", -1.5},
        {"cost_at_equal_misses_frac", NAN},
        {"regret_frac", NAN},
    };
    struct eval_metric m[METRIC_COUNT_MAX];
    struct err e;
    size_t n;
    struct policy_runs *p = runs_new(SEEDS, DAYS, 100, 57, 0);
    assert_ok(metrics_compute(&(struct metric_input){.runs = p->runs, .seed = 1}, m, &n, &e), &e);
    assert_int_equal(n, ARRAY_LEN(want));
    for (size_t i = 0; i < n; i++) {
        const struct eval_metric *got = metric(m, n, want[i].name);
        assert_near(got->mean, want[i].value, 0, 1e-12);
        assert_near(got->lo, want[i].value, 0, 1e-12); /* all days alike: no spread */
        assert_near(got->hi, want[i].value, 0, 1e-12);
    }
    mem_free(p);
}

TEST(one_day_gives_an_interval_without_width)
{
    struct eval_metric m[METRIC_COUNT_MAX];
    struct err e;
    size_t n;
    struct policy_runs *p = runs_new(2, 1, 100, 57, 0.1);
    assert_ok(metrics_compute(&(struct metric_input){.runs = p->runs, .seed = 1}, m, &n, &e), &e);
    const struct eval_metric *cost = metric(m, n, "cost_usd");
    assert_near(cost->lo, cost->mean, 0, 1e-12);
    assert_near(cost->hi, cost->mean, 0, 1e-12);
    mem_free(p);
}

TEST(a_policy_against_itself_is_exactly_one_however_days_vary)
{
    struct eval_metric m[METRIC_COUNT_MAX];
    struct err e;
    size_t n;
    struct policy_runs *p = runs_new(SEEDS, DAYS, 100, 57, 0.3);
    struct metric_front front = {.setting = &p->runs, .n = 1};
    assert_ok(
        metrics_compute(
            &(struct metric_input){.runs = p->runs, .front = &front, .oracle = &p->runs, .seed = 1},
            m, &n, &e),
        &e);
    const struct eval_metric *own = metric(m, n, "cost_at_equal_misses_frac"),
                             *regret = metric(m, n, "regret_frac");
    assert_near(own->mean, 1, 1e-12, 0);
    assert_near(own->lo, 1, 1e-12, 0);
    assert_near(own->hi, 1, 1e-12, 0);
    assert_near(regret->lo, 0, 1e-12, 0);
    assert_near(regret->hi, 0, 1e-12, 0);
    const struct eval_metric *cost =
        metric(m, n, "cost_usd"); /* while the cost itself is uncertain */
    assert_true(cost->lo < cost->mean && cost->mean < cost->hi);
    mem_free(p);
}

/* Days differ threefold in cost, the ratio not at all: pairing takes the days out. */
TEST(a_ratio_that_holds_every_day_has_no_interval)
{
    struct eval_metric m[METRIC_COUNT_MAX];
    struct err e;
    size_t n;
    struct policy_runs *rule = runs_new(SEEDS, DAYS, 100, 57, 0.4),
                       *cheap = runs_new(SEEDS, DAYS, 90, 57, 0.4);
    struct metric_front front = {.setting = &rule->runs, .n = 1};
    assert_ok(metrics_compute(
                  &(struct metric_input){
                      .runs = cheap->runs, .front = &front, .oracle = &rule->runs, .seed = 1},
                  m, &n, &e),
              &e);
    const struct eval_metric *frac = metric(m, n, "cost_at_equal_misses_frac");
    assert_near(frac->mean, 0.9, 1e-12, 0);
    assert_near(frac->lo, 0.9, 1e-12, 0);
    assert_near(frac->hi, 0.9, 1e-12, 0);
    assert_near(metric(m, n, "regret_frac")->mean, -0.1, 1e-12, 0);
    mem_free(rule);
    mem_free(cheap);
}

TEST(cost_at_equal_misses_reads_the_front_at_the_policys_own_misses)
{
    struct eval_metric m[METRIC_COUNT_MAX];
    struct err e;
    size_t n;
    struct policy_runs *safe = runs_new(SEEDS, DAYS, 120, 6, 0),
                       *loose = runs_new(SEEDS, DAYS, 80, 58, 0),
                       *own = runs_new(SEEDS, DAYS, 90, 20, 0);
    struct metric_runs setting[] = {loose->runs, safe->runs};
    struct metric_front front = {.setting = setting, .n = 2};
    assert_ok(metrics_compute(&(struct metric_input){.runs = own->runs, .front = &front, .seed = 1},
                              m, &n, &e),
              &e);
    const struct front_point p[] = {{6 / 5760.0, 120}, {58 / 5760.0, 80}};
    assert_near(metric(m, n, "cost_at_equal_misses_frac")->mean,
                90 / front_cost_at(p, 2, 20 / 5760.0), 0, 1e-12);
    mem_free(safe);
    mem_free(loose);
    mem_free(own);
}

TEST(an_interval_covers_the_mean_and_is_the_same_for_the_same_seed)
{
    struct eval_metric a[METRIC_COUNT_MAX], b[METRIC_COUNT_MAX], c[METRIC_COUNT_MAX];
    struct err e;
    size_t n;
    struct policy_runs *p = runs_new(SEEDS, DAYS, 100, 57, 0.3);
    assert_ok(metrics_compute(&(struct metric_input){.runs = p->runs, .seed = 1}, a, &n, &e), &e);
    assert_ok(metrics_compute(&(struct metric_input){.runs = p->runs, .seed = 1}, b, &n, &e), &e);
    assert_ok(metrics_compute(&(struct metric_input){.runs = p->runs, .seed = 2}, c, &n, &e), &e);
    const struct eval_metric *x = metric(a, n, "cost_usd"), *y = metric(b, n, "cost_usd"),
                             *z = metric(c, n, "cost_usd");
    assert_true(x->lo < x->mean && x->mean < x->hi);
    assert_near(x->lo, y->lo, 0, 0);
    assert_near(x->hi, y->hi, 0, 0);
    assert_near(x->mean, z->mean, 0, 0);
    /* Six days of 100, 130 .. 250 $ (and seeds): the standard error of the sum is 6 x 51 / sqrt 6 =
     * 125. */
    assert_near((x->hi - x->lo) / 2, 1.96 * 125, 0, 0.15);
    mem_free(p);
}

TEST(days_without_a_counted_step_have_no_fraction)
{
    struct eval_metric m[METRIC_COUNT_MAX];
    struct err e;
    size_t n;
    struct policy_runs *p = runs_new(1, 1, 0, 0, 0);
    p->r[0].day[0] = (struct run_day){.day = 3};
    total(&p->r[0]);
    assert_ok(metrics_compute(&(struct metric_input){.runs = p->runs, .seed = 1}, m, &n, &e), &e);
    assert_true(isnan(metric(m, n, "slo_violation_frac")->mean));
    assert_true(isnan(metric(m, n, "slo_violation_frac")->lo));
    assert_near(metric(m, n, "cost_usd")->mean, 0, 0, 0);
    assert_near(run_miss_frac(&p->r[0].total), 0, 0, 0);
    mem_free(p);
}

TEST(a_front_or_oracle_of_other_days_is_refused)
{
    struct eval_metric m[METRIC_COUNT_MAX];
    struct err e;
    size_t n;
    struct policy_runs *own = runs_new(2, DAYS, 100, 57, 0), *good = runs_new(2, DAYS, 90, 57, 0),
                       *bad = runs_new(2, DAYS, 90, 57, 0);
    struct metric_runs setting[] = {good->runs, bad->runs};
    struct metric_front front = {.setting = setting, .n = 2};
    struct metric_input with_front = {.runs = own->runs, .front = &front, .seed = 1},
                        with_oracle = {.runs = own->runs, .oracle = &bad->runs, .seed = 1};
    assert_ok(metrics_compute(&with_front, m, &n, &e), &e);
    bad->r[1].n_days = DAYS - 2;
    assert_err(metrics_compute(&with_front, m, &n, &e), ERR_INVAL, &e,
               "front: runs to be paired cover 6 and 4 days");
    assert_err(metrics_compute(&with_oracle, m, &n, &e), ERR_INVAL, &e,
               "oracle: runs to be paired cover 6 and 4 days");
    bad->r[1].n_days = DAYS; /* as many, but others */
    bad->r[1].day[3].day = 77;
    assert_err(metrics_compute(&with_front, m, &n, &e), ERR_INVAL, &e,
               "front: runs to be paired differ in day 3: 3 and 77");
    assert_err(metrics_compute(&with_oracle, m, &n, &e), ERR_INVAL, &e,
               "oracle: runs to be paired differ in day 3: 3 and 77");
    mem_free(own);
    mem_free(good);
    mem_free(bad);
}

TEST(runs_that_do_not_pair_are_refused)
{
    struct eval_metric m[METRIC_COUNT_MAX];
    struct err e;
    size_t n;
    struct policy_runs *p = runs_new(2, DAYS, 100, 57, 0);
    p->r[1].n_days = DAYS - 1;
    assert_err(metrics_compute(&(struct metric_input){.runs = p->runs, .seed = 1}, m, &n, &e),
               ERR_INVAL, &e, "cover 6 and 5 days");
    p->r[0].n_days = p->r[1].n_days = 0;
    assert_err(metrics_compute(&(struct metric_input){.runs = p->runs, .seed = 1}, m, &n, &e),
               ERR_INVAL, &e, "no day");
    mem_free(p);
}
