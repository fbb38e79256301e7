#include "tests/unit/forecast/shared_series.h"

#include "base/mem.h"
#include "base/tz.h"
#include "forecast/forecaster.h"
#include "tests/support/test.h"

enum { MAX_POINTS = 40000, LINE = 1024 };

static const struct {
    const char *name;
    int column, also; /* 0-based; `also` is added when > 0 */
} FILES[SHARED_SERIES] = {
    {"nasa_jul95_1m", 1, 0},
    {"twitter_stream_2021_1m", 1, 0},
    {"nab_elb_request_count_8c0756", 1, 0},
    {"nab_ec2_request_latency_system_failure", 1, 0},
    {"nab_cpu_utilization_asg_misconfiguration", 1, 0},
    {"nab_grok_asg_anomaly", 1, 0},
    {"nab_Twitter_volume_AMZN", 1, 0},
    {"nab_Twitter_volume_AAPL", 1, 0},
    {"nab_ec2_network_in_257a54", 1, 0},
    {"nab_rds_cpu_utilization_e47b3b", 1, 0},
    {"crane_input2", 1, 0},
    {"crane_input5", 1, 0},
    {"crane_input8", 1, 0},
    {"crane_input9", 1, 0},
    {"crane_input12", 1, 0},
    {"crane_input13", 1, 0},
    {"helios_earth_vc6YE_5m", 2, 3},
    {"helios_earth_vcvlY_5m", 2, 3},
    {"helios_earth_vcLJZ_5m", 2, 3},
    {"helios_earth_vcpDC_5m", 2, 3},
    {"philly_nodes_5m", 1, 0},
    {"google2019_cell_usage_5m", 0, 0},
};

const char *shared_series_name(int k)
{
    return FILES[k].name;
}

static double column(const char *line, int k)
{
    for (; k > 0 && line; k--)
        line = strchr(line, ',') ? strchr(line, ',') + 1 : NULL;
    return line ? strtod(line, NULL) : NAN;
}

static int64_t time_s(const char *line, int64_t row, int k)
{
    int64_t us = 0;
    if (FILES[k].column == 0)
        return 300 * row;
    if (line[4] != '-')
        return strtoll(line, NULL, 10);
    if (tz_parse_naive(line, 19, &us, NULL) != ERR_OK)
        fail_msg("%s: %s", FILES[k].name, line);
    return us / 1000000;
}

static double value(const char *line, int64_t t, int k)
{
    double v = column(line, FILES[k].column);
    if (FILES[k].also)
        v += column(line, FILES[k].also);
    bool twitter_hole = strncmp(FILES[k].name, "twitter", 7) == 0 && t / 60 % 1440 >= 1411;
    bool helios_hole =
        strncmp(FILES[k].name, "helios", 6) == 0 && strncmp(line, "2020-05-10", 10) == 0;
    bool philly_hole = strncmp(FILES[k].name, "philly", 6) == 0 && v == 0;
    return twitter_hole || helios_hole || philly_hole ? NAN : v;
}

void shared_series_load(const char *data_dir, int k, struct forecast_series *out)
{
    const char *path = test_path("%s/autoscale-qps/%s.csv", data_dir, FILES[k].name);
    FILE *f = fopen(path, "r");
    char line[LINE];
    double *sum = mem_zero(MAX_POINTS, sizeof *sum);
    int *count = mem_zero(MAX_POINTS, sizeof *count);
    int64_t first = -1, second = -1, start = 0, n = 0;
    if (!f || !fgets(line, sizeof line, f))
        fail_msg("cannot read %s", path);
    for (int64_t row = 0; fgets(line, sizeof line, f); row++) {
        int64_t t = time_s(line, row, k);
        if (row == 0)
            start = (first = t) / 300;
        if (row == 1)
            second = t;
        int64_t i = t / 300 - start;
        double v = value(line, t, k);
        if (i < 0 || i >= MAX_POINTS)
            fail_msg("%s: row %lld is at point %lld", path, (long long)row, (long long)i);
        n = i + 1 > n ? i + 1 : n;
        if (isnan(v))
            continue;
        bool replace = second - first >= 300; /* repeats of a bucket keep the last */
        sum[i] = replace ? v : sum[i] + v;
        count[i] = replace ? 1 : count[i] + 1;
    }
    (void)fclose(f);
    int need = second - first >= 300 ? 1 : 3;
    *out = (struct forecast_series){
        .start_us = start * FORECAST_POINT_US, .n = n, .y = mem_zero((size_t)n, 4)};
    for (int64_t i = 0; i < n; i++) {
        out->y[i] = count[i] >= need ? (float)(sum[i] / count[i]) : NAN;
        out->n_missing += count[i] < need;
    }
    mem_free(sum);
    mem_free(count);
}
