/* http_tls_test.c - the client over TLS: whom it believes, and what it shows. */
#include "net/http.h"

#include "base/file.h"
#include "base/mem.h"
#include "net/server.h"
#include "tests/support/certs.h"
#include "tests/support/test.h"

static void handler(void *ctx, const struct server_request *in, struct server_reply *out)
{
    const char *host = server_header(in, "Host");
    (void)ctx;
    out->status = 200;
    out->body = buf_init(1 << 16);
    buf_fmt(&out->body, "cn=%s host=%.9s", in->client_cn ? in->client_cn : "-", host ? host : "-");
}

struct rig {
    const char *dir;
    struct server *server;
    struct http_client *client;
    char url[64];
};

static void rig_start(struct rig *r, const char *alt_names, bool client_cert)
{
    struct server_opts o = server_opts_default();
    struct err e;
    r->dir = test_tmp_dir();
    make_ca(r->dir, "ca");
    make_ca(r->dir, "stranger");
    make_cert_for(r->dir, "ca", "server", "serverAuth", alt_names);
    make_cert_for(r->dir, "ca", "alice", "clientAuth", "DNS:alice");
    o.cert_file = test_path("%s/server.pem", r->dir);
    o.key_file = test_path("%s/server.key", r->dir);
    o.client_ca_file = client_cert ? test_path("%s/ca.pem", r->dir) : NULL;
    o.client_cert_required = client_cert;
    o.handler = handler;
    assert_ok(server_start(&o, &r->server, &e), &e);
    assert_ok(http_client_new(&r->client, &e), &e);
    snprintf(r->url, sizeof r->url, "https://127.0.0.1:%u", server_port(r->server));
}

static void rig_stop(struct rig *r)
{
    http_client_free(r->client);
    server_stop(r->server);
}

/* The body, or "error: ..."; in a static buffer. */
static const char *ask(struct rig *r, struct http_server_opts o)
{
    static char text[600];
    struct http_server *s;
    struct http_reply reply;
    struct err e;
    if (!o.url)
        o.url = r->url;
    assert_ok(http_server_new(&o, &s, &e), &e);
    if (http_do(r->client, s, &(struct http_request){.path = "/"}, &reply, &e))
        snprintf(text, sizeof text, "error: %s", e.msg);
    else
        snprintf(text, sizeof text, "%s", reply.body.p);
    http_reply_fini(&reply);
    http_server_free(s);
    return text;
}

static char *slurp(struct rig *r, const char *name)
{
    struct buf b;
    struct err e;
    assert_ok(file_read(test_path("%s/%s", r->dir, name), 1 << 16, &b, &e), &e);
    return buf_take(&b);
}

TEST(server_is_believed_by_its_authority_and_no_other)
{
    struct rig r;
    rig_start(&r, "IP:127.0.0.1", false);
    const char *ca = test_path("%s/ca.pem", r.dir), *stranger = test_path("%s/stranger.pem", r.dir);
    char *ca_pem = slurp(&r, "ca.pem"), *stranger_pem = slurp(&r, "stranger.pem");
    const char *good = "cn=- host=127.0.0.1", *bad = "error: GET https://127.0.0.1";
    const struct {
        struct http_server_opts o;
        const char *want;
    } rows[] = {
        {{.ca_file = ca}, good},
        {{.ca_file = stranger}, bad}, /* after the good one: its connection must not serve this */
        {{.ca_pem = ca_pem}, good},
        {{.ca_pem = stranger_pem}, bad},
        {{.ca_pem = stranger_pem, .ca_file = ca}, bad}, /* PEM wins */
        {{.insecure = false}, bad},                     /* the system's roots */
        {{.insecure = true}, good},
        {{.ca_file = ca}, good},
        {{.insecure = false}, bad}, /* after an unverified one */
        {{.ca_file = ca, .tls_server_name = "other.example"}, bad},
    };
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        const char *got = ask(&r, rows[i].o);
        if (strncmp(got, rows[i].want, strlen(rows[i].want)) != 0)
            fail_msg("row %zu: %s", i, got);
    }
    assert_non_null(strstr(ask(&r, (struct http_server_opts){.ca_file = stranger}), "certificate"));
    mem_free(ca_pem);
    mem_free(stranger_pem);
    rig_stop(&r);
}

TEST(stated_tls_name_is_checked_instead_of_the_host)
{
    struct rig r;
    rig_start(&r, "DNS:api.inner", false);
    const char *ca = test_path("%s/ca.pem", r.dir);
    assert_non_null(strstr(ask(&r, (struct http_server_opts){.ca_file = ca}), "error: "));
    /* the request still goes to the address, with its Host */
    assert_string_equal(
        ask(&r, (struct http_server_opts){.ca_file = ca, .tls_server_name = "api.inner"}),
        "cn=- host=127.0.0.1");
    rig_stop(&r);
}

TEST(client_certificate_is_shown_from_files_or_text)
{
    struct rig r;
    rig_start(&r, "IP:127.0.0.1", true);
    const char *ca = test_path("%s/ca.pem", r.dir);
    char *cert = slurp(&r, "alice.pem"), *key = slurp(&r, "alice.key");
    const char *cert_file = test_path("%s/alice.pem", r.dir),
               *key_file = test_path("%s/alice.key", r.dir);
    assert_non_null(strstr(
        ask(&r,
            (struct http_server_opts){.ca_file = ca, .cert_file = cert_file, .key_file = key_file}),
        "cn=alice"));
    assert_non_null(strstr(ask(&r, (struct http_server_opts){.ca_file = ca}), "error: "));
    assert_non_null(
        strstr(ask(&r, (struct http_server_opts){.ca_file = ca, .cert_pem = cert, .key_pem = key}),
               "cn=alice"));
    assert_non_null(strstr(
        ask(&r, (struct http_server_opts){.ca_file = ca, .cert_pem = "nonsense", .key_pem = key}),
        "error: "));
    mem_free(cert);
    mem_free(key);
    rig_stop(&r);
}

TEST(plain_request_to_a_tls_port_and_the_other_way_round_are_errors)
{
    struct rig r;
    rig_start(&r, "IP:127.0.0.1", false);
    char plain[64];
    snprintf(plain, sizeof plain, "http://127.0.0.1:%u", server_port(r.server));
    assert_int_equal(strncmp(ask(&r, (struct http_server_opts){.url = plain}), "cn=", 3) == 0,
                     false);
    rig_stop(&r);
}
