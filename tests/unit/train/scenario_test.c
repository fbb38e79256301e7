/* scenario_test.c - a scenario file says exactly what is wrong with it, and where. */
#include "base/mem.h"
#include "tests/support/test.h"
#include "train/scenario.h"

static const char *write_scenario(const char *text)
{
    const char *path = test_path("%s/scenario.yaml", test_tmp_dir());
    test_write_file(path, text, strlen(text));
    return path;
}

static void assert_loads(struct scenario *sc, const char *text)
{
    struct err e;
    assert_ok(scenario_load(sc, write_scenario(text), NULL, 0, &e), &e);
}

TEST(a_scenario_has_the_stated_defaults)
{
    struct scenario sc;
    assert_loads(&sc, "name: s\ngenerator: {kind: diurnal}\n");
    assert_string_equal(sc.name, "s");
    assert_int_equal(sc.step_us, 15 * 1000000);
    assert_int_equal(sc.service.units_max, 64);
    assert_int_equal(sc.service.units_min, 1);
    assert_int_equal(sc.service.slo_p99_us, 200000);
    assert_near(sc.service.slo_violation_max, 0.01, 0, 0);
    assert_near(sc.service.tune_violation_max, 0.007, 0, 0);
    assert_near(sc.train_frac, 2.0 / 3, 1e-3, 0);
    assert_int_equal(sc.preset, REWARD_BALANCED);
    struct capsim_cfg sim = scenario_sim(&sc, sc.step_us);
    assert_near(sim.start_min_s, 120, 0, 0);
    assert_near(sim.start_max_s, 180, 0, 0);
    assert_near(sim.unavailable_frac, 0.01, 0, 0);
    assert_near(sim.noise_frac, 0.2, 0, 0);
    assert_near(sim.noise_correlated_share, 0.5, 0, 0);
    assert_int_equal(scenario_spec(&sc, NULL).start_us, 150 * 1000000);
    scenario_fini(&sc);
}

TEST(every_option_reaches_the_simulator_and_the_decision)
{
    struct scenario sc;
    assert_loads(&sc, "name: s\n"
                      "generator: {kind: diurnal, days: 3, seed: 9}\n"
                      "step: 30s\n"
                      "service: {units_min: 2, units_max: 7, units_min_safe: 3, gpus_per_unit: 4, "
                      "price_usd_h: 1.5,\n"
                      "          slo_p99: 0.5s, class: P1}\n"
                      "guard: {cooldown_in: 7min, up_steps: 3}\n"
                      "chance:\n"
                      "  start: lognormal\n"
                      "  start_min: 1min\n"
                      "  start_max: 4min\n"
                      "  repair: 5min\n"
                      "  timeout: 20s\n"
                      "  faults:\n"
                      "    - {kind: registry-down, from: 1h, to: 2h}\n"
                      "    - {kind: gauges-fixed, from: 3h, to: 4h, value: 0.82, value2: 0.45}\n");
    struct capacity_spec spec = scenario_spec(&sc, NULL);
    assert_int_equal(spec.units_min, 2);
    assert_int_equal(spec.units_max, 7);
    assert_int_equal(spec.units_min_safe, 3);
    assert_int_equal(spec.gpus_per_unit, 4);
    assert_int_equal(spec.cls, CLASS_P1);
    assert_near(spec.price_usd_h, 1.5, 0, 0);
    assert_near(spec.slo_p99_ms, 500, 0, 0);
    assert_int_equal(spec.step_us, 30 * 1000000);
    assert_int_equal(sc.guard.cooldown_in_us, 420 * INT64_C(1000000));
    assert_int_equal(sc.guard.up_steps, 3);
    struct capsim_cfg sim = scenario_sim(&sc, sc.step_us);
    assert_int_equal(sim.start, CAPSIM_START_LOGNORMAL);
    assert_near(sim.repair_s, 300, 0, 0);
    assert_near(sim.timeout_s, 20, 0, 0);
    assert_int_equal(sim.n_faults, 2);
    assert_int_equal(sim.fault[0].kind, CAPSIM_REGISTRY_DOWN);
    assert_int_equal(sim.fault[0].from_step, 120);
    assert_int_equal(sim.fault[0].to_step, 240);
    assert_int_equal(sim.fault[1].kind, CAPSIM_GAUGES_FIXED);
    assert_near((double)sim.fault[1].value, 0.82, 1e-6, 0);
    assert_near((double)sim.fault[1].value2, 0.45, 1e-6, 0);
    scenario_fini(&sc);
}

