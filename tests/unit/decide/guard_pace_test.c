/* guard_pace_test.c - the checks that set the pace: step, cooldown, staged scale-in, breaker; and the edge between what
 * passes and what is refused. */
#include "base/num.h"
#include "tests/unit/decide/guard_fixture.h"

/* ---- 7: step
 * ------------------------------------------------------------------------------------- */
static void forty(struct fix *f)
{
    fix_units(f, 40, 0);
}
/* Runs `n` steps with the size unchanged after adding `add` now. */
static void add_then_wait(struct fix *f, int add, int n)
{
    no_audit(f);
    f->cfg.guard.cooldown_out_us = 0;
    int units = fix_ask(f, 10 + add);
    fix_units(f, units, 0);
    for (int i = 0; i < n; i++) {
        fix_tick(f);
        if (i + 1 < n)
            fix_ask(f, units);
    }
}
static void starts_slowly(struct fix *f)
{
    struct err e;
    f->cfg.spec.start_us = 121 * FIX_S;
    assert_ok(capacity_config_finish(&f->cfg, &e), &e);
}
static void six_added(struct fix *f)
{
    add_then_wait(f, 6, 1);
}
static void six_added_285s_ago(struct fix *f)
{
    add_then_wait(f, 6, 19);
}
static void six_added_300s_ago(struct fix *f)
{
    add_then_wait(f, 6, 20);
}

TEST(scale_out_is_capped_at_eight_steps_or_a_quarter_in_five_minutes)
{
    static const struct guard_case cases[] = {
        {"eight", NULL, 18, 18, GUARD_STEP, GUARD_PASS, NULL},
        {"nine", NULL, 19, 18, GUARD_STEP, GUARD_CLAMP,
         "0 units were added within the window, 8 are"},
        {"a quarter of forty", forty, 50, 50, GUARD_STEP, GUARD_PASS, NULL},
        {"more than a quarter of forty", forty, 51, 50, GUARD_STEP, GUARD_CLAMP, NULL},
        {"what was added counts", six_added, 20, 18, GUARD_STEP, GUARD_CLAMP, "6 units were added"},
        {"for 285 s", six_added_285s_ago, 20, 18, GUARD_STEP, GUARD_CLAMP, NULL},
        {"not for 300 s", six_added_300s_ago, 24, 24, GUARD_STEP, GUARD_PASS, NULL},
        {"twice that when units start slowly", starts_slowly, 26, 26, GUARD_STEP, GUARD_PASS, NULL},
        {"and no more", starts_slowly, 27, 26, GUARD_STEP, GUARD_CLAMP, NULL},
        {"scale-in is not capped here", NULL, 7, 7, GUARD_STEP, GUARD_PASS, NULL},
    };
    RUN(cases, no_audit);
}

/* In the simulator decisions fall on borders of the window's buckets; live they fall a moment later, or anywhere. */
TEST(the_rate_cap_holds_over_any_five_minutes_whenever_decisions_fall)
{
    enum { DECISIONS = 4000 };
    static struct fix f;
    static struct {
        int64_t at_us;
        int added;
    } past[DECISIONS];
    struct rng r = rng_stream(test_seed(), "instants");
    int first = 0, sum = 0, most = 0;
    fix_init(&f, "ppo", true);
    no_audit(&f);
    f.cfg.guard.cooldown_out_us = 0;
    for (int i = 0; i < DECISIONS; i++) {
        f.view.now_us += 1 + (int64_t)rng_below(&r, (uint32_t)(i % 2 ? 30 * FIX_S : FIX_S / 10));
        f.view.sample_us = f.view.now_us;
        past[i].at_us = f.view.now_us;
        fix_units(&f, 10, 0); /* somebody else takes away what was added */
        past[i].added = max_int(0, fix_ask(&f, 10 + (int)rng_below(&r, 12)) - 10);
        sum += past[i].added;
        while (f.view.now_us - past[first].at_us >= 300 * FIX_S)
            sum -= past[first++].added;
        most = max_int(most, sum);
        if (sum > 8)
            fail_msg("decision %d: %d units within five minutes", i, sum);
    }
    assert_int_equal(most, 8); /* and is used to the full */
}

