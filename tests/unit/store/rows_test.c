/* rows_test.c - what is put comes back, what is asked for is found. */
#include <limits.h>

#include "tests/unit/store/store_fixture.h"

/* ---- decisions ------------------------------------------------------------------------------- */

static bool check_back(void *ctx, const struct store_decision *d, const struct store_target *t)
{
    const struct store_decision want = decision_of(*(int64_t *)ctx, T0);
    assert_int_equal(d->time_us, want.time_us);
    assert_int_equal(d->target_id, want.target_id);
    assert_int_equal(d->role, STORE_ACTING);
    assert_true(d->inputs_hash == want.inputs_hash);
    assert_string_equal(d->holder, want.holder);
    assert_string_equal(d->stage, want.stage);
    assert_string_equal(d->policy, want.policy);
    assert_int_equal(d->units_before, 5);
    assert_int_equal(d->units_ready, 4);
    assert_int_equal(d->proposed, 9);
    assert_int_equal(d->executed, 7);
    assert_string_equal(d->verdict, "clamp");
    assert_string_equal(d->decisive, "step");
    assert_string_equal(d->rule, "hpa");
    assert_int_equal(d->rule_units, 6);
    assert_true(isnan(d->value) && isnan(d->reward_slo));
    assert_near(d->reward_cost, 0.5, 0, 0);
    assert_near(d->reward_churn, -1, 0, 0);
    assert_null(d->error);
    assert_null(d->outcome);
    assert_string_equal(d->why, want.why);
    assert_int_equal(d->action, STORE_INTENDED);
    assert_int_equal(d->view.n, 300);
    assert_memory_equal(d->view.p, want.view.p, 300);
    assert_int_equal(d->chain.n, 200);
    assert_int_equal(d->state.n, 0);
    assert_string_equal(t->name, "search");
    assert_string_equal(t->cluster, "prod");
    return true;
}

TEST(a_decision_comes_back_as_it_was_put)
{
    struct store *s = open_store(new_path("back.db"));
    struct err e;
    int64_t target = put_target(s, "search"), id = put_one(s, target, T0);
    assert_ok(store_decision_get(s, id, check_back, &target, &e), &e);
    assert_int_equal(store_health(s), STORE_OK);
    store_close(s);
}

TEST(text_and_numbers_of_any_kind_survive)
{
    struct store *s = open_store(new_path("any.db"));
    struct err e;
    int64_t id, target = put_target(s, "caf\xc3\xa9 '); DROP TABLE decisions; --");
    struct store_decision d = {.target_id = target,
                               .time_us = INT64_MIN + 1,
                               .inputs_hash = UINT64_MAX,
                               .proposed = INT_MIN,
                               .value = INFINITY,
                               .why = "",
                               .outcome = NULL};
    assert_ok(store_put_decision(s, &d, &id, &e), &e);
    assert_int_equal(info_of(s).decisions, 1);
    assert_int_equal(info_of(s).last_us, INT64_MIN + 1);
    store_close(s);
}

TEST(ids_rise_and_are_never_used_twice)
{
    const char *path = new_path("ids.db");
    struct store *s = open_store(path);
    int64_t target = put_target(s, "a"), last = 0;
    for (int i = 0; i < 3; i++) {
        int64_t id = put_one(s, target, T0);
        assert_true(id > last);
        last = id;
    }
    store_close(s);
    run_sql(path, "DELETE FROM decisions");
    s = open_store(path);
    assert_true(put_one(s, target, T0) > last);
    store_close(s);
}

TEST(a_decision_that_is_not_there_names_those_that_are)
{
    struct store *s = open_store(new_path("none.db"));
    struct err e;
    int n = 0;
    assert_err(store_decision_get(s, 7, count_row, &n, &e), ERR_MISSING, &e,
               "has no decisions yet");
    int64_t target = put_target(s, "a");
    (void)put_one(s, target, T0);
    (void)put_one(s, target, T0);
    assert_err(store_decision_get(s, 7, count_row, &n, &e), ERR_MISSING, &e,
               "has the decisions 1 to 2");
    assert_err(store_decision_get(s, -7, count_row, &n, &e), ERR_MISSING, &e,
               "has the decisions 1 to 2");
    assert_int_equal(n, 0);
    store_close(s);
}

