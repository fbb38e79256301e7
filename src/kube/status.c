/* status.c - what the API server says when it does not do what was asked.
 *
 * Most refusals are a Status object; some come as text/plain before any API machinery saw the
 * request (429 of the overload filter, 404 of an unknown group, 503 of an APIService).  Both become
 * one struct. */
#include <assert.h>
#include <string.h>

#include "base/clock.h"
#include "base/mem.h"
#include "base/utf8.h"
#include "kube/client_priv.h"

enum { STATUS_BYTES_MAX = 1 << 20 };

static const char *reason_of(int http)
{
    static const struct {
        int http;
        const char *reason;
    } rows[] = {{400, "BadRequest"},
                {401, "Unauthorized"},
                {403, "Forbidden"},
                {404, "NotFound"},
                {405, "MethodNotAllowed"},
                {406, "NotAcceptable"},
                {408, "Timeout"},
                {409, "Conflict"},
                {410, "Gone"},
                {413, "RequestEntityTooLarge"},
                {415, "UnsupportedMediaType"},
                {422, "Invalid"},
                {429, "TooManyRequests"},
                {500, "InternalError"},
                {503, "ServiceUnavailable"},
                {504, "Timeout"}};
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        if (rows[i].http == http)
            return rows[i].reason;
    }
    return http >= 500 ? "ServerError" : http >= 400 ? "Refused" : http >= 300 ? "Redirect" : "";
}

/* Cut to size - 1 bytes, made printable. */
static void put_text(char *out, size_t size, const char *s, size_t n)
{
    while (n && strchr(" \t\r\n", s[n - 1]))
        n--;
    if (n >= size)
        n = size - 1;
    memcpy(out, s, n);
    out[n] = '\0';
    utf8_make_plain(out);
    for (char *p = out; *p; p++) {
        if (*p == '\n' || *p == '\t')
            *p = ' ';
    }
}

static void put_json_text(char *out, size_t size, const struct json *v)
{
    const char *s = json_text(v);
    if (s)
        put_text(out, size, s, strlen(s));
}

void kube_status_from_json(const struct json *status, struct kube_status *out)
{
    const struct json *details = json_find(status, "details");
    const struct json *causes = json_find(details, "causes");
    double code = json_number(json_find(status, "code"));
    double retry_s = json_number(json_find(details, "retryAfterSeconds"));
    if (!out->http && code >= 100 && code < 1000)
        out->http = (int)code;
    put_json_text(out->reason, sizeof out->reason, json_find(status, "reason"));
    put_json_text(out->message, sizeof out->message, json_find(status, "message"));
    put_json_text(out->cause, sizeof out->cause,
                  json_find(json_is_array(causes) ? json_first(causes) : NULL, "reason"));
    if (out->retry_after_us < 0 && retry_s > 0 && retry_s < 86400)
        out->retry_after_us = (int64_t)(retry_s * (double)US_PER_S);
    if (!out->reason[0])
        put_text(out->reason, sizeof out->reason, reason_of(out->http),
                 strlen(reason_of(out->http)));
}

void kube_status_decode(int http, const char *content_type, const char *body, size_t n,
                        struct kube_status *out)
{
    struct json_doc *doc = NULL;
    *out = (struct kube_status){.http = http, .retry_after_us = -1, .date_us = -1};
    if (http >= 200 && http < 300)
        return;
    bool json = strcmp(content_type, "application/json") == 0;
    if (json && json_parse(body, n, STATUS_BYTES_MAX, "status", &doc, NULL) == ERR_OK &&
        json_is_object(json_root(doc)))
        kube_status_from_json(json_root(doc), out);
    else
        put_text(out->message, sizeof out->message, body, n);
    json_free(doc);
    if (!out->reason[0])
        put_text(out->reason, sizeof out->reason, reason_of(http), strlen(reason_of(http)));
}

/* ---- what it means ----------------------------------------------------------------------- */

bool kube_is_ok(const struct kube_status *s)
{
    return s->http >= 200 && s->http < 300;
}

bool kube_is_exists(const struct kube_status *s)
{
    return s->http == 409 && strcmp(s->reason, "AlreadyExists") == 0;
}

bool kube_is_conflict(const struct kube_status *s)
{
    return s->http == 409 && !kube_is_exists(s);
}

bool kube_is_gone(const struct kube_status *s)
{
    return s->http == 410 || strcmp(s->reason, "Expired") == 0 || strcmp(s->reason, "Gone") == 0;
}

bool kube_is_not_found(const struct kube_status *s)
{
    return s->http == 404;
}

bool kube_is_forbidden(const struct kube_status *s)
{
    return s->http == 403;
}

bool kube_is_unauthorized(const struct kube_status *s)
{
    return s->http == 401;
}

bool kube_is_invalid(const struct kube_status *s)
{
    return s->http == 400 || s->http == 413 || s->http == 415 || s->http == 422;
}

bool kube_is_throttled(const struct kube_status *s)
{
    return s->http == 429;
}

bool kube_is_transient(const struct kube_status *s)
{
    return s->http == 0 || s->http == 408 || s->http == 429 || s->http >= 500;
}

void kube_describe(struct buf *out, enum kube_verb verb, const char *path)
{
    static const char *const names[] = {"GET",   "GET",   "GET",   "POST",  "PUT",
                                        "PATCH", "PATCH", "PATCH", "DELETE"};
    static_assert(ARRAY_LEN(names) == KUBE_N_VERBS, "a name per verb");
    buf_str(out, names[verb]);
    buf_char(out, ' ');
    buf_add(out, path, strcspn(path, "?"));
}

static enum err_code code_of(int http)
{
    switch (http) {
    case 404:
    case 410:
        return ERR_MISSING;
    case 409:
        return ERR_MISMATCH;
    case 400:
    case 401:
    case 403:
    case 405:
    case 413:
    case 415:
    case 422:
        return ERR_INVAL;
    default:
        return ERR_IO;
    }
}

enum err_code kube_status_error(const struct kube_status *s, enum kube_verb verb, const char *path,
                                struct err *e)
{
    struct buf what = buf_init(64 * 1024);
    kube_describe(&what, verb, path);
    enum err_code rc = err_set(e, code_of(s->http), "%.200s: %d %s%s%s", what.p, s->http, s->reason,
                               s->message[0] ? ": " : "", s->message);
    buf_fini(&what);
    return rc;
}
