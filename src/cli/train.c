#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "base/progress.h"
#include "base/signal.h"
#include "cli/commands.h"
#include "train/learn.h"

static const char *const policy_names[] = {"auto", "outlook", "ppo", NULL};
static const char *const base_names[] = {"none", "mpc", "predictive", "outlook", NULL};
static const char *const residual_names[] = {"units", "margin", NULL};
static const char *const shape_names[] = {"separate", "shared", "lstm", NULL};
static const char *const credit_names[] = {"step", "window", NULL};

#define O struct learn_opts
static const struct opt_row rows[] = {
    OPT_ENUM(O, policy, "policy", "auto", policy_names,
             "outlook: a demand distribution; auto: the cheaper of it and mpc on held-out days; ppo: by trial"),
    OPT_ENUM(O, base, "base", "outlook", base_names, "ppo: the policy that its actions correct"),
    OPT_ENUM(O, residual, "residual", "margin", residual_names, "ppo: what an action shifts when there is a base"),
    OPT_DOUBLE(O, residual_step, "residual-step", "0.2", "0.001", "0.3", "ppo: size of one shift"),
    OPT_ENUM(O, shape, "network", "shared", shape_names, "ppo: actor and critic separate, shared, or recurrent"),
    OPT_ENUM(O, objective, "objective", "slo", reward_preset_names,
             "slo: least cost within the scenario's misses; the others are fixed weights"),
    OPT_ENUM(O, credit, "credit", "step", credit_names, "ppo: what an action is credited with (window: an ablation)"),
    OPT_INT(O, steps, "steps", "4000000", "0", "10000000000", "ppo: environment steps"),
    OPT_INT(O, lanes, "lanes", "64", "1", "1024", "ppo: environments side by side"),
    OPT_INT(O, seeds, "seeds", "6", "1", "256", "noise seeds of the training days"),
    OPT_INT(O, outlook_samples, "outlook-samples", "1000000", "1000", "1000000000",
            "samples of the longest fit of the demand distribution"),
    OPT_DOUBLE(O, gamma, "gamma", "0.99", "0", "1", "ppo: discount per step"),
    OPT_DOUBLE(O, entropy, "entropy", "0.01", "0", "1", "ppo: entropy bonus at the start"),
    OPT_DOUBLE(O, lr, "lr", "0.0003", "0.0000001", "0.1", "ppo: learning rate at the start"),
};
#undef O
static const struct opt_table table = OPT_TABLE("train", struct learn_opts, rows, "Learning.");

struct shown {
    struct progress p;
    const char *stage;
    struct cli_ctx *c;
    bool in_ppo;
};

static void on_progress(void *ctx, const struct learn_progress *l)
{
    struct shown *s = ctx;
    char extra[96];
    if (strcmp(l->stage, "ppo") != 0) {
        if (s->c->verbosity >= 0)
            (void)fprintf(stderr, "%s ...\n", l->stage);
        return;
    }
    if (!s->in_ppo)
        s->p = progress_start(stderr, progress_mode_of(stderr, s->c->verbosity), "training", "steps",
                              (uint64_t)l->total, (uint64_t)l->done);
    s->in_ppo = true;
    (void)snprintf(extra, sizeof extra, "cost %.2f $/h  misses %.2f %%  lambda %.1f  entropy %.2f", l->cost_usd_h,
                   100 * l->violation_frac, l->lambda, l->entropy);
    progress_update(&s->p, (uint64_t)l->done, extra);
}

static void put_calibration(struct buf *text, const char *name, const struct learn_calibration *k)
{
    if (!isnan(k->misses))
        buf_fmt(text, "%s calibrated on held-out days: %.2f $/h with %.2f %% of steps over target, %.1f reversals a day\n",
                name, k->cost_usd_h, 100 * k->misses, k->reversals_per_day);
}

static void print_report(struct cli_ctx *c, const struct learn_report *r, const struct learn_opts *o, struct buf *text)
{
    if (r->resumed)
        buf_fmt(text, "continued from an interrupted run\n");
    if (r->outlook.samples > 0)
        buf_fmt(text, "outlook: %lld samples, %.3f nats per window on held-out days (knowing nothing: %.3f)\n",
                (long long)r->outlook.samples, r->outlook.valid_nats, r->outlook.uniform_nats);
    put_calibration(text, "outlook", &r->own);
    put_calibration(text, "mpc", &r->rule);
    if (o->policy == LEARN_PPO && r->n_curve > 0)
        buf_fmt(text, "ppo: last iterations cost %.2f $/h with %.2f %% of steps over target\n",
                r->curve_cost_usd_h[r->n_curve - 1], 100 * r->curve_misses[r->n_curve - 1]);
    if (r->warnings[0])
        buf_fmt(text, "warnings:\n%s", r->warnings);
    if (r->finished)
        buf_fmt(text, "wrote %s: %s\n", c->output, r->kept);
    else
        buf_fmt(text, "interrupted: saved to %s; the same command continues it\n", c->output);
}

static enum err_code run(struct cli_ctx *c, struct err *e)
{
    struct learn_opts *o = c->opts;
    struct cli_world cw;
    struct shown s = {.c = c};
    struct buf text = buf_init(1 << 16);
    if (!c->output)
        return err_set(e, ERR_USAGE, "train needs -o POLICY.safetensors");
    enum err_code rc = cli_world_open(c, c->args[0], &cw, e);
    if (rc)
        return rc;
    struct learn_report *report = mem_zero(1, sizeof *report);
    o->seed = c->seed;
    o->threads = c->threads;
    if (o->policy != LEARN_PPO)
        o->base = PPO_BASE_NONE;
    if (o->base == PPO_BASE_NONE || o->base == PPO_BASE_PREDICTIVE)
        o->residual = PPO_RESIDUAL_UNITS;
    signal_catch();
    rc = learn_run(cw.world, o, c->output, on_progress, &s, report, e);
    if (s.in_ppo)
        progress_finish(&s.p, (uint64_t)report->steps, NULL);
    if (!rc)
        print_report(c, report, o, &text);
    if (!rc && c->verbosity >= 0)
        (void)fwrite(text.p, 1, text.n, stdout);
    buf_fini(&text);
    mem_free(report);
    cli_world_close(&cw);
    return rc;
}

const struct cli_cmd cmd_train = {
    .name = "train",
    .summary = "learn a policy in the simulator; an interrupted run is continued by the same command",
    .args = "SCENARIO",
    .min_args = 1,
    .max_args = 1,
    .opts = &table,
    .config = &scenario_table,
    .run = run,
};
