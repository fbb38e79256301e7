/* client_test.c - the client against a server that answers from a script. */
#include <errno.h>
#include <math.h>
#include <pthread.h>

#include "base/clock.h"
#include "base/mem.h"
#include "net/server.h"
#include "prom/client.h"
#include "tests/support/test.h"

#define VECTOR_ONE                                                                                 \
    "{\"status\":\"success\",\"data\":{\"resultType\":\"vector\",\"result\":[{\"metric\":{},\"value\":[12.5,\"1\"]}]}}"

struct step {
    int status;
    const char *body;
    const char *retry_after; /* NULL: none */
    bool cut;
    int64_t delay_us;
};

/* Answers steps in order, the last one again and again; keeps what was asked. */
struct script {
    const struct step *steps;
    int n;
    pthread_mutex_t lock;
    int asked;
    char method[8], target[4096], body[8192], type[64];
};

struct world {
    struct script script;
    struct server *backend;
    struct http_client *http;
    struct http_server *server;
    struct prom *prom;
    struct prom_result r;
};

static void note(struct script *s, const struct server_request *in)
{
    const char *type = server_header(in, "Content-Type");
    (void)snprintf(s->method, sizeof s->method, "%s", in->method);
    (void)snprintf(s->target, sizeof s->target, "%s", in->target);
    (void)snprintf(s->body, sizeof s->body, "%s", in->body ? in->body : "");
    (void)snprintf(s->type, sizeof s->type, "%s", type ? type : "");
}

static void answer(void *ctx, const struct server_request *in, struct server_reply *out)
{
    struct script *s = ctx;
    (void)pthread_mutex_lock(&s->lock);
    const struct step *step = &s->steps[s->asked < s->n ? s->asked : s->n - 1];
    s->asked++;
    note(s, in);
    (void)pthread_mutex_unlock(&s->lock);
    out->status = step->status;
    out->cut = step->cut;
    out->delay_us = step->delay_us;
    out->body = buf_init(1 << 20);
    buf_str(&out->body, step->body ? step->body : "");
    if (step->retry_after)
        server_reply_header(out, "Retry-After", step->retry_after);
}

static struct prom_opts quick(void)
{
    struct prom_opts o = prom_opts_default();
    o.timeout_us = 5 * US_PER_S;
    o.backoff_us = o.backoff_max_us = US_PER_MS;
    return o;
}

static void open_world(struct world *w, const struct step *steps, int n, struct prom_opts o)
{
    struct server_opts so = server_opts_default();
    struct err e;
    memset(w, 0, sizeof *w);
    w->script = (struct script){.steps = steps, .n = n, .lock = PTHREAD_MUTEX_INITIALIZER};
    so.handler = answer;
    so.ctx = &w->script;
    assert_ok(server_start(&so, &w->backend, &e), &e);
    assert_ok(http_client_new(&w->http, &e), &e);
    const char *url = test_path("http://127.0.0.1:%u/prefix", server_port(w->backend));
    assert_ok(http_server_new(&(struct http_server_opts){.url = url}, &w->server, &e), &e);
    prom_new(w->http, w->server, &o, &w->prom);
}

static void close_world(struct world *w)
{
    prom_free(w->prom);
    http_server_free(w->server);
    http_client_free(w->http);
    server_stop(w->backend);
    prom_result_fini(&w->r);
}

static enum err_code ask(struct world *w, struct prom_info *info, struct err *e)
{
    return prom_do(w->prom, &(struct prom_query){.query = "up", .result = &w->r}, info, e);
}

TEST(passing_failures_are_tried_again)
{
    static const struct step steps[] = {
        {.cut = true}, /* first: on a connection used before, curl itself would ask again */
        {.status = 429, .body = "slow down", .retry_after = "0"},
        {.status = 503, .body = "busy"},
        {.status = 200, .body = VECTOR_ONE}};
    struct world w;
    struct prom_info info;
    struct err e;
    open_world(&w, steps, 4, quick());
    assert_ok(ask(&w, &info, &e), &e);
    assert_int_equal(info.tries, 4);
    assert_true(w.r.samples[0].v == 1);
    close_world(&w);
}

