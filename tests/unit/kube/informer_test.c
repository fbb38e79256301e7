#include "kube/informer.h"

#include <pthread.h>

#include "base/clock.h"
#include "base/mem.h"
#include "kube/objects.h"
#include "tests/support/raw_server.h"
#include "tests/support/test.h"

/* ---- a server that plays one turn per request -------------------------------------------- */

enum how {
    WHOLE, /* with its length */
    ENDED, /* a stream that ends clean */
    OPEN,  /* a stream that stays open and silent */
    CUT,   /* a stream that is cut off */
    RESET  /* no answer */
};

struct turn {
    enum how how;
    int status; /* 0: 200 */
    const char *body;
    const char *extra;
};

struct stage {
    pthread_mutex_t lock;
    const struct turn *turns; /* the last one repeats */
    int n_turns, n_seen;
    char paths[64][512];
};

static void play(void *ctx, struct raw_conn *c, const struct raw_request *r)
{
    struct stage *s = ctx;
    pthread_mutex_lock(&s->lock);
    const struct turn *t = &s->turns[s->n_seen < s->n_turns ? s->n_seen : s->n_turns - 1];
    snprintf(s->paths[s->n_seen % 64], sizeof s->paths[0], "%s", r->path);
    s->n_seen++;
    pthread_mutex_unlock(&s->lock);
    int status = t->status ? t->status : 200;
    if (t->how == RESET) {
        raw_reset(c);
    } else if (t->how == WHOLE) {
        raw_answer(c, status, "application/json", t->extra, t->body);
    } else {
        raw_chunked(c, status, "application/json");
        if (*t->body)
            raw_chunk(c, t->body);
        if (t->how == ENDED)
            raw_chunk(c, "");
        else if (t->how == OPEN)
            raw_wait_gone(c);
        else
            raw_close(c);
    }
}

struct rig {
    struct stage stage;
    struct raw_server *raw;
    struct http_client *http;
    struct kube_config *config;
    struct kube *kube;
    struct text_pool *pool;
    struct informer *inf;
    struct buf told;  /* what the handler was told: "+a ~a -a *" */
    struct rig *nest; /* do a request from within the handler */
};

static void told_add(void *ctx, const struct kube_obj *o)
{
    struct rig *r = ctx;
    buf_fmt(&r->told, "+%s ", o->name);
    if (r->nest) {
        struct kube_reply reply;
        struct kube_call call = {.verb = KUBE_GET, .path = "/nested", .once = true};
        (void)!kube_do(r->kube, &call, &reply, NULL);
        buf_fmt(&r->told, "(%d) ", reply.status.http);
        kube_reply_fini(&reply);
    }
}

static void told_update(void *ctx, const struct kube_obj *old, const struct kube_obj *o)
{
    struct rig *r = ctx;
    assert_string_equal(old->name, o->name);
    assert_string_equal(old->uid, o->uid);
    buf_fmt(&r->told, "~%s%s>%s ", o->name, old->version, o->version);
}

static void told_del(void *ctx, const struct kube_obj *o)
{
    buf_fmt(&((struct rig *)ctx)->told, "-%s ", o->name);
}

static void told_synced(void *ctx)
{
    buf_str(&((struct rig *)ctx)->told, "* ");
}

static struct informer_opts options(struct rig *r)
{
    struct informer_opts o = informer_opts_default();
    o.resource = KUBE_PODS;
    o.projection = kube_raw_projection(r->pool);
    o.handler = (struct informer_handler){
        .add = told_add, .update = told_update, .del = told_del, .synced = told_synced, .ctx = r};
    o.backoff_us = 2 * US_PER_MS;
    o.backoff_max_us = 10 * US_PER_MS;
    return o;
}

