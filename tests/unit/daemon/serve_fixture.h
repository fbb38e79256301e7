/* serve_fixture.h - endpoints on free ports, a client, and a main loop that answers when told to.
 */
#ifndef TESTS_UNIT_DAEMON_SERVE_FIXTURE_H
#define TESTS_UNIT_DAEMON_SERVE_FIXTURE_H

#include <arpa/inet.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/json.h"
#include "base/mem.h"
#include "daemon/serve.h"
#include "net/http.h"
#include "tests/support/test.h"

#define RIG_TOKEN "correct-horse-battery-staple"

struct rig {
    char dir[300];
    struct shared *shared;
    struct freeze *freeze;
    struct metrics *metrics;
    struct serve *serve;
    struct http_client *client;
    struct http_server *server, *nobody; /* with and without the token */
    struct http_reply reply;             /* of the newest request */
    /* the main loop */
    pthread_t loop;
    sem_t woken;
    atomic_bool looping, end;
    struct command last; /* read after rig_loop_end */
    enum command_result result;
};

static inline void rig_wake(void *ctx)
{
    struct rig *r = ctx;
    (void)sem_post(&r->woken);
}

static inline void rig_free_reply(struct rig *r)
{
    http_reply_fini(&r->reply);
    r->reply = (struct http_reply){0};
}

/* `o` may be changed before the start. */
static inline struct serve_opts rig_opts(struct rig *r, const char *name)
{
    struct err e;
    memset(r, 0, sizeof *r);
    (void)snprintf(r->dir, sizeof r->dir, "%s/serve-%s", test_tmp_dir(), name);
    assert_ok(freeze_new(r->dir, false, NULL, &r->freeze, &e), &e);
    assert_int_equal(sem_init(&r->woken, 0, 0), 0);
    r->shared = shared_new(
        &(struct shared_opts){.period_us = 15 * US_PER_S, .wake = rig_wake, .wake_ctx = r});
    r->metrics = metrics_new();
    const char *token = test_path("%s/token", r->dir);
    test_write_file(token, RIG_TOKEN "\n", strlen(RIG_TOKEN) + 1);
    return (struct serve_opts){
        .replica = "sluice-0",
        .auth = {.token_file = token},
        .shared = r->shared,
        .freeze = r->freeze,
        .metrics = r->metrics,
        .wait_us = 20 * US_PER_S,
    };
}

static inline void rig_start(struct rig *r, const struct serve_opts *o)
{
    struct err e;
    assert_ok(serve_start(o, &r->serve, &e), &e);
    const char *url = test_path("http://127.0.0.1:%d", serve_port(r->serve));
    struct http_server_opts with = {.url = url, .token = RIG_TOKEN}, without = {.url = url};
    assert_ok(http_client_new(&r->client, &e), &e);
    assert_ok(http_server_new(&with, &r->server, &e), &e);
    assert_ok(http_server_new(&without, &r->nobody, &e), &e);
}

static inline void rig_simple(struct rig *r, const char *name)
{
    struct serve_opts o = rig_opts(r, name);
    rig_start(r, &o);
}

static inline void *rig_loop_run(void *arg)
{
    struct rig *r = arg;
    struct command c;
    while (!atomic_load(&r->end)) {
        while (shared_command_take(r->shared, &c)) {
            r->last = c;
            shared_command_answer(r->shared, c.id, r->result, "the loop says %s",
                                  command_name(c.kind));
        }
        (void)sem_wait(&r->woken);
    }
    return NULL;
}

static inline void rig_loop_start(struct rig *r, enum command_result result)
{
    r->result = result;
    atomic_store(&r->end, false);
    atomic_store(&r->looping, true);
    assert_int_equal(pthread_create(&r->loop, NULL, rig_loop_run, r), 0);
}

static inline void rig_loop_end(struct rig *r)
{
    if (!atomic_load(&r->looping))
        return;
    atomic_store(&r->end, true);
    atomic_store(&r->looping, false);
    rig_wake(r);
    assert_int_equal(pthread_join(r->loop, NULL), 0);
}

static inline void rig_end(struct rig *r)
{
    rig_loop_end(r);
    rig_free_reply(r);
    http_client_free(r->client);
    http_server_free(r->server);
    http_server_free(r->nobody);
    shared_stop(r->shared);
    serve_stop(r->serve);
    metrics_free(r->metrics);
    freeze_free(r->freeze);
    shared_free(r->shared);
    (void)sem_destroy(&r->woken);
}

/* Status of one request; the answer is in r->reply. */
static inline int rig_ask(struct rig *r, struct http_server *as, enum http_method method,
                          const char *path, const char *body)
{
    struct err e = {0};
    struct http_request q = {
        .method = method, .path = path, .body = body, .n_body = body ? strlen(body) : 0};
    rig_free_reply(r);
    if (http_do(r->client, as, &q, &r->reply, &e))
        fail_msg("%s: %s", path, e.msg);
    return r->reply.status;
}

static inline int rig_get(struct rig *r, const char *path)
{
    return rig_ask(r, r->server, HTTP_GET, path, NULL);
}

static inline int rig_post(struct rig *r, const char *path, const char *body)
{
    return rig_ask(r, r->server, HTTP_POST, path, body);
}

/* The newest answer holds this text. */
static inline void rig_says(const struct rig *r, const char *text)
{
    if (!strstr(r->reply.body.p, text))
        fail_msg("\"%s\" is not in: %s", text, r->reply.body.p);
}

/* A TCP connection from a loopback address of its own choice. */
static inline int rig_dial(const char *from, uint16_t port)
{
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    struct sockaddr_in a = {.sin_family = AF_INET};
    struct timeval patience = {.tv_sec = 30};
    assert_true(fd >= 0);
    assert_int_equal(inet_pton(AF_INET, from, &a.sin_addr), 1);
    assert_int_equal(bind(fd, (struct sockaddr *)&a, sizeof a), 0);
    assert_int_equal(setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience), 0);
    a.sin_port = htons(port);
    assert_int_equal(inet_pton(AF_INET, "127.0.0.1", &a.sin_addr), 1);
    assert_int_equal(connect(fd, (struct sockaddr *)&a, sizeof a), 0);
    return fd;
}

#endif
