/* daemon_trust.c - whom to take for the API server, when the configuration does not say: the
 * cluster says it itself, in ConfigMap kube-system/extension-apiserver-authentication, as every
 * aggregated API server reads it.
 *
 * Read at the start and again every ten minutes: the authority is rotated without anyone telling
 * us.  It is kept in STATE_DIR/requestheader-ca.crt, since TLS wants a file.  While it cannot be
 * read nobody is believed, or whoever was believed last; each failure is logged with what to do,
 * and tried again after a minute. */
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/mem.h"
#include "daemon/daemon_priv.h"

enum { NAMES_MOST = 32, LIST_BYTES = 16 << 10, BODY_BYTES = 1 << 20, FILE_PATH = 4096 };
#define AGAIN_US (600 * US_PER_S)
#define RETRY_US (60 * US_PER_S)
#define CONFIG_MAP "/api/v1/namespaces/kube-system/configmaps/extension-apiserver-authentication"

/* A member of `data` that holds a JSON list of texts; borrowed from *doc. */
static enum err_code list_of(const struct json *data, const char *key, struct json_doc **doc,
                             const char **out, size_t *n, struct err *e)
{
    const char *text = json_text(json_find(data, key));
    *n = 0;
    *doc = NULL;
    if (!text)
        return ERR_OK;
    enum err_code rc = json_parse(text, strlen(text), LIST_BYTES, key, doc, e);
    if (!rc && !json_is_array(json_root(*doc)))
        rc = err_set(e, ERR_PARSE, "%s: expected a list", key);
    for (const struct json *v = rc ? NULL : json_first(json_root(*doc)); v && !rc;
         v = json_next(v)) {
        if (*n == NAMES_MOST || !json_is_string(v))
            rc = err_set(e, ERR_PARSE, "%s: expected at most %d texts", key, NAMES_MOST);
        else
            out[(*n)++] = json_text(v);
    }
    return rc;
}

/* The configuration's names outrank the cluster's. */
static enum err_code believe(struct daemon *d, const struct json *data, const char *path,
                             struct err *e)
{
    const struct opt_strings *stated = &d->config.c->serve.external_allowed_names;
    const char *names[NAMES_MOST], *headers[NAMES_MOST];
    struct json_doc *names_doc = NULL, *headers_doc = NULL;
    size_t n_names, n_headers;
    enum err_code rc = list_of(data, "requestheader-allowed-names", &names_doc, names, &n_names, e);
    if (!rc)
        rc = list_of(data, "requestheader-username-headers", &headers_doc, headers, &n_headers, e);
    if (!rc)
        rc = serve_trust(d->serve, path, stated->n ? (const char *const *)stated->items : names,
                         stated->n ? stated->n : n_names, n_headers ? headers[0] : NULL, e);
    json_free(names_doc);
    json_free(headers_doc);
    return rc;
}

static enum err_code take(struct daemon *d, struct kube_reply *reply, struct err *e)
{
    char path[FILE_PATH];
    struct json_doc *doc = NULL;
    enum err_code rc = kube_reply_json(reply, &doc, e);
    const struct json *data = rc ? NULL : json_find(json_root(doc), "data");
    const char *ca = json_text(json_find(data, "requestheader-client-ca-file"));
    if (!rc && !ca)
        rc = err_set(e, ERR_MISSING,
                     "it has no requestheader-client-ca-file: this cluster's aggregation is off");
    if (!rc &&
        snprintf(path, sizeof path, "%s/requestheader-ca.crt", d->config.c->state_dir) >= FILE_PATH)
        rc = err_set(e, ERR_LIMIT, "state_dir: too long");
    if (!rc)
        rc = file_write(path, ca, strlen(ca), e);
    if (!rc)
        rc = believe(d, data, path, e);
    json_free(doc);
    return rc;
}

static void got(void *ctx, enum err_code rc, struct kube_reply *reply, const struct err *why)
{
    struct daemon *d = ctx;
    struct err e = why ? *why : (struct err){0};
    d->trust.asking = false;
    if (rc == ERR_INTERRUPTED)
        return; /* stopping */
    if (!rc)
        rc = take(d, reply, &e);
    d->trust.next_us = daemon_mono_us(d) + (rc ? RETRY_US : AGAIN_US);
    if (rc)
        log_write(d->log, LOG_WARN, "serve",
                  "external.metrics.k8s.io: cannot tell who the API server is; bind Role "
                  "extension-apiserver-authentication-reader "
                  "(deploy/extras/external-metrics does), or give serve.external_client_ca_file",
                  "error=\"%s\"", e.msg);
    else if (!d->trust.known)
        log_write(d->log, LOG_INFO, "serve", "external.metrics.k8s.io is served", "port=%u",
                  serve_cluster_port(d->serve));
    d->trust.known = d->trust.known || !rc;
}

void daemon_trust(struct daemon *d)
{
    const struct run_serve *s = &d->config.c->serve;
    struct err e;
    kube_id id;
    if (!s->external_port || s->external_client_ca_file || d->trust.asking ||
        d->mono_us < d->trust.next_us)
        return;
    struct kube_call call = {
        .verb = KUBE_GET, .path = CONFIG_MAP, .body_cap = BODY_BYTES, .done = got, .ctx = d};
    d->trust.asking = kube_start(d->kube, &call, &id, &e) == ERR_OK;
    if (!d->trust.asking)
        d->trust.next_us = d->mono_us + RETRY_US;
}
