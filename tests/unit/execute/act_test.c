#include "tests/unit/execute/act_rig.h"

/* ---- the way it goes ------------------------------------------------------------------------- */

struct rig {
    struct apiserver *api;
    struct rig_replica a;
};

static void start(struct rig *g)
{
    g->api = rig_server();
    rig_replica_start(&g->a, g->api, "a", 300000);
    rig_see(g->api, &g->a);
    apiserver_forget(g->api);
}

static void stop(struct rig *g)
{
    rig_replica_stop(&g->a);
    apiserver_free(g->api);
}

TEST(an_action_is_intent_then_size_then_outcome)
{
    struct rig g;
    start(&g);
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
    stop(&g);
}

TEST(actions_follow_each_other_without_reading_the_target_again)
{
    struct rig g;
    start(&g);
    rig_act(&g.a, "d-1", 5, 7);
    rig_act(&g.a, "d-2", 7, 6);
    assert_int_equal(g.a.last.outcome, OUTCOME_EXECUTED);
    assert_int_equal(rig_size(g.api), 6);
    assert_int_equal(apiserver_counted(g.api, "get", "capacitytargets", false), 0);
    stop(&g);
}

TEST(a_size_that_is_there_already_writes_nothing)
{
    struct rig g;
    start(&g);
    rig_person(g.api, 7);
    apiserver_forget(g.api);
    rig_act(&g.a, "d-1", 5, 7);
    assert_int_equal(g.a.last.outcome, OUTCOME_FOUND);
    assert_int_equal(apiserver_counted(g.api, "write", NULL, false), 0);
    assert_int_equal(g.a.n_commits, 0);
    stop(&g);
}

TEST(a_size_that_somebody_changed_is_not_overwritten)
{
    struct rig g;
    start(&g);
    rig_person(g.api, 9);
    apiserver_forget(g.api);
    rig_act(&g.a, "d-1", 5, 7);
    assert_int_equal(g.a.last.outcome, OUTCOME_ABANDONED);
    assert_true(g.a.last.conflict);
    assert_string_equal(g.a.last.text, "the size is 9, not 5 as decided on");
    assert_int_equal(apiserver_counted(g.api, "write", NULL, false), 0);
    stop(&g);
}

TEST(orders_that_make_no_sense_are_refused)
{
    struct rig g;
    struct err e;
    start(&g);
    assert_err(rig_order(&g.a, "d", 5, 5, &e), ERR_INVAL, &e, "no action: 5 -> 5");
    assert_err(rig_order(&g.a, "d", 5, 4097, &e), ERR_INVAL, &e, "no action");
    assert_err(rig_order(&g.a, "", 5, 6, &e), ERR_INVAL, &e, "id has 1 to");
    assert_err(executor_reconcile(g.a.x, &e), ERR_INVAL, &e, "no intent is pending");
    assert_ok(rig_order(&g.a, "d", 5, 6, &e), &e);
    assert_err(rig_order(&g.a, "d2", 5, 6, &e), ERR_INVAL, &e, "still running");
    rig_run(&g.a);
    executor_forget(g.a.x);
    assert_err(rig_order(&g.a, "d3", 6, 7, &e), ERR_INVAL, &e, "has not been read yet");
    stop(&g);
}

/* ---- refusals -------------------------------------------------------------------------------- */

TEST(a_record_that_cannot_be_stored_abandons_the_action)
{
    struct rig g;
    struct target_status s;
    start(&g);
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
    stop(&g);
}

TEST(without_the_lease_nothing_more_is_sent_and_the_next_leader_goes_on)
{
    /* may_act is asked: status and scale before the intent, scale before the size, status before
     * the outcome. */
    for (int yes = 0; yes <= 3; yes++) {
        struct rig g;
        struct rig_replica b;
        start(&g);
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
        stop(&g);
    }
}

TEST(frozen_after_the_intent_clears_it_and_does_nothing)
{
    struct rig g;
    struct target_status s;
    start(&g);
    g.a.freeze_on_commit = true; /* the lease is still held */
    rig_act(&g.a, "d-1", 5, 7);
    assert_int_equal(g.a.last.outcome, OUTCOME_ABANDONED);
    assert_int_equal(rig_size(g.api), 5);
    rig_status(g.api, &s, NULL);
    assert_string_equal(s.intent.id, "");
    stop(&g);
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
        start(&g);
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
        stop(&g);
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
    start(&g);
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
    stop(&g);
}

/* ---- conflicts ------------------------------------------------------------------------------- */

