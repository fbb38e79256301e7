/* captures_test.c - the stand-in held to a real API server: recorded requests are sent to it, and
 * its answers compared with the recorded ones, field by field.
 *
 * A step is a recording (its request is replayed, with our uids and versions in place of the
 * recorded ones) or a request of our own that brings about the state.  Not compared: uids,
 * versions, times, managed fields, random names, and in messages the structure diffs and quoted
 * objects of Go.  The last test fails on a recording that is neither compared nor listed as not
 * modelled. */
#include <dirent.h>

#include "base/file.h"
#include "tests/unit/apiserver/captures.h"

static char *seen[SEEN_MAX];
static size_t n_seen;

void captures_seen(const char *name)
{
    if (n_seen < SEEN_MAX)
        seen[n_seen++] = mem_strdup(name);
}

__attribute__((destructor)) static void forget_seen(void)
{
    for (size_t i = 0; i < n_seen; i++)
        mem_free(seen[i]);
}

/* ---- text ---- */

static void replace_all(char **text, const char *from, const char *to)
{
    struct buf b = buf_init(32 << 20);
    size_t n = strlen(from);
    const char *p = *text;
    for (const char *at; (at = strstr(p, from)) != NULL; p = at + n) {
        buf_add(&b, p, (size_t)(at - p));
        buf_str(&b, to);
    }
    buf_str(&b, p);
    mem_free(*text);
    *text = buf_take(&b);
}

static bool uuid_at(const char *p)
{
    for (int i = 0; i < 36; i++) {
        bool dash = i == 8 || i == 13 || i == 18 || i == 23;
        if (dash ? p[i] != '-' : !strchr("0123456789abcdef", p[i]) || !p[i])
            return false;
    }
    return true;
}

/* Blanks out what differs by nature: uids, versions, objects quoted in messages, Go's structure
 * diffs. */
static char *plain_message(const char *s)
{
    static const char *const number_after[] = {
        "object meta: ", "current: ", "resource version: ", "127.0.0.1:"};
    struct buf b = buf_init(32 << 20);
    const char *quoted = strstr(s, "Invalid value: \"{"), *quoted_end = NULL;
    for (const char *at = quoted; at && (at = strstr(at, "}\": ")) != NULL; at++)
        quoted_end = at;
    for (const char *p = s; *p && strncmp(p, "\n@@", 3) != 0;) {
        if (p == quoted && quoted_end) {
            buf_str(&b, "Invalid value: OBJECT");
            p = quoted_end + 2;
            continue;
        }
        if (uuid_at(p)) {
            buf_str(&b, "UID");
            p += 36;
            continue;
        }
        for (size_t i = 0; i < ARRAY_LEN(number_after); i++) {
            size_t n = strlen(number_after[i]);
            if (strncmp(p, number_after[i], n) == 0 && strspn(p + n, "0123456789") > 0 &&
                !uuid_at(p + n)) {
                buf_add(&b, p, n);
                buf_char(&b, 'N');
                p += n + strspn(p + n, "0123456789");
            }
        }
        if (*p)
            buf_char(&b, *p++);
    }
    return buf_take(&b);
}

/* ---- comparison ---- */

static bool ignored(const char *key)
{
    static const char *const names[] = {
        "uid",
        "resourceVersion",
        "creationTimestamp",
        "deletionTimestamp",
        "managedFields",
        "lastTransitionTime",
        "lastUpdateTime",
        "lastHeartbeatTime",
        "volumes",
        "volumeMounts",
        "storageVersionHash",
        "continue",
        "node.alpha.kubernetes.io/ttl",
        "startTime",
        "serverAddressByClientCIDRs",
        "observedGeneration",
        "credential-id",
        "timeAdded",
        "token",
        "expirationTimestamp",
    };
    for (size_t i = 0; i < ARRAY_LEN(names); i++) {
        if (strcmp(key, names[i]) == 0)
            return true;
    }
    return false;
}

char *captures_text(const cJSON *v)
{
    char *raw = v ? cJSON_PrintUnformatted(v) : NULL;
    char *copy = mem_strdup(raw ? raw : "(absent)");
    cJSON_free(raw);
    return copy;
}

