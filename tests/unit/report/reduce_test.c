#include "base/mem.h"
#include "base/rng.h"
#include "report/reduce_priv.h"
#include "tests/support/test.h"

TEST(one_spike_among_many_samples_survives_as_the_greatest_of_its_column)
{
    enum { N = 518400, COLUMNS = 480 };
    float *v = mem_zero(N, sizeof *v);
    struct column c[COLUMNS];
    v[123456] = 7;
    v[400000] = -3;
    reduce(v, N, c, COLUMNS);
    for (size_t i = 0; i < COLUMNS; i++) {
        assert_near(c[i].hi, i == 123456ull * COLUMNS / N ? 7 : 0, 0, 0);
        assert_near(c[i].lo, i == 400000ull * COLUMNS / N ? -3 : 0, 0, 0);
        assert_near(c[i].first, 0, 0, 0);
        assert_near(c[i].last, 0, 0, 0);
    }
    mem_free(v);
}

TEST(every_sample_is_in_exactly_one_column)
{
    struct rng rng = rng_stream(test_seed(), "reduce");
    for (int round = 0; round < 200; round++) {
        size_t columns = 1 + rng_below(&rng, 50), n = columns + rng_below(&rng, 300), count = 0;
        float v[400];
        struct column c[50];
        double sum = 0, by_column = 0;
        for (size_t i = 0; i < n; i++)
            sum += (double)(v[i] = (float)rng_unit(&rng));
        reduce(v, n, c, columns);
        for (size_t i = 0; i < columns; i++) {
            assert_true(c[i].n > 0);
            count += c[i].n;
            by_column += (double)c[i].mean * (double)c[i].n;
        }
        assert_int_equal(count, n);
        assert_near(by_column, sum, 1e-4, 0);
    }
}

TEST(missing_samples_leave_a_hole_and_infinities_are_extremes_without_weight)
{
    const float v[] = {NAN, NAN, 1, NAN, INFINITY, 3};
    struct column c[3];
    reduce(v, 6, c, 3);
    assert_int_equal(c[0].n, 0);
    assert_int_equal(c[1].n, 1);
    assert_near(c[1].last, 1, 0, 0);
    assert_true(isinf(c[2].hi));
    assert_near(c[2].mean, 3, 0, 0);
}
