/* csv_bench.c - reading: CSV rows per second from file to cleaned history, and opening a history
 * file.
 *
 *   csv_rows_per_s          two columns, epoch seconds and a number of 6 decimals
 *   csv_local_rows_per_s    the same with "YYYY-MM-DD HH:MM:SS" in Europe/Berlin
 *   csv_wide_rows_per_s     13 columns, 10 of them mapped
 *   history_open_ms         90 days x 15 s x every field, all checks included (file in the page
 * cache) */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/mem.h"
#include "base/opt.h"
#include "base/tz.h"
#include "bench/bench.h"
#include "history/file.h"
#include "history/import.h"
#include "history/table.h"

enum { ROWS = 1000000, WIDE_ROWS = 200000, OPENED_STEPS = 518400 };
static const int64_t START_S = 1633651200;

struct csv_case {
    const char *const *options;
    char *path;
    int rows;
};

static void stop(const struct err *e)
{
    (void)fprintf(stderr, "csv_bench: %s\n", e->msg);
    exit(1);
}

static double import_rows(void *arg)
{
    const struct csv_case *c = arg;
    struct import_cfg cfg;
    struct history h;
    struct import_report report;
    struct err e = {0};
    opt_init(&import_table, &cfg);
    for (const char *const *o = c->options; *o; o++)
        if (opt_set(&import_table, &cfg, *o, NULL, &e))
            stop(&e);
    double t0 = bench_now_s();
    if (import_run("csv", &cfg, &c->path, 1, &h, &report, &e))
        stop(&e);
    double rate = c->rows / (bench_now_s() - t0);
    if (report.rows != (uint64_t)c->rows)
        (void)fprintf(stderr, "csv_bench: %s: not every row arrived\n", c->path);
    history_close(&h);
    opt_fini(&import_table, &cfg);
    return rate;
}

static FILE *create(const char *path)
{
    FILE *f = fopen(path, "w");
    if (!f) {
        perror(path);
        exit(1);
    }
    return f;
}

/* Deterministic, looks like measurements. */
static double value_at(int i, int k)
{
    return (double)((i * INT64_C(7919) + k * 104729) % 1000003) * 1e-3 + 0.000001 * k;
}

static void write_two_columns(const char *path, bool local)
{
    FILE *f = create(path);
    (void)fputs("ts,value\n", f);
    for (int i = 0; i < ROWS; i++) {
        char stamp[TZ_TEXT];
        (void)snprintf(stamp, sizeof stamp, "%lld", (long long)(START_S + 60 * (int64_t)i));
        if (local)
            tz_format_naive((START_S + 60 * (int64_t)i) * 1000000, stamp);
        (void)fprintf(f, "%s,%.6f\n", stamp, value_at(i, 0));
    }
    (void)fclose(f);
}

static void write_wide(const char *path)
{
    FILE *f = create(path);
    (void)fputs(
        "time,note,gpu_util,gpu_mem_util,cpu_util,mem_util,qps,p50_latency_ms,p99_latency_ms,"
        "queue_len,units_ready,units_total,zone\n",
        f);
    for (int i = 0; i < WIDE_ROWS; i++) {
        (void)fprintf(f, "%lld,x", (long long)(START_S + 15 * (int64_t)i));
        for (int k = 0; k < FIELD_COUNT; k++)
            (void)fprintf(f, ",%.5g", k < 4 ? value_at(i, k) / 2000 : value_at(i, k));
        (void)fputs(",a\n", f);
    }
    (void)fclose(f);
}

static double open_ms(void *arg)
{
    struct history h;
    struct err e = {0};
    double t0 = bench_now_s();
    if (history_open(arg, &h, NULL, &e))
        stop(&e);
    double ms = 1e3 * (bench_now_s() - t0);
    history_close(&h);
    return ms;
}

static void write_history(const char *path)
{
    bool has[FIELD_COUNT];
    struct history h;
    struct err e = {0};
    memset(has, 1, sizeof has);
    if (history_new(START_S * 1000000, 15000000, OPENED_STEPS, has, &h, &e))
        stop(&e);
    for (int f = 0; f < FIELD_COUNT; f++)
        for (int i = 0; i < OPENED_STEPS; i++)
            history_col(&h, (enum field)f)[i] = (float)value_at(i, f) / 2000;
    if (history_write(path, &h, NULL, &e))
        stop(&e);
    history_close(&h);
}

int main(void)
{
    static const char *const epoch[] = {"time=ts", "qps=value", NULL};
    static const char *const local[] = {"time=ts", "qps=value", "zone=Europe/Berlin", NULL};
    static const char *const wide[] = {"time=time", NULL};
    char dir[] = "/tmp/sluice-bench-XXXXXX", path[64];
    if (!mkdtemp(dir))
        return 1;
    (void)snprintf(path, sizeof path, "%s/in", dir);
    if (bench_wanted("csv_rows_per_s")) {
        write_two_columns(path, false);
        bench_report("csv_rows_per_s", "1/s", 9, import_rows,
                     &(struct csv_case){epoch, path, ROWS});
    }
    if (bench_wanted("csv_local_rows_per_s")) {
        write_two_columns(path, true);
        bench_report("csv_local_rows_per_s", "1/s", 5, import_rows,
                     &(struct csv_case){local, path, ROWS});
    }
    if (bench_wanted("csv_wide_rows_per_s")) {
        write_wide(path);
        bench_report("csv_wide_rows_per_s", "1/s", 5, import_rows,
                     &(struct csv_case){wide, path, WIDE_ROWS});
    }
    if (bench_wanted("history_open_ms")) {
        write_history(path);
        bench_report("history_open_ms", "ms", 15, open_ms, path);
    }
    (void)unlink(path);
    (void)rmdir(dir);
    return 0;
}
