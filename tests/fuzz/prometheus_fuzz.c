/* prometheus_fuzz.c - arbitrary bytes as an answer of the Prometheus API; the first byte picks the
 * options. */
#include <float.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/mem.h"
#include "base/opt.h"
#include "history/import.h"
#include "history/table.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { OPTIONS_MAX = 4 };
static const char *const sets[][OPTIONS_MAX] = {
    {"qps=*"},
    {"qps=*", "combine=sum", "counter=qps", "max_bad=1"},
    {"qps=up{job=\"x\"}", "cpu_util={pod=\"a\"}", "combine=mean", "step=7s"},
    {"qps=*", "per_step=qps", "combine=max", "zero_gap=10s"},
};

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct import_cfg cfg;
    struct import_report rep;
    struct history h;
    struct err e;
    char path[64], *paths[1] = {path};
    if (size < 1)
        return 0;
    int fd = memfd_create("prom", 0);
    if (fd < 0 || write(fd, data + 1, size - 1) != (ssize_t)(size - 1))
        abort();
    (void)snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    opt_init(&import_table, &cfg);
    const char *const *set = sets[data[0] % ARRAY_LEN(sets)];
    for (int i = 0; i < OPTIONS_MAX && set[i]; i++)
        if (opt_set(&import_table, &cfg, set[i], NULL, &e))
            abort();
    if (!import_run("prometheus", &cfg, paths, 1, &h, &rep, &e)) {
        for (int f = 0; f < FIELD_COUNT; f++)
            for (int64_t i = 0; h.col[f] && i < h.n; i++)
                if (h.col[f][i] < 0 || h.col[f][i] > FLT_MAX)
                    abort();
        history_close(&h);
    }
    opt_fini(&import_table, &cfg);
    (void)close(fd);
    return 0;
}
