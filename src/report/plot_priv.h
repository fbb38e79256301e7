/* plot_priv.h - what the charts over time share: ranges, columns, values for the pointer.  Internal
 * to report/. */
#ifndef REPORT_PLOT_PRIV_H
#define REPORT_PLOT_PRIV_H

#include <stddef.h>
#include <stdint.h>

#include "report/html_priv.h"
#include "report/reduce_priv.h"

enum {
    PLOT_COLUMNS = 480,
    PLOT_COLUMNS_WIDE = 720
}; /* most columns of a chart, half and full width */

struct plot_range {
    double lo, hi;
};
/* Widens r by the finite values; v may be NULL. */
void plot_range_add(struct plot_range *r, const float *v, size_t n);

size_t plot_columns(size_t n, size_t most);

/* Values the script shows under the pointer: JSON in an attribute, one array per series.
 *
 *     struct buf values = buf_init(PLOT_VALUES_MAX);
 *     plot_values_open(&values, p, from_us, to_us);
 *     plot_values(&values, "ready", "units", columns, n, PLOT_LAST);
 *     plot_open(p, "", &values);      writes <div class="plot" ...>, ends the JSON and releases
 * `values`
 *     ... svg ... then buf_str(p->out, "</div>") */
enum { PLOT_VALUES_MAX = 1 << 18 };
enum plot_pick { PLOT_LO, PLOT_HI, PLOT_LAST };
void plot_values_open(struct buf *values, const struct page *p, int64_t from_us, int64_t to_us);
void plot_values(struct buf *values, const char *name, const char *unit, const struct column *c,
                 size_t n, enum plot_pick pick);
void plot_open(struct page *p, const char *cls, struct buf *values);

#endif
