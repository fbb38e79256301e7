#include "daemon/config.h"

#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "base/tz.h"
#include "base/utf8.h"
#include "decide/policy.h"
#include "model/calendar.h"

const char *const run_stage_names[] = {"observe", "single", "extended", "global", NULL};
static const char *const on_error_names[] = {"hold", "baseline", NULL};
static const char *const class_names[] = {"P0", "P1", "P2", "P3", NULL};

static const struct opt_row kube_rows[] = {
    OPT_STRING(struct run_kube, kubeconfig, "kubeconfig", NULL,
               "file; else $KUBECONFIG, ~/.kube/config, or the pod's own account"),
    OPT_STRING(struct run_kube, context, "context", NULL, "of the kubeconfig, in place of its current one"),
    OPT_STRING(struct run_kube, proxy, "proxy", NULL, "proxy for the API server; the environment's is not used"),
    OPT_DURATION(struct run_kube, timeout_us, "timeout", "4s", "100ms", "1min",
                 "longest request; under lease.duration less lease.renew"),
    OPT_STRINGS(struct run_kube, namespaces, "namespaces", NULL, "watch only these; empty: all"),
    OPT_BOOL(struct run_kube, allow_writable_credentials, "allow_writable_credentials", "false",
             "observe with credentials that could write, without a warning"),
};
static const struct opt_table kube_table = OPT_TABLE("kube", struct run_kube, kube_rows, "The API server.");

static const struct opt_row prometheus_rows[] = {
    OPT_STRING(struct run_prometheus, url, "url", NULL, "without it metrics.k8s.io is asked for CPU and memory"),
    OPT_STRING(struct run_prometheus, token_file, "token_file", NULL, "bearer token, re-read when it changes"),
    OPT_STRING(struct run_prometheus, ca_file, "ca_file", NULL, "PEM authorities; else the system's"),
    OPT_STRING(struct run_prometheus, user, "user", NULL, "basic authentication"),
    OPT_STRING(struct run_prometheus, password_file, "password_file", NULL, "its password"),
    OPT_BOOL(struct run_prometheus, insecure, "insecure", "false", "do not verify the server's certificate"),
    OPT_DURATION(struct run_prometheus, timeout_us, "timeout", "8s", "100ms", "2min", "longest query"),
    OPT_DURATION(struct run_prometheus, collect_us, "collect", "5s", "1s", "1min",
                 "period of collection; one that divides the decision period lets no decision wait for news"),
};
static const struct opt_table prometheus_table =
    OPT_TABLE("prometheus", struct run_prometheus, prometheus_rows, "Where measurements come from.");

static const struct opt_row store_rows[] = {
    OPT_DURATION(struct run_store, retention_us, "retention", "30d", "1h", "3650d", "older records are deleted"),
    OPT_BYTES(struct run_store, max_bytes, "max_bytes", "8GiB", "16MiB", "1000GiB",
              "the oldest records are deleted above this"),
};
static const struct opt_table store_table =
    OPT_TABLE("store", struct run_store, store_rows, "The replica's own record, state_dir/sluice.db.");

