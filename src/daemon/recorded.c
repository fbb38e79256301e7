#include "daemon/recorded.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "daemon/record.h"
#include "model/history.h"

enum { IDS_MAX = 64, GAP_STEPS = 3, STEPS_MAX = 3000000 };

/* One target may have several rows: it was made anew. */
struct identity {
    const struct store_query *q;
    struct store *at; /* being looked through */
    struct {
        struct store *store;
        int64_t id;
    } row[IDS_MAX];
    int n;
    char namespace_[254], name[254];
    struct buf others; /* names, when they are not one */
    bool several;
};

static void add_row(struct identity *x, int64_t id)
{
    x->row[x->n].store = x->at;
    x->row[x->n++].id = id;
}

static bool on_target(void *ctx, const struct store_target *t)
{
    struct identity *x = ctx;
    if ((x->q->name && strcmp(x->q->name, t->name) != 0) ||
        (x->q->namespace_ && strcmp(x->q->namespace_, t->namespace_) != 0))
        return true;
    bool first = x->n == 0, same = first || (strcmp(x->name, t->name) == 0 &&
                                             strcmp(x->namespace_, t->namespace_) == 0);
    if (first) {
        (void)snprintf(x->name, sizeof x->name, "%s", t->name);
        (void)snprintf(x->namespace_, sizeof x->namespace_, "%s", t->namespace_);
    }
    x->several |= !same;
    if ((first || !same) && x->others.n < 300)
        buf_fmt(&x->others, "%s%s/%s", first ? "" : ", ", t->namespace_, t->name);
    if (same && x->n < IDS_MAX)
        add_row(x, t->id);
    return true;
}

static enum err_code find_target(struct store *const *s, size_t n, struct identity *x,
                                 struct err *e)
{
    enum err_code rc = ERR_OK;
    x->others = buf_init(4096);
    for (size_t i = 0; i < n && !rc; i++) {
        x->at = s[i];
        rc = store_targets(s[i], on_target, x, e);
    }
    if (!rc && x->n == 0)
        rc = err_set(e, ERR_MISSING, "store %s has no target %s%s%s", store_path(s[0]),
                     x->q->namespace_ ? x->q->namespace_ : "", x->q->namespace_ ? "/" : "",
                     x->q->name ? x->q->name : "at all");
    if (!rc && x->several)
        rc = err_set(e, ERR_USAGE, "--target: which one? The store has %s", x->others.p);
    buf_fini(&x->others);
    return rc;
}

/* ---- the service ----------------------------------------------------------------------------- */

struct newest {
    struct store *at, *store; /* being looked through; that it was found in */
    int64_t config_id, time_us;
    char policy[64];
};

static bool on_newest(void *ctx, const struct store_decision *d, const struct store_target *t)
{
    struct newest *n = ctx;
    (void)t;
    if (d->time_us >= n->time_us) {
        n->store = n->at;
        n->config_id = d->config_id;
        n->time_us = d->time_us;
        (void)snprintf(n->policy, sizeof n->policy, "%s", d->policy ? d->policy : "");
    }
    return false;
}

struct text {
    struct buf b;
};

static bool on_config(void *ctx, const struct store_config *c)
{
    buf_str(&((struct text *)ctx)->b, c->text);
    return true;
}

static void take_latency(const struct record_latency *l, struct recorded *r)
{
    struct scenario_service *s = &r->scenario.service;
    if (l->kind == RECORD_ERLANG) {
        s->service_ms = l->service_ms;
        s->slots = l->slots;
        return;
    }
    r->points = mem_zero((size_t)l->n_points + 1, sizeof *r->points);
    memcpy(r->points, l->point, (size_t)l->n_points * sizeof *r->points);
    r->scenario.points = r->points;
    r->scenario.n_points = l->n_points;
    r->scenario.points_unit_qps = l->unit_qps;
}

