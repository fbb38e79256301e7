/* act_test.c - the way an action goes, what refuses it, conflicts, what is published, and many at once. */
#include "tests/unit/execute/act_rig.h"

/* ---- the way it goes ------------------------------------------------------------------------- */

TEST(an_action_is_intent_then_size_then_outcome)
{
    struct rig g;
    rig_start(&g);
    rig_act(&g.a, "d-1", 5, 7);
    assert_int_equal(g.a.last.outcome, OUTCOME_EXECUTED);
    assert_true(g.a.last.written && g.a.last.sent && !g.a.last.pending);
    assert_int_equal(g.a.n_done, 1);
    assert_int_equal(g.a.n_commits, 1);
    assert_string_equal(g.a.committed, "d-1");
    assert_int_equal(rig_size(g.api), 7);

    struct apiserver_record log[16];
    size_t n = apiserver_log(g.api, 0, log, 16);
    const char *const verbs[] = {"get", "patch", "update", "patch"};
    assert_int_equal(n, 4);
    for (size_t i = 0; i < n; i++)
        assert_string_equal(log[i].verb, verbs[i]);
    assert_non_null(strstr(log[1].body, "\"intent\":{\"id\":\"d-1\",\"from\":5,\"to\":7,"));
    assert_non_null(strstr(log[1].body, "\"lastScaleOut\":\"2026-11-29T12:00:00.000000Z\""));
    assert_non_null(strstr(log[1].body, "\"outcome\":null"));
    assert_non_null(strstr(log[2].body, "\"resourceVersion\":"));
    assert_non_null(strstr(log[2].body, "\"spec\":{\"replicas\":7}"));
    assert_non_null(strstr(log[3].body, "\"intent\":null"));
    assert_non_null(strstr(
        log[3].body,
        "\"outcome\":{\"id\":\"d-1\",\"result\":\"Executed\",\"from\":5,\"to\":7,\"found\":7"));
    for (size_t i = 0; i < n; i++)
        apiserver_record_fini(&log[i]);
    rig_stop(&g);
}

TEST(actions_follow_each_other_without_reading_the_target_again)
{
    struct rig g;
    rig_start(&g);
    rig_act(&g.a, "d-1", 5, 7);
    rig_act(&g.a, "d-2", 7, 6);
    assert_int_equal(g.a.last.outcome, OUTCOME_EXECUTED);
    assert_int_equal(rig_size(g.api), 6);
    assert_int_equal(apiserver_counted(g.api, "get", "capacitytargets", false), 0);
    rig_stop(&g);
}

TEST(a_size_that_is_there_already_writes_nothing)
{
    struct rig g;
    rig_start(&g);
    rig_person(g.api, 7);
    apiserver_forget(g.api);
    rig_act(&g.a, "d-1", 5, 7);
    assert_int_equal(g.a.last.outcome, OUTCOME_FOUND);
    assert_int_equal(apiserver_counted(g.api, "write", NULL, false), 0);
    assert_int_equal(g.a.n_commits, 0);
    rig_stop(&g);
}

TEST(a_size_that_somebody_changed_is_not_overwritten)
{
    struct rig g;
    rig_start(&g);
    rig_person(g.api, 9);
    apiserver_forget(g.api);
    rig_act(&g.a, "d-1", 5, 7);
    assert_int_equal(g.a.last.outcome, OUTCOME_ABANDONED);
    assert_true(g.a.last.conflict);
    assert_string_equal(g.a.last.text, "the size is 9, not 5 as decided on");
    assert_int_equal(apiserver_counted(g.api, "write", NULL, false), 0);
    rig_stop(&g);
}

TEST(orders_that_make_no_sense_are_refused)
{
    struct rig g;
    struct err e;
    rig_start(&g);
    assert_err(rig_order(&g.a, "d", 5, 5, &e), ERR_INVAL, &e, "no action: 5 -> 5");
    assert_err(rig_order(&g.a, "d", 5, 4097, &e), ERR_INVAL, &e, "no action");
    assert_err(rig_order(&g.a, "", 5, 6, &e), ERR_INVAL, &e, "id has 1 to");
    assert_err(executor_reconcile(g.a.x, &e), ERR_INVAL, &e, "no intent is pending");
    assert_ok(rig_order(&g.a, "d", 5, 6, &e), &e);
    assert_err(rig_order(&g.a, "d2", 5, 6, &e), ERR_INVAL, &e, "still running");
    rig_run(&g.a);
    executor_forget(g.a.x);
    assert_err(rig_order(&g.a, "d3", 6, 7, &e), ERR_INVAL, &e, "has not been read yet");
    rig_stop(&g);
}