static void differ(struct diff *d, const char *path, const cJSON *want, const cJSON *got)
{
    char *w = captures_text(want), *g = captures_text(got);
    buf_fmt(&d->out, "  %s:\n    recorded %.700s\n    ours     %.700s\n", path, w, g);
    d->n++;
    mem_free(w);
    mem_free(g);
}

static void compare_objects(struct diff *d, const char *path, const cJSON *want, const cJSON *got)
{
    char at[400];
    for (const cJSON *c = want->child; c; c = c->next) {
        snprintf(at, sizeof at, "%s.%s", path, c->string);
        if (!ignored(c->string))
            captures_compare(d, at, c, cJSON_GetObjectItemCaseSensitive(got, c->string));
    }
    for (const cJSON *c = got->child; c; c = c->next) {
        snprintf(at, sizeof at, "%s.%s", path, c->string);
        if (!ignored(c->string) && !cJSON_GetObjectItemCaseSensitive(want, c->string))
            differ(d, at, NULL, c);
    }
}

void captures_compare(struct diff *d, const char *path, const cJSON *want, const cJSON *got)
{
    char at[400];
    if (cJSON_IsObject(want) && want->child && !want->child->next &&
        strcmp(want->child->string, "node.alpha.kubernetes.io/ttl") == 0)
        return; /* annotations of a controller that is not there */
    if (!got || (want->type & 0xff) != (got->type & 0xff)) {
        differ(d, path, want, got);
    } else if (cJSON_IsObject(want)) {
        compare_objects(d, path, want, got);
    } else if (cJSON_IsArray(want)) {
        if (cJSON_GetArraySize(want) != cJSON_GetArraySize(got)) {
            differ(d, path, want, got);
            return;
        }
        int i = 0;
        for (const cJSON *c = want->child, *g = got->child; c; c = c->next, g = g->next) {
            snprintf(at, sizeof at, "%s[%d]", path, i++);
            captures_compare(d, at, c, g);
        }
    } else if (cJSON_IsString(want)) {
        char *w = plain_message(want->valuestring), *g = plain_message(got->valuestring);
        bool same = strcmp(w, g) == 0 || (strncmp(w, "kube-api-access-", 16) == 0 &&
                                          strncmp(g, "kube-api-access-", 16) == 0);
        if (!same)
            differ(d, path, want, got);
        mem_free(w);
        mem_free(g);
    } else if (!cJSON_Compare(want, got, true)) {
        differ(d, path, want, got);
    }
}

/* ---- running ---- */

cJSON *captures_load(const char *dir, const char *name)
{
    struct buf b;
    struct err e;
    assert_ok(file_read(test_path("%s/kubernetes/%s.json", dir, name), 16 << 20, &b, &e), &e);
    cJSON *j = cJSON_ParseWithLength(b.p, b.n);
    assert_non_null(j);
    buf_fini(&b);
    return j;
}

static void map_text(struct run *r, const char *key, const cJSON *want, const cJSON *got)
{
    const cJSON *w = rest_at(want, key), *g = rest_at(got, key);
    if (!cJSON_IsString(w) || !cJSON_IsString(g) || r->n_map == MAP_MAX)
        return;
    const char *head = strstr(key, "resourceVersion") ? "\"resourceVersion\":" : "";
    r->from[r->n_map] = mem_strdup(test_path("%s\"%s\"", head, w->valuestring));
    r->to[r->n_map++] = mem_strdup(test_path("%s\"%s\"", head, g->valuestring));
}

static char *request_body(const struct run *r, const struct step *s, const cJSON *capture)
{
    const cJSON *body = rest_at(capture, "request.body");
    char *text = NULL;
    if (s->body)
        text = mem_strdup(s->body);
    else if (cJSON_IsString(body))
        text = mem_strdup(body->valuestring);
    else if (body && !cJSON_IsNull(body))
        text = captures_text(body);
    for (size_t i = r->n_map; text && i > 0; i--)
        replace_all(&text, r->from[i - 1], r->to[i - 1]);
    return text;
}

