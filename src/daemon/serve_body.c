#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/utf8.h"
#include "daemon/serve_priv.h"

enum { BODY_BYTES = 64 << 10 };

void call_refuse(struct call *c, int status, const char *what_to_do, const char *fmt, ...)
{
    char text[600];
    va_list ap;
    va_start(ap, fmt);
    (void)vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    buf_clear(&c->out->body);
    struct json_writer w = json_writer_init(&c->out->body, 0);
    json_open(&w, NULL);
    json_put_str(&w, "error", text);
    json_put_str(&w, "what_to_do", what_to_do);
    json_close(&w);
    c->out->status = status;
}

struct json_writer call_answer(struct call *c, int status)
{
    struct json_writer w = json_writer_init(&c->out->body, 0);
    c->out->status = status;
    json_open(&w, NULL);
    json_put_str(&w, "replica", c->s->o.replica);
    return w;
}

static bool known(const char *const *keys, const char *key)
{
    for (; *keys; keys++)
        if (strcmp(*keys, key) == 0)
            return true;
    return false;
}

static bool check_keys(struct call *c, const char *const *keys, const struct body *b)
{
    char list[256] = "";
    size_t n = 0;
    for (const char *const *k = keys; *k && n < sizeof list - 32; k++)
        n += (size_t)snprintf(list + n, sizeof list - n, "%s%s", n ? ", " : "Known keys: ", *k);
    for (const struct json *v = json_first(b->root); v; v = json_next(v))
        if (!known(keys, json_key(v))) {
            call_refuse(c, 400, list, "\"%.60s\" is not a key of this request", json_key(v));
            return false;
        }
    return true;
}

static bool is_json(const char *type)
{
    return type && strncmp(type, "application/json", 16) == 0 &&
           (type[16] == '\0' || type[16] == ';');
}

bool body_open(struct call *c, const char *const *keys, struct body *b)
{
    struct err e = {0};
    *b = (struct body){0};
    /* A page in a browser can make it send the browser's certificate, but not this header unasked.
     */
    if (c->verdict == AUTH_CERTIFICATE && !is_json(server_header(c->in, "Content-Type"))) {
        call_refuse(c, 415, "Send the header Content-Type: application/json.",
                    "a caller known by certificate must send JSON");
        return false;
    }
    if (c->in->n_body == 0)
        return true;
    if (json_parse(c->in->body, c->in->n_body, BODY_BYTES, "body", &b->doc, &e)) {
        call_refuse(c, 400, "Send one JSON object.", "%s", e.msg);
        return false;
    }
    b->root = json_root(b->doc);
    if (!json_is_object(b->root)) {
        call_refuse(c, 400, "Send one JSON object.", "the body is not an object");
        return false;
    }
    return check_keys(c, keys, b);
}

void body_close(struct body *b)
{
    json_free(b->doc);
    *b = (struct body){0};
}

static const struct json *member(const struct body *b, const char *key)
{
    return b->root ? json_find(b->root, key) : NULL;
}

bool body_text(struct call *c, const struct body *b, const char *key, char *out, size_t size)
{
    const struct json *v = member(b, key);
    const char *text = json_text(v);
    out[0] = '\0';
    if (!v)
        return true;
    if (!text) {
        call_refuse(c, 400, "Give it as text in quotes.", "%s: expected a string", key);
        return false;
    }
    if (strlen(text) >= size) {
        call_refuse(c, 400, "Shorten it.", "%s: longer than %zu bytes", key, size - 1);
        return false;
    }
    if (!utf8_is_plain(text, strlen(text))) {
        call_refuse(c, 400, "Leave out control characters.",
                    "%s: holds characters that are not text", key);
        return false;
    }
    memcpy(out, text, strlen(text) + 1);
    return true;
}

bool body_int(struct call *c, const struct body *b, const char *key, int64_t min, int64_t max,
              int64_t *out, bool *has)
{
    struct err e = {0};
    *has = member(b, key) != NULL;
    if (!*has || json_get_i64(b->doc, b->root, key, min, max, out, &e) == ERR_OK)
        return true;
    call_refuse(c, 400, "Give a whole number within the limits.", "%s", e.msg);
    return false;
}

bool body_flag(struct call *c, const struct body *b, const char *key, bool *out)
{
    struct err e = {0};
    *out = false;
    if (!member(b, key) || json_get_bool(b->doc, b->root, key, out, &e) == ERR_OK)
        return true;
    call_refuse(c, 400, "Give true or false.", "%s", e.msg);
    return false;
}

/* A token does not say who holds it, so the name given is taken; a certificate does, so its name is
 * kept beside. */
bool body_author(struct call *c, const struct body *b, char out[SHARED_PERSON])
{
    char given[SHARED_PERSON];
    if (!body_text(c, b, "author", given, sizeof given))
        return false;
    bool alone = !given[0] || strcmp(given, c->who) == 0;
    if (!alone && c->verdict == AUTH_CERTIFICATE)
        (void)snprintf(out, SHARED_PERSON, "%.60s (certificate %.50s)", given, c->who);
    else
        (void)snprintf(out, SHARED_PERSON, "%s", alone ? c->who : given);
    utf8_make_plain(out);
    return true;
}