/* ---- refusals -------------------------------------------------------------------------------- */

TEST(a_record_that_cannot_be_stored_abandons_the_action)
{
    struct rig g;
    struct target_status s;
    rig_start(&g);
    g.a.refuse_commit = true;
    rig_act(&g.a, "d-1", 5, 7);
    assert_int_equal(g.a.last.outcome, OUTCOME_ABANDONED);
    assert_non_null(strstr(g.a.last.text, "disk full"));
    assert_true(g.a.last.written);
    assert_int_equal(rig_scaled(g.api), 0);
    rig_status(g.api, &s, NULL);
    assert_string_equal(s.intent.id, "");
    assert_int_equal(s.outcome.result, OUTCOME_ABANDONED);
    assert_true(s.safety.last_out_us == SAFETY_NEVER); /* nothing was done: no cooldown */
    rig_stop(&g);
}

TEST(without_the_lease_nothing_more_is_sent_and_the_next_leader_goes_on)
{
    /* may_act is asked: status and scale before the intent, scale before the size, status before
     * the outcome. */
    for (int yes = 0; yes <= 3; yes++) {
        struct rig g;
        struct rig_replica b;
        rig_start(&g);
        g.a.writes_left = yes;
        rig_act(&g.a, "d-1", 5, 7);
        size_t writes = apiserver_counted(g.api, "write", NULL, false);
        assert_int_equal(writes, yes < 2 ? 0 : yes - 1);
        assert_int_equal(rig_size(g.api), yes == 3 ? 7 : 5);
        assert_int_equal(g.a.last.pending, yes >= 2);

        rig_replica_start(&b, g.api, "b", 300000);
        rig_see(g.api, &b);
        assert_int_equal(executor_pending(b.x) != NULL, yes >= 2);
        if (yes >= 2) {
            struct err e;
            assert_err(rig_order(&b, "d-2", 5, 8, &e), ERR_INVAL, &e, "intent d-1 of a is pending");
            assert_ok(executor_reconcile(b.x, &e), &e);
            rig_run(&b);
            assert_int_equal(b.last.outcome, yes == 3 ? OUTCOME_FOUND : OUTCOME_ABANDONED);
            assert_true(b.last.written && !b.last.pending);
            assert_int_equal(rig_scaled(g.api), yes == 3); /* not repeated */
        }
        rig_act(&b, "d-3", rig_size(g.api), 9);
        assert_int_equal(b.last.outcome, OUTCOME_EXECUTED);
        rig_replica_stop(&b);
        rig_stop(&g);
    }
}

TEST(frozen_after_the_intent_clears_it_and_does_nothing)
{
    struct rig g;
    struct target_status s;
    rig_start(&g);
    g.a.freeze_on_commit = true; /* the lease is still held */
    rig_act(&g.a, "d-1", 5, 7);
    assert_int_equal(g.a.last.outcome, OUTCOME_ABANDONED);
    assert_int_equal(rig_size(g.api), 5);
    rig_status(g.api, &s, NULL);
    assert_string_equal(s.intent.id, "");
    rig_stop(&g);
}

TEST(what_the_server_refuses_fails_with_its_words)
{
    static const struct {
        int status;
        enum outcome_result outcome;
    } cases[] = {{403, OUTCOME_FAILED},
                 {404, OUTCOME_FAILED},
                 {422, OUTCOME_FAILED},
                 {429, OUTCOME_ABANDONED}};
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct rig g;
        struct target_status s;
        rig_start(&g);
        struct apiserver_fault f = {.kind = APISERVER_STATUS,
                                    .method = "PUT",
                                    .path = "/scale",
                                    .count = 1,
                                    .status = cases[i].status};
        (void)apiserver_fault(g.api, &f);
        rig_act(&g.a, "d-1", 5, 7);
        assert_int_equal(g.a.last.outcome, cases[i].outcome);
        assert_int_equal(g.a.last.status.http, cases[i].status);
        assert_true(g.a.last.written && !g.a.last.pending);
        assert_int_equal(rig_size(g.api), 5);
        rig_status(g.api, &s, NULL);
        assert_int_equal(s.outcome.result, cases[i].outcome);
        assert_true(strlen(s.outcome.message) > 5);
        assert_true(s.safety.last_out_us == SAFETY_NEVER);
        rig_stop(&g);
    }
}

