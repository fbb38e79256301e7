/* write_test.c - what writes do: versions, generations, preconditions, the kinds of patch, custom
 * resources. */
#include "tests/unit/apiserver/rest.h"

#define MAPS "/api/v1/namespaces/default/configmaps"
#define DEPLOYS "/apis/apps/v1/namespaces/default/deployments"
#define WEB DEPLOYS "/web"

static struct apiserver *start(const struct apiserver_opts *o)
{
    struct apiserver *a = NULL;
    struct err e;
    assert_ok(apiserver_start(o, &a, &e), &e);
    return a;
}

static const char web[] =
    "{\"apiVersion\":\"apps/"
    "v1\",\"kind\":\"Deployment\",\"metadata\":{\"name\":\"web\"},\"spec\":{\"replicas\":2,"
    "\"selector\":{\"matchLabels\":"
    "{\"app\":\"web\"}},\"template\":{\"metadata\":{\"labels\":{\"app\":\"web\"}},\"spec\":{"
    "\"containers\":[{\"name\":\"c\",\"image\":\"i:1\"},"
    "{\"name\":\"d\",\"image\":\"j:1\",\"env\":[{\"name\":\"A\",\"value\":\"1\"}]}]}}}}";

static void assert_field(struct apiserver *a, const char *path, const char *field, const char *want)
{
    char *got = apiserver_field(a, path, field);
    if (!want ? got != NULL : !got || strcmp(got, want) != 0)
        fail_msg("%s of %s: expected %s, got %s", field, path, want ? want : "nothing",
                 got ? got : "nothing");
    mem_free(got);
}

TEST(an_update_that_changes_nothing_leaves_the_version_alone)
{
    struct apiserver *a = start(&(struct apiserver_opts){0});
    assert_int_equal(rest_status(a, "POST", DEPLOYS, web), 201);
    uint64_t before = apiserver_version(a);
    assert_int_equal(rest_status(a, "PATCH", WEB, "{\"spec\":{\"replicas\":2}}"), 200);
    char *text = apiserver_get(a, WEB);
    assert_int_equal(rest_status(a, "PUT", WEB, text), 200);
    mem_free(text);
    assert_int_equal(rest_status(a, "PATCH", WEB "/scale", "{\"spec\":{\"replicas\":2}}"), 200);
    assert_true(apiserver_version(a) == before);
    assert_int_equal(rest_status(a, "PATCH", WEB, "{\"spec\":{\"replicas\":3}}"), 200);
    assert_true(apiserver_version(a) == before + 1);
    apiserver_free(a);
}

TEST(the_generation_counts_changes_of_the_spec_only)
{
    struct apiserver *a = start(&(struct apiserver_opts){0});
    assert_int_equal(rest_status(a, "POST", DEPLOYS, web), 201);
    assert_near(apiserver_number(a, WEB, "metadata.generation", 0), 1, 0, 0);
    rest_status(a, "PATCH", WEB, "{\"metadata\":{\"labels\":{\"x\":\"y\"}}}");
    rest_status(a, "PATCH", WEB "/status", "{\"status\":{\"replicas\":2}}");
    assert_near(apiserver_number(a, WEB, "metadata.generation", 0), 1, 0, 0);
    rest_status(a, "PATCH", WEB "/scale", "{\"spec\":{\"replicas\":7}}");
    assert_near(apiserver_number(a, WEB, "metadata.generation", 0), 2, 0, 0);
    rest_status(a, "PATCH", WEB, "{\"metadata\":{\"generation\":99}}");
    assert_near(apiserver_number(a, WEB, "metadata.generation", 0), 2, 0, 0);
    apiserver_free(a);
}

TEST(status_and_the_rest_are_written_apart)
{
    struct apiserver *a = start(&(struct apiserver_opts){0});
    assert_int_equal(rest_status(a, "POST", DEPLOYS, web), 201);
    assert_int_equal(
        rest_status(a, "PATCH", WEB, "{\"spec\":{\"replicas\":5},\"status\":{\"replicas\":5}}"),
        200);
    assert_field(a, WEB, "status.replicas", NULL);
    assert_int_equal(rest_status(a, "PATCH", WEB "/status",
                                 "{\"spec\":{\"replicas\":9},\"status\":{\"replicas\":4}}"),
                     200);
    assert_field(a, WEB, "status.replicas", "4");
    assert_field(a, WEB, "spec.replicas", "5");
    apiserver_free(a);
}