static const struct opt_row serve_rows[] = {
    OPT_STRING(struct run_serve, address, "address", "127.0.0.1", "listen here for people, probes and metrics"),
    OPT_INT(struct run_serve, port, "port", "8090", "0", "65535", "0: any free one, logged"),
    OPT_STRING(struct run_serve, cert_file, "cert_file", NULL, "PEM; TLS when given"),
    OPT_STRING(struct run_serve, key_file, "key_file", NULL, "PEM"),
    OPT_STRING(struct run_serve, token_file, "token_file", NULL,
               "bearer token that people present; else state_dir/token, made at the first start"),
    OPT_STRING(struct run_serve, client_ca_file, "client_ca_file", NULL, "PEM; client certificates are verified with it"),
    OPT_STRINGS(struct run_serve, client_names, "client_names", NULL,
                "common names of client certificates that are let in like the token"),
    OPT_BOOL(struct run_serve, allow_plain, "allow_plain", "false", "serve beyond loopback without TLS all the same"),
    OPT_BOOL(struct run_serve, metrics_open, "metrics_open", "false", "answer /metrics without a token"),
    OPT_INT(struct run_serve, external_port, "external_port", "0", "0", "65535",
            "serve external.metrics.k8s.io to the API server; 0: not"),
    OPT_STRING(struct run_serve, external_address, "external_address", "0.0.0.0", "listen here for it"),
    OPT_STRING(struct run_serve, external_cert_file, "external_cert_file", NULL, "PEM; required with external_port"),
    OPT_STRING(struct run_serve, external_key_file, "external_key_file", NULL, "PEM"),
    OPT_STRING(struct run_serve, external_client_ca_file, "external_client_ca_file", NULL,
               "PEM; the API server's request-header client authority; else kube-system/extension-apiserver-authentication "
               "is read"),
    OPT_STRINGS(struct run_serve, external_allowed_names, "external_allowed_names", NULL,
                "common names the API server's client certificate may have; empty: any of that authority"),
};
static const struct opt_table serve_table = OPT_TABLE("serve", struct run_serve, serve_rows, "Endpoints.");

static const struct opt_row lease_rows[] = {
    OPT_BOOL(struct run_lease, enabled, "enabled", "true", "false: a single replica that always leads"),
    OPT_STRING(struct run_lease, name, "name", "sluice", "of the Lease"),
    OPT_STRING(struct run_lease, namespace_, "namespace", NULL, "of the Lease; else the kubeconfig's or the pod's own"),
    OPT_DURATION(struct run_lease, duration_us, "duration", "15s", "1s", "5min", "others wait this long"),
    OPT_DURATION(struct run_lease, renew_us, "renew", "10s", "500ms", "4min", "not renewed for this long: stops acting"),
    OPT_DURATION(struct run_lease, retry_us, "retry", "2s", "50ms", "1min", "between attempts"),
};
static const struct opt_table lease_table =
    OPT_TABLE("lease", struct run_lease, lease_rows, "Which of the replicas acts.");

static const struct opt_row defaults_rows[] = {
    OPT_DOUBLE(struct run_defaults, service_ms, "service_ms", "0", "0", "3600000",
               "mean service time of one request; 0: calibrated from history", .unit = "ms"),
    OPT_INT(struct run_defaults, slots, "slots", "1", "1", "1024", "requests one unit serves at once"),
    OPT_DURATION(struct run_defaults, slo_p99_us, "slo_p99", "0s", "0s", "1h", "target p99; 0: each target states its own"),
    OPT_DOUBLE(struct run_defaults, slo_violation_max, "slo_violation_max", "0.01", "0.0001", "0.5",
               "largest fraction of steps over it"),
    OPT_INT(struct run_defaults, gpus_per_unit, "gpus_per_unit", "0", "0", "64", "when the pods request none"),
    OPT_DOUBLE(struct run_defaults, price_usd_h, "price_usd_h", "2.5", "0.0001", "100000", "of one unit",
               .unit = "usd/h"),
    OPT_DURATION(struct run_defaults, start_us, "start", "150s", "1s", "2h", "start-up time until it has been measured"),
};
static const struct opt_table defaults_table =
    OPT_TABLE("defaults", struct run_defaults, defaults_rows, "For what a target does not state.");

