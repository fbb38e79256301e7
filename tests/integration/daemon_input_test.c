/* Bad input from both servers, as the whole daemon meets it: what cannot be believed holds the size and says why. */
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include "base/clock.h"
#include "base/json.h"
#include "base/log.h"
#include "base/mem.h"
#include "kube/client.h"
#include "tests/live/live_world.h"
#include "tests/support/test.h"

#define TARGET_PATH "/apis/sluice.dev/v1alpha1/namespaces/shop/capacitytargets/chat"

enum { WARM_ROUNDS = 8, ROUNDS = 20 };

struct site {
    struct live_world w;
    struct log *log;
    FILE *out;
};

static void site_open(struct site *s, const char *extra)
{
    s->out = tmpfile();
    assert_non_null(s->out);
    s->log = log_new(s->out, LOG_INFO);
    live_world_start(&s->w, "single", test_path("policy: rules\n%s", extra), NULL);
    s->w.log = s->log;
}

static void site_close(struct site *s)
{
    live_world_stop(&s->w);
    log_free(s->log);
    (void)fclose(s->out);
}

static void rounds(struct live_world *w, double qps, int n)
{
    for (int i = 0; i < n; i++) {
        live_world_demand(w, "chat", qps);
        live_world_round(w);
    }
}

/* A target of 4 units that has served 200/s quietly. */
static void start_quietly(struct site *s)
{
    live_world_target(&s->w, "chat", 4, 20, "");
    live_world_up(&s->w, 0);
    rounds(&s->w, 200, WARM_ROUNDS);
    assert_int_equal(live_world_units(&s->w, "chat"), 4);
}

static bool logged(struct site *s, const char *text)
{
    char line[2048];
    rewind(s->out);
    while (fgets(line, sizeof line, s->out))
        if (strstr(line, text))
            return true;
    return false;
}

static void assert_status_says(struct site *s, const char *field, const char *text)
{
    char *got = apiserver_field(s->w.api, TARGET_PATH, field);
    if (!got || !strstr(got, text))
        fail_msg("%s is \"%s\", without \"%s\"", field, got ? got : "", text);
    mem_free(got);
}

static void must_hold(enum fake_fault fault, const char *query_error)
{
    struct site s;
    site_open(&s, "");
    start_quietly(&s);
    fake_prometheus_fault(s.w.prom, fault);
    rounds(&s.w, 1500, ROUNDS);
    assert_int_equal(live_world_units(&s.w, "chat"), 4);
    if (query_error && !logged(&s, query_error))
        fail_msg("the log does not say \"%s\"", query_error);
    fake_prometheus_fault(s.w.prom, FAKE_FINE);
    rounds(&s.w, 1500, ROUNDS);
    assert_true(live_world_units(&s.w, "chat") > 4); /* and goes on by itself */
    site_close(&s);
}

TEST(empty_vectors_hold_the_size)
{
    must_hold(FAKE_EMPTY, NULL);
}

TEST(two_samples_where_one_is_expected_hold_the_size_and_name_the_query)
{
    must_hold(FAKE_TWICE, "query=qps error=");
}

TEST(values_that_are_not_finite_hold_the_size)
{
    must_hold(FAKE_NAN, NULL);
}

TEST(answers_that_are_not_json_hold_the_size_and_name_the_query)
{
    must_hold(FAKE_GARBAGE, "query=qps error=");
}

TEST(answers_of_500_hold_the_size_and_name_the_query)
{
    must_hold(FAKE_500, "query=qps error=");
}

TEST(metrics_of_workloads_that_nobody_knows_change_nothing)
{
    struct site s;
    site_open(&s, "");
    start_quietly(&s);
    for (int i = 0; i < 200; i++)
        fake_prometheus_set(s.w.prom, "elsewhere", test_path("ghost-%d", i), FIELD_QPS, 1e6);
    fake_prometheus_set(s.w.prom, "shop", "chat-2", FIELD_QPS, 1e6);
    rounds(&s.w, 200, ROUNDS);
    assert_int_equal(live_world_units(&s.w, "chat"), 4);
    site_close(&s);
}

TEST(a_target_of_zero_units_is_decided_without_dividing_by_them)
{
    struct site s;
    site_open(&s, "");
    live_world_target(&s.w, "chat", 0, 20, "");
    live_world_up(&s.w, 0);
    rounds(&s.w, 0, ROUNDS);
    int units = live_world_units(&s.w, "chat");
    assert_true(units == 0 || units == 1); /* none, or the least that was asked for */
    site_close(&s);
}

