/* The daemon against the test API server: what it does, what it must not do, and what the next leader finds. */
#include <sys/stat.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/mem.h"
#include "daemon/daemon.h"
#include "store/store.h"
#include "tests/live/live_world.h"
#include "tests/support/keda.h"
#include "tests/support/test.h"

static void rounds(struct live_world *w, const char *name, double qps, int n)
{
    for (int i = 0; i < n; i++) {
        live_world_demand(w, name, qps);
        live_world_round(w);
    }
}

/* One replica in `single`, with a target that has what it needs. */
static void begin(struct live_world *w)
{
    live_world_start(w, "single", "policy: rules\n", NULL);
    live_world_target(w, "chat", 2, 20, "");
    live_world_up(w, 0);
    rounds(w, "chat", 100, 6);
}

static void assert_scales_out(struct live_world *w)
{
    rounds(w, "chat", 1500, 20);
    assert_true(live_world_units(w, "chat") > 2);
}

static size_t writes(struct live_world *w)
{
    return apiserver_counted(w->api, "write", NULL, false);
}

TEST(observe_sends_no_write_request_of_any_kind)
{
    struct live_world w;
    live_world_start(&w, "observe", "policy: rules\n", NULL);
    live_world_target(&w, "chat", 2, 20, "");
    apiserver_forget(w.api);
    live_world_up(&w, 0);
    live_world_up(&w, 1);
    rounds(&w, "chat", 100, 6);
    rounds(&w, "chat", 1500, 40); /* would scale out by far */
    if (writes(&w))
        apiserver_print_log(w.api, 50);
    assert_int_equal(writes(&w), 0);
    assert_int_equal(live_world_units(&w, "chat"), 2);
    live_world_stop(&w);
}

static bool at_most(void *ctx, const struct store_decision *d, const struct store_target *t)
{
    int *least = ctx;
    (void)t;
    *least = d->executed < *least ? d->executed : *least;
    return true;
}

TEST(what_observe_would_do_waits_for_nothing_that_was_not_done)
{
    struct live_world w;
    struct store *s;
    struct err e;
    live_world_start(&w, "observe", "policy: rules\n", NULL);
    live_world_target(&w, "chat", 2, 20, "");
    live_world_up(&w, 0);
    rounds(&w, "chat", 100, 6);
    rounds(&w, "chat", 1500, 10);
    int64_t since_us = w.now_us;
    rounds(&w, "chat", 1500, 30);
    struct store_opts o = store_opts_default(test_path("%s/sluice.db", w.seat[0].dir));
    struct store_query q = {.since_us = since_us, .until_us = INT64_MAX};
    int least = INT32_MAX;
    o.read_only = true;
    assert_ok(store_open(&o, &s, &e), &e);
    assert_ok(store_decisions(s, &q, at_most, &least, &e), &e);
    store_close(s);
    assert_in_range(least, 3, 20); /* from the two there are, in every round */
    live_world_stop(&w);
}

TEST(single_scales_out_after_the_intent_is_in_the_status)
{
    struct live_world w;
    begin(&w);
    apiserver_forget(w.api);
    rounds(&w, "chat", 1500, 40);
    assert_true(live_world_units(&w, "chat") > 10);
    char *outcome = apiserver_field(w.api, "/apis/sluice.dev/v1alpha1/namespaces/shop/capacitytargets/chat",
                                    "status.outcome.result");
    assert_non_null(outcome);
    assert_string_equal(outcome, "Executed");
    mem_free(outcome);
    live_world_stop(&w);
}

TEST(units_asked_for_are_followed_until_they_are_ready)
{
    struct live_world w;
    char *units = NULL;
    begin(&w);
    while (live_world_units(&w, "chat") == 2)
        rounds(&w, "chat", 1500, 1);
    for (int i = 0; i < 60 && (!units || strcmp(units, "Ready") != 0); i++) {
        mem_free(units);
        rounds(&w, "chat", 80.0 * live_world_units(&w, "chat") * 0.6, 1);
        units = apiserver_field(w.api, "/apis/sluice.dev/v1alpha1/namespaces/shop/capacitytargets/chat",
                                "status.outcome.units");
    }
    assert_string_equal(units ? units : "", "Ready");
    mem_free(units);
    live_world_stop(&w);
}

