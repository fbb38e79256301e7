/* informer.c - list, then watch, forever.
 *
 *            +------------------------- 410, refused, silent from the start ----------------------+
 *            v | start -> list page -> list page ... -> sweep what is gone -> watch -> ended, cut,
 * silent -> watch ... |    ^ continue expired: from the first page                  (from the last
 * version)
 *            +----+ failed: the same page again after a wait
 *
 * One exchange or one timer at a time.  Everything is in the two pairs of callbacks: *_bytes while
 * data comes, *_done at the end of an exchange, which decides what is next. */
#include "kube/informer.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/mem.h"
#include "kube/cache_priv.h"
#include "kube/client_priv.h"
#include "kube/split_priv.h"

enum {
    WATCH_FAILURES_MAX = 3, /* in a row; then the list is asked for */
    TOKEN_MAX = 64 * 1024,
    METADATA_MAX = 256 * 1024,
    RESTARTS_BEFORE_WHOLE = 2 /* of one list by expired tokens; then it is asked for in one piece */
};

struct informer {
    struct kube *k;
    struct informer_opts o;
    char *ns, *label_selector, *field_selector;
    enum informer_state state;
    struct kube_timer timer;
    struct kube_exchange *exchange;
    struct splitter split;
    struct cache cache;
    struct buf version; /* last seen; where the watch goes on */
    /* the list under way */
    uint32_t list_no;
    struct buf token;                    /* of the page being asked for; "" for the first */
    struct buf next_token, list_version; /* what the page says, before it is whole */
    int n_restarts;
    /* the watch under way */
    bool got_bytes;
    int64_t watch_began_us;
    uint64_t n_events;
    /* how it goes */
    bool synced, want_list, closing;
    int n_list_failures;  /* since a page came whole */
    int n_watch_failures; /* since a watch brought something: a good list alone proves nothing about
                             it */
    int64_t began_us, alive_us;
    struct err bad; /* why the data of this exchange was refused */
    struct kube_status bad_status;
    struct err failure;
    struct kube_status failure_status;
    struct informer_stats stats;
};

struct informer_opts informer_opts_default(void)
{
    return (struct informer_opts){.page = 500,
                                  .list_us = US_PER_MIN,
                                  .idle_us = 90 * US_PER_S,
                                  .watch_us = 5 * US_PER_MIN,
                                  .backoff_us = 250 * US_PER_MS,
                                  .backoff_max_us = 30 * US_PER_S,
                                  .object_cap = 4 << 20,
                                  .max_objects = 1000000};
}

static void begin_list(struct informer *inf);
static void send_page(void *ctx);
static void send_watch(void *ctx);

/* ---- objects in and out ------------------------------------------------------------------ */

static void release(struct informer *inf, struct kube_obj *o)
{
    inf->o.projection.free(inf->o.projection.ctx, o);
}

static void tell_deleted(struct informer *inf, struct kube_obj *o)
{
    inf->stats.deleted++;
    if (inf->o.handler.del)
        inf->o.handler.del(inf->o.handler.ctx, o);
    release(inf, o);
}

static void tell_put(struct informer *inf, struct kube_obj *old, struct kube_obj *o)
{
    const struct informer_handler *h = &inf->o.handler;
    if (old && strcmp(old->uid, o->uid) == 0) {
        inf->stats.updated++;
        if (h->update)
            h->update(h->ctx, old, o);
        release(inf, old);
        return;
    }
    if (old) /* deleted and made again while we did not look */
        tell_deleted(inf, old);
    inf->stats.added++;
    if (h->add)
        h->add(h->ctx, o);
}

