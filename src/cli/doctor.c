/* doctor.c - `sluice doctor`: the twelve steps of the go-live checklist, run and explained. */
#include <stdio.h>

#include "base/mem.h"
#include "cli/commands.h"
#include "daemon/config.h"
#include "daemon/doctor.h"

struct doctor_args {
    struct opt_strings urls;
    char *token_file, *ca_file, *server_name;
    int64_t wait_us;
};
#define S struct doctor_args
static const struct opt_row rows[] = {
    OPT_STRINGS(S, urls, "url", NULL,
                "a replica, to try its freeze; else the one of -c FILE",
                .metavar = "URL"),
    OPT_STRING(S, token_file, "token_file", NULL, "the token for them; else serve.token_file",
               .metavar = "FILE"),
    OPT_STRING(S, ca_file, "ca_file", NULL,
               "whom to believe about their certificates; else serve.cert_file itself",
               .metavar = "FILE"),
    OPT_STRING(S, server_name, "server_name", NULL,
               "the name in their certificates, when reached by another", .metavar = "NAME"),
    OPT_DURATION(S, wait_us, "wait", "60s", "1s", "1h",
                 "longest wait for lists, a round of queries, and history"),
};
#undef S
static const struct opt_table table =
    OPT_TABLE("doctor", struct doctor_args, rows, "What to look at.");

static void progress(void *ctx, enum doctor_check c)
{
    const struct cli_ctx *cli = ctx;
    log_write(cli->log, LOG_INFO, "doctor", "looking", "check=%s", doctor_check_name(c));
}

static enum err_code examine(struct cli_ctx *c, const struct run_config *config,
                             struct doctor_report *report, struct err *e)
{
    const struct doctor_args *a = c->opts;
    struct doctor_opts o = {
        .config = config,
        .replicas = (const char *const *)a->urls.items,
        .n_replicas = a->urls.n,
        .token_file = a->token_file,
        .ca_file = a->ca_file,
        .server_name = a->server_name,
        .wait_us = a->wait_us,
        .progress = progress,
        .ctx = c,
        .log = c->log,
    };
    return doctor_run(&o, report, e);
}

static enum err_code run(struct cli_ctx *c, struct err *e)
{
    struct run_config config = {0};
    struct doctor_report *report = mem_zero(1, sizeof *report);
    struct buf text = buf_init(CLI_TEXT_MAX);
    enum err_code rc = run_config_load_here(&config, c->config, c->sets, c->n_sets, NULL, e);
    if (!rc)
        rc = examine(c, &config, report, e);
    if (!rc && c->format == CLI_JSON)
        doctor_write_json(report, &text);
    else if (!rc)
        doctor_write_text(report, c->verbosity > 0, &text);
    size_t failed = rc ? 0 : doctor_count(report, DOCTOR_FAIL);
    if (!rc)
        rc = cli_finish(c, &text, e);
    else
        buf_fini(&text);
    doctor_fini(report);
    mem_free(report);
    run_config_fini(&config);
    if (!rc && failed)
        rc = err_set(e, ERR_MISMATCH, "%zu of %d checks failed; the report says what to do", failed,
                     DOCTOR_CHECKS);
    return rc;
}

const struct cli_cmd cmd_doctor = {
    .name = "doctor",
    .summary = "twelve checks of a cluster and an installation, each explained; 1 when one fails",
    .help = "Reads only.  Inside a replica's pod it sees what the replica sees:\n"
            "    kubectl -n sluice exec sluice-0 -- sluice doctor -c /etc/sluice/sluice.yaml --set "
            "stage=observe\n"
            "docs/operations.md goes through the checks one by one.",
    .formats = 1u << CLI_TABLE | 1u << CLI_JSON,
    .opts = &table,
    .config = &run_config_table,
    .run = run,
};
