#include "daemon/target.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/mem.h"

/* Of about 20 a point has; one that arrives late or broken is missing, never 0. */
enum { POINT_SAMPLES_MIN = 8 };

void target_init(struct target *t, const struct target_id *id)
{
    struct forecast_config f = forecast_config_default();
    memset(t, 0, sizeof *t);
    t->id = *id;
    t->forecaster = forecast_new(&f);
    forecast_get(t->forecaster, &t->forecast);
    t->point_us = INT64_MIN;
}

void target_policy_fini(struct target_policy *p)
{
    learned_fini(&p->learned);
    memset(p, 0, sizeof *p);
}

void target_fini(struct target *t)
{
    target_policy_fini(&t->main);
    target_policy_fini(&t->challenger);
    if (t->has_latency)
        latency_fini(&t->latency);
    forecast_free(t->forecaster);
    memset(t, 0, sizeof *t);
}

void target_key(const struct target *t, char out[2 * TARGET_NAME])
{
    (void)snprintf(out, 2 * TARGET_NAME, "%s/%s", t->id.namespace_, t->id.name);
}

void target_set_latency(struct target *t, struct latency_model *m)
{
    if (t->has_latency)
        latency_fini(&t->latency);
    t->latency = *m;
    memset(m, 0, sizeof *m);
    t->has_latency = true;
    t->spec.latency = &t->latency;
}

enum err_code target_configure(struct target *t, struct target_policy *p, const struct choose *c, uint64_t seed,
                               struct err *e)
{
    struct target_policy *next = try_zero_aligned(1, sizeof *next);
    if (!next)
        return err_set(e, ERR_NOMEM, "a policy of %s/%s", t->id.namespace_, t->id.name);
    enum err_code rc = choose_policy(c, &next->cfg, &next->learned, &next->error, e);
    if (rc) {
        learned_fini(&next->learned);
        mem_free(next);
        return rc;
    }
    capacity_state_init(&next->cfg, &next->state);
    if (p->ready && p->cfg.version == next->cfg.version)
        capacity_state_copy(&next->cfg, &next->state, &p->state);
    else if (p->ready)
        next->state.guard = p->state.guard;
    char key[2 * TARGET_NAME];
    target_key(t, key);
    next->rng = p->ready ? p->rng : rng_stream(seed, key);
    const char *file = choose_file(c);
    (void)snprintf(next->path, sizeof next->path, "%s", file ? file : "");
    next->ready = true;
    target_policy_fini(p);
    memcpy(p, next, sizeof *p);
    if (p->cfg.outlook)
        p->cfg.outlook = &p->learned.outlook; /* it moved */
    mem_free(next);
    return ERR_OK;
}

/* ---- forecast --------------------------------------------------------------------------------- */

static void note_error(struct target *t, float seen)
{
    float mean = t->forecast.mean[0];
    if (t->forecast.usable && isfinite(mean) && seen > 0) {
        t->error_sum += (double)(fabsf(mean - seen) / seen);
        t->error_n++;
    }
}

enum err_code target_push_point(struct target *t, const struct calendar *cal, int64_t time_us, float qps,
                                struct err *e)
{
    struct calendar_point at = calendar_at(cal, time_us);
    enum err_code rc = forecast_push(t->forecaster, time_us, qps, &at, e);
    if (rc)
        return rc;
    note_error(t, qps);
    forecast_get(t->forecaster, &t->forecast);
    t->point_us = time_us + FORECAST_POINT_US;
    t->point_sum = 0;
    t->point_n = 0;
    return ERR_OK;
}

static void close_point(struct target *t, const struct calendar *cal)
{
    struct err e;
    float mean = t->point_n >= POINT_SAMPLES_MIN ? (float)(t->point_sum / t->point_n) : NAN;
    if (target_push_point(t, cal, t->point_us, mean, &e)) { /* an absurd load: the point is missing */
        if (target_push_point(t, cal, t->point_us, NAN, &e))
            t->point_us += FORECAST_POINT_US;
    }
}

void target_push_load(struct target *t, const struct calendar *cal, int64_t now_us, int64_t sample_us, float qps)
{
    if (t->point_us == INT64_MIN || now_us < t->point_us) /* the first, or the clock went back */
        t->point_us = now_us - now_us % FORECAST_POINT_US;
    if (now_us - t->point_us > FORECAST_POINT_US * 4) { /* a gap: the forecaster fills it as missing */
        t->point_us = now_us - now_us % FORECAST_POINT_US;
        t->point_sum = 0;
        t->point_n = 0;
    }
    while (now_us >= t->point_us + FORECAST_POINT_US)
        close_point(t, cal);
    if (sample_us > t->point_last_us && isfinite(qps) && qps >= 0) {
        t->point_sum += (double)qps;
        t->point_n++;
        t->point_last_us = sample_us;
    }
}

/* ---- decision --------------------------------------------------------------------------------- */

void target_view(struct target *t, const struct calendar *cal, int64_t now_us, const struct target_counts *n,
                 const struct target_sample *s, const struct capacity_claims *claims, int budget_units,
                 double weight_latency, double weight_cost)
{
    struct capacity_view *v = &t->view;
    memset(v, 0, sizeof *v);
    v->now_us = now_us;
    v->units_requested = n->requested;
    v->units_ready = n->ready;
    v->units_failed = n->failed;
    memcpy(v->warm, n->warm, sizeof v->warm);
    for (int i = 0; i < CAPACITY_WARM_BINS; i++)
        v->units_warming += n->warm[i];
    v->warm_oldest_us = n->warm_oldest_us;
    v->sample_us = s->sample_us;
    memcpy(v->value, s->value, sizeof v->value);
    v->qps_last = s->qps_last;
    v->forecast = t->forecast;
    v->when = calendar_at(cal, now_us);
    v->budget_units = budget_units;
    v->weight_latency = (float)weight_latency;
    v->weight_cost = (float)weight_cost;
    v->foresight_qps = NAN;
    v->claims = *claims;
}

static void decide(const struct capacity_view *view, struct target_policy *p)
{
    capacity_state_copy(&p->cfg, &p->before, &p->state);
    p->rng_before = p->rng;
    memset(&p->record, 0, sizeof p->record); /* padding too: it is hashed and stored */
    decide_capacity(&p->cfg, view, &p->before, &p->rng, &p->state, &p->plan, &p->record);
}

static void undo(struct target_policy *p)
{
    capacity_state_copy(&p->cfg, &p->state, &p->before);
    p->rng = p->rng_before;
}

struct target_policy *target_acting(struct target *t)
{
    return t->challenger_acts && t->challenger.ready ? &t->challenger : &t->main;
}

void target_turn(struct target *t, bool challenger)
{
    const struct target_policy *was = target_acting(t);
    t->challenger_acts = challenger;
    struct target_policy *now = target_acting(t);
    if (now != was && was->ready)
        now->state.guard = was->state.guard;
}

void target_decide(struct target *t)
{
    struct target_policy *acting = target_acting(t), *other = acting == &t->main ? &t->challenger : &t->main;
    if (other->ready)
        other->state.guard = acting->state.guard;
    decide(&t->view, acting);
    if (other->ready)
        decide(&t->view, other);
    t->decided = true;
}

void target_undo(struct target *t)
{
    if (!t->decided)
        return;
    undo(&t->main);
    if (t->challenger.ready)
        undo(&t->challenger);
    t->decided = false;
}

void target_forget(struct target *t)
{
    struct target_policy *p = target_acting(t);
    if (t->decided && p->plan.changed) /* else the next record continues this one, and needs no whole memory */
        guard_forget(&p->state.guard, &p->before.guard);
}
