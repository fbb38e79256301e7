/* metrics.c - `sluice metrics`: the daemon's metrics as a reference page. */
#include "cli/commands.h"
#include "daemon/metrics.h"

static enum err_code run(struct cli_ctx *c, struct err *e)
{
    struct buf text = buf_init(CLI_TEXT_MAX);
    metrics_write_markdown(&text);
    return cli_finish(c, &text, e);
}

const struct cli_cmd cmd_metrics = {
    .name = "metrics",
    .summary = "the metrics of the daemon, as a reference page",
    .formats = 1u << CLI_TABLE,
    .run = run,
    .hidden = true,
};
