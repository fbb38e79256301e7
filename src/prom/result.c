#include "prom/result.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "prom/scan.h"

/* Where in the answer the next token belongs. */
enum place {
    AT_START,
    IN_ROOT,    /* {"status":, "data":, ... */
    IN_DATA,    /* {"resultType":, "result": */
    IN_RESULT,  /* [ of series, or of the two parts of a scalar */
    IN_SERIES,  /* {"metric":, "value":, "values":, "histogram(s)": */
    IN_METRIC,  /* {"label":"text" */
    IN_VALUES,  /* [ of pairs */
    IN_PAIR,    /* [time,"value"] */
    IN_NOTES,   /* [ "warning", */
    IN_SKIPPED, /* inside a value nobody wants */
};

/* Which key of an object the next value belongs to; as bits, which keys came already. */
enum key {
    KEY_NONE = 0,
    KEY_STATUS = 1,
    KEY_DATA = 2,
    KEY_ERROR_TYPE = 4,
    KEY_ERROR = 8,
    KEY_WARNINGS = 16,
    KEY_INFOS = 32,
    KEY_TYPE = 64,
    KEY_RESULT = 128,
    KEY_METRIC = 256,
    KEY_VALUE = 512,
    KEY_VALUES = 1024,
    KEY_HISTOGRAM = 2048,
    KEY_HISTOGRAMS = 4096,
};

struct prom_parser {
    struct scan *scan;
    struct prom_result *out;
    struct prom_caps caps;
    enum place place, back; /* back: where IN_PAIR and IN_SKIPPED return to */
    enum key key;
    unsigned root_keys, data_keys, series_keys;
    int skip_depth;
    int pair_item; /* 0 time, 1 value, 2 done */
    bool pair_is_scalar;
    bool histogram; /* the values skipped are native histogram samples */
    bool has_status;
    bool any_value, any_values; /* of a vector; of a matrix */
    int64_t pair_time;
    uint64_t bytes;
    struct err err; /* the first one, kept */
};

struct prom_caps prom_caps_default(void)
{
    return (struct prom_caps){
        .bytes = (size_t)512 << 20, .series = 200000, .samples = 20000000, .labels = 128};
}

/* ---- results ------------------------------------------------------------------------------------
 */

void prom_result_init(struct prom_result *r)
{
    memset(r, 0, sizeof *r);
}

void prom_result_fini(struct prom_result *r)
{
    mem_free(r->series);
    mem_free(r->labels);
    mem_free(r->samples);
    mem_free(r->text);
    memset(r, 0, sizeof *r);
}

void prom_result_clear(struct prom_result *r)
{
    r->kind = PROM_NONE;
    r->n_series = r->n_labels = r->n_samples = r->n_text = r->n_histograms = 0;
    r->n_nan = r->n_inf = 0;
    r->n_warnings = r->n_infos = r->n_warning_texts = 0;
    r->failed = false;
    r->error_type[0] = r->error_text[0] = 0;
}

const char *prom_label(const struct prom_result *r, const struct prom_series *s, const char *name)
{
    for (size_t i = s->first_label; i < s->first_label + s->n_labels; i++)
        if (strcmp(r->text + r->labels[i].name, name) == 0)
            return r->text + r->labels[i].value;
    return "";
}

void prom_labels_text(const struct prom_result *r, const struct prom_series *s, char *out,
                      size_t size)
{
    size_t at = (size_t)snprintf(out, size, "{");
    for (size_t i = 0; i < s->n_labels && at < size; i++) {
        const struct prom_label *l = &r->labels[s->first_label + i];
        at += (size_t)snprintf(out + at, size - at, "%s%s=\"%s\"", i ? "," : "", r->text + l->name,
                               r->text + l->value);
    }
    if (at + 1 < size)
        (void)snprintf(out + at, size - at, "}");
    else if (size >= 5)
        (void)snprintf(out + size - 5, 5, "...}");
}