static void rig_start(struct rig *r, const struct turn *turns, int n)
{
    struct err e;
    *r = (struct rig){.stage = {.lock = PTHREAD_MUTEX_INITIALIZER, .turns = turns, .n_turns = n}};
    r->told = buf_init(1 << 20);
    r->pool = text_pool_new();
    r->raw = raw_server_start(play, &r->stage);
    assert_ok(http_client_new(&r->http, &e), &e);
    assert_ok(kube_config_plain(raw_server_url(r->raw), &r->config, &e), &e);
    struct kube_opts o = kube_opts_default();
    assert_ok(kube_new(r->config, r->http, &o, &r->kube, &e), &e);
}

static void inform(struct rig *r, const struct informer_opts *o)
{
    struct err e;
    assert_ok(informer_new(r->kube, o, &r->inf, &e), &e);
}

static void rig_stop(struct rig *r)
{
    informer_free(r->inf);
    kube_free(r->kube);
    kube_config_free(r->config);
    http_client_free(r->http);
    raw_server_stop(r->raw);
    assert_int_equal(text_count(r->pool), 0);
    text_pool_free(r->pool);
    buf_fini(&r->told);
}

#define PLAY(r, ...)                                                                               \
    static const struct turn turns_[] = {__VA_ARGS__};                                             \
    struct rig r;                                                                                  \
    rig_start(&r, turns_, ARRAY_LEN(turns_));                                                      \
    struct informer_opts o = options(&r)

/* Polls until the handler has been told this. */
static void until_told(struct rig *r, const char *want)
{
    int64_t give_up_us = clock_mono_us() + 20 * US_PER_S;
    while (strcmp(r->told.p, want) != 0 && clock_mono_us() < give_up_us)
        kube_poll(r->kube, 5 * US_PER_MS);
    assert_string_equal(r->told.p, want);
}

static void until_seen(struct rig *r, int n)
{
    int64_t give_up_us = clock_mono_us() + 20 * US_PER_S;
    while (raw_server_requests(r->raw) < n && clock_mono_us() < give_up_us)
        kube_poll(r->kube, 5 * US_PER_MS);
    assert_true(raw_server_requests(r->raw) >= n);
}

#define OBJ(name, version)                                                                         \
    "{\"metadata\":{\"name\":\"" name "\",\"uid\":\"u-" name "\",\"resourceVersion\":\"" version   \
    "\"}}"
#define LIST(version, items)                                                                       \
    "{\"kind\":\"PodList\",\"metadata\":{\"resourceVersion\":\"" version "\"},\"items\":[" items   \
    "]}"
#define PAGE(version, token, items)                                                                \
    "{\"kind\":\"PodList\",\"metadata\":{\"resourceVersion\":\"" version                           \
    "\",\"continue\":\"" token "\"},\"items\":[" items "]}"
#define EVENT(type, obj) "{\"type\":\"" type "\",\"object\":" obj "}\n"
#define BOOKMARK(version)                                                                          \
    EVENT("BOOKMARK", "{\"kind\":\"Pod\",\"metadata\":{\"resourceVersion\":\"" version             \
                      "\"},\"spec\":{\"containers\":null}}")
#define GONE                                                                                       \
    "{\"kind\":\"Status\",\"status\":\"Failure\",\"message\":\"too "                               \
    "old\",\"reason\":\"Expired\",\"code\":410}"

/* ---- the ordinary course ----------------------------------------------------------------- */

