/* schema.c - structural schemas: defaults, pruning of unknown fields, validation with a real
 * server's messages.
 *
 * Known: type, properties, required, items, additionalProperties, enum, minimum, maximum (exclusive
 * too), lengths, pattern (POSIX extended), minItems, maxItems, nullable, default,
 * x-kubernetes-int-or-string and -preserve-unknown-fields. Not known, and ignored: CEL rules,
 * format, oneOf and friends. */
#include "tests/apiserver/api_priv.h"

#include <math.h>
#include <regex.h>
#include <stdio.h>
#include <string.h>

#include "base/num.h"

enum { PATH_MAX_BYTES = 512 };

static void child_path(char out[PATH_MAX_BYTES], const char *path, const char *key)
{
    snprintf(out, PATH_MAX_BYTES, "%s%s%s", path, *path ? "." : "", key);
}

static const char *type_of(const cJSON *v)
{
    if (cJSON_IsNumber(v))
        return v->valuedouble == floor(v->valuedouble) ? "integer" : "number";
    return cJSON_IsString(v)   ? "string"
           : cJSON_IsBool(v)   ? "boolean"
           : cJSON_IsArray(v)  ? "array"
           : cJSON_IsObject(v) ? "object"
                               : "null";
}

static bool has_type(const cJSON *schema, const cJSON *v)
{
    const char *want = api_js_str_or(schema, "type", ""), *is = type_of(v);
    if (api_js_true(schema, "x-kubernetes-int-or-string"))
        return strcmp(is, "integer") == 0 || strcmp(is, "string") == 0;
    if (!*want || strcmp(want, is) == 0)
        return true;
    return strcmp(want, "number") == 0 && strcmp(is, "integer") == 0;
}

static void check_enum(const cJSON *schema, const cJSON *v, const char *path, struct causes *l)
{
    const cJSON *list = cJSON_GetObjectItemCaseSensitive(schema, "enum");
    if (!list)
        return;
    struct buf b = buf_init(1 << 16);
    js_each (x, list) {
        if (api_js_same(x, v)) {
            buf_fini(&b);
            return;
        }
        buf_str(&b, b.n ? ", " : "");
        api_js_add_text(&b, x);
    }
    char *text = api_js_text(v);
    api_cause(l, "FieldValueNotSupported", path, "Unsupported value: %s: supported values: %s",
              text, b.p);
    mem_free(text);
    buf_fini(&b);
}

static void check_number(const cJSON *schema, const cJSON *v, const char *path, struct causes *l)
{
    const cJSON *min = cJSON_GetObjectItemCaseSensitive(schema, "minimum"),
                *max = cJSON_GetObjectItemCaseSensitive(schema, "maximum");
    bool above = api_js_true(schema, "exclusiveMinimum"),
         below = api_js_true(schema, "exclusiveMaximum");
    char is[NUM_TEXT], bound[NUM_TEXT];
    num_format(v->valuedouble, is);
    if (cJSON_IsNumber(min) &&
        (v->valuedouble < min->valuedouble || (above && v->valuedouble == min->valuedouble)))
        api_cause(l, INVALID, path, "Invalid value: %s: %s in body should be greater than %s%s", is,
                  path, above ? "" : "or equal to ", num_format(min->valuedouble, bound));
    if (cJSON_IsNumber(max) &&
        (v->valuedouble > max->valuedouble || (below && v->valuedouble == max->valuedouble)))
        api_cause(l, INVALID, path, "Invalid value: %s: %s in body should be less than %s%s", is,
                  path, below ? "" : "or equal to ", num_format(max->valuedouble, bound));
}

static void check_string(const cJSON *schema, const cJSON *v, const char *path, struct causes *l)
{
    double n = (double)strlen(v->valuestring), min = api_js_num(schema, "minLength", 0),
           max = api_js_num(schema, "maxLength", 1e18);
    const char *pattern = api_js_str(schema, "pattern");
    regex_t re;
    if (n < min)
        api_cause(l, INVALID, path,
                  "Invalid value: \"%.200s\": %s in body should be at least %d chars long",
                  v->valuestring, path, (int)min);
    if (n > max)
        api_cause(l, "FieldValueTooLong", path, "Too long: may not be more than %d bytes",
                  (int)max);
    if (pattern && regcomp(&re, pattern, REG_EXTENDED | REG_NOSUB) == 0) {
        if (regexec(&re, v->valuestring, 0, NULL, 0) != 0)
            api_cause(l, INVALID, path, "Invalid value: \"%.200s\": %s in body should match '%s'",
                      v->valuestring, path, pattern);
        regfree(&re);
    }
}

static void visit(const cJSON *schema, cJSON *v, const char *path, struct causes *l);

