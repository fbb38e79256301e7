/* promote_test.c - made-up stores whose verdict is known: a win, a tie, a loss, misses, too few
 * days; and both at work live. */
#include "daemon/promote.h"

#include "base/clock.h"

#include "base/json.h"
#include "tests/unit/daemon/record_fixture.h"

/* `hours` of a calm daily wave at the decision step, recorded as decided by the fixture's policy.
 */
static void live(struct fix *f, int hours)
{
    struct err e;
    int64_t end_us = f->now_us + hours * INT64_C(3600000000);
    assert_ok(store_begin(f->store, &e), &e);
    while (f->now_us < end_us) {
        fix_step(f);
        struct store_sample x = {.target_id = f->target_id, .time_us = f->now_us};
        for (int i = 0; i < FIELD_COUNT; i++)
            x.value[i] = NAN;
        x.value[FIELD_QPS] = f->view.qps_last;
        x.value[FIELD_P99_LATENCY_MS] = 100;
        assert_ok(store_put_sample(f->store, &x, &e), &e);
    }
    assert_ok(store_commit(f->store, &e), &e);
}

static struct promote *promoted(struct fix *f, const struct promote_opts *o)
{
    struct promote *p = NULL;
    struct err e;
    assert_ok(promote_new(&f->store, 1, o, &p, &e), &e);
    return p;
}

static void assert_verdict(const struct promotion *r, enum promotion_verdict want,
                           const char *words)
{
    struct buf b = buf_init(1 << 20);
    promotion_format(r, CLI_TABLE, false, &b);
    if (r->verdict != want || !strstr(b.p, words))
        fail_msg("expected %s and \"%s\":\n%s", promotion_verdict_name(want), words, b.p);
    buf_fini(&b);
}

/* A store of so many hours; violation_max in the spec from its beginning. */
static struct fix *store_of(const char *file, const char *policy, int hours, double violation_max)
{
    struct fix *f = fix_new(file, policy);
    f->chance = rng_stream(7, "demand");
    f->cfg.spec.slo_violation_max = violation_max;
    fix_configure(f);
    live(f, hours);
    return f;
}

TEST(a_cheaper_challenger_that_keeps_the_slo_is_promoted)
{
    struct fix *f = store_of("promote-win.db", "static", 96, 0.2);
    struct promote_opts o = promote_opts_default("mpc");
    o.n_seeds = 2;
    struct promote *p = promoted(f, &o);
    const struct promotion *r = promote_result(p);
    assert_verdict(r, PROMOTION_PROMOTE, "Promote: mpc costs");
    assert_string_equal(r->champion, "static");
    assert_int_equal(r->days, 4);
    assert_true(r->cost_frac.lo < r->cost_frac.mean && r->cost_frac.mean < r->cost_frac.hi &&
                r->cost_frac.hi < -0.3);
    assert_true(r->misses.hi < 0.2 * 0.2);
    assert_string_equal(r->setting, "policy: mpc");
    assert_non_null(strstr(r->words, "seven days would be better"));
    promote_free(p);
    fix_free(f);
}

TEST(the_stores_of_both_replicas_tell_together_what_neither_tells_alone)
{
    struct fix *a = store_of("promote-a.db", "static", 48, 0.2), *b = fix_new("promote-b.db", "static");
    b->chance = rng_stream(8, "demand");
    b->cfg.spec.slo_violation_max = 0.2;
    b->now_us = a->now_us; /* it leads from here on */
    fix_configure(b);
    live(b, 48);
    struct promote_opts o = promote_opts_default("mpc");
    o.n_seeds = 2;
    struct store *const both[] = {b->store, a->store};
    struct promote *p = promoted(a, &o), *q = promoted(b, &o);
    struct err e;
    assert_int_equal(promote_result(p)->verdict, PROMOTION_TOO_SHORT);
    assert_int_equal(promote_result(q)->verdict, PROMOTION_TOO_SHORT);
    promote_free(p);
    promote_free(q);
    assert_ok(promote_new(both, 2, &o, &p, &e), &e);
    const struct promotion *r = promote_result(p);
    assert_verdict(r, PROMOTION_PROMOTE, "Promote: mpc costs");
    assert_int_equal(r->days, 4);
    assert_int_equal(r->n_targets, 1);
    assert_string_equal(r->champion, "static");
    promote_free(p);
    fix_free(a);
    fix_free(b);
}

TEST(a_cheaper_challenger_that_misses_more_is_not_promoted)
{
    struct fix *f = store_of("promote-misses.db", "static", 96, 0.01);
    struct promote_opts o = promote_opts_default("mpc");
    o.n_seeds = 2;
    struct promote *p = promoted(f, &o);
    assert_verdict(promote_result(p), PROMOTION_MISSES,
                   "where 0.20 % is tolerated; worst: shop/search");
    assert_null(promote_result(p)->setting);
    promote_free(p);
    fix_free(f);
}