/* Room for one more of an array that doubles. */
static enum err_code grow(void **p, size_t *size, size_t n, size_t more, size_t item, struct err *e)
{
    if (more <= *size - n)
        return ERR_OK;
    size_t want = *size ? *size * 2 : 64;
    while (want - n < more)
        want *= 2; /* caps keep n and more far from SIZE_MAX / 2 */
    void *q = try_grow(*p, want, item);
    if (!q)
        return err_set(e, ERR_NOMEM, "no memory for %zu entries of an answer", want);
    *p = q;
    *size = want;
    return ERR_OK;
}

static enum err_code add_text(struct prom_result *r, const struct scan_token *t, uint32_t *offset,
                              struct err *e)
{
    if (r->n_text + t->n + 1 > UINT32_MAX)
        return err_set(e, ERR_LIMIT, "the labels of an answer take more than 4 GiB");
    enum err_code rc = grow((void **)&r->text, &r->size_text, r->n_text, t->n + 1, 1, e);
    if (rc)
        return rc;
    memcpy(r->text + r->n_text, t->p, t->n + 1);
    *offset = (uint32_t)r->n_text;
    r->n_text += t->n + 1;
    return ERR_OK;
}

static enum err_code add_sample(struct prom_parser *p, int64_t t_us, double v, struct err *e)
{
    struct prom_result *r = p->out;
    if (r->n_samples == p->caps.samples)
        return err_set(e, ERR_LIMIT, "more than %zu samples in one answer", p->caps.samples);
    if (r->n_samples == r->size_samples) {
        enum err_code rc =
            grow((void **)&r->samples, &r->size_samples, r->n_samples, 1, sizeof *r->samples, e);
        if (rc)
            return rc;
    }
    r->samples[r->n_samples++] = (struct prom_sample){t_us, v};
    r->series[r->n_series - 1].n++;
    if (!isfinite(v)) {
        r->n_nan += isnan(v) != 0;
        r->n_inf += isinf(v) != 0;
    }
    return ERR_OK;
}

static enum err_code add_series(struct prom_parser *p, struct err *e)
{
    struct prom_result *r = p->out;
    if (r->n_series == p->caps.series)
        return err_set(e, ERR_LIMIT, "more than %zu series in one answer", p->caps.series);
    enum err_code rc =
        grow((void **)&r->series, &r->size_series, r->n_series, 1, sizeof *r->series, e);
    if (!rc)
        r->series[r->n_series++] =
            (struct prom_series){.first_label = r->n_labels, .first = r->n_samples};
    return rc;
}

/* Label names repeat from series to series, mostly at the same place: kept once then. */
static bool name_of_previous(const struct prom_result *r, const struct scan_token *t,
                             uint32_t *offset)
{
    if (r->n_series < 2)
        return false;
    const struct prom_series *now = &r->series[r->n_series - 1], *before = now - 1;
    if (now->n_labels >= before->n_labels)
        return false;
    *offset = r->labels[before->first_label + now->n_labels].name;
    return strcmp(r->text + *offset, t->p) == 0;
}

static enum err_code add_label_name(struct prom_parser *p, const struct scan_token *t,
                                    struct err *e)
{
    struct prom_result *r = p->out;
    struct prom_series *s = &r->series[r->n_series - 1];
    uint32_t name;
    if (s->n_labels == p->caps.labels)
        return err_set(e, ERR_LIMIT, "more than %zu labels of one series", p->caps.labels);
    for (size_t i = s->first_label; i < r->n_labels; i++)
        if (strcmp(r->text + r->labels[i].name, t->p) == 0)
            return err_set(e, ERR_PARSE, "label \"%.60s\" twice in one series", t->p);
    enum err_code rc =
        grow((void **)&r->labels, &r->size_labels, r->n_labels, 1, sizeof *r->labels, e);
    if (!rc && !name_of_previous(r, t, &name))
        rc = add_text(r, t, &name, e);
    if (rc)
        return rc;
    r->labels[r->n_labels++] = (struct prom_label){.name = name, .value = 0};
    s->n_labels++;
    return ERR_OK;
}

