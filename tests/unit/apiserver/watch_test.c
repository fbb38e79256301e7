/* watch_test.c - lists and streams: pages stay consistent, streams miss nothing and tell nothing
 * twice. */
#include <pthread.h>
#include <stdatomic.h>

#include "base/rng.h"
#include "tests/unit/apiserver/rest.h"

#define MAPS "/api/v1/namespaces/default/configmaps"

static struct apiserver *start(const struct apiserver_opts *o)
{
    struct apiserver *a = NULL;
    struct err e;
    assert_ok(apiserver_start(o, &a, &e), &e);
    return a;
}

static void put_map(struct apiserver *a, const char *name, const char *label, int value)
{
    struct buf b = buf_init(4096);
    buf_fmt(&b,
            "{\"apiVersion\":\"v1\",\"kind\":\"ConfigMap\",\"metadata\":{\"name\":\"%s\","
            "\"labels\":{\"l\":\"%s\"}},\"data\":{\"v\":\"%d\"}}",
            name, label, value);
    apiserver_must_load(a, b.p);
    buf_fini(&b);
}

TEST(a_stream_starts_with_what_is_there_or_after_the_version_given)
{
    struct apiserver *a = start(&(struct apiserver_opts){0});
    put_map(a, "one", "x", 1);
    uint64_t v = apiserver_version(a);
    put_map(a, "two", "x", 1);
    struct rest_watch all = rest_watch(a, MAPS "?watch=1");
    struct rest_watch zero = rest_watch(a, MAPS "?watch=true&resourceVersion=0");
    struct rest_watch later =
        rest_watch(a, test_path(MAPS "?watch=1&resourceVersion=%llu", (unsigned long long)v));
    assert_string_equal(rest_watch_tell(&all), "ADDED one");
    assert_string_equal(rest_watch_tell(&all), "ADDED two");
    assert_string_equal(rest_watch_tell(&zero), "ADDED one");
    assert_string_equal(rest_watch_tell(&zero), "ADDED two");
    assert_string_equal(rest_watch_tell(&later), "ADDED two");
    put_map(a, "one", "x", 2);
    assert_string_equal(rest_watch_tell(&all), "MODIFIED one");
    assert_string_equal(rest_watch_tell(&zero), "MODIFIED one");
    assert_string_equal(rest_watch_tell(&later), "MODIFIED one");
    assert_int_equal(apiserver_watches(a), 3);
    rest_watch_fini(&all);
    rest_watch_fini(&zero);
    rest_watch_fini(&later);
    apiserver_free(a);
}

TEST(objects_enter_and_leave_a_selection_as_added_and_deleted)
{
    struct apiserver *a = start(&(struct apiserver_opts){0});
    put_map(a, "m", "no", 1);
    struct rest_watch w = rest_watch(a, "/api/v1/configmaps?watch=1&labelSelector=l%3Dyes");
    put_map(a, "m", "yes", 2);
    put_map(a, "m", "yes", 3);
    put_map(a, "m", "no", 4);
    put_map(a, "m", "no", 5);
    put_map(a, "n", "yes", 6);
    assert_string_equal(rest_watch_tell(&w), "ADDED m");
    assert_string_equal(rest_watch_tell(&w), "MODIFIED m");
    cJSON *left = rest_watch_next(&w);
    assert_string_equal(rest_at(left, "type")->valuestring, "DELETED");
    assert_string_equal(rest_at(left, "object.data.v")->valuestring,
                        "3"); /* as it last matched ... */
    char *now = apiserver_field(a, MAPS "/n", "metadata.resourceVersion");
    uint64_t n = strtoull(now, NULL, 10);
    mem_free(now);
    assert_true(strtoull(rest_at(left, "object.metadata.resourceVersion")->valuestring, NULL, 10) ==
                n - 2); /* ... under the version of the change */
    cJSON_Delete(left);
    assert_string_equal(rest_watch_tell(&w), "ADDED n");
    rest_watch_fini(&w);
    apiserver_free(a);
}