TEST(a_target_of_a_kind_without_a_size_concerns_nobody_else)
{
    struct live_world w;
    live_world_start(&w, "single", "policy: rules\n", NULL);
    live_world_target(&w, "chat", 2, 20, "");
    apiserver_must_load(w.api, "apiVersion: sluice.dev/v1alpha1\nkind: CapacityTarget\n"
                               "metadata: {name: odd, namespace: shop}\nspec: {maxUnits: 9, scaleTargetRef: "
                               "{apiVersion: v1, kind: Secret, name: chat}}\n");
    live_world_up(&w, 0);
    rounds(&w, "chat", 100, 6);
    assert_scales_out(&w);
    live_world_stop(&w);
}

TEST(a_target_that_an_autoscaler_owns_is_left_alone_and_the_owner_named)
{
    struct live_world w;
    live_world_start(&w, "single", "policy: rules\n", NULL);
    live_world_target(&w, "chat", 2, 20, "");
    apiserver_must_load(w.api, "apiVersion: autoscaling/v2\nkind: HorizontalPodAutoscaler\n"
                               "metadata: {name: theirs, namespace: shop}\nspec: {maxReplicas: 9, scaleTargetRef: "
                               "{apiVersion: apps/v1, kind: Deployment, name: chat}}\n");
    live_world_up(&w, 0);
    rounds(&w, "chat", 1500, 30);
    assert_int_equal(live_world_units(&w, "chat"), 2);
    char *why = apiserver_field(w.api, "/apis/sluice.dev/v1alpha1/namespaces/shop/capacitytargets/chat",
                                "status.conditions");
    assert_non_null(why);
    assert_non_null(strstr(why, "HorizontalPodAutoscaler shop/theirs"));
    mem_free(why);
    live_world_stop(&w);
}

/* Kubernetes before 1.23 serves autoscaling/v1 and betas only. */
TEST(an_autoscaler_is_seen_where_autoscaling_v2_is_not_served)
{
    struct live_world w;
    live_world_start(&w, "single", "policy: rules\n", NULL);
    live_world_target(&w, "chat", 2, 20, "");
    apiserver_fault(w.api, &(struct apiserver_fault){
                               .kind = APISERVER_STATUS, .status = 404, .path = "/apis/autoscaling/v2/"});
    apiserver_must_load(w.api, "apiVersion: autoscaling/v2\nkind: HorizontalPodAutoscaler\n"
                               "metadata: {name: theirs, namespace: shop}\nspec: {maxReplicas: 9, scaleTargetRef: "
                               "{apiVersion: apps/v1, kind: Deployment, name: chat}}\n");
    live_world_up(&w, 0);
    rounds(&w, "chat", 1500, 3);
    char *why = apiserver_field(w.api, "/apis/sluice.dev/v1alpha1/namespaces/shop/capacitytargets/chat",
                                "status.conditions");
    assert_non_null(why);
    assert_non_null(strstr(why, "HorizontalPodAutoscaler shop/theirs"));
    mem_free(why);
    live_world_stop(&w);
}

/* Plays rounds until the status says it: sizes are read, and conditions published, beside the rounds. */
static void until_condition(struct live_world *w, const char *name, const char *text)
{
    for (int64_t give_up_us = clock_mono_us() + 20 * US_PER_S;;) {
        rounds(w, "free", 100, 1);
        char *all = apiserver_field(
            w->api, test_path("/apis/sluice.dev/v1alpha1/namespaces/shop/capacitytargets/%s", name), "status.conditions");
        bool said = all && strstr(all, text);
        if (!said && clock_mono_us() > give_up_us)
            fail_msg("%s is not in %s", text, all ? all : "no status");
        mem_free(all);
        if (said)
            return;
    }
}

TEST(a_paused_or_frozen_target_says_that_it_is_not_active)
{
    struct live_world w;
    live_world_start(&w, "single", "policy: rules\n", NULL);
    live_world_target(&w, "free", 2, 20, "");
    live_world_target(&w, "chat", 2, 20, "");
    live_world_up(&w, 0);
    until_condition(&w, "free", "\"reason\":\"Deciding\"");
    until_condition(&w, "chat", "\"reason\":\"Deciding\"");
    live_world_target(&w, "chat", 2, 20, "  paused: true\n"); /* True to False is written at once, another reason is not */
    until_condition(&w, "chat", "\"reason\":\"Paused\"");
    assert_int_equal(live_world_post(&w, 0, "/api/v1/freeze", "{}"), 200);
    until_condition(&w, "free", "\"reason\":\"Frozen\"");
    live_world_stop(&w);
}

