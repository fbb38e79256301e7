#include "execute/status.h"

#include <math.h>
#include <string.h>

#include "base/clock.h"
#include "base/hash.h"
#include "base/mem.h"
#include "execute/json_priv.h"

static const char *const outcome_names[OUTCOMES] = {
#define X(id, name) [OUTCOME_##id] = (name),
    OUTCOME_LIST(X)
#undef X
};
static const char *const ready_names[STATUS_READYS] = {
#define X(id, name) [STATUS_READY_##id] = (name),
    STATUS_READY_LIST(X)
#undef X
};
static const char *const condition_names[CONDITIONS] = {
#define X(id, name, what) [CONDITION_##id] = (name),
    CONDITION_LIST(X)
#undef X
};
static const char *const value_names[] = {"Unknown", "False", "True"};

void target_status_init(struct target_status *s)
{
    *s = (struct target_status){.desired = -1,
                                .current = -1,
                                .ready = -1,
                                .outcome = {.found = -1},
                                .fixed = {.units = -1}};
    safety_status_init(&s->safety);
}

const char *outcome_name(enum outcome_result r)
{
    return outcome_names[r];
}

bool condition_set(struct target_status *s, enum condition_type t, enum condition_value value,
                   const char *reason, const char *message, int64_t now_us)
{
    struct status_condition *c = &s->conditions[t];
    bool changed = c->since_us == 0 || c->value != value;
    if (changed)
        c->since_us = now_us;
    c->value = value;
    c->generation = s->observed_generation;
    text_copy(c->reason, sizeof c->reason, reason);
    text_copy(c->message, sizeof c->message, *message ? message : reason);
    return changed;
}

/* ---- writing --------------------------------------------------------------------------------- */

/* JSON has no word for what is not finite, and the schema takes no null in a list. */
static bool forecast_known(const struct status_forecast *f)
{
    bool finite = isfinite(f->level) && isfinite(f->high) && isfinite(f->uncertainty);
    for (int i = 0; i < STATUS_POINTS; i++)
        finite = finite && isfinite(f->points[i]);
    return finite && f->made_us > 0;
}

static void put_forecast(struct json_writer *w, const struct status_forecast *f)
{
    if (!forecast_known(f)) {
        json_put_null(w, "forecast");
        return;
    }
    json_open(w, "forecast");
    put_time(w, "madeAt", f->made_us, true);
    json_open_array(w, "points");
    for (int i = 0; i < STATUS_POINTS; i++)
        json_put_f64(w, NULL, f->points[i]);
    json_close_array(w);
    json_put_f64(w, "level30min", f->level);
    json_put_f64(w, "high", f->high);
    json_put_f64(w, "uncertainty", f->uncertainty);
    json_put_bool(w, "usable", f->usable);
    json_close(w);
}

static void put_decision(struct json_writer *w, const struct status_decision *d)
{
    if (!*d->id) {
        json_put_null(w, "lastDecision");
        return;
    }
    json_open(w, "lastDecision");
    json_put_str(w, "id", d->id);
    put_time(w, "time", d->time_us, true);
    put_units(w, "units", d->units);
    put_units(w, "previous", d->previous);
    put_text(w, "policy", d->policy);
    put_text(w, "reason", d->reason);
    json_close(w);
}

static void put_intent(struct json_writer *w, const struct status_intent *i)
{
    if (!*i->id) {
        json_put_null(w, "intent");
        return;
    }
    json_open(w, "intent");
    json_put_str(w, "id", i->id);
    json_put_i64(w, "from", i->from);
    json_put_i64(w, "to", i->to);
    put_time(w, "time", i->time_us, true);
    put_text(w, "holder", i->holder);
    put_text(w, "scaleResourceVersion", i->scale_version);
    put_text(w, "scaleUid", i->scale_uid);
    json_close(w);
}

static void put_outcome(struct json_writer *w, const struct status_outcome *o)
{
    if (o->result == OUTCOME_NONE) {
        json_put_null(w, "outcome");
        return;
    }
    json_open(w, "outcome");
    json_put_str(w, "id", o->id);
    json_put_str(w, "result", outcome_names[o->result]);
    json_put_i64(w, "from", o->from);
    json_put_i64(w, "to", o->to);
    put_units(w, "found", o->found);
    put_time(w, "time", o->time_us, true);
    put_text(w, "units", ready_names[o->ready]);
    put_time(w, "readyAt", o->ready_us, o->ready_us > 0);
    put_text(w, "message", o->message);
    json_close(w);
}

