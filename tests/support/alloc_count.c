#include "tests/support/alloc_count.h"

#include <errno.h>
#include <stdatomic.h>

#include "tests/support/fail.h"

#if ALLOC_COUNTED
static atomic_long calls;
static _Thread_local long calls_here;

long alloc_calls(void)
{
    return atomic_load(&calls);
}

long alloc_calls_here(void)
{
    return calls_here;
}

/* False: this call is to fail. */
static bool may_go_on(void)
{
    atomic_fetch_add_explicit(&calls, 1, memory_order_relaxed);
    calls_here++;
    if (!fail_library_alloc())
        return true;
    errno = ENOMEM;
    return false;
}

void *malloc(size_t n)
{
    return may_go_on() ? __libc_malloc(n) : NULL;
}

void *calloc(size_t n, size_t size)
{
    return may_go_on() ? __libc_calloc(n, size) : NULL;
}

void *realloc(void *p, size_t n)
{
    return may_go_on() ? __libc_realloc(p, n) : NULL;
}

void *aligned_alloc(size_t align, size_t n)
{
    return may_go_on() ? __libc_memalign(align, n) : NULL;
}
#else
long alloc_calls(void)
{
    return 0;
}

long alloc_calls_here(void)
{
    return 0;
}
#endif
