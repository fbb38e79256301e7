#include "base/rng.h"

#include <math.h>

uint64_t rng_key(uint64_t seed, const char *name)
{
    uint64_t h = 0xcbf29ce484222325ull; /* FNV-1a over the name, then mixed with the seed */
    for (const char *p = name; *p; p++)
        h = (h ^ (unsigned char)*p) * 0x100000001b3ull;
    return rng_mix(rng_mix(seed) ^ h);
}

struct rng rng_from_key(uint64_t key)
{
    struct rng r;
    for (int i = 0; i < 4; i++)
        r.s[i] = rng_mix(key + (uint64_t)i * 0x9e3779b97f4a7c15ull);
    return r;
}

struct rng rng_stream(uint64_t seed, const char *name)
{
    return rng_from_key(rng_key(seed, name));
}

uint32_t rng_below(struct rng *r, uint32_t n)
{
    /* Lemire 2019: multiply-shift with rejection of the biased low part. */
    uint64_t m = (rng_next(r) >> 32) * n;
    uint32_t low = (uint32_t)m;
    if (low < n) {
        uint32_t floor = -n % n;
        while (low < floor) {
            m = (rng_next(r) >> 32) * n;
            low = (uint32_t)m;
        }
    }
    return (uint32_t)(m >> 32);
}

double rng_normal(struct rng *r)
{
    /* Box-Muller without a cached second value: one call, two draws, no hidden state. */
    double u = 1.0 - rng_unit(r);
    double v = rng_unit(r);
    return sqrt(-2.0 * log(u)) * cos(6.283185307179586 * v);
}

double rng_exponential(struct rng *r)
{
    return -log(1.0 - rng_unit(r));
}
