/* guard_mask_test.c - the mask admits exactly what the guard would execute, and the guard never
 * does what it must not, over random views and states. */
#include <math.h>
#include <string.h>

#include "tests/unit/decide/decide_fixture.h"

enum { ROUNDS = 4000, HOSTILE = 20 };

static float pick(struct rng *r, float usual)
{
    static const float odd[] = {NAN, INFINITY, -INFINITY, -1, 0, 1e30f, 1e38f, 1e-30f};
    return rng_below(r, HOSTILE) == 0 ? odd[rng_below(r, 8)] : usual * 2 * (float)rng_unit(r);
}

static int64_t ago(struct rng *r, int64_t now, int64_t most)
{
    return rng_below(r, 4) == 0 ? GUARD_NEVER
                                : now - FIX_STEP * rng_below(r, (uint32_t)(most / FIX_STEP));
}

static void random_view(struct fix *f, bool hostile)
{
    struct rng *r = &f->rng;
    struct capacity_view *v = &f->view;
    int units = (int)rng_below(r, FIX_UNITS_MAX) + 1;
    v->now_us += FIX_STEP;
    v->sample_us = v->now_us - (rng_below(r, 10) ? 0 : FIX_STEP * rng_below(r, 12));
    v->when.minute = (int16_t)rng_below(r, 1440);
    v->when.weekday = (int8_t)rng_below(r, 7);
    v->units_failed = rng_below(r, 5) ? 0 : (int)rng_below(r, (uint32_t)units);
    v->units_warming = (int)rng_below(r, (uint32_t)(units - v->units_failed) + 1);
    v->units_ready = units - v->units_failed - v->units_warming;
    v->units_requested = units;
    memset(v->warm, 0, sizeof v->warm);
    v->warm[rng_below(r, CAPACITY_WARM_BINS)] = v->units_warming;
    v->warm_oldest_us = v->units_warming ? FIX_STEP * rng_below(r, 25) : 0;
    static const float usual[FIELD_COUNT] = {0.5f, 0.5f, 0.4f, 0.4f, 1500, 60, 150, 8, 10, 10};
    for (int i = 0; i < FIELD_COUNT; i++)
        v->value[i] = hostile ? pick(r, usual[i]) : usual[i] * 2 * (float)rng_unit(r);
    v->qps_last = hostile ? pick(r, 1500) : v->value[FIELD_QPS];
    v->budget_units = rng_below(r, 4) ? FIX_UNITS_MAX : (int)rng_below(r, FIX_UNITS_MAX);
    float mean = 1500 * (float)rng_unit(r);
    fix_forecast(f, mean, mean * 1.2f, mean * 1.4f);
    v->forecast.usable = rng_below(r, 4) > 0;
    v->forecast.uncertainty = (float)rng_unit(r);
    v->forecast.slot_p95 = mean * (float)rng_unit(r);
    v->claims = (struct capacity_claims){0};
    if (rng_below(r, HOSTILE) == 0)
        v->claims.paused = true;
    if (rng_below(r, HOSTILE) == 0)
        v->claims.cluster_abnormal = true;
    if (rng_below(r, HOSTILE) == 0) {
        v->claims.override_on = true;
        v->claims.override_units = (int)rng_below(r, 80);
        v->claims.override_until_us = v->now_us + FIX_STEP * ((int64_t)rng_below(r, 3) - 1);
    }
}