static enum err_code put_object(struct informer *inf, const struct json *obj, const char *text,
                                size_t n, struct err *e)
{
    struct kube_obj *o;
    enum err_code rc = inf->o.projection.make(inf->o.projection.ctx, obj, text, n, &o, e);
    if (rc)
        return rc;
    struct kube_obj *old = cache_find(&inf->cache, o->ns, o->name);
    if (old && strcmp(old->version, o->version) == 0 && strcmp(old->uid, o->uid) == 0) {
        cache_mark(&inf->cache, old, inf->list_no);
        release(inf, o);
        return ERR_OK;
    }
    if (!old && inf->cache.n >= inf->o.max_objects) {
        release(inf, o);
        return err_set(e, ERR_LIMIT, "more than %zu %s", inf->o.max_objects,
                       inf->o.resource.plural);
    }
    if (old && inf->o.projection.inherit && strcmp(old->uid, o->uid) == 0)
        inf->o.projection.inherit(inf->o.projection.ctx, old, o);
    tell_put(inf, cache_put(&inf->cache, o, inf->list_no), o);
    return ERR_OK;
}

static void sweep(struct informer *inf)
{
    size_t at = 0;
    for (struct kube_obj *o; (o = cache_take_unseen(&inf->cache, &at, inf->list_no));)
        tell_deleted(inf, o);
}

/* ---- what is next ------------------------------------------------------------------------ */

static void set_text(struct buf *b, const char *s)
{
    buf_clear(b);
    buf_str(b, s);
}

static void wait_then(struct informer *inf, int64_t wait_us, void (*next)(void *ctx))
{
    inf->state = INFORMER_WAITING;
    kube_timer_set(inf->k, &inf->timer, wait_us, next, inf);
}

static void list_again(void *ctx)
{
    begin_list(ctx);
}

/* Records why, and comes back to `next` after a wait that grows with the failures in a row. */
static void fail(struct informer *inf, int *n_failures, const struct err *e,
                 const struct kube_status *s, void (*next)(void *ctx))
{
    inf->failure = *e;
    inf->failure_status = s ? *s : (struct kube_status){.retry_after_us = -1, .date_us = -1};
    inf->stats.failures++;
    *n_failures += *n_failures < 1000;
    int64_t wait_us = http_backoff_us(*n_failures, inf->o.backoff_us, inf->o.backoff_max_us,
                                      0.5 + 0.5 * kube_random(inf->k));
    if (inf->failure_status.retry_after_us > 0)
        wait_us += inf->failure_status.retry_after_us;
    wait_then(inf, wait_us, inf->want_list ? list_again : next);
}

static void all_well(struct informer *inf)
{
    inf->failure.code = ERR_OK;
    inf->failure.msg[0] = '\0';
    inf->failure_status = (struct kube_status){.retry_after_us = -1, .date_us = -1};
}

static void bad_data(struct informer *inf, const char *what)
{
    err_wrap(&inf->bad, "%s %s", what, inf->o.resource.plural);
}

static struct buf path_of(const struct informer *inf)
{
    struct buf path = buf_init(TOKEN_MAX * 4);
    kube_path(&path, &inf->o.resource, inf->ns, NULL, NULL);
    if (inf->label_selector)
        kube_query(&path, "labelSelector", inf->label_selector);
    if (inf->field_selector)
        kube_query(&path, "fieldSelector", inf->field_selector);
    return path;
}

/* The error of an exchange that brought no usable data.  A status is left in *s. */
static void exchange_error(struct informer *inf, enum err_code rc, const struct http_reply *reply,
                           const struct err *e, struct kube_status *s, struct err *out)
{
    *s = (struct kube_status){.retry_after_us = -1, .date_us = -1};
    if (inf->bad.code) {
        *out = inf->bad;
        *s = inf->bad_status;
    } else if (rc) {
        *out = *e;
    } else {
        struct buf path = path_of(inf);
        kube_status_decode(reply->status, reply->content_type, reply->body.p, reply->body.n, s);
        if (reply->retry_after_us >= 0)
            s->retry_after_us = reply->retry_after_us;
        kube_status_error(s, KUBE_LIST, path.p, out);
        buf_fini(&path);
    }
    if (kube_is_unauthorized(s))
        kube_renew_credentials(inf->k);
}

static void begin_exchange(struct informer *inf, enum split_kind kind, split_emit *emit)
{
    inf->split.kind = kind;
    inf->split.emit = emit;
    split_reset(&inf->split);
    inf->bad.code = ERR_OK;
    inf->bad_status = (struct kube_status){.retry_after_us = -1, .date_us = -1};
}

