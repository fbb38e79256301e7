/* json.c - reading: scan, cJSON, duplicate check; then typed getters.
 *
 * The scan is one pass without recursion over the raw text.  It settles what cJSON is lenient about:
 * control characters, "\u0000" (cJSON would cut the string there), "01", "1." and 1e999. */
#include "base/json.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cjson/cJSON.h>

#include "base/file.h"
#include "base/mem.h"
#include "base/num.h"
#include "base/utf8.h"

struct json_doc {
    cJSON *root;
    char *name;
};

static const cJSON *item(const struct json *v)
{
    return (const cJSON *)(const void *)v;
}

static const struct json *value(const cJSON *v)
{
    return (const struct json *)(const void *)v;
}

/* ---- the scan -------------------------------------------------------------------------------- */

struct scan {
    const char *text;
    size_t n, at;
    const char *name;
    int depth;
};

static enum err_code scan_error(const struct scan *s, size_t at, enum err_code code, const char *what,
                                struct err *e)
{
    int line = 1;
    size_t start = 0;
    for (size_t i = 0; i < at && i < s->n; i++) {
        if (s->text[i] == '\n') {
            line++;
            start = i + 1;
        }
    }
    return err_set(e, code, "%s:%d:%zu: %s", s->name, line, at - start + 1, what);
}

static enum err_code scan_string(struct scan *s, struct err *e)
{
    size_t open = s->at++;
    for (; s->at < s->n; s->at++) {
        unsigned char c = (unsigned char)s->text[s->at];
        if (c == '"') {
            s->at++;
            return ERR_OK;
        }
        if (c < 0x20)
            return scan_error(s, s->at, ERR_PARSE, "control character in a string", e);
        if (c != '\\')
            continue;
        if (s->n - s->at > 5 && memcmp(s->text + s->at, "\\u0000", 6) == 0)
            return scan_error(s, s->at, ERR_PARSE, "\\u0000 is not accepted", e);
        s->at++;
    }
    return scan_error(s, open, ERR_PARSE, "string without an end", e);
}

static bool digit_at(const struct scan *s, size_t i)
{
    return i < s->n && s->text[i] >= '0' && s->text[i] <= '9';
}

static enum err_code scan_number(struct scan *s, struct err *e)
{
    size_t start = s->at, i = start + (s->text[start] == '-');
    bool bad = !digit_at(s, i) || (s->text[i] == '0' && digit_at(s, i + 1));
    while (digit_at(s, i))
        i++;
    if (i < s->n && s->text[i] == '.') {
        bad = bad || !digit_at(s, i + 1);
        i++;
    }
    while (i < s->n && (digit_at(s, i) || memchr("+-.eE", s->text[i], 5)))
        i++;
    double v;
    s->at = i;
    if (bad || !num_f64(s->text + start, i - start, &v))
        return scan_error(s, start, ERR_PARSE, "not a finite JSON number", e);
    return ERR_OK;
}

static enum err_code scan_text(struct scan *s, struct err *e)
{
    size_t good = utf8_valid_prefix(s->text, s->n);
    if (good < s->n)
        return scan_error(s, good, ERR_PARSE, "not UTF-8 text", e);
    while (s->at < s->n) {
        unsigned char c = (unsigned char)s->text[s->at];
        enum err_code rc = ERR_OK;
        if (c == '"') {
            rc = scan_string(s, e);
        } else if (c == '-' || digit_at(s, s->at)) {
            rc = scan_number(s, e);
        } else {
            if (c < 0x20 && c != '\n' && c != '\t' && c != '\r')
                return scan_error(s, s->at, ERR_PARSE, "control character", e);
            s->depth += (c == '{' || c == '[') - (c == '}' || c == ']');
            if (s->depth > JSON_DEPTH_MAX)
                return scan_error(s, s->at, ERR_LIMIT, "nested too deeply", e);
            s->at++;
        }
        if (rc)
            return rc;
    }
    return ERR_OK;
}

/* ---- duplicate keys -------------------------------------------------------------------------- */

static int by_key(const void *a, const void *b)
{
    const cJSON *const *pa = a, *const *pb = b;
    return strcmp((*pa)->string, (*pb)->string);
}

