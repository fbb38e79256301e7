/* server_test.c - the HTTP server against raw sockets: requests, caps, times, malformed requests, many at once,
 * start. */
#include "net/server.h"

#include <pthread.h>

#include "tests/unit/net/server_world.h"

/* ---- requests ---- */

TEST(targets_are_decoded_and_bad_ones_are_refused)
{
    static const struct {
        const char *target, *want; /* NULL: 400 */
    } row[] = {
        {"/a%20b/c?q=1%2B1&z", "GET /a b/c q=1+1"},
        {"/?q=a+b", "GET / q=a b"},
        {"/p?q", "GET /p q= "},
        {"/p?z=1&&q=%41", "GET /p q=A"},
        {"/a+b", "GET /a+b q=-"},
        {"/p?q=1?2", "GET /p q=1?2"},
        {"http://other/p?q=1", "GET /p q=1"},
        {"/a%00b", NULL},
        {"/a%0", NULL},
        {"/a%zz", NULL},
        {"/p?q=%", NULL},
    };
    struct app app = {0};
    struct server *s = start(&app, NULL);
    for (size_t i = 0; i < ARRAY_LEN(row); i++) {
        const char *a = ask(
            s, test_path("GET %s HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n", row[i].target));
        assert_int_equal(status_of(a), row[i].want ? 200 : 400);
        if (row[i].want && !strstr(a, row[i].want))
            fail_msg("%s: no \"%s\" in %s", row[i].target, row[i].want, a);
    }
    server_stop(s);
}

TEST(headers_are_found_in_any_case_and_the_peer_is_named)
{
    struct app app = {0};
    struct server *s = start(&app, NULL);
    const char *a =
        ask(s, "GET / HTTP/1.1\r\nHost: h\r\nX-THING: v w\r\nConnection: close\r\n\r\n");
    assert_non_null(strstr(a, "h=v w cn=-"));
    assert_non_null(strstr(a, "X-Peer: 127.0.0.1:"));
    assert_non_null(strstr(a, "Content-Type: application/json"));
    server_stop(s);
}

TEST(a_status_of_zero_and_a_body_past_its_cap_are_500)
{
    struct app app = {0};
    struct server *s = start(&app, NULL);
    assert_int_equal(
        status_of(ask(s, "GET /zero HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n")), 500);
    assert_int_equal(
        status_of(ask(s, "GET /full HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n")), 500);
    server_stop(s);
}

TEST(a_connection_serves_many_requests_also_pipelined)
{
    struct app app = {0};
    struct server *s = start(&app, NULL);
    int fd = dial(s);
    for (int i = 0; i < 50; i++) {
        const char *r = "POST /echo HTTP/1.1\r\nHost: h\r\nContent-Length: 3\r\n\r\nabc";
        assert_true(say(fd, r, strlen(r)));
        assert_int_equal(status_of(hear(fd, "\r\n\r\nabc")), 200);
    }
    const char *two = "GET /one HTTP/1.1\r\nHost: h\r\n\r\nGET /two HTTP/1.1\r\nHost: "
                      "h\r\nConnection: close\r\n\r\n";
    assert_true(say(fd, two, strlen(two)));
    const char *a = hear(fd, NULL);
    assert_non_null(strstr(a, "GET /one"));
    assert_non_null(strstr(a, "GET /two"));
    close(fd);
    assert_int_equal(atomic_load(&app.n_handled), 52);
    server_stop(s);
}

/* ---- caps ---- */

TEST(a_body_up_to_the_cap_arrives_and_one_byte_more_is_413)
{
    struct server_opts o = server_opts_default();
    o.body_cap = 1000;
    struct app app = {0};
    struct server *s = start(&app, &o);
    char body[1002], request[2048];
    memset(body, 'b', sizeof body);
    for (int n = 999; n <= 1001; n++) {
        int len = snprintf(
            request, sizeof request,
            "POST /echo HTTP/1.1\r\nHost: h\r\nConnection: close\r\nContent-Length: %d\r\n\r\n%.*s",
            n, n, body);
        assert_true(len > 0 && (size_t)len < sizeof request);
        const char *a = ask(s, request);
        assert_int_equal(status_of(a), n <= 1000 ? 200 : 413);
    }
    /* Chunked: the length is known only when it is too late. */
    int len = snprintf(
        request, sizeof request,
        "POST /echo HTTP/1.1\r\nHost: h\r\nConnection: close\r\nTransfer-Encoding: chunked\r\n\r\n"
        "3e8\r\n%.1000s\r\n1\r\nb\r\n0\r\n\r\n",
        body);
    assert_true(len > 0 && (size_t)len < sizeof request);
    assert_int_equal(status_of(ask(s, request)), 413);
    assert_int_equal(atomic_load(&app.n_handled), 2);
    assert_alive(s);
    server_stop(s);
}

