#include <math.h>
#include <string.h>

#include "base/file.h"
#include "base/mem.h"
#include "cli/commands.h"
#include "daemon/recorded.h"
#include "train/evaluate.h"
#include "train/story.h"

struct evaluate_cmd_opts {
    struct opt_strings policies;
    int64_t seeds, tune_evals;
    bool tune, bounds;
    bool from_store;
    struct opt_strings stores;
    char *target, *since, *until;
};
static const struct opt_row rows[] = {
    OPT_STRINGS(struct evaluate_cmd_opts, policies, "policy", NULL,
                "a rule or a policy file, see above; hpa, predictive and mpc when none is given",
                .metavar = "POLICY"),
    OPT_INT(struct evaluate_cmd_opts, seeds, "seeds", "5", "1", "100",
            "noise seeds, the same for every policy"),
    OPT_INT(struct evaluate_cmd_opts, tune_evals, "tune-evals", "60", "4", "500",
            "settings tried per price of a miss when a rule is tuned"),
    OPT_BOOL(struct evaluate_cmd_opts, tune, "tune", "true",
             "tune rules on the training days first"),
    OPT_BOOL(struct evaluate_cmd_opts, bounds, "bounds", "true",
             "compute the lower bound and the oracle"),
    OPT_BOOL(struct evaluate_cmd_opts, from_store, "from-store", "false",
             "in place of SCENARIO: the recorded past of a live target, what was really asked for "
             "as the first row"),
    OPT_STRINGS(struct evaluate_cmd_opts, stores, "store", NULL,
                "file of records, or several: each replica has its own; else "
                "$SLUICE_STATE_DIR/sluice.db, else /var/lib/sluice/sluice.db",
                .metavar = "PATH"),
    OPT_STRING(struct evaluate_cmd_opts, target, "target", NULL, "which target of the store",
               .metavar = "[NAMESPACE/]NAME"),
    OPT_STRING(struct evaluate_cmd_opts, since, "since", "7d",
               "of the store: from this time on, or a span before the newest decision",
               .metavar = "TIME"),
    OPT_STRING(struct evaluate_cmd_opts, until, "until", NULL,
               "of the store: before this time, likewise", .metavar = "TIME"),
};
static const struct opt_table table =
    OPT_TABLE("evaluate", struct evaluate_cmd_opts, rows, "Paired comparison.");

static bool wants_html(const struct cli_ctx *c)
{
    size_t n = c->output ? strlen(c->output) : 0;
    return n > 5 && strcmp(c->output + n - 5, ".html") == 0;
}

/* Unknown names are found before the data is read. */
static enum err_code check_names(const struct evaluate_cmd_opts *o, struct err *e)
{
    enum err_code rc = ERR_OK;
    for (size_t i = 0; i < o->policies.n && !rc; i++) {
        struct contender who;
        rc = cli_contender(o->policies.items[i], &who, e);
        if (!rc && who.kind == CONTENDER_ORACLE && !o->bounds)
            rc = err_set(e, ERR_USAGE, "--policy oracle needs the bounds; leave out --no-bounds");
    }
    return rc;
}

static void format(const struct cli_ctx *c, const struct world *w, const struct evaluate_result *r,
                   bool words, struct buf *text)
{
    evaluation_format(&r->ev, c->format, cli_colour(c), text);
    if (c->format != CLI_TABLE)
        return;
    evaluate_remarks(w, r, text);
    if (words)
        cli_summary(&r->ev, text);
}

/* What is compared, and whether it is the past of a live target. */
struct compared {
    struct cli_world cw;
    struct recorded past;
    bool recorded;
    const char *policies[5];
    size_t n_policies; /* those to take when none is named */
};

static struct evaluate_opts opts_of(const struct cli_ctx *c, const struct compared *x)
{
    const struct evaluate_cmd_opts *o = c->opts;
    bool tune = o->tune && !(x->recorded && !x->past.judged);
    return (struct evaluate_opts){
        .n_seeds = (int)o->seeds,
        .tune_evals = tune ? (int)o->tune_evals : 0,
        .all_fronts = wants_html(c),
        .bounds = o->bounds,
        .policies = o->policies.n ? (const char *const *)o->policies.items : x->policies,
        .n_policies = o->policies.n ? o->policies.n : x->n_policies,
        .seed = c->seed,
        .recorded = x->recorded ? x->past.units : NULL,
    };
}

