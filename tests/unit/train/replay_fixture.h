/* replay_fixture.h - a known incident (sim/generate.h) replayed under one policy, every step kept.
 */
#ifndef TESTS_UNIT_TRAIN_REPLAY_FIXTURE_H
#define TESTS_UNIT_TRAIN_REPLAY_FIXTURE_H

#include "base/mem.h"
#include "sim/generate.h"
#include "tests/support/test.h"
#include "train/tune.h"

struct replay_step {
    int before, executed; /* units requested before, and asked for */
    int proposed, ready, warming, failed;
    float load; /* as it arrived, requests/s */
    float p99_ms;
    bool miss, metrics, breaker; /* metrics: the view had a load; breaker: open */
    struct guard_result chain[GUARD_CHECKS];
    int n_checks;
};

struct replay {
    struct incident in;
    struct scenario sc;
    struct world *w;
    struct chance *chance;
    struct capacity_config cfg;
    struct run_result result;
    struct replay_step step[INCIDENT_STEPS_MAX];
    int32_t n;
};

static inline void replay_look(void *ctx, const struct run_look *l)
{
    struct replay *r = ctx;
    struct replay_step *s = &r->step[r->n++];
    *s = (struct replay_step){
        .before = l->view->units_requested,
        .executed = l->plan->units,
        .proposed = l->record->proposed,
        .ready = l->view->units_ready,
        .warming = l->view->units_warming,
        .failed = l->view->units_failed,
        .load = l->demand_qps,
        .p99_ms = l->out->p99_ms,
        .miss = l->out->miss,
        .metrics = l->view->value[FIELD_QPS] >= 0,
        .breaker = l->record->obs[OBS_BREAKER] > 0,
        .n_checks = l->record->n_checks,
    };
    memcpy(s->chain, l->record->chain, sizeof s->chain);
}

struct replay_opts {
    enum incident_kind kind;
    const char *policy; /* "hpa", "hpa+guard", ... */
    const char *option; /* of the policy, or NULL */
    double value;
    uint64_t seed;
    int units_min, units_min_safe; /* 0: not stated */
};

static inline void replay_scenario(struct replay *r, const struct replay_opts *o)
{
    struct err e;
    struct latency_model m;
    scenario_init(&r->sc);
    r->sc.name = mem_strdup(incident_name(o->kind));
    r->sc.service.units_max = 32;
    r->sc.service.units_min = o->units_min ? o->units_min : 1;
    r->sc.service.units_min_safe = o->units_min_safe;
    assert_ok(
        latency_from_erlang(r->sc.service.service_ms, (int)r->sc.service.slots, 32, 200, &m, &e),
        &e);
    double unit_qps = (double)m.load_max[8] / 8; /* of a fleet of ordinary size */
    latency_fini(&m);
    assert_ok(incident_build(o->kind, unit_qps, r->sc.step_us, &r->in, &e), &e);
    struct scenario_fault *f = mem_zero((size_t)r->in.n_faults + 1, sizeof *f);
    for (int i = 0; i < r->in.n_faults; i++)
        f[i] = (struct scenario_fault){.kind = (int)r->in.fault[i].kind,
                                       .from_us = r->in.fault[i].from_step * r->sc.step_us,
                                       .to_us = r->in.fault[i].to_step * r->sc.step_us,
                                       .value = (double)r->in.fault[i].value,
                                       .value2 = (double)r->in.fault[i].value2};
    r->sc.chance.faults = (struct opt_subs){.items = f, .n = (size_t)r->in.n_faults};
}

/* Runs steps [from, n) of r->w and keeps them; step[0] is step `from`. */
static inline void replay_run(struct replay *r, const struct replay_opts *opts, int32_t from)
{
    struct err e;
    struct policy_use use;
    const struct policy *p;
    bool guarded;
    assert_ok(chance_new(r->w, opts->seed, &r->chance, &e), &e);
    assert_ok(policy_parse(opts->policy, &p, &guarded, &e), &e);
    policy_use_default(&use, p);
    if (opts->option)
        assert_ok(policy_option_set(p, &use.opt, opts->option, opts->value, &e), &e);
    assert_ok(world_config(r->w, &use, guarded, &r->cfg, &e), &e);
    struct run_opts o = run_opts_default(r->w);
    o.from = from;
    o.to = r->w->n;
    o.look = replay_look;
    o.ctx = r;
    o.records = true;
    assert_ok(run_policy(r->w, r->chance, &r->cfg, &o, &r->result, &e), &e);
    assert_int_equal(r->n, r->in.n);
}

/* Free with replay_free. */
static inline struct replay *replay_new(const struct replay_opts *o)
{
    struct err e;
    struct replay *r = mem_zero(1, sizeof *r);
    const int64_t monday_us = 1709510400 * US_PER_S;
    replay_scenario(r, o);
    assert_ok(world_from_demand(&r->sc, r->in.demand, NULL, r->in.n, monday_us, NULL, &r->w, &e),
              &e);
    replay_run(r, o, 0);
    return r;
}

static inline void replay_free(struct replay *r)
{
    chance_free(r->chance);
    world_free(r->w);
    scenario_fini(&r->sc);
    mem_free(r);
}

#endif
