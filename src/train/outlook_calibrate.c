#include "train/outlook_calibrate.h"

#include <math.h>

#include "base/mem.h"
#include "base/signal.h"

static const double aheads[] = {0.03, 0.3, 1};
static const double holds_s[] = {600, 1200};
static const double hystereses[] = {1.4, 2, 4, 10};
static const double lambda_lo = 2, lambda_hi = 50000;

enum {
    N_AHEADS = sizeof aheads / sizeof aheads[0],
    N_HOLDS = sizeof holds_s / sizeof holds_s[0],
    N_HYSTERESES = sizeof hystereses / sizeof hystereses[0],
    COMBINATIONS = N_AHEADS * N_HOLDS * N_HYSTERESES,
    BISECTIONS = 7, /* lambda to a factor of 1.08 */
};

struct combination {
    const struct world *w;
    struct chance *const *chance;
    int n_chances;
    const struct tune_opts *o;
    struct policy_use use;
    struct tune_point best; /* cheapest seen within the misses, else the fewest misses */
    bool fits;
    enum err_code rc;
    struct err err;
};

static void keep(struct combination *c, const struct tune_point *p, bool first)
{
    bool fits = p->misses <= c->o->target;
    if (first || (fits && !c->fits) || (fits == c->fits && fits && p->cost_usd_h < c->best.cost_usd_h) ||
        (!fits && !c->fits && p->misses < c->best.misses))
        c->best = *p;
    c->fits = c->fits || fits;
}

static void run_combination(size_t shard, int worker, void *arg)
{
    struct combination *c = (struct combination *)arg + shard;
    struct outlook outlook;
    double lo = log(lambda_lo), hi = log(lambda_hi);
    (void)worker;
    c->rc = outlook_copy(c->o->outlook, &outlook, &c->err);
    for (int i = 0; i < BISECTIONS && !c->rc; i++) {
        struct tune_point p;
        double middle = (lo + hi) / 2;
        c->use.opt.outlook.lambda = exp(middle);
        c->rc = signal_check(&c->err);
        if (!c->rc)
            c->rc = tune_measure(c->w, c->chance, c->n_chances, c->o, &c->use, &outlook, &p, &c->err);
        if (c->rc)
            break;
        if (c->o->tick)
            c->o->tick(c->o->tick_arg);
        keep(c, &p, i == 0);
        if (p.misses <= c->o->target)
            hi = middle;
        else
            lo = middle;
    }
    outlook_fini(&outlook);
}

/* Within the misses first, then within the reversals, then the cost. */
static bool better(const struct combination *a, const struct combination *b, double reversals_max)
{
    bool a_calm = a->best.reversals_per_day <= reversals_max, b_calm = b->best.reversals_per_day <= reversals_max;
    if (a->fits != b->fits)
        return a->fits;
    if (a_calm != b_calm)
        return a_calm;
    return a->best.cost_usd_h < b->best.cost_usd_h;
}

int64_t outlook_calibrate_runs(void)
{
    return (int64_t)COMBINATIONS * BISECTIONS;
}

enum err_code outlook_calibrate(const struct world *w, struct chance *const *chance, int n_chances,
                                const struct tune_opts *o, struct thread_pool *pool, struct tune_point *out,
                                struct err *e)
{
    struct combination *c = mem_zero(COMBINATIONS, sizeof *c);
    enum err_code rc = ERR_OK;
    for (int i = 0; i < COMBINATIONS; i++) {
        c[i] = (struct combination){.w = w, .chance = chance, .n_chances = n_chances, .o = o, .use = o->start};
        c[i].use.opt.outlook.budget_gain = 0; /* the error budget would hide a wrong price, */
        c[i].use.opt.outlook.calm = 0;        /* and steering by reversals a nervous plan */
        c[i].use.opt.outlook.ahead = aheads[i % N_AHEADS];
        c[i].use.opt.outlook.hold_us = (int64_t)(holds_s[i / N_AHEADS % N_HOLDS] * 1e6);
        c[i].use.opt.outlook.hysteresis = hystereses[i / N_AHEADS / N_HOLDS];
    }
    parallel_for(pool, COMBINATIONS, run_combination, c);
    int best = 0;
    for (int i = 0; i < COMBINATIONS && !rc; i++) {
        if ((rc = c[i].rc) != ERR_OK)
            *e = c[i].err;
        else if (better(&c[i], &c[best], o->reversals_max))
            best = i;
    }
    if (!rc)
        *out = c[best].best;
    mem_free(c);
    return rc;
}
