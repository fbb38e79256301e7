/* doctor against the test API server: what it sees, what it says to do, and that it never writes.
 */
#include "base/file.h"
#include "daemon/rights.h"
#include "tests/support/keda.h"
#include "tests/unit/daemon/doctor_fixture.h"

#define ACCOUNT "system:serviceaccount:sluice:sluice"

/* ---- the report --------------------------------------------------------------------------------
 */

static void make_report(struct doctor_report *r)
{
    struct doctor d = {.report = r};
    memset(r, 0, sizeof *r);
    (void)snprintf(r->cluster, sizeof r->cluster, "prod");
    (void)snprintf(r->stage, sizeof r->stage, "single");
    doctor_note(&d, DOCTOR_API_ACCESS, DOCTOR_OK, NULL, NULL, "it answers");
    doctor_note(&d, DOCTOR_PROFILE, DOCTOR_OK, "shop/api", NULL, "well described");
    doctor_note(&d, DOCTOR_PROFILE, DOCTOR_WARN, "shop/chat", "State a price.",
                "price is the default, %.1f USD/h", 2.5);
    doctor_note(&d, DOCTOR_STAGE, DOCTOR_FAIL, "evil\x1b[31m\xe2\x80\xae", "", "%s", "red\nline");
    for (int c = 0; c < DOCTOR_CHECKS; c++)
        if (!r->check[c].n)
            doctor_note(&d, (enum doctor_check)c, DOCTOR_SKIP, NULL, NULL, "waits");
}

TEST(report_shows_twelve_checks_in_order_with_what_to_do_and_counts)
{
    struct doctor_report r;
    struct buf text = buf_init(1 << 20);
    make_report(&r);
    doctor_write_text(&r, false, &text);
    assert_non_null(strstr(text.p, " 1 ok   api-access       it answers\n"));
    assert_non_null(strstr(text.p, " 9 warn profile"));
    assert_non_null(strstr(text.p, "warn shop/chat: price is the default, 2.5 USD/h\n"));
    assert_non_null(strstr(text.p, "-> State a price.\n"));
    assert_null(strstr(text.p, "well described"));
    assert_non_null(strstr(text.p, "1 more as they should be"));
    assert_non_null(strstr(text.p, "\n1 ok, 1 warn, 1 fail, 9 skip\n"));
    buf_clear(&text);
    doctor_write_text(&r, true, &text);
    assert_non_null(strstr(text.p, "well described"));
    doctor_fini(&r);
    buf_fini(&text);
}

TEST(report_never_hands_outside_text_to_a_terminal_raw)
{
    struct doctor_report r;
    struct buf text = buf_init(1 << 20);
    make_report(&r);
    doctor_write_text(&r, true, &text);
    assert_null(strchr(text.p, '\x1b'));
    assert_null(strstr(text.p, "\xe2\x80\xae"));
    for (const char *p = text.p; (p = strchr(p, '\n'));
         p++) /* every line is short enough to read */
        assert_true(strcspn(p + 1, "\n") <= 110);
    doctor_fini(&r);
    buf_fini(&text);
}

TEST(report_as_json_holds_every_note)
{
    struct doctor_report r;
    struct buf text = buf_init(1 << 20);
    struct json_doc *doc;
    struct err e;
    make_report(&r);
    doctor_write_json(&r, &text);
    assert_ok(json_parse(text.p, text.n, 1 << 20, "report", &doc, &e), &e);
    const struct json *checks = json_find(json_root(doc), "checks");
    assert_int_equal(json_count(checks), DOCTOR_CHECKS);
    const struct json *profile = json_first(checks);
    for (int i = 0; i < DOCTOR_PROFILE; i++)
        profile = json_next(profile);
    assert_string_equal(json_text(json_find(profile, "name")), "profile");
    assert_string_equal(json_text(json_find(profile, "verdict")), "warn");
    assert_int_equal(json_count(json_find(profile, "notes")), 2);
    assert_near(json_number(json_find(json_root(doc), "fail")), 1, 0, 0);
    json_free(doc);
    doctor_fini(&r);
    buf_fini(&text);
}