static void put_freeze(struct json_writer *w, const struct status_freeze *f)
{
    if (!f->on) {
        json_put_null(w, "freeze");
        return;
    }
    json_open(w, "freeze");
    put_time(w, "since", f->since_us, true);
    put_text(w, "author", f->author);
    put_text(w, "reason", f->reason);
    json_close(w);
}

static void put_override(struct json_writer *w, const struct status_override *o)
{
    if (o->units < 0) {
        json_put_null(w, "override");
        return;
    }
    json_open(w, "override");
    json_put_i64(w, "units", o->units);
    put_time(w, "until", o->until_us, true);
    put_text(w, "author", o->author);
    put_text(w, "reason", o->reason);
    json_close(w);
}

static void put_startup(struct json_writer *w, const struct status_startup *s)
{
    if (s->n <= 0) {
        json_put_null(w, "startupSeconds");
        return;
    }
    json_open_array(w, "startupSeconds");
    for (int i = 0; i < s->n; i++)
        json_put_f64(w, NULL, (double)(int64_t)((double)s->seconds[i] * 1000 + 0.5) / 1000);
    json_close_array(w);
}

/* Elements of a list are replaced whole, so what is unset is left out here. */
static void put_conditions(struct json_writer *w, const struct status_condition *c)
{
    json_open_array(w, "conditions");
    for (int t = 0; t < CONDITIONS; t++) {
        if (c[t].since_us == 0)
            continue;
        json_open(w, NULL);
        json_put_str(w, "type", condition_names[t]);
        json_put_str(w, "status", value_names[c[t].value]);
        put_time(w, "lastTransitionTime", c[t].since_us, true);
        json_put_str(w, "reason", *c[t].reason ? c[t].reason : "Unknown");
        json_put_str(w, "message", c[t].message);
        json_put_i64(w, "observedGeneration", c[t].generation);
        json_close(w);
    }
    json_close_array(w);
}

enum err_code target_status_patch(const struct target_status *s, const char *resource_version,
                                  struct buf *out, struct err *e)
{
    struct json_writer w = json_writer_init(out, 0);
    size_t before = out->n;
    json_open(&w, NULL);
    json_open(&w, "metadata");
    json_put_str(&w, "resourceVersion", resource_version);
    json_close(&w);
    json_open(&w, "status");
    json_put_i64(&w, "observedGeneration", s->observed_generation);
    put_units(&w, "desired", s->desired);
    put_units(&w, "current", s->current);
    put_units(&w, "ready", s->ready);
    put_text(&w, "stage", s->stage);
    put_forecast(&w, &s->forecast);
    put_decision(&w, &s->decision);
    safety_status_put(&w, "safety", &s->safety);
    put_intent(&w, &s->intent);
    put_outcome(&w, &s->outcome);
    put_freeze(&w, &s->freeze);
    put_override(&w, &s->fixed);
    put_startup(&w, &s->startup);
    put_conditions(&w, s->conditions);
    json_close(&w);
    json_close(&w);
    if (out->n - before > STATUS_BYTES_MAX)
        return err_set(e, ERR_LIMIT, "status of %zu bytes is over %d", out->n - before,
                       STATUS_BYTES_MAX);
    return buf_check(out, e);
}

/* ---- reading --------------------------------------------------------------------------------- */

struct reader {
    const struct json_doc *doc;
    struct err *e;
};

static enum err_code read_forecast(const struct reader *r, const struct json *status,
                                   struct status_forecast *f)
{
    const struct json *obj, *points = NULL;
    int i = 0;
    enum err_code rc = get_object(r->doc, status, "forecast", &obj, r->e);
    if (rc || !obj)
        return rc;
    rc = get_time(r->doc, obj, "madeAt", &f->made_us, r->e);
    if (!rc)
        rc = get_array(r->doc, obj, "points", &points, r->e);
    if (!rc && points && json_count(points) > STATUS_POINTS)
        rc = get_error(r->doc, obj, "points", ERR_LIMIT, "expected at most 3", r->e);
    for (const struct json *v = rc || !points ? NULL : json_first(points); v;
         v = json_next(v), i++) {
        if (!json_is_number(v))
            return get_error(r->doc, obj, "points", ERR_PARSE, "expected numbers", r->e);
        f->points[i] = json_number(v);
    }
    if (!rc)
        rc = get_f64(r->doc, obj, "level30min", &f->level, r->e);
    if (!rc)
        rc = get_f64(r->doc, obj, "high", &f->high, r->e);
    if (!rc)
        rc = get_f64(r->doc, obj, "uncertainty", &f->uncertainty, r->e);
    return rc ? rc : get_flag(r->doc, obj, "usable", &f->usable, r->e);
}

