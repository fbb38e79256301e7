/* deploy/ as an API server would get it: every overlay rendered by kubectl and looked through.
 *
 * Rendered by whichever kubectl is installed (Debian 12's is 1.20 with kustomize 2.0.3; newer ones
 * are fine: the manifests keep to what both understand).  What a stage may do is held to
 * src/daemon/rights.c, the configuration to the daemon's own loader. */
#include <ctype.h>

#include "base/file.h"
#include "daemon/config.h"
#include "daemon/rights.h"
#include "tests/integration/deploy.h"

static const char *const extras[] = {"extras/servicemonitor", "extras/prometheusrule",
                                     "extras/external-metrics", "extras/grafana", "crd"};

static struct manifests overlay(int stage)
{
    return manifests_render(test_path("overlays/%s", run_stage_names[stage]));
}

/* ---- everything renders ------------------------------------------------------------------------
 */

TEST(every_overlay_and_every_extra_is_rendered_by_kubectl)
{
    static const char *const kinds[][2] = {
        {"Namespace", "sluice"},
        {"ServiceAccount", "sluice"},
        {"ClusterRole", "sluice"},
        {"Role", "sluice"},
        {"ClusterRoleBinding", "sluice"},
        {"RoleBinding", "sluice"},
        {"StatefulSet", "sluice"},
        {"Service", "sluice"},
        {"Service", "sluice-replicas"},
        {"ConfigMap", "sluice-config"},
        {"PodDisruptionBudget", "sluice"},
        {"NetworkPolicy", "sluice"},
        {"CustomResourceDefinition", "capacitytargets.sluice.dev"},
    };
    for (int s = 0; s < STAGES; s++) {
        struct manifests m = overlay(s);
        for (size_t i = 0; i < ARRAY_LEN(kinds); i++)
            (void)need_manifest(&m, kinds[i][0], kinds[i][1]);
        assert_int_equal(m.n, ARRAY_LEN(kinds)); /* nothing that nobody looks at */
        manifests_fini(&m);
    }
    for (size_t i = 0; i < ARRAY_LEN(extras); i++) {
        struct manifests m = manifests_render(extras[i]);
        manifests_fini(&m);
    }
}

TEST(the_overlays_differ_in_stage_and_rights_alone)
{
    struct manifests observe = overlay(STAGE_OBSERVE);
    for (int s = STAGE_SINGLE; s < STAGES; s++) {
        struct manifests m = overlay(s);
        assert_int_equal(m.n, observe.n);
        const struct yaml_node *env =
            at(need_manifest(&m, "StatefulSet", "sluice"), "spec.template.spec.containers.0.env");
        assert_text_at(entry(env, "name", "SLUICE_STAGE"), "value", run_stage_names[s]);
        /* in place of diff: the same text once stage and rules are taken out */
        struct buf a =
            deploy_shell(test_path("cd %s && for o in observe %s; do sed -e '/^rules:/,/^---/d' -e "
                                   "'s/value: '$o'$/value: STAGE/' rendered-$o > cut-$o; "
                                   "done; diff cut-observe cut-%s && echo same",
                                   test_tmp_dir(), run_stage_names[s], run_stage_names[s]));
        assert_string_equal(a.p, "same\n");
        buf_fini(&a);
        manifests_fini(&m);
    }
    manifests_fini(&observe);
}

/* Objects of one name in every stage, so that applying an earlier overlay takes rights back:
 * kubectl apply removes nothing. */
TEST(going_back_to_an_earlier_overlay_leaves_no_right_behind)
{
    struct manifests last = overlay(STAGES - 1), first = overlay(STAGE_OBSERVE);
    for (size_t i = 0; i < last.n; i++) {
        const struct yaml_node *v = yaml_root(last.doc[i]);
        (void)need_manifest(&first, text_at(v, "kind"), text_at(v, "metadata.name"));
    }
    manifests_fini(&last);
    manifests_fini(&first);
}

/* ---- rights ------------------------------------------------------------------------------------
 */

enum { RIGHTS_MAX = 256, RIGHT_TEXT = 200 };
struct grants {
    char text[RIGHTS_MAX][RIGHT_TEXT]; /* "scope group resource[/sub] verb name" */
    size_t n;
};

