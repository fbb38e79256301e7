/* outlook_fit_test.c - the fitted distribution knows a burst that comes every hour, and is the same
 * every time. */
#include <signal.h>

#include "base/signal.h"
#include "nn/net.h"
#include "tests/unit/train/world_fixture.h"
#include "train/outlook_fit.h"

enum { DAYS = 4, HOUR = 240, BURST_FROM = 80, BURST_TO = 100 }; /* minutes 20 to 25 of every hour */

struct fit_fixture {
    struct scenario sc;
    struct world *w;
    struct chance *chance[2];
    struct outlook_fit_opts o;
    struct outlook out, held_out;
    struct outlook_fit_report report;
};

/* An even load that triples for five minutes of every hour. */
static struct fit_fixture *fixture_new(int days)
{
    struct fit_fixture *f = mem_zero(1, sizeof *f);
    struct err e;
    int n = days * WORLD_DAY;
    float *demand = mem_zero((size_t)n, sizeof *demand);
    small_scenario(&f->sc);
    f->sc.train_frac = 0.8; /* three days of four */
    for (int i = 0; i < n; i++)
        demand[i] = i % HOUR >= BURST_FROM && i % HOUR < BURST_TO ? 600 : 200;
    f->w = world_of(&f->sc, demand, NULL, n);
    mem_free(demand);
    assert_ok(chance_new_many(f->w, 1, 2, NULL, f->chance, &e), &e);
    f->o = outlook_fit_opts_default();
    f->o.samples = 80000;
    f->o.batch = 256;
    return f;
}

static void fixture_free(struct fit_fixture *f)
{
    outlook_fini(&f->out);
    outlook_fini(&f->held_out);
    chance_free(f->chance[0]);
    chance_free(f->chance[1]);
    world_free(f->w);
    scenario_fini(&f->sc);
    mem_free(f);
}

static enum err_code fit(struct fit_fixture *f, struct thread_pool *pool, struct err *e)
{
    outlook_fini(&f->out);
    outlook_fini(&f->held_out);
    return outlook_fit(f->w, f->chance, 2, &f->o, pool, &f->out, &f->held_out, &f->report, e);
}

/* P(demand of window w exceeds twice the level), step by step through the last day. */
static float *tails_of(const struct fit_fixture *f, int w)
{
    float *p = mem_zero((size_t)f->w->n, sizeof *p);
    struct capsim *lane = try_zero_aligned(1, sizeof *lane);
    struct capacity_view view;
    struct outlook_state s;
    int from = (DAYS - 1) * WORLD_DAY - HOUR, bin = outlook_bin(2, 1);
    outlook_state_init(&s);
    run_view_init(&view, f->w, 1, 1);
    capsim_reset(lane, &f->w->sim, &f->w->trace, f->chance[0]->seed, from, 16, &view);
    for (int i = from; i < f->w->n; i++) {
        struct capsim_out out;
        float x[OUTLOOK_FEATURES], logits[OUTLOOK_OUTPUTS], tail[OUTLOOK_WINDOWS][OUTLOOK_BINS];
        view.forecast = *chance_forecast(f->chance[0], f->w, i);
        outlook_observe(&s, &f->w->sim.spec, &view);
        outlook_features(&s, &f->w->sim.spec, &view, x);
        outlook_logits(&f->out, x, 1, logits);
        outlook_tails(logits, tail);
        p[i] = tail[w][bin - 1];
        capsim_step(lane, &f->w->sim, &f->w->trace, 16, &view, &out);
    }
    mem_free(lane);
    return p;
}

/* Mean over the hours of the last day, `step` steps into each. */
static double at_step(const float *p, int step)
{
    double sum = 0;
    for (int h = 0; h < 24; h++)
        sum += (double)p[(DAYS - 1) * WORLD_DAY + h * HOUR + step];
    return sum / 24;
}

TEST(an_outlook_learns_the_burst_of_every_hour_before_it_comes)
{
    struct err e;
    struct fit_fixture *f = fixture_new(DAYS);
    assert_ok(fit(f, NULL, &e), &e);
    float *near = tails_of(f, 0), *later = tails_of(f, 2);
    /* Window 0 spans 3.5 min: half a minute before the burst it is nearly all burst. */
    assert_true(at_step(near, BURST_FROM - 2) > 0.25);
    assert_true(at_step(near, BURST_FROM - 30) < 0.1);
    assert_true(at_step(near, BURST_TO + 60) < 0.05);
    /* Window 2 lies 8.5 to 13.5 min ahead: it sees the burst ten minutes before it. */
    assert_true(at_step(later, BURST_FROM - 34) > 0.5);
    assert_true(at_step(later, BURST_FROM - 2) < 0.1);
    assert_true(at_step(later, BURST_TO + 60) < 0.05);
    assert_true(f->report.valid_nats < 0.8 * f->report.uniform_nats);
    assert_near(f->report.uniform_nats, log(OUTLOOK_BINS), 1e-12, 0);
    assert_true(f->report.samples > 0 && f->report.samples <= f->o.samples);
    assert_true(f->report.valid_from > 0 && f->report.valid_from < f->w->train_end);
    mem_free(near);
    mem_free(later);
    fixture_free(f);
}

static void assert_same_params(const struct outlook *a, const struct outlook *b)
{
    const struct nn_params *p = nn_net_params_const(a->net), *q = nn_net_params_const(b->net);
    assert_int_equal(p->total, q->total);
    assert_memory_equal(p->value, q->value, p->total * sizeof(float));
}

