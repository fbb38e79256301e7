/* What the daemon's endpoints find by themselves: a token of their own, and who the API server is.
 */
#include <sys/stat.h>

#include "base/file.h"
#include "daemon/external.h"
#include "tests/live/live_world.h"
#include "tests/support/port.h"
#include "tests/unit/daemon/tls_fixture.h"

static void up(struct live_world *w, char *const *sets, size_t n)
{
    struct err e = {0};
    struct daemon_opts o = {.config_path = w->seat[0].config,
                            .replica = "r0",
                            .sets = sets,
                            .n_sets = n,
                            .outside = &w->seat[0].outside};
    assert_ok(daemon_new(&o, &w->daemon[0], &e), &e);
}

static void load_trust(struct live_world *w, const char *dir, const char *ca)
{
    struct buf pem, text = buf_init(1 << 20);
    struct err e;
    assert_ok(file_read(test_path("%s/%s.pem", dir, ca), 1 << 20, &pem, &e), &e);
    buf_str(&text,
            "{\"apiVersion\":\"v1\",\"kind\":\"ConfigMap\",\"metadata\":{\"namespace\":\"kube-"
            "system\",\"name\":"
            "\"extension-apiserver-authentication\"},\"data\":{\"requestheader-client-ca-file\":");
    json_quote(&text, pem.p, pem.n);
    buf_str(&text, ",\"requestheader-allowed-names\":\"[\\\"front-proxy-client\\\"]\","
                   "\"requestheader-username-headers\":\"[\\\"X-Remote-User\\\"]\"}}");
    apiserver_must_load(w->api, text.p);
    buf_fini(&pem);
    buf_fini(&text);
}

static int ask(const struct rig *r, int port, const char *who)
{
    char body[4096];
    return tls_ask(r, (uint16_t)port, who, "GET", "/apis/external.metrics.k8s.io/v1beta1",
                   "X-Remote-User: hpa\r\n", body, sizeof body);
}

static size_t asked(struct live_world *w)
{
    return apiserver_counted(w->api, "get", "configmaps", false);
}

static void pass(struct live_world *w, int64_t us)
{
    w->now_us += us;
    live_world_turn(w);
}

TEST(the_api_server_is_known_from_its_own_config_map_and_a_rotated_authority_is_taken)
{
    struct live_world w;
    struct rig r = {0};
    (void)snprintf(r.dir, sizeof r.dir, "%s", test_tmp_dir());
    make_ca(r.dir, "serving-ca");
    make_cert(r.dir, "serving-ca", "serving", "serverAuth");
    make_ca(r.dir, "front-1");
    make_ca(r.dir, "front-2");
    int port = test_free_port();
    live_world_start(&w, "observe", "", NULL);
    char *sets[] = {(char *)(uintptr_t)test_path("serve.external_port=%d", port),
                    (char *)(uintptr_t)test_path("serve.external_cert_file=%s/serving.pem", r.dir),
                    (char *)(uintptr_t)test_path("serve.external_key_file=%s/serving.key", r.dir)};
    up(&w, sets, ARRAY_LEN(sets));
    pass(&w, 0);
    assert_int_equal(asked(&w), 1);
    assert_int_equal(ask(&r, port, NULL), 0); /* nobody is believed: it does not even listen */
    load_trust(&w, r.dir, "front-1");
    pass(&w, 30 * US_PER_S);
    assert_int_equal(asked(&w), 1);
    pass(&w, 31 * US_PER_S);
    assert_int_equal(asked(&w), 2);
    make_cert(r.dir, "front-1", "front-proxy-client", "clientAuth");
    assert_int_equal(ask(&r, port, "front-proxy-client"), 200);
    assert_int_equal(ask(&r, port, NULL), 401);
    make_cert(r.dir, "front-1", "somebody", "clientAuth");
    assert_int_equal(ask(&r, port, "somebody"), 401); /* not an allowed name */
    load_trust(&w, r.dir, "front-2");
    make_cert(r.dir, "front-2", "front-proxy-client", "clientAuth");
    assert_int_not_equal(ask(&r, port, "front-proxy-client"), 200);
    pass(&w, 601 * US_PER_S);
    assert_int_equal(ask(&r, port, "front-proxy-client"), 200);
    assert_int_equal(apiserver_counted(w.api, "write", NULL, false), 0); /* observe */
    live_world_stop(&w);
}

