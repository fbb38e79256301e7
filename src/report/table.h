/* table.h - rows of text and numbers, printed as an aligned table, as CSV (RFC 4180) or as JSON.
 *
 * One set of rows feeds all three, so they cannot drift apart.  Columns have a key (JSON and CSV)
 * and a title (people).  Numbers are right-aligned and rounded for people; CSV and JSON carry every
 * digit.  A missing number is an empty CSV field, null in JSON and "-" for people. Cells copy their
 * text.  Names come from outside: control characters, which could steer a terminal, and bytes that
 * are not UTF-8 are shown as U+FFFD in the aligned form; JSON escapes them; CSV keeps them.
 *
 *     struct table *t = table_new((struct table_column[]){{"name", "policy"}, {"cost_usd", "cost
 * $", 2}}, 2); table_text(t, "hpa"); table_num(t, 12.5);      // cells go left to right, rows top
 * to bottom table_format(t, CLI_TABLE, false, &out); table_free(t);
 *
 * One owner, one thread. */
#ifndef REPORT_TABLE_H
#define REPORT_TABLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

#include "base/buf.h"
#include "base/cli.h"
#include "report/text.h"

enum { TABLE_COLUMNS_MAX = 64 };

struct table_column {
    const char *key;   /* JSON member and CSV header; borrowed for the table's life */
    const char *title; /* header for people; NULL: the key */
    int decimals;      /* of numbers, for people */
};

struct table;

struct table *table_new(const struct table_column *columns, size_t n_columns);
void table_free(struct table *t); /* NULL is fine */

/* The next cell.  The row wraps by itself after the last column. */
void table_text(struct table *t, const char *s);
void table_textf(struct table *t, const char *fmt, ...) PRINTF_LIKE(2, 3);
void table_num(struct table *t, double v); /* not finite: missing */
/* A number with its own wording for people, e.g. "0.9 %": CSV and JSON carry v. */
void table_num_text(struct table *t, double v, const char *shown);
void table_skip(struct table *t); /* missing */

size_t table_n_rows(const struct table *t); /* complete rows */

/* Appends to `out` (check it with buf_check).  `colour`: bold header, with ANSI escapes; table
 * only. The current row must be complete. */
void table_format(const struct table *t, enum cli_format format, bool colour, struct buf *out);

/* Whether text for people may carry colour: `f` is a terminal, TERM is not "dumb", NO_COLOR is
 * unset or empty (no-color.org). */
bool table_colour_wanted(FILE *f);

#endif