TEST(tries_are_limited_and_the_last_failure_is_told)
{
    static const struct step steps[] = {{.status = 502, .body = "<html>bad gateway"}};
    struct world w;
    struct prom_info info;
    struct err e;
    open_world(&w, steps, 1, quick());
    assert_err(ask(&w, &info, &e), ERR_IO, &e, "HTTP 502: <html>bad gateway");
    assert_int_equal(w.script.asked, 4);
    assert_false(info.permanent);
    close_world(&w);
}

TEST(retry_after_is_obeyed_but_not_past_the_deadline)
{
    static const struct step steps[] = {{.status = 429, .retry_after = "30"}};
    struct world w;
    struct err e;
    open_world(&w, steps, 1, quick());
    struct prom_query q = {.query = "up", .result = &w.r, .deadline_us = 2 * US_PER_S};
    int64_t t0 = clock_mono_us();
    assert_err(prom_do(w.prom, &q, NULL, &e), ERR_IO, &e, "HTTP 429");
    assert_true(clock_mono_us() - t0 < 2 * US_PER_S);
    assert_int_equal(w.script.asked, 1);
    close_world(&w);
}

TEST(what_the_query_got_wrong_is_not_tried_again)
{
    static const struct {
        struct step step;
        enum err_code code;
        int sys;
        const char *text;
    } rows[] = {
        {{.status = 400, .body = "{\"status\":\"error\",\"errorType\":\"bad_data\",\"error\":\"parse error\"}"},
         ERR_INVAL, 0, "HTTP 400, bad_data: parse error"},
        {{.status = 422, .body = "{\"status\":\"error\",\"errorType\":\"execution\",\"error\":\"query processing would "
                                 "load too many samples into memory in query execution\"}"},
         ERR_LIMIT, 0, "too many samples"},
        {{.status = 503, .body = "{\"status\":\"error\",\"errorType\":\"timeout\",\"error\":\"query timed out\"}"},
         ERR_IO, ETIMEDOUT, "timeout: query timed out"},
        {{.status = 401, .body = "Unauthorized\n"}, ERR_IO, 0, "HTTP 401: Unauthorized"},
        {{.status = 404, .body = "404 page not found"}, ERR_IO, 0, "HTTP 404"},
        {{.status = 302, .body = ""}, ERR_IO, 0, "HTTP 302"},
        {{.status = 200, .body = "{\"status\":\"error\",\"errorType\":\"bad_data\",\"error\":\"x\"}"}, ERR_INVAL, 0,
         "HTTP 200, bad_data: x"},
        {{.status = 200, .body = "<html>login</html> and more"}, ERR_PARSE, 0, "not JSON at byte 0"},
        {{.status = 400, .body = "\xff\x01 binary"}, ERR_INVAL, 0, "?? binary"},
    };
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct world w;
        struct prom_info info;
        struct err e = {0};
        open_world(&w, &rows[i].step, 1, quick());
        assert_err(ask(&w, &info, &e), rows[i].code, &e, rows[i].text);
        assert_int_equal(e.sys, rows[i].sys);
        assert_int_equal(w.script.asked, 1);
        assert_true(info.permanent);
        close_world(&w);
    }
}

TEST(an_answer_cut_short_is_tried_again)
{
    static const struct step steps[] = {{.status = 200, .body = "{\"status\":\"success\",\"data\":{\"resultType\""},
                                        {.status = 200, .body = VECTOR_ONE}};
    struct world w;
    struct prom_info info;
    struct err e;
    open_world(&w, steps, 2, quick());
    assert_ok(ask(&w, &info, &e), &e);
    assert_int_equal(info.tries, 2);
    assert_int_equal(w.r.n_series, 1);
    close_world(&w);
    open_world(&w, steps, 1, quick());
    assert_err(ask(&w, &info, &e), ERR_PARSE, &e, "ends in the middle");
    close_world(&w);
}

TEST(an_answer_past_a_cap_ends_the_transfer)
{
    static const struct step steps[] = {
        {.status = 200, .body = "{\"status\":\"success\",\"data\":{\"resultType\":\"matrix\",\"result\":["
                                "{\"metric\":{},\"values\":[[1,\"1\"],[2,\"1\"],[3,\"1\"]]}]}}"}};
    struct prom_opts o = quick();
    struct world w;
    struct err e;
    o.caps.samples = 2;
    open_world(&w, steps, 1, o);
    assert_err(ask(&w, NULL, &e), ERR_LIMIT, &e, "more than 2 samples");
    assert_int_equal(w.script.asked, 1);
    close_world(&w);
}

