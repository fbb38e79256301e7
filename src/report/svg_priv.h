/* svg_priv.h - charts as inline SVG that stays legible at any width.
 *
 * A chart has no viewBox: its width is the page's, its height is fixed in pixels, text keeps its
 * size.  Positions across are percentages, positions down are pixels.  Long lines live in a nested
 * <svg> that stretches, with strokes that do not.  So one drawing serves a desk, a phone and paper.
 *
 *     struct svg s = svg_open(out, "cap-3", 120, "Capacity of hpa", "Units ready beside units
 * needed, ..."); svg_grid_y(&s, &y);  svg_grid_time(&s, &x, zone, true); svg_layer_open(&s,
 * n_columns); svg_step(&s, columns, n_columns, &y, "ln c0"); svg_layer_close(&s); svg_close(&s);
 *
 * Classes name the look (page.c holds the style sheet); texts are escaped here.  Internal to
 * report/. */
#ifndef REPORT_SVG_PRIV_H
#define REPORT_SVG_PRIV_H

#include <stdbool.h>
#include <stddef.h>

#include "base/buf.h"
#include "report/axis_priv.h"
#include "report/reduce_priv.h"

struct svg {
    struct buf *out;
    int height; /* of the plot area, pixels */
};

/* A figure's drawing with an accessible name and description; `id` is unique in the page. */
struct svg svg_open(struct buf *out, const char *id, int height, const char *title,
                    const char *desc);
void svg_close(struct svg *s);

/* Pixels from the top for a value. */
double svg_y(const struct svg *s, const struct axis *y, double v);

/* Horizontal lines with labels on the left; vertical lines, with labels below when `labels`. */
void svg_grid_y(struct svg *s, const struct axis *y);
void svg_grid_x(struct svg *s, const struct axis *x, struct fmt (*label)(double v, double step));
void svg_grid_time(struct svg *s, const struct axis *x, const struct tz *zone, bool labels);
/* A line across at a value with its label above its right end. */
void svg_rule_y(struct svg *s, const struct axis *y, double v, const char *cls, const char *label);

/* A stretched layer of n_columns columns; the path functions below go inside. */
void svg_layer_open(struct svg *s, size_t n_columns);
void svg_layer_close(struct svg *s);
/* Steps through first, least, greatest and last of each column. */
void svg_step(struct svg *s, const struct column *c, size_t n, const struct axis *y,
              const char *cls);
/* Filled from the bottom to the greatest value of each column. */
void svg_area(struct svg *s, const struct column *c, size_t n, const struct axis *y,
              const char *cls);
/* Filled between the means of two series. */
void svg_band(struct svg *s, const struct column *lo, const struct column *hi, size_t n,
              const struct axis *y, const char *cls);
/* Bars along the bottom, height share[i] in 0..1 of `pixels`. */
void svg_bars(struct svg *s, const float *share, size_t n, int pixels, const char *cls);

/* Text at a fraction across and pixels down. */
void svg_text(struct svg *s, double x_frac, double y_px, double dx, double dy, const char *cls,
              const char *text);

#endif
