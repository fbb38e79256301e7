#include "train/world.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/mem.h"
#include "base/signal.h"
#include "forecast/forecaster.h"
#include "history/resample.h"
#include "history/table.h"
#include "sim/generate.h"
#include "train/curve.h"

enum {
    MIN_STEPS = 240,      /* an hour: less says nothing about anything */
    SIGNAL_POINTS = 1024, /* between looks at Ctrl-C */
};

int32_t world_steps_per_day(const struct world *w)
{
    return (int32_t)(US_PER_DAY / w->sim.spec.step_us);
}

enum err_code world_check_usable(const struct world *w, int32_t from, int32_t to, const char *what, struct err *e)
{
    int32_t hour = world_steps_per_day(w) / 24, half = (to - from + 1) / 2, usable = 0;
    for (int32_t i = from; i < to; i++)
        usable += !w->barred[i];
    if (usable >= (hour < half ? hour : half))
        return ERR_OK;
    return err_set(e, ERR_RANGE, "%d of the %d %s steps lie outside gaps of the history: too few", usable, to - from,
                   what);
}

void world_free(struct world *w)
{
    if (!w)
        return;
    capsim_trace_fini(&w->trace);
    latency_fini(&w->latency);
    mem_free((int32_t *)(uintptr_t)w->calendar.holiday_days);
    tz_free(w->zone);
    mem_free(w->demand);
    mem_free(w->barred);
    mem_free(w);
}

static enum err_code read_holidays(struct world *w, const struct opt_strings *list, struct err *e)
{
    int32_t *days = mem_zero(list->n + 1, sizeof *days);
    w->calendar.holiday_days = days;
    enum err_code rc = calendar_read_holidays((const char *const *)list->items, list->n, days, e);
    w->calendar.n_holidays = rc ? 0 : list->n;
    return rc;
}

static enum err_code make_latency(struct world *w, struct err *e)
{
    const struct scenario_service *s = &w->scenario->service;
    double slo_ms = (double)s->slo_p99_us / 1000;
    if (w->scenario->points)
        return latency_from_curve(w->scenario->points, w->scenario->n_points, w->scenario->points_unit_qps,
                                  (int)s->units_max, slo_ms, &w->latency, e);
    if (s->curve) { /* beside the scenario, as its history */
        char *path = file_beside(w->scenario->path ? w->scenario->path : "", s->curve);
        enum err_code rc = curve_load(path, (int)s->units_max, slo_ms, &w->latency, e);
        mem_free(path);
        return rc;
    }
    return latency_from_erlang(s->service_ms, (int)s->slots, (int)s->units_max, slo_ms, &w->latency, e);
}

static enum err_code scale_demand(struct world *w, struct err *e)
{
    double peak = 0, sum = 0;
    for (int32_t i = 0; i < w->n; i++)
        peak = fmax(peak, (double)w->demand[i]);
    if (!(peak > 0))
        return err_set(e, ERR_RANGE, "no traffic at all: every step of the demand is zero");
    w->scale = w->scenario->peak_units > 0 ? w->scenario->peak_units * w->latency.unit_qps / peak : 1;
    for (int32_t i = 0; i < w->n; i++)
        w->demand[i] = (float)((double)w->demand[i] * w->scale);
    for (int32_t i = 0; i < w->train_end; i++)
        sum += (double)w->demand[i];
    double mean_units = sum / w->train_end / w->latency.unit_qps / 0.7;
    w->price_ref_usd_h = fmax(mean_units, 0.1) * w->scenario->service.price_usd_h;
    return ERR_OK;
}

static void hash_demand(struct world *w)
{
    struct hash h = hash_init(0);
    hash_i64(&h, w->start_us);
    hash_i64(&h, w->scenario->step_us);
    hash_bytes(&h, w->demand, (size_t)w->n * sizeof *w->demand);
    hash_bytes(&h, w->barred, (size_t)w->n);
    w->data_hash = hash_value(&h);
}

/* Incidents of a trace of n steps: one that never comes is a mistake, one that outlasts the trace ends with it. */
static enum err_code fit_faults(struct capsim_cfg *sim, int32_t n, struct err *e)
{
    for (int i = 0; i < sim->n_faults; i++) {
        struct capsim_fault *f = &sim->fault[i];
        if (f->from_step >= n)
            return err_set(e, ERR_RANGE, "chance.faults[%d]: begins after the last of %d steps", i, n);
        f->to_step = f->to_step < n ? f->to_step : n;
    }
    return ERR_OK;
}

