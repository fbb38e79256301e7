#include "history/csv_reader.h"

#include <inttypes.h>
#include <string.h>

#include "base/buf.h"
#include "base/file.h"
#include "base/mem.h"

struct csv_reader {
    struct file_reader *file;
    char delim;
    uint64_t row_line;
    bool held; /* `line` was read ahead to choose the delimiter */
    const char *line;
    size_t n;
    struct buf joined;   /* a row that spans lines; does not move while it grows */
    struct buf unquoted; /* cells that held doubled quotes; does not move while a row is cut */
    size_t cell_at, cell_no,
        scanned; /* where cutting stopped at an open quote: each byte is seen once */
};

static bool is_blank(char c)
{
    return c == ' ' || c == '\t';
}

static enum err_code next_line(struct csv_reader *r, struct err *e)
{
    if (r->held) {
        r->held = false;
        return ERR_OK;
    }
    enum err_code rc;
    do
        rc = file_reader_line(r->file, &r->line, &r->n, e);
    while (!rc && r->line && r->n == 0);
    return rc;
}

static char choose_delim(const char *s, size_t n)
{
    static const char delims[] = ",;\t|";
    size_t count[sizeof delims - 1] = {0}, best = 0;
    bool quoted = false;
    for (size_t i = 0; i < n; i++) {
        quoted ^= s[i] == '"';
        const char *d = quoted || !s[i] ? NULL : strchr(delims, s[i]);
        if (d)
            count[d - delims]++;
    }
    for (size_t i = 1; i < sizeof count / sizeof count[0]; i++)
        if (count[i] > count[best])
            best = i;
    return delims[best];
}

static enum err_code first_line(struct csv_reader *r, struct err *e)
{
    static const char bom[] = "\xef\xbb\xbf";
    enum err_code rc = next_line(r, e);
    if (rc || !r->line)
        return rc;
    if (r->n >= 2 && (memcmp(r->line, "\xff\xfe", 2) == 0 || memcmp(r->line, "\xfe\xff", 2) == 0))
        return err_set(e, ERR_PARSE, "%s: UTF-16 text: convert it to UTF-8 first", csv_path(r));
    if (memchr(r->line, 0, r->n))
        return err_set(e, ERR_PARSE, "%s: not text: the first line holds a NUL byte", csv_path(r));
    if (r->n >= 3 && memcmp(r->line, bom, 3) == 0) {
        r->line += 3;
        r->n -= 3;
    }
    r->held = r->n > 0;
    if (!r->delim)
        r->delim = choose_delim(r->line, r->n);
    return ERR_OK;
}

enum err_code csv_open(const char *path, uint64_t cap, char delim, struct csv_reader **out,
                       struct err *e)
{
    struct csv_reader *r = mem_zero(1, sizeof *r);
    *out = NULL;
    r->delim = delim;
    r->joined = buf_init(4 * FILE_LINE_MAX);
    r->unquoted = buf_init(4 * FILE_LINE_MAX);
    enum err_code rc = file_reader_open(path, cap, &r->file, e);
    if (!rc)
        rc = first_line(r, e);
    if (rc) {
        csv_close(r);
        return rc;
    }
    *out = r;
    return ERR_OK;
}

void csv_close(struct csv_reader *r)
{
    if (!r)
        return;
    file_reader_close(r->file);
    buf_fini(&r->joined);
    buf_fini(&r->unquoted);
    mem_free(r);
}

uint64_t csv_line(const struct csv_reader *r)
{
    return r->row_line;
}

const char *csv_path(const struct csv_reader *r)
{
    return file_reader_path(r->file);
}

/* Position behind the closing quote at or after s[i] (inside quotes), or n + 1 when there is none.
 */
static size_t close_quote(const char *s, size_t n, size_t i)
{
    while (i < n) {
        const char *q = memchr(s + i, '"', n - i);
        if (!q)
            return n + 1;
        i = (size_t)(q - s) + 1;
        if (i >= n || s[i] != '"')
            return i;
        i++;
    }
    return n + 1;
}

static size_t skip_blanks(const char *s, size_t n, size_t i, char delim)
{
    while (i < n && is_blank(s[i]) && s[i] != delim)
        i++;
    return i;
}

