/* decisions.c - `sluice decisions list|show|replay|notes`: what was decided, why, and whether it
 * would be decided again. */
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "base/num.h"
#include "cli/decisions_priv.h"
#include "daemon/config.h"
#include "report/table.h"

static const char *const verdicts[] = {"any", "pass", "clamp", "hold", "veto", NULL};

#define O struct decisions_opts
static const struct opt_row rows[] = {
    OPT_STRING(O, store, "store", NULL,
               "file of records; else $SLUICE_STATE_DIR/sluice.db, else /var/lib/sluice/sluice.db",
               .metavar = "PATH"),
    OPT_STRING(O, target, "target", NULL, "only of this target", .metavar = "[NAMESPACE/]NAME"),
    OPT_STRING(O, since, "since", NULL,
               "from this time on, or a span before the newest decision, such as 24h",
               .metavar = "TIME"),
    OPT_STRING(O, until, "until", NULL, "before this time, likewise", .metavar = "TIME"),
    OPT_BOOL(O, acted, "acted", "false", "list: only those that were acted upon"),
    OPT_ENUM(O, verdict, "verdict", "any", verdicts, "list: only those the guard judged so"),
    OPT_BOOL(O, shadow, "shadow", "false",
             "those of the policy that runs in shadow instead of the acting one's"),
    OPT_INT(O, limit, "limit", "20", "0", "1000000",
            "list: at most so many, newest first; replay: differences told; 0: all"),
    OPT_BOOL(O, all, "all", "false", "replay: every decision there is"),
    OPT_BOOL(O, full, "full", "false",
             "show: also every check, what was measured, and the configuration"),
    OPT_STRING(O, policy_file, "policy-file", NULL, "replay, show: where the learned policy is now",
               .metavar = "PATH"),
    OPT_STRING(O, timezone, "timezone", NULL,
               "of times read and shown, such as Europe/Berlin; UTC when absent",
               .metavar = "ZONE"),
};
#undef O
static const struct opt_table table =
    OPT_TABLE("decisions", struct decisions_opts, rows, "Decisions that were made.");

/* ---- list ------------------------------------------------------------------------------------ */

struct listing {
    struct table *table;
    const struct tz *zone;
    bool people;
};

static void put_time(struct listing *l, int64_t t_us)
{
    char at[TZ_TEXT];
    tz_format_rfc3339(l->zone, t_us, at);
    if (l->people) { /* to the second, the zone is said once */
        at[19] = '\0';
        at[10] = ' ';
    }
    table_text(l->table, at);
}

static bool on_row(void *ctx, const struct store_decision *d, const struct store_target *t)
{
    struct listing *l = ctx;
    char id[32];
    (void)snprintf(id, sizeof id, "%lld", (long long)d->id);
    table_num_text(l->table, (double)d->id, id);
    put_time(l, d->time_us);
    table_textf(l->table, "%s/%s", t->namespace_, t->name);
    table_text(l->table, d->policy);
    table_num(l->table, d->units_before);
    table_num(l->table, d->proposed);
    table_num(l->table, d->executed);
    if (d->rule)
        table_num(l->table, d->rule_units);
    else
        table_skip(l->table);
    table_text(l->table, d->verdict);
    table_text(l->table, d->decisive ? d->decisive : "");
    table_text(l->table, d->action == STORE_NONE ? "" : store_action_name(d->action));
    table_text(l->table, d->error ? d->error : "");
    if (!l->people) {
        table_text(l->table, d->stage);
        table_text(l->table, store_role_name(d->role));
        table_text(l->table, d->holder);
        table_text(l->table, d->outcome ? d->outcome : "");
        table_text(l->table, d->why);
    }
    return true;
}

enum err_code decisions_list(struct decisions *d, struct buf *text, struct err *e)
{
    static const struct table_column columns[] = {
        {"id", NULL, 0},
        {"time", NULL, 0},
        {"target", NULL, 0},
        {"policy", NULL, 0},
        {"units_before", "from", 0},
        {"proposed", NULL, 0},
        {"executed", "to", 0},
        {"rule_units", "rules", 0},
        {"verdict", "guard", 0},
        {"check", "check", 0},
        {"action", NULL, 0},
        {"error", NULL, 0},
        {"stage", NULL, 0},
        {"role", NULL, 0},
        {"holder", NULL, 0},
        {"outcome", NULL, 0},
        {"why", NULL, 0},
    };
    enum { FOR_PEOPLE = 12 };
    bool people = d->c->format == CLI_TABLE;
    struct listing l = {.table = table_new(columns, people ? FOR_PEOPLE : ARRAY_LEN(columns)),
                        .zone = d->zone,
                        .people = people};
    d->q.newest_first = true;
    d->q.limit = d->o->limit;
    enum err_code rc = store_decisions(d->store, &d->q, on_row, &l, e);
    size_t n = table_n_rows(l.table);
    if (!rc && people && n == 0)
        buf_fmt(text, "no decisions of this kind in %s\n", store_path(d->store));
    else if (!rc)
        table_format(l.table, d->c->format, cli_colour(d->c), text);
    if (!rc && people && n > 0)
        buf_fmt(text,
                "\n%zu shown, newest first; times are %s. `sluice decisions show ID` tells why.\n",
                n, d->zone ? tz_name(d->zone) : "UTC");
    table_free(l.table);
    return rc;
}