/* ---- list -------------------------------------------------------------------------------- */

static enum err_code read_list_metadata(struct informer *inf, const char *text, size_t n,
                                        struct err *e)
{
    struct json_doc *doc;
    enum err_code rc = json_parse(text, n, METADATA_MAX, "metadata", &doc, e);
    if (rc)
        return rc;
    const char *version = json_text(json_find(json_root(doc), "resourceVersion"));
    const char *token = json_text(json_find(json_root(doc), "continue"));
    if (!version || !*version)
        rc = err_set(e, ERR_PARSE, "metadata.resourceVersion is missing");
    else if (strlen(version) > 1024 || (token && strlen(token) > TOKEN_MAX))
        rc = err_set(e, ERR_LIMIT, "metadata: resourceVersion or continue is too long");
    if (!rc) {
        set_text(&inf->list_version, version);
        set_text(&inf->next_token, token ? token : "");
    }
    json_free(doc);
    return rc;
}

static bool list_item(void *ctx, bool is_metadata, const char *text, size_t n, const char *object,
                      size_t n_object)
{
    struct informer *inf = ctx;
    struct json_doc *doc;
    enum err_code rc;
    (void)object, (void)n_object;
    if (is_metadata) {
        rc = read_list_metadata(inf, text, n, &inf->bad);
    } else {
        rc = json_parse(text, n, n, "item", &doc, &inf->bad);
        if (!rc) {
            rc = put_object(inf, json_root(doc), text, n, &inf->bad);
            json_free(doc);
        }
    }
    if (rc)
        bad_data(inf, "list of");
    return !rc && !inf->want_list;
}

static bool on_list_bytes(void *ctx, const char *p, size_t n)
{
    struct informer *inf = ctx;
    struct err e;
    enum err_code rc = split_feed(&inf->split, p, n, &e);
    if (rc && rc != ERR_INTERRUPTED) {
        inf->bad = e;
        bad_data(inf, "list of");
    }
    return !rc;
}

static void list_complete(struct informer *inf)
{
    sweep(inf);
    set_text(&inf->version, inf->list_version.p);
    inf->alive_us = clock_mono_us();
    bool first = !inf->synced;
    inf->synced = true;
    if (inf->n_watch_failures == 0)
        all_well(inf);
    if (first) {
        inf->stats.first_sync_us = inf->alive_us - inf->began_us;
        if (inf->o.handler.synced)
            inf->o.handler.synced(inf->o.handler.ctx);
    }
    send_watch(inf);
}

/* A token expired: what the rest of the list would hold is of another time than what we have. */
static void restart_list(struct informer *inf, const struct err *e, const struct kube_status *s)
{
    inf->stats.restarts++;
    inf->n_restarts++;
    buf_clear(&inf->token);
    fail(inf, &inf->n_list_failures, e, s, send_page);
}

static void on_list_done(void *ctx, enum err_code rc, struct http_reply *reply, const struct err *e)
{
    struct informer *inf = ctx;
    struct kube_status s;
    struct err why;
    inf->exchange = NULL;
    if (inf->closing)
        return;
    bool good = !rc && !inf->bad.code && reply->status >= 200 && reply->status < 300;
    if (inf->want_list && (good || rc == ERR_INTERRUPTED)) {
        begin_list(inf);
        return;
    }
    if (good && split_end(&inf->split, &inf->bad))
        bad_data(inf, "list of");
    if (good && !inf->bad.code && !inf->split.seen_metadata)
        err_set(&inf->bad, ERR_PARSE, "list of %s: no metadata", inf->o.resource.plural);
    if (!good || inf->bad.code) {
        exchange_error(inf, rc, reply, e, &s, &why);
        if (kube_is_gone(&s) && inf->token.n)
            restart_list(inf, &why, &s);
        else
            fail(inf, &inf->n_list_failures, &why, &s, send_page); /* the same page again */
        return;
    }
    inf->n_list_failures = 0;
    set_text(&inf->token, inf->next_token.p);
    if (inf->token.n)
        send_page(inf);
    else
        list_complete(inf);
}

