/* captures_lists_test.c - lists, controllers, reviews, streams and stored objects as recorded. */
#include "base/file.h"
#include "tests/unit/apiserver/captures.h"

/* ---- discovery ---- */

TEST(discovery_version_and_unknown_groups_are_as_recorded)
{
    static const struct step steps[] = {
        REC("version"),
        REC("discovery_api"),
        REC("discovery_apis_coordination.k8s.io"),
        REC("discovery_apis_scheduling.k8s.io"),
        REC("absent_apis_custom.metrics.k8s.io_v1beta1"),
        REC("absent_apis_external.metrics.k8s.io_v1beta1"),
        REC("absent_apis_metrics.k8s.io"),
        REC("absent_apis_metrics.k8s.io_v1beta1_nodes"),
        REC("unknown_path_404"),
        REC("priorityclass_list"),
    };
    struct run r = captures_begin(&(struct apiserver_opts){0});
    captures_run(&r, steps, ARRAY_LEN(steps));
    captures_end(&r);
}

/* Of each served resource the entry is the recorded one. */
TEST(resources_of_the_core_group_are_a_subset_of_the_recorded_ones)
{
    struct run r = captures_begin(&(struct apiserver_opts){0});
    cJSON *capture = captures_load(r.dir, "discovery_api_v1");
    struct rest got = rest(r.a, "GET", "/api/v1", NULL);
    const cJSON *all = rest_at(capture, "response.resources");
    int n = 0;
    for (const cJSON *ours = rest_at(got.json, "resources")->child; ours; ours = ours->next, n++) {
        struct diff d = {.out = buf_init(1 << 16)};
        const char *name = rest_at(ours, "name")->valuestring;
        const cJSON *want = NULL;
        for (const cJSON *x = all->child; x; x = x->next) {
            if (strcmp(rest_at(x, "name")->valuestring, name) == 0)
                want = x;
        }
        if (!want)
            fail_msg("%s is not recorded", name);
        captures_compare(&d, name, want, ours);
        if (d.n)
            fail_msg("%s", d.out.p);
        buf_fini(&d.out);
    }
    assert_true(n > 20);
    captures_seen("discovery_api_v1");
    rest_fini(&got);
    cJSON_Delete(capture);
    captures_end(&r);
}

TEST(groups_are_a_subset_of_the_recorded_ones)
{
    struct run r = captures_begin(&(struct apiserver_opts){0});
    cJSON *capture = captures_load(r.dir, "discovery_apis");
    struct rest got = rest(r.a, "GET", "/apis", NULL);
    for (const cJSON *ours = rest_at(got.json, "groups")->child; ours; ours = ours->next) {
        const char *name = rest_at(ours, "name")->valuestring;
        const cJSON *want = NULL;
        for (const cJSON *x = rest_at(capture, "response.groups")->child; x; x = x->next) {
            if (strcmp(rest_at(x, "name")->valuestring, name) == 0)
                want = x;
        }
        if (!want)
            fail_msg("%s is not recorded", name);
        assert_true(cJSON_Compare(rest_at(want, "preferredVersion"),
                                  rest_at(ours, "preferredVersion"), true));
    }
    captures_seen("discovery_apis");
    rest_fini(&got);
    cJSON_Delete(capture);
    captures_end(&r);
}

/* ---- lists: items of the same name ---- */

static void check_items(const char *what, const cJSON *want, const cJSON *got, int at_least)
{
    struct diff d = {.out = buf_init(1 << 20)};
    int n = 0;
    for (const cJSON *w = rest_at(want, "items")->child; w; w = w->next) {
        const char *name = rest_at(w, "metadata.name")->valuestring;
        for (const cJSON *g = rest_at(got, "items")->child; g; g = g->next) {
            if (strcmp(rest_at(g, "metadata.name")->valuestring, name) != 0)
                continue;
            captures_compare(&d, name, w, g);
            n++;
        }
    }
    assert_string_equal(rest_at(want, "kind")->valuestring, rest_at(got, "kind")->valuestring);
    assert_string_equal(rest_at(want, "apiVersion")->valuestring,
                        rest_at(got, "apiVersion")->valuestring);
    if (d.n)
        fail_msg("%s: %s", what, d.out.p);
    buf_fini(&d.out);
    if (n < at_least)
        fail_msg("%s: only %d items in common", what, n);
}

