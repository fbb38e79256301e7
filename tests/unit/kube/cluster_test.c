/* Against the test API server: what a scripted one cannot show. */
#include "kube/informer.h"

#include "base/clock.h"
#include "base/hash.h"
#include "base/mem.h"
#include "base/rng.h"
#include "kube/objects.h"
#include "tests/support/kube_rig.h"
#include "tests/support/test.h"

/* ---- a cache against a fresh list -------------------------------------------------------- */

/* Order does not matter in a sum: one number for a set of objects. */
static uint64_t fingerprint(const char *ns, const char *name, const char *uid, const char *version)
{
    struct hash h = hash_init(0);
    hash_str(&h, ns);
    hash_str(&h, name);
    hash_str(&h, uid);
    hash_str(&h, version);
    return hash_value(&h);
}

static uint64_t fingerprint_of(const struct kube_obj *o)
{
    return fingerprint(o->ns, o->name, o->uid, o->version);
}

/* What the handler was told adds up to this. */
struct told {
    uint64_t sum;
    size_t n;
};

static void told_add(void *ctx, const struct kube_obj *o)
{
    struct told *t = ctx;
    t->sum += fingerprint_of(o);
    t->n++;
}

static void told_update(void *ctx, const struct kube_obj *old, const struct kube_obj *o)
{
    struct told *t = ctx;
    t->sum += fingerprint_of(o) - fingerprint_of(old);
}

static void told_del(void *ctx, const struct kube_obj *o)
{
    struct told *t = ctx;
    t->sum -= fingerprint_of(o);
    t->n--;
}

static uint64_t list_sum(struct apiserver *api, const char *path, size_t *n)
{
    struct buf b = buf_init(64 << 20);
    struct json_doc *doc;
    struct err e;
    uint64_t sum = 0;
    assert_int_equal(apiserver_call(api, "GET", path, NULL, NULL, &b), 200);
    assert_ok(json_parse(b.p, b.n, b.n, "list", &doc, &e), &e);
    *n = 0;
    for (const struct json *v = json_first(json_find(json_root(doc), "items")); v;
         v = json_next(v)) {
        const struct json *m = json_find(v, "metadata");
        const char *ns = json_text(json_find(m, "namespace"));
        sum +=
            fingerprint(ns ? ns : "", json_text(json_find(m, "name")),
                        json_text(json_find(m, "uid")), json_text(json_find(m, "resourceVersion")));
        (*n)++;
    }
    json_free(doc);
    buf_fini(&b);
    return sum;
}

/* Prints what differs, for a failing test. */
static void print_difference(struct apiserver *api, const struct informer *inf)
{
    size_t at = 0;
    for (const struct kube_obj *o; (o = informer_next(inf, &at));) {
        char *version =
            apiserver_field(api, test_path("/api/v1/namespaces/%s/pods/%s", o->ns, o->name),
                            "metadata.resourceVersion");
        if (!version || strcmp(version, o->version) != 0)
            fprintf(stderr, "%s/%s: cache has %s, server %s\n", o->ns, o->name, o->version,
                    version ? version : "none");
        mem_free(version);
    }
    fprintf(stderr, "server is at %llu, cache is %lld ms old\n",
            (unsigned long long)apiserver_version(api), (long long)(informer_age_us(inf) / 1000));
}

static uint64_t cache_sum(const struct informer *inf, size_t *n)
{
    uint64_t sum = 0;
    size_t at = 0;
    *n = 0;
    for (const struct kube_obj *o; (o = informer_next(inf, &at)); (*n)++)
        sum += fingerprint_of(o);
    return sum;
}