static const struct opt_row target_rows[] = {
    OPT_STRING(struct run_target, namespace_, "namespace", NULL, "of the workload", .required = true),
    OPT_STRING(struct run_target, api_version, "api_version", "apps/v1", "of the workload"),
    OPT_STRING(struct run_target, kind, "kind", "Deployment", "anything with /scale"),
    OPT_STRING(struct run_target, name, "name", NULL, "of the workload", .required = true),
    OPT_INT(struct run_target, units_min, "units_min", "1", "0", "4096", "fewest units"),
    OPT_INT(struct run_target, units_max, "units_max", NULL, "1", "4096", "most units", .required = true),
    OPT_INT(struct run_target, units_min_safe, "units_min_safe", "0", "0", "4096",
            "least safe size; 0: from the same-slot 95th percentile"),
    OPT_INT(struct run_target, gpus_per_unit, "gpus_per_unit", "0", "0", "64", "0: what the pods request"),
    OPT_DOUBLE(struct run_target, price_usd_h, "price_usd_h", "0", "0", "100000", "of one unit; 0: the default",
               .unit = "usd/h"),
    OPT_DURATION(struct run_target, slo_p99_us, "slo_p99", "0s", "0s", "1h", "0: the default"),
    OPT_ENUM(struct run_target, cls, "class", "P0", class_names, "class"),
    OPT_STRING(struct run_target, policy, "policy", NULL, "in place of the global one"),
    OPT_STRING(struct run_target, policy_file, "policy_file", NULL, "a learned policy of this target"),
    OPT_DOUBLE(struct run_target, service_ms, "service_ms", "0", "0", "3600000", "0: the default", .unit = "ms"),
    OPT_INT(struct run_target, slots, "slots", "0", "0", "1024", "0: the default"),
};
static const struct opt_table target_table = OPT_TABLE("targets", struct run_target, target_rows, "A target.");

#define R struct run_config
static const struct opt_row rows[] = {
    OPT_STRING(R, cluster, "cluster", "default", "name of the cluster in records and reports"),
    OPT_ENUM(R, stage, "stage", "observe", run_stage_names,
             "observe writes nothing; single acts on services (P0, P1) labelled sluice.dev/managed=true; extended adds "
             "training and batch; global acts on every target not labelled false; to and from observe: a restart",
             .reloadable = true),
    OPT_STRING(R, policy, "policy", "mpc",
               "of targets without their own: \"rules\", \"learned\" (policy_file) or a policy's name",
               .reloadable = true),
    OPT_STRING(R, rules, "rules", "hpa", "what \"rules\" means, and what is recorded beside every decision",
               .reloadable = true),
    OPT_STRING(R, policy_file, "policy_file", NULL, "learned policy of targets without their own", .reloadable = true),
    OPT_STRING(R, challenger, "challenger", NULL, "a policy or policy file that is decided beside, for comparison",
               .reloadable = true),
    OPT_DOUBLE(R, challenger_share, "challenger_share", "0", "0", "1",
               "share of the targets, by name, on which the challenger acts (A/B)", .unit = "fraction",
               .reloadable = true),
    OPT_DURATION(R, challenger_switch_us, "challenger_switch", "0s", "0s", "7d",
                 "or: it acts on all in every other period of this length (switchback)", .reloadable = true),
    OPT_ENUM(R, on_error, "on_error", "hold", on_error_names,
             "a learned policy that cannot decide: keep the size, or do what the rules would", .reloadable = true),
    OPT_BOOL(R, freeze, "freeze", "false", "act on nothing", .reloadable = true),
    OPT_STRING(R, timezone, "timezone", "UTC", "IANA zone of the daily rhythm"),
    OPT_STRINGS(R, holidays, "holidays", NULL, "local dates YYYY-MM-DD that are like weekends"),
    OPT_DURATION(R, step_us, "step", "15s", "15s", "5min", "decision period"),
    OPT_INT(R, gpu_budget, "gpu_budget", "0", "0", "1000000", "most GPUs of all targets together; 0: no such limit",
            .reloadable = true),
    OPT_DURATION(R, history_us, "history", "14d", "0s", "90d", "read at start, for forecasts and latency curves"),
    OPT_DOUBLE(R, speed, "speed", "1", "1", "10000", "rehearsals: decision time runs this many times as fast"),
    OPT_INT(R, epoch_us, "epoch_us", "0", "0", "9007199254740991",
            "rehearsals: wall clock at which decision time equals it; 0: the start", .unit = "us"),
    OPT_STRING(R, state_dir, "state_dir", "/var/lib/sluice", "the replica's own folder: records and freeze"),
    OPT_SUB(R, kube, "kube", &kube_table, "the API server"),
    OPT_SUB(R, prometheus, "prometheus", &prometheus_table, "where measurements come from"),
    OPT_SUB(R, queries, "queries", &queries_table, "PromQL per field", .reloadable = true),
    OPT_SUB(R, store, "store", &store_table, "records"),
    OPT_SUB(R, serve, "serve", &serve_table, "endpoints"),
    OPT_SUB(R, lease, "lease", &lease_table, "which of the replicas acts"),
    OPT_SUB(R, defaults, "defaults", &defaults_table, "for what a target does not state", .reloadable = true),
    OPT_SUB(R, guard, "guard", &guard_options_table, "the guard", .reloadable = true),
    OPT_SUBS(R, targets, "targets", &target_table, "targets of a cluster without CapacityTargets; observed, not acted on"),
};
#undef R

