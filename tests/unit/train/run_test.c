/* run_test.c - totals by hand, reversals, days, schedules. */
#include "tests/unit/train/world_fixture.h"

enum { N = 480 }; /* two hours */

struct run_fixture {
    struct scenario sc;
    struct world *w;
    struct chance *c;
    struct run_result *r;
    struct run_opts o;
    int16_t plan[N];
};

/* Two hours of `qps`, nothing by chance, starts of 2 min, every step counted. */
static struct run_fixture *fixture_new(float qps, const uint8_t *barred, int64_t start_us)
{
    struct run_fixture *f = mem_zero(1, sizeof *f);
    struct err e;
    float demand[N];
    for (int i = 0; i < N; i++)
        demand[i] = qps;
    calm_scenario(&f->sc, 120);
    assert_ok(world_from_demand(&f->sc, demand, barred, N, start_us, NULL, &f->w, &e), &e);
    f->c = chance_of(f->w, 1);
    f->r = mem_zero(1, sizeof *f->r);
    f->o = run_opts_default(f->w);
    f->o.from = f->o.warm_steps = 0;
    f->o.to = N;
    f->o.schedule = f->plan;
    return f;
}

static void fixture_free(struct run_fixture *f)
{
    mem_free(f->r);
    chance_free(f->c);
    world_free(f->w);
    scenario_fini(&f->sc);
    mem_free(f);
}

static void run_plan(struct run_fixture *f)
{
    struct err e;
    assert_ok(run_policy(f->w, f->c, NULL, &f->o, f->r, &e), &e);
}

TEST(totals_of_a_constant_size_are_those_of_a_calculation_by_hand)
{
    struct run_fixture *f = fixture_new(160, NULL, WORLD_MONDAY_US); /* two units' full use */
    for (int i = 0; i < N; i++)
        f->plan[i] = 4;
    run_plan(f);
    const struct run_day *t = &f->r->total;
    assert_int_equal(f->r->n_days, 1);
    assert_int_equal(f->r->day[0].day, WORLD_MONDAY_US / US_PER_DAY);
    assert_int_equal(t->steps, N);
    assert_int_equal(t->misses, 0);
    assert_near(t->unit_h, 4 * 2, 0, 1e-6);
    assert_near(t->cost_usd, 4 * 2 * 2.5, 0, 1e-6);
    assert_near(t->arrivals, 160.0 * 15 * N, 0, 1e-6);
    double p99 = (double)latency_at(f->w->latency.p99_ms, &f->w->latency, 4,
                                    160); /* half use, the whole way */
    assert_near(t->p99_sum_ms / N, p99, 0.01, 1e-3);
    assert_int_equal(t->actions, 1); /* the run starts at the size for 1.33 x the load */
    assert_int_equal(run_start_units(f->w, 0), 3);
    fixture_free(f);
}

TEST(no_units_under_load_miss_every_step_and_every_request)
{
    struct run_fixture *f = fixture_new(160, NULL, WORLD_MONDAY_US);
    run_plan(f); /* a plan of zeros */
    assert_int_equal(f->r->total.misses, N);
    assert_near(f->r->total.miss_requests, f->r->total.arrivals, 0, 1e-6);
    assert_near(f->r->total.cost_usd, 0, 0, 0);
    assert_near(run_miss_frac(&f->r->total), 1, 0, 0);
    fixture_free(f);
}

TEST(rewards_are_the_presets_of_what_was_executed)
{
    struct run_fixture *f = fixture_new(160, NULL, WORLD_MONDAY_US);
    for (int i = 0; i < N; i++)
        f->plan[i] = (int16_t)(i < 100 ? 3 : 5);
    f->o.weights =
        (struct reward_weights){.alpha = 5, .cap = 2, .beta = 1, .kappa = 0.25, .delta = 0.5};
    run_plan(f);
    double units = (100 * 3 + (N - 100) * 5) * f->w->sim.spec.price_usd_h / f->w->price_ref_usd_h;
    assert_int_equal(f->r->total.misses, 0);
    assert_near(f->r->total.reward_sum, -units + 0.25 * (N - 1) - 0.5 * 2, 1e-6, 1e-9);
    fixture_free(f);
}