TEST(selectors_of_all_forms_select)
{
    static const struct {
        const char *query;
        size_t n;
    } row[] = {
        {"labelSelector=l", 4},
        {"labelSelector=!l", 1},
        {"labelSelector=l=a", 2},
        {"labelSelector=l==a", 2},
        {"labelSelector=l!=a", 3},
        {"labelSelector=l+in+(a,b)", 3},
        {"labelSelector=l+notin+(a,b)", 2},
        {"labelSelector=l+in+(a),l!=b", 2},
        {"labelSelector=l=", 0},
        {"labelSelector=none", 0},
        {"fieldSelector=metadata.name=m1", 1},
        {"fieldSelector=metadata.name!=m1", 4},
        {"fieldSelector=metadata.namespace=default", 5},
        {"fieldSelector=metadata.name=m1,metadata.namespace=x", 0},
        {"fieldSelector=metadata.name=m1&labelSelector=l=b", 0},
        {"fieldSelector=metadata.name==m1&labelSelector=l=a", 1},
    };
    struct apiserver *a = start(&(struct apiserver_opts){0});
    put_map(a, "m1", "a", 0);
    put_map(a, "m2", "a", 0);
    put_map(a, "m3", "b", 0);
    put_map(a, "m4", "c", 0);
    apiserver_must_load(a, "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: m5}\n");
    for (size_t i = 0; i < ARRAY_LEN(row); i++) {
        struct rest r = rest(a, "GET", test_path(MAPS "?%s", row[i].query), NULL);
        int n = cJSON_GetArraySize(rest_at(r.json, "items"));
        if (r.status != 200 || n != (int)row[i].n)
            fail_msg("%s: status %d, %d items, expected %zu", row[i].query, r.status, n, row[i].n);
        rest_fini(&r);
    }
    apiserver_free(a);
}

TEST(bookmarks_come_in_time_and_before_the_end)
{
    struct apiserver *a = start(&(struct apiserver_opts){.bookmark_us = 50 * US_PER_MS});
    struct rest_watch w = rest_watch(a, MAPS "?watch=1&allowWatchBookmarks=true&timeoutSeconds=1");
    struct rest_watch plain = rest_watch(a, MAPS "?watch=1&timeoutSeconds=1");
    int n = 0;
    const char *last = "";
    uint64_t version = 0;
    put_map(a, "m", "x", 1);
    for (cJSON *j; (j = rest_watch_next(&w)) != NULL; cJSON_Delete(j)) {
        last = strcmp(rest_at(j, "type")->valuestring, "BOOKMARK") == 0 ? "BOOKMARK" : "other";
        n += strcmp(last, "BOOKMARK") == 0;
        uint64_t v = strtoull(rest_at(j, "object.metadata.resourceVersion")->valuestring, NULL, 10);
        assert_true(v >= version);
        version = v;
    }
    assert_true(n >= 3);
    assert_string_equal(last, "BOOKMARK");
    assert_true(version == apiserver_version(a));
    assert_string_equal(rest_watch_tell(&plain), "ADDED m");
    assert_string_equal(rest_watch_tell(&plain), "END");
    rest_watch_fini(&w);
    rest_watch_fini(&plain);
    apiserver_free(a);
}

TEST(versions_of_the_future_are_silence_and_bad_ones_500)
{
    struct apiserver *a = start(&(struct apiserver_opts){0});
    struct rest r = rest(a, "GET", MAPS "?watch=1&resourceVersion=abc", NULL);
    assert_int_equal(r.status, 500);
    rest_fini(&r);
    struct rest_watch w = rest_watch(
        a, test_path(MAPS "?watch=1&timeoutSeconds=1&allowWatchBookmarks=true&resourceVersion=%llu",
                     (unsigned long long)apiserver_version(a) + 1000));
    put_map(a, "m", "x", 1);
    assert_string_equal(rest_watch_tell(&w), "END");
    rest_watch_fini(&w);
    apiserver_free(a);
}

