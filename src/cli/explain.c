#include <math.h>
#include <string.h>

#include "base/mem.h"
#include "cli/commands.h"
#include "report/decision.h"
#include "train/explained.h"

struct explain_opts {
    char *policy, *rule;
    int64_t most;
};
static const struct opt_row rows[] = {
    OPT_STRING(struct explain_opts, policy, "policy", "mpc", "policy file or rule to explain", .metavar = "POLICY"),
    OPT_STRING(struct explain_opts, rule, "rule", "hpa", "what it is set beside; none: nothing", .metavar = "POLICY"),
    OPT_INT(struct explain_opts, most, "most", "20", "1", "120", "decisions listed: those that moved most"),
};
static const struct opt_table table = OPT_TABLE("explain", struct explain_opts, rows, "Reasons of decisions.");

static enum err_code explain(struct cli_ctx *c, const struct world *w, struct chance *chance, struct buf *text,
                             struct err *e)
{
    const struct explain_opts *o = c->opts;
    struct contender who, rule = {0};
    struct explained x = {0};
    bool beside = strcmp(o->rule, "none") != 0;
    enum err_code rc = contender_parse(o->policy, &who, e);
    if (!rc && beside)
        rc = contender_parse(o->rule, &rule, e);
    if (!rc && (who.kind == CONTENDER_ORACLE || (beside && rule.kind != CONTENDER_RULE)))
        rc = err_set(e, ERR_USAGE, "--policy takes a rule or a policy file, --rule a rule");
    if (!rc)
        rc = explained_make(w, chance, &who, beside ? &rule.use : NULL, (size_t)o->most, EXPLAINED_MOST, &x, e);
    if (!rc) {
        decisions_format(x.decision, x.n, w->zone, c->format, cli_colour(c), text);
        if (c->format == CLI_TABLE)
            buf_fmt(text, "\n%zu of %zu decisions on the test days: %s\n", x.n, x.n_total, x.note);
        if (c->format == CLI_TABLE && x.tree)
            buf_fmt(text, "\nThe policy as a small tree, fitted to %d of its own decisions:\n%s", x.tree_rows, x.tree);
    }
    explained_fini(&x);
    return rc;
}

static enum err_code run(struct cli_ctx *c, struct err *e)
{
    struct cli_world cw;
    struct chance *chance = NULL;
    struct buf text = buf_init(CLI_TEXT_MAX);
    enum err_code rc = cli_world_open(c, c->args[0], &cw, e);
    if (rc)
        return rc;
    rc = chance_new(cw.world, c->seed_given ? c->seed : (uint64_t)cw.scenario.chance.seed, &chance, e);
    if (!rc)
        rc = explain(c, cw.world, chance, &text, e);
    chance_free(chance);
    cli_world_close(&cw);
    if (rc)
        buf_fini(&text);
    return rc ? rc : cli_finish(c, &text, e);
}

const struct cli_cmd cmd_explain = {
    .name = "explain",
    .summary = "why a policy decided as it did: factors, guard, what the rules would have done, a small tree",
    .args = "SCENARIO",
    .min_args = 1,
    .max_args = 1,
    .opts = &table,
    .config = &scenario_table,
    .run = run,
};