/* Sizes that change at the given steps, in turn up and down by one from 5. */
static void plan_turns(struct run_fixture *f, const int *at, int n)
{
    int16_t size = 5;
    int next = 0;
    for (int i = 0; i < N; i++) {
        if (next < n && i == at[next]) {
            size = (int16_t)(next % 2 == 0 ? size + 1 : size - 1);
            next++;
        }
        f->plan[i] = size;
    }
}

TEST(opposite_actions_within_ten_minutes_are_reversals)
{
    static const struct {
        int at[4], n, reversals;
    } cases[] = {
        {{100, 140}, 2, 1},           /* just ten minutes apart */
        {{100, 141}, 2, 0},           /* a step later */
        {{100, 110, 120, 130}, 4, 3}, /* each turn counts */
        {{100, 110, 200, 300}, 4, 1}, {{100}, 1, 0},
    };
    for (size_t k = 0; k < ARRAY_LEN(cases); k++) {
        struct run_fixture *f = fixture_new(160, NULL, WORLD_MONDAY_US);
        plan_turns(f, cases[k].at, cases[k].n);
        f->o.from = 50; /* 3 -> 5 happens at the start, outside ten minutes of the rest */
        f->o.schedule = f->plan + 50;
        run_plan(f);
        if (f->r->total.reversals != cases[k].reversals)
            fail_msg("case %zu: %d reversals", k, (int)f->r->total.reversals);
        assert_int_equal(f->r->total.actions, cases[k].n + 1);
        assert_int_equal(f->r->total.units_changed, cases[k].n + 2);
        fixture_free(f);
    }
}

TEST(actions_the_same_way_are_no_reversals)
{
    struct run_fixture *f = fixture_new(160, NULL, WORLD_MONDAY_US);
    for (int i = 0; i < N; i++)
        f->plan[i] = (int16_t)(3 + i / 20 < 12 ? 3 + i / 20 : 12);
    run_plan(f);
    assert_int_equal(f->r->total.actions, 9);
    assert_int_equal(f->r->total.reversals, 0);
    fixture_free(f);
}

TEST(barred_steps_are_run_but_not_counted)
{
    uint8_t barred[N] = {0};
    for (int i = 100; i < 150; i++)
        barred[i] = 1;
    struct run_fixture *f = fixture_new(160, barred, WORLD_MONDAY_US);
    for (int i = 0; i < N; i++)
        f->plan[i] = (int16_t)(i >= 110 && i < 140 ? 0 : 4); /* an outage that nobody may see */
    run_plan(f);
    assert_int_equal(f->r->total.steps, N - 50);
    assert_near(f->r->total.unit_h, 4 * (N - 50) / 240.0, 0, 1e-6);
    assert_int_equal(f->r->total.actions, 1);
    /* 140 asks again: warm after eight steps, so nothing is missing at 150 but the queue's rest */
    assert_true(f->r->total.misses <= 8);
    fixture_free(f);
}

TEST(days_are_local_and_add_up_to_the_total)
{
    struct run_fixture *f =
        fixture_new(160, NULL, WORLD_MONDAY_US - 30 * US_PER_MIN); /* 23:30 on Sunday */
    for (int i = 0; i < N; i++)
        f->plan[i] = (int16_t)(i < 120 ? 4 : 6);
    run_plan(f);
    assert_int_equal(f->r->n_days, 2);
    assert_int_equal(f->r->day[0].steps, 120);
    assert_int_equal(f->r->day[1].steps, N - 120);
    assert_int_equal(f->r->day[1].day, f->r->day[0].day + 1);
    assert_near(f->r->day[0].unit_h, 4 * 0.5, 0, 1e-6);
    assert_near(f->r->day[1].unit_h, 6 * 1.5, 0, 1e-6);
    assert_near(f->r->total.unit_h, 4 * 0.5 + 6 * 1.5, 0, 1e-6);
    fixture_free(f);
}

TEST(a_day_begins_at_midnight_of_the_zone)
{
    struct run_fixture *f = mem_zero(1, sizeof *f);
    struct err e;
    float demand[N];
    for (int i = 0; i < N; i++)
        demand[i] = 160;
    calm_scenario(&f->sc, 120);
    /* 22:30 UTC on Sunday is half an hour before midnight in Paris. */
    assert_ok(world_from_demand(&f->sc, demand, NULL, N, WORLD_MONDAY_US - 90 * US_PER_MIN,
                                "Europe/Paris", &f->w, &e),
              &e);
    f->c = chance_of(f->w, 1);
    f->r = mem_zero(1, sizeof *f->r);
    f->o = run_opts_default(f->w);
    f->o.from = f->o.warm_steps = 0;
    f->o.schedule = f->plan;
    run_plan(f);
    assert_int_equal(f->r->n_days, 2);
    assert_int_equal(f->r->day[0].steps, 120);
    fixture_free(f);
}

