/* raw.h - samples as they were read, before they have a grid: (time, value, line) per series.
 *
 * An importer makes series (one per mapped column, pod or Prometheus label set), pushes values and
 * nothing else; history/clean.h turns the lot into a history.  raw_value() is where a value is
 * judged:
 *
 *   not finite            missing, counted (nan, inf)
 *   blank marker of DCGM  missing, counted (sentinel)
 *   above FLT_MAX         missing, counted as wrong (huge): columns are float32
 *   negative              missing, counted as wrong: no field can be negative
 *   fraction in (1, 1.05] 1, counted (clamped): rounding of busy time over wall time
 *   fraction above 1.05   missing, counted as wrong: most often per cent, see `scale`
 *
 * A sample without a value is kept as NaN: its time still tells where the grid lies.
 * Counters are judged before they become rates, without the upper limits; rates and sums again
 * after. 24 bytes a sample; RAW_SAMPLES_MAX bounds the memory.  One owner, one thread. */
#ifndef HISTORY_RAW_H
#define HISTORY_RAW_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "history/report.h"
#include "model/field.h"

enum { RAW_SERIES_MAX = 100000, RAW_FILES_MAX = 65535, RAW_LABEL_MAX = 256 };
#define RAW_TIME_MIN_US (INT64_C(-2208988800) * 1000000) /* 1900-01-01; earlier is a mistake */
#define RAW_TIME_MAX_US (INT64_C(7258118400) * 1000000)  /* 2200-01-01 */
#define RAW_SAMPLES_MAX ((size_t)200 * 1000 * 1000)

struct raw_sample {
    int64_t t_us;
    double v;
    uint32_t line;
    uint32_t file; /* index into raw.files */
};

/* How several values of one step become one. */
enum raw_combine { RAW_LAST, RAW_SUM, RAW_MEAN, RAW_MAX, RAW_MIN };

struct raw_series {
    enum field field;
    char label[RAW_LABEL_MAX]; /* for messages */
    double scale, offset;      /* stored = read * scale + offset */
    bool counter;              /* becomes a rate per second */
    bool per_step;             /* count per native step: becomes a rate per second */
    bool event;               /* each sample is an arrival of weight v: becomes a rate per second */
    bool absent_is_zero;      /* a step without a row had none of it (request counts) */
    enum raw_combine in_step; /* rows of this series within one step */
    int64_t newest_us;
    bool unsorted;
    struct raw_sample *s;
    size_t n, size;
};

struct raw {
    struct raw_series *series;
    size_t n_series, size_series;
    size_t n_samples; /* over all series */
    size_t n_usable;  /* of them with a value */
    char **files;
    size_t n_files;
    enum raw_combine
        across[FIELD_COUNT]; /* series of one field in one step; RAW_LAST: only one allowed */
    struct import_report report;
};

void raw_init(struct raw *r);
void raw_fini(struct raw *r);
/* A file by its path; the index goes into samples.  Errors: ERR_LIMIT. */
NODISCARD enum err_code raw_file(struct raw *r, const char *path, uint32_t *index, struct err *e);
/* A new series with scale 1; *index stays valid, pointers into raw.series do not. */
NODISCARD enum err_code raw_series_add(struct raw *r, enum field field, const char *label,
                                       size_t *index, struct err *e);
/* Judges and stores one value.  Errors: ERR_LIMIT, ERR_NOMEM. */
NODISCARD enum err_code raw_value(struct raw *r, size_t series, int64_t t_us, double v,
                                  uint32_t file, uint64_t line, struct err *e);
/* A row whose value is missing for a reason already counted. */
NODISCARD enum err_code raw_missing(struct raw *r, size_t series, int64_t t_us, uint32_t file,
                                    uint64_t line, struct err *e);
/* The last four rules of the list above on a finished value: false when it counts as missing. */
bool raw_judge(struct raw *r, enum field f, double *v, uint32_t file, uint64_t line);
/* Counts one note at a line of a file. */
void raw_tally(struct raw *r, enum tally_id id, uint32_t file, uint64_t line);
/* Ascending by (time, file, line). */
void raw_sort(struct raw_series *s);

#endif
