/* doctor_fixture.h - a small cluster with one service, and a doctor who visits it. */
#ifndef TESTS_UNIT_DAEMON_DOCTOR_FIXTURE_H
#define TESTS_UNIT_DAEMON_DOCTOR_FIXTURE_H

#include "base/clock.h"
#include "base/json.h"
#include "base/mem.h"
#include "daemon/doctor_priv.h"
#include "tests/apiserver/apiserver.h"
#include "tests/support/test.h"

/* A cluster with one service, and a configuration that looks at it. */
struct clinic {
    struct apiserver *api;
    struct run_config config;
    struct doctor_report report;
    char dir[300], kubeconfig[330];
    char yaml[2048];
};

static const char clinic_service[] =
    "apiVersion: v1\nkind: Namespace\nmetadata: {name: shop}\n---\n"
    "apiVersion: apps/v1\nkind: Deployment\n"
    "metadata: {name: chat, namespace: shop, labels: {sluice.dev/managed: 'true'}}\n"
    "spec: {replicas: 2, selector: {matchLabels: {app: chat}}, template: {metadata: {labels: {app: "
    "chat}}, "
    "spec: {containers: [{name: c, image: chat}]}}}\n";

static const char clinic_target[] =
    "apiVersion: sluice.dev/v1alpha1\nkind: CapacityTarget\nmetadata: {name: chat, namespace: "
    "shop}\n"
    "spec: {scaleTargetRef: {apiVersion: apps/v1, kind: Deployment, name: chat}, minUnits: 1, "
    "maxUnits: 8, gpusPerUnit: 1, "
    "priceUsdPerHour: 2.5, class: P0, slo: {p99Milliseconds: 300}, latency: {serviceMilliseconds: "
    "40, slots: 2}}\n";

static inline void clinic_start(struct clinic *c, const char *name)
{
    struct err e;
    memset(c, 0, sizeof *c);
    (void)snprintf(c->dir, sizeof c->dir, "%s/doctor-%s", test_tmp_dir(), name);
    assert_int_equal(system(test_path("mkdir -p %s", c->dir)), 0);
    (void)snprintf(c->kubeconfig, sizeof c->kubeconfig, "%s/kubeconfig", c->dir);
    assert_ok(apiserver_start(&(struct apiserver_opts){.controllers = true}, &c->api, &e), &e);
    assert_ok(apiserver_kubeconfig(c->api, c->kubeconfig, APISERVER_READER_TOKEN, &e), &e);
    assert_ok(apiserver_load_file(c->api, "deploy/crd/capacitytargets.yaml", &e), &e);
    apiserver_must_load(c->api, clinic_service);
    apiserver_must_load(c->api, clinic_target);
    apiserver_settle(c->api);
}

/* Loads the configuration with these further lines and runs the doctor. */
static inline void clinic_visit(struct clinic *c, const char *stage, const char *more,
                                const struct doctor_opts *opts)
{
    struct err e;
    struct doctor_opts o = opts ? *opts : (struct doctor_opts){0};
    const char *path = test_path("%s/sluice.yaml", c->dir);
    (void)snprintf(c->yaml, sizeof c->yaml, "stage: %s\nstate_dir: %s\nkube: {kubeconfig: %s}\n%s",
                   stage, c->dir, c->kubeconfig, more);
    test_write_file(path, c->yaml, strlen(c->yaml));
    doctor_fini(&c->report);
    run_config_fini(&c->config);
    assert_ok(run_config_load(&c->config, path, NULL, 0, NULL, &e), &e);
    o.config = &c->config;
    o.wait_us = o.wait_us ? o.wait_us : 20 * US_PER_S;
    assert_ok(doctor_run(&o, &c->report, &e), &e);
    for (int i = 0; i < DOCTOR_CHECKS; i++)
        assert_true(c->report.check[i].n > 0);
}

static inline void clinic_end(struct clinic *c)
{
    doctor_fini(&c->report);
    run_config_fini(&c->config);
    apiserver_free(c->api);
}

static inline void print_report(const struct doctor_report *r)
{
    struct buf text = buf_init(1 << 20);
    doctor_write_text(r, true, &text);
    (void)fputs(text.p, stderr); /* longer than cmocka prints */
    buf_fini(&text);
}

static inline void assert_verdict(const struct clinic *c, enum doctor_check check,
                                  enum doctor_verdict want)
{
    if (c->report.check[check].verdict == want)
        return;
    print_report(&c->report);
    fail_msg("%s is %s, expected %s", doctor_check_name(check),
             doctor_verdict_name(c->report.check[check].verdict), doctor_verdict_name(want));
}

/* A note of this verdict that holds the text, in what was seen or what to do. */
static inline void assert_said(const struct doctor_report *r, enum doctor_check check,
                               enum doctor_verdict v, const char *text)
{
    const struct doctor_result *x = &r->check[check];
    for (size_t i = 0; i < x->n; i++)
        if (x->notes[i].verdict == v &&
            (strstr(x->notes[i].seen, text) || strstr(x->notes[i].todo, text) ||
             strstr(x->notes[i].about, text)))
            return;
    print_report(r);
    fail_msg("%s does not say \"%s\" as %s", doctor_check_name(check), text,
             doctor_verdict_name(v));
}

#endif
