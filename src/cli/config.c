#include <stdio.h>
#include <string.h>

#include "cli/commands.h"
#include "daemon/config.h"

struct config_opts {
    bool markdown;
};
static const struct opt_row rows[] = {
    OPT_BOOL(struct config_opts, markdown, "markdown", "false",
             "the keys as a reference page instead of YAML"),
};
static const struct opt_table table = OPT_TABLE("config", struct config_opts, rows, "Settings.");

/* The daemon's settings in place of a scenario's. */
static bool of_daemon(const struct cli_ctx *c)
{
    return c->n_args && strcmp(c->args[0], "run") == 0;
}

static enum err_code put_daemon(const struct cli_ctx *c, bool markdown, struct buf *text, struct err *e)
{
    struct run_config config;
    if (markdown) {
        opt_write_markdown(&run_config_table, text);
        return ERR_OK;
    }
    if (!c->config && !c->n_sets) {
        opt_write_config(&run_config_table, text);
        return ERR_OK;
    }
    struct opt_sources *src = opt_sources_new();
    enum err_code rc = run_config_load_here(&config, c->config, c->sets, c->n_sets, src, e);
    if (!rc)
        opt_write_effective(&run_config_table, &config, src, text);
    run_config_fini(&config);
    opt_sources_free(src);
    return rc;
}

/* "my.yaml:3: serve: unknown key": a key that the daemon's settings have. */
static bool is_daemon_key(const char *message)
{
    const char *end = strstr(message, ": unknown key"), *at = end;
    char key[64];
    while (at && at > message && at[-1] != ' ')
        at--;
    if (!end || (size_t)(end - at) >= sizeof key)
        return false;
    (void)snprintf(key, sizeof key, "%.*s", (int)(end - at), at);
    return opt_find(&run_config_table, key) != NULL;
}

/* A file that is no scenario, and would do as the daemon's settings or means to. */
static bool is_of_daemon(const char *path, const struct err *e)
{
    struct run_config config;
    bool fits = run_config_load(&config, path, NULL, 0, NULL, NULL) == ERR_OK;
    run_config_fini(&config);
    return fits || (e && is_daemon_key(e->msg));
}

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
    if (rc && is_of_daemon(c->args[0], e))
        return err_set(e, ERR_USAGE, "%.200s holds settings of the daemon, not a scenario: sluice config run -c %.200s",
                       c->args[0], c->args[0]);
    return rc;
}

static enum err_code run(struct cli_ctx *c, struct err *e)
{
    const struct config_opts *o = c->opts;
    struct buf text = buf_init(CLI_TEXT_MAX);
    enum err_code rc = ERR_OK;
    if (of_daemon(c))
        rc = put_daemon(c, o->markdown, &text, e);
    else if (c->n_args && o->markdown)
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
    .args = "[SCENARIO|run]",
    .help = "With `run` the same for the settings of the daemon: all of them, or with -c FILE or --set those in force.",
    .max_args = 1,
    .formats = 1u << CLI_TABLE,
    .opts = &table,
    .config = &scenario_table,
    .run = run,
};