static void grant(struct grants *g, const char *scope, const char *group, const char *resource,
                  const char *verb, const char *name)
{
    assert_true(g->n < RIGHTS_MAX);
    (void)snprintf(g->text[g->n++], RIGHT_TEXT, "%s %s %s %s %s", scope, *group ? group : "core",
                   resource, verb, *name ? name : "any");
}

static void grant_rule(struct grants *g, const char *scope, const struct yaml_node *rule)
{
    const struct yaml_node *names = yaml_find(rule, "resourceNames");
    for (const struct yaml_node *a = at(rule, "apiGroups")->first; a; a = a->next)
        for (const struct yaml_node *r = at(rule, "resources")->first; r; r = r->next)
            for (const struct yaml_node *v = at(rule, "verbs")->first; v; v = v->next) {
                assert_true(!names || names->n_children == 1);
                grant(g, scope, a->text, r->text, v->text, names ? names->first->text : "");
            }
}

static void grants_of(const struct manifests *m, struct grants *g)
{
    g->n = 0;
    for (size_t i = 0; i < m->n; i++) {
        const struct yaml_node *v = yaml_root(m->doc[i]);
        bool cluster = strcmp(text_at(v, "kind"), "ClusterRole") == 0;
        if (!cluster && strcmp(text_at(v, "kind"), "Role") != 0)
            continue;
        for (const struct yaml_node *r = at(v, "rules")->first; r; r = r->next)
            grant_rule(g, cluster ? "cluster" : "own", r);
    }
}

static void grants_of_table(int stage, struct grants *g)
{
    g->n = 0;
    for (size_t i = 0; i < n_rights; i++) {
        const struct right *r = &rights[i];
        char verb[16], resource[96];
        (void)snprintf(resource, sizeof resource, "%s%s%s", r->resource, r->subresource ? "/" : "",
                       r->subresource ? r->subresource : "");
        for (size_t k = 0; (int)r->from <= stage && right_verb(r, k, verb); k++)
            grant(g, r->own_namespace ? "own" : "cluster", r->group, resource, verb,
                  r->name ? r->name : "");
    }
}

static bool has_grant(const struct grants *g, const char *text)
{
    for (size_t i = 0; i < g->n; i++)
        if (strcmp(g->text[i], text) == 0)
            return true;
    return false;
}

static void assert_within(const struct grants *a, const struct grants *b, const char *what,
                          int stage)
{
    for (size_t i = 0; i < a->n; i++)
        if (!has_grant(b, a->text[i]))
            fail_msg("%s: \"%s\" %s", run_stage_names[stage], a->text[i], what);
}

TEST(each_overlay_grants_exactly_what_its_stage_needs)
{
    static struct grants given, needed;
    for (int s = 0; s < STAGES; s++) {
        struct manifests m = overlay(s);
        grants_of(&m, &given);
        grants_of_table(s, &needed);
        assert_within(&needed, &given, "is needed and not granted", s);
        assert_within(&given, &needed, "is granted and not needed", s);
        manifests_fini(&m);
    }
}

static bool any_star(const struct yaml_node *v)
{
    if (v->kind == YAML_SCALAR)
        return strchr(v->text, '*') != NULL;
    for (const struct yaml_node *c = v->first; c; c = c->next)
        if (any_star(c))
            return true;
    return false;
}

TEST(no_rule_anywhere_has_a_wildcard)
{
    for (int s = 0; s < STAGES; s++) {
        struct manifests m = overlay(s);
        for (size_t i = 0; i < m.n; i++) {
            const struct yaml_node *v = yaml_root(m.doc[i]);
            if (strstr(text_at(v, "kind"), "Role"))
                assert_false(any_star(v));
        }
        manifests_fini(&m);
    }
}

TEST(observe_can_only_read)
{
    static struct grants given;
    struct manifests m = overlay(STAGE_OBSERVE);
    grants_of(&m, &given);
    assert_true(given.n > 10);
    for (size_t i = 0; i < given.n; i++)
        if (!strstr(given.text[i], " get ") && !strstr(given.text[i], " list ") &&
            !strstr(given.text[i], " watch "))
            fail_msg("observe may %s", given.text[i]);
    assert_int_equal(at(need_manifest(&m, "Role", "sluice"), "rules")->n_children, 0);
    manifests_fini(&m);
}

