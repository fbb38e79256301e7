#include "base/intern.h"

#include "tests/support/test.h"

TEST(interned_strings_get_ids_in_order_and_keep_them)
{
    struct err e;
    struct intern *in = intern_new(5000);
    char text[32];
    uint32_t id;
    for (uint32_t i = 0; i < 5000; i++) {
        int n = snprintf(text, sizeof text, "task-%u", i * 7);
        assert_ok(intern_id(in, text, (size_t)n, &id, &e), &e);
        assert_int_equal(id, i);
    }
    for (uint32_t i = 0; i < 5000; i++) {
        int n = snprintf(text, sizeof text, "task-%u", i * 7);
        assert_ok(intern_id(in, text, (size_t)n, &id, &e), &e);
        assert_int_equal(id, i);
        assert_int_equal(intern_find(in, text, (size_t)n), i);
        assert_string_equal(intern_name(in, i), text);
    }
    assert_int_equal(intern_count(in), 5000);
    assert_int_equal(intern_find(in, "task", 4), INTERN_NONE);
    assert_err(intern_id(in, "one more", 8, &id, &e), ERR_LIMIT, &e, "5000");
    intern_free(in);
}

TEST(interned_text_is_told_apart_by_its_length)
{
    struct err e;
    struct intern *in = intern_new(10);
    uint32_t a, b, empty;
    assert_ok(intern_id(in, "abc", 2, &a, &e), &e);
    assert_ok(intern_id(in, "abc", 3, &b, &e), &e);
    assert_ok(intern_id(in, "", 0, &empty, &e), &e);
    assert_int_not_equal(a, b);
    assert_string_equal(intern_name(in, a), "ab");
    assert_string_equal(intern_name(in, empty), "");
    assert_err(intern_id(in, "a\0b", 3, &a, &e), ERR_PARSE, &e, "zero byte");
    intern_free(in);
    intern_free(NULL);
}
