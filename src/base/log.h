/* log.h - one line per event on stderr: `level ts module msg key=value`.
 *
 *     log_write(log, LOG_INFO, "train", "update done", "update=%d loss=%g", i, loss);
 *     info 2024-05-01T12:00:00.000Z train "update done" update=12 loss=0.31
 *
 * The message is constant, facts go into the fields (printf; values with blanks are quoted by the
 * caller: key=\"%s\").  Control characters become blanks.  Same level, module and message again within 1 s:
 * the first 10 are written, then a count.  Never log tokens or secrets.
 * Thread-safe.  A NULL log writes nothing. */
#ifndef BASE_LOG_H
#define BASE_LOG_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "base/err.h"

enum log_level { LOG_ERROR, LOG_WARN, LOG_INFO, LOG_DEBUG };

struct log;
struct log *log_new(FILE *out, enum log_level most); /* `out` stays the caller's */
void log_free(struct log *log);                      /* writes pending counts */
/* Level for -q/-v: 0 is WARN, +1 INFO, +2 DEBUG, -1 and below ERROR. */
enum log_level log_level_of(int verbosity);
bool log_on(const struct log *log, enum log_level level);
/* fields may be NULL. */
void log_write(struct log *log, enum log_level level, const char *module, const char *msg,
               const char *fields, ...) PRINTF_LIKE(5, 6);
/* The same at a given wall time in microseconds; for tests. */
void log_write_at(struct log *log, int64_t now_us, enum log_level level, const char *module,
                  const char *msg, const char *fields, ...) PRINTF_LIKE(6, 7);

#endif
