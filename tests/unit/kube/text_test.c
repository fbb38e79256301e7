#include "kube/text.h"

#include "base/mem.h"
#include "tests/support/test.h"

TEST(equal_text_is_one_pointer_until_nobody_holds_it)
{
    struct text_pool *p = text_pool_new();
    const char *a = text_hold(p, "app", 3), *b = text_hold(p, "apple", 3), *c = text_share(a);
    assert_ptr_equal(a, b);
    assert_ptr_equal(a, c);
    assert_string_equal(a, "app");
    assert_ptr_equal(text_find(p, "app"), a);
    assert_int_equal(text_count(p), 1);
    text_drop(p, a);
    text_drop(p, b);
    assert_ptr_equal(text_find(p, "app"), c);
    text_drop(p, c);
    text_drop(p, NULL);
    assert_null(text_find(p, "app"));
    assert_int_equal(text_count(p), 0);
    text_pool_free(p);
    text_pool_free(NULL);
}

TEST(pool_of_many_texts_gives_all_memory_back)
{
    enum { N = 20000 };
    struct text_pool *p = text_pool_new();
    static const char *held[N];
    for (int round = 0; round < 3; round++) {
        for (int i = 0; i < N; i++) {
            char s[32];
            int n = snprintf(s, sizeof s, "job-%d", i % (N / 2));
            held[i] = text_hold(p, s, (size_t)n);
        }
        assert_int_equal(text_count(p), N / 2);
        size_t bytes = text_bytes(p);
        assert_true(bytes > N / 2 * 8 && bytes < N * 60);
        for (int i = 0; i < N; i++) {
            char s[32];
            snprintf(s, sizeof s, "job-%d", i % (N / 2));
            assert_string_equal(held[i], s);
            text_drop(p, held[i]);
        }
        assert_int_equal(text_count(p), 0);
    }
    text_pool_free(p);
}

TEST(empty_text_and_inner_zero_bytes_are_texts)
{
    struct text_pool *p = text_pool_new();
    const char *a = text_hold(p, "", 0), *b = text_hold(p, "a\0b", 3), *c = text_hold(p, "a", 1);
    assert_string_equal(a, "");
    assert_ptr_not_equal(b, c);
    text_drop(p, a);
    text_drop(p, b);
    text_drop(p, c);
    text_pool_free(p);
}
