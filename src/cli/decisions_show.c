/* decisions_show.c - one stored decision in words, or as JSON with everything that was seen. */
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "base/hash.h"
#include "base/mem.h"
#include "cli/decisions_priv.h"
#include "daemon/record.h"
#include "report/text.h"
#include "train/explained.h"

/* A decision with what its text borrows; rows live only as long as the reader's callback. */
struct shown {
    struct decisions *d;
    struct buf *text;
    struct capacity_view view;
    struct capacity_record record;
    struct explained_text words;
    struct report_decision report;
    struct record_rebuilt
        *made; /* NULL: not made again, the factors are read off the observation */
    struct buf config;
    bool read; /* record and view could be read */
    struct err why_not;
};

static bool on_config(void *ctx, const struct store_config *c)
{
    struct shown *s = ctx;
    buf_str(&s->config, c->text);
    return true;
}

/* The network is asked for its reasons when it is at hand. */
static struct nn_policy *network_of(struct shown *s)
{
    if (s->config.n == 0 || record_rebuild(s->config.p, s->d->o->policy_file, &s->made, NULL))
        return NULL;
    return record_rebuilt_config(s->made)->net;
}

static void put_line(struct buf *out, const char *label, const char *text)
{
    buf_fmt(out, "  %-7s ", label);
    text_plain(out, text);
    buf_char(out, '\n');
}

static void put_outcome(const struct store_decision *d, const struct tz *zone, struct buf *out)
{
    char at[TZ_TEXT];
    buf_fmt(out, "  %-7s %s", "action", store_action_name(d->action));
    if (d->action != STORE_NONE) {
        tz_format_rfc3339(zone, d->action_us, at);
        buf_fmt(out, ", %s", at);
    }
    if (d->outcome) {
        buf_str(out, ": ");
        text_plain(out, d->outcome);
    }
    buf_char(out, '\n');
}

static void put_number(struct buf *out, const char *name, double v)
{
    if (isnan(v))
        buf_fmt(out, "    %-18s -\n", name);
    else
        buf_fmt(out, "    %-18s %.6g\n", name, v);
}

static void put_measured(const struct shown *s, struct buf *out)
{
    const struct capacity_view *v = &s->view;
    buf_fmt(out, "\n  measured, and of the cluster\n");
    for (int f = 0; f < FIELD_COUNT; f++)
        put_number(out, field_get((enum field)f)->name, (double)v->value[f]);
    buf_fmt(out, "    %-18s %d ready, %d warming, %d failed of %d\n", "units", v->units_ready,
            v->units_warming, v->units_failed, v->units_requested);
    if (v->sample_us)
        put_number(out, "sample age s", (double)(v->now_us - v->sample_us) * 1e-6);
    else
        buf_fmt(out, "    %-18s no sample\n", "sample age s");
    buf_fmt(out, "\n  observation\n");
    for (int i = 0; i < CAPACITY_OBS; i++)
        put_number(out, observation_get((enum observation)i)->name, (double)s->record.obs[i]);
    if (s->record.action < 0)
        return;
    buf_fmt(out, "\n  choice\n");
    for (int a = 0; a < CAPACITY_ACTIONS; a++)
        buf_fmt(out, "    %+d  %4d units  %s  probability %.4f\n", a - CAPACITY_ACTION_HOLD,
                s->record.candidate[a], s->record.mask[a] ? "permitted" : "masked   ",
                (double)s->record.prob[a]);
}

static void show_text(struct shown *s, const struct store_decision *d, const struct store_target *t)
{
    struct buf *out = s->text;
    char hex[HASH_HEX];
    if (s->read) {
        decision_text(&s->report, s->d->zone, s->d->o->full, cli_colour(s->d->c), out);
    } else {
        char at[TZ_TEXT];
        tz_format_rfc3339(s->d->zone, d->time_us, at);
        buf_fmt(out, "%s  %s: %d -> %d units (proposed %d)\n", at, d->policy ? d->policy : "-",
                d->units_before, d->executed, d->proposed);
        put_line(out, "why", d->why ? d->why : "-");
        put_line(out, "record", s->why_not.msg);
    }
    if (d->error)
        put_line(out, "error", d->error);
    put_outcome(d, s->d->zone, out);
    hash_hex(d->inputs_hash, hex);
    buf_fmt(out, "  %-7s ", "target");
    text_plain(out, t->namespace_);
    buf_char(out, '/');
    text_plain(out, t->name);
    buf_fmt(out, " (%s, cluster ", *t->kind ? t->kind : "-");
    text_plain(out, *t->cluster ? t->cluster : "-");
    buf_fmt(out, ")\n  %-7s %" PRId64 ", %s, stage %s, by ", "id", d->id, store_role_name(d->role),
            d->stage ? d->stage : "-");
    text_plain(out, d->holder ? d->holder : "-");
    buf_fmt(out, "; inputs %s, configuration %" PRId64 "\n", hex, d->config_id);
    if (!s->d->o->full || !s->read)
        return;
    put_measured(s, out);
    buf_str(out, "\n");
    buf_str(out, s->config.p);
}

