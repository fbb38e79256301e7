/* select.c - label selectors ("a=b,c!=d,e in (f,g),!h,i") and the field selectors a server
 * supports.
 *
 * Both become one list of requirements that must all hold. */
#include "tests/apiserver/api_priv.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

enum op { OP_IN, OP_NOT_IN, OP_EXISTS, OP_MISSING };

struct requirement {
    bool field;
    char *key;
    enum op op;
    char **value;
    size_t n_values;
    struct requirement *next;
};
struct selector {
    struct requirement *first;
    bool has_fields;
};

static struct requirement *add_requirement(struct selector *s, bool field, const char *key,
                                           size_t n, enum op op)
{
    struct requirement *d = mem_zero(1, sizeof *d);
    d->field = field;
    d->op = op;
    d->key = mem_zero(n + 1, 1);
    memcpy(d->key, key, n);
    struct requirement **end = &s->first;
    while (*end)
        end = &(*end)->next;
    *end = d;
    s->has_fields |= field;
    return d;
}

static void add_value(struct requirement *d, const char *v, size_t n)
{
    d->value = mem_grow(d->value, d->n_values + 1, sizeof(char *));
    char *copy = mem_zero(n + 1, 1);
    memcpy(copy, v, n);
    d->value[d->n_values++] = copy;
}

void api_selector_free(struct selector *s)
{
    if (!s)
        return;
    for (struct requirement *d = s->first; d;) {
        struct requirement *next = d->next;
        for (size_t i = 0; i < d->n_values; i++)
            mem_free(d->value[i]);
        mem_free(d->value);
        mem_free(d->key);
        mem_free(d);
        d = next;
    }
    mem_free(s);
}

bool api_selector_has_fields(const struct selector *s)
{
    return s && s->has_fields;
}

/* ---- label selector text ---- */

static const char *blanks(const char *p)
{
    return p + strspn(p, " \t");
}

static size_t word(const char *p)
{
    return strcspn(p, " \t,()=!<>");
}

static bool bad_labels(struct call *c, const char *found, const char *expected)
{
    return api_fail_bad(c, "unable to parse requirement: found '%.64s', expected: %s", found,
                        expected);
}

/* "(a,b)" after in or notin; leaves *at behind the bracket. */
static bool parse_set(struct call *c, struct requirement *d, const char **at)
{
    const char *p = blanks(*at);
    if (*p != '(')
        return bad_labels(c, p, "'('");
    for (p = blanks(p + 1);; p = blanks(p + 1)) {
        size_t n = word(p);
        if (n == 0 && *p != ')' && *p != ',')
            return bad_labels(c, p, "',', ')' or identifier");
        add_value(d, p, n);
        p = blanks(p + n);
        if (*p == ')')
            break;
        if (*p != ',')
            return bad_labels(c, p, "',' or ')'");
    }
    *at = p + 1;
    return true;
}

static bool parse_requirement(struct call *c, struct selector *s, const char **at)
{
    const char *p = blanks(*at);
    bool no = *p == '!';
    p = blanks(p + no);
    size_t n = word(p);
    if (n == 0)
        return bad_labels(c, p, "identifier, '!', 'in', 'notin' or ','");
    struct requirement *d = add_requirement(s, false, p, n, no ? OP_MISSING : OP_EXISTS);
    p = blanks(p + n);
    *at = p;
    if (no || *p == ',' || !*p)
        return true;
    size_t n_op = *p == '=' || *p == '!' ? strspn(p, "=!") : word(p);
    bool in = n_op == 2 && strncmp(p, "in", 2) == 0,
         notin = n_op == 5 && strncmp(p, "notin", 5) == 0;
    bool eq = (n_op == 1 && *p == '=') || (n_op == 2 && strncmp(p, "==", 2) == 0),
         ne = n_op == 2 && strncmp(p, "!=", 2) == 0;
    if (!in && !notin && !eq && !ne)
        return bad_labels(c, p, "in, notin, =, ==, !=, gt, lt");
    d->op = in || eq ? OP_IN : OP_NOT_IN;
    *at = p + n_op;
    if (in || notin)
        return parse_set(c, d, at);
    p = blanks(*at);
    n = word(p);
    add_value(d, p, n);
    *at = blanks(p + n);
    return true;
}

static bool parse_labels(struct call *c, const char *text, struct selector *s)
{
    const char *p = blanks(text);
    while (*p) {
        if (!parse_requirement(c, s, &p))
            return false;
        p = blanks(p);
        if (*p && *p != ',')
            return bad_labels(c, p, "',' or end");
        if (*p == ',')
            p = blanks(p + 1);
    }
    return true;
}

/* ---- field selector text ---- */

static bool known_field(const struct kind *k, const char *key)
{
    static const char *const pod[] = {
        "spec.nodeName",           "status.phase", "spec.schedulerName",      "spec.restartPolicy",
        "spec.serviceAccountName", "status.podIP", "status.nominatedNodeName"};
    static const char *const event[] = {"involvedObject.name",
                                        "involvedObject.namespace",
                                        "involvedObject.kind",
                                        "involvedObject.uid",
                                        "reason",
                                        "type",
                                        "reportingComponent"};
    if (strcmp(key, "metadata.name") == 0 ||
        (strcmp(key, "metadata.namespace") == 0 && k->namespaced))
        return true;
    for (size_t i = 0; strcmp(k->plural, "pods") == 0 && i < ARRAY_LEN(pod); i++) {
        if (strcmp(key, pod[i]) == 0)
            return true;
    }
    for (size_t i = 0; strcmp(k->plural, "events") == 0 && i < ARRAY_LEN(event); i++) {
        if (strcmp(key, event[i]) == 0)
            return true;
    }
    return strcmp(k->plural, "nodes") == 0 && strcmp(key, "spec.unschedulable") == 0;
}

