/* incident_test.c - incidents that teams have lived through, replayed: what a rule did to them, and
 * that ours stay calm. */
#include "tests/unit/train/replay_fixture.h"

enum { SEEDS = 3, TEN_MIN = 40, FIVE_MIN = 20, HOUR = 240 };

static const char *const ours[] = {"mpc", "predictive", "hpa+guard"};

static int change_at(const struct replay *r, int32_t i)
{
    return r->step[i].executed - r->step[i].before;
}

/* A window of 10 minutes with at least `up` scale-outs and `down` scale-ins. */
static bool flaps(const struct replay *r, int up, int down)
{
    for (int32_t from = 0; from + TEN_MIN <= r->n; from++) {
        int ups = 0, downs = 0;
        for (int32_t i = from; i < from + TEN_MIN; i++) {
            ups += change_at(r, i) > 0;
            downs += change_at(r, i) < 0;
        }
        if (ups >= up && downs >= down)
            return true;
    }
    return false;
}

static int misses(const struct replay *r, int32_t from, int32_t to)
{
    int n = 0;
    for (int32_t i = from; i < to; i++)
        n += r->step[i].miss;
    return n;
}

static int largest(const struct replay *r, int32_t from, int32_t to)
{
    int n = 0;
    for (int32_t i = from; i < to; i++)
        n = r->step[i].executed > n ? r->step[i].executed : n;
    return n;
}

static int smallest(const struct replay *r, int32_t from, int32_t to)
{
    int n = CAPACITY_UNITS_LIMIT;
    for (int32_t i = from; i < to; i++)
        n = r->step[i].executed < n ? r->step[i].executed : n;
    return n;
}

/* Steps of [from, to) at which this check held, vetoed or cut, and said `words`. */
static int said(const struct replay *r, int32_t from, int32_t to, enum guard_check check,
                const char *words)
{
    int n = 0;
    for (int32_t i = from; i < to; i++) {
        char text[256];
        if (r->step[i].n_checks == 0 || r->step[i].chain[check].verdict == GUARD_PASS)
            continue;
        guard_explain(&r->step[i].chain[check], text, sizeof text);
        n += strstr(text, words) != NULL;
    }
    return n;
}

TEST(or_thresholds_flap_three_up_two_down_in_ten_minutes)
{
    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        struct replay *r =
            replay_new(&(struct replay_opts){INCIDENT_OR_FLAPPING, "threshold", .seed = seed});
        assert_true(flaps(r, 3, 2));
        assert_true(r->result.total.reversals >= 15);
        replay_free(r);
    }
}

TEST(our_policies_do_not_flap_with_the_load_that_makes_thresholds_flap)
{
    for (size_t p = 0; p < ARRAY_LEN(ours); p++)
        for (uint64_t seed = 1; seed <= SEEDS; seed++) {
            struct replay *r =
                replay_new(&(struct replay_opts){INCIDENT_OR_FLAPPING, ours[p], .seed = seed});
            assert_false(flaps(r, 2, 1));
            assert_true(r->result.total.reversals <= 2);
            assert_true(misses(r, r->in.from_step, r->in.to_step) <= 10);
            replay_free(r);
        }
}

/* 36 teeth, each one way up and one way down.  Autoscalers follow every tooth late and come back
 * twice. */
TEST(the_sawtooth_after_a_promotion_day_stays_calm)
{
    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        struct replay *hpa =
            replay_new(&(struct replay_opts){INCIDENT_PROMOTION_SAWTOOTH, "hpa", .seed = seed});
        for (size_t p = 0; p < 2; p++) {
            struct replay *r = replay_new(
                &(struct replay_opts){INCIDENT_PROMOTION_SAWTOOTH, ours[p], .seed = seed});
            int32_t from = r->in.from_step, to = r->in.to_step;
            assert_true(3 * r->result.total.reversals <= 2 * hpa->result.total.reversals);
            assert_true(r->result.total.actions < hpa->result.total.actions);
            assert_true(largest(r, from, to) < largest(hpa, from, to));
            assert_true(smallest(r, from + HOUR, to) > 5); /* a tooth's foot needs 5, its head 12 */
            assert_true(p > 0 || 2 * misses(r, from, to) <= misses(hpa, from, to));
            replay_free(r);
        }
        replay_free(hpa);
    }
}