static const char *default_type(const char *method, const char *body)
{
    if (strcmp(method, "PATCH") != 0)
        return NULL;
    return body && *body == '[' ? "application/json-patch+json" : MERGE;
}

struct rest captures_play(struct run *r, const struct step *s, const cJSON *capture)
{
    const cJSON *method = rest_at(capture, "request.method"),
                *path = rest_at(capture, "request.path");
    char *body = request_body(r, s, capture);
    const char *m = s->method ? s->method : method->valuestring;
    struct rest_ask q = {.method = m,
                         .path = s->path ? s->path : path->valuestring,
                         .body = body,
                         .type = s->type ? s->type : default_type(m, body),
                         .token = s->token,
                         .accept = s->accept};
    struct rest got = rest_ask(r->a, &q);
    mem_free(body);
    return got;
}

static void check_capture(struct run *r, const struct step *s, const cJSON *capture,
                          const struct rest *got)
{
    struct diff d = {.out = buf_init(1 << 20)};
    const cJSON *want = rest_at(capture, "response"), *status = rest_at(capture, "status");
    const cJSON *headers = rest_at(capture, "headers"),
                *type = cJSON_GetObjectItemCaseSensitive(headers, "Content-Type");
    const cJSON *retry = cJSON_GetObjectItemCaseSensitive(headers, "Retry-After");
    if (got->status != status->valueint)
        buf_fmt(&d.out, "  status: recorded %d, ours %d %.600s\n", status->valueint, got->status,
                got->body.n ? got->body.p : "");
    else if (strcmp(type->valuestring, got->type) != 0)
        buf_fmt(&d.out, "  content type: recorded %s, ours %s\n", type->valuestring, got->type);
    else if (strcmp(cJSON_IsString(retry) ? retry->valuestring : "", got->retry_after) != 0)
        buf_fmt(&d.out, "  Retry-After: ours \"%s\"\n", got->retry_after);
    else if (cJSON_IsString(want) && strcmp(want->valuestring, got->body.p ? got->body.p : "") != 0)
        buf_fmt(&d.out, "  body: recorded %s, ours %s\n", want->valuestring, got->body.p);
    else if (!cJSON_IsString(want))
        captures_compare(&d, "", want, got->json);
    if (d.out.n)
        fail_msg("%s differs from the real server:\n%s", s->capture, d.out.p);
    buf_fini(&d.out);
    map_text(r, "metadata.uid", want, got->json);
    map_text(r, "metadata.resourceVersion", want, got->json);
}

void captures_step(struct run *r, const struct step *s)
{
    cJSON *capture = s->capture ? captures_load(r->dir, s->capture) : NULL;
    struct rest got = captures_play(r, s, capture);
    if (capture) {
        captures_seen(s->capture);
        check_capture(r, s, capture, &got);
    } else if (got.status != s->status) {
        fail_msg("%s %s: expected %d, got %d %.800s", s->method, s->path, s->status, got.status,
                 got.body.n ? got.body.p : "");
    }
    rest_fini(&got);
    cJSON_Delete(capture);
}

struct run captures_begin(const struct apiserver_opts *o)
{
    struct run r = {.dir = test_data_dir()};
    struct err e;
    assert_ok(apiserver_start(o, &r.a, &e), &e);
    return r;
}

void captures_end(struct run *r)
{
    apiserver_free(r->a);
    for (size_t i = 0; i < r->n_map; i++) {
        mem_free(r->from[i]);
        mem_free(r->to[i]);
    }
}

void captures_run(struct run *r, const struct step *s, size_t n)
{
    for (size_t i = 0; i < n; i++)
        captures_step(r, &s[i]);
}

void captures_nodes(struct run *r)
{
    cJSON *capture = captures_load(r->dir, "node_create");
    char *body = captures_text(rest_at(capture, "request.body"));
    for (int i = 1; i <= 3; i++) {
        char *mine = mem_strdup(body);
        replace_all(&mine, "gpu-1", test_path("gpu-%d", i));
        assert_int_equal(rest_status(r->a, "POST", "/api/v1/nodes", mine), 201);
        mem_free(mine);
    }
    mem_free(body);
    cJSON_Delete(capture);
}

/* ---- the cases ---- */

