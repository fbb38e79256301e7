#include "base/err.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PREFIX_MAX = 4608 }; /* a path of PATH_MAX and a few words */

/* Writes what stands before a cause; it may fill half of the room.  Of a longer text, such as a path, the end tells
 * more.  Returns the bytes used. */
static size_t put_prefix(struct err *e, const char *text)
{
    const size_t most = sizeof e->msg / 2;
    size_t n = strlen(text);
    bool cut = n > most;
    int used = snprintf(e->msg, sizeof e->msg, "%s%s", cut ? "..." : "", cut ? text + n - (most - 3) : text);
    return used > 0 ? (size_t)used : 0;
}

void err_set_text(struct err *e, enum err_code code, const char *fmt, ...)
{
    if (!e)
        return;
    va_list ap;
    va_start(ap, fmt);
    e->code = code;
    e->sys = 0;
    (void)vsnprintf(e->msg, sizeof e->msg, fmt, ap);
    va_end(ap);
}

void err_sys_text(struct err *e, int sys, const char *fmt, ...)
{
    if (!e)
        return;
    char prefix[PREFIX_MAX];
    va_list ap;
    va_start(ap, fmt);
    e->code = ERR_IO;
    e->sys = sys;
    (void)vsnprintf(prefix, sizeof prefix, fmt, ap);
    va_end(ap);
    size_t used = put_prefix(e, prefix);
    (void)snprintf(e->msg + used, sizeof e->msg - used, ": %s", strerror(sys));
}

enum err_code err_wrap(struct err *e, const char *fmt, ...)
{
    if (!e)
        return ERR_INVAL;
    char inner[sizeof e->msg], prefix[PREFIX_MAX];
    memcpy(inner, e->msg, sizeof inner);
    va_list ap;
    va_start(ap, fmt);
    (void)vsnprintf(prefix, sizeof prefix, fmt, ap);
    va_end(ap);
    size_t n = strlen(prefix);
    if (n > 0 && n < sizeof inner && strncmp(inner, prefix, n) == 0 && inner[n] == ':')
        return e->code; /* it says so already */
    size_t used = put_prefix(e, prefix);
    (void)snprintf(e->msg + used, sizeof e->msg - used, ": %.*s", (int)(sizeof e->msg - used), inner);
    return e->code;
}

const char *err_code_text(enum err_code code)
{
    static const char *const text[] = {
#define X(name, words) [ERR_##name] = words,
        ERR_CODE_LIST(X)
#undef X
    };
    return (size_t)code < sizeof text / sizeof text[0] ? text[code] : "unknown error";
}

noreturn void assert_fail(const char *file, int line, const char *what)
{
    (void)fprintf(stderr, "%s:%d: assertion failed: %s\n", file, line, what);
    abort();
}
