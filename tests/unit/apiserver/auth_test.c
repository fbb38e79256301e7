/* auth_test.c - tokens, certificates, rules and RBAC objects of the stand-in; kubeconfig; kubectl.
 */
#include <sys/wait.h>

#include "base/file.h"
#include "tests/unit/apiserver/rest.h"

#define MAPS "/api/v1/namespaces/default/configmaps"

static struct apiserver *start(const struct apiserver_opts *o)
{
    struct apiserver *a = NULL;
    struct err e;
    assert_ok(apiserver_start(o, &a, &e), &e);
    return a;
}

static int ask(struct apiserver *a, const char *token, const char *method, const char *path,
               const char *body)
{
    bool patch = strcmp(method, "PATCH") == 0;
    struct rest r =
        rest_ask(a, &(struct rest_ask){.method = method,
                                       .path = path,
                                       .body = body,
                                       .token = token,
                                       .type = patch ? "application/merge-patch+json" : NULL});
    int status = r.status;
    rest_fini(&r);
    return status;
}

TEST(rules_allow_what_they_say)
{
    static const struct apiserver_rule rules[] = {
        {"get,list,watch", "", "pods,nodes", NULL},
        {"get,patch", "apps", "deployments,deployments/scale", "prod,default"},
        {"*", "coordination.k8s.io", "leases", "default"},
    };
    static const struct {
        const char *method, *path, *body;
        bool ok;
    } row[] = {
        {"GET", "/api/v1/pods", NULL, true},
        {"GET", "/api/v1/namespaces/x/pods", NULL, true},
        {"GET", "/api/v1/pods?watch=1&timeoutSeconds=1&resourceVersion=1", NULL, true},
        {"GET", MAPS, NULL, false},
        {"POST", "/api/v1/namespaces/default/pods", "{}", false},
        {"GET", "/api/v1/namespaces/default/pods/x", NULL, true},
        {"GET", "/api/v1/namespaces/default/pods/x/status", NULL, false},
        {"GET", "/apis/apps/v1/namespaces/default/deployments/x", NULL, true},
        {"PATCH", "/apis/apps/v1/namespaces/default/deployments/x/scale", "{}", true},
        {"PATCH", "/apis/apps/v1/namespaces/other/deployments/x/scale", "{}", false},
        {"PATCH", "/apis/apps/v1/namespaces/default/deployments/x/status", "{}", false},
        {"GET", "/apis/apps/v1/deployments", NULL, false},
        {"POST", "/apis/coordination.k8s.io/v1/namespaces/default/leases",
         "{\"metadata\":{\"name\":\"l\"}}", true},
        {"DELETE", "/apis/coordination.k8s.io/v1/namespaces/default/leases/l", NULL, true},
        {"GET", "/apis/no.such.group/v1/things", NULL, false},
        {"GET", "/version", NULL, true},
        {"GET", "/apis", NULL, true},
        {"POST", "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", "{\"spec\":{}}", true},
    };
    struct apiserver *a = start(&(struct apiserver_opts){0});
    apiserver_token(a, "t", "system:serviceaccount:default:limited", rules, ARRAY_LEN(rules));
    for (size_t i = 0; i < ARRAY_LEN(row); i++) {
        int status = ask(a, "t", row[i].method, row[i].path, row[i].body);
        if ((status != 403) != row[i].ok)
            fail_msg("%s %s: %d", row[i].method, row[i].path, status);
    }
    apiserver_free(a);
}

TEST(the_reader_may_read_and_nothing_else)
{
    struct apiserver *a = start(&(struct apiserver_opts){0});
    assert_int_equal(ask(a, APISERVER_READER_TOKEN, "GET", MAPS, NULL), 200);
    assert_int_equal(
        ask(a, APISERVER_READER_TOKEN, "POST", MAPS, "{\"metadata\":{\"name\":\"m\"}}"), 403);
    assert_int_equal(ask(a, APISERVER_READER_TOKEN, "DELETE", MAPS, NULL), 403);
    assert_int_equal(ask(a, "", "GET", "/version", NULL), 200);
    assert_int_equal(ask(a, "", "GET", "/apis", NULL), 403);
    assert_int_equal(ask(a, "", "GET", "/healthz", NULL), 200);
    apiserver_free(a);
    a = start(&(struct apiserver_opts){.refuse_anonymous = true});
    assert_int_equal(ask(a, "", "GET", MAPS, NULL), 401);
    apiserver_free(a);
}

