/* external_test.c - the aggregated API: shapes held to what is published, and who may ask. */
#include "daemon/external.h"

#include "tests/unit/daemon/tls_fixture.h"

static const int64_t T0 = INT64_C(1714564800123456); /* 2024-05-01T12:00:00.123456Z */
#define API "/apis/external.metrics.k8s.io/v1beta1"

static struct external_row row_of(const char *ns, const char *target, double v)
{
    struct external_row r = {.time_us = T0};
    (void)snprintf(r.ns, sizeof r.ns, "%s", ns);
    (void)snprintf(r.target, sizeof r.target, "%s", target);
    for (int m = 0; m < EXTERNAL_METRICS; m++)
        r.value[m] = v + m;
    return r;
}

static void publish(struct shared *s, const struct external_row *rows, size_t n)
{
    struct doc d;
    struct err e;
    doc_init(&d);
    assert_ok(external_publish(s, &d, rows, n, &e), &e);
    doc_fini(&d);
}

static struct shared *with_rows(const struct external_row *rows, size_t n)
{
    struct shared *s = shared_new(&(struct shared_opts){.period_us = 15 * US_PER_S});
    publish(s, rows, n);
    return s;
}

static void assert_list(struct shared *s, const char *ns, enum external_metric m,
                        const char *selector, const char *want)
{
    struct buf b = buf_init(1 << 20);
    struct err e;
    assert_ok(external_write_list(s, ns, m, selector, &b, &e), &e);
    assert_true(b.n > 0 && b.p[b.n - 1] == '\n');
    b.p[b.n - 1] = '\0';
    assert_string_equal(b.p, want);
    buf_fini(&b);
}

#define HEAD                                                                                       \
    "{\"kind\":\"ExternalMetricValueList\",\"apiVersion\":\"external.metrics.k8s.io/"              \
    "v1beta1\",\"metadata\":{},\"items\":["
#define ITEM(metric, ns, target, value)                                                            \
    "{\"metricName\":\"" metric "\",\"metricLabels\":{\"namespace\":\"" ns                         \
    "\",\"target\":\"" target                                                                      \
    "\"},\"timestamp\":\"2024-05-01T12:00:00Z\",\"window\":0,\"value\":\"" value "\"}"

TEST(external_list_has_the_published_shape)
{
    struct external_row rows[] = {row_of("prod", "chat", 3), row_of("prod", "code", 7.25),
                                  row_of("test", "chat", 1)};
    struct shared *s = with_rows(rows, 3);
    assert_list(s, "prod", EXTERNAL_DESIRED_UNITS, "target=chat",
                HEAD ITEM("sluice-desired-units", "prod", "chat", "3") "]}");
    assert_list(s, "prod", EXTERNAL_QPS_5M, "target=code",
                HEAD ITEM("sluice-forecast-qps-5m", "prod", "code", "8250m") "]}");
    assert_list(s, "prod", EXTERNAL_HIGH_QPS, NULL,
                HEAD ITEM("sluice-forecast-high-qps", "prod", "chat",
                          "8") "," ITEM("sluice-forecast-high-qps", "prod", "code", "12250m") "]}");
    assert_list(s, "none", EXTERNAL_QPS_30M, NULL, HEAD "]}");
    shared_free(s);
}

TEST(external_selectors_choose_targets_and_bad_ones_are_errors)
{
    struct external_row rows[] = {row_of("prod", "chat", 3), row_of("prod", "code", 7)};
    struct shared *s = with_rows(rows, 2);
    struct buf b = buf_init(1 << 20);
    struct err e;
    assert_list(s, "prod", EXTERNAL_DESIRED_UNITS, "target in (code, other)",
                HEAD ITEM("sluice-desired-units", "prod", "code", "7") "]}");
    assert_list(s, "prod", EXTERNAL_DESIRED_UNITS, "target!=code,namespace=prod",
                HEAD ITEM("sluice-desired-units", "prod", "chat", "3") "]}");
    assert_list(s, "prod", EXTERNAL_DESIRED_UNITS, "target=cha", HEAD "]}");
    assert_list(s, "prod", EXTERNAL_DESIRED_UNITS, "team=chat", HEAD "]}");
    assert_err(external_write_list(s, "prod", EXTERNAL_QPS_5M, "target in (", &b, &e), ERR_PARSE,
               &e, NULL);
    buf_pad(&b, 'x', 5000);
    assert_err(external_write_list(s, "prod", EXTERNAL_QPS_5M, b.p, &b, &e), ERR_LIMIT, &e,
               "labelSelector");
    buf_fini(&b);
    shared_free(s);
}