TEST(the_next_leader_goes_on_with_cooldowns_and_repeats_nothing)
{
    struct live_world w;
    live_world_start(&w, "single", "policy: rules\n", NULL);
    live_world_target(&w, "chat", 2, 20, "");
    live_world_up(&w, 0);
    live_world_up(&w, 1);
    rounds(&w, "chat", 100, 6);
    while (live_world_units(&w, "chat") == 2)
        rounds(&w, "chat", 1500, 1);
    int before = live_world_units(&w, "chat");
    live_world_down(&w, 0);
    w.leader = 1;
    apiserver_forget(w.api);
    rounds(&w, "chat", 1500, 2); /* 30 s after an action: still cooling, 60 s after scale-out */
    assert_int_equal(live_world_units(&w, "chat"), before);
    rounds(&w, "chat", 1500, 12);
    assert_true(live_world_units(&w, "chat") > before);
    live_world_stop(&w);
}

TEST(a_frozen_replica_acts_on_nothing_and_stays_frozen_over_a_restart)
{
    struct live_world w;
    begin(&w);
    live_world_down(&w, 0);
    const char *word = "{\"author\":\"ann\",\"reason\":\"test\",\"source\":\"endpoint\",\"time\":\"2026-01-01T00:00:00Z\"}";
    test_write_file(test_path("%s/frozen", w.seat[0].dir), word, strlen(word));
    live_world_up(&w, 0);
    rounds(&w, "chat", 1500, 30);
    assert_int_equal(live_world_units(&w, "chat"), 2);
    live_world_stop(&w);
}

TEST(a_target_s_own_query_takes_the_place_of_the_configured_one)
{
    struct live_world w;
    live_world_start(&w, "single", "policy: rules\n", NULL);
    live_world_target(&w, "chat", 2, 20, "  queries: {qps: 'm_queue_len'}\n"); /* a load that does not exist by that name */
    live_world_up(&w, 0);
    rounds(&w, "chat", 100, 8);
    char *fresh = apiserver_field(w.api, "/apis/sluice.dev/v1alpha1/namespaces/shop/capacitytargets/chat",
                                  "status.conditions");
    assert_non_null(fresh);
    assert_null(strstr(fresh, "\"Invalid\""));
    mem_free(fresh);
    live_world_stop(&w);
}

TEST(a_query_that_cannot_be_used_makes_its_target_inactive_and_says_so)
{
    struct live_world w;
    live_world_start(&w, "single", "policy: rules\n", NULL);
    live_world_target(&w, "chat", 2, 20, "  queries: {qps: 'sum(x{y=\"{nonsense}\"})'}\n");
    live_world_up(&w, 0);
    rounds(&w, "chat", 1500, 20);
    assert_int_equal(live_world_units(&w, "chat"), 2);
    char *why = apiserver_field(w.api, "/apis/sluice.dev/v1alpha1/namespaces/shop/capacitytargets/chat",
                                "status.conditions");
    assert_non_null(why);
    assert_non_null(strstr(why, "nonsense"));
    mem_free(why);
    live_world_stop(&w);
}

/* The configuration of replica 0 with `from` replaced by `to`, swapped in as a mounted ConfigMap is. */
static void change_config(struct live_world *w, const char *from, const char *to)
{
    struct buf text, next = buf_init(1 << 20);
    struct err e;
    assert_ok(file_read(w->seat[0].config, 1 << 20, &text, &e), &e);
    const char *at = strstr(text.p, from);
    assert_non_null(at);
    buf_add(&next, text.p, (size_t)(at - text.p));
    buf_str(&next, to);
    buf_str(&next, at + strlen(from));
    assert_ok(file_write(w->seat[0].config, next.p, next.n, &e), &e);
    buf_fini(&text);
    buf_fini(&next);
}

static bool take_policy(void *ctx, const struct store_decision *d, const struct store_target *t)
{
    (void)t;
    (void)snprintf(ctx, 64, "%s", d->policy);
    return false;
}

