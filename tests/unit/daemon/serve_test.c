/* serve_test.c - what the endpoints answer when they are asked properly. */
#include "daemon/serve.h"

#include <sys/stat.h>

#include "base/file.h"
#include "base/tz.h"
#include "tests/unit/daemon/serve_fixture.h"

static void publish(struct rig *r, enum shared_doc_id id, const char *const (*item)[3], size_t n)
{
    struct doc d;
    struct err e;
    doc_init(&d);
    for (size_t i = 0; i < n; i++) {
        doc_item(&d, item[i][0], item[i][1]);
        buf_str(&d.text, item[i][2]);
    }
    assert_ok(shared_publish(r->shared, id, &d, &e), &e);
    doc_fini(&d);
}

/* The answer is one JSON document. */
static void assert_json(const struct rig *r)
{
    struct json_doc *doc = NULL;
    struct err e;
    assert_ok(json_parse(r->reply.body.p, r->reply.body.n, 1 << 20, "answer", &doc, &e), &e);
    json_free(doc);
}

TEST(serve_health_is_open_and_good_while_the_loop_moves_whatever_else_is_wrong)
{
    static const char *const detail[][3] = {{"", "", "{\"policy_error\":\"chat: cannot load\"}"}};
    struct rig r;
    struct err e;
    rig_simple(&r, "health");
    assert_int_equal(rig_ask(&r, r.nobody, HTTP_GET, "/healthz", NULL), 200);
    assert_json(&r);
    rig_says(&r, "\"status\":\"ok\"");
    rig_says(&r, "\"ready\":false,\"unready\":\"starting\"");
    rig_says(&r, "\"detail\":null");
    publish(&r, SHARED_HEALTH, detail, 1);
    shared_set_leader(r.shared, false, "sluice-1");
    assert_ok(freeze_set(r.freeze, FREEZE_ENDPOINT, "ann", "", 0, &e), &e);
    assert_int_equal(rig_ask(&r, r.nobody, HTTP_GET, "/healthz", NULL), 200);
    assert_json(&r);
    rig_says(&r, "\"detail\":{\"policy_error\":\"chat: cannot load\"}");
    rig_says(&r,
             "\"leader\":false,\"holder\":\"sluice-1\",\"frozen\":true,\"freeze\":\"frozen by ann");
    rig_end(&r);
}

TEST(serve_health_fails_only_when_the_loop_stands_still)
{
    struct rig r;
    rig_simple(&r, "stuck");
    shared_beat(r.shared, clock_mono_us() - 46 * US_PER_S);
    assert_int_equal(rig_get(&r, "/healthz"), 503);
    rig_says(&r, "\"status\":\"stuck\",\"loop_silent_s\":46");
    shared_beat(r.shared, clock_mono_us());
    assert_int_equal(rig_get(&r, "/healthz"), 200);
    rig_end(&r);
}

TEST(serve_ready_says_what_is_missing)
{
    struct rig r;
    rig_simple(&r, "ready");
    assert_int_equal(rig_ask(&r, r.nobody, HTTP_GET, "/readyz", NULL), 503);
    rig_says(&r, "\"why\":\"starting\"");
    shared_set_unready(r.shared, NULL);
    assert_int_equal(rig_ask(&r, r.nobody, HTTP_GET, "/readyz", NULL), 200);
    assert_json(&r);
    shared_stop(r.shared);
    assert_int_equal(rig_ask(&r, r.nobody, HTTP_GET, "/readyz", NULL), 503);
    rig_says(&r, "stopping");
    rig_end(&r);
}

TEST(serve_metrics_want_authentication_unless_configured_open)
{
    struct rig r;
    rig_simple(&r, "metrics");
    assert_int_equal(rig_ask(&r, r.nobody, HTTP_GET, "/metrics", NULL), 401);
    assert_int_equal(rig_get(&r, "/metrics"), 200);
    assert_string_equal(r.reply.content_type, "text/plain");
    rig_says(&r, "\nsluice_frozen 0\n");
    rig_says(&r, "\nsluice_leader 0\n");
    rig_says(&r, "sluice_http_requests_total{endpoint=\"/metrics\",code=\"401\"} 1\n");
    rig_end(&r);

    struct serve_opts o = rig_opts(&r, "metrics-open");
    o.metrics_open = true;
    rig_start(&r, &o);
    assert_int_equal(rig_ask(&r, r.nobody, HTTP_GET, "/metrics", NULL), 200);
    assert_int_equal(rig_ask(&r, r.nobody, HTTP_GET, "/api/v1/targets", NULL), 401);
    rig_end(&r);
}