static const char rbac[] =
    "apiVersion: rbac.authorization.k8s.io/v1\nkind: ClusterRole\nmetadata: {name: see}\nrules:\n"
    "- {apiGroups: [\"\"], resources: [pods, nodes], verbs: [get, list, watch]}\n"
    "- {apiGroups: [apps], resources: [\"*/scale\"], verbs: [patch], resourceNames: [web]}\n---\n"
    "apiVersion: rbac.authorization.k8s.io/v1\nkind: ClusterRoleBinding\nmetadata: {name: see}\n"
    "roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: see}\n"
    "subjects:\n- {kind: ServiceAccount, name: sluice, namespace: sluice}\n---\n"
    "apiVersion: rbac.authorization.k8s.io/v1\nkind: Role\nmetadata: {name: lead, namespace: "
    "sluice}\nrules:\n"
    "- {apiGroups: [coordination.k8s.io], resources: [leases], verbs: [get, create, update]}\n---\n"
    "apiVersion: rbac.authorization.k8s.io/v1\nkind: RoleBinding\nmetadata: {name: lead, "
    "namespace: sluice}\n"
    "roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: lead}\n"
    "subjects:\n- {kind: ServiceAccount, name: sluice, namespace: sluice}\n";

TEST(rbac_objects_in_the_server_decide_for_tokens_without_rules)
{
    static const struct {
        const char *method, *path, *body;
        bool ok;
    } row[] = {
        {"GET", "/api/v1/pods", NULL, true},
        {"GET", MAPS, NULL, false},
        {"PATCH", "/apis/apps/v1/namespaces/default/deployments/web/scale", "{}", true},
        {"PATCH", "/apis/apps/v1/namespaces/default/statefulsets/web/scale", "{}", true},
        {"PATCH", "/apis/apps/v1/namespaces/default/deployments/other/scale", "{}", false},
        {"PATCH", "/apis/apps/v1/namespaces/default/deployments/web", "{}", false},
        {"POST", "/apis/coordination.k8s.io/v1/namespaces/sluice/leases",
         "{\"metadata\":{\"name\":\"l\"}}", true},
        {"POST", "/apis/coordination.k8s.io/v1/namespaces/default/leases",
         "{\"metadata\":{\"name\":\"l\"}}", false},
        {"DELETE", "/apis/coordination.k8s.io/v1/namespaces/sluice/leases/l", NULL, false},
    };
    struct apiserver *a = start(&(struct apiserver_opts){0});
    apiserver_token(a, "t", "system:serviceaccount:sluice:sluice", NULL, 0);
    assert_int_equal(ask(a, "t", "GET", "/api/v1/pods", NULL), 403);
    apiserver_must_load(a, rbac);
    for (size_t i = 0; i < ARRAY_LEN(row); i++) {
        int status = ask(a, "t", row[i].method, row[i].path, row[i].body);
        if ((status != 403) != row[i].ok)
            fail_msg("%s %s: %d", row[i].method, row[i].path, status);
    }
    struct rest r = rest_ask(
        a, &(struct rest_ask){.method = "POST",
                              .path = "/apis/authorization.k8s.io/v1/selfsubjectrulesreviews",
                              .token = "t",
                              .body = "{\"spec\":{\"namespace\":\"sluice\"}}"});
    assert_int_equal(r.status, 201);
    assert_int_equal(cJSON_GetArraySize(rest_at(r.json, "status.resourceRules")), 4);
    rest_fini(&r);
    static const struct {
        const char *at;
        bool ok;
    } review[] = {{"{\"verb\":\"list\",\"resource\":\"pods\"}", true},
                  {"{\"verb\":\"delete\",\"resource\":\"pods\"}", false},
                  {"{\"verb\":\"patch\",\"group\":\"apps\",\"resource\":\"deployments\","
                   "\"subresource\":\"scale\",\"name\":\"web\"}",
                   true}};
    for (size_t i = 0; i < ARRAY_LEN(review); i++) {
        r = rest_ask(
            a, &(struct rest_ask){
                   .method = "POST",
                   .path = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews",
                   .token = "t",
                   .body = test_path("{\"spec\":{\"resourceAttributes\":%s}}", review[i].at)});
        assert_int_equal(cJSON_IsTrue(rest_at(r.json, "status.allowed")), review[i].ok);
        rest_fini(&r);
    }
    apiserver_free(a);
}

