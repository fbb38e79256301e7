/* act_lost_test.c - actions whose writes or answers get lost, one after the other: none happens twice, none without its
 * intent, and what is left over is put right. */
#include "tests/unit/execute/act_rig.h"

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
        rig_start(&g);
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
        rig_stop(&g);
    }
}

TEST(reconcile_waits_while_the_size_cannot_be_read)
{
    struct rig g;
    struct err e;
    rig_start(&g);
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
    rig_stop(&g);
}

/* An outcome that was decided is written as it was, also when the size has changed since. */
TEST(an_outcome_that_could_not_be_written_is_not_guessed_again)
{
    struct rig g;
    struct target_status s;
    struct err e;
    rig_start(&g);
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
    rig_stop(&g);
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
        rig_start(&g);
        (void)apiserver_fault(g.api, &cases[i].fault);
        rig_act(&g.a, "d-1", 5, 7);
        assert_int_equal(g.a.last.outcome, cases[i].outcome);
        assert_int_equal(g.a.last.pending, cases[i].pending);
        assert_int_equal(g.a.n_commits, cases[i].outcome == OUTCOME_EXECUTED);
        assert_int_equal(rig_scaled(g.api), cases[i].outcome == OUTCOME_EXECUTED);
        rig_stop(&g);
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
    rig_start(&g);
    (void)apiserver_fault(
        g.api, &(struct apiserver_fault){
                   .kind = APISERVER_STATUS, .status = 504, .method = "PUT", .count = 1});
    rig_act(&g.a, "d-1", 5, 7);
    assert_int_equal(g.a.last.outcome, OUTCOME_EXECUTED);
    assert_int_equal(written_on(g.api, version, 4), 2);
    assert_string_equal(version[0], version[1]);
    rig_stop(&g);
}

TEST(a_write_that_got_lost_twice_may_still_arrive_and_is_waited_for)
{
    struct rig g;
    struct err e;
    rig_start(&g);
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
    rig_stop(&g);
}

TEST(a_lost_write_cannot_arrive_any_more_once_the_workload_changed)
{
    struct rig g;
    struct target_status s;
    struct err e;
    bool touched = false;
    rig_start(&g);
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
    rig_stop(&g);
}

TEST(a_lost_write_is_not_sent_again_without_the_lease)
{
    struct rig g;
    rig_start(&g);
    (void)apiserver_fault(
        g.api, &(struct apiserver_fault){
                   .kind = APISERVER_STATUS, .status = 504, .method = "PUT", .count = 1});
    g.a.writes_left = 3;
    rig_act(&g.a, "d-1", 5, 7);
    assert_int_equal(g.a.last.outcome, OUTCOME_NONE);
    assert_true(g.a.last.pending);
    assert_int_equal(apiserver_counted(g.api, "update", "deployments/scale", false), 1);
    rig_stop(&g);
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
    rig_start(&g);
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
    rig_stop(&g);
}
