/* observation_test.c - what each feature shows, what missing looks like, and that nothing escapes
 * its range. */
#include "decide/observation.h"

#include "base/mem.h"
#include "tests/unit/decide/decide_fixture.h"

static float feature(struct fix *f, const char *name)
{
    float obs[CAPACITY_OBS];
    int i = observation_find(name);
    if (i < 0)
        fail_msg("no feature %s", name);
    capacity_observe(&f->cfg, &f->view, &f->state, obs);
    return obs[i];
}

static void rich(struct fix *f)
{
    fix_load(f, 400);
    fix_units(f, 8, 2);
    f->view.value[FIELD_P99_LATENCY_MS] = 300;
    f->view.value[FIELD_P50_LATENCY_MS] = 100;
    f->view.value[FIELD_QUEUE_LEN] = 40;
    fix_forecast(f, 200, 450, 600);
    f->view.when.holiday = true;
    f->view.weight_cost = 2;
}

TEST(features_show_what_they_say)
{
    static const struct {
        const char *name;
        double want;
    } cases[] = {
        {"gpu_use", 0.4},         {"gpu_mem", 0.6},         {"qps_over_median", 2},
        {"p50_over_target", 0.5}, {"p99_over_target", 1.5}, {"queue_per_unit", 0.5},
        {"size", 10.0 / 64},      {"ready", 0.8},           {"warming", 0.2},
        {"warm_young", 0.2},      {"use_ready", 1},         {"use_requested", 0.8},
        {"use_last", 0.8},        {"use_peak", 0.8},        {"slope_1min", 0},
        {"forecast_15min", 0.4},  {"forecast_upper", 0.9},  {"forecast_high", 1.44},
        {"forecast_error", 0.4},  {"uncertainty", 0.2},     {"need_now", 0.8},
        {"need_mean", 0.4},       {"need_upper", 0.9},      {"need_high", 1.2},
        {"base_move", 0},         {"wait_out", 0},          {"rate_room", 1},
        {"flap_room", 1},         {"weight_latency", 1},    {"weight_cost", 2},
        {"holiday", 1},           {"to_peak", 0.25},        {"no_load", 0},
        {"no_forecast", 0},       {"hour_sin", 0},          {"hour_cos", 1},
        {"day_sin", 0.5},         {"day_cos", -0.8660254}, /* ten o'clock */
    };
    static struct fix f;
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        fix_init(&f, "ppo", true);
        rich(&f);
        assert_near((double)feature(&f, cases[i].name), cases[i].want, 1e-5, 0);
    }
}

TEST(missing_is_a_flag_and_a_neutral_value)
{
    static const struct {
        enum field field;
        const char *flag, *feature;
    } cases[] = {
        {FIELD_GPU_UTIL, "no_gpu", "gpu_use"},
        {FIELD_QPS, "no_load", "use_requested"},
        {FIELD_QPS, "no_load", "qps_over_median"},
        {FIELD_QUEUE_LEN, "no_load", "queue_per_unit"},
        {FIELD_P99_LATENCY_MS, "no_latency", "p99_over_target"},
    };
    static const float bad[] = {NAN, INFINITY, -5};
    static struct fix f;
    for (size_t i = 0; i < ARRAY_LEN(cases); i++)
        for (size_t k = 0; k < ARRAY_LEN(bad); k++) {
            fix_init(&f, "ppo", true);
            rich(&f);
            assert_near((double)feature(&f, cases[i].flag), 0, 0, 0);
            f.view.value[cases[i].field] = bad[k];
            fix_tick(&f);
            assert_near((double)feature(&f, cases[i].flag), 1, 0, 0);
            const struct observation_info *info =
                observation_get((enum observation)observation_find(cases[i].feature));
            fix_tick(&f);
            assert_near((double)feature(&f, cases[i].feature), (double)info->neutral, 0, 0);
        }
    fix_init(&f, "ppo", true);
    f.view.forecast.usable = false;
    assert_near((double)feature(&f, "no_forecast"), 1, 0, 0);
}

