/* tune_test.c - fronts with a known optimum, the same for any number of threads, on training days
 * only. */
#include <signal.h>

#include "base/signal.h"
#include "tests/unit/train/learn_fixture.h"

enum { HOUR = 240, N = 6 * HOUR };

struct tune_fixture {
    struct scenario sc;
    struct world *w;
    struct chance *chance[2];
    struct tune_opts o;
    struct tune_front front;
};

/* Half of each hour at a load for 4 units, the other half at one for 8; nothing by chance. */
static struct tune_fixture *two_levels(const char *policy)
{
    struct tune_fixture *f = mem_zero(1, sizeof *f);
    struct err e;
    float demand[N];
    struct latency_model m;
    calm_scenario(&f->sc, 120);
    f->sc.train_frac = 0.9;
    assert_ok(latency_from_erlang(25, 2, 16, 200, &m, &e), &e);
    for (int i = 0; i < N; i++)
        demand[i] = 0.5f * (i / (HOUR / 2) % 2 == 0 ? m.load_max[3] + m.load_max[4]
                                                    : m.load_max[7] + m.load_max[8]);
    latency_fini(&m);
    f->w = world_of(&f->sc, demand, NULL, N);
    f->chance[0] = chance_of(f->w, 1);
    f->o = tune_opts_default(f->w, policy_find(policy));
    f->o.from = HOUR;
    f->o.to = 5 * HOUR;
    return f;
}

static struct tune_fixture *wave(const char *policy)
{
    struct tune_fixture *f = mem_zero(1, sizeof *f);
    f->w = learn_world(&f->sc); /* steps of a minute */
    f->chance[0] = chance_of(f->w, 1);
    f->chance[1] = chance_of(f->w, 2);
    f->o = tune_opts_default(f->w, policy_find(policy));
    f->o.evals = 12;
    f->o.from = f->w->train_end - LEARN_DAY;
    return f;
}

static void fixture_free(struct tune_fixture *f)
{
    chance_free(f->chance[0]);
    chance_free(f->chance[1]);
    world_free(f->w);
    scenario_fini(&f->sc);
    mem_free(f);
}

static void tune(struct tune_fixture *f, struct thread_pool *pool)
{
    struct err e;
    assert_ok(tune_front(f->w, f->chance, f->chance[1] ? 2 : 1, &f->o, pool, &f->front, &e), &e);
}

/* Misses and cost of every constant size, by running each. */
static int every_size(struct tune_fixture *f, struct tune_point p[16])
{
    struct err e;
    struct run_result *r = mem_zero(1, sizeof *r);
    int n = 0;
    for (int units = 1; units <= 16; units++) {
        struct capacity_config cfg;
        struct policy_use use = f->o.start;
        use.opt.fixed.units = units;
        assert_ok(world_config(f->w, &use, false, &cfg, &e), &e);
        struct run_opts o = run_opts_default(f->w);
        o.from = f->o.from;
        o.to = f->o.to;
        assert_ok(run_policy(f->w, f->chance[0], &cfg, &o, r, &e), &e);
        struct tune_point x = {
            .opt = use.opt, .misses = run_miss_frac(&r->total), .cost_usd_h = 2.5 * units};
        if (n == 0 || x.misses < p[n - 1].misses) /* else dearer and no safer: beaten */
            p[n++] = x;
    }
    mem_free(r);
    return n;
}

TEST(the_front_of_a_constant_size_is_that_of_trying_every_size)
{
    struct tune_fixture *f = two_levels("static");
    struct tune_point all[16];
    int n = every_size(f, all);
    tune(f, NULL);
    assert_int_equal(f->front.n, n);
    for (int i = 0; i < n; i++) {
        const struct tune_point *want = &all[n - 1 - i], *got = &f->front.point[i];
        assert_near(got->misses, want->misses, 1e-12, 0);
        assert_near(got->cost_usd_h, want->cost_usd_h, 0, 1e-6);
        assert_int_equal(got->opt.fixed.units, want->opt.fixed.units);
    }
    assert_near(f->front.point[0].misses, 0, 0, 0); /* eight serve everything */
    assert_int_equal(f->front.point[0].opt.fixed.units, 8);
    assert_true(f->front.runs > TUNE_PRICES);
    assert_string_equal(f->front.policy->name, "static");
    fixture_free(f);
}

TEST(a_pick_is_the_cheapest_within_the_misses_or_the_safest)
{
    struct tune_front f = {.n = 3,
                           .point = {{.misses = 0.001, .cost_usd_h = 9},
                                     {.misses = 0.01, .cost_usd_h = 8},
                                     {.misses = 0.1, .cost_usd_h = 7}}};
    assert_ptr_equal(tune_pick(&f, 0.01), &f.point[1]);
    assert_ptr_equal(tune_pick(&f, 0.05), &f.point[1]);
    assert_ptr_equal(tune_pick(&f, 1), &f.point[2]);
    assert_ptr_equal(tune_pick(&f, 0.0001), &f.point[0]); /* none that safe: the safest */
    f.n = 0;
    assert_null(tune_pick(&f, 0.5));
}

