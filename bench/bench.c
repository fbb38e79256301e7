#include "bench/bench.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { MAX_REPEATS = 101 };

double bench_now_s(void)
{
    struct timespec t;
    (void)clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

bool bench_wanted(const char *name)
{
    const char *only = getenv("ONLY");
    return !only || !*only || strcmp(only, name) == 0;
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

void bench_report(const char *name, const char *unit, int n, double (*run)(void *arg), void *arg)
{
    double v[MAX_REPEATS];
    if (!bench_wanted(name))
        return;
    if (n > MAX_REPEATS)
        n = MAX_REPEATS;
    (void)run(arg);
    for (int i = 0; i < n; i++)
        v[i] = run(arg);
    qsort(v, (size_t)n, sizeof v[0], by_value);
    printf("{\"name\":\"%s\",\"value\":%.6g,\"unit\":\"%s\",\"p10\":%.6g,\"p90\":%.6g,\"n\":%d}\n", name,
           v[n / 2], unit, v[n / 10], v[n - 1 - n / 10], n);
    (void)fflush(stdout);
}
