#include <math.h>
#include <string.h>

#include "base/mem.h"
#include "cli/commands.h"
#include "history/time_text.h"
#include "report/decision.h"
#include "train/explained.h"

struct explain_opts {
    char *policy, *rule, *at;
    int64_t most;
};
static const struct opt_row rows[] = {
    OPT_STRING(struct explain_opts, policy, "policy", "mpc", "a policy file or a rule to explain",
               .metavar = "POLICY"),
    OPT_STRING(struct explain_opts, rule, "rule", "hpa", "what it is set beside; none: nothing",
               .metavar = "POLICY"),
    OPT_STRING(
        struct explain_opts, at, "at", NULL,
        "list the decisions nearest to this time, such as 2024-05-01T12:00 in the history's zone",
        .metavar = "TIME"),
    OPT_INT(struct explain_opts, most, "most", "20", "1", "120",
            "decisions listed: those that moved most, or nearest to --at"),
};
static const struct opt_table table =
    OPT_TABLE("explain", struct explain_opts, rows, "Reasons of decisions.");

/* What was asked about. */
struct question {
    struct contender who, rule;
    bool beside;
    int64_t at_us;
};

static enum err_code check_names(const struct explain_opts *o, struct question *q, struct err *e)
{
    q->beside = strcmp(o->rule, "none") != 0;
    enum err_code rc = cli_contender(o->policy, &q->who, e);
    if (!rc && q->beside)
        rc = cli_contender(o->rule, &q->rule, e);
    if (!rc && q->who.kind == CONTENDER_ORACLE)
        rc = err_set(
            e, ERR_USAGE,
            "--policy oracle decides with the future at hand; there are no reasons to tell");
    if (!rc && q->beside && q->rule.kind != CONTENDER_RULE)
        rc = err_set(e, ERR_USAGE, "--rule %s: takes a rule, such as hpa, or none", o->rule);
    return rc;
}

static enum err_code read_time(const char *text, const struct world *w, int64_t *at_us,
                               struct err *e)
{
    struct time_reader r;
    *at_us = EXPLAINED_MOST;
    if (!text)
        return ERR_OK;
    time_reader_init(&r, TIME_AUTO, w->zone, false);
    enum time_result how = time_read(&r, text, strlen(text), at_us);
    if (how == TIME_BAD || how == TIME_OUT_OF_RANGE)
        return err_set(
            e, ERR_USAGE,
            "--at %.60s: expected a time such as 2024-05-01T12:00 or 2024-05-01T12:00:00Z", text);
    return ERR_OK;
}

static void put_json(const struct explained *x, const struct world *w, const struct explain_opts *o,
                     struct buf *text)
{
    struct json_writer j = json_writer_init(text, 2);
    json_open(&j, NULL);
    json_put_str(&j, "scenario", w->scenario->name);
    json_put_str(&j, "policy", o->policy);
    json_put_i64(&j, "decisions_total", (int64_t)x->n_total);
    json_put_str(&j, "listed", x->note);
    json_open_array(&j, "decisions");
    for (size_t i = 0; i < x->n; i++)
        decision_json(&x->decision[i], w->zone, &j);
    json_close_array(&j);
    if (x->tree) {
        json_open(&j, "tree");
        json_put_f64(&j, "fidelity_frac", x->tree_fidelity);
        json_put_i64(&j, "rows", x->tree_rows);
        json_put_str(&j, "text", x->tree);
        json_close(&j);
    } else {
        json_put_null(&j, "tree");
    }
    json_close(&j);
}

static void put_text(struct cli_ctx *c, const struct explained *x, const struct world *w,
                     struct buf *text)
{
    decisions_format(x->decision, x->n, w->zone, c->format, cli_colour(c), text);
    if (c->format != CLI_TABLE)
        return;
    buf_fmt(text, "\n%zu of %zu decisions on the test days: %s\n", x->n, x->n_total, x->note);
    if (x->tree)
        buf_fmt(text, "\nThe policy as a small tree, fitted to %d of its own decisions:\n%s",
                x->tree_rows, x->tree);
}

static enum err_code explain(struct cli_ctx *c, const struct world *w, const struct question *q,
                             struct chance *chance, struct buf *text, struct err *e)
{
    const struct explain_opts *o = c->opts;
    struct explained x = {0};
    enum err_code rc = explained_make(w, chance, &q->who, q->beside ? &q->rule.use : NULL,
                                      (size_t)o->most, q->at_us, &x, e);
    if (!rc && c->format == CLI_JSON)
        put_json(&x, w, o, text);
    else if (!rc)
        put_text(c, &x, w, text);
    explained_fini(&x);
    return rc;
}

static enum err_code run(struct cli_ctx *c, struct err *e)
{
    const struct explain_opts *o = c->opts;
    struct cli_world cw = {0};
    struct question q = {.at_us = EXPLAINED_MOST};
    struct chance *chance = NULL;
    struct buf text = buf_init(CLI_TEXT_MAX);
    enum err_code rc = check_names(o, &q, e);
    if (!rc)
        rc = cli_world_open(c, c->args[0], &cw, e);
    if (!rc)
        rc = read_time(o->at, cw.world, &q.at_us, e);
    if (!rc)
        rc = chance_new(cw.world, c->seed_given ? c->seed : (uint64_t)cw.scenario.chance.seed,
                        &chance, e);
    if (!rc)
        rc = explain(c, cw.world, &q, chance, &text, e);
    chance_free(chance);
    cli_world_close(&cw);
    if (rc)
        buf_fini(&text);
    return rc ? rc : cli_finish(c, &text, e);
}

const struct cli_cmd cmd_explain = {
    .name = "explain",
    .summary = "why a policy decided as it did: factors, guard, what the rules would have done, a "
               "small tree",
    .args = "SCENARIO",
    .min_args = 1,
    .max_args = 1,
    .opts = &table,
    .config = &scenario_table,
    .run = run,
};