TEST(a_stream_that_falls_behind_the_history_is_expired)
{
    struct apiserver *a = start(&(struct apiserver_opts){.history = 50});
    put_map(a, "m", "x", 0);
    uint64_t v = apiserver_version(a);
    for (int i = 0; i < 60; i++)
        put_map(a, "m", "x", i);
    struct rest_watch w =
        rest_watch(a, test_path(MAPS "?watch=1&resourceVersion=%llu", (unsigned long long)v));
    assert_string_equal(rest_watch_tell(&w), "ERROR");
    assert_string_equal(rest_watch_tell(&w), "END");
    rest_watch_fini(&w);
    w = rest_watch(a, test_path(MAPS "?watch=1&resourceVersion=%llu",
                                (unsigned long long)apiserver_version(a) - 40));
    assert_string_equal(rest_watch_tell(&w), "MODIFIED m");
    rest_watch_fini(&w);
    apiserver_free(a);
}

TEST(large_lists_come_gzipped_to_those_who_accept_it)
{
    struct apiserver *a = start(&(struct apiserver_opts){0});
    apiserver_fill(a, 10, 200, 20);
    struct rest zipped =
        rest_ask(a, &(struct rest_ask){.method = "GET",
                                       .path = "/api/v1/pods",
                                       .headers = "Accept-Encoding: gzip, deflate\r\n"});
    struct rest plain = rest(a, "GET", "/api/v1/pods", NULL);
    struct rest small = rest_ask(a, &(struct rest_ask){.method = "GET",
                                                       .path = "/api/v1/pods?limit=3",
                                                       .headers = "Accept-Encoding: gzip\r\n"});
    assert_string_equal(zipped.encoding, "gzip");
    assert_string_equal(plain.encoding, "");
    assert_string_equal(small.encoding, "");
    assert_true(zipped.raw.n < plain.raw.n / 4);
    assert_int_equal(cJSON_GetArraySize(rest_at(zipped.json, "items")), 200);
    assert_true(plain.body.n == zipped.body.n);
    rest_fini(&zipped);
    rest_fini(&plain);
    rest_fini(&small);
    apiserver_free(a);
}

/* ---- pages ---- */

TEST(pages_show_the_state_of_the_first_while_all_changes)
{
    struct apiserver *a = start(&(struct apiserver_opts){0});
    struct rng r = rng_stream(test_seed(), "pages");
    for (int i = 0; i < 60; i++)
        put_map(a, test_path("m%02d", i), "x", i);
    struct rest whole = rest(a, "GET", MAPS, NULL);
    char path[700] = MAPS "?limit=7";
    int at = 0;
    bool more = true;
    while (more) {
        struct rest page = rest(a, "GET", path, NULL);
        assert_int_equal(page.status, 200);
        assert_string_equal(rest_text(&page, "metadata.resourceVersion"),
                            rest_text(&whole, "metadata.resourceVersion"));
        for (const cJSON *x = rest_at(page.json, "items")->child; x; x = x->next)
            assert_true(cJSON_Compare(x, rest_at(whole.json, test_path("items.%d", at++)), true));
        const char *token = rest_text(&page, "metadata.continue");
        more = *token != '\0';
        assert_near(rest_number(&page, "metadata.remainingItemCount"), more ? 60 - at : -1, 0, 0);
        snprintf(path, sizeof path, MAPS "?limit=7&continue=%s", token);
        rest_fini(&page);
        for (int i = 0; i < 20; i++) {
            uint32_t k = rng_below(&r, 90);
            if (rng_below(&r, 3) == 0)
                rest_status(a, "DELETE", test_path(MAPS "/m%02u", k), NULL);
            else
                put_map(a, test_path("m%02u", k), "x", (int)k + 1000);
        }
    }
    assert_int_equal(at, 60);
    /* The same as one list of that version. */
    struct rest exact = rest(a, "GET",
                             test_path(MAPS "?resourceVersionMatch=Exact&resourceVersion=%s",
                                       rest_text(&whole, "metadata.resourceVersion")),
                             NULL);
    assert_true(cJSON_Compare(whole.json, exact.json, true));
    rest_fini(&exact);
    rest_fini(&whole);
    apiserver_free(a);
}

/* ---- a cache fed by a stream is what a list shows ---- */