/* ---- parser -------------------------------------------------------------------------------------
 */

struct prom_parser *prom_parser_new(void)
{
    struct prom_parser *p = mem_zero(1, sizeof *p);
    p->scan = scan_new();
    return p;
}

void prom_parser_free(struct prom_parser *p)
{
    if (p)
        scan_free(p->scan);
    mem_free(p);
}

void prom_parser_begin(struct prom_parser *p, const struct prom_caps *caps, struct prom_result *out)
{
    struct scan *scan = p->scan;
    memset(p, 0, sizeof *p);
    p->scan = scan;
    p->out = out;
    p->caps = *caps;
    scan_reset(scan);
    prom_result_clear(out);
}

static enum err_code wrong(const char *what, struct err *e)
{
    return err_set(e, ERR_PARSE, "not an answer of the Prometheus API: %s", what);
}

static enum key key_of(const char *name, enum place place)
{
    static const struct {
        const char *name;
        enum key key;
        enum place place;
    } keys[] = {
        {"status", KEY_STATUS, IN_ROOT},           {"data", KEY_DATA, IN_ROOT},
        {"errorType", KEY_ERROR_TYPE, IN_ROOT},    {"error", KEY_ERROR, IN_ROOT},
        {"warnings", KEY_WARNINGS, IN_ROOT},       {"infos", KEY_INFOS, IN_ROOT},
        {"resultType", KEY_TYPE, IN_DATA},         {"result", KEY_RESULT, IN_DATA},
        {"metric", KEY_METRIC, IN_SERIES},         {"value", KEY_VALUE, IN_SERIES},
        {"values", KEY_VALUES, IN_SERIES},         {"histogram", KEY_HISTOGRAM, IN_SERIES},
        {"histograms", KEY_HISTOGRAMS, IN_SERIES},
    };
    for (size_t i = 0; i < ARRAY_LEN(keys); i++)
        if (keys[i].place == place && strcmp(keys[i].name, name) == 0)
            return keys[i].key;
    return KEY_NONE;
}

static enum err_code take_key(struct prom_parser *p, const struct scan_token *t, struct err *e)
{
    if (p->place == IN_METRIC)
        return add_label_name(p, t, e);
    unsigned *seen = p->place == IN_ROOT   ? &p->root_keys
                     : p->place == IN_DATA ? &p->data_keys
                                           : &p->series_keys;
    p->key = key_of(t->p, p->place);
    if (*seen & p->key)
        return err_set(e, ERR_PARSE, "\"%.20s\" twice in one object", t->p);
    *seen |= p->key;
    return ERR_OK;
}

static void copy(char *out, size_t size, const struct scan_token *t)
{
    (void)snprintf(out, size, "%s", t->p);
}

static enum err_code take_type(struct prom_parser *p, const struct scan_token *t, struct err *e)
{
    static const struct {
        const char *name;
        enum prom_kind kind;
    } kinds[] = {{"vector", PROM_VECTOR},
                 {"matrix", PROM_MATRIX},
                 {"scalar", PROM_SCALAR},
                 {"string", PROM_STRING}};
    for (size_t i = 0; i < ARRAY_LEN(kinds); i++)
        if (strcmp(kinds[i].name, t->p) == 0) {
            p->out->kind = kinds[i].kind;
            return ERR_OK;
        }
    return wrong("an unknown resultType", e);
}

static void take_note(struct prom_parser *p, const struct scan_token *t)
{
    struct prom_result *r = p->out;
    bool warning = p->key == KEY_WARNINGS;
    r->n_warnings += warning;
    r->n_infos += !warning;
    if (warning && r->n_warning_texts < PROM_WARNINGS_MAX)
        copy(r->warning[r->n_warning_texts++], PROM_WARNING_LEN, t);
}

