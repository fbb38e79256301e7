/* act_rig.h - executors against a test API server: one server, replicas of the daemon as far as
 * executors see them.
 *
 * Static functions, included by the tests of this folder. */
#ifndef TESTS_UNIT_EXECUTE_ACT_RIG_H
#define TESTS_UNIT_EXECUTE_ACT_RIG_H

#include <string.h>

#include "base/clock.h"
#include "base/mem.h"
#include "execute/act.h"
#include "kube/client.h"
#include "tests/apiserver/apiserver.h"
#include "tests/support/test.h"

#define TARGET_PATH "/apis/sluice.dev/v1alpha1/namespaces/shop/capacitytargets/api"
#define WORKLOAD_PATH "/apis/apps/v1/namespaces/shop/deployments/api"
#define SCALE_PATH WORKLOAD_PATH "/scale"

static const int64_t RIG_T0 = INT64_C(1795953600) * US_PER_S;

/* One replica. */
struct rig_replica {
    struct kube_config *config;
    struct http_client *http;
    struct kube *kube;
    struct act_env env;
    char holder[32];
    struct executor *x;
    bool may_status, may_scale, refuse_commit;
    bool freeze_on_commit;
    int writes_left; /* may_act says yes so often; -1: always */
    int n_commits, n_done;
    int64_t now_us, mono_us;
    char committed[STATUS_ID];
    struct act_result last;
};

static inline bool rig_may(void *ctx, enum act_write what)
{
    struct rig_replica *r = ctx;
    bool yes = what == ACT_WRITE_STATUS ? r->may_status : r->may_scale;
    if (yes && r->writes_left > 0)
        r->writes_left--;
    else if (r->writes_left == 0)
        yes = false;
    return yes;
}

static inline int64_t rig_now(void *ctx)
{
    return ((struct rig_replica *)ctx)->now_us;
}

static inline int64_t rig_mono(void *ctx)
{
    return ((struct rig_replica *)ctx)->mono_us;
}

static inline enum err_code rig_commit(void *ctx, void *target, const struct status_intent *intent,
                                       struct err *e)
{
    struct rig_replica *r = ctx;
    assert_ptr_equal(target, r);
    r->n_commits++;
    if (r->freeze_on_commit)
        r->may_scale = false;
    (void)snprintf(r->committed, sizeof r->committed, "%s", intent->id);
    return r->refuse_commit ? err_set(e, ERR_IO, "disk full") : ERR_OK;
}

static inline void rig_done(void *ctx, void *target, const struct act_result *result)
{
    struct rig_replica *r = ctx;
    assert_ptr_equal(target, r);
    r->n_done++;
    r->last = *result;
}

static inline void rig_executor(struct rig_replica *r)
{
    struct err e;
    assert_ok(executor_new(&r->env, "shop", "api", SCALE_PATH, r, rig_done, &r->x, &e), &e);
}

static inline void rig_replica_start(struct rig_replica *r, struct apiserver *api,
                                     const char *holder, int64_t deadline_us)
{
    struct err e;
    struct kube_opts o = kube_opts_default();
    *r = (struct rig_replica){
        .may_status = true, .may_scale = true, .writes_left = -1, .now_us = RIG_T0};
    (void)snprintf(r->holder, sizeof r->holder, "%s", holder);
    const char *path = test_path("%s/%s", test_tmp_dir(), holder);
    assert_ok(apiserver_kubeconfig(api, path, NULL, &e), &e);
    struct kube_config_opts co = kube_config_opts_default();
    co.path = path;
    assert_ok(kube_config_load(&co, &r->config, &e), &e);
    assert_ok(http_client_new(&r->http, &e), &e);
    o.backoff_us = 1000;
    o.backoff_max_us = 5000;
    assert_ok(kube_new(r->config, r->http, &o, &r->kube, &e), &e);
    r->env = (struct act_env){.kube = r->kube,
                              .holder = r->holder,
                              .deadline_us = deadline_us,
                              .may_act = rig_may,
                              .now_us = rig_now,
                              .mono_us = rig_mono,
                              .commit = rig_commit,
                              .ctx = r};
    rig_executor(r);
}

static inline void rig_replica_stop(struct rig_replica *r)
{
    executor_free(r->x);
    kube_free(r->kube);
    http_client_free(r->http);
    kube_config_free(r->config);
}

/* Runs the job that was begun to its end. */
static inline void rig_run(struct rig_replica *r)
{
    int64_t until = clock_mono_us() + 20 * US_PER_S;
    while (executor_busy(r->x)) {
        (void)kube_poll(r->kube, 20000);
        if (clock_mono_us() > until)
            fail_msg("the job does not end");
    }
}

