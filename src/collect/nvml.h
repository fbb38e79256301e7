/* nvml.h - GPUs of this machine through NVML, loaded at run time.
 *
 * libnvidia-ml.so.1 comes with the driver, so it is opened with dlopen() and only the few entry points used
 * are looked up.  What a card does not support is NaN.  One thread. Source: NVIDIA's NVML API reference
 * (nvmlDeviceGetUtilizationRates, nvmlDeviceGetMemoryInfo ...). */
#ifndef COLLECT_NVML_H
#define COLLECT_NVML_H

#include <stdint.h>

#include "base/err.h"

enum { NVML_GPUS_MAX = 64 };
struct nvml_gpu {
    char uuid[96];
    char name[96];
    double gpu_util, gpu_mem_util; /* fractions; NaN not supported */
    double mem_total_bytes, mem_used_bytes;
    double power_w, temperature_c;
};

struct nvml;
/* path: NULL for libnvidia-ml.so.1.  Errors: ERR_MISSING without the library, a symbol, or the driver;
 * ERR_IO. */
NODISCARD enum err_code nvml_open(const char *path, struct nvml **out, struct err *e);
void nvml_close(struct nvml *n); /* NULL is fine */
const char *nvml_driver(const struct nvml *n); /* version, "" unknown */
/* At most max cards; *n_gpus is how many there are.  A card that fell off the bus is an error naming it. */
NODISCARD enum err_code nvml_read(struct nvml *n, struct nvml_gpu *gpus, int max, int *n_gpus, struct err *e);

#endif