static void random_state(struct fix *f)
{
    struct rng *r = &f->rng;
    struct guard_state *g = &f->state.guard;
    int64_t now = f->view.now_us;
    guard_state_init(g);
    g->last_out_us = ago(r, now, 8 * FIX_MIN);
    g->last_in_us = ago(r, now, 8 * FIX_MIN);
    g->watch_until_us = rng_below(r, 4) ? GUARD_NEVER : now + FIX_STEP * rng_below(r, 40);
    g->breaker_until_us =
        rng_below(r, 4) ? GUARD_NEVER : now + FIX_STEP * ((int64_t)rng_below(r, 80) - 40);
    g->breaker_retry_us = g->breaker_until_us;
    g->ready_before = f->view.units_ready - (int)rng_below(r, 2);
    g->failed_before = f->view.units_failed + (int)rng_below(r, 2);
    g->water_since_us = ago(r, now, 10 * FIX_MIN);
    g->up.bucket = now / f->cfg.up_bucket_us;
    g->up.sum = g->up.at[0] = (int16_t)rng_below(r, 12);
    g->flap.bucket = now / (5 * FIX_MIN);
    g->flap.sum = g->flap.at[0] = (int16_t)rng_below(r, 80);
}

static void random_config(struct fix *f, int round)
{
    struct rng *r = &f->rng;
    fix_config(f, "ppo", true);
    f->rng = rng_from_key(rng_key(test_seed(), "guard") + (uint64_t)round);
    f->cfg.guard.auditor = (enum guard_auditor)rng_below(r, 3);
    f->cfg.guard.min_safe = (enum guard_min_safe)rng_below(r, 3);
    f->cfg.spec.units_min = (int)rng_below(r, 3);
    f->cfg.spec.units_min_safe = rng_below(r, 3) ? 0 : (int)rng_below(r, 20);
    fix_start(f);
    random_view(f, round % 2);
    random_state(f);
}

static int execute(const struct fix *f, int proposed, struct capacity_record *record)
{
    static struct capacity_state copy;
    struct capacity_plan plan;
    copy = f->state;
    capacity_commit(&f->cfg, &f->view, &copy, proposed, &plan, record);
    return plan.units;
}

TEST(the_mask_is_exactly_what_the_guard_would_execute)
{
    static struct fix f;
    static struct capacity_record record;
    uint8_t mask[CAPACITY_ACTIONS];
    int units[CAPACITY_ACTIONS], permitted = 0, refused = 0;
    for (int round = 0; round < ROUNDS; round++) {
        random_config(&f, round);
        capacity_observe(&f.cfg, &f.view, &f.state, NULL);
        capacity_mask(&f.cfg, &f.view, &f.state, mask, units);
        int any = 0, exact = 0;
        for (int a = 0; a < CAPACITY_ACTIONS; a++) {
            /* the record's chain is computed check by check, the mask from the interval */
            bool is = execute(&f, units[a], &record) == units[a];
            exact += is;
            any += mask[a];
            permitted += is;
            refused += !is;
            assert_true(!is || mask[a]);
        }
        assert_true(any > 0);
        if (exact > 0)
            assert_int_equal(any, exact);
        else
            assert_int_equal(any, 1);
    }
    assert_true(permitted > ROUNDS && refused > ROUNDS); /* both happen often */
}

TEST(every_size_is_executed_as_the_interval_says)
{
    static struct fix f;
    static struct capacity_record record;
    for (int round = 0; round < ROUNDS / 4; round++) {
        random_config(&f, round);
        capacity_observe(&f.cfg, &f.view, &f.state, NULL);
        int last = -1;
        for (int u = -2; u <= FIX_UNITS_MAX + 5; u++) {
            int executed = execute(&f, u, &record);
            bool inside = u >= f.state.guard.lo && u <= f.state.guard.hi;
            assert_true((executed == u) == inside);
            assert_true(executed >= last); /* more is asked, not less is done */
            last = executed;
            assert_int_equal(record.chain[GUARD_CHECKS - 1].lo, f.state.guard.lo);
            assert_int_equal(record.chain[GUARD_CHECKS - 1].hi, f.state.guard.hi);
        }
    }
}

