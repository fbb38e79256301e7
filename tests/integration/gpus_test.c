/* gpus_test.c - `sluice gpus` as a program, over a stand-in for NVML. */
#include <sys/wait.h>
#include <unistd.h>

#include "tests/support/nvml_standin.h"
#include "tests/support/test.h"

static int say(const char *args, char *out, size_t size)
{
    FILE *f = popen(test_path("%s gpus %s 2>&1", test_program(), args), "r");
    assert_non_null(f);
    size_t n = fread(out, 1, size - 1, f);
    out[n] = 0;
    int status = pclose(f);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

TEST(gpus_are_listed_for_people_and_for_a_scrape)
{
    char out[8192];
    const char *library = nvml_standin("");
    assert_int_equal(say(test_path("--library %s --format csv", library), out, sizeof out), 0);
    assert_non_null(strstr(out, "1,GPU-b,NVIDIA H100 80GB HBM3,0.4,0.25,"));
    assert_int_equal(say(test_path("--library %s --exposition", library), out, sizeof out), 0);
    assert_non_null(strstr(out, "DCGM_FI_DEV_GPU_UTIL{gpu=\"0\",UUID=\"GPU-a\",modelName=\"NVIDIA H100 80GB HBM3\"} 40\n"));
    assert_null(strstr(out, "DCGM_FI_DEV_POWER_USAGE{gpu=\"1\"")); /* not supported */
}

TEST(a_machine_without_gpus_says_so)
{
    char out[8192];
    assert_int_equal(say("--library /nowhere/nvml.so", out, sizeof out), 1);
    assert_non_null(strstr(out, "/nowhere/nvml.so"));
    assert_int_equal(say("--exposition --format json", out, sizeof out), 2);
}
