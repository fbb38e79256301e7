/* table.c - rows of cells, kept as text and number, printed three ways. */
#include "report/table.h"

#include <math.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/json.h"
#include "base/mem.h"
#include "base/num.h"
#include "report/fmt_priv.h"
#include "report/table_priv.h"

enum cell_kind { CELL_MISSING, CELL_TEXT, CELL_NUM };

struct cell {
    enum cell_kind kind;
    char *text; /* TEXT: the text; NUM: own wording or NULL */
    double num;
};

struct table {
    struct table_column columns[TABLE_COLUMNS_MAX];
    size_t n_columns;
    struct cell *cells; /* row after row */
    size_t n_cells, size;
};

struct table *table_new(const struct table_column *columns, size_t n_columns)
{
    ASSERT(n_columns > 0 && n_columns <= TABLE_COLUMNS_MAX);
    struct table *t = mem_zero(1, sizeof *t);
    memcpy(t->columns, columns, n_columns * sizeof *columns);
    t->n_columns = n_columns;
    return t;
}

void table_free(struct table *t)
{
    if (!t)
        return;
    for (size_t i = 0; i < t->n_cells; i++)
        mem_free(t->cells[i].text);
    mem_free(t->cells);
    mem_free(t);
}

static void add_cell(struct table *t, enum cell_kind kind, const char *text, double num)
{
    if (t->n_cells == t->size) {
        t->size = t->size ? 2 * t->size : 64;
        t->cells = mem_grow(t->cells, t->size, sizeof *t->cells);
    }
    t->cells[t->n_cells++] = (struct cell){kind, text ? mem_strdup(text) : NULL, num};
}

void table_text(struct table *t, const char *s)
{
    add_cell(t, s ? CELL_TEXT : CELL_MISSING, s, NAN);
}

void table_textf(struct table *t, const char *fmt, ...)
{
    char text[1024];
    va_list ap;
    va_start(ap, fmt);
    (void)vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    table_text(t, text);
}

void table_num(struct table *t, double v)
{
    add_cell(t, isfinite(v) ? CELL_NUM : CELL_MISSING, NULL, v);
}

void table_num_text(struct table *t, double v, const char *shown)
{
    add_cell(t, isfinite(v) ? CELL_NUM : CELL_MISSING, isfinite(v) ? shown : NULL, v);
}

void table_skip(struct table *t)
{
    add_cell(t, CELL_MISSING, NULL, NAN);
}

size_t table_n_rows(const struct table *t)
{
    return t->n_cells / t->n_columns;
}

size_t table_n_columns(const struct table *t)
{
    return t->n_columns;
}

const char *table_title(const struct table *t, size_t column)
{
    const struct table_column *c = &t->columns[column];
    return c->title ? c->title : c->key;
}

bool table_cell_shown(const struct table *t, size_t row, size_t column, struct buf *out)
{
    const struct cell *c = &t->cells[row * t->n_columns + column];
    switch (c->kind) {
    case CELL_MISSING:
        buf_char(out, '-');
        return true;
    case CELL_TEXT:
        buf_str(out, c->text);
        return false;
    case CELL_NUM:
        buf_str(out, c->text ? c->text : fmt_fixed(c->num, t->columns[column].decimals).s);
        return true;
    }
    return false;
}

/* ---- aligned text ---------------------------------------------------------------------------- */

bool table_colour_wanted(FILE *f)
{
    const char *no = getenv("NO_COLOR"), *term = getenv("TERM");
    return !(no && *no) && term && strcmp(term, "dumb") != 0 && isatty(fileno(f));
}

static void put_cell(struct buf *out, const char *s, size_t width, bool right, bool last)
{
    size_t pad = width - text_width(s);
    if (right)
        buf_pad(out, ' ', pad);
    buf_str(out, s);
    if (!right && !last)
        buf_pad(out, ' ', pad);
    while (last && out->n && out->p[out->n - 1] == ' ')
        out->n--; /* an empty last cell leaves no blanks */
    buf_str(out, last ? "\n" : "  ");
}

