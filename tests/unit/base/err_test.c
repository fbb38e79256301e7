#include "base/err.h"

#include <errno.h>

#include "base/mem.h"
#include "base/utf8.h"
#include "tests/support/test.h"

TEST(error_text_reads_outermost_first_and_keeps_its_code)
{
    struct err e;
    assert_int_equal(err_set(&e, ERR_RANGE, "gpus: %d is above %d", 900, 512), ERR_RANGE);
    assert_int_equal(err_wrap(&e, "line %d", 41), ERR_RANGE);
    assert_int_equal(err_wrap(&e, "trace %s", "a.csv"), ERR_RANGE);
    assert_string_equal(e.msg, "trace a.csv: line 41: gpus: 900 is above 512");
    assert_int_equal(err_wrap(&e, "trace %s", "a.csv"), ERR_RANGE); /* said already */
    assert_string_equal(e.msg, "trace a.csv: line 41: gpus: 900 is above 512");
    assert_int_equal(err_sys(&e, ENOENT, "open %s", "x"), ERR_IO);
    assert_int_equal(e.sys, ENOENT);
    assert_string_equal(e.msg, "open x: No such file or directory");
}

TEST(error_text_longer_than_its_room_is_cut_not_overrun)
{
    struct err e;
    char text[2000];
    memset(text, 'x', sizeof text - 1);
    text[sizeof text - 1] = '\0';
    assert_int_equal(err_set(&e, ERR_PARSE, "%s", text), ERR_PARSE);
    assert_int_equal(strlen(e.msg), sizeof e.msg - 1);
    assert_int_equal(err_wrap(&e, "a"), ERR_PARSE);
    assert_int_equal(strlen(e.msg), sizeof e.msg - 1);
    /* a long path must not hide what is wrong with it */
    text[sizeof text - 2] = 'z';
    assert_int_equal(err_sys(&e, EIO, "open %s", text), ERR_IO);
    assert_non_null(strstr(e.msg, "xz: Input/output error"));
    assert_int_equal(err_wrap(&e, "policy %s", text), ERR_IO);
    assert_memory_equal(e.msg, "...xxx", 6);
    assert_non_null(strstr(e.msg, "xz: ...xxx"));
    assert_int_equal(strlen(e.msg), sizeof e.msg - 1);
}

TEST(error_may_be_null_where_only_the_code_matters)
{
    assert_int_equal(err_set(NULL, ERR_LIMIT, "x"), ERR_LIMIT);
    assert_int_equal(err_sys(NULL, EIO, "x"), ERR_IO);
    assert_int_not_equal(err_wrap(NULL, "x"), ERR_OK);
    assert_string_equal(err_code_text(ERR_NUMERIC), "non-finite number");
    assert_string_equal(err_code_text((enum err_code)99), "unknown error");
}

TEST(size_arithmetic_refuses_to_wrap)
{
    size_t v;
    assert_true(size_mul(3, 4, &v) && v == 12);
    assert_false(size_mul(SIZE_MAX, 2, &v));
    assert_false(size_add(SIZE_MAX, 1, &v));
    assert_null(try_zero(SIZE_MAX, SIZE_MAX));
    assert_null(try_grow(NULL, SIZE_MAX, 2));
    assert_null(try_zero_aligned(SIZE_MAX - 3, 1));
    void *p = try_zero_aligned(0, 8);
    assert_non_null(p);
    assert_int_equal((uintptr_t)p % MEM_ALIGN, 0);
    mem_free(p);
}

TEST(utf8_accepts_only_shortest_forms_of_characters)
{
    static const char *const good[] = {"a", "\xc3\xa9", "\xe2\x82\xac", "\xf0\x9f\x98\x80", "\xf4\x8f\xbf\xbf"};
    static const char *const bad[] = {"\x80", "\xc0\x80", "\xc1\xbf", "\xe0\x80\x80", "\xed\xa0\x80", "\xf0\x80\x80\x80",
                                      "\xf4\x90\x80\x80", "\xf5\x80\x80\x80", "\xff", "\xc3", "\xe2\x82", "\xc3(", "\xe2\x82("};
    for (size_t i = 0; i < ARRAY_LEN(good); i++)
        assert_int_equal(utf8_char(good[i], strlen(good[i])), strlen(good[i]));
    for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
        if (utf8_char(bad[i], strlen(bad[i])) != 0)
            fail_msg("bad case %zu was accepted", i);
    }
    assert_int_equal(utf8_valid_prefix("ab\xc3\xa9\xff", 5), 4);
    assert_int_equal(utf8_valid_prefix("", 0), 0);
}
