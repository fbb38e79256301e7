#include "daemon/config.h"

#include "tests/support/test.h"

static enum err_code load(struct run_config *c, const char *yaml, struct err *e)
{
    const char *path = test_path("%s/run.yaml", test_tmp_dir());
    test_write_file(path, yaml, strlen(yaml));
    return run_config_load(c, path, NULL, 0, NULL, e);
}

TEST(the_default_configuration_observes_and_passes_its_own_checks)
{
    struct run_config c;
    struct err e;
    assert_ok(run_config_load(&c, NULL, NULL, 0, NULL, &e), &e);
    assert_int_equal(c.stage, STAGE_OBSERVE);
    assert_string_equal(c.policy, "mpc");
    run_config_fini(&c);
    assert_ok(opt_table_check(&run_config_table, &e), &e);
}

TEST(what_contradicts_itself_is_refused_with_file_and_key)
{
    static const struct {
        const char *yaml, *text;
    } cases[] = {
        {"policy: hpaa\n", "hpa"},
        {"policy: learned\n", "policy_file"},
        {"policy: ppo\n", "policy file"},
        {"policy: foresight\n", "future"},
        {"rules: outlook\n", "not a rule"},
        {"stage: everything\n", "stage"},
        {"stage: single\nlease: {duration: 15s, renew: 16s}\n", "retry < renew < duration"},
        {"kube: {timeout: 6s}\n", "outlive the lease"},
        {"serve: {cert_file: a.pem}\n", "go together"},
        {"serve: {external_port: 6443}\n", "external_cert_file"},
        {"challenger_share: 0.5\n", "no challenger"},
        {"challenger: hpa\nchallenger_share: 0.5\ngpu_budget: 8\n", "challenger_switch"},
        {"targets: [{namespace: a, name: b, units_max: 2, units_min: 3}]\n", "units_min"},
        {"targets: [{namespace: a, name: b}]\n", "units_max"},
        {"prometheus: {ulr: http://x}\n", "ulr"},
        {"step: 15\n", "unit"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct run_config c;
        struct err e = {0};
        enum err_code rc = load(&c, cases[i].yaml, &e);
        run_config_fini(&c);
        if (!rc || !strstr(e.msg, cases[i].text) || !strstr(e.msg, "run.yaml"))
            fail_msg("%s gave %d \"%s\"", cases[i].yaml, rc, e.msg);
    }
}

TEST(policy_and_guard_may_change_while_running_and_the_store_s_place_may_not)
{
    static const struct {
        const char *yaml, *text; /* NULL: accepted */
    } cases[] = {
        {"policy: rules\nstage: single\n", NULL},
        {"stage: global\nguard: {cooldown_in: 7min}\n", NULL},
        {"stage: single\nfreeze: true\ngpu_budget: 16\n", NULL},
        {"stage: single\nstate_dir: /elsewhere\n", "state_dir"},
        {"stage: observe\n", "restart"},
        {"stage: single\nserve: {port: 1}\n", "serve"},
        {"stage: single\nstep: 30s\n", "step"},
    };
    struct run_config now;
    struct err e;
    assert_ok(load(&now, "stage: single\n", &e), &e);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct run_config next;
        assert_ok(load(&next, cases[i].yaml, &e), &e);
        enum err_code want = cases[i].text ? ERR_MISMATCH : ERR_OK;
        assert_err(run_config_check_reload(&now, &next, &e), want, &e, cases[i].text);
        run_config_fini(&next);
    }
    run_config_fini(&now);
}