/* ---- asking ---------------------------------------------------------------------------------- */

/* "ns/name" or "name" */
static void split_target(struct decisions *d)
{
    if (!d->o->target)
        return;
    d->target = mem_strdup(d->o->target);
    char *slash = strchr(d->target, '/');
    d->q.name = slash ? slash + 1 : d->target;
    if (slash) {
        *slash = '\0';
        d->q.namespace_ = d->target;
    }
}

static enum err_code read_query(struct decisions *d, struct err *e)
{
    enum err_code rc = cli_store_time(d->store, "since", d->o->since, d->zone, &d->q.since_us, e);
    if (!rc)
        rc = cli_store_time(d->store, "until", d->o->until, d->zone, &d->q.until_us, e);
    if (rc)
        return rc;
    split_target(d);
    d->q.acted = d->o->acted;
    d->q.verdict = d->o->verdict ? verdicts[d->o->verdict] : NULL;
    d->q.role = 1 + (d->o->shadow ? STORE_SHADOW : STORE_ACTING);
    return ERR_OK;
}

enum action { LIST, SHOW, REPLAY, NOTES, ACTIONS };

/* The words after `decisions`. */
static enum err_code read_args(struct decisions *d, enum action *action, struct err *e)
{
    static const char *const name[ACTIONS] = {
        [LIST] = "list", [SHOW] = "show", [REPLAY] = "replay", [NOTES] = "notes"};
    const char *id = d->c->n_args > 1 ? d->c->args[1] : NULL;
    int a = 0;
    while (a < ACTIONS && strcmp(d->c->args[0], name[a]) != 0)
        a++;
    if (a == ACTIONS)
        return err_set(e, ERR_USAGE, "decisions %.60s: there are list, show ID, replay and notes",
                       d->c->args[0]);
    *action = (enum action)a;
    const bool alone = *action == LIST || *action == NOTES;
    if (id && (alone || !num_i64(id, strlen(id), &d->id) || d->id < 1))
        return err_set(e, ERR_USAGE, "decisions %s %.60s: %s", name[a], id,
                       alone ? "takes no more words; options say which"
                             : "expected the number of a decision");
    if (*action == SHOW && !id)
        return err_set(e, ERR_USAGE,
                       "decisions show: which one? `sluice decisions list` has the numbers");
    if (*action == REPLAY && !id && !d->o->all && !d->o->since && !d->o->target)
        return err_set(e, ERR_USAGE,
                       "decisions replay: which ones? ID, --since 24h, --target NAME or --all");
    return ERR_OK;
}

static enum err_code answer(struct decisions *d, enum action action, struct buf *text,
                            struct err *verdict, struct err *e)
{
    switch (action) {
    case LIST:
        return decisions_list(d, text, e);
    case SHOW:
        return decisions_show(d, text, e);
    case NOTES:
        return decisions_notes(d, text, e);
    default:
        return decisions_replay(d, text, verdict, e);
    }
}

static enum err_code run(struct cli_ctx *c, struct err *e)
{
    struct decisions d = {.c = c, .o = c->opts};
    struct buf text = buf_init(CLI_TEXT_MAX);
    struct err verdict = {0};
    enum action action = LIST;
    enum err_code rc = read_args(&d, &action, e);
    if (!rc)
        rc = cli_store_settings(c, d.o->store, d.o->timezone, &d.store, &d.zone, e);
    if (!rc)
        rc = cli_store_target(d.store, d.o->target, e);
    if (!rc)
        rc = read_query(&d, e);
    if (!rc)
        rc = answer(&d, action, &text, &verdict, e);
    store_close(d.store);
    tz_free(d.zone);
    mem_free(d.target);
    if (rc) {
        buf_fini(&text);
        return rc;
    }
    if ((rc = cli_finish(c, &text, e)) == ERR_OK && verdict.code) {
        *e = verdict;
        rc = verdict.code;
    }
    return rc;
}

const struct cli_cmd cmd_decisions = {
    .name = "decisions",
    .summary = "what was decided live, why, and whether the same inputs give the same bits again",
    .args = "list|show|replay|notes [ID]",
    .min_args = 1,
    .max_args = 2,
    .help = "  list             newest first\n"
            "  show ID          one with its reasons: factors, guard, what the rules would have "
            "done, what came of it\n"
            "  replay ID        makes it again from its record and compares every bit; also "
            "--since, --target, --all\n"
            "  notes            who froze, overrode, reloaded or led, and when\n\n"
            "replay fails when anything differs, or could not be made again (another build, a "
            "policy file gone).\n",
    .opts = &table,
    .config = &run_config_table,
    .run = run,
};