TEST(targets_and_configurations_are_found_again_and_a_new_uid_is_a_new_target)
{
    const char *path = new_path("found.db");
    struct store *s = open_store(path);
    struct err e;
    struct store_target t = {.cluster = "prod",
                             .group = "apps",
                             .kind = "Deployment",
                             .namespace_ = "shop",
                             .name = "search",
                             .uid = "u1"};
    int64_t a, b, c, d;
    assert_ok(store_target_id(s, &t, T0, &a, &e), &e);
    assert_ok(store_config_id(s, "config: x", T0, &c, &e), &e);
    store_close(s);
    s = open_store(path);
    assert_ok(store_target_id(s, &t, T0, &b, &e), &e);
    assert_int_equal(a, b);
    t.uid = NULL;
    assert_ok(store_target_id(s, &t, T0, &b, &e), &e);
    assert_int_not_equal(a, b);
    assert_ok(store_config_id(s, "config: x", T0 + 5, &d, &e), &e);
    assert_int_equal(c, d);
    assert_ok(store_config_id(s, "config: y", T0, &d, &e), &e);
    assert_int_not_equal(c, d);
    assert_int_equal(info_of(s).targets, 2);
    assert_int_equal(info_of(s).configs, 2);
    store_close(s);
}

/* ---- queries --------------------------------------------------------------------------------- */

TEST(a_query_finds_what_it_asks_for_and_nothing_else)
{
    struct store *s = open_store(new_path("query.db"));
    struct err e;
    int64_t target[3] = {put_target(s, "a"), put_target(s, "b"), 0}, id;
    struct store_target other = {.namespace_ = "batch", .name = "a"};
    assert_ok(store_target_id(s, &other, T0, &target[2], &e), &e);
    for (int i = 0; i < 30;
         i++) { /* targets in turn; every second acts, every fifth is held, the last are shadows */
        struct store_decision d = decision_of(target[i % 3], T0 + i * STEP);
        d.action = i % 2 ? STORE_INTENDED : STORE_NONE;
        d.verdict = i % 5 ? "pass" : "hold";
        d.role = i >= 27 ? STORE_SHADOW : STORE_ACTING;
        assert_ok(store_put_decision(s, &d, &id, &e), &e);
        if (i % 4 == 3)
            assert_ok(store_set_action(s, id, STORE_DONE, T0, "accepted", &e), &e);
    }
    const struct {
        struct store_query q;
        int n;
    } ask[] = {
        {{0}, 30},
        {{.target_id = target[1]}, 10},
        {{.target_id = 99}, 0},
        {{.name = "a"}, 20},
        {{.namespace_ = "shop"}, 20},
        {{.namespace_ = "batch", .name = "a"}, 10},
        {{.namespace_ = "batch", .name = "b"}, 0},
        {{.since_us = T0 + 20 * STEP}, 10},
        {{.until_us = T0 + 20 * STEP}, 20},
        {{.since_us = T0 + 5 * STEP, .until_us = T0 + 8 * STEP}, 3},
        {{.first_id = 4, .last_id = 6}, 3},
        {{.verdict = "hold"}, 6},
        {{.verdict = "' OR 1=1 --"}, 0},
        {{.acted = true}, 15},
        {{.pending = true}, 8},
        {{.role = 1 + STORE_SHADOW}, 3},
        {{.role = 1 + STORE_ACTING, .acted = true, .verdict = "hold", .name = "a"}, 2},
        {{.limit = 4}, 4},
        {{.blobs = true, .newest_first = true, .limit = 5}, 5},
    };
    for (size_t i = 0; i < ARRAY_LEN(ask); i++)
        if (count_of(s, &ask[i].q) != ask[i].n)
            fail_msg("query %zu: %d rows, expected %d", i, count_of(s, &ask[i].q), ask[i].n);
    store_close(s);
}

struct order {
    int64_t last;
    int step, n, most;
    size_t blob;
};

static bool check_order(void *ctx, const struct store_decision *d, const struct store_target *t)
{
    struct order *o = ctx;
    (void)t;
    if (o->n++)
        assert_int_equal(d->id, o->last + o->step);
    o->last = d->id;
    assert_int_equal(d->view.n, o->blob);
    return o->n < o->most;
}

TEST(rows_come_in_order_with_blobs_when_asked_for_until_the_reader_has_enough)
{
    struct store *s = open_store(new_path("order.db"));
    struct err e;
    int64_t target = put_target(s, "a");
    for (int i = 0; i < 10; i++)
        (void)put_one(s, target, T0 - i * STEP); /* a clock going back does not change the order */
    struct order up = {.step = 1, .most = 100}, down = {.step = -1, .most = 3, .blob = 300};
    struct store_query q = {0}, r = {.newest_first = true, .blobs = true};
    assert_ok(store_decisions(s, &q, check_order, &up, &e), &e);
    assert_int_equal(up.n, 10);
    assert_ok(store_decisions(s, &r, check_order, &down, &e), &e);
    assert_int_equal(down.n, 3);
    assert_int_equal(down.last, 8);
    store_close(s);
}

