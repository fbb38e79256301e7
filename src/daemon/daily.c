#include "daemon/daily.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/mem.h"
#include "base/stats.h"
#include "daemon/recorded.h"
#include "train/evaluate.h"
#include "train/run.h"

enum { TEXT = 700, BLOCK_H = 3, HOURS_LEAST = 12, GAP_STEPS = 4, STRETCHES_MAX = 20000, NOTES_MAX = 100 };

struct one {
    struct daily_target t;
    char name[520], policy[256], rules[64], note[TEXT];
    struct daily_disagreement *stretch; /* all, then the largest */
    char (*text)[2][TEXT];              /* why and verdict of those kept */
};

struct daily {
    struct daily_report r;
    struct daily_target *target;
    struct one *one;
    size_t n;
    char cluster[64], stage[64];
    char *note[NOTES_MAX];
    size_t n_notes;
    const struct daily_opts *o;
};

/* ---- the three sides in one world -------------------------------------------------------------- */

struct hours {
    double *cost, *misses, *steps, *p99;
    int32_t from, per_hour, n;
};

static void note_step(void *ctx, const struct run_look *look)
{
    struct hours *h = ctx;
    int32_t i = (look->step - h->from) / h->per_hour;
    if (look->out->barred || i >= h->n)
        return;
    h->cost[i] += (double)look->out->cost_usd;
    h->misses[i] += look->out->miss;
    h->p99[i] += (double)look->out->p99_ms;
    h->steps[i]++;
}

static struct hours hours_new(const struct world *w, int32_t from)
{
    struct hours h = {.from = from, .per_hour = world_steps_per_day(w) / 24};
    h.n = (w->n - from + h.per_hour - 1) / h.per_hour;
    h.cost = mem_zero((size_t)h.n * 4 + 4, sizeof(double));
    h.misses = h.cost + h.n;
    h.steps = h.misses + h.n;
    h.p99 = h.steps + h.n;
    return h;
}

static enum err_code run_side(const struct world *w, int n_seeds, const struct capacity_config *cfg,
                              const int16_t *schedule, struct hours *h, struct daily_side *side, struct err *e)
{
    struct run_result *result = mem_zero(1, sizeof *result);
    struct run_day total = {0};
    enum err_code rc = ERR_OK;
    for (int i = 0; i < n_seeds && !rc; i++) {
        struct chance *c;
        rc = chance_new(w, (uint64_t)(w->scenario->chance.seed + i), &c, e);
        if (rc)
            break;
        struct run_opts o = run_opts_default(w);
        o.from = h->from;
        o.warm_steps = h->from;
        o.schedule = schedule ? schedule + h->from : NULL;
        o.look = note_step;
        o.ctx = h;
        rc = run_policy(w, c, schedule ? NULL : cfg, &o, result, e);
        if (!rc)
            run_day_add(&total, &result->total);
        chance_free(c);
    }
    *side = (struct daily_side){.cost_usd = total.cost_usd / n_seeds,
                                .unit_hours = total.unit_h / n_seeds,
                                .slo_violation_frac = run_miss_frac(&total),
                                .p99_ms = total.steps ? total.p99_sum_ms / (double)total.steps : NAN,
                                .actions = (int)(total.actions / n_seeds),
                                .reversals = (int)(total.reversals / n_seeds)};
    mem_free(result);
    return rc;
}

static struct daily_interval difference(const double *a, const double *b, int32_t n, double over)
{
    struct rng rng = rng_stream(1, "daily");
    struct stats_interval s;
    struct err e;
    double sum = 0;
    for (int32_t i = 0; i < n; i++)
        sum += a[i] - b[i];
    struct daily_interval out = {over > 0 ? sum / over : NAN, NAN, NAN};
    if (n >= HOURS_LEAST && over > 0 &&
        !stats_bootstrap_paired(a, b, (size_t)n, BLOCK_H, 2000, 0.95, &rng, &s, &e)) {
        out.lo = s.lo * n / over;
        out.hi = s.hi * n / over;
    }
    return out;
}

static double sum_of(const double *x, int32_t n)
{
    return stats_sum(x, (size_t)n);
}

/* Live decisions run behind the guard whatever the policy. */
static enum err_code guarded_config(const char *policy, bool guarded, const struct world *w, struct learned *l,
                                    struct capacity_config *cfg, struct err *e)
{
    struct contender c;
    memset(l, 0, sizeof *l);
    enum err_code rc = contender_parse(policy, &c, e);
    c.guarded = guarded;
    return rc ? rc : contender_config(&c, w, l, cfg, e);
}

