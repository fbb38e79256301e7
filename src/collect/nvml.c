#include "collect/nvml.h"

#include <dlfcn.h>
#include <math.h>
#include <stdbool.h>
#include <string.h>

#include "base/mem.h"

/* The part of nvml.h used here; the library's ABI is stable. */
typedef void *nvml_device;
struct nvml_utilization {
    unsigned gpu, memory; /* per cent */
};
struct nvml_memory {
    unsigned long long total, free, used;
};
enum {
    NVML_SUCCESS = 0,
    NVML_NOT_SUPPORTED = 3,
    NVML_NO_PERMISSION = 4,
    NVML_FUNCTION_NOT_FOUND = 13,
    NVML_TEMPERATURE_GPU = 0,
};

/* X(member, symbol, required, return and arguments) */
#define CALL_LIST(X)                                                                               \
    X(init, "nvmlInit_v2", 1, int (*)(void))                                                       \
    X(shutdown, "nvmlShutdown", 1, int (*)(void))                                                  \
    X(count, "nvmlDeviceGetCount_v2", 1, int (*)(unsigned *))                                      \
    X(device, "nvmlDeviceGetHandleByIndex_v2", 1, int (*)(unsigned, nvml_device *))                \
    X(uuid, "nvmlDeviceGetUUID", 1, int (*)(nvml_device, char *, unsigned))                        \
    X(name, "nvmlDeviceGetName", 1, int (*)(nvml_device, char *, unsigned))                        \
    X(utilization, "nvmlDeviceGetUtilizationRates", 1, int (*)(nvml_device, struct nvml_utilization *)) \
    X(memory, "nvmlDeviceGetMemoryInfo", 1, int (*)(nvml_device, struct nvml_memory *))            \
    X(power, "nvmlDeviceGetPowerUsage", 0, int (*)(nvml_device, unsigned *))                       \
    X(temperature, "nvmlDeviceGetTemperature", 0, int (*)(nvml_device, int, unsigned *))           \
    X(driver, "nvmlSystemGetDriverVersion", 0, int (*)(char *, unsigned))                          \
    X(text, "nvmlErrorString", 0, const char *(*)(int))

struct calls {
#define X(member, symbol, required, type) __typeof__(type) member;
    CALL_LIST(X)
#undef X
};

struct nvml {
    void *library;
    struct calls f;
    char driver[80];
};

/* dlsym() returns an object pointer; copying it is how POSIX has it done. */
static enum err_code look_up(void *library, const char *symbol, bool required, void *to, struct err *e)
{
    void *p = dlsym(library, symbol);
    memcpy(to, &p, sizeof p);
    return p || !required ? ERR_OK : err_set(e, ERR_MISSING, "NVML has no %s", symbol);
}

static enum err_code look_up_all(struct nvml *n, struct err *e)
{
    enum err_code rc = ERR_OK;
#define X(member, symbol, required, type)                                                          \
    if (!rc)                                                                                       \
        rc = look_up(n->library, symbol, required, &n->f.member, e);
    CALL_LIST(X)
#undef X
    return rc;
}

static enum err_code failed(const struct nvml *n, int code, enum err_code rc, const char *what, struct err *e)
{
    return err_set(e, rc, "NVML: %s: %s (%d)", what, n->f.text ? n->f.text(code) : "error", code);
}

