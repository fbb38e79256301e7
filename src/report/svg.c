/* svg.c - charts as inline SVG.
 *
 * Inside a layer one column is one unit wide and the plot is LAYER_H units high, so paths are whole
 * numbers (a step of 0.1 pixel on a 100 pixel chart) and equal values in a row cost nothing: "h"
 * runs are merged. */
#include "report/svg_priv.h"

#include <math.h>

#include "report/text.h"

enum { LAYER_H = 1000 };

struct svg svg_open(struct buf *out, const char *id, int height, const char *title,
                    const char *desc)
{
    buf_fmt(out,
            "<svg id=\"%s\" class=\"chart\" role=\"img\" width=\"100%%\" height=\"%d\" "
            "aria-labelledby=\"%s-t %s-d\">"
            "<title id=\"%s-t\">",
            id, height, id, id, id);
    text_html(out, title);
    buf_fmt(out, "</title><desc id=\"%s-d\">", id);
    text_html(out, desc);
    buf_str(out, "</desc>\n");
    return (struct svg){out, height};
}

void svg_close(struct svg *s)
{
    buf_str(s->out, "</svg>\n");
}

double svg_y(const struct svg *s, const struct axis *y, double v)
{
    return s->height * (1 - axis_at(y, v));
}

void svg_text(struct svg *s, double x_frac, double y_px, double dx, double dy, const char *cls,
              const char *text)
{
    buf_fmt(s->out, "<text x=\"%.2f%%\" y=\"%.1f\" dx=\"%.1f\" dy=\"%.1f\" class=\"%s\">",
            100 * x_frac, y_px, dx, dy, cls);
    text_html(s->out, text);
    buf_str(s->out, "</text>");
}

void svg_grid_y(struct svg *s, const struct axis *y)
{
    double before = INFINITY;
    for (size_t i = 0; i < y->n; i++) {
        double py = svg_y(s, y, y->tick[i]);
        buf_fmt(s->out, "<line class=\"gr\" x1=\"0\" x2=\"100%%\" y1=\"%.1f\" y2=\"%.1f\"/>", py,
                py);
        if (before - py >= 13) { /* a line of text */
            svg_text(s, 0, py, -7, 3.5, "tk e", axis_label(y, y->tick[i]).s);
            before = py;
        }
    }
    buf_char(s->out, '\n');
}

/* Every other label disappears on a narrow page. */
static void put_x_label(struct svg *s, double frac, size_t i, const char *text)
{
    svg_text(s, frac, s->height, 0, 15, i % 2 ? "tk m w" : "tk m", text);
}

static void put_x_line(struct svg *s, double frac)
{
    buf_fmt(s->out, "<line class=\"gr\" x1=\"%.2f%%\" x2=\"%.2f%%\" y1=\"0\" y2=\"%d\"/>",
            100 * frac, 100 * frac, s->height);
}

void svg_grid_x(struct svg *s, const struct axis *x, struct fmt (*label)(double v, double step))
{
    for (size_t i = 0; i < x->n; i++) {
        double frac = axis_at(x, x->tick[i]);
        put_x_line(s, frac);
        put_x_label(s, frac, i, label(x->tick[i], x->log ? x->tick[i] : x->step).s);
    }
    buf_char(s->out, '\n');
}

void svg_grid_time(struct svg *s, const struct axis *x, const struct tz *zone, bool labels)
{
    for (size_t i = 0; i < x->n; i++) {
        double frac = axis_at(x, x->tick[i]);
        put_x_line(s, frac);
        if (labels && frac < 0.985)
            put_x_label(s, frac, i, axis_time_label(x, zone, x->tick[i]).s);
    }
    buf_char(s->out, '\n');
}

void svg_rule_y(struct svg *s, const struct axis *y, double v, const char *cls, const char *label)
{
    double py = svg_y(s, y, v);
    buf_fmt(s->out, "<line class=\"%s\" x1=\"0\" x2=\"100%%\" y1=\"%.1f\" y2=\"%.1f\"/>", cls, py,
            py);
    svg_text(s, 1, py, -3, -4, "tk e halo", label);
    buf_char(s->out, '\n');
}