static void send_page(void *ctx)
{
    struct informer *inf = ctx;
    struct err e;
    char limit[16];
    struct buf path = path_of(inf);
    snprintf(limit, sizeof limit, "%d", inf->o.page);
    if (inf->n_restarts <= RESTARTS_BEFORE_WHOLE)
        kube_query(&path, "limit", limit);
    if (inf->token.n)
        kube_query(&path, "continue", inf->token.p);
    else
        inf->list_no++; /* a first page is of a new moment: what an earlier one held proves nothing
                         */
    begin_exchange(inf, SPLIT_LIST, list_item);
    inf->state = INFORMER_LISTING;
    struct http_request q = {.path = path.p,
                             .deadline_us = inf->o.list_us,
                             .data = on_list_bytes,
                             .done = on_list_done,
                             .ctx = inf};
    enum err_code rc = buf_check(&path, &e);
    if (!rc)
        rc = kube_send(inf->k, KUBE_LIST, &q, &inf->exchange, &e);
    buf_fini(&path);
    if (rc)
        fail(inf, &inf->n_list_failures, &e, NULL, send_page);
}

static void begin_list(struct informer *inf)
{
    inf->want_list = false;
    inf->n_restarts = 0;
    inf->stats.lists++;
    buf_clear(&inf->token);
    send_page(inf);
}

/* ---- watch ------------------------------------------------------------------------------- */

static enum err_code take_version(struct informer *inf, const struct json *obj, struct err *e)
{
    const char *v = json_text(json_find(json_find(obj, "metadata"), "resourceVersion"));
    if (!v || !*v || strlen(v) > 1024)
        return err_set(e, ERR_PARSE, "object.metadata.resourceVersion is missing");
    set_text(&inf->version, v);
    return ERR_OK;
}

static enum err_code delete_object(struct informer *inf, const struct json *obj, struct err *e)
{
    const struct json *meta = json_find(obj, "metadata");
    const char *ns = json_text(json_find(meta, "namespace")),
               *name = json_text(json_find(meta, "name"));
    if (!name || !*name)
        return err_set(e, ERR_PARSE, "object.metadata.name is missing");
    struct kube_obj *o = cache_take(&inf->cache, ns ? ns : "", name);
    if (o)
        tell_deleted(inf, o);
    return ERR_OK;
}

static enum err_code stream_error(struct informer *inf, const struct json *obj, struct err *e)
{
    kube_status_from_json(obj, &inf->bad_status);
    return err_set(e, kube_is_gone(&inf->bad_status) ? ERR_MISSING : ERR_IO, "%d %s: %s",
                   inf->bad_status.http, inf->bad_status.reason, inf->bad_status.message);
}

static enum err_code take_event(struct informer *inf, const struct json *event, const char *object,
                                size_t n_object, struct err *e)
{
    const char *type = json_text(json_find(event, "type"));
    const struct json *obj = json_find(event, "object");
    enum err_code rc;
    if (!type || !json_is_object(obj) || !object)
        return err_set(e, ERR_PARSE, "an event without type and object");
    if (strcmp(type, "ERROR") == 0)
        return stream_error(inf, obj, e);
    if (strcmp(type, "BOOKMARK") == 0) {
        inf->stats.bookmarks++;
        return take_version(inf, obj, e);
    }
    if (strcmp(type, "ADDED") == 0 || strcmp(type, "MODIFIED") == 0)
        rc = put_object(inf, obj, object, n_object, e);
    else if (strcmp(type, "DELETED") == 0)
        rc = delete_object(inf, obj, e);
    else
        rc = err_set(e, ERR_PARSE, "unknown event type \"%.40s\"", type);
    return rc ? rc : take_version(inf, obj, e);
}

