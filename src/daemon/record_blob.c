/* record_blob.c - layouts of the blobs (docs/store.md).  Each begins with its version. */
#include <string.h>

#include "base/mem.h"
#include "daemon/record_priv.h"
#include "decide/sane.h"

/* ---- values ---------------------------------------------------------------------------------- */

static void wire_bits(struct wire *w, uint64_t *bits, size_t n)
{
    if (w->bad || w->n - w->at < n) {
        w->bad = true;
        return;
    }
    if (w->reading)
        *bits = 0;
    for (size_t i = 0; i < n; i++) {
        if (w->reading)
            *bits |= (uint64_t)w->p[w->at + i] << (8 * i);
        else
            w->p[w->at + i] = (unsigned char)(*bits >> (8 * i));
    }
    w->at += n;
}

static void wire_u64(struct wire *w, uint64_t *v)
{
    wire_bits(w, v, 8);
}

static void wire_i64(struct wire *w, int64_t *v)
{
    uint64_t bits = (uint64_t)*v;
    wire_bits(w, &bits, 8);
    *v = (int64_t)bits;
}

static void wire_int(struct wire *w, int *v)
{
    uint64_t bits = (uint32_t)*v;
    wire_bits(w, &bits, 4);
    *v = (int)(int32_t)(uint32_t)bits;
}

static void wire_i16(struct wire *w, int16_t *v)
{
    uint64_t bits = (uint16_t)*v;
    wire_bits(w, &bits, 2);
    *v = (int16_t)(uint16_t)bits;
}

static void wire_u8(struct wire *w, uint8_t *v)
{
    uint64_t bits = *v;
    wire_bits(w, &bits, 1);
    *v = (uint8_t)bits;
}

static void wire_i8(struct wire *w, int8_t *v)
{
    uint8_t byte = (uint8_t)*v;
    wire_u8(w, &byte);
    *v = (int8_t)byte;
}

static void wire_bool(struct wire *w, bool *v)
{
    uint8_t byte = *v;
    wire_u8(w, &byte);
    w->bad |= byte > 1;
    *v = byte == 1;
}

static void wire_f32(struct wire *w, float *v)
{
    uint32_t word;
    memcpy(&word, v, sizeof word);
    uint64_t bits = word;
    wire_bits(w, &bits, 4);
    word = (uint32_t)bits;
    memcpy(v, &word, sizeof word);
}

static void wire_floats(struct wire *w, float *v, size_t n)
{
    for (size_t i = 0; i < n; i++)
        wire_f32(w, &v[i]);
}

/* A number that must be this one. */
static void wire_expect(struct wire *w, uint8_t want)
{
    uint8_t got = want;
    wire_u8(w, &got);
    w->bad |= got != want;
}

/* ---- layouts --------------------------------------------------------------------------------- */

static void wire_forecast(struct wire *w, struct forecast *f)
{
    wire_i64(w, &f->made_us);
    wire_expect(w, FORECAST_LEVELS);
    float *const level[] = {f->mean, f->lo80, f->hi80, f->lo95, f->hi95};
    for (size_t i = 0; i < ARRAY_LEN(level); i++)
        wire_floats(w, level[i], FORECAST_LEVELS);
    float *const one[] = {&f->base, &f->slot_p95, &f->high, &f->hours_to_peak, &f->uncertainty};
    for (size_t i = 0; i < ARRAY_LEN(one); i++)
        wire_f32(w, one[i]);
    wire_bool(w, &f->usable);
}

static void wire_when(struct wire *w, struct calendar_point *p)
{
    int day = p->day;
    wire_int(w, &day);
    p->day = day;
    wire_i16(w, &p->minute);
    wire_i8(w, &p->slot);
    wire_i8(w, &p->weekday);
    wire_bool(w, &p->holiday);
    wire_bool(w, &p->month_end);
    wire_bool(w, &p->quarter_end);
}

static void wire_claims(struct wire *w, struct capacity_claims *c)
{
    bool *const flag[] = {&c->frozen,         &c->paused,           &c->unmanaged,
                          &c->owned_by_other, &c->cluster_abnormal, &c->override_on};
    for (size_t i = 0; i < ARRAY_LEN(flag); i++)
        wire_bool(w, flag[i]);
    wire_int(w, &c->override_units);
    wire_i64(w, &c->override_until_us);
}