/* ---- actions and keyframes ------------------------------------------------------------------- */

static bool check_outcome(void *ctx, const struct store_decision *d, const struct store_target *t)
{
    (void)ctx;
    (void)t;
    assert_int_equal(d->action, STORE_FAILED);
    assert_int_equal(d->action_us, T0 + 3 * STEP);
    assert_string_equal(d->outcome, "409 twice");
    return true;
}

TEST(an_outcome_replaces_the_intent_and_a_decision_no_longer_kept_is_said_to_be_so)
{
    struct store *s = open_store(new_path("outcome.db"));
    struct err e;
    int64_t id = put_one(s, put_target(s, "a"), T0);
    struct store_query pending = {.pending = true};
    assert_int_equal(count_of(s, &pending), 1);
    assert_ok(store_set_action(s, id, STORE_FAILED, T0 + 3 * STEP, "409 twice", &e), &e);
    assert_int_equal(count_of(s, &pending), 0);
    assert_ok(store_decision_get(s, id, check_outcome, NULL, &e), &e);
    assert_err(store_set_action(s, id + 1, STORE_DONE, T0, NULL, &e), ERR_MISSING, &e,
               "not kept any longer");
    assert_ok(store_begin(s, &e), &e); /* nor does it cost a round */
    assert_err(store_set_action(s, id + 1, STORE_DONE, T0, NULL, &e), ERR_MISSING, &e, NULL);
    assert_ok(store_commit(s, &e), &e);
    store_close(s);
}

TEST(the_keyframe_before_a_decision_is_of_the_same_target_and_role)
{
    struct store *s = open_store(new_path("keyframe.db"));
    struct err e;
    int64_t a = put_target(s, "a"), b = put_target(s, "b"), id, found;
    const struct {
        int64_t target;
        enum store_role role;
        bool state;
    } row[] = {{a, STORE_ACTING, true},  {b, STORE_ACTING, true},  {a, STORE_SHADOW, true},
               {a, STORE_ACTING, false}, {b, STORE_ACTING, false}, {a, STORE_SHADOW, false},
               {a, STORE_ACTING, true},  {a, STORE_ACTING, false}};
    static const int64_t want[] = {1, 2, 3, 1, 2, 3, 7, 7};
    for (size_t i = 0; i < ARRAY_LEN(row); i++) {
        struct store_decision d = decision_of(row[i].target, T0);
        d.role = row[i].role;
        d.state = row[i].state ? d.view : (struct store_blob){0};
        assert_ok(store_put_decision(s, &d, &id, &e), &e);
        assert_ok(store_keyframe_before(s, id, &found, &e), &e);
        assert_int_equal(found, want[i]);
    }
    assert_ok(store_keyframe_before(s, 99, &found, &e), &e);
    assert_int_equal(found, 0);
    assert_int_equal(info_of(s).keyframes, 4);
    store_close(s);
}

/* ---- samples, forecasts, notes --------------------------------------------------------------- */

struct seen {
    int n;
    float qps[8];
    int64_t last_us;
};

static bool on_sample(void *ctx, const struct store_sample *x)
{
    struct seen *k = ctx;
    assert_true(x->time_us > k->last_us);
    assert_true(isnan(x->value[FIELD_GPU_UTIL]));
    k->last_us = x->time_us;
    k->qps[k->n++ % 8] = x->value[FIELD_QPS];
    return true;
}

static struct store_sample sample_at(int64_t target, int64_t time_us, float qps)
{
    struct store_sample x = {.target_id = target, .time_us = time_us};
    for (int f = 0; f < FIELD_COUNT; f++)
        x.value[f] = NAN;
    x.value[FIELD_QPS] = qps;
    return x;
}