TEST(stale_versions_and_other_uids_are_conflicts)
{
    struct apiserver *a = start(&(struct apiserver_opts){0});
    assert_int_equal(
        rest_status(a, "POST", MAPS, "{\"metadata\":{\"name\":\"m\"},\"data\":{\"a\":\"1\"}}"),
        201);
    char *old = apiserver_get(a, MAPS "/m");
    assert_int_equal(rest_status(a, "PATCH", MAPS "/m", "{\"data\":{\"a\":\"2\"}}"), 200);
    assert_int_equal(rest_status(a, "PUT", MAPS "/m", old), 409);
    mem_free(old);
    assert_int_equal(
        rest_status(a, "PUT", MAPS "/m", "{\"metadata\":{\"name\":\"m\"},\"data\":{\"a\":\"3\"}}"),
        200); /* unconditional */
    assert_int_equal(
        rest_status(a, "PUT", MAPS "/m", "{\"metadata\":{\"name\":\"m\",\"uid\":\"other\"}}"), 409);
    assert_int_equal(rest_status(a, "PUT", MAPS "/m", "{\"metadata\":{\"name\":\"n\"}}"), 400);
    assert_int_equal(rest_status(a, "PUT", MAPS "/n", "{\"metadata\":{\"name\":\"n\"}}"), 404);
    assert_int_equal(
        rest_status(a, "POST", MAPS, "{\"metadata\":{\"name\":\"o\",\"resourceVersion\":\"7\"}}"),
        500);
    assert_int_equal(
        rest_status(a, "DELETE", MAPS "/m", "{\"preconditions\":{\"resourceVersion\":\"1\"}}"),
        409);
    assert_int_equal(rest_status(a, "DELETE", MAPS "/m", NULL), 200);
    assert_int_equal(rest_status(a, "DELETE", MAPS "/m", NULL), 404);
    apiserver_free(a);
}

TEST(a_dry_run_says_what_would_be_and_does_nothing)
{
    struct apiserver *a = start(&(struct apiserver_opts){0});
    uint64_t before = apiserver_version(a);
    struct rest r = rest(a, "POST", DEPLOYS "?dryRun=All", web);
    assert_int_equal(r.status, 201);
    assert_string_equal(rest_text(&r, "spec.strategy.type"), "RollingUpdate");
    rest_fini(&r);
    assert_int_equal(rest_status(a, "GET", WEB, NULL), 404);
    assert_true(apiserver_version(a) == before);
    rest_status(a, "POST", DEPLOYS, web);
    r = rest(a, "PATCH", WEB "/scale?dryRun=All", "{\"spec\":{\"replicas\":8}}");
    assert_near(rest_number(&r, "spec.replicas"), 8, 0, 0);
    rest_fini(&r);
    assert_int_equal(rest_status(a, "DELETE", WEB "?dryRun=All", NULL), 200);
    assert_field(a, WEB, "spec.replicas", "2");
    /* A dry run is no write in the record; the real creation is. */
    assert_int_equal(apiserver_counted(a, "write", NULL, true), 1);
    apiserver_free(a);
}

TEST(zero_replicas_are_left_out_of_a_scale_as_go_does)
{
    struct apiserver *a = start(&(struct apiserver_opts){0});
    rest_status(a, "POST", DEPLOYS, web);
    struct rest r = rest(a, "PATCH", WEB "/scale", "{\"spec\":{\"replicas\":0}}");
    assert_int_equal(r.status, 200);
    assert_non_null(rest_at(r.json, "spec"));
    assert_null(rest_at(r.json, "spec.replicas"));
    assert_near(rest_number(&r, "status.replicas"), 0, 0, 0);
    rest_fini(&r);
    assert_field(a, WEB, "spec.replicas", "0");
    apiserver_free(a);
}

/* ---- patches ---- */

struct patch_row {
    const char *type, *patch;
    int status;
    const char *data; /* afterwards; the object starts as below */
};

static void run_patches(const struct patch_row *row, size_t n)
{
    static const char object[] =
        "{\"apiVersion\":\"v1\",\"kind\":\"ConfigMap\",\"metadata\":{\"name\":\"m\",\"finalizers\":"
        "[\"a/b\"]},\"data\":{\"k\":\"v\",\"a/b\":\"s\",\"t~\":\"u\"}}";
    struct apiserver *a = start(&(struct apiserver_opts){0});
    for (size_t i = 0; i < n; i++) {
        apiserver_must_load(a, object);
        struct rest r = rest_ask(a, &(struct rest_ask){.method = "PATCH",
                                                       .path = MAPS "/m",
                                                       .type = row[i].type,
                                                       .body = row[i].patch});
        if (r.status != row[i].status)
            fail_msg("%s: status %d, expected %d: %s", row[i].patch, r.status, row[i].status,
                     r.body.p);
        char *data = apiserver_field(a, MAPS "/m", "data");
        if (strcmp(data, row[i].data) != 0)
            fail_msg("%s: %s, expected %s", row[i].patch, data, row[i].data);
        mem_free(data);
        rest_fini(&r);
    }
    apiserver_free(a);
}