TEST(roles_are_bound_to_the_pods_account_and_to_nobody_else)
{
    struct manifests m = overlay(STAGE_GLOBAL);
    static const char *const kinds[] = {"ClusterRoleBinding", "RoleBinding"};
    for (size_t i = 0; i < ARRAY_LEN(kinds); i++) {
        const struct yaml_node *b = need_manifest(&m, kinds[i], "sluice");
        assert_int_equal(at(b, "subjects")->n_children, 1);
        assert_text_at(b, "subjects.0.kind", "ServiceAccount");
        assert_text_at(b, "subjects.0.name", "sluice");
        assert_text_at(b, "subjects.0.namespace", "sluice");
        assert_text_at(b, "roleRef.name", "sluice");
    }
    assert_text_at(need_manifest(&m, "StatefulSet", "sluice"),
                   "spec.template.spec.serviceAccountName", "sluice");
    manifests_fini(&m);
}

/* ---- the pods ----------------------------------------------------------------------------------
 */

TEST(pods_run_without_any_privilege)
{
    static const char *const facts[][2] = {
        {"securityContext.runAsNonRoot", "true"},
        {"securityContext.runAsUser", "65532"},
        {"securityContext.seccompProfile.type", "RuntimeDefault"},
        {"containers.0.securityContext.allowPrivilegeEscalation", "false"},
        {"containers.0.securityContext.readOnlyRootFilesystem", "true"},
        {"containers.0.securityContext.privileged", "false"},
        {"containers.0.securityContext.capabilities.drop.0", "ALL"},
    };
    static const char *const absent[] = {"hostNetwork", "hostPID", "hostIPC", "initContainers"};
    struct manifests m = overlay(STAGE_GLOBAL);
    const struct yaml_node *pod =
        at(need_manifest(&m, "StatefulSet", "sluice"), "spec.template.spec");
    for (size_t i = 0; i < ARRAY_LEN(facts); i++)
        assert_text_at(pod, facts[i][0], facts[i][1]);
    for (size_t i = 0; i < ARRAY_LEN(absent); i++)
        assert_null(at(pod, absent[i]));
    assert_null(at(pod, "containers.0.securityContext.capabilities.add"));
    assert_int_equal(at(pod, "containers")->n_children, 1);
    for (const struct yaml_node *v = at(pod, "volumes")->first; v; v = v->next)
        assert_null(at(v, "hostPath"));
    assert_non_null(at(pod, "containers.0.resources.requests.memory"));
    assert_non_null(at(pod, "containers.0.resources.limits.memory"));
    struct buf image = deploy_shell("grep '^USER' deploy/container/Containerfile");
    assert_string_equal(image.p, "USER 65532:65532\n");
    buf_fini(&image);
    manifests_fini(&m);
}

TEST(two_replicas_never_share_a_node_and_one_survives_a_drain)
{
    struct manifests m = overlay(STAGE_SINGLE);
    const struct yaml_node *set = need_manifest(&m, "StatefulSet", "sluice");
    const struct yaml_node *budget = need_manifest(&m, "PodDisruptionBudget", "sluice");
    const struct yaml_node *apart = at(set, "spec.template.spec.affinity.podAntiAffinity."
                                            "requiredDuringSchedulingIgnoredDuringExecution.0");
    assert_text_at(set, "spec.replicas", "2");
    assert_text_at(apart, "topologyKey", "kubernetes.io/hostname");
    assert_text_at(budget, "spec.maxUnavailable", "1");
    const char *const key = "app.kubernetes.io/name";
    const struct yaml_node *const selectors[] = {
        at(set, "spec.selector.matchLabels"),
        at(apart, "labelSelector.matchLabels"),
        at(budget, "spec.selector.matchLabels"),
        at(need_manifest(&m, "NetworkPolicy", "sluice"), "spec.podSelector.matchLabels"),
        at(need_manifest(&m, "Service", "sluice"), "spec.selector"),
        at(need_manifest(&m, "Service", "sluice-replicas"), "spec.selector"),
        at(set, "spec.template.metadata.labels"),
    };
    for (size_t i = 0; i < ARRAY_LEN(selectors); i++) {
        const struct yaml_node *v = yaml_find(selectors[i], key);
        assert_non_null(v);
        assert_string_equal(v->text, "sluice");
    }
    assert_text_at(set, "spec.serviceName", "sluice-replicas");
    assert_text_at(need_manifest(&m, "Service", "sluice-replicas"), "spec.publishNotReadyAddresses",
                   "true");
    manifests_fini(&m);
}