TEST(serve_targets_are_listed_and_found_one_by_one)
{
    static const char *const items[][3] = {{"prod", "chat", "{\"units\":3}"},
                                           {"prod", "code.v2", "{\"units\":5}"}};
    struct rig r;
    rig_simple(&r, "targets");
    assert_int_equal(rig_get(&r, "/api/v1/targets"), 503);
    rig_says(&r, "no decision round");
    assert_int_equal(rig_get(&r, "/api/v1/targets/prod/chat"), 503);
    publish(&r, SHARED_TARGETS, items, 2);
    assert_int_equal(rig_get(&r, "/api/v1/targets"), 200);
    assert_json(&r);
    rig_says(&r, "\"targets\":[\n{\"units\":3},\n{\"units\":5}]");
    assert_int_equal(rig_get(&r, "/api/v1/targets/prod/code.v2"), 200);
    assert_string_equal(r.reply.body.p, "{\"units\":5}\n");
    publish(&r, SHARED_TARGETS, items, 0);
    assert_int_equal(rig_get(&r, "/api/v1/targets"), 200);
    assert_json(&r);
    rig_end(&r);
}

TEST(serve_targets_unknown_or_misspelt_are_not_found)
{
    static const char *const items[][3] = {{"prod", "chat", "{}"}};
    static const char *const path[] = {
        "/api/v1/targets/prod/chatt",
        "/api/v1/targets/prod",
        "/api/v1/targets/prod/",
        "/api/v1/targets//chat",
        "/api/v1/targets/prod/chat/x",
        "/api/v1/targets/a%2Fb/c",
        "/api/v1/targets/"
        "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa/chat",
        "/api/v1/targets/prod/%00",
        "/api/v1/targets/",
    };
    struct rig r;
    rig_simple(&r, "unknown");
    publish(&r, SHARED_TARGETS, items, 1);
    for (size_t i = 0; i < ARRAY_LEN(path); i++) {
        int status = rig_get(&r, path[i]);
        if (status != 404 && status != 400)
            fail_msg("%s gave %d", path[i], status);
    }
    rig_end(&r);
}

TEST(serve_freeze_and_unfreeze_are_in_force_and_on_disk_with_a_loop_that_stands_still)
{
    struct rig r;
    rig_simple(&r, "freeze");
    int64_t t0 = clock_mono_us();
    assert_int_equal(rig_post(&r, "/api/v1/freeze", "{\"author\":\"ann\",\"reason\":\"fire\"}"),
                     200);
    assert_true(clock_mono_us() - t0 < 2 * US_PER_S);
    assert_true(freeze_on(r.freeze));
    rig_says(&r,
             "\"replica\":\"sluice-0\",\"result\":\"frozen\",\"frozen\":true,\"persisted\":true");
    rig_says(&r, "frozen by ann (endpoint) since ");
    assert_true(file_exists(test_path("%s/frozen", r.dir)));
    assert_int_equal(rig_get(&r, "/api/v1/freeze"), 200);
    rig_says(&r, "\"frozen\":true");
    rig_says(&r, ": fire\",\"person\":true,\"config\":false,\"cluster\":false,\"persisted\":true}");
    assert_int_equal(rig_post(&r, "/api/v1/unfreeze", "{\"author\":\"bob\"}"), 200);
    rig_says(&r, "\"result\":\"unfrozen\",\"frozen\":false");
    assert_false(freeze_on(r.freeze));
    assert_false(file_exists(test_path("%s/frozen", r.dir)));
    assert_int_equal(rig_post(&r, "/api/v1/freeze", NULL), 200); /* without any body */
    assert_true(freeze_on(r.freeze));
    rig_end(&r);
}

