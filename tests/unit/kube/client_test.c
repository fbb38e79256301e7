/* client_test.c - paths, status, verbs and retries, many calls at once, read-only. */
#include <errno.h>

#include "tests/support/kube_capture.h"
#include "tests/unit/kube/client_world.h"

/* ---- paths ------------------------------------------------------------------------------- */

TEST(paths_follow_group_namespace_and_scope)
{
    static const struct {
        const struct kube_resource *r;
        const char *ns, *name, *sub, *want;
    } rows[] = {
        {&KUBE_PODS, NULL, NULL, NULL, "/api/v1/pods"},
        {&KUBE_PODS, "", NULL, NULL, "/api/v1/pods"},
        {&KUBE_PODS, "a b", "x/y", NULL, "/api/v1/namespaces/a%20b/pods/x%2Fy"},
        {&KUBE_NODES, "ignored", "n", NULL, "/api/v1/nodes/n"},
        {&KUBE_DEPLOYMENTS, "d", "web", "scale",
         "/apis/apps/v1/namespaces/d/deployments/web/scale"},
        {&KUBE_LEASES, "k", NULL, NULL, "/apis/coordination.k8s.io/v1/namespaces/k/leases"},
    };
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct buf b = buf_init(1000);
        kube_path(&b, rows[i].r, rows[i].ns, rows[i].name, rows[i].sub);
        assert_string_equal(b.p, rows[i].want);
        buf_fini(&b);
    }
    struct buf b = buf_init(1000);
    buf_str(&b, "/x");
    kube_query(&b, "a", "1 & 2");
    kube_query(&b, "b", "");
    assert_string_equal(b.p, "/x?a=1%20%26%202&b=");
    buf_fini(&b);
}

TEST(api_versions_are_split_or_refused)
{
    static const struct {
        const char *text, *group, *version;
    } rows[] = {
        {"v1", "", "v1"},
        {"apps/v1", "apps", "v1"},
        {"a/b/c", NULL, NULL},
        {"", NULL, NULL},
        {"/v1", NULL, NULL},
        {"a/", NULL, NULL},
        {"0123456789012345678901234567890123456789012345678901234567890123/v1", NULL, NULL}};
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        char group[64], version[32];
        assert_int_equal(kube_split_api_version(rows[i].text, group, version),
                         rows[i].group != NULL);
        if (rows[i].group) {
            assert_string_equal(group, rows[i].group);
            assert_string_equal(version, rows[i].version);
        }
    }
}

/* ---- status ------------------------------------------------------------------------------ */

TEST(every_captured_refusal_is_understood)
{
    static const struct {
        const char *file;
        int http;
        const char *reason, *message;
        bool (*is)(const struct kube_status *s);
    } rows[] = {
        {"pod_get_404", 404, "NotFound", "not found", kube_is_not_found},
        {"unknown_path_404", 404, "NotFound", "404 page not found", kube_is_not_found},
        {"absent_apis_metrics.k8s.io", 404, "NotFound", "404 page not found", kube_is_not_found},
        {"anonymous_403", 403, "Forbidden", "system:anonymous", kube_is_forbidden},
        {"rbac_403_scale", 403, "Forbidden", "cannot", kube_is_forbidden},
        {"bad_token_401", 401, "Unauthorized", "Unauthorized", kube_is_unauthorized},
        {"expired_token_401", 401, "Unauthorized", "Unauthorized", kube_is_unauthorized},
        {"lease_put_conflict", 409, "Conflict", "modified", kube_is_conflict},
        {"scale_put_conflict", 409, "Conflict", "modified", kube_is_conflict},
        {"bind_double_other", 409, "Conflict", "already assigned", kube_is_conflict},
        {"ssa_conflict", 409, "Conflict", "conflict", kube_is_conflict},
        {"lease_create_exists", 409, "AlreadyExists", "already exists", kube_is_exists},
        {"node_create_duplicate", 409, "AlreadyExists", "already exists", kube_is_exists},
        {"list_exact_410", 410, "Expired", "old", kube_is_gone},
        {"page_continue_expired_410", 410, "Expired", "continue", kube_is_gone},
        {"lease_put_no_rv", 422, "Invalid", "must be specified", kube_is_invalid},
        {"scale_negative", 422, "Invalid", "", kube_is_invalid},
        {"cr_strategic_415", 415, "UnsupportedMediaType", "", kube_is_invalid},
        {"body_too_large", 413, "RequestEntityTooLarge", "", kube_is_invalid},
        {"list_rv_bad", 400, "BadRequest", "", kube_is_invalid},
        {"too_many_requests_429", 429, "TooManyRequests", "Too many requests", kube_is_throttled},
        {"evict_pdb_429", 429, "TooManyRequests", "", kube_is_throttled},
        {"list_rv_future", 504, "Timeout", "Too large resource version", kube_is_transient},
        {"method_not_allowed_405", 405, "MethodNotAllowed", "", NULL},
    };
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct kube_capture *c = kube_capture_load(rows[i].file);
        char *text = kube_capture_text(c), type[64];
        struct kube_status s;
        snprintf(type, sizeof type, "%.*s",
                 (int)strcspn(kube_capture_header(c, "Content-Type"), ";"),
                 kube_capture_header(c, "Content-Type"));
        kube_status_decode(kube_capture_status(c), type, text, strlen(text), &s);
        if (s.http != rows[i].http || strcmp(s.reason, rows[i].reason) != 0 ||
            !strstr(s.message, rows[i].message) || (rows[i].is && !rows[i].is(&s)) ||
            kube_is_ok(&s))
            fail_msg("%s: %d %s: %s", rows[i].file, s.http, s.reason, s.message);
        mem_free(text);
        kube_capture_free(c);
    }
}