TEST(a_target_changed_meanwhile_gives_up_this_step_and_sees_the_change)
{
    struct rig g;
    start(&g);
    rig_touch(g.api, TARGET_PATH, 1);
    rig_act(&g.a, "d-1", 5, 7);
    assert_int_equal(g.a.last.outcome, OUTCOME_ABANDONED);
    assert_true(g.a.last.conflict);
    assert_int_equal(rig_scaled(g.api), 0);
    assert_int_equal(g.a.n_commits, 0);
    rig_act(&g.a, "d-2", 5, 7); /* the next step has the newer version */
    assert_int_equal(g.a.last.outcome, OUTCOME_EXECUTED);
    stop(&g);
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
    start(&g);
    order_with_touches(&g, 1);
    assert_int_equal(g.a.last.outcome, OUTCOME_EXECUTED);
    assert_int_equal(apiserver_counted(g.api, "update", "deployments/scale", false), 2);
    assert_int_equal(rig_size(g.api), 7);
    stop(&g);
}

TEST(a_workload_that_keeps_changing_is_left_alone)
{
    struct rig g;
    start(&g);
    order_with_touches(&g, 100);
    assert_int_equal(g.a.last.outcome, OUTCOME_ABANDONED);
    assert_int_equal(apiserver_counted(g.api, "update", "deployments/scale", false), 2);
    assert_int_equal(rig_size(g.api), 5);
    stop(&g);
}

TEST(of_two_replicas_that_both_believe_to_lead_one_acts)
{
    struct rig g;
    struct rig_replica b;
    struct err e;
    start(&g);
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
    stop(&g);
}

/* ---- what is left over ----------------------------------------------------------------------- */

static void leave_intent(struct rig *g, const char *scale_uid)
{
    struct target_status s;
    struct buf body = buf_init(1 << 16);
    struct err e;
    char version[STATUS_NAME];
    rig_status(g->api, &s, version);
    s.intent = (struct status_intent){.id = "d-0", .from = 5, .to = 7, .time_us = RIG_T0};
    (void)snprintf(s.intent.holder, sizeof s.intent.holder, "gone");
    (void)snprintf(s.intent.scale_uid, sizeof s.intent.scale_uid, "%s", scale_uid);
    s.safety.last_out_us = RIG_T0;
    assert_ok(target_status_patch(&s, version, &body, &e), &e);
    assert_int_equal(apiserver_call(g->api, "PATCH", TARGET_PATH "/status",
                                    "application/merge-patch+json", body.p, NULL),
                     200);
    buf_fini(&body);
    rig_see(g->api, &g->a);
}

TEST(an_intent_left_behind_is_compared_with_the_size)
{
    static const struct {
        int size; /* -1: the workload is gone */
        const char *uid;
        enum outcome_result outcome;
        const char *text;
    } cases[] = {
        {7, "", OUTCOME_FOUND, "5 -> 7 units, found afterwards"},
        {5, "", OUTCOME_ABANDONED, "the size is still 5: not done, decided anew"},
        {6, "", OUTCOME_ABANDONED, "the size is 6, set by somebody else"},
        {7, "another", OUTCOME_ABANDONED, "the target was replaced, at 7 units"},
        {-1, "", OUTCOME_FAILED, "not found"},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct rig g;
        struct target_status s;
        struct err e;
        start(&g);
        if (cases[i].size < 0)
            assert_int_equal(apiserver_call(g.api, "DELETE", WORKLOAD_PATH, NULL, NULL, NULL), 200);
        else if (cases[i].size != 5)
            rig_person(g.api, cases[i].size);
        leave_intent(&g, cases[i].uid);
        apiserver_forget(g.api);
        assert_string_equal(executor_pending(g.a.x)->id, "d-0");
        assert_ok(executor_reconcile(g.a.x, &e), &e);
        rig_run(&g.a);
        assert_int_equal(g.a.last.outcome, cases[i].outcome);
        if (!strstr(g.a.last.text, cases[i].text))
            fail_msg("%s, expected %s", g.a.last.text, cases[i].text);
        assert_null(executor_pending(g.a.x));
        assert_int_equal(rig_scaled(g.api), 0);
        rig_status(g.api, &s, NULL);
        assert_string_equal(s.intent.id, "");
        assert_string_equal(s.outcome.id, "d-0");
        assert_true(s.safety.last_out_us == RIG_T0); /* of another replica: counted, to be safe */
        stop(&g);
    }
}

