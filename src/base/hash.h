/* hash.h - 64-bit streaming hash: XXH64 (Collet; github.com/Cyan4973/xxHash, doc/xxhash_spec.md).
 *
 * Used for determinism hashes (event log, weights), data hashes and observation-layout hashes.  XXH64
 * because its output is fixed by a public specification (same value on any machine, so it may be stored in
 * files), it reads several GB/s, and an accidental collision at 64 bits is out of reach here.  It does
 * not resist an adversary: never use it to authenticate.  `struct hash` is a plain value. */
#ifndef BASE_HASH_H
#define BASE_HASH_H

#include <stddef.h>
#include <stdint.h>

struct hash {
    uint64_t acc[4];
    uint64_t total;
    uint64_t seed;
    unsigned char tail[32];
    uint32_t n_tail;
};

struct hash hash_init(uint64_t seed);
void hash_bytes(struct hash *h, const void *p, size_t n);
void hash_str(struct hash *h, const char *s); /* with its NUL, so "a","b" differs from "ab","" */
void hash_u64(struct hash *h, uint64_t v);    /* little endian */
void hash_i64(struct hash *h, int64_t v);
void hash_f64(struct hash *h, double v);      /* bit pattern; all NaN hash alike, -0 differs from 0 */
uint64_t hash_value(const struct hash *h);    /* of what came so far; may go on afterwards */
uint64_t hash_of(const void *p, size_t n);    /* one shot, seed 0 */

enum { HASH_HEX = 17 };
void hash_hex(uint64_t h, char out[HASH_HEX]); /* 16 lower-case digits and a NUL */

#endif