TEST(a_tie_and_a_dearer_challenger_are_not_promoted)
{
    struct fix *f = store_of("promote-tie.db", "hpa", 96, 0.2);
    struct promote_opts o = promote_opts_default("hpa");
    o.n_seeds = 2;
    o.champion = "hpa:gpu=0.7"; /* its own default */
    struct promote *p = promoted(f, &o);
    assert_verdict(promote_result(p), PROMOTION_NO_WIN, "which may be chance");
    assert_near(promote_result(p)->cost_frac.hi, 0, 0, 0);
    promote_free(p);
    o = promote_opts_default("static");
    o.n_seeds = 2;
    p = promoted(f, &o);
    assert_verdict(promote_result(p), PROMOTION_DEARER, "% more over 4 days, significantly");
    promote_free(p);
    fix_free(f);
}

TEST(two_days_are_too_few_however_clear)
{
    struct fix *f = store_of("promote-short.db", "static", 48, 0.2);
    struct promote_opts o = promote_opts_default("mpc");
    o.n_seeds = 1;
    struct promote *p = promoted(f, &o);
    assert_verdict(promote_result(p), PROMOTION_TOO_SHORT, "2 days are recorded");
    assert_true(promote_result(p)->cost_frac.mean < -0.3);
    promote_free(p);
    fix_free(f);
}

TEST(questions_that_cannot_be_answered_say_why)
{
    static const struct {
        const char *challenger, *champion, *target;
        int64_t since_us, until_us;
        const char *error;
    } cases[] = {
        {"hpa", NULL, NULL, 0, 0, "hpa already decides every target of this time"},
        {"hpa+guard", NULL, NULL, 0, 0, "already decides"},
        {"mpc", "mpc", NULL, 0, 0, "champion and challenger are both mpc"},
        {"hpa:gpu=0.6", NULL, NULL, 0, 0, "run with their defaults"},
        {"mpcc", NULL, NULL, 0, 0, "did you mean"},
        {"oracle", NULL, NULL, 0, 0, "the oracle knows the future"},
        {"nowhere.safetensors", NULL, NULL, 0, 0, "nowhere.safetensors"},
        {"mpc", NULL, "shop/chat", 0, 0, "has no target shop/chat"},
        {"mpc", NULL, NULL, 1, 2, "holds no decision of that time"},
    };
    struct fix *f = store_of("promote-wrong.db", "hpa", 6, 0.2);
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct promote_opts o = promote_opts_default(cases[i].challenger);
        struct promote *p = NULL;
        struct err e = {0};
        o.champion = cases[i].champion;
        o.target = cases[i].target;
        o.since_us = cases[i].since_us;
        o.until_us = cases[i].until_us;
        if (!promote_new(&f->store, 1, &o, &p, &e) || !strstr(e.msg, cases[i].error))
            fail_msg("%s: \"%s\" is not in \"%s\"", cases[i].challenger, cases[i].error, e.msg);
    }
    fix_free(f);
}

/* ---- both at work -----------------------------------------------------------------------------
 */

static void act_as(struct fix *f, const char *policy)
{
    policy_use_default(&f->cfg.main, policy_find(policy));
    fix_configure(f);
}

static struct promote *live_only(struct fix *f)
{
    struct promote_opts o = promote_opts_default("mpc");
    o.champion = "static";
    o.n_seeds = 1;
    return promoted(f, &o);
}

TEST(alternating_periods_are_paired_and_few_of_them_say_so)
{
    struct fix *f = fix_new("promote-switch.db", "static");
    for (int i = 0; i < 6; i++) {
        act_as(f, i % 2 ? "mpc" : "static");
        live(f, 2);
    }
    struct promote *p = live_only(f);
    assert_verdict(promote_result(p), PROMOTION_TOO_SHORT,
                   "by period: 3 periods of the champion, 3 of the challenger");
    assert_verdict(promote_result(p), PROMOTION_TOO_SHORT, "too few to say (8 each at least)");
    promote_free(p);
    for (int i = 0; i < 12; i++) {
        act_as(f, i % 2 ? "mpc" : "static");
        live(f, 2);
    }
    p = live_only(f);
    const struct promotion_live *s = &promote_result(p)->switchback;
    assert_true(s->enough);
    assert_int_equal(s->n_champion, 9);
    assert_true(s->units_frac.hi < 0); /* 24 units against what demand asks for */
    assert_near(s->misses.mean, 0, 0, 0);
    assert_int_equal(promote_result(p)->ab.n, 0);
    promote_free(p);
    fix_free(f);
}

