/* tls_fixture.h - requests over TLS with any header (openssl s_client). */
#ifndef TESTS_UNIT_DAEMON_TLS_FIXTURE_H
#define TESTS_UNIT_DAEMON_TLS_FIXTURE_H

#include "tests/support/certs.h"
#include "tests/unit/daemon/serve_fixture.h"

/* Status of one request, 0 when there was no answer; its body goes to `body`.  who: certificate
 * shown, or NULL. headers: lines, each ended by \r\n.  The server is verified against
 * serving-ca.pem. */
static inline int tls_ask(const struct rig *r, uint16_t port, const char *who, const char *method,
                          const char *path, const char *headers, char *body, size_t size)
{
    char text[8192], cert[200] = "";
    const char *at = text;
    (void)snprintf(text, sizeof text, "%s %s HTTP/1.1\r\nHost: x\r\nConnection: close\r\n%s\r\n",
                   method, path, headers);
    test_write_file(test_path("%s/request", r->dir), text, strlen(text));
    if (who)
        (void)snprintf(cert, sizeof cert, "-cert %s.pem -key %s.key", who, who);
    shell(
        "cd %s && timeout 30 openssl s_client -quiet -connect 127.0.0.1:%d -CAfile serving-ca.pem "
        "-verify_return_error %s < request > answer 2> log || true",
        r->dir, port, cert);
    FILE *f = fopen(test_path("%s/answer", r->dir), "r");
    assert_non_null(f);
    text[fread(text, 1, sizeof text - 1, f)] = '\0';
    (void)fclose(f);
    at = strstr(text, "\r\n\r\n");
    (void)snprintf(body, size, "%s", at ? at + 4 : "");
    return strncmp(text, "HTTP/1.1 ", 9) == 0 ? (int)strtol(text + 9, NULL, 10) : 0;
}

#endif
