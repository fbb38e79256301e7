/* nvml_test.c - NVML as a stand-in library that the test compiles. */
#include <math.h>

#include "base/mem.h"
#include "collect/nvml.h"
#include "tests/support/nvml_standin.h"
#include "tests/support/test.h"

TEST(use_memory_power_and_temperature_of_every_card_are_read)
{
    struct nvml *n;
    struct nvml_gpu g[4];
    struct err e;
    int count;
    assert_ok(nvml_open(nvml_standin(""), &n, &e), &e);
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
        assert_ok(nvml_open(nvml_standin(flags[i]), &n, &e), &e);
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
    assert_ok(nvml_open(nvml_standin("-DUTIL=15"), &n, &e), &e);
    assert_err(nvml_read(n, g, 2, &count, &e), ERR_IO, &e, "GPU 1 GPU-b: NVML: utilization: GPU is lost (15)");
    assert_int_equal(count, 0);
    nvml_close(n);
}

TEST(a_machine_without_driver_or_library_says_so)
{
    struct nvml *n;
    struct err e;
    assert_err(nvml_open("/nowhere/libnvidia-ml.so.1", &n, &e), ERR_MISSING, &e, "/nowhere/libnvidia-ml.so.1");
    assert_err(nvml_open(nvml_standin("-DINIT=9"), &n, &e), ERR_MISSING, &e, "Driver Not Loaded (9)");
    assert_err(nvml_open(nvml_standin("-DNO_MEMORY"), &n, &e), ERR_MISSING, &e, "NVML has no nvmlDeviceGetMemoryInfo");
    assert_null(n);
    nvml_close(NULL);
}

TEST(more_cards_than_a_machine_holds_are_refused)
{
    struct nvml *n;
    struct nvml_gpu g[2];
    struct err e;
    int count;
    assert_ok(nvml_open(nvml_standin("-DCOUNT=1000000"), &n, &e), &e);
    assert_err(nvml_read(n, g, 2, &count, &e), ERR_LIMIT, &e, "1000000 GPUs");
    nvml_close(n);
}
