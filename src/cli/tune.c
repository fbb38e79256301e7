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
    OPT_STRING(struct tune_cmd_opts, policy, "policy", "hpa",
               "rule to tune, also NAME+guard or NAME-guard", .metavar = "POLICY"),
    OPT_INT(struct tune_cmd_opts, evals, "evals", "60", "4", "500",
            "settings tried per price of a miss"),
};
static const struct opt_table table =
    OPT_TABLE("tune", struct tune_cmd_opts, rows, "A rule's cost-miss front.");

/* "hpa:gpu=0.7,down_window=55min": what simulate, evaluate and explain take to run just this
 * setting. */
static void put_setting(const char *policy, const struct tune_front *f, const struct tune_point *p,
                        struct buf *text)
{
    for (size_t i = 0; i < f->policy->n_ranges; i++) {
        const struct opt_row *row = opt_find(f->policy->options, f->policy->ranges[i].option);
        buf_fmt(text, "%s%c%s=", i ? "" : policy, i ? ',' : ':', row->name);
        opt_value(row, &p->opt, text);
    }
}

/* cost, misses, then the tuned options; the pick is marked. */
static void print_front(struct cli_ctx *c, const struct world *w, const struct tune_front *f,
                        struct buf *text)
{
    const struct tune_cmd_opts *o = c->opts;
    struct table_column col[3 + TUNE_RANGES_MAX] = {
        {"pick", "", 0}, {"cost_usd_h", "cost $/h", 2}, {"slo_violation_frac", "misses", 4}};
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
    if (c->format != CLI_TABLE)
        return;
    const double most = w->scenario->service.tune_violation_max;
    buf_fmt(text, "%lld settings tried on the training days.  * %s %g %% of steps over target",
            (long long)f->runs,
            pick && pick->misses <= most ? "is the cheapest with at most"
                                         : "misses least; none stays within",
            100 * most);
    if (pick && n) {
        buf_str(text, ":\n--policy ");
        put_setting(o->policy, f, pick, text);
    }
    buf_char(text, '\n');
}

static enum err_code check_policy(const char *name, struct contender *who, struct err *e)
{
    enum err_code rc = cli_contender(name, who, e);
    if (rc)
        return rc;
    if (who->kind != CONTENDER_RULE || strchr(name, ':'))
        return err_set(e, ERR_USAGE, "--policy %s: name a rule, such as hpa; `sluice train` learns",
                       name);
    if (!who->use.policy->n_ranges)
        return err_set(e, ERR_USAGE, "--policy %s: has no options to tune", name);
    return ERR_OK;
}

static enum err_code tune(struct cli_ctx *c, struct cli_world *cw, const struct contender *who,
                          struct buf *text, struct err *e)
{
    const struct tune_cmd_opts *o = c->opts;
    struct chance *chance = NULL;
    struct tune_front *f = mem_zero(1, sizeof *f);
    struct tune_opts t = tune_opts_default(cw->world, who->use.policy);
    struct cli_progress progress;
    t.guarded = who->guarded;
    t.evals = (int)o->evals;
    t.tick = cli_progress_tick;
    t.tick_arg = &progress;
    cli_progress_init(&progress, c, "tuning", tune_runs(&t));
    enum err_code rc = chance_new(cw->world, train_seed(c->seed), &chance, e);
    if (!rc)
        rc = tune_front(cw->world, &chance, 1, &t, cw->pool, f, e);
    cli_progress_fini(&progress);
    if (!rc)
        print_front(c, cw->world, f, text);
    chance_free(chance);
    mem_free(f);
    return rc;
}

static enum err_code run(struct cli_ctx *c, struct err *e)
{
    const struct tune_cmd_opts *o = c->opts;
    struct cli_world cw = {0};
    struct contender who;
    struct buf text = buf_init(CLI_TEXT_MAX);
    enum err_code rc = check_policy(o->policy, &who, e);
    if (!rc)
        rc = cli_world_open(c, c->args[0], &cw, e);
    if (!rc)
        rc = tune(c, &cw, &who, &text, e);
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