TEST(reconcile_waits_while_the_size_cannot_be_read)
{
    struct rig g;
    struct err e;
    start(&g);
    leave_intent(&g, "");
    int id = apiserver_fault(g.api, &(struct apiserver_fault){
                                        .kind = APISERVER_STATUS, .path = "/scale", .status = 503});
    assert_ok(executor_reconcile(g.a.x, &e), &e);
    rig_run(&g.a);
    assert_int_equal(g.a.last.outcome, OUTCOME_NONE);
    assert_true(g.a.last.pending);
    apiserver_clear(g.api, id);
    g.a.may_status = false;
    assert_err(executor_reconcile(g.a.x, &e), ERR_INVAL, &e, "not permitted");
    g.a.may_status = true;
    assert_ok(executor_reconcile(g.a.x, &e), &e);
    rig_run(&g.a);
    assert_int_equal(g.a.last.outcome, OUTCOME_ABANDONED);
    stop(&g);
}

/* An outcome that was decided is written as it was, also when the size has changed since. */
TEST(an_outcome_that_could_not_be_written_is_not_guessed_again)
{
    struct rig g;
    struct target_status s;
    struct err e;
    start(&g);
    g.a.writes_left = 3; /* all but the outcome */
    rig_act(&g.a, "d-1", 5, 7);
    assert_int_equal(g.a.last.outcome, OUTCOME_EXECUTED);
    assert_true(g.a.last.pending && !g.a.last.written);
    rig_person(g.api, 9);
    g.a.writes_left = -1;
    assert_ok(executor_reconcile(g.a.x, &e), &e);
    rig_run(&g.a);
    assert_int_equal(g.a.last.outcome, OUTCOME_EXECUTED);
    rig_status(g.api, &s, NULL);
    assert_int_equal(s.outcome.result, OUTCOME_EXECUTED);
    assert_string_equal(s.intent.id, "");
    stop(&g);
}

/* ---- lost writes of the intent --------------------------------------------------------------- */

TEST(an_intent_whose_answer_got_lost_is_read_back)
{
    static const struct {
        struct apiserver_fault fault;
        enum outcome_result outcome;
        bool pending;
    } cases[] = {
        {{.kind = APISERVER_AFTER, .status = 504, .method = "PATCH", .count = 1},
         OUTCOME_EXECUTED,
         false},
        {{.kind = APISERVER_STATUS, .status = 504, .method = "PATCH", .count = 1},
         OUTCOME_ABANDONED,
         false},
        {{.kind = APISERVER_STATUS, .status = 504, .path = "capacitytargets"}, OUTCOME_NONE, true},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct rig g;
        start(&g);
        (void)apiserver_fault(g.api, &cases[i].fault);
        rig_act(&g.a, "d-1", 5, 7);
        assert_int_equal(g.a.last.outcome, cases[i].outcome);
        assert_int_equal(g.a.last.pending, cases[i].pending);
        assert_int_equal(g.a.n_commits, cases[i].outcome == OUTCOME_EXECUTED);
        assert_int_equal(rig_scaled(g.api), cases[i].outcome == OUTCOME_EXECUTED);
        stop(&g);
    }
}

/* ---- lost writes of the size ----------------------------------------------------------------- */

/* Versions that the writes of the size were based on, in order. */
static size_t written_on(struct apiserver *api, char version[][32], size_t most)
{
    struct apiserver_record log[64];
    size_t n = apiserver_log(api, 0, log, 64), k = 0;
    for (size_t i = 0; i < n; i++) {
        const char *at = strstr(log[i].body, "\"resourceVersion\":\"");
        if (strcmp(log[i].verb, "update") == 0 && at && k < most)
            (void)snprintf(version[k++], 32, "%.31s", at + strlen("\"resourceVersion\":\""));
        apiserver_record_fini(&log[i]);
    }
    return k;
}

TEST(a_write_that_got_lost_is_sent_once_more_on_the_same_version)
{
    char version[4][32];
    struct rig g;
    start(&g);
    (void)apiserver_fault(
        g.api, &(struct apiserver_fault){
                   .kind = APISERVER_STATUS, .status = 504, .method = "PUT", .count = 1});
    rig_act(&g.a, "d-1", 5, 7);
    assert_int_equal(g.a.last.outcome, OUTCOME_EXECUTED);
    assert_int_equal(written_on(g.api, version, 4), 2);
    assert_string_equal(version[0], version[1]);
    stop(&g);
}

