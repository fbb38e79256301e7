/* tz.h - time zones and civil dates without process-wide state.
 *
 * Zones come from TZif files (RFC 8536, versions 1 to 4, with the POSIX rule of the footer) under $TZDIR
 * or /usr/share/zoneinfo; the C library's tzset() is process-wide, hence our own reader.  Instants are
 * int64_t microseconds since 1970-01-01 UTC; local times are the same count read off a local clock.
 * Dates use the proleptic Gregorian calendar (days algorithms: Hinnant 2013), years 0001 .. 9999. */
#ifndef BASE_TZ_H
#define BASE_TZ_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

struct tz; /* immutable; may be shared between threads */

/* "Europe/Berlin", "UTC".  Errors: ERR_INVAL for a name that is absolute or holds "..", ERR_MISSING (says
 * to install tzdata when there is no zone data at all), ERR_PARSE for a damaged file. */
NODISCARD enum err_code tz_load(const char *name, struct tz **out, struct err *e);
/* From the bytes of a TZif file. */
NODISCARD enum err_code tz_parse(const void *p, size_t n, const char *name, struct tz **out, struct err *e);
void tz_free(struct tz *tz);
const char *tz_name(const struct tz *tz);

/* Seconds east of UTC at an instant.  tz may be NULL: UTC. */
int32_t tz_offset_s(const struct tz *tz, int64_t utc_us);
int64_t tz_to_local_us(const struct tz *tz, int64_t utc_us);

enum tz_kind {
    TZ_UNIQUE,
    TZ_GAP,    /* the clock skipped it: a is with the offset before the gap, b with the one after */
    TZ_REPEAT, /* the clock showed it twice: a is the earlier, b the later instant */
};
/* Instants of a local time; a == b when unique. */
enum tz_kind tz_from_local(const struct tz *tz, int64_t local_us, int64_t *a_us, int64_t *b_us);

struct tz_civil {
    int year, month, day;      /* month 1 .. 12 */
    int hour, minute, second;
    int us;                    /* microsecond within the second */
    int weekday;               /* 0 Monday .. 6 Sunday */
    int yday;                  /* 0 .. 365 */
};
int64_t tz_days(int year, int month, int day); /* since 1970-01-01 */
void tz_date(int64_t days, int *year, int *month, int *day);
int tz_month_days(int year, int month);
bool tz_date_valid(int year, int month, int day);
struct tz_civil tz_civil(int64_t count_us);     /* of a UTC or local count */
int64_t tz_count_us(const struct tz_civil *c);  /* reads year .. us */

/* "2024-05-01T12:00:00Z", "...+02:00", ".5" up to 9 digits (cut to microseconds); 'T', 't' or a blank.
 * The whole text must match.  A leap second (:60) reads as the next second. */
NODISCARD enum err_code tz_parse_rfc3339(const char *s, size_t n, int64_t *utc_us, struct err *e);
/* "2024-05-01 12:00:00[.fffffff]" or with 'T', no zone: a local count. */
NODISCARD enum err_code tz_parse_naive(const char *s, size_t n, int64_t *local_us, struct err *e);
/* Either of the two; naive times are read in tz.  A repeat takes the earlier instant, a gap the offset
 * before it; *kind (may be NULL) tells. */
NODISCARD enum err_code tz_parse_time(const struct tz *tz, const char *s, size_t n, int64_t *utc_us,
                                      enum tz_kind *kind, struct err *e);
enum { TZ_TEXT = 48 };
void tz_format_rfc3339(const struct tz *tz, int64_t utc_us, char out[TZ_TEXT]); /* ".ffffff" unless 0 */
void tz_format_naive(int64_t count_us, char out[TZ_TEXT]); /* "2024-05-01 12:00:00" */

#endif
