/* guard_test.c - the checks of what may be asked for at all (claims, freshness, override, evidence, bounds), the edge
 * between what passes and what is refused, and the chain as a whole. */
#include "tests/unit/decide/guard_fixture.h"

/* ---- 1, 2, 11: claims
 * ---------------------------------------------------------------------------- */
static void frozen_option(struct fix *f)
{
    f->cfg.guard.freeze = true;
}
static void frozen(struct fix *f)
{
    f->view.claims.frozen = true;
}
static void paused(struct fix *f)
{
    f->view.claims.paused = true;
}
static void unmanaged(struct fix *f)
{
    f->view.claims.unmanaged = true;
}
static void owned(struct fix *f)
{
    f->view.claims.owned_by_other = true;
}
static void abnormal(struct fix *f)
{
    f->view.claims.cluster_abnormal = true;
}

TEST(claims_of_others_keep_the_size_and_say_whose)
{
    static const struct guard_case cases[] = {
        {"calm, freeze", NULL, 12, 12, GUARD_FREEZE, GUARD_PASS, "nothing against it"},
        {"calm, ownership", NULL, 12, 12, GUARD_OWNERSHIP, GUARD_PASS, NULL},
        {"calm, anomaly", NULL, 12, 12, GUARD_ANOMALY, GUARD_PASS, NULL},
        {"freeze: true", frozen_option, 12, 10, GUARD_FREEZE, GUARD_VETO, "frozen"},
        {"freeze", frozen, 8, 10, GUARD_FREEZE, GUARD_VETO, "frozen"},
        {"paused", paused, 12, 10, GUARD_FREEZE, GUARD_VETO, "paused"},
        {"unmanaged", unmanaged, 12, 10, GUARD_OWNERSHIP, GUARD_VETO, "not managed"},
        {"owned", owned, 8, 10, GUARD_OWNERSHIP, GUARD_VETO, "another controller"},
        {"abnormal, out", abnormal, 12, 10, GUARD_ANOMALY, GUARD_VETO, "people decide"},
        {"abnormal, in", abnormal, 8, 10, GUARD_ANOMALY, GUARD_VETO, NULL},
        {"abnormal, hold", abnormal, 10, 10, GUARD_ANOMALY, GUARD_PASS, NULL},
    };
    RUN(cases, no_audit);
}

/* ---- 3: freshness
 * -------------------------------------------------------------------------------- */
static void sample_90s(struct fix *f)
{
    f->view.sample_us = f->view.now_us - 90 * FIX_S;
}
static void sample_over_90s(struct fix *f)
{
    f->view.sample_us = f->view.now_us - 90 * FIX_S - 1;
}
static void no_qps(struct fix *f)
{
    fix_load(f, NAN);
}
static void no_latency(struct fix *f)
{
    f->view.value[FIELD_P99_LATENCY_MS] = NAN;
}
static void no_latency_no_load(struct fix *f)
{
    fix_load(f, 0);
    f->view.value[FIELD_P99_LATENCY_MS] = NAN;
    f->view.forecast.usable = false;
}
static void no_gpu(struct fix *f)
{
    f->view.value[FIELD_GPU_UTIL] = NAN;
}
static void infinite(struct fix *f)
{
    f->view.value[FIELD_MEM_UTIL] = INFINITY;
}
static void negative(struct fix *f)
{
    f->view.value[FIELD_QUEUE_LEN] = -1;
}