TEST(a_write_that_got_lost_twice_may_still_arrive_and_is_waited_for)
{
    struct rig g;
    struct err e;
    start(&g);
    (void)apiserver_fault(
        g.api, &(struct apiserver_fault){
                   .kind = APISERVER_STATUS, .status = 504, .method = "PUT", .count = 2});
    rig_act(&g.a, "d-1", 5, 7);
    assert_int_equal(g.a.last.outcome, OUTCOME_NONE);
    assert_true(g.a.last.pending && g.a.last.sent);
    assert_int_equal(apiserver_counted(g.api, "update", "deployments/scale", false), 2);
    g.a.mono_us += 59 * US_PER_S;
    assert_ok(executor_reconcile(g.a.x, &e), &e);
    rig_run(&g.a);
    assert_int_equal(g.a.last.outcome, OUTCOME_NONE);
    assert_non_null(strstr(g.a.last.text, "may still arrive"));
    g.a.mono_us += US_PER_S;
    assert_ok(executor_reconcile(g.a.x, &e), &e);
    rig_run(&g.a);
    assert_int_equal(g.a.last.outcome, OUTCOME_ABANDONED);
    assert_null(executor_pending(g.a.x));
    stop(&g);
}

TEST(a_lost_write_cannot_arrive_any_more_once_the_workload_changed)
{
    struct rig g;
    struct target_status s;
    struct err e;
    bool touched = false;
    start(&g);
    int id = apiserver_fault(
        g.api, &(struct apiserver_fault){
                   .kind = APISERVER_HANG, .method = "PUT", .count = 1, .latency_us = 400000});
    assert_ok(rig_order(&g.a, "d-1", 5, 7, &e), &e);
    while (executor_busy(g.a.x)) {
        (void)kube_poll(g.a.kube, 1000);
        if (!touched && apiserver_hits(g.api, id)) {
            rig_touch(g.api, WORKLOAD_PATH, 1);
            touched = true;
        }
    }
    assert_true(touched);
    assert_int_equal(g.a.last.outcome, OUTCOME_ABANDONED);
    assert_int_equal(apiserver_counted(g.api, "update", "deployments/scale", true), 0);
    rig_status(g.api, &s, NULL);
    assert_string_equal(s.intent.id, "");
    assert_true(s.safety.last_out_us == RIG_T0); /* counted all the same */
    stop(&g);
}

TEST(a_lost_write_is_not_sent_again_without_the_lease)
{
    struct rig g;
    start(&g);
    (void)apiserver_fault(
        g.api, &(struct apiserver_fault){
                   .kind = APISERVER_STATUS, .status = 504, .method = "PUT", .count = 1});
    g.a.writes_left = 3;
    rig_act(&g.a, "d-1", 5, 7);
    assert_int_equal(g.a.last.outcome, OUTCOME_NONE);
    assert_true(g.a.last.pending);
    assert_int_equal(apiserver_counted(g.api, "update", "deployments/scale", false), 1);
    stop(&g);
}

/* ---- every reply fails in turn --------------------------------------------------------------- */

static const struct apiserver_fault sweep_faults[] = {
    {.kind = APISERVER_STATUS, .status = 409},
    {.kind = APISERVER_STATUS, .status = 429, .plain = true},
    {.kind = APISERVER_STATUS, .status = 500},
    {.kind = APISERVER_STATUS, .status = 503},
    {.kind = APISERVER_STATUS, .status = 504},
    {.kind = APISERVER_STATUS, .status = 403},
    {.kind = APISERVER_STATUS, .status = 404},
    {.kind = APISERVER_AFTER, .status = 500},
    {.kind = APISERVER_AFTER, .status = 504},
    {.kind = APISERVER_CUT},
    {.kind = APISERVER_CUT_AFTER},
    {.kind = APISERVER_HALF_BODY},
    {.kind = APISERVER_GARBAGE},
    {.kind = APISERVER_LATENCY, .latency_us = 400000}, /* over the deadline, work done */
};

/* Whatever was left, the executor comes to rest. */
static void recover(struct rig *g)
{
    struct err e;
    for (int i = 0; i < 5 && executor_pending(g->a.x); i++) {
        rig_see(g->api, &g->a);
        if (executor_pending(g->a.x)) {
            assert_ok(executor_reconcile(g->a.x, &e), &e);
            rig_run(&g->a);
        }
    }
    assert_null(executor_pending(g->a.x));
}

static void check_rest(struct rig *g, int fault, int skip)
{
    struct target_status s;
    int size = rig_size(g->api);
    rig_status(g->api, &s, NULL);
    if (size != 5 && size != 7)
        fail_msg("fault %d at request %d: size %d", fault, skip, size);
    if (*s.intent.id)
        fail_msg("fault %d at request %d: intent %s is left", fault, skip, s.intent.id);
    bool acted = s.outcome.result == OUTCOME_EXECUTED || s.outcome.result == OUTCOME_FOUND;
    if (acted != (size == 7))
        fail_msg("fault %d at request %d: outcome %s, size %d", fault, skip,
                 outcome_name(s.outcome.result), size);
    if (acted && s.safety.last_out_us != RIG_T0)
        fail_msg("fault %d at request %d: acted, and no cooldown", fault, skip);
}

