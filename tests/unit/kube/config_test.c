#include "kube/config.h"

#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/mem.h"
#include "kube/config_priv.h"
#include "tests/support/test.h"

/* "-----BEGIN X-----\nabc\n" */
#define PEM64 "LS0tLS1CRUdJTiBYLS0tLS0KYWJjCg=="

static const char *base_yaml(const char *cluster, const char *user)
{
    return test_path("apiVersion: v1\nkind: Config\ncurrent-context: here\n"
                     "contexts:\n- name: here\n  context: {cluster: c, user: u, namespace: prod}\n"
                     "clusters:\n- name: c\n  cluster: {%s}\nusers:\n- name: u\n  user: {%s}\n",
                     cluster, user);
}

static const char *write_yaml(const char *name, const char *text)
{
    const char *path = test_path("%s/%s", test_tmp_dir(), name);
    test_write_file(path, text, strlen(text));
    return path;
}

static enum err_code load(const char *path, struct kube_config **out, struct err *e)
{
    struct kube_config_opts o = kube_config_opts_default();
    o.path = path;
    return kube_config_load(&o, out, e);
}

TEST(explicit_file_gives_server_and_token)
{
    struct kube_config *c;
    struct err e;
    const char *path = write_yaml("k1", base_yaml("server: 'https://h:6443'", "token: abc"));
    assert_ok(load(path, &c, &e), &e);
    assert_string_equal(c->server.url, "https://h:6443");
    assert_string_equal(c->server.token, "abc");
    assert_string_equal(c->ns, "prod");
    assert_string_equal(c->context, "here");
    assert_string_equal(c->cluster, "c");
    assert_string_equal(c->user, "u");
    assert_string_equal(c->source, path);
    assert_null(c->server.proxy);
    assert_false(c->server.insecure);
    assert_false(c->in_cluster);
    kube_config_free(c);
}

TEST(every_field_of_cluster_and_user_is_read)
{
    struct kube_config *c;
    struct err e;
    write_yaml("ca.crt", "x");
    write_yaml("tok", "x");
    const char *path = write_yaml(
        "k2",
        base_yaml("server: 'https://h', certificate-authority: ca.crt, tls-server-name: inner, "
                  "proxy-url: 'socks5://p:1'",
                  "tokenFile: tok, client-certificate-data: " PEM64 ", client-key-data: " PEM64));
    assert_ok(load(path, &c, &e), &e);
    assert_string_equal(c->server.ca_file, test_path("%s/ca.crt", test_tmp_dir()));
    assert_string_equal(c->server.token_file, test_path("%s/tok", test_tmp_dir()));
    assert_string_equal(c->server.tls_server_name, "inner");
    assert_string_equal(c->server.proxy, "socks5://p:1");
    assert_string_equal(c->server.cert_pem, "-----BEGIN X-----\nabc\n");
    assert_string_equal(c->server.key_pem, "-----BEGIN X-----\nabc\n");
    kube_config_free(c);
}

TEST(data_wins_over_file_and_json_is_yaml_too)
{
    struct kube_config *c;
    struct err e;
    const char *path = write_yaml("k3", "{\"current-context\":\"x\",\"contexts\":[{\"name\":\"x\","
                                        "\"context\":{\"cluster\":\"c\"}}],"
                                        "\"clusters\":[{\"name\":\"c\",\"cluster\":{\"server\":"
                                        "\"https://h\",\"certificate-authority\":\"/no\","
                                        "\"certificate-authority-data\":\"" PEM64 "\"}}]}");
    assert_ok(load(path, &c, &e), &e);
    assert_string_equal(c->server.ca_pem, "-----BEGIN X-----\nabc\n");
    assert_null(c->server.ca_file);
    assert_string_equal(c->ns, "default");
    assert_string_equal(c->user, "");
    kube_config_free(c);
}