TEST(verdicts_tell_who_changed_the_proposal)
{
    static struct fix f;
    static struct capacity_record record;
    char words[256];
    for (int round = 0; round < ROUNDS; round++) {
        random_config(&f, round);
        capacity_observe(&f.cfg, &f.view, &f.state, NULL);
        int proposed = (int)rng_below(&f.rng, FIX_UNITS_MAX + 5);
        int executed = execute(&f, proposed, &record), changes = 0;
        for (int i = 0; i < GUARD_CHECKS; i++) {
            const struct guard_result *r = &record.chain[i];
            changes += r->verdict != GUARD_PASS;
            assert_true(r->lo <= r->hi && (i == 0 || (r->lo >= r[-1].lo && r->hi <= r[-1].hi)));
            guard_explain(r, words, sizeof words);
            assert_true(strlen(words) > 5 && !strstr(words, "unreadable"));
            if (r->verdict == GUARD_HOLD || r->verdict == GUARD_VETO)
                assert_true(r->lo <= f.view.units_requested && r->hi >= f.view.units_requested);
        }
        assert_true((executed == proposed) == (changes == 0));
    }
}

TEST(the_guard_never_does_what_it_must_not)
{
    static struct fix f;
    for (int round = 0; round < ROUNDS; round++) {
        random_config(&f, round);
        capacity_observe(&f.cfg, &f.view, &f.state, NULL);
        const struct capacity_view *v = &f.view;
        int now = v->units_requested;
        bool person = v->claims.override_on && v->claims.override_until_us > v->now_us;
        bool shut = f.state.guard.breaker_until_us > v->now_us;
        bool trial = !shut && f.state.guard.breaker_until_us != GUARD_NEVER;
        bool outside = now < f.cfg.spec.units_min || now > f.cfg.spec.units_max;
        for (int k = 0; k < 8; k++) {
            int executed = execute(&f, (int)rng_below(&f.rng, 80), NULL);
            assert_true(executed >= 0 && executed <= f.cfg.spec.units_max);
            if (v->claims.paused)
                assert_int_equal(executed, now);
            if (person || outside)
                continue;
            assert_true(executed >= f.cfg.spec.units_min);
            if (!(v->value[FIELD_QPS] >= 0) || v->value[FIELD_QPS] > 1e30f ||
                v->now_us - v->sample_us > f.cfg.guard.stale_us || v->claims.cluster_abnormal)
                assert_int_equal(executed, now); /* never on missing, stale or abnormal */
            if (executed > now)
                assert_true(executed <= v->budget_units &&
                            executed - now <= fmax(8 * f.cfg.rate_step_units, ceil(0.25 * now)));
            assert_true(!shut || executed <= now);
            assert_true(!trial || executed - now <= f.cfg.step_units);
            if (executed < now) /* still serves what is asked now, and leaves most of it */
                assert_true(f.load_max[executed] * 1.0001f >= v->value[FIELD_QPS] &&
                            executed >= fmin(ceil(0.7 * now - 1e-3), now - 1));
        }
    }
}

TEST(observations_are_finite_and_in_range_whatever_comes_in)
{
    static struct fix f;
    float obs[CAPACITY_OBS];
    fix_init(&f, "ppo", true);
    for (int round = 0; round < 20000; round++) {
        random_view(&f, true);
        if (rng_below(&f.rng, 5) == 0) {
            float *p = f.view.forecast.mean;
            for (int i = 0; i < 5 * FORECAST_LEVELS; i++)
                p[i] = pick(&f.rng, 1000);
            f.view.forecast.base = pick(&f.rng, 1000);
            f.view.forecast.high = pick(&f.rng, 1000);
            f.view.weight_cost = pick(&f.rng, 1);
        }
        capacity_observe(&f.cfg, &f.view, &f.state, obs);
        for (int i = 0; i < CAPACITY_OBS; i++) {
            const struct observation_info *info = observation_get((enum observation)i);
            if (!(obs[i] >= info->lo && obs[i] <= info->hi))
                fail_msg("%s is %g, outside %g..%g", info->name, (double)obs[i], (double)info->lo,
                         (double)info->hi);
        }
    }
}