/* Strings where an object expects one. */
static enum err_code take_text(struct prom_parser *p, const struct scan_token *t, struct err *e)
{
    struct prom_result *r = p->out;
    if (p->place == IN_NOTES) {
        take_note(p, t);
        return ERR_OK;
    }
    if (p->place == IN_METRIC)
        return add_text(r, t, &r->labels[r->n_labels - 1].value, e);
    switch (p->key) {
    case KEY_STATUS:
        p->has_status = true;
        r->failed = strcmp(t->p, "error") == 0;
        return r->failed || strcmp(t->p, "success") == 0 ? ERR_OK : wrong("an unknown status", e);
    case KEY_ERROR_TYPE:
        copy(r->error_type, sizeof r->error_type, t);
        return ERR_OK;
    case KEY_ERROR:
        copy(r->error_text, sizeof r->error_text, t);
        return ERR_OK;
    case KEY_TYPE:
        return take_type(p, t, e);
    case KEY_NONE:
        return ERR_OK;
    default:
        return wrong("a text where an object or a list belongs", e);
    }
}

/* One of the two parts of a sample or scalar. */
static enum err_code take_part(struct prom_parser *p, enum scan_kind kind,
                               const struct scan_token *t, struct err *e)
{
    double v;
    if (p->pair_item == 0 && kind == SCAN_NUMBER) {
        p->pair_item = 1;
        return scan_time(t->p, t->n, &p->pair_time) ? ERR_OK : wrong("a time beyond 9e12 s", e);
    }
    if (p->pair_item != 1 || kind != SCAN_STRING)
        return wrong("a sample is not [time, \"value\"]", e);
    p->pair_item = 2;
    if (p->out->kind == PROM_STRING && p->pair_is_scalar)
        return ERR_OK;
    if (!scan_value(t->p, t->n, &v))
        return wrong("the value of a sample is no number", e);
    return add_sample(p, p->pair_time, v, e);
}

static void begin_pair(struct prom_parser *p, bool scalar)
{
    p->back = p->place;
    p->place = IN_PAIR;
    p->pair_item = 0;
    p->pair_is_scalar = scalar;
}

static void begin_skip(struct prom_parser *p)
{
    p->back = p->place;
    p->place = IN_SKIPPED;
    p->skip_depth = scan_depth(p->scan) - 1; /* the bracket is open already */
}

static enum err_code open_object(struct prom_parser *p, struct err *e)
{
    if (p->place == AT_START) {
        p->place = IN_ROOT;
    } else if (p->place == IN_ROOT && p->key == KEY_DATA) {
        p->place = IN_DATA;
    } else if (p->place == IN_RESULT && !p->pair_is_scalar) {
        p->place = IN_SERIES;
        p->series_keys = 0;
        return add_series(p, e);
    } else if (p->place == IN_SERIES && p->key == KEY_METRIC) {
        p->place = IN_METRIC;
    } else if (p->key == KEY_NONE &&
               (p->place == IN_ROOT || p->place == IN_DATA || p->place == IN_SERIES)) {
        begin_skip(p);
    } else {
        return wrong("an object where none belongs", e);
    }
    return ERR_OK;
}

static enum err_code open_array(struct prom_parser *p, struct err *e)
{
    if (p->place == IN_ROOT && (p->key == KEY_WARNINGS || p->key == KEY_INFOS)) {
        p->place = IN_NOTES;
    } else if (p->place == IN_DATA && p->key == KEY_RESULT) {
        p->place = IN_RESULT;
    } else if (p->place == IN_SERIES && p->key == KEY_VALUE) {
        begin_pair(p, false);
    } else if (p->place == IN_SERIES && p->key == KEY_VALUES) {
        p->place = IN_VALUES;
    } else if (p->place == IN_VALUES) {
        begin_pair(p, false);
    } else if (p->place == IN_SERIES && (p->key == KEY_HISTOGRAM || p->key == KEY_HISTOGRAMS)) {
        p->out->n_histograms++;
        begin_skip(p);
    } else if (p->key == KEY_NONE &&
               (p->place == IN_ROOT || p->place == IN_DATA || p->place == IN_SERIES)) {
        begin_skip(p);
    } else {
        return wrong("a list where none belongs", e);
    }
    return ERR_OK;
}

