/* server_tls_test.c - HTTPS: certificates made by openssl, a GnuTLS client, rotation, client
 * certificates. */
#include "net/server.h"

#include <arpa/inet.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include <gnutls/gnutls.h>
#include <gnutls/x509.h>

#include "base/clock.h"
#include "base/mem.h"
#include "tests/support/certs.h"
#include "tests/support/test.h"

static void handler(void *ctx, const struct server_request *in, struct server_reply *out)
{
    (void)ctx;
    out->status = 200;
    out->body = buf_init(1 << 16);
    buf_fmt(&out->body, "cn=%s", in->client_cn ? in->client_cn : "-");
}

/* One request over TLS; "" when the handshake or the answer failed.  `server_cn` gets the name on
 * the server's certificate. */
static const char *ask_tls(const struct server *s, const char *cert, const char *key,
                           char *server_cn, size_t n_cn)
{
    static char text[4096];
    size_t n = 0;
    text[0] = '\0';
    gnutls_certificate_credentials_t cred;
    gnutls_session_t tls;
    assert_int_equal(gnutls_certificate_allocate_credentials(&cred), 0);
    if (cert)
        assert_int_equal(gnutls_certificate_set_x509_key_file(cred, cert, key, GNUTLS_X509_FMT_PEM),
                         0);
    assert_int_equal(gnutls_init(&tls, GNUTLS_CLIENT | GNUTLS_NO_SIGNAL), 0);
    gnutls_set_default_priority(tls);
    gnutls_credentials_set(tls, GNUTLS_CRD_CERTIFICATE, cred);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    struct sockaddr_in a = {.sin_family = AF_INET,
                            .sin_port = htons(server_port(s)),
                            .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    assert_int_equal(connect(fd, (struct sockaddr *)&a, sizeof a), 0);
    gnutls_transport_set_int(tls, fd);
    gnutls_handshake_set_timeout(tls, 10000);
    int rc;
    do {
        rc = gnutls_handshake(tls);
    } while (rc < 0 && !gnutls_error_is_fatal(rc));
    if (rc == 0) {
        unsigned n_raw = 0;
        const gnutls_datum_t *raw = gnutls_certificate_get_peers(tls, &n_raw);
        gnutls_x509_crt_t crt;
        if (raw && server_cn && gnutls_x509_crt_init(&crt) == 0) {
            gnutls_x509_crt_import(crt, raw, GNUTLS_X509_FMT_DER);
            gnutls_x509_crt_get_dn_by_oid(crt, GNUTLS_OID_X520_COMMON_NAME, 0, 0, server_cn, &n_cn);
            gnutls_x509_crt_deinit(crt);
        }
        const char *r = "GET / HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n";
        if (gnutls_record_send(tls, r, strlen(r)) > 0) {
            ssize_t got;
            while ((got = gnutls_record_recv(tls, text + n, sizeof text - 1 - n)) > 0 ||
                   got == GNUTLS_E_AGAIN || got == GNUTLS_E_INTERRUPTED) {
                n += got > 0 ? (size_t)got : 0;
                text[n] = '\0';
            }
        }
    }
    gnutls_deinit(tls);
    gnutls_certificate_free_credentials(cred);
    close(fd);
    return text;
}

static struct server_opts opts(const char *dir)
{
    struct server_opts o = server_opts_default();
    o.cert_file = test_path("%s/server.pem", dir);
    o.key_file = test_path("%s/server.key", dir);
    o.handler = handler;
    return o;
}

TEST(https_answers_and_a_rotated_certificate_serves_the_next_connection)
{
    const char *dir = test_tmp_dir();
    make_ca(dir, "ca");
    make_cert(dir, "ca", "server", "serverAuth");
    struct server_opts o = opts(dir);
    struct server *s = NULL;
    struct err e;
    assert_ok(server_start(&o, &s, &e), &e);
    char cn[64] = "";
    assert_non_null(strstr(ask_tls(s, NULL, NULL, cn, sizeof cn), "cn=-"));
    assert_string_equal(cn, "server");

    make_cert(dir, "ca", "next", "serverAuth");
    shell("cd %s && cp next.pem server.pem", dir);
    assert_err(server_reload_tls(s, &e), ERR_MISMATCH, &e, "not the key of the certificate");
    assert_non_null(strstr(ask_tls(s, NULL, NULL, cn, sizeof cn), "cn=-"));
    assert_string_equal(cn, "server"); /* the old pair is kept */
    shell("cd %s && cp next.key server.key", dir);
    assert_ok(server_reload_tls(s, &e), &e);
    assert_ok(server_reload_tls(s, &e), &e); /* unchanged files */
    assert_non_null(strstr(ask_tls(s, NULL, NULL, cn, sizeof cn), "cn=-"));
    assert_string_equal(cn, "next");
    server_stop(s);
}

TEST(client_certificates_name_the_client_and_bad_ones_end_the_handshake)
{
    const char *dir = test_tmp_dir();
    make_ca(dir, "ca");
    make_ca(dir, "stranger");
    make_cert(dir, "ca", "server", "serverAuth");
    make_cert(dir, "ca", "alice", "clientAuth");
    make_cert(dir, "stranger", "mallory", "clientAuth");
    make_cert(dir, "ca", "web", "serverAuth");
    static const struct {
        const char *who;
        const char *optional, *required; /* what comes back; "": no answer */
    } row[] = {
        {NULL, "cn=-", ""},
        {"alice", "cn=alice", "cn=alice"},
        {"mallory", "", ""},
        {"web", "", ""}, /* a server's certificate is not one for a client */
    };
    for (int required = 0; required < 2; required++) {
        struct server_opts o = opts(dir);
        o.client_ca_file = test_path("%s/ca.pem", dir);
        o.client_cert_required = required;
        struct server *s = NULL;
        struct err e;
        assert_ok(server_start(&o, &s, &e), &e);
        for (size_t i = 0; i < ARRAY_LEN(row); i++) {
            const char *cert = row[i].who ? test_path("%s/%s.pem", dir, row[i].who) : NULL;
            const char *key = row[i].who ? test_path("%s/%s.key", dir, row[i].who) : NULL;
            const char *want = required ? row[i].required : row[i].optional;
            const char *got = ask_tls(s, cert, key, NULL, 0);
            if (*want ? !strstr(got, want) : *got != '\0')
                fail_msg("%s, required %d: wanted \"%s\", got \"%s\"",
                         row[i].who ? row[i].who : "nobody", required, want, got);
        }
        server_stop(s);
    }
}

static time_t in_ten_days(time_t *t)
{
    time_t now = (time_t)(clock_wall_us() / US_PER_S) + 10 * 86400;
    if (t)
        *t = now;
    return now;
}

TEST(an_expired_client_certificate_ends_the_handshake)
{
    const char *dir = test_tmp_dir();
    make_ca(dir, "ca");
    make_cert(dir, "ca", "server", "serverAuth");
    make_cert(dir, "ca", "alice", "clientAuth");
    struct server_opts o = opts(dir);
    o.client_ca_file = test_path("%s/ca.pem", dir);
    struct server *s = NULL;
    struct err e;
    assert_ok(server_start(&o, &s, &e), &e);
    const char *cert = test_path("%s/alice.pem", dir), *key = test_path("%s/alice.key", dir);
    assert_non_null(strstr(ask_tls(s, cert, key, NULL, 0), "cn=alice"));
    gnutls_global_set_time_function(in_ten_days);
    const char *got = ask_tls(s, cert, key, NULL, 0);
    gnutls_global_set_time_function(time);
    assert_string_equal(got, "");
    server_stop(s);
}

TEST(files_that_are_no_certificates_are_errors)
{
    const char *dir = test_tmp_dir();
    make_ca(dir, "ca");
    make_cert(dir, "ca", "server", "serverAuth");
    struct server_opts o = opts(dir);
    struct server *s = NULL;
    struct err e;
    o.cert_file = o.key_file;
    assert_err(server_start(&o, &s, &e), ERR_PARSE, &e, "server.key");
    o = opts(dir);
    o.client_ca_file = o.key_file;
    assert_err(server_start(&o, &s, &e), ERR_PARSE, &e, "server.key");
}

TEST(a_client_that_never_shakes_hands_is_cut)
{
    const char *dir = test_tmp_dir();
    make_ca(dir, "ca");
    make_cert(dir, "ca", "server", "serverAuth");
    struct server_opts o = opts(dir);
    o.idle_us = US_PER_S; /* a busy machine takes a tenth of it for a handshake that is meant */
    struct server *s = NULL;
    struct err e;
    assert_ok(server_start(&o, &s, &e), &e);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    struct sockaddr_in a = {.sin_family = AF_INET,
                            .sin_port = htons(server_port(s)),
                            .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    assert_int_equal(connect(fd, (struct sockaddr *)&a, sizeof a), 0);
    struct timeval t = {.tv_sec = 10};
    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &t, sizeof t);
    char c;
    assert_true(recv(fd, &c, 1, 0) <= 0);
    assert_true(send(fd, "GET / HTTP/1.1\r\n\r\n", 18, MSG_NOSIGNAL) >= -1);
    close(fd);
    assert_non_null(strstr(ask_tls(s, NULL, NULL, NULL, 0), "cn=-"));
    server_stop(s);
}