TEST(unusable_configuration_names_file_entry_and_key)
{
    static const struct {
        const char *cluster, *user;
        enum err_code rc;
        const char *text;
    } rows[] = {
        {"server: ''", "token: a", ERR_MISSING, "clusters \"c\": server: is missing"},
        {"server: 'h:6443'", "token: a", ERR_INVAL, "server: expected https://host:port"},
        {"server: [a]", "token: a", ERR_PARSE, "server: expected text"},
        {"server: 'https://h', certificate-authority: nope.crt", "token: a", ERR_IO,
         "no such file: "},
        {"server: 'https://h', certificate-authority-data: '!!'", "token: a", ERR_PARSE,
         "certificate-authority-data: not base64"},
        {"server: 'https://h', certificate-authority-data: YWJj", "token: a", ERR_PARSE,
         "not PEM text"},
        {"server: 'https://h', insecure-skip-tls-verify: maybe", "token: a", ERR_PARSE,
         "expected true or false"},
        {"server: 'https://h', insecure-skip-tls-verify: true, certificate-authority-data: " PEM64,
         "token: a", ERR_INVAL, "contradicts"},
        {"server: 'https://h', proxy-url: 'ftp://p'", "token: a", ERR_INVAL, "proxy-url: expected"},
        {"server: 'https://h'", "auth-provider: {name: gcp}", ERR_INVAL,
         "users \"u\": auth-provider: is not supported"},
        {"server: 'https://h'", "token: a, as: root", ERR_INVAL, "impersonation"},
        {"server: 'https://h'", "token: a, as-groups: [x]", ERR_INVAL, "impersonation"},
        {"server: 'https://h'", "client-certificate-data: " PEM64, ERR_MISSING,
         "client-key: is missing"},
        {"server: 'https://h'", "client-key-data: " PEM64, ERR_MISSING,
         "client-certificate: is missing"},
        {"server: 'https://h'", "tokenFile: nope", ERR_IO, "tokenFile: no such file"},
        {"server: 'https://h'", "token: a, username: b", ERR_INVAL, "more than one"},
        {"server: 'https://h'", "exec: [a]", ERR_PARSE, "exec: expected a mapping"},
        {"server: 'https://h'", "exec: {command: x}", ERR_INVAL, "exec.apiVersion"},
        {"server: 'https://h'",
         "exec: {apiVersion: client.authentication.k8s.io/v1alpha1, command: x}", ERR_INVAL,
         "only client.authentication.k8s.io/v1 and v1beta1"},
        {"server: 'https://h'", "exec: {apiVersion: client.authentication.k8s.io/v1}", ERR_MISSING,
         "command: is missing"},
        {"server: 'https://h'",
         "exec: {apiVersion: client.authentication.k8s.io/v1, command: x, args: y}", ERR_PARSE,
         "args: expected a list"},
        {"server: 'https://h'",
         "exec: {apiVersion: client.authentication.k8s.io/v1, command: x, env: [a]}", ERR_PARSE,
         "env: expected items with name and value"},
        {"server: 'https://h'",
         "exec: {apiVersion: client.authentication.k8s.io/v1, command: x, interactiveMode: Always}",
         ERR_INVAL, "nobody can answer"},
    };
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct kube_config *c;
        struct err e;
        const char *path = write_yaml("bad", base_yaml(rows[i].cluster, rows[i].user));
        assert_err(load(path, &c, &e), rows[i].rc, &e, rows[i].text);
        assert_non_null(strstr(e.msg, test_path("kubeconfig %s:", path)));
        assert_null(c);
    }
}