TEST(a_config_map_that_makes_no_sense_lets_nobody_in)
{
    static const char *const data[] = {
        "{}",
        "{requestheader-client-ca-file: 'not a certificate'}",
        "{requestheader-client-ca-file: x, requestheader-allowed-names: front-proxy-client}",
        "{requestheader-client-ca-file: x, requestheader-allowed-names: '[7]'}",
    };
    struct live_world w;
    struct rig r = {0};
    (void)snprintf(r.dir, sizeof r.dir, "%s", test_tmp_dir());
    make_ca(r.dir, "serving-ca");
    make_cert(r.dir, "serving-ca", "serving", "serverAuth");
    int port = test_free_port();
    live_world_start(&w, "observe", "", NULL);
    char *sets[] = {(char *)(uintptr_t)test_path("serve.external_port=%d", port),
                    (char *)(uintptr_t)test_path("serve.external_cert_file=%s/serving.pem", r.dir),
                    (char *)(uintptr_t)test_path("serve.external_key_file=%s/serving.key", r.dir)};
    up(&w, sets, ARRAY_LEN(sets));
    for (size_t i = 0; i < ARRAY_LEN(data); i++) {
        apiserver_must_load(
            w.api,
            test_path("apiVersion: v1\nkind: ConfigMap\nmetadata: {namespace: kube-system, name: "
                      "extension-apiserver-authentication}\ndata: %s\n",
                      data[i]));
        pass(&w, 61 * US_PER_S);
        assert_int_equal(ask(&r, port, NULL), 0);
        assert_int_equal(asked(&w), i + 1);
    }
    live_world_stop(&w);
}

TEST(without_a_token_file_the_daemon_makes_one_that_only_its_user_can_read_and_keeps_it)
{
    struct live_world w;
    struct stat st;
    struct buf first, second;
    struct err e;
    live_world_start(&w, "observe", "", NULL);
    const char *path = test_path("%s/token", w.seat[0].dir);
    live_world_up(&w, 0);
    assert_int_equal(stat(path, &st), 0);
    assert_int_equal(st.st_mode & 0777, 0600);
    assert_ok(file_read(path, 4096, &first, &e), &e);
    live_world_down(&w, 0);
    live_world_up(&w, 0);
    assert_ok(file_read(path, 4096, &second, &e), &e);
    assert_true(first.n > 32);
    assert_string_equal(first.p, second.p);
    buf_fini(&first);
    buf_fini(&second);
    live_world_stop(&w);
}

/* The HPA owns the size, so sluice keeps it as it is; what the HPA reads must not be that. */
TEST(an_autoscaler_that_owns_a_target_reads_what_sluice_would_set)
{
    struct live_world w;
    struct err e;
    live_world_start(&w, "single", "policy: rules\n", NULL);
    live_world_target(&w, "chat", 2, 20, "");
    apiserver_must_load(w.api, "apiVersion: autoscaling/v2\nkind: HorizontalPodAutoscaler\n"
                               "metadata: {name: theirs, namespace: shop}\nspec: {maxReplicas: 9, scaleTargetRef: "
                               "{apiVersion: apps/v1, kind: Deployment, name: chat}}\n");
    live_world_up(&w, 0);
    for (int i = 0; i < 20; i++) {
        live_world_demand(&w, "chat", 1500);
        live_world_round(&w);
    }
    assert_int_equal(live_world_units(&w, "chat"), 2);
    struct buf list = buf_init(1 << 16);
    assert_ok(external_write_list(daemon_shared(w.daemon[0]), "shop", EXTERNAL_DESIRED_UNITS, NULL, &list, &e), &e);
    buf_char(&list, '\0');
    assert_non_null(strstr(list.p, "\"target\":\"chat\""));
    assert_null(strstr(list.p, "\"value\":\"2\""));
    buf_fini(&list);
    live_world_stop(&w);
}
