#include <math.h>
#include <string.h>

#include "base/mem.h"
#include "base/tz.h"
#include "cli/commands.h"
#include "forecast/backtest.h"
#include "history/file.h"
#include "history/table.h"
#include "report/table.h"

struct forecast_opts {
    bool backtest;
};
static const struct opt_row rows[] = {
    OPT_BOOL(struct forecast_opts, backtest, "backtest", "false",
             "remake forecasts over the last third as they would have been made, and score them"),
};
static const struct opt_table table =
    OPT_TABLE("forecast", struct forecast_opts, rows, "Forecasts of the load.");

static enum err_code print_forecast(struct cli_ctx *c, const struct forecast_series *s,
                                    const struct calendar *cal, const struct tz *zone,
                                    struct err *e)
{
    static const char *const level[FORECAST_LEVELS] = {"5 min", "10 min", "15 min", "30 min mean"};
    struct forecast_config cfg = forecast_config_default();
    struct forecaster *f = forecast_new(&cfg);
    struct buf text = buf_init(CLI_TEXT_MAX);
    struct forecast fc;
    char at[TZ_TEXT];
    enum err_code rc = forecast_series_push(f, s, cal, 0, s->n, e);
    forecast_get(f, &fc);
    forecast_free(f);
    if (rc)
        return rc;
    struct table *t = table_new((struct table_column[]){{"ahead", NULL, 0},
                                                        {"mean_qps", "mean", 2},
                                                        {"lo80", NULL, 2},
                                                        {"hi80", NULL, 2},
                                                        {"lo95", NULL, 2},
                                                        {"hi95", NULL, 2}},
                                6);
    for (int i = 0; i < FORECAST_LEVELS; i++) {
        table_text(t, level[i]);
        const float v[] = {fc.mean[i], fc.lo80[i], fc.hi80[i], fc.lo95[i], fc.hi95[i]};
        for (int k = 0; k < 5; k++)
            table_num(t, (double)v[k]);
    }
    if (c->format == CLI_TABLE) {
        tz_format_rfc3339(zone, s->start_us + s->n * FORECAST_POINT_US, at);
        buf_fmt(&text, "made at %s; %s; uncertainty %.2f\n", at,
                fc.usable ? "usable"
                          : "not usable (too little history, or no better than persistence)",
                (double)fc.uncertainty);
    }
    table_format(t, c->format, cli_colour(c), &text);
    table_free(t);
    return cli_finish(c, &text, e);
}

static void put_score(struct json_writer *w, const char *key, const struct forecast_score *s,
                      bool bounds)
{
    json_open(w, key);
    json_put_f64(w, "wape", forecast_wape(s));
    if (bounds) {
        json_put_f64(w, "pinball", forecast_pinball(s));
        json_put_f64(w, "interval_score_80", forecast_interval80(s));
        json_put_f64(w, "interval_score_95", forecast_interval95(s));
        json_put_f64(w, "coverage_80", forecast_cover80(s));
        json_put_f64(w, "coverage_95", forecast_cover95(s));
    }
    json_close(w);
}

static void put_interval(struct json_writer *w, const char *key, const struct stats_interval *v)
{
    json_open(w, key);
    json_put_f64(w, "mean", v->mean);
    json_put_f64(w, "lo", v->lo);
    json_put_f64(w, "hi", v->hi);
    json_close(w);
}

static void backtest_json(const struct backtest_result *r, const char *verdict, struct buf *text)
{
    struct json_writer w = json_writer_init(text, 2);
    json_open(&w, NULL);
    json_put_i64(&w, "points", r->n_points);
    json_put_i64(&w, "missing", r->n_missing);
    json_put_i64(&w, "origins", r->n_origins);
    json_put_f64(&w, "usable_frac", r->usable_frac);
    json_put_bool(&w, "error_above_20_percent", r->error_above_20);
    json_put_bool(&w, "helps", r->helps);
    json_put_bool(&w, "beats_best_baseline", r->beats_best);
    json_put_str(&w, "verdict", verdict);
    for (int h = 0; h < BACKTEST_HORIZONS; h++) {
        const struct backtest_horizon *at = &r->at[h];
        json_open(&w, backtest_horizon_name(h));
        put_score(&w, "forecast", &at->own, true);
        put_score(&w, "same_slot", &at->slot, true);
        for (int b = 0; b < BASELINE_COUNT; b++)
            put_score(&w, baseline_name((enum baseline)b), &at->baseline[b], false);
        json_put_str(&w, "best_baseline", baseline_name(at->best));
        json_put_f64(&w, "gain_frac", at->gain_frac);
        put_interval(&w, "coverage_80", &at->cover80);
        put_interval(&w, "coverage_95", &at->cover95);
        json_close(&w);
    }
    json_close(&w);
}