enum { KEYS = 40 };

struct cache {
    uint64_t version[KEYS];
    bool there[KEYS];
};

static int key_of(const cJSON *object)
{
    return (int)strtol(rest_at(object, "metadata.name")->valuestring + 1, NULL, 10);
}

static void cache_take(struct cache *c, const cJSON *line)
{
    const char *type = rest_at(line, "type")->valuestring;
    const cJSON *o = rest_at(line, "object");
    if (strcmp(type, "BOOKMARK") == 0)
        return;
    int k = key_of(o);
    uint64_t v = strtoull(rest_at(o, "metadata.resourceVersion")->valuestring, NULL, 10);
    assert_true(v > c->version[k]); /* told once, in order */
    assert_int_equal(c->there[k], strcmp(type, "ADDED") != 0);
    c->version[k] = v;
    c->there[k] = strcmp(type, "DELETED") != 0;
}

struct writer {
    struct apiserver *a;
    uint64_t seed;
    int n;
};

static void *write_much(void *arg)
{
    struct writer *w = arg;
    struct rng r = rng_stream(w->seed, "writer");
    for (int i = 0; i < w->n; i++) {
        uint32_t k = rng_below(&r, KEYS);
        char path[80], body[200];
        snprintf(path, sizeof path, MAPS "/k%u", k);
        snprintf(
            body, sizeof body,
            "{\"metadata\":{\"name\":\"k%u\",\"labels\":{\"l\":\"%u\"}},\"data\":{\"v\":\"%d\"}}",
            k, rng_below(&r, 2), i);
        if (rng_below(&r, 4) == 0)
            apiserver_call(w->a, "DELETE", path, NULL, NULL, NULL);
        else if (apiserver_call(w->a, "PATCH", path, NULL, body, NULL) == 404)
            apiserver_call(w->a, "POST", MAPS, NULL, body, NULL);
    }
    return NULL;
}

static void run_cache(const char *selector)
{
    struct apiserver *a = start(&(struct apiserver_opts){0});
    pthread_t t[3];
    struct writer w[3];
    struct cache c = {0};
    for (int i = 0; i < 3; i++) {
        w[i] = (struct writer){a, test_seed() * 10 + (uint64_t)i, 300};
        assert_int_equal(pthread_create(&t[i], NULL, write_much, &w[i]), 0);
    }
    struct rest_watch s =
        rest_watch(a, test_path(MAPS "?watch=1%s%s", *selector ? "&labelSelector=" : "", selector));
    for (int i = 0; i < 3; i++)
        pthread_join(t[i], NULL);
    /* One more that matches, to know when all has been told. */
    apiserver_must_load(a, "{\"apiVersion\":\"v1\",\"kind\":\"ConfigMap\",\"metadata\":{\"name\":"
                           "\"z\",\"labels\":{\"l\":\"1\"}}}");
    for (cJSON *j; (j = rest_watch_next(&s)) != NULL; cJSON_Delete(j)) {
        if (strcmp(rest_at(j, "object.metadata.name")->valuestring, "z") == 0) {
            cJSON_Delete(j);
            break;
        }
        cache_take(&c, j);
    }
    struct rest list =
        rest(a, "GET", test_path(MAPS "%s%s", *selector ? "?labelSelector=" : "", selector), NULL);
    int n = 0;
    for (const cJSON *x = rest_at(list.json, "items")->child; x; x = x->next) {
        if (strcmp(rest_at(x, "metadata.name")->valuestring, "z") == 0)
            continue;
        int k = key_of(x);
        assert_true(c.there[k]);
        assert_true(c.version[k] ==
                    strtoull(rest_at(x, "metadata.resourceVersion")->valuestring, NULL, 10));
        n++;
    }
    int cached = 0;
    for (int k = 0; k < KEYS; k++)
        cached += c.there[k];
    assert_int_equal(cached, n);
    rest_fini(&list);
    rest_watch_fini(&s);
    apiserver_free(a);
}

TEST(a_cache_fed_by_a_stream_under_writers_is_what_a_list_shows)
{
    run_cache("");
    run_cache("l%3D1");
}

