#include "train/story.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/build.h"
#include "base/mem.h"
#include "report/html.h"
#include "train/explained.h"

enum { DRAWN_MAX = 6, AHEAD = 2 /* level of the forecast drawn: the 5 minutes ending 15 min ahead */ };

/* What is drawn, owned until the page is written. */
struct story {
    const struct world *w;
    const struct evaluate_result *r;
    int32_t n;               /* test steps */
    float *demand, *needed;  /* [n] */
    struct report_trace trace[DRAWN_MAX];
    float *line[DRAWN_MAX][3]; /* ready, requested, p99: [n] each */
    size_t n_traces;
    struct report_front front[EVALUATE_POLICIES_MAX];
    double (*front_xy)[2][TUNE_POINTS_MAX]; /* [EVALUATE_POLICIES_MAX] cost, misses */
    size_t n_fronts;
    float *fc[6];            /* actual, mean, lo80, hi80, lo95, hi95 */
    struct report_forecast forecast;
    struct explained explained;
    struct report_pair pair[16];
    char pair_text[16][128];
    size_t n_pairs;
    struct buf config;
    double *curve[LEARNED_CURVE_COLUMNS]; /* of learning by trial: [learning.n] each */
    struct report_learning learning;
    struct buf remarks;
    const char *note[EVALUATE_POLICIES_MAX + 1];
    size_t n_notes;
};

/* ---- over time -------------------------------------------------------------------------------- */

struct drawing {
    struct story *s;
    size_t i;
};

static void draw_step(void *ctx, const struct run_look *l)
{
    struct drawing *d = ctx;
    struct story *s = d->s;
    size_t k = (size_t)(l->step - s->w->train_end);
    s->line[d->i][0][k] = (float)l->view->units_ready;
    s->line[d->i][1][k] = (float)l->out->units_billed;
    s->line[d->i][2][k] = l->out->barred ? NAN : l->out->p99_ms;
    if (d->i > 0)
        return;
    s->demand[k] = l->out->barred ? NAN : l->demand_qps;
    s->needed[k] = l->out->barred ? NAN : (float)latency_units_for(&s->w->latency, (double)l->demand_qps);
}

static enum err_code draw_policy(struct story *s, const struct contender *c, struct err *e)
{
    size_t i = s->n_traces;
    struct learned l = {0};
    struct capacity_config *cfg = mem_zero(1, sizeof *cfg);
    struct run_result *result = mem_zero(1, sizeof *result);
    struct run_opts o = run_opts_default(s->w);
    struct drawing d = {.s = s, .i = i};
    enum err_code rc = ERR_OK;
    o.look = draw_step;
    o.ctx = &d;
    for (int k = 0; k < 3; k++)
        s->line[i][k] = mem_zero((size_t)s->n, sizeof(float));
    if (c->kind == CONTENDER_ORACLE)
        o.schedule = s->r->oracle_plan[0];
    else if (c->kind == CONTENDER_RECORDED)
        o.schedule = s->r->recorded + s->w->train_end;
    else
        rc = contender_config(c, s->w, &l, cfg, e);
    if (!rc)
        rc = run_policy(s->w, s->r->chance[0], o.schedule ? NULL : cfg, &o, result, e);
    s->trace[i] = (struct report_trace){.name = c->name, .units_ready = s->line[i][0],
                                        .units_requested = s->line[i][1], .p99_ms = s->line[i][2]};
    s->n_traces++;
    learned_fini(&l);
    mem_free(result);
    mem_free(cfg);
    return rc;
}