TEST(list_comes_in_pages_and_the_watch_goes_on_from_its_version)
{
    PLAY(r, {WHOLE, 0, PAGE("7", "t/1", OBJ("a", "1") "," OBJ("b", "2")), NULL},
         {WHOLE, 0, LIST("7", OBJ("c", "3")), NULL},
         {OPEN, 0,
          EVENT("ADDED", OBJ("d", "8")) EVENT("MODIFIED", OBJ("a", "9"))
              EVENT("DELETED", OBJ("b", "10")) BOOKMARK("12"),
          NULL});
    o.ns = "prod";
    o.label_selector = "app=x,!y";
    o.field_selector = "spec.nodeName=";
    inform(&r, &o);
    assert_false(informer_synced(r.inf));
    assert_true(informer_age_us(r.inf) == INT64_MAX);
    until_told(&r, "+a +b +c * +d ~a1>9 -b ");
    assert_true(informer_synced(r.inf));
    assert_int_equal(informer_state(r.inf), INFORMER_WATCHING);
    assert_string_equal(informer_version(r.inf), "12");
    assert_int_equal(informer_count(r.inf), 3);
    assert_non_null(informer_find(r.inf, "", "d"));
    assert_null(informer_find(r.inf, "", "b"));
    assert_null(informer_find(r.inf, "prod", "d"));
    const char *selectors = "labelSelector=app%3Dx%2C%21y&fieldSelector=spec.nodeName%3D";
    assert_string_equal(r.stage.paths[0],
                        test_path("/api/v1/namespaces/prod/pods?%s&limit=500", selectors));
    assert_string_equal(
        r.stage.paths[1],
        test_path("/api/v1/namespaces/prod/pods?%s&limit=500&continue=t%%2F1", selectors));
    const char *watch =
        test_path("/api/v1/namespaces/prod/"
                  "pods?%s&watch=1&allowWatchBookmarks=true&resourceVersion=7&timeoutSeconds=",
                  selectors);
    assert_int_equal(strncmp(r.stage.paths[2], watch, strlen(watch)), 0);
    int seconds = atoi(r.stage.paths[2] + strlen(watch));
    assert_in_range(seconds, 300, 600);
    assert_in_range(informer_age_us(r.inf), 0, 10 * US_PER_S);
    assert_true(informer_bytes(r.inf) > 0);
    size_t n = 0, at = 0;
    for (const struct kube_obj *x; (x = informer_next(r.inf, &at));)
        n += strlen(x->name);
    assert_int_equal(n, 3);
    const struct informer_stats *s = informer_stats(r.inf);
    assert_int_equal(s->lists, 1);
    assert_int_equal(s->added, 4);
    assert_int_equal(s->bookmarks, 1);
    assert_int_equal(s->failures, 0);
    assert_true(s->first_sync_us > 0);
    rig_stop(&r);
}

TEST(watch_that_ends_or_is_cut_is_reopened_from_the_last_version_seen)
{
    PLAY(r, {WHOLE, 0, LIST("1", ""), NULL},
         {ENDED, 0, EVENT("ADDED", OBJ("a", "2")) BOOKMARK("5"), NULL},
         {CUT, 0,
          EVENT("ADDED",
                OBJ("b", "6")) "{\"type\":\"ADDED\",\"object\":{\"metadata\":{\"name\":\"half",
          NULL},
         {RESET, 0, NULL, NULL}, {CUT, 0, EVENT("MODIFIED", OBJ("b", "8")), NULL},
         {OPEN, 0, EVENT("ADDED", OBJ("c", "9")), NULL});
    inform(&r, &o);
    until_told(&r, "* +a +b ~b6>8 +c ");
    static const char *const from[] = {"=1&", "=5&", "=6&", "=6&", "=8&"};
    for (size_t i = 0; i < ARRAY_LEN(from); i++)
        assert_non_null(strstr(r.stage.paths[i + 1], test_path("resourceVersion%s", from[i])));
    assert_int_equal(informer_stats(r.inf)->lists, 1);
    struct err e;
    informer_failure(r.inf, &e, NULL);
    assert_int_equal(e.code, ERR_OK);
    rig_stop(&r);
}

TEST(object_replaced_unseen_is_told_as_deleted_and_added)
{
    PLAY(r, {WHOLE, 0, LIST("1", OBJ("a", "1")), NULL},
         {OPEN, 0,
          EVENT("MODIFIED",
                "{\"metadata\":{\"name\":\"a\",\"uid\":\"other\",\"resourceVersion\":\"5\"}}"),
          NULL});
    inform(&r, &o);
    until_told(&r, "+a * -a +a ");
    rig_stop(&r);
}