TEST(targets_of_both_policies_are_compared_as_groups)
{
    struct fix *f = fix_new("promote-ab.db", "static");
    int64_t start_us = f->now_us;
    for (int i = 0; i < 12; i++) {
        struct err e;
        struct store_target t = {.cluster = "test",
                                 .group = "apps",
                                 .kind = "Deployment",
                                 .namespace_ = "shop",
                                 .name = test_path("s%d", i),
                                 .uid = test_path("u%d", i)};
        f->now_us = start_us;
        assert_ok(store_target_id(f->store, &t, f->now_us, &f->target_id, &e), &e);
        act_as(f, i % 2 ? "mpc" : "static");
        f->stream = (struct record_stream){0};
        live(f, 3);
        if (i != 5)
            continue;
        struct promote *p = live_only(f);
        assert_int_equal(promote_result(p)->ab.n_challenger, 3);
        assert_false(promote_result(p)->ab.enough);
        promote_free(p);
    }
    struct promote *p = live_only(f);
    const struct promotion_live *a = &promote_result(p)->ab;
    assert_true(a->enough);
    assert_int_equal(a->n_champion, 6);
    assert_int_equal(a->n_challenger, 6);
    assert_true(a->units_frac.hi < 0);
    assert_int_equal(promote_result(p)->switchback.n, 0);
    promote_free(p);
    fix_free(f);
}

/* One step of the acting policy, and of another beside it. */
static void step_with_shadow(struct fix *f, struct capacity_config *other,
                             struct capacity_state *memory, int64_t config_id,
                             struct record_stream *stream)
{
    struct capacity_record record = {0};
    struct capacity_plan plan;
    struct capacity_state *after = mem_zero(1, sizeof *after);
    struct rng rng = f->rng, before = f->rng;
    struct err e;
    int64_t id;
    live(f, 0);
    fix_step(f);
    capacity_state_init(other, after);
    decide_capacity(other, &f->view, memory, &rng, after, &plan, &record);
    struct record_input in = fix_input(f, &before);
    in.config_id = config_id;
    in.role = STORE_SHADOW;
    in.cfg = other;
    in.before = memory;
    in.after = after;
    in.rng_after = &rng;
    in.record = &record;
    in.intent = false;
    assert_ok(record_put(f->rec, stream, &in, &id, &e), &e);
    capacity_state_copy(other, memory, after);
    mem_free(after);
}

TEST(shadow_rows_tell_how_often_the_challenger_would_have_differed)
{
    struct fix *f = fix_new("shadow-promote.db", "static");
    struct capacity_config other = f->cfg;
    struct capacity_state *memory = mem_zero(1, sizeof *memory);
    struct record_stream stream = {0};
    int64_t config_id;
    struct err e;
    policy_use_default(&other.main, policy_find("mpc"));
    assert_ok(capacity_config_finish(&other, &e), &e);
    assert_ok(record_config(f->store, &other, &f->source, f->now_us, &config_id, &e), &e);
    capacity_state_init(&other, memory);
    for (int i = 0; i < 400; i++) {
        step_with_shadow(f, &other, memory, config_id, &stream);
        struct store_sample x = {.target_id = f->target_id, .time_us = f->now_us};
        x.value[FIELD_QPS] = f->view.qps_last;
        assert_ok(store_put_sample(f->store, &x, &e), &e);
    }
    struct promote *p = live_only(f);
    const struct promotion_live *s = &promote_result(p)->shadow;
    assert_in_range(s->n, 100, 400);
    assert_in_range(s->n_challenger, 1, 1000);
    assert_true(s->units_frac.mean < 0);
    assert_false(s->enough);
    promote_free(p);
    mem_free(memory);
    fix_free(f);
}

/* ---- as JSON ----------------------------------------------------------------------------------
 */

TEST(a_promotion_as_json_has_numbers_verdict_and_setting)
{
    struct fix *f = store_of("promote-json.db", "static", 80, 0.2);
    struct promote_opts o = promote_opts_default("mpc");
    struct json_doc *doc;
    struct err e;
    o.n_seeds = 1;
    struct promote *p = promoted(f, &o);
    struct buf b = buf_init(1 << 20);
    promotion_format(promote_result(p), CLI_JSON, false, &b);
    assert_ok(json_parse(b.p, b.n, 1 << 20, "promotion", &doc, &e), &e);
    const struct json *root = json_root(doc);
    assert_true(json_is_true(json_find(root, "promote")));
    assert_string_equal(json_text(json_find(root, "verdict")), "promote");
    assert_string_equal(json_text(json_find(root, "setting")), "policy: mpc");
    assert_true(json_number(json_find(json_find(root, "cost_frac"), "hi")) < 0);
    assert_true(json_is_null(json_find(root, "by_target")));
    assert_int_equal(json_count(json_find(root, "targets")), 1);
    json_free(doc);
    buf_fini(&b);
    promote_free(p);
    fix_free(f);
}