/* The window an instant ago is the reference: on borders what is forgotten is exactly five minutes old. */
TEST(on_the_borders_of_its_buckets_the_window_is_exactly_five_minutes)
{
    enum { DECISIONS = 4000 };
    static struct fix f;
    static struct {
        int64_t at_us;
        int added;
    } past[DECISIONS];
    struct rng r = rng_stream(test_seed(), "borders");
    int first = 0, sum = 0;
    fix_init(&f, "ppo", true);
    no_audit(&f);
    f.cfg.guard.cooldown_out_us = 0;
    f.view.now_us -= f.view.now_us % (15 * FIX_S);
    for (int i = 0; i < DECISIONS; i++) {
        f.view.now_us += 15 * FIX_S * (1 + (int64_t)rng_below(&r, rng_below(&r, 20) ? 3 : 40));
        f.view.sample_us = f.view.now_us;
        fix_units(&f, 10, 0);
        int added = max_int(0, fix_ask(&f, 10 + (int)rng_below(&r, 5)) - 10);
        while (first < i && f.view.now_us - past[first].at_us >= 300 * FIX_S)
            sum -= past[first++].added;
        past[i].at_us = f.view.now_us;
        past[i].added = added;
        sum += added;
        assert_int_equal(f.state.guard.up.sum, sum);
    }
}

/* ---- 8: cooldown
 * --------------------------------------------------------------------------------- */
static void acted(struct fix *f, int64_t out_ago, int64_t in_ago)
{
    f->state.guard.last_out_us = out_ago ? f->view.now_us - out_ago : GUARD_NEVER;
    f->state.guard.last_in_us = in_ago ? f->view.now_us - in_ago : GUARD_NEVER;
}
static void out_45s(struct fix *f)
{
    acted(f, 45 * FIX_S, 0);
}
static void out_60s(struct fix *f)
{
    acted(f, 60 * FIX_S, 0);
}
static void in_45s(struct fix *f)
{
    acted(f, 0, 45 * FIX_S);
}
static void out_285s(struct fix *f)
{
    acted(f, 285 * FIX_S, 600 * FIX_S);
}
static void in_300s(struct fix *f)
{
    acted(f, 900 * FIX_S, 300 * FIX_S);
}
static void uncertain(struct fix *f)
{
    in_300s(f);
    f->view.forecast.uncertainty = 0.8f;
}
static void uncertain_450s(struct fix *f)
{
    acted(f, 450 * FIX_S, 0);
    f->view.forecast.uncertainty = 0.8f;
}
static void reference_60s(struct fix *f)
{
    guard_options_reference(&f->cfg.guard);
    no_audit(f);
    out_60s(f);
}
static void flapped_64(struct fix *f)
{
    f->state.guard.flap.bucket = f->view.now_us / (300 * FIX_S);
    f->state.guard.flap.at[0] = 64;
    f->state.guard.flap.sum = 64;
}
static void flapped_63(struct fix *f)
{
    flapped_64(f);
    f->state.guard.flap.at[0] = f->state.guard.flap.sum = 63;
}

