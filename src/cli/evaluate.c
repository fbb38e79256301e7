#include <math.h>
#include <string.h>

#include "base/mem.h"
#include "cli/commands.h"
#include "train/evaluate.h"
#include "train/story.h"

struct evaluate_cmd_opts {
    struct opt_strings policies;
    int64_t seeds, tune_evals;
    bool tune, bounds;
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

static void format(const struct cli_ctx *c, const struct scenario *sc, const struct evaluation *ev,
                   struct buf *text)
{
    evaluation_format(ev, c->format, cli_colour(c), text);
    if (c->format != CLI_TABLE)
        return;
    if (sc->report_only)
        buf_fmt(text, "%s is report-only: too short to judge a policy on.\n", sc->name);
    cli_summary(ev, text);
}

static enum err_code evaluate(struct cli_ctx *c, const struct cli_world *cw, struct buf *text,
                              struct err *e)
{
    static const char *const usual[] = {"hpa", "predictive", "mpc"};
    const struct evaluate_cmd_opts *o = c->opts;
    struct evaluate_result *r = NULL;
    struct cli_progress progress;
    struct evaluate_opts eo = {
        .n_seeds = (int)o->seeds,
        .tune_evals = o->tune ? (int)o->tune_evals : 0,
        .all_fronts = wants_html(c),
        .bounds = o->bounds,
        .policies = o->policies.n ? (const char *const *)o->policies.items : usual,
        .n_policies = o->policies.n ? o->policies.n : ARRAY_LEN(usual),
        .seed = c->seed,
    };
    cli_progress_init(&progress, c, "evaluating", 0);
    enum err_code rc = evaluate_run(cw->world, &eo, cw->pool, cli_progress_at, &progress, &r, e);
    if (!rc && wants_html(c)) {
        cli_progress_at(&progress, "report", progress.done, progress.done);
        rc = story_write(cw->world, r, NULL, c->seed, c->output, e);
    }
    cli_progress_fini(&progress);
    if (!rc)
        format(c, &cw->scenario, &r->ev, text);
    evaluate_free(r);
    return rc;
}

static enum err_code run(struct cli_ctx *c, struct err *e)
{
    struct cli_world cw = {0};
    struct buf text = buf_init(CLI_TEXT_MAX);
    enum err_code rc = check_names(c->opts, e);
    if (!rc)
        rc = cli_world_open(c, c->args[0], &cw, e);
    if (!rc)
        rc = evaluate(c, &cw, &text, e);
    cli_world_close(&cw);
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
    .min_args = 1,
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
        "With -o FILE.html the report is written there and the table goes to standard output.\n",
    .opts = &table,
    .config = &scenario_table,
    .run = run,
};