TEST(samples_come_back_in_time_order_missing_stays_missing_and_the_last_of_a_time_wins)
{
    struct store *s = open_store(new_path("samples.db"));
    struct err e;
    int64_t a = put_target(s, "a"), b = put_target(s, "b");
    struct seen k = {0};
    for (int i = 5; i-- > 0;) {
        struct store_sample x = sample_at(a, T0 + i * STEP, (float)i),
                            y = sample_at(b, T0 + i * STEP, 100);
        assert_ok(store_put_sample(s, &x, &e), &e);
        assert_ok(store_put_sample(s, &y, &e), &e);
    }
    struct store_sample x = sample_at(a, T0 + 2 * STEP, 42);
    assert_ok(store_put_sample(s, &x, &e), &e);
    assert_ok(store_samples(s, a, T0 + STEP, T0 + 4 * STEP, on_sample, &k, &e), &e);
    assert_int_equal(k.n, 3);
    assert_near(k.qps[0], 1, 0, 0);
    assert_near(k.qps[1], 42, 0, 0);
    assert_near(k.qps[2], 3, 0, 0);
    assert_int_equal(info_of(s).samples, 10);
    store_close(s);
}

struct levels {
    int n, known;
    double actual[FORECAST_LEVELS];
    int64_t span_us[FORECAST_LEVELS];
};

static bool on_forecast(void *ctx, const struct store_forecast *f)
{
    struct levels *l = ctx;
    assert_int_equal(f->level, l->n);
    assert_near(f->mean, 10 * f->level, 0, 0);
    assert_near(f->hi95, 10 * f->level + 5, 0, 0);
    l->span_us[l->n] = f->to_us - f->from_us;
    l->actual[l->n++] = f->actual;
    l->known += !isnan(f->actual);
    return true;
}

static struct levels levels_of(struct store *s, int64_t target)
{
    struct levels l = {0};
    struct err e;
    assert_ok(store_forecasts(s, target, T0, T0 + 1, on_forecast, &l, &e), &e);
    assert_int_equal(l.n, FORECAST_LEVELS);
    return l;
}

TEST(forecasts_learn_what_happened_once_their_span_is_over_and_was_measured)
{
    const int64_t min = 60000000;
    struct store *s = open_store(new_path("forecasts.db"));
    struct err e;
    int64_t a = put_target(s, "a"), filled;
    struct forecast f = {.made_us = T0};
    for (int i = 0; i < FORECAST_LEVELS; i++) {
        f.mean[i] = 10.0f * (float)i;
        f.hi95[i] = f.mean[i] + 5;
    }
    assert_ok(store_put_forecast(s, a, &f, &e), &e);
    for (int i = 1; i <= 120; i++) { /* of the second five minutes, only 15 of 20 steps */
        struct store_sample x = sample_at(a, T0 + i * STEP, i > 20 && i <= 25 ? NAN : (float)i);
        assert_ok(store_put_sample(s, &x, &e), &e);
    }
    assert_ok(store_fill_actuals(s, T0 + 5 * min - 1, STEP, &filled, &e), &e);
    assert_int_equal(filled, 0);
    assert_ok(store_fill_actuals(s, T0 + 5 * min, STEP, &filled, &e), &e);
    assert_int_equal(filled, 1);
    assert_near(levels_of(s, a).actual[0], 10.5, 1e-12, 0); /* steps 1 to 20 */
    assert_ok(store_fill_actuals(s, T0 + 30 * min, STEP, &filled, &e), &e);
    assert_int_equal(filled, 2);
    struct levels l = levels_of(s, a);
    assert_int_equal(l.known, 3);
    assert_true(isnan(l.actual[1]));
    assert_near(l.actual[2], 50.5, 1e-12, 0);
    assert_near(l.actual[3], (7260.0 - 115) / 115, 1e-9, 0); /* 1 + ... + 120 less 21 + ... + 25 */
    assert_int_equal(l.span_us[0], 5 * min);
    assert_int_equal(l.span_us[3], 30 * min);
    assert_ok(store_fill_actuals(s, T0 + 300 * min, STEP, &filled, &e), &e);
    assert_int_equal(filled, 0);
    assert_int_equal(info_of(s).forecasts_known, 3);
    store_close(s);
}

static bool on_note(void *ctx, const struct store_note *n)
{
    int *seen = ctx;
    if ((*seen)++ == 0) {
        assert_int_equal(n->kind, STORE_NOTE_FREEZE);
        assert_string_equal(n->author, "ann");
        assert_null(n->text);
        assert_int_equal(n->target_id, 0);
        assert_int_equal(n->until_us, 0);
    } else {
        assert_int_equal(n->kind, STORE_NOTE_OVERRIDE);
        assert_int_equal(n->target_id, 3);
        assert_int_equal(n->until_us, T0 + 100);
    }
    return true;
}

