#include "train/run.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "base/mem.h"
#include "base/signal.h"

enum {
    REVERSAL_S = 600,    /* two opposite actions within this time are a reversal */
    SIGNAL_STEPS = 4096, /* between looks at Ctrl-C */
};

/* What counting remembers between steps. */
struct counter {
    int direction;     /* of the last action, 0 before the first */
    int64_t action_us; /* its time */
    struct hash hash;
};

struct run_opts run_opts_default(const struct world *w)
{
    return (struct run_opts){
        .from = w->train_end,
        .to = w->n,
        .warm_steps = world_steps_per_day(w),
        .weights = reward_weights_of(REWARD_BALANCED),
        .weight_latency = 1,
        .weight_cost = 1,
    };
}

void run_view_init(struct capacity_view *view, const struct world *w, double weight_latency,
                   double weight_cost)
{
    memset(view, 0, sizeof *view);
    view->budget_units = w->sim.spec.units_max;
    view->weight_latency = (float)weight_latency;
    view->weight_cost = (float)weight_cost;
}

int run_start_units(const struct world *w, int32_t step)
{
    int units = latency_units_for(&w->latency, 1.33 * (double)w->demand[step]);
    return units < w->sim.spec.units_min ? w->sim.spec.units_min : units;
}

static struct run_day *day_of(struct run_result *r, int32_t day)
{
    if (r->n_days && r->day[r->n_days - 1].day == day)
        return &r->day[r->n_days - 1];
    if (r->n_days == RUN_DAYS_MAX)
        return NULL;
    r->day[r->n_days] = (struct run_day){.day = day};
    return &r->day[r->n_days++];
}

static void count_action(struct counter *c, struct run_day *d, int change, int64_t now_us)
{
    if (change == 0)
        return;
    int direction = change > 0 ? 1 : -1;
    d->actions++;
    d->units_changed += abs(change);
    if (c->direction == -direction && now_us - c->action_us <= REVERSAL_S * US_PER_S)
        d->reversals++;
    c->direction = direction;
    c->action_us = now_us;
}

static void count_step(const struct world *w, const struct run_opts *o, struct counter *c, struct run_day *d,
                       const struct capsim_out *out, int change, int64_t now_us)
{
    hash_i64(&c->hash, out->units_billed);
    if (out->barred)
        return;
    count_action(c, d, change, now_us);
    d->steps++;
    d->misses += out->miss;
    d->cost_usd += (double)out->cost_usd;
    d->unit_h += out->units_billed * (double)w->sim.dt_h;
    d->arrivals += (double)out->arrivals;
    d->miss_requests += (double)out->miss_requests_frac * (double)out->arrivals;
    d->p99_sum_ms += (double)out->p99_ms;
    struct reward_terms t = reward_of(&o->weights, &(struct reward_input){
                                                       .p99_ms = (double)out->p99_ms,
                                                       .target_ms = w->sim.spec.slo_p99_ms,
                                                       .units = out->units_billed,
                                                       .price_usd_h = w->sim.spec.price_usd_h,
                                                       .price_ref_usd_h = w->price_ref_usd_h,
                                                       .change = change,
                                                   });
    d->reward_sum += reward_sum(&t);
}

void run_day_add(struct run_day *sum, const struct run_day *d)
{
    sum->steps += d->steps;
    sum->misses += d->misses;
    sum->cost_usd += d->cost_usd;
    sum->unit_h += d->unit_h;
    sum->arrivals += d->arrivals;
    sum->miss_requests += d->miss_requests;
    sum->p99_sum_ms += d->p99_sum_ms;
    sum->reward_sum += d->reward_sum;
    sum->actions += d->actions;
    sum->reversals += d->reversals;
    sum->units_changed += d->units_changed;
}

/* Everything one run needs beside its options; large, so on the heap. */
struct scratch {
    struct capsim lane;
    struct capacity_view view, before; /* before: only kept where somebody looks */
    struct capacity_state state;
    struct capacity_record record;
    struct rng rng;
};

static enum err_code run_loop(const struct world *w, const struct chance *c,
                              const struct capacity_config *cfg, const struct run_opts *o, struct scratch *s,
                              struct run_result *r, struct err *e)
{
    struct counter counter = {.hash = hash_init(c->seed)};
    int32_t first = o->schedule ? o->from : o->from - o->warm_steps;
    if (first < 0)
        first = 0;
    run_view_init(&s->view, w, o->weight_latency, o->weight_cost);
    capsim_reset(&s->lane, &w->sim, &w->trace, c->seed, first, run_start_units(w, first), &s->view);
    if (cfg)
        capacity_state_init(cfg, &s->state);
    for (int32_t step = first; step < o->to; step++) {
        struct capacity_plan plan;
        if (step % SIGNAL_STEPS == 0 && signal_check(e))
            return ERR_INTERRUPTED;
        if (step == first || step % w->point_steps == 0)
            s->view.forecast = *chance_forecast(c, w, step);
        if (o->schedule)
            plan = (struct capacity_plan){.units = o->schedule[step - o->from]};
        else
            decide_capacity(cfg, &s->view, &s->state, &s->rng, &s->state, &plan,
                            o->records && step >= o->from ? &s->record : NULL);
        int change = plan.units - s->view.units_requested;
        int32_t day_number = s->view.when.day;
        int64_t now_us = s->view.now_us;
        if (o->look)
            s->before = s->view;
        struct capsim_out out;
        capsim_step(&s->lane, &w->sim, &w->trace, plan.units, &s->view, &out);
        if (step < o->from)
            continue;
        struct run_day *day = day_of(r, day_number);
        if (!day)
            return err_set(e, ERR_RANGE, "more than %d days in one run", (int)RUN_DAYS_MAX);
        count_step(w, o, &counter, day, &out, change, now_us);
        if (o->look)
            o->look(o->ctx, &(struct run_look){.step = step,
                                               .view = &s->before,
                                               .record = o->records ? &s->record : NULL,
                                               .plan = &plan,
                                               .out = &out,
                                               .demand_qps = w->demand[step] * c->factor[step]});
    }
    r->hash = hash_value(&counter.hash);
    return ERR_OK;
}

enum err_code run_policy(const struct world *w, const struct chance *c, const struct capacity_config *cfg,
                         const struct run_opts *o, struct run_result *out, struct err *e)
{
    if (o->from < 0 || o->to > w->n || o->from >= o->to)
        return err_set(e, ERR_RANGE, "steps %d to %d lie outside the trace of %d", o->from, o->to, w->n);
    ASSERT(cfg || o->schedule);
    memset(out, 0, sizeof *out);
    struct scratch *s = try_zero_aligned(1, sizeof *s);
    if (!s)
        return err_set(e, ERR_NOMEM, "a run needs %zu bytes", sizeof *s);
    s->rng = rng_stream(c->seed, "policy");
    enum err_code rc = run_loop(w, c, cfg, o, s, out, e);
    mem_free(s);
    for (int i = 0; i < out->n_days; i++)
        run_day_add(&out->total, &out->day[i]);
    return rc;
}
