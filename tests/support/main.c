/* main.c - `run [-l] [SUBSTRING]`: lists or runs the tests of one binary.  Tells the time of a test that took
 * longer than $TEST_SLOW_S seconds (5). */
#include <time.h>

#include "base/signal.h"
#include "tests/support/fail.h"
#include "tests/support/test.h"

enum { MAX_TESTS = 2000 };
static struct CMUnitTest tests[MAX_TESTS]; /* the only state: the registry, filled before main */
static size_t n_tests;

static double now_s(void)
{
    struct timespec t;
    (void)clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static double slow_s(void)
{
    const char *s = getenv("TEST_SLOW_S");
    return s && *s ? strtod(s, NULL) : 5;
}

static int note_start(void **state)
{
    static double start_s;
    (void)fail_off(); /* a test that ended in an assert may have left it on */
    start_s = now_s();
    *state = &start_s;
    return 0;
}

static int tell_time(void **state)
{
    double took_s = now_s() - *(double *)*state;
    if (took_s > slow_s())
        print_message("[   TIME   ] %.1f s\n", took_s);
    return 0;
}

void test_register(const char *name, CMUnitTestFunction fn)
{
    ASSERT(n_tests < MAX_TESTS);
    tests[n_tests++] = (struct CMUnitTest){
        .name = name, .test_func = fn, .setup_func = note_start, .teardown_func = tell_time};
}

int main(int argc, char **argv)
{
    if (argc > 1 && strcmp(argv[1], "-l") == 0) {
        for (size_t i = 0; i < n_tests; i++)
            puts(tests[i].name);
        return 0;
    }
    char pattern[256];
    signal_ignore_pipe(); /* as the program does */
    if (argc > 1) {
        (void)snprintf(pattern, sizeof pattern, "*%s*", argv[1]);
        cmocka_set_test_filter(pattern);
    }
    int failed = _cmocka_run_group_tests(argv[0], tests, n_tests, NULL, NULL);
    if (failed)
        (void)fprintf(stderr, "TEST_SEED=%llu\n", (unsigned long long)test_seed());
    return failed ? 1 : 0;
}