static const struct yaml_node *port_named(const struct yaml_node *pod, const char *name)
{
    return entry(at(pod, "containers.0.ports"), "name", name);
}

TEST(every_name_that_is_referred_to_exists)
{
    struct manifests m = overlay(STAGE_SINGLE), x = manifests_render("extras/external-metrics");
    const struct yaml_node *set = need_manifest(&m, "StatefulSet", "sluice");
    const struct yaml_node *pod = at(set, "spec.template.spec"), *c = at(pod, "containers.0");
    static const char *const probes[] = {"startupProbe", "livenessProbe", "readinessProbe"};
    for (size_t i = 0; i < ARRAY_LEN(probes); i++) {
        const struct yaml_node *get = at(at(c, probes[i]), "httpGet");
        assert_text_at(get, "scheme", "HTTPS");
        assert_non_null(port_named(pod, text_at(get, "port")));
    }
    for (const struct yaml_node *v = at(c, "volumeMounts")->first; v; v = v->next)
        if (!entry(at(pod, "volumes"), "name", text_at(v, "name")) &&
            !entry(at(set, "spec.volumeClaimTemplates"), "metadata.name", text_at(v, "name")))
            fail_msg("nothing to mount at %s", text_at(v, "mountPath"));
    for (const struct yaml_node *v = at(pod, "volumes")->first; v; v = v->next) {
        if (!entry(at(c, "volumeMounts"), "name", text_at(v, "name")))
            fail_msg("volume %s is mounted nowhere", text_at(v, "name"));
        if (at(v, "configMap") && strcmp(text_at(v, "configMap.optional"), "true") != 0)
            (void)need_manifest(&m, "ConfigMap", text_at(v, "configMap.name"));
    }
    static const char *const services[] = {"sluice", "sluice-replicas"};
    for (size_t i = 0; i < ARRAY_LEN(services); i++)
        assert_non_null(port_named(
            pod, text_at(need_manifest(&m, "Service", services[i]), "spec.ports.0.targetPort")));
    const struct yaml_node *api =
        need_manifest(&x, "APIService", "v1beta1.external.metrics.k8s.io");
    const struct yaml_node *service =
        need_manifest(&x, "Service", text_at(api, "spec.service.name"));
    assert_non_null(port_named(pod, text_at(service, "spec.ports.0.targetPort")));
    assert_null(at(api, "spec.insecureSkipTLSVerify"));
    const struct yaml_node *reader = need_manifest(&x, "ClusterRoleBinding", "sluice-external-metrics-reader");
    (void)need_manifest(&x, "ClusterRole", text_at(reader, "roleRef.name"));
    assert_text_at(reader, "subjects.0.name", "horizontal-pod-autoscaler");
    assert_text_at(reader, "subjects.0.namespace", "kube-system");
    manifests_fini(&m);
    manifests_fini(&x);
}

/* ---- the configuration -------------------------------------------------------------------------
 */

/* Whether a path lies under a mount of the container. */
static bool mounted(const struct yaml_node *c, const char *path)
{
    for (const struct yaml_node *v = at(c, "volumeMounts")->first; v; v = v->next) {
        const char *dir = text_at(v, "mountPath");
        if (strncmp(path, dir, strlen(dir)) == 0 &&
            (path[strlen(dir)] == '/' || !path[strlen(dir)]))
            return true;
    }
    return false;
}

static const char *write_config(const struct manifests *m)
{
    const struct yaml_node *data = at(need_manifest(m, "ConfigMap", "sluice-config"), "data");
    const struct yaml_node *text = yaml_find(data, "sluice.yaml");
    assert_non_null(text);
    const char *path = test_path("%s/sluice.yaml", test_tmp_dir());
    test_write_file(path, text->text, text->n_text);
    return path;
}

