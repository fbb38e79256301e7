/* fail_test.c - requests that run out of memory at every point in turn: the right error, and the client goes on. */
#include "base/mem.h"
#include "net/http.h"
#include "tests/support/fail.h"
#include "tests/support/raw_server.h"
#include "tests/support/test.h"

enum { BODY = 300 * 1000 };

struct rig {
    struct raw_server *raw;
    struct http_client *client;
    struct http_server *server;
    char *body;
    size_t cap;
    bool streamed;
    size_t n_streamed;
};

static void answer(void *ctx, struct raw_conn *c, const struct raw_request *r)
{
    (void)r;
    raw_answer_bytes(c, 200, "text/plain", NULL, ctx, BODY);
}

static bool on_data(void *ctx, const char *p, size_t n)
{
    struct rig *r = ctx;
    (void)p;
    r->n_streamed += n;
    return true;
}

static enum err_code ask(void *ctx, struct err *e)
{
    struct rig *r = ctx;
    struct http_reply reply;
    struct http_request q = {.path = "/", .body_cap = r->cap, .ctx = r, .data = r->streamed ? on_data : NULL};
    r->n_streamed = 0;
    enum err_code rc = http_do(r->client, r->server, &q, &reply, e);
    if (!rc)
        assert_int_equal(r->streamed ? r->n_streamed : reply.body.n, BODY);
    http_reply_fini(&reply);
    assert_int_equal(http_running(r->client), 0);
    return rc;
}

static void rig_start(struct rig *r)
{
    struct err e;
    *r = (struct rig){.body = mem_zero(BODY, 1), .cap = BODY};
    memset(r->body, 'x', BODY);
    r->raw = raw_server_start(answer, r->body);
    assert_ok(http_client_new(&r->client, &e), &e);
    assert_ok(http_server_new(&(struct http_server_opts){.url = raw_server_url(r->raw)}, &r->server, &e), &e);
}

static void rig_stop(struct rig *r)
{
    http_client_free(r->client);
    http_server_free(r->server);
    raw_server_stop(r->raw);
    mem_free(r->body);
}

TEST(whichever_allocation_of_an_answer_fails_it_is_told_and_the_client_goes_on)
{
    struct rig r;
    rig_start(&r);
    for (int streamed = 0; streamed < 2; streamed++) {
        r.streamed = streamed;
        assert_true(fail_sweep(FAIL_ALLOC, 0, ERR_NOMEM, ask, &r) >= 1);
    }
    rig_stop(&r);
}

TEST(a_body_over_its_cap_is_a_limit_and_not_a_lack_of_memory)
{
    struct rig r;
    struct err e;
    rig_start(&r);
    r.cap = BODY - 1;
    assert_err(ask(&r, &e), ERR_LIMIT, &e, "larger than 299999 bytes");
    r.cap = BODY;
    assert_ok(ask(&r, &e), &e);
    rig_stop(&r);
}