/* The proposal first, then the others in their order. */
static enum err_code draw_all(struct story *s, struct err *e)
{
    const struct eval_policy *proposal = eval_proposal(&s->r->ev);
    enum err_code rc = ERR_OK;
    s->demand = mem_zero((size_t)s->n, sizeof(float));
    s->needed = mem_zero((size_t)s->n, sizeof(float));
    for (int pass = 0; pass < 2; pass++)
        for (int i = 0; i < s->r->n_shown && !rc && s->n_traces < DRAWN_MAX; i++) {
            bool is_proposal = proposal && strcmp(proposal->name, s->r->contender[i].name) == 0;
            if (is_proposal == (pass == 0))
                rc = draw_policy(s, &s->r->contender[i], e);
        }
    return rc;
}

/* ---- cost against misses ---------------------------------------------------------------------- */

static void rule_front(struct story *s, const struct contender *c)
{
    struct front_point p[TUNE_POINTS_MAX];
    double(*xy)[TUNE_POINTS_MAX] = s->front_xy[s->n_fronts];
    for (int k = 0; k < c->front->n; k++) {
        struct run_day t = {0};
        for (int seed = 0; seed < s->r->n_seeds; seed++)
            run_day_add(&t, &c->front_runs[k * s->r->n_seeds + seed].total);
        p[k] = (struct front_point){.misses = run_miss_frac(&t), .cost = t.cost_usd / s->r->n_seeds};
    }
    int n = front_pareto(p, c->front->n);
    for (int k = 0; k < n; k++) { /* ascending cost */
        xy[0][k] = p[n - 1 - k].cost;
        xy[1][k] = p[n - 1 - k].misses;
    }
    s->front[s->n_fronts++] = (struct report_front){.name = c->name, .cost_usd = xy[0], .violation_frac = xy[1],
                                                    .n = (size_t)n};
}

static void all_fronts(struct story *s)
{
    const struct evaluate_result *r = s->r;
    s->front_xy = mem_zero(EVALUATE_POLICIES_MAX, sizeof *s->front_xy);
    for (int i = 0; i < r->n && s->n_fronts < REPORT_FRONTS_MAX - 1; i++)
        if (r->contender[i].front_runs)
            rule_front(s, &r->contender[i]);
    if (!r->n_bound_points)
        return;
    double(*xy)[TUNE_POINTS_MAX] = s->front_xy[s->n_fronts];
    for (size_t k = 0; k < r->n_bound_points; k++) {
        xy[0][k] = r->bound_cost[r->n_bound_points - 1 - k];
        xy[1][k] = r->bound_limits[r->n_bound_points - 1 - k];
    }
    s->front[s->n_fronts++] = (struct report_front){.name = "bound", .cost_usd = xy[0], .violation_frac = xy[1],
                                                    .n = r->n_bound_points, .is_bound = true};
}

/* ---- the forecast ----------------------------------------------------------------------------- */

static float point_demand(const struct story *s, int32_t point)
{
    const struct world *w = s->w;
    double sum = 0;
    int n = 0;
    for (int32_t i = point * w->point_steps; i < (point + 1) * w->point_steps && i < w->n; i++)
        if (!w->barred[i]) {
            sum += (double)(w->demand[i] * s->r->chance[0]->factor[i]);
            n++;
        }
    return n ? (float)(sum / n) : NAN;
}

