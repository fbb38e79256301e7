/* world_test.c - from a scenario to demand, simulator and forecasts; degenerate histories; what
 * chance decides. */
#include "base/file.h"
#include "tests/unit/train/world_fixture.h"

enum { HOUR = 240 };

static enum err_code refused(const struct scenario *sc, const float *demand, int64_t n,
                             const char *zone, struct err *e)
{
    struct world *w;
    enum err_code rc = world_from_demand(sc, demand, NULL, n, WORLD_MONDAY_US, zone, &w, e);
    if (!rc)
        world_free(w);
    return rc;
}

TEST(no_traffic_at_all_is_refused)
{
    static const float demand[HOUR];
    struct scenario sc;
    struct err e;
    small_scenario(&sc);
    assert_err(refused(&sc, demand, HOUR, NULL, &e), ERR_RANGE, &e, "no traffic at all");
    scenario_fini(&sc);
}

TEST(one_sample_and_less_than_an_hour_are_refused_and_the_least_is_named)
{
    float demand[HOUR];
    struct scenario sc;
    struct err e;
    small_scenario(&sc);
    for (int i = 0; i < HOUR; i++)
        demand[i] = 50;
    assert_err(refused(&sc, demand, 0, NULL, &e), ERR_RANGE, &e, "at least an hour");
    assert_err(refused(&sc, demand, 1, NULL, &e), ERR_RANGE, &e, "the history has 1 steps");
    assert_err(refused(&sc, demand, HOUR - 1, NULL, &e), ERR_RANGE, &e, "at least an hour");
    assert_ok(refused(&sc, demand, HOUR, NULL, &e), &e);
    scenario_fini(&sc);
}

TEST(demand_that_is_no_load_is_refused_with_the_step)
{
    static const float bad[] = {-1, NAN, INFINITY};
    float demand[HOUR];
    struct scenario sc;
    struct err e;
    small_scenario(&sc);
    for (size_t k = 0; k < ARRAY_LEN(bad); k++) {
        for (int i = 0; i < HOUR; i++)
            demand[i] = 50;
        demand[77] = bad[k];
        assert_err(refused(&sc, demand, HOUR, NULL, &e), ERR_INVAL, &e, "77");
    }
    scenario_fini(&sc);
}

TEST(a_time_zone_without_data_is_refused_by_name)
{
    float demand[HOUR];
    struct scenario sc;
    struct err e;
    small_scenario(&sc);
    for (int i = 0; i < HOUR; i++)
        demand[i] = 50;
    enum err_code rc = refused(&sc, demand, HOUR, "Atlantis/Capital", &e);
    assert_true(rc != ERR_OK && strstr(e.msg, "Atlantis/Capital"));
    scenario_fini(&sc);
}

TEST(an_incident_after_the_end_is_refused_and_one_across_it_is_cut)
{
    float demand[HOUR];
    struct scenario sc;
    struct err e;
    struct scenario_fault fault = {.kind = CAPSIM_METRICS_GONE, .from_us = 3600 * US_PER_S, .to_us = 9000 * US_PER_DAY};
    small_scenario(&sc);
    for (int i = 0; i < HOUR; i++)
        demand[i] = 50;
    struct opt_subs own = sc.chance.faults;
    sc.chance.faults = (struct opt_subs){.items = &fault, .n = 1};
    assert_err(refused(&sc, demand, HOUR, NULL, &e), ERR_RANGE, &e, "chance.faults[0]: begins after the last of 240");
    fault.from_us -= 15 * US_PER_S;
    assert_ok(refused(&sc, demand, HOUR, NULL, &e), &e);
    sc.chance.faults = own;
    scenario_fini(&sc);
}

TEST(one_day_is_split_and_can_be_run)
{
    struct scenario sc;
    struct err e;
    small_scenario(&sc);
    struct world *w = wave_world(&sc, 1, 6);
    struct chance *c = chance_of(w, 1);
    assert_int_equal(w->n, WORLD_DAY);
    assert_int_equal(w->train_end, (int)(sc.train_frac * WORLD_DAY));
    for (int32_t i = 0; i < c->n_forecasts; i++)
        assert_false(c->forecast[i].usable); /* a day is no profile */
    struct capacity_config cfg;
    struct run_result *r = mem_zero(1, sizeof *r);
    config_of(w, "mpc", true, &cfg);
    struct run_opts o = run_opts_default(w);
    assert_ok(run_policy(w, c, &cfg, &o, r, &e), &e);
    assert_int_equal(r->n_days, 1);
    assert_int_equal(r->total.steps, w->n - w->train_end);
    assert_true(r->total.cost_usd > 0);
    mem_free(r);
    chance_free(c);
    world_free(w);
    scenario_fini(&sc);
}

