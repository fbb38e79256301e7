/* reward_test.c - the terms of a reward by hand, and what the presets weigh. */
#include "base/mem.h"
#include "tests/support/test.h"
#include "train/reward.h"

static struct reward_input served_well(void)
{
    return (struct reward_input){
        .p99_ms = 120, .target_ms = 200, .units = 10, .price_usd_h = 2, .price_ref_usd_h = 20};
}

TEST(terms_are_those_of_the_formula)
{
    const struct reward_weights w = {.alpha = 5, .cap = 2, .beta = 3, .kappa = 0.5, .delta = 0.25};
    static const struct {
        double p99_ms;
        int change;
        double latency, hold, churn;
    } cases[] = {
        {120, 0, 0, 0.5, 0},     /* held and in target */
        {200, 0, 0, 0.5, 0},     /* on target is in target */
        {120, 4, 0, 0, -1},      /* in target, but moved */
        {120, -4, 0, 0, -1},     /* both ways cost */
        {300, 0, -2.5, 0, 0},    /* half over */
        {600, 1, -10, 0, -0.25}, /* twice over: the cap */
        {60000, 0, -10, 0, 0},   /* far beyond it */
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct reward_input in = served_well();
        in.p99_ms = cases[i].p99_ms;
        in.change = cases[i].change;
        struct reward_terms t = reward_of(&w, &in);
        assert_near(t.latency, cases[i].latency, 1e-12, 0);
        assert_near(t.hold, cases[i].hold, 1e-12, 0);
        assert_near(t.churn, cases[i].churn, 1e-12, 0);
        assert_near(t.cost, -3 * 10 * 2 / 20.0, 1e-12, 0);
        assert_near(reward_sum(&t), t.latency + t.cost + t.hold + t.churn, 1e-12, 0);
    }
}

TEST(the_reference_preset_lets_a_millisecond_outweigh_a_hundred_unit_steps)
{
    struct reward_weights w = reward_weights_of(REWARD_REFERENCE);
    struct reward_input in = served_well();
    in.p99_ms = in.target_ms + 1;
    in.units = 100;
    struct reward_terms t = reward_of(&w, &in);
    assert_near(t.latency, -1, 1e-12, 0);
    assert_near(t.cost, -1, 1e-12, 0); /* whatever the price */
    in.p99_ms = 30000;                 /* no cap */
    assert_near(reward_of(&w, &in).latency, -29800, 1e-9, 0);
}

TEST(a_step_of_a_well_sized_service_costs_about_beta)
{
    struct reward_input in = served_well();
    in.units = 10; /* 10 units x 2 $ = the reference price */
    struct reward_weights w = reward_weights_of(REWARD_BALANCED);
    assert_near(reward_of(&w, &in).cost, -w.beta, 1e-12, 0);
}

TEST(presets_are_named_and_ordered_by_what_latency_weighs)
{
    static const char *const names[] = {"slo", "balanced", "latency", "cost", "reference"};
    for (int i = 0; i < REWARD_PRESETS; i++)
        assert_string_equal(reward_preset_names[i], names[i]);
    assert_null(reward_preset_names[REWARD_PRESETS]);
    assert_true(reward_weights_of(REWARD_COST).alpha < reward_weights_of(REWARD_BALANCED).alpha);
    assert_true(reward_weights_of(REWARD_BALANCED).alpha < reward_weights_of(REWARD_LATENCY).alpha);
    assert_near(reward_weights_of(REWARD_SLO).kappa, 0, 0, 0); /* no bonus for holding */
    assert_near(reward_weights_of(REWARD_SLO).cap, 1, 0, 0);   /* bounded shaping */
}
