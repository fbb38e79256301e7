/* import.h - outside files to a history: one option table, one importer per format.
 *
 * `sluice import FORMAT PATH...` and the `history:` part of a scenario fill the same struct from
 * the same table.  A new format is a new file with an importer row (import_priv.h) and its name in
 * the list. An option that the chosen format does not know is an error, never ignored.
 * docs/history.md shows the options by example. */
#ifndef HISTORY_IMPORT_H
#define HISTORY_IMPORT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/opt.h"
#include "history/raw.h"
#include "history/report.h"
#include "model/history.h"

enum import_combine {
    COMBINE_AUTO,
    COMBINE_LAST,
    COMBINE_SUM,
    COMBINE_MEAN,
    COMBINE_MAX,
    COMBINE_MIN,
};

struct import_cfg {
    /* every format */
    char *workload;
    char *task_type;
    char *zone;
    int64_t step_us; /* 0: detect */
    int stamp;       /* 0 start, 1 end of the step */
    int64_t zero_gap_us;
    struct opt_strings scale, offset; /* "field=number" */
    struct opt_strings per_step, counter;
    struct opt_strings missing;
    int combine;
    double max_bad_frac;
    int64_t max_bytes;
    char *field[FIELD_COUNT]; /* csv: columns; prometheus: series selector */
    /* csv */
    char *time;
    int time_format;
    char *start;
    int delimiter;
    int header;
    char *metric, *value, *series;
    struct opt_strings where; /* "column=text" */
    bool events;
    /* genai */
    bool undo_time_scale;
    bool api_requests;
    int64_t gpu_memory_bytes; /* 0: not known */
    /* azure-llm */
    int measure;
};
extern const struct opt_table import_table;
/* Rules over several options, as the table's own check.  Errors: ERR_USAGE. */
NODISCARD enum err_code import_check(const struct import_cfg *cfg, struct err *e);

/* "csv", "prometheus" ... in order; NULL at the end. */
const char *import_format(size_t i);
const char *import_format_summary(size_t i);

/* Reads, cleans, gives a history in memory (release with history_close(), history/table.h) and the
 * report, which is also filled as far as it got when this fails. Errors: ERR_USAGE for an unknown
 * format or option, ERR_IO, ERR_PARSE, ERR_LIMIT, ERR_MISSING without usable values, ERR_RANGE when
 * more than max_bad_frac of what was read is wrong. */
NODISCARD enum err_code import_run(const char *format, const struct import_cfg *cfg,
                                   char *const *paths, size_t n_paths, struct history *out,
                                   struct import_report *report, struct err *e);

/* Samples that come from elsewhere than files: `fill` pushes them into raw through import_series(); cleaning, limits and
 * report are those of import_run().  name: what was read, for messages and for the workload's id when none is given.
 * Errors: those of import_run and fill. */
NODISCARD enum err_code import_live(const char *format, const struct import_cfg *cfg, const char *name,
                                    enum err_code (*fill)(void *ctx, struct raw *raw, struct err *e), void *ctx,
                                    struct history *out, struct import_report *report, struct err *e);
/* A series with the options of its field applied: scale, offset, per_step, counter. */
NODISCARD enum err_code import_series(const struct import_cfg *cfg, struct raw *raw, enum field f,
                                      const char *label, size_t *index, struct err *e);

/* A history named by a scenario: a history file, or files to import in memory. */
struct history_source {
    char *file;
    char *format;
    struct opt_strings paths;
    struct import_cfg options;
};
extern const struct opt_table history_source_table;
/* Names are relative to the folder of `beside` (a scenario's path; NULL: the working folder). */
NODISCARD enum err_code history_load(const struct history_source *s, const char *beside,
                                     struct history *out, struct import_report *report,
                                     struct err *e);

#endif