static enum err_code evaluate(struct cli_ctx *c, const struct compared *x, struct buf *text,
                              struct err *e)
{
    struct evaluate_result *r = NULL;
    struct cli_progress progress;
    struct evaluate_opts eo = opts_of(c, x);
    cli_progress_init(&progress, c, "evaluating", 0);
    enum err_code rc =
        evaluate_run(x->cw.world, &eo, x->cw.pool, cli_progress_at, &progress, &r, e);
    if (!rc && wants_html(c)) {
        cli_progress_at(&progress, "report", progress.done, progress.done);
        rc = story_write(x->cw.world, r, NULL, c->seed, c->output, e);
    }
    cli_progress_fini(&progress);
    if (!rc)
        format(c, x->cw.world, r, !x->recorded || x->past.judged, text);
    evaluate_free(r);
    return rc;
}

/* ---- from the store -------------------------------------------------------------------------- */

static void add_policy(struct compared *x, const char *name)
{
    for (size_t i = 0; i < x->n_policies; i++)
        if (strcmp(x->policies[i], name) == 0)
            return;
    x->policies[x->n_policies++] = name;
}

/* What acts now, if it is at hand, and the usual ones. */
static void usual_policies(struct compared *x)
{
    struct contender who;
    const char *acting = x->recorded ? x->past.policy : "";
    if (*acting && !contender_parse(acting, &who, NULL) &&
        (who.kind == CONTENDER_RULE || (who.kind == CONTENDER_LEARNED && file_exists(acting))))
        add_policy(x, acting);
    add_policy(x, "hpa");
    add_policy(x, "predictive");
    add_policy(x, "mpc");
}

static enum err_code check_recorded(const struct recorded *past, struct err *e)
{
    if (2 * past->usable >= past->n)
        return ERR_OK;
    return err_set(e, ERR_RANGE,
                   "%s: only %.0f %% of the steps were recorded here; a replica records while it "
                   "leads. Name the other replica's file too (--store, repeated), or less time",
                   past->scenario.name, 100.0 * (double)past->usable / (double)past->n);
}

static enum err_code load_past(const struct cli_ctx *c, struct compared *x, struct err *e)
{
    const struct evaluate_cmd_opts *o = c->opts;
    struct cli_stores s;
    struct store_query q = {0};
    char *target = o->target ? mem_strdup(o->target) : NULL,
         *slash = target ? strchr(target, '/') : NULL;
    if (slash)
        *slash = '\0';
    q.namespace_ = slash ? target : NULL;
    q.name = slash ? slash + 1 : target;
    enum err_code rc = cli_stores_open(&o->stores, &s, e);
    if (!rc && s.n == 1)
        rc = cli_store_target(s.s[0], o->target, e);
    if (!rc)
        rc = cli_stores_times(&s, o->since, o->until, NULL, &q.since_us, &q.until_us, e);
    if (!rc)
        rc = recorded_load_all(s.s, s.n, &q, &x->past, e);
    x->recorded = !rc;
    cli_stores_close(&s);
    mem_free(target);
    return rc ? rc : check_recorded(&x->past, e);
}

/* --set over what the records say of the service. */
static enum err_code change_past(const struct cli_ctx *c, struct recorded *past, struct err *e)
{
    const int64_t step_us = past->scenario.step_us;
    for (size_t i = 0; i < c->n_sets; i++)
        if (opt_set(&scenario_table, &past->scenario, c->sets[i], NULL, e)) {
            e->code = ERR_USAGE;
            return ERR_USAGE;
        }
    if (past->scenario.step_us != step_us)
        return err_set(e, ERR_USAGE, "--set step: the step is that of the records");
    for (int64_t i = 0; i < past->n; i++)
        if (past->units[i] > past->scenario.service.units_max)
            past->units[i] = (int16_t)past->scenario.service.units_max;
    return ERR_OK;
}