TEST(many_watchers_hear_of_each_change)
{
    enum { WATCHERS = 60, CHANGES = 20 };
    struct apiserver *a = start(&(struct apiserver_opts){0});
    struct rest_watch w[WATCHERS];
    for (int i = 0; i < WATCHERS; i++)
        w[i] = rest_watch(a, MAPS "?watch=1&resourceVersion=6");
    for (int i = 0; i < CHANGES; i++)
        put_map(a, test_path("m%d", i), "x", i);
    for (int i = 0; i < WATCHERS; i++) {
        for (int k = 0; k < CHANGES; k++) {
            const char *got = rest_watch_tell(&w[i]);
            if (strcmp(got, test_path("ADDED m%d", k)) != 0)
                fail_msg("watcher %d, change %d: %s", i, k, got);
        }
        rest_watch_fini(&w[i]);
    }
    apiserver_free(a);
}

TEST(filled_pods_carry_managed_fields_when_asked_and_metrics_are_served_when_asked)
{
    struct apiserver *a =
        start(&(struct apiserver_opts){.managed_fields = true, .metrics_api = true});
    apiserver_fill(a, 2, 10, 5);
    struct rest r = rest(a, "GET", "/api/v1/pods", NULL);
    for (const cJSON *x = rest_at(r.json, "items")->child; x; x = x->next)
        assert_int_equal(cJSON_GetArraySize(rest_at(x, "metadata.managedFields")), 2);
    rest_fini(&r);
    apiserver_must_load(
        a,
        "apiVersion: metrics.k8s.io/v1beta1\nkind: PodMetrics\nmetadata: {name: p, namespace: x}\n"
        "timestamp: 2026-01-01T00:00:00Z\nwindow: 15s\ncontainers:\n- name: c\n  usage: {cpu: "
        "250m, memory: 1Gi}\n");
    r = rest(a, "GET", "/apis/metrics.k8s.io/v1beta1/namespaces/x/pods", NULL);
    assert_int_equal(r.status, 200);
    assert_string_equal(rest_text(&r, "kind"), "PodMetricsList");
    assert_string_equal(rest_text(&r, "items.0.containers.0.usage.cpu"), "250m");
    rest_fini(&r);
    apiserver_free(a);
}

TEST(a_large_cluster_is_listed_whole_and_streamed_whole)
{
    struct apiserver *a = start(&(struct apiserver_opts){0});
    apiserver_fill(a, 100, 3000, 20);
    char path[700] = "/api/v1/pods?limit=500";
    size_t n = 0, pending = 0;
    for (bool more = true; more;) {
        struct rest r = rest(a, "GET", path, NULL);
        assert_int_equal(r.status, 200);
        for (const cJSON *x = rest_at(r.json, "items")->child; x; x = x->next, n++)
            pending += rest_at(x, "spec.nodeName") == NULL;
        snprintf(path, sizeof path, "/api/v1/pods?limit=500&continue=%s",
                 rest_text(&r, "metadata.continue"));
        more = *rest_text(&r, "metadata.continue");
        rest_fini(&r);
    }
    assert_int_equal(n, 3000);
    assert_int_equal(pending, 150);
    assert_int_equal(apiserver_count(a, "/api/v1/nodes"), 100);
    assert_int_equal(apiserver_count(a, "/apis/apps/v1/deployments"), 150);
    assert_int_equal(apiserver_count(a, "/api/v1/pods?fieldSelector=spec.nodeName="), 150);
    assert_int_equal(apiserver_count(a, "/api/v1/pods?fieldSelector=status.phase=Running"), 2850);
    struct rest_watch w = rest_watch(a, "/api/v1/"
                                        "pods?watch=1&sendInitialEvents=true&resourceVersionMatch="
                                        "NotOlderThan&allowWatchBookmarks=true");
    for (n = 0; strncmp(rest_watch_tell(&w), "ADDED", 5) == 0;)
        n++;
    assert_int_equal(n, 3000);
    rest_watch_fini(&w);
    apiserver_free(a);
}
