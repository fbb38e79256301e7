/* http_test.c - requests and answers, what goes wrong on the wire, credentials. */
#include "net/http.h"

#include <errno.h>
#include <unistd.h>

#include "tests/unit/net/http_world.h"

/* ---- requests and answers ---------------------------------------------------------------- */

struct echo {
    char headers[2048];
    char body[256];
};

static void keep_headers(void *ctx, struct raw_conn *c, const struct raw_request *r)
{
    struct echo *echo = ctx;
    snprintf(echo->headers, sizeof echo->headers, "%s %s\n%s", r->method, r->path, r->headers);
    snprintf(echo->body, sizeof echo->body, "%s", r->body);
    raw_answer(c, 201, "Application/JSON; charset=utf-8", "X-Other: 1\r\n", "{\"ok\":true}");
}

TEST(request_carries_method_path_body_and_headers)
{
    struct echo echo = {0};
    struct rig r = rig_start(keep_headers, &echo);
    struct http_reply reply;
    struct err e;
    struct http_request q = {.method = HTTP_PATCH,
                             .path = "/a/../b?x=%20",
                             .body = "[1]",
                             .n_body = 3,
                             .content_type = "application/merge-patch+json"};
    assert_ok(http_do(r.client, r.server, &q, &reply, &e), &e);
    assert_int_equal(reply.status, 201);
    assert_string_equal(reply.content_type, "application/json");
    assert_string_equal(reply.body.p, "{\"ok\":true}");
    assert_int_equal(reply.retry_after_us, -1);
    assert_int_equal(reply.date_us, -1);
    assert_true(reply.elapsed_us > 0);
    assert_int_equal(reply.wire_bytes, 11);
    assert_non_null(strstr(echo.headers, "PATCH /a/../b?x=%20\n"));
    assert_non_null(strstr(echo.headers, "Content-Type: application/merge-patch+json\r\n"));
    assert_non_null(strstr(echo.headers, "Accept: application/json\r\n"));
    assert_non_null(strstr(echo.headers, "Accept-Encoding: gzip\r\n"));
    assert_non_null(strstr(echo.headers, "User-Agent: sluice/"));
    assert_null(strstr(echo.headers, "Expect"));
    assert_null(strstr(echo.headers, "Authorization"));
    assert_string_equal(echo.body, "[1]");
    http_reply_fini(&reply);
    rig_stop(&r);
}

TEST(each_method_sends_its_name_and_only_its_body)
{
    static const struct {
        enum http_method method;
        const char *name, *body;
        bool length;
    } rows[] = {{HTTP_GET, "GET ", NULL, false},     {HTTP_POST, "POST ", "{}", true},
                {HTTP_POST, "POST ", NULL, true},    {HTTP_PUT, "PUT ", "{\"a\":1}", true},
                {HTTP_PATCH, "PATCH ", "[]", true},  {HTTP_DELETE, "DELETE ", NULL, false},
                {HTTP_DELETE, "DELETE ", "{}", true}};
    struct echo echo = {0};
    struct rig r = rig_start(keep_headers, &echo);
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct http_reply reply;
        struct err e;
        struct http_request q = {.method = rows[i].method,
                                 .path = "/x",
                                 .body = rows[i].body,
                                 .n_body = rows[i].body ? strlen(rows[i].body) : 0};
        assert_ok(http_do(r.client, r.server, &q, &reply, &e), &e);
        assert_int_equal(strncmp(echo.headers, rows[i].name, strlen(rows[i].name)), 0);
        assert_string_equal(echo.body, rows[i].body ? rows[i].body : "");
        assert_int_equal(strstr(echo.headers, "Content-Length") != NULL, rows[i].length);
        http_reply_fini(&reply);
    }
    assert_int_equal(raw_server_connections(r.raw), 1); /* one connection for all */
    rig_stop(&r);
}

