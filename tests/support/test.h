/* test.h - what every test file needs: cmocka, registration, asserts that print both values, skips.
 *
 * A test is a function in tests/<kind>/<folder>/<module>_test.c whose name is a sentence:
 *
 *     TEST(median_of_an_even_count_is_the_mean_of_the_middle_two) { ... assert_int_equal(...); }
 *
 * All files of one folder link into one binary, `run [-l] [SUBSTRING]`.  Tests that need the shared
 * data sets start with `const char *dir = test_data_dir();` which skips by name where it is absent. */
#ifndef TESTS_SUPPORT_TEST_H
#define TESTS_SUPPORT_TEST_H

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/err.h"

void test_register(const char *name, CMUnitTestFunction fn);

#define TEST(name)                                                                                 \
    static void name(void **state);                                                                \
    __attribute__((constructor)) static void register_##name(void)                                 \
    {                                                                                              \
        test_register(#name, name);                                                                \
    }                                                                                              \
    static void name(__attribute__((unused)) void **state)

/* Folder of the public data sets ($SLUICE_DATA, else ../shared/data); skips the test if absent. */
const char *test_data_dir(void);
/* A fresh empty folder under $TMPDIR, removed when the process ends. */
const char *test_tmp_dir(void);
/* The program that belongs to this test binary ($SLUICE_BIN, else of the same configuration); fails the test if it is
 * not built. */
const char *test_program(void);
/* Seed of randomised tests: $TEST_SEED, else 1; printed when the run fails. */
uint64_t test_seed(void);
/* Path in a static ring of 8 buffers: printf-like. */
const char *test_path(const char *fmt, ...) PRINTF_LIKE(1, 2);
/* Writes bytes to path; fails the test if it cannot. */
void test_write_file(const char *path, const void *bytes, size_t n);

/* |a - b| <= abs_tol + rel_tol * |b|; NaN only equals NaN. */
void test_near(double a, double b, double abs_tol, double rel_tol, const char *what, const char *file,
               int line);
#define assert_near(a, b, abs_tol, rel_tol)                                                        \
    test_near((a), (b), (abs_tol), (rel_tol), #a " ~ " #b, __FILE__, __LINE__)

/* The call returns `want` and, unless text is NULL, its message contains `text`. */
void test_err(enum err_code got, enum err_code want, const struct err *e, const char *text,
              const char *file, int line);
#define assert_err(call, want, e, text) test_err((call), (want), (e), (text), __FILE__, __LINE__)
#define assert_ok(call, e) test_err((call), ERR_OK, (e), NULL, __FILE__, __LINE__)

#endif