static void until_equal(struct kube_rig *r, const struct informer *inf, const struct told *t,
                        const char *path, int round)
{
    int64_t give_up_us = clock_mono_us() + 30 * US_PER_S;
    size_t n_list, n_cache;
    uint64_t want = list_sum(r->api, path, &n_list), got = 0;
    do {
        kube_poll(r->kube, 2 * US_PER_MS);
        got = cache_sum(inf, &n_cache);
    } while ((got != want || n_cache != n_list || t->sum != want) && clock_mono_us() < give_up_us);
    if (got != want || n_cache != n_list || t->sum != want || t->n != n_list) {
        struct err e;
        informer_failure(inf, &e, NULL);
        apiserver_print_log(r->api, 30);
        print_difference(r->api, inf);
        fail_msg("round %d: cache holds %zu, list %zu, told %zu (sums %s); version %s, state %d, "
                 "last failure: %s",
                 round, n_cache, n_list, t->n, got == want ? "equal" : "differ",
                 informer_version(inf), informer_state(inf), e.msg);
    }
}

enum { NAMES = 40, NAMESPACES = 3 };

static void change_something(struct kube_rig *r, struct rng *rng)
{
    const char *path = test_path("/api/v1/namespaces/ns-%u/pods", rng_below(rng, NAMESPACES));
    const char *name = test_path("pod-%u", rng_below(rng, NAMES));
    switch (rng_below(rng, 4)) {
    case 0:
    case 1:
        apiserver_call(r->api, "POST", path, NULL,
                       test_path("{\"metadata\":{\"name\":\"%s\",\"labels\":{\"app\":\"a%u\"}},"
                                 "\"spec\":{\"containers\":[{\"name\":\"c\",\"image\":\"x\"}]}}",
                                 name, rng_below(rng, 5)),
                       NULL);
        break;
    case 2:
        apiserver_call(
            r->api, "PATCH", test_path("%s/%s", path, name), "application/merge-patch+json",
            test_path("{\"metadata\":{\"labels\":{\"x\":\"%u\"}}}", rng_below(rng, 1000000)), NULL);
        break;
    default:
        apiserver_call(r->api, "DELETE", test_path("%s/%s", path, name), NULL, NULL, NULL);
    }
}

static void break_something(struct kube_rig *r, struct rng *rng)
{
    static const struct apiserver_fault faults[] = {
        {.kind = APISERVER_STATUS, .status = 429, .plain = true, .count = 2},
        {.kind = APISERVER_STATUS, .status = 500, .count = 2},
        {.kind = APISERVER_STATUS, .status = 504, .count = 1},
        {.kind = APISERVER_STATUS, .method = "WATCH", .status = 410, .count = 1},
        {.kind = APISERVER_CUT, .count = 2},
        {.kind = APISERVER_HALF_BODY, .count = 3},
        {.kind = APISERVER_GARBAGE, .count = 2},
        {.kind = APISERVER_EXPIRE, .count = 2},
        {.kind = APISERVER_SILENT, .method = "WATCH", .count = 1, .latency_us = 100 * US_PER_MS},
        {.kind = APISERVER_LATENCY, .latency_us = 20 * US_PER_MS, .count = 3},
        {.kind = APISERVER_HUGE, .count = 1},
    };
    struct err e;
    switch (rng_below(rng, 8)) {
    case 0:
    case 1:
        apiserver_cut_watches(r->api);
        break;
    case 2:
        apiserver_compact(r->api);
        break;
    case 3:
        apiserver_compact(r->api);
        apiserver_cut_watches(r->api);
        break;
    case 4:
        apiserver_down(r->api);
        for (int i = 0; i < 10; i++)
            change_something(r, rng);
        kube_poll(r->kube, 5 * US_PER_MS);
        assert_ok(apiserver_up(r->api, rng_below(rng, 2) == 0, &e), &e);
        break;
    default:
        apiserver_fault(r->api, &faults[rng_below(rng, ARRAY_LEN(faults))]);
    }
}