TEST(a_slow_server_runs_into_the_deadline)
{
    static const struct step steps[] = {{.status = 200, .body = VECTOR_ONE, .delay_us = 20 * US_PER_S}};
    struct world w;
    struct err e = {0};
    open_world(&w, steps, 1, quick());
    struct prom_query q = {.query = "up", .result = &w.r, .timeout_us = 50 * US_PER_MS, .deadline_us = 100 * US_PER_MS};
    int64_t t0 = clock_mono_us();
    assert_int_equal(prom_do(w.prom, &q, NULL, &e), ERR_IO);
    assert_int_equal(e.sys, ETIMEDOUT);
    assert_true(clock_mono_us() - t0 < 5 * US_PER_S);
    assert_non_null(strstr(w.script.target, "&timeout=0.050000"));
    close_world(&w);
}

TEST(parameters_are_written_as_the_api_wants_them)
{
    static const struct step steps[] = {{.status = 200, .body = VECTOR_ONE}};
    struct world w;
    struct err e;
    open_world(&w, steps, 1, quick());
    struct prom_query q = {.query = "up{a=\"\xc3\xa9 +&\"}", .result = &w.r, .time_us = 1500000};
    assert_ok(prom_do(w.prom, &q, NULL, &e), &e);
    assert_string_equal(w.script.method, "GET");
    assert_string_equal(w.script.target, "/prefix/api/v1/query?query=up%7Ba%3D%22%C3%A9%20%2B%26%22%7D"
                                         "&time=1.500000&timeout=5.000000");
    q = (struct prom_query){.query = "up", .result = &w.r, .start_us = -1500000, .end_us = 60000000, .step_us = 15000000};
    assert_ok(prom_do(w.prom, &q, NULL, &e), &e);
    assert_string_equal(w.script.target, "/prefix/api/v1/query_range?query=up&start=-1.500000&end=60.000000"
                                         "&step=15.000000&timeout=5.000000");
    close_world(&w);
}

TEST(long_queries_go_as_a_form)
{
    static const struct step steps[] = {{.status = 200, .body = VECTOR_ONE}};
    struct world w;
    struct err e;
    char query[2001];
    memset(query, 'a', 2000);
    query[2000] = 0;
    open_world(&w, steps, 1, quick());
    assert_ok(prom_do(w.prom, &(struct prom_query){.query = query, .result = &w.r}, NULL, &e), &e);
    assert_string_equal(w.script.method, "POST");
    assert_string_equal(w.script.target, "/prefix/api/v1/query");
    assert_string_equal(w.script.type, "application/x-www-form-urlencoded");
    assert_int_equal(strncmp(w.script.body, "query=aaa", 9), 0);
    close_world(&w);
}

TEST(bad_questions_are_refused_before_anything_is_sent)
{
    static const struct step steps[] = {{.status = 200, .body = VECTOR_ONE}};
    struct world w;
    struct err e;
    prom_id id;
    open_world(&w, steps, 1, quick());
    struct prom_query q = {.query = "", .result = &w.r};
    assert_err(prom_start(w.prom, &q, &id, &e), ERR_INVAL, &e, "empty");
    q = (struct prom_query){.query = "up", .result = &w.r, .start_us = 10, .end_us = 9, .step_us = 1};
    assert_err(prom_start(w.prom, &q, &id, &e), ERR_INVAL, &e, "ends before");
    q = (struct prom_query){.query = "up", .result = &w.r, .end_us = 10000, .step_us = 1};
    assert_err(prom_start(w.prom, &q, &id, &e), ERR_LIMIT, &e, "10000 points");
    assert_int_equal(w.script.asked, 0);
    assert_int_equal(prom_running(w.prom), 0);
    close_world(&w);
}

/* ---- several at once ----------------------------------------------------------------------------
 */

struct outcome {
    int n;
    enum err_code rc;
};

static void on_outcome(void *ctx, enum err_code rc, const struct prom_info *info, const struct err *e)
{
    struct outcome *o = ctx;
    (void)info;
    (void)e;
    o->n++;
    o->rc = rc;
}

