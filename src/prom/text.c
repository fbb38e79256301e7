#include "prom/text.h"

#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <string.h>

#include "base/mem.h"
#include "base/num.h"
#include "base/utf8.h"
#include "prom/scan.h"

/* ---- names --------------------------------------------------------------------------------------
 */

static bool name_char(char c, bool first, bool colon)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' || (colon && c == ':') ||
           (!first && c >= '0' && c <= '9');
}

static size_t name_length(const char *p, const char *end, bool colon)
{
    size_t n = 0;
    while (p + n < end && name_char(p[n], n == 0, colon))
        n++;
    return n;
}

static bool is_name(const char *s, bool colon)
{
    size_t n = strlen(s);
    return n > 0 && name_length(s, s + n, colon) == n;
}

/* ---- writer -------------------------------------------------------------------------------------
 */

struct prom_writer prom_writer_init(struct buf *out)
{
    return (struct prom_writer){.out = out};
}

static const char *const type_names[] = {[PROM_UNTYPED] = "untyped",
                                         [PROM_COUNTER] = "counter",
                                         [PROM_GAUGE] = "gauge",
                                         [PROM_HISTOGRAM] = "histogram",
                                         [PROM_SUMMARY] = "summary"};

/* Backslash and line feed, in label values the quote as well; bytes that are no UTF-8 become U+FFFD. */
static void put_escaped(struct buf *out, const char *s, bool quote)
{
    for (size_t n = strlen(s); n > 0;) {
        size_t len = utf8_char(s, n);
        if (len == 0)
            buf_str(out, "\xef\xbf\xbd");
        else if (*s == '\n')
            buf_str(out, "\\n");
        else if (*s == '\\' || (quote && *s == '"'))
            buf_fmt(out, "\\%c", *s);
        else
            buf_add(out, s, len);
        s += len ? len : 1;
        n -= len ? len : 1;
    }
}

void prom_family(struct prom_writer *w, const char *name, enum prom_type type, const char *help)
{
    ASSERT(is_name(name, true) && help[0]);
    w->name = name;
    w->type = type;
    buf_fmt(w->out, "# HELP %s ", name);
    put_escaped(w->out, help, false);
    buf_fmt(w->out, "\n# TYPE %s %s\n", name, type_names[type]);
}

static void put_value(struct buf *out, double v)
{
    char text[NUM_TEXT];
    if (isnan(v))
        buf_str(out, " NaN\n");
    else if (isinf(v))
        buf_str(out, v > 0 ? " +Inf\n" : " -Inf\n");
    else
        buf_fmt(out, " %s\n", num_format(v, text));
}

/* {a="x",b="y" without the end; returns whether anything was written. */
static bool put_labels(struct buf *out, va_list labels)
{
    bool any = false;
    for (const char *name = va_arg(labels, const char *); name;
         name = va_arg(labels, const char *)) {
        const char *value = va_arg(labels, const char *);
        ASSERT(is_name(name, false));
        if (!value)
            continue;
        buf_fmt(out, "%c%s=\"", any ? ',' : '{', name);
        put_escaped(out, value, true);
        buf_char(out, '"');
        any = true;
    }
    return any;
}

void prom_put(struct prom_writer *w, double v, ...)
{
    va_list labels;
    ASSERT(w->name && w->type != PROM_HISTOGRAM && w->type != PROM_SUMMARY);
    buf_str(w->out, w->name);
    va_start(labels, v);
    if (put_labels(w->out, labels))
        buf_char(w->out, '}');
    va_end(labels);
    put_value(w->out, v);
}

struct prom_hist prom_hist_init(const double *bound, int n)
{
    struct prom_hist h = {.n = n};
    ASSERT(n > 0 && n <= PROM_BUCKETS_MAX);
    for (int i = 0; i < n; i++) {
        ASSERT(i == 0 || bound[i] > bound[i - 1]);
        h.bound[i] = bound[i];
    }
    return h;
}

struct prom_hist prom_hist_exponential(double first, double factor, int n)
{
    double bound[PROM_BUCKETS_MAX];
    ASSERT(n > 0 && n <= PROM_BUCKETS_MAX && first > 0 && factor > 1);
    for (int i = 0; i < n; i++, first *= factor)
        bound[i] = first;
    return prom_hist_init(bound, n);
}

