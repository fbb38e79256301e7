/* http_stream_test.c - requests that go on for a while: streams, cancelling, requests out of callbacks, side by side. */
#include "net/http.h"

#include <pthread.h>
#include <stdatomic.h>
#include <unistd.h>

#include "tests/unit/net/http_world.h"

static void stream_lines(void *ctx, struct raw_conn *c, const struct raw_request *r)
{
    (void)ctx;
    if (strcmp(r->path, "/refused") == 0) {
        raw_answer(c, 410, "application/json", NULL, "{\"code\":410}");
        return;
    }
    if (strcmp(r->path, "/short") == 0) {
        raw_answer(c, 200, "text/plain", NULL, "short");
        return;
    }
    raw_chunked(c, 200, "application/json");
    raw_chunk(c, "one\n");
    raw_chunk(c, "two\n");
    if (strcmp(r->path, "/open") == 0)
        raw_wait_gone(c);
    else
        raw_chunk(c, "");
}

TEST(stream_delivers_in_order_then_ends_clean)
{
    struct rig r = rig_start(stream_lines, NULL);
    struct seen seen = {0};
    struct err e;
    struct http_request q = {.path = "/", .data = on_data, .done = on_done, .ctx = &seen};
    assert_ok(http_start(r.client, r.server, &q, NULL, &e), &e);
    assert_int_equal(http_running(r.client), 1);
    run_until(&r, &seen.n_done, 1);
    assert_int_equal(seen.rc, ERR_OK);
    assert_int_equal(seen.status, 200);
    assert_string_equal(seen.stream.p, "one\ntwo\n");
    assert_int_equal(http_running(r.client), 0);
    buf_fini(&seen.stream);
    rig_stop(&r);
}

TEST(stream_refused_by_status_has_its_body_collected)
{
    struct rig r = rig_start(stream_lines, NULL);
    struct seen seen = {0};
    struct err e;
    struct http_request q = {.path = "/refused", .data = on_data, .done = on_done, .ctx = &seen};
    assert_ok(http_start(r.client, r.server, &q, NULL, &e), &e);
    run_until(&r, &seen.n_done, 1);
    assert_int_equal(seen.rc, ERR_OK);
    assert_int_equal(seen.status, 410);
    assert_string_equal(seen.body, "{\"code\":410}");
    assert_int_equal(seen.n_chunks, 0);
    rig_stop(&r);
}

TEST(reader_ends_its_stream)
{
    static const char *const paths[] = {"/open", "/"};
    struct rig r = rig_start(stream_lines, NULL);
    for (size_t i = 0; i < ARRAY_LEN(paths); i++) {
        struct seen seen = {.stop_after = 1};
        struct err e;
        struct http_request q = {.path = paths[i], .data = on_data, .done = on_done, .ctx = &seen};
        assert_ok(http_start(r.client, r.server, &q, NULL, &e), &e);
        run_until(&r, &seen.n_done, 1);
        assert_err(seen.rc, ERR_INTERRUPTED, &seen.err, "ended by its reader");
        assert_int_equal(seen.n_chunks, 1);
        assert_int_equal(http_running(r.client), 0);
        buf_fini(&seen.stream);
    }
    rig_stop(&r);
}

TEST(cancelled_request_calls_back_once_and_unknown_ids_are_ignored)
{
    struct rig r = rig_start(say_nothing, NULL);
    struct seen seen = {0};
    struct err e;
    http_id id;
    struct http_request q = {.path = "/", .done = on_done, .ctx = &seen};
    assert_ok(http_start(r.client, r.server, &q, &id, &e), &e);
    http_poll(r.client, 0);
    http_cancel(r.client, id + 1);
    http_cancel(r.client, 0);
    assert_int_equal(seen.n_done, 0);
    http_cancel(r.client, id);
    assert_int_equal(seen.n_done, 1);
    assert_err(seen.rc, ERR_INTERRUPTED, &seen.err, "cancelled");
    http_cancel(r.client, id);
    assert_int_equal(seen.n_done, 1);
    rig_stop(&r);
}