static enum err_code end_series(struct prom_parser *p, struct err *e)
{
    unsigned k = p->series_keys;
    if (!(k & KEY_METRIC))
        return wrong("a result without \"metric\"", e);
    if (!(k & (KEY_VALUE | KEY_VALUES | KEY_HISTOGRAM | KEY_HISTOGRAMS)))
        return wrong("a result without \"value\" or \"values\"", e);
    if ((k & KEY_VALUE) && (k & KEY_VALUES))
        return wrong("a result with both \"value\" and \"values\"", e);
    p->any_value |= (k & KEY_VALUE) != 0;
    p->any_values |= (k & KEY_VALUES) != 0;
    p->place = IN_RESULT;
    return ERR_OK;
}

static enum err_code close_bracket(struct prom_parser *p, struct err *e)
{
    switch (p->place) {
    case IN_METRIC:
        p->place = IN_SERIES;
        return ERR_OK;
    case IN_SERIES:
        return end_series(p, e);
    case IN_PAIR:
        if (p->pair_item != 2)
            return wrong("a sample is not [time, \"value\"]", e);
        p->place = p->pair_is_scalar ? IN_DATA : p->back;
        p->pair_is_scalar = false;
        return ERR_OK;
    case IN_VALUES:
        p->place = IN_SERIES;
        return ERR_OK;
    case IN_RESULT:
        p->place = IN_DATA;
        return ERR_OK;
    case IN_NOTES:
    case IN_DATA:
        p->place = IN_ROOT;
        return ERR_OK;
    default:
        return ERR_OK; /* the root itself: the scanner accepts nothing more */
    }
}

/* {"result":[1435781451.781,"1"]}: no series, the list is the sample. */
static enum err_code begin_scalar(struct prom_parser *p, struct err *e)
{
    enum err_code rc = p->out->n_series ? wrong("a number among series", e) : add_series(p, e);
    if (!rc)
        begin_pair(p, true);
    return rc;
}

static enum err_code take_scalar_value(struct prom_parser *p, enum scan_kind kind,
                                       const struct scan_token *t, struct err *e)
{
    if (p->place == IN_RESULT && kind == SCAN_NUMBER) {
        enum err_code rc = begin_scalar(p, e);
        return rc ? rc : take_part(p, kind, t, e);
    }
    if (p->place == IN_PAIR)
        return take_part(p, kind, t, e);
    bool skips = p->place == IN_ROOT || p->place == IN_DATA || p->place == IN_SERIES;
    if (skips && p->key == KEY_NONE)
        return ERR_OK;
    /* {"status":"error","data":null} and "warnings":null are written by some */
    if (kind == SCAN_NULL && p->place == IN_ROOT && p->key != KEY_STATUS)
        return ERR_OK;
    if (kind == SCAN_STRING && (skips || p->place == IN_METRIC || p->place == IN_NOTES))
        return take_text(p, t, e);
    return wrong("a value of the wrong type", e);
}