TEST(handler_may_ask_the_server_meanwhile)
{
    PLAY(r, {WHOLE, 0, LIST("1", OBJ("a", "1") "," OBJ("b", "1")), NULL}, {WHOLE, 404, "{}", NULL},
         {WHOLE, 404, "{}", NULL}, {CUT, 0, EVENT("ADDED", OBJ("c", "2")), NULL},
         {WHOLE, 404, "{}", NULL}, {OPEN, 0, "", NULL});
    r.nest = &r;
    inform(&r, &o);
    until_told(&r, "+a (404) +b (404) * +c (404) ");
    rig_stop(&r);
}

/* ---- 410 --------------------------------------------------------------------------------- */

TEST(expired_version_in_the_stream_leads_to_a_new_list_that_finds_what_is_gone)
{
    PLAY(r, {WHOLE, 0, LIST("1", OBJ("a", "1") "," OBJ("b", "1")), NULL},
         {ENDED, 0, EVENT("ERROR", GONE), NULL},
         {WHOLE, 0, LIST("9", OBJ("b", "1") "," OBJ("c", "7")), NULL}, {OPEN, 0, "", NULL});
    inform(&r, &o);
    until_told(&r, "+a +b * +c -a ");
    until_seen(&r, 4);
    assert_non_null(strstr(r.stage.paths[3], "resourceVersion=9&"));
    assert_int_equal(informer_stats(r.inf)->lists, 2);
    assert_int_equal(informer_stats(r.inf)->gone, 1);
    rig_stop(&r);
}

TEST(expired_version_as_a_status_leads_to_a_new_list)
{
    PLAY(r, {WHOLE, 0, LIST("1", OBJ("a", "1")), NULL}, {WHOLE, 410, GONE, NULL},
         {WHOLE, 0, LIST("9", OBJ("a", "8")), NULL}, {OPEN, 0, "", NULL});
    inform(&r, &o);
    until_told(&r, "+a * ~a1>8 ");
    rig_stop(&r);
}

TEST(expired_token_starts_the_list_again_and_in_one_piece_when_it_keeps_expiring)
{
    PLAY(r, {WHOLE, 0, PAGE("1", "t1", OBJ("a", "1")), NULL}, {WHOLE, 410, GONE, NULL},
         {WHOLE, 0, PAGE("2", "t2", OBJ("a", "1")), NULL}, {WHOLE, 410, GONE, NULL},
         {WHOLE, 0, PAGE("3", "t3", OBJ("b", "3")), NULL}, {WHOLE, 410, GONE, NULL},
         {WHOLE, 0, LIST("4", OBJ("b", "3")), NULL}, {OPEN, 0, "", NULL});
    inform(&r, &o);
    until_told(&r, "+a +b -a * ");
    assert_int_equal(informer_stats(r.inf)->restarts, 3);
    assert_null(strstr(r.stage.paths[2], "continue"));
    assert_non_null(strstr(r.stage.paths[4], "limit=500"));
    assert_null(strstr(r.stage.paths[6], "limit"));
    rig_stop(&r);
}

TEST(watch_gone_after_every_list_does_not_spin)
{
    PLAY(r, {WHOLE, 0, LIST("1", ""), NULL}, {ENDED, 0, EVENT("ERROR", GONE), NULL},
         {WHOLE, 0, LIST("1", ""), NULL}, {ENDED, 0, EVENT("ERROR", GONE), NULL},
         {WHOLE, 0, LIST("1", ""), NULL});
    o.backoff_us = o.backoff_max_us = 1000 * US_PER_S;
    inform(&r, &o);
    int64_t give_up_us = clock_mono_us() + 20 * US_PER_S;
    while (informer_stats(r.inf)->gone < 2 && clock_mono_us() < give_up_us)
        kube_poll(r.kube, 5 * US_PER_MS);
    assert_int_equal(informer_state(r.inf), INFORMER_WAITING);
    assert_int_equal(informer_stats(r.inf)->lists,
                     2); /* the first new list comes at once, the second waits */
    rig_stop(&r);
}

/* ---- what goes wrong --------------------------------------------------------------------- */