#define UNCHANGED "{\"k\":\"v\",\"a/b\":\"s\",\"t~\":\"u\"}"
TEST(json_patches_follow_rfc_6902)
{
#define J "application/json-patch+json"
    static const struct patch_row row[] = {
        {J, "[{\"op\":\"add\",\"path\":\"/data/x\",\"value\":\"1\"}]", 200,
         "{\"k\":\"v\",\"a/b\":\"s\",\"t~\":\"u\",\"x\":\"1\"}"},
        {J, "[{\"op\":\"replace\",\"path\":\"/data/k\",\"value\":\"w\"}]", 200,
         "{\"k\":\"w\",\"a/b\":\"s\",\"t~\":\"u\"}"},
        {J, "[{\"op\":\"replace\",\"path\":\"/data/none\",\"value\":\"w\"}]", 422, UNCHANGED},
        {J, "[{\"op\":\"remove\",\"path\":\"/data/a~1b\"}]", 200, "{\"k\":\"v\",\"t~\":\"u\"}"},
        {J, "[{\"op\":\"remove\",\"path\":\"/data/t~0\"}]", 200, "{\"k\":\"v\",\"a/b\":\"s\"}"},
        {J, "[{\"op\":\"remove\",\"path\":\"/data/none\"}]", 422, UNCHANGED},
        {J,
         "[{\"op\":\"test\",\"path\":\"/data/k\",\"value\":\"v\"},{\"op\":\"remove\",\"path\":\"/"
         "data/k\"}]",
         200, "{\"a/b\":\"s\",\"t~\":\"u\"}"},
        {J,
         "[{\"op\":\"remove\",\"path\":\"/data/k\"},{\"op\":\"test\",\"path\":\"/data/"
         "a~1b\",\"value\":\"z\"}]",
         422, UNCHANGED},
        {J, "[{\"op\":\"move\",\"from\":\"/data/k\",\"path\":\"/data/l\"}]", 200,
         "{\"a/b\":\"s\",\"t~\":\"u\",\"l\":\"v\"}"},
        {J, "[{\"op\":\"copy\",\"from\":\"/data/k\",\"path\":\"/data/l\"}]", 200,
         "{\"k\":\"v\",\"a/b\":\"s\",\"t~\":\"u\",\"l\":\"v\"}"},
        {J, "[{\"op\":\"copy\",\"from\":\"/data/none\",\"path\":\"/data/l\"}]", 422, UNCHANGED},
        {J, "[{\"op\":\"fly\",\"path\":\"/data/k\"}]", 422, UNCHANGED},
        {J, "[{\"op\":\"test\",\"path\":\"/metadata/finalizers/0\",\"value\":\"a/b\"}]", 200,
         UNCHANGED},
        {J, "[{\"op\":\"test\",\"path\":\"/metadata/finalizers/9\",\"value\":\"a/b\"}]", 422,
         UNCHANGED},
        {J,
         "[{\"op\":\"add\",\"path\":\"/metadata/finalizers/-\",\"value\":\"c/"
         "d\"},{\"op\":\"test\",\"path\":\"/metadata/finalizers/1\",\"value\":\"c/d\"}]",
         200, UNCHANGED},
        {J,
         "[{\"op\":\"add\",\"path\":\"/metadata/finalizers/0\",\"value\":\"c/"
         "d\"},{\"op\":\"test\",\"path\":\"/metadata/finalizers/1\",\"value\":\"a/b\"}]",
         200, UNCHANGED},
        {J,
         "[{\"op\":\"replace\",\"path\":\"/metadata/finalizers/0\",\"value\":\"c/"
         "d\"},{\"op\":\"test\",\"path\":\"/metadata/finalizers/0\",\"value\":\"c/d\"}]",
         200, UNCHANGED},
        {J, "{\"data\":{}}", 400, UNCHANGED},
        {J, "[", 400, UNCHANGED},
    };
    run_patches(row, ARRAY_LEN(row));
}