static bool parse_fields(struct call *c, const char *text, struct selector *s)
{
    for (const char *p = text; *p;) {
        size_t n = strcspn(p, ","), n_key = strcspn(p, "=!,");
        const char *op = p + n_key;
        size_t n_op = strspn(op, "=!");
        if (n_op == 0 || n_key == 0)
            return api_fail_bad(c, "invalid selector: '%.*s'; can't understand '%.*s'", (int)n, p,
                                (int)n, p);
        struct requirement *d = add_requirement(s, true, p, n_key, *op == '!' ? OP_NOT_IN : OP_IN);
        if (!known_field(c->shelf->kind, d->key))
            return api_fail_bad(c, "field label not supported: %s", d->key);
        add_value(d, op + n_op, n - n_key - n_op);
        p += n + (p[n] == ',');
    }
    return true;
}

bool api_selector_parse(struct call *c, struct selector **out)
{
    const char *labels = api_call_query(c, "labelSelector"),
               *fields = api_call_query(c, "fieldSelector");
    *out = NULL;
    if (!(labels && *labels) && !(fields && *fields))
        return true;
    struct selector *s = mem_zero(1, sizeof *s);
    if ((labels && !parse_labels(c, labels, s)) || (fields && !parse_fields(c, fields, s))) {
        api_selector_free(s);
        return false;
    }
    *out = s;
    return true;
}

/* ---- LabelSelector objects ---- */

struct selector *api_selector_of_labels(const cJSON *v, bool *ok)
{
    struct selector *s = mem_zero(1, sizeof *s);
    *ok = cJSON_IsObject(v);
    js_each (l, api_js_at(v, "matchLabels")) {
        if (cJSON_IsString(l))
            add_value(add_requirement(s, false, l->string, strlen(l->string), OP_IN),
                      l->valuestring, strlen(l->valuestring));
    }
    js_each (x, api_js_at(v, "matchExpressions")) {
        static const char *const name[] = {"In", "NotIn", "Exists", "DoesNotExist"};
        const char *op = api_js_str_or(x, "operator", ""), *key = api_js_str_or(x, "key", "");
        size_t i = 0;
        while (i < ARRAY_LEN(name) && strcmp(op, name[i]) != 0)
            i++;
        *ok &= i < ARRAY_LEN(name);
        struct requirement *d = add_requirement(s, false, key, strlen(key),
                                                i < ARRAY_LEN(name) ? (enum op)i : OP_EXISTS);
        js_each (one, api_js_at(x, "values")) {
            if (cJSON_IsString(one))
                add_value(d, one->valuestring, strlen(one->valuestring));
        }
    }
    return s;
}

void api_selector_text(struct buf *out, const cJSON *v)
{
    const char *comma = "";
    js_each (l, api_js_at(v, "matchLabels")) {
        buf_fmt(out, "%s%s=%s", comma, l->string, cJSON_IsString(l) ? l->valuestring : "");
        comma = ",";
    }
    js_each (x, api_js_at(v, "matchExpressions")) {
        const char *op = api_js_str_or(x, "operator", ""), *key = api_js_str_or(x, "key", "");
        bool set = strcmp(op, "In") == 0 || strcmp(op, "NotIn") == 0;
        buf_fmt(out, "%s%s%s%s", comma, strcmp(op, "DoesNotExist") == 0 ? "!" : "", key,
                !set                    ? ""
                : strcmp(op, "In") == 0 ? " in ("
                                        : " notin (");
        js_each (one, set ? api_js_at(x, "values") : NULL)
            buf_fmt(out, "%s%s", one->prev && one->prev->next ? "," : "",
                    cJSON_IsString(one) ? one->valuestring : "");
        buf_str(out, set ? ")" : "");
        comma = ",";
    }
}

/* ---- matching ---- */

static const char *field_of(const struct obj *o, const char *key, char *store, size_t n)
{
    if (strcmp(key, "metadata.name") == 0)
        return o->name;
    if (strcmp(key, "metadata.namespace") == 0)
        return o->ns;
    if (strcmp(key, "spec.nodeName") == 0)
        return o->node;
    if (strcmp(key, "status.phase") == 0)
        return o->phase;
    if (strcmp(key, "spec.schedulerName") == 0)
        return o->scheduler;
    cJSON *j = api_obj_parse(o);
    const cJSON *v = api_js_at(j, key);
    snprintf(store, n, "%s",
             cJSON_IsString(v) ? v->valuestring
             : cJSON_IsTrue(v) ? "true"
             : cJSON_IsBool(v) ? "false"
                               : "");
    if (!v && strcmp(key, "spec.unschedulable") == 0)
        snprintf(store, n, "false");
    cJSON_Delete(j);
    return store;
}

static bool holds(const struct requirement *d, const struct obj *o)
{
    char store[512];
    const char *v = d->field ? field_of(o, d->key, store, sizeof store) : api_obj_label(o, d->key);
    if (d->op == OP_EXISTS || d->op == OP_MISSING)
        return (v != NULL) == (d->op == OP_EXISTS);
    bool in = false;
    for (size_t i = 0; v && !in && i < d->n_values; i++)
        in = strcmp(v, d->value[i]) == 0;
    return in == (d->op == OP_IN);
}

bool api_selector_matches(const struct selector *s, const struct obj *o)
{
    for (const struct requirement *d = s ? s->first : NULL; d; d = d->next) {
        if (!holds(d, o))
            return false;
    }
    return true;
}