TEST(training_ends_at_a_whole_day_when_there_are_days_enough)
{
    struct scenario sc;
    small_scenario(&sc);
    struct world *w = wave_world(&sc, 7, 6);
    assert_int_equal(w->train_end, 4 * WORLD_DAY); /* 2/3 of 7 days, rounded down */
    assert_int_equal(world_steps_per_day(w), WORLD_DAY);
    assert_int_equal(w->point_steps, 20);
    world_free(w);
    scenario_fini(&sc);
}

TEST(demand_is_scaled_so_that_its_peak_takes_the_stated_units)
{
    struct scenario sc;
    float demand[HOUR];
    small_scenario(&sc);
    sc.peak_units = 10;
    for (int i = 0; i < HOUR; i++)
        demand[i] = i == 100 ? 4 : 2;
    struct world *w = world_of(&sc, demand, NULL, HOUR);
    assert_near(w->latency.unit_qps, (double)WORLD_UNIT_QPS, 0, 1e-6);
    assert_near((double)w->demand[100], 10 * (double)WORLD_UNIT_QPS, 0, 1e-6);
    assert_near((double)w->demand[0], 5 * (double)WORLD_UNIT_QPS, 0, 1e-6);
    assert_near(w->scale, 200, 0, 1e-6);
    /* mean of the training part at 70 % use */
    double mean = (2.0 * (w->train_end - 1) + 4) / w->train_end * w->scale;
    assert_near(w->price_ref_usd_h, mean / 80 / 0.7 * 2.5, 0, 1e-6);
    world_free(w);
    sc.peak_units = 0;
    w = world_of(&sc, demand, NULL, HOUR);
    assert_near((double)w->demand[100], 4, 0, 0);
    world_free(w);
    scenario_fini(&sc);
}

TEST(the_data_hash_tells_demand_gaps_and_time_apart)
{
    struct scenario sc;
    struct err e;
    float demand[HOUR];
    uint8_t barred[HOUR] = {0};
    small_scenario(&sc);
    for (int i = 0; i < HOUR; i++)
        demand[i] = 50;
    struct world *w = world_of(&sc, demand, barred, HOUR),
                 *same = world_of(&sc, demand, NULL, HOUR);
    assert_true(w->data_hash == same->data_hash);
    barred[5] = 1;
    struct world *gap = world_of(&sc, demand, barred, HOUR), *later;
    demand[5] = 51;
    struct world *more = world_of(&sc, demand, NULL, HOUR);
    demand[5] = 50;
    assert_ok(world_from_demand(&sc, demand, NULL, HOUR, 0, NULL, &later, &e), &e);
    assert_true(w->data_hash != gap->data_hash && w->data_hash != more->data_hash);
    assert_true(w->data_hash != later->data_hash);
    world_free(w);
    world_free(same);
    world_free(gap);
    world_free(more);
    world_free(later);
    scenario_fini(&sc);
}

TEST(holidays_are_dates_and_reach_the_calendar)
{
    struct scenario sc;
    struct err e;
    float demand[HOUR];
    static const char *const bad[] = {"2024-13-01", "2024-02-30", "4 July", "2024-01-01x", ""};
    for (int i = 0; i < HOUR; i++)
        demand[i] = 50;
    for (size_t k = 0; k < ARRAY_LEN(bad); k++) {
        small_scenario(&sc);
        sc.holidays.items = mem_zero(1, sizeof(char *));
        sc.holidays.items[0] = mem_strdup(bad[k]);
        sc.holidays.n = 1;
        assert_err(refused(&sc, demand, HOUR, NULL, &e), ERR_PARSE, &e, "is not a date YYYY-MM-DD");
        scenario_fini(&sc);
    }
    small_scenario(&sc);
    sc.holidays.items = mem_zero(2, sizeof(char *));
    sc.holidays.items[0] = mem_strdup("2024-12-25");
    sc.holidays.items[1] = mem_strdup("2024-03-04"); /* the Monday; out of order */
    sc.holidays.n = 2;
    struct world *w = world_of(&sc, demand, NULL, HOUR);
    assert_true(w->trace.slot[0].holiday);
    world_free(w);
    scenario_fini(&sc);
}

