#include "train/evaluate.h"

#include <math.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "base/file.h"
#include "base/mem.h"
#include "base/signal.h"
#include "train/bound.h"
#include "train/oracle.h"

uint64_t train_seed(uint64_t seed)
{
    return (rng_key(seed, "training seeds") & 0xffffffffffff) | (1ull << 48); /* never a user's number */
}

/* ---- contenders ------------------------------------------------------------------------------- */

static bool has_suffix(const char *s, const char *suffix)
{
    size_t n = strlen(s), m = strlen(suffix);
    return n >= m && strcmp(s + n - m, suffix) == 0;
}

static const char *base_name(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

/* "gpu=0.7,down_window=55min" into the contender's options. */
static enum err_code parse_options(const char *text, struct contender *c, struct err *e)
{
    const struct policy *p = c->use.policy;
    for (const char *at = text; at;) {
        char word[128], *equals;
        const char *comma = strchr(at, ',');
        size_t n = comma ? (size_t)(comma - at) : strlen(at);
        if (n >= sizeof word)
            return err_set(e, ERR_LIMIT, "policy %s: \"%.40s...\" is too long", p->name, at);
        memcpy(word, at, n);
        word[n] = '\0';
        at = comma ? comma + 1 : NULL;
        if (!(equals = strchr(word, '=')))
            return err_set(e, ERR_PARSE, "policy %s: \"%s\": expected option=value or published", p->name, word);
        *equals = '\0';
        const struct opt_row *row = opt_find(p->options, word);
        if (!row) {
            struct buf known = buf_init(4096);
            for (size_t i = 0; i < p->options->n; i++)
                buf_fmt(&known, "%s%s", i ? ", " : "", p->options->rows[i].name);
            enum err_code rc = err_set(e, ERR_MISSING, "policy %s has no option \"%s\"; it has %.300s", p->name, word,
                                       known.n ? known.p : "none");
            buf_fini(&known);
            return rc;
        }
        if (opt_set_row(row, &c->use.opt, equals + 1, false, e))
            return err_wrap(e, "policy %s: %s", p->name, word);
    }
    return ERR_OK;
}

static enum err_code unknown_policy(const char *text, struct err *e)
{
    if (file_exists(text))
        return err_wrap(e, "%s is there, but the name of a policy file ends in .safetensors", text);
    if (e && strstr(e->msg, "did you mean"))
        return e->code;
    struct buf known = buf_init(4096);
    for (size_t i = 0; policy_at(i); i++)
        buf_fmt(&known, "%s, ", policy_at(i)->name);
    enum err_code rc = err_set(e, ERR_MISSING, "policy: \"%s\" is unknown; there are %soracle and policy files", text,
                               known.p);
    buf_fini(&known);
    return rc;
}

enum err_code contender_parse(const char *text, struct contender *c, struct err *e)
{
    char name[64];
    memset(c, 0, sizeof *c);
    (void)snprintf(c->name, sizeof c->name, "%s", base_name(text));
    if (has_suffix(text, ".safetensors")) {
        c->kind = CONTENDER_LEARNED;
        c->path = text;
        c->guarded = true;
        return ERR_OK;
    }
    if (strcmp(text, "oracle") == 0) {
        c->kind = CONTENDER_ORACLE;
        return ERR_OK;
    }
    const struct policy *p;
    const char *colon = strchr(text, ':'); /* what follows: "published", or options */
    size_t n = colon ? (size_t)(colon - text) : strlen(text);
    if (n >= sizeof name)
        return err_set(e, ERR_LIMIT, "policy name \"%.40s...\" is too long", text);
    (void)snprintf(name, sizeof name, "%.*s", (int)n, text);
    enum err_code rc = policy_parse(name, &p, &c->guarded, e);
    if (rc)
        return rc == ERR_MISSING ? unknown_policy(text, e) : rc;
    if (p->learned || strcmp(p->name, "outlook") == 0)
        return err_set(e, ERR_INVAL, "policy: %s is learned; train one and name its file, e.g. p.safetensors",
                       p->name);
    policy_use_default(&c->use, p);
    c->tuned = !colon && p->n_ranges > 0 && strcmp(p->name, "threshold") != 0;
    if (!colon || strcmp(colon, ":published") == 0)
        return ERR_OK;
    return parse_options(colon + 1, c, e);
}

static bool trained_on_test_days(const struct learned *l, const struct world *w)
{
    int64_t test_from = w->start_us + w->train_end * w->sim.spec.step_us;
    int64_t test_to = w->start_us + w->n * w->sim.spec.step_us;
    bool same = strcmp(l->scenario, w->scenario->name) == 0 || l->data_hash == w->data_hash;
    return same && l->train_from_us < test_to && l->train_to_us > test_from;
}

enum err_code contender_config(const struct contender *c, const struct world *w, struct learned *l,
                               struct capacity_config *cfg, struct err *e)
{
    memset(l, 0, sizeof *l);
    if (c->kind != CONTENDER_LEARNED)
        return world_config(w, &c->use, c->guarded, cfg, e);
    enum err_code rc = learned_load(c->path, l, e);
    if (rc)
        return rc;
    if (trained_on_test_days(l, w))
        return err_set(e, ERR_MISMATCH, "%s was trained on days that are tested here; train it on this scenario's "
                                        "first part or name another scenario", c->name);
    capacity_config_default(cfg, l->main.policy);
    cfg->spec = w->sim.spec;
    cfg->guard = w->scenario->guard;
    cfg->guarded = c->guarded;
    learned_apply(l, cfg);
    rc = capacity_config_finish(cfg, e);
    return rc ? err_wrap(e, "%s", c->path) : ERR_OK;
}

/* ---- progress --------------------------------------------------------------------------------- */

enum { BOUND_RUNS = 40 }; /* a bound and a plan of one seed take about as long as this many runs */

/* Where the whole evaluation stands, in runs. */
struct ticker {
    evaluate_progress_fn *fn;
    void *ctx;
    char what[96];
    _Atomic int64_t done;
    int64_t total;
};

static void tick_n(struct ticker *t, int64_t n)
{
    int64_t done = atomic_fetch_add(&t->done, n) + n;
    if (t->fn)
        t->fn(t->ctx, t->what, done < t->total ? done : t->total, t->total);
}

static void tick(void *arg)
{
    tick_n(arg, 1);
}

/* A new stage that begins with `done` runs behind it, whatever was counted. */
static void ticker_stage(struct ticker *t, const char *what, int64_t done)
{
    (void)snprintf(t->what, sizeof t->what, "%s", what);
    atomic_store(&t->done, done);
    tick_n(t, 0);
}

/* ---- running ---------------------------------------------------------------------------------- */

/* One (policy, setting, seed) to run over the test stretch. */
struct task {
    const struct contender *c;
    const union policy_options *opt; /* NULL: the contender's own */
    int seed;
    struct run_result *out;
    enum err_code rc;
    struct err err;
};

struct batch {
    const struct world *w;
    struct chance **chance;
    const int16_t *recorded;
    struct task *task;
    int n, cap;
    struct ticker *ticker;
};

static void add_task(struct batch *b, const struct contender *c, const union policy_options *opt, int seed,
                     struct run_result *out)
{
    if (b->n == b->cap) {
        b->cap = b->cap ? 2 * b->cap : 64;
        b->task = mem_grow(b->task, (size_t)b->cap, sizeof *b->task);
    }
    b->task[b->n++] = (struct task){.c = c, .opt = opt, .seed = seed, .out = out};
}

static void run_task(size_t shard, int worker, void *arg)
{
    struct batch *b = arg;
    struct task *t = &b->task[shard];
    struct learned l;
    (void)worker;
    t->rc = signal_check(&t->err);
    if (t->rc)
        return;
    struct capacity_config *cfg = mem_zero(1, sizeof *cfg);
    struct contender c = *t->c;
    bool recorded = c.kind == CONTENDER_RECORDED;
    if (t->opt)
        c.use.opt = *t->opt;
    memset(&l, 0, sizeof l);
    t->rc = recorded ? ERR_OK : contender_config(&c, b->w, &l, cfg, &t->err);
    struct run_opts o = run_opts_default(b->w);
    o.weights = reward_weights_of((enum reward_preset)b->w->scenario->preset);
    if (recorded)
        o.schedule = b->recorded + b->w->train_end;
    if (!t->rc)
        t->rc = run_policy(b->w, b->chance[t->seed], recorded ? NULL : cfg, &o, t->out, &t->err);
    learned_fini(&l);
    mem_free(cfg);
    tick(b->ticker);
}

static enum err_code run_batch(struct batch *b, struct thread_pool *pool, struct err *e)
{
    enum err_code rc = ERR_OK;
    parallel_for(pool, (size_t)b->n, run_task, b);
    for (int i = 0; i < b->n && !rc; i++)
        if ((rc = b->task[i].rc) != ERR_OK) {
            *e = b->task[i].err;
            err_wrap(e, "policy %s", b->task[i].c->name);
        }
    mem_free(b->task);
    b->task = NULL;
    b->n = b->cap = 0;
    return rc;
}

/* ---- tuning ----------------------------------------------------------------------------------- */

static struct tune_opts tune_opts_of(const struct world *w, const struct evaluate_opts *o, const struct contender *c)
{
    struct tune_opts t = tune_opts_default(w, c->use.policy);
    t.evals = o->tune_evals;
    t.guarded = c->guarded;
    return t;
}

static enum err_code tune_contender(const struct world *w, const struct evaluate_opts *o, struct chance *train,
                                    struct thread_pool *pool, struct ticker *ticker, struct contender *c,
                                    struct err *e)
{
    struct tune_opts t = tune_opts_of(w, o, c);
    t.tick = tick;
    t.tick_arg = ticker;
    c->front = mem_zero(1, sizeof *c->front);
    enum err_code rc = tune_front(w, &train, 1, &t, pool, c->front, e);
    const struct tune_point *p = rc ? NULL : tune_pick(c->front, w->scenario->service.tune_violation_max);
    if (p)
        c->use.opt = p->opt;
    return rc;
}

static enum err_code tune_all(const struct world *w, const struct evaluate_opts *o, struct thread_pool *pool,
                              struct evaluate_result *r, struct ticker *ticker, struct err *e)
{
    struct chance *train;
    char what[96];
    int64_t done = 0;
    enum err_code rc = chance_new(w, train_seed(o->seed), &train, e);
    if (rc)
        return rc;
    for (int i = 0; i < r->n && !rc; i++) {
        struct contender *c = &r->contender[i];
        if (!c->tuned)
            continue;
        (void)snprintf(what, sizeof what, "tuning %s", c->name);
        ticker_stage(ticker, what, done);
        rc = tune_contender(w, o, train, pool, ticker, c, e);
        struct tune_opts t = tune_opts_of(w, o, c);
        done += tune_runs(&t);
    }
    chance_free(train);
    return rc;
}

/* ---- bounds ----------------------------------------------------------------------------------- */

struct bound_task {
    const struct world *w;
    struct ticker *ticker;
    struct evaluate_result *r;
    double *cost; /* [n_seeds][n_bound_points] */
    enum err_code *rc;
    struct err *err;
};

/* Bound and plan know nothing of units_min; no policy may have less. */
static void keep_minimum(const struct world *w, int16_t *plan, double *cost, size_t n_costs)
{
    const struct capacity_spec *spec = &w->sim.spec;
    double floor_usd = 0;
    for (int32_t i = w->train_end; i < w->n; i++) {
        int16_t *units = &plan[i - w->train_end];
        *units = (int16_t)(*units < spec->units_min ? spec->units_min : *units);
        floor_usd += w->barred[i] ? 0 : spec->units_min * (double)w->sim.step_cost_usd;
    }
    for (size_t i = 0; i < n_costs; i++)
        cost[i] = fmax(cost[i], floor_usd * (1 - 1e-6)); /* runs add up in single precision */
}

static void bound_seed(size_t shard, int worker, void *arg)
{
    struct bound_task *b = arg;
    struct evaluate_result *r = b->r;
    const struct world *w = b->w;
    (void)worker;
    uint64_t seed = r->chance[shard]->seed;
    struct err *e = &b->err[shard];
    enum err_code rc = signal_check(e);
    if (!rc)
        rc = bound_cost(&w->sim, &w->trace, seed, w->train_end, w->n, BOUND_UNITS_ANY, r->bound_limits,
                        (int)r->n_bound_points, b->cost + shard * r->n_bound_points, e);
    r->oracle_plan[shard] = mem_zero((size_t)(w->n - w->train_end), sizeof(int16_t));
    struct oracle_result how;
    if (!rc)
        rc = oracle_plan(&w->sim, &w->trace, seed, w->train_end, w->n, run_start_units(w, w->train_end),
                         w->scenario->service.slo_violation_max, r->oracle_plan[shard], &how, e);
    keep_minimum(w, r->oracle_plan[shard], b->cost + shard * r->n_bound_points, r->n_bound_points);
    struct run_opts o = run_opts_default(w);
    o.schedule = r->oracle_plan[shard];
    o.weights = reward_weights_of((enum reward_preset)w->scenario->preset);
    if (!rc)
        rc = run_policy(w, r->chance[shard], NULL, &o, &r->oracle[shard], e);
    b->rc[shard] = rc;
    tick_n(b->ticker, BOUND_RUNS);
}

static enum err_code find_bounds(const struct world *w, struct thread_pool *pool, struct evaluate_result *r,
                                 struct ticker *ticker, struct err *e)
{
    static const double share[] = {0.25, 0.5, 0.7, 1, 2, 4, 8};
    size_t n = (size_t)r->n_seeds;
    enum err_code rc = ERR_OK;
    r->n_bound_points = ARRAY_LEN(share);
    for (size_t i = 0; i < r->n_bound_points; i++)
        r->bound_limits[i] = fmin(1, share[i] * w->scenario->service.slo_violation_max);
    r->oracle = mem_zero(n, sizeof *r->oracle);
    r->oracle_plan = mem_zero(n, sizeof *r->oracle_plan);
    struct bound_task b = {.w = w, .ticker = ticker, .r = r, .cost = mem_zero(n * r->n_bound_points, sizeof(double)),
                           .rc = mem_zero(n, sizeof(enum err_code)), .err = mem_zero(n, sizeof(struct err))};
    parallel_for(pool, n, bound_seed, &b);
    for (size_t s = 0; s < n; s++) {
        if (b.rc[s] && !rc) {
            rc = b.rc[s];
            *e = b.err[s];
            err_wrap(e, "bounds");
        }
        for (size_t i = 0; i < r->n_bound_points; i++)
            r->bound_cost[i] += b.cost[s * r->n_bound_points + i] / (double)n;
    }
    r->bounds[r->n_bounds++] = (struct eval_bound){.name = "cost_usd", .value = r->bound_cost[3]};
    mem_free(b.err);
    mem_free(b.rc);
    mem_free(b.cost);
    return rc;
}

/* ---- all together ----------------------------------------------------------------------------- */

/* The end of the path instead of the file's name alone. */
static void name_by_path(struct contender *c, const char *text)
{
    size_t n = strlen(text), room = sizeof c->name - 1;
    (void)snprintf(c->name, sizeof c->name, "%s", n > room ? text + n - room : text);
}

/* Rows of a table are told apart by their names: two files may have the same one. */
static enum err_code tell_apart(const struct evaluate_opts *o, struct evaluate_result *r, size_t i, struct err *e)
{
    struct contender *named = r->contender + (r->recorded ? 1 : 0);
    for (size_t k = 0; k < i; k++) {
        struct contender *a = &named[k], *b = &named[i];
        bool twice = strcmp(o->policies[k], o->policies[i]) == 0;
        if (!twice && strcmp(a->name, b->name) == 0) {
            name_by_path(a, o->policies[k]);
            name_by_path(b, o->policies[i]);
        }
        if (twice || strcmp(a->name, b->name) == 0)
            return err_set(e, ERR_USAGE, "policy %.200s: named twice", o->policies[i]);
    }
    return ERR_OK;
}

static enum err_code take_contenders(const struct evaluate_opts *o, struct evaluate_result *r, struct err *e)
{
    if (o->n_policies < 1 || o->n_policies > EVALUATE_POLICIES_MAX - 2)
        return err_set(e, ERR_USAGE, "%zu policies; name 1 to %d", o->n_policies, EVALUATE_POLICIES_MAX - 2);
    r->hpa = -1;
    r->recorded = o->recorded;
    if (o->recorded)
        r->contender[r->n++] = (struct contender){.kind = CONTENDER_RECORDED, .name = "recorded"};
    for (size_t i = 0; i < o->n_policies; i++) {
        struct contender *c = &r->contender[r->n++];
        enum err_code rc = contender_parse(o->policies[i], c, e);
        if (rc)
            return rc;
        if (c->kind == CONTENDER_ORACLE && !o->bounds)
            return err_set(e, ERR_USAGE, "policy oracle needs the bounds");
        if ((rc = tell_apart(o, r, i, e)))
            return rc;
        c->tuned = c->tuned && o->tune_evals > 0;
        if (c->tuned && strcmp(c->name, "hpa") == 0)
            r->hpa = r->n - 1;
    }
    r->n_shown = r->n;
    if (r->hpa >= 0 || o->tune_evals <= 0)
        return ERR_OK;
    r->hpa = r->n++; /* its front is what every row is measured against */
    return contender_parse("hpa", &r->contender[r->hpa], e);
}

/* A file that does not load must not be found out after minutes of tuning. */
static enum err_code check_learned(const struct world *w, struct evaluate_result *r, struct err *e)
{
    enum err_code rc = ERR_OK;
    struct capacity_config *cfg = mem_zero(1, sizeof *cfg);
    for (int i = 0; i < r->n && !rc; i++) {
        struct learned l;
        if (r->contender[i].kind != CONTENDER_LEARNED)
            continue;
        rc = contender_config(&r->contender[i], w, &l, cfg, e);
        r->contender[i].interrupted = !rc && l.interrupted;
        learned_fini(&l);
    }
    mem_free(cfg);
    return rc;
}

static void plan_runs(const struct evaluate_opts *o, struct evaluate_result *r, struct batch *b)
{
    for (int i = 0; i < r->n; i++) {
        struct contender *c = &r->contender[i];
        c->runs = mem_zero((size_t)r->n_seeds, sizeof *c->runs);
        for (int s = 0; s < r->n_seeds && c->kind != CONTENDER_ORACLE; s++)
            add_task(b, c, NULL, s, &c->runs[s]);
        if (!c->front || (i != r->hpa && !o->all_fronts))
            continue;
        c->front_runs = mem_zero((size_t)(c->front->n * r->n_seeds), sizeof *c->front_runs);
        for (int k = 0; k < c->front->n; k++)
            for (int s = 0; s < r->n_seeds; s++)
                add_task(b, c, &c->front->point[k].opt, s, &c->front_runs[k * r->n_seeds + s]);
    }
}

/* Pointers to results, as metrics.h wants them. */
struct seed_runs {
    const struct run_result *of[EVALUATE_SEEDS_MAX];
};

static struct metric_runs runs_of(struct seed_runs *hold, const struct run_result *runs, int n)
{
    for (int s = 0; s < n; s++)
        hold->of[s] = &runs[s];
    return (struct metric_runs){.seed = hold->of, .n_seeds = n};
}

static enum err_code compute_metrics(const struct evaluate_opts *o, struct evaluate_result *r, struct err *e)
{
    enum err_code rc = ERR_OK;
    struct seed_runs *hold = mem_zero(TUNE_POINTS_MAX + 2, sizeof *hold);
    struct metric_runs setting[TUNE_POINTS_MAX], oracle;
    struct metric_front front = {.setting = setting};
    const struct contender *hpa = r->hpa >= 0 ? &r->contender[r->hpa] : NULL;
    if (hpa)
        for (front.n = 0; front.n < hpa->front->n; front.n++)
            setting[front.n] = runs_of(&hold[front.n], hpa->front_runs + front.n * r->n_seeds, r->n_seeds);
    if (r->oracle)
        oracle = runs_of(&hold[TUNE_POINTS_MAX], r->oracle, r->n_seeds);
    for (int i = 0; i < r->n_shown && !rc; i++) {
        struct contender *c = &r->contender[i];
        const struct run_result *runs = c->kind == CONTENDER_ORACLE ? r->oracle : c->runs;
        struct metric_input in = {
            .runs = runs_of(&hold[TUNE_POINTS_MAX + 1], runs, r->n_seeds),
            .front = hpa ? &front : NULL,
            .oracle = r->oracle ? &oracle : NULL,
            .seed = o->seed,
        };
        rc = metrics_compute(&in, c->metrics, &c->n_metrics, e);
    }
    mem_free(hold);
    return rc;
}

static void describe(const struct world *w, struct evaluate_result *r)
{
    for (int i = 0; i < r->n_shown; i++) {
        const struct contender *c = &r->contender[i];
        bool knows = c->kind == CONTENDER_ORACLE ||
                     (c->kind == CONTENDER_RULE && strcmp(c->use.policy->name, "foresight") == 0);
        r->policies[i] = (struct eval_policy){.name = c->name, .role = knows ? EVAL_REFERENCE : EVAL_CONTENDER,
                                              .metrics = c->metrics, .n_metrics = c->n_metrics};
    }
    const struct scenario_service *s = &w->scenario->service;
    int days = r->contender[0].kind == CONTENDER_ORACLE ? r->oracle[0].n_days : r->contender[0].runs[0].n_days;
    r->ev = (struct evaluation){
        .scenario = w->scenario->name, .n_seeds = r->n_seeds, .n_days = days, .policies = r->policies,
        .n_policies = (size_t)r->n_shown, .bounds = r->bounds, .n_bounds = r->n_bounds,
        .slo_p99_ms = w->sim.spec.slo_p99_ms, .slo_violation_max = s->slo_violation_max,
    };
    for (int i = 0; i < r->n_shown && !r->ev.proposal; i++)
        if (r->contender[i].kind == CONTENDER_LEARNED)
            r->ev.proposal = r->contender[i].name;
}

/* Runs to do: as planned before tuning, when the sizes of fronts are not known yet. */
static int64_t count_tuning(const struct world *w, const struct evaluate_opts *o, const struct evaluate_result *r)
{
    int64_t n = 0;
    for (int i = 0; i < r->n; i++) {
        if (!r->contender[i].tuned)
            continue;
        struct tune_opts t = tune_opts_of(w, o, &r->contender[i]);
        n += tune_runs(&t);
    }
    return n;
}

static int64_t guess_tests(const struct evaluate_opts *o, const struct evaluate_result *r)
{
    int64_t settings = 0;
    for (int i = 0; i < r->n; i++)
        settings += 1 + (r->contender[i].tuned && (i == r->hpa || o->all_fronts) ? TUNE_POINTS_MAX : 0);
    return settings * o->n_seeds;
}

enum err_code evaluate_run(const struct world *w, const struct evaluate_opts *o, struct thread_pool *pool,
                           evaluate_progress_fn *progress, void *ctx, struct evaluate_result **out, struct err *e)
{
    struct evaluate_result *r = *out = mem_zero(1, sizeof *r);
    if (o->n_seeds < 1 || o->n_seeds > EVALUATE_SEEDS_MAX)
        return err_set(e, ERR_RANGE, "%d seeds; 1 to %d", o->n_seeds, EVALUATE_SEEDS_MAX);
    r->n_seeds = o->n_seeds;
    enum err_code rc = world_check_usable(w, w->train_end, w->n, "test", e);
    if (!rc)
        rc = take_contenders(o, r, e);
    if (rc)
        return rc;
    if ((rc = check_learned(w, r, e)))
        return rc;
    int64_t tuning = o->tune_evals > 0 ? count_tuning(w, o, r) : 0;
    int64_t bounding = o->bounds ? (int64_t)o->n_seeds * BOUND_RUNS : 0;
    struct ticker t = {.fn = progress, .ctx = ctx, .total = tuning + guess_tests(o, r) + bounding};
    ticker_stage(&t, "forecasts", 0);
    r->chance = mem_zero((size_t)o->n_seeds, sizeof *r->chance);
    rc = chance_new_many(w, (uint64_t)w->scenario->chance.seed, o->n_seeds, pool, r->chance, e);
    if (!rc && o->tune_evals > 0)
        rc = tune_all(w, o, pool, r, &t, e);
    struct batch b = {.w = w, .chance = r->chance, .recorded = r->recorded, .ticker = &t};
    if (!rc) {
        plan_runs(o, r, &b);
        t.total = tuning + b.n + bounding;
        ticker_stage(&t, "test days", tuning);
        rc = run_batch(&b, pool, e);
    }
    if (!rc && o->bounds) {
        ticker_stage(&t, "bounds", t.total - bounding);
        rc = find_bounds(w, pool, r, &t, e);
    }
    if (!rc)
        rc = compute_metrics(o, r, e);
    if (!rc)
        describe(w, r);
    return rc;
}

void evaluate_remarks(const struct world *w, const struct evaluate_result *r, struct buf *lines)
{
    if (w->scenario->report_only)
        buf_fmt(lines, "%s is report-only: too short to judge a policy on.\n", w->scenario->name);
    for (int i = 0; i < r->n_shown; i++)
        if (r->contender[i].interrupted)
            buf_fmt(lines, "%s was interrupted while it learned: these are the figures of an unfinished policy.\n",
                    r->contender[i].name);
}

void evaluate_free(struct evaluate_result *r)
{
    if (!r)
        return;
    for (int i = 0; i < r->n; i++) {
        mem_free(r->contender[i].front);
        mem_free(r->contender[i].runs);
        mem_free(r->contender[i].front_runs);
    }
    for (int s = 0; s < r->n_seeds; s++) {
        if (r->chance)
            chance_free(r->chance[s]);
        if (r->oracle_plan)
            mem_free(r->oracle_plan[s]);
    }
    mem_free(r->chance);
    mem_free(r->oracle_plan);
    mem_free(r->oracle);
    mem_free(r);
}