static void draw_forecast(struct story *s)
{
    const struct world *w = s->w;
    const struct chance *c = s->r->chance[0];
    int32_t first = w->train_end / w->point_steps + 1, last = w->n / w->point_steps, n = last - first;
    double abs_err = 0, sum = 0, in80 = 0, in95 = 0, scored = 0;
    if (n < 2)
        return;
    for (int k = 0; k < 6; k++)
        s->fc[k] = mem_zero((size_t)n, sizeof(float));
    for (int32_t i = 0; i < n; i++) {
        int32_t made = first + i - AHEAD;
        const struct forecast *f = &c->forecast[made > 0 ? made : 0];
        float y = point_demand(s, first + i);
        const float v[6] = {y, f->mean[AHEAD], f->lo80[AHEAD], f->hi80[AHEAD], f->lo95[AHEAD], f->hi95[AHEAD]};
        for (int k = 0; k < 6; k++)
            s->fc[k][i] = v[k];
        if (isnan(y) || isnan(v[1]))
            continue;
        scored++;
        abs_err += (double)fabsf(v[1] - y);
        sum += (double)y;
        in80 += y >= v[2] && y <= v[3];
        in95 += y >= v[4] && y <= v[5];
    }
    s->forecast = (struct report_forecast){
        .what = "mean of the 5 minutes ending 15 min ahead",
        .start_us = w->start_us + first * (int64_t)w->point_steps * w->sim.spec.step_us,
        .step_us = w->point_steps * w->sim.spec.step_us,
        .n = (size_t)n,
        .actual = s->fc[0], .mean = s->fc[1], .lo80 = s->fc[2], .hi80 = s->fc[3], .lo95 = s->fc[4], .hi95 = s->fc[5],
        .coverage80_frac = scored > 0 ? in80 / scored : NAN,
        .coverage95_frac = scored > 0 ? in95 / scored : NAN,
        .wape_frac = sum > 0 ? abs_err / sum : NAN,
    };
}

/* ---- where it comes from ---------------------------------------------------------------------- */

static void pair(struct story *s, const char *key, const char *fmt, ...) PRINTF_LIKE(3, 4);
static void pair(struct story *s, const char *key, const char *fmt, ...)
{
    va_list ap;
    if (s->n_pairs == ARRAY_LEN(s->pair))
        return;
    va_start(ap, fmt);
    (void)vsnprintf(s->pair_text[s->n_pairs], sizeof s->pair_text[0], fmt, ap);
    va_end(ap);
    s->pair[s->n_pairs] = (struct report_pair){.key = key, .value = s->pair_text[s->n_pairs]};
    s->n_pairs++;
}

static void provenance(struct story *s, uint64_t seed)
{
    char hex[HASH_HEX];
    const struct world *w = s->w;
    pair(s, "sluice", "%s, commit %s, %s build", build_version(), build_commit(), build_config());
    pair(s, "compiler", "%s", build_compiler());
    pair(s, "CPU feature level", "%s", build_isa());
    pair(s, "scenario", "%s", w->scenario->name);
    hash_hex(w->data_hash, hex);
    pair(s, "demand hash", "%s", hex);
    hash_hex(w->scenario->config_hash, hex);
    pair(s, "configuration hash", "%s", hex);
    pair(s, "seeds", "%lld to %lld for the test days, %" PRIu64 " for learning and intervals",
         (long long)w->scenario->chance.seed, (long long)w->scenario->chance.seed + s->r->n_seeds - 1, seed);
    pair(s, "steps", "%d of %.0f s; the first %d for training", w->n, (double)w->sim.spec.step_us * 1e-6, w->train_end);
    s->config = buf_init(REPORT_TEXT_MAX);
    opt_write_effective(&scenario_table, w->scenario, NULL, &s->config);
}

/* From the run that has just been made, else from the first policy file that holds one. */
static enum err_code take_curve(struct story *s, const struct learn_report *run, struct err *e)
{
    double *rows = NULL;
    size_t n = 0;
    enum err_code rc = ERR_OK;
    for (int i = 0; i < s->r->n_shown && !(run && run->n_curve) && !n && !rc; i++)
        if (s->r->contender[i].kind == CONTENDER_LEARNED)
            rc = learned_curve_load(s->r->contender[i].path, &rows, &n, e);
    const double *told[LEARNED_CURVE_COLUMNS] = {NULL};
    if (run && run->n_curve) {
        told[0] = run->curve_steps;
        told[1] = run->curve_cost_usd_h;
        told[2] = run->curve_misses;
        n = (size_t)run->n_curve;
    }
    for (size_t k = 0; k < LEARNED_CURVE_COLUMNS && n > 1; k++) {
        s->curve[k] = mem_zero(n, sizeof(double));
        for (size_t i = 0; i < n; i++)
            s->curve[k][i] = told[k] ? told[k][i] : rows[i * LEARNED_CURVE_COLUMNS + k];
    }
    s->learning = (struct report_learning){
        .n = n > 1 ? n : 0, .env_steps = s->curve[0], .cost_usd_h = s->curve[1], .violation_frac = s->curve[2]};
    mem_free(rows);
    return rc;
}

