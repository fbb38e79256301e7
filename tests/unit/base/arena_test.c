#include "base/arena.h"

#include "base/mem.h"
#include "tests/support/test.h"

struct seen {
    int n;
    size_t bytes;
    const char *newest;
};

static void see(const char *name, size_t bytes, void *arg)
{
    struct seen *s = arg;
    if (s->n++ == 0)
        s->newest = name;
    s->bytes += bytes;
}

TEST(arena_blocks_are_aligned_zeroed_named_and_apart)
{
    struct err e;
    struct arena a;
    assert_ok(arena_init(&a, 4096, &e), &e);
    unsigned char *x = arena_alloc(&a, "x", 10, 1), *y = arena_alloc(&a, "y", 3, 8);
    assert_int_equal((uintptr_t)x % MEM_ALIGN, 0);
    assert_int_equal((uintptr_t)y % MEM_ALIGN, 0);
    memset(x, 0xff, 10);
    for (int i = 0; i < 24; i++)
        assert_int_equal(y[i], 0);
    struct seen s = {0};
    arena_each(&a, see, &s);
    assert_int_equal(s.n, 2);
    assert_int_equal(s.bytes, 34);
    assert_string_equal(s.newest, "y");
    arena_fini(&a);
}

TEST(arena_reset_gives_zeroed_memory_again_and_keeps_the_high_water_mark)
{
    struct err e;
    struct arena a;
    assert_ok(arena_init(&a, 4096, &e), &e);
    memset(arena_alloc(&a, "big", 2000, 1), 1, 2000);
    size_t high = a.high;
    arena_reset(&a);
    assert_int_equal(a.used, 0);
    const unsigned char *p = arena_alloc(&a, "small", 100, 1);
    for (int i = 0; i < 100; i++)
        assert_int_equal(p[i], 0);
    assert_int_equal(a.high, high);
    arena_fini(&a);
}

TEST(arena_outgrown_names_the_first_allocation_that_did_not_fit)
{
    struct err e;
    struct arena a;
    assert_ok(arena_init(&a, 1024, &e), &e);
    assert_ok(arena_check(&a, &e), &e);
    assert_null(arena_alloc(&a, "observation", 2000, 1));
    assert_null(arena_alloc(&a, "later", SIZE_MAX, 2));
    assert_non_null(arena_alloc(&a, "fits", 8, 1));
    assert_err(arena_check(&a, &e), ERR_LIMIT, &e, "observation");
    arena_fini(&a);
}

TEST(arena_need_adds_up_to_exactly_what_is_used)
{
    struct err e;
    struct arena a;
    size_t cap = arena_need(1, 1) + arena_need(64, 1) + arena_need(65, 1) + arena_need(0, 1);
    assert_ok(arena_init(&a, cap, &e), &e);
    assert_non_null(arena_alloc(&a, "a", 1, 1));
    assert_non_null(arena_alloc(&a, "b", 64, 1));
    assert_non_null(arena_alloc(&a, "c", 65, 1));
    assert_non_null(arena_alloc(&a, "d", 0, 1));
    assert_int_equal(a.used, cap);
    assert_null(arena_alloc(&a, "e", 0, 1));
    assert_int_equal(arena_need(SIZE_MAX, 2), SIZE_MAX);
    arena_fini(&a);
    assert_err(arena_init(&a, SIZE_MAX, &e), ERR_NOMEM, &e, "arena of");
}