static enum err_code compare(const struct recorded *past, const struct world *w, int n_seeds, struct one *x,
                             struct err *e)
{
    struct capacity_config *cfg = mem_zero(1, sizeof *cfg);
    int32_t hour = world_steps_per_day(w) / 24, from = w->n > 4 * hour ? hour : w->n / 4;
    struct hours was = hours_new(w, from), own = hours_new(w, from), rule = hours_new(w, from);
    struct learned l = {0};
    enum err_code rc = run_side(w, n_seeds, NULL, past->units, &was, &x->t.recorded, e);
    if (!rc && !(rc = guarded_config(past->policy, true, w, &l, cfg, e)))
        rc = run_side(w, n_seeds, cfg, NULL, &own, &x->t.sluice, e);
    learned_fini(&l);
    if (!rc && !(rc = guarded_config(x->rules, false, w, &l, cfg, e)))
        rc = run_side(w, n_seeds, cfg, NULL, &rule, &x->t.rules_side, e);
    learned_fini(&l);
    if (!rc) {
        x->t.cost_frac = difference(own.cost, was.cost, own.n, sum_of(was.cost, was.n));
        x->t.misses = difference(own.misses, was.misses, own.n, sum_of(was.steps, was.n));
        x->t.compared = true;
    }
    mem_free(was.cost);
    mem_free(own.cost);
    mem_free(rule.cost);
    mem_free(cfg);
    return rc;
}

/* ---- disagreements ----------------------------------------------------------------------------- */

struct gathering {
    struct one *x;
    const struct world *w;
    int64_t step_us;
    size_t n;
    bool acted;
    int sign;             /* of the open stretch */
};

static int sign_of(int v)
{
    return (v > 0) - (v < 0);
}

static void widen(struct daily_disagreement *g, int sluice, int rules, int64_t time_us, double hours)
{
    g->to_us = time_us;
    g->sluice_lo = sluice < g->sluice_lo ? sluice : g->sluice_lo;
    g->sluice_hi = sluice > g->sluice_hi ? sluice : g->sluice_hi;
    g->rules_lo = rules < g->rules_lo ? rules : g->rules_lo;
    g->rules_hi = rules > g->rules_hi ? rules : g->rules_hi;
    g->unit_hours += (sluice - rules) * hours;
}

static bool on_decision(void *ctx, const struct store_decision *d, const struct store_target *t)
{
    struct gathering *g = ctx;
    int rules = g->acted ? d->rule_units : d->units_before;
    (void)t;
    if (d->rule && !*g->x->rules)
        (void)snprintf(g->x->rules, sizeof g->x->rules, "%s", d->rule);
    if (g->acted && !d->rule)
        return true;
    int sign = sign_of(d->executed - rules);
    struct daily_disagreement *last = g->n ? &g->x->stretch[g->n - 1] : NULL;
    bool on = last && g->sign == sign && d->time_us - last->to_us <= GAP_STEPS * g->step_us;
    if (sign == 0)
        return true;
    if (!on) {
        if (g->n == STRETCHES_MAX)
            return false;
        g->sign = sign;
        last = &g->x->stretch[g->n++];
        *last = (struct daily_disagreement){.from_us = d->time_us, .sluice_lo = INT32_MAX, .rules_lo = INT32_MAX,
                                            .needed = -1, .decision = d->id, .against_rules = g->acted};
    }
    widen(last, d->executed, rules, d->time_us + g->step_us, (double)g->step_us / 3600e6);
    return true;
}

static bool on_acted(void *ctx, const struct store_decision *d, const struct store_target *t)
{
    (void)d;
    (void)t;
    *(bool *)ctx = true;
    return false;
}

static int by_weight(const void *a, const void *b)
{
    double x = fabs(((const struct daily_disagreement *)a)->unit_hours);
    double y = fabs(((const struct daily_disagreement *)b)->unit_hours);
    return (x < y) - (x > y);
}

static int by_time(const void *a, const void *b)
{
    int64_t x = ((const struct daily_disagreement *)a)->from_us, y = ((const struct daily_disagreement *)b)->from_us;
    return (x > y) - (x < y);
}

static bool keep_why(void *ctx, const struct store_decision *d, const struct store_target *t)
{
    char *out = ctx;
    (void)t;
    (void)snprintf(out, TEXT, "%s", d->why ? d->why : "");
    for (char *p = out; *p; p++)
        if (*p == '\n')
            *p = ' ';
    return true;
}

/* Most units the demand needed from the stretch's beginning to one start-up after its end. */
static int needed(const struct world *w, const struct daily_disagreement *g)
{
    int64_t step_us = w->sim.spec.step_us;
    int64_t from = (g->from_us - w->start_us) / step_us, to = (g->to_us + w->sim.spec.start_us - w->start_us) / step_us;
    int most = -1;
    for (int64_t i = from < 0 ? 0 : from; i < to && i < w->n; i++) {
        int units = w->barred[i] ? -1 : latency_units_for(&w->latency, (double)w->demand[i]);
        most = units > most ? units : most;
    }
    return most;
}

