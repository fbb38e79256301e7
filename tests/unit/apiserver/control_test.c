/* control_test.c - controllers, scheduler and kubelets of the stand-in: pods come, wait, fail, go,
 * in the order real ones do. */
#include <time.h>

#include "tests/unit/apiserver/rest.h"

#define PODS "/api/v1/namespaces/default/pods"
#define WEB "/apis/apps/v1/namespaces/default/deployments/web"
#define DB "/apis/apps/v1/namespaces/default/statefulsets/db"

static const char nodes[] =
    "apiVersion: v1\nkind: Node\nmetadata: {name: n1, labels: {pool: a}}\nstatus: {capacity: {cpu: "
    "64, memory: 256Gi, nvidia.com/gpu: 8, pods: 110}}\n---\n"
    "apiVersion: v1\nkind: Node\nmetadata: {name: n2, labels: {pool: b}}\nstatus: {capacity: {cpu: "
    "64, memory: 256Gi, nvidia.com/gpu: 8, pods: 110}}\n";

static struct apiserver *start(struct apiserver_opts o)
{
    struct apiserver *a = NULL;
    struct err e;
    o.controllers = true;
    assert_ok(apiserver_start(&o, &a, &e), &e);
    apiserver_must_load(a, nodes);
    return a;
}

/* kind Deployment or StatefulSet, one GPU a pod; `more` goes into the pod's spec, `notes` are
 * annotations. */
static void make(struct apiserver *a, const char *kind, const char *name, int replicas,
                 const char *more, const char *notes)
{
    struct buf b = buf_init(1 << 16);
    buf_fmt(&b,
            "{\"apiVersion\":\"apps/"
            "v1\",\"kind\":\"%s\",\"metadata\":{\"name\":\"%s\",\"annotations\":{%s}},\"spec\":{"
            "\"replicas\":%d,\"selector\":"
            "{\"matchLabels\":{\"app\":\"%s\"}},\"template\":{\"metadata\":{\"labels\":{\"app\":\"%"
            "s\"}},\"spec\":{\"containers\":[{\"name\":\"c\",\"image\":\"i:1\","
            "\"resources\":{\"limits\":{\"nvidia.com/gpu\":\"1\"}}}]%s}}}}",
            kind, name, notes, replicas, name, name, more);
    apiserver_must_load(a, b.p);
    buf_fini(&b);
}

static void scale(struct apiserver *a, const char *of, int n)
{
    char path[160];
    snprintf(path, sizeof path, "%s/scale", of);
    assert_int_equal(
        apiserver_call(a, "PATCH", path, NULL, test_path("{\"spec\":{\"replicas\":%d}}", n), NULL),
        200);
}

static bool is_number(struct apiserver *a, const char *path, const char *field, double want)
{
    return apiserver_number(a, path, field, 0) == want;
}

struct want {
    const char *path, *field;
    double value;
};
static bool holds(struct apiserver *a, void *ctx)
{
    const struct want *w = ctx;
    return is_number(a, w->path, w->field, w->value);
}

static void wait_number(struct apiserver *a, const char *path, const char *field, double value)
{
    struct want w = {path, field, value};
    if (!apiserver_wait(a, holds, &w, 20 * US_PER_S))
        fail_msg("%s of %s is %g, not %g", field, path, apiserver_number(a, path, field, 0), value);
}

TEST(a_deployment_gets_a_replicaset_and_ready_pods_on_nodes)
{
    struct apiserver *a = start((struct apiserver_opts){0});
    make(a, "Deployment", "web", 5, "", "");
    apiserver_settle(a);
    assert_true(is_number(a, WEB, "status.readyReplicas", 5));
    assert_true(is_number(a, WEB, "status.observedGeneration", 1));
    assert_int_equal(apiserver_count(a, "/apis/apps/v1/replicasets"), 1);
    assert_int_equal(
        apiserver_count(
            a, PODS "?labelSelector=app=web,pod-template-hash&fieldSelector=status.phase=Running"),
        5);
    /* Spread by room. */
    assert_int_equal(apiserver_count(a, PODS "?fieldSelector=spec.nodeName=n1") +
                         apiserver_count(a, PODS "?fieldSelector=spec.nodeName=n2"),
                     5);
    assert_true(apiserver_count(a, PODS "?fieldSelector=spec.nodeName=n1") >= 2);
    scale(a, WEB, 9);
    apiserver_settle(a);
    assert_true(is_number(a, WEB, "status.readyReplicas", 9));
    assert_true(is_number(a, WEB, "status.observedGeneration", 2));
    scale(a, WEB, 0);
    apiserver_settle(a);
    assert_int_equal(apiserver_count(a, PODS), 0);
    char *status = apiserver_field(a, WEB, "status.replicas");
    assert_null(status); /* zeros are left out */
    apiserver_free(a);
}