TEST(external_values_that_are_not_usable_are_left_out_never_invented)
{
    struct external_row rows[] = {row_of("prod", "a", NAN), row_of("prod", "b", 2),
                                  row_of("prod", "c", INFINITY), row_of("prod", "d", -1)};
    struct shared *s = shared_new(&(struct shared_opts){.period_us = 15 * US_PER_S});
    assert_list(s, "prod", EXTERNAL_DESIRED_UNITS, NULL, HEAD "]}"); /* before the first round */
    publish(s, rows, 4);
    assert_list(s, "prod", EXTERNAL_DESIRED_UNITS, NULL,
                HEAD ITEM("sluice-desired-units", "prod", "b", "2") "]}");
    publish(s, rows, 0);
    assert_list(s, "prod", EXTERNAL_DESIRED_UNITS, NULL, HEAD "]}");
    shared_free(s);
}

TEST(external_values_of_a_loop_that_stands_still_are_no_longer_served)
{
    struct external_row row = row_of("prod", "chat", 3);
    struct shared *s = with_rows(&row, 1);
    shared_set_period(s, 15 * US_PER_S);
    assert_list(s, "prod", EXTERNAL_DESIRED_UNITS, NULL,
                HEAD ITEM("sluice-desired-units", "prod", "chat", "3") "]}");
    struct doc *d = (struct doc *)(uintptr_t)shared_borrow(s, SHARED_EXTERNAL);
    d->published_us -= 46 * US_PER_S; /* as if it were an old one */
    assert_list(s, "prod", EXTERNAL_DESIRED_UNITS, NULL, HEAD "]}");
    shared_return(s, d);
    shared_free(s);
}

TEST(external_quantities_are_thousandths_rounded_up)
{
    static const struct {
        double v;
        const char *text; /* NULL: none */
    } row[] = {
        {0, "0"},
        {1, "1"},
        {1.5, "1500m"},
        {1.1, "1100m"},
        {0.0001, "1m"},
        {2000, "2000"},
        {1234.5678, "1234568m"},
        {0.3, "300m"},
        {-0.0, "0"},
        {1e15, "1000000000000000"},
        {1.1e15, NULL},
        {-1e-9, NULL},
        {NAN, NULL},
        {INFINITY, NULL},
    };
    char text[32];
    for (size_t i = 0; i < ARRAY_LEN(row); i++) {
        assert_int_equal(external_quantity(row[i].v, text), row[i].text != NULL);
        if (row[i].text)
            assert_string_equal(text, row[i].text);
    }
}

/* ---- over TLS ----------------------------------------------------------------------------------
 */

static void tls_rig(struct rig *r, const char *name)
{
    static const char *const names[] = {"front-proxy-client", "aggregator"};
    char cert[320], key[320], ca[320];
    struct err e;
    struct serve_opts o = rig_opts(r, name);
    make_ca(r->dir, "serving-ca");
    make_ca(r->dir, "proxy-ca");
    make_cert(r->dir, "serving-ca", "serving", "serverAuth");
    make_cert(r->dir, "proxy-ca", "front-proxy-client", "clientAuth");
    make_cert(r->dir, "proxy-ca", "somebody", "clientAuth");
    make_cert(r->dir, "serving-ca", "impostor", "clientAuth");
    (void)snprintf(cert, sizeof cert, "%s/serving.pem", r->dir);
    (void)snprintf(key, sizeof key, "%s/serving.key", r->dir);
    (void)snprintf(ca, sizeof ca, "%s/proxy-ca.pem", r->dir);
    o.cluster = true;
    o.cluster_cert_file = cert;
    o.cluster_key_file = key;
    rig_start(r, &o);
    assert_int_equal(serve_cluster_port(r->serve), 0); /* nobody to trust yet */
    assert_ok(serve_trust(r->serve, ca, names, 2, NULL, &e), &e);
}

/* A request that names a user, or none. */
static int ask_as(struct rig *r, const char *who, const char *user, const char *path, char *body,
                  size_t size)
{
    char header[128] = "";
    if (user)
        (void)snprintf(header, sizeof header, "X-Remote-User: %s\r\n", user);
    return tls_ask(r, serve_cluster_port(r->serve), who, "GET", path, header, body, size);
}

static void assert_answer(struct rig *r, const char *path, int want, const char *text)
{
    char body[4096];
    assert_int_equal(
        ask_as(r, "front-proxy-client", "system:kube-controller-manager", path, body, sizeof body),
        want);
    if (!strstr(body, text))
        fail_msg("%s: \"%s\" is not in %s", path, text, body);
}