TEST(nodes_are_as_recorded)
{
    static const struct step steps[] = {
        REC("node_create"),
        REC("node_status_patch", .type = STRATEGIC),
        REC("node_create_duplicate"),
        REC("node_gpu_fraction", .type = STRATEGIC),
    };
    struct run r = captures_begin(&(struct apiserver_opts){0});
    captures_run(&r, steps, ARRAY_LEN(steps));
    assert_int_equal(rest_status(r.a, "DELETE", "/api/v1/nodes/gpu-1", NULL), 200);
    captures_nodes(&r);
    captures_step(&r, &(struct step){.capture = "node_cordon"});
    captures_end(&r);
}

TEST(a_pending_pod_changes_only_as_recorded)
{
    static const struct step steps[] = {
        REC("pod_create"),
        REC("patch_pending_nodeSelector"),
        REC("patch_pending_schedulerName"),
        REC("patch_pending_nodeName"),
        REC("patch_pending_nodeAffinity"),
        REC("patch_pending_priority"),
        REC("patch_pending_resources"),
        REC("patch_pending_gate_add"),
        REC("patch_pending_tolerations_replace"),
        REC("patch_pending_tolerations_append"),
        REC("pod_resize", .type = STRATEGIC),
        REC("pod_resize_gpu", .type = STRATEGIC),
        OWN("PATCH", POD("pend"),
            "{\"metadata\":{\"labels\":{\"l\":\"1\"},\"annotations\":{\"a\":\"1\"}}}", 200),
        OWN("PATCH", POD("pend"), "{\"spec\":{\"activeDeadlineSeconds\":100}}", 200),
        REC("pod_status_condition_patch", .type = STRATEGIC),
        REC("patch_stale_rv"),
        REC("patch_malformed"),
        REC("patch_wrong_content_type", .type = "application/json"),
        REC("jsonpatch_test_fails"),
        REC("method_not_allowed_405"),
        REC("patch_unknown_field_strict", .type = STRATEGIC),
    };
    struct run r = captures_begin(&(struct apiserver_opts){0});
    captures_run(&r, steps, ARRAY_LEN(steps));
    captures_end(&r);
}

TEST(a_gated_pod_changes_only_as_recorded)
{
    static const struct step steps[] = {
        REC("pod_create_gated"),
        REC("patch_gated_nodeSelector_add"),
        REC("patch_gated_nodeSelector_change"),
        REC("patch_gated_nodeSelector_delete"),
        REC("patch_gated_schedulerName"),
        REC("patch_gated_nodeAffinity_set"),
        REC("patch_gated_nodeAffinity_narrow"),
        REC("patch_gated_nodeAffinity_change"),
        REC("patch_gated_nodeAffinity_addterm"),
        OWN("PATCH", POD("gated"),
            "{\"spec\":{\"affinity\":{\"nodeAffinity\":{"
            "\"preferredDuringSchedulingIgnoredDuringExecution\":[{\"weight\":1,"
            "\"preference\":{\"matchExpressions\":[{\"key\":\"k\",\"operator\":\"In\",\"values\":["
            "\"v\",\"w\"]}]}}]}}}}",
            200),
        OWN("PATCH", POD("gated"),
            "{\"spec\":{\"affinity\":{\"nodeAffinity\":{"
            "\"preferredDuringSchedulingIgnoredDuringExecution\":[{\"weight\":9,"
            "\"preference\":{\"matchExpressions\":[{\"key\":\"k\",\"operator\":\"In\",\"values\":["
            "\"v\",\"w\"]}]}}]}}}}",
            200),
        REC("patch_gated_podAntiAffinity"),
        REC("patch_gated_gate_add"),
        REC("patch_gated_gate_remove_strategic", .type = STRATEGIC),
        REC("patch_gated_gate_remove"),
        MAKE_POD("gated2", ",\"schedulingGates\":[{\"name\":\"example.com/g\"}]"),
        REC("pod_create_gated_nodeName"),
    };
    struct run r = captures_begin(&(struct apiserver_opts){0});
    captures_run(&r, steps, ARRAY_LEN(steps));
    captures_end(&r);
}