void prom_hist_add(struct prom_hist *h, double v)
{
    int i = 0;
    if (isnan(v))
        return;
    while (i < h->n && v > h->bound[i])
        i++;
    h->count[i]++;
    h->sum += v;
}

static void put_bucket(struct prom_writer *w, const char *bound, uint64_t count, va_list labels)
{
    buf_fmt(w->out, "%s_bucket", w->name);
    buf_fmt(w->out, "%cle=\"%s\"} %" PRIu64 "\n", put_labels(w->out, labels) ? ',' : '{', bound,
            count);
}

static void put_hist_total(struct prom_writer *w, const char *suffix, double v, va_list labels)
{
    buf_fmt(w->out, "%s%s", w->name, suffix);
    if (put_labels(w->out, labels))
        buf_char(w->out, '}');
    put_value(w->out, v);
}

void prom_put_hist(struct prom_writer *w, const struct prom_hist *h, ...)
{
    uint64_t below = 0;
    va_list labels;
    ASSERT(w->name && w->type == PROM_HISTOGRAM);
    for (int i = 0; i <= h->n; i++) {
        char text[NUM_TEXT];
        below += h->count[i];
        va_start(labels, h);
        put_bucket(w, i < h->n ? num_format(h->bound[i], text) : "+Inf", below, labels);
        va_end(labels);
    }
    va_start(labels, h);
    put_hist_total(w, "_sum", h->sum, labels);
    va_end(labels);
    va_start(labels, h);
    put_hist_total(w, "_count", (double)below, labels);
    va_end(labels);
}

/* ---- reader -------------------------------------------------------------------------------------
 */

void prom_text_open(struct prom_text_reader *r, const char *p, size_t n, bool openmetrics)
{
    r->p = p;
    r->end = p + n;
    r->line = 0;
    r->openmetrics = openmetrics;
    r->ended = false;
    r->n_scratch = 0;
}

static enum err_code bad(const struct prom_text_reader *r, const char *what, struct err *e)
{
    return err_set(e, ERR_PARSE, "line %" PRIu64 ": %s", r->line, what);
}

static const char *skip_blanks(const char *p, const char *end)
{
    while (p < end && (*p == ' ' || *p == '\t'))
        p++;
    return p;
}

/* n bytes into the scratch, with a NUL. */
static enum err_code keep(struct prom_text_reader *r, const char *p, size_t n, const char **out,
                          struct err *e)
{
    if (n >= PROM_TEXT_SCRATCH - r->n_scratch)
        return err_set(e, ERR_LIMIT, "line %" PRIu64 ": more than 64 KiB of names and labels",
                       r->line);
    char *to = r->scratch + r->n_scratch;
    memcpy(to, p, n);
    to[n] = 0;
    r->n_scratch += n + 1;
    *out = to;
    return ERR_OK;
}

/* \\, \n and, in label values, \"; other backslashes stay as they are. In place. */
static void unescape(char *s, bool quote)
{
    char *to = s;
    for (; *s; s++) {
        if (s[0] == '\\' && (s[1] == '\\' || s[1] == 'n' || (quote && s[1] == '"'))) {
            s++;
            *to++ = *s == 'n' ? '\n' : *s;
        } else {
            *to++ = *s;
        }
    }
    *to = 0;
}

static enum err_code keep_unescaped(struct prom_text_reader *r, const char *p, size_t n, bool quote,
                                    const char **out, struct err *e)
{
    size_t at = r->n_scratch;
    if (memchr(p, 0, n) || utf8_valid_prefix(p, n) != n)
        return bad(r, "text that is not UTF-8", e);
    enum err_code rc = keep(r, p, n, out, e);
    if (!rc)
        unescape(r->scratch + at, quote);
    return rc;
}

static enum prom_type type_of(const char *name)
{
    for (size_t i = 0; i < ARRAY_LEN(type_names); i++)
        if (strcmp(type_names[i], name) == 0)
            return (enum prom_type)i;
    return PROM_UNTYPED;
}

