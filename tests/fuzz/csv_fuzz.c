/* csv_fuzz.c - arbitrary bytes as delimited text; the first byte picks the options.
 * What is accepted must be a history that can be written: every value in range, bars 0 or 1. */
#include <float.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/mem.h"
#include "base/opt.h"
#include "history/file.h"
#include "history/import.h"
#include "history/inspect.h"
#include "history/table.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { OPTIONS_MAX = 6 };
static const char *const sets[][OPTIONS_MAX] = {
    {"time=t", "qps=v", "max_bad=1"},
    {"time=1", "qps=2", "max_bad=1", "zone=Europe/Berlin", "zero_gap=30s"},
    {"time=t", "metric=m", "value=v", "qps=q", "cpu_util=c"},
    {"time=t", "qps=v", "series=p", "combine=sum", "counter=qps"},
    {"time_format=row", "step=60s", "qps=v+w", "max_bad=1", "per_step=qps"},
    {"time=t", "events=true", "step=10s", "max_bad=1"},
    {"max_bad=1", "combine=mean", "step=90s", "stamp=end"},
    {"time=t", "qps=v", "where=p=a", "missing=-1", "scale=qps=1e300", "max_bad=1"},
};

static void check(const struct history *h)
{
    struct inspect in;
    struct err e;
    for (int f = 0; f < FIELD_COUNT; f++)
        for (int64_t i = 0; h->col[f] && i < h->n; i++)
            if (h->col[f][i] < 0 || h->col[f][i] > FLT_MAX)
                abort();
    if (h->data_hash != history_hash(h) || history_inspect(h, &in, &e))
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct import_cfg cfg;
    struct import_report rep;
    struct history h;
    struct err e;
    char path[64], *paths[1] = {path};
    if (size < 1)
        return 0;
    int fd = memfd_create("csv", 0);
    if (fd < 0 || write(fd, data + 1, size - 1) != (ssize_t)(size - 1))
        abort();
    (void)snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    opt_init(&import_table, &cfg);
    const char *const *set = sets[data[0] % ARRAY_LEN(sets)];
    for (int i = 0; i < OPTIONS_MAX && set[i]; i++)
        if (opt_set(&import_table, &cfg, set[i], NULL, &e))
            abort();
    if (!import_run("csv", &cfg, paths, 1, &h, &rep, &e)) {
        if (h.n < 1000000)
            check(&h);
        history_close(&h);
    }
    opt_fini(&import_table, &cfg);
    (void)close(fd);
    return 0;
}