static void answer_by_path(void *ctx, struct raw_conn *c, const struct raw_request *r)
{
    (void)ctx;
    if (strcmp(r->path, "/redirect") == 0)
        raw_answer(c, 302, "text/plain", "Location: /elsewhere\r\n", "");
    else if (strcmp(r->path, "/429") == 0)
        raw_answer(c, 429, "text/plain", "Retry-After: 7\r\n", "slow down");
    else if (strcmp(r->path, "/429date") == 0)
        raw_answer(
            c, 429, "text/plain",
            "Date: Sun, 29 Nov 2026 12:00:00 GMT\r\nRetry-After: Sun, 29 Nov 2026 12:00:30 GMT\r\n",
            "");
    else if (strcmp(r->path, "/429past") == 0)
        raw_answer(
            c, 429, "text/plain",
            "Retry-After: Sun, 29 Nov 2020 12:00:30 GMT\r\nDate: Sun, 29 Nov 2026 12:00:00 GMT\r\n",
            "");
    else if (strcmp(r->path, "/429bad") == 0)
        raw_answer(c, 429, "text/plain", "Retry-After: soon\r\nDate: yesterday\r\n", "");
    else if (strcmp(r->path, "/429huge") == 0)
        raw_answer(c, 429, "text/plain", "Retry-After: 99999999999\r\n", "");
    else if (strcmp(r->path, "/continue") == 0)
        raw_text(c,
                 "HTTP/1.1 100 Continue\r\nRetry-After: 9\r\n\r\nHTTP/1.1 204 No Content\r\n\r\n");
    else
        raw_answer(c, 404, "text/plain", NULL, "404 page not found\n");
}

TEST(retry_after_is_read_as_seconds_or_as_a_date_by_the_servers_clock)
{
    static const struct {
        const char *path;
        int status;
        int64_t retry_us, date_us;
    } rows[] = {{"/429", 429, 7 * US_PER_S, -1},
                {"/429date", 429, 30 * US_PER_S, 1795953600 * US_PER_S},
                {"/429past", 429, 0, 1795953600 * US_PER_S},
                {"/429bad", 429, -1, -1},
                {"/429huge", 429, US_PER_DAY, -1},
                {"/continue", 204, -1, -1},
                {"/nothing", 404, -1, -1}};
    struct rig r = rig_start(answer_by_path, NULL);
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct http_reply reply;
        struct err e;
        assert_ok(get(&r, rows[i].path, &reply, &e), &e);
        assert_int_equal(reply.status, rows[i].status);
        assert_int_equal(reply.retry_after_us, rows[i].retry_us);
        assert_int_equal(reply.date_us, rows[i].date_us);
        http_reply_fini(&reply);
    }
    rig_stop(&r);
}

TEST(redirect_is_returned_and_not_followed)
{
    struct rig r = rig_start(answer_by_path, NULL);
    struct http_reply reply;
    struct err e;
    assert_ok(get(&r, "/redirect", &reply, &e), &e);
    assert_int_equal(reply.status, 302);
    assert_int_equal(raw_server_requests(r.raw), 1);
    http_reply_fini(&reply);
    rig_stop(&r);
}

static void answer_gzip(void *ctx, struct raw_conn *c, const struct raw_request *r)
{
    (void)ctx;
    size_t n = strcmp(r->path, "/bomb") == 0 ? 64 << 20 : 50000, n_zip;
    char *plain = mem_zero(n, 1);
    memset(plain, 'x', n);
    unsigned char *zip = gzip(plain, n, &n_zip);
    if (strcmp(r->path, "/cut") == 0)
        n_zip /= 2;
    if (strcmp(r->path, "/bad") == 0)
        memset(zip + 10, 0xff, 10);
    raw_answer_bytes(c, 200, "text/plain", "Content-Encoding: gzip\r\n", zip, n_zip);
    mem_free(plain);
    mem_free(zip);
}

TEST(gzip_is_unpacked_and_the_cap_counts_unpacked_bytes)
{
    struct rig r = rig_start(answer_gzip, NULL);
    struct http_reply reply;
    struct err e;
    assert_ok(get(&r, "/", &reply, &e), &e);
    assert_int_equal(reply.body.n, 50000);
    assert_true(reply.wire_bytes < 1000);
    http_reply_fini(&reply);
    assert_err(get(&r, "/bomb", &reply, &e), ERR_LIMIT, &e, "larger than 16777216 bytes");
    http_reply_fini(&reply);
    assert_err(get(&r, "/bad", &reply, &e), ERR_IO, &e, "GET http://127.0.0.1");
    http_reply_fini(&reply);
    struct http_request q = {.path = "/", .body_cap = 49999};
    assert_err(http_do(r.client, r.server, &q, &reply, &e), ERR_LIMIT, &e, "49999");
    http_reply_fini(&reply);
    rig_stop(&r);
}