static void check_list(struct run *r, const char *name, const char *accept, int at_least)
{
    cJSON *capture = captures_load(r->dir, name);
    struct rest got =
        rest_ask(r->a, &(struct rest_ask){.method = "GET",
                                          .path = rest_at(capture, "request.path")->valuestring,
                                          .accept = accept});
    assert_int_equal(got.status, 200);
    check_items(name, rest_at(capture, "response"), got.json, at_least);
    captures_seen(name);
    rest_fini(&got);
    cJSON_Delete(capture);
}

TEST(lists_of_pods_and_nodes_are_as_recorded)
{
    static const struct step steps[] = {
        MAKE_POD("b1", ""),
        MAKE_POD("b2", ""),
        MAKE_POD("b3", ""),
        MAKE_POD("b4", ""),
        MAKE_POD("b5", ""),
        MAKE_POD("b8", ""),
        REC("bind_ok"),
        REC("bind_missing_node"),
        REC("bind_minimal"),
        REC("bind_legacy"),
        REC("evict_ok"),
        OWN("PATCH", POD("b3/status"),
            "{\"status\":{\"phase\":\"Running\",\"conditions\":[{\"type\":\"Ready\",\"status\":"
            "\"True\"},"
            "{\"type\":\"PodScheduled\",\"status\":\"True\"}]}}",
            200),
        OWN("POST", PODS,
            "{\"metadata\":{\"name\":\"toolarge\",\"labels\":{\"app\":\"toolarge\"}},\"spec\":{"
            "\"schedulerName\":\"nobody\",\"containers\":["
            "{\"name\":\"c\",\"image\":\"registry.k8s.io/"
            "pause:3.10\",\"resources\":{\"requests\":{\"cpu\":\"1\",\"memory\":\"1Gi\",\"nvidia."
            "com/gpu\":\"64\"},"
            "\"limits\":{\"nvidia.com/gpu\":\"64\"}}}]}}",
            201),
        OWN("POST", POD("toolarge/binding"),
            "{\"metadata\":{\"name\":\"toolarge\"},\"target\":{\"kind\":\"Node\",\"name\":\"gpu-"
            "1\"}}",
            201),
        REC("pod_gpu_limit_only"),
    };
    struct run r = captures_begin(&(struct apiserver_opts){0});
    captures_nodes(&r);
    captures_run(&r, steps, ARRAY_LEN(steps) - 1);
    /* A generated name: the prefix is what counts. */
    cJSON *capture = captures_load(r.dir, "pod_gpu_limit_only");
    struct rest got = captures_play(&r, &steps[ARRAY_LEN(steps) - 1], capture);
    assert_int_equal(got.status, 201);
    assert_true(strncmp(rest_text(&got, "metadata.name"), "gl-", 3) == 0 &&
                strlen(rest_text(&got, "metadata.name")) == 8);
    struct diff d = {.out = buf_init(1 << 20)};
    captures_compare(&d, "spec", rest_at(capture, "response.spec"), rest_at(got.json, "spec"));
    captures_compare(&d, "status", rest_at(capture, "response.status"),
                     rest_at(got.json, "status"));
    if (d.n)
        fail_msg("%s", d.out.p);
    buf_fini(&d.out);
    captures_seen("pod_gpu_limit_only");
    rest_fini(&got);
    cJSON_Delete(capture);
    check_list(&r, "pod_list", NULL, 7);
    check_list(&r, "pod_list_partial",
               "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1", 1);
    captures_end(&r);
}

