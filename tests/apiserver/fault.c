/* fault.c - what goes wrong on demand, from the test's process or by HTTP.
 *
 * The first active fault that matches a request hits it.  Whether a probable one does is drawn from
 * its own stream, so adding another leaves it alone. */
#include "tests/apiserver/api_priv.h"

#include <stdio.h>
#include <string.h>

#include "base/num.h"

static bool fits(const struct fault *f, const char *method, const char *target, const char *token)
{
    return (!f->method || strcmp(f->method, method) == 0) &&
           (!f->path || strstr(target, f->path)) &&
           (!f->token || strcmp(f->token, token ? token : "") == 0);
}

static bool strikes(struct fault *f)
{
    if (f->off || (f->f.count > 0 && f->hits >= f->f.count))
        return false;
    if (f->seen++ < f->f.skip)
        return false;
    if (f->f.probability > 0 && rng_unit(&f->rng) >= f->f.probability)
        return false;
    f->hits++;
    return true;
}

struct fault *api_fault_pick(struct apiserver *a, const char *method, const char *target,
                             const char *token, unsigned kinds)
{
    for (struct fault *f = a->faults; f; f = f->next) {
        if ((kinds & 1u << f->f.kind) && fits(f, method, target, token) && strikes(f))
            return f;
    }
    return NULL;
}

/* ---- requests ---- */

void api_fault_body(int status, bool plain, int retry_after_s, struct call *c)
{
    static const struct {
        int status;
        const char *reason, *message;
    } table[] = {
        {401, "Unauthorized", "Unauthorized"},
        {409, "Conflict",
         "Operation cannot be fulfilled: the object has been modified; please apply your changes "
         "to the latest version and try again"},
        {410, "Expired", "The resourceVersion for the provided list is too old."},
        {429, "TooManyRequests", "Too many requests, please try again later."},
        {500, "InternalError", "Internal error occurred: etcdserver: request timed out"},
        {503, "ServiceUnavailable", "apiserver not ready"},
        {504, "Timeout", "Timeout: request did not complete within the allotted timeout"},
    };
    const char *reason = "InternalError", *message = "fault";
    for (size_t i = 0; i < ARRAY_LEN(table); i++) {
        if (table[i].status == status) {
            reason = table[i].reason;
            message = table[i].message;
        }
    }
    if (retry_after_s > 0) {
        char text[16];
        snprintf(text, sizeof text, "%d", retry_after_s);
        server_reply_header(c->out, "Retry-After", text);
    }
    char line[160];
    snprintf(line, sizeof line, "%.150s\n", message);
    if (plain)
        api_fail_plain(c, status, line);
    else
        api_fail(c, status, reason, cJSON_CreateObject(), "%s", message);
}

static const char *method_of(const struct call *c)
{
    return strcmp(c->verb, "watch") == 0 ? "WATCH" : c->method;
}

/* Kinds that meet a request when it comes; those of open watches act in watch.c. */
static unsigned at_start(const struct call *c)
{
    unsigned all = (1u << APISERVER_FAULT_KINDS) - 1,
             stream = 1u << APISERVER_HALF_BODY | 1u << APISERVER_GARBAGE | 1u << APISERVER_SILENT |
                      1u << APISERVER_EXPIRE | 1u << APISERVER_HUGE | 1u << APISERVER_CUT;
    return strcmp(c->verb, "watch") == 0 ? all & ~stream : all & ~(1u << APISERVER_SILENT);
}

static bool put_off(struct call *c, int64_t us)
{
    c->out->delay_us = us;
    c->out->later = true;
    return true;
}

static bool is_read(const struct call *c)
{
    return strcmp(c->verb, "get") == 0 || strcmp(c->verb, "list") == 0;
}

/* Lists of version 0 and watches come from the cache. */
static bool needs_storage(const struct call *c)
{
    const char *rv = api_call_query(c, "resourceVersion");
    bool cached = strcmp(c->verb, "list") == 0 && rv && strcmp(rv, "0") == 0;
    return c->is_resource && !cached && strcmp(c->verb, "watch") != 0;
}

bool api_fault_before(struct call *c)
{
    int64_t now = clock_mono_us();
    if (now < c->a->stall_until_us)
        return put_off(c, c->a->stall_until_us - now);
    if (c->a->storage_away && needs_storage(c)) {
        c->out->delay_us = is_read(c) ? c->a->away_read_us : c->a->away_write_us;
        api_fault_body(504, false, 0, c);
        return true;
    }
    if (c->http && c->http->again)
        return false;
    struct fault *f = c->fault =
        api_fault_pick(c->a, method_of(c), c->target, c->token, at_start(c));
    if (!f)
        return false;
    switch (f->f.kind) {
    case APISERVER_LATENCY:
        return put_off(c, f->f.latency_us > 0 ? f->f.latency_us : 1);
    case APISERVER_STATUS:
    case APISERVER_HANG:
        c->out->delay_us = f->f.latency_us;
        api_fault_body(f->f.kind == APISERVER_HANG ? 504 : f->f.status, f->f.plain,
                       f->f.retry_after_s, c);
        return true;
    case APISERVER_EXPIRE:
        api_fault_body(410, false, 0, c);
        return true;
    case APISERVER_CUT:
        c->out->cut = true;
        return true;
    default:
        return false;
    }
}

