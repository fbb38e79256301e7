#include <math.h>
#include <string.h>

#include "base/mem.h"
#include "base/tz.h"
#include "cli/simulate_priv.h"
#include "report/table.h"
#include "train/evaluate.h"

static const struct opt_row rows[] = {
    OPT_STRINGS(struct simulate_opts, policies, "policy", NULL,
                "a rule, NAME:option=value,... or a policy file; hpa when none is given; several "
                "from a cluster",
                .metavar = "POLICY"),
    OPT_BOOL(struct simulate_opts, test_only, "test", "false",
             "run the test part only, not the whole trace"),
    OPT_BOOL(struct simulate_opts, records, "steps", "false",
             "one row per step instead of one per day"),
    OPT_BOOL(struct simulate_opts, from_cluster, "from-cluster", "false",
             "in place of SCENARIO: a live target as it is now, read-only; -c and --set are the "
             "daemon's"),
    OPT_STRING(struct simulate_opts, target, "target", NULL, "which target of the cluster",
               .metavar = "[NAMESPACE/]NAME"),
    OPT_DURATION(struct simulate_opts, since_us, "since", "14d", "1d", "365d",
                 "from the cluster: so much load is read"),
    OPT_DURATION(struct simulate_opts, ahead_us, "ahead", "6h", "5min", "24h",
                 "from the cluster: so long is simulated"),
    OPT_INT(struct simulate_opts, seeds, "seeds", "5", "1", "100",
            "from the cluster: runs of starts, failures and noise behind every row"),
    OPT_DURATION(struct simulate_opts, wait_us, "wait", "60s", "1s", "1h",
                 "from the cluster: for lists and answers"),
    OPT_BOOL(struct simulate_opts, allow_writable, "allow-writable-credentials", "false",
             "do not warn when the credentials could write"),
};
static const struct opt_table table = OPT_TABLE("simulate", struct simulate_opts, rows, "One run.");

void simulate_on_step(void *ctx, const struct run_look *l)
{
    struct simulate_steps *s = ctx;
    char at[TZ_TEXT];
    tz_format_rfc3339(s->zone, l->view->now_us, at);
    table_text(s->t, at);
    table_num(s->t, (double)l->demand_qps);
    table_num(s->t, l->view->units_requested);
    table_num(s->t, l->view->units_ready);
    table_num(s->t, l->plan->units);
    table_num(s->t, (double)l->out->p99_ms);
    table_num(s->t, (double)l->out->backlog);
    table_num(s->t, l->out->miss);
}

static struct table *days_table(const struct run_result *r)
{
    struct table *t = table_new((struct table_column[]){{"day", NULL, 0},
                                                        {"cost_usd", "cost $", 2},
                                                        {"unit_hours", NULL, 1},
                                                        {"slo_violation_frac", "misses", 4},
                                                        {"p99_latency_ms", "p99 ms", 1},
                                                        {"scale_actions", "actions", 0},
                                                        {"reversals", NULL, 0}},
                                7);
    for (int i = 0; i <= r->n_days; i++) {
        const struct run_day *d = i < r->n_days ? &r->day[i] : &r->total;
        int year, month, day;
        tz_date(d->day, &year, &month, &day);
        if (i < r->n_days)
            table_textf(t, "%04d-%02d-%02d", year, month, day);
        else
            table_text(t, "total");
        table_num(t, d->cost_usd);
        table_num(t, d->unit_h);
        table_num(t, run_miss_frac(d));
        table_num(t, d->steps ? d->p99_sum_ms / (double)d->steps : NAN);
        table_num(t, (double)d->actions);
        table_num(t, (double)d->reversals);
    }
    return t;
}

struct table *simulate_steps_table(void)
{
    return table_new((struct table_column[]){{"time", NULL, 0},
                                             {"demand_qps", NULL, 2},
                                             {"units_requested", NULL, 0},
                                             {"units_ready", NULL, 0},
                                             {"units_next", NULL, 0},
                                             {"p99_ms", NULL, 2},
                                             {"backlog", NULL, 1},
                                             {"miss", NULL, 0}},
                     8);
}