TEST(controllers_leave_nodes_deployments_and_budgets_as_recorded)
{
    struct run r = captures_begin(&(struct apiserver_opts){.controllers = true});
    captures_nodes(&r);
    apiserver_settle(r.a);
    check_list(&r, "node_list", NULL, 2);

    static const struct step steps[] = {
        REC("deployment_create"),
        OWN("PATCH", "/apis/apps/v1/namespaces/default/deployments/web/scale",
            "{\"spec\":{\"replicas\":6}}", 200),
        OWN("POST", PODS,
            "{\"metadata\":{\"name\":\"b3\",\"labels\":{\"app\":\"b3\"}},\"spec\":{" SPEC "}}",
            201),
        OWN("POST", POD("b3/binding"),
            "{\"metadata\":{\"name\":\"b3\"},\"target\":{\"name\":\"gpu-1\"}}", 201),
        OWN("POST", "/apis/policy/v1/namespaces/default/poddisruptionbudgets",
            "{\"metadata\":{\"name\":\"pdb\"},\"spec\":{\"minAvailable\":1,\"selector\":{"
            "\"matchLabels\":{\"app\":\"b3\"}}}}",
            201),
    };
    captures_run(&r, steps, ARRAY_LEN(steps));
    apiserver_settle(r.a);
    check_list(&r, "pdb_list", NULL, 1);

    /* The recorded Deployment, up to the random name of its ReplicaSet. */
    struct buf b;
    struct err e;
    assert_ok(file_read(test_path("%s/kubernetes/deployment.json", r.dir), 1 << 20, &b, &e), &e);
    cJSON *want = cJSON_Parse(b.p);
    buf_fini(&b);
    struct rest got = rest(r.a, "GET", "/apis/apps/v1/namespaces/default/deployments/web", NULL);
    struct diff d = {.out = buf_init(1 << 20)};
    captures_compare(&d, "spec", rest_at(want, "spec"), rest_at(got.json, "spec"));
    for (int i = 0; i < 2; i++) {
        const char *path = test_path("status.conditions.%d.reason", i);
        captures_compare(&d, path, rest_at(want, path), rest_at(got.json, path));
    }
    cJSON *ws = cJSON_GetObjectItemCaseSensitive(want, "status"),
          *gs = cJSON_GetObjectItemCaseSensitive(got.json, "status");
    cJSON_DeleteItemFromObject(ws, "conditions");
    cJSON_DeleteItemFromObject(gs, "conditions");
    captures_compare(&d, "status", ws, gs);
    if (d.n)
        fail_msg("deployment: %s", d.out.p);
    captures_seen("deployment");
    rest_fini(&got);
    cJSON_Delete(want);

    /* Its ReplicaSet and pods, likewise. */
    static const char *const list[] = {"replicaset_list", "deployment_pods"};
    for (size_t i = 0; i < ARRAY_LEN(list); i++) {
        cJSON *capture = captures_load(r.dir, list[i]);
        got = rest(r.a, "GET", rest_at(capture, "request.path")->valuestring, NULL);
        const cJSON *w = rest_at(capture, "response.items"), *g = rest_at(got.json, "items");
        assert_int_equal(cJSON_GetArraySize(w), cJSON_GetArraySize(g));
        captures_compare(&d, "0.status", rest_at(w, "0.status"), rest_at(g, "0.status"));
        captures_compare(&d, "0.owner", rest_at(w, "0.metadata.ownerReferences.0.kind"),
                         rest_at(g, "0.metadata.ownerReferences.0.kind"));
        assert_true(strncmp(rest_at(g, "0.metadata.name")->valuestring, "web-", 4) == 0);
        assert_non_null(
            cJSON_GetObjectItemCaseSensitive(rest_at(g, "0.metadata.labels"), "pod-template-hash"));
        if (i == 1)
            captures_compare(&d, "0.spec", rest_at(w, "0.spec"), rest_at(g, "0.spec"));
        if (d.n)
            fail_msg("%s: %s", list[i], d.out.p);
        captures_seen(list[i]);
        rest_fini(&got);
        cJSON_Delete(capture);
    }
    buf_fini(&d.out);
    captures_end(&r);
}