TEST(a_requested_token_works_and_a_revoked_one_does_not)
{
    struct apiserver *a = start(&(struct apiserver_opts){0});
    apiserver_must_load(
        a, "apiVersion: v1\nkind: ServiceAccount\nmetadata: {name: sluice, namespace: sluice}\n");
    apiserver_must_load(a, rbac);
    struct rest r =
        rest(a, "POST", "/api/v1/namespaces/sluice/serviceaccounts/sluice/token", "{\"spec\":{}}");
    assert_int_equal(r.status, 201);
    char token[100];
    snprintf(token, sizeof token, "%s", rest_text(&r, "status.token"));
    rest_fini(&r);
    assert_int_equal(ask(a, token, "GET", "/api/v1/pods", NULL), 200);
    apiserver_revoke(a, token);
    assert_int_equal(ask(a, token, "GET", "/api/v1/pods", NULL), 401);
    apiserver_free(a);
}

TEST(the_kubeconfig_names_the_server_and_the_token)
{
    struct apiserver *a = start(&(struct apiserver_opts){0});
    const char *path = test_path("%s/kubeconfig", test_tmp_dir());
    struct err e;
    struct buf b;
    assert_ok(apiserver_kubeconfig(a, path, "tok", &e), &e);
    assert_ok(file_read(path, 1 << 16, &b, &e), &e);
    assert_non_null(strstr(b.p, apiserver_url(a)));
    assert_non_null(strstr(b.p, "token: tok\n"));
    buf_fini(&b);
    assert_err(apiserver_kubeconfig(a, "/nowhere/at/all", NULL, &e), ERR_IO, &e, NULL);
    apiserver_free(a);
}

static void run(const char *command)
{
    if (system(command) != 0)
        fail_msg("failed: %s", command);
}

/* A CA "ca", a server certificate "s" for 127.0.0.1 and a client certificate of jane. */
static void make_certs(const char *dir)
{
#define KEY "-newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes"
    run(test_path("cd %s && openssl req -x509 " KEY
                  " -days 2 -subj /CN=ca -keyout ca.key -out ca.pem 2>/dev/null",
                  dir));
    static const char *const cert[][3] = {{"s", "127.0.0.1", "serverAuth"},
                                          {"jane", "jane", "clientAuth"}};
    for (size_t i = 0; i < ARRAY_LEN(cert); i++)
        run(test_path("cd %s && openssl req -new " KEY
                      " -subj /CN=%s -keyout %s.key -out %s.csr 2>/dev/null && "
                      "printf 'extendedKeyUsage=%s\\nsubjectAltName=IP:127.0.0.1' > %s.ext && "
                      "openssl x509 -req -in %s.csr -CA ca.pem -CAkey ca.key -CAcreateserial -days "
                      "2 -extfile %s.ext -out %s.pem 2>/dev/null",
                      dir, cert[i][1], cert[i][0], cert[i][0], cert[i][2], cert[i][0], cert[i][0],
                      cert[i][0], cert[i][0]));
}

static int run_status(const char *command)
{
    int rc = system(command);
    return WIFEXITED(rc) ? WEXITSTATUS(rc) : -1;
}