TEST(serve_freeze_with_a_body_that_cannot_be_read_freezes_all_the_same_and_says_so)
{
    static const char *const body[] = {"{", "[]", "\"now\"", "{\"speed\":1}", "{\"author\":7}"};
    struct rig r;
    struct err e;
    rig_simple(&r, "freeze-bad");
    for (size_t i = 0; i < ARRAY_LEN(body); i++) {
        assert_int_equal(rig_post(&r, "/api/v1/freeze", body[i]), 200);
        assert_json(&r);
        rig_says(&r, "could not be read from the body");
        assert_true(freeze_on(r.freeze));
        assert_ok(freeze_clear(r.freeze, FREEZE_ENDPOINT, "", "", 0, &e), &e);
        assert_int_equal(rig_post(&r, "/api/v1/unfreeze", body[i]), 400);
    }
    rig_end(&r);
}

TEST(serve_unfreeze_says_when_the_configuration_keeps_it_frozen)
{
    struct rig r;
    rig_simple(&r, "config");
    freeze_set_config(r.freeze, true);
    assert_int_equal(rig_post(&r, "/api/v1/unfreeze", NULL), 200);
    rig_says(&r, "\"result\":\"still frozen\",\"frozen\":true");
    rig_says(&r, "freeze: true in the configuration stays in force");
    rig_end(&r);
}

TEST(serve_freeze_that_cannot_be_kept_says_so_and_an_unfreeze_that_cannot_is_an_error)
{
    struct rig r;
    struct err e;
    rig_simple(&r, "unkept");
    assert_ok(file_make_dirs(test_path("%s/frozen/inside", r.dir), &e),
              &e); /* in the file's place */
    assert_int_equal(rig_post(&r, "/api/v1/freeze", NULL), 200);
    assert_true(freeze_on(r.freeze));
    rig_says(&r, "\"persisted\":false");
    rig_says(&r, "\"warning\":\"frozen, but not kept over a restart");
    assert_int_equal(rig_post(&r, "/api/v1/unfreeze", NULL), 500);
    rig_says(&r, "\"error\":\"still frozen");
    assert_true(freeze_on(r.freeze));
    rig_end(&r);
}

TEST(serve_override_reaches_the_loop_with_everything_that_was_said)
{
    struct rig r;
    rig_simple(&r, "override");
    rig_loop_start(&r, COMMAND_DONE);
    assert_int_equal(
        rig_post(&r, "/api/v1/override",
                 "{\"namespace\":\"prod\",\"name\":\"chat\",\"units\":12,\"for\":\"2h\","
                 "\"reason\":\"launch\",\"author\":\"ann\"}"),
        200);
    rig_says(&r, "\"result\":\"done\",\"message\":\"the loop says override\"");
    rig_loop_end(&r);
    assert_int_equal(r.last.kind, COMMAND_OVERRIDE);
    assert_string_equal(r.last.ns, "prod");
    assert_string_equal(r.last.name, "chat");
    assert_int_equal(r.last.units, 12);
    assert_int_equal(r.last.for_us, 2 * US_PER_HOUR);
    assert_int_equal(r.last.until_us, 0);
    assert_string_equal(r.last.author, "ann");
    assert_string_equal(r.last.reason, "launch");
    rig_end(&r);
}

TEST(serve_override_until_a_time_is_passed_on_as_that_time)
{
    struct rig r;
    char until[TZ_TEXT], body[300];
    int64_t at_us = (clock_wall_us() / US_PER_S + 3600) * US_PER_S;
    tz_format_rfc3339(NULL, at_us, until);
    (void)snprintf(
        body, sizeof body,
        "{\"namespace\":\"prod\",\"name\":\"chat\",\"units\":0,\"until\":\"%s\",\"reason\":\"r\"}",
        until);
    rig_simple(&r, "until");
    rig_loop_start(&r, COMMAND_DONE);
    assert_int_equal(rig_post(&r, "/api/v1/override", body), 200);
    rig_loop_end(&r);
    assert_int_equal(r.last.until_us, at_us);
    assert_int_equal(r.last.for_us, 0);
    assert_int_equal(r.last.units, 0);
    assert_string_equal(r.last.author, "token");
    rig_end(&r);
}