static void take_spec(const struct capacity_spec *spec, struct recorded *r)
{
    struct scenario *sc = &r->scenario;
    struct scenario_service *s = &sc->service;
    s->slo_p99_us = llround(spec->slo_p99_ms * 1000);
    s->slo_violation_max = spec->slo_violation_max;
    s->tune_violation_max = 0.7 * spec->slo_violation_max;
    s->units_min = spec->units_min;
    s->units_max = spec->units_max;
    s->units_min_safe = spec->units_min_safe;
    s->gpus_per_unit = spec->gpus_per_unit;
    s->price_usd_h = spec->price_usd_h;
    s->cls = (int)spec->cls;
    sc->step_us = spec->step_us;
    sc->chance.start_min_us = spec->start_us * 8 / 10;
    sc->chance.start_max_us = spec->start_us * 12 / 10;
    sc->chance.noise_frac = 0;
}

static enum err_code load_service(const struct identity *x, struct recorded *r, struct err *e)
{
    struct newest newest = {.time_us = INT64_MIN};
    struct text text = {.b = buf_init(1 << 20)};
    struct record_rebuilt *made = NULL;
    enum err_code rc = ERR_OK;
    for (int i = 0; i < x->n && !rc; i++) {
        struct store_query q = {.target_id = x->row[i].id,
                                .role = 1 + STORE_ACTING,
                                .newest_first = true,
                                .limit = 1,
                                .until_us = x->q->until_us};
        newest.at = x->row[i].store;
        rc = store_decisions(newest.at, &q, on_newest, &newest, e);
    }
    if (!rc && !newest.config_id)
        rc = err_set(e, ERR_MISSING,
                     "%s/%s: no decision is stored, so what is asked of the service is not known",
                     x->namespace_, x->name);
    if (!rc)
        rc = store_config_get(newest.store, newest.config_id, on_config, &text, e);
    if (!rc)
        rc = record_rebuild_service(text.b.p, &made, e);
    buf_fini(&text.b);
    if (rc)
        return rc;
    const struct record_source *src = record_rebuilt_source(made);
    struct buf name = buf_init(1 << 12);
    buf_fmt(&name, "%s/%s", x->namespace_, x->name);
    mem_free(r->scenario.name);
    r->scenario.name =
        mem_strdup(name.n > SCENARIO_NAME_MAX ? name.p + (name.n - SCENARIO_NAME_MAX) : name.p);
    buf_fini(&name);
    take_spec(&record_rebuilt_config(made)->spec, r);
    take_latency(&src->latency, r);
    r->scenario.guard = record_rebuilt_config(made)->guard;
    (void)snprintf(r->zone, sizeof r->zone, "%s", src->zone ? src->zone : "");
    (void)snprintf(r->policy, sizeof r->policy, "%s",
                   src->policy_file ? src->policy_file : newest.policy);
    record_rebuilt_free(made);
    return ERR_OK;
}

/* ---- what was measured ----------------------------------------------------------------------- */

struct reading {
    struct recorded *r;
    int64_t step_us, first_us, last_us; /* of the samples */
    bool filling;                       /* else the span is looked for */
};

/* Step that ends at about t. */
static int64_t step_of(const struct reading *x, int64_t t_us)
{
    return (t_us - x->r->start_us - x->step_us / 2) / x->step_us;
}

static bool on_sample(void *ctx, const struct store_sample *s)
{
    struct reading *x = ctx;
    struct recorded *r = x->r;
    if (!x->filling) {
        x->first_us = s->time_us < x->first_us ? s->time_us : x->first_us;
        x->last_us = s->time_us > x->last_us ? s->time_us : x->last_us;
        return true;
    }
    int64_t i = step_of(x, s->time_us);
    if (i < 0 || i >= r->n)
        return true;
    r->qps[i] = s->value[FIELD_QPS];
    float p99 = s->value[FIELD_P99_LATENCY_MS];
    if (isfinite(p99)) {
        r->steps++;
        r->misses += (double)p99 * 1000 > (double)r->scenario.service.slo_p99_us;
    }
    return true;
}

static enum err_code read_samples(const struct identity *x, struct reading *rd, struct err *e)
{
    enum err_code rc = ERR_OK;
    int64_t until = x->q->until_us ? x->q->until_us : INT64_MAX;
    for (int i = 0; i < x->n && !rc; i++)
        rc = store_samples(x->row[i].store, x->row[i].id, x->q->since_us, until, on_sample, rd, e);
    return rc;
}

