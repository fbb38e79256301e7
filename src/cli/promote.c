/* promote.c - `sluice promote`: is the challenger better than what acts?  Exit 0: promote it; 1: do
 * not. */
#include <pwd.h>
#include <string.h>
#include <unistd.h>

#include "base/mem.h"
#include "cli/commands.h"
#include "daemon/promote.h"

struct promote_cmd_opts {
    struct opt_strings stores;
    char *target, *since, *until, *challenger, *champion, *timezone, *author;
    int64_t seeds;
    double miss_share;
    bool apply;
};
#define O struct promote_cmd_opts
static const struct opt_row rows[] = {
    OPT_STRING(O, challenger, "challenger", NULL, "policy or policy file that is to take over",
               .metavar = "POLICY"),
    OPT_STRING(O, champion, "champion", NULL, "what it is compared with; else the policy that acts",
               .metavar = "POLICY"),
    OPT_STRINGS(O, stores, "store", NULL,
                "file of records, repeated for the other replica's: each records while it leads; "
                "else $SLUICE_STATE_DIR/sluice.db, else /var/lib/sluice/sluice.db",
                .metavar = "PATH"),
    OPT_STRING(O, target, "target", NULL, "only this target", .metavar = "[NAMESPACE/]NAME"),
    OPT_STRING(O, since, "since", "7d", "from this time on, or a span before the newest decision",
               .metavar = "TIME"),
    OPT_STRING(O, until, "until", NULL, "before this time, likewise", .metavar = "TIME"),
    OPT_INT(O, seeds, "seeds", "5", "1", "100", "runs of starts and failures per day and policy"),
    OPT_DOUBLE(O, miss_share, "miss-share", "0.2", "0", "1",
               "of the misses the SLO allows: so many more are tolerated"),
    OPT_BOOL(O, apply, "apply", "false",
             "when promoted: note it in the store, and say which setting to change"),
    OPT_STRING(O, author, "author", NULL, "who promotes, for the note; else the user",
               .metavar = "NAME"),
    OPT_STRING(O, timezone, "timezone", NULL,
               "of times read and shown, such as Europe/Berlin; UTC when absent",
               .metavar = "ZONE"),
};
#undef O
static const struct opt_table table =
    OPT_TABLE("promote", struct promote_cmd_opts, rows, "Champion and challenger.");

static enum err_code compare(struct cli_ctx *c, const struct cli_stores *x, const struct tz *zone,
                             struct promote_opts *opts, struct promote **out, struct err *e)
{
    const struct promote_cmd_opts *o = c->opts;
    opts->champion = o->champion;
    opts->target = o->target;
    opts->n_seeds = (int)o->seeds;
    opts->miss_share = o->miss_share;
    opts->zone = zone;
    enum err_code rc =
        cli_stores_times(x, o->since, o->until, zone, &opts->since_us, &opts->until_us, e);
    return rc ? rc : promote_new(x->s, x->n, opts, out, e);
}

static const char *user_name(void)
{
    const struct passwd *p = getpwuid(getuid());
    return p ? p->pw_name : "unknown";
}

/* Beside the daemon that has the store, if one runs. */
static enum err_code put_note(const char *path, const struct store_note *n, struct err *e)
{
    struct store_opts so = store_opts_default(path);
    struct store *s = NULL;
    so.beside = true;
    enum err_code rc = store_open(&so, &s, e);
    if (!rc)
        rc = store_put_note(s, n, e);
    store_close(s);
    return rc;
}

static void apply(const struct cli_ctx *c, const struct promotion *p, int64_t at_us,
                  struct buf *text)
{
    const struct promote_cmd_opts *o = c->opts;
    char *usual = o->stores.n ? NULL : store_path_default(NULL);
    struct store_note n = {.time_us = at_us,
                           .kind = STORE_NOTE_PROMOTE,
                           .author = o->author ? o->author : user_name(),
                           .text = p->words};
    for (size_t i = 0; i < (usual ? 1 : o->stores.n); i++) {
        const char *path = usual ? usual : o->stores.items[i];
        struct err e;
        enum err_code rc = put_note(path, &n, &e);
        if (c->format == CLI_TABLE)
            buf_fmt(text, "%s%s\n", rc ? "not noted: " : "noted in ", rc ? e.msg : path);
        else if (rc)
            log_write(c->log, LOG_WARN, "promote", "not noted in the store", "error=\"%s\"", e.msg);
    }
    mem_free(usual);
    if (c->format == CLI_TABLE)
        buf_fmt(text,
                "now change the configuration (ConfigMap sluice-config, sluice.yaml), reloaded within "
                "seconds:\n  %s\n",
                p->setting);
}

static enum err_code check(const struct cli_ctx *c, struct err *e)
{
    const struct promote_cmd_opts *o = c->opts;
    if (!o->challenger)
        return err_set(e, ERR_USAGE, "promote: --challenger names the policy that is to take over");
    if (c->format == CLI_CSV)
        return err_set(e, ERR_USAGE, "promote prints a table or json");
    return ERR_OK;
}

static enum err_code run(struct cli_ctx *c, struct err *e)
{
    const struct promote_cmd_opts *o = c->opts;
    struct buf text = buf_init(CLI_TEXT_MAX);
    struct promote_opts opts = promote_opts_default(o->challenger);
    struct cli_stores x = {.n = 0};
    struct tz *zone = NULL;
    struct promote *p = NULL;
    enum err_code rc = check(c, e);
    if (!rc)
        rc = cli_stores_open(&o->stores, &x, e);
    if (!rc && o->timezone)
        rc = tz_load(o->timezone, &zone, e);
    if (!rc)
        rc = compare(c, &x, zone, &opts, &p, e);
    cli_stores_close(&x);
    bool promoted = !rc && promote_result(p)->verdict == PROMOTION_PROMOTE;
    if (!rc)
        promotion_format(promote_result(p), c->format, cli_colour(c), &text);
    if (promoted && o->apply)
        apply(c, promote_result(p), promote_result(p)->until_us, &text);
    struct err verdict = {0};
    if (!rc && !promoted)
        (void)err_set(&verdict, ERR_MISMATCH, "not promoted: %s", promote_result(p)->words);
    promote_free(p);
    tz_free(zone);
    if (rc) {
        buf_fini(&text);
        return rc;
    }
    rc = cli_finish(c, &text, e);
    if (!rc && !promoted) {
        *e = verdict;
        rc = verdict.code;
    }
    return rc;
}

const struct cli_cmd cmd_promote = {
    .name = "promote",
    .summary =
        "champion and challenger: replays the recorded days with both, and says whether to change",
    .help = "Exit 0 when the challenger costs significantly less and is no worse on the SLO, 1 "
            "when it is not proven.\n"
            "Needs three days of records, and asks for seven.  Changes nothing; --apply "
            "notes it\nin every store named, also while the daemon has it.\n\n"
            "    sluice promote --challenger mpc --since 14d\n"
            "    sluice promote --challenger /etc/sluice/new.safetensors --target prod/chat "
            "--format json",
    .opts = &table,
    .run = run,
};
