/* watch.c - streams of events.
 *
 * A watch remembers the version it has told; each pull turns the events past it into lines.  With a
 * selector, an object that starts to match is ADDED and one that ceases to is DELETED, as it last
 * matched.  Initial events come from a snapshot, so 100,000 of them cost pointers only. */
#include "tests/apiserver/api_priv.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/num.h"

enum { LINE_BYTES_MAX = 64 << 20 };

struct watch {
    struct apiserver *a;
    struct shelf *shelf;
    struct selector *sel;
    char ns[64], target[1024];
    char *token;
    uint64_t told;        /* all up to this version */
    struct obj **initial; /* to be ADDED first */
    size_t n_initial, i_initial;
    bool tell_end;                           /* bookmark after the initial ones */
    bool bookmarks, silent, over, cut, wait; /* wait: for a version of the future */
    int64_t end_us, bookmark_us;
    struct buf line; /* being delivered */
    size_t sent;
    struct watch *prev, *next;
};

static void watch_free(void *ctx)
{
    struct watch *w = ctx;
    struct apiserver *a = w->a;
    api_lock(a);
    if (w->prev)
        w->prev->next = w->next;
    else
        a->watches = w->next;
    if (w->next)
        w->next->prev = w->prev;
    for (size_t i = w->i_initial; i < w->n_initial; i++)
        api_obj_unref(w->initial[i]);
    api_unlock(a);
    mem_free(w->initial);
    api_selector_free(w->sel);
    buf_fini(&w->line);
    mem_free(w->token);
    mem_free(w);
}

void api_watch_drop_shelf(struct apiserver *a, const struct shelf *s)
{
    for (struct watch *w = a->watches; w; w = w->next) {
        if (w->shelf == s) {
            w->cut = true;
            w->shelf = NULL;
            buf_clear(&w->line);
            w->sent = 0;
        }
    }
}

size_t api_watch_count(const struct apiserver *a)
{
    size_t n = 0;
    for (const struct watch *w = a->watches; w; w = w->next)
        n++;
    return n;
}

void api_watch_close_all(struct apiserver *a)
{
    for (struct watch *w = a->watches; w; w = w->next)
        w->cut = true;
    a->waking = true;
}

/* ---- lines ---- */

static void line_open(struct watch *w, const char *type)
{
    buf_fmt(&w->line, "{\"type\":\"%s\",\"object\":", type);
}

static void line_close(struct watch *w)
{
    buf_str(&w->line, "}\n");
}

static void tell_error(struct watch *w, uint64_t asked)
{
    line_open(w, "ERROR");
    buf_fmt(&w->line,
            "{\"kind\":\"Status\",\"apiVersion\":\"v1\",\"metadata\":{},\"status\":\"Failure\","
            "\"message\":\"too old resource "
            "version: %llu (%llu)\",\"reason\":\"Expired\",\"code\":410}",
            (unsigned long long)asked, (unsigned long long)w->shelf->forgotten);
    line_close(w);
    w->over = true;
}

static void tell_bookmark(struct watch *w, bool end)
{
    static const struct {
        const char *plural, *rest;
    } zero[] = {
        {"pods", ",\"spec\":{\"containers\":null},\"status\":{}"},
        {"nodes", ",\"spec\":{},\"status\":{\"daemonEndpoints\":{\"kubeletEndpoint\":{\"Port\":0}},"
                  "\"nodeInfo\":{\"machineID\":\"\","
                  "\"systemUUID\":\"\",\"bootID\":\"\",\"kernelVersion\":\"\",\"osImage\":\"\","
                  "\"containerRuntimeVersion\":\"\","
                  "\"kubeletVersion\":\"\",\"kubeProxyVersion\":\"\",\"operatingSystem\":\"\","
                  "\"architecture\":\"\"}}"},
        {"deployments", ",\"spec\":{\"selector\":null,\"template\":{\"metadata\":{},\"spec\":{"
                        "\"containers\":null}},\"strategy\":{}},"
                        "\"status\":{}"},
        {"leases", ",\"spec\":{}"},
    };
    const char *rest = "";
    for (size_t i = 0; i < ARRAY_LEN(zero); i++) {
        if (strcmp(w->shelf->kind->plural, zero[i].plural) == 0)
            rest = zero[i].rest;
    }
    line_open(w, "BOOKMARK");
    buf_str(&w->line, w->shelf->prefix);
    buf_fmt(&w->line, "\"metadata\":{\"resourceVersion\":\"%llu\"%s}%s}",
            (unsigned long long)w->told,
            end ? ",\"annotations\":{\"k8s.io/initial-events-end\":\"true\"}" : "", rest);
    line_close(w);
}