TEST(the_scheduler_binds_and_refuses_as_recorded)
{
    static const struct {
        const char *capture, *gpus;
    } row[] = {{"pod_bound_by_default_scheduler", "1"}, {"pod_unschedulable", "9"}};
    /* Pods that never get a kubelet: a start delay beyond the test. */
    struct run r = captures_begin(
        &(struct apiserver_opts){.controllers = true, .pod_start_min_us = 3600 * US_PER_S});
    captures_nodes(&r);
    for (size_t i = 0; i < ARRAY_LEN(row); i++) {
        struct buf b;
        struct err e;
        assert_ok(
            file_read(test_path("%s/kubernetes/%s.json", r.dir, row[i].capture), 1 << 20, &b, &e),
            &e);
        cJSON *want = cJSON_Parse(b.p);
        buf_fini(&b);
        const char *name = rest_at(want, "metadata.name")->valuestring;
        assert_int_equal(
            rest_status(r.a, "POST", PODS,
                        test_path("{\"metadata\":{\"name\":\"%s\",\"labels\":{\"app\":\"%s\"}},"
                                  "\"spec\":{\"containers\":"
                                  "[{\"name\":\"c\",\"image\":\"registry.k8s.io/"
                                  "pause:3.10\",\"resources\":{\"requests\":{\"cpu\":\"1\","
                                  "\"memory\":\"1Gi\",\"nvidia.com/gpu\":\"%s\"},"
                                  "\"limits\":{\"nvidia.com/gpu\":\"%s\"}}}]}}",
                                  name, name, row[i].gpus, row[i].gpus)),
            201);
        apiserver_settle(r.a);
        struct rest got = rest(r.a, "GET", test_path(PODS "/%s", name), NULL);
        struct diff d = {.out = buf_init(1 << 20)};
        captures_compare(&d, "metadata.labels", rest_at(want, "metadata.labels"),
                         rest_at(got.json, "metadata.labels"));
        captures_compare(&d, "spec", rest_at(want, "spec"), rest_at(got.json, "spec"));
        /* The message of a real scheduler goes on about preemption. */
        static const char start[] = "0/3 nodes are available: 3 Insufficient nvidia.com/gpu.";
        const cJSON *message = rest_at(got.json, "status.conditions.0.message");
        if (i == 1)
            assert_string_equal(message->valuestring, start);
        cJSON_DeleteItemFromObject(
            cJSON_GetArrayItem((cJSON *)(uintptr_t)rest_at(want, "status.conditions"), 0),
            "message");
        cJSON_DeleteItemFromObject(
            cJSON_GetArrayItem((cJSON *)(uintptr_t)rest_at(got.json, "status.conditions"), 0),
            "message");
        captures_compare(&d, "status", rest_at(want, "status"), rest_at(got.json, "status"));
        if (d.n)
            fail_msg("%s: %s", row[i].capture, d.out.p);
        buf_fini(&d.out);
        captures_seen(row[i].capture);
        rest_fini(&got);
        cJSON_Delete(want);
    }
    captures_end(&r);
}

/* ---- reviews ---- */

TEST(reviews_answer_as_recorded)
{
    struct run r = captures_begin(&(struct apiserver_opts){0});
    apiserver_token(r.a, "REDACTED.TOKEN.VALUE", "system:serviceaccount:rl:rl",
                    &(struct apiserver_rule){"create", "", "pods/binding", NULL}, 1);
    cJSON *capture = captures_load(r.dir, "ssar");
    struct rest got = captures_play(&r, &(struct step){.token = "REDACTED.TOKEN.VALUE"}, capture);
    assert_int_equal(got.status, 201);
    assert_true(cJSON_IsTrue(rest_at(got.json, "status.allowed")));
    assert_true(cJSON_Compare(rest_at(capture, "response.spec"), rest_at(got.json, "spec"), true));
    captures_seen("ssar");
    rest_fini(&got);
    cJSON_Delete(capture);

    capture = captures_load(r.dir, "tokenreview");
    got = captures_play(&r, &(struct step){0}, capture);
    assert_int_equal(got.status, 201);
    static const char *const same[] = {"spec", "status.authenticated", "status.user.username",
                                       "status.user.groups", "status.audiences"};
    for (size_t i = 0; i < ARRAY_LEN(same); i++)
        assert_true(cJSON_Compare(rest_at(rest_at(capture, "response"), same[i]),
                                  rest_at(got.json, same[i]), true));
    captures_seen("tokenreview");
    rest_fini(&got);
    cJSON_Delete(capture);
    captures_end(&r);
}

/* ---- streams ---- */