TEST(cache_equals_a_fresh_list_after_thousands_of_changes_and_disconnects)
{
    struct apiserver_opts ao = {.bookmark_us = 5 * US_PER_MS, .history = 300, .seed = test_seed()};
    struct rng rng = rng_stream(test_seed(), "informer");
    struct told told = {0};
    struct informer *inf;
    struct err e;
    struct kube_rig r;
    struct apiserver *api = kube_rig_server(&ao);
    struct text_pool *pool = text_pool_new();
    kube_rig_start(&r, api, NULL, NULL);
    struct informer_opts o = informer_opts_default();
    o.resource = KUBE_PODS;
    o.projection = kube_pod_projection(pool);
    o.handler = (struct informer_handler){
        .add = told_add, .update = told_update, .del = told_del, .ctx = &told};
    o.page = 7;
    o.idle_us = 150 * US_PER_MS;
    o.backoff_us = US_PER_MS;
    o.backoff_max_us = 20 * US_PER_MS;
    for (int i = 0; i < NAMESPACES; i++)
        apiserver_must_load(
            r.api,
            test_path(
                "{\"apiVersion\":\"v1\",\"kind\":\"Namespace\",\"metadata\":{\"name\":\"ns-%d\"}}",
                i));
    assert_ok(informer_new(r.kube, &o, &inf, &e), &e);
    for (int round = 0; round < 80; round++) {
        for (int i = 0; i < 40; i++) {
            change_something(&r, &rng);
            if (rng_below(&rng, 20) == 0)
                break_something(&r, &rng);
            if (rng_below(&rng, 3) == 0)
                kube_poll(r.kube, 0);
        }
        if (round % 4 == 3)
            apiserver_clear(r.api, 0);
        until_equal(&r, inf, &told, "/api/v1/pods", round);
    }
    const struct informer_stats *s = informer_stats(inf);
    if (s->lists < 10 || s->watches < 50 || s->gone < 3 || s->failures < 20 ||
        s->bookmarks < 1) /* else nothing was shown */
        fail_msg("lists %llu, watches %llu, gone %llu, failures %llu, bookmarks %llu",
                 (unsigned long long)s->lists, (unsigned long long)s->watches,
                 (unsigned long long)s->gone, (unsigned long long)s->failures,
                 (unsigned long long)s->bookmarks);
    informer_free(inf);
    kube_rig_stop(&r);
    apiserver_free(api);
    assert_int_equal(text_count(pool), 0);
    text_pool_free(pool);
}

TEST(large_cluster_takes_little_memory_and_gives_it_back)
{
    enum { N = 10000 };
    struct apiserver *api = kube_rig_server(&(struct apiserver_opts){0});
    struct text_pool *pool = text_pool_new();
    struct informer *nodes, *pods;
    struct kube_rig r;
    struct err e;
    apiserver_fill(api, N / 20, N, 20);
    kube_rig_start(&r, api, NULL, NULL);
    struct informer_opts o = informer_opts_default();
    o.resource = KUBE_NODES;
    o.projection = kube_node_projection(pool);
    assert_ok(informer_new(r.kube, &o, &nodes, &e), &e);
    o.resource = KUBE_PODS;
    o.projection = kube_pod_projection(pool);
    assert_ok(informer_new(r.kube, &o, &pods, &e), &e);
    int64_t give_up_us = clock_mono_us() + 60 * US_PER_S;
    while ((!informer_synced(nodes) || !informer_synced(pods)) && clock_mono_us() < give_up_us)
        kube_poll(r.kube, US_PER_S);
    assert_int_equal(informer_count(nodes), N / 20);
    assert_int_equal(informer_count(pods), N);
    /* A tenth of the cluster that must fit into 400 MB, with plenty left for everything else. */
    size_t bytes = informer_bytes(nodes) + informer_bytes(pods) + text_bytes(pool);
    if (bytes > 10 << 20)
        fail_msg("%zu bytes", bytes);
    informer_free(nodes);
    informer_free(pods);
    assert_int_equal(text_count(pool), 0);
    text_pool_free(pool);
    kube_rig_stop(&r);
    apiserver_free(api);
}

/* ---- what a real client meets ------------------------------------------------------------ */