TEST(over_tls_certificates_of_clients_are_users)
{
    const char *dir = test_tmp_dir();
    make_certs(dir);
    char file[4][200];
    static const char *const name[] = {"s.pem", "s.key", "ca.pem"};
    for (int i = 0; i < 3; i++)
        snprintf(file[i], sizeof file[i], "%s/%s", dir, name[i]);
    struct apiserver *a = start(&(struct apiserver_opts){
        .cert_file = file[0], .key_file = file[1], .client_ca_file = file[2]});
    assert_true(strncmp(apiserver_url(a), "https://", 8) == 0);
    apiserver_token(a, "jane-token", "jane",
                    &(struct apiserver_rule){"get,list", "", "configmaps", NULL}, 1);
#define CURL                                                                                       \
    "curl -s -o /dev/null -w '%%{http_code}' --cacert %s/ca.pem --cert %s/jane.pem --key "         \
    "%s/jane.key %s%s > %s/code"
    static const struct {
        const char *path, *want;
    } row[] = {{MAPS, "200"}, {"/api/v1/pods", "403"}};
    for (size_t i = 0; i < ARRAY_LEN(row); i++) {
        assert_int_equal(
            run_status(test_path(CURL, dir, dir, dir, apiserver_url(a), row[i].path, dir)), 0);
        struct buf b;
        struct err e;
        assert_ok(file_read(test_path("%s/code", dir), 100, &b, &e), &e);
        assert_string_equal(b.p, row[i].want);
        buf_fini(&b);
    }
    apiserver_free(a);
}

/* What people would type, if kubectl is installed. */
TEST(kubectl_gets_on_with_it)
{
    if (run_status("command -v kubectl > /dev/null") != 0 ||
        run_status("kubectl version --client > /dev/null 2>&1") != 0)
        skip();
    const char *dir = test_tmp_dir();
    make_certs(dir);
    char cert[200], key[200], ca[200], conf[200];
    snprintf(cert, sizeof cert, "%s/s.pem", dir);
    snprintf(key, sizeof key, "%s/s.key", dir);
    snprintf(ca, sizeof ca, "%s/ca.pem", dir);
    snprintf(conf, sizeof conf, "%s/conf", dir);
    struct apiserver *a = start(&(struct apiserver_opts){
        .cert_file = cert, .key_file = key, .ca_file = ca, .controllers = true});
    struct err e;
    apiserver_must_load(a, "apiVersion: v1\nkind: Node\nmetadata: {name: n1}\nstatus: {capacity: "
                           "{cpu: 32, memory: 64Gi, nvidia.com/gpu: 8, pods: 110}}\n");
    assert_ok(apiserver_kubeconfig(a, conf, NULL, &e), &e);
    static const char yaml[] =
        "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: web}\nspec:\n  replicas: 2\n  "
        "selector: {matchLabels: {app: web}}\n  template:\n"
        "    metadata: {labels: {app: web}}\n    spec:\n      containers:\n      - {name: c, "
        "image: i, resources: {limits: {nvidia.com/gpu: 1}}}\n";
    const char *file = test_path("%s/web.yaml", dir);
    test_write_file(file, yaml, strlen(yaml));
    static const char *const command[] = {
        "apply --server-side --validate=false -f web.yaml",
        "scale deploy/web --replicas=4",
        "rollout status deploy/web --timeout=20s",
        "label node n1 a=b",
        "cordon n1",
        "get nodes,pods,deploy -A -o yaml",
        "delete deploy web",
    };
    for (size_t i = 0; i < ARRAY_LEN(command); i++) {
        if (run_status(test_path("cd %s && HOME=%s KUBECONFIG=%s timeout 60 kubectl "
                                 "--cache-dir=%s/cache %s > %s/out 2>&1",
                                 dir, dir, conf, dir, command[i], dir)) != 0) {
            run_status(test_path("cat %s/out >&2", dir));
            fail_msg("kubectl %s", command[i]);
        }
        apiserver_settle(a);
    }
    assert_int_equal(apiserver_count(a, "/api/v1/pods"), 0);
    apiserver_free(a);
}
