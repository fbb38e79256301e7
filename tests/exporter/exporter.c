#include "tests/exporter/exporter.h"

#include <inttypes.h>
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

#include "base/clock.h"
#include "base/mem.h"
#include "base/num.h"
#include "net/server.h"
#include "prom/text.h"

enum { PAGE_MAX = 64 << 20, SERIES_MAX = 1000000 };

struct value {
    char *name, *labels;
    double v;
    bool stamped;
    int64_t offset_ms;
};

struct exporter {
    struct server *server;
    pthread_mutex_t lock;
    struct value *values; /* by (name, labels) */
    size_t n, size;
    int status;
    atomic_uint_least64_t scrapes;
    void (*page)(void *ctx, struct buf *out);
    bool (*other)(void *ctx, const char *path, const char *query, struct buf *out);
    void *ctx;
};

static int compare(const struct value *v, const char *name, const char *labels)
{
    int d = strcmp(v->name, name);
    return d ? d : strcmp(v->labels, labels);
}

static size_t lower_bound(const struct exporter *x, const char *name, const char *labels)
{
    size_t lo = 0, hi = x->n;
    while (lo < hi) {
        size_t mid = (lo + hi) / 2;
        if (compare(&x->values[mid], name, labels) < 0)
            lo = mid + 1;
        else
            hi = mid;
    }
    return lo;
}

/* Found or inserted; the lock is held. */
static struct value *value_at(struct exporter *x, const char *name, const char *labels)
{
    size_t i = lower_bound(x, name, labels);
    if (i < x->n && compare(&x->values[i], name, labels) == 0)
        return &x->values[i];
    ASSERT(x->n < SERIES_MAX);
    if (x->n == x->size) {
        x->size = x->size ? x->size * 2 : 64;
        x->values = mem_grow(x->values, x->size, sizeof *x->values);
    }
    memmove(x->values + i + 1, x->values + i, (x->n - i) * sizeof *x->values);
    x->n++;
    x->values[i] = (struct value){.name = mem_strdup(name), .labels = mem_strdup(labels)};
    return &x->values[i];
}

void exporter_set(struct exporter *x, const char *name, const char *labels, double v)
{
    (void)pthread_mutex_lock(&x->lock);
    struct value *at = value_at(x, name, labels);
    at->v = v;
    at->stamped = false;
    (void)pthread_mutex_unlock(&x->lock);
}

void exporter_add(struct exporter *x, const char *name, const char *labels, double v)
{
    (void)pthread_mutex_lock(&x->lock);
    value_at(x, name, labels)->v += v;
    (void)pthread_mutex_unlock(&x->lock);
}

void exporter_set_stamped(struct exporter *x, const char *name, const char *labels, double v,
                          int64_t offset_ms)
{
    (void)pthread_mutex_lock(&x->lock);
    struct value *at = value_at(x, name, labels);
    at->v = v;
    at->stamped = true;
    at->offset_ms = offset_ms;
    (void)pthread_mutex_unlock(&x->lock);
}

static void value_fini(struct value *v)
{
    mem_free(v->name);
    mem_free(v->labels);
}

void exporter_remove(struct exporter *x, const char *name, const char *labels)
{
    size_t kept = 0;
    (void)pthread_mutex_lock(&x->lock);
    for (size_t i = 0; i < x->n; i++) {
        struct value *v = &x->values[i];
        if (strcmp(v->name, name) == 0 && (!labels || strcmp(v->labels, labels) == 0))
            value_fini(v);
        else
            x->values[kept++] = *v;
    }
    x->n = kept;
    (void)pthread_mutex_unlock(&x->lock);
}

void exporter_clear(struct exporter *x)
{
    (void)pthread_mutex_lock(&x->lock);
    for (size_t i = 0; i < x->n; i++)
        value_fini(&x->values[i]);
    x->n = 0;
    (void)pthread_mutex_unlock(&x->lock);
}

void exporter_fail(struct exporter *x, int status)
{
    (void)pthread_mutex_lock(&x->lock);
    x->status = status;
    (void)pthread_mutex_unlock(&x->lock);
}

