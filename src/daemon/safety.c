#include "daemon/safety.h"

#include <string.h>

#include "base/num.h"

_Static_assert(SAFETY_NEVER == GUARD_NEVER, "never is written as never");
_Static_assert((int)SAFETY_BUCKETS >= (int)GUARD_UP_WIDE && (int)SAFETY_BUCKETS >= (int)GUARD_FLAP_BUCKETS,
               "both windows fit");

static const int64_t flap_bucket_us = INT64_C(3600000000) / GUARD_FLAP_BUCKETS;

static int slot_of(int64_t bucket, int n)
{
    int64_t i = bucket % n;
    return (int)(i < 0 ? i + n : i);
}

/* From n buckets to the `room` newest: what is older is remembered in the oldest of them, so longer, never shorter. */
static void window_out(const struct guard_window *w, int n, int room, int64_t width_us, struct safety_window *out)
{
    memset(out, 0, sizeof *out);
    out->width_us = width_us;
    out->n = room;
    out->bucket = w->bucket;
    out->sum = w->sum;
    for (int i = 0; i < n && w->bucket != GUARD_NEVER; i++) {
        int to = slot_of(w->bucket - min_int(i, room - 1), room);
        out->at[to] = (int16_t)min_int(INT16_MAX, out->at[to] + w->at[slot_of(w->bucket - i, n)]);
    }
}

static void window_in(const struct safety_window *s, int n, int room, int64_t width_us, int64_t now_us,
                      struct guard_window *out)
{
    struct safety_window w = *s;
    memset(out, 0, sizeof *out);
    out->bucket = GUARD_NEVER;
    if (w.bucket == SAFETY_NEVER || w.width_us <= 0)
        return;
    safety_window_fit(&w, room, width_us, now_us);
    out->bucket = w.bucket;
    for (int i = 0; i < room && w.bucket != SAFETY_NEVER; i++) {
        out->at[slot_of(w.bucket - i, n)] = w.at[slot_of(w.bucket - i, room)];
        out->sum += w.at[i];
    }
}

void safety_from_guard(const struct capacity_config *cfg, const struct guard_state *g, struct safety_status *out)
{
    out->last_out_us = g->last_out_us;
    out->last_in_us = g->last_in_us;
    out->watch_until_us = g->watch_until_us;
    out->breaker_until_us = g->breaker_until_us;
    out->breaker_retry_us = g->breaker_retry_us;
    out->high_since_us = g->high_since_us;
    out->low_since_us = g->low_since_us;
    out->water_since_us = g->water_since_us;
    out->ready_before = g->ready_before;
    out->failed_before = g->failed_before;
    window_out(&g->up, GUARD_UP_BUCKETS, GUARD_UP_WIDE, cfg->up_bucket_us, &out->rate);
    window_out(&g->flap, GUARD_FLAP_BUCKETS, GUARD_FLAP_BUCKETS, flap_bucket_us, &out->flap);
}

void safety_to_guard(const struct capacity_config *cfg, const struct safety_status *s, int64_t now_us,
                     struct guard_state *g)
{
    g->last_out_us = s->last_out_us;
    g->last_in_us = s->last_in_us;
    g->watch_until_us = s->watch_until_us;
    g->breaker_until_us = s->breaker_until_us;
    g->breaker_retry_us = s->breaker_retry_us;
    g->high_since_us = s->high_since_us;
    g->low_since_us = s->low_since_us;
    g->water_since_us = s->water_since_us;
    g->ready_before = s->ready_before;
    g->failed_before = s->failed_before;
    window_in(&s->rate, GUARD_UP_BUCKETS, GUARD_UP_WIDE, cfg->up_bucket_us, now_us, &g->up);
    window_in(&s->flap, GUARD_FLAP_BUCKETS, GUARD_FLAP_BUCKETS, flap_bucket_us, now_us, &g->flap);
}

bool safety_is_newer(const struct safety_status *s, const struct guard_state *g)
{
    return s->last_out_us > g->last_out_us || s->last_in_us > g->last_in_us ||
           s->watch_until_us > g->watch_until_us || s->breaker_until_us > g->breaker_until_us;
}
