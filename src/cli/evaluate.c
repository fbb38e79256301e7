#include <math.h>
#include <string.h>

#include "base/mem.h"
#include "base/signal.h"
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
                "a rule, NAME+guard, NAME:published, oracle, or a policy file; repeat it", .metavar = "POLICY"),
    OPT_INT(struct evaluate_cmd_opts, seeds, "seeds", "5", "1", "100", "noise seeds, the same for every policy"),
    OPT_INT(struct evaluate_cmd_opts, tune_evals, "tune-evals", "60", "4", "500",
            "settings tried per price of a miss when a rule is tuned"),
    OPT_BOOL(struct evaluate_cmd_opts, tune, "tune", "true", "tune rules on the training days first"),
    OPT_BOOL(struct evaluate_cmd_opts, bounds, "bounds", "true", "compute the lower bound and the oracle"),
};
static const struct opt_table table = OPT_TABLE("evaluate", struct evaluate_cmd_opts, rows, "Paired comparison.");

static bool wants_html(const struct cli_ctx *c)
{
    size_t n = c->output ? strlen(c->output) : 0;
    return n > 5 && strcmp(c->output + n - 5, ".html") == 0;
}

static enum err_code run(struct cli_ctx *c, struct err *e)
{
    const struct evaluate_cmd_opts *o = c->opts;
    static const char *const usual[] = {"hpa", "predictive", "mpc"};
    struct cli_world cw;
    struct evaluate_result *r = NULL;
    struct buf text = buf_init(CLI_TEXT_MAX);
    enum err_code rc = cli_world_open(c, c->args[0], &cw, e);
    if (rc)
        return rc;
    signal_catch();
    struct evaluate_opts eo = {
        .n_seeds = (int)o->seeds,
        .tune_evals = o->tune ? (int)o->tune_evals : 0,
        .all_fronts = wants_html(c),
        .bounds = o->bounds,
        .policies = o->policies.n ? (const char *const *)o->policies.items : usual,
        .n_policies = o->policies.n ? o->policies.n : ARRAY_LEN(usual),
        .seed = c->seed,
    };
    rc = evaluate_run(cw.world, &eo, cw.pool, cli_stage, c, &r, e);
    if (!rc && wants_html(c))
        rc = story_write(cw.world, r, NULL, c->seed, c->output, e);
    if (!rc) {
        evaluation_format(&r->ev, c->format, cli_colour(c), &text);
        if (c->format == CLI_TABLE)
            evaluation_summary(&r->ev, &text);
    }
    if (!rc && wants_html(c)) {
        (void)fwrite(text.p, 1, text.n, stdout);
        buf_fini(&text);
    } else if (!rc) {
        rc = cli_finish(c, &text, e);
    } else {
        buf_fini(&text);
    }
    evaluate_free(r);
    cli_world_close(&cw);
    return rc;
}

const struct cli_cmd cmd_evaluate = {
    .name = "evaluate",
    .summary = "policies side by side on days none of them has seen, with intervals and bounds",
    .args = "SCENARIO",
    .min_args = 1,
    .max_args = 1,
    .help = "With -o FILE.html a report is written as well, and the table goes to standard output.\n",
    .opts = &table,
    .config = &scenario_table,
    .run = run,
};
