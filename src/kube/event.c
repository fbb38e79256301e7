/* event.c - one create per series, its count by merge patches, both beside everything else.
 *
 * A series is found again by the hash of everything in it but the time.  Tables are fixed in size:
 * the least recently used series makes room, and with it the chance to count on; an object's bucket
 * likewise.  Counts that rise are written at most once per count_us and series. */
#include "kube/event.h"

#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/hash.h"
#include "base/mem.h"
#include "base/utf8.h"
#include "kube/client_priv.h"

enum {
    OBJECTS_MAX = 1024,
    NOTE_MAX = 1024,
    WORD_MAX = 128,
    NAME_MAX_BYTES = 230,
    CALL_DEADLINE_S = 10
};

struct series {
    uint64_t key; /* 0: free */
    struct kube_events *owner;
    char *ns, *name;                           /* of the event */
    int64_t count, written;                    /* seen; known to the server */
    int64_t last_wall_us, last_us, patched_us; /* the latter two monotonic */
    kube_id call;                              /* under way; 0: none */
    bool created;
};

struct bucket {
    uint64_t object; /* 0: free */
    double tokens;
    int64_t at_us;
};

struct kube_events {
    struct kube *k;
    struct kube_events_opts o;
    char *controller, *instance;
    struct series *series;  /* [o.queue] */
    struct bucket *buckets; /* [OBJECTS_MAX] */
    struct kube_timer timer;
    bool closing;
    struct kube_events_stats stats;
};

struct kube_events_opts kube_events_opts_default(void)
{
    return (struct kube_events_opts){.controller = "sluice.dev/sluice",
                                     .instance = "sluice",
                                     .burst = 10,
                                     .refill_us = US_PER_MIN,
                                     .queue = 256,
                                     .series_us = 10 * US_PER_MIN,
                                     .count_us = US_PER_MIN};
}

enum err_code kube_events_new(struct kube *k, const struct kube_events_opts *o,
                              struct kube_events **out, struct err *e)
{
    *out = NULL;
    if (o->burst < 1 || o->refill_us < 1 || o->queue < 1 || o->queue > 100000 || !o->controller ||
        !*o->controller || !o->instance || !*o->instance)
        return err_set(e, ERR_INVAL, "events: options that do not work");
    struct kube_events *s = mem_zero(1, sizeof *s);
    s->k = k;
    s->o = *o;
    s->controller = mem_strdup(o->controller);
    s->instance = mem_strdup(o->instance);
    s->series = mem_zero((size_t)o->queue, sizeof *s->series);
    s->buckets = mem_zero(OBJECTS_MAX, sizeof *s->buckets);
    for (int i = 0; i < o->queue; i++)
        s->series[i].owner = s;
    *out = s;
    return ERR_OK;
}

static void series_clear(struct series *x)
{
    mem_free(x->ns);
    mem_free(x->name);
    *x = (struct series){.owner = x->owner};
}

void kube_events_free(struct kube_events *s)
{
    if (!s)
        return;
    s->closing = true;
    kube_timer_stop(&s->timer);
    for (int i = 0; i < s->o.queue; i++) {
        if (s->series[i].call)
            kube_cancel(s->k, s->series[i].call);
        series_clear(&s->series[i]);
    }
    mem_free(s->series);
    mem_free(s->buckets);
    mem_free(s->controller);
    mem_free(s->instance);
    mem_free(s);
}

const struct kube_events_stats *kube_events_stats(const struct kube_events *s)
{
    return &s->stats;
}

/* ---- limits ------------------------------------------------------------------------------ */

static uint64_t object_key(const struct kube_event *ev)
{
    struct hash h = hash_init(0);
    hash_str(&h, ev->kind);
    hash_str(&h, ev->ns);
    hash_str(&h, ev->name);
    hash_str(&h, ev->uid);
    return hash_value(&h) | 1; /* never the 0 of a free slot */
}

static uint64_t series_key(const struct kube_event *ev, uint64_t object)
{
    struct hash h = hash_init(object);
    hash_u64(&h, ev->warning);
    hash_str(&h, ev->reason);
    hash_str(&h, ev->action);
    hash_str(&h, ev->note);
    return hash_value(&h) | 1;
}

