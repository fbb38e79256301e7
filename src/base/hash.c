#include "base/hash.h"

#include <math.h>
#include <string.h>

#define P1 0x9E3779B185EBCA87ull
#define P2 0xC2B2AE3D27D4EB4Full
#define P3 0x165667B19E3779F9ull
#define P4 0x85EBCA77C2B2AE63ull
#define P5 0x27D4EB2F165667C5ull

static uint64_t rotl(uint64_t x, int r)
{
    return (x << r) | (x >> (64 - r));
}

static uint64_t read64(const unsigned char *p)
{
    uint64_t v;
    memcpy(&v, p, sizeof v);
#if __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
    v = __builtin_bswap64(v);
#endif
    return v;
}

static uint32_t read32(const unsigned char *p)
{
    return (uint32_t)p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24;
}

static uint64_t round64(uint64_t acc, uint64_t lane)
{
    return rotl(acc + lane * P2, 31) * P1;
}

static uint64_t merge(uint64_t h, uint64_t acc)
{
    return (h ^ round64(0, acc)) * P1 + P4;
}

static void stripe(uint64_t acc[4], const unsigned char *p)
{
    for (int i = 0; i < 4; i++)
        acc[i] = round64(acc[i], read64(p + 8 * i));
}

struct hash hash_init(uint64_t seed)
{
    return (struct hash){.acc = {seed + P1 + P2, seed + P2, seed, seed - P1}, .seed = seed};
}

void hash_bytes(struct hash *h, const void *bytes, size_t n)
{
    const unsigned char *p = bytes;
    h->total += n;
    if (h->n_tail) {
        size_t take = sizeof h->tail - h->n_tail < n ? sizeof h->tail - h->n_tail : n;
        memcpy(h->tail + h->n_tail, p, take);
        h->n_tail += (uint32_t)take;
        p += take;
        n -= take;
        if (h->n_tail < sizeof h->tail)
            return;
        stripe(h->acc, h->tail);
        h->n_tail = 0;
    }
    for (; n >= sizeof h->tail; n -= sizeof h->tail, p += sizeof h->tail)
        stripe(h->acc, p);
    if (n)
        memcpy(h->tail, p, n);
    h->n_tail = (uint32_t)n;
}

static uint64_t finish(uint64_t h, const unsigned char *p, size_t n)
{
    for (; n >= 8; n -= 8, p += 8)
        h = rotl(h ^ round64(0, read64(p)), 27) * P1 + P4;
    if (n >= 4) {
        h = rotl(h ^ read32(p) * P1, 23) * P2 + P3;
        n -= 4;
        p += 4;
    }
    for (; n; n--, p++)
        h = rotl(h ^ *p * P5, 11) * P1;
    h = (h ^ (h >> 33)) * P2;
    h = (h ^ (h >> 29)) * P3;
    return h ^ (h >> 32);
}

uint64_t hash_value(const struct hash *h)
{
    uint64_t v = h->seed + P5;
    if (h->total >= sizeof h->tail) {
        v = rotl(h->acc[0], 1) + rotl(h->acc[1], 7) + rotl(h->acc[2], 12) + rotl(h->acc[3], 18);
        for (int i = 0; i < 4; i++)
            v = merge(v, h->acc[i]);
    }
    return finish(v + h->total, h->tail, h->n_tail);
}

void hash_str(struct hash *h, const char *s)
{
    hash_bytes(h, s, strlen(s) + 1);
}

void hash_u64(struct hash *h, uint64_t v)
{
    unsigned char le[8];
    for (int i = 0; i < 8; i++)
        le[i] = (unsigned char)(v >> (8 * i));
    hash_bytes(h, le, sizeof le);
}

void hash_i64(struct hash *h, int64_t v)
{
    hash_u64(h, (uint64_t)v);
}

void hash_f64(struct hash *h, double v)
{
    uint64_t bits;
    memcpy(&bits, &v, sizeof bits);
    hash_u64(h, isnan(v) ? 0x7ff8000000000000ull : bits);
}

uint64_t hash_of(const void *p, size_t n)
{
    struct hash h = hash_init(0);
    hash_bytes(&h, p, n);
    return hash_value(&h);
}

void hash_hex(uint64_t h, char out[HASH_HEX])
{
    for (int i = 0; i < 16; i++)
        out[i] = "0123456789abcdef"[(h >> (60 - 4 * i)) & 15];
    out[16] = '\0';
}
