/* file.h - history files: written atomically, read by mapping (docs/history-file.md has the
 * layout).
 *
 * Opening checks everything before anyone sees a value: sizes and offsets, the header's hash, the
 * hash of the data (XXH64 reads it at memory speed: 21 MB in a few ms), and that every value is
 * missing or in range.  So a reader never meets an infinity, and a file damaged anywhere is
 * refused. */
#ifndef HISTORY_FILE_H
#define HISTORY_FILE_H

#include <stddef.h>

#include "base/err.h"
#include "history/report.h"
#include "history/table.h"
#include "model/history.h"

enum { HISTORY_FILE_VERSION = 1 };

/* Maps path; release with history_close().  report may be NULL.
 * Errors: ERR_IO; ERR_PARSE not a history or damaged; ERR_MISMATCH another version or byte order.
 */
NODISCARD enum err_code history_open(const char *path, struct history *out,
                                     struct import_report *report, struct err *e);
/* report may be NULL.  Errors: ERR_IO; ERR_RANGE for a value no field can have (infinite, negative,
 * a fraction above 1), ERR_INVAL for a history without samples or columns. */
NODISCARD enum err_code history_write(const char *path, const struct history *h,
                                      const struct import_report *report, struct err *e);
/* The same on bytes, 64-byte aligned and borrowed by *out (owner stays NULL). */
NODISCARD enum err_code history_decode(const void *p, size_t n, struct history *out,
                                       struct import_report *report, struct err *e);
/* Whether the first bytes of a file are those of a history. */
bool history_is_file(const void *p, size_t n);

#endif
