#include "tests/support/test.h"

enum { MAX_TESTS = 2000 };
static struct CMUnitTest tests[MAX_TESTS]; /* the only state: the registry, filled before main */
static size_t n_tests;

void test_register(const char *name, CMUnitTestFunction fn)
{
    ASSERT(n_tests < MAX_TESTS);
    tests[n_tests++] = (struct CMUnitTest){.name = name, .test_func = fn};
}

int main(int argc, char **argv)
{
    if (argc > 1 && strcmp(argv[1], "-l") == 0) {
        for (size_t i = 0; i < n_tests; i++)
            puts(tests[i].name);
        return 0;
    }
    char pattern[256];
    if (argc > 1) {
        (void)snprintf(pattern, sizeof pattern, "*%s*", argv[1]);
        cmocka_set_test_filter(pattern);
    }
    int failed = _cmocka_run_group_tests(argv[0], tests, n_tests, NULL, NULL);
    if (failed)
        (void)fprintf(stderr, "TEST_SEED=%llu\n", (unsigned long long)test_seed());
    return failed ? 1 : 0;
}
