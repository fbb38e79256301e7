/* import_genai.c - a folder of the GenTD26 traces (alibaba/clusterdata, cluster-trace-v2026-GenAI).
 *
 * One CSV per quantity with timestamp_anon, value, container_ip, in any order of columns, on one
 * grid of 57 s slots.  What becomes of them:
 *
 *   qps.csv                             qps             sum over pods; a pod without a row had no
 * request, so a slot without rows is 0.  API rows only with api_requests
 *   pod_gpu_duty_cycle_anon.csv         gpu_util        mean over pods, per cent
 *                                       units_ready, units_total   pods with a row
 *   pod_gpu_memory_used_bytes_anon.csv  gpu_mem_util    mean over pods / gpu_memory, when that is
 * given queue_size_raw_anon.csv             queue_len       mean pipeline_inference_data_anon.csv
 * p50, p99_latency_ms   over the pods' values in a slot
 *
 * undo_time_scale: the source multiplied time by 0.95 (57 s = 0.95 min); t0 + (t - t0) * 20 / 19
 * undoes it. */
#include <inttypes.h>
#include <string.h>

#include "base/file.h"
#include "base/mem.h"
#include "base/stats.h"
#include "history/import_priv.h"

enum { CELLS_MAX = 16, NO_COLUMN = CELLS_MAX };

struct job {
    const struct import_cfg *cfg;
    struct raw *raw;
    const char *folder;
};

/* One file being read: hands every (time, value) to take(). */
struct table {
    struct job *job;
    uint32_t file;
    size_t col_time, col_value, col_type;
    enum err_code (*take)(struct table *t, int64_t us, double v, uint64_t line, struct err *e);
    size_t series[3];
    struct raw_sample *held; /* latencies until their slot's quantiles are taken */
    size_t n_held, size_held;
};

static enum err_code read_columns(struct table *t, struct csv_reader *r, size_t *n_cols,
                                  struct err *e)
{
    struct csv_cell head[CELLS_MAX];
    enum err_code rc = csv_next(r, head, CELLS_MAX, n_cols, e);
    if (rc)
        return rc;
    if (*n_cols == 0 || *n_cols > CELLS_MAX)
        return err_set(e, ERR_PARSE, "%s: %zu columns", csv_path(r), *n_cols);
    rc = import_column(head, *n_cols, true, "timestamp_anon", &t->col_time, e);
    if (!rc)
        rc = import_column(head, *n_cols, true, "value", &t->col_value, e);
    if (import_column(head, *n_cols, true, "request_type", &t->col_type, NULL))
        t->col_type = NO_COLUMN;
    return rc ? err_wrap(e, "%s", csv_path(r)) : ERR_OK;
}

static enum err_code one_row(struct table *t, struct time_reader *tr, const struct csv_cell *cells,
                             uint64_t line, struct err *e)
{
    struct raw *raw = t->job->raw;
    int64_t us;
    double v;
    if (t->col_type != NO_COLUMN && !t->job->cfg->api_requests &&
        csv_cell_is(cells[t->col_type], "API Requests")) {
        raw_tally(raw, TALLY_FILTERED, t->file, line);
        return ERR_OK;
    }
    if (!import_time(raw, tr, cells[t->col_time], t->file, line, &us) ||
        !import_number(t->job->cfg, raw, cells[t->col_value], t->file, line, &v))
        return ERR_OK;
    return t->take(t, us, v, line, e);
}

static enum err_code read_rows(struct table *t, struct csv_reader *r, size_t n_cols, struct err *e)
{
    struct csv_cell cells[CELLS_MAX];
    struct time_reader tr;
    time_reader_init(&tr, TIME_S, NULL, true);
    for (;;) {
        size_t n;
        enum err_code rc = csv_next(r, cells, CELLS_MAX, &n, e);
        if (rc || n == 0)
            return rc;
        t->job->raw->report.rows++;
        if (n != n_cols)
            raw_tally(t->job->raw, TALLY_RAGGED, t->file, csv_line(r));
        else
            rc = one_row(t, &tr, cells, csv_line(r), e);
        if (rc)
            return rc;
    }
}