static void judge(const struct daily_disagreement *g, bool acted, char out[TEXT])
{
    const char *rules = acted ? "the rules" : "the sizes as they were";
    bool more = g->unit_hours > 0;
    if (g->needed < 0)
        (void)snprintf(out, TEXT, "what was needed is not known");
    else if (more && g->needed > g->rules_hi)
        (void)snprintf(out, TEXT, "%s would have been short", rules);
    else if (more)
        (void)snprintf(out, TEXT, "the extra units were not needed");
    else if (g->needed > g->sluice_hi)
        (void)snprintf(out, TEXT, "sluice would have been short");
    else
        (void)snprintf(out, TEXT, "the smaller size was enough");
}

static enum err_code gather(struct store *s, const struct store_query *q, const struct world *w, struct one *x,
                            struct err *e)
{
    struct gathering g = {.x = x, .w = w, .step_us = w ? w->sim.spec.step_us : 15000000};
    struct store_query acted = *q;
    acted.acted = true;
    acted.limit = 1;
    enum err_code rc = store_decisions(s, &acted, on_acted, &g.acted, e);
    x->t.acted = g.acted;
    x->stretch = mem_zero(STRETCHES_MAX, sizeof *x->stretch);
    if (!rc)
        rc = store_decisions(s, q, on_decision, &g, e);
    if (rc)
        return rc;
    qsort(x->stretch, g.n, sizeof *x->stretch, by_weight);
    size_t kept = g.n < DAILY_DISAGREEMENTS ? g.n : DAILY_DISAGREEMENTS;
    qsort(x->stretch, kept, sizeof *x->stretch, by_time);
    x->text = mem_zero(kept + 1, sizeof *x->text);
    for (size_t i = 0; i < kept && !rc; i++) {
        struct daily_disagreement *d = &x->stretch[i];
        d->needed = w ? needed(w, d) : -1;
        judge(d, g.acted, x->text[i][1]);
        rc = store_decision_get(s, d->decision, keep_why, x->text[i][0], e);
        d->why = x->text[i][0];
        d->verdict = x->text[i][1];
    }
    x->t.disagreement = x->stretch;
    x->t.n_disagreements = kept;
    x->t.n_left_out = g.n - kept;
    return rc;
}

/* ---- targets ----------------------------------------------------------------------------------- */

static double measured(const struct recorded *past)
{
    int64_t n = 0;
    for (int64_t i = 0; i < past->n; i++)
        n += !past->barred[i];
    return past->n ? (double)n / (double)past->n : 0;
}

static enum err_code fill(struct daily *d, struct store *s, struct one *x, const struct store_query *q, struct err *e)
{
    struct recorded past = {0};
    struct world *w = NULL;
    struct err why = {0};
    x->t = (struct daily_target){.name = x->name, .policy = x->policy, .rules = x->rules,
                                 .cost_frac = {NAN, NAN, NAN}, .misses = {NAN, NAN, NAN}};
    enum err_code rc = recorded_load(s, q, &past, &why);
    if (!rc) {
        (void)snprintf(x->policy, sizeof x->policy, "%s", past.policy);
        x->t.hours = (double)past.n * (double)past.scenario.step_us / 3600e6;
        x->t.measured_frac = measured(&past);
        x->t.slo_p99_ms = (double)past.scenario.service.slo_p99_us / 1000;
        x->t.slo_violation_max = past.scenario.service.slo_violation_max;
        rc = world_from_demand(&past.scenario, past.qps, past.barred, past.n, past.start_us,
                               *past.zone ? past.zone : NULL, &w, &why);
    }
    enum err_code bad = gather(s, q, w, x, e);
    if (!*x->rules)
        (void)snprintf(x->rules, sizeof x->rules, "hpa");
    if (!rc && !bad)
        rc = compare(&past, w, d->o->n_seeds, x, &why);
    if (rc) { /* one target without enough past does not spoil the report of the others */
        size_t n = strlen(x->name);
        bool named = strncmp(why.msg, x->name, n) == 0 && strncmp(why.msg + n, ": ", 2) == 0;
        (void)snprintf(x->note, sizeof x->note, "No comparison yet: %.500s.  `sluice decisions list --target %.80s` shows "
                       "what was decided so far.", why.msg + (named ? n + 2 : 0), x->name);
        x->t.note = x->note;
    }
    world_free(w);
    recorded_fini(&past);
    return bad;
}

struct names {
    struct daily *d;
    const char *wanted; /* NULL: all */
};