/* Lines over short gaps; long ones are barred and carry the line too. */
static int64_t bridge(struct recorded *r)
{
    int64_t last = -1, barred = 0;
    for (int64_t i = 0; i <= r->n; i++) {
        if (i < r->n && !(r->qps[i] >= 0 && r->qps[i] < 1e30f))
            continue;
        int64_t gap = i - last - 1;
        float from = last >= 0  ? r->qps[last]
                     : i < r->n ? r->qps[i]
                                : 0,
              to = i < r->n ? r->qps[i] : from;
        for (int64_t j = last + 1; j < i; j++) {
            r->qps[j] = from + (to - from) * (float)(j - last) / (float)(gap + 1);
            r->barred[j] = gap > GAP_STEPS;
            barred += gap > GAP_STEPS;
        }
        last = i;
    }
    return barred;
}

static enum err_code load_demand(const struct identity *x, struct recorded *r, struct err *e)
{
    struct reading rd = {
        .r = r, .step_us = r->scenario.step_us, .first_us = INT64_MAX, .last_us = INT64_MIN};
    enum err_code rc = read_samples(x, &rd, e);
    if (rc)
        return rc;
    if (rd.last_us < rd.first_us)
        return err_set(e, ERR_MISSING, "%s/%s: no samples are stored for this time", x->namespace_,
                       x->name);
    if (rd.first_us < INT64_MIN / 2 || rd.last_us > INT64_MAX / 2 ||
        (rd.last_us - rd.first_us) / rd.step_us >= STEPS_MAX)
        return err_set(e, ERR_LIMIT, "%s/%s: samples span more than %d steps; --since names less",
                       x->namespace_, x->name, STEPS_MAX);
    r->start_us = rd.first_us - rd.step_us;
    r->n = step_of(&rd, rd.last_us) + 1;
    r->qps = try_zero((size_t)r->n, sizeof *r->qps);
    r->barred = try_zero((size_t)r->n, 1);
    r->units = try_zero((size_t)r->n, sizeof *r->units);
    if (!r->qps || !r->barred || !r->units)
        return err_set(e, ERR_NOMEM, "%" PRId64 " steps", r->n);
    for (int64_t i = 0; i < r->n; i++)
        r->qps[i] = NAN;
    rd.filling = true;
    return read_samples(x, &rd, e);
}

/* ---- what it had ----------------------------------------------------------------------------- */

struct sizes {
    struct reading rd;
    int64_t last;  /* step filled last, -1 before the first */
    int64_t above; /* steps with more than units_max */
    bool *known;
};

/* What a decision found asked for is what the step before it had. */
static bool on_size(void *ctx, const struct store_decision *d, const struct store_target *t)
{
    struct sizes *z = ctx;
    (void)t;
    int64_t i = step_of(&z->rd, d->time_us);
    if (i < 0 || i >= z->rd.r->n)
        return true;
    int64_t most = z->rd.r->scenario.service.units_max;
    z->above += d->units_before > most;
    z->rd.r->units[i] = (int16_t)(d->units_before < 0      ? 0
                                  : d->units_before > most ? most
                                                           : d->units_before);
    z->known[i] = true;
    return true;
}

/* Steps without a decision had what the next known one had, as long as the gap is short; other
 * steps are barred. */
static int64_t hold_sizes(struct recorded *r, const bool *known)
{
    int64_t unknown = 0, next = -1;
    for (int64_t i = r->n; i-- > 0;) {
        if (known[i])
            next = i;
        if (next >= 0)
            r->units[i] = r->units[next];
        if (next < 0 || next - i > GAP_STEPS) {
            unknown += !r->barred[i];
            r->barred[i] = 1;
        }
    }
    for (int64_t i = 1; i < r->n; i++) /* after the last decision */
        if (!r->units[i] && r->barred[i])
            r->units[i] = r->units[i - 1];
    return unknown;
}

