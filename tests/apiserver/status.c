/* status.c - answers: objects, and the Status bodies of errors, worded as a real server words them.
 */
#include "tests/apiserver/api_priv.h"

#include <stdio.h>
#include <string.h>

enum { ANSWER_BYTES_MAX = 1 << 30 };

static struct buf fresh_body(struct call *c)
{
    buf_fini(&c->out->body);
    return buf_init(ANSWER_BYTES_MAX);
}

void api_answer(struct call *c, int status, const cJSON *body)
{
    c->out->status = status;
    c->out->body = fresh_body(c);
    api_js_add_text(&c->out->body, body);
}

void api_answer_obj(struct call *c, int status, const struct shelf *s, const struct obj *o)
{
    c->out->status = status;
    c->out->body = fresh_body(c);
    api_obj_add_json(&c->out->body, s, o, true);
}

static void answer_status(struct call *c, int code, const char *status, const char *message,
                          const char *reason, cJSON *details)
{
    cJSON *j = cJSON_CreateObject();
    cJSON_AddStringToObject(j, "kind", "Status");
    cJSON_AddStringToObject(j, "apiVersion", "v1");
    cJSON_AddItemToObject(j, "metadata", cJSON_CreateObject());
    cJSON_AddStringToObject(j, "status", status);
    if (message)
        cJSON_AddStringToObject(j, "message", message);
    if (reason)
        cJSON_AddStringToObject(j, "reason", reason);
    if (details)
        cJSON_AddItemToObject(j, "details", details);
    cJSON_AddNumberToObject(j, "code", code);
    api_answer(c, code, j);
    cJSON_Delete(j);
}

void api_answer_success(struct call *c, int status, cJSON *details)
{
    answer_status(c, status, "Success", NULL, NULL, details);
    if (details) { /* of a deletion: without a code */
        cJSON *j = cJSON_ParseWithLength(c->out->body.p, c->out->body.n);
        api_js_drop(j, "code");
        api_answer(c, status, j);
        cJSON_Delete(j);
    }
}

static bool fail_text(struct call *c, int code, const char *reason, cJSON *details,
                      const char *message)
{
    answer_status(c, code, "Failure", message, reason, details);
    return false;
}

bool api_fail(struct call *c, int code, const char *reason, cJSON *details, const char *fmt, ...)
{
    char text[2048];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    return fail_text(c, code, reason, details, text);
}

bool api_fail_plain(struct call *c, int code, const char *text)
{
    c->out->status = code;
    c->out->content_type = "text/plain; charset=utf-8";
    c->out->body = fresh_body(c);
    buf_str(&c->out->body, text);
    return false;
}

bool api_fail_bad(struct call *c, const char *fmt, ...)
{
    char text[2048];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    return fail_text(c, 400, "BadRequest", NULL, text);
}

cJSON *api_detail(const char *name, const char *group, const char *kind)
{
    cJSON *d = cJSON_CreateObject();
    if (name && *name)
        cJSON_AddStringToObject(d, "name", name);
    if (group && *group)
        cJSON_AddStringToObject(d, "group", group);
    if (kind && *kind)
        cJSON_AddStringToObject(d, "kind", kind);
    return d;
}

void api_detail_cause(cJSON *details, const char *reason, const char *message, const char *field)
{
    cJSON *one = cJSON_CreateObject();
    cJSON_AddStringToObject(one, "reason", reason);
    cJSON_AddStringToObject(one, "message", message);
    if (field)
        cJSON_AddStringToObject(one, "field", field);
    cJSON_AddItemToArray(api_js_list(details, "causes"), one);
}

bool api_fail_not_found(struct call *c, const char *name)
{
    const char *dot = *c->group ? "." : "";
    return api_fail(c, 404, "NotFound", api_detail(name, c->group, c->resource),
                    "%s%s%s \"%s\" not found", c->resource, dot, c->group, name);
}

bool api_fail_conflict(struct call *c, const char *name)
{
    const char *dot = *c->group ? "." : "";
    return api_fail(c, 409, "Conflict", api_detail(name, c->group, c->resource),
                    "Operation cannot be fulfilled on %s%s%s \"%s\": the object has been modified; "
                    "please apply your changes to "
                    "the latest version and try again",
                    c->resource, dot, c->group, name);
}

/* ---- 422 ---- */

void api_cause(struct causes *l, const char *reason, const char *field, const char *fmt, ...)
{
    struct buf b = buf_init(4 << 20);
    char text[4096];
    va_list ap;
    va_start(ap, fmt);
    int n = vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    if (n >= (int)sizeof text) { /* messages that quote an object */
        char *p = buf_room(&b, (size_t)n + 1);
        va_start(ap, fmt);
        vsnprintf(p, (size_t)n + 1, fmt, ap);
        va_end(ap);
        buf_grew(&b, (size_t)n);
    } else {
        buf_str(&b, text);
    }
    if (!l->list) {
        l->list = cJSON_CreateObject();
        l->text = buf_init(16 << 20);
    }
    api_detail_cause(l->list, reason, b.p, field);
    buf_fmt(&l->text, "%s%s: ", l->n ? ", " : "", field);
    buf_add(&l->text, b.p, b.n);
    l->n++;
    buf_fini(&b);
}

bool api_causes_none(struct causes *l)
{
    return l->n == 0;
}

bool api_fail_invalid(struct call *c, const char *kind, const char *group, const char *name,
                      struct causes *l)
{
    struct buf b = buf_init(20 << 20);
    buf_fmt(&b, "%s%s%s \"%s\" is invalid: %s", kind, *group ? "." : "", group, name,
            l->n > 1 ? "[" : "");
    buf_add(&b, l->text.p, l->text.n);
    if (l->n > 1)
        buf_char(&b, ']');
    cJSON *d = api_detail(name, group, kind);
    cJSON_AddItemToObject(d, "causes", cJSON_DetachItemFromObjectCaseSensitive(l->list, "causes"));
    fail_text(c, 422, "Invalid", d, b.p);
    buf_fini(&b);
    buf_fini(&l->text);
    cJSON_Delete(l->list);
    *l = (struct causes){0};
    return false;
}
