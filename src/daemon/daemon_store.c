/* daemon_store.c - a round in one transaction: samples, decisions, forecasts; then, when there is time, upkeep. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "base/num.h"
#include "daemon/daemon_priv.h"
#include "train/reward.h"

enum { ACTUALS_US = 300 * 1000000, TELL_AGAIN_US = 300 * 1000000 };

static struct live *live_of(struct target *t)
{
    return (struct live *)(void *)((char *)t - offsetof(struct live, target));
}

void daemon_keep_note(struct daemon *d, const struct store_note *note)
{
    struct store_note n = *note;
    struct err e;
    n.time_us = d->now_us;
    if (store_put_note(d->store, &n, &e))
        log_write(d->log, LOG_WARN, "store", "note is not kept", "error=\"%s\"", e.msg);
}

/* ---- identities ------------------------------------------------------------------------------- */

static enum err_code store_identity(struct daemon *d, struct live *l, struct err *e)
{
    const struct target_id *id = &l->target.id;
    struct store_target t = {.cluster = id->cluster, .group = id->group, .kind = id->kind,
                             .namespace_ = id->namespace_, .name = id->name, .uid = id->uid};
    return l->store_id ? ERR_OK : store_target_id(d->store, &t, d->now_us, &l->store_id, e);
}

static struct record_source source_of(const struct daemon *d, const struct live *l, const struct target_policy *p)
{
    const struct profile *f = &l->profile;
    struct record_source src = {.zone = d->config.c->timezone};
    if (f->n_curve > 0)
        src.latency = (struct record_latency){.kind = RECORD_CURVE,
                                              .unit_qps = l->target.latency.unit_qps,
                                              .point = f->curve,
                                              .n_points = f->n_curve};
    else
        src.latency = (struct record_latency){.kind = RECORD_ERLANG, .service_ms = f->service_ms, .slots = f->slots};
    if (p->learned.main.policy && p->error.code == ERR_OK)
        src.policy_file = p->path;
    return src;
}

/* The row of a policy's configuration; looked up again when it was configured anew. */
static enum err_code store_configuration(struct daemon *d, struct live *l, struct target_policy *p, int64_t *id,
                                         struct err *e)
{
    if (*id && p->stored)
        return ERR_OK;
    struct record_source src = source_of(d, l, p);
    enum err_code rc = record_config(d->store, &p->cfg, &src, d->now_us, id, e);
    p->stored = !rc;
    return rc;
}

/* ---- rows ------------------------------------------------------------------------------------- */

/* What the step that ended here was worth, by what was measured. */
static void fill_reward(struct live *l)
{
    const struct capacity_view *v = &l->target.view;
    const struct capacity_spec *s = &l->target.spec;
    double level = (double)l->target.main.state.sense.qps_level;
    double mean_units = level > 0 ? level / l->target.latency.unit_qps / 0.7 : 0;
    struct reward_weights w = reward_weights_of(REWARD_BALANCED);
    l->reward_cost = l->reward_slo = l->reward_churn = NAN;
    if (!isfinite(v->value[FIELD_P99_LATENCY_MS]) || !(mean_units > 0))
        return;
    struct reward_terms t =
        reward_of(&w, &(struct reward_input){.p99_ms = (double)v->value[FIELD_P99_LATENCY_MS],
                                             .target_ms = s->slo_p99_ms,
                                             .units = v->units_requested,
                                             .price_usd_h = s->price_usd_h,
                                             .price_ref_usd_h = fmax(mean_units, 0.1) * fmax(s->price_usd_h, 1e-6),
                                             .change = l->units_changed});
    l->reward_cost = t.cost;
    l->reward_slo = t.latency;
    l->reward_churn = t.churn;
    l->units_changed = 0;
}

static enum err_code put_decision(struct daemon *d, struct live *l, struct target_policy *p, enum store_role role,
                                  int64_t *config_id, struct record_stream *stream, int64_t *id, struct err *e)
{
    enum err_code rc = store_configuration(d, l, p, config_id, e);
    if (rc)
        return rc;
    struct record_input in = {.target_id = l->store_id,
                              .config_id = *config_id,
                              .role = role,
                              .stage = run_stage_names[d->config.c->stage],
                              .cfg = &p->cfg,
                              .view = &l->target.view,
                              .before = &p->before,
                              .after = &p->state,
                              .rng_before = &p->rng_before,
                              .rng_after = &p->rng,
                              .record = &p->record,
                              .reward_cost = l->reward_cost,
                              .reward_slo = l->reward_slo,
                              .reward_churn = l->reward_churn,
                              .intent = role == STORE_ACTING && daemon_may_order(d, l)};
    return record_put(d->recorder, stream, &in, id, e);
}

