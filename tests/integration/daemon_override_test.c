/* Overrides: from the command into the target's status, over a change of leaders, and out again by
 * themselves. */
#include <string.h>

#include "base/clock.h"
#include "base/mem.h"
#include "daemon/rights.h"
#include "daemon/shared.h"
#include "tests/live/live_world.h"
#include "tests/support/test.h"

#define TARGET "/apis/sluice.dev/v1alpha1/namespaces/shop/capacitytargets/chat"

static void rounds(struct live_world *w, double qps, int n)
{
    for (int i = 0; i < n; i++) {
        live_world_demand(w, "chat", qps);
        live_world_round(w);
    }
}

static struct command to_units(int units, int64_t for_us)
{
    return (struct command){.kind = COMMAND_OVERRIDE,
                            .ns = "shop",
                            .name = "chat",
                            .units = units,
                            .for_us = for_us,
                            .author = "ann",
                            .reason = "launch"};
}

static const struct command clear = {
    .kind = COMMAND_OVERRIDE_CLEAR, .ns = "shop", .name = "chat", .author = "ann"};

/* Gives a command and turns the daemons until it is answered. */
static struct command_answer give(struct live_world *w, int replica, struct command c)
{
    struct command_answer a = {0};
    struct shared *s = daemon_shared(w->daemon[replica]);
    int64_t until_us = clock_mono_us() + 10 * US_PER_S;
    assert_true(shared_command_send(s, &c, &a));
    while (!shared_command_settled(s, c.id, &a)) {
        live_world_turn(w);
        if (clock_mono_us() > until_us)
            fail_msg("the command was not answered");
    }
    return a;
}

static void assert_answer(struct command_answer a, enum command_result want, const char *words)
{
    if (a.result != want || !strstr(a.text, words))
        fail_msg("answered %d \"%s\", expected %d \"%s\"", (int)a.result, a.text, (int)want, words);
}

static void assert_field(struct live_world *w, const char *field, const char *want)
{
    char *got = apiserver_field(w->api, TARGET, field);
    if (!want)
        assert_null(got);
    else if (!got || strcmp(got, want) != 0)
        fail_msg("%s is %s, expected %s", field, got ? got : "absent", want);
    mem_free(got);
}

static void start(struct live_world *w, const char *more)
{
    live_world_start(w, "single", "policy: rules\n", NULL);
    live_world_target(w, "chat", 4, 20, more);
    live_world_up(w, 0);
    rounds(w, 200, 6);
    apiserver_forget(w->api);
}

TEST(an_override_is_answered_when_it_is_in_the_status_and_nothing_else_was_changed)
{
    struct live_world w;
    start(&w, "");
    assert_answer(give(&w, 0, to_units(9, 3600 * US_PER_S)), COMMAND_DONE, "status");
    assert_field(&w, "status.override.units", "9");
    assert_field(&w, "status.override.author", "ann");
    assert_field(&w, "status.override.reason", "launch");
    assert_field(&w, "spec.override", NULL);
    assert_int_equal(apiserver_counted(w.api, "patch", "capacitytargets", false), 0);
    rounds(&w, 200, 4);
    assert_int_equal(live_world_units(&w, "chat"), 9);
    assert_field(&w, "status.safety.state", "Overridden");
    rounds(&w, 200, 40); /* idle: rules alone would scale in */
    assert_int_equal(live_world_units(&w, "chat"), 9);
    live_world_stop(&w);
}

TEST(the_next_leader_goes_on_with_an_override_and_it_ends_by_itself)
{
    struct live_world w;
    start(&w, "");
    live_world_up(&w, 1);
    assert_answer(give(&w, 0, to_units(9, 600 * US_PER_S)), COMMAND_DONE, "");
    live_world_down(&w, 0); /* before any round acted on it */
    w.leader = 1;
    rounds(&w, 200, 20);
    assert_int_equal(live_world_units(&w, "chat"), 9);
    assert_field(&w, "status.override.units", "9");
    rounds(&w, 200, 25); /* past its ten minutes */
    assert_field(&w, "status.override", NULL);
    rounds(&w, 200, 120);
    assert_in_range(live_world_units(&w, "chat"), 1, 8); /* the rules again */
    live_world_stop(&w);
}