/* Of the newest decision in the record: the status follows in real time, not on the test's clock. */
static void assert_policy(struct live_world *w, const char *want)
{
    char *path = store_path_default(w->seat[0].dir), policy[64] = "";
    struct store_opts o = store_opts_default(path);
    struct store_query q = {.newest_first = true, .limit = 1};
    struct store *s;
    struct err e;
    o.read_only = true;
    assert_ok(store_open(&o, &s, &e), &e);
    assert_ok(store_decisions(s, &q, take_policy, policy, &e), &e);
    store_close(s);
    mem_free(path);
    assert_string_equal(policy, want);
}

TEST(a_changed_configuration_is_taken_over_and_a_wrong_one_refused)
{
    struct live_world w;
    live_world_start(&w, "single", "policy: rules\n", NULL);
    live_world_target(&w, "chat", 4, 20, "");
    live_world_up(&w, 0);
    rounds(&w, "chat", 900, 20);
    assert_policy(&w, "hpa");
    change_config(&w, "policy: rules", "policy: mpc");
    rounds(&w, "chat", 300, 30);
    assert_policy(&w, "mpc");
    change_config(&w, "policy: mpc", "policy: nonsense");
    rounds(&w, "chat", 1200, 30);
    assert_policy(&w, "mpc");
    change_config(&w, "policy: nonsense", "policy: rules\nguard: {cooldown_in: 6min}");
    rounds(&w, "chat", 1900, 40);
    assert_policy(&w, "hpa");
    live_world_stop(&w);
}

TEST(a_second_capacity_target_on_a_workload_takes_nothing_from_the_first)
{
    struct live_world w;
    begin(&w);
    apiserver_must_load(w.api, "apiVersion: sluice.dev/v1alpha1\nkind: CapacityTarget\n"
                               "metadata: {name: second, namespace: shop, creationTimestamp: \"2099-01-01T00:00:00Z\"}\n"
                               "spec: {maxUnits: 3, scaleTargetRef: {apiVersion: apps/v1, kind: Deployment, name: chat}}\n");
    rounds(&w, "chat", 1500, 40);
    assert_true(live_world_units(&w, "chat") > 10);
    live_world_stop(&w);
}

static bool count_freezes(void *ctx, const struct store_note *n)
{
    *(int *)ctx += n->kind == STORE_NOTE_FREEZE && strcmp(n->author, "ann") == 0;
    return true;
}

TEST(a_freeze_is_noted_in_the_record)
{
    struct live_world w;
    const char *word = "{\"author\":\"ann\",\"reason\":\"test\",\"source\":\"endpoint\",\"time\":\"2026-01-01T00:00:00Z\"}";
    struct err e;
    live_world_start(&w, "observe", "policy: rules\n", NULL);
    assert_ok(file_make_dirs(w.seat[0].dir, &e), &e);
    test_write_file(test_path("%s/frozen", w.seat[0].dir), word, strlen(word));
    live_world_up(&w, 0);
    live_world_round(&w);
    char *path = store_path_default(w.seat[0].dir);
    struct store_opts o = store_opts_default(path);
    struct store *s;
    int n = 0;
    o.read_only = true;
    assert_ok(store_open(&o, &s, &e), &e);
    assert_ok(store_notes(s, 0, INT64_MAX, count_freezes, &n, &e), &e);
    store_close(s);
    mem_free(path);
    assert_int_equal(n, 1);
    live_world_stop(&w);
}

static bool count_note(void *ctx, const struct store_note *n)
{
    *(int *)ctx += n->kind == STORE_NOTE_PROMOTE;
    return true;
}

TEST(a_note_is_written_beside_a_running_daemon_and_no_round_is_lost_for_it)
{
    struct live_world w;
    struct store *s;
    struct err e;
    int notes = 0;
    begin(&w);
    struct store_opts o = store_opts_default(test_path("%s/sluice.db", w.seat[0].dir));
    assert_err(store_open(&o, &s, &e), ERR_IO, &e, "written by another process");
    o.beside = true;
    assert_ok(store_open(&o, &s, &e), &e);
    for (int i = 0; i < 20; i++) {
        struct store_note n = {.time_us = w.now_us, .kind = STORE_NOTE_PROMOTE, .author = "ann", .text = "better"};
        assert_ok(store_put_note(s, &n, &e), &e);
        rounds(&w, "chat", 1500, 1);
    }
    assert_ok(store_notes(s, 0, INT64_MAX, count_note, &notes, &e), &e);
    store_close(s);
    assert_int_equal(notes, 20);
    assert_true(live_world_units(&w, "chat") > 2); /* what is not stored is not acted on */
    live_world_stop(&w);
}