static void load_config(const struct manifests *m, struct run_config *c, const char *more)
{
    struct err e;
    char stage[64];
    const struct yaml_node *pod =
        at(need_manifest(m, "StatefulSet", "sluice"), "spec.template.spec");
    const struct yaml_node *env = entry(at(pod, "containers.0.env"), "name", "SLUICE_STAGE");
    assert_non_null(env);
    assert_true(holds(at(pod, "containers.0.args"), "stage=$(SLUICE_STAGE)"));
    (void)snprintf(stage, sizeof stage, "stage=%s", text_at(env, "value"));
    char extra[256];
    (void)snprintf(extra, sizeof extra, "%s", more ? more : "");
    char *sets[] = {stage, extra};
    assert_ok(run_config_load(c, write_config(m), sets, more ? 2 : 1, NULL, &e), &e);
}

TEST(the_config_map_is_loaded_by_the_program_and_names_files_that_are_mounted)
{
    for (int s = 0; s < STAGES; s++) {
        struct manifests m = overlay(s);
        const struct yaml_node *c =
            at(need_manifest(&m, "StatefulSet", "sluice"), "spec.template.spec.containers.0");
        struct run_config cfg;
        load_config(&m, &cfg, NULL);
        assert_int_equal(cfg.stage, s);
        assert_true(mounted(c, cfg.state_dir));
        assert_true(mounted(c, cfg.serve.cert_file));
        assert_true(mounted(c, cfg.serve.key_file));
        assert_true(mounted(c, cfg.serve.token_file));
        const struct yaml_node *env = at(c, "env");
        assert_text_at(entry(env, "name", "SLUICE_TOKEN_FILE"), "value", cfg.serve.token_file);
        assert_text_at(entry(env, "name", "SLUICE_CA_FILE"), "value", cfg.serve.cert_file);
        assert_text_at(entry(env, "name", "SLUICE_URL"), "value",
                       test_path("https://127.0.0.1:%d", (int)cfg.serve.port));
        assert_text_at(entry(at(c, "ports"), "name", "https"), "containerPort",
                       test_path("%d", (int)cfg.serve.port));
        assert_string_equal(cfg.lease.name, "sluice"); /* the Role names it */
        assert_null(cfg.lease.namespace_);
        assert_int_equal(cfg.on_error, RUN_ON_ERROR_HOLD);
        assert_false(cfg.freeze);
        run_config_fini(&cfg);
        manifests_fini(&m);
    }
}

TEST(the_record_fits_its_volume)
{
    struct manifests m = overlay(STAGE_OBSERVE);
    struct run_config cfg;
    struct err e;
    int64_t bytes;
    char size[32];
    load_config(&m, &cfg, NULL);
    const char *claim = text_at(need_manifest(&m, "StatefulSet", "sluice"),
                                "spec.volumeClaimTemplates.0.spec.resources.requests.storage");
    (void)snprintf(size, sizeof size, "%sB", claim); /* 10Gi */
    assert_ok(opt_parse_bytes(size, &bytes, &e), &e);
    assert_true(cfg.store.max_bytes <= bytes * 8 / 10);
    run_config_fini(&cfg);
    manifests_fini(&m);
}

/* The lines for external metrics are comments until somebody wants them; they must be right by
 * then. */
