#include "execute/safety.h"

#include <string.h>

#include "base/clock.h"
#include "base/mem.h"
#include "execute/json_priv.h"

static const char *const state_names[SAFETY_STATES] = {
#define X(id, name) [SAFETY_##id] = (name),
    SAFETY_STATE_LIST(X)
#undef X
};

/* The timers, once: JSON keys, and whether the time lies ahead. */
static const struct {
    const char *key;
    size_t offset;
    bool ahead;
} timers[] = {
#define T(k, member, is_ahead)                                                                     \
    {                                                                                              \
        k, offsetof(struct safety_status, member), is_ahead                                        \
    }
    T("lastScaleOut", last_out_us, false),     T("lastScaleIn", last_in_us, false),
    T("watchUntil", watch_until_us, true),     T("breakerUntil", breaker_until_us, true),
    T("breakerRetry", breaker_retry_us, true), T("highSince", high_since_us, false),
    T("lowSince", low_since_us, false),        T("waterSince", water_since_us, false),
    T("lastReversal", reversed_us, false),
#undef T
};

static int64_t *timer(struct safety_status *s, size_t i)
{
    return (int64_t *)(void *)((char *)s + timers[i].offset);
}

static int64_t timer_value(const struct safety_status *s, size_t i)
{
    return *(const int64_t *)(const void *)((const char *)s + timers[i].offset);
}

void safety_status_init(struct safety_status *s)
{
    *s = (struct safety_status){0};
    for (size_t i = 0; i < ARRAY_LEN(timers); i++)
        *timer(s, i) = SAFETY_NEVER;
    s->rate.bucket = s->flap.bucket = SAFETY_NEVER;
}

const char *safety_state_name(enum safety_state s)
{
    return state_names[s];
}

enum safety_state safety_state_of(const struct safety_status *s, const struct safety_claims *c,
                                  int64_t now_us)
{
    int64_t acted = s->last_out_us > s->last_in_us ? s->last_out_us : s->last_in_us;
    if (c->frozen)
        return SAFETY_FROZEN;
    if (c->held)
        return SAFETY_HELD;
    if (c->overridden)
        return SAFETY_OVERRIDDEN;
    if (s->breaker_until_us != SAFETY_NEVER)
        return s->breaker_until_us > now_us ? SAFETY_BREAKER_OPEN : SAFETY_BREAKER_HALF_OPEN;
    if (s->watch_until_us > now_us)
        return SAFETY_WATCHING;
    return acted != SAFETY_NEVER && now_us - acted < c->wait_us ? SAFETY_COOLING : SAFETY_NORMAL;
}

int safety_clamp(struct safety_status *s, int64_t now_us, int64_t longest_us)
{
    int moved = 0;
    for (size_t i = 0; i < ARRAY_LEN(timers); i++) {
        int64_t most = timers[i].ahead ? now_us + longest_us : now_us;
        if (*timer(s, i) > most) {
            *timer(s, i) = most;
            moved++;
        }
    }
    return moved;
}

/* ---- windows --------------------------------------------------------------------------------- */

static int slot(int64_t bucket, int32_t n)
{
    int64_t i = bucket % n;
    return (int)(i < 0 ? i + n : i);
}

static void window_add(struct safety_window *w, int64_t bucket, int32_t units)
{
    int i = slot(bucket, w->n);
    int32_t room = INT16_MAX - w->at[i];
    units = units < room ? units : room;
    w->at[i] = (int16_t)(w->at[i] + units);
    w->sum += units;
}

void safety_window_fit(struct safety_window *w, int32_t n, int64_t width_us, int64_t now_us)
{
    ASSERT(n >= 1 && n <= SAFETY_BUCKETS && width_us > 0);
    int64_t last = now_us / width_us;
    if (w->bucket != SAFETY_NEVER && w->n == n && w->width_us == width_us && w->bucket <= last)
        return;
    struct safety_window old = *w;
    *w = (struct safety_window){.width_us = width_us, .n = n, .bucket = SAFETY_NEVER};
    if (old.bucket == SAFETY_NEVER || old.sum == 0)
        return;
    w->bucket = last;
    for (int32_t i = 0; i < old.n; i++) {
        int64_t from = old.bucket - i, end_us = (from + 1) * old.width_us - 1;
        int64_t to = (end_us < now_us ? end_us : now_us) / width_us;
        if (old.at[slot(from, old.n)] > 0 && to > last - n)
            window_add(w, to, old.at[slot(from, old.n)]);
    }
}