static cJSON *line_at(const char *text, int n)
{
    for (; n > 0 && text; n--) {
        text = strchr(text, '\n');
        text += text != NULL;
    }
    return text && *text == '{' ? cJSON_ParseWithLength(text, strcspn(text, "\n")) : NULL;
}

/* The lines of a recorded stream from `from` on, against those that come. */
static void check_stream(struct run *r, const char *file, struct rest_watch *w, int from, int n)
{
    struct buf b;
    struct err e;
    assert_ok(file_read(test_path("%s/kubernetes/%s", r->dir, file), 1 << 20, &b, &e), &e);
    for (int i = from; i < from + n; i++) {
        cJSON *want = line_at(b.p, i), *got = rest_watch_next(w);
        struct diff d = {.out = buf_init(1 << 20)};
        assert_non_null(want);
        if (!got)
            fail_msg("%s: the stream ends before line %d", file, i);
        captures_compare(&d, "", want, got);
        if (d.n)
            fail_msg("%s line %d: %s", file, i, d.out.p);
        buf_fini(&d.out);
        cJSON_Delete(want);
        cJSON_Delete(got);
    }
    buf_fini(&b);
    captures_seen(file);
}

TEST(streams_tell_what_the_recorded_ones_tell)
{
    struct run r = captures_begin(&(struct apiserver_opts){0});
    captures_nodes(&r);
    char from[80];
    snprintf(from, sizeof from, "&resourceVersion=%llu&allowWatchBookmarks=true&timeoutSeconds=3",
             (unsigned long long)apiserver_version(r.a));
    struct rest_watch all = rest_watch(r.a, test_path("/api/v1/pods?watch=1%s", from));
    struct rest_watch unassigned =
        rest_watch(r.a, test_path("/api/v1/pods?watch=1&fieldSelector=spec.nodeName%%3D%s", from));
    static const struct step steps[] = {
        MAKE_POD("w1", ""),
        OWN("PATCH", POD("w1"), "{\"metadata\":{\"labels\":{\"z\":\"1\"}}}", 200),
        OWN("POST", POD("w1/binding"),
            "{\"metadata\":{\"name\":\"w1\"},\"target\":{\"name\":\"gpu-1\"}}", 201),
        OWN("DELETE", POD("w1") "?gracePeriodSeconds=0", NULL, 200),
    };
    captures_run(&r, steps, ARRAY_LEN(steps));
    check_stream(&r, "watch_pods_stream.jsonl", &all, 0,
                 6); /* with the bookmark before the time-out */
    assert_string_equal(rest_watch_tell(&all), "END");
    check_stream(&r, "watch_pods_unassigned_stream.jsonl", &unassigned, 0, 3);
    rest_watch_fini(&all);
    rest_watch_fini(&unassigned);
    struct rest_watch nodes =
        rest_watch(r.a, "/api/v1/"
                        "nodes?watch=1&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&"
                        "allowWatchBookmarks=true&timeoutSeconds=5");
    for (int i = 0; i < 3; i++)
        assert_true(strncmp(rest_watch_tell(&nodes), "ADDED gpu-", 10) == 0);
    check_stream(&r, "watch_nodes_initial_events.jsonl", &nodes, 3, 1);
    rest_watch_fini(&nodes);
    captures_end(&r);
}