static enum err_code load_sizes(const struct identity *x, struct recorded *r, int64_t *unknown,
                                int64_t *above, struct err *e)
{
    struct sizes z = {.rd = {.r = r, .step_us = r->scenario.step_us}, .last = -1};
    enum err_code rc = ERR_OK;
    z.known = try_zero((size_t)r->n, sizeof *z.known);
    if (!z.known)
        return err_set(e, ERR_NOMEM, "%" PRId64 " steps", r->n);
    for (int i = 0; i < x->n && !rc; i++) {
        struct store_query q = {.target_id = x->row[i].id,
                                .role = 1 + STORE_ACTING,
                                .since_us = r->start_us,
                                .until_us = x->q->until_us};
        rc = store_decisions(x->row[i].store, &q, on_size, &z, e);
    }
    *unknown = rc ? 0 : hold_sizes(r, z.known);
    *above = z.above;
    mem_free(z.known);
    return rc;
}

/* ---- all together ---------------------------------------------------------------------------- */

static void note_share(struct recorded *r, int64_t n, const char *what)
{
    if (n > 0)
        buf_fmt(&r->notes, "%.1f %% of the steps %s\n", 100.0 * (double)n / (double)r->n, what);
}

/* What one should know before believing the table. */
static void take_notes(struct recorded *r, int64_t gaps, int64_t unknown, int64_t above)
{
    double days = (double)(r->n * r->scenario.step_us) / (double)US_PER_DAY;
    for (int64_t i = 0; i < r->n; i++)
        r->usable += !r->barred[i];
    for (int64_t i = 0; i < r->n; i++)
        if (!r->barred[i])
            r->cost_usd += r->units[i] * r->scenario.service.price_usd_h *
                           (double)r->scenario.step_us / (double)US_PER_H;
    buf_fmt(&r->notes, "measured live: %.2f $ for the units asked for", r->cost_usd);
    if (r->steps)
        buf_fmt(&r->notes, "; p99 over the target in %.2f %% of %" PRId64 " measured steps",
                100.0 * (double)r->misses / (double)r->steps, r->steps);
    buf_str(&r->notes, "\n");
    if (days < 1)
        buf_fmt(&r->notes, "%.1f h of records: too little to judge anything on (a day at least)\n",
                24 * days);
    else if (!r->judged)
        buf_fmt(&r->notes,
                "%.1f days of records: rules are not tuned, and no verdict is given (three days)\n",
                days);
    if (days < 7)
        buf_str(&r->notes,
                "forecasts need seven days: policies that use one go without in the first week\n");
    note_share(r, gaps, "were not measured and do not count");
    note_share(r, unknown, "have no decision near and do not count");
    note_share(r, above, "had more units than the most now stated; they are counted as that many");
}

enum err_code recorded_load(struct store *s, const struct store_query *q, struct recorded *r,
                            struct err *e)
{
    return recorded_load_all(&s, 1, q, r, e);
}

enum err_code recorded_load_all(struct store *const *s, size_t n, const struct store_query *q,
                                struct recorded *r, struct err *e)
{
    struct identity x = {.q = q};
    int64_t unknown = 0, above = 0, gaps = 0;
    memset(r, 0, sizeof *r);
    scenario_init(&r->scenario);
    r->notes = buf_init(1 << 14);
    enum err_code rc = find_target(s, n, &x, e);
    if (!rc)
        rc = load_service(&x, r, e);
    if (!rc)
        rc = load_demand(&x, r, e);
    if (!rc) {
        gaps = bridge(r);
        rc = load_sizes(&x, r, &unknown, &above, e);
    }
    if (!rc && r->n * r->scenario.step_us < US_PER_H)
        rc = err_set(e, ERR_RANGE, "%s/%s: %.0f min of load are on record, an hour is the least", x.namespace_,
                     x.name, (double)(r->n * r->scenario.step_us) / (double)US_PER_MIN);
    if (rc) {
        recorded_fini(r);
        return rc;
    }
    r->judged = r->n * r->scenario.step_us >= 3 * US_PER_DAY;
    r->scenario.report_only = !r->judged;
    r->scenario.train_frac = r->judged ? 0.5 : 0.05; /* nothing is tuned on the first part then */
    take_notes(r, gaps, unknown, above);
    return ERR_OK;
}

void recorded_fini(struct recorded *r)
{
    scenario_fini(&r->scenario);
    mem_free(r->points);
    mem_free(r->qps);
    mem_free(r->barred);
    mem_free(r->units);
    buf_fini(&r->notes);
    memset(r, 0, sizeof *r);
}