/* The remarks as lines of their own. */
static void take_notes(struct story *s)
{
    s->remarks = buf_init(1 << 16);
    evaluate_remarks(s->w, s->r, &s->remarks);
    for (char *line = s->remarks.p, *end; line && s->n_notes < ARRAY_LEN(s->note); line = end + 1) {
        if (!(end = strchr(line, '\n')))
            break;
        *end = '\0';
        s->note[s->n_notes++] = line;
    }
}

static void story_fini(struct story *s)
{
    for (int k = 0; k < LEARNED_CURVE_COLUMNS; k++)
        mem_free(s->curve[k]);
    buf_fini(&s->remarks);
    for (int i = 0; i < DRAWN_MAX; i++)
        for (int k = 0; k < 3; k++)
            mem_free(s->line[i][k]);
    for (int k = 0; k < 6; k++)
        mem_free(s->fc[k]);
    explained_fini(&s->explained);
    buf_fini(&s->config);
    mem_free(s->front_xy);
    mem_free(s->demand);
    mem_free(s->needed);
    mem_free(s);
}

enum err_code story_write(const struct world *w, const struct evaluate_result *r,
                          const struct learn_report *learning, uint64_t seed, const char *path, struct err *e)
{
    struct story *s = mem_zero(1, sizeof *s);
    s->w = w;
    s->r = r;
    s->n = w->n - w->train_end;
    enum err_code rc = draw_all(s, e);
    const struct contender *proposal = NULL;
    const struct eval_policy *p = eval_proposal(&r->ev);
    for (int i = 0; i < r->n_shown && p; i++)
        if (strcmp(r->contender[i].name, p->name) == 0 && r->contender[i].kind != CONTENDER_ORACLE &&
            r->contender[i].kind != CONTENDER_RECORDED)
            proposal = &r->contender[i];
    if (!rc && proposal)
        rc = explained_make(w, r->chance[0], proposal, r->hpa >= 0 ? &r->contender[r->hpa].use : NULL,
                            REPORT_DECISIONS_MAX, EXPLAINED_MOST, &s->explained, e);
    if (!rc)
        rc = take_curve(s, learning, e);
    if (rc) {
        story_fini(s);
        return err_wrap(e, "report");
    }
    take_notes(s);
    all_fronts(s);
    draw_forecast(s);
    provenance(s, seed);
    struct report_timeline timeline = {
        .start_us = w->start_us + w->train_end * w->sim.spec.step_us, .step_us = w->sim.spec.step_us,
        .n = (size_t)s->n, .demand_qps = s->demand, .units_needed = s->needed, .traces = s->trace,
        .n_traces = s->n_traces, .note = "drawn: the first of the seeds",
    };
    struct report_data d = {
        .eval = &r->ev, .zone = w->zone, .timeline = &timeline, .fronts = s->front, .n_fronts = s->n_fronts,
        .forecast = s->forecast.n ? &s->forecast : NULL,
        .decisions = s->explained.decision, .n_decisions = s->explained.n,
        .n_decisions_total = s->explained.n_total, .decisions_note = s->explained.note,
        .tree_text = s->explained.tree, .tree_fidelity_frac = s->explained.tree_fidelity,
        .learning = s->learning.n ? &s->learning : NULL, .notes = s->note, .n_notes = s->n_notes,
        .provenance = s->pair, .n_provenance = s->n_pairs, .config_text = s->config.p,
    };
    rc = report_html_write(&d, path, e);
    story_fini(s);
    return rc;
}
