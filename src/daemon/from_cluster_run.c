/* from_cluster_run.c - the hours to come, from the present state. */
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/mem.h"
#include "daemon/from_cluster.h"

#define LEAD_US (3600 * US_PER_S)
#define REVERSAL_US (600 * US_PER_S)

/* One run; large, so on the heap. */
struct live_run {
    struct capsim lane;
    struct capacity_view view, before;
    struct capacity_state state;
    struct guard_state fresh;
    struct rng rng;
    int direction;
    int64_t action_us;
};

/* Units asked for at `step`, at or before now: the ready ones, and warming ones from their age on.
 */
static int asked_at(const struct from_cluster *f, int32_t step)
{
    int64_t ago_us = (f->now_step - step) * f->world->sim.spec.step_us;
    int units = f->units_ready;
    for (int b = 0; b < CAPACITY_WARM_BINS; b++)
        if (ago_us <= b * CAPACITY_WARM_BIN_US + CAPACITY_WARM_BIN_US / 2)
            units += f->warm[b];
    if (step >= f->now_step)
        units = f->units_asked;
    return units < f->world->sim.spec.units_max ? units : f->world->sim.spec.units_max;
}

static void count_action(struct live_run *r, struct run_day *d, int change, int64_t now_us)
{
    if (!change)
        return;
    int direction = change > 0 ? 1 : -1;
    d->actions++;
    d->units_changed += abs(change);
    d->reversals += direction == -r->direction && now_us - r->action_us <= REVERSAL_US;
    r->direction = direction;
    r->action_us = now_us;
}

static void count(const struct world *w, struct run_day *d, const struct capsim_out *out)
{
    if (out->barred)
        return;
    d->steps++;
    d->misses += out->miss;
    d->cost_usd += (double)out->cost_usd;
    d->unit_h += out->units_billed * (double)w->sim.dt_h;
    d->arrivals += (double)out->arrivals;
    d->miss_requests += (double)out->miss_requests_frac * (double)out->arrivals;
    d->p99_sum_ms += (double)out->p99_ms;
}

static void decide(struct live_run *r, const struct capacity_config *cfg,
                   struct capacity_plan *plan)
{
    decide_capacity(cfg, &r->view, &r->state, &r->rng, &r->state, plan, NULL);
}

/* The hour before: the policy sees it, and nothing of what it says is done. */
static void lead_in(const struct from_cluster *f, struct live_run *r, const struct chance *c,
                    const struct capacity_config *cfg, int32_t first)
{
    const struct world *w = f->world;
    for (int32_t step = first; step < f->now_step; step++) {
        struct capacity_plan plan;
        struct capsim_out out;
        if (step == first || step % w->point_steps == 0)
            r->view.forecast = *chance_forecast(c, w, step);
        if (cfg) {
            decide(r, cfg, &plan);
            r->state.guard = r->fresh;
        }
        capsim_step(&r->lane, &w->sim, &w->trace, asked_at(f, step), &r->view, &out);
    }
    if (cfg && f->guard)
        r->state.guard = *f->guard;
}

static void ahead(const struct from_cluster *f, struct live_run *r, const struct chance *c,
                  const struct capacity_config *cfg, from_cluster_look *look, void *ctx,
                  struct run_day *total)
{
    const struct world *w = f->world;
    for (int32_t step = f->now_step; step < w->n; step++) {
        struct capacity_plan plan = {.units = asked_at(f, step)};
        struct capsim_out out;
        if (step == f->now_step || step % w->point_steps == 0)
            r->view.forecast = *chance_forecast(c, w, step);
        if (cfg)
            decide(r, cfg, &plan);
        int before = step > f->now_step ? r->view.units_requested : f->units_asked;
        count_action(r, total, plan.units - before, r->view.now_us);
        r->before = r->view;
        capsim_step(&r->lane, &w->sim, &w->trace, plan.units, &r->view, &out);
        count(w, total, &out);
        if (look)
            look(ctx, &(struct run_look){.step = step,
                                         .view = &r->before,
                                         .plan = &plan,
                                         .out = &out,
                                         .demand_qps = w->demand[step] * c->factor[step]});
    }
}

enum err_code from_cluster_run(const struct from_cluster *f, const struct contender *who,
                               uint64_t seed, from_cluster_look *look, void *ctx,
                               struct run_day *total, struct err *e)
{
    const struct world *w = f->world;
    struct capacity_config *cfg = who ? mem_zero(1, sizeof *cfg) : NULL;
    struct live_run *r = try_zero_aligned(1, sizeof *r);
    struct learned l = {0};
    struct chance *c = NULL;
    int32_t lead = (int32_t)(LEAD_US / w->sim.spec.step_us),
            first = f->now_step > lead ? f->now_step - lead : 0;
    memset(total, 0, sizeof *total);
    enum err_code rc = r ? ERR_OK : err_set(e, ERR_NOMEM, "a run needs %zu bytes", sizeof *r);
    if (!rc && who)
        rc = contender_config(who, w, &l, cfg, e);
    if (!rc)
        rc = chance_new(w, seed, &c, e);
    if (!rc) {
        r->rng = rng_stream(seed, "policy");
        run_view_init(&r->view, w, 1, 1);
        capsim_reset(&r->lane, &w->sim, &w->trace, seed, first, asked_at(f, first), &r->view);
        if (cfg)
            capacity_state_init(cfg, &r->state);
        r->fresh = r->state.guard;
        lead_in(f, r, c, cfg, first);
        ahead(f, r, c, cfg, look, ctx, total);
    }
    chance_free(c);
    learned_fini(&l);
    mem_free(r);
    mem_free(cfg);
    return rc;
}
