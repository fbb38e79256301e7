/* control_test.c - freeze, unfreeze, release and override against endpoints that run in this
 * process. */
#include "base/cli.h"
#include "base/file.h"
#include "cli/commands.h"
#include "tests/support/raw_server.h"
#include "tests/unit/daemon/serve_fixture.h"

enum { ARGS = 24 };

/* What a command did. */
struct outcome {
    enum err_code rc;
    struct err e;
    char out[4096];
};

static void command(struct outcome *o, const struct cli_cmd *cmd, const char *const *args)
{
    struct cli_app app = {
        .name = "sluice", .version = "0", .summary = "test", .cmds = cmd, .n_cmds = 1};
    struct cli_ctx ctx;
    char *argv[ARGS], path[320];
    int argc = 0;
    bool help = false;
    struct buf text;
    memset(o, 0, sizeof *o);
    (void)snprintf(path, sizeof path, "%s/control-out", test_tmp_dir());
    (void)unlink(path);
    argv[argc++] = mem_strdup("-o");
    argv[argc++] = mem_strdup(path);
    for (; *args; args++)
        argv[argc++] = mem_strdup(*args);
    argv[argc] = NULL;
    o->rc = cli_parse(&app, cmd, argc, argv, &ctx, &help, &o->e);
    if (!o->rc)
        o->rc = cmd->run(&ctx, &o->e);
    cli_fini(&ctx);
    for (int i = 0; i < argc; i++)
        mem_free(argv[i]);
    struct err e;
    if (file_exists(path) && file_read(path, sizeof o->out - 1, &text, &e) == ERR_OK) {
        memcpy(o->out, text.p, text.n);
        buf_fini(&text);
    }
}
#define COMMAND(o, cmd, ...) command(o, &(cmd), (const char *const[]){__VA_ARGS__, NULL})

static void assert_has(const char *text, const char *part)
{
    if (!strstr(text, part))
        fail_msg("\"%s\" is not in: %s", part, text);
}

static void url_of(const struct rig *r, char out[64])
{
    (void)snprintf(out, 64, "http://127.0.0.1:%d", serve_port(r->serve));
}

static void token_of(const struct rig *r, char out[400])
{
    (void)snprintf(out, 400, "%s/token", r->dir);
}

TEST(control_freeze_reaches_every_replica_and_reports_each)
{
    struct rig a, b;
    struct outcome o;
    char url_a[64], url_b[64], token[400];
    rig_simple(&a, "cli-a");
    rig_simple(&b, "cli-b");
    url_of(&a, url_a), url_of(&b, url_b), token_of(&a, token);
    COMMAND(&o, cmd_freeze, "--url", url_a, "--url", url_b, "--token-file", token, "--author",
            "ann", "--reason", "fire");
    assert_ok(o.rc, &o.e);
    assert_true(freeze_on(a.freeze) && freeze_on(b.freeze));
    assert_has(o.out, url_a);
    assert_has(o.out, url_b);
    assert_has(o.out, "frozen by ann (endpoint)");
    COMMAND(&o, cmd_unfreeze, "--url", url_a, "--url", url_b, "--token-file", token, "--format",
            "json");
    assert_ok(o.rc, &o.e);
    assert_false(freeze_on(a.freeze) || freeze_on(b.freeze));
    assert_has(o.out, "\"result\": \"unfrozen\"");
    rig_end(&a);
    rig_end(&b);
}

TEST(control_freeze_fails_when_one_replica_is_not_reached_but_freezes_the_others)
{
    struct rig a;
    struct outcome o;
    char url[64], token[400];
    rig_simple(&a, "cli-half");
    url_of(&a, url), token_of(&a, token);
    COMMAND(&o, cmd_freeze, "--url", "http://127.0.0.1:1", "--url", url, "--token-file", token);
    assert_err(o.rc, ERR_IO, &o.e,
               "1 of 2 replicas did not freeze and may still act: http://127.0.0.1:1");
    assert_has(o.out, "failed");
    assert_true(freeze_on(a.freeze));
    rig_end(&a);
}