TEST(serve_other_commands_reach_the_loop)
{
    static const struct {
        const char *path, *body;
        enum command_kind kind;
        const char *name;
    } row[] = {
        {"/api/v1/override", "{\"namespace\":\"prod\",\"name\":\"chat\",\"clear\":true}",
         COMMAND_OVERRIDE_CLEAR, "chat"},
        {"/api/v1/breaker-reset", "{\"namespace\":\"prod\",\"name\":\"chat\"}",
         COMMAND_BREAKER_RESET, "chat"},
        {"/api/v1/release", "{\"namespace\":\"prod\",\"name\":\"chat\"}", COMMAND_RELEASE, "chat"},
        {"/api/v1/release", "{}", COMMAND_RELEASE, ""},
        {"/api/v1/release", NULL, COMMAND_RELEASE, ""},
    };
    struct rig r;
    rig_simple(&r, "others");
    for (size_t i = 0; i < ARRAY_LEN(row); i++) {
        rig_loop_start(&r, COMMAND_DONE);
        assert_int_equal(rig_post(&r, row[i].path, row[i].body), 200);
        rig_loop_end(&r);
        assert_int_equal(r.last.kind, row[i].kind);
        assert_string_equal(r.last.name, row[i].name);
    }
    rig_end(&r);
}

TEST(serve_what_the_loop_answers_becomes_a_status_with_advice)
{
    static const struct {
        enum command_result result;
        int status;
        const char *text;
    } row[] = {
        {COMMAND_REFUSED, 409, "\"error\":\"the loop says release\""},
        {COMMAND_UNANSWERED, 504, "may still take effect"},
        {COMMAND_NO_TARGET, 404, "/api/v1/targets"},
        {COMMAND_NOT_LEADER, 421, "Ask the leader"},
        {COMMAND_FULL, 503, "/healthz"},
        {COMMAND_STOPPING, 503, "other replica"},
    };
    struct rig r;
    rig_simple(&r, "results");
    for (size_t i = 0; i < ARRAY_LEN(row); i++) {
        rig_loop_start(&r, row[i].result);
        assert_int_equal(rig_post(&r, "/api/v1/release", NULL), row[i].status);
        assert_json(&r);
        rig_says(&r, row[i].text);
        rig_says(&r, "\"what_to_do\":");
        rig_loop_end(&r);
    }
    rig_end(&r);
}

TEST(serve_command_to_a_busy_loop_is_accepted_within_the_time_limit)
{
    struct rig r;
    struct serve_opts o = rig_opts(&r, "busy");
    o.wait_us = 50 * US_PER_MS;
    rig_start(&r, &o);
    int64_t t0 = clock_mono_us();
    assert_int_equal(rig_post(&r, "/api/v1/release", NULL), 202);
    assert_true(clock_mono_us() - t0 < 2 * US_PER_S);
    rig_says(&r, "\"result\":\"accepted\"");
    rig_says(&r, "not yet applied");
    rig_end(&r);
}

TEST(serve_head_is_a_get_without_a_body)
{
    struct rig r;
    char text[2048] = "";
    rig_simple(&r, "head");
    static const char head[] = "HEAD /healthz HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n";
    int fd = rig_dial("127.0.0.1", serve_port(r.serve));
    assert_int_equal(write(fd, head, sizeof head - 1), sizeof head - 1);
    size_t n = 0;
    for (ssize_t got; (got = read(fd, text + n, sizeof text - 1 - n)) > 0;)
        n += (size_t)got;
    assert_memory_equal(text, "HTTP/1.1 200", 12);
    assert_null(strstr(text, "status"));
    (void)close(fd);
    rig_end(&r);
}

/* ---- who gets in -------------------------------------------------------------------------------
 */