TEST(nothing_scales_on_stale_missing_or_non_finite_metrics)
{
    static const struct guard_case cases[] = {
        {"90 s is fresh", sample_90s, 12, 12, GUARD_FRESHNESS, GUARD_PASS, NULL},
        {"over 90 s, out", sample_over_90s, 12, 10, GUARD_FRESHNESS, GUARD_HOLD,
         "90 s old, over 90 s"},
        {"over 90 s, in", sample_over_90s, 8, 10, GUARD_FRESHNESS, GUARD_HOLD, NULL},
        {"load missing, out", no_qps, 12, 10, GUARD_FRESHNESS, GUARD_HOLD, "load is missing"},
        {"load missing, in", no_qps, 8, 10, GUARD_FRESHNESS, GUARD_HOLD, NULL},
        {"latency missing under load", no_latency, 8, 10, GUARD_FRESHNESS, GUARD_HOLD, "250/s"},
        {"no latency without load", no_latency_no_load, 8, 8, GUARD_FRESHNESS, GUARD_PASS, NULL},
        {"GPU missing alone", no_gpu, 12, 12, GUARD_FRESHNESS, GUARD_PASS, NULL},
        {"infinite", infinite, 12, 10, GUARD_FRESHNESS, GUARD_HOLD,
         "not a finite number (field 3)"},
        {"negative", negative, 8, 10, GUARD_FRESHNESS, GUARD_HOLD, "not a finite number"},
    };
    RUN(cases, no_audit);
}

/* ---- 4: override
 * --------------------------------------------------------------------------------- */
static void person_20(struct fix *f)
{
    f->view.claims.override_on = true;
    f->view.claims.override_units = 20;
    f->view.claims.override_until_us = f->view.now_us + 10 * FIX_MIN;
}
static void person_expired(struct fix *f)
{
    person_20(f);
    f->view.claims.override_until_us = f->view.now_us;
}
static void person_without_metrics(struct fix *f)
{
    person_20(f);
    sample_over_90s(f);
}
static void person_frozen(struct fix *f)
{
    person_20(f);
    frozen(f);
}
static void person_100(struct fix *f)
{
    person_20(f);
    f->view.claims.override_units = 100;
}

TEST(a_person_fixes_the_size_until_it_expires)
{
    static const struct guard_case cases[] = {
        {"fixed", person_20, 8, 20, GUARD_OVERRIDE, GUARD_CLAMP,
         "fixed the size at 20 for another 600 s"},
        {"expired", person_expired, 12, 12, GUARD_OVERRIDE, GUARD_PASS, NULL},
        {"metrics gone", person_without_metrics, 8, 20, GUARD_OVERRIDE, GUARD_CLAMP, NULL},
        {"metrics gone, says so", person_without_metrics, 8, 20, GUARD_FRESHNESS, GUARD_PASS,
         "a person"},
        {"freeze outranks", person_frozen, 8, 10, GUARD_OVERRIDE, GUARD_PASS, NULL},
        {"not over the maximum", person_100, 8, 64, GUARD_OVERRIDE, GUARD_CLAMP, NULL},
    };
    RUN(cases, no_audit);
}

/* ---- 5: auditor
 * ---------------------------------------------------------------------------------- */
/* No high water: the forecast is far under the capacity. */
static void quiet(struct fix *f)
{
    fix_forecast(f, 250, 260, 270); /* high 324 of 500 */
}
static void queue_10(struct fix *f)
{
    f->view.value[FIELD_QUEUE_LEN] = 10;
}
static void queue_11(struct fix *f)
{
    f->view.value[FIELD_QUEUE_LEN] = 11;
}
static void gpu_85(struct fix *f)
{
    f->view.value[FIELD_GPU_UTIL] = 0.85f;
}
static void gpu_86(struct fix *f)
{
    f->view.value[FIELD_GPU_UTIL] = 0.86f;
}
static void demand_86(struct fix *f)
{
    fix_load(f, 430);
}
static void water_for(struct fix *f, int64_t us)
{
    fix_forecast(f, 300, 340, 360); /* high 432 of 500 = 0.864 */
    f->state.guard.water_since_us = f->view.now_us - us;
}
static void water_5min(struct fix *f)
{
    water_for(f, 5 * FIX_MIN);
}
static void water_285s(struct fix *f)
{
    water_for(f, 285 * FIX_S);
}
static void all_but_water(struct fix *f)
{
    f->cfg.guard.auditor = GUARD_AUDITOR_ALL;
    queue_11(f);
    gpu_86(f);
}
static void all_three(struct fix *f)
{
    water_5min(f);
    all_but_water(f);
}
static void dependency(struct fix *f)
{
    f->view.value[FIELD_P99_LATENCY_MS] = 800;
    water_5min(f);
    fix_load(f, 200);
}
static void dependency_queued(struct fix *f)
{
    dependency(f);
    queue_11(f);
}
static void cpu_only(struct fix *f)
{
    f->view.value[FIELD_CPU_UTIL] = 0.82f;
    f->view.value[FIELD_GPU_UTIL] = 0.45f;
    f->view.value[FIELD_P99_LATENCY_MS] = 60;
    water_5min(f);
}
static void cpu_tight(struct fix *f)
{
    cpu_only(f);
    fix_load(f, 451); /* of 500 */
}
static void falling(struct fix *f)
{
    water_5min(f);
    f->view.forecast.base = 300;
    f->state.sense.qps_fast = 380;
    f->state.sense.qps_level = 420;
    f->state.sense.observed_us = f->view.now_us - FIX_STEP;
    for (int i = 0; i < SENSE_RING; i++)
        f->state.sense.ring[i] = 440;
    fix_load(f, 400);
}
static void rising(struct fix *f)
{
    falling(f);
    for (int i = 0; i < SENSE_RING; i++)
        f->state.sense.ring[i] = 360;
}
static void falling_tight(struct fix *f)
{
    falling(f);
    fix_units(f, 8, 0); /* 400/s */
}
static void no_forecast_peak(struct fix *f)
{
    f->view.forecast.usable = false;
    fix_load(f, 360); /* 1.2 x 360 = 432 of 500 */
    f->state.guard.water_since_us = f->view.now_us - 5 * FIX_MIN;
}

