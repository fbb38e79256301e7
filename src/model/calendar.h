/* calendar.h - local-time context of an instant: slot, weekday, holidays, month and quarter ends.
 *
 * A calendar borrows a zone (base/tz.h) and a sorted list of holidays.  Pure; thread-safe. */
#ifndef MODEL_CALENDAR_H
#define MODEL_CALENDAR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

struct tz;

enum { SLOTS_PER_DAY = 96, SLOT_MINUTES = 15 };

struct calendar {
    const struct tz *zone;     /* NULL is UTC */
    const int32_t *holiday_days; /* [n_holidays] local days since 1970-01-01, ascending */
    size_t n_holidays;
};

struct calendar_point {
    int32_t day;       /* local days since 1970-01-01 */
    int16_t minute;    /* of the local day, 0..1439 */
    int8_t slot;       /* 0..95 */
    int8_t weekday;    /* 0 Monday .. 6 Sunday */
    bool holiday;
    bool month_end;    /* last day of the month */
    bool quarter_end;  /* last day of the quarter */
};

/* n local dates YYYY-MM-DD, in any order, as calendar.holiday_days: days [n], ascending.  Errors: ERR_PARSE naming the
 * date. */
NODISCARD enum err_code calendar_read_holidays(const char *const *dates, size_t n, int32_t *days, struct err *e);
struct calendar_point calendar_at(const struct calendar *cal, int64_t time_us);
/* Saturday, Sunday and holidays have profiles of their own. */
bool calendar_is_workday(const struct calendar_point *p);

#endif