TEST(notes_of_one_check_are_capped_and_the_rest_counted)
{
    struct doctor_report r;
    struct doctor d = {.report = &r};
    memset(&r, 0, sizeof r);
    for (int i = 0; i < DOCTOR_NOTES_MAX + 7; i++)
        doctor_note(&d, DOCTOR_QUERIES, i == DOCTOR_NOTES_MAX + 5 ? DOCTOR_FAIL : DOCTOR_OK, NULL,
                    NULL, "note %d", i);
    assert_int_equal(r.check[DOCTOR_QUERIES].n, DOCTOR_NOTES_MAX);
    assert_int_equal(r.check[DOCTOR_QUERIES].hidden, 7);
    assert_int_equal(r.check[DOCTOR_QUERIES].verdict,
                     DOCTOR_FAIL); /* a hidden failure fails all the same */
    doctor_fini(&r);
}

/* ---- rights ------------------------------------------------------------------------------------
 */

TEST(verbs_of_a_right_are_read_one_by_one)
{
    const struct right r = {
        .group = "apps", .resource = "deployments", .subresource = "scale", .verbs = "get update"};
    char verb[16], words[80];
    assert_true(right_verb(&r, 0, verb));
    assert_string_equal(verb, "get");
    assert_true(right_verb(&r, 1, verb));
    assert_string_equal(verb, "update");
    assert_false(right_verb(&r, 2, verb));
    right_words(&r, "update", words, sizeof words);
    assert_string_equal(words, "update deployments.apps/scale");
}

TEST(no_stage_takes_away_what_an_earlier_one_had_and_observe_only_reads)
{
    for (size_t i = 0; i < n_rights; i++) {
        char verb[16];
        for (size_t k = 0; rights[i].from == STAGE_OBSERVE && right_verb(&rights[i], k, verb); k++)
            assert_true(strcmp(verb, "get") == 0 || strcmp(verb, "list") == 0 ||
                        strcmp(verb, "watch") == 0);
        assert_true(rights[i].from < STAGES);
        assert_true(*rights[i].why);
    }
}

/* The rights of the table as the API server's rules. */
static size_t rules_of(int stage, struct apiserver_rule *rules, char (*text)[3][96])
{
    size_t n = 0;
    for (size_t i = 0; i < n_rights; i++) {
        const struct right *r = &rights[i];
        if ((int)r->from > stage)
            continue;
        (void)snprintf(text[n][0], sizeof text[n][0], "%s", r->verbs);
        for (char *p = text[n][0]; *p; p++)
            *p = *p == ' ' ? ',' : *p;
        (void)snprintf(text[n][1], sizeof text[n][1], "%s", r->group);
        (void)snprintf(text[n][2], sizeof text[n][2], "%s%s%s", r->resource,
                       r->subresource ? "/" : "", r->subresource ? r->subresource : "");
        rules[n] = (struct apiserver_rule){.verbs = text[n][0],
                                           .groups = text[n][1],
                                           .resources = text[n][2],
                                           .namespaces = r->own_namespace ? "default" : NULL};
        n++;
    }
    return n;
}

static void give_account(struct clinic *c, int stage, size_t leave_out)
{
    struct apiserver_rule rules[64];
    static char text[64][3][96];
    struct err e;
    size_t n = rules_of(stage, rules, text);
    if (leave_out < n)
        rules[leave_out] = rules[--n];
    apiserver_token(c->api, "account-token", ACCOUNT, rules, n);
    assert_ok(apiserver_kubeconfig(c->api, c->kubeconfig, "account-token", &e), &e);
}

TEST(an_account_with_exactly_the_rights_of_its_stage_passes_in_every_stage)
{
    struct clinic c;
    clinic_start(&c, "rights");
    for (int s = 0; s < STAGES; s++) {
        give_account(&c, s, SIZE_MAX);
        clinic_visit(&c, run_stage_names[s], "", NULL);
        assert_verdict(&c, DOCTOR_PERMISSIONS, DOCTOR_OK);
        assert_said(&c.report, DOCTOR_PERMISSIONS, DOCTOR_OK, "none beyond them");
    }
    clinic_end(&c);
}

