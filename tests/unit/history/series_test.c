/* Every public series of autoscale-qps against the figures of its index.tsv, with the options each
 * needs. */
#include "base/tz.h"
#include "history/inspect.h"
#include "tests/unit/history/hist_fixture.h"

struct series {
    const char *file;
    const char *options[6];
    double unit; /* index value per stored value: 60 where a count per minute became a rate */
    int shared;  /* rows that share a step with one of another time, which the index does not count
                  */
};

static const struct series all[] = {
    {"nasa_jul95_1m.csv", {"qps=requests", "per_step=qps"}, 60, 0},
    {"twitter_stream_2021_1m.csv", {"qps=messages", "per_step=qps"}, 60, 0},
    {"nab_elb_request_count_8c0756.csv", {"qps=value", "per_step=qps"}, 300, 0},
    {"nab_ec2_request_latency_system_failure.csv",
     {"p99_latency_ms=value", "scale=p99_latency_ms=1000"},
     1e-3,
     1 /* twelve stand at 03:00:00, off the grid of 03:01:00: the lost hour of a clock change */},
    {"nab_nyc_taxi.csv", {"qps=value", "per_step=qps"}, 1800, 0},
    {"nab_cpu_utilization_asg_misconfiguration.csv",
     {"cpu_util=value", "scale=cpu_util=0.01"},
     100,
     0},
    {"nab_grok_asg_anomaly.csv", {"qps=value"}, 1, 0},
    {"nab_Twitter_volume_AMZN.csv", {"qps=value", "per_step=qps"}, 300, 0},
    {"nab_Twitter_volume_AAPL.csv", {"qps=value", "per_step=qps"}, 300, 0},
    {"nab_ec2_network_in_257a54.csv", {"qps=value"}, 1, 0},
    {"nab_rds_cpu_utilization_e47b3b.csv", {"cpu_util=value", "scale=cpu_util=0.01"}, 100, 0},
    {"crane_input2.csv", {"qps=value"}, 1, 0},
    {"crane_input5.csv", {"qps=value"}, 1, 0},
    {"crane_input8.csv", {"qps=value"}, 1, 0},
    {"crane_input9.csv", {"qps=value"}, 1, 0},
    {"crane_input12.csv", {"qps=value"}, 1, 0},
    {"crane_input13.csv", {"qps=value"}, 1, 0},
    {"helios_earth_vc6YE_5m.csv",
     {"qps=running_gpu_num+pending_gpu_num", "units_total=total_gpu_num"},
     1,
     0},
    {"helios_earth_vcvlY_5m.csv",
     {"qps=running_gpu_num+pending_gpu_num", "units_total=total_gpu_num"},
     1,
     0},
    {"helios_earth_vcLJZ_5m.csv",
     {"qps=running_gpu_num+pending_gpu_num", "units_total=total_gpu_num"},
     1,
     0},
    {"helios_earth_vcpDC_5m.csv",
     {"qps=running_gpu_num+pending_gpu_num", "units_total=total_gpu_num"},
     1,
     0},
    {"philly_nodes_5m.csv", {"qps=active", "units_total=total"}, 1, 0},
    {"google2019_cell_usage_5m.csv", {"cpu_util=avg_cpu", "time_format=row", "step=300s"}, 1, 0},
    {"alibaba2018_machine_usage_5m.csv",
     {"cpu_util=cpu_util_percent", "scale=cpu_util=0.01", "time_format=row", "step=300s"},
     100,
     0},
    {"prophet_example_wp_log_peyton_manning.csv", {"qps=y"}, 1, 0},
};

/* Columns of index.tsv. */
enum {
    FILE_NAME,
    ROWS,
    FIRST,
    SPAN,
    STEP,
    FORMAT,
    UNIT,
    GAPS,
    REPEATED,
    BACKWARD,
    ZERO_RUN,
    MIN,
    MEDIAN,
    P99,
    MAX,
    AC_DAY,
    AC_WEEK,
    N_COLS
};

static int split(char *line, char *cols[N_COLS])
{
    int n = 0;
    for (char *at = line; at && n < N_COLS; n++) {
        cols[n] = at;
        at = strpbrk(at, "\t\n");
        if (at)
            *at++ = 0;
    }
    return n;
}

static bool index_row(const char *dir, const char *file, char line[1024], char *cols[N_COLS])
{
    bool found = false;
    FILE *f = fopen(test_path("%s/autoscale-qps/index.tsv", dir), "r");
    if (!f)
        fail_msg("no index.tsv");
    while (!found && fgets(line, 1024, f))
        found = split(line, cols) >= AC_DAY && strcmp(cols[FILE_NAME], file) == 0;
    (void)fclose(f);
    return found;
}

