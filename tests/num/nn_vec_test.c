/* The stated errors of the fast functions, over floats of both signs and all magnitudes. */
#include "nn/vec.h"
#include "tests/support/test.h"

enum {
    STRIDE = 16 * 977
}; /* every 977th float; all of them were tried once and gave the same figures */

static v16 float_bits(uint32_t from, uint32_t sign)
{
    v16 x;
    for (int k = 0; k < VEC; k++) {
        uint32_t bits = (from + (uint32_t)k * (STRIDE / VEC)) | sign;
        float f;
        memcpy(&f, &bits, sizeof f);
        x[k] = f;
    }
    return x;
}

enum function { TANH, SIGMOID, EXP, LOG };

static v16 apply(enum function f, v16 x)
{
    return f == TANH      ? v16_tanh(x)
           : f == SIGMOID ? v16_sigmoid(x)
           : f == EXP     ? v16_exp(x)
                          : v16_log(x);
}

static double error_of(enum function f, double x, double y)
{
    switch (f) {
    case TANH:
        return fabs(y - tanh(x));
    case SIGMOID:
        return fabs(y - 1 / (1 + exp(-x)));
    case EXP:
        return fabs(y / exp(x) - 1);
    case LOG:
        return fabs(y - log(x)) / (1 + fabs(log(x)));
    }
    return NAN;
}

static void check(enum function f, uint32_t from, uint32_t below, uint32_t sign, double bound)
{
    for (uint32_t bits = from; bits < below - STRIDE; bits += STRIDE) {
        v16 x = float_bits(bits, sign), y = apply(f, x);
        for (int k = 0; k < VEC; k++) {
            double err = error_of(f, (double)x[k], (double)y[k]);
            if (!(err <= bound))
                fail_msg("function %d at %.9g: error %.3g is above %.3g", f, (double)x[k], err,
                         bound);
        }
    }
}

TEST(fast_functions_keep_their_stated_errors)
{
    const uint32_t infinity = 0x7f800000, minus = 0x80000000, eighty_seven = 0x42ae0000,
                   smallest_normal = 0x00800000;
    check(TANH, 0, infinity, 0, 6.3e-6);
    check(TANH, 0, infinity, minus, 6.3e-6);
    check(SIGMOID, 0, infinity, 0, 3.2e-6);
    check(SIGMOID, 0, infinity, minus, 3.2e-6);
    check(EXP, 0, eighty_seven, 0, 1.2e-7);
    check(EXP, 0, eighty_seven, minus, 1.2e-7);
    check(LOG, smallest_normal, infinity, 0, 6e-8);
}

TEST(tanh_is_odd_bounded_and_exact_at_zero)
{
    assert_true(v16_tanh(v16_set(0.0f))[0] == 0.0f);
    for (uint32_t bits = 0; bits < 0x7f800000 - STRIDE; bits += STRIDE) {
        v16 plus = v16_tanh(float_bits(bits, 0)), minus = v16_tanh(float_bits(bits, 0x80000000));
        for (int k = 0; k < VEC; k++) {
            assert_true(plus[k] == -minus[k]);
            assert_true(plus[k] <= 1.0f);
        }
    }
}

TEST(not_a_number_stays_one_through_tanh_and_sigmoid)
{
    assert_true(isnan(v16_tanh(v16_set(NAN))[3]));
    assert_true(isnan(v16_sigmoid(v16_set(NAN))[3]));
}