TEST(a_missing_right_is_named_with_what_it_is_for)
{
    struct clinic c;
    clinic_start(&c, "missing-right");
    give_account(&c, STAGE_OBSERVE, 1); /* pods */
    clinic_visit(&c, "observe", "", &(struct doctor_opts){.wait_us = US_PER_S});
    assert_verdict(&c, DOCTOR_PERMISSIONS, DOCTOR_FAIL);
    assert_said(&c.report, DOCTOR_PERMISSIONS, DOCTOR_FAIL, "watch pods");
    assert_said(&c.report, DOCTOR_PERMISSIONS, DOCTOR_FAIL, "refused to " ACCOUNT "; needed for: units ready, warming and failed");
    assert_said(&c.report, DOCTOR_PERMISSIONS, DOCTOR_FAIL, "deploy/overlays/observe grants it");
    assert_said(&c.report, DOCTOR_PERMISSIONS, DOCTOR_FAIL,
                "{apiGroups: [\"\"], resources: [\"pods\"], verbs: [get, list, watch]} of deploy/base/rbac.yaml");
    assert_said(&c.report, DOCTOR_PERMISSIONS, DOCTOR_WARN, "the rights of " ACCOUNT ", not those of the replicas");
    assert_said(&c.report, DOCTOR_OWNERSHIP, DOCTOR_SKIP, "waits for permissions"); /* one cause, one failure */
    give_account(&c, STAGE_OBSERVE, SIZE_MAX);
    clinic_visit(&c, "single", "", NULL); /* a stage ahead of its overlay */
    assert_verdict(&c, DOCTOR_PERMISSIONS, DOCTOR_FAIL);
    assert_said(&c.report, DOCTOR_PERMISSIONS, DOCTOR_FAIL, "deploy/overlays/single grants it");
    assert_said(&c.report, DOCTOR_PERMISSIONS, DOCTOR_FAIL, "resourceNames: [\"sluice\"], verbs: [get, update]} of deploy/overlays/single/namespace-rules.yaml");
    assert_said(&c.report, DOCTOR_PERMISSIONS, DOCTOR_FAIL, "update deployments.apps/scale");
    clinic_end(&c);
}

TEST(owners_that_may_not_be_read_are_a_warning_to_look_and_a_failure_to_act)
{
    struct clinic c;
    size_t keda = 0;
    while (strcmp(rights[keda].group, "keda.sh") != 0)
        keda++;
    clinic_start(&c, "owners");
    apiserver_must_load(c.api, keda_definition());
    give_account(&c, STAGE_OBSERVE, keda);
    clinic_visit(&c, "observe", "", NULL);
    assert_verdict(&c, DOCTOR_PERMISSIONS, DOCTOR_WARN);
    assert_said(&c.report, DOCTOR_PERMISSIONS, DOCTOR_WARN, "scaledobjects.keda.sh");
    give_account(&c, STAGE_SINGLE, keda);
    clinic_visit(&c, "single", "", NULL);
    assert_verdict(&c, DOCTOR_PERMISSIONS, DOCTOR_FAIL);
    assert_said(&c.report, DOCTOR_PERMISSIONS, DOCTOR_FAIL, "scaledobjects.keda.sh");
    clinic_end(&c);
}

TEST(rights_beyond_the_stage_are_named)
{
    struct clinic c;
    struct err e;
    clinic_start(&c, "excess");
    give_account(&c, STAGE_SINGLE, SIZE_MAX);
    clinic_visit(&c, "observe", "", NULL);
    assert_verdict(&c, DOCTOR_PERMISSIONS, DOCTOR_WARN);
    assert_said(&c.report, DOCTOR_PERMISSIONS, DOCTOR_WARN, "update deployments.apps/scale");
    assert_ok(apiserver_kubeconfig(c.api, c.kubeconfig, APISERVER_ADMIN_TOKEN, &e), &e);
    clinic_visit(&c, "global", "", NULL);
    assert_said(&c.report, DOCTOR_PERMISSIONS, DOCTOR_WARN, "get, list secrets; ");
    assert_said(&c.report, DOCTOR_PERMISSIONS, DOCTOR_WARN, "kubernetes-admin may do 16 things");
    assert_said(&c.report, DOCTOR_PERMISSIONS, DOCTOR_WARN, "create clusterrolebindings.rbac.authorization.k8s.io"); /* to the last */
    clinic_end(&c);
}

TEST(doctor_writes_nothing_in_any_stage)
{
    struct clinic c;
    struct err e;
    clinic_start(&c, "writes");
    assert_ok(apiserver_kubeconfig(c.api, c.kubeconfig, APISERVER_ADMIN_TOKEN, &e), &e);
    apiserver_forget(c.api);
    clinic_visit(&c, "global", "", NULL);
    assert_int_equal(apiserver_counted(c.api, "write", NULL, false), 0);
    assert_true(apiserver_requests(c.api) > 10);
    clinic_end(&c);
}