TEST(pods_that_do_not_fit_stay_pending_with_the_reason_until_room_is_free)
{
    struct apiserver *a = start((struct apiserver_opts){0});
    make(a, "Deployment", "web", 16, "", "");
    apiserver_settle(a);
    make(a, "Deployment", "late", 2, "", "");
    apiserver_settle(a);
    assert_int_equal(apiserver_count(a, PODS "?fieldSelector=spec.nodeName="), 2);
    assert_true(is_number(a, "/apis/apps/v1/namespaces/default/deployments/late",
                          "status.unavailableReplicas", 2));
    char *why =
        apiserver_field(a, PODS "?labelSelector=app=late", "items.0.status.conditions.0.message");
    assert_string_equal(why, "0/2 nodes are available: 2 Insufficient nvidia.com/gpu.");
    mem_free(why);
    scale(a, WEB, 14);
    apiserver_settle(a);
    assert_int_equal(apiserver_count(a, PODS "?fieldSelector=spec.nodeName="), 0);
    assert_true(is_number(a, "/apis/apps/v1/namespaces/default/deployments/late",
                          "status.readyReplicas", 2));
    apiserver_free(a);
}

TEST(the_scheduler_keeps_to_cordons_taints_selectors_and_gates)
{
    static const struct {
        const char *more, *node; /* "": stays pending */
    } row[] = {
        {",\"nodeSelector\":{\"pool\":\"b\"}", "n2"},
        {",\"nodeSelector\":{\"pool\":\"c\"}", ""},
        {",\"affinity\":{\"nodeAffinity\":{\"requiredDuringSchedulingIgnoredDuringExecution\":{"
         "\"nodeSelectorTerms\":[{\"matchExpressions\":"
         "[{\"key\":\"pool\",\"operator\":\"NotIn\",\"values\":[\"a\"]}]}]}}}",
         "n2"},
        {",\"schedulingGates\":[{\"name\":\"g\"}]", ""},
        {",\"schedulerName\":\"sluice\"", ""},
        {"", "n2"}, /* n1 is cordoned */
        {",\"nodeSelector\":{\"pool\":\"t\"}", ""},
        {",\"nodeSelector\":{\"pool\":\"t\"},\"tolerations\":[{\"key\":\"k\",\"operator\":"
         "\"Exists\"}]",
         "tainted"},
    };
    struct apiserver *a = start((struct apiserver_opts){0});
    apiserver_must_load(
        a, "apiVersion: v1\nkind: Node\nmetadata: {name: tainted, labels: {pool: t}}\nspec: "
           "{taints: [{key: k, effect: NoSchedule}]}\n"
           "status: {capacity: {cpu: 64, memory: 256Gi, nvidia.com/gpu: 8, pods: 110}}\n");
    assert_int_equal(
        rest_status(a, "PATCH", "/api/v1/nodes/n1", "{\"spec\":{\"unschedulable\":true}}"), 200);
    for (size_t i = 0; i < ARRAY_LEN(row); i++) {
        const char *name = test_path("p%zu", i);
        assert_int_equal(
            rest_status(a, "POST", PODS,
                        test_path("{\"metadata\":{\"name\":\"%s\"},\"spec\":{\"containers\":[{"
                                  "\"name\":\"c\",\"image\":\"i\"}]%s}}",
                                  name, row[i].more)),
            201);
        apiserver_settle(a);
        char *node = apiserver_field(a, test_path(PODS "/%s", name), "spec.nodeName");
        if (strcmp(node ? node : "", row[i].node) != 0)
            fail_msg("row %zu: on %s, expected %s", i, node ? node : "none", row[i].node);
        mem_free(node);
    }
    apiserver_free(a);
}