TEST(scale_out_needs_evidence_that_capacity_is_the_bottleneck)
{
    static const struct guard_case cases[] = {
        {"nothing", quiet, 12, 10, GUARD_AUDITOR, GUARD_VETO,
         "not short of capacity: queue 0, use 0.50"},
        {"scale-in is not asked", quiet, 8, 8, GUARD_AUDITOR, GUARD_PASS, "nothing against it"},
        {"queue at the edge", queue_10, 12, 10, GUARD_AUDITOR, GUARD_VETO, NULL},
        {"queue", queue_11, 12, 12, GUARD_AUDITOR, GUARD_PASS, "queue of 11 requests is over 10"},
        {"GPU at the edge", gpu_85, 12, 10, GUARD_AUDITOR, GUARD_VETO, NULL},
        {"GPU", gpu_86, 12, 12, GUARD_AUDITOR, GUARD_PASS, "use 0.86 is over 0.85"},
        {"demand over capacity", demand_86, 12, 12, GUARD_AUDITOR, GUARD_PASS,
         "use 0.86 is over 0.85"},
        {"high water for 285 s", water_285s, 12, 10, GUARD_AUDITOR, GUARD_VETO, NULL},
        {"high water for 300 s", water_5min, 12, 12, GUARD_AUDITOR, GUARD_PASS,
         "over 0.85 for 300 s"},
        {"recent peak stands in for a forecast", no_forecast_peak, 12, 12, GUARD_AUDITOR,
         GUARD_PASS, NULL},
        {"all: two of three", all_but_water, 12, 10, GUARD_AUDITOR, GUARD_VETO, NULL},
        {"all: three of three", all_three, 12, 12, GUARD_AUDITOR, GUARD_PASS, NULL},
    };
    RUN(cases, quiet);
}

TEST(signs_that_only_look_like_load_do_not_scale)
{
    static const struct guard_case cases[] = {
        {"dependency", dependency, 12, 10, GUARD_AUDITOR, GUARD_VETO,
         "look at the code or a dependency"},
        {"dependency, but a queue", dependency_queued, 12, 12, GUARD_AUDITOR, GUARD_PASS, NULL},
        {"CPU 82 %, GPU 45 %", cpu_only, 12, 10, GUARD_AUDITOR, GUARD_HOLD, "CPU at 0.82"},
        {"the same with headroom under 10 %", cpu_tight, 12, 12, GUARD_AUDITOR, GUARD_PASS,
         "headroom"},
        {"up and rising", rising, 12, 12, GUARD_AUDITOR, GUARD_PASS, NULL},
        {"up but falling", falling, 12, 10, GUARD_AUDITOR, GUARD_HOLD,
         "1.3x the slot's median but falling"},
        {"the same with headroom under 10 %", falling_tight, 9, 9, GUARD_AUDITOR, GUARD_PASS, NULL},
    };
    RUN(cases, quiet);
}