TEST(actions_are_followed_by_a_wait)
{
    static const struct guard_case cases[] = {
        {"never acted", NULL, 12, 12, GUARD_COOLDOWN, GUARD_PASS, NULL},
        {"out after 45 s", out_45s, 12, 10, GUARD_COOLDOWN, GUARD_HOLD,
         "acted 45 s ago, scale-out waits 60 s"},
        {"out after 60 s", out_60s, 12, 12, GUARD_COOLDOWN, GUARD_PASS, NULL},
        {"out after in", in_45s, 12, 10, GUARD_COOLDOWN, GUARD_HOLD, NULL},
        {"in after 285 s", out_285s, 8, 10, GUARD_COOLDOWN, GUARD_HOLD, "scale-in waits 300 s"},
        {"in after 300 s", in_300s, 8, 8, GUARD_COOLDOWN, GUARD_PASS, NULL},
        {"in after 300 s when uncertain", uncertain, 8, 10, GUARD_COOLDOWN, GUARD_HOLD,
         "waits 450 s"},
        {"in after 450 s when uncertain", uncertain_450s, 8, 8, GUARD_COOLDOWN, GUARD_PASS, NULL},
        {"published: 5 min before out too", reference_60s, 12, 10, GUARD_COOLDOWN, GUARD_HOLD,
         "waits 300 s"},
        {"flap budget spent, in", flapped_64, 8, 10, GUARD_COOLDOWN, GUARD_HOLD, "budget 64"},
        {"flap budget spent, out", flapped_64, 12, 12, GUARD_COOLDOWN, GUARD_PASS, NULL},
        {"flap budget not quite spent", flapped_63, 8, 8, GUARD_COOLDOWN, GUARD_PASS, NULL},
    };
    RUN(cases, no_audit);
}

/* ---- 9: staged scale-in
 * -------------------------------------------------------------------------- */
static void watch_over(struct fix *f)
{
    f->state.guard.watch_until_us = f->view.now_us;
}
static void three_idle(struct fix *f)
{
    fix_units(f, 3, 0);
    fix_load(f, 40);
    fix_forecast(f, 40, 45, 48);
}

TEST(scale_in_goes_by_stages)
{
    static const struct guard_case cases[] = {
        {"to 70 %", NULL, 7, 7, GUARD_STAGED, GUARD_PASS, NULL},
        {"not under 70 %", NULL, 5, 7, GUARD_STAGED, GUARD_CLAMP, "leaves at least 7 of 10"},
        {"not while watching", watched, 8, 10, GUARD_STAGED, GUARD_HOLD, "for another 1 s"},
        {"out while watching", watched, 12, 12, GUARD_STAGED, GUARD_PASS, NULL},
        {"after the watch", watch_over, 8, 8, GUARD_STAGED, GUARD_PASS, NULL},
        {"three can become two", three_idle, 1, 2, GUARD_STAGED, GUARD_CLAMP, NULL},
    };
    RUN(cases, no_audit);
}

TEST(a_watch_follows_only_a_scale_in_that_was_cut_short)
{
    static struct fix f;
    fix_init(&f, "ppo", true);
    assert_int_equal(fix_ask(&f, 7), 7);
    assert_true(f.state.guard.watch_until_us == GUARD_NEVER);
    fix_init(&f, "ppo", true);
    assert_int_equal(fix_ask(&f, 6), 7);
    assert_int_equal(f.state.guard.watch_until_us, f.view.now_us + 10 * FIX_MIN);
    fix_init(&f, "ppo", true); /* cut short by another check: no watch */
    safe_9(&f);
    assert_int_equal(fix_ask(&f, 5), 9);
    assert_true(f.state.guard.watch_until_us == GUARD_NEVER);
}

/* ---- 10: breaker
 * --------------------------------------------------------------------------------- */
static void warming_5min(struct fix *f)
{
    fix_units(f, 10, 2);
    f->view.warm[0] = 0;
    f->view.warm[10] = 2;
    f->view.warm_oldest_us = 5 * FIX_MIN;
}
static void warming_longer(struct fix *f)
{
    warming_5min(f);
    f->view.warm_oldest_us++;
}
static void slow_start(struct fix *f)
{
    struct err e;
    f->cfg.spec.start_us = 4 * FIX_MIN;
    assert_ok(capacity_config_finish(&f->cfg, &e), &e);
    warming_5min(f);
    f->view.warm_oldest_us = 8 * FIX_MIN;
}

