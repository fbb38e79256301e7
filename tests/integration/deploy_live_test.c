/* The overlays in a cluster: the test API server takes them as kubectl would send them, judges by
 * their RBAC, and doctor, as the account of the pods, finds exactly what each stage needs. */
#include "base/clock.h"
#include "daemon/doctor.h"
#include "tests/apiserver/apiserver.h"
#include "tests/integration/deploy.h"
#include "tests/live/live_world.h"

#define ACCOUNT "system:serviceaccount:sluice:sluice"

static const char services[] =
    "apiVersion: v1\nkind: Namespace\nmetadata: {name: prod}\n---\n"
    "apiVersion: apps/v1\nkind: Deployment\n"
    "metadata: {name: chat, namespace: prod, labels: {sluice.dev/managed: 'true'}}\n"
    "spec: {replicas: 2, selector: {matchLabels: {app: chat}}, template: {metadata: {labels: {app: "
    "chat}}, "
    "spec: {containers: [{name: c, image: chat}]}}}\n";

static const char targets[] = "apiVersion: sluice.dev/v1alpha1\nkind: CapacityTarget\nmetadata: "
                              "{name: chat, namespace: prod}\n"
                              "spec: {scaleTargetRef: {apiVersion: apps/v1, kind: Deployment, "
                              "name: chat}, minUnits: 1, maxUnits: 8, gpusPerUnit: 1, "
                              "priceUsdPerHour: 2.5, class: P0, slo: {p99Milliseconds: 300}, "
                              "latency: {serviceMilliseconds: 40, slots: 2}}\n";

static const char kubeconfig[] =
    "apiVersion: v1\nkind: Config\ncurrent-context: pod\n"
    "clusters: [{name: c, cluster: {server: '%s'}}]\n"
    "users: [{name: pod, user: {token: pod-token}}]\n"
    "contexts: [{name: pod, context: {cluster: c, user: pod, namespace: sluice}}]\n";

struct site {
    struct apiserver *api;
    char kubeconfig[300], state[300];
};

static void site_start(struct site *s)
{
    struct err e;
    assert_ok(apiserver_start(&(struct apiserver_opts){.controllers = true}, &s->api, &e), &e);
    (void)snprintf(s->kubeconfig, sizeof s->kubeconfig, "%s/pod-kubeconfig", test_tmp_dir());
    (void)snprintf(s->state, sizeof s->state, "%s/state", test_tmp_dir());
    const char *text = test_path(kubeconfig, apiserver_url(s->api));
    test_write_file(s->kubeconfig, text, strlen(text));
    apiserver_token(s->api, "pod-token", ACCOUNT, NULL, 0); /* what the RBAC objects say */
    apiserver_must_load(s->api, services);
}

/* As `kubectl apply -k` would: objects of the same name are replaced, nothing is removed. */
static void site_apply(struct site *s, int stage)
{
    struct err e;
    struct manifests m = manifests_render(test_path("overlays/%s", run_stage_names[stage]));
    assert_ok(apiserver_load(s->api, m.text.p, &e), &e);
    manifests_fini(&m);
}

static void site_examine(struct site *s, int stage, struct doctor_report *out)
{
    struct run_config c;
    struct err e;
    char *sets[] = {(char *)(uintptr_t)test_path("stage=%s", run_stage_names[stage]),
                    (char *)(uintptr_t)test_path("kube.kubeconfig=%s", s->kubeconfig),
                    (char *)(uintptr_t)test_path("state_dir=%s", s->state)};
    assert_ok(run_config_load(&c, NULL, sets, ARRAY_LEN(sets), NULL, &e), &e);
    assert_ok(doctor_run(&(struct doctor_opts){.config = &c, .wait_us = 20 * US_PER_S}, out, &e),
              &e);
    run_config_fini(&c);
}

static void assert_check(const struct doctor_report *r, enum doctor_check c,
                         enum doctor_verdict want)
{
    if (r->check[c].verdict == want)
        return;
    struct buf text = buf_init(1 << 20);
    doctor_write_text(r, true, &text);
    (void)fputs(text.p, stderr);
    buf_fini(&text);
    fail_msg("%s: expected %s", doctor_check_name(c), doctor_verdict_name(want));
}