TEST(a_step_that_does_not_divide_five_minutes_is_refused)
{
    struct scenario sc;
    struct err e;
    static float demand[2000];
    small_scenario(&sc);
    for (int i = 0; i < 2000; i++)
        demand[i] = 50;
    sc.step_us = 18 * US_PER_S;
    assert_err(refused(&sc, demand, 2000, NULL, &e), ERR_RANGE, &e, "does not divide 5 min");
    scenario_fini(&sc);
}

/* ---- files ------------------------------------------------------------------------------------
 */

static enum err_code world_of_csv(struct scenario *sc, const char *csv, const char *more,
                                  struct world **w, struct err *e)
{
    const char *data = test_path("%s/load.csv", test_tmp_dir()),
               *yaml = test_path("%s/world.yaml", test_tmp_dir());
    char text[1024];
    test_write_file(data, csv, strlen(csv));
    (void)snprintf(text, sizeof text,
                   "name: from_csv\nhistory:\n  format: csv\n  paths: [load.csv]\n"
                   "  options: {time: ts, qps: load%s}\n",
                   more);
    test_write_file(yaml, text, strlen(text));
    enum err_code rc = scenario_load(sc, yaml, NULL, 0, e);
    return rc ? rc : world_new(sc, w, e);
}

/* Minutes of `load`; rows of [gap_from, gap_to) are left out. */
static char *csv_minutes(int n, int gap_from, int gap_to)
{
    char *text = mem_zero((size_t)n * 32 + 32, 1);
    size_t at = (size_t)snprintf(text, 32, "ts,load\n");
    for (int i = 0; i < n; i++)
        if (i < gap_from || i >= gap_to)
            at += (size_t)snprintf(text + at, 32, "%lld,%d\n", 1709510400LL + 60 * i, 100 + i % 7);
    return text;
}

TEST(a_gap_of_the_history_is_barred_bridged_and_neither_counted_nor_forecast_from)
{
    struct scenario sc;
    struct world *w;
    struct err e;
    char *csv = csv_minutes(400, 200, 230);
    assert_ok(world_of_csv(&sc, csv, "", &w, &e), &e);
    int barred = 0;
    for (int32_t i = 0; i < w->n; i++) {
        assert_true(w->demand[i] >= 100 && w->demand[i] <= 106);
        barred += w->barred[i];
        if (w->barred[i])
            assert_in_range(i, 199 * 4, 231 * 4);
    }
    assert_in_range(barred, 29 * 4, 31 * 4);
    struct chance *c = chance_of(w, 1);
    struct capacity_config cfg;
    struct run_result *r = mem_zero(1, sizeof *r);
    config_of(w, "hpa", false, &cfg);
    struct run_opts o = run_opts_default(w);
    o.from = o.warm_steps = 0;
    assert_ok(run_policy(w, c, &cfg, &o, r, &e), &e);
    assert_int_equal(r->total.steps, w->n - barred);
    mem_free(r);
    chance_free(c);
    world_free(w);
    scenario_fini(&sc);
    mem_free(csv);
}

TEST(a_history_without_load_or_a_single_row_is_a_clear_error)
{
    static const struct {
        const char *csv, *what;
    } cases[] = {
        {"ts,load\n", "from_csv"},
        {"ts,load\n1709510400,5\n", "from_csv"},
        {"ts,other\n1709510400,5\n1709510460,5\n", "load"},
        {"ts,load\n1709510400,0\n1709510460,0\n", "from_csv"},
        {"", "from_csv"},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct scenario sc;
        struct world *w = NULL;
        struct err e;
        enum err_code rc = world_of_csv(&sc, cases[i].csv, "", &w, &e);
        if (rc == ERR_OK || !strstr(e.msg, cases[i].what))
            fail_msg("case %zu: \"%s\"", i, rc ? e.msg : "accepted");
        scenario_fini(&sc);
    }
}

