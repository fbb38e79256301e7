/* demo.c - the whole story on made-up data, in about a minute:
 * history -> forecast -> learn -> compare -> report.html.  Every number printed is computed here
 * and now. */
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/mem.h"
#include "cli/commands.h"
#include "forecast/score.h"
#include "report/table.h"
#include "train/evaluate.h"
#include "train/learn.h"
#include "train/story.h"

static const char demo_yaml[] = "name: demo\n"
                                "generator:\n"
                                "  kind: scheduled\n"
                                "  days: 24\n"
                                "  seed: 7\n"
                                "peak_units: 40\n"
                                "service:\n"
                                "  units_min_safe: 1\n";

static void stage(const struct cli_ctx *c, int64_t since_us, const char *what)
{
    if (c->verbosity >= 0)
        (void)printf("[%5.1f s] %s\n", (double)(clock_mono_us() - since_us) * 1e-6, what);
    (void)fflush(stdout);
}

/* WAPE at 15 min of forecasts and persistence over the test days, as the policies saw them. */
static void tell_forecast(const struct world *w, const struct chance *c, struct buf *text)
{
    double own = 0, last = 0, sum = 0;
    for (int32_t i = w->train_end / w->point_steps; i + 3 < w->n / w->point_steps; i++) {
        double y = 0, now = 0;
        for (int32_t k = 0; k < w->point_steps; k++) {
            int32_t at = (i + 2) * w->point_steps + k, before = (i - 1) * w->point_steps + k;
            y += (double)(w->demand[at] * c->factor[at]) / w->point_steps;
            now += (double)(w->demand[before] * c->factor[before]) / w->point_steps;
        }
        own += fabs((double)c->forecast[i].mean[2] - y);
        last += fabs(now - y);
        sum += y;
    }
    buf_fmt(text, "forecast 15 min ahead: error %.1f %% of the load (persistence: %.1f %%)\n\n",
            100 * own / sum, 100 * last / sum);
}

static void on_learn(void *ctx, const struct learn_progress *p)
{
    (void)ctx;
    (void)p;
}

static enum err_code load_demo(struct cli_ctx *c, struct cli_world *cw, struct err *e)
{
    memset(cw, 0, sizeof *cw);
    scenario_init(&cw->scenario);
    enum err_code rc = opt_read_text(&scenario_table, &cw->scenario, demo_yaml,
                                     sizeof demo_yaml - 1, "demo", NULL, e);
    if (!rc && c->config)
        rc = opt_read_file(&scenario_table, &cw->scenario, c->config, NULL, e);
    for (size_t i = 0; !rc && i < c->n_sets; i++)
        rc = opt_set(&scenario_table, &cw->scenario, c->sets[i], NULL, e) ? ERR_USAGE : ERR_OK;
    if (!rc)
        rc = opt_finish(&scenario_table, &cw->scenario, e);
    if (!rc)
        rc = world_new(&cw->scenario, &cw->world, e);
    if (!rc)
        rc = thread_pool_new(c->threads, &cw->pool, e);
    return rc;
}

static enum err_code tell_story(struct cli_ctx *c, struct cli_world *cw, const char *policy_path,
                                const char *report_path, int64_t since_us, struct err *e)
{
    const char *policies[] = {"threshold", "hpa",       "predictive", "mpc",
                              policy_path, "foresight", "oracle"};
    struct learn_report *lr = mem_zero(1, sizeof *lr);
    struct evaluate_result *r = NULL;
    struct buf text = buf_init(CLI_TEXT_MAX);
    struct learn_opts lo = {
        .policy = LEARN_AUTO,
        .base = PPO_BASE_NONE,
        .objective = REWARD_SLO,
        .seeds = 4,
        .lanes = 64,
        .outlook_samples = 600000,
        .seed = c->seed,
        .threads = c->threads,
    };
    stage(c, since_us, "learning a policy on the first two thirds");
    enum err_code rc = learn_run(cw->world, &lo, policy_path, on_learn, NULL, lr, e);
    if (!rc) {
        stage(c, since_us,
              "comparing on the last third, which nothing has seen: tuned rules, the policy, the "
              "bound");
        struct evaluate_opts eo = {.n_seeds = 2,
                                   .tune_evals = 24,
                                   .all_fronts = true,
                                   .bounds = true,
                                   .policies = policies,
                                   .n_policies = ARRAY_LEN(policies),
                                   .seed = c->seed};
        rc = evaluate_run(cw->world, &eo, cw->pool, NULL, NULL, &r, e);
    }
    if (!rc) {
        stage(c, since_us, "writing the report");
        rc = story_write(cw->world, r, lr, c->seed, report_path, e);
    }
    if (!rc) {
        stage(c, since_us, "done");
        buf_char(&text, '\n');
        evaluation_table(&r->ev, table_colour_wanted(stdout), &text);
        buf_char(&text, '\n');
        tell_forecast(cw->world, r->chance[0], &text);
        cli_summary(&r->ev, &text);
        buf_fmt(&text,
                "\nOpen %s.  With your own metrics: sluice import, a scenario (sluice config), "
                "then sluice train\n"
                "and sluice evaluate; docs/cli.md goes through it.\n",
                report_path);
        if (c->verbosity >= 0)
            (void)fwrite(text.p, 1, text.n, stdout);
    }
    buf_fini(&text);
    evaluate_free(r);
    mem_free(lr);
    return rc;
}

static enum err_code run(struct cli_ctx *c, struct err *e)
{
    struct cli_world cw;
    char dir[256], policy_path[300];
    const char *tmp = getenv("TMPDIR");
    int64_t since_us = clock_mono_us();
    const char *report_path = c->output ? c->output : "report.html";
    enum err_code rc = file_check_writable(report_path, e);
    if (rc)
        return rc;
    (void)snprintf(dir, sizeof dir, "%s/sluice-demo-XXXXXX",
                   tmp && *tmp && strlen(tmp) < 200 ? tmp : "/tmp");
    if (!mkdtemp(dir))
        return err_sys(e, errno, "create the folder %s", dir);
    (void)snprintf(policy_path, sizeof policy_path, "%s/learned.safetensors", dir);
    stage(c, since_us,
          "24 days of made-up demand in steps of 15 s: a daily rhythm, jobs on the hour, "
          "unforeseen bursts");
    rc = load_demo(c, &cw, e);
    if (!rc)
        rc = tell_story(c, &cw, policy_path, report_path, since_us, e);
    (void)unlink(policy_path);
    (void)rmdir(dir);
    cli_world_close(&cw);
    return rc;
}

const struct cli_cmd cmd_demo = {
    .name = "demo",
    .summary = "the whole story on made-up data in about a minute; writes report.html",
    .max_args = 0,
    .formats = 1u << CLI_TABLE,
    .config = &scenario_table,
    .run = run,
};