/* The burst lasts 30 min; what is there carries a part of it, the rest is minutes away. */
TEST(a_stated_least_safe_size_meets_a_burst_after_a_quiet_hour)
{
    for (size_t p = 0; p < ARRAY_LEN(ours); p++)
        for (uint64_t seed = 1; seed <= SEEDS; seed++) {
            struct replay_opts o = {INCIDENT_SHRINK_THEN_BURST, ours[p], .seed = seed};
            struct replay *bare = replay_new(&o);
            o.units_min_safe = 5;
            struct replay *safe = replay_new(&o);
            int32_t from = safe->in.from_step, to = safe->in.to_step;
            assert_true(smallest(bare, 0, from) <= 3); /* 10 -> 2 or 3 */
            assert_int_equal(smallest(safe, 0, safe->n), 5);
            assert_true(misses(bare, from, to) <= 40); /* 10 min of 40 */
            assert_true(misses(safe, from, to) <= 2);
            replay_free(bare);
            replay_free(safe);
        }
}

/* The incident as the tenth day, after days of which every third did not fall to a third in that
 * hour. */
static struct replay *after_busy_days(enum guard_min_safe min_safe)
{
    enum { DAYS = 10 };
    struct err e;
    struct replay_opts o = {INCIDENT_SHRINK_THEN_BURST, "hpa+guard", .seed = 1};
    struct replay *r = mem_zero(1, sizeof *r);
    replay_scenario(r, &o);
    r->sc.guard.min_safe = min_safe;
    int32_t day = (int32_t)(US_PER_DAY / r->sc.step_us), n = (DAYS - 1) * day + r->in.n;
    float *demand = mem_zero((size_t)n, sizeof *demand);
    for (int32_t i = 0; i < n; i++) {
        int32_t at = i % day, minute = at / 4;
        bool busy = i / day < DAYS - 1 && i / day % 3 == 1 && minute >= 75 && minute < 180;
        demand[i] = busy ? r->in.demand[r->in.from_step + 4]
                         : r->in.demand[at < r->in.n ? at : r->in.n - 1];
    }
    assert_ok(world_from_demand(&r->sc, demand, NULL, n, 1709510400 * US_PER_S, NULL, &r->w, &e),
              &e);
    replay_run(r, &o, (DAYS - 1) * day);
    assert_true(chance_forecast(r->chance, r->w, (DAYS - 1) * day + r->in.from_step)->usable);
    mem_free(demand);
    return r;
}

TEST(a_least_safe_size_from_the_same_slots_meets_a_burst_to_what_other_days_had)
{
    struct replay *safe = after_busy_days(GUARD_MIN_SAFE_LEVEL_P95),
                  *bare = after_busy_days(GUARD_MIN_SAFE_STATED);
    int32_t from = safe->in.from_step, to = safe->in.to_step;
    assert_true(smallest(safe, from - HOUR, from) >= 4);
    assert_true(misses(safe, from, to) <= 6);
    assert_true(said(safe, from - HOUR, from, GUARD_BOUNDS, "least safe size") > 0);
    assert_true(smallest(bare, from - HOUR, from) <= 3);
    assert_true(misses(bare, from, to) > 10);
    replay_free(safe);
    replay_free(bare);
}

TEST(starts_that_fail_for_an_hour_open_the_breaker_and_do_not_pile_up)
{
    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        struct replay *rule =
            replay_new(&(struct replay_opts){INCIDENT_STARTS_FAIL, "threshold", .seed = seed});
        assert_true(largest(rule, 0, rule->in.to_step) >=
                    25); /* asks for more each time it looks */
        replay_free(rule);
        for (size_t p = 0; p < ARRAY_LEN(ours); p++) {
            struct replay *r =
                replay_new(&(struct replay_opts){INCIDENT_STARTS_FAIL, ours[p], .seed = seed});
            int32_t from = r->in.from_step, to = r->in.to_step;
            int open = 0;
            for (int32_t i = 0; i < r->n; i++) {
                open += r->step[i].breaker;
                assert_false(r->step[i].breaker && change_at(r, i) > 0);
            }
            assert_true(open >= 2 * TEN_MIN);
            assert_true(largest(r, from, to) <= 10); /* the load comes to need 9 or 10 */
            assert_true(said(r, from, to, GUARD_BREAKER, "units do not start") > 0);
            assert_int_equal(misses(r, to + 3 * HOUR / 4, to + HOUR),
                             0); /* served again once starts work */
            replay_free(r);
        }
    }
}

