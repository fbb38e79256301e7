#include "cli/commands.h"

struct config_opts {
    bool markdown;
};
static const struct opt_row rows[] = {
    OPT_BOOL(struct config_opts, markdown, "markdown", "false",
             "the keys as a reference page instead of YAML"),
};
static const struct opt_table table = OPT_TABLE("config", struct config_opts, rows, "Settings.");

/* Every value in force and where it was set. */
static enum err_code put_effective(const struct cli_ctx *c, struct buf *text, struct err *e)
{
    struct scenario sc;
    struct opt_sources *src = opt_sources_new();
    enum err_code rc = scenario_load_over(&sc, c->args[0], c->config, c->sets, c->n_sets, src, e);
    if (!rc)
        opt_write_effective(&scenario_table, &sc, src, text);
    scenario_fini(&sc);
    opt_sources_free(src);
    return rc;
}

static enum err_code run(struct cli_ctx *c, struct err *e)
{
    const struct config_opts *o = c->opts;
    struct buf text = buf_init(CLI_TEXT_MAX);
    enum err_code rc = ERR_OK;
    if (c->n_args && o->markdown)
        rc = err_set(e, ERR_USAGE, "--markdown is about all scenarios; leave out %s", c->args[0]);
    else if (!c->n_args && (c->config || c->n_sets))
        rc = err_set(e, ERR_USAGE, "-c and --set change a SCENARIO; name one");
    else if (c->n_args)
        rc = put_effective(c, &text, e);
    else if (o->markdown)
        opt_write_markdown(&scenario_table, &text);
    else
        opt_write_config(&scenario_table, &text);
    if (rc)
        buf_fini(&text);
    return rc ? rc : cli_finish(c, &text, e);
}

const struct cli_cmd cmd_config = {
    .name = "config",
    .summary =
        "an annotated scenario with every default, or the values of one and where each comes from",
    .args = "[SCENARIO]",
    .max_args = 1,
    .formats = 1u << CLI_TABLE,
    .opts = &table,
    .config = &scenario_table,
    .run = run,
};
