/* server_stream_test.c - answers of the HTTP server that take their time: streams, late and delayed ones,
 * and what becomes of them when a client leaves or the server stops. */
#include "net/server.h"

#include "tests/unit/net/server_world.h"

TEST(a_stream_is_asked_again_when_woken_and_ends_cleanly)
{
    struct app app = {0};
    struct server *s = start(&app, NULL);
    int fd = dial(s);
    const char *r = "GET /stream HTTP/1.1\r\nHost: h\r\n\r\n";
    atomic_store(&app.lines, 1);
    say(fd, r, strlen(r));
    assert_non_null(strstr(hear(fd, "line\n"), "chunked"));
    for (int i = 2; i < 30; i++) {
        atomic_store(&app.lines, i);
        int64_t from = clock_mono_us();
        server_wake(s);
        assert_non_null(strstr(hear(fd, "line\n"), "line\n"));
        if (clock_mono_us() - from > 5 * US_PER_S)
            fail_msg("line %d took %lld us", i, (long long)(clock_mono_us() - from));
    }
    atomic_store(&app.lines, 30); /* nobody wakes it: within 100 ms all the same */
    hear(fd, "line\n");
    assert_int_equal(atomic_load(&app.n_freed), 0);
    atomic_store(&app.end, true);
    server_wake(s);
    hear(fd, "0\r\n\r\n");
    assert_true(wait_for(&app.n_freed, 1));
    close(fd);
    server_stop(s);
}

TEST(a_broken_stream_ends_without_the_last_chunk)
{
    struct app app = {0};
    struct server *s = start(&app, NULL);
    atomic_store(&app.lines, 3);
    const char *a = ask(s, "GET /broken HTTP/1.1\r\nHost: h\r\n\r\n");
    assert_non_null(strstr(a, "line\n"));
    assert_null(strstr(a, "0\r\n\r\n"));
    assert_true(wait_for(&app.n_freed, 1));
    server_stop(s);
}

TEST(a_stream_whose_client_left_is_freed_although_it_says_nothing)
{
    struct app app = {0};
    struct server *s = start(&app, NULL);
    int fd = dial(s);
    const char *r = "GET /stream HTTP/1.1\r\nHost: h\r\n\r\n";
    say(fd, r, strlen(r));
    hear(fd, "\r\n\r\n");
    close(fd);
    assert_true(wait_for(&app.n_freed, 1));
    server_stop(s);
}

TEST(a_cut_answer_is_no_answer)
{
    struct app app = {0};
    struct server *s = start(&app, NULL);
    assert_string_equal(ask(s, "GET /cut HTTP/1.1\r\nHost: h\r\n\r\n"), "");
    assert_alive(s);
    server_stop(s);
}

TEST(a_delayed_answer_holds_nobody_else_up)
{
    struct app app = {0};
    struct server *s = start(&app, NULL);
    int fd = dial(s);
    const char *r = "GET /late HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n";
    int64_t from = clock_mono_us();
    say(fd, r, strlen(r));
    assert_alive(s);
    struct pollfd p = {.fd = fd, .events = POLLIN};
    assert_int_equal(poll(&p, 1, 0), 0); /* not yet */
    assert_int_equal(status_of(hear(fd, NULL)), 200);
    assert_true(clock_mono_us() - from >= 140 * US_PER_MS);
    close(fd);
    server_stop(s);
}

TEST(a_request_put_off_is_handled_a_second_time)
{
    struct app app = {0};
    struct server *s = start(&app, NULL);
    const char *a = ask(s, "GET /later?x=%41 HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n");
    assert_int_equal(status_of(a), 200);
    assert_non_null(strstr(a, "\r\n\r\n/later?x=%41"));
    assert_int_equal(atomic_load(&app.n_handled), 2);
    server_stop(s);
}

TEST(an_answer_to_come_holds_nobody_up_and_is_dropped_when_its_client_leaves)
{
    struct app app = {0};
    struct server *s = start(&app, NULL);
    const char *r = "GET /settle HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n";
    int left = dial(s), fd = dial(s);
    say(left, r, strlen(r));
    say(fd, r, strlen(r));
    assert_true(wait_for(&app.n_handled, 2));
    assert_alive(s);
    close(left);
    assert_true(wait_for(&app.n_freed, 1));
    struct pollfd p = {.fd = fd, .events = POLLIN};
    assert_int_equal(poll(&p, 1, 0), 0);
    atomic_store(&app.end, true);
    server_wake(s);
    const char *a = hear(fd, NULL);
    assert_int_equal(status_of(a), 202);
    assert_non_null(strstr(a, "settled"));
    close(fd);
    assert_true(wait_for(&app.n_freed, 2));
    server_stop(s);
}

TEST(a_quiet_server_refuses_new_connections_and_serves_open_ones)
{
    struct app app = {0};
    struct server *s = start(&app, NULL);
    int fd = dial(s);
    const char *r = "GET /x HTTP/1.1\r\nHost: h\r\n\r\n";
    say(fd, r, strlen(r));
    assert_int_equal(status_of(hear(fd, "cn=-")), 200);
    server_quiesce(s);
    server_quiesce(s);
    int late = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    struct sockaddr_in a = {.sin_family = AF_INET,
                            .sin_port = htons(server_port(s)),
                            .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    assert_int_equal(connect(late, (struct sockaddr *)&a, sizeof a), -1);
    close(late);
    say(fd, r, strlen(r));
    assert_int_equal(status_of(hear(fd, "cn=-")), 200);
    close(fd);
    server_stop(s);
}

TEST(stopping_ends_streams_delayed_and_half_sent_requests)
{
    struct app app = {0};
    struct server *s = start(&app, NULL);
    static const char *const r[] = {"GET /settle HTTP/1.1\r\nHost: h\r\n\r\n",
                                    "GET /stream HTTP/1.1\r\nHost: h\r\n\r\n",
                                    "GET /late HTTP/1.1\r\nHost: h\r\n\r\n",
                                    "POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 9\r\n\r\n",
                                    "GET",
                                    ""};
    int fd[ARRAY_LEN(r)];
    for (size_t i = 0; i < ARRAY_LEN(r); i++) {
        fd[i] = dial(s);
        say(fd[i], r[i], strlen(r[i]));
    }
    hear(fd[1], "\r\n\r\n");
    assert_true(wait_for(&app.n_handled, 3));
    int64_t from = clock_mono_us();
    server_stop(s);
    assert_true(clock_mono_us() - from < 5 * US_PER_S);
    assert_int_equal(atomic_load(&app.n_freed), 2);
    for (size_t i = 0; i < ARRAY_LEN(r); i++) {
        hear(fd[i], NULL);
        close(fd[i]);
    }
    server_stop(NULL);
}
