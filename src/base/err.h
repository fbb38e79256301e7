/* err.h - the one error type.
 *
 * A fallible function returns enum err_code (0 is success) and takes a `struct err *` last.  The code
 * is for programs, the text for people.  Callers add what they know on the way up with err_wrap(), so
 * the text reads outermost first: "trace a.csv: line 41: gpus: 900 is above 512".
 * An error is returned or handled, never both; it is printed once, where it stops.
 * `e` may be NULL where a caller needs the code only.  Thread-safe on distinct objects. */
#ifndef BASE_ERR_H
#define BASE_ERR_H

#include <stdarg.h>
#include <stdnoreturn.h>

#define NODISCARD __attribute__((warn_unused_result))
#define PRINTF_LIKE(fmt, args) __attribute__((format(printf, fmt, args)))

#define ERR_CODE_LIST(X)                                                                           \
    X(OK, "ok")                                                                                    \
    X(INVAL, "invalid argument")                                                                   \
    X(PARSE, "malformed input")                                                                    \
    X(RANGE, "value out of range")                                                                 \
    X(LIMIT, "limit exceeded")                                                                     \
    X(NOMEM, "out of memory")                                                                      \
    X(IO, "input or output failed")                                                                \
    X(MISSING, "not found")                                                                        \
    X(MISMATCH, "does not match")                                                                  \
    X(NUMERIC, "non-finite number")                                                                \
    X(INTERRUPTED, "interrupted")                                                                  \
    X(USAGE, "usage")

enum err_code {
#define X(name, text) ERR_##name,
    ERR_CODE_LIST(X)
#undef X
};

struct err {
    enum err_code code;
    int sys; /* errno, or 0 */
    char msg[512];
};

/* Each sets or prefixes the text and returns the code it leaves.  err_sys adds strerror(sys).
 *     enum err_code err_set(struct err *e, enum err_code code, const char *fmt, ...);
 *     enum err_code err_sys(struct err *e, int sys, const char *fmt, ...);
 * are macros so that the compiler sees the code returned, and can tell which outputs are set after success. */
enum err_code err_wrap(struct err *e, const char *fmt, ...) PRINTF_LIKE(2, 3);
#define err_set(e, code, ...)                                                                      \
    __extension__({                                                                                \
        const enum err_code err_code_ = (code);                                                    \
        err_set_text((e), err_code_, __VA_ARGS__);                                                 \
        err_code_;                                                                                 \
    })
#define err_sys(e, sys, ...)                                                                       \
    __extension__({                                                                                \
        err_sys_text((e), (sys), __VA_ARGS__);                                                     \
        ERR_IO;                                                                                    \
    })
void err_set_text(struct err *e, enum err_code code, const char *fmt, ...) PRINTF_LIKE(3, 4);
void err_sys_text(struct err *e, int sys, const char *fmt, ...) PRINTF_LIKE(3, 4);
const char *err_code_text(enum err_code code);

/* Guards our own bugs; stays on in release builds.  Outside data never reaches it. */
noreturn void assert_fail(const char *file, int line, const char *what);
#define ASSERT(cond) ((cond) ? (void)0 : assert_fail(__FILE__, __LINE__, #cond))

#endif
