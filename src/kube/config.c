/* config.c - which files, which context; the pod's account where there are none.
 *
 * The files stay separate YAML trees; merging is looking a name up in each of them in order, which
 * is what kubectl's merge comes to.  A file that is not there is skipped where kubectl skips it
 * ($KUBECONFIG, the home folder), and is an error where it was asked for by name. */
#include "kube/config.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "base/mem.h"
#include "kube/config_priv.h"

enum { FILES_MAX = 32, ENTRIES_MAX = 10000 };
#define ACCOUNT_DIR "/var/run/secrets/kubernetes.io/serviceaccount"

struct files {
    size_t n;
    char *path[FILES_MAX];
    struct yaml_doc *doc[FILES_MAX];
};

struct kube_config_opts kube_config_opts_default(void)
{
    return (struct kube_config_opts){.root = ""};
}

static const char *environment(const struct kube_config_opts *o, const char *key)
{
    const char *v = o->env ? o->env(key) : getenv(key);
    return v && *v ? v : NULL;
}

char *config_keep(struct kube_config *c, const char *s, size_t n)
{
    struct kube_text *t = mem_zero(1, sizeof *t + n + 1);
    t->n = n;
    memcpy(t->s, s, n);
    t->next = c->texts;
    c->texts = t;
    return t->s;
}

static char *keep(struct kube_config *c, const char *s)
{
    return config_keep(c, s, strlen(s));
}

void kube_config_free(struct kube_config *c)
{
    if (!c)
        return;
    for (struct kube_text *t = c->texts, *next; t; t = next) {
        next = t->next;
        explicit_bzero(t->s, t->n);
        mem_free(t);
    }
    if (c->exec) {
        mem_free(c->exec->args);
        mem_free(c->exec->env);
        mem_free(c->exec);
    }
    mem_free(c);
}

static struct kube_config *config_new(void)
{
    struct kube_config *c = mem_zero(1, sizeof *c);
    c->source = c->context = c->cluster = c->user = keep(c, "");
    c->ns = keep(c, "default");
    return c;
}

/* ---- files ------------------------------------------------------------------------------- */

static void files_fini(struct files *f)
{
    for (size_t i = 0; i < f->n; i++) {
        yaml_free(f->doc[i]);
        mem_free(f->path[i]);
    }
}

static enum err_code add_file(struct files *f, const char *path, size_t n, bool required,
                              struct err *e)
{
    char *name = mem_zero(n + 1, 1);
    memcpy(name, path, n);
    if (!required && access(name, F_OK) != 0 && (errno == ENOENT || errno == ENOTDIR)) {
        mem_free(name);
        return ERR_OK;
    }
    if (f->n == FILES_MAX) {
        mem_free(name);
        return err_set(e, ERR_LIMIT, "$KUBECONFIG lists more than %d files", FILES_MAX);
    }
    enum err_code rc = yaml_load(name, &f->doc[f->n], e);
    if (rc) {
        err_wrap(e, "kubeconfig");
        mem_free(name);
        return rc;
    }
    f->path[f->n++] = name;
    return ERR_OK;
}

static enum err_code add_list(struct files *f, const char *list, struct err *e)
{
    enum err_code rc = ERR_OK;
    while (*list && !rc) {
        size_t n = strcspn(list, ":");
        if (n)
            rc = add_file(f, list, n, false, e);
        list += n + (list[n] == ':');
    }
    return rc;
}

static enum err_code open_files(const struct kube_config_opts *o, struct files *f, struct err *e)
{
    const char *list = environment(o, "KUBECONFIG"), *home = environment(o, "HOME");
    if (o->path)
        return add_file(f, o->path, strlen(o->path), true, e);
    if (list)
        return add_list(f, list, e);
    if (!home)
        return ERR_OK;
    struct buf b = buf_init(4096);
    buf_fmt(&b, "%s/.kube/config", home);
    enum err_code rc = buf_check(&b, e);
    if (!rc)
        rc = add_file(f, b.p, b.n, false, e);
    buf_fini(&b);
    return rc;
}

/* ---- looking up -------------------------------------------------------------------------- */