TEST(merge_patches_follow_rfc_7386)
{
    static const struct patch_row row[] = {
        {NULL, "{\"data\":{\"k\":null,\"x\":\"1\"}}", 415,
         UNCHANGED}, /* application/json is no patch */
        {"application/merge-patch+json", "{\"data\":{\"k\":null,\"x\":\"1\"}}", 200,
         "{\"a/b\":\"s\",\"t~\":\"u\",\"x\":\"1\"}"},
        {"application/merge-patch+json", "{\"data\":null}", 200, "null"},
        {"application/merge-patch+json", "[]", 400, UNCHANGED},
        {"application/merge-patch+json", "{\"data\":{\"k\":\"\xff\"}}", 400, UNCHANGED},
        {"application/merge-patch+json", "{\"metadata\":{\"labels\":{\"n\":5}}}", 422, UNCHANGED},
        {"application/merge-patch+json", "{\"metadata\":{\"name\":\"other\",\"uid\":null}}", 200,
         UNCHANGED},
        {"application/xml", "<a/>", 415, UNCHANGED},
    };
    struct patch_row copy[ARRAY_LEN(row)];
    memcpy(copy, row, sizeof row);
    copy[0].type = "application/json";
    copy[2].data = "null";
    /* Absent data has no field at all. */
    run_patches(copy, 2);
    run_patches(copy + 3, ARRAY_LEN(row) - 3);
}

TEST(strategic_patches_merge_lists_by_their_keys)
{
    static const struct {
        const char *patch, *field, *want;
    } row[] = {
        {"{\"spec\":{\"template\":{\"spec\":{\"containers\":[{\"name\":\"d\",\"image\":\"j:2\"}]}}}"
         "}",
         "spec.template.spec.containers.1.image", "j:2"},
        {"{\"spec\":{\"template\":{\"spec\":{\"containers\":[{\"name\":\"d\",\"image\":\"j:2\"}]}}}"
         "}",
         "spec.template.spec.containers.0.image", "i:1"},
        {"{\"spec\":{\"template\":{\"spec\":{\"containers\":[{\"name\":\"d\",\"env\":[{\"name\":"
         "\"B\",\"value\":\"2\"}]}]}}}}",
         "spec.template.spec.containers.1.env",
         "[{\"name\":\"A\",\"value\":\"1\"},{\"name\":\"B\",\"value\":\"2\"}]"},
        {"{\"spec\":{\"template\":{\"spec\":{\"containers\":[{\"name\":\"d\",\"$patch\":\"delete\"}"
         "]}}}}",
         "spec.template.spec.containers.1", NULL},
        {"{\"spec\":{\"template\":{\"spec\":{\"containers\":[{\"$patch\":\"replace\"},{\"name\":"
         "\"e\",\"image\":\"k\"}]}}}}",
         "spec.template.spec.containers.0.name", "e"},
        {"{\"spec\":{\"template\":{\"spec\":{\"tolerations\":[{\"key\":\"x\"}]}}}}",
         "spec.template.spec.tolerations", "[{\"key\":\"x\"}]"},
        {"{\"metadata\":{\"annotations\":{\"a\":\"1\",\"$patch\":\"replace\"}}}",
         "metadata.annotations", "{\"a\":\"1\"}"},
        {"{\"spec\":{\"strategy\":{\"$retainKeys\":[\"type\"],\"type\":\"Recreate\"}}}",
         "spec.strategy", "{\"type\":\"Recreate\"}"},
        {"{\"metadata\":{\"finalizers\":[\"a/b\"]}}", "metadata.finalizers", "[\"a/b\"]"},
        {"{\"metadata\":{\"$deleteFromPrimitiveList/finalizers\":[\"x/y\"]}}",
         "metadata.finalizers", "[]"},
    };
    for (size_t i = 0; i < ARRAY_LEN(row); i++) {
        struct apiserver *a = start(&(struct apiserver_opts){0});
        rest_status(a, "POST", DEPLOYS, web);
        rest_status(a, "PATCH", WEB, "{\"metadata\":{\"finalizers\":[\"x/y\"]}}");
        if (i == 8)
            rest_status(a, "PATCH", WEB, "{\"metadata\":{\"finalizers\":null}}");
        struct rest r =
            rest_ask(a, &(struct rest_ask){.method = "PATCH",
                                           .path = WEB,
                                           .type = "application/strategic-merge-patch+json",
                                           .body = row[i].patch});
        if (r.status != 200)
            fail_msg("%s: %s", row[i].patch, r.body.p);
        rest_fini(&r);
        assert_field(a, WEB, row[i].field, row[i].want);
        apiserver_free(a);
    }
}

TEST(apply_creates_and_merges_and_needs_a_manager)
{
    struct apiserver *a = start(&(struct apiserver_opts){0});
    static const char yaml[] =
        "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: m\ndata:\n  a: \"1\"\n";
    struct rest_ask q = {.method = "PATCH",
                         .path = MAPS "/m?fieldManager=test",
                         .type = "application/apply-patch+yaml",
                         .body = yaml};
    struct rest r = rest_ask(a, &q);
    assert_int_equal(r.status, 201);
    rest_fini(&r);
    q.body = "{\"apiVersion\":\"v1\",\"kind\":\"ConfigMap\",\"metadata\":{\"name\":\"m\"},\"data\":"
             "{\"b\":\"2\"}}";
    r = rest_ask(a, &q);
    assert_int_equal(r.status, 200);
    rest_fini(&r);
    assert_field(a, MAPS "/m", "data", "{\"a\":\"1\",\"b\":\"2\"}");
    q.path = MAPS "/m";
    r = rest_ask(a, &q);
    assert_int_equal(r.status, 422);
    rest_fini(&r);
    apiserver_free(a);
}