TEST(mistakes_name_file_line_and_key)
{
    static const struct {
        const char *text, *where, *what;
        enum err_code code;
    } cases[] = {
        {"name: s\ngenerator: {kind: diurnal}\npeak_unitz: 4\n", "scenario.yaml:3", "peak_unitz",
         ERR_PARSE},
        {"name: s\ngenerator: {kind: diurnal}\nservice:\n  units_maxx: 4\n", "scenario.yaml:4",
         "units_maxx", ERR_PARSE},
        {"name: s\ngenerator: {kind: diurnal}\nservice:\n  units_max: 0\n", "scenario.yaml:4",
         "units_max", ERR_RANGE},
        {"name: s\ngenerator: {kind: diurnal}\nservice:\n  units_max: 4097\n", "scenario.yaml:4",
         "units_max", ERR_RANGE},
        {"name: s\ngenerator: {kind: diurnal}\nservice:\n  units_max: many\n", "scenario.yaml:4",
         "units_max", ERR_PARSE},
        {"name: s\ngenerator: {kind: diurnal}\nstep: 15\n", "scenario.yaml:3", "step", ERR_PARSE},
        {"name: s\ngenerator: {kind: diurnal}\nstep: 15 parsecs\n", "scenario.yaml:3", "step",
         ERR_PARSE},
        {"name: s\ngenerator: {kind: diurnal}\nstep: 1h\n", "scenario.yaml:3", "step", ERR_RANGE},
        {"name: s\ngenerator: {kind: diurnal}\nchance:\n  noise_frac: 1.5\n", "scenario.yaml:4",
         "noise_frac", ERR_RANGE},
        {"name: s\ngenerator: {kind: diurnal}\nchance:\n  noise_frac: .nan\n", "scenario.yaml:4",
         "noise_frac", ERR_PARSE},
        {"name: s\ngenerator: {kind: diurnal}\nchance:\n  noise_frac: 1e999\n", "scenario.yaml:4",
         "noise_frac", ERR_PARSE},
        {"name: s\ngenerator: {kind: diurnal}\nchance:\n  faults:\n    - {kind: sharknado, from: "
         "1h, to: 2h}\n",
         "scenario.yaml:5", "sharknado", ERR_PARSE},
        {"name: s\ngenerator: {kind: diurnal}\nchance:\n  faults:\n    - {kind: metrics-gone, "
         "from: 1h}\n",
         "scenario.yaml", "to", ERR_MISSING},
        {"name: s\ngenerator: {kind: diurnal}\ntrain_frac: 0\n", "scenario.yaml:3", "train_frac",
         ERR_RANGE},
        {"name: s\ngenerator: {kind: diurnal}\nreward: glory\n", "scenario.yaml:3", "reward",
         ERR_PARSE},
        {"name: s\ngenerator:\n  kind:\n", "scenario.yaml:3", "kind", ERR_PARSE},
        {"name: s\nname: t\ngenerator: {kind: diurnal}\n", "scenario.yaml:2", "name", ERR_PARSE},
        {"generator: {kind: diurnal}\n", "scenario.yaml", "name", ERR_MISSING},
        {"name: s\ngenerator: [\n", "scenario.yaml", "", ERR_PARSE},
        {"", "scenario.yaml", "", ERR_MISSING},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct scenario sc;
        struct err e;
        enum err_code rc = scenario_load(&sc, write_scenario(cases[i].text), NULL, 0, &e);
        if (rc != cases[i].code || !strstr(e.msg, cases[i].where) || !strstr(e.msg, cases[i].what))
            fail_msg("case %zu: %s: \"%s\"", i, err_code_text(rc), rc ? e.msg : "");
        scenario_fini(&sc);
    }
}