/* A fault at each request, of one or of three in a row. */
TEST(each_reply_fails_in_turn_and_no_action_happens_twice_or_without_intent)
{
    struct rig g;
    int n = 0;
    start(&g);
    for (size_t f = 0; f < ARRAY_LEN(sweep_faults); f++) {
        for (int count = 1; count <= 3; count += 2) {
            for (int skip = 0; skip < 6; skip++) {
                struct apiserver_fault fault = sweep_faults[f];
                char id[32];
                fault.skip = skip;
                fault.count = count;
                (void)snprintf(id, sizeof id, "d-%d", n++);
                rig_person(g.api, 5);
                executor_free(g.a.x);
                rig_executor(&g.a);
                struct buf clean = buf_init(4096);
                buf_str(&clean, "{\"status\":null}");
                (void)apiserver_call(g.api, "PATCH", TARGET_PATH "/status",
                                     "application/merge-patch+json", clean.p, NULL);
                buf_fini(&clean);
                rig_see(g.api, &g.a);
                apiserver_forget(g.api);
                int fault_id = apiserver_fault(g.api, &fault);
                rig_act(&g.a, id, 5, 7);
                size_t intents = apiserver_counted(g.api, "patch", "capacitytargets/status", false);
                size_t puts = apiserver_counted(g.api, "update", "deployments/scale", false);
                assert_true(puts == 0 || (intents > 0 && g.a.n_commits > 0));
                apiserver_clear(g.api, fault_id);
                recover(&g);
                check_rest(&g, (int)f, skip);
                rig_see(g.api, &g.a);
                if (rig_size(g.api) == 5) { /* decided anew, and now it works */
                    (void)snprintf(id, sizeof id, "d-%d", n++);
                    rig_act(&g.a, id, 5, 7);
                    if (g.a.last.outcome != OUTCOME_EXECUTED)
                        fail_msg("fault %zu at request %d: %s", f, skip, g.a.last.text);
                }
                check_rest(&g, (int)f, skip);
            }
        }
    }
    stop(&g);
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
    start(&g);
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
    stop(&g);
}

TEST(a_published_status_keeps_intent_and_outcome_of_the_executor)
{
    struct rig g;
    struct target_status s;
    start(&g);
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
    stop(&g);
}

TEST(a_status_that_meets_a_conflict_is_published_the_next_time)
{
    struct rig g;
    start(&g);
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
    stop(&g);
}

TEST(versions_that_our_own_writes_replaced_are_not_taken_for_news)
{
    struct rig g;
    struct target_status old;
    char version[STATUS_NAME];
    start(&g);
    rig_status(g.api, &old, version);
    rig_act(&g.a, "d-1", 5, 7);
    executor_seen(g.a.x, version, &old); /* the informer lags */
    assert_string_equal(executor_status(g.a.x)->outcome.id, "d-1");
    rig_act(&g.a, "d-2", 7, 8);
    assert_int_equal(g.a.last.outcome, OUTCOME_EXECUTED);
    stop(&g);
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
    start(&g);
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
    stop(&g);
}

TEST(an_executor_may_be_freed_at_any_step)
{
    for (int polls = 0; polls < 12; polls++) {
        struct rig g;
        struct err e;
        start(&g);
        assert_ok(rig_order(&g.a, "d-1", 5, 7, &e), &e);
        for (int i = 0; i < polls && executor_busy(g.a.x); i++)
            (void)kube_poll(g.a.kube, 2000);
        executor_free(g.a.x);
        int done = g.a.n_done;
        (void)kube_poll(g.a.kube, 1000);
        assert_int_equal(g.a.n_done, done); /* no callback afterwards */
        g.a.x = NULL;
        stop(&g);
    }
}

TEST(a_replica_that_lost_the_lease_forgets_what_it_knew)
{
    struct rig g;
    struct err e;
    start(&g);
    assert_ok(rig_order(&g.a, "d-1", 5, 7, &e), &e);
    executor_forget(g.a.x); /* while it runs: at its end */
    rig_run(&g.a);
    assert_err(rig_order(&g.a, "d-2", 7, 8, &e), ERR_INVAL, &e, "has not been read yet");
    rig_see(g.api, &g.a);
    rig_act(&g.a, "d-3", 7, 8);
    assert_int_equal(g.a.last.outcome, OUTCOME_EXECUTED);
    stop(&g);
}