TEST(control_without_a_token_is_told_what_to_send)
{
    struct rig a;
    struct outcome o;
    char url[64];
    rig_simple(&a, "cli-noauth");
    url_of(&a, url);
    COMMAND(&o, cmd_freeze, "--url", url);
    assert_err(o.rc, ERR_IO, &o.e, "neither a bearer token");
    assert_has(o.e.msg, "Authorization: Bearer");
    assert_has(o.e.msg, "or a client certificate whose name is allowed."); /* to its end */
    assert_false(freeze_on(a.freeze));
    COMMAND(&o, cmd_override, "shop/chat", "--units", "5", "--until", "2h", "--reason", "x", "--url", url);
    assert_err(o.rc, ERR_IO, &o.e, "or a client certificate whose name is allowed.");
    COMMAND(&o, cmd_freeze, "--url", url, "--token-file", "/nonexistent/token");
    assert_err(o.rc, ERR_IO, &o.e, "/nonexistent/token");
    rig_end(&a);
}

TEST(control_unfreeze_fails_and_says_why_while_the_configuration_freezes)
{
    struct rig a;
    struct outcome o;
    char url[64], token[400];
    rig_simple(&a, "cli-config");
    url_of(&a, url), token_of(&a, token);
    freeze_set_config(a.freeze, true);
    COMMAND(&o, cmd_unfreeze, "--url", url, "--token-file", token);
    assert_err(o.rc, ERR_IO, &o.e, "1 of 1 replicas are still frozen");
    assert_has(o.e.msg, "freeze: true in the configuration");
    rig_end(&a);
}

TEST(control_unfreeze_of_one_replica_says_that_others_stay_frozen)
{
    struct rig a;
    struct outcome o;
    char url[64], token[400];
    rig_simple(&a, "cli-one");
    url_of(&a, url), token_of(&a, token);
    shared_set_leader(a.shared, false, "sluice-1");
    COMMAND(&o, cmd_freeze, "--url", url, "--token-file", token);
    assert_ok(o.rc, &o.e);
    assert_has(o.out, "may still act: --all-replicas URL freezes every one");
    COMMAND(&o, cmd_unfreeze, "--url", url, "--token-file", token);
    assert_ok(o.rc, &o.e);
    assert_has(o.out, "sluice-1 leads: if it is frozen too, it stays so until it is asked as well");
    assert_has(o.out, "--all-replicas URL unfreezes every one");
    shared_set_leader(a.shared, true, "sluice-0");
    COMMAND(&o, cmd_unfreeze, "--url", url, "--token-file", token, "--format", "csv");
    assert_ok(o.rc, &o.e);
    assert_null(strstr(o.out, "leads"));
    assert_null(strstr(o.out, "Only this one"));
    rig_end(&a);
}

TEST(control_override_goes_to_the_leader_wherever_it_is_on_the_list)
{
    struct rig a, b;
    struct outcome o;
    char url_a[64], url_b[64], token[400];
    rig_simple(&a, "cli-follower");
    rig_simple(&b, "cli-leader");
    url_of(&a, url_a), url_of(&b, url_b), token_of(&a, token);
    rig_loop_start(&a, COMMAND_NOT_LEADER);
    rig_loop_start(&b, COMMAND_DONE);
    COMMAND(&o, cmd_override, "prod/chat", "--url", "http://127.0.0.1:1", "--url", url_a, "--url",
            url_b, "--token-file", token, "--units", "12", "--until", "2h", "--reason", "launch",
            "--author", "ann");
    assert_ok(o.rc, &o.e);
    assert_has(o.out, "sluice-0: done: the loop says override");
    rig_loop_end(&b);
    assert_string_equal(b.last.name, "chat");
    assert_int_equal(b.last.units, 12);
    assert_int_equal(b.last.for_us, 2 * US_PER_HOUR);
    assert_string_equal(b.last.author, "ann");
    COMMAND(&o, cmd_override, "prod/chat", "--url", url_a, "--token-file", token, "--clear");
    assert_err(o.rc, ERR_IO, &o.e, "Ask the leader");
    rig_loop_end(&a);
    assert_int_equal(a.last.kind, COMMAND_OVERRIDE_CLEAR);
    assert_has(a.last.author, "@");
    rig_end(&a);
    rig_end(&b);
}

