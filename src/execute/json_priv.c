#include "execute/json_priv.h"

#include <stdio.h>
#include <string.h>

#include "base/tz.h"
#include "base/utf8.h"

void status_time_text(int64_t us, char out[TIME_TEXT])
{
    struct tz_civil c = tz_civil(us);
    (void)snprintf(out, TIME_TEXT, "%04d-%02d-%02dT%02d:%02d:%02d.%06dZ", c.year, c.month, c.day,
                   c.hour, c.minute, c.second, c.us);
}

void put_time(struct json_writer *w, const char *key, int64_t us, bool set)
{
    char text[TIME_TEXT];
    if (set)
        status_time_text(us, text);
    json_put_str(w, key, set ? text : NULL);
}

void put_text(struct json_writer *w, const char *key, const char *s)
{
    json_put_str(w, key, *s ? s : NULL);
}

void put_units(struct json_writer *w, const char *key, int64_t units)
{
    if (units < 0)
        json_put_null(w, key);
    else
        json_put_i64(w, key, units);
}

enum err_code get_error(const struct json_doc *doc, const struct json *obj, const char *key,
                        enum err_code code, const char *what, struct err *e)
{
    struct buf path = buf_init(400);
    json_path(doc, obj, &path);
    enum err_code rc = err_set(e, code, "%s%s%s: %s", path.p, path.n ? "." : "", key, what);
    buf_fini(&path);
    return rc;
}

static bool absent(const struct json *obj, const char *key)
{
    return json_is_null(json_find(obj, key));
}

enum err_code get_text(const struct json_doc *doc, const struct json *obj, const char *key,
                       char *out, size_t size, struct err *e)
{
    const char *s;
    if (absent(obj, key))
        return ERR_OK;
    enum err_code rc = json_get_str(doc, obj, key, &s, e);
    if (rc)
        return rc;
    if (strlen(s) >= size)
        return get_error(doc, obj, key, ERR_LIMIT, "too long", e);
    memcpy(out, s, strlen(s) + 1);
    return ERR_OK;
}

enum err_code get_time(const struct json_doc *doc, const struct json *obj, const char *key,
                       int64_t *out, struct err *e)
{
    const char *s;
    int64_t us;
    if (absent(obj, key))
        return ERR_OK;
    enum err_code rc = json_get_str(doc, obj, key, &s, e);
    if (rc)
        return rc;
    if (tz_parse_rfc3339(s, strlen(s), &us, NULL) || us < 0)
        return get_error(doc, obj, key, ERR_PARSE,
                         "expected a time such as 2026-01-31T12:00:00.000000Z", e);
    *out = us;
    return ERR_OK;
}

enum err_code get_i64(const struct json_doc *doc, const struct json *obj, const char *key,
                      int64_t min, int64_t max, int64_t *out, struct err *e)
{
    return absent(obj, key) ? ERR_OK : json_get_i64(doc, obj, key, min, max, out, e);
}

enum err_code get_i32(const struct json_doc *doc, const struct json *obj, const char *key,
                      int32_t min, int32_t max, int32_t *out, struct err *e)
{
    int64_t v = *out;
    enum err_code rc = get_i64(doc, obj, key, min, max, &v, e);
    if (!rc)
        *out = (int32_t)v;
    return rc;
}

enum err_code get_f64(const struct json_doc *doc, const struct json *obj, const char *key,
                      double *out, struct err *e)
{
    return absent(obj, key) ? ERR_OK : json_get_f64(doc, obj, key, out, e);
}

enum err_code get_flag(const struct json_doc *doc, const struct json *obj, const char *key,
                       bool *out, struct err *e)
{
    return absent(obj, key) ? ERR_OK : json_get_bool(doc, obj, key, out, e);
}

enum err_code get_name(const struct json_doc *doc, const struct json *obj, const char *key,
                       const char *const *names, int n, int *out, struct err *e)
{
    const char *s;
    if (absent(obj, key))
        return ERR_OK;
    enum err_code rc = json_get_str(doc, obj, key, &s, e);
    if (rc)
        return rc;
    for (int i = 0; i < n; i++) {
        if (strcmp(s, names[i]) == 0) {
            *out = i;
            return ERR_OK;
        }
    }
    return get_error(doc, obj, key, ERR_PARSE, "not one of its values", e);
}

enum err_code get_object(const struct json_doc *doc, const struct json *obj, const char *key,
                         const struct json **out, struct err *e)
{
    *out = NULL;
    return absent(obj, key) ? ERR_OK : json_get_object(doc, obj, key, out, e);
}

enum err_code get_array(const struct json_doc *doc, const struct json *obj, const char *key,
                        const struct json **out, struct err *e)
{
    *out = NULL;
    return absent(obj, key) ? ERR_OK : json_get_array(doc, obj, key, out, e);
}

void text_copy(char *out, size_t size, const char *s)
{
    size_t n = strlen(s);
    n = n < size ? n : size - 1;
    memcpy(out, s, n);
    out[n] = '\0';
    if (s[n]) { /* cut: drop what is left of a character */
        size_t at = n;
        while (at > 0 && n - at < 4 && ((unsigned char)out[at - 1] & 0xc0) == 0x80)
            at--;
        if (at > 0 && utf8_char(out + at - 1, n - at + 1) == 0)
            out[at - 1] = '\0';
    }
    utf8_make_plain(out);
}
