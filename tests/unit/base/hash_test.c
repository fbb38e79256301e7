#include "base/hash.h"

#include "base/rng.h"
#include "tests/support/test.h"

TEST(hash_equals_the_published_xxh64_values)
{
    static const struct {
        const char *text;
        uint64_t want;
    } cases[] = {
        {"", 0xef46db3751d8e999ull},
        {"a", 0xd24ec4f1a98c6e5bull},
        {"abc", 0x44bc2cf5ad770999ull},
        {"Nobody inspects the spammish repetition", 0xfbcea83c8a378bf1ull},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        assert_int_equal(hash_of(cases[i].text, strlen(cases[i].text)), cases[i].want);
}

TEST(hash_of_pieces_equals_hash_of_the_whole)
{
    unsigned char bytes[1000];
    struct rng r = rng_stream(test_seed(), "hash");
    for (size_t i = 0; i < sizeof bytes; i++)
        bytes[i] = (unsigned char)rng_next(&r);
    for (size_t n = 0; n < 200; n++) {
        struct hash h = hash_init(0);
        for (size_t at = 0; at < n;) {
            size_t part = 1 + rng_below(&r, 70);
            part = part < n - at ? part : n - at;
            hash_bytes(&h, bytes + at, part);
            at += part;
            (void)hash_value(&h); /* looking does not disturb */
        }
        assert_int_equal(hash_value(&h), hash_of(bytes, n));
    }
}

TEST(hash_tells_apart_seeds_string_borders_and_signed_zero)
{
    struct hash a = hash_init(1), b = hash_init(2);
    assert_int_not_equal(hash_value(&a), hash_value(&b));
    a = hash_init(0);
    b = hash_init(0);
    hash_str(&a, "ab");
    hash_str(&a, "c");
    hash_str(&b, "a");
    hash_str(&b, "bc");
    assert_int_not_equal(hash_value(&a), hash_value(&b));
    a = hash_init(0);
    b = hash_init(0);
    hash_f64(&a, 0.0);
    hash_f64(&b, -0.0);
    assert_int_not_equal(hash_value(&a), hash_value(&b));
    a = hash_init(0);
    b = hash_init(0);
    hash_f64(&a, NAN);
    hash_f64(&b, -NAN);
    assert_int_equal(hash_value(&a), hash_value(&b));
    hash_i64(&a, -1);
    hash_u64(&b, UINT64_MAX);
    assert_int_equal(hash_value(&a), hash_value(&b));
}

TEST(hash_hex_has_sixteen_digits)
{
    char text[HASH_HEX];
    hash_hex(0x00ab, text);
    assert_string_equal(text, "00000000000000ab");
    hash_hex(UINT64_MAX, text);
    assert_string_equal(text, "ffffffffffffffff");
}