TEST(status_details_are_read_and_nonsense_is_cut_and_made_plain)
{
    static const char full[] =
        "{\"kind\":\"Status\",\"reason\":\"Timeout\",\"message\":\"a\\nb\\u001b[31m\",\"details\":"
        "{\"causes\":[{\"reason\":\"ResourceVersionTooLarge\"}],\"retryAfterSeconds\":3},\"code\":"
        "504}";
    struct kube_status s;
    char flood[5000];
    kube_status_decode(504, "application/json", full, strlen(full), &s);
    assert_string_equal(s.cause, "ResourceVersionTooLarge");
    assert_int_equal(s.retry_after_us, 3 * US_PER_S);
    assert_null(strchr(s.message, '\n'));
    assert_null(strchr(s.message, 27));
    memset(flood, 'x', sizeof flood);
    kube_status_decode(502, "text/html", flood, sizeof flood, &s);
    assert_int_equal(strlen(s.message), sizeof s.message - 1);
    assert_string_equal(s.reason, "ServerError");
    kube_status_decode(500, "application/json", "{\"reason\":", 10, &s);
    assert_string_equal(s.reason, "InternalError");
    kube_status_decode(500, "application/json",
                       "{\"reason\":7,\"code\":\"x\",\"details\":[],\"message\":{}}", 50, &s);
    assert_string_equal(s.reason, "InternalError");
    assert_int_equal(s.http, 500);
    kube_status_decode(418, "text/plain", "", 0, &s);
    assert_string_equal(s.reason, "Refused");
    kube_status_decode(200, "application/json", full, strlen(full), &s);
    assert_true(kube_is_ok(&s));
    assert_string_equal(s.reason, "");
}

/* ---- verbs and retries ------------------------------------------------------------------- */

TEST(each_verb_has_its_method_and_content_type)
{
    static const struct {
        enum kube_verb verb;
        const char *method, *type;
    } rows[] = {{KUBE_GET, "GET", NULL},
                {KUBE_LIST, "GET", NULL},
                {KUBE_CREATE, "POST", "application/json"},
                {KUBE_UPDATE, "PUT", "application/json"},
                {KUBE_PATCH_MERGE, "PATCH", "application/merge-patch+json"},
                {KUBE_PATCH_JSON, "PATCH", "application/json-patch+json"},
                {KUBE_PATCH_APPLY, "PATCH", "application/apply-patch+yaml"},
                {KUBE_DELETE, "DELETE", NULL}};
    RIG(r, {.status = 200, .body = "{\"a\":1}"});
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct kube_reply reply;
        struct json_doc *doc;
        struct err e;
        struct kube_call call = {.verb = rows[i].verb,
                                 .path = "/api/v1/x?y=z",
                                 .body = rows[i].type ? "{\"b\":2}" : NULL};
        assert_ok(kube_do(r.kube, &call, &reply, &e), &e);
        assert_string_equal(r.script.method, rows[i].method);
        assert_string_equal(r.script.path, "/api/v1/x?y=z");
        assert_string_equal(r.script.body, rows[i].type ? "{\"b\":2}" : "");
        if (rows[i].type)
            assert_non_null(
                strstr(r.script.headers, test_path("Content-Type: %s\r\n", rows[i].type)));
        assert_ok(kube_reply_json(&reply, &doc, &e), &e);
        json_free(doc);
        assert_int_equal(reply.attempts, 1);
        kube_reply_fini(&reply);
    }
    rig_stop(&r);
}