/* Text between quotes with doubled ones made single. */
static struct csv_cell unquote(struct csv_reader *r, const char *p, size_t n)
{
    if (!memchr(p, '"', n))
        return (struct csv_cell){p, n};
    char *out = buf_room(&r->unquoted, n); /* reserved by csv_next(): does not move */
    size_t k = 0;
    for (size_t i = 0; i < n; i++) {
        out[k++] = p[i];
        i += p[i] == '"' && i + 1 < n && p[i + 1] == '"';
    }
    buf_grew(&r->unquoted, k);
    return (struct csv_cell){out, k};
}

static struct csv_cell trimmed(const char *p, size_t n, char delim)
{
    while (n > 0 && is_blank(p[n - 1]) && p[n - 1] != delim)
        n--;
    return (struct csv_cell){p, n};
}

/* The quoted cell that opens at s[i].  False when it does not close in this line. */
static bool cut_quoted(struct csv_reader *r, size_t *i, struct csv_cell *c)
{
    size_t from = r->scanned > *i ? r->scanned : *i + 1;
    size_t end = close_quote(r->line, r->n, from);
    if (end > r->n)
        return false;
    *c = (struct csv_cell){r->line + *i + 1, end - *i - 2};
    while (end < r->n &&
           r->line[end] != r->delim) /* text behind a closing quote is not part of the cell */
        end++;
    *i = end;
    return true;
}

/* Cuts r->line from where it stopped.  False when a quote stays open. */
static bool cut(struct csv_reader *r, struct csv_cell *cells, size_t max, size_t *n_cells)
{
    const char *s = r->line;
    size_t n = r->n, k = r->cell_no;
    for (size_t i = r->cell_at;; i++, k++) {
        struct csv_cell c;
        i = skip_blanks(s, n, i, r->delim);
        if (i < n && s[i] == '"') {
            r->cell_at = i;
            r->cell_no = k;
            if (!cut_quoted(r, &i, &c)) {
                r->scanned = n;
                return false;
            }
            if (k < max)
                c = unquote(r, c.p, c.n);
        } else {
            size_t start = i;
            while (i < n && s[i] != r->delim)
                i++;
            c = trimmed(s + start, i - start, r->delim);
        }
        if (k < max)
            cells[k] = c;
        if (i >= n)
            break;
    }
    *n_cells = k + 1;
    return true;
}

static void restart(struct csv_reader *r)
{
    r->cell_at = r->cell_no = r->scanned = 0;
    if (r->unquoted.n > 0)
        buf_clear(&r->unquoted);
}

/* Appends the next line to the row, for a quote that is still open. */
static enum err_code join_line(struct csv_reader *r, struct err *e)
{
    if (r->line != r->joined.p) {
        buf_clear(&r->joined);
        buf_add(&r->joined, r->line, r->n);
        restart(r); /* the cells so far pointed into the line */
    }
    const char *more;
    size_t n;
    enum err_code rc = file_reader_line(r->file, &more, &n, e);
    if (rc)
        return rc;
    if (!more || r->joined.n + n >= FILE_LINE_MAX)
        return err_set(e, more ? ERR_LIMIT : ERR_PARSE,
                       "%s: the quote opened at line %" PRIu64 " is not closed%s", csv_path(r),
                       r->row_line, more ? " within 1 MiB" : "");
    buf_char(&r->joined, '\n');
    buf_add(&r->joined, more, n);
    r->line = r->joined.p;
    r->n = r->joined.n;
    return buf_check(&r->joined, e);
}

enum err_code csv_next(struct csv_reader *r, struct csv_cell *cells, size_t max, size_t *n,
                       struct err *e)
{
    *n = 0;
    enum err_code rc = next_line(r, e);
    if (rc || !r->line)
        return rc;
    r->row_line = file_reader_line_no(r->file);
    restart(r);
    if (memchr(r->line, '"', r->n) &&
        (!buf_room(&r->unquoted, 2 * FILE_LINE_MAX) || !buf_room(&r->joined, 2 * FILE_LINE_MAX)))
        return err_set(e, ERR_NOMEM, "%s: line %" PRIu64, csv_path(r), r->row_line);
    while (!cut(r, cells, max, n)) {
        rc = join_line(r, e);
        if (rc)
            return rc;
    }
    return ERR_OK;
}

bool csv_cell_is(struct csv_cell c, const char *text)
{
    return strlen(text) == c.n && memcmp(c.p, text, c.n) == 0;
}
