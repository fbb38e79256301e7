/* fail_test.c - lists, watches and configurations that are read while memory gives out, at every point in turn. */
#include <errno.h>
#include <pthread.h>

#include "base/clock.h"
#include "base/mem.h"
#include "kube/informer.h"
#include "kube/objects.h"
#include "tests/support/fail.h"
#include "tests/support/raw_server.h"
#include "tests/support/test.h"

/* ---- informer -------------------------------------------------------------------------------- */

enum { PODS = 200 };
static void put_pod(struct buf *b, const char *before, const char *name, const char *after)
{
    buf_fmt(b,
            "%s{\"metadata\":{\"name\":\"%s\",\"namespace\":\"shop\",\"uid\":\"u-%s\",\"resourceVersion\":\"7\","
            "\"labels\":{\"app\":\"a-%s\"},\"managedFields\":[{}]},\"spec\":{\"containers\":[]},"
            "\"status\":{\"phase\":\"Running\"}}%s",
            before, name, name, name, after);
}

/* A list of PODS, then a watch that adds one, takes one away and stays open. */
static void serve(void *ctx, struct raw_conn *c, const struct raw_request *r)
{
    const char *list = ctx;
    if (!strstr(r->path, "watch=")) {
        raw_answer(c, 200, "application/json", NULL, list);
        return;
    }
    struct buf b = buf_init(1 << 16);
    put_pod(&b, "{\"type\":\"ADDED\",\"object\":", "new", "}\n");
    put_pod(&b, "{\"type\":\"DELETED\",\"object\":", "pod-0", "}\n");
    raw_chunked(c, 200, "application/json");
    (void)raw_chunk(c, b.p);
    buf_fini(&b);
    raw_wait_gone(c);
}

static char *pod_list(void)
{
    struct buf b = buf_init(1 << 20);
    buf_str(&b, "{\"kind\":\"PodList\",\"metadata\":{\"resourceVersion\":\"7\"},\"items\":[");
    for (int i = 0; i < PODS; i++)
        put_pod(&b, i ? "," : "", test_path("pod-%d", i), "");
    buf_str(&b, "]}");
    return buf_take(&b);
}

struct rig {
    char *list;
    struct raw_server *raw;
    struct http_client *http;
    struct kube_config *config;
    struct kube *kube;
    struct text_pool *pool;
};

static void rig_start(struct rig *r)
{
    struct err e;
    struct kube_opts o = kube_opts_default();
    *r = (struct rig){.list = pod_list(), .pool = text_pool_new()};
    r->raw = raw_server_start(serve, r->list);
    assert_ok(http_client_new(&r->http, &e), &e);
    assert_ok(kube_config_plain(raw_server_url(r->raw), &r->config, &e), &e);
    assert_ok(kube_new(r->config, r->http, &o, &r->kube, &e), &e);
}

static void rig_stop(struct rig *r)
{
    kube_free(r->kube);
    kube_config_free(r->config);
    http_client_free(r->http);
    raw_server_stop(r->raw);
    assert_int_equal(text_count(r->pool), 0);
    text_pool_free(r->pool);
    mem_free(r->list);
}

/* Polls until list and watch are in; whether the call number nth failed. */
static bool inform(struct rig *r, struct kube_projection projection, long nth)
{
    struct informer_opts o = informer_opts_default();
    struct informer *inf;
    struct err e, why = {0};
    o.resource = KUBE_PODS;
    o.projection = projection;
    o.backoff_us = o.backoff_max_us = US_PER_MS;
    assert_ok(informer_new(r->kube, &o, &inf, &e), &e);
    int64_t give_up_us = clock_mono_us() + 20 * US_PER_S;
    fail_at(FAIL_ALLOC, nth, 0);
    while (!(informer_synced(inf) && informer_find(inf, "shop", "new") && !informer_find(inf, "shop", "pod-0")) &&
           clock_mono_us() < give_up_us) {
        kube_poll(r->kube, 5 * US_PER_MS);
        if (!why.code)
            informer_failure(inf, &why, NULL);
    }
    bool hit = fail_off();
    assert_int_equal(informer_count(inf), PODS);
    if (hit && informer_stats(inf)->failures != 1)
        fail_msg("allocation %ld: %d failures", nth, (int)informer_stats(inf)->failures);
    if (hit && why.code) /* else it was over before we looked */
        assert_err(why.code, ERR_NOMEM, &why, NULL);
    informer_free(inf);
    return hit;
}

TEST(whichever_allocation_of_a_list_or_watch_fails_the_informer_says_so_and_is_whole_at_the_next_try)
{
    struct rig r;
    rig_start(&r);
    for (int raw = 0; raw < 2; raw++) {
        struct kube_projection p = raw ? kube_raw_projection(r.pool) : kube_pod_projection(r.pool);
        long nth = 1, step = 1; /* objects are all alike: not each of the middle ones */
        for (; inform(&r, p, nth); nth += step)
            step = nth < 40 ? 1 : 61;
        assert_true(nth > PODS);
    }
    rig_stop(&r);
}

static enum err_code get(void *ctx, struct err *e)
{
    struct rig *r = ctx;
    struct kube_reply reply;
    struct kube_call call = {.verb = KUBE_GET, .path = "/api/v1/pods", .once = true};
    enum err_code rc = kube_do(r->kube, &call, &reply, e);
    kube_reply_fini(&reply);
    return rc;
}

TEST(whichever_allocation_of_a_call_fails_it_is_told_and_the_next_call_works)
{
    struct rig r;
    rig_start(&r);
    assert_true(fail_sweep(FAIL_ALLOC, 0, ERR_NOMEM, get, &r) >= 1);
    rig_stop(&r);
}

/* ---- configuration --------------------------------------------------------------------------- */

static enum err_code load(void *ctx, struct err *e)
{
    struct kube_config_opts o = kube_config_opts_default();
    struct kube_config *c;
    o.path = ctx;
    enum err_code rc = kube_config_load(&o, &c, e);
    kube_config_free(c);
    return rc;
}

TEST(whichever_allocation_or_read_of_a_kubeconfig_fails_it_is_told_and_nothing_stays)
{
    static const char text[] =
        "apiVersion: v1\nkind: Config\ncurrent-context: here\n"
        "contexts:\n- name: here\n  context: {cluster: c, user: u, namespace: prod}\n"
        "clusters:\n- name: c\n  cluster:\n    server: 'https://h:6443'\n"
        "    certificate-authority-data: LS0tLS1CRUdJTiBYLS0tLS0KYWJjCg==\nusers:\n- name: u\n  user:\n    exec:\n"
        "      apiVersion: client.authentication.k8s.io/v1\n      command: plugin\n      args: [a, b]\n"
        "      env: [{name: A, value: b}]\n      interactiveMode: Never\n";
    char *path = mem_strdup(test_path("%s/fail.yaml", test_tmp_dir()));
    test_write_file(path, text, sizeof text - 1);
    assert_true(fail_sweep(FAIL_ALLOC, 0, ERR_NOMEM, load, path) >= 40);
    assert_true(fail_sweep(FAIL_READ, EIO, ERR_IO, load, path) >= 1);
    mem_free(path);
}