TEST(missing_names_are_told_apart)
{
    static const struct {
        const char *yaml, *context, *text;
        enum err_code rc;
    } rows[] = {
        {"contexts: []\nclusters: []\n", NULL, "no current-context", ERR_MISSING},
        {"current-context: a\ncontexts: []\n", NULL, "contexts has no entry named \"a\"",
         ERR_MISSING},
        {"contexts: [{name: a, context: {cluster: b}}]\n", "a", "clusters has no entry named \"b\"",
         ERR_MISSING},
        {"contexts: [{name: a, context: {user: b}}]\n", "a", "cluster is missing", ERR_MISSING},
        {"contexts: [{name: a}]\n", "a", "no mapping under \"context\"", ERR_PARSE},
        {"contexts: {a: b}\n", "a", "contexts: expected a list", ERR_PARSE},
        {"contexts: [{name: a, context: {cluster: c, user: x}}]\nclusters: [{name: c, cluster: "
         "{server: 'http://h'}}]\n",
         "a", "users has no entry named \"x\"", ERR_MISSING},
        {"kind: Config\n", NULL, "no clusters and no contexts", ERR_MISSING},
        {"a: [\n", NULL, "kubeconfig: ", ERR_PARSE},
    };
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct kube_config *c;
        struct err e;
        struct kube_config_opts o = kube_config_opts_default();
        o.path = write_yaml("names", rows[i].yaml);
        o.context = rows[i].context;
        assert_err(kube_config_load(&o, &c, &e), rows[i].rc, &e, rows[i].text);
    }
    struct kube_config *c;
    struct err e;
    assert_err(load("/nowhere/config", &c, &e), ERR_IO, &e, "/nowhere/config");
}

/* ---- the environment --------------------------------------------------------------------- */

/* A function pointer has no context: which folder the fake environment speaks of. */
static char env_dir[512];
static const char *env_mode;

static const char *fake_env(const char *key)
{
    bool merged = strcmp(env_mode, "merged") == 0, pod = strcmp(env_mode, "pod") == 0;
    if (strcmp(key, "KUBECONFIG") == 0)
        return merged ? test_path("%s/first:%s/none::%s/second", env_dir, env_dir, env_dir) : "";
    if (strcmp(key, "HOME") == 0)
        return strcmp(env_mode, "home") == 0 ? test_path("%s/home", env_dir) : "/nowhere";
    if (strcmp(key, "KUBERNETES_SERVICE_HOST") == 0)
        return pod ? "fd00::1" : NULL;
    return strcmp(key, "KUBERNETES_SERVICE_PORT") == 0 && pod ? "443" : NULL;
}

static enum err_code load_from(const char *mode, const char *context, struct kube_config **out,
                               struct err *e)
{
    env_mode = mode;
    snprintf(env_dir, sizeof env_dir, "%s", test_tmp_dir());
    struct kube_config_opts o = {.env = fake_env, .context = context, .root = env_dir};
    return kube_config_load(&o, out, e);
}

TEST(files_of_the_environment_are_merged_and_the_first_one_wins_per_entry)
{
    struct kube_config *c;
    struct err e;
    write_yaml("first", "contexts: [{name: one, context: {cluster: c1, user: u}}]\n"
                        "clusters: [{name: c1, cluster: {server: 'https://first'}}]\n");
    write_yaml("second", "current-context: one\n"
                         "contexts: [{name: one, context: {cluster: c2, user: u}}, {name: two, "
                         "context: {cluster: c2}}]\n"
                         "clusters: [{name: c1, cluster: {server: 'https://no'}}, {name: c2, "
                         "cluster: {server: 'https://second'}}]\n"
                         "users: [{name: u, user: {token: t}}]\n");
    assert_ok(load_from("merged", NULL, &c, &e), &e);
    assert_string_equal(c->server.url, "https://first");
    assert_string_equal(c->server.token, "t");
    assert_non_null(strstr(c->source, "first:"));
    kube_config_free(c);
    assert_ok(load_from("merged", "two", &c, &e), &e);
    assert_string_equal(c->server.url, "https://second");
    assert_null(c->server.token);
    kube_config_free(c);
}