TEST(what_may_be_repeated_is_and_nothing_else)
{
    static const struct step s500[] = {
        {.status = 500}, {.status = 503, .type = "text/plain", .body = "no"}, {.status = 200}};
    static const struct step s429[] = {{.status = 429, .type = "text/plain", .body = "slow"},
                                       {.status = 200}};
    static const struct step s409[] = {
        {.status = 409, .body = "{\"reason\":\"Conflict\",\"message\":\"m\"}"}, {.status = 200}};
    static const struct step cut[] = {{.status = 0}, {.status = 200}};
    static const struct step s404[] = {
        {.status = 404, .body = "{\"reason\":\"NotFound\",\"message\":\"no x\"}"}, {.status = 200}};
    static const struct step forever[] = {{.status = 500}};
    static const struct {
        const struct step *steps;
        int n;
        enum kube_verb verb;
        bool once;
        enum err_code rc;
        int attempts;
        const char *text;
    } rows[] = {
        {s500, 3, KUBE_GET, false, ERR_OK, 3, NULL},
        {s500, 3, KUBE_UPDATE, false, ERR_OK, 3, NULL},
        {s500, 3, KUBE_PATCH_MERGE, false, ERR_OK, 3, NULL},
        {s500, 3, KUBE_PATCH_APPLY, false, ERR_OK, 3, NULL},
        {s500, 3, KUBE_DELETE, false, ERR_OK, 3, NULL},
        {s500, 3, KUBE_CREATE, false, ERR_IO, 1, "POST /x: 500 InternalError"},
        {s500, 3, KUBE_PATCH_JSON, false, ERR_IO, 1, "PATCH /x: 500 InternalError"},
        {s500, 3, KUBE_GET, true, ERR_IO, 1, "GET /x: 500"},
        {s429, 2, KUBE_CREATE, false, ERR_OK, 2, NULL},
        {s429, 2, KUBE_PATCH_JSON, false, ERR_OK, 2, NULL},
        {s429, 2, KUBE_CREATE, true, ERR_IO, 1, "429 TooManyRequests: slow"},
        {s409, 2, KUBE_UPDATE, false, ERR_MISMATCH, 1, "PUT /x: 409 Conflict: m"},
        {cut, 2, KUBE_GET, false, ERR_OK, 2, NULL},
        {cut, 2, KUBE_CREATE, false, ERR_IO, 1, "POST http://127.0.0.1"},
        {s404, 2, KUBE_GET, false, ERR_MISSING, 1, "GET /x: 404 NotFound: no x"},
        {forever, 1, KUBE_GET, false, ERR_IO, 4, "GET /x: 500"},
    };
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct kube_opts o = fast();
        struct kube_reply reply;
        struct err e;
        struct rig r;
        rig_start(&r, rows[i].steps, rows[i].n, &o);
        struct kube_call call = {.verb = rows[i].verb, .path = "/x?secret=1", .once = rows[i].once};
        assert_err(kube_do(r.kube, &call, &reply, &e), rows[i].rc, rows[i].rc ? &e : NULL,
                   rows[i].text);
        assert_int_equal(reply.attempts, rows[i].attempts);
        assert_int_equal(raw_server_requests(r.raw), rows[i].attempts);
        assert_int_equal(kube_stats(r.kube)->retries, rows[i].attempts - 1);
        assert_int_equal(kube_running(r.kube), 0);
        if (rows[i].rc)
            assert_null(strstr(e.msg, "secret"));
        kube_reply_fini(&reply);
        rig_stop(&r);
    }
}

TEST(retry_after_is_waited_for_unless_it_is_past_the_deadline)
{
    RIG(r, {.status = 429, .extra = "Retry-After: 1\r\n", .body = "x", .type = "text/plain"},
        {.status = 200});
    struct kube_reply reply;
    struct err e;
    struct kube_call call = {.verb = KUBE_GET, .path = "/x", .deadline_us = 950 * US_PER_MS};
    int64_t start_us = clock_mono_us();
    assert_err(kube_do(r.kube, &call, &reply, &e), ERR_IO, &e, "429");
    assert_int_equal(reply.status.retry_after_us, US_PER_S);
    assert_true(clock_mono_us() - start_us < 950 * US_PER_MS);
    kube_reply_fini(&reply);
    r.script.n_seen = 0;
    call.deadline_us = 20 * US_PER_S;
    assert_ok(kube_do(r.kube, &call, &reply, &e), &e);
    assert_int_equal(reply.attempts, 2);
    assert_true(reply.elapsed_us >= US_PER_S);
    kube_reply_fini(&reply);
    rig_stop(&r);
}