static struct bucket *bucket_of(struct kube_events *s, uint64_t object, int64_t now_us)
{
    struct bucket *oldest = &s->buckets[0];
    for (size_t i = 0; i < OBJECTS_MAX; i++) {
        struct bucket *b = &s->buckets[i];
        if (b->object == object)
            return b;
        if (oldest->object && (!b->object || b->at_us < oldest->at_us))
            oldest = b;
    }
    *oldest = (struct bucket){.object = object, .tokens = s->o.burst, .at_us = now_us};
    return oldest;
}

static bool take_token(struct kube_events *s, uint64_t object, int64_t now_us)
{
    struct bucket *b = bucket_of(s, object, now_us);
    b->tokens += (double)(now_us - b->at_us) / (double)s->o.refill_us;
    b->at_us = now_us;
    if (b->tokens > s->o.burst)
        b->tokens = s->o.burst;
    if (b->tokens < 1)
        return false;
    b->tokens -= 1;
    return true;
}

static struct series *find_series(struct kube_events *s, uint64_t key, int64_t now_us)
{
    for (int i = 0; i < s->o.queue; i++) {
        struct series *x = &s->series[i];
        if (x->key == key && now_us - x->last_us <= s->o.series_us)
            return x;
    }
    return NULL;
}

/* A free one, or the least recently used one that has nothing under way; NULL when all have. */
static struct series *free_series(struct kube_events *s)
{
    struct series *best = NULL;
    for (int i = 0; i < s->o.queue; i++) {
        struct series *x = &s->series[i];
        if (!x->key)
            return x;
        if (!x->call && (!best || x->last_us < best->last_us))
            best = x;
    }
    if (best)
        series_clear(best);
    return best;
}

/* ---- bodies ------------------------------------------------------------------------------ */

/* At most n bytes, not in the middle of a character. */
static void put_cut(struct json_writer *w, const char *key, const char *s, size_t n)
{
    struct buf b = buf_init(n + 1);
    size_t len = strlen(s);
    if (len > n) {
        len = n;
        while (len && ((unsigned char)s[len] & 0xc0) == 0x80)
            len--;
    }
    buf_add(&b, s, len);
    json_put_str(w, key, b.p);
    buf_fini(&b);
}

static void write_event(const struct kube_events *s, const struct series *x,
                        const struct kube_event *ev, struct buf *out)
{
    char time[KUBE_TIME_TEXT];
    struct json_writer w = json_writer_init(out, 0);
    kube_time_format(x->last_wall_us, time);
    json_open(&w, NULL);
    json_put_str(&w, "apiVersion", "events.k8s.io/v1");
    json_put_str(&w, "kind", "Event");
    json_open(&w, "metadata");
    json_put_str(&w, "name", x->name);
    json_put_str(&w, "namespace", x->ns);
    json_close(&w);
    json_open(&w, "regarding");
    json_put_str(&w, "apiVersion", ev->api_version);
    json_put_str(&w, "kind", ev->kind);
    if (*ev->ns)
        json_put_str(&w, "namespace", ev->ns);
    json_put_str(&w, "name", ev->name);
    if (*ev->uid)
        json_put_str(&w, "uid", ev->uid);
    json_close(&w);
    json_put_str(&w, "eventTime", time);
    json_put_str(&w, "type", ev->warning ? "Warning" : "Normal");
    put_cut(&w, "reason", ev->reason, WORD_MAX);
    put_cut(&w, "action", ev->action, WORD_MAX);
    put_cut(&w, "note", ev->note, NOTE_MAX);
    json_put_str(&w, "reportingController", s->controller);
    put_cut(&w, "reportingInstance", s->instance, WORD_MAX);
    json_close(&w);
}

static void write_series(const struct series *x, struct buf *out)
{
    char time[KUBE_TIME_TEXT];
    struct json_writer w = json_writer_init(out, 0);
    kube_time_format(x->last_wall_us, time);
    json_open(&w, NULL);
    json_open(&w, "series");
    json_put_i64(&w, "count", x->count);
    json_put_str(&w, "lastObservedTime", time);
    json_close(&w);
    json_close(&w);
}

/* ---- sending ----------------------------------------------------------------------------- */

static void write_counts(void *ctx);

