/* config_read.c - the fields of a kubeconfig cluster and user.
 *
 * Keys we do not know are left alone (the format grows, and other tools keep extensions there),
 * except those that change who we are: auth-provider and impersonation are refused rather than
 * passed over. */
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/mem.h"
#include "kube/config_priv.h"

static enum err_code field_error(const struct config_entry *at, const struct yaml_node *v,
                                 const char *key, enum err_code code, const char *what,
                                 struct err *e)
{
    return err_set(e, code, "kubeconfig %s:%d: %s \"%.100s\": %s: %s", at->file,
                   v ? v->line : at->body->line, at->list, at->name, key, what);
}

static const struct yaml_node *field(const struct config_entry *at, const char *key)
{
    const struct yaml_node *v = yaml_find(at->body, key);
    return v && !yaml_is_null(v) ? v : NULL;
}

enum err_code config_text(const struct config_entry *at, const char *key, const char **out,
                          struct err *e)
{
    const struct yaml_node *v = field(at, key);
    *out = NULL;
    if (v && v->kind != YAML_SCALAR)
        return field_error(at, v, key, ERR_PARSE, "expected text", e);
    if (v && v->n_text)
        *out = v->text;
    return ERR_OK;
}

static enum err_code keep_text(struct kube_config *c, const struct config_entry *at,
                               const char *key, const char **out, struct err *e)
{
    enum err_code rc = config_text(at, key, out, e);
    if (!rc && *out)
        *out = config_keep(c, *out, strlen(*out));
    return rc;
}

/* A file name, made absolute by the folder of its kubeconfig. */
static enum err_code keep_file(struct kube_config *c, const struct config_entry *at,
                               const char *key, const char **out, struct err *e)
{
    enum err_code rc = config_text(at, key, out, e);
    if (rc || !*out)
        return rc;
    char *path = file_beside(at->file, *out);
    *out = config_keep(c, path, strlen(path));
    mem_free(path);
    if (file_exists(*out))
        return ERR_OK;
    struct buf b = buf_init(8192);
    buf_fmt(&b, "no such file: %s", *out);
    rc = field_error(at, field(at, key), key, ERR_IO, b.p, e);
    buf_fini(&b);
    return rc;
}

static enum err_code keep_pem(struct kube_config *c, const struct config_entry *at, const char *key,
                              const char **out, struct err *e)
{
    const char *text;
    char *plain;
    size_t n;
    enum err_code rc = config_text(at, key, &text, e);
    *out = NULL;
    if (rc || !text)
        return rc;
    if (!base64_decode(text, &plain, &n))
        return field_error(at, field(at, key), key, ERR_PARSE, "not base64", e);
    if (!strstr(plain, "-----BEGIN") || strlen(plain) != n)
        rc = field_error(at, field(at, key), key, ERR_PARSE, "not PEM text under the base64", e);
    else
        *out = config_keep(c, plain, n);
    explicit_bzero(plain, n);
    mem_free(plain);
    return rc;
}

static enum err_code read_bool(const struct config_entry *at, const char *key, bool *out,
                               struct err *e)
{
    const char *text;
    enum err_code rc = config_text(at, key, &text, e);
    *out = false;
    if (rc || !text)
        return rc;
    *out = strcmp(text, "true") == 0;
    if (!*out && strcmp(text, "false") != 0)
        return field_error(at, field(at, key), key, ERR_PARSE, "expected true or false", e);
    return ERR_OK;
}

/* ---- cluster ----------------------------------------------------------------------------- */

static bool starts_with_any(const char *s, const char *const *starts)
{
    for (; *starts; starts++) {
        if (strncmp(s, *starts, strlen(*starts)) == 0)
            return true;
    }
    return false;
}

static enum err_code check_cluster(const struct config_entry *at, const struct http_server_opts *s,
                                   struct err *e)
{
    static const char *const web[] = {"https://", "http://", NULL};
    static const char *const proxies[] = {"http://", "https://", "socks5://", "socks5h://", NULL};
    if (!s->url)
        return field_error(at, NULL, "server", ERR_MISSING, "is missing", e);
    if (!starts_with_any(s->url, web))
        return field_error(at, field(at, "server"), "server", ERR_INVAL,
                           "expected https://host:port", e);
    if (s->proxy && !starts_with_any(s->proxy, proxies))
        return field_error(at, field(at, "proxy-url"), "proxy-url", ERR_INVAL,
                           "expected http://, https:// or socks5://", e);
    if (s->insecure && (s->ca_file || s->ca_pem))
        return field_error(at, field(at, "insecure-skip-tls-verify"), "insecure-skip-tls-verify",
                           ERR_INVAL, "contradicts the certificate-authority beside it", e);
    return ERR_OK;
}

