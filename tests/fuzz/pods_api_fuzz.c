/* pods_api_fuzz.c - arbitrary bytes as the list of metrics.k8s.io; whatever it says, values stay fractions. */
#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "collect/collect.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

struct body {
    const char *p;
    size_t n;
};

static bool pod(void *ctx, const char *namespace, const char *name, struct collect_pod *out)
{
    (void)ctx;
    *out = (struct collect_pod){.target = (int)(strlen(namespace) + strlen(name)) % 4 - 1, .cpu_cores = 2, .mem_bytes = 1e9};
    return strlen(name) % 5 != 0;
}

static enum err_code get(void *ctx, const char *path, size_t cap,
                         void (*done)(void *arg, enum err_code rc, const char *body, size_t n, const struct err *e),
                         void *arg, struct err *e)
{
    const struct body *b = ctx;
    (void)path;
    (void)cap;
    (void)e;
    done(arg, ERR_OK, b->p, b->n, NULL);
    return ERR_OK;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct body body = {(const char *)data, size};
    struct queries_cfg cfg;
    struct collect_opts o = collect_opts_default();
    struct collect *c;
    struct collect_sample s;
    opt_init(&queries_table, &cfg);
    o.queries = &cfg;
    o.max_targets = 4;
    o.pod = pod;
    o.kube_get = get;
    o.ctx = &body;
    if (collect_new(&o, &c, NULL))
        abort();
    for (int i = 0; i < 3; i++)
        if (collect_set(c, i, &(struct collect_target){.namespace = "a", .name = {(char)('a' + i)}, .kind = "K"}, NULL))
            abort();
    collect_start_round(c, 1000000);
    if (collect_running(c))
        abort();
    for (int i = 0; i < 3; i++)
        if (collect_view(c, i, 1000000, &s))
            for (int f = 0; f < FIELD_COUNT; f++)
                if (!isnan(s.last[f]) && !(s.last[f] >= 0 && s.last[f] <= 1))
                    abort();
    collect_free(c);
    opt_fini(&queries_table, &cfg);
    return 0;
}