/* However much a policy asks for: a unit after each time the breaker was open, until one starts. */
TEST(after_the_breaker_at_most_one_unit_is_tried)
{
    static const char *const policies[] = {"threshold+guard", "queue+guard", "predictive"};
    for (size_t p = 0; p < ARRAY_LEN(policies); p++)
        for (uint64_t seed = 1; seed <= SEEDS; seed++) {
            struct replay *r =
                replay_new(&(struct replay_opts){INCIDENT_STARTS_FAIL, policies[p], .seed = seed});
            int32_t i = r->in.from_step;
            while (i < r->in.to_step && !r->step[i].breaker)
                i++;
            int before = r->step[i].before;
            assert_true(largest(r, i, r->in.to_step) <= before + 4); /* four periods an hour */
            replay_free(r);
        }
}

TEST(no_guarded_policy_scales_out_while_the_breaker_is_open)
{
    static const char *const policies[] = {"threshold+guard", "queue+guard", "predictive"};
    for (size_t p = 0; p < ARRAY_LEN(policies); p++) {
        struct replay *r =
            replay_new(&(struct replay_opts){INCIDENT_STARTS_FAIL, policies[p], .seed = 1});
        int open = 0;
        for (int32_t i = 0; i < r->n; i++) {
            open += r->step[i].breaker;
            assert_false(r->step[i].breaker && change_at(r, i) > 0);
        }
        assert_true(open >= TEN_MIN);
        replay_free(r);
    }
}

/* "static" with one unit wants to shrink at every step, and only the guard stands between. */
TEST(metrics_that_vanish_at_the_peak_hold_the_size)
{
    static const char *const policies[] = {"mpc", "predictive", "hpa+guard", "queue+guard",
                                           "threshold+guard"};
    for (size_t p = 0; p < ARRAY_LEN(policies); p++) {
        struct replay *r =
            replay_new(&(struct replay_opts){INCIDENT_METRICS_VANISH, policies[p], .seed = 1});
        for (int32_t i = r->in.from_step + 1; i < r->in.to_step; i++) {
            assert_false(r->step[i].metrics);
            assert_int_equal(change_at(r, i), 0);
        }
        assert_int_equal(misses(r, r->in.from_step, r->in.to_step), 0);
        replay_free(r);
    }
    struct replay *r = replay_new(
        &(struct replay_opts){INCIDENT_METRICS_VANISH, "static+guard", "units", 1, .seed = 1});
    int32_t from = r->in.from_step + 1, to = r->in.to_step;
    for (int32_t i = from; i < to; i++)
        assert_int_equal(change_at(r, i), 0);
    assert_int_equal(said(r, from, to, GUARD_FRESHNESS, "the load is missing") +
                         said(r, from, to, GUARD_FRESHNESS, "newest complete sample is"),
                     to - from);
    replay_free(r);
}

TEST(a_slow_dependency_at_low_use_scales_nothing_and_names_the_cause)
{
    for (size_t p = 0; p < ARRAY_LEN(ours); p++) {
        struct replay *r =
            replay_new(&(struct replay_opts){INCIDENT_DEPENDENCY_SLOW, ours[p], .seed = 1});
        int32_t from = r->in.from_step, to = r->in.to_step;
        assert_int_equal(misses(r, from, to),
                         to - from); /* five times as slow: nothing to be done here */
        assert_true(largest(r, from, to) <= r->step[from].before);
        replay_free(r);
    }
    /* 20 units wanted, 8 there: somebody who reads latency as load. */
    struct replay *r = replay_new(
        &(struct replay_opts){INCIDENT_DEPENDENCY_SLOW, "static+guard", "units", 20, 1, 8, 0});
    int32_t from = r->in.from_step, to = r->in.to_step;
    assert_int_equal(largest(r, 0, r->n), 8);
    assert_true(said(r, from, to, GUARD_AUDITOR, "look at the code or a dependency") >
                9 * (to - from) / 10);
    assert_true(said(r, 0, from, GUARD_AUDITOR, "not short of capacity") > 9 * from / 10);
    replay_free(r);
}