void exporter_hook(struct exporter *x, void (*page)(void *ctx, struct buf *out),
                   bool (*other)(void *ctx, const char *path, const char *query, struct buf *out),
                   void *ctx)
{
    (void)pthread_mutex_lock(&x->lock);
    x->page = page;
    x->other = other;
    x->ctx = ctx;
    (void)pthread_mutex_unlock(&x->lock);
}

/* ---- the page -----------------------------------------------------------------------------------
 */

static bool ends_in(const char *s, const char *end)
{
    size_t n = strlen(s), m = strlen(end);
    return n >= m && strcmp(s + n - m, end) == 0;
}

/* "x_bucket", "x_sum" and "x_count" belong to x where there is an "x_bucket". */
static const char *type_of(const char *name)
{
    if (ends_in(name, "_bucket") || ends_in(name, "_sum") || ends_in(name, "_count"))
        return NULL; /* left untyped: the family's line would have to come first */
    return ends_in(name, "_total") ? "counter" : "gauge";
}

static void put(const struct value *v, int64_t now_ms, struct buf *out)
{
    char text[NUM_TEXT];
    buf_str(out, v->name);
    if (v->labels[0])
        buf_fmt(out, "{%s}", v->labels);
    buf_fmt(out, " %s", num_format(v->v, text));
    if (v->stamped)
        buf_fmt(out, " %" PRId64, now_ms + v->offset_ms);
    buf_char(out, '\n');
}

static void write_page(const struct exporter *x, struct buf *out)
{
    int64_t now_ms = clock_wall_us() / US_PER_MS;
    for (size_t i = 0; i < x->n; i++) {
        const struct value *v = &x->values[i];
        if ((i == 0 || strcmp(v->name, v[-1].name) != 0) && type_of(v->name))
            buf_fmt(out, "# TYPE %s %s\n", v->name, type_of(v->name));
        put(v, now_ms, out);
    }
}

static void answer_metrics(struct exporter *x, struct server_reply *out)
{
    out->status = x->status ? x->status : 200;
    out->content_type = PROM_TEXT_CONTENT_TYPE;
    if (x->status)
        return;
    write_page(x, &out->body);
    if (x->page)
        x->page(x->ctx, &out->body);
    atomic_fetch_add(&x->scrapes, 1);
}

static void handle(void *ctx, const struct server_request *in, struct server_reply *out)
{
    struct exporter *x = ctx;
    out->body = buf_init(PAGE_MAX);
    (void)pthread_mutex_lock(&x->lock);
    if (strcmp(in->path, "/metrics") == 0) {
        answer_metrics(x, out);
    } else {
        const char *query = strchr(in->target, '?');
        bool known = x->other && x->other(x->ctx, in->path, query ? query + 1 : "", &out->body);
        out->content_type = "text/plain";
        out->status = known ? 200 : 404;
    }
    (void)pthread_mutex_unlock(&x->lock);
}

enum err_code exporter_start(uint16_t port, struct exporter **out, struct err *e)
{
    struct exporter *x = mem_zero(1, sizeof *x);
    struct server_opts o = server_opts_default();
    (void)pthread_mutex_init(&x->lock, NULL);
    o.port = port;
    o.handler = handle;
    o.ctx = x;
    enum err_code rc = server_start(&o, &x->server, e);
    if (rc) {
        (void)pthread_mutex_destroy(&x->lock);
        mem_free(x);
        return err_wrap(e, "exporter");
    }
    *out = x;
    return ERR_OK;
}

void exporter_stop(struct exporter *x)
{
    if (!x)
        return;
    server_stop(x->server);
    exporter_clear(x);
    (void)pthread_mutex_destroy(&x->lock);
    mem_free(x->values);
    mem_free(x);
}

uint16_t exporter_port(const struct exporter *x)
{
    return server_port(x->server);
}

uint64_t exporter_scrapes(const struct exporter *x)
{
    return atomic_load(&x->scrapes);
}