TEST(a_client_that_waits_for_leave_or_announces_a_gigabyte_gets_413_at_once)
{
    struct server_opts o = server_opts_default();
    o.body_cap = 1000;
    struct app app = {0};
    struct server *s = start(&app, &o);
    assert_int_equal(
        status_of(ask(
            s,
            "PUT / HTTP/1.1\r\nHost: h\r\nExpect: 100-continue\r\nContent-Length: 5000\r\n\r\n")),
        413);
    assert_int_equal(
        status_of(ask(s, "PUT / HTTP/1.1\r\nHost: h\r\nContent-Length: 1000000000\r\n\r\n")), 413);
    assert_int_equal(atomic_load(&app.n_handled), 0);
    server_stop(s);
}

TEST(a_head_over_the_cap_is_431)
{
    struct server_opts o = server_opts_default();
    o.header_cap = 4096;
    struct app app = {0};
    struct server *s = start(&app, &o);
    static char request[300000];
    static const size_t size[] = {5000, 20000, 250000};
    for (size_t i = 0; i < ARRAY_LEN(size); i++) {
        int n = snprintf(request, sizeof request, "GET / HTTP/1.1\r\nHost: h\r\nX-Long: ");
        memset(request + n, 'l', size[i]);
        snprintf(request + (size_t)n + size[i], sizeof request - (size_t)n - size[i],
                 "\r\nConnection: close\r\n\r\n");
        int fd = dial(s);
        say(fd, request, strlen(request));
        const char *a = hear(fd, NULL);
        close(fd);
        /* Far past the cap the connection may be gone before the answer is read. */
        if (status_of(a) != 431 && !(size[i] > 100000 && status_of(a) == 0))
            fail_msg("%zu bytes: status %d", size[i], status_of(a));
    }
    int n = snprintf(request, sizeof request, "GET /");
    memset(request + n, 'u', 6000);
    snprintf(request + n + 6000, sizeof request - 7000,
             " HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n");
    assert_int_equal(status_of(ask(s, request)), 431);
    assert_int_equal(atomic_load(&app.n_handled), 0);
    assert_alive(s);
    server_stop(s);
}

TEST(too_many_query_parameters_are_400)
{
    struct app app = {0};
    struct server *s = start(&app, NULL);
    char request[2048] = "GET /?";
    for (int i = 0; i < 200; i++)
        strcat(request, "a=1&");
    strcat(request, " HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n");
    assert_int_equal(status_of(ask(s, request)), 400);
    server_stop(s);
}

/* ---- slow clients ---- */

static struct server_opts impatient(void)
{
    struct server_opts o = server_opts_default();
    o.idle_us = 100 * US_PER_MS;
    return o;
}

TEST(a_stalled_head_or_body_is_cut_with_408)
{
    static const char *const part[] = {
        "GET /a",
        "GET / HTTP/1.1\r\nHost: h\r\nX-",
        "POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 10\r\n\r\n",
        "POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 10\r\n\r\nabc",
        "POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nab",
    };
    struct server_opts o = impatient();
    struct app app = {0};
    struct server *s = start(&app, &o);
    for (size_t i = 0; i < ARRAY_LEN(part); i++) {
        int64_t from = clock_mono_us();
        const char *a = ask(s, part[i]);
        if (status_of(a) != 408)
            fail_msg("%s: %s", part[i], a);
        int64_t took = clock_mono_us() - from;
        assert_true(took >= 80 * US_PER_MS && took < 5 * US_PER_S);
    }
    assert_int_equal(atomic_load(&app.n_handled), 0);
    assert_alive(s);
    server_stop(s);
}

/* Sends a byte every 20 ms until the server has had enough. */
static bool dribble(const struct server *s, const char *head, int64_t at_most_us)
{
    int fd = dial(s);
    say(fd, head, strlen(head));
    bool cut = false;
    for (int64_t end = clock_mono_us() + at_most_us; !cut && clock_mono_us() < end;) {
        struct pollfd p = {.fd = fd, .events = POLLIN};
        cut = !say(fd, "a", 1) || poll(&p, 1, 20) > 0;
    }
    close(fd);
    return cut;
}

