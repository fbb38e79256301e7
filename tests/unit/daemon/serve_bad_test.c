/* serve_bad_test.c - what the endpoints do with clients that are slow, huge, confused or many. */
#include <errno.h>

#include "base/buf.h"
#include "tests/unit/daemon/serve_fixture.h"

/* Sends bytes as they are on a connection of its own; what came back until the server closed. */
static char *raw(struct rig *r, const char *bytes, size_t n)
{
    struct buf b = buf_init(1 << 20);
    char chunk[4096];
    int fd = rig_dial("127.0.0.1", serve_port(r->serve));
    for (size_t at = 0; at < n;) {
        ssize_t done = send(fd, bytes + at, n - at, MSG_NOSIGNAL);
        if (done <= 0)
            break; /* it has heard enough */
        at += (size_t)done;
    }
    for (ssize_t got; (got = read(fd, chunk, sizeof chunk)) > 0;)
        buf_add(&b, chunk, (size_t)got);
    (void)close(fd);
    buf_char(&b, '\0');
    return buf_take(&b);
}

static void assert_status(struct rig *r, const char *bytes, size_t n, int low, int high)
{
    char *text = raw(r, bytes, n);
    int status = strncmp(text, "HTTP/1.1 ", 9) == 0 ? (int)strtol(text + 9, NULL, 10) : 0;
    if (status && (status < low || status > high))
        fail_msg("%.60s gave %.200s", bytes, text);
    mem_free(text);
}

TEST(serve_malformed_requests_get_400_or_nothing_and_the_next_one_is_answered)
{
    static const char *const bytes[] = {
        "\r\n\r\n\r\n",
        "GET\r\n\r\n",
        "GET /healthz\r\n\r\n",
        "GET /healthz HTTP/9.9\r\n\r\n",
        "GET /%zz HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n",
        "GET /healthz%00 HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n",
        "POST /api/v1/freeze HTTP/1.1\r\nHost: x\r\nContent-Length: -5\r\nConnection: "
        "close\r\n\r\n",
        "POST /api/v1/freeze HTTP/1.1\r\nHost: x\r\nContent-Length: "
        "99999999999999999999\r\nConnection: close\r\n\r\n",
        "POST /api/v1/freeze HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\nConnection: "
        "close\r\n\r\nzz\r\n",
        "\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n", /* a TLS hello on a plain port */
    };
    struct rig r;
    struct serve_opts o = rig_opts(&r, "malformed");
    o.idle_us = 300 * US_PER_MS;
    rig_start(&r, &o);
    for (size_t i = 0; i < ARRAY_LEN(bytes); i++) {
        assert_status(&r, bytes[i], strlen(bytes[i]), 400, 505);
        assert_int_equal(rig_get(&r, "/healthz"), 200);
    }
    assert_false(freeze_on(r.freeze));
    rig_end(&r);
}

static void add_request(struct buf *b, const char *path, size_t n_body)
{
    buf_fmt(b,
            "POST %s HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer " RIG_TOKEN
            "\r\nConnection: close\r\nContent-Length: %zu\r\n\r\n",
            path, n_body);
}

