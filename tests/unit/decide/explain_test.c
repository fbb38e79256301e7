/* explain_test.c - attributions that add up, and words that say what the record holds. */
#include "decide/explain.h"

#include "tests/unit/decide/decide_fixture.h"

/* ---- attribution
 * --------------------------------------------------------------------------------- */
static double linear(void *ctx, const float *obs)
{
    const double *w = ctx;
    double sum = 3;
    for (int i = 0; i < CAPACITY_OBS; i++)
        sum += w[i] * (double)obs[i];
    return sum;
}

static double curved(void *ctx, const float *obs)
{
    (void)ctx;
    return tanh((double)obs[0]) * (double)obs[1] + (double)obs[2] * (double)obs[2];
}

static double stepped(void *ctx, const float *obs)
{
    (void)ctx;
    return obs[5] > 0.5f ? 2 : 0;
}

TEST(attribution_of_a_linear_score_is_weight_times_difference)
{
    double w[CAPACITY_OBS];
    float obs[CAPACITY_OBS], base[CAPACITY_OBS], weight[CAPACITY_OBS];
    struct rng rng = rng_stream(test_seed(), "explain");
    for (int i = 0; i < CAPACITY_OBS; i++) {
        w[i] = rng_normal(&rng);
        obs[i] = (float)rng_unit(&rng);
        base[i] = (float)rng_unit(&rng);
    }
    explain_attribute(linear, w, obs, base, weight);
    for (int i = 0; i < CAPACITY_OBS; i++)
        assert_near((double)weight[i], w[i] * (double)(obs[i] - base[i]), 1e-5, 1e-3);
    explain_occlusion(linear, w, obs, base, weight);
    for (int i = 0; i < CAPACITY_OBS; i++)
        assert_near((double)weight[i], w[i] * (double)(obs[i] - base[i]), 1e-5, 1e-3);
}

TEST(attributions_add_up_to_the_difference_of_the_scores)
{
    float obs[CAPACITY_OBS] = {1.5f, 2, -1}, base[CAPACITY_OBS] = {-0.5f, 0.5f, 0.5f};
    float weight[CAPACITY_OBS];
    double sum = 0;
    explain_attribute(curved, NULL, obs, base, weight);
    for (int i = 0; i < CAPACITY_OBS; i++)
        sum += (double)weight[i];
    assert_near(sum, curved(NULL, obs) - curved(NULL, base), 2e-3, 0);
    assert_near((double)weight[10], 0, 0, 0);
}

TEST(occlusion_sees_a_step_that_has_no_gradient)
{
    float obs[CAPACITY_OBS] = {0}, base[CAPACITY_OBS] = {0}, weight[CAPACITY_OBS];
    obs[5] = 1;
    explain_occlusion(stepped, NULL, obs, base, weight);
    assert_near((double)weight[5], 2, 0, 0);
    assert_near((double)weight[6], 0, 0, 0);
}

/* ---- words
 * --------------------------------------------------------------------------------------- */
static void busy(struct fix *f)
{
    fix_config(f, "hpa", true);
    policy_use_default(&f->cfg.rule, policy_find("threshold"));
    fix_start(f);
    fix_forecast(f, 250, 275, 300);
    f->view.forecast.slot_p95 = 400;
    for (int i = 0; i < 4; i++) { /* GPU use rises for three steps */
        f->view.value[FIELD_GPU_UTIL] = 0.60f + 0.12f * (float)i;
        fix_load(f, 450);
        fix_decide(f);
        fix_tick(f);
        f->view.units_requested = 10;
        guard_state_init(&f->state.guard);
    }
    f->view.value[FIELD_GPU_UTIL] = 0.98f;
    fix_decide(f);
}

TEST(factors_are_told_in_words_with_numbers)
{
    static struct fix f;
    char text[512];
    busy(&f);
    struct explain_factor qps = {OBS_QPS_OVER_MEDIAN, 1.8f, 1};
    explain_factor_text(&f.record, &qps, text, sizeof text);
    assert_string_equal(text, "QPS 1.8x the same-slot median, above its P95");
    struct explain_factor gpu = {OBS_GPU_USE, 0.91f, 1};
    explain_factor_text(&f.record, &gpu, text, sizeof text);
    assert_string_equal(text, "GPU use 0.91, rising for 4 steps");
    struct explain_factor need = {OBS_NEED_NOW, 0.9f, 1};
    explain_factor_text(&f.record, &need, text, sizeof text);
    assert_string_equal(text, "demand needs 9.0 units now");
    explain_factors_text(&f.record, NULL, text, sizeof text);
    assert_non_null(strstr(text, "same-slot median"));
    assert_non_null(strstr(text, "; "));
}