TEST(gates_go_and_a_selector_comes_in_one_patch)
{
    static const struct step steps[] = {
        OWN("POST", PODS,
            "{\"metadata\":{\"name\":\"gated2\",\"labels\":{\"app\":\"gated2\"}},\"spec\":{"
            "\"schedulerName\":\"nobody\",\"containers\":[{\"name\":\"c\",\"image\":"
            "\"registry.k8s.io/"
            "pause:3.10\",\"resources\":{\"requests\":{\"cpu\":\"1\",\"memory\":\"1Gi\",\"nvidia."
            "com/gpu\":\"1\"},\"limits\":"
            "{\"nvidia.com/gpu\":\"1\"}}}],\"schedulingGates\":[{\"name\":\"example.com/g\"}]}}",
            201),
        REC("patch_ungate_and_select"),
    };
    struct run r = captures_begin(&(struct apiserver_opts){0});
    captures_run(&r, steps, ARRAY_LEN(steps));
    captures_end(&r);
}

TEST(binding_eviction_and_deletion_are_as_recorded)
{
    static const struct step steps[] = {
        MAKE_POD("b1", ""),
        MAKE_POD("b2", ""),
        MAKE_POD("b3", ""),
        MAKE_POD("b4", ""),
        MAKE_POD("b5", ""),
        MAKE_POD("b6", ""),
        MAKE_POD("b7", ""),
        MAKE_POD("gated", ",\"schedulingGates\":[{\"name\":\"g\"}]"),
        OWN("POST", PODS,
            "{\"metadata\":{\"name\":\"fin\",\"finalizers\":[\"example.com/f\"]},\"spec\":{" SPEC
            "}}",
            201),
        OWN("DELETE", POD("fin"), NULL, 200),
        REC("bind_ok"),
        REC("bind_double_same"),
        REC("bind_double_other"),
        REC("bind_gated"),
        REC("bind_terminating"),
        REC("bind_missing_node"),
        REC("bind_missing_pod"),
        REC("bind_name_mismatch"),
        REC("bind_no_metadata"),
        REC("bind_ns_mismatch"),
        REC("bind_empty_target"),
        REC("bind_wrong_kind"),
        REC("bind_uid_mismatch"),
        REC("bind_rv_mismatch"),
        REC("bind_minimal"),
        REC("bind_legacy"),
        OWN("POST", POD("b6/binding"),
            "{\"metadata\":{\"name\":\"b6\"},\"target\":{\"kind\":\"Node\",\"name\":\"gpu-3\"}}",
            201),
        REC("delete_uid_mismatch"),
        REC("pod_delete_bound"),
        REC("pod_delete_pending"),
        REC("pod_get_404"),
        REC("evict_ok"),
        OWN("PATCH", POD("b3/status"),
            "{\"status\":{\"phase\":\"Running\",\"conditions\":[{\"type\":\"Ready\",\"status\":"
            "\"True\"}]}}",
            200),
        OWN("POST", "/apis/policy/v1/namespaces/default/poddisruptionbudgets",
            "{\"metadata\":{\"name\":\"pdb\"},\"spec\":{\"minAvailable\":1,\"selector\":{"
            "\"matchLabels\":{\"app\":\"b3\"}}}}",
            201),
        REC("evict_pdb_429"),
    };
    struct run r = captures_begin(&(struct apiserver_opts){0});
    captures_nodes(&r);
    captures_run(&r, steps, ARRAY_LEN(steps));
    captures_end(&r);
}

TEST(pods_are_admitted_as_recorded)
{
    static const struct step steps[] = {
        REC("pod_gpu_fraction"), REC("pod_gpu_req_ne_limit"), REC("pod_gpu_req_only"),
        REC("pod_ns_missing"),   REC("pod_priority_by_hand"), REC("pod_priorityclass_missing"),
    };
    struct run r = captures_begin(&(struct apiserver_opts){0});
    captures_run(&r, steps, ARRAY_LEN(steps));
    captures_end(&r);
}