/* ---- API server and definition -----------------------------------------------------------------
 */

TEST(one_cause_is_one_failure_and_what_waits_for_it_is_skipped)
{
    struct clinic c;
    clinic_start(&c, "down");
    apiserver_down(c.api);
    clinic_visit(&c, "observe", "", NULL);
    assert_verdict(&c, DOCTOR_API_ACCESS, DOCTOR_FAIL);
    assert_verdict(&c, DOCTOR_CRD, DOCTOR_SKIP);
    assert_verdict(&c, DOCTOR_PERMISSIONS, DOCTOR_SKIP);
    assert_verdict(&c, DOCTOR_OWNERSHIP, DOCTOR_SKIP);
    assert_verdict(&c, DOCTOR_PROFILE, DOCTOR_SKIP);
    assert_verdict(&c, DOCTOR_START_UP, DOCTOR_SKIP);
    clinic_end(&c);
}

TEST(refused_credentials_are_told_from_an_absent_server)
{
    struct clinic c;
    clinic_start(&c, "401");
    apiserver_revoke(c.api, APISERVER_READER_TOKEN);
    clinic_visit(&c, "observe", "", NULL);
    assert_said(&c.report, DOCTOR_API_ACCESS, DOCTOR_FAIL, "not accepted");
    clinic_end(&c);
}

TEST(a_server_that_takes_us_for_nobody_is_one_failure_that_says_so)
{
    struct clinic c;
    struct err e;
    struct buf text;
    clinic_start(&c, "anonymous");
    assert_ok(file_read(c.kubeconfig, 1 << 16, &text, &e), &e);
    char *token = strstr(text.p, "    token: ");
    assert_non_null(token);
    memcpy(token, "     {} # ", 10);
    test_write_file(c.kubeconfig, text.p, text.n);
    buf_fini(&text);
    clinic_visit(&c, "observe", "", NULL);
    assert_said(&c.report, DOCTOR_API_ACCESS, DOCTOR_FAIL, "to it we are system:anonymous");
    assert_non_null(strstr(c.report.account, "to the server: system:anonymous"));
    assert_verdict(&c, DOCTOR_CRD, DOCTOR_SKIP);
    assert_verdict(&c, DOCTOR_PERMISSIONS, DOCTOR_SKIP);
    clinic_end(&c);
}

TEST(rules_are_named_in_files_that_hold_them)
{
    for (size_t i = 0; i < n_rights; i++) {
        struct buf text;
        struct err e;
        assert_ok(file_read(right_file(&rights[i]), 1 << 20, &text, &e), &e);
        const char *name = test_path("%s%s%s", rights[i].resource, rights[i].subresource ? "/" : "",
                                     rights[i].subresource ? rights[i].subresource : "");
        if (!strstr(text.p, name))
            fail_msg("%s is not in %s", name, right_file(&rights[i]));
        buf_fini(&text);
    }
}

TEST(a_cluster_without_the_definition_can_be_observed_and_no_more)
{
    struct clinic c;
    clinic_start(&c, "no-crd");
    assert_int_equal(
        apiserver_call(
            c.api, "DELETE",
            "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/capacitytargets.sluice.dev",
            NULL, NULL, NULL),
        200);
    clinic_visit(&c, "observe", "", NULL);
    assert_verdict(&c, DOCTOR_CRD, DOCTOR_WARN);
    assert_said(&c.report, DOCTOR_CRD, DOCTOR_WARN, "kubectl apply -k deploy/crd");
    clinic_visit(&c, "single", "", NULL);
    assert_verdict(&c, DOCTOR_CRD, DOCTOR_FAIL);
    clinic_end(&c);
}

/* ---- targets -----------------------------------------------------------------------------------
 */

TEST(an_owner_is_a_warning_in_observe_and_a_failure_once_it_acts)
{
    struct clinic c;
    clinic_start(&c, "owner");
    clinic_visit(&c, "observe", "", NULL);
    assert_said(&c.report, DOCTOR_OWNERSHIP, DOCTOR_OK, "belongs to nobody else");
    apiserver_must_load(c.api, "apiVersion: autoscaling/v2\nkind: "
                               "HorizontalPodAutoscaler\nmetadata: {name: old, namespace: shop}\n"
                               "spec: {scaleTargetRef: {apiVersion: apps/v1, kind: Deployment, "
                               "name: chat}, maxReplicas: 9}\n");
    clinic_visit(&c, "observe", "", NULL);
    assert_verdict(&c, DOCTOR_OWNERSHIP, DOCTOR_WARN);
    assert_said(&c.report, DOCTOR_OWNERSHIP, DOCTOR_WARN, "HorizontalPodAutoscaler shop/old");
    clinic_visit(&c, "single", "", NULL);
    assert_verdict(&c, DOCTOR_OWNERSHIP, DOCTOR_FAIL);
    clinic_end(&c);
}

