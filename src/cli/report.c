/* report.c - `sluice report`: the daily report from a replica's store. */
#include <string.h>

#include "cli/commands.h"
#include "daemon/config.h"
#include "daemon/daily.h"

struct report_opts {
    char *store, *target, *since, *until, *timezone;
    int64_t seeds;
};
#define O struct report_opts
static const struct opt_row rows[] = {
    OPT_STRING(O, store, "store", NULL, "file of records; else $SLUICE_STATE_DIR/sluice.db, else /var/lib/sluice/sluice.db",
               .metavar = "PATH"),
    OPT_STRING(O, target, "target", NULL, "only this target", .metavar = "[NAMESPACE/]NAME"),
    OPT_STRING(O, since, "since", "24h", "from this time on, or a span before the newest decision", .metavar = "TIME"),
    OPT_STRING(O, until, "until", NULL, "before this time, likewise", .metavar = "TIME"),
    OPT_INT(O, seeds, "seeds", "5", "1", "100", "runs of starts and failures behind every number"),
    OPT_STRING(O, timezone, "timezone", NULL, "of times read and shown, such as Europe/Berlin; UTC when absent",
               .metavar = "ZONE"),
};
#undef O
static const struct opt_table table = OPT_TABLE("report", struct report_opts, rows, "The daily report.");

static bool ends_in(const char *s, const char *end)
{
    size_t n = s ? strlen(s) : 0, k = strlen(end);
    return n >= k && strcmp(s + n - k, end) == 0;
}

static enum err_code make(struct cli_ctx *c, struct store *s, const struct tz *zone, struct buf *text, struct err *e)
{
    const struct report_opts *o = c->opts;
    struct daily_opts opts = {.target = o->target, .n_seeds = (int)o->seeds, .zone = zone};
    struct daily *d;
    enum err_code rc = cli_store_target(s, o->target, e);
    if (!rc)
        rc = cli_store_time(s, "since", o->since, zone, &opts.since_us, e);
    if (!rc)
        rc = cli_store_time(s, "until", o->until, zone, &opts.until_us, e);
    if (!rc)
        rc = daily_new(s, &opts, &d, e);
    if (rc)
        return rc;
    if (ends_in(c->output, ".html") && !c->format_given)
        daily_html(daily_report_of(d), text);
    else
        daily_format(daily_report_of(d), c->format, cli_colour(c), text);
    daily_free(d);
    return ERR_OK;
}

static enum err_code run(struct cli_ctx *c, struct err *e)
{
    const struct report_opts *o = c->opts;
    struct buf text = buf_init(CLI_TEXT_MAX);
    struct store *s = NULL;
    struct tz *zone = NULL;
    enum err_code rc = cli_store_settings(c, o->store, o->timezone, &s, &zone, e);
    if (!rc)
        rc = make(c, s, zone, &text, e);
    tz_free(zone);
    store_close(s);
    if (rc) {
        buf_fini(&text);
        return rc;
    }
    return cli_finish(c, &text, e);
}

const struct cli_cmd cmd_report = {
    .name = "report",
    .summary = "the daily report: what the rules did, what sluice would have done, every disagreement explained",
    .help = "Reads the record of one replica; `-o FILE.html` writes a page.  The daemon writes one every morning to\n"
            "state_dir/reports.",
    .opts = &table,
    .config = &run_config_table,
    .run = run,
};