TEST(a_quota_refuses_what_goes_over_it)
{
    struct run r = captures_begin(&(struct apiserver_opts){0});
    /* 74 GPUs in use, one allowed. */
    for (int i = 0; i < 37; i++)
        assert_int_equal(
            rest_status(r.a, "POST", PODS,
                        test_path("{\"metadata\":{\"name\":\"q%d\"},\"spec\":{\"containers\":[{"
                                  "\"name\":\"c\",\"image\":\"i\","
                                  "\"resources\":{\"limits\":{\"nvidia.com/gpu\":\"2\"}}}]}}",
                                  i)),
            201);
    assert_int_equal(rest_status(r.a, "POST", "/api/v1/namespaces/default/resourcequotas",
                                 "{\"metadata\":{\"name\":\"q\"},\"spec\":{\"hard\":{\"requests."
                                 "nvidia.com/gpu\":\"1\"}}}"),
                     201);
    captures_step(&r, &(struct step){.capture = "pod_over_quota"});
    captures_end(&r);
}

TEST(bodies_and_annotations_have_their_limits)
{
    struct run r = captures_begin(&(struct apiserver_opts){0});
    captures_step(&r, &(struct step){.capture = "pod_create"});
    struct buf b = buf_init(8 << 20);
    buf_str(&b, "{\"metadata\":{\"annotations\":{\"x\":\"");
    buf_pad(&b, 'x', 300000);
    buf_str(&b, "\"}}}");
    struct rest got = rest(r.a, "PATCH", POD("pend"), b.p);
    /* A real server says it four times, once per metadata it validates. */
    assert_int_equal(got.status, 422);
    assert_string_equal(rest_text(&got, "message"),
                        "Pod \"pend\" is invalid: metadata.annotations: Too long: may not be more "
                        "than 262144 bytes");
    assert_string_equal(rest_text(&got, "details.causes.0.reason"), "FieldValueTooLong");
    captures_seen("annotation_too_long");
    rest_fini(&got);
    buf_pad(&b, ' ', 4 << 20);
    captures_step(&r, &(struct step){.capture = "body_too_large", .body = b.p});
    buf_fini(&b);
    captures_end(&r);
}

#define LEASES "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases"
TEST(leases_are_as_recorded)
{
    static const struct step steps[] = {
        REC("lease_create"),
        REC("lease_create_exists"),
        REC("lease_put"),
        {"lease_patch_conflict",
         .body =
             "{\"metadata\":{\"resourceVersion\":\"1\"},\"spec\":{\"holderIdentity\":\"me_2\"}}"},
        REC("lease_put_no_rv"),
        REC("lease_renewtime_seconds", .type = STRATEGIC),
    };
    struct run r = captures_begin(&(struct apiserver_opts){0});
    captures_run(&r, steps, ARRAY_LEN(steps));
    /* The version before the last PUT. */
    cJSON *capture = captures_load(r.dir, "lease_put_conflict");
    cJSON *body = cJSON_Duplicate(rest_at(capture, "request.body"), true);
    cJSON *m = cJSON_GetObjectItemCaseSensitive(body, "metadata");
    cJSON_ReplaceItemInObjectCaseSensitive(m, "resourceVersion", cJSON_CreateString("1"));
    char *text = captures_text(body);
    captures_step(&r, &(struct step){.capture = "lease_put_conflict", .body = text});
    mem_free(text);
    cJSON_Delete(body);
    cJSON_Delete(capture);
    assert_int_equal(
        rest_status(r.a, "PATCH", LEASES "/rl-sched", "{\"spec\":{\"leaseDurationSeconds\":0}}"),
        422);
    captures_end(&r);
}

TEST(deployments_and_their_scale_are_as_recorded)
{
    static const struct step steps[] = {
        REC("deployment_create"),
        REC("scale_get"),
        REC("scale_patch"),
        REC("scale_negative"),
        REC("scale_missing"),
        REC("scale_string"),
        {"scale_put_conflict", .body =
                                   "{\"kind\":\"Scale\",\"apiVersion\":\"autoscaling/"
                                   "v1\",\"metadata\":{\"name\":\"web\",\"namespace\":\"default\","
                                   "\"resourceVersion\":\"1\"},\"spec\":{\"replicas\":2}}"},
        OWN("PATCH", "/apis/apps/v1/namespaces/default/deployments/web/status",
            "{\"status\":{\"replicas\":3}}", 200),
        REC("scale_ssa", .type = APPLY),
    };
    struct run r = captures_begin(&(struct apiserver_opts){0});
    captures_run(&r, steps, ARRAY_LEN(steps));
    captures_end(&r);
}