/* A column of numbers is right-aligned, header included. */
static bool column_is_right(const struct table *t, size_t column)
{
    for (size_t r = 0; r < table_n_rows(t); r++)
        if (t->cells[r * t->n_columns + column].kind == CELL_TEXT)
            return false;
    return true;
}

static void format_text(const struct table *t, bool colour, struct buf *out)
{
    size_t rows = table_n_rows(t);
    size_t width[TABLE_COLUMNS_MAX];
    bool right[TABLE_COLUMNS_MAX];
    struct buf shown = buf_init(SIZE_MAX / 2), plain = buf_init(SIZE_MAX / 2);
    for (size_t c = 0; c < t->n_columns; c++) {
        width[c] = text_width(table_title(t, c));
        right[c] = column_is_right(t, c);
        for (size_t r = 0; r < rows; r++) {
            buf_clear(&shown);
            buf_clear(&plain);
            (void)table_cell_shown(t, r, c, &shown);
            text_plain(&plain, shown.p);
            size_t w = text_width(plain.p);
            width[c] = w > width[c] ? w : width[c];
        }
    }
    if (colour)
        buf_str(out, "\033[1m");
    for (size_t c = 0; c < t->n_columns; c++)
        put_cell(out, table_title(t, c), width[c], right[c], c + 1 == t->n_columns);
    if (colour)
        buf_str(out, "\033[0m");
    for (size_t r = 0; r < rows; r++)
        for (size_t c = 0; c < t->n_columns; c++) {
            buf_clear(&shown);
            buf_clear(&plain);
            (void)table_cell_shown(t, r, c, &shown);
            text_plain(&plain, shown.p);
            put_cell(out, plain.p, width[c], right[c], c + 1 == t->n_columns);
        }
    buf_fini(&shown);
    buf_fini(&plain);
}

/* ---- CSV and JSON ---------------------------------------------------------------------------- */

void csv_text(struct buf *out, const char *s)
{
    if (!s[strcspn(s, ",\"\r\n")]) {
        buf_str(out, s);
        return;
    }
    buf_char(out, '"');
    for (; *s; s++) {
        if (*s == '"')
            buf_char(out, '"');
        buf_char(out, *s);
    }
    buf_char(out, '"');
}

void csv_num(struct buf *out, double v)
{
    char text[NUM_TEXT];
    if (isfinite(v))
        buf_str(out, num_format(v, text));
}

static void format_csv(const struct table *t, struct buf *out)
{
    for (size_t c = 0; c < t->n_columns; c++) {
        csv_text(out, t->columns[c].key);
        buf_str(out, c + 1 == t->n_columns ? "\r\n" : ",");
    }
    for (size_t i = 0; i < t->n_columns * table_n_rows(t); i++) {
        const struct cell *c = &t->cells[i];
        if (c->kind == CELL_TEXT)
            csv_text(out, c->text);
        else
            csv_num(out, c->kind == CELL_NUM ? c->num : NAN);
        buf_str(out, (i + 1) % t->n_columns == 0 ? "\r\n" : ",");
    }
}

static void format_json(const struct table *t, struct buf *out)
{
    struct json_writer w = json_writer_init(out, 2);
    json_open_array(&w, NULL);
    for (size_t r = 0; r < table_n_rows(t); r++) {
        json_open(&w, NULL);
        for (size_t c = 0; c < t->n_columns; c++) {
            const struct cell *cell = &t->cells[r * t->n_columns + c];
            if (cell->kind == CELL_TEXT)
                json_put_str(&w, t->columns[c].key, cell->text);
            else
                json_put_f64(&w, t->columns[c].key, cell->kind == CELL_NUM ? cell->num : NAN);
        }
        json_close(&w);
    }
    json_close_array(&w);
}

void table_format(const struct table *t, enum cli_format format, bool colour, struct buf *out)
{
    ASSERT(t->n_cells % t->n_columns == 0);
    switch (format) {
    case CLI_TABLE:
        format_text(t, colour, out);
        break;
    case CLI_CSV:
        format_csv(t, out);
        break;
    case CLI_JSON:
        format_json(t, out);
        break;
    }
}
