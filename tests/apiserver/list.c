/* list.c - lists: what is there now, or was at an older version; pages; partial metadata.
 *
 * A page token holds the version of the first page and the last key.  What was there at that
 * version is the table of now with later events taken back.  A version that is no longer remembered
 * is 410, with a token to go on inconsistently. */
#include "tests/apiserver/api_priv.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

#include "base/num.h"

enum { GZIP_FROM_BYTES = 128 << 10, LIST_BYTES_MAX = 2000000000 };

struct page {
    struct selector *sel;
    uint64_t limit;  /* 0: none */
    uint64_t rv;     /* of the answer */
    bool past;       /* rv is an older version */
    char start[512]; /* "": from the beginning; else after this key */
    struct obj **v;  /* the objects at rv */
    size_t n;
    struct obj **own; /* v, when made for this */
};

/* ---- tokens: base64url of {"v":"meta.k8s.io/v1","rv":357,"start":"/page-10\u0000"} ---- */

static void base64url(struct buf *out, const char *s)
{
    static const char digit[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
    size_t n = strlen(s);
    for (size_t i = 0; i < n; i += 3) {
        unsigned x = (unsigned char)s[i] << 16, k = 2;
        if (i + 1 < n) {
            x |= (unsigned)(unsigned char)s[i + 1] << 8;
            k = 3;
        }
        if (i + 2 < n) {
            x |= (unsigned char)s[i + 2];
            k = 4;
        }
        for (unsigned d = 0; d < k; d++)
            buf_char(out, digit[(x >> (18 - 6 * d)) & 63]);
    }
}

static int digit64(char c)
{
    if (c >= 'A' && c <= 'Z')
        return c - 'A';
    if (c >= 'a' && c <= 'z')
        return c - 'a' + 26;
    if (c >= '0' && c <= '9')
        return c - '0' + 52;
    return c == '-' ? 62 : c == '_' ? 63 : -1;
}

static bool unbase64url(const char *s, char *out, size_t n)
{
    size_t w = 0;
    unsigned x = 0, bits = 0;
    for (; *s; s++) {
        int d = digit64(*s);
        if (d < 0 || w + 1 >= n)
            return false;
        x = x << 6 | (unsigned)d;
        bits += 6;
        if (bits >= 8) {
            bits -= 8;
            out[w++] = (char)(x >> bits & 0xff);
        }
    }
    out[w] = '\0';
    return true;
}

static void token_text(struct buf *out, long long rv, const char *after, bool slash)
{
    char json[640];
    snprintf(json, sizeof json, "{\"v\":\"meta.k8s.io/v1\",\"rv\":%lld,\"start\":\"%s%s\\u0000\"}",
             rv, slash ? "/" : "", after);
    base64url(out, json);
}

/* Reads the token into p->start and *rv (-1: inconsistent). */
static bool token_parse(struct call *c, const char *token, struct page *p, long long *rv)
{
    char json[1024];
    cJSON *j = unbase64url(token, json, sizeof json) ? cJSON_Parse(json) : NULL;
    /* The NUL at the end of start does not survive a C parser: cut it off before. */
    char *nul = strstr(json, "\\u0000");
    if (j && nul) {
        memmove(nul, nul + 6, strlen(nul + 6) + 1);
        cJSON_Delete(j);
        j = cJSON_Parse(json);
    }
    const char *start = api_js_str(j, "start");
    double version = api_js_num(j, "rv", 0);
    if (!start || version == 0) {
        cJSON_Delete(j);
        return api_fail_bad(c, "invalid continue token: continue key is not valid: invalid "
                               "character 'i' looking for beginning of value");
    }
    start += *start == '/';
    snprintf(p->start, sizeof p->start, *c->ns ? "%s/%s" : "%s%s", c->ns, start);
    *rv = (long long)version;
    cJSON_Delete(j);
    return true;
}

/* ---- which version ---- */

static bool expired(struct call *c, struct page *p, bool page)
{
    if (!page)
        return api_fail(c, 410, "Expired", NULL,
                        "The resourceVersion for the provided list is too old.");
    api_fail(c, 410, "Expired", NULL,
             "The provided continue parameter is too old to display a consistent list result. You "
             "can start a new list without "
             "the continue parameter, or use the continue token in this response to retrieve the "
             "remainder of the results. "
             "Continuing with the provided token results in an inconsistent list - objects that "
             "were created, modified, or deleted "
             "between the time the first chunk was returned and now may show up in the list.");
    struct buf token = buf_init(4096);
    token_text(&token, -1, *c->ns ? p->start + strlen(c->ns) + 1 : p->start, false);
    cJSON *j = cJSON_ParseWithLength(c->out->body.p, c->out->body.n);
    api_js_set_str(api_js_obj(j, "metadata"), "continue", token.p);
    api_answer(c, 410, j);
    cJSON_Delete(j);
    buf_fini(&token);
    return false;
}

static bool at_version(struct call *c, struct page *p, uint64_t rv, bool page)
{
    if (rv < c->shelf->forgotten)
        return expired(c, p, page);
    p->rv = rv;
    p->past = rv < c->a->rv;
    return true;
}

static bool too_new(struct call *c, uint64_t rv)
{
    char now[32];
    snprintf(now, sizeof now, "%llu", (unsigned long long)c->a->rv);
    cJSON *d = cJSON_CreateObject();
    cJSON *one = cJSON_CreateObject();
    cJSON_AddStringToObject(one, "reason", "ResourceVersionTooLarge");
    cJSON_AddStringToObject(one, "message", "Too large resource version");
    cJSON_AddItemToArray(api_js_list(d, "causes"), one);
    cJSON_AddNumberToObject(d, "retryAfterSeconds", 1);
    server_reply_header(c->out, "Retry-After", "1");
    return api_fail(c, 504, "Timeout", d, "Timeout: Too large resource version: %llu, current: %s",
                    (unsigned long long)rv, now);
}

static bool resume(struct call *c, struct page *p, const char *token)
{
    const char *asked = api_call_query(c, "resourceVersion");
    long long rv = -1;
    if (asked && *asked && strcmp(asked, "0") != 0)
        return api_fail_bad(c, "specifying resource version is not allowed when using continue");
    if (!token_parse(c, token, p, &rv))
        return false;
    return at_version(c, p, rv < 0 ? c->a->rv : (uint64_t)rv, true);
}

static bool choose_version(struct call *c, struct page *p)
{
    const char *token = api_call_query(c, "continue"),
               *asked = api_call_query(c, "resourceVersion");
    const char *match = api_call_query(c, "resourceVersionMatch");
    if (token && *token)
        return resume(c, p, token);
    p->rv = c->a->rv;
    if (!asked || !*asked)
        return !match || !*match ||
               api_fail(c, 422, "Invalid", NULL,
                        "resourceVersionMatch is forbidden unless resourceVersion is provided");
    uint64_t rv;
    if (!num_u64(asked, strlen(asked), &rv))
        return api_fail_bad(c,
                            "invalid resource version: resourceVersion: Invalid value: \"%s\": "
                            "strconv.ParseUint: parsing \"%s\": "
                            "invalid syntax",
                            asked, asked);
    bool exact = match && strcmp(match, "Exact") == 0;
    if (rv == 0 && !exact) {
        p->limit = 0; /* served from the cache, whole */
        return true;
    }
    if (rv > c->a->rv)
        return too_new(c, rv);
    bool legacy = p->limit > 0 && !(match && *match);
    return exact || legacy ? at_version(c, p, rv, false) : true;
}

/* ---- what was there ---- */

struct undo {
    const char *key;
    struct obj *was;
    size_t order;
};

static int by_key_order(const void *x, const void *y)
{
    const struct undo *a = x, *b = y;
    int d = strcmp(a->key, b->key);
    return d ? d : (a->order > b->order) - (a->order < b->order);
}

/* p->v: the table with every event after p->rv taken back. */
static void look_back(const struct shelf *s, struct page *p)
{
    size_t from = api_store_after(s, p->rv), n = s->n_events - from, w = 0, k = 0;
    struct undo *u = mem_zero(n + 1, sizeof *u);
    for (size_t i = 0; i < n; i++) {
        const struct event *e = api_store_event(s, from + i);
        u[i] = (struct undo){e->now->key, e->was, i};
    }
    qsort(u, n, sizeof *u, by_key_order);
    p->own = mem_zero(s->n + n + 1, sizeof(struct obj *));
    for (size_t i = 0; i < s->n || k < n;) {
        int d = i == s->n ? 1 : k == n ? -1 : strcmp(s->v[i]->key, u[k].key);
        if (d < 0) {
            p->own[w++] = s->v[i++];
            continue;
        }
        if (u[k].was)
            p->own[w++] = u[k].was;
        i += d == 0;
        const char *key = u[k].key;
        while (k < n && strcmp(u[k].key, key) == 0)
            k++;
    }
    mem_free(u);
    p->v = p->own;
    p->n = w;
}

static size_t lower(const struct page *p, const char *key)
{
    size_t lo = 0, hi = p->n;
    while (lo < hi) {
        size_t mid = (lo + hi) / 2;
        if (strcmp(p->v[mid]->key, key) < 0)
            lo = mid + 1;
        else
            hi = mid;
    }
    return lo;
}

/* ---- the answer ---- */

static void add_partial(struct buf *out, const struct obj *o)
{
    cJSON *j = api_obj_parse(o);
    buf_str(out,
            "{\"kind\":\"PartialObjectMetadata\",\"apiVersion\":\"meta.k8s.io/v1\",\"metadata\":");
    api_js_add_text(out, api_js_at(j, "metadata"));
    buf_char(out, '}');
    cJSON_Delete(j);
}

static void head(struct call *c, struct buf *out, const struct page *p, bool partial,
                 const char *token, size_t left)
{
    const struct kind *k = c->shelf->kind;
    if (partial)
        buf_str(out, "{\"kind\":\"PartialObjectMetadataList\",\"apiVersion\":\"meta.k8s.io/v1\"");
    else
        buf_fmt(out, "{\"kind\":\"%sList\",\"apiVersion\":\"%s%s%s\"", k->name, k->group,
                *k->group ? "/" : "", k->version);
    buf_fmt(out, ",\"metadata\":{\"resourceVersion\":\"%llu\"", (unsigned long long)p->rv);
    if (*token)
        buf_fmt(out, ",\"continue\":\"%s\"", token);
    if (left)
        buf_fmt(out, ",\"remainingItemCount\":%zu", left);
    buf_str(out, "},\"items\":[");
}

static void add_items(struct call *c, struct page *p, struct buf *items, bool partial,
                      struct buf *token, size_t *left)
{
    char prefix[160];
    size_t n_prefix =
        (size_t)snprintf(prefix, sizeof prefix, "%s%s", c->ns, *c->ns ? "/" : "");
    bool custom = c->shelf->kind->flags & KIND_CUSTOM;
    size_t i = *p->start ? lower(p, p->start) : lower(p, prefix), n = 0;
    if (*p->start && i < p->n && strcmp(p->v[i]->key, p->start) == 0)
        i++;
    for (; i < p->n && strncmp(p->v[i]->key, prefix, n_prefix) == 0; i++) {
        if (!api_selector_matches(p->sel, p->v[i]))
            continue;
        if (p->limit && n == p->limit) {
            if (!*left)
                token_text(token, (long long)p->rv, items->p ? p->start : "", *c->ns != '\0');
            ++*left;
            if (p->sel)
                break;
            continue;
        }
        if (n++)
            buf_char(items, ',');
        if (partial)
            add_partial(items, p->v[i]);
        else
            api_obj_add_json(items, c->shelf, p->v[i], custom);
        snprintf(p->start, sizeof p->start, "%s", *c->ns ? p->v[i]->name : p->v[i]->key);
    }
}

static void write_list(struct call *c, struct page *p)
{
    bool partial = c->accept && strstr(c->accept, "as=PartialObjectMetadataList");
    struct buf token = buf_init(4096), items = buf_init(LIST_BYTES_MAX);
    size_t left = 0;
    add_items(c, p, &items, partial, &token, &left);
    struct buf *out = &c->out->body;
    buf_fini(out);
    *out = buf_init(LIST_BYTES_MAX);
    buf_room(out, items.n + 1024);
    head(c, out, p, partial, token.n ? token.p : "", p->sel ? 0 : left);
    buf_add(out, items.p ? items.p : "", items.n);
    buf_str(out, "]}\n");
    c->out->status = 200;
    buf_fini(&items);
    buf_fini(&token);
}

void api_list_run(struct call *c)
{
    struct page p = {0};
    const char *limit = api_call_query(c, "limit");
    if (limit && *limit && !num_u64(limit, strlen(limit), &p.limit)) {
        api_fail_bad(c, "strconv.ParseInt: parsing \"%s\": invalid syntax", limit);
        return;
    }
    if (api_selector_parse(c, &p.sel) && choose_version(c, &p)) {
        p.v = c->shelf->v;
        p.n = c->shelf->n;
        if (p.past)
            look_back(c->shelf, &p);
        write_list(c, &p);
    }
    mem_free(p.own);
    api_selector_free(p.sel);
}

/* Replaces a large body by its gzip, at the speed a server uses. */
void api_list_gzip(struct server_reply *r)
{
    if (r->body.n < GZIP_FROM_BYTES || r->pull || r->status != 200)
        return;
    z_stream z = {0};
    if (deflateInit2(&z, 1, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY) != Z_OK)
        return;
    struct buf out = buf_init(LIST_BYTES_MAX);
    size_t bound = deflateBound(&z, r->body.n);
    z.next_in = (unsigned char *)r->body.p;
    z.avail_in = (unsigned)r->body.n;
    z.next_out = buf_room(&out, bound);
    z.avail_out = (unsigned)bound;
    if (z.next_out && deflate(&z, Z_FINISH) == Z_STREAM_END) {
        buf_grew(&out, z.total_out);
        buf_fini(&r->body);
        r->body = out;
        server_reply_header(r, "Content-Encoding", "gzip");
    } else {
        buf_fini(&out);
    }
    deflateEnd(&z);
}