static enum err_code read_decision(const struct reader *r, const struct json *status,
                                   struct status_decision *d)
{
    const struct json *obj;
    enum err_code rc = get_object(r->doc, status, "lastDecision", &obj, r->e);
    if (rc || !obj)
        return rc;
    d->units = d->previous = -1;
    rc = get_text(r->doc, obj, "id", d->id, sizeof d->id, r->e);
    if (!rc)
        rc = get_time(r->doc, obj, "time", &d->time_us, r->e);
    if (!rc)
        rc = get_i32(r->doc, obj, "units", 0, STATUS_UNITS_MAX, &d->units, r->e);
    if (!rc)
        rc = get_i32(r->doc, obj, "previous", 0, INT32_MAX, &d->previous, r->e);
    if (!rc)
        rc = get_text(r->doc, obj, "policy", d->policy, sizeof d->policy, r->e);
    return rc ? rc : get_text(r->doc, obj, "reason", d->reason, sizeof d->reason, r->e);
}

static enum err_code read_intent(const struct reader *r, const struct json *status,
                                 struct status_intent *i)
{
    const struct json *obj;
    enum err_code rc = get_object(r->doc, status, "intent", &obj, r->e);
    if (rc || !obj)
        return rc;
    i->from = i->to = -1;
    rc = get_text(r->doc, obj, "id", i->id, sizeof i->id, r->e);
    if (!rc)
        rc = get_i32(r->doc, obj, "from", 0, INT32_MAX, &i->from, r->e);
    if (!rc)
        rc = get_i32(r->doc, obj, "to", 0, STATUS_UNITS_MAX, &i->to, r->e);
    if (!rc)
        rc = get_time(r->doc, obj, "time", &i->time_us, r->e);
    if (!rc)
        rc = get_text(r->doc, obj, "holder", i->holder, sizeof i->holder, r->e);
    if (!rc)
        rc = get_text(r->doc, obj, "scaleResourceVersion", i->scale_version,
                      sizeof i->scale_version, r->e);
    if (!rc)
        rc = get_text(r->doc, obj, "scaleUid", i->scale_uid, sizeof i->scale_uid, r->e);
    if (!rc && (!*i->id || i->from < 0 || i->to < 0))
        rc = get_error(r->doc, status, "intent", ERR_PARSE, "needs id, from and to", r->e);
    return rc;
}

static enum err_code read_outcome(const struct reader *r, const struct json *status,
                                  struct status_outcome *o)
{
    const struct json *obj;
    int result = o->result, ready = o->ready;
    enum err_code rc = get_object(r->doc, status, "outcome", &obj, r->e);
    if (rc || !obj)
        return rc;
    rc = get_text(r->doc, obj, "id", o->id, sizeof o->id, r->e);
    if (!rc)
        rc = get_name(r->doc, obj, "result", outcome_names, OUTCOMES, &result, r->e);
    if (!rc)
        rc = get_name(r->doc, obj, "units", ready_names, STATUS_READYS, &ready, r->e);
    o->result = (enum outcome_result)result;
    o->ready = (enum status_ready)ready;
    if (!rc)
        rc = get_i32(r->doc, obj, "from", 0, INT32_MAX, &o->from, r->e);
    if (!rc)
        rc = get_i32(r->doc, obj, "to", 0, STATUS_UNITS_MAX, &o->to, r->e);
    if (!rc)
        rc = get_i32(r->doc, obj, "found", 0, INT32_MAX, &o->found, r->e);
    if (!rc)
        rc = get_time(r->doc, obj, "time", &o->time_us, r->e);
    if (!rc)
        rc = get_time(r->doc, obj, "readyAt", &o->ready_us, r->e);
    return rc ? rc : get_text(r->doc, obj, "message", o->message, sizeof o->message, r->e);
}

static enum err_code read_freeze(const struct reader *r, const struct json *status,
                                 struct status_freeze *f)
{
    const struct json *obj;
    enum err_code rc = get_object(r->doc, status, "freeze", &obj, r->e);
    if (rc || !obj)
        return rc;
    f->on = true;
    rc = get_time(r->doc, obj, "since", &f->since_us, r->e);
    if (!rc)
        rc = get_text(r->doc, obj, "author", f->author, sizeof f->author, r->e);
    return rc ? rc : get_text(r->doc, obj, "reason", f->reason, sizeof f->reason, r->e);
}