TEST(serve_refuses_the_unauthenticated_with_clear_words)
{
    static const char *const guarded[] = {"/api/v1/targets", "/api/v1/targets/a/b",
                                          "/api/v1/freeze"};
    struct rig r;
    struct err e;
    struct http_server *wrong;
    rig_simple(&r, "noauth");
    for (size_t i = 0; i < ARRAY_LEN(guarded); i++)
        assert_int_equal(rig_ask(&r, r.nobody, HTTP_GET, guarded[i], NULL), 401);
    rig_says(&r, "neither a bearer token nor");
    rig_says(&r, "\"what_to_do\":\"Send Authorization: Bearer");
    assert_int_equal(rig_ask(&r, r.nobody, HTTP_POST, "/api/v1/freeze", NULL), 401);
    const char *url = test_path("http://127.0.0.1:%d", serve_port(r.serve));
    assert_ok(
        http_server_new(&(struct http_server_opts){.url = url, .token = RIG_TOKEN "x"}, &wrong, &e),
        &e);
    assert_int_equal(rig_ask(&r, wrong, HTTP_POST, "/api/v1/freeze", NULL), 401);
    rig_says(&r, "the bearer token is not the one of this replica");
    http_server_free(wrong);
    assert_false(freeze_on(r.freeze));
    rig_end(&r);
}

TEST(serve_takes_a_rotated_token_and_no_longer_the_old_one)
{
    struct rig r;
    struct err e;
    struct http_server *next;
    rig_simple(&r, "rotate");
    const char *url = test_path("http://127.0.0.1:%d", serve_port(r.serve));
    const char *token = "another-token-of-good-length";
    assert_ok(http_server_new(&(struct http_server_opts){.url = url, .token = token}, &next, &e),
              &e);
    assert_int_equal(rig_get(&r, "/api/v1/freeze"), 200);
    assert_int_equal(rig_ask(&r, next, HTTP_GET, "/api/v1/freeze", NULL), 401);
    test_write_file(test_path("%s/token", r.dir), token, strlen(token));
    assert_int_equal(rig_ask(&r, next, HTTP_GET, "/api/v1/freeze", NULL), 200);
    assert_int_equal(rig_get(&r, "/api/v1/freeze"), 401);
    assert_int_equal(unlink(test_path("%s/token", r.dir)), 0);
    assert_int_equal(rig_ask(&r, next, HTTP_GET, "/api/v1/freeze", NULL), 401);
    rig_says(&r, "cannot read its own token file");
    http_server_free(next);
    rig_end(&r);
}

TEST(serve_without_token_and_names_lets_nobody_in_but_probes)
{
    struct rig r;
    struct serve_opts o = rig_opts(&r, "off");
    o.auth = (struct auth_opts){0};
    rig_start(&r, &o);
    assert_int_equal(rig_get(&r, "/healthz"), 200);
    assert_int_equal(rig_get(&r, "/api/v1/freeze"), 401);
    rig_says(&r, "lets nobody in");
    rig_end(&r);
}

TEST(serve_options_that_would_expose_tokens_or_make_no_sense_are_refused)
{
    struct rig r;
    struct err e;
    struct serve *s = NULL;
    struct serve_opts good = rig_opts(&r, "opts"), o = good;
    o.address = "0.0.0.0";
    assert_err(serve_start(&o, &s, &e), ERR_INVAL, &e, "in the clear");
    o = good;
    o.cert_file = "x.pem";
    assert_err(serve_start(&o, &s, &e), ERR_INVAL, &e, "needs its key");
    o = good;
    o.client_ca_file = "ca.pem";
    assert_err(serve_start(&o, &s, &e), ERR_INVAL, &e, "need TLS");
    o = good;
    o.cluster = true;
    assert_err(serve_start(&o, &s, &e), ERR_INVAL, &e, "external_cert_file");
    o = good;
    o.auth.token_file = "/nonexistent/token";
    assert_err(serve_start(&o, &s, &e), ERR_IO, &e, "token file /nonexistent/token");
    test_write_file(test_path("%s/token", r.dir), "short", 5);
    assert_err(serve_start(&good, &s, &e), ERR_INVAL, &e, "shorter than");
    assert_null(s);
    rig_end(&r);
}

