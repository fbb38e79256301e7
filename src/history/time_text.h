/* time_text.h - a column of times as text, read one cell after the other.
 *
 * The format is fixed by the first cell (or given) and then required of all: a column does not
 * change its mind half way.  Local times use the order of rows where the clock showed an hour
 * twice: the first instant that is later than the row before.  Bulk columns repeat their date, so
 * the day is cached.
 *
 *   s ms us ns   digits since the epoch, with decimals or an exponent if they like
 *   rfc3339      2024-05-01T12:00:00Z, +02:00
 *   local        2024-05-01[( |T)12:00[:00[.f...]]], also with '/' between, in `zone`
 *   row          no column: start + row * step */
#ifndef HISTORY_TIME_TEXT_H
#define HISTORY_TIME_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/tz.h"

enum time_format {
    TIME_AUTO,
    TIME_S,
    TIME_MS,
    TIME_US,
    TIME_NS,
    TIME_RFC3339,
    TIME_LOCAL,
    TIME_ROW
};

enum time_result {
    TIME_OK,
    TIME_OK_GAP,    /* a local time the clock skipped, read with the offset before */
    TIME_OK_REPEAT, /* a local time the clock showed twice, told apart by order */
    TIME_BAD,
    TIME_OUT_OF_RANGE, /* before 1900 or after 2199 */
};

struct time_reader {
    enum time_format format; /* TIME_AUTO until the first cell is read */
    const struct tz *zone;   /* of local times; NULL is UTC */
    bool equal_is_same; /* several rows share a stamp: an equal local time is the same instant */
    int64_t last_us;    /* newest so far */
    char date[10];      /* text of the cached day */
    int64_t date_us;    /* its local midnight */
    bool date_known;
};

void time_reader_init(struct time_reader *r, enum time_format format, const struct tz *zone,
                      bool equal_is_same);
/* s without blanks around.  *us is since the epoch, UTC. */
enum time_result time_read(struct time_reader *r, const char *s, size_t n, int64_t *us);
/* "epoch seconds", "local time" ...: for notes. */
const char *time_format_text(enum time_format f);

#endif