/* Half of a body, then the end of the connection. */
struct half {
    char *p;
    size_t n, sent;
};

static ssize_t half_pull(void *ctx, char *p, size_t n)
{
    struct half *h = ctx;
    size_t k = h->n - h->sent < n ? h->n - h->sent : n;
    if (k == 0)
        return -2;
    memcpy(p, h->p + h->sent, k);
    h->sent += k;
    return (ssize_t)k;
}

static void half_free(void *ctx)
{
    struct half *h = ctx;
    mem_free(h->p);
    mem_free(h);
}

static void halve(struct server_reply *r)
{
    struct half *h = mem_zero(1, sizeof *h);
    h->n = r->body.n / 2;
    h->p = buf_take(&r->body);
    r->pull = half_pull;
    r->free = half_free;
    r->ctx = h;
}

static void grow(struct server_reply *r, size_t size)
{
    char *at = r->body.n ? strstr(r->body.p, "\"items\":[{\"metadata\":{") : NULL;
    const char *key = "\"metadata\":{";
    at = at ? strstr(at, key) : r->body.n ? strstr(r->body.p, key) : NULL;
    if (!at)
        return;
    size_t head = (size_t)(at - r->body.p) + strlen(key);
    struct buf b = buf_init((size_t)2 << 30);
    buf_add(&b, r->body.p, head);
    buf_str(&b, "\"selfLink\":\"");
    buf_pad(&b, 'x', size ? size : 8u << 20);
    buf_str(&b, "\",");
    buf_add(&b, r->body.p + head, r->body.n - head);
    buf_fini(&r->body);
    r->body = b;
}

void api_fault_after(struct call *c)
{
    struct fault *f = c->fault;
    if (!f)
        return;
    switch (f->f.kind) {
    case APISERVER_AFTER:
        c->out->delay_us = f->f.latency_us;
        if (!c->out->pull)
            api_fault_body(f->f.status, f->f.plain, f->f.retry_after_s, c);
        break;
    case APISERVER_CUT_AFTER:
        c->out->delay_us = f->f.latency_us;
        c->out->cut = true;
        break;
    case APISERVER_HALF_BODY:
        halve(c->out);
        break;
    case APISERVER_GARBAGE:
        api_fail_plain(c, 200, "{\"kind\":\"\x01\xff,]<html>");
        c->out->content_type = "application/json";
        break;
    case APISERVER_HUGE:
        grow(c->out, f->f.size);
        break;
    default:
        break;
    }
}

/* ---- control ---- */

static char *copy_or_null(const char *s)
{
    return s && *s ? mem_strdup(s) : NULL;
}

static int add_fault(struct apiserver *a, const struct apiserver_fault *f) /* locked */
{
    struct fault *x = mem_zero(1, sizeof *x), **end = &a->faults;
    x->f = *f;
    x->method = copy_or_null(f->method);
    x->path = copy_or_null(f->path);
    x->token = copy_or_null(f->token);
    x->f.method = x->method;
    x->f.path = x->path;
    x->f.token = x->token;
    x->id = ++a->n_faults;
    char name[32];
    snprintf(name, sizeof name, "fault %d", x->id);
    x->rng = rng_stream(a->o.seed, name);
    while (*end)
        end = &(*end)->next;
    *end = x;
    a->waking = true; /* an EXPIRE acts on open watches at once */
    return x->id;
}

int apiserver_fault(struct apiserver *a, const struct apiserver_fault *f)
{
    api_lock(a);
    int id = add_fault(a, f);
    api_unlock(a);
    return id;
}

static void clear(struct apiserver *a, int id) /* locked */
{
    for (struct fault *f = a->faults; f; f = f->next)
        f->off |= id == 0 || f->id == id;
}

void apiserver_clear(struct apiserver *a, int id)
{
    api_lock(a);
    clear(a, id);
    api_unlock(a);
}

int apiserver_hits(struct apiserver *a, int id)
{
    api_lock(a);
    int hits = 0;
    for (struct fault *f = a->faults; f; f = f->next)
        hits += f->id == id ? f->hits : 0;
    api_unlock(a);
    return hits;
}