/* demand, barred, n and start_us are set; everything else follows. */
static enum err_code finish(struct world *w, const char *zone_name, struct err *e)
{
    const struct scenario *sc = w->scenario;
    enum err_code rc;
    if (w->n < MIN_STEPS)
        return err_set(e, ERR_RANGE, "the history has %d steps of %.0f s; a scenario needs at least an hour", w->n,
                       (double)sc->step_us * 1e-6);
    int32_t day = (int32_t)(US_PER_DAY / sc->step_us);
    w->train_end = (int32_t)(sc->train_frac * w->n);
    if (w->train_end > 2 * day) /* whole days, so that no day is both trained and tested on */
        w->train_end -= w->train_end % day;
    w->point_steps = (int32_t)(FORECAST_POINT_US / sc->step_us);
    if (w->point_steps < 1 || w->point_steps * sc->step_us != FORECAST_POINT_US)
        return err_set(e, ERR_RANGE, "step: %.1f s does not divide 5 min", (double)sc->step_us * 1e-6);
    if (zone_name && *zone_name && (rc = tz_load(zone_name, &w->zone, e)) != ERR_OK)
        return rc;
    w->calendar.zone = w->zone;
    if ((rc = read_holidays(w, &sc->holidays, e)) || (rc = make_latency(w, e)) || (rc = scale_demand(w, e)))
        return rc;
    hash_demand(w);
    struct capacity_spec spec = scenario_spec(sc, &w->latency);
    struct capsim_cfg sim = scenario_sim(sc, sc->step_us);
    if ((rc = fit_faults(&sim, w->n, e)) || (rc = capsim_world_init(&w->sim, &spec, &sim, e)))
        return rc;
    return capsim_trace_init(&w->trace, w->demand, w->barred, w->n, w->start_us, sc->step_us, &w->calendar, e);
}

static enum err_code take(struct world *w, float *qps, uint8_t *barred, int64_t n, int64_t start_us,
                          const char *zone_name, struct err *e)
{
    w->demand = qps;
    w->barred = barred;
    w->start_us = start_us;
    if (n > CAPSIM_STEPS_MAX)
        return err_set(e, ERR_LIMIT, "%lld steps, at most %d", (long long)n, (int)CAPSIM_STEPS_MAX);
    w->n = (int32_t)n;
    return finish(w, zone_name, e);
}

enum err_code world_from_demand(const struct scenario *sc, const float *qps, const uint8_t *barred, int64_t n,
                                int64_t start_us, const char *zone_name, struct world **out, struct err *e)
{
    struct world *w = mem_zero(1, sizeof *w);
    float *copy = try_zero((size_t)n, sizeof *copy);
    uint8_t *bars = try_zero((size_t)n, 1);
    w->scenario = sc;
    enum err_code rc = copy && bars ? ERR_OK : err_set(e, ERR_NOMEM, "demand of %lld steps", (long long)n);
    if (!rc) {
        memcpy(copy, qps, (size_t)n * sizeof *copy);
        if (barred)
            memcpy(bars, barred, (size_t)n);
        rc = take(w, copy, bars, n, start_us, zone_name, e);
    } else {
        mem_free(copy);
        mem_free(bars);
    }
    if (rc) {
        world_free(w);
        return rc;
    }
    *out = w;
    return ERR_OK;
}

/* The history's load at the decision step.  Barred spans carry the line between their ends: something must
 * arrive there, but nothing that happens there is trained on, tuned on or counted. */
static void bridge_gaps(float *x, int64_t n)
{
    int64_t last = -1;
    for (int64_t i = 0; i < n; i++) {
        if (!(x[i] >= 0))
            continue;
        for (int64_t j = last + 1; j < i; j++) {
            float from = last >= 0 ? x[last] : x[i];
            x[j] = from + (x[i] - from) * (float)(j - last) / (float)(i - last);
        }
        last = i;
    }
    for (int64_t j = last + 1; j < n; j++)
        x[j] = last >= 0 ? x[last] : 0;
}

static enum err_code from_history(struct world *w, struct err *e)
{
    struct history native = {0}, h = {0};
    struct import_report *report = mem_zero(1, sizeof *report);
    enum err_code rc = history_load(&w->scenario->history, w->scenario->path, &native, report, e);
    if (!rc && !native.col[FIELD_QPS])
        rc = err_set(e, ERR_MISSING, "the history has no load; name its column with the option qps");
    if (!rc)
        rc = history_resample(&native, w->scenario->step_us, &h, e);
    float *qps = rc ? NULL : try_zero((size_t)h.n, sizeof *qps);
    uint8_t *barred = rc ? NULL : try_zero((size_t)h.n, 1);
    if (!rc && (!qps || !barred))
        rc = err_set(e, ERR_NOMEM, "demand of %lld steps", (long long)h.n);
    if (rc) {
        mem_free(qps);
        mem_free(barred);
    } else {
        memcpy(qps, h.col[FIELD_QPS], (size_t)h.n * sizeof *qps);
        memcpy(barred, h.barred, (size_t)h.n);
        bridge_gaps(qps, h.n);
        rc = take(w, qps, barred, h.n, h.start_us, native.zone, e);
    }
    history_close(&h);
    history_close(&native);
    mem_free(report);
    return rc;
}