static bool named(const struct yaml_node *item, const char *name)
{
    const struct yaml_node *n = yaml_find(item, "name");
    return n && n->kind == YAML_SCALAR && strcmp(n->text, name) == 0;
}

/* The first file that names the entry wins.  `body_key` is the list's singular. */
static enum err_code find_entry(const struct files *f, const char *list, const char *body_key,
                                const char *name, struct config_entry *out, struct err *e)
{
    for (size_t i = 0; i < f->n; i++) {
        const struct yaml_node *root = yaml_root(f->doc[i]);
        const struct yaml_node *items = root ? yaml_find(root, list) : NULL;
        if (!items || yaml_is_null(items))
            continue;
        if (items->kind != YAML_LIST)
            return err_set(e, ERR_PARSE, "kubeconfig %s:%d: %s: expected a list", f->path[i],
                           items->line, list);
        for (const struct yaml_node *item = items->first; item; item = item->next) {
            if (item->kind != YAML_MAP || !named(item, name))
                continue;
            *out = (struct config_entry){
                .file = f->path[i], .list = list, .name = name, .body = yaml_find(item, body_key)};
            if (!out->body || out->body->kind != YAML_MAP)
                return err_set(e, ERR_PARSE,
                               "kubeconfig %s:%d: %s \"%.100s\": no mapping under \"%s\"",
                               f->path[i], item->line, list, name, body_key);
            return ERR_OK;
        }
    }
    return err_set(e, ERR_MISSING, "kubeconfig %s: %s has no entry named \"%.100s\"", f->path[0],
                   list, name);
}

static enum err_code current_context(const struct files *f, const char **out, struct err *e)
{
    for (size_t i = 0; i < f->n; i++) {
        const struct yaml_node *root = yaml_root(f->doc[i]);
        const struct yaml_node *v = root ? yaml_find(root, "current-context") : NULL;
        if (!v || yaml_is_null(v) || v->n_text == 0)
            continue;
        if (v->kind != YAML_SCALAR)
            return err_set(e, ERR_PARSE, "kubeconfig %s:%d: current-context: expected text",
                           f->path[i], v->line);
        *out = v->text;
        return ERR_OK;
    }
    return err_set(e, ERR_MISSING, "kubeconfig %s: no current-context, and none was asked for",
                   f->path[0]);
}

static enum err_code required_text(const struct config_entry *at, const char *key, const char **out,
                                   struct err *e)
{
    enum err_code rc = config_text(at, key, out, e);
    if (rc || *out)
        return rc;
    return err_set(e, ERR_MISSING, "kubeconfig %s:%d: %s \"%.100s\": %s is missing", at->file,
                   at->body->line, at->list, at->name, key);
}

static char *join_sources(struct kube_config *c, const struct files *f)
{
    struct buf b = buf_init(FILES_MAX * 4200);
    for (size_t i = 0; i < f->n; i++)
        buf_fmt(&b, "%s%s", i ? ":" : "", f->path[i]);
    char *s = config_keep(c, b.p, b.n);
    buf_fini(&b);
    return s;
}

static enum err_code read_context(const struct kube_config_opts *o, const struct files *f,
                                  struct kube_config *c, struct err *e)
{
    const char *name = o->context, *cluster = NULL, *user = NULL, *ns = NULL;
    struct config_entry context, entry;
    enum err_code rc = name ? ERR_OK : current_context(f, &name, e);
    if (!rc)
        rc = find_entry(f, "contexts", "context", name, &context, e);
    if (!rc)
        rc = required_text(&context, "cluster", &cluster, e);
    if (!rc)
        rc = config_text(&context, "user", &user, e);
    if (!rc)
        rc = config_text(&context, "namespace", &ns, e);
    if (rc)
        return rc;
    c->source = join_sources(c, f);
    c->context = keep(c, name);
    c->cluster = keep(c, cluster);
    if (ns)
        c->ns = keep(c, ns);
    rc = find_entry(f, "clusters", "cluster", cluster, &entry, e);
    if (!rc)
        rc = config_read_cluster(c, &entry, e);
    if (rc || !user) /* a context without user is anonymous */
        return rc;
    c->user = keep(c, user);
    rc = find_entry(f, "users", "user", user, &entry, e);
    return rc ? rc : config_read_user(c, &entry, e);
}