TEST(page_that_is_cut_is_asked_for_again_by_the_same_token)
{
    PLAY(r, {WHOLE, 0, PAGE("7", "t1", OBJ("a", "1")), NULL},
         {CUT, 0,
          "{\"metadata\":{\"resourceVersion\":\"7\",\"continue\":\"t2\"},\"items\":[" OBJ(
              "b", "1") ",{\"meta",
          NULL},
         {WHOLE, 0, PAGE("7", "t2", OBJ("b", "1") "," OBJ("c", "1")), NULL},
         {WHOLE, 0, LIST("7", OBJ("d", "1")), NULL}, {OPEN, 0, "", NULL});
    inform(&r, &o);
    until_told(&r, "+a +b +c +d * ");
    assert_non_null(strstr(r.stage.paths[2], "continue=t1"));
    assert_non_null(strstr(r.stage.paths[3], "continue=t2"));
    rig_stop(&r);
}

TEST(list_is_tried_again_after_any_failure_and_says_which)
{
    static const struct {
        struct turn bad;
        const char *text;
        enum err_code rc;
        int http;
    } rows[] = {
        {{WHOLE, 500, "{\"reason\":\"InternalError\",\"message\":\"etcd\"}", NULL},
         "500 InternalError: etcd",
         ERR_IO,
         500},
        {{WHOLE, 429, "slow", "Retry-After: 0\r\n"}, "429 TooManyRequests", ERR_IO, 429},
        {{WHOLE, 403, "{}", NULL}, "403 Forbidden", ERR_INVAL, 403},
        {{WHOLE, 404, "404 page not found", NULL}, "404 NotFound", ERR_MISSING, 404},
        {{WHOLE, 504, "{\"reason\":\"Timeout\"}", NULL}, "504 Timeout", ERR_IO, 504},
        {{WHOLE, 410, GONE, NULL}, "410 Expired", ERR_MISSING, 410},
        {{RESET, 0, NULL, NULL}, "", ERR_IO, 0},
        {{WHOLE, 0, "<html>", NULL}, "list of pods: byte 0: expected an object", ERR_PARSE, 0},
        {{WHOLE, 0, "{}", NULL}, "without \"items\"", ERR_PARSE, 0},
        {{WHOLE, 0, "", NULL}, "empty answer", ERR_PARSE, 0},
        {{WHOLE, 0, "{\"items\":[]}", NULL}, "no metadata", ERR_PARSE, 0},
        {{WHOLE, 0, "{\"metadata\":{},\"items\":[]}", NULL},
         "resourceVersion is missing",
         ERR_PARSE,
         0},
        {{WHOLE, 0, LIST("1", "{\"metadata\":{}}"), NULL},
         "metadata.name: is missing",
         ERR_PARSE,
         0},
        {{WHOLE, 0, LIST("1", "{\"metadata\":{\"a\":1,\"a\":2}}"), NULL},
         "given twice",
         ERR_PARSE,
         0},
        {{WHOLE, 0, LIST("1", "{\"metadata\":{\"name\":\"\xff\"}}"), NULL},
         "not UTF-8",
         ERR_PARSE,
         0},
        {{ENDED, 0, "{\"metadata\":{\"resourceVersion\":\"1\"},\"items\":[" OBJ("a", "1"), NULL},
         "in the middle",
         ERR_PARSE,
         0},
        {{WHOLE, 0,
          LIST("1", "{\"big\":"
                    "\"0123456789012345678901234567890123456789012345678901234567890123456789012345"
                    "678901234567890123456789\"}"),
          NULL},
         "list of pods: an object of more than 100 bytes",
         ERR_LIMIT,
         0},
        {{WHOLE, 0, LIST("1", OBJ("a", "1") "," OBJ("b", "1") "," OBJ("c", "1")), NULL},
         "more than 2 pods",
         ERR_LIMIT,
         0},
    };
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct turn turns[] = {
            rows[i].bad, {WHOLE, 0, LIST("5", OBJ("a", "1")), NULL}, {OPEN, 0, "", NULL}};
        struct kube_status s;
        struct err e = {0};
        struct rig r;
        rig_start(&r, turns, 3);
        struct informer_opts o = options(&r);
        o.object_cap = 100;
        o.max_objects = 2;
        inform(&r, &o);
        int64_t give_up_us = clock_mono_us() + 20 * US_PER_S;
        while (informer_stats(r.inf)->failures == 0 && clock_mono_us() < give_up_us)
            kube_poll(r.kube, 5 * US_PER_MS);
        informer_failure(r.inf, &e, &s);
        if (e.code != rows[i].rc || !strstr(e.msg, rows[i].text) || s.http != rows[i].http)
            fail_msg("row %zu: %s: %s (%d)", i, err_code_text(e.code), e.msg, s.http);
        assert_false(informer_synced(r.inf));
        while (!informer_synced(r.inf) && clock_mono_us() < give_up_us)
            kube_poll(r.kube, 5 * US_PER_MS);
        assert_true(informer_synced(r.inf));
        assert_int_equal(informer_count(r.inf), 1);
        informer_failure(r.inf, &e, NULL);
        assert_int_equal(e.code, ERR_OK);
        rig_stop(&r);
    }
}

