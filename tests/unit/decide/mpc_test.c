/* mpc_test.c - the planner: levels, forecasts, spread, scale-in and the levels an action can shift.
 */
#include "tests/unit/decide/decide_fixture.h"

/* An hour of steady load with relative noise `noise`, then the plan. */
static int plan_after(struct fix *f, float load, float noise, int steps)
{
    int units = f->view.units_requested;
    for (int i = 0; i < steps; i++) {
        float x = load * (1 + noise * (2 * (float)rng_unit(&f->rng) - 1));
        fix_load(f, x);
        fix_forecast(f, load, 1.1f * load, 1.2f * load);
        units = fix_decide(f);
        fix_units(f, units, 0);
        fix_tick(f);
    }
    return units;
}

TEST(mpc_covers_a_steady_load_with_little_to_spare)
{
    static struct fix f;
    fix_init(&f, "mpc", false);
    int units = plan_after(&f, 490, 0, 960);
    assert_in_range(units, 10, 11);
}

TEST(mpc_keeps_more_in_reserve_when_its_expectations_were_wrong)
{
    static struct fix f;
    fix_init(&f, "mpc", false);
    int calm = plan_after(&f, 1000, 0.05f, 960);
    fix_init(&f, "mpc", false);
    int nervous = plan_after(&f, 1000, 0.4f, 960);
    assert_true(nervous >= calm + 4);
}

TEST(mpc_pays_for_misses_by_lambda)
{
    static struct fix f;
    int last = 0;
    for (double lambda = 5; lambda < 5000; lambda *= 4) {
        fix_config(&f, "mpc", false);
        f.cfg.main.opt.mpc.lambda = lambda;
        fix_start(&f);
        int units = plan_after(&f, 1000, 0.3f, 960);
        assert_true(units >= last);
        last = units;
    }
    assert_true(last > 24);
}

TEST(mpc_follows_the_shape_of_the_forecast_as_far_as_it_trusts_it)
{
    static struct fix f;
    static const struct {
        double trust;
        int lo, hi;
    } cases[] = {{0, 10, 12}, {0.5, 16, 18}, {1, 20, 23}};
    for (size_t i = 0; i < 3; i++) {
        fix_config(&f, "mpc", false);
        f.cfg.main.opt.mpc.trust = cases[i].trust;
        fix_start(&f);
        (void)plan_after(&f, 500, 0, 400);
        fix_load(&f, 500);
        fix_forecast(&f, 500, 550, 600);
        f.view.forecast.mean[1] = f.view.forecast.mean[2] = 1500;
        f.view.forecast.made_us -= 150 * FIX_S; /* now: 500; one lead on: 1000 */
        assert_in_range(fix_decide(&f), cases[i].lo, cases[i].hi);
    }
}

TEST(mpc_rescales_an_old_forecast_by_the_newest_load)
{
    static struct fix f;
    fix_init(&f, "mpc", false);
    (void)plan_after(&f, 500, 0, 400);
    for (int i = 0; i < 40; i++) { /* twice the load; the forecast still says 500 */
        fix_load(&f, 1000);
        fix_units(&f, fix_decide(&f), 0);
        fix_tick(&f);
    }
    assert_true(f.view.units_requested >= 20);
}

TEST(mpc_learns_bursts_that_come_on_the_hour)
{
    static struct fix f;
    fix_config(&f, "mpc", false);
    f.cfg.main.opt.mpc.hour_trust = 1;
    f.cfg.main.opt.mpc.smooth_us = 30 * FIX_S;
    f.cfg.main.opt.mpc.hold_us = 60 * FIX_S;
    f.cfg.main.opt.mpc.horizon_us = 3 * FIX_MIN;
    fix_start(&f);
    f.view.forecast.usable = false;
    int before = 0, quiet = 0;
    for (int i = 0; i < 48 * 240; i++) {
        int minute = f.view.when.minute % 60;
        fix_load(&f, minute < 5 ? 1000 : 400);
        int units = fix_decide(&f);
        fix_units(&f, units, 0);
        if (i > 47 * 240 && minute == 59)
            before = units;
        if (i > 47 * 240 && minute == 30)
            quiet = units;
        fix_tick(&f);
    }
    assert_true(before >= 20); /* asked for before the hour */
    assert_in_range(quiet, 8, 12);
}