TEST(a_profile_is_shown_and_its_faults_fail)
{
    struct clinic c;
    clinic_start(&c, "profile");
    clinic_visit(&c, "observe", "", NULL);
    assert_said(&c.report, DOCTOR_PROFILE, DOCTOR_OK,
                "1 to 8 units of 1 GPUs at 2.50 USD/h, p99 within 300 ms");
    assert_int_equal(
        apiserver_call(c.api, "PATCH", "/apis/apps/v1/namespaces/shop/deployments/chat", NULL,
                       "{\"metadata\":{\"annotations\":{\"sluice.dev/min-safe\":\"three\"}}}",
                       NULL),
        200);
    clinic_visit(&c, "observe", "", NULL);
    assert_verdict(&c, DOCTOR_PROFILE, DOCTOR_FAIL);
    assert_said(&c.report, DOCTOR_PROFILE, DOCTOR_FAIL, "sluice.dev/min-safe");
    clinic_end(&c);
}

TEST(a_target_whose_workload_is_missing_fails)
{
    struct clinic c;
    clinic_start(&c, "no-workload");
    assert_int_equal(apiserver_call(c.api, "DELETE",
                                    "/apis/apps/v1/namespaces/shop/deployments/chat", NULL, NULL,
                                    NULL),
                     200);
    apiserver_settle(c.api);
    clinic_visit(&c, "observe", "", NULL);
    assert_said(&c.report, DOCTOR_PROFILE, DOCTOR_FAIL, "its size cannot be read");
    clinic_end(&c);
}

TEST(slow_starts_are_told_to_preload)
{
    struct clinic c;
    clinic_start(&c, "slow");
    assert_int_equal(
        apiserver_call(c.api, "PATCH",
                       "/apis/sluice.dev/v1alpha1/namespaces/shop/capacitytargets/chat/status",
                       NULL, "{\"status\":{\"startupSeconds\":[250,260,270,280]}}", NULL),
        200);
    clinic_visit(&c, "observe", "", NULL);
    char *kept =
        apiserver_field(c.api, "/apis/sluice.dev/v1alpha1/namespaces/shop/capacitytargets/chat",
                        "status.startupSeconds");
    assert_non_null(kept);
    mem_free(kept);
    assert_verdict(&c, DOCTOR_START_UP, DOCTOR_WARN);
    assert_said(&c.report, DOCTOR_START_UP, DOCTOR_WARN, "Preload");
    clinic_end(&c);
}

TEST(without_any_target_doctor_says_how_to_make_one)
{
    struct clinic c;
    clinic_start(&c, "empty");
    assert_int_equal(apiserver_call(c.api, "DELETE",
                                    "/apis/apps/v1/namespaces/shop/deployments/chat", NULL, NULL,
                                    NULL),
                     200);
    assert_int_equal(
        apiserver_call(c.api, "DELETE",
                       "/apis/sluice.dev/v1alpha1/namespaces/shop/capacitytargets/chat", NULL, NULL,
                       NULL),
        200);
    clinic_visit(&c, "observe", "", NULL);
    assert_said(&c.report, DOCTOR_PROFILE, DOCTOR_WARN, "Create a CapacityTarget");
    assert_verdict(&c, DOCTOR_OWNERSHIP, DOCTOR_SKIP);
    clinic_end(&c);
}

/* What a slow server has not yet said is not taken for "there is none". */
TEST(kinds_that_a_slow_server_serves_are_waited_for)
{
    struct clinic c;
    clinic_start(&c, "slow-server");
    (void)apiserver_fault(c.api, &(struct apiserver_fault){.kind = APISERVER_LATENCY,
                                                           .method = "GET",
                                                           .path = "/apis/sluice.dev",
                                                           .latency_us = 400 * US_PER_MS});
    clinic_visit(&c, "single", "", NULL);
    assert_said(&c.report, DOCTOR_OWNERSHIP, DOCTOR_OK, "belongs to nobody else");
    clinic_end(&c);
}
