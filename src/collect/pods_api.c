/* pods_api.c - CPU and memory of pods from metrics.k8s.io, for clusters without Prometheus.
 *
 * The list is read as it is scanned: name, namespace, time stamp, and the usage of each container; nothing
 * is kept of the rest.  Use is divided by the pod's requests (from the look-up), at most 1, as the cAdvisor
 * query does it. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/mem.h"
#include "base/num.h"
#include "base/tz.h"
#include "collect/collect_priv.h"
#include "prom/scan.h"

enum { BODY_CAP = 256 << 20, KEY_LEN = 32, LEVELS = 8 };

/* {"items":[{"metadata":{"name","namespace"},"timestamp","containers":[{"usage":{"cpu","memory"}}]}]} by
 * depth. */
enum { IN_ROOT = 1, IN_ITEM = 3, IN_META = 4, IN_CONTAINER = 5, IN_USAGE = 6 };

struct reader {
    struct collect *c;
    char key[LEVELS][KEY_LEN]; /* the key last seen at each depth */
    char namespace[COLLECT_NAME_MAX], name[COLLECT_NAME_MAX];
    int64_t t_us;    /* INT64_MIN without */
    double cpu, mem; /* NaN without */
};

/* k8s.io/apimachinery/pkg/api/resource: a decimal and a suffix. */
bool pods_api_quantity(const char *s, double *v)
{
    static const struct {
        const char *suffix;
        double factor;
    } suffixes[] = {{"", 1},        {"n", 1e-9},    {"u", 1e-6},    {"m", 1e-3},
                    {"k", 1e3},     {"M", 1e6},     {"G", 1e9},     {"T", 1e12},
                    {"P", 1e15},    {"E", 1e18},    {"Ki", 0x1p10}, {"Mi", 0x1p20},
                    {"Gi", 0x1p30}, {"Ti", 0x1p40}, {"Pi", 0x1p50}, {"Ei", 0x1p60}};
    size_t n = strspn(s, "+-.0123456789");
    if ((s[n] == 'e' || s[n] == 'E') && s[n + 1]) /* an exponent, unless it is exa */
        n += 1 + strspn(s + n + 1, "+-0123456789");
    for (size_t i = 0; i < ARRAY_LEN(suffixes); i++)
        if (strcmp(suffixes[i].suffix, s + n) == 0 && num_f64(s, n, v)) {
            *v *= suffixes[i].factor;
            return true;
        }
    return false;
}

static void begin_pod(struct reader *r)
{
    r->namespace[0] = r->name[0] = 0;
    r->t_us = INT64_MIN;
    r->cpu = r->mem = NAN;
}

static void add_share(struct reader *r, int target, enum field f, double used, double requested,
                      int64_t at_us)
{
    if (isnan(used) || requested <= 0)
        return;
    double share = used / requested;
    share = share < 1 ? share : 1;
    if (spread_judge(f, &share))
        spread_add(r->c, target, f, share, 0, at_us, r->t_us);
    else
        r->c->health[HEALTH_PODS_API].bad++;
}

static void end_pod(struct reader *r)
{
    struct collect *c = r->c;
    struct collect_health *h = &c->health[HEALTH_PODS_API];
    struct collect_pod pod = {.target = -1};
    bool stale = false;
    h->n_samples++;
    bool known = r->name[0] && c->o.pod(c->o.ctx, r->namespace, r->name, &pod);
    if (!known || pod.target < 0 || pod.target >= c->o.max_targets || !c->slot[pod.target].used) {
        h->dropped++;
        h->last_dropped++;
        return;
    }
    int64_t at_us = r->t_us == INT64_MIN ? c->round_now_us : spread_time(c, r->t_us, h, &stale);
    if (stale)
        return;
    add_share(r, pod.target, FIELD_CPU_UTIL, r->cpu, pod.cpu_cores, at_us);
    add_share(r, pod.target, FIELD_MEM_UTIL, r->mem, pod.mem_bytes, at_us);
}

static bool at(const struct reader *r, int depth, const char *key)
{
    return strcmp(r->key[depth], key) == 0;
}

static void add_usage(struct reader *r, double *sum, const char *text)
{
    double v;
    if (!pods_api_quantity(text, &v) || v < 0) {
        r->c->health[HEALTH_PODS_API].bad++;
        return;
    }
    *sum = isnan(*sum) ? v : *sum + v;
}

