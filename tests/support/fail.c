#include "tests/support/fail.h"

#include <errno.h>
#include <fcntl.h>
#include <sqlite3.h>
#include <stdarg.h>
#include <unistd.h>

#include "base/mem.h"
#include "tests/support/test.h"

static _Thread_local struct {
    enum fail_kind kind;
    int code;
    long left; /* calls until the one that fails; 0: none does */
    bool hit;
    int n_own; /* calls of base/mem under way */
    bool small;
    unsigned n_small;
} turn;

void fail_at(enum fail_kind kind, long nth, int code)
{
    turn.kind = kind;
    turn.code = code;
    turn.left = nth;
    turn.hit = turn.small = false;
}

void fail_in_small_parts(void)
{
    turn.left = 0;
    turn.small = true;
}

bool fail_off(void)
{
    turn.left = 0;
    turn.small = false;
    return turn.hit;
}

static bool fails(enum fail_kind kind)
{
    if (turn.left == 0 || turn.kind != kind || --turn.left > 0)
        return false;
    turn.hit = true;
    return true;
}

bool fail_library_alloc(void)
{
    return turn.n_own == 0 && fails(FAIL_LIBRARY);
}

static int sys_fails(enum fail_kind kind)
{
    if (!fails(kind))
        return 0;
    errno = turn.code;
    return -1;
}

long fail_sweep(enum fail_kind kind, int code, enum err_code want,
                enum err_code (*run)(void *ctx, struct err *e), void *ctx)
{
    for (long nth = 1;; nth++) {
        struct err e = {0};
        fail_at(kind, nth, code);
        enum err_code rc = run(ctx, &e);
        bool hit = fail_off();
        if (!hit) {
            assert_ok(rc, &e);
            return nth - 1;
        }
        if (rc != want)
            print_error("failure %ld of kind %d, code %d:\n", nth, (int)kind, code);
        assert_err(rc, want, &e, NULL);
        if (want)
            assert_true(e.code == want && e.msg[0]);
    }
}

/* ---- the wrapped functions ------------------------------------------------------------------- */

/* The linker makes these names. */
#define WRAP(type, name, ...)                                                                      \
    type __real_##name(__VA_ARGS__);                                                               \
    type __wrap_##name(__VA_ARGS__);                                                               \
    type __wrap_##name(__VA_ARGS__)

static void *own(void *p)
{
    turn.n_own--;
    return p;
}
/* Allocates by `call` of base/mem, told from what libraries allocate. */
#define OWN(call) (turn.n_own++, own(call))

WRAP(void *, try_zero, size_t n, size_t size)
{
    return fails(FAIL_ALLOC) ? NULL : OWN(__real_try_zero(n, size));
}

WRAP(void *, try_grow, void *p, size_t n, size_t size)
{
    return fails(FAIL_ALLOC) ? NULL : OWN(__real_try_grow(p, n, size));
}

WRAP(void *, try_zero_aligned, size_t n, size_t size)
{
    return fails(FAIL_ALLOC) ? NULL : OWN(__real_try_zero_aligned(n, size));
}

WRAP(void *, mem_zero, size_t n, size_t size)
{
    return OWN(__real_mem_zero(n, size));
}

WRAP(void *, mem_grow, void *p, size_t n, size_t size)
{
    return OWN(__real_mem_grow(p, n, size));
}

WRAP(char *, mem_strdup, const char *s)
{
    return OWN(__real_mem_strdup(s));
}

WRAP(int, sqlite3_step, sqlite3_stmt *st)
{
    return fails(FAIL_SQL_STEP) ? turn.code : __real_sqlite3_step(st);
}

WRAP(int, open, const char *path, int flags, ...)
{
    bool makes = flags & O_CREAT || (flags & O_TMPFILE) == O_TMPFILE;
    va_list ap;
    va_start(ap, flags);
    unsigned mode = makes ? va_arg(ap, unsigned) : 0;
    va_end(ap);
    return sys_fails(FAIL_OPEN) ? -1 : __real_open(path, flags, mode);
}

/* True when it is interrupted; else *n is one at most. */
static bool interrupted(size_t *n)
{
    if (!turn.small)
        return false;
    *n = *n > 1 ? 1 : *n;
    if (turn.n_small++ % 2)
        return false;
    errno = EINTR;
    return true;
}

WRAP(ssize_t, read, int fd, void *p, size_t n)
{
    return sys_fails(FAIL_READ) || interrupted(&n) ? -1 : __real_read(fd, p, n);
}

WRAP(ssize_t, write, int fd, const void *p, size_t n)
{
    return sys_fails(FAIL_WRITE) || interrupted(&n) ? -1 : __real_write(fd, p, n);
}

WRAP(int, fsync, int fd)
{
    return sys_fails(FAIL_SYNC) ? -1 : __real_fsync(fd);
}

WRAP(int, linkat, int from_fd, const char *from, int to_fd, const char *to, int flags)
{
    return sys_fails(FAIL_LINK) ? -1 : __real_linkat(from_fd, from, to_fd, to, flags);
}

WRAP(int, rename, const char *from, const char *to)
{
    return sys_fails(FAIL_RENAME) ? -1 : __real_rename(from, to);
}

WRAP(int, close, int fd)
{
    int rc = __real_close(fd);
    return sys_fails(FAIL_CLOSE) ? -1 : rc;
}