TEST(gzip_stream_is_handed_over_in_pieces_without_a_cap_on_the_whole)
{
    struct rig r = rig_start(answer_gzip, NULL);
    struct seen seen = {0};
    struct err e;
    struct http_request q = {
        .path = "/bomb", .data = on_data, .done = on_done, .ctx = &seen, .body_cap = 1000};
    assert_ok(http_start(r.client, r.server, &q, NULL, &e), &e);
    run_until(&r, &seen.n_done, 1);
    assert_int_equal(seen.rc, ERR_OK);
    assert_int_equal(seen.stream.n, 64 << 20);
    assert_true(seen.n_chunks > 10);
    assert_int_equal(seen.n_body, 0);
    buf_fini(&seen.stream);
    rig_stop(&r);
}

/* ---- what goes wrong on the wire --------------------------------------------------------- */

static void misbehave(void *ctx, struct raw_conn *c, const struct raw_request *r)
{
    (void)ctx;
    const char *what = r->path + 1;
    if (strcmp(what, "half-headers") == 0)
        raw_text(c, "HTTP/1.1 200 OK\r\nContent-Le");
    else if (strcmp(what, "half-body") == 0)
        raw_text(c, "HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nhalf");
    else if (strcmp(what, "half-chunk") == 0)
        raw_text(c, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n10\r\nhalf");
    else if (strcmp(what, "no-last-chunk") == 0)
        raw_text(c, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nhalf\r\n");
    else if (strcmp(what, "bad-chunk") == 0)
        raw_text(c, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n");
    else if (strcmp(what, "not-http") == 0)
        raw_text(c, "SSH-2.0-OpenSSH_9.2\r\n");
    else if (strcmp(what, "many-headers") == 0) {
        raw_text(c, "HTTP/1.1 200 OK\r\n");
        for (int i = 0; i < 10000; i++) {
            if (!raw_text(c, "X-Filler: 0123456789012345678901234567890123456789\r\n"))
                break;
        }
    } else if (strcmp(what, "reset") == 0) {
        raw_reset(c);
    }
    raw_close(c);
}

TEST(broken_answer_is_an_error_that_names_the_request)
{
    static const struct {
        const char *path;
        enum err_code rc;
        const char *text;
    } rows[] = {
        {"/half-headers", ERR_IO, ""}, {"/half-body", ERR_IO, ""},
        {"/half-chunk", ERR_IO, ""},   {"/no-last-chunk", ERR_IO, ""},
        {"/bad-chunk", ERR_IO, ""},    {"/not-http", ERR_IO, ""},
        {"/reset", ERR_IO, ""},        {"/many-headers", ERR_LIMIT, "headers of more than"}};
    struct rig r = rig_start(misbehave, NULL);
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct http_reply reply;
        struct err e;
        char want[128];
        snprintf(want, sizeof want, "GET %s%s: %s", raw_server_url(r.raw), rows[i].path,
                 rows[i].text);
        assert_err(get(&r, rows[i].path, &reply, &e), rows[i].rc, &e, want);
        http_reply_fini(&reply);
    }
    rig_stop(&r);
}

TEST(refused_connection_is_an_error_with_the_address)
{
    struct rig r = rig_start(misbehave, NULL);
    struct http_reply reply;
    struct err e;
    raw_server_stop(r.raw);
    assert_err(get(&r, "/x?secret=1", &reply, &e), ERR_IO, &e, "127.0.0.1");
    assert_null(strstr(e.msg, "secret"));
    assert_int_equal(reply.status, 0);
    http_reply_fini(&reply);
    r.raw = raw_server_start(misbehave, NULL);
    rig_stop(&r);
}

TEST(deadline_ends_a_request_that_gets_no_answer)
{
    struct rig r = rig_start(say_nothing, NULL);
    struct http_reply reply;
    struct err e;
    struct http_request q = {.path = "/", .deadline_us = 60 * US_PER_MS};
    int64_t start_us = clock_mono_us();
    assert_err(http_do(r.client, r.server, &q, &reply, &e), ERR_IO, &e,
               "no complete answer within 0.06 s");
    assert_int_equal(e.sys, ETIMEDOUT);
    assert_int_equal(reply.status, 0);
    assert_in_range(clock_mono_us() - start_us, 60 * US_PER_MS, 5 * US_PER_S);
    http_reply_fini(&reply);
    rig_stop(&r);
}

TEST(silent_stream_ends_after_its_idle_time_with_what_came_before)
{
    struct rig r = rig_start(say_nothing, NULL);
    struct seen seen = {0};
    struct err e;
    struct http_request q = {.path = "/stream",
                             .data = on_data,
                             .done = on_done,
                             .ctx = &seen,
                             .idle_us = 400 * US_PER_MS,
                             .deadline_us = US_PER_HOUR};
    assert_ok(http_start(r.client, r.server, &q, NULL, &e), &e);
    run_until(&r, &seen.n_done, 1);
    assert_err(seen.rc, ERR_IO, &seen.err, "silent for 0.4 s");
    assert_int_equal(seen.err.sys, ETIMEDOUT);
    assert_string_equal(seen.stream.p, "first");
    buf_fini(&seen.stream);
    rig_stop(&r);
}

static void close_after_answer(void *ctx, struct raw_conn *c, const struct raw_request *r)
{
    (void)ctx, (void)r;
    raw_answer(c, 200, "text/plain", NULL, "ok");
    raw_close(c);
}

TEST(kept_connection_that_the_server_closed_is_replaced_unseen)
{
    struct rig r = rig_start(close_after_answer, NULL);
    for (int i = 0; i < 5; i++) {
        struct http_reply reply;
        struct err e;
        assert_ok(get(&r, "/", &reply, &e), &e);
        assert_int_equal(reply.status, 200);
        http_reply_fini(&reply);
    }
    assert_int_equal(raw_server_requests(r.raw), 5);
    rig_stop(&r);
}

/* ---- credentials ------------------------------------------------------------------------- */

TEST(token_file_is_read_again_when_it_changes)
{
    struct echo echo = {0};
    struct rig r = rig_start(keep_headers, &echo);
    const char *path = test_path("%s/token", test_tmp_dir());
    test_write_file(path, "first-token\n", 12);
    struct http_server *s = server_with(&(struct http_server_opts){
        .url = raw_server_url(r.raw), .token_file = path, .token = "never"});
    struct http_reply reply;
    struct err e;
    struct http_request q = {.path = "/"};
    assert_ok(http_do(r.client, s, &q, &reply, &e), &e);
    http_reply_fini(&reply);
    assert_non_null(strstr(echo.headers, "Authorization: Bearer first-token\r\n"));
    test_write_file(path, "other", 5);
    assert_ok(http_do(r.client, s, &q, &reply, &e), &e);
    http_reply_fini(&reply);
    assert_non_null(strstr(echo.headers, "Authorization: Bearer other\r\n"));
    test_write_file(path, "a\r\nX-Evil: 1", 12);
    assert_err(http_do(r.client, s, &q, &reply, &e), ERR_PARSE, &e, "one line");
    assert_null(strstr(e.msg, "Evil"));
    http_reply_fini(&reply);
    test_write_file(path, "", 0);
    assert_err(http_do(r.client, s, &q, &reply, &e), ERR_PARSE, &e, "no token");
    http_reply_fini(&reply);
    unlink(path);
    assert_err(http_do(r.client, s, &q, &reply, &e), ERR_IO, &e, "token file");
    http_reply_fini(&reply);
    http_server_free(s);
    rig_stop(&r);
}

TEST(user_and_password_become_basic_authentication)
{
    struct echo echo = {0};
    struct rig r = rig_start(keep_headers, &echo);
    struct http_server *s = server_with(
        &(struct http_server_opts){.url = raw_server_url(r.raw), .user = "ann", .password = "b:c"});
    struct http_reply reply;
    struct err e;
    assert_ok(http_do(r.client, s, &(struct http_request){.path = "/"}, &reply, &e), &e);
    assert_non_null(strstr(echo.headers, "Authorization: Basic YW5uOmI6Yw==\r\n"));
    http_reply_fini(&reply);
    http_server_free(s);
    rig_stop(&r);
}

TEST(proxy_of_the_environment_is_not_used_and_a_stated_one_is)
{
    struct echo echo = {0};
    struct rig r = rig_start(keep_headers, &echo);
    struct http_reply reply;
    struct err e;
    setenv("http_proxy", "http://127.0.0.1:1", 1);
    setenv("all_proxy", "http://127.0.0.1:1", 1);
    assert_ok(get(&r, "/direct", &reply, &e), &e);
    http_reply_fini(&reply);
    setenv("no_proxy", "*", 1);
    struct http_server *s = server_with(&(struct http_server_opts){
        .url = "http://far.invalid:81/base/", .proxy = raw_server_url(r.raw)});
    assert_string_equal(http_server_url(s), "http://far.invalid:81/base");
    assert_ok(http_do(r.client, s, &(struct http_request){.path = "/x"}, &reply, &e), &e);
    assert_non_null(strstr(echo.headers, "GET http://far.invalid:81/base/x\n"));
    http_reply_fini(&reply);
    http_server_free(s);
    unsetenv("http_proxy");
    unsetenv("all_proxy");
    unsetenv("no_proxy");
    rig_stop(&r);
}

TEST(bad_server_description_is_refused)
{
    static const struct {
        struct http_server_opts o;
        enum err_code rc;
        const char *text;
    } rows[] = {
        {{.url = NULL}, ERR_INVAL, "not a URL"},
        {{.url = "example.com"}, ERR_INVAL, "not a URL"},
        {{.url = "ftp://example.com"}, ERR_INVAL, "not a URL"},
        {{.url = "https://"}, ERR_INVAL, "not a URL"},
        {{.url = "https://a b/"}, ERR_INVAL, "not a URL"},
        {{.url = "https://a\n/"}, ERR_INVAL, "not a URL"},
        {{.url = "https://a:99999/"}, ERR_INVAL, "not a URL"},
        {{.url = "https://me:pw@host/"}, ERR_INVAL, "user and password"},
        {{.url = "https://host/?a=1"}, ERR_INVAL, "query"},
        {{.url = "https://h", .ca_file = "/nowhere/ca.pem"}, ERR_IO, "CA /nowhere/ca.pem"},
        {{.url = "https://h", .token_file = "/nowhere/token"}, ERR_IO, "token file /nowhere/token"},
        {{.url = "https://h", .cert_file = "/nowhere/c", .key_pem = "x"},
         ERR_IO,
         "client certificate /nowhere/c"},
        {{.url = "https://h", .cert_pem = "x"}, ERR_INVAL, "go together"},
        {{.url = "https://h", .token = "a\nb"}, ERR_PARSE, "one line"},
        {{.url = "https://h", .tls_server_name = "a b"}, ERR_INVAL, "tls server name"},
    };
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct http_server *s;
        struct err e;
        assert_err(http_server_new(&rows[i].o, &s, &e), rows[i].rc, &e, rows[i].text);
        assert_null(s);
    }
}

TEST(bad_path_is_refused_before_anything_is_sent)
{
    static const char *const paths[] = {"", "x", "/a b", "/a\r\nX: y"};
    struct rig r = rig_start(answer_by_path, NULL);
    for (size_t i = 0; i < ARRAY_LEN(paths); i++) {
        struct http_reply reply;
        struct err e;
        assert_err(get(&r, paths[i], &reply, &e), ERR_INVAL, &e, "path of a request");
        http_reply_fini(&reply);
    }
    assert_int_equal(raw_server_connections(r.raw), 0);
    assert_int_equal(http_running(r.client), 0);
    rig_stop(&r);
}

/* ---- small things ------------------------------------------------------------------------ */

TEST(escape_leaves_only_unreserved_characters)
{
    struct buf b = buf_init(100);
    http_escape(&b, "aZ09-._~ /?&=%\xc3\xa4,");
    assert_string_equal(b.p, "aZ09-._~%20%2F%3F%26%3D%25%C3%A4%2C");
    buf_fini(&b);
}

TEST(backoff_doubles_up_to_its_maximum_with_full_jitter)
{
    assert_int_equal(http_backoff_us(1, 100, 10000, 0.5), 50);
    assert_int_equal(http_backoff_us(2, 100, 10000, 0.5), 100);
    assert_int_equal(http_backoff_us(5, 100, 10000, 0.5), 800);
    assert_int_equal(http_backoff_us(8, 100, 10000, 0.5), 5000);
    assert_int_equal(http_backoff_us(1000000, 100, 10000, 0.5), 5000);
    assert_int_equal(http_backoff_us(3, 100, 10000, 0), 0);
    assert_int_equal(http_backoff_us(70, 1, INT64_MAX, 0.25), INT64_MAX / 4 + 1);
    assert_int_equal(http_backoff_us(0, 100, 50, 0.5), 25);
}