TEST(an_override_is_cleared_and_a_stated_one_below_it_shows_again)
{
    struct live_world w;
    start(&w, "  override: {units: 6, until: '2099-01-01T00:00:00Z', author: git}\n");
    rounds(&w, 200, 4);
    assert_int_equal(live_world_units(&w, "chat"), 6);
    assert_answer(give(&w, 0, to_units(9, 3600 * US_PER_S)), COMMAND_DONE, "");
    rounds(&w, 200, 20);
    assert_int_equal(live_world_units(&w, "chat"), 9);
    assert_answer(give(&w, 0, clear), COMMAND_DONE,
                  "spec.override of the CapacityTarget still fixes the size");
    assert_field(&w, "status.override", NULL);
    rounds(&w, 200, 80);
    assert_int_equal(live_world_units(&w, "chat"), 6);
    live_world_stop(&w);
}

TEST(an_override_that_cannot_be_is_refused_and_says_why)
{
    struct live_world w;
    start(&w, "");
    live_world_up(&w, 1);
    rounds(&w, 200, 2);
    assert_answer(give(&w, 0, to_units(21, US_PER_S)), COMMAND_REFUSED,
                  "units: 21 is outside 0..20; maxUnits of the CapacityTarget");
    assert_answer(give(&w, 0, to_units(-1, US_PER_S)), COMMAND_REFUSED,
                  "units: -1 is outside 0..20");
    assert_answer(give(&w, 1, to_units(5, US_PER_S)), COMMAND_NOT_LEADER, "does not lead");
    struct command c = to_units(5, US_PER_S);
    (void)snprintf(c.name, sizeof c.name, "nobody");
    assert_answer(give(&w, 0, c), COMMAND_NO_TARGET, "no target shop/nobody");
    assert_field(&w, "status.override", NULL);
    (void)apiserver_fault(w.api, &(struct apiserver_fault){.kind = APISERVER_STATUS,
                                                           .method = "PATCH",
                                                           .path = "capacitytargets/chat/status",
                                                           .status = 403});
    assert_answer(give(&w, 0, to_units(5, US_PER_S)), COMMAND_REFUSED, "403");
    apiserver_clear(w.api, 0);
    assert_field(&w, "status.override", NULL);
    live_world_stop(&w);
}

TEST(an_override_under_the_least_size_says_what_will_be_done)
{
    static const struct {
        int units;
        const char *text;
    } cases[] = {{2, "; 2 is below minUnits (3): it is held all the same until it ends, then raised to 3"},
                 {4, "; 4 is below minSafeUnits (5): it is held all the same until it ends"}};
    struct live_world w;
    live_world_start(&w, "single", "policy: rules\n", NULL);
    live_world_target(&w, "chat", 6, 20, "");
    assert_int_equal(apiserver_call(w.api, "PATCH", TARGET, NULL, "{\"spec\":{\"minUnits\":3,\"minSafeUnits\":5}}", NULL), 200);
    live_world_up(&w, 0);
    rounds(&w, 200, 6);
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        assert_answer(give(&w, 0, to_units(cases[i].units, 3600 * US_PER_S)), COMMAND_DONE, cases[i].text);
        rounds(&w, 200, 8);
        assert_int_equal(live_world_units(&w, "chat"), cases[i].units);
    }
    live_world_stop(&w);
}

TEST(an_override_in_observe_is_refused_since_nothing_is_written)
{
    struct live_world w;
    live_world_start(&w, "observe", "policy: rules\n", NULL);
    live_world_target(&w, "chat", 6, 20, "");
    live_world_up(&w, 0);
    rounds(&w, 200, 4);
    assert_answer(give(&w, 0, to_units(5, 3600 * US_PER_S)), COMMAND_REFUSED, "the stage is observe");
    live_world_stop(&w);
}

TEST(an_override_survives_conflicts_and_lost_answers)
{
    static const struct apiserver_fault faults[] = {
        {.kind = APISERVER_STATUS, .status = 409, .count = 2},
        {.kind = APISERVER_AFTER, .status = 504, .count = 1},
        {.kind = APISERVER_CUT_AFTER, .count = 1},
    };
    struct live_world w;
    start(&w, "");
    for (size_t i = 0; i < ARRAY_LEN(faults); i++) {
        struct apiserver_fault f = faults[i];
        f.method = "PATCH";
        f.path = "capacitytargets/chat/status";
        int id = apiserver_fault(w.api, &f);
        assert_answer(give(&w, 0, to_units(10 + (int)i, 3600 * US_PER_S)), COMMAND_DONE, "");
        assert_int_equal(apiserver_hits(w.api, id), f.count);
        assert_int_equal(apiserver_number(w.api, TARGET, "status.override.units", -1), 10 + (int)i);
    }
    live_world_stop(&w);
}

