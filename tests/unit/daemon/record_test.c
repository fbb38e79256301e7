/* record_test.c - configurations, views and records survive the store to the bit; damage is
 * noticed. */
#include "daemon/record_priv.h"
#include "decide/explain.h"
#include "tests/unit/daemon/record_fixture.h"

/* ---- configuration --------------------------------------------------------------------------- */

static const struct latency_point curve[] = {
    {1, 20, 40}, {33.3, 22.25, 47.125}, {60.1, 31, 90}, {79.9, 77, 411.5}};

static char *text_of(const struct capacity_config *cfg, const struct record_source *src)
{
    struct buf b = buf_init(1 << 18);
    struct err e;
    record_config_text(cfg, src, &b);
    assert_ok(buf_check(&b, &e), &e);
    return buf_take(&b);
}

/* Same after having been text, and the same text again. */
static void check_rebuilt(const struct capacity_config *cfg, const struct record_source *src)
{
    struct record_rebuilt *r;
    struct err e;
    const char *by;
    char *text = text_of(cfg, src);
    assert_ok(record_rebuild(text, NULL, &r, &e), &e);
    struct capacity_config *got = record_rebuilt_config(r);
    assert_true(got->version == cfg->version);
    assert_int_equal(got->spec.units_max, cfg->spec.units_max);
    assert_int_equal(got->spec.start_us, cfg->spec.start_us);
    assert_int_equal(got->spec.cls, cfg->spec.cls);
    assert_memory_equal(&got->spec.price_usd_h, &cfg->spec.price_usd_h, sizeof(double));
    assert_memory_equal(&got->guard.staged_frac, &cfg->guard.staged_frac, sizeof(double));
    assert_memory_equal(got->spec.latency->load_max + 1, cfg->spec.latency->load_max + 1,
                        (size_t)cfg->spec.units_max * sizeof(float));
    assert_memory_equal(got->need_grid, cfg->need_grid, sizeof got->need_grid);
    assert_true(got->main.policy == cfg->main.policy && got->rule.policy == cfg->rule.policy);
    assert_int_equal(record_rebuilt_fit(r, &by), RECORD_SAME_BUILD);
    char *again = text_of(got, record_rebuilt_source(r));
    assert_string_equal(text, again);
    mem_free(again);
    record_rebuilt_free(r);
    mem_free(text);
}

TEST(a_configuration_is_the_same_after_having_been_text)
{
    struct latency_model erlang, measured;
    struct err e;
    assert_ok(latency_from_erlang(25.1, 3, 40, 200, &erlang, &e), &e);
    assert_ok(latency_from_curve(curve, ARRAY_LEN(curve), 79.5, 40, 200, &measured, &e), &e);
    const struct record_source source[] = {
        {.latency = {.kind = RECORD_ERLANG, .service_ms = 25.1, .slots = 3},
         .zone = "Europe/Berlin"},
        {.latency = {.kind = RECORD_CURVE,
                     .unit_qps = 79.5,
                     .point = curve,
                     .n_points = ARRAY_LEN(curve)}},
    };
    int n = 0;
    for (size_t i = 0; i < policy_count(); i++)
        for (int k = 0; k < 2; k++) {
            const struct policy *p = policy_at(i);
            struct capacity_config cfg;
            if (strcmp(p->name, "outlook") == 0)
                continue; /* needs its network: replay_test */
            capacity_config_default(&cfg, p);
            cfg.spec = fix_spec(k ? &measured : &erlang);
            cfg.spec.price_usd_h = 1.0 / 3;
            cfg.spec.start_us = 123456789;
            cfg.guard.staged_frac = 0.7000000000000001;
            cfg.guard.cooldown_in_us = 61000001;
            cfg.guarded = k;
            policy_use_default(&cfg.rule, policy_find("hpa"));
            cfg.rule.opt.hpa.tolerance = 0.1 + 1e-17;
            assert_ok(capacity_config_finish(&cfg, &e), &e);
            check_rebuilt(&cfg, &source[k]);
            n++;
        }
    assert_true(n >= 14);
    latency_fini(&erlang);
    latency_fini(&measured);
}