TEST(external_discovery_and_values_over_tls_have_the_published_shape)
{
    struct rig r;
    struct external_row row = row_of("prod", "chat", 3);
    tls_rig(&r, "shape");
    publish(r.shared, &row, 1);
    assert_answer(
        &r, "/apis", 200,
        "{\"kind\":\"APIGroupList\",\"apiVersion\":\"v1\",\"groups\":[{\"name\":\"external."
        "metrics.k8s.io\","
        "\"versions\":[{\"groupVersion\":\"external.metrics.k8s.io/"
        "v1beta1\",\"version\":\"v1beta1\"}],"
        "\"preferredVersion\":{\"groupVersion\":\"external.metrics.k8s.io/"
        "v1beta1\",\"version\":\"v1beta1\"}}]}");
    assert_answer(
        &r, "/apis/external.metrics.k8s.io", 200,
        "{\"kind\":\"APIGroup\",\"apiVersion\":\"v1\",\"name\":\"external.metrics.k8s.io\","
        "\"versions\":[{");
    assert_answer(&r, API, 200,
                  "{\"kind\":\"APIResourceList\",\"apiVersion\":\"v1\",\"groupVersion\":\"external."
                  "metrics.k8s.io/v1beta1\","
                  "\"resources\":[{\"name\":\"sluice-desired-units\",\"singularName\":\"\","
                  "\"namespaced\":true,"
                  "\"kind\":\"ExternalMetricValueList\",\"verbs\":[\"get\"]},{\"name\":\"sluice-"
                  "forecast-qps-5m\"");
    assert_answer(&r, API "/", 200, "APIResourceList");
    assert_answer(&r, "/openapi/v2", 200, "\"swagger\":\"2.0\"");
    assert_answer(&r, "/openapi/v3", 200, "{\"paths\":{}}");
    assert_answer(&r, API "/namespaces/prod/sluice-desired-units?labelSelector=target%3Dchat", 200,
                  HEAD ITEM("sluice-desired-units", "prod", "chat", "3") "]}");
    assert_answer(&r, API "/namespaces/prod/sluice-desired-units?labelSelector=a%20in%20(", 400,
                  "\"status\":\"Failure\"");
    rig_end(&r);
}

TEST(external_unknown_paths_are_status_objects_as_of_an_api_server)
{
    static const char *const path[] = {
        "/",
        "/healthz",
        "/apis/metrics.k8s.io",
        API "/namespaces/prod",
        API "/namespaces/prod/cpu",
        API "/namespaces//sluice-desired-units",
        API "/namespaces/prod/sluice-desired-units/x",
        API "x",
        API "/pods/prod/sluice-desired-units",
    };
    struct rig r;
    tls_rig(&r, "paths");
    for (size_t i = 0; i < ARRAY_LEN(path); i++)
        assert_answer(
            &r, path[i], 404,
            "{\"kind\":\"Status\",\"apiVersion\":\"v1\",\"metadata\":{},\"status\":\"Failure\","
            "\"message\":\"the "
            "server could not find the requested resource\",\"reason\":\"NotFound\",\"code\":404}");
    rig_end(&r);
}

TEST(external_callers_that_are_not_the_api_server_are_refused)
{
    struct rig r;
    char body[4096];
    tls_rig(&r, "callers");
    assert_int_equal(ask_as(&r, NULL, "admin", "/apis", body, sizeof body), 401);
    assert_non_null(strstr(body, "no client certificate"));
    assert_int_equal(ask_as(&r, "somebody", "admin", "/apis", body, sizeof body), 401);
    assert_non_null(strstr(body, "requestheader-allowed-names"));
    assert_int_equal(ask_as(&r, "front-proxy-client", NULL, "/apis", body, sizeof body), 401);
    assert_non_null(strstr(body, "names no user"));
    assert_int_equal(ask_as(&r, "impostor", "admin", "/apis", body, sizeof body),
                     0); /* no handshake */
    assert_int_equal(ask_as(&r, "front-proxy-client", "admin", "/apis", body, sizeof body), 200);
    rig_end(&r);
}

TEST(external_trust_can_be_changed_while_it_is_served)
{
    static const char *const names[] = {"somebody"};
    struct rig r;
    struct err e;
    char body[4096], ca[320];
    tls_rig(&r, "trust");
    (void)snprintf(ca, sizeof ca, "%s/proxy-ca.pem", r.dir);
    assert_ok(serve_trust(r.serve, ca, names, 1, "X-Who", &e), &e);
    assert_int_equal(ask_as(&r, "front-proxy-client", "admin", "/apis", body, sizeof body), 401);
    assert_int_equal(ask_as(&r, "somebody", "admin", "/apis", body, sizeof body), 401);
    assert_non_null(strstr(body, "names no user"));             /* it is X-Who now */
    assert_ok(serve_trust(r.serve, ca, NULL, 0, NULL, &e), &e); /* any name of that authority */
    assert_int_equal(ask_as(&r, "somebody", "admin", "/apis", body, sizeof body), 200);
    assert_err(serve_trust(r.serve, "/nonexistent.pem", names, 1, NULL, &e), ERR_IO, &e,
               "nonexistent");
    (void)snprintf(ca, sizeof ca, "%s/serving-ca.pem", r.dir);
    assert_ok(serve_trust(r.serve, ca, NULL, 0, NULL, &e), &e);
    assert_int_equal(ask_as(&r, "impostor", "admin", "/apis", body, sizeof body), 200);
    rig_end(&r);
}
