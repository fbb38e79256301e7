#include "base/buf.h"

#include "base/mem.h"
#include "tests/support/test.h"

TEST(buffer_grows_and_stays_a_c_string)
{
    struct buf b = buf_init(1000);
    assert_string_equal(b.p, "");
    for (int i = 0; i < 100; i++)
        buf_fmt(&b, "%d,", i % 10);
    buf_char(&b, 'x');
    buf_pad(&b, '-', 3);
    assert_int_equal(b.n, 204);
    assert_int_equal(strlen(b.p), 204);
    assert_memory_equal(b.p + 198, "9,", 2);
    assert_string_equal(b.p + 200, "x---");
    buf_fini(&b);
}

TEST(buffer_takes_exactly_its_cap_and_not_one_byte_more)
{
    struct err e;
    struct buf b = buf_init(8);
    buf_str(&b, "12345678");
    assert_ok(buf_check(&b, &e), &e);
    buf_char(&b, '9');
    assert_err(buf_check(&b, &e), ERR_LIMIT, &e, "more than 8 bytes");
    assert_string_equal(b.p, "12345678");
    buf_str(&b, "");
    assert_true(b.failed);
    buf_clear(&b);
    assert_false(b.failed);
    buf_str(&b, "ok");
    assert_string_equal(b.p, "ok");
    buf_fini(&b);
}

TEST(buffer_format_longer_than_its_scratch_is_whole)
{
    struct buf b = buf_init(10000);
    buf_fmt(&b, "%0900d|", 7);
    assert_int_equal(b.n, 901);
    assert_int_equal(b.p[899], '7');
    buf_fini(&b);
}

TEST(buffer_room_refuses_sizes_that_wrap)
{
    struct buf b = buf_init(SIZE_MAX - 1);
    buf_char(&b, 'a');
    assert_null(buf_room(&b, SIZE_MAX));
    assert_true(b.failed);
    buf_fini(&b);
}

TEST(buffer_take_moves_the_bytes_out)
{
    struct buf b = buf_init(100);
    buf_str(&b, "mine");
    char *p = buf_take(&b);
    assert_string_equal(p, "mine");
    assert_int_equal(b.n, 0);
    mem_free(p);
    p = buf_take(&b);
    assert_string_equal(p, "");
    mem_free(p);
    buf_fini(&b);
}