TEST(mpc_lets_units_go_only_after_its_hold)
{
    static struct fix f;
    fix_config(&f, "mpc", false);
    f.cfg.main.opt.mpc.hold_us = 10 * FIX_MIN;
    f.cfg.main.opt.mpc.smooth_us = FIX_S;
    f.cfg.main.opt.mpc.hour_trust = 0;
    fix_start(&f);
    int before = plan_after(&f, 500, 0, 200);
    fix_load(&f, 100);
    fix_forecast(&f, 100, 110, 120);
    for (int i = 0; i < 39; i++) {
        assert_int_equal(fix_decide(&f), before);
        fix_tick(&f);
    }
    fix_tick(&f);
    assert_true(fix_decide(&f) < before);
}

TEST(mpc_covers_failed_units)
{
    static struct fix f;
    fix_init(&f, "mpc", false);
    int before = plan_after(&f, 500, 0, 300);
    f.view.units_failed = 2;
    f.view.units_ready -= 2;
    assert_int_equal(fix_decide(&f), before + 2);
}

TEST(mpc_holds_without_a_load_and_goes_on_afterwards)
{
    static struct fix f;
    fix_init(&f, "mpc", true);
    int before = plan_after(&f, 500, 0, 300);
    fix_load(&f, NAN);
    for (int i = 0; i < 20; i++) {
        assert_int_equal(fix_decide(&f), before);
        fix_tick(&f);
    }
    fix_load(&f, 500);
    assert_int_equal(fix_decide(&f), before);
}

TEST(mpc_levels_shift_the_planned_demand)
{
    static struct fix f;
    int units[CAPACITY_ACTIONS];
    fix_init(&f, "mpc", false);
    int plan = plan_after(&f, 1000, 0.1f, 400);
    struct policy_input in = {&f.cfg, &f.cfg.main.opt, &f.view, &f.state, NULL, NULL, NULL};
    f.cfg.main.policy->levels(&in, &f.state.memory, 0.1, units);
    assert_int_equal(units[CAPACITY_ACTION_HOLD], plan);
    for (int a = 1; a < CAPACITY_ACTIONS; a++)
        assert_true(units[a] > units[a - 1]);
    assert_int_equal(units[6], (int)ceil(1.3 * plan - 1e-3));
}

/* A burst to 40 units on the hour, from 8; at 8 units per 5 min it takes 20 min to get there. */
TEST(mpc_begins_a_ramp_in_time_for_the_rate_cap)
{
    static struct fix f;
    int most = 0, early = 0;
    fix_config(&f, "mpc", true);
    f.cfg.main.opt.mpc.hour_trust = 1;
    f.cfg.main.opt.mpc.smooth_us = 30 * FIX_S;
    f.cfg.main.opt.mpc.lambda = 20;
    f.cfg.main.opt.mpc.keep = 1;
    f.cfg.guard.auditor = GUARD_AUDITOR_OFF;
    f.cfg.guard.flap_budget_units = 1000;
    f.cfg.guard.staged_frac = 0; /* back at once, so that the ramp alone is seen */
    f.cfg.guard.watch_us = f.cfg.guard.cooldown_in_us = 0;
    fix_start(&f);
    f.view.forecast.usable = false;
    for (int i = 0; i < 30 * 240; i++) {
        int minute = f.view.when.minute % 60;
        fix_load(&f, minute < 3 ? 1800 : 350);
        f.view.value[FIELD_GPU_UTIL] = 0.5f;
        fix_units(&f, fix_decide(&f), 0);
        if (i > 29 * 240 && minute == 59)
            most = f.view.units_requested;
        if (i > 29 * 240 && minute == 33)
            early = f.view.units_requested;
        fix_tick(&f);
    }
    assert_true(most >= 32);
    assert_in_range(early, 8, 10); /* and not sooner than it must */
}
