/* serve_tls_test.c - the people's listener over TLS: certificates as identities, rotation. */
#include "tests/unit/daemon/tls_fixture.h"

static void tls_rig(struct rig *r, const char *name, struct serve_opts *o)
{
    static const char *const names[] = {"ops"};
    static char cert[320], key[320], ca[320];
    *o = rig_opts(r, name);
    make_ca(r->dir, "serving-ca");
    make_ca(r->dir, "people-ca");
    make_cert(r->dir, "serving-ca", "serving", "serverAuth");
    make_cert(r->dir, "people-ca", "ops", "clientAuth");
    make_cert(r->dir, "people-ca", "guest", "clientAuth");
    (void)snprintf(cert, sizeof cert, "%s/serving.pem", r->dir);
    (void)snprintf(key, sizeof key, "%s/serving.key", r->dir);
    (void)snprintf(ca, sizeof ca, "%s/people-ca.pem", r->dir);
    o->cert_file = cert;
    o->key_file = key;
    o->client_ca_file = ca;
    o->auth.names = names;
    o->auth.n_names = 1;
    o->address = "0.0.0.0"; /* allowed with TLS */
}

static int ask(struct rig *r, const char *who, const char *method, const char *path,
               const char *headers, char body[4096])
{
    return tls_ask(r, serve_port(r->serve), who, method, path, headers, body, 4096);
}

#define BEARER "Authorization: Bearer " RIG_TOKEN "\r\n"
#define JSON_TYPE "Content-Type: application/json\r\n"

TEST(serve_tls_lets_in_by_certificate_name_or_token_and_nobody_else)
{
    struct rig r;
    struct serve_opts o;
    char body[4096];
    tls_rig(&r, "tls-who", &o);
    rig_start(&r, &o);
    assert_int_equal(ask(&r, NULL, "GET", "/healthz", "", body), 200);
    assert_int_equal(ask(&r, NULL, "GET", "/api/v1/freeze", "", body), 401);
    assert_int_equal(ask(&r, NULL, "GET", "/api/v1/freeze", BEARER, body), 200);
    assert_int_equal(ask(&r, "ops", "GET", "/api/v1/freeze", "", body), 200);
    assert_int_equal(ask(&r, "guest", "GET", "/api/v1/freeze", "", body), 401);
    assert_non_null(strstr(body, "name is not on the list"));
    assert_int_equal(ask(&r, "guest", "GET", "/api/v1/freeze", BEARER, body), 200);
    rig_end(&r);
}

TEST(serve_tls_author_of_a_certificate_is_kept_beside_the_name_given)
{
    struct rig r;
    struct serve_opts o;
    char body[4096];
    tls_rig(&r, "tls-author", &o);
    rig_start(&r, &o);
    assert_int_equal(ask(&r, "ops", "POST", "/api/v1/freeze",
                         JSON_TYPE "Content-Length: 16\r\n\r\n{\"author\":\"ann\"}", body),
                     200);
    assert_non_null(strstr(body, "frozen by ann (certificate ops) (endpoint)"));
    assert_int_equal(
        ask(&r, "ops", "POST", "/api/v1/freeze", JSON_TYPE "Content-Length: 0\r\n", body), 200);
    assert_non_null(strstr(body, "frozen by ops (endpoint)"));
    rig_end(&r);
}

/* A page can make a browser send its certificate, but not this header unasked. */
TEST(serve_tls_caller_by_certificate_must_say_that_it_sends_json)
{
    struct rig r;
    struct serve_opts o;
    struct err e;
    char body[4096];
    tls_rig(&r, "tls-forged", &o);
    rig_start(&r, &o);
    assert_ok(freeze_set(r.freeze, FREEZE_ENDPOINT, "ann", "", 0, &e), &e);
    assert_int_equal(ask(&r, "ops", "POST", "/api/v1/unfreeze", "Content-Length: 0\r\n", body),
                     415);
    assert_int_equal(ask(&r, "ops", "POST", "/api/v1/unfreeze",
                         "Content-Type: text/plain\r\nContent-Length: 2\r\n\r\n{}", body),
                     415);
    assert_true(freeze_on(r.freeze));
    assert_int_equal(ask(&r, "ops", "POST", "/api/v1/unfreeze",
                         "Content-Type: application/json; charset=utf-8\r\nContent-Length: 0\r\n",
                         body),
                     200);
    assert_false(freeze_on(r.freeze));
    rig_end(&r);
}

TEST(serve_tls_rotated_certificate_is_taken_and_a_broken_one_refused)
{
    struct rig r;
    struct serve_opts o;
    struct err e;
    char body[4096];
    tls_rig(&r, "tls-rotate", &o);
    rig_start(&r, &o);
    make_ca(r.dir, "next-ca");
    make_cert(r.dir, "next-ca", "next", "serverAuth");
    shell("cd %s && echo broken > serving.pem", r.dir);
    assert_err(serve_reload_tls(r.serve, &e), ERR_PARSE, &e, "serving.pem");
    assert_int_equal(ask(&r, NULL, "GET", "/healthz", "", body), 200); /* the old one */
    shell("cd %s && cp next.pem serving.pem && cp next.key serving.key", r.dir);
    assert_ok(serve_reload_tls(r.serve, &e), &e);
    assert_int_equal(ask(&r, NULL, "GET", "/healthz", "", body),
                     0); /* not of serving-ca any more */
    shell("cd %s && cp next-ca.pem serving-ca.pem", r.dir);
    assert_int_equal(ask(&r, NULL, "GET", "/healthz", "", body), 200);
    rig_end(&r);
}
