#include "kube/quantity.h"

#include "base/mem.h"
#include "tests/support/test.h"

TEST(quantities_are_exact_and_rounded_up)
{
    static const struct {
        const char *s;
        int64_t per_one, want;
    } rows[] = {
        {"0", 1, 0},
        {"1", 1, 1},
        {"1", 1000, 1000},
        {"500m", 1000, 500},
        {"0.5", 1000, 500},
        {".5", 1000, 500},
        {"1.", 1, 1},
        {"1n", 1000, 1},
        {"100u", 1000, 1},
        {"1500m", 1, 2},
        {"16Gi", 1, INT64_C(17179869184)},
        {"1.5Gi", 1, 1610612736},
        {"128974848", 1, 128974848},
        {"129e6", 1, 129000000},
        {"129M", 1, 129000000},
        {"1E3", 1, 1000},
        {"1e3", 1, 1000},
        {"1E", 1, INT64_C(1000000000000000000)},
        {"12e-1", 1, 2},
        {"-1", 1, -1},
        {"+2k", 1, 2000},
        {"0.0000000000000000000000000000000000001", 1, 1},
        {"1e-99", 1, 1},
        {"7Ei", 1, INT64_C(8070450532247928832)},
        {"9223372036854775807", 1, INT64_MAX},
        {"0.1", 1, 1},
        {"3.000", 1, 3},
        {"1.0000000000000000000000001", 1, 2},
        {"0e99", 1, 0},
        {"2Ki", 1, 2048},
        {"2Ti", 1, INT64_C(2199023255552)},
        {"1Pi", 1, INT64_C(1125899906842624)},
    };
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        int64_t got;
        struct err e;
        assert_ok(quantity_parse(rows[i].s, rows[i].per_one, &got, &e), &e);
        if (got != rows[i].want)
            fail_msg("%s: %lld, not %lld", rows[i].s, (long long)got, (long long)rows[i].want);
    }
}

TEST(malformed_and_huge_quantities_are_refused)
{
    static const struct {
        const char *s;
        enum err_code rc;
    } rows[] = {{"", ERR_PARSE},
                {"x", ERR_PARSE},
                {"1 Gi", ERR_PARSE},
                {"1GI", ERR_PARSE},
                {"1e", ERR_PARSE},
                {"1e+", ERR_PARSE},
                {"--1", ERR_PARSE},
                {"1.2.3", ERR_PARSE},
                {".", ERR_PARSE},
                {"Gi", ERR_PARSE},
                {"1K", ERR_PARSE},
                {"1mm", ERR_PARSE},
                {"0x10", ERR_PARSE},
                {"1e5x", ERR_PARSE},
                {"8Ei", ERR_RANGE},
                {"1e99", ERR_RANGE},
                {"9223372036854775808", ERR_RANGE},
                {"99999999999999999999999999999999", ERR_RANGE},
                {"-9e18k", ERR_PARSE},
                {"-9e20", ERR_RANGE},
                {"1e99999999999", ERR_RANGE}};
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        int64_t got;
        struct err e;
        assert_err(quantity_parse(rows[i].s, 1, &got, &e), rows[i].rc, &e, NULL);
    }
}
