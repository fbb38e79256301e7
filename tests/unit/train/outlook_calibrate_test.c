/* outlook_calibrate_test.c - the calibrated plan keeps its misses, is no dearer than any setting of a coarse search
 * of its own grid, and does not depend on the threads. */
#include <math.h>

#include "tests/unit/train/learn_fixture.h"
#include "train/outlook_calibrate.h"

struct calibrated {
    struct scenario sc;
    struct world *w;
    struct chance *chance;
    struct outlook fitted, held_out;
    struct outlook_fit_report report;
    struct tune_opts o;
};

/* One fit for all tests of this file: it is not changed by calibrating it. */
static struct calibrated *fitted(void)
{
    static struct calibrated *c;
    struct err e;
    if (c) {
        c->o.reversals_max = (double)INFINITY;
        return c;
    }
    c = mem_zero(1, sizeof *c);
    struct outlook_fit_opts f = outlook_fit_opts_default();
    f.samples = 20000;
    c->w = learn_world(&c->sc);
    assert_ok(chance_new(c->w, 1, &c->chance, &e), &e);
    assert_ok(outlook_fit(c->w, &c->chance, 1, &f, NULL, &c->fitted, &c->held_out, &c->report, &e), &e);
    c->o = tune_opts_default(c->w, policy_find("outlook"));
    c->o.from = c->report.valid_from;
    c->o.to = c->w->train_end;
    c->o.guarded = true;
    c->o.outlook = &c->held_out;
    c->o.target = 0.02;
    c->o.start.opt.outlook.budget_gain = 0;
    return c;
}

/* Calibrated by one thread without a limit on reversals. */
static const struct tune_point *plain(struct calibrated *c)
{
    static struct tune_point best;
    static bool done;
    struct err e;
    if (!done)
        assert_ok(outlook_calibrate(c->w, &c->chance, 1, &c->o, NULL, &best, &e), &e);
    done = true;
    return &best;
}

TEST(a_calibrated_plan_keeps_the_misses_at_no_more_than_any_coarse_setting_costs)
{
    struct err e;
    struct calibrated *c = fitted();
    struct tune_point best = *plain(c), p;
    assert_true(best.misses <= c->o.target);
    assert_near(best.opt.outlook.budget_gain, 0, 0, 0);
    struct policy_use use = c->o.start;
    int tried = 0;
    for (double lambda = 10; lambda < 2000; lambda *= 4) {
        use.opt.outlook.lambda = lambda;
        use.opt.outlook.ahead = 1;
        use.opt.outlook.hold_us = 600000000;
        use.opt.outlook.hysteresis = 2;
        assert_ok(tune_measure(c->w, &c->chance, 1, &c->o, &use, &c->held_out, &p, &e), &e);
        if (p.misses > c->o.target)
            continue;
        tried++;
        assert_true(best.cost_usd_h <= p.cost_usd_h * 1.03); /* lambda is found to a factor of 1.08 */
    }
    assert_true(tried > 0);
}

TEST(a_limit_on_reversals_outranks_the_cost)
{
    struct err e;
    struct calibrated *c = fitted();
    struct tune_point free_point = *plain(c), calm;
    c->o.reversals_max = free_point.reversals_per_day > 0 ? free_point.reversals_per_day / 2 : 0;
    assert_ok(outlook_calibrate(c->w, &c->chance, 1, &c->o, NULL, &calm, &e), &e);
    assert_true(calm.reversals_per_day <= free_point.reversals_per_day);
    assert_true(calm.cost_usd_h >= free_point.cost_usd_h);
}

TEST(calibration_is_the_same_for_one_and_two_threads)
{
    struct err e;
    struct calibrated *c = fitted();
    struct thread_pool *pool;
    struct tune_point a = *plain(c), b;
    assert_ok(thread_pool_new(2, &pool, &e), &e);
    assert_ok(outlook_calibrate(c->w, &c->chance, 1, &c->o, pool, &b, &e), &e);
    assert_memory_equal(&a.opt.outlook, &b.opt.outlook, sizeof a.opt.outlook);
    assert_near(a.misses, b.misses, 0, 0);
    assert_near(a.cost_usd_h, b.cost_usd_h, 0, 0);
    thread_pool_free(pool);
}
