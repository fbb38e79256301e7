/* report.h - what an import read, kept, repaired and left out, and where it first happened.
 *
 * A plain value without pointers: history files carry it (docs/history-file.md), `import` prints
 * it, `inspect` shows it again.  One list names the reasons in code, file, JSON and text. */
#ifndef HISTORY_REPORT_H
#define HISTORY_REPORT_H

#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/json.h"

/* X(id, name, kind, text): kind 'r' a row left out, 'v' a value read as missing because it is
 * wrong, 'm' a value that was missing to begin with, 'k' kept but worth knowing. */
#define TALLY_LIST(X)                                                                              \
    X(RAGGED, "ragged", 'r', "rows with another number of columns than the first")                 \
    X(BAD_TIME, "bad_time", 'r', "rows whose time cannot be read")                                 \
    X(TIME_RANGE, "time_range", 'r', "rows with a time before 1900 or after 2199")                 \
    X(BAD_NUMBER, "bad_number", 'v', "values that are not numbers")                                \
    X(HUGE, "huge", 'v', "values too large to store (above 3.4e38)")                               \
    X(NEGATIVE, "negative", 'v', "negative values")                                                \
    X(ABOVE_ONE, "above_one", 'v', "fractions above 1")                                            \
    X(NAN, "nan", 'm', "NaN")                                                                      \
    X(INF, "inf", 'm', "infinite values")                                                          \
    X(EMPTY, "empty", 'm', "empty values and missing markers")                                     \
    X(SENTINEL, "sentinel", 'm', "blank markers of the exporter (9.22e18)")                        \
    X(ZERO_GAP, "zero_gap", 'm', "zeros in runs long enough to be gaps")                           \
    X(CLAMPED, "clamped", 'k', "fractions of 1 to 1.05 read as 1")                                 \
    X(FILTERED, "filtered", 'k', "rows not selected")                                              \
    X(REPEATED, "repeated", 'k', "values of a step that had one already: the last counts")         \
    X(UNSORTED, "unsorted", 'k', "values out of order: sorted")                                    \
    X(CLOCK_GAP, "clock_gap", 'k', "local times the clock skipped: read with the offset before")   \
    X(CLOCK_REPEAT, "clock_repeat", 'k',                                                           \
      "local times the clock showed twice: told apart by order")                                   \
    X(RESET, "reset", 'k', "counter resets")                                                       \
    X(EDGE, "edge", 'k', "rows in the incomplete first or last step: left out")

enum tally_id {
#define X(id, name, kind, text) TALLY_##id,
    TALLY_LIST(X)
#undef X
        TALLY_COUNT
};

struct tally_info {
    const char *name;
    char kind;
    const char *text;
};
const struct tally_info *tally_info(enum tally_id id);

enum { TALLY_FILE_MAX = 64, REPORT_NOTES_MAX = 2048 };

struct tally {
    uint64_t count;
    uint64_t line;             /* first occurrence; 0 when it has no line */
    char file[TALLY_FILE_MAX]; /* base name, cut; "" when unknown */
};

/* X(member, text): plain counters, in the order of printing. */
#define REPORT_COUNTER_LIST(X)                                                                     \
    X(rows, "rows read")                                                                           \
    X(values, "values read")                                                                       \
    X(kept, "values kept")                                                                         \
    X(gaps, "gaps (neighbours more than 1.5 steps apart)")                                         \
    X(long_gaps, "gaps of more than 3 steps")                                                      \
    X(filled, "samples filled inside short gaps")                                                  \
    X(missing, "samples missing")                                                                  \
    X(barred, "samples barred from training and forecasting")

struct import_report {
#define X(member, text) uint64_t member;
    REPORT_COUNTER_LIST(X)
#undef X
    int64_t native_step_us;
    double step_share; /* of the time differences that equal the step; NaN when not detected */
    struct tally tally[TALLY_COUNT];
    char notes[REPORT_NOTES_MAX]; /* lines, each ends in "\n": what was detected or assumed,
                                     warnings */
};

void report_init(struct import_report *r);
/* One more occurrence.  file may be NULL. */
void report_add(struct import_report *r, enum tally_id id, const char *file, uint64_t line);
/* A line of text; bytes outside printable ASCII become "?". */
void report_note(struct import_report *r, const char *fmt, ...) PRINTF_LIKE(2, 3);
/* Rows and values that were wrong (kinds 'r' and 'v'). */
uint64_t report_wrong(const struct import_report *r);
/* The kind of wrong that occurred most often, or TALLY_COUNT. */
enum tally_id report_worst(const struct import_report *r);

/* For people; about 10 lines. */
void report_text(const struct import_report *r, struct buf *out);
/* Members of one object under `key`. */
void report_json(const struct import_report *r, struct json_writer *w, const char *key);

#endif