static void score_row(struct table *t, const char *horizon, const char *method,
                      const struct forecast_score *s, bool bounds)
{
    table_text(t, horizon);
    table_text(t, method);
    table_num(t, forecast_wape(s));
    table_num(t, bounds ? forecast_pinball(s) : NAN);
    table_num(t, bounds ? forecast_interval80(s) : NAN);
    table_num(t, bounds ? forecast_interval95(s) : NAN);
    table_num(t, bounds ? forecast_cover80(s) : NAN);
    table_num(t, bounds ? forecast_cover95(s) : NAN);
}

static void backtest_table(struct cli_ctx *c, const struct backtest_result *r, const char *verdict,
                           struct buf *text)
{
    struct table *t = table_new((struct table_column[]){{"horizon", NULL, 0},
                                                        {"method", NULL, 0},
                                                        {"wape", NULL, 4},
                                                        {"pinball", NULL, 3},
                                                        {"interval80", NULL, 2},
                                                        {"interval95", NULL, 2},
                                                        {"cover80", NULL, 3},
                                                        {"cover95", NULL, 3}},
                                8);
    for (int h = 0; h < BACKTEST_HORIZONS; h++) {
        const char *name = backtest_horizon_name(h);
        score_row(t, name, "forecast", &r->at[h].own, true);
        score_row(t, name, "same-slot quantiles", &r->at[h].slot, true);
        for (int b = 0; b < BASELINE_COUNT; b++)
            score_row(t, name, baseline_name((enum baseline)b), &r->at[h].baseline[b], false);
    }
    table_format(t, c->format, cli_colour(c), text);
    table_free(t);
    if (c->format == CLI_TABLE)
        for (int h = 0; h < BACKTEST_HORIZONS; h++)
            buf_fmt(text, "%s: coverage 80 %%: %.1f %% (%.1f-%.1f), 95 %%: %.1f %% (%.1f-%.1f)\n",
                    backtest_horizon_name(h), 100 * r->at[h].cover80.mean,
                    100 * r->at[h].cover80.lo, 100 * r->at[h].cover80.hi,
                    100 * r->at[h].cover95.mean, 100 * r->at[h].cover95.lo,
                    100 * r->at[h].cover95.hi);
    if (c->format == CLI_TABLE)
        buf_fmt(text, "%s\n", verdict);
}

static enum err_code print_backtest(struct cli_ctx *c, const struct forecast_series *s,
                                    const struct calendar *cal, struct err *e)
{
    struct backtest_config cfg = backtest_config_default();
    struct backtest_result *r = mem_zero(1, sizeof *r);
    struct buf text = buf_init(CLI_TEXT_MAX);
    char verdict[512];
    cfg.seed = c->seed;
    enum err_code rc = backtest_run(&cfg, s, cal, r, e);
    if (!rc) {
        (void)backtest_verdict(r, verdict, sizeof verdict);
        if (c->format == CLI_JSON)
            backtest_json(r, verdict, &text);
        else
            backtest_table(c, r, verdict, &text);
    }
    mem_free(r);
    if (rc)
        buf_fini(&text);
    return rc ? rc : cli_finish(c, &text, e);
}

static enum err_code run(struct cli_ctx *c, struct err *e)
{
    const struct forecast_opts *o = c->opts;
    struct history h = {0};
    struct forecast_series s = {0};
    struct tz *zone = NULL;
    enum err_code rc = history_open(c->args[0], &h, NULL, e);
    if (!rc)
        rc = tz_load(h.zone[0] ? h.zone : "UTC", &zone, e);
    if (!rc)
        rc = forecast_series_new(&h, FIELD_QPS, &s, e);
    struct calendar cal = {.zone = zone};
    if (!rc)
        rc = o->backtest ? print_backtest(c, &s, &cal, e) : print_forecast(c, &s, &cal, zone, e);
    forecast_series_free(&s);
    tz_free(zone);
    history_close(&h);
    return rc ? err_wrap(e, "%s", c->args[0]) : ERR_OK;
}

const struct cli_cmd cmd_forecast = {
    .name = "forecast",
    .summary = "the next half hour of a history's load, or how good such forecasts have been",
    .args = "HISTORY",
    .min_args = 1,
    .max_args = 1,
    .opts = &table,
    .run = run,
};