TEST(the_commented_lines_for_external_metrics_load_too)
{
    struct manifests m = overlay(STAGE_SINGLE), x = manifests_render("extras/external-metrics");
    const struct yaml_node *c =
        at(need_manifest(&m, "StatefulSet", "sluice"), "spec.template.spec.containers.0");
    struct run_config cfg;
    struct err e;
    const char *path = write_config(&m);
    struct buf sed = deploy_shell(test_path(
        "sed -i 's/^  # external_/  external_/' %s && grep -c '^  external_' %s", path, path));
    assert_string_equal(sed.p, "3\n");
    buf_fini(&sed);
    assert_ok(run_config_load(&cfg, path, NULL, 0, NULL, &e), &e);
    assert_text_at(entry(at(c, "ports"), "name", "external"), "containerPort",
                   test_path("%d", (int)cfg.serve.external_port));
    assert_text_at(need_manifest(&x, "NetworkPolicy", "sluice-external-metrics"),
                   "spec.ingress.0.ports.0.port", test_path("%d", (int)cfg.serve.external_port));
    assert_true(mounted(c, cfg.serve.external_cert_file));
    assert_null(cfg.serve.external_client_ca_file); /* the cluster's own ConfigMap says whom to believe */
    const struct yaml_node *b =
        need_manifest(&x, "RoleBinding", "sluice-extension-apiserver-authentication-reader");
    assert_text_at(b, "metadata.namespace", "kube-system");
    assert_text_at(b, "roleRef.name", "extension-apiserver-authentication-reader");
    assert_text_at(b, "subjects.0.namespace", "sluice");
    assert_text_at(b, "subjects.0.name", "sluice");
    assert_text_at(need_manifest(&x, "Service", "sluice-external-metrics"), "metadata.namespace",
                   "sluice");
    run_config_fini(&cfg);
    manifests_fini(&m);
    manifests_fini(&x);
}

/* ---- secrets -----------------------------------------------------------------------------------
 */

TEST(no_secret_is_shipped_and_the_script_makes_those_that_are_mounted)
{
    need_program("openssl");
    struct manifests m = overlay(STAGE_GLOBAL);
    const struct yaml_node *pod =
        at(need_manifest(&m, "StatefulSet", "sluice"), "spec.template.spec");
    struct manifests made = {.text = deploy_shell("deploy/make-secrets")};
    manifests_split(&made, "make-secrets");
    for (size_t i = 0; i < m.n; i++)
        assert_string_not_equal(text_at(yaml_root(m.doc[i]), "kind"), "Secret");
    for (const struct yaml_node *v = at(pod, "volumes")->first; v; v = v->next)
        if (at(v, "secret"))
            (void)need_manifest(&made, "Secret", text_at(v, "secret.secretName"));
    assert_non_null(at(need_manifest(&made, "Secret", "sluice-token"), "data.token"));
    const struct yaml_node *tls = at(need_manifest(&made, "Secret", "sluice-tls"), "data");
    assert_non_null(yaml_find(tls, "tls.crt"));
    assert_non_null(yaml_find(tls, "tls.key"));
    assert_non_null(
        yaml_find(at(need_manifest(&made, "ConfigMap", "sluice-ca"), "data"), "ca.crt"));
    manifests_fini(&made);
    manifests_fini(&m);
}

TEST(the_certificate_is_good_for_every_name_the_endpoints_are_called_by)
{
    need_program("openssl");
    const char *dir = test_tmp_dir();
    char here[256];
    assert_non_null(getcwd(here, sizeof here));
    struct buf out =
        deploy_shell(test_path("cd %s && %s/deploy/make-secrets -n team > s && awk '/tls.crt:/ { "
                               "print $2 }' s | openssl base64 -d -A > c.crt && "
                               "sed -n '/ca.crt: |/,$ s/^    //p' s > ca.crt && for n in "
                               "sluice.team.svc sluice-0.sluice-replicas.team.svc "
                               "sluice-replicas.team.svc sluice-external-metrics.team.svc "
                               "localhost; do openssl verify -CAfile ca.crt -purpose sslserver "
                               "-verify_hostname $n c.crt; done",
                               dir, here));
    assert_string_equal(out.p, "c.crt: OK\nc.crt: OK\nc.crt: OK\nc.crt: OK\nc.crt: OK\n");
    buf_fini(&out);
}

TEST(tokens_are_long_and_never_the_same)
{
    need_program("openssl");
    struct buf a = deploy_shell("deploy/make-secrets -t"),
               b = deploy_shell("deploy/make-secrets -t");
    assert_string_not_equal(a.p, b.p);
    const char *token = strstr(a.p, "token: ");
    assert_non_null(token);
    assert_true(strspn(token + 7,
                       "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/=") >= 80);
    assert_null(strstr(a.p, "tls.key"));
    buf_fini(&a);
    buf_fini(&b);
}