TEST(control_release_and_breaker_reset_reach_the_loop)
{
    struct rig a;
    struct outcome o;
    char url[64], token[400];
    rig_simple(&a, "cli-release");
    url_of(&a, url), token_of(&a, token);
    rig_loop_start(&a, COMMAND_DONE);
    COMMAND(&o, cmd_release, "--url", url, "--token-file", token);
    assert_ok(o.rc, &o.e);
    rig_loop_end(&a);
    assert_int_equal(a.last.kind, COMMAND_RELEASE);
    assert_string_equal(a.last.name, "");
    rig_loop_start(&a, COMMAND_NO_TARGET);
    COMMAND(&o, cmd_override, "prod/chat", "--url", url, "--token-file", token, "--reset-breaker");
    assert_err(o.rc, ERR_IO, &o.e, "the loop says breaker-reset");
    COMMAND(&o, cmd_release, "prod/chat", "--url", url, "--token-file", token);
    assert_err(o.rc, ERR_IO, &o.e, "/api/v1/targets");
    rig_end(&a);
}

TEST(control_override_that_says_too_little_or_nonsense_is_a_usage_error)
{
    static const char *const args[][9] = {
        {"prod/chat", NULL},
        {"prod/chat", "--units", "3", NULL},
        {"prod/chat", "--units", "3", "--until", "2h", NULL},
        {"prod/chat", "--until", "2h", "--reason", "r", NULL},
        {"prod/chat", "--units", "3", "--until", "2h", "--reason", "", NULL},
        {"prod/chat", "--clear", "--reset-breaker", NULL},
        {"prod/chat", "--clear", "--units", "3", NULL},
        {"prod/chat", "--units", "3", "--until", "soon", "--reason", "r", NULL},
        {"prod/chat", "--units", "3", "--until", "0s", "--reason", "r", NULL},
        {"prod/chat", "--units", "3", "--until", "2020-01-01T00:00:00Z", "--reason", "r", NULL},
        {"prod/chat", "--units", "nan", "--until", "2h", "--reason", "r", NULL},
        {"prod/chat", "--units", "5000", "--until", "2h", "--reason", "r", NULL},
        {"chat", "--clear", NULL},
        {"/chat", "--clear", NULL},
        {"prod/", "--clear", NULL},
        {"prod/chat/x", "--clear", NULL},
        {"prod/chat", "--clear", "--all-replicas", "sluice:8443", NULL},
        {"prod/chat", "--clear", "--all-replicas", "https://x/y", NULL},
        {"prod/chat", "--clear", "--all-replicas", "https://x", "--url", "http://y", NULL},
    };
    struct outcome o;
    for (size_t i = 0; i < ARRAY_LEN(args); i++) {
        command(&o, &cmd_override, args[i]);
        if (o.rc != ERR_USAGE)
            fail_msg("row %zu gave \"%s\": %s", i, err_code_text(o.rc), o.e.msg);
    }
}

TEST(control_name_that_does_not_resolve_says_so)
{
    struct outcome o;
    COMMAND(&o, cmd_freeze, "--all-replicas", "https://no-such-name.invalid:8443");
    assert_err(o.rc, ERR_IO, &o.e, "no-such-name.invalid does not resolve");
    assert_has(o.e.msg, "--url");
}