/* ---- 6: bounds
 * ----------------------------------------------------------------------------------- */
static void max_11(struct fix *f)
{
    f->cfg.spec.units_max = 11;
}
static void min_9(struct fix *f)
{
    f->cfg.spec.units_min = 9;
}
static void budget_11(struct fix *f)
{
    f->view.budget_units = 11;
}
static void budget_5(struct fix *f)
{
    f->view.budget_units = 5;
}
static void safe_20(struct fix *f)
{
    f->cfg.spec.units_min_safe = 20;
}
static void p95_420(struct fix *f)
{
    f->view.forecast.slot_p95 = 420; /* needs 9 */
}
static void p95_huge(struct fix *f)
{
    f->view.forecast.slot_p95 = 1e9f;
}
static void p95_quiet_day(struct fix *f)
{
    p95_420(f); /* load at 250 where the slot's median is 300: 350, needs 7 */
    f->view.forecast.base = 300;
}
/* 360/s on 10 units: GPUs would show 0.58 or more. */
static void stuck_gauge(struct fix *f)
{
    fix_load(f, 360); /* needs 8; 9 with use under 0.85 */
    f->view.value[FIELD_UNITS_READY] = 10;
    f->view.value[FIELD_GPU_UTIL] = 0.45f;
}
static void stuck_gauge_failed(struct fix *f)
{
    stuck_gauge(f);
    f->view.units_ready = 9;
    f->view.units_failed = 1;
}
static void gauge_fits(struct fix *f)
{
    stuck_gauge(f);
    f->view.value[FIELD_GPU_UTIL] = 0.47f;
}
static void gauge_missing(struct fix *f)
{
    stuck_gauge(f);
    f->view.value[FIELD_GPU_UTIL] = NAN;
}
static void p95_verbatim(struct fix *f)
{
    p95_quiet_day(f);
    f->cfg.guard.min_safe = GUARD_MIN_SAFE_SLOT_P95;
}
static void p95_not_used(struct fix *f)
{
    p95_420(f);
    f->cfg.guard.min_safe = GUARD_MIN_SAFE_STATED;
}
static void burst_3x(struct fix *f)
{
    fix_load(f, 450); /* three times the P95: needs 9 */
    f->view.forecast.slot_p95 = 150;
}
static void under_minimum(struct fix *f)
{
    f->cfg.spec.units_min = 20;
}