static bool known_type(const char *name)
{
    static const char *const others[] = {"unknown", "info", "stateset", "gaugehistogram"};
    for (size_t i = 0; i < ARRAY_LEN(others); i++)
        if (strcmp(others[i], name) == 0)
            return true;
    return type_of(name) != PROM_UNTYPED || strcmp(name, "untyped") == 0;
}

/* "# HELP name text", "# TYPE name type", "# UNIT name unit"; other comments give PROM_TEXT_END. */
static enum err_code read_comment(struct prom_text_reader *r, const char *p, const char *end,
                                  struct prom_text_item *item, struct err *e)
{
    static const struct {
        const char *word;
        enum prom_text_kind kind;
    } words[] = {{"HELP", PROM_TEXT_HELP}, {"TYPE", PROM_TEXT_TYPE}, {"UNIT", PROM_TEXT_UNIT}};
    p = skip_blanks(p + 1, end);
    if (r->openmetrics && end - p == 3 && memcmp(p, "EOF", 3) == 0) {
        r->ended = true;
        return ERR_OK;
    }
    size_t w = 0;
    while (w < ARRAY_LEN(words) &&
           !(end - p > 4 && memcmp(p, words[w].word, 4) == 0 && (p[4] == ' ' || p[4] == '\t')))
        w++;
    if (w == ARRAY_LEN(words))
        return ERR_OK;
    p = skip_blanks(p + 4, end);
    size_t n = name_length(p, end, true);
    if (n == 0 || (p + n < end && p[n] != ' ' && p[n] != '\t'))
        return bad(r, "a bad metric name in a comment", e);
    enum err_code rc = keep(r, p, n, &item->name, e);
    p = skip_blanks(p + n, end);
    if (!rc)
        rc = keep_unescaped(r, p, (size_t)(end - p), r->openmetrics, &item->text, e);
    if (rc)
        return rc;
    item->kind = words[w].kind;
    item->type = item->kind == PROM_TEXT_TYPE ? type_of(item->text) : PROM_UNTYPED;
    return item->kind != PROM_TEXT_TYPE || known_type(item->text)
               ? ERR_OK
               : bad(r, "an unknown metric type", e);
}

/* name="value" at *p, which is left behind it. */
static enum err_code read_label(struct prom_text_reader *r, const char **p, const char *end,
                                struct prom_text_item *item, struct err *e)
{
    size_t n = name_length(*p, end, false);
    if (n == 0)
        return bad(r, "a bad label name", e);
    if (item->n_labels == PROM_TEXT_LABELS_MAX)
        return err_set(e, ERR_LIMIT, "line %" PRIu64 ": more than %d labels", r->line,
                       PROM_TEXT_LABELS_MAX);
    struct prom_text_label *l = &item->label[item->n_labels];
    enum err_code rc = keep(r, *p, n, &l->name, e);
    if (rc)
        return rc;
    for (size_t i = 0; i < item->n_labels; i++)
        if (strcmp(item->label[i].name, l->name) == 0)
            return bad(r, "a label twice", e);
    const char *q = skip_blanks(*p + n, end);
    if (q == end || *q != '=')
        return bad(r, "no = after a label name", e);
    q = skip_blanks(q + 1, end);
    if (q == end || *q != '"')
        return bad(r, "a label value without quotes", e);
    const char *start = ++q;
    while (q < end && *q != '"')
        q += *q == '\\' && q + 1 < end ? 2 : 1;
    if (q == end)
        return bad(r, "a label value that does not end", e);
    *p = q + 1;
    item->n_labels++;
    return keep_unescaped(r, start, (size_t)(q - start), true, &l->value, e);
}

static enum err_code read_labels(struct prom_text_reader *r, const char **at, const char *end,
                                 struct prom_text_item *item, struct err *e)
{
    const char *p = skip_blanks(*at + 1, end);
    while (p < end && *p != '}') {
        enum err_code rc = read_label(r, &p, end, item, e);
        if (rc)
            return rc;
        p = skip_blanks(p, end);
        if (p < end && *p == ',')
            p = skip_blanks(p + 1, end);
        else if (p < end && *p != '}')
            return bad(r, "no comma between labels", e);
    }
    if (p == end)
        return bad(r, "labels that do not end", e);
    *at = p + 1;
    return ERR_OK;
}