static bool watch_event(void *ctx, bool is_metadata, const char *text, size_t n, const char *object,
                        size_t n_object)
{
    struct informer *inf = ctx;
    struct json_doc *doc;
    (void)is_metadata;
    enum err_code rc = json_parse(text, n, n, "event", &doc, &inf->bad);
    if (!rc) {
        rc = take_event(inf, json_root(doc), object, n_object, &inf->bad);
        json_free(doc);
    }
    if (rc) {
        bad_data(inf, "watch of");
        return false;
    }
    inf->n_events++;
    inf->alive_us = clock_mono_us();
    if (inf->n_watch_failures)
        all_well(inf);
    inf->n_watch_failures = 0;
    return !inf->want_list;
}

static bool on_watch_bytes(void *ctx, const char *p, size_t n)
{
    struct informer *inf = ctx;
    struct err e;
    inf->got_bytes = true;
    enum err_code rc = split_feed(&inf->split, p, n, &e);
    if (rc && rc != ERR_INTERRUPTED) {
        inf->bad = e;
        bad_data(inf, "watch of");
    }
    return !rc;
}

/* A watch that is no use.  The list is asked for when the version may be the reason: it is gone,
 * refused, or the server (not the network) failed again and again. */
static void watch_failed(struct informer *inf, const struct err *why, const struct kube_status *s)
{
    bool gone = kube_is_gone(s), refused = s->http >= 400 && !kube_is_transient(s);
    bool answered = s->http >= 500 || inf->bad.code;
    inf->stats.gone += gone;
    if (gone || refused || (answered && inf->n_watch_failures + 1 >= WATCH_FAILURES_MAX))
        inf->want_list = true;
    if (gone && inf->n_watch_failures == 0) { /* the ordinary course after a long absence */
        inf->n_watch_failures++;
        begin_list(inf);
        return;
    }
    fail(inf, &inf->n_watch_failures, why, s, send_watch);
}

static bool lived(const struct informer *inf)
{
    return inf->n_events > 0 || clock_mono_us() - inf->watch_began_us > US_PER_S;
}

static void on_watch_done(void *ctx, enum err_code rc, struct http_reply *reply,
                          const struct err *e)
{
    struct informer *inf = ctx;
    struct kube_status s;
    struct err why;
    inf->exchange = NULL;
    if (inf->closing)
        return;
    if (inf->want_list && !inf->bad.code) {
        begin_list(inf);
        return;
    }
    bool clean = !rc && !inf->bad.code && reply->status >= 200 && reply->status < 300;
    bool silent = rc == ERR_IO && e->sys == ETIMEDOUT && reply->status == 200 && !inf->got_bytes;
    if (clean && !split_end(&inf->split, NULL) && lived(inf)) {
        inf->n_watch_failures = 0;
        all_well(inf);
        send_watch(inf);
        return;
    }
    if (clean)
        err_set(&inf->bad, ERR_IO, "watch of %s: ended at once or within an event",
                inf->o.resource.plural);
    exchange_error(inf, rc, reply, e, &s, &why);
    if (silent) { /* perhaps our version is of a future that never comes */
        inf->stats.silent++;
        inf->want_list = true;
    }
    watch_failed(inf, &why, &s);
}

static void send_watch(void *ctx)
{
    struct informer *inf = ctx;
    struct err e;
    char seconds[24];
    struct buf path = path_of(inf);
    int64_t life_us = inf->o.watch_us + (int64_t)((double)inf->o.watch_us * kube_random(inf->k));
    snprintf(seconds, sizeof seconds, "%lld", (long long)((life_us + US_PER_S - 1) / US_PER_S));
    kube_query(&path, "watch", "1");
    kube_query(&path, "allowWatchBookmarks", "true");
    kube_query(&path, "resourceVersion", inf->version.p);
    kube_query(&path, "timeoutSeconds", seconds);
    begin_exchange(inf, SPLIT_WATCH, watch_event);
    inf->state = INFORMER_WATCHING;
    inf->got_bytes = false;
    inf->n_events = 0;
    inf->watch_began_us = clock_mono_us();
    inf->stats.watches++;
    struct http_request q = {.path = path.p,
                             .deadline_us = life_us + US_PER_MIN,
                             .idle_us = inf->o.idle_us,
                             .data = on_watch_bytes,
                             .done = on_watch_done,
                             .ctx = inf};
    enum err_code rc = buf_check(&path, &e);
    if (!rc)
        rc = kube_send(inf->k, KUBE_WATCH, &q, &inf->exchange, &e);
    buf_fini(&path);
    if (rc)
        fail(inf, &inf->n_watch_failures, &e, NULL, send_watch);
}

