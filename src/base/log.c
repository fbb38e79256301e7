#include "base/log.h"

#include <pthread.h>
#include <string.h>

#include "base/clock.h"
#include "base/mem.h"
#include "base/tz.h"

enum { BURST = 10, LINE_MAX_BYTES = 2048 };

struct log {
    FILE *out;
    enum log_level most;
    pthread_mutex_t mutex;
    /* the newest message and how often it came within the second */
    enum log_level level;
    char module[32], msg[128];
    int64_t since_us;
    uint64_t seen;
};

static const char *const level_names[] = {
    [LOG_ERROR] = "error",
    [LOG_WARN] = "warn",
    [LOG_INFO] = "info",
    [LOG_DEBUG] = "debug",
};

struct log *log_new(FILE *out, enum log_level most)
{
    struct log *log = mem_zero(1, sizeof *log);
    log->out = out;
    log->most = most;
    pthread_mutex_init(&log->mutex, NULL);
    return log;
}

static void write_line(struct log *log, int64_t now_us, enum log_level level, const char *module,
                       const char *msg, const char *fields)
{
    char line[LINE_MAX_BYTES], ts[TZ_TEXT];
    tz_format_rfc3339(NULL, now_us - now_us % US_PER_MS, ts);
    int n = snprintf(line, sizeof line, "%s %s %s \"%s\"%s%s", level_names[level], ts, module, msg,
                     *fields ? " " : "", fields);
    if (n < 0)
        return;
    for (char *p = line; *p; p++) {
        if ((unsigned char)*p < 0x20 || *p == 0x7f)
            *p = ' ';
    }
    (void)fprintf(log->out, "%s%s\n", line, (size_t)n >= sizeof line ? " ..." : "");
    (void)fflush(log->out);
}

static void flush_repeats(struct log *log, int64_t now_us)
{
    char fields[64];
    if (log->seen > BURST) {
        (void)snprintf(fields, sizeof fields, "repeats=%llu", (unsigned long long)log->seen - BURST);
        write_line(log, now_us, log->level, log->module, log->msg, fields);
    }
    log->seen = 0;
}

void log_free(struct log *log)
{
    if (!log)
        return;
    flush_repeats(log, clock_wall_us());
    pthread_mutex_destroy(&log->mutex);
    mem_free(log);
}

enum log_level log_level_of(int verbosity)
{
    if (verbosity < 0)
        return LOG_ERROR;
    return verbosity == 0 ? LOG_WARN : verbosity == 1 ? LOG_INFO : LOG_DEBUG;
}

bool log_on(const struct log *log, enum log_level level)
{
    return log && level <= log->most;
}

/* True when this message may be written now. */
static bool admit(struct log *log, int64_t now_us, enum log_level level, const char *module,
                  const char *msg)
{
    bool same = log->seen > 0 && log->level == level && now_us - log->since_us < US_PER_S &&
                now_us >= log->since_us && strncmp(log->module, module, sizeof log->module - 1) == 0 &&
                strncmp(log->msg, msg, sizeof log->msg - 1) == 0;
    if (!same) {
        flush_repeats(log, now_us);
        log->level = level;
        log->since_us = now_us;
        (void)snprintf(log->module, sizeof log->module, "%s", module);
        (void)snprintf(log->msg, sizeof log->msg, "%s", msg);
    }
    return ++log->seen <= BURST;
}

static void vwrite(struct log *log, int64_t now_us, enum log_level level, const char *module,
                   const char *msg, const char *fmt, va_list ap) PRINTF_LIKE(6, 0);
static void vwrite(struct log *log, int64_t now_us, enum log_level level, const char *module,
                   const char *msg, const char *fmt, va_list ap)
{
    char fields[LINE_MAX_BYTES] = "";
    if (fmt)
        (void)vsnprintf(fields, sizeof fields, fmt, ap);
    pthread_mutex_lock(&log->mutex);
    if (admit(log, now_us, level, module, msg))
        write_line(log, now_us, level, module, msg, fields);
    pthread_mutex_unlock(&log->mutex);
}

void log_write(struct log *log, enum log_level level, const char *module, const char *msg,
               const char *fields, ...)
{
    if (!log_on(log, level))
        return;
    va_list ap;
    va_start(ap, fields);
    vwrite(log, clock_wall_us(), level, module, msg, fields, ap);
    va_end(ap);
}

void log_write_at(struct log *log, int64_t now_us, enum log_level level, const char *module,
                  const char *msg, const char *fields, ...)
{
    if (!log_on(log, level))
        return;
    va_list ap;
    va_start(ap, fields);
    vwrite(log, now_us, level, module, msg, fields, ap);
    va_end(ap);
}
