#include "train/tune.h"

#include <math.h>
#include <nlopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/signal.h"

/* Price of all steps violated, as a multiple of the cost of serving: from "hardly matters" to "never". */
static const double prices[TUNE_PRICES] = {0.5, 2, 6, 16, 40, 100, 300, 1000};

/* With a target: price of all steps violated beyond it. */
static const double target_prices[] = {60, 200};

enum { POOL_MAX = TUNE_PRICES * 512 };

struct search {
    const struct world *w;
    struct chance *const *chance;
    int n_chances;
    const struct tune_opts *o;
    double price;
    double cost_ref_usd_h;
    struct outlook outlook; /* this thread's copy */
    struct tune_point *pool; /* this price's settings */
    int n, cap;
    enum err_code rc;
    struct err err;
};

struct tune_opts tune_opts_default(const struct world *w, const struct policy *policy)
{
    const int32_t most = 14 * world_steps_per_day(w); /* two weeks tell a rule apart; more only takes longer */
    struct tune_opts o = {
        .from = w->train_end > most + world_steps_per_day(w) ? w->train_end - most : 0,
        .to = w->train_end,
        .evals = 60,
        .guarded = policy->guarded,
        .n_seeds = 1,
        .reversals_max = INFINITY,
    };
    policy_use_default(&o.start, policy);
    return o;
}

enum err_code world_config(const struct world *w, const struct policy_use *use, bool guarded,
                           struct capacity_config *cfg, struct err *e)
{
    capacity_config_default(cfg, use->policy);
    cfg->main = *use;
    cfg->spec = w->sim.spec;
    cfg->guard = w->scenario->guard;
    cfg->guarded = guarded;
    return capacity_config_finish(cfg, e);
}

/* A setting that a person can read and type: four digits, whole seconds. */
static double readable(const struct policy *p, const char *option, double v)
{
    const struct opt_row *row = opt_find(p->options, option);
    if (row && row->type == OPT_TYPE_DURATION)
        return v >= 1e6 ? round(v * 1e-6) * 1e6 : v;
    if (!row || row->type != OPT_TYPE_DOUBLE)
        return v;
    char text[32];
    (void)snprintf(text, sizeof text, "%.4g", v);
    return strtod(text, NULL);
}

static enum err_code set_options(const struct policy *p, const double *x, union policy_options *opt,
                                 struct err *e)
{
    for (size_t i = 0; i < p->n_ranges; i++) {
        const struct policy_range *r = &p->ranges[i];
        double v = r->log ? exp(log(r->lo) + x[i] * (log(r->hi) - log(r->lo))) : r->lo + x[i] * (r->hi - r->lo);
        v = fmin(fmax(readable(p, r->option, v), r->lo), r->hi);
        enum err_code rc = policy_option_set(p, opt, r->option, v, e);
        if (rc)
            return rc;
    }
    return ERR_OK;
}

enum err_code tune_measure(const struct world *w, struct chance *const *chance, int n_chances, const struct tune_opts *o,
                           const struct policy_use *use, struct outlook *outlook, struct tune_point *out,
                           struct err *e)
{
    struct capacity_config *cfg = mem_zero(1, sizeof *cfg);
    struct run_result *r = mem_zero(1, sizeof *r);
    struct run_day t = {0};
    int64_t days = 0;
    enum err_code rc = world_config(w, use, o->guarded, cfg, e);
    cfg->outlook = outlook;
    struct run_opts ro = run_opts_default(w);
    ro.from = o->from;
    ro.to = o->to;
    for (int i = 0; !rc && i < n_chances && i < o->n_seeds; i++) {
        rc = run_policy(w, chance[i], cfg, &ro, r, e);
        run_day_add(&t, &r->total);
        days += r->n_days;
    }
    if (!rc)
        *out = (struct tune_point){
            .opt = use->opt,
            .misses = run_miss_frac(&t),
            .cost_usd_h = t.steps ? t.cost_usd / ((double)t.steps * (double)w->sim.dt_h) : 0,
            .reversals_per_day = days ? (double)t.reversals / (double)days : 0,
        };
    mem_free(r);
    mem_free(cfg);
    return rc;
}

static enum err_code measure(struct search *s, const struct policy_use *use, struct tune_point *out)
{
    return tune_measure(s->w, s->chance, s->n_chances, s->o, use, s->outlook.net ? &s->outlook : NULL, out, &s->err);
}

static double objective(unsigned n, const double *x, double *grad, void *arg)
{
    struct search *s = arg;
    struct tune_point p;
    struct policy_use use = s->o->start;
    (void)n;
    (void)grad;
    if (s->rc)
        return 0;
    s->rc = signal_check(&s->err);
    if (!s->rc)
        s->rc = set_options(use.policy, x, &use.opt, &s->err);
    if (!s->rc)
        s->rc = measure(s, &use, &p);
    if (s->rc)
        return 0;
    if (s->o->tick)
        s->o->tick(s->o->tick_arg);
    if (s->n < s->cap)
        s->pool[s->n++] = p;
    double over = fmax(0, p.reversals_per_day - s->o->reversals_max); /* 0 without a limit */
    return p.cost_usd_h / s->cost_ref_usd_h + s->price * fmax(0, p.misses - s->o->target) + 0.05 * over;
}

static void minimise(struct search *s, nlopt_algorithm algorithm, int evals, double *x)
{
    unsigned dims = (unsigned)s->o->start.policy->n_ranges;
    nlopt_opt opt = nlopt_create(algorithm, dims);
    double best;
    if (!opt) {
        s->rc = err_set(&s->err, ERR_NOMEM, "optimiser of %u options", dims);
        return;
    }
    (void)nlopt_set_lower_bounds1(opt, 0);
    (void)nlopt_set_upper_bounds1(opt, 1);
    (void)nlopt_set_min_objective(opt, objective, s);
    (void)nlopt_set_maxeval(opt, evals);
    (void)nlopt_set_initial_step1(opt, 0.15);
    (void)nlopt_optimize(opt, x, &best); /* reaching maxeval is the normal end; our errors are in s->rc */
    nlopt_destroy(opt);
}