/* *present tells whether the file exists; only qps.csv has to. */
static enum err_code read_table(struct table *t, const char *name, bool *present, struct err *e)
{
    struct buf path = buf_init(16 * 1024);
    struct csv_reader *r;
    size_t n_cols;
    buf_fmt(&path, "%s/%s", t->job->folder, name);
    enum err_code rc = buf_check(&path, e);
    *present = !rc && file_exists(path.p);
    if (!rc && !*present)
        report_note(&t->job->raw->report, "%s is not there: left out", name);
    if (!rc && *present)
        rc = raw_file(t->job->raw, path.p, &t->file, e);
    if (!rc && *present) {
        rc = csv_open(path.p, (uint64_t)t->job->cfg->max_bytes, ',', &r, e);
        if (!rc) {
            rc = read_columns(t, r, &n_cols, e);
            if (!rc)
                rc = read_rows(t, r, n_cols, e);
            csv_close(r);
        }
    }
    buf_fini(&path);
    return rc;
}

static enum err_code new_series(struct table *t, enum field f, enum raw_combine in_step,
                                double scale, size_t *index, struct err *e)
{
    enum err_code rc = import_series(t->job->cfg, t->job->raw, f, field_get(f)->name, index, e);
    if (rc)
        return rc;
    struct raw_series *s = &t->job->raw->series[*index];
    s->in_step = in_step;
    s->scale *= scale;
    return ERR_OK;
}

static enum err_code take_value(struct table *t, int64_t us, double v, uint64_t line, struct err *e)
{
    return raw_value(t->job->raw, t->series[0], us, v, t->file, line, e);
}

static enum err_code read_qps(struct job *j, struct err *e)
{
    struct table t = {.job = j, .take = take_value};
    bool present;
    enum err_code rc = new_series(&t, FIELD_QPS, RAW_SUM, 1, &t.series[0], e);
    if (rc)
        return rc;
    j->raw->series[t.series[0]].absent_is_zero = true;
    rc = read_table(&t, "qps.csv", &present, e);
    if (!rc && !present)
        rc = err_set(e, ERR_MISSING, "%s: no qps.csv in it", j->folder);
    return rc;
}

static enum err_code take_duty(struct table *t, int64_t us, double v, uint64_t line, struct err *e)
{
    enum err_code rc = raw_value(t->job->raw, t->series[0], us, v, t->file, line, e);
    for (int i = 1; i < 3 && !rc; i++)
        rc = raw_value(t->job->raw, t->series[i], us, 1, t->file, line, e);
    return rc;
}

static enum err_code read_duty(struct job *j, struct err *e)
{
    struct table t = {.job = j, .take = take_duty};
    bool present;
    enum err_code rc = new_series(&t, FIELD_GPU_UTIL, RAW_MEAN, 0.01, &t.series[0], e);
    if (!rc)
        rc = new_series(&t, FIELD_UNITS_READY, RAW_SUM, 1, &t.series[1], e);
    if (!rc)
        rc = new_series(&t, FIELD_UNITS_TOTAL, RAW_SUM, 1, &t.series[2], e);
    return rc ? rc : read_table(&t, "pod_gpu_duty_cycle_anon.csv", &present, e);
}

static enum err_code read_gauge(struct job *j, const char *name, enum field f, double scale,
                                struct err *e)
{
    struct table t = {.job = j, .take = take_value};
    bool present;
    enum err_code rc = new_series(&t, f, RAW_MEAN, scale, &t.series[0], e);
    return rc ? rc : read_table(&t, name, &present, e);
}

/* ---- latency quantiles over the pods of a slot
 * --------------------------------------------------- */

static enum err_code hold(struct table *t, int64_t us, double v, uint64_t line, struct err *e)
{
    if (!(v >= 0)) {
        t->job->raw->report.values++;
        raw_tally(t->job->raw, v < 0 ? TALLY_NEGATIVE : TALLY_NAN, t->file, line);
        return ERR_OK;
    }
    if (t->n_held == t->size_held) {
        size_t size = t->size_held ? 2 * t->size_held : 4096;
        struct raw_sample *grown =
            size > RAW_SAMPLES_MAX ? NULL : try_grow(t->held, size, sizeof *grown);
        if (!grown)
            return err_set(e, ERR_NOMEM, "%zu latencies", size);
        t->held = grown;
        t->size_held = size;
    }
    t->held[t->n_held++] = (struct raw_sample){us, v, (uint32_t)line, t->file};
    return ERR_OK;
}