/* ---- who else? -------------------------------------------------------------------------------- */

static const char *const KEDA_CRD_PATH = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/scaledobjects.keda.sh";

static const char *const OWN_PATH = "/apis/sluice.dev/v1alpha1/namespaces/shop/capacitytargets/chat";

static void assert_says(struct live_world *w, const char *text)
{
    char *got = apiserver_field(w->api, OWN_PATH, "status.conditions");
    if (!got || !strstr(got, text))
        fail_msg("conditions say \"%s\", without \"%s\"", got ? got : "", text);
    mem_free(got);
}

/* Without the right to read what exists nobody knows whose a target is; what does not exist owns nothing. */
TEST(owners_that_may_not_be_read_hold_every_action_and_owners_that_do_not_exist_hold_none)
{
    struct live_world w;
    live_world_start(&w, "single", "policy: rules\n", NULL);
    apiserver_must_load(w.api, keda_definition());
    live_world_target(&w, "chat", 2, 20, "");
    int id = apiserver_fault(w.api, &(struct apiserver_fault){.kind = APISERVER_STATUS, .path = "/scaledobjects",
                                                              .status = 403});
    live_world_up(&w, 0);
    rounds(&w, "chat", 100, 6);
    assert_int_equal(live_world_get(&w, 0, "/readyz", NULL), 200); /* it decides and answers */
    rounds(&w, "chat", 1500, 20);
    assert_int_equal(live_world_units(&w, "chat"), 2);
    assert_says(&w, "OwnersUnknown");
    assert_says(&w, "scaledobjects.keda.sh are not listed yet");
    apiserver_clear(w.api, id); /* the right is granted */
    assert_scales_out(&w);
    assert_says(&w, "NoOtherOwner");
    live_world_stop(&w);
}

TEST(a_server_that_fails_after_it_refused_has_not_said_that_there_are_no_owners)
{
    struct live_world w;
    live_world_start(&w, "single", "policy: rules\n", NULL);
    live_world_target(&w, "chat", 2, 20, "");
    struct apiserver_fault refuses = {.kind = APISERVER_STATUS, .path = "/apis/keda.sh/v1alpha1", .status = 403};
    struct apiserver_fault fails = refuses;
    fails.status = 503;
    int id = apiserver_fault(w.api, &refuses);
    live_world_up(&w, 0);
    rounds(&w, "chat", 100, 6);
    rounds(&w, "chat", 1500, 6);
    assert_says(&w, "OwnersUnknown");
    apiserver_clear(w.api, id);
    id = apiserver_fault(w.api, &fails);
    rounds(&w, "chat", 1500, 20); /* five probes */
    assert_says(&w, "OwnersUnknown");
    assert_int_equal(live_world_units(&w, "chat"), 2);
    apiserver_clear(w.api, id); /* 404: there is no such owner */
    assert_scales_out(&w);
    live_world_stop(&w);
}

TEST(an_owner_whose_definition_is_deleted_and_made_again_is_forgotten_and_found)
{
    struct live_world w;
    live_world_start(&w, "single", "policy: rules\n", NULL);
    apiserver_must_load(w.api, keda_definition());
    apiserver_must_load(w.api, "apiVersion: keda.sh/v1alpha1\nkind: ScaledObject\n"
                               "metadata: {name: theirs, namespace: shop}\nspec: {scaleTargetRef: {name: chat}}\n");
    live_world_target(&w, "chat", 2, 20, "");
    live_world_up(&w, 0);
    rounds(&w, "chat", 1500, 20);
    assert_int_equal(live_world_units(&w, "chat"), 2);
    assert_says(&w, "ScaledObject shop/theirs");
    assert_int_equal(apiserver_call(w.api, "DELETE", KEDA_CRD_PATH, NULL, NULL, NULL), 200);
    apiserver_cut_watches(w.api);
    rounds(&w, "chat", 1500, 30);
    assert_true(live_world_units(&w, "chat") > 2);
    int units = live_world_units(&w, "chat");
    rounds(&w, "chat", 100, 2);
    apiserver_must_load(w.api, keda_definition());
    apiserver_must_load(w.api, "apiVersion: keda.sh/v1alpha1\nkind: ScaledObject\n"
                               "metadata: {name: theirs, namespace: shop}\nspec: {scaleTargetRef: {name: chat}}\n");
    rounds(&w, "chat", 80.0 * units * 0.6, 8);
    assert_says(&w, "ScaledObject shop/theirs");
    live_world_stop(&w);
}