TEST(a_target_finds_the_cheapest_setting_within_it)
{
    struct tune_fixture *f = two_levels("static");
    f->o.target = 0.01;
    tune(f, NULL);
    const struct tune_point *p = tune_pick(&f->front, 0.01);
    assert_int_equal(p->opt.fixed.units, 8);
    f->o.target = 0.6;
    tune(f, NULL);
    struct tune_point all[16];
    int n = every_size(f, all), best = 0;
    while (best < n - 1 && all[best].misses > 0.6)
        best++;
    assert_int_equal(tune_pick(&f->front, 0.6)->opt.fixed.units, all[best].opt.fixed.units);
    fixture_free(f);
}

TEST(a_front_ascends_in_misses_and_falls_in_cost)
{
    static const char *const policies[] = {"hpa", "predictive", "mpc", "threshold", "queue"};
    for (size_t k = 0; k < ARRAY_LEN(policies); k++) {
        struct tune_fixture *f = wave(policies[k]);
        tune(f, NULL);
        assert_in_range(f->front.n, 1, TUNE_POINTS_MAX);
        for (int i = 1; i < f->front.n; i++) {
            assert_true(f->front.point[i].misses > f->front.point[i - 1].misses);
            assert_true(f->front.point[i].cost_usd_h < f->front.point[i - 1].cost_usd_h);
        }
        fixture_free(f);
    }
}

TEST(a_setting_on_the_front_gives_its_figures_again)
{
    struct tune_fixture *f = wave("hpa");
    struct err e;
    tune(f, NULL);
    struct run_result *r = mem_zero(1, sizeof *r);
    struct capacity_config cfg;
    for (int i = 0; i < f->front.n; i++) {
        struct policy_use use = f->o.start;
        use.opt = f->front.point[i].opt;
        assert_ok(world_config(f->w, &use, f->front.guarded, &cfg, &e), &e);
        struct run_opts o = run_opts_default(f->w);
        o.from = f->o.from;
        o.to = f->o.to;
        assert_ok(run_policy(f->w, f->chance[0], &cfg, &o, r, &e), &e);
        assert_near(run_miss_frac(&r->total), f->front.point[i].misses, 1e-12, 0);
        assert_near(r->total.cost_usd / ((double)r->total.steps / 60), f->front.point[i].cost_usd_h,
                    0, 1e-6);
    }
    mem_free(r);
    fixture_free(f);
}

TEST(the_front_is_the_same_for_one_thread_and_two)
{
    struct err e;
    struct thread_pool *pool;
    struct tune_fixture *a = wave("hpa"), *b = wave("hpa");
    assert_ok(thread_pool_new(2, &pool, &e), &e);
    a->o.n_seeds = b->o.n_seeds = 2;
    tune(a, NULL);
    tune(b, pool);
    assert_int_equal(a->front.n, b->front.n);
    assert_int_equal(a->front.runs, b->front.runs);
    for (int i = 0; i < a->front.n; i++) {
        assert_memory_equal(&a->front.point[i].misses, &b->front.point[i].misses, sizeof(double));
        assert_memory_equal(&a->front.point[i].cost_usd_h, &b->front.point[i].cost_usd_h,
                            sizeof(double));
        assert_memory_equal(&a->front.point[i].opt.hpa, &b->front.point[i].opt.hpa,
                            sizeof(struct hpa_options));
    }
    thread_pool_free(pool);
    fixture_free(a);
    fixture_free(b);
}

TEST(settings_that_turn_too_often_stay_out_of_the_front)
{
    struct tune_fixture *f = wave("hpa");
    tune(f, NULL);
    double most = 0;
    for (int i = 0; i < f->front.n; i++)
        most = fmax(most, f->front.point[i].reversals_per_day);
    assert_true(most > 10);
    f->o.reversals_max = 10;
    tune(f, NULL);
    assert_true(f->front.n > 0);
    for (int i = 0; i < f->front.n; i++)
        assert_true(f->front.point[i].reversals_per_day <= 10);
    fixture_free(f);
}

TEST(tuning_outside_the_training_part_is_refused)
{
    struct tune_fixture *f = wave("hpa");
    struct err e;
    const int32_t bad[][2] = {
        {0, f->w->train_end + 1}, {-1, 100}, {100, 100}, {f->w->train_end, f->w->n}};
    for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
        f->o.from = bad[i][0];
        f->o.to = bad[i][1];
        assert_err(tune_front(f->w, f->chance, 1, &f->o, NULL, &f->front, &e), ERR_INVAL, &e,
                   "training part");
    }
    f->o = tune_opts_default(f->w, policy_find("hpa"));
    assert_true(f->o.from >= 0 && f->o.to == f->w->train_end);
    assert_err(tune_front(f->w, f->chance, 0, &f->o, NULL, &f->front, &e), ERR_INVAL, &e,
               "0 seeds");
    fixture_free(f);
}

TEST(tuning_stops_when_asked_to)
{
    struct tune_fixture *f = wave("hpa");
    struct err e;
    signal_catch();
    assert_int_equal(raise(SIGINT), 0);
    assert_err(tune_front(f->w, f->chance, 1, &f->o, NULL, &f->front, &e), ERR_INTERRUPTED, &e,
               "tuning hpa");
    signal_clear();
    tune(f, NULL);
    fixture_free(f);
}