static enum err_code simulate(struct cli_ctx *c, const struct world *w, const struct contender *who,
                              struct chance *chance, struct buf *text, struct err *e)
{
    const struct simulate_opts *o = c->opts;
    struct learned l = {0};
    struct capacity_config *cfg = mem_zero(1, sizeof *cfg);
    struct run_result *r = mem_zero(1, sizeof *r);
    struct run_opts ro = run_opts_default(w);
    struct simulate_steps steps = {.t = o->records ? simulate_steps_table() : NULL,
                                   .zone = w->zone};
    if (!o->test_only)
        ro.from = ro.warm_steps = 0;
    if (o->records) {
        ro.look = simulate_on_step;
        ro.ctx = &steps;
    }
    enum err_code rc = contender_config(who, w, &l, cfg, e);
    if (!rc)
        rc = run_policy(w, chance, cfg, &ro, r, e);
    if (!rc) {
        struct table *t = o->records ? steps.t : days_table(r);
        table_format(t, c->format, cli_colour(c), text);
        table_free(o->records ? NULL : t);
    }
    table_free(steps.t);
    learned_fini(&l);
    mem_free(r);
    mem_free(cfg);
    return rc;
}

static enum err_code check_policy(const char *name, struct contender *who, struct err *e)
{
    enum err_code rc = cli_contender(name, who, e);
    if (!rc && who->kind == CONTENDER_ORACLE)
        rc = err_set(e, ERR_USAGE, "--policy oracle is a row of `sluice evaluate`");
    return rc;
}

static enum err_code run(struct cli_ctx *c, struct err *e)
{
    const struct simulate_opts *o = c->opts;
    if (o->from_cluster)
        return simulate_from_cluster(c, e);
    struct cli_world cw = {0};
    struct contender who;
    struct chance *chance = NULL;
    struct buf text = buf_init((size_t)1 << 30);
    enum err_code rc = ERR_OK;
    if (!c->n_args)
        rc = err_set(e, ERR_USAGE,
                     "simulate: which scenario? Or --from-cluster for a live target as it is now");
    else if (o->policies.n > 1)
        rc =
            err_set(e, ERR_USAGE,
                    "simulate runs one policy over a scenario; `sluice evaluate` compares several");
    if (!rc)
        rc = check_policy(o->policies.n ? o->policies.items[0] : "hpa", &who, e);
    if (!rc)
        rc = cli_world_open(c, c->args[0], &cw, e);
    if (!rc)
        rc = chance_new(cw.world, c->seed_given ? c->seed : (uint64_t)cw.scenario.chance.seed,
                        &chance, e);
    if (!rc)
        rc = simulate(c, cw.world, &who, chance, &text, e);
    chance_free(chance);
    cli_world_close(&cw);
    if (rc)
        buf_fini(&text);
    return rc ? rc : cli_finish(c, &text, e);
}

const struct cli_cmd cmd_simulate = {
    .name = "simulate",
    .summary = "one run of one policy over a scenario",
    .args = "SCENARIO",
    .min_args = 0,
    .max_args = 1,
    .help = "A rule runs as published unless its settings are stated: --policy "
            "hpa:gpu=0.7,down_window=10min; `sluice\n"
            "tune` finds them.  --seed is the seed of noise, start-up times and failures; the "
            "scenario's by default.\n\n"
            "--from-cluster reads one target of a cluster (kubeconfig as for `sluice run`) and its "
            "load of the last "
            "days from\nPrometheus, and simulates the hours to come from its present size: with "
            "the load of the same "
            "weekday a week\nago, behind the guard, cooldowns included.  It writes nothing.\n"
            "    sluice simulate --from-cluster -c sluice.yaml --target prod/chat --policy mpc "
            "--policy hpa\n",
    .opts = &table,
    .config = &scenario_table,
    .run = run,
};