static enum err_code push_quantiles(struct table *t, const struct raw_sample *s, size_t n,
                                    double *v, struct err *e)
{
    for (size_t i = 0; i < n; i++)
        v[i] = s[i].v;
    stats_sort(v, n);
    enum err_code rc = raw_value(t->job->raw, t->series[0], s->t_us,
                                 stats_quantile_sorted(v, n, 0.5), s->file, s->line, e);
    if (!rc)
        rc = raw_value(t->job->raw, t->series[1], s->t_us, stats_quantile_sorted(v, n, 0.99),
                       s->file, s->line, e);
    return rc;
}

static enum err_code slots_to_quantiles(struct table *t, struct err *e)
{
    struct raw_series sorted = {.s = t->held, .n = t->n_held, .unsorted = true};
    double *v = try_zero(t->n_held + 1, sizeof *v);
    enum err_code rc = v ? ERR_OK : err_set(e, ERR_NOMEM, "%zu latencies", t->n_held);
    raw_sort(&sorted);
    for (size_t i = 0; i < t->n_held && !rc;) {
        size_t end = i;
        while (end < t->n_held && t->held[end].t_us == t->held[i].t_us)
            end++;
        rc = push_quantiles(t, t->held + i, end - i, v, e);
        i = end;
    }
    mem_free(v);
    return rc;
}

static enum err_code read_latency(struct job *j, struct err *e)
{
    struct table t = {.job = j, .take = hold};
    bool present;
    enum err_code rc = new_series(&t, FIELD_P50_LATENCY_MS, RAW_LAST, 1, &t.series[0], e);
    if (!rc)
        rc = new_series(&t, FIELD_P99_LATENCY_MS, RAW_LAST, 1, &t.series[1], e);
    if (!rc)
        rc = read_table(&t, "pipeline_inference_data_anon.csv", &present, e);
    if (!rc)
        rc = slots_to_quantiles(&t, e);
    mem_free(t.held);
    return rc;
}

/* ---- the folder ---------------------------------------------------------------------------------
 */

static void undo_time_scale(struct raw *raw)
{
    int64_t t0 = INT64_MAX;
    for (size_t i = 0; i < raw->n_series; i++)
        for (size_t k = 0; k < raw->series[i].n; k++)
            if (raw->series[i].s[k].t_us < t0)
                t0 = raw->series[i].s[k].t_us;
    for (size_t i = 0; i < raw->n_series; i++)
        for (size_t k = 0; k < raw->series[i].n; k++) {
            struct raw_sample *s = &raw->series[i].s[k];
            s->t_us = t0 + (s->t_us - t0) * 20 / 19;
        }
    report_note(&raw->report, "times divided by 0.95: slots of 57s are minutes");
}

/* Files are grouped by pod or by time; their order is no defect worth counting. */
static void forget_order(struct raw *raw)
{
    memset(&raw->report.tally[TALLY_UNSORTED], 0, sizeof raw->report.tally[TALLY_UNSORTED]);
}

static enum err_code run(const struct import_cfg *cfg, const struct tz *zone, char *const *paths,
                         size_t n, struct raw *raw, struct err *e)
{
    struct job j = {.cfg = cfg, .raw = raw, .folder = paths[0]};
    (void)zone;
    if (n != 1)
        return err_set(e, ERR_USAGE, "give the one folder that holds qps.csv");
    enum err_code rc = read_qps(&j, e);
    if (!rc)
        rc = read_duty(&j, e);
    if (!rc && cfg->gpu_memory_bytes > 0)
        rc = read_gauge(&j, "pod_gpu_memory_used_bytes_anon.csv", FIELD_GPU_MEM_UTIL,
                        1 / (double)cfg->gpu_memory_bytes, e);
    if (!rc)
        rc = read_gauge(&j, "queue_size_raw_anon.csv", FIELD_QUEUE_LEN, 1, e);
    if (!rc)
        rc = read_latency(&j, e);
    if (rc)
        return rc;
    forget_order(raw);
    if (cfg->undo_time_scale)
        undo_time_scale(raw);
    else
        report_note(&raw->report,
                    "times as published: the source scaled them by 0.95 (see undo_time_scale)");
    return ERR_OK;
}

static const char *const uses[] = {"undo_time_scale", "api_requests", "gpu_memory", NULL};
const struct importer import_genai = {
    .name = "genai",
    .summary = "folder of the GenTD26 traces: qps, GPU use, queue, latency of one service",
    .uses = uses,
    .run = run,
};