/* ---- bodies and paths ---- */

TEST(malformed_and_misplaced_requests_are_refused)
{
    static const struct {
        const char *method, *path, *body;
        int status;
    } row[] = {
        {"POST", MAPS, "{", 400},
        {"POST", MAPS, "[]", 400},
        {"POST", MAPS, "", 400},
        {"POST", MAPS, "{\"kind\":\"Pod\",\"metadata\":{\"name\":\"x\"}}", 400},
        {"POST", MAPS, "{\"apiVersion\":\"v2\",\"metadata\":{\"name\":\"x\"}}", 400},
        {"POST", MAPS, "{\"metadata\":{\"name\":\"x\",\"namespace\":\"other\"}}", 400},
        {"POST", MAPS, "{\"metadata\":{}}", 422},
        {"POST", MAPS, "{\"metadata\":{\"name\":\"Not A Name\"}}", 422},
        {"POST", MAPS, "{\"metadata\":{\"name\":\"x\",\"labels\":{\"a\":1}}}", 400},
        {"POST", "/api/v1/configmaps", "{\"metadata\":{\"name\":\"x\"}}", 405},
        {"PUT", MAPS, "{}", 405},
        {"PATCH", MAPS, "{}", 405},
        {"FLY", MAPS, NULL, 405},
        {"GET", "/api/v1/namespaces/default/nonesuch", NULL, 404},
        {"GET", "/api/v1/namespaces/default/configmaps/x/status", NULL, 404},
        {"GET", "/apis/apps/v1beta1/deployments", NULL, 404},
        {"GET", "/nowhere", NULL, 404},
        {"GET", MAPS "?limit=x", NULL, 400},
        {"GET", MAPS "?labelSelector=a==b,c", NULL, 200},
        {"GET", MAPS "?labelSelector=a+in+(b", NULL, 400},
        {"GET", MAPS "?labelSelector=,", NULL, 400},
        {"GET", MAPS "?fieldSelector=metadata.name", NULL, 400},
        {"GET", "/api/v1/namespaces/nowhere/configmaps", NULL, 200},
        {"DELETE", "/api/v1/configmaps", NULL, 405},
        {"DELETE", "/api/v1/namespaces", NULL, 405},
        {"POST", DEPLOYS,
         "{\"metadata\":{\"name\":\"x\"},\"spec\":{\"selector\":{\"matchLabels\":{\"a\":\"b\"}},"
         "\"template\":{\"metadata\":{\"labels\":{\"a\":\"c\"}},"
         "\"spec\":{\"containers\":[{\"name\":\"c\",\"image\":\"i\"}]}}}}",
         422},
        {"POST", DEPLOYS, "{\"metadata\":{\"name\":\"x\"},\"spec\":{\"replicas\":\"many\"}}", 400},
        {"POST", DEPLOYS, "{\"metadata\":{\"name\":\"x\"},\"spec\":{\"replicas\":99999999999}}",
         400},
    };
    struct apiserver *a = start(&(struct apiserver_opts){0});
    for (size_t i = 0; i < ARRAY_LEN(row); i++) {
        int status = rest_status(a, row[i].method, row[i].path, row[i].body);
        if (status != row[i].status)
            fail_msg("%s %s %s: %d, expected %d", row[i].method, row[i].path,
                     row[i].body ? row[i].body : "", status, row[i].status);
    }
    assert_int_equal(apiserver_count(a, "/api/v1/configmaps"), 0);
    apiserver_free(a);
}

