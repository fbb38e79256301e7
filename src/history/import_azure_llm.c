/* import_azure_llm.c - request logs of the Azure LLM inference traces: one row an arrival.
 *
 * TIMESTAMP (seven decimals, no zone), ContextTokens, GeneratedTokens.  Arrivals become rates per
 * step; the incomplete first and last steps are left out.  `measure` counts tokens instead of
 * requests. */
#include <string.h>

#include "history/import_priv.h"

enum measure { REQUESTS, PROMPT_TOKENS, OUTPUT_TOKENS, TOKENS };

struct log {
    const struct import_cfg *cfg;
    struct raw *raw;
    size_t series;
    uint32_t file;
    size_t col_time, col_prompt, col_output, n_cols;
};

static enum err_code add_weight(struct log *l, const struct csv_cell *cells, int64_t us,
                                uint64_t line, struct err *e)
{
    double prompt = 0, output = 0;
    bool want_prompt = l->cfg->measure == PROMPT_TOKENS || l->cfg->measure == TOKENS;
    bool want_output = l->cfg->measure == OUTPUT_TOKENS || l->cfg->measure == TOKENS;
    if (want_prompt && !import_number(l->cfg, l->raw, cells[l->col_prompt], l->file, line, &prompt))
        return ERR_OK;
    if (want_output && !import_number(l->cfg, l->raw, cells[l->col_output], l->file, line, &output))
        return ERR_OK;
    double weight = l->cfg->measure == REQUESTS ? 1 : prompt + output;
    return raw_value(l->raw, l->series, us, weight, l->file, line, e);
}

static enum err_code read_rows(struct log *l, struct csv_reader *r, struct time_reader *tr,
                               struct err *e)
{
    enum { MAX_CELLS = 64 };
    struct csv_cell cells[MAX_CELLS];
    for (;;) {
        size_t n;
        int64_t us;
        enum err_code rc = csv_next(r, cells, MAX_CELLS, &n, e);
        if (rc || n == 0)
            return rc;
        uint64_t line = csv_line(r);
        l->raw->report.rows++;
        if (n != l->n_cols) {
            raw_tally(l->raw, TALLY_RAGGED, l->file, line);
            continue;
        }
        if (!import_time(l->raw, tr, cells[l->col_time], l->file, line, &us))
            continue;
        rc = add_weight(l, cells, us, line, e);
        if (rc)
            return rc;
    }
}

static enum err_code read_head(struct log *l, struct csv_reader *r, struct err *e)
{
    enum { MAX_CELLS = 64 };
    struct csv_cell head[MAX_CELLS];
    enum err_code rc = csv_next(r, head, MAX_CELLS, &l->n_cols, e);
    if (rc)
        return rc;
    if (l->n_cols == 0 || l->n_cols > MAX_CELLS)
        return err_set(e, ERR_PARSE, "%s: %zu columns: not a request log", csv_path(r), l->n_cols);
    rc = import_column(head, l->n_cols, true, "TIMESTAMP", &l->col_time, e);
    if (!rc)
        rc = import_column(head, l->n_cols, true, "ContextTokens", &l->col_prompt, e);
    if (!rc)
        rc = import_column(head, l->n_cols, true, "GeneratedTokens", &l->col_output, e);
    return rc ? err_wrap(e, "%s", csv_path(r)) : ERR_OK;
}

static enum err_code run(const struct import_cfg *cfg, const struct tz *zone, char *const *paths,
                         size_t n, struct raw *raw, struct err *e)
{
    struct log l = {.cfg = cfg, .raw = raw};
    enum err_code rc = import_series(cfg, raw, FIELD_QPS, "requests", &l.series, e);
    if (rc)
        return rc;
    raw->series[l.series].event = true;
    raw->series[l.series].in_step = RAW_SUM;
    raw->series[l.series].absent_is_zero = true;
    for (size_t i = 0; i < n && !rc; i++) {
        struct csv_reader *r;
        struct time_reader tr;
        time_reader_init(&tr, TIME_AUTO, zone, true);
        rc = raw_file(raw, paths[i], &l.file, e);
        if (!rc)
            rc = csv_open(paths[i], (uint64_t)cfg->max_bytes, ',', &r, e);
        if (rc)
            return rc;
        rc = read_head(&l, r, e);
        if (!rc)
            rc = read_rows(&l, r, &tr, e);
        csv_close(r);
    }
    if (rc)
        return rc;
    report_note(&raw->report, "arrivals counted per step%s",
                cfg->step_us ? "" : " of 15s (see step)");
    return ERR_OK;
}

static const char *const uses[] = {"measure", NULL};
const struct importer import_azure_llm = {
    .name = "azure-llm",
    .summary = "request logs of the Azure LLM inference traces: arrivals become rates",
    .uses = uses,
    .default_step_us = 15 * INT64_C(1000000),
    .run = run,
};