TEST(home_folder_is_next_and_the_pod_account_last)
{
    struct kube_config *c;
    struct err e;
    const char *dir = test_tmp_dir();
    assert_err(load_from("none", NULL, &c, &e), ERR_MISSING, &e, "no Kubernetes configuration");
    mkdir(test_path("%s/home", dir), 0700);
    mkdir(test_path("%s/home/.kube", dir), 0700);
    write_yaml("home/.kube/config", base_yaml("server: 'http://home'", "username: a, password: b"));
    assert_ok(load_from("home", NULL, &c, &e), &e);
    assert_string_equal(c->server.url, "http://home");
    assert_string_equal(c->server.user, "a");
    assert_string_equal(c->server.password, "b");
    kube_config_free(c);
}

TEST(pod_account_is_read_from_its_files)
{
    struct kube_config *c;
    struct err e;
    const char *parts[] = {"var", "var/run", "var/run/secrets", "var/run/secrets/kubernetes.io",
                           "var/run/secrets/kubernetes.io/serviceaccount"};
    assert_err(load_from("pod", NULL, &c, &e), ERR_IO, &e, "in-cluster: CA ");
    for (size_t i = 0; i < ARRAY_LEN(parts); i++)
        mkdir(test_path("%s/%s", test_tmp_dir(), parts[i]), 0700);
    write_yaml("var/run/secrets/kubernetes.io/serviceaccount/ca.crt", "x");
    assert_err(load_from("pod", NULL, &c, &e), ERR_IO, &e, "in-cluster: token ");
    write_yaml("var/run/secrets/kubernetes.io/serviceaccount/token", "tok");
    write_yaml("var/run/secrets/kubernetes.io/serviceaccount/namespace", "sluice\n");
    assert_ok(load_from("pod", NULL, &c, &e), &e);
    assert_true(c->in_cluster);
    assert_string_equal(c->server.url, "https://[fd00::1]:443");
    assert_string_equal(c->ns, "sluice");
    assert_non_null(
        strstr(c->server.token_file, "/var/run/secrets/kubernetes.io/serviceaccount/token"));
    assert_string_equal(c->source, "in-cluster");
    kube_config_free(c);
    assert_err(load_from("pod", "x", &c, &e), ERR_MISSING, &e, "in a pod there are no contexts");
}

/* ---- base64 ------------------------------------------------------------------------------ */

TEST(base64_takes_what_the_rfc_allows)
{
    static const struct {
        const char *text, *plain;
    } rows[] = {{"", ""},        {"Zg==", "f"},          {"Zm8=", "fo"},
                {"Zm9v", "foo"}, {"Zm9vYmFy", "foobar"}, {"Zm9v\n YmFy", "foobar"},
                {"Zg=", NULL},   {"Zg", NULL},           {"Z", NULL},
                {"Zm8==", NULL}, {"Zg==Zg==", NULL},     {"Z*==", NULL},
                {"=", NULL}};
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        char *out = NULL;
        size_t n = 0;
        assert_int_equal(base64_decode(rows[i].text, &out, &n), rows[i].plain != NULL);
        if (!rows[i].plain)
            continue;
        assert_string_equal(out, rows[i].plain);
        assert_int_equal(n, strlen(rows[i].plain));
        mem_free(out);
    }
}

/* ---- plugins ----------------------------------------------------------------------------- */

static struct kube_config *with_plugin(const char *script, const char *more)
{
    struct kube_config *c;
    struct err e;
    const char *path = write_yaml("plugin.sh", script);
    chmod(path, 0700);
    write_yaml(
        "k9",
        base_yaml(
            "server: 'https://h'",
            test_path("exec: {apiVersion: client.authentication.k8s.io/v1, command: ./plugin.sh%s}",
                      more)));
    assert_ok(load(test_path("%s/k9", test_tmp_dir()), &c, &e), &e);
    return c;
}

#define CREDENTIAL(status)                                                                         \
    "{\"kind\":\"ExecCredential\",\"apiVersion\":\"client.authentication.k8s.io/"                  \
    "v1\",\"status\":" status "}"