static double at(char *cols[N_COLS], int i)
{
    return cols[i] && *cols[i] ? strtod(cols[i], NULL) : NAN;
}

static void compare(const struct series *s, const struct fixture *f, char *cols[N_COLS])
{
    struct inspect in;
    struct err e = {0};
    int64_t first_us;
    int field = 0;
    assert_ok(history_inspect(&f->h, &in, &e), &e);
    while (!in.field[field].present || (enum field)field == FIELD_UNITS_TOTAL)
        field++;
    const struct inspect_field *x = &in.field[field];
    assert_ok(tz_parse_naive(cols[FIRST], strlen(cols[FIRST]), &first_us, &e), &e);
    assert_true(llabs(first_us - f->h.start_us) <=
                f->h.step_us / 2); /* philly shifts by 4 min half way */
    assert_near((double)f->report.rows, at(cols, ROWS), 0, 0);
    assert_near((double)f->h.step_us * 1e-6, at(cols, STEP), 0, 0);
    assert_near((double)((f->h.n - 1) * f->h.step_us) / 86400e6, at(cols, SPAN), 0.006, 1e-3);
    assert_near(x->min * s->unit, at(cols, MIN), 0, 5e-6);
    assert_near(x->max * s->unit, at(cols, MAX), 0, 5e-6);
    assert_near(x->median * s->unit, at(cols, MEDIAN), 0,
                2e-3); /* filled samples shift it a little */
    assert_near(x->p99 * s->unit, at(cols, P99), 0, 5e-3);
    assert_int_equal(x->longest_zero_run, (int64_t)at(cols, ZERO_RUN));
    assert_int_equal(f->report.tally[TALLY_UNSORTED].count, (uint64_t)at(cols, BACKWARD));
    assert_int_equal(f->report.tally[TALLY_REPEATED].count,
                     (uint64_t)at(cols, REPEATED) + (uint64_t)s->shared);
    /* The index has two decimals and counts its lag in rows, so gaps shift it. */
    double slack = at(cols, GAPS) > 0 ? 0.03 : 0.011;
    if (!isnan(at(cols, AC_DAY)))
        assert_near(x->autocorr_day, at(cols, AC_DAY), slack, 0);
    if (!isnan(at(cols, AC_WEEK)) && (double)f->h.n * (double)f->h.step_us > 9 * 86400e6)
        assert_near(x->autocorr_week, at(cols, AC_WEEK), slack, 0);
}

TEST(every_public_series_agrees_with_its_index)
{
    const char *dir = test_data_dir();
    for (size_t i = 0; i < ARRAY_LEN(all); i++) {
        struct fixture f;
        char line[1024], *cols[N_COLS] = {NULL};
        print_message("           %s\n", all[i].file);
        assert_true(index_row(dir, all[i].file, line, cols));
        assert_ok(fixture_import(&f, "csv", all[i].options,
                                 test_path("%s/autoscale-qps/%s", dir, all[i].file)),
                  &f.e);
        compare(&all[i], &f, cols);
        assert_int_equal(f.report.gaps,
                         (uint64_t)at(cols, GAPS) * (f.h.col[FIELD_UNITS_TOTAL] ? 2 : 1));
        fixture_fini(&f);
    }
}

struct gap_case {
    const char *file;
    const char *options[5];
    uint64_t zeros; /* turned into gaps */
};

TEST(zeros_that_are_gaps_are_barred_where_the_archive_says_so)
{
    static const struct gap_case cases[] = {
        {"twitter_stream_2021_1m.csv",
         {"qps=messages", "per_step=qps", "zero_gap=20min"},
         19 * 28 + 2 * 29 /* every night */},
        {"helios_earth_vcLJZ_5m.csv", {"qps=running_gpu_num+pending_gpu_num", "zero_gap=24h"}, 289},
        {"nasa_jul95_1m.csv", {"qps=requests", "per_step=qps", "zero_gap=60min"}, 0},
    };
    const char *dir = test_data_dir();
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct fixture f;
        assert_ok(fixture_import(&f, "csv", cases[i].options,
                                 test_path("%s/autoscale-qps/%s", dir, cases[i].file)),
                  &f.e);
        print_message("           %s: %llu zeros, %llu barred\n", cases[i].file,
                      (unsigned long long)f.report.tally[TALLY_ZERO_GAP].count,
                      (unsigned long long)f.report.barred);
        assert_int_equal(f.report.barred, f.report.tally[TALLY_ZERO_GAP].count);
        assert_int_equal(f.report.barred, cases[i].zeros);
        fixture_fini(&f);
    }
}
