/* ppo_test.c - a network on disk decides: by arg max under the mask, with and without a base, with
 * memory, and with its failures shown. */
#include "tests/unit/decide/net_fixture.h"

TEST(a_network_decides_by_its_most_probable_permitted_action)
{
    static struct fix f;
    for (int shape = NN_SEPARATE; shape <= NN_LSTM; shape++) {
        fix_config(&f, "ppo", true);
        f.cfg.net = load_net((enum nn_shape)shape, 5);
        f.cfg.guard.auditor = GUARD_AUDITOR_OFF;
        fix_start(&f);
        assert_int_equal(fix_decide(&f), 12);
        assert_int_equal(f.record.action, 5);
        assert_int_equal(f.record.error, ERR_OK);
        assert_true(f.record.prob[5] > 0.99f && isfinite(f.record.value));
        f.cfg.guard.auditor = GUARD_AUDITOR_ANY; /* no evidence: +2 is masked */
        fix_forecast(&f, 250, 260, 270);
        f.view.forecast.made_us++;
        fix_tick(&f);
        assert_true(fix_decide(&f) <= 10);
        assert_int_equal(f.record.mask[5], 0);
        assert_near((double)f.record.prob[5], 0, 0, 0);
        nn_policy_free(f.cfg.net);
    }
}

TEST(a_network_shifts_its_base)
{
    static struct fix f;
    fix_config(&f, "ppo", true);
    f.cfg.net = load_net(NN_SEPARATE, 4);
    f.cfg.guard.auditor = GUARD_AUDITOR_OFF;
    policy_use_default(&f.cfg.base, policy_find("mpc"));
    f.cfg.main.opt.ppo.base = PPO_BASE_MPC;
    fix_start(&f);
    fix_load(&f, 700);
    fix_decide(&f);
    assert_int_equal(f.record.proposed, f.record.base_units + 1);
    assert_int_equal(f.record.candidate[3], f.record.base_units);
    nn_policy_free(f.cfg.net);
}

TEST(a_recurrent_network_carries_its_state_and_only_there)
{
    static struct fix a, b;
    fix_config(&a, "ppo", true);
    a.cfg.net = load_net(NN_LSTM, 3);
    fix_start(&a);
    for (int i = 0; i < 5; i++) {
        fix_load(&a, 200 + 20 * (float)i);
        fix_decide(&a);
        fix_tick(&a);
    }
    b = a; /* the same state: the same bits */
    fix_decide(&a);
    fix_decide(&b);
    assert_memory_equal(a.record.prob, b.record.prob, sizeof a.record.prob);
    float used = 0;
    for (int i = 0; i < 64; i++)
        used += fabsf(a.state.memory.ppo.hc[i]);
    assert_true(used > 0);
    b.state.memory.ppo = (struct ppo_memory){{0}}; /* another state: another answer */
    fix_tick(&a);
    fix_tick(&b);
    b.state.memory.ppo.hc[0] = 0.9f;
    fix_decide(&a);
    fix_decide(&b);
    assert_true(memcmp(a.record.prob, b.record.prob, sizeof a.record.prob) != 0);
    nn_policy_free(a.cfg.net);
}

TEST(a_network_of_other_sizes_is_refused)
{
    static struct fix f;
    struct nn_policy *p;
    struct err e;
    fix_config(&f, "ppo", true);
    assert_ok(nn_policy_load(save_net(NN_SEPARATE, 40, 16, 3, 0), NULL, 0, &p, &e), &e);
    f.cfg.net = p;
    assert_err(capacity_config_finish(&f.cfg, &e), ERR_MISMATCH, &e, "40 inputs");
    nn_policy_free(p);
    assert_ok(nn_policy_load(save_net(NN_LSTM, CAPACITY_OBS, 96, 3, 0), NULL, 0, &p, &e), &e);
    f.cfg.net = p;
    assert_err(capacity_config_finish(&f.cfg, &e), ERR_LIMIT, &e, "192 floats of state");
    nn_policy_free(p);
}

TEST(an_output_that_is_not_finite_is_an_error_in_the_record)
{
    static struct fix f;
    fix_config(&f, "ppo", true);
    f.cfg.net = load_net(NN_LSTM, 5);
    fix_start(&f);
    f.state.memory.ppo.hc[3] = NAN;
    assert_int_equal(fix_decide(&f), 10); /* holds */
    assert_int_equal(f.record.error, ERR_NUMERIC);
    assert_int_equal(f.record.action, -1);
    nn_policy_free(f.cfg.net);
}