/* ---- while something hangs -------------------------------------------------------------------- */

static void load_odd_target(struct live_world *w)
{
    apiserver_must_load(w->api, "apiVersion: sluice.dev/v1alpha1\nkind: CapacityTarget\n"
                                "metadata: {name: odd, namespace: shop}\nspec: {maxUnits: 9, scaleTargetRef: "
                                "{apiVersion: machines.example.com/v1, kind: MachineSet, name: odd}}\n");
}

TEST(rounds_go_on_while_the_look_up_of_a_further_kind_hangs)
{
    struct live_world w;
    begin(&w);
    (void)apiserver_fault(w.api, &(struct apiserver_fault){.kind = APISERVER_LATENCY, .path = "/apis/machines.example.com",
                                                           .latency_us = 60 * US_PER_S});
    load_odd_target(&w);
    int64_t from_us = clock_mono_us();
    rounds(&w, "chat", 1500, 12);
    assert_true(live_world_units(&w, "chat") > 2);
    assert_true(clock_mono_us() - from_us < 8 * US_PER_S); /* less than one time-out of a request */
    live_world_stop(&w);
}

/* The second run of the plugin never ends; the credentials of the first last for half a minute more. */
static void log_in_by_a_slow_plugin(struct live_world *w)
{
    const char *plugin = test_path("%s/slow-plugin", test_tmp_dir());
    const char *text = test_path(
        "#!/bin/sh\n[ -e %s.ran ] && sleep 1000\ntouch %s.ran\n"
        "echo '{\"kind\":\"ExecCredential\",\"apiVersion\":\"client.authentication.k8s.io/v1\",\"status\":{\"token\":\"r0\","
        "\"expirationTimestamp\":\"'$(date -u -d '+30 seconds' +%%Y-%%m-%%dT%%H:%%M:%%SZ)'\"}}'\n", plugin, plugin);
    test_write_file(plugin, text, strlen(text));
    (void)chmod(plugin, 0700);
    text = test_path("current-context: a\ncontexts: [{name: a, context: {cluster: a, user: a}}]\n"
                     "clusters: [{name: a, cluster: {server: '%s'}}]\n"
                     "users: [{name: a, user: {exec: {apiVersion: client.authentication.k8s.io/v1, command: %s}}}]\n",
                     apiserver_url(w->api), plugin);
    test_write_file(w->seat[0].kubeconfig, text, strlen(text));
}

TEST(rounds_go_on_while_a_credential_plugin_hangs)
{
    struct live_world w;
    live_world_start(&w, "single", "policy: rules\n", NULL);
    live_world_target(&w, "chat", 2, 20, "");
    log_in_by_a_slow_plugin(&w);
    live_world_up(&w, 0);
    int64_t from_us = clock_mono_us();
    rounds(&w, "chat", 100, 6);
    rounds(&w, "chat", 1500, 12);
    assert_true(live_world_units(&w, "chat") > 2);
    live_world_down(&w, 0);
    assert_true(clock_mono_us() - from_us < 8 * US_PER_S); /* a plugin is given 20 s */
    live_world_stop(&w);
}

/* ---- an hour of real operation ---------------------------------------------------------------- */

static const char *const OWN_CRD_PATH =
    "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/capacitytargets.sluice.dev";

TEST(our_definition_may_be_deleted_and_made_again_under_a_running_daemon)
{
    struct live_world w;
    struct err e;
    begin(&w);
    assert_int_equal(apiserver_call(w.api, "DELETE", OWN_CRD_PATH, NULL, NULL, NULL), 200);
    apiserver_cut_watches(w.api);
    rounds(&w, "chat", 1500, 10); /* there is nobody to act for */
    assert_int_equal(live_world_units(&w, "chat"), 2);
    assert_ok(apiserver_load_file(w.api, "deploy/crd/capacitytargets.yaml", &e), &e);
    live_world_target(&w, "chat", 2, 20, "");
    rounds(&w, "chat", 100, 8);
    assert_scales_out(&w);
    live_world_stop(&w);
}