TEST(notes_keep_who_what_and_until_when)
{
    const char *path = new_path("notes.db");
    struct store *s = open_store(path);
    struct err e;
    int n = 0;
    struct store_note a = {.time_us = T0, .kind = STORE_NOTE_FREEZE, .author = "ann"};
    struct store_note b = {.time_us = T0 + 1,
                           .kind = STORE_NOTE_OVERRIDE,
                           .target_id = 3,
                           .author = "bob",
                           .text = "sale",
                           .until_us = T0 + 100};
    assert_ok(store_put_note(s, &a, &e), &e);
    assert_ok(store_put_note(s, &b, &e), &e);
    run_sql(path,
            "INSERT INTO notes (time_us, kind) VALUES (1709510400000001, 'of another version')");
    assert_ok(store_notes(s, T0, T0 + 2, on_note, &n, &e), &e);
    assert_int_equal(n, 2);
    for (int k = 0; k < STORE_NOTES; k++)
        assert_non_null(store_note_name((enum store_note_kind)k));
    store_close(s);
}

/* ---- rounds ---------------------------------------------------------------------------------- */

TEST(a_round_is_seen_by_readers_as_a_whole_once_it_is_committed)
{
    const char *path = new_path("round.db");
    struct store *s = open_store(path), *r;
    struct err e;
    int64_t id, target = put_target(s, "a");
    const struct store_query all = {0};
    struct store_decision d = decision_of(target, T0);
    r = open_reader(path);
    assert_ok(store_begin(s, &e), &e);
    for (int i = 0; i < 5; i++)
        assert_ok(store_put_decision(s, &d, &id, &e), &e);
    assert_int_equal(count_of(r, &all), 0);
    assert_ok(store_commit(s, &e), &e);
    assert_int_equal(count_of(r, &all), 5);
    assert_ok(store_begin(s, &e), &e);
    assert_ok(store_put_decision(s, &d, &id, &e), &e);
    store_rollback(s);
    store_rollback(s); /* also without a round */
    assert_int_equal(count_of(r, &all), 5);
    store_close(r);
    store_close(s);
}

static bool check_holder(void *ctx, const struct store_decision *d, const struct store_target *t)
{
    (void)ctx;
    (void)t;
    assert_non_null(d->holder);
    assert_string_equal(d->holder, "replica-0");
    return true;
}

TEST(a_put_that_fails_loses_the_round_with_its_own_error)
{
    struct store *s = open_store(new_path("lost.db"));
    struct err e;
    char *holder = mem_zero(1, 400);
    int64_t id, target = put_target(s, "a");
    struct store_decision d = decision_of(target, T0);
    memset(holder, 'x', 399);
    assert_ok(store_begin(s, &e), &e);
    assert_ok(store_put_decision(s, &d, &id, &e), &e);
    d.holder = holder;
    assert_err(store_put_decision(s, &d, &id, &e), ERR_LIMIT, &e, "longer than");
    d.holder = "replica-0";
    assert_err(store_put_decision(s, &d, &id, &e), ERR_LIMIT, &e, "longer than");
    assert_err(store_commit(s, &e), ERR_LIMIT, &e, "longer than");
    assert_int_equal(info_of(s).decisions, 0);
    assert_ok(store_begin(s, &e), &e);
    assert_ok(store_put_decision(s, &d, &id, &e),
              &e); /* the holder's row went with the round, and is made again */
    assert_ok(store_commit(s, &e), &e);
    assert_int_equal(info_of(s).decisions, 1);
    assert_ok(store_decision_get(s, id, check_holder, NULL, &e), &e);
    mem_free(holder);
    store_close(s);
}

TEST(memory_of_a_round_does_not_grow)
{
    struct store *s = open_store(new_path("flat.db"));
    struct err e;
    struct store_tended tended;
    int64_t id, target = put_target(s, "a"), used = 0;
    for (int r = 0; r < 60; r++) {
        assert_ok(store_begin(s, &e), &e);
        for (int i = 0; i < 50; i++) {
            struct store_decision d = decision_of(target, T0 + r * STEP);
            struct store_sample x = sample_at(target, T0 + (r * 50 + i) * STEP, 1);
            assert_ok(store_put_decision(s, &d, &id, &e), &e);
            assert_ok(store_put_sample(s, &x, &e), &e);
        }
        assert_ok(store_commit(s, &e), &e);
        assert_ok(store_set_action(s, id, STORE_DONE, T0, "ok", &e), &e);
        assert_ok(store_tend(s, T0, &tended, &e), &e);
        if (r == 30)
            used = (int64_t)sqlite3_memory_used();
    }
    int64_t pages = 16 << 20; /* the page cache fills up to its limit */
    assert_true((int64_t)sqlite3_memory_used() - used < pages);
    store_close(s);
}