TEST(units_that_do_not_start_stop_scale_out)
{
    static const struct guard_case cases[] = {
        {"in time", warming_5min, 14, 14, GUARD_BREAKER, GUARD_PASS, NULL},
        {"late, out", warming_longer, 14, 12, GUARD_BREAKER, GUARD_VETO, "shut for 600 s"},
        {"late, in", warming_longer, 9, 9, GUARD_BREAKER, GUARD_PASS, NULL},
        {"twice the measured start-up", slow_start, 14, 14, GUARD_BREAKER, GUARD_PASS, NULL},
    };
    RUN(cases, no_audit);
}

TEST(the_breaker_expires_gives_starts_their_time_and_opens_again)
{
    static struct fix f;
    int allowed = 0;
    fix_init(&f, "ppo", true);
    no_audit(&f);
    warming_longer(&f);
    for (int i = 0; i < 240; i++) { /* an hour without a single start */
        bool open = fix_ask(&f, 13) == 12;
        allowed += !open;
        if (i < 40)
            assert_true(open);
        else if (i < 60)
            assert_false(open); /* 5 min, the start-up budget */
        else if (i < 100)
            assert_true(open);
        f.state.guard.last_out_us = GUARD_NEVER; /* only the breaker is looked at */
        f.state.guard.up = (struct guard_window){.bucket = GUARD_NEVER};
        fix_tick(&f);
        f.view.warm_oldest_us += FIX_STEP;
    }
    assert_int_equal(allowed, 80);
}

/* Runs to the step at which the breaker has just expired. */
static void half_open(struct fix *f)
{
    fix_init(f, "ppo", true);
    no_audit(f);
    warming_longer(f);
    for (int i = 0; i < 40; i++) {
        assert_int_equal(fix_ask(f, 20), 12);
        fix_tick(f);
        f->view.warm_oldest_us += FIX_STEP;
    }
}

static void assert_words(const struct fix *f, enum guard_check check, const char *words)
{
    char text[256];
    guard_explain(&f->record.chain[check], text, sizeof text);
    if (!strstr(text, words))
        fail_msg("\"%s\" lacks \"%s\"", text, words);
}

TEST(after_the_breaker_one_step_at_a_time_is_on_trial)
{
    static struct fix f;
    half_open(&f);
    assert_int_equal(fix_ask(&f, 20), 13); /* the rate cap would leave eight */
    assert_words(&f, GUARD_BREAKER, "breaker clamp: breaker expired 0 s ago: 1 unit(s) on trial");
    fix_units(&f, 10, 3);
    f.view.warm[10] = 2;
    f.view.warm[0] = 1;
    for (int i = 0; i < 10; i++) { /* cooldown is long over */
        fix_tick(&f);
        assert_int_equal(fix_ask(&f, 20), 13);
    }
    assert_words(&f, GUARD_BREAKER, "3 warming unit(s) have until 300 s to become ready");
    f.view.units_ready = 11; /* the one on trial */
    f.view.units_warming = 2;
    f.view.warm[0] = 0;
    fix_tick(&f);
    assert_int_equal(fix_ask(&f, 20), 20);
}

TEST(a_repaired_unit_does_not_prove_that_units_start)
{
    static struct fix f;
    half_open(&f);
    f.view.units_ready = 9;
    f.view.units_failed = 1;
    assert_int_equal(fix_ask(&f, 12), 12);
    fix_tick(&f);
    f.view.units_ready = 10;
    f.view.units_failed = 0;
    assert_int_equal(fix_ask(&f, 20), 13);
}

TEST(a_person_ends_the_trial)
{
    static struct fix f;
    half_open(&f);
    guard_breaker_reset(&f.state.guard);
    assert_int_equal(fix_ask(&f, 20), 20);
}

TEST(a_person_can_reset_the_breaker)
{
    static struct fix f;
    fix_init(&f, "ppo", true);
    no_audit(&f);
    warming_longer(&f);
    assert_int_equal(fix_ask(&f, 13), 12);
    guard_breaker_reset(&f.state.guard);
    fix_tick(&f);
    assert_int_equal(fix_ask(&f, 13), 13);
}
