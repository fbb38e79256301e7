#include "cli/commands.h"

struct config_opts {
    bool markdown;
};
static const struct opt_row rows[] = {
    OPT_BOOL(struct config_opts, markdown, "markdown", "false", "as a reference page instead of YAML"),
};
static const struct opt_table table = OPT_TABLE("config", struct config_opts, rows, "Defaults.");

static enum err_code run(struct cli_ctx *c, struct err *e)
{
    const struct config_opts *o = c->opts;
    struct buf text = buf_init(CLI_TEXT_MAX);
    if (o->markdown)
        opt_write_markdown(&scenario_table, &text);
    else
        opt_write_config(&scenario_table, &text);
    return cli_finish(c, &text, e);
}

const struct cli_cmd cmd_config = {
    .name = "config",
    .summary = "an annotated scenario with every default",
    .max_args = 0,
    .opts = &table,
    .config = &scenario_table,
    .run = run,
};