/* The policy that `key` names. */
static enum err_code find_policy(const char *key, const char *name, const struct policy **p, struct err *e)
{
    static const char said[] = "policy: ";
    bool guarded;
    enum err_code rc = policy_parse(name, p, &guarded, e);
    if (!rc)
        return ERR_OK;
    if (e && strncmp(e->msg, said, strlen(said)) == 0) /* it may be another key that says so */
        memmove(e->msg, e->msg + strlen(said), strlen(e->msg + strlen(said)) + 1);
    return err_wrap(e, "%s", key);
}

static enum err_code check_policy(const char *key, const char *name, const struct run_config *c, struct err *e)
{
    const struct policy *p;
    if (!name || strcmp(name, "rules") == 0)
        return ERR_OK;
    if (strcmp(name, "learned") == 0)
        return c->policy_file ? ERR_OK : err_set(e, ERR_INVAL, "%s: learned, but no policy_file is given", key);
    enum err_code rc = find_policy(key, name, &p, e);
    if (rc)
        return rc;
    if (p->learned || strcmp(p->name, "outlook") == 0)
        return err_set(e, ERR_INVAL, "%s: %s needs a policy file: say \"learned\" and give policy_file", key, p->name);
    if (strcmp(p->name, "foresight") == 0)
        return err_set(e, ERR_INVAL, "%s: foresight knows the future and runs in simulation only", key);
    return ERR_OK;
}

static enum err_code check_lease(const struct run_config *c, struct err *e)
{
    if (!c->lease.enabled)
        return ERR_OK;
    if (c->lease.renew_us >= c->lease.duration_us || c->lease.retry_us >= c->lease.renew_us)
        return err_set(e, ERR_INVAL, "lease.renew: %.1f s is not between lease.retry (%.1f s) and lease.duration (%.1f s)",
                       (double)c->lease.renew_us * 1e-6, (double)c->lease.retry_us * 1e-6,
                       (double)c->lease.duration_us * 1e-6);
    if (c->kube.timeout_us >= c->lease.duration_us - c->lease.renew_us)
        return err_set(e, ERR_INVAL, "kube.timeout: %.1f s is not under lease.duration less lease.renew (%.1f s), so a "
                       "request could outlive the lease", (double)c->kube.timeout_us * 1e-6,
                       (double)(c->lease.duration_us - c->lease.renew_us) * 1e-6);
    return ERR_OK;
}

static enum err_code check_targets(const struct run_config *c, struct err *e)
{
    const struct run_target *t = c->targets.items;
    for (size_t i = 0; i < c->targets.n; i++) {
        char key[48];
        (void)snprintf(key, sizeof key, "targets[%zu]", i);
        if (t[i].units_min > t[i].units_max)
            return err_set(e, ERR_RANGE, "%s.units_min: %lld is above units_max (%lld)", key, (long long)t[i].units_min,
                           (long long)t[i].units_max);
        (void)snprintf(key, sizeof key, "targets[%zu].policy", i);
        enum err_code rc = check_policy(key, t[i].policy, c, e);
        if (rc)
            return rc;
    }
    return ERR_OK;
}

static enum err_code check_holidays(const struct run_config *c, struct err *e)
{
    int32_t *days = mem_zero(c->holidays.n + 1, sizeof *days);
    enum err_code rc = calendar_read_holidays((const char *const *)c->holidays.items, c->holidays.n, days, e);
    mem_free(days);
    return rc;
}

