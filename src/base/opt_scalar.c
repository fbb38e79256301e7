/* opt_scalar.c - single values: text to number and back, units, limits. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/json.h"
#include "base/mem.h"
#include "base/num.h"
#include "base/opt_priv.h"

struct unit {
    const char *name;
    int64_t size;
};

static const struct unit durations[] = {
    {"us", 1},           {"ms", 1000},          {"s", 1000000},
    {"min", 60000000},   {"h", 3600000000},     {"d", 86400000000},
};

static const struct unit sizes[] = {
    {"B", 1},
    {"KB", 1000},
    {"KiB", 1024},
    {"MB", 1000000},
    {"MiB", 1048576},
    {"GB", 1000000000},
    {"GiB", 1073741824},
    {"TB", 1000000000000},
    {"TiB", 1099511627776},
};

static const struct unit *find_unit(const struct unit *list, size_t n, const char *name)
{
    for (size_t i = 0; i < n; i++) {
        if (strcmp(list[i].name, name) == 0)
            return &list[i];
    }
    return NULL;
}

static enum err_code bad_unit(const char *s, const char *unit, const struct unit *list, size_t n,
                              struct err *e)
{
    struct buf names = buf_init(200);
    for (size_t i = 0; i < n; i++)
        buf_fmt(&names, "%s%s", i ? ", " : "", list[i].name);
    enum err_code rc = *unit ? err_set(e, ERR_PARSE, "%.60s: unknown unit %.20s; units are %s", s, unit, names.p)
                             : err_set(e, ERR_PARSE, "%.60s: a unit is required: %s", s, names.p);
    buf_fini(&names);
    return rc;
}

/* Number and unit; whole numbers exactly, fractions rounded to the nearest. */
static enum err_code parse_with_unit(const char *s, const struct unit *list, size_t n, int64_t *out,
                                     struct err *e)
{
    size_t digits = strspn(s, "+-.0123456789");
    int64_t whole;
    double v;
    const struct unit *unit = find_unit(list, n, s + digits);
    if (!num_f64(s, digits, &v))
        return err_set(e, ERR_PARSE, "%.60s: expected a number and a unit, as in 15%s", s, list[n / 2].name);
    if (!unit)
        return bad_unit(s, s + digits, list, n, e);
    if (num_i64(s, digits, &whole)) {
        if (__builtin_mul_overflow(whole, unit->size, out))
            return err_set(e, ERR_RANGE, "%.60s: too large", s);
        return ERR_OK;
    }
    v *= (double)unit->size;
    if (!(fabs(v) < 0x1p62))
        return err_set(e, ERR_RANGE, "%.60s: too large", s);
    *out = (int64_t)llround(v);
    return ERR_OK;
}

static void format_with_unit(int64_t v, const struct unit *list, size_t n, const char *zero, char out[32])
{
    const struct unit *best = &list[0];
    for (size_t i = 0; i < n; i++) {
        if (v % list[i].size == 0 && list[i].size > best->size)
            best = &list[i];
    }
    if (v == 0)
        (void)snprintf(out, 32, "0%s", zero);
    else
        (void)snprintf(out, 32, "%lld%s", (long long)(v / best->size), best->name);
}

enum err_code opt_parse_duration(const char *s, int64_t *us, struct err *e)
{
    return parse_with_unit(s, durations, ARRAY_LEN(durations), us, e);
}

void opt_format_duration(int64_t us, char out[32])
{
    format_with_unit(us, durations, ARRAY_LEN(durations), "s", out);
}

enum err_code opt_parse_bytes(const char *s, int64_t *bytes, struct err *e)
{
    return parse_with_unit(s, sizes, ARRAY_LEN(sizes), bytes, e);
}

void opt_format_bytes(int64_t bytes, char out[32])
{
    format_with_unit(bytes, sizes, ARRAY_LEN(sizes), "B", out);
}

static enum err_code parse_enum(const struct opt_row *row, const char *text, int *out, struct err *e)
{
    struct buf names = buf_init(300);
    for (int i = 0; row->names[i]; i++) {
        if (strcmp(row->names[i], text) == 0) {
            *out = i;
            buf_fini(&names);
            return ERR_OK;
        }
        buf_fmt(&names, "%s%s", i ? ", " : "", row->names[i]);
    }
    enum err_code rc = err_set(e, ERR_PARSE, "%.60s: expected one of %s", text, names.p);
    buf_fini(&names);
    return rc;
}

static enum err_code parse_plain(const struct opt_row *row, const char *text, union opt_scalar *out,
                                 struct err *e)
{
    switch (row->type) {
    case OPT_TYPE_BOOL:
        out->b = strcmp(text, "true") == 0;
        if (!out->b && strcmp(text, "false") != 0)
            return err_set(e, ERR_PARSE, "%.60s: expected true or false", text);
        return ERR_OK;
    case OPT_TYPE_INT:
    case OPT_TYPE_INTS:
        if (!num_i64(text, strlen(text), &out->i))
            return err_set(e, ERR_PARSE, "%.60s: expected an integer", text);
        return ERR_OK;
    case OPT_TYPE_DOUBLE:
    case OPT_TYPE_DOUBLES:
        if (!num_f64(text, strlen(text), &out->d))
            return err_set(e, ERR_PARSE, "%.60s: expected a finite number", text);
        return ERR_OK;
    case OPT_TYPE_DURATION:
        return opt_parse_duration(text, &out->i, e);
    case OPT_TYPE_BYTES:
        return opt_parse_bytes(text, &out->i, e);
    case OPT_TYPE_ENUM:
        return parse_enum(row, text, &out->e, e);
    default:
        return err_set(e, ERR_INVAL, "%s has no single value", row->name);
    }
}