TEST(all_units_unready_at_peak_never_shrink_and_stop_growing_at_the_breaker)
{
    struct site s;
    site_open(&s, "");
    start_quietly(&s);
    apiserver_registry_down(s.w.api, true); /* whatever starts from now on never gets ready */
    int before = 4, grown = 0;
    for (int i = 0; i < 60; i++) {
        rounds(&s.w, 1600, 1);
        int units = live_world_units(&s.w, "chat");
        assert_true(units >= before);
        grown += units - before;
        before = units;
    }
    assert_true(grown > 0);
    assert_true(grown <= 8); /* the step cap of five minutes; then the breaker: start-up takes a minute */
    assert_status_says(&s, "status.safety.state", "Breaker");
    site_close(&s);
}

TEST(a_clock_that_jumps_holds_until_its_window_is_whole_again)
{
    static const int64_t jumps_us[] = {2 * 3600 * US_PER_S, -2 * 3600 * US_PER_S};
    for (size_t i = 0; i < ARRAY_LEN(jumps_us); i++) {
        struct site s;
        site_open(&s, "");
        start_quietly(&s);
        s.w.skew_us[0] = jumps_us[i];
        live_world_demand(&s.w, "chat", 1500);
        live_world_turn(&s.w);
        assert_int_equal(live_world_units(&s.w, "chat"), 4);
        assert_true(logged(&s, "clock jumped"));
        rounds(&s.w, 1500, ROUNDS);
        int units = live_world_units(&s.w, "chat");
        assert_true(units >= 4 && units <= 20);
        site_close(&s);
    }
}

TEST(counters_that_go_back_are_no_negative_load)
{
    struct site s;
    site_open(&s, "");
    start_quietly(&s);
    for (int i = 0; i < ROUNDS; i++) { /* as a rate() over a reset may look to a recording rule gone wrong */
        live_world_demand(&s.w, "chat", i % 2 ? -500 : 200);
        live_world_round(&s.w);
        assert_true(live_world_units(&s.w, "chat") >= 4);
    }
    site_close(&s);
}

TEST(a_misspelt_policy_holds_its_target_and_says_so_where_its_owner_looks)
{
    struct site s;
    site_open(&s, "");
    live_world_target(&s.w, "chat", 4, 20, "  policy: rulse\n");
    live_world_target(&s.w, "mail", 4, 20, "");
    live_world_up(&s.w, 0);
    for (int i = 0; i < ROUNDS; i++) {
        live_world_demand(&s.w, "mail", 1500);
        rounds(&s.w, 1500, 1);
    }
    assert_int_equal(live_world_units(&s.w, "chat"), 4);
    assert_true(live_world_units(&s.w, "mail") > 4); /* others go on */
    assert_true(logged(&s, "rulse"));
    assert_status_says(&s, "status.conditions", "rulse");
    site_close(&s);
}

TEST(a_definition_that_appears_late_is_found)
{
    struct site s;
    struct err e;
    struct live_world *w = &s.w;
    site_open(&s, "");
    (void)apiserver_call(w->api, "DELETE", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/capacitytargets.sluice.dev",
                         NULL, NULL, NULL);
    live_world_up(w, 0);
    for (int i = 0; i < 4; i++)
        live_world_round(w);
    assert_ok(apiserver_load_file(w->api, "deploy/crd/capacitytargets.yaml", &e), &e);
    live_world_target(w, "chat", 4, 20, "");
    rounds(w, 200, WARM_ROUNDS);
    rounds(w, 1500, ROUNDS);
    assert_true(live_world_units(w, "chat") > 4);
    site_close(&s);
}

TEST(bodies_that_are_huge_or_no_json_from_the_api_server_are_survived)
{
    static const struct apiserver_fault faults[] = {
        {.kind = APISERVER_HUGE, .path = "/pods", .size = 64u << 20},
        {.kind = APISERVER_HUGE, .path = "capacitytargets", .size = 64u << 20},
        {.kind = APISERVER_HUGE, .path = "/scale", .size = 64u << 20},
        {.kind = APISERVER_GARBAGE},
        {.kind = APISERVER_GARBAGE, .method = "WATCH"},
        {.kind = APISERVER_HALF_BODY},
    };
    struct site s;
    site_open(&s, "");
    start_quietly(&s);
    for (size_t i = 0; i < ARRAY_LEN(faults); i++) {
        struct apiserver_fault f = faults[i];
        f.count = 6;
        int id = apiserver_fault(s.w.api, &f);
        apiserver_cut_watches(s.w.api);
        rounds(&s.w, 200, 3);
        apiserver_clear(s.w.api, id);
        assert_int_equal(live_world_units(&s.w, "chat"), 4);
    }
    rounds(&s.w, 1500, ROUNDS);
    assert_true(live_world_units(&s.w, "chat") > 4);
    site_close(&s);
}

