#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "base/progress.h"
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
             "outlook: a demand distribution; auto: the cheaper of it and mpc on held-out days; "
             "ppo: by trial"),
    OPT_ENUM(O, base, "base", "outlook", base_names, "ppo: the policy that its actions correct"),
    OPT_ENUM(O, residual, "residual", "margin", residual_names,
             "ppo: what an action shifts when there is a base"),
    OPT_DOUBLE(O, residual_step, "residual-step", "0.2", "0.001", "0.3", "ppo: size of one shift"),
    OPT_ENUM(O, shape, "network", "shared", shape_names,
             "ppo: actor and critic separate, shared, or recurrent"),
    OPT_ENUM(O, objective, "objective", "slo", reward_preset_names,
             "slo: least cost within the scenario's misses; the others are fixed weights"),
    OPT_ENUM(O, credit, "credit", "step", credit_names,
             "ppo: what an action is credited with (window: an ablation)"),
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
    struct cli_ctx *c;
    char stage[32]; /* being shown */
};

static void end_stage(struct shown *s)
{
    if (s->stage[0] && s->p.mode == PROGRESS_TTY)
        (void)fputs("\r\033[K", stderr); /* no trace is left of the line */
    s->stage[0] = '\0';
}

static void show_stage(struct shown *s, const struct learn_progress *l, bool ppo)
{
    end_stage(s);
    (void)snprintf(s->stage, sizeof s->stage, "%s", l->stage);
    s->p = progress_start(stderr, progress_mode_of(stderr, s->c->verbosity), ppo ? "training" : l->stage, l->unit,
                          (uint64_t)l->total, (uint64_t)l->done);
    if (!ppo && s->p.mode == PROGRESS_PLAIN)
        (void)fprintf(stderr, "%s ...\n", l->stage);
}

static void on_progress(void *ctx, const struct learn_progress *l)
{
    struct shown *s = ctx;
    char extra[96];
    bool ppo = strcmp(l->stage, "ppo") == 0;
    if (strcmp(s->stage, l->stage) != 0)
        show_stage(s, l, ppo);
    s->p.total = (uint64_t)l->total;
    if (!ppo) {
        progress_update(&s->p, (uint64_t)l->done, NULL);
        return;
    }
    (void)snprintf(extra, sizeof extra, "cost %.2f $/h  misses %.2f %%  lambda %.1f  entropy %.2f",
                   l->cost_usd_h, 100 * l->violation_frac, l->lambda, l->entropy);
    if (s->c->verbosity > 0 && s->p.mode == PROGRESS_PLAIN)
        (void)fprintf(stderr, "step %lld: %s\n", (long long)l->done, extra);
    else
        progress_update(&s->p, (uint64_t)l->done, extra);
}

/* ---- the report -------------------------------------------------------------------------------
 */

static void put_calibration(struct buf *text, const char *name, const struct learn_calibration *k)
{
    if (!isnan(k->misses))
        buf_fmt(text,
                "%s calibrated on held-out days: %.2f $/h with %.2f %% of steps over target, %.1f "
                "reversals a day\n",
                name, k->cost_usd_h, 100 * k->misses, k->reversals_per_day);
}

static void put_ppo(struct buf *text, const struct learn_report *r, const struct scenario *sc)
{
    double misses = r->curve_misses[r->n_curve - 1], most = sc->service.slo_violation_max;
    buf_fmt(text, "ppo: last iterations cost %.2f $/h with %.2f %% of steps over target\n",
            r->curve_cost_usd_h[r->n_curve - 1], 100 * misses);
    if (misses > most)
        buf_fmt(text, "that is more than the allowed %g %%: train longer (--steps)\n", 100 * most);
}

static void put_text(const struct cli_ctx *c, const struct learn_report *r,
                     const struct scenario *sc, struct buf *text)
{
    const struct learn_opts *o = c->opts;
    if (r->resumed)
        buf_fmt(text, "continued from an interrupted run\n");
    if (r->outlook.samples > 0)
        buf_fmt(text,
                "outlook: %lld samples, %.3f nats per window on held-out days (knowing nothing: "
                "%.3f)\n",
                (long long)r->outlook.samples, r->outlook.valid_nats, r->outlook.uniform_nats);
    put_calibration(text, "outlook", &r->own);
    put_calibration(text, "mpc", &r->rule);
    if (o->policy == LEARN_PPO && r->n_curve > 0)
        put_ppo(text, r, sc);
    if (r->warnings[0])
        buf_fmt(text, "warnings:\n%s", r->warnings);
    buf_fmt(text, "wrote %s: %s\n", c->output, r->kept);
}

static void calibration_json(struct json_writer *w, const char *key,
                             const struct learn_calibration *k)
{
    if (isnan(k->misses))
        return;
    json_open(w, key);
    json_put_f64(w, "cost_usd_h", k->cost_usd_h);
    json_put_f64(w, "slo_violation_frac", k->misses);
    json_put_f64(w, "reversals_per_day", k->reversals_per_day);
    json_close(w);
}

static void warnings_json(struct json_writer *w, const char *lines)
{
    json_open_array(w, "warnings");
    while (*lines) {
        char line[256];
        size_t n = strcspn(lines, "\n");
        (void)snprintf(line, sizeof line, "%.*s", (int)n, lines);
        json_put_str(w, NULL, line);
        lines += n + (lines[n] == '\n');
    }
    json_close_array(w);
}

