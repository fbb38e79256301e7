/* import.c - `sluice import`: files, or with --url a running Prometheus (import_live.c), to a history. */
#include <string.h>

#include "base/mem.h"
#include "base/utf8.h"
#include "cli/commands.h"
#include "cli/import_priv.h"
#include "history/file.h"
#include "history/import_rows.h"

#define O struct import_opts
static const struct opt_row rows[] = {
    IMPORT_ROWS(O, import),
    OPT_STRING(O, url, "url", NULL, "prometheus: read this server instead of files",
               .metavar = "URL"),
    OPT_DURATION(O, since_us, "since", "90d", "1min", "3660d", "url: how far back to begin"),
    OPT_STRING(O, until, "until", NULL, "url: where to end, as RFC 3339; now without it",
               .metavar = "TIME"),
    OPT_STRING(O, target, "target", NULL,
               "url: the workload whose fields the built-in queries give (docs/collect.md)",
               .metavar = "NAMESPACE/NAME"),
    OPT_STRINGS(O, query, "query", NULL, "url: PromQL of a field, instead of the built-in one",
                .metavar = "FIELD=PROMQL"),
    OPT_STRINGS(O, sources, "sources", NULL,
                "url: built-ins to use: dcgm, cadvisor, vllm ...; all without it",
                .metavar = "NAME"),
    OPT_DURATION(O, window_us, "window", "1min", "1s", "1d", "url: {window} of queries"),
    OPT_STRING(O, token_file, "token_file", NULL, "url: bearer token", .metavar = "FILE"),
    OPT_STRING(O, user, "user", NULL, "url: basic authentication", .metavar = "NAME"),
    OPT_STRING(O, password_file, "password_file", NULL, "url: its password, first line",
               .metavar = "FILE"),
    OPT_STRING(O, ca_file, "ca_file", NULL, "url: PEM authorities; else the system's",
               .metavar = "FILE"),
    OPT_STRING(O, cert_file, "cert_file", NULL, "url: PEM client certificate", .metavar = "FILE"),
    OPT_STRING(O, key_file, "key_file", NULL, "url: PEM key of it", .metavar = "FILE"),
    OPT_BOOL(O, insecure, "insecure", "false", "url: do not verify the server's certificate"),
    OPT_INT(O, parallel, "parallel", "1", "1", "8",
            "url: queries at once; each keeps one core of the server busy"),
    OPT_DURATION(O, timeout_us, "timeout", "1min", "1s", "1h", "url: longest query"),
};
#undef O

static enum err_code check(const void *p, struct err *e)
{
    const struct import_opts *o = p;
    return import_check(&o->import, e);
}

static const struct opt_table table = {
    .name = "import",
    .help = "What becomes a history, and how.",
    .rows = rows,
    .n = ARRAY_LEN(rows),
    .size = sizeof(struct import_opts),
    .check = check,
};

/* --since without --url would do nothing. */
static enum err_code refuse_live_options(const struct import_opts *o, struct err *e)
{
    struct import_opts usual;
    enum err_code rc = ERR_OK;
    opt_init(&table, &usual);
    for (size_t i = 0; i < table.n && !rc; i++) {
        struct buf given = buf_init(1 << 20), standard = buf_init(1 << 20);
        opt_value(&rows[i], o, &given);
        opt_value(&rows[i], &usual, &standard);
        if (strncmp(rows[i].help, "url: ", 5) == 0 && strcmp(given.p, standard.p) != 0)
            rc = err_set(e, ERR_USAGE, "option %s goes with --url", rows[i].name);
        buf_fini(&given);
        buf_fini(&standard);
    }
    opt_fini(&table, &usual);
    return rc;
}

static enum err_code read_files(struct cli_ctx *c, struct history *h, struct import_report *report,
                                struct err *e)
{
    const struct import_opts *o = c->opts;
    enum err_code rc = refuse_live_options(o, e);
    if (!rc && c->n_args < 2)
        rc = err_set(e, ERR_USAGE, "import %s: name files, or --url of a Prometheus", c->args[0]);
    if (!rc)
        rc = import_run(c->args[0], &o->import, c->args + 1, c->n_args - 1, h, report, e);
    return rc ? rc : history_write(c->output, h, report, e);
}

static enum err_code run(struct cli_ctx *c, struct err *e)
{
    const struct import_opts *o = c->opts;
    struct history h = {0};
    struct import_report *report = mem_zero(1, sizeof *report);
    struct buf text = buf_init(CLI_TEXT_MAX);
    enum err_code rc = c->output ? ERR_OK : err_set(e, ERR_USAGE, "import needs -o HISTORY");
    if (!rc)
        rc = o->url ? import_from_url(c, &h, report, e) : read_files(c, &h, report, e);
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
    .args = "FORMAT [PATH...]",
    .min_args = 1,
    .max_args = 10000,
    .formats = 1u << CLI_TABLE | 1u << CLI_JSON,
    .help = "Formats: csv, prometheus (range-query JSON, or a server with --url), genai, "
            "azure-llm.  Compressed files "
            "(gzip,\nzstd) are read as they are.  -o HISTORY is required; the report goes to "
            "standard output.\n\n"
            "  sluice import csv --time ts --qps requests --per-step qps requests.csv -o my.hist\n"
            "  sluice import prometheus qps=qps.json gpu_util=dcgm/ --combine sum -o my.hist\n"
            "  sluice import prometheus --url http://prometheus:9090 --since 90d --target shop/web "
            "-o web.hist\n"
            "  sluice import prometheus --url http://prometheus:9090 \\\n"
            "      --query 'qps=sum(rate(requests_total{app=\"web\"}[{window}]))' -o web.hist\n\n"
            "A csv column that has a field's name needs no option.  With --url an interrupted "
            "import goes on where it was "
            "when it is\nstarted again (HISTORY.part).  More: docs/cli.md, docs/history.md, "
            "docs/collect.md.\n",
    .opts = &table,
    .run = run,
};
