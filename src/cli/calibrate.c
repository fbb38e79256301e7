#include <string.h>

#include "base/mem.h"
#include "cli/commands.h"
#include "history/file.h"
#include "history/table.h"
#include "report/table.h"
#include "sim/calibrate.h"
#include "train/curve.h"

struct calibrate_opts {
    int64_t slo_us;
};
static const struct opt_row rows[] = {
    OPT_DURATION(struct calibrate_opts, slo_us, "slo-p99", "200ms", "1ms", "1h",
                 "target p99 latency"),
};
static const struct opt_table table =
    OPT_TABLE("calibrate", struct calibrate_opts, rows, "Latency curve of a service.");

static enum err_code from_history(const char *path, double slo_ms, struct calibration *out,
                                  struct err *e)
{
    struct history h = {0};
    enum err_code rc = history_open(path, &h, NULL, e);
    if (!rc)
        rc = calibrate_from_history(
            &(struct calibrate_history){.qps = h.col[FIELD_QPS],
                                        .units_ready = h.col[FIELD_UNITS_READY],
                                        .p50_ms = h.col[FIELD_P50_LATENCY_MS],
                                        .p99_ms = h.col[FIELD_P99_LATENCY_MS],
                                        .gpu_util = h.col[FIELD_GPU_UTIL],
                                        .barred = h.barred,
                                        .n = h.n,
                                        .step_us = h.step_us,
                                        .slo_ms = slo_ms},
            out, e);
    history_close(&h);
    return rc;
}

static enum err_code from_load_test(const char *path, double slo_ms, struct calibration *out,
                                    struct err *e)
{
    struct latency_point p[LATENCY_POINTS_MAX];
    int n;
    enum err_code rc = curve_read(path, p, &n, e);
    return rc ? rc : calibrate_load_test(p, n, slo_ms, out, e);
}

static void put_summary(const struct calibration *k, double slo_ms, struct buf *text)
{
    buf_fmt(text, "one unit serves %.4g requests/s at full use (%s); ", k->unit_qps,
            calibrate_source_text(k->source));
    if (k->load_at_slo > 0)
        buf_fmt(text, "%.4g within a p99 of %.4g ms\n", k->load_at_slo, slo_ms);
    else
        buf_fmt(text, "a p99 of %.4g ms is never met, not even when idle: see --slo-p99\n", slo_ms);
}

static bool is_history(const char *path)
{
    unsigned char head[CLI_HEAD];
    size_t n;
    return !cli_head(path, head, &n, NULL) && history_is_file(head, n);
}

static enum err_code run(struct cli_ctx *c, struct err *e)
{
    const struct calibrate_opts *o = c->opts;
    const char *path = c->args[0];
    double slo_ms = (double)o->slo_us / 1000;
    struct calibration *k = mem_zero(1, sizeof *k);
    struct buf text = buf_init(CLI_TEXT_MAX);
    enum err_code rc =
        is_history(path) ? from_history(path, slo_ms, k, e) : from_load_test(path, slo_ms, k, e);
    if (!rc) {
        struct table *t = table_new((struct table_column[]){{"load_per_unit", NULL, 3},
                                                            {"p50_ms", NULL, 2},
                                                            {"p99_ms", NULL, 2}},
                                    3);
        for (int i = 0; i < k->n; i++) {
            char load[32]; /* from thousandths to thousands per second */
            (void)snprintf(load, sizeof load, "%.4g", k->point[i].load_per_unit);
            table_num_text(t, k->point[i].load_per_unit, load);
            table_num(t, k->point[i].p50_ms);
            table_num(t, k->point[i].p99_ms);
        }
        table_format(t, c->format, cli_colour(c), &text);
        table_free(t);
        if (c->format == CLI_TABLE)
            put_summary(k, slo_ms, &text);
        if (c->format == CLI_TABLE && k->p50_assumed)
            buf_str(&text, "no p50 was given: a quarter of p99 stands in\n");
    }
    mem_free(k);
    if (rc)
        buf_fini(&text);
    return rc ? err_wrap(e, "%s", path) : cli_finish(c, &text, e);
}

const struct cli_cmd cmd_calibrate = {
    .name = "calibrate",
    .summary = "latency against load per unit, from a history or a load-test CSV",
    .args = "FILE",
    .min_args = 1,
    .max_args = 1,
    .help = "FILE is a history with qps, units_ready and p99_latency_ms, or a CSV of load per "
            "unit, p50 ms, p99 ms.\n"
            "With --format csv the curve is what a scenario's service.curve reads.\n",
    .opts = &table,
    .run = run,
};
