#include "daemon/external.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/build.h"
#include "base/clock.h"
#include "base/json.h"
#include "base/mem.h"
#include "base/tz.h"
#include "kube/selector.h"

#define GROUP "external.metrics.k8s.io"
#define VERSION "v1beta1"

enum { STALE_PERIODS = 3, PAGE_BYTES = 16 << 20, SELECTOR_BYTES = 4096 };
#define STALE_LEAST_US (5 * US_PER_S)
#define QUANTITY_MOST 1e15

static const char *const names[] = {
#define X(id, name) [EXTERNAL_##id] = name,
    EXTERNAL_LIST(X)
#undef X
};

enum err_code external_publish(struct shared *s, struct doc *scratch,
                               const struct external_row *rows, size_t n, struct err *e)
{
    size_t bytes;
    if (!size_mul(n, sizeof *rows, &bytes) || bytes > SHARED_DOC_BYTES)
        return err_set(e, ERR_LIMIT, "external metrics: %zu targets are too many", n);
    doc_clear(scratch);
    if (n)
        buf_add(&scratch->text, rows, bytes);
    return shared_publish(s, SHARED_EXTERNAL, scratch, e);
}

bool external_quantity(double v, char out[32])
{
    if (!isfinite(v) || v < 0 || v > QUANTITY_MOST)
        return false;
    /* Rounded up as Kubernetes does, but not for the noise of the last bits: 1.1 is 1100m. */
    double milli = v * 1000, near = round(milli);
    int64_t n = (int64_t)(fabs(milli - near) <= 1e-9 * (1 + near) ? near : ceil(milli));
    if (n % 1000 == 0)
        (void)snprintf(out, 32, "%" PRId64, n / 1000);
    else
        (void)snprintf(out, 32, "%" PRId64 "m", n);
    return true;
}

/* ---- values ------------------------------------------------------------------------------------
 */

/* A parsed selector with the pool its texts live in. */
struct question {
    struct text_pool *pool;
    struct selector *selector; /* NULL: all */
    const char *key_target, *key_namespace;
};

static enum err_code question_init(struct question *q, const char *text, struct err *e)
{
    *q = (struct question){.pool = text_pool_new()};
    q->key_target = text_hold(q->pool, "target", 6);
    q->key_namespace = text_hold(q->pool, "namespace", 9);
    if (!text || !*text)
        return ERR_OK;
    if (strlen(text) > SELECTOR_BYTES)
        return err_set(e, ERR_LIMIT, "labelSelector: longer than %d bytes", SELECTOR_BYTES);
    return selector_parse(q->pool, text, &q->selector, e);
}

static void question_fini(struct question *q)
{
    selector_free(q->selector);
    text_drop(q->pool, q->key_target);
    text_drop(q->pool, q->key_namespace);
    text_pool_free(q->pool);
}

static bool asked_for(const struct question *q, const struct external_row *r)
{
    if (!q->selector)
        return true;
    struct kube_label label[] = {
        {q->key_namespace, text_hold(q->pool, r->ns, strlen(r->ns))},
        {q->key_target, text_hold(q->pool, r->target, strlen(r->target))},
    };
    bool yes = selector_matches(q->selector, label, ARRAY_LEN(label));
    text_drop(q->pool, label[0].value);
    text_drop(q->pool, label[1].value);
    return yes;
}

static void put_item(struct json_writer *w, const struct external_row *r, enum external_metric m)
{
    char value[32], at[TZ_TEXT];
    if (!external_quantity(r->value[m], value))
        return;
    tz_format_rfc3339(NULL, r->time_us - r->time_us % US_PER_S, at);
    json_open(w, NULL);
    json_put_str(w, "metricName", names[m]);
    json_open(w, "metricLabels");
    json_put_str(w, "namespace", r->ns);
    json_put_str(w, "target", r->target);
    json_close(w);
    json_put_str(w, "timestamp", at);
    json_put_i64(w, "window", 0); /* instantaneous, not a rate over a counter */
    json_put_str(w, "value", value);
    json_close(w);
}