TEST(a_configuration_that_cannot_be_made_again_says_why)
{
    struct fix *f = fix_new("text.db", "mpc");
    char *text = text_of(&f->cfg, &f->source);
    static const struct {
        const char *old, *new, *why;
        enum err_code code;
    } edit[] = {
        {"  version: 1\n", "  version: 2\n", "version 2", ERR_MISMATCH},
        {"name: mpc", "name: mpd", "knows no policy", ERR_MISMATCH},
        {"lambda: ", "lambdas: ", "reads the options", ERR_MISMATCH},
        {"units_max: 24", "units_max: -4", "no number of units", ERR_RANGE},
        {"units_max: 24", "units_max: 9999999999", "no number of units", ERR_RANGE},
        {"slots: 2", "slots: 3", "is not the one decided with", ERR_MISMATCH},
        {"slots: 2", "slots: -2", "slots out of range", ERR_RANGE},
        {"kind: erlang", "kind: curve", "latency", ERR_INVAL},
        {"kind: erlang", "kind: wave", "kind", ERR_PARSE},
        {"config:", "conf:", "no config", ERR_PARSE},
        {"price_usd_h: 2.1", "price_usd_h: -1", "price", ERR_RANGE},
    };
    for (size_t i = 0; i < ARRAY_LEN(edit); i++) {
        struct record_rebuilt *r;
        struct err e;
        struct buf b = buf_init(1 << 18);
        char *at = strstr(text, edit[i].old);
        if (!at)
            fail_msg("the text has no \"%s\":\n%s", edit[i].old, text);
        buf_fmt(&b, "%.*s%s%s", (int)(at - text), text, edit[i].new, at + strlen(edit[i].old));
        assert_err(record_rebuild(b.p, NULL, &r, &e), edit[i].code, &e, edit[i].why);
        buf_fini(&b);
    }
    mem_free(text);
    fix_free(f);
}

TEST(one_configuration_has_one_row_and_a_changed_one_another)
{
    struct fix *f = fix_new("row.db", "hpa");
    struct err e;
    int64_t id = f->config_id;
    fix_configure(f);
    assert_int_equal(f->config_id, id);
    f->cfg.guard.cooldown_in_us += 1000000;
    fix_configure(f);
    assert_int_not_equal(f->config_id, id);
    f->source.policy_file = "/nowhere/p.safetensors"; /* cannot be read: recorded as that */
    assert_ok(record_config(f->store, &f->cfg, &f->source, 0, &id, &e), &e);
    assert_int_not_equal(f->config_id, id);
    fix_free(f);
}

/* ---- blobs ----------------------------------------------------------------------------------- */

/* Any view that is allowed, unusual floats included. */
static void random_view(struct rng *r, struct capacity_view *v)
{
    float *const number[] = {v->value,
                             &v->qps_last,
                             v->forecast.mean,
                             v->forecast.lo80,
                             v->forecast.hi80,
                             v->forecast.lo95,
                             v->forecast.hi95,
                             &v->forecast.base,
                             &v->forecast.slot_p95,
                             &v->forecast.high,
                             &v->forecast.hours_to_peak,
                             &v->forecast.uncertainty,
                             &v->weight_latency,
                             &v->weight_cost,
                             &v->foresight_qps};
    static const int n[] = {FIELD_COUNT,
                            1,
                            FORECAST_LEVELS,
                            FORECAST_LEVELS,
                            FORECAST_LEVELS,
                            FORECAST_LEVELS,
                            FORECAST_LEVELS,
                            1,
                            1,
                            1,
                            1,
                            1,
                            1,
                            1,
                            1};
    memset(v, 0, sizeof *v);
    v->now_us = (int64_t)(rng_next(r) >> 2) - (INT64_C(1) << 61);
    v->units_requested = (int)rng_below(r, 4097);
    v->units_failed = (int)rng_below(r, 4097);
    v->budget_units = (int)rng_below(r, 1 << 30);
    v->warm[rng_below(r, CAPACITY_WARM_BINS)] = (int)rng_below(r, 4097);
    v->sample_us = v->now_us - 5;
    v->warm_oldest_us = (int64_t)rng_below(r, 1 << 30);
    for (size_t i = 0; i < ARRAY_LEN(number); i++)
        for (int k = 0; k < n[i]; k++) {
            uint32_t bits = (uint32_t)rng_next(r);
            memcpy(&number[i][k], &bits, sizeof bits);
        }
    v->forecast.usable = rng_below(r, 2);
    v->when = (struct calendar_point){.day = (int32_t)rng_next(r),
                                      .minute = (int16_t)rng_below(r, 1440),
                                      .slot = (int8_t)rng_below(r, 96),
                                      .weekday = (int8_t)rng_below(r, 7),
                                      .month_end = rng_below(r, 2)};
    v->claims = (struct capacity_claims){.frozen = rng_below(r, 2),
                                         .owned_by_other = rng_below(r, 2),
                                         .override_on = true,
                                         .override_units = (int)rng_below(r, 4097),
                                         .override_until_us = v->now_us};
}