TEST(sizes_stay_between_least_safe_maximum_and_budget)
{
    static const struct guard_case cases[] = {
        {"in between", NULL, 8, 8, GUARD_BOUNDS, GUARD_PASS, NULL},
        {"at the maximum", max_11, 11, 11, GUARD_BOUNDS, GUARD_PASS, NULL},
        {"over the maximum", max_11, 12, 11, GUARD_BOUNDS, GUARD_CLAMP, "maximum is 11"},
        {"at the minimum", min_9, 9, 9, GUARD_BOUNDS, GUARD_PASS, NULL},
        {"under the minimum", min_9, 8, 9, GUARD_BOUNDS, GUARD_CLAMP, "minimum is 9"},
        {"at the budget", budget_11, 11, 11, GUARD_BOUNDS, GUARD_PASS, NULL},
        {"over the budget", budget_11, 12, 11, GUARD_BOUNDS, GUARD_CLAMP, "budget leaves 11"},
        {"a smaller budget forces nothing", budget_5, 10, 10, GUARD_BOUNDS, GUARD_PASS, NULL},
        {"but lets nothing be added", budget_5, 11, 10, GUARD_BOUNDS, GUARD_VETO,
         "budget leaves 5"},
        {"owner's least safe size", safe_9, 8, 9, GUARD_BOUNDS, GUARD_CLAMP, "safe size is 9"},
        {"a higher one forces nothing", safe_20, 10, 10, GUARD_BOUNDS, GUARD_PASS, NULL},
        {"but lets nothing go", safe_20, 9, 10, GUARD_BOUNDS, GUARD_VETO, "safe size is 20"},
        {"same-slot P95", p95_420, 8, 9, GUARD_BOUNDS, GUARD_CLAMP, "safe size is 9"},
        {"a P95 over the maximum", p95_huge, 9, 10, GUARD_BOUNDS, GUARD_VETO, "safe size is 64"},
        {"P95 of busier days", p95_quiet_day, 7, 7, GUARD_BOUNDS, GUARD_PASS, NULL},
        {"unless taken verbatim", p95_verbatim, 7, 9, GUARD_BOUNDS, GUARD_CLAMP, "safe size is 9"},
        {"P95 switched off", p95_not_used, 8, 8, GUARD_BOUNDS, GUARD_PASS, NULL},
        {"a burst to 3x of it", burst_3x, 8, 9, GUARD_BOUNDS, GUARD_CLAMP,
         "450/s needs 9 units now"},
        {"a gauge far under what demand makes of it", stuck_gauge, 8, 9, GUARD_BOUNDS, GUARD_CLAMP,
         "GPU at 0.45 does not fit the demand of 360/s: by demand 9 units stay"},
        {"a failed unit serves nobody", stuck_gauge_failed, 8, 10, GUARD_BOUNDS, GUARD_VETO,
         "by demand 10 units stay"},
        {"a gauge that fits", gauge_fits, 8, 8, GUARD_BOUNDS, GUARD_PASS, NULL},
        {"no gauge", gauge_missing, 8, 8, GUARD_BOUNDS, GUARD_PASS, NULL},
        {"the owner's minimum is reached at once", under_minimum, 10, 20, GUARD_BOUNDS, GUARD_CLAMP,
         NULL},
    };
    RUN(cases, no_audit);
}

/* ---- the chain
 * ----------------------------------------------------------------------------------- */
TEST(the_whole_chain_is_recorded_after_a_veto)
{
    static struct fix f;
    char words[256];
    fix_init(&f, "ppo", true);
    frozen(&f);
    watched(&f);
    assert_int_equal(fix_ask(&f, 5), 10);
    assert_int_equal(f.record.n_checks, GUARD_CHECKS);
    for (int i = 0; i < GUARD_CHECKS; i++) {
        assert_int_equal(f.record.chain[i].check, i);
        assert_int_equal(f.record.chain[i].lo, 10);
        assert_int_equal(f.record.chain[i].hi, 10);
        guard_explain(&f.record.chain[i], words, sizeof words);
        assert_non_null(strstr(words, guard_check_name((enum guard_check)i)));
        assert_non_null(guard_check_what((enum guard_check)i));
    }
}

TEST(an_explanation_is_cut_to_the_buffer_and_bad_results_are_named)
{
    struct guard_result r = {.check = GUARD_STEP, .verdict = GUARD_PASS};
    char small[8];
    guard_explain(&r, small, sizeof small);
    assert_string_equal(small, "step pa");
    char words[64];
    guard_explain(&(struct guard_result){.check = 200}, words, sizeof words);
    assert_string_equal(words, "unreadable guard result");
}

TEST(a_preset_from_a_file_is_applied)
{
    static struct fix f;
    fix_config(&f, "ppo", true);
    f.cfg.guard.preset = GUARD_PRESET_REFERENCE;
    fix_start(&f);
    assert_int_equal(f.cfg.guard.cooldown_out_us, 300 * FIX_S);
}

TEST(every_option_of_the_guard_has_a_sound_row)
{
    struct err e;
    assert_ok(opt_table_check(&guard_options_table, &e), &e);
    struct guard_options g;
    guard_options_default(&g);
    assert_int_equal(g.cooldown_out_us, 60 * FIX_S);
    guard_options_reference(&g);
    assert_int_equal(g.cooldown_out_us, 300 * FIX_S);
    assert_int_equal(g.cooldown_in_us, 300 * FIX_S);
}
