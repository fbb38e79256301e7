/* nvml_test.c - NVML as a stand-in library that the test compiles. */
#include <math.h>

#include "base/mem.h"
#include "collect/nvml.h"
#include "tests/support/test.h"

/* Two cards; what goes wrong is chosen by macros. */
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

static const char *build(const char *flags)
{
    static int n;
    const char *c = test_path("%s/nvml.c", test_tmp_dir()), *so = test_path("%s/libnvml%d.so", test_tmp_dir(), n++);
    test_write_file(c, source, sizeof source - 1);
    if (system(test_path("cc -shared -fPIC %s -o %s %s", flags, so, c)) != 0)
        fail_msg("the stand-in does not compile");
    return so;
}

TEST(use_memory_power_and_temperature_of_every_card_are_read)
{
    struct nvml *n;
    struct nvml_gpu g[4];
    struct err e;
    int count;
    assert_ok(nvml_open(build(""), &n, &e), &e);
    assert_string_equal(nvml_driver(n), "580.105.08");
    assert_ok(nvml_read(n, g, 4, &count, &e), &e);
    assert_int_equal(count, 2);
    assert_string_equal(g[0].uuid, "GPU-a");
    assert_string_equal(g[1].name, "NVIDIA H100 80GB HBM3");
    assert_near(g[0].gpu_util, 0.4, 1e-12, 0);
    assert_near(g[0].gpu_mem_util, 0.25, 1e-12, 0);
    assert_near(g[0].mem_total_bytes, 80, 0, 0);
    assert_near(g[0].power_w, 350.5, 1e-9, 0);
    assert_near(g[0].temperature_c, 61, 0, 0);
    assert_true(isnan(g[1].power_w)); /* not supported */
    assert_ok(nvml_read(n, g, 1, &count, &e), &e);
    assert_int_equal(count, 2);
    nvml_close(n);
}

TEST(what_a_card_or_driver_does_not_have_is_missing)
{
    static const char *const flags[] = {"-DUTIL=3", "-DUTIL=4 -DBARE", "-DUTIL=13"};
    for (size_t i = 0; i < ARRAY_LEN(flags); i++) {
        struct nvml *n;
        struct nvml_gpu g[2];
        struct err e;
        int count;
        assert_ok(nvml_open(build(flags[i]), &n, &e), &e);
        assert_ok(nvml_read(n, g, 2, &count, &e), &e);
        assert_near(g[0].gpu_util, 0.4, 1e-12, 0);
        assert_true(isnan(g[1].gpu_util));
        assert_near(g[1].gpu_mem_util, 0.25, 1e-12, 0);
        nvml_close(n);
    }
}

TEST(a_lost_card_is_an_error_that_names_it)
{
    struct nvml *n;
    struct nvml_gpu g[2];
    struct err e;
    int count;
    assert_ok(nvml_open(build("-DUTIL=15"), &n, &e), &e);
    assert_err(nvml_read(n, g, 2, &count, &e), ERR_IO, &e, "GPU 1 GPU-b: NVML: utilization: GPU is lost (15)");
    assert_int_equal(count, 0);
    nvml_close(n);
}

TEST(a_machine_without_driver_or_library_says_so)
{
    struct nvml *n;
    struct err e;
    assert_err(nvml_open("/nowhere/libnvidia-ml.so.1", &n, &e), ERR_MISSING, &e, "/nowhere/libnvidia-ml.so.1");
    assert_err(nvml_open(build("-DINIT=9"), &n, &e), ERR_MISSING, &e, "Driver Not Loaded (9)");
    assert_err(nvml_open(build("-DNO_MEMORY"), &n, &e), ERR_MISSING, &e, "NVML has no nvmlDeviceGetMemoryInfo");
    assert_null(n);
    nvml_close(NULL);
}

TEST(more_cards_than_a_machine_holds_are_refused)
{
    struct nvml *n;
    struct nvml_gpu g[2];
    struct err e;
    int count;
    assert_ok(nvml_open(build("-DCOUNT=1000000"), &n, &e), &e);
    assert_err(nvml_read(n, g, 2, &count, &e), ERR_LIMIT, &e, "1000000 GPUs");
    nvml_close(n);
}