static void search_price(size_t shard, int worker, void *arg)
{
    struct search *s = (struct search *)arg + shard;
    double x[TUNE_RANGES_MAX];
    (void)worker;
    for (int i = 0; i < TUNE_RANGES_MAX; i++)
        x[i] = 0.5;
    int look = s->o->evals * 2 / 3;
    if (s->o->outlook)
        s->rc = outlook_copy(s->o->outlook, &s->outlook, &s->err);
    if (!s->rc)
        minimise(s, NLOPT_GN_DIRECT_L, look, x);
    if (!s->rc)
        minimise(s, NLOPT_LN_SBPLX, s->o->evals - look, x);
    outlook_fini(&s->outlook);
}

static int by_misses(const void *a, const void *b)
{
    const struct tune_point *x = a, *y = b;
    if (x->misses != y->misses)
        return x->misses < y->misses ? -1 : 1;
    return (x->cost_usd_h > y->cost_usd_h) - (x->cost_usd_h < y->cost_usd_h);
}

/* The settings within the limit on reversals; all of them when none is. */
static int keep_calm(struct tune_point *pool, int n, double reversals_max)
{
    int kept = 0;
    for (int i = 0; i < n; i++)
        if (pool[i].reversals_per_day <= reversals_max) {
            struct tune_point p = pool[i];
            pool[i] = pool[kept];
            pool[kept++] = p;
        }
    return kept ? kept : n;
}

/* Pareto points of pool[n], thinned to TUNE_POINTS_MAX evenly along the front. */
static void keep_front(struct tune_point *pool, int n, struct tune_front *out)
{
    int kept = 0;
    qsort(pool, (size_t)n, sizeof *pool, by_misses);
    for (int i = 0; i < n; i++)
        if (kept == 0 || pool[i].cost_usd_h < pool[kept - 1].cost_usd_h)
            pool[kept++] = pool[i];
    out->n = kept < TUNE_POINTS_MAX ? kept : TUNE_POINTS_MAX;
    for (int i = 0; i < out->n; i++)
        out->point[i] = pool[out->n < 2 ? 0 : (int)((long)i * (kept - 1) / (out->n - 1))];
}

static enum err_code check_opts(const struct world *w, const struct tune_opts *o, int n_chances, struct err *e)
{
    if (o->from < 0 || o->to > w->train_end || o->from >= o->to)
        return err_set(e, ERR_INVAL, "tuning on steps %d to %d: the training part ends at %d", o->from, o->to,
                       w->train_end);
    if (n_chances < 1 || o->start.policy->n_ranges > TUNE_RANGES_MAX)
        return err_set(e, ERR_INVAL, "%s cannot be tuned: %zu options, %d seeds", o->start.policy->name,
                       o->start.policy->n_ranges, n_chances);
    return ERR_OK;
}

static int count_prices(const struct tune_opts *o)
{
    return o->target > 0 ? (int)ARRAY_LEN(target_prices) : TUNE_PRICES;
}

int64_t tune_runs(const struct tune_opts *o)
{
    return o->start.policy->n_ranges ? (int64_t)o->evals * count_prices(o) : 1;
}

enum err_code tune_front(const struct world *w, struct chance *const *chance, int n_chances,
                         const struct tune_opts *o, struct thread_pool *pool, struct tune_front *out,
                         struct err *e)
{
    memset(out, 0, sizeof *out);
    out->policy = o->start.policy;
    out->guarded = o->guarded;
    enum err_code rc = check_opts(w, o, n_chances, e);
    if (!rc)
        rc = world_check_usable(w, o->from, o->to, "training", e);
    if (rc)
        return rc;
    struct tune_point *points = mem_zero(POOL_MAX, sizeof *points);
    struct search *s = mem_zero(TUNE_PRICES, sizeof *s);
    int evals = o->start.policy->n_ranges ? o->evals : 1, n = 0;
    int n_prices = count_prices(o);
    for (int i = 0; i < n_prices; i++)
        s[i] = (struct search){.w = w, .chance = chance, .n_chances = n_chances, .o = o,
                               .price = o->target > 0 ? target_prices[i] : prices[i],
                               .cost_ref_usd_h = w->price_ref_usd_h, .pool = points + i * (POOL_MAX / TUNE_PRICES),
                               .cap = POOL_MAX / TUNE_PRICES};
    if (evals == 1)
        s[0].rc = measure(&s[0], &o->start, &s[0].pool[s[0].n++]);
    else
        parallel_for(pool, (size_t)n_prices, search_price, s);
    for (int i = 0; i < n_prices; i++) {
        if (s[i].rc && !rc) {
            *e = s[i].err;
            rc = err_wrap(e, "tuning %s", o->start.policy->name);
        }
        memmove(points + n, s[i].pool, (size_t)s[i].n * sizeof *points);
        n += s[i].n;
    }
    out->runs = n;
    if (!rc)
        keep_front(points, keep_calm(points, n, o->reversals_max), out);
    mem_free(s);
    mem_free(points);
    return rc;
}

const struct tune_point *tune_pick(const struct tune_front *f, double misses)
{
    const struct tune_point *best = NULL;
    for (int i = 0; i < f->n; i++) /* ascending misses, so the last that fits is the cheapest */
        if (f->point[i].misses <= misses)
            best = &f->point[i];
    return best ? best : f->n ? &f->point[0] : NULL;
}