/* ---- the server ------------------------------------------------------------------------------ */

static inline struct apiserver *rig_server(void)
{
    struct apiserver *api;
    struct err e;
    assert_ok(apiserver_start(&(struct apiserver_opts){.seed = test_seed()}, &api, &e), &e);
    assert_ok(apiserver_load_file(api, "deploy/crd/capacitytargets.yaml", &e), &e);
    apiserver_must_load(api,
                        "apiVersion: apps/v1\n"
                        "kind: Deployment\n"
                        "metadata: {name: api, namespace: shop}\n"
                        "spec:\n"
                        "  replicas: 5\n"
                        "  selector: {matchLabels: {app: api}}\n"
                        "  template:\n"
                        "    metadata: {labels: {app: api}}\n"
                        "    spec: {containers: [{name: c, image: i}]}\n"
                        "---\n"
                        "apiVersion: sluice.dev/v1alpha1\n"
                        "kind: CapacityTarget\n"
                        "metadata: {name: api, namespace: shop}\n"
                        "spec:\n"
                        "  scaleTargetRef: {apiVersion: apps/v1, kind: Deployment, name: api}\n"
                        "  maxUnits: 40\n");
    return api;
}

static inline int rig_size(struct apiserver *api)
{
    return (int)apiserver_number(api, WORKLOAD_PATH, "spec.replicas", -1);
}

/* A person sets the size. */
static inline void rig_person(struct apiserver *api, int units)
{
    char body[64];
    (void)snprintf(body, sizeof body, "{\"spec\":{\"replicas\":%d}}", units);
    assert_int_equal(
        apiserver_call(api, "PATCH", SCALE_PATH, "application/merge-patch+json", body, NULL), 200);
}

/* The object changes without its size. */
static inline void rig_touch(struct apiserver *api, const char *path, int n)
{
    char body[96];
    (void)snprintf(body, sizeof body, "{\"metadata\":{\"annotations\":{\"test/touched\":\"%d\"}}}",
                   n);
    assert_int_equal(apiserver_call(api, "PATCH", path, "application/merge-patch+json", body, NULL),
                     200);
}

/* The status as it stands, and its object's version. */
static inline void rig_status(struct apiserver *api, struct target_status *s,
                              char version[STATUS_NAME])
{
    struct json_doc *doc;
    struct err e;
    char *text = apiserver_get(api, TARGET_PATH);
    assert_non_null(text);
    assert_ok(json_parse(text, strlen(text), 1 << 20, "target", &doc, &e), &e);
    assert_ok(target_status_parse(doc, json_find(json_root(doc), "status"), s, &e), &e);
    if (version)
        (void)snprintf(
            version, STATUS_NAME, "%s",
            json_text(json_find(json_find(json_root(doc), "metadata"), "resourceVersion")));
    json_free(doc);
    mem_free(text);
}

/* What an informer would show now. */
static inline void rig_see(struct apiserver *api, struct rig_replica *r)
{
    struct target_status s;
    char version[STATUS_NAME];
    rig_status(api, &s, version);
    executor_seen(r->x, version, &s);
}

/* ---- orders ---------------------------------------------------------------------------------- */

/* The action counted in safety at time now. */
static inline enum err_code rig_order(struct rig_replica *r, const char *id, int from, int to,
                                      struct err *e)
{
    struct target_status s = *executor_status(r->x);
    struct safety_status before = s.safety;
    if (to > from)
        s.safety.last_out_us = r->now_us;
    else
        s.safety.last_in_us = r->now_us;
    s.desired = to;
    return executor_order(
        r->x,
        &(struct act_order){
            .id = id, .from = from, .to = to, .status = &s, .safety_before = &before},
        e);
}

static inline void rig_act(struct rig_replica *r, const char *id, int from, int to)
{
    struct err e;
    assert_ok(rig_order(r, id, from, to, &e), &e);
    rig_run(r);
}

/* Sizes written with success. */
static inline size_t rig_scaled(struct apiserver *api)
{
    return apiserver_counted(api, "write", "deployments/scale", true);
}

/* One replica on its server, which has seen everything and remembers nothing of it. */
struct rig {
    struct apiserver *api;
    struct rig_replica a;
};

static inline void rig_start(struct rig *g)
{
    g->api = rig_server();
    rig_replica_start(&g->a, g->api, "a", 300000);
    rig_see(g->api, &g->a);
    apiserver_forget(g->api);
}

static inline void rig_stop(struct rig *g)
{
    rig_replica_stop(&g->a);
    apiserver_free(g->api);
}

#endif