static bool fresh(const struct shared *s, const struct doc *d)
{
    int64_t most_us = STALE_PERIODS * shared_period_us(s);
    return d && clock_mono_us() - d->published_us <=
                    (most_us > STALE_LEAST_US ? most_us : STALE_LEAST_US);
}

static void put_items(struct json_writer *w, const struct shared *s, const struct doc *d,
                      const char *ns, enum external_metric m, const struct question *q)
{
    struct external_row r;
    if (!fresh(s, d))
        return;
    for (size_t at = 0; at + sizeof r <= d->text.n; at += sizeof r) {
        memcpy(&r, d->text.p + at, sizeof r);
        if (strcmp(r.ns, ns) == 0 && asked_for(q, &r))
            put_item(w, &r, m);
    }
}

static void put_kind(struct json_writer *w, const char *kind, const char *version)
{
    json_put_str(w, "kind", kind);
    json_put_str(w, "apiVersion", version);
}

enum err_code external_write_list(struct shared *s, const char *ns, enum external_metric m,
                                  const char *selector, struct buf *out, struct err *e)
{
    struct question q;
    enum err_code rc = question_init(&q, selector, e);
    if (!rc) {
        const struct doc *d = shared_borrow(s, SHARED_EXTERNAL);
        struct json_writer w = json_writer_init(out, 0);
        json_open(&w, NULL);
        put_kind(&w, "ExternalMetricValueList", GROUP "/" VERSION);
        json_open(&w, "metadata");
        json_close(&w);
        json_open_array(&w, "items");
        put_items(&w, s, d, ns, m, &q);
        json_close_array(&w);
        json_close(&w);
        shared_return(s, d);
        rc = buf_check(out, e);
    }
    question_fini(&q);
    return rc;
}

/* ---- discovery ---------------------------------------------------------------------------------
 */

static void put_version(struct json_writer *w, const char *key)
{
    json_open(w, key);
    json_put_str(w, "groupVersion", GROUP "/" VERSION);
    json_put_str(w, "version", VERSION);
    json_close(w);
}

/* The members of an APIGroup after its kind. */
static void put_group(struct json_writer *w)
{
    json_put_str(w, "name", GROUP);
    json_open_array(w, "versions");
    put_version(w, NULL);
    json_close_array(w);
    put_version(w, "preferredVersion");
}

static void write_groups(struct json_writer *w)
{
    put_kind(w, "APIGroupList", "v1");
    json_open_array(w, "groups");
    json_open(w, NULL);
    put_group(w);
    json_close(w);
    json_close_array(w);
}

static void write_group(struct json_writer *w)
{
    put_kind(w, "APIGroup", "v1");
    put_group(w);
}

static void write_resources(struct json_writer *w)
{
    put_kind(w, "APIResourceList", "v1");
    json_put_str(w, "groupVersion", GROUP "/" VERSION);
    json_open_array(w, "resources");
    for (int m = 0; m < EXTERNAL_METRICS; m++) {
        json_open(w, NULL);
        json_put_str(w, "name", names[m]);
        json_put_str(w, "singularName", "");
        json_put_bool(w, "namespaced", true);
        json_put_str(w, "kind", "ExternalMetricValueList");
        json_open_array(w, "verbs");
        json_put_str(w, NULL, "get");
        json_close_array(w);
        json_close(w);
    }
    json_close_array(w);
}

static void write_openapi_v2(struct json_writer *w)
{
    json_put_str(w, "swagger", "2.0");
    json_open(w, "info");
    json_put_str(w, "title", "sluice");
    json_put_str(w, "version", build_version());
    json_close(w);
    json_open(w, "paths");
    json_close(w);
}

static void write_openapi_v3(struct json_writer *w)
{
    json_open(w, "paths");
    json_close(w);
}

/* ---- requests ----------------------------------------------------------------------------------
 */

/* A Status object, as every Kubernetes API answers. */
static void refuse(struct server_reply *out, int code, const char *reason, const char *message)
{
    struct json_writer w = json_writer_init(&out->body, 0);
    json_open(&w, NULL);
    put_kind(&w, "Status", "v1");
    json_open(&w, "metadata");
    json_close(&w);
    json_put_str(&w, "status", "Failure");
    json_put_str(&w, "message", message);
    json_put_str(&w, "reason", reason);
    json_put_i64(&w, "code", code);
    json_close(&w);
    out->status = code;
}

