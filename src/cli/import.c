#include <string.h>

#include "base/mem.h"
#include "base/utf8.h"
#include "cli/commands.h"
#include "history/file.h"
#include "history/import.h"

static enum err_code run(struct cli_ctx *c, struct err *e)
{
    struct history h = {0};
    struct import_report *report = mem_zero(1, sizeof *report);
    struct buf text = buf_init(CLI_TEXT_MAX);
    enum err_code rc = c->output ? ERR_OK : err_set(e, ERR_USAGE, "import needs -o HISTORY");
    if (!rc)
        rc = import_run(c->args[0], c->opts, c->args + 1, c->n_args - 1, &h, report, e);
    if (!rc)
        rc = history_write(c->output, &h, report, e);
    if (!rc && c->format == CLI_JSON) {
        struct json_writer w = json_writer_init(&text, 2);
        report_json(report, &w, NULL);
    } else if (!rc) {
        report_text(report, &text);
        utf8_make_plain(text.p);
    }
    if (!rc && c->verbosity >= 0)
        (void)fwrite(text.p, 1, text.n, stdout);
    buf_fini(&text);
    history_close(&h);
    mem_free(report);
    return rc;
}

const struct cli_cmd cmd_import = {
    .name = "import",
    .summary = "read metrics, clean them, report what was dropped and why",
    .args = "FORMAT PATH...",
    .min_args = 2,
    .max_args = 10000,
    .formats = 1u << CLI_TABLE | 1u << CLI_JSON,
    .help = "Formats: csv, prometheus (range-query JSON), genai, azure-llm.  Compressed files "
            "(gzip, zstd) are read\n"
            "as they are.  -o HISTORY is required; the report goes to standard output.\n\n"
            "  sluice import csv --time ts --qps requests --per-step qps requests.csv -o my.hist\n"
            "  sluice import prometheus qps=qps.json gpu_util=dcgm/ --combine sum -o my.hist\n\n"
            "A csv column that has a field's name needs no option.  More: docs/cli.md, "
            "docs/history.md.\n",
    .opts = &import_table,
    .run = run,
};