TEST(finalizers_hold_an_object_until_the_last_is_gone)
{
    struct apiserver *a = start(&(struct apiserver_opts){0});
    apiserver_must_load(a, "{\"apiVersion\":\"v1\",\"kind\":\"ConfigMap\",\"metadata\":{\"name\":"
                           "\"m\",\"finalizers\":[\"a/b\",\"c/d\"]}}");
    struct rest_watch w = rest_watch(a, test_path("/api/v1/configmaps?watch=1&resourceVersion=%llu",
                                                  (unsigned long long)apiserver_version(a)));
    assert_int_equal(rest_status(a, "DELETE", MAPS "/m", NULL), 200);
    assert_string_equal(rest_watch_tell(&w), "MODIFIED m");
    char *at = apiserver_field(a, MAPS "/m", "metadata.deletionTimestamp");
    assert_non_null(at);
    mem_free(at);
    assert_int_equal(
        rest_status(a, "PATCH", MAPS "/m", "{\"metadata\":{\"finalizers\":[\"a/b\"]}}"), 200);
    assert_string_equal(rest_watch_tell(&w), "MODIFIED m");
    assert_int_equal(rest_status(a, "PATCH", MAPS "/m", "{\"metadata\":{\"finalizers\":[]}}"), 200);
    assert_string_equal(rest_watch_tell(&w), "DELETED m");
    assert_int_equal(rest_status(a, "GET", MAPS "/m", NULL), 404);
    rest_watch_fini(&w);
    apiserver_free(a);
}

TEST(a_namespace_takes_its_objects_with_it)
{
    struct apiserver *a = start(&(struct apiserver_opts){0});
    assert_int_equal(
        rest_status(a, "POST", "/api/v1/namespaces", "{\"metadata\":{\"name\":\"gone\"}}"), 201);
    assert_int_equal(rest_status(a, "POST", "/api/v1/namespaces/gone/configmaps",
                                 "{\"metadata\":{\"name\":\"m\"}}"),
                     201);
    assert_int_equal(rest_status(a, "POST", MAPS, "{\"metadata\":{\"name\":\"m\"}}"), 201);
    assert_int_equal(rest_status(a, "DELETE", "/api/v1/namespaces/gone", NULL), 200);
    assert_int_equal(apiserver_count(a, "/api/v1/configmaps"), 1);
    apiserver_free(a);
}

TEST(collections_are_deleted_by_selector)
{
    struct apiserver *a = start(&(struct apiserver_opts){0});
    for (int i = 0; i < 10; i++)
        rest_status(
            a, "POST", MAPS,
            test_path("{\"metadata\":{\"name\":\"m%d\",\"labels\":{\"odd\":\"%d\"}}}", i, i % 2));
    struct rest r = rest(a, "DELETE", MAPS "?labelSelector=odd%3D1", NULL);
    assert_int_equal(r.status, 200);
    assert_int_equal(cJSON_GetArraySize(rest_at(r.json, "items")), 5);
    rest_fini(&r);
    assert_int_equal(apiserver_count(a, MAPS), 5);
    assert_int_equal(apiserver_count(a, MAPS "?labelSelector=odd=1"), 0);
    apiserver_free(a);
}

/* ---- custom resources ---- */

static const char crd[] =
    "apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\nmetadata:\n  name: "
    "things.example.com\nspec:\n  group: example.com\n"
    "  scope: Namespaced\n  names: {plural: things, singular: thing, kind: Thing, shortNames: "
    "[th]}\n  versions:\n  - name: v1\n    served: true\n"
    "    storage: true\n    subresources:\n      status: {}\n      scale: {specReplicasPath: "
    ".spec.size, statusReplicasPath: .status.size, labelSelectorPath: .status.selector}\n"
    "    schema:\n      openAPIV3Schema:\n        type: object\n        properties:\n          "
    "spec:\n            type: object\n            required: [size]\n"
    "            properties:\n              size: {type: integer, minimum: 0, maximum: 10}\n       "
    "       mode: {type: string, enum: [a, b], default: a}\n"
    "              list: {type: array, maxItems: 2, items: {type: string, pattern: '^[a-z]+$'}}\n  "
    "            free: {type: object, x-kubernetes-preserve-unknown-fields: true}\n"
    "              map: {type: object, additionalProperties: {type: integer}}\n              port: "
    "{x-kubernetes-int-or-string: true}\n"
    "          status:\n            type: object\n            properties:\n              size: "
    "{type: integer}\n              selector: {type: string}\n";
#define THINGS "/apis/example.com/v1/namespaces/default/things"