TEST(any_view_comes_back_to_the_bit_and_no_part_of_it_does_for_another)
{
    struct rng r = rng_stream(test_seed(), "views");
    for (int i = 0; i < 2000; i++) {
        struct capacity_view v, back;
        unsigned char a[VIEW_BLOB_MAX], b[VIEW_BLOB_MAX];
        struct err e;
        random_view(&r, &v);
        struct wire w = wire_write(a, sizeof a);
        wire_view(&w, &v);
        assert_false(w.bad);
        struct store_decision d = {.view = {a, w.at}};
        assert_ok(record_view(&d, &back, &e), &e);
        struct wire again = wire_write(b, sizeof b);
        wire_view(&again, &back);
        assert_int_equal(again.at, w.at);
        assert_memory_equal(a, b, w.at);
        assert_memory_equal(v.value, back.value, sizeof v.value);
        assert_memory_equal(&v.forecast.mean, &back.forecast.mean, sizeof v.forecast.mean);
        assert_int_equal(v.when.day, back.when.day);
        d.view.n = rng_below(&r, (uint32_t)w.at);
        assert_int_not_equal(record_view(&d, &back, &e), ERR_OK);
        d.view.n = w.at + 1;
        assert_err(record_view(&d, &back, &e), ERR_PARSE, &e, "damaged");
    }
}

struct caught {
    struct store_decision d;
    struct capacity_view view;
    struct capacity_record record;
    unsigned char bytes[4][1024];
    struct rng rng;
    bool drew;
};

static bool catch_row(void *ctx, const struct store_decision *d, const struct store_target *t)
{
    struct caught *c = ctx;
    struct err e;
    (void)t;
    assert_ok(record_view(d, &c->view, &e), &e);
    assert_ok(record_read(d, &c->record, &e), &e);
    assert_ok(record_rng(d, &c->rng, &c->drew, &e), &e);
    const struct store_blob *const blob[] = {&d->view, &d->obs, &d->choice, &d->chain};
    c->d = *d;
    c->d.policy = c->record.policy; /* the row's text goes with the row */
    c->d.rule = c->record.rule;
    struct store_blob *const mine[] = {&c->d.view, &c->d.obs, &c->d.choice, &c->d.chain};
    for (int i = 0; i < 4; i++) {
        assert_true(blob[i]->n <= sizeof c->bytes[i]);
        memcpy(c->bytes[i], blob[i]->p, blob[i]->n);
        *mine[i] = (struct store_blob){c->bytes[i], blob[i]->n};
    }
    assert_string_equal(d->holder, "replica-0");
    assert_string_equal(d->stage, "single");
    assert_non_null(strstr(d->why, d->decisive ? d->decisive : ""));
    assert_near(d->reward_cost, 0.25, 0, 0);
    assert_true(isnan(d->reward_slo));
    return true;
}