static enum err_code put_target(struct daemon *d, struct live *l, struct err *e)
{
    struct target_policy *acting = target_acting(&l->target);
    struct target_policy *other = acting == &l->target.main ? &l->target.challenger : &l->target.main;
    bool main_acts = acting == &l->target.main;
    fill_reward(l);
    enum err_code rc = put_decision(d, l, acting, STORE_ACTING, main_acts ? &l->config_id : &l->challenger_config_id,
                                    &l->stream, &l->decision_id, e);
    if (rc)
        return rc;
    (void)snprintf(l->why, sizeof l->why, "%s", record_why(d->recorder));
    int64_t ignored;
    if (other->ready)
        rc = put_decision(d, l, other, STORE_SHADOW, main_acts ? &l->challenger_config_id : &l->config_id,
                          &l->challenger_stream, &ignored, e);
    if (!rc && l->target.forecast.made_us > l->forecast_stored_us) {
        rc = store_put_forecast(d->store, l->store_id, &l->target.forecast, e);
        l->forecast_stored_us = l->target.forecast.made_us;
    }
    return rc;
}

static enum err_code put_sample(struct daemon *d, const struct live *l, const struct round_input *in, struct err *e)
{
    struct store_sample x = {.target_id = l->store_id, .time_us = d->now_us};
    memcpy(x.value, in->sample.value, sizeof x.value);
    x.value[FIELD_QPS] = in->sample.qps_last;
    return store_put_sample(d->store, &x, e);
}

/* A replica that neither leads nor observes decides to keep its memory warm and records what it measured, not what
 * it decided: the history stays whole when it takes over. */
static bool records_decisions(const struct daemon *d)
{
    return !daemon_acts_in(d) || daemon_leads(d);
}

static enum err_code put_round(struct daemon *d, const struct round_input *in, size_t n, struct err *e)
{
    bool decisions = records_decisions(d);
    enum err_code rc = store_begin(d->store, e);
    for (size_t i = 0; i < n && !rc; i++) {
        struct live *l = live_of(in[i].target);
        l->decision_id = 0;
        rc = store_identity(d, l, e);
        if (!rc)
            rc = put_sample(d, l, &in[i], e);
        if (!rc && decisions && in[i].target->decided)
            rc = put_target(d, l, e);
    }
    if (!rc)
        return store_commit(d->store, e);
    store_rollback(d->store);
    return rc;
}

/* ---- upkeep ----------------------------------------------------------------------------------- */

static void tend(struct daemon *d)
{
    struct store_tended t;
    struct err e;
    if (d->now_us - d->actuals_us >= ACTUALS_US) {
        d->actuals_us = d->now_us;
        if (store_fill_actuals(d->store, d->now_us, d->config.c->step_us, NULL, &e))
            log_write(d->log, LOG_WARN, "store", "forecasts are not scored", "error=\"%s\"", e.msg);
    }
    if (store_tend(d->store, d->now_us, &t, &e))
        log_write(d->log, LOG_WARN, "store", "upkeep failed", "error=\"%s\"", e.msg);
    else
        metric_set(d->metrics, METRIC_STORE_BYTES, (double)t.bytes, NULL);
}

/* After a lost round every identity is looked up again: what was made in it is gone. */
static void forget_ids(const struct round_input *in, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        struct live *l = live_of(in[i].target);
        l->store_id = l->config_id = l->challenger_config_id = l->decision_id = 0;
        l->forecast_stored_us = 0;
    }
}

/* At the change, then every five minutes: a disk stays full for hours, and the log may be on it too. */
static void tell_loss(struct daemon *d, const struct err *e)
{
    int64_t now_us = daemon_mono_us(d);
    int health = (int)store_health(d->store);
    bool news = d->loss.rounds++ == 0 || health != d->loss.health;
    if (!news && now_us - d->loss.told_us < TELL_AGAIN_US)
        return;
    d->loss.told_us = now_us;
    d->loss.health = health;
    log_write(d->log, LOG_ERROR, "store", "round is not kept: nothing is acted on", "health=%s rounds=%llu error=\"%s\"",
              store_health_name(store_health(d->store)), (unsigned long long)d->loss.rounds, e->msg);
}

void daemon_store_round(struct daemon *d, const struct round_input *in, size_t n)
{
    struct err e = {0};
    bool was = d->stored;
    enum err_code rc = put_round(d, in, n, &e);
    d->stored = !rc;
    d->store_error = e;
    d->store_error.code = rc;
    if (rc) {
        record_lost(d->recorder);
        forget_ids(in, n);
        tell_loss(d, &e);
        return;
    }
    if (!was && d->loss.rounds)
        log_write(d->log, LOG_INFO, "store", "rounds are kept again", "lost=%llu", (unsigned long long)d->loss.rounds);
    d->loss = (struct store_loss){0};
    tend(d);
}