void api_fault_fini(struct apiserver *a)
{
    for (struct fault *f = a->faults; f;) {
        struct fault *next = f->next;
        mem_free(f->method);
        mem_free(f->path);
        mem_free(f->token);
        mem_free(f);
        f = next;
    }
    a->faults = NULL;
}

void apiserver_stall(struct apiserver *a, int64_t us)
{
    api_lock(a);
    a->stall_until_us = clock_mono_us() + us;
    api_unlock(a);
}

void apiserver_storage_away(struct apiserver *a, int64_t read_us, int64_t write_us)
{
    api_lock(a);
    a->storage_away = read_us >= 0;
    a->away_read_us = read_us;
    a->away_write_us = write_us;
    api_unlock(a);
}

void apiserver_compact(struct apiserver *a)
{
    api_lock(a);
    api_store_compact(a, a->rv);
    api_unlock(a);
}

void apiserver_cut_watches(struct apiserver *a)
{
    api_lock(a);
    api_watch_close_all(a);
    api_unlock(a);
}

void apiserver_registry_down(struct apiserver *a, bool down)
{
    api_lock(a);
    a->registry_down = down;
    a->waking = true;
    api_unlock(a);
}

static bool parse_fault(const cJSON *j, struct apiserver_fault *f)
{
    static const char *const name[APISERVER_FAULT_KINDS] = {[APISERVER_LATENCY] = "latency",
                                                            [APISERVER_STATUS] = "status",
                                                            [APISERVER_AFTER] = "after",
                                                            [APISERVER_CUT] = "cut",
                                                            [APISERVER_CUT_AFTER] = "cut_after",
                                                            [APISERVER_HALF_BODY] = "half_body",
                                                            [APISERVER_GARBAGE] = "garbage",
                                                            [APISERVER_SILENT] = "silent",
                                                            [APISERVER_EXPIRE] = "expire",
                                                            [APISERVER_HUGE] = "huge",
                                                            [APISERVER_HANG] = "hang"};
    int kind = 0;
    while (kind < APISERVER_FAULT_KINDS && strcmp(name[kind], api_js_str_or(j, "kind", "")) != 0)
        kind++;
    *f = (struct apiserver_fault){.kind = (enum apiserver_fault_kind)kind,
                                  .method = api_js_str(j, "method"),
                                  .path = api_js_str(j, "path"),
                                  .token = api_js_str(j, "token"),
                                  .skip = (int)api_js_num(j, "skip", 0),
                                  .count = (int)api_js_num(j, "count", 0),
                                  .probability = api_js_num(j, "probability", 0),
                                  .latency_us = (int64_t)(api_js_num(j, "latency_ms", 0) * 1e3),
                                  .status = (int)api_js_num(j, "status", 500),
                                  .retry_after_s = (int)api_js_num(j, "retry_after_s", 0),
                                  .plain = api_js_true(j, "plain"),
                                  .size = (size_t)api_js_num(j, "size", 0)};
    return kind < APISERVER_FAULT_KINDS;
}

/* POST /_test/faults {"kind":"status","status":500,"path":"/leases","count":3}; DELETE clears all;
 * POST /_test/stall {"ms":5000},
 * /_test/compact, /_test/cut_watches, /_test/registry {"down":true}; GET /_test/counts. */
void api_control_http(struct call *c)
{
    struct apiserver *a = c->a;
    const char *what = c->path + strlen("/_test/");
    cJSON *j = cJSON_ParseWithLength(c->body, c->n_body), *out = cJSON_CreateObject();
    struct apiserver_fault f;
    int status = 200;
    if (strcmp(what, "faults") == 0 && strcmp(c->method, "DELETE") == 0) {
        clear(a, (int)api_js_num(j, "id", 0));
    } else if (strcmp(what, "faults") == 0 && parse_fault(j, &f)) {
        api_js_set_num(out, "id", add_fault(a, &f));
    } else if (strcmp(what, "stall") == 0) {
        a->stall_until_us = clock_mono_us() + (int64_t)(api_js_num(j, "ms", 1000) * 1e3);
    } else if (strcmp(what, "compact") == 0) {
        api_store_compact(a, a->rv);
    } else if (strcmp(what, "cut_watches") == 0) {
        api_watch_close_all(a);
    } else if (strcmp(what, "registry") == 0) {
        a->registry_down = api_js_true(j, "down");
        a->waking = true;
    } else if (strcmp(what, "counts") == 0) {
        api_js_set_num(out, "requests", (double)a->n_requests);
        api_js_set_num(out, "version", (double)a->rv);
    } else {
        status = 400;
        api_js_set_str(out, "error", "see docs/apiserver.md");
    }
    api_answer(c, status, out);
    cJSON_Delete(j);
    cJSON_Delete(out);
}