TEST(every_feature_has_words)
{
    static struct fix f;
    char text[128];
    fix_init(&f, "hpa", true);
    fix_decide(&f);
    for (int i = 0; i < CAPACITY_OBS; i++) {
        struct explain_factor x = {(enum observation)i, 0.5f, 1};
        explain_factor_text(&f.record, &x, text, sizeof text);
        assert_true(strlen(text) > 3 && !strchr(text, '%') == !strstr(text, "%"));
    }
}

TEST(factors_speak_for_the_change_and_not_twice)
{
    static struct fix f;
    struct explain_factor factor[EXPLAIN_FACTORS];
    float weight[CAPACITY_OBS] = {0};
    busy(&f);
    f.record.executed = 12;
    weight[OBS_NEED_NOW] = 2;
    weight[OBS_USE_REQUESTED] = 1.9f; /* the same thing in other words */
    weight[OBS_GPU_USE] = 1;
    weight[OBS_QUEUE_PER_UNIT] = -5; /* against it */
    weight[OBS_SLOPE_1MIN] = 0.5f;
    int n = explain_factors(&f.record, weight, factor);
    assert_int_equal(n, 3);
    assert_int_equal(factor[0].obs, OBS_NEED_NOW);
    assert_int_equal(factor[1].obs, OBS_GPU_USE);
    assert_int_equal(factor[2].obs, OBS_SLOPE_1MIN);
    f.record.executed = f.record.proposed = 8;
    n = explain_factors(&f.record, weight, factor);
    assert_int_equal(n, 1);
    assert_int_equal(factor[0].obs, OBS_QUEUE_PER_UNIT);
    memset(weight, 0, sizeof weight);
    assert_int_equal(explain_factors(&f.record, weight, factor), 0);
    char text[64];
    explain_factors_text(&f.record, weight, text, sizeof text);
    assert_string_equal(text, "nothing out of the ordinary");
}

TEST(a_decision_is_explained_as_a_whole)
{
    static struct fix f;
    struct buf out = buf_init(8192);
    fix_config(&f, "hpa", true);
    policy_use_default(&f.cfg.rule, policy_find("threshold"));
    fix_start(&f);
    f.view.value[FIELD_GPU_UTIL] = 0.98f;
    f.view.claims.paused = true;
    fix_decide(&f);
    explain_decision(&f.record, NULL, false, &out);
    assert_non_null(strstr(out.p, "10 units, kept (hpa proposed 14) by hpa\n"));
    assert_non_null(strstr(out.p, "because: GPU use 0.98"));
    assert_non_null(strstr(out.p, "rule: threshold would have gone to 11\n"));
    assert_non_null(strstr(out.p, "freeze veto: the target is paused [10..10]\n"));
    assert_null(strstr(out.p, "cooldown"));
    assert_int_equal(explain_decisive(&f.record)->check, GUARD_FREEZE);
    buf_clear(&out);
    explain_decision(&f.record, NULL, true, &out);
    for (int i = 0; i < GUARD_CHECKS; i++)
        assert_non_null(strstr(out.p, guard_check_name((enum guard_check)i)));
    buf_fini(&out);
}

TEST(passed_unguarded_and_failed_decisions_say_so)
{
    static struct fix f;
    struct buf out = buf_init(8192);
    fix_init(&f, "hpa", true);
    f.view.value[FIELD_GPU_UTIL] = 0.7f;
    fix_decide(&f);
    explain_decision(&f.record, NULL, false, &out);
    assert_non_null(strstr(out.p, "10 units, kept by hpa\n"));
    assert_non_null(strstr(out.p, "the guard passed it\n"));
    assert_null(strstr(out.p, "rule:"));
    assert_null(explain_decisive(&f.record));
    buf_clear(&out);
    fix_init(&f, "hpa", false);
    fix_decide(&f);
    explain_decision(&f.record, NULL, false, &out);
    assert_non_null(strstr(out.p, "no guard"));
    buf_clear(&out);
    fix_init(&f, "ppo", true);
    fix_decide(&f);
    explain_decision(&f.record, NULL, false, &out);
    assert_non_null(strstr(out.p, "could not decide (not found)"));
    buf_fini(&out);
}

TEST(texts_are_cut_to_their_buffers)
{
    static struct fix f;
    char text[12];
    busy(&f);
    explain_factors_text(&f.record, NULL, text, sizeof text);
    assert_int_equal(strlen(text), 11);
    explain_change_text(&f.record, text, sizeof text);
    assert_true(strlen(text) <= 11);
    explain_rule_text(&f.record, text, sizeof text);
    assert_int_equal(strlen(text), 11);
}