static enum err_code open_past(const struct cli_ctx *c, struct compared *x, struct err *e)
{
    enum err_code rc = load_past(c, x, e);
    if (!rc)
        rc = change_past(c, &x->past, e);
    if (!rc)
        rc = world_from_demand(&x->past.scenario, x->past.qps, x->past.barred, x->past.n,
                               x->past.start_us, x->past.zone, &x->cw.world, e);
    if (!rc)
        rc = thread_pool_new(c->threads, &x->cw.pool, e);
    return rc;
}

/* Below the table; beside other formats on stderr, whose output is for programs. */
static void tell_notes(const struct cli_ctx *c, const struct compared *x, struct buf *text)
{
    if (!x->recorded)
        return;
    for (char *at = x->past.notes.p; *at;) {
        int n = (int)strcspn(at, "\n");
        if (c->format == CLI_TABLE)
            buf_fmt(text, "note: %.*s\n", n, at);
        else
            log_write(c->log, LOG_WARN, "evaluate", "about these records", "note=\"%.*s\"", n, at);
        at += n + (at[n] == '\n');
    }
}

/* ---- the command ----------------------------------------------------------------------------- */

static enum err_code check_source(const struct cli_ctx *c, struct err *e)
{
    const struct evaluate_cmd_opts *o = c->opts;
    if (o->from_store && c->n_args > 0)
        return err_set(e, ERR_USAGE, "either SCENARIO or --from-store, not both");
    if (o->from_store && c->config)
        return err_set(e, ERR_USAGE,
                       "--from-store takes its settings from the records; change some with --set");
    if (!o->from_store && c->n_args == 0)
        return err_set(
            e, ERR_USAGE,
            "missing argument: expected SCENARIO, or --from-store for the recorded past of a target");
    return ERR_OK;
}

static enum err_code run(struct cli_ctx *c, struct err *e)
{
    const struct evaluate_cmd_opts *o = c->opts;
    struct compared *x = mem_zero(1, sizeof *x);
    struct buf text = buf_init(CLI_TEXT_MAX);
    enum err_code rc = check_source(c, e);
    if (!rc)
        rc = check_names(o, e);
    if (!rc)
        rc = o->from_store ? open_past(c, x, e) : cli_world_open(c, c->args[0], &x->cw, e);
    if (!rc) {
        usual_policies(x);
        rc = evaluate(c, x, &text, e);
    }
    if (!rc)
        tell_notes(c, x, &text);
    cli_world_close(&x->cw);
    recorded_fini(&x->past);
    mem_free(x);
    if (rc || !wants_html(c)) {
        if (!rc)
            return cli_finish(c, &text, e);
        buf_fini(&text);
        return rc;
    }
    struct cli_ctx to_stdout = *c; /* the page has the file */
    to_stdout.output = NULL;
    return cli_finish(&to_stdout, &text, e);
}

const struct cli_cmd cmd_evaluate = {
    .name = "evaluate",
    .summary = "policies side by side on days none of them has seen, with intervals and bounds",
    .args = "SCENARIO",
    .min_args = 0,
    .max_args = 1,
    .help =
        "POLICY is one of\n"
        "  hpa, predictive, mpc, queue, static   a rule, tuned on the training days first\n"
        "  threshold                             a rule with its published constants\n"
        "  NAME:published                        any rule with its published settings\n"
        "  NAME:option=value,...                 any rule with stated settings, as `sluice tune` "
        "prints them\n"
        "  NAME+guard, NAME-guard                with or without the guard\n"
        "  FILE.safetensors                      a policy made by `sluice train`\n"
        "  foresight, oracle                     references that know the future\n\n"
        "--from-store compares over the recorded past of a live target instead: its measured "
        "demand, the sizes it\n"
        "really had (\"recorded\") beside what policies would have done.  Under three days it is "
        "report-only.\n"
        "With -o FILE.html the report is written there and the table goes to standard output.\n",
    .opts = &table,
    .config = &scenario_table,
    .run = run,
};