TEST(an_account_without_rights_fails_and_names_what_is_missing)
{
    static const struct apiserver_rule rules[] = {
        {"get,list,watch", "apps,sluice.dev", "deployments,deployments/scale,capacitytargets",
         NULL},
        {"patch", "sluice.dev", "capacitytargets/status", NULL}};
    struct rig g;
    struct rig_replica b;
    struct err e;
    rig_start(&g);
    apiserver_token(g.api, "limited", "system:serviceaccount:sluice:sluice", rules, 2);
    rig_replica_start(&b, g.api, "b", 300000);
    rig_replica_stop(&b);
    const char *path = test_path("%s/limited", test_tmp_dir());
    assert_ok(apiserver_kubeconfig(g.api, path, "limited", &e), &e);
    struct kube_config_opts co = kube_config_opts_default();
    co.path = path;
    struct kube_config *config;
    struct kube *kube, *admin = g.a.kube;
    struct kube_opts o = kube_opts_default();
    assert_ok(kube_config_load(&co, &config, &e), &e);
    assert_ok(kube_new(config, g.a.http, &o, &kube, &e), &e);
    g.a.kube = g.a.env.kube = kube;
    rig_act(&g.a, "d-1", 5, 7);
    assert_int_equal(g.a.last.outcome, OUTCOME_FAILED);
    assert_int_equal(g.a.last.status.http, 403);
    assert_non_null(strstr(g.a.last.text, "deployments/scale"));
    assert_true(g.a.last.written);
    executor_free(g.a.x);
    g.a.x = NULL;
    kube_free(kube);
    kube_config_free(config);
    g.a.kube = admin;
    rig_stop(&g);
}

/* ---- conflicts ------------------------------------------------------------------------------- */

TEST(a_target_changed_meanwhile_gives_up_this_step_and_sees_the_change)
{
    struct rig g;
    rig_start(&g);
    rig_touch(g.api, TARGET_PATH, 1);
    rig_act(&g.a, "d-1", 5, 7);
    assert_int_equal(g.a.last.outcome, OUTCOME_ABANDONED);
    assert_true(g.a.last.conflict);
    assert_int_equal(rig_scaled(g.api), 0);
    assert_int_equal(g.a.n_commits, 0);
    rig_act(&g.a, "d-2", 5, 7); /* the next step has the newer version */
    assert_int_equal(g.a.last.outcome, OUTCOME_EXECUTED);
    rig_stop(&g);
}

/* Touches the workload between the read and the write of its size: `times` in a row. */
static void order_with_touches(struct rig *g, int times)
{
    struct err e;
    size_t seen = 0;
    assert_ok(rig_order(&g->a, "d-1", 5, 7, &e), &e);
    while (executor_busy(g->a.x)) {
        size_t reads = apiserver_counted(g->api, "get", "deployments/scale", true);
        if (reads > seen && times-- > 0)
            rig_touch(g->api, WORKLOAD_PATH, times);
        seen = reads;
        (void)kube_poll(g->a.kube, 100);
    }
}

TEST(a_workload_whose_other_fields_changed_is_written_once_more)
{
    struct rig g;
    rig_start(&g);
    order_with_touches(&g, 1);
    assert_int_equal(g.a.last.outcome, OUTCOME_EXECUTED);
    assert_int_equal(apiserver_counted(g.api, "update", "deployments/scale", false), 2);
    assert_int_equal(rig_size(g.api), 7);
    rig_stop(&g);
}

TEST(a_workload_that_keeps_changing_is_left_alone)
{
    struct rig g;
    rig_start(&g);
    order_with_touches(&g, 100);
    assert_int_equal(g.a.last.outcome, OUTCOME_ABANDONED);
    assert_int_equal(apiserver_counted(g.api, "update", "deployments/scale", false), 2);
    assert_int_equal(rig_size(g.api), 5);
    rig_stop(&g);
}