void wire_view(struct wire *w, struct capacity_view *v)
{
    wire_expect(w, RECORD_VERSION);
    wire_i64(w, &v->now_us);
    int *const count[] = {&v->units_requested, &v->units_ready, &v->units_warming,
                          &v->units_failed};
    for (size_t i = 0; i < ARRAY_LEN(count); i++)
        wire_int(w, count[i]);
    wire_expect(w, CAPACITY_WARM_BINS);
    for (int i = 0; i < CAPACITY_WARM_BINS; i++)
        wire_int(w, &v->warm[i]);
    wire_i64(w, &v->warm_oldest_us);
    wire_i64(w, &v->sample_us);
    wire_expect(w, FIELD_COUNT);
    wire_floats(w, v->value, FIELD_COUNT);
    wire_f32(w, &v->qps_last);
    wire_forecast(w, &v->forecast);
    wire_when(w, &v->when);
    wire_int(w, &v->budget_units);
    wire_f32(w, &v->weight_latency);
    wire_f32(w, &v->weight_cost);
    wire_f32(w, &v->foresight_qps);
    wire_claims(w, &v->claims);
}

void wire_obs(struct wire *w, struct capacity_record *r, uint64_t layout)
{
    uint64_t found = layout;
    wire_expect(w, RECORD_VERSION);
    wire_u64(w, &found);
    w->bad |= found != layout;
    wire_floats(w, r->obs, CAPACITY_OBS);
}

void wire_choice(struct wire *w, struct capacity_record *r, struct choice *c)
{
    wire_expect(w, RECORD_VERSION);
    wire_u64(w, &r->policy_version);
    wire_i8(w, &r->action);
    wire_i16(w, &r->base_units);
    wire_i16(w, &r->gpu_trend);
    wire_i16(w, &r->qps_trend);
    wire_f32(w, &r->qps);
    wire_f32(w, &r->slot_p95);
    wire_f32(w, &r->value);
    wire_u8(w, &r->guarded);
    wire_u8(w, &r->error);
    wire_expect(w, CAPACITY_ACTIONS);
    for (int a = 0; a < CAPACITY_ACTIONS; a++) {
        wire_u8(w, &r->mask[a]);
        wire_i16(w, &r->candidate[a]);
        wire_f32(w, &r->prob[a]);
    }
    wire_u64(w, &c->state_hash);
    wire_bool(w, &c->drew);
    for (size_t i = 0; c->drew && i < ARRAY_LEN(c->rng.s); i++)
        wire_u64(w, &c->rng.s[i]);
}

/* Numbers that are zero bits, most of them, are left out. */
static void wire_check(struct wire *w, struct guard_result *g)
{
    uint8_t present = 0;
    wire_u8(w, &g->check);
    wire_u8(w, &g->verdict);
    wire_u8(w, &g->reason);
    wire_i16(w, &g->lo);
    wire_i16(w, &g->hi);
    for (size_t i = 0; i < ARRAY_LEN(g->num); i++) {
        uint32_t word;
        memcpy(&word, &g->num[i], sizeof word);
        present = (uint8_t)(present | (word != 0) << i);
    }
    wire_u8(w, &present);
    for (size_t i = 0; i < ARRAY_LEN(g->num); i++)
        if (present >> i & 1)
            wire_f32(w, &g->num[i]);
        else
            g->num[i] = 0;
    w->bad |= g->check >= GUARD_CHECKS || g->verdict >= GUARD_VERDICTS || present > 7;
}

void wire_chain(struct wire *w, struct capacity_record *r)
{
    wire_expect(w, RECORD_VERSION);
    wire_u8(w, &r->n_checks);
    w->bad |= r->n_checks > GUARD_CHECKS;
    for (int i = 0; i < r->n_checks && !w->bad; i++)
        wire_check(w, &r->chain[i]);
}

/* ---- what was read --------------------------------------------------------------------------- */

static bool counts_sane(const struct capacity_view *v)
{
    const int count[] = {v->units_requested, v->units_ready, v->units_warming, v->units_failed,
                         v->claims.override_units};
    bool ok = v->budget_units >= 0;
    for (size_t i = 0; i < ARRAY_LEN(count); i++)
        ok &= sane_int(count[i], 0, CAPACITY_UNITS_LIMIT);
    for (int i = 0; i < CAPACITY_WARM_BINS; i++)
        ok &= sane_int(v->warm[i], 0, CAPACITY_UNITS_LIMIT);
    return ok;
}

bool record_view_sane(const struct capacity_view *v)
{
    return counts_sane(v) && sane_time(v->now_us) && sane_time(v->sample_us) &&
           sane_time(v->warm_oldest_us) && sane_time(v->forecast.made_us) &&
           sane_time(v->claims.override_until_us) && sane_int(v->when.minute, 0, 1439) &&
           sane_int(v->when.slot, 0, SLOTS_PER_DAY - 1) && sane_int(v->when.weekday, 0, 6);
}