/* Every pod's readiness probe fails from now on. */
static void lose_readiness(struct live_world *w)
{
    struct json_doc *doc;
    struct err e;
    char *list = apiserver_get(w->api, "/api/v1/namespaces/shop/pods");
    assert_non_null(list);
    assert_ok(json_parse(list, strlen(list), 1 << 24, "pods", &doc, &e), &e);
    const struct json *items = json_find(json_root(doc), "items");
    for (const struct json *p = json_first(items); p; p = json_next(p)) {
        const char *name = json_text(json_find(json_find(p, "metadata"), "name"));
        char stamp[KUBE_TIME_TEXT];
        kube_time_format(apiserver_now_us(w->api), stamp);
        int status = apiserver_call(w->api, "PATCH", test_path("/api/v1/namespaces/shop/pods/%s/status", name),
                                    "application/merge-patch+json",
                                    test_path("{\"status\":{\"conditions\":[{\"type\":\"Ready\",\"status\":\"False\","
                                              "\"lastTransitionTime\":\"%.19sZ\"}]}}", stamp), NULL);
        assert_int_equal(status, 200);
    }
    json_free(doc);
    mem_free(list);
}

static double metric_of(struct site *s, const char *name)
{
    struct buf text = buf_init(16 << 20);
    assert_int_equal(live_world_get(&s->w, 0, "/metrics", &text), 200);
    const char *at = strstr(text.p, name);
    const char *value = at ? strchr(at, '}') : NULL;
    double v = value ? strtod(value + 1, NULL) : NAN;
    buf_fini(&text);
    return v;
}

TEST(all_units_that_lose_readiness_at_peak_have_failed_and_are_neither_shrunk_nor_taken_for_a_failed_start)
{
    struct site s;
    site_open(&s, "");
    start_quietly(&s);
    lose_readiness(&s.w);
    rounds(&s.w, 200, 1);
    assert_near(metric_of(&s, "sluice_target_units{namespace=\"shop\",target=\"chat\",state=\"failed\""), 4, 0, 0);
    int before = 4;
    for (int i = 0; i < 40; i++) {
        rounds(&s.w, 1600, 1);
        int units = live_world_units(&s.w, "chat");
        assert_true(units >= before);
        before = units;
    }
    assert_true(before <= 12); /* hpa asks for nothing on units that are not ready */
    assert_status_says(&s, "status.safety.state", "Normal");
    site_close(&s);
}

/* ---- the disk ----------------------------------------------------------------------------------- */

/* No file of this process may grow. */
static void disk_full(bool full)
{
    struct rlimit r;
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &r), 0);
    r.rlim_cur = full ? 0 : r.rlim_max;
    (void)signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &r), 0);
}

static size_t times_logged(const char *log, const char *text)
{
    size_t n = 0;
    for (const char *at = log; (at = strstr(at, text)); at++)
        n++;
    return n;
}

TEST(a_full_disk_is_told_at_once_then_every_five_minutes_and_its_end_too)
{
    struct live_world w;
    char *text = NULL;
    size_t n = 0;
    FILE *out = open_memstream(&text, &n); /* the log does not lie on the full disk */
    struct log *log = log_new(out, LOG_INFO);
    live_world_start(&w, "single", "policy: rules\n", NULL);
    w.log = log;
    live_world_target(&w, "chat", 4, 20, "");
    live_world_up(&w, 0);
    rounds(&w, 200, WARM_ROUNDS);
    disk_full(true);
    rounds(&w, 200, 10);
    (void)fflush(out);
    assert_int_equal(times_logged(text, "round is not kept"), 1);
    rounds(&w, 200, 50); /* a quarter of an hour in all */
    disk_full(false);
    rounds(&w, 200, 2);
    (void)fflush(out);
    assert_in_range(times_logged(text, "round is not kept"), 3, 4);
    assert_int_equal(times_logged(text, "rounds are kept again\" lost="), 1);
    assert_in_range(times_logged(text, "error "), 3, 4); /* and nothing else complains every round */
    live_world_stop(&w);
    log_free(log);
    (void)fclose(out);
    free(text);
}