static void tell_object(struct watch *w, const char *type, const struct obj *o)
{
    line_open(w, type);
    api_obj_add_json(&w->line, w->shelf, o, true);
    line_close(w);
}

/* The object as it last matched, under the version of the change. */
static void tell_left(struct watch *w, const struct event *e)
{
    cJSON *j = api_obj_parse(e->was);
    char rv[24];
    snprintf(rv, sizeof rv, "%llu", (unsigned long long)e->rv);
    api_js_set_str(api_js_obj(j, "metadata"), "resourceVersion", rv);
    char *text = api_js_text(j);
    line_open(w, "DELETED");
    buf_str(&w->line, w->shelf->prefix);
    buf_str(&w->line, text + 1);
    line_close(w);
    mem_free(text);
    cJSON_Delete(j);
}

static bool wants(const struct watch *w, const struct obj *o)
{
    return o && (!*w->ns || strcmp(o->ns, w->ns) == 0) && api_selector_matches(w->sel, o);
}

static void tell_event(struct watch *w, const struct event *e)
{
    bool was = wants(w, e->was);
    if (e->type == EVENT_DELETED) {
        if (was)
            tell_object(w, "DELETED", e->now);
        return;
    }
    bool now = wants(w, e->now);
    if (now)
        tell_object(w, was ? "MODIFIED" : "ADDED", e->now);
    else if (was)
        tell_left(w, e);
}

/* ---- faults on open streams ---- */

static void huge_line(struct watch *w, size_t size)
{
    char *open = strstr(w->line.p, "\"metadata\":{");
    if (!open)
        return;
    struct buf b = buf_init((size_t)1 << 30);
    size_t at = (size_t)(open - w->line.p) + strlen("\"metadata\":{");
    buf_add(&b, w->line.p, at);
    buf_str(&b, "\"selfLink\":\"");
    buf_pad(&b, 'x', size ? size : 8u << 20);
    buf_str(&b, "\",");
    buf_add(&b, w->line.p + at, w->line.n - at);
    buf_fini(&w->line);
    w->line = b;
}

static void spoil_line(struct watch *w)
{
    struct fault *f =
        api_fault_pick(w->a, "WATCH", w->target, w->token,
                       1u << APISERVER_HALF_BODY | 1u << APISERVER_GARBAGE |
                           1u << APISERVER_SILENT | 1u << APISERVER_HUGE | 1u << APISERVER_CUT);
    if (!f)
        return;
    switch (f->f.kind) {
    case APISERVER_HALF_BODY:
        w->line.n /= 2;
        w->cut = true;
        break;
    case APISERVER_GARBAGE:
        buf_clear(&w->line);
        buf_str(&w->line, "{\"type\":\"MODIFIED\",\"object\":{\"metadata\":{\"name\":\x01\xff}}\n");
        break;
    case APISERVER_SILENT:
        buf_clear(&w->line);
        w->silent = true;
        break;
    case APISERVER_CUT:
        buf_clear(&w->line);
        w->cut = true;
        break;
    default:
        huge_line(w, f->f.size);
        break;
    }
}

/* ---- pulling ---- */

static void next_initial(struct watch *w)
{
    struct obj *o = w->initial[w->i_initial++];
    tell_object(w, "ADDED", o);
    api_obj_unref(o);
}

static void next_event(struct watch *w)
{
    const struct shelf *s = w->shelf;
    if (w->told < s->forgotten) {
        tell_error(w, w->told);
        return;
    }
    for (size_t i = api_store_after(s, w->told); i < s->n_events && w->line.n == 0; i++) {
        const struct event *e = api_store_event(s, i);
        w->told = e->rv;
        tell_event(w, e);
    }
    if (w->line.n == 0)
        w->told = w->a->rv;
}

/* The next line, if there is something to say. */
static void next_line(struct watch *w, int64_t now)
{
    buf_clear(&w->line);
    w->sent = 0;
    bool news = true;
    if (w->i_initial < w->n_initial) {
        next_initial(w);
    } else if (w->tell_end) {
        w->tell_end = false;
        tell_bookmark(w, true);
    } else if (api_fault_pick(w->a, "WATCH", w->target, w->token, 1u << APISERVER_EXPIRE)) {
        tell_error(w, w->told);
        return;
    } else {
        next_event(w);
        news = w->line.n > 0;
    }
    if (!news && w->bookmarks && (now >= w->bookmark_us || now >= w->end_us)) {
        tell_bookmark(w, false);
        w->bookmark_us = now + w->a->o.bookmark_us;
        w->over |= now >= w->end_us;
    } else if (!news && now >= w->end_us) {
        w->over = true;
    }
    if (w->line.n > 0 && !w->over)
        spoil_line(w);
}

