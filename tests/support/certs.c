#include "tests/support/certs.h"

#include "tests/support/test.h"

#define KEY "-newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes"

void shell(const char *fmt, ...)
{
    char command[2048];
    va_list ap;
    va_start(ap, fmt);
    (void)vsnprintf(command, sizeof command, fmt, ap);
    va_end(ap);
    if (system(command) != 0)
        fail_msg("failed: %s", command);
}

void make_ca(const char *dir, const char *name)
{
    shell("cd %s && openssl req -x509 " KEY " -days 2 -subj /CN=%s -keyout %s.key -out %s.pem 2>/dev/null", dir, name,
          name, name);
}

void make_cert_for(const char *dir, const char *ca, const char *name, const char *use, const char *alt_names)
{
    shell("cd %s && openssl req -new " KEY " -subj /CN=%s -keyout %s.key -out %s.csr 2>/dev/null && "
          "printf 'extendedKeyUsage=%s\\nsubjectAltName=%s' > %s.ext && "
          "openssl x509 -req -in %s.csr -CA %s.pem -CAkey %s.key -CAcreateserial -days 2 -extfile %s.ext "
          "-out %s.pem 2>/dev/null",
          dir, name, name, name, use, alt_names, name, name, ca, ca, name, name);
}

void make_cert(const char *dir, const char *ca, const char *name, const char *use)
{
    make_cert_for(dir, ca, name, use, "IP:127.0.0.1");
}