TEST(kind_defined_after_the_start_is_found_and_watched)
{
    struct apiserver *api =
        kube_rig_server(&(struct apiserver_opts){.crd_delay_us = 50 * US_PER_MS});
    struct kube_opts ko = kube_opts_default();
    struct kube_resource found;
    struct informer *inf;
    struct kube_rig r;
    struct err e;
    struct text_pool *pool = text_pool_new();
    ko.absent_us = 20 * US_PER_MS;
    kube_rig_start(&r, api, NULL, &ko);
    struct informer_opts o = informer_opts_default();
    o.resource = KUBE_CAPACITY_TARGETS;
    o.projection = kube_raw_projection(pool);
    o.backoff_us = o.backoff_max_us = 10 * US_PER_MS;
    assert_ok(informer_new(r.kube, &o, &inf, &e), &e);
    assert_err(kube_discover(r.kube, "sluice.dev/v1alpha1", "CapacityTarget", &found, &e),
               ERR_MISSING, &e, "not served");
    int64_t give_up_us = clock_mono_us() + 20 * US_PER_S;
    while (informer_stats(inf)->failures < 2 && clock_mono_us() < give_up_us)
        kube_poll(r.kube, 10 * US_PER_MS);
    struct kube_status s;
    informer_failure(inf, &e, &s);
    assert_true(kube_is_not_found(&s));
    apiserver_must_load(api,
                        "{\"apiVersion\":\"apiextensions.k8s.io/"
                        "v1\",\"kind\":\"CustomResourceDefinition\",\"metadata\":{\"name\":"
                        "\"capacitytargets.sluice.dev\"},"
                        "\"spec\":{\"group\":\"sluice.dev\",\"scope\":\"Namespaced\",\"names\":{"
                        "\"plural\":\"capacitytargets\",\"singular\":\"capacitytarget\","
                        "\"kind\":\"CapacityTarget\",\"listKind\":\"CapacityTargetList\"},"
                        "\"versions\":[{\"name\":\"v1alpha1\",\"served\":true,\"storage\":true,"
                        "\"schema\":{\"openAPIV3Schema\":{\"type\":\"object\",\"x-kubernetes-"
                        "preserve-unknown-fields\":true}},\"subresources\":{\"status\":{}}}]}}");
    while ((!informer_synced(inf) ||
            kube_discover(r.kube, "sluice.dev/v1alpha1", "CapacityTarget", &found, NULL)) &&
           clock_mono_us() < give_up_us)
        kube_poll(r.kube, 10 * US_PER_MS);
    assert_true(informer_synced(inf));
    assert_string_equal(found.plural, "capacitytargets");
    assert_true(found.namespaced);
    assert_int_equal(apiserver_call(api, "POST",
                                    "/apis/sluice.dev/v1alpha1/namespaces/default/capacitytargets",
                                    NULL,
                                    "{\"apiVersion\":\"sluice.dev/"
                                    "v1alpha1\",\"kind\":\"CapacityTarget\",\"metadata\":{\"name\":"
                                    "\"web\"},\"spec\":{\"max\":3}}",
                                    NULL),
                     201);
    while (!informer_find(inf, "default", "web") && clock_mono_us() < give_up_us)
        kube_poll(r.kube, 10 * US_PER_MS);
    assert_non_null(informer_find(inf, "default", "web"));
    informer_free(inf);
    kube_rig_stop(&r);
    apiserver_free(api);
    text_pool_free(pool);
}

TEST(self_review_tells_a_reader_from_an_admin)
{
    struct apiserver *api = kube_rig_server(&(struct apiserver_opts){0});
    static const struct {
        const char *token;
        struct kube_access a;
        bool allowed;
    } rows[] = {
        {APISERVER_READER_TOKEN, {.verb = "list", .resource = "pods"}, true},
        {APISERVER_READER_TOKEN,
         {.verb = "patch",
          .group = "apps",
          .resource = "deployments",
          .subresource = "scale",
          .ns = "default"},
         false},
        {APISERVER_ADMIN_TOKEN,
         {.verb = "patch",
          .group = "apps",
          .resource = "deployments",
          .subresource = "scale",
          .ns = "default"},
         true},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct kube_opts ko = kube_opts_default();
        struct kube_rig r;
        struct err e;
        bool allowed;
        ko.read_only = true;
        kube_rig_start(&r, api, rows[i].token, &ko);
        assert_ok(kube_can(r.kube, &rows[i].a, &allowed, NULL, &e), &e);
        assert_int_equal(allowed, rows[i].allowed);
        kube_rig_stop(&r);
    }
    apiserver_free(api);
}