static enum err_code check(const void *dst, struct err *e)
{
    const struct run_config *c = dst;
    const struct run_serve *s = &c->serve;
    enum err_code rc;
    if ((rc = check_holidays(c, e)) || (rc = check_policy("policy", c->policy, c, e)) || (rc = check_lease(c, e)) || (rc = check_targets(c, e)))
        return rc;
    const struct policy *p;
    if ((rc = find_policy("rules", c->rules, &p, e)))
        return rc;
    if (p->learned || strcmp(p->name, "outlook") == 0 || strcmp(p->name, "foresight") == 0)
        return err_set(e, ERR_INVAL, "rules: %s is not a rule", p->name);
    if (!s->cert_file != !s->key_file)
        return err_set(e, ERR_INVAL, "serve.cert_file and serve.key_file go together");
    if (s->external_port && !(s->external_cert_file && s->external_key_file))
        return err_set(e, ERR_INVAL, "serve.external_port: needs serve.external_cert_file and serve.external_key_file");
    if (c->challenger_share > 0 && c->challenger_switch_us > 0)
        return err_set(e, ERR_INVAL, "challenger_share and challenger_switch: one or the other");
    if ((c->challenger_share > 0 || c->challenger_switch_us > 0) && !c->challenger)
        return err_set(e, ERR_INVAL, "challenger_share, challenger_switch: no challenger is given");
    if (c->challenger_share > 0 && c->gpu_budget > 0)
        return err_set(e, ERR_INVAL, "challenger_share: targets that share gpu_budget disturb each other; use "
                       "challenger_switch");
    return ERR_OK;
}

const struct opt_table run_config_table = {
    .name = "run",
    .help = "The daemon.",
    .rows = rows,
    .n = ARRAY_LEN(rows),
    .size = sizeof(struct run_config),
    .check = check,
};

bool run_config_token_file(const struct run_config *c, char out[TOKEN_PATH])
{
    int n = c->serve.token_file ? snprintf(out, TOKEN_PATH, "%s", c->serve.token_file)
                                : snprintf(out, TOKEN_PATH, "%s/token", c->state_dir);
    return n < TOKEN_PATH;
}

enum err_code run_config_load(struct run_config *c, const char *path, char *const *sets, size_t n_sets,
                              struct opt_sources *src, struct err *e)
{
    return opt_load(&run_config_table, c, path, sets, n_sets, src, e);
}

enum err_code run_config_load_here(struct run_config *c, const char *path, char *const *sets, size_t n_sets,
                                   struct opt_sources *src, struct err *e)
{
    struct opt_sources *own = src ? NULL : opt_sources_new();
    struct tz *zone = NULL;
    src = src ? src : own;
    enum err_code rc = run_config_load(c, path, sets, n_sets, src, e);
    if (!rc && (rc = tz_load(c->timezone, &zone, e)) != ERR_OK) {
        (void)err_wrap(e, "timezone");
        (void)opt_blame(src, path ? path : "run", e);
    }
    tz_free(zone);
    opt_sources_free(own);
    return rc;
}

void run_config_fini(struct run_config *c)
{
    opt_fini(&run_config_table, c);
}

enum err_code run_config_check_reload(const struct run_config *now, const struct run_config *next, struct err *e)
{
    struct buf a = buf_init(1 << 20), b = buf_init(1 << 20);
    enum err_code rc = ERR_OK;
    if ((now->stage == STAGE_OBSERVE) != (next->stage == STAGE_OBSERVE))
        rc = err_set(e, ERR_MISMATCH, "stage changed from %s to %s, which needs a restart", run_stage_names[now->stage],
                     run_stage_names[next->stage]);
    for (size_t i = 0; i < run_config_table.n && !rc; i++) {
        const struct opt_row *row = &run_config_table.rows[i];
        if (row->reloadable)
            continue;
        const struct opt_table one = {.name = row->name, .rows = row, .n = 1, .size = run_config_table.size};
        buf_clear(&a);
        buf_clear(&b);
        opt_write_effective(&one, now, NULL, &a);
        opt_write_effective(&one, next, NULL, &b);
        if (strcmp(a.p, b.p) != 0)
            rc = err_set(e, ERR_MISMATCH, "%s changed, which needs a restart", row->name);
    }
    buf_fini(&a);
    buf_fini(&b);
    return rc;
}
