/* field.h - the measured fields of one record, their names and units.
 *
 * One list feeds the enum, the column names of history files, CSV mappings, queries and docs.
 * Fractions are 0..1.  A value that was not measured is NaN ("missing"), never 0. */
#ifndef MODEL_FIELD_H
#define MODEL_FIELD_H

/* X(id, name, unit, is_load): load is interpolated between native samples, gauges are held. */
#define FIELD_LIST(X)                                                                              \
    X(GPU_UTIL, "gpu_util", "fraction", 0)                                                         \
    X(GPU_MEM_UTIL, "gpu_mem_util", "fraction", 0)                                                 \
    X(CPU_UTIL, "cpu_util", "fraction", 0)                                                         \
    X(MEM_UTIL, "mem_util", "fraction", 0)                                                         \
    X(QPS, "qps", "1/s", 1)                                                                        \
    X(P50_LATENCY_MS, "p50_latency_ms", "ms", 0)                                                   \
    X(P99_LATENCY_MS, "p99_latency_ms", "ms", 0)                                                   \
    X(QUEUE_LEN, "queue_len", "requests", 0)                                                       \
    X(UNITS_READY, "units_ready", "units", 0)                                                      \
    X(UNITS_TOTAL, "units_total", "units", 0)

enum field {
#define X(id, name, unit, is_load) FIELD_##id,
    FIELD_LIST(X)
#undef X
        FIELD_COUNT
};

struct field_info {
    const char *name;
    const char *unit;
    int is_load;
};

const struct field_info *field_get(enum field f);
int field_find(const char *name); /* enum field, or -1 */

#endif