TEST(a_cancelled_query_ends_once_also_while_it_waits_for_another_try)
{
    static const struct step steps[] = {{.status = 503, .retry_after = "50"}};
    struct world w;
    struct outcome running = {0}, waiting = {0}, freed = {0};
    struct prom_result r[3] = {0};
    prom_id a, b, c;
    struct err e;
    open_world(&w, steps, 1, quick());
    struct prom_query q = {.query = "up", .result = &r[0], .done = on_outcome, .ctx = &running};
    assert_ok(prom_start(w.prom, &q, &a, &e), &e);
    prom_cancel(w.prom, a);
    prom_cancel(w.prom, a);
    assert_int_equal(running.n, 1);
    assert_int_equal(running.rc, ERR_INTERRUPTED);
    q.ctx = &waiting;
    q.result = &r[1];
    assert_ok(prom_start(w.prom, &q, &b, &e), &e);
    while (prom_tick(w.prom) == INT64_MAX) /* until the refusal is in and the next try has a date */
        (void)http_poll(w.http, 10 * US_PER_MS);
    assert_int_equal(waiting.n, 0);
    prom_cancel(w.prom, b);
    assert_int_equal(waiting.n, 1);
    q.ctx = &freed;
    q.result = &r[2];
    assert_ok(prom_start(w.prom, &q, &c, &e), &e);
    close_world(&w);
    assert_int_equal(freed.n, 1);
    for (int i = 0; i < 3; i++)
        prom_result_fini(&r[i]);
}

TEST(many_queries_run_side_by_side)
{
    enum { N = 40 };
    static const struct step steps[] = {{.status = 200, .body = VECTOR_ONE, .delay_us = 20 * US_PER_MS}};
    struct world w;
    struct outcome all = {0};
    static struct prom_result r[N];
    struct err e;
    open_world(&w, steps, 1, quick());
    for (int i = 0; i < N; i++) {
        prom_id id;
        struct prom_query q = {.query = "up", .result = &r[i], .done = on_outcome, .ctx = &all};
        assert_ok(prom_start(w.prom, &q, &id, &e), &e);
    }
    assert_int_equal(prom_running(w.prom), N);
    while (prom_running(w.prom)) {
        (void)http_poll(w.http, 10 * US_PER_MS);
        (void)prom_tick(w.prom);
    }
    assert_int_equal(all.n, N);
    assert_int_equal(all.rc, ERR_OK);
    for (int i = 0; i < N; i++) {
        assert_int_equal(r[i].n_samples, 1);
        prom_result_fini(&r[i]);
    }
    close_world(&w);
}

TEST(an_unreachable_server_is_an_error_that_names_it)
{
    static const struct step steps[] = {{.status = 200, .body = VECTOR_ONE}};
    struct world w;
    struct prom_info info;
    struct err e;
    open_world(&w, steps, 1, quick());
    const char *url = test_path("127.0.0.1:%u", server_port(w.backend));
    server_stop(w.backend);
    w.backend = NULL;
    assert_err(ask(&w, &info, &e), ERR_IO, &e, url);
    assert_int_equal(info.tries, 4);
    assert_int_equal(info.status, 0);
    close_world(&w);
}

/* ---- pieces of a range --------------------------------------------------------------------------
 */

TEST(pieces_cover_a_range_once_and_are_cut_at_fixed_times)
{
    int64_t first, last, at = 1700000000, n = 0, step = 15;
    struct prom_chunks c = prom_chunks(1700000010 / step * step, 1700400000 / step * step, step, 1000);
    at = 1700000010 / step * step;
    while (prom_chunks_next(&c, &first, &last)) {
        assert_int_equal(first, at);
        assert_true(last >= first && (last - first) / step < 1000);
        assert_true(n == 0 || first % (1000 * step) == 0);
        at = last + step;
        n++;
    }
    assert_int_equal(at, 1700400000 / step * step + step);
    assert_int_equal(n, 28);
    c = prom_chunks(0, -step, step, 10);
    assert_false(prom_chunks_next(&c, &first, &last));
    c = prom_chunks(-step, 0, step, 10); /* across the epoch */
    assert_true(prom_chunks_next(&c, &first, &last));
    assert_int_equal(first, -step);
    assert_int_equal(last, -step);
    assert_int_equal(prom_align(-1, 15), -15);
}