TEST(zeros_for_hours_are_no_traffic)
{
    struct scenario sc;
    struct world *w;
    struct err e;
    char *csv = mem_zero(300 * 32, 1);
    size_t at = (size_t)snprintf(csv, 32, "ts,load\n");
    for (int i = 0; i < 300; i++)
        at += (size_t)snprintf(csv + at, 32, "%lld,0\n", 1709510400LL + 60 * i);
    assert_err(world_of_csv(&sc, csv, "", &w, &e), ERR_RANGE, &e, "no traffic at all");
    scenario_fini(&sc);
    mem_free(csv);
}

TEST(a_missing_history_is_named_with_its_scenario)
{
    struct scenario sc;
    struct world *w;
    struct err e;
    const char *yaml = test_path("%s/gone.yaml", test_tmp_dir());
    const char *text = "name: lost\nhistory: {file: gone.hist}\n";
    test_write_file(yaml, text, strlen(text));
    assert_ok(scenario_load(&sc, yaml, NULL, 0, &e), &e);
    enum err_code rc = world_new(&sc, &w, &e);
    assert_true(rc != ERR_OK);
    assert_non_null(strstr(e.msg, "scenario lost"));
    assert_non_null(strstr(e.msg, "gone.hist"));
    scenario_fini(&sc);
}

TEST(a_load_test_is_found_beside_its_scenario)
{
    static const char curve[] = "10,20,40\n20,30,90\n40,50,500\n";
    const char *dir = test_path("%s/beside", test_tmp_dir()), *yaml = test_path("%s/s.yaml", dir);
    static const char text[] = "name: s\ngenerator: {kind: diurnal, days: 1}\nservice: {curve: c.csv}\n";
    struct scenario sc;
    struct world *w;
    struct err e;
    assert_ok(file_make_dirs(dir, &e), &e);
    test_write_file(yaml, text, strlen(text));
    assert_ok(scenario_load(&sc, yaml, NULL, 0, &e), &e);
    assert_err(world_new(&sc, &w, &e), ERR_IO, &e, "/beside/c.csv: No such file");
    test_write_file(test_path("%s/c.csv", dir), curve, strlen(curve));
    assert_ok(world_new(&sc, &w, &e), &e);
    assert_near(w->latency.unit_qps, 40, 1e-6, 0);
    world_free(w);
    scenario_fini(&sc);
}

TEST(an_unknown_generator_is_refused_and_a_known_one_runs)
{
    struct scenario sc;
    struct world *w;
    struct err e;
    small_scenario(&sc);
    sc.generator.kind = mem_strdup("tidal");
    assert_err(world_new(&sc, &w, &e), ERR_MISSING, &e, "\"tidal\" is unknown");
    mem_free(sc.generator.kind);
    sc.generator.kind = mem_strdup("diurnal");
    sc.generator.days = 2;
    assert_ok(world_new(&sc, &w, &e), &e);
    assert_int_equal(w->n, 2 * WORLD_DAY);
    world_free(w);
    scenario_fini(&sc);
}

/* ---- chance -----------------------------------------------------------------------------------
 */

TEST(a_seed_decides_noise_and_forecasts_whatever_the_threads)
{
    struct scenario sc;
    struct err e;
    struct thread_pool *pool;
    struct chance *alone[3], *pooled[3];
    small_scenario(&sc);
    struct world *w = wave_world(&sc, 9, 6);
    assert_ok(thread_pool_new(2, &pool, &e), &e);
    assert_ok(chance_new_many(w, 5, 3, NULL, alone, &e), &e);
    assert_ok(chance_new_many(w, 5, 3, pool, pooled, &e), &e);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(alone[i]->seed, 5 + i);
        assert_memory_equal(alone[i]->factor, pooled[i]->factor, (size_t)w->n * sizeof(float));
        for (int32_t k = 0; k < alone[i]->n_forecasts; k++) {
            assert_memory_equal(alone[i]->forecast[k].mean, pooled[i]->forecast[k].mean,
                                sizeof(float[FORECAST_LEVELS]));
            assert_true(alone[i]->forecast[k].usable == pooled[i]->forecast[k].usable);
        }
        chance_free(pooled[i]);
    }
    assert_true(memcmp(alone[0]->factor, alone[1]->factor, (size_t)w->n * sizeof(float)) != 0);
    for (int i = 0; i < 3; i++)
        chance_free(alone[i]);
    thread_pool_free(pool);
    world_free(w);
    scenario_fini(&sc);
}