/* ---- looks ------------------------------------------------------------------------------------
 */

struct seen {
    const struct run_fixture *f;
    int n, with_record;
    bool in_order;
    int32_t last;
    double cost;
};

static void look(void *ctx, const struct run_look *l)
{
    struct seen *s = ctx;
    s->in_order &= l->step == s->last + 1;
    s->last = l->step;
    s->n++;
    s->cost += (double)l->out->cost_usd;
    s->with_record += l->record != NULL;
    if (l->record) {
        assert_int_equal(l->record->now_us, l->view->now_us);
        assert_int_equal(l->record->executed, l->plan->units);
        assert_int_equal(l->record->units_before, l->view->units_requested);
    }
    assert_int_equal(l->view->now_us, WORLD_MONDAY_US + l->step * 15 * US_PER_S);
}

TEST(a_look_sees_every_counted_step_once_with_what_was_decided_on)
{
    struct run_fixture *f = fixture_new(160, NULL, WORLD_MONDAY_US);
    struct capacity_config cfg;
    struct err e;
    config_of(f->w, "mpc", true, &cfg);
    f->o.schedule = NULL;
    f->o.from = 200;
    f->o.warm_steps = 100;
    f->o.look = look;
    f->o.records = true;
    struct seen s = {.f = f, .in_order = true, .last = 199};
    f->o.ctx = &s;
    assert_ok(run_policy(f->w, f->c, &cfg, &f->o, f->r, &e), &e);
    assert_int_equal(s.n, N - 200);
    assert_int_equal(s.with_record, s.n);
    assert_true(s.in_order);
    assert_near(s.cost, f->r->total.cost_usd, 0, 1e-9);
    uint64_t hash = f->r->hash;
    f->o.look = NULL; /* looking changes nothing */
    f->o.records = false;
    assert_ok(run_policy(f->w, f->c, &cfg, &f->o, f->r, &e), &e);
    assert_true(f->r->hash == hash);
    fixture_free(f);
}

TEST(a_policy_warms_up_uncounted_before_the_stretch)
{
    struct run_fixture *f = fixture_new(160, NULL, WORLD_MONDAY_US);
    struct capacity_config cfg;
    struct err e;
    config_of(f->w, "hpa", false, &cfg);
    f->o.schedule = NULL;
    f->o.from = 240;
    f->o.warm_steps = 240;
    assert_ok(run_policy(f->w, f->c, &cfg, &f->o, f->r, &e), &e);
    assert_int_equal(f->r->total.steps, N - 240);
    assert_int_equal(f->r->total.actions, 0); /* steady long before */
    f->o.warm_steps = 10000;                  /* as far as the trace goes */
    assert_ok(run_policy(f->w, f->c, &cfg, &f->o, f->r, &e), &e);
    assert_int_equal(f->r->total.steps, N - 240);
    fixture_free(f);
}

TEST(the_hash_tells_sizes_apart)
{
    struct run_fixture *f = fixture_new(160, NULL, WORLD_MONDAY_US);
    for (int i = 0; i < N; i++)
        f->plan[i] = 4;
    run_plan(f);
    uint64_t four = f->r->hash;
    run_plan(f);
    assert_true(f->r->hash == four);
    f->plan[N - 1] = 5;
    run_plan(f);
    assert_true(f->r->hash != four);
    fixture_free(f);
}

TEST(stretches_outside_the_trace_are_refused)
{
    static const int32_t bad[][2] = {{-1, 10}, {0, N + 1}, {10, 10}, {20, 10}};
    struct run_fixture *f = fixture_new(160, NULL, WORLD_MONDAY_US);
    struct err e;
    for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
        f->o.from = bad[i][0];
        f->o.to = bad[i][1];
        assert_err(run_policy(f->w, f->c, NULL, &f->o, f->r, &e), ERR_RANGE, &e,
                   "outside the trace of 480");
    }
    fixture_free(f);
}