TEST(rules_over_several_keys_are_checked)
{
    static const struct {
        const char *text, *what;
        enum err_code code;
    } cases[] = {
        {"name: s\n", "either history", ERR_INVAL},
        {"name: s\ngenerator: {kind: diurnal}\nhistory: {file: a.hist}\n", "either history",
         ERR_INVAL},
        {"name: s\ngenerator: {kind: diurnal}\nservice: {units_min: 9, units_max: 4}\n",
         "units_min", ERR_RANGE},
        {"name: s\ngenerator: {kind: diurnal}\nchance: {start_min: 5min, start_max: 4min}\n",
         "start_min", ERR_RANGE},
        {"name: s\ngenerator: {kind: diurnal}\nservice: {tune_violation_max: 0.02}\n",
         "tune_violation_max", ERR_RANGE},
        /* p99 shows at most the timeout: nothing could ever be over such a target */
        {"name: s\ngenerator: {kind: diurnal}\nchance: {timeout: 2s}\nservice: {slo_p99: 2s}\n",
         "chance.timeout: 2s is not above service.slo_p99 (2s)", ERR_RANGE},
        {"name: s\ngenerator: {kind: diurnal}\nservice: {slo_p99: 1h}\n", "chance.timeout",
         ERR_RANGE},
        {"name: s\ngenerator: {kind: diurnal}\n"
         "chance: {faults: [{kind: metrics-gone, from: 2h, to: 2h}]}\n",
         "chance.faults[0]: ends before it begins", ERR_RANGE},
        {"name: s\ngenerator: {kind: diurnal}\nchance: {start_min: 0s, start_max: 0s}\n",
         "chance.start_max: 0s: below 1s", ERR_RANGE},
        {"name: ''\ngenerator: {kind: diurnal}\n", "name: 0 bytes", ERR_RANGE},
        {"name: 1234567890123456789012345678901234567890123456789012345678901\n"
         "generator: {kind: diurnal}\n",
         "name: 61 bytes", ERR_RANGE},
        {"name: \"a\\e[31m\"\ngenerator: {kind: diurnal}\n", "name: holds control characters",
         ERR_RANGE},
        {"name: \"a\\nb\"\ngenerator: {kind: diurnal}\n", "name: holds control characters",
         ERR_RANGE},
        {"name: \"a\\u202Eb\"\ngenerator: {kind: diurnal}\n", "name: holds control characters",
         ERR_RANGE},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct scenario sc;
        struct err e;
        enum err_code rc = scenario_load(&sc, write_scenario(cases[i].text), NULL, 0, &e);
        if (rc != cases[i].code || !strstr(e.msg, cases[i].what))
            fail_msg("case %zu: %s: \"%s\"", i, err_code_text(rc), rc ? e.msg : "");
        scenario_fini(&sc);
    }
}

