/* profile_merge.c - layers into one profile, the rules over several fields, and what a decision
 * needs of it. */
#include <math.h>
#include <string.h>

#include "base/clock.h"
#include "base/mem.h"
#include "profile/profile_priv.h"

/* ---- layers ---------------------------------------------------------------------------------- */

static void copy_field(struct profile *out, const struct profile *layer, enum profile_field f)
{
    const struct profile_row *r = profile_row(f);
    const void *at = (const char *)layer + r->offset;
    struct profile_value v = {0};
    switch (r->kind) {
    case PROFILE_INT:
    case PROFILE_CLASS:
        v.i = *(const int32_t *)at;
        break;
    case PROFILE_NUM:
        v.num = *(const double *)at;
        break;
    case PROFILE_FLAG:
        v.flag = *(const bool *)at;
        break;
    case PROFILE_DURATION:
    case PROFILE_TIME:
        v.i = *(const int64_t *)at;
        break;
    case PROFILE_TEXT:
        v.text = *(char *const *)at;
        v.n = strlen(v.text);
        break;
    }
    if (f == PROFILE_F_PAUSED && out->paused && !v.flag)
        return; /* whoever pauses, pauses */
    profile_store(out, (enum profile_source)layer->source[f], f, &v);
}

static void copy_layer(struct profile *out, const struct profile *layer)
{
    for (int f = 0; f < PROFILE_FIELDS; f++)
        if (layer->source[f])
            copy_field(out, layer, (enum profile_field)f);
    for (int f = 0; f < FIELD_COUNT; f++) {
        if (layer->query[f]) {
            mem_free(out->query[f]);
            out->query[f] = mem_strdup(layer->query[f]);
        }
    }
    if (layer->curve) {
        mem_free(out->curve);
        out->curve = mem_zero((size_t)layer->n_curve, sizeof *out->curve);
        memcpy(out->curve, layer->curve, (size_t)layer->n_curve * sizeof *out->curve);
        out->n_curve = layer->n_curve;
        out->curve_source = layer->curve_source;
    }
}

/* ---- rules ----------------------------------------------------------------------------------- */

static bool stated(const struct profile *p, enum profile_field f)
{
    return p->source[f] != PROFILE_UNSET;
}

static void unstate(struct profile *p, enum profile_field f)
{
    p->source[f] = PROFILE_UNSET;
}

static void check_units(const struct profile *p, const char *object, struct profile_faults *faults)
{
    if (!stated(p, PROFILE_F_UNITS_MAX))
        return;
    if (p->units_min > p->units_max)
        profile_fault(
            faults, "%s: minUnits %d (%s) is above maxUnits %d (%s)", object, p->units_min,
            profile_source_name((enum profile_source)p->source[PROFILE_F_UNITS_MIN]), p->units_max,
            profile_source_name((enum profile_source)p->source[PROFILE_F_UNITS_MAX]));
    if (p->units_min_safe > p->units_max)
        profile_fault(
            faults, "%s: minSafeUnits %d (%s) is above maxUnits %d (%s)", object, p->units_min_safe,
            profile_source_name((enum profile_source)p->source[PROFILE_F_UNITS_MIN_SAFE]),
            p->units_max, profile_source_name((enum profile_source)p->source[PROFILE_F_UNITS_MAX]));
    if (stated(p, PROFILE_F_OVERRIDE_UNITS) && p->override_units > p->units_max)
        profile_fault(faults, "%s: override.units %d is above maxUnits %d", object,
                      p->override_units, p->units_max);
}

static void check_override(const struct profile *p, const char *object,
                           struct profile_faults *faults)
{
    bool units = stated(p, PROFILE_F_OVERRIDE_UNITS), until = stated(p, PROFILE_F_OVERRIDE_UNTIL);
    bool author = stated(p, PROFILE_F_OVERRIDE_AUTHOR),
         reason = stated(p, PROFILE_F_OVERRIDE_REASON);
    if ((units || until || author || reason) && !(units && until && author))
        profile_fault(faults, "%s: override: needs units, until and author", object);
}