static ssize_t pull_locked(struct watch *w, char *p, size_t n)
{
    struct apiserver *a = w->a;
    int64_t now = clock_mono_us();
    size_t got = 0;
    api_crd_tick(a);
    if (!w->shelf)
        return -2;
    if (now < a->stall_until_us)
        return 0;
    w->over |= a->drain_at_us && now >= a->drain_at_us;
    if (w->wait && a->rv < w->told)
        return w->cut || now >= w->end_us ? -1 : 0;
    w->wait = false;
    while (got < n) {
        if (w->sent == w->line.n) {
            if (w->cut)
                return got ? (ssize_t)got : -2;
            if (w->over)
                return got ? (ssize_t)got : -1;
            if (w->silent)
                break;
            next_line(w, now);
            if (w->line.n == 0 && !w->cut && !w->over)
                break;
            continue;
        }
        size_t k = w->line.n - w->sent < n - got ? w->line.n - w->sent : n - got;
        memcpy(p + got, w->line.p + w->sent, k);
        w->sent += k;
        got += k;
    }
    return (ssize_t)got;
}

static ssize_t watch_pull(void *ctx, char *p, size_t n)
{
    struct watch *w = ctx;
    api_lock(w->a);
    ssize_t got = pull_locked(w, p, n);
    api_unlock(w->a);
    return got;
}

/* ---- opening ---- */

static bool check_initial(struct call *c, bool send_initial)
{
    const char *match = api_call_query(c, "resourceVersionMatch");
    struct causes l = {0};
    if (send_initial && !(match && strcmp(match, "NotOlderThan") == 0))
        api_cause(
            &l, FORBIDDEN, "resourceVersionMatch",
            "Forbidden: sendInitialEvents requires setting resourceVersionMatch to NotOlderThan");
    if (!send_initial && match && *match)
        api_cause(&l, FORBIDDEN, "resourceVersionMatch",
                  "Forbidden: resourceVersionMatch is forbidden for watch unless sendInitialEvents "
                  "is provided");
    return api_causes_none(&l) || api_fail_invalid(c, "ListOptions", "meta.k8s.io", "", &l);
}

static void take_snapshot(struct call *c, struct watch *w)
{
    const struct shelf *s = w->shelf;
    w->initial = mem_zero(s->n + 1, sizeof(struct obj *));
    for (size_t i = 0; i < s->n; i++) {
        if (wants(w, s->v[i]))
            w->initial[w->n_initial++] = api_obj_ref(s->v[i]);
    }
    w->told = c->a->rv;
}

static int64_t time_out_us(struct call *c)
{
    const char *asked = api_call_query(c, "timeoutSeconds");
    int64_t s;
    if (asked && num_i64(asked, strlen(asked), &s) && s > 0)
        return s * US_PER_S;
    return 1800 * US_PER_S + (int64_t)(rng_unit(&c->a->names) * 1800e6);
}

void api_watch_run(struct call *c)
{
    const char *asked = api_call_query(c, "resourceVersion");
    bool initial = api_call_flag(c, "sendInitialEvents");
    uint64_t rv = 0;
    struct selector *sel;
    if (!c->http || !check_initial(c, initial) || !api_selector_parse(c, &sel))
        return;
    if (asked && *asked && !num_u64(asked, strlen(asked), &rv)) {
        api_selector_free(sel);
        api_fail(
            c, 500, "InternalError", NULL,
            "Internal error occurred: invalid resource version: strconv.ParseUint: parsing \"%s\": "
            "invalid syntax",
            asked);
        return;
    }
    struct watch *w = mem_zero(1, sizeof *w);
    w->a = c->a;
    w->shelf = c->shelf;
    w->sel = sel;
    snprintf(w->ns, sizeof w->ns, "%s", c->ns);
    snprintf(w->target, sizeof w->target, "%.1000s", c->target);
    w->token = mem_strdup(c->token ? c->token : "");
    w->line = buf_init(LINE_BYTES_MAX);
    w->bookmarks = api_call_flag(c, "allowWatchBookmarks");
    w->tell_end = initial && w->bookmarks;
    w->end_us = clock_mono_us() + time_out_us(c);
    w->bookmark_us = clock_mono_us() + c->a->o.bookmark_us;
    w->told = rv;
    w->wait = rv > c->a->rv;
    if (initial || rv == 0)
        take_snapshot(c, w);
    w->next = c->a->watches;
    if (w->next)
        w->next->prev = w;
    c->a->watches = w;
    c->out->status = 200;
    c->out->pull = watch_pull;
    c->out->free = watch_free;
    c->out->ctx = w;
}
