#include <string.h>

#include "base/mem.h"
#include "cli/commands.h"
#include "report/table.h"
#include "train/evaluate.h"
#include "train/tune.h"

struct tune_cmd_opts {
    char *policy;
    int64_t evals;
};
static const struct opt_row rows[] = {
    OPT_STRING(struct tune_cmd_opts, policy, "policy", "hpa", "rule to tune", .metavar = "POLICY"),
    OPT_INT(struct tune_cmd_opts, evals, "evals", "60", "4", "500", "settings tried per price of a miss"),
};
static const struct opt_table table = OPT_TABLE("tune", struct tune_cmd_opts, rows, "A rule's cost-miss front.");

/* cost, misses, then the tuned options, best first column marked. */
static void print_front(struct cli_ctx *c, const struct world *w, const struct tune_front *f, struct buf *text)
{
    struct table_column col[3 + TUNE_RANGES_MAX] = {{"pick", "", 0}, {"cost_usd_h", "cost $/h", 2},
                                                    {"slo_violation_frac", "misses", 4}};
    size_t n = f->policy->n_ranges;
    for (size_t i = 0; i < n; i++)
        col[3 + i] = (struct table_column){f->policy->ranges[i].option, NULL, 0};
    struct table *t = table_new(col, 3 + n);
    const struct tune_point *pick = tune_pick(f, w->scenario->service.tune_violation_max);
    for (int k = 0; k < f->n; k++) {
        const struct tune_point *p = &f->point[k];
        table_text(t, p == pick ? "*" : "");
        table_num(t, p->cost_usd_h);
        table_num(t, p->misses);
        for (size_t i = 0; i < n; i++) {
            const struct opt_row *row = opt_find(f->policy->options, f->policy->ranges[i].option);
            struct buf v = buf_init(256);
            opt_value(row, &p->opt, &v);
            table_text(t, v.p);
            buf_fini(&v);
        }
    }
    table_format(t, c->format, cli_colour(c), text);
    table_free(t);
    if (c->format == CLI_TABLE)
        buf_fmt(text, "* cheapest with at most %g of steps over target on the training days; %lld settings tried\n",
                w->scenario->service.tune_violation_max, (long long)f->runs);
}

static enum err_code tune(struct cli_ctx *c, struct cli_world *cw, struct buf *text, struct err *e)
{
    const struct tune_cmd_opts *o = c->opts;
    struct contender who;
    struct chance *chance = NULL;
    struct tune_front *f = mem_zero(1, sizeof *f);
    enum err_code rc = contender_parse(o->policy, &who, e);
    if (!rc && who.kind != CONTENDER_RULE)
        rc = err_set(e, ERR_USAGE, "%s is not a rule; `sluice train` learns", o->policy);
    if (!rc)
        rc = chance_new(cw->world, train_seed(c->seed), &chance, e);
    if (!rc) {
        struct tune_opts t = tune_opts_default(cw->world, who.use.policy);
        t.guarded = who.guarded;
        t.evals = (int)o->evals;
        rc = tune_front(cw->world, &chance, 1, &t, cw->pool, f, e);
    }
    if (!rc)
        print_front(c, cw->world, f, text);
    chance_free(chance);
    mem_free(f);
    return rc;
}

static enum err_code run(struct cli_ctx *c, struct err *e)
{
    struct cli_world cw;
    struct buf text = buf_init(CLI_TEXT_MAX);
    enum err_code rc = cli_world_open(c, c->args[0], &cw, e);
    if (rc)
        return rc;
    rc = tune(c, &cw, &text, e);
    cli_world_close(&cw);
    if (rc)
        buf_fini(&text);
    return rc ? rc : cli_finish(c, &text, e);
}

const struct cli_cmd cmd_tune = {
    .name = "tune",
    .summary = "a rule's best settings: its whole cost-miss front on the training days",
    .args = "SCENARIO",
    .min_args = 1,
    .max_args = 1,
    .opts = &table,
    .config = &scenario_table,
    .run = run,
};