static bool on_target(void *ctx, const struct store_target *t)
{
    struct names *n = ctx;
    struct daily *d = n->d;
    char name[520];
    (void)snprintf(name, sizeof name, "%s/%s", t->namespace_, t->name);
    (void)snprintf(d->cluster, sizeof d->cluster, "%s", t->cluster);
    if (n->wanted && strcmp(n->wanted, name) != 0 && strcmp(n->wanted, t->name) != 0)
        return true;
    for (size_t i = 0; i < d->n; i++)
        if (strcmp(d->one[i].name, name) == 0)
            return true;
    if (d->n == DAILY_TARGETS_MAX)
        return false;
    d->one = mem_grow(d->one, d->n + 1, sizeof *d->one);
    memset(&d->one[d->n], 0, sizeof *d->one);
    (void)snprintf(d->one[d->n++].name, sizeof d->one->name, "%s", name);
    return true;
}

static bool on_newest(void *ctx, const struct store_decision *r, const struct store_target *t)
{
    struct daily *d = ctx;
    (void)t;
    d->r.until_us = r->time_us;
    (void)snprintf(d->stage, sizeof d->stage, "%s", r->stage ? r->stage : "?");
    return false;
}

static bool on_note(void *ctx, const struct store_note *n)
{
    struct daily *d = ctx;
    char when[TZ_TEXT], line[TEXT];
    tz_format_naive(tz_to_local_us(d->r.zone, n->time_us) / 1000000 * 1000000, when);
    (void)snprintf(line, sizeof line, "%s  %s by %s%s%.400s", when, store_note_name(n->kind), n->author ? n->author : "?",
                   n->text && *n->text ? ": " : "", n->text ? n->text : "");
    d->note[d->n_notes++] = mem_strdup(line);
    return d->n_notes < NOTES_MAX;
}

static enum err_code set_span(struct daily *d, struct store *s, struct err *e)
{
    struct store_query newest = {.newest_first = true, .limit = 1, .until_us = d->o->until_us};
    enum err_code rc = store_decisions(s, &newest, on_newest, d, e);
    if (rc)
        return rc;
    if (!d->r.until_us)
        return err_set(e, ERR_MISSING, "store %s holds no decision of that time", store_path(s));
    d->r.until_us = d->o->until_us ? d->o->until_us : d->r.until_us + 1;
    d->r.since_us = d->o->since_us ? d->o->since_us : d->r.until_us - US_PER_DAY;
    return ERR_OK;
}

static enum err_code fill_all(struct daily *d, struct store *s, struct err *e)
{
    enum err_code rc = ERR_OK;
    for (size_t i = 0; i < d->n && !rc; i++) {
        char ns[254];
        struct one *x = &d->one[i];
        const char *slash = strchr(x->name, '/');
        (void)snprintf(ns, sizeof ns, "%.*s", (int)(slash - x->name), x->name);
        struct store_query q = {.namespace_ = ns, .name = slash + 1, .since_us = d->r.since_us,
                                .until_us = d->r.until_us, .role = 1 + STORE_ACTING};
        rc = fill(d, s, x, &q, e);
    }
    return rc;
}

enum err_code daily_new(struct store *s, const struct daily_opts *o, struct daily **out, struct err *e)
{
    struct daily *d = mem_zero(1, sizeof *d);
    struct names names = {.d = d, .wanted = o->target};
    d->o = o;
    d->r.zone = o->zone;
    enum err_code rc = set_span(d, s, e);
    if (!rc)
        rc = store_targets(s, on_target, &names, e);
    if (!rc && d->n == 0)
        rc = err_set(e, ERR_MISSING, "store %s has no target %s", store_path(s), o->target ? o->target : "at all");
    if (!rc)
        rc = fill_all(d, s, e);
    if (!rc)
        rc = store_notes(s, d->r.since_us, d->r.until_us, on_note, d, e);
    if (rc) {
        daily_free(d);
        return rc;
    }
    d->target = mem_zero(d->n, sizeof *d->target);
    for (size_t i = 0; i < d->n; i++)
        d->target[i] = d->one[i].t;
    d->r.cluster = d->cluster;
    d->r.stage = d->stage;
    d->r.target = d->target;
    d->r.n_targets = d->n;
    d->r.notes = (const char *const *)d->note;
    d->r.n_notes = d->n_notes;
    *out = d;
    return ERR_OK;
}

void daily_free(struct daily *d)
{
    if (!d)
        return;
    for (size_t i = 0; i < d->n; i++) {
        mem_free(d->one[i].stretch);
        mem_free(d->one[i].text);
    }
    for (size_t i = 0; i < d->n_notes; i++)
        mem_free(d->note[i]);
    mem_free(d->one);
    mem_free(d->target);
    mem_free(d);
}

const struct daily_report *daily_report_of(const struct daily *d)
{
    return &d->r;
}