static void json_time(struct json_writer *w, const char *key, const struct tz *zone, int64_t t_us)
{
    char at[TZ_TEXT];
    tz_format_rfc3339(zone, t_us, at);
    json_put_str(w, key, t_us ? at : NULL);
}

static void json_row(struct json_writer *w, const struct tz *zone, const struct store_decision *d,
                     const struct store_target *t)
{
    char hex[HASH_HEX];
    hash_hex(d->inputs_hash, hex);
    json_put_i64(w, "id", d->id);
    json_time(w, "time", zone, d->time_us);
    json_open(w, "target");
    json_put_str(w, "cluster", t->cluster);
    json_put_str(w, "group", t->group);
    json_put_str(w, "kind", t->kind);
    json_put_str(w, "namespace", t->namespace_);
    json_put_str(w, "name", t->name);
    json_put_str(w, "uid", t->uid);
    json_close(w);
    json_put_str(w, "role", store_role_name(d->role));
    json_put_str(w, "stage", d->stage);
    json_put_str(w, "holder", d->holder);
    json_put_i64(w, "config", d->config_id);
    json_put_str(w, "inputs_hash", hex);
    json_put_str(w, "verdict", d->verdict);
    json_put_str(w, "check", d->decisive);
    json_put_str(w, "why", d->why);
    json_put_str(w, "error", d->error);
    json_put_f64(w, "value", d->value);
    json_put_f64(w, "reward_cost", d->reward_cost);
    json_put_f64(w, "reward_slo", d->reward_slo);
    json_put_f64(w, "reward_churn", d->reward_churn);
    json_open(w, "action");
    json_put_str(w, "state", store_action_name(d->action));
    json_time(w, "time", zone, d->action_us);
    json_put_str(w, "outcome", d->outcome);
    json_close(w);
}

static void json_seen(struct json_writer *w, const struct shown *s)
{
    json_open(w, "measured");
    for (int f = 0; f < FIELD_COUNT; f++)
        json_put_f64(w, field_get((enum field)f)->name, (double)s->view.value[f]);
    json_close(w);
    json_open(w, "observation");
    for (int i = 0; i < CAPACITY_OBS; i++)
        json_put_f64(w, observation_get((enum observation)i)->name, (double)s->record.obs[i]);
    json_close(w);
    json_open_array(w, "choice");
    for (int a = 0; s->record.action >= 0 && a < CAPACITY_ACTIONS; a++) {
        json_open(w, NULL);
        json_put_i64(w, "units", s->record.candidate[a]);
        json_put_bool(w, "permitted", s->record.mask[a]);
        json_put_f64(w, "probability", (double)s->record.prob[a]);
        json_close(w);
    }
    json_close_array(w);
}

static void show_json(struct shown *s, const struct store_decision *d, const struct store_target *t)
{
    struct json_writer w = json_writer_init(s->text, 2);
    json_open(&w, NULL);
    json_row(&w, s->d->zone, d, t);
    if (s->read) {
        json_open_array(&w, "reasons"); /* as `explain` gives them: a list, here of one */
        decision_json(&s->report, s->d->zone, &w);
        json_close_array(&w);
        json_seen(&w, s);
        json_put_str(&w, "config_text", s->config.p);
    }
    json_close(&w);
}

static bool on_decision(void *ctx, const struct store_decision *d, const struct store_target *t)
{
    struct shown *s = ctx;
    s->read = !record_view(d, &s->view, &s->why_not) && !record_read(d, &s->record, &s->why_not);
    if (store_config_get(s->d->store, d->config_id, on_config, s, NULL))
        buf_clear(&s->config); /* less is told */
    if (s->read) {
        explained_decision(&s->record, network_of(s), d->rule, &s->words, &s->report);
        s->report.policy = d->policy;
    }
    switch (s->d->c->format) {
    case CLI_JSON:
        show_json(s, d, t);
        break;
    case CLI_CSV:
        if (s->read)
            decisions_format(&s->report, 1, s->d->zone, CLI_CSV, false, s->text);
        break;
    default:
        show_text(s, d, t);
    }
    return true;
}

enum err_code decisions_show(struct decisions *d, struct buf *text, struct err *e)
{
    struct shown *s = mem_zero(1, sizeof *s);
    *s = (struct shown){.d = d, .text = text, .config = buf_init(CLI_TEXT_MAX)};
    enum err_code rc = store_decision_get(d->store, d->id, on_decision, s, e);
    if (!rc && !s->read && d->c->format == CLI_CSV) {
        *e = s->why_not;
        rc = s->why_not.code;
    }
    record_rebuilt_free(s->made);
    buf_fini(&s->config);
    mem_free(s);
    return rc;
}