TEST(the_fit_is_the_same_for_one_thread_and_two_and_differs_by_seed)
{
    struct err e;
    struct thread_pool *pool;
    struct fit_fixture *a = fixture_new(DAYS), *b = fixture_new(DAYS);
    assert_ok(thread_pool_new(2, &pool, &e), &e);
    a->o.samples = b->o.samples = 8000;
    assert_ok(fit(a, NULL, &e), &e);
    assert_ok(fit(b, pool, &e), &e);
    assert_same_params(&a->out, &b->out);
    assert_same_params(&a->held_out, &b->held_out);
    b->o.seed = 2;
    assert_ok(fit(b, pool, &e), &e);
    const struct nn_params *p = nn_net_params_const(a->out.net),
                           *q = nn_net_params_const(b->out.net);
    assert_true(memcmp(p->value, q->value, p->total * sizeof(float)) != 0);
    thread_pool_free(pool);
    fixture_free(a);
    fixture_free(b);
}

/* What lies in the evaluation part changes nothing. */
TEST(the_fit_sees_the_training_part_only)
{
    struct err e;
    struct fit_fixture *a = fixture_new(DAYS), *b = fixture_new(DAYS);
    float *demand = mem_zero((size_t)b->w->n, sizeof *demand);
    for (int32_t i = 0; i < b->w->n; i++)
        demand[i] = b->w->demand[i] * (i < b->w->train_end ? 1 : 3);
    world_free(b->w);
    b->w = world_of(&b->sc, demand, NULL, a->w->n);
    for (int i = 0; i < 2; i++) {
        chance_free(b->chance[i]);
        b->chance[i] = chance_of(b->w, 1 + (uint64_t)i);
    }
    a->o.samples = b->o.samples = 4000;
    assert_ok(fit(a, NULL, &e), &e);
    assert_ok(fit(b, NULL, &e), &e);
    assert_same_params(&a->out, &b->out);
    assert_same_params(&a->held_out, &b->held_out);
    mem_free(demand);
    fixture_free(a);
    fixture_free(b);
}

TEST(less_than_two_training_days_are_refused)
{
    struct err e;
    struct fit_fixture *f = fixture_new(2);
    assert_err(fit(f, NULL, &e), ERR_RANGE, &e, "at least 2");
    assert_null(f->out.net);
    assert_null(f->held_out.net);
    fixture_free(f);
}

TEST(bad_fitting_options_are_refused)
{
    struct err e;
    struct fit_fixture *f = fixture_new(DAYS);
    f->o.batch = 0;
    assert_err(fit(f, NULL, &e), ERR_RANGE, &e, "batch 0");
    f->o = outlook_fit_opts_default();
    f->o.samples = 1;
    assert_err(fit(f, NULL, &e), ERR_RANGE, &e, "1 samples");
    f->o = outlook_fit_opts_default();
    assert_err(outlook_fit(f->w, f->chance, 0, &f->o, NULL, &f->out, &f->held_out, &f->report, &e),
               ERR_RANGE, &e, "0 seeds");
    fixture_free(f);
}

TEST(fitting_stops_when_asked_to)
{
    struct err e;
    struct fit_fixture *f = fixture_new(DAYS);
    f->o.samples = 4000;
    signal_catch();
    assert_int_equal(raise(SIGINT), 0);
    assert_err(fit(f, NULL, &e), ERR_INTERRUPTED, &e, "fitting the outlook");
    signal_clear();
    fixture_free(f);
}

/* A training part of which every step is barred has nothing to sample from. */
TEST(a_training_part_without_usable_steps_is_an_error_not_a_hang)
{
    struct err e;
    struct fit_fixture *f = fixture_new(DAYS);
    uint8_t *barred = mem_zero((size_t)f->w->n, 1);
    float *demand = mem_zero((size_t)f->w->n, sizeof *demand);
    memcpy(demand, f->w->demand, (size_t)f->w->n * sizeof *demand);
    memset(barred, 1, (size_t)f->w->train_end);
    struct world *w = world_of(&f->sc, demand, barred, f->w->n);
    world_free(f->w);
    f->w = w;
    f->o.samples = 4000;
    assert_err(fit(f, NULL, &e), ERR_RANGE, &e, "0 of");
    mem_free(barred);
    mem_free(demand);
    fixture_free(f);
}

/* The first window, 210 s, is shorter than one such step. */
TEST(steps_of_five_minutes_leave_no_window_empty)
{
    enum { STEPS_PER_DAY = 288, ALL = 5 * STEPS_PER_DAY };
    struct err e;
    struct fit_fixture *f = fixture_new(DAYS);
    float *demand = mem_zero(ALL, sizeof *demand);
    for (int i = 0; i < ALL; i++)
        demand[i] = i % 12 == 4 ? 600 : 200;
    f->sc.step_us = 300 * US_PER_S;
    chance_free(f->chance[0]);
    chance_free(f->chance[1]);
    world_free(f->w);
    f->w = world_of(&f->sc, demand, NULL, ALL);
    assert_ok(chance_new_many(f->w, 1, 2, NULL, f->chance, &e), &e);
    f->o.samples = 4000;
    assert_ok(fit(f, NULL, &e), &e);
    assert_true(isfinite(f->report.valid_nats));
    mem_free(demand);
    fixture_free(f);
}