TEST(deadline_covers_all_attempts)
{
    RIG(r, {.status = 500}, {.status = -1});
    struct kube_reply reply;
    struct err e;
    struct kube_call call = {.verb = KUBE_GET, .path = "/x", .deadline_us = 700 * US_PER_MS};
    assert_err(kube_do(r.kube, &call, &reply, &e), ERR_IO, &e, "no complete answer");
    assert_int_equal(e.sys, ETIMEDOUT);
    assert_int_equal(reply.attempts, 2);
    assert_int_equal(reply.status.http, 0);
    kube_reply_fini(&reply);
    rig_stop(&r);
}

TEST(body_over_its_cap_is_refused_once)
{
    RIG(r, {.status = 200, .body = "{\"a\":\"0123456789\"}"});
    struct kube_reply reply;
    struct err e;
    struct kube_call call = {.verb = KUBE_GET, .path = "/x", .body_cap = 8};
    assert_err(kube_do(r.kube, &call, &reply, &e), ERR_LIMIT, &e, "larger than 8 bytes");
    assert_int_equal(reply.attempts, 1);
    kube_reply_fini(&reply);
    rig_stop(&r);
}

struct seen {
    int n;
    enum err_code rc;
    int attempts;
};

static void on_done(void *ctx, enum err_code rc, struct kube_reply *reply, const struct err *e)
{
    struct seen *s = ctx;
    (void)e;
    s->n++;
    s->rc = rc;
    s->attempts = reply->attempts;
}

static void run_until(struct rig *r, const int *n, int want)
{
    int64_t give_up_us = clock_mono_us() + 20 * US_PER_S;
    while (*n < want && clock_mono_us() < give_up_us)
        kube_poll(r->kube, 20 * US_PER_MS);
    assert_int_equal(*n, want);
}

TEST(many_calls_run_side_by_side)
{
    RIG(r, {.status = 500}, {.status = 429, .body = ""}, {.status = 0}, {.status = 200});
    struct seen s = {0};
    struct err e;
    struct kube_call call = {.verb = KUBE_GET, .path = "/x", .done = on_done, .ctx = &s};
    for (int i = 0; i < 50; i++)
        assert_ok(kube_start(r.kube, &call, NULL, &e), &e);
    assert_int_equal(kube_running(r.kube), 50);
    run_until(&r, &s.n, 50);
    assert_int_equal(s.rc, ERR_OK);
    assert_int_equal(raw_server_requests(r.raw), 53);
    rig_stop(&r);
}

TEST(call_is_cancelled_in_flight_and_between_attempts)
{
    struct kube_opts o = fast();
    static const struct step silent[] = {{.status = -1}}, failing[] = {{.status = 500}};
    const struct step *scripts[] = {silent, failing};
    o.backoff_us = o.backoff_max_us = 100 * US_PER_S;
    o.deadline_us = 1000 * US_PER_S;
    for (int i = 0; i < 2; i++) {
        struct rig r;
        struct seen s = {0};
        struct err e;
        kube_id id;
        rig_start(&r, scripts[i], 1, &o);
        struct kube_call call = {.verb = KUBE_GET, .path = "/x", .done = on_done, .ctx = &s};
        assert_ok(kube_start(r.kube, &call, &id, &e), &e);
        int64_t give_up_us = clock_mono_us() + 20 * US_PER_S;
        while (clock_mono_us() < give_up_us &&
               (i ? kube_stats(r.kube)->retries == 0 : raw_server_requests(r.raw) == 0))
            kube_poll(r.kube, 5 * US_PER_MS);
        kube_cancel(r.kube, id + 7);
        assert_int_equal(s.n, 0);
        kube_cancel(r.kube, id);
        assert_int_equal(s.n, 1);
        assert_int_equal(s.rc, ERR_INTERRUPTED);
        kube_cancel(r.kube, id);
        assert_int_equal(s.n, 1);
        assert_int_equal(kube_running(r.kube), 0);
        assert_ok(kube_start(r.kube, &call, &id, &e), &e);
        rig_stop(&r); /* ends it too */
        assert_int_equal(s.n, 2);
    }
}

