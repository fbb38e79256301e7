/* What writes is sent once: libcurl would repeat a request on a kept connection that closes without
 * an answer, though the server may have done the work. */
#include <stdatomic.h>

#include "net/http.h"
#include "tests/support/raw_server.h"
#include "tests/support/test.h"

static void second_of_each_is_cut(void *ctx, struct raw_conn *c, const struct raw_request *r)
{
    atomic_int *writes = ctx;
    if (strcmp(r->method, "GET") != 0)
        atomic_fetch_add(writes, 1);
    if (r->n == 2)
        raw_close(c);
    else
        raw_answer(c, 200, "text/plain", NULL, "ok");
}

static void one(enum http_method method, enum err_code want)
{
    atomic_int writes = 0;
    struct raw_server *raw = raw_server_start(second_of_each_is_cut, &writes);
    struct http_server_opts o = {.url = raw_server_url(raw)};
    struct http_client *client;
    struct http_server *server;
    struct http_reply reply;
    struct err e;
    assert_ok(http_client_new(&client, &e), &e);
    assert_ok(http_server_new(&o, &server, &e), &e);
    struct http_request get = {.method = HTTP_GET, .path = "/"};
    assert_ok(http_do(client, server, &get, &reply, &e), &e);
    http_reply_fini(&reply);
    struct http_request q = {.method = method, .path = "/thing", .body = "{\"a\":1}", .n_body = 7};
    assert_int_equal(http_do(client, server, &q, &reply, &e), want);
    http_reply_fini(&reply);
    assert_int_equal(writes, 1);
    http_client_free(client);
    http_server_free(server);
    raw_server_stop(raw);
}

TEST(a_write_on_a_kept_connection_that_is_cut_is_not_sent_again)
{
    one(HTTP_PUT, ERR_IO);
    one(HTTP_POST, ERR_IO);
    one(HTTP_PATCH, ERR_IO);
}