enum err_code config_read_cluster(struct kube_config *c, const struct config_entry *at,
                                  struct err *e)
{
    struct http_server_opts *s = &c->server;
    enum err_code rc = keep_text(c, at, "server", &s->url, e);
    if (!rc)
        rc = keep_text(c, at, "tls-server-name", &s->tls_server_name, e);
    if (!rc)
        rc = keep_text(c, at, "proxy-url", &s->proxy, e);
    if (!rc)
        rc = read_bool(at, "insecure-skip-tls-verify", &s->insecure, e);
    if (!rc)
        rc = keep_pem(c, at, "certificate-authority-data", &s->ca_pem, e);
    if (!rc && !s->ca_pem)
        rc = keep_file(c, at, "certificate-authority", &s->ca_file, e);
    return rc ? rc : check_cluster(at, s, e);
}

/* ---- exec plugin ------------------------------------------------------------------------- */

static const struct yaml_node *list_of(const struct config_entry *at, const char *key)
{
    const struct yaml_node *v = field(at, key);
    return v && v->kind == YAML_LIST ? v : NULL;
}

static enum err_code check_list(const struct config_entry *at, const char *key, struct err *e)
{
    const struct yaml_node *v = field(at, key);
    if (v && v->kind != YAML_LIST)
        return field_error(at, v, key, ERR_PARSE, "expected a list", e);
    if (v && v->n_children > KUBE_EXEC_ARGS_MAX)
        return field_error(at, v, key, ERR_LIMIT, "too many items", e);
    return ERR_OK;
}

static enum err_code read_args(struct kube_config *c, const struct config_entry *at, struct err *e)
{
    const struct yaml_node *v = list_of(at, "args");
    size_t n = 0;
    enum err_code rc = check_list(at, "args", e);
    c->exec->args = mem_zero((v ? v->n_children : 0) + 1, sizeof *c->exec->args);
    for (const struct yaml_node *a = v ? v->first : NULL; a && !rc; a = a->next) {
        if (a->kind != YAML_SCALAR)
            rc = field_error(at, a, "args", ERR_PARSE, "expected text", e);
        else
            c->exec->args[n++] = config_keep(c, a->text, a->n_text);
    }
    return rc;
}

static enum err_code read_env(struct kube_config *c, const struct config_entry *at, struct err *e)
{
    const struct yaml_node *v = list_of(at, "env");
    size_t n = 0;
    enum err_code rc = check_list(at, "env", e);
    c->exec->env = mem_zero((v ? v->n_children : 0) + 1, sizeof *c->exec->env);
    for (const struct yaml_node *item = v ? v->first : NULL; item && !rc; item = item->next) {
        const struct yaml_node *name = item->kind == YAML_MAP ? yaml_find(item, "name") : NULL;
        const struct yaml_node *value = item->kind == YAML_MAP ? yaml_find(item, "value") : NULL;
        if (!name || name->kind != YAML_SCALAR || !value || value->kind != YAML_SCALAR)
            return field_error(at, item, "env", ERR_PARSE, "expected items with name and value", e);
        struct buf b = buf_init(64 * 1024);
        buf_fmt(&b, "%s=%s", name->text, value->text);
        c->exec->env[n++] = config_keep(c, b.p, b.n);
        rc = buf_check(&b, e);
        buf_fini(&b);
    }
    return rc;
}

static enum err_code read_command(struct kube_config *c, const struct config_entry *at,
                                  struct err *e)
{
    const char *text, *mode;
    enum err_code rc = config_text(at, "command", &text, e);
    if (!rc && !text)
        rc = field_error(at, NULL, "command", ERR_MISSING, "is missing", e);
    if (rc)
        return rc;
    if (strchr(text, '/')) {
        char *path = file_beside(at->file, text);
        c->exec->command = config_keep(c, path, strlen(path));
        mem_free(path);
    } else {
        c->exec->command = config_keep(c, text, strlen(text)); /* by $PATH */
    }
    rc = config_text(at, "interactiveMode", &mode, e);
    if (!rc && mode && strcmp(mode, "Always") == 0)
        rc = field_error(at, field(at, "interactiveMode"), "interactiveMode", ERR_INVAL,
                         "Always: nobody can answer here", e);
    return rc;
}

