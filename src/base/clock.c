#include "base/clock.h"

#include <time.h>

#include "base/err.h"

static int64_t read_us(clockid_t id)
{
    struct timespec ts;
    ASSERT(clock_gettime(id, &ts) == 0);
    return (int64_t)ts.tv_sec * US_PER_S + ts.tv_nsec / 1000;
}

int64_t clock_wall_us(void)
{
    return read_us(CLOCK_REALTIME);
}

int64_t clock_mono_us(void)
{
    return read_us(CLOCK_MONOTONIC);
}

double clock_mono_s(void)
{
    return (double)clock_mono_us() * 1e-6;
}
