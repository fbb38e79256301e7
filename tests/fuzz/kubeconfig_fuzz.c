/* kubeconfig_fuzz.c - arbitrary bytes as a kubeconfig file, as what a credential plugin printed,
 * and as base64. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/mem.h"
#include "kube/config_priv.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const char *no_env(const char *key)
{
    (void)key;
    return NULL;
}

static void as_file(const uint8_t *data, size_t size)
{
    static int fd = -1; /* one file for all inputs */
    static char path[64];
    struct kube_config_opts o = {.path = path, .env = no_env, .root = "/nowhere"};
    struct kube_config *c;
    struct err e;
    if (fd < 0) {
        fd = memfd_create("kubeconfig", 0);
        snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    }
    if (fd < 0 || ftruncate(fd, 0) || pwrite(fd, data, size, 0) != (ssize_t)size)
        abort();
    if (kube_config_load(&o, &c, &e) == ERR_OK) {
        struct http_server *s;
        if (!c->server.url || !c->ns || (c->exec && !c->exec->command))
            abort();
        if (http_server_new(&c->server, &s, &e) == ERR_OK)
            http_server_free(s);
        kube_config_free(c);
    } else if (!e.msg[0]) {
        abort();
    }
}

static void as_credential(const char *text, size_t n)
{
    struct kube_credential cred;
    struct err e;
    if (kube_credential_parse(text, n, "client.authentication.k8s.io/v1", &cred, &e) == ERR_OK &&
        !cred.token && !cred.cert_pem)
        abort();
    kube_credential_fini(&cred);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *text = mem_zero(size + 1, 1), *plain;
    size_t n;
    memcpy(text, data, size);
    as_file(data, size);
    as_credential(text, size);
    if (base64_decode(text, &plain, &n)) {
        if (plain[n] != '\0' || n > size)
            abort();
        mem_free(plain);
    }
    mem_free(text);
    return 0;
}

/* libfyaml loses a buffer when a quoted scalar is broken off, as in yaml_fuzz.c. */
const char *__lsan_default_suppressions(void);
const char *__lsan_default_suppressions(void)
{
    return "leak:libfyaml";
}