TEST(a_target_deleted_while_its_intent_is_open_leaves_nothing_behind_and_the_others_go_on)
{
    struct live_world w;
    live_world_start(&w, "single", "policy: rules\n", NULL);
    live_world_target(&w, "chat", 2, 20, "");
    live_world_target(&w, "mail", 2, 20, "");
    live_world_up(&w, 0);
    rounds(&w, "chat", 100, 6);
    int id = apiserver_fault(w.api, &(struct apiserver_fault){.kind = APISERVER_CUT, .method = "PUT",
                                                              .path = "deployments/chat/scale"});
    for (int i = 0; i < 12 && !apiserver_hits(w.api, id); i++)
        rounds(&w, "chat", 1500, 1);
    assert_true(apiserver_hits(w.api, id) > 0); /* its size was asked for, and nobody knows */
    assert_int_equal(apiserver_call(w.api, "DELETE", OWN_PATH, NULL, NULL, NULL), 200);
    apiserver_clear(w.api, id);
    for (int i = 0; i < 20; i++) {
        live_world_demand(&w, "mail", 1500);
        live_world_round(&w);
    }
    assert_int_equal(live_world_units(&w, "chat"), 2);
    assert_true(live_world_units(&w, "mail") > 2);
    live_world_target(&w, "chat", 2, 20, ""); /* another of the same name: another uid */
    rounds(&w, "chat", 100, 8);
    assert_scales_out(&w);
    live_world_stop(&w);
}

TEST(everything_of_a_namespace_may_go_at_once)
{
    static const char *const paths[] = {"/apis/apps/v1/namespaces/shop/deployments/chat",
                                        "/apis/sluice.dev/v1alpha1/namespaces/shop/capacitytargets/chat"};
    struct live_world w;
    begin(&w);
    for (size_t i = 0; i < ARRAY_LEN(paths); i++) {
        assert_int_equal(apiserver_call(w.api, "DELETE", paths[i], NULL, NULL, NULL), 200);
        rounds(&w, "chat", 1500, 4);
    }
    assert_int_equal(live_world_get(&w, 0, "/readyz", NULL), 200);
    live_world_target(&w, "chat", 2, 20, "");
    rounds(&w, "chat", 100, 8);
    assert_scales_out(&w);
    live_world_stop(&w);
}

TEST(more_units_than_the_maximum_are_brought_down_to_it_and_never_added_to)
{
    struct live_world w;
    live_world_start(&w, "single", "policy: rules\n", NULL);
    live_world_target(&w, "chat", 10, 6, "");
    live_world_up(&w, 0);
    int before = 10;
    for (int i = 0; i < 80; i++) {
        rounds(&w, "chat", 300, 1);
        int units = live_world_units(&w, "chat");
        assert_true(units <= before);
        before = units;
    }
    assert_true(before >= 1 && before <= 6);
    live_world_stop(&w);
}

TEST(a_rotated_token_is_read_again_when_the_old_one_is_refused)
{
    static const struct apiserver_rule all[] = {{"*", "*", "*", NULL}};
    struct live_world w;
    live_world_start(&w, "single", "policy: rules\n", NULL);
    live_world_target(&w, "chat", 2, 20, "");
    const char *token = test_path("%s/rotated-token", test_tmp_dir());
    const char *text = test_path("current-context: a\ncontexts: [{name: a, context: {cluster: a, user: a}}]\n"
                                 "clusters: [{name: a, cluster: {server: '%s'}}]\nusers: [{name: a, user: {tokenFile: %s}}]\n",
                                 apiserver_url(w.api), token);
    test_write_file(w.seat[0].kubeconfig, text, strlen(text));
    test_write_file(token, "r0", 2);
    live_world_up(&w, 0);
    rounds(&w, "chat", 100, 6);
    apiserver_token(w.api, "next", "r0", all, ARRAY_LEN(all));
    test_write_file(token, "next", 4);
    apiserver_revoke(w.api, "r0");
    apiserver_cut_watches(w.api);
    assert_scales_out(&w);
    live_world_stop(&w);
}