/* A curve and a service time are two ways to say the same: the higher layer's stands. */
static void check_latency(struct profile *p, const char *object, struct profile_faults *faults)
{
    int service = p->source[PROFILE_F_SERVICE], slots = p->source[PROFILE_F_SLOTS];
    int erlang = service > slots ? service : slots,
        curve = p->curve ? p->curve_source : PROFILE_UNSET;
    if (curve && curve == erlang) {
        profile_fault(faults, "%s: latency: a curve, or a service time with slots, not both",
                      object);
    } else if (curve > erlang) {
        unstate(p, PROFILE_F_SERVICE);
        unstate(p, PROFILE_F_SLOTS);
    } else if (erlang) {
        mem_free(p->curve);
        p->curve = NULL;
        p->n_curve = 0;
        p->curve_source = PROFILE_UNSET;
        if (!service || !slots)
            profile_fault(faults, "%s: latency: needs both serviceMilliseconds and slots", object);
        if (stated(p, PROFILE_F_UNIT_QPS) && p->source[PROFILE_F_UNIT_QPS] >= erlang)
            profile_fault(faults, "%s: latency.unitQps: belongs to a curve, not to a service time",
                          object);
    } else {
        profile_fault(faults,
                      "%s: latency: not stated; give a curve, or serviceMilliseconds and slots",
                      object);
    }
}

/* Tries the model that would be built, so that a load test gone wrong is a fault here and not an
 * error later. */
static void check_model(const struct profile *p, const char *object, struct profile_faults *faults)
{
    struct latency_model m = {0};
    struct err e;
    if (faults->n)
        return;
    if (p->curve ? profile_latency(p, &m, &e)
                 : latency_check_erlang(p->service_ms, p->slots, p->units_max, p->slo_p99_ms, &e))
        profile_fault(faults, "%s: latency: %s", object, e.msg);
    latency_fini(&m);
}

static void check_stated(const struct profile *p, const char *object, struct profile_faults *faults)
{
    static const struct {
        enum profile_field f;
        const char *words;
    } needed[] = {
        {PROFILE_F_CLASS, "class"},
        {PROFILE_F_UNITS_MIN, "minUnits"},
        {PROFILE_F_UNITS_MAX, "maxUnits (or annotation sluice.dev/max)"},
        {PROFILE_F_GPUS, "gpusPerUnit"},
        {PROFILE_F_PRICE, "priceUsdPerHour"},
        {PROFILE_F_SLO_P99, "slo.p99Milliseconds (or annotation sluice.dev/slo-p99-ms)"},
        {PROFILE_F_SLO_VIOLATION, "slo.violationMaxFraction"},
    };
    for (size_t i = 0; i < ARRAY_LEN(needed); i++)
        if (!stated(p, needed[i].f))
            profile_fault(faults, "%s: %s: not stated", object, needed[i].words);
}

void profile_merge(const struct profile *const *layers, size_t n, const char *object,
                   struct profile *out, struct profile_faults *faults)
{
    profile_init(out);
    for (size_t i = 0; i < n; i++)
        copy_layer(out, layers[i]);
    check_stated(out, object, faults);
    check_units(out, object, faults);
    check_override(out, object, faults);
    check_latency(out, object, faults);
    check_model(out, object, faults);
}

/* ---- for the decision ------------------------------------------------------------------------ */

void profile_spec(const struct profile *p, double measured_s, int64_t default_start_us,
                  struct capacity_spec *s)
{
    s->units_min = p->units_min;
    s->units_max = p->units_max;
    s->units_min_safe = p->units_min_safe;
    s->gpus_per_unit = p->gpus_per_unit;
    s->cls = (enum task_class)p->cls;
    s->price_usd_h = p->price_usd_h;
    s->slo_p99_ms = p->slo_p99_ms;
    s->slo_violation_max = p->slo_violation_max;
    if (stated(p, PROFILE_F_START))
        s->start_us = p->start_us;
    else
        s->start_us =
            isfinite(measured_s) ? (int64_t)(measured_s * (double)US_PER_S) : default_start_us;
}

enum err_code profile_latency(const struct profile *p, struct latency_model *out, struct err *e)
{
    if (!p->curve)
        return latency_from_erlang(p->service_ms, p->slots, p->units_max, p->slo_p99_ms, out, e);
    double full =
        stated(p, PROFILE_F_UNIT_QPS) ? p->unit_qps : p->curve[p->n_curve - 1].load_per_unit;
    return latency_from_curve(p->curve, p->n_curve, full, p->units_max, p->slo_p99_ms, out, e);
}

bool profile_checkpoint_recent(const struct profile *p, int64_t now_us)
{
    return p->checkpoint && stated(p, PROFILE_F_CHECKPOINT_TIME) && p->checkpoint_us <= now_us &&
           now_us - p->checkpoint_us < 2 * US_PER_HOUR;
}