TEST(a_watch_from_too_old_a_version_is_told_so_in_the_stream)
{
    static const char *const file[] = {"watch_410_rv1.txt", "watch_410_rv472.txt",
                                       "watch_410_rv498.txt"};
    struct run r = captures_begin(&(struct apiserver_opts){0});
    apiserver_compact(r.a);
    struct rest_watch w = rest_watch(r.a, "/api/v1/pods?watch=1&resourceVersion=1");
    cJSON *got = rest_watch_next(&w);
    assert_string_equal(rest_watch_tell(&w), "END");
    for (size_t i = 0; i < ARRAY_LEN(file); i++) {
        struct buf b;
        struct err e;
        assert_ok(file_read(test_path("%s/kubernetes/%s", r.dir, file[i]), 1 << 20, &b, &e), &e);
        cJSON *want = line_at(b.p, 1);
        assert_string_equal(rest_at(got, "type")->valuestring, "ERROR");
        /* Versions differ; words, reason and code do not. */
        const char *ours = rest_at(got, "object.message")->valuestring,
                   *theirs = rest_at(want, "object.message")->valuestring;
        assert_int_equal(strcspn(ours, "0123456789"), strcspn(theirs, "0123456789"));
        assert_memory_equal(ours, theirs, strcspn(ours, "0123456789"));
        assert_true(
            cJSON_Compare(rest_at(got, "object.reason"), rest_at(want, "object.reason"), true));
        assert_true(cJSON_Compare(rest_at(got, "object.code"), rest_at(want, "object.code"), true));
        cJSON_Delete(want);
        buf_fini(&b);
        captures_seen(file[i]);
    }
    cJSON_Delete(got);
    rest_watch_fini(&w);
    captures_end(&r);
}

TEST(an_api_service_without_backend_is_503)
{
    struct run r = captures_begin(&(struct apiserver_opts){0});
    apiserver_must_load(
        r.a, "{\"apiVersion\":\"apiregistration.k8s.io/"
             "v1\",\"kind\":\"APIService\",\"metadata\":{\"name\":\"v1beta1.metrics.k8s.io\"},"
             "\"spec\":{\"group\":\"metrics.k8s.io\",\"version\":\"v1beta1\",\"service\":{\"name\":"
             "\"m\",\"namespace\":\"kube-system\"}}}");
    struct rest got = rest(r.a, "GET", "/apis/metrics.k8s.io/v1beta1/nodes", NULL);
    assert_int_equal(got.status, 503);
    assert_string_equal(got.type, "text/plain; charset=utf-8");
    assert_string_equal(got.body.p, "service unavailable\n");
    captures_seen("metrics_apiservice_503.txt");
    rest_fini(&got);
    captures_end(&r);
}

/* Objects as a server stored them survive being loaded. */
TEST(recorded_objects_load_and_read_back_unchanged)
{
    static const struct {
        const char *capture, *path;
    } row[] = {
        {"lease", "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/rl-sched"},
        {"lease_kube_scheduler",
         "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/kube-scheduler"},
        {"hpa_no_metrics", "/apis/autoscaling/v2/namespaces/default/horizontalpodautoscalers/web"},
        {"node_notready", "/api/v1/nodes/k-1"},
        {"pod_nominated", "/api/v1/namespaces/default/pods/high"},
    };
    struct run r = captures_begin(&(struct apiserver_opts){0});
    for (size_t i = 0; i < ARRAY_LEN(row); i++) {
        struct buf b;
        struct err e;
        assert_ok(
            file_read(test_path("%s/kubernetes/%s.json", r.dir, row[i].capture), 1 << 20, &b, &e),
            &e);
        apiserver_must_load(r.a, b.p);
        cJSON *want = cJSON_Parse(b.p);
        struct rest got = rest(r.a, "GET", row[i].path, NULL);
        struct diff d = {.out = buf_init(1 << 20)};
        captures_compare(&d, row[i].capture, want, got.json);
        if (d.n)
            fail_msg("%s", d.out.p);
        buf_fini(&d.out);
        rest_fini(&got);
        cJSON_Delete(want);
        buf_fini(&b);
        captures_seen(row[i].capture);
    }
    captures_end(&r);
}

TEST(lists_of_leases_and_pods_of_others_are_as_recorded)
{
    struct run r = captures_begin(&(struct apiserver_opts){0});
    cJSON *capture = captures_load(r.dir, "lease_list");
    for (const cJSON *x = rest_at(capture, "response.items")->child; x; x = x->next) {
        cJSON *copy = cJSON_Duplicate(x, true);
        cJSON_AddStringToObject(copy, "apiVersion", "coordination.k8s.io/v1");
        cJSON_AddStringToObject(copy, "kind", "Lease");
        char *text = captures_text(copy);
        apiserver_must_load(r.a, text);
        mem_free(text);
        cJSON_Delete(copy);
    }
    cJSON_Delete(capture);
    check_list(&r, "lease_list", NULL, 2);
    captures_end(&r);
}