/* Comes back for counts that wait to be written. */
static void wait_for_counts(struct kube_events *s)
{
    if (!s->timer.link)
        kube_timer_set(s->k, &s->timer, s->o.count_us, write_counts, s);
}

static void on_sent(void *ctx, enum err_code rc, struct kube_reply *reply, const struct err *e)
{
    struct series *x = ctx;
    struct kube_events *s = x->owner;
    (void)reply, (void)e;
    x->call = 0;
    if (s->closing)
        return;
    if (rc) { /* told once by the counter; the same event may try anew */
        s->stats.failed++;
        series_clear(x);
        return;
    }
    s->stats.sent += !x->created;
    x->created = true;
    if (x->count > x->written)
        wait_for_counts(s);
}

static void start(struct series *x, enum kube_verb verb, const char *body)
{
    struct kube_events *s = x->owner;
    struct buf path = buf_init(4096);
    kube_path(&path, &KUBE_EVENTS, x->ns, verb == KUBE_CREATE ? NULL : x->name, NULL);
    struct kube_call c = {.verb = verb,
                          .path = path.p,
                          .body = body,
                          .deadline_us = CALL_DEADLINE_S * US_PER_S,
                          .done = on_sent,
                          .ctx = x};
    x->written = x->count;
    if (kube_start(s->k, &c, &x->call, NULL)) {
        s->stats.dropped++;
        series_clear(x);
    }
    buf_fini(&path);
}

static void write_counts(void *ctx)
{
    struct kube_events *s = ctx;
    int64_t now_us = clock_mono_us();
    bool more = false;
    for (int i = 0; i < s->o.queue; i++) {
        struct series *x = &s->series[i];
        if (!x->created || x->call || x->count == x->written)
            continue;
        if (now_us - x->patched_us < s->o.count_us) {
            more = true;
            continue;
        }
        struct buf body = buf_init(1024);
        x->patched_us = now_us;
        write_series(x, &body);
        start(x, KUBE_PATCH_MERGE, body.p);
        buf_fini(&body);
    }
    if (more)
        wait_for_counts(s);
}

static void begin_series(struct kube_events *s, struct series *x, uint64_t key,
                         const struct kube_event *ev, int64_t now_us, int64_t mono_us)
{
    char hex[HASH_HEX];
    struct buf name = buf_init(512), body = buf_init(64 * 1024);
    hash_hex(key ^ (uint64_t)now_us * 0x9e3779b97f4a7c15u, hex);
    buf_fmt(&name, "%.*s.%s", NAME_MAX_BYTES, ev->name, hex);
    *x = (struct series){.key = key,
                         .owner = s,
                         .ns = mem_strdup(*ev->ns ? ev->ns : "default"),
                         .name = buf_take(&name),
                         .count = 1,
                         .last_wall_us = now_us,
                         .last_us = mono_us,
                         .patched_us = mono_us};
    write_event(s, x, ev, &body);
    if (buf_check(&body, NULL)) {
        s->stats.dropped++;
        series_clear(x);
    } else {
        start(x, KUBE_CREATE, body.p);
    }
    buf_fini(&body);
}

void kube_events_emit(struct kube_events *s, const struct kube_event *given, int64_t now_us)
{
    struct kube_event ev = *given;
    const char **texts[] = {&ev.api_version, &ev.kind,   &ev.ns,     &ev.name,
                            &ev.uid,         &ev.reason, &ev.action, &ev.note};
    for (size_t i = 0; i < ARRAY_LEN(texts); i++)
        *texts[i] = *texts[i] ? *texts[i] : "";
    uint64_t object = object_key(&ev), key = series_key(&ev, object);
    int64_t mono_us = clock_mono_us();
    if (kube_read_only(s->k)) {
        s->stats.dropped++;
        return;
    }
    struct series *x = find_series(s, key, mono_us);
    if (x) {
        s->stats.repeated++;
        x->count++;
        x->last_us = mono_us;
        x->last_wall_us = now_us;
        wait_for_counts(s);
        return;
    }
    if (!take_token(s, object, mono_us)) {
        s->stats.limited++;
        return;
    }
    x = free_series(s);
    if (!x)
        s->stats.dropped++;
    else
        begin_series(s, x, key, &ev, now_us, mono_us);
}
