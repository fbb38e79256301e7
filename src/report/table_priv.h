/* table_priv.h - a table's cells for the HTML page, and CSV fields.  Internal to report/. */
#ifndef REPORT_TABLE_PRIV_H
#define REPORT_TABLE_PRIV_H

#include "report/table.h"

size_t table_n_columns(const struct table *t);
const char *table_title(const struct table *t, size_t column);
/* Appends the cell as people see it; true when it is a number or missing, hence right-aligned. */
bool table_cell_shown(const struct table *t, size_t row, size_t column, struct buf *out);

/* One field by RFC 4180: quoted when it must be; a missing number is empty. */
void csv_text(struct buf *out, const char *s);
void csv_num(struct buf *out, double v);

#endif