TEST(of_two_replicas_that_both_believe_to_lead_one_acts)
{
    struct rig g;
    struct rig_replica b;
    struct err e;
    rig_start(&g);
    rig_replica_start(&b, g.api, "b", 300000);
    rig_see(g.api, &b);
    assert_ok(rig_order(&g.a, "d-a", 5, 7, &e), &e);
    assert_ok(rig_order(&b, "d-b", 5, 8, &e), &e);
    while (executor_busy(g.a.x) || executor_busy(b.x)) {
        (void)kube_poll(g.a.kube, 1000);
        (void)kube_poll(b.kube, 1000);
    }
    assert_int_equal(rig_scaled(g.api), 1);
    assert_int_equal((g.a.last.outcome == OUTCOME_EXECUTED) + (b.last.outcome == OUTCOME_EXECUTED),
                     1);
    assert_int_equal(rig_size(g.api), g.a.last.outcome == OUTCOME_EXECUTED ? 7 : 8);
    rig_replica_stop(&b);
    rig_stop(&g);
}

/* ---- publishing ------------------------------------------------------------------------------ */

static bool publish(struct rig *g, const struct target_status *s)
{
    struct err e;
    bool begun;
    assert_ok(executor_publish(g->a.x, s, false, &begun, &e), &e);
    rig_run(&g->a);
    return begun;
}

TEST(a_status_is_published_when_it_changed_and_not_too_often)
{
    struct rig g;
    rig_start(&g);
    struct target_status s = *executor_status(g.a.x);
    s.desired = s.current = s.ready = 5;
    assert_true(publish(&g, &s));
    assert_true(g.a.last.written);
    assert_near(apiserver_number(g.api, TARGET_PATH, "status.ready", -1), 5, 0, 0);
    for (int i = 0; i < 40; i++) { /* nothing changes */
        g.a.mono_us += 15 * US_PER_S;
        g.a.now_us += 15 * US_PER_S;
        assert_false(publish(&g, &s));
    }
    s.ready = 4;
    assert_true(publish(&g, &s));
    s.ready = 3;
    assert_false(publish(&g, &s));
    g.a.mono_us += 30 * US_PER_S;
    assert_true(publish(&g, &s));
    assert_int_equal(apiserver_counted(g.api, "write", NULL, false), 3);
    rig_stop(&g);
}

TEST(a_published_status_keeps_intent_and_outcome_of_the_executor)
{
    struct rig g;
    struct target_status s;
    rig_start(&g);
    struct target_status mine = *executor_status(g.a.x); /* from before the action */
    rig_act(&g.a, "d-1", 5, 7);
    mine.ready = 5;
    assert_true(publish(&g, &mine));
    rig_status(g.api, &s, NULL);
    assert_string_equal(s.outcome.id, "d-1");
    mine = *executor_status(g.a.x);
    assert_true(outcome_follow(&mine.outcome, 7, 7, g.a.now_us, US_PER_MIN));
    assert_true(publish(&g, &mine));
    rig_status(g.api, &s, NULL);
    assert_int_equal(s.outcome.ready, STATUS_READY_READY);
    rig_stop(&g);
}

TEST(a_status_that_meets_a_conflict_is_published_the_next_time)
{
    struct rig g;
    rig_start(&g);
    struct target_status s = *executor_status(g.a.x);
    s.ready = 5;
    rig_touch(g.api, TARGET_PATH, 1);
    assert_true(publish(&g, &s));
    assert_true(g.a.last.conflict && !g.a.last.written);
    assert_true(publish(&g, &s));
    assert_true(g.a.last.written);
    g.a.may_status = false;
    s.ready = 6;
    s.conditions[0] = (struct status_condition){.value = CONDITION_TRUE, .since_us = RIG_T0};
    assert_false(publish(&g, &s));
    rig_stop(&g);
}

TEST(versions_that_our_own_writes_replaced_are_not_taken_for_news)
{
    struct rig g;
    struct target_status old;
    char version[STATUS_NAME];
    rig_start(&g);
    rig_status(g.api, &old, version);
    rig_act(&g.a, "d-1", 5, 7);
    executor_seen(g.a.x, version, &old); /* the informer lags */
    assert_string_equal(executor_status(g.a.x)->outcome.id, "d-1");
    rig_act(&g.a, "d-2", 7, 8);
    assert_int_equal(g.a.last.outcome, OUTCOME_EXECUTED);
    rig_stop(&g);
}

/* ---- many, and the end ----------------------------------------------------------------------- */

struct many {
    int done;
};

static void many_done(void *ctx, void *target, const struct act_result *r)
{
    (void)ctx;
    assert_int_equal(r->outcome, OUTCOME_EXECUTED);
    ((struct many *)target)->done++;
}

static enum err_code many_commit(void *ctx, void *target, const struct status_intent *intent,
                                 struct err *e)
{
    (void)ctx, (void)target, (void)intent, (void)e;
    return ERR_OK;
}