TEST(a_pod_bound_by_somebody_else_starts_too)
{
    struct apiserver *a = start((struct apiserver_opts){.keep_unbound = true});
    make(a, "Deployment", "web", 1, "", "");
    apiserver_settle(a);
    char *name = apiserver_field(a, PODS, "items.0.metadata.name");
    assert_int_equal(apiserver_count(a, PODS "?fieldSelector=spec.nodeName="), 1);
    assert_int_equal(
        rest_status(
            a, "POST", test_path(PODS "/%s/binding", name),
            test_path(
                "{\"metadata\":{\"name\":\"%s\"},\"target\":{\"kind\":\"Node\",\"name\":\"n1\"}}",
                name)),
        201);
    apiserver_settle(a);
    assert_true(is_number(a, WEB, "status.readyReplicas", 1));
    mem_free(name);
    apiserver_free(a);
}

TEST(pods_become_ready_after_their_delay_in_server_time)
{
    /* 100 s of server time are 50 ms. */
    struct apiserver *a = start((struct apiserver_opts){.pod_start_min_us = 60 * US_PER_S,
                                                        .pod_start_max_us = 100 * US_PER_S,
                                                        .time_scale = 2000,
                                                        .time_origin_us = 1800000000 * US_PER_S});
    make(a, "Deployment", "web", 4, "", "");
    wait_number(a, WEB, "status.readyReplicas", 4);
    char *pods = apiserver_get(a, PODS);
    cJSON *j = cJSON_Parse(pods);
    for (const cJSON *p = rest_at(j, "items")->child; p; p = p->next) {
        int64_t made = 0, ready = 0;
        struct tm tm;
        assert_non_null(strptime(rest_at(p, "metadata.creationTimestamp")->valuestring,
                                 "%Y-%m-%dT%H:%M:%SZ", &tm));
        made = timegm(&tm);
        for (const cJSON *c = rest_at(p, "status.conditions")->child; c; c = c->next) {
            if (strcmp(rest_at(c, "type")->valuestring, "Ready") == 0) {
                assert_non_null(strptime(rest_at(c, "lastTransitionTime")->valuestring,
                                         "%Y-%m-%dT%H:%M:%SZ", &tm));
                ready = timegm(&tm);
            }
        }
        assert_true(made >= 1800000000);
        assert_true(ready - made >= 58); /* up to the machine's own delays, which count 2000 fold */
    }
    cJSON_Delete(j);
    mem_free(pods);
    apiserver_free(a);
}

TEST(annotations_choose_delay_and_failure_per_workload)
{
    struct apiserver *a = start((struct apiserver_opts){.pod_start_min_us = 3600 * US_PER_S});
    make(a, "Deployment", "web", 2, "", "\"test.sluice.dev/pod-start-ms\":\"1-5\"");
    make(a, "Deployment", "bad", 1, "",
         "\"test.sluice.dev/pod-start-ms\":\"0\",\"test.sluice.dev/image\":\"broken\"");
    make(a, "Deployment", "sick", 1, "",
         "\"test.sluice.dev/pod-start-ms\":\"0\",\"test.sluice.dev/never-ready\":\"true\"");
    make(a, "Deployment", "slow", 1, "", "");
    make(a, "StatefulSet", "db", 1, "", "\"test.sluice.dev/pod-start-ms\":\"1\"");
    wait_number(a, WEB, "status.readyReplicas", 2);
    wait_number(a, DB, "status.readyReplicas", 1);
    apiserver_settle(a);
    static const struct {
        const char *app, *phase, *reason;
    } row[] = {{"bad", "Pending", "ImagePullBackOff"},
               {"sick", "Running", NULL},
               {"slow", "Pending", NULL}};
    for (size_t i = 0; i < ARRAY_LEN(row); i++) {
        char *phase = apiserver_field(a, test_path(PODS "?labelSelector=app=%s", row[i].app),
                                      "items.0.status.phase");
        char *reason = apiserver_field(a, test_path(PODS "?labelSelector=app=%s", row[i].app),
                                       "items.0.status.containerStatuses.0.state.waiting.reason");
        assert_string_equal(phase, row[i].phase);
        assert_string_equal(reason ? reason : "", row[i].reason ? row[i].reason : "");
        mem_free(phase);
        mem_free(reason);
    }
    assert_true(is_number(a, "/apis/apps/v1/namespaces/default/deployments/sick",
                          "status.readyReplicas", 0));
    apiserver_free(a);
}