static bool name_allowed(const struct external_trust *t, const char *cn)
{
    for (size_t i = 0; i < t->n_names; i++)
        if (strcmp(t->names[i], cn) == 0)
            return true;
    return t->n_names == 0;
}

static bool trusted(const struct external_trust *t, const struct server_request *in,
                    struct server_reply *out)
{
    const char *user = server_header(in, t->user_header ? t->user_header : "X-Remote-User");
    const char *why = !in->client_cn ? "no client certificate of the request-header CA was sent"
                      : !name_allowed(t, in->client_cn)
                          ? "the client certificate's name is not in requestheader-allowed-names"
                      : !user || !*user
                          ? "the request names no user; it must come through the API server"
                          : NULL;
    if (why)
        refuse(out, 401, "Unauthorized", why);
    return !why;
}

static void not_found(struct server_reply *out)
{
    refuse(out, 404, "NotFound", "the server could not find the requested resource");
}

/* ".../namespaces/NS/METRIC" after the version; false when it is something else. */
static bool split(const char *rest, char ns[SHARED_NAMESPACE], enum external_metric *m)
{
    static const char lead[] = "/namespaces/";
    if (strncmp(rest, lead, sizeof lead - 1) != 0)
        return false;
    rest += sizeof lead - 1;
    size_t n = strcspn(rest, "/");
    if (n == 0 || n >= SHARED_NAMESPACE || rest[n] != '/')
        return false;
    memcpy(ns, rest, n);
    ns[n] = '\0';
    for (int i = 0; i < EXTERNAL_METRICS; i++)
        if (strcmp(rest + n + 1, names[i]) == 0) {
            *m = (enum external_metric)i;
            return true;
        }
    return false;
}

static void answer_values(struct shared *s, const struct server_request *in, const char *rest,
                          struct server_reply *out)
{
    char ns[SHARED_NAMESPACE];
    enum external_metric m;
    struct err e = {0};
    if (!split(rest, ns, &m)) {
        not_found(out);
        return;
    }
    enum err_code rc =
        external_write_list(s, ns, m, server_query(in, "labelSelector"), &out->body, &e);
    if (rc == ERR_OK) {
        out->status = 200;
        return;
    }
    buf_clear(&out->body);
    refuse(out, rc == ERR_PARSE || rc == ERR_LIMIT ? 400 : 500, "BadRequest", e.msg);
}

void external_answer(struct shared *s, const struct external_trust *trust,
                     const struct server_request *in, struct server_reply *out)
{
    static const struct {
        const char *path;
        void (*write)(struct json_writer *w);
    } page[] = {
        {"/apis", write_groups},
        {"/apis/" GROUP, write_group},
        {"/apis/" GROUP "/" VERSION, write_resources},
        {"/openapi/v2", write_openapi_v2},
        {"/openapi/v3", write_openapi_v3},
    };
    static const char values[] = "/apis/" GROUP "/" VERSION;
    out->body = buf_init(PAGE_BYTES);
    if (!trusted(trust, in, out))
        return;
    if (strcmp(in->method, "GET") != 0) {
        refuse(out, 405, "MethodNotAllowed",
               "the server does not allow this method on the requested resource");
        return;
    }
    size_t n = strlen(in->path);
    n -= n > 1 && in->path[n - 1] == '/'; /* kubectl get --raw is often given one */
    for (size_t i = 0; i < ARRAY_LEN(page); i++)
        if (strlen(page[i].path) == n && strncmp(page[i].path, in->path, n) == 0) {
            struct json_writer w = json_writer_init(&out->body, 0);
            json_open(&w, NULL);
            page[i].write(&w);
            json_close(&w);
            out->status = 200;
            return;
        }
    if (strncmp(in->path, values, sizeof values - 1) == 0)
        answer_values(s, in, in->path + sizeof values - 1, out);
    else
        not_found(out);
}