TEST(a_hundred_targets_act_side_by_side_on_one_thread)
{
    enum { N = 100 };
    struct rig g;
    struct err e;
    struct executor *x[N];
    struct many many = {0};
    rig_start(&g);
    struct act_env env = g.a.env;
    env.commit = many_commit;
    env.deadline_us = 20 * US_PER_S;
    for (int i = 0; i < N; i++) {
        char text[1024], name[32], path[128];
        (void)snprintf(name, sizeof name, "t%d", i);
        (void)snprintf(
            text, sizeof text,
            "{\"apiVersion\":\"apps/"
            "v1\",\"kind\":\"Deployment\",\"metadata\":{\"namespace\":\"shop\",\"name\":\"%s\"},"
            "\"spec\":{\"replicas\":1,\"selector\":{\"matchLabels\":{\"app\":\"%s\"}},\"template\":"
            "{\"metadata\":"
            "{\"labels\":{\"app\":\"%s\"}},\"spec\":{\"containers\":[{\"name\":\"c\",\"image\":"
            "\"i\"}]}}}}",
            name, name, name);
        apiserver_must_load(g.api, text);
        (void)snprintf(
            text, sizeof text,
            "{\"apiVersion\":\"sluice.dev/"
            "v1alpha1\",\"kind\":\"CapacityTarget\",\"metadata\":{\"namespace\":\"shop\","
            "\"name\":\"%s\"},\"spec\":{\"scaleTargetRef\":{\"apiVersion\":\"apps/"
            "v1\",\"kind\":\"Deployment\",\"name\":"
            "\"%s\"}}}",
            name, name);
        apiserver_must_load(g.api, text);
        (void)snprintf(path, sizeof path,
                       "/apis/sluice.dev/v1alpha1/namespaces/shop/capacitytargets/%s", name);
        char *version = apiserver_field(g.api, path, "metadata.resourceVersion");
        (void)snprintf(path, sizeof path, "/apis/apps/v1/namespaces/shop/deployments/%s/scale",
                       name);
        assert_ok(executor_new(&env, "shop", name, path, &many, many_done, &x[i], &e), &e);
        executor_seen(x[i], version, executor_status(x[i]));
        mem_free(version);
    }
    /* Every answer takes 50 ms: one after the other, 400 requests would take 20 s. */
    (void)apiserver_fault(
        g.api, &(struct apiserver_fault){.kind = APISERVER_LATENCY, .latency_us = 50000});
    int64_t begun = clock_mono_us();
    for (int i = 0; i < N; i++) {
        struct target_status s = *executor_status(x[i]);
        struct act_order o = {
            .id = "d-1", .from = 1, .to = 2, .status = &s, .safety_before = &s.safety};
        assert_ok(executor_order(x[i], &o, &e), &e);
    }
    while (many.done < N && clock_mono_us() - begun < 20 * US_PER_S)
        (void)kube_poll(g.a.kube, 20000);
    assert_int_equal(many.done, N);
    assert_true(clock_mono_us() - begun < 8 * US_PER_S);
    for (int i = 0; i < N; i++)
        executor_free(x[i]);
    rig_stop(&g);
}

TEST(an_executor_may_be_freed_at_any_step)
{
    for (int polls = 0; polls < 12; polls++) {
        struct rig g;
        struct err e;
        rig_start(&g);
        assert_ok(rig_order(&g.a, "d-1", 5, 7, &e), &e);
        for (int i = 0; i < polls && executor_busy(g.a.x); i++)
            (void)kube_poll(g.a.kube, 2000);
        executor_free(g.a.x);
        int done = g.a.n_done;
        (void)kube_poll(g.a.kube, 1000);
        assert_int_equal(g.a.n_done, done); /* no callback afterwards */
        g.a.x = NULL;
        rig_stop(&g);
    }
}

TEST(a_replica_that_lost_the_lease_forgets_what_it_knew)
{
    struct rig g;
    struct err e;
    rig_start(&g);
    assert_ok(rig_order(&g.a, "d-1", 5, 7, &e), &e);
    executor_forget(g.a.x); /* while it runs: at its end */
    rig_run(&g.a);
    assert_err(rig_order(&g.a, "d-2", 7, 8, &e), ERR_INVAL, &e, "has not been read yet");
    rig_see(g.api, &g.a);
    rig_act(&g.a, "d-3", 7, 8);
    assert_int_equal(g.a.last.outcome, OUTCOME_EXECUTED);
    rig_stop(&g);
}
