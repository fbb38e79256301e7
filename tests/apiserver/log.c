/* log.c - what was asked: a ring of the newest requests. */
#include "tests/apiserver/api_priv.h"

#include <stdio.h>
#include <string.h>

enum { LOG_MAX = 100000, LOG_BODY_MAX = 64 << 10 };

void apiserver_record_fini(struct apiserver_record *r)
{
    mem_free(r->path);
    mem_free(r->body);
    r->path = r->body = NULL;
}

static char *copy_n(const char *s, size_t n)
{
    char *p = mem_zero(n + 1, 1);
    memcpy(p, s, n);
    return p;
}

#define COPY(to, from) snprintf((to), sizeof(to), "%.*s", (int)sizeof(to) - 1, (from))

void api_log_add(struct call *c)
{
    struct apiserver *a = c->a;
    if (a->n_log == a->size_log && a->size_log < LOG_MAX) {
        a->size_log = a->size_log ? 2 * a->size_log : 256;
        a->size_log = a->size_log < LOG_MAX ? a->size_log : LOG_MAX;
        a->log = mem_grow(a->log, a->size_log, sizeof *a->log);
    }
    struct log_record *slot;
    if (a->n_log < a->size_log) {
        slot = &a->log[a->n_log++];
    } else {
        slot = &a->log[a->n_requests % LOG_MAX];
        apiserver_record_fini(&slot->r);
    }
    a->n_requests++;
    struct apiserver_record *r = &slot->r;
    *r = (struct apiserver_record){.mono_us = clock_mono_us(),
                                   .server_us = api_now_us(a),
                                   .did = c->did,
                                   .status = c->out->cut ? 0 : c->out->status};
    COPY(r->verb, c->verb);
    COPY(r->group, c->group);
    COPY(r->resource, c->resource);
    COPY(r->subresource, c->sub);
    COPY(r->namespace, c->ns);
    COPY(r->name, c->name);
    COPY(r->user, c->user ? c->user : "");
    const struct kind *k = c->shelf ? c->shelf->kind : NULL;
    bool reads = strcmp(c->verb, "get") == 0 || strcmp(c->verb, "list") == 0 ||
                 strcmp(c->verb, "watch") == 0;
    bool review = strstr(c->resource, "review") != NULL ||
                  (k && (k->flags & KIND_REVIEW) && strcmp(k->plural, "bindings") != 0);
    r->write = c->is_resource && !reads && !review && !c->dry_run;
    r->leader_lease = strcmp(c->resource, "leases") == 0;
    r->path = mem_strdup(c->target);
    r->body = copy_n(c->body, c->n_body < LOG_BODY_MAX ? c->n_body : LOG_BODY_MAX);
}

static void empty(struct apiserver *a)
{
    for (size_t i = 0; i < a->n_log; i++)
        apiserver_record_fini(&a->log[i].r);
    a->n_log = 0;
}

void api_log_fini(struct apiserver *a)
{
    empty(a);
    mem_free(a->log);
    api_fault_fini(a);
}

/* Record number `at` (from 0 at the start or the last apiserver_forget), or NULL when it is too
 * old. */
static struct apiserver_record *record(struct apiserver *a, uint64_t at)
{
    if (at >= a->n_requests || a->n_requests - at > a->n_log)
        return NULL;
    return a->n_log < LOG_MAX ? &a->log[at].r : &a->log[at % LOG_MAX].r;
}

size_t apiserver_log(struct apiserver *a, uint64_t from, struct apiserver_record *out, size_t n)
{
    size_t got = 0;
    api_lock(a);
    if (a->n_requests > from + a->n_log)
        from = a->n_requests - a->n_log;
    for (; from < a->n_requests && got < n; from++) {
        const struct apiserver_record *r = record(a, from);
        out[got] = *r;
        out[got].path = mem_strdup(r->path);
        out[got++].body = mem_strdup(r->body);
    }
    api_unlock(a);
    return got;
}

uint64_t apiserver_requests(struct apiserver *a)
{
    api_lock(a);
    uint64_t n = a->n_requests;
    api_unlock(a);
    return n;
}

static bool counts(const struct apiserver_record *r, const char *verb, const char *resource)
{
    char full[96];
    snprintf(full, sizeof full, "%s%s%s", r->resource, *r->subresource ? "/" : "", r->subresource);
    bool verb_ok = !verb || (strcmp(verb, "write") == 0 ? r->write : strcmp(verb, r->verb) == 0);
    return verb_ok && (!resource || strcmp(resource, full) == 0);
}

size_t apiserver_counted(struct apiserver *a, const char *verb, const char *resource, bool ok_only)
{
    size_t n = 0;
    api_lock(a);
    for (size_t i = 0; i < a->n_log; i++) {
        const struct apiserver_record *r = &a->log[i].r;
        n += counts(r, verb, resource) && (!ok_only || (r->status >= 200 && r->status < 300));
    }
    api_unlock(a);
    return n;
}

void apiserver_forget(struct apiserver *a)
{
    api_lock(a);
    empty(a);
    a->n_requests = 0;
    api_unlock(a);
}

void apiserver_print_log(struct apiserver *a, size_t last)
{
    api_lock(a);
    uint64_t from = a->n_requests > last ? a->n_requests - last : 0;
    for (; from < a->n_requests; from++) {
        const struct apiserver_record *r = record(a, from);
        if (r)
            fprintf(stderr, "%12.3f %-10s %3d %-40s %s %.200s\n", (double)r->mono_us / 1e6, r->verb,
                    r->status, r->path, r->user, r->body);
    }
    api_unlock(a);
}

size_t apiserver_watches(struct apiserver *a)
{
    api_lock(a);
    size_t n = api_watch_count(a);
    api_unlock(a);
    return n;
}