TEST(a_client_that_dribbles_is_cut_although_it_is_never_silent)
{
    struct server_opts o = impatient();
    struct app app = {0};
    struct server *s = start(&app, &o);
    assert_true(dribble(s, "GET / HTTP/1.1\r\nX: ", 5 * US_PER_S));
    assert_true(
        dribble(s, "POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 100000\r\n\r\n", 10 * US_PER_S));
    assert_int_equal(atomic_load(&app.n_handled), 0);
    server_stop(s);
}

TEST(an_idle_connection_is_closed_without_a_word)
{
    struct server_opts o = impatient();
    struct app app = {0};
    struct server *s = start(&app, &o);
    int fd = dial(s);
    const char *r = "GET /x HTTP/1.1\r\nHost: h\r\n\r\n";
    say(fd, r, strlen(r));
    const char *a = hear(fd, NULL);
    assert_int_equal(status_of(a), 200);
    assert_null(strstr(a, "408"));
    close(fd);
    server_stop(s);
}

TEST(a_client_that_does_not_read_its_answer_is_cut)
{
    struct server_opts o = impatient();
    o.max_connections = 1;
    struct app app = {0};
    struct server *s = start(&app, &o);
    int fd = dial(s), small = 4096;
    setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &small, sizeof small);
    const char *r = "GET /big HTTP/1.1\r\nHost: h\r\n\r\n";
    for (int i = 0; i < 4; i++) /* more than the kernel takes off its hands */
        say(fd, r, strlen(r));
    /* Its place, the only one, is free again although 12 MiB wait to be read. */
    for (int64_t end = clock_mono_us() + 10 * US_PER_S;;) {
        if (status_of(ask(s, "GET / HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n")) == 200)
            break;
        assert_true(clock_mono_us() < end);
    }
    close(fd);
    server_stop(s);
}

/* ---- malformed ---- */

TEST(malformed_requests_are_refused_and_harm_nobody)
{
    static const char *const bad[] = {
        "\r\n\r\n\r\n",
        "GET\r\n\r\n",
        "GET /\r\n\r\n",
        "GET / HTTP/9.9\r\n\r\n",
        "GET / HTTP/1.1\r\n\r\n",
        " / HTTP/1.1\r\nHost: h\r\n\r\n",
        "GET / HTTP/1.1\r\nHost h\r\n\r\n",
        "GET / HTTP/1.1\r\n: v\r\nHost: h\r\n\r\n",
        "POST / HTTP/1.1\r\nHost: h\r\nContent-Length: -1\r\n\r\n",
        "POST / HTTP/1.1\r\nHost: h\r\nContent-Length: x\r\n\r\n",
        "POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 99999999999999999999999999\r\n\r\n",
        "POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
        "POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\nffffffffffffffffff\r\n",
        "\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
        "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
        "\xff\xfe\xfd / HTTP/1.1\r\nHost: h\r\n\r\n",
    };
    struct server_opts o = impatient();
    struct app app = {0};
    struct server *s = start(&app, &o);
    for (size_t i = 0; i < ARRAY_LEN(bad); i++)
        ask(s, bad[i]);
    /* Bytes that no one would send. */
    uint64_t x = test_seed() * 2654435761u + 1;
    for (int i = 0; i < 200; i++) {
        char junk[400];
        for (size_t k = 0; k < sizeof junk; k++) {
            x ^= x << 13, x ^= x >> 7, x ^= x << 17;
            junk[k] = (char)(k % 7 == 0 ? "\r\n :/%GET"[x % 9] : (char)(x >> 11));
        }
        int fd = dial(s);
        say(fd, junk, sizeof junk);
        shutdown(fd, SHUT_WR);
        hear(fd, NULL);
        close(fd);
    }
    assert_alive(s);
    server_stop(s);
}

/* ---- many ---- */

struct load {
    struct server *s;
    atomic_int ok;
};