TEST(freeing_the_client_ends_what_runs)
{
    struct rig r = rig_start(say_nothing, NULL);
    struct seen seen = {0};
    struct err e;
    struct http_request q = {.path = "/", .done = on_done, .ctx = &seen};
    for (int i = 0; i < 3; i++)
        assert_ok(http_start(r.client, r.server, &q, NULL, &e), &e);
    http_poll(r.client, 0);
    rig_stop(&r);
    assert_int_equal(seen.n_done, 3);
    assert_int_equal(seen.rc, ERR_INTERRUPTED);
}

/* A stream's reader that asks something else before it goes on, and cancels itself in the end. */
struct nested {
    struct rig *r;
    http_id id;
    int n_chunks, n_done, n_inner;
    enum err_code rc;
};

static bool ask_meanwhile(void *ctx, const char *p, size_t n)
{
    struct nested *s = ctx;
    struct http_reply reply;
    (void)p, (void)n;
    if (++s->n_chunks == 1) {
        for (int i = 0; i < 3; i++) {
            if (!http_do(s->r->client, s->r->server, &(struct http_request){.path = "/short"},
                         &reply, NULL) &&
                reply.status == 200)
                s->n_inner++;
            http_reply_fini(&reply);
        }
        http_cancel(s->r->client, s->id);
    }
    return true;
}

static void count_done(void *ctx, enum err_code rc, struct http_reply *reply, const struct err *e)
{
    struct nested *s = ctx;
    struct http_reply inner;
    (void)reply, (void)e;
    s->n_done++;
    s->rc = rc;
    if (!http_do(s->r->client, s->r->server, &(struct http_request){.path = "/short"}, &inner,
                 NULL))
        s->n_inner++;
    http_reply_fini(&inner);
    http_cancel(s->r->client, s->id);
}

TEST(callbacks_may_do_other_requests_and_cancel_their_own)
{
    struct rig r = rig_start(stream_lines, NULL);
    struct nested s = {.r = &r};
    struct err e;
    struct http_request q = {.path = "/open", .data = ask_meanwhile, .done = count_done, .ctx = &s};
    assert_ok(http_start(r.client, r.server, &q, &s.id, &e), &e);
    run_until(&r, &s.n_done, 1);
    assert_int_equal(s.rc, ERR_INTERRUPTED);
    assert_int_equal(s.n_chunks, 1);
    assert_int_equal(s.n_inner, 4);
    assert_int_equal(http_running(r.client), 0);
    rig_stop(&r);
}

struct barrier_count {
    atomic_int waiting;
    int want;
};

/* Answers only when all have arrived: passes only if they run side by side. */
static void answer_together(void *ctx, struct raw_conn *c, const struct raw_request *r)
{
    struct barrier_count *b = ctx;
    (void)r;
    atomic_fetch_add(&b->waiting, 1);
    int64_t give_up_us = clock_mono_us() + 10 * US_PER_S;
    while (atomic_load(&b->waiting) < b->want && clock_mono_us() < give_up_us)
        usleep(200);
    raw_answer(c, 200, "text/plain", NULL, r->path);
}

TEST(requests_run_side_by_side)
{
    struct barrier_count b = {.want = 40};
    struct rig r = rig_start(answer_together, &b);
    struct seen seen = {0};
    struct err e;
    struct http_request q = {.path = "/", .done = on_done, .ctx = &seen};
    for (int i = 0; i < 40; i++)
        assert_ok(http_start(r.client, r.server, &q, NULL, &e), &e);
    run_until(&r, &seen.n_done, 40);
    assert_int_equal(atomic_load(&b.waiting), 40);
    assert_int_equal(seen.rc, ERR_OK);
    rig_stop(&r);
}

static void *wake_soon(void *arg)
{
    usleep(20000);
    http_wake(arg);
    return NULL;
}

TEST(wake_ends_a_waiting_poll_from_another_thread)
{
    struct rig r = rig_start(say_nothing, NULL);
    pthread_t t;
    assert_int_equal(pthread_create(&t, NULL, wake_soon, r.client), 0);
    int64_t start_us = clock_mono_us();
    assert_int_equal(http_poll(r.client, 20 * US_PER_S), 0);
    assert_in_range(clock_mono_us() - start_us, 0, 10 * US_PER_S);
    pthread_join(t, NULL);
    rig_stop(&r);
}