static void visit_object(const cJSON *schema, cJSON *v, const char *path, struct causes *l)
{
    const cJSON *props = cJSON_GetObjectItemCaseSensitive(schema, "properties");
    const cJSON *more = cJSON_GetObjectItemCaseSensitive(schema, "additionalProperties");
    bool keep = api_js_true(schema, "x-kubernetes-preserve-unknown-fields") || cJSON_IsTrue(more);
    char at[PATH_MAX_BYTES];
    js_each (p, props) {
        const cJSON *d = cJSON_GetObjectItemCaseSensitive(p, "default");
        if (d)
            api_js_default(v, p->string, cJSON_Duplicate(d, true));
    }
    for (cJSON *x = v->child; x;) {
        cJSON *next = x->next;
        const cJSON *s = cJSON_GetObjectItemCaseSensitive(props, x->string);
        bool meta =
            !*path && (strcmp(x->string, "metadata") == 0 || strcmp(x->string, "kind") == 0 ||
                       strcmp(x->string, "apiVersion") == 0);
        child_path(at, path, x->string);
        if (meta) {
            x = next;
            continue;
        }
        if (cJSON_IsNull(x) && !api_js_true(s, "nullable"))
            api_js_drop(v, x->string);
        else if (s || cJSON_IsObject(more))
            visit(s ? s : more, x, at, l);
        else if (!keep)
            api_js_drop(v, x->string);
        x = next;
    }
    js_each (r, cJSON_GetObjectItemCaseSensitive(schema, "required")) {
        if (cJSON_IsString(r) && !cJSON_GetObjectItemCaseSensitive(v, r->valuestring)) {
            child_path(at, path, r->valuestring);
            api_cause(l, REQUIRED, at, "Required value");
        }
    }
}

static void visit_array(const cJSON *schema, cJSON *v, const char *path, struct causes *l)
{
    const cJSON *items = cJSON_GetObjectItemCaseSensitive(schema, "items");
    int n = cJSON_GetArraySize(v), i = 0;
    double min = api_js_num(schema, "minItems", 0), max = api_js_num(schema, "maxItems", 1e18);
    if (n < min)
        api_cause(l, INVALID, path, "Invalid value: %d: %s in body should have at least %d items",
                  n, path, (int)min);
    if (n > max)
        api_cause(l, "FieldValueTooMany", path, "Too many: %d: must have at most %d items", n,
                  (int)max);
    js_each (x, items ? v : NULL) {
        char at[PATH_MAX_BYTES];
        snprintf(at, sizeof at, "%s[%d]", path, i++);
        visit(items, x, at, l);
    }
}

static void visit(const cJSON *schema, cJSON *v, const char *path, struct causes *l)
{
    if (!schema || (cJSON_IsNull(v) && api_js_true(schema, "nullable")))
        return;
    if (!has_type(schema, v)) {
        api_cause(l, "FieldValueTypeInvalid", path,
                  "Invalid value: \"%s\": %s in body must be of type %s: \"%s\"", type_of(v), path,
                  api_js_str_or(schema, "type", "integer or string"), type_of(v));
        return;
    }
    check_enum(schema, v, path, l);
    if (cJSON_IsNumber(v))
        check_number(schema, v, path, l);
    else if (cJSON_IsString(v))
        check_string(schema, v, path, l);
    else if (cJSON_IsArray(v))
        visit_array(schema, v, path, l);
    else if (cJSON_IsObject(v))
        visit_object(schema, v, path, l);
}

static bool unknown(const cJSON *schema, const cJSON *v, const char *path, char *out, size_t n)
{
    const cJSON *props = cJSON_GetObjectItemCaseSensitive(schema, "properties");
    const cJSON *more = cJSON_GetObjectItemCaseSensitive(schema, "additionalProperties");
    const cJSON *items = cJSON_GetObjectItemCaseSensitive(schema, "items");
    bool keep = api_js_true(schema, "x-kubernetes-preserve-unknown-fields") || cJSON_IsTrue(more);
    char at[PATH_MAX_BYTES];
    int i = 0;
    js_each (x, v) {
        const cJSON *s =
            cJSON_IsArray(v) ? items : cJSON_GetObjectItemCaseSensitive(props, x->string);
        if (cJSON_IsArray(v))
            snprintf(at, sizeof at, "%s[%d]", path, i++);
        else
            child_path(at, path, x->string);
        if (!*path && (strcmp(x->string, "metadata") == 0 || strcmp(x->string, "kind") == 0 ||
                       strcmp(x->string, "apiVersion") == 0))
            continue;
        s = s ? s : cJSON_IsObject(more) ? more : NULL;
        if (!s && !keep) {
            snprintf(out, n, "%s", at);
            return true;
        }
        if (s && unknown(s, x, at, out, n))
            return true;
    }
    return false;
}

bool api_schema_unknown(const cJSON *schema, const cJSON *json, char *out, size_t n)
{
    return unknown(schema, json, "", out, n);
}

void api_schema_apply(const cJSON *schema, cJSON *json, struct causes *l)
{
    visit(schema, json, "", l);
}