TEST(while_the_registry_is_down_new_pods_wait_and_old_ones_live)
{
    struct apiserver *a = start((struct apiserver_opts){0});
    make(a, "Deployment", "web", 2, "", "");
    apiserver_settle(a);
    apiserver_registry_down(a, true);
    scale(a, WEB, 5);
    apiserver_settle(a);
    assert_true(is_number(a, WEB, "status.readyReplicas", 2));
    assert_true(is_number(a, WEB, "status.unavailableReplicas", 3));
    apiserver_registry_down(a, false);
    wait_number(a, WEB, "status.readyReplicas", 5);
    apiserver_free(a);
}

TEST(scaling_in_takes_pending_then_unready_then_the_newest)
{
    /* Two ready old ones, two that never start (no room). */
    struct apiserver *a = start((struct apiserver_opts){.time_scale = 1000});
    make(a, "Deployment", "web", 14, "", "");
    apiserver_settle(a);
    apiserver_registry_down(a, true);
    scale(a, WEB, 18); /* 2 in ImagePullBackOff, 2 without a node */
    apiserver_settle(a);
    assert_int_equal(apiserver_count(a, PODS "?fieldSelector=spec.nodeName="), 2);
    scale(a, WEB, 16);
    apiserver_settle(a);
    assert_int_equal(apiserver_count(a, PODS "?fieldSelector=spec.nodeName="), 0);
    assert_true(is_number(a, WEB, "status.readyReplicas", 14));
    scale(a, WEB, 14);
    apiserver_settle(a);
    assert_true(is_number(a, WEB, "status.readyReplicas", 14));
    assert_int_equal(apiserver_count(a, PODS), 14);
    apiserver_free(a);
}

TEST(a_deleted_pod_lingers_for_its_stop_time_and_is_replaced_at_once)
{
    struct apiserver *a = start((struct apiserver_opts){.pod_stop_us = 3600 * US_PER_S});
    make(a, "Deployment", "web", 1, "", "");
    apiserver_settle(a);
    char *name = apiserver_field(a, PODS, "items.0.metadata.name");
    assert_int_equal(rest_status(a, "DELETE", test_path(PODS "/%s", name), NULL), 200);
    apiserver_settle(a);
    assert_int_equal(apiserver_count(a, PODS), 2);
    assert_true(is_number(a, WEB, "status.readyReplicas", 1));
    assert_int_equal(
        rest_status(a, "DELETE", test_path(PODS "/%s?gracePeriodSeconds=0", name), NULL), 200);
    assert_int_equal(apiserver_count(a, PODS), 1);
    mem_free(name);
    apiserver_free(a);
}

TEST(a_new_template_rolls_out_and_the_old_replicaset_empties)
{
    struct apiserver *a = start((struct apiserver_opts){0});
    make(a, "Deployment", "web", 3, "", "");
    apiserver_settle(a);
    char *before = apiserver_field(a, PODS, "items.0.metadata.labels.pod-template-hash");
    assert_int_equal(apiserver_call(a, "PATCH", WEB, "application/strategic-merge-patch+json",
                                    "{\"spec\":{\"template\":{\"spec\":{\"containers\":[{\"name\":"
                                    "\"c\",\"image\":\"i:2\"}]}}}}",
                                    NULL),
                     200);
    apiserver_settle(a);
    assert_int_equal(apiserver_count(a, "/apis/apps/v1/replicasets"), 2);
    assert_int_equal(apiserver_count(a, PODS), 3);
    assert_int_equal(
        apiserver_count(a, test_path(PODS "?labelSelector=pod-template-hash=%s", before)), 0);
    assert_true(is_number(a, WEB, "status.updatedReplicas", 3));
    mem_free(before);
    apiserver_free(a);
}

