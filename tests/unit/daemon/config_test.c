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
        {"stage: single\npolicy: hpaa\n", "run.yaml:2: policy: \"hpaa\" is unknown"},
        {"policy: learned\n", "policy_file"},
        {"policy: ppo\n", "policy file"},
        {"policy: foresight\n", "future"},
        {"rules: outlook\n", "not a rule"},
        {"stage: everything\n", "stage"},
        {"stage: single\nlease: {duration: 15s, renew: 16s}\n", "run.yaml:2: lease.renew: 16.0 s is not between lease.retry (2.0 s) and lease.duration (15.0 s)"},
        {"kube: {timeout: 6s}\n", "outlive the lease"},
        {"\nserve: {cert_file: a.pem}\n", "run.yaml:2: serve.cert_file and serve.key_file go together"},
        {"serve: {external_port: 6443}\n", "external_cert_file"},
        {"challenger_share: 0.5\n", "no challenger"},
        {"challenger: hpa\nchallenger_share: 0.5\ngpu_budget: 8\n", "challenger_switch"},
        {"targets:\n  - namespace: a\n    name: b\n    units_max: 2\n    units_min: 3\n", "run.yaml:5: targets[0].units_min: 3 is above"},
        {"targets: [{namespace: a, name: b}]\n", "run.yaml:1: targets[0]: units_max: required"},
        {"targets:\n  - {namespace: a, name: b, units_max: 2, policy: hpaa}\n", "run.yaml:2: targets[0].policy: \"hpaa\" is unknown"},
        {"rules: hpaa\n", "run.yaml:1: rules: \"hpaa\" is unknown"},
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

TEST(a_wrong_value_of_the_command_line_is_not_blamed_on_the_file)
{
    static const struct {
        const char *set, *text;
    } cases[] = {
        {"policy=hpaa", "--set policy: \"hpaa\" is unknown"},
        {"polcy=hpa", "--set polcy=hpa: polcy: unknown key"},
        {"lease.duration=5s", "--set lease.duration: lease.renew: 10.0 s is not between"},
        {"step=15", "--set step: 15: a unit is required"},
        {"challenger_share=0.5", "--set challenger_share"},
    };
    const char *path = test_path("%s/run.yaml", test_tmp_dir());
    test_write_file(path, "policy: mpc\nlease: {renew: 10s}\n", strlen("policy: mpc\nlease: {renew: 10s}\n"));
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct run_config c;
        struct err e = {0};
        char set[64], *sets[] = {set};
        (void)snprintf(set, sizeof set, "%s", cases[i].set);
        enum err_code rc = run_config_load(&c, path, sets, 1, NULL, &e);
        run_config_fini(&c);
        if (!rc || strncmp(e.msg, cases[i].text, strlen(cases[i].text)) != 0)
            fail_msg("--set %s gave %d \"%s\"", cases[i].set, rc, e.msg);
    }
}

TEST(zone_and_holidays_are_refused_where_they_stand_and_the_zone_only_where_it_matters)
{
    const char *path = test_path("%s/run.yaml", test_tmp_dir()), *zone = "policy: mpc\ntimezone: Mars/Base\n";
    struct run_config c;
    struct err e;
    assert_err(load(&c, "policy: mpc\nholidays:\n  - 2026-12-25\n  - 2026-13-01\n", &e), ERR_PARSE, &e,
               "run.yaml:2: holidays: \"2026-13-01\" is not a date");
    run_config_fini(&c);
    test_write_file(path, zone, strlen(zone));
    assert_err(run_config_load_here(&c, path, NULL, 0, NULL, &e), ERR_MISSING, &e, "run.yaml:2: timezone: time zone Mars/Base");
    run_config_fini(&c);
    assert_ok(run_config_load(&c, path, NULL, 0, NULL, &e), &e); /* a freeze */
    run_config_fini(&c);
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
