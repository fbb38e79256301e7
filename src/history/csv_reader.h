/* csv_reader.h - rows and cells of delimited text, streamed.
 *
 * RFC 4180 with what real files do besides: LF or CR LF, a UTF-8 mark at the start, ';', tab or '|'
 * for the comma, blanks around cells, empty lines (skipped), line breaks inside quotes.  A quote
 * means something only at the start of a cell.  Cells are views, valid until the next row; only
 * cells with doubled quotes are copied.  Memory is bounded: a row of at most FILE_LINE_MAX bytes.
 * Errors name the file. */
#ifndef HISTORY_CSV_READER_H
#define HISTORY_CSV_READER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

struct csv_cell {
    const char *p;
    size_t n;
};

struct csv_reader;

/* delim 0: the one of ",;\t|" that the first line holds most of.  Errors: ERR_IO, ERR_PARSE for
 * bytes that are not text, ERR_LIMIT (cap bytes after decompression). */
NODISCARD enum err_code csv_open(const char *path, uint64_t cap, char delim,
                                 struct csv_reader **out, struct err *e);
void csv_close(struct csv_reader *r); /* NULL is fine */
/* Next row: the first max cells, and in *n how many the row has (0 at the end of the file).
 * Errors: as csv_open, and a quote that is never closed. */
NODISCARD enum err_code csv_next(struct csv_reader *r, struct csv_cell *cells, size_t max,
                                 size_t *n, struct err *e);
uint64_t csv_line(const struct csv_reader *r); /* where the row began, from 1 */
const char *csv_path(const struct csv_reader *r);
bool csv_cell_is(struct csv_cell c, const char *text);

#endif