static enum err_code check_members(const cJSON *obj, const char *name, struct err *e)
{
    size_t n = 0;
    for (const cJSON *c = obj->child; c; c = c->next)
        n++;
    const cJSON **sorted = try_zero(n, sizeof *sorted);
    if (!sorted)
        return err_set(e, ERR_NOMEM, "%s: out of memory", name);
    n = 0;
    for (const cJSON *c = obj->child; c; c = c->next)
        sorted[n++] = c;
    qsort(sorted, n, sizeof *sorted, by_key);
    enum err_code rc = ERR_OK;
    for (size_t i = 1; i < n && !rc; i++) {
        if (strcmp(sorted[i - 1]->string, sorted[i]->string) == 0)
            rc = err_set(e, ERR_PARSE, "%s: key \"%.100s\" given twice in one object", name,
                         sorted[i]->string);
    }
    mem_free(sorted);
    return rc;
}

/* Depth is bounded by the scan. */
static enum err_code check_keys(const cJSON *v, const char *name, struct err *e)
{
    enum err_code rc = ERR_OK;
    if (cJSON_IsObject(v) && v->child)
        rc = check_members(v, name, e);
    for (const cJSON *c = v->child; c && !rc; c = c->next) {
        if (c->child)
            rc = check_keys(c, name, e);
    }
    return rc;
}

/* ---- documents ------------------------------------------------------------------------------- */

static const char *skip_blank(const char *p, const char *end)
{
    while (p < end && memchr(" \t\r\n", *p, 4))
        p++;
    return p;
}

enum err_code json_parse(const char *text, size_t n, size_t cap, const char *name, struct json_doc **out,
                         struct err *e)
{
    struct scan s = {.text = text, .n = n, .name = name};
    *out = NULL;
    if (n > cap)
        return err_set(e, ERR_LIMIT, "%s: %zu bytes of JSON, allowed are %zu", name, n, cap);
    enum err_code rc = scan_text(&s, e);
    if (rc)
        return rc;
    const char *end = text;
    errno = 0; /* all that tells memory that ran out from text that is wrong */
    cJSON *root = cJSON_ParseWithLengthOpts(text, n, &end, 0);
    if (!root && errno == ENOMEM)
        return err_set(e, ERR_NOMEM, "%s: out of memory", name);
    if (!root)
        return scan_error(&s, end >= text && end <= text + n ? (size_t)(end - text) : 0, ERR_PARSE,
                          "not valid JSON", e);
    end = skip_blank(end, text + n);
    if (end < text + n)
        rc = scan_error(&s, (size_t)(end - text), ERR_PARSE, "text after the JSON value", e);
    else
        rc = check_keys(root, name, e);
    if (rc) {
        cJSON_Delete(root);
        return rc;
    }
    *out = mem_zero(1, sizeof **out);
    **out = (struct json_doc){.root = root, .name = mem_strdup(name)};
    return ERR_OK;
}

enum err_code json_load(const char *path, size_t cap, struct json_doc **out, struct err *e)
{
    struct buf text;
    *out = NULL;
    enum err_code rc = file_read(path, cap, &text, e);
    if (!rc)
        rc = json_parse(text.p, text.n, cap, path, out, e);
    buf_fini(&text);
    return rc;
}

void json_free(struct json_doc *doc)
{
    if (!doc)
        return;
    cJSON_Delete(doc->root);
    mem_free(doc->name);
    mem_free(doc);
}

const struct json *json_root(const struct json_doc *doc)
{
    return value(doc->root);
}

/* ---- values ---------------------------------------------------------------------------------- */

bool json_is_object(const struct json *v)
{
    return cJSON_IsObject(item(v));
}

bool json_is_array(const struct json *v)
{
    return cJSON_IsArray(item(v));
}

bool json_is_string(const struct json *v)
{
    return cJSON_IsString(item(v));
}

bool json_is_number(const struct json *v)
{
    return cJSON_IsNumber(item(v));
}

bool json_is_null(const struct json *v)
{
    return !v || cJSON_IsNull(item(v));
}

bool json_is_bool(const struct json *v)
{
    return cJSON_IsBool(item(v));
}

bool json_is_true(const struct json *v)
{
    return cJSON_IsTrue(item(v));
}

size_t json_count(const struct json *v)
{
    size_t n = 0;
    for (const struct json *c = json_first(v); c; c = json_next(c))
        n++;
    return n;
}

const struct json *json_first(const struct json *v)
{
    return v ? value(item(v)->child) : NULL;
}

const struct json *json_next(const struct json *v)
{
    return value(item(v)->next);
}

const char *json_key(const struct json *v)
{
    return item(v)->string;
}

const struct json *json_find(const struct json *v, const char *key)
{
    return value(cJSON_GetObjectItemCaseSensitive(item(v), key));
}