static enum err_code read_override(const struct reader *r, const struct json *status,
                                   struct status_override *o)
{
    const struct json *obj;
    enum err_code rc = get_object(r->doc, status, "override", &obj, r->e);
    if (rc || !obj)
        return rc;
    rc = get_i32(r->doc, obj, "units", 0, STATUS_UNITS_MAX, &o->units, r->e);
    if (!rc)
        rc = get_time(r->doc, obj, "until", &o->until_us, r->e);
    if (!rc)
        rc = get_text(r->doc, obj, "author", o->author, sizeof o->author, r->e);
    if (!rc)
        rc = get_text(r->doc, obj, "reason", o->reason, sizeof o->reason, r->e);
    if (!rc && (o->units < 0 || o->until_us <= 0))
        rc = get_error(r->doc, status, "override", ERR_PARSE, "needs units and until", r->e);
    return rc;
}

static enum err_code read_startup(const struct reader *r, const struct json *status,
                                  struct status_startup *s)
{
    const struct json *list;
    enum err_code rc = get_array(r->doc, status, "startupSeconds", &list, r->e);
    if (rc || !list)
        return rc;
    if (json_count(list) > STATUS_STARTS)
        return get_error(r->doc, status, "startupSeconds", ERR_LIMIT, "expected at most 16", r->e);
    for (const struct json *v = json_first(list); v; v = json_next(v)) {
        if (!(json_number(v) >= 0 && json_number(v) <= 1e6))
            return get_error(r->doc, status, "startupSeconds", ERR_RANGE, "expected seconds", r->e);
        s->seconds[s->n++] = (float)json_number(v);
    }
    return ERR_OK;
}

static enum err_code read_condition(const struct reader *r, const struct json *obj,
                                    struct status_condition *list)
{
    char name[STATUS_ID] = "";
    int value = CONDITION_UNKNOWN, t = 0;
    enum err_code rc =
        json_is_object(obj) ? ERR_OK : err_set(r->e, ERR_PARSE, "conditions: expected objects");
    if (!rc)
        rc = get_text(r->doc, obj, "type", name, sizeof name, r->e);
    while (!rc && t < CONDITIONS && strcmp(name, condition_names[t]) != 0)
        t++;
    if (rc || t == CONDITIONS)
        return rc; /* of another version */
    struct status_condition *c = &list[t];
    rc = get_name(r->doc, obj, "status", value_names, (int)ARRAY_LEN(value_names), &value, r->e);
    c->value = (enum condition_value)value;
    if (!rc)
        rc = get_time(r->doc, obj, "lastTransitionTime", &c->since_us, r->e);
    if (!rc)
        rc = get_text(r->doc, obj, "reason", c->reason, sizeof c->reason, r->e);
    if (!rc)
        rc = get_i64(r->doc, obj, "observedGeneration", 0, INT64_C(1) << 53, &c->generation, r->e);
    return rc ? rc : get_text(r->doc, obj, "message", c->message, sizeof c->message, r->e);
}

static enum err_code read_conditions(const struct reader *r, const struct json *status,
                                     struct status_condition *c)
{
    enum { MOST = 64 };
    const struct json *list;
    enum err_code rc = get_array(r->doc, status, "conditions", &list, r->e);
    if (rc || !list)
        return rc;
    if (json_count(list) > MOST)
        return get_error(r->doc, status, "conditions", ERR_LIMIT, "too many", r->e);
    for (const struct json *v = json_first(list); v && !rc; v = json_next(v))
        rc = read_condition(r, v, c);
    return rc;
}

static enum err_code read_head(const struct reader *r, const struct json *status,
                               struct target_status *s)
{
    const struct json *safety;
    enum err_code rc = get_i64(r->doc, status, "observedGeneration", 0, INT64_C(1) << 53,
                               &s->observed_generation, r->e);
    if (!rc)
        rc = get_i32(r->doc, status, "desired", 0, STATUS_UNITS_MAX, &s->desired, r->e);
    if (!rc)
        rc = get_i32(r->doc, status, "current", 0, INT32_MAX, &s->current, r->e);
    if (!rc)
        rc = get_i32(r->doc, status, "ready", 0, INT32_MAX, &s->ready, r->e);
    if (!rc)
        rc = get_text(r->doc, status, "stage", s->stage, sizeof s->stage, r->e);
    if (!rc)
        rc = get_object(r->doc, status, "safety", &safety, r->e);
    return rc ? rc : safety_status_parse(r->doc, safety, &s->safety, r->e);
}