TEST(pages_and_selectors_are_as_recorded)
{
    struct run r = captures_begin(&(struct apiserver_opts){0});
#define MAPS "/api/v1/namespaces/default/configmaps"
    for (int i = 1; i <= 25; i++)
        assert_int_equal(rest_status(r.a, "POST", MAPS,
                                     test_path("{\"metadata\":{\"name\":\"page-%02d\",\"labels\":{"
                                               "\"page\":\"1\"}},\"data\":{\"i\":\"%d\"}}",
                                               i, i)),
                         201);
    static const struct step fixed[] = {
        REC("page_bad_token"),
        REC("page_continue_rv"),
        REC("page_rv0"),
        REC("list_bad_fieldSelector"),
        REC("list_bad_labelSelector"),
        REC("list_rv_bad"),
        REC("list_rv_future"),
        REC("watch_sendinitial_invalid"),
        REC("list_exact_old", .path = MAPS "?resourceVersion=1&resourceVersionMatch=Exact"),
    };
    captures_run(&r, fixed, ARRAY_LEN(fixed));
    char path[600] = MAPS "?labelSelector=page&limit=10", first[400] = "";
    for (int i = 1; i <= 3; i++) {
        captures_step(&r, &(struct step){.capture = test_path("page_%d", i), .path = path});
        struct rest got = rest(r.a, "GET", path, NULL);
        snprintf(path, sizeof path, MAPS "?labelSelector=page&limit=10&continue=%s",
                 rest_text(&got, "metadata.continue"));
        if (i == 1)
            snprintf(first, sizeof first, "%s", rest_text(&got, "metadata.continue"));
        rest_fini(&got);
    }
    apiserver_must_load(r.a, "{\"apiVersion\":\"v1\",\"kind\":\"ConfigMap\",\"metadata\":{\"name\":"
                             "\"other\",\"namespace\":\"kube-system\"}}");
    apiserver_compact(r.a);
    snprintf(path, sizeof path, MAPS "?labelSelector=page&limit=10&continue=%s", first);
    captures_step(&r, &(struct step){.capture = "page_continue_expired_410", .path = path});
    struct rest got = rest(r.a, "GET", path, NULL);
    snprintf(path, sizeof path, MAPS "?labelSelector=page&limit=10&continue=%s",
             rest_text(&got, "metadata.continue"));
    rest_fini(&got);
    captures_step(&r, &(struct step){.capture = "page_continue_inconsistent", .path = path});
    captures_step(&r, &(struct step){.capture = "list_exact_410",
                                     .path = MAPS "?resourceVersion=1&resourceVersionMatch=Exact"});
    captures_end(&r);
}

TEST(rights_are_as_recorded)
{
    static const char sa[] = "sa", limited[] = "limited";
    static const struct step steps[] = {
        REC("anonymous_403", .token = ""),
        REC("bad_token_401", .token = "wrong"),
        REC("rbac_403_nodes", .token = limited),
        REC("rbac_403_watch", .token = limited),
        REC("rbac_403_bind", .token = limited),
        REC("rbac_403_scale", .token = limited),
        REC("rbac_403_patch_pod", .token = limited),
        REC("rbac_403_legacy_bindings", .token = sa),
        REC("absent_sa_apis_metrics.k8s.io_v1beta1_nodes", .token = limited),
        REC("absent_sa_apis_metrics.k8s.io_v1beta1_pods", .token = limited),
        REC("token_request_short"),
        OWN("POST", "/api/v1/namespaces/rl/serviceaccounts", "{\"metadata\":{\"name\":\"rl\"}}",
            201),
        REC("token_request"),
    };
    struct run r = captures_begin(&(struct apiserver_opts){0});
    apiserver_must_load(
        r.a, "{\"apiVersion\":\"v1\",\"kind\":\"Namespace\",\"metadata\":{\"name\":\"rl\"}}");
    apiserver_token(r.a, limited, "system:serviceaccount:rl:rl", NULL, 0);
    apiserver_token(r.a, sa, "system:serviceaccount:rl:rl",
                    &(struct apiserver_rule){"create", "", "pods/binding", NULL}, 1);
    captures_run(&r, steps, ARRAY_LEN(steps));
    apiserver_revoke(r.a, limited);
    captures_step(&r, &(struct step){.capture = "deleted_sa_token", .token = limited});
    captures_step(&r, &(struct step){.capture = "expired_token_401", .token = limited});
    captures_end(&r);
}