TEST(serve_address_in_use_is_an_error_that_names_it)
{
    struct rig r;
    struct err e;
    struct serve *s = NULL;
    struct serve_opts o = rig_opts(&r, "inuse");
    rig_start(&r, &o);
    o.port = serve_port(r.serve);
    assert_err(serve_start(&o, &s, &e), ERR_IO, &e, "127.0.0.1");
    rig_end(&r);
}

/* ---- together ----------------------------------------------------------------------------------
 */

struct asker {
    const char *url;
    pthread_t thread;
    int n_bad;
};

static int status_of(struct http_client *c, struct http_server *s, enum http_method m,
                     const char *path)
{
    struct http_request q = {.method = m, .path = path};
    struct http_reply reply;
    struct err e;
    enum err_code rc = http_do(c, s, &q, &reply, &e);
    int status = rc ? 0 : reply.status;
    http_reply_fini(&reply);
    return status;
}

static void *ask_around(void *arg)
{
    static const char *const get[] = {"/healthz", "/metrics", "/api/v1/targets", "/api/v1/freeze"};
    static const char *const post[] = {"/api/v1/freeze", "/api/v1/release", "/api/v1/unfreeze"};
    struct asker *a = arg;
    struct http_client *c;
    struct http_server *s;
    struct err e;
    if (http_client_new(&c, &e) ||
        http_server_new(&(struct http_server_opts){.url = a->url, .token = RIG_TOKEN}, &s, &e))
        abort();
    for (int i = 0; i < 40; i++) {
        bool write = i % 2;
        int status =
            status_of(c, s, write ? HTTP_POST : HTTP_GET, write ? post[i / 2 % 3] : get[i / 2 % 4]);
        a->n_bad += status != 200 && status != 202;
    }
    http_client_free(c);
    http_server_free(s);
    return NULL;
}

TEST(serve_answers_many_at_once_while_the_loop_publishes_and_applies_thread)
{
    static const char *const items[][3] = {{"prod", "chat", "{\"units\":3}"}};
    struct rig r;
    struct asker a[3];
    char url[64];
    rig_simple(&r, "many");
    (void)snprintf(url, sizeof url, "http://127.0.0.1:%d", serve_port(r.serve));
    publish(&r, SHARED_TARGETS, items, 1);
    rig_loop_start(&r, COMMAND_DONE);
    for (size_t i = 0; i < ARRAY_LEN(a); i++) {
        a[i] = (struct asker){.url = url};
        assert_int_equal(pthread_create(&a[i].thread, NULL, ask_around, &a[i]), 0);
    }
    for (int i = 0; i < 300; i++) {
        publish(&r, SHARED_TARGETS, items, 1);
        publish(&r, SHARED_HEALTH, items, 1);
        shared_beat(r.shared, clock_mono_us());
        metric_set(r.metrics, METRIC_TARGET_UNITS, i, METRIC_LABELS("prod", "chat", "ready"));
        metric_observe(r.metrics, METRIC_ROUND_SECONDS, 0.01, NULL);
        (void)freeze_on(r.freeze);
    }
    for (size_t i = 0; i < ARRAY_LEN(a); i++) {
        assert_int_equal(pthread_join(a[i].thread, NULL), 0);
        assert_int_equal(a[i].n_bad, 0);
    }
    rig_end(&r);
}

/* ---- the end -----------------------------------------------------------------------------------
 */

static void *ask_release(void *arg)
{
    struct rig *r = arg;
    (void)rig_post(r, "/api/v1/release", "{}");
    return NULL;
}

TEST(serve_tells_those_who_wait_that_it_stops)
{
    struct rig r;
    pthread_t thread;
    rig_simple(&r, "stop");
    assert_int_equal(pthread_create(&thread, NULL, ask_release, &r), 0);
    int64_t until_us = clock_mono_us() + 20 * US_PER_S;
    while (shared_commands_waiting(r.shared) == 0)
        assert_true(clock_mono_us() < until_us);
    shared_stop(r.shared);
    serve_stop(r.serve);
    r.serve = NULL;
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_int_equal(r.reply.status, 503);
    rig_says(&r, "the daemon is stopping");
    rig_end(&r);
}