TEST(custom_resources_are_validated_defaulted_and_pruned)
{
    static const struct {
        const char *spec;
        int status;
        const char *says; /* in the message; or the stored spec */
    } row[] = {
        {"{\"size\":1}", 201, "{\"size\":1,\"mode\":\"a\"}"},
        {"{\"size\":1,\"nope\":2,\"free\":{\"x\":{\"y\":1}},\"map\":{\"k\":1}}", 201,
         "{\"size\":1,\"free\":{\"x\":{\"y\":1}},\"map\":{\"k\":1},\"mode\":\"a\"}"},
        {"{\"size\":1,\"port\":\"http\"}", 201, "{\"size\":1,\"port\":\"http\",\"mode\":\"a\"}"},
        {"{\"size\":1,\"port\":80}", 201, "{\"size\":1,\"port\":80,\"mode\":\"a\"}"},
        {"{}", 422, "spec.size: Required value"},
        {"{\"size\":11}", 422, "should be less than or equal to 10"},
        {"{\"size\":1.5}", 422, "spec.size in body must be of type integer: \"number\""},
        {"{\"size\":\"1\"}", 422, "must be of type integer: \"string\""},
        {"{\"size\":1,\"mode\":\"c\"}", 422,
         "Unsupported value: \"c\": supported values: \"a\", \"b\""},
        {"{\"size\":1,\"list\":[\"a\",\"b\",\"c\"]}", 422, "must have at most 2 items"},
        {"{\"size\":1,\"list\":[\"A\"]}", 422, "spec.list[0] in body should match"},
        {"{\"size\":1,\"map\":{\"k\":\"v\"}}", 422, "spec.map.k in body must be of type integer"},
        {"{\"size\":1,\"port\":1.5}", 422, "spec.port"},
    };
    struct apiserver *a = start(&(struct apiserver_opts){0});
    apiserver_must_load(a, crd);
    for (size_t i = 0; i < ARRAY_LEN(row); i++) {
        struct rest r =
            rest(a, "POST", THINGS,
                 test_path("{\"apiVersion\":\"example.com/"
                           "v1\",\"kind\":\"Thing\",\"metadata\":{\"name\":\"t%zu\"},\"spec\":%s}",
                           i, row[i].spec));
        if (r.status != row[i].status)
            fail_msg("%s: %d %s", row[i].spec, r.status, r.body.p);
        if (r.status == 201)
            assert_field(a, test_path(THINGS "/t%zu", i), "spec", row[i].says);
        else if (!strstr(rest_text(&r, "message"), row[i].says))
            fail_msg("%s: %s", row[i].spec, rest_text(&r, "message"));
        rest_fini(&r);
    }
    /* Strict: an unknown field is an error instead. */
    assert_int_equal(rest_status(a, "POST", THINGS "?fieldValidation=Strict",
                                 "{\"apiVersion\":\"example.com/"
                                 "v1\",\"kind\":\"Thing\",\"metadata\":{\"name\":\"s\"},\"spec\":{"
                                 "\"size\":1,\"nope\":2}}"),
                     400);
    assert_int_equal(
        rest_status(a, "POST", THINGS, "{\"metadata\":{\"name\":\"s\"},\"spec\":{\"size\":1}}"),
        400); /* no kind */
    apiserver_free(a);
}

TEST(custom_resources_scale_where_their_definition_says)
{
    struct apiserver *a = start(&(struct apiserver_opts){0});
    apiserver_must_load(a, crd);
    apiserver_must_load(a, "{\"apiVersion\":\"example.com/"
                           "v1\",\"kind\":\"Thing\",\"metadata\":{\"name\":\"t\"},\"spec\":{"
                           "\"size\":3},\"status\":{\"size\":2,\"selector\":\"a=b\"}}");
    struct rest r = rest(a, "GET", THINGS "/t/scale", NULL);
    assert_near(rest_number(&r, "spec.replicas"), 3, 0, 0);
    assert_near(rest_number(&r, "status.replicas"), 2, 0, 0);
    assert_string_equal(rest_text(&r, "status.selector"), "a=b");
    rest_fini(&r);
    assert_int_equal(rest_status(a, "PATCH", THINGS "/t/scale", "{\"spec\":{\"replicas\":5}}"),
                     200);
    assert_field(a, THINGS "/t", "spec.size", "5");
    assert_int_equal(rest_status(a, "PATCH", THINGS "/t/scale", "{\"spec\":{\"replicas\":50}}"),
                     422);
    /* Items of a list of custom resources carry kind and apiVersion. */
    r = rest(a, "GET", THINGS, NULL);
    assert_string_equal(rest_text(&r, "items.0.kind"), "Thing");
    assert_string_equal(rest_text(&r, "items.0.apiVersion"), "example.com/v1");
    rest_fini(&r);
    apiserver_free(a);
}

static bool served(struct apiserver *a, void *ctx)
{
    (void)ctx;
    return rest_status(a, "GET", THINGS, NULL) == 200;
}