TEST(slopes_compare_with_one_and_five_minutes_ago)
{
    static struct fix f;
    fix_init(&f, "ppo", true);
    for (int i = 0; i < 30; i++) {
        fix_load(&f, 200 + 2 * (float)i);
        (void)feature(&f, "gpu_use");
        fix_tick(&f);
    }
    fix_load(&f, 260);
    assert_near((double)feature(&f, "slope_1min"), 8.0 / 500, 1e-5, 0);
    fix_tick(&f);
    fix_load(&f, 262);
    assert_near((double)feature(&f, "slope_5min"), 38.0 / 500, 1e-5,
                0); /* 19 of 20 steps are kept */
}

/* Largest present value of the last n of `load`, NaN when all are missing. */
static float largest(const float *load, int end, int n)
{
    float best = NAN;
    for (int i = end - n < 0 ? 0 : end - n; i < end; i++)
        if (!isnan(load[i]) && !(load[i] <= best))
            best = load[i];
    return best;
}

TEST(the_peak_is_the_largest_of_the_ring_with_gaps_ties_and_pauses)
{
    enum { N = 2000 };
    static struct fix f;
    static float load[N];
    int from = 0;
    fix_init(&f, "ppo", true);
    for (int i = 0; i < N; i++) {
        load[i] = rng_below(&f.rng, 5) ? (float)rng_below(&f.rng, 12) : NAN;
        if (i % 300 > 240) /* nothing for longer than the ring */
            load[i] = NAN;
        if (i % 701 == 700) { /* nobody looked for ten minutes */
            f.view.now_us += 10 * FIX_MIN;
            from = i;
        }
        fix_load(&f, load[i]);
        (void)feature(&f, "gpu_use");
        float want = largest(load + from, i + 1 - from, SENSE_RING);
        if (isnan(want))
            assert_true(isnan(f.state.sense.peak));
        else
            assert_near((double)f.state.sense.peak, (double)want, 0, 0);
        fix_tick(&f);
    }
}

TEST(timers_run_down)
{
    static struct fix f;
    fix_config(&f, "ppo", true);
    f.cfg.guard.auditor = GUARD_AUDITOR_OFF;
    fix_start(&f);
    fix_units(&f, fix_ask(&f, 14), 0);
    fix_tick(&f);
    assert_near((double)feature(&f, "wait_out"), 0.75, 1e-5, 0);
    fix_tick(&f);
    assert_near((double)feature(&f, "wait_in"), 0.9, 1e-5, 0);
    fix_tick(&f);
    assert_near((double)feature(&f, "rate_room"), 0.5, 1e-5, 0);
    fix_tick(&f);
    assert_near((double)feature(&f, "flap_room"), 1 - 4.0 / 64, 1e-5, 0);
}

TEST(the_forecast_is_read_again_when_a_new_one_is_made)
{
    static struct fix f;
    fix_init(&f, "ppo", true);
    assert_near((double)feature(&f, "need_mean"), 0.5, 1e-5, 0);
    fix_tick(&f);
    fix_forecast(&f, 500, 550, 600);
    assert_near((double)feature(&f, "need_mean"), 1, 1e-5, 0);
    fix_tick(&f);
    f.view.forecast.usable = false;
    assert_near((double)feature(&f, "need_mean"), 0.7, 1e-5, 0);
    fix_tick(&f);
    f.view.forecast.usable = true;
    assert_near((double)feature(&f, "need_mean"), 1, 1e-5, 0);
}

TEST(names_are_unique_and_the_layout_hash_is_of_them)
{
    for (int i = 0; i < CAPACITY_OBS; i++) {
        const struct observation_info *a = observation_get((enum observation)i);
        assert_int_equal(observation_find(a->name), i);
        assert_true(a->lo < a->hi && a->neutral >= a->lo && a->neutral <= a->hi && a->what[0]);
    }
    assert_int_equal(observation_find("nothing"), -1);
    assert_int_equal(observation_layout_hash(), observation_layout_hash());
}