TEST(a_record_comes_back_to_the_bit)
{
    struct caught *c = mem_zero(1, sizeof *c);
    struct fix *f = fix_new("record.db", "mpc");
    struct err e;
    for (int i = 0; i < 200; i++) {
        fix_step(f);
        assert_ok(store_decision_get(f->store, f->id, catch_row, c, &e), &e);
        assert_memory_equal(c->view.value, f->view.value, sizeof c->view.value);
        assert_memory_equal(c->record.obs, f->record.obs, sizeof c->record.obs);
        for (int k = 0; k < GUARD_CHECKS; k++) {
            assert_int_equal(c->record.chain[k].reason, f->record.chain[k].reason);
            assert_int_equal(c->record.chain[k].hi, f->record.chain[k].hi);
            assert_memory_equal(c->record.chain[k].num, f->record.chain[k].num,
                                sizeof f->record.chain[k].num);
        }
        assert_int_equal(c->record.executed, f->record.executed);
        assert_int_equal(c->record.rule_units, f->record.rule_units);
        assert_true(c->record.inputs_hash == f->record.inputs_hash);
        assert_ptr_equal(c->record.policy, f->record.policy);
        assert_false(c->drew);
        assert_int_equal(c->d.action, f->plan.changed ? STORE_INTENDED : STORE_NONE);
    }
    mem_free(c);
    fix_free(f);
}

TEST(a_damaged_byte_is_an_error_or_another_value_but_never_a_crash)
{
    struct caught *c = mem_zero(1, sizeof *c);
    struct fix *f = fix_new("bytes.db", "mpc");
    struct err e;
    struct capacity_record r;
    struct capacity_view v;
    fix_steps(f, 20);
    assert_ok(store_decision_get(f->store, f->id, catch_row, c, &e), &e);
    struct store_blob *const mine[] = {&c->d.view, &c->d.obs, &c->d.choice, &c->d.chain};
    for (int i = 0; i < 4; i++)
        for (size_t at = 0; at < mine[i]->n; at++)
            for (int bit = 0; bit < 8; bit++) {
                struct buf words = buf_init(1 << 16);
                c->bytes[i][at] ^= (unsigned char)(1 << bit);
                if (!record_view(&c->d, &v, &e) && !record_read(&c->d, &r, &e))
                    explain_decision(&r, NULL, true, &words);
                else
                    assert_non_null(strstr(e.msg, "decision "));
                c->bytes[i][at] ^= (unsigned char)(1 << bit);
                buf_fini(&words);
            }
    mem_free(c);
    fix_free(f);
}

/* ---- streams --------------------------------------------------------------------------------- */

TEST(what_a_decision_drew_from_is_kept)
{
    struct caught *c = mem_zero(1, sizeof *c);
    struct fix *f = fix_new("drew.db", "hpa");
    struct rng before = rng_stream(3, "before");
    struct err e;
    fix_step(f);
    struct record_input in = fix_input(f, &before);
    assert_ok(record_put(f->rec, &f->stream, &in, &f->id, &e), &e);
    assert_ok(store_decision_get(f->store, f->id, catch_row, c, &e), &e);
    assert_true(c->drew);
    assert_memory_equal(&c->rng, &before, sizeof before);
    mem_free(c);
    fix_free(f);
}

TEST(keyframes_come_at_the_start_and_every_240_decisions_not_all_targets_at_once)
{
    struct fix *f = fix_new("often.db", "hpa");
    struct store_info i;
    struct err e;
    fix_steps(f, 239); /* the first stretch is shorter by the target's number */
    assert_ok(store_info(f->store, &i, &e), &e);
    assert_int_equal(i.keyframes, 1);
    fix_steps(f, 1);
    assert_ok(store_info(f->store, &i, &e), &e);
    assert_int_equal(i.keyframes, 2);
    fix_steps(f, 239);
    assert_ok(store_info(f->store, &i, &e), &e);
    assert_int_equal(i.keyframes, 2);
    fix_steps(f, 1);
    assert_ok(store_info(f->store, &i, &e), &e);
    assert_int_equal(i.keyframes, 3);
    fix_free(f);
}

TEST(the_words_of_a_decision_name_factors_and_the_check_that_decided)
{
    struct fix *f = fix_new("words.db", "mpc");
    bool limited = false;
    for (int i = 0; i < 200; i++) {
        fix_step(f);
        const char *why = record_why(f->rec);
        assert_true(strlen(why) > 10);
        const struct guard_result *g = explain_decisive(&f->record);
        if (g) {
            limited = true;
            assert_non_null(strstr(why, guard_check_name((enum guard_check)g->check)));
        }
    }
    assert_true(limited);
    fix_free(f);
}