TEST(plugin_gets_arguments_environment_and_cluster_and_gives_a_token)
{
    struct kube_credential cred;
    struct err e;
    struct kube_config *c = with_plugin(
        "#!/bin/sh\nset -e\ntest \"$1 $2\" = 'a b c'\ntest \"$WHO\" = me\n"
        "echo \"$KUBERNETES_EXEC_INFO\" | grep -q '\"server\":\"https://h\"'\nread x && exit 9\n"
        "echo '" CREDENTIAL(
            "{\"token\":\"T\",\"expirationTimestamp\":\"2030-01-01T00:00:00Z\"}") "'\n",
        ", args: [a, 'b c'], env: [{name: WHO, value: me}], provideClusterInfo: true");
    assert_ok(kube_exec_run(c, 10 * US_PER_S, &cred, &e), &e);
    assert_string_equal(cred.token, "T");
    assert_int_equal(cred.expires_us, 1893456000 * US_PER_S);
    kube_credential_fini(&cred);
    kube_config_free(c);
}

TEST(plugin_that_fails_says_why_and_never_shows_what_it_printed)
{
    static const struct {
        const char *script, *text;
        enum err_code rc;
    } rows[] = {
        {"echo secret-token; echo 'please log in' >&2; exit 3", "exit status 3: please log in",
         ERR_IO},
        {"exit 1", "exit status 1: it printed nothing", ERR_IO},
        {"kill -9 $$", "killed by signal 9", ERR_IO},
        {"echo secret-token", "ExecCredential:1:", ERR_PARSE},
        {"echo '{}'", "kind: expected ExecCredential", ERR_PARSE},
        {"echo '{\"kind\":\"ExecCredential\",\"apiVersion\":\"v9\"}'", "apiVersion: expected",
         ERR_PARSE},
        {"echo '" CREDENTIAL("{}") "'", "neither a token nor", ERR_PARSE},
        {"echo '" CREDENTIAL("{\"token\":5}") "'", "status.token: expected a string", ERR_PARSE},
        {"echo '" CREDENTIAL("{\"clientCertificateData\":\"x\"}") "'", "go together", ERR_PARSE},
        {"echo '" CREDENTIAL("{\"token\":\"secret-token\",\"expirationTimestamp\":\"soon\"}") "'",
         "expirationTimestamp", ERR_PARSE},
        {"head -c 2000000 /dev/zero", "more than 1048576 bytes", ERR_LIMIT},
        {"exec 1>&- 2>&-; sleep 60", "still running after", ERR_IO},
        {"sleep 60", "still running after 0.3 s", ERR_IO},
        {"exec yes >&2", "still running after 0.3 s", ERR_IO},
    };
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct kube_credential cred;
        struct err e;
        struct kube_config *c = with_plugin(test_path("#!/bin/sh\n%s\n", rows[i].script), "");
        int64_t start_us = clock_mono_us();
        bool late = strstr(rows[i].text, "still running") != NULL;
        assert_err(kube_exec_run(c, late ? 300 * US_PER_MS : 20 * US_PER_S, &cred, &e), rows[i].rc,
                   &e, rows[i].text);
        assert_in_range(clock_mono_us() - start_us, 0, 20 * US_PER_S);
        assert_non_null(strstr(e.msg, "plugin.sh"));
        assert_null(strstr(e.msg, "secret-token"));
        assert_null(cred.token);
        kube_config_free(c);
    }
}

TEST(plugin_that_is_not_there_shows_its_install_hint)
{
    struct kube_credential cred;
    struct kube_config *c;
    struct err e;
    write_yaml("k8", base_yaml("server: 'https://h'",
                               "exec: {apiVersion: client.authentication.k8s.io/v1beta1, "
                               "command: no-such-plugin-here, installHint: get it there}"));
    assert_ok(load(test_path("%s/k8", test_tmp_dir()), &c, &e), &e);
    assert_err(kube_exec_run(c, US_PER_S, &cred, &e), ERR_IO, &e, "get it there");
    kube_config_free(c);
}
