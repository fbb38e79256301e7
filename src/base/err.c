#include "base/err.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

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
    va_list ap;
    va_start(ap, fmt);
    e->code = ERR_IO;
    e->sys = sys;
    int n = vsnprintf(e->msg, sizeof e->msg, fmt, ap);
    va_end(ap);
    if (n >= 0 && (size_t)n < sizeof e->msg)
        (void)snprintf(e->msg + n, sizeof e->msg - (size_t)n, ": %s", strerror(sys));
}

enum err_code err_wrap(struct err *e, const char *fmt, ...)
{
    if (!e)
        return ERR_INVAL;
    char inner[sizeof e->msg];
    memcpy(inner, e->msg, sizeof inner);
    va_list ap;
    va_start(ap, fmt);
    int n = vsnprintf(e->msg, sizeof e->msg, fmt, ap);
    va_end(ap);
    if (n > 0 && (size_t)n < sizeof e->msg && strncmp(inner, e->msg, (size_t)n) == 0 && inner[n] == ':')
        memcpy(e->msg, inner, sizeof inner); /* it says so already */
    else if (n >= 0 && (size_t)n < sizeof e->msg)
        (void)snprintf(e->msg + n, sizeof e->msg - (size_t)n, ": %.*s", (int)(sizeof e->msg) - n, inner);
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