TEST(a_definition_is_served_late_and_taken_back_at_once)
{
    struct apiserver *a = start(&(struct apiserver_opts){.crd_delay_us = 200 * US_PER_MS});
    apiserver_must_load(a, "apiVersion: v1\nkind: Namespace\nmetadata: {name: x}\n");
    struct apiserver *tmp = start(&(struct apiserver_opts){0});
    apiserver_must_load(tmp, crd);
    char *def = apiserver_get(
        tmp, "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/things.example.com");
    cJSON *j = cJSON_Parse(def);
    cJSON_DeleteItemFromObject(cJSON_GetObjectItem(j, "metadata"), "resourceVersion");
    char *body = cJSON_PrintUnformatted(j);
    int64_t from = clock_mono_us();
    struct rest_watch w = rest_watch(
        a, "/apis/apiextensions.k8s.io/v1/customresourcedefinitions?watch=1&resourceVersion=5");
    assert_int_equal(
        rest_status(a, "POST", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", body),
        201);
    assert_int_equal(rest_status(a, "GET", THINGS, NULL), 404);
    assert_string_equal(rest_watch_tell(&w), "ADDED things.example.com");
    assert_string_equal(
        rest_watch_tell(&w),
        "MODIFIED things.example.com"); /* established, and nobody asked meanwhile */
    assert_true(clock_mono_us() - from >= 200 * US_PER_MS);
    assert_true(apiserver_wait(a, served, NULL, 5 * US_PER_S));
    struct rest_watch things = rest_watch(a, THINGS "?watch=1");
    assert_int_equal(
        rest_status(a, "POST", THINGS,
                    "{\"apiVersion\":\"example.com/"
                    "v1\",\"kind\":\"Thing\",\"metadata\":{\"name\":\"t\"},\"spec\":{\"size\":1}}"),
        201);
    assert_string_equal(rest_watch_tell(&things), "ADDED t");
    assert_int_equal(
        rest_status(a, "DELETE",
                    "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/things.example.com",
                    NULL),
        200);
    assert_int_equal(rest_status(a, "GET", THINGS, NULL), 404);
    assert_string_equal(rest_watch_tell(&things), "END");
    rest_watch_fini(&things);
    rest_watch_fini(&w);
    cJSON_free(body);
    cJSON_Delete(j);
    mem_free(def);
    apiserver_free(tmp);
    apiserver_free(a);
}

/* ---- the record ---- */

TEST(requests_are_recorded_with_who_did_what)
{
    struct apiserver *a = start(&(struct apiserver_opts){0});
    rest_status(a, "POST", DEPLOYS, web);
    rest_status(a, "GET", WEB, NULL);
    rest_status(a, "PATCH", WEB "/scale", "{\"spec\":{\"replicas\":4}}");
    rest_status(a, "PATCH", DEPLOYS "/none/scale", "{\"spec\":{\"replicas\":4}}");
    rest_status(a, "POST", "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews",
                "{\"spec\":{}}");
    rest_status(a, "GET", "/version", NULL);
    struct apiserver_record r[10];
    assert_int_equal(apiserver_requests(a), 6);
    assert_int_equal(apiserver_log(a, 0, r, ARRAY_LEN(r)), 6);
    assert_string_equal(r[2].verb, "patch");
    assert_string_equal(r[2].resource, "deployments");
    assert_string_equal(r[2].subresource, "scale");
    assert_string_equal(r[2].name, "web");
    assert_string_equal(r[2].user, "kubernetes-admin");
    assert_string_equal(r[2].body, "{\"spec\":{\"replicas\":4}}");
    assert_int_equal(r[3].status, 404);
    assert_true(r[0].write && !r[1].write && r[2].write && r[3].write && !r[4].write &&
                !r[5].write);
    for (int i = 0; i < 6; i++)
        apiserver_record_fini(&r[i]);
    assert_int_equal(apiserver_counted(a, "write", NULL, false), 3);
    assert_int_equal(apiserver_counted(a, "write", NULL, true), 2);
    assert_int_equal(apiserver_counted(a, "patch", "deployments/scale", true), 1);
    assert_int_equal(apiserver_counted(a, NULL, "deployments", false), 2);
    apiserver_forget(a);
    assert_int_equal(apiserver_requests(a), 0);
    apiserver_free(a);
}

TEST(the_same_seed_gives_the_same_names)
{
    char *got[2][2];
    for (int i = 0; i < 2; i++) {
        struct apiserver *a = start(&(struct apiserver_opts){
            .seed = 42, .time_origin_us = 1000000 * US_PER_S, .time_scale = 1e-6});
        rest_status(a, "POST", MAPS, "{\"metadata\":{\"generateName\":\"m-\"}}");
        got[i][0] = apiserver_get(a, MAPS);
        apiserver_fill(a, 3, 10, 5);
        got[i][1] = apiserver_get(a, "/api/v1/pods");
        apiserver_free(a);
    }
    for (int k = 0; k < 2; k++) {
        assert_string_equal(got[0][k], got[1][k]);
        mem_free(got[0][k]);
        mem_free(got[1][k]);
    }
}