TEST(retry_after_is_waited_for_before_the_next_list)
{
    PLAY(r, {WHOLE, 429, "slow", "Retry-After: 1\r\n"}, {WHOLE, 0, LIST("5", ""), NULL},
         {OPEN, 0, "", NULL});
    int64_t start_us = clock_mono_us();
    inform(&r, &o);
    until_told(&r, "* ");
    assert_true(clock_mono_us() - start_us >= US_PER_S);
    rig_stop(&r);
}

TEST(bad_event_ends_the_watch_and_the_cache_stays)
{
    static const struct {
        const char *line, *text;
    } rows[] = {
        {"garbage\n", "watch of pods: byte "},
        {"{\"type\":\"ADDED\",\"object\":{\"metadata\":{\n" BOOKMARK("9"), "not a whole event"},
        {"{\"type\":\"ADDED\"}\n", "without type and object"},
        {"{\"object\":{}}\n", "without type and object"},
        {"{\"type\":\"ADDED\",\"object\":[]}\n", "without type and object"},
        {EVENT("MOVED", OBJ("a", "1")), "unknown event type \"MOVED\""},
        {EVENT("ADDED", "{\"metadata\":{\"name\":\"x\"}}"), "resourceVersion: is missing"},
        {EVENT("DELETED", "{\"metadata\":{\"resourceVersion\":\"4\"}}"), "name is missing"},
        {EVENT("BOOKMARK", "{}"), "resourceVersion is missing"},
        {"{\"type\":\"ADDED\",\"object\":{\"x\":01}}\n", "number"},
        {EVENT("ERROR", "{\"code\":500,\"reason\":\"InternalError\",\"message\":\"boom\"}"),
         "500 InternalError: boom"},
        {EVENT("ERROR", "{}"), "watch of pods: 0"},
    };
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct turn turns[] = {{WHOLE, 0, LIST("5", OBJ("a", "1")), NULL},
                               {OPEN, 0, rows[i].line, NULL},
                               {OPEN, 0, EVENT("ADDED", OBJ("z", "9")), NULL}};
        struct err e = {0};
        struct rig r;
        rig_start(&r, turns, 3);
        struct informer_opts o = options(&r);
        inform(&r, &o);
        int64_t give_up_us = clock_mono_us() + 20 * US_PER_S;
        while (informer_stats(r.inf)->failures == 0 && clock_mono_us() < give_up_us)
            kube_poll(r.kube, 5 * US_PER_MS);
        informer_failure(r.inf, &e, NULL);
        if (!strstr(e.msg, rows[i].text))
            fail_msg("row %zu: %s", i, e.msg);
        assert_int_equal(informer_count(r.inf), 1);
        until_told(&r, "+a * +z ");
        assert_non_null(strstr(r.stage.paths[2], "resourceVersion=5&"));
        rig_stop(&r);
    }
}