void svg_layer_open(struct svg *s, size_t n_columns)
{
    buf_fmt(s->out,
            "<svg class=\"layer\" width=\"100%%\" height=\"%d\" viewBox=\"0 0 %zu %d\" "
            "preserveAspectRatio=\"none\">\n",
            s->height, n_columns, LAYER_H);
}

void svg_layer_close(struct svg *s)
{
    buf_str(s->out, "</svg>\n");
}

/* Layer units from the top. */
static int layer_y(const struct axis *y, float v)
{
    return (int)lround(LAYER_H * (1 - axis_at(y, (double)v)));
}

/* A path written as absolute rows and relative runs. */
struct path {
    struct buf *out;
    size_t run; /* columns to move right before the next row */
    int y;
};

static void path_flush(struct path *p)
{
    if (p->run)
        buf_fmt(p->out, "h%zu", p->run);
    p->run = 0;
}

static void path_row(struct path *p, int y)
{
    if (y == p->y)
        return;
    path_flush(p);
    buf_fmt(p->out, "V%d", y);
    p->y = y;
}

static void path_start(struct path *p, size_t column, int y)
{
    buf_fmt(p->out, "M%zu %d", column, y);
    p->y = y;
    p->run = 0;
}

static void path_open(struct svg *s, const char *cls)
{
    buf_fmt(s->out, "<path class=\"%s\" d=\"", cls);
}

static void path_close(struct svg *s)
{
    buf_str(s->out, "\"/>\n");
}

void svg_step(struct svg *s, const struct column *c, size_t n, const struct axis *y,
              const char *cls)
{
    struct path p = {.out = s->out};
    path_open(s, cls);
    bool pen_down = false;
    for (size_t i = 0; i < n; i++) {
        if (c[i].n == 0) {
            path_flush(&p);
            pen_down = false;
            continue;
        }
        int first = layer_y(y, c[i].first);
        if (pen_down)
            path_row(&p, first);
        else
            path_start(&p, i, first);
        pen_down = true;
        path_row(&p, layer_y(y, c[i].lo));
        path_row(&p, layer_y(y, c[i].hi));
        path_row(&p, layer_y(y, c[i].last));
        p.run++;
    }
    path_flush(&p);
    path_close(s);
}

void svg_area(struct svg *s, const struct column *c, size_t n, const struct axis *y,
              const char *cls)
{
    struct path p = {.out = s->out};
    path_open(s, cls);
    path_start(&p, 0, LAYER_H);
    for (size_t i = 0; i < n; i++) {
        path_row(&p, c[i].n ? layer_y(y, c[i].hi) : LAYER_H);
        p.run++;
    }
    path_flush(&p);
    path_row(&p, LAYER_H);
    buf_char(s->out, 'z');
    path_close(s);
}

/* One closed piece over columns [from, to): along the top, back along the bottom. */
static void band_piece(struct svg *s, const struct column *lo, const struct column *hi, size_t from,
                       size_t to, const struct axis *y)
{
    buf_fmt(s->out, "M%zu %dH%zu", from, layer_y(y, hi[from].mean), from + 1);
    for (size_t i = from + 1; i < to; i++)
        buf_fmt(s->out, "V%dh1", layer_y(y, hi[i].mean));
    for (size_t i = to; i-- > from;)
        buf_fmt(s->out, "V%dh-1", layer_y(y, lo[i].mean));
    buf_char(s->out, 'z');
}

void svg_band(struct svg *s, const struct column *lo, const struct column *hi, size_t n,
              const struct axis *y, const char *cls)
{
    path_open(s, cls);
    for (size_t i = 0; i < n;) {
        size_t to = i;
        while (to < n && isfinite(lo[to].mean) && isfinite(hi[to].mean))
            to++;
        if (to > i)
            band_piece(s, lo, hi, i, to, y);
        i = to + 1;
    }
    path_close(s);
}

void svg_bars(struct svg *s, const float *share, size_t n, int pixels, const char *cls)
{
    path_open(s, cls);
    double unit = (double)LAYER_H * pixels / s->height;
    for (size_t i = 0; i < n; i++)
        if (share[i] > 0) {
            double h =
                unit * (share[i] < 0.15f ? 0.15 : (double)share[i]); /* one miss stays visible */
            buf_fmt(s->out, "M%zu %dh1V%dh-1z", i, LAYER_H, (int)lround(LAYER_H - h));
        }
    path_close(s);
}
