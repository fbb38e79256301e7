/* config.h - which API server, and as whom: kubeconfig files, or the pod's service account.
 *
 * In this order, the first that is there wins: the explicit path; the files of $KUBECONFIG (colon
 * list, merged, the first file that names an entry wins; missing files are skipped as kubectl
 * does); ~/.kube/config; the pod's own account ($KUBERNETES_SERVICE_HOST and _PORT with the token,
 * CA and namespace files). Relative file names are relative to the file that holds them.  Every
 * error names the file and the key. An exec credential plugin (client.authentication.k8s.io/v1 and
 * v1beta1) is described here and run by kube/exec.h. */
#ifndef KUBE_CONFIG_H
#define KUBE_CONFIG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "net/http.h"

struct kube_config_opts {
    const char *path;                    /* --kubeconfig; NULL: by the rules above */
    const char *context;                 /* NULL: current-context of the file */
    const char *(*env)(const char *key); /* NULL: getenv */
    const char *root;                    /* put before the in-cluster file names; NULL: "" */
};
struct kube_config_opts kube_config_opts_default(void);

enum { KUBE_EXEC_ARGS_MAX = 64 };
struct kube_exec {
    char *api_version;
    char *command;      /* absolute, or found on $PATH */
    char **args, **env; /* NULL-terminated; env as KEY=VALUE on top of our own */
    char *install_hint; /* or NULL */
    bool provide_cluster;
};

struct kube_config {
    struct http_server_opts server; /* texts point into this struct */
    char *source;                   /* the file(s) it came from, or "in-cluster", for messages */
    char *context, *cluster, *user; /* names; "" in-cluster */
    char *ns;                       /* namespace of the context or the pod; "default" */
    bool in_cluster;
    struct kube_exec *exec;  /* NULL: no plugin */
    struct kube_text *texts; /* owned strings */
};

/* Errors: ERR_MISSING (no configuration anywhere, unknown context, cluster or user), ERR_PARSE,
 * ERR_INVAL (a key with an unusable value, auth-provider), ERR_IO.  Release with kube_config_free.
 */
NODISCARD enum err_code kube_config_load(const struct kube_config_opts *o, struct kube_config **out,
                                         struct err *e);
/* One server without credentials, for tests and `kubectl proxy`. */
NODISCARD enum err_code kube_config_plain(const char *url, struct kube_config **out, struct err *e);
void kube_config_free(struct kube_config *c); /* NULL is fine */

#endif
