/* rng.h - seeded random numbers: named streams and a stateless hash.
 *
 * A stream is derived from (seed, name), so a new draw in one place leaves all others unchanged.
 * Streams are xoshiro256++ (Blackman & Vigna 2019).  rng_at() is a pure function of (key, a, b): the
 * same fault or start time is found by every policy, whatever it did before.
 * A `struct rng` is a plain value of 32 bytes: copy it to checkpoint it. */
#ifndef BASE_RNG_H
#define BASE_RNG_H

#include <stdint.h>

struct rng {
    uint64_t s[4];
};

uint64_t rng_key(uint64_t seed, const char *name); /* 64-bit key of a named stream */
struct rng rng_stream(uint64_t seed, const char *name);
struct rng rng_from_key(uint64_t key);

static inline uint64_t rng_mix(uint64_t x) /* splitmix64 finaliser */
{
    x += 0x9e3779b97f4a7c15ull;
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ull;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebull;
    return x ^ (x >> 31);
}

static inline uint64_t rng_at(uint64_t key, uint64_t a, uint64_t b)
{
    return rng_mix(rng_mix(key ^ (a * 0xd6e8feb86659fd93ull)) ^ b);
}

static inline double rng_to_unit(uint64_t bits) /* [0, 1) */
{
    return (double)(bits >> 11) * 0x1p-53;
}

static inline uint64_t rng_next(struct rng *r)
{
    uint64_t *s = r->s;
    uint64_t sum = s[0] + s[3];
    uint64_t result = ((sum << 23) | (sum >> 41)) + s[0];
    uint64_t t = s[1] << 17;
    s[2] ^= s[0];
    s[3] ^= s[1];
    s[1] ^= s[2];
    s[0] ^= s[3];
    s[2] ^= t;
    s[3] = (s[3] << 45) | (s[3] >> 19);
    return result;
}

static inline double rng_unit(struct rng *r) /* uniform [0, 1) */
{
    return rng_to_unit(rng_next(r));
}

uint32_t rng_below(struct rng *r, uint32_t n); /* uniform 0..n-1, n > 0, unbiased */
double rng_normal(struct rng *r);              /* N(0, 1) */
double rng_exponential(struct rng *r);         /* mean 1 */

#endif
