/* ring.c - records of the last minutes, and the mean over a window of them.
 *
 * All targets share the times of the records; a record of a target is FIELD_COUNT floats, NaN where
 * missing. A record of a round in which a target had nothing at all is none (oldest_us 0). */
#include <math.h>
#include <string.h>

#include "base/mem.h"
#include "collect/collect_priv.h"

static float *record(const struct collect *c, int slot, int at)
{
    return c->value + ((size_t)slot * (size_t)c->ring + (size_t)at) * FIELD_COUNT;
}

static int64_t *oldest(const struct collect *c, int slot, int at)
{
    return c->oldest_us + (size_t)slot * (size_t)c->ring + (size_t)at;
}

void ring_reset(struct collect *c, int slot)
{
    c->slot[slot].first_round = c->closed;
    for (int at = 0; at < c->ring; at++)
        *oldest(c, slot, at) = 0;
    memset(c->counter + (size_t)slot * FIELD_COUNT, 0, FIELD_COUNT * sizeof *c->counter);
}

void ring_clear(struct collect *c)
{
    for (int i = 0; i < c->o.max_targets; i++)
        ring_reset(c, i);
}

/* ---- closing a round ----------------------------------------------------------------------------
 */

static enum query_aggregate rule_of(const struct collect *c, int slot, enum field f, bool *counter)
{
    *counter = false;
    if (c->slot[slot].own[f])
        return QUERY_ONE;
    for (int i = 0; i < c->queries.n; i++)
        if (c->queries.q[i].field == f) {
            *counter = c->queries.q[i].counter;
            return c->queries.q[i].aggregate;
        }
    return QUERY_MEAN; /* metrics.k8s.io */
}

static double joined(const struct acc *a, enum query_aggregate rule)
{
    switch (rule) {
    case QUERY_ONE:
        return a->n == 1 ? a->sum : (double)NAN; /* two were reported when they came */
    case QUERY_SUM:
        return a->sum;
    case QUERY_MAX:
        return a->hi;
    case QUERY_MIN:
        return a->lo;
    default:
        return a->sum / a->n;
    }
}

/* Growth per second since the last reading, on the server's clock.  A fall is a restart from 0; the same
 * time again is no news: the last rate stays (until its sample is stale); a time before the last is a clock
 * that jumped: begin anew. */
static double rate(const struct collect *c, struct counter *k, double v, int64_t stamp_us)
{
    double dt_s = (double)(stamp_us - k->stamp_us) * 1e-6;
    double most_s = (double)(GAP_STEPS * c->o.step_us) * 1e-6 / c->o.speed;
    double grown = v >= k->v ? v - k->v : v;
    if (k->known && stamp_us == k->stamp_us)
        return (double)k->rate;
    k->rate = k->known && dt_s > 0 && dt_s <= most_s ? (float)(grown / dt_s) : NAN;
    k->known = true;
    k->v = v;
    k->stamp_us = stamp_us;
    return (double)k->rate;
}

static float settle(struct collect *c, int slot, enum field f)
{
    const struct acc *a = &c->acc[(size_t)slot * FIELD_COUNT + f];
    bool counter;
    enum query_aggregate rule = rule_of(c, slot, f, &counter);
    double v = a->n ? joined(a, rule) : (double)NAN;
    if (counter && !isnan(v))
        v = rate(c, &c->counter[(size_t)slot * FIELD_COUNT + f], v, a->stamp_us);
    if (isnan(v))
        return NAN;
    if (!spread_judge(f, &v)) {
        c->health[f].bad++;
        return NAN;
    }
    c->health[f].n_targets++;
    return (float)v;
}

static void close_slot(struct collect *c, int slot, int at)
{
    float *v = record(c, slot, at);
    int64_t first = 0;
    for (int f = 0; f < FIELD_COUNT; f++) {
        v[f] = settle(c, slot, (enum field)f);
        int64_t t = c->acc[(size_t)slot * FIELD_COUNT + (size_t)f].oldest_us;
        if (!isnan(v[f]) && (first == 0 || t < first))
            first = t;
    }
    *oldest(c, slot, at) = first;
}