TEST(an_override_whose_answer_is_lost_for_good_is_not_said_to_have_changed_nothing)
{
    static const struct apiserver_fault refused = {
        .kind = APISERVER_STATUS, .status = 422, .method = "PATCH", .path = "capacitytargets/chat/status", .count = 1};
    static const struct apiserver_fault lost = {
        .kind = APISERVER_CUT_AFTER, .method = "PATCH", .path = "capacitytargets/chat/status", .count = 1};
    static const struct apiserver_fault unread = {
        .kind = APISERVER_STATUS, .status = 500, .method = "GET", .path = "capacitytargets/chat"};
    struct live_world w;
    start(&w, "");
    (void)apiserver_fault(w.api, &refused);
    assert_answer(give(&w, 0, to_units(9, 3600 * US_PER_S)), COMMAND_REFUSED, "");
    (void)apiserver_fault(w.api, &lost);
    int id = apiserver_fault(w.api, &unread);
    assert_answer(give(&w, 0, to_units(9, 3600 * US_PER_S)), COMMAND_UNANSWERED, "");
    apiserver_clear(w.api, id);
    assert_field(&w, "status.override.units", "9"); /* it did take effect */
    live_world_stop(&w);
}

/* The verbs of one row, comma separated. */
static const char *commas(const char *verbs, char out[64])
{
    (void)snprintf(out, 64, "%s", verbs);
    for (char *p = out; *p; p++)
        if (*p == ' ')
            *p = ',';
    return out;
}

TEST(the_account_of_the_stage_suffices_to_override)
{
    enum { MOST = 64 };
    struct apiserver_rule rules[MOST];
    char verbs[MOST][64], resources[MOST][96];
    struct live_world w;
    struct err e;
    size_t n = 0;
    for (size_t i = 0; i < n_rights && n < MOST; i++) {
        const struct right *r = &rights[i];
        if (r->from > STAGE_SINGLE)
            continue;
        (void)snprintf(resources[n], sizeof resources[n], "%s%s%s", r->resource,
                       r->subresource ? "/" : "", r->subresource ? r->subresource : "");
        rules[n] =
            (struct apiserver_rule){commas(r->verbs, verbs[n]), r->group, resources[n], NULL};
        n++;
    }
    live_world_start(&w, "single", "policy: rules\n", NULL);
    apiserver_token(w.api, "pod", "system:serviceaccount:sluice:sluice", rules, n);
    assert_ok(apiserver_kubeconfig(w.api, w.seat[0].kubeconfig, "pod", &e), &e);
    live_world_target(&w, "chat", 4, 20, "");
    live_world_up(&w, 0);
    rounds(&w, 200, 6);
    assert_answer(give(&w, 0, to_units(9, 3600 * US_PER_S)), COMMAND_DONE, "status");
    rounds(&w, 200, 4);
    assert_int_equal(live_world_units(&w, "chat"), 9);
    assert_answer(give(&w, 0, clear), COMMAND_DONE, "cleared");
    live_world_stop(&w);
}

TEST(a_breaker_is_closed_by_a_person_when_the_status_says_so)
{
    static const struct command reset = {
        .kind = COMMAND_BREAKER_RESET, .ns = "shop", .name = "chat", .author = "ann"};
    struct live_world w;
    start(&w, "");
    apiserver_registry_down(w.api, true);
    rounds(&w, 1500, 60); /* units asked for that never become ready: 15 min */
    assert_field(&w, "status.safety.state", "BreakerOpen");
    apiserver_registry_down(w.api, false);
    assert_answer(give(&w, 0, reset), COMMAND_DONE, "closed");
    assert_field(&w, "status.safety.breakerUntil", NULL);
    live_world_stop(&w);
}

TEST(a_size_under_the_owner_s_least_is_raised_when_the_override_ends_though_nothing_is_measured)
{
    struct live_world w;
    start(&w, "");
    assert_answer(give(&w, 0, to_units(0, 3600 * US_PER_S)), COMMAND_DONE, "status");
    rounds(&w, 0, 8);
    assert_int_equal(live_world_units(&w, "chat"), 0);
    fake_prometheus_clear(w.prom); /* no unit, no metrics */
    assert_answer(give(&w, 0, clear), COMMAND_DONE, "cleared");
    for (int i = 0; i < 12; i++)
        live_world_round(&w);
    assert_true(live_world_units(&w, "chat") >= 1);
    live_world_stop(&w);
}