enum err_code nvml_open(const char *path, struct nvml **out, struct err *e)
{
    struct nvml *n = mem_zero(1, sizeof *n);
    *out = NULL;
    n->library = dlopen(path ? path : "libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL);
    enum err_code rc = n->library ? look_up_all(n, e) : err_set(e, ERR_MISSING, "NVML: %.300s", dlerror());
    int code = rc ? 0 : n->f.init();
    if (!rc && code != NVML_SUCCESS)
        rc = failed(n, code, ERR_MISSING, "start", e);
    if (rc) {
        if (n->library)
            (void)dlclose(n->library);
        mem_free(n);
        return rc;
    }
    if (!n->f.driver || n->f.driver(n->driver, sizeof n->driver) != NVML_SUCCESS)
        n->driver[0] = 0;
    n->driver[sizeof n->driver - 1] = 0;
    *out = n;
    return ERR_OK;
}

void nvml_close(struct nvml *n)
{
    if (!n)
        return;
    (void)n->f.shutdown();
    (void)dlclose(n->library);
    mem_free(n);
}

const char *nvml_driver(const struct nvml *n)
{
    return n->driver;
}

/* What a card does not have, or does not tell us, is missing; anything else is an error. */
static bool is_absent(int code)
{
    return code == NVML_NOT_SUPPORTED || code == NVML_NO_PERMISSION || code == NVML_FUNCTION_NOT_FOUND;
}

static enum err_code read_use(const struct nvml *n, nvml_device d, struct nvml_gpu *g, struct err *e)
{
    struct nvml_utilization u = {0};
    int code = n->f.utilization(d, &u);
    if (code == NVML_SUCCESS && u.gpu <= 100)
        g->gpu_util = u.gpu / 100.0;
    return code == NVML_SUCCESS || is_absent(code) ? ERR_OK : failed(n, code, ERR_IO, "utilization", e);
}

static enum err_code read_memory(const struct nvml *n, nvml_device d, struct nvml_gpu *g, struct err *e)
{
    struct nvml_memory m = {0};
    int code = n->f.memory(d, &m);
    if (code == NVML_SUCCESS && m.total > 0 && m.used <= m.total) {
        g->mem_total_bytes = (double)m.total;
        g->mem_used_bytes = (double)m.used;
        g->gpu_mem_util = g->mem_used_bytes / g->mem_total_bytes;
    }
    return code == NVML_SUCCESS || is_absent(code) ? ERR_OK : failed(n, code, ERR_IO, "memory", e);
}

static void read_extras(const struct nvml *n, nvml_device d, struct nvml_gpu *g)
{
    unsigned v;
    if (n->f.power && n->f.power(d, &v) == NVML_SUCCESS)
        g->power_w = v / 1000.0;
    if (n->f.temperature && n->f.temperature(d, NVML_TEMPERATURE_GPU, &v) == NVML_SUCCESS)
        g->temperature_c = v;
}

static enum err_code read_gpu(const struct nvml *n, unsigned index, struct nvml_gpu *g, struct err *e)
{
    nvml_device d;
    *g = (struct nvml_gpu){.gpu_util = NAN, .gpu_mem_util = NAN, .mem_total_bytes = NAN, .mem_used_bytes = NAN,
                           .power_w = NAN, .temperature_c = NAN};
    int code = n->f.device(index, &d);
    if (code != NVML_SUCCESS)
        return failed(n, code, ERR_IO, "device", e);
    if (n->f.uuid(d, g->uuid, sizeof g->uuid) != NVML_SUCCESS)
        g->uuid[0] = 0;
    if (n->f.name(d, g->name, sizeof g->name) != NVML_SUCCESS)
        g->name[0] = 0;
    g->uuid[sizeof g->uuid - 1] = g->name[sizeof g->name - 1] = 0;
    enum err_code rc = read_use(n, d, g, e);
    if (!rc)
        rc = read_memory(n, d, g, e);
    if (!rc)
        read_extras(n, d, g);
    return rc ? err_wrap(e, "GPU %u%s%s", index, g->uuid[0] ? " " : "", g->uuid) : ERR_OK;
}

enum err_code nvml_read(struct nvml *n, struct nvml_gpu *gpus, int max, int *n_gpus, struct err *e)
{
    unsigned count = 0;
    int code = n->f.count(&count);
    *n_gpus = 0;
    if (code != NVML_SUCCESS)
        return failed(n, code, ERR_IO, "count", e);
    if (count > NVML_GPUS_MAX)
        return err_set(e, ERR_LIMIT, "NVML: %u GPUs, more than %d", count, NVML_GPUS_MAX);
    for (unsigned i = 0; i < count && i < (unsigned)max; i++) {
        enum err_code rc = read_gpu(n, i, &gpus[i], e);
        if (rc)
            return rc;
    }
    *n_gpus = (int)count;
    return ERR_OK;
}