TEST(a_statefulset_grows_and_shrinks_one_by_one_in_order)
{
    struct apiserver *a = start((struct apiserver_opts){0});
    struct rest_watch w = rest_watch(a, "/api/v1/pods?watch=1");
    make(a, "StatefulSet", "db", 3, "", "");
    apiserver_settle(a);
    assert_true(is_number(a, DB, "status.readyReplicas", 3));
    scale(a, DB, 1);
    apiserver_settle(a);
    assert_int_equal(apiserver_count(a, PODS), 1);
    char order[400] = "";
    for (int added = 0, deleted = 0; added < 3 || deleted < 2;) {
        const char *what = rest_watch_tell(&w);
        added += strncmp(what, "ADDED", 5) == 0;
        deleted += strncmp(what, "DELETED", 7) == 0;
        if (strncmp(what, "MODIFIED", 8) != 0) {
            strcat(order, what);
            strcat(order, ";");
        }
    }
    assert_string_equal(order, "ADDED db-0;ADDED db-1;ADDED db-2;DELETED db-2;DELETED db-1;");
    rest_watch_fini(&w);
    /* A pod that does not start holds up the rest. */
    apiserver_registry_down(a, true);
    scale(a, DB, 4);
    apiserver_settle(a);
    assert_int_equal(apiserver_count(a, PODS), 2);
    apiserver_free(a);
}

TEST(what_an_owner_owns_goes_with_it_or_stays_when_orphaned)
{
    struct apiserver *a = start((struct apiserver_opts){0});
    make(a, "Deployment", "web", 2, "", "");
    make(a, "StatefulSet", "db", 2, "", "");
    apiserver_settle(a);
    assert_int_equal(rest_status(a, "DELETE", WEB, NULL), 200);
    assert_int_equal(rest_status(a, "DELETE", DB "?propagationPolicy=Orphan", NULL), 200);
    apiserver_settle(a);
    assert_int_equal(apiserver_count(a, PODS), 2);
    assert_int_equal(apiserver_count(a, PODS "?labelSelector=app=db"), 2);
    assert_int_equal(apiserver_count(a, "/apis/apps/v1/replicasets"), 0);
    apiserver_free(a);
}

TEST(a_job_like_pod_finishes_after_its_time_and_frees_its_gpus)
{
    struct apiserver *a = start((struct apiserver_opts){0});
    make(a, "Deployment", "web", 16, "", "");
    apiserver_settle(a);
    scale(a, WEB, 15);
    apiserver_settle(a);
    assert_int_equal(rest_status(a, "POST", PODS,
                                 "{\"metadata\":{\"name\":\"job\",\"annotations\":{\"test.sluice."
                                 "dev/run-ms\":\"5\"}},\"spec\":{\"restartPolicy\":\"Never\","
                                 "\"containers\":[{\"name\":\"c\",\"image\":\"i\",\"resources\":{"
                                 "\"limits\":{\"nvidia.com/gpu\":\"1\"}}}]}}"),
                     201);
    scale(a, WEB, 16);
    wait_number(a, WEB, "status.readyReplicas", 16);
    char *phase = apiserver_field(a, PODS "/job", "status.phase");
    assert_string_equal(phase, "Succeeded");
    mem_free(phase);
    apiserver_free(a);
}

TEST(a_filled_cluster_scales_like_any_other)
{
    struct apiserver *a = start((struct apiserver_opts){0});
    apiserver_fill(a, 50, 1000, 20);
#define APP "/apis/apps/v1/namespaces/fill-0/deployments/app-00003"
    scale(a, APP, 23);
    apiserver_settle(a);
    assert_true(is_number(a, APP, "status.replicas", 23));
    /* One of its 20 pods was pending from the start. */
    assert_true(is_number(a, APP, "status.readyReplicas", 22));
    scale(a, APP, 5);
    apiserver_settle(a);
    assert_true(is_number(a, APP, "status.readyReplicas", 5));
    assert_int_equal(apiserver_count(a, "/api/v1/pods?labelSelector=app=app-00003"), 5);
    assert_int_equal(
        apiserver_count(a,
                        "/apis/apps/v1/namespaces/fill-0/replicasets?labelSelector=app=app-00003"),
        1);
    apiserver_free(a);
}