TEST(custom_resources_are_as_recorded)
{
    static const struct step steps[] = {
        REC("crd_create"),
        REC("cr_create_immediately"),
        REC("cr_invalid"),
        REC("cr_strategic_415", .type = STRATEGIC),
        OWN("PATCH", "/apis/rl.example.com/v1/namespaces/default/capacityplans/p/scale",
            "{\"spec\":{\"replicas\":3}}", 200),
        OWN("PATCH", "/apis/rl.example.com/v1/namespaces/default/capacityplans/p/status",
            "{\"status\":{\"phase\":\"Active\",\"replicas\":1}}", 200),
        REC("cr_get"),
    };
    struct run r = captures_begin(&(struct apiserver_opts){0});
    captures_run(&r, steps, ARRAY_LEN(steps));
    captures_end(&r);
}

TEST(events_are_as_recorded)
{
    static const struct step steps[] = {REC("event_create"), REC("event_v1_create"),
                                        REC("event_ns_mismatch")};
    struct run r = captures_begin(&(struct apiserver_opts){0});
    captures_run(&r, steps, ARRAY_LEN(steps));
    captures_end(&r);
}

TEST(throttling_is_as_recorded)
{
    struct run r = captures_begin(&(struct apiserver_opts){0});
    apiserver_fault(
        r.a, &(struct apiserver_fault){
                 .kind = APISERVER_STATUS, .status = 429, .retry_after_s = 1, .plain = true});
    captures_step(&r, &(struct step){.capture = "too_many_requests_429"});
    captures_end(&r);
}

/* ---- nothing is forgotten ---- */

static bool not_modelled(const char *name)
{
    static const char *const list[] = {
        "pod_list_table",        /* tables are for people */
        "pod_log_no_kubelet",    /* logs come from kubelets */
        "podgroup_v1alpha2",     /* a resource of its own */
        "pod_preemption_victim", /* the scheduler here does not preempt */
        "ssa_conflict",          /* who owns which field is not tracked */
        "README",
        "sched-extender-example",
    };
    char stem[128];
    snprintf(stem, sizeof stem, "%.*s", (int)strcspn(name, "."), name);
    for (size_t i = 0; i < ARRAY_LEN(list); i++) {
        if (strcmp(stem, list[i]) == 0)
            return true;
    }
    return strncmp(name, "extender-", 9) ==
           0; /* what a scheduler says to an extender, not an API server */
}

static bool was_seen(const char *name)
{
    char stem[300];
    snprintf(stem, sizeof stem, "%s", name);
    char *dot = strrchr(stem, '.');
    if (dot && strcmp(dot, ".json") == 0)
        *dot = '\0';
    for (size_t i = 0; i < n_seen; i++) {
        if (strcmp(seen[i], stem) == 0)
            return true;
    }
    return false;
}

/* Last in the file, so that it runs last. */
TEST(zz_every_recording_is_compared_or_listed_as_not_modelled)
{
    const char *dir = test_path("%s/kubernetes", test_data_dir());
    if (n_seen < 100)
        skip(); /* run on its own */
    DIR *d = opendir(dir);
    assert_non_null(d);
    int n = 0, left = 0;
    for (struct dirent *x; (x = readdir(d)) != NULL;) {
        if (x->d_name[0] == '.' || not_modelled(x->d_name))
            continue;
        n++;
        if (!was_seen(x->d_name)) {
            print_message("not compared: %s\n", x->d_name);
            left++;
        }
    }
    closedir(d);
    assert_int_equal(left, 0);
    assert_true(n > 140);
}