static enum err_code read_exec(struct kube_config *c, const struct config_entry *user,
                               const struct yaml_node *v, struct err *e)
{
    struct config_entry at = *user;
    const char *version, *hint;
    at.body = v;
    if (v->kind != YAML_MAP)
        return field_error(user, v, "exec", ERR_PARSE, "expected a mapping", e);
    c->exec = mem_zero(1, sizeof *c->exec);
    enum err_code rc = keep_text(c, &at, "apiVersion", &version, e);
    if (!rc && (!version || (strcmp(version, "client.authentication.k8s.io/v1") != 0 &&
                             strcmp(version, "client.authentication.k8s.io/v1beta1") != 0)))
        rc = field_error(&at, field(&at, "apiVersion"), "exec.apiVersion", ERR_INVAL,
                         "only client.authentication.k8s.io/v1 and v1beta1 are known", e);
    if (!rc)
        rc = read_command(c, &at, e);
    if (!rc)
        rc = read_args(c, &at, e);
    if (!rc)
        rc = read_env(c, &at, e);
    if (!rc)
        rc = read_bool(&at, "provideClusterInfo", &c->exec->provide_cluster, e);
    if (!rc)
        rc = config_text(&at, "installHint", &hint, e);
    if (rc)
        return rc;
    c->exec->api_version = config_keep(c, version, strlen(version));
    c->exec->install_hint = hint ? config_keep(c, hint, strlen(hint)) : NULL;
    return ERR_OK;
}

/* ---- user -------------------------------------------------------------------------------- */

static enum err_code refuse_unsupported(const struct config_entry *at, struct err *e)
{
    static const struct {
        const char *key, *why;
    } rows[] = {
        {"auth-provider",
         "is not supported (kubectl dropped it in 1.26); use an exec plugin or a token"},
        {"as", "impersonation is not supported; use an account of its own"},
        {"as-uid", "impersonation is not supported; use an account of its own"},
        {"as-groups", "impersonation is not supported; use an account of its own"},
        {"as-user-extra", "impersonation is not supported; use an account of its own"},
    };
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        const struct yaml_node *v = field(at, rows[i].key);
        if (v && (v->kind != YAML_SCALAR || v->n_text))
            return field_error(at, v, rows[i].key, ERR_INVAL, rows[i].why, e);
    }
    return ERR_OK;
}

static enum err_code read_certificate(struct kube_config *c, const struct config_entry *at,
                                      struct err *e)
{
    struct http_server_opts *s = &c->server;
    enum err_code rc = keep_pem(c, at, "client-certificate-data", &s->cert_pem, e);
    if (!rc && !s->cert_pem)
        rc = keep_file(c, at, "client-certificate", &s->cert_file, e);
    if (!rc)
        rc = keep_pem(c, at, "client-key-data", &s->key_pem, e);
    if (!rc && !s->key_pem)
        rc = keep_file(c, at, "client-key", &s->key_file, e);
    bool cert = s->cert_pem || s->cert_file, key = s->key_pem || s->key_file;
    if (!rc && cert && !key)
        rc = field_error(at, NULL, "client-key", ERR_MISSING,
                         "is missing beside client-certificate", e);
    if (!rc && key && !cert)
        rc = field_error(at, NULL, "client-certificate", ERR_MISSING,
                         "is missing beside client-key", e);
    return rc;
}

enum err_code config_read_user(struct kube_config *c, const struct config_entry *at, struct err *e)
{
    struct http_server_opts *s = &c->server;
    enum err_code rc = refuse_unsupported(at, e);
    if (!rc)
        rc = keep_text(c, at, "token", &s->token, e);
    if (!rc)
        rc = keep_file(c, at, "tokenFile", &s->token_file, e);
    if (!rc)
        rc = keep_text(c, at, "username", &s->user, e);
    if (!rc)
        rc = keep_text(c, at, "password", &s->password, e);
    if (!rc)
        rc = read_certificate(c, at, e);
    const struct yaml_node *exec = field(at, "exec");
    if (!rc && exec)
        rc = read_exec(c, at, exec, e);
    int n_ways = (s->token || s->token_file) + (s->user != NULL) + (exec != NULL);
    if (!rc && n_ways > 1)
        rc = field_error(at, NULL, "user", ERR_INVAL,
                         "more than one of token, username and exec; which one is meant?", e);
    return rc;
}