TEST(counters_tell_verbs_and_classes_apart)
{
    RIG(r, {.status = 500}, {.status = 200, .extra = "Date: Sun, 29 Nov 2026 12:00:00 GMT\r\n"},
        {.status = 409}, {.status = 0});
    struct kube_reply reply;
    struct kube_call call = {.verb = KUBE_GET, .path = "/x"};
    assert_int_equal(kube_do(r.kube, &call, &reply, NULL), ERR_OK);
    kube_reply_fini(&reply);
    call.verb = KUBE_UPDATE;
    assert_int_equal(kube_do(r.kube, &call, &reply, NULL), ERR_MISMATCH);
    kube_reply_fini(&reply);
    call.verb = KUBE_CREATE;
    assert_int_equal(kube_do(r.kube, &call, &reply, NULL), ERR_IO);
    kube_reply_fini(&reply);
    const struct kube_stats *s = kube_stats(r.kube);
    assert_int_equal(s->count[KUBE_GET][KUBE_CLASS_SERVER].n, 1);
    assert_int_equal(s->count[KUBE_GET][KUBE_CLASS_OK].n, 1);
    assert_int_equal(s->count[KUBE_UPDATE][KUBE_CLASS_CONFLICT].n, 1);
    assert_int_equal(s->count[KUBE_CREATE][KUBE_CLASS_TRANSPORT].n, 1);
    assert_true(s->count[KUBE_GET][KUBE_CLASS_OK].sum_us > 0);
    uint64_t in_buckets = 0;
    for (int i = 0; i < KUBE_N_BUCKETS; i++)
        in_buckets += s->bucket[KUBE_GET][i];
    assert_int_equal(in_buckets, 2);
    assert_near((double)s->skew_us, (double)(1795953600 * US_PER_S - clock_wall_us()), 5e6, 0);
    rig_stop(&r);
}

/* ---- read-only --------------------------------------------------------------------------- */

TEST(read_only_client_lets_nothing_out_but_reads_and_self_reviews)
{
    static const struct {
        enum kube_verb verb;
        const char *path;
        bool passes;
    } rows[] = {
        {KUBE_GET, "/api/v1/pods", true},
        {KUBE_LIST, "/api/v1/pods?limit=1", true},
        {KUBE_CREATE, "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", true},
        {KUBE_CREATE, "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews?x=y", true},
        {KUBE_CREATE, "/apis/authorization.k8s.io/v1/selfsubjectrulesreviews", true},
        {KUBE_CREATE, "/apis/authentication.k8s.io/v1/selfsubjectreviews", true},
        {KUBE_CREATE, "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews/x", false},
        {KUBE_CREATE, "/apis/authorization.k8s.io/v1/selfsubjectaccessreview", false},
        {KUBE_CREATE, "/apis/authorization.k8s.io/v1/subjectaccessreviews", false},
        {KUBE_CREATE, "/api/v1/namespaces/d/events", false},
        {KUBE_CREATE, "/api/v1/namespaces/d/pods?dryRun=All", false},
        {KUBE_UPDATE, "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", false},
        {KUBE_UPDATE, "/apis/coordination.k8s.io/v1/namespaces/s/leases/l", false},
        {KUBE_PATCH_MERGE, "/apis/apps/v1/namespaces/d/deployments/w/scale", false},
        {KUBE_PATCH_JSON, "/api/v1/nodes/n", false},
        {KUBE_PATCH_APPLY, "/api/v1/nodes/n", false},
        {KUBE_DELETE, "/api/v1/nodes/n", false},
    };
    static const struct step ok[] = {{.status = 200}};
    struct kube_opts o = fast();
    struct rig r;
    int n_passed = 0, n_refused = 0;
    o.read_only = true;
    rig_start(&r, ok, 1, &o);
    assert_true(kube_read_only(r.kube));
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct kube_reply reply;
        struct err e;
        struct kube_call call = {.verb = rows[i].verb, .path = rows[i].path};
        enum err_code rc = kube_do(r.kube, &call, &reply, &e);
        n_passed += rows[i].passes;
        n_refused += !rows[i].passes;
        if (rows[i].passes)
            assert_ok(rc, &e);
        else
            assert_err(rc, ERR_INVAL, &e, "refused, this client only reads");
        assert_int_equal(raw_server_requests(r.raw), n_passed);
        assert_int_equal(kube_stats(r.kube)->refused, n_refused);
        kube_reply_fini(&reply);
    }
    struct kube_reply reply;
    struct err e;
    struct kube_call call = {.verb = KUBE_DELETE, .path = "/api/v1/pods/x?gracePeriodSeconds=0"};
    assert_err(kube_do(r.kube, &call, &reply, &e), ERR_INVAL, &e, "DELETE /api/v1/pods/x: refused");
    kube_reply_fini(&reply);
    rig_stop(&r);
}