TEST(server_that_keeps_refusing_a_version_is_asked_for_the_list)
{
    PLAY(r, {WHOLE, 0, LIST("bad", OBJ("a", "1")), NULL}, {WHOLE, 500, "{}", NULL},
         {WHOLE, 500, "{}", NULL}, {WHOLE, 500, "{}", NULL}, {WHOLE, 0, LIST("6", ""), NULL},
         {OPEN, 0, "", NULL});
    inform(&r, &o);
    until_told(&r, "+a * -a ");
    rig_stop(&r);
}

TEST(network_that_is_down_does_not_lead_to_a_list)
{
    PLAY(r, {WHOLE, 0, LIST("5", OBJ("a", "1")), NULL}, {RESET, 0, NULL, NULL},
         {RESET, 0, NULL, NULL}, {RESET, 0, NULL, NULL}, {RESET, 0, NULL, NULL},
         {RESET, 0, NULL, NULL}, {OPEN, 0, EVENT("ADDED", OBJ("b", "6")), NULL});
    inform(&r, &o);
    until_told(&r, "+a * +b ");
    assert_int_equal(informer_stats(r.inf)->lists, 1);
    rig_stop(&r);
}

TEST(watch_silent_from_its_start_leads_to_a_list_and_one_that_fell_silent_is_reopened)
{
    PLAY(r, {WHOLE, 0, LIST("99999", OBJ("a", "1")), NULL}, {OPEN, 0, "", NULL},
         {WHOLE, 0, LIST("5", OBJ("b", "1")), NULL}, {OPEN, 0, EVENT("ADDED", OBJ("c", "6")), NULL},
         {OPEN, 0, EVENT("ADDED", OBJ("d", "7")), NULL});
    o.idle_us = 400 * US_PER_MS;
    inform(&r, &o);
    until_told(&r, "+a * +b -a +c +d ");
    assert_int_equal(informer_stats(r.inf)->silent, 1);
    assert_int_equal(informer_stats(r.inf)->lists, 2);
    assert_non_null(strstr(r.stage.paths[4], "resourceVersion=6&"));
    rig_stop(&r);
}

TEST(list_can_be_asked_for)
{
    PLAY(r, {WHOLE, 0, LIST("5", OBJ("a", "1")), NULL}, {OPEN, 0, "", NULL},
         {WHOLE, 0, LIST("6", ""), NULL}, {OPEN, 0, "", NULL});
    inform(&r, &o);
    until_seen(&r, 2);
    informer_relist(r.inf);
    until_told(&r, "+a * -a ");
    rig_stop(&r);
}

TEST(informer_can_be_freed_in_every_state)
{
    static const struct turn silent[] = {{OPEN, 0, "{", NULL}},
                             failing[] = {{WHOLE, 500, "{}", NULL}},
                             watching[] = {{WHOLE, 0, LIST("5", OBJ("a", "1")), NULL},
                                           {OPEN, 0, "", NULL}};
    const struct turn *scripts[] = {silent, failing, watching};
    for (int i = 0; i < 4; i++) {
        struct rig r;
        rig_start(&r, scripts[i % 3], i == 2 ? 2 : 1);
        struct informer_opts o = options(&r);
        o.backoff_us = o.backoff_max_us = 100 * US_PER_S;
        inform(&r, &o);
        if (i < 3)
            until_seen(&r, i == 2 ? 2 : 1);
        rig_stop(&r);
    }
}

TEST(unusable_options_are_refused)
{
    PLAY(r, {OPEN, 0, "", NULL});
    struct informer *inf;
    struct err e;
    o.page = 0;
    assert_err(informer_new(r.kube, &o, &inf, &e), ERR_INVAL, &e, "pods");
    o = options(&r);
    o.projection.make = NULL;
    assert_err(informer_new(r.kube, &o, &inf, &e), ERR_INVAL, &e, "pods");
    rig_stop(&r);
}
