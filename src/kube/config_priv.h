/* config_priv.h - inside kube/: kubeconfig fields, owned texts, base64, credential plugins. */
#ifndef KUBE_CONFIG_PRIV_H
#define KUBE_CONFIG_PRIV_H

#include "base/json.h"
#include "base/yaml.h"
#include "kube/config.h"

/* A text that lives as long as the configuration; wiped when freed. */
struct kube_text {
    struct kube_text *next;
    size_t n;
    char s[];
};
char *config_keep(struct kube_config *c, const char *s, size_t n);

/* One named entry of a list, and the file it stands in. */
struct config_entry {
    const char *file;
    const char *list, *name;      /* "users", "ann" */
    const struct yaml_node *body; /* the mapping under cluster:, user: or context: */
};

/* Fields of a cluster or user into c->server and c->exec.  Errors name file, entry and key. */
NODISCARD enum err_code config_read_cluster(struct kube_config *c, const struct config_entry *at,
                                            struct err *e);
NODISCARD enum err_code config_read_user(struct kube_config *c, const struct config_entry *at,
                                         struct err *e);
/* A text value; NULL when absent, null or empty.  Errors: ERR_PARSE for a list or mapping. */
NODISCARD enum err_code config_text(const struct config_entry *at, const char *key,
                                    const char **out, struct err *e);

/* Standard base64 with padding, blanks skipped; out is NUL-terminated and mem_free'd.  False when
 * malformed. */
bool base64_decode(const char *s, char **out, size_t *n_out);

/* What a credential plugin printed. */
struct kube_credential {
    char *token; /* NULL: none */
    char *cert_pem, *key_pem;
    int64_t expires_us; /* wall clock; INT64_MAX without */
};
void kube_credential_fini(struct kube_credential *c);
/* Runs the plugin, at most deadline_us.  stdin is empty, stdout is read under a cap, the end of
 * stderr goes into the message.  kube_exec_run waits for its end; the others are for a loop that must
 * go on: start, then step until it says true (over: *rc, *cred and *e are set), then free, which kills
 * what still runs.  A step waits at most wait_us. */
struct kube_plugin;
NODISCARD enum err_code kube_plugin_start(const struct kube_config *c, int64_t deadline_us,
                                          struct kube_plugin **out, struct err *e);
bool kube_plugin_step(struct kube_plugin *p, int64_t wait_us, struct kube_credential *cred,
                      enum err_code *rc, struct err *e);
void kube_plugin_free(struct kube_plugin *p); /* NULL is fine */
NODISCARD enum err_code kube_exec_run(const struct kube_config *c, int64_t deadline_us,
                                      struct kube_credential *out, struct err *e);
/* From the text of an ExecCredential. */
NODISCARD enum err_code kube_credential_parse(const char *text, size_t n, const char *api_version,
                                              struct kube_credential *out, struct err *e);

#endif