static enum err_code take(struct prom_parser *p, enum scan_kind kind, const struct scan_token *t,
                          struct err *e)
{
    if (p->place == IN_SKIPPED) {
        bool closes = kind == SCAN_OBJECT_END || kind == SCAN_ARRAY_END;
        if (closes && scan_depth(p->scan) == p->skip_depth)
            p->place = p->back;
        return ERR_OK;
    }
    switch (kind) {
    case SCAN_OBJECT:
        return p->place == IN_PAIR ? wrong("an object in a sample", e) : open_object(p, e);
    case SCAN_ARRAY:
        return p->place == IN_PAIR ? wrong("a list in a sample", e) : open_array(p, e);
    case SCAN_OBJECT_END:
    case SCAN_ARRAY_END:
        return close_bracket(p, e);
    case SCAN_KEY:
        return take_key(p, t, e);
    default:
        return p->place == AT_START ? wrong("no object", e) : take_scalar_value(p, kind, t, e);
    }
}

static enum err_code take_pairs(struct prom_parser *p, struct err *e)
{
    int64_t t_us;
    double v;
    while (scan_pair(p->scan, &t_us, &v)) {
        enum err_code rc = add_sample(p, t_us, v, e);
        if (rc)
            return rc;
    }
    return ERR_OK;
}

static enum err_code drain(struct prom_parser *p, struct err *e)
{
    for (;;) {
        struct scan_token t;
        enum err_code rc = p->place == IN_VALUES ? take_pairs(p, e) : ERR_OK;
        if (rc)
            return rc;
        enum scan_kind kind = scan_next(p->scan, &t);
        if (kind == SCAN_MORE)
            return ERR_OK;
        rc = kind == SCAN_BAD ? scan_error(p->scan, e) : take(p, kind, &t, e);
        if (rc)
            return rc;
    }
}

static enum err_code keep(struct prom_parser *p, const struct err *from, struct err *e)
{
    p->err = *from;
    if (e)
        *e = p->err;
    return p->err.code;
}

enum err_code prom_parser_feed(struct prom_parser *p, const char *bytes, size_t n, struct err *e)
{
    struct err mine = {0};
    if (p->err.code)
        return keep(p, &p->err, e);
    p->bytes += n;
    if (p->bytes > p->caps.bytes) {
        (void)err_set(&mine, ERR_LIMIT, "an answer of more than %zu bytes", p->caps.bytes);
        return keep(p, &mine, e);
    }
    while (n > 0) {
        size_t part = n < SCAN_FEED_MAX ? n : SCAN_FEED_MAX;
        scan_feed(p->scan, bytes, part);
        if (drain(p, &mine))
            return keep(p, &mine, e);
        bytes += part;
        n -= part;
    }
    return ERR_OK;
}

static enum err_code check_whole(const struct prom_parser *p, struct err *e)
{
    const struct prom_result *r = p->out;
    if (!scan_complete(p->scan))
        return scan_error(p->scan, e);
    if (!p->has_status)
        return wrong("no \"status\"", e);
    if (r->failed)
        return ERR_OK;
    if (!(p->data_keys & KEY_TYPE) || !(p->data_keys & KEY_RESULT))
        return wrong("no \"resultType\" or \"result\"", e);
    bool single = r->kind == PROM_SCALAR || r->kind == PROM_STRING;
    if ((r->kind == PROM_VECTOR && p->any_values) || (r->kind == PROM_MATRIX && p->any_value) ||
        single !=
            (r->n_series == 1 && r->series[0].n_labels == 0 && !(p->series_keys & KEY_METRIC)))
        return wrong("a result that does not fit its type", e);
    return ERR_OK;
}

enum err_code prom_parser_end(struct prom_parser *p, struct err *e)
{
    struct err mine = {0};
    if (p->err.code)
        return keep(p, &p->err, e);
    return check_whole(p, &mine) ? keep(p, &mine, e) : ERR_OK;
}

enum err_code prom_result_parse(const char *bytes, size_t n, const struct prom_caps *caps,
                                struct prom_result *out, struct err *e)
{
    struct prom_parser *p = prom_parser_new();
    prom_parser_begin(p, caps, out);
    enum err_code rc = prom_parser_feed(p, bytes, n, e);
    if (!rc)
        rc = prom_parser_end(p, e);
    prom_parser_free(p);
    return rc;
}