TEST(cpu_at_82_percent_with_gpu_at_45_holds)
{
    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        struct replay *rule =
            replay_new(&(struct replay_opts){INCIDENT_CPU_HIGH_GPU_LOW, "threshold", .seed = seed});
        assert_int_equal(largest(rule, rule->in.from_step, rule->in.to_step),
                         rule->w->sim.spec.units_max);
        replay_free(rule);
        for (size_t p = 0; p < 2; p++) {
            struct replay *r =
                replay_new(&(struct replay_opts){INCIDENT_CPU_HIGH_GPU_LOW, ours[p], .seed = seed});
            int32_t from = r->in.from_step, to = r->in.to_step;
            assert_in_range(largest(r, from, to), r->step[from].before, r->step[from].before + 1);
            assert_true(misses(r, from, to) <= 5);
            replay_free(r);
        }
        /* hpa believes the gauge: two units in the end, alone; the guard goes by demand */
        struct replay *hpa = replay_new(
            &(struct replay_opts){INCIDENT_CPU_HIGH_GPU_LOW, "hpa+guard", .seed = seed});
        assert_true(misses(hpa, hpa->in.from_step, hpa->in.to_step) <= 60);
        assert_true(said(hpa, hpa->in.from_step, hpa->in.to_step, GUARD_BOUNDS,
                         "GPU at 0.45 does not fit the demand") > 10);
        replay_free(hpa);
        struct replay *r = replay_new(
            &(struct replay_opts){INCIDENT_CPU_HIGH_GPU_LOW, "threshold+guard", .seed = seed});
        int32_t from = r->in.from_step, to = r->in.to_step;
        assert_true(largest(r, from, to) <=
                    r->step[from].before + 1); /* noise may leave no headroom */
        int asked = 0;
        for (int32_t i = from; i < to; i++)
            asked += r->step[i].proposed > r->step[i].before && change_at(r, i) == 0;
        assert_true(asked >= 20); /* every two minutes, as long as it lasts */
        assert_int_equal(said(r, from, to, GUARD_AUDITOR, "CPU at 0.82") +
                             said(r, from, to, GUARD_AUDITOR, "not short of capacity"),
                         asked);
        replay_free(r);
    }
}

/* At most eight steps (twice as large where starts are slow) or a quarter of what was there, in any
 * five minutes. */
static void assert_rate_cap(const struct replay *r)
{
    int steps = (int)r->cfg.guard.up_steps * r->cfg.rate_step_units;
    for (int32_t from = 0; from + FIVE_MIN <= r->n; from++) {
        int added = 0, most = 0;
        for (int32_t i = from; i < from + FIVE_MIN; i++) {
            added += change_at(r, i) > 0 ? change_at(r, i) : 0;
            most = r->step[i].before > most ? r->step[i].before : most;
        }
        int quarter = (most + 3) / 4;
        assert_in_range(added, 0, quarter > steps ? quarter : steps);
    }
}

TEST(tenfold_load_within_a_minute_scales_out_at_once_within_the_rate_cap)
{
    for (size_t p = 0; p < ARRAY_LEN(ours); p++)
        for (uint64_t seed = 1; seed <= SEEDS; seed++) {
            struct replay *r =
                replay_new(&(struct replay_opts){INCIDENT_TENFOLD, ours[p], .seed = seed});
            int32_t from = r->in.from_step, first = from;
            while (first < r->n && change_at(r, first) <= 0)
                first++;
            assert_in_range(first - from, 0, 4); /* the rise itself takes four steps */
            assert_rate_cap(r);
            for (int32_t i = 0; i < r->n; i++)
                assert_false(r->step[i].breaker);
            assert_true(largest(r, from, from + HOUR) >= 20);
            assert_int_equal(misses(r, from + HOUR, r->in.to_step), 0);
            replay_free(r);
        }
}

TEST(the_auditor_has_nothing_to_say_where_nothing_was_asked)
{
    struct replay *r =
        replay_new(&(struct replay_opts){INCIDENT_STARTS_FAIL, "predictive", .seed = 1});
    int quiet = 0;
    for (int32_t i = 0; i < r->n; i++) {
        char text[256];
        if (r->step[i].proposed != r->step[i].before)
            continue;
        guard_explain(&r->step[i].chain[GUARD_AUDITOR], text, sizeof text);
        assert_string_equal(text, "auditor pass: nothing against it");
        quiet++;
    }
    assert_true(quiet > 100);
    replay_free(r);
}