const char *json_text(const struct json *v)
{
    return json_is_string(v) ? item(v)->valuestring : NULL;
}

double json_number(const struct json *v)
{
    return json_is_number(v) ? item(v)->valuedouble : NAN;
}

/* ---- paths and getters ----------------------------------------------------------------------- */

static bool path_to(const cJSON *from, const cJSON *want, struct buf *out)
{
    size_t index = 0, mark = out->n;
    for (const cJSON *c = from->child; c; c = c->next, index++) {
        if (c->string)
            buf_fmt(out, "%s%s", out->n ? "." : "", c->string);
        else
            buf_fmt(out, "[%zu]", index);
        if (c == want || (c->child && path_to(c, want, out)))
            return true;
        if (out->failed)
            return true;
        out->n = mark;
    }
    return false;
}

void json_path(const struct json_doc *doc, const struct json *v, struct buf *out)
{
    struct buf path = buf_init(400);
    if (item(v) != doc->root)
        (void)path_to(doc->root, item(v), &path);
    buf_add(out, path.p, path.n);
    buf_fini(&path);
}

static enum err_code value_error(const struct json_doc *doc, const struct json *obj, const char *key,
                                 enum err_code code, const char *what, struct err *e)
{
    struct buf path = buf_init(600);
    json_path(doc, obj, &path);
    enum err_code rc = err_set(e, code, "%s: %s%s%s: %s", doc->name, path.p, path.n ? "." : "", key, what);
    buf_fini(&path);
    return rc;
}

enum err_code json_get(const struct json_doc *doc, const struct json *obj, const char *key,
                       const struct json **out, struct err *e)
{
    *out = json_find(obj, key);
    return *out ? ERR_OK : value_error(doc, obj, key, ERR_MISSING, "missing", e);
}

static enum err_code get_typed(const struct json_doc *doc, const struct json *obj, const char *key,
                               bool (*is)(const struct json *), const char *what,
                               const struct json **out, struct err *e)
{
    enum err_code rc = json_get(doc, obj, key, out, e);
    if (!rc && !is(*out))
        rc = value_error(doc, obj, key, ERR_PARSE, what, e);
    return rc;
}

enum err_code json_get_str(const struct json_doc *doc, const struct json *obj, const char *key,
                           const char **out, struct err *e)
{
    const struct json *v;
    enum err_code rc = get_typed(doc, obj, key, json_is_string, "expected a string", &v, e);
    if (!rc)
        *out = json_text(v);
    return rc;
}

enum err_code json_get_f64(const struct json_doc *doc, const struct json *obj, const char *key,
                           double *out, struct err *e)
{
    const struct json *v;
    enum err_code rc = get_typed(doc, obj, key, json_is_number, "expected a number", &v, e);
    if (!rc)
        *out = json_number(v);
    return rc;
}

enum err_code json_get_i64(const struct json_doc *doc, const struct json *obj, const char *key,
                           int64_t min, int64_t max, int64_t *out, struct err *e)
{
    double v;
    enum err_code rc = json_get_f64(doc, obj, key, &v, e);
    if (rc)
        return rc;
    if (v != floor(v) || fabs(v) > 0x1p53)
        return value_error(doc, obj, key, ERR_PARSE, "expected an integer", e);
    if ((int64_t)v < min || (int64_t)v > max) {
        char what[80];
        (void)snprintf(what, sizeof what, "%.0f is outside %lld .. %lld", v, (long long)min,
                       (long long)max);
        return value_error(doc, obj, key, ERR_RANGE, what, e);
    }
    *out = (int64_t)v;
    return ERR_OK;
}

enum err_code json_get_bool(const struct json_doc *doc, const struct json *obj, const char *key, bool *out,
                            struct err *e)
{
    const struct json *v;
    enum err_code rc = get_typed(doc, obj, key, json_is_bool, "expected true or false", &v, e);
    if (!rc)
        *out = cJSON_IsTrue(item(v));
    return rc;
}

enum err_code json_get_array(const struct json_doc *doc, const struct json *obj, const char *key,
                             const struct json **out, struct err *e)
{
    return get_typed(doc, obj, key, json_is_array, "expected an array", out, e);
}

enum err_code json_get_object(const struct json_doc *doc, const struct json *obj, const char *key,
                              const struct json **out, struct err *e)
{
    return get_typed(doc, obj, key, json_is_object, "expected an object", out, e);
}