static enum err_code from_generator(struct world *w, struct err *e)
{
    const struct scenario *sc = w->scenario;
    int64_t n = sc->generator.days * (US_PER_DAY / sc->step_us);
    bool scheduled = strcmp(sc->generator.kind, "scheduled") == 0;
    if (!scheduled && strcmp(sc->generator.kind, "diurnal") != 0)
        return err_set(e, ERR_MISSING, "generator.kind: \"%s\" is unknown; there are \"diurnal\" and \"scheduled\"",
                       sc->generator.kind);
    float *qps = try_zero((size_t)n, sizeof *qps);
    uint8_t *barred = try_zero((size_t)n, 1);
    struct generate_cfg g = generate_cfg_default();
    g.step_us = sc->step_us;
    if (scheduled) { /* jobs that start on the hour, beside fewer unforeseen bursts */
        g.hourly_height = 0.8;
        g.bursts_per_day = 1;
    }
    enum err_code rc = qps && barred ? generate_demand(&g, (uint64_t)sc->generator.seed, n, qps, e)
                                     : err_set(e, ERR_NOMEM, "demand of %lld steps", (long long)n);
    if (!rc)
        return take(w, qps, barred, n, g.start_us, NULL, e);
    mem_free(qps);
    mem_free(barred);
    return rc;
}

enum err_code world_new(const struct scenario *sc, struct world **out, struct err *e)
{
    struct world *w = mem_zero(1, sizeof *w);
    w->scenario = sc;
    enum err_code rc = sc->generator.kind ? from_generator(w, e) : from_history(w, e);
    if (rc) {
        world_free(w);
        return err_wrap(e, "scenario %s", sc->name);
    }
    *out = w;
    return ERR_OK;
}

void chance_free(struct chance *c)
{
    if (!c)
        return;
    mem_free(c->factor);
    mem_free(c->forecast);
    mem_free(c);
}

/* Mean of a point's noisy demand; missing where half of its steps or more are barred. */
static float point_mean(const struct world *w, const struct chance *c, int32_t point)
{
    double sum = 0;
    int n = 0;
    for (int32_t i = point * w->point_steps; i < (point + 1) * w->point_steps; i++) {
        if (w->barred[i])
            continue;
        sum += (double)(w->demand[i] * c->factor[i]);
        n++;
    }
    return 2 * n > w->point_steps ? (float)(sum / n) : NAN;
}

static enum err_code fill_forecasts(const struct world *w, struct chance *c, struct err *e)
{
    struct forecast_config cfg = forecast_config_default();
    struct forecaster *f = forecast_new(&cfg);
    enum err_code rc = ERR_OK;
    forecast_get(f, &c->forecast[0]);
    for (int32_t i = 1; !rc && i < c->n_forecasts; i++) {
        if (i % SIGNAL_POINTS == 0 && (rc = signal_check(e)))
            break;
        int64_t start_us = w->start_us + (i - 1) * FORECAST_POINT_US;
        struct calendar_point at = calendar_at(&w->calendar, start_us);
        rc = forecast_push(f, start_us, point_mean(w, c, i - 1), &at, e);
        forecast_get(f, &c->forecast[i]);
    }
    forecast_free(f);
    return rc;
}

enum err_code chance_new(const struct world *w, uint64_t seed, struct chance **out, struct err *e)
{
    struct chance *c = mem_zero(1, sizeof *c);
    c->seed = seed;
    c->n_forecasts = w->n / w->point_steps + 1;
    c->factor = try_zero((size_t)w->n, sizeof *c->factor);
    c->forecast = try_zero((size_t)c->n_forecasts, sizeof *c->forecast);
    enum err_code rc = c->factor && c->forecast ? ERR_OK : err_set(e, ERR_NOMEM, "forecasts of a seed");
    if (!rc) {
        capsim_noise_fill(&w->sim, seed, 0, w->n, c->factor);
        rc = fill_forecasts(w, c, e);
    }
    if (rc) {
        chance_free(c);
        return rc;
    }
    *out = c;
    return ERR_OK;
}

struct many {
    const struct world *w;
    uint64_t first;
    struct chance **out;
    struct err *err; /* [n] */
    enum err_code *rc;
};

static void one_of_many(size_t shard, int worker, void *arg)
{
    struct many *m = arg;
    (void)worker;
    m->rc[shard] = signal_check(&m->err[shard]);
    if (!m->rc[shard])
        m->rc[shard] = chance_new(m->w, m->first + shard, &m->out[shard], &m->err[shard]);
}

enum err_code chance_new_many(const struct world *w, uint64_t first, int n, struct thread_pool *pool,
                              struct chance **out, struct err *e)
{
    struct many m = {.w = w, .first = first, .out = out};
    enum err_code rc = ERR_OK;
    m.err = mem_zero((size_t)n, sizeof *m.err);
    m.rc = mem_zero((size_t)n, sizeof *m.rc);
    memset(out, 0, (size_t)n * sizeof *out);
    parallel_for(pool, (size_t)n, one_of_many, &m);
    for (int i = 0; i < n && !rc; i++)
        if ((rc = m.rc[i]) != ERR_OK)
            *e = m.err[i];
    for (int i = 0; rc && i < n; i++) {
        chance_free(out[i]);
        out[i] = NULL;
    }
    mem_free(m.rc);
    mem_free(m.err);
    return rc;
}