TEST(serve_oversized_bodies_headers_and_paths_are_refused)
{
    struct rig r;
    struct buf b = buf_init(8 << 20);
    struct serve_opts o = rig_opts(&r, "oversized");
    o.idle_us = US_PER_S;
    rig_start(&r, &o);
    add_request(&b, "/api/v1/override", 200000);
    buf_pad(&b, 'x', 200000);
    assert_status(&r, b.p, b.n, 413, 413);
    buf_clear(&b);
    buf_str(&b, "GET /healthz HTTP/1.1\r\nHost: x\r\nX-Much: ");
    buf_pad(&b, 'y', 100000);
    buf_str(&b, "\r\n\r\n");
    assert_status(&r, b.p, b.n, 431, 431);
    buf_clear(&b);
    buf_str(&b, "GET /");
    buf_pad(&b, 'z', 100000);
    buf_str(&b, " HTTP/1.1\r\nHost: x\r\n\r\n");
    assert_status(&r, b.p, b.n, 414, 431);
    buf_clear(&b);
    buf_str(&b, "GET /"); /* within the caps, longer than any message */
    buf_pad(&b, 'q', 3000);
    buf_str(&b, " HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
    assert_status(&r, b.p, b.n, 404, 404);
    assert_int_equal(rig_get(&r, "/healthz"), 200);
    buf_fini(&b);
    rig_end(&r);
}

TEST(serve_bodies_of_hostile_json_are_refused_with_a_reason)
{
    static const char good[] = "\"namespace\":\"prod\",\"name\":\"chat\",\"reason\":\"r\"";
    static const struct {
        const char *more, *says;
    } row[] = {
        {"\"units\":3", "one expiry"},
        {"\"units\":3,\"for\":\"1h\",\"until\":\"2099-01-01T00:00:00Z\"", "one expiry"},
        {"\"for\":\"1h\"", "a number of units"},
        {"\"units\":NaN,\"for\":\"1h\"", "body:1:"},
        {"\"units\":Infinity,\"for\":\"1h\"", "body:1:"},
        {"\"units\":1e999,\"for\":\"1h\"", "body:1:"},
        {"\"units\":null,\"for\":\"1h\"", "units"},
        {"\"units\":\"3\",\"for\":\"1h\"", "units"},
        {"\"units\":2.5,\"for\":\"1h\"", "units"},
        {"\"units\":-1,\"for\":\"1h\"", "units"},
        {"\"units\":4097,\"for\":\"1h\"", "units"},
        {"\"units\":1e18,\"for\":\"1h\"", "units"},
        {"\"units\":3,\"units\":4,\"for\":\"1h\"", "units"},
        {"\"units\":3,\"for\":3600", "for: expected a string"},
        {"\"units\":3,\"for\":\"soon\"", "for: "},
        {"\"units\":3,\"for\":\"0s\"", "no time at all"},
        {"\"units\":3,\"for\":\"-2h\"", "for: "},
        {"\"units\":3,\"for\":\"400d\"", "more than 30 days"},
        {"\"units\":3,\"until\":\"2020-01-01T00:00:00Z\"", "in the past"},
        {"\"units\":3,\"until\":\"2999-01-01T00:00:00Z\"", "more than 30 days ahead"},
        {"\"units\":3,\"until\":\"tomorrow\"", "until: "},
        {"\"units\":3,\"for\":\"1h\",\"clear\":true", "set or cleared"},
        {"\"units\":3,\"for\":\"1h\",\"clear\":1", "clear"},
        {"\"units\":3,\"for\":\"1h\",\"force\":true", "\\\"force\\\" is not a key"},
        {"\"units\":3,\"for\":\"1h\",\"author\":\"a\\u001bb\"", "not text"},
        {"\"units\":3,\"for\":\"1h\",\"author\":\"\xc3\x28\"", "body:1:"},
    };
    struct rig r;
    char body[512];
    rig_simple(&r, "hostile");
    for (size_t i = 0; i < ARRAY_LEN(row); i++) {
        (void)snprintf(body, sizeof body, "{%s,%s}", good, row[i].more);
        if (rig_post(&r, "/api/v1/override", body) != 400)
            fail_msg("%s gave %d: %s", body, r.reply.status, r.reply.body.p);
        rig_says(&r, row[i].says);
        rig_says(&r, "\"what_to_do\":");
    }
    assert_int_equal(shared_commands_waiting(r.shared), 0);
    rig_end(&r);
}

TEST(serve_targets_that_no_cluster_could_have_are_refused)
{
    static const char *const target[] = {
        "",
        "\"namespace\":\"prod\",",
        "\"name\":\"chat\",",
        "\"namespace\":\"Prod\",\"name\":\"chat\",",
        "\"namespace\":\"prod\",\"name\":\"-chat\",",
        "\"namespace\":\"prod\",\"name\":\"chat.\",",
        "\"namespace\":\"prod\",\"name\":\"../chat\",",
        "\"namespace\":\"a.b\",\"name\":\"chat\",",
        "\"namespace\":\"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa\","
        "\"name\":\"chat\",",
        "\"namespace\":[\"prod\"],\"name\":\"chat\",",
    };
    struct rig r;
    char body[512];
    rig_simple(&r, "names");
    for (size_t i = 0; i < ARRAY_LEN(target); i++) {
        (void)snprintf(body, sizeof body, "{%s\"reason\":\"r\"}", target[i]);
        if (rig_post(&r, "/api/v1/breaker-reset", body) != 400)
            fail_msg("%s gave %d", body, r.reply.status);
    }
    assert_int_equal(shared_commands_waiting(r.shared), 0);
    rig_end(&r);
}

TEST(serve_deep_and_long_json_is_refused_not_followed)
{
    struct rig r;
    struct buf b = buf_init(1 << 20);
    rig_simple(&r, "deep");
    buf_pad(&b, '[', 20000);
    assert_int_equal(rig_post(&r, "/api/v1/release", b.p), 400);
    buf_clear(&b);
    buf_str(&b, "{\"reason\":\"");
    buf_pad(&b, 'r', 60000);
    buf_str(&b, "\"}");
    assert_int_equal(rig_post(&r, "/api/v1/release", b.p), 400);
    rig_says(&r, "reason: longer than 255 bytes");
    buf_fini(&b);
    rig_end(&r);
}

TEST(serve_wrong_methods_and_paths_say_what_is_right)
{
    static const struct {
        enum http_method method;
        const char *path;
        int status;
        const char *says;
    } row[] = {
        {HTTP_POST, "/healthz", 405, "POST is not for /healthz"},
        {HTTP_GET, "/api/v1/override", 405, "GET is not for"},
        {HTTP_DELETE, "/api/v1/freeze", 405, "DELETE is not for"},
        {HTTP_PUT, "/api/v1/targets/a/b", 405, "PUT is not for"},
        {HTTP_GET, "/", 404, "Paths: /healthz"},
        {HTTP_GET, "/api/v1/frozen", 404, "there is no /api/v1/frozen"},
        {HTTP_GET, "/healthz/", 404, "there is no /healthz/"},
        {HTTP_GET, "//healthz", 404, "there is no"},
        {HTTP_GET, "/apis", 404, "there is no /apis"}, /* belongs to the other listener */
    };
    struct rig r;
    rig_simple(&r, "methods");
    for (size_t i = 0; i < ARRAY_LEN(row); i++) {
        assert_int_equal(rig_ask(&r, r.server, row[i].method, row[i].path, NULL), row[i].status);
        rig_says(&r, row[i].says);
    }
    rig_end(&r);
}

TEST(serve_wrong_method_names_the_allowed_ones_in_a_header)
{
    static const char bytes[] =
        "DELETE /api/v1/freeze HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n";
    struct rig r;
    rig_simple(&r, "allow");
    char *text = raw(&r, bytes, sizeof bytes - 1);
    assert_non_null(strstr(text, "Allow: GET, POST\r\n"));
    mem_free(text);
    rig_end(&r);
}

TEST(serve_clients_that_say_nothing_are_dropped_and_do_not_keep_others_from_the_brake)
{
    enum { SLOW = 40 };
    struct rig r;
    int fd[SLOW];
    char byte;
    struct serve_opts o = rig_opts(&r, "slow");
    o.idle_us = 300 * US_PER_MS;
    o.max_connections = 32;
    rig_start(&r, &o);
    for (int i = 0; i < SLOW; i++) { /* half a head each, more than may be connected at all */
        fd[i] = rig_dial("127.0.0.2", serve_port(r.serve));
        (void)send(fd[i], "POST /api/v1/fre", 16, MSG_NOSIGNAL);
    }
    int64_t t0 = clock_mono_us();
    assert_int_equal(rig_post(&r, "/api/v1/freeze", NULL), 200);
    assert_true(clock_mono_us() - t0 < 2 * US_PER_S);
    assert_true(freeze_on(r.freeze));
    for (int i = 0; i < SLOW; i++) { /* each is ended by the server: 408, a close or a reset */
        ssize_t got = read(fd[i], &byte, 1);
        assert_true(got >= 0 || errno == ECONNRESET);
        (void)close(fd[i]);
    }
    assert_int_equal(rig_get(&r, "/healthz"), 200);
    rig_end(&r);
}

/* ---- a main loop that stands still
 * --------------------------------------------------------------- */

struct waiter {
    char url[64];
    pthread_t thread;
    int status;
};

static void *ask_release(void *arg)
{
    struct waiter *w = arg;
    struct http_client *c;
    struct http_server *s;
    struct http_reply reply;
    struct err e;
    struct http_request q = {.method = HTTP_POST, .path = "/api/v1/release"};
    if (http_client_new(&c, &e) ||
        http_server_new(&(struct http_server_opts){.url = w->url, .token = RIG_TOKEN}, &s, &e))
        abort();
    if (http_do(c, s, &q, &reply, &e) == ERR_OK)
        w->status = reply.status;
    else
        print_error("%s\n", e.msg);
    http_reply_fini(&reply);
    http_client_free(c);
    http_server_free(s);
    return NULL;
}

TEST(serve_freezes_within_two_seconds_while_others_wait_for_a_loop_that_stands_still_thread)
{
    enum { WAITERS = 6 };
    struct rig r;
    struct waiter w[WAITERS];
    rig_simple(&r, "standstill"); /* waits up to 20 s for an outcome */
    for (int i = 0; i < WAITERS; i++) {
        (void)snprintf(w[i].url, sizeof w[i].url, "http://127.0.0.1:%d", serve_port(r.serve));
        w[i].status = 0;
        assert_int_equal(pthread_create(&w[i].thread, NULL, ask_release, &w[i]), 0);
    }
    while (shared_commands_waiting(r.shared) < WAITERS)
        sched_yield();
    int64_t t0 = clock_mono_us();
    assert_int_equal(rig_post(&r, "/api/v1/freeze", NULL), 200);
    assert_true(clock_mono_us() - t0 < 2 * US_PER_S);
    assert_true(freeze_on(r.freeze));
    shared_stop(r.shared);
    for (int i = 0; i < WAITERS; i++) {
        assert_int_equal(pthread_join(w[i].thread, NULL), 0);
        assert_int_equal(w[i].status, 503);
    }
    rig_end(&r);
}

TEST(serve_queue_that_is_full_refuses_with_retry_after)
{
    struct rig r;
    struct serve_opts o = rig_opts(&r, "full");
    o.wait_us = 1;
    rig_start(&r, &o);
    for (int i = 0; i < SHARED_COMMANDS; i++)
        assert_int_equal(rig_post(&r, "/api/v1/release", NULL), 202);
    assert_int_equal(rig_post(&r, "/api/v1/release", NULL), 503);
    assert_true(r.reply.retry_after_us == US_PER_S);
    assert_int_equal(rig_post(&r, "/api/v1/freeze", NULL), 200); /* no queue for this one */
    rig_end(&r);
}