void ring_close(struct collect *c)
{
    int at = (int)(c->closed % (uint64_t)c->ring);
    for (int f = 0; f < FIELD_COUNT; f++)
        c->health[f].n_targets = 0;
    c->t_us[at] = c->round_now_us;
    for (int i = 0; i < c->o.max_targets; i++) {
        *oldest(c, i, at) = 0;
        if (c->slot[i].used)
            close_slot(c, i, at);
    }
    c->closed++;
}

/* ---- reading ------------------------------------------------------------------------------------
 */

/* Place of the record `back` rounds before the newest; -1 when it is not there or holds nothing of the slot. */
static int place(const struct collect *c, int slot, int back)
{
    uint64_t first = c->slot[slot].first_round;
    if (back < 0 || back >= c->ring || first >= c->closed || (uint64_t)back >= c->closed - first)
        return -1;
    int at = (int)((c->closed - 1 - (uint64_t)back) % (uint64_t)c->ring);
    return *oldest(c, slot, at) ? at : -1;
}

static void nothing(struct collect_sample *out)
{
    *out = (struct collect_sample){.qps_last = NAN};
    for (int f = 0; f < FIELD_COUNT; f++)
        out->value[f] = out->last[f] = NAN;
}

/* Mean of one field over the records in (newest - window, newest]. */
static float mean(const struct collect *c, int slot, enum field f, int64_t newest_us)
{
    double sum = 0;
    int n = 0;
    bool fresh = false;
    for (int back = 0; back < c->ring; back++) {
        int at = place(c, slot, back);
        if (at < 0 || c->t_us[at] <= newest_us - c->o.window_us)
            continue;
        float v = record(c, slot, at)[f];
        if (isnan(v))
            continue;
        fresh |= newest_us - c->t_us[at] <= GAP_STEPS * c->o.step_us;
        sum += (double)v;
        n++;
    }
    return fresh && 2 * n >= c->need ? (float)(sum / n) : NAN;
}

static float newest_qps(const struct collect *c, int slot, int64_t newest_us)
{
    for (int back = 0; back < c->ring; back++) {
        int at = place(c, slot, back);
        if (at < 0 || newest_us - c->t_us[at] > GAP_STEPS * c->o.step_us)
            continue;
        if (!isnan(record(c, slot, at)[FIELD_QPS]))
            return record(c, slot, at)[FIELD_QPS];
    }
    return NAN;
}

/* Records within the window, and whether they reach back to its start (half a step of jitter allowed). */
static int count_records(const struct collect *c, int slot, int64_t newest_us, bool *spans)
{
    int n = 0;
    *spans = false;
    for (int back = 0; back < c->ring; back++) {
        int at = place(c, slot, back);
        if (at < 0 || c->t_us[at] <= newest_us - c->o.window_us)
            continue;
        n++;
        *spans |= newest_us - c->t_us[at] >= c->o.window_us - c->o.step_us - c->o.step_us / 2;
    }
    return n;
}

bool collect_view(const struct collect *c, int target, int64_t now_us, struct collect_sample *out)
{
    nothing(out);
    if (target < 0 || target >= c->o.max_targets || !c->slot[target].used)
        return false;
    int back = 0, newest = -1;
    while (back < c->ring && (newest = place(c, target, back)) < 0)
        back++;
    if (newest < 0 ||
        c->t_us[newest] >
            now_us + c->o.step_us) /* our clock went back: the next round empties the ring */
        return false;
    int64_t newest_us = c->t_us[newest];
    bool spans;
    out->n_records = count_records(c, target, newest_us, &spans);
    out->sample_us = *oldest(c, target, newest);
    memcpy(out->last, record(c, target, newest), sizeof out->last);
    out->qps_last = newest_qps(c, target, newest_us);
    for (int f = 0; f < FIELD_COUNT && spans; f++)
        out->value[f] = mean(c, target, (enum field)f, newest_us);
    return true;
}

bool collect_record(const struct collect *c, int target, int back, int64_t *t_us,
                    float value[FIELD_COUNT])
{
    if (target < 0 || target >= c->o.max_targets || !c->slot[target].used)
        return false;
    int at = place(c, target, back);
    if (at < 0)
        return false;
    *t_us = c->t_us[at];
    memcpy(value, record(c, target, at), FIELD_COUNT * sizeof *value);
    return true;
}