static void window_put(struct json_writer *w, const char *key, const struct safety_window *win)
{
    if (win->bucket == SAFETY_NEVER || win->width_us <= 0) {
        json_put_null(w, key);
        return;
    }
    json_open(w, key);
    json_put_f64(w, "bucketSeconds", (double)win->width_us / (double)US_PER_S);
    put_time(w, "newest", win->bucket * win->width_us, true);
    json_open_array(w, "units");
    for (int32_t i = win->n - 1; i >= 0; i--)
        json_put_i64(w, NULL, win->at[slot(win->bucket - i, win->n)]);
    json_close_array(w);
    json_close(w);
}

static enum err_code window_units(const struct json_doc *doc, const struct json *obj,
                                  struct safety_window *win, struct err *e)
{
    const struct json *list;
    enum err_code rc = json_get_array(doc, obj, "units", &list, e);
    if (rc)
        return rc;
    size_t n = json_count(list);
    if (n < 1 || n > SAFETY_BUCKETS)
        return get_error(doc, obj, "units", ERR_RANGE, "expected 1 to 20 numbers", e);
    win->n = (int32_t)n;
    int64_t bucket = win->bucket - (int64_t)n + 1;
    for (const struct json *v = json_first(list); v; v = json_next(v), bucket++) {
        double units = json_number(v);
        if (!(units >= 0 && units <= INT16_MAX) || units != (double)(int32_t)units)
            return get_error(doc, obj, "units", ERR_RANGE, "expected whole numbers from 0 to 32767",
                             e);
        window_add(win, bucket, (int32_t)units);
    }
    return ERR_OK;
}

static enum err_code window_parse(const struct json_doc *doc, const struct json *parent,
                                  const char *key, struct safety_window *win, struct err *e)
{
    const struct json *obj;
    double seconds = 0;
    int64_t newest_us = 0;
    enum err_code rc = get_object(doc, parent, key, &obj, e);
    if (rc || !obj)
        return rc;
    rc = json_get_f64(doc, obj, "bucketSeconds", &seconds, e);
    if (!rc && !(seconds >= 0.001 && seconds <= 86400))
        rc = get_error(doc, obj, "bucketSeconds", ERR_RANGE, "expected 0.001 to 86400", e);
    if (!rc)
        rc = get_time(doc, obj, "newest", &newest_us, e);
    if (rc)
        return rc;
    *win = (struct safety_window){.width_us = (int64_t)(seconds * (double)US_PER_S + 0.5)};
    win->bucket = newest_us / win->width_us;
    return window_units(doc, obj, win, e);
}

/* ---- JSON ------------------------------------------------------------------------------------ */

void safety_status_put(struct json_writer *w, const char *key, const struct safety_status *s)
{
    json_open(w, key);
    json_put_str(w, "state", state_names[s->state]);
    for (size_t i = 0; i < ARRAY_LEN(timers); i++)
        put_time(w, timers[i].key, timer_value(s, i), timer_value(s, i) != SAFETY_NEVER);
    json_put_i64(w, "readyBefore", s->ready_before);
    json_put_i64(w, "failedBefore", s->failed_before);
    window_put(w, "rateWindow", &s->rate);
    window_put(w, "flapWindow", &s->flap);
    json_put_i64(w, "reversals", s->reversals);
    json_close(w);
}

static enum err_code parse_counts(const struct json_doc *doc, const struct json *obj,
                                  struct safety_status *s, struct err *e)
{
    static const int32_t most = 1 << 20;
    int state = s->state;
    enum err_code rc = get_name(doc, obj, "state", state_names, SAFETY_STATES, &state, e);
    s->state = (enum safety_state)state;
    if (!rc)
        rc = get_i32(doc, obj, "readyBefore", 0, most, &s->ready_before, e);
    if (!rc)
        rc = get_i32(doc, obj, "failedBefore", 0, most, &s->failed_before, e);
    if (!rc)
        rc = get_i32(doc, obj, "reversals", 0, most, &s->reversals, e);
    return rc;
}

enum err_code safety_status_parse(const struct json_doc *doc, const struct json *obj,
                                  struct safety_status *s, struct err *e)
{
    struct safety_status got;
    safety_status_init(&got);
    enum err_code rc = ERR_OK;
    if (!json_is_null(obj)) {
        rc = parse_counts(doc, obj, &got, e);
        for (size_t i = 0; !rc && i < ARRAY_LEN(timers); i++)
            rc = get_time(doc, obj, timers[i].key, timer(&got, i), e);
        if (!rc)
            rc = window_parse(doc, obj, "rateWindow", &got.rate, e);
        if (!rc)
            rc = window_parse(doc, obj, "flapWindow", &got.flap, e);
    }
    if (!rc)
        *s = got;
    return rc;
}
