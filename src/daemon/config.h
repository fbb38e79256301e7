/* config.h - the configuration of `sluice run`: one YAML file read through option tables.
 *
 * `sluice config run` prints it annotated; docs/run.md is printed from it.  Rows marked reloadable take effect on SIGHUP
 * or when the mounted ConfigMap changes; a new file that is wrong, or that changes any other row, is refused as
 * a whole and the old one stays. */
#ifndef DAEMON_CONFIG_H
#define DAEMON_CONFIG_H

#include <stdbool.h>
#include <stdint.h>

#include "base/opt.h"
#include "collect/queries.h"
#include "decide/guard.h"

enum run_stage { STAGE_OBSERVE, STAGE_SINGLE, STAGE_EXTENDED, STAGE_GLOBAL, STAGES };
extern const char *const run_stage_names[]; /* NULL-terminated */

enum run_on_error { RUN_ON_ERROR_HOLD, RUN_ON_ERROR_BASELINE };

struct run_kube {
    char *kubeconfig, *context;
    char *proxy;
    int64_t timeout_us;        /* of one request */
    struct opt_strings namespaces; /* watched; empty: all */
    bool allow_writable_credentials;
};

struct run_prometheus {
    char *url; /* NULL: none; metrics.k8s.io is used then */
    char *token_file, *ca_file, *user, *password_file;
    bool insecure;
    int64_t timeout_us;
    int64_t collect_us; /* period of collection */
};

struct run_store {
    int64_t retention_us;
    int64_t max_bytes;
};

struct run_serve {
    char *address;
    int64_t port;
    char *cert_file, *key_file, *token_file, *client_ca_file;
    struct opt_strings client_names;
    bool metrics_open, allow_plain;
    int64_t external_port; /* 0: external.metrics.k8s.io is not served */
    char *external_address, *external_cert_file, *external_key_file, *external_client_ca_file;
    struct opt_strings external_allowed_names;
};

struct run_lease {
    bool enabled;
    char *name, *namespace_;
    int64_t duration_us, renew_us, retry_us;
};

/* What a target states by none of its own means.  0: not stated. */
struct run_defaults {
    double service_ms;
    int64_t slots, slo_p99_us, gpus_per_unit;
    double price_usd_h, slo_violation_max;
    int64_t start_us;
};

/* A target named in the file: how a cluster without the CRD is observed. */
struct run_target {
    char *namespace_, *api_version, *kind, *name;
    int64_t units_min, units_max, units_min_safe, gpus_per_unit;
    double price_usd_h;
    int64_t slo_p99_us;
    int cls;
    char *policy, *policy_file;
    double service_ms;
    int64_t slots;
};

struct run_config {
    char *cluster;
    int stage;           /* enum run_stage */
    char *policy, *rules, *policy_file;
    char *challenger;    /* policy or file run in shadow beside; NULL: none */
    int64_t challenger_switch_us; /* switchback period; 0: shadow only */
    double challenger_share;      /* of the targets, by name */
    int on_error;
    bool freeze;
    char *timezone;
    struct opt_strings holidays;
    int64_t step_us;
    int64_t gpu_budget;  /* 0: none */
    int64_t history_us;  /* read from Prometheus at start */
    double speed;        /* rehearsals */
    int64_t epoch_us;    /* of the rehearsal's clock, since 1970 */
    char *state_dir;
    struct run_kube kube;
    struct run_prometheus prometheus;
    struct queries_cfg queries;
    struct run_store store;
    struct run_serve serve;
    struct run_lease lease;
    struct run_defaults defaults;
    struct guard_options guard;
    struct opt_subs targets; /* struct run_target */
};

extern const struct opt_table run_config_table;

/* Errors name file, line and key.  Release with run_config_fini in any case. */
NODISCARD enum err_code run_config_load(struct run_config *c, const char *path, char *const *sets, size_t n_sets,
                                        struct opt_sources *src, struct err *e);
/* The same, and the time zone is one that this machine knows: for who decides by it.  A freeze must not wait for tzdata. */
NODISCARD enum err_code run_config_load_here(struct run_config *c, const char *path, char *const *sets, size_t n_sets,
                                             struct opt_sources *src, struct err *e);
void run_config_fini(struct run_config *c);
/* Where the token for people is: serve.token_file, else state_dir/token, which the daemon makes.  False: too long. */
enum { TOKEN_PATH = 4096 };
bool run_config_token_file(const struct run_config *c, char out[TOKEN_PATH]);
/* ERR_MISMATCH naming the first row that differs and is not reloadable. */
NODISCARD enum err_code run_config_check_reload(const struct run_config *now, const struct run_config *next,
                                                struct err *e);

#endif