/* "NaN", "+Inf", "Inf", "-Inf" in any case, decimals. */
static bool read_number(const char *p, size_t n, double *v)
{
    static const struct {
        const char *text;
        double v;
    } words[] = {{"nan", (double)NAN},
                 {"inf", (double)INFINITY},
                 {"+inf", (double)INFINITY},
                 {"-inf", -(double)INFINITY},
                 {"infinity", (double)INFINITY},
                 {"+infinity", (double)INFINITY},
                 {"-infinity", -(double)INFINITY}};
    if (scan_value(p, n, v))
        return true;
    for (size_t i = 0; i < ARRAY_LEN(words); i++)
        if (strlen(words[i].text) == n && strncasecmp(words[i].text, p, n) == 0) {
            *v = words[i].v;
            return true;
        }
    return false;
}

static bool read_stamp(const struct prom_text_reader *r, const char *p, size_t n, int64_t *t_us)
{
    int64_t ms;
    if (r->openmetrics)
        return scan_time(p, n, t_us);
    return num_i64(p, n, &ms) && !__builtin_mul_overflow(ms, 1000, t_us);
}

static size_t word_length(const char *p, const char *end)
{
    size_t n = 0;
    while (p + n < end && p[n] != ' ' && p[n] != '\t')
        n++;
    return n;
}

static enum err_code read_sample(struct prom_text_reader *r, const char *p, const char *end,
                                 struct prom_text_item *item, struct err *e)
{
    size_t n = name_length(p, end, true);
    if (n == 0)
        return bad(r, "a line that is no metric", e);
    enum err_code rc = keep(r, p, n, &item->name, e);
    p = skip_blanks(p + n, end);
    if (!rc && p < end && *p == '{')
        rc = read_labels(r, &p, end, item, e);
    if (rc)
        return rc;
    p = skip_blanks(p, end);
    n = word_length(p, end);
    if (!read_number(p, n, &item->value))
        return bad(r, "a value that is no number", e);
    p = skip_blanks(p + n, end);
    n = word_length(p, end);
    if (n > 0 && *p != '#' && !read_stamp(r, p, n, &item->t_us))
        return bad(r, "a time that is no number", e);
    p = n > 0 && *p != '#' ? skip_blanks(p + n, end) : p;
    if (p < end && !(r->openmetrics && *p == '#')) /* # introduces an exemplar */
        return bad(r, "something after the value", e);
    item->kind = PROM_TEXT_SAMPLE;
    return ERR_OK;
}

/* The next line without its end; false when there is none. */
static bool next_line(struct prom_text_reader *r, const char **p, const char **end)
{
    if (r->p == r->end || r->ended)
        return false;
    const char *nl = memchr(r->p, '\n', (size_t)(r->end - r->p));
    *p = r->p;
    *end = nl ? nl : r->end;
    r->p = nl ? nl + 1 : r->end;
    r->line++;
    if (*end > *p && (*end)[-1] == '\r')
        (*end)--;
    return true;
}

enum err_code prom_text_next(struct prom_text_reader *r, struct prom_text_item *item, struct err *e)
{
    const char *p, *end;
    item->kind = PROM_TEXT_END;
    item->name = item->text = "";
    item->type = PROM_UNTYPED;
    while (item->kind == PROM_TEXT_END && next_line(r, &p, &end)) {
        enum err_code rc = ERR_OK;
        r->n_scratch = 0;
        item->n_labels = 0;
        item->value = 0;
        item->t_us = PROM_TEXT_NO_TIME;
        if (end - p > PROM_TEXT_LINE_MAX)
            return err_set(e, ERR_LIMIT, "line %" PRIu64 ": longer than 1 MiB", r->line);
        p = skip_blanks(p, end);
        if (p < end)
            rc = *p == '#' ? read_comment(r, p, end, item, e) : read_sample(r, p, end, item, e);
        if (rc)
            return rc;
    }
    if (item->kind == PROM_TEXT_END && r->openmetrics && !r->ended)
        return bad(r, "an OpenMetrics page without # EOF at its end", e);
    return ERR_OK;
}

const char *prom_text_label(const struct prom_text_item *item, const char *name)
{
    for (size_t i = 0; i < item->n_labels; i++)
        if (strcmp(item->label[i].name, name) == 0)
            return item->label[i].value;
    return "";
}