/* Whether any of the files names a cluster or context at all: kubectl takes empty ones for none. */
static bool any_entry(const struct files *f)
{
    for (size_t i = 0; i < f->n; i++) {
        const struct yaml_node *root = yaml_root(f->doc[i]);
        if (root && root->kind == YAML_MAP &&
            (yaml_find(root, "clusters") || yaml_find(root, "contexts")))
            return true;
    }
    return false;
}

/* ---- in the cluster ---------------------------------------------------------------------- */

static char *account_file(struct kube_config *c, const char *root, const char *name)
{
    struct buf b = buf_init(8192);
    buf_fmt(&b, "%s" ACCOUNT_DIR "/%s", root ? root : "", name);
    char *s = config_keep(c, b.p, b.n);
    buf_fini(&b);
    return s;
}

static enum err_code read_namespace(struct kube_config *c, const char *path, struct err *e)
{
    struct buf text;
    if (!file_exists(path))
        return ERR_OK;
    enum err_code rc = file_read(path, 1024, &text, e);
    if (!rc) {
        size_t n = strcspn(text.p, " \t\r\n");
        if (n)
            c->ns = config_keep(c, text.p, n);
    }
    buf_fini(&text);
    return rc;
}

static enum err_code in_cluster(const struct kube_config_opts *o, struct kube_config *c,
                                struct err *e)
{
    const char *host = environment(o, "KUBERNETES_SERVICE_HOST"),
               *port = environment(o, "KUBERNETES_SERVICE_PORT");
    if (!host || !port)
        return err_set(e, ERR_MISSING,
                       "no Kubernetes configuration: no --kubeconfig, nothing in $KUBECONFIG or "
                       "~/.kube/config, and "
                       "not in a pod (KUBERNETES_SERVICE_HOST is not set)");
    if (o->context)
        return err_set(
            e, ERR_MISSING,
            "context \"%.100s\" was asked for, but there is no kubeconfig: in a pod there "
            "are no contexts",
            o->context);
    struct buf url = buf_init(1024);
    bool v6 = strchr(host, ':') && host[0] != '[';
    buf_fmt(&url, v6 ? "https://[%s]:%s" : "https://%s:%s", host, port);
    c->server.url = config_keep(c, url.p, url.n);
    enum err_code rc = buf_check(&url, e);
    buf_fini(&url);
    c->in_cluster = true;
    c->source = keep(c, "in-cluster");
    c->server.ca_file = account_file(c, o->root, "ca.crt");
    c->server.token_file = account_file(c, o->root, "token");
    if (!rc && access(c->server.ca_file, R_OK) != 0)
        rc = err_sys(e, errno, "in-cluster: CA %s", c->server.ca_file);
    if (!rc && access(c->server.token_file, R_OK) != 0)
        rc = err_sys(e, errno, "in-cluster: token %s", c->server.token_file);
    return rc ? rc : read_namespace(c, account_file(c, o->root, "namespace"), e);
}

/* ---- entry points ------------------------------------------------------------------------ */

enum err_code kube_config_load(const struct kube_config_opts *o, struct kube_config **out,
                               struct err *e)
{
    struct files f = {0};
    struct kube_config *c = config_new();
    *out = NULL;
    enum err_code rc = open_files(o, &f, e);
    if (!rc)
        rc = any_entry(&f) ? read_context(o, &f, c, e)
             : o->path ? err_set(e, ERR_MISSING, "kubeconfig %s: no clusters and no contexts in it",
                                 o->path)
                       : in_cluster(o, c, e);
    files_fini(&f);
    if (rc)
        kube_config_free(c);
    else
        *out = c;
    return rc;
}

enum err_code kube_config_plain(const char *url, struct kube_config **out, struct err *e)
{
    (void)e;
    struct kube_config *c = config_new();
    c->server.url = keep(c, url);
    c->source = keep(c, url);
    *out = c;
    return ERR_OK;
}