enum err_code target_status_parse(const struct json_doc *doc, const struct json *obj,
                                  struct target_status *s, struct err *e)
{
    struct target_status got;
    struct reader r = {doc, e};
    target_status_init(&got);
    enum err_code rc = ERR_OK;
    if (!json_is_null(obj)) {
        rc = json_is_object(obj) ? read_head(&r, obj, &got)
                                 : err_set(e, ERR_PARSE, "status: expected an object");
        if (!rc)
            rc = read_forecast(&r, obj, &got.forecast);
        if (!rc)
            rc = read_decision(&r, obj, &got.decision);
        if (!rc)
            rc = read_intent(&r, obj, &got.intent);
        if (!rc)
            rc = read_outcome(&r, obj, &got.outcome);
        if (!rc)
            rc = read_freeze(&r, obj, &got.freeze);
        if (!rc)
            rc = read_override(&r, obj, &got.fixed);
        if (!rc)
            rc = read_startup(&r, obj, &got.startup);
        if (!rc)
            rc = read_conditions(&r, obj, got.conditions);
    }
    if (!rc)
        *s = got;
    return rc;
}

/* ---- when to write --------------------------------------------------------------------------- */

/* What must not wait: actions, and what a new leader would otherwise not know. */
static uint64_t urgent_hash(const struct target_status *s)
{
    struct hash h = hash_init(1);
    const struct safety_status *g = &s->safety;
    hash_str(&h, s->intent.id);
    hash_str(&h, s->outcome.id);
    hash_i64(&h, s->outcome.result);
    hash_i64(&h, s->outcome.ready);
    for (int t = 0; t < CONDITIONS; t++)
        hash_i64(&h, s->conditions[t].since_us ? (int)s->conditions[t].value : -1);
    hash_i64(&h, g->last_out_us);
    hash_i64(&h, g->last_in_us);
    hash_i64(&h, g->watch_until_us);
    hash_i64(&h, g->breaker_until_us);
    hash_i64(&h, g->reversals);
    hash_i64(&h, s->freeze.on);
    hash_i64(&h, s->fixed.units);
    hash_i64(&h, s->fixed.until_us);
    return hash_value(&h);
}

/* What people read and what is no reason by itself: sizes, reasons' kinds, watermarks. */
static uint64_t slow_hash(const struct target_status *s)
{
    struct hash h = hash_init(2);
    hash_i64(&h, s->observed_generation);
    hash_i64(&h, s->desired);
    hash_i64(&h, s->current);
    hash_i64(&h, s->ready);
    hash_str(&h, s->stage);
    hash_i64(&h, s->decision.units);
    hash_str(&h, s->decision.policy);
    hash_i64(&h, s->safety.state);
    hash_i64(&h, s->safety.high_since_us);
    hash_i64(&h, s->safety.low_since_us);
    hash_i64(&h, s->safety.water_since_us);
    hash_i64(&h, s->forecast.usable);
    for (int t = 0; t < CONDITIONS; t++)
        hash_str(&h, s->conditions[t].reason);
    return hash_value(&h);
}

/* What moves by itself: forecasts, numbers inside reasons, measured starts. */
static uint64_t stale_hash(const struct target_status *s)
{
    struct hash h = hash_init(3);
    hash_i64(&h, s->forecast.made_us);
    hash_str(&h, s->decision.reason);
    for (int i = 0; i < s->startup.n; i++)
        hash_f64(&h, (double)s->startup.seconds[i]);
    for (int t = 0; t < CONDITIONS; t++)
        hash_str(&h, s->conditions[t].message);
    return hash_value(&h);
}

void status_gate_init(struct status_gate *g)
{
    *g = (struct status_gate){.written_us = SAFETY_NEVER};
}

bool status_gate_due(const struct status_gate *g, const struct target_status *s, int64_t now_us)
{
    if (g->written_us == SAFETY_NEVER || g->urgent != urgent_hash(s))
        return true;
    int64_t ago_us = now_us - g->written_us;
    if (ago_us < 0 || ago_us >= STATUS_STALE_S * US_PER_S)
        return g->slow != slow_hash(s) || g->stale != stale_hash(s);
    return ago_us >= STATUS_PERIOD_S * US_PER_S && g->slow != slow_hash(s);
}

void status_gate_written(struct status_gate *g, const struct target_status *s, int64_t now_us)
{
    *g = (struct status_gate){.urgent = urgent_hash(s),
                              .slow = slow_hash(s),
                              .stale = stale_hash(s),
                              .written_us = now_us};
}
