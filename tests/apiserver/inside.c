/* inside.c - the server asked from its own process: requests without HTTP, fields, waiting,
 * kubeconfig. */
#include "tests/apiserver/api_priv.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"

/* ---- requests ---- */

static int hex(char c)
{
    return c >= '0' && c <= '9'                     ? c - '0'
           : (c | 0x20) >= 'a' && (c | 0x20) <= 'f' ? (c | 0x20) - 'a' + 10
                                                    : -1;
}

static void unescape(char *s)
{
    char *w = s;
    for (const char *r = s; *r; r++) {
        if (*r == '%' && hex(r[1]) >= 0 && hex(r[2]) >= 0) {
            *w++ = (char)(hex(r[1]) * 16 + hex(r[2]));
            r += 2;
        } else {
            *w++ = *r == '+' ? ' ' : *r;
        }
    }
    *w = '\0';
}

static void parse_target(struct call *c, const char *target)
{
    c->target = target;
    c->owned = mem_strdup(target);
    c->path = c->owned;
    char *q = strchr(c->owned, '?');
    if (!q)
        return;
    *q++ = '\0';
    for (char *next = q; next && *next;) {
        char *pair = next;
        next = strchr(pair, '&');
        if (next)
            *next++ = '\0';
        char *eq = strchr(pair, '=');
        if (eq)
            *eq++ = '\0';
        else
            eq = strchr(pair, '\0');
        unescape(pair);
        unescape(eq);
        c->param = mem_grow(c->param, c->n_params + 1, sizeof *c->param);
        c->param[c->n_params++] = (struct param){pair, eq};
    }
}

int apiserver_call(struct apiserver *a, const char *method, const char *path,
                   const char *content_type, const char *body, struct buf *out)
{
    struct server_reply r = {0};
    struct call c = {.a = a,
                     .method = method,
                     .body = body ? body : "",
                     .n_body = body ? strlen(body) : 0,
                     .inside = true,
                     .content_type = content_type,
                     .user = "kubernetes-admin",
                     .out = &r};
    if (!content_type && strcmp(method, "PATCH") == 0)
        c.content_type = "application/merge-patch+json";
    parse_target(&c, path);
    api_lock(a);
    api_call_run(&c);
    api_unlock(a);
    int status = r.pull ? 0 : r.status;
    if (out)
        buf_add(out, r.body.p ? r.body.p : "", r.body.n);
    buf_fini(&r.body);
    mem_free(c.param);
    mem_free(c.owned);
    return status;
}

char *apiserver_get(struct apiserver *a, const char *path)
{
    struct buf b = buf_init((size_t)2 << 30);
    int status = apiserver_call(a, "GET", path, NULL, NULL, &b);
    if (status == 200)
        return buf_take(&b);
    buf_fini(&b);
    return NULL;
}

static cJSON *get_json(struct apiserver *a, const char *path)
{
    char *text = apiserver_get(a, path);
    cJSON *j = text ? cJSON_Parse(text) : NULL;
    mem_free(text);
    return j;
}

char *apiserver_field(struct apiserver *a, const char *path, const char *field)
{
    cJSON *j = get_json(a, path);
    const cJSON *v = api_js_at(j, field);
    char *text = !v ? NULL : cJSON_IsString(v) ? mem_strdup(v->valuestring) : api_js_text(v);
    cJSON_Delete(j);
    return text;
}

double apiserver_number(struct apiserver *a, const char *path, const char *field, double absent)
{
    cJSON *j = get_json(a, path);
    double v = api_js_num(j, field, absent);
    cJSON_Delete(j);
    return v;
}

size_t apiserver_count(struct apiserver *a, const char *list_path)
{
    cJSON *j = get_json(a, list_path);
    size_t n = (size_t)cJSON_GetArraySize(api_js_at(j, "items"));
    cJSON_Delete(j);
    return n;
}

uint64_t apiserver_version(struct apiserver *a)
{
    api_lock(a);
    uint64_t rv = a->rv;
    api_unlock(a);
    return rv;
}

/* ---- waiting ---- */

bool apiserver_wait(struct apiserver *a, bool (*pred)(struct apiserver *a, void *ctx), void *ctx,
                    int64_t timeout_us)
{
    int64_t end = clock_mono_us() + timeout_us;
    for (;;) {
        uint64_t seen = apiserver_version(a);
        if (pred(a, ctx))
            return true;
        int64_t now = clock_mono_us();
        if (now >= end)
            return false;
        /* What pred looks at may also change without a write: look again soon. */
        int64_t until = now + 20 * US_PER_MS < end ? now + 20 * US_PER_MS : end;
        struct timespec t = {.tv_sec = until / US_PER_S, .tv_nsec = until % US_PER_S * 1000};
        api_lock(a);
        while (a->rv == seen && clock_mono_us() < until) {
            if (pthread_cond_timedwait(&a->changed, &a->lock, &t))
                break;
        }
        api_unlock(a);
    }
}

/* ---- kubeconfig ---- */

enum err_code apiserver_kubeconfig(struct apiserver *a, const char *path, const char *token,
                                   struct err *e)
{
    struct buf b = buf_init(1 << 16);
    buf_fmt(&b,
            "apiVersion: v1\nkind: Config\ncurrent-context: test\n"
            "clusters:\n- name: test\n  cluster:\n    server: %s\n",
            a->url);
    if (a->o.ca_file)
        buf_fmt(&b, "    certificate-authority: %s\n", a->o.ca_file);
    buf_fmt(&b,
            "users:\n- name: test\n  user:\n    token: %s\n"
            "contexts:\n- name: test\n  context:\n    cluster: test\n    user: test\n    "
            "namespace: default\n",
            token ? token : APISERVER_ADMIN_TOKEN);
    enum err_code rc = file_write(path, b.p, b.n, e);
    buf_fini(&b);
    return rc;
}