static void take_text(struct reader *r, int depth, const struct scan_token *t)
{
    if (!at(r, IN_ROOT, "items"))
        return;
    if (depth == IN_META && at(r, IN_ITEM, "metadata")) {
        if (at(r, IN_META, "name"))
            (void)snprintf(r->name, sizeof r->name, "%s", t->p);
        else if (at(r, IN_META, "namespace"))
            (void)snprintf(r->namespace, sizeof r->namespace, "%s", t->p);
    } else if (depth == IN_ITEM && at(r, IN_ITEM, "timestamp")) {
        if (tz_parse_rfc3339(t->p, t->n, &r->t_us, NULL))
            r->t_us = INT64_MIN;
    } else if (depth == IN_USAGE && at(r, IN_ITEM, "containers") && at(r, IN_CONTAINER, "usage")) {
        if (at(r, IN_USAGE, "cpu"))
            add_usage(r, &r->cpu, t->p);
        else if (at(r, IN_USAGE, "memory"))
            add_usage(r, &r->mem, t->p);
    }
}

static void take(struct reader *r, enum scan_kind kind, int depth, const struct scan_token *t)
{
    if (kind == SCAN_KEY && depth < LEVELS)
        (void)snprintf(r->key[depth], KEY_LEN, "%.*s", KEY_LEN - 1, t->p);
    else if (kind == SCAN_OBJECT && depth < LEVELS)
        r->key[depth][0] = 0;
    if (kind == SCAN_OBJECT && depth == IN_ITEM)
        begin_pod(r);
    else if (kind == SCAN_OBJECT_END && depth == IN_ITEM - 1 && at(r, IN_ROOT, "items"))
        end_pod(r);
    else if (kind == SCAN_STRING && depth < LEVELS)
        take_text(r, depth, t);
}

static enum err_code scan_body(struct reader *r, struct scan *s, const char *body, size_t n,
                               struct err *e)
{
    while (n > 0) {
        size_t part = n < SCAN_FEED_MAX ? n : SCAN_FEED_MAX;
        struct scan_token t;
        enum scan_kind kind;
        scan_feed(s, body, part);
        while ((kind = scan_next(s, &t)) > SCAN_MORE)
            take(r, kind, scan_depth(s), &t);
        if (kind == SCAN_BAD)
            return scan_error(s, e);
        body += part;
        n -= part;
    }
    return scan_complete(s) ? ERR_OK : scan_error(s, e);
}

enum err_code pods_api_read(struct collect *c, const char *body, size_t n, struct err *e)
{
    struct scan *s = scan_new();
    struct reader *r = mem_zero(1, sizeof *r);
    r->c = c;
    begin_pod(r);
    enum err_code rc = scan_body(r, s, body, n, e);
    mem_free(r);
    scan_free(s);
    return rc;
}

/* ---- asking -------------------------------------------------------------------------------------
 */

static void on_body(void *arg, enum err_code rc, const char *body, size_t n, const struct err *e)
{
    struct pods_ticket *t = arg;
    struct collect *c = t->c;
    struct err mine = {0};
    t->pending = false;
    if (!c) {
        mem_free(t);
        return;
    }
    struct collect_health *h = &c->health[HEALTH_PODS_API];
    h->duration_us = clock_mono_us() - c->round_mono_us;
    h->n_samples = h->last_dropped = 0;
    if (!rc) {
        rc = pods_api_read(c, body, n, &mine);
        e = &mine;
    }
    if (rc) {
        collect_failed(h, "metrics.k8s.io", e);
    } else {
        h->n_ok++;
        h->last_ok_us = clock_wall_us();
    }
    if (!c->closing)
        collect_close_if_done(c);
}

void pods_api_start(struct collect *c)
{
    struct collect_health *h = &c->health[HEALTH_PODS_API];
    struct err e = {0};
    if (!c->o.kube_get || c->ticket->pending)
        return;
    h->last_try_us = c->round_wall_us;
    h->error[0] = 0;
    c->ticket->pending = true;
    if (c->o.kube_get(c->o.ctx, PODS_API_PATH, BODY_CAP, on_body, c->ticket, &e)) {
        c->ticket->pending = false;
        collect_failed(h, "metrics.k8s.io", &e);
    }
}

void pods_api_orphan(struct collect *c)
{
    c->ticket->c = NULL;
    if (!c->ticket->pending)
        mem_free(c->ticket);
    c->ticket = NULL;
}