TEST(control_all_replicas_asks_every_address_of_a_name)
{
    struct rig a, b;
    struct outcome o;
    struct err e;
    char url[64], token[400];
    rig_simple(&a, "cli-v4");
    struct serve_opts opts = rig_opts(&b, "cli-v6");
    opts.address = "::1";
    opts.port = serve_port(a.serve); /* one port, two addresses, as pods of a Service */
    token_of(&a, token);
    opts.auth.token_file = token;
    bool v6 = serve_start(&opts, &b.serve, &e) == ERR_OK;
    (void)snprintf(url, sizeof url, "http://localhost:%d", serve_port(a.serve));
    COMMAND(&o, cmd_freeze, "--all-replicas", url, "--token-file", token);
    assert_true(freeze_on(a.freeze));
    if (v6 && strstr(o.out, "::1")) { /* where localhost has both */
        assert_ok(o.rc, &o.e);
        assert_true(freeze_on(b.freeze));
    }
    rig_end(&a);
    shared_stop(b.shared);
    serve_stop(b.serve);
    metrics_free(b.metrics);
    freeze_free(b.freeze);
    shared_free(b.shared);
}

TEST(control_finds_the_replica_beside_it_through_its_configuration)
{
    struct rig a;
    struct outcome o;
    char config[320], text[800];
    rig_simple(&a, "cli-c");
    (void)snprintf(config, sizeof config, "%s/sluice.yaml", a.dir);
    (void)snprintf(
        text, sizeof text,
        "prometheus:\n  url: http://127.0.0.1:9\nserve:\n  port: %d\n  token_file: %s/token\n",
        serve_port(a.serve), a.dir);
    test_write_file(config, text, strlen(text));
    COMMAND(&o, cmd_freeze, "-c", config);
    assert_ok(o.rc, &o.e);
    assert_true(freeze_on(a.freeze));
    rig_end(&a);
}

static void answer_html(void *ctx, struct raw_conn *c, const struct raw_request *r)
{
    (void)r;
    raw_answer(c, *(int *)ctx, "text/html", NULL, "<html>\x1b[2Jhello</html>");
}

TEST(control_answer_that_is_not_of_a_sluice_is_recognised)
{
    struct outcome o;
    int status = 200;
    struct raw_server *other = raw_server_start(answer_html, &status);
    COMMAND(&o, cmd_freeze, "--url", raw_server_url(other));
    assert_err(o.rc, ERR_IO, &o.e, "answered 200 with something that is not of a sluice");
    COMMAND(&o, cmd_release, "--url", raw_server_url(other));
    assert_err(o.rc, ERR_IO, &o.e, "answered 200 with something that is not of a sluice");
    raw_server_stop(other);
}

static void answer_rude(void *ctx, struct raw_conn *c, const struct raw_request *r)
{
    (void)ctx, (void)r;
    raw_answer(c, 409, "application/json", NULL,
               "{\"error\":\"no\\u001b[2J\",\"what_to_do\":[1],\"replica\":7}");
}

TEST(control_texts_of_a_replica_cannot_steer_the_terminal)
{
    struct outcome o;
    struct raw_server *other = raw_server_start(answer_rude, NULL);
    COMMAND(&o, cmd_release, "--url", raw_server_url(other));
    assert_err(o.rc, ERR_IO, &o.e, "no?[2J");
    raw_server_stop(other);
}

static void answer_never(void *ctx, struct raw_conn *c, const struct raw_request *r)
{
    (void)ctx, (void)r;
    raw_wait_gone(c);
}

TEST(control_replica_that_never_answers_is_given_up_on_in_time_and_the_others_are_frozen)
{
    struct rig a;
    struct outcome o;
    char url[64], token[400];
    struct raw_server *mute = raw_server_start(answer_never, NULL);
    rig_simple(&a, "cli-mute");
    url_of(&a, url), token_of(&a, token);
    int64_t t0 = clock_mono_us();
    COMMAND(&o, cmd_freeze, "--url", raw_server_url(mute), "--url", url, "--token-file", token,
            "--timeout", "500ms");
    assert_err(o.rc, ERR_IO, &o.e, "1 of 2 replicas did not freeze");
    assert_true(clock_mono_us() - t0 < 10 * US_PER_S);
    assert_true(freeze_on(a.freeze));
    rig_end(&a);
    raw_server_stop(mute);
}