TEST(rules_over_several_keys_name_the_line_of_one_that_was_given)
{
    static const struct {
        const char *text, *where, *set;
    } cases[] = {
        {"name: s\ngenerator:\n  kind: diurnal\nservice:\n  units_max: 4\n  units_min: 9\n", ".yaml:6: service.units_min: 9", NULL},
        {"name: s\ngenerator:\n  kind: diurnal\nservice:\n  units_max: 0\n", ".yaml:5: service.units_", NULL}, /* the other is a default */
        {"name: s\ngenerator:\n  kind: diurnal\nchance:\n  start_min: 5min\n  start_max: 4min\n", ".yaml:5: chance.start_min", NULL},
        {"name: s\ngenerator:\n  kind: diurnal\nservice:\n  tune_violation_max: 0.02\n", ".yaml:5: service.tune", NULL},
        {"name: s\ngenerator:\n  kind: diurnal\nservice:\n  slo_p99: 1h\n", ".yaml:5: chance.timeout", NULL},
        {"name: s\ngenerator:\n  kind: diurnal\nhistory:\n  file: a.hist\n", ".yaml:4: give either", NULL},
        {"name: s\ngenerator:\n  kind: diurnal\nchance:\n  faults:\n    - {kind: metrics-gone, from: 2h, to: 2h}\n",
         ".yaml:6: chance.faults[0]", NULL},
        {"name: s\n", ".yaml: give either", NULL},
        {"name: s\ngenerator:\n  kind: diurnal\n", "--set service.units_min: 99", "service.units_min=99"},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct scenario sc;
        struct err e;
        char set[64], *sets[] = {set};
        (void)snprintf(set, sizeof set, "%s", cases[i].set ? cases[i].set : "");
        enum err_code rc = scenario_load(&sc, write_scenario(cases[i].text), sets, cases[i].set != NULL, &e);
        if (!rc || !strstr(e.msg, cases[i].where))
            fail_msg("case %zu: \"%s\"", i, rc ? e.msg : "");
        scenario_fini(&sc);
    }
}

TEST(more_incidents_than_the_simulator_holds_are_refused)
{
    char text[4096];
    struct scenario sc;
    struct err e;
    size_t n = (size_t)snprintf(text, sizeof text,
                                "name: s\ngenerator: {kind: diurnal}\nchance:\n  faults:\n");
    for (int i = 0; i <= CAPSIM_FAULTS_MAX; i++)
        n += (size_t)snprintf(text + n, sizeof text - n,
                              "    - {kind: metrics-gone, from: %dh, to: %dh}\n", i, i + 1);
    assert_err(scenario_load(&sc, write_scenario(text), NULL, 0, &e), ERR_LIMIT, &e,
               "chance.faults: 17");
    scenario_fini(&sc);
}

TEST(a_missing_scenario_file_is_named)
{
    struct scenario sc;
    struct err e;
    assert_err(scenario_load(&sc, "/nonexistent/x.yaml", NULL, 0, &e), ERR_IO, &e,
               "/nonexistent/x.yaml");
    scenario_fini(&sc);
}

TEST(assignments_override_the_file_and_change_the_hash)
{
    struct scenario a, b;
    struct err e;
    char set[] = "service.units_max=7", *sets[] = {set};
    const char *path = write_scenario("name: s\ngenerator: {kind: diurnal}\n");
    assert_ok(scenario_load(&a, path, NULL, 0, &e), &e);
    assert_ok(scenario_load(&b, path, sets, 1, &e), &e);
    assert_int_equal(b.service.units_max, 7);
    assert_true(a.config_hash != b.config_hash);
    scenario_fini(&b);
    assert_ok(scenario_load(&b, path, NULL, 0, &e), &e);
    assert_true(a.config_hash == b.config_hash);
    scenario_fini(&a);
    scenario_fini(&b);
}

TEST(the_data_folder_is_expanded_from_the_environment)
{
    struct scenario sc;
    char *was = getenv("SLUICE_DATA");
    was = was ? mem_strdup(was) : NULL;
    assert_int_equal(setenv("SLUICE_DATA", "/somewhere", 1), 0);
    assert_loads(&sc, "name: s\nhistory: {format: csv, paths: [$SLUICE_DATA/a.csv, b.csv]}\n"
                      "service: {curve: $SLUICE_DATA/c.csv}\n");
    assert_string_equal(sc.history.paths.items[0], "/somewhere/a.csv");
    assert_string_equal(sc.history.paths.items[1], "b.csv");
    assert_string_equal(sc.service.curve, "/somewhere/c.csv");
    scenario_fini(&sc);
    if (was)
        (void)setenv("SLUICE_DATA", was, 1);
    else
        (void)unsetenv("SLUICE_DATA");
    mem_free(was);
}

TEST(the_option_table_is_sound)
{
    struct err e;
    assert_ok(opt_table_check(&scenario_table, &e), &e);
}
