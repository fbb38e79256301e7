/* certs.h - authorities and certificates for tests, made by openssl.  A name is that of its files, NAME.pem and
 * NAME.key, and of its subject. */
#ifndef TESTS_SUPPORT_CERTS_H
#define TESTS_SUPPORT_CERTS_H

#include "base/err.h"

/* Runs a command line; fails the test unless it succeeds. */
void shell(const char *fmt, ...) PRINTF_LIKE(1, 2);

/* An authority. */
void make_ca(const char *dir, const char *name);
/* A certificate of 127.0.0.1 signed by `ca`, good for two days; `use` is serverAuth or clientAuth. */
void make_cert(const char *dir, const char *ca, const char *name, const char *use);
/* The same for other names: "DNS:a,IP:::1". */
void make_cert_for(const char *dir, const char *ca, const char *name, const char *use, const char *alt_names);

#endif