static void *load_run(void *arg)
{
    struct load *l = arg;
    for (int k = 0; k < 20; k++) {
        int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
        struct sockaddr_in a = {.sin_family = AF_INET,
                                .sin_port = htons(server_port(l->s)),
                                .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
        const char *r =
            "POST /echo HTTP/1.1\r\nHost: h\r\nContent-Length: 2\r\nConnection: close\r\n\r\nhi";
        char text[1024] = "";
        size_t n = 0;
        if (connect(fd, (struct sockaddr *)&a, sizeof a) == 0 && say(fd, r, strlen(r))) {
            ssize_t got;
            while ((got = recv(fd, text + n, sizeof text - 1 - n, 0)) > 0)
                n += (size_t)got;
        }
        if (strstr(text, "\r\n\r\nhi"))
            atomic_fetch_add(&l->ok, 1);
        close(fd);
    }
    return NULL;
}

TEST(many_connections_at_once_are_all_served_by_one_thread_or_four)
{
    for (int threads = 1; threads <= 4; threads += 3) {
        struct server_opts o = server_opts_default();
        o.threads = threads;
        struct app app = {0};
        struct server *s = start(&app, &o);
        struct load l = {.s = s};
        pthread_t t[16];
        int idle[100];
        for (int i = 0; i < 100; i++)
            idle[i] = dial(s); /* hold connections, say nothing */
        for (int i = 0; i < 16; i++)
            assert_int_equal(pthread_create(&t[i], NULL, load_run, &l), 0);
        for (int i = 0; i < 16; i++)
            pthread_join(t[i], NULL);
        assert_int_equal(atomic_load(&l.ok), 320);
        for (int i = 0; i < 100; i++)
            close(idle[i]);
        server_stop(s);
    }
}

TEST(connections_past_the_limit_are_closed_and_later_ones_served)
{
    struct server_opts o = server_opts_default();
    o.max_connections = 4;
    struct app app = {0};
    struct server *s = start(&app, &o);
    int fd[4];
    for (int i = 0; i < 4; i++) {
        fd[i] = dial(s);
        const char *r = "GET / HTTP/1.1\r\nHost: h\r\n\r\n";
        say(fd[i], r, strlen(r));
        assert_int_equal(status_of(hear(fd[i], "cn=-")), 200);
    }
    for (int i = 0; i < 4; i++)
        close(fd[i]);
    /* The freed places are used again. */
    for (int64_t end = clock_mono_us() + 5 * US_PER_S;;) {
        if (status_of(ask(s, "GET / HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n")) == 200)
            break;
        assert_true(clock_mono_us() < end);
    }
    server_stop(s);
}

/* ---- start ---- */

TEST(options_that_make_no_sense_and_ports_in_use_are_errors)
{
    struct app app = {0};
    struct server *s = start(&app, NULL), *other = NULL;
    struct err e;
    struct server_opts o = server_opts_default();
    o.handler = handler;
    o.port = server_port(s);
    assert_err(server_start(&o, &other, &e), ERR_IO, &e, "listen on 127.0.0.1 port");
    o.port = 0;
    o.address = "localhost";
    assert_err(server_start(&o, &other, &e), ERR_INVAL, &e,
               "localhost is not an IPv4 or IPv6 address");
    o.address = NULL;
    o.cert_file = "/nowhere.pem";
    assert_err(server_start(&o, &other, &e), ERR_INVAL, &e, "needs its key");
    o.key_file = "/nowhere.pem";
    assert_err(server_start(&o, &other, &e), ERR_IO, &e, "/nowhere.pem");
    o.cert_file = o.key_file = NULL;
    o.client_cert_required = true;
    assert_err(server_start(&o, &other, &e), ERR_INVAL, &e, "none is trusted");
    o = server_opts_default();
    assert_err(server_start(&o, &other, &e), ERR_INVAL, &e, "no handler");
    o.handler = handler;
    o.threads = 0;
    assert_err(server_start(&o, &other, &e), ERR_INVAL, &e, "0 threads");
    o.threads = 1;
    o.idle_us = 0;
    assert_err(server_start(&o, &other, &e), ERR_INVAL, &e, "idle time");
    server_stop(s);
}

TEST(a_port_can_be_listened_on_again_at_once)
{
    struct app app = {0};
    struct server *s = start(&app, NULL);
    uint16_t port = server_port(s);
    for (int i = 0; i < 5; i++) {
        assert_alive(s);
        server_stop(s);
        struct server_opts o = server_opts_default();
        o.port = port;
        s = start(&app, &o);
        assert_int_equal(server_port(s), port);
    }
    server_stop(s);
}

TEST(it_listens_on_ipv6_loopback_too)
{
    struct server_opts o = server_opts_default();
    o.address = "::1";
    o.handler = handler;
    struct app app = {0};
    o.ctx = &app;
    struct server *s = NULL;
    struct err e;
    if (server_start(&o, &s, &e) != ERR_OK)
        skip(); /* no IPv6 on this machine */
    int fd = socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0);
    struct sockaddr_in6 a = {
        .sin6_family = AF_INET6, .sin6_port = htons(server_port(s)), .sin6_addr = in6addr_loopback};
    assert_int_equal(connect(fd, (struct sockaddr *)&a, sizeof a), 0);
    const char *r = "GET / HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n";
    say(fd, r, strlen(r));
    assert_non_null(strstr(hear(fd, NULL), "X-Peer: [::1]:"));
    close(fd);
    server_stop(s);
}