static int compare(enum opt_type type, const union opt_scalar *a, const union opt_scalar *b)
{
    if (type == OPT_TYPE_DOUBLE || type == OPT_TYPE_DOUBLES)
        return (a->d > b->d) - (a->d < b->d);
    return (a->i > b->i) - (a->i < b->i);
}

enum err_code opt_parse_scalar(const struct opt_row *row, const char *text, union opt_scalar *out,
                               struct err *e)
{
    union opt_scalar limit;
    enum err_code rc = parse_plain(row, text, out, e);
    if (!rc && row->min) {
        rc = parse_plain(row, row->min, &limit, e);
        if (!rc && compare(row->type, out, &limit) < 0)
            rc = err_set(e, ERR_RANGE, "%.60s: below %s", text, row->min);
    }
    if (!rc && row->max) {
        rc = parse_plain(row, row->max, &limit, e);
        if (!rc && compare(row->type, out, &limit) > 0)
            rc = err_set(e, ERR_RANGE, "%.60s: above %s", text, row->max);
    }
    return rc;
}

enum err_code opt_store(const struct opt_row *row, void *dst, const char *text, struct err *e)
{
    union opt_scalar v;
    void *field = opt_field(row, dst);
    if (row->type == OPT_TYPE_STRING) {
        char **s = field;
        mem_free(*s);
        *s = mem_strdup(text);
        return ERR_OK;
    }
    enum err_code rc = opt_parse_scalar(row, text, &v, e);
    if (rc)
        return rc;
    if (row->type == OPT_TYPE_BOOL)
        *(bool *)field = v.b;
    else if (row->type == OPT_TYPE_DOUBLE)
        *(double *)field = v.d;
    else if (row->type == OPT_TYPE_ENUM)
        memcpy(field, &v.e, sizeof v.e); /* the field is some enum of int size */
    else
        *(int64_t *)field = v.i;
    return ERR_OK;
}

static void plain_value(const struct opt_row *row, const void *field, struct buf *out)
{
    char text[32];
    switch (row->type) {
    case OPT_TYPE_BOOL:
        buf_str(out, *(const bool *)field ? "true" : "false");
        break;
    case OPT_TYPE_INT:
    case OPT_TYPE_INTS:
        buf_fmt(out, "%lld", (long long)*(const int64_t *)field);
        break;
    case OPT_TYPE_DOUBLE:
    case OPT_TYPE_DOUBLES:
        buf_str(out, num_format(*(const double *)field, text));
        break;
    case OPT_TYPE_DURATION:
        opt_format_duration(*(const int64_t *)field, text);
        buf_str(out, text);
        break;
    case OPT_TYPE_BYTES:
        opt_format_bytes(*(const int64_t *)field, text);
        buf_str(out, text);
        break;
    default: {
        int v;
        memcpy(&v, field, sizeof v);
        buf_str(out, v >= 0 ? row->names[v] : "");
    }
    }
}

static bool plain_text(const char *s)
{
    static const char letters[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_/";
    if (!*s || !strchr(letters, *s) || strcmp(s, "true") == 0 || strcmp(s, "false") == 0 ||
        strcmp(s, "null") == 0)
        return false;
    for (; *s; s++) {
        if (!strchr(letters, *s) && !strchr("0123456789.-", *s))
            return false;
    }
    return true;
}

static void text_value(const char *s, struct buf *out)
{
    if (plain_text(s))
        buf_str(out, s);
    else
        json_quote(out, s, strlen(s));
}

void opt_value(const struct opt_row *row, const void *dst, struct buf *out)
{
    const void *field = opt_field_const(row, dst);
    const struct opt_strings *strings = field; /* the three lists share their layout */
    const struct opt_doubles *doubles = field;
    const struct opt_ints *ints = field;
    if (row->type == OPT_TYPE_STRING) {
        const char *s = *(char *const *)field;
        if (s)
            text_value(s, out);
        return;
    }
    if (!opt_is_list(row->type)) {
        if (!opt_is_unset(row, dst))
            plain_value(row, field, out);
        return;
    }
    buf_char(out, '[');
    for (size_t i = 0; i < strings->n; i++) {
        buf_str(out, i ? ", " : "");
        if (row->type == OPT_TYPE_STRINGS)
            text_value(strings->items[i], out);
        else
            plain_value(row, row->type == OPT_TYPE_INTS ? (const void *)&ints->items[i] : &doubles->items[i],
                        out);
    }
    buf_char(out, ']');
}

bool opt_is_unset(const struct opt_row *row, const void *dst)
{
    const void *field = opt_field_const(row, dst);
    int v;
    switch (row->type) {
    case OPT_TYPE_STRING:
        return *(char *const *)field == NULL;
    case OPT_TYPE_DOUBLE:
        return isnan(*(const double *)field);
    case OPT_TYPE_INT:
    case OPT_TYPE_DURATION:
    case OPT_TYPE_BYTES:
        return *(const int64_t *)field == INT64_MIN;
    case OPT_TYPE_ENUM:
        memcpy(&v, field, sizeof v);
        return v < 0;
    case OPT_TYPE_STRINGS:
    case OPT_TYPE_DOUBLES:
    case OPT_TYPE_INTS:
        return ((const struct opt_strings *)field)->n == 0;
    case OPT_TYPE_SUBS:
        return ((const struct opt_subs *)field)->n == 0;
    default:
        return false;
    }
}
