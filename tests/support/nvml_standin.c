#include "tests/support/nvml_standin.h"

#include "tests/support/test.h"

static const char source[] =
    "typedef struct { unsigned gpu, memory; } util;\n"
    "typedef struct { unsigned long long total, free, used; } mem;\n"
    "#ifndef INIT\n#define INIT 0\n#endif\n"
    "#ifndef COUNT\n#define COUNT 2\n#endif\n"
    "#ifndef UTIL\n#define UTIL 0\n#endif\n"
    "static char card[2];\n"
    "static int text(char *s, unsigned n, const char *t) { unsigned i = 0; while (i + 1 < n && t[i]) { s[i] = t[i]; i++; } s[i] = 0; return 0; }\n"
    "int nvmlInit_v2(void) { return INIT; }\n"
    "int nvmlShutdown(void) { return 0; }\n"
    "int nvmlDeviceGetCount_v2(unsigned *n) { *n = COUNT; return 0; }\n"
    "int nvmlDeviceGetHandleByIndex_v2(unsigned i, void **d) { *d = &card[i]; return 0; }\n"
    "int nvmlDeviceGetUUID(void *d, char *s, unsigned n) { return text(s, n, d == card ? \"GPU-a\" : \"GPU-b\"); }\n"
    "int nvmlDeviceGetName(void *d, char *s, unsigned n) { (void)d; return text(s, n, \"NVIDIA H100 80GB HBM3\"); }\n"
    "int nvmlDeviceGetUtilizationRates(void *d, util *u) { u->gpu = 40; u->memory = 10; return d == card ? 0 : UTIL; }\n"
    "#ifndef NO_MEMORY\n"
    "int nvmlDeviceGetMemoryInfo(void *d, mem *m) { (void)d; m->total = 80; m->used = 20; m->free = 60; return 0; }\n"
    "#endif\n"
    "#ifndef BARE\n"
    "int nvmlDeviceGetPowerUsage(void *d, unsigned *mw) { *mw = 350500; return d == card ? 0 : 3; }\n"
    "int nvmlDeviceGetTemperature(void *d, int s, unsigned *t) { (void)d; *t = 61; return s; }\n"
    "int nvmlSystemGetDriverVersion(char *s, unsigned n) { return text(s, n, \"580.105.08\"); }\n"
    "const char *nvmlErrorString(int r) { return r == 15 ? \"GPU is lost\" : r == 9 ? \"Driver Not Loaded\" : \"other\"; }\n"
    "#endif\n";

const char *nvml_standin(const char *flags)
{
    static int n;
    const char *c = test_path("%s/nvml.c", test_tmp_dir()), *so = test_path("%s/libnvml%d.so", test_tmp_dir(), n++);
    test_write_file(c, source, sizeof source - 1);
    if (system(test_path("cc -shared -fPIC %s -o %s %s", flags, so, c)) != 0)
        fail_msg("the stand-in does not compile");
    return so;
}
