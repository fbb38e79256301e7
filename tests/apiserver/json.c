/* json.c - paths, setters and text over cJSON. */
#include "tests/apiserver/api_priv.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"

static const cJSON *step(const cJSON *v, const char *key, size_t n)
{
    if (cJSON_IsArray(v)) {
        char *end;
        long i = strtol(key, &end, 10);
        return end == key + n ? cJSON_GetArrayItem(v, (int)i) : NULL;
    }
    if (!cJSON_IsObject(v))
        return NULL;
    for (const cJSON *c = v->child; c; c = c->next) {
        if (strlen(c->string) == n && memcmp(c->string, key, n) == 0)
            return c;
    }
    return NULL;
}

/* The longest key first, so that names with dots inside ("nvidia.com/gpu") are found: "a.b.c" tries
 * a.b.c, then a.b, then a. */
const cJSON *api_js_at(const cJSON *v, const char *path)
{
    if (!v || !*path)
        return v;
    for (const char *end = strchr(path, '\0'); end > path;) {
        const cJSON *c = step(v, path, (size_t)(end - path));
        if (c)
            c = *end ? api_js_at(c, end + 1) : c;
        if (c)
            return c;
        do {
            end--;
        } while (end > path && *end != '.');
    }
    return NULL;
}

cJSON *api_js_at_mut(cJSON *v, const char *path)
{
    return __extension__(cJSON *)(uintptr_t) api_js_at(v, path);
}

const char *api_js_str(const cJSON *v, const char *path)
{
    return cJSON_GetStringValue(api_js_at_mut((cJSON *)(uintptr_t)v, path));
}

const char *api_js_str_or(const cJSON *v, const char *path, const char *other)
{
    const char *s = api_js_str(v, path);
    return s ? s : other;
}

double api_js_num(const cJSON *v, const char *path, double absent)
{
    const cJSON *n = api_js_at(v, path);
    return cJSON_IsNumber(n) ? n->valuedouble : absent;
}

bool api_js_true(const cJSON *v, const char *path)
{
    return cJSON_IsTrue(api_js_at(v, path));
}

void api_js_set(cJSON *obj, const char *key, cJSON *value)
{
    if (cJSON_GetObjectItemCaseSensitive(obj, key))
        cJSON_ReplaceItemInObjectCaseSensitive(obj, key, value);
    else
        cJSON_AddItemToObject(obj, key, value);
}

cJSON *api_js_obj(cJSON *parent, const char *key)
{
    cJSON *o = cJSON_GetObjectItemCaseSensitive(parent, key);
    if (!cJSON_IsObject(o)) {
        o = cJSON_CreateObject();
        api_js_set(parent, key, o);
    }
    return o;
}

cJSON *api_js_list(cJSON *parent, const char *key)
{
    cJSON *o = cJSON_GetObjectItemCaseSensitive(parent, key);
    if (!cJSON_IsArray(o)) {
        o = cJSON_CreateArray();
        api_js_set(parent, key, o);
    }
    return o;
}

void api_js_set_str(cJSON *obj, const char *key, const char *s)
{
    api_js_set(obj, key, cJSON_CreateString(s));
}

void api_js_set_str_at(cJSON *v, const char *s)
{
    cJSON *text = cJSON_CreateString(s);
    v->type = (v->type & cJSON_StringIsConst) | cJSON_String;
    free(v->valuestring);
    v->valuestring = text->valuestring;
    text->valuestring = NULL;
    cJSON_Delete(text);
}

void api_js_set_num(cJSON *obj, const char *key, double v)
{
    api_js_set(obj, key, cJSON_CreateNumber(v));
}

void api_js_drop(cJSON *obj, const char *key)
{
    cJSON_DeleteItemFromObjectCaseSensitive(obj, key);
}

void api_js_default(cJSON *obj, const char *key, cJSON *value)
{
    cJSON *v = cJSON_GetObjectItemCaseSensitive(obj, key);
    if (!v || cJSON_IsNull(v))
        api_js_set(obj, key, value);
    else
        cJSON_Delete(value);
}

bool api_js_same(const cJSON *a, const cJSON *b)
{
    if (!a || !b)
        return a == b;
    return cJSON_Compare(a, b, true);
}

void api_js_quote(struct buf *out, const char *s)
{
    json_quote(out, s, strlen(s));
}

static void add_number(struct buf *out, double v)
{
    if (!isfinite(v))
        buf_str(out, "null");
    else if (v == floor(v) && fabs(v) < 1e15)
        buf_fmt(out, "%lld", (long long)v);
    else
        buf_fmt(out, "%.17g", v);
}

void api_js_add_text(struct buf *out, const cJSON *v)
{
    if (!v || cJSON_IsNull(v) || cJSON_IsInvalid(v)) {
        buf_str(out, "null");
    } else if (cJSON_IsBool(v)) {
        buf_str(out, cJSON_IsTrue(v) ? "true" : "false");
    } else if (cJSON_IsNumber(v)) {
        add_number(out, v->valuedouble);
    } else if (cJSON_IsString(v)) {
        api_js_quote(out, v->valuestring);
    } else {
        bool map = cJSON_IsObject(v);
        buf_char(out, map ? '{' : '[');
        for (const cJSON *c = v->child; c; c = c->next) {
            if (c != v->child)
                buf_char(out, ',');
            if (map) {
                api_js_quote(out, c->string);
                buf_char(out, ':');
            }
            api_js_add_text(out, c);
        }
        buf_char(out, map ? '}' : ']');
    }
}

char *api_js_text(const cJSON *v)
{
    struct buf b = buf_init((size_t)1 << 30);
    api_js_add_text(&b, v);
    return buf_take(&b);
}