/* ---- the rest ---------------------------------------------------------------------------- */

static char *copy_or_null(const char *s)
{
    return s && *s ? mem_strdup(s) : NULL;
}

enum err_code informer_new(struct kube *k, const struct informer_opts *o, struct informer **out,
                           struct err *e)
{
    *out = NULL;
    if (!o->projection.make || !o->projection.free || !o->resource.plural[0] || o->page < 1 ||
        o->idle_us <= 0 || o->watch_us <= 0 || o->list_us <= 0)
        return err_set(e, ERR_INVAL, "informer of \"%s\": options that do not work",
                       o->resource.plural);
    struct informer *inf = mem_zero(1, sizeof *inf);
    inf->k = k;
    inf->o = *o;
    inf->ns = copy_or_null(o->ns);
    inf->label_selector = copy_or_null(o->label_selector);
    inf->field_selector = copy_or_null(o->field_selector);
    inf->version = buf_init(2048);
    inf->list_version = buf_init(2048);
    inf->token = buf_init(TOKEN_MAX + 1);
    inf->next_token = buf_init(TOKEN_MAX + 1);
    inf->split = split_init(SPLIT_LIST, o->object_cap, list_item, inf);
    inf->stats.first_sync_us = -1;
    cache_init(&inf->cache);
    all_well(inf);
    inf->began_us = clock_mono_us();
    wait_then(inf, 0, list_again);
    *out = inf;
    return ERR_OK;
}

void informer_free(struct informer *inf)
{
    if (!inf)
        return;
    inf->closing = true;
    kube_timer_stop(&inf->timer);
    kube_unsend(inf->exchange);
    size_t at = 0;
    for (struct kube_obj *o; (o = cache_take_unseen(&inf->cache, &at, inf->list_no + 1));)
        release(inf, o);
    cache_fini(&inf->cache);
    split_fini(&inf->split);
    buf_fini(&inf->version);
    buf_fini(&inf->list_version);
    buf_fini(&inf->token);
    buf_fini(&inf->next_token);
    mem_free(inf->ns);
    mem_free(inf->label_selector);
    mem_free(inf->field_selector);
    mem_free(inf);
}

void informer_relist(struct informer *inf)
{
    inf->want_list = true;
    if (inf->state == INFORMER_WAITING)
        wait_then(inf, 0, list_again);
    else if (inf->exchange)
        kube_unsend(inf->exchange);
}

bool informer_synced(const struct informer *inf)
{
    return inf->synced;
}

enum informer_state informer_state(const struct informer *inf)
{
    return inf->state;
}

int64_t informer_age_us(const struct informer *inf)
{
    return inf->synced ? clock_mono_us() - inf->alive_us : INT64_MAX;
}

void informer_failure(const struct informer *inf, struct err *e, struct kube_status *s)
{
    *e = inf->failure;
    if (s)
        *s = inf->failure_status;
}

const struct informer_stats *informer_stats(const struct informer *inf)
{
    return &inf->stats;
}

const struct kube_obj *informer_find(const struct informer *inf, const char *ns, const char *name)
{
    return cache_find(&inf->cache, ns, name);
}

size_t informer_count(const struct informer *inf)
{
    return inf->cache.n;
}

const struct kube_obj *informer_next(const struct informer *inf, size_t *at)
{
    return cache_next(&inf->cache, at);
}

size_t informer_bytes(const struct informer *inf)
{
    return inf->cache.bytes + inf->cache.n_slots * sizeof *inf->cache.slots;
}

const char *informer_version(const struct informer *inf)
{
    return inf->version.p;
}