static void put_json(const struct cli_ctx *c, const struct learn_report *r,
                     const struct scenario *sc, struct buf *text)
{
    const struct learn_opts *o = c->opts;
    struct json_writer w = json_writer_init(text, 2);
    json_open(&w, NULL);
    json_put_str(&w, "scenario", sc->name);
    json_put_str(&w, "output", c->output);
    json_put_str(&w, "policy", r->kept);
    json_put_bool(&w, "finished", r->finished);
    json_put_bool(&w, "resumed", r->resumed);
    if (r->outlook.samples > 0) {
        json_open(&w, "fit");
        json_put_i64(&w, "samples", r->outlook.samples);
        json_put_f64(&w, "held_out_nats", r->outlook.valid_nats);
        json_put_f64(&w, "uniform_nats", r->outlook.uniform_nats);
        json_close(&w);
    }
    calibration_json(&w, "outlook", &r->own);
    calibration_json(&w, "mpc", &r->rule);
    if (o->policy == LEARN_PPO && r->n_curve > 0) {
        json_open(&w, "ppo");
        json_put_i64(&w, "steps", r->steps);
        json_put_f64(&w, "cost_usd_h", r->curve_cost_usd_h[r->n_curve - 1]);
        json_put_f64(&w, "slo_violation_frac", r->curve_misses[r->n_curve - 1]);
        json_close(&w);
    }
    warnings_json(&w, r->warnings);
    json_close(&w);
}

/* ---- the command ------------------------------------------------------------------------------
 */

/* An option that the chosen policy does not look at is an error, never ignored. */
static enum err_code check_ppo_options(const struct learn_opts *o, struct err *e)
{
    static const char mark[] = "ppo: ";
    struct learn_opts usual;
    enum err_code rc = ERR_OK;
    opt_init(&table, &usual);
    for (size_t i = 0; i < table.n && !rc && o->policy != LEARN_PPO; i++) {
        const struct opt_row *row = &table.rows[i];
        struct buf given = buf_init(256), standard = buf_init(256);
        opt_value(row, o, &given);
        opt_value(row, &usual, &standard);
        if (strncmp(row->help, mark, sizeof mark - 1) == 0 && strcmp(given.p, standard.p) != 0)
            rc = err_set(e, ERR_USAGE, "--%s goes with --policy ppo", row->name);
        buf_fini(&given);
        buf_fini(&standard);
    }
    return rc;
}

static enum err_code check_output(const struct cli_ctx *c, struct err *e)
{
    static const char suffix[] = ".safetensors";
    size_t n = c->output ? strlen(c->output) : 0, m = sizeof suffix - 1;
    if (n > m && strcmp(c->output + n - m, suffix) == 0)
        return ERR_OK;
    return err_set(
        e, ERR_USAGE,
        "train needs -o POLICY.safetensors: the other commands tell a policy file by that ending");
}

static enum err_code train(struct cli_ctx *c, struct cli_world *cw, struct err *e)
{
    struct learn_opts *o = c->opts;
    struct shown s = {.c = c};
    struct learn_report *report = mem_zero(1, sizeof *report);
    struct buf text = buf_init(1 << 16);
    o->seed = c->seed;
    o->threads = c->threads;
    if (o->policy != LEARN_PPO)
        o->base = PPO_BASE_NONE;
    if (o->base == PPO_BASE_NONE || o->base == PPO_BASE_PREDICTIVE)
        o->residual = PPO_RESIDUAL_UNITS;
    enum err_code rc = learn_run(cw->world, o, c->output, on_progress, &s, report, e);
    if (strcmp(s.stage, "ppo") == 0)
        progress_finish(&s.p, (uint64_t)report->steps, NULL);
    else
        end_stage(&s);
    if (!rc && c->format == CLI_JSON)
        put_json(c, report, &cw->scenario, &text);
    else if (!rc && report->finished && c->verbosity >= 0)
        put_text(c, report, &cw->scenario, &text);
    (void)fwrite(text.p, 1, text.n, stdout);
    if (!rc && !report->finished)
        rc = err_set(e, ERR_INTERRUPTED, "interrupted: saved to %s; the same command continues it",
                     c->output);
    else if (rc == ERR_INTERRUPTED)
        rc = err_set(e, rc,
                     "interrupted before there was anything to save; the same command starts anew");
    buf_fini(&text);
    mem_free(report);
    return rc;
}

static enum err_code run(struct cli_ctx *c, struct err *e)
{
    struct cli_world cw = {0};
    enum err_code rc = check_output(c, e);
    if (!rc)
        rc = check_ppo_options(c->opts, e);
    if (!rc)
        rc = cli_world_open(c, c->args[0], &cw, e);
    if (!rc)
        rc = train(c, &cw, e);
    cli_world_close(&cw);
    return rc;
}

const struct cli_cmd cmd_train = {
    .name = "train",
    .summary =
        "learn a policy in the simulator; an interrupted run is continued by the same command",
    .args = "SCENARIO",
    .min_args = 1,
    .max_args = 1,
    .formats = 1u << CLI_TABLE | 1u << CLI_JSON,
    .help = "-o POLICY.safetensors is required; the report goes to standard output.  The same "
            "command and --seed give\n"
            "the same file, whatever --threads, also after Ctrl-C.  Only the scenario's training "
            "part is looked at.\n"
            "With -v each iteration of ppo is told.\n",
    .opts = &table,
    .config = &scenario_table,
    .run = run,
};
