/* import_priv.h - what importers share. */
#ifndef HISTORY_IMPORT_PRIV_H
#define HISTORY_IMPORT_PRIV_H

#include "base/tz.h"
#include "history/csv_reader.h"
#include "history/import.h"
#include "history/raw.h"
#include "history/time_text.h"

struct importer {
    const char *name;
    const char *summary;
    const char *const *uses; /* options besides the common ones; NULL-terminated */
    int64_t default_step_us; /* 0: detect */
    /* Pushes every sample into raw.  zone is NULL for UTC. */
    enum err_code (*run)(const struct import_cfg *cfg, const struct tz *zone, char *const *paths,
                         size_t n, struct raw *raw, struct err *e);
};
extern const struct importer import_csv, import_prometheus, import_genai, import_azure_llm;

enum raw_combine import_combine_rule(int combine); /* not COMBINE_AUTO */
/* Several series for one field need a rule.  Errors: ERR_INVAL naming them. */
NODISCARD enum err_code import_check_series(const struct import_cfg *cfg, const struct raw *raw, struct err *e);
/* A cell as a value, which may be NaN or infinite; false when it is empty or no number, which is
 * counted. */
bool import_number(const struct import_cfg *cfg, struct raw *raw, struct csv_cell c, uint32_t file,
                   uint64_t line, double *v);
/* True when the time was read; otherwise counted. */
bool import_time(struct raw *raw, struct time_reader *tr, struct csv_cell c, uint32_t file,
                 uint64_t line, int64_t *us);
/* "qps=page.json": the path behind the mark and its field; *field is -1 without one. */
const char *import_path_field(const char *path, int *field);
enum { IMPORT_COLUMNS_MAX = 4096 };
/* Index of a column by name (when the first row holds names), else by number from 1.
 * Errors: ERR_MISSING listing the columns there are. */
NODISCARD enum err_code import_column(const struct csv_cell *head, size_t n, bool named,
                                      const char *name, size_t *index, struct err *e);

#endif
