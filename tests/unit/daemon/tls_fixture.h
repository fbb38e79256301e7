/* tls_fixture.h - certificates made by openssl, and requests over TLS with any header (openssl
 * s_client). */
#ifndef TESTS_UNIT_DAEMON_TLS_FIXTURE_H
#define TESTS_UNIT_DAEMON_TLS_FIXTURE_H

#include "tests/unit/daemon/serve_fixture.h"

static inline void shell(const char *fmt, ...) PRINTF_LIKE(1, 2);
static inline void shell(const char *fmt, ...)
{
    char command[2048];
    va_list ap;
    va_start(ap, fmt);
    (void)vsnprintf(command, sizeof command, fmt, ap);
    va_end(ap);
    if (system(command) != 0)
        fail_msg("failed: %s", command);
}

/* An authority `name`.pem, `name`.key in dir. */
static inline void make_ca(const char *dir, const char *name)
{
    shell("cd %s && openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2 "
          "-subj /CN=%s -keyout %s.key -out %s.pem 2>/dev/null",
          dir, name, name, name);
}

/* A certificate signed by it; `use` is serverAuth or clientAuth. */
static inline void make_cert(const char *dir, const char *ca, const char *name, const char *use)
{
    shell("cd %s && openssl req -new -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes "
          "-subj /CN=%s -keyout %s.key -out %s.csr 2>/dev/null && "
          "printf 'extendedKeyUsage=%s\\nsubjectAltName=IP:127.0.0.1' > %s.ext && "
          "openssl x509 -req -in %s.csr -CA %s.pem -CAkey %s.key -CAcreateserial -days 2 "
          "-extfile %s.ext -out %s.pem 2>/dev/null",
          dir, name, name, name, use, name, name, ca, ca, name, name);
}

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
