/* morning.h - the daily report every morning, written by a thread of its own beside the loop.
 *
 * STATE_DIR/reports/YYYY-MM-DD.txt, .json and .html: the 24 h before, in local days; files older than 60 days are
 * removed.  Reads the store through a connection of its own, so neither waits for the other. */
#ifndef DAEMON_MORNING_H
#define DAEMON_MORNING_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "base/log.h"
#include "base/tz.h"

enum { MORNING_MINUTE = 6 * 60 }; /* of the local day */

struct morning_opts {
    const char *state_dir;   /* borrowed, as all */
    const char *zone;        /* IANA name */
    struct log *log;
};

struct morning;
struct morning *morning_new(const struct morning_opts *o);
void morning_free(struct morning *m); /* waits for a report being written; NULL is fine */
/* Once a turn, with the local day and minute and decision time: begins the report of the day when it is time.  A start later
 * in the day writes none for the day it started on, unless the file is missing and there is a record to read. */
void morning_tick(struct morning *m, int32_t day, int minute, int64_t now_us);
/* The report of [until - 24 h, until) at once, in the caller's thread; for tests.  base: path without ending. */
NODISCARD enum err_code morning_write(const struct morning_opts *o, int64_t until_us, const char *base, struct err *e);

#endif