/* Two worlds that are alike up to a step have the same forecasts up to it: nothing looks ahead. */
TEST(a_forecast_knows_nothing_of_what_comes_after_it)
{
    struct scenario sc;
    small_scenario(&sc);
    struct world *w = wave_world(&sc, 9, 6);
    int32_t cut = 8 * WORLD_DAY;
    float *demand = mem_zero((size_t)w->n, sizeof *demand);
    for (int32_t i = 0; i < w->n; i++)
        demand[i] = i < cut ? w->demand[i] : 3 * w->demand[i] + 50;
    struct world *other = world_of(&sc, demand, NULL, w->n);
    struct chance *a = chance_of(w, 1), *b = chance_of(other, 1);
    int usable = 0, differ = 0;
    for (int32_t i = 0; i < a->n_forecasts; i++) {
        bool same =
            memcmp(a->forecast[i].mean, b->forecast[i].mean, sizeof a->forecast[i].mean) == 0;
        if (i * w->point_steps <= cut) {
            assert_true(same || isnan(a->forecast[i].mean[0]));
            usable += a->forecast[i].usable;
        } else {
            differ += !same;
        }
    }
    assert_true(usable > 0 && differ > 0);
    mem_free(demand);
    chance_free(a);
    chance_free(b);
    world_free(w);
    world_free(other);
    scenario_fini(&sc);
}

/* Whatever arrived inside a gap, nobody measured it. */
TEST(a_forecast_knows_nothing_of_what_happened_in_a_gap)
{
    struct scenario sc;
    small_scenario(&sc);
    struct world *w = wave_world(&sc, 8, 6);
    float *demand = mem_zero((size_t)w->n, sizeof *demand);
    uint8_t *barred = mem_zero((size_t)w->n, 1);
    memcpy(demand, w->demand, (size_t)w->n * sizeof *demand);
    for (int32_t i = 5 * WORLD_DAY; i < 5 * WORLD_DAY + 2 * HOUR; i++)
        barred[i] = 1;
    struct world *calm = world_of(&sc, demand, barred, w->n);
    for (int32_t i = 5 * WORLD_DAY; i < 5 * WORLD_DAY + 2 * HOUR; i++)
        demand[i] *= 20;
    struct world *wild = world_of(&sc, demand, barred, w->n),
                 *seen = world_of(&sc, demand, NULL, w->n);
    struct chance *a = chance_of(calm, 1), *b = chance_of(wild, 1), *c = chance_of(seen, 1);
    int usable = 0, differ = 0;
    for (int32_t i = 0; i < a->n_forecasts; i++) {
        const size_t size = sizeof a->forecast[i].mean;
        assert_memory_equal(a->forecast[i].mean, b->forecast[i].mean, size);
        differ += memcmp(a->forecast[i].mean, c->forecast[i].mean, size) != 0;
        usable += a->forecast[i].usable;
    }
    assert_true(usable > 0 && differ > 0); /* measured, it would have mattered */
    mem_free(demand);
    mem_free(barred);
    chance_free(a);
    chance_free(b);
    chance_free(c);
    world_free(w);
    world_free(calm);
    world_free(wild);
    world_free(seen);
    scenario_fini(&sc);
}

TEST(the_noise_of_a_chance_is_what_the_simulator_serves)
{
    struct scenario sc;
    small_scenario(&sc);
    struct world *w = wave_world(&sc, 1, 6);
    struct chance *c = chance_of(w, 3);
    struct capsim *lane = try_zero_aligned(1, sizeof *lane);
    struct capacity_view view = {0};
    struct capsim_out out;
    capsim_reset(lane, &w->sim, &w->trace, c->seed, 1000, 8, &view);
    for (int i = 1000; i < 1200; i++) {
        capsim_step(lane, &w->sim, &w->trace, 8, &view, &out);
        assert_near((double)out.arrivals, (double)w->demand[i] * (double)c->factor[i] * 15, 0,
                    1e-5);
    }
    mem_free(lane);
    chance_free(c);
    world_free(w);
    scenario_fini(&sc);
}
