#include "base/rng.h"
#include "tests/support/test.h"

TEST(streams_of_one_seed_differ_by_name_and_repeat_by_seed)
{
    struct rng a = rng_stream(7, "demand"), b = rng_stream(7, "faults"), c = rng_stream(7, "demand");
    uint64_t first = rng_next(&a);
    assert_int_not_equal(first, rng_next(&b));
    assert_int_equal(first, rng_next(&c));
}

TEST(uniform_normal_and_exponential_have_their_moments)
{
    struct rng r = rng_stream(test_seed(), "moments");
    enum { N = 200000 };
    double u = 0, n = 0, n2 = 0, x = 0;
    for (int i = 0; i < N; i++) {
        double g = rng_normal(&r);
        u += rng_unit(&r);
        n += g;
        n2 += g * g;
        x += rng_exponential(&r);
    }
    /* five standard errors */
    assert_near(u / N, 0.5, 5 * 0.289 / sqrt(N), 0);
    assert_near(n / N, 0.0, 5 / sqrt(N), 0);
    assert_near(n2 / N, 1.0, 5 * sqrt(2.0 / N), 0);
    assert_near(x / N, 1.0, 5 / sqrt(N), 0);
}

TEST(below_is_uniform_and_stays_below)
{
    struct rng r = rng_stream(test_seed(), "below");
    int seen[7] = {0};
    for (int i = 0; i < 70000; i++) {
        uint32_t k = rng_below(&r, 7);
        assert_true(k < 7);
        seen[k]++;
    }
    for (int k = 0; k < 7; k++)
        assert_near(seen[k], 10000, 5 * 93, 0);
}

TEST(hash_at_depends_on_each_argument)
{
    assert_int_equal(rng_at(1, 2, 3), rng_at(1, 2, 3));
    assert_int_not_equal(rng_at(1, 2, 3), rng_at(2, 2, 3));
    assert_int_not_equal(rng_at(1, 2, 3), rng_at(1, 3, 3));
    assert_int_not_equal(rng_at(1, 2, 3), rng_at(1, 2, 4));
    assert_int_not_equal(rng_at(1, 2, 3), rng_at(1, 3, 2));
}