TEST(every_overlay_is_taken_by_an_api_server_and_gives_its_account_exactly_what_its_stage_needs)
{
    struct site s;
    site_start(&s);
    for (int stage = 0; stage < STAGES; stage++) {
        struct doctor_report r;
        site_apply(&s, stage);
        if (stage == 0)
            apiserver_must_load(s.api, targets);
        site_examine(&s, stage, &r);
        assert_check(&r, DOCTOR_API_ACCESS, DOCTOR_OK);
        assert_check(&r, DOCTOR_CRD, DOCTOR_OK);
        assert_check(&r, DOCTOR_PERMISSIONS, DOCTOR_OK);
        assert_check(&r, DOCTOR_OWNERSHIP, DOCTOR_OK); /* the lists could be read */
        doctor_fini(&r);
    }
    apiserver_free(s.api);
}

TEST(applying_an_earlier_overlay_takes_the_rights_back)
{
    struct site s;
    struct doctor_report r;
    site_start(&s);
    site_apply(&s, STAGE_GLOBAL);
    site_examine(&s, STAGE_OBSERVE, &r);
    assert_check(&r, DOCTOR_PERMISSIONS, DOCTOR_WARN);
    doctor_fini(&r);
    site_apply(&s, STAGE_OBSERVE);
    site_examine(&s, STAGE_OBSERVE, &r);
    assert_check(&r, DOCTOR_PERMISSIONS, DOCTOR_OK);
    doctor_fini(&r);
    apiserver_free(s.api);
}

TEST(a_stage_ahead_of_its_overlay_is_found)
{
    struct site s;
    struct doctor_report r;
    site_start(&s);
    site_apply(&s, STAGE_OBSERVE);
    site_examine(&s, STAGE_SINGLE, &r);
    assert_check(&r, DOCTOR_PERMISSIONS, DOCTOR_FAIL);
    doctor_fini(&r);
    apiserver_free(s.api);
}

/* ---- the daemon under these rights -------------------------------------------------------------
 */

static void print_refused(const struct apiserver_record *r)
{
    print_error("%s %s/%s%s%s in \"%s\": %d\n", r->verb, r->group, r->resource,
                *r->subresource ? "/" : "", r->subresource, r->namespace, r->status);
}

/* Requests of the pods' account that RBAC refused. */
static size_t refused(struct apiserver *api)
{
    enum { MOST = 4096 };
    struct apiserver_record *r = mem_zero(MOST, sizeof *r);
    size_t n = apiserver_log(api, 0, r, MOST), bad = 0;
    for (size_t i = 0; i < n; i++) {
        if (r[i].status == 403 && bad++ < 10)
            print_refused(&r[i]);
        apiserver_record_fini(&r[i]);
    }
    mem_free(r);
    return bad;
}

/* A small cluster whose replica is the account of the overlay's pods. */
static void world_under_overlay(struct live_world *w, int stage)
{
    struct err e;
    live_world_start(w, run_stage_names[stage], "policy: rules\n", NULL);
    struct manifests m = manifests_render(test_path("overlays/%s", run_stage_names[stage]));
    assert_ok(apiserver_load(w->api, m.text.p, &e), &e);
    manifests_fini(&m);
    apiserver_token(w->api, "pod-token", ACCOUNT, NULL, 0);
    const char *text = test_path(kubeconfig, apiserver_url(w->api));
    test_write_file(w->seat[0].kubeconfig, text, strlen(text));
    live_world_target(w, "chat", 2, 20, "");
    apiserver_forget(w->api);
    live_world_up(w, 0);
}

static void rounds(struct live_world *w, double qps, int n)
{
    for (int i = 0; i < n; i++) {
        live_world_demand(w, "chat", qps);
        live_world_round(w);
    }
}

TEST(the_rights_of_observe_are_enough_to_observe)
{
    struct live_world w;
    world_under_overlay(&w, STAGE_OBSERVE);
    rounds(&w, 100, 6);
    rounds(&w, 1500, 20);
    assert_int_equal(refused(w.api), 0);
    assert_true(apiserver_counted(w.api, "list", "pods", true) > 0);
    assert_int_equal(apiserver_counted(w.api, "write", NULL, false), 0);
    live_world_stop(&w);
}

TEST(the_rights_of_single_are_enough_to_scale_and_to_tell)
{
    struct live_world w;
    world_under_overlay(&w, STAGE_SINGLE);
    rounds(&w, 100, 6);
    rounds(&w, 1500, 40);
    assert_int_equal(refused(w.api), 0);
    assert_true(live_world_units(&w, "chat") > 2);
    assert_true(apiserver_counted(w.api, "update", "deployments/scale", true) > 0);
    assert_true(apiserver_counted(w.api, "patch", "capacitytargets/status", true) > 0);
    assert_true(apiserver_counted(w.api, "create", "events", true) > 0);
    live_world_stop(&w);
}
